//! `tobari seal` and `tobari unseal`: results for people and for scripts, and a run that is killed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]
#![cfg(linux_64)]

mod faults;
mod forge;
mod killed;
mod one;
#[cfg(feature = "age")]
mod recipients;
#[path = "../support/mod.rs"]
mod support;

use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{stderr, tobari};
use tempfile::{TempDir, tempdir};
use tobari_host::testing::not_run;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The JSON lines of a command that must succeed.
fn lines(args: &[&str]) -> Vec<Value> {
    let done = tobari(&[args, &["--json"]].concat());
    assert!(done.status.success(), "{args:?}: {}", stderr(&done));
    String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The message of a command that must fail with this exit status.
fn refused(args: &[&str], status: i32) -> String {
    let done = tobari(args);
    assert_eq!(done.status.code(), Some(status), "{args:?}: {}", stderr(&done));
    stderr(&done)
}

/// A folder with this number of files of this many bytes, some of them in subfolders.
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

fn same(a: &Path, b: &Path) -> bool {
    let status = Command::new("diff").args(["-r", text(a), text(b)]).stdout(Stdio::null()).status();
    status.unwrap().success()
}

struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("key"), [9; 32]).unwrap();
        fs::write(folder.path().join("pass"), "correct horse\n").unwrap();
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        text(&self.at(name)).to_owned()
    }
}

#[test]
fn a_folder_is_sealed_verified_listed_and_opened_with_a_new_key() {
    let (world, source) = (World::new(), folder(50, 3000));
    let (key, set, out) = (world.path("new"), world.path("set"), world.path("out"));
    for (mode, policy) in [("gcm", "module"), ("cbc", "module"), ("gcm", "best")] {
        let _ = (fs::remove_file(&key), fs::remove_dir_all(&set), fs::remove_dir_all(&out));
        let module = ["--mode", mode, "--policy", policy, "--module", "emulated"];
        let seal = [&["seal", text(source.path()), "-o", &set, "--new-key", &key][..], &module].concat();
        let sealed = lines(&seal).remove(0);
        assert_eq!((&sealed["entries"], &sealed["policy"]), (&Value::from(58), &Value::from(policy)));
        let engines = sealed["engines"].as_array().unwrap();
        let done: Vec<u64> = engines.iter().map(|engine| engine["chunks"].as_u64().unwrap()).collect();
        let last = engines.last().unwrap();
        assert_eq!((done.iter().sum::<u64>(), &last["labels"][0]), (58, &Value::from("emulated-module")));
        // Under `best` the costs determine the engine.
        assert!(policy == "best" || done.last() > Some(&0), "{engines:?}");
        let (metadata, bytes) = (fs::metadata(&key).unwrap(), fs::read(&key).unwrap());
        assert_eq!((metadata.permissions().mode() & 0o777, bytes.len()), (0o600, 32));
        let verified = lines(&["seal", "verify", &set, "--key-file", &key]).remove(0);
        assert_eq!((&verified["entries"], verified["problems"].as_array().unwrap().len()), (&Value::from(58), 0));
        let listed = lines(&["seal", "ls", &set, "--key-file", &key]);
        assert!(listed.len() == 58 && listed.iter().any(|line| line["path"] == "3/file 10" && line["bytes"] == 3000));
        lines(&["unseal", &set, "-o", &out, "--key-file", &key]);
        assert!(same(source.path(), Path::new(&out)));
    }
}

#[test]
fn a_stream_passes_through_a_pipe_and_a_cut_one_ends_with_status_1_and_a_verified_beginning() {
    let world = World::new();
    let content: Vec<u8> = (0..300_000).map(|at| (at / 5) as u8).collect();
    let (sealed, pass) = (world.path("s.seal"), world.path("pass"));
    let run = |args: &[&str], input: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tobari"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().unwrap()
        })
    };
    let done = run(&["seal", "-", "-o", &sealed, "--passphrase-file", &pass], &content);
    assert!(done.status.success(), "{}", stderr(&done));
    let bytes = fs::read(&sealed).unwrap();
    let done = run(&["unseal", "-", "-o", "-", "--passphrase-file", &pass], &bytes);
    assert!(done.status.success() && done.stdout == content, "{}", stderr(&done));
    let done = run(&["unseal", "-", "-o", "-", "--passphrase-file", &pass], &bytes[..200_000]);
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("a verified part from the start at most, and not the whole"), "{}", stderr(&done));
    assert!(!done.stdout.is_empty() && content.starts_with(&done.stdout));
}

