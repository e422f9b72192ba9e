//! The page: one file of HTML and CSS, which loads nothing and needs no script.
//!
//! Every figure of the run is in an element `data`: its `value` is the measured figure, and its
//! text is rounded. Tables and plots of the benchmarks are unchanged.

use super::jobs::{Headline, Place};
use super::record::Record;
use super::{Figure, Ran, Setting, Size};
use crate::bench::table::Table;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Nothing is loaded from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");

/// The meanings of labels: a figure must not be quoted without its label.
const LABELS: [(&str, &str); 14] = [
    (
        "simulated-enclave",
        "The enclave is a process of its own. It adds copies and system calls. It has neither the cost nor the protection of hardware.",
    ),
    (
        "emulated-module",
        "The crypto module is a second CPU core, limited to a multiple of the speed of one chain on the first core. Ratios can be compared, absolute speeds cannot.",
    ),
    ("stands-for-a-phone", "One thread of this machine stands for a device."),
    (
        "variable-time-logarithm",
        "The discrete logarithm of this decryption takes a time that depends on what is decrypted.",
    ),
    ("disturbed", "The machine was not quiet: a fixed loop took 1.15 times its fastest, or more, in the median round."),
    ("limit not enforced", "No limit of memory was set by the system: the plan kept to it by itself."),
    ("cpu on core", "Each engine was kept on a core of its own."),
    (
        "no copies by the CPU",
        "The emulated module reads and writes memory itself, as a device with direct access would.",
    ),
    ("copied twice by the CPU", "The CPU copied the data to the emulated module and back."),
    ("simulated-panel", "The panel is simulated: it holds no person's genome."),
    (
        "the tier's folder as it is",
        "No device was emulated: the disk is whatever lies under that folder of this machine.",
    ),
    ("durable", "Every batch was on the disk before its sender was told so."),
    ("http", "Frames were sent by HTTP, on this machine."),
    ("mqtt", "Frames were sent by way of a broker."),
];

/// The whole page.
pub(super) fn page(setting: &Setting, all: &[Ran], records: &[Record]) -> String {
    let mut html = String::new();
    head(&mut html, setting, all);
    failures(&mut html, all);
    headlines(&mut html, setting, all);
    labels(&mut html, all);
    for ran in all {
        section(&mut html, ran, records);
    }
    html.push_str(
        "</main>\n<footer><p>What each figure is of is said in bench/README.md of the project, and what none of this protects against in book/src/explanation/threats/index.md. \
         Medians, with the fastest and the slowest round beside them; nothing was left out because it was slow.</p></footer>\n</body>\n</html>\n",
    );
    html
}

fn head(html: &mut String, setting: &Setting, all: &[Ran]) {
    let Setting { day, machine, version, .. } = setting;
    push(
        html,
        &format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<title>Tobari report</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>Tobari beside its papers and its peers</h1>\n<p class=\"lead\">{} · {} · tobari {} · {}</p>\n",
            escaped(machine),
            escaped(day),
            escaped(version),
            size_words(setting.size)
        ),
    );
    push(html, "<nav aria-label=\"Parts\">");
    for ran in all {
        push(html, &format!("<a href=\"#{0}\">{0}</a> ", ran.part.name));
    }
    push(html, "</nav>\n</header>\n<main>\n");
}

fn size_words(size: Size) -> &'static str {
    match size {
        Size::Least => "size least: so little was measured that these figures say nothing; they show that it works",
        Size::Small => "size small: few rounds of a part of the papers' measurements",
        Size::Paper => {
            "size paper: what the papers measure, but the search by the kernel's swap and AES under encryption on the server"
        }
    }
}

fn failures(html: &mut String, all: &[Ran]) {
    for ran in all {
        if let Some(why) = &ran.failed {
            push(
                html,
                &format!(
                    "<p class=\"problem\" role=\"alert\"><strong>{}</strong> is not complete: {}</p>\n",
                    ran.part.name,
                    escaped(why)
                ),
            );
        }
    }
}

