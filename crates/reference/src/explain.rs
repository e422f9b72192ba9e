//! Prints the plan of a job, and runs it on request.

use crate::{Reference, RunArguments, calibrate, show};
use serde_json::json;
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_host::store::Folder;
use tobari_plan::plan::{Plan, bytes};

/// Rejects a plan that keeps more in the tier than its folders may hold.
fn has_space(plan: &Plan, folders: &[Folder]) -> Result<(), Failure> {
    let quotas: Option<u64> =
        folders.iter().map(|folder| folder.quota_bytes).try_fold(0u64, |sum, quota| sum.checked_add(quota?));
    let needed = plan.kept();
    match quotas.filter(|quotas| *quotas < needed) {
        Some(quotas) => Err(Failure::Work(format!(
            "expected --tier with {} in all, which the plan keeps there, found {}",
            bytes(needed),
            bytes(quotas)
        ))),
        None => Ok(()),
    }
}

/// Prints the plan of a job, and runs it if `run` is set.
pub fn explain(job: &Reference, common: &RunArguments, run: bool) -> Result<ExitCode, Failure> {
    let (threads, tiers) = (common.threads(), common.tiers());
    let costs = calibrate(job, &tiers, common.recalibrate)?;
    let plan = job.plan(Some(common.memory), threads, &costs)?;
    let f = plan.forecast;
    if common.json {
        let forecast = json!({
            "job": job.work().job(), "limit": common.memory,
            "values": plan.site.memory, "seconds": f.seconds, "unlimited_seconds": f.unlimited, "stalled_seconds": f.stalled,
            "read": f.read, "written": f.written, "peak": f.peak, "steps": f.steps, "again": f.again,
        });
        output::json(&joined(forecast, job.work().sizes()))?;
    } else {
        output::result(format!("{}, within {}", job.work().title(), bytes(common.memory)));
        output::result(plan.explain(&costs).trim_end());
    }
    if !run {
        return Ok(ExitCode::SUCCESS);
    }
    has_space(&plan, &tiers)?;
    let checked = job.check(plan)?;
    let outcome = job.run(&checked, threads, &tiers, &show)?;
    let (progress, seconds) = (outcome.status.progress, outcome.status.seconds);
    if common.json {
        output::json(&json!({
            "job": job.work().job(), "right": outcome.right, "seconds": seconds, "read": progress.read, "written": progress.written,
            "peak": outcome.peak, "values_peak": progress.peak, "tier": outcome.tier,
            "tiers": outcome.folders.iter().map(|(path, bytes)| json!({ "folder": path, "bytes": bytes })).collect::<Vec<_>>(),
        }))?;
    } else {
        output::result(format!(
            "run: {seconds:.2} s ({:.2} of the forecast), {} read and {} written, {} of the process in memory at most; {}",
            seconds / f.seconds,
            bytes(progress.read),
            bytes(progress.written),
            outcome.peak.map_or_else(|| "an unknown part".to_owned(), bytes),
            if outcome.right { "the result is that of the clear run" } else { "THE RESULT IS WRONG" }
        ));
        for (path, used) in &outcome.folders {
            output::result(format!("  in {}: {}", path.display(), bytes(*used)));
        }
    }
    Ok(if outcome.right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Merges the fields of two objects.
fn joined(mut one: serde_json::Value, other: serde_json::Value) -> serde_json::Value {
    if let (Some(one), serde_json::Value::Object(other)) = (one.as_object_mut(), other) {
        one.extend(other);
    }
    one
}
