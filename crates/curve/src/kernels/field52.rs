//! Prime fields on eight lanes of 52-bit limbs, specialised by prime at compile time.
//!
//! A number is `N` limbs `l_0 … l_(N-1)` of 52 bits with the value `Σ l_i 2^(52i)`. Limbs are
//! normalised, but the value may be anything below `16p`, which is less than `2^(52N)` on every
//! curve. `N` = 4, 5, 8 for `p` of up to 192, 256 and 384 bits. Products are columns of 64-bit sums
//! of 52-bit halves, which never overflow (at most `4N + 4 ≤ 36` halves a column), with a single
//! carry ripple at the end.
//!
//! * **Pseudo-Mersenne** (`p = 2^B - c`): the columns above `2^(52N)` are rippled and folded by
//!   `2^(52N) mod p`, then the part above `2^B` is folded by `c`. For any factors below `16p` the
//!   value after the first fold is below `2^(B+51)`, so the last fold's factor fits a limb, and the
//!   result is below `2p`.
//! * **Montgomery** with `R' = 2^(52N)`: for factors below `αp` and `βp` the result is below
//!   `(αβ/16 + 1)p`, because `16p ≤ R'`; it is below `2p` if `αβ ≤ 16`.
//!
//! **Coordinates** are numbers below `3.25p` in normalised limbs: a product after one fold of the
//! part above `2^B` ([`Field52::settle`]). A product and a term subtracted from it share one fold
//! and one ripple ([`Field52::mul_plus`]). The multiples of `p` that keep differences positive are
//! spread, so that no limb below the highest becomes negative before its carry.

use super::field::{Form, Prime, power_of_two};
use std::marker::PhantomData;
use tobari_simd::Simd;

/// Bits of a limb.
pub(super) const LIMB: u32 = 52;
/// The bits of a limb.
pub(super) const MASK: u64 = (1 << LIMB) - 1;

/// An array of vectors, entry by entry. The compiler does not reliably inline closures of
/// `array::from_fn` and `map` into a function that enables vector instructions, and out of line
/// they would be compiled without these.
macro_rules! vectors {
    ($simd:expr, $count:expr, $i:ident => $entry:expr) => {{
        let mut out = [$simd.splat(0); $count];
        let mut $i = 0;
        while $i < $count {
            out[$i] = $entry;
            $i += 1;
        }
        out
    }};
}
pub(super) use vectors;

/// An unrolled loop over at most eight limbs: the compiler alone would keep the longest products as
/// loops, with their columns in memory.
macro_rules! each_limb {
    ($i:ident < $count:expr => $body:block) => {
        each_limb!(@ $i, $count, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident, $count:expr, $body:block, $($limb:literal)*) => {
        $(if $limb < $count {
            let $i: usize = $limb;
            $body
        })*
    };
}
pub(super) use each_limb;

/// Eight numbers.
pub(super) type Number<S, const N: usize> = [<S as Simd>::V; N];

/// The field of `P` on the lanes of `S`.
#[derive(Clone, Copy)]
pub(super) struct Field52<S, P, const L: usize, const N: usize> {
    pub(super) simd: S,
    prime: PhantomData<P>,
}

/// 64-bit words to limbs.
pub(super) const fn limbs<const L: usize, const N: usize>(words: &[u64; L]) -> [u64; N] {
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        let (word, offset) = (i * LIMB as usize / 64, i as u32 * LIMB % 64);
        let mut limb = if word < L { words[word] >> offset } else { 0 };
        if offset > 12 && word + 1 < L {
            limb |= words[word + 1] << (64 - offset);
        }
        out[i] = limb & MASK;
        i += 1;
    }
    out
}

/// `factor a` in limbs, for a small factor and a number that leaves room for it.
const fn multiple<const N: usize>(a: &[u64; N], factor: u64) -> [u64; N] {
    let mut out = [0; N];
    let mut carry = 0;
    let mut i = 0;
    while i < N {
        let sum = a[i] * factor + carry;
        out[i] = sum & MASK;
        carry = sum >> LIMB;
        i += 1;
    }
    out
}

