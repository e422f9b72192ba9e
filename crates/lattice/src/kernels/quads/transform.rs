//! Transforms on four lanes of 32 bits.
//!
//! # Passes
//! The first pass reads words, does two stages, and leaves each quarter of the row packed, two
//! numbers a word, in the first half of its place. Then each quarter is processed alone: passes of
//! two stages (the first has one if the number is odd), and for each sixteen numbers, in four
//! vectors, two stages between them, a transposition, two stages with a factor for each lane, and
//! the transposition back. The last pass writes words from the end on, so that it overwrites
//! nothing before it is read. The inverse does the same in reverse.

use super::super::{EstimatedTransform, NttTable, Roots};
use crate::kernels::{Factor, Modulus};
use tobari_simd::Quads;

/// The transforms on the lanes of `Q` for primes that fit them, and on words for others.
#[derive(Clone, Copy)]
pub(crate) struct QuadTransform<Q: Quads>(pub(crate) Q);

/// Coefficients that are finished in registers.
const TILE: usize = 16;
/// Primes below `2^MAX_BITS` have these transforms.
const MAX_BITS: u32 = 30;
/// Primes below `2^LAZY_BITS` need no reductions forwards.
const LAZY_BITS: u32 = 26;

/// Roots in 32 bits.
#[derive(Clone, Debug)]
pub(crate) struct QuadRoots {
    /// A root and its quotient, for all stages except the last two.
    factors: Vec<[u32; 2]>,
    /// For each tile, transposed so that lane `j` has the former vector `j`: one factor a lane for
    /// the first stage, two for the second; the roots, then their quotients.
    lanes: Vec<[[[u32; 4]; 2]; 3]>,
}

impl QuadRoots {
    fn new(roots: &Roots) -> Self {
        let degree = roots.values.len();
        let narrow = |index: usize| quotient32(roots.factor(index));
        let lanes = (0..degree / TILE).map(|tile| {
            let factors = |first: usize, count: usize, i: usize| {
                let of = |part: usize| std::array::from_fn(|lane| narrow(first + (4 * tile + lane) * count + i)[part]);
                [of(0), of(1)]
            };
            [factors(degree / 4, 1, 0), factors(degree / 2, 2, 0), factors(degree / 2, 2, 1)]
        });
        Self { lanes: lanes.collect(), factors: (0..degree / 4).map(narrow).collect() }
    }
}

/// A number and Shoup's quotient for the radix 2^32, of a modulus of at most 32 bits.
fn quotient32(w: Factor) -> [u32; 2] {
    [w.value as u32, (w.quotient >> 20) as u32]
}

impl<Q: Quads> QuadTransform<Q> {
    /// Coefficients to values.
    #[inline(always)]
    pub(crate) fn forward(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < 4 * TILE || q.bits() > MAX_BITS {
            return EstimatedTransform(self.0).forward(q, table, values);
        }
        let roots = table.forward.quads.get_or_init(|| QuadRoots::new(&table.forward));
        let stages = Stages { lanes: Lanes::new(self.0, q), roots };
        if q.bits() <= LAZY_BITS { stages.forward::<true>(values) } else { stages.forward::<false>(values) }
    }

    /// Values to coefficients.
    #[inline(always)]
    pub(crate) fn inverse(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < 4 * TILE || q.bits() > MAX_BITS {
            return EstimatedTransform(self.0).inverse(q, table, values);
        }
        let roots = table.inverse.quads.get_or_init(|| QuadRoots::new(&table.inverse));
        let lanes = Lanes::new(self.0, q);
        let ends = [table.scale, table.scaled_root].map(|w| lanes.splat(quotient32(w)));
        Stages { lanes, roots }.inverse(ends, values);
    }
}

/// One modulus in all lanes.
#[derive(Clone, Copy)]
struct Lanes<Q: Quads> {
    quads: Q,
    q: Q::V,
    twice: Q::V,
    /// `⌊2^32 / q⌋`.
    ratio: Q::V,
}

