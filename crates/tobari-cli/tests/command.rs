//! The command as a whole: exit statuses, `info`, `demo`.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use support::{stderr, tobari};

#[test]
fn a_wrong_call_exits_2_and_help_exits_0() {
    for wrong in [vec![], vec!["no-such-verb"], vec!["call", "mix"], vec!["call", "mix", "a.wav"]] {
        assert_eq!(tobari(&wrong).status.code(), Some(2), "{wrong:?}");
    }
    for wrong in [vec!["serve", "--addr", "nowhere"], vec!["serve", "--tls-cert", "a.pem"]] {
        assert_eq!(tobari(&wrong).status.code(), Some(2), "{wrong:?}");
    }
    let unknown = tobari(&["call", "keygen", "-o", "x", "--curve", "ed25519"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("secp256k1"), "the names are listed: {}", stderr(&unknown));
    assert_eq!(tobari(&["help"]).status.code(), Some(0));
    assert_eq!(tobari(&["--version"]).status.code(), Some(0));
}

#[test]
fn info_prints_every_curve_with_its_security() {
    let shown = tobari(&["info"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    for (name, bits) in [("secp160k1", "80"), ("secp256k1", "128"), ("NIST_P384", "192"), ("secp224k1", "112")] {
        assert!(text.lines().any(|line| line.contains(name) && line.contains(bits)), "{name}: {text}");
    }
    let lines = String::from_utf8(tobari(&["info", "--json"]).stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1 + 10);
    assert!(lines[1..].iter().all(|line| line["security_bits"].as_u64().is_some_and(|bits| bits >= 80)));
}

#[test]
fn the_demo_is_right_and_says_so_in_one_line_a_job() {
    let shown = tobari(&["demo", "--json"]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["job"], &lines[0]["right"], &lines[0]["exact"]),
        (&"call".into(), &true.into(), &true.into())
    );
    // two points of 64 bytes a sample: it cannot have been cheaper
    assert!(lines[0]["server_saw_bytes"].as_u64().unwrap() > 3 * 40_000 * 128);
}

#[test]
fn bench_prints_one_figure_a_line_and_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let shown = tobari(&["bench", "call", "--curve", "secp256k1,P-256", "--runs", "1", "--json", "-o", path]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let whats: Vec<_> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["encrypt", "add", "decrypt", "decrypt"].repeat(2));
    assert!(lines.iter().all(|line| line["unit"] == "ns/sample" && line["median"].as_f64().unwrap() > 0.0));
    assert!(lines.iter().all(|line| line["engine"] == "tobari" && line["threads"] == 1));
    let csv = std::fs::read_to_string(folder.path().join("call.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + lines.len());
    assert_eq!(tobari(&["bench", "call", "--runs", "0"]).status.code(), Some(2));
}

#[test]
#[cfg(target_os = "linux")]
fn every_attack_ends_as_documented() {
    let shown = tobari(&["demo", "--attack", "--json"]);
    assert!(shown.status.success(), "{}\n{}", stderr(&shown), String::from_utf8_lossy(&shown.stdout));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let caught = |part: &str| {
        let line = lines.iter().find(|line| line["attack"].as_str().unwrap().contains(part));
        line.unwrap_or_else(|| panic!("no attack {part:?}"))["caught"].as_bool().unwrap()
    };
    for known in ["memory", "flip one bit", "not on the curve", "another member", "another room", "twice", "say so"] {
        assert!(caught(known), "{known}");
    }
    for limit in ["double a speaker", "add 1000", "say nothing"] {
        assert!(!caught(limit), "{limit}: if this is caught now, docs/threats.md must say so");
    }
}
