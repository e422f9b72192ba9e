//! The scale of a message, exactly.
//!
//! A message holds a slot `z` as `Δ z`. Products multiply scales, and rescaling divides by a prime
//! `q_i` of the ring. So a scale is always
//!
//! ```text
//! Δ = 2^a Π q_i^(e_i)      with integers a and e_i,
//! ```
//!
//! and [`Scale`] holds these exponents. Two scales are equal if their exponents are. A sum of
//! numbers with almost equal scales would be almost right, an error that stays unnoticed. The value
//! of a scale is computed with integers of 64 bits ([`Magnitude`]), so that it is the same on all
//! machines.

use crate::params::LatticeParameters;
use crate::ring::MAX_PRIMES;
use std::fmt;

/// Exponents are below this in absolute value. Tens of squarings without a correction of the scale
/// reach it.
const MAX_EXPONENT: i64 = 1 << 40;

/// A power of two times powers of the data primes.
///
/// ```
/// use tobari_lattice::ckks::Scale;
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let scale = Scale::power_of_two(30);
/// // a constant at the scale of prime 1, then a division by that prime
/// let product = scale.product(&Scale::prime(1)).unwrap();
/// assert_eq!(product.quotient(&Scale::prime(1)).unwrap(), scale);
/// assert_eq!(scale.to_f64(&parameters), Some(1073741824.0));
/// assert_eq!(product.to_string(), "2^30 q1");
/// # Ok::<(), tobari_lattice::params::LatticeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    log2: i64,
    /// By data prime; the last one is not 0.
    primes: Vec<i64>,
}

impl Scale {
    /// `2^log2`.
    pub fn power_of_two(log2: u32) -> Self {
        Self { log2: i64::from(log2), primes: Vec::new() }
    }

    /// The data prime of this number, from 0. No parameters have a number above the limit of all
    /// parameters, and a scale with one is a scale of other parameters.
    pub fn prime(index: usize) -> Self {
        let index = index.min(MAX_PRIMES);
        let mut primes = vec![0; index + 1];
        primes[index] = 1;
        Self { log2: 0, primes }
    }

    /// The product; none if an exponent would be `2^40` or more.
    pub fn product(&self, other: &Self) -> Option<Self> {
        self.combine(other, 1)
    }

    /// The quotient; none if an exponent would be `2^40` or more.
    pub fn quotient(&self, other: &Self) -> Option<Self> {
        self.combine(other, -1)
    }

    fn combine(&self, other: &Self, sign: i64) -> Option<Self> {
        let sum = |a: i64, b: i64| Some(a + sign * b).filter(|sum| sum.abs() < MAX_EXPONENT);
        let of = |scale: &Self, i: usize| scale.primes.get(i).copied().unwrap_or(0);
        let length = self.primes.len().max(other.primes.len());
        let primes = (0..length).map(|i| sum(of(self, i), of(other, i))).collect::<Option<_>>()?;
        Some(Self::from_sums(sum(self.log2, other.log2)?, primes))
    }

    fn from_sums(log2: i64, mut primes: Vec<i64>) -> Self {
        while primes.last() == Some(&0) {
            primes.pop();
        }
        Self { log2, primes }
    }

    /// The scale of these exponents of 2 and of the data primes; none if one is `2^40` or more.
    pub fn from_exponents(log2: i64, primes: Vec<i64>) -> Option<Self> {
        let small = |exponent: &i64| exponent.unsigned_abs() < MAX_EXPONENT.unsigned_abs();
        (small(&log2) && primes.iter().all(small)).then(|| Self::from_sums(log2, primes))
    }

    /// The exponent of 2, then those of the first data primes.
    pub fn exponents(&self, primes: usize) -> impl Iterator<Item = i64> {
        std::iter::once(self.log2).chain(self.primes.iter().copied().chain(std::iter::repeat(0)).take(primes))
    }

    /// Can a message over the first `level` data primes have this scale? The encoder's range ends
    /// at the largest double, the evaluator's at the modulus.
    pub(crate) fn is_possible(&self, parameters: &LatticeParameters, level: usize) -> bool {
        self.magnitude(parameters).is_some_and(|magnitude| {
            let room = Magnitude::of(1)..Magnitude::modulus(parameters, level);
            room.contains(&magnitude) || (1.0..f64::INFINITY).contains(&magnitude.to_f64())
        })
    }

