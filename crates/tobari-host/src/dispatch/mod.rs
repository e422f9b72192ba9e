//! Chunks sealed and opened by all engines of this machine: CPU threads, and modules beside them.
//!
//! [`Pool`] is the machine's half of [`tobari_plan::dispatch`]: it has the threads, the clocks and the buffers. Items go in ([`Pool::submit`]), results come out
//! ([`Pool::wait`]), in no order, each once, and never more than the limit is in memory. A chunk owns its bytes, so that one which a module took and did not bring
//! back is done again from the same buffer, and with the same result.
//!
//! **A module is trusted with plaintext, not with being right.** Every answer is opened again and compared before it is published, unless [`Options::check`] says otherwise; a module that
//! answers wrong once gets nothing more. What that costs is a part of what handing over costs, and decides with it whether the module is of use.
//!
//! | file | what it holds |
//! |---|---|
//! | `module` | what a module is: a new one is a file of its own beside `emulated` |
//! | `emulated` | a process on another core that plays a module, labelled so |
//! | `calibrate` | what everything costs, measured before the first item |
//! | `gcm` | AES-256-GCM by `ring` |

mod calibrate;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod emulated;
mod gcm;
mod module;
mod worker;

pub use calibrate::calibrate;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub use emulated::{Emulated, EmulatedEngine, EmulatedOptions, MODULE_VERB, run_module};
pub use gcm::RingGcm;
pub use module::{Module, ModuleError};

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tobari_apps::seal::{Chunk, SealError};
use tobari_plan::dispatch::{Batch, Dispatcher, Done, Handle, Limits, Model, Policy, Report, Take, Unit};

/// How a pool works.
pub struct Options {
    /// Who does what.
    pub policy: Policy,
    /// CPU threads; there is always one, for what modules leave undone.
    pub cpu_workers: usize,
    /// Modules.
    pub modules: Vec<Box<dyn Module>>,
    /// Memory and batches.
    pub limits: Limits,
    /// Whether every answer of a module is opened and compared. Off only to measure.
    pub check: bool,
    /// What everything costs; measured at the start where it is not known.
    pub model: Option<Model>,
}

