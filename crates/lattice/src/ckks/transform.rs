//! Linear maps of the slots: sums of products with plaintexts and rotations, by baby steps and
//! giant steps, hoisted twice. The module [`crate::rlwe`] has the method; this module adds
//! plaintexts and scales.

use super::OperationError;
use super::ciphertext::Ciphertext;
use super::embedding::Complex;
use super::encode::{EncodeError, Encoder, Plaintext};
use super::evaluator::{Evaluator, check_scales, check_two_parts};
use super::keys::EvaluationKeys;
use super::precision::{Estimate, Estimator};
use super::scale::Scale;
use crate::params::LatticeParameters;
use crate::rlwe::{Diagonals, KeyId, LinearMap, Schedule};
use std::collections::BTreeMap;

/// A matrix by its diagonals, prepared for a level: slot `j` of the result is `Σ_d m_d[j] x_(j+d)`,
/// with slots counted modulo `N/2`.
///
/// ```
/// use rand_core::SeedableRng;
/// use std::collections::BTreeMap;
/// use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, LinearTransform, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[50, 40, 40], &[50], 3, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let encoder = Encoder::new(&parameters)?.within(6.0);
/// let evaluator = Evaluator::new(&parameters)?;
/// // moving averages of five: five diagonals of a fifth in every slot
/// let diagonals: BTreeMap<i64, Vec<f64>> = (0..5).map(|step| (step, vec![0.2; 4096])).collect();
/// let average = LinearTransform::new(&encoder, &diagonals, &Scale::prime(2), 3)?;
/// let mut keys = EvaluationKeys::new(&parameters);
/// for step in average.rotations() {
///     keys.add_rotation(&secret, step, 3, &mut rng)?;
/// }
/// let x = encoder.encode(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &Scale::power_of_two(40), 3)?.encrypt_seeded(&secret, &mut rng)?;
/// let y = evaluator.rescale(&evaluator.transform(&x.expand(), &average, &keys)?)?;
/// let slots = Decryptor::new(&secret, &encoder)?.decrypt(&y)?;
/// assert!((slots[0] - 3.0).abs() < 1e-6 && (slots[1] - 4.0).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LinearTransform {
    parameters: LatticeParameters,
    map: LinearMap,
    scale: Scale,
    level: usize,
    /// The sum of the absolute values of the largest row.
    norm: f64,
    /// The sum of the largest absolute values of all diagonals.
    magnitudes: f64,
}

impl LinearTransform {
    /// Prepares diagonals, given by steps, at `scale` for ciphertexts of `level` and below. Steps
    /// may be negative. Each diagonal starts at slot 0 and is 0 beyond its end.
    ///
    /// # Errors
    /// [`EncodeError`] for input that does not fit.
    pub fn new<T: Copy + Into<Complex>>(
        encoder: &Encoder,
        diagonals: &BTreeMap<i64, Vec<T>>,
        scale: &Scale,
        level: usize,
    ) -> Result<Self, EncodeError> {
        Self::new_with(encoder, diagonals, scale, level, || Ok(()))
    }

