//! Devices, a blind server and a key holder, each in a process of its own: figures equal the plain
//! ones, and no acknowledged frame is lost.

use crate::support::broker::Broker;
use crate::support::fleet::{Place, ask, bad, get, good};
use crate::support::{Server, exposition};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tobari_sense_files::FrameStore;

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

# the same threshold and counts once more, for the text of metrics
[[statistic]]
kind = "above"
channel = "temperature"
threshold = 30

[[statistic]]
kind = "count"

[[statistic]]
kind = "sum"
channel = "temperature"
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

/// Devices of a table: all of them, or none.
#[test]
fn devices_are_taken_from_a_table_and_a_table_with_an_error_changes_nothing() {
    let place = Place::new();
    place.fleet(SCHEMA, &["a"]);
    let holder = place.path("holder");
    let listed = || good(&["sense", "provision", &holder, "--list"]);
    let before = listed();
    let tokens = ["--token", "--json"];
    for (table, expected) in [
        ("name\nb\na\n", "one that is active or was used: a"),
        ("name\nb\nb\n", "line 3: b is in the list twice"),
        ("b\nc\n", "add the line `name,tenant`"),
    ] {
        let file = place.write("table.csv", table);
        bad(&[&["sense", "provision", &holder, "--devices", &file][..], &tokens].concat(), 1, expected);
        assert_eq!(listed(), before);
    }
    // a device without a file would have to get a new key
    place.write("devices/c.device", "in the way");
    let file = place.write("table.csv", "name\nb\nc\n");
    let words = ["sense", "provision", &holder, "--devices", &file, "-o", &place.path("devices")];
    bad(&words, 1, "c.device");
    assert_eq!(listed(), before);
    assert_eq!(std::fs::read_dir(place.path("devices")).unwrap().count(), 3, "two of a, and the one in the way");
    let file = place.write("table.csv", "Room;Name;Tenant\n1;b;north\n2;c;\n");
    let words = ["sense", "provision", &holder, "--devices", &file, "--tenant", "south"];
    let told = good(&[&words[..], &tokens].concat());
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((told.len(), &told[1]["device"], &told[1]["number"]), (2, &"c".into(), &3.into()));
    assert!(told.iter().all(|device| device["token"].as_str().unwrap().starts_with("TOBARI-DEVICE-1-")));
    let now = listed();
    assert!(now.starts_with(&before) && now.contains("b: number 2, active, of north"), "{now}");
    assert!(now.contains("c: number 3, active, of south"), "{now}");
    // keys are replaced, and devices revoked, by the same table
    let files = place.path("rotated");
    good(&["sense", "provision", &holder, "--devices", &file, "--rotate", "-o", &files]);
    assert_eq!(std::fs::read_dir(&files).unwrap().count(), 4);
    good(&["sense", "provision", &holder, "--devices", &file, "--revoke"]);
    let now = listed();
    assert_eq!((now.matches(", retired").count(), now.matches(", revoked").count()), (2, 2), "{now}");
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
    // once: a release is not fetched again, and only the owner can read its file
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
    let figures = analysts_see(&keyholder[..5], &released, above);
    // no name appears in the server's data or output
    let metrics = get(&server.address(), "/sense/v1/metrics");
    assert!(metrics.contains("tobari_sense_frames_total{verdict=\"taken\"} "), "{metrics}");
    let type_of = |path: &str| content_type(&server.address(), path);
    assert_eq!(type_of("/sense/v1/metrics"), "text/plain; version=0.0.4; charset=utf-8");
    [&metrics, &get(&server.address(), "/metrics")].iter().for_each(|text| exposition::check(text));
    dashboard_has_metrics_that_are_there(&(figures + &metrics));
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

/// Every series and label of the dashboard is served, or is that of a statistic in the reference.
fn dashboard_has_metrics_that_are_there(served: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/sensors.json")).unwrap();
    let (reference, mut names) = (read("book/src/reference/metrics.md"), BTreeSet::new());
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    for target in targets.map(|target| target["expr"].as_str().unwrap()) {
        let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        let words = target.split(|letter| !is_name(letter)).filter(|word| word.starts_with("tobari_"));
        names.extend(words.map(str::to_owned));
    }
    assert!(names.len() > 12, "{names:?}");
    let is_served = |name: &str| served.contains(&format!("# TYPE {name} "));
    // of a statistic that this question does not have
    let others: Vec<&String> = names.iter().filter(|name| !is_served(name)).collect();
    assert_eq!(others, ["tobari_sense_weighted_total_value"]);
    assert!(others.iter().all(|name| reference.contains(&format!("| `{name}` |"))));
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
}

/// Analysts get releases from the key holder, even after a restart. Returns the key holder's
/// metrics.
fn analysts_see(keyholder: &[&str], released: &Value, above: usize) -> String {
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
    exposition::check(&metrics);
    assert!(metrics.contains(&format!("tobari_sense_above{{question=\"climate\",group=\"all\",channel=\"temperature\",threshold=\"30\"}} {above}\n")), "{metrics}");
    drop(serving.stdin.take());
    assert!(serving.wait().unwrap().success());
    metrics
}

/// Exports of the stopped server's frames, and of figures from the key holder's folder and from the
/// analysts' file.
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
    // a mean, a histogram of three bins, an alarm, a covariance, a threshold, a count, a sum
    assert_eq!(export(&["--figures", &holder]), 9);
    let releases = place.write("releases.json", &serde_json::json!([released, released]).to_string());
    assert_eq!(export(&["--releases", &releases]), 18);
    assert_eq!(export(&["--releases", &releases, "--from-ms", "99999999999999"]), 0);
    bad(&["sense", "export", "--frames", &server, "--fleet", "00", "-o", &file], 1, "the folder has no fleet 00");
    bad(&["sense", "export", "--frames", &holder, "-o", &file], 1, "there are no fleets here: name the folder");
    bad(&["sense", "export", "--frames", &server, "--figures", &holder, "-o", &file], 2, "cannot be used with");
}

