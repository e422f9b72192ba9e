//! The test bed stands for one processor with one module: a CPU worker and a driver on one core,
//! and an emulated module on another. A measurement runs on it.

use std::fmt::{Display, Formatter};
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_host::threads;
use tobari_plan::dispatch::{Limits, Model, Policy};
use tobari_seal::{BareCbc, Chunk, process, process_in_lanes};
use tobari_seal_files::dispatch::{
    Emulated, EmulatedEngine, EmulatedOptions, Module, Options, Pool, RingGcm, calibrate,
};

/// The core of the CPU worker, the driver and the submitting thread.
const CPU_CORE: usize = 0;
/// The core of the emulated module.
const MODULE_CORE: usize = 1;

/// One measured combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) key_bytes: usize,
    pub(super) encrypts: bool,
    /// The module's speed, relative to one chain of encryption on the CPU.
    pub(super) speed: f64,
    /// Chains that the CPU worker runs side by side; none for the fastest number.
    pub(super) lanes: Option<usize>,
    /// Competing threads that always want the CPU's core: 1 thread takes half of it, 9 threads take
    /// nine tenths.
    pub(super) others: usize,
    /// The most items that are handed over at once.
    pub(super) batch: u32,
    /// Whether the module accesses the host's memory directly.
    pub(super) direct: bool,
}

impl Setup {
    /// The paper's setup: AES-128, encryption, a module of 1.6 times the CPU's speed, no load.
    pub(super) const PAPER: Self =
        Self { key_bytes: 16, encrypts: true, speed: 1.6, lanes: Some(1), others: 0, batch: 64, direct: true };

    pub(super) fn cpu(&self) -> &'static str {
        if self.lanes == Some(1) { "one chain" } else { "side by side" }
    }

    pub(super) fn copies(&self) -> &'static str {
        if self.direct { "no copies by the CPU" } else { "copied twice by the CPU" }
    }

    /// The part of the CPU's core that competing threads want.
    pub(super) fn load(&self) -> f64 {
        self.others as f64 / (1.0 + self.others as f64)
    }
}

impl Display for Setup {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let way = if self.encrypts { "encryption" } else { "decryption" };
        write!(f, "AES-{} {way}, engine {}, CPU {}, ", 8 * self.key_bytes, self.speed, self.cpu())?;
        write!(f, "{} of its core wanted, batches of {}, {}", self.load(), self.batch, self.copies())
    }
}

/// The figures of one run.
pub(super) struct Measured {
    pub(super) ms: f64,
    /// The processor time of this process, without the module's.
    pub(super) cpu_ms: f64,
    pub(super) by_module: u64,
}

/// A setup with its basic speeds, which are measured once for all its runs.
pub(super) struct Bed {
    pub(super) setup: Setup,
    /// The speed of one chain of encryption on the CPU, in bytes a nanosecond.
    pub(super) one_chain: f64,
    /// The time from the doorbell of one small item to its answer.
    pub(super) doorbell_ns: f64,
    key: BareCbc,
    model: Model,
    load: Load,
}

