//! Bilinear forms with small integer weights.
//!
//! ```text
//! Σ_(i,j) w_ij x_i ⊗ y_j,      x_0 = y_0 = 1,
//! ```
//!
//! for pairs `x_i = (x_i0, x_i1)` and `y_j`, with three parts each; the constants `x_0` and `y_0`
//! are given. For each `i` the sum `Σ_j w_ij y_j` is first, small weights times polynomials
//! ([`WeightMatrix`]), then one sum of tensors: `n m` multiply-adds and `n` tensors for `n` left
//! and `m` right pairs. Several forms of the same pairs read them once. Rows are processed in
//! tiles, so that all intermediate values fit a cache.
//!
//! **Functions of two nibbles.** If there are sixteen on either side and the Walsh transform of
//! the weights has one absolute value `c`, then
//!
//! ```text
//! Σ w_ij x_i ⊗ y_j = c/256 Σ_(p,q) ±X_p ⊗ Y_q,
//! X_p = Σ_i (-1)^(i·p) x_i,      Y_q = Σ_j (-1)^(j·q) y_j,
//! ```
//!
//! and the only multiplications are those of the tensors: inner sums have signs as weights, four
//! additions each from tables of all sums of four. This applies if the `x_i` and `y_j` are the
//! characters of two nibbles, and the form is a character of any function of both.
//!
//! Weights of the constants may have any size, because they multiply no product of two residues.

use super::{Basis, Eval, Factor, Modulus, Poly};
use crate::kernels::RingKernels;
use crate::kernels::{BLOCK, SIGNED, TILE, WeightMatrix};
use std::sync::Arc;

/// The weights of a form.
pub(crate) struct FormWeights {
    /// Weights of a row, including that of `y_0`.
    width: usize,
    weights: Vec<i64>,
    /// `x_0` and `y_0`.
    constants: [i64; 2],
    /// The `i` from 1 on with weights.
    rows: Vec<usize>,
    /// Their weights, except those of `y_0`; none if they are not small.
    matrix: Option<WeightMatrix>,
    signs: Option<Signs>,
}

/// A function of two nibbles.
struct Signs {
    /// For each `p` the `q` with a negative sign.
    rows: [u16; SIGNED],
    /// `c`.
    scale: i64,
}

impl Signs {
    /// The signs for sixteen rows of sixteen weights; none if the transform has several absolute
    /// values.
    fn new(weights: &[i64]) -> Option<Self> {
        let mut walsh: Vec<i64> = weights.to_vec();
        if walsh.len() != SIGNED * SIGNED || walsh.iter().any(|weight| weight.unsigned_abs() >> 40 != 0) {
            return None;
        }
        for bit in 0..8 {
            for place in (0..walsh.len()).filter(|place| place >> bit & 1 == 0) {
                let (a, b) = (walsh[place], walsh[place | 1 << bit]);
                (walsh[place], walsh[place | 1 << bit]) = (a + b, a - b);
            }
        }
        let scale = walsh[0].abs();
        let one = scale > 0 && walsh.iter().all(|value| value.abs() == scale);
        let row = |p: usize| {
            (0..SIGNED).map(|q| u16::from(walsh[SIGNED * p + q] < 0) << q).fold(0, |signs, sign| signs | sign)
        };
        one.then(|| Self { rows: std::array::from_fn(row), scale })
    }

    /// `(-1)^(i·p)` for each `p`.
    fn characters() -> [u16; SIGNED] {
        let row =
            |p: usize| (0..SIGNED).map(|i| ((i & p).count_ones() as u16 & 1) << i).fold(0, |all, sign| all | sign);
        std::array::from_fn(row)
    }
}

