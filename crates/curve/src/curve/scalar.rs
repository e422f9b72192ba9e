//! Secret scalars modulo the order of a curve, and the fixed-length signed digits with which they
//! multiply points.
//!
//! **Regular signed digits.** For odd `k < 2^(wt)` let `e = (k - 1)/2 + 2^(wt-1)`. The `w`-bit
//! windows `u_i` of `e` give `k = Σ d_i 2^(wi)` with `d_i = 2 u_i - (2^w - 1)`: every digit is odd,
//! none is zero, and their number does not depend on `k` (after Joye and Tunstall, AFRICACRYPT
//! 2009). An even `k` is replaced by `n - k`, which is odd because `n` is odd, and the result is
//! negated.
//!
//! # Leakage
//! Constant time. [`Scalar::random`] draws until the candidate is in range; the number of draws
//! reveals nothing about the accepted scalar.

use super::{BuiltCurve, Curve};
use crate::kernels::opaque;
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Words of the largest order.
const MAX_WORDS: usize = 6;

/// An integer in `[0, n)`, `n` the order of the curve. Secret: zeroed on drop, never printed, never
/// compared.
///
/// ```
/// use tobari_curve::{BuiltCurve, Scalar};
/// let scalar = Scalar::from_be_bytes(BuiltCurve::Secp256k1, &[7; 32]).unwrap();
/// assert_eq!(*scalar.to_be_bytes(), vec![7; 32]);
/// ```
///
/// Neither of these compiles:
///
/// ```compile_fail,E0277
/// # use tobari_curve::{BuiltCurve, Scalar};
/// println!("{:?}", Scalar::from_u64(BuiltCurve::Secp256k1, 1));
/// ```
/// ```compile_fail,E0369
/// # use tobari_curve::{BuiltCurve, Scalar};
/// assert!(Scalar::from_u64(BuiltCurve::Secp256k1, 1) == Scalar::from_u64(BuiltCurve::Secp256k1, 1));
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Scalar {
    #[zeroize(skip)]
    curve: BuiltCurve,
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
    pub fn random(curve: BuiltCurve, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
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

    /// A scalar from a small public number, for tests and tables.
    pub fn from_u64(curve: BuiltCurve, value: u64) -> Self {
        let mut words = [0; MAX_WORDS];
        words[0] = value;
        Self { curve, words }
    }

    /// From words below the order.
    pub(crate) fn from_residue(curve: BuiltCurve, residue: &[u64]) -> Self {
        let mut words = [0; MAX_WORDS];
        words[..residue.len()].copy_from_slice(residue);
        Self { curve, words }
    }

    /// A scalar from big-endian bytes, exactly [`Curve::scalar_bytes`] of them.
    ///
    /// # Errors
    /// [`ScalarError`] for a wrong length or a value not below the order.
    pub fn from_be_bytes(curve: BuiltCurve, bytes: &[u8]) -> Result<Self, ScalarError> {
        let expected = curve.scalar_bytes();
        if bytes.len() != expected {
            return Err(ScalarError::Length { curve: curve.into(), expected, found: bytes.len() });
        }
        let mut scalar = Self { curve, words: [0; MAX_WORDS] };
        words_from_be_bytes(bytes, &mut scalar.words);
        if !scalar.is_below_order() {
            return Err(ScalarError::NotBelowOrder { curve: curve.into() });
        }
        Ok(scalar)
    }

    /// Big-endian bytes, [`Curve::scalar_bytes`] of them; zeroed on drop.
    pub fn to_be_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(vec![0; self.curve.scalar_bytes()]);
        words_to_be_bytes(&self.words, &mut bytes);
        bytes
    }

    /// The curve whose order bounds the scalar.
    pub fn curve(&self) -> BuiltCurve {
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

    /// The regular signed digits in windows of `width` bits, as window values `u_i` (the digit is
    /// `2 u_i - (2^width - 1)`), and all ones if their sum is `-self`.
    pub(crate) fn recode(&self, width: u32) -> Recoded {
        let order = self.curve.shape().order;
        let even = opaque((self.words[0] & 1).wrapping_sub(1));
        let mut words = [0u64; MAX_WORDS + 1];
        let mut borrow = 0;
        for (i, word) in self.words.iter().enumerate() {
            let difference = u128::from(order.get(i).copied().unwrap_or(0)).wrapping_sub(u128::from(*word) + borrow);
            borrow = difference >> 127;
            words[i] = word & !even | difference as u64 & even;
        }
        let mut recoded = Recoded::of_odd(words, width, digit_count(self.curve, width));
        recoded.negated = even;
        recoded
    }
}

/// The digits of an odd number below `2^(width · count)`: the windows of
/// `(k - 1)/2 + 2^(width · count - 1)`.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Recoded {
    /// Least significant word first.
    pub(crate) words: [u64; RECODED_WORDS],
    /// All ones if the digits add up to the negative of the recoded scalar.
    pub(crate) negated: u64,
    width: u32,
    count: usize,
}

