//! Exact readings under encryption: every byte with every noise, functions of them, sums, and
//! products afterwards.

use crate::world::asked::Question;
use crate::world::{Keys, World, random, rng};
use chacha20::ChaCha20Rng;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tobari_device::{Opener, P1, Profile, READINGS, transform_root};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::{Modulus, Seed};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire::encode_evaluation_keys;
use tobari_plan::check::Requirements;
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::cost::Costs;
use tobari_plan::engine::{Direct, Machine};
use tobari_plan::site::Site;
use tobari_sense::analytics::{Moments, of_bytes};
use tobari_sense::client;
use tobari_sense::exact::{self, ExactPlan, Inputs, LINEAR_LEVELS, Measure, Output, PRODUCTS_SET, SET};
use tobari_sense::interpolation::Points;
use tobari_sense::linear::{PlanError, key_holder};
use tobari_sense::program::{Input, Transform, byte_function, readings};
use tobari_sense::server::{Batch, exact_slots};
use tobari_sense::setting::Setting;
use tobari_sense::{Arrangement, Layout, Overflow, ProfileName, Scheme};

/// The named set's primes at a degree that protects nothing: eight blocks, with slots for every
/// valid point.
fn toy() -> LatticeParameters {
    toy_of(SET)
}

fn toy_of(set: &str) -> LatticeParameters {
    let (set, t) = (NamedSet::from_name(set).unwrap(), Plaintext::Integers(Modulus::new(65_537).unwrap()));
    LatticeParameters::insecure_of_sizes(1 << 11, set.data, set.special, set.digits, t).unwrap()
}

fn transform() -> Transform {
    Transform::new(&Scheme::of::<P1>(), transform_root::<P1>()).unwrap()
}

/// A world under encryption, ready for programs.
struct Run {
    engine: BgvEngine,
    secret: SecretKey,
    inputs: Inputs<Arc<BgvValue>>,
}

impl Run {
    fn new(world: &World<P1>, plan: &ExactPlan, parameters: &LatticeParameters, rng: &mut ChaCha20Rng) -> Self {
        let secret = SecretKey::from_seed(parameters, Seed::random(rng));
        let engine = BgvEngine::new(parameters, None, rng).unwrap();
        let (secrets, transform, mut keys) = (world.secrets(&secret, rng), transform(), Keys::default());
        let inputs = Inputs::new(plan, engine.top_level(), |input| {
            if let Input::Secret { cohort, i } = input {
                return engine.ciphertext(secrets[cohort][i].expand()).map(Arc::new);
            }
            if let Some(key) = keys.of(&secret, input, rng) {
                return engine.key(key).map(Arc::new);
            }
            let slots = exact_slots(plan, &transform, &world.batches, input).unwrap();
            exact::plain(&engine, input, &slots).map(Arc::new)
        });
        Self { inputs: inputs.unwrap(), engine, secret }
    }

    fn slots(&self, value: &BgvValue) -> Vec<i64> {
        let ciphertext = value.as_ciphertext().unwrap();
        assert!(ciphertext.noise_budget() > 0.0, "{} bits", ciphertext.noise_budget());
        let encoder = Encoder::new(self.secret.parameters()).unwrap();
        encoder.decode(&Decryptor::new(&self.secret).unwrap().decrypt(ciphertext).unwrap()).unwrap()
    }
}

/// The plan's results, computed under encryption and decrypted.
fn opened(world: &World<P1>, plan: &ExactPlan, parameters: &LatticeParameters, seed: u64) -> Vec<client::Sums> {
    let run = Run::new(world, plan, parameters, &mut rng(seed));
    let results = exact::program(&mut Direct::new(&run.engine), plan, &run.inputs).unwrap();
    let open = |(output, result): (usize, &Arc<BgvValue>)| {
        client::exact(plan, output, &run.secret, result.as_ciphertext().unwrap()).unwrap()
    };
    results.iter().enumerate().map(open).collect()
}