/// A factor in all lanes, or one for each, and its quotient.
type Multiplier<V> = [V; 2];

impl<Q: Quads> Lanes<Q> {
    #[inline(always)]
    fn new(quads: Q, q: &Modulus) -> Self {
        let value = q.value() as u32;
        Self {
            quads,
            q: quads.splat(value),
            twice: quads.splat(2 * value),
            ratio: quads.splat(((1 << 32) / q.value()) as u32),
        }
    }

    #[inline(always)]
    fn splat(self, [w, quotient]: [u32; 2]) -> Multiplier<Q::V> {
        [self.quads.splat(w), self.quads.splat(quotient)]
    }

    /// `y w`, below `2q`.
    #[inline(always)]
    fn product(self, y: Q::V, [w, quotient]: Multiplier<Q::V>) -> Q::V {
        let s = self.quads;
        s.sub(s.mul(y, w), s.mul(s.mul_high(y, quotient), self.q))
    }

    /// `x - m` unless that is negative.
    #[inline(always)]
    fn once(self, x: Q::V, m: Q::V) -> Q::V {
        self.quads.min(x, self.quads.sub(x, m))
    }

    /// Any number as a residue.
    #[inline(always)]
    fn canonical(self, x: Q::V) -> Q::V {
        let s = self.quads;
        self.once(s.sub(x, s.mul(s.mul_high(x, self.ratio), self.q)), self.q)
    }

    #[inline(always)]
    fn split2<const LAZY: bool>(self, x: Q::V, y: Q::V, w: Multiplier<Q::V>) -> [Q::V; 2] {
        let (s, product) = (self.quads, self.product(y, w));
        let x = if LAZY { x } else { self.once(x, self.twice) };
        [s.add(x, product), s.sub(s.add(x, self.twice), product)]
    }

    #[inline(always)]
    fn split4<const LAZY: bool>(self, [a, b, c, d]: [Q::V; 4], w: [Multiplier<Q::V>; 3]) -> [Q::V; 4] {
        let ([a, c], [b, d]) = (self.split2::<LAZY>(a, c, w[0]), self.split2::<LAZY>(b, d, w[0]));
        let ([a, b], [c, d]) = (self.split2::<LAZY>(a, b, w[1]), self.split2::<LAZY>(c, d, w[2]));
        [a, b, c, d]
    }

    #[inline(always)]
    fn join2(self, x: Q::V, y: Q::V, w: Multiplier<Q::V>) -> [Q::V; 2] {
        let s = self.quads;
        [self.once(s.add(x, y), self.twice), self.product(s.sub(s.add(x, self.twice), y), w)]
    }

    #[inline(always)]
    fn join4(self, [a, b, c, d]: [Q::V; 4], w: [Multiplier<Q::V>; 3]) -> [Q::V; 4] {
        let ([a, b], [c, d]) = (self.join2(a, b, w[1]), self.join2(c, d, w[2]));
        let ([a, c], [b, d]) = (self.join2(a, c, w[0]), self.join2(b, d, w[0]));
        [a, b, c, d]
    }

    /// The last butterfly back, with `1/N` in its factors.
    #[inline(always)]
    fn end2(self, x: Q::V, y: Q::V, ends: [Multiplier<Q::V>; 2]) -> [Q::V; 2] {
        let (s, once) = (self.quads, |x| self.once(x, self.q));
        let difference = s.sub(s.add(x, self.twice), y);
        [once(self.product(s.add(x, y), ends[0])), once(self.product(difference, ends[1]))]
    }
}

/// The stages of one transform.
#[derive(Clone, Copy)]
struct Stages<'a, Q: Quads> {
    lanes: Lanes<Q>,
    roots: &'a QuadRoots,
}

/// Four quarters.
#[inline(always)]
fn quarters<T>(values: &mut [T]) -> [&mut [T]; 4] {
    let (quarter, mut rest) = (values.len() / 4, values);
    std::array::from_fn(|_| {
        let (row, after) = std::mem::take(&mut rest).split_at_mut(quarter);
        rest = after;
        row
    })
}

