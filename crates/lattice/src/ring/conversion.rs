//! Exact conversion from one set of primes to another.
//!
//! Given the residues of `x` modulo `q_1 … q_n`, with `Q` their product, let
//! `y_i = [x (Q/q_i)^-1]_(q_i)`. Then
//!
//! ```text
//! x = Σ y_i Q/q_i - v Q,      v = ⌊Σ y_i/q_i⌉  for the x in [-Q/2, Q/2),
//! ```
//!
//! and modulo another prime this is a sum of `n` products less `v Q` (Halevi, Polyakov, Shoup,
//! CT-RSA 2019, with a floating `v`; here `v` is computed with integers, so that all machines
//! agree). With `s_i` such that `2^49 ≤ 2^(s_i) q_i < 2^50`,
//!
//! ```text
//! v = ⌊(2^48 + Σ ⌊2^(s_i) y_i · ⌊2^101 / (2^(s_i) q_i)⌋ / 2^52⌋) / 2^49⌋.
//! ```
//!
//! Each term is `2^49 y_i/q_i` less at most 1.25, so `v` is the nearest integer unless `Σ y_i/q_i`
//! is within `1.25 n 2^-49` above a half, which means `|x| > (1/2 - 1.25 n 2^-49) Q`. The result is
//! congruent to `x` and at most `(1/2 + 1.25 n 2^-49) Q` in absolute value in any case, and
//! **exactly the centred `x`** for all `|x| < (1/2 - 2^-41) Q`.
//!
//! Cost for a coefficient and `m` primes: `n m` products, and `m` reductions for every eight of the
//! `n`.
//!
//! # Leakage
//! Constant time.

use crate::kernels::Modulus;
use crate::kernels::{Combination, RingKernels, Term};
use zeroize::Zeroizing;

/// Coefficients processed at once, so that intermediate values fit the first-level cache.
const BLOCK: usize = 128;

/// The most primes on either side.
const MOST: usize = 128;

/// Tables of one conversion.
///
/// ```
/// use tobari_lattice::ring::{Conversion, Modulus};
/// let of = |q| Modulus::new(q).unwrap();
/// let conversion = Conversion::new(&[of(97), of(193)], &[of(257)]);
/// let mut out = [[0; 2]];
/// // -5 and 1000 modulo 97 and 193
/// conversion.apply(&[&[92, 30], &[188, 35]], &mut out.each_mut().map(|row| &mut row[..]));
/// assert_eq!(out, [[252, 229]]);
/// ```
#[derive(Clone, Debug)]
pub struct Conversion {
    terms: Vec<Term>,
    /// For each prime of the target, the factors of the terms and of their quotient.
    sums: Vec<Combination>,
}

impl Conversion {
    /// A conversion from the distinct primes `from` to any moduli.
    ///
    /// # Panics
    /// If `from` is empty, has more than 128 moduli, or two that are not prime to one another.
    pub fn new(from: &[Modulus], to: &[Modulus]) -> Self {
        assert!((1..=MOST).contains(&from.len()), "from 1 to {MOST} primes");
        let others = |skip: usize, modulus: &Modulus| {
            let others = from.iter().enumerate().filter(|(i, _)| *i != skip);
            others.fold(1 % modulus.value(), |product, (_, q)| modulus.mul(product, modulus.reduce(q.value())))
        };
        let inverse = |(i, q): (usize, &Modulus)| match q.inverse(others(i, q)) {
            Some(inverse) => q.factor(inverse),
            None => panic!("{} is not prime to the other moduli", q.value()),
        };
        let sum = |p: &Modulus| {
            let products = (0..from.len()).map(|i| others(i, p)).chain([p.neg(others(from.len(), p))]);
            Combination { modulus: *p, products: products.collect(), offset: 0 }
        };
        Self {
            terms: from.iter().enumerate().map(|(i, q)| Term::new(*q, inverse((i, q)))).collect(),
            sums: to.iter().map(sum).collect(),
        }
    }

    /// The terms.
    pub(crate) fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The sums of terms and their quotient, by target.
    pub(crate) fn sums(&self) -> &[Combination] {
        &self.sums
    }

