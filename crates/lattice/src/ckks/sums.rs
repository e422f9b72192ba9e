//! Many sums at once: small integers times ciphertexts, and ciphertexts times ciphertexts.
//!
//! If each slot of a ciphertext belongs to another record, a linear layer is a matrix of numbers
//! times a vector of ciphertexts: no slot moves, and no number is encoded. Weights are integers of
//! at most sixteen bits and cost one multiply-add a residue. Their products need no rescaling,
//! because the scale grows only by the weights' fractional bits.

use super::OperationError;
use super::ciphertext::Ciphertext;
use super::evaluator::{Evaluator, check_scales};
use super::precision::Estimate;
use super::scale::Scale;
use crate::ring::{Eval, Poly, ProductSums, WeightMatrix};
use crate::rlwe;

impl Evaluator {
    /// `2^-bits Σ_i w_ji x_i` for each row `j` of a matrix: the scale is that of the inputs times
    /// `2^bits`.
    ///
    /// # Errors
    /// [`OperationError`] if parameters, levels, scales or numbers of parts differ, the sums may
    /// not fit, or the number of inputs differs from that of the weights in a row.
    pub fn weighted_sums(
        &self,
        matrix: &WeightMatrix,
        bits: u32,
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, OperationError> {
        if inputs.len() != matrix.inputs() {
            return Err(OperationError::Inputs { expected: matrix.inputs(), found: inputs.len() });
        }
        let Some(first) = inputs.first() else { return Err(OperationError::Empty) };
        self.check_all_alike(first, inputs)?;
        let key = self.check_key(inputs.iter().copied())?;
        let scale = self.product(first.scale(), &Scale::power_of_two(bits), first.level())?;
        let factor = scale.to_f64(self.parameters()).unwrap_or(f64::NAN);
        let estimates = inputs.iter().map(|input| self.bounds(input)).collect::<Result<Vec<_>, _>>()?;
        let unit = 0.5f64.powi(bits as i32);
        let sums = (0..matrix.outputs()).map(|row| {
            let terms =
                matrix.row(row).zip(&estimates).map(|(weight, estimate)| estimate.times(f64::from(weight) * unit));
            let sum = terms.reduce(|sum, term| self.estimator().add(&sum, &term)).ok_or(OperationError::Empty)?;
            self.admit(sum.at(factor, first.level()))
        });
        let estimates = sums.collect::<Result<Vec<Estimate>, OperationError>>()?;
        let parts = (0..first.inner().parts().len()).map(|part| {
            let inputs: Vec<&Poly<Eval>> = inputs.iter().map(|input| &input.inner().parts()[part]).collect();
            Poly::weighted_sums(matrix, &inputs).into_iter()
        });
        let mut parts: Vec<_> = parts.collect();
        let sums = estimates.into_iter().map(|estimate| {
            let parts = parts.iter_mut().filter_map(Iterator::next).collect();
            self.of_parts(key, parts, &scale, estimate)
        });
        Ok(sums.collect())
    }

    /// `Σ x w` for each of these sums, in three parts, one sum after the other. It equals
    /// [`Self::tensor`] and [`Self::add`], but reads each weight once for all sums that share it.
    ///
    /// # Errors
    /// [`OperationError`] if parameters or levels differ, scales differ among the inputs or among
    /// the weights, a ciphertext has three parts, a sum is not one of these inputs and weights
    /// ([`ProductSums::fits`]) or may be too large, or there is no input or no weight.
    pub fn tensor_sums(
        &self,
        sums: &[ProductSums],
        inputs: &[&Ciphertext],
        weights: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, OperationError> {
        let (Some(x), Some(w)) = (inputs.first(), weights.first()) else { return Err(OperationError::Empty) };
        if !sums.iter().all(|sum| sum.fits(inputs.len(), weights.len())) {
            return Err(OperationError::Sums { inputs: inputs.len(), weights: weights.len() });
        }
        self.check_all_alike(x, inputs)?;
        self.check_all_alike(w, weights)?;
        self.check_levels(x, w)?;
        let key = self.check_key(inputs.iter().chain(weights).copied())?;
        if x.needs_relinearization() || w.needs_relinearization() {
            return Err(OperationError::ThreeParts);
        }
        let scale = self.product(x.scale(), w.scale(), x.level())?;
        let mut estimates = Vec::new();
        for sum in sums {
            for places in &sum.inputs {
                let terms = places.iter().zip(&sum.weights).map(|(x, w)| {
                    self.product_of(&self.bounds(inputs[*x as usize])?, &self.bounds(weights[*w as usize])?, &scale)
                });
                let terms = terms.collect::<Result<Vec<_>, OperationError>>()?.into_iter();
                let sum = terms.reduce(|sum, term| self.estimator().add(&sum, &term)).ok_or(OperationError::Empty)?;
                estimates.push(self.admit(sum)?);
            }
        }
        let [inputs, weights] =
            [inputs, weights].map(|all| all.iter().map(|one| both(one.inner())).collect::<Vec<_>>());
        let sums = Poly::tensor_sums(sums, &inputs, &weights).into_iter().zip(estimates);
        Ok(sums.map(|(parts, estimate)| self.of_parts(key, parts.into(), &scale, estimate)).collect())
    }

    /// Checks that all have the evaluator's parameters, and the level, scale and number of parts of
    /// the first.
    fn check_all_alike(&self, first: &Ciphertext, all: &[&Ciphertext]) -> Result<(), OperationError> {
        for other in all {
            self.check_levels(first, other)?;
            check_scales(first.scale(), other.scale())?;
            if first.needs_relinearization() != other.needs_relinearization() {
                return Err(OperationError::ThreeParts);
            }
        }
        Ok(())
    }
}

fn both(ciphertext: &rlwe::Ciphertext) -> [&Poly<Eval>; 2] {
    let parts = ciphertext.parts();
    [&parts[0], &parts[1]]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::ckks::{Decryptor, Encoder, EvaluationKeys};
    use crate::params::NamedSet;
    use crate::rlwe::SecretKey;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    #[test]
    fn sums_with_integers_and_with_ciphertexts_are_those_of_the_messages() {
        let parameters = NamedSet::from_name("infer-f").unwrap().parameters().unwrap();
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let (evaluator, encoder) = (Evaluator::new(&parameters).unwrap(), Encoder::new(&parameters).unwrap());
        let mut keys = EvaluationKeys::new(&parameters);
        keys.add_relinearization(&secret, 3, &mut rng).unwrap();
        let mut encrypt = |value: f64, level: usize| {
            let scale = Scale::power_of_two(26);
            let plain = encoder.encode(&[value, -value], &scale, level).unwrap();
            plain.encrypt_seeded(&secret, &mut rng).unwrap().expand()
        };
        let xs: Vec<Ciphertext> = (0..5).map(|i| encrypt(0.2 * f64::from(i) - 0.3, 3)).collect();
        let ws: Vec<Ciphertext> = (0..3).map(|i| encrypt(0.4 - 0.3 * f64::from(i), 3)).collect();
        let [xs_of, ws_of] = [&xs, &ws].map(|all| all.iter().collect::<Vec<&Ciphertext>>());
        let decryptor = Decryptor::new(&secret, &encoder).unwrap();

        let weights: Vec<i32> = (0..10).map(|i| 3_000 * i - 12_000).collect();
        let sums = evaluator.weighted_sums(&WeightMatrix::new(5, &weights).unwrap(), 14, &xs_of).unwrap();
        for (sum, weights) in sums.iter().zip(weights.chunks(5)) {
            let terms = weights.iter().zip(0..).map(|(w, i)| f64::from(*w) / 16_384.0 * (0.2 * f64::from(i) - 0.3));
            let (found, expected) = (decryptor.decrypt(sum).unwrap(), terms.sum::<f64>());
            assert!((found[0] - expected).abs() < 1e-3 && (found[1] + expected).abs() < 1e-3, "{expected}");
        }

        let list = [ProductSums { weights: vec![0, 2], inputs: vec![vec![4, 0], vec![1, 1]] }];
        let sums = evaluator.tensor_sums(&list, &xs_of, &ws_of).unwrap();
        for (sum, expected) in sums.iter().zip([0.4 * 0.5 + 0.2 * 0.3, 0.4 * -0.1 + 0.2 * 0.1]) {
            let product = evaluator.rescale(&evaluator.relinearize(sum, &keys).unwrap()).unwrap();
            let found = decryptor.decrypt(&product).unwrap();
            // the sign of a product is that of both slots
            assert!(
                (found[0] - expected).abs() < 1e-3 && (found[1] - expected).abs() < 1e-3,
                "{} {expected}",
                found[0]
            );
        }

        let low = encrypt(0.1, 2);
        let matrix = WeightMatrix::new(2, &[1, 1]).unwrap();
        assert!(evaluator.weighted_sums(&matrix, 14, &[&xs[0], &low]).is_err());
        assert!(evaluator.weighted_sums(&matrix, 14, &[&xs[0], &evaluator.tensor(&xs[0], &xs[0]).unwrap()]).is_err());
        assert!(evaluator.tensor_sums(&list, &xs_of, &[&low, &low, &low]).is_err());
    }
}
