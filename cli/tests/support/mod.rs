//! Shared by the tests of the program: running it, and making recordings.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(unreachable_pub, reason = "a module of test files")]

pub mod broker;
pub mod disk;
pub mod exposition;
pub mod fleet;
pub mod genome;
pub mod memory;
pub mod rude;
#[cfg(unix)]
pub mod shell;
pub mod tables;
pub mod tap;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;

/// Messages of all programs to people, once a test asks for them.
static SAID: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Runs the program.
pub fn tobari(args: &[&str]) -> Output {
    run(Command::new(env!("CARGO_BIN_EXE_tobari")).args(args).stdin(Stdio::null()))
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    done(spawn(command))
}

/// Starts a command.
pub fn spawn(command: &mut Command) -> Child {
    if SAID.lock().unwrap().is_some() {
        command.env("TOBARI_LOG", "debug");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end of a process.
pub fn done(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    SAID.lock().unwrap().iter_mut().for_each(|said| said.extend_from_slice(&output.stderr));
    output
}

/// From now on all programs log at level `debug`, and their messages to people are kept.
pub fn keep_what_is_said() {
    SAID.lock().unwrap().get_or_insert_default();
}

/// The kept messages.
pub fn said() -> Vec<u8> {
    SAID.lock().unwrap().clone().unwrap_or_default()
}

/// The program's messages to people.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a command gave no result: no output, or with `--json` only the error.
pub fn has_no_answer(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stdout);
    text.is_empty() || text.lines().count() == 1 && text.starts_with("{\"error\":")
}

/// Cheap deterministic noise that fills 16 bits.
pub fn noise(seed: u64, samples: usize) -> Vec<i16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as i16
    };
    std::iter::repeat_with(next).take(samples).collect()
}

/// Writes a 16 kHz mono 16-bit recording.
pub fn record(folder: &Path, name: &str, samples: &[i16]) -> PathBuf {
    let path = folder.join(name);
    tobari_call_files::wav::write_pcm16(&path, samples).unwrap();
    path
}

/// The 32-bit samples of an exact mix.
pub fn exact_samples(path: &Path) -> Vec<i32> {
    let mut reader = hound::WavReader::open(path).unwrap();
    assert_eq!((reader.spec().sample_rate, reader.spec().channels, reader.spec().bits_per_sample), (16_000, 1, 32));
    reader.samples::<i32>().map(Result::unwrap).collect()
}

/// The host and port of a URL, without the scheme.
pub fn address(url: &str) -> &str {
    url.split_once("://").unwrap().1
}

/// A blind server started by hand, as in another terminal.
pub struct Server {
    child: Child,
    /// The address at which the server listens.
    pub url: String,
    /// The fingerprint of its certificate, if it has one.
    pub fingerprint: Option<String>,
    /// The first line that the server prints, in JSON.
    pub announced: serde_json::Value,
}

impl Server {
    /// Starts `tobari serve` with these further arguments on a free port.
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(args, Stdio::piped())
    }

    /// Starts the server at the address of an earlier one, which was killed.
    pub fn start_again_at(address: &str) -> Self {
        Self::spawn_at(Path::new("."), address, &[], Stdio::piped())
    }

    /// Starts the server in a folder.
    pub fn start_in(folder: &Path, args: &[&str]) -> Self {
        Self::spawn_at(folder, "127.0.0.1:0", args, Stdio::piped())
    }

    /// The same with the log at the end of a file, for a server that logs more than a pipe holds.
    pub fn logging_to(file: &Path, args: &[&str]) -> Self {
        Self::spawn(args, std::fs::File::options().create(true).append(true).open(file).unwrap().into())
    }

    /// The same with variables of the environment.
    pub fn logging_with(file: &Path, args: &[&str], variables: &[(&str, String)]) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(file).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Self::spawn_as(command, (Path::new("."), "127.0.0.1:0"), args, log.into())
    }

    fn spawn(args: &[&str], log: Stdio) -> Self {
        Self::spawn_at(Path::new("."), "127.0.0.1:0", args, log)
    }

    fn spawn_at(folder: &Path, address: &str, args: &[&str], log: Stdio) -> Self {
        Self::spawn_as(Command::new(env!("CARGO_BIN_EXE_tobari")), (folder, address), args, log)
    }

    fn spawn_as(mut command: Command, (folder, address): (&Path, &str), args: &[&str], log: Stdio) -> Self {
        command.args(["serve", "--addr", address, "--json"]).args(args).current_dir(folder);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let announced: serde_json::Value = serde_json::from_str(&line).unwrap();
        let text = |key: &str| announced[key].as_str().map(str::to_owned);
        Self { child, url: text("listening").unwrap(), fingerprint: text("tls_fingerprint"), announced }
    }

    /// The address without the scheme.
    pub fn address(&self) -> String {
        address(&self.url).to_owned()
    }

    /// Whether the server still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Kills the server, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The process number of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the server and returns its log, unless the log goes to a file.
    pub fn stop(mut self) -> String {
        self.child.kill().unwrap();
        let mut log = String::new();
        let pipe = self.child.stderr.take();
        pipe.map(|mut pipe| pipe.read_to_string(&mut log).unwrap());
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
