//! Prime fields on 64-bit words, specialised by prime at compile time.
//!
//! An [`Element`] of `F_p` is always canonical in `[0, p)`; its meaning depends on the prime's
//! [`Form`]:
//!
//! * **Montgomery**: `v` is stored as `v · R mod p` with `R = 2^(64L)`. The product is `a b / R`,
//!   interleaved word by word (CIOS: Koç, Acar, Kaliski, IEEE Micro 16(3), 1996): `2L² + L` word
//!   products. With `a, b < p` each of the `L` steps keeps the accumulator below `2p`, so one
//!   conditional subtraction ends it.
//! * **Pseudo-Mersenne**, for `p = 2^B - c` with `c < 2^34`: `v` is stored as itself. The product
//!   is folded twice by `2^B ≡ c`: `L² + L + 2` word products. After the first fold it is below
//!   `2^(B+35)`, after the second below `2^B + 2^70 < 2p`, so one conditional subtraction ends it.
//!
//! # Leakage
//! Constant time, except `vartime_` functions and the exponents of [`Coordinate::pow`], which are
//! public constants.

use super::coordinate::Coordinate;
use super::inverse::Modulus;
use std::marker::PhantomData;
use std::ops::{Add, Mul, Neg, Sub};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tobari_simd::Line;

/// The representation of field elements in memory, and the reduction of their products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `v · 2^(64L) mod p`. `top` is `2^BITS mod p` as signed powers of two, the leading one first.
    Montgomery { top: &'static [(i8, u32)] },
    /// `v` itself, for `p = 2^BITS - fold`.
    PseudoMersenne { fold: u64 },
}

/// An odd prime of at most `64 L` bits.
pub(crate) trait Prime<const L: usize>: Copy + Send + Sync + 'static {
    /// `p`.
    const MODULUS: [u64; L];
    /// Bits of `p`.
    const BITS: u32;
    /// The representation of elements.
    const FORM: Form;
    /// `log2 R`: the factor between an element's representation and its value.
    const LOG_R: u32 = match Self::FORM {
        Form::Montgomery { .. } => 64 * L as u32,
        Form::PseudoMersenne { .. } => 0,
    };
    /// `-1/p mod 2^64`.
    const NEGATED_INVERSE: u64 = negated_inverse(Self::MODULUS[0]);
    /// The representation of one: `R mod p`.
    const ONE: [u64; L] = power_of_two(Self::LOG_R, &Self::MODULUS);
    /// `R² mod p`, the factor that converts an integer to an element.
    const R_SQUARED: [u64; L] = power_of_two(2 * Self::LOG_R, &Self::MODULUS);
    /// `R³ mod p`.
    const R_CUBED: [u64; L] = power_of_two(3 * Self::LOG_R, &Self::MODULUS);
    /// The constants of inversion.
    const INVERSION: Modulus<L> = Modulus::new(&Self::MODULUS, Self::BITS, Self::NEGATED_INVERSE);
}

/// `-1/p mod 2^64` by Newton's iteration: each step doubles the number of right bits.
const fn negated_inverse(p: u64) -> u64 {
    let mut inverse = p; // right to 3 bits for odd p
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(p.wrapping_mul(inverse)));
        step += 1;
    }
    inverse.wrapping_neg()
}

/// `2^exponent mod p` by doubling, at compile time.
pub(super) const fn power_of_two<const L: usize>(exponent: u32, p: &[u64; L]) -> [u64; L] {
    let mut value = [0; L];
    value[0] = 1;
    let mut i = 0;
    while i < exponent {
        let (doubled, carry) = add_words(&value, &value);
        value = subtract_once(&doubled, carry, p);
        i += 1;
    }
    value
}

const fn carrying_add(a: u64, b: u64, carry: u64) -> (u64, u64) {
    let sum = a as u128 + b as u128 + carry as u128;
    (sum as u64, (sum >> 64) as u64)
}

const fn borrowing_sub(a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let difference = (a as u128).wrapping_sub(b as u128 + borrow as u128);
    (difference as u64, (difference >> 127) as u64)
}

/// `accumulator + a b + carry`, which never exceeds 128 bits.
const fn multiply_add(accumulator: u64, a: u64, b: u64, carry: u64) -> (u64, u64) {
    let sum = accumulator as u128 + a as u128 * b as u128 + carry as u128;
    (sum as u64, (sum >> 64) as u64)
}

