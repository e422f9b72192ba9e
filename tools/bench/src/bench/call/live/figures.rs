//! The figures of a live room, as lines and as a table.

use super::super::super::line::{self, summary};
use super::super::super::table::Table;
use super::Room;
use serde::Serialize;
use std::time::{Duration, Instant};
use tobari_command::blind_server::BlindProcess;
use tobari_command::output::Failure;
use tobari_host::threads;
use tobari_lattice::RingKernels;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout for the server's counters.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) type Line = line::Line<Params>;

/// The parameters of a figure.
#[derive(Clone, Serialize)]
pub(super) struct Params {
    pub(super) mode: String,
    pub(super) keys: &'static str,
    pub(super) members: u16,
    pub(super) speakers: u16,
}

/// The cores of the server.
pub(super) struct Cores {
    /// The number of its cores.
    server: u32,
    label: &'static str,
}

impl Cores {
    /// Cores that the members use, too.
    pub(super) fn shared() -> Self {
        Self { server: threads::available() as u32, label: "shared-machine" }
    }

    /// `server` cores for the server alone.
    pub(super) fn pinned(server: usize) -> Self {
        Self { server: server as u32, label: "pinned" }
    }
}

/// The server's counters, and the usage of its process and of the members' process, at one time.
pub(super) struct Reading {
    at: Instant,
    cpu_seconds: Option<f64>,
    members_cpu_seconds: Option<f64>,
    counters: String,
}

impl Reading {
    pub(super) async fn take(server: &BlindProcess) -> Result<Self, Failure> {
        let counters = timeout(PATIENCE, asked(server.url(), "/metrics")).await;
        let counters = counters.map_err(|_| Failure::Work("the server does not tell its counters".to_owned()))??;
        let members_cpu_seconds = threads::process_cpu_ns().map(|ns| ns as f64 / 1e9);
        Ok(Self { at: Instant::now(), cpu_seconds: server.cpu_seconds(), members_cpu_seconds, counters })
    }

