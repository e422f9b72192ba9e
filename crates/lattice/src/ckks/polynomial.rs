//! Polynomials of ciphertexts, in the least depth.
//!
//! With `h` the largest power of two not above the degree, `p = p_1 x^h + p_0`, and so on for both
//! halves: degree `d` takes `⌈log2(d + 1)⌉` levels, as few as possible (Paterson, Stockmeyer, SIAM
//! J. Comput. 1973, with giant steps by powers of two). A part of degree below 4 that has a level
//! to spare is a sum of powers times constants, without further products of ciphertexts: 8 products
//! for degree 15 and 13 for degree 31, while splitting to the end takes 10 and 19.
//!
//! **Scales are exact.** Every part is computed for a given level and scale; the whole has the
//! scale of `x`. Let `q` be the prime of the last rescaling. For a sum of powers at scale `Δ'`, the
//! constant of `x^k` is encoded at `q Δ'` over the scale of `x^k`. For `p_1 x^h + p_0`, `p_1` is
//! computed at `q Δ'` over the scale of `x^h`, and `p_0` at `Δ'`. So all terms have the scale
//! `q Δ'` or `Δ'` exactly. The constants absorb the differences between primes, at no cost.

use super::OperationError;
use super::ciphertext::Ciphertext;
use super::evaluator::Evaluator;
use super::keys::EvaluationKeys;
use super::scale::Scale;
use std::collections::BTreeMap;

/// The most coefficients: degree 31.
const MOST: usize = 32;

/// Sums of powers have a degree below this.
const BABY: usize = 4;

impl Evaluator {
    /// `c_0 + c_1 x + c_2 x² …` in every slot, at the scale of `x` and `⌈log2(d + 1)⌉` levels below
    /// it, `d` the degree. The primes should be about as large as the scale, and the values of
    /// powers of `x` not much larger than 1.
    ///
    /// # Errors
    /// [`OperationError`] if there are no coefficients or more than 32, too few levels, no key, or
    /// parameters differ.
    pub fn polynomial(
        &self,
        x: &Ciphertext,
        coefficients: &[f64],
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        if !(1..=MOST).contains(&coefficients.len()) {
            return Err(OperationError::Coefficients { most: MOST, found: coefficients.len() });
        }
        let depth = log2_up(degree(coefficients) + 1);
        self.check_level(x, depth + 1)?;
        let mut powers = Powers { evaluator: self, keys, known: BTreeMap::from([(1, x.clone())]) };
        powers.evaluate(coefficients, x.level() - depth, x.scale())
    }

    /// `x^exponent` in every slot by [`Self::mul_reduced`], with `⌈log2 exponent⌉` products that
    /// follow each other.
    ///
    /// # Errors
    /// [`OperationError`] for an exponent of 0, too few levels, no key, or other parameters.
    pub fn power(&self, x: &Ciphertext, exponent: u32, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        if exponent == 0 {
            return Err(OperationError::Exponent);
        }
        self.check_level(x, log2_up(exponent as usize) + 1)?;
        self.power_of(exponent, &mut BTreeMap::from([(1, x.clone())]), keys)
    }

    /// Computes `x^exponent` from powers that were computed before, which `known` has.
    fn power_of(
        &self,
        exponent: u32,
        known: &mut BTreeMap<u32, Ciphertext>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        if let Some(power) = known.get(&exponent) {
            return Ok(power.clone());
        }
        // the largest power of two below, so that no branch is deeper
        let left = exponent.div_ceil(2).next_power_of_two();
        let [a, b] = [self.power_of(left, known, keys)?, self.power_of(exponent - left, known, keys)?];
        let product = self.mul_reduced(&a, &b, keys)?;
        known.insert(exponent, product.clone());
        Ok(product)
    }
}

/// The degree; 0 for the zero polynomial.
fn degree(coefficients: &[f64]) -> usize {
    coefficients.iter().rposition(|c| *c != 0.0).unwrap_or(0)
}

/// `⌈log2⌉`.
fn log2_up(value: usize) -> usize {
    value.next_power_of_two().trailing_zeros() as usize
}

/// Powers of a ciphertext, computed when needed: `x^k` is `⌈log2 k⌉` levels below `x`.
struct Powers<'a> {
    evaluator: &'a Evaluator,
    keys: &'a EvaluationKeys,
    known: BTreeMap<usize, Ciphertext>,
}