const fn add_words<const L: usize>(a: &[u64; L], b: &[u64; L]) -> ([u64; L], u64) {
    let mut out = [0; L];
    let mut carry = 0;
    let mut i = 0;
    while i < L {
        (out[i], carry) = carrying_add(a[i], b[i], carry);
        i += 1;
    }
    (out, carry)
}

const fn subtract_words<const L: usize>(a: &[u64; L], b: &[u64; L]) -> ([u64; L], u64) {
    let mut out = [0; L];
    let mut borrow = 0;
    let mut i = 0;
    while i < L {
        (out[i], borrow) = borrowing_sub(a[i], b[i], borrow);
        i += 1;
    }
    (out, borrow)
}

/// `v - p` if `v ≥ p`, else `v`, for `v = a + 2^(64L) carry < 2p`; without a branch.
const fn subtract_once<const L: usize>(a: &[u64; L], carry: u64, p: &[u64; L]) -> [u64; L] {
    let (reduced, borrow) = subtract_words(a, p);
    let (_, below) = borrowing_sub(carry, 0, borrow);
    let keep = super::opaque(below.wrapping_neg());
    let mut out = [0; L];
    let mut i = 0;
    while i < L {
        out[i] = (a[i] & keep) | (reduced[i] & !keep);
        i += 1;
    }
    out
}

/// Is `a < b` as integers? Constant time.
pub(crate) fn less_than<const L: usize>(a: &[u64; L], b: &[u64; L]) -> Choice {
    let (_, borrow) = subtract_words(a, b);
    Choice::from(borrow as u8)
}

/// An element of `F_p`, canonical, in the prime's [`Form`].
#[derive(Clone, Copy)]
pub(crate) struct Element<P, const L: usize>(pub(crate) [u64; L], PhantomData<P>);

impl<P: Prime<L>, const L: usize> Element<P, L> {
    /// An element from its representation; the words must be canonical.
    #[inline(always)]
    pub(crate) fn from_words(words: &[u64; L]) -> Self {
        Self(*words, PhantomData)
    }
}

impl<P: Prime<L>, const L: usize> Coordinate<L> for Element<P, L> {
    const BACKEND: &'static str = "portable";
    const MODULUS: [u64; L] = P::MODULUS;
    const LIMBS: usize = L;
    const ZERO: Self = Self([0; L], PhantomData);
    const ONE: Self = Self(P::ONE, PhantomData);

    fn from_integer(integer: &[u64; L]) -> Self {
        Self(*integer, PhantomData) * Self(P::R_SQUARED, PhantomData)
    }

    fn to_integer(self) -> [u64; L] {
        let mut one = [0; L];
        one[0] = 1;
        product::<P, L>(&self.0, &one)
    }

    #[inline(always)]
    fn from_residue(residue: &[u64; L]) -> Self {
        Self::from_words(residue)
    }

    #[inline(always)]
    fn residue(self) -> [u64; L] {
        self.0
    }

    #[inline(always)]
    fn load(lines: &[Line], lane: usize) -> Self {
        Self(std::array::from_fn(|i| lines[i].0[lane]), PhantomData)
    }

    #[inline(always)]
    fn store(self, lines: &mut [Line], lane: usize) {
        for (line, word) in lines.iter_mut().zip(self.0) {
            line.0[lane] = word;
        }
    }

    #[inline(always)]
    fn canonical(self) -> Self {
        self
    }

    #[inline(always)]
    fn settle(self) -> Self {
        self
    }

    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    #[inline(always)]
    fn is_blank(&self) -> bool {
        self.is_zero()
    }

    #[inline(always)]
    fn negate_masked(self, mask: u64) -> Self {
        Self::conditional_select(&self, &-self, Choice::from((mask & 1) as u8))
    }

    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }

    fn invert(self) -> Self {
        // the inversion of words w = vR gives 1/w, but R²/w is needed
        Self(P::INVERSION.invert(&self.0), PhantomData) * Self(P::R_CUBED, PhantomData)
    }

    fn vartime_invert(self) -> Self {
        Self(P::INVERSION.vartime_invert(&self.0), PhantomData) * Self(P::R_CUBED, PhantomData)
    }
}

/// `a b / R mod p`, canonical, for `a, b < p`.
#[inline(always)]
fn product<P: Prime<L>, const L: usize>(a: &[u64; L], b: &[u64; L]) -> [u64; L] {
    match P::FORM {
        Form::Montgomery { .. } => montgomery_product::<P, L>(a, b),
        Form::PseudoMersenne { fold } => folded_product::<P, L>(a, b, fold),
    }
}

