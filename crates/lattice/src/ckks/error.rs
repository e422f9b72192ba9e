//! Why operations are rejected.

use super::encode::EncodeError;
use super::scale::Scale;
use crate::rlwe::{self, OtherKey};

/// Why an operation was rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// An object of other parameters.
    #[error("expected objects of the same parameters, found others")]
    OtherParameters,
    /// Ciphertexts or evaluation keys of two secret keys.
    #[error(transparent)]
    OtherKey(#[from] OtherKey),
    /// Parameters without a special prime: keys are impossible.
    #[error("expected parameters with a special prime, found none")]
    NoSpecialPrime,
    /// Different levels.
    #[error("expected one level, found {left} and {right}: take the ciphertext to the lower one")]
    Levels {
        /// Of the first.
        left: usize,
        /// Of the second.
        right: usize,
    },
    /// Different scales.
    #[error("expected equal scales, found {left} and {right}")]
    Scales {
        /// Of the first.
        left: Scale,
        /// Of the second.
        right: Scale,
    },
    /// A level that does not exist.
    #[error("expected a level from 1 to {most}, found {found}")]
    Level {
        /// The highest level.
        most: usize,
        /// The one asked for.
        found: usize,
    },
    /// Too few primes are left.
    #[error("expected a ciphertext of level {least} or more, found level {found}")]
    Exhausted {
        /// The number of primes that the operation needs.
        least: usize,
        /// The number of primes left.
        found: usize,
    },
    /// A result whose scale would leave no room for a message, or would lose the message.
    #[error("expected a scale from 1 to the modulus of level {level}, found a larger or a smaller one")]
    NoRoom {
        /// The level.
        level: usize,
    },
    /// A result that may exceed the modulus: it would come back as another number.
    #[error(
        "the result may be as large as {}, with an error of up to {}, and level {level} holds {} at its scale: \
         declare a smaller range of the inputs, use a smaller scale, or compute this at a higher level",
        short(*.magnitude),
        short(*.error),
        short(*.most)
    )]
    Overflow {
        /// A bound on the slots.
        magnitude: f64,
        /// A bound on their errors.
        error: f64,
        /// The largest number that fits.
        most: f64,
        /// The level of the result.
        level: usize,
    },
    /// A rescaling that leaves no scale for the numbers.
    #[error(
        "the rescaled numbers, at most {}, would have an error of up to {}: rescale after a product, or use a larger \
         scale",
        short(*.magnitude),
        short(*.error)
    )]
    Rounding {
        /// A bound on the slots.
        magnitude: f64,
        /// A bound on the error of rounding.
        error: f64,
    },
    /// A ciphertext that was read from bytes, whose numbers nobody has bounded.
    #[error(
        "nothing is known about the size of the numbers in a ciphertext that was read from bytes: declare their \
         range first"
    )]
    NoEstimate,
    /// An estimate that does not belong to the ciphertext.
    #[error("expected an estimate for level {level} and scale {scale}, found one for others")]
    Estimate {
        /// The level of the ciphertext.
        level: usize,
        /// Its scale.
        scale: Scale,
    },
    /// A key is missing, or is for lower levels.
    #[error("expected a key for {purpose} at level {level}, found {}", rlwe::found_key(*found))]
    MissingKey {
        /// The purpose of the key.
        purpose: String,
        /// The level of the ciphertext.
        level: usize,
        /// The level of the key; none without a key.
        found: Option<usize>,
    },
    /// A plaintext over the data primes only.
    #[error("expected a plaintext over the special primes, too, found one without")]
    NoDiagonal,
    /// The numbers of ciphertexts, plaintexts and keys do not match the steps.
    #[error("expected {expected} plaintexts and {keys} keys, found others")]
    Grid {
        /// Plaintexts.
        expected: usize,
        /// Keys.
        keys: usize,
    },
    /// The power 0, which is no function of a ciphertext.
    #[error("expected an exponent of at least 1, found 0")]
    Exponent,
    /// No ciphertext, or no plaintext, where at least one is needed.
    #[error("expected at least one ciphertext and one plaintext, found none")]
    Empty,
    /// A number of slots to sum that is no power of two, or too large.
    #[error("expected a number of slots that is a power of two up to {most}, found {found}")]
    Count {
        /// `N/2`.
        most: usize,
        /// The number given.
        found: usize,
    },
    /// Another number of ciphertexts than weights.
    #[error("expected {expected} ciphertexts, one for each weight of a row, found {found}")]
    Inputs {
        /// The weights of a row.
        expected: usize,
        /// The ciphertexts.
        found: usize,
    },
    /// Sums that name ciphertexts or weights that are not there.
    #[error("expected sums of the {inputs} inputs and the {weights} weights, found others")]
    Sums {
        /// The inputs.
        inputs: usize,
        /// The weights.
        weights: usize,
    },
    /// A product that still has three parts.
    #[error("expected a relinearised ciphertext, found a product of three parts")]
    ThreeParts,
    /// Numbers that may lie outside the interval of a Chebyshev series.
    #[error(
        "a Chebyshev series takes numbers of at most 1 in absolute value, and these may be as large as {}: declare a \
         smaller range of the inputs, or divide them first",
        short(*.magnitude)
    )]
    Domain {
        /// A bound on the numbers.
        magnitude: f64,
    },
    /// Numbers that may be no bits, or whose errors are too large for bits.
    #[error(
        "expected bits of at most 1 with errors of at most 1/4, and these may be as large as {magnitude}, with errors \
         of {error}: declare what is known of them, or refresh them first"
    )]
    Bits {
        /// A bound on the numbers.
        magnitude: f64,
        /// A bound on their errors.
        error: f64,
    },
    /// A polynomial with too many coefficients, or none.
    #[error("expected from 1 to {most} coefficients, found {found}")]
    Coefficients {
        /// The largest number of coefficients.
        most: usize,
        /// The number given.
        found: usize,
    },
    /// A constant that cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A number with four digits.
fn short(number: f64) -> String {
    match number.abs() {
        0.001..1e7 => format!("{}", (number * 1e4).round() / 1e4),
        _ => format!("{number:.3e}"),
    }
}
