//! Bilinear forms, sums of rotations, and free multiples: the building blocks of circuits with many
//! small steps.
//!
//! **Factors.** A sum needs one factor. Multiplication can change a ciphertext's factor, but it
//! also multiplies the noise. So a circuit should be built so that factors agree: a product of
//! factors `κ` and `μ` has the factor `κ μ / q` after division by `q`, and primes can be chosen by
//! their residues modulo `t`. This module multiplies only by the requested weights, reduced to
//! least absolute value.
//!
//! **Levels.** A modulus switch is useless for a ciphertext with no more noise than the rounding
//! leaves. Its rows for the dropped primes are left out instead ([`Evaluator::bilinear_forms`]
//! reads only those it needs), at no cost, and its factor stays.

use super::ciphertext::Ciphertext;
use super::evaluate::{EvaluateError, Evaluator, Hoisted};
use super::keys::EvaluationKeys;
use crate::ring::{FormWeights, Poly};
use crate::rlwe::{self, Turned, norms};

/// Bilinear forms of two lists of ciphertexts.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator, Forms};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[45], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, 2, &mut rng)?;
/// let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
/// let x = encoder.encode(&[3, 4])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
/// let y = encoder.encode(&[5, 6])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
/// let forms = Forms { left: &[&x], right: &[&y], weights: &[vec![10, 0, 0, 2]], divisor: 5 };
/// let z = Evaluator::new(&parameters)?.bilinear_forms(&forms, &keys)?; // (10 + 2 x y) / 5
/// assert_eq!(encoder.decode(&holder.decrypt(&z[0])?)?[0], 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Forms<'a> {
    /// `a_1, …`.
    pub left: &'a [&'a Ciphertext],
    /// `b_1, …`.
    pub right: &'a [&'a Ciphertext],
    /// For each form the `w_ij` row by row, `i` and `j` from 0 on, with `a_0 = b_0 = 1`.
    pub weights: &'a [Vec<i64>],
    /// The divisor of all forms, modulo `t`. It changes only the factor.
    pub divisor: i64,
}

/// Ciphertexts that are rotated by the same steps.
pub struct Turn<'a> {
    /// Slots to rotate by.
    pub steps: i64,
    /// At least one.
    pub inputs: Vec<&'a Hoisted<'a>>,
    /// Keys, one of them for these steps.
    pub keys: &'a EvaluationKeys,
}

impl Evaluator {
    /// `unit` times the message, by the factor alone: neither the phase nor its noise changes.
    ///
    /// # Errors
    /// [`EvaluateError::NotUnit`] for a number that has no inverse modulo `t`, or
    /// [`EvaluateError::Parameters`].
    pub fn mul_unit(&self, mut a: Ciphertext, unit: i64) -> Result<Ciphertext, EvaluateError> {
        self.check(&a)?;
        a.factor = self.modulus().mul(a.factor, self.inverse(unit)?);
        Ok(a)
    }

    fn inverse(&self, unit: i64) -> Result<u64, EvaluateError> {
        let t = self.modulus();
        t.inverse(t.reduce_signed(unit)).ok_or(EvaluateError::NotUnit { found: unit })
    }

