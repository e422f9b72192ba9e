//! Transforms on eight lanes.
//!
//! Arrays of vectors are filled in loops: what closures of the standard library do would not be compiled for the instructions.
//!
//! # Passes
//! `log N - 6` stages between vectors, in passes of up to four stages (sixteen vectors that are a stride apart, held in
//! registers); then for each 64 coefficients, in eight vectors, three stages between them, a transposition, three stages between
//! them again with a factor for each lane, and the transposition back. Blocks are finished one after another, so that all passes
//! but the first stay within the first-level cache. Sixteen thousand coefficients are read and written three times.
//!
//! # Ranges
//! A forward butterfly makes `X + T` and `X - T + 2q` of `X` and `T = Y w < 2q`. What keeps `X` in range depends on the prime
//! ([`Range`]):
//!
//! * `q < 2^46` ([`Narrow`]): nothing. From `q` on, seventeen stages lead to `35 q < 2^52`; two multiply-adds and a subtraction end
//!   them. Six operations a butterfly.
//! * `q < 2^50` ([`Wide`]): `X` is reduced from `4q < 2^52` to `2q`. Nine operations.
//!
//! Backwards `X + Y` and `(X - Y + m q) w < 2q`:
//!
//! * [`Narrow`], for `2N q < 2^52`: nothing, sums double with every stage, and `m` with them;
//! * [`Wide`]: `X + Y` is reduced to `2q`, and `m = 2`.
//!
//! Factors of the stages within vectors are read as quotients only, which halves what is read: `w = ⌊w' q / 2^52⌋ + 1`, since
//! `w 2^52 / q` is no integer.
//!
//! # Cost
//! 9 (or 6) operations for eight butterflies, and 6 for the transpositions of a vector: at `N = 2^14` about 36,000 cycles where
//! four such operations are done at a time, or 9 µs at 4 GHz.

use super::super::lanes::Simd;
use super::vector::{Lanes, Multiplier, eights, eights_mut};
use super::{NttTable, Roots};
use crate::ring::Modulus;

/// The transforms on the lanes of `S`.
#[derive(Clone, Copy)]
pub(in crate::simd) struct Transform<S: Simd>(pub(in crate::simd) S);

/// Coefficients that are finished in registers.
const TILE: usize = 64;

/// Butterflies for primes of some size.
trait Range<S: Simd>: Copy {
    /// `X + Y w` and `X - Y w`.
    fn split(self, lanes: Lanes<S>, x: S::V, y: S::V, w: Multiplier<S::V>) -> [S::V; 2];
    /// The end of the stages forward: canonical.
    fn canonical(self, lanes: Lanes<S>, x: S::V) -> S::V;
    /// `X + Y` and `(X - Y) w`, `offset` being `m q`.
    fn join(self, lanes: Lanes<S>, x: S::V, y: S::V, offset: S::V, w: Multiplier<S::V>) -> [S::V; 2];
    /// `m q` of the stage after that with `offset`.
    fn next(self, offset: u64) -> u64;
}

/// Primes up to 2^50.
#[derive(Clone, Copy)]
struct Wide;

impl<S: Simd> Range<S> for Wide {
    #[inline(always)]
    fn split(self, lanes: Lanes<S>, x: S::V, y: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        let x = lanes.once(x, lanes.twice);
        let t = lanes.clean(lanes.product(lanes.zero, y, w));
        [s.add(x, t), s.sub(s.add(x, lanes.twice), t)]
    }

    #[inline(always)]
    fn canonical(self, lanes: Lanes<S>, x: S::V) -> S::V {
        lanes.once(lanes.once(x, lanes.twice), lanes.q)
    }

    #[inline(always)]
    fn join(self, lanes: Lanes<S>, x: S::V, y: S::V, offset: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        let difference = s.sub(s.add(x, offset), y);
        [lanes.once(s.add(x, y), lanes.twice), lanes.clean(lanes.product(lanes.zero, difference, w))]
    }

    #[inline(always)]
    fn next(self, offset: u64) -> u64 {
        offset
    }
}

/// Primes so small that nothing has to be reduced; `⌊2^52 / q⌋` in all lanes.
#[derive(Clone, Copy)]
struct Narrow<V>(V);

impl<S: Simd> Range<S> for Narrow<S::V> {
    #[inline(always)]
    fn split(self, lanes: Lanes<S>, x: S::V, y: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        let sum = lanes.product(x, y, w);
        [sum, s.sub(s.add(s.add(x, x), lanes.twice), sum)]
    }

