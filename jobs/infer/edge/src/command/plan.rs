//! `tobari plan infer`: the site of each layer of a network, with reasons.

use crate::command::engines;
use crate::command::placement::{argument, costs, protect, time};
use crate::command::planned::{InferPlan, InsideName, WhoseCosts, WhosePolicy};
use serde_json::json;
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_infer::measured::Costs;
use tobari_infer::paper;
use tobari_infer::placement::{self, ENCLAVE, Inference, Mode, Protect, Relaxation};
use tobari_plan::place::{PlaceError, Placement};

/// Plans and prints.
pub fn run(arguments: &InferPlan) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.model {
        return engines::run(arguments, path);
    }
    let requirements = &arguments.requirements;
    let protect = protect(requirements, !arguments.without_enclave);
    let whose = match arguments.costs {
        WhoseCosts::Paper => "paper",
        WhoseCosts::Measured => "measured",
        WhoseCosts::Recorded => "recorded",
    };
    if whose == "paper" && arguments.enclave_factor.is_some() {
        let text = "expected --costs measured or recorded beside --enclave-factor, as the paper measured its enclave";
        return Err(Failure::Call(text.to_owned()));
    }
    if arguments.policy == WhosePolicy::Paper {
        return match whose {
            "paper" => policy(arguments),
            _ => Err(Failure::Call("expected the paper's costs with the paper's policy".to_owned())),
        };
    }
    let found = costs(arguments.costs, arguments.enclave_factor.unwrap_or(1.0))?;
    let resets = requirements.plain_in_enclave.is_some_and(|inside| inside != InsideName::No);
    let rows = paper::layers(resets);
    let inference = found.as_ref().map_or_else(|| paper::inference(&rows), Costs::inference);
    let placement = inference.place(&protect).map_err(|error| nowhere(&inference, &protect, &error))?;
    let relaxations = placement::relaxations(&inference, &protect);
    if arguments.json {
        return json(arguments, whose, &inference, &protect, &placement, &relaxations);
    }
    let enclave = match arguments.enclave_factor {
        Some(factor) => format!("the enclave projected to take {factor} times as long as a process"),
        None => "the enclave simulated".to_owned(),
    };
    output::result(match whose {
        "paper" => format!("the paper's network, by the paper's costs; {protect}"),
        "recorded" => format!("the paper's network, by recorded costs of the project's machine, {enclave}; {protect}"),
        _ => format!("the paper's network, by costs measured here, {enclave}; {protect}"),
    });
    output::result(placement.explain(&inference.job(&protect), &placement::sites(&protect)).trim_end());
    for line in argument(placement.seconds, &relaxations) {
        output::result(line);
    }
    Ok(ExitCode::SUCCESS)
}

/// An error for a job without a plan, with the requirements whose removal would allow one.
fn nowhere(inference: &Inference<'_>, protect: &Protect, error: &PlaceError) -> Failure {
    let ways: Vec<String> = placement::relaxations(inference, protect)
        .iter()
        .map(|way| format!("{} ({})", way.gives_up, time(way.seconds)))
        .collect();
    match ways.is_empty() {
        true => Failure::Work(format!("no plan: {error}")),
        false => Failure::Work(format!("no plan: {error}\nthere is one if: {}", ways.join("; or "))),
    }
}

fn json(
    arguments: &InferPlan,
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
        "enclave_factor_projected": arguments.enclave_factor, "seconds": placement.seconds, "steps": steps, "relaxations": relaxed,
    }))?;
    Ok(ExitCode::SUCCESS)
}

/// Tables 11 and 12: the mode and the site of a layer with weights, and of an activation.
fn choices(as_json: bool) -> Result<(), Failure> {
    if !as_json {
        output::result("table  integrity  side channels  the paper's policy");
    }
    for (table, weights) in [(11, true), (12, false)] {
        for (integrity, side_channels) in [(true, true), (true, false), (false, true), (false, false)] {
            let (mode, site) = paper::policy(weights, integrity, side_channels);
            let site = if site == ENCLAVE { "enclave" } else { "process" };
            if as_json {
                output::json(&json!({
                    "job": "infer", "costs": "paper", "policy": "paper", "table": table, "integrity": integrity,
                    "side_channels": side_channels, "way": mode.to_string(), "site": site,
                }))?;
                continue;
            }
            output::result(format!(
                "{table:>5}  {:>9}  {:>13}  {}",
                yes(integrity),
                yes(side_channels),
                told(mode, site)
            ));
        }
    }
    if !as_json {
        output::result("table 11 is of layers with weights, table 12 of activations");
    }
    Ok(())
}

fn told(mode: Mode, site: &str) -> String {
    format!("{mode} in the {site}")
}

fn yes(set: bool) -> &'static str {
    if set { "yes" } else { "no" }
}

/// Tables 11 and 12; then 13 and 14 by that policy, and the cheapest plan beside each cell.
fn policy(arguments: &InferPlan) -> Result<ExitCode, Failure> {
    choices(arguments.json)?;
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
        let note = if (theirs - printed).abs() > 2.0 { "  the paper's own numbers add up to ours" } else { "" };
        output::result(format!(
            "{table:>5}  {:>9}  {:>13}  {theirs:>10.1}  {printed:>11.0}  {best:>13.1}{note}",
            yes(cell.integrity),
            yes(cell.side_channels),
        ));
    }
    if !arguments.json {
        output::result("table 14 allows plaintext activations in the enclave even if the enclave may be watched");
    }
    Ok(ExitCode::SUCCESS)
}
