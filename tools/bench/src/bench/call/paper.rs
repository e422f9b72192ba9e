//! The paper's tables 4 to 6, its figures 5 and 6 and its criteria, with our values beside its own.
//!
//! The paper counts clocks; we convert them to nanoseconds by the frequency that the paper states
//! for the machine.

use super::super::plot::{self, OURS, Plot, Series};
use super::figures::{Line, OPERATIONS, Scheme};
use super::gates::{self, Gate};
use super::published::{CLIENT_GHZ, CLIENT_THREADS, CURVES, INPUTS, ODD_CELL, SERVER_GHZ, SUMS, finding};
use super::room::{self, Sum};

use super::super::table::{Table, number};
use super::super::{show, tell};
use crate::bench::call::CallBench;
use std::path::Path;
use tobari_command::output::{self, Failure};
use tobari_curve::Curve;
use tobari_host::files;

/// Microseconds that a sample may take.
const LIMIT_US: f64 = 62.5;
/// Nanoseconds in a microsecond, for the figures.
const NS: f64 = 1000.0;

/// Measures the sums of table 6, and writes and prints everything.
pub(super) fn write(curves: &[Curve], lines: &[Line], arguments: &CallBench, folder: &Path) -> Result<(), Failure> {
    let gates = gates::all(curves, lines)?;
    let sums = room::measure(tobari_host::threads::available(), arguments.common.runs, &arguments.common.peers)?;
    let [table_4, table_5, table_6] = [table_4(curves, lines), table_5(&gates), table_6(&sums)];
    for table in [&table_4, &table_5, &table_6_in_columns(&sums)] {
        show(table, arguments.common.json);
    }
    for sum in sums.iter().filter(|_| arguments.common.json) {
        output::json(&sum.line())?;
    }
    for (name, table) in
        [("table4", table_4), ("table5", table_5), ("table6", table_6), ("gates", gates::table(&gates))]
    {
        files::write_atomically(&folder.join(name).with_extension("csv"), table.csv().as_bytes())?;
    }
    tell(&format!("\n{}\n{}", finding(), gates::summary(&gates)), arguments.common.json);
    for (name, plot) in [("figure5", figure_5(&sums)), ("figure6", figure_6(&sums))] {
        files::write_atomically(&folder.join(name).with_extension("csv"), points(&plot).csv().as_bytes())?;
        files::write_atomically(&folder.join(name).with_extension("svg"), plot::svg(&plot)?.as_bytes())?;
    }
    Ok(())
}

/// The time of each operation on each curve.
fn table_4(curves: &[Curve], lines: &[Line]) -> Table {
    let columns = [
        "engine",
        "curve",
        "mode",
        "timing",
        "threads",
        "clock_ghz",
        "encrypt_clk",
        "add_clk",
        "decrypt_clk",
        "encrypt_ns",
        "add_ns",
        "decrypt_ns",
        "note",
    ];
    let mut table = Table::new("Table 4: the time of an operation on a sample", &columns);
    for row in CURVES.iter().filter(|row| Curve::from_name(row.curve).is_ok_and(|curve| curves.contains(&curve))) {
        let mut cells = ["paper", row.curve, "elgamal", "variable"].map(str::to_owned).to_vec();
        cells.extend([CLIENT_THREADS.to_string(), CLIENT_GHZ.to_string()]);
        cells.extend(row.clocks.map(|clocks| clocks.to_string()));
        cells.extend(row.clocks.map(|clocks| format!("{:.1}", f64::from(clocks) / CLIENT_GHZ)));
        cells.push(format!("with {CLIENT_THREADS} threads; ns = clk / {CLIENT_GHZ} GHz"));
        table.push(cells);
    }
    for scheme in Scheme::all(lines) {
        let mut cells = [scheme.engine, scheme.curve, scheme.mode, scheme.timing].map(str::to_owned).to_vec();
        cells.extend([1.to_string(), String::new(), String::new(), String::new(), String::new()]);
        cells.extend(scheme.medians(lines).map(|ns| number(ns, 1)));
        let other = |(what, bits): (&'static str, _)| {
            scheme
                .find(lines, what, bits)
                .filter(|line| line.params.timing != scheme.timing)
                .map(|line| format!("{what}: one implementation, {}", line.params.timing))
        };
        cells.push(OPERATIONS.into_iter().filter_map(other).collect::<Vec<_>>().join("; "));
        table.push(cells);
    }
    table
}

