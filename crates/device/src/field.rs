//! Arithmetic modulo `q`, and the transform of `Z_q[X]/(X^256 + 1)`.
//!
//! A root `ψ` of order 512 is `g^((q-1)/512)` for the least quadratic non-residue `g`. Place `i` of
//! the transform of `x` has the value of `x` at `ψ^(2 r(i) + 1)`, where `r` reverses the eight bits
//! of an index. The forward transform uses Cooley and Tukey's butterflies, the inverse one
//! Gentleman and Sande's.
//!
//! **Bounds.** `q < 2^29`. A factor `w` has a companion `w' = ⌊2^32 w / q⌋`. Then
//! `x w - ⌊x w' / 2^32⌋ q` is congruent to `x w` and below `2q`, for every `x` of 32 bits. The
//! inverse transform does not reduce sums: they double in each of the eight layers. All values are
//! reduced only before a doubled sum would overflow 32 bits.

use crate::frame::READINGS;

/// A multiplier with its quotient.
#[derive(Clone, Copy)]
pub(crate) struct Factor {
    value: u32,
    quotient: u32,
}

/// A modulus with its tables.
pub(crate) struct Field {
    pub(crate) q: u32,
    /// `-1/q` modulo `2^32`.
    negative_inverse: u32,
    one: Factor,
    /// `2^32 / 256`, the factor of a stored secret, so that [`Field::reduce_sum`] and the inverse
    /// transform need no further factor.
    stored: Factor,
    /// `2^-32`, to remove that factor.
    unstored: Factor,
    roots: [Factor; READINGS],
    inverse_roots: [Factor; READINGS],
}

const fn power(mut base: u64, mut exponent: u32, q: u64) -> u32 {
    let mut product = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = product * base % q;
        }
        base = base * base % q;
        exponent >>= 1;
    }
    product as u32
}

const fn factor(value: u32, q: u32) -> Factor {
    Factor { value, quotient: (((value as u64) << 32) / q as u64) as u32 }
}