impl FormWeights {
    /// A form from `w_ij` row by row, and `x_0` and `y_0`.
    ///
    /// # Panics
    /// If the weights are not rows of `right + 1`, or only the first row has any.
    pub(crate) fn new(right: usize, weights: Vec<i64>, constants: [i64; 2]) -> Self {
        let width = right + 1;
        assert!(right > 0 && weights.len().is_multiple_of(width), "whole rows");
        let row = |i: usize| &weights[i * width..(i + 1) * width];
        let rows: Vec<usize> =
            (1..weights.len() / width).filter(|i| row(*i).iter().any(|weight| *weight != 0)).collect();
        assert!(!rows.is_empty(), "a product");
        let narrow: Result<Vec<i32>, _> =
            rows.iter().flat_map(|i| &row(*i)[1..]).map(|weight| i32::try_from(*weight)).collect();
        let matrix = narrow.ok().and_then(|weights| WeightMatrix::new(right, &weights));
        let signs = Signs::new(&weights).filter(|_| width == SIGNED);
        Self { width, weights, constants, rows, matrix, signs }
    }

    /// Pairs on the left.
    fn left(&self) -> usize {
        self.weights.len() / self.width - 1
    }

    fn row(&self, i: usize) -> &[i64] {
        &self.weights[i * self.width..(i + 1) * self.width]
    }
}

/// A form modulo one prime.
struct Residues<'a> {
    form: &'a FormWeights,
    /// Weights of the first row.
    first: Vec<Factor>,
    /// Weights of `y_0` in the first row and in the rows with weights.
    constants: Vec<u64>,
}

impl<'a> Residues<'a> {
    fn new(form: &'a FormWeights, q: &Modulus) -> Self {
        let [left, right] = form.constants.map(|constant| q.reduce_signed(constant));
        let weight = |weight: &i64| q.reduce_signed(*weight);
        let first = form.row(0)[1..].iter().map(|w| q.factor(q.mul(left, weight(w)))).collect();
        let constant = |i: usize| {
            let own = q.mul(right, weight(&form.row(i)[0]));
            if i == 0 { q.mul(left, own) } else { own }
        };
        let constants = std::iter::once(0).chain(form.rows.iter().copied()).map(constant).collect();
        Self { form, first, constants }
    }

    /// The sums `Σ_j w_ij y_j` of the rows, one after another, both parts of each.
    fn inner(&self, q: &Modulus, ys: [&[u64]; 2], tile: &mut Tile) {
        let kernels = RingKernels::best();
        for (part, y) in ys.into_iter().enumerate() {
            match &self.form.matrix {
                Some(matrix) => (kernels.weighted_sums)(q, matrix, y, &mut tile.sums),
                None => {
                    for (i, sum) in self.form.rows.iter().zip(tile.sums.chunks_exact_mut(TILE)) {
                        sum.fill(0);
                        for (weight, y) in self.form.row(*i)[1..].iter().zip(y.chunks_exact(TILE)) {
                            (kernels.scale_add_assign)(q, sum, y, q.factor(q.reduce_signed(*weight)));
                        }
                    }
                }
            }
            let rows = tile.pairs.chunks_exact_mut(2 * TILE).zip(tile.sums.chunks_exact(TILE));
            for ((pair, sum), constant) in rows.take(self.form.rows.len()).zip(&self.constants[1..]) {
                let out = &mut pair[part * TILE..(part + 1) * TILE];
                out.copy_from_slice(sum);
                if part == 0 && *constant != 0 {
                    out.iter_mut().for_each(|value| *value = q.add(*value, *constant));
                }
            }
        }
    }

    /// The form of a tile.
    fn apply(&self, q: &Modulus, xs: &[u64], ys: [&[u64]; 2], tile: &mut Tile) {
        let kernels = RingKernels::best();
        self.inner(q, ys, tile);
        let which: Vec<u32> = self.form.rows.iter().map(|i| *i as u32 - 1).collect();
        (kernels.tensor_sum)(q, xs, &which, &tile.pairs[..2 * TILE * which.len()], &mut tile.out);
        for (part, y) in ys.into_iter().enumerate() {
            let out = &mut tile.out[part * TILE..(part + 1) * TILE];
            for (weight, y) in self.first.iter().zip(y.chunks_exact(TILE)).filter(|(weight, _)| weight.value != 0) {
                (kernels.scale_add_assign)(q, out, y, *weight);
            }
            if part == 0 && self.constants[0] != 0 {
                out.iter_mut().for_each(|value| *value = q.add(*value, self.constants[0]));
            }
        }
    }
}

