//! One server with all jobs, among clients that are broken, slow, deaf or gone: every honest answer is right, nothing is left behind, and the server knows nothing.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stdout, reason = "figures of the soak are printed")]

mod support;

use serde_json::Value;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::fleet::{Place as Fleet, ask, get, good};
use support::rude::{self, Post, Target};
use support::tables::{Place as Tables, SITES, files, questions};
use support::{Server, exact_samples, noise, record, stderr, tobari};
use tempfile::{TempDir, tempdir};
use tobari_apps::infer::Model;
use tobari_apps::infer::digits::{STYLES, draw};
use tobari_apps::search::identity::Identity;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// The server had 263 MB in memory at most, while 3,500 to 5,300 connections came and went.
const MEMORY_KB: usize = 768 << 10;
/// Threads and descriptors that may be there beyond those of before: two fleets have come, and of the threads for what blocks, which end after ten
/// idle seconds, the server's own rounds keep about ten.
const SPARE: [usize; 2] = [24, 9];
const QUESTION: &str = "name = \"canary-of-a-name\"\nleast-devices = 3\nframes = 4\nwindow = { length = \"2s\" }\n[[statistic]]\nkind = \"mean\"\nchannel = \"canary-of-a-channel\"\n";
const SCHEMA: &str = "profile = \"u25\"\nsamples = 16\n\n[[channel]]\nname = \"canary-of-a-channel\"\n";
const DEVICES: [&str; 3] = ["canary-of-a-device", "b", "c"];

/// A server with all jobs, and the folder of all that it has.
struct House {
    folder: TempDir,
    panel: String,
    keys: String,
    _tables: Tables,
    args: Vec<String>,
    server: Server,
}

impl House {
    fn open(level: &str) -> Self {
        let (folder, tables) = (tempdir().unwrap(), Tables::new());
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let panel = tables.variants("panel", SITES, '|');
        let entries: String = (0..3_000).map(|i| format!("entry {}\t{}\n", i * 3, 1 + i % 9)).collect();
        let (entries, keys) = (tables.write("keys.tsv", &entries), tables.path("keys"));
        tables.good(&["search", "index", &entries, "--table", "-o", &keys, "--label", "keys"]);
        let jobs = ["--search", &panel, "--search", &keys, "--infer", "digits", "--sense", &at("sense")];
        let kept = ["--data", &at("data"), "--log", level];
        let args: Vec<String> = jobs.iter().chain(&kept).map(|word| (*word).to_owned()).collect();
        let server = Self::start(&folder, &args);
        Self { folder, panel, keys, _tables: tables, args, server }
    }

