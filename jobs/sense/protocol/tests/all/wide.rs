//! Frames of 25 bits on the exact path: sums beyond 65,537, and products. Other tests sum such
//! frames straight.

use crate::world::{Keys, World, random, rng};
#[allow(dead_code, reason = "every test of a world uses its own part")]
use chacha20::ChaCha20Rng;
use std::sync::Arc;
use tobari_device::{Profile, READINGS, U25, transform_root};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::{Modulus, Seed};
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::engine::{Direct, Machine};
use tobari_sense::client;
use tobari_sense::exact::{self, ExactPlan, Inputs, LINEAR_LEVELS, Measure, Output, WIDE_SET};
use tobari_sense::interpolation::Points;
use tobari_sense::linear::{self, PlanError};
use tobari_sense::program::{Input, Transform, byte_function, readings};
use tobari_sense::server::exact_slots;
use tobari_sense::{Arrangement, Layout, Overflow, Scheme};

const Q: i64 = U25::MODULUS as i64;

/// The named set's primes at a degree that protects nothing: eight blocks.
fn toy() -> LatticeParameters {
    let (set, t) = (NamedSet::from_name(WIDE_SET).unwrap(), Plaintext::Integers(Modulus::new(Q as u64).unwrap()));
    LatticeParameters::insecure_of_sizes(1 << 11, set.data, set.special, set.digits, t).unwrap()
}

fn slots(secret: &SecretKey, value: &BgvValue) -> Vec<i64> {
    let ciphertext = value.as_ciphertext().unwrap();
    let holder = Decryptor::new(secret).unwrap();
    assert!(ciphertext.noise_budget() > 0.0, "{} bits", ciphertext.noise_budget());
    assert!(holder.noise(ciphertext).unwrap() <= ciphertext.noise_bound());
    Encoder::new(secret.parameters()).unwrap().decode(&holder.decrypt(ciphertext).unwrap()).unwrap()
}

fn inputs(
    world: &World<U25>,
    plan: &ExactPlan,
    engine: &BgvEngine,
    secret: &SecretKey,
    rng: &mut ChaCha20Rng,
) -> Inputs<Arc<BgvValue>> {
    let transform = Transform::new(&Scheme::of::<U25>(), transform_root::<U25>()).unwrap();
    let (secrets, mut keys) = (world.secrets(secret, rng), Keys::default());
    let made = Inputs::new(plan, engine.top_level(), |input| {
        if let Input::Secret { cohort, i } = input {
            return engine.ciphertext(secrets[cohort][i].expand()).map(Arc::new);
        }
        if let Some(key) = keys.of(secret, input, rng) {
            return engine.key(key).map(Arc::new);
        }
        exact::plain(engine, input, &exact_slots(plan, &transform, &world.batches, input).unwrap()).map(Arc::new)
    });
    made.unwrap()
}

fn conversion(parameters: &LatticeParameters, seed: u64) {
    let layout = Layout::new(parameters, Arrangement::Strided).unwrap();
    let (blocks, mut source) = (layout.blocks(), rng(seed));
    let sent: Vec<[u8; READINGS]> = (0..blocks)
        .map(|block| match block {
            0 => [0; READINGS],
            1 => [255; READINGS],
            _ => random(&mut source),
        })
        .collect();
    let mut world = World::<U25>::new(layout, blocks);
    world.send(|device| Some(sent[device]));
    // a sum beyond 65,537, and readings that stay apart
    let heavy: Vec<i64> = (0..blocks as i64).map(|block| 100 * (block % 7) - 50).collect();
    let outputs = vec![
        Output { measure: Measure::Reading, terms: vec![(0, vec![1; blocks])], by_block: true },
        Output { measure: Measure::SquareHigh, terms: vec![(0, heavy.clone())], by_block: false },
    ];
    let plan = ExactPlan::new(world.scheme, layout, vec![0], outputs).unwrap();
    let secret = SecretKey::from_seed(parameters, Seed::random(&mut source));
    let engine = BgvEngine::new(parameters, None, &mut source).unwrap();
    assert_eq!(exact::record(&engine, &plan).unwrap().0.outputs().len(), 2);
    let inputs = inputs(&world, &plan, &engine, &secret, &mut source);
    let mut machine = Direct::new(&engine);
    let results = exact::program(&mut machine, &plan, &inputs).unwrap();
    let open = |output: usize| client::exact(&plan, output, &secret, results[output].as_ciphertext().unwrap()).unwrap();
    assert!(open(0).iter().zip(&sent).all(|(found, sent)| *found == sent.map(i64::from)));
    let expected: [i64; READINGS] = std::array::from_fn(|k| {
        sent.iter().zip(&heavy).map(|(sent, weight)| weight * (i64::from(sent[k]).pow(2) >> 8)).sum()
    });
    assert_eq!(open(1), [expected]);
    // three products of converted readings
    let points = inputs.points(&mut machine, &plan, 0).unwrap();
    let mut value = inputs.measure(&mut machine, &plan, 0, &points).unwrap();
    for power in [2u32, 4, 8] {
        value = machine.mul(&value, &value, inputs.relinearization()).unwrap();
        let expected =
            readings(&layout, |block, k| (0..power).fold(1, |product, _| product * i64::from(sent[block][k]) % Q));
        let found: Vec<i64> = slots(&secret, &value).iter().map(|value| value.rem_euclid(Q)).collect();
        assert!(found == expected, "power {power}");
    }
}

