//! Chunks sealed and opened by all engines of this machine: CPU threads, and modules beside them.
//!
//! [`Pool`] is the machine's half of [`tobari_plan::dispatch`]: it has the threads, the clocks and
//! the buffers. Items go in ([`Pool::submit`]), results come out ([`Pool::wait`]), in no order,
//! each once, and never more than the limit is here; whoever keeps a result keeps its batch's
//! buffer ([`Made`]). A chunk owns its bytes, so that one which a module took and did not bring
//! back is done again from the same buffer, and with the same result.
//!
//! **A module is trusted with plaintext, not with being right.** Every answer is opened again and
//! compared before it is published, unless [`Options::check`] says otherwise; a module that answers
//! wrong once gets nothing more. What that costs is a part of what handing over costs, and decides
//! with it whether the module is of use.
//!
//! | file | what it holds |
//! |---|---|
//! | `module` | what a module is: a new one is a file of its own beside `emulated` |
//! | `emulated` | a process on another core that plays a module, labelled so |
//! | `request` | what that process is handed |
//! | `reach` | another process's memory, for one that has direct access |
//! | `openssl` | OpenSSL's EVP, one message after another, to compare with (feature `openssl`) |
//! | `calibrate` | what everything costs, measured before the first item |
//! | `gcm` | AES-256-GCM by `ring` |

mod calibrate;
mod emulated;
mod gcm;
mod module;
#[cfg(feature = "openssl")]
#[allow(unsafe_code, reason = "a call that trusts its caller with the room for what it writes")]
mod openssl;
#[allow(unsafe_code, reason = "system calls that read and write another process's memory")]
mod reach;
mod request;
mod worker;

pub use calibrate::calibrate;
use calibrate::calibrate_sealing;
pub use emulated::{Emulated, EmulatedEngine, EmulatedOptions, Killer, MODULE_VERB, run_module};
pub use gcm::RingGcm;
pub use module::{Answers, Module, ModuleError, Pipelined};
#[cfg(feature = "openssl")]
pub use openssl::{Openssl, OpensslCbc, OpensslGcm, OpensslGcmContext};
pub use request::fuzz_requests;

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tobari_host::threads::ShortSlices;
use tobari_plan::dispatch::{Batch, Dispatcher, Done, Handle, Limits, Model, Policy, Report, Take, Unit};
use tobari_seal::{Chunk, SealError, Suite};

/// How a pool works.
pub struct Options {
    /// Who does what.
    pub policy: Policy,
    /// CPU threads; there is always one, for what modules leave undone.
    pub cpu_workers: usize,
    /// Modules.
    pub modules: Vec<Box<dyn Module>>,
    /// Memory and batches. Under [`Policy::Best`] a module has four times as many batches at once
    /// where others want the cores.
    pub limits: Limits,
    /// Whether every answer of a module is opened and compared. Off only to measure.
    pub check: bool,
    /// What everything costs; measured at the start where it is not known.
    pub model: Option<Model>,
    /// Chains of CBC that a CPU worker does side by side; the fastest number if none is given. One,
    /// to compare with libraries that do one message after another.
    pub lanes: Option<usize>,
    /// The core on which CPU workers and drivers stay, all of them: a machine with one processor.
    pub core: Option<usize>,
    /// What is measured at the start: chunks of this suite that are sealed.
    pub suite: Suite,
}

impl Options {
    /// All threads, no module, [`Policy::Best`].
    pub fn new() -> Self {
        Self {
            policy: Policy::Best,
            cpu_workers: tobari_host::threads::available(),
            modules: Vec::new(),
            limits: Limits::default(),
            check: true,
            model: None,
            lanes: None,
            core: None,
            suite: Suite::Gcm,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// What one engine did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// `cpu`, or the module's name.
    pub name: String,
    /// What whoever reads must know, as `emulated-module`; empty for the CPU.
    pub label: String,
    /// What it did.
    pub done: Done,
    /// Why it was given up, if it was.
    pub lost: Option<String>,
}

/// What became of a chunk. Its bytes are part of a buffer that all of one batch share, which is
/// there as long as one of them is.
pub type Made = Result<Bytes, SealError>;
/// A result: the number that was submitted with the chunk, and the bytes.
pub type Finished = (u64, Made);

/// Threads and modules at work. Dropped, it waits for what they are doing.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Something changed for workers.
    work: Condvar,
    /// Something changed for whoever submits and waits.
    done: Condvar,
    began: Instant,
    spins: bool,
    check: bool,
    lanes: Option<usize>,
    core: Option<usize>,
    /// Batches that a module may have.
    module_batches: usize,
    /// Others want the cores, and there are modules, which must not wait for a thread: whoever
    /// waits here asks to be run soon.
    beside_others: bool,
}

struct State {
    dispatcher: Dispatcher,
    /// By slot: who asked, and for what.
    items: Vec<Option<(u64, Arc<Chunk>)>>,
    finished: VecDeque<Finished>,
    finished_bytes: u64,
    /// Whoever waits for results is woken when there are so many bytes of them; nobody waits where
    /// it is `None`.
    wanted_bytes: Option<u64>,
    /// Workers that sleep.
    asleep: usize,
    limits: Limits,
    stopped: bool,
    lost: Vec<Option<String>>,
    names: Vec<(String, String)>,
}

/// What a worker gets.
enum Next {
    Batch(Batch, Vec<Arc<Chunk>>),
    /// Nothing now, and it did not want to wait.
    Nothing,
    End,
}

/// Whether a worker without work waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Never,
    /// Until anything happens.
    Once,
}