/// The criteria, one row for each scheme.
fn table_5(gates: &[Gate]) -> Table {
    let values = [
        ("encrypt", "encrypt_ns", 1),
        ("add", "add_ns", 1),
        ("decrypt", "decrypt_ns", 1),
        ("chain", "chain_ms", 3),
        ("decrypt_27_bits", "decrypt_27_bits_ns", 1),
        ("chain_27_bits", "chain_27_bits_ms", 3),
        ("uplink_jacobian", "jacobian_mbps", 2),
        ("uplink_uncompressed", "uncompressed_mbps", 2),
        ("uplink_compressed", "compressed_mbps", 2),
    ];
    let mut columns = vec!["engine", "curve", "mode", "timing"];
    columns.extend(values.map(|(_, column, _)| column));
    columns.push("fails");
    let title = "Table 5: the paper's criteria. Limits: 62500 ns an operation, 147 ms a chain, 35 Mbps; \
                 the paper's ns = clk / 1.4 GHz";
    let mut table = Table::new(title, &columns);
    let name = |gate: &Gate| [&gate.engine, &gate.curve, &gate.mode, &gate.timing].map(Clone::clone);
    let mut names: Vec<[String; 4]> = gates.iter().filter(|gate| !gate.timing.is_empty()).map(name).collect();
    names.dedup();
    for scheme in names {
        let of = |gate: &&Gate| name(gate)[..3] == scheme[..3] && [&scheme[3], ""].contains(&gate.timing.as_str());
        let gates: Vec<&Gate> = gates.iter().filter(of).collect();
        let mut cells = scheme.to_vec();
        cells.extend(values.map(|(what, _, places)| {
            number(gates.iter().find(|gate| gate.what == what).map(|gate| gate.value), places)
        }));
        let fails: Vec<&str> = gates.iter().filter(|gate| !gate.passes()).map(|gate| gate.what).collect();
        cells.push(if fails.is_empty() { "none".to_owned() } else { fails.join(" ") });
        table.push(cells);
    }
    table
}

/// Sums of many speakers.
fn table_6(sums: &[Sum]) -> Table {
    let columns = [
        "engine",
        "inputs",
        "threads",
        "clock_ghz",
        "clk",
        "ns",
        "ns_times_threads",
        "min_ns",
        "max_ns",
        "runs",
        "within_62500_ns",
        "note",
    ];
    let title = "Table 6: the time of a sum on a sample (secp256k1, elgamal; the paper's ns = clk / 2.7 GHz)";
    let mut table = Table::new(title, &columns);
    let within = |ns: f64| if ns <= LIMIT_US * NS { "yes" } else { "no" }.to_owned();
    for (threads, row) in SUMS {
        for (inputs, clocks) in INPUTS.into_iter().zip(row) {
            let ns = f64::from(clocks) / SERVER_GHZ;
            let mut cells = vec!["paper".to_owned(), inputs.to_string(), threads.to_string(), SERVER_GHZ.to_string()];
            cells.extend([clocks.to_string(), format!("{ns:.1}"), format!("{:.1}", ns * threads as f64)]);
            cells.extend([String::new(), String::new(), String::new(), within(ns)]);
            cells.push(if (threads, inputs) == ODD_CELL { "out of line with its row" } else { "" }.to_owned());
            table.push(cells);
        }
    }
    for sum in sums {
        let mut cells = vec![sum.engine.clone(), sum.inputs.to_string(), sum.threads.to_string()];
        cells.extend([String::new(), String::new(), format!("{:.1}", sum.median), String::new()]);
        cells.extend([format!("{:.1}", sum.min), format!("{:.1}", sum.max), sum.runs.to_string(), within(sum.median)]);
        table.push(cells);
    }
    table
}