    fn start(folder: &TempDir, args: &[String]) -> Server {
        Server::logging_to(&folder.path().join("log"), &args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Kills the server in the midst of what it does, and starts it again.
    fn kill_and_start(&mut self) {
        self.server.kill();
        self.server = Self::start(&self.folder, &self.args);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

/// Images of one client, under a key of its own.
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

    /// Encrypts one.
    fn encrypt(&self, image: &[u8]) -> String {
        let head = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28];
        std::fs::write(self.path("image"), [&head, image].concat()).unwrap();
        let (key, question) = (self.path("key"), self.path("question"));
        good(&["infer", "encrypt", &self.path("image"), "--index", "0", "--key", &key, "-o", &question]);
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

    /// Has it classified as the model in the clear does.
    fn same(&self, image: &[u8]) {
        self.encrypt(image);
        good(&self.run().iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(self.label(), Model::digits().unwrap().fixed().unwrap().classify(image).unwrap());
    }
}

fn searches(house: &House, client: usize) {
    let own = Tables::new();
    for round in 0..2 {
        let queries = own.write("queries", &questions(5 + 3 * client + round, 24));
        own.same(&house.server.url, &house.panel, &queries, &["--table", "panel"], &[]);
        let asked: String = (0..12).map(|i| format!("entry {}\n", i * (client + 1) + round)).collect();
        own.same(&house.server.url, &house.keys, &own.write("asked", &asked), &["--table", "keys"], &[]);
    }
}

/// Who has a key or a fleet, and comes back with it: two of each.
#[derive(Default)]
struct Regulars {
    images: [OnceLock<Images>; 2],
    fleets: [OnceLock<(Fleet, String)>; 2],
}

fn images(own: &Images, client: usize) {
    (0..4).for_each(|round| own.same(&draw(((5 * client + 3 * round) % 10) as u8, &STYLES[(client + round) % 6])));
}

/// A fleet that is registered, with a question.
fn fleet(house: &House) -> (Fleet, String) {
    let place = Fleet::new();
    let name = place.fleet(SCHEMA, &DEVICES);
    good(&["sense", "query", &place.path("holder"), &place.write("question.toml", QUESTION)]);
    good(&["sense", "keyholder", &place.path("holder"), "--server", &house.server.url, "--once"]);
    (place, name)
}

/// What its devices send of these readings: two frames each.
fn frames(place: &Fleet, readings: impl Fn(usize, usize) -> usize) -> Vec<u8> {
    let sealed = DEVICES.iter().enumerate().map(|(device, name)| {
        place.write("readings.csv", &(0..32).map(|i| format!("{}\n", readings(device, i))).collect::<String>());
        place.seal(name, "readings.csv", &["-o", &place.path("frames")]);
        std::fs::read(place.path("frames")).unwrap()
    });
    sealed.collect::<Vec<_>>().concat()
}

/// Sends frames, all at once so that they are of one window, until the server has them.
fn send(house: &House, fleet: &str, frames: &[u8]) {
    let began = Instant::now();
    let told = loop {
        assert!(began.elapsed() < PATIENCE, "no frames are taken");
        match ask(&house.server.address(), "POST", &format!("/sense/v1/fleets/{fleet}/frames"), frames) {
            Some((200, told)) => break serde_json::from_slice::<Value>(&told).unwrap(),
            _ => thread::sleep(Duration::from_millis(100)),
        }
    };
    assert_eq!(told["taken"].as_u64().unwrap() + told["duplicate"].as_u64().unwrap(), 6, "{told}");
}

/// What the key holder opens once a window is over.
fn released(house: &House, place: &Fleet) -> Value {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "nothing is released");
        let told =
            good(&["sense", "keyholder", &place.path("holder"), "--server", &house.server.url, "--once", "--json"]);
        if !told.is_empty() {
            return serde_json::from_str(told.trim()).unwrap();
        }
        thread::sleep(Duration::from_millis(300));
    }
}

fn readings(house: &House, (place, name): &(Fleet, String), client: usize) {
    let of = |device: usize, i: usize| (device * 31 + i * i * 7 + client * 50) % 256;
    send(house, name, &frames(place, of));
    let told = released(house, place);
    let sum: usize = (0..3).flat_map(|device| (0..32).map(move |i| of(device, i))).sum();
    let mean = told["groups"][0]["figures"][0]["value"].as_f64().unwrap();
    assert!((mean - sum as f64 / 96.0).abs() < 1e-9, "{told}");
}

fn mixes(house: &House, client: usize) {
    let folder = tempdir().unwrap();
    for (round, mode) in ["elgamal", "elgamal-shared", "elgamal"].into_iter().enumerate() {
        let voices = [0, 1].map(|voice| noise((client * 10 + round * 2 + voice) as u64, 640));
        let [one, two] = [0, 1].map(|voice| record(folder.path(), &format!("{voice}.wav"), &voices[voice]));
        let output = folder.path().join("mix.wav");
        let [one, two, mix] = [&one, &two, &output].map(|path| path.to_str().unwrap());
        good(&["call", "mix", "--exact", "--mode", mode, "-o", mix, "--server", &house.server.url, one, two]);
        let sum: Vec<i32> = voices[0].iter().zip(&voices[1]).map(|(a, b)| i32::from(*a) + i32::from(*b)).collect();
        assert!(exact_samples(&output) == sum, "not the plain sum");
    }
}

/// A live call of two: its link.
fn talk(house: &House, speech: &[i16]) -> String {
    let folder = tempdir().unwrap();
    let link: Value =
        serde_json::from_str(&good(&["call", "link", &house.server.url, "--speakers", "4", "--json"])).unwrap();
    let link = link["link"].as_str().unwrap();
    let speech = record(folder.path(), "speech.wav", speech);
    let join = |args: &[&str]| -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        command.args(["call", "join", "--json"]).args(args).env("TOBARI_CALL_LINK", link);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let members =
        [join(&["--in", speech.to_str().unwrap(), "--unlevelled", "--name", "mouth"]), join(&["--seconds", "4"])];
    let told = members.map(|member| {
        let done = member.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", stderr(&done));
        String::from_utf8(done.stdout).unwrap()
    });
    // every sum is checked by who hears it
    assert!(told.iter().all(|told| told.contains("\"alarms\":0")), "{told:?}");
    assert!(!told[1].contains("\"ticks_heard\":0"), "{told:?}");
    link.to_owned()
}

/// What the routes of all jobs take, from a client that was an honest one until now.
fn target(house: &House) -> Target {
    let post =
        |path: &str, headers: &str, body: Vec<u8>| Post { path: path.to_owned(), headers: headers.to_owned(), body };
    let own = Images::new(&house.server.url);
    own.same(&draw(7, &STYLES[0]));
    let question = std::fs::read(own.path("question")).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (model, hash) = (hex(&question[2..34]), format!("Tobari-Key: {}\r\n", hex(&question[34..66])));
    let model = format!("/infer/v1/models/{model}");
    let client = format!("Tobari-Client: {}\r\n", "07".repeat(16));
    let query = [&[1, 0x21][..], &[9; 32], &[7; 16], &[0, 1, 5, 1, 0, 0, 0, 1, 0, 1], &[0; 6_000]].concat();
    let (place, fleet) = fleet(house);
    let fleet = format!("/sense/v1/fleets/{fleet}");
    let mut posts = vec![
        post(&format!("{model}/answers"), &hash, question[66..].to_vec()),
        post(&format!("{model}/keys"), "", [&[1, 0x30][..], &rude::bytes(1, key_bytes(house) - 2)].concat()),
        post("/search/v1/keys/search", &client, [&[1, 0x20, 0, 0][..], &rude::bytes(2, 50_000)].concat()),
        post(&format!("{fleet}/frames"), "", frames(&place, |device, i| device + i)),
        post(&fleet, "", b"{\"profile\":\"u25\"}".repeat(99)),
        post(&format!("{fleet}/objects/{}", "00".repeat(32)), "", rude::bytes(3, 1 << 20)),
        post(&format!("{fleet}/questions/{}", "07".repeat(8)), "", b"{\"profile\":\"u25\",\"length_ms\":1}".to_vec()),
        post(&format!("{fleet}/questions/{}/windows/0", "07".repeat(8)), "", vec![0; 9]),
    ];
    for path in ["queries", "evaluations", "hidden/keys", "hidden/queries"] {
        posts.push(post(&format!("/search/v1/{path}"), &client, query.clone()));
    }
    let (done, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
    Target { address: house.server.address(), posts, done, connections }
}

/// Of a message of keys.
fn key_bytes(house: &House) -> usize {
    let told: Value = serde_json::from_str(&get(&house.server.address(), "/infer/v1")).unwrap();
    told["models"][0]["key_bytes"].as_u64().unwrap() as usize
}

/// A number of a process's status.
fn status(pid: u32, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn threads_and_descriptors(pid: u32) -> [usize; 2] {
    [status(pid, "Threads"), std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()]
}

/// Two honest clients of every job, and the bad ones until those have ended.
fn all_at_once(house: &House, regulars: &Regulars, target: &Target) {
    target.done.store(false, Ordering::Relaxed);
    thread::scope(|scope| {
        let jobs: [fn(&House, &Regulars, usize); 5] = [
            |house, _, client| searches(house, client),
            |house, regulars, client| {
                images(regulars.images[client].get_or_init(|| Images::new(&house.server.url)), client);
            },
            |house, regulars, client| {
                readings(house, regulars.fleets[client].get_or_init(|| fleet(house)), client);
            },
            |house, _, client| mixes(house, client),
            |house, _, client| drop(talk(house, &noise(client as u64, 40_000))),
        ];
        let bad = rude::ALL.map(|rude| {
            scope.spawn(move || (0..).take_while(|_| !target.is_done()).for_each(|round| rude(target, round)))
        });
        let honest = jobs.map(|job| [0, 1].map(|client| scope.spawn(move || job(house, regulars, client))));
        let honest: Vec<_> = honest.into_iter().flatten().map(|job| job.join().is_ok()).collect();
        target.done.store(true, Ordering::Relaxed);
        let bad: Vec<_> = bad.into_iter().map(|bad| bad.join().is_ok()).collect();
        assert!(honest.iter().chain(&bad).all(|good| *good), "{honest:?} {bad:?}\n{}", house.log());
    });
}

/// Until there are no more threads and descriptors than before, but for what may be there beyond those.
fn wait_until_settled(pid: u32, before: [usize; 2]) {
    let began = Instant::now();
    let settled = || {
        threads_and_descriptors(pid).iter().zip(before).zip(SPARE).all(|((now, before), spare)| *now <= before + spare)
    };
    while !settled() {
        let now = threads_and_descriptors(pid);
        assert!(began.elapsed() < PATIENCE, "threads and descriptors: {before:?} before, {now:?} now");
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn one_server_does_all_jobs_at_once_while_bad_clients_come_and_go() {
    let mut house = House::open("info");
    let target = target(&house);
    let (pid, linux) = (house.server.pid(), cfg!(target_os = "linux"));
    let before = if linux { threads_and_descriptors(pid) } else { [0; 2] };
    let deaf: Vec<TcpStream> = (0..12).filter_map(|_| rude::deaf(&target)).collect();
    all_at_once(&house, &Regulars::default(), &target);
    assert!(target.connections.load(Ordering::Relaxed) > 100);
    // those who do not read are still there
    if linux {
        wait_until_settled(pid, before);
    }
    drop(deaf);
    assert_eq!(get(&house.server.address(), "/healthz"), "ok");
    images(&Images::new(&house.server.url), 2);
    assert!(house.server.is_alive() && !house.log().contains("panicked"), "{}", house.log());
    if linux {
        let (most, now) = (status(pid, "VmHWM"), status(pid, "VmRSS"));
        assert!(most < MEMORY_KB, "{most} kB at most, {now} kB now");
    }
}

/// `cargo xtask soak all-jobs`: minutes of it, in `TOBARI_SOAK_MINUTES`.
#[test]
#[ignore = "takes minutes: cargo xtask soak all-jobs"]
fn a_server_of_all_jobs_grows_by_a_tenth_at_most_while_the_same_clients_and_bad_ones_come_in_round_after_round() {
    let minutes = std::env::var("TOBARI_SOAK_MINUTES").ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(1_u64);
    let mut house = House::open("warn");
    let (target, regulars, pid) = (target(&house), Regulars::default(), house.server.pid());
    let before = threads_and_descriptors(pid);
    let (began, mut sizes) = (Instant::now(), Vec::new());
    // there must be enough rounds to tell growth from chance
    while sizes.len() < 8 || began.elapsed() < Duration::from_secs(60 * minutes) {
        all_at_once(&house, &regulars, &target);
        wait_until_settled(pid, before);
        let ([threads, files], size) = (threads_and_descriptors(pid), status(pid, "VmRSS"));
        sizes.push(size);
        println!("round {}: {size} kB, {threads} threads, {files} descriptors", sizes.len());
    }
    assert!(house.server.is_alive() && !house.log().contains("panicked"), "{}", house.log());
    // the first rounds bring what is kept: keys, fleets, and the threads' own memory
    let quarter = sizes.len() / 4;
    let middle = |sizes: &[usize]| {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes[sizes.len() / 2] as f64
    };
    let (earlier, last) = (middle(&sizes[quarter..2 * quarter]), middle(&sizes[3 * quarter..]));
    let connections = target.connections.load(Ordering::Relaxed);
    let rounds = 2.0 * quarter as f64;
    println!(
        "rounds: {}; connections of bad clients: {connections}; {:.0} MiB in the second quarter, {:.0} MiB in the last, {:.2} MiB a round",
        sizes.len(),
        earlier / 1024.0,
        last / 1024.0,
        (last - earlier) / 1024.0 / rounds
    );
    assert!(last < 1.1 * earlier, "{sizes:?}");
}

#[test]
fn who_finds_no_place_is_told_so_and_comes_again() {
    let house = House::open("info");
    let own = Images::new(&house.server.url);
    let image = draw(4, &STYLES[2]);
    let question = std::fs::read(own.encrypt(&image)).unwrap();
    let model: String = question[2..34].iter().map(|byte| format!("{byte:02x}")).collect();
    let (path, keys) = (format!("/infer/v1/models/{model}/keys"), rude::bytes(5, key_bytes(&house)));
    let address = house.server.address();
    let length = keys.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n");
    // whose body is asked for has a place, so that none of the four can be refused in another's stead
    let begin = |_| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
        assert_eq!(answer, *b"HTTP/1.1 100");
        stream
    };
    let held: Vec<TcpStream> = (0..4).map(begin).collect();
    let short = ask(&address, "POST", &path, b"short").map(|(status, _)| status);
    assert_eq!(short, Some(503), "four uploads leave room for another");
    let refused = ask(&address, "POST", &path, &keys).map(|(status, _)| status);
    assert_eq!(refused, Some(503), "after all of a long body");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    let coming = command.args(own.run()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(1_500));
    drop(held);
    let came = coming.wait_with_output().unwrap();
    assert!(came.status.success(), "{}", stderr(&came));
    assert_eq!(own.label(), Model::digits().unwrap().fixed().unwrap().classify(&image).unwrap());
}

/// What a client has left to ask, by its name.
fn left(house: &House, client: &str) -> Option<u64> {
    let mut stream = TcpStream::connect(house.server.address()).ok()?;
    let head = format!("GET /search/v1 HTTP/1.0\r\nHost: x\r\nTobari-Client: {client}\r\n\r\n");
    std::io::Write::write_all(&mut stream, head.as_bytes()).ok()?;
    let mut reply = String::new();
    std::io::Read::read_to_string(&mut stream, &mut reply).ok()?;
    serde_json::from_str::<Value>(reply.split_once("\r\n\r\n")?.1).ok()?["tests_left"].as_u64()
}

#[test]
fn what_was_acknowledged_is_there_after_kills_under_load() {
    const ROUNDS: usize = 4;
    let mut house = House::open("info");
    let (place, fleet) = fleet(&house);
    let frames_at = format!("/sense/v1/fleets/{fleet}/frames");
    place.write("readings.csv", &(0..16 * 600).map(|i| format!("{}\n", i * i % 251)).collect::<String>());
    place.seal(DEVICES[0], "readings.csv", &["-o", &place.path("frames")]);
    let frames = std::fs::read(place.path("frames")).unwrap();
    let mut batches = frames.chunks_exact(frames.len() / 200); // of three frames each
    let seeker = Tables::new();
    let asked = seeker.write("asked", "entry 3\nentry 4\n");
    let name = Identity::decode(&std::fs::read(seeker.path("key")).unwrap()).unwrap().name();
    let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    let all = left(&house, &name).unwrap();
    let (mut taken, mut keys, mut least) = (Vec::new(), Vec::new(), all);
    for (round, delay) in noise(41, ROUNDS).into_iter().enumerate() {
        let delay = Duration::from_millis(400 + u64::from(delay.unsigned_abs()) % 900);
        let pid = house.server.pid();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let (house, ended) = (&house, &ended);
            scope.spawn(|| {
                for batch in batches.by_ref() {
                    match ask(&house.server.address(), "POST", &frames_at, batch) {
                        Some((200, _)) => taken.push(batch),
                        _ => return,
                    }
                }
            });
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let own = Images(tempdir().unwrap(), house.server.url.clone());
                    if !tobari(&["infer", "keygen", "-o", &own.path("key"), "--server", &own.1]).status.success() {
                        return;
                    }
                    let question = std::fs::read(own.encrypt(&draw(3, &STYLES[round]))).unwrap();
                    if !tobari(&own.run().iter().map(String::as_str).collect::<Vec<_>>()).status.success() {
                        return;
                    }
                    keys.push(
                        [2..34, 34..66]
                            .map(|part| question[part].iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
                    );
                }
            });
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let told = seeker.query(&house.server.url, &["--queries", &asked, "--table", "keys"]);
                    match left(house, &name).filter(|_| told.status.success()) {
                        Some(left) => least = left,
                        None => return,
                    }
                }
            });
            thread::sleep(delay);
            ended.store(true, Ordering::Relaxed);
            // what is on its way is cut off
            assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
        });
        house.kill_and_start();
        // those before a device's window are late by now, whether they are there or not
        for batch in taken.iter().rev().take(16) {
            let told = ask(&house.server.address(), "POST", &frames_at, batch).unwrap();
            let told: Value = serde_json::from_slice(&told.1).unwrap();
            assert_eq!((told["taken"].as_u64(), told["duplicate"].as_u64()), (Some(0), Some(3)), "{told}");
        }
        for [model, hash] in &keys {
            let known = ask(&house.server.address(), "GET", &format!("/infer/v1/models/{model}/keys/{hash}"), b"");
            assert_eq!(known.unwrap().0, 204, "keys that were taken");
        }
        assert!(left(&house, &name).unwrap() <= least, "what was spent stays spent");
    }
    assert!(taken.len() > 10 && !keys.is_empty() && least < all, "{} {} {least}", taken.len(), keys.len());
    assert!(!house.log().contains("panicked"));
}

