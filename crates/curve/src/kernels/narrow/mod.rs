//! Prime fields on signed limbs of 29 bits, for machines whose widest product is the low 64 bits of
//! a 64-bit one: WebAssembly.
//!
//! A number is `Σ x_i 2^(29i)` with `x_i` in 64-bit words, so that a sum is a sum of limbs and a
//! product's columns are sums of products of limbs, none of which carries. Carries round:
//! `c = ⌊(x + 2^28)/2^29⌋` leaves `|x - 2^29 c| ≤ 2^28`. The meaning of a number depends on the
//! prime; `2^BITS mod p` is a few signed powers of two ([`Form`]):
//!
//! * if `2^(29N) mod p` has two limbs, `f_0 + 2^29 f_1`, a number represents itself, and the `N`
//!   high columns of a product, after their carries, are folded onto the low ones;
//! * otherwise `v` is stored as `v · 2^(29N) mod p` (Montgomery). As `p ≡ ±1 (mod 2^29)` for these
//!   primes, the multiple of `p` that clears a column is given by the column itself, and the
//!   multiple's limbs are shifted copies of it.
//!
//! # Bounds
//! A number of weight `w` ([`Coordinate`]) has limbs of at most `w (2^28 + 2^22)`. Factors of
//! weights `v w ≤ 8` have columns of at most `8 N (2^28 + 2^22)² < 2^63 - 2^58`, and clearing adds
//! less than `2^58` to a column. With fewer than ten limbs, the columns are `< 2^63 - 2^60`, and
//! folding adds less than `2^60` (`CHECKED`). A settled number or a product has an absolute value
//! below `2^BITS`, usually about half of that: its highest limb has been folded by `2^BITS mod p`,
//! or it is a quotient by `2^(29N) ≥ 32 p`.
//!
//! # Leakage
//! Constant time, except [`Coordinate::is_zero`] and the exponents of [`Coordinate::pow`], which
//! are public constants.

#![allow(clippy::absurd_extreme_comparisons, reason = "an unrolled loop's variable is a constant, and may be 0")]

use super::coordinate::Coordinate;
use super::field::{Form, Prime, power_of_two};
use super::{opaque, unrolled};
use std::marker::PhantomData;
use std::ops::{Add, Mul, Neg, Sub};
use tobari_simd::{LANES, Line};

/// Bits of a limb.
const LIMB: u32 = 29;
const MASK: i64 = (1 << LIMB) - 1;
/// Rounds a carry.
const HALF: i64 = 1 << (LIMB - 1);

/// Limbs for a field of `bits` bits, with spare bits.
pub(crate) const fn limbs29(bits: u32) -> usize {
    (bits / LIMB + 1) as usize
}

/// An element of `F_p` in `N` limbs.
#[derive(Clone, Copy)]
pub(crate) struct Narrow<P, const L: usize, const N: usize>([i64; N], PhantomData<P>);

/// The multiple of `2^29` in `x`, rounded, and the remainder.
#[inline(always)]
fn carry(x: i64) -> (i64, i64) {
    let carry = (x + HALF) >> LIMB;
    (carry, x - (carry << LIMB))
}

/// Words to limbs of 29 bits; the last limb has all remaining bits.
#[inline(always)]
const fn split<const L: usize, const N: usize>(words: &[u64; L]) -> [i64; N] {
    let mut limbs = [0; N];
    let mut i = 0;
    while i < N {
        let (word, offset) = (LIMB as usize * i / 64, (LIMB as usize * i % 64) as u32);
        let low = if word < L { words[word] >> offset } else { 0 };
        let high = if offset > 0 && word + 1 < L { words[word + 1] << (64 - offset) } else { 0 };
        limbs[i] = (low | high) as i64 & MASK;
        i += 1;
    }
    limbs
}