/// The peak memory of a process so far, in bytes.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_long_stream_is_sealed_and_opened_within_64_mib_of_memory() {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 300;
    let world = World::new();
    let (sealed, key) = (world.path("s.seal"), world.path("key"));
    let start = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        command.args(words).args(["--key-file", &key]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let piece = |i: usize| -> Vec<u8> { (0..PIECE).map(|at| (at * 31 + i) as u8).collect() };
    let mut child = start(&["seal", "-", "-o", &sealed]);
    let mut input = child.stdin.take().unwrap();
    (0..PIECES).for_each(|i| input.write_all(&piece(i)).unwrap());
    let most = peak(child.id());
    drop(input);
    assert!(child.wait().unwrap().success());
    assert!(most <= 64 << 20, "{most} bytes to seal");
    let mut child = start(&["unseal", &sealed, "-o", "-"]);
    let (mut output, mut found, mut most) = (child.stdout.take().unwrap(), vec![0; PIECE], 0);
    for i in 0..PIECES {
        output.read_exact(&mut found).unwrap();
        assert!(found == piece(i), "piece {i}");
        // at the last piece the process may be gone
        most = if i + 1 < PIECES { peak(child.id()) } else { most };
    }
    assert!(output.read(&mut found).unwrap() == 0 && child.wait().unwrap().success());
    assert!(most <= 64 << 20, "{most} bytes to open");
}

#[test]
fn of_a_damaged_file_what_is_right_is_salvaged_and_the_ranges_that_are_missing_are_told() {
    let world = World::new();
    let (source, sealed, out, key) = (world.at("f"), world.path("f.seal"), world.path("out"), world.path("key"));
    let content: Vec<u8> = (0..200_000).map(|at| (at / 7 + 1) as u8).collect();
    fs::write(&source, &content).unwrap();
    lines(&["seal", text(&source), "-o", &sealed, "--key-file", &key]);
    let mut bytes = fs::read(&sealed).unwrap();
    let at = bytes.len() - 60 - 100;
    bytes[at] ^= 1;
    fs::write(&sealed, &bytes).unwrap();
    let open = ["unseal", &sealed, "-o", &out, "--key-file", &key];
    refused(&open, 1);
    assert!(!world.at("out.damaged").exists());
    let told = refused(&[&open[..], &["--salvage"]].concat(), 1);
    assert!(told.contains("found all of it but the bytes 196608 to 200000"), "{told}");
    let found = fs::read(world.at("out.damaged")).unwrap();
    assert!(found[..196_608] == content[..196_608] && found[196_608..] == [0; 200_000 - 196_608]);
    assert!(!world.at("out").exists());
}

#[test]
fn all_missing_ranges_of_a_damaged_file_are_told_to_programs_however_many_they_are() {
    let world = World::new();
    let (source, sealed, out, key) = (world.at("f"), world.path("f.seal"), world.path("out"), world.path("key"));
    fs::write(&source, vec![7; 205 << 16]).unwrap();
    lines(&["seal", text(&source), "-o", &sealed, "--key-file", &key]);
    let mut bytes = fs::read(&sealed).unwrap();
    // every other chunk, counted from the end: each chunk has a tag, and the last is followed by
    // the trailer with its tag and the MAC
    let first = bytes.len() - 205 * ((1 << 16) + 16) - (12 + 16 + 32);
    (0..205).step_by(2).for_each(|chunk| bytes[first + chunk * ((1 << 16) + 16)] ^= 1);
    fs::write(&sealed, &bytes).unwrap();
    let done = tobari(&["unseal", &sealed, "-o", &out, "--key-file", &key, "--salvage", "--json"]);
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((done.status.code(), told["missing"].as_array().unwrap().len()), (Some(1), 1));
    let missing = &told["missing"][0];
    assert_eq!(missing["file"], json!(format!("{out}.damaged")));
    let expected: Vec<Value> = (0..205).step_by(2).map(|chunk| json!([chunk << 16, (chunk + 1) << 16])).collect();
    assert_eq!(missing["ranges"], Value::Array(expected));
    assert!(stderr(&done).contains(" and 3 ranges more"), "{}", stderr(&done));
    // a truncated stream, whose length is unknown
    let cut = Command::new("sh")
        .args([
            "-c",
            "head -c 100000 /dev/zero | \"$1\" seal - -o \"$2\" --key-file \"$3\" --force && truncate -s -90 \"$2\"",
            "sh",
        ])
        .args([env!("CARGO_BIN_EXE_tobari"), &sealed, &key])
        .output();
    assert!(cut.unwrap().status.success());
    let done = tobari(&["unseal", &sealed, "-o", &out, "--key-file", &key, "--salvage", "--json", "--force"]);
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["missing"][0]["ranges"], json!([[65_536, null]]));
}

