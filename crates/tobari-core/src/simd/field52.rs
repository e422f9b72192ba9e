//! Prime fields on eight lanes of 52-bit limbs, specialised by prime at compile time.
//!
//! A number is `N` limbs `l_0 … l_(N-1)` of 52 bits, value `Σ l_i 2^(52i)`: normalised limbs, but any value below `16p`, which
//! `2^(52N)` exceeds on every curve. `N` = 4, 5, 8 for `p` of up to 192, 256 and 384 bits. Products are columns of 64-bit
//! sums of 52-bit halves, which never overflow (at most `4N + 4 ≤ 36` halves a column), with a single carry ripple at the
//! end.
//!
//! * **Pseudo-Mersenne** (`p = 2^B - c`): the columns above `2^(52N)` are rippled, folded by `2^(52N) mod p`, then what is
//!   above `2^B` is folded by `c`. For any factors below `16p` the value after the first fold is below `2^(B+51)`, so the last
//!   fold's factor fits a limb, and the result is below `2p`.
//! * **Montgomery** with `R' = 2^(52N)`: for factors below `αp` and `βp` the result is below `(αβ/16 + 1)p`, since `16p ≤ R'`:
//!   below `2p` where `αβ ≤ 16`.
//!
//! Numbers cross the boundary as words that stand for `v 2^(64L)` (see [`super`]), which as Montgomery numbers of this room
//! are `κ v` with `κ = 2^(64L - 52N) = 2^(-2k)`. Nothing is converted: affine addition keeps `κ` by itself except where a
//! slope is squared, and the batch ([`super::batch52`]) scales its slopes by `sqrt(κ) = 2^(-k)` for free.

use super::field::{Form, Prime, power_of_two};
use super::lanes::{Simd, Task};
use std::marker::PhantomData;

/// Bits of a limb.
const LIMB: u32 = 52;
/// The bits of a limb.
const MASK: u64 = (1 << LIMB) - 1;
/// At least as many columns as any product has.
const COLUMNS: usize = 17;

/// An array of vectors, entry by entry. `array::from_fn` and `map` would do, but the compiler does not reliably inline their
/// closures into a function that enables vector instructions, and out of line they are compiled without.
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

/// A loop over at most eight limbs, written out: left to itself the compiler keeps the longest products as loops, with
/// their columns in memory.
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

/// A product on its way into a function of its own.
struct MontgomeryProduct<'a, S: Simd, P, const L: usize, const N: usize> {
    field: Field52<S, P, L, N>,
    a: &'a Number<S, N>,
    b: &'a Number<S, N>,
}

impl<S: Simd, P: Prime<L>, const L: usize, const N: usize> Task for MontgomeryProduct<'_, S, P, L, N> {
    type Output = Number<S, N>;

    #[inline(always)]
    fn run(self) -> Number<S, N> {
        self.field.montgomery_product(self.a, self.b)
    }
}

/// A square on its way into a function of its own.
struct MontgomerySquare<'a, S: Simd, P, const L: usize, const N: usize> {
    field: Field52<S, P, L, N>,
    a: &'a Number<S, N>,
}

impl<S: Simd, P: Prime<L>, const L: usize, const N: usize> Task for MontgomerySquare<'_, S, P, L, N> {
    type Output = Number<S, N>;

    #[inline(always)]
    fn run(self) -> Number<S, N> {
        self.field.reduce_columns(self.field.square_columns(self.a))
    }
}

