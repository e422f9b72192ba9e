//! `tobari plan infer`: where each layer of a network is done, and why.

use crate::args::{InferPlan, Protected, ResetName, WhoseCosts, WhosePolicy};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
use crate::cmd::bench::costs;
use crate::output::{self, Failure};
use serde_json::json;
use std::process::ExitCode;
use tobari_apps::infer::placement::{self, Inference, Protect, Relaxation, Reset};
use tobari_apps::infer::{measured, paper};
use tobari_plan::place::{PlaceError, Placement};

/// Plans and prints.
pub(super) fn run(arguments: &InferPlan) -> Result<ExitCode, Failure> {
    let protect = protect(arguments);
    if arguments.policy == WhosePolicy::Paper {
        return match arguments.costs {
            WhoseCosts::Paper => policy(arguments),
            WhoseCosts::Measured => Err(Failure::Call("expected the paper's costs with the paper's policy".to_owned())),
        };
    }
    let (rows, found) = match arguments.costs {
        WhoseCosts::Paper => (paper::layers(arguments.reset != ResetName::None), None),
        WhoseCosts::Measured => (Vec::new(), Some(costs()?)),
    };
    let (inference, whose) = match &found {
        None => (paper::inference(&rows), "paper"),
        Some(found) => (measured::inference(&found.layers, &found.moves, found.masked_level), "measured"),
    };
    let placement = inference.place(&protect).map_err(|error| nowhere(&inference, &protect, &error))?;
    let relaxations = placement::relaxations(&inference, &protect);
    if arguments.json {
        return json(whose, &inference, &protect, &placement, &relaxations);
    }
    output::result(match whose {
        "paper" => format!("the paper's network, by the paper's costs; {protect}"),
        _ => format!("the paper's network, by costs measured here, the enclave simulated; {protect}"),
    });
    output::result(placement.explain(&inference.job(&protect), &placement::sites(&protect)).trim_end());
    for line in argument(&placement, &relaxations) {
        output::result(line);
    }
    Ok(ExitCode::SUCCESS)
}

/// What nobody can measure here.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
struct Costs {
    layers: Vec<placement::Layer>,
    moves: measured::MeasuredMoves,
    masked_level: u16,
}

/// There is no enclave in a process of its own on this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
fn costs() -> Result<Costs, Failure> {
    Err(Failure::Work(
        "expected a system with enclaves in processes, found another: costs cannot be measured".to_owned(),
    ))
}

fn protect(arguments: &InferPlan) -> Protect {
    let protects = |what| arguments.protect.contains(&what);
    Protect {
        user_data: protects(Protected::Data),
        model: protects(Protected::Model),
        integrity: protects(Protected::Integrity),
        side_channels: arguments.side_channels,
        active_host: arguments.active_host,
        reset: match arguments.reset {
            ResetName::None => Reset::None,
            ResetName::Masked => Reset::Masked,
            ResetName::Plain => Reset::Plain,
        },
        enclave: !arguments.without_enclave,
        key_in_enclave: !arguments.without_enclave,
    }
}

/// Why there is no plan, and what would have to be given up for one.
fn nowhere(inference: &Inference<'_>, protect: &Protect, error: &PlaceError) -> Failure {
    let ways: Vec<String> = placement::relaxations(inference, protect)
        .iter()
        .map(|way| format!("{} ({:.3} s)", way.gives_up, way.seconds))
        .collect();
    match ways.is_empty() {
        true => Failure::Work(format!("no plan: {error}")),
        false => Failure::Work(format!("no plan: {error}\nthere is one if: {}", ways.join("; or "))),
    }
}

/// What binds, and what it costs.
fn argument(placement: &Placement, relaxations: &[Relaxation]) -> Vec<String> {
    let Some(first) = relaxations.first() else {
        return vec!["no requirement costs anything: giving one up brings no cheaper plan".to_owned()];
    };
    let saves = |way: &Relaxation| 100.0 * (1.0 - way.seconds / placement.seconds);
    let mut lines =
        vec![format!("what binds most: if {}, {:.3} s, {:.1} % less", first.gives_up, first.seconds, saves(first))];
    let others = relaxations[1..].iter();
    lines.extend(others.map(|way| format!("if {}: {:.3} s, {:.1} % less", way.gives_up, way.seconds, saves(way))));
    lines
}

fn json(
    costs: &str,
    inference: &Inference<'_>,
    protect: &Protect,
    placement: &Placement,
    relaxations: &[Relaxation],
) -> Result<ExitCode, Failure> {
    let (job, sites) = (inference.job(protect), placement::sites(protect));
    let steps = job.segments.iter().zip(&placement.choices).map(|(segment, choice)| {
        json!({
            "layer": segment.name, "way": segment.variants[choice.variant].name, "site": sites[choice.site].name,
            "conversion": choice.conversion.map(|(conversion, _)| conversion.to_string()),
            "moving_seconds": choice.seconds[0], "seconds": choice.seconds[1],
        })
    });
    let steps: Vec<_> = steps.collect();
    let relaxed: Vec<_> =
        relaxations.iter().map(|way| json!({ "gives_up": way.gives_up, "seconds": way.seconds })).collect();
    output::json(&json!({
        "job": "infer", "costs": costs, "policy": "optimal", "protect": protect.to_string(),
        "seconds": placement.seconds, "steps": steps, "relaxations": relaxed,
    }))?;
    Ok(ExitCode::SUCCESS)
}

/// Tables 13 and 14 by the policy of tables 11 and 12, and the cheapest plan beside each cell.
fn policy(arguments: &InferPlan) -> Result<ExitCode, Failure> {
    if !arguments.json {
        output::result("table  integrity  side channels  policy, ms    paper, ms   cheapest, ms");
    }
    for cell in paper::CELLS {
        let found = cell.found().map_err(|error| Failure::Work(format!("no plan: {error}")))?;
        let (table, theirs, best, printed) = (cell.table(), found.policy, found.cheapest, cell.printed);
        if arguments.json {
            output::json(&json!({
                "job": "infer", "costs": "paper", "policy": "paper", "table": table, "integrity": cell.integrity,
                "side_channels": cell.side_channels, "ms": theirs, "paper_ms": printed, "cheapest_ms": best,
            }))?;
            continue;
        }
        let yes = |set: bool| if set { "yes" } else { "no" };
        let note = if (theirs - printed).abs() > 2.0 { "  the paper's own numbers add up to ours" } else { "" };
        output::result(format!(
            "{table:>5}  {:>9}  {:>13}  {theirs:>10.1}  {printed:>11.0}  {best:>13.1}{note}",
            yes(cell.integrity),
            yes(cell.side_channels),
        ));
    }
    if !arguments.json {
        output::result("table 14 lets activations be in the clear in the enclave even where it may be watched");
    }
    Ok(ExitCode::SUCCESS)
}
