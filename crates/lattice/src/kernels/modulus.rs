//! Arithmetic modulo a number below 2^50.
//!
//! Products are reduced with Barrett's quotient (CRYPTO '86), in the same way for all moduli. With
//! `s` such that `2^49 ≤ Q < 2^50` for `Q = 2^s q`, the remainder of `X = 2^s x` by `Q` is
//! `2^s (x mod q)`, and for `X < 2^103`
//!
//! ```text
//! e = ⌊⌊X / 2^39⌋ · ⌊2^103 / Q⌋ / 2^64⌋,      X/Q - e < X/2^103 + 2^-10 + 1,
//! ```
//!
//! so that `X - e Q` lies in `[0, 3Q)`, and in `[0, 2Q)` for one product of two residues. Eight
//! products fit `X`. Products by a known number use Shoup's quotient `w' = ⌊w 2^52 / q⌋` (NTL;
//! Harvey, arXiv 1205.2926): for `x < 2^64`
//!
//! ```text
//! x w - ⌊x w' / 2^52⌋ q  lies in  [0, (1 + x / 2^52) q).
//! ```
//!
//! The radix is 2^52 on every backend, so all backends share the tables. Every modulus is below
//! 2^50, which leaves two bits: `x < 4q` gives a result below `2q`.
//!
//! # Leakage
//! Constant time, except [`Modulus::pow`] in its exponent and [`Modulus::inverse`], which take
//! public numbers only.

/// Bits of Shoup's radix.
pub(crate) const RADIX_BITS: u32 = 52;

/// Every modulus is below `2^MAX_BITS`.
pub const MAX_BITS: u32 = 50;

/// A modulus of at least 2 and below 2^50, with the constants of its reductions.
///
/// ```
/// use tobari_lattice::ring::Modulus;
/// let q = Modulus::new(65_537).unwrap();
/// assert_eq!(q.mul(65_536, 65_536), 1);
/// assert_eq!(q.mul(3, q.inverse(3).unwrap()), 1);
/// assert!(Modulus::new(1 << 50).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus {
    value: u64,
    bits: u32,
    /// `⌊2^103 / Q⌋`.
    ratio: u64,
    /// `⌊2^64 / q⌋`.
    word_ratio: u64,
}

/// A number `w < q` with Shoup's quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// `w`.
    pub value: u64,
    /// `⌊w 2^52 / q⌋`.
    pub quotient: u64,
}

impl Modulus {
    /// The modulus `value`; none if it is below 2 or at least 2^50.
    pub const fn new(value: u64) -> Option<Self> {
        if value < 2 || value >> MAX_BITS != 0 {
            return None;
        }
        let bits = u64::BITS - value.leading_zeros();
        let ratio = ((1u128 << 103) / ((value as u128) << (MAX_BITS - bits))) as u64;
        let word_ratio = ((1u128 << 64) / value as u128) as u64;
        Some(Self { value, bits, ratio, word_ratio })
    }

    /// `q`.
    #[inline(always)]
    pub const fn value(&self) -> u64 {
        self.value
    }

