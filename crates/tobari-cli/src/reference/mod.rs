//! The reference job of plans on this machine: its inputs, its plan within a memory limit, and its run, for `tobari plan memory` and
//! `tobari bench memory`.
//!
//! Keys and vectors are made of a fixed seed: there is nothing to keep secret in a measurement, and two runs can be compared to the bit.

mod by_hand;
mod calibrate;

pub(crate) use calibrate::{Kept, calibrate, kept};

use crate::output::Failure;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tobari_apps::engine::{BgvEngine, BgvValue};
use tobari_apps::matrix::{self, Inputs, Size};
use tobari_core::bgv::{Decryptor, Encoder, EvaluationKeys};
use tobari_core::params::{LatticeParameters, NamedSet};
use tobari_core::rlwe::{PublicKey, SecretKey};
use tobari_host::memory;
use tobari_host::run::{self, Status};
use tobari_host::store::{self, Blocks, DiskStore, Folder, Store};
use tobari_plan::check::{CheckedPlan, Requirements};
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::cost::Costs;
use tobari_plan::engine::Direct;
use tobari_plan::page::Instruction;
use tobari_plan::plan::{Plan, plan, plan_in};
use tobari_plan::program::{Program, Value};
use tobari_plan::site::Site;

/// The parameter set.
pub(crate) const SET: &str = "bgv-b";

/// Bytes that a thread needs besides values: what a key switch has under way.
const SCRATCH: u64 = 40 << 20;

/// Bytes that the ring keeps for its next elements.
const POOL: u64 = 64 << 20;

/// The job and who takes part in it.
pub(crate) struct Reference {
    pub(crate) engine: BgvEngine,
    pub(crate) size: Size,
    parameters: LatticeParameters,
    secret: SecretKey,
    sources: Vec<Source>,
    program: Program,
}

/// What an input is.
#[derive(Clone, Copy)]
enum Source {
    Vector(usize),
    Diagonal(usize),
    Rotation(i64),
    Relinearization,
}

/// Generators for what has a name and a number, all of one fixed seed.
fn generator(name: u8, number: usize) -> ChaCha20Rng {
    let mut seed = [name; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    ChaCha20Rng::from_seed(seed)
}

/// What a run gave, in numbers.
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// Bytes of the process at most while it ran, where the system tells.
    pub(crate) peak: Option<u64>,
    /// A checksum of the output's bytes, the same for the same bits; none where chance is drawn in another way.
    pub(crate) digest: Option<u64>,
    /// Whether the output decrypts to what the program gives in the clear.
    pub(crate) right: bool,
    /// How the tier moves data.
    pub(crate) tier: String,
    /// Bytes in each of its folders, in whole pages.
    pub(crate) folders: Vec<(PathBuf, u64)>,
}

impl Reference {
    /// A job with a working set of about `bytes`.
    pub(crate) fn new(bytes: u64) -> Result<Self, Failure> {
        let set = NamedSet::from_name(SET).ok_or_else(|| Failure::Work(format!("there is no set {SET}")))?;
        let parameters = set.parameters()?;
        let secret = SecretKey::generate(&parameters, &mut generator(1, 0));
        let public = PublicKey::generate(&secret, &mut generator(2, 0));
        let engine = BgvEngine::new(&parameters, Some(public), &mut generator(3, 0))?;
        let size = matrix::size(&engine, bytes)?;
        let (program, inputs) = matrix::record(&engine, size)?;
        let sources = sources(&program, &inputs);
        Ok(Self { engine, size, parameters, secret, sources, program })
    }

