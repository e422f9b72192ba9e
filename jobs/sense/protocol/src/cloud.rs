//! The server's half of a question: it converts the frames of a window when their input is needed,
//! and computes with them.
//!
//! The server has device numbers, frames, encrypted secrets and keys that decrypt nothing. It
//! computes the [`Job`] of its own tally. The tally accompanies the results, so the key holder
//! derives the same plan.

use super::client::Withheld;
use super::exact;
use super::linear;
use super::message::{self, WindowResults};
use super::order::{Job, JobPlan, Order, OrderError, Seat, Tally};
use super::program::{Input, Transform};
use super::server::{Batch, exact_slots, linear_slots};
use super::setting::Setting;
use crate::with_profile;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tobari_device::{DeviceNumber, Envelope, Profile, transform_root};
use tobari_engine::{BgvEngine, BgvValue, EngineError};
use tobari_lattice::bgv::{EvaluationKeys, SeededCiphertext};
use tobari_plan::engine::Direct;
use tobari_plan::program::{Program, Value};

/// The objects that the key holder gave the server.
pub trait Material {
    /// The `i`-th polynomials of a cohort's secrets, encrypted; `None` if the server does not have
    /// them.
    fn secret(&mut self, cohort: usize, i: usize) -> Option<SeededCiphertext>;
    /// An evaluation key; `None` if the server does not have it.
    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>>;
    /// Puts frames into a batch, for [`Cloud::prepare_counted`]. `None` if a frame no longer
    /// exists.
    fn fill(&mut self, _batch: &mut Batch, _wanted: &[Wanted]) -> Option<()> {
        None
    }
}

/// A frame that a batch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its block.
    pub block: usize,
    /// Its device.
    pub number: DeviceNumber,
    /// Its rank among the device's frames of the window, by their counters.
    pub time: u32,
}