/// The paper, or the goal, and this machine.
fn headlines(html: &mut String, setting: &Setting, all: &[Ran]) {
    let mut rows = Vec::new();
    for ran in all {
        for Headline { what, unit, ours, paper, note } in ran.part.headlines {
            // the text above already says that this part is not complete
            let found = match cell(&ran.tables, ours) {
                Some(found) => found,
                None if ran.failed.is_some() => continue,
                None => "not in its tables".to_owned(),
            };
            // the least size is far smaller than the paper's, so the two are not compared
            let printed = cell(&ran.tables, paper).filter(|_| setting.size != Size::Least).unwrap_or_default();
            let times =
                found.parse::<f64>().ok().zip(printed.parse::<f64>().ok()).filter(|_| ["ns", "ms", "s"].contains(unit));
            let times = times.map(|(ours, paper)| format!("{} × as fast", short(paper / ours))).unwrap_or_default();
            let amount = |text: &str| match text.parse::<f64>() {
                Ok(value) => format!("{} {unit}", short(value)).trim_end().to_owned(),
                Err(_) => text.to_owned(),
            };
            rows.push(
                [
                    ran.part.name.to_owned(),
                    (*what).to_owned(),
                    amount(&printed),
                    amount(&found),
                    times,
                    (*note).to_owned(),
                ]
                .map(|cell| escaped(&cell))
                .to_vec(),
            );
        }
    }
    if rows.is_empty() {
        return;
    }
    push(html, "<section aria-labelledby=\"summary\">\n<h2 id=\"summary\">At a glance</h2>\n");
    let columns = ["job", "what", "the paper, or the goal", "this machine", "", "mind that"].map(str::to_owned);
    table(html, "The papers' figures, and this machine's", &columns, rows.into_iter().map(|cells| (cells, false)));
    push(html, "</section>\n");
}

/// A cell of a benchmark's table.
fn cell(tables: &[(String, Table)], place: &Place) -> Option<String> {
    let (_, table) = tables.iter().find(|(name, _)| name == place.file)?;
    let at = |column: &str| table.columns().iter().position(|name| name == column);
    let fits = |row: &&Vec<String>| {
        place.row.iter().all(|(column, start)| at(column).is_some_and(|at| begins(&row[at], start)))
    };
    let found = &table.rows().iter().find(fits)?[at(place.column)?];
    (!found.is_empty()).then(|| found.clone())
}

/// Whether a cell equals `start`, or continues after a comma.
fn begins(cell: &str, start: &str) -> bool {
    cell.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

fn labels(html: &mut String, all: &[Ran]) {
    let found: BTreeSet<&str> =
        all.iter().flat_map(|ran| &ran.lines).flat_map(|line| &line.labels).map(String::as_str).collect();
    if found.is_empty() {
        return;
    }
    push(
        html,
        "<section aria-labelledby=\"labels\">\n<h2 id=\"labels\">What is simulated, emulated or disturbed</h2>\n<dl>\n",
    );
    for label in found {
        let meaning =
            LABELS.iter().find(|(name, _)| label.starts_with(name)).map_or("As it says.", |(_, meaning)| meaning);
        push(html, &format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(label), escaped(meaning)));
    }
    push(html, "</dl>\n</section>\n");
}

fn section(html: &mut String, ran: &Ran, records: &[Record]) {
    let part = ran.part;
    push(
        html,
        &format!(
            "<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n<p>{2}</p>\n",
            part.name,
            escaped(part.title),
            escaped(part.about)
        ),
    );
    for call in &ran.calls {
        push(html, &format!("<p class=\"call\"><code>{}</code></p>\n", escaped(call)));
    }
    for (name, svg) in &ran.plots {
        let caption = name.trim_end_matches(".svg");
        let drawn =
            svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}, {}\" ", part.name, escaped(caption)), 1);
        push(
            html,
            &format!(
                "<figure><div class=\"scroll plot\" tabindex=\"0\">{drawn}</div><figcaption>{}</figcaption></figure>\n",
                escaped(caption)
            ),
        );
    }
    for (_, written) in &ran.tables {
        let rows = written.rows().iter().map(|row| (row.iter().map(|cell| escaped(cell)).collect(), is_papers(row)));
        table(html, &written.title, written.columns(), rows);
    }
    for record in records.iter().filter(|record| record.part == part.name) {
        on_record(html, record, &ran.lines);
    }
    if let Some(why) = part.no_peers {
        push(html, &format!("<p>{}</p>\n", escaped(why)));
    }
    if !ran.lines.is_empty() {
        push(html, &format!("<details><summary>All {} figures of this run</summary>\n", ran.lines.len()));
        figures(html, &ran.lines);
        push(html, "</details>\n");
    }
    push(html, "</section>\n");
}

fn is_papers(row: &[String]) -> bool {
    row.iter().any(|cell| cell == "paper" || cell.starts_with("paper: "))
}

/// Columns that identify a row of a record; they are parameters of a figure, or its `what`.
const KEYS: [&str; 5] = ["what", "curve", "mode", "timing", "set"];