/// Runs work on the CPU's core, as everything except the module.
fn on_the_core<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            threads::stay_on(CPU_CORE);
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The least time of a few tries, in nanoseconds.
fn least(tries: usize, mut work: impl FnMut()) -> f64 {
    let times = (0..tries).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed().as_nanos() as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

impl Bed {
    /// Measures the CPU's speed, which determines the module's speed; then measures all costs.
    pub(super) fn new(setup: Setup) -> Result<Self, Failure> {
        let key = BareCbc::new(&vec![7; setup.key_bytes])?;
        let mut rng = randomness::generator()?;
        let chunks: Vec<Chunk> = (0..16).map(|_| key.encrypt(vec![1; 16_384], &mut rng)).collect();
        let chunks: Vec<&Chunk> = chunks.iter().collect();
        let one_chain = on_the_core(|| {
            let work = || drop(process_in_lanes(&chunks, &RingGcm, Some(1)));
            Ok(16.0 * 16_384.0 / least(30, work))
        })?;
        let mut bed = Self {
            setup,
            one_chain,
            doorbell_ns: 0.0,
            key,
            model: Model::cpu_only(tobari_plan::dispatch::Cost::linear(0.0, 0.0, 0.0)),
            load: Load::start(setup.others),
        };
        let mut module = bed.module()?;
        let small = bed.key.encrypt(vec![1; 15], &mut rng);
        bed.doorbell_ns = on_the_core(|| {
            let mut failed = None;
            let work = || failed = failed.take().or(module.seal(&[&small]).err());
            let ns = least(200, work);
            failed.map_or(Ok(ns), |error| Err(error.into()))
        })?;
        bed.load.set(false);
        // As in the runs: without the check of answers, whose time would count as hand-over.
        let mut options = bed.options(Policy::Best, false);
        options.modules.push(Box::new(module));
        let message = |bytes| bed.message(bytes).ok();
        bed.model = calibrate(&mut options, &message);
        bed.model.available = 1.0 - setup.load();
        Ok(bed)
    }

    fn module(&self) -> Result<Emulated, Failure> {
        Ok(Emulated::start(&EmulatedOptions {
            engine: EmulatedEngine::SideBySide,
            bytes_per_second: (self.setup.speed * self.one_chain * 1e9) as u64,
            core: Some(MODULE_CORE),
            direct: self.setup.direct,
            driver_looks: false,
            awake: true,
            ..EmulatedOptions::default()
        })?)
    }

    fn options(&self, policy: Policy, check: bool) -> Options {
        let limits = Limits { module_items: self.setup.batch, ..Limits::default() };
        Options {
            policy,
            cpu_workers: 1,
            limits,
            check,
            lanes: self.setup.lanes,
            core: Some(CPU_CORE),
            ..Options::new()
        }
    }

    fn message(&self, bytes: usize) -> Result<Chunk, Failure> {
        let (plain, mut rng) =
            (self.key.encrypt(vec![7; bytes], &mut randomness::generator()?), randomness::generator()?);
        if self.setup.encrypts {
            return Ok(self.key.encrypt(vec![7; bytes], &mut rng));
        }
        let iv = plain.for_module().and_then(|parts| parts.nonce().try_into().ok()).unwrap_or_default();
        let ciphertext = process(&[&plain], &RingGcm).pop().unwrap_or_else(|| Ok(Default::default()))?;
        Ok(self.key.decrypt(iv, ciphertext.into()))
    }

    /// Messages of these lengths, each in separate memory.
    fn messages(&self, sizes: &[usize]) -> Result<Vec<Chunk>, Failure> {
        let mut rng = randomness::generator()?;
        if self.setup.encrypts {
            return Ok(sizes.iter().map(|bytes| self.key.encrypt(vec![7; *bytes], &mut rng)).collect());
        }
        let mut known = std::collections::HashMap::new();
        for bytes in sizes {
            if !known.contains_key(bytes) {
                known.insert(*bytes, self.message(*bytes)?);
            }
        }
        let copy = |bytes: &usize| {
            let message = known.get(bytes)?;
            let iv = message.for_module()?.nonce().try_into().ok()?;
            Some(self.key.decrypt(iv, message.input().to_vec()))
        };
        sizes.iter().map(copy).collect::<Option<_>>().ok_or_else(|| Failure::Work("expected a message".to_owned()))
    }

    /// Runs all messages through the engines; with `check`, every answer of the module is compared
    /// with the CPU's.
    pub(super) fn run(&self, policy: Policy, sizes: &[usize], check: bool) -> Result<Measured, Failure> {
        let messages = self.messages(sizes)?;
        let mut options = self.options(policy, check);
        options.modules.push(Box::new(self.module()?));
        options.model = Some(self.model.clone());
        let pool = Pool::start(options)?;
        self.load.set(true);
        let (ms, cpu_ms) = on_the_core(|| {
            let (cpu, began) = (threads::process_cpu_ns(), Instant::now());
            drain(&pool, (0..).zip(messages).peekable())?;
            let ms = began.elapsed().as_nanos() as f64 / 1e6;
            let cpu = threads::process_cpu_ns().zip(cpu).map_or(0, |(now, before)| now - before);
            Ok((ms, cpu as f64 / 1e6))
        })?;
        self.load.set(false);
        let report = pool.report();
        if let Some(lost) = report.iter().find_map(|engine| engine.lost.clone()) {
            return Err(Failure::Work(format!("the emulated module: {lost}")));
        }
        Ok(Measured { ms, cpu_ms, by_module: report.last().map_or(0, |engine| engine.done.items) })
    }
}

fn drain(pool: &Pool, mut messages: Peekable<impl Iterator<Item = (u64, Chunk)>>) -> Result<(), Failure> {
    let mut results = Vec::new();
    loop {
        pool.submit_all(&mut messages);
        if messages.peek().is_none() {
            pool.close();
        }
        let some = pool.wait_for(1 << 20, &mut results);
        for (_, result) in results.drain(..) {
            result?;
        }
        if !some && messages.peek().is_none() {
            return Ok(());
        }
    }
}

/// Threads that want the CPU's core.
struct Load {
    state: Arc<(AtomicBool, AtomicBool)>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(count: usize) -> Self {
        let state = Arc::new((AtomicBool::new(true), AtomicBool::new(false)));
        let spin = |state: Arc<(AtomicBool, AtomicBool)>| {
            threads::stay_on(CPU_CORE);
            while !state.1.load(Ordering::Relaxed) {
                if state.0.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                } else {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            }
        };
        let threads = (0..count).map(|_| {
            std::thread::spawn({
                let state = state.clone();
                move || spin(state)
            })
        });
        Self { threads: threads.collect(), state }
    }

    fn set(&self, on: bool) {
        self.state.0.store(on, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.state.1.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}