    /// Bytes of all inputs in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.program.bytes()[1]
    }

    /// One input of each kind: a vector, a diagonal, a rotation key, and the key of products.
    fn examples(&self) -> Result<Vec<BgvValue>, Failure> {
        let of = |wanted: fn(&Source) -> bool| {
            let found = self.program.values().zip(&self.sources).find(|(_, source)| wanted(source));
            found.ok_or_else(|| Failure::Work("expected inputs of four kinds".to_owned()))
        };
        let wanted: [fn(&Source) -> bool; 4] = [
            |source| matches!(source, Source::Vector(_)),
            |source| matches!(source, Source::Diagonal(_)),
            |source| matches!(source, Source::Rotation(1)),
            |source| matches!(source, Source::Relinearization),
        ];
        wanted.into_iter().map(|wanted| self.input(of(wanted)?.0).map_err(Failure::Work)).collect()
    }

    /// An input.
    fn input(&self, value: Value) -> Result<BgvValue, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let data = usize::from(self.engine.top_level()) + 1;
        match self.sources[value.index()] {
            Source::Vector(i) => {
                let (encoder, holder) = (
                    Encoder::new(&self.parameters).map_err(|error| text(&error))?,
                    Decryptor::new(&self.secret).map_err(|error| text(&error))?,
                );
                let slots = encoder.encode(&self.numbers(0, i)).map_err(|error| text(&error))?;
                let vector = holder.encrypt(&slots, data, &mut generator(4, i)).expand();
                self.engine.ciphertext(vector).map_err(|error| text(&error))
            }
            Source::Diagonal(k) => {
                self.engine.integers(&self.numbers(1, k), self.engine.top_level()).map_err(|error| text(&error))
            }
            Source::Rotation(steps) => {
                let rng = &mut generator(5, steps as usize);
                let key = EvaluationKeys::none().with_rotation(&self.secret, steps, data, rng);
                self.engine.key(key).map_err(|error| text(&error))
            }
            Source::Relinearization => {
                let key = EvaluationKeys::none().with_relinearization(&self.secret, data, &mut generator(6, 0));
                self.engine.key(key).map_err(|error| text(&error))
            }
        }
    }

    /// Numbers that look like nothing in particular: of vector or diagonal `number`.
    fn numbers(&self, what: u64, number: usize) -> Vec<i64> {
        let slots = self.parameters.degree() as u64;
        let number = |i: u64| {
            (i * 7919 + (number as u64) * 104_729 + what * 15_485_863).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
        };
        (0..slots).map(|i| number(i) as i64 - (1 << 15)).collect()
    }

    /// A plan with so much memory for the whole process, or with all that it could want.
    pub(crate) fn plan(&self, limit: Option<u64>, threads: usize, costs: &Costs) -> Result<Plan, Failure> {
        let memory = match limit {
            None => u64::MAX / 4,
            Some(limit) => self.memory_for_values(limit, threads)?,
        };
        Ok(plan(self.program.clone(), Self::site(memory, threads), costs)?)
    }

    /// The steps of a plan in its order, with everything in memory that is still needed.
    pub(crate) fn in_memory(&self, limited: &Plan, threads: usize, costs: &Costs) -> Result<Plan, Failure> {
        let mut done = vec![false; limited.program.steps().len()];
        let first = |instruction: &Instruction| match instruction {
            Instruction::Run(step) => (!std::mem::replace(&mut done[*step as usize], true)).then_some(*step),
            _ => None,
        };
        let order = limited.instructions.iter().filter_map(first).collect();
        Ok(plan_in(&[order], self.program.clone(), Self::site(u64::MAX / 4, threads), costs)?)
    }

    fn site(memory: u64, threads: usize) -> Site {
        let cores = u16::try_from(threads).unwrap_or(u16::MAX);
        let mut site = Site::blind("this machine", cores, memory);
        site.trusted_by.push(matrix::server());
        site.tier_of.push(matrix::server());
        site
    }

    /// What a limit leaves for values: the process as it is, threads, and moves take their part.
    fn memory_for_values(&self, limit: u64, threads: usize) -> Result<u64, Failure> {
        let base = memory::resident().map_or(64 << 20, |[now, _]| now);
        let besides = base + SCRATCH * threads as u64 + POOL + memory::IDLE as u64 + self.blocks();
        limit.checked_sub(besides).filter(|left| *left > 0).ok_or_else(|| {
            let (limit, besides) = (tobari_plan::plan::bytes(limit), tobari_plan::plan::bytes(besides));
            Failure::Work(format!(
                "expected a limit above {besides}, which the process needs besides values, found {limit}"
            ))
        })
    }

    /// Memory for what moves: two of the largest objects, and 64 MiB.
    fn blocks(&self) -> u64 {
        let largest = self.program.values().map(|value| self.program.shape(value).raw).max().unwrap_or(0);
        2 * (largest + 4096) + (32 << 20)
    }

    /// A plan, checked: nothing leaves that tells of the diagonals.
    pub(crate) fn check(&self, plan: Plan) -> Result<CheckedPlan, Failure> {
        Ok(plan.check(&Requirements { protect: [matrix::server()].into() })?)
    }

    /// Runs a plan.
    pub(crate) fn run(
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
        // the same for each run, on purpose: they are compared to the bit, and their inputs are the same
        let engine = self.engine.next_run(&mut generator(3, 0));
        let moving = store.as_mut().map(|store| store as &mut dyn Store);
        let finished = run::run(engine, plan, |value| self.input(value), moving, &options)?;
        let used = |store: &DiskStore| store.used().map(|(path, bytes)| (path.to_path_buf(), bytes)).collect();
        let folders = store.as_ref().map(used).unwrap_or_default();
        let peak = memory::resident().map(|[_, peak]| peak);
        let output = finished.outputs.first().ok_or_else(|| Failure::Work("the program gave nothing".to_owned()))?;
        let (digest, right) = (Some(self.digest(output)?), self.is_right(output)?);
        Ok(Outcome { status: finished.status, peak, digest, right, tier, folders })
    }

    /// FNV-1a of the output's bytes: two runs are compared, nobody is to be stopped from making two alike.
    fn digest(&self, output: &BgvValue) -> Result<u64, Failure> {
        use tobari_plan::engine::Engine;
        use tobari_plan::program::Encoding;
        let shape = self.engine.shape_of(output)?;
        let mut bytes = vec![0; usize::try_from(shape.packed)?];
        self.engine.export(output, &shape, Encoding::Packed, &mut bytes)?;
        Ok(bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    fn is_right(&self, output: &BgvValue) -> Result<bool, Failure> {
        let found = output.as_ciphertext().ok_or_else(|| Failure::Work("the output is no ciphertext".to_owned()))?;
        let found = Encoder::new(&self.parameters)?.decode(&Decryptor::new(&self.secret)?.decrypt(found));
        let clear =
            ClearEngine { arithmetic: Arithmetic::Modulo(65_537), rows: 2, columns: self.parameters.degree() / 2 };
        let vectors = |what: u64, count: usize| -> Result<Vec<_>, Failure> {
            (0..count).map(|i| Ok(clear.integers(&self.numbers(what, i))?.into())).collect()
        };
        let key = || std::sync::Arc::new(ClearValue::Key);
        let inputs = Inputs {
            vectors: vectors(0, self.size.vectors)?,
            diagonals: vectors(1, self.size.diagonals)?,
            rotations: (1..self.size.diagonals).map(|_| key()).collect(),
            relinearization: key(),
        };
        let expected = matrix::program(&mut Direct::new(&clear), &inputs)?;
        Ok(expected.is_some_and(|expected| *expected == ClearValue::Integers(found)))
    }
}

fn sources(program: &Program, inputs: &Inputs<Value>) -> Vec<Source> {
    let mut all = vec![Source::Relinearization; program.inputs().len()];
    inputs.vectors.iter().enumerate().for_each(|(i, value)| all[value.index()] = Source::Vector(i));
    inputs.diagonals.iter().enumerate().for_each(|(i, value)| all[value.index()] = Source::Diagonal(i));
    (1..).zip(&inputs.rotations).for_each(|(steps, value)| all[value.index()] = Source::Rotation(steps));
    all
}