/// Buffers for one tile.
struct Tile {
    /// A part of the inner sums.
    sums: Vec<u64>,
    /// The inner sums.
    pairs: Vec<u64>,
    /// Three parts.
    out: Vec<u64>,
}

/// All forms that are functions of two nibbles.
struct Nibbles {
    /// The signs of all forms.
    rows: Vec<u16>,
    characters: [u16; SIGNED],
    constants: [i64; 2],
    /// Sixteen pairs on either side, and their characters.
    pairs: [Vec<u64>; 2],
    transformed: [Vec<u64>; 2],
    /// The inner sums.
    sums: Vec<u64>,
}

impl Nibbles {
    fn new(forms: &[FormWeights]) -> Option<Self> {
        let constants = forms.first()?.constants;
        let mut rows = Vec::with_capacity(SIGNED * forms.len());
        for form in forms {
            rows.extend(form.signs.as_ref().filter(|_| form.constants == constants)?.rows);
        }
        let pairs = || [(); 2].map(|()| vec![0; 2 * TILE * SIGNED]);
        let sums = vec![0; 2 * TILE * rows.len()];
        Some(Self { rows, characters: Signs::characters(), constants, pairs: pairs(), transformed: pairs(), sums })
    }

    /// Sets the constants modulo a prime.
    fn begin(&mut self, q: &Modulus) {
        for (constant, pairs) in self.constants.iter().zip(&mut self.pairs) {
            pairs[..TILE].fill(q.reduce_signed(*constant));
        }
    }

    /// Computes the common part of all forms in a tile; the pairs must be in their places.
    fn prepare(&mut self, q: &Modulus) {
        let sign_sums = RingKernels::best().sign_sums;
        for part in [0, TILE] {
            for (pairs, transformed) in self.pairs.iter().zip(&mut self.transformed) {
                sign_sums(q, &pairs[part..], &self.characters, &mut transformed[part..]);
            }
            sign_sums(q, &self.transformed[1][part..], &self.rows, &mut self.sums[part..]);
        }
    }

    /// A form, with its factor `c/256` in `scale`.
    fn apply(&self, q: &Modulus, which: usize, scale: Factor, out: &mut [u64]) {
        const ALL: [u32; SIGNED] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let own = &self.sums[2 * TILE * SIGNED * which..][..2 * TILE * SIGNED];
        (RingKernels::best().tensor_sum)(q, &self.transformed[0], &ALL, own, out);
        (RingKernels::best().scale_assign)(q, out, scale);
    }
}

/// Copies a tile of a row over a smaller basis.
fn pack(part: &Poly<Eval>, (basis, row): (Basis, usize), from: usize, packed: &mut [u64]) {
    let (row, tile) = (part.row_of(basis, row), TILE.min(part.ring().degree()));
    packed[..tile].copy_from_slice(&row[from..from + tile]);
}

/// Writes a tile of three parts.
fn unpack(made: &mut [Poly<Eval>; 3], row: usize, from: usize, out: &[u64]) {
    for (part, out) in made.iter_mut().zip(out.chunks_exact(TILE)) {
        let tile = TILE.min(part.ring().degree());
        part.row_mut(row)[from..from + tile].copy_from_slice(&out[..tile]);
    }
}

impl Poly<Eval> {
    /// The three parts of each form over `basis`; the bases of the pairs must contain it.
    ///
    /// # Panics
    /// If there is no form, a form has another number of pairs, or a basis does not contain
    /// `basis`.
    pub(crate) fn bilinear_forms(
        forms: &[FormWeights],
        left: &[[&Self; 2]],
        right: &[[&Self; 2]],
        basis: Basis,
    ) -> Vec<[Self; 3]> {
        assert!(forms.iter().all(|form| form.left() == left.len() && form.width == right.len() + 1), "as many pairs");
        let ring = left[0][0].ring();
        let mut made: Vec<[Self; 3]> = forms.iter().map(|_| std::array::from_fn(|_| Self::any(ring, basis))).collect();
        match Nibbles::new(forms) {
            Some(nibbles) => Self::of_nibbles(nibbles, forms, [left, right], &mut made),
            None => Self::of_weights(forms, left, right, &mut made),
        }
        made
    }

