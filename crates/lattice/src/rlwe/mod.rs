//! What every scheme on ring learning with errors shares.
//!
//! A **secret** is a ternary `s`. A **ciphertext** is a pair `(c_0, c_1)` over the first `l` data
//! primes, `Q` their product, and its **phase** is `c_0 + c_1 s mod Q`: a message with an error in
//! it. [`crate::bgv`] and [`crate::ckks`] say where the message stands and how errors are kept off
//! it; here is only
//!
//! ```text
//! phase = μ + f e        with f = t where messages are integers modulo t, and f = 1 where they are approximate,
//! ```
//!
//! so that a multiple of `f` is what adds up. Sums of ciphertexts have sums of phases, and products
//! products, but for a third part: `(c_0 d_0, c_0 d_1 + c_1 d_0, c_1 d_1)` has the phase
//! `c_0 d_0 + … + c_1 d_1 s²`, and parts beyond the second are switched back to `s`
//! ([`KeySwitcher`]).
//!
//! | object | is |
//! |---|---|
//! | [`SecretKey`] | `s`, from a seed of 32 bytes |
//! | [`PublicKey`] | `(b, a)` with `b = -a s + f e`, `a` from a seed: half of it is 32 bytes |
//! | [`Ciphertext`] | two or three elements of the same level |
//! | [`SeededCiphertext`] | one made with the secret: `c_1` is 32 bytes |
//! | [`EvaluationKey`] | lets anybody turn a multiple of `s'` into one of `s`: [`KeySwitcher`] |
//!
//! # Security
//! Semantic security of ciphertexts is that of ring-LWE at the parameters' level; evaluation keys
//! assume circular security, as everywhere. Nothing here resists who may ask for decryptions of
//! ciphertexts of their own making (IND-CCA): no scheme that computes does. Who sees the **error**
//! of a decrypted ciphertext learns of the secret: BGV keeps it to itself as long as messages come
//! out right, CKKS does not: [`crate::ckks`] says what follows.

mod ciphertext;
mod evaluation_keys;
mod keys;
mod linear;
mod noise;
pub(crate) mod norms;
mod rotated;
mod switch;

pub use ciphertext::{Ciphertext, SeededCiphertext};
pub(crate) use evaluation_keys::{EvaluationKeys, GaloisKey, conjugation, rotation};
pub use keys::{PublicKey, SecretKey};
pub(crate) use linear::{Diagonals, LinearMap};
pub use noise::Noise;
pub(crate) use rotated::Turned;
pub use switch::{Digits, EvaluationKey, KeySwitcher};

#[cfg(test)]
pub(crate) mod known_answers;

#[cfg(test)]
pub(crate) mod tests {
    use crate::params::{LatticeParameters, Plaintext};
    use crate::ring::Modulus;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    /// Four data primes in two digits, at a degree that is no protection.
    pub(crate) fn toy(t: Option<u64>) -> LatticeParameters {
        let plaintext = t.map_or(Plaintext::Approximate, |t| Plaintext::Integers(Modulus::new(t).unwrap()));
        LatticeParameters::insecure_of_sizes(64, &[40; 4], &[45; 2], 2, plaintext).unwrap()
    }

    /// Cases of a property: so many, or as many as `TOBARI_CASES` says, for long runs.
    pub(crate) fn cases(usual: u32) -> proptest::prelude::ProptestConfig {
        let cases = std::env::var("TOBARI_CASES").ok().and_then(|text| text.parse().ok());
        proptest::prelude::ProptestConfig::with_cases(cases.unwrap_or(usual))
    }

    pub(crate) fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }
}
