//! Measurement of all costs on this machine, before the first chunk.

use super::worker::{NAP, Watch, hand_over, is_for, judged, pipelined, publish, take};
use super::{Module, ModuleError, Next, Options, RingGcm, Shared, Wait};
use bytes::Bytes;
use rand_core::{TryCryptoRng, TryRng};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tobari_plan::dispatch::{Cost, Dispatcher, Limits, Model, Policy, Report, Unit};
use tobari_seal::{Chunk, Kind, Layout, Meta, SealError, Sealing, SetKey, Stanza, Stanzas, Suite, process_in_lanes};

/// The measured lengths; costs between them are interpolated linearly.
const LENGTHS: [usize; 6] = [16, 256, 1024, 4096, 16_384, 65_536];
/// Items of the larger batch of a CPU worker.
const MANY: usize = 16;
/// The most chunks of one length.
const MOST_CHUNKS: usize = 256;
/// Factor from the best measured cost of handing over to the assumed one: real batches begin in
/// fresh memory.
const AT_FIRST: f64 = 1.5;
/// The longest wait for a module while a batch is measured.
const PATIENCE: Duration = Duration::from_millis(100);
/// The number of passes over all lengths. One pass may be disturbed; the best pass counts.
const PASSES: usize = 4;
/// The overhead around batches is measured with this many batches, chunks in each, and bytes in
/// each chunk, for every suite.
const AROUND_BATCHES: u32 = 2;
const AROUND_ITEMS: u32 = 64;
const AROUND_BYTES: usize = 256;
/// The approximate time of all measurements together.
const TIME: Duration = Duration::from_millis(40);

/// A counter as source of randomness: keys in a measurement need not be random.
struct Counter(u64);

impl TryRng for Counter {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|word| word as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        Ok(self.0)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

impl TryCryptoRng for Counter {}

fn sealing(suite: Suite, bytes: usize) -> Result<Chunk, SealError> {
    let mut rng = Counter(bytes as u64);
    let set = SetKey::from_bytes(&[1; 32])?;
    let stanzas = Stanzas::new(vec![Stanza::for_age(vec![1])?])?;
    let meta = Meta::new(Kind::Stream, b"", 0);
    Sealing::begin(&set, &stanzas, Layout::new(suite), &meta, &mut rng)?.0.chunk(vec![0; bytes], true, &mut rng)
}

/// Results are kept up to this many bytes, as in a real run. So each batch gets other memory, and
/// never memory in the nearest cache.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Default)]
struct ResultCache {
    results: Vec<Bytes>,
    bytes: usize,
}

impl ResultCache {
    fn keep(&mut self, results: Vec<Bytes>) {
        if self.bytes > KEPT_BYTES {
            *self = Self::default();
        }
        self.bytes += results.iter().map(Bytes::len).sum::<usize>();
        self.results.extend(results);
    }
}

/// Chunks of one length, used in turn: the chunks of the last batch would still be in the nearest
/// cache.
struct Turns {
    chunks: Vec<Chunk>,
    next: usize,
}

impl Turns {
    /// The next `count` chunks; fewer if there are fewer in all.
    fn take(&mut self, count: usize) -> Vec<&Chunk> {
        let all = self.chunks.len();
        let first = if self.next + count > all { 0 } else { self.next };
        self.next = first + count;
        self.chunks[first..all.min(first + count)].iter().collect()
    }
}

/// The least times so far, in nanoseconds: of the engine for a batch, and of the CPU to hand it
/// over.
#[derive(Clone, Copy)]
struct Least {
    doing: f64,
    handing: f64,
}

impl Least {
    const NONE: Self = Self { doing: f64::INFINITY, handing: f64::INFINITY };
    /// The times of a failed or missing module: higher than any real one.
    const FAILED: Self = Self { doing: 1e9, handing: 0.0 };

