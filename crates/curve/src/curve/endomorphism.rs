//! Scalars in two halves on the curves with `a = 0`.
//!
//! There `(x, y) → (βx, y)` multiplies by a cube root of unity `λ` modulo the order (Gallant,
//! Lambert, Vanstone, CRYPTO 2001). The pairs `(k_0, k_1)` with `k_0 + λ k_1 ≡ 0` form a lattice.
//! Subtracting the nearest lattice point from `(k, 0)` leaves halves of about the square root of
//! the order. Its coefficients are `⌊k g / 2^s⌋` for constants `g`, with an error of at most one,
//! which makes the halves a little longer but still right. The order is odd, so the lattice's
//! determinant is odd, and adding none, one or both basis vectors makes both halves odd, as their
//! digits require.
//!
//! # Leakage
//! Constant time.

use super::BuiltCurve;
use super::scalar::{RECODED_WORDS, Recoded, Scalar};
use crate::kernels::{WINDOW, opaque};
use zeroize::Zeroizing;

/// Words of a half, in two's complement.
const HALF: usize = 4;

/// The constants to halve a curve's scalars.
pub(crate) struct Halves {
    /// `λ`.
    #[cfg(test)]
    pub(crate) lambda: [u64; HALF],
    /// `2^(64(L + 2)) b_1 / n` and `-2^(64(L + 2)) b_0 / n`, rounded, for field elements of `L`
    /// words.
    pub(crate) g: [[u64; 5]; 2],
    /// Basis vectors `(a_0, b_0)` and `(a_1, b_1)` with `a + λb ≡ 0 (mod n)`.
    pub(crate) basis: [[[u64; HALF]; 2]; 2],
}

/// The windows of both halves, alternating, the highest first: `scalar = k_0 + λ k_1`.
pub(crate) fn windows_of_halves(halves: &Halves, scalar: &Scalar) -> Zeroizing<Vec<u8>> {
    let count = window_count(scalar.curve());
    let split = split(halves, scalar).map(|half| {
        let negative = opaque((half[HALF - 1] >> 63).wrapping_neg());
        let mut words = [0; RECODED_WORDS];
        let mut carry = negative & 1;
        for (word, half) in words.iter_mut().zip(half.iter()) {
            let (sum, overflow) = (half ^ negative).overflowing_add(carry);
            (*word, carry) = (sum, u64::from(overflow));
        }
        Recoded::of_odd(words, WINDOW, count).windows(negative)
    });
    let mut windows = Zeroizing::new(Vec::with_capacity(2 * count));
    windows.extend(split[0].iter().zip(split[1].iter()).flat_map(|(first, second)| [*first, *second]));
    windows
}

/// Windows of a half: three bits more than half the order cover the rounding and the added basis
/// vectors.
fn window_count(curve: BuiltCurve) -> usize {
    (curve.shape().order_bits / 2 + 3).div_ceil(WINDOW) as usize
}

/// `k_0` and `k_1`, odd, in two's complement.
fn split(halves: &Halves, scalar: &Scalar) -> [Zeroizing<[u64; HALF]>; 2] {
    let shift = scalar.words().len() + 2;
    let coefficients = halves.g.map(|g| {
        let product = Zeroizing::new(multiply_words::<12>(scalar.words(), &g));
        let mut coefficient = Zeroizing::new([0; HALF]);
        coefficient.copy_from_slice(&product[shift..shift + HALF]);
        coefficient
    });
    let mut half = [(); 2].map(|()| Zeroizing::new([0; HALF]));
    half[0].iter_mut().zip(scalar.words()).for_each(|(half, word)| *half = *word);
    for (coefficient, vector) in coefficients.iter().zip(&halves.basis) {
        for (half, component) in half.iter_mut().zip(vector) {
            let product = Zeroizing::new(multiply_words::<HALF>(&**coefficient, component));
            **half = add(half, &product, 0, u64::MAX);
        }
    }
    // the combination of basis vectors, modulo 2, that is odd for each even half
    let even = [0, 1].map(|i| half[i][0] & 1 ^ 1);
    let [[a0, b0], [a1, b1]] = halves.basis.map(|vector| vector.map(|component| component[0] & 1));
    let wanted = [b1 & even[0] ^ a1 & even[1], b0 & even[0] ^ a0 & even[1]];
    for (wanted, vector) in wanted.into_iter().zip(&halves.basis) {
        for (half, component) in half.iter_mut().zip(vector) {
            **half = add(half, component, opaque(wanted.wrapping_neg()), 0);
        }
    }
    half
}

/// `a + (b & mask)`, or `a - b` if `minus` is all ones.
fn add(a: &[u64; HALF], b: &[u64; HALF], mask: u64, minus: u64) -> [u64; HALF] {
    let mut carry = u128::from(minus & 1);
    std::array::from_fn(|i| {
        let sum = u128::from(a[i]) + u128::from(b[i] & (mask | minus) ^ minus) + carry;
        carry = sum >> 64;
        sum as u64
    })
}

/// `a b mod 2^(64W)`.
fn multiply_words<const W: usize>(a: &[u64], b: &[u64]) -> [u64; W] {
    let mut product = [0; W];
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0;
        for (j, place) in product[i..].iter_mut().enumerate() {
            let sum = u128::from(*place) + u128::from(*a) * u128::from(b.get(j).copied().unwrap_or(0)) + carry;
            (*place, carry) = (sum as u64, sum >> 64);
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::super::scalar::words_to_be_bytes;
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use num_bigint::BigInt;

    fn integer(words: &[u64]) -> BigInt {
        words.iter().rev().fold(BigInt::from(0), |all, word| (all << 64) + word)
    }

    #[test]
    fn halves_are_short_and_odd_and_make_the_scalar() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in BuiltCurve::ALL {
            let Some(halves) = curve.shape().halves else { continue };
            let (order, lambda) = (integer(curve.shape().order), integer(&halves.lambda));
            assert_eq!((&lambda * &lambda + &lambda + 1u8) % &order, BigInt::from(0), "{curve}: a cube root of unity");
            for round in 0..2_000u64 {
                let scalar = match round {
                    0..10 => Scalar::from_u64(curve, round),
                    10..20 => {
                        let mut words = curve.shape().order.to_vec();
                        words[0] -= round - 9;
                        let mut bytes = vec![0; curve.scalar_bytes()];
                        words_to_be_bytes(&words, &mut bytes);
                        Scalar::from_be_bytes(curve, &bytes).unwrap()
                    }
                    _ => Scalar::random(curve, &mut rng),
                };
                let windows = windows_of_halves(halves, &scalar);
                let [first, second] = [0, 1].map(|term| {
                    let windows = windows[term..].iter().step_by(2);
                    windows.fold(BigInt::from(0), |sum, u| (sum << WINDOW) + (2 * i64::from(*u) - 15))
                });
                let sum: BigInt = (first + second * &lambda - integer(scalar.words())) % &order;
                assert_eq!(sum, BigInt::from(0), "{curve}: {round}");
            }
        }
    }
}
