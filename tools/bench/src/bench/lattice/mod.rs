//! `tobari-bench lattice`.

mod figures;
mod ratios;
mod refresh;
mod tasks;

use super::rounds::{self, Job};
use super::{peer, show};
use crate::bench::arguments::{LatticeBench, SetName};
use crate::bench::measuring::Measuring;
use figures::Line;
use std::process::ExitCode;
use tobari_command::output::{self, Failure, Progress};
use tobari_host::files;
use tobari_lattice::RingKernels;
use tobari_simd::choose_backend;

/// Measures and prints.
pub(super) fn run(arguments: &LatticeBench) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    choose_backend(common.backend.backend())?;
    if arguments.refresh {
        return refresh::run(arguments);
    }
    let all = [SetName::A, SetName::B, SetName::C];
    let sets = if arguments.sets.is_empty() { &all[..] } else { &arguments.sets };
    let job = Job { name: "lattice", backend: RingKernels::best().name, unit: "ns", batch_ns: 1e7 };
    let (mut lines, mut worst) = (Vec::new(), 1f64);
    let progress = Progress::new("measured sets", sets.len() as u64);
    for (done, set) in sets.iter().enumerate() {
        let name = figures::name(*set);
        let ask = |program: &str| peer::ask(program, name, &[]);
        let (measured, probe) = rounds::measure(job, tasks::of(*set)?, common.runs, &common.peers, ask)?;
        worst = worst.max(probe);
        for line in &measured {
            if common.json {
                output::json(line)?;
            } else {
                output::result(figures::sentence(line));
            }
        }
        lines.extend(measured);
        progress.show(done as u64 + 1);
    }
    output::say(format!("probe: the median round was {worst:.2} times its fastest (1.00: a quiet machine)"));
    report(common, &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Tables of ratios, and the files.
fn report(common: &Measuring, lines: &[Line]) -> Result<(), Failure> {
    let ratios = ratios::of(lines);
    for table in ratios::summaries(&ratios) {
        show(&table, common.json);
    }
    if let Some(folder) = &common.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("lattice.csv"), figures::table(lines).csv().as_bytes())?;
        if !ratios.is_empty() {
            files::write_atomically(&folder.join("lattice-ratios.csv"), ratios::table(&ratios).csv().as_bytes())?;
        }
    }
    Ok(())
}
