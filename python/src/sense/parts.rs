//! A window in parts: a server with the encrypted secrets of a cohort converts that cohort's
//! frames, and the results add up.
//!
//! Results are ciphertexts of sums, and the sum of a group is exactly the sum over its cohorts,
//! because both are sums modulo the same number. So the message from the added parts is one that a
//! single server might have sent, and the key holder checks it against the plan of the whole tally.
//! The least size of a group applies to the whole: parts are computed without it, and stay on
//! servers. A question whose sums are in declared parts has several results for a group, and is not
//! divided.

use crate::errors::{failed, malformed, refused};
use crate::work::{long, pieces, short};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeMap, BTreeSet};
use tobari_lattice::bgv::{Ciphertext, Evaluator};
use tobari_sense::bundle::Bundle;
use tobari_sense::cloud::CloudError;
use tobari_sense::message::{self, WindowResults};
use tobari_sense::order::{Job, Order, OrderError, Seat};
use tobari_sense::setting::Setting;

/// Frames that are examined between two checks for Ctrl-C.
const FRAMES: usize = 1 << 14;

/// Groups frames by the cohort of their device. Frames of unknown devices are skipped; bytes that
/// are no frame are an error.
#[pyfunction]
pub(super) fn split_frames<'py>(
    py: Python<'py>,
    bundle: &[u8],
    frames: &[u8],
) -> PyResult<BTreeMap<usize, Bound<'py, PyBytes>>> {
    let (profile, blocks, places) = short(py, || {
        let bundle = Bundle::decode(bundle).map_err(malformed)?;
        let blocks = Setting::of(bundle.profile).map_err(failed)?.layout.blocks();
        let places: BTreeMap<u32, usize> = bundle.seats().iter().map(|seat| seat.number).zip(0..).collect();
        Ok((bundle.profile, blocks, places))
    })?;
    let mut cohorts: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    pieces(py, frames.chunks(FRAMES * profile.frame_bytes()), |some| {
        for frame in some.chunks(profile.frame_bytes()) {
            let number = profile
                .peek(frame)
                .map_err(|_| malformed("expected frames of the fleet's profile, found another"))?
                .device;
            if let Some(place) = places.get(&number.value()) {
                cohorts.entry(place / blocks).or_default().extend_from_slice(frame);
            }
        }
        Ok(())
    })?;
    Ok(cohorts.into_iter().map(|(cohort, frames)| (cohort, PyBytes::new(py, &frames))).collect())
}

/// Merges the results of a window's parts; none if all parts together have too few devices.
#[pyfunction]
pub(super) fn merge_parts<'py>(
    py: Python<'py>,
    bundle: &[u8],
    order: &str,
    parts: Vec<Vec<u8>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let bundle = Bundle::decode(bundle).map_err(malformed)?;
    let order: Order = serde_json::from_str(order).map_err(malformed)?;
    let merged = long(py, None, move |watch| {
        let setting = Setting::of(bundle.profile).map_err(failed)?;
        let parts = parts.iter().map(|part| {
            watch.wanted()?;
            message::decode(part, &setting.parameters).map_err(malformed)
        });
        merge(&setting, &bundle.seats(), &order, &parts.collect::<PyResult<Vec<_>>>()?)
    })?;
    Ok(merged.map(|merged| PyBytes::new(py, &merged)))
}

/// The order of a part: its groups may have any number of devices.
pub(super) fn of_part(order: Order) -> Order {
    Order { least_devices: 1, ..order }
}

fn merge(setting: &Setting, seats: &[Seat], order: &Order, parts: &[WindowResults]) -> PyResult<Option<Vec<u8>>> {
    if order.part.is_some() {
        return Err(refused("expected a question without declared parts, found one with: it is not divided"));
    }
    let mut tally: Vec<_> = parts.iter().flat_map(|part| part.tally.iter().copied()).collect();
    tally.sort_unstable_by_key(|tally| tally.number);
    if !tally.is_sorted_by(|a, b| a.number < b.number) {
        return Err(refused("expected every device in one part, found one in two"));
    }
    let whole = match order.job(setting, seats, &tally) {
        Ok(job) => job,
        Err(OrderError::Empty { .. }) => return Ok(None),
        Err(error) => return Err(refused(error)),
    };
    let evaluator = Evaluator::new(&setting.parameters).map_err(failed)?;
    let mut results: Vec<Option<Ciphertext>> = vec![None; whole.outputs()];
    let (wanted, partial) = (by_answer(&whole)?, of_part(order.clone()));
    for part in parts {
        let job = partial.job(setting, seats, &part.tally).map_err(refused)?;
        if job.outputs() != part.results.len() {
            return Err(refused("expected as many results as the part's plan has, found others"));
        }
        // where each device has its own slot, one result has all devices of a cohort, and counts
        // once
        let mut taken = BTreeSet::new();
        for (answer, outputs) in by_answer(&job)? {
            let Some(into) = wanted.get(&answer) else { continue };
            for (into, from) in into.iter().zip(outputs).filter(|pair| taken.insert((*pair.0, pair.1))) {
                // parts are the server's own work, and their bounds its own
                let mut found = part.results[from].clone();
                found.declare_noise(found.claimed_noise());
                results[*into] = Some(match &results[*into] {
                    None => found,
                    Some(before) => evaluator.add(before, &found).map_err(refused)?,
                });
            }
        }
    }
    let results = results.into_iter().collect::<Option<Vec<_>>>();
    let results = results.ok_or_else(|| refused("expected parts with all results of the whole, found fewer"))?;
    if !results.iter().all(|result| result.noise_budget() > 0.0) {
        return Err(refused(CloudError::Noise));
    }
    Ok(Some(message::encode(&WindowResults { tally, results }).map_err(refused)?))
}

/// The one output of each measure, by group or device.
fn by_answer(job: &Job) -> PyResult<BTreeMap<usize, Vec<usize>>> {
    let one = |outputs: &Vec<(usize, Option<usize>)>| match outputs[..] {
        [(output, _)] => Ok(output),
        _ => Err(refused("expected one result of a group, found several")),
    };
    job.answers
        .iter()
        .map(|answer| Ok((answer.group, answer.outputs.iter().map(one).collect::<PyResult<_>>()?)))
        .collect()
}
