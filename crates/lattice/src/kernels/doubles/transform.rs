//! Transforms on four doubles.
//!
//! # Passes
//! As in [`super::super::transform`], with tiles of 32: `log N - 5` stages between vectors, up to
//! three a pass; then for each 32 coefficients, in eight vectors, three stages between them, two
//! transpositions of four vectors, two stages with a factor for each lane, and the transpositions
//! back. Between passes the row holds doubles.
//!
//! # Ranges
//! Numbers are below `B q`, and `B q` must stay below 2^53. Forwards `X ± T` with `T = Y w` changes
//! `B` to `B (1 + 3 q 2^-54) + 1/2`. From 1 this allows six stages at 50 bits, and all stages up to
//! 46 bits. Backwards `X + Y` doubles `B`, which allows three stages at 50 bits. If the next pass
//! would exceed the range, all numbers are reduced as they are read, with three operations.
//!
//! # Cost
//! Eight operations for four butterflies, four a vector for the transpositions, two a vector for
//! each conversion: at `N = 2^14` 258,000 operations, or 65,000 cycles at four operations a cycle.

use super::super::transform::Plan;
use super::super::{NttTable, Roots, Words};
use super::{Lanes, centred, fours_mut};
use crate::kernels::Modulus;
use tobari_simd::Fused;

/// The transforms on the lanes of `F`.
#[derive(Clone, Copy)]
pub(crate) struct DoubleTransform<F: Fused>(pub(crate) F);

/// Coefficients of a tile, which is finished in registers.
const TILE: usize = 16;

/// The form in which a pass reads numbers: as words.
const WORDS: u8 = 0;
/// As doubles.
const DOUBLES: u8 = 1;
/// As doubles, reduced.
const REDUCED: u8 = 2;

/// Roots as doubles.
#[derive(Clone, Debug)]
pub(crate) struct DoubleRoots {
    /// Centred.
    values: Vec<f64>,
    /// For each 16 coefficients in four vectors, transposed so that lane `j` has the former vector
    /// `j`: one factor a lane for the first stage and two for the second.
    lanes: Vec<[[f64; 4]; 3]>,
}

impl DoubleRoots {
    fn new(q: &Modulus, roots: &Roots) -> Self {
        let values: Vec<f64> = roots.values.iter().map(|w| centred(q, *w)).collect();
        let degree = values.len();
        let lanes = (0..degree / 16).map(|group| {
            let factors = |first: usize, count: usize, i: usize| {
                std::array::from_fn(|lane| values[first + (4 * group + lane) * count + i])
            };
            [factors(degree / 4, 1, 0), factors(degree / 2, 2, 0), factors(degree / 2, 2, 1)]
        });
        Self { lanes: lanes.collect(), values }
    }
}

/// `B`, and its limit.
#[derive(Clone, Copy)]
struct Bound {
    bound: f64,
    most: f64,
    growth: f64,
}

impl Bound {
    /// The bound of residues.
    fn new(q: &Modulus) -> Self {
        let most = (1u64 << 53) as f64 / q.value() as f64;
        Self { bound: 1.0, most, growth: 1.0 + 1.5 / most }
    }

    /// Must numbers be reduced before the next `stages` stages? Advances the bound to their end.
    fn step(&mut self, stages: u32, next: impl Fn(f64) -> f64) -> u8 {
        let after = |bound: f64| (0..stages).fold(bound, |bound, _| next(bound));
        let reduced = after(self.bound) >= self.most;
        self.bound = after(if reduced { 0.51 } else { self.bound });
        if reduced { REDUCED } else { DOUBLES }
    }

    fn forward(&mut self, stages: u32) -> u8 {
        let growth = self.growth;
        self.step(stages, |bound| bound * growth + 0.5)
    }

    fn inverse(&mut self, stages: u32) -> u8 {
        self.step(stages, |bound| 2.0 * bound)
    }
}

impl<F: Fused> DoubleTransform<F> {
    /// Coefficients to values.
    #[inline(always)]
    pub(crate) fn forward(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < 2 * TILE {
            return Words.forward(q, table, values);
        }
        let roots = table.forward.doubles.get_or_init(|| DoubleRoots::new(q, &table.forward));
        let (plan, mut bound) = (Plan::new(values.len(), 4, 2), Bound::new(q));
        let mut enter = [WORDS; 9];
        for (enter, stages) in enter.iter_mut().zip(plan.all()) {
            *enter = bound.forward(*stages);
        }
        let tiles = bound.forward(2);
        enter[0] = WORDS; // three stages from residues are in range
        Stages { lanes: Lanes::new(self.0, q), roots }.forward(&plan, enter, tiles, values);
    }

