//! Operations, compared with their effect on slots.

use super::*;
use crate::params::{self, LatticeParameters};
use crate::ring::Seed;
use crate::rlwe::tests::{rng, toy};
use crate::rlwe::{PublicKey, SecretKey};
use chacha20::ChaCha20Rng;

/// Keys for all operations, at a degree without security.
pub(super) struct Bench {
    pub(super) secret: SecretKey,
    pub(super) public: PublicKey,
    pub(super) keys: EvaluationKeys,
    pub(super) encoder: Encoder,
    pub(super) evaluator: Evaluator,
    pub(super) rng: ChaCha20Rng,
}

/// Rotations with keys.
const STEPS: [i64; 4] = [1, 3, -5, 16];

impl Bench {
    /// With data primes of these sizes, in digits of two.
    pub(super) fn new(data: &[u32]) -> Self {
        let (digits, level) = (data.len().div_ceil(2), data.len());
        let of_sizes = LatticeParameters::insecure_of_sizes;
        let parameters = of_sizes(64, data, &[50; 2], digits, params::Plaintext::Approximate).unwrap();
        let mut rng = rng(11);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let mut keys = EvaluationKeys::new(&parameters);
        keys.add_relinearization(&secret, level, &mut rng).unwrap();
        keys.add_conjugation(&secret, level, &mut rng).unwrap();
        STEPS.iter().for_each(|step| keys.add_rotation(&secret, *step, level, &mut rng).unwrap());
        Self {
            public: PublicKey::generate(&secret, &mut rng),
            encoder: Encoder::new(&parameters).unwrap(),
            evaluator: Evaluator::new(&parameters).unwrap(),
            secret,
            keys,
            rng,
        }
    }

    pub(super) fn encrypt(&mut self, slots: &[f64], scale: u32, level: usize) -> Ciphertext {
        let range = slots.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        let plaintext = self.encoder.within(range).encode(slots, &Scale::power_of_two(scale), level).unwrap();
        plaintext.encrypt(&self.public, &mut self.rng).unwrap()
    }

    fn decrypt(&self, ciphertext: &Ciphertext) -> Vec<f64> {
        Decryptor::new(&self.secret, &self.encoder).unwrap().decrypt(ciphertext).unwrap().to_vec()
    }

    fn decrypt_complex(&self, ciphertext: &Ciphertext) -> Vec<Complex> {
        Decryptor::new(&self.secret, &self.encoder).unwrap().decrypt_complex(ciphertext).unwrap().to_vec()
    }

    /// The largest error.
    pub(super) fn error(&self, found: &Ciphertext, expected: &[f64]) -> f64 {
        Precision::of(&self.decrypt(found), expected).max()
    }
}

fn bench() -> Bench {
    Bench::new(&[50, 40, 40, 40])
}

fn numbers(seed: u32) -> Vec<f64> {
    (0..32).map(|j| f64::from((j * 37 + seed * 11) % 101) / 50.0 - 1.0).collect()
}

fn zip(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
}

/// Fresh errors at scale 2^40 are about 2^-29.
const SMALL: f64 = 1.0 / (1u64 << 24) as f64;

#[test]
fn sums_and_differences_are_those_of_slots() {
    let mut bench = bench();
    let (x, y) = (numbers(1), numbers(2));
    let [a, b] = [&x, &y].map(|x| bench.encrypt(x, 40, 3));
    let p = bench.encoder.encode(&y, &Scale::power_of_two(40), 4).unwrap();
    let evaluator = &bench.evaluator;
    for (found, expected) in [
        (evaluator.add(&a, &b).unwrap(), zip(&x, &y, |x, y| x + y)),
        (evaluator.sub(&a, &b).unwrap(), zip(&x, &y, |x, y| x - y)),
        (evaluator.neg(&a).unwrap(), zip(&x, &y, |x, _| -x)),
        (evaluator.add_plain(&a, &p).unwrap(), zip(&x, &y, |x, y| x + y)),
        (evaluator.add_constant(&a, -0.75).unwrap(), zip(&x, &y, |x, _| x - 0.75)),
        (evaluator.mul_integer(&a, -3).unwrap(), zip(&x, &y, |x, _| -3.0 * x)),
        (evaluator.to_level(&a, 1).unwrap(), x.clone()),
    ] {
        assert!(bench.error(&found, &expected) < SMALL);
        assert_eq!(found.scale(), &Scale::power_of_two(40));
    }
}

