//! Sums of products with plaintexts.

use super::ciphertext::Ciphertext;
use super::encode::PreparedPlaintext;
use super::evaluate::{EvaluateError, Evaluator};
use crate::ring::Poly;
use crate::rlwe::{self, norms};

impl Evaluator {
    /// `Σ a m`. It reads every ciphertext and every plaintext once, and writes the sum once.
    ///
    /// # Errors
    /// As [`Self::mul_prepared`], or [`EvaluateError::Empty`] if there is no pair.
    pub fn dot_prepared(&self, pairs: &[(&Ciphertext, &PreparedPlaintext)]) -> Result<Ciphertext, EvaluateError> {
        let Some((&(first, plaintext), others)) = pairs.split_first() else {
            return Err(EvaluateError::Empty { expected: "a product to sum up" });
        };
        let alike = |(a, m): &(&Ciphertext, &PreparedPlaintext)| {
            let parts = a.needs_relinearization() == first.needs_relinearization();
            parts && a.level() == first.level() && a.factor == first.factor && a.level() <= m.level()
        };
        let ours =
            |(a, m): &(&Ciphertext, &PreparedPlaintext)| self.check(a).is_ok() && m.parameters == *self.parameters();
        let one_key = self.check_key(pairs.iter().map(|(a, _)| *a)).is_ok();
        if !one_key || !pairs.iter().all(|pair| ours(pair) && alike(pair)) {
            let mut sum = self.mul_prepared(first, plaintext)?;
            for (a, m) in others {
                self.add_assign(&mut sum, &self.mul_prepared(a, m)?)?;
            }
            return Ok(sum);
        }
        let elements: Vec<_> = pairs.iter().map(|(a, m)| (&a.inner, &m.element)).collect();
        let norms = others.iter().fold(first.norm + plaintext.norm, |sum, (a, m)| norms::sum([sum, a.norm + m.norm]));
        Ok(Ciphertext::new(rlwe::Ciphertext::inner_product(&elements), first.factor, norms))
    }

    /// `sum += Σ a m`, likewise.
    ///
    /// # Errors
    /// As [`Self::mul_prepared`]; then the sum is unchanged.
    pub fn add_products(
        &self,
        sum: &mut Ciphertext,
        pairs: &[(&Ciphertext, &PreparedPlaintext)],
    ) -> Result<(), EvaluateError> {
        self.check(sum)?;
        pairs.iter().try_for_each(|(a, m)| self.check_prepared(a, m))?;
        self.check_key([&*sum].into_iter().chain(pairs.iter().map(|(a, _)| *a)))?;
        let alike = |a: &Ciphertext| {
            let parts = !a.needs_relinearization() && !sum.needs_relinearization();
            parts && a.level() == sum.level() && a.factor == sum.factor
        };
        if !pairs.iter().all(|(a, _)| alike(a)) {
            return pairs.iter().try_for_each(|(a, m)| self.add_assign(sum, &self.mul_prepared(a, m)?));
        }
        let elements: Vec<_> = pairs.iter().map(|(a, m)| (&a.inner, &m.element)).collect();
        sum.inner.add_inner_product(&elements);
        sum.set_norm(pairs.iter().fold(sum.norm, |sum, (a, m)| norms::sum([sum, a.norm + m.norm])));
        Ok(())
    }

    /// Zero, without any randomness, with the factor 1: the start of a sum.
    ///
    /// # Errors
    /// [`EvaluateError::Level`] for a level that does not exist.
    pub fn zero(&self, level: usize) -> Result<Ciphertext, EvaluateError> {
        let (ring, present) = (self.parameters().ring(), self.parameters().data_primes());
        if !(1..=present).contains(&level) {
            return Err(EvaluateError::Level { present, wanted: level });
        }
        let parts = (0..2).map(|_| Poly::zero(ring, ring.basis(level))).collect();
        Ok(Ciphertext::new(rlwe::Ciphertext::new(self.parameters(), None, parts), 1, 0.0))
    }
}