    /// The value, rounded. The relative error is at most `2^-53` while exponents are below 2^7, and
    /// grows in proportion to larger ones. None if these parameters have fewer primes; infinity or
    /// 0 if the value is out of range.
    pub fn to_f64(&self, parameters: &LatticeParameters) -> Option<f64> {
        self.magnitude(parameters).map(Magnitude::to_f64)
    }

    /// The number as a magnitude; none if these parameters have fewer primes.
    pub(super) fn magnitude(&self, parameters: &LatticeParameters) -> Option<Magnitude> {
        let tables = parameters.ring().data_primes();
        if self.primes.len() > tables.len() {
            return None;
        }
        let (mut over, mut under) = (Magnitude::of(1), Magnitude::of(1));
        for (exponent, table) in self.primes.iter().zip(tables) {
            let power = Magnitude::of(table.modulus().value()).power(exponent.unsigned_abs());
            let side = if *exponent > 0 { &mut over } else { &mut under };
            *side = side.product(power);
        }
        let quotient = over.quotient(under);
        Some(Magnitude { exponent: quotient.exponent + self.log2, ..quotient })
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{}", self.log2)?;
        for (i, exponent) in self.primes.iter().enumerate() {
            match exponent {
                0 => {}
                1 => write!(f, " q{i}")?,
                _ => write!(f, " q{i}^{exponent}")?,
            }
        }
        Ok(())
    }
}

/// A positive number `mantissa · 2^exponent`. The mantissa is at least 2^63, so the order is that
/// of the pair. Every operation rounds down, by less than `2^-62` of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Magnitude {
    exponent: i64,
    mantissa: u64,
}

impl Magnitude {
    /// A positive integer.
    pub(super) fn of(value: u64) -> Self {
        Self::normal(u128::from(value), 0)
    }

    /// A positive, finite double of at least the smallest normal one; none for others.
    pub(super) fn of_f64(value: f64) -> Option<Self> {
        if !value.is_normal() || value < 0.0 {
            return None;
        }
        let bits = value.to_bits();
        let mantissa = (bits & ((1 << 52) - 1)) | 1 << 52;
        Some(Self::normal(u128::from(mantissa), (bits >> 52) as i64 - 1075))
    }

    /// The product of the first data primes.
    pub(super) fn modulus(parameters: &LatticeParameters, level: usize) -> Self {
        let primes = parameters.ring().data_primes()[..level].iter();
        primes.fold(Self::of(1), |product, table| product.product(Self::of(table.modulus().value())))
    }

    fn normal(value: u128, exponent: i64) -> Self {
        let shift = 64 - i64::from(value.leading_zeros());
        let mantissa = if shift > 0 { (value >> shift) as u64 } else { (value << -shift) as u64 };
        Self { exponent: exponent + shift, mantissa }
    }

    pub(super) fn product(self, other: Self) -> Self {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        Self::normal(product, self.exponent + other.exponent)
    }

    pub(super) fn quotient(self, other: Self) -> Self {
        let quotient = (u128::from(self.mantissa) << 64) / u128::from(other.mantissa);
        Self::normal(quotient, self.exponent - other.exponent - 64)
    }

    fn power(self, exponent: u64) -> Self {
        let (mut power, mut square, mut left) = (Self::of(1), self, exponent);
        while left > 0 {
            if left & 1 == 1 {
                power = power.product(square);
            }
            left >>= 1;
            if left > 0 {
                square = square.product(square);
            }
        }
        power
    }

    /// Rounded half to even; infinity or 0 out of range.
    pub(super) fn to_f64(self) -> f64 {
        times_power_of_two(self.mantissa as f64, self.exponent)
    }

    /// `⌊log2⌋`.
    pub(super) fn floor_log2(self) -> i64 {
        self.exponent + 63
    }
}

/// `x 2^exponent` for `2^63 ≤ x ≤ 2^64`: exact, infinity above the range, 0 below that of normal
/// numbers.
fn times_power_of_two(x: f64, exponent: i64) -> f64 {
    match exponent {
        ..=-1086 => 0.0,
        // in two steps: the power alone may be subnormal
        -1085..=-1 => {
            let half = exponent / 2;
            x * power_of_two(half) * power_of_two(exponent - half)
        }
        0..=1023 => x * power_of_two(exponent),
        _ => f64::INFINITY,
    }
}