/// The content type of the reply at a path.
fn content_type(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap().to_owned()
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
    // a device's enrolment, its new key, and its end
    let request = place.path("request");
    let words =
        ["--fleet", &place.path("holder/fleet.json"), "-o", &place.path("devices/e.device"), "--request", &request];
    let enrolled = good(&[&["sense", "enrol", "--number", "900"][..], &words, &["--json"]].concat());
    let fingerprint = serde_json::from_str::<Value>(&enrolled).unwrap()["fingerprint"].as_str().unwrap().to_owned();
    let take_in = ["sense", "provision", &*holder, "e", "--request", &*request, "--fingerprint"];
    bad(&[&take_in[..], &["0000-0000-0000-0000"]].concat(), 1, "compare it with the device's display");
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
    // a device without its counter file does not seal
    std::fs::remove_file(place.path("devices/e.device.counter")).unwrap();
    let words = place.encrypt("e", "readings.csv", &["-o", "-"]);
    bad(&words.iter().map(String::as_str).collect::<Vec<_>>(), 1, "e.device.counter");
    // the key holder can remove the frames of devices
    let forgotten = good(&["sense", "forget", &holder, "a", "b", "--server", &server.url]);
    assert_eq!(forgotten, "a: 9 frames removed\nb: 6 frames removed\n");
    bad(&["sense", "forget", &holder, "x", "--server", &server.url], 1, "the fleet has no device");
    assert!(get(&server.address(), "/sense/v1/metrics").contains("tobari_sense_frames_stored 6\n"));
}

/// Three devices send at once, with one, two and five frames a request. So the server commits
/// frames of several devices together.
#[test]
fn no_acknowledged_frame_is_lost_when_the_server_is_killed() {
    const AT_ONCE: [usize; 3] = [1, 2, 5];
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a", "b", "c", "d", "e", "f"]);
    let rows: Vec<[f64; 2]> = (0..4 * 60).map(|i| [f64::from(i % 50), f64::from(i % 90)]).collect();
    place.write("readings.csv", &csv(&rows));
    let data = place.path("server");
    for (round, devices) in [["a", "b", "c"], ["d", "e", "f"]].into_iter().enumerate() {
        let server = Server::start(&["--sense", &data]);
        good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
        let frames = devices.map(|device| {
            place.seal(device, "readings.csv", &["-o", &place.path("frames")]);
            std::fs::read(place.path("frames")).unwrap()
        });
        let (address, (told, acknowledged)) = (server.address(), mpsc::channel());
        let taken = std::thread::scope(|scope| {
            let senders = std::array::from_fn::<_, 3, _>(|sender| {
                let (frames, told, at_once) = (&frames[sender], told.clone(), AT_ONCE[sender]);
                let (address, fleet) = (&address, &fleet);
                assert_eq!(frames.len(), 60 * 840);
                scope.spawn(move || {
                    let requests = frames.chunks(at_once * 840);
                    let taken = requests.take_while(|request| {
                        let taken = sent(address, fleet, request).is_some_and(|counts| counts["taken"] == at_once);
                        if taken {
                            told.send(sender).unwrap();
                            // leaves time to kill the server
                            std::thread::sleep(Duration::from_millis(3));
                        }
                        taken
                    });
                    taken.count() * at_once
                })
            });
            drop(told);
            // killed in the middle of the work, at another moment each time
            let mut heard = [0; 3];
            while heard.iter().sum::<usize>() < 9 + 14 * round || heard.contains(&0) {
                heard[acknowledged.recv().unwrap()] += 1;
            }
            server.stop();
            senders.map(|sender| sender.join().unwrap())
        });
        assert!(taken.iter().sum::<usize>() < 180, "{taken:?}");
        let server = Server::start(&["--sense", &data]);
        for (frames, taken) in frames.iter().zip(taken) {
            let counts = sent(&server.address(), &fleet, &frames[..taken * 840]).unwrap();
            assert_eq!(counts["duplicate"], taken, "each of those that were acknowledged is there: {counts}");
            let rest = sent(&server.address(), &fleet, frames).unwrap();
            assert_eq!(rest["taken"].as_u64().unwrap() + rest["duplicate"].as_u64().unwrap(), 60, "{rest}");
        }
        let metrics = get(&server.address(), "/sense/v1/metrics");
        let stored = format!("tobari_sense_frames_stored {}\n", 180 * (round + 1));
        assert!(metrics.contains(&stored), "none twice: {metrics}");
    }
}