    /// The bits of `q`: `2^(bits - 1) ≤ q < 2^bits`.
    #[inline(always)]
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// `⌊2^(53 + bits) / q⌋`.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) const fn ratio(&self) -> u64 {
        self.ratio
    }

    /// `x mod q`.
    #[inline(always)]
    pub const fn reduce(&self, x: u64) -> u64 {
        // x/q - estimate < x/2^64 + 1
        let estimate = high_product(x, self.word_ratio);
        self.subtract_once(x.wrapping_sub(estimate.wrapping_mul(self.value)))
    }

    /// A signed number as a residue, for `|x| < q`.
    #[inline(always)]
    pub const fn of_signed(&self, x: i64) -> u64 {
        debug_assert!(x.unsigned_abs() < self.value);
        (x as u64).wrapping_add((x >> 63) as u64 & self.value)
    }

    /// Any signed number modulo `q`.
    #[inline(always)]
    pub const fn reduce_signed(&self, x: i64) -> u64 {
        let (residue, sign) = (self.reduce(x.unsigned_abs()), (x >> 63) as u64);
        // r, or q - r
        self.subtract_once((residue ^ sign).wrapping_sub(sign).wrapping_add(self.value & sign))
    }

    /// A residue as the number of least absolute value: in `[-q/2, q/2)` for even `q`, symmetric
    /// for odd `q`.
    #[inline(always)]
    pub const fn centred(&self, x: u64) -> i64 {
        debug_assert!(x < self.value);
        let upper = ((self.value - 1) / 2).wrapping_sub(x) as i64 >> 63; // all ones iff x > (q-1)/2
        x as i64 - (upper & self.value as i64)
    }

    /// `a + b`.
    #[inline(always)]
    pub const fn add(&self, a: u64, b: u64) -> u64 {
        debug_assert!(a < self.value && b < self.value);
        self.subtract_once(a + b)
    }

    /// `a - b`.
    #[inline(always)]
    pub const fn sub(&self, a: u64, b: u64) -> u64 {
        debug_assert!(a < self.value && b < self.value);
        self.subtract_once(a + self.value - b)
    }

    /// `-a`.
    #[inline(always)]
    pub const fn neg(&self, a: u64) -> u64 {
        self.sub(0, a)
    }

    /// `a b`.
    #[inline(always)]
    pub const fn mul(&self, a: u64, b: u64) -> u64 {
        debug_assert!(a < self.value && b < self.value);
        let scaled = a << self.shift();
        let rest = self.reduce_lazy(high_product(scaled, b), scaled.wrapping_mul(b));
        self.subtract_once(rest >> self.shift())
    }

    /// `s`: one factor of a product for [`Self::reduce_scaled`] must be shifted by it.
    #[inline(always)]
    pub(crate) const fn shift(&self) -> u32 {
        MAX_BITS - self.bits
    }

    /// `x mod q` for `X = 2^s x < 2^103`, such as a sum of eight products of numbers below 2^50
    /// with shifted residues.
    #[inline(always)]
    pub(crate) const fn reduce_scaled(&self, scaled: u128) -> u64 {
        debug_assert!(scaled >> 103 == 0);
        let rest = self.reduce_lazy((scaled >> 64) as u64, scaled as u64) >> self.shift();
        self.subtract_once(self.min_sub(rest))
    }

    /// `X - e Q` for `X = 2^64 high + low`.
    #[inline(always)]
    const fn reduce_lazy(&self, high: u64, low: u64) -> u64 {
        let estimate = high_product((high << 25) | (low >> 39), self.ratio);
        low.wrapping_sub(estimate.wrapping_mul(self.value << self.shift()))
    }

    /// `x - q` unless that is negative.
    #[inline(always)]
    const fn min_sub(&self, x: u64) -> u64 {
        let reduced = x.wrapping_sub(self.value);
        let keep = (reduced as i64 >> 63) as u64; // all ones iff x < q
        reduced.wrapping_add(self.value & keep)
    }

    /// `base^exponent`; variable time in the exponent.
    pub const fn pow(&self, base: u64, exponent: u64) -> u64 {
        let (mut result, mut square, mut left) = (1 % self.value, self.reduce(base), exponent);
        while left > 0 {
            if left & 1 == 1 {
                result = self.mul(result, square);
            }
            square = self.mul(square, square);
            left >>= 1;
        }
        result
    }

    /// `1/a`, if `a` is prime to `q`; variable time.
    pub fn inverse(&self, a: u64) -> Option<u64> {
        let (mut r, mut next_r) = (i128::from(self.value), i128::from(self.reduce(a)));
        let (mut s, mut next_s) = (0i128, 1i128);
        while next_r != 0 {
            let quotient = r / next_r;
            (r, next_r) = (next_r, r - quotient * next_r);
            (s, next_s) = (next_s, s - quotient * next_s);
        }
        (r == 1).then(|| s.rem_euclid(i128::from(self.value)) as u64)
    }

    /// `w` with its quotient, for `w < q`.
    #[inline]
    pub const fn factor(&self, w: u64) -> Factor {
        debug_assert!(w < self.value);
        Factor { value: w, quotient: (((w as u128) << RADIX_BITS) / self.value as u128) as u64 }
    }

    /// `x w mod q` for `x < 4q`.
    #[inline(always)]
    pub const fn mul_factor(&self, x: u64, w: Factor) -> u64 {
        debug_assert!(x >> RADIX_BITS == 0);
        self.subtract_once(self.mul_factor_lazy(x, w))
    }

    /// A number that is `x w` modulo `q`, below `(1 + x / 2^52) q`.
    #[inline(always)]
    pub const fn mul_factor_lazy(&self, x: u64, w: Factor) -> u64 {
        // the quotient is shifted instead of the product: a high half needs no shift
        let quotient = high_product(x, w.quotient << (64 - RADIX_BITS));
        x.wrapping_mul(w.value).wrapping_sub(quotient.wrapping_mul(self.value))
    }

    /// `x mod q` for `x < 2q`; a minimum, so that there is no branch.
    #[inline(always)]
    const fn subtract_once(&self, x: u64) -> u64 {
        debug_assert!(x < 2 * self.value);
        self.min_sub(x)
    }
}

