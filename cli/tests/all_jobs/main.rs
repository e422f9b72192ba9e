//! One server with all jobs, among clients that are broken, slow, deaf or gone. Every honest answer
//! is right, nothing is left behind, and the server learns nothing.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stdout, reason = "figures of the soak are printed")]

mod canaries;
mod disks;
mod kills;
mod limits;
mod load;
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use support::fleet::{Place as Fleet, ask, get, good};
use support::tables::{Place as Tables, SITES, questions};
use support::{Server, noise, record, rude, stderr, tobari};
use tempfile::{TempDir, tempdir};
use tobari_infer::Model;
use tobari_infer::digits::{STYLES, draw};

/// Far longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const QUESTION: &str = "name = \"canary-of-a-name\"\nleast-devices = 3\nframes = 4\nwindow = { length = \"2s\" }\n[[statistic]]\nkind = \"mean\"\nchannel = \"canary-of-a-channel\"\n";
const SCHEMA: &str = "profile = \"u25\"\nsamples = 16\n\n[[channel]]\nname = \"canary-of-a-channel\"\n";
/// Clients that return in every round must not use up a budget.
const BUDGETS: [&str; 4] = ["--budget", "1000000", "--region-budget", "1000000"];
const DEVICES: [&str; 3] = ["canary-of-a-device", "b", "c"];

/// A test holds this if it needs the machine for itself, or would disturb such a test.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server with all jobs, and the folder of all its data.
struct TestServer {
    folder: TempDir,
    panel: String,
    keys: String,
    _tables: Tables,
    args: Vec<String>,
    server: Server,
}

impl TestServer {
    fn open(level: &str) -> Self {
        let (folder, tables) = (tempdir().unwrap(), Tables::new());
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let panel = tables.variants("panel", SITES, '|');
        let entries: String = (0..3_000).map(|i| format!("entry {}\t{}\n", i * 3, 1 + i % 9)).collect();
        let (entries, keys) = (tables.write("keys.tsv", &entries), tables.path("keys"));
        tables.good(&["search", "index", &entries, "--table", "-o", &keys, "--label", "keys"]);
        let jobs = ["--search", &panel, "--search", &keys, "--infer", "digits", "--sense", &at("sense")];
        let hidden = ["--hidden", "5,keys", "--hidden-memory", "64MiB", "--sense-visitors"];
        let enclave: &[&str] = if cfg!(target_os = "linux") { &["--infer-enclave", "enclave-plain"] } else { &[] };
        let kept = ["--data", &at("data"), "--log", level];
        let args = [&jobs[..], &hidden, enclave, &BUDGETS, &kept].concat();
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        let server = Self::start(&folder.path().join("log"), &args);
        Self { folder, panel, keys, _tables: tables, args, server }
    }

