//! Tables 13 and 14: what the paper's policy costs by its own measurements, and the cheapest plan beside.

use super::super::table::{Table, number};
use super::failed;
use crate::output::Failure;
use tobari_apps::infer::paper;

/// All cells of both.
pub(super) fn run() -> Result<(Table, &'static str), Failure> {
    let title = "Tables 13 and 14: the paper's policy by the paper's costs";
    let columns = ["table", "integrity", "side channels", "ms", "paper ms", "cheapest ms"];
    let mut table = Table::new(title, &columns);
    let yes = |set: bool| if set { "yes" } else { "no" }.to_owned();
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