    /// Values to coefficients.
    #[inline(always)]
    pub(crate) fn inverse(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < 2 * TILE {
            return Words.inverse(q, table, values);
        }
        let roots = table.inverse.doubles.get_or_init(|| DoubleRoots::new(q, &table.inverse));
        let (plan, mut bound) = (Plan::new(values.len(), 4, 2), Bound::new(q));
        bound.inverse(2); // from residues
        let mut enter = [WORDS; 9];
        for (i, stages) in plan.all().iter().enumerate().rev() {
            enter[i] = bound.inverse(*stages);
        }
        let lanes = Lanes::new(self.0, q);
        let ends = [lanes.factor(q, table.scale), lanes.factor(q, table.scaled_root)];
        Stages { lanes, roots }.inverse(&plan, enter, ends, values);
    }
}

/// The stages of one transform.
#[derive(Clone, Copy)]
struct Stages<'a, F: Fused> {
    lanes: Lanes<F>,
    roots: &'a DoubleRoots,
}

/// `K` parts of `stride` vectors.
#[inline(always)]
fn rows<const K: usize>(values: &mut [u64]) -> [&mut [[u64; 4]]; K] {
    let (stride, mut rest) = (values.len() / (4 * K), fours_mut(values));
    std::array::from_fn(|_| {
        let (row, after) = std::mem::take(&mut rest).split_at_mut(stride);
        rest = after;
        row
    })
}

