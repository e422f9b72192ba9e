//! Shared by the tests of the search over HTTP: a folder with tables and keys, questions, and raw
//! requests.

use super::{noise, stderr};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::{TempDir, tempdir};

/// The number of sites of a table.
pub const SITES: usize = 50;
/// The number of samples of a table, each with two haplotypes.
pub const SAMPLES: usize = 60;

/// A folder with tables, keys and tokens, and a cache of its own.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// A new folder with a key.
    pub fn new() -> Self {
        let place = Self { folder: tempdir().unwrap() };
        place.good(&["search", "keygen", "-o", &place.path("key")]);
        place
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file with this text; returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self.path(name)
    }

    /// The program with its arguments, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        command.args(args).stdin(Stdio::null()).env("TOBARI_CACHE", self.path("cache"));
        command
    }

    /// Runs the program.
    pub fn run(&self, args: &[&str]) -> Output {
        super::run(&mut self.command(args))
    }

    /// Runs the program, which must succeed; returns its output.
    pub fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A table of random variants, with or without phase.
    pub fn variants(&self, name: &str, sites: usize, separator: char) -> String {
        let vcf = self.write(&format!("{name}.vcf"), &vcf(sites, separator));
        self.good(&["search", "index", &vcf, "-o", &self.path(name), "--label", name]);
        self.path(name)
    }

    /// A client's token, and its line in a file of tokens.
    pub fn token(&self, name: &str) -> (String, String) {
        let told: Value = serde_json::from_str(&self.good(&["search", "token", name, "--json"])).unwrap();
        (told["token"].as_str().unwrap().to_owned(), told["line"].as_str().unwrap().to_owned())
    }

    /// Queries a server, with public places unless the arguments hide them.
    pub fn query(&self, url: &str, args: &[&str]) -> Output {
        let key = self.path("key");
        let has = |option| args.contains(&option);
        let place: &[&str] = match (has("--hidden"), has("--least-places")) {
            (_, true) => &[],
            // the tables of tests are small
            (true, false) => &["--least-places", "10"],
            (false, false) => &["--public"],
        };
        self.run(&[&["search", "query", "--server", url, "--key", &key, "--json"], place, args].concat())
    }

    /// Queries a server and the plain table, and compares.
    pub fn same(&self, url: &str, table: &str, queries: &str, how: &[&str], clear: &[&str]) {
        let clear = self.good(&[&["search", "check", table, "--queries", queries, "--json"], clear].concat());
        let asked = self.query(url, &[&["--queries", queries], how].concat());
        assert!(asked.status.success(), "{}", stderr(&asked));
        let asked = String::from_utf8(asked.stdout).unwrap();
        assert!(clear.contains("true") && clear.contains("false"), "both happen");
        let asked = if asked.contains("hidden_among") { without_places(&asked, 10) } else { asked };
        assert_eq!(asked, clear, "{how:?}");
    }
}

/// Answers without the number of places among which each was hidden. The number must be at least
/// this one.
pub fn without_places(answers: &str, least: u64) -> String {
    let bare = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let among = line.as_object_mut().unwrap().remove("hidden_among").unwrap();
        assert!(among.as_u64().unwrap() >= least, "{among}");
        format!("{line}\n")
    };
    answers.lines().map(bare).collect()
}

/// Genotypes of mosaics of a few founders, so that patterns repeat.
pub fn vcf(sites: usize, separator: char) -> String {
    let founders = noise(5, 6 * SITES);
    let of = noise(6, 2 * SAMPLES);
    let mut text = String::from(
        "##fileformat=VCFv4.2\n##contig=<ID=20>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"x\">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT",
    );
    (0..SAMPLES).for_each(|sample| write!(text, "\ts{sample}").unwrap());
    for site in 0..sites {
        write!(text, "\n20\t{}\t.\tA\tC\t.\t.\t.\tGT", position(site)).unwrap();
        for sample in 0..SAMPLES {
            let allele = |haplotype: usize| {
                let founder = of[haplotype].unsigned_abs() as usize % 6;
                u8::from(founders[founder * SITES + site] > 4_000)
            };
            write!(text, "\t{}{separator}{}", allele(2 * sample), allele(2 * sample + 1)).unwrap();
        }
    }
    text.push('\n');
    text
}

/// The position of a site.
pub fn position(site: usize) -> usize {
    7_654_000 + 31 * site
}

/// Questions about this number of alleles, at many sites.
pub fn questions(length: usize, count: usize) -> String {
    let mut text = String::new();
    let founders = noise(5, 6 * SITES);
    for i in 0..count {
        let (start, founder) = (i * 7 % (SITES - length), i % 6);
        let mut alleles: Vec<bool> = (0..length).map(|j| founders[founder * SITES + start + j] > 4_000).collect();
        if i % 3 == 2 {
            alleles[i % length] ^= true;
        }
        let alleles: String = alleles.iter().map(|allele| if *allele { '1' } else { '0' }).collect();
        writeln!(text, "20:{}\t{alleles}", position(start)).unwrap();
    }
    text
}

/// Questions about this number of alleles at one site: those of every founder, and the same with
/// one change.
pub fn questions_at(start: usize, length: usize) -> String {
    let founders = noise(5, 6 * SITES);
    let mut text = String::new();
    for founder in 0..6 {
        for changed in [None, Some(founder % length)] {
            let allele = |j: usize| (founders[founder * SITES + start + j] > 4_000) ^ (changed == Some(j));
            let alleles: String = (0..length).map(|j| if allele(j) { '1' } else { '0' }).collect();
            writeln!(text, "20:{}\t{alleles}", position(start)).unwrap();
        }
    }
    text
}

/// Sends a raw request on a connection of its own; returns the status and the whole reply. The
/// status is 0 without a server.
pub fn raw(address: &str, request: &[u8]) -> (u16, String) {
    let Ok(mut stream) = TcpStream::connect(address) else { return (0, String::new()) };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(request);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let text = String::from_utf8_lossy(&reply).into_owned();
    (text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), text)
}

/// A Beacon in a process of its own, which ends with it.
pub struct Beacon {
    child: Child,
    address: String,
}

impl Drop for Beacon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Beacon {
    /// Starts a Beacon that asks a server with the folder's key.
    pub fn start(place: &Place, url: &str, more: &[&str]) -> Self {
        let key = place.path("key");
        let ask = ["search", "beacon", "--listen", "127.0.0.1:0", "--server", url, "--key", &key, "--json"];
        let mut child = place.command(&[&ask[..], more].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        Self { child, address: told["listening"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned() }
    }

    /// The Beacon's address, without the scheme.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a raw request; returns the status and the body, which must be JSON.
    pub fn send(&self, request: &[u8]) -> (u16, Value) {
        let (status, text) = raw(&self.address, request);
        let body = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}")).1;
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// Gets a path, with more headers.
    pub fn get(&self, path: &str, headers: &str) -> (u16, Value) {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").as_bytes())
    }

    /// Posts the parameters of a variant, with a granularity.
    pub fn ask(&self, granularity: &str, parameters: &str) -> (u16, Value) {
        let query = format!(r#"{{"requestedGranularity":"{granularity}","requestParameters":{{{parameters}}}}}"#);
        let body = format!(r#"{{"meta":{{"apiVersion":"v2.0"}},"query":{query}}}"#);
        self.send(&post("/g_variants", "Content-Type: application/json\r\n", body.as_bytes()))
    }
}

/// A request that posts a body.
pub fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// All files in a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
