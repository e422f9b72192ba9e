//! Processes that are killed, and disks that are full. A device's counters continue, and no counter
//! is used twice. A key holder loses no result, and decrypts no other result in its place. Also
//! tests what a server learns from a key holder.

use crate::support::disk::SmallDisk;
use crate::support::fleet::{Place, ask, get, good};
use crate::support::{Server, stderr, tobari};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tobari_device::{MacKey, Profile, U25};
use tobari_host::testing::not_run;
use tobari_lattice::bgv::{EvaluationKeys, SeededCiphertext};
use tobari_lattice::rlwe::SecretKey;
use tobari_sense::cloud::{Cloud, Frames, Material};
use tobari_sense::holder::Holder;
use tobari_sense::program::Input;
use tobari_sense::question::Registered;
use tobari_sense::registry::Registry;
use tobari_sense_files::FrameStore;

const SCHEMA: &str = "profile = \"u25\"\n\n[[channel]]\nname = \"x\"\n";
/// Frames of a complete run: more than a killed run reaches.
const FRAMES: usize = 4_000;
/// Frames of a run that is killed.
const KILLED: usize = 300;

fn count(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
}

#[test]
fn a_device_that_is_killed_at_any_moment_uses_no_counter_twice() {
    let place = Place::new();
    place.fleet(SCHEMA, &["a"]);
    let server = Server::start(&["--sense", &place.path("server")]);
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    let mut taken = 0;
    for run in 0..8u64 {
        // other readings in each run, so that a repeated counter would be a replay
        let rows = (0..KILLED).fold(String::new(), |mut rows, i| {
            writeln!(rows, "{}", (i as u64 * 7 + run * 31) % 256).unwrap();
            rows
        });
        place.write("readings.csv", &rows);
        let words = place.encrypt("a", "readings.csv", &["--server", &server.url, "--batch", "1"]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_tobari"))
            .args(&words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stored = || count(&get(&server.address(), "/sense/v1/metrics"), "tobari_sense_frames_stored");
        // killed while it seals, or while it sends
        for _ in 0..if run < 3 { 20 * run } else { 2_000 } {
            std::thread::sleep(Duration::from_millis(2));
            if stored() > taken {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(3 * run));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(run < 3 || stored() > taken, "a run that was killed sent something");
        taken = stored();
    }
    place.write("readings.csv", "1\n2\n3\n");
    place.seal("a", "readings.csv", &["--server", &server.url]);
    let metrics = get(&server.address(), "/sense/v1/metrics");
    let verdict = |verdict: &str| count(&metrics, &format!("tobari_sense_frames_total{{verdict=\"{verdict}\"}}"));
    for name in ["replayed", "late", "forged", "malformed"] {
        assert_eq!(verdict(name), 0, "{metrics}");
    }
    // a frame that was sent when its run was killed is sent once more
    assert!(verdict("duplicate") <= 8, "{metrics}");
    let taken = count(&metrics, "tobari_sense_frames_stored");
    assert!(taken % KILLED as u64 == 3 && taken > 3, "whole files, and each once: {taken}");
    let counter: u64 =
        std::fs::read_to_string(place.path("devices/a.device.counter")).unwrap().trim_end().parse().unwrap();
    assert!(counter >= taken && counter.is_multiple_of(64), "{counter} counters for {taken} frames");
}

const WINDOW_MS: u64 = 4_000;
const QUESTION: &str =
    "name = \"q\"\nleast-devices = 3\nwindow = { length = \"4s\" }\n[[statistic]]\nkind = \"sum\"\nchannel = \"x\"\n";

/// The data that a server has of a fleet, made in the same way as by the key holder.
struct Given {
    holder: Holder,
    secret: SecretKey,
    cohort: Vec<SeededCiphertext>,
}

impl Material for Given {
    fn secret(&mut self, _: usize, i: usize) -> Option<SeededCiphertext> {
        self.cohort.get(i).cloned()
    }

    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>> {
        self.holder.key(&self.secret, input).map(Arc::new)
    }
}

/// A fleet of three with a question: the question's id, and an honest server that computes results
/// for given readings.
fn asked_fleet(place: &Place) -> (String, impl FnMut([u8; 3]) -> Vec<u8>) {
    place.fleet(SCHEMA, &["a", "b", "c"]);
    let (holder, question) = (place.path("holder"), place.write("question.toml", QUESTION));
    let told: Value = serde_json::from_str(&good(&["sense", "query", &holder, &question, "--json"])).unwrap();
    let id = told["id"].as_str().unwrap().to_owned();
    let read = |name: &str| std::fs::read(place.path(&format!("holder/{name}"))).unwrap();
    let registered: Registered = serde_json::from_slice(&read(&format!("questions/{id}.json"))).unwrap();
    let (holder, registry) =
        (Holder::decode(&read("holder.key")).unwrap(), Registry::decode(&read("devices")).unwrap());
    let (setting, mut rng) = (holder.setting().unwrap(), ChaCha20Rng::seed_from_u64(1));
    let secret = holder.secret(&setting);
    let cohort = holder.cohort(&setting, &secret, &registry, 0, &mut rng).unwrap();
    let (cloud, mut given) = (Cloud::new(setting, &mut rng).unwrap(), Given { holder, secret, cohort });
    let path = place.path("frame");
    let seal: Vec<Vec<String>> =
        ["a", "b", "c"].iter().map(|device| place.encrypt(device, "readings.csv", &["-o", &path])).collect();
    let readings_file = place.path("readings.csv");
    let results = move |readings: [u8; 3]| {
        let mut frames: Frames<U25> = BTreeMap::new();
        for ((entry, words), reading) in registry.entries().iter().zip(&seal).zip(readings) {
            std::fs::write(&readings_file, format!("{reading}\n")).unwrap();
            good(&words.iter().map(String::as_str).collect::<Vec<_>>());
            let key = MacKey::<U25>::from_bytes(&entry.root().mac_key::<U25>());
            frames.insert(entry.number, vec![key.open(&std::fs::read(&path).unwrap()).unwrap()]);
        }
        cloud.answer(&registered.order, &registry.seats(), &frames, &mut given, &mut rng).unwrap()
    };
    (id, results)
}

/// A server that records all requests and has one of these results for each window. The server does
/// not reply when the key holder confirms that it fetched the results of window `deaf_about`.
fn fake_cloud(results: Vec<Vec<u8>>, deaf_about: Option<usize>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (seen, results) = (seen.clone(), results.clone());
            std::thread::spawn(move || serve(&stream.unwrap(), &seen, &results, deaf_about));
        }
    });
    (url, asked)
}

