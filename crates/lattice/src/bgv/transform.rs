//! Linear maps of the slots: sums of products with plaintexts and rotations, by baby steps and
//! giant steps, hoisted twice. The module [`crate::rlwe`] has the method; this module adds
//! plaintexts and noise.

use super::ciphertext::Ciphertext;
use super::encode::{EncodeError, Encoder};
use super::evaluate::{EvaluateError, Evaluator};
use super::keys::EvaluationKeys;
use crate::params::LatticeParameters;
use crate::ring::{Coeff, Poly};
use crate::rlwe::{self, LinearMap, Schedule, norms};
use std::collections::BTreeMap;

/// A prepared matrix for each row of the slots, by its diagonals: slot `j` of a row of the result
/// is `Σ_d m_d[j] x_(j+d)`. Slots of a row are counted modulo `N/2`, and `m_d` has the numbers of
/// both rows, the first row first.
///
/// ```
/// use rand_core::SeedableRng;
/// use std::collections::BTreeMap;
/// use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator, LinearTransform};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45, 45], &[50], 3, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let (encoder, evaluator, holder) = (Encoder::new(&parameters)?, Evaluator::new(&parameters)?, Decryptor::new(&secret)?);
/// // sums of five neighbours
/// let diagonals: BTreeMap<i64, Vec<i64>> = (0..5).map(|step| (step, vec![1; 8192])).collect();
/// let sums = LinearTransform::new(&parameters, &encoder, &diagonals, 3)?;
/// let mut keys = EvaluationKeys::new(&parameters);
/// for step in sums.rotations() {
///     keys = keys.with_rotation(&secret, step, 3, &mut rng)?;
/// }
/// let x = encoder.encode(&[1, 2, 3, 4, 5, 6])?.encrypt_seeded(&secret, 3, &mut rng)?.expand();
/// let y = evaluator.transform(&x, &sums, &keys)?;
/// assert_eq!(encoder.decode(&holder.decrypt(&y)?)?[..3], [15, 20, 18]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LinearTransform {
    parameters: LatticeParameters,
    map: LinearMap,
    level: usize,
    /// Logarithms of the norms of the plaintexts of each giant step, those with a baby step in the
    /// second.
    norms: BTreeMap<usize, [f64; 2]>,
}

impl LinearTransform {
    /// Prepares diagonals, given by steps, for ciphertexts of `level` and below. Steps may be
    /// negative. Each diagonal starts at slot 0 and is 0 beyond its end.
    ///
    /// # Errors
    /// [`EncodeError`] for a diagonal that is too long, an encoder of other parameters, or a level
    /// that does not exist.
    pub fn new(
        parameters: &LatticeParameters,
        encoder: &Encoder,
        diagonals: &BTreeMap<i64, Vec<i64>>,
        level: usize,
    ) -> Result<Self, EncodeError> {
        Self::new_with(parameters, encoder, diagonals, level, || Ok(()))
    }

    /// As [`Self::new`], for a caller that reports progress: it calls `each` before each diagonal,
    /// and ends with its error.
    ///
    /// # Errors
    /// As [`Self::new`], or the error of `each`.
    pub fn new_with<E: From<EncodeError>>(
        parameters: &LatticeParameters,
        encoder: &Encoder,
        diagonals: &BTreeMap<i64, Vec<i64>>,
        level: usize,
        mut each: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let (ring, slots, t) = (parameters.ring(), encoder.slots(), super::encode::modulus(parameters)?);
        if slots != parameters.degree() || *encoder.modulus() != t {
            return Err(EncodeError::OtherParameters { degree: parameters.degree(), t: t.value() }.into());
        }
        let most = parameters.data_primes();
        if !(1..=most).contains(&level) {
            return Err(EncodeError::Level { most, found: level }.into());
        }
        let mut all: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for (step, diagonal) in diagonals {
            if diagonal.len() > slots {
                return Err(EncodeError::Length { most: slots, found: diagonal.len() }.into());
            }
            // diagonals of steps that are equal modulo N/2 add up
            let sum = all.entry(step.rem_euclid(slots as i64 / 2) as usize).or_insert_with(|| vec![0; slots]);
            for (sum, value) in sum.iter_mut().zip(diagonal) {
                *sum = t.centred(t.add(t.reduce_signed(*sum), t.reduce_signed(*value)));
            }
        }
        let mut norms: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        let map = LinearMap::new(&all, slots / 2, |giant, baby, diagonal| {
            each()?;
            let mut turned = diagonal.clone();
            turned.chunks_exact_mut(slots / 2).for_each(|row| row.rotate_right(giant));
            let plaintext = encoder.encode(&turned)?;
            let norm = &mut norms.entry(giant).or_insert([f64::NEG_INFINITY; 2])[usize::from(baby != 0)];
            *norm = norms::sum([*norm, plaintext.norm().max(1.0).log2()]);
            Ok::<_, E>(Poly::<Coeff>::from_integers(ring, ring.key_basis(level), plaintext.coefficients()).forward())
        })?;
        Ok(Self { parameters: parameters.clone(), map, level, norms })
    }

    /// The steps of the rotations that need keys: about twice the root of the number of diagonals.
    pub fn rotations(&self) -> impl Iterator<Item = i64> {
        self.map.schedule().steps().map(|step| step as i64)
    }

