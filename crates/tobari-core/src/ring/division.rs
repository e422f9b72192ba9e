//! Division by primes of the basis, rounding.
//!
//! Let `D` be the product of the primes that go, and `r` the centred residue of `x` modulo `D`. Then `x - δ` is divisible by
//! `D` for every `δ ≡ r (mod D)`, and over the primes that stay `(x - δ)/D` is `(x - δ) D^-1`. Two choices of `δ`
//! ([`Rounding`]):
//!
//! * `δ = r`: the quotient is `⌊x/D⌉`, off by at most 1/2;
//! * `δ = r + D k` with `k = [-r D^-1]_t`, centred: `δ ≡ 0 (mod t)`, so the quotient is `x D^-1` modulo `t`, and off by at most
//!   `(1 + t)/2`. So BGV keeps its messages, times a known factor.
//!
//! Of an element in the form of values only the rows that go are transformed back, and `δ` forward again.

use super::Ring;
use super::conversion::Conversion;
use super::modulus::{Factor, Modulus};
use super::poly::{Basis, Coeff, Eval, Poly};
use std::sync::Arc;

/// How a quotient is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest.
    Nearest,
    /// To a near one that is congruent to the exact quotient modulo this number, which must be prime to what is divided by.
    Congruent(Modulus),
}

/// Division by some primes of a ring, prepared.
#[derive(Clone, Debug)]
pub struct Division {
    ring: Arc<Ring>,
    /// Before and after.
    from: Basis,
    to: Basis,
    conversion: Conversion,
    congruent: Option<Congruent>,
    /// `D^-1` by row.
    inverses: Vec<Factor>,
}

/// What the second choice of `δ` needs.
#[derive(Clone, Debug)]
struct Congruent {
    t: Modulus,
    /// `-D^-1 mod t`.
    negated_inverse: Factor,
    /// `D` by row.
    divisors: Vec<Factor>,
}

impl Division {
    /// By the last data prime of an element over the first `data` data primes.
    ///
    /// # Panics
    /// If there are fewer than two, or the modulus of the rounding is not prime to it.
    pub fn by_last(ring: &Arc<Ring>, data: usize, rounding: Rounding) -> Self {
        assert!(data >= 2, "the last prime stays");
        Self::new(ring, ring.basis(data), ring.basis(data - 1), rounding)
    }

    /// By all special primes of an element over the first `data` data primes and them.
    ///
    /// # Panics
    /// If the ring has none, or the modulus of the rounding is not prime to them.
    pub fn by_special(ring: &Arc<Ring>, data: usize, rounding: Rounding) -> Self {
        Self::new(ring, ring.key_basis(data), ring.basis(data), rounding)
    }

    fn new(ring: &Arc<Ring>, from: Basis, to: Basis, rounding: Rounding) -> Self {
        let moduli: Vec<Modulus> = ring.tables(from).map(|table| *table.modulus()).collect();
        let (stay, go) = moduli.split_at(to.rows());
        let divisor = |q: &Modulus| go.iter().fold(1 % q.value(), |d, other| q.mul(d, q.reduce(other.value())));
        let inverse = |q: &Modulus| match q.inverse(divisor(q)) {
            Some(inverse) => inverse,
            None => panic!("{} is not prime to the divisor", q.value()),
        };
        let (congruent, target) = match rounding {
            Rounding::Nearest => (None, stay.to_vec()),
            Rounding::Congruent(t) => {
                let negated_inverse = t.factor(t.neg(inverse(&t)));
                let divisors = stay.iter().map(|q| q.factor(divisor(q))).collect();
                (Some(Congruent { t, negated_inverse, divisors }), [stay, &[t]].concat())
            }
        };
        Self {
            ring: Arc::clone(ring),
            from,
            to,
            conversion: Conversion::new(go, &target),
            congruent,
            inverses: stay.iter().map(|q| q.factor(inverse(q))).collect(),
        }
    }

    /// The quotient, of values.
    ///
    /// # Panics
    /// If the element is of another ring or basis.
    pub fn divide(&self, mut dividend: Poly<Eval>) -> Poly<Eval> {
        self.check(dividend.basis(), dividend.ring());
        let stay = self.to.rows();
        for row in stay..self.from.rows() {
            self.ring.table(self.from, row).inverse(dividend.row_mut(row));
        }
        let correction = self.correction(&dividend.values()[stay * self.ring.degree()..]).forward();
        self.finish(dividend, &correction)
    }

    /// The quotient, of coefficients.
    ///
    /// # Panics
    /// If the element is of another ring or basis.
    pub fn divide_coefficients(&self, dividend: Poly<Coeff>) -> Poly<Coeff> {
        self.check(dividend.basis(), dividend.ring());
        let correction = self.correction(&dividend.values()[self.to.rows() * self.ring.degree()..]);
        self.finish(dividend, &correction)
    }

    fn check(&self, basis: Basis, ring: &Arc<Ring>) {
        assert!(Arc::ptr_eq(&self.ring, ring), "an element of another ring");
        assert_eq!(self.from, basis, "an element over another basis");
    }

    /// `δ`, from the coefficients modulo the primes that go.
    fn correction(&self, go: &[u64]) -> Poly<Coeff> {
        let degree = self.ring.degree();
        let mut values = vec![0; self.conversion.targets() * degree];
        let rows: Vec<&[u64]> = go.chunks_exact(degree).collect();
        let mut out: Vec<&mut [u64]> = values.chunks_exact_mut(degree).collect();
        self.conversion.apply(&rows, &mut out);
        if let (Some(congruent), Some((r, out))) = (&self.congruent, out.split_last_mut()) {
            congruent.correct(&self.ring, self.to, r, out);
        }
        values.truncate(self.to.rows() * degree);
        Poly::from_values(&self.ring, self.to, values)
    }

    fn finish<F: super::Form>(&self, mut dividend: Poly<F>, correction: &Poly<F>) -> Poly<F> {
        dividend.truncate(self.to);
        dividend.sub_scale_rows(correction, |row, _| self.inverses[row]);
        dividend
    }
}

impl Congruent {
    /// Adds `D k` to the rows, given `r mod t`.
    fn correct(&self, ring: &Ring, basis: Basis, r: &[u64], rows: &mut [&mut [u64]]) {
        for (place, r) in r.iter().enumerate() {
            let k = self.t.centred(self.t.mul_factor(*r, self.negated_inverse));
            for ((table, row), divisor) in ring.tables(basis).zip(rows.iter_mut()).zip(&self.divisors) {
                let q = table.modulus();
                row[place] = q.add(row[place], q.mul_factor(q.reduce_signed(k), *divisor));
            }
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
            let quotient = division.divide_coefficients(x.clone());
            for (x, y) in coefficients(&x).iter().zip(coefficients(&quotient)) {
                let error: BigInt = x * 2 - y * &d * 2;
                assert!(error.magnitude() <= d.magnitude(), "off by more than a half");
            }
            assert!(division.divide(x.forward()).inverse() == quotient);
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
                let quotient = division.divide_coefficients(x.clone());
                for (x, y) in coefficients(&x).iter().zip(coefficients(&quotient)) {
                    let error: BigInt = x - &y * &d;
                    assert_eq!((&error % &t).sign(), Sign::NoSign, "not congruent modulo {t}");
                    let (twice, most): (BigInt, BigInt) = (error * 2, &d * (&t + 1));
                    assert!(twice.magnitude() <= most.magnitude(), "off by more than (1 + t)/2");
                }
                assert!(division.divide(x.forward()).inverse() == quotient);
            }
        }
    }
}
