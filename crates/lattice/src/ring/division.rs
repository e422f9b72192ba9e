//! Division by primes of the basis, with rounding.
//!
//! Let `D` be the product of the dropped primes, and `r` the centred residue of `x` modulo `D`.
//! Then `x - δ` is divisible by `D` for every `δ ≡ r (mod D)`, and over the kept primes `(x - δ)/D`
//! is `(x - δ) D^-1`. Two choices of `δ` ([`Rounding`]):
//!
//! * `δ = r`: the quotient is `⌊x/D⌉`, with an error of at most 1/2;
//! * `δ = r + D k` with `k = [-r D^-1]_t`, centred: `δ ≡ 0 (mod t)`, so the quotient is `x D^-1`
//!   modulo `t`, with an error of at most `(1 + t)/2`. So BGV keeps its messages, times a known
//!   factor.
//!
//! With `r = Σ y_i D/d_i - v D` ([`Conversion`]) both are one sum of products: `k + ⌊t/2⌋` is
//! `(-r D^-1 mod t) + ⌊t/2⌋ mod t`, at least 0, and another term, with the factor `D`.
//!
//! For an element in the form of values, only the dropped rows are transformed back, and `δ`
//! forward again.

use super::Ring;
use super::conversion::Conversion;
use super::poly::{Automorphism, Basis, Coeff, Eval, Poly};
use crate::kernels::{Combination, RingKernels, Term};
use crate::kernels::{Factor, Modulus};
use std::ops::Range;
use std::sync::Arc;
use tobari_simd::Buffer;

/// The rounding of a quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest integer.
    Nearest,
    /// To a near integer that is congruent to the exact quotient modulo this number, which must be
    /// prime to the divisor.
    Congruent(Modulus),
}

/// Division by some primes of a ring, prepared.
#[derive(Clone, Debug)]
pub struct Division {
    ring: Arc<Ring>,
    /// The basis before the division, and after.
    from: Basis,
    to: Basis,
    terms: Vec<Term>,
    /// For the second choice of `δ`: computes `k + ⌊t/2⌋`, at least 0, from the terms of `r`.
    congruent: Option<Combination>,
    /// `δ` by row, from the terms, and from `k + ⌊t/2⌋` if there is one.
    corrections: Vec<Combination>,
    /// `D^-1` by row.
    inverses: Vec<Factor>,
}

impl Division {
    /// Division by the last data prime, for an element over the first `data` data primes.
    ///
    /// # Panics
    /// If there are fewer than two, or the modulus of the rounding is not prime to it.
    pub fn by_last(ring: &Arc<Ring>, data: usize, rounding: Rounding) -> Self {
        assert!(data >= 2, "the last prime stays");
        Self::new(ring, ring.basis(data), ring.basis(data - 1), rounding)
    }

    /// Division by all special primes, for an element over the first `data` data primes and the
    /// special ones.
    ///
    /// # Panics
    /// If the ring has none, or the modulus of the rounding is not prime to them.
    pub fn by_special(ring: &Arc<Ring>, data: usize, rounding: Rounding) -> Self {
        Self::new(ring, ring.key_basis(data), ring.basis(data), rounding)
    }

    /// Division by all special primes and the last data prime at once: as both divisions in turn,
    /// with one rounding.
    ///
    /// # Panics
    /// As [`Self::by_last`] and [`Self::by_special`].
    pub fn by_special_and_last(ring: &Arc<Ring>, data: usize, rounding: Rounding) -> Self {
        assert!(data >= 2, "the last prime stays");
        Self::new(ring, ring.key_basis(data), ring.basis(data - 1), rounding)
    }

    fn new(ring: &Arc<Ring>, from: Basis, to: Basis, rounding: Rounding) -> Self {
        let moduli: Vec<Modulus> = ring.tables(from).map(|table| *table.modulus()).collect();
        let (stay, go) = moduli.split_at(to.rows());
        let divisor = |q: &Modulus| go.iter().fold(1 % q.value(), |d, other| q.mul(d, q.reduce(other.value())));
        let inverse = |q: &Modulus| match q.inverse(divisor(q)) {
            Some(inverse) => inverse,
            None => panic!("{} is not prime to the divisor", q.value()),
        };
        let conversion = Conversion::new(go, stay);
        let mut corrections = conversion.sums().to_vec();
        let congruent = match rounding {
            Rounding::Nearest => None,
            Rounding::Congruent(t) => {
                let half = t.value() / 2;
                for (q, correction) in stay.iter().zip(&mut corrections) {
                    correction.products.push(divisor(q));
                    correction.offset = q.neg(q.mul(divisor(q), q.reduce(half)));
                }
                let (negated_inverse, mut k) = (t.neg(inverse(&t)), Conversion::new(go, &[t]).sums()[0].clone());
                k.products.iter_mut().for_each(|product| *product = t.mul(*product, negated_inverse));
                Some(Combination { offset: half, ..k })
            }
        };
        Self {
            ring: Arc::clone(ring),
            from,
            to,
            terms: conversion.terms().to_vec(),
            congruent,
            corrections,
            inverses: stay.iter().map(|q| q.factor(inverse(q))).collect(),
        }
    }

