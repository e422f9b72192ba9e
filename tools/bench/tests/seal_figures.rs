//! Figures of sealed files: the paper's tables over an emulated module, and the sealing of a folder
//! against a copy of it.

#![allow(clippy::unwrap_used, reason = "a test")]
#![cfg(linux_64)]

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use support::lines;
use tempfile::{TempDir, tempdir};
use tobari_host::testing::not_run;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder with `files` files of `bytes` bytes, some of them in subfolders.
fn folder(files: usize, bytes: usize) -> TempDir {
    let root = tempdir().unwrap();
    for at in 0..files {
        let folder = root.path().join(format!("{}", at % 7));
        fs::create_dir_all(&folder).unwrap();
        let content: Vec<u8> = (0..bytes + at % 5).map(|i| (i * 13 + at) as u8).collect();
        fs::write(folder.join(format!("file {at}")), content).unwrap();
    }
    root
}

#[test]
fn the_papers_tables_and_figures_come_out_of_one_command_with_their_labels() {
    let place = tempdir().unwrap();
    let out = text(place.path());
    let figures = lines(&["seal", "--json", "--paper", "--quick", "--files", "40", "--runs", "1", "-o", out]);
    if figures.is_empty() {
        let name = "the_papers_tables_and_figures_come_out_of_one_command_with_their_labels";
        return not_run(name, "one core, and the emulated module needs another");
    }
    for figure in &figures {
        assert_eq!((&figure["job"], &figure["labels"][0]), (&"seal".into(), &"emulated-module".into()));
        assert!(figure["params"]["one_chain_mb_s"].as_f64() > Some(1.0) && figure["median"].as_f64() > Some(0.0));
    }
    let of = |what: &str, policy: &str| {
        figures.iter().filter(|figure| figure["what"] == what && figure["params"]["policy"] == policy).count()
    };
    assert_eq!((of("encrypt", "best"), of("encrypt", "module"), of("decrypt", "best")), (6, 3, 1));
    let module = figures.iter().find(|figure| figure["params"]["policy"] == "module").unwrap();
    assert_eq!(module["params"]["by_module"], 40);
    for name in ["table2.csv", "table3.csv", "grid.csv", "targets.csv"] {
        let table = fs::read_to_string(place.path().join(name)).unwrap();
        assert!(table.lines().count() >= 4, "{name}: {table}");
        // Every line has its label.
        assert!(table.lines().skip(1).all(|line| line.contains("emulated-module")), "{name}: {table}");
    }
    let grid = fs::read_to_string(place.path().join("grid.csv")).unwrap();
    for column in ["doorbell_ns", "added_delay_ns", "copy", "pinning", "cpu_ms", "engine_speed"] {
        assert!(grid.lines().next().unwrap().contains(column), "{column}");
    }
    // With competing threads in the process, its processor time is not reported.
    let loaded: Vec<&Value> = figures.iter().filter(|figure| figure["params"]["load"] != 0.0).collect();
    assert!(!loaded.is_empty() && loaded.iter().all(|figure| figure["params"]["cpu_ms"].is_null()));
    for name in ["figure9.svg", "figure10.svg", "figure11.svg"] {
        let figure = fs::read_to_string(place.path().join(name)).unwrap();
        assert!(figure.contains("emulated module") && figure.contains("best"), "{name}");
    }
    let source = folder(30, 2000);
    let tree = lines(&["seal", "--json", "--tree", text(source.path()), "--runs", "1", "-o", out]);
    assert_eq!((tree.len(), &tree[1]["engine"], &tree[1]["unit"]), (2, &"tobari".into(), &"s".into()));
}