impl<F: Fused> Stages<'_, F> {
    #[inline(always)]
    fn factor(self, index: usize) -> F::V {
        self.lanes.fused.splat(self.roots.values[index])
    }

    /// The factors that split block `first` into four parts, stage by stage.
    #[inline(always)]
    fn factors(self, first: usize) -> [F::V; 3] {
        [self.factor(first), self.factor(2 * first), self.factor(2 * first + 1)]
    }

    #[inline(always)]
    fn enter<const ENTER: u8>(self, values: &[u64; 4]) -> F::V {
        match ENTER {
            WORDS => self.lanes.fused.of_words(values),
            DOUBLES => self.lanes.fused.load_bits(values),
            _ => self.lanes.reduce(self.lanes.fused.load_bits(values)),
        }
    }

    #[inline(always)]
    fn split2(self, x: F::V, y: F::V, w: F::V) -> [F::V; 2] {
        let product = self.lanes.product(y, w);
        [self.lanes.fused.add(x, product), self.lanes.fused.sub(x, product)]
    }

    #[inline(always)]
    fn split4(self, [a, b, c, d]: [F::V; 4], [v, w0, w1]: [F::V; 3]) -> [F::V; 4] {
        let ([a, c], [b, d]) = (self.split2(a, c, v), self.split2(b, d, v));
        let ([a, b], [c, d]) = (self.split2(a, b, w0), self.split2(c, d, w1));
        [a, b, c, d]
    }

    #[inline(always)]
    fn join2(self, x: F::V, y: F::V, w: F::V) -> [F::V; 2] {
        [self.lanes.fused.add(x, y), self.lanes.product(self.lanes.fused.sub(x, y), w)]
    }

    #[inline(always)]
    fn join4(self, [a, b, c, d]: [F::V; 4], [v, w0, w1]: [F::V; 3]) -> [F::V; 4] {
        let ([a, b], [c, d]) = (self.join2(a, b, w0), self.join2(c, d, w1));
        let ([a, c], [b, d]) = (self.join2(a, c, v), self.join2(b, d, v));
        [a, b, c, d]
    }

    #[inline(always)]
    fn forward(self, plan: &Plan, enter: [u8; 9], tiles: u8, values: &mut [u64]) {
        let mut blocks = 1;
        for (stages, enter) in plan.outer().iter().zip(enter) {
            let length = values.len() / blocks;
            for (i, values) in values.chunks_exact_mut(length).enumerate() {
                self.pass(*stages, enter, blocks + i, values);
            }
            blocks <<= stages;
        }
        let (length, enter) = (values.len() / blocks, &enter[plan.outer().len()..]);
        for (i, values) in values.chunks_exact_mut(length).enumerate() {
            let (mut first, mut length) = (blocks + i, length);
            for (stages, enter) in plan.inner().iter().zip(enter) {
                for (i, values) in values.chunks_exact_mut(length).enumerate() {
                    self.pass(*stages, *enter, first + i, values);
                }
                (first, length) = (first << stages, length >> stages);
            }
            match tiles {
                REDUCED => self.tiles::<REDUCED>(first, values),
                _ => self.tiles::<DOUBLES>(first, values),
            }
        }
    }

    #[inline(always)]
    fn pass(self, stages: u32, enter: u8, first: usize, values: &mut [u64]) {
        match enter {
            WORDS => self.pass_from::<WORDS>(stages, first, values),
            DOUBLES => self.pass_from::<DOUBLES>(stages, first, values),
            _ => self.pass_from::<REDUCED>(stages, first, values),
        }
    }

    #[inline(always)]
    fn pass_from<const ENTER: u8>(self, stages: u32, first: usize, values: &mut [u64]) {
        let f = self.lanes.fused;
        match stages {
            1 => {
                let ([row0, row1], w) = (rows::<2>(values), self.factor(first));
                for (x0, x1) in row0.iter_mut().zip(row1) {
                    let y = self.split2(self.enter::<ENTER>(x0), self.enter::<ENTER>(x1), w);
                    f.store_bits(y[0], x0);
                    f.store_bits(y[1], x1);
                }
            }
            _ => {
                let (mut rows, w) = (rows::<4>(values), self.factors(first));
                for i in 0..rows[0].len() {
                    let x = self.split4(self.load::<4, ENTER>(&rows, i), w);
                    self.store(x, &mut rows, i);
                }
            }
        }
    }

    #[inline(always)]
    fn load<const K: usize, const ENTER: u8>(self, rows: &[&mut [[u64; 4]]; K], i: usize) -> [F::V; K] {
        let mut x = [self.lanes.q; K];
        for (x, row) in x.iter_mut().zip(rows) {
            *x = self.enter::<ENTER>(&row[i]);
        }
        x
    }

    #[inline(always)]
    fn store<const K: usize>(self, x: [F::V; K], rows: &mut [&mut [[u64; 4]]; K], i: usize) {
        for (x, row) in x.into_iter().zip(rows) {
            self.lanes.fused.store_bits(x, &mut row[i]);
        }
    }

    /// The factors of the stages within four vectors.
    #[inline(always)]
    fn lane_factors(self, group: usize) -> [F::V; 3] {
        let [v, w0, w1] = &self.roots.lanes[group];
        [self.lanes.fused.load(v), self.lanes.fused.load(w0), self.lanes.fused.load(w1)]
    }

    /// The last two stages, on tiles numbered from `first`.
    #[inline(always)]
    fn tiles<const ENTER: u8>(self, first: usize, values: &mut [u64]) {
        let (f, count) = (self.lanes.fused, self.roots.values.len() / 4);
        for (i, tile) in fours_mut(values).as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let mut x = [self.lanes.q; 4];
            for (x, values) in x.iter_mut().zip(&*tile) {
                *x = self.enter::<ENTER>(values);
            }
            let mut x = self.split4(f.transpose(x), self.lane_factors((first - count) / 4 + i));
            for x in &mut x {
                *x = self.lanes.canonical(*x);
            }
            for (x, values) in f.transpose(x).into_iter().zip(tile) {
                f.to_words(x, values);
            }
        }
    }

    /// The first two stages back, on tiles numbered from `first`.
    #[inline(always)]
    fn join_tiles(self, first: usize, values: &mut [u64]) {
        let (f, count) = (self.lanes.fused, self.roots.values.len() / 4);
        for (i, tile) in fours_mut(values).as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let mut x = [self.lanes.q; 4];
            for (x, values) in x.iter_mut().zip(&*tile) {
                *x = f.of_words(values);
            }
            let x = self.join4(f.transpose(x), self.lane_factors((first - count) / 4 + i));
            for (x, values) in f.transpose(x).into_iter().zip(tile) {
                f.store_bits(x, values);
            }
        }
    }

    /// All stages back, with `1/N`.
    #[inline(always)]
    fn inverse(self, plan: &Plan, enter: [u8; 9], ends: [F::V; 2], values: &mut [u64]) {
        let (outer, all) = (plan.outer().len().max(1), plan.all());
        let mut blocks = 1usize << all[..outer].iter().sum::<u32>();
        let length = values.len() / blocks;
        for (i, values) in values.chunks_exact_mut(length).enumerate() {
            let stages: u32 = all[outer..].iter().sum();
            let (mut first, mut length) = ((blocks + i) << stages, length >> stages);
            self.join_tiles(first, values);
            for (stages, enter) in all[outer..].iter().zip(&enter[outer..]).rev() {
                (first, length) = (first >> stages, length << stages);
                for (i, values) in values.chunks_exact_mut(length).enumerate() {
                    self.pass_back(*stages, *enter, first + i, values);
                }
            }
        }
        for (stages, enter) in all[1..outer].iter().zip(&enter[1..]).rev() {
            blocks >>= stages;
            let length = values.len() / blocks;
            for (i, values) in values.chunks_exact_mut(length).enumerate() {
                self.pass_back(*stages, *enter, blocks + i, values);
            }
        }
        match enter[0] {
            REDUCED => self.join_pass::<REDUCED>(all[0], 1, Some(ends), values),
            _ => self.join_pass::<DOUBLES>(all[0], 1, Some(ends), values),
        }
    }

    #[inline(always)]
    fn pass_back(self, stages: u32, enter: u8, first: usize, values: &mut [u64]) {
        match enter {
            REDUCED => self.join_pass::<REDUCED>(stages, first, None, values),
            _ => self.join_pass::<DOUBLES>(stages, first, None, values),
        }
    }

    /// The last butterfly back: `1/N` is in its factors.
    #[inline(always)]
    fn end2(self, x: F::V, y: F::V, ends: [F::V; 2]) -> [F::V; 2] {
        let (sum, difference) = (self.lanes.fused.add(x, y), self.lanes.fused.sub(x, y));
        [
            self.lanes.canonical(self.lanes.product(sum, ends[0])),
            self.lanes.canonical(self.lanes.product(difference, ends[1])),
        ]
    }

    /// A pass back, the last one if there are `ends`.
    #[inline(always)]
    fn join_pass<const ENTER: u8>(self, stages: u32, first: usize, ends: Option<[F::V; 2]>, values: &mut [u64]) {
        let f = self.lanes.fused;
        match (stages, ends) {
            (1, None) => {
                let ([row0, row1], w) = (rows::<2>(values), self.factor(first));
                for (x0, x1) in row0.iter_mut().zip(row1) {
                    let y = self.join2(self.enter::<ENTER>(x0), self.enter::<ENTER>(x1), w);
                    f.store_bits(y[0], x0);
                    f.store_bits(y[1], x1);
                }
            }
            (1, Some(ends)) => {
                let [row0, row1] = rows::<2>(values);
                for (x0, x1) in row0.iter_mut().zip(row1) {
                    let y = self.end2(self.enter::<ENTER>(x0), self.enter::<ENTER>(x1), ends);
                    f.to_words(y[0], x0);
                    f.to_words(y[1], x1);
                }
            }
            (_, None) => {
                let (mut rows, w) = (rows::<4>(values), self.factors(first));
                for i in 0..rows[0].len() {
                    let x = self.join4(self.load::<4, ENTER>(&rows, i), w);
                    self.store(x, &mut rows, i);
                }
            }
            (_, Some(ends)) => {
                let (mut rows, w) = (rows::<4>(values), self.factors(first));
                for i in 0..rows[0].len() {
                    let [a, b, c, d] = self.load::<4, ENTER>(&rows, i);
                    let ([a, b], [c, d]) = (self.join2(a, b, w[1]), self.join2(c, d, w[2]));
                    let ([a, c], [b, d]) = (self.end2(a, c, ends), self.end2(b, d, ends));
                    self.store_words([a, b, c, d], &mut rows, i);
                }
            }
        }
    }

    #[inline(always)]
    fn store_words<const K: usize>(self, x: [F::V; K], rows: &mut [&mut [[u64; 4]]; K], i: usize) {
        for (x, row) in x.into_iter().zip(rows) {
            self.lanes.fused.to_words(x, &mut row[i]);
        }
    }
}
