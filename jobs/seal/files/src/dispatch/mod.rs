//! Sealing and opening of chunks by all engines of this machine: CPU threads and modules.
//!
//! [`Pool`] adds threads, clocks and buffers to [`tobari_plan::dispatch`]. Chunks go in
//! ([`Pool::submit`]), and each gives one result ([`Pool::wait`]), in any order. Chunks and results
//! together never exceed the limit. A result that is kept keeps its batch's buffer ([`Made`]). A
//! chunk owns its bytes. So a chunk that a module took and did not return is processed again from
//! the same buffer, with the same result.
//!
//! **A module is trusted with plaintext, but not to be right.** Every answer is decrypted and
//! compared before it is published, unless [`Options::check`] is off. A module that gives one wrong
//! answer gets no more chunks. The check is part of the measured cost of handing over, so it counts
//! in the decision whether a module helps.
//!
//! | file | what it holds |
//! |---|---|
//! | `module` | the trait of a module; a new module is a file beside `emulated` |
//! | `emulated` | a process on another core that emulates a module, labelled so |
//! | `request` | the requests to that process |
//! | `reach` | access to another process's memory, for direct access |
//! | `openssl` | OpenSSL's EVP, one message after another, for comparisons (feature `openssl`) |
//! | `calibrate` | measurement of all costs, before the first chunk |
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

/// Options of a pool.
pub struct Options {
    /// The division of chunks between engines.
    pub policy: Policy,
    /// CPU threads; at least one, for chunks that modules do not finish.
    pub cpu_workers: usize,
    /// Modules.
    pub modules: Vec<Box<dyn Module>>,
    /// Memory and batches. Under [`Policy::Best`] a module gets four times as many batches at once
    /// if other processes use the cores.
    pub limits: Limits,
    /// Whether every answer of a module is decrypted and compared. Turn it off only to measure.
    pub check: bool,
    /// The costs of engines; measured at the start if `None`.
    pub model: Option<Model>,
    /// Chains of CBC that a CPU worker encrypts side by side; the fastest number if `None`. Use one
    /// for comparisons with libraries that encrypt one message after another.
    pub lanes: Option<usize>,
    /// One core for all CPU workers and drivers, as on a machine with one processor.
    pub core: Option<usize>,
    /// The suite of the chunks that are sealed for the measurement at the start.
    pub suite: Suite,
}

impl Options {
    /// Options for all threads, no module, and [`Policy::Best`].
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

/// The work of one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// `cpu`, or the module's name.
    pub name: String,
    /// A label for readers of the report, such as `emulated-module`; empty for the CPU.
    pub label: String,
    /// Its chunks, bytes and batches.
    pub done: Done,
    /// The reason for giving it up, if it was given up.
    pub lost: Option<String>,
}

/// The outcome of a chunk. Its bytes are part of a buffer that all results of a batch share. The
/// buffer stays in memory until the last of them is dropped.
pub type Made = Result<Bytes, SealError>;
/// A result: the number submitted with the chunk, and the outcome.
pub type Finished = (u64, Made);

/// Running threads and modules. Dropping waits for their current batches.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signals a change to workers.
    work: Condvar,
    /// Signals a change to threads that submit and wait.
    done: Condvar,
    began: Instant,
    spins: bool,
    check: bool,
    lanes: Option<usize>,
    core: Option<usize>,
    /// The most batches of a module at once.
    module_batches: usize,
    /// Other processes use the cores, and there are modules. A module must not wait for a thread,
    /// so waiting threads ask the kernel to run them soon.
    beside_others: bool,
}

struct State {
    dispatcher: Dispatcher,
    /// By slot: the caller's number, and the chunk.
    items: Vec<Option<(u64, Arc<Chunk>)>>,
    finished: VecDeque<Finished>,
    finished_bytes: u64,
    /// A waiting caller is woken at this many bytes of results. `None` if no caller waits.
    wanted_bytes: Option<u64>,
    /// The number of sleeping workers.
    asleep: usize,
    limits: Limits,
    stopped: bool,
    lost: Vec<Option<String>>,
    names: Vec<(String, String)>,
}

/// The answer to a worker that asks for work.
enum Next {
    Batch(Batch, Vec<Arc<Chunk>>),
    /// No batch now, and the worker does not wait.
    Nothing,
    End,
}

/// Whether a worker without work waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Never,
    /// Until the next change.
    Once,
}

/// A process with more than this share of the cores' time has the cores for itself.
const ALONE: f64 = 0.8;

