//! The program as a whole: exit statuses, `info`, `demo`.

use crate::support::{stderr, tobari};

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
fn verbs_that_another_program_has_now_say_which() {
    for (words, now) in [
        (&["bench", "call", "--json"][..], "tobari-bench call --json"),
        (&["bench", "--help"], "tobari-bench --help"),
        (&["report", "-o", "x"], "tobari-bench report -o x"),
    ] {
        let told = tobari(words);
        assert_eq!(told.status.code(), Some(2), "{words:?}");
        assert!(stderr(&told).trim_end().ends_with(&format!("run {now}")), "{}", stderr(&told));
    }
}

#[test]
fn info_prints_every_curve_with_its_security() {
    let folder = tempfile::tempdir().unwrap();
    let info = |json: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tobari"));
        let shown = command.arg("info").args(json).env("TOBARI_CACHE", folder.path()).output().unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    let text = info(&[]);
    for (name, bits) in [("secp160k1", "80"), ("secp256k1", "128"), ("NIST_P384", "192"), ("secp224k1", "112")] {
        assert!(text.lines().any(|line| line.contains(name) && line.contains(bits)), "{name}: {text}");
    }
    let lines = info(&["--json"]);
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (curves, sets) = (10, 20);
    assert_eq!(lines.len(), 1 + curves + sets + 1);
    let (costs, all) = (&lines[1 + curves + sets], &lines[1..1 + curves + sets]);
    assert!(all.iter().all(|line| line["security_bits"].as_u64().is_some_and(|bits| bits >= 80)));
    assert!(all[curves..].iter().all(|line| line["set"].is_string() && line["security_bits"].as_u64() >= Some(128)));
    assert!(text.contains("ckks-a") && text.contains("N = 16384, 300 bits in 6 + 2 primes"), "{text}");
    assert_eq!(costs["calibrated"], false);
    assert!(text.ends_with("not calibrated yet: tobari plan memory --recalibrate\n"), "{text}");
}

#[test]
fn the_demo_is_right_and_says_so_in_one_line_a_job_and_mode() {
    let shown = tobari(&["demo", "--json"]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), if cfg!(target_os = "linux") { 8 } else { 7 });
    let sense = &lines[6];
    assert_eq!((&sense["job"], &sense["right"], &sense["exact"]), (&"sense".into(), &true.into(), &true.into()));
    assert!(sense["paper_seconds"].is_null() && sense["server_saw_bytes"].as_u64().unwrap() > 100 * 840);
    // a folder of recordings, sealed and unsealed, although its module was killed
    if let Some(seal) = lines.get(7) {
        assert_eq!((&seal["job"], &seal["right"], &seal["exact"]), (&"seal".into(), &true.into(), &true.into()));
        assert!(seal["server_saw_bytes"].as_u64().unwrap() > 1_000_000 && seal["paper_seconds"].is_null());
    }
    // numbers are approximate here, but labels are exact
    let infer = &lines[5];
    assert_eq!((&infer["job"], &infer["right"]), (&"infer".into(), &true.into()));
    assert!(infer["server_saw_bytes"].as_u64().unwrap() > 9_000_000, "keys and images");
    // a ciphertext of 51 kB for each question
    for (line, mode) in lines[2..].iter().zip(["public place", "hidden place", "public, labels"]) {
        assert_eq!((&line["job"], &line["mode"]), (&"search".into(), &mode.into()));
        assert_eq!((&line["right"], &line["exact"]), (&true.into(), &true.into()), "{mode}");
        assert!(line["server_saw_bytes"].as_u64().unwrap() > 60 * 51_000, "{mode}");
    }
    // two points of 64 bytes a sample, or one and a little: fewer bytes are impossible
    for (line, (mode, sample_bytes)) in lines.iter().zip([("elgamal", 128), ("elgamal-shared", 64)]) {
        assert_eq!((&line["job"], &line["mode"]), (&"call".into(), &mode.into()));
        assert_eq!((&line["right"], &line["exact"]), (&true.into(), &true.into()), "{mode}");
        assert!(line["server_saw_bytes"].as_u64().unwrap() > 3 * 40_000 * sample_bytes, "{mode}");
    }
}

