//! Reference jobs of plans on this machine: their plans within a memory limit, and their runs, for
//! `tobari plan` and `tobari-bench`.
//!
//! Keys and plaintexts come from a fixed seed. A measurement has no secrets, and two runs can be
//! compared to the bit.

#![forbid(unsafe_code)]

mod arguments;
mod calibrate;
mod explain;
mod matrix;

pub use arguments::RunArguments;
pub use calibrate::{SavedCosts, calibrate, kept, measure, moves};
pub use explain::explain;
pub use matrix::Matrix;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tobari_command::output::{self, Failure};
use tobari_engine::{BgvEngine, BgvValue, EngineError};
use tobari_host::memory;
use tobari_host::run::{self, Status};
use tobari_host::store::{self, Blocks, DiskStore, Folder, Store};
use tobari_plan::check::{CheckedPlan, Requirements};
use tobari_plan::cost::Costs;
use tobari_plan::engine::{Engine, Shapes};
use tobari_plan::page::Instruction;
use tobari_plan::plan::{Plan, bytes, plan, plan_in};
use tobari_plan::program::{Encoding, Op, Program, Shape, Value};
use tobari_plan::site::{Owner, Site};

/// The parameter set of [`Matrix`]. Its costs have the first name in the cache.
pub const SET: &str = "bgv-b";

/// Bytes that a thread needs besides values: the buffers of a key switch.
const SCRATCH: u64 = 40 << 20;

/// Bytes that the ring keeps for its next elements.
const POOL: u64 = 64 << 20;

/// A job.
pub trait Work: Sync {
    /// Its name.
    fn job(&self) -> &'static str;

    /// Its parameter set.
    fn set(&self) -> &'static str;

    /// A description for people.
    fn title(&self) -> String;

    /// The size as JSON, for programs.
    fn sizes(&self) -> serde_json::Value;

    /// The engine of the job.
    fn engine(&self) -> &BgvEngine;

    /// The program of the job.
    fn program(&self) -> &Program;

    /// An input.
    fn input(&self, value: Value) -> Result<BgvValue, String>;

    /// Measures the costs of steps and moves on one core.
    fn measure(&self) -> Result<Costs, Failure>;

    /// Bytes that a thread needs besides values.
    fn scratch(&self) -> u64 {
        SCRATCH
    }

    /// Whether the outputs decrypt to the expected values.
    fn is_right(&self, outputs: &[Arc<BgvValue>]) -> Result<bool, Failure>;

    /// Reports the time of a step of a run, with its result's level, for jobs that print it.
    fn took(&self, _op: Op, _level: u16, _seconds: f64) {}

    /// Runs the same job without a plan, if it has a hand-written version.
    fn by_hand(&self) -> Result<Outcome, Failure> {
        Err(Failure::Work(format!("the job {} is not written by hand", self.job())))
    }
}

/// One value of each kind, of the highest level, for measuring costs.
pub struct Examples {
    /// A ciphertext.
    pub vector: BgvValue,
    /// Plain slots.
    pub plain: BgvValue,
    /// The number of places of the rotation.
    pub steps: i64,
    /// The key of that rotation.
    pub rotation: BgvValue,
    /// The key of products.
    pub product: BgvValue,
}

/// A job to plan and to run.
pub struct Reference(Box<dyn Work>);

