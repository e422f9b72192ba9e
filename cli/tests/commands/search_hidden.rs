//! The search with a hidden place over HTTP, with each part in a process of its own: every answer
//! is that of the plain table.

use crate::support::tables::without_places;
use crate::support::{Server, genome, stderr};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::{TempDir, tempdir};
use tobari_search::simulated;

const HAPLOTYPES: usize = 80;
const SITES: usize = 120;
/// The number of sites of a question.
const LENGTH: usize = 10;

/// A folder with a table, a key and a cache of its own.
struct Place {
    folder: TempDir,
    columns: Vec<Vec<bool>>,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempdir().unwrap(), columns: simulated::columns(HAPLOTYPES, SITES, 7) };
        place.good(&["search", "keygen", "-o", &place.path("key")]);
        place
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self.path(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        command.args(args).stdin(Stdio::null()).env("TOBARI_CACHE", self.path("cache")).output().unwrap()
    }

    fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A panel of two chromosomes with half of the sites on each.
    fn panel(&self) -> String {
        let half = SITES / 2;
        let first = genome::vcf(&self.columns[..half], 0);
        let second = genome::vcf(&self.columns[half..], 0).replace("chr20\t", "chr21\t");
        let second: String =
            second.lines().filter(|line| !line.starts_with('#')).fold(String::new(), |all, line| all + line + "\n");
        let vcf = self.write("panel.vcf", &(first + &second).replace("ID=chr20>", "ID=chr20>\n##contig=<ID=chr21>"));
        self.good(&["search", "index", &vcf, "-o", &self.path("panel"), "--label", "panel"]);
        self.path("panel")
    }

    /// The name of a site.
    fn site(site: usize) -> String {
        let (chromosome, site) = (20 + site / (SITES / 2), site % (SITES / 2));
        format!("chr{chromosome}:{}:A:{}", genome::position(site), genome::alternate(site))
    }

    /// A line with a question: the alleles of a haplotype from a site on, with one allele changed
    /// if requested.
    fn question(&self, start: usize, length: usize, haplotype: usize, changed: Option<usize>) -> String {
        let allele = |i: usize| self.columns[start + i][haplotype] ^ (changed == Some(i));
        let alleles: String = (0..length).map(|i| if allele(i) { '1' } else { '0' }).collect();
        format!("{}\t{alleles}\n", Self::site(start))
    }

    fn query(&self, url: &str, args: &[&str]) -> Output {
        let key = self.path("key");
        self.run(&[&["search", "query", "--server", url, "--key", &key, "--json", "--hidden"], args].concat())
    }

    /// Asks a server and the plain table, and compares.
    fn same(&self, url: &str, table: &str, queries: &str, how: &[&str]) {
        let clear = self.good(&["search", "check", table, "--queries", queries, "--json"]);
        let asked = self.query(url, &[&["--queries", queries], how].concat());
        assert!(asked.status.success(), "{}", stderr(&asked));
        assert!(clear.contains("true") && clear.contains("false"), "both happen");
        let asked = String::from_utf8(asked.stdout).unwrap();
        // a key has no place
        let asked = if table.ends_with("keys") { asked } else { without_places(&asked, 100) };
        assert_eq!(asked, clear, "{how:?}");
    }
}

/// Sends a raw request on a connection of its own; returns the status and the whole reply.
fn raw(server: &Server, request: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(request);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let head = String::from_utf8_lossy(&reply[..reply.len().min(20)]).into_owned();
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), reply)
}

fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn patterns_anywhere_are_found_as_in_the_clear_and_the_place_is_in_no_log() {
    let place = Place::new();
    let table = place.panel();
    let mut lines = String::new();
    // both ends, both sides of the border between chromosomes, and other places
    for (i, start) in [0, 1, 24, SITES / 2 - LENGTH, SITES / 2, 77, SITES - LENGTH].into_iter().enumerate() {
        lines += &place.question(start, LENGTH, 11 * i, None);
        lines += &place.question(start, LENGTH, 11 * i, Some(i));
        lines += &place.question(start, LENGTH, 11 * i, Some(LENGTH - 1));
    }
    writeln!(lines, "{}\t0110011001", Place::site(30)).unwrap();
    let queries = place.write("queries", &lines);
    let (data, audit) = (place.path("data"), place.path("audit"));
    let more = ["--search", &table, "--hidden", "10,1", "--data", &data, "--audit", &audit];
    let server = Server::start(&more);
    place.same(&server.url, &table, &queries, &["--parallel", "2"]);
    let single = place.write("single", &(0..4).map(|i| place.question(30 * i, 1, i, None)).collect::<String>());
    let clear = place.good(&["search", "check", &table, "--queries", &single, "--json"]);
    let asked = String::from_utf8(place.query(&server.url, &["--queries", &single]).stdout).unwrap();
    assert_eq!(without_places(&asked, SITES as u64), clear);
    let boolean = place.query(&server.url, &["--queries", &single, "--boolean"]);
    let boolean = String::from_utf8(boolean.stdout).unwrap();
    assert_eq!(without_places(&boolean, SITES as u64), "{\"match\":true}\n".repeat(4));
    let log = server.stop();
    assert!(log.contains("arranged to be asked with the place hidden") && log.contains("prepared"), "{log}");
    let audit = std::fs::read_to_string(&audit).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let asked: Vec<&Value> = lines.iter().filter(|line| line["outcome"] == "answered").collect();
    assert_eq!(asked.len(), 22 + 4 + 4);
    let places = |line: &&Value| if line["sites"] == 1 { SITES } else { SITES - 2 * (LENGTH - 1) };
    assert!(asked.iter().all(|line| line["places"] == places(line)), "among all of them");
    assert_eq!(lines.iter().filter(|line| line["what"] == "hidden registration").count(), 1, "once for a key");
    // after a restart the server knows the key and its uses, which are on the disk
    let server = Server::start(&[&more[..], &["--budget", "32"]].concat());
    let one = place.query(&server.url, &["--queries", &single, "--parallel", "1"]);
    assert_eq!(one.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&one.stdout).matches("true").count(), 2, "{}", stderr(&one));
    assert!(stderr(&one).contains("the budget of 32 tests is used up"), "{}", stderr(&one));
}