    /// As [`Self::new`], for a caller that reports progress: it calls `each` before each diagonal,
    /// and ends with its error.
    ///
    /// # Errors
    /// [`EncodeError`] for input that does not fit, or the error of `each`.
    pub fn new_with<T: Copy + Into<Complex>, E: From<EncodeError>>(
        encoder: &Encoder,
        diagonals: &BTreeMap<i64, Vec<T>>,
        scale: &Scale,
        level: usize,
        mut each: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let slots = encoder.slots();
        let mut all: BTreeMap<usize, Vec<Complex>> = BTreeMap::new();
        for (step, diagonal) in diagonals {
            if diagonal.len() > slots {
                return Err(EncodeError::Slots { most: slots, found: diagonal.len() }.into());
            }
            // diagonals of steps that are equal modulo N/2 add up
            let sum = all.entry(step.rem_euclid(slots as i64) as usize).or_insert_with(|| vec![0.0.into(); slots]);
            sum.iter_mut().zip(diagonal).for_each(|(sum, z)| *sum = *sum + (*z).into());
        }
        let largest = |diagonal: &Vec<Complex>| diagonal.iter().map(|z| z.abs()).fold(0.0, f64::max);
        let magnitudes = all.values().map(largest).sum();
        let row = |j: usize| all.values().map(|diagonal| diagonal[j].abs()).sum::<f64>();
        let norm = (0..slots).map(row).fold(0.0, f64::max);
        let map = LinearMap::new(&all, slots, |giant, _, diagonal| {
            each()?;
            let mut turned = diagonal.clone();
            turned.rotate_right(giant);
            encoder.key_element(&turned, scale, level).map_err(E::from)
        })?;
        Ok(Self { parameters: encoder.parameters().clone(), map, scale: scale.clone(), level, norm, magnitudes })
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

    /// The factor of a ciphertext's scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// The highest level of its ciphertexts.
    pub fn level(&self) -> usize {
        self.level
    }
}

impl Evaluator {
    /// `M a`. The scale is the product: see [`Self::rescale`].
    ///
    /// # Errors
    /// [`OperationError`] if parameters differ, the transform is for lower levels, a key is
    /// missing, or the product has no room.
    pub fn transform(
        &self,
        a: &Ciphertext,
        transform: &LinearTransform,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        self.check_keys(a, keys)?;
        if transform.parameters != *self.parameters() {
            return Err(OperationError::OtherParameters);
        }
        if a.level() > transform.level {
            return Err(OperationError::Levels { left: a.level(), right: transform.level });
        }
        let scale = self.product(a.scale(), &transform.scale, a.level())?;
        let steps: Vec<usize> = transform.map.schedule().steps().collect();
        let found = steps.iter().map(|step| Ok((*step, keys.rotation(*step, a.level())?)));
        let found = found.collect::<Result<BTreeMap<_, _>, OperationError>>()?;
        let [c0, c1] = a.inner().parts() else { return Err(OperationError::ThreeParts) };
        let factor = scale.to_f64(self.parameters()).unwrap_or(f64::NAN);
        let estimate = self.admit(self.estimator().transform(&self.bounds(a)?, transform).at(factor, a.level()))?;
        let parts = self.switcher().transform([c0, c1], &transform.map, |step| found[&step]);
        Ok(self.of_parts(a.key(), parts.into(), &scale, estimate))
    }
}

/// Diagonals `g giant + b baby`, `g < giants` and `b < babies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Slots of a baby step.
    pub baby: i64,
    /// Baby steps, 0 among them.
    pub babies: usize,
    /// Slots of a giant step.
    pub giant: i64,
    /// Giant steps, 0 among them.
    pub giants: usize,
}

impl Grid {
    /// The steps that need keys: each baby step except 0, then a giant step if there are several.
    pub fn rotations(&self) -> impl Iterator<Item = i64> {
        let giant = (self.giants > 1).then_some(self.giant);
        let baby = self.baby;
        (1..self.babies as i64).map(move |b| b.wrapping_mul(baby)).chain(giant)
    }
}