/// The same for people, in the paper's layout: in microseconds, with a mark where the sum misses
/// real time.
fn table_6_in_columns(sums: &[Sum]) -> Table {
    let mut inputs: Vec<usize> = INPUTS.into_iter().chain(sums.iter().map(|sum| sum.inputs)).collect();
    inputs.sort_unstable();
    inputs.dedup();
    let names: Vec<String> = inputs.iter().map(ToString::to_string).collect();
    let columns: Vec<&str> = ["engine", "threads"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let title = format!(
        "Table 6: µs for the sum of so many speakers on a sample (secp256k1, elgamal; the paper's µs = clk / {SERVER_GHZ} GHz)\n\
         !: more than {LIMIT_US} µs. ?: out of line with its row."
    );
    let mut table = Table::new(title, &columns);
    let cell = |ns: f64| format!("{:.2}{}", ns / NS, if ns > LIMIT_US * NS { "!" } else { "" });
    for (threads, row) in SUMS {
        let clocks = |inputs: &usize| INPUTS.iter().position(|other| other == inputs).map(|at| row[at]);
        let cells = inputs.iter().map(|inputs| {
            let odd = if (threads, *inputs) == ODD_CELL { "?" } else { "" };
            clocks(inputs).map(|clocks| cell(f64::from(clocks) / SERVER_GHZ) + odd).unwrap_or_default()
        });
        table.push(["paper".to_owned(), threads.to_string()].into_iter().chain(cells).collect());
    }
    for sums in sums.chunk_by(|a, b| (&a.engine, a.threads) == (&b.engine, b.threads)) {
        let of = |inputs: &usize| sums.iter().find(|sum| sum.inputs == *inputs).map(|sum| cell(sum.median));
        let cells = inputs.iter().map(|inputs| of(inputs).unwrap_or_default());
        table.push([sums[0].engine.clone(), sums[0].threads.to_string()].into_iter().chain(cells).collect());
    }
    table
}

/// The time of a sum over the number of speakers, one line for each number of threads.
fn figure_5(sums: &[Sum]) -> Plot {
    figure("Figure 5", "speakers", "threads", sums, |threads, inputs| (threads, inputs))
}

/// The same over the number of threads, one line for each number of speakers.
fn figure_6(sums: &[Sum]) -> Plot {
    figure("Figure 6", "threads", "speakers", sums, |threads, inputs| (inputs, threads))
}

/// `place` gives a sum's group and its place on the x axis, from its threads and its speakers.
fn figure(name: &str, x: &str, groups: &str, sums: &[Sum], place: impl Fn(usize, usize) -> (usize, usize)) -> Plot {
    // the engine first, so that the paper's cells come first and ours last
    let mut cells: Vec<(usize, usize, usize, f64)> = Vec::new();
    let mut engines = vec!["paper"];
    engines.extend(sums.iter().map(|sum| sum.engine.as_str()).filter(|engine| *engine != OURS));
    engines.dedup();
    engines.push(OURS);
    for (threads, row) in SUMS {
        for (inputs, clocks) in INPUTS.into_iter().zip(row) {
            let (group, at) = place(threads, inputs);
            cells.push((0, group, at, f64::from(clocks) / SERVER_GHZ / NS));
        }
    }
    for sum in sums {
        let engine = engines.iter().position(|engine| *engine == sum.engine).unwrap_or(0);
        let (group, at) = place(sum.threads, sum.inputs);
        cells.push((engine, group, at, sum.median / NS));
    }
    cells.sort_by_key(|&(engine, group, at, _)| (engine, group, at));
    let series = cells.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).map(|line| Series {
        engine: engines[line[0].0].to_owned(),
        group: line[0].1,
        points: line.iter().map(|&(_, _, at, us)| (at as f64, us)).collect(),
    });
    Plot {
        title: format!("{name}: the time of a sum of all speakers, secp256k1 (paper: clk / 2.7 GHz)"),
        x: x.to_owned(),
        y: "µs per sample".to_owned(),
        groups: format!("{groups}:"),
        limit: (LIMIT_US, "62.5 µs: real time".to_owned()),
        series: series.collect(),
    }
}

