//! The report at its least size: the page shows the measured figures.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use support::{bench, stderr};

/// The text between two marks, and the text after them.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(from)?.1.split_once(to)
}

/// Every figure in an element `data`, with its number of occurrences.
fn shown(html: &str) -> BTreeMap<String, usize> {
    let (mut rest, mut all) = (html, BTreeMap::new());
    while let Some((value, behind)) = between(rest, "<data value=\"", "\"") {
        *all.entry(value.to_owned()).or_insert(0) += 1;
        rest = behind;
    }
    all
}

/// The cells of a table's rows, by the beginning of its title.
fn cells(html: &str, title: &str) -> Vec<Vec<String>> {
    let (_, from) = html.split_once(&format!("<caption>{title}")).unwrap_or_else(|| panic!("no table {title}"));
    let body = between(from, "<tbody>", "</tbody>").unwrap().0;
    let cell = |text: &str| text.split_once('>').unwrap().1.split_once("</td>").unwrap().0.to_owned();
    body.split("<tr").skip(1).map(|row| row.split("<td").skip(1).map(cell).collect()).collect()
}

fn of<'a>(lines: &'a [Value], job: &str, what: &str, params: &[(&str, Value)]) -> &'a Value {
    let fits = |line: &&Value| {
        line["job"] == job && line["what"] == what && params.iter().all(|(name, value)| line["params"][name] == *value)
    };
    lines.iter().find(fits).unwrap_or_else(|| panic!("no figure {job} {what} {params:?}"))
}

#[test]
fn every_figure_of_the_page_is_one_of_the_run_and_every_one_of_the_run_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let ran = bench(&["report", "-o", path, "--size", "least", "--json"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let lines = String::from_utf8(ran.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<String> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["report.html"], "one file, and nothing beside it");
    let html = std::fs::read_to_string(folder.path().join("report.html")).unwrap();

    let two_cores = tobari_host::threads::available() > 1;
    for job in ["call", "sense", "infer", "search", "seal", "lattice"] {
        let alone = !cfg!(target_os = "linux") && ["infer", "seal"].contains(&job) || job == "seal" && !two_cores;
        assert_eq!(lines.iter().any(|line| line["job"] == job), !alone, "{job}");
        assert!(html.contains(&format!("<h2 id=\"{job}\">")), "{job} has its part");
    }
    // in both directions
    assert!(!html.contains("not in its tables"), "every headline has its figure");
    let shown = shown(&html);
    let mut measured = BTreeMap::new();
    for line in &lines {
        for which in ["median", "min", "max"] {
            *measured.entry(line[which].as_f64().unwrap().to_string()).or_insert(0_usize) += 1;
        }
    }
    assert!(measured.len() > 100, "{} figures", measured.len());
    for (value, times) in &measured {
        assert!(shown.get(value).is_some_and(|found| found >= times), "{value} was measured and is not shown");
    }
    for value in shown.keys() {
        assert!(measured.contains_key(value), "{value} is shown and was not measured");
    }
    beside_the_paper(&html, &lines);
}

/// The benchmarks' tables have the values of their lines, rounded, and the rows of the paper have
/// the paper's values.
fn beside_the_paper(html: &str, lines: &[Value]) {
    let rounded = |value: &Value, places: usize| format!("{:.places$}", value["median"].as_f64().unwrap());
    let table = cells(html, "Table 4: the time of an operation on a sample");
    let row = |engine: &str, timing: &str| {
        table.iter().find(|row| row[0] == engine && row[2] == "elgamal" && row[3] == timing).unwrap()
    };
    assert_eq!(row("paper", "variable")[6], "12557", "the paper's clocks");
    let curve = [("curve", "secp256k1".into()), ("mode", "elgamal".into()), ("timing", "constant".into())];
    assert_eq!(row("tobari", "constant")[9], rounded(of(lines, "call", "encrypt", &curve), 1));
    for sum in cells(html, "Table 6: the time of the sum of a room").iter().filter(|row| row[0] == "tobari") {
        let inputs = [("inputs", Value::from(sum[1].parse::<u64>().unwrap()))];
        let threads: u64 = sum[2].parse().unwrap();
        let line = lines.iter().filter(|line| line["what"] == "sum" && line["threads"] == threads);
        let line: Vec<Value> = line.cloned().collect();
        assert_eq!(sum[5], rounded(of(&line, "call", "sum", &inputs), 1));
    }
    let figure = cells(html, "Figure 4 as numbers");
    for (panel, what) in [(0, "seal"), (3, "convert"), (6, "up")] {
        let u25 = of(lines, "sense", what, &[("design", "3-u25".into())]);
        assert_eq!(figure[panel][6], rounded(u25, 2), "{what}");
    }
    if cfg!(target_os = "linux") {
        let image = of(lines, "infer", "image", &[("combination", "enclave-plain".into())]);
        let table = cells(html, "Table 6: an image, by combination");
        let row = table.iter().find(|row| row[0].starts_with("enclave-plain")).unwrap();
        assert_eq!((&row[1], row[8].as_str()), (&rounded(image, 3), "simulated-enclave"));
        assert!(html.contains("<dt>simulated-enclave</dt>") && html.contains("<dt>stands-for-a-phone</dt>"));
    }
    let search = cells(html, "Table 6: the paper&#39;s search");
    let row = search.iter().find(|row| row[2] == "unlimited").unwrap();
    assert_eq!(row[3], rounded(of(lines, "search", "pbwt", &[("mode", "unlimited".into())]), 2));
    assert!(search.iter().any(|row| row[2] == "paper: SATA SSD" && row[3] == "2213"));
    if lines.iter().any(|line| line["job"] == "seal") {
        let params =
            [("policy", "best".into()), ("bytes", 16_384.into()), ("load", 0.0.into()), ("copy", false.into())];
        let line = of(lines, "seal", "encrypt", &params);
        let table = cells(html, "Table 2: ms for all messages");
        let row = table.iter().find(|row| row[0] == "16384").unwrap();
        let [.., best, labels] = &row[..] else { panic!("{row:?}") };
        assert_eq!(best, &rounded(line, 3));
        assert!(labels.starts_with("emulated-module"), "{labels}");
        assert!(html.contains("<dt>emulated-module</dt>"));
    }
}

#[test]
fn a_record_that_is_not_there_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (out, none) = (folder.path().join("out"), folder.path().join("none"));
    let ran = bench(&["report", "-o", out.to_str().unwrap(), "--record", none.to_str().unwrap(), "--size", "least"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(stderr(&ran).contains("ratios.csv"), "{}", stderr(&ran));
    assert!(!out.exists());
}
