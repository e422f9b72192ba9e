//! Secret scalars modulo the order of a curve, and the fixed-length signed digits through which they meet a point.
//!
//! **Regular signed digits.** For odd `k < 2^(wt)` let `e = (k - 1)/2 + 2^(wt-1)`. The `w`-bit windows `u_i` of `e` give
//! `k = Σ d_i 2^(wi)` with `d_i = 2 u_i - (2^w - 1)`: every digit is odd, none is zero, and their number does not depend
//! on `k` (after Joye and Tunstall, AFRICACRYPT 2009). An even `k` is replaced by `n - k`, which is odd since `n` is, and
//! the result negated.
//!
//! # Leakage
//! Constant time. [`Scalar::random`] draws until the candidate is in range; how often says nothing of the one accepted.

use super::Curve;
use rand_core::CryptoRng;
use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Words of the largest order.
const MAX_WORDS: usize = 6;

/// An integer in `[0, n)`, `n` the order of the curve. Secret: zeroed on drop, never printed, never compared.
///
/// ```
/// use tobari_core::curve::{Curve, Scalar};
/// let scalar = Scalar::from_be_bytes(Curve::Secp256k1, &[7; 32]).unwrap();
/// assert_eq!(*scalar.to_be_bytes(), vec![7; 32]);
/// ```
///
/// Neither of these compiles:
///
/// ```compile_fail,E0277
/// # use tobari_core::curve::{Curve, Scalar};
/// println!("{:?}", Scalar::from_u64(Curve::Secp256k1, 1));
/// ```
/// ```compile_fail,E0369
/// # use tobari_core::curve::{Curve, Scalar};
/// assert!(Scalar::from_u64(Curve::Secp256k1, 1) == Scalar::from_u64(Curve::Secp256k1, 1));
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Scalar {
    #[zeroize(skip)]
    curve: Curve,
    /// Least significant word first; zero beyond the curve's words.
    words: [u64; MAX_WORDS],
}

/// Bytes that are not a scalar of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScalarError {
    /// The wrong number of bytes.
    #[error("scalar of {curve}: expected {expected} bytes, found {found}")]
    Length {
        /// The curve expected.
        curve: Curve,
        /// Bytes of a scalar.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// Not below the order.
    #[error("scalar is not below the order of {curve}")]
    NotBelowOrder {
        /// The curve expected.
        curve: Curve,
    },
}

impl Scalar {
    /// Uniform in `[1, n)`.
    pub fn random(curve: Curve, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let shape = curve.shape();
        let top_mask = u64::MAX >> ((64 - shape.order_bits % 64) % 64);
        let top = shape.order_bits.div_ceil(64) as usize - 1;
        loop {
            let mut candidate = Self { curve, words: [0; MAX_WORDS] };
            for word in &mut candidate.words[..=top] {
                *word = rng.next_u64();
            }
            candidate.words[top] &= top_mask;
            if candidate.is_below_order() && !candidate.is_zero() {
                return candidate;
            }
        }
    }

    /// From a small public number, for tests and tables.
    pub fn from_u64(curve: Curve, value: u64) -> Self {
        let mut words = [0; MAX_WORDS];
        words[0] = value;
        Self { curve, words }
    }

    /// From big-endian bytes, exactly [`Curve::scalar_bytes`] of them.
    ///
    /// # Errors
    /// [`ScalarError`] for a wrong length or a value not below the order.
    pub fn from_be_bytes(curve: Curve, bytes: &[u8]) -> Result<Self, ScalarError> {
        let expected = curve.scalar_bytes();
        if bytes.len() != expected {
            return Err(ScalarError::Length { curve, expected, found: bytes.len() });
        }
        let mut scalar = Self { curve, words: [0; MAX_WORDS] };
        words_from_be_bytes(bytes, &mut scalar.words);
        if !scalar.is_below_order() {
            return Err(ScalarError::NotBelowOrder { curve });
        }
        Ok(scalar)
    }

    /// Big-endian bytes, [`Curve::scalar_bytes`] of them; zeroed on drop.
    pub fn to_be_bytes(&self) -> zeroize::Zeroizing<Vec<u8>> {
        let mut bytes = zeroize::Zeroizing::new(vec![0; self.curve.scalar_bytes()]);
        words_to_be_bytes(&self.words, &mut bytes);
        bytes
    }

