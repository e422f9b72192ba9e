//! Polynomials of ciphertexts.

use super::ciphertext::Ciphertext;
use super::evaluate::{EvaluateError, Evaluator};
use super::keys::EvaluationKeys;

impl Evaluator {
    /// `Σ coefficients[i] x^i` in every slot, by Paterson's and Stockmeyer's method (SIAM J.
    /// Comput. 2(1), 1973): with `n` coefficients, about `2 √n + log n` products. Every product is
    /// followed by a modulus switch while there is a prime to spare; the levels used are `⌈log2 n⌉`
    /// or one more.
    ///
    /// # Errors
    /// As [`Evaluator::mul`], or [`EvaluateError::Empty`] if there are no coefficients.
    pub fn polynomial(
        &self,
        x: &Ciphertext,
        coefficients: &[i64],
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, EvaluateError> {
        if coefficients.is_empty() {
            return Err(EvaluateError::Empty { expected: "a coefficient" });
        }
        let baby = ((coefficients.len() as f64).sqrt().ceil() as usize).next_power_of_two();
        let powers = self.powers(x, baby.min(coefficients.len()), keys)?;
        let mut giants = Vec::new();
        if coefficients.len() > baby {
            giants.push(powers[baby - 1].clone());
            while baby << giants.len() < coefficients.len() {
                let last = &giants[giants.len() - 1];
                giants.push(self.product(last, last, keys)?);
            }
        }
        self.split(coefficients, baby, &powers, &giants, keys)
    }

    /// `x, x², … x^count`, each as the product of two halves, for the least depth.
    fn powers(&self, x: &Ciphertext, count: usize, keys: &EvaluationKeys) -> Result<Vec<Ciphertext>, EvaluateError> {
        let mut powers = vec![x.clone()];
        for exponent in 2..=count {
            let half = exponent / 2;
            powers.push(self.product(&powers[half - 1], &powers[exponent - half - 1], keys)?);
        }
        Ok(powers)
    }

    /// `giants[j]` is `x^(baby 2^j)`.
    fn split(
        &self,
        coefficients: &[i64],
        baby: usize,
        powers: &[Ciphertext],
        giants: &[Ciphertext],
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, EvaluateError> {
        let Some(giant) = (0..giants.len()).rev().find(|j| baby << j < coefficients.len()) else {
            return self.combination(coefficients, powers);
        };
        let (low, high) = coefficients.split_at(baby << giant);
        let high = self.split(high, baby, powers, giants, keys)?;
        let product = self.product(&high, &giants[giant], keys)?;
        self.add(&product, &self.split(low, baby, powers, giants, keys)?)
    }

    /// `Σ coefficients[i] x^i` for at most one coefficient more than there are powers.
    fn combination(&self, coefficients: &[i64], powers: &[Ciphertext]) -> Result<Ciphertext, EvaluateError> {
        let mut sum = self.mul_integer(&powers[0], coefficients.get(1).copied().unwrap_or(0))?;
        for (coefficient, power) in coefficients.iter().skip(2).zip(&powers[1..]) {
            sum = self.add(&sum, &self.mul_integer(power, *coefficient)?)?;
        }
        self.add_constant(&sum, coefficients[0])
    }

    fn product(&self, a: &Ciphertext, b: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        let product = self.mul(a, b, keys)?;
        let level = (product.level() - 1).max(1);
        self.to_level(&product, level)
    }
}
