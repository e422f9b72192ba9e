//! Elements of the ring over some of its primes.

use super::ntt::{Ntt, reverse};
use super::sample::Stream;
use super::{Modulus, Ring};
use crate::kernels::{Permutation, RingKernels};
use std::marker::PhantomData;
use std::sync::Arc;
use tobari_simd::Buffer;
use zeroize::{Zeroize, Zeroizing};

/// The form of coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coeff {}

/// The form of values at the roots of `X^N + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eval {}

/// [`Coeff`] or [`Eval`].
pub trait Form: sealed::Form + Copy + 'static {}
impl Form for Coeff {}
impl Form for Eval {}

mod sealed {
    pub trait Form {}
    impl Form for super::Coeff {}
    impl Form for super::Eval {}
}

/// Some primes of a ring: the first `data` data primes, then all special ones or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    pub(crate) data: usize,
    pub(crate) special: usize,
}

impl Basis {
    /// Data primes.
    pub fn data(self) -> usize {
        self.data
    }

    /// Special primes.
    pub fn special(self) -> usize {
        self.special
    }

    /// Number of primes, one row for each.
    pub fn rows(self) -> usize {
        self.data + self.special
    }
}

/// An element of the ring over a [`Basis`]: a row of `N` canonical residues for each of its primes.
///
/// ```
/// use tobari_lattice::ring::{Poly, Ring, primes_below};
/// let primes: Vec<u64> = primes_below(50, 1 << 12).take(2).collect();
/// let ring = Ring::new(1 << 11, &primes, &[])?;
/// let mut x = vec![0; 1 << 11];
/// x[1] = 1;
/// // X^(N-1) · X = -1
/// let mut power = Poly::from_signed(&ring, ring.basis(2), &{ x.rotate_left(2); x.clone() }).forward();
/// power.mul_assign(&Poly::from_signed(&ring, ring.basis(2), &{ x.rotate_right(2); x.clone() }).forward());
/// assert_eq!(power.inverse().row(0)[0], primes[0] - 1);
/// # Ok::<(), tobari_lattice::ring::RingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Poly<F: Form> {
    ring: Arc<Ring>,
    basis: Basis,
    values: Buffer,
    form: PhantomData<F>,
}

impl<F: Form> Poly<F> {
    /// Zero.
    pub fn zero(ring: &Arc<Ring>, basis: Basis) -> Self {
        let mut poly = Self::any(ring, basis);
        poly.values.fill(0);
        poly
    }

    /// Arbitrary numbers; the caller must replace all of them by residues.
    pub(crate) fn any(ring: &Arc<Ring>, basis: Basis) -> Self {
        Self { ring: Arc::clone(ring), basis, values: ring.scratch(basis.rows()), form: PhantomData }
    }

    /// An element from its rows, one after another.
    #[cfg(test)]
    pub(crate) fn from_values(ring: &Arc<Ring>, basis: Basis, values: &[u64]) -> Self {
        let mut poly = Self::any(ring, basis);
        poly.values.copy_from_slice(values);
        poly
    }

    /// A uniform element, row after row. `stream` gives a stream for each prime by its place in the
    /// ring, so a row does not depend on the other rows.
    pub fn uniform(ring: &Arc<Ring>, basis: Basis, mut stream: impl FnMut(usize) -> Stream) -> Self {
        let mut poly = Self::any(ring, basis);
        for (row, values) in poly.values.chunks_exact_mut(ring.degree()).enumerate() {
            stream(ring.place(basis, row)).uniform(ring.table(basis, row).modulus(), values);
        }
        poly
    }

    /// The ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// The primes.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The residues modulo prime `row` of the basis.
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn row(&self, row: usize) -> &[u64] {
        &self.values[row * self.ring.degree()..(row + 1) * self.ring.degree()]
    }

    /// Bytes of its rows in memory.
    pub fn memory(&self) -> usize {
        8 * self.values.len()
    }

