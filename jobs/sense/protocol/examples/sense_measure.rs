//! Measures conversions on this machine, on one core: linear sums of U25 frames, and exact readings
//! of P1 frames.
//!
//!     cargo run --release -p tobari-sense --example sense_measure

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example that reports")]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Instant;
use tobari_device::{
    Device, DeviceNumber, Envelope, InsecureVolatileCounter, MacKey, Opener, P1, Profile, READINGS, Root, Stamp, U25,
    transform_root,
};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::engine::Direct;
use tobari_sense::client::{self, Cohort};
use tobari_sense::exact::{self, ExactPlan, Measure};
use tobari_sense::linear::{self, LinearPlan, Term};
use tobari_sense::program::{Input, Transform};
use tobari_sense::server::{Batch, exact_slots, linear_slots};
use tobari_sense::{Arrangement, Layout, Scheme};

type Failure = Box<dyn std::error::Error>;

/// One frame from each device of a full cohort.
struct Fleet<P: Profile> {
    parameters: LatticeParameters,
    layout: Layout,
    scheme: Scheme,
    readings: Vec<[u8; READINGS]>,
    envelopes: Vec<Envelope<P>>,
    cohort: Cohort,
}

impl<P: Profile> Fleet<P> {
    fn new(set: &str, arrangement: Arrangement, rng: &mut ChaCha20Rng) -> Result<Self, Failure> {
        let parameters = NamedSet::from_name(set).ok_or("no such set")?.parameters()?;
        let layout = Layout::new(&parameters, arrangement).ok_or("no room")?;
        let scheme = Scheme::of::<P>();
        let (mut readings, mut envelopes) = (Vec::new(), Vec::new());
        let mut cohort = Cohort::new(&scheme, layout);
        for block in 0..layout.blocks() {
            let mut bytes = [0; 32];
            rng.fill_bytes(&mut bytes);
            let root = Root::from_bytes(bytes);
            let (mut frame, mut reading) = (P::EMPTY, [0; READINGS]);
            rng.fill_bytes(&mut reading);
            let number = DeviceNumber::new(block as u32).ok_or("too many devices")?;
            let mut device = Device::<P, _>::open(&root, number, InsecureVolatileCounter(0))?;
            device.seal_at(Stamp::default().into(), &reading, &mut frame)?;
            envelopes.push(MacKey::<P>::from_bytes(&root.mac_key::<P>()).open(frame.as_ref())?);
            readings.push(reading);
            cohort.put(block, &Opener::<P>::new(&root));
        }
        Ok(Self { parameters, layout, scheme, readings, envelopes, cohort })
    }

    fn batch(&self) -> Result<Batch, Failure> {
        let mut batch = Batch::new(&self.scheme, self.layout).ok_or("no batch")?;
        self.envelopes.iter().enumerate().for_each(|(block, envelope)| {
            batch.put(block, envelope);
        });
        Ok(batch)
    }
}

fn linear(rng: &mut ChaCha20Rng) -> Result<(), Failure> {
    let fleet = Fleet::<U25>::new(linear::SET, Arrangement::Contiguous, rng)?;
    let blocks = fleet.layout.blocks();
    let secret = SecretKey::from_seed(&fleet.parameters, Seed::random(rng));
    let engine = BgvEngine::new(&fleet.parameters, None, rng)?;
    let secrets: Vec<Arc<BgvValue>> = fleet
        .cohort
        .encrypt(&secret, rng)?
        .iter()
        .map(|seeded| engine.ciphertext(seeded.expand()).map(Arc::new))
        .collect::<Result<_, _>>()?;
    let term = |batch| Term { cohort: 0, batch, weights: vec![1; blocks] };
    let outputs = vec![linear::Output { terms: (0..7).collect(), by_block: true }];
    let plan = LinearPlan::new(fleet.scheme, fleet.layout, (0..7).map(term).collect(), outputs, 255)?;
    let mut least = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        let batches = (0..7).map(|_| fleet.batch()).collect::<Result<Vec<_>, _>>()?;
        let inputs = linear::Inputs::new(&plan, engine.top_level(), |input| {
            if let Input::Secret { i, .. } = input {
                return Ok(Arc::clone(&secrets[i]));
            }
            let slots = linear_slots(&plan, &batches, input).ok_or("no frame")?;
            Ok::<_, Failure>(Arc::new(engine.compact(&slots, engine.top_level())?))
        })?;
        let results = linear::program(&mut Direct::new(&engine), &plan, &inputs)?;
        least = least.min(start.elapsed().as_secs_f64());
        let found = client::linear::<U25>(&plan, 0, &secret, results[0].as_ciphertext().ok_or("no ciphertext")?)?;
        let right =
            found.iter().zip(&fleet.readings).all(|(sums, m)| sums.iter().zip(m).all(|(s, m)| *s == 7 * i64::from(*m)));
        assert!(right, "seven times each reading");
    }
    println!(
        "linear, U25, {blocks} devices a batch: {:.1} us a message, least of 20",
        least * 1e6 / (7 * blocks) as f64
    );
    Ok(())
}

fn exact(rng: &mut ChaCha20Rng) -> Result<(), Failure> {
    let fleet = Fleet::<P1>::new(exact::SET, Arrangement::Strided, rng)?;
    let blocks = fleet.layout.blocks();
    let output = exact::Output { measure: Measure::Reading, terms: vec![(0, vec![1; blocks])], by_block: true };
    let plan = ExactPlan::new(fleet.scheme, fleet.layout, vec![0], vec![output])?;
    let secret = SecretKey::from_seed(&fleet.parameters, Seed::random(rng));
    let engine = BgvEngine::new(&fleet.parameters, None, rng)?;
    let secrets = fleet.cohort.encrypt(&secret, rng)?;
    let transform = Transform::new(&fleet.scheme, transform_root::<P1>()).ok_or("no root")?;
    let batches = [fleet.batch()?];
    let inputs = exact::Inputs::new(&plan, engine.top_level(), |input| {
        if let Input::Secret { i, .. } = input {
            return Ok(Arc::new(engine.ciphertext(secrets[i].expand())?));
        }
        if let Some(key) = client::key(&secret, input, rng) {
            return Ok(Arc::new(engine.key(key)?));
        }
        let slots = exact_slots(&plan, &transform, &batches, input).ok_or("no frame")?;
        Ok::<_, Failure>(Arc::new(exact::plain(&engine, input, &slots)?))
    })?;
    let mut least = [f64::INFINITY; 3];
    for _ in 0..3 {
        let mut machine = Direct::new(&engine);
        let start = Instant::now();
        let points = inputs.points(&mut machine, &plan, 0)?;
        let middle = start.elapsed().as_secs_f64();
        let value = inputs.measure(&mut machine, &plan, 0, &points)?;
        let all = start.elapsed().as_secs_f64();
        for (least, seconds) in least.iter_mut().zip([middle, all - middle, all]) {
            *least = least.min(seconds);
        }
        assert!(
            value.as_ciphertext().is_some_and(|ciphertext| ciphertext.level() == 3 && ciphertext.noise_budget() > 0.0)
        );
    }
    let [points, polynomial, all] = least;
    println!(
        "exact, P1, {blocks} devices a batch: secrets off and transformed back {points:.2} s, polynomial {polynomial:.2} s"
    );
    println!("exact, P1: {all:.2} s a batch, {:.2} ms a message, least of 3", all * 1e3 / blocks as f64);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    linear(&mut rng)?;
    exact(&mut rng)
}