    /// Converts rows of coefficients without `v`: the result is congruent to `x + v Q`,
    /// `0 ≤ v ≤ n`, with the same `v` for all targets. It saves one product a coefficient if a
    /// multiple of `Q` is harmless.
    ///
    /// # Panics
    /// If the number of rows differs from that of moduli, or their lengths differ.
    pub fn apply_approximate(&self, rows: &[&[u64]], out: &mut [&mut [u64]]) {
        self.apply_with(rows, out, self.terms.len());
    }

    /// Converts rows of coefficients.
    ///
    /// # Panics
    /// If the number of rows differs from that of moduli, or their lengths differ.
    pub fn apply(&self, rows: &[&[u64]], out: &mut [&mut [u64]]) {
        self.apply_with(rows, out, self.terms.len() + 1);
    }

    /// Is every coefficient below a quarter of `Q` in absolute value, to within `2^-56 Q`?
    ///
    /// `x/Q` is `Σ y_i/q_i` up to an integer, so words hold it as a fraction whose sum wraps at 1.
    /// The error of each term is below two units of `2^-64`.
    ///
    /// # Panics
    /// If the number of rows differs from that of moduli, or their lengths differ.
    pub(crate) fn are_below_quarter(&self, rows: &[&[u64]]) -> bool {
        assert!(rows.len() == self.terms.len(), "one row for each modulus");
        let mut fractions = Zeroizing::new(vec![0u64; rows[0].len()]);
        for (term, row) in self.terms.iter().zip(rows) {
            assert_eq!(row.len(), fractions.len());
            let reciprocal = (1u128 << 114) / u128::from(term.modulus.value());
            for (fraction, residue) in fractions.iter_mut().zip(*row) {
                let y = term.modulus.mul_factor(*residue, term.inverse);
                // below 2^114, as y is below q
                *fraction = fraction.wrapping_add((u128::from(y).wrapping_mul(reciprocal) >> 50) as u64);
            }
        }
        // from -1/4 to below 1/4 as a signed fraction: after adding a quarter the highest bit is
        // clear
        let outside = fractions.iter().fold(0, |outside, fraction| outside | fraction.wrapping_add(1 << 62));
        outside >> 63 == 0
    }