    #[inline(always)]
    fn canonical(self, lanes: Lanes<S>, x: S::V) -> S::V {
        let quotient = lanes.simd.multiply_add_high(lanes.zero, x, self.0);
        lanes.once(lanes.clean(lanes.simd.multiply_add_low(x, quotient, lanes.negated)), lanes.q)
    }

    #[inline(always)]
    fn join(self, lanes: Lanes<S>, x: S::V, y: S::V, offset: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        [s.add(x, y), lanes.product(lanes.zero, s.sub(s.add(x, offset), y), w)]
    }

    #[inline(always)]
    fn next(self, offset: u64) -> u64 {
        2 * offset
    }
}

/// The stages on `K` vectors.
trait Vectors<S: Simd>: Sized {
    /// All stages on these vectors, which are block `block` of stage `stage` of those whose factors `factor` gives.
    fn split<R: Range<S>>(
        self,
        stages: Stages<'_, S, R>,
        stage: u32,
        block: usize,
        factor: &impl Fn(u32, usize) -> Multiplier<S::V>,
    ) -> Self;
    /// All stages back, the first of which is for `offset`, and the offset after them.
    fn join<R: Range<S>>(
        self,
        stages: Stages<'_, S, R>,
        stage: u32,
        block: usize,
        offset: u64,
        factor: &impl Fn(u32, usize) -> Multiplier<S::V>,
    ) -> (Self, u64);
    /// The last stages back: block 1 of all, with the factors of `ends` in place of the last one.
    fn join_last<R: Range<S>>(
        self,
        stages: Stages<'_, S, R>,
        offset: u64,
        factor: &impl Fn(u32, usize) -> Multiplier<S::V>,
        ends: [Multiplier<S::V>; 2],
    ) -> Self;
}

impl<S: Simd> Vectors<S> for [S::V; 1] {
    #[inline(always)]
    fn split<R: Range<S>>(
        self,
        _: Stages<'_, S, R>,
        _: u32,
        _: usize,
        _: &impl Fn(u32, usize) -> Multiplier<S::V>,
    ) -> Self {
        self
    }

    #[inline(always)]
    fn join<R: Range<S>>(
        self,
        _: Stages<'_, S, R>,
        _: u32,
        _: usize,
        offset: u64,
        _: &impl Fn(u32, usize) -> Multiplier<S::V>,
    ) -> (Self, u64) {
        (self, offset)
    }

    #[inline(always)]
    fn join_last<R: Range<S>>(
        self,
        _: Stages<'_, S, R>,
        _: u64,
        _: &impl Fn(u32, usize) -> Multiplier<S::V>,
        _: [Multiplier<S::V>; 2],
    ) -> Self {
        self
    }
}

