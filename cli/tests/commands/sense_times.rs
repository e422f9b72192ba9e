//! Frames of version 2: readings count in the window of their own time, whenever and in whatever
//! order they arrive; wide readings and vectors; windows that wait, and frames that come too late.
//! Every released sum is compared with the readings themselves.

use crate::support::fleet::{Place, ask, good, metric};
use crate::support::{Server, stderr, tobari};
use serde_json::Value;
use std::collections::BTreeMap;

const SCHEMA: &str = "profile = \"u28\"\nsamples = 10\nslice = \"15m\"\n\
    [[channel]]\nname = \"energy\"\nbits = 32\nstep = 0.001\nsquare = true\n\
    [[channel]]\nname = \"phase\"\nlength = 40\nbits = 16\n";

fn question(name: &str, window: &str, channel: &str) -> String {
    format!(
        "name = \"{name}\"\nleast-devices = 2\nframes = 100\nwindow = {window}\n[[statistic]]\nkind = \"count\"\n\
         [[statistic]]\nkind = \"sum\"\nchannel = \"{channel}\"\n"
    )
}

/// A fleet of two devices with a server.
struct World {
    place: Place,
    server: Server,
    /// Energy in thousandths, by time and device.
    sent: Vec<(u64, u64)>,
    /// All frames, as somebody on the way saw them.
    seen: Vec<Vec<u8>>,
}

const HOUR: u64 = 3600;
/// 2026-03-01T00:00:00Z.
const START: u64 = 1_772_323_200;

impl World {
    fn new(questions: &[String]) -> Self {
        let place = Place::new();
        place.fleet(SCHEMA, &["a", "b"]);
        for (i, question) in questions.iter().enumerate() {
            let file = place.write(&format!("question-{i}.toml"), question);
            good(&["sense", "query", &place.path("holder"), &file]);
        }
        let server = Server::start(&["--sense", &place.path("server")]);
        let world = Self { place, server, sent: Vec::new(), seen: Vec::new() };
        world.keyholder();
        world
    }

    fn keyholder(&self) {
        good(&["sense", "keyholder", &self.place.path("holder"), "--server", &self.server.url, "--once", "--json"]);
    }

    /// Sends rows at these times from a device: a number of thousandths, and a vector.
    fn send(&mut self, device: &str, times: &[u64], seed: u64) {
        let mut text = "time,energy".to_owned();
        (0..40).for_each(|i| text.push_str(&format!(",phase[{i}]")));
        for (i, time) in (0u64..).zip(times) {
            let energy = (seed * 1_000_003 + i * 77_777_777) % (1 << 32);
            self.sent.push((*time, energy));
            text.push_str(&format!("\n{time},{:.3}", energy as f64 / 1000.0));
            (0..40).for_each(|place| text.push_str(&format!(",{}", (energy + place) % 65_536)));
        }
        self.place.write("readings.csv", &(text + "\n"));
        let mut words = self.place.encrypt(device, "readings.csv", &["--server", &self.server.url, "--again"]);
        let frames = self.place.path("seen");
        words.extend(["--time", "time", "-o", &frames].map(str::to_owned));
        good(&words.iter().map(String::as_str).collect::<Vec<_>>());
        self.seen.extend(std::fs::read(frames).unwrap().chunks(943).map(<[u8]>::to_vec));
    }

    /// Posts frames, and returns the number of each verdict.
    fn post(&self, frames: &[Vec<u8>]) -> Value {
        let card = std::fs::read(self.place.path("holder/fleet.json")).unwrap();
        let card: Value = serde_json::from_slice(&card).unwrap();
        let path = format!("/sense/v1/fleets/{}/frames", card["fleet"].as_str().unwrap());
        let (status, reply) = ask(&self.server.address(), "POST", &path, &frames.concat()).unwrap();
        assert_eq!(status, 200);
        serde_json::from_slice(&reply).unwrap()
    }

    /// Kills the server without a warning, and starts it again.
    fn restart(&mut self) {
        self.server.kill();
        self.server = Server::start(&["--sense", &self.place.path("server")]);
    }

