//! Runs a checked plan on this machine: threads compute, a tier stores values, and memory holds
//! only the values that fit.
//!
//! [`Runner`] decides the next work; this module does it. All threads take tasks from one queue:
//! first values to pack for the tier, then steps, then values from the tier to unpack. The calling
//! thread feeds the tier, and unpacks values instead of waiting. So steps wait for unpacking only
//! if no other work is possible. The same plan runs on one core and on many. The results have the
//! same bits in any order, because the engine's steps are deterministic.
//!
//! Any failure stops the run: a full file system, a lost disk, a corrupted page, a changed value.
//! There is one error, and it names the value. No output is returned before the last step has
//! ended.

use crate::memory::Busy;
use crate::store::{BlockError, Blocks, Completion, Kind, Store, StoreError};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tobari_plan::check::CheckedPlan;
use tobari_plan::engine::Engine;
use tobari_plan::page::Instruction;
use tobari_plan::program::Value;
use tobari_plan::run::{Progress, Runner, Work};

/// Options of a run.
pub struct Options<'a> {
    /// Threads that compute; at least one. The calling thread moves and unpacks values in addition.
    pub threads: usize,
    /// Memory for moves to and from the tier.
    pub blocks: Blocks,
    /// Gets the run's status a few times a second.
    pub observer: &'a (dyn Fn(&Status) + Sync),
    /// Set this to cancel the run.
    pub cancel: &'a AtomicBool,
}

/// The status of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Steps and bytes.
    pub progress: Progress,
    /// Seconds since the start.
    pub seconds: f64,
    /// Seconds without work, summed over all threads.
    pub idle: f64,
    /// Remaining seconds, at the pace so far.
    pub left: Option<f64>,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E: std::error::Error + 'static> {
    /// A step failed.
    #[error("step {step}: {source}")]
    Step {
        /// The step.
        step: u32,
        /// The engine's error.
        source: E,
    },
    /// A value could not be packed or unpacked.
    #[error("{value}: {source}")]
    Value {
        /// The value.
        value: Value,
        /// The engine's error.
        source: E,
    },
    /// The tier failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Values need a tier, and there is none.
    #[error("expected a tier of storage for this plan, found none")]
    NoTier,
    /// A value is larger than the memory for moves.
    #[error("{value}: expected at most {limit} bytes to move at once, found {bytes}")]
    TooLarge {
        /// The value.
        value: Value,
        /// Its packed bytes.
        bytes: u64,
        /// Bytes for moves.
        limit: usize,
    },
    /// The system has no memory.
    #[error(transparent)]
    Memory(#[from] BlockError),
    /// The caller gave no input.
    #[error("input {name}: {reason}")]
    Input {
        /// Its name.
        name: String,
        /// The caller's reason.
        reason: String,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The plan is unfinished, but has no work left: a fault of this program.
    #[error("expected something to do, found nothing: this is a fault of the program")]
    Stuck,
}

/// The result of a run.
#[derive(Debug)]
pub struct Finished<V> {
    /// The outputs, in the program's order.
    pub outputs: Vec<Arc<V>>,
    /// The final status.
    pub status: Status,
}

/// The state that threads share.
struct Shared<'a, V, X: std::error::Error + 'static> {
    runner: Runner<'a>,
    memory: Vec<Option<Arc<V>>>,
    imports: VecDeque<(Work, crate::store::Block)>,
    to_export: VecDeque<Work>,
    exported: VecDeque<(Work, crate::store::Block)>,
    failed: Option<RunError<X>>,
    idle: Duration,
}

/// One run.
struct Run<'a, E: Engine> {
    engine: E,
    plan: &'a CheckedPlan,
    options: &'a Options<'a>,
    shared: Mutex<Shared<'a, E::Value, E::Error>>,
    /// Signals possible work for a thread.
    work: Condvar,
    /// Signals possible work for the tier.
    moves: Condvar,
}

/// A task for a thread.
enum Task<V> {
    Import(Work, crate::store::Block),
    Export(Work, Arc<V>, crate::store::Block),
    Step(Work, Vec<Arc<V>>),
}

