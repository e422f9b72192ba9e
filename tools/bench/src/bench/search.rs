//! `tobari-bench search --paper`: table 6 of the paper, with the paper's algorithm (`pbwt-he`) on
//! this machine beside the paper's values.

use super::limited::{self, COLUMNS, Row, Task};
use super::plot::{self, Bars};
use super::table::{Table, number};
use super::{queries, show, tell};
use crate::bench::arguments::SearchBench;
use crate::program::Tobari;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_host::files;
use tobari_plan::plan::bytes;
use tobari_reference::Reference;
use tobari_search_edge::plan::Pbwt;

/// Lengths of table 6. Table 1 of the paper has 3, 4 and 5, but the results have these.
const LENGTHS: [usize; 3] = [4, 5, 6];

/// Table 6: condition, our nearest class, and seconds by length. Table 3 says Optane 905P, but its
/// reference is to the 800P of 118 GB.
const PAPER: [(&str, &str, [u32; 3]); 6] = [
    ("no limit", "", [1654, 2017, 2416]),
    ("Optane PMem 200", "ram", [1673, 2118, 2561]),
    ("Optane SSD", "ram", [1666, 2116, 2567]),
    ("980 PRO (NVMe)", "nvme", [1773, 2266, 2718]),
    ("EXCERIA PLUS (NVMe)", "nvme", [1936, 2491, 3031]),
    ("SATA SSD", "sata", [2213, 2843, 3435]),
];

/// Gaps in the paper, and differences to it.
const NOTE: &str = "The paper's rows are its seconds on a Xeon Silver 4313 with HElib and bootstrapping, swapping within 1 GB; ours the same algorithm, without bootstrapping, on this \
machine. The paper searches 108 KB of alleles and does not say of how many haplotypes: 2,184, as in PBWT-sec, with 50 sites of a byte are 109 kB (our inference).";

/// The parameters of a figure.
#[derive(Clone, Serialize, Deserialize, PartialEq)]
struct Params {
    method: String,
    length: usize,
    haplotypes: usize,
    places: usize,
    class: String,
    mode: String,
    /// The limit.
    memory: u64,
}

/// Measures and prints.
pub(super) fn run(arguments: &SearchBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    let (limited, panel) = (&arguments.limited, &arguments.panel);
    if !arguments.paper {
        return queries::run(limited, tobari);
    }
    let job = |length| Ok(Reference::new(Pbwt::new(panel.size(length))?));
    if let Some(mode) = limited.once {
        let [length] = arguments.lengths[..] else {
            return Err(Failure::Call("expected one of --lengths for --once".to_owned()));
        };
        return limited::once(&limited.common, mode, || job(length));
    }
    let mut measured = Vec::new();
    for length in &arguments.lengths {
        output::say(format!("patterns of {length} sites"));
        let reference = job(*length)?;
        let mut call: Vec<String> = ["search", "--paper"].map(str::to_owned).into();
        for (name, value) in [("lengths", *length), ("haplotypes", panel.haplotypes), ("places", panel.places)] {
            call.extend([format!("--{name}"), value.to_string()]);
        }
        let task = Task { arguments: limited, call, bytes: reference.bytes(), by_hand: false };
        drop(reference);
        measured.push((*length, limited::rows(&task)?));
    }
    report(arguments, &measured)?;
    let right: Vec<ExitCode> = measured.iter().map(|(_, rows)| limited::verdict(rows)).collect();
    Ok(right.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS))
}

/// The paper's seconds of a condition at a length, if the paper has that length.
fn printed(seconds: &[u32; 3], length: usize) -> Option<f64> {
    LENGTHS.iter().position(|known| *known == length).map(|at| f64::from(seconds[at]))
}

fn report(arguments: &SearchBench, measured: &[(usize, Vec<Row>)]) -> Result<(), Failure> {
    let common = &arguments.limited.common;
    let title = format!(
        "Table 6: {} haplotypes, within {}: seconds, and times the unlimited run",
        arguments.panel.haplotypes,
        bytes(common.memory)
    );
    let mut table = Table::new(title, &[&["length", "class", "mode"], &COLUMNS[..]].concat());
    let mut bars = Bars::new("Times the unlimited run", "length, class of device");
    for (length, rows) in measured {
        let unlimited = rows[0].seconds().0;
        for row in rows {
            let mut cells = vec![length.to_string(), row.class.to_owned(), row.mode.to_owned()];
            if let Some(reason) = row.reason() {
                cells.push(format!("not run: {reason}"));
                table.push(cells);
                continue;
            }
            cells.extend(row.cells(unlimited));
            table.push(cells);
            if !row.class.is_empty() {
                bars.push(&format!("{length}, {}", row.class), row.mode, row.seconds().0 / unlimited);
            }
            if common.json {
                output::json(&row.line("search", "pbwt", params(arguments, *length, row), common))?;
            }
        }
        for (condition, class, seconds) in &PAPER {
            let Some(seconds) = printed(seconds, *length) else { continue };
            let ratio = printed(&PAPER[0].2, *length).map(|unlimited| seconds / unlimited);
            let mode = format!("paper: {condition}");
            let mut cells = vec![length.to_string(), (*class).to_owned(), mode, number(Some(seconds), 0)];
            cells.extend([String::new(), String::new(), number(ratio, 3)]);
            table.push(cells);
            if let Some(ratio) = ratio.filter(|_| !class.is_empty()) {
                bars.push(&format!("{length}, paper"), condition, ratio);
            }
        }
    }
    show(&table, common.json);
    let compared = compared(measured);
    if !compared.is_empty() {
        tell(&compared, common.json);
    }
    tell(NOTE, common.json);
    if let Some(folder) = &arguments.limited.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("table6.csv"), table.csv().as_bytes())?;
        files::write_atomically(&folder.join("table6.svg"), plot::bars(&bars)?.as_bytes())?;
    }
    Ok(())
}

/// The time of the paper's unlimited run relative to ours, by length.
fn compared(measured: &[(usize, Vec<Row>)]) -> String {
    let of = |(length, rows): &(usize, Vec<Row>)| {
        let paper = printed(&PAPER[0].2, *length)?;
        Some(format!("{length} sites: {:.0} times as fast as the paper, without a limit", paper / rows[0].seconds().0))
    };
    measured.iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

fn params(arguments: &SearchBench, length: usize, row: &Row) -> Params {
    Params {
        method: "pbwt-he".to_owned(),
        length,
        haplotypes: arguments.panel.haplotypes,
        places: arguments.panel.places,
        class: row.class.to_owned(),
        mode: row.mode.to_owned(),
        memory: arguments.limited.common.memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_has_its_lengths_and_no_others() {
        let minutes = |[m, s]: [u32; 2]| f64::from(60 * m + s);
        let unlimited = [[27, 34], [33, 37], [40, 16]].map(minutes);
        let sata = [[36, 53], [47, 23], [57, 15]].map(minutes);
        for (length, (unlimited, sata)) in LENGTHS.into_iter().zip(unlimited.into_iter().zip(sata)) {
            assert_eq!(printed(&PAPER[0].2, length), Some(unlimited));
            assert_eq!(printed(&PAPER[5].2, length), Some(sata));
        }
        assert_eq!(printed(&PAPER[0].2, 10), None);
        // devices are in the order of the paper's results
        assert!(PAPER[1..].iter().all(|(.., seconds)| seconds.is_sorted() && seconds[1] > PAPER[0].2[1]));
    }
}