/// The same value with `2^54` moved to each limb from the next: one or two normalised numbers can
/// be subtracted without a negative limb below the highest.
const fn spread<const N: usize>(a: &[u64; N]) -> [u64; N] {
    let mut out = *a;
    out[0] += 1 << 54;
    out[N - 1] -= 1 << 2;
    let mut i = 1;
    while i < N - 1 {
        out[i] += (1 << 54) - (1 << 2);
        i += 1;
    }
    out
}

impl<S: Simd, P: Prime<L>, const L: usize, const N: usize> Field52<S, P, L, N> {
    /// `p`.
    pub(super) const P1: [u64; N] = limbs(&P::MODULUS);
    /// `2p`.
    const P2: [u64; N] = multiple(&Self::P1, 2);
    /// `4p`, spread: see [`spread`].
    pub(super) const SPREAD4: [u64; N] = spread(&multiple(&Self::P1, 4));
    /// `8p`, spread.
    pub(super) const SPREAD8: [u64; N] = spread(&multiple(&Self::P1, 8));
    /// Bits of `p` in the highest limb.
    pub(super) const TOP_BITS: u32 = P::BITS - LIMB * (N as u32 - 1);
    /// `-1/p mod 2^52`.
    pub(super) const NEGATED_INVERSE: u64 = P::NEGATED_INVERSE & MASK;
    /// `2^(52N) mod p`: the factor of a pseudo-Mersenne fold; also one, as a Montgomery number.
    pub(super) const R: [u64; N] = limbs(&power_of_two(LIMB * N as u32, &P::MODULUS));

    pub(super) fn new(simd: S) -> Self {
        Self { simd, prime: PhantomData }
    }

    #[inline(always)]
    pub(super) fn constant(&self, limbs: &[u64; N]) -> Number<S, N> {
        vectors!(self.simd, N, i => self.simd.splat(limbs[i]))
    }

    /// One, as a number.
    #[inline(always)]
    pub(super) fn one(&self) -> Number<S, N> {
        match P::FORM {
            Form::Montgomery { .. } => self.constant(&Self::R),
            Form::PseudoMersenne { .. } => vectors!(self.simd, N, i => self.simd.splat(u64::from(i == 0))),
        }
    }

    /// From `L` vectors of words.
    #[inline(always)]
    pub(super) fn read(&self, words: &[S::V]) -> Number<S, N> {
        let s = self.simd;
        let mask = s.splat(MASK);
        vectors!(s, N, i => {
            let (word, offset) = (i * LIMB as usize / 64, i as u32 * LIMB % 64);
            let mut limb = if word < L { s.shr(words[word], offset) } else { s.splat(0) };
            if offset > 12 && word + 1 < L {
                limb = s.or(limb, s.shl(words[word + 1], 64 - offset));
            }
            s.and(limb, mask)
        })
    }

    /// To `L` vectors of words; the number is canonical.
    #[inline(always)]
    pub(super) fn words(&self, number: &Number<S, N>) -> [S::V; L] {
        let s = self.simd;
        vectors!(s, L, i => {
            let (limb, offset) = (i * 64 / LIMB as usize, i as u32 * 64 % LIMB);
            let mut word = s.shr(number[limb], offset);
            for (next, place) in [(limb + 1, LIMB - offset), (limb + 2, 2 * LIMB - offset)] {
                if next < N && place < 64 {
                    word = s.or(word, s.shl(number[next], place));
                }
            }
            word
        })
    }

    /// Normalises limbs that may be negative or too large; the number itself must be neither.
    #[inline(always)]
    pub(super) fn ripple(&self, mut number: Number<S, N>) -> Number<S, N> {
        let s = self.simd;
        let mask = s.splat(MASK);
        for i in 0..N - 1 {
            number[i + 1] = s.add(number[i + 1], s.sar(number[i], LIMB));
            number[i] = s.and(number[i], mask);
        }
        number
    }

    /// `multiple - a` limb by limb, to be added to a product or settled; `multiple` is spread.
    #[inline(always)]
    pub(super) fn below(&self, multiple: &[u64; N], a: &Number<S, N>) -> Number<S, N> {
        let s = self.simd;
        vectors!(s, N, i => s.sub(s.splat(multiple[i]), a[i]))
    }

