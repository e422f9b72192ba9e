//! The threads: one for each CPU worker, and a driver for each module.

use super::module::Pipelined;
use super::{Made, Module, ModuleError, Next, RingGcm, Shared, Wait};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tobari_host::threads::stay_on;
use tobari_plan::dispatch::{Batch, Handle, Report};
use tobari_seal::{Chunk, Rooms, process_in_lanes};

/// CPU time of this thread in nanoseconds, from a fixed start.
pub(super) fn thread_cpu_ns() -> u64 {
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }
    #[cfg(not(linux_64))]
    {
        // No portable clock: wall time, as if no other process used the core.
        static ORIGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn nanoseconds(since: Instant, until: Instant) -> u64 {
    u64::try_from(until.saturating_duration_since(since).as_nanos()).unwrap_or(u64::MAX)
}

/// Measures wall and CPU time of a piece of work.
pub(super) struct Watch {
    wall: Instant,
    meter: Meter,
}

impl Watch {
    pub(super) fn start() -> Self {
        Self { wall: Instant::now(), meter: Meter::start() }
    }

    /// Wall and CPU time, in nanoseconds.
    pub(super) fn stop(mut self) -> (u64, u64) {
        let cpu = self.meter.lap();
        (nanoseconds(self.wall, Instant::now()), cpu)
    }
}

fn borrowed(chunks: &[Arc<Chunk>]) -> Vec<&Chunk> {
    chunks.iter().map(AsRef::as_ref).collect()
}

/// CPU time of this thread, lap by lap.
pub(super) struct Meter(u64);

impl Meter {
    fn start() -> Self {
        Self(thread_cpu_ns())
    }

    /// Nanoseconds since the last lap.
    pub(super) fn lap(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.0, thread_cpu_ns());
        self.0.saturating_sub(before)
    }
}

/// Publishes the results of a batch, and returns the CPU time for it in nanoseconds. A batch costs
/// more than its processing: taking it, publishing its results, and freeing its chunks. The time
/// here counts as cost of the *next* batch, as this batch's report is part of the publication.
pub(super) fn publish(
    shared: &Shared,
    worker: usize,
    (batch, items, chunks): (Batch, &[Handle], Vec<Arc<Chunk>>),
    results: Vec<Made>,
    report: Report,
    meter: &mut Meter,
) -> u64 {
    shared.publish(worker, batch, items, results, report);
    drop(chunks);
    meter.lap()
}

/// A batch for this worker, and a meter of CPU time that started before the request.
pub(super) fn take(shared: &Shared, worker: usize, wait: Wait, items: &mut Vec<Handle>) -> (Next, Meter) {
    let meter = Meter::start();
    (shared.next_batch(worker, wait, items), meter)
}

pub(super) fn cpu(shared: &Shared, worker: usize) {
    shared.core.into_iter().for_each(stay_on);
    let _slices = shared.short_slices();
    let (mut items, mut told) = (Vec::new(), 0);
    loop {
        match take(shared, worker, Wait::Once, &mut items) {
            (Next::Batch(batch, chunks), mut meter) => {
                let (around, began) = (told + meter.lap(), Instant::now());
                let results = process_in_lanes(&borrowed(&chunks), &RingGcm, shared.lanes);
                let (cpu_ns, wall_ns) = (meter.lap(), nanoseconds(began, Instant::now()));
                let report = Report { wall_ns, cpu_ns: cpu_ns + around, wanted_ns: wall_ns + around };
                told = publish(shared, worker, (batch, &items, chunks), results, report, &mut meter);
            }
            (Next::Nothing, _) => {}
            (Next::End, _) => return,
        }
    }
}

/// A batch in a module.
struct Held {
    batch: Batch,
    items: Vec<Handle>,
    chunks: Vec<Arc<Chunk>>,
    /// Places of chunks that the module does not take.
    left: Vec<usize>,
    handed_at: Instant,
    /// CPU and wall time of taking the batch and handing it over.
    spent_ns: u64,
    wanted_ns: u64,
}

