//! `tobari-bench sense`: the costs of 256 readings on a device, on the wire and on the server, the
//! rate at which a server stores frames durably, and with --paper the paper's figure 4 for our
//! designs.
//!
//! | design | the device | the server |
//! |---|---|---|
//! | 1, bitwise | a BGV ciphertext for each of 2,048 bits: the paper's baseline | nothing to convert |
//! | 1, packed | one BGV ciphertext | nothing to convert |
//! | 1, packed and seeded | one BGV ciphertext, half of it a seed | nothing to convert |
//! | 2 | AES-128-GCM | AES under encryption, with `--memory` |
//! | 3, sums | a U25 frame | the linear conversion |
//! | 3, exact | a P1 frame | the exact conversion |
//!
//! A packed and seeded ciphertext is the shortest of design 1, but no fleet can use it.
//!
//! One thread of this machine with portable loops stands for the paper's phone, and is labelled so.
//! The device's own crate has only portable loops; its primitives use the processor's instructions
//! for AES and SHA, as on a phone. Ratios between devices are relative to the fastest loops of this
//! machine. Each cell of the figure is measured in a process of its own, after its preparations:
//! CPU time is that of the work, and memory is the peak of the process, preparations included.

mod aes;
mod arguments;
mod designs;
mod ingest;
mod paper;

pub(crate) use arguments::SenseBench;

use super::line::{Line, summary};
use super::table::{Table, number};
use super::{show, tell};
use crate::program::Tobari;
use designs::{Design, Role};
use serde::Serialize;
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_host::files;

/// The core's name of the loops that run everywhere.
const PORTABLE: &str = "portable";

#[derive(Clone, Serialize)]
pub(super) struct Params {
    design: &'static str,
    role: &'static str,
    /// Frames of a request, for figures of ingest.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<u32>,
    /// Connections at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<u32>,
}

/// Measures and prints.
pub(super) fn run(arguments: &SenseBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    if let Some(what) = &arguments.once {
        return designs::once(what, arguments);
    }
    arguments.output.as_ref().map_or(Ok(()), std::fs::create_dir_all)?;
    let mut lines = Vec::new();
    let mut table = Table::new(
        "256 readings, one thread",
        &["what", "design", "median us", "min us", "max us", "target us", "verdict"],
    );
    for design in Design::ALL {
        for role in [Role::Device, Role::Cloud] {
            if arguments.paper || (role == Role::Cloud && design == Design::Exact && arguments.without_exact) {
                continue; // the figure measures each in a process of its own
            }
            let Some(mut work) = designs::work(design, role)? else { continue };
            let mut values = Vec::new();
            for round in 0..=arguments.runs {
                let us = work.microseconds()?;
                if round > 0 {
                    values.push(us);
                }
            }
            let (median, min, max) = summary(values);
            let target = designs::target_us(design, role);
            let verdict = target.map_or("", |target| if min <= target { "pass" } else { "FAIL" });
            let cell = |value: f64| number(Some(value), 2);
            table.push(vec![
                role.verb().to_owned(),
                design.name().to_owned(),
                cell(median),
                cell(min),
                cell(max),
                number(target, 0),
                verdict.to_owned(),
            ]);
            lines.push(line(role.verb(), design, role, "us/message", [median, min, max], arguments.runs));
        }
    }
    if !arguments.paper {
        show(&table, arguments.json);
        show(&paper::bytes()?, arguments.json);
    }
    lines.extend(ingest::measure(arguments, tobari)?);
    if arguments.paper {
        lines.extend(paper::figure(arguments)?);
    } else {
        lines.extend(aes::measure(arguments)?);
    }
    for line in &lines {
        if arguments.json {
            output::json(line)?;
        }
    }
    if let Some(folder) = &arguments.output {
        let text: String =
            lines.iter().map(|line| Ok(serde_json::to_string(line)? + "\n")).collect::<Result<_, Failure>>()?;
        files::write_atomically(&folder.join("sense.jsonl"), text.as_bytes())?;
    }
    tell(
        "one thread of this machine stands for a device; whether a target is met is said of the fastest round",
        arguments.json,
    );
    Ok(ExitCode::SUCCESS)
}

fn line(what: &str, design: Design, role: Role, unit: &str, [median, min, max]: [f64; 3], runs: usize) -> Line<Params> {
    let backend = designs::backend(design, role);
    let labels = labels(design, role, &backend);
    Line {
        job: "sense".to_owned(),
        what: what.to_owned(),
        engine: "tobari".to_owned(),
        params: Params { design: design.name(), role: role.name(), batch: None, connections: None },
        backend,
        threads: 1,
        unit: unit.to_owned(),
        median,
        min,
        max,
        runs,
        labels,
    }
}

/// The labels of a figure. A figure without vector loops stands for a phone, which lacks them.
fn labels(design: Design, role: Role, backend: &str) -> Vec<String> {
    let stands = role == Role::Device && (!design.is_direct() || backend == PORTABLE);
    stands.then(|| "stands-for-a-phone".to_owned()).into_iter().collect()
}
