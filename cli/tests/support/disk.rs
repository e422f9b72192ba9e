//! A server on a small file system of its own, which a test can fill.

use super::address;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The server, and where its file system is.
pub struct SmallDisk {
    child: Child,
    said: BufReader<ChildStdout>,
    /// The address at which the server listens.
    pub url: String,
    /// The file system, seen from outside its name space.
    pub seen: PathBuf,
}

impl SmallDisk {
    /// Runs a shell script in a name space where it may mount, with the program, the mount point
    /// and more words. The script mounts (or exits with 77), and starts the server. None where the
    /// system makes no such file system.
    pub fn start(script: &str, mount: &str, words: &[&str]) -> Option<Self> {
        std::fs::create_dir(mount).unwrap();
        let mut unshared = Command::new("unshare");
        unshared.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        unshared.args([env!("CARGO_BIN_EXE_tobari"), mount]).args(words);
        let mut child = unshared.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let (mut said, mut line) = (BufReader::new(child.stdout.take().unwrap()), String::new());
        if said.read_line(&mut line).unwrap() == 0 {
            assert_eq!(child.wait().unwrap().code(), Some(77), "the server starts");
            return None;
        }
        let told: Value = serde_json::from_str(&line).unwrap();
        let seen = format!("/proc/{}/root{mount}", child.id()).into();
        Some(Self { child, said, url: told["listening"].as_str().unwrap().to_owned(), seen })
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        address(&self.url)
    }

    /// Fills the file system; returns the file that takes the space.
    pub fn fill(&self) -> PathBuf {
        let path = self.seen.join("filler");
        let mut filler = File::create(&path).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
        path
    }

    /// Lets the script continue after its `read`, and waits until it has printed this and exited.
    pub fn end(mut self, expected: &str) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert!(line.trim_end() == expected && self.child.wait().unwrap().success(), "{line}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