pub(super) fn module(shared: &Shared, worker: usize, mut module: Box<dyn Module>) {
    shared.core.into_iter().for_each(stay_on);
    let _slices = shared.short_slices();
    let done = match module.pipelined().is_some() && shared.module_batches > 1 {
        true => Driver::new(worker, module).run(shared),
        false => one_by_one(shared, worker, module.as_mut()),
    };
    if let Err(error) = done {
        shared.lose(worker, error.to_string());
    }
}

/// Drives a module with one batch at a time, and waits while the module works.
fn one_by_one(shared: &Shared, worker: usize, module: &mut dyn Module) -> Result<(), ModuleError> {
    let (mut items, mut told) = (Vec::new(), 0);
    loop {
        let (batch, chunks, mut meter) = match take(shared, worker, Wait::Once, &mut items) {
            (Next::Batch(batch, chunks), meter) => (batch, chunks, meter),
            (Next::Nothing, _) => continue,
            (Next::End, _) => return Ok(()),
        };
        let (around, began) = (told + meter.lap(), Instant::now());
        let results = hand_over(module, &borrowed(&chunks), shared.check)?;
        let (cpu_ns, wall_ns) = (meter.lap(), nanoseconds(began, Instant::now()));
        // The driver either computes or waits.
        let spent = cpu_ns + around;
        let report = Report { wall_ns: wall_ns.saturating_sub(cpu_ns), cpu_ns: spent, wanted_ns: spent };
        told = publish(shared, worker, (batch, &items, chunks), results, report, &mut meter);
    }
}

/// The driver of a module that gets the next batch while it works on one.
struct Driver {
    worker: usize,
    module: Box<dyn Module>,
    held: VecDeque<Held>,
    free_at: Instant,
    /// Nanoseconds to publish the last batch.
    told: u64,
    /// Nanoseconds of the last batch: in the module, and of the CPU for it.
    batch_ns: u64,
    served_ns: u64,
}

impl Driver {
    fn new(worker: usize, module: Box<dyn Module>) -> Self {
        Self { worker, module, held: VecDeque::new(), free_at: Instant::now(), told: 0, batch_ns: 0, served_ns: 0 }
    }

    /// Drives the module on this thread until the pool ends.
    fn run(&mut self, shared: &Shared) -> Result<(), ModuleError> {
        loop {
            if self.held.len() < shared.module_batches {
                let wait = if self.held.is_empty() { Wait::Once } else { Wait::Never };
                match self.hand_over(shared, wait)? {
                    Handed::Some => continue,
                    Handed::End if self.held.is_empty() => return Ok(()),
                    Handed::Nothing | Handed::End => {}
                }
            }
            self.take_back(shared)?;
        }
    }

    /// Hands over the next batch. If the module has no room for it, takes answers back first.
    fn hand_over(&mut self, shared: &Shared, wait: Wait) -> Result<Handed, ModuleError> {
        let mut items = Vec::new();
        let (batch, chunks, mut meter) = match take(shared, self.worker, wait, &mut items) {
            (Next::Batch(batch, chunks), meter) => (batch, chunks, meter),
            (Next::Nothing, _) => return Ok(Handed::Nothing),
            (Next::End, _) => return Ok(Handed::End),
        };
        let mut fits = pipelined(self.module.as_mut())?.fits(&borrowed(&chunks));
        let taken_ns = meter.lap();
        while !fits && !self.held.is_empty() {
            self.take_back(shared)?;
            fits = pipelined(self.module.as_mut())?.fits(&borrowed(&chunks));
            meter.lap();
        }
        let (mut held, woken_ns) = begin(self.module.as_mut(), batch, items, chunks)?;
        let begun_ns = nanoseconds(held.handed_at, Instant::now()).saturating_sub(woken_ns);
        held.spent_ns = taken_ns + meter.lap().saturating_sub(woken_ns);
        held.wanted_ns = taken_ns + begun_ns;
        held.handed_at = Instant::now();
        self.held.push_back(held);
        Ok(Handed::Some)
    }

