//! `tobari bench`: a job's numbers, one line each, in the shape that `bench/README.md` fixes.

mod figures;
mod gates;
mod measure;
mod paper;
mod peer;
mod plot;
mod published;
mod ratios;
mod room;
mod table;

use crate::args::{BenchArguments, BenchJob};
use crate::output::{self, Failure, Progress};
use std::process::ExitCode;
use table::Table;
use tobari_core::curve::Curve;
use tobari_core::simd::choose_backend;
use tobari_host::files;

/// Measures and prints.
pub(crate) fn run(arguments: &BenchArguments) -> Result<ExitCode, Failure> {
    let BenchJob::Call = arguments.job;
    choose_backend(arguments.backend.backend())?;
    let curves = if arguments.curves.is_empty() { Curve::ALL.to_vec() } else { arguments.curves.clone() };
    let (mut lines, mut probes) = (Vec::new(), Vec::new());
    let progress = Progress::new("measured curves", curves.len() as u64);
    for (done, curve) in curves.iter().enumerate() {
        let (measured, probe) = measure::curve(*curve, arguments)?;
        probes.push(probe);
        for line in &measured {
            if arguments.json {
                output::json(line)?;
            } else {
                output::result(line.sentence());
            }
        }
        lines.extend(measured);
        progress.show(done as u64 + 1);
    }
    let worst = probes.into_iter().fold(1.0, f64::max);
    output::say(format!("probe: the median round was {worst:.2} times its fastest (1.00: a quiet machine)"));
    let ratios = ratios::of(&lines);
    for table in ratios::summaries(&ratios) {
        show(&table, arguments.json);
    }
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("call.csv"), figures::table(&lines).csv().as_bytes())?;
        if !ratios.is_empty() {
            files::write_atomically(&folder.join("ratios.csv"), ratios::table(&ratios).csv().as_bytes())?;
        }
        if arguments.paper {
            paper::write(&curves, &lines, arguments, folder)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A table for people.
fn show(table: &Table, json: bool) {
    tell(table.text().trim_end(), json);
}

/// Text for people: on standard output, unless that is for programs.
fn tell(text: &str, json: bool) {
    if json {
        output::say(text);
    } else {
        output::result(text);
    }
}