#[test]
fn wrong_calls_and_wrong_keys_say_what_was_expected() {
    let (world, source) = (World::new(), folder(3, 10));
    let (set, key) = (world.path("set"), world.path("key"));
    assert!(refused(&["seal", text(source.path()), "-o", &set], 2).contains("no key is given: add"));
    refused(&["seal"], 2);
    fs::write(world.at("short"), [9; 31]).unwrap();
    let short = refused(&["seal", text(source.path()), "-o", &set, "--key-file", &world.path("short")], 1);
    assert!(short.contains("exactly 32 bytes"), "{short}");
    lines(&["seal", text(source.path()), "-o", &set, "--key-file", &key]);
    let again = refused(&["seal", text(source.path()), "-o", &set, "--key-file", &key], 1);
    assert!(again.contains("--force"), "{again}");
    fs::write(world.at("other"), [8; 32]).unwrap();
    let other = refused(&["seal", "verify", &set, "--key-file", &world.path("other")], 1);
    assert!(other.contains("none of the given keys decrypts this file"), "{other}");
    let kept = lines(&["seal", text(source.path()), "-o", &set, "--key-file", &key, "--force"]).remove(0);
    assert_eq!(kept["kept"], kept["entries"]);
}

/// Runs a shell script with the program as `$1`, followed by further words.
fn shell(script: &str, words: &[&str]) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_tobari");
    Command::new("sh").args(["-c", script, "sh", program]).args(words).stdin(Stdio::null()).output().unwrap()
}

/// Runs a script with the program and these words where the script may mount file systems. None
/// where mounting is forbidden (the script exits with 77).
fn in_a_name_space(script: &str, words: &[&str]) -> Option<std::process::Output> {
    let mut unshared = Command::new("unshare");
    unshared.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_tobari")]);
    let done = unshared.args(words).stdin(Stdio::null()).output().ok()?;
    Some(done).filter(|done| done.status.code() != Some(77) && !done.stdout.is_empty())
}

#[test]
fn a_full_disk_ends_the_run_with_an_error_and_room_lets_it_be_continued() {
    let (world, source) = (World::new(), folder(300, 20_000));
    let (key, out) = (world.path("key"), world.path("out"));
    // A file system of 2 MB in a name space of its own, where the system allows it.
    let script = "mount -t tmpfs -o size=2m none \"$2\" || exit 77
        \"$1\" seal \"$3\" -o \"$2/set\" --key-file \"$4\"; echo \"status $?\"
        \"$1\" unseal \"$2/set\" -o \"$5/salvaged\" --key-file \"$4\" --salvage; echo \"salvaged $?\"
        ls \"$2/set/manifest.seal\"
        mount -o remount,size=40m \"$2\" && \"$1\" seal \"$3\" -o \"$2/set\" --key-file \"$4\"; echo \"status $?\"
        \"$1\" unseal \"$2/set\" -o \"$5/whole\" --key-file \"$4\"; echo \"opened $?\"";
    let mount = world.path("mount");
    fs::create_dir_all(&mount).unwrap();
    fs::create_dir_all(&out).unwrap();
    let words = [&mount, text(source.path()), &key, &out];
    let Some(done) = in_a_name_space(script, &words) else {
        let name = "a_full_disk_ends_the_run_with_an_error_and_room_lets_it_be_continued";
        return not_run(name, "this system makes no file system for who asks");
    };
    let (told, errors) = (String::from_utf8_lossy(&done.stdout).into_owned(), stderr(&done));
    assert!(errors.contains("No space left on device") && errors.contains("manifest.seal"), "{told}{errors}");
    let status: Vec<&str> = told.lines().filter(|line| line.starts_with("status")).collect();
    assert_eq!(status, ["status 1", "status 0"], "{told}{errors}");
    assert!(told.contains("salvaged 0") && told.contains("opened 0"), "{told}{errors}");
    assert!(same(source.path(), &Path::new(&out).join("whole")));
}

