//! A blind server as a separate process on loopback: of this same executable, or of another that is
//! `tobari`.

use crate::output::Failure;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use tobari_host::process::{ChildServer, StderrMode};

/// How long a server may take to listen.
const STARTUP: Duration = Duration::from_secs(20);

/// An address of this machine, and whatever port is free.
pub const ANY_PORT: &str = "127.0.0.1:0";

/// The process; ends when this is dropped, or with its parent.
pub struct BlindProcess {
    child: ChildServer,
    url: String,
}

/// What the server says first.
#[derive(Deserialize)]
struct Announcement {
    listening: String,
}

impl BlindProcess {
    /// Starts it. It gets an address and nothing else: there is no key that it could be given.
    pub fn start(insecure_paper: bool) -> Result<Self, Failure> {
        Self::start_with(insecure_paper.then_some("--insecure-paper"))
    }

    /// Starts it with more words on its command line.
    pub fn start_with<'a>(more: impl IntoIterator<Item = &'a str>) -> Result<Self, Failure> {
        Self::start_program(&std::env::current_exe()?, ANY_PORT, more)
    }

    /// Starts another program, which is `tobari` too, at an address: [`ANY_PORT`], or that of a
    /// server whose place it takes.
    pub fn start_program<'a>(
        program: &Path,
        address: &'a str,
        more: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let mut args = vec!["serve", "--addr", address, "--json", "--until-stdin-closes", "--log", "warn"];
        args.extend(more);
        let child = ChildServer::start_program(program, args, StderrMode::Inherit, STARTUP)?;
        let announcement: Announcement = serde_json::from_str(child.announced_line())?;
        Ok(Self { child, url: announcement.listening })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Seconds that the processors have worked for it, where the system tells (Linux).
    pub fn cpu_seconds(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        // after the name in brackets: state, then eleven fields, then user and system time in
        // hundredths
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let [user, system] = [fields.get(11)?, fields.get(12)?].map(|field| field.parse::<f64>().ok());
        Some((user? + system?) / 100.0)
    }

    /// Bytes of it that are in memory, where the system tells (Linux).
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    }
}