#[test]
fn products_are_those_of_slots_before_and_after_rescaling() {
    let mut bench = bench();
    let (x, y) = (numbers(1), numbers(2));
    let [a, b] = [&x, &y].map(|x| bench.encrypt(x, 40, 4));
    let p = bench.encoder.encode(&y, &Scale::power_of_two(40), 4).unwrap();
    let xy = zip(&x, &y, |x, y| x * y);
    let (evaluator, keys) = (&bench.evaluator, &bench.keys);
    let tensor = evaluator.tensor(&a, &b).unwrap();
    assert!(tensor.needs_relinearization());
    for (found, expected) in [
        (tensor.clone(), &xy),
        (evaluator.mul(&a, &b, keys).unwrap(), &xy),
        (evaluator.mul_plain(&a, &p).unwrap(), &xy),
        (evaluator.mul_constant(&a, -1.7).unwrap(), &zip(&x, &y, |x, _| -1.7 * x)),
    ] {
        assert!(bench.error(&found, expected) < SMALL);
        let rescaled = evaluator.rescale(&found).unwrap();
        assert!(bench.error(&rescaled, expected) < SMALL);
        assert_eq!(rescaled.level(), 3);
        assert_eq!(rescaled.scale(), &found.scale().quotient(&Scale::prime(3)).unwrap());
    }
    assert_eq!(evaluator.rescale(&evaluator.mul_constant(&a, 2.0).unwrap()).unwrap().scale(), a.scale());
    // sums of products before one relinearisation
    let twice = evaluator.add(&tensor, &tensor).unwrap();
    let back = evaluator.sub(&evaluator.relinearize(&twice, keys).unwrap(), &tensor).unwrap();
    assert!(bench.error(&evaluator.relinearize(&back, keys).unwrap(), &xy) < SMALL);
    // and sums of products with plaintexts
    let mut sum = evaluator.mul_plain(&a, &p).unwrap();
    evaluator.mul_plain_add_assign(&mut sum, &b, &p).unwrap();
    assert!(bench.error(&sum, &zip(&x, &y, |x, y| (x + y) * y)) < SMALL);
}

#[test]
fn rotations_move_slots_to_the_left_and_hoisted_ones_are_the_same() {
    let mut bench = bench();
    let x = numbers(3);
    let a = bench.encrypt(&x, 40, 3);
    let (evaluator, keys) = (&bench.evaluator, &bench.keys);
    let hoisted = evaluator.hoist(&a).unwrap();
    for step in [0, 1, 3, -5, 16, 33, -16, 27, -64] {
        let found = evaluator.rotate(&a, step, keys).unwrap();
        let expected: Vec<f64> = (0..32).map(|j| x[(j + step).rem_euclid(32) as usize]).collect();
        assert!(bench.error(&found, &expected) < SMALL, "{step}");
        let again = evaluator.rotate_hoisted(&hoisted, step, keys).unwrap();
        assert!(found.inner().parts() == again.inner().parts() && again.scale() == a.scale());
    }
}

#[test]
fn encrypting_at_once_gives_what_encoding_and_encrypting_give() {
    let mut bench = Bench::new(&[50, 40, 40]);
    for (level, scale) in [(1, 30), (2, 40), (3, 55)] {
        let (slots, scale) = (numbers(6), Scale::power_of_two(scale));
        let [mut one, mut other] = [(); 2].map(|()| rng(12));
        let plaintext = bench.encoder.encode(&slots, &scale, level).unwrap();
        let in_two = plaintext.encrypt_seeded(&bench.secret, &mut one).unwrap();
        let at_once = bench.encoder.encrypt_seeded(&slots, &scale, level, &bench.secret, &mut other).unwrap();
        let bytes = crate::wire::encode_ckks_seeded_ciphertext;
        assert_eq!(bytes(&at_once), bytes(&in_two), "level {level}");
    }
    let other = Bench::new(&[50, 40]).secret;
    let found = bench.encoder.encrypt_seeded(&[1.0], &Scale::power_of_two(30), 1, &other, &mut bench.rng);
    assert_eq!(found.map(drop), Err(EncodeError::OtherParameters));
    let found = bench.encoder.encrypt_seeded(&[f64::NAN], &Scale::power_of_two(30), 1, &bench.secret, &mut bench.rng);
    assert_eq!(found.map(drop), Err(EncodeError::NotFinite { slot: 0 }));
}