impl<P: Prime<L>, const L: usize, const N: usize> Narrow<P, L, N> {
    /// Bits of `p` in the highest limb.
    const TOP: u32 = P::BITS - LIMB * (N as u32 - 1);
    /// `p` in limbs.
    const P1: [i64; N] = split(&P::MODULUS);
    /// `2^BITS mod p`, in few and small limbs.
    const FOLD: [i64; N] = fold_of(P::FORM);
    /// `f_0` and `f_1`, if `2^(29N) mod p` is `f_0 + 2^29 f_1`.
    const WRAP: Option<[i64; 2]> = wrap_of(P::FORM, LIMB * N as u32 - P::BITS);
    /// `log2 R`: the factor between an element's representation and its value.
    const LOG_R: u32 = match Self::WRAP {
        Some(_) => 0,
        None => LIMB * N as u32,
    };
    /// `p` or `-p`, whichever is `-1` modulo `2^29`, in few and small limbs.
    const CLEARING: [i64; N] = {
        let sign = if Self::FOLD[0] == 1 { 1 } else { -1 };
        let mut limbs = [0; N];
        let mut i = 0;
        while i < N {
            limbs[i] = -sign * Self::FOLD[i];
            i += 1;
        }
        limbs[N - 1] += sign << Self::TOP;
        limbs
    };
    /// `p - 2`: the exponent of inversion.
    const FERMAT: [u64; L] = {
        let mut exponent = P::MODULUS;
        let mut borrow = 2;
        let mut i = 0;
        while i < L {
            let under;
            (exponent[i], under) = exponent[i].overflowing_sub(borrow);
            borrow = under as u64;
            i += 1;
        }
        exponent
    };
    /// Checks the claims of the module head about the constants.
    const CHECKED: () = {
        let columns = 8 * N as u128 * ((1 << 28) + (1 << 22)) * ((1 << 28) + (1 << 22));
        match Self::WRAP {
            Some([low, high]) => {
                assert!(columns < (1 << 63) - (1 << 60) && low.abs() < 1 << 29 && high.abs() < 1 << 18);
                // the part above the highest limb, times a limb of 2^BITS mod p
                assert!(Self::FOLD[0].unsigned_abs() < 3 << (Self::TOP - 2) && Self::FOLD[1] <= 8);
            }
            None => {
                assert!(columns < (1 << 63) - (1 << 58));
                assert!(Self::CLEARING[0] == -1 && LIMB * N as u32 >= P::BITS + 5);
            }
        }
    };

    #[inline(always)]
    fn map(self, change: impl Fn(i64) -> i64) -> Self {
        let mut limbs = self.0;
        unrolled!(i < N => { limbs[i] = change(limbs[i]); });
        Self(limbs, PhantomData)
    }

    /// Are products inlined into the loops? In WebAssembly a call would move its numbers through
    /// memory, but engines compile loops with products of 14 limbs badly. On other machines, only
    /// tests use products.
    const INLINED: bool = cfg!(target_arch = "wasm32") && N < 10;

    /// `a b - less`.
    #[inline(always)]
    fn product_of(a: &[i64; N], b: &[i64; N], less: Option<&[i64; N]>) -> [i64; N] {
        let (mut low, mut high) = ([0; N], [0; N]);
        unrolled!(k < N => {
            unrolled!(i < N => {
                if i <= k {
                    low[k] += a[i] * b[(N + k - i) % N];
                } else {
                    high[k] += a[i] * b[(N + k - i) % N]; // column N + k
                }
            });
        });
        Self::reduce(low, high, less)
    }

    #[inline(never)]
    fn outlined_product_of(a: &[i64; N], b: &[i64; N], less: Option<&[i64; N]>) -> [i64; N] {
        Self::product_of(a, b, less)
    }

    /// `a² - less`.
    #[inline(always)]
    fn square_of(a: &[i64; N], less: Option<&[i64; N]>) -> [i64; N] {
        let mut twice = *a;
        unrolled!(i < N => { twice[i] += a[i]; });
        let (mut low, mut high) = ([0; N], [0; N]);
        unrolled!(k < N => {
            unrolled!(i < N => {
                if 2 * i < k {
                    low[k] += twice[i] * a[(N + k - i) % N];
                } else if 2 * i == k {
                    low[k] += a[i] * a[i];
                }
                // column N + k
                if i > k && 2 * i < N + k {
                    high[k] += twice[i] * a[(N + k - i) % N];
                } else if i > k && 2 * i == N + k {
                    high[k] += a[i] * a[i];
                }
            });
        });
        Self::reduce(low, high, less)
    }

