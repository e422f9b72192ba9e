//! An engine that is watched, and what steps are expected to cost.

use crate::world::World;
use crate::{Failure, KINDS};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tobari_apps::engine::{BgvEngine, BgvValue, EngineError};
use tobari_apps::sense::aes::Circuit;
use tobari_apps::sense::aes::cipher::ROUNDS;
use tobari_core::ring::{Coeff, Domain, Poly, Seed};
use tobari_host::store::Speed;
use tobari_plan::cost::{Costs, TierSpeed};
use tobari_plan::engine::{Engine, Shapes};
use tobari_plan::program::{Encoding, Op, Shape};

/// Seconds that this thread had a core, where the system tells: what else runs on the machine counts less than by the clock on the wall.
pub(crate) fn seconds(since: &Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| since.elapsed().as_secs_f64(), |nanoseconds| nanoseconds * 1e-9)
}

/// Seconds and steps.
type Sum = (f64, u32);

/// By round and by name.
#[derive(Default)]
pub(crate) struct Report(Mutex<BTreeMap<(usize, &'static str), Sum>>);

impl Report {
    fn add(&self, round: usize, name: &'static str, seconds: f64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry((round, name)).or_default();
        *entry = (entry.0 + seconds, entry.1 + 1);
    }

    pub(crate) fn print(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<&str> = all.keys().map(|(_, name)| *name).collect();
        names.sort_unstable();
        names.dedup();
        for round in 0..=ROUNDS + 1 {
            let of =
                |name: &&str| all.iter().find(|((at, found), _)| *at == round && found == name).map(|(_, sum)| *sum);
            let parts: Vec<String> = names
                .iter()
                .filter_map(|name| of(name).map(|(seconds, count)| format!("{name} {count}: {seconds:.2}")))
                .collect();
            let total: f64 = names.iter().filter_map(of).map(|(seconds, _)| seconds).sum();
            if !parts.is_empty() {
                println!("round {round:>2}: {total:>6.2} s   {}", parts.join(", "));
            }
        }
        for name in names {
            let (seconds, count) = all
                .iter()
                .filter(|((_, found), _)| *found == name)
                .fold((0.0, 0), |sum, (_, next)| (sum.0 + next.0, sum.1 + next.1));
            println!("{name:<12} {count:>5} steps {seconds:>7.2} s");
        }
        let moves = |name: &str| name.starts_with('(');
        let steps = all.iter().filter(|((_, name), _)| !moves(name)).map(|(_, sum)| sum.0).sum::<f64>();
        println!("steps: {steps:.1} s of a core");
    }
}

/// Computes and takes the time.
pub(crate) struct Measured {
    engine: BgvEngine,
    report: Arc<Report>,
    /// Levels of the rounds' inputs, and below the last.
    levels: Vec<u16>,
    begun: Instant,
}

impl Measured {
    pub(crate) fn new(engine: BgvEngine, circuit: &Circuit) -> Self {
        let levels = (1..=ROUNDS).map(|round| circuit.chain().levels(round).input as u16 - 1).collect();
        Self { engine, report: Arc::default(), levels, begun: Instant::now() }
    }

    pub(crate) fn report(&self) -> Arc<Report> {
        Arc::clone(&self.report)
    }

    /// The round that makes results of this level: 0 before the first.
    fn round(&self, level: u16) -> usize {
        self.levels.iter().take_while(|input| level < **input).count()
    }
}

impl Shapes for Measured {
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String> {
        self.engine.shape(op, args)
    }
}

impl Engine for Measured {
    type Value = BgvValue;
    type Error = EngineError;

    fn step(&self, step: usize, op: Op, args: &[&BgvValue]) -> Result<BgvValue, EngineError> {
        let start = seconds(&self.begun);
        let made = self.engine.step(step, op, args)?;
        let level = self.engine.shape_of(&made)?.level;
        let name = match op {
            Op::Bilinear { left: 15, .. } => "forms",
            _ => op.name(),
        };
        self.report.add(self.round(level), name, seconds(&self.begun) - start);
        Ok(made)
    }

    fn export(&self, value: &BgvValue, shape: &Shape, encoding: Encoding, bytes: &mut [u8]) -> Result<(), EngineError> {
        let start = seconds(&self.begun);
        let done = self.engine.export(value, shape, encoding, bytes);
        self.report.add(self.round(shape.level), "(export)", seconds(&self.begun) - start);
        done
    }

    fn import(&self, shape: &Shape, encoding: Encoding, bytes: &[u8]) -> Result<BgvValue, EngineError> {
        let start = seconds(&self.begun);
        let done = self.engine.import(shape, encoding, bytes);
        self.report.add(self.round(shape.level), "(import)", seconds(&self.begun) - start);
        done
    }
}

/// From the time of a transform: a switch of keys is mostly transforms, and the sums between them as much again as a half.
pub(crate) fn costs(engine: &BgvEngine, world: &World, tier: Speed) -> Result<Costs, Failure> {
    let parameters = engine.evaluator().parameters();
    let ring = parameters.ring();
    let seed = Seed::from_bytes([0; 32]);
    let start = Instant::now();
    let rows = 4;
    let element = Poly::<Coeff>::uniform(ring, ring.basis(rows), |row| seed.stream(Domain::Uniform, row as u64));
    let drawn = start.elapsed().as_secs_f64();
    let element = element.forward();
    let transform = (start.elapsed().as_secs_f64() - drawn) / rows as f64;
    drop(element);
    let special = ring.special_primes().len();
    let switch = |primes: usize, digits: usize| {
        1.6 * transform * ((digits * primes.div_ceil(parameters.digit_size()) + 2) * (primes + special)) as f64
    };
    let mut costs = Costs::unmeasured();
    costs.tier =
        Some(TierSpeed { read: tier.read_bytes_per_s, write: tier.write_bytes_per_s, latency_s: tier.latency_s });
    for primes in 1..=parameters.data_primes() {
        let rows = primes as f64 * transform;
        let all = [
            ("mul", switch(primes, 1)),
            ("bilinear", switch(primes, 1) + 40.0 * rows),
            ("rotate_sum", switch(primes, 0) + 4.0 * rows),
            ("hoist", switch(primes, 1) - switch(primes, 0)),
            ("rescale", 4.0 * rows),
            ("mul_plain", 3.0 * rows),
        ];
        for (name, seconds) in all {
            costs.steps.entry(name.to_owned()).or_default().push((primes as u16 - 1, seconds));
        }
    }
    for kind in KINDS {
        let level = parameters.digit_size() as u16 - 1;
        let value = world.example(kind, level)?;
        let shape = engine.shape_of(&value)?;
        for (encoding, speeds) in [(Encoding::Raw, &mut costs.raw), (Encoding::Packed, &mut costs.packed)] {
            let mut bytes = vec![0; usize::try_from(shape.stored(encoding))?];
            let start = Instant::now();
            engine.export(&value, &shape, encoding, &mut bytes)?;
            let exported = start.elapsed().as_secs_f64();
            engine.import(&shape, encoding, &bytes)?;
            let imported = start.elapsed().as_secs_f64() - exported;
            speeds.insert(kind, [exported, imported].map(|seconds| shape.resident as f64 / seconds));
        }
    }
    Ok(costs)
}