impl<S: Simd, P: Prime<L>, const L: usize, const N: usize> Field52<S, P, L, N> {
    /// `p`.
    pub(super) const P1: [u64; N] = limbs(&P::MODULUS);
    /// `2p`.
    pub(super) const P2: [u64; N] = multiple(&Self::P1, 2);
    /// `4p`.
    pub(super) const P4: [u64; N] = multiple(&Self::P1, 4);
    /// `6p`.
    pub(super) const P6: [u64; N] = multiple(&Self::P1, 6);
    /// `8p`.
    pub(super) const P8: [u64; N] = multiple(&Self::P1, 8);
    /// `-1/p mod 2^52`.
    const NEGATED_INVERSE: u64 = P::NEGATED_INVERSE & MASK;
    /// `2^(52N) mod p`: what a pseudo-Mersenne product is folded by; one, as a Montgomery number.
    const R: [u64; N] = limbs(&power_of_two(LIMB * N as u32, &P::MODULUS));
    /// Twice `k`: `log2 R' - log2 R`, even for every curve.
    const EXCESS: u32 = match P::FORM {
        Form::Montgomery => LIMB * N as u32 - 64 * L as u32,
        Form::PseudoMersenne { .. } => 0,
    };
    /// `k`: slopes are scaled by `2^(-k)`.
    pub(super) const SHIFT: u32 = Self::EXCESS / 2;

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
            Form::Montgomery => self.constant(&Self::R),
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

    /// Normalises limbs that may be negative or too large, of a number that is neither.
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

    /// `a - b + multiple`, for a constant multiple of `p` that is not below `b`; normalised.
    #[inline(always)]
    pub(super) fn sub(&self, a: &Number<S, N>, b: &Number<S, N>, multiple: &[u64; N]) -> Number<S, N> {
        let s = self.simd;
        self.ripple(vectors!(s, N, i => s.add(s.sub(a[i], b[i]), s.splat(multiple[i]))))
    }

    /// `2^SHIFT a`.
    #[inline(always)]
    pub(super) fn scale_up(&self, a: &Number<S, N>) -> Number<S, N> {
        let s = self.simd;
        if Self::SHIFT == 0 {
            return *a;
        }
        let mask = s.splat(MASK);
        vectors!(s, N, i => {
            let own = s.and(s.shl(a[i], Self::SHIFT), mask);
            if i == 0 { own } else { s.or(own, s.shr(a[i - 1], LIMB - Self::SHIFT)) }
        })
    }

    /// The canonical residue of a normalised number below `4p`.
    #[inline(always)]
    pub(super) fn canonical(&self, number: &Number<S, N>) -> Number<S, N> {
        self.reduce_once(&self.reduce_once(number, &Self::P2), &Self::P1)
    }

    /// `number - multiple` where that is not negative, else `number`.
    #[inline(always)]
    pub(super) fn reduce_once(&self, number: &Number<S, N>, multiple: &[u64; N]) -> Number<S, N> {
        let s = self.simd;
        let reduced = self.ripple(vectors!(s, N, i => s.sub(number[i], s.splat(multiple[i]))));
        let negative = s.below(s.splat(u64::MAX >> 1), reduced[N - 1]);
        vectors!(s, N, i => s.select(negative, reduced[i], number[i]))
    }

    /// `a b` (Montgomery: `a b / R'`), below `2p` under the bounds of the module head; normalised.
    #[inline(always)]
    pub(super) fn mul(&self, a: &Number<S, N>, b: &Number<S, N>) -> Number<S, N> {
        match P::FORM {
            // in a function of its own: the compiler would mix several of these long products and run out of registers
            Form::Montgomery => self.simd.outline(MontgomeryProduct { field: *self, a, b }),
            Form::PseudoMersenne { fold } => self.fold_columns(self.product_columns(a, b), fold),
        }
    }

    /// `a²` under the bounds of [`Field52::mul`], with a third fewer multiplications.
    #[inline(always)]
    pub(super) fn square(&self, a: &Number<S, N>) -> Number<S, N> {
        match P::FORM {
            Form::Montgomery => self.simd.outline(MontgomerySquare { field: *self, a }),
            Form::PseudoMersenne { fold } => self.fold_columns(self.square_columns(a), fold),
        }
    }

    #[inline(always)]
    fn product_columns(&self, a: &Number<S, N>, b: &Number<S, N>) -> [S::V; COLUMNS] {
        let s = self.simd;
        let mut columns = [s.splat(0); COLUMNS];
        for i in 0..N {
            for j in 0..N {
                columns[i + j] = s.multiply_add_low(columns[i + j], a[j], b[i]);
                columns[i + j + 1] = s.multiply_add_high(columns[i + j + 1], a[j], b[i]);
            }
        }
        columns
    }