impl Field {
    /// The field of a prime below `2^29` that is 1 modulo 512.
    pub(crate) const fn new(q: u32) -> Self {
        let wide = q as u64;
        let mut g = 2;
        while power(g, (q - 1) / 2, wide) == 1 {
            g += 1;
        }
        let psi = power(g, (q - 1) / 512, wide) as u64;
        let inverse = power(psi, q - 2, wide) as u64;
        let (mut roots, mut inverse_roots) = ([factor(1, q); READINGS], [factor(1, q); READINGS]);
        let mut k = 1;
        while k < READINGS {
            let exponent = (k as u8).reverse_bits() as u32;
            roots[k] = factor(power(psi, exponent, wide), q);
            inverse_roots[k] = factor(power(inverse, exponent, wide), q);
            k += 1;
        }
        // Newton's iteration: right modulo 8, and each round doubles the number of right bits
        let (mut x, mut round) = (q, 0);
        while round < 4 {
            x = x.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(x)));
            round += 1;
        }
        let two_to_32 = (1u64 << 32) % wide;
        let stored = (two_to_32 * power(256, q - 2, wide) as u64 % wide) as u32;
        Self {
            q,
            negative_inverse: x.wrapping_neg(),
            one: factor(1, q),
            stored: factor(stored, q),
            unstored: factor(power(stored as u64, q - 2, wide), q),
            roots,
            inverse_roots,
        }
    }

    /// The root `ψ`.
    pub(crate) fn root(&self) -> u32 {
        self.roots[READINGS / 2].value
    }

    /// A number below `2q` that is congruent to `x w`.
    #[inline(always)]
    fn times(&self, x: u32, w: Factor) -> u32 {
        let quotient = ((u64::from(x) * u64::from(w.quotient)) >> 32) as u32;
        x.wrapping_mul(w.value).wrapping_sub(quotient.wrapping_mul(self.q))
    }

    /// Reduces a number below `2q` and below `2^31`.
    #[inline(always)]
    pub(crate) fn once(&self, x: u32) -> u32 {
        let difference = x.wrapping_sub(self.q);
        difference.wrapping_add(self.q & 0u32.wrapping_sub(difference >> 31))
    }

    /// Reduces any number of 32 bits.
    #[inline(always)]
    pub(crate) fn reduce(&self, x: u32) -> u32 {
        self.once(self.times(x, self.one))
    }

    /// `sum / 2^32` modulo `q`, for a sum below `2^32 q`.
    #[inline(always)]
    pub(crate) fn reduce_sum(&self, sum: u64) -> u32 {
        let multiple = (sum as u32).wrapping_mul(self.negative_inverse);
        self.once(((sum + u64::from(multiple) * u64::from(self.q)) >> 32) as u32)
    }

    /// The residue of a small number.
    #[inline(always)]
    pub(crate) fn of_small(&self, x: i32) -> u32 {
        (x as u32).wrapping_add(self.q & ((x >> 31) as u32))
    }

    /// The transform of canonical residues into canonical residues.
    pub(crate) fn forward(&self, x: &mut [u32; READINGS]) {
        let (mut length, mut groups) = (READINGS / 2, 1);
        while length > 0 {
            for (pair, root) in x.chunks_exact_mut(2 * length).zip(&self.roots[groups..]) {
                let (low, high) = pair.split_at_mut(length);
                for (a, b) in low.iter_mut().zip(high) {
                    let product = self.once(self.times(*b, *root));
                    (*a, *b) = (self.once(*a + product), self.once(*a + self.q - product));
                }
            }
            length /= 2;
            groups *= 2;
        }
    }

    /// 256 times the inverse transform; inputs and outputs are below `q`.
    #[inline(always)]
    pub(crate) fn back_256(&self, x: &mut [u32; READINGS]) {
        let (mut length, mut groups, mut bound) = (1, READINGS / 2, u64::from(self.q));
        while groups > 0 {
            if 2 * bound > 1 << 32 {
                x.iter_mut().for_each(|x| *x = self.reduce(*x));
                bound = u64::from(self.q);
            }
            let above = bound as u32; // a multiple of q, and a bound on all values
            for (pair, root) in x.chunks_exact_mut(2 * length).zip(&self.inverse_roots[groups..]) {
                let (low, high) = pair.split_at_mut(length);
                for (a, b) in low.iter_mut().zip(high) {
                    let difference = *a + (above - *b);
                    (*a, *b) = (*a + *b, self.times(difference, *root));
                }
            }
            bound *= 2;
            length *= 2;
            groups /= 2;
        }
        x.iter_mut().for_each(|x| *x = self.reduce(*x));
    }

    /// Multiplies a secret's transform by `2^32 / 256`, its stored form.
    pub(crate) fn store(&self, x: &mut [u32; READINGS]) {
        x.iter_mut().for_each(|x| *x = self.once(self.times(*x, self.stored)));
    }

    /// The transform of a secret from its stored form.
    pub(crate) fn unstore(&self, x: u32) -> u32 {
        self.once(self.times(x, self.unstored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{P1, Profile, U25, U28, field};

    fn noise(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 24
        }
    }

    fn transforms_of<P: Profile>() {
        let (field, q) = (field::<P>(), u64::from(P::MODULUS));
        let psi = u64::from(field.roots[1 << 7].value); // place 128 has ψ^1
        assert_eq!((power(psi, 256, q), power(psi, 512, q)), (P::MODULUS - 1, 1));
        let mut random = noise(q);
        let extremes = [[0; READINGS], [P::MODULUS - 1; READINGS]];
        let randoms = (0..3).map(|_| core::array::from_fn(|_| (random() % q) as u32));
        for x in extremes.into_iter().chain(randoms.collect::<std::vec::Vec<_>>()) {
            let mut values = x;
            field.forward(&mut values);
            for place in [0, 1, 2, 77, 128, 255] {
                let point = u64::from(power(psi, 2 * u32::from((place as u8).reverse_bits()) + 1, q));
                let value = x.iter().rev().fold(0, |sum, x| (sum * point + u64::from(*x)) % q);
                assert_eq!(u64::from(values[place]), value, "{} at {place}", P::NAME);
            }
            field.back_256(&mut values);
            assert!(values.iter().zip(&x).all(|(found, x)| u64::from(*found) == 256 * u64::from(*x) % q));
        }
        for stored in [0, 1, P::MODULUS - 1, 12_345] {
            let mut all = [stored; READINGS];
            field.store(&mut all);
            assert_eq!(field.unstore(all[7]), stored);
            assert_eq!(u64::from(field.reduce_sum(u64::from(all[7]))) * 256 % q, u64::from(stored));
        }
    }

    #[test]
    fn transforms_are_values_at_the_roots_and_come_back() {
        transforms_of::<P1>();
        transforms_of::<U25>();
        transforms_of::<U28>();
    }

    fn reductions_of<P: Profile>() {
        let (field, q) = (field::<P>(), u64::from(P::MODULUS));
        let mut random = noise(7);
        for x in [0, P::MODULUS - 1, P::MODULUS, u32::MAX].into_iter().chain((0..1000).map(|_| random() as u32)) {
            assert_eq!(u64::from(field.reduce(x)), u64::from(x) % q);
        }
        let inverse = u64::from(power((1 << 32) % q, P::MODULUS - 2, q));
        for sum in [0, 1, (q << 32) - 1, 4 * (q - 1) * (q - 1), 5 * (q - 1) * (q - 1), random()] {
            assert_eq!(u64::from(field.reduce_sum(sum)), sum % q * inverse % q);
        }
        assert_eq!((field.of_small(-3), field.of_small(3)), (P::MODULUS - 3, 3));
    }

    #[test]
    fn reductions_are_canonical_at_their_extremes() {
        reductions_of::<P1>();
        reductions_of::<U25>();
        reductions_of::<U28>();
    }
}
