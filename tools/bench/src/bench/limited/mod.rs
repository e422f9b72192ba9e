//! A job without a memory limit, within a limit with a tier, and within the same limit with the
//! kernel's swap on the same device.
//!
//! Every run is a process of its own: this executable again, in a memory group if there is a limit.
//! So the system enforces the limit, and no measurement depends on the process's own statements.

mod emulate;

use super::line::{Line, summary};
use super::table::number;
use crate::bench::arguments::{DeviceClass, LimitedBench, OnceMode};
use emulate::{Device, Group};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tobari_command::output::{self, Failure};
use tobari_host::store::Folder;
use tobari_lattice::RingKernels;
use tobari_plan::plan::bytes;
use tobari_reference::RunArguments;
use tobari_reference::{Outcome, Reference, show as progress};

/// A job to measure.
pub(super) struct Task<'a> {
    pub(super) arguments: &'a LimitedBench,
    /// The arguments for one run of this executable, without those that all jobs share.
    pub(super) call: Vec<String>,
    /// The working set, and so the most bytes that may go to a device.
    pub(super) bytes: u64,
    /// Whether there is a version written by hand as well.
    pub(super) by_hand: bool,
}

/// A child's report of its run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChildReport {
    seconds: f64,
    forecast: f64,
    idle: f64,
    read: u64,
    written: u64,
    peak: Option<u64>,
    digest: Option<u64>,
    right: bool,
    tier: String,
}

/// A row: a way to run on a device.
pub(super) struct Row {
    pub(super) class: &'static str,
    pub(super) mode: &'static str,
    pub(super) labels: Vec<String>,
    pub(super) runs: Vec<ChildReport>,
    not_run: Option<String>,
}

impl Row {
    fn new(class: &'static str, mode: &'static str, labels: &[String], not_run: Option<String>) -> Self {
        Self { class, mode, labels: labels.to_vec(), runs: Vec::new(), not_run }
    }

    /// The reason why the row is empty.
    pub(super) fn reason(&self) -> Option<&str> {
        self.not_run.as_deref().or(self.runs.is_empty().then_some("unfinished"))
    }

    /// Seconds: median, fastest, slowest.
    pub(super) fn seconds(&self) -> (f64, f64, f64) {
        summary(self.runs.iter().map(|run| run.seconds).collect())
    }

    /// The cells of [`COLUMNS`]: seconds, ratio to the unlimited run, forecast, bytes read and
    /// written, peak, tier, labels.
    pub(super) fn cells(&self, unlimited: f64) -> Vec<String> {
        let (median, min, max) = self.seconds();
        let last = &self.runs[self.runs.len() - 1];
        let mut cells: Vec<String> = [median, min, max].map(|seconds| number(Some(seconds), 2)).into();
        cells.extend([number(Some(median / unlimited), 3), number(Some(last.forecast), 2)]);
        cells.extend([last.read, last.written].map(bytes));
        let peak = self.runs.iter().filter_map(|run| run.peak).max();
        cells.extend([peak.map(bytes).unwrap_or_default(), last.tier.clone(), self.labels.join("; ")]);
        cells
    }

    /// The figure of a job with these parameters.
    pub(super) fn line<P>(&self, job: &str, what: &str, params: P, common: &RunArguments) -> Line<P> {
        let (median, min, max) = self.seconds();
        Line {
            job: job.to_owned(),
            what: what.to_owned(),
            engine: "tobari".to_owned(),
            params,
            backend: RingKernels::best().name.to_owned(),
            threads: u32::try_from(common.threads()).unwrap_or(u32::MAX),
            unit: "s".to_owned(),
            median,
            min,
            max,
            runs: self.runs.len(),
            labels: self.labels.clone(),
        }
    }
}

/// The columns of [`Row::cells`].
pub(super) const COLUMNS: [&str; 10] =
    ["median_s", "min_s", "max_s", "ratio", "forecast_s", "read", "written", "peak", "tier", "labels"];