    /// Converts with the first `used` of the terms and their quotient.
    fn apply_with(&self, rows: &[&[u64]], out: &mut [&mut [u64]], used: usize) {
        assert!(rows.len() == self.terms.len() && out.len() == self.sums.len(), "one row for each modulus");
        let length = rows[0].len();
        assert!(rows.iter().all(|row| row.len() == length) && out.iter().all(|row| row.len() == length));
        let kernels = RingKernels::best();
        // the converted values may be secret
        let mut terms = Zeroizing::new(vec![[0; BLOCK]; rows.len() + 1]);
        let mut sums = Zeroizing::new([0; BLOCK]);
        for start in (0..length).step_by(BLOCK) {
            let places = start..length.min(start + BLOCK);
            for (term, row) in terms.iter_mut().zip(rows) {
                term[..places.len()].copy_from_slice(&row[places.clone()]);
            }
            let (quotients, rest) = terms.split_last_mut().unwrap_or_else(|| unreachable!("one more than rows"));
            let mut rest: Vec<&mut [u64]> = rest.iter_mut().map(|row| &mut row[..]).collect();
            (kernels.terms_assign)(&self.terms, &mut rest, quotients);
            let terms: Vec<&[u64]> = terms.iter().take(used).map(|row| &row[..]).collect();
            for (sum, out) in self.sums.iter().zip(out.iter_mut()) {
                (kernels.combine)(sum, &terms, &mut *sums);
                out[places.clone()].copy_from_slice(&sums[..places.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::primes_below;
    use super::*;
    use num_bigint::{BigInt, BigUint};
    use proptest::prelude::*;

    fn moduli(values: &[u64]) -> Vec<Modulus> {
        values.iter().map(|value| Modulus::new(*value).unwrap()).collect()
    }

    fn residue(x: &BigInt, q: &Modulus) -> u64 {
        let q = BigInt::from(q.value());
        u64::try_from(((x % &q) + &q) % q).unwrap()
    }

    fn product(moduli: &[Modulus]) -> BigInt {
        moduli.iter().map(|q| BigInt::from(q.value())).product()
    }

    fn converted(from: &[Modulus], to: &[Modulus], x: &[BigInt]) -> Vec<Vec<u64>> {
        let rows: Vec<Vec<u64>> = from.iter().map(|q| x.iter().map(|x| residue(x, q)).collect()).collect();
        let rows: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
        let mut out = vec![vec![0; x.len()]; to.len()];
        let mut places: Vec<&mut [u64]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        Conversion::new(from, to).apply(&rows, &mut places);
        out
    }

    /// Primes of many sizes, to cover shifts and small moduli.
    fn some(seed: usize, count: usize) -> Vec<Modulus> {
        let sizes = [50, 30, 50, 20, 45, 50, 27, 50];
        let mut all = Vec::new();
        for i in 0..count {
            let prime = primes_below(sizes[(seed + i) % 8], 1 << 9).find(|q| !all.contains(q)).unwrap();
            all.push(prime);
        }
        moduli(&all)
    }

    #[test]
    fn the_ends_of_the_range_convert_exactly() {
        for (from, to) in
            [(some(0, 1), some(4, 3)), (some(1, 5), moduli(&[2, 65_537, 1 << 40])), (some(3, 30), some(0, 4))]
        {
            let half = (product(&from) - 1) / 2;
            let margin: BigInt = &half >> 40;
            let x: Vec<BigInt> = (-3..=3).map(BigInt::from).chain([&half - &margin, &margin - &half]).collect();
            for (p, row) in to.iter().zip(converted(&from, &to, &x)) {
                let expected: Vec<u64> = x.iter().map(|x| residue(x, p)).collect();
                assert_eq!(row, expected, "modulo {}", p.value());
            }
        }
    }

    #[test]
    fn without_the_quotient_a_multiple_of_the_modulus_is_left() {
        let (from, to) = (some(1, 5), some(6, 2));
        let whole = product(&from);
        let x: Vec<BigInt> = (0..40).map(|i| &whole * (i - 20) / 47 + i).collect();
        let rows: Vec<Vec<u64>> = from.iter().map(|q| x.iter().map(|x| residue(x, q)).collect()).collect();
        let rows: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
        let mut out = vec![vec![0; x.len()]; 2];
        let mut places: Vec<&mut [u64]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        Conversion::new(&from, &to).apply_approximate(&rows, &mut places);
        let mut nonzero = 0;
        for (i, x) in x.iter().enumerate() {
            let multiple = (0..=5).find(|v| (0..2).all(|j| out[j][i] == residue(&(x + &whole * *v), &to[j])));
            nonzero += usize::from(multiple.unwrap() != 0);
        }
        assert!(nonzero > 20, "{nonzero}");
    }

    #[test]
    fn at_the_very_half_either_representative_comes_out() {
        let (from, to) = (some(2, 6), some(5, 1));
        let whole = product(&from);
        let half = &whole / 2;
        let x: Vec<BigInt> = (-2..=2).map(|d| &half + d).collect();
        for (x, found) in x.iter().zip(&converted(&from, &to, &x)[0]) {
            assert!([residue(x, &to[0]), residue(&(x - &whole), &to[0])].contains(found));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn random_numbers_convert_exactly(seed in 0usize..8, n in 1usize..20, m in 1usize..5, digits: [[u64; 18]; 3]) {
            let (from, to) = (some(seed, n), some(seed + 3, m));
            let whole = product(&from);
            let half: BigInt = (&whole - 1) / 2;
            let x: Vec<BigInt> = digits.iter().map(|digits| {
                let bytes: Vec<u8> = digits.iter().flat_map(|digit| digit.to_le_bytes()).collect();
                BigInt::from(BigUint::from_bytes_le(&bytes)) % &whole - &half
            }).collect();
            for (p, row) in to.iter().zip(converted(&from, &to, &x)) {
                let expected: Vec<u64> = x.iter().map(|x| residue(x, p)).collect();
                prop_assert_eq!(row, expected);
            }
        }
    }
}
