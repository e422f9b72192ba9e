//! The paper's tables 2 and 3 and figures 9 to 11 from our measurements, and our targets.

use super::super::plot::{self, Curves};
use super::super::show;
use super::super::table::{Table, number};
use super::SealBench;
use super::engines::Setup;
use super::grid::{Compared, MIXED, Row, WANTED};
use std::path::Path;
use tobari_command::output::Failure;
use tobari_host::files;
use tobari_plan::dispatch::Policy;

/// The note on every table of these numbers.
const NOTE: &str = "emulated module: the engine is a second CPU core, held to a multiple of one chain on the first; ratios, not absolute speeds, are comparable with the paper";

pub(super) fn report(arguments: &SealBench, rows: &[Row]) -> Result<(), Failure> {
    let (times, counts) = (
        by_policy(rows, Setup::PAPER, "Table 2: ms", |row| number(Some(row.line.median), 3)),
        by_policy(rows, Setup::PAPER, "Table 3: by the module", |row| row.line.params.by_module.to_string()),
    );
    let (reached, all) = (targets(rows), everything(rows));
    for table in [&times, &counts, &reached] {
        show(table, arguments.json);
    }
    let Some(folder) = &arguments.output else { return Ok(()) };
    std::fs::create_dir_all(folder)?;
    let write = |name: &str, text: &str| files::write_atomically(&folder.join(name), text.as_bytes());
    for (name, table) in
        [("table2.csv", &times), ("table3.csv", &counts), ("targets.csv", &reached), ("grid.csv", &all)]
    {
        write(name, &table.csv())?;
    }
    figure(
        folder,
        "figure9.svg",
        "Time to encrypt all messages",
        "ms",
        rows,
        |bytes| !(1025..4096).contains(&bytes),
        |row| row.line.median,
    )?;
    let of_module = |row: &Row| row.line.params.by_module.max(1) as f64;
    figure(
        folder,
        "figure10.svg",
        "Messages that the module encrypted",
        "messages (1: none)",
        rows,
        |bytes| !(1025..4096).contains(&bytes),
        of_module,
    )?;
    figure(
        folder,
        "figure11.svg",
        "Near the crossing",
        "ms",
        rows,
        |bytes| (1024..=4096).contains(&bytes),
        |row| row.line.median,
    )
}

