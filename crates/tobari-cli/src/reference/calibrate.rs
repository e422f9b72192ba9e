//! What steps and moves cost here: a few seconds of measuring, kept for the next time.

use super::Reference;
use crate::output::{self, Failure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;
use tobari_apps::engine::BgvValue;
use tobari_core::simd::RingKernels;
use tobari_host::cache;
use tobari_host::store;
use tobari_plan::cost::{Costs, TierSpeed};
use tobari_plan::engine::Engine;
use tobari_plan::program::{Encoding, Kind, Op, Shape};

/// The name of the costs of cores in the cache.
const CORES: &str = "cores";

/// Costs as they were found, and for what.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Version, arithmetic and parameters.
    of: String,
    costs: Costs,
}

/// The costs of cores, from the cache or measured, and of a tier in `folder`, measured.
pub(crate) fn calibrate(reference: &Reference, folder: &Path, again: bool) -> Result<Costs, Failure> {
    let of = format!("{} {} {}", env!("CARGO_PKG_VERSION"), RingKernels::best().name, super::SET);
    let kept = cache::read(CORES).and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
    let mut costs = match kept.filter(|kept| kept.of == of && !again) {
        Some(kept) => kept.costs,
        None => {
            output::say("measuring what steps cost on this machine; it is kept for the next time");
            let costs = measure(reference)?;
            let bytes = serde_json::to_vec(&Kept { of, costs: costs.clone() })?;
            if let Err(error) = cache::write(CORES, &bytes) {
                output::say(format!("could not keep them: {error}"));
            }
            costs
        }
    };
    let speed = store::measure(folder, 2.0)?;
    let (read, write) = (speed.read_bytes_per_s, speed.write_bytes_per_s);
    costs.tier = Some(TierSpeed { read, write, latency_s: speed.latency_s });
    Ok(costs)
}

/// Seconds of the fastest of three.
fn fastest<T>(mut work: impl FnMut() -> Result<T, Failure>) -> Result<(f64, T), Failure> {
    let (mut best, mut last) = (f64::INFINITY, None);
    for _ in 0..3 {
        let start = Instant::now();
        last = Some(work()?);
        best = best.min(start.elapsed().as_secs_f64());
    }
    last.map(|last| (best, last)).ok_or_else(|| Failure::Work("nothing was measured".to_owned()))
}

fn measure(reference: &Reference) -> Result<Costs, Failure> {
    let engine = &reference.engine;
    let mut costs = Costs::unmeasured();
    let inputs: Vec<BgvValue> = reference.examples()?;
    let [vector, diagonal, rotation, product] = &inputs[..] else {
        return Err(Failure::Work("expected four examples".to_owned()));
    };
    let top = engine.top_level();
    for level in [top, top / 2] {
        let step = |op: Op, args: &[&BgvValue]| fastest(|| Ok(engine.step(0, op, args)?));
        let (lower, low) = step(Op::LowerTo(level), &[vector])?;
        let (rotate, turned) = step(Op::Rotate(1), &[&low, rotation])?;
        let found = [
            ("lower_to", lower),
            ("rotate", rotate),
            ("mul", step(Op::Mul, &[&low, &turned, product])?.0),
            ("mul_plain", step(Op::Mul, &[&low, diagonal])?.0),
            ("add", step(Op::Add, &[&low, &turned])?.0),
            ("sub", step(Op::Sub, &[&low, &turned])?.0),
            ("scale", step(Op::Scale(3), &[&low])?.0),
            ("neg", step(Op::Neg, &[&low])?.0),
            ("dot", step(Op::Dot, &[&low, diagonal, &turned, diagonal])?.0 / 2.0),
            ("rescale", step(Op::Rescale, &[&low])?.0),
            ("flood", step(Op::Flood(tobari_apps::matrix::FLOOD_BITS), &[&low])?.0),
        ];
        for (name, seconds) in found {
            costs.steps.entry(name.to_owned()).or_default().insert(0, (level, seconds));
        }
    }
    for (kind, value) in [(Kind::Encrypted, vector), (Kind::Plain, diagonal), (Kind::Key, rotation)] {
        let shape = engine.shape_of(value)?;
        let resident = shape.resident as f64;
        for (encoding, speeds) in [(Encoding::Raw, &mut costs.raw), (Encoding::Packed, &mut costs.packed)] {
            let seconds = moves(reference, value, &shape, encoding)?;
            speeds.insert(kind, seconds.map(|seconds| resident / seconds));
        }
    }
    Ok(costs)
}

/// Seconds to export a value and to import it.
fn moves(reference: &Reference, value: &BgvValue, shape: &Shape, encoding: Encoding) -> Result<[f64; 2], Failure> {
    let engine = &reference.engine;
    let mut bytes = vec![0; usize::try_from(shape.stored(encoding))?];
    let (export, ()) = fastest(|| Ok(engine.export(value, shape, encoding, &mut bytes)?))?;
    let (import, _) = fastest(|| Ok(engine.import(shape, encoding, &bytes)?))?;
    Ok([export, import])
}