    fn lower(&mut self, doing: f64, handing: f64) {
        (self.doing, self.handing) = (self.doing.min(doing), self.handing.min(handing));
    }
}

/// Repeats a measurement: at least twice, as the first try may find cold caches.
fn tries(mut work: impl FnMut() -> Result<(), ModuleError>) -> Result<(), ModuleError> {
    let until = Instant::now() + TIME / (4 * PASSES * LENGTHS.len()) as u32;
    for tried in 1..=16 {
        work()?;
        if tried >= 2 && Instant::now() > until {
            break;
        }
    }
    Ok(())
}

/// Measurements with chunks of one length: batches of one chunk, and of many.
struct Point {
    chunks: Turns,
    kept: ResultCache,
    /// Times of a CPU worker.
    cpu: [Least; 2],
    /// Wall and CPU time of all its work.
    spent: (u64, u64),
    /// Times of a module and its driver.
    module: [Least; 2],
    module_many: usize,
}

/// The cost of a batch itself, and of each chunk. Each point has the length, the number of chunks,
/// the time of one, and the time of all.
fn fit(points: impl Iterator<Item = (u32, usize, f64, f64)> + Clone) -> Cost {
    let own = |(_, many, one, all): (u32, usize, f64, f64)| ((many as f64 * one - all) / (many as f64 - 1.0)).max(0.0);
    let batch_ns = points.clone().next().map_or(0.0, own);
    let items = points.map(|(bytes, many, _, all)| (bytes, ((all - batch_ns) / many as f64).max(0.1)));
    Cost { batch_ns, items: items.collect() }
}

/// Measures CPU workers and modules by sealing chunks.
pub(super) fn calibrate_sealing(options: &mut Options) -> Model {
    let suite = options.suite;
    calibrate(options, &|bytes| sealing(suite, bytes).ok())
}

/// Measures CPU workers and modules with the chunks that `chunk` makes for each length. A module
/// that fails here gets the highest cost; its first use reports the failure.
pub fn calibrate(options: &mut Options, chunk: &(dyn Fn(usize) -> Option<Chunk> + Sync)) -> Model {
    let core = options.core;
    // On a separate thread, as it may be pinned to a core.
    std::thread::scope(|scope| {
        let measured = scope.spawn(move || {
            core.into_iter().for_each(tobari_host::threads::stay_on);
            measured(options, chunk)
        });
        measured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measured(options: &mut Options, chunk: &dyn Fn(usize) -> Option<Chunk>) -> Model {
    let module_many = |bytes: usize| {
        let most = (options.limits.batch_bytes / bytes as u64).clamp(2, u64::from(options.limits.module_items.max(2)));
        most.min(4 * MANY as u64) as usize
    };
    let point = |bytes: usize| {
        let module_many = module_many(bytes);
        let count = (KEPT_BYTES / 2 / bytes).clamp(2 * MANY.max(module_many), MOST_CHUNKS);
        let chunks = (0..count).map(|_| chunk(bytes)).collect::<Option<Vec<Chunk>>>()?;
        let (chunks, kept) = (Turns { chunks, next: 0 }, ResultCache::default());
        let module = if options.modules.is_empty() { Least::FAILED } else { Least::NONE };
        let (cpu, module) = ([Least::NONE; 2], [module; 2]);
        Some((bytes as u32, Point { chunks, kept, cpu, spent: (0, 0), module, module_many }))
    };
    let mut points: Vec<(u32, Point)> = LENGTHS.into_iter().filter_map(point).collect();
    for _ in 0..PASSES {
        points.iter_mut().for_each(|(_, point)| point.measure(options));
    }
    let of = |take: fn(&Point) -> (usize, f64, f64)| {
        points.iter().map(move |(bytes, point)| {
            let (many, one, all) = take(point);
            (*bytes, many, one, all)
        })
    };
    let [cpu, device, handing] = [
        fit(of(|point| (MANY, point.cpu[0].doing, point.cpu[1].doing))),
        fit(of(|point| (point.module_many, point.module[0].doing, point.module[1].doing))),
        fit(of(|point| (point.module_many, AT_FIRST * point.module[0].handing, AT_FIRST * point.module[1].handing))),
    ];
    // Both kinds of workers have the overhead around a batch.
    let around = around(options, chunk);
    let [cpu, handing] = [cpu, handing]
        .map(|cost| Cost { items: cost.items.iter().map(|(bytes, ns)| (*bytes, ns + around)).collect(), ..cost });
    let takes = options.core.is_none() && options.modules.first().is_some_and(|module| module.cores() > 0);
    let cores = options.core.map_or_else(tobari_host::threads::available, |_| 1);
    let device_takes = f64::from(u8::from(takes));
    let available = available(points.iter().map(|(_, point)| point.spent));
    Model { cpu, device, handing, cores: cores as f64, device_takes, available }
}

/// CPU nanoseconds for each chunk of a batch, with any engine: to take the chunk, to publish its
/// result, and to free the chunk.
fn around(options: &Options, chunk: &dyn Fn(usize) -> Option<Chunk>) -> f64 {
    let (limits, units) = (Limits { cpu_items: AROUND_ITEMS, ..options.limits }, [Unit::Cpu]);
    let free = Model::cpu_only(Cost::linear(0.0, 0.0, 0.0));
    let dispatcher = Dispatcher::new(Policy::Cpu, &units, limits, free);
    let shared = Shared::new(options, dispatcher, vec![Default::default()]);
    let (mut items, mut least) = (Vec::new(), f64::INFINITY);
    for _ in 0..PASSES {
        let (mut spent, mut done) = (0, 0);
        for _ in 0..AROUND_BATCHES * AROUND_ITEMS {
            let submitted = chunk(AROUND_BYTES).map(|chunk| shared.lock().submit(0, chunk));
            done += usize::from(matches!(submitted, Some(Ok(()))));
        }
        while let (Next::Batch(batch, chunks), mut meter) = take(&shared, 0, Wait::Never, &mut items) {
            spent += meter.lap();
            let results = process_in_lanes(&chunks.iter().map(AsRef::as_ref).collect::<Vec<_>>(), &RingGcm, None);
            meter.lap();
            spent += publish(&shared, 0, (batch, &items, chunks), results, Report::default(), &mut meter);
        }
        while shared.lock().take().is_some() {}
        if done > 0 {
            least = least.min(spent as f64 / done as f64);
        }
    }
    if least.is_finite() { least } else { 0.0 }
}

/// The share of a core that a thread got, from its wall and CPU times. The thread only computed, so
/// other processes used the core for the rest of the time.
fn available(times: impl Iterator<Item = (u64, u64)>) -> f64 {
    let (wall, cpu) = times.fold((0, 0), |sum, all| (sum.0 + all.0, sum.1 + all.1));
    if wall > 0 { (cpu as f64 / wall as f64).clamp(0.02, 1.0) } else { 1.0 }
}

impl Point {
    fn measure(&mut self, options: &mut Options) {
        for (at, count) in [1, MANY].into_iter().enumerate() {
            // A CPU worker does not fail.
            let _ = tries(|| self.compute(at, count, options.lanes));
        }
        let (check, Some(module)) = (options.check, options.modules.first_mut()) else { return };
        let ahead = options.limits.module_batches > 1;
        for (at, count) in [1, self.module_many].into_iter().enumerate() {
            if self.hand_over(at, count, module.as_mut(), check, ahead).is_err() {
                self.module = [Least::FAILED; 2];
                return;
            }
        }
    }

    fn compute(&mut self, at: usize, count: usize, lanes: Option<usize>) -> Result<(), ModuleError> {
        let chunks = self.chunks.take(count);
        let watch = Watch::start();
        let results = process_in_lanes(&chunks, &RingGcm, lanes);
        let (wall, cpu) = watch.stop();
        self.cpu[at].lower(cpu as f64, 0.0);
        self.spent = (self.spent.0 + wall, self.spent.1 + cpu);
        self.kept.keep(results.into_iter().flatten().collect());
        Ok(())
    }

    /// Measures handing over, as drivers do it. If a module accepts two batches, one is handed over
    /// while the module works on another, and the module does not sleep.
    fn hand_over(
        &mut self,
        at: usize,
        count: usize,
        module: &mut dyn Module,
        check: bool,
        ahead: bool,
    ) -> Result<(), ModuleError> {
        let two = self.chunks.take(2 * count);
        let all = two.iter().all(|chunk| is_for(module, chunk));
        if !(ahead && all && module.pipelined().is_some_and(|module| module.fits(&two))) {
            return tries(|| {
                let chunks = self.chunks.take(count);
                let watch = Watch::start();
                let results = hand_over(module, &chunks, check)?;
                let (wall, cpu) = watch.stop();
                // The driver either computes or waits.
                self.module[at].lower(wall.saturating_sub(cpu) as f64, cpu as f64);
                self.kept.keep(results.into_iter().flatten().collect());
                Ok(())
            });
        }
        let mut before = self.chunks.next - count;
        pipelined(module)?.begin(&self.chunks.chunks[before..].iter().take(count).collect::<Vec<_>>())?;
        tries(|| {
            let watch = Watch::start();
            let woken = pipelined(module)?.begin(&self.chunks.take(count))?;
            let ((_, begun), waiting) = (watch.stop(), Instant::now());
            // `end` detects a stalled module, after its timeout.
            while !pipelined(module)?.is_done(NAP) && waiting.elapsed() < PATIENCE {}
            let waited = waiting.elapsed().as_nanos() as f64;
            let watch = Watch::start();
            let answers = pipelined(module)?.end()?;
            let results =
                judged(&self.chunks.chunks[before..].iter().take(count).collect::<Vec<_>>(), answers.rooms, check)?;
            let (_, fetched) = watch.stop();
            self.module[at].lower(
                answers.device_ns.map_or(waited, |ns| ns as f64),
                (begun.saturating_sub(woken) + fetched) as f64,
            );
            self.kept.keep(results);
            before = self.chunks.next - count;
            Ok(())
        })?;
        pipelined(module)?.end().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_the_part_of_the_time_in_which_a_thread_computed() {
        for (times, expected) in [
            (vec![(100, 100), (300, 300)], 1.0),
            (vec![(100, 50), (300, 150)], 0.5),
            (vec![(1000, 0)], 0.02),
            (vec![], 1.0),
        ] {
            assert!((available(times.iter().copied()) - expected).abs() < 1e-12, "{times:?}");
        }
    }
}
