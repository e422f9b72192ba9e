//! What everything costs on this machine, measured before the first item.

use super::worker::{Watch, hand_over};
use super::{Options, RingGcm};
use rand_core::{TryCryptoRng, TryRng};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tobari_apps::seal::{
    Chunk, Kind, Layout, Meta, SealError, Sealing, SetKey, Stanza, Stanzas, Suite, process_in_lanes,
};
use tobari_plan::dispatch::{Cost, Model};

/// Lengths that are measured; in between costs are straight lines.
const LENGTHS: [usize; 6] = [16, 256, 1024, 4096, 16_384, 65_536];
/// Items of the larger batch of a CPU worker.
const MANY: usize = 16;
/// How often all lengths are measured, one after the other: what disturbs one of these passes the others set right.
const PASSES: usize = 4;
/// All measurements together take about as long.
const TIME: Duration = Duration::from_millis(40);

/// Keys of chunks that are only measured need not be random.
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

/// Wall and CPU time in nanoseconds, the least of each so far, and all of each.
#[derive(Clone, Copy)]
struct Least {
    wall: f64,
    cpu: f64,
    all: (f64, f64),
}

impl Least {
    const NONE: Self = Self { wall: f64::INFINITY, cpu: f64::INFINITY, all: (0.0, 0.0) };

    /// A few tries more; false if one failed.
    fn lower(&mut self, mut work: impl FnMut() -> bool) -> bool {
        let until = Instant::now() + TIME / (4 * PASSES * LENGTHS.len()) as u32;
        for tried in 1..=16 {
            let watch = Watch::start();
            if !work() {
                return false;
            }
            let (wall, cpu) = watch.stop();
            (self.wall, self.cpu) = (self.wall.min(wall as f64), self.cpu.min(cpu as f64));
            self.all = (self.all.0 + wall as f64, self.all.1 + cpu as f64);
            // Two at least: the first may find cold caches.
            if tried >= 2 && Instant::now() > until {
                break;
            }
        }
        true
    }
}

/// What was measured of chunks of one length: batches of one, and of many.
struct Point {
    chunks: Vec<Chunk>,
    /// Of a CPU worker.
    cpu: [Least; 2],
    /// Of a module and its driver.
    module: [Least; 2],
    module_many: usize,
}

/// A batch's own part, and that of each item: of lengths, how many, and what one and so many take.
fn fit(points: impl Iterator<Item = (u32, usize, f64, f64)> + Clone) -> Cost {
    let own = |(_, many, one, all): (u32, usize, f64, f64)| ((many as f64 * one - all) / (many as f64 - 1.0)).max(0.0);
    let batch_ns = points.clone().next().map_or(0.0, own);
    let items = points.map(|(bytes, many, _, all)| (bytes, ((all - batch_ns) / many as f64).max(0.1)));
    Cost { batch_ns, items: items.collect() }
}

/// Measures CPU workers and modules with chunks that are sealed.
pub(super) fn calibrate_sealing(options: &mut Options) -> Model {
    let suite = options.suite;
    calibrate(options, &|bytes| sealing(suite, bytes).ok())
}

/// Measures CPU workers and modules with chunks of so many bytes. A module that fails here
/// costs as much as can be, and is found out when it is used.
pub fn calibrate(options: &mut Options, chunk: &(dyn Fn(usize) -> Option<Chunk> + Sync)) -> Model {
    let core = options.core;
    // On a thread of its own, which may have to stay on a core.
    std::thread::scope(|scope| {
        let measured = scope.spawn(move || {
            core.into_iter().for_each(crate::threads::stay_on);
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
        let chunks = (0..MANY.max(module_many)).map(|_| chunk(bytes)).collect::<Option<Vec<Chunk>>>()?;
        Some((bytes as u32, Point { chunks, cpu: [Least::NONE; 2], module: [Least::NONE; 2], module_many }))
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
        fit(of(|point| (MANY, point.cpu[0].cpu, point.cpu[1].cpu))),
        // What the driver did not compute, it waited.
        fit(of(|point| {
            let waited = |least: Least| if least.wall.is_finite() { (least.wall - least.cpu).max(0.0) } else { 1e9 };
            (point.module_many, waited(point.module[0]), waited(point.module[1]))
        })),
        fit(of(|point| {
            let computed = |least: Least| if least.cpu.is_finite() { least.cpu } else { 0.0 };
            (point.module_many, computed(point.module[0]), computed(point.module[1]))
        })),
    ];
    let takes = options.core.is_none() && options.modules.first().is_some_and(|module| module.cores() > 0);
    let cores = options.core.map_or_else(crate::threads::available, |_| 1);
    let device_takes = f64::from(u8::from(takes));
    let available = available(points.iter().flat_map(|(_, point)| point.cpu).map(|least| least.all));
    Model { cpu, device, handing, cores: cores as f64, device_takes, available }
}

/// Of wall and CPU times of a thread that only computed, the part in which it did: the rest somebody else had its core.
fn available(times: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (wall, cpu) = times.fold((0.0, 0.0), |sum, all| (sum.0 + all.0, sum.1 + all.1));
    if wall > 0.0 { (cpu / wall).clamp(0.02, 1.0) } else { 1.0 }
}

impl Point {
    fn measure(&mut self, options: &mut Options) {
        let chunks: Vec<&Chunk> = self.chunks.iter().collect();
        let lanes = options.lanes;
        for (least, count) in self.cpu.iter_mut().zip([1, MANY]) {
            least.lower(|| process_in_lanes(&chunks[..count], &RingGcm, lanes).len() == count);
        }
        let (check, Some(module)) = (options.check, options.modules.first_mut()) else { return };
        for (least, count) in self.module.iter_mut().zip([1, self.module_many]) {
            if !least.lower(|| hand_over(module.as_mut(), &chunks[..count], check).is_ok()) {
                *least = Least::NONE;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_the_part_of_the_time_in_which_a_thread_computed() {
        for (times, expected) in [
            (vec![(100.0, 100.0), (300.0, 300.0)], 1.0),
            (vec![(100.0, 50.0), (300.0, 150.0)], 0.5),
            (vec![(1000.0, 0.0)], 0.02),
            (vec![], 1.0),
        ] {
            assert!((available(times.iter().copied()) - expected).abs() < 1e-12, "{times:?}");
        }
    }
}
