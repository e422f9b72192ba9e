//! Batches of affine points.

use super::scalar::{Scalar, digit_count};
use super::{Curve, projective};
use crate::simd::{WINDOW, WINDOW_ENTRIES};
use zeroize::{Zeroize, Zeroizing};

/// A batch of points of one curve, affine, the identity included. Zeroed on drop, since a batch on its way through an
/// encryption holds secrets.
///
/// ```
/// use tobari_core::curve::{Curve, Points, Scalar};
/// let curve = Curve::NistP256;
/// let mut sum = Points::generator(curve);
/// sum.add_assign(&Points::generator(curve)).unwrap();
/// assert!(sum == Points::generator(curve).multiply(0, &Scalar::from_u64(curve, 2)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Points {
    curve: Curve,
    /// The boundary form of [`crate::simd`]: `2L` words a point.
    words: Vec<u64>,
}

impl Drop for Points {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

/// Two batches that cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot add {found} points of {found_curve} to {expected} points of {expected_curve}")]
pub struct Mismatch {
    expected_curve: Curve,
    expected: usize,
    found_curve: Curve,
    found: usize,
}

impl Points {
    /// `count` times the identity.
    pub fn identity(curve: Curve, count: usize) -> Self {
        Self { curve, words: vec![0; 2 * curve.shape().words * count] }
    }

    /// The generator, alone.
    pub fn generator(curve: Curve) -> Self {
        let mut words = curve.shape().generator.to_vec();
        // the catalogue's generators are on their curves: held by the known answers
        let imported = (curve.kernels().import)(&mut words);
        debug_assert!(imported.is_ok());
        Self { curve, words }
    }

    pub(crate) fn from_words(curve: Curve, words: Vec<u64>) -> Self {
        debug_assert_eq!(words.len() % (2 * curve.shape().words), 0);
        Self { curve, words }
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// The curve.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.words.len() / self.stride()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether point `index` is the identity.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn is_identity(&self, index: usize) -> bool {
        self.point_words(index).iter().all(|word| *word == 0)
    }

    /// Words of a point.
    fn stride(&self) -> usize {
        2 * self.curve.shape().words
    }

    fn point_words(&self, index: usize) -> &[u64] {
        &self.words[index * self.stride()..(index + 1) * self.stride()]
    }

    /// Point `index` repeated `count` times.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn repeat(&self, index: usize, count: usize) -> Self {
        Self { curve: self.curve, words: self.point_words(index).repeat(count) }
    }

    /// Appends all points of `other`.
    ///
    /// # Panics
    /// If `other` is of another curve.
    pub(crate) fn append(&mut self, other: &Points) {
        assert_eq!(self.curve, other.curve);
        self.words.extend_from_slice(&other.words);
    }

    /// `self[i] += other[i]`; complete, one field inversion for the batch.
    ///
    /// # Errors
    /// [`Mismatch`] if the batches differ in curve or length; `self` is unchanged then.
    ///
    /// # Leakage
    /// Whether an addition was exceptional (equal, opposite or identity operands).
    pub fn add_assign(&mut self, other: &Points) -> Result<(), Mismatch> {
        if self.curve != other.curve || self.words.len() != other.words.len() {
            return Err(Mismatch {
                expected_curve: self.curve,
                expected: self.len(),
                found_curve: other.curve,
                found: other.len(),
            });
        }
        // a public operation, on ciphertexts: its scratch memory is not worth wiping
        (self.curve.kernels().add_assign)(&mut self.words, &other.words, &mut Vec::new());
        Ok(())
    }

    pub(crate) fn add_words(&mut self, other: &[u64], scratch: &mut Scratch) {
        (self.curve.kernels().add_assign)(&mut self.words, other, &mut scratch.0);
    }

    /// `self[i] = -self[i]`.
    pub fn negate_assign(&mut self) {
        let all = vec![u64::MAX; self.len()];
        (self.curve.kernels().negate_masked)(&mut self.words, &all);
    }

    /// `scalar · self[index]`, alone, by the complete formulas; constant time in the scalar.
    ///
    /// # Panics
    /// If there is no such point, or the scalar is of another curve.
    pub fn multiply(&self, index: usize, scalar: &Scalar) -> Points {
        assert_eq!(self.curve, scalar.curve());
        Self::from_words(self.curve, projective::multiply(self.curve, self.point_words(index), scalar.words()))
    }

    /// `scalar · self[i]` for every `i`: one secret scalar, many public points.
    ///
    /// Regular signed windows of four bits over a table of the eight odd multiples of each point: about `b` doublings and
    /// `b/4` additions a point for an order of `b` bits.
    ///
    /// # Panics
    /// If the scalar is of another curve.
    ///
    /// # Leakage
    /// Constant time in the scalar: its digits choose by full scans. The additions are exceptional only where a prefix `k`
    /// of the scalar's digits has `k ≡ ±d (mod n)` for a digit `|d| ≤ 15`: as `16 ≤ |k|`, that needs a scalar within 31 of a
    /// multiple of the order, of which a random one has a chance below `2^-150`.
    pub fn multiply_all(&self, scalar: &Scalar) -> Points {
        assert_eq!(self.curve, scalar.curve());
        let kernels = self.curve.kernels();
        let mut scratch = Scratch::default();
        let multiples = self.odd_multiples(WINDOW_ENTRIES, &mut scratch);
        let multiples: Vec<u64> = multiples.iter().flat_map(|batch| batch.words.iter().copied()).collect();
        let mut windows = Zeroizing::new(vec![0; digit_count(self.curve, WINDOW)]);
        let negated = scalar.write_signed_digits(WINDOW, &mut windows, 1);
        windows.reverse();
        let mut result = Points::identity(self.curve, self.len());
        (kernels.multiply)(&multiples, &windows, &mut result.words, &mut scratch.0);
        let mut mask = Zeroizing::new(vec![0; self.len()]); // `vec![negated; …]` would branch on the value
        mask.fill(negated);
        (kernels.negate_masked)(&mut result.words, &mask);
        result
    }

    /// `1, 3, 5, …` times every point, `count` batches.
    pub(crate) fn odd_multiples(&self, count: usize, scratch: &mut Scratch) -> Vec<Points> {
        let mut double = self.clone();
        (self.curve.kernels().double_assign)(&mut double.words, &mut scratch.0);
        let mut multiples = vec![self.clone()];
        while multiples.len() < count {
            let mut next = multiples[multiples.len() - 1].clone();
            next.add_words(&double.words, scratch);
            multiples.push(next);
        }
        multiples
    }
}

/// Memory of the batched inversions, kept between calls and zeroed at the end.
#[derive(Default)]
pub(crate) struct Scratch(pub(crate) Vec<u64>);

impl Drop for Scratch {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
