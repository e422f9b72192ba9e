//! Transforms on eight lanes.
//!
//! **No closures.** A closure is a function of its own, and it is compiled without the instructions
//! of the function around it. If the compiler does not inline it, every instruction in it becomes a
//! call: a transform then takes five times as long. So arrays of vectors are filled in loops, and
//! factors come from methods that are always inlined ([`Factors`]).
//!
//! # Passes
//! `log N - 6` stages between vectors, in passes of up to three stages (eight vectors that are a
//! stride apart, held in registers); then for each 64 coefficients, in eight vectors, three stages
//! between them, a transposition, three stages between them again with a factor for each lane, and
//! the transposition back. Blocks are finished one after another, so all passes except the first
//! stay within the first-level cache. Sixteen thousand coefficients are read and written four
//! times.
//!
//! For stages within vectors only the quotients of factors are read, half the bytes:
//! `w = ⌊w' q / 2^52⌋ + 1`, because `w 2^52 / q` is not an integer.
//!
//! # Cost
//! 9 (or 6) operations for eight butterflies, and 6 for the transpositions of a vector: at
//! `N = 2^14` about 36,000 cycles at four such operations a cycle, or 9 µs at 4 GHz. Measured: 14.6
//! µs, half of it in the last six stages.

use super::range::{Middle, Narrow, Range, Wide};
use super::vector::{Lanes, Multiplier, eights, eights_mut};
use super::{NttTable, Roots};
use crate::kernels::Modulus;
use tobari_simd::Simd;

/// The transforms on the lanes of `S`.
#[derive(Clone, Copy)]
pub(crate) struct Transform<S: Simd>(pub(crate) S);

/// Coefficients of a tile, which is finished in registers.
const TILE: usize = 64;

/// Coefficients of a block that stays in the first-level cache: 32 KiB.
const CACHED: usize = 1 << 12;

/// The factors of the stages on some vectors.
trait Factors<S: Simd> {
    /// That of block `block` of stage `stage`.
    fn at(&self, stage: u32, block: usize) -> Multiplier<S::V>;
}

impl<S: Simd, const K: usize> Factors<S> for [Multiplier<S::V>; K] {
    #[inline(always)]
    fn at(&self, stage: u32, block: usize) -> Multiplier<S::V> {
        self[(1 << stage) + block]
    }
}

/// Factors for each lane, from their quotients.
struct LaneFactors<'a, S: Simd, R> {
    stages: Stages<'a, S, R>,
    one: S::V,
    quotients: &'a [[u64; 8]; 7],
}

impl<S: Simd, R: Range<S>> Factors<S> for LaneFactors<'_, S, R> {
    #[inline(always)]
    fn at(&self, stage: u32, block: usize) -> Multiplier<S::V> {
        self.stages.lane_multiplier(self.one, &self.quotients[(1 << stage) - 1 + block])
    }
}

/// The stages on `K` vectors.
trait Vectors<S: Simd>: Sized {
    /// All stages on these vectors, which are block `block` of stage `stage`; `factor` gives the
    /// factors.
    fn split<R: Range<S>>(self, stages: Stages<'_, S, R>, stage: u32, block: usize, factor: &impl Factors<S>) -> Self;
    /// All stages back, the first with `offset`. Returns the offset after them too.
    fn join<R: Range<S>>(
        self,
        stages: Stages<'_, S, R>,
        stage: u32,
        block: usize,
        offset: u64,
        factor: &impl Factors<S>,
    ) -> (Self, u64);
    /// The last stages back, for block 1, with the factors of `ends` in place of the last one.
    fn join_last<R: Range<S>>(
        self,
        stages: Stages<'_, S, R>,
        offset: u64,
        factor: &impl Factors<S>,
        ends: [Multiplier<S::V>; 2],
    ) -> Self;
}

impl<S: Simd> Vectors<S> for [S::V; 1] {
    #[inline(always)]
    fn split<R: Range<S>>(self, _: Stages<'_, S, R>, _: u32, _: usize, _: &impl Factors<S>) -> Self {
        self
    }

