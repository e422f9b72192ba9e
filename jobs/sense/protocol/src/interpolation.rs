//! Polynomials that take given values at the valid points: readings with any noise that a device
//! may add.
//!
//! The points are `V = {Δ m + e : 0 ≤ m ≤ 255, |e| ≤ 3}`, 1,792 of them. They are shifted by their
//! centre `255 Δ/2`, so that `-y` is a point if `y` is. A function of a byte `g` gives a polynomial
//! of degree 1,791 at most, the only one that is `g(m)` at all seven points of each `m`. Suppose
//! that `g(m) + g(255 - m)` is the same `2c` for all `m`, as for the reading itself. Then `g - c`
//! is odd at the points, so its polynomial is odd, and half of the powers are not needed.
//!
//! By Lagrange: with `Z(y) = Π (y - v) = Σ z_i y^i`, the quotient `Z/(y - v)` has the coefficients
//! `Σ_(i>k) z_i v^(i-k-1)`, and its value at `v` is `Z'(v)`. So with `S_t = Σ_v g(v)/Z'(v) v^t` the
//! polynomial's coefficient `k` is `Σ_(i>k) z_i S_(i-k-1)`. This takes time `O(|V|²)`, and no step
//! depends on the previous one.

use super::bounds::{MOST_NOISE, Scheme};
use tobari_lattice::ring::Modulus;

/// The largest modulus in bits: the sum of one product for each point then fits into a word,
/// unreduced.
const MOST_BITS: u32 = 26;

/// The number of byte values.
pub const BYTES: usize = 256;

/// A polynomial in `y = x - centre`, and a constant that is added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteFunction {
    /// Coefficients by powers of `y`, centred.
    pub coefficients: Vec<i64>,
    /// The added constant.
    pub constant: i64,
}

/// The valid points of a scheme.
pub struct Points {
    q: Modulus,
    /// The points, shifted by the centre: seven for each reading.
    points: Vec<u64>,
    /// `1/Z'(v)`.
    weights: Vec<u64>,
    /// `Z`, from the constant on.
    zeros: Vec<u64>,
    centre: i64,
}

impl Points {
    /// `None` if the modulus is not a prime of the ring's kind or has more than 26 bits, if `255 Δ`
    /// is odd, or if two points coincide.
    ///
    /// ```
    /// use tobari_sense::Scheme;
    /// use tobari_sense::interpolation::Points;
    /// let points = Points::new(&Scheme::of::<tobari_device::P1>()).unwrap();
    /// let reading = points.function(&std::array::from_fn(|m| m as i64));
    /// assert_eq!(reading.coefficients.len(), 1_792);
    /// assert!(reading.coefficients.iter().step_by(2).all(|c| *c == 0));
    /// ```
    pub fn new(scheme: &Scheme) -> Option<Self> {
        let q = Modulus::new(u64::try_from(scheme.modulus).ok()?).filter(|q| q.bits() <= MOST_BITS)?;
        let centre = 255 * scheme.delta / 2;
        if 255 * scheme.delta % 2 != 0 || 255 * scheme.delta + 2 * MOST_NOISE >= scheme.modulus {
            return None;
        }
        let of = |m: usize| (-MOST_NOISE..=MOST_NOISE).map(move |e| scheme.delta * m as i64 + e - centre);
        let points: Vec<u64> = (0..BYTES).flat_map(of).map(|point| q.reduce_signed(point)).collect();
        let mut zeros = vec![1];
        for point in &points {
            // multiply by (y - v)
            let mut next = vec![0; zeros.len() + 1];
            for (i, z) in zeros.iter().enumerate() {
                next[i + 1] = q.add(next[i + 1], *z);
                next[i] = q.sub(next[i], q.reduce(*z * *point));
            }
            zeros = next;
        }
        // Z'(v), by Horner's rule for all points at once
        let mut slopes = vec![0; points.len()];
        for (power, z) in zeros.iter().enumerate().skip(1).rev() {
            let coefficient = q.reduce(power as u64 * *z);
            for (slope, point) in slopes.iter_mut().zip(&points) {
                *slope = q.reduce(*slope * *point + coefficient);
            }
        }
        let weights: Option<Vec<u64>> = slopes.into_iter().map(|slope| q.inverse(slope)).collect();
        Some(Self { weights: weights?, q, points, zeros, centre })
    }

    /// The centre, to subtract from `x` before a polynomial is evaluated.
    pub fn centre(&self) -> i64 {
        self.centre
    }

    /// The polynomial of a function that is given by its table.
    pub fn function(&self, table: &[i64; BYTES]) -> ByteFunction {
        let q = &self.q;
        let residue = |value: i64| q.reduce_signed(value);
        // half the sum of the ends: subtracting it makes the function odd, if that is possible
        let half = q.inverse(2).unwrap_or_else(|| unreachable!("odd moduli"));
        let constant = q.mul(q.add(residue(table[0]), residue(table[255])), half);
        let seven = 2 * MOST_NOISE as usize + 1;
        let weighted = |(i, weight): (usize, &u64)| q.reduce(q.sub(residue(table[i / seven]), constant) * *weight);
        let mut terms: Vec<u64> = self.weights.iter().enumerate().map(weighted).collect();
        let sums: Vec<u64> = (0..self.points.len())
            .map(|_| {
                let sum = q.reduce(terms.iter().sum());
                terms.iter_mut().zip(&self.points).for_each(|(term, point)| *term = q.reduce(*term * *point));
                sum
            })
            .collect();
        let coefficient = |k: usize| {
            let products = self.zeros.iter().skip(k + 1).zip(&sums).map(|(z, sum)| *z * *sum);
            q.centred(q.reduce(products.sum()))
        };
        ByteFunction { coefficients: (0..sums.len()).map(coefficient).collect(), constant: q.centred(constant) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_device::{P1, U25};

    #[test]
    fn functions_have_their_values_at_every_valid_point() {
        for scheme in [Scheme::of::<P1>(), Scheme::of::<U25>()] {
            let (points, q) = (Points::new(&scheme).unwrap(), scheme.modulus);
            let tables: [[i64; BYTES]; 3] = [
                std::array::from_fn(|m| m as i64),
                std::array::from_fn(|m| i64::from(m > 200)),
                std::array::from_fn(|m| (m * m / 256) as i64),
            ];
            for (number, table) in tables.iter().enumerate() {
                let function = points.function(table);
                let odd = function.coefficients.iter().step_by(2).all(|c| *c == 0);
                assert_eq!((odd, function.coefficients.len()), (number == 0, 1792));
                for (m, expected) in (0..).zip(table) {
                    for e in -MOST_NOISE..=MOST_NOISE {
                        let y = scheme.delta * m + e - points.centre();
                        let value = function.coefficients.iter().rev().fold(0, |sum, c| (sum * y + c) % q);
                        assert_eq!((value + function.constant - expected) % q, 0, "{scheme}: {m} and {e}");
                    }
                }
            }
        }
    }

    #[test]
    fn points_that_fall_together_are_none() {
        let p1 = Scheme::of::<P1>();
        assert!(Points::new(&Scheme { delta: 258, ..p1 }).is_none(), "beyond the modulus");
        assert!(Points::new(&Scheme { delta: 4, ..p1 }).is_none(), "neighbours share points");
        assert!(Points::new(&Scheme { delta: 255, ..p1 }).is_none(), "no centre");
    }
}
