//! A folder with a fleet: its key holder, its devices, and their frames.

use super::{Server, stderr, tobari};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use tempfile::{TempDir, tempdir};

/// The folder.
pub struct Place(TempDir);

impl Place {
    /// An empty folder.
    #[allow(clippy::new_without_default, reason = "a test")]
    pub fn new() -> Self {
        Self(tempdir().unwrap())
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file; returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A fleet with these devices, provisioned.
    pub fn fleet(&self, schema: &str, devices: &[&str]) -> String {
        let schema = self.write("schema.toml", schema);
        good(&["sense", "keygen", "--schema", &schema, "-o", &self.path("holder")]);
        let (holder, output) = (self.path("holder"), self.path("devices"));
        good(&[&["sense", "provision", &holder][..], devices, &["-o", &output]].concat());
        let card: Value = serde_json::from_slice(&std::fs::read(self.path("holder/fleet.json")).unwrap()).unwrap();
        card["fleet"].as_str().unwrap().to_owned()
    }

    /// The words of `sense encrypt` for a device.
    pub fn encrypt<'a>(&'a self, device: &'a str, readings: &'a str, rest: &[&'a str]) -> Vec<String> {
        let words = [self.path(readings), "--device".to_owned(), self.path(&format!("devices/{device}.device"))];
        let card = ["--fleet".to_owned(), self.path("holder/fleet.json")];
        let first = ["sense".to_owned(), "encrypt".to_owned()].into_iter().chain(words).chain(card);
        first.chain(rest.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Seals readings of a device.
    pub fn seal(&self, device: &str, readings: &str, rest: &[&str]) -> String {
        let words = self.encrypt(device, readings, rest);
        good(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The output of a command that must succeed.
pub fn good(words: &[&str]) -> String {
    let output = tobari(words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail with this status and message.
pub fn bad(words: &[&str], status: i32, expected: &str) {
    let output = tobari(words);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
}

/// A value from the metrics of a server for devices' frames.
pub fn metric(server: &Server, name: &str) -> i64 {
    let metrics = get(&server.address(), "/sense/v1/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

/// The status and body of a reply; none if the server is gone.
pub fn ask(address: &str, method: &str, path: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status = std::str::from_utf8(&reply[..end]).unwrap().split(' ').nth(1)?.parse().ok()?;
    let length = String::from_utf8_lossy(&reply[..end]).to_ascii_lowercase();
    let length = length.split("content-length: ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let body = reply[end + 4..].to_vec();
    (length.is_none_or(|length: usize| length == body.len())).then_some((status, body))
}

/// The body of the reply at a path.
pub fn get(address: &str, path: &str) -> String {
    String::from_utf8(ask(address, "GET", path, b"").unwrap().1).unwrap()
}