    /// All rows, one after another.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// All rows, one after another.
    pub(crate) fn values_mut(&mut self) -> &mut [u64] {
        &mut self.values
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.values[row * self.ring.degree()..(row + 1) * self.ring.degree()]
    }

    fn rows_mut(&mut self) -> impl Iterator<Item = (&Ntt, &mut [u64])> {
        self.ring.tables(self.basis).zip(self.values.chunks_exact_mut(self.ring.degree()))
    }

    fn check(&self, other: &Self) {
        assert!(self.ring.is(&other.ring), "elements of two rings");
        assert_eq!(self.basis, other.basis, "elements over two bases");
    }

    /// Applies a kernel to the rows of both.
    fn zip(&mut self, other: &Self, kernel: fn(&Modulus, &mut [u64], &[u64])) {
        self.check(other);
        let rows = other.values.chunks_exact(other.ring.degree());
        for ((table, row), other) in self.rows_mut().zip(rows) {
            kernel(table.modulus(), row, other);
        }
    }

    /// `self += other`.
    ///
    /// # Panics
    /// If the rings or the bases differ.
    pub fn add_assign(&mut self, other: &Self) {
        self.zip(other, RingKernels::best().add_assign);
    }

    /// `self + other`.
    ///
    /// # Panics
    /// If the rings or the bases differ.
    #[must_use]
    pub fn sum(&self, other: &Self) -> Self {
        const BLOCK: usize = 512; // the copied block is still in the nearest cache for the sum
        self.check(other);
        let mut sum = Self::any(&self.ring, self.basis);
        let add_assign = RingKernels::best().add_assign;
        for (i, (table, row)) in sum.rows_mut().enumerate() {
            let terms = self.row(i).chunks(BLOCK).zip(other.row(i).chunks(BLOCK));
            for (out, (a, b)) in row.chunks_mut(BLOCK).zip(terms) {
                out.copy_from_slice(a);
                add_assign(table.modulus(), out, b);
            }
        }
        sum
    }

    /// `self -= other`.
    ///
    /// # Panics
    /// If the rings or the bases differ.
    pub fn sub_assign(&mut self, other: &Self) {
        self.zip(other, RingKernels::best().sub_assign);
    }

    /// `self = -self`.
    pub fn neg_assign(&mut self) {
        for (table, row) in self.rows_mut() {
            (RingKernels::best().neg_assign)(table.modulus(), row);
        }
    }

    /// `self *= scalar`.
    pub fn scale_assign(&mut self, scalar: i64) {
        self.scale_rows(|q| q.reduce_signed(scalar));
    }

    /// Multiplies every row by a residue.
    pub(crate) fn scale_rows(&mut self, mut residue: impl FnMut(&Modulus) -> u64) {
        for (table, row) in self.rows_mut() {
            let q = table.modulus();
            (RingKernels::best().scale_assign)(q, row, q.factor(residue(q)));
        }
    }

    /// Adds a residue to every place of a row: in the form of values, a constant.
    pub(crate) fn add_to_rows(&mut self, mut residue: impl FnMut(&Modulus) -> u64) {
        for (table, row) in self.rows_mut() {
            let (q, term) = (table.modulus(), residue(table.modulus()));
            row.iter_mut().for_each(|value| *value = q.add(*value, term));
        }
    }

    /// Multiplies the rows of `kept` by a residue, and makes all others zero.
    pub(crate) fn keep_rows(&mut self, kept: &std::ops::Range<usize>, residue: impl Fn(&Modulus) -> u64) {
        for (i, (table, row)) in self.rows_mut().enumerate() {
            let q = table.modulus();
            let w = if kept.contains(&i) { residue(q) } else { 0 };
            (RingKernels::best().scale_assign)(q, row, q.factor(w));
        }
    }

    /// The rows of a smaller basis only.
    ///
    /// # Panics
    /// If it is not smaller.
    pub fn restrict(&self, basis: Basis) -> Self {
        let mut smaller = Self::any(&self.ring, basis);
        let rows = smaller.values.chunks_exact_mut(self.ring.degree());
        rows.zip(self.rows_of(basis)).for_each(|(row, values)| row.copy_from_slice(values));
        smaller
    }

