//! Devices, a blind server and a key holder, each a process of its own: figures equal the plain ones, no acknowledged frame is lost, and the server hears nothing of what becomes of a result.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::Server;
use support::fleet::{Place, ask, bad, get, good};

const WINDOW_MS: u64 = 4_000;
const SCHEMA: &str = r#"
profile = "u25"
samples = 4
products = [["temperature", "humidity"]]

[[channel]]
name = "temperature"
least = -40
step = 0.5
square = true
edges = [0, 20]
above = [30]

[[channel]]
name = "humidity"
step = 0.5
"#;
const QUESTION: &str = r#"
name = "climate"
least-devices = 3
frames = 4
window = { length = "4s" }

[[statistic]]
kind = "mean"
channel = "temperature"

[[statistic]]
kind = "histogram"
channel = "temperature"

[[statistic]]
kind = "alarm"
channel = "temperature"
threshold = 30
at-least = 2

[[statistic]]
kind = "covariance"
channels = ["temperature", "humidity"]
"#;

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Waits for the beginning of a window.
fn next_window() {
    std::thread::sleep(Duration::from_millis(WINDOW_MS - now_ms() % WINDOW_MS + 50));
}

/// Readings of a device, in half degrees and half per cent.
fn readings(device: usize) -> Vec<[f64; 2]> {
    (0..5 + device)
        .map(|i| [((device * 7 + i * 3) % 170) as f64 / 2.0, ((device * 5 + i * i) % 200) as f64 / 2.0])
        .collect()
}

fn csv(rows: &[[f64; 2]]) -> String {
    let lines: String = rows.iter().map(|[t, h]| format!("{h}, {t}\n")).collect();
    format!("humidity,temperature\n{lines}")
}

#[test]
fn a_mean_a_histogram_and_an_alarm_come_out_right_from_three_processes() {
    let place = Place::new();
    let names = ["a", "b", "c", "d", "e"];
    let fleet = place.fleet(SCHEMA, &names);
    let question = place.write("question.toml", QUESTION);
    let holder = place.path("holder");
    assert!(good(&["sense", "query", &holder, &question]).contains("5 devices"));
    bad(&["sense", "query", &holder, &question], 1, "is registered");
    let server = Server::start(&["--sense", &place.path("server"), "--log", "info"]);
    let keyholder = ["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"];
    assert_eq!(good(&keyholder), "", "nothing to release yet");
    next_window();
    let mut rows = Vec::new();
    for (device, name) in names.iter().enumerate() {
        let own = readings(device * 4);
        place.write("readings.csv", &csv(&own));
        let told: Value =
            serde_json::from_str(&place.seal(name, "readings.csv", &["--server", &server.url, "--json"])).unwrap();
        assert_eq!(
            (told["samples"].as_u64().unwrap() as usize, &told["server"]["forged"]),
            (own.len(), &Value::from(0))
        );
        rows.extend(own.into_iter().take(16));
    }
    next_window();
    let released: Value = serde_json::from_str(good(&keyholder).trim()).unwrap();
    let group = &released["groups"][0];
    assert_eq!((&group["devices"], &released["left_out"]), (&Value::from(5), &Value::from(3)), "{released}");
    let figure = |i: usize| group["figures"][i].clone();
    let n = rows.len() as f64;
    let mean = |f: &dyn Fn(&[f64; 2]) -> f64| rows.iter().map(f).sum::<f64>() / n;
    let close =
        |found: &Value, expected: f64| assert!((found.as_f64().unwrap() - expected).abs() < 1e-9, "{found} {expected}");
    close(&figure(0)["value"], mean(&|row| row[0]));
    let below = |least: f64, most: f64| rows.iter().filter(|row| (least..most).contains(&row[0])).count();
    assert_eq!(figure(1)["counts"], serde_json::json!([below(-50.0, 0.0), below(0.0, 20.0), below(20.0, 99.0)]));
    let above = rows.iter().filter(|row| row[0] > 30.0).count();
    assert_eq!((&figure(2)["count"], &figure(2)["alarm"]), (&Value::from(above), &Value::from(above >= 2)));
    close(&figure(3)["value"], mean(&|row| row[0] * row[1]) - mean(&|row| row[0]) * mean(&|row| row[1]));
    // once: what was released is not fetched again, and the file is nobody else's to read
    assert_eq!(good(&keyholder), "");
    let files: Vec<_> = walk(Path::new(&holder)).into_iter().filter(|path| path.contains("releases")).collect();
    assert_eq!(files.len(), 1);
    #[cfg(unix)]
    for secret in
        files.iter().map(String::as_str).chain([&*place.path("holder/holder.key"), &*place.path("holder/devices")])
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(secret).unwrap().permissions().mode() & 0o777, 0o600, "{secret}");
    }
    analysts_see(&keyholder[..5], &released, above);
    // nothing that the server has or says names anything
    let metrics = get(&server.address(), "/sense/v1/metrics");
    assert!(metrics.contains("tobari_sense_frames_total{verdict=\"taken\"} "), "{metrics}");
    let mut told = server.stop() + &metrics;
    #[cfg(feature = "parquet")]
    frames_and_figures_are_exported(&place, &fleet, &released);
    for path in walk(Path::new(&place.path("server"))) {
        told += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
    }
    for name in ["temperature", "humidity", "climate"] {
        assert!(!told.contains(name), "the server knows of {name}");
    }
    assert!(!fleet.is_empty());
}

