//! Figures of a call.

use super::super::line;
use super::super::table::Table;
use serde::{Deserialize, Serialize};

/// A figure of a call.
pub(in super::super) type Line = line::Line<Params>;

/// The parameters of a figure.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Params {
    pub(super) curve: String,
    pub(super) mode: String,
    pub(super) timing: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) bits: Option<u32>,
    /// The number of packets in a sum.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) inputs: Option<usize>,
}

impl Line {
    /// A sentence for people.
    pub(super) fn sentence(&self) -> String {
        let bits = self.params.bits.map(|bits| format!(" ({bits} bits)")).unwrap_or_default();
        format!(
            "{:<10} {:<8} {:<14} {:<8} {:<17} {:>10.1} {} (min {:.1}, max {:.1}, {} runs) {}",
            self.params.curve,
            self.engine,
            self.params.mode,
            self.params.timing,
            format!("{}{bits}", self.what),
            self.median,
            self.unit,
            self.min,
            self.max,
            self.runs,
            self.labels.join(" ")
        )
    }
}

/// The three operations that the paper measures: their names, and the width of the logarithm that
/// the paper decodes.
pub(super) const OPERATIONS: [(&str, Option<u32>); 3] = [("encrypt", None), ("add", None), ("decrypt", Some(16))];

/// An engine with its curve, mode and timing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheme<'a> {
    pub(super) engine: &'a str,
    pub(super) curve: &'a str,
    pub(super) mode: &'a str,
    pub(super) timing: &'a str,
}

impl<'a> Scheme<'a> {
    /// Every measured scheme, in order. If an operation lacks one timing, the other one is used:
    /// see [`Scheme::find`].
    pub(super) fn all(lines: &'a [Line]) -> Vec<Scheme<'a>> {
        let mut all = Vec::new();
        for line in lines.iter().filter(|line| line.what == "encrypt") {
            let Params { curve, mode, timing, .. } = &line.params;
            let scheme = Scheme { engine: &line.engine, curve, mode, timing };
            if !all.contains(&scheme) {
                all.push(scheme);
            }
        }
        all
    }

    /// The figure of `what`. An operation with only one implementation has the same figure for both
    /// timings.
    pub(super) fn find(self, lines: &'a [Line], what: &str, bits: Option<u32>) -> Option<&'a Line> {
        let same = |line: &&Line| {
            let Params { curve, mode, bits: width, .. } = &line.params;
            let of = (line.engine.as_str(), curve.as_str(), mode.as_str(), line.what.as_str());
            of == (self.engine, self.curve, self.mode, what) && *width == bits
        };
        let exact = lines.iter().filter(same).find(|line| line.params.timing == self.timing);
        exact.or_else(|| lines.iter().find(same))
    }

    /// Medians of encryption, addition and decryption of 16 bits, in nanoseconds a sample.
    pub(super) fn medians(self, lines: &[Line]) -> [Option<f64>; 3] {
        OPERATIONS.map(|(what, bits)| self.find(lines, what, bits).map(|line| line.median))
    }
}

/// All figures, in the format of `call.csv`.
pub(super) fn table(lines: &[Line]) -> Table {
    let columns = [
        "job", "what", "engine", "curve", "mode", "timing", "bits", "backend", "threads", "unit", "median", "min",
        "max", "runs", "labels",
    ];
    let mut table = Table::new("Figures", &columns);
    for line in lines {
        table.push(vec![
            line.job.clone(),
            line.what.clone(),
            line.engine.clone(),
            line.params.curve.clone(),
            line.params.mode.clone(),
            line.params.timing.clone(),
            line.params.bits.map(|bits| bits.to_string()).unwrap_or_default(),
            line.backend.clone(),
            line.threads.to_string(),
            line.unit.clone(),
            format!("{:.1}", line.median),
            format!("{:.1}", line.min),
            format!("{:.1}", line.max),
            line.runs.to_string(),
            line.labels.join(" "),
        ]);
    }
    table
}

/// A figure for tests: `scheme` is the engine, the curve, the mode and the timing.
#[cfg(test)]
pub(in super::super) fn example(scheme: [&str; 4], what: &str, bits: Option<u32>, median: f64) -> Line {
    let [engine, curve, mode, timing] = scheme.map(str::to_owned);
    Line {
        job: "call".to_owned(),
        what: what.to_owned(),
        engine,
        params: Params { curve, mode, timing, bits, inputs: None },
        backend: "avx512ifma".to_owned(),
        threads: 1,
        unit: "ns/sample".to_owned(),
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
    fn a_thing_with_one_implementation_is_found_under_both_timings_and_others_under_their_own() {
        let of = |timing| ["tobari", "secp256k1", "elgamal", timing];
        let lines = [
            example(of("constant"), "encrypt", None, 1.0),
            example(of("variable"), "encrypt", None, 2.0),
            example(of("variable"), "add", None, 3.0),
            example(of("constant"), "decrypt", Some(27), 9.0),
            example(of("constant"), "decrypt", Some(16), 4.0),
        ];
        let schemes = Scheme::all(&lines);
        assert_eq!(schemes.iter().map(|scheme| scheme.timing).collect::<Vec<_>>(), ["constant", "variable"]);
        assert_eq!(schemes[0].medians(&lines), [Some(1.0), Some(3.0), Some(4.0)]);
        assert_eq!(schemes[1].medians(&lines), [Some(2.0), Some(3.0), Some(4.0)]);
        let other = Scheme { mode: "elgamal-shared", ..schemes[0] };
        assert_eq!(other.medians(&lines), [None; 3]);
    }

    #[test]
    fn the_csv_has_one_line_a_figure_under_the_fixed_head() {
        let csv = table(&[example(["mcl", "p160_1", "elgamal", "variable"], "decrypt", Some(16), 7.25)]).csv();
        let head = "job,what,engine,curve,mode,timing,bits,backend,threads,unit,median,min,max,runs,labels";
        let line = "call,decrypt,mcl,p160_1,elgamal,variable,16,avx512ifma,1,ns/sample,7.2,7.2,7.2,1,";
        assert_eq!(csv.lines().collect::<Vec<_>>(), [head, line]);
    }
}
