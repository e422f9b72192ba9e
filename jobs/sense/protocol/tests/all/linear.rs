//! Sums straight from frames: they equal the plaintext sums, are rejected if they could overflow,
//! and are distinguished from invalid results.

use crate::world::asked::{Asked, Fleet, Question, sliding};
use crate::world::{Keys, World, random, rng};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use std::sync::Arc;
use tobari_device::{Opener, Profile, READINGS, Refused, U25};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::bgv::{Ciphertext, Evaluator};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::{Modulus, Seed};
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::check::Requirements;
use tobari_plan::cost::Costs;
use tobari_plan::engine::Direct;
use tobari_plan::site::Site;
use tobari_sense::analytics::{Moments, covariance, of_bytes};
use tobari_sense::client::{self, Withheld};
use tobari_sense::linear::{self, Inputs, LinearPlan, Output, PlanError, SET, Term};
use tobari_sense::program::Input;
use tobari_sense::server::{RefusedFrames, linear_slots};
use tobari_sense::{Arrangement, Layout, Overflow, Scheme};

/// Eight blocks, with as many bits as the real set has.
fn toy() -> LatticeParameters {
    let t = Plaintext::Integers(Modulus::new(u64::from(U25::MODULUS)).unwrap());
    LatticeParameters::insecure_of_sizes(1 << 11, &[50, 50], &[50], 2, t).unwrap()
}

fn plan(world: &World<U25>, asked: &Asked, most: u8) -> Result<LinearPlan, PlanError> {
    LinearPlan::new(world.scheme, world.layout, asked.terms.clone(), asked.outputs.clone(), most)
}

/// The results of a plan, computed under encryption.
fn run(world: &World<U25>, plan: &LinearPlan, secret: &SecretKey, rng: &mut ChaCha20Rng) -> Vec<Arc<BgvValue>> {
    let engine = BgvEngine::new(secret.parameters(), None, rng).unwrap();
    let (secrets, mut keys) = (world.secrets(secret, rng), Keys::default());
    let value = |input: Input| {
        if let Input::Secret { cohort, i } = input {
            return engine.ciphertext(secrets[cohort][i].expand()).map(Arc::new);
        }
        if let Some(key) = keys.of(secret, input, rng) {
            return engine.key(key).map(Arc::new);
        }
        let slots = linear_slots(plan, &world.batches, input).unwrap();
        engine.compact(&slots, engine.top_level()).map(Arc::new)
    };
    let inputs = Inputs::new(plan, engine.top_level(), value).unwrap();
    linear::program(&mut Direct::new(&engine), plan, &inputs).unwrap()
}

fn sums(
    world: &World<U25>,
    plan: &LinearPlan,
    rng: &mut ChaCha20Rng,
    parameters: &LatticeParameters,
) -> Vec<client::Sums> {
    let secret = SecretKey::from_seed(parameters, Seed::random(rng));
    let results = run(world, plan, &secret, rng);
    let open = |(output, result): (usize, &Arc<BgvValue>)| {
        client::linear::<U25>(plan, output, &secret, result.as_ciphertext().unwrap()).unwrap()
    };
    results.iter().enumerate().map(open).collect()
}

/// The reference: sums of columns of plaintext readings.
fn plain(readings: &[[u8; READINGS]], weight: impl Fn(usize) -> i64) -> [i64; READINGS] {
    std::array::from_fn(|k| readings.iter().enumerate().map(|(d, m)| weight(d) * i64::from(m[k])).sum())
}

#[test]
fn sums_equal_the_plain_ones_for_every_number_of_devices_up_to_the_bound() {
    let (parameters, mut rng) = (toy(), rng(1));
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    for devices in [1, 2, 8, 9, 254] {
        for extreme in [None, Some(0), Some(255)] {
            let readings: Vec<[u8; READINGS]> =
                (0..devices).map(|_| extreme.map_or_else(|| random(&mut rng), |m| [m; READINGS])).collect();
            let mut world = World::<U25>::new(layout, devices);
            world.send(|device| Some(readings[device]));
            let asked = Question::total(&world.fleet, 1).ask(&world.fleet, |_, _| true);
            let plan = plan(&world, &asked, 255).unwrap();
            let found = sums(&world, &plan, &mut rng, &parameters);
            assert_eq!(found, [vec![plain(&readings, |_| 1)]], "{devices} devices at {extreme:?}");
            assert_eq!(world.ingest.refused(), RefusedFrames::default());
        }
    }
}