impl Evaluator {
    /// `Σ_g ρ_(g giant)( Σ_(i,b) w_(g,i,b) ρ_(b baby)(a_i) )`: a sum of maps of several
    /// ciphertexts, hoisted twice. Giant steps use Horner's rule, so one key serves them all.
    /// `weights` are ordered by giant step, then by ciphertext, then by baby step; each is rotated
    /// back by its giant step and encoded by [`Encoder::encode_diagonal`]. `keys` must have the
    /// steps of [`Grid::rotations`]. The scale is the product: see [`Self::rescale`].
    ///
    /// # Errors
    /// [`OperationError`] if parameters, levels or scales differ, the number of weights or keys
    /// does not match the grid, or the product has no room.
    pub fn transform_sum(
        &self,
        inputs: &[&Ciphertext],
        weights: &[&Plaintext],
        grid: Grid,
        keys: &[&EvaluationKeys],
    ) -> Result<Ciphertext, OperationError> {
        let weights_of = grid.babies.checked_mul(grid.giants).and_then(|one| one.checked_mul(inputs.len()));
        let expected = weights_of.unwrap_or(usize::MAX);
        let count = grid.babies.saturating_sub(1).saturating_add(usize::from(grid.giants > 1));
        let (Some(first), Some(weight), true) =
            (inputs.first(), weights.first(), weights.len() == expected && keys.len() == count)
        else {
            return Err(OperationError::Grid { expected, keys: count });
        };
        let scale = self.product(first.scale(), weight.scale(), first.level())?;
        for a in inputs {
            self.check_levels(first, a)?;
            check_two_parts(a)?;
            check_scales(first.scale(), a.scale())?;
        }
        for p in weights {
            self.check_plain(first, p)?;
            check_scales(weight.scale(), p.scale())?;
            if !p.is_diagonal() {
                return Err(OperationError::NoDiagonal);
            }
        }
        let found = grid.rotations().zip(keys).map(|(step, keys)| {
            self.check_keys(first, keys)?;
            keys.rotation(keys.step(step), first.level())
        });
        let mut babies = found.collect::<Result<Vec<_>, OperationError>>()?;
        let key = KeyId::joined(inputs.iter().map(|a| a.key()).chain(keys.iter().map(|keys| keys.id())))?;
        let giant = if grid.giants > 1 { babies.pop() } else { None };
        let mut diagonals = Vec::with_capacity(inputs.len());
        for (i, a) in inputs.iter().enumerate() {
            let [c0, c1] = a.inner().parts() else { return Err(OperationError::ThreeParts) };
            let of = |g: usize| &weights[(g * inputs.len() + i) * grid.babies..][..grid.babies];
            let plaintexts = (0..grid.giants).flat_map(of).map(|p| p.element()).collect();
            diagonals.push(Diagonals { parts: [c0, c1], plaintexts });
        }
        let estimate = self.sum_estimate(inputs, weights, grid, &scale)?;
        let parts = self.switcher().transform_sum(&diagonals, &babies, giant);
        Ok(self.of_parts(key, parts.into(), &scale, estimate))
    }

    /// The bounds of [`Self::transform_sum`].
    fn sum_estimate(
        &self,
        inputs: &[&Ciphertext],
        weights: &[&Plaintext],
        grid: Grid,
        scale: &Scale,
    ) -> Result<Estimate, OperationError> {
        let estimator = self.estimator();
        let fresh = inputs.iter().map(|a| self.bounds(a)).collect::<Result<Vec<Estimate>, _>>()?;
        let turned: Vec<Estimate> = fresh.iter().map(|a| estimator.switch(a)).collect();
        let mut sum: Option<Estimate> = None;
        // Horner's rule: the last giant step comes first
        for of_giant in weights.chunks(inputs.len() * grid.babies).rev() {
            if let Some(sum) = &mut sum {
                *sum = estimator.switch(sum);
            }
            for (i, of_input) in of_giant.chunks(grid.babies).enumerate() {
                for (baby, weight) in of_input.iter().enumerate() {
                    let a = if baby == 0 { &fresh[i] } else { &turned[i] };
                    let term = self.product_of(a, weight.estimate(), scale)?;
                    sum = Some(sum.map_or(term, |sum| estimator.add(&sum, &term)));
                }
            }
        }
        // the last giant step is divided by the special primes, too
        self.admit(estimator.switch(&sum.ok_or(OperationError::Empty)?))
    }
}

