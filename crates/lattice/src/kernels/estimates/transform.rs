//! Transforms on two lanes with estimated quotients: two stages a pass, on four vectors.
//!
//! # Ranges
//! A factor accepts numbers below 2^52. Forwards, a butterfly makes `X + T` and `X - T + 2q` with
//! `T < 2q`. For `q < 2^46` seventeen stages reach at most `35 q < 2^52`, and nothing is reduced
//! before the end. For larger primes `X` is reduced from `4q < 2^52` to `2q`. Backwards `X + Y` is
//! reduced to `2q`, and `X - Y + 2q < 4q`.

use super::super::{NttTable, Roots, Words};
use super::{Lanes, Multiplier, twos_mut};
use crate::kernels::{Factor, Modulus};
use tobari_simd::Quads;

/// The transforms.
#[derive(Clone, Copy)]
pub(crate) struct EstimatedTransform<Q: Quads>(pub(crate) Q);

/// The shortest transform.
const SHORTEST: usize = 16;
/// Primes below `2^LAZY_BITS` need no reductions forwards.
const LAZY_BITS: u32 = 46;

/// Centred roots, and the bits of the doubles nearest to their quotients by the modulus.
#[derive(Clone, Debug)]
pub(crate) struct EstimatedRoots {
    values: Vec<u64>,
    shares: Vec<u64>,
}

impl EstimatedRoots {
    fn new(q: &Modulus, roots: &Roots) -> Self {
        let (values, shares) = roots.values.iter().map(|w| multiplier(q, *w).into()).unzip();
        Self { values, shares }
    }
}

fn multiplier(q: &Modulus, w: u64) -> [u64; 2] {
    let centred = q.centred(w);
    [centred as u64, (centred as f64 / q.value() as f64).to_bits()]
}

impl<Q: Quads> EstimatedTransform<Q> {
    /// Coefficients to values.
    #[inline(always)]
    pub(crate) fn forward(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < SHORTEST {
            return Words.forward(q, table, values);
        }
        let roots = table.forward.estimated.get_or_init(|| EstimatedRoots::new(q, &table.forward));
        let stages = Stages { lanes: Lanes::new(self.0, q), roots };
        match q.bits() {
            ..=LAZY_BITS => stages.forward::<true>(multiplier(q, 1), values),
            _ => stages.forward::<false>(multiplier(q, 1), values),
        }
    }

    /// Values to coefficients.
    #[inline(always)]
    pub(crate) fn inverse(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        if values.len() < SHORTEST {
            return Words.inverse(q, table, values);
        }
        let roots = table.inverse.estimated.get_or_init(|| EstimatedRoots::new(q, &table.inverse));
        let lanes = Lanes::new(self.0, q);
        let factor = |w: Factor| lanes.splat(multiplier(q, w.value));
        Stages { lanes, roots }.inverse([factor(table.scale), factor(table.scaled_root)], values);
    }
}

impl<Q: Quads> Lanes<Q> {
    #[inline(always)]
    fn split2<const LAZY: bool>(self, x: Q::V, y: Q::V, w: Multiplier<Q::V>) -> [Q::V; 2] {
        let (s, product) = (self.quads, self.product(y, w));
        let x = if LAZY { x } else { self.once(x, self.twice) };
        [s.add_words(x, product), s.sub_words(s.add_words(x, self.twice), product)]
    }

    #[inline(always)]
    fn join2(self, x: Q::V, y: Q::V, w: Multiplier<Q::V>) -> [Q::V; 2] {
        let s = self.quads;
        let difference = s.sub_words(s.add_words(x, self.twice), y);
        [self.once(s.add_words(x, y), self.twice), self.product(difference, w)]
    }

    /// The last butterfly back, with `1/N` in its factors.
    #[inline(always)]
    fn end2(self, x: Q::V, y: Q::V, ends: [Multiplier<Q::V>; 2]) -> [Q::V; 2] {
        let s = self.quads;
        let difference = s.sub_words(s.add_words(x, self.twice), y);
        [self.product(s.add_words(x, y), ends[0]), self.product(difference, ends[1])].map(|x| self.once(x, self.q))
    }
}

/// The stages of one transform.
#[derive(Clone, Copy)]
struct Stages<'a, Q: Quads> {
    lanes: Lanes<Q>,
    roots: &'a EstimatedRoots,
}

/// The four quarters of a block, vector by vector.
#[inline(always)]
fn quarters(values: &mut [u64]) -> impl Iterator<Item = [&mut [u64; 2]; 4]> {
    let (low, high) = values.split_at_mut(values.len() / 2);
    let ((a, b), (c, d)) = (low.split_at_mut(low.len() / 2), high.split_at_mut(high.len() / 2));
    let (low, high) = (twos_mut(a).iter_mut().zip(twos_mut(b)), twos_mut(c).iter_mut().zip(twos_mut(d)));
    low.zip(high).map(|((a, b), (c, d))| [a, b, c, d])
}

/// The two halves.
#[inline(always)]
fn halves(values: &mut [u64]) -> impl Iterator<Item = [&mut [u64; 2]; 2]> {
    let (low, high) = values.split_at_mut(values.len() / 2);
    twos_mut(low).iter_mut().zip(twos_mut(high)).map(|(x, y)| [x, y])
}