    /// `a - b + 4p`, normalised.
    #[inline(always)]
    pub(super) fn difference(&self, a: &Number<S, N>, b: &Number<S, N>) -> Number<S, N> {
        let s = self.simd;
        self.ripple(vectors!(s, N, i => s.add(a[i], s.sub(s.splat(Self::SPREAD4[i]), b[i]))))
    }

    /// `factor a`, normalised, for a factor of 2 to 4.
    #[inline(always)]
    pub(super) fn times(&self, a: &Number<S, N>, factor: u64) -> Number<S, N> {
        self.ripple(self.multiple(a, factor))
    }

    /// `factor a` limb by limb, for a small factor.
    #[inline(always)]
    pub(super) fn multiple(&self, a: &Number<S, N>, factor: u64) -> Number<S, N> {
        let s = self.simd;
        vectors!(s, N, i => {
            let mut sum = s.splat(0);
            for bit in 0..4 {
                if factor >> bit & 1 == 1 {
                    sum = s.add(sum, s.shl(a[i], bit));
                }
            }
            sum
        })
    }

    /// Carries into the highest limb, if that has so few bits of `p` that the carry is several
    /// multiples of `p`.
    #[inline(always)]
    pub(super) fn lift_carry(&self, mut limbs: Number<S, N>) -> Number<S, N> {
        let s = self.simd;
        if Self::TOP_BITS < 10 {
            limbs[N - 1] = s.add(limbs[N - 1], s.shr(limbs[N - 2], LIMB));
            limbs[N - 2] = s.and(limbs[N - 2], s.splat(MASK));
        }
        limbs
    }

    /// A coordinate (below `3.25p`, normalised) from limbs of a non-negative total, each below
    /// `2^60`.
    #[inline(always)]
    pub(super) fn settle(&self, limbs: Number<S, N>) -> Number<S, N> {
        self.ripple(self.fold_top(limbs))
    }

    /// Folds the part above `2^B`, without normalising the limbs.
    #[inline(always)]
    pub(super) fn fold_top(&self, limbs: Number<S, N>) -> Number<S, N> {
        let s = self.simd;
        let mut limbs = self.lift_carry(limbs);
        let above = s.shr(limbs[N - 1], Self::TOP_BITS);
        limbs[N - 1] = s.and(limbs[N - 1], s.splat((1 << Self::TOP_BITS) - 1));
        match P::FORM {
            Form::PseudoMersenne { fold } => {
                limbs[0] = s.multiply_add_low(limbs[0], above, s.splat(fold));
                limbs[1] = s.multiply_add_high(limbs[1], above, s.splat(fold));
            }
            Form::Montgomery { top } => {
                let mut i = 0;
                while i < top.len() {
                    let (sign, exponent) = top[i];
                    let (limb, term) = ((exponent / LIMB) as usize, s.shl(above, exponent % LIMB));
                    limbs[limb] = if sign > 0 { s.add(limbs[limb], term) } else { s.sub(limbs[limb], term) };
                    i += 1;
                }
                if top[0].0 < 0 {
                    limbs = vectors!(s, N, i => s.add(limbs[i], s.splat(Self::P1[i])));
                }
            }
        }
        limbs
    }

    /// The canonical residue of a normalised number below `4p`.
    #[inline(always)]
    pub(super) fn canonical(&self, number: &Number<S, N>) -> Number<S, N> {
        self.reduce_once(&self.reduce_once(number, &Self::P2), &Self::P1)
    }

