//! Conversion between doubles and residues by integers. The rounding in both directions is half to
//! even.

use super::scale::power_of_two;
use crate::ring::{Basis, Coeff, Factor, Modulus, Poly, Ring};
use std::sync::Arc;
use tobari_simd::Wiped;
use zeroize::Zeroizing;

/// An integer `± mantissa · 2^shift`, the mantissa of at most 53 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    negative: bool,
    mantissa: u64,
    shift: u32,
}

impl Integer {
    /// The nearest integer to a finite number, ties to even.
    pub(super) fn round(x: f64) -> Self {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as u32;
        let normal = u64::from(exponent != 0);
        // x = mantissa · 2^(exponent - 1075); of subnormal numbers, whatever exponent below -64 is
        // good enough
        let mantissa = (bits & ((1 << 52) - 1)) | normal << 52;
        let right = 1075u32.saturating_sub(exponent).min(63);
        let (kept, rest) = (mantissa >> right, mantissa & ((1 << right) - 1));
        let half = (1u64 << right) >> 1;
        let up = u64::from(rest > half) | (u64::from(rest == half) & kept & u64::from(right != 0));
        Self { negative: bits >> 63 == 1, mantissa: kept + up, shift: exponent.saturating_sub(1075) }
    }

    /// Modulo a prime, given the powers of two.
    fn residue(self, q: &Modulus, powers: &[Factor]) -> u64 {
        let residue = q.mul_factor(q.reduce(self.mantissa), powers[self.shift as usize]);
        let mask = u64::from(self.negative).wrapping_neg();
        residue ^ ((residue ^ q.neg(residue)) & mask)
    }

    /// Modulo a prime.
    pub(super) fn modulo(self, q: &Modulus) -> u64 {
        self.residue(q, &powers(q, self.shift))
    }
}

/// `1, 2 … 2^most`.
fn powers(q: &Modulus, most: u32) -> Vec<Factor> {
    let powers = std::iter::successors(Some(1 % q.value()), |power| Some(q.add(*power, *power)));
    powers.take(most as usize + 1).map(|power| q.factor(power)).collect()
}

/// The element with these coefficients, rounded. It is faster if all of them are small; whether
/// they are is not hidden.
pub(super) fn lift(ring: &Arc<Ring>, basis: Basis, coefficients: &[f64]) -> Poly<Coeff> {
    if let Some(integers) = small(coefficients) {
        return Poly::from_integers(ring, basis, &integers);
    }
    let integers: Vec<Integer> = coefficients.iter().map(|x| Integer::round(*x)).collect();
    let integers = Zeroizing::new(Integers(integers));
    let most = integers.0.iter().map(|integer| integer.shift).max().unwrap_or(0);
    let mut element = Poly::any(ring, basis);
    for (row, table) in ring.tables(basis).enumerate() {
        let (q, powers) = (table.modulus(), powers(table.modulus(), most));
        for (residue, integer) in element.row_mut(row).iter_mut().zip(&integers.0) {
            *residue = integer.residue(q, &powers);
        }
    }
    element
}

/// Coefficients below 2^51, rounded to the nearest integer, ties to even: added to `3 · 2^51` they
/// are the low bits of a double whose last place counts one.
fn small(coefficients: &[f64]) -> Option<Wiped<i64>> {
    const SHIFT: f64 = 3.0 * (1u64 << 51) as f64;
    let most = (1u64 << 51) as f64;
    let all = coefficients.iter().fold(true, |all, x| all & (x.abs() < most));
    let integer = |x: &f64| (x + SHIFT).to_bits() as i64 - SHIFT.to_bits() as i64;
    all.then(|| Wiped::new(coefficients.iter().map(integer).collect()))
}

/// Integers that are wiped.
struct Integers(Vec<Integer>);

impl zeroize::Zeroize for Integers {
    fn zeroize(&mut self) {
        for integer in &mut self.0 {
            integer.mantissa.zeroize();
            integer.shift.zeroize();
            integer.negative.zeroize();
        }
    }
}

/// The nearest double to a number in words, least significant first; ties to even, infinity out of
/// range. No branch depends on the number: neither on its sign, nor on how many words are zero.
pub(super) fn to_f64(negative: bool, words: &[u64]) -> f64 {
    // the highest word that is not zero and the one below it, and whether any bit is set below both
    let (mut high, mut next, mut below) = (0u64, 0, 0);
    let (mut top, mut taken) = (0, 0u64);
    for (place, word) in words.iter().enumerate().rev() {
        // all ones once the highest word is known
        let known = mask(high);
        below |= word & taken;
        next |= word & known & !taken;
        high |= word & !known;
        top |= place as u64 & !known & mask(*word);
        taken = known;
    }
    // the highest 64 bits, of which the last one stands for all below: a conversion that rounds
    // half to even does the rest
    let zeros = high.leading_zeros();
    let pair = (u128::from(high) << 64 | u128::from(next)) << zeros;
    let rest = mask(pair as u64 | below) & 1;
    // in two steps, because the power alone may be out of range; beyond 2^1100 all is infinity
    let exponent = (64 * top as i64 - i64::from(zeros)).min(1100);
    let half = exponent >> 1;
    let absolute = ((pair >> 64) as u64 | rest) as f64 * power_of_two(half) * power_of_two(exponent - half);
    // the sign as a bit: a choice between two numbers was compiled to a branch
    f64::from_bits(absolute.to_bits() | u64::from(negative) << 63)
}

