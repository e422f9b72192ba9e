//! Points in and out of the boundary form on eight lanes: range and curve checks, square roots.
//!
//! Coordinates are brought to true Montgomery numbers `v R'` by one product, worked on, and taken to the boundary form by
//! another. Square roots are one exponentiation by `(p + 1)/4` where `p ≡ 3 (mod 4)`, in four groups of eight lanes at a time,
//! since a single chain of squarings would wait for itself; the two curves of 224 bits keep the portable roots.

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::batch52::{Batch52, LANES, MAX_WORDS, Words};
use super::field::{Form, power_of_two};
use super::field52::{Field52, Number, limbs, vectors};
use super::lanes::Simd;
use super::portable::Portable;
use super::{Coefficient, CurveConstants};
use std::marker::PhantomData;

/// Groups of eight lanes whose square roots are taken together.
const GROUPS: usize = 4;

/// Factors between the ways in which a coordinate stands: integer, number of the room, boundary form. One for the primes
/// whose coordinates stand for themselves.
pub(super) struct Factors<C, const L: usize, const N: usize>(PhantomData<C>);

impl<C: CurveConstants<L>, const L: usize, const N: usize> Factors<C, L, N> {
    /// From an integer to a number.
    const NUMBER: [u64; N] = Self::power(104 * N as u32);
    /// From the boundary form to a number.
    pub(super) const FROM_BOUNDARY: [u64; N] = Self::power(104 * N as u32 - 64 * L as u32);
    /// From a number to the boundary form.
    pub(super) const BOUNDARY: [u64; N] = Self::power(64 * L as u32);
    /// From the boundary form to an integer.
    const INTEGER: [u64; N] = Self::power(52 * N as u32 - 64 * L as u32);

