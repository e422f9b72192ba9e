//! The server's treatment of frames of any number, time and origin: memory, clocks and brokers.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use serde_json::Value;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::Server;
use support::broker::{Broker, until};
use support::fleet::{Place, ask, bad, good, metric};
use tobari_sense_files::FrameStore;

const SCHEMA: &str = "profile = \"u25\"\n[[channel]]\nname = \"level\"\n";

fn question(length: &str) -> String {
    let window = format!("name = \"levels\"\nleast-devices = 1\nframes = 1\nwindow = {{ length = \"{length}\" }}\n");
    window + "[[statistic]]\nkind = \"mean\"\nchannel = \"level\"\n"
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Waits for the beginning of a window.
fn next_window(length_ms: u64) {
    std::thread::sleep(Duration::from_millis(length_ms - now_ms() % length_ms + 50));
}

/// Readings of a device: the given first one, and further ones.
fn readings(first: usize, count: usize) -> String {
    let others: String = (1..count).map(|i| format!("{}\n", i % 200)).collect();
    format!("level\n{first}\n{others}")
}

/// A number from a process's status, in kB.
#[cfg(target_os = "linux")]
fn status(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn send(server: &Server, fleet: &str, frames: &[u8]) {
    for batch in frames.chunks(840 * 4_900) {
        let (status, told) =
            ask(&server.address(), "POST", &format!("/sense/v1/fleets/{fleet}/frames"), batch).unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!((status, told["taken"].as_u64().unwrap() as usize), (200, batch.len() / 840), "{told}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn fault_15_the_memory_of_a_question_is_bounded_whatever_a_device_sends() {
    const WINDOW_MS: u64 = 20_000;
    const LIMIT_KB: u64 = 64 << 10;
    let place = Place::new();
    let names: Vec<String> = (0..150).map(|device| format!("d{device}")).collect();
    let fleet = place.fleet(SCHEMA, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let frames_of = |name: &str, first: usize, count: usize| {
        place.write("readings.csv", &readings(first, count));
        place.seal(name, "readings.csv", &["-o", &place.path("frames")]);
        let frames = std::fs::read(place.path("frames")).unwrap();
        assert_eq!(frames.len(), 840 * count);
        std::fs::remove_file(place.path("frames")).unwrap();
        frames
    };
    let question = place.write("question.toml", &question("20s"));
    good(&["sense", "query", &place.path("holder"), &question]);
    let server = Server::start(&["--sense", &place.path("server"), "--sense-memory", "64MiB"]);
    let holder = place.path("holder");
    let keyholder = ["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"];
    assert_eq!(good(&keyholder), "", "nothing to release yet");
    let greedy = frames_of("d0", 90, 120_000);
    let few: Vec<u8> = (1..150).flat_map(|device| frames_of(&names[device], device, 30)).collect();
    let before = status(server.pid(), "VmRSS");
    next_window(WINDOW_MS);
    let began = now_ms() / WINDOW_MS;
    // the first frame of a device counts, although most of its frames arrive before those of others
    send(&server, &fleet, &greedy);
    send(&server, &fleet, &few);
    assert_eq!(now_ms() / WINDOW_MS, began, "this machine is too slow for one window");
    next_window(WINDOW_MS);
    let released: Value = serde_json::from_str(good(&keyholder).trim()).unwrap();
    let most = status(server.pid(), "VmHWM");
    let group = &released["groups"][0];
    assert_eq!((&group["devices"], &group["frames"]), (&Value::from(150), &Value::from(150)), "{released}");
    assert_eq!(released["left_out"], Value::from(119_999 + 149 * 29));
    let mean = (90 + (1..150).sum::<usize>()) as f64 / 150.0;
    assert!((group["figures"][0]["value"].as_f64().unwrap() - mean).abs() < 1e-9, "{released} {mean}");
    assert!(most <= before + LIMIT_KB, "{before} kB before, {most} kB at most");
    // all frames are stored, and the frames of one device are removed within the same memory
    assert_eq!(metric(&server, "tobari_sense_frames_stored"), 120_000 + 149 * 30);
    let path = format!("/sense/v1/fleets/{fleet}/devices/1/frames");
    let (status_code, told) = ask(&server.address(), "DELETE", &path, b"").unwrap();
    assert_eq!((status_code, String::from_utf8(told).unwrap()), (200, "{\"removed\":120000}".to_owned()));
    let most = status(server.pid(), "VmHWM");
    assert!(most <= before + LIMIT_KB, "{most} kB at most, with a device's frames removed");
}

#[test]
fn fault_15_the_least_limit_of_memory_is_named() {
    let place = Place::new();
    let data = place.path("server");
    for limit in ["256KiB", "1000KiB"] {
        let words = ["serve", "--addr", "127.0.0.1:0", "--sense", &data, "--sense-memory", limit];
        bad(&words, 2, "expected 1MiB at least");
    }
}

#[test]
fn fault_13_windows_fill_after_a_clock_that_was_three_days_ahead() {
    const WINDOW_MS: u64 = 4_000;
    const AHEAD_MS: u64 = 3 * 86_400_000;
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a", "b"]);
    let question = place.write("question.toml", &question("4s"));
    let (holder, data) = (place.path("holder"), place.path("server"));
    good(&["sense", "query", &holder, &question]);
    let start = || Server::start(&["--sense", &data, "--log", "info"]);
    let released =
        |server: &Server| good(&["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"]);
    let sealed = |name: &str, first: usize| {
        place.write("readings.csv", &readings(first, 1));
        place.seal(name, "readings.csv", &["-o", &place.path("frames")]);
        let frame = std::fs::read(place.path("frames")).unwrap();
        std::fs::remove_file(place.path("frames")).unwrap();
        frame
    };
    let server = start();
    assert_eq!(released(&server), "");
    server.stop();
    // a frame that a server stored while its clock was ahead
    let ahead = now_ms() + AHEAD_MS;
    let frames = Path::new(&data).join(&fleet).join("frames.redb");
    let store = FrameStore::open(&frames).unwrap();
    store.append(ahead, 840, &sealed("a", 10), &[]).unwrap();
    drop(store);
    let send_all = |server: &Server, first: usize| {
        next_window(WINDOW_MS);
        send(server, &fleet, &sealed("a", first));
        send(server, &fleet, &sealed("b", first + 2));
        let window = now_ms() / WINDOW_MS * WINDOW_MS;
        next_window(WINDOW_MS);
        let told: Value = serde_json::from_str(released(server).trim()).unwrap();
        let group = &told["groups"][0];
        assert_eq!((&told["start_ms"], &group["devices"]), (&Value::from(window), &Value::from(2)), "{told}");
        assert_eq!(group["figures"][0]["value"].as_f64(), Some(first as f64 + 1.0), "{told}");
    };
    let server = start();
    let steps = "tobari_sense_clock_steps_total{direction=\"back\"}";
    assert_eq!((metric(&server, steps), metric(&server, "tobari_sense_frames_ahead")), (0, 1));
    send_all(&server, 20);
    assert_eq!((metric(&server, steps), metric(&server, "tobari_sense_frames_ahead")), (1, 1), "told once");
    let log = server.stop();
    assert!(log.contains("the server's clock went back") && log.contains("seconds=2591"), "{log}");
    // the next start has the correct time
    let server = start();
    send_all(&server, 30);
    assert_eq!((metric(&server, steps), metric(&server, "tobari_sense_frames_ahead")), (0, 1));
    drop(server);
    let store = FrameStore::open(&frames).unwrap();
    assert_eq!((store.frames().unwrap(), store.frames_from(ahead).unwrap()), (5, 1), "nothing is lost or moved");
}

/// Publishes under an unused topic until the server has subscribed. Earlier messages are lost.
fn reach(broker: &Broker, server: &Server) {
    until("a subscription", || {
        let _ = broker.publish("tobari/nobody/x", vec![vec![1]]);
        metric(server, &unregistered("dropped")) > 0
    });
}

fn unregistered(outcome: &str) -> String {
    format!("tobari_sense_unregistered_messages_total{{outcome=\"{outcome}\"}}")
}

#[test]
fn fault_12_frames_for_a_fleet_that_is_not_registered_yet_wait_for_it() {
    const TEST: &str = "fault_12_frames_for_a_fleet_that_is_not_registered_yet_wait_for_it";
    let place = Place::new();
    let Some(broker) = Broker::start(&place, TEST) else { return };
    place.fleet(SCHEMA, &["a", "b"]);
    let (data, holder) = (place.path("server"), place.path("holder"));
    let start = || Server::start(&["--sense", &data, "--sense-mqtt", &broker.url]);
    let waiting = |server: &Server| metric(server, "tobari_sense_unregistered_messages_waiting");
    let mut server = start();
    reach(&broker, &server);
    // more frames of one device than its window of counters holds, so that only their order makes
    // them valid
    place.write("readings.csv", &readings(1, 300));
    place.seal("a", "readings.csv", &["--mqtt", &broker.url, "--batch", "1"]);
    until("300 messages that wait", || waiting(&server) == 300);
    assert_eq!((metric(&server, &unregistered("kept")), metric(&server, "tobari_sense_frames_stored")), (300, 0));
    // the messages do not go back to the broker, and others are served in the meantime
    server.kill();
    let server = start();
    assert_eq!(waiting(&server), 300, "after a kill, too");
    broker.publish(&format!("tobari/{}/x", "0".repeat(16)), vec![vec![7; 840]]).unwrap();
    until("another's message", || waiting(&server) == 301);
    // after the registration the fleet has these frames, and later frames follow them
    good(&["sense", "keyholder", &holder, "--server", &server.url, "--once"]);
    place.write("readings.csv", &readings(2, 100));
    place.seal("a", "readings.csv", &["--mqtt", &broker.url, "--batch", "1"]);
    until("all frames", || metric(&server, "tobari_sense_frames_stored") == 400);
    assert_eq!((metric(&server, &unregistered("taken")), waiting(&server)), (300, 1));
    for verdict in ["late", "replayed", "forged", "malformed"] {
        assert_eq!(metric(&server, &format!("tobari_sense_frames_total{{verdict=\"{verdict}\"}}")), 0, "{verdict}");
    }
    // storage for such messages is limited: the rest is counted, and the server goes on
    let many = vec![vec![7; 64 << 10]; 200];
    broker.publish(&format!("tobari/{}/x", "1".repeat(16)), many).unwrap();
    until("messages without room", || {
        metric(&server, &unregistered("kept")) + metric(&server, &unregistered("dropped")) == 201
    });
    assert!((127..=128).contains(&(waiting(&server) - 1)), "{}", waiting(&server));
    place.write("readings.csv", &readings(3, 1));
    place.seal("b", "readings.csv", &["--mqtt", &broker.url, "--batch", "1"]);
    until("one frame more", || metric(&server, "tobari_sense_frames_stored") == 401);
}

#[test]
fn fault_12_frames_that_waited_for_their_fleet_are_in_the_windows_in_which_they_came() {
    const TEST: &str = "fault_12_frames_that_waited_for_their_fleet_are_in_the_windows_in_which_they_came";
    const WINDOW_MS: u64 = 2_000;
    let place = Place::new();
    let Some(broker) = Broker::start(&place, TEST) else { return };
    let fleet = place.fleet(SCHEMA, &["a"]);
    let (data, holder) = (place.path("server"), place.path("holder"));
    let question = place.write("question.toml", &question("2s"));
    good(&["sense", "query", &holder, &question]);
    let waiting = |server: &Server| metric(server, "tobari_sense_unregistered_messages_waiting");
    let start = || Server::start(&["--sense", &data, "--sense-mqtt", &broker.url]);
    let mut server = start();
    reach(&broker, &server);
    let mut windows = Vec::new();
    for count in 1..=3 {
        next_window(WINDOW_MS);
        place.write("readings.csv", &readings(10 * count, 1));
        let began = now_ms();
        place.seal("a", "readings.csv", &["--mqtt", &broker.url, "--batch", "1"]);
        until("a message that waits", || waiting(&server) == count as i64);
        windows.push(began..now_ms() + 1);
        if count == 2 {
            // the arrival time is on the disk; the server confirms to the broker first, and the
            // broker does not send again
            std::thread::sleep(Duration::from_millis(500));
            server.kill();
            server = start();
            until("messages that wait", || waiting(&server) == 2);
        }
    }
    // registered some windows later, the fleet has each frame at its arrival time
    next_window(WINDOW_MS);
    let keyholder = ["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"];
    let mut told = good(&keyholder);
    until("all frames", || metric(&server, "tobari_sense_frames_stored") == 3);
    told += &good(&keyholder);
    server.kill();
    let store = FrameStore::open(&Path::new(&data).join(fleet).join("frames.redb")).unwrap();
    let times = store.times(0, u64::MAX, 9).unwrap();
    assert!(times.len() == 3 && times.iter().zip(&windows).all(|(time, came)| came.contains(time)), "{times:?}");
    // the key holder has a figure of each window, as if the fleet had been registered before
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mean = |told: &Value| told["groups"][0]["figures"][0]["value"].as_f64();
    let figures = told.iter().map(|told| (told["start_ms"].as_u64(), mean(told)));
    let expected = times.iter().zip([10.0, 20.0, 30.0]);
    let expected = expected.map(|(time, mean)| (Some(time / WINDOW_MS * WINDOW_MS), Some(mean)));
    assert_eq!(figures.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{told:?}");
}

#[test]
fn fault_12_messages_that_an_earlier_run_kept_are_taken_without_a_broker_too() {
    let place = Place::new();
    let fleet = place.fleet(SCHEMA, &["a"]);
    let (data, holder, output) = (place.path("server"), place.path("holder"), place.path("frames"));
    good(&["sense", "query", &holder, &place.write("question.toml", &question("2s"))]);
    place.write("readings.csv", &readings(10, 1));
    place.seal("a", "readings.csv", &["-o", &output]);
    let (came, folder) = (now_ms(), Path::new(&data).join("unregistered"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&output, folder.join(format!("{fleet}-{:016x}-{came:016x}", 0))).unwrap();
    let server = Server::start(&["--sense", &data]);
    assert_eq!(metric(&server, "tobari_sense_unregistered_messages_waiting"), 1);
    let keyholder = ["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"];
    let mut told = good(&keyholder);
    until("the frame", || metric(&server, "tobari_sense_frames_stored") == 1);
    // no window waits for the frame any longer
    until("its window", || {
        told += &good(&keyholder);
        !told.is_empty()
    });
    let told: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!(told["start_ms"].as_u64(), Some(came / 2000 * 2000));
    assert_eq!(told["groups"][0]["figures"][0]["value"].as_f64(), Some(10.0));
}

#[test]
fn fault_11_two_servers_with_the_same_relative_folder_do_not_evict_each_other() {
    const TEST: &str = "fault_11_two_servers_with_the_same_relative_folder_do_not_evict_each_other";
    let place = Place::new();
    let Some(broker) = Broker::start(&place, TEST) else { return };
    place.fleet(SCHEMA, &["a"]);
    let homes = ["one", "two"].map(|name| place.path(name));
    homes.iter().for_each(|home| std::fs::create_dir(home).unwrap());
    let start = |home: &str| Server::start_in(Path::new(home), &["--sense", "data", "--sense-mqtt", &broker.url]);
    let name = |home: &str| std::fs::read_to_string(Path::new(home).join("data/mqtt-client")).unwrap();
    let [server, other] = homes.each_ref().map(|home| start(home));
    let names = homes.each_ref().map(|home| name(home));
    assert_ne!(names[0], names[1]);
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    reach(&broker, &server);
    reach(&broker, &other);
    place.write("readings.csv", &readings(1, 20));
    place.seal("a", "readings.csv", &["--mqtt", &broker.url, "--batch", "1"]);
    until("all frames", || metric(&server, "tobari_sense_frames_stored") == 20);
    // the other server keeps the same messages, for a fleet that it does not know
    until("all messages", || metric(&other, &unregistered("kept")) == 20);
    let logs = [server.stop(), other.stop()];
    for log in &logs {
        assert!(!log.contains("the broker is away"), "{log}");
    }
    // the same after a restart: messages published in the meantime arrive
    place.seal("a", "readings.csv", &["--mqtt", &broker.url, "--batch", "1", "--again"]);
    let server = start(&homes[0]);
    until("what was published meanwhile", || metric(&server, "tobari_sense_frames_stored") == 40);
    assert_eq!(name(&homes[0]), names[0]);
    // a copy of the folder is reported
    let copy = place.path("copy");
    std::fs::create_dir_all(Path::new(&copy).join("data")).unwrap();
    std::fs::write(Path::new(&copy).join("data/mqtt-client"), &names[0]).unwrap();
    let third = start(&copy);
    std::thread::sleep(Duration::from_secs(10));
    let logs = server.stop() + &third.stop();
    assert!(logs.contains("remove the file mqtt-client from its copy"), "{logs}");
}