    /// All releases of a question by their start, sheet by sheet.
    fn releases(&self, name: &str) -> BTreeMap<(u64, u64), Value> {
        let mut all = BTreeMap::new();
        for question in std::fs::read_dir(self.place.path("holder/releases")).unwrap() {
            for file in std::fs::read_dir(question.unwrap().path()).unwrap().map(|file| file.unwrap().path()) {
                let release: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
                if release["question"] == name && release["groups"].is_array() {
                    let start = release["start_ms"].as_u64().unwrap() / 1000;
                    assert_eq!(release["left_out"], 0);
                    assert!(all.insert((start, release["sheet"].as_u64().unwrap_or(0)), release).is_none());
                }
            }
        }
        all
    }

    /// The count and sum of all readings by window, from the readings themselves.
    fn plain(&self, begins: impl Fn(u64) -> u64) -> BTreeMap<u64, (u64, u64)> {
        let mut all: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (time, energy) in &self.sent {
            let window = all.entry(begins(*time)).or_default();
            *window = (window.0 + 1, window.1 + energy);
        }
        all
    }

    fn released(&self, name: &str) -> BTreeMap<u64, (u64, u64)> {
        let of = |((start, sheet), release): ((u64, u64), Value)| {
            assert_eq!(sheet, 0);
            let figures = &release["groups"][0]["figures"];
            let sum = figures[1]["exact"].as_str().unwrap().parse().unwrap();
            (start, (figures[0]["value"].as_u64().unwrap(), sum))
        };
        self.releases(name).into_iter().map(of).collect()
    }

    fn metric(&self, name: &str) -> i64 {
        metric(&self.server, name)
    }
}

#[test]
fn readings_count_in_the_window_of_their_own_time() {
    let mut world = World::new(&[
        question("hours", "{ length = \"1h\" }", "energy"),
        question("days", "{ length = \"1d\", zone = \"+09:00\" }", "energy"),
        question("phases", "{ length = \"1w\" }", "phase"),
    ]);
    // out of order, over two days, with a device that was away for the first of them
    world.send("a", &[START + 5 * HOUR, START, START + 100, START + HOUR - 1, START + 30 * HOUR], 1);
    world.send("b", &[START + 3, START + 5 * HOUR + 899, START + 5 * HOUR + 900, START + 30 * HOUR + 1], 2);
    world.keyholder();
    let hours = |time: u64| time - time % HOUR;
    assert_eq!(world.released("hours"), world.plain(hours));
    assert_eq!(world.released("days"), world.plain(|time| (time + 9 * HOUR) / 86_400 * 86_400 - 9 * HOUR));
    // a vector of 40 readings of 16 bits and ten rows takes four frames of each row group
    let (phases, mut places) = (world.releases("phases"), BTreeMap::<u64, usize>::new());
    for ((start, _), release) in &phases {
        let (vector, next) = (&release["groups"][0]["figures"][1], places.entry(*start).or_default());
        assert_eq!(vector["first"].as_u64().unwrap() as usize, *next);
        let of_week = world.sent.iter().filter(|(time, _)| (*start..start + 7 * 86_400).contains(time));
        for exact in vector["exact"].as_array().unwrap() {
            let plain: u64 = of_week.clone().map(|(_, energy)| (energy + *next as u64) % 65_536).sum();
            assert_eq!(exact.as_str().unwrap(), plain.to_string(), "place {next}");
            *next += 1;
        }
    }
    // 2026-02-23 and 2026-03-02 are Mondays
    assert_eq!(places, BTreeMap::from([(1_771_804_800, 40), (1_772_409_600, 40)]));
    assert_eq!(phases.len(), 8);

    // readings of an hour that nobody had asked about yet: a new window
    world.send("a", &[START + 10 * HOUR], 3);
    world.send("b", &[START + 10 * HOUR + 7], 4);
    world.keyholder();
    assert_eq!(world.metric("tobari_sense_late_frames_total"), 8, "late for the day, and for the week");
    let hour = world.released("hours");
    assert_eq!(hour.get(&(START + 10 * HOUR)), world.plain(hours).get(&(START + 10 * HOUR)));
    // a reading for an hour whose results were fetched: it counts in no result, and is counted
    let before = world.released("hours");
    world.send("a", &[START], 5);
    world.keyholder();
    assert_eq!(world.metric("tobari_sense_late_frames_total"), 12);
    assert_eq!(world.released("hours"), before);
}