/// Words in which numbers are packed, by vectors.
#[inline(always)]
fn packed(words: &mut [u64]) -> &mut [[u64; 2]] {
    words.as_chunks_mut().0
}

/// The four words that begin at place `4 i`.
#[inline(always)]
fn four(words: &mut [u64], i: usize) -> &mut [u64; 4] {
    &mut words.as_chunks_mut().0[i]
}

impl<Q: Quads> Stages<'_, Q> {
    #[inline(always)]
    fn factor(self, index: usize) -> Multiplier<Q::V> {
        self.lanes.splat(self.roots.factors[index])
    }

    /// The factors that split block `first` into four parts, stage by stage.
    #[inline(always)]
    fn factors(self, first: usize) -> [Multiplier<Q::V>; 3] {
        [self.factor(first), self.factor(2 * first), self.factor(2 * first + 1)]
    }

    /// The factors within the four vectors of a tile.
    #[inline(always)]
    fn lane_factors(self, tile: usize) -> [Multiplier<Q::V>; 3] {
        self.roots.lanes[tile].map(|w| w.map(|w| self.lanes.quads.load(&w)))
    }

    #[inline(always)]
    fn forward<const LAZY: bool>(self, values: &mut [u64]) {
        let (s, w, mut rows) = (self.lanes.quads, self.factors(1), quarters(values));
        for i in 0..rows[0].len() / 4 {
            let x = std::array::from_fn(|j| s.of_words(four(rows[j], i)));
            for (x, row) in self.lanes.split4::<LAZY>(x, w).into_iter().zip(&mut rows) {
                s.pack(x, &mut packed(row)[i]);
            }
        }
        for (i, row) in rows.into_iter().enumerate() {
            self.forward_quarter::<LAZY>(4 + i, row);
        }
    }

    /// The stages of the block number `first`, packed, a quarter of the row.
    #[inline(always)]
    fn forward_quarter<const LAZY: bool>(self, mut first: usize, row: &mut [u64]) {
        let (half, mut length) = (row.len() / 2, row.len() / 4); // in words, and in vectors
        let vectors = packed(&mut row[..half]);
        if (length / 4).trailing_zeros() % 2 == 1 {
            self.split_pass::<LAZY>(first, vectors);
            (first, length) = (2 * first, length / 2);
        }
        while length > 4 {
            for (i, block) in vectors.chunks_exact_mut(length).enumerate() {
                self.split_pass4::<LAZY>(first + i, block);
            }
            (first, length) = (4 * first, length / 4);
        }
        self.tiles::<LAZY>(first, row);
    }

    #[inline(always)]
    fn split_pass<const LAZY: bool>(self, block: usize, vectors: &mut [[u64; 2]]) {
        let (s, w) = (self.lanes.quads, self.factor(block));
        let (low, high) = vectors.split_at_mut(vectors.len() / 2);
        for (x, y) in low.iter_mut().zip(high) {
            let [sum, difference] = self.lanes.split2::<LAZY>(s.unpack(x), s.unpack(y), w);
            s.pack(sum, x);
            s.pack(difference, y);
        }
    }

    #[inline(always)]
    fn split_pass4<const LAZY: bool>(self, block: usize, vectors: &mut [[u64; 2]]) {
        let (s, w, [a, b, c, d]) = (self.lanes.quads, self.factors(block), quarters(vectors));
        for ((a, b), (c, d)) in a.iter_mut().zip(b).zip(c.iter_mut().zip(d)) {
            let x = [s.unpack(a), s.unpack(b), s.unpack(c), s.unpack(d)];
            let x = self.lanes.split4::<LAZY>(x, w);
            s.pack(x[0], a);
            s.pack(x[1], b);
            s.pack(x[2], c);
            s.pack(x[3], d);
        }
    }

    /// The last four stages, of blocks from number `first` on.
    #[inline(always)]
    fn tiles<const LAZY: bool>(self, first: usize, row: &mut [u64]) {
        let (s, lanes, count) = (self.lanes.quads, self.lanes, self.roots.factors.len() / 4);
        for i in (0..row.len() / TILE).rev() {
            let tile = &packed(row)[4 * i..][..4];
            let x = std::array::from_fn(|j| s.unpack(&tile[j]));
            let x = s.transpose(lanes.split4::<LAZY>(x, self.factors(first + i)));
            let x = lanes.split4::<LAZY>(x, self.lane_factors(first - count + i));
            for (j, x) in s.transpose(x.map(|x| lanes.canonical(x))).into_iter().enumerate() {
                s.to_words(x, four(row, 4 * i + j));
            }
        }
    }

    #[inline(always)]
    fn inverse(self, ends: [Multiplier<Q::V>; 2], values: &mut [u64]) {
        let (s, lanes, w, mut rows) = (self.lanes.quads, self.lanes, self.factors(1), quarters(values));
        for (i, row) in rows.iter_mut().enumerate() {
            self.inverse_quarter(4 + i, row);
        }
        for i in (0..rows[0].len() / 4).rev() {
            let [a, b, c, d] = std::array::from_fn(|j| s.unpack(&packed(rows[j])[i]));
            let ([a, b], [c, d]) = (lanes.join2(a, b, w[1]), lanes.join2(c, d, w[2]));
            let ([a, c], [b, d]) = (lanes.end2(a, c, ends), lanes.end2(b, d, ends));
            for (x, row) in [a, b, c, d].into_iter().zip(&mut rows) {
                s.to_words(x, four(row, i));
            }
        }
    }

    /// The stages back to the block number `block`, a quarter of the row.
    #[inline(always)]
    fn inverse_quarter(self, block: usize, row: &mut [u64]) {
        let (half, all) = (row.len() / 2, row.len() / 4);
        let mut first = block * (all / 4);
        self.join_tiles(first, row);
        let (vectors, mut length) = (packed(&mut row[..half]), 16);
        while length <= all {
            first /= 4;
            for (i, block) in vectors.chunks_exact_mut(length).enumerate() {
                self.join_pass4(first + i, block);
            }
            length *= 4;
        }
        if first > block {
            self.join_pass(block, vectors);
        }
    }

    #[inline(always)]
    fn join_pass(self, block: usize, vectors: &mut [[u64; 2]]) {
        let (s, w) = (self.lanes.quads, self.factor(block));
        let (low, high) = vectors.split_at_mut(vectors.len() / 2);
        for (x, y) in low.iter_mut().zip(high) {
            let [sum, difference] = self.lanes.join2(s.unpack(x), s.unpack(y), w);
            s.pack(sum, x);
            s.pack(difference, y);
        }
    }

    #[inline(always)]
    fn join_pass4(self, block: usize, vectors: &mut [[u64; 2]]) {
        let (s, w, [a, b, c, d]) = (self.lanes.quads, self.factors(block), quarters(vectors));
        for ((a, b), (c, d)) in a.iter_mut().zip(b).zip(c.iter_mut().zip(d)) {
            let x = [s.unpack(a), s.unpack(b), s.unpack(c), s.unpack(d)];
            let x = self.lanes.join4(x, w);
            s.pack(x[0], a);
            s.pack(x[1], b);
            s.pack(x[2], c);
            s.pack(x[3], d);
        }
    }

    /// The first four stages back, of blocks from number `first` on.
    #[inline(always)]
    fn join_tiles(self, first: usize, row: &mut [u64]) {
        let (s, lanes, count) = (self.lanes.quads, self.lanes, self.roots.factors.len() / 4);
        for i in 0..row.len() / TILE {
            let x = std::array::from_fn(|j| s.of_words(four(row, 4 * i + j)));
            let x = s.transpose(lanes.join4(s.transpose(x), self.lane_factors(first - count + i)));
            for (j, x) in lanes.join4(x, self.factors(first + i)).into_iter().enumerate() {
                s.pack(x, &mut packed(row)[4 * i + j]);
            }
        }
    }
}
