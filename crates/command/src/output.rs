//! The program's output: results on standard output, everything else on standard error.

#![expect(clippy::print_stderr, reason = "the one room that prints")]

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Was there a result that could not be written?
static LOST: AtomicBool = AtomicBool::new(false);

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The work failed: exit status 1.
    Work(String),
    /// The arguments were wrong: exit status 2.
    Call(String),
}

impl Failure {
    /// Prints the message under the name of the program, and returns the exit status. With
    /// `as_json` it also prints a line for programs on standard output: [`print_error`].
    pub fn report(&self, program: &str, as_json: bool) -> ExitCode {
        let status = match self {
            Failure::Work(_) => 1,
            Failure::Call(_) => 2,
        };
        if as_json {
            print_error(&self.to_string(), status);
        }
        eprintln!("{program}: {self}");
        ExitCode::from(status)
    }
}

/// Does a command line contain `--json` before a `--`?
pub fn wants_json(words: impl IntoIterator<Item = std::ffi::OsString>) -> bool {
    words.into_iter().take_while(|word| word != "--").any(|word| word == "--json")
}

/// Prints `{"error":"…","status":1}` on standard output, for programs that asked for `--json`.
pub fn print_error(message: &str, status: u8) {
    // standard error has the message, too, so a failed write loses nothing
    let _ = json(&serde_json::json!({ "error": message, "status": status }));
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Work(message) | Failure::Call(message) => f.write_str(message),
        }
    }
}

/// Every error of lower layers is a failure of the work, unless a command decides otherwise.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Work(error.to_string())
    }
}

/// The log, as every command takes it; the help of a command leaves both options out.
#[derive(Args)]
pub struct LogArguments {
    /// How much to log on standard error.
    #[arg(long, global = true, hide = true, value_enum, env = "TOBARI_LOG")]
    pub log: Option<LogLevel>,
    /// How the log is written.
    #[arg(long, global = true, hide = true, value_enum, default_value_t = LogFormat::Text, env = "TOBARI_LOG_FORMAT")]
    pub log_format: LogFormat,
}

/// The help text of [`LogArguments`], shown once per program, not with every command.
pub const LOG_HELP: &str = "\
Every command:
      --log <LEVEL>          Log to standard error: off, error, warn, info or debug [env: TOBARI_LOG]
      --log-format <FORMAT>  Write the log as text or as json [env: TOBARI_LOG_FORMAT] [default: text]

At info and below, the log has no name, address or content of a client.";

/// How the log is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How much to log.
#[derive(Clone, Copy, ValueEnum)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// And what looks wrong.
    Warn,
    /// And what happened, without any name, address or content.
    Info,
    /// And how.
    Debug,
}

/// Starts the log on standard error, at level `usual` by default.
pub fn start_log(arguments: &LogArguments, usual: LogLevel) {
    use tracing::level_filters::LevelFilter;
    let level = match arguments.log.unwrap_or(usual) {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
    }
}

/// A line for people.
pub fn say(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}

/// Prints a line of the result, for people. If it cannot be written, the work continues, and
/// [`ended`] reports the loss.
pub fn result(text: impl AsRef<str>) {
    if let Err(failure) = line(text.as_ref())
        && !LOST.swap(true, Ordering::Relaxed)
    {
        say(format!("tobari: expected to write to standard output, found: {failure}"));
    }
}

/// Prints a line of the result, for programs.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&serde_json::to_string(value)?)
}

/// Prints a result of many lines unchanged.
pub fn text(bytes: &[u8]) -> Result<(), Failure> {
    write(bytes)
}

fn line(text: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes())
}

/// A reader that closes the pipe early, like `head`, is not a failure.
fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The exit status of a command that ended with `code`: 1 if results were lost.
pub fn ended(code: ExitCode) -> ExitCode {
    if LOST.load(Ordering::Relaxed) { ExitCode::FAILURE } else { code }
}

/// Prints a line that replaces the last one; silent unless standard error is a terminal.
pub fn status(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

/// A progress line for long work; silent unless standard error is a terminal.
pub struct Progress {
    what: &'static str,
    total: u64,
    terminal: bool,
}

impl Progress {
    /// Progress of work with `total` steps.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self { what, total, terminal: std::io::stderr().is_terminal() }
    }

    /// Shows that `done` steps are complete.
    pub fn show(&self, done: u64) {
        if self.terminal && (done.is_multiple_of(10) || done == self.total) {
            let end = if done == self.total { "\n" } else { "" };
            eprint!("\r{}: {done} of {}{end}", self.what, self.total);
        }
    }
}