    /// The rows of a smaller basis.
    pub(crate) fn rows_of(&self, basis: Basis) -> impl Iterator<Item = &[u64]> {
        (0..basis.rows()).map(move |row| self.row_of(basis, row))
    }

    /// The row for prime `row` of a smaller basis.
    pub(crate) fn row_of(&self, basis: Basis, row: usize) -> &[u64] {
        assert!(basis.data <= self.basis.data && basis.special <= self.basis.special, "not a smaller basis");
        self.row(if row < basis.data { row } else { row - basis.data + self.basis.data })
    }

    /// Drops all rows except those of `basis`.
    pub(crate) fn truncate(&mut self, basis: Basis) {
        assert!(basis.data <= self.basis.data && (basis.special == 0 || basis == self.basis), "not the first rows");
        self.values.truncate(basis.rows() * self.ring.degree());
        self.basis = basis;
    }

    fn into_form<G: Form>(self) -> Poly<G> {
        Poly { ring: self.ring, basis: self.basis, values: self.values, form: PhantomData }
    }
}

impl Poly<Coeff> {
    /// The element with these coefficients, each less than every prime of the basis in absolute
    /// value.
    ///
    /// # Panics
    /// If there are not `N` coefficients.
    pub fn from_signed(ring: &Arc<Ring>, basis: Basis, coefficients: &[i64]) -> Self {
        assert_eq!(coefficients.len(), ring.degree());
        let mut poly = Self::any(ring, basis);
        for (table, row) in poly.rows_mut() {
            (RingKernels::best().of_signed)(table.modulus(), coefficients, row);
        }
        poly
    }

    /// The element with these coefficients, of at most 2^51 in absolute value.
    ///
    /// # Panics
    /// If there are not `N` coefficients, or a larger one.
    pub fn from_integers(ring: &Arc<Ring>, basis: Basis, coefficients: &[i64]) -> Self {
        assert_eq!(coefficients.len(), ring.degree());
        let fits = coefficients.iter().fold(true, |all, x| all & (x.unsigned_abs() <= 1 << 51));
        assert!(fits, "coefficients of at most 2^51");
        let mut poly = Self::any(ring, basis);
        for (table, row) in poly.rows_mut() {
            (RingKernels::best().of_integers)(table.modulus(), coefficients, row);
        }
        poly
    }

    /// The element with uniform integer coefficients from `-2^bits` to below `2^bits`, for any
    /// `bits`.
    pub fn uniform_integers(ring: &Arc<Ring>, basis: Basis, bits: u32, stream: &mut Stream) -> Self {
        Self::sums(ring, basis, &[bits], stream)
    }

    /// The element with integer coefficients from `-2^bits` to below `2^bits`, each the sum of
    /// three uniform ones of widths in the ratio 2 : 1 : 1. Their density is a spline of degree 2,
    /// without the steps of a uniform density. Below two bits there is one uniform number.
    pub fn spline_integers(ring: &Arc<Ring>, basis: Basis, bits: u32, stream: &mut Stream) -> Self {
        match bits {
            0 | 1 => Self::sums(ring, basis, &[bits], stream),
            _ => Self::sums(ring, basis, &[bits - 1, bits - 2, bits - 2], stream),
        }
    }

