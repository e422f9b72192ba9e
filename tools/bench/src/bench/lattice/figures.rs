//! Figures of the lattice core.

use super::super::line;
use super::super::table::Table;
use crate::bench::arguments::SetName;
use serde::{Deserialize, Serialize};

/// A figure of the lattice core.
pub(super) type Line = line::Line<Params>;

/// The parameters of a figure.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    let Params { set, scheme, dnum, .. } = &line.params;
    format!(
        "{set} {scheme:<5} {:<28} {:<16} dnum {dnum:<3} {:>10.1} µs (min {:.1}, max {:.1}, {} runs) {}",
        line.engine,
        line.what,
        line.median / 1e3,
        line.min / 1e3,
        line.max / 1e3,
        line.runs,
        line.labels.join(" ")
    )
}

/// All figures, in the format of `lattice.csv`.
pub(super) fn table(lines: &[Line]) -> Table {
    let columns = [
        "job", "what", "engine", "set", "scheme", "n", "level", "dnum", "log_qp", "backend", "threads", "unit",
        "median", "min", "max", "runs", "labels",
    ];
    let mut table = Table::new("Figures", &columns);
    for line in lines {
        let Params { set, scheme, n, level, dnum, log_qp } = &line.params;
        let mut row = [&line.job, &line.what, &line.engine, set, scheme].map(String::clone).to_vec();
        row.extend([*n, *level, *dnum, *log_qp as usize].map(|number| number.to_string()));
        row.extend([line.backend.clone(), line.threads.to_string(), line.unit.clone()]);
        row.extend([line.median, line.min, line.max].map(|ns| format!("{ns:.0}")));
        row.extend([line.runs.to_string(), line.labels.join(" ")]);
        table.push(row);
    }
    table
}

/// A figure for tests.
#[cfg(test)]
pub(super) fn example(engine: &str, what: &str, median: f64) -> Line {
    let params = Params { set: "A".to_owned(), scheme: "ckks".to_owned(), n: 1 << 14, level: 6, dnum: 3, log_qp: 300 };
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
        let head = "job,what,engine,set,scheme,n,level,dnum,log_qp,backend,threads,unit,median,min,max,runs,labels";
        let line = "lattice,rotate,seal,A,ckks,16384,6,3,300,avx512ifma,1,ns,7,7,7,1,";
        assert_eq!(csv.lines().collect::<Vec<_>>(), [head, line]);
    }
}