fn serve(stream: &TcpStream, seen: &mpsc::Sender<String>, results: &[Vec<u8>], deaf_about: Option<usize>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let first = head.lines().next().unwrap().to_owned();
        // the key holder may be killed, and the test over
        if seen.send(format!("{head}{}", String::from_utf8_lossy(&body))).is_err() {
            return;
        }
        let windows: Vec<u64> = (0..results.len() as u64).map(|window| window * WINDOW_MS).collect();
        let window = first.split(' ').nth(1).and_then(|path| path.rsplit('/').next()?.parse::<u64>().ok());
        let window = window.map(|start| (start / WINDOW_MS) as usize);
        let reply = match &*first {
            line if line.starts_with("DELETE") => {
                while window.is_some() && window == deaf_about {
                    std::thread::park();
                }
                Vec::new()
            }
            line if line.contains("/windows ") => serde_json::json!({ "windows": windows }).to_string().into_bytes(),
            line if line.contains("/windows/") => results[window.unwrap()].clone(),
            line if line.starts_with("GET") && !line.contains("objects") => b"{\"bundle\":\"none yet\"}".to_vec(),
            _ => Vec::new(),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", reply.len());
        if (&*stream).write_all(&[head.as_bytes(), &reply].concat()).is_err() {
            return;
        }
    }
}