#[test]
fn windows_of_the_calendar_follow_summer_time_and_months() {
    let mut world = World::new(&[
        question("days", "{ length = \"1d\", zone = \"Europe/Berlin\" }", "energy"),
        question("months", "{ length = \"1mo\", zone = \"Europe/Berlin\", lateness = \"2h\" }", "energy"),
    ]);
    // 2026-03-29 has 23 hours in Berlin: from 23:00 to 22:00 of UTC. April begins at 22:00 of UTC.
    let (sunday, monday, april) = (1_774_738_800, 1_774_821_600, 1_774_994_400);
    let around = |time: u64| [time - 900, time - 1, time, time + 899];
    world.send("a", &[around(sunday), around(monday)].concat(), 1);
    world.send("b", &[around(monday), around(april)].concat(), 2);
    world.send("a", &around(april), 3);
    world.keyholder();
    let days = |time: u64| match time {
        before if before < sunday => sunday - 86_400,
        during if during < monday => sunday,
        after => monday + (after - monday) / 86_400 * 86_400,
    };
    // a day with readings of one device has no result: two are the least
    let mut expected = world.plain(days);
    assert_eq!(expected.remove(&(sunday - 86_400)).map(|(count, _)| count), Some(2));
    assert_eq!(world.released("days"), expected);
    // March of Berlin has 743 hours
    let months = world.plain(|time| if time < april { april - 743 * HOUR } else { april });
    assert_eq!(world.released("months"), months);
    world.restart();
    world.keyholder();
    assert_eq!(world.released("months"), months);
}

/// Somebody on the way keeps every frame and sends all of them again, in another order, after each
/// restart and each result; and with another time, another sheet or another counter.
#[test]
fn no_history_of_restarts_and_replays_counts_a_reading_twice_or_in_another_window() {
    let mut world = World::new(&[question("hours", "{ length = \"1h\" }", "energy")]);
    let hours = |time: u64| time - time % HOUR;
    for round in 0..3 {
        let hour = START + round * HOUR;
        // each round has readings of its own hour, and of one long before
        world.send("a", &[hour + 5, hour + 1800, hour - 100 * HOUR], 10 + round);
        world.send("b", &[hour + 7, hour - 100 * HOUR + 9], 20 + round);
        let count = world.seen.len() as u64;
        for _ in 0..2 {
            let mut again = world.seen.clone();
            again.reverse();
            let told = world.post(&again);
            assert_eq!((told["duplicate"].as_u64(), told["taken"].as_u64()), (Some(count), Some(0)), "{told}");
            world.restart();
        }
        // time, sheet, counter, profile: the first bytes of a head
        for (place, verdict) in [(8, "forged"), (10, "forged"), (13, "forged"), (4, "forged"), (0, "malformed")] {
            let changed = world.seen.iter().cloned().map(|mut frame| {
                frame[place] ^= 1;
                frame
            });
            let told = world.post(&changed.collect::<Vec<_>>());
            assert_eq!((told[verdict].as_u64(), told["taken"].as_u64()), (Some(count), Some(0)), "{place}: {told}");
        }
        world.keyholder();
        assert_eq!(world.released("hours"), world.plain(hours), "round {round}");
        let told = world.post(&world.seen);
        assert_eq!(told["taken"], 0, "after the results: {told}");
        world.keyholder();
        assert_eq!(world.released("hours"), world.plain(hours));
    }
    assert_eq!(world.metric("tobari_sense_late_frames_total"), 0);
}

#[test]
fn a_column_of_times_is_used_by_the_users_word_and_refused_where_frames_have_none() {
    let place = Place::new();
    place.fleet(SCHEMA, &["a"]);
    let columns: String = (0..40).map(|i| format!(",phase[{i}]")).collect();
    let row: String = (0..40).map(|_| ",1").collect();
    place.write("readings.csv", &format!("time,energy{columns}\n2026-03-01T00:00:00Z,5{row}\n"));
    let mut words = place.encrypt("a", "readings.csv", &["-o", &place.path("frames")]);
    let run = |words: &[String]| tobari(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = run(&words);
    assert!(!refused.status.success() && stderr(&refused).contains("add --time time to use it, or --time now"));
    assert!(!std::path::Path::new(&place.path("frames")).exists());
    words.extend(["--time".to_owned(), "time".to_owned()]);
    assert!(run(&words).status.success());
    let frames = std::fs::read(place.path("frames")).unwrap();
    assert_eq!(frames.len(), 4 * 943, "the sheets of one row");
    for (sheet, frame) in (0..).zip(frames.chunks(943)) {
        let head = &frame[8..15];
        assert_eq!(head, [&START.to_le_bytes()[..5], &[sheet, 0]].concat());
    }
}