    /// `1/divisor Σ w_ij a_i b_j` for each list of weights, over one prime less than the lowest of
    /// the ciphertexts. No input is switched.
    ///
    /// Weights multiply phases unchanged if all `a` have one factor, and all `b` too. Otherwise
    /// they are multiplied by the ratio to the first factor, which should be small.
    ///
    /// # Errors
    /// As [`Self::mul_mod_switch`]; [`EvaluateError::NotUnit`] for the divisor;
    /// [`EvaluateError::Empty`] if a list is empty or a form has no weight for any `a_i`;
    /// [`EvaluateError::Weights`] for another number of weights.
    pub fn bilinear_forms(&self, forms: &Forms<'_>, keys: &EvaluationKeys) -> Result<Vec<Ciphertext>, EvaluateError> {
        let (left, right, t) = (forms.left, forms.right, self.modulus());
        if left.is_empty() || right.is_empty() || forms.weights.is_empty() {
            return Err(EvaluateError::Empty { expected: "ciphertexts on both sides, and a form" });
        }
        let expected = (left.len() + 1) * (right.len() + 1);
        if let Some(wrong) = forms.weights.iter().find(|weights| weights.len() != expected) {
            return Err(EvaluateError::Weights { expected, found: wrong.len() });
        }
        let mut level = usize::MAX;
        for value in left.iter().chain(right) {
            self.check(value)?;
            if value.needs_relinearization() {
                return Err(EvaluateError::NotRelinearized);
            }
            level = level.min(value.level());
        }
        if level < 2 {
            return Err(EvaluateError::Level { present: level, wanted: 0 });
        }
        let all = || left.iter().chain(right).copied();
        self.check_key(all())?;
        let key = all().find_map(Ciphertext::key);
        self.for_products(key, level, keys)?;
        self.inverse(forms.divisor)?;
        let both = t.mul(left[0].factor, right[0].factor);
        let of_values = |values: &[&Ciphertext]| -> Vec<u64> { values.iter().map(|value| value.factor).collect() };
        let (of_left, of_right) = (of_values(left), of_values(right));
        let constants = [of_left[0], of_right[0]].map(|factor| t.centred(factor));
        // the multipliers that give each value the first one's factor
        let ratios = |factors: &[u64]| -> Vec<u64> {
            let inverse = |factor: &u64| t.inverse(*factor).unwrap_or_else(|| unreachable!("factors are units"));
            let ratio = |factor: &u64| if *factor == factors[0] { 1 } else { t.mul(factors[0], inverse(factor)) };
            std::iter::once(1).chain(factors.iter().map(ratio)).collect()
        };
        let (of_left, of_right) = (ratios(&of_left), ratios(&of_right));
        let scaled = |weights: &Vec<i64>| -> Vec<i64> {
            let ratios = of_left.iter().flat_map(|a| of_right.iter().map(move |b| t.mul(*a, *b)));
            weights
                .iter()
                .zip(ratios)
                .map(|(weight, ratio)| t.centred(t.mul(t.reduce_signed(*weight), ratio)))
                .collect()
        };
        let weights: Vec<Vec<i64>> = forms.weights.iter().map(scaled).collect();
        if weights.iter().any(|weights| weights[right.len() + 1..].iter().all(|weight| *weight == 0)) {
            return Err(EvaluateError::Empty { expected: "a weight for a ciphertext on the left in each form" });
        }
        let of_norms: Vec<f64> = weights.iter().map(|weights| norm(weights, constants, left, right)).collect();
        let factor = t.mul(both, t.reduce_signed(forms.divisor));
        let weights: Vec<FormWeights> =
            weights.into_iter().map(|weights| FormWeights::new(right.len(), weights, constants)).collect();
        let [xs, ys] = [left, right].map(|values| -> Vec<[&Poly<_>; 2]> {
            values.iter().map(|value| [&value.inner.parts()[0], &value.inner.parts()[1]]).collect()
        });
        let made = Poly::bilinear_forms(&weights, &xs, &ys, self.parameters().ring().basis(level));
        let finish = |(parts, norm): ([Poly<_>; 3], f64)| {
            let inner = rlwe::Ciphertext::new(self.parameters(), key, parts.into());
            self.relinearize_mod_switch(&Ciphertext::new(inner, factor, norm), keys)
        };
        made.into_iter().zip(of_norms).map(finish).collect()
    }