    #[inline(always)]
    fn join<R: Range<S>>(self, _: Stages<'_, S, R>, _: u32, _: usize, offset: u64, _: &impl Factors<S>) -> (Self, u64) {
        (self, offset)
    }

    #[inline(always)]
    fn join_last<R: Range<S>>(
        self,
        _: Stages<'_, S, R>,
        _: u64,
        _: &impl Factors<S>,
        _: [Multiplier<S::V>; 2],
    ) -> Self {
        self
    }
}

/// `K` vectors from those of two halves; a macro, so that they stay in registers regardless of the
/// compiler's unrolling.
macro_rules! halves {
    ($k:literal, $half:literal) => {
        impl<S: Simd> Vectors<S> for [S::V; $k] {
            #[inline(always)]
            fn split<R: Range<S>>(
                self,
                stages: Stages<'_, S, R>,
                stage: u32,
                block: usize,
                factor: &impl Factors<S>,
            ) -> Self {
                let w = factor.at(stage, block);
                let (mut low, mut high) = ([self[0]; $half], [self[0]; $half]);
                for i in 0..$half {
                    [low[i], high[i]] = stages.range.split(stages.lanes, stage, self[i], self[$half + i], w);
                }
                let low = low.split(stages, stage + 1, 2 * block, factor);
                let high = high.split(stages, stage + 1, 2 * block + 1, factor);
                let mut all = self;
                all[..$half].copy_from_slice(&low);
                all[$half..].copy_from_slice(&high);
                all
            }

            #[inline(always)]
            fn join<R: Range<S>>(
                self,
                stages: Stages<'_, S, R>,
                stage: u32,
                block: usize,
                offset: u64,
                factor: &impl Factors<S>,
            ) -> (Self, u64) {
                let (mut low, mut high) = ([self[0]; $half], [self[0]; $half]);
                low.copy_from_slice(&self[..$half]);
                high.copy_from_slice(&self[$half..]);
                let (mut low, _) = low.join(stages, stage + 1, 2 * block, offset, factor);
                let (mut high, offset) = high.join(stages, stage + 1, 2 * block + 1, offset, factor);
                let (w, m) = (factor.at(stage, block), stages.lanes.simd.splat(offset));
                for i in 0..$half {
                    [low[i], high[i]] = stages.range.join(stages.lanes, low[i], high[i], m, w);
                }
                let mut all = self;
                all[..$half].copy_from_slice(&low);
                all[$half..].copy_from_slice(&high);
                (all, stages.range.next(offset))
            }

            #[inline(always)]
            fn join_last<R: Range<S>>(
                self,
                stages: Stages<'_, S, R>,
                offset: u64,
                factor: &impl Factors<S>,
                ends: [Multiplier<S::V>; 2],
            ) -> Self {
                let (mut low, mut high) = ([self[0]; $half], [self[0]; $half]);
                low.copy_from_slice(&self[..$half]);
                high.copy_from_slice(&self[$half..]);
                let (low, _) = low.join(stages, 1, 0, offset, factor);
                let (high, offset) = high.join(stages, 1, 1, offset, factor);
                let (s, m) = (stages.lanes.simd, stages.lanes.simd.splat(offset));
                let mut all = self;
                for i in 0..$half {
                    let (sum, difference) = (s.add(low[i], high[i]), s.sub(s.add(low[i], m), high[i]));
                    all[i] = stages.lanes.scale(sum, ends[0]);
                    all[$half + i] = stages.lanes.scale(difference, ends[1]);
                }
                all
            }
        }
    };
}
halves!(2, 1);
halves!(4, 2);
halves!(8, 4);

/// The plan of the stages between vectors.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Stages of each pass.
    passes: [u32; 8],
    /// Passes over the whole row; the others work block by block.
    outer: usize,
    count: usize,
}

impl Plan {
    /// A plan with at most `most` stages a pass, without the stages of a tile.
    pub(super) fn new(degree: usize, tile: usize, most: u32) -> Self {
        let stages = (degree / tile).trailing_zeros();
        let count = stages.div_ceil(most);
        let mut passes = [0; 8];
        let (mut outer, mut length) = (0, degree);
        for pass in 0..count {
            // as even as possible, the longer ones first
            let stages = (stages * (count - pass)).div_ceil(count) - (stages * (count - pass - 1)).div_ceil(count);
            passes[pass as usize] = stages;
            if length > CACHED {
                (outer, length) = (outer + 1, length >> stages);
            }
        }
        Self { passes, outer, count: count as usize }
    }

