//! Design 2 on the server: the AES-128 decryption of a message of sixteen blocks under encryption,
//! as a plan within a memory limit, on one thread.
//!
//! A batch costs the same for 1 to 1,024 blocks. So a line has the batch's time, and the rate of a
//! full batch.

use super::SenseBench;
use super::designs::{Cell, Design, Role, backend};
use super::{Params, line};
use crate::bench::line::Line;
use crate::bench::show;
use crate::bench::table::{Table, number};
use tobari_command::output::{self, Failure};
use tobari_device::READINGS;
use tobari_host::memory::resident;
use tobari_host::process::cpu_seconds;
use tobari_host::store::Folder;
use tobari_reference::{Reference, calibrate, show as progress};
use tobari_sense_edge::plan::Aes;

/// Blocks of a message.
const BLOCKS: usize = READINGS / 16;
/// The targets: seconds of a batch, and bytes a second of a full batch.
pub(super) const TARGETS: [f64; 2] = [150.0, 150.0];

/// Runs one batch; returns its figures, and its capacity in blocks.
pub(super) fn once(arguments: &SenseBench) -> Result<(Cell, usize), Failure> {
    let Some(memory) = arguments.memory else {
        return Err(Failure::Call("expected --memory for design 2, found none".to_owned()));
    };
    let aes = Aes::new(BLOCKS, arguments.insecure_degree, false)?;
    let (room, job) = (aes.room(), Reference::new(aes));
    let tier = arguments.tier.clone().unwrap_or_else(std::env::temp_dir);
    let tiers = [Folder { path: tier, quota_bytes: None }];
    let costs = calibrate(&job, &tiers, false)?;
    let plan = job.check(job.plan(Some(memory), 1, &costs)?)?;
    let cpu = cpu_seconds();
    let outcome = job.run(&plan, 1, &tiers, &progress)?;
    output::status("");
    if !outcome.right {
        return Err(Failure::Work("expected what devices encrypted, found something else".to_owned()));
    }
    // CPU time includes the making of inputs, which is the key holder's work; wall-clock time is
    // that of the run alone
    let cpu_microseconds = cpu.zip(cpu_seconds()).map_or(0.0, |(before, now)| (now - before) * 1e6);
    let peak_bytes = outcome.peak.or_else(|| resident().map(|[_, peak]| peak)).unwrap_or(0);
    let (microseconds, backend) = ([outcome.status.seconds * 1e6; 3], backend(Design::Aes, Role::Cloud));
    Ok((Cell { microseconds, cpu_microseconds, peak_bytes, rounds: 1, backend }, room))
}

/// Rounds in this process, if a memory limit is given: a round takes minutes and gigabytes of disk.
pub(super) fn measure(arguments: &SenseBench) -> Result<Vec<Line<Params>>, Failure> {
    if arguments.memory.is_none() {
        return Ok(Vec::new());
    }
    let (cell, room) = once(arguments)?;
    let seconds = cell.microseconds[0] / 1e6;
    let full = (16 * room) as f64 / seconds;
    let mut table = Table::new(
        format!("AES-128 under encryption: {BLOCKS} blocks in a batch that has room for {room}, one thread"),
        &["what", "found", "goal", "verdict"],
    );
    let verdict = |good: bool| if good { "pass" } else { "FAIL" }.to_owned();
    let [most, least] = TARGETS;
    let mut row = |what: &str, found: f64, goal: Option<f64>, good: Option<bool>| {
        table.push(vec![
            what.to_owned(),
            number(Some(found), 2),
            number(goal, 0),
            good.map(verdict).unwrap_or_default(),
        ]);
    };
    row("a batch, s", seconds, Some(most), Some(seconds <= most));
    row("a full batch, bytes a second", full, Some(least), Some(full >= least));
    row("seconds of CPU, inputs' making included", cell.cpu_microseconds / 1e6, None, None);
    row("memory, MiB", cell.peak_bytes as f64 / f64::from(1 << 20), None, None);
    show(&table, arguments.json);
    let mut line = line("convert", Design::Aes, Role::Cloud, "us/message", cell.microseconds, 1);
    line.params.batch = Some(1);
    if arguments.insecure_degree.is_some() {
        line.labels.push("insecure-degree".to_owned());
    }
    Ok(vec![line])
}