/// The runs without a limit: unlimited, by hand, and, if there are several threads, on one thread.
const BESIDE: [(&str, OnceMode); 3] = [
    ("unlimited", OnceMode::Unlimited),
    ("by hand, one thread", OnceMode::ByHand),
    ("unlimited, one thread", OnceMode::OneThread),
];

/// All ways on all classes of devices; the first row is the finished unlimited run.
pub(super) fn rows(task: &Task) -> Result<Vec<Row>, Failure> {
    let arguments = task.arguments;
    let all = [DeviceClass::Disk, DeviceClass::Ram, DeviceClass::Nvme, DeviceClass::Sata];
    let classes = if arguments.classes.is_empty() { &all[..] } else { &arguments.classes };
    let wanted = |mode: OnceMode| match mode {
        OnceMode::ByHand => task.by_hand,
        OnceMode::OneThread => arguments.common.threads() > 1,
        _ => true,
    };
    let beside: Vec<_> = BESIDE.into_iter().filter(|(_, mode)| wanted(*mode)).collect();
    let mut rows: Vec<Row> = beside.iter().map(|(mode, _)| Row::new("", mode, &[], None)).collect();
    for class in classes {
        measure(task, *class, &beside, &mut rows)?;
    }
    match rows.first().filter(|row| !row.runs.is_empty()) {
        Some(_) => Ok(rows),
        None => Err(Failure::Work("the unlimited run never came to its end".to_owned())),
    }
}

/// Whether all results are correct and, for runs with the same randomness, equal.
pub(super) fn verdict(rows: &[Row]) -> ExitCode {
    let digests: Vec<u64> = rows.iter().flat_map(|row| &row.runs).filter_map(|run| run.digest).collect();
    let same = digests.windows(2).all(|pair| pair[0] == pair[1]);
    let right = same && rows.iter().flat_map(|row| &row.runs).all(|run| run.right);
    output::say(if right { "all results are right, and the same to the bit" } else { "RESULTS DIFFER OR ARE WRONG" });
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn name(class: DeviceClass) -> &'static str {
    match class {
        DeviceClass::Disk => "disk",
        DeviceClass::Ram => "ram",
        DeviceClass::Nvme => "nvme",
        DeviceClass::Sata => "sata",
    }
}

/// The only folder: the measurement is of one device.
fn folder(common: &RunArguments) -> Result<Folder, Failure> {
    match &common.tiers()[..] {
        [folder @ Folder { quota_bytes: None, .. }] => Ok(folder.clone()),
        _ => Err(Failure::Call("expected one --tier at most, without a size".to_owned())),
    }
}

/// All ways on one device, in rounds. Each round includes the unlimited run, and with the first
/// device also the other runs without a limit.
fn measure(task: &Task, class: DeviceClass, beside: &[(&str, OnceMode)], rows: &mut Vec<Row>) -> Result<(), Failure> {
    let (arguments, common) = (task.arguments, &task.arguments.common);
    let device = Device::new(class, &folder(common)?.path, task.bytes, !arguments.without_swap);
    let groups = [false, true].map(|swap| Group::new(common.memory, swap));
    let first = rows.len();
    let row = |mode, labels: &[String], not_run| Row::new(name(class), mode, labels, not_run);
    let device = match device {
        Ok(device) => device,
        Err(reason) => {
            rows.push(row("tier", &[], Some(reason.clone())));
            rows.push(row("swap", &[], Some(reason)));
            return Ok(());
        }
    };
    let mut labels = device.labels();
    let [group, swapping] =
        groups.map(|group| group.map_err(|reason| labels.push(format!("limit not enforced: {reason}"))).ok());
    labels.dedup();
    let no_swap = match (&swapping, device.has_swap()) {
        _ if arguments.without_swap => Some("left out".to_owned()),
        (None, _) => Some("no memory group to limit it".to_owned()),
        (_, false) => Some("no swap on this device".to_owned()),
        _ => None,
    };
    rows.push(row("tier", &labels, None));
    rows.push(row("swap", &labels, no_swap.clone()));
    rows.push(row("swap, planned order", &labels, no_swap.clone()));
    for round in 0..arguments.runs {
        output::say(format!("{}: round {} of {}", name(class), round + 1, arguments.runs));
        let long = Duration::from_secs(arguments.patience);
        let beside = if first == beside.len() { beside } else { &beside[..1] };
        for (row, (_, mode)) in beside.iter().enumerate() {
            rows[row].runs.extend(child(task, *mode, device.folder(), None, long)?);
        }
        rows[first].runs.extend(child(task, OnceMode::Tier, device.folder(), group.as_ref(), long)?);
        for (row, mode) in [(first + 1, OnceMode::Swap), (first + 2, OnceMode::SwapPlanned)] {
            // a way that once took too long is not run again
            if rows[row].not_run.is_none() {
                match child(task, mode, device.folder(), swapping.as_ref(), long)? {
                    Some(said) => rows[row].runs.push(said),
                    None => rows[row].not_run = Some(format!("ended after {} s, unfinished", arguments.patience)),
                }
            }
        }
    }
    Ok(())
}

