//! Import and export of points on eight lanes: range and curve checks, square roots.
//!
//! An exported coordinate is a canonical integer, an internal one a number of the field. For
//! Montgomery primes one product converts between them. If `p ≡ 3 (mod 4)`, a square root is one
//! exponentiation by `(p + 1)/4`, in four groups of eight lanes at a time, because a single chain
//! of squarings would wait for its own results. The two curves of 224 bits use the portable roots.

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::batch52::{Batch52, CHAINS, MAX_WORDS, Step, Words};
use super::field::{Element, Form, power_of_two};
use super::field52::{Field52, Number, limbs, vectors};
use super::portable;
use super::{Coefficient, CurveConstants};
use std::marker::PhantomData;
use tobari_simd::Simd;
use tobari_simd::{LANES, Line};

/// Integer to number: a constant of the curve.
struct IntoNumber<C, const L: usize, const N: usize>(PhantomData<C>);

impl<C: CurveConstants<L>, const L: usize, const N: usize> IntoNumber<C, L, N> {
    const FACTOR: [u64; N] = match C::FORM {
        Form::Montgomery { .. } => limbs(&power_of_two(104 * N as u32, &C::MODULUS)),
        Form::PseudoMersenne { .. } => limbs(&power_of_two(0, &C::MODULUS)),
    };
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    #[inline(always)]
    pub(super) fn number_of(self, integer: &Number<S, N>) -> Number<S, N> {
        match C::FORM {
            Form::Montgomery { .. } => self.field.mul(integer, &self.field.constant(&IntoNumber::<C, L, N>::FACTOR)),
            Form::PseudoMersenne { .. } => *integer,
        }
    }

    /// The canonical integer.
    #[inline(always)]
    fn to_integer(self, number: &Number<S, N>) -> Number<S, N> {
        let (field, s) = (self.field, self.field.simd);
        match C::FORM {
            Form::Montgomery { .. } => {
                field.canonical(&field.mul(number, &vectors!(s, N, i => s.splat(u64::from(i == 0)))))
            }
            Form::PseudoMersenne { .. } => field.canonical(number),
        }
    }

