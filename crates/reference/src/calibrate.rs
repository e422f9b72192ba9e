//! Measures the costs of steps and moves on this machine in a few seconds, and caches them.

use super::{Examples, Reference};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tobari_command::output::{self, Failure};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_host::cache;
use tobari_host::store::{self, Folder};
use tobari_lattice::RingKernels;
use tobari_plan::cost::{Costs, TierSpeed};
use tobari_plan::engine::Engine;
use tobari_plan::program::{Encoding, Kind, Op};

/// The name of the costs of cores in the cache. Sets other than the first append their own name.
const CORES: &str = "cores";

fn name(set: &str) -> String {
    if set == super::SET { CORES.to_owned() } else { format!("{CORES}-{set}") }
}

/// Measured costs, their time, and the program and parameters that they hold for.
#[derive(Serialize, Deserialize)]
pub struct SavedCosts {
    /// Version, arithmetic and parameter set.
    of: String,
    /// Time of the measurement of steps, in seconds since 1970; none in files of older versions.
    #[serde(default)]
    pub measured: Option<u64>,
    /// Costs of steps and of packing. The tier in this field was not measured.
    pub costs: Costs,
    /// The folders of the last tier.
    #[serde(default)]
    pub tiers: Vec<KeptTier>,
}

/// The measured speed of a folder.
#[derive(Serialize, Deserialize)]
pub struct KeptTier {
    pub folder: PathBuf,
    pub speed: TierSpeed,
    /// Whether this is the speed of the disk, not of the page cache.
    pub direct: bool,
    /// Time of the measurement, in seconds since 1970.
    pub measured: u64,
}

