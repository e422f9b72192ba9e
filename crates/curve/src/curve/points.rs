//! Batches of affine points.

use super::endomorphism::windows_of_halves;
use super::scalar::Scalar;
use super::{BuiltCurve, projective};
use crate::kernels::{Scratch, Select, WINDOW};
use tobari_simd::{LANES, Line, Lines};

/// A batch of points of one curve, affine, the identity included. Zeroed on drop, because
/// intermediate batches of an encryption are secret.
///
/// ```
/// use tobari_curve::{BuiltCurve, Points, Scalar};
/// let curve = BuiltCurve::NistP256;
/// let mut sum = Points::generator(curve);
/// sum.add_assign(&Points::generator(curve)).unwrap();
/// assert!(sum == Points::generator(curve).multiply(0, &Scalar::from_u64(curve, 2)));
/// ```
#[derive(Clone)]
pub struct Points {
    curve: BuiltCurve,
    len: usize,
    /// Groups of eight points in the form of the curve's backend ([`crate::kernels`]); the lanes
    /// beyond the end are the identity.
    lines: Lines,
}

impl PartialEq for Points {
    /// Are these the same points of the same curve?
    fn eq(&self, other: &Self) -> bool {
        self.curve == other.curve && self.len == other.len && *self.canonical() == *other.canonical()
    }
}

impl Eq for Points {}

/// Memory for sums of public points.
pub struct Adder(Scratch);

impl Default for Adder {
    fn default() -> Self {
        Self(Scratch::public())
    }
}

/// Two batches that cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot add {found} points of {found_curve} to {expected} points of {expected_curve}")]
pub struct Mismatch {
    expected_curve: BuiltCurve,
    expected: usize,
    found_curve: BuiltCurve,
    found: usize,
}

impl Points {
    /// `count` times the identity.
    pub fn identity(curve: BuiltCurve, count: usize) -> Self {
        Self { curve, len: count, lines: Lines::zero(count.div_ceil(LANES) * group_lines(curve)) }
    }

    /// The generator, alone.
    pub fn generator(curve: BuiltCurve) -> Self {
        Self::from_known_integers(curve, curve.shape().generator)
    }

    /// A batch from canonical integers that are known to be points.
    pub(crate) fn from_known_integers(curve: BuiltCurve, integers: &[u64]) -> Self {
        let mut points = Self::identity(curve, integers.len() / (2 * curve.shape().words));
        let imported = (curve.kernels().import)(integers, &mut points.lines);
        debug_assert!(imported.is_ok());
        points
    }

    /// Canonical integers, `x` then `y`, least significant word first.
    pub(crate) fn to_integers(&self) -> Vec<u64> {
        let mut integers = vec![0; self.len * 2 * self.curve.shape().words];
        (self.curve.kernels().export)(&self.lines, &mut integers);
        integers
    }

    /// The lines, with equal limbs for equal points.
    pub(crate) fn canonical(&self) -> Lines {
        let mut lines = self.lines.clone();
        (self.curve.kernels().canonicalise)(&mut lines);
        lines
    }