    /// `Σ a + Σ_g ρ_g(Σ h_g)`: all rotations are switched together, once.
    ///
    /// # Errors
    /// As [`Self::rotate_hoisted`], or [`EvaluateError::Empty`] if nothing is rotated.
    pub fn rotated_sum(&self, terms: &[&Ciphertext], turns: &[Turn<'_>]) -> Result<Ciphertext, EvaluateError> {
        let Some(first) = turns.first().and_then(|turn| turn.inputs.first()) else {
            return Err(EvaluateError::Empty { expected: "a ciphertext to rotate" });
        };
        let (level, factor) = (first.ciphertext().level(), first.ciphertext().factor);
        let inputs = turns.iter().flat_map(|turn| &turn.inputs).map(|input| input.ciphertext());
        let all: Vec<&Ciphertext> = terms.iter().copied().chain(inputs).collect();
        all.iter().try_for_each(|value| self.check(value))?;
        self.check_key(all.iter().copied())?;
        if all.iter().any(|value| value.needs_relinearization()) {
            return Err(EvaluateError::NotRelinearized);
        }
        let degree = self.parameters().degree();
        let still = turns.iter().any(|turn| rlwe::rotation(degree, turn.steps) == 1 || turn.inputs.is_empty());
        if still || all.iter().any(|value| value.level() != level || value.factor != factor) {
            return self.one_by_one(terms, turns);
        }
        let mut turned = Vec::with_capacity(turns.len());
        for turn in turns {
            let element = rlwe::rotation(degree, turn.steps);
            let key = self.galois(element, first.ciphertext(), turn.keys)?;
            let inputs = turn.inputs.iter().map(|input| (&input.ciphertext().inner.parts()[0], input.digits()));
            turned.push(Turned { inputs: inputs.collect(), key });
        }
        let own: Vec<[&Poly<_>; 2]> =
            terms.iter().map(|term| [&term.inner.parts()[0], &term.inner.parts()[1]]).collect();
        let parts = self.switcher().rotated_sum(&own, &turned);
        let norm = all.iter().fold(norms::rounding(self.parameters(), 2), |sum, value| norms::sum([sum, value.norm]));
        let key = all.iter().find_map(|value| value.key());
        let digits = norms::digits(self.parameters(), level) + ((all.len() - terms.len()) as f64).log2();
        let inner = rlwe::Ciphertext::new(self.parameters(), key, parts.into());
        Ok(Ciphertext::new(inner, factor, norms::sum([norm, digits])))
    }

    /// The same of ciphertexts with several factors or levels.
    fn one_by_one(&self, terms: &[&Ciphertext], turns: &[Turn<'_>]) -> Result<Ciphertext, EvaluateError> {
        let mut sum: Option<Ciphertext> = None;
        let mut add = |term: Ciphertext| {
            match &mut sum {
                Some(sum) => self.add_assign(sum, &term)?,
                None => sum = Some(term),
            }
            Ok::<(), EvaluateError>(())
        };
        terms.iter().try_for_each(|term| add((*term).clone()))?;
        for turn in turns {
            turn.inputs.iter().try_for_each(|input| add(self.rotate_hoisted(input, turn.steps, turn.keys)?))?;
        }
        Ok(sum.unwrap_or_else(|| unreachable!("something to rotate")))
    }
}

/// Logarithm of a bound on a form's norm.
fn norm(weights: &[i64], constants: [i64; 2], left: &[&Ciphertext], right: &[&Ciphertext]) -> f64 {
    let log2 = |x: i64| (x.unsigned_abs() as f64).log2();
    let of = |constant: i64, values: &[&Ciphertext]| -> Vec<f64> {
        std::iter::once(log2(constant)).chain(values.iter().map(|value| value.norm)).collect()
    };
    let (left, right) = (of(constants[0], left), of(constants[1], right));
    let pairs = left.iter().flat_map(|a| right.iter().map(move |b| norms::product(*a, *b)));
    weights
        .iter()
        .zip(pairs)
        .fold(f64::NEG_INFINITY, |sum, (weight, pair)| norms::sum([sum, norms::product(pair, log2(*weight))]))
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, Encoder};
    use super::*;
    use crate::rlwe::SecretKey;
    use crate::rlwe::tests::{rng, toy};

    struct World {
        secret: SecretKey,
        encoder: Encoder,
        evaluator: Evaluator,
    }

    impl World {
        fn new() -> Self {
            let parameters = toy(Some(257));
            let secret = SecretKey::generate(&parameters, &mut rng(1));
            let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
            Self { secret, encoder, evaluator }
        }

        fn encrypted(&self, slots: &[i64], level: usize) -> Ciphertext {
            let holder = Decryptor::new(&self.secret).unwrap();
            self.encoder
                .encode(slots)
                .unwrap()
                .encrypt_seeded(holder.key(), level, &mut rng(slots[0] as u8))
                .unwrap()
                .expand()
        }

        fn slots(&self, value: &Ciphertext) -> Vec<i64> {
            let holder = Decryptor::new(&self.secret).unwrap();
            assert!(value.noise_budget() > 0.0 && holder.noise(value).unwrap() <= value.noise_bound());
            self.encoder
                .decode(&holder.decrypt(value).unwrap())
                .unwrap()
                .iter()
                .map(|value| value.rem_euclid(257))
                .collect()
        }
    }

    fn numbers(seed: i64) -> Vec<i64> {
        (0..64).map(|j| (j * 37 + seed * 101 + 3) % 257).collect()
    }

    #[test]
    fn forms_of_ciphertexts_of_several_levels_and_factors_are_those_of_their_slots() {
        let world = World::new();
        let keys =
            EvaluationKeys::new(world.secret.parameters()).with_relinearization(&world.secret, 4, &mut rng(2)).unwrap();
        let slots: Vec<Vec<i64>> = (0..5).map(numbers).collect();
        let mut all: Vec<Ciphertext> = slots.iter().map(|slots| world.encrypted(slots, 4)).collect();
        all[1] = world.evaluator.to_level(&all[1], 3).unwrap();
        all[4] = world.evaluator.mul_unit(world.evaluator.to_level(&all[4], 3).unwrap(), 9).unwrap();
        let values: Vec<&Ciphertext> = all.iter().collect();
        let weights: [Vec<i64>; 2] =
            [(0..12).map(|w| w % 5 - 2).collect(), (0..12).map(|w| i64::from(w == 5) * 3).collect()];
        let forms =
            Forms { left: &values[..2], right: &values[2..4], weights: &weights.map(|w| w[..9].into()), divisor: -5 };
        let found = world.evaluator.bilinear_forms(&forms, &keys).unwrap();
        for (form, found) in forms.weights.iter().zip(&found) {
            assert_eq!(found.level(), 2);
            let found: Vec<i64> = world.slots(found).iter().map(|x| (-5 * x).rem_euclid(257)).collect();
            let plain = |j: usize| {
                let (a, b) = ([1, slots[0][j], slots[1][j]], [1, slots[2][j], slots[3][j]]);
                (0..9).map(|place| form[place] * a[place / 3] * b[place % 3]).sum::<i64>().rem_euclid(257)
            };
            assert_eq!(found, (0..64).map(plain).collect::<Vec<i64>>());
        }
        // another factor is multiplied by a ratio, with the same result
        let forms = Forms { right: &values[3..], weights: &[vec![1, 2, 3, 4, 5, 6, 7, 8, 9]], ..forms };
        let found = world.evaluator.bilinear_forms(&forms, &keys).unwrap();
        let nine = |j: usize| 9 * slots[4][j];
        let plain = |j: usize| {
            let (a, b) = ([1, slots[0][j], slots[1][j]], [1, slots[3][j], nine(j)]);
            (0..9).map(|place| (place as i64 + 1) * a[place / 3] * b[place % 3]).sum::<i64>().rem_euclid(257)
        };
        let found: Vec<i64> = world.slots(&found[0]).iter().map(|x| (-5 * x).rem_euclid(257)).collect();
        assert_eq!(found, (0..64).map(plain).collect::<Vec<i64>>());
        let forms = Forms { divisor: 257, ..forms };
        let refused = world.evaluator.bilinear_forms(&forms, &keys).map(|_| ()).unwrap_err();
        assert_eq!(refused, EvaluateError::NotUnit { found: 257 });
        let none = world
            .evaluator
            .bilinear_forms(&forms, &EvaluationKeys::new(world.secret.parameters()))
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(none, EvaluateError::MissingKey { .. }));
    }