/// Runs a plan. Calls `input` for one input after another, in their order, but not for inputs that
/// the plan does not use. Inputs that the plan keeps in the tier are written there first.
///
/// The run consumes the engine. The secret for the engine's randomised steps belongs to this run: a
/// second plan, or the same plan with other inputs, must never use it.
///
/// ```compile_fail
/// # use tobari_host::run::{run, Options};
/// # use tobari_plan::{check::CheckedPlan, engine::Engine};
/// fn twice<E: Engine<Value = u8>>(engine: E, plan: &CheckedPlan, options: &Options<'_>) {
///     let _ = run(engine, plan, |_| Ok(1), None, options);
///     let _ = run(engine, plan, |_| Ok(2), None, options);
/// }
/// ```
///
/// # Errors
/// [`RunError`]; there are no outputs then.
pub fn run<E: Engine>(
    engine: E,
    plan: &CheckedPlan,
    mut input: impl FnMut(Value) -> Result<E::Value, String>,
    mut store: Option<&mut dyn Store>,
    options: &Options<'_>,
) -> Result<Finished<E::Value>, RunError<E::Error>> {
    let program = &plan.plan().program;
    let mut memory: Vec<Option<Arc<E::Value>>> = Vec::new();
    memory.resize_with(program.len(), || None);
    let resident: BTreeSet<Value> = plan.plan().resident.iter().copied().collect();
    for (value, about) in program.values().zip(program.inputs()) {
        // An unused input may be a secret that this site must not see: the plan's check covers only
        // values that come into memory.
        if !plan.plan().inputs_stored && !resident.contains(&value) {
            continue;
        }
        let found = input(value).map_err(|reason| RunError::Input { name: about.name.clone(), reason })?;
        if plan.plan().inputs_stored {
            let store = store.as_deref_mut().ok_or(RunError::NoTier)?;
            let encoding = plan.plan().encodings[value.index()];
            let mut block = take(options, value, plan.plan().stored(value))?;
            engine
                .export(&found, &about.shape, encoding, &mut block)
                .map_err(|source| RunError::Value { value, source })?;
            store.write(value.index() as u64, block).map_err(StoreError::from)?;
            settle(store.completed(true)?)?;
        }
        if resident.contains(&value) {
            memory[value.index()] = Some(Arc::new(found));
        }
        if options.cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled);
        }
    }
    let (runner, dropped) = Runner::new(plan);
    dropped.into_iter().for_each(|value| memory[value.index()] = None);
    let (imports, to_export, exported) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let shared = Shared { runner, memory, imports, to_export, exported, failed: None, idle: Duration::ZERO };
    let run = Run { engine, plan, options, shared: Mutex::new(shared), work: Condvar::new(), moves: Condvar::new() };
    let _busy = Busy::new();
    run.go(store)
}

fn take<X: std::error::Error + 'static>(
    options: &Options<'_>,
    value: Value,
    bytes: u64,
) -> Result<crate::store::Block, RunError<X>> {
    options.blocks.take(bytes as usize).map_err(|error| match error {
        BlockError::Limit { .. } => RunError::TooLarge { value, bytes, limit: options.blocks.limit_bytes() },
        other => other.into(),
    })
}

fn settle(completions: Vec<Completion>) -> Result<(), StoreError> {
    completions.into_iter().try_for_each(|completion| completion.outcome)
}

/// Stops the run if a thread panics.
struct Guard<'r, 'a, E: Engine>(&'r Run<'a, E>);

impl<E: Engine> Drop for Guard<'_, '_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(RunError::Stuck);
        }
    }
}