    /// The batch as table entries.
    pub(crate) fn pack(&self) -> Vec<Line> {
        let mut table = vec![Line::ZERO; self.len * entry_lines(self.curve)];
        (self.curve.kernels().pack)(&self.lines, &mut table);
        table
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines. The caller must keep the lanes beyond the end at the identity.
    pub(crate) fn lines_mut(&mut self) -> &mut [Line] {
        &mut self.lines
    }

    /// A batch from whole groups; sets the lanes beyond `len` to the identity.
    pub(crate) fn from_lines(curve: BuiltCurve, len: usize, lines: Vec<Line>) -> Self {
        assert_eq!(lines.len(), len.div_ceil(LANES) * group_lines(curve));
        let mut points = Self { curve, len, lines: Lines::new(lines) };
        points.clear_padding();
        points
    }

    /// Sets the lanes beyond the end to the identity.
    fn clear_padding(&mut self) {
        (self.len..self.len.next_multiple_of(LANES)).for_each(|lane| self.clear(lane));
    }

    /// The curve.
    pub fn curve(&self) -> BuiltCurve {
        self.curve
    }

    /// `table[index[i]]`, negated if `negate[i]` is all ones.
    pub(crate) fn selected(curve: BuiltCurve, select: Select, table: &[Line], index: &[u64], negate: &[u64]) -> Self {
        let mut points = Self::identity(curve, index.len());
        select(table, &lanes_of(index), &lanes_of(negate), &mut points.lines);
        points.clear_padding();
        points
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is the batch empty?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Is point `index` the identity?
    ///
    /// # Panics
    /// If the point does not exist.
    pub fn is_identity(&self, index: usize) -> bool {
        assert!(index < self.len, "there is no point {index}");
        let lines = group_lines(self.curve);
        let group = &self.lines[index / LANES * lines..][..lines];
        group.iter().all(|line| line.0[index % LANES] == 0)
    }

    /// The points at `places`, in their order.
    ///
    /// # Panics
    /// If the point does not exist.
    pub fn pick(&self, places: impl ExactSizeIterator<Item = usize>) -> Self {
        let mut picked = Self::identity(self.curve, places.len());
        for (to, from) in places.enumerate() {
            picked.copy_point(to, self, from);
        }
        picked
    }

    /// Puts point `from` of `source` into place `to`.
    fn copy_point(&mut self, to: usize, source: &Points, from: usize) {
        assert!(to < self.len && from < source.len, "there is no point {to} or {from}");
        let lines = group_lines(self.curve);
        let source = &source.lines[from / LANES * lines..][..lines];
        for (line, source) in self.lines[to / LANES * lines..][..lines].iter_mut().zip(source) {
            line.0[to % LANES] = source.0[from % LANES];
        }
    }

    /// Sets point `index` to the identity.
    pub(crate) fn clear(&mut self, index: usize) {
        let lines = group_lines(self.curve);
        self.lines[index / LANES * lines..][..lines].iter_mut().for_each(|line| line.0[index % LANES] = 0);
    }

    /// Point `index` repeated `count` times.
    ///
    /// # Panics
    /// If the point does not exist.
    pub fn repeat(&self, index: usize, count: usize) -> Self {
        self.pick(std::iter::repeat_n(index, count))
    }

    /// Appends all points of `other`.
    ///
    /// # Panics
    /// If `other` is of another curve.
    pub(crate) fn append(&mut self, other: &Points) {
        assert_eq!(self.curve, other.curve);
        let start = self.len;
        self.len += other.len;
        let mut lines = Lines::zero(self.len.div_ceil(LANES) * group_lines(self.curve));
        lines[..self.lines.len()].copy_from_slice(&self.lines);
        self.lines = lines;
        for i in 0..other.len {
            self.copy_point(start + i, other, i);
        }
    }

    /// `self[i] += other[i]`; complete, one field inversion for the batch.
    ///
    /// # Errors
    /// [`Mismatch`] if the batches differ in curve or length; `self` is unchanged then.
    ///
    /// # Leakage
    /// Variable time, for public points: the time reveals exceptional additions, and the
    /// inversion's time depends on the points.
    pub fn add_assign(&mut self, other: &Points) -> Result<(), Mismatch> {
        self.add_assign_with(other, &mut Adder::default())
    }

    /// The same with memory that is reused for the next sum.
    ///
    /// # Errors
    /// As [`Points::add_assign`].
    pub fn add_assign_with(&mut self, other: &Points, adder: &mut Adder) -> Result<(), Mismatch> {
        if self.curve != other.curve || self.len != other.len {
            return Err(Mismatch {
                expected_curve: self.curve,
                expected: self.len(),
                found_curve: other.curve,
                found: other.len(),
            });
        }
        self.add(other, &mut adder.0);
        Ok(())
    }

    /// The same, for batches of equal curve and length.
    pub(crate) fn add(&mut self, other: &Points, scratch: &mut Scratch) {
        assert!(self.curve == other.curve && self.len == other.len, "batches of different shape");
        (self.curve.kernels().add_assign)(&mut self.lines, &other.lines, scratch);
    }

    pub(crate) fn double(&mut self, scratch: &mut Scratch) {
        (self.curve.kernels().double_assign)(&mut self.lines, scratch);
    }

    /// `self[i] = -self[i]`.
    pub fn negate_assign(&mut self) {
        let all = vec![Line([u64::MAX; LANES]); self.len.div_ceil(LANES)];
        (self.curve.kernels().negate_masked)(&mut self.lines, &all);
    }

    /// `scalar · self[index]` for one point, by the complete formulas; constant time in the scalar.
    ///
    /// # Panics
    /// If the point does not exist, or the scalar is of another curve.
    pub fn multiply(&self, index: usize, scalar: &Scalar) -> Points {
        assert_eq!(self.curve, scalar.curve());
        let point = self.repeat(index, 1).to_integers();
        Self::from_known_integers(self.curve, &projective::multiply(self.curve, &point, scalar.words()))
    }

    /// `scalar · self[i]` for every `i`: one secret scalar, many public points.
    ///
    /// Regular signed windows of four bits over a table of the eight odd multiples of each point:
    /// about `b` doublings and `b/4` additions a point for an order of `b` bits.
    ///
    /// # Panics
    /// If the scalar is of another curve.
    ///
    /// # Leakage
    /// Constant time in the scalar: its digits select by full scans. An addition is exceptional
    /// only if a prefix `k` of the scalar's digits has `k ≡ ±d (mod n)` for a digit `|d| ≤ 15`. As
    /// `16 ≤ |k|`, that needs a scalar within 31 of a multiple of the order; a random scalar is
    /// that with a chance below `2^-150`.
    pub fn multiply_all(&self, scalar: &Scalar) -> Points {
        assert_eq!(self.curve, scalar.curve());
        let mut scratch = Scratch::default();
        let multiples = self.vartime_odd_multiples(WINDOW - 1);
        let (windows, terms) = match self.curve.shape().halves {
            Some(halves) => (windows_of_halves(halves, scalar), 2),
            None => {
                let recoded = scalar.recode(WINDOW);
                (recoded.windows(recoded.negated), 1)
            }
        };
        let mut result = Points::identity(self.curve, self.len);
        (self.curve.kernels().multiply)(&multiples.lines, &windows, terms, &mut result.lines, &mut scratch);
        result
    }

    /// `1, 3, 5, … 2^(log + 1) - 1` times every point, by doubling the list. The multiples of all
    /// points follow one another, each padded to whole groups.
    pub(crate) fn vartime_odd_multiples(&self, log: u32) -> Points {
        let (curve, group) = (self.curve, self.lines.len());
        if self.is_empty() {
            return self.clone();
        }
        let mut scratch = Scratch::public();
        let mut step = self.clone();
        let mut lines = Lines::zero(group << log);
        lines[..group].copy_from_slice(&self.lines);
        let mut steps = Lines::zero(group << log.saturating_sub(1));
        for doubling in 0..log {
            step.double(&mut scratch);
            let (known, rest) = lines.split_at_mut(group << doubling);
            let next = &mut rest[..known.len()];
            next.copy_from_slice(known);
            let steps = &mut steps[..known.len()];
            steps.chunks_exact_mut(group).for_each(|steps| steps.copy_from_slice(&step.lines));
            (curve.kernels().add_assign)(next, steps, &mut scratch);
        }
        Self { curve, len: self.len.next_multiple_of(LANES) << log, lines }
    }
}

/// Lines of a group of eight points.
pub(crate) fn group_lines(curve: BuiltCurve) -> usize {
    2 * curve.kernels().limbs
}

/// Lines of a table entry.
pub(crate) fn entry_lines(curve: BuiltCurve) -> usize {
    (2 * curve.shape().words).div_ceil(LANES)
}

/// One value for each point, in the lanes of a batch; zero beyond the end.
fn lanes_of(values: &[u64]) -> Lines {
    let mut lines = Lines::zero(values.len().div_ceil(LANES));
    for (line, values) in lines.iter_mut().zip(values.chunks(LANES)) {
        line.0[..values.len()].copy_from_slice(values);
    }
    lines
}
