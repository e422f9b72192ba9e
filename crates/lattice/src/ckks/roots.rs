//! Roots of unity, the same on every machine, computed with integers until the last step.
//!
//! Numbers are multiples of `2^-62`. Half angles give `exp(iπ/2^j)` from `i`,
//!
//! ```text
//! cos(x/2) = √((1 + cos x)/2),      sin(x/2) = sin x / (2 cos(x/2)),
//! ```
//!
//! and every other root is a product of at most 17 of these. The error of a half angle is below
//! `2^-60` in either part. A product adds as much and its factor's error. So the error before the
//! last rounding is below `2^-55`, and that of a table's entry is below `2^-53`.

use super::Complex;

/// Fractional bits.
const BITS: u32 = 62;

/// Cosine and sine.
#[derive(Clone, Copy)]
struct Fixed {
    cos: i64,
    sin: i64,
}

impl Fixed {
    const ONE: Self = Self { cos: 1 << BITS, sin: 0 };
    const I: Self = Self { cos: 0, sin: 1 << BITS };

    /// The root of half the angle, for angles up to a right one.
    fn half(self) -> Self {
        let cos = (u128::from((1 << BITS) + self.cos.unsigned_abs()) << (BITS - 1)).isqrt();
        let sin = (u128::from(self.sin.unsigned_abs()) << (BITS - 1)) / cos;
        Self { cos: cos as i64, sin: sin as i64 }
    }

    fn product(self, other: Self) -> Self {
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        let round = |x: i128| ((x + (1 << (BITS - 1))) >> BITS) as i64;
        Self {
            cos: round(product(self.cos, other.cos) - product(self.sin, other.sin)),
            sin: round(product(self.cos, other.sin) + product(self.sin, other.cos)),
        }
    }

    /// The conversion of an integer rounds half to even, and the factor is a power of two.
    fn to_complex(self) -> Complex {
        let unit = 1.0 / (1u64 << BITS) as f64;
        Complex { re: self.cos as f64 * unit, im: self.sin as f64 * unit }
    }
}

/// `exp(iπk/degree)` for `k` from 0 to `degree - 1`, each part with an error below `2^-53`.
pub(crate) fn half_circle(degree: usize) -> Vec<Complex> {
    // exp(iπ/2), exp(iπ/4) … exp(iπ/degree): those of 1, 2, 4 … degree/2 steps, the last ones first
    let count = degree.trailing_zeros() as usize;
    let generators: Vec<Fixed> = std::iter::successors(Some(Fixed::I), |root| Some(root.half())).take(count).collect();
    let mut roots = vec![Fixed::ONE];
    for generator in generators.into_iter().rev() {
        for i in 0..roots.len() {
            roots.push(roots[i].product(generator));
        }
    }
    roots.into_iter().map(Fixed::to_complex).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn roots_are_those_of_the_library_up_to_both_errors() {
        for log in [1, 2, 6, 14, 17] {
            let degree = 1 << log;
            let roots = half_circle(degree);
            assert_eq!(roots.len(), degree);
            for (k, root) in roots.iter().enumerate() {
                let (sin, cos) = (PI * k as f64 / degree as f64).sin_cos();
                // the argument of the library's functions has an error of up to 2^-52
                let error = (root.re - cos).abs().max((root.im - sin).abs());
                assert!(error < 2f64.powi(-51), "{k} of {degree}: {error:e}");
            }
        }
    }

    /// `cos` and `sin` of `πk/2^17`, computed with 60 digits by mpmath and rounded.
    #[test]
    fn some_roots_are_the_nearest_doubles_or_next_to_them() {
        let known = [
            (1, 0.999_999_999_712_756_7_f64, 2.396_844_980_841_822e-5_f64),
            (12_345, 0.956_542_855_385_938_3, 0.291_591_779_393_925_8),
            (65_537, -2.396_844_980_841_822e-5, 0.999_999_999_712_756_7),
            (131_071, -0.999_999_999_712_756_7, 2.396_844_980_841_822e-5),
        ];
        let roots = half_circle(1 << 17);
        for (k, cos, sin) in known {
            assert!((roots[k].re - cos).abs() < 2f64.powi(-53), "{k}: {:?}", roots[k]);
            assert!((roots[k].im - sin).abs() < 2f64.powi(-53), "{k}: {:?}", roots[k]);
        }
    }
}
