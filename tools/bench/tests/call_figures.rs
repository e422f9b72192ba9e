//! Figures of calls: lines, the paper's tables, and rooms over sockets.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use support::{bench, stderr};
use tempfile::tempdir;

#[test]
fn bench_prints_one_figure_a_line_and_writes_them() {
    let folder = tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let shown = bench(&["call", "--curve", "secp256k1,P-256", "--runs", "1", "--json", "-o", path]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |line: &serde_json::Value| {
        [&line["params"]["mode"], &line["what"], &line["params"]["timing"]]
            .map(|field| field.as_str().unwrap().to_owned())
    };
    let elgamal = [
        "encrypt constant",
        "encrypt variable",
        "read variable",
        "add variable",
        "decrypt constant",
        "decrypt constant",
    ];
    let shared = [&elgamal[..5], &["decrypt variable", "decrypt constant", "decrypt variable"]].concat();
    let expected = elgamal.iter().map(|rest| format!("elgamal {rest}"));
    let expected: Vec<_> = expected.chain(shared.iter().map(|rest| format!("elgamal-shared {rest}"))).collect();
    assert_eq!(lines.iter().map(|line| of(line).join(" ")).collect::<Vec<_>>(), [&expected[..], &expected].concat());
    let bits: Vec<_> = lines[..14].iter().filter_map(|line| line["params"]["bits"].as_u64()).collect();
    assert_eq!(bits, [16, 27, 16, 16, 27, 27]);
    assert!(lines.iter().all(|line| line["unit"] == "ns/sample" && line["median"].as_f64().unwrap() > 0.0));
    assert!(lines.iter().all(|line| line["engine"] == "tobari" && line["threads"] == 1));
    let csv = std::fs::read_to_string(folder.path().join("call.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + lines.len());
    let portable = bench(&["call", "--curve", "P-256", "--runs", "1", "--json", "--backend", "portable"]);
    let lines = String::from_utf8(portable.stdout).unwrap();
    assert_eq!(lines.lines().count(), 14);
    assert!(lines.lines().all(|line| line.contains(r#""backend":"portable""#)), "{lines}");
    for wrong in [&["--runs", "0"][..], &["--mode", "masks"], &["--paper"]] {
        assert_eq!(bench(&[&["call"], wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
#[cfg(not(feature = "paper"))]
fn weak_curves_are_a_wrong_call_in_a_build_without_them() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("out");
    let path = out.to_str().unwrap();
    for wrong in [
        &["call", "--curve", "secp256k1,NIST_P192"][..],
        &["call", "--paper", "-o", path],
        &["report", "--size", "paper", "-o", path],
    ] {
        let refused = bench(wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&refused).contains("-p tobari-bench --features paper"), "{}", stderr(&refused));
        assert!(!out.exists(), "{wrong:?}");
    }
}

/// A peer that is slower than any real one, and a peer without curves.
#[test]
#[cfg(all(unix, feature = "paper"))]
fn bench_writes_the_papers_tables_and_compares_with_the_peers() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let figure = |what: &str, bits: &str| {
        let params = format!(r#""params":{{"curve":"'$1'","mode":"elgamal","timing":"variable"{bits}}}"#);
        let head = format!(r#""job":"call","what":"{what}","engine":"mcl test",{params},"backend":"none""#);
        format!(
            r#"echo '{{{head},"threads":1,"unit":"ns/sample","median":1e12,"min":1e12,"max":1e12,"runs":1,"labels":[]}}'"#
        )
    };
    let slow = [figure("encrypt", ""), figure("add", ""), figure("decrypt", r#","bits":16"#)].join("\n");
    let mut call =
        ["call", "--curve", "p160_1", "--mode", "elgamal-shared", "--runs", "1", "--paper"].map(str::to_owned).to_vec();
    for (name, body) in [("slow", slow), ("none", String::new())] {
        let program = folder.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        call.extend(["--peer".to_owned(), program.to_str().unwrap().to_owned()]);
    }
    let out = folder.path().join("out");
    call.extend(["-o".to_owned(), out.to_str().unwrap().to_owned()]);
    let shown = bench(&call.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(shown.status.success(), "{}", stderr(&shown));
    let text = String::from_utf8(shown.stdout).unwrap();
    for part in
        ["Times faster than mcl test", "Table 4", "Table 5", "Table 6", "does not add up", "criteria for real time"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    for name in ["call", "ratios", "table4", "table5", "table6", "figure5", "figure6", "gates"] {
        let csv = read(&format!("{name}.csv"));
        let cells = |line: &str| line.split(',').count();
        let head = cells(csv.lines().next().unwrap());
        assert!(csv.lines().count() > 1 && head > 3, "{name}");
        assert!(csv.lines().all(|line| line.contains('"') || cells(line) == head), "{name}: {csv}");
    }
    assert!(["table4.csv", "table5.csv", "table6.csv"].iter().all(|name| read(name).contains("\npaper,")));
    // the gates for Tobari's own times depend on the load of the machine
    let gates = read("gates.csv");
    let failed: Vec<_> = gates.lines().filter(|line| line.starts_with("mcl test") && line.ends_with("FAIL")).collect();
    assert_eq!(failed.len(), 4, "every gate of the slow peer: {failed:?}");
    assert!(["figure5.svg", "figure6.svg"].iter().all(|name| read(name).starts_with("<svg")));
}

/// A smoke test: figures are for quiet machines.
#[test]
#[cfg(target_os = "linux")]
fn the_capacity_of_rooms_is_measured_with_the_server_on_a_core_of_its_own() {
    if std::thread::available_parallelism().map_or(1, std::num::NonZero::get) < 2 {
        let refused = bench(&["call", "--live", "--capacity", "--sizes", "3", "--seconds", "1"]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        return;
    }
    let folder = tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let rooms = ["--mode", "mask", "--sizes", "3,5", "--seconds", "1", "--json", "-o", out];
    let shown = bench(&[&["call", "--live", "--capacity"][..], &rooms[..]].concat());
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines: Vec<serde_json::Value> =
        String::from_utf8(shown.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for members in [3, 5] {
        let line = lines.iter().find(|line| line["what"] == "live_server_cpu" && line["params"]["members"] == members);
        let line = line.unwrap_or_else(|| panic!("no figure of {members} members"));
        assert_eq!((&line["threads"], &line["labels"][1]), (&1.into(), &"pinned".into()));
    }
    let table = std::fs::read_to_string(folder.path().join("capacity.csv")).unwrap();
    assert!(table.lines().count() == 3 && table.lines().nth(1).unwrap().starts_with("mask,link,3,1,"), "{table}");
    let wrong = bench(&["call", "--live", "--capacity", "--members", "4"]);
    assert_eq!(wrong.status.code(), Some(2), "sizes are given by --sizes");
}

/// Least times by the protocol; a busy machine makes them longer. The second of two joining members
/// waits for the commit of the next second, and keys take effect fifteen ticks after their
/// announcement.
#[test]
#[cfg(feature = "mls")]
fn who_comes_into_a_room_of_agreed_keys_and_is_put_out_is_timed_over_sockets() {
    let folder = tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let shown = bench(&["call", "--live", "--mls", "--group", "6", "--json", "-o", out]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let figure = |what: &str| -> serde_json::Value {
        let mut lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.find(|line| line["what"] == what).unwrap_or_else(|| panic!("no {what}: {lines:?}"))
    };
    let [join, behind, removal, told] =
        ["live_join", "live_join_behind", "live_removal", "live_removal_told"].map(figure);
    let runs = join["runs"].as_u64().unwrap();
    assert!(runs >= 5 && behind["runs"] == 5 && removal["runs"] == 2 * runs, "{join} {behind} {removal}");
    assert_eq!(join["params"]["members"], 6);
    let ms = |line: &serde_json::Value, value: &str| line[value].as_f64().unwrap();
    assert!(ms(&removal, "min") >= 200.0 && ms(&told, "median") < ms(&removal, "median"), "{removal} {told}");
    assert!(ms(&join, "min") >= 200.0 && ms(&behind, "median") > ms(&join, "median"), "{join} {behind}");
    let table = std::fs::read_to_string(folder.path().join("mls-live.csv")).unwrap();
    assert_eq!(table.lines().count(), 5, "{table}");
    for more in [["--members", "4"], ["--sizes", "4"], ["--server-cores", "2"], ["--mode", "elgamal"], ["--group", "3"]]
    {
        let wrong = bench(&[&["call", "--live", "--mls"][..], &more[..]].concat());
        assert_eq!(wrong.status.code(), Some(2), "{more:?}");
    }
}