/// `a b mod p` for `p = 2^BITS - fold`.
#[inline(always)]
fn folded_product<P: Prime<L>, const L: usize>(a: &[u64; L], b: &[u64; L], fold: u64) -> [u64; L] {
    // t = a b, low words and high words
    let (mut low, mut high) = ([0u64; L], [0u64; L]);
    for (i, &word) in b.iter().enumerate() {
        let mut carry = 0;
        for j in 0..L {
            let place = if i + j < L { &mut low[i + j] } else { &mut high[i + j - L] };
            (*place, carry) = multiply_add(*place, a[j], word, carry);
        }
        high[i] = carry;
    }
    // t = high 2^BITS + low; BITS is whole words, or half a word less
    let spare = 64 * L as u32 - P::BITS;
    let mut upper = high;
    if spare > 0 {
        for j in (0..L).rev() {
            let below = if j > 0 { high[j - 1] } else { low[L - 1] };
            upper[j] = high[j] << spare | below >> (64 - spare);
        }
        low[L - 1] &= u64::MAX >> spare;
    }
    let mut carry = 0;
    for j in 0..L {
        (low[j], carry) = multiply_add(low[j], upper[j], fold, carry);
    }
    let top = if spare > 0 { carry << spare | low[L - 1] >> (64 - spare) } else { carry };
    if spare > 0 {
        low[L - 1] &= u64::MAX >> spare;
    }
    let rest = u128::from(top) * u128::from(fold);
    let mut carry = 0;
    (low[0], carry) = carrying_add(low[0], rest as u64, carry);
    (low[1], carry) = carrying_add(low[1], (rest >> 64) as u64, carry);
    for word in low.iter_mut().skip(2) {
        (*word, carry) = carrying_add(*word, 0, carry);
    }
    subtract_once(&low, carry, &P::MODULUS)
}

/// `a b / 2^(64L) mod p`.
#[inline(always)]
fn montgomery_product<P: Prime<L>, const L: usize>(a: &[u64; L], b: &[u64; L]) -> [u64; L] {
    let mut t = [0u64; L];
    let mut top = 0;
    for &word in b {
        let mut carry = 0;
        for j in 0..L {
            (t[j], carry) = multiply_add(t[j], a[j], word, carry);
        }
        let (high, overflow) = carrying_add(top, carry, 0);
        let m = t[0].wrapping_mul(P::NEGATED_INVERSE);
        let (_, mut carry) = multiply_add(t[0], m, P::MODULUS[0], 0);
        for j in 1..L {
            (t[j - 1], carry) = multiply_add(t[j], m, P::MODULUS[j], carry);
        }
        (t[L - 1], carry) = carrying_add(high, carry, 0);
        top = overflow + carry;
    }
    subtract_once(&t, top, &P::MODULUS)
}

impl<P: Prime<L>, const L: usize> Mul for Element<P, L> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(product::<P, L>(&self.0, &other.0), PhantomData)
    }
}

impl<P: Prime<L>, const L: usize> Add for Element<P, L> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let (sum, carry) = add_words(&self.0, &other.0);
        Self(subtract_once(&sum, carry, &P::MODULUS), PhantomData)
    }
}

impl<P: Prime<L>, const L: usize> Sub for Element<P, L> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let (difference, borrow) = subtract_words(&self.0, &other.0);
        let mask = super::opaque(borrow.wrapping_neg());
        let wrapped = std::array::from_fn(|i| P::MODULUS[i] & mask);
        Self(add_words(&difference, &wrapped).0, PhantomData)
    }
}

impl<P: Prime<L>, const L: usize> Neg for Element<P, L> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

