//! `tobari-bench call`.

mod agreed;
mod arguments;
pub(super) mod figures;
mod gates;
mod live;
mod mask;
mod measure;
mod paper;
mod published;
mod ratios;
mod room;

pub(crate) use arguments::CallBench;

use super::show;
use crate::program::Tobari;
use std::process::ExitCode;
use tobari_command::output::{self, Failure, Progress};
use tobari_curve::Curve;
use tobari_host::files;
use tobari_simd::choose_backend;

/// Measures and prints.
pub(super) fn run(arguments: &CallBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    choose_backend(arguments.common.backend.backend())?;
    if arguments.live {
        return live::run(arguments, tobari);
    }
    if arguments.mls {
        return agreed::run(arguments);
    }
    let curves = if arguments.measures_curves() { arguments.measured_curves()? } else { Vec::new() };
    if arguments.curves.is_empty() && !curves.is_empty() && curves.len() < Curve::ALL.len() {
        output::say("curves below 112 bits of security are not measured: this build is without the feature `paper`");
    }
    let (mut lines, mut probes) = (Vec::new(), Vec::new());
    let progress = Progress::new("measured curves", curves.len() as u64);
    for (done, curve) in curves.iter().enumerate() {
        let (measured, probe) = measure::curve(*curve, arguments)?;
        probes.push(probe);
        for line in &measured {
            if arguments.common.json {
                output::json(line)?;
            } else {
                output::result(line.sentence());
            }
        }
        lines.extend(measured);
        progress.show(done as u64 + 1);
    }
    let masked = if arguments.measures_masks() {
        let (measured, probe) = mask::measure(arguments)?;
        probes.push(probe);
        for line in measured.iter().filter(|_| arguments.common.json) {
            output::json(line)?;
        }
        let table = mask::table(&measured);
        show(&table, arguments.common.json);
        Some(table)
    } else {
        None
    };
    let worst = probes.into_iter().fold(1.0, f64::max);
    output::say(format!("probe: the median round was {worst:.2} times its fastest (1.00: a quiet machine)"));
    let ratios = ratios::of(&lines);
    for table in ratios::summaries(&ratios) {
        show(&table, arguments.common.json);
    }
    if let Some(folder) = &arguments.common.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("call.csv"), figures::table(&lines).csv().as_bytes())?;
        if let Some(masked) = masked {
            files::write_atomically(&folder.join("mask.csv"), masked.csv().as_bytes())?;
        }
        if !ratios.is_empty() {
            files::write_atomically(&folder.join("ratios.csv"), ratios::table(&ratios).csv().as_bytes())?;
        }
        if arguments.paper {
            paper::write(&curves, &lines, arguments, folder)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