/// All ones unless the word is zero.
fn mask(word: u64) -> u64 {
    ((word | word.wrapping_neg()) >> 63).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::tests::toy;
    use num_bigint::BigInt;
    use proptest::prelude::*;

    /// `x` as an integer, by the library's rounding and the number's own bits.
    fn exact(x: f64) -> BigInt {
        let x = x.round_ties_even();
        let (bits, exponent) = (x.to_bits(), (x.to_bits() >> 52 & 0x7ff) as i32 - 1075);
        if x == 0.0 {
            return BigInt::ZERO;
        }
        let mantissa = BigInt::from((bits & ((1 << 52) - 1)) | 1 << 52);
        let absolute = if exponent < 0 { mantissa >> -exponent } else { mantissa << exponent };
        if x < 0.0 { -absolute } else { absolute }
    }

    fn value(x: f64) -> BigInt {
        let Integer { negative, mantissa, shift } = Integer::round(x);
        let absolute = BigInt::from(mantissa) << shift;
        if negative { -absolute } else { absolute }
    }

    const SOME: [f64; 20] = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.499_999_999_999_999_94,
        0.500_000_000_000_000_1,
        1e-300,
        5e-324,
        4_503_599_627_370_495.5,
        4_503_599_627_370_496.5,
        9_007_199_254_740_991.0,
        9_007_199_254_740_992.0,
        -1e30,
        1.0,
        -3.7,
        f64::MAX,
        f64::MIN_POSITIVE,
    ];

    #[test]
    fn ties_ends_and_subnormal_numbers_round_like_the_library() {
        for x in SOME {
            assert_eq!(value(x), exact(x), "{x:e}");
            assert_eq!(value(-x), exact(-x), "{x:e}");
        }
    }

    #[test]
    fn words_round_half_to_even() {
        let one = 1u64 << 63;
        for (words, expected) in [
            (vec![0, 0], 0.0),
            (vec![1 << 53 | 1], 2f64.powi(53)),
            (vec![(1 << 53) + 3, 0], 2f64.powi(53) + 4.0),
            (vec![0, 1], 2f64.powi(64)),
            // a half above an even and an odd mantissa, and a little more than a half
            (vec![0, one | 1 << 10], 2f64.powi(127)),
            (vec![0, one | 3 << 10], 2f64.powi(127) + 2f64.powi(76)),
            (vec![1, 0, one | 1 << 10], 2f64.powi(191) + 2f64.powi(139)),
            (vec![u64::MAX; 16], f64::INFINITY),
            (vec![0; 17], 0.0),
        ] {
            assert_eq!(to_f64(false, &words), expected, "{words:?}");
            assert_eq!(to_f64(true, &words), -expected);
        }
    }

    /// The same by its definition: the nearest double of the highest bits, with a sticky last one.
    fn by_definition(words: &[u64]) -> f64 {
        let bits = words.iter().enumerate().rev().find(|(_, word)| **word != 0);
        let Some(bits) = bits.map(|(place, word)| 64 * place as u32 + 64 - word.leading_zeros()) else { return 0.0 };
        let bit = |at: u32| u128::from(words[at as usize / 64] >> (at % 64) & 1);
        let low = bits.saturating_sub(100);
        let kept = (low..bits).rev().fold(0u128, |kept, at| kept << 1 | bit(at));
        let sticky = u128::from((0..low).any(|at| bit(at) == 1));
        if bits > 1024 { f64::INFINITY } else { ((kept << 1 | sticky) as f64) / 2.0 * 2f64.powi(low as i32) }
    }

    proptest! {
        #[test]
        fn words_give_the_nearest_double(
            words in prop::collection::vec(prop_oneof![Just(0), Just(1), Just(1 << 63), Just(u64::MAX), any::<u64>()], 1..18),
            shift in 0u32..64,
        ) {
            let words: Vec<u64> = words.iter().map(|word| word >> shift).collect();
            prop_assert_eq!(to_f64(false, &words), by_definition(&words));
            prop_assert_eq!(to_f64(true, &words).to_bits(), (-by_definition(&words)).to_bits());
        }

        #[test]
        fn every_double_rounds_like_the_library(bits: u64, small in -1e17..1e17f64) {
            let any = f64::from_bits(bits);
            for x in [small, small / 1e10, small / 1e17, if any.is_finite() { any } else { 0.0 }] {
                prop_assert_eq!(value(x), exact(x));
            }
        }

        #[test]
        fn residues_are_those_of_the_integer(x in -1e60..1e60f64, small in -1e3..1e3f64) {
            for table in toy(None).ring().data_primes() {
                let q = BigInt::from(table.modulus().value());
                for x in [x, small, small * 1e12] {
                    let expected = ((exact(x) % &q) + &q) % &q;
                    prop_assert_eq!(BigInt::from(Integer::round(x).modulo(table.modulus())), expected);
                }
            }
        }

        #[test]
        fn integers_of_two_words_come_back(mantissa in 1u64..1 << 53, shift in 0u32..70) {
            let wide = u128::from(mantissa) << shift;
            let expected = mantissa as f64 * 2f64.powi(shift as i32);
            prop_assert_eq!(to_f64(false, &[wide as u64, (wide >> 64) as u64]), expected);
        }
    }
}