    fn of_nibbles(mut nibbles: Nibbles, forms: &[FormWeights], pairs: [&[[&Self; 2]]; 2], made: &mut [[Self; 3]]) {
        let (ring, basis) = (Arc::clone(made[0][0].ring()), made[0][0].basis());
        let tile = TILE.min(ring.degree());
        let mut out = vec![0; 3 * TILE];
        for (row, table) in ring.tables(basis).enumerate() {
            let q = table.modulus();
            nibbles.begin(q);
            let inverse = q.inverse(q.reduce((SIGNED * SIGNED) as u64));
            let inverse = inverse.unwrap_or_else(|| unreachable!("primes are odd"));
            let scale = |form: &FormWeights| form.signs.as_ref().map_or(0, |signs| q.reduce_signed(signs.scale));
            let scales: Vec<Factor> = forms.iter().map(|form| q.factor(q.mul(scale(form), inverse))).collect();
            for from in (0..ring.degree()).step_by(tile) {
                for (pairs, packed) in pairs.iter().zip(&mut nibbles.pairs) {
                    let places = packed.chunks_exact_mut(TILE).skip(2);
                    pairs.iter().flatten().zip(places).for_each(|(part, out)| pack(part, (basis, row), from, out));
                }
                nibbles.prepare(q);
                for (which, (made, scale)) in made.iter_mut().zip(&scales).enumerate() {
                    nibbles.apply(q, which, *scale, &mut out);
                    unpack(made, row, from, &out);
                }
            }
        }
    }