#[test]
fn what_cannot_be_asked_with_the_place_hidden_is_said() {
    let place = Place::new();
    let table = place.panel();
    let server = Server::start(&["--search", &table, "--hidden", "10", "--key-uses", "2", "--hidden-memory", "100000"]);
    let text = |line: String| {
        let (at, alleles) = line.trim_end().split_once('\t').unwrap();
        (at.to_owned(), alleles.to_owned())
    };
    let ask = |length: usize, more: &[&str]| {
        let (at, alleles) = text(place.question(SITES / 2 - LENGTH, length, 3, None));
        place.query(&server.url, &[&["--at", &at, "--alleles", &alleles], more].concat())
    };
    for (length, more, code, said) in [
        (10, &["--longest"][..], 2, "--longest"),
        (10, &["--public"], 2, "--public"),
        (10, &["--least-places", "103"], 1, "102 places for 10 sites"),
        (9, &[], 1, "hides the place among all places for other questions (10)"),
        (11, &[], 1, "other questions (10)"),
    ] {
        let refused = ask(length, more);
        assert_eq!(refused.status.code(), Some(code), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
    // in a list, only the line with another number of sites is refused
    let lines = place.question(0, LENGTH, 3, None) + &place.question(0, 9, 3, None);
    let queries = place.write("queries", &(lines + &place.question(5, LENGTH, 3, None)));
    let done = place.query(&server.url, &["--queries", &queries]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    let told = String::from_utf8(done.stdout).unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(told[0]["match"] == true && told[2]["match"] == true, "{told:?}");
    assert!(told[1]["error"].as_str().unwrap().contains("other questions (10)"), "{told:?}");
    // a used-up key is replaced
    for _ in 0..5 {
        let good = ask(10, &[]);
        assert!(good.status.success(), "{}", stderr(&good));
        assert!(String::from_utf8(good.stdout).unwrap().contains("\"match\":true"));
    }
    assert!(server.stop().contains("packed"), "there is no room for prepared blocks");
    // no memory at all: the blocks lie in a folder, and the answers are the same
    let tier = place.folder.path().to_str().unwrap().to_owned();
    let server = Server::start(&["--search", &table, "--hidden", "10", "--hidden-memory", "9", "--hidden-tier", &tier]);
    let (at, alleles) = text(place.question(SITES / 2 - LENGTH, 10, 3, None));
    let good = place.query(&server.url, &["--at", &at, "--alleles", &alleles]);
    assert!(String::from_utf8_lossy(&good.stdout).contains("\"match\":true"), "{}", stderr(&good));
    let said = server.stop();
    assert!(said.contains("bytes=0") && !said.contains("shelved=0"), "{said}");
    let bare = Server::start(&["--search", &table]);
    assert!(
        stderr(&place.query(&bare.url, &["--at", &Place::site(0), "--alleles", "0110011001"]))
            .contains("does not offer this table with the place hidden")
    );
    for (args, said) in [
        (["--hidden", "keys"], "hidden questions of the kind keys"),
        (["--hidden", "61"], "of fewer sites"),
        (["--hidden", "0"], "1 to 128"),
        (["--hidden-memory", "9"], ""),
    ] {
        let mut args = [&["serve", "--addr", "127.0.0.1:0", "--search", &table], &args[..]].concat();
        if said.is_empty() {
            args.extend(["--hidden", "10"]);
        }
        // a server that starts in spite of this ends with its standard input
        args.push("--until-stdin-closes");
        let refused = place.run(&args);
        assert!(!refused.status.success() && stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

#[test]
fn a_table_of_many_keys_answers_as_in_the_clear() {
    let place = Place::new();
    let keys: String = (0..200_000).fold(String::new(), |mut all, i| {
        writeln!(all, "sample-{:07}\t{}", 3 * i, 1 + i % 900).unwrap();
        all
    });
    let keys = place.write("keys.tsv", &keys);
    let table = place.path("keys");
    place.good(&["search", "index", &keys, "--table", "-o", &table]);
    let asked: String =
        [0, 1, 299_999, 300_000, 599_996, 599_997, 599_998].map(|i| format!("sample-{i:07}\n")).concat();
    let queries = place.write("queries", &(asked + "another\n"));
    let server = Server::start(&["--search", &table, "--hidden", "keys"]);
    place.same(&server.url, &table, &queries, &[]);
    let one = place.good(&[
        "search",
        "query",
        "--server",
        &server.url,
        "--key",
        &place.path("key"),
        "--hidden",
        "--key-value",
        "sample-0000003",
    ]);
    assert_eq!(one, "sample-0000003: match, count 2\n");
}

#[test]
fn malformed_registrations_and_queries_are_refused_and_leave_the_server_up() {
    let place = Place::new();
    let table = place.panel();
    let server = Server::start(&["--search", &table, "--hidden", "10"]);
    let queries =
        place.write("queries", &(place.question(5, LENGTH, 2, None) + &place.question(5, LENGTH, 2, Some(4))));
    place.same(&server.url, &table, &queries, &[]);
    let (_, list) = raw(&server, &request("GET /search/v1", "", b""));
    let list = String::from_utf8(list).unwrap();
    let list: Value = serde_json::from_str(list.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(list["tables"][0]["hidden"], serde_json::json!(["10"]));
    let name = list["tables"][0]["name"].as_str().unwrap();
    let layout = |length: &str, headers: &str| {
        raw(&server, &request(&format!("GET /search/v1/tables/{name}/hidden/{length}"), headers, b""))
    };
    let (status, reply) = layout("10", "");
    assert_eq!(status, 200);
    let text = String::from_utf8_lossy(&reply).into_owned();
    let tag = text.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    assert_eq!(layout("10", &format!("If-None-Match: {tag}\r\n")).0, 304);
    for wrong in ["9", "keys", "0", "ten"] {
        assert_eq!(layout(wrong, "").0, 404, "{wrong}");
    }
    // the client's registration, damaged in various ways
    let key = std::fs::read(place.path("key")).unwrap();
    let identity = tobari_search::identity::Identity::decode(&key).unwrap();
    let set = tobari_search::hidden::arrangement::set().unwrap();
    let (_, registration) = identity.hidden_key(&set, 1).unwrap();
    assert!((4 << 20..10 << 20).contains(&registration.len()), "{}", registration.len());
    let client = format!("Tobari-Client: {}\r\n", "07".repeat(16));
    let register = |headers: &str, body: &[u8]| raw(&server, &request("POST /search/v1/hidden/keys", headers, body)).0;
    let mut other = registration.clone();
    other[1] = 0x20;
    let longer = [&registration[..], &[0]].concat();
    for (headers, body, status) in [
        ("", &registration[..], 401),
        (&*client, &registration[..registration.len() - 1], 422),
        (&client, &registration[..40_000], 422),
        (&client, &longer, 422),
        (&client, &other, 422),
        (&client, b"", 422),
        (&client, &vec![0; (16 << 20) + 1], 413),
        (&client, &registration, 204),
        (&client, &registration, 204),
    ] {
        assert_eq!(register(headers, body), status, "{} bytes", body.len());
    }
    let ask = |body: &[u8]| raw(&server, &request("POST /search/v1/hidden/queries", &client, body)).0;
    let own = [&[1, 0x24][..], &[9; 32], &[7; 16], &[1]].concat();
    let mut stranger = own.clone();
    stranger[40] = 1;
    for (body, status) in [(&b""[..], 422), (&own, 422), (&own[..20], 422), (&[0x55; 99], 422), (&stranger, 403)] {
        assert_eq!(ask(body), status, "{} bytes", body.len());
    }
    let half = request("POST /search/v1/hidden/keys", &client, &registration);
    drop(TcpStream::connect(server.address()).unwrap().write_all(&half[..1_000_000]));
    place.same(&server.url, &table, &queries, &[]);
}