    /// The products of different limbs once, doubled, and the squares.
    #[inline(always)]
    fn square_columns(&self, a: &Number<S, N>) -> [S::V; COLUMNS] {
        let s = self.simd;
        let mut columns = [s.splat(0); COLUMNS];
        each_limb!(i < N => {
            for j in i + 1..N {
                columns[i + j] = s.multiply_add_low(columns[i + j], a[j], a[i]);
                columns[i + j + 1] = s.multiply_add_high(columns[i + j + 1], a[j], a[i]);
            }
        });
        for column in &mut columns[1..2 * N] {
            *column = s.add(*column, *column);
        }
        for i in 0..N {
            columns[2 * i] = s.multiply_add_low(columns[2 * i], a[i], a[i]);
            columns[2 * i + 1] = s.multiply_add_high(columns[2 * i + 1], a[i], a[i]);
        }
        columns
    }

    #[inline(always)]
    fn fold_columns(&self, mut columns: [S::V; COLUMNS], fold: u64) -> Number<S, N> {
        let s = self.simd;
        let mask = s.splat(MASK);
        for k in N..2 * N - 1 {
            columns[k + 1] = s.add(columns[k + 1], s.shr(columns[k], LIMB));
            columns[k] = s.and(columns[k], mask);
        }
        let mut low = [s.splat(0); COLUMNS];
        low[..N].copy_from_slice(&columns[..N]);
        for k in 0..N {
            for j in 0..N {
                if Self::R[j] != 0 {
                    low[k + j] = s.multiply_add_low(low[k + j], columns[N + k], s.splat(Self::R[j]));
                    low[k + j + 1] = s.multiply_add_high(low[k + j + 1], columns[N + k], s.splat(Self::R[j]));
                }
            }
        }
        // what is above 2^B
        let top_bits = P::BITS - LIMB * (N as u32 - 1);
        let above = s.add(s.shr(low[N - 1], top_bits), s.shl(low[N], LIMB - top_bits));
        low[N - 1] = s.and(low[N - 1], s.splat((1 << top_bits) - 1));
        low[0] = s.multiply_add_low(low[0], above, s.splat(fold));
        low[1] = s.multiply_add_high(low[1], above, s.splat(fold));
        self.ripple(vectors!(s, N, i => low[i]))
    }

    #[inline(always)]
    fn montgomery_product(&self, a: &Number<S, N>, b: &Number<S, N>) -> Number<S, N> {
        let s = self.simd;
        let mut columns = [s.splat(0); COLUMNS];
        each_limb!(i < N => {
            for j in 0..N {
                columns[i + j] = s.multiply_add_low(columns[i + j], a[j], b[i]);
                columns[i + j + 1] = s.multiply_add_high(columns[i + j + 1], a[j], b[i]);
            }
            self.clear_column(&mut columns, i);
        });
        self.ripple(vectors!(s, N, i => columns[N + i]))
    }

    #[inline(always)]
    fn reduce_columns(&self, mut columns: [S::V; COLUMNS]) -> Number<S, N> {
        each_limb!(i < N => {
            self.clear_column(&mut columns, i);
        });
        self.ripple(vectors!(self.simd, N, i => columns[N + i]))
    }