    #[inline(never)]
    fn outlined_square_of(a: &[i64; N], less: Option<&[i64; N]>) -> [i64; N] {
        Self::square_of(a, less)
    }

    #[inline(always)]
    fn product(&self, other: &Self, less: Option<&[i64; N]>) -> Self {
        let product = if Self::INLINED { Self::product_of } else { Self::outlined_product_of };
        Self(product(&self.0, &other.0, less), PhantomData)
    }

    #[inline(always)]
    fn squared(&self, less: Option<&[i64; N]>) -> Self {
        let square = if Self::INLINED { Self::square_of } else { Self::outlined_square_of };
        Self(square(&self.0, less), PhantomData)
    }

    /// Reduces columns `0..N` and `N..2N` of a product, minus `less`.
    #[inline(always)]
    fn reduce(mut low: [i64; N], high: [i64; N], less: Option<&[i64; N]>) -> [i64; N] {
        const { Self::CHECKED };
        match (Self::WRAP, less) {
            (Some(wrap), None) => Self::reduce_by_folding(low, high, wrap),
            (Some(wrap), Some(less)) => {
                unrolled!(i < N => { low[i] -= less[i]; });
                Self::reduce_by_folding(low, high, wrap)
            }
            (None, None) => Self::reduce_by_clearing(low, high),
            (None, Some(less)) => {
                let product = Self::reduce_by_clearing(low, high);
                (Self(product, PhantomData) - Self(*less, PhantomData)).settle().0
            }
        }
    }

    #[inline(always)]
    fn reduce_by_folding(mut low: [i64; N], high: [i64; N], [f0, f1]: [i64; 2]) -> [i64; N] {
        // not rounded, which is cheaper
        let high = Self::ripple(high);
        unrolled!(k < N => {
            low[k] += high[k] * f0;
            if k + 1 < N {
                low[(k + 1) % N] += (low[k] >> LIMB) + high[k] * f1;
                low[k] &= MASK;
            }
        });
        // column N of the fold belongs above the highest limb
        Self::fold_top(&mut low, (high[N - 1] * f1) << (LIMB - Self::TOP));
        unrolled!(k < 2 => {
            low[k + 1] += low[k] >> LIMB;
            low[k] &= MASK;
        });
        low
    }

    #[inline(always)]
    fn reduce_by_clearing(mut low: [i64; N], mut high: [i64; N]) -> [i64; N] {
        let clearing = Self::CLEARING;
        unrolled!(k < N => {
            let (up, multiple) = carry(low[k]);
            if k + 1 < N {
                low[(k + 1) % N] += up;
            } else {
                high[0] += up;
            }
            unrolled!(j < N => {
                if j > 0 && clearing[j] != 0 {
                    if k + j < N {
                        low[(k + j) % N] += multiple * clearing[j];
                    } else {
                        high[(k + j) % N] += multiple * clearing[j];
                    }
                }
            });
        });
        unrolled!(k < N => {
            if k + 1 < N {
                let (up, rest) = carry(high[k]);
                high[k] = rest;
                high[(k + 1) % N] += up;
            }
        });
        high
    }

    /// Removes the part of the highest limb above `2^BITS`, and adds it, and `more` times `2^BITS`,
    /// modulo `p`.
    #[inline(always)]
    fn fold_top(limbs: &mut [i64; N], more: i64) {
        let above = (limbs[N - 1] + (1 << (Self::TOP - 1))) >> Self::TOP;
        limbs[N - 1] -= above << Self::TOP;
        let above = above + more;
        unrolled!(i < N => {
            if Self::FOLD[i] != 0 {
                limbs[i] += above * Self::FOLD[i];
            }
        });
    }

