//! The interface of field elements to the loops of the portable backend, so that each loop is
//! written once. [`Element`] serves machines that multiply 64-bit words to 128 bits, [`Narrow`] all
//! others.
//!
//! **Weights.** Sums may be lazy. A product or an element from words has weight 2, a settled
//! element weight 1, and a sum or a difference the sum of its terms' weights. The weights of a
//! product's factors may multiply to at most 8, and elements in lines have weight at most 2. Types
//! whose elements are always canonical can ignore weights.
//!
//! [`Element`]: super::Element
//! [`Narrow`]: super::Narrow

use std::ops::{Add, Mul, Neg, Sub};
use tobari_simd::Line;

/// An element of a prime field of at most `64 L` bits.
pub(crate) trait Coordinate<const L: usize>:
    Copy + PartialEq + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// The backend, as `tobari info` prints it.
    const BACKEND: &'static str;
    /// `p`.
    const MODULUS: [u64; L];
    /// Lines of an element in a group of eight.
    const LIMBS: usize;
    const ZERO: Self;
    const ONE: Self;

    /// From a canonical integer below `p`.
    fn from_integer(integer: &[u64; L]) -> Self;
    /// The canonical integer in `[0, p)`.
    fn to_integer(self) -> [u64; L];
    /// From the words of a table entry.
    fn from_residue(residue: &[u64; L]) -> Self;
    /// The words of a table entry: canonical.
    fn residue(self) -> [u64; L];
    /// From lane `lane` of [`Self::LIMBS`] lines.
    fn load(lines: &[Line], lane: usize) -> Self;
    fn store(self, lines: &mut [Line], lane: usize);
    /// The same element in its unique form in lines.
    fn canonical(self) -> Self;
    /// The same element with weight 1.
    fn settle(self) -> Self;
    /// Is the element zero, in any of its forms? The answer is public.
    fn is_zero(&self) -> bool;
    /// Does the element equal the `y` of the identity, with all limbs zero?
    fn is_blank(&self) -> bool;
    /// `-self` if `mask` is all ones, `self` if it is zero; constant time.
    fn negate_masked(self, mask: u64) -> Self;
    fn square(self) -> Self;
    /// `self · other - less`, of weight 2.
    #[inline(always)]
    fn product_less(self, other: Self, less: Self) -> Self {
        (self * other - less).settle()
    }
    /// `self² - less`, of weight 2.
    #[inline(always)]
    fn square_less(self, less: Self) -> Self {
        (self.square() - less).settle()
    }
    /// `1/self`, and zero for zero.
    fn invert(self) -> Self;
    /// The same in a time that depends on `self`.
    fn vartime_invert(self) -> Self;

    #[inline(always)]
    fn double(self) -> Self {
        self + self
    }

    /// From a small integer.
    fn from_small(value: u64) -> Self {
        let mut integer = [0; L];
        integer[0] = value;
        Self::from_integer(&integer)
    }

    /// `self^exponent` for a public exponent. It takes one squaring a bit. The exponents of these
    /// fields are mostly runs of ones, so it also takes products by `self^(2^(2^j) - 1)`, which are
    /// by-products of the leading run: 13 to 17 for most fields.
    fn pow(self, exponent: &[u64; L]) -> Self {
        let squared = |mut x: Self, times: usize| {
            (0..times).for_each(|_| x = x.square());
            x
        };
        let bit = |i: usize| exponent[i / 64] >> (i % 64) & 1 == 1;
        let mut left = (0..64 * L).rev().find(|i| bit(*i)).map_or(0, |top| top + 1);
        let run = |left: usize| (0..left).rev().take_while(|i| bit(*i)).count();
        if left == 0 {
            return Self::ONE;
        }
        let mut repunits = vec![self];
        for j in 0..run(left).ilog2() {
            let last = repunits[repunits.len() - 1];
            repunits.push(squared(last, 1 << j) * last);
        }
        let mut result = repunits[repunits.len() - 1];
        left -= 1 << (repunits.len() - 1);
        while left > 0 {
            let ones = run(left);
            if ones == 0 {
                result = result.square();
                left -= 1;
                continue;
            }
            let log = (ones.ilog2() as usize).min(repunits.len() - 1);
            result = squared(result, 1 << log) * repunits[log];
            left -= 1 << log;
        }
        result
    }
}

/// Square roots in `F_p` by Tonelli and Shanks, for `p - 1 = odd · 2^twos`; one exponentiation if
/// `twos = 1`.
pub(crate) struct SquareRoots<F, const L: usize> {
    half_odd: [u64; L],
    twos: u32,
    /// A generator of the subgroup of order `2^twos`.
    generator: F,
}

impl<F: Coordinate<L>, const L: usize> SquareRoots<F, L> {
    pub(crate) fn new() -> Self {
        let (odd, twos) = odd_part(&F::MODULUS);
        let generator = if twos == 1 { -F::ONE } else { Self::non_residue().pow(&odd) };
        Self { half_odd: halve(&odd), twos, generator }
    }

    /// The smallest positive integer without a square root.
    pub(super) fn non_residue() -> F {
        let half = halve(&F::MODULUS); // (p-1)/2
        let mut candidate = F::ONE.double().settle();
        while candidate.pow(&half) == F::ONE {
            candidate = (candidate + F::ONE).settle();
        }
        candidate
    }

    /// A root of `x` if there is one; variable time in `x`.
    pub(crate) fn vartime_root(&self, x: F) -> Option<F> {
        // x^((odd-1)/2) gives the candidate x^((odd+1)/2) and its error x^odd, whose order divides
        // 2^twos
        let power = x.pow(&self.half_odd);
        let mut root = x * power;
        let mut error = root * power;
        let (mut generator, mut order_log) = (self.generator, self.twos);
        while self.twos > 1 && error != F::ONE {
            let log = Self::vartime_order_log(error, order_log)?;
            for _ in 0..order_log - log - 1 {
                generator = generator.square();
            }
            root = root * generator;
            generator = generator.square();
            error = error * generator;
            order_log = log;
        }
        (root.square() == x).then_some(root)
    }

    /// The `k < limit` with `x` of order `2^k`, if there is one.
    fn vartime_order_log(mut x: F, limit: u32) -> Option<u32> {
        for log in 0..limit {
            if x == F::ONE {
                return Some(log);
            }
            x = x.square();
        }
        None
    }
}

/// `a >> 1`.
fn halve<const L: usize>(a: &[u64; L]) -> [u64; L] {
    std::array::from_fn(|i| (a[i] >> 1) | if i + 1 < L { a[i + 1] << 63 } else { 0 })
}

/// `p - 1 = odd · 2^twos`.
fn odd_part<const L: usize>(p: &[u64; L]) -> ([u64; L], u32) {
    let mut odd = *p;
    odd[0] -= 1;
    let mut twos = 0;
    while odd[0] & 1 == 0 {
        odd = halve(&odd);
        twos += 1;
    }
    (odd, twos)
}
