//! `cargo xtask soak NAME`: runs that are too long for every change. Each run writes a record,
//! which is committed as evidence.

use crate::child::{cargo, echo, pass_reading, target_folder, tee};
use crate::python::Environment;
use crate::record;
use crate::tools::on_path;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The default duration of a run, or of each part of a run, unless its `about` says otherwise.
pub(crate) const DEFAULT_MINUTES: u64 = 10;

struct Soak {
    name: &'static str,
    about: &'static str,
    run: fn(&Path, u64) -> Result<(), String>,
}

static SOAKS: &[Soak] = &[
    Soak { name: "fuzz", about: "every fuzz target, M minutes each; needs nightly Rust and cargo-fuzz", run: fuzz },
    Soak {
        name: "infer",
        about: "all 10,000 test images of MNIST under encryption, from the folder mnist in TOBARI_DATA",
        run: infer,
    },
    Soak {
        name: "sense-aes",
        about: "AES-128 under BGV at N = 2^17, sixteen blocks and a full batch of 1,024, every round against AES; 10 GiB of memory, 20 GB of disk",
        run: sense_aes,
    },
    Soak {
        name: "sense-exact",
        about: "10,000 devices converted exactly under encryption at full security, counted, and summed in parts; gigabytes of memory",
        run: sense_exact,
    },
    Soak {
        name: "call",
        about: "a live room of 64, and small ones in the modes of points, M minutes in all: members come, go, lose packets and vanish, and in the second half the server is killed; every sum and the server's memory are checked",
        run: call,
    },
    Soak {
        name: "call-accelerated",
        about: "a room of 64 in mode mask, M minutes of its own time as fast as they can be computed: members come, go, vanish and lose packets, the server is killed and sometimes dishonest; every sum that opens, silence and memory are checked",
        run: call_accelerated,
    },
    Soak {
        name: "all-jobs",
        about: "one server of all jobs, M minutes: the same clients and bad ones round after round, and the server's memory, threads and descriptors after each",
        run: all_jobs,
    },
    Soak {
        name: "fleet",
        about: "a day of 10,000 devices in simulated time: broker and server killed, clocks three days off, frames out of order, sent twice and lost, keys rotated; every release against the readings; needs mosquitto; prints a line of JSON",
        run: fleet,
    },
    Soak { name: "ray", about: "the jobs on a local Ray cluster of two nodes, a worker killed in mid-job", run: ray },
    Soak {
        name: "aarch64",
        about: "the program for AArch64, client and server, built here and run by an emulator of the distribution's",
        run: crate::aarch64::run,
    },
    Soak {
        name: "refresh",
        about: "1,000 refreshes in a row and 100 keys at N = 2^12, 20 in a row and three keys at N = 2^16, of both sets, against their bounds; 10 GiB of memory",
        run: refresh,
    },
    Soak {
        name: "infer-depths",
        about: "10,000 pictures and networks of 2 to 12 maps, simulated, and 200 under encryption: no label is wrong in silence",
        run: infer_depths,
    },
    Soak { name: "noise", about: "10,000 random circuits of each lattice scheme against their bounds", run: noise },
];

/// The properties for which `noise` runs many cases.
const NOISE: [&str; 2] =
    ["random_circuits_are_exact_and_stay_within_their_bound", "no_circuit_is_less_precise_than_foretold"];
const NOISE_CASES: u32 = 10_000;

/// The names `soak` takes.
pub(crate) fn names() -> Vec<&'static str> {
    SOAKS.iter().map(|soak| soak.name).collect()
}

/// Prints every long run with its description.
pub(crate) fn list() {
    SOAKS.iter().for_each(|soak| println!("{}  {}", soak.name, soak.about));
}