/// The test puts a frame from three days ago into the store, ahead of others, because no test can
/// wait that long.
#[test]
fn frames_are_kept_for_so_many_days_and_no_longer() {
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a"]);
    place.write("readings.csv", &csv(&readings(4)));
    let data = place.path("server");
    let server = Server::start(&["--sense", &data]);
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    server.stop();
    let past = SystemTime::now() - Duration::from_secs(3 * 86_400);
    let past = past.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let frames = FrameStore::open(&Path::new(&data).join(fleet).join("frames.redb")).unwrap();
    frames.append(past, 840, &[0; 840], &[]).unwrap();
    drop(frames);
    let server = Server::start(&["--sense", &data]);
    place.seal("a", "readings.csv", &["--server", &server.url]);
    let fresh = stored(&server) - 1;
    assert!(fresh > 0, "without a limit nothing is removed");
    server.stop();
    for (days, left) in [("4", fresh + 1), ("2", fresh)] {
        let server = Server::start(&["--sense", &data, "--sense-days", days]);
        wait_for(&server, left);
        server.stop();
    }
    assert_eq!(stored(&Server::start(&["--sense", &data])), fresh, "what was removed is gone");
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
    // one device gets a token, and the other its file
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
    // the first question, too, counts the device's new key
    assert_eq!(released.len(), 2, "{released:?}");
    for released in released {
        let figures = &released["groups"][0]["figures"];
        assert_eq!((&figures[0]["exact"], &figures[1]["alarm"]), (&"151/2".into(), &true.into()), "{released}");
    }
}

/// The same question for the present devices.
fn question_of_new_devices() -> String {
    "name = \"q2\"\nleast-devices = 2\nwindow = { length = \"4s\" }\n[[statistic]]\nkind = \"mean\"\nchannel = \"x\"\n[[statistic]]\nkind = \"alarm\"\nchannel = \"x\"\nthreshold = 99\n".to_owned()
}