    /// Adds the multiple of `p` that makes column `i` a multiple of `2^52`, and carries the column away.
    #[inline(always)]
    fn clear_column(&self, columns: &mut [S::V; COLUMNS], i: usize) {
        let s = self.simd;
        let m = if Self::NEGATED_INVERSE == 1 {
            s.and(columns[i], s.splat(MASK))
        } else {
            s.multiply_add_low(s.splat(0), columns[i], s.splat(Self::NEGATED_INVERSE))
        };
        for j in 0..N {
            if Self::P1[j] != 0 {
                columns[i + j] = s.multiply_add_low(columns[i + j], m, s.splat(Self::P1[j]));
                columns[i + j + 1] = s.multiply_add_high(columns[i + j + 1], m, s.splat(Self::P1[j]));
            }
        }
        columns[i + 1] = s.add(columns[i + 1], s.shr(columns[i], LIMB));
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::Emulated;
    use super::*;
    use crate::curve::Curve;
    use crate::curve::catalogue::{limbs52, with_curve};
    use chacha20::{ChaCha20Rng, rand_core::Rng, rand_core::SeedableRng};
    use num_bigint::BigUint;

    fn integer(words: impl DoubleEndedIterator<Item = u64>, bits: u32) -> BigUint {
        words.rev().fold(BigUint::from(0u8), |all, word| (all << bits) + word)
    }

    /// The eight values of a number, which must be normalised.
    fn values<S: Simd, const N: usize>(s: S, number: &Number<S, N>) -> Vec<BigUint> {
        let mut lanes = [[0u64; 8]; N];
        for (limb, lanes) in number.iter().zip(&mut lanes) {
            s.store(*limb, lanes);
        }
        assert!(lanes.iter().flatten().all(|limb| *limb <= MASK), "not normalised");
        (0..8).map(|lane| integer(lanes.iter().map(|limb| limb[lane]), LIMB)).collect()
    }

    fn number<S: Simd, const N: usize>(s: S, values: &[BigUint]) -> Number<S, N> {
        let limb = |value: &BigUint, i: usize| {
            let digits = (value >> (LIMB as usize * i)).to_u64_digits();
            digits.first().copied().unwrap_or(0) & MASK
        };
        let limbs = |i: usize| values.iter().map(|value| limb(value, i)).collect::<Vec<_>>();
        vectors!(s, N, i => s.load(&limbs(i)))
    }

    /// Numbers below `bound · p`: the ends of the range, multiples of `p` and their neighbours, carries at every limb, noise.
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
            Form::Montgomery => (BigUint::from(1u8) << (LIMB as usize * N), [(8, 2), (6, 6), (9, 2)]),
            Form::PseudoMersenne { .. } => (BigUint::from(1u8), [(15, 15), (10, 10), (8, 2)]),
        };
        for (alpha, beta) in bounds {
            let (mut wide, mut narrow) = (samples(&p, alpha, &mut rng), samples(&p, beta, &mut rng));
            wide.resize(wide.len().next_multiple_of(8), &p * alpha - 1u8);
            narrow.resize(narrow.len().next_multiple_of(8), &p * beta - 1u8);
            // below 2p, or in Montgomery form below (αβ/16 + 1)p
            let most = match P::FORM {
                Form::Montgomery => &p * (alpha * beta + 16),
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
        let most = if matches!(P::FORM, Form::Montgomery) { 6 } else { 15 };
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
        for (a, b) in samples(&p, 1, &mut rng).chunks_exact(8).zip(samples(&p, 1, &mut rng).rchunks_exact(8)) {
            let difference = field.sub(&number(s, a), &number(s, b), &Field52::<S, P, L, N>::P1);
            let scaled = values(s, &field.scale_up(&difference));
            for (((a, b), difference), scaled) in a.iter().zip(b).zip(values(s, &difference)).zip(scaled) {
                assert_eq!(difference, a + &p - b);
                assert_eq!(scaled, difference << Field52::<S, P, L, N>::SHIFT);
            }
            let number = number(s, a);
            let words = field.words(&number);
            assert_eq!(values(s, &field.read(&words)), a, "words and limbs are the same number");
        }
    }

    #[test]
    fn emulated_lanes_agree_with_plain_integers_at_every_bound() {
        for curve in Curve::ALL {
            with_curve!(curve, C => holds::<_, C, { C::WORDS }, { limbs52(C::WORDS) }>(Emulated));
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn avx512_lanes_agree_with_plain_integers_at_every_bound() {
        let Some(avx512) = super::super::avx512::Avx512::detect() else {
            return super::super::tests::not_run("avx512_lanes_agree_with_plain_integers_at_every_bound");
        };
        for curve in Curve::ALL {
            with_curve!(curve, C => holds::<_, C, { C::WORDS }, { limbs52(C::WORDS) }>(avx512));
        }
    }
}