#[test]
fn every_byte_with_every_noise_is_mapped_exactly_and_three_products_are_left() {
    let (parameters, mut rng) = (toy_of(PRODUCTS_SET), rng(1));
    let (scheme, secret) = (Scheme::of::<P1>(), SecretKey::from_seed(&parameters, Seed::random(&mut rng)));
    let points = Points::new(&scheme).unwrap();
    let (encoder, holder) = (Encoder::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
    let engine = BgvEngine::new(&parameters, None, &mut rng).unwrap();
    let level = engine.top_level() - LINEAR_LEVELS;
    let keys = EvaluationKeys::new(secret.parameters())
        .with_relinearization(&secret, usize::from(level) + 1, &mut rng)
        .unwrap();
    let key = Arc::new(engine.key(keys).unwrap());
    let pairs: Vec<(i64, i64)> = (0..256).flat_map(|m| (-3..=3).map(move |e| (m, e))).collect();
    let slots: Vec<i64> = pairs.iter().map(|(m, e)| 256 * m + e - points.centre()).collect();
    let fresh = encoder
        .encode(&slots)
        .unwrap()
        .encrypt_seeded(holder.key(), usize::from(level) + 1, &mut rng)
        .unwrap()
        .expand();
    let y = Arc::new(engine.ciphertext(fresh).unwrap());
    let mut machine = Direct::new(&engine);
    for measure in
        [Measure::Reading, Measure::Above(99), Measure::Within(17, 40), Measure::SquareHigh, Measure::SquareLow]
    {
        let (table, function) = (measure.table(), points.function(&measure.table()));
        let numbers = Arc::new(engine.compact(&function.coefficients, 3).unwrap());
        let mut value = byte_function(&mut machine, &y, (&function, &numbers), &key).unwrap();
        for power in [1u32, 2, 4, 8] {
            if power > 1 {
                value = machine.mul(&value, &value, &key).unwrap();
            }
            let found = value.as_ciphertext().unwrap();
            assert!(found.noise_budget() > 0.0 && holder.noise(found).unwrap() <= found.noise_bound(), "{measure:?}");
            let decoded = encoder.decode(&holder.decrypt(found).unwrap()).unwrap();
            for ((m, e), found) in pairs.iter().zip(decoded) {
                let expected = (0..power).fold(1, |product, _| product * table[*m as usize] % 65_537);
                assert_eq!(found.rem_euclid(65_537), expected, "{measure:?} of {m} with {e}, power {power}");
            }
        }
    }
}

fn by_block(measure: Measure, blocks: usize) -> Output {
    Output { measure, terms: vec![(0, vec![1; blocks])], by_block: true }
}

/// The readings under encryption, and three squarings of them.
fn three_products_follow(
    run: &Run,
    machine: &mut Direct<'_, BgvEngine>,
    layout: &Layout,
    plan: &ExactPlan,
    sent: &[[u8; READINGS]],
) {
    let points = run.inputs.points(machine, plan, 0).unwrap();
    let mut value = run.inputs.measure(machine, plan, 0, &points).unwrap();
    for power in [1u32, 2, 4, 8] {
        if power > 1 {
            value = machine.mul(&value, &value, run.inputs.relinearization()).unwrap();
        }
        let expected =
            readings(layout, |block, k| (0..power).fold(1, |product, _| product * i64::from(sent[block][k]) % 65_537));
        let found: Vec<i64> = run.slots(&value).iter().map(|value| value.rem_euclid(65_537)).collect();
        assert!(found == expected, "power {power}");
    }
}

#[test]
fn frames_come_out_as_their_readings_and_three_products_follow() {
    let parameters = toy_of(PRODUCTS_SET);
    let layout = Layout::new(&parameters, Arrangement::Strided).unwrap();
    assert_eq!(layout.blocks(), 8);
    let mut source = rng(2);
    let mut sent = [[0; READINGS]; 8];
    sent[1] = [255; READINGS];
    sent[2] = std::array::from_fn(|k| k as u8);
    sent[3..].iter_mut().for_each(|sent| *sent = random(&mut source));
    let mut world = World::<P1>::new(layout, 8);
    world.send(|device| Some(sent[device]));
    let plan = ExactPlan::new(world.scheme, layout, vec![0], vec![by_block(Measure::Reading, 8)]).unwrap();
    let run = Run::new(&world, &plan, &parameters, &mut rng(3));
    let mut machine = Direct::new(&run.engine);
    three_products_follow(&run, &mut machine, &layout, &plan, &sent);
    let results = exact::program(&mut machine, &plan, &run.inputs).unwrap();
    let sums = client::exact(&plan, 0, &run.secret, results[0].as_ciphertext().unwrap()).unwrap();
    assert_eq!(sums, sent.map(|sent| sent.map(i64::from)));
}

#[test]
fn counts_histograms_and_sums_of_groups_equal_the_plain_ones() {
    let parameters = toy();
    let layout = Layout::new(&parameters, Arrangement::Strided).unwrap();
    let mut source = rng(4);
    let sent: Vec<[u8; READINGS]> = (0..10).map(|_| random(&mut source)).collect();
    let mut world = World::<P1>::new(layout, 10);
    // two cohorts; device 2 is silent
    world.send(|device| (device != 2).then(|| sent[device]));
    let question = Question { groups: vec![(0..10).collect(), vec![1, 9]], ..Question::total(&world.fleet, 1) };
    let asked = question.ask(&world.fleet, |device, _| device != 2);
    let measures = [
        Measure::Reading,
        Measure::Above(200),
        Measure::Within(0, 63),
        Measure::Within(64, 255),
        Measure::SquareHigh,
        Measure::SquareLow,
    ];
    let outputs: Vec<Output> = measures.iter().flat_map(|measure| asked.measured(*measure)).collect();
    let plan = ExactPlan::new(world.scheme, layout, world.fleet.batches(1), outputs).unwrap();
    let found = opened(&world, &plan, &parameters, 5);
    let groups = [&[0, 1, 3, 4, 5, 6, 7, 8, 9][..], &[1, 9]];
    for (which, measure) in measures.iter().enumerate() {
        for (group, devices) in groups.iter().enumerate() {
            let table = measure.table();
            let expected: [i64; READINGS] =
                std::array::from_fn(|k| devices.iter().map(|device| table[usize::from(sent[*device][k])]).sum());
            assert_eq!(found[2 * which + group], [expected], "{measure:?} of group {group}");
        }
    }
    let k = 7;
    let moments = Moments::of(9, found[0][0][k].into(), of_bytes([found[8][0][k], found[10][0][k]]));
    let squares: i128 = groups[0].iter().map(|device| i128::from(sent[*device][k]).pow(2)).sum();
    assert_eq!(moments.squares, squares);
}

#[test]
fn what_is_computed_in_the_clear_is_what_is_computed_under_encryption() {
    let parameters = toy();
    let layout = Layout::new(&parameters, Arrangement::Strided).unwrap();
    let mut source = rng(6);
    let sent: Vec<[u8; READINGS]> = (0..8).map(|_| random(&mut source)).collect();
    let mut world = World::<P1>::new(layout, 8);
    world.send(|device| Some(sent[device]));
    let outputs = vec![
        by_block(Measure::Above(127), 8),
        Output { measure: Measure::Reading, terms: vec![(0, vec![3, 0, -2, 1, 0, 0, 1, 7])], by_block: false },
    ];
    let plan = ExactPlan::new(world.scheme, layout, vec![0], outputs).unwrap();
    let clear = ClearEngine { arithmetic: Arithmetic::Modulo(65_537), rows: 2, columns: layout.columns() };
    let secrets = clear_secrets(&world, 0);
    let run = Run::new(&world, &plan, &parameters, &mut rng(7));
    let inputs = Inputs::new(&plan, run.engine.top_level(), |input| {
        let slots = match input {
            Input::Secret { i, .. } => Some(secrets[i].clone()),
            other => exact_slots(&plan, &transform(), &world.batches, other),
        };
        let value = slots.map_or(ClearValue::Key, |slots| clear.integers(&slots).unwrap());
        Ok::<_, PlanError>(Arc::new(value))
    })
    .unwrap();
    let expected = exact::program(&mut Direct::new(&clear), &plan, &inputs).unwrap();
    let found = exact::program(&mut Direct::new(&run.engine), &plan, &run.inputs).unwrap();
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(**expected, ClearValue::Integers(run.slots(found)));
    }
    // the recorded program has the same inputs, and one output for each of the plan's
    let (program, all) = exact::record(&run.engine, &plan).unwrap();
    assert_eq!((program.outputs().len(), program.inputs().len()), (2, all.len()));
    let names = program.steps().iter().map(|step| step.op.name());
    assert_eq!(names.filter(|name| *name == "polynomial").count(), 2);
    // a server without keys may run it, also in a quarter of the memory
    for part in [1, 4] {
        let site = Site::blind("cloud", 1, program.bytes()[0] / part);
        let planned = tobari_plan::plan::plan(program.clone(), site, &Costs::unmeasured()).unwrap();
        assert!(planned.check(&Requirements::default()).is_ok());
    }
    let holder = Site { keys: vec![key_holder()], ..Site::blind("key holder's process", 1, u64::MAX) };
    let refused = tobari_plan::plan::plan(program, holder, &Costs::unmeasured());
    assert!(refused.is_err() || refused.is_ok_and(|plan| plan.check(&Requirements::default()).is_err()));
}