    /// Brings all limbs into `[0, 2^29)`, except the highest, which has the sign.
    #[inline(always)]
    fn ripple(mut limbs: [i64; N]) -> [i64; N] {
        unrolled!(i < N => {
            if i + 1 < N {
                limbs[(i + 1) % N] += limbs[i] >> LIMB;
                limbs[i] &= MASK;
            }
        });
        limbs
    }

    /// `limbs + p` if `limbs` is negative, else `limbs`; rippled.
    #[inline(always)]
    fn add_if_negative(limbs: [i64; N]) -> [i64; N] {
        let mask = opaque((limbs[N - 1] >> 63) as u64) as i64;
        let mut sum = limbs;
        unrolled!(i < N => { sum[i] += Self::P1[i] & mask; });
        Self::ripple(sum)
    }

    /// Limbs of the canonical residue.
    fn canonical_limbs(self) -> [i64; N] {
        // a settled number is hardly above 2^(BITS - 1), so between -2p and 2p
        let limbs = Self::ripple(self.settle().0);
        let mut limbs = Self::add_if_negative(Self::add_if_negative(limbs));
        unrolled!(i < N => { limbs[i] -= Self::P1[i]; });
        Self::add_if_negative(Self::ripple(limbs))
    }
}

/// `2^BITS mod p` in limbs.
const fn fold_of<const N: usize>(form: Form) -> [i64; N] {
    let mut limbs = [0; N];
    match form {
        Form::PseudoMersenne { fold } => {
            limbs[0] = fold as i64 & MASK;
            limbs[1] = (fold >> LIMB) as i64;
        }
        Form::Montgomery { top } => {
            let mut i = 0;
            while i < top.len() {
                let (sign, exponent) = top[i];
                limbs[(exponent / LIMB) as usize] += (sign as i64) << (exponent % LIMB);
                i += 1;
            }
        }
    }
    limbs
}

/// `2^(BITS + shift) mod p` in two limbs, if it has no more.
const fn wrap_of(form: Form, shift: u32) -> Option<[i64; 2]> {
    let mut value = 0;
    match form {
        Form::PseudoMersenne { fold } => value = (fold as i64) << shift,
        Form::Montgomery { top } => {
            let mut i = 0;
            while i < top.len() {
                let (sign, exponent) = top[i];
                if exponent + shift >= LIMB {
                    return None;
                }
                value += (sign as i64) << (exponent + shift);
                i += 1;
            }
        }
    }
    Some([value % (1 << LIMB), value / (1 << LIMB)])
}

impl<P: Prime<L>, const L: usize, const N: usize> Coordinate<L> for Narrow<P, L, N> {
    const BACKEND: &'static str = "portable, 29-bit limbs";
    const MODULUS: [u64; L] = P::MODULUS;
    const LIMBS: usize = N;
    const ZERO: Self = Self([0; N], PhantomData);
    const ONE: Self = Self(split(&power_of_two(Self::LOG_R, &P::MODULUS)), PhantomData);

    #[inline(always)]
    fn from_integer(integer: &[u64; L]) -> Self {
        let plain = Self::from_residue(integer);
        if Self::LOG_R == 0 {
            return plain;
        }
        plain * Self(const { split(&power_of_two(2 * Self::LOG_R, &P::MODULUS)) }, PhantomData)
    }

    #[inline(always)]
    fn to_integer(self) -> [u64; L] {
        if Self::LOG_R == 0 {
            return self.residue();
        }
        let mut one = Self::ZERO;
        one.0[0] = 1;
        (self * one).residue()
    }

    #[inline(always)]
    fn from_residue(residue: &[u64; L]) -> Self {
        let mut limbs = [0; N];
        unrolled!(i < N => {
            let (word, offset) = (29 * i / 64, (29 * i % 64) as u32);
            let low = if word < L { residue[word] >> offset } else { 0 };
            let high = if offset > 35 && word + 1 < L { residue[word + 1] << (64 - offset) } else { 0 };
            limbs[i] = (low | high) as i64 & MASK;
        });
        Self(limbs, PhantomData)
    }

