//! `tobari seal` and `tobari unseal`: what people and scripts get, and a run that is killed.

#![allow(clippy::unwrap_used, reason = "a test")]
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]

mod support;

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{stderr, tobari};
use tempfile::{TempDir, tempdir};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The JSON lines of a command that has to succeed.
fn lines(args: &[&str]) -> Vec<Value> {
    let done = tobari(&[args, &["--json"]].concat());
    assert!(done.status.success(), "{args:?}: {}", stderr(&done));
    String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a command says that has to fail, with its exit status.
fn refused(args: &[&str], status: i32) -> String {
    let done = tobari(args);
    assert_eq!(done.status.code(), Some(status), "{args:?}: {}", stderr(&done));
    stderr(&done)
}

/// A folder of so many files of so many bytes, some in folders.
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
    for (mode, policy) in [("gcm", "best"), ("cbc", "queue")] {
        let _ = (fs::remove_file(&key), fs::remove_dir_all(&set), fs::remove_dir_all(&out));
        let module = ["--mode", mode, "--policy", policy, "--module", "emulated"];
        let seal = [&["seal", text(source.path()), "-o", &set, "--new-key", &key][..], &module].concat();
        let sealed = lines(&seal).remove(0);
        assert_eq!((&sealed["entries"], &sealed["policy"]), (&Value::from(58), &Value::from(policy)));
        let engines = sealed["engines"].as_array().unwrap();
        let chunks: u64 = engines.iter().map(|engine| engine["chunks"].as_u64().unwrap()).sum();
        assert_eq!((chunks, &engines.last().unwrap()["labels"][0]), (58, &Value::from("emulated-module")));
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

#[test]
fn wrong_calls_and_wrong_keys_say_what_was_expected() {
    let (world, source) = (World::new(), folder(3, 10));
    let (set, key) = (world.path("set"), world.path("key"));
    assert!(refused(&["seal", text(source.path()), "-o", &set], 2).contains("expected --key-file"));
    refused(&["seal"], 2);
    fs::write(world.at("short"), [9; 31]).unwrap();
    let short = refused(&["seal", text(source.path()), "-o", &set, "--key-file", &world.path("short")], 1);
    assert!(short.contains("exactly 32 bytes"), "{short}");
    lines(&["seal", text(source.path()), "-o", &set, "--key-file", &key]);
    let again = refused(&["seal", text(source.path()), "-o", &set, "--key-file", &key], 1);
    assert!(again.contains("--force"), "{again}");
    fs::write(world.at("other"), [8; 32]).unwrap();
    let other = refused(&["seal", "verify", &set, "--key-file", &world.path("other")], 1);
    assert!(other.contains("expected a key that opens it, found none"), "{other}");
    let kept = lines(&["seal", text(source.path()), "-o", &set, "--key-file", &key, "--force"]).remove(0);
    assert_eq!(kept["kept"], kept["entries"]);
}

#[test]
fn a_run_that_is_killed_loses_nothing_and_is_continued() {
    let (world, source) = (World::new(), folder(600, 20_000));
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    let arguments = ["seal", text(source.path()), "-o", &set, "--key-file", &key];
    let mut torsos = 0;
    for wait_ms in [60, 90, 120, 150] {
        let mut child =
            Command::new(env!("CARGO_BIN_EXE_tobari")).args(arguments).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let list = Path::new(&set).join("manifest.seal");
        if list.exists() {
            fs::remove_file(list).unwrap(); // it was faster: an unfinished set all the same
        } else {
            torsos += 1;
        }
        // Whatever has a final name is whole.
        let salvaged = world.path(&format!("salvaged {wait_ms}"));
        if Path::new(&set).join("set.seal").exists() {
            lines(&["unseal", &set, "-o", &salvaged, "--key-file", &key, "--salvage"]);
        }
    }
    let sealed = lines(&arguments).remove(0);
    assert_eq!(sealed["entries"], 608);
    lines(&["unseal", &set, "-o", &out, "--key-file", &key]);
    assert!(same(source.path(), Path::new(&out)) && torsos > 0, "{torsos} runs were killed before their end");
    let left = Command::new("find").args([&set, "-name", ".tobari-part*"]).output().unwrap();
    assert!(left.stdout.is_empty());
}
