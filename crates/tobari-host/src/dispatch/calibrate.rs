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
/// Items of the larger batch.
const MANY: usize = 16;
/// All measurements together take about as long.
const TIME: Duration = Duration::from_millis(20);

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

/// The least wall and CPU time of a few tries.
fn least(mut work: impl FnMut() -> bool) -> Option<(f64, f64)> {
    let until = Instant::now() + TIME / (4 * LENGTHS.len() as u32);
    let mut best: Option<(f64, f64)> = None;
    for tried in 1..=16 {
        let watch = Watch::start();
        if !work() {
            return None;
        }
        let (wall, cpu) = watch.stop();
        let (wall, cpu) = (wall as f64, cpu as f64);
        best = Some(best.map_or((wall, cpu), |best| (best.0.min(wall), best.1.min(cpu))));
        // Three at least: one may be disturbed.
        if tried >= 3 && Instant::now() > until {
            break;
        }
    }
    best
}

/// A batch's own part, and that of each item, by batches of one and of many.
fn fit(points: &[(u32, f64, f64)]) -> Cost {
    let many = MANY as f64;
    let own = |&(_, one, all): &(u32, f64, f64)| ((many * one - all) / (many - 1.0)).max(0.0);
    let batch_ns = points.first().map_or(0.0, own);
    let items = points.iter().map(|(bytes, _, all)| (*bytes, ((all - batch_ns) / many).max(0.1)));
    Cost { batch_ns, items: items.collect() }
}

/// Measures CPU workers and modules with chunks that are sealed.
pub(super) fn calibrate_sealing(options: &mut Options) -> Model {
    let suite = options.suite;
    calibrate(options, &|bytes| sealing(suite, bytes).ok())
}

/// Measures CPU workers and modules with chunks of so many bytes. A module that fails here costs as much as can be, and is found out when it is used.
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
    let (mut cpu, mut device, mut handing) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in LENGTHS {
        let Some(chunks) = (0..MANY).map(|_| chunk(bytes)).collect::<Option<Vec<Chunk>>>() else { continue };
        let (chunks, lanes): (Vec<&Chunk>, _) = (chunks.iter().collect(), options.lanes);
        let times = |count: usize| least(|| process_in_lanes(&chunks[..count], &RingGcm, lanes).len() == count);
        if let (Some(one), Some(all)) = (times(1), times(MANY)) {
            cpu.push((bytes as u32, one.1, all.1));
        }
        let (check, Some(module)) = (options.check, options.modules.first_mut()) else { continue };
        let mut times = |count: usize| least(|| hand_over(module.as_mut(), &chunks[..count], check).is_ok());
        let (one, all) = (times(1).unwrap_or((1e9, 0.0)), times(MANY).unwrap_or((1e9, 0.0)));
        // What the driver did not compute, it waited.
        device.push((bytes as u32, one.0 - one.1, all.0 - all.1));
        handing.push((bytes as u32, one.1, all.1));
    }
    let takes = options.core.is_none() && options.modules.first().is_some_and(|module| module.cores() > 0);
    let cores = options.core.map_or_else(crate::threads::available, |_| 1);
    Model {
        cpu: fit(&cpu),
        device: fit(&device),
        handing: fit(&handing),
        cores: cores as f64,
        device_takes: f64::from(u8::from(takes)),
        available: 1.0,
    }
}