#[test]
#[cfg(not(feature = "paper"))]
fn weak_curves_are_a_wrong_call_in_a_build_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for wrong in [
        &["call", "keygen", "-o", out, "--curve", "secp160k1"][..],
        &["call", "keygen", "-o", out, "--insecure-paper", "--curve", "secp160k1"],
        &["serve", "--addr", "127.0.0.1:0", "--insecure-paper"],
    ] {
        let refused = tobari(wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&refused).contains("--features tobari-cli/paper"), "{}", stderr(&refused));
        assert!(!folder.path().join("out").exists(), "{wrong:?}");
    }
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
    assert!(caught("memory in mode elgamal-shared") && caught("another mode"));
    for known in
        ["memory", "flip one bit", "not on the curve", "another member", "another room", "twice", "off the list"]
    {
        assert!(caught(known), "{known}");
    }
    for limit in ["add a speaker twice", "add 1000", "list the speaker all the same"] {
        assert!(!caught(limit), "{limit}: if this is caught now, book/src/explanation/threats/call.md must say so");
    }
    // attacks on live rooms: the library's tests compare the table with the book; this test checks
    // that the table is printed, with the member who noticed and when
    let live: Vec<_> =
        lines.iter().filter(|line| line["attack"].as_str().unwrap().starts_with("live room: ")).collect();
    assert!(live.len() > 50, "{}", live.len());
    for line in &live {
        let noticed = line["caught_by"].is_string() && line["within_ms"].is_u64();
        assert_eq!(line["caught"].as_bool().unwrap(), noticed, "{line}");
    }
    for mode in ["mask", "elgamal-shared", "elgamal"] {
        assert!(live.iter().filter(|line| line["mode"] == mode).count() > 10, "{mode}");
    }
    // attacks on inference
    assert!(caught("inference: hand in another user's ciphertext") && caught("inference: have a picture classified"));
    assert!(!caught("inference: run another model"), "if this is caught now, threats/infer.md must say so");
    assert!(
        caught("flood the server with packets")
            && caught("split the room, and keep")
            && !caught("by a tap or the server")
    );
}

#[test]
#[cfg(target_os = "linux")]
fn results_that_are_not_read_are_no_failure_and_results_that_are_lost_are() {
    use std::process::{Command, Stdio};
    for json in [&["info"][..], &["info", "--json"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tobari"))
            .args(json)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{json:?}: {}", stderr(&ended));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = Command::new(env!("CARGO_BIN_EXE_tobari")).args(json).stdout(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{json:?}");
        assert!(stderr(&ended).contains("No space left"), "{json:?}: {}", stderr(&ended));
    }
}