    /// Sums of uniform integers from `-2^b` to below `2^b`, for each `b` of `parts`, the largest
    /// first. Each number consists of pieces of 32 bits; its highest piece has the sign.
    fn sums(ring: &Arc<Ring>, basis: Basis, parts: &[u32], stream: &mut Stream) -> Self {
        const PIECE: u32 = 32;
        let (mut piece, mut total) = (Zeroizing::new(vec![0; ring.degree()]), Zeroizing::new(vec![0; ring.degree()]));
        let mut sum: Option<Self> = None;
        for level in (0..=parts.first().map_or(0, |bits| bits / PIECE)).rev() {
            total.fill(0);
            for bits in parts.iter().filter(|bits| level <= **bits / PIECE) {
                let (width, offset) = match level == bits / PIECE {
                    true => (bits % PIECE, 0),
                    false => (PIECE - 1, 1 << (PIECE - 1)), // from 0 to 2^32 - 1
                };
                stream.uniform_bits(width, &mut piece);
                total.iter_mut().zip(&*piece).for_each(|(total, value)| *total += value + offset);
            }
            let here = Self::from_integers(ring, basis, &total);
            sum = Some(match sum {
                None => here,
                Some(mut sum) => {
                    sum.scale_assign(1 << PIECE);
                    sum.add_assign(&here);
                    sum
                }
            });
        }
        sum.unwrap_or_else(|| Self::from_integers(ring, basis, &total))
    }

    /// Transforms to values: `N/2 log N` butterflies a row.
    pub fn forward(mut self) -> Poly<Eval> {
        for (table, row) in self.rows_mut() {
            table.forward(row);
        }
        self.into_form()
    }

    /// `f(X^g)`: coefficient `i` moves to place `g i mod 2N`, with the sign given by `X^N = -1`.
    pub fn automorphism(&self, automorphism: &Automorphism) -> Self {
        let mut out = Self::any(&self.ring, self.basis);
        let mask = 2 * self.ring.degree() - 1;
        for ((table, out), row) in out.rows_mut().zip(self.values.chunks_exact(self.ring.degree())) {
            for (i, residue) in row.iter().enumerate() {
                let place = (i * automorphism.element) & mask;
                let wraps = place >= row.len();
                out[place & (mask >> 1)] = if wraps { table.modulus().neg(*residue) } else { *residue };
            }
        }
        out
    }
}

impl Poly<Eval> {
    /// Transforms to coefficients.
    pub fn inverse(mut self) -> Poly<Coeff> {
        for (table, row) in self.rows_mut() {
            table.inverse(row);
        }
        self.into_form()
    }

    /// `self *= other`.
    ///
    /// # Panics
    /// If the rings or the bases differ.
    pub fn mul_assign(&mut self, other: &Self) {
        self.zip(other, RingKernels::best().mul_assign);
    }

    /// The product with an element over the same basis or a larger one.
    ///
    /// # Panics
    /// If the rings differ, or the basis does not fit.
    pub fn times(&self, other: &Self) -> Self {
        assert!(self.ring.is(&other.ring), "elements of two rings");
        let mut product = Self::any(&self.ring, self.basis);
        for (row, table) in self.ring.tables(self.basis).enumerate() {
            let (out, b) = (product.row_mut(row), other.row_of(self.basis, row));
            (RingKernels::best().mul)(table.modulus(), out, self.row(row), b);
        }
        product
    }

    /// `self *= other`, over the same basis or a larger one.
    ///
    /// # Panics
    /// If the rings differ, or the basis does not fit.
    pub fn times_assign(&mut self, other: &Self) {
        Self::all_times_assign(std::slice::from_mut(self), other);
    }

    /// `part *= other` for all parts, which are over one basis. Each piece of `other` is used for
    /// all parts while it is in the cache.
    ///
    /// # Panics
    /// If the rings or the bases of the parts differ, or their basis does not fit.
    pub fn all_times_assign(parts: &mut [Self], other: &Self) {
        /// Residues of a piece: with its product it stays in the nearest cache.
        const PIECE: usize = 1 << 10;
        let Some(first) = parts.first() else { return };
        let (ring, basis) = (Arc::clone(&first.ring), first.basis);
        assert!(ring.is(&other.ring), "elements of two rings");
        parts.iter().for_each(|part| part.check(&parts[0]));
        let (kernel, degree) = (RingKernels::best().mul_assign, ring.degree());
        for (row, (table, other)) in ring.tables(basis).zip(other.rows_of(basis)).enumerate() {
            for (piece, other) in other.chunks(PIECE).enumerate() {
                let start = row * degree + piece * PIECE;
                for part in &mut *parts {
                    kernel(table.modulus(), &mut part.values[start..start + other.len()], other);
                }
            }
        }
    }

