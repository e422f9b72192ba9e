//! AES under encryption as a command: within a memory limit, at an insecure degree.

use crate::support::{stderr, tobari};
use serde_json::Value;

const DEGREE: &str = "2048";

fn lines(words: &[&str]) -> Vec<Value> {
    let output = tobari(words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_batch_is_decrypted_within_a_limit_of_memory_and_every_round_is_that_of_aes() {
    let tier = tempfile::tempdir().unwrap();
    let words = ["plan", "sense", "--insecure-degree", DEGREE, "--threads", "1", "--run", "--tier"];
    let words = [&words[..], &[tier.path().to_str().unwrap()]].concat();
    let found = lines(&[&words[..], &["--memory", "420MiB", "--json"]].concat());
    let [planned, ran] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&planned["method"], &planned["room"]), (&Value::from("aes"), &Value::from(16)));
    assert_eq!(ran["right"], true);
    assert!(ran["read"].as_u64().unwrap() > 0, "{ran}");
    assert!(ran["peak"].as_u64().unwrap() <= 420 << 20, "{ran}");
    let output = tobari(&[&words[..], &["--memory", "2GiB", "--rounds"]].concat());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!((0..10).all(|round| text.contains(&format!("after {round} rounds: the states of AES"))), "{text}");
    for said in ["NO SECURITY", "all 256 bytes equal the devices' readings", "3 products more are right in every slot"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(std::fs::read_dir(tier.path()).unwrap().count(), 0);
}

#[test]
fn more_blocks_than_a_batch_holds_and_too_little_memory_are_refused() {
    for (blocks, memory, status, expected) in [
        ("17", "2GiB", 2, "expected 1 to 16 blocks"),
        ("0", "2GiB", 2, "expected 1 to 16"),
        ("16", "64MiB", 1, "expected a limit"),
    ] {
        let output = tobari(&[
            "plan",
            "sense",
            "--insecure-degree",
            DEGREE,
            "--blocks",
            blocks,
            "--memory",
            memory,
            "--threads",
            "1",
        ]);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