#[test]
fn frames_of_25_bits_come_out_as_their_readings_and_three_products_follow() {
    conversion(&toy(), 1);
}

#[test]
fn the_named_set_converts_a_full_batch_of_256_devices() {
    let parameters = NamedSet::from_name(WIDE_SET).unwrap().parameters().unwrap();
    assert_eq!(Layout::new(&parameters, Arrangement::Strided).map(|layout| layout.blocks()), Some(256));
    conversion(&parameters, 4);
}

/// At the degree of the set, where rounding leaves most noise: starts from a phase with as much
/// noise as a rounding leaves.
#[test]
fn the_polynomial_of_25_bits_is_exact_at_every_valid_point_with_the_sets_own_noise_and_three_products_are_left() {
    let parameters = NamedSet::from_name(WIDE_SET).unwrap().parameters().unwrap();
    let (scheme, mut rng) = (Scheme::of::<U25>(), rng(2));
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let (encoder, holder) = (Encoder::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
    let engine = BgvEngine::new(&parameters, None, &mut rng).unwrap();
    let level = engine.top_level() - LINEAR_LEVELS;
    let primes = usize::from(level) + 2;
    let keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, primes, &mut rng).unwrap();
    let key = Arc::new(engine.key(keys).unwrap());
    let points = Points::new(&scheme).unwrap();
    let pairs: Vec<(i64, i64)> = (0..256).flat_map(|m| (-3..=3).map(move |e| (m, e))).collect();
    let at: Vec<i64> = pairs.iter().map(|(m, e)| scheme.delta * m + e - points.centre()).collect();
    let fresh = |slots: &[i64], rng: &mut ChaCha20Rng| {
        let fresh = encoder.encode(slots).unwrap().encrypt_seeded(holder.key(), primes, rng).unwrap().expand();
        Arc::new(engine.ciphertext(fresh).unwrap())
    };
    let (y, one) = (fresh(&at, &mut rng), fresh(&vec![1; at.len()], &mut rng));
    let mut machine = Direct::new(&engine);
    // a product, so that the noise is that of a rounding
    let y = machine.mul(&y, &one, &key).unwrap();
    let table = Measure::Above(99).table();
    let function = points.function(&table);
    let numbers = Arc::new(engine.compact(&function.coefficients, 3).unwrap());
    let mut value = byte_function(&mut machine, &y, (&function, &numbers), &key).unwrap();
    for power in [1u32, 2, 4, 8] {
        if power > 1 {
            value = machine.mul(&value, &value, &key).unwrap();
        }
        let found = slots(&secret, &value);
        assert!(pairs.iter().zip(&found).all(|((m, _), found)| *found == table[*m as usize]), "power {power}");
    }
}

#[test]
fn parameters_that_do_not_fit_frames_are_refused_with_the_reason_when_a_program_is_written_down() {
    let engine = |set: &str| {
        let set = NamedSet::from_name(set).unwrap();
        let t = Plaintext::Integers(Modulus::new(set.plaintext_modulus.unwrap()).unwrap());
        let parameters = LatticeParameters::insecure_of_sizes(1 << 11, set.data, set.special, set.digits, t).unwrap();
        BgvEngine::new(&parameters, None, &mut rng(3)).unwrap()
    };
    let layout = Layout::new(&toy(), Arrangement::Strided).unwrap();
    let plan = |weight: i64| {
        let outputs = vec![Output { measure: Measure::Reading, terms: vec![(0, vec![weight; 8])], by_block: false }];
        ExactPlan::new(Scheme::of::<U25>(), layout, vec![0], outputs)
    };
    let few = exact::record(&engine(linear::SET), &plan(1).unwrap()).unwrap_err();
    assert!(matches!(few, PlanError::Levels { least: 15, found: 1 }), "{few}");
    let other = exact::record(&engine(exact::SET), &plan(1).unwrap()).unwrap_err();
    assert!(matches!(other, PlanError::Modulus { expected: 33_292_289 }), "{other}");
    assert!(plan(16_319).is_ok() && matches!(plan(16_320), Err(PlanError::Overflow(Overflow::Range { .. }))));
}