    /// Waits for the oldest batch, if there is one.
    fn take_back(&mut self, shared: &Shared) -> Result<(), ModuleError> {
        if let Some(first) = self.held.pop_front() {
            self.publish_answers(shared, first)?;
        }
        Ok(())
    }

    /// Takes and hands over everything possible without waiting. Returns whether there was any.
    fn serve(&mut self, shared: &Shared) -> Result<bool, ModuleError> {
        let mut some = false;
        loop {
            let first = self.held.front();
            // A batch without a chunk for the module is done on its turn.
            let left = first.is_some_and(|first| first.left.len() == first.chunks.len());
            let done = left || first.is_some() && pipelined(self.module.as_mut())?.is_done(Duration::ZERO);
            if done {
                self.take_back(shared)?;
            }
            let room = self.held.len() < shared.module_batches;
            if !(done || room && matches!(self.hand_over(shared, Wait::Never)?, Handed::Some)) {
                return Ok(some);
            }
            some = true;
        }
    }

    /// Takes the answers to a batch, and publishes the results.
    fn publish_answers(&mut self, shared: &Shared, held: Held) -> Result<(), ModuleError> {
        let mut meter = Meter::start();
        let (mut rooms, mut device_ns) = (None, None);
        if held.left.len() < held.chunks.len() {
            let answers = pipelined(self.module.as_mut())?.end()?;
            (rooms, device_ns) = (Some(answers.rooms), answers.device_ns);
        }
        let (there, fetched_ns) = (Instant::now(), meter.lap());
        let results = together(&borrowed(&held.chunks), &held.left, rooms, shared.check)?;
        self.batch_ns = device_ns.unwrap_or_else(|| nanoseconds(held.handed_at.max(self.free_at), there));
        self.served_ns = held.spent_ns + fetched_ns + meter.lap() + self.told;
        let wanted_ns = held.wanted_ns + fetched_ns + nanoseconds(there, Instant::now()) + self.told;
        let report = Report { wall_ns: self.batch_ns, cpu_ns: self.served_ns, wanted_ns };
        let batch = (held.batch, held.items.as_slice(), held.chunks);
        self.told = publish(shared, self.worker, batch, results, report, &mut meter);
        self.free_at = there;
        Ok(())
    }
}

enum Handed {
    Some,
    Nothing,
    End,
}

/// The most bytes that a CPU worker processes before it serves busy modules again.
const SLICE_BYTES: usize = 64 << 10;
/// A slice consists of full groups of this many messages, processed side by side.
const SLICE_ITEMS: usize = 16;

/// How long a worker polls for a module's answer before it sleeps: waking takes longer.
const LOOK: Duration = Duration::from_micros(20);
/// How long a worker waits for a module before it looks for other work.
pub(super) const NAP: Duration = Duration::from_millis(1);