/// Who gets more than this part of the cores' time has them for itself.
const ALONE: f64 = 0.8;

/// So many times as many batches a module has where others want the cores: whoever hands over is
/// away for milliseconds then, in which two short ones are done long since.
const BATCHES_BESIDE_OTHERS: u32 = 4;

/// What a result holds beside the bytes of its chunk, at most: IV, padding and MAC, and something
/// for itself.
const BESIDE_BYTES: u64 = 16 + 16 + 32 + RESULT_BYTES;
/// What a result holds beside its bytes.
const RESULT_BYTES: u64 = 64;

impl State {
    /// Chunks and results share one bound: a chunk is taken in only if its result will fit, too.
    /// One alone always is.
    fn has_room(&self, chunk: &Chunk) -> bool {
        let (bytes, open) = (chunk.bytes() as u64, self.dispatcher.open_items());
        let fits = self.dispatcher.in_flight_bytes() == 0 || bytes <= self.dispatcher.room();
        let claimed = self.in_flight_bytes() + bytes + (open as u64 + 1) * BESIDE_BYTES;
        fits && (open == 0 && self.finished.is_empty() || claimed <= self.limits.in_flight_bytes)
    }

    fn in_flight_bytes(&self) -> u64 {
        self.dispatcher.in_flight_bytes() + self.finished_bytes
    }

    fn submit(&mut self, number: u64, chunk: Chunk) -> Result<(), Chunk> {
        let Ok(bytes) = u32::try_from(chunk.bytes()) else { return Err(chunk) };
        if !self.has_room(&chunk) {
            return Err(chunk);
        }
        let Ok(handle) = self.dispatcher.submit(bytes) else { return Err(chunk) };
        let slot = handle.slot();
        if self.items.len() <= slot {
            self.items.resize_with(slot + 1, || None);
        }
        self.items[slot] = Some((number, Arc::new(chunk)));
        Ok(())
    }

    fn take(&mut self) -> Option<Finished> {
        let finished = self.finished.pop_front()?;
        self.finished_bytes -= held_bytes(&finished.1);
        Some(finished)
    }
}

/// Whether the first CPU worker is the driver of modules, too. Where there is no core for drivers
/// it is; other policies are the paper's, with a thread for each. Where somebody else wants the
/// cores a driver has a thread: it sleeps mostly, so it has something left of its share when there
/// is something to do, and is run at once ([`ShortSlices`]).
fn drives_modules(policy: Policy, crowded: bool, available: f64) -> bool {
    policy == Policy::Best && crowded && !is_beside_others(policy, available)
}

/// Whether others want the cores, and something is done about it: other policies are the paper's.
fn is_beside_others(policy: Policy, available: f64) -> bool {
    policy == Policy::Best && available <= ALONE
}

/// What a result holds: its bytes, and something for itself.
fn held_bytes(result: &Made) -> u64 {
    result.as_ref().map_or(0, |bytes| bytes.len() as u64) + RESULT_BYTES
}

