//! A device whose process is killed: its counters go on, and none comes twice.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fmt::Write;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::Server;
use support::fleet::{Place, get, good};

const SCHEMA: &str = "profile = \"u25\"\n\n[[channel]]\nname = \"x\"\n";
/// Frames of a run that is not killed: more than a killed one comes to.
const FRAMES: usize = 4_000;

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
        // other readings in each run, so that a counter that came again would be a replay
        let rows = (0..FRAMES).fold(String::new(), |mut rows, i| {
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
        std::thread::sleep(Duration::from_millis(60 + 53 * run));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = count(&get(&server.address(), "/sense/v1/metrics"), "tobari_sense_frames_stored");
        assert!(now >= taken, "{taken} and {now}");
        taken = now;
    }
    assert!(taken > 8, "runs that were killed sent something: {taken}");
    place.write("readings.csv", "1\n2\n3\n");
    place.seal("a", "readings.csv", &["--server", &server.url]);
    let metrics = get(&server.address(), "/sense/v1/metrics");
    for verdict in ["duplicate", "replayed", "late", "forged", "malformed"] {
        let name = format!("tobari_sense_frames_total{{verdict=\"{verdict}\"}}");
        assert_eq!(count(&metrics, &name), 0, "{metrics}");
    }
    let counter: u64 =
        std::fs::read_to_string(place.path("devices/a.device.counter")).unwrap().trim_end().parse().unwrap();
    assert!(counter >= taken && counter.is_multiple_of(64), "{counter} counters for {taken} frames");
}
