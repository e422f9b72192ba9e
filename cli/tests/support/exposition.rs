//! A strict reader of Prometheus text (format 0.0.4), with the rules of `promtool check metrics`.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// Where `promtool` is installed, it checks the text, too: the rules below are ours.
fn prometheus_takes(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut promtool) = promtool.spawn() else { return };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "promtool: {}", String::from_utf8_lossy(&output.stderr));
}

/// Checks a text whole.
///
/// # Panics
/// If a rule is broken, with the line.
pub fn check(text: &str) {
    prometheus_takes(text);
    assert!(text.is_empty() || text.ends_with('\n'), "a last line without an end");
    let (mut families, mut samples, mut family) = (BTreeSet::new(), BTreeSet::new(), None::<(String, String)>);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help text: {line}"));
            assert!(!help.trim().is_empty() && families.insert(name.to_owned()), "twice, or without help: {line}");
            let kind =
                lines.next().and_then(|line| line.strip_prefix("# TYPE ")?.strip_prefix(name)?.strip_prefix(' '));
            let kind = kind.unwrap_or_else(|| panic!("no kind behind {line}"));
            family_is_good(name, kind);
            family = Some((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
        let (name, labels) = series.split_once('{').map_or((series, None), |(name, labels)| (name, Some(labels)));
        let (of, kind) = family.as_ref().unwrap_or_else(|| panic!("before any family: {line}"));
        assert_eq!(name, of, "not with its family: {line}");
        let number: f64 = match value {
            "NaN" => f64::NAN,
            "+Inf" => f64::INFINITY,
            "-Inf" => f64::NEG_INFINITY,
            _ => value.parse().unwrap_or_else(|_| panic!("no number: {line}")),
        };
        assert!(value.ends_with("Inf") || value == "NaN" || number.is_finite(), "{line}");
        assert!(kind != "counter" || number >= 0.0, "a counter below zero: {line}");
        let mut names = labels.map_or_else(Vec::new, |labels| labels_of(labels, line));
        assert!(samples.insert(series.to_owned()), "twice: {line}");
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "a label twice: {line}");
    }
}

fn family_is_good(name: &str, kind: &str) {
    let plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    assert!(plain(name) && name.starts_with("tobari_"), "{name}");
    assert!(["counter", "gauge"].contains(&kind), "{name}: {kind}");
    assert_eq!(name.ends_with("_total"), kind == "counter", "{name}: {kind}");
    for end in ["_bucket", "_count", "_sum"] {
        assert!(!name.ends_with(end), "{name}: {end} belongs to histograms");
    }
    let units = ["milliseconds", "microseconds", "minutes", "hours", "days", "kilobytes", "megabytes", "bits"];
    let kinds = ["counter", "gauge", "histogram", "summary"];
    assert!(name.split('_').all(|word| !units.contains(&word) && !kinds.contains(&word)), "{name}");
}

/// The names of labels; `rest` is everything after the brace.
fn labels_of<'a>(rest: &'a str, line: &str) -> Vec<&'a str> {
    let (mut rest, mut names) = (rest, Vec::new());
    loop {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        assert!(is_name && !["le", "quantile"].contains(&name), "{line}");
        names.push(name);
        let (mut end, mut escaped) = (None, false);
        for (place, letter) in after.char_indices() {
            match letter {
                _ if escaped => {
                    assert!("\\\"n".contains(letter), "an unknown escape: {line}");
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = Some(place);
                    break;
                }
                _ => {}
            }
        }
        rest = &after[end.unwrap_or_else(|| panic!("a value without an end: {line}")) + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    assert_eq!(rest, "}", "{line}");
    names
}