/// The version, arithmetic and set that cached costs must have.
fn ours(set: &str) -> String {
    format!("{} {} {set}", env!("CARGO_PKG_VERSION"), RingKernels::best().name)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// The cached costs of a set, if they still hold.
pub fn kept(set: &str) -> Option<SavedCosts> {
    let kept: SavedCosts = cache::read(&name(set)).and_then(|bytes| serde_json::from_slice(&bytes).ok())?;
    (kept.of == ours(set)).then_some(kept)
}

/// The costs of cores, from the cache or measured, and of a tier in `folders`, always measured.
pub fn calibrate(reference: &Reference, folders: &[Folder], again: bool) -> Result<Costs, Failure> {
    let work = reference.work();
    let mut kept = match kept(work.set()).filter(|_| !again) {
        Some(kept) => kept,
        None => {
            output::say("measuring what steps cost on this machine; it is kept for the next time");
            SavedCosts { of: ours(work.set()), measured: Some(now()), costs: work.measure()?, tiers: Vec::new() }
        }
    };
    let speeds = folders.iter().map(|folder| store::measure(folder, 2.0)).collect::<Result<Vec<_>, _>>()?;
    let tier = |(folder, found): (&Folder, &store::Speed)| {
        let (read, write) = (found.read_bytes_per_s, found.write_bytes_per_s);
        let speed = TierSpeed { read, write, latency_s: found.latency_s };
        KeptTier { folder: folder.path.clone(), speed, direct: found.direct, measured: now() }
    };
    kept.tiers = folders.iter().zip(&speeds).map(tier).collect();
    if let Err(error) = cache::write(&name(work.set()), &serde_json::to_vec(&kept)?) {
        output::say(format!("could not keep it: {error}"));
    }
    let quotas = folders.iter().map(|folder| folder.quota_bytes);
    let speeds = kept.tiers.iter().map(|tier| tier.speed);
    let tier = Some(together(&quotas.zip(speeds).collect::<Vec<_>>(), reference.bytes()));
    Ok(Costs { tier, ..kept.costs })
}

/// The speed of folders with quotas as one tier of so many bytes. The folders are filled up to
/// their quotas in order, and each byte is moved equally often.
fn together(folders: &[(Option<u64>, TierSpeed)], bytes: u64) -> TierSpeed {
    let (mut left, mut all) = (bytes.max(1), TierSpeed { read: 0.0, write: 0.0, latency_s: 0.0 });
    let last = folders.len().saturating_sub(1);
    for (i, (quota, speed)) in folders.iter().enumerate() {
        // a plan checks later whether everything fits, so the last folder takes the rest
        let held = if i == last { left } else { quota.map_or(left, |quota| quota.min(left)) };
        left -= held;
        let part = held as f64 / bytes.max(1) as f64;
        all.read += part / speed.read;
        all.write += part / speed.write;
        all.latency_s += part * speed.latency_s;
    }
    TierSpeed { read: all.read.recip(), write: all.write.recip(), ..all }
}

/// Runs the work three times; returns the shortest time in seconds, and the last result.
fn fastest<T>(mut work: impl FnMut() -> Result<T, Failure>) -> Result<(f64, T), Failure> {
    let (mut best, mut last) = (f64::INFINITY, None);
    for _ in 0..3 {
        let start = Instant::now();
        last = Some(work()?);
        best = best.min(start.elapsed().as_secs_f64());
    }
    last.map(|last| (best, last)).ok_or_else(|| Failure::Work("nothing was measured".to_owned()))
}

/// Measures the cost of each kind of step at three levels.
pub fn measure(engine: &BgvEngine, examples: &Examples) -> Result<Costs, Failure> {
    let mut costs = Costs::unmeasured();
    let Examples { vector, plain, steps, rotation, product } = examples;
    let top = engine.top_level();
    for level in [top, top / 2, top / 4] {
        let step = |op: Op, args: &[&BgvValue]| fastest(|| Ok(engine.step(0, op, args)?));
        let (lower, low) = step(Op::LowerTo(level), &[vector])?;
        let (rotate, turned) = step(Op::Rotate(*steps), &[&low, rotation])?;
        let (hoist, hoisted) = step(Op::Hoist, &[&low])?;
        let found = [
            ("lower_to", lower),
            ("rotate", rotate),
            ("swap", rotate),
            ("hoist", hoist),
            ("rotate_hoisted", step(Op::RotateHoisted(*steps), &[&hoisted, rotation])?.0),
            ("mul", step(Op::Mul, &[&low, &turned, product])?.0),
            ("mul_plain", step(Op::Mul, &[&low, plain])?.0),
            ("add", step(Op::Add, &[&low, &turned])?.0),
            ("sub", step(Op::Sub, &[&low, &turned])?.0),
            ("scale", step(Op::Scale(3), &[&low])?.0),
            ("neg", step(Op::Neg, &[&low])?.0),
            ("dot", step(Op::Dot, &[&low, plain, &turned, plain])?.0 / 2.0),
            ("rescale", step(Op::Rescale, &[&low])?.0),
            ("flood", step(Op::Flood(tobari_engine::matrix::FLOOD_BITS), &[&low])?.0),
        ];
        for (name, seconds) in found {
            costs.steps.entry(name.to_owned()).or_default().insert(0, (level, seconds));
        }
    }
    for (kind, value) in [(Kind::Encrypted, vector), (Kind::Plain, plain), (Kind::Key, rotation)] {
        let resident = engine.shape_of(value)?.resident as f64;
        for (encoding, speeds) in [(Encoding::Raw, &mut costs.raw), (Encoding::Packed, &mut costs.packed)] {
            let seconds = moves(engine, value, encoding)?;
            speeds.insert(kind, seconds.map(|seconds| resident / seconds));
        }
    }
    Ok(costs)
}

/// Seconds to export a value and to import it.
pub fn moves(engine: &BgvEngine, value: &BgvValue, encoding: Encoding) -> Result<[f64; 2], Failure> {
    let shape = engine.shape_of(value)?;
    let mut bytes = vec![0; usize::try_from(shape.stored(encoding))?];
    let (export, ()) = fastest(|| Ok(engine.export(value, &shape, encoding, &mut bytes)?))?;
    let (import, _) = fastest(|| Ok(engine.import(&shape, encoding, &bytes)?))?;
    Ok([export, import])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_together_are_as_fast_as_what_lies_in_each_lets_them_be() {
        let speed = |read: f64| TierSpeed { read, write: read / 2.0, latency_s: 1.0 / read };
        let (fast, slow) = ((Some(300), speed(4.0)), (None, speed(1.0)));
        assert_eq!(together(&[fast, slow], 300), speed(4.0));
        assert_eq!(together(&[slow, fast], 300), speed(1.0));
        // half of the bytes at four bytes a second, and half at one
        let mixed = together(&[fast, slow], 600);
        assert_eq!([mixed.read, mixed.write, mixed.latency_s], [1.6, 0.8, 0.625]);
        assert_eq!(together(&[fast], 600), speed(4.0));
    }
}