/// The plan's results by output, computed on plaintext. The same computation under encryption takes
/// seconds for each batch.
fn in_the_clear(world: &World<P1>, plan: &ExactPlan) -> Vec<[i64; READINGS]> {
    let layout = plan.layout();
    let clear = ClearEngine { arithmetic: Arithmetic::Modulo(65_537), rows: 2, columns: layout.columns() };
    let transform = transform();
    let inputs = Inputs::new(plan, toy().data_primes() as u16 - 1, |input| {
        let slots = match input {
            Input::Secret { cohort, i } => Some(clear_secrets(world, cohort)[i].clone()),
            other => exact_slots(plan, &transform, &world.batches, other),
        };
        Ok::<_, PlanError>(Arc::new(slots.map_or(ClearValue::Key, |slots| clear.integers(&slots).unwrap())))
    });
    let results = exact::program(&mut Direct::new(&clear), plan, &inputs.unwrap()).unwrap();
    let sums = results.iter().map(|result| {
        let ClearValue::Integers(slots) = &**result else { panic!("integers") };
        exact::of_block(layout, slots, 0).map(|sum| sum.rem_euclid(65_537))
    });
    sums.collect()
}

#[test]
fn every_measure_of_1_2_254_and_255_devices_equals_the_plain_one_in_the_clear() {
    let layout = Layout::new(&toy(), Arrangement::Strided).unwrap();
    let measures = [
        Measure::Reading,
        Measure::Above(199),
        Measure::Within(0, 63),
        Measure::Within(64, 255),
        Measure::SquareHigh,
        Measure::SquareLow,
    ];
    let mut source = rng(11);
    for devices in [1, 2, 254, 255] {
        let mut sent: Vec<[u8; READINGS]> = (0..devices).map(|_| random(&mut source)).collect();
        // a third of the places at the top of the range, a third at the bottom
        sent.iter_mut().for_each(|sent| {
            sent[..READINGS / 3].fill(255);
            sent[READINGS / 3..2 * READINGS / 3].fill(0);
        });
        let mut world = World::<P1>::new(layout, devices);
        world.send(|device| Some(sent[device]));
        let asked = Question::total(&world.fleet, 1).ask(&world.fleet, |_, _| true);
        let outputs = measures.iter().flat_map(|measure| asked.measured(*measure)).collect();
        let plan = ExactPlan::new(world.scheme, layout, world.fleet.batches(1), outputs).unwrap();
        let mut found = in_the_clear(&world, &plan).into_iter();
        for measure in measures {
            let table = measure.table();
            let expected: [i64; READINGS] =
                std::array::from_fn(|k| sent.iter().map(|sent| table[usize::from(sent[k])]).sum());
            assert_eq!(found.next(), Some(expected), "{measure:?} of {devices}");
        }
        assert_eq!(found.next(), None);
    }
}