    /// The quotient of an element in the form of values.
    ///
    /// # Panics
    /// If the element is of another ring or basis.
    pub fn divide(&self, dividend: &Poly<Eval>) -> Poly<Eval> {
        self.divide_and(dividend, None, |_, _, _| {})
    }

    /// Divides, applies `finish` to the quotient's rows with their number and modulus, and then
    /// applies the automorphism, if there is one. All this happens while a row is in the cache.
    ///
    /// # Panics
    /// If the element is of another ring or basis.
    pub(crate) fn divide_and(
        &self,
        dividend: &Poly<Eval>,
        automorphism: Option<&Automorphism>,
        finish: impl Fn(usize, &Modulus, &mut [u64]),
    ) -> Poly<Eval> {
        let corrections =
            Corrections::new(self, dividend, |row, values| self.ring.table(self.from, row).inverse(values));
        let (rows, degree) = (self.to.rows(), self.ring.degree());
        let mut scratch = self.ring.scratch(if automorphism.is_some() { GROUP } else { 0 });
        let mut quotient = Poly::any(&self.ring, self.to);
        let fill = |group: Range<usize>, values: &mut [u64]| {
            corrections.write(group.clone(), values);
            for (row, values) in group.zip(values.chunks_exact_mut(degree)) {
                self.ring.table(self.to, row).forward(values);
                self.finish_row(row, dividend.row(row), values);
                finish(row, self.ring.table(self.to, row).modulus(), values);
            }
        };
        for first in (0..rows).step_by(GROUP) {
            let group = first..rows.min(first + GROUP);
            let own = &mut quotient.values_mut()[first * degree..group.end * degree];
            let Some(automorphism) = automorphism else {
                fill(group, own);
                continue;
            };
            fill(group, &mut scratch[..own.len()]);
            for (values, out) in scratch.chunks_exact(degree).zip(own.chunks_exact_mut(degree)) {
                automorphism.permute(values, out);
            }
        }
        quotient
    }

    /// The quotient of an element in the form of coefficients.
    ///
    /// # Panics
    /// If the element is of another ring or basis.
    pub fn divide_coefficients(&self, dividend: &Poly<Coeff>) -> Poly<Coeff> {
        let corrections = Corrections::new(self, dividend, |_, _| {});
        let mut quotient = Poly::any(&self.ring, self.to);
        corrections.write(0..self.to.rows(), quotient.values_mut());
        for row in 0..self.to.rows() {
            self.finish_row(row, dividend.row(row), quotient.row_mut(row));
        }
        quotient
    }

    /// `(x - δ)/D`, in the place of `δ`.
    fn finish_row(&self, row: usize, x: &[u64], values: &mut [u64]) {
        (RingKernels::best().sub_scale_assign)(&self.corrections[row].modulus, values, x, self.inverses[row]);
    }
}

/// `δ` as terms.
struct Corrections<'a> {
    division: &'a Division,
    terms: Buffer,
}

impl<'a> Corrections<'a> {
    /// The corrections of an element; `coefficients` turns its rows into coefficients.
    fn new<F: super::Form>(
        division: &'a Division,
        dividend: &Poly<F>,
        coefficients: impl Fn(usize, &mut [u64]),
    ) -> Self {
        let ring = &division.ring;
        assert!(ring.is(dividend.ring()), "an element of another ring");
        assert_eq!(division.from, dividend.basis(), "an element over another basis");
        let (stay, count) = (division.to.rows(), division.terms.len());
        let mut terms = ring.scratch(count + 1 + usize::from(division.congruent.is_some()));
        let mut rows: Vec<&mut [u64]> = terms.chunks_exact_mut(ring.degree()).collect();
        for (row, values) in (stay..).zip(&mut rows[..count]) {
            values.copy_from_slice(dividend.row(row));
            coefficients(row, values);
        }
        let (go, rest) = rows.split_at_mut(count);
        let [quotients, k @ ..] = rest else { unreachable!("one row more than terms") };
        (RingKernels::best().terms_assign)(&division.terms, go, quotients);
        if let (Some(congruent), [k]) = (&division.congruent, k) {
            let terms: Vec<&[u64]> = go.iter().map(|row| &**row).chain([&**quotients]).collect();
            (RingKernels::best().combine)(congruent, &terms, k);
        }
        Self { division, terms }
    }

