//! Primes for number-theoretic transforms: `q ≡ 1` modulo a power of two.

use crate::kernels::{MAX_BITS, Modulus};

/// Is `n < 2^50` prime? Miller and Rabin's test with the first twelve primes as bases; it has no
/// exception below 3.18 · 10^23 (Sorenson, Webster, Math. Comp. 86, 2017).
pub fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    let Some(modulus) = Modulus::new(n) else { return false };
    if let Some(base) = BASES.into_iter().find(|base| n.is_multiple_of(*base)) {
        return n == base;
    }
    let twos = (n - 1).trailing_zeros();
    BASES.into_iter().all(|base| {
        let mut power = modulus.pow(base, (n - 1) >> twos);
        let mut left = twos;
        while left > 1 && power != 1 && power != n - 1 {
            power = modulus.mul(power, power);
            left -= 1;
        }
        power == n - 1 || (power == 1 && left == twos)
    })
}

/// The primes below `2^bits` that are 1 modulo `step`, from the largest down; none above 50 bits.
///
/// ```
/// use tobari_lattice::ring::primes_below;
/// // for transforms of length 2^12 and below
/// let primes: Vec<u64> = primes_below(30, 1 << 13).take(2).collect();
/// assert_eq!(primes, [1_073_692_673, 1_073_668_097]);
/// ```
pub fn primes_below(bits: u32, step: u64) -> impl Iterator<Item = u64> {
    let top = if bits <= MAX_BITS { ((1u64 << bits) - 1).saturating_sub(1) / step } else { 0 };
    (1..=top).rev().map(move |multiple| multiple * step + 1).filter(|n| is_prime(*n))
}

/// A primitive root of unity of order `order`, a power of two, modulo a prime; none if `order` does
/// not divide `q - 1`.
pub(crate) fn root_of_unity(modulus: &Modulus, order: u64) -> Option<u64> {
    let q = modulus.value();
    if !order.is_power_of_two() || !(q - 1).is_multiple_of(order) {
        return None;
    }
    // the power of a random element has the wanted order with chance 1/2, namely if its power to
    // order/2 is -1. The smallest candidate is taken, so that a root depends only on q and the
    // order
    (2..q).map(|base| modulus.pow(base, (q - 1) / order)).find(|root| modulus.pow(*root, order / 2) == q - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_sorted_as_by_trial_division() {
        for n in 0..5000u64 {
            let plain = n >= 2 && (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0);
            assert_eq!(is_prime(n), plain, "{n}");
        }
    }

    #[test]
    fn known_primes_and_pseudoprimes_are_told_apart() {
        for prime in [65_537, 786_433, 33_292_289, 67_043_329, (1 << 50) - 27, (1 << 31) - 1] {
            assert!(is_prime(prime), "{prime}");
        }
        // Carmichael numbers, and strong pseudoprimes to the bases 2, 3, 5, 7
        for composite in [561, 41_041, 3_215_031_751, 2_152_302_898_747, 3_474_749_660_383, 341_550_071_728_321] {
            assert!(!is_prime(composite), "{composite}");
        }
    }

    #[test]
    fn primes_come_from_the_largest_down_and_have_their_residue() {
        let primes: Vec<u64> = primes_below(50, 1 << 18).take(30).collect();
        assert!(primes.iter().all(|q| is_prime(*q) && q % (1 << 18) == 1 && q >> 49 == 1));
        assert!(primes.windows(2).all(|pair| pair[0] > pair[1]));
        assert_eq!(primes_below(51, 1 << 18).count(), 0);
        assert_eq!(primes_below(10, 1 << 18).count(), 0);
        assert_eq!(primes_below(17, 1 << 16).collect::<Vec<_>>(), [65_537]);
    }

    #[test]
    fn roots_have_exactly_their_order() {
        let modulus = Modulus::new(786_433).unwrap();
        for log in 1..=18 {
            let root = root_of_unity(&modulus, 1 << log).unwrap();
            assert_eq!((modulus.pow(root, 1 << log), modulus.pow(root, 1 << (log - 1))), (1, 786_432));
        }
        assert_eq!(root_of_unity(&modulus, 1 << 19), None);
        assert_eq!(root_of_unity(&modulus, 3), None);
    }
}