    /// The curve whose order bounds the scalar.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    fn is_below_order(&self) -> bool {
        let mut borrow = 0;
        let order = self.curve.shape().order;
        for (i, word) in self.words.iter().enumerate() {
            let bound = order.get(i).copied().unwrap_or(0);
            let difference = u128::from(*word).wrapping_sub(u128::from(bound) + borrow);
            borrow = difference >> 127;
        }
        borrow == 1
    }

    fn is_zero(&self) -> bool {
        self.words.ct_eq(&[0; MAX_WORDS]).into()
    }

    /// The words of the integer, as many as the curve has.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.curve.shape().words]
    }

    /// The regular signed digits in windows of `width` bits, least significant first, as window values `u_i` (the digit is
    /// `2 u_i - (2^width - 1)`), written at every `stride`-th place of `out`; returns all ones if their sum is `-self`.
    ///
    /// # Panics
    /// If `out` has no room for [`digit_count`] digits.
    pub(crate) fn write_signed_digits(&self, width: u32, out: &mut [u8], stride: usize) -> u64 {
        let order = self.curve.shape().order;
        let even = (self.words[0] & 1).wrapping_sub(1);
        let mut odd = zeroize::Zeroizing::new([0u64; MAX_WORDS + 1]);
        let mut borrow = 0;
        for (i, word) in self.words.iter().enumerate() {
            let difference = u128::from(order.get(i).copied().unwrap_or(0)).wrapping_sub(u128::from(*word) + borrow);
            borrow = difference >> 127;
            odd[i] = u64::conditional_select(word, &(difference as u64), ((even & 1) as u8).into());
        }
        // e = (k - 1)/2 + 2^(wt - 1): shift down, set the top bit
        for i in 0..MAX_WORDS {
            odd[i] = (odd[i] >> 1) | (odd[i + 1] << 63);
        }
        let count = digit_count(self.curve, width);
        let top_bit = width as usize * count - 1;
        odd[top_bit / 64] |= 1 << (top_bit % 64);
        for digit in 0..count {
            out[digit * stride] = bits(&*odd, digit * width as usize, width);
        }
        even
    }
}

/// Number of `width`-bit windows that hold every scalar of the curve.
pub(crate) fn digit_count(curve: Curve, width: u32) -> usize {
    curve.shape().order_bits.div_ceil(width) as usize
}

/// `width ≤ 8` bits of `words` from bit `start` on.
fn bits(words: &[u64], start: usize, width: u32) -> u8 {
    let (word, offset) = (start / 64, start % 64);
    let low = words[word] >> offset;
    let high = if offset == 0 { 0 } else { words.get(word + 1).copied().unwrap_or(0) << (64 - offset) };
    ((low | high) & ((1 << width) - 1)) as u8
}

/// Big-endian bytes to words, least significant first.
pub(crate) fn words_from_be_bytes(bytes: &[u8], words: &mut [u64]) {
    words.fill(0);
    for (i, byte) in bytes.iter().rev().enumerate() {
        words[i / 8] |= u64::from(*byte) << (8 * (i % 8));
    }
}

/// Words, least significant first, to big-endian bytes; the caller knows that the value fits.
pub(crate) fn words_to_be_bytes(words: &[u64], bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().rev().enumerate() {
        *byte = (words[i / 8] >> (8 * (i % 8))) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use num_bigint::BigInt;

    fn order(curve: Curve) -> BigInt {
        curve.shape().order.iter().rev().fold(BigInt::from(0), |all, word| (all << 64) + word)
    }

    fn value(scalar: &Scalar) -> BigInt {
        scalar.words().iter().rev().fold(BigInt::from(0), |all, word| (all << 64) + word)
    }

    #[test]
    fn signed_digits_add_up_to_the_scalar_or_its_negative() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in Curve::ALL {
            for width in 2..=8 {
                for round in 0..40 {
                    let scalar =
                        if round < 4 { Scalar::from_u64(curve, round) } else { Scalar::random(curve, &mut rng) };
                    let mut digits = vec![0; digit_count(curve, width)];
                    let negated = scalar.write_signed_digits(width, &mut digits, 1);
                    let sum = digits
                        .iter()
                        .rev()
                        .fold(BigInt::from(0), |sum, &u| (sum << width) + (2 * i64::from(u) - ((1 << width) - 1)));
                    let expected = if negated == 0 { value(&scalar) } else { order(curve) - value(&scalar) };
                    assert_eq!(sum, expected, "{curve} width {width}");
                }
            }
        }
    }

    #[test]
    fn random_scalars_are_in_range_and_reach_the_top_bit() {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        for curve in Curve::ALL {
            let bits = curve.shape().order_bits;
            let top = (0..200).map(|_| value(&Scalar::random(curve, &mut rng)));
            let top = top.inspect(|v| assert!(*v < order(curve) && *v > BigInt::from(0))).max().unwrap();
            // orders just above a power of two leave almost everything below it
            assert!(top.bits() >= u64::from(bits) - 1, "{curve}");
        }
    }

    #[test]
    fn bytes_round_trip_and_the_order_is_refused() {
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        for curve in Curve::ALL {
            let scalar = Scalar::random(curve, &mut rng);
            let bytes = scalar.to_be_bytes();
            assert_eq!(Scalar::from_be_bytes(curve, &bytes).unwrap().words, scalar.words);
            let mut order_bytes = vec![0; curve.scalar_bytes()];
            words_to_be_bytes(curve.shape().order, &mut order_bytes);
            assert_eq!(Scalar::from_be_bytes(curve, &order_bytes).err(), Some(ScalarError::NotBelowOrder { curve }));
            assert!(matches!(Scalar::from_be_bytes(curve, &bytes[1..]), Err(ScalarError::Length { .. })));
            assert!(Scalar::from_be_bytes(curve, &vec![0xff; curve.scalar_bytes()]).is_err());
        }
    }
}