    /// The counter of that name.
    pub(super) fn counter(&self, name: &str) -> f64 {
        let line = self.counters.lines().find_map(|line| line.strip_prefix("tobari_call_")?.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(f64::NAN)
    }
}

/// The body of the answer to a request.
async fn asked(url: &str, path: &str) -> Result<String, Failure> {
    let host = url.strip_prefix("http://").unwrap_or(url);
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The figures between two readings, and those of the heard words.
pub(super) fn lines(room: &Room, cores: &Cores, before: &Reading, after: &Reading, mut words: Vec<f64>) -> Vec<Line> {
    let &Room { mode, keys, members, speakers, .. } = room;
    let seconds = (after.at - before.at).as_secs_f64();
    let gained = |name: &str| after.counter(name) - before.counter(name);
    let packets = gained("packets_total");
    let megabits = |bytes: f64, of: u16| 8.0 * bytes / seconds / f64::from(of) / 1e6;
    let cpu =
        |of: fn(&Reading) -> Option<f64>| of(after).zip(of(before)).map(|(after, before)| (after - before) / seconds);
    let mut figures = vec![
        ("live_packets", "1/s", packets / seconds),
        ("live_late", "% of packets", 100.0 * gained("late_total") / (packets + gained("late_total"))),
        ("live_late_ticks", "% of ticks", 100.0 * gained("late_ticks_total") / gained("ticks_total")),
        ("live_tick_delay", "ms", 1e3 * gained("tick_delay_seconds_total") / gained("ticks_total")),
        ("live_missed", "1/s", gained("missed_total") / seconds),
        ("live_up", "Mbit/s", megabits(gained("received_bytes_total"), speakers)),
        ("live_down", "Mbit/s", megabits(gained("sent_bytes_total"), members)),
    ];
    figures.extend(cpu(|reading| reading.cpu_seconds).map(|cpu| ("live_server_cpu", "core-seconds/s", cpu)));
    figures.extend(cpu(|reading| reading.members_cpu_seconds).map(|cpu| ("live_members_cpu", "core-seconds/s", cpu)));
    let line = |what: &str, unit: &str, (median, min, max): (f64, f64, f64), runs: usize| Line {
        job: "call".to_owned(),
        what: what.to_owned(),
        engine: "tobari".to_owned(),
        params: Params { mode: mode.to_string(), keys: keys.name(), members, speakers },
        backend: RingKernels::best().name.to_owned(),
        threads: cores.server,
        unit: unit.to_owned(),
        median,
        min,
        max,
        runs,
        labels: vec!["loopback".to_owned(), cores.label.to_owned()],
    };
    let mut lines: Vec<Line> =
        figures.into_iter().map(|(what, unit, value)| line(what, unit, (value, value, value), 1)).collect();
    if !words.is_empty() {
        let (median, min, max) = summary(words.clone());
        words.sort_by(f64::total_cmp);
        let high = words[(words.len() * 95).div_ceil(100) - 1];
        lines.push(line("live_mouth_to_ear", "ms", (median, min, max), words.len()));
        lines.push(line("live_mouth_to_ear_p95", "ms", (high, high, high), words.len()));
    }
    lines
}

/// The table for people, and for `live.csv`.
pub(super) fn table(lines: &[Line]) -> Table {
    let mut table = Table::new("Live rooms", &["mode", "keys", "members", "speakers", "what", "value", "unit", "runs"]);
    for line in lines {
        table.push(vec![
            line.params.mode.clone(),
            line.params.keys.to_owned(),
            line.params.members.to_string(),
            line.params.speakers.to_string(),
            line.what.clone(),
            format!("{:.3}", line.median),
            line.unit.clone(),
            line.runs.to_string(),
        ]);
    }
    table
}

/// The rooms of `--capacity`, one in each row.
pub(super) fn capacity(rooms: &[Vec<Line>]) -> Table {
    const COLUMNS: [(&str, &str); 9] = [
        ("late ticks, %", "live_late_ticks"),
        ("late packets, %", "live_late"),
        ("sums missed, 1/s", "live_missed"),
        ("server, core-s/s", "live_server_cpu"),
        ("members, core-s/s", "live_members_cpu"),
        ("up, Mbit/s", "live_up"),
        ("down, Mbit/s", "live_down"),
        ("mouth to ear, ms", "live_mouth_to_ear"),
        ("p95, ms", "live_mouth_to_ear_p95"),
    ];
    let heads: Vec<&str> =
        ["mode", "keys", "members", "server cores"].into_iter().chain(COLUMNS.map(|column| column.0)).collect();
    let mut table = Table::new("Capacity of one room", &heads);
    for (room, first) in rooms.iter().filter_map(|room| Some((room, room.first()?))) {
        let mut row = vec![
            first.params.mode.clone(),
            first.params.keys.to_owned(),
            first.params.members.to_string(),
            first.threads.to_string(),
        ];
        row.extend(COLUMNS.map(|(_, what)| {
            room.iter().find(|line| line.what == what).map_or(String::new(), |line| format!("{:.3}", line.median))
        }));
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_call::live::{Keys, LiveMode};

    fn reading(seconds: u64, packets: u32, late: u32) -> Reading {
        let counters = format!(
            "HTTP/1.1 200 OK\r\n\r\n# HELP tobari_call_packets_total packets added\ntobari_call_packets_total {packets}\n\
             tobari_call_late_total {late}\ntobari_call_ticks_total {}\n",
            50 * seconds
        );
        let at = Instant::now() + Duration::from_secs(seconds);
        Reading { at, cpu_seconds: Some(seconds as f64 / 4.0), members_cpu_seconds: None, counters }
    }

    #[test]
    fn figures_are_differences_by_time_and_the_95th_of_100_words_is_the_95th() {
        let words = (1..=100).rev().map(f64::from).collect();
        let room = Room { mode: LiveMode::Mask, keys: Keys::Link, members: 8, speakers: 4, seconds: 10 };
        let lines = lines(&room, &Cores::pinned(3), &reading(1, 200, 0), &reading(11, 2196, 4), words);
        let value = |what: &str| lines.iter().find(|line| line.what == what).unwrap().median;
        assert!((value("live_packets") - 199.6).abs() < 0.1, "{}", value("live_packets"));
        assert!((value("live_late") - 0.2).abs() < 1e-9);
        assert!((value("live_server_cpu") - 0.25).abs() < 1e-3);
        assert_eq!((value("live_mouth_to_ear"), value("live_mouth_to_ear_p95")), (51.0, 95.0));
        assert!(value("live_up").is_nan(), "a counter that is missing is not a zero");
    }
    #[test]
    fn a_room_is_a_row_and_what_was_not_measured_an_empty_cell() {
        let room = Room { mode: LiveMode::Mask, keys: Keys::Link, members: 8, speakers: 4, seconds: 10 };
        let lines = lines(&room, &Cores::pinned(3), &reading(1, 200, 0), &reading(11, 2196, 4), Vec::new());
        let csv = capacity(&[Vec::new(), lines]).csv();
        let row = csv.lines().nth(1).unwrap();
        assert!(csv.lines().count() == 2 && row.starts_with("mask,link,8,3,") && row.ends_with(",,"), "{csv}");
        assert!(row.contains(",0.250,,"), "the server's quarter of a core, and nothing of the members': {row}");
    }
}
