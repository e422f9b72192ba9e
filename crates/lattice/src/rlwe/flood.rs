//! The shape of a server's flood, and how well it hides an error.
//!
//! A server adds a random number to every coefficient of a result, so that the holder of the key
//! sees little of the error below. Let `D(v)` be the statistical distance between the flood and the
//! flood shifted by `v`, over all coefficients.
//!
//! **A uniform flood** on `[-2^f, 2^f)` has `D(v) = Σ |v_i| / 2^(f+1)`: distances of coefficients
//! add up, because the density falls in one step at its end. Over `N` coefficients that is `√N`
//! times more than it has to be.
//!
//! **This flood** is the sum of three uniform numbers of widths `2^f`, `2^(f-1)` and `2^(f-1)`. It
//! stays within `[-2^f, 2^f)`, and its density `p` falls like a square at both ends. So the squared
//! Hellinger distance `H²(v) = 1/2 Σ_x (√p(x) - √p(x-v))²` is finite for a small shift in
//! proportion to its square:
//!
//! ```text
//! H²(1) ≤ 1.2466 / 4^f               computed for f from 13 to 15; it falls towards 1.2464
//! H(v) ≤ |v| H(1)                    a shift by v is v shifts by 1: the triangle inequality
//! H²(all coefficients) ≤ Σ H²(v_i)   they are independent: 1 - H² is a product
//! D(v) ≤ √2 H ≤ 1.58 ‖v‖ / 2^f       ‖v‖ is the Euclidean norm
//! ```
//!
//! The limit of `4^f H²(1)` is `√2 ln(1 + √2)`, an eighth of the Fisher information of the spline.
//! A Gaussian that ends where it is below `2^-60` has a ninth of the room as its deviation, and so
//! `D(v) = 3.7 ‖v‖ / 2^f`.
//!
//! **An average is enough.** If `v` depends on random masks that the server draws for this result,
//! the distance of the mixtures is at most the average distance, and so at most `1.58 E‖v‖ / 2^f`.

/// `log2` of a bound on the statistical distance between a flood of so many bits and the same flood
/// with an error of this Euclidean norm, over all coefficients together. `norm` is `log2` of a
/// bound on the norm, or on its average; that of several results is the root of the sum of their
/// squares. For floods of 13 bits and more.
pub fn flood_distance(norm: f64, bits: u32) -> f64 {
    norm + HELLINGER - f64::from(bits)
}

/// `log2(√(2 · 1.2466))`, rounded up.
const HELLINGER: f64 = 0.6592;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use crate::ring::{Coeff, Domain, Poly, Seed};
    use crate::rlwe::tests::toy;

    /// Adds a uniform number of `width` values: the number of ways for each sum.
    fn spread(ways: &[f64], width: usize) -> Vec<f64> {
        let mut sum = 0.0;
        let at = |index: usize| ways.get(index).copied().unwrap_or(0.0);
        let next = |index: usize| {
            sum += at(index) - index.checked_sub(width).map_or(0.0, at);
            sum
        };
        (0..ways.len() + width - 1).map(next).collect()
    }

    /// The probabilities of a flood of so many bits, from the least value on.
    fn density(bits: u32) -> Vec<f64> {
        let wide = vec![1.0; 1 << bits];
        let ways = spread(&spread(&wide, 1 << (bits - 1)), 1 << (bits - 1));
        let all = f64::from(bits).exp2() * f64::from(bits - 1).exp2().powi(2);
        ways.into_iter().map(|ways| ways / all).collect()
    }

    fn sum_of_pairs(density: &[f64], shift: usize, of: impl Fn(f64, f64) -> f64) -> f64 {
        let at = |index: usize| density.get(index).copied().unwrap_or(0.0);
        (0..density.len() + shift).map(|x| of(at(x), x.checked_sub(shift).map_or(0.0, at))).sum::<f64>() / 2.0
    }

    #[test]
    fn the_constant_is_that_of_the_sums_themselves() {
        let squares = |bits, shift| sum_of_pairs(&density(bits), shift, |p, q| (p.sqrt() - q.sqrt()).powi(2));
        let one: Vec<f64> = (9..16).map(|bits| squares(bits, 1) * f64::from(2 * bits).exp2()).collect();
        assert!(one.windows(2).all(|pair| pair[1] < pair[0]), "{one:?}");
        assert!(one[4] < 1.2467 && one[6] > 1.2464, "{one:?}");
        assert!((2.0 * one[4]).log2() / 2.0 < HELLINGER && (2.0 * one[6]).log2() / 2.0 > HELLINGER - 1e-3);
        // a shift by v costs at most v² times as much
        for shift in [2, 3, 50, 1_000] {
            assert!(squares(13, shift) <= squares(13, 1) * (shift * shift) as f64);
        }
    }

    /// One coefficient: the bound covers the distance itself. The second half is why this flood is
    /// not uniform: over many coefficients a uniform one tells more.
    #[test]
    fn the_bound_covers_the_distance_and_beats_a_uniform_flood_over_many_coefficients() {
        let bits = 13;
        for shift in [1, 7, 100] {
            let distance = sum_of_pairs(&density(bits), shift, |p, q| (p - q).abs());
            let bound = flood_distance((shift as f64).log2(), bits).exp2();
            assert!(distance < bound && bound < 3.0 * distance, "{shift}: {distance}, {bound}");
        }
        let (n, v) = (4096f64, 1f64);
        let uniform = n * v / f64::from(bits + 1).exp2();
        assert!(flood_distance((n.sqrt() * v).log2(), bits).exp2() < uniform / 15.0);
    }

    /// The sampler has the density of the head: its range, its variance, and its share of small and
    /// large numbers.
    #[test]
    fn floods_are_sums_of_three_uniform_numbers() {
        let parameters = toy(None);
        let ring = parameters.ring();
        for bits in [2, 13, 32, 33, 34] {
            let mut values = Vec::new();
            for index in 0..400 {
                let mut stream = Seed::from_bytes([3; 32]).stream(Domain::Flood, index);
                let element = Poly::<Coeff>::spline_integers(ring, ring.basis(1), bits, &mut stream);
                values.extend(element.row(0).iter().map(|value| ring.data_primes()[0].modulus().centred(*value)));
            }
            let (unit, count) = (f64::from(bits).exp2(), values.len() as f64);
            assert!(values.iter().all(|value| (-unit..unit).contains(&(*value as f64))), "{bits}");
            // of widths 1, 1/2 and 1/2 in units of 2^bits, with steps of one
            let step = 1.0 / unit;
            let variance = (1.0 + 0.25 + 0.25 - 3.0 * step * step) / 12.0;
            let found = values.iter().map(|value| (*value as f64 / unit + 1.5 * step).powi(2)).sum::<f64>() / count;
            assert!((found / variance - 1.0).abs() < 0.04, "{bits}: {found}, {variance}");
            if bits >= 13 {
                // a sixth of the numbers are beyond half of the range
                let far = values.iter().filter(|value| value.unsigned_abs() as f64 > unit / 2.0).count() as f64;
                assert!((far / count - 1.0 / 6.0).abs() < 0.01, "{bits}: {far} of {count}");
            }
        }
    }
}