#[test]
fn complex_slots_multiply_and_conjugate() {
    let mut bench = bench();
    let z: Vec<Complex> = zip_complex(&numbers(4), &numbers(5));
    let plaintext = bench.encoder.within(1.5).encode_complex(&z, &Scale::power_of_two(40), 2).unwrap();
    let a = plaintext.encrypt_seeded(&bench.secret, &mut bench.rng).unwrap().expand();
    let conjugate = bench.evaluator.conjugate(&a, &bench.keys).unwrap();
    let norm = bench.evaluator.mul(&a, &conjugate, &bench.keys).unwrap();
    let square = bench.evaluator.mul(&a, &a, &bench.keys).unwrap();
    for (found, of) in [
        (&conjugate, (|z| z.conjugate()) as fn(Complex) -> Complex),
        (&norm, |z| z * z.conjugate()),
        (&square, |z| z * z),
    ] {
        for (found, z) in bench.decrypt_complex(found).iter().zip(&z) {
            assert!((*found - of(*z)).abs() < SMALL);
        }
    }
}

fn zip_complex(re: &[f64], im: &[f64]) -> Vec<Complex> {
    re.iter().zip(im).map(|(re, im)| Complex { re: *re, im: *im }).collect()
}

#[test]
fn scales_are_exact_after_five_levels_by_whichever_way() {
    let mut bench = Bench::new(&[50, 40, 40, 40, 40, 40]);
    let x = numbers(6);
    let mut a = bench.encrypt(&x, 40, 6);
    let fresh = a.clone();
    let mut power = x.clone();
    let mut expected = Scale::power_of_two(40);
    for level in (1..6).rev() {
        a = bench.evaluator.rescale(&bench.evaluator.mul(&a, &a, &bench.keys).unwrap()).unwrap();
        power = zip(&power, &power, |x, y| x * y);
        expected = expected.product(&expected).unwrap().quotient(&Scale::prime(level)).unwrap();
        assert!(a.scale() == &expected && a.level() == level);
        assert!(bench.error(&a, &power) < 2f64.powi(-16), "level {level}: {:e}", bench.error(&a, &power));
    }
    assert_eq!(a.scale().to_string(), "2^1280 q1^-1 q2^-2 q3^-4 q4^-8 q5^-16");
    // another circuit at the same level, rejected until it has the same scale
    let other = bench.evaluator.to_level(&fresh, 2).unwrap();
    let refused = bench.evaluator.add(&bench.evaluator.to_level(&other, 1).unwrap(), &a);
    assert!(matches!(refused.map(|_| ()), Err(OperationError::Scales { .. })));
    let adjusted = bench.evaluator.set_scale(&other, a.scale()).unwrap();
    let sum = bench.evaluator.add(&adjusted, &a).unwrap();
    assert!(bench.error(&sum, &zip(&x, &power, |x, y| x + y)) < 2f64.powi(-16));
}

#[test]
fn a_rescaling_loses_a_rounding_only() {
    let mut bench = bench();
    let x = numbers(7);
    let a = bench.encrypt(&x, 80, 4);
    let rescaled = bench.evaluator.rescale(&a).unwrap();
    // (1 + ‖s‖₁)/2 in every coefficient at worst, N of them in a slot
    let bound = 64.0 * 65.0 / 2.0 / 2f64.powi(40);
    let found = bench.decrypt(&rescaled);
    assert!(Precision::of(&found, &bench.decrypt(&a)).max() < bound);
}