impl Powers<'_> {
    /// `x^k` at a level that it reaches.
    fn power(&mut self, k: usize, level: usize) -> Result<Ciphertext, OperationError> {
        if !self.known.contains_key(&k) {
            let left = k.next_power_of_two() / 2;
            // the left factor is the deeper one
            let deepest = self.top() - log2_up(left);
            let [a, b] = [self.power(left, deepest)?, self.power(k - left, deepest)?];
            let product = self.evaluator.rescale(&self.evaluator.mul(&a, &b, self.keys)?)?;
            self.known.insert(k, product);
        }
        self.evaluator.to_level(&self.known[&k], level)
    }

    fn top(&self) -> usize {
        self.known[&1].level()
    }

    /// `p` at this level and scale.
    fn evaluate(&mut self, p: &[f64], level: usize, scale: &Scale) -> Result<Ciphertext, OperationError> {
        let degree = degree(p);
        if degree == 0 {
            let zero = self.evaluator.mul_integer(&self.power(1, level)?, 0)?;
            let factor = scale.to_f64(self.evaluator.parameters()).unwrap_or(f64::NAN);
            let estimate = zero.estimate().map(|estimate| estimate.at(factor, level));
            let zero = Ciphertext::new(zero.into_inner(), scale.clone(), estimate);
            return self.evaluator.add_constant(&zero, p[0]);
        }
        let spare = self.top() - level - 1;
        let reached = |(k, c): (usize, &f64)| *c == 0.0 || log2_up(k) <= spare;
        if degree < BABY && p.iter().enumerate().skip(1).all(reached) {
            return self.sum(&p[..=degree], level, scale);
        }
        let h = (degree + 1).next_power_of_two() / 2;
        let (low, high) = p[..=degree].split_at(h);
        let power = self.power(h, level + 1)?;
        let factor = self.factor(&power, level, scale)?;
        let product = if high.len() == 1 {
            self.evaluator.mul_constant_at(&power, high[0], &factor)?
        } else {
            let high = self.evaluate(high, level + 1, &factor)?;
            self.evaluator.mul(&high, &power, self.keys)?
        };
        let product = self.evaluator.rescale(&product)?;
        if low.iter().skip(1).all(|c| *c == 0.0) {
            return self.evaluator.add_constant(&product, low[0]);
        }
        self.evaluator.add(&product, &self.evaluate(low, level, scale)?)
    }

    /// `Σ c_k x^k`, with each power a level above the result.
    fn sum(&mut self, p: &[f64], level: usize, scale: &Scale) -> Result<Ciphertext, OperationError> {
        let mut sum: Option<Ciphertext> = None;
        for (k, c) in p.iter().enumerate().skip(1).filter(|(_, c)| **c != 0.0) {
            let power = self.power(k, level + 1)?;
            let term = self.evaluator.mul_constant_at(&power, *c, &self.factor(&power, level, scale)?)?;
            match &mut sum {
                Some(sum) => self.evaluator.add_assign(sum, &term)?,
                None => sum = Some(term),
            }
        }
        let sum = sum.ok_or(OperationError::Coefficients { most: MOST, found: 0 })?;
        self.evaluator.add_constant(&self.evaluator.rescale(&sum)?, p[0])
    }

    /// The scale of the other factor, so that a product with this ciphertext has `scale` after a
    /// rescaling to `level`.
    fn factor(&self, power: &Ciphertext, level: usize, scale: &Scale) -> Result<Scale, OperationError> {
        let product = scale.product(&Scale::prime(level));
        product.and_then(|product| product.quotient(power.scale())).ok_or(OperationError::NoRoom { level })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Bench;
    use super::*;

    fn plain(coefficients: &[f64], x: f64) -> f64 {
        coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
    }

    #[test]
    fn polynomials_of_every_degree_take_their_depth_and_keep_the_scale() {
        let mut bench = Bench::new(&[50, 40, 40, 40, 40, 40]);
        let x: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) / 16.0).collect();
        let ciphertext = bench.encrypt(&x, 40, 6);
        for degree in 0..32usize {
            let coefficients: Vec<f64> = (0..=degree).map(|k| ((k * 7 + 3) % 11) as f64 / 5.0 - 1.0).collect();
            let found = bench.evaluator.polynomial(&ciphertext, &coefficients, &bench.keys).unwrap();
            assert_eq!(found.level(), 6 - log2_up(super::degree(&coefficients) + 1), "degree {degree}");
            assert_eq!(found.scale(), ciphertext.scale());
            let expected: Vec<f64> = x.iter().map(|x| plain(&coefficients, *x)).collect();
            let error = bench.error(&found, &expected);
            assert!(error < 2f64.powi(-18), "degree {degree}: {error:e}");
        }
    }

    #[test]
    fn powers_take_their_depth() {
        let mut bench = Bench::new(&[50, 40, 40, 40, 40, 40]);
        let x: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) / 16.0).collect();
        let ciphertext = bench.encrypt(&x, 40, 6);
        for exponent in [1u32, 2, 3, 4, 5, 6, 7, 8, 13, 16, 31, 32] {
            let found = bench.evaluator.power(&ciphertext, exponent, &bench.keys).unwrap();
            assert_eq!(found.level(), 6 - log2_up(exponent as usize), "{exponent}");
            let expected: Vec<f64> = x.iter().map(|x| x.powi(exponent as i32)).collect();
            let error = bench.error(&found, &expected);
            assert!(error < 2f64.powi(-18), "{exponent}: {error:e}");
        }
        // a scale of two primes falls back after every product
        let wide = bench.encrypt(&x, 60, 6);
        let cube = bench.evaluator.power(&wide, 3, &bench.keys).unwrap();
        assert_eq!(
            (cube.level(), cube.scale().to_f64(bench.evaluator.parameters()).unwrap().log2().round()),
            (3, 60.0)
        );
        let cubes: Vec<f64> = x.iter().map(|x| x.powi(3)).collect();
        assert!(bench.error(&cube, &cubes) < 2f64.powi(-40));
        let refused = |exponent| bench.evaluator.power(&ciphertext, exponent, &bench.keys).map(|_| ()).unwrap_err();
        assert_eq!(refused(0), OperationError::Exponent);
        assert_eq!(refused(33), OperationError::Exhausted { least: 7, found: 6 });
        assert_eq!(refused(u32::MAX), OperationError::Exhausted { least: 33, found: 6 });
    }

    #[test]
    fn sparse_polynomials_and_other_scales() {
        let mut bench = Bench::new(&[50, 35, 35, 35, 35]);
        let x: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) / 16.0).collect();
        let fresh = bench.encrypt(&x, 35, 5);
        // a scale that is no power of two
        let once = bench.evaluator.rescale(&bench.evaluator.mul(&fresh, &fresh, &bench.keys).unwrap()).unwrap();
        let squares: Vec<f64> = x.iter().map(|x| x * x).collect();
        for coefficients in [
            vec![0.0, 0.0, 1.0],
            vec![0.5, 0.0, 0.0, 0.0, -2.0],
            vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            vec![0.0, 1.0, 0.0, 0.0, 0.25, 0.0],
            vec![3.0, 0.0, 0.0],
            vec![0.0],
        ] {
            for (ciphertext, x) in [(&fresh, &x), (&once, &squares)] {
                let found = bench.evaluator.polynomial(ciphertext, &coefficients, &bench.keys).unwrap();
                let expected: Vec<f64> = x.iter().map(|x| plain(&coefficients, *x)).collect();
                assert_eq!(found.scale(), ciphertext.scale());
                let error = bench.error(&found, &expected);
                assert!(error < 2f64.powi(-14), "{coefficients:?}: {error:e}");
            }
        }
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused() {
        let mut bench = Bench::new(&[50, 40, 40]);
        let x = bench.encrypt(&[0.5], 40, 3);
        let error = |coefficients: &[f64], keys: &EvaluationKeys| {
            bench.evaluator.polynomial(&x, coefficients, keys).map(|_| ()).unwrap_err()
        };
        for found in [0, 33] {
            assert_eq!(error(&vec![1.0; found], &bench.keys), OperationError::Coefficients { most: 32, found });
        }
        assert_eq!(error(&[1.0; 5], &bench.keys), OperationError::Exhausted { least: 4, found: 3 });
        let none = EvaluationKeys::new(bench.evaluator.parameters());
        assert!(matches!(error(&[1.0; 4], &none), OperationError::MissingKey { .. }));
        assert!(matches!(error(&[f64::NAN, 1.0], &bench.keys), OperationError::Encode(_)));
        assert!(matches!(error(&[0.0, f64::NAN], &bench.keys), OperationError::Encode(_)));
    }
}
