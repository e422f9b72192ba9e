//! Figures of the lattice core.

use super::super::line;
use super::super::table::Table;
use crate::bench::arguments::SetName;
use serde::{Deserialize, Serialize};

/// A figure of the lattice core.
pub(super) type Line = line::Line<Params>;

/// The parameters of a figure.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Params {
    pub(super) set: String,
    pub(super) scheme: String,
    /// Degree.
    pub(super) n: usize,
    /// Data primes.
    pub(super) level: usize,
    /// Digits of a key switch.
    pub(super) dnum: usize,
    /// Bits of all primes.
    pub(super) log_qp: u32,
    /// Of refreshes.
    #[serde(flatten)]
    pub(super) refresh: Option<Refreshed>,
}

/// What a refresh does.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Refreshed {
    pub(super) slots: usize,
    /// Right bits of the worst number, in all runs.
    pub(super) bits: f64,
    /// Levels until the next refresh.
    pub(super) levels: usize,
    pub(super) key_bytes: u64,
}

/// The set's name for peers.
pub(super) fn name(set: SetName) -> &'static str {
    match set {
        SetName::A => "A",
        SetName::B => "B",
        SetName::C => "C",
    }
}

/// A sentence for people.
pub(super) fn sentence(line: &Line) -> String {
    let Params { set, scheme, dnum, refresh, .. } = &line.params;
    let refreshed = refresh.as_ref().map(|Refreshed { bits, levels, key_bytes, .. }| {
        format!(" {bits:.2} bits, {levels} levels, {:.2} GB of keys", *key_bytes as f64 / 1e9)
    });
    format!(
        "{set} {scheme:<5} {:<28} {:<16} dnum {dnum:<3} {:>10.1} µs (min {:.1}, max {:.1}, {} runs) {}{}",
        line.engine,
        line.what,
        line.median / 1e3,
        line.min / 1e3,
        line.max / 1e3,
        line.runs,
        line.labels.join(" "),
        refreshed.unwrap_or_default()
    )
}

/// All figures, in the format of `lattice.csv`.
pub(super) fn table(lines: &[Line]) -> Table {
    let columns = [
        "job",
        "what",
        "engine",
        "set",
        "scheme",
        "n",
        "level",
        "dnum",
        "log_qp",
        "backend",
        "threads",
        "unit",
        "median",
        "min",
        "max",
        "runs",
        "labels",
        "slots",
        "bits",
        "levels",
        "key_bytes",
    ];
    let mut table = Table::new("Figures", &columns);
    for line in lines {
        let Params { set, scheme, n, level, dnum, log_qp, refresh } = &line.params;
        let mut row = [&line.job, &line.what, &line.engine, set, scheme].map(String::clone).to_vec();
        row.extend([*n, *level, *dnum, *log_qp as usize].map(|number| number.to_string()));
        row.extend([line.backend.clone(), line.threads.to_string(), line.unit.clone()]);
        row.extend([line.median, line.min, line.max].map(|ns| format!("{ns:.0}")));
        row.extend([line.runs.to_string(), line.labels.join(" ")]);
        row.extend(match refresh {
            Some(Refreshed { slots, bits, levels, key_bytes }) => {
                [slots.to_string(), format!("{bits:.2}"), levels.to_string(), key_bytes.to_string()]
            }
            None => [const { String::new() }; 4],
        });
        table.push(row);
    }
    table
}

/// A figure for tests.
#[cfg(test)]
pub(super) fn example(engine: &str, what: &str, median: f64) -> Line {
    let (set, scheme) = ("A".to_owned(), "ckks".to_owned());
    let params = Params { set, scheme, n: 1 << 14, level: 6, dnum: 3, log_qp: 300, refresh: None };
    Line {
        job: "lattice".to_owned(),
        what: what.to_owned(),
        engine: engine.to_owned(),
        params,
        backend: "avx512ifma".to_owned(),
        threads: 1,
        unit: "ns".to_owned(),
        median,
        min: median,
        max: median,
        runs: 1,
        labels: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_csv_has_one_line_a_figure_under_the_fixed_head() {
        let csv = table(&[example("seal", "rotate", 7.25)]).csv();
        let head = "job,what,engine,set,scheme,n,level,dnum,log_qp,backend,threads,unit,median,min,max,runs,labels,\
                    slots,bits,levels,key_bytes";
        let line = "lattice,rotate,seal,A,ckks,16384,6,3,300,avx512ifma,1,ns,7,7,7,1,,,,,";
        assert_eq!(csv.lines().collect::<Vec<_>>(), [head, line]);
    }
}