    #[test]
    fn a_unit_multiplies_by_the_factor_alone() {
        let world = World::new();
        let x = world.encrypted(&numbers(1), 2);
        let scaled = world.evaluator.mul_unit(x.clone(), -7).unwrap();
        assert!(scaled.noise_bound() == x.noise_bound() && scaled.inner().parts() == x.inner().parts());
        let expected: Vec<i64> = numbers(1).iter().map(|x| (-7 * x).rem_euclid(257)).collect();
        assert_eq!(world.slots(&scaled), expected);
        let refused = world.evaluator.mul_unit(x, 514).map(|_| ()).unwrap_err();
        assert_eq!(refused, EvaluateError::NotUnit { found: 514 });
    }

    #[test]
    fn sums_of_rotations_are_those_of_each_rotation_with_keys_that_were_cut() {
        let world = World::new();
        let mut keys = [3, -5].map(|steps| {
            EvaluationKeys::new(world.secret.parameters())
                .with_rotation(&world.secret, steps, 4, &mut rng(steps as u8))
                .unwrap()
        });
        let slots: Vec<Vec<i64>> = (0..4).map(numbers).collect();
        for level in [4, 3, 2] {
            keys = keys.map(|keys| keys.cut(level).unwrap());
            assert_eq!(keys[0].only().map(rlwe::EvaluationKey::level), Some(level));
            let values: Vec<Ciphertext> = slots.iter().map(|slots| world.encrypted(slots, level)).collect();
            let hoisted: Vec<Hoisted<'_>> = values.iter().map(|value| world.evaluator.hoist(value).unwrap()).collect();
            let turned = |which: usize, steps: i64, j: usize| {
                slots[which][j / 32 * 32 + (j as i64 + steps).rem_euclid(32) as usize]
            };
            let turn = |steps, inputs: &[usize], keys| Turn {
                steps,
                inputs: inputs.iter().map(|i| &hoisted[*i]).collect(),
                keys,
            };
            let turns = [turn(3, &[1, 2, 1], &keys[0]), turn(-5, &[3], &keys[1])];
            let sum = world.evaluator.rotated_sum(&[&values[0], &values[3]], &turns).unwrap();
            let expected = |j: usize| {
                let plain = slots[0][j] + slots[3][j];
                (plain + 2 * turned(1, 3, j) + turned(2, 3, j) + turned(3, -5, j)).rem_euclid(257)
            };
            assert_eq!(world.slots(&sum), (0..64).map(expected).collect::<Vec<i64>>(), "level {level}");
            let alone = world.evaluator.rotated_sum(&[], &turns[1..]).unwrap();
            let expected: Vec<i64> = (0..64).map(|j| turned(3, -5, j)).collect();
            assert_eq!(world.slots(&alone), expected);
            // a step of zero, and a term of another level, are handled one by one
            let lower = world.evaluator.to_level(&values[0], level - 1).unwrap();
            let turns = [turn(0, &[1], &keys[0]), turn(3, &[2], &keys[0])];
            let sum = world.evaluator.rotated_sum(&[&lower], &turns).unwrap();
            let expected = |j: usize| (slots[0][j] + slots[1][j] + turned(2, 3, j)).rem_euclid(257);
            assert_eq!(world.slots(&sum), (0..64).map(expected).collect::<Vec<i64>>());
            let missing = [turn(4, &[1], &keys[0])];
            let missing = world.evaluator.rotated_sum(&[], &missing).map(|_| ()).unwrap_err();
            assert!(matches!(missing, EvaluateError::MissingKey { .. }));
        }
    }

    #[test]
    fn a_key_that_is_cut_is_the_key_of_that_level_from_its_seed() {
        let world = World::new();
        let parameters = world.secret.parameters();
        let keys =
            EvaluationKeys::new(world.secret.parameters()).with_relinearization(&world.secret, 4, &mut rng(2)).unwrap();
        for level in 1..4 {
            let cut = keys.cut(level).unwrap();
            // on the wire half of a key is its seed: the decoded key has the same second half only
            // if it came from the seed
            let bytes = crate::wire::encode_evaluation_keys(&cut);
            let read: EvaluationKeys = crate::wire::decode_evaluation_keys(&bytes, parameters).unwrap();
            assert!(read.only().unwrap().values() == cut.only().unwrap().values(), "level {level}");
            // and made for that level from the same randomness it is the same
            let made = EvaluationKeys::new(world.secret.parameters())
                .with_relinearization(&world.secret, level, &mut rng(2))
                .unwrap();
            assert!(made.only().unwrap().values() == cut.only().unwrap().values(), "level {level}");
            assert!(cut.memory() < keys.memory());
        }
    }
}
