//! CKKS: approximate numbers (Cheon, Kim, Kim, Song, ASIACRYPT 2017; with residues: Cheon, Han,
//! Kim, Kim, Song, SAC 2018).
//!
//! **Messages.** Let `ζ = exp(iπ/N)`. A real polynomial `m` modulo `X^N + 1` has the **slots**
//! `m(ζ^(5^j))`, `j < N/2`. Slots can be any complex numbers, and sums and products of polynomials
//! are those of the slots (`embedding.rs`). The message of slots `z` is the polynomial with slots
//! `Δ z`, its coefficients rounded to integers. `Δ` is the **scale** ([`Scale`], [`Encoder`]).
//!
//! **Ciphertexts** have the phase `c_0 + c_1 s = m + e` modulo `Q`: the error is not removed; it is
//! part of the number. A decrypted number is right to about `|e|/Δ`, as long as `m + e` stays below
//! `Q/2`.
//!
//! **Products** have the scale `Δ²`, and **rescaling** divides the phase by the last prime `q` of
//! the level,
//!
//! ```text
//! m + e  ->  (m + e)/q + r_0 + r_1 s,      |r_i| ≤ 1/2,      Δ  ->  Δ/q,
//! ```
//!
//! so scales stay nearly constant if primes are about as large as the scale, and a product costs a
//! level. Scales are **exact** products of powers of 2 and of primes; operations reject ciphertexts
//! whose scales are merely close.
//!
//! **Rotations.** `m(X^(5^k))` has in slot `j` the value of slot `j + k` of `m`, and `m(X^(-1))`
//! has the conjugates. A key first switches to `s(X^(1/g))`, which the automorphism turns back into
//! `s`.
//!
//! | object | is |
//! |---|---|
//! | [`Encoder`] | numbers to a [`Plaintext`] and back; the same bits on every machine |
//! | [`Ciphertext`], [`SeededCiphertext`] | a plaintext encrypted, with its scale |
//! | [`EvaluationKeys`] | keys for products, rotations and conjugations, each for a level |
//! | [`Evaluator`] | computes; also polynomials in the least depth ([`Evaluator::polynomial`]) |
//! | [`LinearTransform`] | matrices by their diagonals, with few key switches |
//! | [`Decryptor`], [`FloodBudget`] | results, and their safe release |
//! | [`Estimator`] | bounds on errors, before the computation |
//! | [`Precision`] | measured errors |
//!
//! # Security
//! Ciphertexts hide their messages (IND-CPA) at the level of their parameters. **Decrypted
//! numbers are different**: they contain the error, and an attacker with the numbers and the
//! ciphertexts can solve for the key (Li, Micciancio, EUROCRYPT 2021). Plain decryption is not
//! secure against adversaries who see results (no IND-CPA-D). There are two remedies: coarse
//! results, which limit the damage without a proof, and flooded results, with a proof and a budget
//! of results for each key. [`Decryptor`] has all three and says which results may be shown to
//! whom.

mod bits;
mod check;
mod ciphertext;
mod embedding;
mod encode;
mod error;
mod evaluator;
mod flood;
mod integer;
mod keys;
mod mask;
mod needs;
mod polynomial;
mod precision;
mod release;
pub(crate) mod roots;
mod rotate;
mod scale;
mod sums;
mod transform;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod known_answers;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod tests;

pub use check::LinearCheck;
pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use embedding::Complex;
pub(crate) use embedding::Embedding;
pub use encode::{EncodeError, Encoder, Plaintext};
pub use error::OperationError;
pub use evaluator::Evaluator;
#[cfg(test)]
pub(crate) use faults::exercise;
pub use keys::EvaluationKeys;
pub use needs::Needs;
pub use polynomial::chebyshev_series;
pub(crate) use polynomial::{Basis, degree, is_sum, log2_up};
pub use precision::{Estimate, Estimator, Precision};
pub use release::{Decryptor, FloodBudget, ReleaseError, integer_of};
pub use rotate::Hoisted;
pub use scale::Scale;
pub use transform::{Grid, LinearTransform};