    /// Writes the coefficients of `δ` modulo some of the kept primes, one row after another.
    fn write(&self, rows: Range<usize>, out: &mut [u64]) {
        let degree = self.division.ring.degree();
        let terms: Vec<&[u64]> = self.terms.chunks_exact(degree).collect();
        combine_blocks(&self.division.corrections[rows], &terms, out.chunks_exact_mut(degree).collect());
    }
}

/// Rows that are computed together, so that their inputs are read once for all of them.
pub(crate) const GROUP: usize = 8;

/// Sums of the same rows, a block of coefficients at a time, because larger blocks of many rows
/// would not stay in the cache.
pub(crate) fn combine_blocks(sums: &[Combination], rows: &[&[u64]], mut out: Vec<&mut [u64]>) {
    /// Coefficients, so that twenty rows of them fit the nearest cache.
    const BLOCK: usize = 256;
    let degree = rows.first().map_or(0, |row| row.len());
    let mut near: Vec<&[u64]> = Vec::with_capacity(rows.len());
    for start in (0..degree).step_by(BLOCK) {
        let block = start..degree.min(start + BLOCK);
        near.clear();
        near.extend(rows.iter().map(|row| &row[block.clone()]));
        for (sum, out) in sums.iter().zip(&mut out) {
            (RingKernels::best().combine)(sum, &near, &mut out[block.clone()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Domain, Seed, primes_below};
    use super::*;
    use num_bigint::{BigInt, Sign};

    fn ring() -> Arc<Ring> {
        let primes: Vec<u64> =
            [50, 30, 45, 50, 40].iter().zip(0..).map(|(bits, i)| primes_below(*bits, 64).nth(i).unwrap()).collect();
        Ring::new(32, &primes[..3], &primes[3..]).unwrap()
    }

    /// The centred coefficients, by schoolbook reconstruction.
    fn coefficients(poly: &Poly<Coeff>) -> Vec<BigInt> {
        let moduli: Vec<BigInt> =
            poly.ring().tables(poly.basis()).map(|table| table.modulus().value().into()).collect();
        let whole: BigInt = moduli.iter().product();
        let mut out = vec![BigInt::ZERO; poly.ring().degree()];
        for (row, q) in moduli.iter().enumerate() {
            let other: BigInt = &whole / q;
            let inverse = other.modpow(&(q - 2), q);
            for (sum, residue) in out.iter_mut().zip(poly.row(row)) {
                *sum = (&*sum + &other * &inverse * *residue) % &whole;
            }
        }
        out.into_iter().map(|x| if &x * 2 > whole { x - &whole } else { x }).collect()
    }

    fn random(ring: &Arc<Ring>, basis: Basis) -> Poly<Coeff> {
        let seed = Seed::from_bytes([2; 32]);
        Poly::uniform(ring, basis, |place| seed.stream(Domain::Uniform, place as u64))
    }

    fn divisor(ring: &Ring, from: Basis, to: Basis) -> BigInt {
        let moduli: Vec<u64> = ring.tables(from).map(|table| table.modulus().value()).collect();
        moduli[to.rows()..].iter().map(|q| BigInt::from(*q)).product()
    }

    #[test]
    fn quotients_are_rounded_to_the_nearest_and_both_forms_agree() {
        let ring = ring();
        for division in
            [Division::by_last(&ring, 3, Rounding::Nearest), Division::by_special(&ring, 3, Rounding::Nearest)]
        {
            let x = random(&ring, division.from);
            let d = divisor(&ring, division.from, division.to);
            let quotient = division.divide_coefficients(&x);
            for (x, y) in coefficients(&x).iter().zip(coefficients(&quotient)) {
                let error: BigInt = x * 2 - y * &d * 2;
                assert!(error.magnitude() <= d.magnitude(), "off by more than a half");
            }
            assert!(division.divide(&x.forward()).inverse() == quotient);
        }
    }

    #[test]
    fn congruent_quotients_are_exact_modulo_t_and_near() {
        let ring = ring();
        for t in [2, 65_537, 1 << 20, (1 << 40) + 15] {
            let rounding = Rounding::Congruent(Modulus::new(t).unwrap());
            for division in [Division::by_last(&ring, 3, rounding), Division::by_special(&ring, 2, rounding)] {
                let x = random(&ring, division.from);
                let (d, t) = (divisor(&ring, division.from, division.to), BigInt::from(t));
                let quotient = division.divide_coefficients(&x);
                for (x, y) in coefficients(&x).iter().zip(coefficients(&quotient)) {
                    let error: BigInt = x - &y * &d;
                    assert_eq!((&error % &t).sign(), Sign::NoSign, "not congruent modulo {t}");
                    let (twice, most): (BigInt, BigInt) = (error * 2, &d * (&t + 1));
                    assert!(twice.magnitude() <= most.magnitude(), "off by more than (1 + t)/2");
                }
                assert!(division.divide(&x.forward()).inverse() == quotient);
            }
        }
    }
}