    const fn power(exponent: u32) -> [u64; N] {
        match C::FORM {
            Form::Montgomery => limbs(&power_of_two(exponent, &C::MODULUS)),
            Form::PseudoMersenne { .. } => limbs(&power_of_two(0, &C::MODULUS)),
        }
    }
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    /// See [`CurveKernels::export`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn export(self, points: &mut [u64]) {
        if matches!(C::FORM, Form::PseudoMersenne { .. }) {
            return;
        }
        let field = self.field;
        let factor = field.constant(&Factors::<C, L, N>::INTEGER);
        for group in 0..points.len().div_ceil(Self::GROUP) {
            let mut words = self.read(points, group);
            for start in [0, L] {
                let number = field.read(&words[start..start + L]);
                let integer = field.words(&field.canonical(&field.mul(&number, &factor)));
                words[start..start + L].copy_from_slice(&integer);
            }
            self.write(&words, points, group);
        }
    }

    /// See [`CurveKernels::import`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn import(self, points: &mut [u64]) -> Result<(), usize> {
        let field = self.field;
        let (into, out) = (field.constant(&Factors::<C, L, N>::NUMBER), field.constant(&Factors::<C, L, N>::BOUNDARY));
        for group in 0..points.len().div_ceil(Self::GROUP) {
            let mut words = self.read(points, group);
            let in_range = self.below_modulus(&words, 0) & self.below_modulus(&words, L);
            let identity = self.zero_words(&words);
            let x = field.mul(&field.read(&words[..L]), &into);
            let y = field.mul(&field.read(&words[L..2 * L]), &into);
            let on_curve = self.equal_numbers(&field.square(&y), &self.curve_polynomial(&x));
            // lanes beyond the end are the identity
            let good = in_range & (on_curve | identity);
            if good != 0xff {
                return Err(group * LANES + good.trailing_ones() as usize);
            }
            if matches!(C::FORM, Form::Montgomery) {
                words[..L].copy_from_slice(&field.words(&field.canonical(&field.mul(&x, &out))));
                words[L..2 * L].copy_from_slice(&field.words(&field.canonical(&field.mul(&y, &out))));
                self.write(&words, points, group);
            }
        }
        Ok(())
    }

    /// See [`CurveKernels::decompress`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn decompress(self, points: &mut [u64]) -> Result<(), usize> {
        if C::MODULUS[0] & 3 != 3 {
            return (Portable::<C, L>::KERNELS.decompress)(points);
        }
        let groups = points.len().div_ceil(Self::GROUP);
        for first in (0..groups).step_by(GROUPS) {
            self.decompress_groups(points, first, groups)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn decompress_groups(self, points: &mut [u64], first: usize, groups: usize) -> Result<(), usize> {
        let (field, s) = (self.field, self.field.simd);
        let (into, out) = (field.constant(&Factors::<C, L, N>::NUMBER), field.constant(&Factors::<C, L, N>::BOUNDARY));
        let zero = [s.splat(0); N];
        let (mut words, mut x, mut squares) = ([[s.splat(0); MAX_WORDS]; GROUPS], [zero; GROUPS], [zero; GROUPS]);
        let mut in_range = [0u8; GROUPS];
        for i in 0..GROUPS.min(groups - first) {
            words[i] = self.read(points, first + i);
            in_range[i] = self.below_modulus(&words[i], 0);
            x[i] = field.mul(&field.read(&words[i][..L]), &into);
            squares[i] = self.curve_polynomial(&x[i]);
        }
        let roots = self.square_roots(&squares);
        for i in 0..GROUPS.min(groups - first) {
            let root = roots[i];
            let exists = self.equal_numbers(&field.square(&root), &squares[i]);
            let present = self.present(points, first + i);
            let good = exists & in_range[i] | !present;
            if good != 0xff {
                return Err((first + i) * LANES + good.trailing_ones() as usize);
            }
            let integer = match C::FORM {
                Form::Montgomery => field.mul(&root, &vectors!(s, N, j => s.splat(u64::from(j == 0)))),
                Form::PseudoMersenne { .. } => root,
            };
            let one = s.splat(1);
            let parity = s.and(field.canonical(&integer)[0], one);
            let other = !s.equal(parity, s.and(words[i][L], one));
            let y = field.canonical(&field.mul(&root, &out));
            words[i][..L].copy_from_slice(&field.words(&field.canonical(&field.mul(&x[i], &out))));
            words[i][L..2 * L].copy_from_slice(&field.words(&y));
            self.negate(&mut words[i], other);
            self.write(&words[i], points, first + i);
        }
        Ok(())
    }

    /// `x^((p + 1)/4)` by windows of four bits, for four groups.
    #[inline(always)]
    fn square_roots(self, x: &[Number<S, N>; GROUPS]) -> [Number<S, N>; GROUPS] {
        let field = self.field;
        let mut powers = [[field.one(); GROUPS]; 16];
        for i in 1..16 {
            for g in 0..GROUPS {
                powers[i][g] = field.mul(&powers[i - 1][g], &x[g]);
            }
        }
        let mut root = powers[0];
        for window in (0..16 * L).rev() {
            for _ in 0..4 {
                for g in 0..GROUPS {
                    root[g] = field.square(&root[g]);
                }
            }
            // the exponent is public: a constant of the curve
            let digit = quarter_of_successor(&C::MODULUS, window);
            if digit != 0 {
                for g in 0..GROUPS {
                    root[g] = field.mul(&root[g], &powers[digit][g]);
                }
            }
        }
        root
    }

    /// `x³ + ax + b`, below `2p`.
    #[inline(always)]
    fn curve_polynomial(self, x: &Number<S, N>) -> Number<S, N> {
        let (field, s) = (self.field, self.field.simd);
        let cube = field.mul(&field.square(x), x);
        let into = field.constant(&Factors::<C, L, N>::NUMBER);
        let b = field.mul(&field.constant(&limbs(&C::B)), &into);
        let mut sum = vectors!(s, N, i => s.add(cube[i], b[i]));
        match C::A {
            Coefficient::Zero => {}
            // + 6p - 3x, for x below 2p
            Coefficient::MinusThree => {
                let p2 = field.constant(&Field52::<S, C, L, N>::P2);
                sum = vectors!(s, N, i => {
                    let difference = s.sub(p2[i], x[i]);
                    s.add(sum[i], s.add(difference, s.add(difference, difference)))
                });
            }
            Coefficient::Small(a) => {
                let a = field.mul(&vectors!(s, N, i => s.splat(if i == 0 { a } else { 0 })), &into);
                let linear = field.mul(&a, x);
                sum = vectors!(s, N, i => s.add(sum[i], linear[i]));
            }
        }
        field.mul(&field.ripple(sum), &field.one())
    }

    /// The lanes in which two numbers below `2p` are the same residue.
    #[inline(always)]
    fn equal_numbers(self, a: &Number<S, N>, b: &Number<S, N>) -> u8 {
        let field = self.field;
        self.zero_number(&field.canonical(&field.sub(a, b, &Field52::<S, C, L, N>::P2)))
    }

    /// The lanes in which a canonical number is zero.
    #[inline(always)]
    pub(super) fn zero_number(self, number: &Number<S, N>) -> u8 {
        let s = self.field.simd;
        let mut any = number[0];
        for i in 1..N {
            any = s.or(any, number[i]);
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

    /// The lanes of a group that are not beyond the end.
    #[inline(always)]
    fn present(self, points: &[u64], group: usize) -> u8 {
        let count = (points.len() / Self::STRIDE - group * LANES).min(LANES);
        (0xff_u16 >> (LANES - count)) as u8
    }
}

/// Bits `4 window` to `4 window + 3` of `(p + 1)/4`; `p + 1` does not carry out of its words on any of the curves.
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