#[test]
fn one_device_more_is_refused_when_it_is_planned_and_declared_parts_are_not() {
    let parameters = toy();
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    for devices in [255, 256, 10_000] {
        let world = World::<U25>::new(layout, 0);
        let fleet = Fleet { devices, ..world.fleet };
        let asked = Question::total(&fleet, 1).ask(&fleet, |_, _| true);
        let refused = plan(&world, &asked, 255).unwrap_err();
        assert!(matches!(refused, PlanError::Overflow(Overflow::Range { .. } | Overflow::Noise { .. })), "{refused}");
        let parts = Question { part: Some(254), ..Question::total(&fleet, 1) }.ask(&fleet, |_, _| true);
        let plan = plan(&world, &parts, 255).unwrap();
        assert_eq!(plan.outputs().len(), devices.div_ceil(254));
    }
}

#[test]
fn ten_thousand_devices_are_summed_exactly_in_declared_parts() {
    let (parameters, mut rng) = (toy(), rng(2));
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    let mut world = World::<U25>::new(layout, 10_000);
    let readings: Vec<[u8; READINGS]> =
        (0..10_000).map(|device| if device % 3 == 0 { [255; READINGS] } else { random(&mut rng) }).collect();
    world.send(|device| Some(readings[device]));
    let question = Question { part: Some(254), ..Question::total(&world.fleet, 1) };
    let asked = question.ask(&world.fleet, |_, _| true);
    let plan = plan(&world, &asked, 255).unwrap();
    let found = sums(&world, &plan, &mut rng, &parameters);
    let mut total = [0; READINGS];
    for part in &found[asked.answers[0].outputs.clone()] {
        total.iter_mut().zip(&part[0]).for_each(|(total, part)| *total += part);
    }
    assert_eq!((total, asked.answers[0].count), (plain(&readings, |_| 1), 10_000));
}

#[test]
fn weights_groups_and_windows_equal_the_plain_ones_with_devices_missing() {
    let (parameters, mut rng) = (toy(), rng(3));
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    let (devices, times) = (13, 5);
    let mut world = World::<U25>::new(layout, devices);
    let present = |device: usize, time: usize| !(device * 7 + time).is_multiple_of(5);
    let readings: Vec<Vec<[u8; READINGS]>> =
        (0..times).map(|_| (0..devices).map(|_| random(&mut rng)).collect()).collect();
    for (time, readings) in readings.iter().enumerate() {
        world.send(|device| present(device, time).then(|| readings[device]));
    }
    let weights: Vec<i64> = (0..devices as i64).map(|device| device * 3 % 7 - 3).collect();
    let question = Question {
        groups: vec![(0..devices).collect(), vec![2, 3, 11], vec![12]],
        windows: sliding(times, 2, 1),
        weights: Some(weights.clone()),
        part: None,
    };
    let asked = question.ask(&world.fleet, present);
    let plan = plan(&world, &asked, 255).unwrap();
    let found = sums(&world, &plan, &mut rng, &parameters);
    assert!(asked.answers.len() > 10);
    let engine = BgvEngine::new(&parameters, None, &mut rng).unwrap();
    let (program, inputs) = linear::record(&engine, &plan).unwrap();
    assert_eq!((program.outputs().len(), program.inputs().len()), (asked.outputs.len(), inputs.len()));
    let site = Site::blind("cloud", 1, program.bytes()[0] / 3);
    let planned = tobari_plan::plan::plan(program, site, &Costs::unmeasured()).unwrap();
    assert!(planned.check(&Requirements::default()).is_ok(), "a server without keys may run it");
    for answer in &asked.answers {
        let (group, window) = (&question.groups[answer.group], question.windows[answer.window].clone());
        let mut expected = [0; READINGS];
        let mut count = 0;
        for (device, time) in group.iter().flat_map(|device| window.clone().map(move |time| (*device, time))) {
            if present(device, time) {
                count += 1;
                expected
                    .iter_mut()
                    .zip(readings[time][device])
                    .for_each(|(sum, m)| *sum += weights[device] * i64::from(m));
            }
        }
        assert_eq!((&found[answer.outputs.start][0], answer.count), (&expected, count));
    }
}