/// Words of a recoded scalar.
pub(crate) const RECODED_WORDS: usize = MAX_WORDS + 1;

impl Recoded {
    pub(crate) fn of_odd(mut words: [u64; RECODED_WORDS], width: u32, count: usize) -> Self {
        for i in 0..MAX_WORDS {
            words[i] = (words[i] >> 1) | (words[i + 1] << 63);
        }
        words[MAX_WORDS] >>= 1;
        let top_bit = width as usize * count - 1;
        words[top_bit / 64] |= 1 << (top_bit % 64);
        Self { words, negated: 0, width, count }
    }

    /// The window values, the highest first, of the digits' sum or, if `opposite` is all ones, of
    /// its negative.
    pub(crate) fn windows(&self, opposite: u64) -> Zeroizing<Vec<u8>> {
        let mask = (1 << self.width) - 1;
        let places = (0..self.count).rev();
        let window = |place: usize| ((window_at(&self.words, place, self.width) ^ opposite) & mask) as u8;
        let mut windows = Zeroizing::new(Vec::with_capacity(self.count));
        windows.extend(places.map(window));
        windows
    }
}

/// Number of `width`-bit windows that can hold every scalar of the curve.
pub(crate) fn digit_count(curve: BuiltCurve, width: u32) -> usize {
    curve.shape().order_bits.div_ceil(width) as usize
}

/// Window `place` of `width` bits.
fn window_at(words: &[u64], place: usize, width: u32) -> u64 {
    let (word, offset) = window_start(place, width);
    let high = words.get(word + 1).copied().unwrap_or(0);
    ((words[word] >> offset) | (high << 1 << (63 - offset))) & ((1 << width) - 1)
}

/// The word and the bit in which window `place` begins.
pub(crate) fn window_start(place: usize, width: u32) -> (usize, u32) {
    let start = place * width as usize;
    (start / 64, start as u32 % 64)
}

/// Big-endian bytes to words, least significant first.
pub(crate) fn words_from_be_bytes(bytes: &[u8], words: &mut [u64]) {
    words.fill(0);
    let (top, whole) = bytes.as_rchunks::<8>();
    for (word, bytes) in words.iter_mut().zip(whole.iter().rev()) {
        *word = u64::from_be_bytes(*bytes);
    }
    if !top.is_empty() {
        words[whole.len()] = top.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    }
}

/// Words, least significant first, to big-endian bytes; the caller knows that the value fits.
pub(crate) fn words_to_be_bytes(words: &[u64], bytes: &mut [u8]) {
    let (top, whole) = bytes.as_rchunks_mut::<8>();
    for (word, bytes) in words.iter().zip(whole.iter_mut().rev()) {
        *bytes = word.to_be_bytes();
    }
    if !top.is_empty() {
        top.copy_from_slice(&words[whole.len()].to_be_bytes()[8 - top.len()..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use num_bigint::BigInt;

    fn order(curve: BuiltCurve) -> BigInt {
        curve.shape().order.iter().rev().fold(BigInt::from(0), |all, word| (all << 64) + word)
    }

    fn value(scalar: &Scalar) -> BigInt {
        scalar.words().iter().rev().fold(BigInt::from(0), |all, word| (all << 64) + word)
    }

    #[test]
    fn signed_digits_add_up_to_the_scalar_or_its_negative() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in BuiltCurve::ALL {
            for width in 2..=8 {
                for round in 0..40 {
                    let scalar =
                        if round < 4 { Scalar::from_u64(curve, round) } else { Scalar::random(curve, &mut rng) };
                    let recoded = scalar.recode(width);
                    for opposite in [0, u64::MAX] {
                        let sum = recoded
                            .windows(opposite)
                            .iter()
                            .fold(BigInt::from(0), |sum, &u| (sum << width) + (2 * i64::from(u) - ((1 << width) - 1)));
                        let magnitude =
                            if recoded.negated == 0 { value(&scalar) } else { order(curve) - value(&scalar) };
                        let expected = if opposite == 0 { magnitude } else { -magnitude };
                        assert_eq!(sum, expected, "{curve} width {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn random_scalars_are_in_range_and_reach_the_top_bit() {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        for curve in BuiltCurve::ALL {
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
        for curve in BuiltCurve::ALL {
            let scalar = Scalar::random(curve, &mut rng);
            let bytes = scalar.to_be_bytes();
            assert_eq!(Scalar::from_be_bytes(curve, &bytes).unwrap().words, scalar.words);
            let mut order_bytes = vec![0; curve.scalar_bytes()];
            words_to_be_bytes(curve.shape().order, &mut order_bytes);
            let refused = Scalar::from_be_bytes(curve, &order_bytes).err();
            assert_eq!(refused, Some(ScalarError::NotBelowOrder { curve: curve.into() }));
            assert!(matches!(Scalar::from_be_bytes(curve, &bytes[1..]), Err(ScalarError::Length { .. })));
            assert!(Scalar::from_be_bytes(curve, &vec![0xff; curve.scalar_bytes()]).is_err());
        }
    }
}