/// The named set, and this many devices: half of the places at full scale, the others random.
fn at_full_scale(devices: usize, seed: u64) -> (LatticeParameters, World<P1>, Vec<[u8; READINGS]>) {
    let parameters = NamedSet::from_name(SET).unwrap().parameters().unwrap();
    let mut source = rng(seed);
    let mut sent: Vec<[u8; READINGS]> = (0..devices).map(|_| random(&mut source)).collect();
    sent.iter_mut().for_each(|sent| sent[..READINGS / 2].fill(255));
    let mut world = World::<P1>::new(Layout::new(&parameters, Arrangement::Strided).unwrap(), devices);
    world.send(|device| Some(sent[device]));
    (parameters, world, sent)
}

/// Under encryption, the number of devices that read more than 127, and sums in parts of `part`
/// devices, equal the plaintext ones.
fn counted_and_summed(devices: usize, part: usize, seed: u64) {
    let (parameters, world, sent) = at_full_scale(devices, seed);
    let total = Question::total(&world.fleet, 1);
    let counted = total.ask(&world.fleet, |_, _| true);
    let summed = Question { part: Some(part), ..total }.ask(&world.fleet, |_, _| true);
    let outputs = counted.measured(Measure::Above(127)).chain(summed.measured(Measure::Reading)).collect();
    let plan = ExactPlan::new(world.scheme, world.layout, world.fleet.batches(1), outputs).unwrap();
    let found: Vec<[i64; READINGS]> =
        opened(&world, &plan, &parameters, seed + 1).into_iter().map(|sums| sums[0]).collect();
    let column = |k: usize| sent.iter().map(move |sent| i64::from(sent[k]));
    assert_eq!(found.len(), 1 + devices.div_ceil(part));
    for k in 0..READINGS {
        assert_eq!(found[0][k], column(k).filter(|reading| *reading > 127).count() as i64, "count of reading {k}");
        for (number, (found, sent)) in found[1..].iter().zip(sent.chunks(part)).enumerate() {
            let expected: i64 = sent.iter().map(|sent| i64::from(sent[k])).sum();
            assert_eq!(found[k], expected, "part {number} of reading {k}");
        }
    }
    assert_eq!((found[0][0], found[1][0]), (devices as i64, 255 * part.min(devices) as i64));
}