/// Peers' figures with this machine's figures beside them, if there are any; other rows are folded.
fn on_record(html: &mut String, record: &Record, lines: &[Figure]) {
    let mut columns = record.table.columns().to_vec();
    let keys: Vec<(usize, &str)> = columns
        .iter()
        .enumerate()
        .filter_map(|(at, name)| Some((at, KEYS.into_iter().find(|key| key == name)?)))
        .collect();
    let here = |row: &Vec<String>| {
        let of = |line: &&Figure| {
            let told = |key: &str| if key == "what" { Some(line.what.as_str()) } else { line.params[key].as_str() };
            line.engine == "tobari"
                && line.params["bits"].as_u64().is_none_or(|bits| bits == 16)
                && keys.iter().all(|(at, key)| told(key) == Some(row[*at].as_str()))
        };
        lines.iter().find(of).filter(|_| !keys.is_empty())
    };
    columns.push("this machine, now".to_owned());
    let all = record.table.rows().iter().map(|row| (row, here(row)));
    let (found, rest): (Vec<_>, Vec<_>) = all.partition(|(_, line)| line.is_some());
    let cells = |(row, line): (&Vec<String>, Option<&Figure>)| {
        let mut cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
        cells.push(line.map(|line| format!("{} {}", data(line.median), escaped(&line.unit))).unwrap_or_default());
        (cells, false)
    };
    let title = format!("Peers on record. {}", record.title);
    if !found.is_empty() {
        table(html, &title, &columns, found.into_iter().map(cells));
    }
    if !rest.is_empty() {
        push(
            html,
            &format!("<details><summary>{} rows of bench/record/{}</summary>\n", rest.len(), escaped(record.path)),
        );
        columns.pop();
        table(
            html,
            &title,
            &columns,
            rest.into_iter().map(|(row, _)| (row.iter().map(|cell| escaped(cell)).collect(), false)),
        );
        push(html, "</details>\n");
    }
}

fn figures(html: &mut String, lines: &[Figure]) {
    let columns = ["what", "of", "engine", "backend", "threads", "median", "least", "most", "unit", "rounds", "labels"]
        .map(str::to_owned);
    let rows = lines.iter().map(|line| {
        let cells = vec![
            escaped(&line.what),
            escaped(&params(line)),
            escaped(&line.engine),
            escaped(&line.backend),
            line.threads.to_string(),
            data(line.median),
            data(line.min),
            data(line.max),
            escaped(&line.unit),
            line.runs.to_string(),
            escaped(&line.labels.join("; ")),
        ];
        (cells, line.engine == "paper")
    });
    table(html, "Figures", &columns, rows);
}

/// The parameters of a figure, in words.
fn params(line: &Figure) -> String {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let said = |(name, value): (&String, &serde_json::Value)| match text(value).as_str() {
        "" | "null" => None,
        value => Some(format!("{name} {value}")),
    };
    line.params.as_object().into_iter().flatten().filter_map(said).collect::<Vec<_>>().join(", ")
}

/// A figure with its measured value, shown rounded.
fn data(value: f64) -> String {
    format!("<data value=\"{value}\">{}</data>", short(value))
}

/// Four digits or so.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e9).contains(&size) => format!("{value:.2e}"),
        size if size < 1.0 => format!("{value:.3}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => thousands(value),
    }
}

/// Whole, in groups of three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let first = digits.len() % 3;
    let groups = (0..digits.len()).filter(|at| at % 3 == first && *at > 0).rev();
    let mut text = digits.clone();
    groups.for_each(|at| text.insert(at, ','));
    if value < 0.0 { format!("-{text}") } else { text }
}

/// Cells are HTML already; the flag says that a row is the paper's.
fn table(html: &mut String, title: &str, columns: &[String], rows: impl Iterator<Item = (Vec<String>, bool)>) {
    let title = escaped(title);
    push(
        html,
        &format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table><caption>{title}</caption>\n<thead><tr>"
        ),
    );
    for column in columns {
        push(html, &format!("<th scope=\"col\">{}</th>", escaped(column)));
    }
    push(html, "</tr></thead>\n<tbody>\n");
    for (cells, papers) in rows {
        push(html, if papers { "<tr class=\"paper\">" } else { "<tr>" });
        for cell in cells {
            let number = cell.starts_with("<data") || cell.trim_end_matches(['!', '?']).parse::<f64>().is_ok();
            push(html, &if number { format!("<td class=\"n\">{cell}</td>") } else { format!("<td>{cell}</td>") });
        }
        push(html, "</tr>\n");
    }
    push(html, "</tbody></table></div>\n");
}