    /// The steps of [`Self::rotations`] for a transform with diagonals of these steps, before its
    /// numbers are known.
    pub fn rotations_of(parameters: &LatticeParameters, diagonals: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let slots = parameters.degree() / 2;
        let diagonals = diagonals.into_iter().map(|step| step.rem_euclid(slots as i64) as usize).collect();
        Schedule::new(&diagonals, slots).steps().map(|step| step as i64).collect()
    }

    /// The highest level of its ciphertexts.
    pub fn level(&self) -> usize {
        self.level
    }
}

impl Evaluator {
    /// `M a`.
    ///
    /// # Errors
    /// As [`Self::rotate`], or [`EvaluateError::Level`] if the transform is for lower levels.
    pub fn transform(
        &self,
        a: &Ciphertext,
        transform: &LinearTransform,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        if transform.parameters != *a.parameters() {
            return Err(EvaluateError::Parameters);
        }
        self.check_special()?;
        let (level, degree) = (a.level(), self.parameters().degree());
        if level > transform.level {
            return Err(EvaluateError::Level { present: transform.level, wanted: level });
        }
        let [c0, c1] = a.inner().parts() else { return Err(EvaluateError::NotRelinearized) };
        let mut found = BTreeMap::new();
        for step in transform.map.schedule().steps() {
            found.insert(step, self.galois(rlwe::rotation(degree, step as i64), a, keys)?);
        }
        let parts = self.switcher().transform([c0, c1], &transform.map, |step| found[&step]);
        let switch = norms::switch(self.parameters(), level);
        let turned = norms::sum([a.norm, switch]);
        let norm = transform.norms.values().fold(switch, |total, [own, babies]| {
            norms::sum([total, norms::product(*own, a.norm), norms::product(*babies, turned), switch])
        });
        Ok(Ciphertext::new(rlwe::Ciphertext::new(self.parameters(), a.key(), parts.into()), a.factor(), norm))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Decryptor;
    use super::*;
    use crate::rlwe::SecretKey;
    use crate::rlwe::tests::{rng, toy};

    fn numbers(seed: i64) -> Vec<i64> {
        (0..64).map(|j| (j * 37 + seed * 101) % 257).collect()
    }

    #[test]
    fn transforms_are_products_with_their_matrices_at_every_level() {
        let parameters = toy(Some(257));
        let secret = SecretKey::generate(&parameters, &mut rng(1));
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let holder = Decryptor::new(&secret).unwrap();
        let x = numbers(0);
        for steps in [vec![0], vec![3], vec![-1, 0, 1, 33], (0..32).collect(), vec![1, 9, 17, 25], (5..19).collect()] {
            let diagonals: BTreeMap<i64, Vec<i64>> = steps.iter().map(|step| (*step, numbers(*step + 2))).collect();
            let transform = LinearTransform::new(&parameters, &encoder, &diagonals, 4).unwrap();
            let rotations = LinearTransform::rotations_of(&parameters, steps.iter().copied());
            assert_eq!(rotations, transform.rotations().collect::<Vec<_>>());
            let keys = transform.rotations().fold(EvaluationKeys::new(&parameters), |keys, step| {
                keys.with_rotation(&secret, step, 4, &mut rng(2)).unwrap()
            });
            let turned = |j: usize, step: i64| x[j / 32 * 32 + (j as i64 + step).rem_euclid(32) as usize];
            let expected: Vec<i64> = (0..64)
                .map(|j| diagonals.iter().map(|(step, m)| m[j] * turned(j, *step)).sum::<i64>().rem_euclid(257))
                .collect();
            for level in 2..=4 {
                let fresh =
                    encoder.encode(&x).unwrap().encrypt_seeded(holder.key(), level, &mut rng(3)).unwrap().expand();
                let fresh = if level == 3 { evaluator.to_level(&fresh, 2).unwrap() } else { fresh };
                let y = evaluator.transform(&fresh, &transform, &keys).unwrap();
                let found: Vec<i64> = encoder
                    .decode(&holder.decrypt(&y).unwrap())
                    .unwrap()
                    .iter()
                    .map(|value| value.rem_euclid(257))
                    .collect();
                assert_eq!(found, expected, "{steps:?} at level {level}");
                assert!(secret.noise(y.inner()).log2() <= y.noise_bound(), "{steps:?} at level {level}");
                assert!(y.noise_budget() > 0.0);
            }
        }
    }

    #[test]
    fn transforms_that_cannot_be_done_are_refused() {
        let parameters = toy(Some(257));
        let secret = SecretKey::generate(&parameters, &mut rng(1));
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let diagonals = BTreeMap::from([(1, vec![1; 64])]);
        let transform = LinearTransform::new(&parameters, &encoder, &diagonals, 2).unwrap();
        let holder = Decryptor::new(&secret).unwrap();
        let refused = |level| {
            let x = encoder.encode(&[1]).unwrap().encrypt_seeded(holder.key(), level, &mut rng(3)).unwrap().expand();
            evaluator.transform(&x, &transform, &EvaluationKeys::new(&parameters)).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused(3), EvaluateError::Level { present: 2, wanted: 3 });
        assert!(matches!(refused(2), EvaluateError::MissingKey { .. }));
        let long = BTreeMap::from([(0, vec![1; 65])]);
        let refused = LinearTransform::new(&parameters, &encoder, &long, 2).map(|_| ()).unwrap_err();
        assert_eq!(refused, EncodeError::Length { most: 64, found: 65 });
    }
}
