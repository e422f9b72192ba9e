//! A blind server as a separate process on loopback: this executable, or another `tobari`.

use crate::output::Failure;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use tobari_host::process::{ChildServer, StderrMode};

/// Time for a server to start listening.
const STARTUP: Duration = Duration::from_secs(20);

/// An address of this machine with any free port.
pub const ANY_PORT: &str = "127.0.0.1:0";

/// The process; it ends when this is dropped, or with its parent.
pub struct BlindProcess {
    child: ChildServer,
    url: String,
}

/// The server's first output.
#[derive(Deserialize)]
struct Announcement {
    listening: String,
}

impl BlindProcess {
    /// Starts a server. It gets only an address, never a key.
    pub fn start(insecure_paper: bool) -> Result<Self, Failure> {
        Self::start_with(insecure_paper.then_some("--insecure-paper"))
    }

    /// Starts a server with more arguments.
    pub fn start_with<'a>(more: impl IntoIterator<Item = &'a str>) -> Result<Self, Failure> {
        Self::start_program(&std::env::current_exe()?, ANY_PORT, more)
    }

    /// Starts another `tobari` program at an address: [`ANY_PORT`], or that of a server to replace.
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

    /// The URL of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process number.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Processor time of the server in seconds, if the system reports it (Linux).
    pub fn cpu_seconds(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        // after the name in brackets: state, then eleven fields, then user and system time in
        // hundredths
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let [user, system] = [fields.get(11)?, fields.get(12)?].map(|field| field.parse::<f64>().ok());
        Some((user? + system?) / 100.0)
    }

    /// Resident memory of the server in bytes, if the system reports it (Linux).
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    }
}