/// For exponents of normal numbers.
pub(super) fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::tests::toy;
    use num_bigint::BigUint;

    #[test]
    fn exponents_add_and_equality_is_that_of_exponents() {
        let [two, three] = [Scale::prime(2), Scale::prime(3)];
        let a = Scale::power_of_two(80).quotient(&three).unwrap().quotient(&two).unwrap();
        let b = Scale::power_of_two(80).quotient(&two).unwrap().quotient(&three).unwrap();
        assert_eq!(a, b);
        assert_ne!(a, Scale::power_of_two(80).quotient(&two).unwrap());
        assert_eq!(a.to_string(), "2^80 q2^-1 q3^-1");
        assert_eq!(a.product(&two).unwrap().product(&three).unwrap(), Scale::power_of_two(80));
    }

    #[test]
    fn exponents_that_grow_without_end_are_noticed() {
        let mut scale = Scale::power_of_two(40);
        let squarings = (0..100).take_while(|_| match scale.product(&scale) {
            Some(square) => {
                scale = square;
                true
            }
            None => false,
        });
        assert_eq!(squarings.count(), 34);
        assert_eq!(scale.to_f64(&toy(None)), Some(f64::INFINITY));
        assert_eq!(Scale::power_of_two(0).quotient(&scale).unwrap().to_f64(&toy(None)), Some(0.0));
        assert_eq!(Scale::prime(4).to_f64(&toy(None)), None);
    }

    #[test]
    fn a_message_has_a_scale_from_one_to_the_largest_double_or_to_the_modulus() {
        let approximate = crate::params::Plaintext::Approximate;
        let wide = LatticeParameters::insecure_of_sizes(8, &[50; 22], &[], 1, approximate).unwrap();
        let of = |log2, primes: &[i64]| Scale::from_exponents(log2, primes.to_vec()).unwrap();
        for (scale, level, possible) in [
            (of(0, &[]), 1, true),
            (of(-1, &[]), 1, false),
            (of(-49, &[0, 1]), 1, true),
            (of(-50, &[0, 1]), 1, false),
            (of(1023, &[]), 1, true),
            (of(1024, &[]), 20, false),
            (of(1024, &[]), 21, true),
            (of(1 << 39, &[]), 22, false),
            (of(0, &[1; 22]), 1, false),
            (of(0, &[1; 22]), 22, false),
            (of(-1, &[1; 22]), 22, true),
            (of(0, &[-1, 0, 0, 1]), 1, false),
            (of(0, &[1, 0, 0, -1]), 1, true),
        ] {
            assert_eq!(scale.is_possible(&wide, level), possible, "{scale} at level {level}");
        }
        assert!(!Scale::prime(22).is_possible(&wide, 22));
        for exponent in [1 << 40, -(1 << 40), i64::MAX, i64::MIN] {
            assert_eq!(
                (Scale::from_exponents(exponent, vec![]), Scale::from_exponents(0, vec![exponent])),
                (None, None)
            );
        }
        let scale = of(-7, &[0, 3, 0, 0]);
        assert_eq!(scale, Scale::from_exponents(-7, vec![0, 3]).unwrap());
        assert_eq!(scale.exponents(4).collect::<Vec<_>>(), [-7, 0, 3, 0, 0]);
    }

    #[test]
    fn numbers_are_the_exact_ones_rounded() {
        let parameters = toy(None);
        let primes: Vec<u64> = parameters.ring().data_primes().iter().map(|table| table.modulus().value()).collect();
        // (Δ²/q_3)² / q_2 … as a quotient of large integers, scaled to have 64 bits
        let mut scale = Scale::power_of_two(40);
        let mut over = BigUint::from(1u8) << 40;
        let mut under = BigUint::from(1u8);
        for prime in (1..4).rev() {
            scale = scale.product(&scale).unwrap().quotient(&Scale::prime(prime)).unwrap();
            over = &over * &over;
            under = &under * &under * primes[prime];
            let exact = (&over << 20u8) / &under; // 60 bits
            let expected = u64::try_from(exact).unwrap() as f64 / f64::from(1 << 20);
            let found = scale.to_f64(&parameters).unwrap();
            assert!((found / expected - 1.0).abs() < 2f64.powi(-52), "{found} {expected}");
        }
        for level in 1..=4 {
            let bits = 40 * level as i64 - 1;
            assert_eq!(Magnitude::modulus(&parameters, level).floor_log2(), bits);
        }
    }

    #[test]
    fn the_order_of_magnitudes_is_that_of_numbers() {
        let of = [1, 2, 3, 1 << 40, (1 << 40) + 1, u64::MAX].map(Magnitude::of);
        assert!(of.is_sorted() && of.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(of.map(Magnitude::to_f64)[..5], [1.0, 2.0, 3.0, 2f64.powi(40), 2f64.powi(40) + 1.0]);
    }
}