/// One run in a process of its own; none after a timeout.
fn child(
    task: &Task,
    mode: OnceMode,
    folder: &Path,
    group: Option<&Group>,
    patience: Duration,
) -> Result<Option<ChildReport>, Failure> {
    let mode = match mode {
        OnceMode::Unlimited => "unlimited",
        OnceMode::OneThread => "one-thread",
        OnceMode::ByHand => "by-hand",
        OnceMode::Tier => "tier",
        OnceMode::Swap => "swap",
        OnceMode::SwapPlanned => "swap-planned",
    };
    let common = &task.arguments.common;
    let mut call = Command::new(std::env::current_exe()?);
    call.args(&task.call).args(["--once", mode, "--memory", &common.memory.to_string()]);
    call.args(["--threads", &common.threads().to_string(), "--tier"]);
    call.arg(folder).stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(group) = group {
        call.env(emulate::GROUP, group.path());
    }
    let mut child = call.spawn()?;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // at most a line, which fits the pipe
    let done = child.wait_with_output()?;
    if !done.status.success() {
        return Err(Failure::Work(format!("the {mode} run ended with {}", done.status)));
    }
    Ok(Some(serde_json::from_slice(&done.stdout)?))
}

/// The child's part.
///
/// The job is made after the process has joined its group.
pub(super) fn once(
    common: &RunArguments,
    mode: OnceMode,
    job: impl FnOnce() -> Result<Reference, Failure>,
) -> Result<ExitCode, Failure> {
    emulate::join_group()?;
    let (threads, folder) = (common.threads(), [folder(common)?]);
    let threads = if mode == OnceMode::OneThread { 1 } else { threads };
    let job = job()?;
    if mode == OnceMode::ByHand {
        return say(job.work().by_hand()?, 0.0);
    }
    let costs = tobari_reference::calibrate(&job, &folder, common.recalibrate)?;
    let plan = match mode {
        OnceMode::Tier => job.plan(Some(common.memory), threads, &costs)?,
        OnceMode::SwapPlanned => job.in_memory(&job.plan(Some(common.memory), threads, &costs)?, threads, &costs)?,
        _ => job.plan(None, threads, &costs)?,
    };
    let forecast = plan.forecast.seconds;
    let checked = job.check(plan)?;
    say(job.run(&checked, threads, &folder, &progress)?, forecast)
}

/// Prints the report for the parent.
fn say(outcome: Outcome, forecast: f64) -> Result<ExitCode, Failure> {
    let progress = outcome.status.progress;
    output::json(&ChildReport {
        seconds: outcome.status.seconds,
        forecast,
        idle: outcome.status.idle,
        read: progress.read,
        written: progress.written,
        peak: outcome.peak,
        digest: outcome.digest,
        right: outcome.right,
        tier: outcome.tier,
    })?;
    Ok(ExitCode::SUCCESS)
}