impl<Q: Quads> Stages<'_, Q> {
    #[inline(always)]
    fn factor(self, index: usize) -> Multiplier<Q::V> {
        self.lanes.splat([self.roots.values[index], self.roots.shares[index]])
    }

    /// The factors that split block `first` into four parts, stage by stage.
    #[inline(always)]
    fn factors(self, first: usize) -> [Multiplier<Q::V>; 3] {
        [self.factor(first), self.factor(2 * first), self.factor(2 * first + 1)]
    }

    /// The factors of block `first`, which is four numbers long: for the second stage one a lane.
    #[inline(always)]
    fn lane_factors(self, first: usize) -> [Multiplier<Q::V>; 2] {
        let both = |all: &[u64]| self.lanes.quads.unpack(&all.as_chunks().0[first]);
        [self.factor(first), [both(&self.roots.values), both(&self.roots.shares)]]
    }

    #[inline(always)]
    fn forward<const LAZY: bool>(self, one: [u64; 2], values: &mut [u64]) {
        let (s, lanes, one) = (self.lanes.quads, self.lanes, self.lanes.splat(one));
        let (mut first, mut length) = (1, values.len());
        if length.trailing_zeros() % 2 == 1 {
            let w = self.factor(1);
            for [x, y] in halves(values) {
                let [sum, difference] = lanes.split2::<LAZY>(s.unpack(x), s.unpack(y), w);
                s.pack(sum, x);
                s.pack(difference, y);
            }
            (first, length) = (2, length / 2);
        }
        while length > 4 {
            for (block, values) in values.chunks_exact_mut(length).enumerate() {
                let w = self.factors(first + block);
                for [a, b, c, d] in quarters(values) {
                    let [x, z] = lanes.split2::<LAZY>(s.unpack(a), s.unpack(c), w[0]);
                    let [y, t] = lanes.split2::<LAZY>(s.unpack(b), s.unpack(d), w[0]);
                    let ([x, y], [z, t]) = (lanes.split2::<LAZY>(x, y, w[1]), lanes.split2::<LAZY>(z, t, w[2]));
                    s.pack(x, a);
                    s.pack(y, b);
                    s.pack(z, c);
                    s.pack(t, d);
                }
            }
            (first, length) = (4 * first, length / 4);
        }
        for (block, [low, high]) in twos_mut(values).as_chunks_mut().0.iter_mut().enumerate() {
            let w = self.lane_factors(first + block);
            let [x, y] = lanes.split2::<LAZY>(s.unpack(low), s.unpack(high), w[0]);
            let [x, y] = s.interleave_words(x, y);
            let all = lanes.split2::<LAZY>(x, y, w[1]).map(|x| {
                let x = if LAZY { lanes.product(x, one) } else { lanes.once(x, lanes.twice) };
                lanes.once(x, lanes.q)
            });
            let [x, y] = s.interleave_words(all[0], all[1]);
            s.pack(x, low);
            s.pack(y, high);
        }
    }

    #[inline(always)]
    fn inverse(self, ends: [Multiplier<Q::V>; 2], values: &mut [u64]) {
        let (s, lanes, mut first, mut length) = (self.lanes.quads, self.lanes, values.len() / 4, 4);
        for (block, [low, high]) in twos_mut(values).as_chunks_mut().0.iter_mut().enumerate() {
            let w = self.lane_factors(first + block);
            let [x, y] = s.interleave_words(s.unpack(low), s.unpack(high));
            let [x, y] = lanes.join2(x, y, w[1]);
            let [x, y] = s.interleave_words(x, y);
            let [x, y] = lanes.join2(x, y, w[0]);
            s.pack(x, low);
            s.pack(y, high);
        }
        (first, length) = (first / 4, 4 * length);
        while first > 1 {
            for (block, values) in values.chunks_exact_mut(length).enumerate() {
                let w = self.factors(first + block);
                for [a, b, c, d] in quarters(values) {
                    let [x, y] = lanes.join2(s.unpack(a), s.unpack(b), w[1]);
                    let [z, t] = lanes.join2(s.unpack(c), s.unpack(d), w[2]);
                    let ([x, z], [y, t]) = (lanes.join2(x, z, w[0]), lanes.join2(y, t, w[0]));
                    s.pack(x, a);
                    s.pack(y, b);
                    s.pack(z, c);
                    s.pack(t, d);
                }
            }
            (first, length) = (first / 4, 4 * length);
        }
        self.end(first, ends, values);
    }

    /// The last pass back: two stages if one block remains, or the one remaining stage.
    #[inline(always)]
    fn end(self, first: usize, ends: [Multiplier<Q::V>; 2], values: &mut [u64]) {
        let (s, lanes) = (self.lanes.quads, self.lanes);
        if first == 1 {
            let w = self.factors(1);
            for [a, b, c, d] in quarters(values) {
                let [x, y] = lanes.join2(s.unpack(a), s.unpack(b), w[1]);
                let [z, t] = lanes.join2(s.unpack(c), s.unpack(d), w[2]);
                let ([x, z], [y, t]) = (lanes.end2(x, z, ends), lanes.end2(y, t, ends));
                s.pack(x, a);
                s.pack(y, b);
                s.pack(z, c);
                s.pack(t, d);
            }
        } else {
            for [x, y] in halves(values) {
                let [sum, difference] = lanes.end2(s.unpack(x), s.unpack(y), ends);
                s.pack(sum, x);
                s.pack(difference, y);
            }
        }
    }
}