impl Pool {
    /// Starts threads; measures engines first if there is no model.
    ///
    /// # Errors
    /// The system's, if a thread cannot be started.
    pub fn start(mut options: Options) -> std::io::Result<Self> {
        // There is always a thread that can finish what a module leaves undone.
        options.cpu_workers = options.cpu_workers.max(1);
        let cpus = options.cpu_workers;
        if let Some(lanes) = options.lanes {
            options.limits.cpu_lanes = lanes as u32;
        }
        let model = options.model.take().unwrap_or_else(|| calibrate_sealing(&mut options));
        let available = model.available;
        let beside_others = !options.modules.is_empty() && is_beside_others(options.policy, available);
        if beside_others && options.limits.module_batches > 1 {
            options.limits.module_batches = options.limits.module_batches.saturating_mul(BATCHES_BESIDE_OTHERS);
        }
        let threads: usize = cpus + options.modules.iter().map(|module| 1 + module.cores()).sum::<usize>();
        let crowded = options.core.is_some() || threads > tobari_host::threads::available();
        let units: Vec<Unit> =
            std::iter::repeat_n(Unit::Cpu, cpus).chain(options.modules.iter().map(|_| Unit::Module)).collect();
        let cpu = ("cpu".to_owned(), String::new());
        let modules = options.modules.iter().map(|module| (module.name().to_owned(), module.label().to_owned()));
        let names = std::iter::repeat_n(cpu, cpus).chain(modules).collect::<Vec<_>>();
        let dispatcher = Dispatcher::new(options.policy, &units, options.limits, model);
        let shared = Arc::new(Shared { beside_others, ..Shared::new(&options, dispatcher, names) });
        let mut pool = Self { shared, threads: Vec::new() };
        let mut modules: Vec<(usize, Box<dyn Module>)> = (cpus..).zip(options.modules).collect();
        let ahead = modules.iter_mut().all(|(_, module)| module.pipelined().is_some());
        let pipelined = ahead && options.limits.module_batches > 1;
        let together = pipelined && drives_modules(options.policy, crowded, available);
        let mut driven = if together { std::mem::take(&mut modules) } else { Vec::new() };
        for worker in 0..cpus {
            let (shared, driven) = (pool.shared.clone(), std::mem::take(&mut driven));
            let thread = std::thread::Builder::new().name("seal".to_owned());
            pool.threads.push(thread.spawn(move || match driven.is_empty() {
                true => worker::cpu(&shared, worker),
                false => worker::cpu_and_modules(&shared, worker, driven),
            })?);
        }
        for (worker, module) in modules {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new().name("module".to_owned());
            pool.threads.push(thread.spawn(move || worker::module(&shared, worker, module))?);
        }
        Ok(pool)
    }

    /// Takes a chunk in, under a number of the caller's.
    ///
    /// # Errors
    /// The chunk again, if there is no room until a result was taken with [`Pool::wait`], or after
    /// [`Pool::close`].
    pub fn submit(&self, number: u64, chunk: Chunk) -> Result<(), Chunk> {
        let mut state = self.shared.lock();
        let submitted = state.submit(number, chunk);
        self.shared.wake(state);
        submitted
    }

    /// Takes in as many as there is room for, and leaves the rest.
    pub fn submit_all(&self, chunks: &mut std::iter::Peekable<impl Iterator<Item = (u64, Chunk)>>) {
        let mut state = self.shared.lock();
        while let Some((number, chunk)) = chunks.next_if(|(_, chunk)| state.has_room(chunk)) {
            if state.submit(number, chunk).is_err() {
                break; // closed, or longer than any item may be
            }
        }
        self.shared.wake(state);
    }

    /// Nothing more comes.
    pub fn close(&self) {
        if self.shared.lock().dispatcher.close() {
            return; // everybody knows
        }
        self.shared.work.notify_all();
        self.shared.done.notify_all();
    }

    /// The next result; waits for one if chunks are on their way, and gives `None` if there are
    /// none.
    pub fn wait(&self) -> Option<Finished> {
        self.wait_until(0).take()
    }

    /// Waits until there are so many bytes of results, or all that is on its way, and adds all that
    /// are there. False if there are none, and nothing is on its way.
    pub fn wait_for(&self, bytes: u64, results: &mut Vec<Finished>) -> bool {
        let mut state = self.wait_until(bytes);
        let before = results.len();
        results.extend(state.finished.drain(..));
        state.finished_bytes = 0;
        results.len() > before
    }

