//! `tobari bench memory`: the reference job of plans with all the memory it wants, within a limit with a tier, and within the same limit
//! with the kernel's swap on the same device.
//!
//! Every run is a process of its own: this executable again, in a memory group with the limit where there is one. So what is measured is what the
//! system enforces, not what the process says of itself.

mod emulate;

use super::line::{Line, summary};
use super::plot::{self, Bars};
use super::show;
use super::table::{Table, number};
use crate::args::{DeviceClass, MemoryBench, OnceMode, ReferenceArguments};
use crate::cmd::plan::{show as progress, threads, tiers};
use crate::output::{self, Failure};
use crate::reference::{self, Outcome, Reference};
use emulate::{Device, Group};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tobari_core::simd::RingKernels;
use tobari_host::files;
use tobari_host::store::Folder;
use tobari_plan::plan::bytes;

/// Rows of the paper's table 6, length 5: times of the unlimited run.
const PAPER: [(&str, f64); 4] =
    [("PMem 200", 1.050), ("Optane SSD", 1.049), ("980 PRO (NVMe)", 1.123), ("SATA SSD", 1.410)];

/// What a child says of its run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Said {
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

/// Whose figure it is of.
#[derive(Clone, Serialize, Deserialize, PartialEq)]
struct Params {
    class: String,
    mode: String,
    memory: u64,
    working_set: u64,
}

/// A row: a way to run, on a device.
struct Row {
    class: &'static str,
    mode: &'static str,
    labels: Vec<String>,
    runs: Vec<Said>,
    not_run: Option<String>,
}

/// Measures and prints.
pub(super) fn run(arguments: &MemoryBench) -> Result<ExitCode, Failure> {
    if let Some(mode) = arguments.once {
        return once(&arguments.reference, mode);
    }
    let all = [DeviceClass::Disk, DeviceClass::Ram, DeviceClass::Nvme, DeviceClass::Sata];
    let classes = if arguments.classes.is_empty() { &all[..] } else { &arguments.classes };
    let beside = if threads(&arguments.reference) > 1 { &BESIDE[..] } else { &BESIDE[..2] };
    let row = |mode: &'static str| Row { class: "", mode, labels: Vec::new(), runs: Vec::new(), not_run: None };
    let mut rows: Vec<Row> = beside.iter().map(|(mode, _)| row(mode)).collect();
    for class in classes {
        measure(arguments, *class, beside, &mut rows)?;
    }
    report(arguments, &rows)?;
    let digests: Vec<u64> = rows.iter().flat_map(|row| &row.runs).filter_map(|run| run.digest).collect();
    let same = digests.windows(2).all(|pair| pair[0] == pair[1]);
    let right = same && rows.iter().flat_map(|row| &row.runs).all(|run| run.right);
    output::say(if right { "all results are right, and the same to the bit" } else { "RESULTS DIFFER OR ARE WRONG" });
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn name(class: DeviceClass) -> &'static str {
    match class {
        DeviceClass::Disk => "disk",
        DeviceClass::Ram => "ram",
        DeviceClass::Nvme => "nvme",
        DeviceClass::Sata => "sata",
    }
}

/// The only folder: what is measured is one device.
fn folder(common: &ReferenceArguments) -> Result<Folder, Failure> {
    match &tiers(common)[..] {
        [folder @ Folder { quota_bytes: None, .. }] => Ok(folder.clone()),
        _ => Err(Failure::Call("expected one --tier at most, without a size".to_owned())),
    }
}

/// What is run beside every device: with all memory, by hand, and, where there are more threads, on one.
const BESIDE: [(&str, OnceMode); 3] = [
    ("unlimited", OnceMode::Unlimited),
    ("by hand, one thread", OnceMode::ByHand),
    ("unlimited, one thread", OnceMode::OneThread),
];

/// All ways on one device, in rounds, each with those without a limit beside it: the first always, the others with the first device.
fn measure(
    arguments: &MemoryBench,
    class: DeviceClass,
    beside: &[(&str, OnceMode)],
    rows: &mut Vec<Row>,
) -> Result<(), Failure> {
    let common = &arguments.reference;
    let device = Device::new(class, &folder(common)?.path, common.working_set, !arguments.without_swap);
    let groups = [false, true].map(|swap| Group::new(common.memory, swap));
    let first = rows.len();
    let row = |mode, labels: &[String], not_run| Row {
        class: name(class),
        mode,
        labels: labels.to_vec(),
        runs: Vec::new(),
        not_run,
    };
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
            rows[row].runs.extend(child(common, *mode, device.folder(), None, long)?);
        }
        rows[first].runs.extend(child(common, OnceMode::Tier, device.folder(), group.as_ref(), long)?);
        for (row, mode) in [(first + 1, OnceMode::Swap), (first + 2, OnceMode::SwapPlanned)] {
            // what took too long once is not asked again
            if rows[row].not_run.is_none() {
                match child(common, mode, device.folder(), swapping.as_ref(), long)? {
                    Some(said) => rows[row].runs.push(said),
                    None => rows[row].not_run = Some(format!("ended after {} s, unfinished", arguments.patience)),
                }
            }
        }
    }
    Ok(())
}

