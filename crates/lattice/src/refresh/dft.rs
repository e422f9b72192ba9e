//! The transforms between slots and coefficients, as products of few sparse matrices.
//!
//! Let `n` slots hold `z`, and let `w_k = m_k + i m_(k+n)` be the pairs of coefficients of their
//! polynomial, in the ring with `n` slots. Then `z = U B w`, where `B` reverses the bits of places
//! and `U` is a product of `log2 n` layers. The layer of length `l = 2, 4 … n` maps, within every
//! block of `l` places,
//!
//! ```text
//! (u_j, v_j) -> (u_j + ξ_j v_j,  u_j - ξ_j v_j),     j < l/2,     ξ_j = exp(2πi 5^j / 4l),
//! ```
//!
//! so that it has the diagonals 0 and ±`l/2`. A product of `g` layers has `2^(g+1) - 1` diagonals,
//! all of them multiples of its smallest `l/2`, its **stride**; and `2^g` if the longest layer is
//! among them, because steps count modulo `n`.
//!
//! `B` is never computed. A refresh applies `U` to `z`, so that the coefficients are those of `B
//! z`, and later `U^-1` to what it found in the coefficients.
//!
//! # Rotated on the way
//! Diagonals go from `-(2^g - 1)` to `2^g - 1` times the stride, and baby and giant steps count
//! from 0. So each factor's result is rotated by `k_i` slots, which shifts its diagonals by `k_i`,
//! and the next factor's by `-k_i`. With `k_i` the next stride for `U`, whose strides ascend, and
//! minus the stride itself for `U^-1`, all steps are 0 or more, and the whole is not rotated.

use crate::ckks::{Complex, roots};
use std::collections::BTreeMap;

/// A matrix of `n` slots, by the steps of its diagonals.
type Matrix = BTreeMap<i64, Vec<Complex>>;

/// A factor: diagonal `d` is that of step `d stride`.
pub(super) struct Factor {
    /// Slots.
    pub(super) stride: usize,
    /// By `d`, from 0 on.
    pub(super) diagonals: BTreeMap<usize, Vec<Complex>>,
}

/// `U` for `slots`, or its inverse, as factors of these numbers of layers in the order in which
/// they are applied. The first one is multiplied by `constant`.
///
/// # Panics
/// Unless the layers are `log2 slots` in all.
pub(super) fn factors(slots: usize, layers: &[usize], inverse: bool, constant: f64) -> Vec<Factor> {
    assert_eq!(1 << layers.iter().sum::<usize>(), slots, "as many layers as bits of a place");
    let roots = roots::half_circle(2 * slots);
    let mut lengths: Vec<usize> = (1..=slots.trailing_zeros()).map(|log| 1 << log).collect();
    if inverse {
        lengths.reverse();
    }
    let (mut rest, mut before) = (&lengths[..], 0i64);
    let mut found = Vec::new();
    for (place, count) in layers.iter().enumerate() {
        let (own, others) = rest.split_at(*count);
        rest = others;
        let stride = own.iter().min().map_or(1, |length| length / 2);
        let last = place + 1 == layers.len();
        let after = match (last, inverse) {
            (true, _) => 0,
            (false, true) => -(stride as i64),
            (false, false) => (stride << count) as i64,
        };
        let mut matrix = Matrix::from([(0, vec![Complex::from(if place == 0 { constant } else { 1.0 }); slots])]);
        for length in own {
            matrix = product(&layer(slots, *length, &roots, inverse), &matrix, slots);
        }
        let mut diagonals = BTreeMap::new();
        for (step, mut diagonal) in matrix {
            diagonal.rotate_left(after.rem_euclid(slots as i64) as usize);
            let step = step - before + after;
            // the factor with the longest layer has all multiples of its stride, modulo n
            let step = if own.contains(&slots) { step.rem_euclid(slots as i64) } else { step };
            assert!(step >= 0 && step % stride as i64 == 0, "a multiple of the stride, from 0 on");
            let sum = diagonals.entry(step as usize / stride).or_insert_with(|| vec![Complex::default(); slots]);
            sum.iter_mut().zip(diagonal).for_each(|(sum, z)| *sum = *sum + z);
        }
        before = after;
        found.push(Factor { stride, diagonals });
    }
    found
}

