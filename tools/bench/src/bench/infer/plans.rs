//! The planner's choice for every set of requirements, against measured runs of all ways that the
//! requirements allow.

use super::super::table::{Table, number};
use super::{parameters, plain, session};
use std::collections::BTreeMap;
use tobari_command::output::{self, Failure};
use tobari_infer::guarded::{Combination, Route, Setup};
use tobari_infer::placement::{Inference, Inside, Protect};
use tobari_infer::{FixedModel, Model, measured};
use tobari_infer_edge::command::costs::{self, MASKED_SET, Measured, SET};

/// A way through the whole network; none is the plain process.
type Way = Option<Combination>;

/// The factor by which another run may be faster than the chosen one: noise.
const SLACK: f64 = 1.10;

fn name(way: Way) -> &'static str {
    way.map_or("process-plain", Combination::name)
}

/// Rounds of measuring the planner's costs and running all ways, one after another. Other users of
/// the machine slow some rounds, so the fastest time counts.
const ROUNDS: usize = 3;

/// The result: the table, its file, and a choice that was not the fastest, if there was one.
pub(super) type PlanComparison = (Table, &'static str, Option<Failure>);

/// Plans and runs all ways, and compares.
pub(super) fn run(model: &Model, fixed: &FixedModel, runs: usize) -> Result<PlanComparison, Failure> {
    let ways: Vec<Way> = std::iter::once(None).chain(Combination::ALL.map(Some)).collect();
    let mut milliseconds = vec![f64::INFINITY; ways.len()];
    let mut known: Option<Measured> = None;
    for _ in 0..ROUNDS {
        let now = Measured::now()?;
        known = Some(match known {
            Some(before) => before.or_faster(&now),
            None => now,
        });
        for (way, least) in ways.iter().zip(&mut milliseconds) {
            output::say(format!("running {}", name(*way)));
            *least = least.min(measure(model, fixed, *way, runs)?);
        }
    }
    let costs = known.map_or_else(|| costs::costs(1.0), |measured| measured.costs(1.0))?;
    let inference = costs.inference();
    let mut rows: BTreeMap<Vec<usize>, Row> = BTreeMap::new();
    for protect in all_requirements() {
        let allowed: Vec<(usize, f64)> = ways
            .iter()
            .enumerate()
            .filter_map(|(place, way)| Some((place, foretold(&inference, &protect, *way)?)))
            .collect();
        let row = judge(&inference, &protect, &allowed)?;
        let places = allowed.iter().map(|(place, _)| *place).collect();
        rows.entry(places).and_modify(|known| known.sets += 1).or_insert(row);
    }
    Ok(table(&ways, &milliseconds, &rows))
}

/// Sets of requirements that allow the same ways.
struct Row {
    /// The number of sets.
    sets: usize,
    /// The first set.
    protect: Protect,
    /// The way that the planner chooses, and its predicted seconds; none if no way is allowed.
    chosen: Option<(usize, f64)>,
}

/// All requirements in which the enclave has the key.
fn all_requirements() -> Vec<Protect> {
    let of = |bits: usize, inside: Inside| {
        let set = |bit: usize| bits >> bit & 1 == 1;
        Protect {
            user_data: set(0),
            model: set(1),
            integrity: set(2),
            side_channels: set(3),
            active_host: set(4),
            plain_in_enclave: Some(inside),
            enclave: true,
            key_in_enclave: true,
        }
    };
    let all = [Inside::No, Inside::Masked, Inside::Yes];
    all.into_iter().flat_map(|inside| (0..32).map(move |bits| of(bits, inside))).collect()
}

/// The predicted seconds of a way through the whole network; none if the way is not allowed.
fn foretold(inference: &Inference<'_>, protect: &Protect, way: Way) -> Option<f64> {
    let belongs = |layer: usize, of: &_, site| measured::belongs(way, &inference.layers[layer], of, site);
    Some(inference.place_among(protect, &belongs).ok()?.seconds)
}

/// The planner's choice, which must be one of the measured ways.
fn judge(inference: &Inference<'_>, protect: &Protect, allowed: &[(usize, f64)]) -> Result<Row, Failure> {
    let row = |chosen| Row { sets: 1, protect: *protect, chosen };
    let cheapest = allowed.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied();
    let wrong = |what: String| Err(Failure::Work(format!("{protect}: {what}")));
    match (inference.place(protect), cheapest) {
        (Err(_), None) => Ok(row(None)),
        (Err(error), Some(_)) => wrong(format!("expected a plan, as there is a way, found none: {error}")),
        (Ok(placement), Some((place, found))) if found <= placement.seconds * (1.0 + 1e-9) => {
            Ok(row(Some((place, found))))
        }
        (Ok(placement), _) => {
            let mixed = 1e3 * placement.seconds;
            wrong(format!("expected a plan that is one of the ways that were run, found a mixture of {mixed:.3} ms"))
        }
    }
}

/// Milliseconds of an image, the fastest of all runs.
fn measure(model: &Model, fixed: &FixedModel, way: Way, runs: usize) -> Result<f64, Failure> {
    let Some(combination) = way else { return Ok(plain(fixed, runs)?.fastest()) };
    let set = if combination == Combination::MixedMaskedReset { MASKED_SET } else { SET };
    let parameters = parameters(set)?;
    let setup = Setup { route: Route::new(combination, &parameters), parameters, model: model.clone() };
    Ok(session(&setup, fixed, runs)?.fastest())
}

fn table(ways: &[Way], milliseconds: &[f64], rows: &BTreeMap<Vec<usize>, Row>) -> PlanComparison {
    let title = "The planner's choice, and the fastest combination that meets the same requirements; ms for an image, fastest runs";
    let columns = ["sets", "for one", "chosen", "foretold", "run", "off by %", "fastest", "run"];
    let mut table = Table::new(title, &columns);
    let mut slower = Vec::new();
    for (allowed, row) in rows {
        let first = vec![row.sets.to_string(), row.protect.to_string()];
        let Some((chosen, found)) = row.chosen else {
            table.push([first, vec!["nothing is admissible".to_owned()]].concat());
            continue;
        };
        let fastest = allowed.iter().copied().min_by(|a, b| milliseconds[*a].total_cmp(&milliseconds[*b]));
        let fastest = fastest.unwrap_or(chosen);
        let foretold = 1e3 * found;
        if milliseconds[chosen] > SLACK * milliseconds[fastest] {
            slower.push(format!("{} before {}", name(ways[chosen]), name(ways[fastest])));
        }
        let cells = [
            name(ways[chosen]).to_owned(),
            number(Some(foretold), 3),
            number(Some(milliseconds[chosen]), 3),
            number(Some(100.0 * (foretold / milliseconds[chosen] - 1.0)), 1),
            name(ways[fastest]).to_owned(),
            number(Some(milliseconds[fastest]), 3),
        ];
        table.push([first, cells.to_vec()].concat());
    }
    let text = || format!("expected the fastest way of all, found {}", slower.join("; "));
    (table, "plans.csv", (!slower.is_empty()).then(|| Failure::Work(text())))
}