    /// `self += a b`.
    ///
    /// # Panics
    /// If the rings differ, or `self` and `a` are over different bases, or `b` is not over theirs
    /// or a larger one.
    pub fn mul_add_assign(&mut self, a: &Self, b: &Self) {
        self.check(a);
        let basis = self.basis;
        let rows = a.values.chunks_exact(a.ring.degree()).zip(b.rows_of(basis));
        for ((table, sum), (a, b)) in self.rows_mut().zip(rows) {
            (RingKernels::best().mul_add_assign)(table.modulus(), sum, a, b);
        }
    }

    /// `Σ a b` over the pairs `(a, b)`. Each element is read once, and the sum is written once.
    ///
    /// # Panics
    /// If there is no pair, the rings or the bases of the `a` differ, or a `b` is not over their
    /// basis or a larger one.
    pub fn inner_product(pairs: &[(&Self, &Self)]) -> Self {
        let (first, _) = pairs[0];
        for (a, b) in pairs {
            first.check(a);
            assert!(first.ring.is(&b.ring), "elements of two rings");
        }
        let mut sum = Self::any(&first.ring, first.basis);
        for (row, table) in first.ring.tables(first.basis).enumerate() {
            let rows: Vec<_> = pairs.iter().map(|(a, b)| (a.row(row), b.row_of(first.basis, row))).collect();
            (RingKernels::best().inner_product)(table.modulus(), sum.row_mut(row), &rows);
        }
        sum
    }

    /// `a_0 b_0`, `a_0 b_1 + a_1 b_0` and `a_1 b_1`.
    ///
    /// # Panics
    /// If the rings or the bases differ.
    pub fn tensor(a: [&Self; 2], b: [&Self; 2]) -> [Self; 3] {
        [a[1], b[0], b[1]].into_iter().for_each(|other| a[0].check(other));
        let mut out = [(); 3].map(|()| Self::any(&a[0].ring, a[0].basis));
        for (row, table) in a[0].ring.tables(a[0].basis).enumerate() {
            let rows = out.each_mut().map(|out| out.row_mut(row));
            let [a, b] = [a, b].map(|pair| pair.map(|element| element.row(row)));
            (RingKernels::best().tensor)(table.modulus(), rows, a, b);
        }
        out
    }

    /// `f(X^g)`: the value at `ψ^e` becomes that at `ψ^(g e)`, so values are only permuted.
    pub fn automorphism(&self, automorphism: &Automorphism) -> Self {
        let mut out = Self::any(&self.ring, self.basis);
        let degree = self.ring.degree();
        for (out, row) in out.values.chunks_exact_mut(degree).zip(self.values.chunks_exact(degree)) {
            automorphism.permute(row, out);
        }
        out
    }
}

impl<F: Form> Zeroize for Poly<F> {
    fn zeroize(&mut self) {
        self.values.wipe();
    }
}

/// Equality of public elements; variable time.
impl<F: Form> PartialEq for Poly<F> {
    fn eq(&self, other: &Self) -> bool {
        self.ring.is(&other.ring) && self.basis == other.basis && *self.values == *other.values
    }
}

/// `X -> X^g` for an odd `g`, prepared.
#[derive(Clone, Debug)]
pub struct Automorphism {
    element: usize,
    /// Its permutation of values.
    permutation: Permutation,
}

impl Automorphism {
    /// `X -> X^element` on polynomials of degree `degree`.
    ///
    /// # Panics
    /// If `element` is even, or not below `2 degree`.
    pub fn new(degree: usize, element: usize) -> Self {
        assert!(element % 2 == 1 && element < 2 * degree, "an odd number below {}, not {element}", 2 * degree);
        let exponent = |place: usize| (2 * reverse(place, degree) + 1) * element % (2 * degree);
        let permutation = Permutation::new(degree, |place| reverse((exponent(place) - 1) / 2, degree));
        Self { element, permutation }
    }