    pub(super) fn all(&self) -> &[u32] {
        &self.passes[..self.count]
    }

    pub(super) fn outer(&self) -> &[u32] {
        &self.passes[..self.outer]
    }

    pub(super) fn inner(&self) -> &[u32] {
        &self.passes[self.outer..self.count]
    }
}

/// Tiles of eight vectors.
#[inline(always)]
fn tiles_mut(values: &mut [u64]) -> &mut [[[u64; 8]; 8]] {
    eights_mut(values).as_chunks_mut().0
}

/// `K` parts of `stride` vectors.
#[inline(always)]
fn rows<const K: usize>(values: &mut [u64], stride: usize) -> [&mut [[u64; 8]]; K] {
    let mut rest = eights_mut(values);
    std::array::from_fn(|_| {
        let (row, after) = std::mem::take(&mut rest).split_at_mut(stride);
        rest = after;
        row
    })
}

impl<S: Simd> Transform<S> {
    /// Coefficients to values.
    #[inline(always)]
    pub(crate) fn forward(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < TILE {
            return super::Words.forward(q, table, values);
        }
        let lanes = Lanes::new(self.0, q);
        if q.bits() <= 46 {
            let ratio = Narrow(self.0.splat((1 << 52) / q.value()));
            Stages { lanes, range: ratio, roots: &table.forward }.forward(values);
        } else if q.bits() <= 49 {
            Stages { lanes, range: Middle, roots: &table.forward }.forward(values);
        } else {
            Stages { lanes, range: Wide, roots: &table.forward }.forward(values);
        }
    }

    /// Values to coefficients.
    #[inline(always)]
    pub(crate) fn inverse(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < TILE {
            return super::Words.inverse(q, table, values);
        }
        let lanes = Lanes::new(self.0, q);
        if q.bits() + 1 + values.len().trailing_zeros() <= 52 {
            let stages = Stages { lanes, range: Narrow(lanes.zero), roots: &table.inverse };
            stages.inverse(q.value(), table, values);
        } else {
            Stages { lanes, range: Wide, roots: &table.inverse }.inverse(2 * q.value(), table, values);
        }
    }
}

/// The stages of one transform.
#[derive(Clone, Copy)]
struct Stages<'a, S: Simd, R> {
    lanes: Lanes<S>,
    range: R,
    roots: &'a Roots,
}