/// `K` vectors from those of two halves; in the source, so that they are registers, whatever the compiler unrolls.
macro_rules! halves {
    ($k:literal, $half:literal) => {
        impl<S: Simd> Vectors<S> for [S::V; $k] {
            #[inline(always)]
            fn split<R: Range<S>>(
                self,
                stages: Stages<'_, S, R>,
                stage: u32,
                block: usize,
                factor: &impl Fn(u32, usize) -> Multiplier<S::V>,
            ) -> Self {
                let w = factor(stage, block);
                let (mut low, mut high) = ([self[0]; $half], [self[0]; $half]);
                for i in 0..$half {
                    [low[i], high[i]] = stages.range.split(stages.lanes, self[i], self[$half + i], w);
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
                factor: &impl Fn(u32, usize) -> Multiplier<S::V>,
            ) -> (Self, u64) {
                let (mut low, mut high) = ([self[0]; $half], [self[0]; $half]);
                low.copy_from_slice(&self[..$half]);
                high.copy_from_slice(&self[$half..]);
                let (mut low, _) = low.join(stages, stage + 1, 2 * block, offset, factor);
                let (mut high, offset) = high.join(stages, stage + 1, 2 * block + 1, offset, factor);
                let (w, m) = (factor(stage, block), stages.lanes.simd.splat(offset));
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
                factor: &impl Fn(u32, usize) -> Multiplier<S::V>,
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
halves!(16, 8);

/// How many stages each pass between vectors does.
fn passes(degree: usize) -> impl DoubleEndedIterator<Item = u32> {
    let stages = (degree / TILE).trailing_zeros();
    let count = stages.div_ceil(4);
    // as even as can be, the larger ones last, where all is in the cache
    (0..count).map(move |pass| stages * (pass + 1) / count - stages * pass / count)
}

impl<S: Simd> Transform<S> {
    /// Coefficients to values.
    #[inline(always)]
    pub(in crate::simd) fn forward(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < TILE {
            return (super::portable::KERNELS.ntt_forward)(q, table, values);
        }
        let lanes = Lanes::new(self.0, q);
        if q.bits() <= 46 {
            let ratio = Narrow(self.0.splat((1 << 52) / q.value()));
            Stages { lanes, range: ratio, roots: &table.forward }.forward(values);
        } else {
            Stages { lanes, range: Wide, roots: &table.forward }.forward(values);
        }
    }

    /// Values to coefficients.
    #[inline(always)]
    pub(in crate::simd) fn inverse(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < TILE {
            return (super::portable::KERNELS.ntt_inverse)(q, table, values);
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
        let s = self.lanes.simd;
        let stride = values.len() / (8 * K);
        let values = eights_mut(values);
        let factor = |stage: u32, block: usize| self.multiplier((first << stage) + block);
        for i in 0..stride {
            let mut x = [self.lanes.zero; K];
            for (k, x) in x.iter_mut().enumerate() {
                *x = s.load_words(&values[i + k * stride]);
            }
            for (k, x) in x.split(self, 0, 0, &factor).into_iter().enumerate() {
                s.store_words(x, &mut values[i + k * stride]);
            }
        }
    }

    /// All passes after some, on block `first` of its stage.
    #[inline(always)]
    fn forward(self, values: &mut [u64]) {
        let tiles = values.len() / TILE;
        let mut plan = passes(values.len());
        let (Some(a), b, c, rest) = (plan.next(), plan.next(), plan.next(), plan.next()) else {
            return self.tiles(tiles, values);
        };
        debug_assert!(rest.is_none());
        let (b, c) = (b.unwrap_or(0), c.unwrap_or(0));
        self.pass(a, 1, values);
        let length = values.len() >> a;
        for (i, values) in values.chunks_exact_mut(length).enumerate() {
            let first = (1 << a) + i;
            self.pass(b, first, values);
            let length = length >> b;
            for (j, values) in values.chunks_exact_mut(length).enumerate() {
                let first = (first << b) + j;
                self.pass(c, first, values);
                self.tiles(first << c, values);
            }
        }
    }

    #[inline(always)]
    fn pass(self, stages: u32, first: usize, values: &mut [u64]) {
        match stages {
            0 => {}
            1 => self.split_pass::<2>(first, values),
            2 => self.split_pass::<4>(first, values),
            3 => self.split_pass::<8>(first, values),
            _ => self.split_pass::<16>(first, values),
        }
    }

    /// The last six stages, on tiles numbered from `first`.
    #[inline(always)]
    fn tiles(self, first: usize, values: &mut [u64]) {
        let (lanes, s) = (self.lanes, self.lanes.simd);
        let one = s.splat(1);
        let count = self.roots.values.len() / TILE;
        for (i, values) in values.chunks_exact_mut(TILE).enumerate() {
            let tile = first + i;
            let values = eights_mut(values);
            let mut x = [self.lanes.zero; 8];
            for (x, values) in x.iter_mut().zip(values.iter()) {
                *x = s.load_words(values);
            }
            let x = s.transpose(x.split(self, 0, 0, &|stage, block| self.multiplier((tile << stage) + block)));
            let quotients = &eights(&self.roots.lanes)[7 * (tile - count)..][..7];
            let factor = |stage: u32, block: usize| self.lane_multiplier(one, &quotients[(1 << stage) - 1 + block]);
            let mut x = x.split(self, 0, 0, &factor);
            for x in &mut x {
                *x = self.range.canonical(lanes, *x);
            }
            for (x, values) in s.transpose(x).into_iter().zip(values) {
                s.store_words(x, values);
            }
        }
    }

    /// The first six stages back, on tiles numbered from `first`.
    #[inline(always)]
    fn join_tiles(self, offset: u64, first: usize, values: &mut [u64]) -> u64 {
        let s = self.lanes.simd;
        let one = s.splat(1);
        let count = self.roots.values.len() / TILE;
        let mut end = offset;
        for (i, values) in values.chunks_exact_mut(TILE).enumerate() {
            let tile = first + i;
            let values = eights_mut(values);
            let mut x = [self.lanes.zero; 8];
            for (x, values) in x.iter_mut().zip(values.iter()) {
                *x = s.load_words(values);
            }
            let x = s.transpose(x);
            let quotients = &eights(&self.roots.lanes)[7 * (tile - count)..][..7];
            let factor = |stage: u32, block: usize| self.lane_multiplier(one, &quotients[(1 << stage) - 1 + block]);
            let (x, middle) = x.join(self, 0, 0, offset, &factor);
            let factor = |stage: u32, block: usize| self.multiplier((tile << stage) + block);
            let (x, after) = s.transpose(x).join(self, 0, 0, middle, &factor);
            end = after;
            for (x, values) in x.into_iter().zip(values) {
                s.store_words(x, values);
            }
        }
        end
    }

    /// A pass back.
    #[inline(always)]
    fn join_pass<const K: usize>(self, offset: u64, first: usize, values: &mut [u64]) -> u64
    where
        [S::V; K]: Vectors<S>,
    {
        let s = self.lanes.simd;
        let stride = values.len() / (8 * K);
        let values = eights_mut(values);
        let mut end = offset;
        for i in 0..stride {
            let mut x = [self.lanes.zero; K];
            for (k, x) in x.iter_mut().enumerate() {
                *x = s.load_words(&values[i + k * stride]);
            }
            let (x, after) = x.join(self, 0, 0, offset, &|stage, block| self.multiplier((first << stage) + block));
            end = after;
            for (k, x) in x.into_iter().enumerate() {
                s.store_words(x, &mut values[i + k * stride]);
            }
        }
        end
    }

    #[inline(always)]
    fn pass_back(self, stages: u32, offset: u64, first: usize, values: &mut [u64]) -> u64 {
        match stages {
            0 => offset,
            1 => self.join_pass::<2>(offset, first, values),
            2 => self.join_pass::<4>(offset, first, values),
            3 => self.join_pass::<8>(offset, first, values),
            _ => self.join_pass::<16>(offset, first, values),
        }
    }

    /// The last pass back, with `1/N`.
    #[inline(always)]
    fn last_pass<const K: usize>(self, offset: u64, ends: [Multiplier<S::V>; 2], values: &mut [u64])
    where
        [S::V; K]: Vectors<S>,
    {
        let s = self.lanes.simd;
        let stride = values.len() / (8 * K);
        let values = eights_mut(values);
        let factor = |stage: u32, block: usize| self.multiplier((1 << stage) + block);
        for i in 0..stride {
            let mut x = [self.lanes.zero; K];
            for (k, x) in x.iter_mut().enumerate() {
                *x = s.load_words(&values[i + k * stride]);
            }
            for (k, x) in x.join_last(self, offset, &factor, ends).into_iter().enumerate() {
                s.store_words(x, &mut values[i + k * stride]);
            }
        }
    }

    /// All stages back, with `1/N`.
    #[inline(always)]
    fn inverse(self, offset: u64, table: &NttTable, values: &mut [u64]) {
        let mut plan = passes(values.len());
        let (a, b, c) = (plan.next().unwrap_or(0), plan.next().unwrap_or(0), plan.next().unwrap_or(0));
        debug_assert!(plan.next().is_none());
        let (length, mut end) = (values.len() >> a, offset);
        for (i, values) in values.chunks_exact_mut(length).enumerate() {
            let first = (1 << a) + i;
            let length = length >> b;
            let mut inner = offset;
            for (j, values) in values.chunks_exact_mut(length).enumerate() {
                let first = (first << b) + j;
                inner = self.join_tiles(offset, first << c, values);
                inner = self.pass_back(c, inner, first, values);
            }
            end = self.pass_back(b, inner, first, values);
        }
        let ends = [self.lanes.multiplier(table.scale), self.lanes.multiplier(table.scaled_root)];
        match a {
            0 => {
                for values in eights_mut(values) {
                    let x = self.lanes.scale(self.lanes.simd.load_words(values), ends[0]);
                    self.lanes.simd.store_words(x, values);
                }
            }
            1 => self.last_pass::<2>(end, ends, values),
            2 => self.last_pass::<4>(end, ends, values),
            3 => self.last_pass::<8>(end, ends, values),
            _ => self.last_pass::<16>(end, ends, values),
        }
    }
}