/// Phases of frames as devices make them, `512 m + e`, and phases with a step of 511.
#[test]
fn sums_of_255_devices_at_full_scale_are_exact_with_a_step_of_511_and_wrap_with_512() {
    let scheme = Scheme::of::<U25>();
    let finer = Scheme { delta: 511, ..scheme };
    let one = || std::iter::repeat_n(1, 255);
    let range = finer.linear(one(), 255).unwrap();
    assert!(matches!(scheme.linear(one(), 255), Err(Overflow::Range { .. })));
    let layout = Layout::new(&toy(), Arrangement::Contiguous).unwrap();
    let mut world = World::<U25>::new(layout, 255);
    let mut source = rng(8);
    for readings in [[255; READINGS], [0; READINGS], random(&mut source)] {
        let (mut coarse, mut fine) = ([0; READINGS], [0; READINGS]);
        for device in 0..255 {
            let mut frame = U25::EMPTY;
            world.devices[device].seal(&readings, &mut frame).unwrap();
            let phase = Opener::<U25>::new(&world.roots[device]).phase(&world.ingest.take(&frame).unwrap());
            for (k, phase) in phase.iter().enumerate() {
                coarse[k] = (coarse[k] + i64::from(*phase)) % scheme.modulus;
                fine[k] = (fine[k] + i64::from(*phase) - i64::from(readings[k])).rem_euclid(scheme.modulus);
            }
        }
        for (k, reading) in readings.iter().enumerate() {
            let sum = 255 * i64::from(*reading);
            assert_eq!(range.round(&finer, fine[k]), Some(sum));
            // with the rejected plan, a sum beyond the modulus comes out as another sum
            assert_eq!(range.round(&scheme, coarse[k]), Some(if *reading == 255 { 1 } else { sum }));
        }
    }
}

#[test]
fn sums_by_device_stay_apart() {
    let (parameters, mut rng) = (toy(), rng(4));
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    let mut world = World::<U25>::new(layout, 8);
    let readings: Vec<Vec<[u8; READINGS]>> = (0..3).map(|_| (0..8).map(|_| random(&mut rng)).collect()).collect();
    readings.iter().for_each(|readings| world.send(|device| Some(readings[device])));
    let terms: Vec<Term> = (0..3).map(|batch| Term { cohort: 0, batch, weights: vec![1; 8] }).collect();
    let outputs = vec![Output { terms: vec![0, 1, 2], by_block: true }];
    let plan = LinearPlan::new(world.scheme, layout, terms, outputs, 255).unwrap();
    let found = sums(&world, &plan, &mut rng, &parameters);
    for device in 0..8 {
        let own: Vec<[u8; READINGS]> = readings.iter().map(|readings| readings[device]).collect();
        assert_eq!(found[0][device], plain(&own, |_| 1));
    }
}

#[test]
fn variances_and_covariances_come_from_sums_alone() {
    let (parameters, mut rng) = (toy(), rng(5));
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    let mut world = World::<U25>::new(layout, 20);
    // two channels, the bytes of their squares, and the bytes of their product
    let channels: Vec<[u8; 2]> = (0..20).map(|_| [rng.next_u32() as u8, rng.next_u32() as u8]).collect();
    let features = |[x, y]: [u8; 2]| {
        let [xx, yy, xy] = [(x, x), (y, y), (x, y)].map(|(x, y)| (u16::from(x) * u16::from(y)).to_be_bytes());
        let mut readings = [0; READINGS];
        readings[..8].copy_from_slice(&[x, y, xx[0], xx[1], yy[0], yy[1], xy[0], xy[1]]);
        readings
    };
    world.send(|device| Some(features(channels[device])));
    let asked = Question::total(&world.fleet, 1).ask(&world.fleet, |_, _| true);
    let plan = plan(&world, &asked, 255).unwrap();
    let s = sums(&world, &plan, &mut rng, &parameters)[0][0];
    let of = |x: usize, y: usize| -> i128 {
        let n = 20;
        let sum = |f: &dyn Fn(&[u8; 2]) -> i128| channels.iter().map(f).sum::<i128>();
        n * sum(&|c| i128::from(c[x]) * i128::from(c[y])) - sum(&|c| c[x].into()) * sum(&|c| c[y].into())
    };
    let numerators = [
        Moments::of(20, s[0].into(), of_bytes([s[2], s[3]])).variance().unwrap(),
        Moments::of(20, s[1].into(), of_bytes([s[4], s[5]])).variance().unwrap(),
        covariance(20, [s[0].into(), s[1].into()], of_bytes([s[6], s[7]])).unwrap(),
    ];
    assert_eq!(numerators.map(|fraction| fraction.numerator), [of(0, 0), of(1, 1), of(0, 1)]);
    assert!(numerators.iter().all(|fraction| fraction.denominator == 400));
}

#[test]
fn the_named_set_sums_frames_of_its_devices() {
    let (parameters, mut rng) = (NamedSet::from_name(SET).unwrap().parameters().unwrap(), rng(6));
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    assert_eq!(layout.blocks(), 32);
    let readings: Vec<[u8; READINGS]> = (0..254).map(|_| [255; READINGS]).collect();
    let mut world = World::<U25>::new(layout, 254);
    world.send(|device| Some(readings[device]));
    let asked = Question::total(&world.fleet, 1).ask(&world.fleet, |_, _| true);
    let plan = plan(&world, &asked, 255).unwrap();
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let results = run(&world, &plan, &secret, &mut rng);
    let result = results[0].as_ciphertext().unwrap();
    assert!(result.noise_budget() > 0.0, "{} bits", result.noise_budget());
    assert_eq!(client::linear::<U25>(&plan, 0, &secret, result).unwrap(), [[254 * 255; READINGS]]);
}

