//! `tobari plan`: what a job will do here, and why, before it does it.

use crate::args::{MemoryPlan, PlanJob, ReferenceArguments};
use crate::output::{self, Failure};
use crate::reference::{self, Reference};
use serde_json::json;
use std::process::ExitCode;
use tobari_host::run::Status;
use tobari_host::store::Folder;
use tobari_plan::plan::{Plan, bytes};

/// Plans and prints.
pub(crate) fn run(job: &PlanJob) -> Result<ExitCode, Failure> {
    match job {
        PlanJob::Memory(arguments) => memory(arguments),
    }
}

/// Threads of a job.
pub(crate) fn threads(arguments: &ReferenceArguments) -> usize {
    arguments.threads.map_or_else(tobari_host::threads::available, usize::from)
}

/// The folders of its tier, in order of speed.
pub(crate) fn tiers(arguments: &ReferenceArguments) -> Vec<Folder> {
    match &arguments.tiers[..] {
        [] => vec![Folder { path: std::env::temp_dir(), quota_bytes: None }],
        folders => folders.to_vec(),
    }
}

/// Refuses a plan that keeps more in the tier than its folders may hold.
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

fn memory(arguments: &MemoryPlan) -> Result<ExitCode, Failure> {
    let MemoryPlan { reference: common, run } = arguments;
    let (threads, tiers) = (threads(common), tiers(common));
    let job = Reference::new(common.working_set)?;
    let costs = reference::calibrate(&job, &tiers, common.recalibrate)?;
    let plan = job.plan(Some(common.memory), threads, &costs)?;
    let f = plan.forecast;
    if common.json {
        output::json(&json!({
            "job": "memory", "vectors": job.size.vectors, "diagonals": job.size.diagonals, "limit": common.memory,
            "values": plan.site.memory, "seconds": f.seconds, "unlimited_seconds": f.unlimited, "stalled_seconds": f.stalled,
            "read": f.read, "written": f.written, "peak": f.peak, "steps": f.steps, "again": f.again,
        }))?;
    } else {
        let Reference { size, .. } = &job;
        output::result(format!(
            "{} encrypted vectors times a matrix of {} diagonals: {} of inputs, within {}",
            size.vectors,
            size.diagonals,
            bytes(job.bytes()),
            bytes(common.memory)
        ));
        output::result(plan.explain(&costs).trim_end());
    }
    if *run {
        has_space(&plan, &tiers)?;
        let checked = job.check(plan)?;
        let outcome = job.run(&checked, threads, &tiers, &show)?;
        let (progress, seconds) = (outcome.status.progress, outcome.status.seconds);
        if common.json {
            output::json(&json!({
                "job": "memory", "right": outcome.right, "seconds": seconds, "read": progress.read, "written": progress.written,
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
        return Ok(if outcome.right { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    Ok(ExitCode::SUCCESS)
}

/// How far a run is, on a terminal.
pub(crate) fn show(status: &Status) {
    output::status(&format!(
        "{} of {} steps, {} read, {} written, {} in memory, {:.0} s{}",
        status.progress.steps,
        status.progress.of,
        bytes(status.progress.read),
        bytes(status.progress.written),
        bytes(status.progress.memory),
        status.seconds,
        status.left.map(|left| format!(", {left:.0} s left")).unwrap_or_default()
    ));
}
