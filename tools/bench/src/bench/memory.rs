//! `tobari-bench memory`: the reference job of plans without a memory limit, within a limit with a
//! tier, and within the same limit with the kernel's swap on the same device.

use super::limited::{self, COLUMNS, Row, Task};
use super::plot::{self, Bars};
use super::show;
use super::table::{Table, number};
use crate::bench::arguments::MemoryBench;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_host::files;
use tobari_plan::plan::bytes;
use tobari_reference::{Matrix, Reference};

/// Rows of the paper's table 6, length 5: ratios to the unlimited run.
const PAPER: [(&str, f64); 4] =
    [("PMem 200", 1.050), ("Optane SSD", 1.049), ("980 PRO (NVMe)", 1.123), ("SATA SSD", 1.410)];

/// The parameters of a figure.
#[derive(Clone, Serialize, Deserialize, PartialEq)]
struct Params {
    class: String,
    mode: String,
    memory: u64,
    working_set: u64,
}

/// Measures and prints.
pub(super) fn run(arguments: &MemoryBench) -> Result<ExitCode, Failure> {
    let (limited, bytes) = (&arguments.limited, arguments.working_set);
    if let Some(mode) = limited.once {
        return limited::once(&limited.common, mode, || Ok(Reference::new(Matrix::new(bytes)?)));
    }
    let call = ["memory", "--working-set", &bytes.to_string()].map(str::to_owned).into();
    let rows = limited::rows(&Task { arguments: limited, call, bytes, by_hand: true })?;
    report(arguments, &rows)?;
    Ok(limited::verdict(&rows))
}

fn report(arguments: &MemoryBench, rows: &[Row]) -> Result<(), Failure> {
    let common = &arguments.limited.common;
    let unlimited = rows[0].seconds().0;
    let title = format!(
        "Reference job, {} of inputs, within {}: seconds, and times the unlimited run",
        bytes(arguments.working_set),
        bytes(common.memory)
    );
    let mut table = Table::new(title, &[&["class", "mode"], &COLUMNS[..]].concat());
    let mut bars = Bars::new("Times the unlimited run", "class of device");
    for row in rows {
        let mut cells = vec![row.class.to_owned(), row.mode.to_owned()];
        if let Some(reason) = row.reason() {
            cells.push(format!("not run: {reason}"));
            table.push(cells);
            continue;
        }
        cells.extend(row.cells(unlimited));
        table.push(cells);
        if !row.class.is_empty() {
            bars.push(row.class, row.mode, row.seconds().0 / unlimited);
        }
        if common.json {
            let (class, mode) = (row.class.to_owned(), row.mode.to_owned());
            let params = Params { class, mode, memory: common.memory, working_set: arguments.working_set };
            output::json(&row.line("memory", "run", params, common))?;
        }
    }
    for (device, ratio) in PAPER {
        let cells = ["paper", device, "", "", ""].map(str::to_owned);
        table.push(cells.into_iter().chain([number(Some(ratio), 3)]).collect());
        bars.push("paper", device, ratio);
    }
    show(&table, common.json);
    if let Some(folder) = &arguments.limited.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("memory.csv"), table.csv().as_bytes())?;
        files::write_atomically(&folder.join("memory.svg"), plot::bars(&bars)?.as_bytes())?;
    }
    Ok(())
}