/// A module gets this many times as many batches if other processes use the cores. Its driver then
/// sleeps for milliseconds, and two short batches would end before that.
const BATCHES_BESIDE_OTHERS: u32 = 4;

/// The most memory of a result beyond the bytes of its chunk: IV, padding, MAC, and bookkeeping.
const BESIDE_BYTES: u64 = 16 + 16 + 32 + RESULT_BYTES;
/// Memory of a result beyond its bytes, for bookkeeping.
const RESULT_BYTES: u64 = 64;

impl State {
    /// Whether the pool takes this chunk. Chunks and results share one bound, so the result must
    /// fit, too. A single chunk always fits.
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

/// Whether the first CPU worker also drives the modules: under [`Policy::Best`], if no core is free
/// for drivers. The other policies are the paper's and have a thread for each driver. If other
/// processes use the cores, a driver has its own thread, too: it mostly sleeps, so it has CPU time
/// left when work arrives, and the kernel runs it at once ([`ShortSlices`]).
fn drives_modules(policy: Policy, crowded: bool, available: f64) -> bool {
    policy == Policy::Best && crowded && !is_beside_others(policy, available)
}

/// Whether other processes use the cores and the policy adapts to it; the paper's policies do not.
fn is_beside_others(policy: Policy, available: f64) -> bool {
    policy == Policy::Best && available <= ALONE
}

/// Memory of a result: its bytes and the bookkeeping.
fn held_bytes(result: &Made) -> u64 {
    result.as_ref().map_or(0, |bytes| bytes.len() as u64) + RESULT_BYTES
}

impl Pool {
    /// Starts the threads, after measuring the engines if there is no model.
    ///
    /// # Errors
    /// The system's error if a thread cannot be started.
    pub fn start(mut options: Options) -> std::io::Result<Self> {
        // One CPU thread at least, to finish chunks that a module did not.
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

    /// Submits a chunk, under a number that the caller chooses.
    ///
    /// # Errors
    /// Returns the chunk if there is no room before a result is taken with [`Pool::wait`], or after
    /// [`Pool::close`].
    pub fn submit(&self, number: u64, chunk: Chunk) -> Result<(), Chunk> {
        let mut state = self.shared.lock();
        let submitted = state.submit(number, chunk);
        self.shared.wake(state);
        submitted
    }

    /// Submits chunks as long as there is room, and leaves the remaining ones.
    pub fn submit_all(&self, chunks: &mut std::iter::Peekable<impl Iterator<Item = (u64, Chunk)>>) {
        let mut state = self.shared.lock();
        while let Some((number, chunk)) = chunks.next_if(|(_, chunk)| state.has_room(chunk)) {
            if state.submit(number, chunk).is_err() {
                break; // closed, or longer than any item may be
            }
        }
        self.shared.wake(state);
    }

    /// Ends the input: no more chunks may be submitted.
    pub fn close(&self) {
        if self.shared.lock().dispatcher.close() {
            return; // closed before
        }
        self.shared.work.notify_all();
        self.shared.done.notify_all();
    }

    /// Waits for the next result; `None` if no chunk is in the pool.
    pub fn wait(&self) -> Option<Finished> {
        self.wait_until(0).take()
    }

    /// Waits for `bytes` bytes of results, or for all chunks, and adds the results to `results`.
    /// False if there is no result and no chunk in the pool.
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

    /// A result, without waiting.
    pub fn take(&self) -> Option<Finished> {
        self.shared.lock().take()
    }

    /// Bytes of chunks that wait or are in an engine, and of results not yet taken.
    pub fn in_flight_bytes(&self) -> u64 {
        self.shared.lock().in_flight_bytes()
    }

    /// The work of each engine so far.
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
            // A panic was already reported by its thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The state for workers with these names and labels, by number.
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

    /// Short slices for a thread that often waits, if other processes use the cores.
    fn short_slices(&self) -> Option<ShortSlices> {
        self.beside_others.then(ShortSlices::ask)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Wakes sleeping workers.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let asleep = state.asleep;
        drop(state);
        if asleep > 0 {
            self.work.notify_all();
        }
    }

    /// A batch for this worker, after waiting as `wait` says.
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
                // A worker ends only when the pool is dropped: the pool may be used again before.
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
                continue; // another engine published it first
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
            // The waiting thread goes first: here only memory remains to be freed.
            std::thread::yield_now();
        }
    }

    /// Gives up a worker.
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
