//! A second process of this executable, its digest, and a search of a process's memory.
//!
//! Every separate process of Tobari (the blind server of a demonstration, say) runs the same
//! executable with other arguments. So there is only one file to build, ship and measure.

mod memory;
#[cfg(target_os = "linux")]
mod needles;

pub use memory::{MIN_NEEDLE_BYTES, MemorySearch, process_memory_contains};

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tobari_enclave::{Digest, Digester};

/// The start of the line in which a server announces its address, e.g.
/// `{"listening":"http://127.0.0.1:43211"}`.
pub const ANNOUNCEMENT_PREFIX: &str = "{\"listening\":\"";

/// The most bytes of an announcement.
const MAX_LINE_BYTES: u64 = 4096;
/// The last bytes of a captured standard error that are kept.
const KEPT_STDERR_BYTES: usize = 1 << 16;
/// The longest wait for the remaining output of a dead child.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Disables core files for this process and all processes it starts: a core file would hold keys,
/// speech or questions.
///
/// # Errors
/// The system's error.
#[cfg(target_os = "linux")]
pub fn leave_no_core_file() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// SHA-256 of the file that this process runs: the measurement of an enclave of the same
/// executable.
///
/// # Errors
/// The system's error.
pub fn executable_digest() -> io::Result<Digest> {
    // The file may have been replaced since the start; Linux still gives the running one.
    let own = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let (mut file, mut digester, mut piece) = (File::open(own)?, Digester::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(digester.finish()),
            Ok(count) => digester.update(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// CPU seconds of this process so far, summed over all its threads, including ended ones. `None` if
/// the system does not report them.
#[cfg(target_os = "linux")]
pub fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in brackets and may hold any character. After it follow the
    // fields to read: the 14th and 15th of all.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU seconds of this process: not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn cpu_seconds() -> Option<f64> {
    None
}

/// The destination of a child's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StderrMode {
    /// This process's standard error.
    Inherit,
    /// Memory, for the last 64 KiB: see [`ChildServer::captured_stderr`].
    Capture,
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The system did not start it.
    #[error("{program}: cannot start: {source}")]
    Start {
        /// The executable.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// It ended, or closed its standard output, before its announcement.
    #[error("{program}: expected a line that begins {ANNOUNCEMENT_PREFIX}, found the end ({status}){stderr}")]
    Ended {
        /// The executable.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its standard error where that was captured, else empty.
        stderr: String,
    },
    /// It announced nothing in time, and was killed.
    #[error("{program}: expected a line that begins {ANNOUNCEMENT_PREFIX} within {timeout_ms} ms, found none{stderr}")]
    Silent {
        /// The executable.
        program: String,
        /// The waiting time, in milliseconds.
        timeout_ms: u128,
        /// The end of its standard error where that was captured, else empty.
        stderr: String,
    },
    /// It printed another line, and was killed.
    #[error("{program}: expected a line that begins {ANNOUNCEMENT_PREFIX}, found {found:?}")]
    Unexpected {
        /// The executable.
        program: String,
        /// The line, or its first 4096 bytes.
        found: String,
    },
}

/// A server in a separate process, killed and reaped when this value is dropped.
///
/// The child inherits the environment. Its standard input is a pipe that stays open as long as this
/// value. A child that should end with its parent reads the pipe and exits at its end; this works
/// even if the parent was killed and dropped nothing. The child's standard output after the
/// announcement is read and discarded, so that the child never blocks on a full pipe.
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
/// use tobari_host::process::{ChildServer, StderrMode};
///
/// let server = ChildServer::start(["serve", "--addr", "127.0.0.1:0"], StderrMode::Inherit, Duration::from_secs(10))?;
/// println!("process {} announced {}", server.pid(), server.announced_line());
/// # Ok::<(), tobari_host::process::ProcessError>(())
/// ```
#[derive(Debug)]
pub struct ChildServer {
    child: Child,
    announced_line: String,
    stderr: Tail,
}

impl ChildServer {
    /// Starts this executable again with `args` and waits for its announcement: the first line of
    /// its standard output, which must begin with [`ANNOUNCEMENT_PREFIX`].
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]; no child is left running.
    pub fn start(
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        stderr: StderrMode,
        timeout: Duration,
    ) -> Result<Self, ProcessError> {
        let program = std::env::current_exe()
            .map_err(|source| ProcessError::Start { program: "this executable".into(), source })?;
        Self::start_program(&program, args, stderr, timeout)
    }

    /// Like [`ChildServer::start`], for another executable.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`]; no child is left running.
    pub fn start_program(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        stderr: StderrMode,
        timeout: Duration,
    ) -> Result<Self, ProcessError> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(match stderr {
            StderrMode::Inherit => Stdio::inherit(),
            StderrMode::Capture => Stdio::piped(),
        });
        let program = program.display().to_string();
        let child = command.spawn().map_err(|source| ProcessError::Start { program: program.clone(), source })?;
        // From here on this value owns the child, so every early return kills it.
        let mut server = Self { child, announced_line: String::new(), stderr: Tail::default() };
        if let Some(pipe) = server.child.stderr.take() {
            server.stderr = Tail::follow(pipe);
        }
        server.announced_line = server.wait_for_announcement(program, timeout)?;
        Ok(server)
    }

    /// The child's process identifier.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child's announcement, without the line end.
    pub fn announced_line(&self) -> &str {
        &self.announced_line
    }

    /// The last bytes (at most 64 KiB) of the child's standard error so far; empty if inherited.
    pub fn captured_stderr(&self) -> String {
        self.stderr.text()
    }

    /// How the child ended, or `None` while it runs.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    fn wait_for_announcement(&mut self, program: String, timeout: Duration) -> Result<String, ProcessError> {
        match first_line(self.child.stdout.take()).recv_timeout(timeout) {
            // A line without its end was cut, by a dying child or by the limit.
            Ok(line) if line.starts_with(ANNOUNCEMENT_PREFIX) && line.ends_with('\n') => Ok(line.trim_end().to_owned()),
            Ok(line) => Err(ProcessError::Unexpected { program, found: line.trim_end().to_owned() }),
            Err(RecvTimeoutError::Timeout) => {
                let stderr = self.stderr.last_words();
                Err(ProcessError::Silent { program, timeout_ms: timeout.as_millis(), stderr })
            }
            Err(RecvTimeoutError::Disconnected) => {
                // This has no effect on a child that has ended by itself: its own status is
                // reported.
                let _ = self.child.kill();
                let status =
                    self.child.wait().map_err(|source| ProcessError::Start { program: program.clone(), source })?;
                Err(ProcessError::Ended { program, status, stderr: self.stderr.last_words() })
            }
        }
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // Both fail only if the child has already ended and been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the first line of `stdout` with its line end, then reads and discards the rest. Closes the
/// channel if there is no line.
fn first_line(stdout: Option<ChildStdout>) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let Some(stdout) = stdout else { return };
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if read.is_err() || line.is_empty() {
            return;
        }
        // The receiver is gone if the start failed meanwhile; the pipe is drained anyway.
        let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        let _ = io::copy(&mut reader, &mut io::sink());
    });
    receiver
}

/// The last bytes of a pipe, read by a separate thread.
#[derive(Debug, Default)]
struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    closed: Option<Receiver<()>>,
}

impl Tail {
    fn follow(mut pipe: ChildStderr) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (closing, closed) = sync_channel::<()>(0);
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            let _closing = closing; // dropped at the pipe's end, which closes the channel
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..count]);
                let excess = kept.len().saturating_sub(KEPT_STDERR_BYTES);
                kept.drain(..excess);
            }
        });
        Self { kept, closed: Some(closed) }
    }

    fn text(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }

    /// The text for an error message, after a short wait for the end of a dead child's pipe.
    fn last_words(&self) -> String {
        if let Some(closed) = &self.closed {
            let _ = closed.recv_timeout(LAST_WORDS);
        }
        let text = self.text();
        if text.is_empty() { text } else { format!("; its standard error ends: {}", text.trim_end()) }
    }
}