    /// `number - multiple` if that is not negative, else `number`.
    #[inline(always)]
    pub(super) fn reduce_once(&self, number: &Number<S, N>, multiple: &[u64; N]) -> Number<S, N> {
        let s = self.simd;
        let reduced = self.ripple(vectors!(s, N, i => s.sub(number[i], s.splat(multiple[i]))));
        let negative = s.below(s.splat(u64::MAX >> 1), reduced[N - 1]);
        vectors!(s, N, i => s.select(negative, reduced[i], number[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::BuiltCurve;
    use crate::curve::built::with_curve;
    use crate::curve::catalogue::limbs52;
    use chacha20::{ChaCha20Rng, rand_core::Rng, rand_core::SeedableRng};
    use num_bigint::BigUint;
    use tobari_simd::Emulated;
    use tobari_simd::Line;

    fn integer(words: impl DoubleEndedIterator<Item = u64>, bits: u32) -> BigUint {
        words.rev().fold(BigUint::from(0u8), |all, word| (all << bits) + word)
    }

    /// The eight values of a number, which must be normalised.
    fn values<S: Simd, const N: usize>(s: S, number: &Number<S, N>) -> Vec<BigUint> {
        let mut lanes = [Line::ZERO; N];
        for (limb, lanes) in number.iter().zip(&mut lanes) {
            s.store(*limb, lanes);
        }
        assert!(lanes.iter().flat_map(|line| line.0).all(|limb| limb <= MASK), "not normalised");
        (0..8).map(|lane| integer(lanes.iter().map(|line| line.0[lane]), LIMB)).collect()
    }

    fn number<S: Simd, const N: usize>(s: S, values: &[BigUint]) -> Number<S, N> {
        let limb = |value: &BigUint, i: usize| {
            let digits = (value >> (LIMB as usize * i)).to_u64_digits();
            digits.first().copied().unwrap_or(0) & MASK
        };
        vectors!(s, N, i => s.load(&Line(std::array::from_fn(|lane| limb(&values[lane], i)))))
    }

    /// Numbers below `bound · p`: the ends of the range, multiples of `p` and their neighbours,
    /// carries at every limb, noise.
    fn samples(p: &BigUint, bound: u32, rng: &mut ChaCha20Rng) -> Vec<BigUint> {
        let one = BigUint::from(1u8);
        let mut all = vec![BigUint::from(0u8), one.clone(), p * bound - 1u8];
        for multiple in 1..bound {
            all.extend([p * multiple, p * multiple - 1u8, p * multiple + 1u8]);
        }
        for limb in 1..9 {
            let power: BigUint = &one << (LIMB as usize * limb);
            all.extend([&power - 1u8, power.clone(), p * bound - 1u8 - &power % p]);
        }
        for _ in 0..24 {
            let noise = integer((0..7).map(|_| rng.next_u64()), 64);
            all.push(noise);
        }
        all.into_iter().map(|value| value % (p * bound)).collect()
    }

    fn holds<S: Simd, P: Prime<L>, const L: usize, const N: usize>(s: S) {
        let field = Field52::<S, P, L, N>::new(s);
        let p = integer(P::MODULUS.into_iter(), 64);
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let (factor, bounds) = match P::FORM {
            Form::Montgomery { .. } => (BigUint::from(1u8) << (LIMB as usize * N), [(8, 2), (6, 6), (9, 2)]),
            Form::PseudoMersenne { .. } => (BigUint::from(1u8), [(15, 15), (10, 10), (8, 2)]),
        };
        for (alpha, beta) in bounds {
            let (mut wide, mut narrow) = (samples(&p, alpha, &mut rng), samples(&p, beta, &mut rng));
            wide.resize(wide.len().next_multiple_of(8), &p * alpha - 1u8);
            narrow.resize(narrow.len().next_multiple_of(8), &p * beta - 1u8);
            // below 2p, or in Montgomery form below (αβ/16 + 1)p
            let most = match P::FORM {
                Form::Montgomery { .. } => &p * (alpha * beta + 16),
                Form::PseudoMersenne { .. } => &p * 32u8,
            };
            for (a, b) in wide.chunks_exact(8).flat_map(|a| narrow.chunks_exact(8).map(move |b| (a, b))) {
                for shift in 0..8 {
                    let b: Vec<_> = (0..8).map(|i| b[(i + shift) % 8].clone()).collect();
                    let product = values(s, &field.mul(&number(s, a), &number(s, &b)));
                    for ((a, b), product) in a.iter().zip(&b).zip(product) {
                        assert!(&product * 16u8 < most, "beyond its bound");
                        assert_eq!(&product * &factor % &p, a * b % &p);
                    }
                }
            }
        }
        let most = if matches!(P::FORM, Form::Montgomery { .. }) { 6 } else { 15 };
        let mut factors = samples(&p, most, &mut rng);
        factors.resize(factors.len().next_multiple_of(8), &p * most - 1u8);
        for a in factors.chunks_exact(8) {
            let square = values(s, &field.square(&number(s, a)));
            assert_eq!(square, values(s, &field.mul(&number(s, a), &number(s, a))), "a square is a product");
        }
        for a in samples(&p, 4, &mut rng).chunks_exact(8) {
            for (a, reduced) in a.iter().zip(values(s, &field.canonical(&number(s, a)))) {
                assert_eq!(reduced, a % &p);
            }
        }
        let four = || samples(&p, 4, &mut ChaCha20Rng::from_seed([4; 32]));
        let (spread4, spread8) = (Field52::<S, P, L, N>::SPREAD4, Field52::<S, P, L, N>::SPREAD8);
        let quarters = |numbers: Vec<BigUint>, most: u32| -> Vec<BigUint> {
            numbers.into_iter().map(|number| number % (&p * most / 4u8)).collect() // below most/4 p
        };
        let coordinates = quarters(four(), 13);
        for shift in 0..coordinates.len() {
            let mut others = coordinates.clone();
            others.rotate_left(shift);
            for (a, b) in coordinates.chunks_exact(8).zip(others.chunks_exact(8)) {
                let (a_number, b_number) = (number(s, a), number(s, b));
                let difference = values(s, &field.difference(&a_number, &b_number));
                let opposite = values(s, &field.settle(field.below(&spread4, &b_number)));
                let less = field.below(&spread8, &vectors!(s, N, i => s.add(a_number[i], b_number[i])));
                let one = field.one();
                let product = values(s, &field.mul_plus(&b_number, &one, &less));
                let square = values(s, &field.square_plus(&b_number, &less));
                let plain_square = values(s, &field.square(&b_number));
                for lane in 0..8 {
                    let (a, b) = (&a[lane], &b[lane]);
                    assert_eq!(difference[lane], a + &p * 4u8 - b);
                    for (found, expected) in [
                        (&opposite[lane], &p * 4u8 - b),
                        (&product[lane], &p * 8u8 - a),
                        (&square[lane], &plain_square[lane] + &p * 8u8 - a - b),
                    ] {
                        assert!(found * 4u8 < &p * 13u8, "not a coordinate");
                        assert_eq!(found % &p, expected % &p);
                    }
                }
            }
        }
        for a in samples(&p, 1, &mut rng).chunks_exact(8) {
            let number = number(s, a);
            assert_eq!(values(s, &field.read(&field.words(&number))), a, "words and limbs are the same number");
        }
    }

    #[test]
    fn top_terms_are_what_is_above_the_prime() {
        fn hold<P: Prime<L>, const L: usize>() {
            let Form::Montgomery { top } = P::FORM else { return };
            let p = integer(P::MODULUS.into_iter(), 64);
            let (mut above, mut below) = (BigUint::from(1u8) << P::BITS as usize, BigUint::from(0u8));
            for &(sign, exponent) in top {
                *(if sign > 0 { &mut below } else { &mut above }) += BigUint::from(1u8) << exponent as usize;
            }
            assert_eq!(above % &p, below % &p);
        }
        for curve in BuiltCurve::ALL {
            with_curve!(curve, C => hold::<C, { C::WORDS }>());
        }
    }

    #[test]
    fn emulated_lanes_agree_with_plain_integers_at_every_bound() {
        for curve in BuiltCurve::ALL {
            with_curve!(curve, C => holds::<_, C, { C::WORDS }, { limbs52(C::WORDS) }>(Emulated));
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn avx512_lanes_agree_with_plain_integers_at_every_bound() {
        let Some(avx512) = tobari_simd::Avx512::detect() else {
            return super::super::tests::not_run("avx512_lanes_agree_with_plain_integers_at_every_bound");
        };
        for curve in BuiltCurve::ALL {
            with_curve!(curve, C => holds::<_, C, { C::WORDS }, { limbs52(C::WORDS) }>(avx512));
        }
    }
}