fn sizes(rows: &[Row], setup: Setup) -> Vec<usize> {
    let mut sizes: Vec<usize> = rows.iter().filter(|row| row.setup == setup).map(Row::bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn find(rows: &[Row], setup: Setup, bytes: usize, policy: Policy) -> Option<&Row> {
    rows.iter().find(|row| row.setup == setup && row.bytes() == bytes && row.policy() == policy.name())
}

/// A line for each size, a column for each policy.
fn by_policy(rows: &[Row], setup: Setup, title: &str, cell: impl Fn(&Row) -> String) -> Table {
    let columns: Vec<&str> = std::iter::once("bytes").chain(Policy::ALL.map(Policy::name)).chain(["labels"]).collect();
    let mut table = Table::new(format!("{title}, AES-128 encryption, engine 1.6 ({NOTE})"), &columns);
    for bytes in sizes(rows, setup) {
        let found = Policy::ALL.map(|policy| find(rows, setup, bytes, policy));
        let cells = found.map(|row| row.map(&cell).unwrap_or_default());
        let labels = found.into_iter().flatten().next().map(|row| row.line.labels.join("; ")).unwrap_or_default();
        let name = if bytes == MIXED { "mixed".to_owned() } else { bytes.to_string() };
        table.push(std::iter::once(name).chain(cells).chain([labels]).collect());
    }
    table
}

/// Every row with all its values.
fn everything(rows: &[Row]) -> Table {
    let columns = [
        "what",
        "policy",
        "bytes",
        "files",
        "key_bits",
        "engine_speed",
        "cpu",
        "load",
        "batch",
        "median_ms",
        "mean_ms",
        "min_ms",
        "max_ms",
        "runs",
        "by_module",
        "cpu_ms",
        "best_to_chosen",
        "best_to_chosen_low",
        "best_to_chosen_high",
        "one_chain_MB_s",
        "doorbell_ns",
        "added_delay_ns",
        "copy",
        "pinning",
        "backend",
        "kernels",
        "labels",
    ];
    let mut table = Table::new("all", &columns);
    for Row { line, mean, to_chosen, .. } in rows {
        let params = &line.params;
        let text = |number: f64| format!("{number:.3}");
        let compared = |of: fn(&Compared) -> f64| to_chosen.as_ref().map(of).map(text).unwrap_or_default();
        table.push(vec![
            line.what.clone(),
            params.policy.clone(),
            params.bytes.to_string(),
            params.files.to_string(),
            params.key_bits.to_string(),
            params.engine_speed.to_string(),
            params.cpu.clone(),
            params.load.to_string(),
            params.batch.to_string(),
            text(line.median),
            text(*mean),
            text(line.min),
            text(line.max),
            line.runs.to_string(),
            params.by_module.to_string(),
            params.cpu_ms.map(text).unwrap_or_default(),
            compared(|compared| compared.ratio),
            compared(|compared| compared.low),
            compared(|compared| compared.high),
            params.one_chain_mb_s.to_string(),
            params.doorbell_ns.to_string(),
            params.added_delay_ns.to_string(),
            if params.copy { "yes" } else { "no" }.to_owned(),
            line.labels.get(1).cloned().unwrap_or_default(),
            "emulated".to_owned(),
            line.backend.clone(),
            line.labels.join("; "),
        ]);
    }
    table
}

/// All setups and sizes, with the least times of all runs: the machine may be shared.
fn groups(rows: &[Row]) -> Vec<(Setup, usize)> {
    let mut groups: Vec<(Setup, usize)> = Vec::new();
    for row in rows {
        if !groups.contains(&(row.setup, row.bytes())) {
            groups.push((row.setup, row.bytes()));
        }
    }
    groups
}

/// The targets of the policies, by medians and by the least times.
fn targets(rows: &[Row]) -> Table {
    let mut table = Table::new(
        format!("Reached ({NOTE})"),
        &["what", "by medians", "by least times", "wanted", "where (by least times)", "labels"],
    );
    let time = [|row: &Row| row.line.median, |row: &Row| row.line.min];
    let ratios = |time: fn(&Row) -> f64, others: &[Policy]| {
        let mut ratios: Vec<(f64, String)> = Vec::new();
        for (setup, bytes) in groups(rows) {
            let best = find(rows, setup, bytes, Policy::Best).map(time);
            let other = others.iter().filter_map(|policy| find(rows, setup, bytes, *policy).map(time)).reduce(f64::min);
            if let (Some(best), Some(other)) = (best, other) {
                ratios.push((other / best, format!("{bytes} B, {setup}")));
            }
        }
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        ratios
    };
    let singles: Vec<Policy> = Policy::ALL.into_iter().filter(|policy| *policy != Policy::Best).collect();
    let mean = |ratios: &[(f64, String)]| {
        (ratios.iter().map(|ratio| ratio.0.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp()
    };
    let worst = |ratios: &[(f64, String)]| ratios.first().map(|ratio| ratio.0);
    // The labels of all rows; pinning and copies differ by row, and are in the grid.
    let labels = rows.first().and_then(|row| row.line.labels.first().cloned()).unwrap_or_default();
    let both = |of: &dyn Fn(fn(&Row) -> f64) -> Option<f64>| time.map(|time| number(of(time), 3));
    let mut push = |what: &str, [median, least]: [String; 2], wanted: &str, place: String| {
        table.push(vec![what.to_owned(), median, least, wanted.to_owned(), place, labels.clone()]);
    };
    let place = ratios(time[1], &singles).first().map(|ratio| ratio.1.clone()).unwrap_or_default();
    push("best over the best other policy, least", both(&|time| worst(&ratios(time, &singles))), "0.98", place);
    let kept = |ratios: &[(f64, String)]| {
        ratios.iter().filter(|ratio| ratio.0 >= WANTED).count() as f64 / ratios.len().max(1) as f64
    };
    push(
        "rows in which that is 0.98 or more, part",
        both(&|time| Some(kept(&ratios(time, &singles)))),
        "1",
        String::new(),
    );
    let chosen: Vec<Compared> = rows.iter().filter_map(|row| row.to_chosen).collect();
    let mut part = |what: &str, wanted: &str, of: fn(&Compared) -> bool| {
        let part = chosen.iter().filter(|compared| of(compared)).count() as f64 / chosen.len().max(1) as f64;
        push(what, [number(Some(part), 3), String::new()], wanted, String::new());
    };
    part("the same, over the policy that the other half of the rounds chose", "1", |compared| compared.ratio >= WANTED);
    part("of these all of the interval (nine times of ten)", "1", |compared| compared.low >= WANTED);
    part("rows of which none of the interval is", "0", |compared| compared.high < WANTED);
    let worst_chosen = chosen.iter().map(|compared| compared.ratio).reduce(f64::min);
    push("that ratio, least", [number(worst_chosen, 3), String::new()], "0.98", String::new());
    push("rows in all, geometric mean", both(&|time| Some(mean(&ratios(time, &singles)))), "1.0", String::new());
    push(
        "best over queue, geometric mean",
        both(&|time| Some(mean(&ratios(time, &[Policy::Queue])))),
        "1.05",
        String::new(),
    );
    let part_of_sum = |time: fn(&Row) -> f64| {
        let (cpu, best) =
            (find(rows, Setup::PAPER, 16_384, Policy::Cpu)?, find(rows, Setup::PAPER, 16_384, Policy::Best)?);
        Some(time(cpu) / time(best) / (1.0 + Setup::PAPER.speed))
    };
    push("part of both engines' sum, 16 KiB, engine 1.6", both(&part_of_sum), "0.9 (paper 0.81)", String::new());
    let crossing = |time: fn(&Row) -> f64| {
        let faster = |bytes: &usize| {
            let cpu = find(rows, Setup::PAPER, *bytes, Policy::Cpu).map(time);
            let shared = [Policy::Queue, Policy::Best]
                .iter()
                .filter_map(|policy| find(rows, Setup::PAPER, *bytes, *policy).map(time))
                .reduce(f64::min);
            cpu.zip(shared).is_some_and(|(cpu, shared)| shared < 0.98 * cpu)
        };
        // This size and all larger ones: a single size may be an accident.
        let all = sizes(rows, Setup::PAPER);
        all.into_iter().rev().filter(|bytes| *bytes != MIXED).take_while(faster).last().map(|bytes| bytes as f64)
    };
    push("bytes from which sharing pays", both(&crossing), "256 (paper 1,500 to 2,048)", String::new());
    table
}

fn figure(
    folder: &Path,
    name: &str,
    title: &str,
    y: &str,
    rows: &[Row],
    chosen: impl Fn(usize) -> bool,
    value: impl Fn(&Row) -> f64,
) -> Result<(), Failure> {
    let series = Policy::ALL.map(|policy| {
        let points = sizes(rows, Setup::PAPER).into_iter().filter(|bytes| *bytes != MIXED && chosen(*bytes));
        let point = |bytes| find(rows, Setup::PAPER, bytes, policy).map(|row| (bytes as f64, value(row)));
        (policy.name().to_owned(), points.filter_map(point).collect())
    });
    let curves = Curves {
        title: format!("{title}: AES-128-CBC, emulated module of 1.6 chains, one CPU core"),
        x: "bytes of a message".to_owned(),
        y: y.to_owned(),
        series: series.into_iter().filter(|(_, points): &(String, Vec<(f64, f64)>)| !points.is_empty()).collect(),
    };
    if curves.series.is_empty() {
        return Ok(());
    }
    Ok(files::write_atomically(&folder.join(name), plot::curves(&curves)?.as_bytes())?)
}