/// One layer, or its inverse.
fn layer(slots: usize, length: usize, roots: &[Complex], inverse: bool) -> Matrix {
    let half = length / 2;
    let mut power = 1;
    let twiddles: Vec<Complex> = (0..half)
        .map(|_| {
            // exp(2πi power / 4l), of which the table has the first half circle
            let place = power * (slots / length);
            power = power * 5 % (4 * length);
            match place < 2 * slots {
                true => roots[place],
                false => Complex::default() - roots[place - 2 * slots],
            }
        })
        .collect();
    let of = |first: &dyn Fn(Complex) -> Complex, second: &dyn Fn(Complex) -> Complex| -> Vec<Complex> {
        let at = |place: usize| match (place % length).checked_sub(half) {
            None => first(twiddles[place % length]),
            Some(j) => second(twiddles[j]),
        };
        (0..slots).map(at).collect()
    };
    let zero = |_| Complex::default();
    let number = |x: f64| move |_| Complex::from(x);
    let step = half as i64;
    if inverse {
        let scaled = |x: f64| move |twiddle: Complex| twiddle.conjugate() * Complex::from(x);
        Matrix::from([
            (0, of(&number(0.5), &scaled(-0.5))),
            (step, of(&number(0.5), &zero)),
            (-step, of(&zero, &scaled(0.5))),
        ])
    } else {
        let negative = |twiddle: Complex| Complex::default() - twiddle;
        Matrix::from([
            (0, of(&number(1.0), &negative)),
            (step, of(&|twiddle| twiddle, &zero)),
            (-step, of(&zero, &number(1.0))),
        ])
    }
}

/// The matrix of `right` and then `left`.
fn product(left: &Matrix, right: &Matrix, slots: usize) -> Matrix {
    let mut out = Matrix::new();
    for (a, of_a) in left {
        for (b, of_b) in right {
            let sum = out.entry(a + b).or_insert_with(|| vec![Complex::default(); slots]);
            let start = a.rem_euclid(slots as i64) as usize;
            let turned = of_b[start..].iter().chain(&of_b[..start]);
            sum.iter_mut().zip(of_a.iter().zip(turned)).for_each(|(sum, (a, b))| *sum = *sum + *a * *b);
        }
    }
    out.retain(|_, diagonal| diagonal.iter().any(|z| *z != Complex::default()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::Embedding;

    fn apply(factors: &[Factor], input: &[Complex]) -> Vec<Complex> {
        let slots = input.len();
        factors.iter().fold(input.to_vec(), |x, factor| {
            let mut out = vec![Complex::default(); slots];
            for (d, diagonal) in &factor.diagonals {
                for j in 0..slots {
                    out[j] = out[j] + diagonal[j] * x[(j + d * factor.stride) % slots];
                }
            }
            out
        })
    }

    fn reversed(values: &[Complex]) -> Vec<Complex> {
        let bits = values.len().trailing_zeros();
        (0..values.len()).map(|i| values[i.reverse_bits() >> (usize::BITS - bits)]).collect()
    }

    fn distance(a: &[Complex], b: &[Complex]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn the_factors_are_the_embedding_and_its_inverse() {
        for (slots, layers) in [
            (8, &[3][..]),
            (8, &[2, 1]),
            (16, &[2, 2]),
            (64, &[2, 2, 2]),
            (64, &[3, 2, 1]),
            (256, &[1, 3, 4]),
            (1024, &[5, 5]),
        ] {
            let z: Vec<Complex> = (0..slots)
                .map(|j| Complex { re: f64::from(j as u32 * 7 % 23) / 11.5 - 1.0, im: f64::from(j as u32 % 5) / 5.0 })
                .collect();
            let coefficients = Embedding::new(2 * slots).to_coefficients(&z);
            let pairs: Vec<Complex> =
                (0..slots).map(|k| Complex { re: coefficients[k], im: coefficients[k + slots] }).collect();
            let forward = factors(slots, layers, false, 1.0);
            assert!(distance(&apply(&forward, &reversed(&pairs)), &z) < 1e-10, "{slots} {layers:?}");
            let backward = factors(slots, layers, true, 0.25);
            let expected: Vec<Complex> = reversed(&pairs).iter().map(|w| *w * Complex::from(0.25)).collect();
            assert!(distance(&apply(&backward, &z), &expected) < 1e-12, "{slots} {layers:?}");
        }
    }

    #[test]
    fn factors_have_few_diagonals_from_0_on() {
        let counts = |inverse| -> Vec<(usize, usize, usize)> {
            let of = |factor: &Factor| {
                let (first, last) = (factor.diagonals.keys().next().unwrap(), factor.diagonals.keys().last().unwrap());
                assert!(factor.diagonals.len() <= last - first + 1);
                (factor.stride, factor.diagonals.len(), *last)
            };
            factors(1 << 12, &[4, 4, 4], inverse, 1.0).iter().map(of).collect()
        };
        assert_eq!(counts(false), [(1, 31, 31), (16, 31, 30), (256, 16, 15)]);
        assert_eq!(counts(true), [(256, 16, 15), (16, 31, 30), (1, 31, 31)]);
    }
}
