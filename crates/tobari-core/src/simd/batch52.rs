//! Batched affine addition, doubling and table lookup on eight lanes.
//!
//! Eight points are eight lanes. A batch keeps four running products, so that four independent multiplications are always
//! in flight; they and the eight lanes meet in one scalar inversion. Exceptional additions (equal `x`, the identity) are
//! taken out of their lane by a denominator of one and done afterwards by the portable backend.

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::field::{Element, Form, power_of_two};
use super::field52::{Field52, Number, limbs, vectors};
use super::lanes::Simd;
use super::portable::Portable;
use super::{Coefficient, CurveConstants};
use std::ops::Range;

/// Independent running products.
pub(super) const CHAINS: usize = 4;
/// Lanes of a vector.
pub(super) const LANES: usize = 8;
/// At least as many words as any point has, in whole vectors.
pub(super) const MAX_WORDS: usize = 16;

/// The words of eight points: vector `i` holds word `i` of each.
pub(super) type Words<S> = [<S as Simd>::V; MAX_WORDS];

/// Curve `C` on the lanes of `S`.
#[derive(Clone, Copy)]
pub(super) struct Batch52<S, C, const L: usize, const N: usize> {
    pub(super) field: Field52<S, C, L, N>,
}

/// What a batch does to each point.
trait Operation<S: Simd, const L: usize, const N: usize> {
    /// Slopes come out scaled by this power of two times `2^(-SHIFT)`, for the inverse to start with.
    const START_SHIFT: i32;
    /// The slope's denominator below `2p`, whose inverse comes out below `1.1p`, and the lanes that are not to be computed.
    fn denominator(&self, group: usize, p: &Words<S>) -> (Number<S, N>, u8);
    /// The slope's numerator below `7p`, and the other point's `x`.
    fn numerator(&self, group: usize, p: &Words<S>) -> (Number<S, N>, Number<S, N>);
}

struct Addition<'a, S, C, const L: usize, const N: usize> {
    curve: Batch52<S, C, L, N>,
    other: &'a [u64],
}

struct Doubling<S, C, const L: usize, const N: usize> {
    curve: Batch52<S, C, L, N>,
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Operation<S, L, N> for Addition<'_, S, C, L, N> {
    const START_SHIFT: i32 = -(Field52::<S, C, L, N>::SHIFT as i32);

    #[inline(always)]
    fn denominator(&self, group: usize, p: &Words<S>) -> (Number<S, N>, u8) {
        let (field, curve) = (self.curve.field, self.curve);
        let q = curve.read(self.other, group);
        let skipped = curve.equal_words(p, &q, 0..L) | curve.zero_words(p) | curve.zero_words(&q);
        (field.sub(&field.read(&q[..L]), &field.read(&p[..L]), &Field52::<S, C, L, N>::P1), skipped)
    }