/// A CPU worker that also drives modules, if no core is free for their drivers. Between two slices
/// of its own work it fetches answers and hands over more chunks, without a change of threads.
pub(super) fn cpu_and_modules(shared: &Shared, worker: usize, modules: Vec<(usize, Box<dyn Module>)>) {
    shared.core.into_iter().for_each(stay_on);
    let mut drivers: Vec<Driver> = modules.into_iter().map(|(worker, module)| Driver::new(worker, module)).collect();
    let (mut items, mut told, mut byte_ns) = (Vec::new(), 0, 0.0);
    'rounds: loop {
        let served = serve_all(shared, &mut drivers);
        // A working module may have an answer soon.
        let wait =
            if served || drivers.iter().any(|driver| !driver.held.is_empty()) { Wait::Never } else { Wait::Once };
        match take(shared, worker, wait, &mut items) {
            (Next::Batch(batch, chunks), mut meter) => {
                let around = told + meter.lap();
                let (results, mut report) = sliced(shared, &chunks, &mut drivers, &mut byte_ns);
                (report.cpu_ns, report.wanted_ns) = (report.cpu_ns + around, report.wanted_ns + around);
                meter.lap();
                told = publish(shared, worker, (batch, &items, chunks), results, report, &mut meter);
            }
            (Next::End, _) => return,
            (Next::Nothing, _) => {
                if let (false, Some(driver)) = (served, drivers.iter_mut().find(|driver| !driver.held.is_empty())) {
                    let until = Instant::now() + LOOK;
                    while Instant::now() < until {
                        if pipelined(driver.module.as_mut()).map_or(true, |module| module.is_done(Duration::ZERO)) {
                            continue 'rounds;
                        }
                        std::hint::spin_loop();
                    }
                    // The next round sees the result. A stalled module must not hold up the work
                    // that is done in its place.
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
        // Free the buffers first: another engine processes the chunks again and may need memory.
        let driver = drivers.remove(at);
        let worker = driver.worker;
        drop(driver);
        shared.lose(worker, error.to_string());
    }
}

/// Processes a batch, in slices if modules are busy. Time between slices does not count. `byte_ns`
/// is the last time for a byte.
fn sliced(shared: &Shared, chunks: &[Arc<Chunk>], drivers: &mut Vec<Driver>, byte_ns: &mut f64) -> (Vec<Made>, Report) {
    let (mut results, mut rest) = (Vec::new(), chunks);
    let (mut wall_ns, mut cpu_ns) = (0, 0);
    loop {
        let group = if shared.lanes == Some(1) { 1 } else { SLICE_ITEMS };
        let most = slice_bytes(drivers, *byte_ns);
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len() && (count == 0 || count % group > 0 || bytes < most) {
            bytes += rest[count].bytes();
            count += 1;
        }
        let (some, after) = rest.split_at(count);
        let watch = Watch::start();
        let done = process_in_lanes(&borrowed(some), &RingGcm, shared.lanes);
        let (wall, cpu) = watch.stop();
        *byte_ns = cpu as f64 / bytes.max(1) as f64;
        (wall_ns, cpu_ns, rest) = (wall_ns + wall, cpu_ns + cpu, after);
        if results.is_empty() {
            results = done;
        } else {
            results.extend(done);
        }
        if rest.is_empty() {
            return (results, Report { wall_ns, cpu_ns, wanted_ns: wall_ns });
        }
        serve_all(shared, drivers);
    }
}

/// The bytes that a CPU worker processes before it serves the modules again, at `byte_ns`
/// nanoseconds each. A slice lasts as long as a module's batch less the time to hand over the next,
/// so that the module always has another batch. Without busy modules there is no bound.
fn slice_bytes(drivers: &[Driver], byte_ns: f64) -> usize {
    let busy = drivers.iter().filter(|driver| !driver.held.is_empty());
    slice_of(busy.map(|driver| (driver.batch_ns, driver.served_ns)).min(), byte_ns)
}

/// The same for the module that finishes first. `first` has the nanoseconds of its last batch, 0
/// without one, and the CPU nanoseconds for it.
fn slice_of(first: Option<(u64, u64)>, byte_ns: f64) -> usize {
    let Some((batch_ns, served_ns)) = first else { return usize::MAX };
    if batch_ns == 0 || byte_ns <= 0.0 {
        return SLICE_BYTES;
    }
    SLICE_BYTES.min((batch_ns.saturating_sub(served_ns) as f64 / byte_ns) as usize)
}

pub(super) fn pipelined(module: &mut dyn Module) -> Result<&mut dyn Pipelined, ModuleError> {
    module.pipelined().ok_or(ModuleError::Malformed)
}

/// Hands a batch over. Returns the batch as held by the module, and the nanoseconds to wake the
/// module.
fn begin(
    module: &mut dyn Module,
    batch: Batch,
    items: Vec<Handle>,
    chunks: Vec<Arc<Chunk>>,
) -> Result<(Held, u64), ModuleError> {
    let (handed_at, all) = (Instant::now(), borrowed(&chunks));
    let (left, mut woken_ns) = (left_by(module, &all), 0);
    if left.len() < all.len() {
        woken_ns = pipelined(module)?.begin(&taken(&all, &left))?;
    }
    drop(all);
    Ok((Held { batch, items, chunks, left, handed_at, spent_ns: 0, wanted_ns: 0 }, woken_ns))
}

pub(super) fn is_for(module: &dyn Module, chunk: &Chunk) -> bool {
    chunk.is_for_modules() && module.takes(chunk)
}

/// A module's answers, completed and, with `check`, verified.
pub(super) fn judged(chunks: &[&Chunk], rooms: Rooms, check: bool) -> Result<Vec<Bytes>, ModuleError> {
    let results = rooms.complete(chunks).map_err(|_| ModuleError::Wrong)?;
    if check && !chunks.iter().zip(&results).all(|(chunk, result)| chunk.check(result, &RingGcm)) {
        return Err(ModuleError::Wrong);
    }
    Ok(results)
}

/// Places of chunks that the module does not take.
fn left_by(module: &dyn Module, chunks: &[&Chunk]) -> Vec<usize> {
    (0..chunks.len()).filter(|at| !is_for(module, chunks[*at])).collect()
}

/// The chunks that are not at these places.
fn taken<'a>(chunks: &[&'a Chunk], left: &[usize]) -> Vec<&'a Chunk> {
    if left.is_empty() {
        return chunks.to_vec();
    }
    chunks.iter().enumerate().filter(|(at, _)| left.binary_search(at).is_err()).map(|(_, chunk)| *chunk).collect()
}