#[test]
fn frames_come_over_a_broker_even_those_that_were_published_while_the_server_was_away() {
    let place = Place::new();
    const TEST: &str = "frames_come_over_a_broker_even_those_that_were_published_while_the_server_was_away";
    let Some(broker) = Broker::start(&place, TEST) else { return };
    let names: Vec<String> = (0..12).map(|device| format!("d{device}")).collect();
    let fleet = place.fleet(SCHEMA, &names.iter().map(String::as_str).collect::<Vec<_>>());
    place.write("readings.csv", &csv(&readings(15)));
    let (data, url) = (place.path("server"), broker.url.clone());
    let start = || Server::start(&["--sense", &data, "--sense-mqtt", &url]);
    let server = start();
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    // messages published before the server has subscribed are lost; publishing the same frame again
    // does no harm
    place.seal("d0", "readings.csv", &["-o", &place.path("frames")]);
    let frame = std::fs::read(place.path("frames")).unwrap()[..840].to_vec();
    let topic = format!("tobari/{fleet}/d0");
    while stored(&server) == 0 {
        let _ = broker.publish(&topic, vec![frame.clone()]);
        std::thread::sleep(Duration::from_millis(50));
    }
    place.seal("d0", "readings.csv", &["--mqtt", &url, "--batch", "1"]);
    wait_for(&server, 6);
    server.stop();
    place.seal("d1", "readings.csv", &["--mqtt", &url, "--batch", "2"]);
    let server = start();
    wait_for(&server, 11);
    server.stop();
    // every frame that the server confirmed to the broker is stored: after several kills during the
    // arrival of frames, none is missing
    let rows: Vec<[f64; 2]> = (0..4 * 80).map(|i| [f64::from(i % 50), f64::from(i % 90)]).collect();
    place.write("many.csv", &csv(&rows));
    for name in &names {
        place.seal(name, "many.csv", &["--mqtt", &url, "--batch", "1"]);
    }
    for round in 1..4 {
        let server = start();
        while stored(&server) < 11 + 150 * round {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.stop();
    }
    wait_for(&start(), 11 + 960);
}

/// The number of frames on the server's disk.
fn stored(server: &Server) -> u64 {
    let metrics = get(&server.address(), "/sense/v1/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("tobari_sense_frames_stored "));
    line.unwrap().parse().unwrap()
}

fn wait_for(server: &Server, count: u64) {
    for _ in 0..200 {
        if stored(server) == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let metrics = get(&server.address(), "/sense/v1/metrics");
    panic!("expected {count} frames, found {}: {metrics}", stored(server));
}

/// Sends frames; returns when the server stored them, in milliseconds since 1970.
fn stored_at(address: &str, fleet: &str, frames: &[u8]) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /sense/v1/fleets/{fleet}/frames HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        frames.len()
    );
    stream.write_all(&[head.as_bytes(), frames].concat()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let time = reply.lines().find_map(|line| line.strip_prefix("tobari-stored: "));
    time.unwrap_or_else(|| panic!("{reply}")).trim().parse().unwrap()
}

#[test]
fn figures_of_windows_that_slide_are_those_of_the_frames_in_each() {
    let place = Place::new();
    let fleet = place.fleet("profile = \"u25\"\n[[channel]]\nname = \"x\"\n", &["a", "b"]);
    let question = "name = \"q\"\nleast-devices = 1\nframes = 20\nwindow = { length = \"2s\", every = \"1s\" }\n[[statistic]]\nkind = \"count\"\n[[statistic]]\nkind = \"sum\"\nchannel = \"x\"\n";
    let holder = place.path("holder");
    good(&["sense", "query", &holder, &place.write("question.toml", question)]);
    let server = Server::start(&["--sense", &place.path("server")]);
    let keyholder = ["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"];
    good(&keyholder);
    let mut taken = Vec::new();
    for i in 0..8u64 {
        place.write("readings.csv", &format!("{}\n", 1 << i));
        place.seal(["a", "b"][i as usize % 2], "readings.csv", &["-o", &place.path("frames")]);
        let frame = std::fs::read(place.path("frames")).unwrap();
        taken.push((stored_at(&server.address(), &fleet, &frame), 1 << i));
        std::thread::sleep(Duration::from_millis(200));
    }
    let windows: BTreeSet<u64> =
        taken.iter().flat_map(|(time, _)| [time / 1000 * 1000, time / 1000 * 1000 - 1000]).collect();
    let over = windows.last().unwrap() + 2000;
    std::thread::sleep(Duration::from_millis((over + 50).saturating_sub(now_ms())));
    let released = good(&keyholder);
    let found: Vec<(u64, u64, String)> = released
        .lines()
        .map(|line| {
            let release: Value = serde_json::from_str(line).unwrap();
            let figures = &release["groups"][0]["figures"];
            assert_eq!(release["end_ms"], release["start_ms"].as_u64().unwrap() + 2000);
            let (start, count) = (release["start_ms"].as_u64().unwrap(), figures[0]["value"].as_u64().unwrap());
            (start, count, figures[1]["exact"].as_str().unwrap().to_owned())
        })
        .collect();
    // each frame is in two windows, which the server's clock determines
    let plain = |start: u64| {
        let within = taken.iter().filter(|(time, _)| (start..start + 2000).contains(time));
        let (count, sum) = within.fold((0, 0), |(count, sum), (_, reading)| (count + 1, sum + reading));
        (start, count, sum.to_string())
    };
    assert_eq!(found, windows.iter().map(|start| plain(*start)).collect::<Vec<_>>());
    assert_eq!(found.iter().map(|window| window.1).sum::<u64>(), 16);
}
