//! Reference jobs of plans on this machine: their plans within a memory limit, and their runs, for
//! `tobari plan` and `tobari-bench`.
//!
//! Keys and what is encrypted are made of a fixed seed: there is nothing to keep secret in a
//! measurement, and two runs can be compared to the bit.

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

/// The parameter set of [`Matrix`], whose costs have the first name in the cache.
pub const SET: &str = "bgv-b";

/// Bytes that a thread needs besides values: what a key switch has under way.
const SCRATCH: u64 = 40 << 20;

/// Bytes that the ring keeps for its next elements.
const POOL: u64 = 64 << 20;

/// A job.
pub trait Work: Sync {
    /// Its name.
    fn job(&self) -> &'static str;

    /// Its parameter set.
    fn set(&self) -> &'static str;

    /// What it is, for people.
    fn title(&self) -> String;

    /// How large it is, for programs.
    fn sizes(&self) -> serde_json::Value;

    /// What computes it.
    fn engine(&self) -> &BgvEngine;

    /// What is computed.
    fn program(&self) -> &Program;

    /// An input.
    fn input(&self, value: Value) -> Result<BgvValue, String>;

    /// What steps and moves cost on one core.
    fn measure(&self) -> Result<Costs, Failure>;

    /// Bytes that a thread needs besides values.
    fn scratch(&self) -> u64 {
        SCRATCH
    }

    /// Whether the outputs decrypt to what they should be.
    fn is_right(&self, outputs: &[Arc<BgvValue>]) -> Result<bool, Failure>;

    /// Told how long a step of a run took, by its result's level: for jobs that report it.
    fn took(&self, _op: Op, _level: u16, _seconds: f64) {}

    /// The same computed without a plan, where somebody wrote that down.
    fn by_hand(&self) -> Result<Outcome, Failure> {
        Err(Failure::Work(format!("the job {} is not written by hand", self.job())))
    }
}

/// One value of each kind, of the highest level: what costs are measured with.
pub struct Examples {
    /// A ciphertext.
    pub vector: BgvValue,
    /// Slots in the clear.
    pub plain: BgvValue,
    /// By how many places the rotation goes.
    pub steps: i64,
    /// The key of that rotation.
    pub rotation: BgvValue,
    /// The key of products.
    pub product: BgvValue,
}

/// A job to plan and to run.
pub struct Reference(Box<dyn Work>);

/// Generators for what has a name and a number, all of one fixed seed.
pub fn generator(name: u8, number: usize) -> ChaCha20Rng {
    let mut seed = [name; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    ChaCha20Rng::from_seed(seed)
}

/// What a run gave, in numbers.
pub struct Outcome {
    /// How far it got: to its end.
    pub status: Status,
    /// Bytes of the process at most while it ran, where the system tells.
    pub peak: Option<u64>,
    /// A checksum of the output's bytes, the same for the same bits; none where chance is drawn in
    /// another way.
    pub digest: Option<u64>,
    /// Whether the output decrypts to what the program gives in the clear.
    pub right: bool,
    /// How the tier moves data.
    pub tier: String,
    /// Bytes in each of its folders, in whole pages.
    pub folders: Vec<(PathBuf, u64)>,
}

impl Reference {
    /// Of a job.
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

    /// A plan with so much memory for the whole process, or with all that it could want.
    pub fn plan(&self, limit: Option<u64>, threads: usize, costs: &Costs) -> Result<Plan, Failure> {
        let memory = match limit {
            None => u64::MAX / 4,
            Some(limit) => self.memory_for_values(limit, threads)?,
        };
        Ok(plan(self.0.program().clone(), Self::site(memory, threads), costs)?)
    }

    /// The steps of a plan in its order, with everything in memory that is still needed.
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

    /// What a limit leaves for values: the process as it is, threads, and moves take their part.
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

    /// Memory for what moves: two of the largest objects, and 64 MiB.
    fn blocks(&self) -> u64 {
        let largest = self.0.program().values().map(|value| self.0.program().shape(value).raw).max().unwrap_or(0);
        2 * (largest + 4096) + (32 << 20)
    }

    /// A plan, checked: nothing leaves that tells of what the server has.
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
        // the same for each run, on purpose: they are compared to the bit, and their inputs are the
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

    /// FNV-1a of the output's bytes: two runs are compared, nobody is to be stopped from making two
    /// alike.
    fn digest(&self, output: &BgvValue) -> Result<u64, Failure> {
        let shape = self.0.engine().shape_of(output)?;
        let mut bytes = vec![0; usize::try_from(shape.packed)?];
        self.0.engine().export(output, &shape, Encoding::Packed, &mut bytes)?;
        Ok(bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}

/// An engine whose job hears how long steps take.
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

/// Seconds that this thread had a core, where the system tells: what else runs on the machine
/// counts less than by the clock on the wall.
fn thread_seconds() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
}

/// Whose plain data the jobs compute with.
fn server() -> Owner {
    tobari_engine::matrix::server()
}

/// How far a run is, on a terminal.
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