/// The results of all chunks. Chunks that the module took have theirs in its rooms; the CPU
/// processes the others now.
fn together(chunks: &[&Chunk], left: &[usize], rooms: Option<Rooms>, check: bool) -> Result<Vec<Made>, ModuleError> {
    let answered = rooms.map_or(Ok(Vec::new()), |rooms| judged(&taken(chunks, left), rooms, check))?;
    let rest: Vec<&Chunk> = left.iter().filter_map(|at| chunks.get(*at).copied()).collect();
    let mut done = if rest.is_empty() { Vec::new() } else { process_in_lanes(&rest, &RingGcm, None) }.into_iter();
    if left.is_empty() && answered.len() == chunks.len() {
        return Ok(answered.into_iter().map(Ok).collect());
    }
    let mut answered = answered.into_iter();
    let next = |at: usize| match left.binary_search(&at) {
        Ok(_) => done.next(),
        Err(_) => answered.next().map(Ok),
    };
    (0..chunks.len()).map(next).collect::<Option<_>>().ok_or(ModuleError::Malformed)
}

/// Hands the module its chunks, checks the answers, and processes the other chunks here.
pub(super) fn hand_over(module: &mut dyn Module, chunks: &[&Chunk], check: bool) -> Result<Vec<Made>, ModuleError> {
    let left = left_by(module, chunks);
    let handed = taken(chunks, &left);
    let rooms = if handed.is_empty() { None } else { Some(module.seal(&handed)?) };
    together(chunks, &left, rooms, check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_what_there_is_time_for_while_a_module_works() {
        let busy = |batch_ns, served_ns| Some((batch_ns, served_ns));
        assert_eq!(slice_of(None, 0.1), usize::MAX, "no module has anything");
        assert_eq!([slice_of(busy(0, 0), 0.1), slice_of(busy(9000, 10), 0.0)], [SLICE_BYTES; 2], "nothing is known");
        assert_eq!(slice_of(busy(30_000, 10_000), 2.0), 10_000);
        assert_eq!(slice_of(busy(10_000, 30_000), 2.0), 0, "one group, as there is no time");
        assert_eq!(slice_of(busy(1 << 40, 0), 0.1), SLICE_BYTES);
    }
}
