//! What everything costs on this machine, measured before the first item.

use super::worker::{Watch, hand_over};
use super::{Module, RingGcm};
use rand_core::{TryCryptoRng, TryRng};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tobari_apps::seal::{Chunk, Kind, Layout, Meta, SealError, Sealing, SetKey, Stanza, Stanzas, Suite, process};
use tobari_plan::dispatch::{Cost, Model};

/// Lengths that are measured; in between costs are straight lines.
const LENGTHS: [usize; 5] = [16, 256, 2048, 16_384, 65_536];
/// Items of the larger batch.
const MANY: usize = 16;
/// All measurements together take no longer, but for one round of each.
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

fn chunks(bytes: usize) -> Result<Vec<Chunk>, SealError> {
    let mut rng = Counter(bytes as u64);
    let set = SetKey::from_bytes(&[1; 32])?;
    let stanzas = Stanzas::new(vec![Stanza::for_age(vec![1])?])?;
    let layout = Layout::new(Suite::Gcm);
    let chunk = |_| {
        let meta = Meta::new(Kind::Stream, b"", 0);
        Sealing::begin(&set, &stanzas, layout, &meta, &mut rng)?.0.chunk(vec![0; bytes], true, &mut rng)
    };
    (0..MANY).map(chunk).collect()
}

/// The least wall and CPU time of a few tries.
fn least(until: Instant, mut work: impl FnMut() -> bool) -> Option<(f64, f64)> {
    let mut best: Option<(f64, f64)> = None;
    for _ in 0..8 {
        let watch = Watch::start();
        if !work() {
            return None;
        }
        let (wall, cpu) = watch.stop();
        let (wall, cpu) = (wall as f64, cpu as f64);
        best = Some(best.map_or((wall, cpu), |best| (best.0.min(wall), best.1.min(cpu))));
        if Instant::now() > until {
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

/// Measures CPU workers and modules with chunks of the usual suite. A module that fails here costs as much as can be, and is found out when it is used.
pub fn calibrate(cpus: usize, modules: &mut [Box<dyn Module>], check: bool) -> Model {
    let until = Instant::now() + TIME;
    let (mut cpu, mut device, mut handing) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in LENGTHS {
        let Ok(chunks) = chunks(bytes) else { continue };
        let chunks: Vec<&Chunk> = chunks.iter().collect();
        let times = |count: usize| least(until, || process(&chunks[..count], &RingGcm).len() == count);
        if let (Some(one), Some(all)) = (times(1), times(MANY)) {
            cpu.push((bytes as u32, one.1, all.1));
        }
        let Some(module) = modules.first_mut() else { continue };
        let mut times = |count: usize| least(until, || hand_over(module.as_mut(), &chunks[..count], check).is_ok());
        let (one, all) = (times(1).unwrap_or((1e9, 1e9)), times(MANY).unwrap_or((1e9, 1e9)));
        device.push((bytes as u32, one.0, all.0));
        handing.push((bytes as u32, one.1, all.1));
    }
    // A worker each, and for each module a driver and what it computes on.
    let cores = cpus + modules.iter().map(|module| 1 + module.cores()).sum::<usize>();
    let handing_takes_from_cpu = cores > crate::threads::available();
    Model { cpu: fit(&cpu), device: fit(&device), handing: fit(&handing), handing_takes_from_cpu, available: 1.0 }
}