impl<'a, E: Engine> Run<'a, E> {
    fn lock(&self) -> MutexGuard<'_, Shared<'a, E::Value, E::Error>> {
        // A panic leaves the state consistent: no computation runs under the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the run; the first failure is reported.
    fn fail(&self, error: RunError<E::Error>) {
        let mut shared = self.lock();
        shared.failed.get_or_insert(error);
        shared.runner.cancel();
        drop(shared);
        self.work.notify_all();
        self.moves.notify_all();
    }

    fn go(self, mut store: Option<&mut dyn Store>) -> Result<Finished<E::Value>, RunError<E::Error>> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.options.threads.max(1) {
                scope.spawn(|| {
                    let _guard = Guard(&self);
                    self.compute();
                });
            }
            let _guard = Guard(&self);
            self.move_values(&mut store, start);
        });
        let status = self.status(&self.lock(), start);
        let mut shared = self.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = shared.failed {
            return Err(error);
        }
        let program = &self.plan.plan().program;
        let mut outputs = Vec::with_capacity(program.outputs().len());
        for value in program.outputs() {
            let found = match shared.memory[value.index()].take() {
                Some(found) => found,
                None => Arc::new(fetch(&self.engine, self.plan, self.options, &mut store, *value)?),
            };
            outputs.push(found);
        }
        Ok(Finished { outputs, status })
    }

    fn status(&self, shared: &Shared<'_, E::Value, E::Error>, start: Instant) -> Status {
        let (progress, seconds) = (shared.runner.progress(), start.elapsed().as_secs_f64());
        let left = (progress.part > 0.01).then(|| seconds / progress.part - seconds);
        Status { progress, seconds, idle: shared.idle.as_secs_f64(), left }
    }

    /// The loop of a computing thread, until the run ends.
    fn compute(&self) {
        let mut shared = self.lock();
        loop {
            if shared.failed.is_some() || shared.runner.is_done() {
                return;
            }
            match self.next(&mut shared) {
                Some(task) => {
                    drop(shared);
                    if let Err(error) = self.perform(task) {
                        self.fail(error);
                    }
                    shared = self.lock();
                }
                None => {
                    let start = Instant::now();
                    shared = self.work.wait(shared).unwrap_or_else(PoisonError::into_inner);
                    shared.idle += start.elapsed();
                }
            }
        }
    }

    fn next(&self, shared: &mut Shared<'a, E::Value, E::Error>) -> Option<Task<E::Value>> {
        if shared.to_export.is_empty() {
            shared.to_export.extend(shared.runner.next_store());
        }
        let program = &self.plan.plan().program;
        if let Some(work) = shared.to_export.pop_front() {
            if let Instruction::Store(value) = work.instruction
                && let Some(found) = &shared.memory[value.index()]
                && let Ok(block) = self.options.blocks.take(self.plan.plan().stored(value) as usize)
            {
                return Some(Task::Export(work, Arc::clone(found), block));
            }
            shared.to_export.push_front(work); // later, after another value was written
        }
        let Some(work) = shared.runner.next_step() else {
            return shared.imports.pop_front().map(|(work, block)| Task::Import(work, block));
        };
        let Instruction::Run(step) = work.instruction else { return None };
        let args = program.args(step as usize);
        let found = args.iter().filter_map(|arg| shared.memory[arg.index()].clone()).collect();
        // An argument without a later use leaves memory here, so that the step owns it alone.
        if let Some(first) = args.first().filter(|first| shared.runner.is_last_user(work, **first)) {
            shared.memory[first.index()] = None;
        }
        Some(Task::Step(work, found))
    }

    fn perform(&self, task: Task<E::Value>) -> Result<(), RunError<E::Error>> {
        let program = &self.plan.plan().program;
        match task {
            Task::Import(work, block) => {
                let Instruction::Load(value) = work.instruction else { return Err(RunError::Stuck) };
                let found = self.engine.import(program.shape(value), self.plan.plan().encodings[value.index()], &block);
                drop(block);
                self.finish(work, Some((value, found.map_err(|source| RunError::Value { value, source })?)));
            }
            Task::Export(work, found, mut block) => {
                let Instruction::Store(value) = work.instruction else { return Err(RunError::Stuck) };
                let exported = self.engine.export(
                    &found,
                    program.shape(value),
                    self.plan.plan().encodings[value.index()],
                    &mut block,
                );
                exported.map_err(|source| RunError::Value { value, source })?;
                self.lock().exported.push_back((work, block));
                self.moves.notify_all();
            }
            Task::Step(work, args) => {
                let Instruction::Run(step) = work.instruction else { return Err(RunError::Stuck) };
                let made = self.step(step as usize, args);
                let made = made.map_err(|source| RunError::Step { step, source })?;
                self.finish(work, Some((program.result(step as usize), made)));
            }
        }
        Ok(())
    }

    fn step(&self, step: usize, mut args: Vec<Arc<E::Value>>) -> Result<E::Value, E::Error> {
        let op = self.plan.plan().program.steps()[step].op;
        let rest = args.split_off(args.len().min(1));
        let rest: Vec<&E::Value> = rest.iter().map(|arg| &**arg).collect();
        match args.pop().map(Arc::try_unwrap) {
            Some(Ok(first)) => self.engine.step_owned(step, op, first, &rest),
            Some(Err(first)) => self.engine.step(step, op, &[&[&*first], &rest[..]].concat()),
            None => self.engine.step(step, op, &[]),
        }
    }

    /// Stores a new value, and drops the values that the plan no longer needs in memory.
    fn finish(&self, work: Work, made: Option<(Value, E::Value)>) {
        let mut shared = self.lock();
        if let Some((value, made)) = made {
            shared.memory[value.index()] = Some(Arc::new(made));
        }
        let dropped = shared.runner.finished(work);
        let dropped: Vec<Option<Arc<E::Value>>> =
            dropped.into_iter().map(|value| shared.memory[value.index()].take()).collect();
        drop(shared);
        // Free the memory before waking other threads.
        drop(dropped);
        self.work.notify_all();
        self.moves.notify_all();
    }

    /// The loop of the calling thread: feeds the tier, and waits for it.
    fn move_values(&self, store: &mut Option<&mut dyn Store>, start: Instant) {
        let (mut under_way, mut told) = (Vec::new(), Instant::now());
        loop {
            if let Err(error) = self.start_moves(store, &mut under_way) {
                self.fail(error);
            }
            let mut shared = self.lock();
            if under_way.is_empty() && (shared.failed.is_some() || shared.runner.is_done()) {
                return;
            }
            if self.options.cancel.load(Ordering::Relaxed) && shared.failed.is_none() {
                drop(shared);
                self.fail(RunError::Cancelled);
                continue;
            }
            if told.elapsed() > Duration::from_millis(200) {
                told = Instant::now();
                (self.options.observer)(&self.status(&shared, start));
            }
            let come = if shared.failed.is_none() { shared.imports.pop_front() } else { None };
            if let Some((work, block)) = come {
                drop(shared);
                if let Err(error) = self.perform(Task::Import(work, block)) {
                    self.fail(error);
                }
                continue;
            }
            match store {
                Some(store) if !under_way.is_empty() => {
                    drop(shared);
                    match store.completed(true) {
                        Ok(completions) => completions.into_iter().for_each(|done| self.moved(done, &mut under_way)),
                        Err(error) => {
                            under_way.clear(); // their blocks are lost with the store
                            self.fail(error.into());
                        }
                    }
                }
                _ => {
                    let wait = self.moves.wait_timeout(shared, Duration::from_millis(50));
                    drop(wait.unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }

    /// Starts all moves that are possible now.
    fn start_moves(
        &self,
        store: &mut Option<&mut dyn Store>,
        under_way: &mut Vec<Work>,
    ) -> Result<(), RunError<E::Error>> {
        loop {
            let mut shared = self.lock();
            if shared.failed.is_some() {
                return Ok(());
            }
            if let Some((work, block)) = shared.exported.pop_front() {
                drop(shared);
                let Instruction::Store(value) = work.instruction else { return Err(RunError::Stuck) };
                let store = store.as_deref_mut().ok_or(RunError::NoTier)?;
                store.write(value.index() as u64, block).map_err(StoreError::from)?;
                under_way.push(work);
                continue;
            }
            let Some(work) = shared.runner.next_load() else { return Ok(()) };
            let Instruction::Load(value) = work.instruction else { return Err(RunError::Stuck) };
            let bytes = self.plan.plan().stored(value);
            match self.options.blocks.take(bytes as usize) {
                Ok(block) => {
                    drop(shared);
                    let store = store.as_deref_mut().ok_or(RunError::NoTier)?;
                    store.read(value.index() as u64, block).map_err(StoreError::from)?;
                    under_way.push(work);
                }
                Err(BlockError::Limit { .. }) => {
                    if bytes as usize > self.options.blocks.limit_bytes() {
                        return Err(RunError::TooLarge { value, bytes, limit: self.options.blocks.limit_bytes() });
                    }
                    shared.runner.put_back_load(work);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Handles the end of a move.
    fn moved(&self, done: Completion, under_way: &mut Vec<Work>) {
        let is = |work: &Work| match work.instruction {
            Instruction::Load(value) => done.kind == Kind::Read && value.index() as u64 == done.object,
            Instruction::Store(value) => done.kind == Kind::Write && value.index() as u64 == done.object,
            _ => false,
        };
        let Some(place) = under_way.iter().position(is) else { return };
        let work = under_way.swap_remove(place);
        match (done.outcome, done.kind) {
            (Err(error), _) => self.fail(error.into()),
            (Ok(()), Kind::Read) => {
                self.lock().imports.push_back((work, done.block));
                self.work.notify_one();
            }
            (Ok(()), Kind::Write) => {
                drop(done.block);
                self.finish(work, None);
            }
        }
    }
}

/// Reads an output from the tier, at the end.
fn fetch<E: Engine>(
    engine: &E,
    plan: &CheckedPlan,
    options: &Options<'_>,
    store: &mut Option<&mut dyn Store>,
    value: Value,
) -> Result<E::Value, RunError<E::Error>> {
    let shape = plan.plan().program.shape(value);
    let store = store.as_deref_mut().ok_or(RunError::NoTier)?;
    store.read(value.index() as u64, take(options, value, plan.plan().stored(value))?).map_err(StoreError::from)?;
    let done = store.completed(true)?.pop().ok_or(RunError::Stuck)?;
    done.outcome?;
    engine
        .import(shape, plan.plan().encodings[value.index()], &done.block)
        .map_err(|source| RunError::Value { value, source })
}
