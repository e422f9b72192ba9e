//! BGV: exact integers modulo `t` (Brakerski, Gentry, Vaikuntanathan, ITCS 2012), by residues
//! (Gentry, Halevi, Smart, CRYPTO 2012).
//!
//! A ciphertext's phase modulo `Q` is
//!
//! ```text
//! c_0 + c_1 s = κ m + t e,
//! ```
//!
//! a number that is `κ m` modulo `t`: `m` is the message, a polynomial modulo `t`, and `κ` a public
//! **factor**, at first 1. As long as the phase's coefficients are below `Q/2` in absolute value,
//! the holder of `s` computes the phase exactly, and so `m`. Decryption is an error from `Q/4` on
//! ([`DecryptError`]), so too much noise of an honest computation gives no wrong answer. The maker
//! of a ciphertext can still give it any message.
//!
//! | operation | phase | noise |
//! |---|---|---|
//! | sum | sum, once the factors are equal | sum |
//! | product | product; factors multiply | product |
//! | modulus switch | divided by the last prime `q`, `κ ← κ q^-1` | over `q`, plus a rounding |
//! | rotation, relinearisation | the same message under `s` again | plus that of a key switch |
//!
//! A modulus switch rounds as [`Rounding::Congruent`](crate::ring::Rounding) does.
//!
//! Noise here is the whole phase. The bounds are on its **canonical norm**, the largest absolute
//! value at the complex roots of `X^N + 1`. This norm is no smaller than any coefficient; the norm
//! of a sum is at most the sum of the norms, and that of a product at most their product.
//! Independent coefficients of variance `V` have a norm above `6 √(N V)` with a chance of
//! `N/2 e^-36`: `2^-35.9` for `N = 2^17`, and less for smaller rings (Gentry, Halevi, Smart).
//! [`Ciphertext::noise_bound`] follows these rules;
//! [`Decryptor::noise`] measures the noise. Nothing is known about
//! the noise of a ciphertext that was read from bytes until the reader declares a bound
//! ([`Ciphertext::declare_noise`]).
//!
//! **Slots.** For a prime `t ≡ 1 (mod 2N)` a message is `N` integers, the values of `m` at the
//! roots of `X^N + 1` modulo `t`, and each operation acts on all slots at once ([`Encoder`]). The
//! slots form two rows of `N/2`: slot `j` of the rows is the value at `ψ^(5^j)` and at `ψ^(-5^j)`.
//! Rotations rotate both rows, and the conjugation swaps them.
//!
//! **Choosing parameters.** A product and its modulus switch ([`Evaluator::mul_mod_switch`], the
//! usual way to multiply) use a prime of about `2 log2 t + log2 N` bits or less, so depth `d` takes
//! `d + 1` of them. The special primes together should be no smaller than the primes of a digit.
//! [`Needs`] computes sizes for a depth, and [`NamedSet::ALL`](crate::params::NamedSet::ALL) has
//! sets that fit, `bgv-c` for depth 5.
//!
//! # Security
//! Security is that of [`crate::rlwe`]. A right decrypted message reveals nothing about the error.
//! A crafted phase is not detected: the maker of a ciphertext can give it any message with a small
//! error. The maker must not learn whether the ciphertext decrypts, not even from the time of a
//! later message. **Re-randomise and flood results** ([`Evaluator::flood`]) before you send them to
//! a decryptor that must not learn how they were computed. Otherwise the error leaks information
//! about the plaintexts in products.

mod ciphertext;
mod decryptor;
mod encode;
mod evaluate;
mod expand;
mod factors;
mod flood;
mod forms;
mod keys;
mod needs;
mod polynomial;
mod polynomials;
mod reduce;
mod sums;
mod transform;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod known_answers;
#[cfg(test)]
mod large;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod tests;

pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use decryptor::{DecryptError, Decryptor};
pub use encode::{EncodeError, Encoder, Plaintext, PreparedPlaintext};
pub(crate) use encode::{centred, modulus};
pub use evaluate::{EvaluateError, Evaluator, Hoisted};
pub use expand::Expansion;
pub use forms::{Forms, Turn};
pub use keys::{EvaluationKeys, KeyError};
pub use needs::{Integers, Needs};
pub use transform::LinearTransform;