#[test]
fn a_count_and_sums_over_255_devices_equal_the_plain_ones_under_encryption() {
    counted_and_summed(255, 255, 13);
}

/// 79 batches of several seconds each: `cargo xtask soak sense-exact`.
#[test]
#[ignore = "minutes, and gigabytes of memory: cargo xtask soak sense-exact"]
fn a_count_over_ten_thousand_devices_and_sums_in_parts_of_257_equal_the_plain_ones_under_encryption() {
    counted_and_summed(10_000, 257, 15);
}

/// The transforms of a cohort's secrets, by polynomial.
fn clear_secrets(world: &World<P1>, cohort: usize) -> Vec<Vec<i64>> {
    let mut secrets = vec![vec![0; world.layout.slots()]; P1::RANK];
    for (block, root) in world.roots.iter().skip(cohort * world.fleet.blocks).take(world.fleet.blocks).enumerate() {
        Opener::<P1>::new(root).for_each_secret(|i, place, s| {
            secrets[i][world.layout.slot(block, tobari_sense::layout::of_place(place))] = s.into();
        });
    }
    secrets
}

#[test]
fn sums_that_would_wrap_are_refused_when_they_are_planned() {
    let parameters = toy();
    let layout = Layout::new(&parameters, Arrangement::Strided).unwrap();
    let scheme = Scheme::of::<P1>();
    let of = |devices: i64, measure| {
        let batches = (devices + 7) / 8;
        let term = |batch: i64| (batch as usize, (0..8).map(|block| i64::from(8 * batch + block < devices)).collect());
        let terms = (0..batches).map(term).collect();
        let outputs = vec![Output { measure, terms, by_block: false }];
        ExactPlan::new(scheme, layout, vec![0; batches as usize], outputs).map(|_| ())
    };
    assert!(
        of(257, Measure::Reading).is_ok()
            && of(263, Measure::SquareLow).is_ok()
            && of(65_536, Measure::Above(3)).is_ok()
    );
    for (devices, measure) in [(258, Measure::Reading), (264, Measure::SquareLow), (65_537, Measure::Above(3))] {
        assert!(matches!(of(devices, measure), Err(PlanError::Overflow(Overflow::Range { .. }))), "{devices}");
    }
    let bad = |terms: Vec<(usize, Vec<i64>)>| {
        let outputs = vec![Output { measure: Measure::Reading, terms, by_block: true }];
        matches!(ExactPlan::new(scheme, layout, vec![0], outputs), Err(PlanError::Shape { .. }))
    };
    assert!(bad(vec![]) && bad(vec![(1, vec![1; 8])]) && bad(vec![(0, vec![1; 7])]));
    assert!(bad(vec![(0, vec![1; 8]), (0, vec![1; 8])]));
}

