//! The threads: one for each CPU worker, and one for each module, its driver.

use super::module::Pipelined;
use super::{Module, ModuleError, Next, RingGcm, Shared, Wait};
use crate::threads::stay_on;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tobari_apps::seal::{Chunk, SealError, process_in_lanes};
use tobari_plan::dispatch::{Batch, Handle, Report};

/// Nanoseconds that this thread has computed.
pub(super) fn thread_cpu_ns(since: Instant) -> u64 {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    {
        let _ = since;
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }
    #[cfg(not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )))]
    {
        // No such clock that is the same everywhere: as if nobody else wanted the core.
        u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn nanoseconds(since: Instant, until: Instant) -> u64 {
    u64::try_from(until.saturating_duration_since(since).as_nanos()).unwrap_or(u64::MAX)
}

/// A stretch of work, as the clocks see it.
pub(super) struct Watch {
    wall: Instant,
    cpu: u64,
}

impl Watch {
    pub(super) fn start() -> Self {
        let wall = Instant::now();
        Self { wall, cpu: thread_cpu_ns(wall) }
    }

    /// Wall and CPU time, in nanoseconds.
    pub(super) fn stop(&self) -> (u64, u64) {
        let cpu = thread_cpu_ns(self.wall).saturating_sub(self.cpu);
        (nanoseconds(self.wall, Instant::now()), cpu)
    }
}

fn borrowed(chunks: &[Arc<Chunk>]) -> Vec<&Chunk> {
    chunks.iter().map(AsRef::as_ref).collect()
}

/// Publishes a batch that took what the report says, and `told` nanoseconds of the CPU in which the one before was published: that is part of what a batch costs, and this
/// one's is not over yet. Answers it.
fn publish(
    shared: &Shared,
    worker: usize,
    (batch, items): (Batch, &[Handle]),
    results: Vec<Result<Vec<u8>, SealError>>,
    mut report: Report,
    told: u64,
) -> u64 {
    (report.cpu_ns, report.wanted_ns) = (report.cpu_ns + told, report.wanted_ns + told);
    let watch = Watch::start();
    shared.publish(worker, batch, items, results, report);
    watch.stop().1
}

pub(super) fn cpu(shared: &Shared, worker: usize) {
    shared.core.into_iter().for_each(stay_on);
    let (mut items, mut told) = (Vec::new(), 0);
    while let Next::Batch(batch, chunks) = shared.next_batch(worker, Wait::Always, &mut items) {
        let watch = Watch::start();
        let results = process_in_lanes(&borrowed(&chunks), &RingGcm, shared.lanes);
        let (wall_ns, cpu_ns) = watch.stop();
        let report = Report { wall_ns, cpu_ns, wanted_ns: wall_ns };
        told = publish(shared, worker, (batch, &items), results, report, told);
    }
}

/// A batch that a module has.
struct Held {
    batch: Batch,
    items: Vec<Handle>,
    chunks: Vec<Arc<Chunk>>,
    /// Chunks that it does not take, by their places.
    left: Vec<usize>,
    handed_at: Instant,
    /// Wall and CPU time of handing over.
    spent: (u64, u64),
}

pub(super) fn module(shared: &Shared, worker: usize, mut module: Box<dyn Module>) {
    shared.core.into_iter().for_each(stay_on);
    let done = match module.pipelined().is_some() && shared.module_batches > 1 {
        true => Driver::new(worker, module).run(shared),
        false => one_by_one(shared, worker, module.as_mut()),
    };
    if let Err(error) = done {
        shared.lose(worker, error.to_string());
    }
}

/// One batch after another, and nothing while the module works.
fn one_by_one(shared: &Shared, worker: usize, module: &mut dyn Module) -> Result<(), ModuleError> {
    let (mut items, mut told) = (Vec::new(), 0);
    while let Next::Batch(batch, chunks) = shared.next_batch(worker, Wait::Always, &mut items) {
        let watch = Watch::start();
        let results = hand_over(module, &borrowed(&chunks), shared.check)?;
        let (wall_ns, cpu_ns) = watch.stop();
        // What the driver did not compute, it waited.
        let report = Report { wall_ns: wall_ns.saturating_sub(cpu_ns), cpu_ns, wanted_ns: cpu_ns };
        told = publish(shared, worker, (batch, &items), results, report, told);
    }
    Ok(())
}

/// A module that is handed the next batch while it works on one.
struct Driver {
    worker: usize,
    module: Box<dyn Module>,
    held: VecDeque<Held>,
    free_at: Instant,
    /// Nanoseconds in which the last batch was published.
    told: u64,
}

impl Driver {
    fn new(worker: usize, module: Box<dyn Module>) -> Self {
        Self { worker, module, held: VecDeque::new(), free_at: Instant::now(), told: 0 }
    }

    /// On a thread of its own, to the end.
    fn run(&mut self, shared: &Shared) -> Result<(), ModuleError> {
        loop {
            if self.held.len() < shared.module_batches {
                let wait = if self.held.is_empty() { Wait::Always } else { Wait::Never };
                match self.hand_over(shared, wait)? {
                    Handed::Some => continue,
                    Handed::End if self.held.is_empty() => return Ok(()),
                    Handed::Nothing | Handed::End => {}
                }
            }
            self.take_back(shared)?;
        }
    }

    /// Hands over what there is room and work for.
    fn hand_over(&mut self, shared: &Shared, wait: Wait) -> Result<Handed, ModuleError> {
        let mut items = Vec::new();
        let (batch, chunks) = match shared.next_batch(self.worker, wait, &mut items) {
            Next::Batch(batch, chunks) => (batch, chunks),
            Next::Nothing => return Ok(Handed::Nothing),
            Next::End => return Ok(Handed::End),
        };
        let fits = pipelined(self.module.as_mut())?.fits(&borrowed(&chunks));
        while !fits && !self.held.is_empty() {
            self.take_back(shared)?;
        }
        self.held.push_back(begin(self.module.as_mut(), batch, items, chunks)?);
        Ok(Handed::Some)
    }

    /// Waits for the batch that was handed over first, if there is one.
    fn take_back(&mut self, shared: &Shared) -> Result<(), ModuleError> {
        if let Some(first) = self.held.pop_front() {
            self.publish_answers(shared, &first)?;
        }
        Ok(())
    }

    /// Whatever can be done without waiting; answers whether that was anything.
    fn serve(&mut self, shared: &Shared) -> Result<bool, ModuleError> {
        let mut some = false;
        while !self.held.is_empty() && pipelined(self.module.as_mut())?.is_done(Duration::ZERO) {
            self.take_back(shared)?;
            some = true;
        }
        while self.held.len() < shared.module_batches && matches!(self.hand_over(shared, Wait::Never)?, Handed::Some) {
            some = true;
        }
        Ok(some)
    }

    /// Takes the answers to a batch, and publishes them.
    fn publish_answers(&mut self, shared: &Shared, held: &Held) -> Result<(), ModuleError> {
        let waiting = thread_cpu_ns(held.handed_at);
        let (mut rooms, mut device_ns) = (Vec::new().into_iter(), None);
        if held.left.len() < held.chunks.len() {
            let answers = pipelined(self.module.as_mut())?.end()?;
            (rooms, device_ns) = (answers.rooms.into_iter(), answers.device_ns);
        }
        let (there, fetched_ns) = (Instant::now(), thread_cpu_ns(held.handed_at).saturating_sub(waiting));
        let watch = Watch::start();
        let mut results = Vec::with_capacity(held.chunks.len());
        for (at, chunk) in held.chunks.iter().enumerate() {
            results.push(if held.left.contains(&at) {
                process_in_lanes(&[chunk], &RingGcm, None).pop().ok_or(ModuleError::Malformed)?
            } else {
                Ok(judged(chunk, rooms.next().ok_or(ModuleError::Malformed)?, shared.check)?)
            });
        }
        let ((wall, cpu), (handed_wall, handed_cpu)) = (watch.stop(), held.spent);
        let report = Report {
            wall_ns: device_ns.unwrap_or_else(|| nanoseconds(held.handed_at.max(self.free_at), there)),
            cpu_ns: handed_cpu + fetched_ns + cpu,
            wanted_ns: handed_wall + fetched_ns + wall,
        };
        self.told = publish(shared, self.worker, (held.batch, &held.items), results, report, self.told);
        self.free_at = there;
        Ok(())
    }
}

enum Handed {
    Some,
    Nothing,
    End,
}

/// Bytes that a CPU worker does before it looks after the modules again.
const SLICE_BYTES: usize = 64 << 10;
/// A slice is full groups of so many messages, which are done side by side.
const SLICE_ITEMS: usize = 16;

/// How long it waits for a module before it looks for other work.
pub(super) const NAP: Duration = Duration::from_millis(1);

/// A CPU worker that drives modules too, where there is no core for their drivers: between two slices of its own work it fetches what they have done and hands over more, which
/// costs no change of threads.
pub(super) fn cpu_and_modules(shared: &Shared, worker: usize, modules: Vec<(usize, Box<dyn Module>)>) {
    shared.core.into_iter().for_each(stay_on);
    let mut drivers: Vec<Driver> = modules.into_iter().map(|(worker, module)| Driver::new(worker, module)).collect();
    let (mut items, mut told) = (Vec::new(), 0);
    loop {
        let served = serve_all(shared, &mut drivers);
        // While modules are at work there may be something to fetch soon.
        let wait =
            if served || drivers.iter().any(|driver| !driver.held.is_empty()) { Wait::Never } else { Wait::Once };
        match shared.next_batch(worker, wait, &mut items) {
            Next::Batch(batch, chunks) => {
                let (results, report) = sliced(shared, &chunks, &mut drivers);
                told = publish(shared, worker, (batch, &items), results, report, told);
            }
            Next::End => return,
            Next::Nothing => {
                if let (false, Some(driver)) = (served, drivers.iter_mut().find(|driver| !driver.held.is_empty())) {
                    // What comes of it the next round sees; a module that stalls must not hold up what is to be done in its place.
                    let _ = pipelined(driver.module.as_mut()).map(|module| module.is_done(NAP));
                }
            }
        }
    }
}

fn serve_all(shared: &Shared, drivers: &mut Vec<Driver>) -> bool {
    let mut some = false;
    for at in (0..drivers.len()).rev() {
        let served = drivers[at].serve(shared);
        some |= matches!(served, Ok(true));
        lose_if_failed(shared, drivers, at, served.map(|_| ()));
    }
    some
}

fn lose_if_failed(shared: &Shared, drivers: &mut Vec<Driver>, at: usize, done: Result<(), ModuleError>) {
    if let Err(error) = done {
        // The buffers first: whoever does the items again may need the memory.
        let driver = drivers.remove(at);
        let worker = driver.worker;
        drop(driver);
        shared.lose(worker, error.to_string());
    }
}

/// A batch in slices; of the time between them nothing counts.
fn sliced(
    shared: &Shared,
    chunks: &[Arc<Chunk>],
    drivers: &mut Vec<Driver>,
) -> (Vec<Result<Vec<u8>, SealError>>, Report) {
    let (mut results, mut rest) = (Vec::with_capacity(chunks.len()), chunks);
    let (mut wall_ns, mut cpu_ns) = (0, 0);
    while !rest.is_empty() {
        let (mut count, mut bytes) = (0, 0);
        let group = if shared.lanes == Some(1) { 1 } else { SLICE_ITEMS };
        while count < rest.len() && (count == 0 || count % group > 0 || bytes < SLICE_BYTES) {
            bytes += rest[count].bytes();
            count += 1;
        }
        let (some, after) = rest.split_at(count);
        let watch = Watch::start();
        results.extend(process_in_lanes(&borrowed(some), &RingGcm, shared.lanes));
        let (wall, cpu) = watch.stop();
        (wall_ns, cpu_ns, rest) = (wall_ns + wall, cpu_ns + cpu, after);
        serve_all(shared, drivers);
    }
    (results, Report { wall_ns, cpu_ns, wanted_ns: wall_ns })
}

pub(super) fn pipelined(module: &mut dyn Module) -> Result<&mut dyn Pipelined, ModuleError> {
    module.pipelined().ok_or(ModuleError::Malformed)
}

fn begin(
    module: &mut dyn Module,
    batch: Batch,
    items: Vec<Handle>,
    chunks: Vec<Arc<Chunk>>,
) -> Result<Held, ModuleError> {
    let watch = Watch::start();
    let left: Vec<usize> = (0..chunks.len()).filter(|at| !is_for(module, &chunks[*at])).collect();
    let taken: Vec<&Chunk> = chunks.iter().map(AsRef::as_ref).filter(|chunk| is_for(module, chunk)).collect();
    if !taken.is_empty() {
        pipelined(module)?.begin(&taken)?;
    }
    drop(taken);
    let spent = watch.stop();
    Ok(Held { batch, items, chunks, left, handed_at: Instant::now(), spent })
}

pub(super) fn is_for(module: &dyn Module, chunk: &Chunk) -> bool {
    chunk.is_for_modules() && module.takes(chunk)
}

/// A module's answer, completed and believed, or not.
pub(super) fn judged(chunk: &Chunk, room: Vec<u8>, check: bool) -> Result<Vec<u8>, ModuleError> {
    let result = chunk.from_module(room).map_err(|_| ModuleError::Wrong)?;
    if check && !chunk.check(&result, &RingGcm) {
        return Err(ModuleError::Wrong);
    }
    Ok(result)
}

/// Chunks with their places in a batch.
type Numbered<'a> = Vec<(usize, &'a Chunk)>;

/// Lets the module do what it takes, checks, and does the rest here.
pub(super) fn hand_over(
    module: &mut dyn Module,
    chunks: &[&Chunk],
    check: bool,
) -> Result<Vec<Result<Vec<u8>, SealError>>, ModuleError> {
    let (taken, left): (Numbered<'_>, Numbered<'_>) =
        chunks.iter().copied().enumerate().partition(|(_, chunk)| is_for(module, chunk));
    let mut results: Vec<Option<Result<Vec<u8>, SealError>>> = chunks.iter().map(|_| None).collect();
    if !taken.is_empty() {
        let handed: Vec<&Chunk> = taken.iter().map(|(_, chunk)| *chunk).collect();
        let rooms = module.seal(&handed)?;
        if rooms.len() != handed.len() {
            return Err(ModuleError::Malformed);
        }
        for ((at, chunk), room) in taken.iter().zip(rooms) {
            results[*at] = Some(Ok(judged(chunk, room, check)?));
        }
    }
    let rest: Vec<&Chunk> = left.iter().map(|(_, chunk)| *chunk).collect();
    for ((at, _), result) in left.iter().zip(process_in_lanes(&rest, &RingGcm, None)) {
        results[*at] = Some(result);
    }
    results.into_iter().collect::<Option<_>>().ok_or(ModuleError::Malformed)
}