    /// Moves the values of a row.
    pub(crate) fn permute(&self, from: &[u64], to: &mut [u64]) {
        (RingKernels::best().permute)(&self.permutation, from, to);
    }

    /// `g`.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.permutation.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Domain, Seed, primes_below};
    use super::*;

    fn ring() -> Arc<Ring> {
        let primes: Vec<u64> = primes_below(45, 1 << 7).take(5).collect();
        Ring::new(64, &primes[..3], &primes[3..]).unwrap()
    }

    fn random<F: Form>(ring: &Arc<Ring>, basis: Basis, index: u64) -> Poly<F> {
        let seed = Seed::from_bytes([4; 32]);
        Poly::uniform(ring, basis, |place| seed.stream(Domain::Uniform, index << 8 | place as u64))
    }

    #[test]
    fn rows_expand_alone_whatever_the_basis() {
        let ring = ring();
        let whole: Poly<Eval> = random(&ring, ring.key_basis(3), 1);
        for basis in [ring.basis(1), ring.basis(3), ring.key_basis(2)] {
            assert!(whole.restrict(basis) == random(&ring, basis, 1), "{basis:?}");
        }
    }

    #[test]
    fn products_distribute_over_sums() {
        let ring = ring();
        let basis = ring.key_basis(2);
        let [a, b, c] = [1, 2, 3].map(|index| random::<Eval>(&ring, basis, index));
        let mut left = a.clone();
        left.add_assign(&b);
        left.mul_assign(&c);
        let mut right = a.clone();
        right.mul_assign(&c);
        right.mul_add_assign(&b, &c);
        assert!(left == right);
        right.sub_assign(&left);
        assert!(right == Poly::zero(&ring, basis));
        let mut negative = a.clone();
        negative.neg_assign();
        negative.add_assign(&a);
        assert!(negative == right);
        let mut scaled = a.clone();
        scaled.scale_assign(-3);
        (0..3).for_each(|_| scaled.add_assign(&a));
        assert!(scaled == right);
    }

    #[test]
    fn both_forms_have_the_same_automorphisms() {
        let ring = ring();
        let basis = ring.key_basis(3);
        let a: Poly<Coeff> = random(&ring, basis, 5);
        for element in [1, 3, 5, 25, 63, 127] {
            let automorphism = Automorphism::new(64, element);
            let moved = a.automorphism(&automorphism);
            assert!(a.clone().forward().automorphism(&automorphism).inverse() == moved, "{element}");
            assert!((element == 1) == (moved == a));
        }
        // X -> X^-1 sends X to -X^(N-1)
        let mut x = vec![0; 64];
        x[1] = 1;
        let x = Poly::from_signed(&ring, basis, &x).automorphism(&Automorphism::new(64, 127));
        assert_eq!(x.row(0)[63], ring.data_primes()[0].modulus().value() - 1);
    }

    #[test]
    fn automorphisms_are_ring_maps_and_compose() {
        let ring = ring();
        let basis = ring.basis(3);
        let [a, b] = [1, 2].map(|index| random::<Eval>(&ring, basis, index));
        let [five, square] = [5, 25].map(|element| Automorphism::new(64, element));
        let mut product = a.clone();
        product.mul_assign(&b);
        let mut of_each = a.automorphism(&five);
        of_each.mul_assign(&b.automorphism(&five));
        assert!(product.automorphism(&five) == of_each);
        assert!(a.automorphism(&five).automorphism(&five) == a.automorphism(&square));
    }

    #[test]
    #[should_panic(expected = "over two bases")]
    fn elements_over_two_bases_are_not_added() {
        let ring = ring();
        Poly::<Coeff>::zero(&ring, ring.basis(2)).add_assign(&Poly::zero(&ring, ring.basis(3)));
    }
}