/// HMAC-SHA-256 from its definition.
fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let pad = |with: u8| -> [u8; 64] { std::array::from_fn(|i| key.get(i).copied().unwrap_or(0) ^ with) };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[test]
fn a_device_that_sends_a_point_between_the_valid_ones_is_taken_and_moves_the_sum() {
    let parameters = toy();
    let layout = Layout::new(&parameters, Arrangement::Strided).unwrap();
    let mut world = World::<P1>::new(layout, 1);
    let mut frame = P1::EMPTY;
    world.devices[0].seal(&[10; READINGS], &mut frame).unwrap();
    // adds Δ/2 to the first coefficient, under the right key
    let word = u32::from(u16::from_le_bytes([frame[24], frame[25]]));
    let moved = ((word + 128) % 65_537) as u16;
    assert!(word != 0 && moved != 0, "no zero word in this frame");
    frame[24..26].copy_from_slice(&moved.to_le_bytes());
    let tag = hmac(&world.roots[0].mac_key::<P1>(), &frame[..553 - 16]);
    frame[553 - 16..].copy_from_slice(&tag[..16]);
    let envelope = world.ingest.take(&frame).unwrap();
    assert_eq!(world.ingest.refused(), Default::default(), "nobody but the key holder could tell");
    assert_eq!(Opener::<P1>::new(&world.roots[0]).open(&envelope).unwrap_err().coefficients, 1);
    let mut batch = Batch::new(&world.scheme, layout).unwrap();
    assert!(batch.put(0, &envelope));
    world.batches.push(batch);
    let outputs = vec![Output {
        measure: Measure::Reading,
        terms: vec![(0, (0..8).map(|block| i64::from(block == 0)).collect())],
        by_block: true,
    }];
    let plan = ExactPlan::new(world.scheme, layout, vec![0], outputs).unwrap();
    let run = Run::new(&world, &plan, &parameters, &mut rng(8));
    let results = exact::program(&mut Direct::new(&run.engine), &plan, &run.inputs).unwrap();
    let found = exact::of_block(&layout, &run.slots(&results[0]), 0);
    assert!(found[1..].iter().all(|reading| *reading == 10));
    assert!(found[0] != 10 && found[0] != 11, "the polynomial is anything there: {}", found[0]);
}

/// A batch of 128 devices in a ring of the named set.
fn full_batch(set: &str, outputs: Vec<Output>) -> (Run, ExactPlan, Vec<[u8; READINGS]>) {
    let parameters = NamedSet::from_name(set).unwrap().parameters().unwrap();
    let layout = Layout::new(&parameters, Arrangement::Strided).unwrap();
    assert_eq!(layout.blocks(), 128);
    let mut source = rng(9);
    let sent: Vec<[u8; READINGS]> = (0..128).map(|_| random(&mut source)).collect();
    let mut world = World::<P1>::new(layout, 128);
    world.send(|device| Some(sent[device]));
    let plan = ExactPlan::new(world.scheme, layout, vec![0], outputs).unwrap();
    (Run::new(&world, &plan, &parameters, &mut rng(10)), plan, sent)
}

#[test]
fn the_named_set_converts_a_full_batch_and_three_products_follow() {
    let (run, plan, sent) = full_batch(PRODUCTS_SET, vec![by_block(Measure::Reading, 128)]);
    let mut machine = Direct::new(&run.engine);
    three_products_follow(&run, &mut machine, plan.layout(), &plan, &sent);
}

#[test]
fn the_set_of_fleets_converts_a_full_batch_and_sums_it() {
    let output = |measure, by_block| Output { measure, terms: vec![(0, vec![1; 128])], by_block };
    let outputs = vec![output(Measure::Reading, true), output(Measure::Above(99), false)];
    let (run, plan, sent) = full_batch(SET, outputs);
    let results = exact::program(&mut Direct::new(&run.engine), &plan, &run.inputs).unwrap();
    for (output, result) in results.iter().enumerate() {
        let result = result.as_ciphertext().unwrap();
        assert!(result.level() == 2 && result.noise_budget() > 10.0, "{} bits", result.noise_budget());
        let found = client::exact(&plan, output, &run.secret, result).unwrap();
        match output {
            0 => assert!(
                found.iter().zip(&sent).all(|(sums, sent)| sums.iter().zip(sent).all(|(a, b)| *a == i64::from(*b)))
            ),
            _ => {
                let expected: [i64; READINGS] =
                    std::array::from_fn(|k| sent.iter().map(|sent| i64::from(sent[k] > 99)).sum());
                assert_eq!(found, [expected]);
            }
        }
    }
}

/// What a key holder sends: two rotations by slots of devices, the key of products, and three for
/// sums of blocks.
#[test]
fn the_keys_of_a_fleet_are_below_40_megabytes() {
    let setting = Setting::of(ProfileName::P17).unwrap();
    let secret = SecretKey::from_seed(&setting.parameters, Seed::random(&mut rng(1)));
    let bytes = |input| encode_evaluation_keys(&client::key(&secret, input, &mut rng(2)).unwrap()).len();
    let all: usize = setting.keys().unwrap().into_iter().map(bytes).sum();
    assert!((30_000_000..40_000_000).contains(&all), "{all} bytes");
}