impl<S: Simd, R: Range<S>> Stages<'_, S, R> {
    #[inline(always)]
    fn multiplier(self, index: usize) -> Multiplier<S::V> {
        self.lanes.multiplier(self.roots.factor(index))
    }

    /// The factors that split block `first` into `K` parts: that of block `b` of stage `s` has
    /// number `2^s + b`.
    #[inline(always)]
    fn multipliers<const K: usize>(self, first: usize) -> [Multiplier<S::V>; K] {
        let mut all = [self.multiplier(first); K];
        for (i, multiplier) in all.iter_mut().enumerate().skip(2) {
            let stage = i.ilog2();
            *multiplier = self.multiplier((first << stage) + i - (1 << stage));
        }
        all
    }

    #[inline(always)]
    fn load<const K: usize>(self, rows: &[&mut [[u64; 8]]; K], i: usize) -> [S::V; K] {
        let mut x = [self.lanes.zero; K];
        for (x, row) in x.iter_mut().zip(rows) {
            *x = self.lanes.simd.load_words(&row[i]);
        }
        x
    }

    #[inline(always)]
    fn store<const K: usize>(self, x: [S::V; K], rows: &mut [&mut [[u64; 8]]; K], i: usize) {
        for (x, row) in x.into_iter().zip(rows) {
            self.lanes.simd.store_words(x, &mut row[i]);
        }
    }

    #[inline(always)]
    fn load_tile(self, tile: &[[u64; 8]; 8]) -> [S::V; 8] {
        let mut x = [self.lanes.zero; 8];
        for (x, values) in x.iter_mut().zip(tile) {
            *x = self.lanes.simd.load_words(values);
        }
        x
    }

    #[inline(always)]
    fn store_tile(self, x: [S::V; 8], tile: &mut [[u64; 8]; 8]) {
        for (x, values) in x.into_iter().zip(tile) {
            self.lanes.simd.store_words(x, values);
        }
    }

    /// For each tile from `first` the quotients of the stages within vectors.
    #[inline(always)]
    fn tile_quotients(&self, first: usize) -> &[[[u64; 8]; 7]] {
        let count = self.roots.values.len() / TILE;
        &eights(&self.roots.lanes).as_chunks().0[first - count..]
    }

    /// The factor of each lane from its quotient.
    #[inline(always)]
    fn lane_multiplier(self, one: S::V, quotient: &[u64; 8]) -> Multiplier<S::V> {
        let quotient = self.lanes.simd.load_words(quotient);
        Multiplier { value: self.lanes.simd.multiply_add_high(one, quotient, self.lanes.q), quotient }
    }

    /// A pass over `blocks` blocks of `values`, numbered from `first`, each cut into `K`.
    #[inline(always)]
    fn split_pass<const K: usize>(self, first: usize, values: &mut [u64])
    where
        [S::V; K]: Vectors<S>,
    {
        let (stride, multipliers) = (values.len() / (8 * K), self.multipliers::<K>(first));
        let mut rows = rows::<K>(values, stride);
        for i in 0..stride {
            let x = self.load(&rows, i).split(self, 0, 0, &multipliers);
            self.store(x, &mut rows, i);
        }
    }

    #[inline(always)]
    fn forward(self, values: &mut [u64]) {
        let plan = Plan::new(values.len(), TILE, 3);
        let mut blocks = 1;
        for stages in plan.outer() {
            let length = values.len() / blocks;
            for (i, values) in values.chunks_exact_mut(length).enumerate() {
                self.pass(*stages, blocks + i, values);
            }
            blocks <<= stages;
        }
        let length = values.len() / blocks;
        for (i, values) in values.chunks_exact_mut(length).enumerate() {
            let (mut first, mut length) = (blocks + i, length);
            for stages in plan.inner() {
                for (i, values) in values.chunks_exact_mut(length).enumerate() {
                    self.pass(*stages, first + i, values);
                }
                (first, length) = (first << stages, length >> stages);
            }
            self.tiles(first, values);
        }
    }

    #[inline(always)]
    fn pass(self, stages: u32, first: usize, values: &mut [u64]) {
        match stages {
            1 => self.split_pass::<2>(first, values),
            2 => self.split_pass::<4>(first, values),
            _ => self.split_pass::<8>(first, values),
        }
    }

    /// The last six stages, on tiles numbered from `first`.
    #[inline(always)]
    fn tiles(self, first: usize, values: &mut [u64]) {
        let (s, one) = (self.lanes.simd, self.lanes.simd.splat(1));
        let lanes = self.tile_quotients(first);
        for (i, tile) in tiles_mut(values).iter_mut().enumerate() {
            let multipliers = self.multipliers::<8>(first + i);
            self.store_tile(self.load_tile(tile).split(self, 0, 0, &multipliers), tile);
        }
        for (tile, quotients) in tiles_mut(values).iter_mut().zip(lanes) {
            let factor = LaneFactors { stages: self, one, quotients };
            let mut x = s.transpose(self.load_tile(tile)).split(self, 0, 0, &factor);
            for x in &mut x {
                *x = self.range.canonical(self.lanes, *x);
            }
            self.store_tile(s.transpose(x), tile);
        }
    }

    /// The first six stages back, on tiles numbered from `first`.
    #[inline(always)]
    fn join_tiles(self, offset: u64, first: usize, values: &mut [u64]) -> u64 {
        let (s, one) = (self.lanes.simd, self.lanes.simd.splat(1));
        let lanes = self.tile_quotients(first);
        let (mut middle, mut end) = (offset, offset);
        for (tile, quotients) in tiles_mut(values).iter_mut().zip(lanes) {
            let factor = LaneFactors { stages: self, one, quotients };
            let (x, after) = s.transpose(self.load_tile(tile)).join(self, 0, 0, offset, &factor);
            self.store_tile(s.transpose(x), tile);
            middle = after;
        }
        for (i, tile) in tiles_mut(values).iter_mut().enumerate() {
            let multipliers = self.multipliers::<8>(first + i);
            let (x, after) = self.load_tile(tile).join(self, 0, 0, middle, &multipliers);
            self.store_tile(x, tile);
            end = after;
        }
        end
    }

    /// A pass back.
    #[inline(always)]
    fn join_pass<const K: usize>(self, offset: u64, first: usize, values: &mut [u64]) -> u64
    where
        [S::V; K]: Vectors<S>,
    {
        let (stride, multipliers) = (values.len() / (8 * K), self.multipliers::<K>(first));
        let mut rows = rows::<K>(values, stride);
        let mut end = offset;
        for i in 0..stride {
            let (x, after) = self.load(&rows, i).join(self, 0, 0, offset, &multipliers);
            self.store(x, &mut rows, i);
            end = after;
        }
        end
    }

    #[inline(always)]
    fn pass_back(self, stages: u32, offset: u64, first: usize, values: &mut [u64]) -> u64 {
        match stages {
            1 => self.join_pass::<2>(offset, first, values),
            2 => self.join_pass::<4>(offset, first, values),
            _ => self.join_pass::<8>(offset, first, values),
        }
    }

    /// The last pass back, with `1/N`.
    #[inline(always)]
    fn last_pass<const K: usize>(self, offset: u64, ends: [Multiplier<S::V>; 2], values: &mut [u64])
    where
        [S::V; K]: Vectors<S>,
    {
        let (stride, multipliers) = (values.len() / (8 * K), self.multipliers::<K>(1));
        let mut rows = rows::<K>(values, stride);
        for i in 0..stride {
            let x = self.load(&rows, i).join_last(self, offset, &multipliers, ends);
            self.store(x, &mut rows, i);
        }
    }

    /// All stages back, with `1/N`.
    #[inline(always)]
    fn inverse(self, offset: u64, table: &NttTable, values: &mut [u64]) {
        let plan = Plan::new(values.len(), TILE, 3);
        let (first_pass, outer, inner) = match plan.outer() {
            [first, outer @ ..] => (*first, outer, plan.inner()),
            [] => (plan.passes[0], &[][..], plan.inner().get(1..).unwrap_or_default()),
        };
        let mut blocks = 1usize << (first_pass + outer.iter().sum::<u32>());
        let (mut end, length) = (offset, values.len() / blocks);
        for (i, values) in values.chunks_exact_mut(length).enumerate() {
            let stages: u32 = inner.iter().sum();
            let (mut first, mut length) = ((blocks + i) << stages, length >> stages);
            end = self.join_tiles(offset, first, values);
            for stages in inner.iter().rev() {
                (first, length) = (first >> stages, length << stages);
                let mut after = end;
                for (i, values) in values.chunks_exact_mut(length).enumerate() {
                    after = self.pass_back(*stages, end, first + i, values);
                }
                end = after;
            }
        }
        for stages in outer.iter().rev() {
            blocks >>= stages;
            let (length, mut after) = (values.len() / blocks, end);
            for (i, values) in values.chunks_exact_mut(length).enumerate() {
                after = self.pass_back(*stages, end, blocks + i, values);
            }
            end = after;
        }
        let ends = [self.lanes.multiplier(table.scale), self.lanes.multiplier(table.scaled_root)];
        match first_pass {
            0 => {
                for values in eights_mut(values) {
                    let x = self.lanes.scale(self.lanes.simd.load_words(values), ends[0]);
                    self.lanes.simd.store_words(x, values);
                }
            }
            1 => self.last_pass::<2>(end, ends, values),
            2 => self.last_pass::<4>(end, ends, values),
            _ => self.last_pass::<8>(end, ends, values),
        }
    }
}