/// Runs the long run `name`; returns whether it passed.
pub(crate) fn run(root: &Path, name: &str, minutes: u64) -> bool {
    let soak = SOAKS.iter().find(|soak| soak.name == name);
    let result = soak.map_or_else(|| Err(format!("there is no soak {name}")), |soak| (soak.run)(root, minutes));
    match result {
        // the last line on standard output may be figures in JSON
        Ok(()) => eprintln!("soak {name}: ok"),
        Err(ref why) => eprintln!("soak {name}: FAILED: {why}"),
    }
    result.is_ok()
}

/// The figures of one target's run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fuzzed {
    executions: Option<u64>,
    per_second: Option<u64>,
    findings: Vec<String>,
}

impl Fuzzed {
    /// Reads one line of libFuzzer's output. Of a finding only the file's name is kept.
    fn read(&mut self, line: &str) {
        let number = |text: &str| text.trim().parse().ok();
        if let Some(value) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = number(value);
        } else if let Some(value) = line.strip_prefix("stat::average_exec_per_sec:") {
            self.per_second = number(value);
        } else if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.findings.push(path.trim().rsplit('/').next().unwrap_or_default().to_owned());
        }
    }
}

fn fuzz(root: &Path, minutes: u64) -> Result<(), String> {
    fuzz_tools()?;
    let targets = targets(&root.join("fuzz/fuzz_targets")).map_err(|error| format!("fuzz/fuzz_targets: {error}"))?;
    let mut runs = Vec::new();
    for target in targets {
        println!("\n== {target}");
        let fuzzed = fuzz_one(root, &target, minutes)?;
        runs.push((target, fuzzed));
    }
    let today = record::today();
    let body = fuzz_body(minutes, &runs, &record::revision(root), &record::cpu_model());
    record::append(root, &format!("fuzz-{today}.md"), &format!("Fuzzing on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))?;
    println!("\n{body}\nrecord: bench/record/fuzz-{today}.md");
    let findings: usize = runs.iter().map(|(_, fuzzed)| fuzzed.findings.len()).sum();
    if findings == 0 { Ok(()) } else { Err(format!("findings: {findings}, in fuzz/artifacts")) }
}

/// The tests with Ray. Its wheel has some hundred megabytes, and its cluster starts slowly: too
/// much for every change.
fn ray(root: &Path, _minutes: u64) -> Result<(), String> {
    let environment = Environment::provide(root, "python-ray", &["requirements.txt", "requirements-ray.txt"])?;
    environment.install()?;
    let (started, mut last) = (std::time::Instant::now(), String::new());
    let mut tests = environment.pytest();
    pass_reading(tests.arg(environment.file("tests/test_scale.py")).arg("-v"), |line| {
        last = line.trim_matches(['=', ' ']).to_owned();
    })?;
    if last.contains("skipped") {
        return Err(format!("expected every test to run, found: {last}"));
    }
    let today = record::today();
    let body = format!(
        "- command: `cargo xtask soak ray`: a head and a node of one core each on this machine; table, panel, images and sensors against one process; a worker killed in the middle of a piece\n- revision: {}\n- processor: {}\n- seconds of the tests: {}\n- pytest: {last}\n",
        record::revision(root),
        record::cpu_model(),
        started.elapsed().as_secs()
    );
    record::append(root, &format!("ray-{today}.md"), &format!("A Ray cluster of two nodes on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))?;
    println!("\n{body}\nrecord: bench/record/ray-{today}.md");
    Ok(())
}

/// Labels under encryption against labels in integers, for every test image.
fn infer(root: &Path, _minutes: u64) -> Result<(), String> {
    let data = std::env::var_os("TOBARI_DATA").ok_or("TOBARI_DATA is not set: there are no images")?;
    let folder = Path::new(&data).join("mnist");
    let results = target_folder(root).join("soak-infer");
    let mut command = Command::new("cargo");
    command
        .args(["run", "--release", "--package", "tobari-bench", "--", "infer", "--encrypted", "10000", "--mnist"])
        .arg(folder);
    command.arg("-o").arg(&results).current_dir(root).stdin(Stdio::null());
    echo(&command);
    let started = std::time::Instant::now();
    let status = command.status().map_err(|error| format!("cargo could not be run: {error}"))?;
    if !status.success() {
        return Err(format!("the benchmark ended with {status}"));
    }
    let table = std::fs::read_to_string(results.join("accuracy.csv")).map_err(|error| format!("its table: {error}"))?;
    let least = least_agreement(&table).ok_or("the table has no encrypted runs of 10,000 images")?;
    let today = record::today();
    let body = format!(
        "- command: `cargo xtask soak infer`\n- revision: {}\n- processor: {}\n- seconds, compiling included: {}\n\n{}",
        record::revision(root),
        record::cpu_model(),
        started.elapsed().as_secs(),
        markdown(&table)
    );
    record::append(root, &format!("infer-{today}.md"), &format!("Test images under encryption on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))?;
    println!("\n{body}\nrecord: bench/record/infer-{today}.md");
    let needed = 9995;
    if least >= needed { Ok(()) } else { Err(format!("expected {needed} of 10,000 equal labels, found {least}")) }
}

/// The fewest equal labels of any encrypted run; none unless every run had all 10,000 images.
fn least_agreement(table: &str) -> Option<u32> {
    let rows = table.lines().filter(|line| line.trim_start_matches('"').starts_with("encrypted"));
    let one = |line: &str| {
        // the first cell is quoted, as it has a comma
        let cells: Vec<&str> = line.rsplit('"').next()?.split(',').skip(1).collect();
        (cells.first() == Some(&"10000")).then(|| cells.get(3)?.parse().ok())?
    };
    rows.map(one).reduce(|a: Option<u32>, b| Some(a?.min(b?)))?
}

/// Converts CSV to a Markdown table; quoted cells are at the start of a line.
fn markdown(table: &str) -> String {
    let mut text = String::new();
    for (number, line) in table.lines().enumerate() {
        let (first, rest) = match line.strip_prefix('"').and_then(|line| line.split_once("\",")) {
            Some(parts) => parts,
            None => line.split_once(',').unwrap_or((line, "")),
        };
        text.push_str(&format!("| {first} | {} |\n", rest.replace(',', " | ")));
        if number == 0 {
            text.push_str(&format!("|---{}|\n", "|---:".repeat(rest.split(',').count())));
        }
    }
    text
}

/// One frame of a device, and a full batch of 64, decrypted by a server without a key. The run
/// takes as long as it needs.
fn sense_aes(root: &Path, _minutes: u64) -> Result<(), String> {
    let mut text = String::new();
    for blocks in [16, 1024] {
        let mut command = cargo(root);
        command.args(["run", "--release", "--", "plan", "sense", "--run", "--rounds", "--memory", "10GiB"]);
        command.args(["--threads", "1", "--blocks", &blocks.to_string()]);
        let mut lines = Vec::new();
        pass_reading(&mut command, |line| lines.push(line.to_owned()))?;
        if !is_right(&lines, blocks) {
            return Err("expected every round and every byte to be right, found a run that does not say so".to_owned());
        }
        text.push_str(&format!("```text\n{}\n```\n", lines.join("\n")));
    }
    let today = record::today();
    let body = format!(
        "- command: `cargo xtask soak sense-aes`\n- revision: {}\n- processor: {}\n\n{text}",
        record::revision(root),
        record::cpu_model(),
    );
    record::append(root, &format!("sense-aes-{today}.md"), &format!("AES under BGV on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))
}

/// Whether a run says that it compared ten rounds, all bytes of `blocks` blocks, and products of
/// these bytes.
fn is_right(lines: &[String], blocks: usize) -> bool {
    let secure = lines.iter().any(|line| line.ends_with(": 128 bits of security"));
    let rounds = (0..10).all(|round| lines.contains(&format!("after {round} rounds: the states of AES")));
    let said = |text: &str| lines.iter().any(|line| line == text);
    let bytes = said(&format!("all {} bytes equal the devices' readings", 16 * blocks));
    secure && rounds && bytes && said("3 products more are right in every slot")
}

/// A test that other runs ignore.
#[derive(Clone, Copy)]
struct Ignored {
    package: &'static str,
    file: &'static str,
    claim: &'static str,
    /// The features that it needs.
    features: &'static str,
    /// The beginning of its figures, each one a line of its output.
    figures: &'static str,
}

/// Runs the test, and writes a record with its figures; a failure is in the record, too.
fn ignored(root: &Path, test: &Ignored, minutes: u64, words: &str, name: &str, title: &str) -> Result<(), String> {
    let Ignored { package, file, claim, features, figures } = test;
    let mut command = cargo(root);
    command.args(["test", "--release", "--package", package, "--features", features, "--test", file, "--"]);
    command.args(["--ignored", "--nocapture", claim]).env("TOBARI_SOAK_MINUTES", minutes.to_string());
    let (mut last, mut told) = (String::new(), String::new());
    let ended = pass_reading(&mut command, |line| {
        if line.starts_with("test result: ") {
            last = line.trim().to_owned();
        } else if !figures.is_empty() && line.starts_with(figures) {
            told.push_str(&format!("- {}\n", line.trim()));
        }
    });
    let passed = last.starts_with("test result: ok. 1 passed");
    let today = record::today();
    let body = format!(
        "- command: {words}\n- revision: {}\n- processor: {}\n- claim: {}\n{told}- {last}\n",
        record::revision(root),
        record::cpu_model(),
        claim.replace('_', " "),
    );
    record::append(root, &format!("{name}-{today}.md"), &format!("{title} on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))?;
    println!("\n{body}\nrecord: bench/record/{name}-{today}.md");
    if let Some(line) = told.lines().last().and_then(|line| line.strip_prefix("- {")) {
        println!("{{{line}");
    }
    ended.and_then(|()| if passed { Ok(()) } else { Err(format!("expected one test to pass, found: {last}")) })
}

/// The exact conversion. The run takes as long as it needs.
fn sense_exact(root: &Path, minutes: u64) -> Result<(), String> {
    let test = Ignored {
        package: "tobari-sense",
        file: "all",
        claim: "a_count_over_ten_thousand_devices_and_sums_in_parts_of_257_equal_the_plain_ones_under_encryption",
        features: "",
        figures: "",
    };
    let words = "`cargo xtask soak sense-exact`: frames of 513 bytes under P1, the named set at N = 2^15, 79 batches of 128 devices";
    ignored(root, &test, minutes, words, "sense-exact", "Exact conversion")
}

/// Refreshes. The run takes as long as it needs.
fn refresh(root: &Path, minutes: u64) -> Result<(), String> {
    let test = Ignored {
        package: "tobari-lattice",
        file: "all",
        claim: "a_thousand_refreshes_in_a_row_a_hundred_keys_and_full_security_keep_their_bounds",
        features: "",
        figures: "refresh: ",
    };
    ignored(root, &test, minutes, "`cargo xtask soak refresh`", "refresh", "Refreshes")
}

/// Networks of many depths. The run takes as long as it needs.
fn infer_depths(root: &Path, minutes: u64) -> Result<(), String> {
    let test = Ignored {
        package: "tobari-infer-deep",
        file: "all",
        claim: "no_label_of_ten_thousand_pictures_and_two_to_twelve_maps_is_wrong_in_silence",
        features: "",
        figures: "depths: ",
    };
    let words = "`cargo xtask soak infer-depths`: random networks; a quarter of the pictures lie where two labels meet";
    ignored(root, &test, minutes, words, "infer-depths", "Networks of many depths")
}

/// One server, with the same clients round after round, and malicious clients.
fn all_jobs(root: &Path, minutes: u64) -> Result<(), String> {
    let test = Ignored {
        package: "tobari-cli",
        file: "all_jobs",
        claim: "a_server_of_all_jobs_grows_by_a_tenth_at_most_while_the_same_clients_and_bad_ones_come_in_round_after_round",
        features: "",
        figures: "round",
    };
    let words = format!(
        "`cargo xtask soak all-jobs --minutes {minutes}`: two clients of each job in every round, eight kinds of bad clients meanwhile; the server's memory after each round"
    );
    ignored(root, &test, minutes, &words, "all-jobs", "A server of all jobs")
}

/// A day of a fleet. The run takes as long as it needs.
fn fleet(root: &Path, minutes: u64) -> Result<(), String> {
    let test = Ignored {
        package: "tobari-cli",
        file: "sense_fleet",
        claim: "a_day_of_a_fleet_with_all_that_goes_wrong_releases_the_readings_that_were_confirmed",
        features: "simulated-clock",
        figures: "{",
    };
    let removed = Ignored { claim: "a_window_whose_frames_were_removed_has_no_result_and_the_others_go_on", ..test };
    ignored(root, &removed, minutes, "`cargo xtask soak fleet`", "sense-fleet", "A day of a fleet")?;
    let words = "`cargo xtask soak fleet`: the server, the broker and the key holder are the real programs, the time is simulated, and all but 20 devices are simulated in the test";
    ignored(root, &test, minutes, words, "sense-fleet", "A day of a fleet")
}

/// A room with a simulated clock.
fn call_accelerated(root: &Path, minutes: u64) -> Result<(), String> {
    let test = Ignored {
        package: "tobari-call",
        file: "all",
        claim: "a_room_of_64_in_accelerated_chaos_has_no_wrong_sum_is_never_stuck_and_does_not_grow",
        features: "mls",
        figures: "room",
    };
    let words = format!(
        "`cargo xtask soak call-accelerated --minutes {minutes}`: minutes of the room's time; all 64 send in every tick, and about four of them open each sum"
    );
    ignored(root, &test, minutes, &words, "call-accelerated", "A live room in accelerated chaos")
}

/// Seconds between two kills of the server of a room in chaos.
const RESTART_EVERY: u64 = 300;

/// A room in chaos.
struct ChaosRoom {
    mode: &'static str,
    members: u16,
    minutes: u64,
    /// Whether its server is killed; without kills, slow growth of memory shows.
    killed: bool,
}

/// Rooms of each mode, for `minutes` minutes together; expensive modes have smaller rooms. About
/// half of the time is for a room whose server is never killed.
fn chaos_rooms(minutes: u64) -> [ChaosRoom; 4] {
    let few = (minutes / 16).max(1);
    let masked = minutes.saturating_sub(2 * few);
    let half = (minutes / 2).min(masked.saturating_sub(1));
    let room = |mode, members, minutes: u64, killed| ChaosRoom { mode, members, minutes: minutes.max(1), killed };
    [
        room("mask", 64, half, false),
        room("mask", 64, masked - half, true),
        room("elgamal-shared", 6, few, true),
        room("elgamal", 4, few, true),
    ]
}

/// The rooms in chaos. A failed run is in the record, too.
fn call(root: &Path, minutes: u64) -> Result<(), String> {
    // the benchmark runs the program in its own folder
    pass_reading(cargo(root).args(["build", "--release", "--package", "tobari-cli"]), |_| {})?;
    let (mut rows, mut failed) = (String::new(), Vec::new());
    for ChaosRoom { mode, members, minutes, killed } in chaos_rooms(minutes) {
        let mut command = cargo(root);
        command.args(["run", "--release", "--package", "tobari-bench", "--", "call", "--live", "--mode", mode]);
        command.args(["--members", &members.to_string(), "--chaos", &minutes.to_string()]);
        if killed {
            command.args(["--restart-every", &RESTART_EVERY.to_string()]);
        }
        let mut lines = Vec::new();
        let ended = pass_reading(&mut command, |line| lines.push(line.trim_end().to_owned()));
        let told = lines.iter().rev().find(|line| line.starts_with('{')).and_then(|told| chaos_row(told));
        rows.push_str(&told.clone().unwrap_or_else(|| chaos_without_a_word(mode, minutes, members)));
        let silent = told.is_none().then(|| format!("mode {mode}: no whole line of JSON"));
        failed.extend(ended.err().or(silent));
    }
    let today = record::today();
    let body = format!(
        "- command: `cargo xtask soak call --minutes {minutes}`\n- revision: {}\n- processor: {}\n\n| {} |\n|---{}|\n{rows}",
        record::revision(root),
        record::cpu_model(),
        CHAOS.map(|(name, _)| name).join(" | "),
        "|---:".repeat(CHAOS.len() - 1)
    );
    record::append(root, &format!("call-soak-{today}.md"), &format!("Live rooms in chaos on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))?;
    println!("\n{body}\nrecord: bench/record/call-soak-{today}.md");
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Columns of the record of `call`, and their fields.
const CHAOS: [(&str, &str); 16] = [
    ("mode", "mode"),
    ("minutes", "minutes"),
    ("members", "members"),
    ("joins", "joins"),
    ("left", "leaves"),
    ("vanished", "vanished"),
    ("refused", "refused"),
    ("server killed", "restarts"),
    ("packets", "packets"),
    ("lost", "packets_lost"),
    ("sums checked", "sums"),
    ("wrong", "wrong"),
    ("least heard in a minute, %", "least_heard_percent"),
    ("server, MiB", "server_mib"),
    ("MiB a minute", "server_mib_a_minute"),
    ("ended", "ended"),
];

/// The row of a run without output.
fn chaos_without_a_word(mode: &str, minutes: u64, members: u16) -> String {
    let unknown = " | ".repeat(CHAOS.len() - 4);
    format!("| {mode} | {minutes} | {members} |{unknown}without a word |\n")
}

/// Converts the line of one run, which has only plain values, to a row.
fn chaos_row(line: &str) -> Option<String> {
    let value = |field: &str| {
        let (_, rest) = line.split_once(&format!("\"{field}\":"))?;
        Some(rest.split([',', '}']).next()?.trim_matches('"').to_owned())
    };
    let values: Option<Vec<String>> = CHAOS.iter().map(|(_, field)| value(field)).collect();
    Some(format!("| {} |\n", values?.join(" | ")))
}

/// Many random circuits. The run takes as long as it needs.
fn noise(root: &Path, _minutes: u64) -> Result<(), String> {
    let mut rows = String::new();
    for property in NOISE {
        let mut command = Command::new("cargo");
        command.args(["test", "--package", "tobari-lattice", "--lib", "--", property]);
        command.current_dir(root).env("TOBARI_CASES", NOISE_CASES.to_string()).stdin(Stdio::null());
        echo(&command);
        let started = std::time::Instant::now();
        let output = command.output().map_err(|error| format!("cargo could not be run: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}{}", String::from_utf8_lossy(&output.stderr));
        if !output.status.success() || !text.contains("1 passed") {
            return Err(format!("{property} ended with {}", output.status));
        }
        rows.push_str(&format!("| {property} | {NOISE_CASES} | {} | none |\n", started.elapsed().as_secs()));
    }
    let today = record::today();
    let body = format!(
        "- command: `cargo xtask soak noise`\n- revision: {}\n- processor: {}\n\n\
         | property | cases | seconds, compiling included | findings |\n|---|---:|---:|---|\n{rows}",
        record::revision(root),
        record::cpu_model()
    );
    record::append(root, &format!("noise-{today}.md"), &format!("Random circuits on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))
}

fn fuzz_tools() -> Result<(), String> {
    let Some(rustup) = on_path("rustup") else {
        return Err("rustup is missing, which brings nightly Rust: see https://rustup.rs".to_owned());
    };
    let toolchains = Command::new(rustup).args(["toolchain", "list"]).output();
    let has_nightly = toolchains.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|toolchain| toolchain.starts_with("nightly"))
    });
    if !has_nightly {
        return Err("nightly Rust is missing: rustup toolchain install nightly --profile minimal".to_owned());
    }
    let found = on_path("cargo-fuzz").map(drop);
    found.ok_or_else(|| "cargo-fuzz is missing: cargo install --locked cargo-fuzz".to_owned())
}

fn targets(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if let (Some("rs"), Some(stem)) = (path.extension().and_then(|end| end.to_str()), path.file_stem()) {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    if names.is_empty() { Err(io::Error::other("expected fuzz targets, found none")) } else { Ok(names) }
}

/// Runs one target. New inputs go to a scratch corpus in the build folder: the committed corpus
/// stays small, and is extended only by hand.
fn fuzz_one(root: &Path, target: &str, minutes: u64) -> Result<Fuzzed, String> {
    let scratch = target_folder(root).join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&scratch).map_err(|error| format!("cannot make the scratch corpus: {error}"))?;
    let seeds = root.join("fuzz/corpus").join(target);
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz", "run", "--fuzz-dir", "fuzz", target]);
    command.arg(&scratch).args(seeds.is_dir().then_some(&seeds));
    command.args(["--".to_owned(), format!("-max_total_time={}", minutes * 60), "-print_final_stats=1".to_owned()]);
    command.current_dir(root).env_remove("CARGO").stdin(Stdio::null()).stderr(Stdio::piped());
    echo(&command);
    let mut fuzzed = Fuzzed::default();
    let status = command.spawn().and_then(|mut child| {
        if let Some(output) = child.stderr.take() {
            tee(output, &mut io::stderr(), &mut |line: &str| fuzzed.read(line))?;
        }
        child.wait()
    });
    let status = status.map_err(|error| format!("rustup could not be run: {error}"))?;
    if fuzzed.findings.is_empty() && (!status.success() || fuzzed.executions.is_none()) {
        return Err(format!("{target} ended with {status} and neither a finding nor statistics"));
    }
    Ok(fuzzed)
}

fn fuzz_body(minutes: u64, runs: &[(String, Fuzzed)], revision: &str, cpu: &str) -> String {
    let mut body = format!(
        "- command: `cargo xtask soak fuzz --minutes {minutes}`\n- revision: {revision}\n- processor: {cpu}\n\n\
         | target | minutes at most | executions | executions per second | findings |\n|---|---:|---:|---:|---|\n"
    );
    let shown = |number: Option<u64>| number.map_or_else(|| "not told".to_owned(), |number| number.to_string());
    for (target, fuzzed) in runs {
        let findings = if fuzzed.findings.is_empty() { "none".to_owned() } else { fuzzed.findings.join(", ") };
        let (executions, per_second) = (shown(fuzzed.executions), shown(fuzzed.per_second));
        body.push_str(&format!("| {target} | {minutes} | {executions} | {per_second} | {findings} |\n"));
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Fuzzed {
        let mut fuzzed = Fuzzed::default();
        text.lines().for_each(|line| fuzzed.read(line));
        fuzzed
    }

    const QUIET: &str =
        "#2\tINITED cov: 3\nstat::number_of_executed_units: 81920\nstat::average_exec_per_sec:     4096\n";

    #[test]
    fn the_fewest_equal_labels_of_whole_runs_count() {
        let row = |how: &str, images: u32, same: u32| format!("\"encrypted: {how}\",{images},,,{same},99.99,1e-3\n");
        let head = "how,images,right,%,same label as in integers,%,largest error of a logit\n";
        let table = |rows: &[String]| format!("{head}in doubles,10000,9910,99.10,10000,100.00,\n{}", rows.concat());
        let both = table(&[row("balanced, infer-s", 10_000, 10_000), row("wide, infer-f", 10_000, 9_997)]);
        assert_eq!(least_agreement(&both), Some(9_997));
        assert_eq!(least_agreement(&table(&[row("wide, infer-f", 100, 100)])), None, "not all images");
        assert_eq!(least_agreement(&table(&[])), None);
        let text = markdown(&both);
        assert!(text.starts_with("| how | images |"), "{text}");
        assert!(text.contains("\n| encrypted: wide, infer-f | 10000 |  |  | 9997 |"), "{text}");
    }

    #[test]
    fn a_run_of_aes_is_right_only_if_all_rounds_and_bytes_are_and_the_set_is_secure() {
        let mut lines = vec!["N = 131072, 1 bits in 2 + 3 primes: 128 bits of security".to_owned()];
        lines.extend((0..10).map(|round| format!("after {round} rounds: the states of AES")));
        lines.push("all 256 bytes equal the devices' readings".to_owned());
        lines.push("3 products more are right in every slot".to_owned());
        assert!(is_right(&lines, 16) && !is_right(&lines, 1024));
        for missing in 0..lines.len() {
            let mut some = lines.clone();
            some.remove(missing);
            assert!(!is_right(&some, 16), "without line {missing}");
        }
    }

    #[test]
    fn a_run_in_chaos_becomes_a_row_and_a_line_that_lacks_something_none() {
        let line = r#"{"mode":"mask","minutes":60,"members":64,"joins":9,"leaves":4,"vanished":5,"refused":2,"restarts":3,"packets":7,"packets_lost":1,"sums":8,"wrong":0,"least_heard_percent":88,"server_mib":20.5,"server_mib_a_minute":-0.01,"ended":"well","x":1}"#;
        let row = chaos_row(line).unwrap();
        assert_eq!(row, "| mask | 60 | 64 | 9 | 4 | 5 | 2 | 3 | 7 | 1 | 8 | 0 | 88 | 20.5 | -0.01 | well |\n");
        let silent = chaos_without_a_word("mask", 60, 64);
        assert_eq!(silent.matches('|').count(), row.matches('|').count(), "{silent}");
        assert_eq!(chaos_row(&line.replace("\"wrong\"", "\"right\"")), None);
    }

    #[test]
    fn the_minutes_of_rooms_in_chaos_are_those_that_were_asked_for() {
        for minutes in [4, 10, 480, 10_080] {
            assert_eq!(chaos_rooms(minutes).iter().map(|room| room.minutes).sum::<u64>(), minutes);
        }
        let rooms = chaos_rooms(480).map(|room| (room.mode, room.minutes, room.killed));
        let [first, second, ..] = rooms;
        assert_eq!((first, second), (("mask", 240, false), ("mask", 180, true)));
        assert_eq!(rooms[2..], [("elgamal-shared", 30, true), ("elgamal", 30, true)]);
    }

    #[test]
    fn statistics_and_findings_are_read() {
        let quiet = Fuzzed { executions: Some(81_920), per_second: Some(4_096), findings: vec![] };
        assert_eq!(read(QUIET), quiet);
        let found = read("artifact_prefix='x'; Test unit written to some/folder/fuzz/artifacts/wire/crash-0a1b\n");
        assert_eq!(found.findings, ["crash-0a1b"]);
    }

    #[test]
    fn the_record_says_what_ran_on_what_and_what_was_found() {
        let runs = [("points".to_owned(), read(QUIET)), ("wire".to_owned(), read("Test unit written to a/crash-1\n"))];
        let body = fuzz_body(10, &runs, "abc1234", "A CPU");
        assert_eq!(
            body,
            "- command: `cargo xtask soak fuzz --minutes 10`\n- revision: abc1234\n- processor: A CPU\n\n\
             | target | minutes at most | executions | executions per second | findings |\n|---|---:|---:|---:|---|\n\
             | points | 10 | 81920 | 4096 | none |\n| wire | 10 | not told | not told | crash-1 |\n"
        );
    }

    #[test]
    fn a_folder_without_targets_is_an_error() {
        let folder = std::env::temp_dir().join(format!("xtask-targets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let none = targets(&folder);
        std::fs::write(folder.join("wire.rs"), "").unwrap();
        let one = targets(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(none.is_err());
        assert_eq!(one.unwrap(), ["wire"]);
    }
}