/// Analysts come to the key holder, after a restart too.
fn analysts_see(keyholder: &[&str], released: &Value, above: usize) {
    let mut serving = Command::new(env!("CARGO_BIN_EXE_tobari"))
        .args(keyholder)
        .args(["--addr", "127.0.0.1:0", "--json", "--until-stdin-closes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut told = BufReader::new(serving.stdout.take().unwrap());
    told.read_line(&mut line).unwrap();
    let url: Value = serde_json::from_str(&line).unwrap();
    let analysts = url["listening"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let mut all = String::new();
    for _ in 0..100 {
        all = get(&analysts, "/releases");
        if all != "[]" {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(serde_json::from_str::<Value>(&all).unwrap(), serde_json::json!([released]));
    assert_eq!(get(&analysts, "/releases/climate"), all);
    let metrics = get(&analysts, "/metrics");
    assert!(metrics.contains(&format!("tobari_sense_above{{question=\"climate\",group=\"all\",channel=\"temperature\",threshold=\"30\"}} {above}\n")), "{metrics}");
    drop(serving.stdin.take());
    assert!(serving.wait().unwrap().success());
}

/// Where the server is stopped: its frames; from the key holder's folder and from what analysts see: the figures.
#[cfg(feature = "parquet")]
fn frames_and_figures_are_exported(place: &Place, fleet: &str, released: &Value) {
    let (server, holder, file) = (place.path("server"), place.path("holder"), place.path("table.parquet"));
    let export = |words: &[&str]| -> Value {
        let told = good(&[&["sense", "export", "--json", "-o", &file][..], words].concat());
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        serde_json::from_str::<Value>(&told).unwrap()["rows"].clone()
    };
    let frames = released["groups"][0]["frames"].as_u64().unwrap() + released["left_out"].as_u64().unwrap();
    assert_eq!(export(&["--frames", &server]), frames);
    assert_eq!(export(&["--frames", &server, "--fleet", fleet, "--to-ms", "1"]), 0);
    // a mean, a histogram of three bins, an alarm, a covariance
    assert_eq!(export(&["--figures", &holder]), 6);
    let releases = place.write("releases.json", &serde_json::json!([released, released]).to_string());
    assert_eq!(export(&["--releases", &releases]), 12);
    assert_eq!(export(&["--releases", &releases, "--from-ms", "99999999999999"]), 0);
    bad(&["sense", "export", "--frames", &server, "--fleet", "00", "-o", &file], 1, "expected the fleet 00");
    bad(&["sense", "export", "--frames", &holder, "-o", &file], 1, "found 0 fleets");
    bad(&["sense", "export", "--frames", &server, "--figures", &holder, "-o", &file], 2, "cannot be used with");
}

fn walk(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(walk(&path));
        } else {
            all.push(path.to_str().unwrap().to_owned());
        }
    }
    all
}

/// The counts of a reply to frames.
fn sent(address: &str, fleet: &str, frames: &[u8]) -> Option<Value> {
    let (status, body) = ask(address, "POST", &format!("/sense/v1/fleets/{fleet}/frames"), frames)?;
    (status == 200).then(|| serde_json::from_slice(&body).unwrap())
}

#[test]
fn frames_are_refused_for_their_own_reason_and_devices_come_and_go() {
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a", "b", "c"]);
    let holder = place.path("holder");
    place.write("readings.csv", &csv(&readings(19)));
    let server = Server::start(&["--sense", &place.path("server")]);
    let publish = || good(&["sense", "keyholder", &holder, "--server", &server.url, "--once"]);
    let frames = |device: &str| {
        place.seal(device, "readings.csv", &["-o", &place.path("frames")]);
        std::fs::read(place.path("frames")).unwrap()
    };
    let first = frames("a");
    assert_eq!(first.len(), 6 * 840);
    assert!(sent(&server.address(), &fleet, &first).is_none(), "no such fleet yet");
    publish();
    let send = |frames: &[u8]| {
        let counts = sent(&server.address(), &fleet, frames).unwrap();
        ["taken", "duplicate", "replayed", "late", "revoked", "forged", "malformed"]
            .map(|name| counts[name].as_u64().unwrap())
    };
    assert_eq!(send(&first), [6, 0, 0, 0, 0, 0, 0]);
    assert_eq!(send(&first), [0, 6, 0, 0, 0, 0, 0], "sent again, and answered as taken");
    let mut changed = frames("a");
    changed[500] ^= 1;
    changed[840] = 0x11;
    assert_eq!(send(&changed[..6 * 840 - 1]), [3, 0, 0, 0, 0, 1, 2]);
    // a device's agreement, its new key, and its end
    let request = place.path("request");
    let words =
        ["--fleet", &place.path("holder/fleet.json"), "-o", &place.path("devices/e.device"), "--request", &request];
    let enrolled = good(&[&["sense", "enrol", "--number", "900"][..], &words, &["--json"]].concat());
    let fingerprint = serde_json::from_str::<Value>(&enrolled).unwrap()["fingerprint"].as_str().unwrap().to_owned();
    let take_in = ["sense", "provision", &*holder, "e", "--request", &*request, "--fingerprint"];
    bad(&[&take_in[..], &["0000-0000-0000-0000"]].concat(), 1, "expected a request with the fingerprint");
    good(&[&take_in[..], &[&*fingerprint]].concat());
    let before = frames("b");
    std::fs::remove_file(place.path("devices/b.device")).unwrap();
    std::fs::remove_file(place.path("devices/b.device.counter")).unwrap();
    good(&["sense", "provision", &holder, "b", "--rotate", "-o", &place.path("devices")]);
    let of_c = frames("c");
    good(&["sense", "provision", &holder, "c", "--revoke"]);
    publish();
    assert_eq!(send(&frames("e")), [6, 0, 0, 0, 0, 0, 0]);
    assert_eq!(send(&before), [0, 0, 0, 0, 6, 0, 0], "the old key");
    assert_eq!(send(&frames("b")), [6, 0, 0, 0, 0, 0, 0], "the new one");
    assert_eq!(send(&of_c), [0, 0, 0, 0, 6, 0, 0]);
    let listed = good(&["sense", "provision", &holder, "--list"]);
    assert!(
        listed.contains("b: number 2, retired")
            && listed.contains("c: number 3, revoked")
            && listed.contains("e: number 900"),
        "{listed}"
    );
    // a device whose counter is gone does not seal
    std::fs::remove_file(place.path("devices/e.device.counter")).unwrap();
    let words = place.encrypt("e", "readings.csv", &["-o", "-"]);
    bad(&words.iter().map(String::as_str).collect::<Vec<_>>(), 1, "e.device.counter");
    // its frames are removed when that is asked for
    let forgotten = good(&["sense", "forget", &holder, "a", "b", "--server", &server.url]);
    assert_eq!(forgotten, "a: 9 frames removed\nb: 6 frames removed\n");
    bad(&["sense", "forget", &holder, "x", "--server", &server.url], 1, "expected the name of a device");
    assert!(get(&server.address(), "/sense/v1/metrics").contains("tobari_sense_frames_stored 6\n"));
}

#[test]
fn no_acknowledged_frame_is_lost_when_the_server_is_killed() {
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a", "b"]);
    let rows: Vec<[f64; 2]> = (0..4 * 60).map(|i| [f64::from(i % 50), f64::from(i % 90)]).collect();
    place.write("readings.csv", &csv(&rows));
    let data = place.path("server");
    for (round, device) in ["a", "b"].into_iter().enumerate() {
        let server = Server::start(&["--sense", &data]);
        good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
        place.seal(device, "readings.csv", &["-o", &place.path("frames")]);
        let frames = std::fs::read(place.path("frames")).unwrap();
        assert_eq!(frames.len(), 60 * 840);
        let (address, (told, acknowledged)) = (server.address(), mpsc::channel());
        let sender = {
            let (frames, fleet) = (frames.clone(), fleet.clone());
            std::thread::spawn(move || {
                for frame in frames.chunks(840) {
                    if sent(&address, &fleet, frame).is_none_or(|counts| counts["taken"] != 1) {
                        return;
                    }
                    told.send(()).unwrap();
                }
            })
        };
        // killed in the midst of it, at another moment each time
        let count = 9 + 14 * round;
        (0..count).for_each(|_| acknowledged.recv().unwrap());
        server.stop();
        sender.join().unwrap();
        let count = count + acknowledged.try_iter().count();
        let server = Server::start(&["--sense", &data]);
        let counts = sent(&server.address(), &fleet, &frames[..count * 840]).unwrap();
        assert_eq!(counts["duplicate"], count, "each of those that were acknowledged is there: {counts}");
        let rest = sent(&server.address(), &fleet, &frames).unwrap();
        assert_eq!(rest["taken"].as_u64().unwrap() + rest["duplicate"].as_u64().unwrap(), 60, "{rest}");
        let metrics = get(&server.address(), "/sense/v1/metrics");
        assert!(
            metrics.contains(&format!("tobari_sense_frames_stored {}\n", 60 * (round + 1))),
            "none twice: {metrics}"
        );
    }
}

#[test]
fn readings_alone_are_enough_in_profile_p1() {
    let place = Place::new();
    place.fleet("profile = \"p1\"\n[[channel]]\nname = \"x\"\n", &["a", "b"]);
    let question = "name = \"q\"\nleast-devices = 2\nwindow = { length = \"4s\" }\n[[statistic]]\nkind = \"mean\"\nchannel = \"x\"\n[[statistic]]\nkind = \"alarm\"\nchannel = \"x\"\nthreshold = 99\n";
    let (question, holder) = (place.write("question.toml", question), place.path("holder"));
    good(&["sense", "query", &holder, &question]);
    let server = Server::start(&["--sense", &place.path("server")]);
    let keyholder = ["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"];
    good(&keyholder);
    // a device that is given a token, and one that has its file
    let token = good(&["sense", "provision", &holder, "b", "--rotate", "--token"]);
    place.write("token", &token);
    let card = place.path("holder/fleet.json");
    good(&["sense", "enrol", "--fleet", &card, "--token", &place.path("token"), "-o", &place.path("devices/c.device")]);
    good(&["sense", "query", &holder, &place.write("again.toml", &question_of_new_devices())]);
    good(&keyholder);
    next_window();
    for (device, reading) in [("a", 100), ("c", 51)] {
        place.write("readings.csv", &format!("{reading}\n"));
        place.seal(device, "readings.csv", &["--server", &server.url]);
    }
    next_window();
    let released = good(&keyholder);
    let released: Vec<Value> = released.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [released] = &released[..] else { panic!("the first question has one device left of its two: {released:?}") };
    let figures = &released["groups"][0]["figures"];
    assert_eq!((&figures[0]["exact"], &figures[1]["alarm"]), (&"151/2".into(), &true.into()), "{released}");
}

/// The same for the devices of now.
fn question_of_new_devices() -> String {
    "name = \"q2\"\nleast-devices = 2\nwindow = { length = \"4s\" }\n[[statistic]]\nkind = \"mean\"\nchannel = \"x\"\n[[statistic]]\nkind = \"alarm\"\nchannel = \"x\"\nthreshold = 99\n".to_owned()
}

/// A broker, ended when this is dropped; none where there is no mosquitto.
struct Broker(std::process::Child, u16);

impl Broker {
    fn start(place: &Place) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = place.write("broker.conf", &format!("listener {port} 127.0.0.1\nallow_anonymous true\n"));
        let child =
            Command::new("mosquitto").args(["-c", &file]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let broker = Self(child, port);
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(broker);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("a broker that does not listen");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says that a test could not be run, to whoever reads and to whoever counts.
#[allow(clippy::print_stdout, reason = "what does not run is said where the test's output goes")]
fn not_run(name: &str, reason: &str) {
    println!("NOT RUN: {name}: {reason}");
    let Ok(path) = std::env::var("TOBARI_NOT_RUN_LOG") else { return };
    let log = std::fs::OpenOptions::new().append(true).create(true).open(path);
    log.and_then(|mut log| log.write_all(format!("{name}: {reason}\n").as_bytes())).unwrap();
}

#[test]
fn frames_come_over_a_broker_even_those_that_were_published_while_the_server_was_away() {
    let place = Place::new();
    let Some(broker) = Broker::start(&place) else {
        not_run(
            "frames_come_over_a_broker_even_those_that_were_published_while_the_server_was_away",
            "no mosquitto on PATH",
        );
        return;
    };
    place.fleet(SCHEMA, &["a", "b"]);
    place.write("readings.csv", &csv(&readings(15)));
    let (data, url) = (place.path("server"), format!("mqtt://127.0.0.1:{}", broker.1));
    let start = || Server::start(&["--sense", &data, "--sense-mqtt", &url]);
    let stored = |server: &Server, count: u64| {
        let expected = format!("tobari_sense_frames_stored {count}\n");
        for _ in 0..200 {
            if get(&server.address(), "/sense/v1/metrics").contains(&expected) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{expected} {}", get(&server.address(), "/sense/v1/metrics"));
    };
    let server = start();
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    std::thread::sleep(Duration::from_millis(500)); // subscribed
    place.seal("a", "readings.csv", &["--mqtt", &url, "--batch", "1"]);
    stored(&server, 5);
    server.stop();
    place.seal("b", "readings.csv", &["--mqtt", &url, "--batch", "2"]);
    stored(&start(), 10);
}

/// A server that keeps what it is asked, and answers for one window with these bytes.
fn fake_cloud(bundle: Vec<u8>, results: Vec<Vec<u8>>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (seen, bundle, results) = (seen.clone(), bundle.clone(), results.clone());
            std::thread::spawn(move || serve(&stream.unwrap(), &seen, &bundle, &results));
        }
    });
    (url, asked)
}

fn serve(stream: &TcpStream, seen: &mpsc::Sender<String>, bundle: &[u8], results: &[Vec<u8>]) {
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
        seen.send(format!("{head}{}", String::from_utf8_lossy(&body))).unwrap();
        let windows: Vec<u64> = (0..results.len() as u64).map(|window| window * WINDOW_MS).collect();
        let window = first.split(' ').nth(1).and_then(|path| path.rsplit('/').next()?.parse::<u64>().ok());
        let reply = match &*first {
            line if line.starts_with("DELETE") => Vec::new(),
            line if line.contains("/windows ") => serde_json::json!({ "windows": windows }).to_string().into_bytes(),
            line if line.contains("/windows/") => results[(window.unwrap() / WINDOW_MS) as usize].clone(),
            line if line.starts_with("GET") && !line.contains("objects") => bundle.to_vec(),
            _ => Vec::new(),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", reply.len());
        (&*stream).write_all(&[head.as_bytes(), &reply].concat()).unwrap();
    }
}

#[test]
fn the_server_hears_the_same_whether_a_result_is_released_or_withheld() {
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a", "b", "c"]);
    let question = place.write("question.toml", QUESTION);
    let holder = place.path("holder");
    let id = good(&["sense", "query", &holder, &question, "--json"]);
    let id = serde_json::from_str::<Value>(&id).unwrap()["id"].as_str().unwrap().to_owned();
    // an honest server's result, taken down
    let server = Server::start(&["--sense", &place.path("server")]);
    good(&["sense", "keyholder", &holder, "--server", &server.url, "--once"]);
    next_window();
    place.write("readings.csv", &csv(&readings(3)));
    let start = now_ms() / WINDOW_MS * WINDOW_MS;
    for device in ["a", "b", "c"] {
        place.seal(device, "readings.csv", &["--server", &server.url]);
    }
    next_window();
    let path = format!("/sense/v1/fleets/{fleet}/questions/{id}/windows/{start}");
    let (status, result) = ask(&server.address(), "POST", &path, b"").unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&result));
    let bundle = get(&server.address(), &format!("/sense/v1/fleets/{fleet}")).into_bytes();
    // another one hands in it, nonsense, and one with a bit changed
    let mut changed = result.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    let (url, asked) = fake_cloud(bundle, vec![result, b"nonsense".to_vec(), changed]);
    let words = ["sense", "keyholder", &holder, "--server", &url, "--once", "--json"];
    let told = good(&words);
    assert_eq!(told.lines().count(), 1, "one is released: {told}");
    let asked: Vec<String> = asked.try_iter().collect();
    let of = |window: u64| -> Vec<String> {
        let own = asked.iter().filter(|text| text.contains(&format!("/windows/{} ", window * WINDOW_MS)));
        own.map(|text| text.replace(&format!("/windows/{} ", window * WINDOW_MS), "/windows/W ")).collect()
    };
    assert_eq!((of(0).len(), of(0)), (2, of(1)), "a fetch and a word that it was fetched");
    assert_eq!(of(0), of(2));
    // each once: nothing is fetched a second time, however often it is offered
    let again = Command::new(env!("CARGO_BIN_EXE_tobari")).args(words).stdin(Stdio::null()).output().unwrap();
    assert!(again.status.success() && again.stdout.is_empty());
}