#[test]
fn the_papers_search_is_planned_and_run_and_counts_right() {
    let folder = tempfile::tempdir().unwrap();
    let tier = folder.path().to_str().unwrap();
    let call = ["plan", "search", "--threads", "1", "--json", "--tier", tier, "--haplotypes", "30", "--length", "3"];
    let shown = std::process::Command::new(env!("CARGO_BIN_EXE_tobari"))
        .args(call)
        .args(["--memory", "640MiB", "--run"])
        .env("TOBARI_CACHE", tier)
        .output()
        .unwrap();
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [plan, ran] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&plan["job"], &plan["method"], &plan["length"]), (&"search".into(), &"pbwt-he".into(), &3.into()));
    assert_eq!((&ran["right"], &ran["job"]), (&true.into(), &"search".into()));
    // more than ten sites are refreshed, in memory
    let long = tobari(&["plan", "search", "--length", "11"]);
    assert_eq!(long.status.code(), Some(1));
    assert!(stderr(&long).contains("expected --memory of at least 3.") && stderr(&long).contains("found 1.00 GiB"));
    let unused = tobari(&["plan", "search", "--length", "11", "--tier", tier]);
    assert_eq!(unused.status.code(), Some(2));
    assert!(stderr(&unused).contains("it runs in memory, on one thread"), "{}", stderr(&unused));
    let shown = String::from_utf8(long.stdout).unwrap();
    assert!(shown.contains("11 refreshes of 8192 slots"), "{shown}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_job_larger_than_its_limit_is_planned_and_run_within_it_over_two_folders() {
    let [folder, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = 300 << 20;
    let limit: u64 = 600 << 20;
    let call = ["plan", "memory", "--memory", "600MiB", "--working-set", "1GiB", "--threads", "2", "--run", "--json"];
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_tobari"))
        .args(call)
        .arg("--tier")
        .arg(format!("{}:{first}", folder.path().display()))
        .arg("--tier")
        .arg(second.path())
        .env("TOBARI_CACHE", folder.path().join("cache"))
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", stderr(&ended));
    let lines = String::from_utf8(ended.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [plan, run] = &lines[..] else { panic!("{lines:?}") };
    let number = |of: &serde_json::Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name} of {of}"));
    assert!(number(plan, "read") > 0 && number(plan, "peak") <= number(plan, "values"), "{plan}");
    assert_eq!(run["right"], true, "{run}");
    assert_eq!([number(run, "read"), number(run, "written")], [number(plan, "read"), number(plan, "written")]);
    assert!(number(run, "peak") <= limit + limit / 20, "{run}");
    // the first folder is filled up, except for less than one object, and then the second
    let used: Vec<u64> = run["tiers"].as_array().unwrap().iter().map(|tier| number(tier, "bytes")).collect();
    assert!(used.len() == 2 && used[0] <= first && used[0] > first / 2 && used[1] > 0, "{run}");
    // the measurements are kept, and nothing else is left
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["cache"]);
    assert_eq!(std::fs::read_dir(second.path()).unwrap().count(), 0);
    let info = |json: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tobari"));
        let cache = folder.path().join("cache");
        let shown = command.arg("info").args(json).env("TOBARI_CACHE", cache).output().unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    let kept: serde_json::Value = serde_json::from_str(info(&["--json"]).lines().last().unwrap()).unwrap();
    assert!(kept["calibrated"] == true && number(&kept, "measured_unix_s") > 1_700_000_000, "{kept}");
    assert!(kept["step_seconds_at_levels"]["rotate"][0][1].as_f64().unwrap() > 0.0, "{kept}");
    let tiers = kept["tiers"].as_array().unwrap();
    assert!(tiers.len() == 2 && tiers.iter().all(|tier| tier["read_bytes_per_s"].as_f64() > Some(0.0)), "{kept}");
    let text = info(&[]);
    assert!(text.contains("rotate") && text.contains(&format!("tier {}:", second.path().display())), "{text}");
    let small = tobari(&["plan", "memory", "--memory", "100MiB"]);
    assert_eq!(small.status.code(), Some(1));
    assert!(stderr(&small).contains("which the process needs besides values"), "{}", stderr(&small));
    let tight = std::process::Command::new(env!("CARGO_BIN_EXE_tobari"))
        .args(call)
        .arg("--tier")
        .arg(format!("{}:64MiB", folder.path().display()))
        .env("TOBARI_CACHE", folder.path().join("cache"))
        .output()
        .unwrap();
    assert_eq!(tight.status.code(), Some(1));
    assert!(stderr(&tight).contains("which the plan keeps there, found 64.00 MiB"), "{}", stderr(&tight));
    assert_eq!(tobari(&["plan", "memory", "--tier", "/tmp:1XiB"]).status.code(), Some(2));
    for wrong in ["0", "1XiB", "-1GiB", "GiB", "1e3", "9999999TiB"] {
        assert_eq!(tobari(&["plan", "memory", "--memory", wrong]).status.code(), Some(2), "{wrong}");
    }
}
