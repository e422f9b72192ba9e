//! The common base of all schemes on ring learning with errors.
//!
//! A **secret** is a ternary `s`. A **ciphertext** is a pair `(c_0, c_1)` over the first `l` data
//! primes, `Q` their product, and its **phase** is `c_0 + c_1 s mod Q`: a message with an error in
//! it. [`crate::bgv`] and [`crate::ckks`] define the place of the message and its separation from
//! the error. This module only has
//!
//! ```text
//! phase = μ + f e        f = t for messages that are integers modulo t,
//!                        f = 1 for approximate messages,
//! ```
//!
//! so the accumulated error is a multiple of `f`. The phase of a sum is the sum of the phases. The
//! phase of a product is the product of the phases, but has a third part:
//! `(c_0 d_0, c_0 d_1 + c_1 d_0, c_1 d_1)` has the phase `c_0 d_0 + … + c_1 d_1 s²`. Parts beyond
//! the second are switched back to `s`.
//!
//! | object | is |
//! |---|---|
//! | [`SecretKey`] | `s`, from a seed of 32 bytes |
//! | [`PublicKey`] | `(b, a)` with `b = -a s + f e`, `a` from a seed: half of it is 32 bytes |
//! | ciphertext | two or three elements of the same level |
//! | seeded ciphertext | one made with the secret: `c_1` is 32 bytes |
//! | [`EvaluationKey`] | lets anybody turn a multiple of `s'` into one of `s` |
//! | [`KeyId`] | eight random bytes in all objects of a key, so that two keys do not mix |
//!
//! # Security
//! Semantic security of ciphertexts is that of ring-LWE at the parameters' level; evaluation keys
//! assume circular security, as everywhere. The schemes do not resist an attacker that can have
//! chosen ciphertexts decrypted (IND-CCA); no homomorphic scheme does. The **error** of a decrypted
//! ciphertext leaks information about the secret. BGV does not reveal the error as long as messages
//! decrypt correctly; CKKS does, and [`crate::ckks`] explains the consequences.

mod ciphertext;
mod evaluation_keys;
mod flood;
mod identity;
mod keys;
mod linear;
mod noise;
pub(crate) mod norms;
pub(crate) mod raise;
mod rotated;
mod switch;

pub(crate) use ciphertext::{Ciphertext, SeededCiphertext};
pub(crate) use evaluation_keys::{EvaluationKeys, GaloisKey, conjugation, found_key, purpose, rotation};
pub use flood::flood_distance;
pub use identity::{KeyId, OtherKey};
pub use keys::{PublicKey, SecretKey};
pub(crate) use linear::{Diagonals, LinearMap, Schedule};
pub(crate) use rotated::Turned;
pub use switch::EvaluationKey;
pub(crate) use switch::{Digits, KeySwitcher};

#[cfg(test)]
pub(crate) mod known_answers;
#[cfg(test)]
mod peers;

#[cfg(test)]
pub(crate) mod tests {
    use crate::params::{LatticeParameters, Plaintext};
    use crate::ring::Modulus;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    /// Four data primes in two digits, at a degree without security.
    pub(crate) fn toy(t: Option<u64>) -> LatticeParameters {
        let plaintext = t.map_or(Plaintext::Approximate, |t| Plaintext::Integers(Modulus::new(t).unwrap()));
        LatticeParameters::insecure_of_sizes(64, &[40; 4], &[45; 2], 2, plaintext).unwrap()
    }

    /// Number of cases of a property: `usual`, or `TOBARI_CASES` for long runs.
    pub(crate) fn cases(usual: u32) -> proptest::prelude::ProptestConfig {
        let cases = std::env::var("TOBARI_CASES").ok().and_then(|text| text.parse().ok());
        proptest::prelude::ProptestConfig::with_cases(cases.unwrap_or(usual))
    }

    pub(crate) fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }
}