/// Frames of a window, by device number, in the order of their counters.
pub type Frames<P> = BTreeMap<DeviceNumber, Vec<Envelope<P>>>;

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloudError {
    /// The order gives no job.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The key holder did not give this object.
    #[error("expected {0} from the key holder, found none")]
    Material(&'static str),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A program that cannot be recorded.
    #[error(transparent)]
    Plan(#[from] linear::PlanError),
    /// A value that is not a result.
    #[error(transparent)]
    Result(#[from] Withheld),
    /// A result whose noise may pass a quarter of the modulus. It is not sent.
    #[error("a result may have more noise than its modulus holds: ask for fewer frames, or with smaller weights")]
    Noise,
    /// A result that cannot be sent.
    #[error(transparent)]
    Message(#[from] message::MessageError),
}

/// The number of frames of each device that an order takes.
pub fn tally<P: Profile>(order: &Order, seats: &[Seat], frames: &Frames<P>) -> Vec<Tally> {
    tally_of(order, seats, frames.iter().map(|(number, frames)| (*number, frames.len() as u64)))
}

/// As [`tally`], from the numbers of frames of each device in a window, by ascending device
/// numbers.
pub fn tally_of(order: &Order, seats: &[Seat], found: impl Iterator<Item = (DeviceNumber, u64)>) -> Vec<Tally> {
    let wanted = order.devices();
    let counts: std::collections::BTreeSet<u32> =
        seats.iter().filter(|seat| seat.counts).map(|seat| seat.number).collect();
    // frames of all keys of a device count together
    let (owners, mut last, mut all) = (order.owners(), BTreeMap::<u32, (usize, u32)>::new(), Vec::<Tally>::new());
    for (number, found) in found {
        let number = number.value();
        if found == 0 || !wanted.contains(&number) || !counts.contains(&number) {
            continue;
        }
        let owner = owners.of(number);
        let (place, before) = last.get(&owner).copied().unwrap_or((all.len(), 0));
        let frames = found.min(order.frames.saturating_sub(before).into()) as u32;
        let left_out = u32::try_from(found - u64::from(frames)).unwrap_or(u32::MAX);
        match all.get_mut(place).filter(|_| frames == 0) {
            Some(earlier) => earlier.left_out = earlier.left_out.saturating_add(left_out),
            None => {
                last.insert(owner, (all.len(), before + frames));
                all.push(Tally { number, frames, left_out });
            }
        }
    }
    all
}

/// A job with its frames, ready to compute.
pub struct Prepared {
    job: Job,
    tally: Vec<Tally>,
    batches: Mutex<Batches>,
    program: Program,
    inputs: Vec<Input>,
}

/// The batches of a job's frames.
struct Batches {
    all: Vec<Batch>,
    /// The frames of each batch, if not all batches are in memory at once.
    wanted: Vec<Vec<Wanted>>,
    /// The batches in memory, the oldest first. At most `most` batches are in memory.
    loaded: VecDeque<usize>,
    most: usize,
}

impl Batches {
    /// Loads a batch into memory. `None` if a frame no longer exists.
    fn load(&mut self, batch: usize, material: &mut dyn Material) -> Option<()> {
        if self.loaded.contains(&batch) {
            return Some(());
        }
        while self.loaded.len() >= self.most
            && let Some(oldest) = self.loaded.pop_front()
        {
            self.all[oldest].unload();
        }
        self.all[batch].clear();
        self.loaded.push_back(batch);
        material.fill(&mut self.all[batch], &self.wanted[batch])
    }
}

impl Prepared {
    /// The program to run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The message with the outputs of the program.
    ///
    /// # Errors
    /// [`CloudError::Result`] for values that are not results, and [`CloudError::Noise`]: the key
    /// holder relies on this check, because it sees no bound.
    pub fn message(&self, outputs: &[Arc<BgvValue>]) -> Result<Vec<u8>, CloudError> {
        let ciphertext = |value: &Arc<BgvValue>| value.as_ciphertext().cloned();
        let results = outputs.iter().map(ciphertext).collect::<Option<Vec<_>>>().ok_or(Withheld)?;
        if !results.iter().all(|result| result.noise_budget() > 0.0) {
            return Err(CloudError::Noise);
        }
        Ok(message::encode(&WindowResults { tally: self.tally.clone(), results })?)
    }
}

/// A server's computations for one fleet.
pub struct Cloud {
    setting: Setting,
    engine: BgvEngine,
    transform: Option<Transform>,
}

impl Cloud {
    /// Computations with this setting, with their own tables.
    ///
    /// # Errors
    /// [`EngineError`] for parameters that the engine rejects.
    pub fn new(setting: Setting, rng: &mut impl CryptoRng) -> Result<Self, EngineError> {
        let engine = BgvEngine::new(&setting.parameters, None, rng)?;
        let root = with_profile!(setting.profile, P => transform_root::<P>());
        let transform = Transform::new(&setting.scheme, root);
        Ok(Self { setting, engine, transform })
    }

    /// The setting of the computations.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Prepares the computation of an order on the frames of a window, without running any of it.
    ///
    /// # Errors
    /// [`CloudError`]; it contains [`OrderError::Empty`] if no group has enough devices.
    pub fn prepare<P: Profile>(
        &self,
        order: &Order,
        seats: &[Seat],
        frames: &Frames<P>,
    ) -> Result<Prepared, CloudError> {
        let mut prepared = self.prepare_counted(order, seats, tally(order, seats, frames), 0)?;
        let batches = prepared.batches.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (batch, wanted) in batches.all.iter_mut().zip(std::mem::take(&mut batches.wanted)) {
            batch.clear();
            for Wanted { block, number, time } in wanted {
                if let Some(envelope) = frames.get(&number).and_then(|frames| frames.get(time as usize)) {
                    batch.put(block, envelope);
                }
            }
        }
        Ok(prepared)
    }

    /// As [`Self::prepare`], for a tally ([`tally_of`]). Inputs request frames with
    /// [`Material::fill`]. Batches take at most this many bytes of memory at a time, but at least
    /// one batch is in memory.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_counted(
        &self,
        order: &Order,
        seats: &[Seat],
        tally: Vec<Tally>,
        bytes: u64,
    ) -> Result<Prepared, CloudError> {
        let job = order.job(&self.setting, seats, &tally)?;
        let (mut all, mut wanted) = (Vec::with_capacity(job.batches.len()), Vec::with_capacity(job.batches.len()));
        let taken: BTreeMap<u32, u32> = tally.iter().map(|tally| (tally.number, tally.frames)).collect();
        let blocks = self.setting.layout.blocks();
        for (cohort, time) in &job.batches {
            let of = |(block, seat): (usize, &Seat)| {
                let there = taken.get(&seat.number).is_some_and(|frames| time < frames);
                let number = DeviceNumber::new(seat.number).filter(|_| there)?;
                Some(Wanted { block, number, time: *time })
            };
            let of_batch: Vec<Wanted> =
                seats.iter().skip(cohort * blocks).take(blocks).enumerate().filter_map(of).collect();
            let batch =
                Batch::expecting(&self.setting.scheme, self.setting.layout, of_batch.iter().map(|wanted| wanted.block));
            all.push(batch.ok_or(CloudError::Material("a profile with a modulus"))?);
            wanted.push(of_batch);
        }
        let (program, inputs) = match &job.plan {
            JobPlan::Linear(plan) => linear::record(&self.engine, plan)?,
            JobPlan::Exact(plan) => exact::record(&self.engine, plan)?,
        };
        let each = (self.setting.scheme.rank + 1) * self.setting.layout.slots() * size_of::<u32>();
        let most = usize::try_from(bytes / each as u64).unwrap_or(usize::MAX).max(1);
        let batches = Mutex::new(Batches { all, wanted, loaded: VecDeque::new(), most });
        Ok(Prepared { job, tally, batches, program, inputs })
    }

    /// An engine for one run of a plan.
    pub fn engine_for_a_run(&self, rng: &mut impl CryptoRng) -> BgvEngine {
        self.engine.next_run(rng)
    }

    /// An input of a prepared job.
    ///
    /// # Errors
    /// [`CloudError`].
    ///
    /// # Panics
    /// If the program has no such input.
    pub fn input(
        &self,
        prepared: &Prepared,
        material: &mut dyn Material,
        value: Value,
    ) -> Result<BgvValue, CloudError> {
        let input = prepared.inputs[value.index()];
        let mut batches = prepared.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Input::Uniform { term, .. } | Input::Body(term), false) = (input, batches.wanted.is_empty()) {
            let batch = match &prepared.job.plan {
                JobPlan::Linear(plan) => plan.terms().get(term).map(|term| term.batch),
                JobPlan::Exact(_) => Some(term),
            };
            let batch = batch.filter(|batch| *batch < batches.all.len());
            let there = batch.and_then(|batch| batches.load(batch, material));
            there.ok_or(CloudError::Material("a frame"))?;
        }
        self.value(&self.engine, &prepared.job, material, input, |input| match &prepared.job.plan {
            JobPlan::Linear(plan) => linear_slots(plan, &batches.all, input),
            JobPlan::Exact(plan) => exact_slots(plan, self.transform.as_ref()?, &batches.all, input),
        })
    }

    /// The results of an order for the frames of a window, as a message. This computes at once,
    /// with everything in memory. A server with a memory limit [prepares](Self::prepare) the job
    /// and runs a plan.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn answer<P: Profile>(
        &self,
        order: &Order,
        seats: &[Seat],
        frames: &Frames<P>,
        material: &mut dyn Material,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, CloudError> {
        let prepared = self.prepare(order, seats, frames)?;
        let engine = self.engine_for_a_run(rng);
        let mut next = prepared.program.values();
        let mut make = |_| {
            let value = next.next().ok_or(CloudError::Material("an input of the program"))?;
            self.input(&prepared, material, value).map(Arc::new)
        };
        let values = match &prepared.job.plan {
            JobPlan::Linear(plan) => {
                let inputs = linear::Inputs::new(plan, engine.top_level(), &mut make)?;
                linear::program(&mut Direct::new(&engine), plan, &inputs)?
            }
            JobPlan::Exact(plan) => {
                let inputs = exact::Inputs::new(plan, engine.top_level(), &mut make)?;
                exact::program(&mut Direct::new(&engine), plan, &inputs)?
            }
        };
        prepared.message(&values)
    }

    /// One input of a program.
    fn value(
        &self,
        engine: &BgvEngine,
        job: &Job,
        material: &mut dyn Material,
        input: Input,
        plain: impl Fn(Input) -> Option<Vec<i64>>,
    ) -> Result<BgvValue, CloudError> {
        if let Input::Secret { cohort, i } = input {
            let cohort = job.cohorts.get(cohort).copied().ok_or(CloudError::Material("a cohort"))?;
            let secret = material.secret(cohort, i).ok_or(CloudError::Material("the secrets of a cohort"))?;
            return Ok(engine.ciphertext(secret.expand())?);
        }
        if super::setting::key_name(input).is_some() {
            return Ok(engine.key(material.key(input).ok_or(CloudError::Material("a key"))?)?);
        }
        let slots = plain(input).ok_or(CloudError::Material("a frame"))?;
        Ok(match self.setting.profile.is_linear() {
            true => engine.compact(&slots, engine.top_level())?,
            false => exact::plain(engine, input, &slots)?,
        })
    }
}