fn push(html: &mut String, text: &str) {
    html.push_str(text);
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // an invisible character could change the meaning of the text
            character if character.is_control() && character != '\n' => {
                let _ = write!(out, "&#xfffd;");
            }
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{jobs, record};
    use super::*;
    use serde_json::json;

    fn ran(failed: Option<&str>) -> Ran {
        let line = |what: &str, median: f64| Figure {
            job: "call".to_owned(),
            what: what.to_owned(),
            engine: "tobari".to_owned(),
            params: json!({ "curve": "secp256k1", "mode": "elgamal", "timing": "variable" }),
            backend: "<b>&".to_owned(),
            threads: 1,
            unit: "ns/sample".to_owned(),
            median,
            min: median / 2.0,
            max: 1234.5,
            runs: 3,
            labels: vec!["disturbed".to_owned()],
        };
        let written = "engine,curve,mode,timing,encrypt_ns\npaper,secp256k1,elgamal,variable,8969.3\ntobari,secp256k1,elgamal,variable,500.0\n";
        Ran {
            part: &jobs::PARTS[0],
            calls: vec!["tobari-bench call".to_owned()],
            seconds: 1.0,
            lines: vec![line("encrypt", 500.015_625), line("add", 1e-7)],
            tables: vec![("table4.csv".to_owned(), Table::parse("Table 4", written))],
            plots: vec![("figure5.svg".to_owned(), "<svg width=\"960\"><circle/></svg>".to_owned())],
            failed: failed.map(str::to_owned),
        }
    }

    fn drawn(size: Size, failed: Option<&str>) -> String {
        drawn_of(size, ran(failed))
    }

    fn drawn_of(size: Size, ran: Ran) -> String {
        let setting =
            Setting { day: "2026-11-22".to_owned(), machine: "a <machine>".to_owned(), size, version: "0.1.0" };
        page(&setting, &[ran], &record::all(None).unwrap())
    }

    #[test]
    fn every_figure_is_on_the_page_as_it_was_measured_and_text_is_no_markup() {
        let html = drawn(Size::Small, None);
        for value in ["500.015625", "250.0078125", "0.0000001", "1234.5"] {
            assert!(html.contains(&format!("<data value=\"{value}\">")), "{value}");
        }
        assert!(html.contains("&lt;b&gt;&amp;") && html.contains("a &lt;machine&gt;") && !html.contains("<b>"));
        assert!(html.contains("role=\"img\" aria-label=\"call, figure5\"") && html.contains("<circle/>"));
    }

    #[test]
    fn the_paper_stands_beside_and_peers_of_the_record_too() {
        let html = drawn(Size::Small, None);
        assert!(html.contains("<td>8,969 ns</td><td>500 ns</td><td>17.9 × as fast</td>"), "{html}");
        let row = html.lines().find(|line| line.contains("mcl") && line.contains("<data value=\"500.015625\">"));
        assert!(row.is_some_and(|row| row.contains("variable")), "mcl's row has this machine's figure");
        assert!(html.contains("<tr class=\"paper\">"));
        assert!(!drawn(Size::Least, None).contains("as fast"), "nothing is compared at the least size");
    }

    #[test]
    fn a_part_without_peers_on_record_says_so() {
        for part in &jobs::PARTS {
            let html = drawn_of(Size::Small, Ran { part, ..ran(None) });
            let said = [
                html.contains("<caption>Peers on record. "),
                html.contains("<p>No peer&#39;s figures are on record: "),
            ];
            assert!(said == [true, false] || said == [false, true], "{}: {said:?}", part.name);
        }
    }

    #[test]
    fn it_loads_nothing_runs_nothing_and_says_what_failed() {
        let html = drawn(Size::Paper, Some("no <reason>"));
        for word in ["<script", "src=", "@import", "url(", "http://", "https://", "<link"] {
            assert!(!html.contains(word), "{word}");
        }
        assert!(html.contains("<strong>call</strong> is not complete: no &lt;reason&gt;"));
        assert!(!drawn(Size::Paper, None).contains("is not complete"));
        assert!(html.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1e-7, 0.25, 1.5, 12.34, 999.6, 123_456.0, -2_000.0, 2e12].map(short);
        assert_eq!(shown, ["0", "1.00e-7", "0.250", "1.50", "12.3", "1,000", "123,456", "-2,000", "2.00e12"]);
    }
}