    /// See [`CurveKernels::export`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn export(self, points: &[Line], out: &mut [u64]) {
        let field = self.field;
        for (group, out) in points.chunks_exact(Self::GROUP).zip(out.chunks_mut(LANES * Self::STRIDE)) {
            let mut words = [field.simd.splat(0); MAX_WORDS];
            for coordinate in 0..2 {
                let integer = field.words(&self.to_integer(&self.get(&group[coordinate * N..])));
                words[coordinate * L..(coordinate + 1) * L].copy_from_slice(&integer);
            }
            self.write_integers(&words, out);
        }
    }

    /// See [`CurveKernels::import`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn import(self, integers: &[u64], points: &mut [Line]) -> Result<(), usize> {
        let (field, b) = (self.field, self.number_of(&self.field.constant(&limbs(&C::B))));
        let groups = integers.chunks(LANES * Self::STRIDE).zip(points.chunks_exact_mut(Self::GROUP));
        for (group, (integers, out)) in groups.enumerate() {
            let words = self.read_integers(integers);
            let in_range = self.below_modulus(&words, 0) & self.below_modulus(&words, L);
            let identity = self.zero_words(&words);
            let x = self.number_of(&field.read(&words[..L]));
            let y = self.number_of(&field.read(&words[L..2 * L]));
            let on_curve = self.equal_numbers(&field.square(&y), &self.curve_polynomial(&x, &b));
            // lanes beyond the end are the identity
            let good = in_range & (on_curve | identity);
            if good != 0xff {
                return Err(group * LANES + good.trailing_ones() as usize);
            }
            self.put(&x, &mut out[..N]);
            self.put(&y, &mut out[N..]);
        }
        Ok(())
    }

    /// See [`CurveKernels::decompress`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn decompress(self, integers: &mut [u64], points: &mut [Line]) -> Result<(), usize> {
        if C::MODULUS[0] & 3 != 3 {
            portable::find_y::<C, Element<C, L>, L>(integers)?;
            return self.import(integers, points);
        }
        let steps = integers.chunks(CHAINS * LANES * Self::STRIDE).zip(points.chunks_mut(CHAINS * Self::GROUP));
        for (step, (integers, points)) in steps.enumerate() {
            self.decompress_step(integers, points).map_err(|place| step * CHAINS * LANES + place)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn decompress_step(self, integers: &[u64], points: &mut [Line]) -> Result<(), usize> {
        let (field, s) = (self.field, self.field.simd);
        let groups = points.len() / Self::GROUP;
        let zero = [[s.splat(0); N]; CHAINS];
        let b = self.number_of(&field.constant(&limbs(&C::B)));
        let (mut x, mut squares) = (zero, zero);
        let mut words = [[s.splat(0); MAX_WORDS]; CHAINS];
        for i in 0..groups {
            let from = i * LANES * Self::STRIDE;
            words[i] = self.read_integers(&integers[from..integers.len().min(from + LANES * Self::STRIDE)]);
            x[i] = self.number_of(&field.read(&words[i][..L]));
            squares[i] = self.curve_polynomial(&x[i], &b);
        }
        let roots = self.square_roots(&squares);
        for i in 0..groups {
            let root = roots[i];
            let exists = self.equal_numbers(&field.square(&root), &squares[i]);
            let count = integers.len() / Self::STRIDE - i * LANES;
            let absent = !(0xff_u16 >> (LANES - count.min(LANES))) as u8;
            let good = exists & self.below_modulus(&words[i], 0) | absent;
            if good != 0xff {
                return Err(i * LANES + good.trailing_ones() as usize);
            }
            let one = s.splat(1);
            let parity = s.and(self.to_integer(&root)[0], one);
            let other = !s.equal(parity, s.and(words[i][L], one));
            let opposite = field.settle(field.below(&Field52::<S, C, L, N>::SPREAD4, &root));
            let y = vectors!(s, N, j => s.select(absent, s.select(other, root[j], opposite[j]), s.splat(0)));
            let x = vectors!(s, N, j => s.select(absent, x[i][j], s.splat(0)));
            self.put(&x, &mut points[i * Self::GROUP..]);
            self.put(&y, &mut points[i * Self::GROUP + N..]);
        }
        Ok(())
    }

    /// `x^((p + 1)/4)` by windows of four bits, for four groups.
    #[inline(always)]
    fn square_roots(self, x: &Step<S, N>) -> Step<S, N> {
        let field = self.field;
        let mut powers = [[field.one(); CHAINS]; 16];
        for i in 1..16 {
            for g in 0..CHAINS {
                powers[i][g] = field.mul(&powers[i - 1][g], &x[g]);
            }
        }
        let mut root = powers[0];
        for window in (0..16 * L).rev() {
            for _ in 0..4 {
                let from = root;
                for (i, root) in root.as_chunks_mut().0.iter_mut().enumerate() {
                    field.square_pair([&from[2 * i], &from[2 * i + 1]], root);
                }
            }
            // the exponent is public: a constant of the curve
            let digit = quarter_of_successor(&C::MODULUS, window);
            if digit != 0 {
                for g in 0..CHAINS {
                    root[g] = field.mul(&root[g], &powers[digit][g]);
                }
            }
        }
        root
    }

    /// `x³ + ax + b`, a coordinate, for `x` and `b` below `2p`.
    #[inline(always)]
    fn curve_polynomial(self, x: &Number<S, N>, b: &Number<S, N>) -> Number<S, N> {
        let (field, s) = (self.field, self.field.simd);
        let mut more = *b;
        match C::A {
            Coefficient::Zero => {}
            // 8p - 3x
            Coefficient::MinusThree => {
                let less = field.below(&Field52::<S, C, L, N>::SPREAD8, &field.multiple(x, 3));
                more = vectors!(s, N, i => s.add(more[i], less[i]));
            }
            // p160_1, whose 208-bit numbers leave 47 spare bits
            Coefficient::Small(a) => {
                let linear = field.multiple(x, a);
                more = vectors!(s, N, i => s.add(more[i], linear[i]));
            }
        }
        field.mul_plus(&field.square(x), x, &more)
    }

    /// Words of eight points from their integers; lanes beyond the end are zero.
    #[inline(always)]
    fn read_integers(self, integers: &[u64]) -> Words<S> {
        let mut rows = [Line::ZERO; MAX_WORDS];
        for (lane, point) in integers.chunks_exact(Self::STRIDE).enumerate() {
            for block in 0..Self::STRIDE.div_ceil(LANES) {
                let end = Self::STRIDE.min((block + 1) * LANES);
                let words = &point[block * LANES..end];
                rows[lane * Self::STRIDE.div_ceil(LANES) + block].0[..words.len()].copy_from_slice(words);
            }
        }
        let entry = Self::STRIDE.div_ceil(LANES);
        self.read_rows(|lane| Some(&rows[lane * entry..(lane + 1) * entry]))
    }

    #[inline(always)]
    fn write_integers(self, words: &Words<S>, out: &mut [u64]) {
        let mut rows = [Line::ZERO; MAX_WORDS];
        self.write_rows(words, &mut rows);
        let entry = Self::STRIDE.div_ceil(LANES);
        for (lane, point) in out.chunks_exact_mut(Self::STRIDE).enumerate() {
            for block in 0..entry {
                let end = Self::STRIDE.min((block + 1) * LANES);
                point[block * LANES..end].copy_from_slice(&rows[lane * entry + block].0[..end - block * LANES]);
            }
        }
    }

    /// The lanes in which all words are zero.
    #[inline(always)]
    fn zero_words(self, words: &Words<S>) -> u8 {
        let s = self.field.simd;
        let mut any = words[0];
        for i in 1..Self::STRIDE {
            any = s.or(any, words[i]);
        }
        s.equal(any, s.splat(0))
    }

    /// The lanes in which the coordinate at `start` is below `p`.
    #[inline(always)]
    fn below_modulus(self, words: &Words<S>, start: usize) -> u8 {
        let s = self.field.simd;
        let mut below = 0;
        for i in 0..L {
            let (word, modulus) = (words[start + i], s.splat(C::MODULUS[i]));
            below = s.below(word, modulus) | (below & s.equal(word, modulus));
        }
        below
    }
}

/// Bits `4 window` to `4 window + 3` of `(p + 1)/4`; `p + 1` does not carry out of its words on any
/// of the curves.
#[inline(always)]
fn quarter_of_successor<const L: usize>(p: &[u64; L], window: usize) -> usize {
    let mut successor = [0u64; L];
    let mut carry = true;
    for i in 0..L {
        (successor[i], carry) = p[i].overflowing_add(u64::from(carry));
    }
    let (word, offset) = ((4 * window + 2) / 64, (4 * window + 2) % 64);
    let low = successor[word.min(L - 1)] >> offset;
    let high = if offset > 60 && word + 1 < L { successor[word + 1] << (64 - offset) } else { 0 };
    (low | high) as usize & 15
}