    fn wait_until(&self, bytes: u64) -> MutexGuard<'_, State> {
        let (mut state, mut slices) = (self.shared.lock(), None);
        loop {
            let there = state.finished_bytes >= bytes && !state.finished.is_empty();
            if there || state.dispatcher.open_items() == 0 {
                state.wanted_bytes = None;
                return state;
            }
            state.wanted_bytes = Some(bytes);
            slices = slices.or_else(|| self.shared.short_slices());
            let waited = self.shared.done.wait_timeout(state, Duration::from_millis(50));
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    /// A result that is there already.
    pub fn take(&self) -> Option<Finished> {
        self.shared.lock().take()
    }

    /// Bytes of chunks that somebody has or that wait, and of results that nobody took.
    pub fn in_flight_bytes(&self) -> u64 {
        self.shared.lock().in_flight_bytes()
    }

    /// What each engine did so far.
    pub fn report(&self) -> Vec<EngineReport> {
        let state = self.shared.lock();
        let engines = state.names.iter().zip(&state.lost).enumerate();
        let report = engines.map(|(at, ((name, label), lost))| EngineReport {
            name: name.clone(),
            label: label.clone(),
            done: state.dispatcher.done(at),
            lost: lost.clone(),
        });
        report.collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Of workers with these names and labels, by number.
    fn new(options: &Options, dispatcher: Dispatcher, names: Vec<(String, String)>) -> Self {
        let state = State {
            dispatcher,
            items: Vec::new(),
            finished: VecDeque::new(),
            finished_bytes: 0,
            wanted_bytes: None,
            asleep: 0,
            limits: options.limits,
            stopped: false,
            lost: vec![None; names.len()],
            names,
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            began: Instant::now(),
            spins: options.policy == Policy::Polling,
            check: options.check,
            lanes: options.lanes,
            core: options.core,
            module_batches: options.limits.module_batches.max(1) as usize,
            beside_others: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a thread that often waits, where others want the cores.
    fn short_slices(&self) -> Option<ShortSlices> {
        self.beside_others.then(ShortSlices::ask)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Wakes workers that sleep, if there are any.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let asleep = state.asleep;
        drop(state);
        if asleep > 0 {
            self.work.notify_all();
        }
    }

    /// A batch for this worker: waits for one if it is to.
    fn next_batch(&self, worker: usize, wait: Wait, items: &mut Vec<Handle>) -> Next {
        let (mut state, mut waited) = (self.lock(), false);
        loop {
            if state.stopped || state.lost[worker].is_some() {
                return Next::End;
            }
            if waited && wait == Wait::Once {
                return Next::Nothing;
            }
            let now = self.now();
            if state.dispatcher.tick(now) {
                self.work.notify_all();
            }
            let long = match state.dispatcher.take(worker, now, items) {
                Take::Batch(batch) => {
                    let chunk = |handle: &Handle| state.items.get(handle.slot())?.as_ref().map(|item| item.1.clone());
                    return Next::Batch(batch, items.iter().filter_map(chunk).collect());
                }
                _ if wait == Wait::Never => return Next::Nothing,
                // The pool may be used again until it is dropped: only that ends a worker.
                Take::End => Duration::from_millis(50),
                Take::Wait { until_ns } => until_ns.map_or(Duration::from_millis(50), |at| {
                    Duration::from_nanos(at.saturating_sub(now).clamp(20_000, 50_000_000))
                }),
            };
            state = self.sleep(state, long);
            waited = true;
        }
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>, long: Duration) -> MutexGuard<'a, State>
    where
        Self: 'a,
    {
        if self.spins {
            std::hint::spin_loop();
        }
        let long = if self.spins { Duration::ZERO } else { long };
        state.asleep += 1;
        let slept = self.work.wait_timeout(state, long);
        let mut state = slept.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        state.asleep -= 1;
        state
    }

    /// Publishes the results of a batch, in the order of its items.
    fn publish(&self, worker: usize, batch: Batch, items: &[Handle], results: Vec<Made>, report: Report) {
        let (mut published, now) = (Vec::new(), self.now());
        let mut state = self.lock();
        state.dispatcher.finish(worker, batch, report, now, &mut published);
        let mut published = published.into_iter().peekable();
        for (handle, result) in items.iter().zip(results) {
            if published.next_if_eq(handle).is_none() {
                continue; // somebody else was first
            }
            if let Some((number, _)) = state.items.get_mut(handle.slot()).and_then(Option::take) {
                state.finished_bytes += held_bytes(&result);
                state.finished.push_back((number, result));
            }
        }
        let last = state.dispatcher.open_items() == 0;
        let told = state.wanted_bytes.is_some_and(|bytes| last || state.finished_bytes >= bytes);
        if told {
            state.wanted_bytes = None;
            self.done.notify_all();
        }
        self.wake(state);
        if told && last {
            // Whoever waited goes first: all that is left to do here is to let go of memory.
            std::thread::yield_now();
        }
    }

    /// The worker is of no use any more.
    fn lose(&self, worker: usize, why: String) {
        let mut state = self.lock();
        state.dispatcher.fail(worker);
        state.lost[worker] = Some(why);
        drop(state);
        self.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_best_does_something_about_others_who_want_the_cores() {
        assert!(is_beside_others(Policy::Best, 0.5) && is_beside_others(Policy::Best, ALONE));
        assert!(!is_beside_others(Policy::Best, 1.0) && !is_beside_others(Policy::Queue, 0.5));
    }

    #[test]
    fn a_driver_has_a_thread_under_other_policies_where_there_are_cores_and_where_others_want_them() {
        assert!(drives_modules(Policy::Best, true, 1.0));
        assert!(!drives_modules(Policy::Best, true, 0.5), "others want the core");
        assert!(!drives_modules(Policy::Best, false, 1.0), "there is a core for it");
        assert!(!drives_modules(Policy::Queue, true, 1.0), "the paper's has one");
    }
}
