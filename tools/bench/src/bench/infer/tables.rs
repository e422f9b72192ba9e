//! The paper's tables 10 to 14 beside ours, and plots.

use super::super::line::summary;
use super::super::plot::{self, Bars, Curves};
use super::super::table::{Table, number};
use super::{Figure, Measured, OPERATIONS, TRANSFER, failed, paper_of};
use tobari_command::output::Failure;
use tobari_infer::paper;
use tobari_infer::placement::ENCLAVE;

fn yes(set: bool) -> String {
    if set { "yes" } else { "no" }.to_owned()
}

/// Table 10: layers between resets. Our values are those of `mixed-plain-reset`, whose activations
/// run in the enclave; the table's other columns have no counterpart here.
pub(super) fn at_level_one(measured: &[Measured]) -> (Table, &'static str) {
    let columns =
        ["layer", "process, user data, ms", "paper ms", "paper: both", "paper: enclave", "paper: enclave, both"];
    let title = "Table 10: layers between resets, medians; of its four columns, ours does the first";
    let mut table = Table::new(title, &columns);
    let ours = measured.iter().find(|one| one.name == "mixed-plain-reset");
    for (layer, times) in paper::LATENCY_AT_ONE {
        let steps = ours.and_then(|one| one.steps.iter().find(|(name, _)| name == layer));
        let ms = steps.map(|(_, times)| summary(times.clone()).0);
        let [process, both, enclave, enclave_both] = times.map(|ms| number(Some(ms), 0));
        table.push(vec![layer.to_owned(), number(ms, 3), process, both, enclave, enclave_both]);
    }
    (table, "table10.csv")
}

/// Tables 11 and 12: the paper's policy.
pub(super) fn policies() -> (Table, &'static str) {
    let columns = ["table", "of", "integrity", "side channels", "way", "site"];
    let mut table = Table::new("Tables 11 and 12: the paper's policy", &columns);
    for (number, weights, of) in [(11, true, "layers with weights"), (12, false, "activations")] {
        for (integrity, side_channels) in [(true, true), (true, false), (false, true), (false, false)] {
            let (mode, site) = paper::policy(weights, integrity, side_channels);
            let site = if site == ENCLAVE { "enclave" } else { "process" };
            let cells = [number.to_string(), of.to_owned(), yes(integrity), yes(side_channels), mode.to_string()];
            table.push([&cells[..], &[site.to_owned()]].concat());
        }
    }
    (table, "tables11-12.csv")
}

/// All cells of tables 13 and 14.
pub(super) fn run() -> Result<(Table, &'static str), Failure> {
    let title = "Tables 13 and 14: the paper's policy by the paper's costs";
    let columns = ["table", "integrity", "side channels", "ms", "paper ms", "cheapest ms"];
    let mut table = Table::new(title, &columns);
    for cell in paper::CELLS {
        let found = cell.found().map_err(failed)?;
        table.push(vec![
            cell.table().to_string(),
            yes(cell.integrity),
            yes(cell.side_channels),
            number(Some(found.policy), 1),
            number(Some(cell.printed), 0),
            number(Some(found.cheapest), 1),
        ]);
    }
    Ok((table, "tables13-14.csv"))
}

/// Table 6 as bars: our speed relative to the paper's.
pub(super) fn draw_times(measured: &[Measured]) -> Result<String, Failure> {
    let mut bars = Bars::new("Times faster than the paper's table 6", "enclaves are simulated: processes");
    for one in measured {
        if let Some(paper) = paper_of(one) {
            bars.push(one.name, &one.layout, paper / summary(one.total.clone()).0);
        }
    }
    plot::bars(&bars)
}

/// Table 7 as lines, from the figures of its rows.
pub(super) fn draw_transfers(figures: &[Figure]) -> Result<String, Failure> {
    let ours = TRANSFER.iter().zip(figures);
    let ours = ours.map(|((kib, _), figure)| (*kib as f64, 1e3 * summary(figure.times.clone()).0)).collect();
    let paper = TRANSFER.iter().map(|(kib, micros)| (*kib as f64, *micros)).collect();
    plot::curves(&Curves {
        title: "Table 7: into the enclave, which here is simulated".to_owned(),
        x: "KiB".to_owned(),
        y: "µs".to_owned(),
        series: vec![("here, there and back".to_owned(), ours), ("the paper, SGX".to_owned(), paper)],
    })
}

/// Tables 8 and 9 as bars, from the figures of their rows.
pub(super) fn draw_operations(figures: &[Figure]) -> Result<String, Failure> {
    let mut bars = Bars::new("Times faster than the paper's tables 8 and 9", "the enclave's code, in a plain process");
    for ((name, paper), figure) in OPERATIONS.iter().zip(figures) {
        bars.push(name, "", paper / summary(figure.times.clone()).0);
    }
    plot::bars(&bars)
}

/// Tables 13 and 14 as bars, in ms.
pub(super) fn draw_policies() -> Result<String, Failure> {
    let mut bars = Bars::new("Tables 13 and 14, ms by the paper's costs", "integrity, side channels");
    for cell in paper::CELLS {
        let found = cell.found().map_err(failed)?;
        let group = format!("{}: {}, {}", cell.table(), yes(cell.integrity), yes(cell.side_channels));
        bars.push(&group, "the paper's policy", found.policy);
        bars.push(&group, "the cheapest", found.cheapest);
    }
    plot::bars(&bars)
}