#[test]
fn keys_serve_their_level_and_below() {
    let mut bench = bench();
    let parameters = bench.evaluator.parameters().clone();
    let mut keys = EvaluationKeys::new(&parameters);
    keys.add_rotation(&bench.secret, -31, 2, &mut bench.rng).unwrap();
    keys.add_rotation(&bench.secret, 32, 2, &mut bench.rng).unwrap(); // no key is needed
    keys.add_relinearization(&bench.secret, 3, &mut bench.rng).unwrap();
    assert_eq!(keys.rotations().collect::<Vec<_>>(), [(1, 2)]);
    let x = numbers(8);
    let [high, low] = [4, 2].map(|level| bench.encrypt(&x, 30, level));
    let evaluator = &bench.evaluator;
    assert!(evaluator.rotate(&low, 1, &keys).is_ok() && evaluator.mul(&low, &low, &keys).is_ok());
    let missing = |purpose: &str, level, found| OperationError::MissingKey { purpose: purpose.into(), level, found };
    for (found, expected) in [
        (evaluator.rotate(&high, 1, &keys), missing("rotation by 1", 4, Some(2))),
        (evaluator.rotate(&low, -2, &keys), missing("rotation by 30", 2, None)),
        (evaluator.mul(&high, &high, &keys), missing("relinearisation", 4, Some(3))),
        (evaluator.conjugate(&low, &keys), missing("conjugation", 2, None)),
    ] {
        assert_eq!(found.map(|_| ()).unwrap_err(), expected);
    }
    for level in [0, 5] {
        let refused = keys.add_conjugation(&bench.secret, level, &mut bench.rng);
        assert_eq!(refused, Err(OperationError::Level { most: 4, found: level }));
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let mut bench = bench();
    let x = numbers(9);
    let [a, low] = [4, 3].map(|level| bench.encrypt(&x, 40, level));
    let [finer, last] = [(41, 4), (40, 1)].map(|(scale, level)| bench.encrypt(&x, scale, level));
    let plain = |scale, level| bench.encoder.encode(&x, &Scale::power_of_two(scale), level).unwrap();
    let (evaluator, keys) = (&bench.evaluator, &bench.keys);
    let tensor = evaluator.tensor(&a, &a).unwrap();
    let levels = |left, right| OperationError::Levels { left, right };
    let scales = |left, right| {
        let [left, right] = [left, right].map(Scale::power_of_two);
        OperationError::Scales { left, right }
    };
    let exhausted = OperationError::Exhausted { least: 2, found: 1 };
    for (found, expected) in [
        (evaluator.sub(&a, &finer), scales(40, 41)),
        (evaluator.add_plain(&a, &plain(40, 3)), levels(4, 3)),
        (evaluator.add_plain(&a, &plain(39, 4)), scales(40, 39)),
        (evaluator.mul_plain(&a, &plain(40, 3)), levels(4, 3)),
        (evaluator.mul_plain_add_assign(&mut a.clone(), &a, &plain(40, 4)).map(|()| a.clone()), scales(40, 80)),
        (evaluator.mul_plain(&last, &plain(40, 4)), OperationError::NoRoom { level: 1 }),
        (evaluator.tensor(&tensor, &a), OperationError::ThreeParts),
        (evaluator.rotate(&tensor, 1, keys), OperationError::ThreeParts),
        (evaluator.conjugate(&tensor, keys), OperationError::ThreeParts),
        (evaluator.rescale(&last), exhausted.clone()),
        (evaluator.mul_constant(&last, 1.0), exhausted.clone()),
        (evaluator.set_scale(&last, a.scale()), exhausted),
        (evaluator.to_level(&low, 4), OperationError::Level { most: 3, found: 4 }),
        (evaluator.to_level(&low, 0), OperationError::Level { most: 3, found: 0 }),
        (evaluator.to_level(&tensor, 1), OperationError::NoRoom { level: 1 }),
    ] {
        assert_eq!(found.map(|_| ()).unwrap_err(), expected);
    }
    // a scale that would be below 1
    let evaluator = Evaluator::new(evaluator.parameters()).unwrap().unbounded();
    let once = evaluator.rescale(&a).unwrap();
    assert!(matches!(evaluator.rescale(&once).map(|_| ()), Err(OperationError::NoRoom { level: 2 })));
}

#[test]
fn objects_of_other_parameters_are_refused() {
    let (bench, mut other) = (bench(), Bench::new(&[50, 40, 40, 39]));
    let x = other.encrypt(&[1.0], 40, 4);
    let plaintext = other.encoder.encode(&[1.0], &Scale::power_of_two(40), 4).unwrap();
    let (evaluator, others) = (&bench.evaluator, OperationError::OtherParameters);
    let own = other.encrypt(&[1.0], 40, 4);
    for found in [
        evaluator.add(&x, &x),
        evaluator.rescale(&x),
        evaluator.to_level(&x, 1),
        evaluator.mul_constant(&x, 1.0),
        evaluator.rotate(&x, 1, &bench.keys),
        evaluator.hoist(&x).map(|_| x.clone()),
        other.evaluator.add_plain(&own, &bench.encoder.encode(&[1.0], &Scale::power_of_two(40), 4).unwrap()),
        other.evaluator.rotate(&own, 1, &bench.keys),
        plaintext.encrypt(&bench.public, &mut other.rng),
        plaintext.encrypt_seeded(&bench.secret, &mut other.rng).map(|c| c.expand()),
    ] {
        assert_eq!(found.map(|_| ()).unwrap_err(), others);
    }
    assert_eq!(Decryptor::new(&bench.secret, &other.encoder).map(|_| ()).unwrap_err(), others);
    let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
    assert_eq!(decryptor.decrypt(&x).unwrap_err(), ReleaseError::Operation(others.clone()));
    let mut budget = FloodBudget::new(&other.secret, 10, 10, 1).unwrap();
    let refused = decryptor.flooded(&x, &mut budget, &mut other.rng);
    assert_eq!(refused.unwrap_err(), ReleaseError::Operation(others));
    let integers = Evaluator::new(&toy(Some(257))).map(|_| ()).unwrap_err();
    assert_eq!(integers, OperationError::Encode(EncodeError::Integers));
    let bare = LatticeParameters::insecure_of_sizes(64, &[40], &[], 1, params::Plaintext::Approximate).unwrap();
    assert_eq!(Evaluator::new(&bare).map(|_| ()).unwrap_err(), OperationError::NoSpecialPrime);
}

#[test]
fn products_summed_in_one_pass_are_those_summed_one_by_one() {
    let mut bench = bench();
    let written = crate::wire::encode_ckks_ciphertext;
    let scale = Scale::power_of_two(40);
    let a = [1, 2, 3].map(|seed| bench.encrypt(&numbers(seed), 40, 3));
    let p = [4, 5, 6].map(|seed| bench.encoder.encode(&numbers(seed), &scale, 4).unwrap());
    let pairs: Vec<_> = a.iter().zip(&p).collect();
    let mut sum = bench.evaluator.mul_plain(&a[0], &p[0]).unwrap();
    for (a, p) in &pairs[1..] {
        bench.evaluator.mul_plain_add_assign(&mut sum, a, p).unwrap();
    }
    assert!(written(&bench.evaluator.dot_plain(&pairs).unwrap()) == written(&sum));
    let other = bench.encoder.encode(&numbers(1), &Scale::power_of_two(39), 4).unwrap();
    let refused = bench.evaluator.dot_plain(&[(&a[0], &p[0]), (&a[1], &other)]).map(|_| ());
    assert!(matches!(refused, Err(OperationError::Scales { .. })));
    let low = bench.evaluator.to_level(&a[1], 2).unwrap();
    let refused = bench.evaluator.dot_plain(&[(&a[0], &p[0]), (&low, &p[1])]).map(|_| ());
    assert!(matches!(refused, Err(OperationError::Levels { .. })));
}

#[test]
fn a_hoisted_ciphertext_may_outlive_the_one_that_was_cut() {
    let mut bench = bench();
    let a = bench.encrypt(&numbers(1), 40, 3);
    let rotated = bench.evaluator.rotate(&a, 3, &bench.keys).unwrap();
    let hoisted = bench.evaluator.hoist(&a).unwrap().into_owned();
    drop(a);
    let found = bench.evaluator.rotate_hoisted(&hoisted, 3, &bench.keys).unwrap();
    assert!(
        crate::wire::encode_ckks_ciphertext(&found).unwrap() == crate::wire::encode_ckks_ciphertext(&rotated).unwrap()
    );
    let turn = bench.keys.take_rotation(3).unwrap();
    assert!(bench.evaluator.rotate_hoisted(&hoisted, 3, &turn).is_ok() && turn.only().is_some());
    assert!(bench.evaluator.rotate_hoisted(&hoisted, 3, &bench.keys).is_err());
}

#[test]
fn unlike_levels_and_scales_are_aligned_for_a_sum_and_alike_ones_stay() {
    let mut bench = bench();
    let x = numbers(3);
    let fresh = bench.encrypt(&x, 40, 4);
    let (evaluator, keys) = (&bench.evaluator, &bench.keys);
    let square = evaluator.mul_rescale(&fresh, &fresh, keys).unwrap();
    let fourth = evaluator.mul_rescale(&square, &square, keys).unwrap();
    let low = evaluator.to_level(&fresh, 3).unwrap();
    let [squares, fourths] = [2, 4].map(|k| x.iter().map(|x| x.powi(k)).collect::<Vec<f64>>());
    for (a, b, expected, level) in [
        (&fresh, &square, zip(&x, &squares, |a, b| a + b), 3),
        (&square, &fresh, zip(&x, &squares, |a, b| a + b), 3),
        (&fresh, &fourth, zip(&x, &fourths, |a, b| a + b), 2),
        (&fourth, &square, zip(&squares, &fourths, |a, b| a + b), 2),
        // two at one level lose one
        (&low, &square, zip(&x, &squares, |a, b| a + b), 2),
        (&fresh, &low, zip(&x, &x, |a, b| a + b), 3),
    ] {
        let (left, right) = evaluator.align(a, b).unwrap();
        let sum = evaluator.add(&left, &right).unwrap();
        assert_eq!(sum.level(), level);
        let error = bench.error(&sum, &expected);
        assert!(error < SMALL && error <= sum.estimate().unwrap().error(), "{error:e}");
    }
    let (left, right) = evaluator.align(&fresh, &fresh).unwrap();
    assert!(std::ptr::eq(&*left, &fresh) && std::ptr::eq(&*right, &fresh), "no copies");
    // no level is left for a change of scale
    let [one, other] = [&low, &square].map(|x| evaluator.to_level(x, 1).unwrap());
    let refused = evaluator.align(&one, &other).map(drop);
    assert_eq!(refused, Err(OperationError::Exhausted { least: 2, found: 1 }));
}

#[test]
fn sums_of_slots_are_cyclic_and_of_powers_of_two() {
    let mut bench = bench();
    for step in [2, 4, 8] {
        bench.keys.add_rotation(&bench.secret, step, 4, &mut bench.rng).unwrap();
    }
    let x = numbers(6);
    let a = bench.encrypt(&x, 40, 2);
    for count in [1, 2, 4, 16, 32] {
        let sum = bench.evaluator.sum_slots(&a, count, &bench.keys).unwrap();
        let expected: Vec<f64> = (0..32).map(|j| (0..count).map(|i| x[(j + i) % 32]).sum()).collect();
        let error = bench.error(&sum, &expected);
        assert!(error < SMALL && error <= sum.estimate().unwrap().error(), "{count}: {error:e}");
        assert!(sum.estimate().unwrap().magnitude() >= count as f64);
    }
    for found in [0, 3, 64] {
        let refused = bench.evaluator.sum_slots(&a, found, &bench.keys).map(drop);
        assert_eq!(refused, Err(OperationError::Count { most: 32, found }));
    }
    let none = EvaluationKeys::new(bench.evaluator.parameters());
    let refused = bench.evaluator.sum_slots(&a, 2, &none).map(drop);
    assert!(matches!(refused, Err(OperationError::MissingKey { purpose, level: 2, .. }) if purpose == "rotation by 1"));
    let low = bench.encrypt(&x, 40, 1);
    let doubled = bench.evaluator.mul_integer(&low, 40).unwrap();
    let refused = bench.evaluator.sum_slots(&doubled, 32, &bench.keys).map(drop);
    assert!(matches!(refused, Err(OperationError::Overflow { level: 1, .. })));
}

#[test]
fn three_parts_are_rescaled_with_the_error_of_three_roundings() {
    let mut bench = Bench::new(&[50, 30, 30]);
    let x = numbers(1);
    let a = bench.encrypt(&x, 30, 3);
    let product = bench.evaluator.rescale(&bench.evaluator.tensor(&a, &a).unwrap()).unwrap();
    assert!(product.needs_relinearization());
    let error = bench.error(&product, &zip(&x, &x, |a, b| a * b));
    assert!(error <= product.estimate().unwrap().error(), "{error:e}");
    let relinearised = bench.evaluator.mul_rescale(&a, &a, &bench.keys).unwrap();
    let errors = [&product, &relinearised].map(|one| one.estimate().unwrap().error());
    // the bound of a rounding of 64 coefficients, 13.9, times that of the secret, 39.2, squared
    assert!(errors[0] - errors[1] > 15_000.0 / 2f64.powi(30), "the square of the secret counts: {errors:?}");
}

#[test]
fn a_rescaling_that_hides_the_numbers_is_refused() {
    let mut bench = Bench::new(&[50, 30, 30]);
    let a = bench.encrypt(&[0.5; 32], 31, 3);
    // a scale just above 1
    let refused = bench.evaluator.rescale(&a).map(drop).unwrap_err();
    assert!(matches!(refused, OperationError::Rounding { magnitude: 1.0, error } if error > 1.0), "{refused}");
    assert!(refused.to_string().contains("rescale after a product"), "{refused}");
    let product = bench.evaluator.mul(&a, &a, &bench.keys).unwrap();
    assert!(bench.error(&bench.evaluator.rescale(&product).unwrap(), &[0.25; 32]) < 1e-4);
}

#[test]
fn a_lifted_plaintext_keeps_its_range_and_a_decryption_of_nothing_is_not_encrypted() {
    let mut bench = Bench::new(&[50, 40, 40]);
    let scale = Scale::power_of_two(30);
    let large = bench.encoder.encode(&[100.0], &scale, 1).unwrap();
    for level in [1, 3] {
        let refused = large.lift(level).unwrap().encrypt(&bench.public, &mut bench.rng).map(drop);
        assert_eq!(refused, Err(OperationError::Encode(EncodeError::Range { range: 1.0 })), "level {level}");
    }
    let one = bench.encoder.encode(&[0.5], &scale, 1).unwrap().lift(3).unwrap();
    let one = one.encrypt(&bench.public, &mut bench.rng).unwrap();
    assert_eq!((one.level(), one.estimate().unwrap().magnitude()), (3, 1.0));
    assert!(bench.error(&one, &[0.5, 0.0]) < 1e-4);
    let other = SecretKey::from_seed(bench.evaluator.parameters(), Seed::random(&mut bench.rng));
    let found = Decryptor::new(&other, &bench.encoder).unwrap().plaintext(&one).unwrap();
    let refused = found.encrypt(&bench.public, &mut bench.rng).map(drop);
    assert_eq!(refused, Err(OperationError::Encode(EncodeError::NoMessage)));
}

#[test]
fn a_range_below_zero_bounds_nothing() {
    let mut bench = bench();
    let mut x = bench.encrypt(&[0.5], 40, 3);
    for range in [-1000.0, f64::NAN, f64::NEG_INFINITY] {
        x.declare(range);
        assert_eq!(x.estimate().unwrap().magnitude(), f64::INFINITY);
        assert!(matches!(bench.evaluator.add(&x, &x).map(drop), Err(OperationError::Overflow { .. })), "{range}");
        assert!(bench.error(&x, &[0.5]) < SMALL);
        let mut again = x.clone();
        again.set_bounds(&x.bounds_to_bytes()).unwrap();
        assert_eq!(again.estimate(), x.estimate());
    }
}

#[test]
fn a_diagonal_is_an_ordinary_plaintext() {
    let mut bench = bench();
    let diagonal = bench.encoder.encode_diagonal(&[0.5, -1.0], &Scale::power_of_two(40), 3).unwrap();
    let x = diagonal.encrypt(&bench.public, &mut bench.rng).unwrap();
    assert!(bench.error(&x, &[0.5, -1.0, 0.0]) < SMALL);
    let x = diagonal.encrypt_seeded(&bench.secret, &mut bench.rng).unwrap().expand();
    assert!(bench.error(&x, &[0.5, -1.0, 0.0]) < SMALL);
}

#[test]
fn what_is_encoded_decrypts() {
    let mut bench = Bench::new(&[50, 40]);
    let half = bench.evaluator.parameters().ring().data_primes()[0].modulus().value() as f64 / 2.0;
    let scale = Scale::power_of_two(30);
    // all of the room, and a little more
    let most = half * 15.0 / 16.0 / 2f64.powi(30);
    let number = most * (1.0 - 1e-6);
    let x = bench.encoder.within(number).encode_constant(number, &scale, 1).unwrap();
    let x = x.encrypt(&bench.public, &mut bench.rng).unwrap();
    assert!(bench.error(&x, &[number; 32]) < 1e-3);
    let refused = bench.encoder.encode_constant(most * (1.0 + 1e-6), &scale, 1).map(drop);
    assert!(matches!(refused, Err(EncodeError::TooLarge { .. })));
}

#[test]
fn a_flooded_result_has_room_for_its_noise_or_is_none() {
    let mut bench = Bench::new(&[50, 40]);
    let scale = Scale::power_of_two(30);
    let half = bench.evaluator.parameters().ring().data_primes()[0].modulus().value() as f64 / 2.0;
    // noise of up to a quarter of the modulus
    let mut budget = FloodBudget::new(&bench.secret, 14, 28, 1).unwrap();
    assert_eq!(budget.flood_bits(), 47);
    let mut flood = |share: f64, declared: f64| {
        let number = share * half / 2f64.powi(30);
        let x = bench.encoder.within(number).encode_constant(number, &scale, 1).unwrap();
        let mut x = x.encrypt_seeded(&bench.secret, &mut bench.rng).unwrap().expand();
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        x.declare(declared);
        decryptor.flooded(&x, &mut budget, &mut bench.rng).map(drop)
    };
    // a declaration beyond the modulus lets the flood pass, and not the number beside it
    assert_eq!(flood(0.86, 1e9), Err(ReleaseError::NoMessage));
    assert!(matches!(flood(0.7, 3e6), Err(ReleaseError::Drowned { magnitude: 3e6, error: 3.6e6..3.7e6 })));
    assert!(matches!(flood(0.7, f64::NAN), Err(ReleaseError::Drowned { .. })));
    assert_eq!(flood(0.7, 1e9), Ok(()), "nothing was spent before");
    assert_eq!(flood(0.7, 1e9), Err(ReleaseError::Spent));
    // a ciphertext with more levels than these parameters have
    let (mut large, mut budget) = (self::bench(), FloodBudget::new(&bench.secret, 1, 1, 1).unwrap());
    let x = large.encrypt(&[0.5], 40, 4);
    let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
    let refused = decryptor.flooded(&x, &mut budget, &mut large.rng).map(drop);
    assert_eq!(refused, Err(ReleaseError::Operation(OperationError::OtherParameters)));
}

#[test]
fn a_grid_beyond_all_numbers_is_refused() {
    let mut bench = bench();
    let (a, p) = (bench.encrypt(&[0.5], 40, 3), bench.encoder.encode_diagonal(&[0.5], &Scale::prime(2), 3).unwrap());
    for (babies, giants) in [(usize::MAX, 2), (1 << 40, 1 << 40), (2, usize::MAX)] {
        let grid = Grid { baby: 1, babies, giant: 2, giants };
        let refused = bench.evaluator.transform_sum(&[&a], &[&p], grid, &[&bench.keys]).map(drop);
        assert!(matches!(refused, Err(OperationError::Grid { .. })), "{refused:?}");
    }
}