/// Comparison of public values; [`ConstantTimeEq`] is for secrets.
impl<P: Prime<L>, const L: usize> PartialEq for Element<P, L> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<P: Prime<L>, const L: usize> ConstantTimeEq for Element<P, L> {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl<P: Prime<L>, const L: usize> ConditionallySelectable for Element<P, L> {
    #[inline(always)]
    fn conditional_select(a: &Self, b: &Self, choice: Choice) -> Self {
        Self(std::array::from_fn(|i| u64::conditional_select(&a.0[i], &b.0[i], choice)), PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::BuiltCurve;
    use crate::curve::built::with_curve;
    use crate::kernels::CurveConstants;
    use crate::kernels::coordinate::SquareRoots;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    fn integer(words: &[u64]) -> BigUint {
        words.iter().rev().fold(BigUint::from(0u8), |all, word| (all << 64) + word)
    }

    fn words<const L: usize>(value: &BigUint) -> [u64; L] {
        let digits = value.to_u64_digits();
        std::array::from_fn(|i| digits.get(i).copied().unwrap_or(0))
    }

    /// Every operation on `a` and `b` against plain integers.
    fn agrees<P: CurveConstants<L>, const L: usize>(a: &BigUint, b: &BigUint) {
        let p = integer(&P::MODULUS);
        let (a, b) = (a % &p, b % &p);
        let [x, y] = [&a, &b].map(|v| Element::<P, L>::from_integer(&words(v)));
        let value = |e: Element<P, L>| {
            assert!(integer(&e.0) < p, "not canonical");
            integer(&e.to_integer())
        };
        assert_eq!(value(x), a);
        assert_eq!(value(x + y), (&a + &b) % &p);
        assert_eq!(value(x - y), (&a + &p - &b) % &p);
        assert_eq!(value(-x), (&p - &a) % &p);
        assert_eq!(value(x * y), &a * &b % &p);
        assert_eq!(value(x.square()), &a * &a % &p);
        assert_eq!(value(x.double()), (&a + &a) % &p);
        assert_eq!(x.is_zero(), a == BigUint::from(0u8));
        assert_eq!(x == y, a == b);
    }

    /// Numbers with long carries: 0, 1, p-1, all ones below each word, and their neighbours.
    fn extremes(p: &BigUint) -> Vec<BigUint> {
        let one = BigUint::from(1u8);
        let mut all = vec![BigUint::from(0u8), one.clone(), BigUint::from(2u8), p - 1u8, p - 2u8, p >> 1];
        for k in
            [1usize, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 159, 160, 191, 192, 223, 224, 255, 320, 383]
        {
            let power: BigUint = &one << k;
            all.extend([&power - 1u8, power.clone(), &power + 1u8, p - (&power % p)]);
        }
        all
    }

    #[test]
    fn extreme_values_agree_with_plain_integers() {
        for curve in BuiltCurve::ALL {
            with_curve!(curve, C => {
                let extremes = extremes(&integer(&<C as Prime<{ C::WORDS }>>::MODULUS));
                for a in &extremes {
                    for b in &extremes {
                        agrees::<C, { C::WORDS }>(a, b);
                    }
                }
            });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn random_values_agree_with_plain_integers(a: [u64; 6], b: [u64; 6]) {
            for curve in BuiltCurve::ALL {
                with_curve!(curve, C => agrees::<C, { C::WORDS }>(&integer(&a), &integer(&b)));
            }
        }

        #[test]
        fn inverses_and_roots_undo_products_and_squares(a: [u64; 6]) {
            fn holds<P: CurveConstants<L>, const L: usize>(a: &BigUint) {
                let p = integer(&P::MODULUS);
                let x = Element::<P, L>::from_integer(&words(&(a % &p)));
                let roots = SquareRoots::<Element<P, L>, L>::new();
                let root = roots.vartime_root(x.square());
                assert!(root.is_some_and(|root| root == x || root == -x));
                if !x.is_zero() {
                    assert!(x * x.invert() == Element::ONE);
                    let two = std::array::from_fn(|i| if i == 0 { 2 } else { 0 });
                    assert!(x.invert() == x.pow(&subtract_words(&P::MODULUS, &two).0), "Fermat");
                    assert!(roots.vartime_root(x.square() * SquareRoots::non_residue()).is_none());
                }
            }
            for curve in BuiltCurve::ALL {
                with_curve!(curve, C => holds::<C, { C::WORDS }>(&integer(&a)));
            }
        }
    }

    #[test]
    fn extreme_values_have_right_inverses() {
        fn holds<P: CurveConstants<L>, const L: usize>() {
            for a in extremes(&integer(&P::MODULUS)) {
                let x = Element::<P, L>::from_integer(&words(&(a % integer(&P::MODULUS))));
                assert!(x.is_zero() || x * x.invert() == Element::ONE);
                assert!(x.vartime_invert() == x.invert());
            }
        }
        for curve in BuiltCurve::ALL {
            with_curve!(curve, C => holds::<C, { C::WORDS }>());
        }
    }

    #[test]
    fn zero_inverts_to_zero() {
        for curve in BuiltCurve::ALL {
            with_curve!(curve, C => assert!(Element::<C, { C::WORDS }>::ZERO.vartime_invert().is_zero()));
            with_curve!(curve, C => assert!(Element::<C, { C::WORDS }>::ZERO.invert().is_zero()));
        }
    }
}