    fn of_weights(forms: &[FormWeights], left: &[[&Self; 2]], right: &[[&Self; 2]], made: &mut [[Self; 3]]) {
        let (ring, basis) = (Arc::clone(made[0][0].ring()), made[0][0].basis());
        let tile = TILE.min(ring.degree());
        let mut work = Tile {
            sums: vec![0; left.len().next_multiple_of(BLOCK) * TILE],
            pairs: vec![0; 2 * left.len() * TILE],
            out: vec![0; 3 * TILE],
        };
        let mut xs = vec![0; 2 * left.len() * TILE];
        let mut ys = [(); 2].map(|()| vec![0; right.len() * TILE]);
        for (row, table) in ring.tables(basis).enumerate() {
            let q = table.modulus();
            let residues: Vec<Residues<'_>> = forms.iter().map(|form| Residues::new(form, q)).collect();
            for from in (0..ring.degree()).step_by(tile) {
                let place = (basis, row);
                let packed = xs.chunks_exact_mut(TILE);
                left.iter().flatten().zip(packed).for_each(|(part, out)| pack(part, place, from, out));
                for (half, ys) in ys.iter_mut().enumerate() {
                    let packed = ys.chunks_exact_mut(TILE);
                    right.iter().zip(packed).for_each(|(pair, out)| pack(pair[half], place, from, out));
                }
                for (form, made) in residues.iter().zip(&mut *made) {
                    form.apply(q, &xs, [&ys[0], &ys[1]], &mut work);
                    unpack(made, row, from, &work.out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::{Domain, Ring, Seed, primes_below};
    use super::*;

    #[test]
    fn forms_are_sums_of_weighted_tensors_over_a_smaller_basis_as_well() {
        let primes: Vec<u64> = [50, 41, 30].iter().flat_map(|bits| primes_below(*bits, 1 << 8).take(1)).collect();
        for degree in [32, 128] {
            let ring = Ring::new(degree, &primes, &[]).unwrap();
            let seed = Seed::from_bytes([9; 32]);
            let element = |i: u64, rows| {
                Poly::<Eval>::uniform(&ring, ring.basis(rows), |row| seed.stream(Domain::Error, 8 * i + row as u64))
            };
            // some over more primes than others
            let all: Vec<Poly<Eval>> = (0..10).map(|i| element(i, 2 + i as usize / 2 % 2)).collect();
            let pairs: Vec<[&Poly<Eval>; 2]> = all.chunks(2).map(|pair| [&pair[0], &pair[1]]).collect();
            let (left, right) = pairs.split_at(3);
            let small = (0..12).map(|i| i * 7 % 5 - 2).collect::<Vec<i64>>();
            let wide = (0..12).map(|i| (i - 4) * 393_216).collect::<Vec<i64>>();
            let sparse = vec![0, 0, 1 << 40, 0, 0, 0, 0, -3, 0, 0, 0, 0];
            let forms: Vec<Vec<i64>> = vec![small, wide, sparse];
            let weights: Vec<FormWeights> =
                forms.iter().map(|form| FormWeights::new(2, form.clone(), [1, 1])).collect();
            let basis = ring.basis(2);
            let found = Poly::bilinear_forms(&weights, left, right, basis);
            let mut one = Poly::zero(&ring, basis);
            one.add_to_rows(|_| 1);
            let (one, zero) = (one, Poly::zero(&ring, basis));
            let over = |pairs: &[[&Poly<Eval>; 2]]| -> Vec<[Poly<Eval>; 2]> {
                let pairs = pairs.iter().map(|pair| pair.map(|part| part.restrict(basis)));
                std::iter::once([one.clone(), zero.clone()]).chain(pairs).collect()
            };
            let (xs, ys) = (over(left), over(right));
            for (form, found) in forms.iter().zip(&found) {
                let mut expected: [Poly<Eval>; 3] = std::array::from_fn(|_| Poly::zero(&ring, basis));
                for (place, weight) in form.iter().enumerate() {
                    let product = Poly::tensor(xs[place / 3].each_ref(), ys[place % 3].each_ref());
                    for (sum, mut part) in expected.iter_mut().zip(product) {
                        part.scale_assign(*weight);
                        sum.add_assign(&part);
                    }
                }
                assert!(found.iter().zip(&expected).all(|(a, b)| a.values() == b.values()), "{form:?}");
            }
        }
    }

    #[test]
    fn functions_of_two_nibbles_are_what_their_weights_say_and_take_the_shorter_way() {
        let primes: Vec<u64> = [50, 41].iter().flat_map(|bits| primes_below(*bits, 1 << 8).take(1)).collect();
        for degree in [32, 128] {
            let ring = Ring::new(degree, &primes, &[]).unwrap();
            let (seed, basis) = (Seed::from_bytes([9; 32]), ring.basis(2));
            let element =
                |i: u64| Poly::<Eval>::uniform(&ring, basis, |row| seed.stream(Domain::Error, 8 * i + row as u64));
            let all: Vec<Poly<Eval>> = (0..60).map(element).collect();
            let pairs: Vec<[&Poly<Eval>; 2]> = all.chunks(2).map(|pair| [&pair[0], &pair[1]]).collect();
            let (left, right) = pairs.split_at(15);
            // the transform of any signs, which is a multiple of four often enough
            let form = |salt: u64| -> Vec<i64> {
                let sign = |x: u64| 1 - 2 * ((x * x * 31 + x * salt + (x >> 3)) % 7 % 2) as i64;
                let weight =
                    |u: u64| (0..256).map(move |x: u64| sign(x) * (1 - 2 * i64::from((x & u).count_ones() & 1)));
                (0..256).map(|u| weight(u).sum()).collect()
            };
            let weights: Vec<FormWeights> = [5, 11].map(|salt| FormWeights::new(15, form(salt), [-7, 9])).into();
            assert!(Nibbles::new(&weights).is_some());
            let mut slow: Vec<[Poly<Eval>; 3]> =
                weights.iter().map(|_| std::array::from_fn(|_| Poly::any(&ring, basis))).collect();
            Poly::of_weights(&weights, left, right, &mut slow);
            let found = Poly::bilinear_forms(&weights, left, right, basis);
            for (found, slow) in found.iter().flatten().zip(slow.iter().flatten()) {
                assert!(found.values() == slow.values());
            }
            let mut other = form(5);
            other[77] += 1;
            assert!(Nibbles::new(&[FormWeights::new(15, other, [1, 1])]).is_none());
        }
    }
}