/// The points of a plot.
fn points(plot: &Plot) -> Table {
    let columns = ["engine", plot.groups.trim_end_matches(':'), &plot.x, "us_per_sample"];
    let mut table = Table::new(plot.title.as_str(), &columns);
    for series in &plot.series {
        for (x, y) in &series.points {
            table.push(vec![series.engine.clone(), series.group.to_string(), x.to_string(), format!("{y:.4}")]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::figures::example;
    use super::*;

    fn sums() -> Vec<Sum> {
        let of = |(engine, threads, inputs): (&str, usize, usize)| {
            let median = 100.0 * inputs as f64 / threads as f64;
            Sum { engine: engine.to_owned(), inputs, threads, median, min: median, max: median, runs: 3 }
        };
        let ours = [(1, 2), (1, 1024), (2, 2), (2, 1024)].map(|(threads, inputs)| (OURS, threads, inputs));
        ours.into_iter().chain([("mcl 3", 1, 2), ("mcl 3", 1, 64)]).map(of).collect()
    }

    fn head(table: &Table) -> String {
        table.csv().lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn table_4_has_the_papers_rows_of_the_curves_asked_for_and_ours_beside_them() {
        let of = |engine, mode, timing| [engine, "secp384r1", mode, timing];
        let lines = [
            example(of("tobari", "elgamal", "constant"), "encrypt", None, 4.0),
            example(of("tobari", "elgamal", "variable"), "add", None, 2.0),
            example(of("mcl", "elgamal", "variable"), "encrypt", None, 8.0),
        ];
        let table = table_4(&[Curve::Secp384r1], &lines);
        let text = table.csv();
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[0].starts_with("engine,curve,mode,timing,threads,clock_ghz,encrypt_clk,"), "{}", rows[0]);
        assert!(
            rows[1].starts_with("paper,secp384r1,elgamal,variable,4,1.4,44396,1205,189133,31711.4,860.7,135095.0,")
        );
        assert!(rows[2].starts_with("paper,NIST_P384,"), "its second name for the curve");
        assert_eq!(rows[3], "tobari,secp384r1,elgamal,constant,1,,,,,4.0,2.0,,\"add: one implementation, variable\"");
        assert_eq!(rows[4], "mcl,secp384r1,elgamal,variable,1,,,,,8.0,,,");
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn table_5_names_what_fails() {
        let of = ["tobari", "secp256k1", "elgamal-shared", "variable"];
        let lines = [("encrypt", None, 70_000.0), ("add", None, 1.0), ("decrypt", Some(16), 1000.0)]
            .map(|(what, bits, median)| example(of, what, bits, median));
        let table = table_5(&gates::all(&[Curve::Secp256k1], &lines).unwrap());
        let text = table.csv();
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[0].ends_with("jacobian_mbps,uncompressed_mbps,compressed_mbps,fails"), "{}", rows[0]);
        assert_eq!(rows[1], "paper,secp256k1,elgamal,variable,8969.3,415.7,28145.7,12.010,,,24.58,,,none");
        assert!(rows[2].starts_with("tobari,secp256k1,elgamal-shared,variable,70000.0,1.0,1000.0,22.720,,,,8.2"));
        assert!(rows[2].ends_with(",encrypt") && rows.len() == 3, "{}", rows[2]);
    }

    #[test]
    fn table_6_has_the_papers_sums_and_ours_and_says_what_is_odd() {
        let table = table_6(&sums());
        let text = table.csv();
        assert_eq!(text.lines().count(), 1 + 8 * 11 + 4 + 2);
        let expected =
            "engine,inputs,threads,clock_ghz,clk,ns,ns_times_threads,min_ns,max_ns,runs,within_62500_ns,note";
        assert_eq!(head(&table), expected);
        assert!(text.contains("\npaper,64,1,2.7,189133,70049.3,70049.3,,,,no,out of line with its row\n"));
        assert!(text.contains("\npaper,1024,16,2.7,8422,3119.3,49908.1,,,,yes,\n"));
        assert!(text.contains("\ntobari,1024,1,,,102400.0,,102400.0,102400.0,3,no,\n"));
        let columns = table_6_in_columns(&sums()).csv();
        assert_eq!(columns.lines().count(), 1 + 8 + 2 + 1);
        assert!(columns.contains("102.40!") && columns.contains("70.05!?"), "{columns}");
    }

    #[test]
    fn figures_draw_every_value_and_name_every_line() {
        for (plot, groups, x) in
            [(figure_5(&sums()), 8 + 2 + 1, "speakers"), (figure_6(&sums()), 11 + 2 + 2, "threads")]
        {
            assert_eq!(plot.series.len(), groups);
            let table = points(&plot);
            let text = table.csv();
            assert_eq!(text.lines().count(), 1 + 8 * 11 + 4 + 2);
            assert!(head(&table).ends_with(&format!("{x},us_per_sample")), "{}", head(&table));
            let drawn = plot::svg(&plot).unwrap();
            assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
            assert!(drawn.matches("<polyline").count() > groups, "a line each");
            for word in ["µs per sample", x, "62.5 µs", "paper", "ours", "mcl 3", "112", "1024"] {
                assert!(drawn.contains(word), "{word}");
            }
        }
    }
}