#[test]
fn an_opening_onto_a_full_disk_leaves_whole_files_alone_and_room_lets_it_be_done() {
    let (world, source) = (World::new(), folder(300, 20_000));
    let (key, out, mount) = (world.path("key"), world.path("out"), world.path("mount"));
    let script = "mount -t tmpfs -o size=2m none \"$2\" || exit 77
        \"$1\" seal \"$3\" -o \"$5/set\" --key-file \"$4\"; echo \"status $?\"
        \"$1\" unseal \"$5/set\" -o \"$2/back\" --key-file \"$4\"; echo \"status $?\"
        cp -a \"$2/back\" \"$5/left\" && mount -o remount,size=40m \"$2\"
        \"$1\" unseal \"$5/set\" -o \"$2/back\" --key-file \"$4\" --force; echo \"status $?\"
        cp -a \"$2/back\" \"$5/whole\"";
    fs::create_dir_all(&mount).unwrap();
    fs::create_dir_all(&out).unwrap();
    let words = [&mount, text(source.path()), &key, &out];
    let Some(done) = in_a_name_space(script, &words) else {
        let name = "an_opening_onto_a_full_disk_leaves_whole_files_alone_and_room_lets_it_be_done";
        return not_run(name, "this system makes no file system for who asks");
    };
    let (told, errors) = (String::from_utf8_lossy(&done.stdout).into_owned(), stderr(&done));
    let status: Vec<&str> = told.lines().filter(|line| line.starts_with("status")).collect();
    assert_eq!(status, ["status 0", "status 1", "status 0"], "{told}{errors}");
    assert!(errors.contains("No space left on device"), "{told}{errors}");
    let left = Path::new(&out).join("left");
    assert!(killed::parts(&left).is_empty(), "{told}{errors}");
    let mut whole = 0;
    for folder in (0..7).map(|at| at.to_string()) {
        for entry in fs::read_dir(left.join(&folder)).into_iter().flatten() {
            let place = entry.unwrap().path();
            let original = fs::read(source.path().join(&folder).join(place.file_name().unwrap())).unwrap();
            assert!(fs::read(&place).unwrap() == original, "{}", place.display());
            whole += 1;
        }
    }
    assert!((1..300).contains(&whole), "{whole} files of 300");
    assert!(same(source.path(), &Path::new(&out).join("whole")));
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_has_its_name() {
    let world = World::new();
    let (big, sealed, key) = (world.path("big"), world.path("big.seal"), world.path("key"));
    fs::write(&big, vec![5; 3 << 20]).unwrap();
    // No file may exceed 1 MiB, and no signal reports that.
    let limited = "trap '' XFSZ; ulimit -f 2048; exec \"$1\" seal \"$2\" -o \"$3\" --key-file \"$4\"";
    let done = shell(limited, &[&big, &sealed, &key]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("File too large"), "{}", stderr(&done));
    assert!(!Path::new(&sealed).exists() && killed::parts(world.folder.path()).is_empty());
    lines(&["seal", &big, "-o", &sealed, "--key-file", &key]);
    lines(&["unseal", &sealed, "-o", &world.path("back"), "--key-file", &key]);
    assert!(fs::read(&big).unwrap() == fs::read(world.at("back")).unwrap());
}

#[test]
fn fault_5_files_that_may_not_be_read_are_named_stay_as_they_were_and_all_others_are_sealed() {
    let (world, source) = (World::new(), folder(20, 1000));
    let key = world.path("key");
    fs::set_permissions(source.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let set = world.path("set");
    let may_be_read = |may: bool| {
        for (name, mode) in [("0/file 0", 0o644), ("1/file 1", 0o644), ("2", 0o755)] {
            let mode = fs::Permissions::from_mode(if may { mode } else { 0o000 });
            fs::set_permissions(source.path().join(name), mode).unwrap();
        }
    };
    // A user who may read everything becomes a user who may not.
    let script = "if [ \"$(id -u)\" = 0 ]; then drop='setpriv --reuid=65534 --regid=65534 --clear-groups'; fi
        exec $drop \"$1\" seal \"$2\" -o \"$3\" --key-file \"$4\" --json --force";
    let seal = || shell(script, &[text(source.path()), &set, &key]);
    may_be_read(false);
    let done = seal();
    may_be_read(true);
    if done.stdout.is_empty() {
        let name = "fault_5_files_that_may_not_be_read_are_named_stay_as_they_were_and_all_others_are_sealed";
        return not_run(name, &format!("nobody else can be had here: {}", stderr(&done).trim()));
    }
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    let problems: Vec<&str> = told["problems"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
    // in any order: files go through the engines, folders do not
    for name in ["0/file 0:", "1/file 1:", "/2:"] {
        let told = |problem: &&str| problem.contains(name) && problem.contains("Permission denied");
        assert!(problems.iter().any(told), "{name} in {problems:?}");
    }
    let verified = lines(&["seal", "verify", &set, "--key-file", &key]).remove(0);
    // 20 files and 8 folders, without two files and the three files of one folder.
    assert_eq!(verified["entries"], 23);
    // A sealed file stays in the set when its source becomes unreadable.
    let told: Value = serde_json::from_slice(&seal().stdout).unwrap();
    assert_eq!((&told["entries"], &told["problems"]), (&json!(28), &json!([])));
    may_be_read(false);
    let told: Value = serde_json::from_slice(&seal().stdout).unwrap();
    may_be_read(true);
    let stale = json!(["0/file 0", "1/file 1", "2/file 16", "2/file 2", "2/file 9"]);
    assert_eq!((&told["entries"], &told["removed"], &told["stale"]), (&json!(28), &json!(0), &stale));
    let files = Command::new("find").args([&set, "-name", "*.seal"]).output().unwrap();
    assert_eq!(String::from_utf8(files.stdout).unwrap().lines().count(), 28 + 2);
    // The set is complete, and names its stale entries.
    let verified = lines(&["seal", "verify", &set, "--key-file", &key]).remove(0);
    assert_eq!((&verified["entries"], &verified["problems"], &verified["stale"]), (&json!(28), &json!([]), &stale));
    let listed = lines(&["seal", "ls", &set, "--key-file", &key]);
    let old: Vec<&Value> = listed.iter().filter(|line| line["stale"] == true).map(|line| &line["path"]).collect();
    assert_eq!(json!(old), stale);
    // The entry of a removed source is removed, although another source is unreadable.
    fs::remove_file(source.path().join("3/file 3")).unwrap();
    may_be_read(false);
    let told: Value = serde_json::from_slice(&seal().stdout).unwrap();
    may_be_read(true);
    assert_eq!((&told["entries"], &told["removed"], &told["stale"]), (&json!(27), &json!(1), &stale));
    // A source that is readable again is no longer stale.
    let told: Value = serde_json::from_slice(&seal().stdout).unwrap();
    assert_eq!((&told["entries"], &told["stale"], &told["problems"]), (&json!(27), &json!([]), &json!([])));
}

#[test]
fn a_passphrase_is_asked_for_at_the_terminal_twice_to_seal_and_once_to_open() {
    let (world, source) = (World::new(), folder(3, 100));
    let (set, out) = (world.path("set"), world.path("out"));
    let typed = |command: &str, words: &[&str]| {
        // `script` gives the program a terminal of its own. Input typed before the prompt would be
        // echoed.
        let words: String = words.iter().map(|word| format!("sleep 1; echo {word};")).collect();
        let line = format!("({words}) | script -qec '{} {command}' /dev/null", env!("CARGO_BIN_EXE_tobari"));
        Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output().unwrap()
    };
    if Command::new("script").arg("--version").output().is_err() {
        let name = "a_passphrase_is_asked_for_at_the_terminal_twice_to_seal_and_once_to_open";
        return not_run(name, "there is no `script` here, which makes a terminal");
    }
    let seal = format!("seal {} -o {set} --passphrase", text(source.path()));
    let done = typed(&seal, &["one", "two"]);
    assert_eq!(done.status.code(), Some(1));
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(told.contains("the two passphrases differ") && !told.contains("one"), "{told}");
    let done = typed(&seal, &["horsestaple", "horsestaple"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let done = typed(&format!("unseal {set} -o {out} --passphrase"), &["horsestaple"]);
    assert!(done.status.success() && same(source.path(), Path::new(&out)), "{}", String::from_utf8_lossy(&done.stdout));
    let nobody = refused(&["seal", "verify", &set, "--passphrase"], 1);
    assert!(
        nobody.contains("there is no terminal to ask for a passphrase")
            || nobody.contains("none of the given keys decrypts this file"),
        "{nobody}"
    );
}