impl Estimator {
    /// A transformed ciphertext. Numbers and errors grow by at most the largest sum of a row's
    /// absolute values; every diagonal is rounded on its own.
    ///
    /// # Panics
    /// If the transform's scale is of other parameters.
    pub fn transform(&self, a: &Estimate, transform: &LinearTransform) -> Estimate {
        let schedule = transform.map.schedule();
        let rows = self.rows([transform.norm, transform.magnitudes], transform);
        let turned = if schedule.has_babies() { self.switch(a) } else { *a };
        let mapped = self.tensor(&turned, &rows);
        // each giant step switches, and the sum is divided by the special primes
        (0..=schedule.giants()).fold(mapped, |sum, _| self.switch(&sum))
    }

    /// A plaintext that stands for all diagonals.
    fn rows(&self, [norm, magnitudes]: [f64; 2], transform: &LinearTransform) -> Estimate {
        let zero = self.encode(0.0, &transform.scale, transform.level);
        let all = self.encode(magnitudes, &transform.scale, transform.level);
        let rounded = zero.bounds()[2] * transform.map.count() as f64;
        let doubles = all.bounds()[2] - zero.bounds()[2];
        Estimate::of_bounds([norm, 0.0, rounded + doubles, 0.0], zero.scale(), transform.level)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, Precision};
    use super::*;
    use crate::rlwe::SecretKey;
    use crate::rlwe::tests::{rng, toy};

    struct Setting {
        secret: SecretKey,
        encoder: Encoder,
        evaluator: Evaluator,
    }

    fn setting() -> Setting {
        let parameters = toy(None);
        let secret = SecretKey::generate(&parameters, &mut rng(1));
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        Setting { secret, encoder, evaluator }
    }

    fn numbers(seed: usize, count: usize) -> Vec<f64> {
        (0..count).map(|j| ((j * 37 + seed * 11) % 23) as f64 / 23.0 - 0.5).collect()
    }

    #[test]
    fn transforms_are_products_with_their_matrices_at_every_level() {
        let s = setting();
        let x = numbers(0, 32);
        for steps in [vec![0], vec![3], vec![-1, 0, 1], (0..32).collect(), vec![1, 9, 17, 25, 40], (5..19).collect()] {
            let diagonals: BTreeMap<i64, Vec<f64>> =
                steps.iter().map(|step| (*step, numbers(9 + *step as usize % 7, 32))).collect();
            let transform = LinearTransform::new(&s.encoder, &diagonals, &Scale::power_of_two(35), 4).unwrap();
            let mut keys = EvaluationKeys::new(s.encoder.parameters());
            for step in transform.rotations() {
                keys.add_rotation(&s.secret, step, 4, &mut rng(2)).unwrap();
            }
            let expected: Vec<f64> = (0..32)
                .map(|j| diagonals.iter().map(|(step, m)| m[j] * x[(j as i64 + step).rem_euclid(32) as usize]).sum())
                .collect();
            for level in 2..=4 {
                let plaintext = s.encoder.encode(&x, &Scale::power_of_two(35), level).unwrap();
                let fresh = plaintext.encrypt_seeded(&s.secret, &mut rng(3)).unwrap().expand();
                let y = s.evaluator.transform(&fresh, &transform, &keys).unwrap();
                assert_eq!((y.level(), y.scale()), (level, &Scale::power_of_two(70)));
                let found = Decryptor::new(&s.secret, &s.encoder).unwrap().decrypt(&y).unwrap();
                let estimator = Estimator::new(s.encoder.parameters());
                let estimate = estimator.encode(0.5, &Scale::power_of_two(35), level);
                let estimate = estimator.transform(&estimator.encrypt_seeded(&estimate), &transform);
                let error = Precision::of(&found, &expected).max();
                assert!(error <= estimate.error() && error < 1e-6, "{steps:?}: {error} {}", estimate.error());
                assert!(expected.iter().all(|y| y.abs() <= estimate.magnitude()));
            }
        }
    }