    #[inline(always)]
    fn numerator(&self, group: usize, p: &Words<S>) -> (Number<S, N>, Number<S, N>) {
        let field = self.curve.field;
        let q = self.curve.read(self.other, group);
        let (p_y, q_y) = (field.read(&p[L..2 * L]), field.read(&q[L..2 * L]));
        (field.sub(&q_y, &p_y, &Field52::<S, C, L, N>::P1), field.read(&q[..L]))
    }
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Operation<S, L, N> for Doubling<S, C, L, N> {
    const START_SHIFT: i32 = Field52::<S, C, L, N>::SHIFT as i32;

    #[inline(always)]
    fn denominator(&self, _group: usize, p: &Words<S>) -> (Number<S, N>, u8) {
        let field = self.curve.field;
        let y = field.read(&p[L..2 * L]);
        (field.ripple(vectors!(field.simd, N, i => field.simd.add(y[i], y[i]))), self.curve.zero_words(p))
    }

    #[inline(always)]
    fn numerator(&self, _group: usize, p: &Words<S>) -> (Number<S, N>, Number<S, N>) {
        let (field, s) = (self.curve.field, self.curve.field.simd);
        let x = field.read(&p[..L]);
        let square = field.square(&x);
        // 3x² + a below 7p, a being κ² a here
        let numerator = match C::A {
            Coefficient::Zero => vectors!(s, N, i => s.add(s.add(square[i], square[i]), square[i])),
            Coefficient::MinusThree => {
                let one = field.constant(&Batch52::<S, C, L, N>::KAPPA_SQUARED);
                let shifted = field.sub(&square, &one, &Field52::<S, C, L, N>::P1);
                vectors!(s, N, i => s.add(s.add(shifted[i], shifted[i]), shifted[i]))
            }
            Coefficient::Small(a) => {
                // only p160_1, whose 208-bit numbers leave 47 spare bits
                let one = field.constant(&Batch52::<S, C, L, N>::KAPPA_SQUARED);
                let a = field.mul(&field.ripple(vectors!(s, N, i => times_small(s, one[i], a))), &field.one());
                vectors!(s, N, i => s.add(s.add(s.add(square[i], square[i]), square[i]), a[i]))
            }
        };
        (field.ripple(numerator), x)
    }
}

/// `small · limb` for a limb with room for it.
#[inline(always)]
pub(super) fn times_small<S: Simd>(s: S, limb: S::V, small: u64) -> S::V {
    let mut product = s.splat(0);
    for bit in (0..4).filter(|bit| small >> bit & 1 == 1) {
        product = s.add(product, s.shl(limb, bit));
    }
    product
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    /// Words of a point.
    pub(super) const STRIDE: usize = 2 * L;
    /// Words of eight points.
    pub(super) const GROUP: usize = LANES * Self::STRIDE;
    /// Words of a number of eight lanes in memory.
    pub(super) const NUMBER: usize = LANES * N;
    /// `κ²` as a number: what one is multiplied by on its way through the boundary, squared.
    const KAPPA_SQUARED: [u64; N] = {
        let words = match C::FORM {
            Form::Montgomery => power_of_two(128 * L as u32 - 52 * N as u32, &C::MODULUS),
            Form::PseudoMersenne { .. } => power_of_two(0, &C::MODULUS),
        };
        limbs(&words)
    };

    pub(super) fn new(simd: S) -> Self {
        Self { field: Field52::new(simd) }
    }

    #[inline(always)]
    pub(super) fn add_assign(self, a: &mut [u64], b: &[u64], scratch: &mut Vec<u64>) {
        let skipped = self.run(&Addition { curve: self, other: b }, a, scratch);
        if !skipped.is_empty() {
            self.add_skipped(&skipped, a, b, scratch);
        }
    }

    #[inline(always)]
    pub(super) fn double_assign(self, a: &mut [u64], scratch: &mut Vec<u64>) {
        // a skipped lane holds the identity, which `run` leaves as it is: its own double
        self.run(&Doubling { curve: self }, a, scratch);
    }

    /// The portable backend's answer for the additions that were skipped.
    #[cold]
    fn add_skipped(self, skipped: &[usize], a: &mut [u64], b: &[u64], scratch: &mut Vec<u64>) {
        let pick = |from: &[u64]| -> Vec<u64> {
            let points = skipped.iter().flat_map(|&i| &from[i * Self::STRIDE..(i + 1) * Self::STRIDE]);
            points.copied().collect()
        };
        let mut sums = pick(a);
        (Portable::<C, L>::KERNELS.add_assign)(&mut sums, &pick(b), scratch);
        for (&i, sum) in skipped.iter().zip(sums.chunks_exact(Self::STRIDE)) {
            a[i * Self::STRIDE..(i + 1) * Self::STRIDE].copy_from_slice(sum);
        }
    }

    /// Does `operation` to every point but the skipped ones, whose places it returns.
    #[inline(always)]
    fn run<O: Operation<S, L, N>>(self, operation: &O, points: &mut [u64], scratch: &mut Vec<u64>) -> Vec<usize> {
        let (field, s) = (self.field, self.field.simd);
        let count = points.len() / Self::STRIDE;
        let groups = count.div_ceil(LANES);
        let memory = aligned(scratch, 2 * groups * Self::NUMBER);
        let mut skipped = Vec::new();
        let mut products = [field.one(); CHAINS];
        for group in 0..groups {
            let p = self.read(points, group);
            let (mut denominator, bits) = operation.denominator(group, &p);
            if bits != 0 {
                note_skipped(&mut skipped, group, bits, count);
                let one = field.one();
                denominator = vectors!(s, N, i => s.select(bits, denominator[i], one[i]));
            }
            let place = 2 * group * Self::NUMBER;
            self.put(&products[group % CHAINS], &mut memory[place..place + Self::NUMBER]);
            self.put(&denominator, &mut memory[place + Self::NUMBER..place + 2 * Self::NUMBER]);
            products[group % CHAINS] = field.mul(&products[group % CHAINS], &denominator);
        }
        let mut inverses = self.invert_chains(&products, O::START_SHIFT);
        let mut next_skipped = skipped.len();
        for group in (0..groups).rev() {
            let place = 2 * group * Self::NUMBER;
            let prefix = self.get(&memory[place..place + Self::NUMBER]);
            let denominator = self.get(&memory[place + Self::NUMBER..place + 2 * Self::NUMBER]);
            let inverse = field.mul(&inverses[group % CHAINS], &prefix);
            inverses[group % CHAINS] = field.mul(&inverses[group % CHAINS], &denominator);
            let p = self.read(points, group);
            let (numerator, other_x) = operation.numerator(group, &p);
            let mut sum = self.chord(&p, &numerator, &inverse, &other_x);
            if next_skipped > 0 && skipped[next_skipped - 1] / LANES == group {
                let mut bits = 0u8;
                while next_skipped > 0 && skipped[next_skipped - 1] / LANES == group {
                    next_skipped -= 1;
                    bits |= 1 << (skipped[next_skipped] % LANES);
                }
                sum = vectors!(s, MAX_WORDS, i => s.select(bits, sum[i], p[i]));
            }
            self.write(&sum, points, group);
        }
        skipped
    }

    /// The third point of the line through `p`, given the slope's numerator, its inverted denominator and the other `x`.
    #[inline(always)]
    fn chord(self, p: &Words<S>, numerator: &Number<S, N>, inverse: &Number<S, N>, other_x: &Number<S, N>) -> Words<S> {
        let (field, s) = (self.field, self.field.simd);
        let (x, y) = (field.read(&p[..L]), field.read(&p[L..2 * L]));
        let slope = field.mul(numerator, inverse);
        let square = field.square(&slope);
        let both = vectors!(s, N, i => s.add(x[i], other_x[i]));
        let sum_x = field.canonical(&field.sub(&square, &both, &Field52::<S, C, L, N>::P2));
        let run = field.scale_up(&field.sub(&x, &sum_x, &Field52::<S, C, L, N>::P1));
        let rise = field.mul(&slope, &run);
        let sum_y = field.canonical(&field.sub(&rise, &y, &Field52::<S, C, L, N>::P1));
        let (x_words, y_words) = (field.words(&sum_x), field.words(&sum_y));
        let mut words = [s.splat(0); MAX_WORDS];
        words[..L].copy_from_slice(&x_words);
        words[L..2 * L].copy_from_slice(&y_words);
        words
    }

    /// The inverses that the chains start from on their way back, times `2^shift`.
    #[inline(always)]
    pub(super) fn invert_chains(self, products: &[Number<S, N>; CHAINS], shift: i32) -> [Number<S, N>; CHAINS] {
        let field = self.field;
        let (left, right) = (field.mul(&products[0], &products[1]), field.mul(&products[2], &products[3]));
        let all = self.invert_lanes(&field.mul(&left, &right), shift);
        let (left, right) = (field.mul(&all, &right), field.mul(&all, &left));
        [
            field.mul(&left, &products[1]),
            field.mul(&left, &products[0]),
            field.mul(&right, &products[3]),
            field.mul(&right, &products[2]),
        ]
    }

    /// `2^shift / number` as a number, lane by lane, with one inversion; no lane is zero.
    #[inline(always)]
    fn invert_lanes(self, number: &Number<S, N>, shift: i32) -> Number<S, N> {
        let (field, s) = (self.field, self.field.simd);
        let words = field.words(&field.canonical(number));
        let mut lanes = [[0u64; LANES]; L];
        for i in 0..L {
            s.store(words[i], &mut lanes[i]);
        }
        let inverted = invert_all::<C, L>(&lanes, shift, 52 * N as u32);
        field.read(&vectors!(s, L, i => s.load(&inverted[i])))
    }

    /// `out[i] = table[index[i]]`, negated where `negate[i]` is all ones.
    ///
    /// The table is turned into one vector for each word and eight entries, and entries are chosen by permutations within
    /// registers: neither an address nor a branch depends on an index.
    #[inline(always)]
    pub(super) fn select(self, table: &[u64], index: &[u8], negate: &[u64], out: &mut [u64]) {
        const MAX_VECTORS: usize = 8;
        let s = self.field.simd;
        let entries = table.len() / Self::STRIDE;
        let vectors = entries.div_ceil(LANES).next_multiple_of(2);
        assert!(vectors <= MAX_VECTORS, "tables of at most 64 entries");
        let mut columns = [[s.splat(0); MAX_WORDS]; MAX_VECTORS];
        for vector in 0..entries.div_ceil(LANES) {
            columns[vector] = self.read(table, vector);
        }
        for group in 0..index.len().div_ceil(LANES) {
            let range = group * LANES..index.len().min((group + 1) * LANES);
            let mut wide = [0u64; LANES];
            for (wide, narrow) in wide.iter_mut().zip(&index[range.clone()]) {
                *wide = u64::from(*narrow);
            }
            let wanted = s.load(&wide);
            let pair = s.shr(wanted, 4);
            let mut words = [s.splat(0); MAX_WORDS];
            for i in 0..vectors / 2 {
                let here = s.equal(pair, s.splat(i as u64));
                for word in 0..Self::STRIDE {
                    let found = s.look_up(wanted, columns[2 * i][word], columns[2 * i + 1][word]);
                    words[word] = s.select(here, words[word], found);
                }
            }
            let negative = s.equal(s.load(&negate[range]), s.splat(u64::MAX));
            self.negate(&mut words, negative);
            self.write(&words, out, group);
        }
    }

    /// `y ← p - y` in the lanes of `bits`, but for the identity.
    #[inline(always)]
    pub(super) fn negate(self, words: &mut Words<S>, bits: u8) {
        let s = self.field.simd;
        let bits = bits & !self.zero_words(words);
        let one = s.splat(1);
        let mut borrow = 0;
        for i in 0..L {
            let (modulus, word) = (s.splat(C::MODULUS[i]), words[L + i]);
            let difference = s.sub(modulus, word);
            let negated = s.select(borrow, difference, s.sub(difference, one));
            borrow = s.below(modulus, word) | (borrow & s.equal(modulus, word));
            words[L + i] = s.select(bits, word, negated);
        }
    }

    /// Group `group` of eight points; lanes beyond the end are the identity.
    #[inline(always)]
    pub(super) fn read(self, points: &[u64], group: usize) -> Words<S> {
        let rest = &points[group * Self::GROUP..];
        if rest.len() >= Self::GROUP {
            return self.read_whole(&rest[..Self::GROUP]);
        }
        let mut padded = [0u64; LANES * MAX_WORDS];
        padded[..rest.len()].copy_from_slice(rest);
        self.read_whole(&padded[..Self::GROUP])
    }

    #[inline(always)]
    fn read_whole(self, points: &[u64]) -> Words<S> {
        let s = self.field.simd;
        let mut words = [s.splat(0); MAX_WORDS];
        for block in 0..Self::STRIDE.div_ceil(LANES) {
            let width = LANES.min(Self::STRIDE - block * LANES);
            let mut rows = [s.splat(0); LANES];
            for lane in 0..LANES {
                let start = lane * Self::STRIDE + block * LANES;
                rows[lane] = s.load(&points[start..start + width]);
            }
            let columns = s.transpose(rows);
            for i in 0..LANES {
                words[block * LANES + i] = columns[i];
            }
        }
        words
    }

    #[inline(always)]
    pub(super) fn write(self, words: &Words<S>, points: &mut [u64], group: usize) {
        let rest = &mut points[group * Self::GROUP..];
        if rest.len() >= Self::GROUP {
            return self.write_whole(words, &mut rest[..Self::GROUP]);
        }
        let mut padded = [0u64; LANES * MAX_WORDS];
        self.write_whole(words, &mut padded[..Self::GROUP]);
        rest.copy_from_slice(&padded[..rest.len()]);
    }

    #[inline(always)]
    fn write_whole(self, words: &Words<S>, points: &mut [u64]) {
        let s = self.field.simd;
        for block in 0..Self::STRIDE.div_ceil(LANES) {
            let width = LANES.min(Self::STRIDE - block * LANES);
            let mut columns = [s.splat(0); LANES];
            for i in 0..LANES {
                columns[i] = words[block * LANES + i];
            }
            let rows = s.transpose(columns);
            for lane in 0..LANES {
                let start = lane * Self::STRIDE + block * LANES;
                s.store(rows[lane], &mut points[start..start + width]);
            }
        }
    }

    #[inline(always)]
    pub(super) fn put(self, number: &Number<S, N>, memory: &mut [u64]) {
        for i in 0..N {
            self.field.simd.store(number[i], &mut memory[i * LANES..(i + 1) * LANES]);
        }
    }

    #[inline(always)]
    pub(super) fn get(self, memory: &[u64]) -> Number<S, N> {
        vectors!(self.field.simd, N, i => self.field.simd.load(&memory[i * LANES..(i + 1) * LANES]))
    }

    #[inline(always)]
    fn equal_words(self, a: &Words<S>, b: &Words<S>, range: Range<usize>) -> u8 {
        let mut bits = 0xff;
        for i in range {
            bits &= self.field.simd.equal(a[i], b[i]);
        }
        bits
    }

    /// The lanes that hold the identity.
    #[inline(always)]
    pub(super) fn zero_words(self, a: &Words<S>) -> u8 {
        let s = self.field.simd;
        let mut any = a[0];
        for i in 1..Self::STRIDE {
            any = s.or(any, a[i]);
        }
        s.equal(any, s.splat(0))
    }
}

/// The lanes of a group that were skipped, but for those beyond the end of the batch.
#[cold]
pub(super) fn note_skipped(skipped: &mut Vec<usize>, group: usize, bits: u8, count: usize) {
    let lanes = (0..LANES).filter(|lane| bits >> lane & 1 == 1);
    skipped.extend(lanes.map(|lane| group * LANES + lane).filter(|place| *place < count));
}

/// `len` words of scratch memory on a cache line's boundary.
pub(super) fn aligned(scratch: &mut Vec<u64>, len: usize) -> &mut [u64] {
    if scratch.len() < len + LANES {
        scratch.resize(len + LANES, 0);
    }
    let start = scratch.as_ptr().align_offset(64).min(LANES);
    &mut scratch[start..start + len]
}

/// See [`Batch52::invert_lanes`]: words in and out, one vector of lanes for each word.
fn invert_all<C: CurveConstants<L>, const L: usize>(
    lanes: &[[u64; LANES]; L],
    shift: i32,
    log_r: u32,
) -> [[u64; LANES]; L] {
    let elements: [Element<C, L>; LANES] =
        std::array::from_fn(|lane| Element::from_words(&std::array::from_fn(|word| lanes[word][lane])));
    let mut prefixes = [Element::<C, L>::ONE; LANES];
    let mut product = Element::ONE;
    for (prefix, element) in prefixes.iter_mut().zip(&elements) {
        *prefix = product;
        product = product * *element;
    }
    // a number t stands for t/R' there and for t/R here: 2^shift R'^2/t is wanted, and R^2/t is what inversion gives
    let start = match C::FORM {
        Form::Montgomery => power_of_two((2 * log_r - C::LOG_R).wrapping_add_signed(shift), &C::MODULUS),
        Form::PseudoMersenne { .. } => C::ONE,
    };
    let mut inverse = product.invert() * Element::from_words(&start);
    let mut out = [[0; LANES]; L];
    for lane in (0..LANES).rev() {
        let words = (inverse * prefixes[lane]).0;
        inverse = inverse * elements[lane];
        for (word, out) in words.iter().zip(&mut out) {
            out[lane] = *word;
        }
    }
    out
}