    fn start(log: &Path, args: &[String]) -> Server {
        Server::logging_to(log, &args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Kills the server in the middle of its work, and starts it again.
    fn kill_and_start(&mut self) {
        self.server.kill();
        self.server = Self::start(&self.folder.path().join("log"), &self.args);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

/// The images of one client, under a key of its own.
struct Images(TempDir, String);

impl Images {
    fn new(url: &str) -> Self {
        let images = Self(tempdir().unwrap(), url.to_owned());
        good(&["infer", "keygen", "-o", &images.path("key"), "--server", url]);
        images
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, image: &[u8]) -> String {
        let head = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28];
        std::fs::write(self.path("image"), [&head, image].concat()).unwrap();
        self.path("image")
    }

    /// Encrypts one image.
    fn encrypt(&self, image: &[u8]) -> String {
        let (key, question) = (self.path("key"), self.path("question"));
        good(&["infer", "encrypt", &self.write(image), "--index", "0", "--key", &key, "-o", &question]);
        question
    }

    fn run(&self) -> Vec<String> {
        let words = ["infer", "run", &self.path("question"), "-o", &self.path("answer"), "--server", &self.1, "--key"];
        words.into_iter().map(str::to_owned).chain([self.path("key")]).collect()
    }

    fn label(&self) -> Value {
        let words = ["infer", "decrypt", &self.path("answer"), "--key", &self.path("key"), "--json"];
        serde_json::from_str::<Value>(&good(&words)).unwrap()["label"].clone()
    }

    /// Has an image classified, and checks the label against the plain model.
    fn same(&self, image: &[u8]) {
        self.encrypt(image);
        good(&self.run().iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(self.label(), plain_label(image));
    }

    /// The same in the enclave, on systems that have one.
    fn same_in_an_enclave(&self, image: &[u8]) {
        if cfg!(target_os = "linux") {
            let words = ["infer", "ask", &self.write(image), "--index", "0", "--server", &self.1, "--accept-simulated"];
            assert_eq!(good(&words).trim(), plain_label(image).to_string());
        }
    }
}

fn plain_label(image: &[u8]) -> usize {
    Model::digits().unwrap().fixed().unwrap().classify(image).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A registered fleet with a question.
fn fleet(url: &str) -> (Fleet, String) {
    let place = Fleet::new();
    let name = place.fleet(SCHEMA, &DEVICES);
    good(&["sense", "query", &place.path("holder"), &place.write("question.toml", QUESTION)]);
    good(&["sense", "keyholder", &place.path("holder"), "--server", url, "--once"]);
    (place, name)
}

/// The frames of the fleet's devices for these readings: two frames each.
fn frames(place: &Fleet, readings: impl Fn(usize, usize) -> usize) -> Vec<u8> {
    let sealed = DEVICES.iter().enumerate().map(|(device, name)| {
        place.write("readings.csv", &(0..32).map(|i| format!("{}\n", readings(device, i))).collect::<String>());
        place.seal(name, "readings.csv", &["-o", &place.path("frames")]);
        std::fs::read(place.path("frames")).unwrap()
    });
    sealed.collect::<Vec<_>>().concat()
}

/// Sends frames until the server has them, all at once so that they belong to one window.
fn send(address: &str, fleet: &str, frames: &[u8]) {
    let began = Instant::now();
    let told = loop {
        assert!(began.elapsed() < PATIENCE, "no frames are taken");
        match ask(address, "POST", &format!("/sense/v1/fleets/{fleet}/frames"), frames) {
            Some((200, told)) => break serde_json::from_slice::<Value>(&told).unwrap(),
            _ => thread::sleep(Duration::from_millis(100)),
        }
    };
    assert_eq!(told["taken"].as_u64().unwrap() + told["duplicate"].as_u64().unwrap(), 6, "{told}");
}

/// The figures that the key holder decrypts after the end of a window.
fn released(url: &str, place: &Fleet) -> Value {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "nothing is released");
        let told = good(&["sense", "keyholder", &place.path("holder"), "--server", url, "--once", "--json"]);
        if !told.is_empty() {
            return serde_json::from_str(told.trim()).unwrap();
        }
        thread::sleep(Duration::from_millis(300));
    }
}

/// A live call of two: the link, and the sound that the silent member heard.
fn talk(url: &str, speech: &[i16]) -> (String, Vec<i16>) {
    let folder = tempdir().unwrap();
    let link: Value = serde_json::from_str(&good(&["call", "link", url, "--speakers", "4", "--json"])).unwrap();
    let link = link["link"].as_str().unwrap();
    let (speech, heard) = (record(folder.path(), "speech.wav", speech), folder.path().join("heard.wav"));
    let join = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        support::spawn(command.args(["call", "join", "--json"]).args(args).env("TOBARI_CALL_LINK", link))
    };
    let members = [
        join(&["--in", speech.to_str().unwrap(), "--unlevelled", "--name", "mouth"]),
        join(&["--seconds", "4", "--out", heard.to_str().unwrap()]),
    ];
    let told = members.map(|member| {
        let done = support::done(member);
        assert!(done.status.success(), "{}", stderr(&done));
        String::from_utf8(done.stdout).unwrap()
    });
    // each member checks every sum
    assert!(told.iter().all(|told| told.contains("\"alarms\":0")), "{told:?}");
    assert!(!told[1].contains("\"ticks_heard\":0"), "{told:?}");
    (link.to_owned(), tobari_call_files::wav::read_speech(&heard).unwrap())
}

/// The server's JSON reply at a path.
fn told(house: &TestServer, path: &str) -> Value {
    serde_json::from_str(&get(&house.server.address(), path)).unwrap()
}

/// Every route of the server: with an existing table, model and fleet, and with names of other
/// things that do not exist.
fn routes(house: &TestServer, fleet: &str) -> Vec<String> {
    let name = |path, list: &str, name: &str| told(house, path)[list][0][name].as_str().unwrap().to_owned();
    let table = format!("/search/v1/tables/{}", name("/search/v1", "tables", "name"));
    let model = format!("/infer/v1/models/{}", name("/infer/v1", "models", "digest"));
    let (fleet, hash) = (format!("/sense/v1/fleets/{fleet}"), "07".repeat(32));
    let [question, session] = [&hash[..16], &hash[..32]].map(str::to_owned);
    let fixed = "/ /jobs /infer /infer/ /search /search/ /sense /sense/ /call /call/ /call/room /web/style.css /health /healthz \
        /readyz /metrics /call/v1/room /call/v2/room /call/v3/room /search/v1 /search/v1/keys/search /search/v1/evaluations \
        /search/v1/queries /search/v1/hidden/keys /search/v1/hidden/queries /infer/v1 /sense/v1 /sense/v1/metrics";
    let table = ["", "/hidden/5", "/hidden/5/0/7"].map(|rest| format!("{table}{rest}"));
    let model = [
        "",
        "/keys",
        &format!("/keys/{hash}"),
        "/answers",
        "/enclave",
        "/enclave/report",
        "/enclave/sessions",
        &format!("/enclave/sessions/{session}"),
        &format!("/enclave/sessions/{session}/images"),
        &format!("/enclave/sessions/{session}/answers"),
    ]
    .map(|rest| format!("{model}{rest}"));
    let fleet = [
        "",
        "/held",
        "/frames",
        &format!("/objects/{hash}"),
        &format!("/questions/{question}"),
        &format!("/questions/{question}/windows"),
        &format!("/questions/{question}/windows/0"),
        "/devices/7777/frames",
    ]
    .map(|rest| format!("{fleet}{rest}"));
    fixed.split_whitespace().map(str::to_owned).chain(table).chain(model).chain(fleet).collect()
}

#[test]
fn every_route_that_is_tried_is_one() {
    let house = TestServer::open("info");
    let (_, fleet) = fleet(&house.server.url);
    for path in routes(&house, &fleet) {
        let (status, body) = ask(&house.server.address(), "GET", &path, b"").unwrap();
        assert!(status != 404 || !body.is_empty(), "{path} is not known");
    }
}

/// Senders that send a byte now and then hold neither places nor memory, and are cut off. Other
/// clients are served at once in the meantime.
///
/// Before the server read bodies ahead of a request's turn, this test expected a wait of two
/// seconds behind such senders, and so the fault.
#[test]
fn slow_senders_shut_nobody_out() {
    let house = TestServer::open("info");
    let (address, over) = (house.server.address(), AtomicBool::new(false));
    let place = Fleet::new();
    let name = place.fleet(SCHEMA, &DEVICES);
    let head = format!("POST /sense/v1/fleets/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n");
    let cut = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let mut stream = TcpStream::connect(&address).unwrap();
                    let began = Instant::now();
                    let mut sent = std::io::Write::write_all(&mut stream, head.as_bytes());
                    while sent.is_ok() && !over.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
                        thread::sleep(Duration::from_millis(50));
                        sent = std::io::Write::write_all(&mut stream, b"a");
                    }
                    cut.fetch_add(usize::from(sent.is_err()), Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs(1));
        let came = tobari(&["sense", "keyholder", &place.path("holder"), "--server", &house.server.url, "--once"]);
        let unheard = cut.load(Ordering::Relaxed) == 0;
        let began = Instant::now();
        while cut.load(Ordering::Relaxed) == 0 && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Ordering::Relaxed);
        assert!(came.status.success(), "{}", stderr(&came));
        assert!(unheard, "all eight were there all the time");
        assert!(cut.load(Ordering::Relaxed) > 0, "no slow sender was cut off");
    });
}
