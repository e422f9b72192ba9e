//! Means, variances and covariances from exact sums: fractions of integers.
//!
//! Sums of squares and of products come in bytes, the highest first. A device sends those beside
//! the reading ([`super::schema`]), or the exact path computes them ([`super::exact::Measure`]).
//! [`super::question`] tells which question sums which bytes.

/// The sums of readings and of their squares, with the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// The number of readings.
    pub count: i128,
    /// Their sum.
    pub sum: i128,
    /// The sum of their squares.
    pub squares: i128,
}

/// An exact quotient of integers. Round it only to show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    /// The numerator.
    pub numerator: i128,
    /// The denominator, which is positive.
    pub denominator: i128,
}

impl Fraction {
    /// The quotient as a double.
    pub fn value(&self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// The sum of numbers, from the sums of their bytes, the highest first. At most eight bytes fit.
pub fn of_bytes(sums: impl IntoIterator<Item = i64>) -> i128 {
    sums.into_iter().fold(0, |total, sum| total.wrapping_mul(256).wrapping_add(sum.into()))
}

impl Moments {
    /// Moments from sums of readings and of their squares.
    pub fn of(count: u64, sum: i128, squares: i128) -> Self {
        Self { count: count.into(), sum, squares }
    }

    /// The mean; `None` without readings.
    pub fn mean(&self) -> Option<Fraction> {
        (self.count > 0).then_some(Fraction { numerator: self.sum, denominator: self.count })
    }

    /// The population variance (not the sample variance), `(n Σx² - (Σx)²)/n²`; `None` without
    /// readings, or if an intermediate number does not fit 127 bits.
    pub fn variance(&self) -> Option<Fraction> {
        covariance(self.count, [self.sum, self.sum], self.squares)
    }
}

/// The covariance `(n Σxy - Σx Σy)/n²`, from sums of the readings and of their products; `None`
/// without readings, or if an intermediate number does not fit 127 bits.
pub fn covariance(count: i128, [x, y]: [i128; 2], products: i128) -> Option<Fraction> {
    let numerator = count.checked_mul(products)?.checked_sub(x.checked_mul(y)?)?;
    (count > 0).then_some(Fraction { numerator, denominator: count.checked_mul(count)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_definition() {
        let x = [3u8, 255, 0, 255, 17];
        let square = |x: u8| (u16::from(x) * u16::from(x)).to_be_bytes();
        let bytes = |index: usize| x.iter().map(|x| i64::from(square(*x)[index])).sum::<i64>();
        let sum: i128 = x.iter().map(|x| i128::from(*x)).sum();
        let squares = of_bytes([bytes(0), bytes(1)]);
        let moments = Moments::of(5, sum, squares);
        let mean = sum as f64 / 5.0;
        let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / 5.0;
        assert!((moments.mean().map_or(0.0, |mean| mean.value()) - mean).abs() < 1e-12);
        assert!((moments.variance().map_or(0.0, |variance| variance.value()) - variance).abs() < 1e-9);
        assert_eq!(covariance(5, [sum, sum], squares), moments.variance());
        assert_eq!((Moments::default().mean(), covariance(0, [0, 0], 0)), (None, None));
        assert_eq!(Moments::of(u64::MAX, i128::MAX, 1).variance(), None, "no figure rather than a wrong one");
        assert_eq!(of_bytes([1, 2, 300]), 65_536 + 512 + 300);
    }
}