#[test]
fn what_is_no_result_of_the_query_is_withheld() {
    let (parameters, mut rng) = (toy(), rng(7));
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    let mut world = World::<U25>::new(layout, 8);
    world.send(|_| Some([200; READINGS]));
    let asked = Question::total(&world.fleet, 1).ask(&world.fleet, |_, _| true);
    let total = plan(&world, &asked, 255).unwrap();
    // one device's converted frame, submitted as the sum: its blocks differ
    let single = Term { cohort: 0, batch: 0, weights: (0..8).map(|block| i64::from(block == 3)).collect() };
    let outputs = vec![Output { terms: vec![0], by_block: true }];
    let stolen = LinearPlan::new(world.scheme, layout, vec![single], outputs, 255).unwrap();
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let result = run(&world, &stolen, &secret, &mut rng);
    let submit = |ciphertext: &Ciphertext| client::linear::<U25>(&total, 0, &secret, ciphertext);
    assert_eq!(submit(result[0].as_ciphertext().unwrap()), Err(Withheld));
    // the secrets themselves are as small as noise: they come out as zeros and reveal nothing;
    // multiplied by Δ, they are out of range
    let secrets = world.secrets(&secret, &mut rng)[0][0].expand();
    assert_eq!(submit(&secrets), Ok(vec![[0; READINGS]]));
    let scaled = Evaluator::new(&parameters).unwrap().mul_integer(&secrets, world.scheme.delta).unwrap();
    assert_eq!(submit(&scaled), Err(Withheld));
    // a known limit: a server that first folds the stolen frame succeeds
    let folded = LinearPlan::new(
        world.scheme,
        layout,
        stolen.terms().to_vec(),
        vec![Output { terms: vec![0], by_block: false }],
        255,
    )
    .unwrap();
    let result = run(&world, &folded, &secret, &mut rng);
    assert_eq!(submit(result[0].as_ciphertext().unwrap()), Ok(vec![[200; READINGS]]));
}

#[test]
fn ingest_counts_forgeries_replays_and_nonsense_and_sees_no_lie() {
    let parameters = toy();
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    let mut world = World::<U25>::new(layout, 3);
    let mut frame = U25::EMPTY;
    // 255 instead of 3: nobody can detect that
    world.devices[1].seal(&[255; READINGS], &mut frame).unwrap();
    assert!(world.ingest.take(&frame).is_ok());
    assert_eq!(world.ingest.take(&frame).map(|_| ()), Err(Refused::Replayed));
    let mut changed = frame;
    changed[100] ^= 1;
    assert_eq!(world.ingest.take(&changed).map(|_| ()), Err(Refused::Mac));
    // another device's number in the frame, known or unknown
    for number in [2, 77] {
        let mut renamed = frame;
        renamed[1] = number;
        assert_eq!(world.ingest.take(&renamed).map(|_| ()), Err(Refused::Mac));
    }
    assert!(world.ingest.take(&frame[1..]).is_err());
    assert_eq!(world.ingest.refused(), RefusedFrames { malformed: 1, forged: 3, replayed: 1 });
    assert!(!world.ingest.register(tobari_device::DeviceNumber::new(1).unwrap(), &[0; 32]), "a number keeps its key");
}

#[test]
fn a_frame_that_did_not_come_is_no_zero() {
    let parameters = toy();
    let layout = Layout::new(&parameters, Arrangement::Contiguous).unwrap();
    let mut world = World::<U25>::new(layout, 2);
    world.send(|device| (device == 0).then_some([9; READINGS]));
    let asked = Question::total(&world.fleet, 1).ask(&world.fleet, |_, _| true);
    let plan = plan(&world, &asked, 255).unwrap();
    assert!(linear_slots(&plan, &world.batches, Input::Body(0)).is_none(), "the plan counts on both");
    let bad = |terms: Vec<Term>, outputs: Vec<Output>| {
        matches!(LinearPlan::new(world.scheme, layout, terms, outputs, 255), Err(PlanError::Shape { .. }))
    };
    let term = || Term { cohort: 0, batch: 0, weights: vec![1; 8] };
    assert!(bad(vec![term()], vec![]) && bad(vec![], vec![Output { terms: vec![0], by_block: false }]));
    assert!(bad(vec![term()], vec![Output { terms: vec![0, 0], by_block: false }]));
    assert!(bad(vec![Term { weights: vec![1; 7], ..term() }], vec![Output { terms: vec![0], by_block: false }]));
}