fn keyholder(place: &Place, url: &str) -> Vec<String> {
    ["sense", "keyholder", &place.path("holder"), "--server", url, "--once", "--json"].map(str::to_owned).to_vec()
}

/// The key holder's releases: window and sum, each once.
fn released(place: &Place, url: &str) -> Vec<(u64, String)> {
    let words = keyholder(place, url);
    let told = good(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let of = |line: &str| {
        let release: Value = serde_json::from_str(line).unwrap();
        let sum = release["groups"][0]["figures"][0]["exact"].as_str().unwrap().to_owned();
        (release["start_ms"].as_u64().unwrap() / WINDOW_MS, sum)
    };
    told.lines().map(of).collect()
}

#[test]
fn the_server_hears_the_same_whether_a_result_is_released_or_withheld() {
    let place = Place::new();
    let (_, mut results) = asked_fleet(&place);
    let result = results([1, 2, 3]);
    // nonsense, and a result with one bit changed
    let mut changed = result.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    let (url, asked) = fake_cloud(vec![result, b"nonsense".to_vec(), changed], None);
    assert_eq!(released(&place, &url), [(0, "6".to_owned())], "one is released");
    let asked: Vec<String> = asked.try_iter().collect();
    let of = |window: u64| -> Vec<String> {
        let own = asked.iter().filter(|text| text.contains(&format!("/windows/{} ", window * WINDOW_MS)));
        own.map(|text| text.replace(&format!("/windows/{} ", window * WINDOW_MS), "/windows/W ")).collect()
    };
    assert_eq!((of(0).len(), of(0)), (2, of(1)), "a fetch and a word that it was fetched");
    assert_eq!(of(0), of(2));
    // each window once: nothing is fetched a second time, even if the server offers it again
    assert_eq!(released(&place, &url), []);
}

/// A release that cannot be written changes nothing for the server: the key holder fetches all
/// other windows and confirms them, and only then reports the error.
#[test]
fn fault_31_the_server_is_asked_for_all_windows_whatever_becomes_of_one() {
    let place = Place::new();
    let (id, mut results) = asked_fleet(&place);
    let result = results([1, 2, 3]);
    let (url, asked) = fake_cloud(vec![result.clone(), b"nonsense".to_vec(), result], None);
    // a folder takes the place of the first release as soon as the result is fetched
    let release = std::path::PathBuf::from(place.path(&format!("holder/releases/{id}/0.json")));
    let (told, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for text in asked {
            if text.contains("/windows/0 ") && !text.starts_with("DELETE") {
                std::fs::create_dir_all(release.join("in the way")).unwrap();
            }
            _ = told.send(text);
        }
    });
    let words = keyholder(&place, &url);
    let ended = tobari(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let said = stderr(&ended);
    assert!(!ended.status.success() && said.contains("0.json"), "{said}");
    let seen: Vec<String> = seen.try_iter().collect();
    for window in 0..3 {
        let own = seen.iter().filter(|text| text.contains(&format!("/windows/{} ", window * WINDOW_MS)));
        let methods: Vec<&str> = own.filter_map(|text| text.split(' ').next()).collect();
        assert_eq!(methods, ["POST", "DELETE"], "window {window}");
    }
    // without the folder, all fetched results are decrypted, and nothing is fetched again
    std::fs::remove_dir_all(place.path(&format!("holder/releases/{id}/0.json"))).unwrap();
    let (url, asked) = fake_cloud(vec![], None);
    assert_eq!(released(&place, &url), [(0, "6".to_owned()), (2, "6".to_owned())]);
    assert!(asked.try_iter().all(|text| !text.contains("/windows/")));
}

/// Has a key holder fetch the results of a window, and kills it before the server's reply to the
/// confirmation. Returns the fetched bytes. The same file would be there after a later kill, until
/// the key holder has written the release.
fn killed_at(place: &Place, id: &str, results: Vec<Vec<u8>>, window: usize) -> Vec<u8> {
    let (url, asked) = fake_cloud(results, Some(window));
    let mut child: Child = Command::new(env!("CARGO_BIN_EXE_tobari"))
        .args(keyholder(place, &url))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = window as u64 * WINDOW_MS;
    let told = |text: String| text.starts_with("DELETE") && text.contains(&format!("/windows/{start} "));
    while !told(asked.recv().unwrap()) {}
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::read(place.path(&format!("holder/releases/{id}/{start}.fetched"))).unwrap()
}

#[test]
fn a_key_holder_that_is_killed_loses_no_result_and_opens_no_other_in_its_place() {
    let place = Place::new();
    let (id, mut results) = asked_fleet(&place);
    let [first, second, other] = [[1, 2, 3], [10, 20, 30], [100, 100, 55]].map(&mut results);
    // a server that has no further results
    assert_eq!(killed_at(&place, &id, vec![first.clone()], 0), first);
    let (url, _asked) = fake_cloud(vec![], None);
    assert_eq!(released(&place, &url), [(0, "6".to_owned())]);
    // a server that offers another result for the same window
    assert_eq!(killed_at(&place, &id, vec![first, second.clone()], 1), second);
    let (url, asked) = fake_cloud(vec![other.clone(), other], None);
    assert_eq!(released(&place, &url), [(1, "60".to_owned())]);
    let asked: Vec<String> = asked.try_iter().filter(|text| text.contains("/windows/")).collect();
    assert!(asked.iter().all(|text| text.starts_with("DELETE")), "nothing is fetched twice: {asked:?}");
    // killed between writing the release and removing the fetched file
    let left = place.path(&format!("holder/releases/{id}/{WINDOW_MS}.fetched"));
    assert!(!std::fs::exists(&left).unwrap());
    std::fs::write(&left, &second).unwrap();
    assert_eq!(released(&place, &url), []);
    assert!(!std::fs::exists(&left).unwrap());
}

/// A server on a small file system of its own. On a line of standard input the server ends, and its
/// data are copied elsewhere.
const ON_A_SMALL_DISK: &str = "mount -t tmpfs -o size=24m none \"$2\" || exit 77
    \"$1\" serve --addr 127.0.0.1:0 --json --sense \"$2/server\" & server=$!
    read -r _
    kill \"$server\"; wait \"$server\"
    cp -a \"$2/server\" \"$3\" && echo copied";

/// How many frames of a batch were taken, and how many were duplicates.
fn taken(answer: &(u16, Vec<u8>)) -> (u64, u64) {
    assert_eq!(answer.0, 200, "{}", String::from_utf8_lossy(&answer.1));
    let told: Value = serde_json::from_slice(&answer.1).unwrap();
    (told["taken"].as_u64().unwrap(), told["duplicate"].as_u64().unwrap())
}

/// The server's whole reply to a batch, with its head.
fn whole_answer(address: &str, path: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The status of `/readyz`, and the state of a job in its reply.
fn job(address: &str, job: &str) -> (u16, Value) {
    let (status, body) = ask(address, "GET", "/readyz", b"").unwrap();
    let told: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(told["ready"], Value::Bool(status == 200), "{told}");
    (status, told["jobs"][job].clone())
}

#[test]
fn fault_25_after_a_full_disk_frames_are_taken_again_without_a_restart_and_none_is_lost_or_there_twice() {
    const BATCH: usize = 200;
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a"]);
    let (kept, output) = (place.path("kept"), place.path("frames"));
    let Some(disk) = SmallDisk::start(ON_A_SMALL_DISK, &place.path("mount"), &[&kept]) else {
        let name =
            "fault_25_after_a_full_disk_frames_are_taken_again_without_a_restart_and_none_is_lost_or_there_twice";
        return not_run(name, "this system makes no file system for who asks");
    };
    good(&["sense", "keyholder", &place.path("holder"), "--server", &disk.url, "--once"]);
    place.write("readings.csv", &(0..FRAMES).fold(String::new(), |rows, i| format!("{rows}{}\n", i % 256)));
    place.seal("a", "readings.csv", &["-o", &output]);
    let frames = std::fs::read(&output).unwrap();
    let batches: Vec<&[u8]> = frames.chunks(BATCH * U25::FRAME).collect();
    assert_eq!(batches.len(), FRAMES / BATCH);
    let (address, path) = (disk.address().to_owned(), format!("/sense/v1/fleets/{fleet}/frames"));
    let send = |batch: usize| ask(&address, "POST", &path, batches[batch]).unwrap();
    let all = BATCH as u64;

    assert_eq!([0, 1].map(|batch| taken(&send(batch))), [(all, 0); 2]);
    assert_eq!(ask(&address, "GET", "/readyz", b"").unwrap(), (200, b"ready\n".to_vec()));

    // the disk is full: at some point a batch is rejected, and from then on every batch, with
    // advice
    let filler = disk.fill();
    let mut next = 2;
    while next < 12 && send(next).0 == 200 {
        next += 1;
    }
    for _ in 0..5 {
        let refused = whole_answer(&address, &path, batches[next]).to_ascii_lowercase();
        assert!(refused.starts_with("http/1.1 507"), "{refused}");
        for word in ["tobari-refusal: storage", "retry-after: ", "storage is full", "not acknowledged", "send it again"]
        {
            assert!(refused.contains(word), "{word}: {refused}");
        }
        let (status, sense) = job(&address, "sense");
        assert_eq!((status, &sense["state"], &sense["reason"]), (503, &"failing".into(), &"storage is full".into()));
        assert_eq!(job(&address, "call").1["state"], "ready");
        assert_eq!(ask(&address, "GET", "/healthz", b"").unwrap().0, 200, "it lives");
        std::thread::sleep(Duration::from_millis(500));
    }

    // a container's check lets the server live, and the check of a load balancer does not use it
    let health = |more: &[&str]| tobari(&[&["healthcheck", "--server", &disk.url], more].concat());
    let (alive, ready) = (health(&[]), health(&["--ready"]));
    assert!(alive.status.success(), "{}", stderr(&alive));
    assert!(ready.status.code() == Some(1) && stderr(&ready).contains("not ready: "), "{}", stderr(&ready));
    assert!(stderr(&ready).contains("storage is full"), "{}", stderr(&ready));

    // the server is not ready either when no frames arrive
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(job(&address, "sense").0, 503);
    }

    // there is space again: the server recovers by itself
    std::fs::remove_file(filler).unwrap();
    let began = std::time::Instant::now();
    while ask(&address, "GET", "/readyz", b"").unwrap() != (200, b"ready\n".to_vec()) {
        assert!(began.elapsed() < Duration::from_secs(20), "there is room and the server is not ready");
        std::thread::sleep(Duration::from_millis(100));
    }
    // a rejected batch may be stored completely, if the disk failed after writing it; otherwise
    // none of its frames is stored
    assert!([all, 0].contains(&taken(&send(next)).0));
    assert_eq!([1, 2].map(|more| taken(&send(next + more))), [(all, 0); 2]);
    let sent = next + 3;
    // no batch is taken again: the newest 64 frames of each device count as duplicates, and earlier
    // ones as replayed
    for batch in 0..sent {
        assert_eq!(taken(&send(batch)).0, 0, "batch {batch} is there");
    }
    assert_eq!(taken(&send(sent - 1)), (0, all));
    let stored = |address: &str| count(&get(address, "/sense/v1/metrics"), "tobari_sense_frames_stored");
    assert_eq!(stored(&address), sent as u64 * all);

    // the same after a restart
    disk.end("copied");
    let server = Server::start(&["--sense", &kept]);
    assert_eq!(stored(&server.address()), sent as u64 * all);
    assert_eq!(taken(&ask(&server.address(), "POST", &path, batches[sent]).unwrap()), (all, 0));
    drop(server);
    let (store, mut found) = (FrameStore::open(format!("{kept}/{fleet}/frames.redb").as_ref()).unwrap(), Vec::new());
    store.window(0, u64::MAX, |bytes| found.extend_from_slice(bytes)).unwrap();
    assert!(found == frames[..(sent + 1) * BATCH * U25::FRAME], "each frame once, in its order");
}