    /// A permutation by 16 diagonals: each row has one number that is not 0.
    #[test]
    fn bounds_grow_by_the_largest_row_and_not_by_the_number_of_diagonals() {
        let s = setting();
        let own = |step: usize| (0..32).map(|j| f64::from(u8::from(j * 5 % 16 == step))).collect();
        let diagonals: BTreeMap<i64, Vec<f64>> = (0..16).map(|step| (step as i64, own(step))).collect();
        let transform = LinearTransform::new(&s.encoder, &diagonals, &Scale::prime(3), 4).unwrap();
        let estimator = Estimator::new(s.encoder.parameters());
        let a = Estimate::of_bounds(
            [0.5, 0.0, 0.0, 1e-3],
            Scale::power_of_two(35).to_f64(s.encoder.parameters()).unwrap(),
            4,
        );
        let mapped = estimator.transform(&a, &transform);
        assert_eq!(mapped.magnitude(), 0.5);
        assert!((1e-3..1.001e-3).contains(&mapped.error()), "{mapped:?}");
        // all rows but one are halves
        let halves = BTreeMap::from([(0, vec![0.5; 32]), (1, [vec![-2.0], vec![0.5; 31]].concat())]);
        let transform = LinearTransform::new(&s.encoder, &halves, &Scale::prime(3), 4).unwrap();
        assert_eq!(estimator.transform(&a, &transform).magnitude(), 1.25);
    }

    #[test]
    fn complex_matrices_and_steps_that_coincide_add_up() {
        let s = setting();
        let i = Complex { re: 0.0, im: 1.0 };
        let diagonals = BTreeMap::from([(1, vec![i; 32]), (33, vec![i; 32]), (-31, vec![Complex::from(1.0); 32])]);
        let transform = LinearTransform::new(&s.encoder, &diagonals, &Scale::power_of_two(35), 3).unwrap();
        assert_eq!(transform.rotations().collect::<Vec<_>>(), [1]);
        let mut keys = EvaluationKeys::new(s.encoder.parameters());
        keys.add_rotation(&s.secret, 1, 3, &mut rng(2)).unwrap();
        let x = s.encoder.encode(&numbers(5, 32), &Scale::power_of_two(35), 3).unwrap();
        let x = x.encrypt_seeded(&s.secret, &mut rng(3)).unwrap().expand();
        let y = s.evaluator.transform(&x, &transform, &keys).unwrap();
        let found = Decryptor::new(&s.secret, &s.encoder).unwrap().decrypt_complex(&y).unwrap();
        for (found, x) in found.iter().zip(numbers(5, 32).iter().cycle().skip(1)) {
            assert!((found.re - x).abs() < 1e-6 && (found.im - 2.0 * x).abs() < 1e-6);
        }
    }

    #[test]
    fn transforms_that_cannot_be_done_are_refused() {
        let s = setting();
        let diagonals = BTreeMap::from([(1, vec![1.0; 32])]);
        let transform = LinearTransform::new(&s.encoder, &diagonals, &Scale::power_of_two(35), 2).unwrap();
        let keys = EvaluationKeys::new(s.encoder.parameters());
        let x = |level| {
            let plaintext = s.encoder.encode(&[1.0], &Scale::power_of_two(35), level).unwrap();
            plaintext.encrypt_seeded(&s.secret, &mut rng(3)).unwrap().expand()
        };
        let refused = |level| s.evaluator.transform(&x(level), &transform, &keys).map(|_| ()).unwrap_err();
        assert_eq!(refused(3), OperationError::Levels { left: 3, right: 2 });
        assert!(matches!(refused(2), OperationError::MissingKey { .. }));
        let long = BTreeMap::from([(0, vec![1.0; 33])]);
        let refused = LinearTransform::new(&s.encoder, &long, &Scale::power_of_two(35), 2).map(|_| ()).unwrap_err();
        assert_eq!(refused, EncodeError::Slots { most: 32, found: 33 });
    }
}
