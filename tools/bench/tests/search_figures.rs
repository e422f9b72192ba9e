//! Figures of the search.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use support::{bench, stderr};

/// Whether times meet their targets depends on the machine, and is not tested.
#[test]
fn every_kind_of_question_is_measured_and_so_are_clients_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let shown = bench(&["search", "--runs", "1", "--json", "-o", folder.path().to_str().unwrap()]);
    assert!(matches!(shown.status.code(), Some(0 | 1)), "{}", stderr(&shown));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |what: &str| lines.iter().filter(|line| line["what"] == what).count();
    assert_eq!((of("query"), of("queries")), (10, 7), "{lines:?}");
    for line in lines.iter().filter(|line| line["what"] == "query") {
        let (length, places) = (line["params"]["length"].as_u64().unwrap(), line["params"]["places"].as_u64().unwrap());
        let (bytes, longest) = (line["params"]["bytes"].as_u64().unwrap(), line["params"]["longest"] == true);
        if length <= 16 && !longest {
            assert!(bytes <= if places == 1 { 250_000 } else { 400_000 }, "{line}");
        }
    }
    assert!(folder.path().join("queries.csv").exists() && folder.path().join("clients.csv").exists());
}