    #[inline(always)]
    fn residue(self) -> [u64; L] {
        let limbs = self.canonical_limbs();
        let mut words = [0; L];
        unrolled!(i < N => {
            let (word, offset) = (29 * i / 64, (29 * i % 64) as u32);
            if word < L {
                words[word] |= (limbs[i] as u64) << offset;
            }
            if offset > 35 && word + 1 < L {
                words[word + 1] |= limbs[i] as u64 >> (64 - offset);
            }
        });
        words
    }

    #[inline(always)]
    fn load(lines: &[Line], lane: usize) -> Self {
        let lines = &lines[..N];
        let mut limbs = [0; N];
        unrolled!(i < N => { limbs[i] = lines[i].0[lane % LANES] as i64; });
        Self(limbs, PhantomData)
    }

    #[inline(always)]
    fn store(self, lines: &mut [Line], lane: usize) {
        let lines = &mut lines[..N];
        unrolled!(i < N => { lines[i].0[lane % LANES] = self.0[i] as u64; });
    }

    fn canonical(self) -> Self {
        Self(self.canonical_limbs(), PhantomData)
    }

    #[inline(always)]
    fn settle(self) -> Self {
        let mut limbs = self.0;
        Self::fold_top(&mut limbs, 0);
        let mut last = 0;
        unrolled!(i < N => {
            if i + 1 < N {
                let (up, rest) = carry(limbs[i]);
                limbs[i] = rest + last;
                last = up;
            }
        });
        limbs[N - 1] += last;
        Self(limbs, PhantomData)
    }

    #[inline(always)]
    fn is_zero(&self) -> bool {
        // zero is kp for a small k; modulo 2^58 hardly any other element equals that
        let low = self.0[0].wrapping_add(self.0[1] << LIMB);
        let k = low.wrapping_mul(P::NEGATED_INVERSE as i64) << 6 >> 6;
        k.abs() <= 64 && self.canonical_limbs() == [0; N]
    }

    #[inline(always)]
    fn is_blank(&self) -> bool {
        self.0[0] | self.0[1] == 0 && self.0 == [0; N]
    }

    #[inline(always)]
    fn negate_masked(self, mask: u64) -> Self {
        let mask = opaque(mask) as i64;
        self.map(|limb| (limb ^ mask) - mask)
    }

    #[inline(always)]
    fn square(self) -> Self {
        self.squared(None)
    }

    #[inline(always)]
    fn product_less(self, other: Self, less: Self) -> Self {
        self.product(&other, Some(&less.0))
    }

    #[inline(always)]
    fn square_less(self, less: Self) -> Self {
        self.squared(Some(&less.0))
    }

    fn invert(self) -> Self {
        self.pow(&Self::FERMAT)
    }

    fn vartime_invert(self) -> Self {
        self.invert()
    }
}

impl<P: Prime<L>, const L: usize, const N: usize> Mul for Narrow<P, L, N> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.product(&other, None)
    }
}

impl<P: Prime<L>, const L: usize, const N: usize> Add for Narrow<P, L, N> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let mut limbs = self.0;
        unrolled!(i < N => { limbs[i] += other.0[i]; });
        Self(limbs, PhantomData)
    }
}

impl<P: Prime<L>, const L: usize, const N: usize> Sub for Narrow<P, L, N> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let mut limbs = self.0;
        unrolled!(i < N => { limbs[i] -= other.0[i]; });
        Self(limbs, PhantomData)
    }
}

impl<P: Prime<L>, const L: usize, const N: usize> Neg for Narrow<P, L, N> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|limb| -limb)
    }
}

/// Comparison of public values.
impl<P: Prime<L>, const L: usize, const N: usize> PartialEq for Narrow<P, L, N> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        (*self - *other).is_zero()
    }
}

#[cfg(test)]
mod tests;