/// One run in a process of its own; none if it took longer than anybody waits.
fn child(
    common: &ReferenceArguments,
    mode: OnceMode,
    folder: &Path,
    group: Option<&Group>,
    patience: Duration,
) -> Result<Option<Said>, Failure> {
    let mode = match mode {
        OnceMode::Unlimited => "unlimited",
        OnceMode::OneThread => "one-thread",
        OnceMode::ByHand => "by-hand",
        OnceMode::Tier => "tier",
        OnceMode::Swap => "swap",
        OnceMode::SwapPlanned => "swap-planned",
    };
    let mut call = Command::new(std::env::current_exe()?);
    call.args(["bench", "memory", "--once", mode, "--memory", &common.memory.to_string()]);
    call.args(["--working-set", &common.working_set.to_string(), "--threads", &threads(common).to_string(), "--tier"]);
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
    // a line at most: it fits the pipe
    let done = child.wait_with_output()?;
    if !done.status.success() {
        return Err(Failure::Work(format!("the {mode} run ended with {}", done.status)));
    }
    Ok(Some(serde_json::from_slice(&done.stdout)?))
}

/// The child's part.
fn once(common: &ReferenceArguments, mode: OnceMode) -> Result<ExitCode, Failure> {
    emulate::join_group()?;
    let (threads, folder) = (threads(common), [folder(common)?]);
    let threads = if mode == OnceMode::OneThread { 1 } else { threads };
    let job = Reference::new(common.working_set)?;
    if mode == OnceMode::ByHand {
        return say(job.by_hand()?, 0.0);
    }
    let costs = reference::calibrate(&job, &folder, common.recalibrate)?;
    let plan = match mode {
        OnceMode::Tier => job.plan(Some(common.memory), threads, &costs)?,
        OnceMode::SwapPlanned => job.in_memory(&job.plan(Some(common.memory), threads, &costs)?, threads, &costs)?,
        _ => job.plan(None, threads, &costs)?,
    };
    let forecast = plan.forecast.seconds;
    let checked = job.check(plan)?;
    say(job.run(&checked, threads, &folder, &progress)?, forecast)
}

/// What the parent is told.
fn say(outcome: Outcome, forecast: f64) -> Result<ExitCode, Failure> {
    let progress = outcome.status.progress;
    output::json(&Said {
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

fn report(arguments: &MemoryBench, rows: &[Row]) -> Result<(), Failure> {
    let common = &arguments.reference;
    let first = rows.first().filter(|row| !row.runs.is_empty());
    let first = first.ok_or_else(|| Failure::Work("the unlimited run never came to its end".to_owned()))?;
    let unlimited = summary(first.runs.iter().map(|run| run.seconds).collect());
    let title = format!(
        "Reference job, {} of inputs, within {}: seconds, and times the unlimited run",
        bytes(common.working_set),
        bytes(common.memory)
    );
    let columns = [
        "class",
        "mode",
        "median_s",
        "min_s",
        "max_s",
        "ratio",
        "forecast_s",
        "read",
        "written",
        "peak",
        "tier",
        "labels",
    ];
    let mut table = Table::new(title, &columns);
    let mut bars = Bars::new("Times the unlimited run", "class of device");
    for row in rows {
        if let Some(reason) = row.not_run.as_deref().or(row.runs.is_empty().then_some("unfinished")) {
            table.push(vec![row.class.to_owned(), row.mode.to_owned(), format!("not run: {reason}")]);
            continue;
        }
        let (median, min, max) = summary(row.runs.iter().map(|run| run.seconds).collect());
        let last = &row.runs[row.runs.len() - 1];
        let ratio = median / unlimited.0;
        let mut cells = vec![row.class.to_owned(), row.mode.to_owned()];
        cells.extend([median, min, max].map(|seconds| number(Some(seconds), 2)));
        cells.extend([number(Some(ratio), 3), number(Some(last.forecast), 2)]);
        cells.extend([last.read, last.written].map(bytes));
        let peak = row.runs.iter().filter_map(|run| run.peak).max();
        cells.extend([peak.map(bytes).unwrap_or_default(), last.tier.clone(), row.labels.join("; ")]);
        table.push(cells);
        if !row.class.is_empty() {
            bars.push(row.class, row.mode, ratio);
        }
        if common.json {
            output::json(&line(common, row, (median, min, max)))?;
        }
    }
    for (device, ratio) in PAPER {
        let cells = ["paper", device, "", "", ""].map(str::to_owned);
        table.push(cells.into_iter().chain([number(Some(ratio), 3)]).collect());
        bars.push("paper", device, ratio);
    }
    show(&table, common.json);
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("memory.csv"), table.csv().as_bytes())?;
        files::write_atomically(&folder.join("memory.svg"), plot::bars(&bars)?.as_bytes())?;
    }
    Ok(())
}

fn line(common: &ReferenceArguments, row: &Row, (median, min, max): (f64, f64, f64)) -> Line<Params> {
    Line {
        job: "memory".to_owned(),
        what: "run".to_owned(),
        engine: "tobari".to_owned(),
        params: Params {
            class: row.class.to_owned(),
            mode: row.mode.to_owned(),
            memory: common.memory,
            working_set: common.working_set,
        },
        backend: RingKernels::best().name.to_owned(),
        threads: u32::try_from(threads(common)).unwrap_or(u32::MAX),
        unit: "s".to_owned(),
        median,
        min,
        max,
        runs: row.runs.len(),
        labels: row.labels.clone(),
    }
}