/// The high half of a product. Machines without such an instruction, like WebAssembly, use four
/// products of halves; a product of 128 bits would call a function there.
#[inline(always)]
const fn high_product(a: u64, b: u64) -> u64 {
    if cfg!(target_pointer_width = "64") {
        return ((a as u128 * b as u128) >> 64) as u64;
    }
    of_halves(a, b)
}

#[inline(always)]
const fn of_halves(a: u64, b: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let (a0, a1, b0, b1) = (a & LOW, a >> 32, b & LOW, b >> 32);
    let middle = a1 * b0 + ((a0 * b0) >> 32); // below 2^64
    let other = a0 * b1 + (middle & LOW);
    a1 * b1 + (middle >> 32) + (other >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODULI: [u64; 10] =
        [2, 3, 4, 65_537, 786_433, 1 << 30, (1 << 30) - 35, (1 << 49) + 69, (1 << 50) - 27, (1 << 50) - 1];

    fn plain(x: u128, q: u64) -> u64 {
        (x % u128::from(q)) as u64
    }

    #[test]
    fn extreme_values_agree_with_plain_remainders() {
        for q in MODULI {
            let modulus = Modulus::new(q).unwrap();
            for a in [0, 1, q / 2, q - 2, q - 1] {
                for b in [0, 1, q / 2, (q - 1) / 2, q - 2, q - 1] {
                    assert_eq!(modulus.mul(a, b), plain(u128::from(a) * u128::from(b), q), "{a} {b} mod {q}");
                    assert_eq!(modulus.add(a, b), plain(u128::from(a) + u128::from(b), q));
                    assert_eq!(modulus.sub(a, b), plain(u128::from(a) + u128::from(q - b), q));
                    let x = (4 * q - 1).min((1 << 52) - 1) - b;
                    assert_eq!(modulus.mul_factor(x, modulus.factor(a)), plain(u128::from(x) * u128::from(a), q));
                }
                let centred = modulus.centred(a);
                assert!(2 * centred.unsigned_abs() <= q && modulus.of_signed(centred) == a, "{a} mod {q}");
            }
            for x in [0, 1, -1, i64::MAX, i64::MIN, q as i64, -(q as i64)] {
                assert_eq!(modulus.reduce_signed(x), i128::from(x).rem_euclid(i128::from(q)) as u64, "{x} mod {q}");
            }
            for x in [0, 1, q, u64::MAX - 1, u64::MAX, u64::MAX / q * q, u64::MAX / q * q - 1] {
                assert_eq!(modulus.reduce(x), x % q);
            }
            for x in [0, 1, (1u128 << 103) - 1, 8 * ((1u128 << 50) - 1) * u128::from((q - 1) << modulus.shift())] {
                let x = x >> modulus.shift() << modulus.shift();
                assert_eq!(modulus.reduce_scaled(x), plain(x >> modulus.shift(), q));
            }
        }
    }

    #[test]
    fn moduli_out_of_range_are_none() {
        for value in [0, 1, 1 << 50, u64::MAX] {
            assert!(Modulus::new(value).is_none(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn random_values_agree_with_plain_remainders(q in 2u64..1 << 50, a: u64, b: u64, x: u64) {
            let modulus = Modulus::new(q).unwrap();
            let (a, b) = (a % q, b % q);
            prop_assert_eq!(modulus.mul(a, b), plain(u128::from(a) * u128::from(b), q));
            prop_assert_eq!(modulus.reduce(x), x % q);
            prop_assert_eq!(of_halves(a, x), ((u128::from(a) * u128::from(x)) >> 64) as u64);
            prop_assert_eq!(of_halves(x, u64::MAX - a), high_product(x, u64::MAX - a));
            let lazy = modulus.mul_factor_lazy(x, modulus.factor(a));
            prop_assert_eq!(lazy % q, plain(u128::from(x) * u128::from(a), q));
            prop_assert!(u128::from(lazy) << 52 < ((1u128 << 52) + u128::from(x)) * u128::from(q));
            match modulus.inverse(a) {
                Some(inverse) => prop_assert_eq!(modulus.mul(a, inverse), 1),
                None => prop_assert!((2..=a.min(1 << 20)).any(|d| a % d == 0 && q % d == 0) || a == 0 || a > 1 << 20),
            }
        }

        #[test]
        fn powers_add_their_exponents(a: u64, m in 0u64..1 << 40, n in 0u64..1 << 40) {
            let modulus = Modulus::new((1 << 50) - 27).unwrap();
            prop_assert_eq!(modulus.mul(modulus.pow(a, m), modulus.pow(a, n)), modulus.pow(a, m + n));
        }
    }
}