/// The generator of an object with this name and number. All use one fixed seed.
pub fn generator(name: u8, number: usize) -> ChaCha20Rng {
    let mut seed = [name; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    ChaCha20Rng::from_seed(seed)
}

/// The result of a run, in numbers.
pub struct Outcome {
    /// The last status of the run.
    pub status: Status,
    /// The peak memory of the process in bytes, where the system reports it.
    pub peak: Option<u64>,
    /// A checksum of the output's bytes, the same for the same bits; none where a job draws its
    /// randomness in another way.
    pub digest: Option<u64>,
    /// Whether the output decrypts to the result of the plain program.
    pub right: bool,
    /// The tier's method of moving data.
    pub tier: String,
    /// Bytes in each folder of the tier, in whole pages.
    pub folders: Vec<(PathBuf, u64)>,
}

impl Reference {
    /// Wraps a job.
    pub fn new(work: impl Work + 'static) -> Self {
        Self(Box::new(work))
    }

    /// The job.
    pub fn work(&self) -> &dyn Work {
        &*self.0
    }

    /// Bytes of all inputs in memory.
    pub fn bytes(&self) -> u64 {
        self.0.program().bytes()[1]
    }

    /// A plan within a memory limit for the whole process, or without a limit.
    pub fn plan(&self, limit: Option<u64>, threads: usize, costs: &Costs) -> Result<Plan, Failure> {
        let memory = match limit {
            None => u64::MAX / 4,
            Some(limit) => self.memory_for_values(limit, threads)?,
        };
        Ok(plan(self.0.program().clone(), Self::site(memory, threads), costs)?)
    }

    /// The steps of a plan in its order, once each, with enough memory for every value that is
    /// still needed.
    pub fn in_memory(&self, limited: &Plan, threads: usize, costs: &Costs) -> Result<Plan, Failure> {
        let mut done = vec![false; limited.program.steps().len()];
        let first = |instruction: &Instruction| match instruction {
            Instruction::Run(step) => (!std::mem::replace(&mut done[*step as usize], true)).then_some(*step),
            _ => None,
        };
        let order = limited.instructions.iter().filter_map(first).collect();
        Ok(plan_in(&[order], self.0.program().clone(), Self::site(u64::MAX / 4, threads), costs)?)
    }

    fn site(memory: u64, threads: usize) -> Site {
        let cores = u16::try_from(threads).unwrap_or(u16::MAX);
        let mut site = Site::blind("this machine", cores, memory);
        site.trusted_by.push(server());
        site.tier_of.push(server());
        site
    }

    /// The memory that a limit leaves for values, after the process as it is, its threads, and
    /// moves.
    fn memory_for_values(&self, limit: u64, threads: usize) -> Result<u64, Failure> {
        let base = memory::resident().map_or(64 << 20, |[now, _]| now);
        let besides = base + self.0.scratch() * threads as u64 + POOL + memory::IDLE as u64 + self.blocks();
        limit.checked_sub(besides).filter(|left| *left > 0).ok_or_else(|| {
            let (limit, besides) = (bytes(limit), bytes(besides));
            Failure::Work(format!(
                "expected a limit above {besides}, which the process needs besides values, found {limit}"
            ))
        })
    }

    /// Memory for moves: two of the largest objects, and 32 MiB.
    fn blocks(&self) -> u64 {
        let largest = self.0.program().values().map(|value| self.0.program().shape(value).raw).max().unwrap_or(0);
        2 * (largest + 4096) + (32 << 20)
    }

    /// Checks a plan, with the server's data protected.
    pub fn check(&self, plan: Plan) -> Result<CheckedPlan, Failure> {
        Ok(plan.check(&Requirements { protect: [server()].into() })?)
    }

    /// Runs a plan.
    pub fn run(
        &self,
        plan: &CheckedPlan,
        threads: usize,
        tiers: &[Folder],
        observer: &(dyn Fn(&Status) + Sync),
    ) -> Result<Outcome, Failure> {
        let mut store = match plan.plan().inputs_stored {
            true => {
                let folders = tiers.to_vec();
                Some(DiskStore::open(&store::Options { folders, ..store::Options::in_folder("") })?)
            }
            false => None,
        };
        let cancel = AtomicBool::new(false);
        let blocks = Blocks::new(usize::try_from(self.blocks()).unwrap_or(usize::MAX));
        let options = run::Options { threads, blocks, observer, cancel: &cancel };
        let tier = store.as_ref().map_or("none", Store::name).to_owned();
        // every run has the same seed, so that runs are comparable to the bit; their inputs are the
        // same
        let engine = Timed { engine: self.0.engine().next_run(&mut generator(3, 0)), work: self.work() };
        let moving = store.as_mut().map(|store| store as &mut dyn Store);
        let finished = run::run(engine, plan, |value| self.0.input(value), moving, &options)?;
        let used = |store: &DiskStore| store.used().map(|(path, bytes)| (path.to_path_buf(), bytes)).collect();
        let folders = store.as_ref().map(used).unwrap_or_default();
        let peak = memory::resident().map(|[_, peak]| peak);
        let output = finished.outputs.first().ok_or_else(|| Failure::Work("the program gave nothing".to_owned()))?;
        let (digest, right) = (Some(self.digest(output)?), self.0.is_right(&finished.outputs)?);
        Ok(Outcome { status: finished.status, peak, digest, right, tier, folders })
    }

    /// FNV-1a of the output's bytes. It compares two honest runs, and resists no deliberate
    /// collision.
    fn digest(&self, output: &BgvValue) -> Result<u64, Failure> {
        let shape = self.0.engine().shape_of(output)?;
        let mut bytes = vec![0; usize::try_from(shape.packed)?];
        self.0.engine().export(output, &shape, Encoding::Packed, &mut bytes)?;
        Ok(bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}

/// An engine that reports the time of each step to its job.
struct Timed<'a> {
    engine: BgvEngine,
    work: &'a dyn Work,
}

impl Shapes for Timed<'_> {
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String> {
        self.engine.shape(op, args)
    }
}

impl Engine for Timed<'_> {
    type Value = BgvValue;
    type Error = EngineError;

    fn step(&self, step: usize, op: Op, args: &[&BgvValue]) -> Result<BgvValue, EngineError> {
        let start = thread_seconds();
        let made = self.engine.step(step, op, args)?;
        if let Some((start, end)) = start.zip(thread_seconds()) {
            self.work.took(op, self.engine.shape_of(&made)?.level, end - start);
        }
        Ok(made)
    }

    fn export(&self, value: &BgvValue, shape: &Shape, encoding: Encoding, bytes: &mut [u8]) -> Result<(), EngineError> {
        self.engine.export(value, shape, encoding, bytes)
    }

    fn import(&self, shape: &Shape, encoding: Encoding, bytes: &[u8]) -> Result<BgvValue, EngineError> {
        self.engine.import(shape, encoding, bytes)
    }
}

/// Seconds that this thread ran on a core, where the system reports it. Other processes disturb
/// this less than wall-clock time.
fn thread_seconds() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
}

/// The owner of the plain data of the jobs.
fn server() -> Owner {
    tobari_engine::matrix::server()
}

/// Prints the progress of a run on a terminal.
pub fn show(status: &Status) {
    output::status(&format!(
        "{} of {} steps, {} read, {} written, {} in memory, {:.0} s{}",
        status.progress.steps,
        status.progress.of,
        bytes(status.progress.read),
        bytes(status.progress.written),
        bytes(status.progress.memory),
        status.seconds,
        status.left.map(|left| format!(", {left:.0} s left")).unwrap_or_default()
    ));
}