impl Options {
    /// All threads, no module, [`Policy::Best`].
    pub fn new() -> Self {
        Self {
            policy: Policy::Best,
            cpu_workers: crate::threads::available(),
            modules: Vec::new(),
            // A driver waits for its module, so it has one batch at a time.
            limits: Limits { module_batches: 1, ..Limits::default() },
            check: true,
            model: None,
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

/// A result: the number that was submitted with the chunk, and the bytes.
pub type Finished = (u64, Result<Vec<u8>, SealError>);

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
}

struct State {
    dispatcher: Dispatcher,
    /// By slot: who asked, and for what.
    items: Vec<Option<(u64, Arc<Chunk>)>>,
    finished: VecDeque<Finished>,
    finished_bytes: u64,
    limits: Limits,
    stopped: bool,
    lost: Vec<Option<String>>,
    names: Vec<(String, String)>,
}

impl Pool {
    /// Starts threads; measures engines first if there is no model.
    ///
    /// # Errors
    /// The system's, if a thread cannot be started.
    pub fn start(mut options: Options) -> std::io::Result<Self> {
        // There is always a thread that can finish what a module leaves undone.
        let cpus = options.cpu_workers.max(1);
        let model = options.model.take().unwrap_or_else(|| calibrate(cpus, &mut options.modules, options.check));
        let units: Vec<Unit> =
            std::iter::repeat_n(Unit::Cpu, cpus).chain(options.modules.iter().map(|_| Unit::Module)).collect();
        let cpu = ("cpu".to_owned(), String::new());
        let modules = options.modules.iter().map(|module| (module.name().to_owned(), module.label().to_owned()));
        let names = std::iter::repeat_n(cpu, cpus).chain(modules).collect();
        let state = State {
            dispatcher: Dispatcher::new(options.policy, &units, options.limits, model),
            items: Vec::new(),
            finished: VecDeque::new(),
            finished_bytes: 0,
            limits: options.limits,
            stopped: false,
            lost: vec![None; units.len()],
            names,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            began: Instant::now(),
            spins: options.policy == Policy::Polling,
            check: options.check,
        });
        let mut pool = Self { shared, threads: Vec::new() };
        for worker in 0..cpus {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new().name("seal".to_owned());
            pool.threads.push(thread.spawn(move || worker::cpu(&shared, worker))?);
        }
        for (at, module) in options.modules.into_iter().enumerate() {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new().name("module".to_owned());
            pool.threads.push(thread.spawn(move || worker::module(&shared, cpus + at, module))?);
        }
        Ok(pool)
    }

    /// Takes a chunk in, under a number of the caller's.
    ///
    /// # Errors
    /// The chunk again, if there is no room until a result was taken with [`Pool::wait`], or after [`Pool::close`].
    pub fn submit(&self, number: u64, chunk: Chunk) -> Result<(), Chunk> {
        let Ok(bytes) = u32::try_from(chunk.bytes()) else { return Err(chunk) };
        let mut state = self.shared.lock();
        if state.finished_bytes >= state.limits.in_flight_bytes {
            return Err(chunk);
        }
        let Ok(handle) = state.dispatcher.submit(bytes) else { return Err(chunk) };
        let slot = handle.slot();
        if state.items.len() <= slot {
            state.items.resize_with(slot + 1, || None);
        }
        state.items[slot] = Some((number, Arc::new(chunk)));
        drop(state);
        self.shared.work.notify_all();
        Ok(())
    }

    /// Nothing more comes.
    pub fn close(&self) {
        self.shared.lock().dispatcher.close();
        self.shared.work.notify_all();
        self.shared.done.notify_all();
    }

    /// The next result; waits for one if chunks are on their way, and gives `None` if there are none.
    pub fn wait(&self) -> Option<Finished> {
        let mut state = self.shared.lock();
        loop {
            if let Some(finished) = state.finished.pop_front() {
                state.finished_bytes -= finished.1.as_ref().map_or(0, |bytes| bytes.len() as u64);
                return Some(finished);
            }
            if state.dispatcher.open_items() == 0 {
                return None;
            }
            state = self
                .shared
                .done
                .wait_timeout(state, Duration::from_millis(50))
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    /// A result that is there already.
    pub fn take(&self) -> Option<Finished> {
        let mut state = self.shared.lock();
        let finished = state.finished.pop_front()?;
        state.finished_bytes -= finished.1.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Some(finished)
    }

    /// Bytes of chunks that somebody has or that wait, and of results that nobody took.
    pub fn in_flight_bytes(&self) -> u64 {
        let state = self.shared.lock();
        state.dispatcher.in_flight_bytes() + state.finished_bytes
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
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Waits until there is a batch for this worker. `None` at the end.
    fn next_batch(&self, worker: usize, items: &mut Vec<Handle>) -> Option<(Batch, Vec<Arc<Chunk>>)> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.lost[worker].is_some() {
                return None;
            }
            let now = self.now();
            if state.dispatcher.tick(now) {
                self.work.notify_all();
            }
            match state.dispatcher.take(worker, now, items) {
                Take::Batch(batch) => {
                    let chunk = |handle: &Handle| state.items.get(handle.slot())?.as_ref().map(|item| item.1.clone());
                    return Some((batch, items.iter().filter_map(chunk).collect()));
                }
                // The pool may be used again until it is dropped: only that ends a worker.
                Take::End => state = self.sleep(state, Duration::from_millis(50)),
                Take::Wait { until_ns } => {
                    let long = until_ns.map_or(Duration::from_millis(50), |at| {
                        Duration::from_nanos(at.saturating_sub(now).clamp(20_000, 50_000_000))
                    });
                    state = self.sleep(state, long);
                }
            }
        }
    }

    fn sleep<'a>(&self, state: MutexGuard<'a, State>, long: Duration) -> MutexGuard<'a, State>
    where
        Self: 'a,
    {
        if self.spins {
            std::hint::spin_loop();
        }
        let long = if self.spins { Duration::ZERO } else { long };
        self.work.wait_timeout(state, long).map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state)
    }

    /// Publishes the results of a batch, in the order of its items.
    fn publish(
        &self,
        worker: usize,
        batch: Batch,
        items: &[Handle],
        results: Vec<Result<Vec<u8>, SealError>>,
        report: Report,
    ) {
        let (mut published, now) = (Vec::new(), self.now());
        let mut state = self.lock();
        state.dispatcher.finish(worker, batch, report, now, &mut published);
        let mut published = published.into_iter().peekable();
        for (handle, result) in items.iter().zip(results) {
            if published.next_if_eq(handle).is_none() {
                continue; // somebody else was first
            }
            if let Some((number, _)) = state.items.get_mut(handle.slot()).and_then(Option::take) {
                state.finished_bytes += result.as_ref().map_or(0, |bytes| bytes.len() as u64);
                state.finished.push_back((number, result));
            }
        }
        drop(state);
        self.work.notify_all();
        self.done.notify_all();
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
