//! `tobari plan`: what a job will do here, and why, before it does it.

use crate::args::{MemoryPlan, PlanJob, ReferenceArguments};
use crate::output::{self, Failure};
use crate::reference::{self, Reference};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tobari_host::run::Status;
use tobari_plan::plan::bytes;

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

/// The folder of its tier.
pub(crate) fn tier(arguments: &ReferenceArguments) -> PathBuf {
    arguments.tier.clone().unwrap_or_else(std::env::temp_dir)
}

fn memory(arguments: &MemoryPlan) -> Result<ExitCode, Failure> {
    let MemoryPlan { reference: common, run } = arguments;
    let (threads, tier) = (threads(common), tier(common));
    let job = Reference::new(common.working_set)?;
    let costs = reference::calibrate(&job, &tier, common.recalibrate)?;
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
        let checked = job.check(plan)?;
        let outcome = job.run(&checked, threads, &tier, &show)?;
        let (progress, seconds) = (outcome.status.progress, outcome.status.seconds);
        if common.json {
            output::json(&json!({
                "job": "memory", "right": outcome.right, "seconds": seconds, "read": progress.read, "written": progress.written,
                "peak": outcome.peak, "values_peak": progress.peak, "tier": outcome.tier,
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