/// Numbers in every form in which a program could have left them.
fn forms(numbers: &[i32]) -> Vec<Vec<u8>> {
    let text = |between: &str| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(between).into_bytes();
    vec![
        numbers.iter().map(|number| *number as u8).collect(),
        numbers.iter().flat_map(|number| (*number as i16).to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| i64::from(*number).to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| f64::from(*number).to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| (f64::from(*number) / 256.0).to_le_bytes()).collect(),
        text(","),
        text(", "),
        text("\n"),
    ]
}

/// A secret as it is, and as text.
fn secret(bytes: &[u8]) -> Vec<Vec<u8>> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    vec![bytes.to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes(), format!("{bytes:?}").into_bytes()]
}

#[test]
fn no_canary_of_any_job_is_in_the_servers_memory_files_or_log() {
    let mut house = House::open("debug");
    if cfg!(target_os = "linux") {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", house.server.pid())).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().nth(4), Some("0"), "a crash leaves no file of the memory");
    }
    let mut canaries: Vec<Vec<u8>> = Vec::new();
    let seeker = Tables::new();
    let asked = seeker.write("asked", "canary of a question 58131\nentry 3\n");
    seeker.same(&house.server.url, &house.keys, &asked, &["--table", "keys"], &[]);
    canaries.extend(secret(&std::fs::read(seeker.path("key")).unwrap()[4..]));

    let (own, mut image) = (Images::new(&house.server.url), draw(2, &STYLES[1]));
    let ink: Vec<u8> = (0..28_u32).map(|i| (37 + i * i * 5 % 199) as u8).collect();
    image[28..56].copy_from_slice(&ink);
    own.same(&image);
    canaries.extend(secret(&std::fs::read(own.path("key")).unwrap()[4..36]));
    canaries.extend(forms(&ink.iter().map(|pixel| i32::from(*pixel)).collect::<Vec<_>>()));

    let (place, name) = fleet(&house);
    let of = |device: usize, i: usize| (device * 83 + i * i * 29 + 17) % 256;
    let sent = frames(&place, of);
    send(&house, &name, &sent);
    released(&house, &place);
    canaries.extend((0..3).flat_map(|device| forms(&(0..16).map(|i| of(device, i) as i32).collect::<Vec<_>>())));
    canaries.extend(secret(&std::fs::read(place.path("holder/holder.key")).unwrap()[5..]));

    let speech = noise(29, 40_000);
    let link = talk(&house, &speech);
    canaries.push(link.split_once('#').unwrap().1.as_bytes().to_vec());
    canaries
        .extend(forms(&speech[6_000..6_010].iter().map(|sample| i32::from(*sample)).collect::<Vec<_>>())[1..].to_vec());
    canaries.extend(["canary-of-a", "canary of a question"].map(|text| text.as_bytes().to_vec()));

    if cfg!(target_os = "linux") {
        let mut needles: Vec<&[u8]> = canaries.iter().map(Vec::as_slice).collect();
        let present = [house.server.address().into_bytes(), name.clone().into_bytes()];
        needles.extend(present.iter().map(Vec::as_slice));
        let search = tobari_host::process::process_memory_contains(house.server.pid(), &needles).unwrap();
        assert_eq!(search.found, [canaries.len(), canaries.len() + 1], "what must be there, and nothing else");
    }
    house.server.kill();
    let kept: Vec<Vec<u8>> = files(house.folder.path()).iter().map(|path| std::fs::read(path).unwrap()).collect();
    let holds = |needle: &[u8]| kept.iter().any(|bytes| bytes.windows(needle.len()).any(|window| window == needle));
    assert!(holds(b"keys were sent") && holds(&sent[100..160]), "the log and the frames are searched");
    for canary in &canaries {
        assert!(!holds(canary), "{}", String::from_utf8_lossy(canary));
    }
}
