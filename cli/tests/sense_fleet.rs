//! A day of a fleet of thousands of devices, in simulated time and with everything that goes wrong
//! on a real day. Every released figure is compared with the readings that were confirmed.
//!
//! The time is simulated: the server reads its clock from a file. The fleet's program, the broker
//! and the key holder are the real ones, each in a process of its own. Most devices are simulated
//! in this process: their outboxes are lists in memory. [`COMMANDS`] devices are the real command
//! with its files.
//!
//! `cargo xtask soak fleet` runs it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod support;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::broker::Broker;
use support::fleet::{Place, ask, good, metric};
use support::{Server, stderr, tobari};
use tobari_device::{Device, InsecureVolatileCounter, Profile, Stamp, U28};
use tobari_sense::registry::Token;
use tobari_sense::schema::Schema;

const SCHEMA: &str = "profile = \"u28\"\nsamples = 4\nslice = \"15m\"\n[[channel]]\nname = \"load\"\nbits = 16\n\
    [[channel]]\nname = \"temp\"\n";
const QUESTION: &str = "name = \"hours\"\nframes = 16\npart = 254\nwindow = { length = \"1h\", lateness = \"2h\" }\n\
    [[statistic]]\nkind = \"count\"\n[[statistic]]\nkind = \"sum\"\nchannel = \"load\"\n\
    [[statistic]]\nkind = \"mean\"\nchannel = \"temp\"\n";
const ROWS: usize = 4;
const LEAST_DEVICES: usize = 5;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const LATENESS: u64 = 2 * HOUR;
/// 2026-06-01T00:00:00Z.
const START: u64 = 1_780_272_000;
const HOURS: u64 = 24;

/// Devices that are the real command, with a file of readings every hour.
const COMMANDS: usize = 20;
/// Frames of a request.
const BATCH: usize = 255;
/// The server's `--sense-memory`, and the memory that it may have for everything else, in MiB.
const MEMORY: [u64; 2] = [512, 128];

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Never sent.
    Waiting,
    /// Sent, and no reply came.
    Unknown,
    /// Confirmed by the server or the broker.
    Confirmed,
}

/// A frame, and what is in it.
struct Sealed {
    unit: usize,
    /// The beginning of its window in seconds since 1970.
    window: u64,
    rows: u64,
    load: u64,
    temp: u64,
    bytes: Vec<u8>,
    fate: Fate,
    /// Whether a release has it.
    counted: bool,
}

/// A device in this process.
struct Unit {
    name: String,
    device: Device<U28, InsecureVolatileCounter>,
    /// How far its clock is ahead, in seconds.
    ahead: i64,
    /// The hour in which it has a network again.
    awake: u64,
}

/// The figures of the run.
#[derive(Default)]
struct Figures {
    lost_replies: u64,
    sent_twice: u64,
    /// Frames that the broker confirmed.
    over_broker: u64,
    killed: u64,
    broker_restarts: u64,
    bad_rows: u64,
    rows: u64,
    releases: u64,
    readings_released: u64,
    late: u64,
    revoked: u64,
    of_few: u64,
    most_kib: u64,
}

struct World {
    /// Further words of the server.
    words: Vec<String>,
    place: Place,
    server: Option<Server>,
    broker: Broker,
    rng: ChaCha20Rng,
    fleet: String,
    schema: Schema,
    units: Vec<Unit>,
    frames: Vec<Sealed>,
    revoked: BTreeSet<usize>,
    /// The releases of windows, which never change.
    releases: BTreeMap<u64, Value>,
    /// Released windows.
    released: BTreeSet<u64>,
    /// Seconds since [`START`].
    now: u64,
    figures: Figures,
}

fn read_device(place: &Place, folder: &str, name: &str) -> Device<U28, InsecureVolatileCounter> {
    let token = std::fs::read_to_string(place.path(&format!("{folder}/{name}.device"))).unwrap();
    let token = Token::decode(token.trim()).unwrap();
    Device::open(&token.root(), token.number, InsecureVolatileCounter(0)).unwrap()
}

impl World {
    fn new(devices: usize, words: &[&str]) -> Option<Self> {
        let place = Place::new();
        let settings = format!(
            "allow_anonymous true\nmax_queued_messages 0\npersistence true\npersistence_location {}\nautosave_interval 1\n",
            place.path("")
        );
        let broker = Broker::with(&place, "a day of a fleet", "mqtt", &settings)?;
        let names: Vec<String> = (0..devices).map(|i| format!("d{i:05}")).collect();
        let fleet = place.fleet(SCHEMA, &names.iter().map(String::as_str).collect::<Vec<_>>());
        good(&["sense", "query", &place.path("holder"), &place.write("question.toml", QUESTION)]);
        let card: Value = serde_json::from_slice(&std::fs::read(place.path("holder/fleet.json")).unwrap()).unwrap();
        let schema = serde_json::from_value(card["schema"].clone()).unwrap();
        let units = names.into_iter().enumerate().map(|(i, name)| {
            // one in fifty is three days ahead, one in fifty three days behind
            let ahead = match i % 50 {
                10 => 3 * DAY as i64,
                20 => -3 * DAY as i64,
                _ => 0,
            };
            Unit { device: read_device(&place, "devices", &name), name, ahead, awake: 0 }
        });
        let units = units.collect();
        let mut world = Self {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            place,
            server: None,
            broker,
            rng: ChaCha20Rng::from_seed([46; 32]),
            fleet,
            schema,
            units,
            frames: Vec::new(),
            revoked: BTreeSet::new(),
            releases: BTreeMap::new(),
            released: BTreeSet::new(),
            now: 0,
            figures: Figures::default(),
        };
        world.clock(0, 0);
        world.start();
        world.keyholder();
        Some(world)
    }

    /// A number below `most`.
    fn draw(&mut self, most: u64) -> u64 {
        self.rng.next_u64() % most
    }

    /// Sets the time, in seconds since [`START`], and how far the server's wall clock is ahead.
    fn clock(&mut self, now: u64, ahead: i64) {
        assert!(now >= self.now);
        self.now = now;
        let wall = (START + now).checked_add_signed(ahead).unwrap();
        let bytes = [now * 1000, wall * 1000].map(u64::to_be_bytes).concat();
        let (new, file) = (self.place.path("clock.new"), self.place.path("clock"));
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    fn start(&mut self) {
        let (data, log, memory) = (self.place.path("server"), self.place.path("log"), format!("{}MiB", MEMORY[0]));
        let mut words = vec!["--sense", &data, "--sense-mqtt", &self.broker.url, "--sense-memory", &memory];
        words.extend(self.words.iter().map(String::as_str));
        let clock = [("TOBARI_SIMULATED_CLOCK", self.place.path("clock"))];
        self.server = Some(Server::logging_with(log.as_ref(), &words, &clock));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Runs the key holder until it has nothing to do.
    fn keyholder(&self) {
        good(&["sense", "keyholder", &self.place.path("holder"), "--server", &self.server().url, "--once", "--json"]);
    }

    /// Starts the key holder and kills it.
    fn killed_keyholder(&mut self, after: Duration) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tobari"))
            .args(["sense", "keyholder", &self.place.path("holder"), "--server", &self.server().url, "--once"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Two frames of a device in an hour of its own clock.
    fn seal(&mut self, unit: usize, hour: u64) {
        for _ in 0..2 {
            let slice = self.draw(4);
            let rows: Vec<Vec<u32>> =
                (0..ROWS).map(|_| vec![self.draw(1 << 16) as u32, self.draw(256) as u32]).collect();
            let ahead = self.units[unit].ahead;
            let second = (START + hour * HOUR + slice * 900).checked_add_signed(ahead).unwrap();
            let bytes = self.sealed(unit, second, &rows);
            let sum = |column: usize| rows.iter().map(|row| u64::from(row[column])).sum();
            let window = second - second % HOUR;
            let (load, temp) = (sum(0), sum(1));
            self.frames.push(Sealed {
                unit,
                window,
                rows: ROWS as u64,
                load,
                temp,
                bytes,
                fate: Fate::Waiting,
                counted: false,
            });
        }
    }

    fn sealed(&mut self, unit: usize, second: u64, rows: &[Vec<u32>]) -> Vec<u8> {
        let frames = self.schema.frames(rows).unwrap();
        assert_eq!(frames.len(), 1);
        let mut frame = U28::EMPTY;
        self.units[unit].device.seal_at(Stamp::new(second, 0).unwrap(), &frames[0], &mut frame).unwrap();
        AsRef::<[u8]>::as_ref(&frame).to_vec()
    }

    /// Frames of devices with a network that are not confirmed, in any order.
    fn waiting(&mut self, hour: u64) -> Vec<usize> {
        let awake = |frame: &Sealed| self.units[frame.unit].awake <= hour;
        let wait = |index: &usize| {
            let frame = &self.frames[*index];
            frame.fate != Fate::Confirmed && awake(frame)
        };
        let mut all: Vec<usize> = (0..self.frames.len()).filter(wait).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, self.draw(i as u64 + 1) as usize);
        }
        all
    }

    fn bytes_of(&self, batch: &[usize]) -> Vec<u8> {
        batch.iter().flat_map(|index| self.frames[*index].bytes.iter().copied()).collect()
    }

    fn set(&mut self, batch: &[usize], fate: Fate) {
        for index in batch {
            let frame = &mut self.frames[*index];
            // what the broker confirmed stays confirmed
            if frame.fate != Fate::Confirmed {
                frame.fate = fate;
            }
        }
    }

    /// Posts frames. None if the reply is lost; it is lost on purpose once in twenty times.
    fn post(&mut self, bytes: &[u8], keeps: bool) -> Option<Value> {
        let path = format!("/sense/v1/fleets/{}/frames", self.fleet);
        let address = self.server.as_ref()?.address();
        if !keeps && self.draw(20) == 0 {
            self.figures.lost_replies += 1;
            let mut stream = TcpStream::connect(address).ok()?;
            let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n", bytes.len());
            stream.write_all(&[head.as_bytes(), bytes].concat()).ok()?;
            // some replies are lost before the frames are stored, some after
            if self.draw(2) == 0 {
                let _ = stream.read(&mut [0]);
            }
            return None;
        }
        let (status, reply) = ask(&address, "POST", &path, bytes)?;
        assert!(status == 200 || status == 503, "{status}: {}", String::from_utf8_lossy(&reply));
        (status == 200).then(|| serde_json::from_slice(&reply).unwrap())
    }

    /// Sends a batch over HTTP or over the broker.
    fn send(&mut self, batch: &[usize], over_broker: bool) {
        let bytes = self.bytes_of(batch);
        let twice = 1 + usize::from(self.draw(50) == 0);
        self.figures.sent_twice += twice as u64 - 1;
        for _ in 0..twice {
            let confirmed = if over_broker {
                let messages = bytes.chunks(U28::FRAME * 16).map(<[u8]>::to_vec).collect();
                self.broker.publish(&format!("tobari/{}/gateway", self.fleet), messages).is_ok()
            } else {
                let counts = self.post(&bytes, false);
                if let Some(counts) = &counts {
                    let of = |name: &str| counts[name].as_u64().unwrap_or(0);
                    assert_eq!(of("taken") + of("duplicate"), batch.len() as u64, "{counts}");
                }
                counts.is_some()
            };
            self.figures.over_broker += if over_broker && confirmed { batch.len() as u64 } else { 0 };
            self.set(batch, if confirmed { Fate::Confirmed } else { Fate::Unknown });
        }
    }

    /// Sends what waits, until all is confirmed. In the middle, perhaps something is killed.
    fn deliver(&mut self, hour: u64) {
        let waiting = self.waiting(hour);
        let batches: Vec<&[usize]> = waiting.chunks(BATCH).collect();
        for (i, batch) in batches.iter().enumerate() {
            let over_broker = self.draw(10) < 3;
            match hour {
                // the server dies while it stores frames
                2 | 7 | 12 | 17 | 22 if i == batches.len() / 2 => {
                    let bytes = self.bytes_of(batch);
                    let (address, path) = (self.server().address(), format!("/sense/v1/fleets/{}/frames", self.fleet));
                    let sent = std::thread::spawn(move || ask(&address, "POST", &path, &bytes).is_some());
                    let pause = self.draw(30);
                    std::thread::sleep(Duration::from_millis(pause));
                    self.kill();
                    sent.join().unwrap();
                    self.set(batch, Fate::Unknown);
                    self.start();
                }
                // frames wait at the broker for an absent server, and the broker restarts
                3 | 9 | 15 | 21 if i == batches.len() / 3 => {
                    self.kill();
                    let before = self.figures.over_broker;
                    self.send(batch, true);
                    assert!(self.figures.over_broker > before, "the broker keeps frames for an absent server");
                    self.figures.broker_restarts += 1;
                    self.broker.restart();
                    self.start();
                }
                _ => self.send(batch, over_broker),
            }
        }
        for _ in 0..50 {
            let waiting = self.waiting(hour);
            if waiting.is_empty() {
                break;
            }
            waiting.chunks(BATCH).for_each(|batch| self.send(batch, false));
        }
        assert!(self.waiting(hour).is_empty());
        for frame in &mut self.frames {
            if frame.fate == Fate::Confirmed {
                frame.bytes = Vec::new();
            }
        }
    }

    /// Frames that the server must have.
    fn confirmed(&self) -> u64 {
        self.frames.iter().filter(|frame| frame.fate == Fate::Confirmed).count() as u64
    }

    /// Waits until the server has stored what the broker delivers.
    fn settle(&mut self) {
        let (began, least) = (Instant::now(), self.confirmed());
        while (metric(self.server(), "tobari_sense_frames_stored") as u64) < least {
            assert!(began.elapsed() < Duration::from_secs(120), "the server stores what was confirmed");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(metric(self.server(), "tobari_sense_frames_stored") as u64, least, "none double");
    }

    /// Notes the most memory that this server ever had.
    fn measure(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server().pid())).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        self.figures.most_kib = self.figures.most_kib.max(kib.unwrap().trim().parse().unwrap());
    }

    fn kill(&mut self) {
        self.measure();
        self.figures.killed += 1;
        self.server.take().unwrap().kill();
    }

    /// A device that is the real command: a file with bad rows is refused as a whole, then mended.
    fn command(&mut self, unit: usize, hour: u64) {
        let (mut broken, mut mended) = ("time,load,temp\n".to_owned(), "time,load,temp\n".to_owned());
        let mut slices: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        let mut bad = 0;
        for row in 0..12 {
            let second = START + hour * HOUR + row * 300;
            let (load, temp) = (self.draw(1 << 16), self.draw(256));
            let line = format!("{second},{load},{temp}\n");
            if self.draw(20) == 0 {
                bad += 1;
                broken += &["x,1,2\n", "1,2\n", "5,70000,1\n", "5,1,n/a\n"][self.rng.next_u32() as usize % 4].replacen(
                    '5',
                    &second.to_string(),
                    1,
                );
                continue;
            }
            broken += &line;
            mended += &line;
            slices.entry(second - second % 900).or_default().push((load, temp));
        }
        (self.figures.bad_rows, self.figures.rows) = (self.figures.bad_rows + bad, self.figures.rows + 12);
        let (name, url) = (self.units[unit].name.clone(), self.server().url.clone());
        let words = self.place.encrypt(&name, "readings.csv", &["--server", &url, "--time", "time"]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if bad > 0 {
            self.place.write("readings.csv", &broken);
            let refused = tobari(&words);
            assert!(!refused.status.success() && stderr(&refused).contains("line "), "{}", stderr(&refused));
        }
        self.place.write("readings.csv", &mended);
        good(&words);
        for (second, rows) in slices {
            for rows in rows.chunks(ROWS) {
                let window = second - second % HOUR;
                let (load, temp) = (rows.iter().map(|row| row.0).sum(), rows.iter().map(|row| row.1).sum());
                let (rows, bytes, fate) = (rows.len() as u64, Vec::new(), Fate::Confirmed);
                self.frames.push(Sealed { unit, window, rows, load, temp, bytes, fate, counted: false });
            }
        }
    }

    /// Gives some devices new keys. Frames under the old keys are refused from then on.
    fn rotate(&mut self, hour: u64) {
        let chosen: Vec<usize> =
            (COMMANDS..self.units.len()).filter(|i| i % 97 == 5 && self.units[*i].awake <= hour).collect();
        let names: Vec<&str> = chosen.iter().map(|i| self.units[*i].name.as_str()).collect();
        let (holder, output) = (self.place.path("holder"), self.place.path("rotated"));
        good(&[&["sense", "provision", &holder, "--rotate"][..], &names, &["-o", &output]].concat());
        self.keyholder();
        let second = START + hour * HOUR;
        let rows = vec![vec![1, 1]; ROWS];
        let old: Vec<u8> = chosen.iter().take(5).flat_map(|unit| self.sealed(*unit, second, &rows)).collect();
        let counts = self.post(&old, true).unwrap();
        assert_eq!(counts["revoked"], chosen.len().min(5), "{counts}");
        for unit in chosen {
            self.units[unit].device = read_device(&self.place, "rotated", &self.units[unit].name);
        }
    }

    /// Revokes some devices: from then on, none of their frames count.
    fn revoke(&mut self, hour: u64) {
        let chosen: Vec<usize> =
            (COMMANDS..self.units.len()).filter(|i| i % 199 == 7 && self.units[*i].awake <= hour).collect();
        let names: Vec<&str> = chosen.iter().map(|i| self.units[*i].name.as_str()).collect();
        good(&[&["sense", "provision", &self.place.path("holder"), "--revoke"][..], &names].concat());
        // the key holder passes the revocation on before it fetches results
        self.revoked.extend(chosen);
        self.keyholder();
        self.check();
        let rows = vec![vec![1, 1]; ROWS];
        let first = *self.revoked.first().unwrap();
        let frame = self.sealed(first, START + hour * HOUR, &rows);
        assert_eq!(self.post(&frame, true).unwrap()["revoked"], 1);
    }

    /// Frames that no clock can explain are refused and counted.
    fn untimely(&mut self, hour: u64) {
        let rows = vec![vec![1, 1]; ROWS];
        let unit = COMMANDS + 1;
        let frames: Vec<u8> = [START + hour * HOUR + 30 * DAY, 900_000_000]
            .into_iter()
            .flat_map(|second| self.sealed(unit, second, &rows))
            .collect();
        assert_eq!(self.post(&frames, true).unwrap()["untimely"], 2);
    }

    /// Compares the releases that are new with the confirmed readings. A window is never released
    /// before its end and its lateness by the true time.
    fn check(&mut self) {
        let mut new = Vec::new();
        for question in std::fs::read_dir(self.place.path("holder/releases")).unwrap() {
            for file in std::fs::read_dir(question.unwrap().path()).unwrap().map(|file| file.unwrap().path()) {
                let Ok(release) = serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()) else { continue };
                let Some(start) = release["start_ms"].as_u64() else { continue };
                match self.releases.get(&(start / 1000)) {
                    _ if !release["groups"].is_array() => {}
                    Some(known) => assert_eq!(*known, release, "a release is never written anew"),
                    None => new.push((start / 1000, release)),
                }
            }
        }
        for (start, release) in new {
            assert!(self.released.insert(start), "one release of a window");
            self.releases.insert(start, release.clone());
            assert!(start + HOUR + LATENESS <= START + self.now, "the window of {start} was released early");
            let of_window = self.frames.iter().filter(|frame| frame.window == start && frame.fate == Fate::Confirmed);
            let counted: Vec<&Sealed> = of_window.filter(|frame| !self.revoked.contains(&frame.unit)).collect();
            let sum = |of: fn(&Sealed) -> u64| counted.iter().map(|frame| of(frame)).sum::<u64>();
            let (rows, load, temp) = (sum(|frame| frame.rows), sum(|frame| frame.load), sum(|frame| frame.temp));
            let figures = &release["groups"][0]["figures"];
            assert_eq!(release["left_out"], 0, "{release}");
            assert_eq!(figures[0]["value"].as_u64(), Some(rows), "the count of {start}: {release}");
            assert_eq!(figures[1]["exact"].as_str(), Some(load.to_string().as_str()), "the sum of {start}");
            let mean = figures[2]["value"].as_f64().unwrap();
            assert!((mean - temp as f64 / rows as f64).abs() < 1e-6, "the mean of {start}: {mean}");
            self.figures.releases += 1;
            self.figures.readings_released += rows;
            let revoked = &self.revoked;
            let counted =
                self.frames.iter_mut().filter(|frame| frame.window == start && !revoked.contains(&frame.unit));
            counted.filter(|frame| frame.fate == Fate::Confirmed).for_each(|frame| frame.counted = true);
        }
    }

    /// Confirmed readings that no release can have: frames that came after their window's release
    /// or were of revoked devices, and those of windows with too few devices.
    fn account(&mut self) {
        let mut devices: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for frame in &self.frames {
            assert!(frame.fate == Fate::Confirmed);
            devices.entry(frame.window).or_default().insert(frame.unit);
        }
        for (window, units) in devices {
            let active = units.difference(&self.revoked).count();
            assert!(self.released.contains(&window) || active < LEAST_DEVICES, "no release of {window}");
        }
        for frame in self.frames.iter().filter(|frame| !frame.counted) {
            let why = match frame {
                _ if self.revoked.contains(&frame.unit) => &mut self.figures.revoked,
                _ if self.released.contains(&frame.window) => &mut self.figures.late,
                _ => &mut self.figures.of_few,
            };
            *why += frame.rows;
        }
        // the server counts since its last start
        let late = metric(self.server(), "tobari_sense_late_frames_total") as u64;
        assert!(late > 0 && late * ROWS as u64 <= self.figures.late, "{late} late frames");
    }
}

#[test]
#[ignore = "long: cargo xtask soak fleet"]
fn a_day_of_a_fleet_with_all_that_goes_wrong_releases_the_readings_that_were_confirmed() {
    if !cfg!(feature = "simulated-clock") {
        panic!("this run needs --features simulated-clock");
    }
    let devices = std::env::var("TOBARI_SOAK_DEVICES").map_or(10_000, |number| number.parse().unwrap());
    let began = Instant::now();
    let Some(mut world) = World::new(devices, &[]) else { panic!("this run needs mosquitto") };
    for hour in 0..HOURS {
        // the server's clock goes wrong for less than an hour
        let ahead = match hour {
            10 => 3 * DAY as i64,
            18 => -3 * (DAY as i64),
            _ => 0,
        };
        world.clock(hour * HOUR + 1800, ahead);
        for unit in COMMANDS..devices {
            if world.revoked.contains(&unit) {
                continue;
            }
            world.seal(unit, hour);
            if world.units[unit].awake <= hour && world.draw(33) == 0 {
                world.units[unit].awake = hour + 1 + world.draw(5);
            }
        }
        world.deliver(hour);
        (0..COMMANDS).for_each(|unit| world.command(unit, hour));
        world.untimely(hour);
        world.settle();
        match hour {
            8 => world.rotate(hour),
            16 => world.revoke(hour),
            _ => {}
        }
        world.clock(hour * HOUR + 2400, ahead);
        world.keyholder();
        world.check();
        world.clock((hour + 1) * HOUR + 60, ahead);
        if hour % 6 == 5 {
            for pause in [10, 60, 200] {
                world.killed_keyholder(Duration::from_millis(pause));
            }
        }
        world.keyholder();
        world.check();
        world.measure();
        println!(
            "hour {hour}: {} frames ({} stored), {} releases, {} MiB, {} s",
            world.confirmed(),
            metric(world.server(), "tobari_sense_frames_stored"),
            world.figures.releases,
            world.figures.most_kib >> 10,
            began.elapsed().as_secs()
        );
    }
    // all are awake, and the last windows end, also those of clocks that were ahead
    world.clock(HOURS * HOUR + 1800, 0);
    world.deliver(u64::MAX);
    world.settle();
    world.clock(HOURS * HOUR + 3 * DAY + LATENESS + 2 * HOUR, 0);
    world.keyholder();
    world.check();
    // and once more: nothing changes
    let releases = world.figures.releases;
    world.keyholder();
    world.check();
    assert_eq!(world.figures.releases, releases);
    world.account();
    let stored = metric(world.server(), "tobari_sense_frames_stored") as u64;
    assert_eq!(stored, world.confirmed(), "none lost, none double");
    let figures = &world.figures;
    assert!(figures.most_kib >> 10 <= MEMORY.iter().sum(), "{} KiB", figures.most_kib);
    let all = json!({
        "soak": "fleet", "devices": devices, "simulated_hours": HOURS, "seconds": began.elapsed().as_secs(),
        "frames": stored, "readings": world.frames.iter().map(|frame| frame.rows).sum::<u64>(),
        "releases": figures.releases, "readings_released": figures.readings_released,
        "readings_late": figures.late, "readings_of_revoked_devices": figures.revoked,
        "readings_of_too_few_devices": figures.of_few,
        "frames_over_broker": figures.over_broker, "lost_replies": figures.lost_replies, "batches_sent_twice": figures.sent_twice,
        "server_killed": figures.killed, "broker_restarted": figures.broker_restarts,
        "rows_of_files": figures.rows, "bad_rows": figures.bad_rows,
        "server_most_mib": figures.most_kib >> 10,
    });
    println!("{all}");
}

/// A key holder that was away for longer than the server keeps frames gets no result of what is
/// left of a window, and is told. Its other windows and questions go on.
#[test]
#[ignore = "simulated time: cargo xtask soak fleet"]
fn a_window_whose_frames_were_removed_has_no_result_and_the_others_go_on() {
    let Some(mut world) = World::new(12, &["--sense-days", "1"]) else { panic!("this run needs mosquitto") };
    let holder = world.place.path("holder");
    for name in ["a", "b", "c"] {
        let text = QUESTION.replace("hours", name).replace("\"1h\"", "\"1d\"");
        let file = world.place.write("long.toml", &text);
        good(&["sense", "query", &holder, &file]);
    }
    world.clock(1800, 0);
    (0..6).for_each(|unit| world.seal(unit, 0));
    world.deliver(0);
    world.settle();
    world.clock(2 * HOUR, 0);
    (6..12).for_each(|unit| world.seal(unit, 0));
    (0..12).for_each(|unit| world.seal(unit, 1));
    world.deliver(0);
    world.settle();
    // the first frames are older than a day, the others are not; a server looks when it starts
    world.clock(25 * HOUR, 0);
    world.kill();
    world.start();
    for _ in 0..100 {
        if metric(world.server(), "tobari_sense_lost_frames_total") > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(metric(world.server(), "tobari_sense_lost_frames_total"), 12);
    let words = ["sense", "keyholder", &holder, "--server", &world.server().url, "--once"];
    let words = words.map(str::to_owned);
    let words = words.each_ref().map(String::as_str);
    for round in 0..2 {
        let told = tobari(&words);
        let said = stderr(&told);
        assert!(!told.status.success(), "{said}");
        for name in ["a", "b", "c"] {
            assert!(said.contains(&format!("{name}: ")), "{said}");
        }
        assert!(said.contains("keeps frames for 1 days (--sense-days), and this question needs 2"), "{said}");
        assert_eq!(
            said.contains("the server removed frames of it before its result was fetched"),
            round == 0,
            "{said}"
        );
    }
    world.check();
    assert_eq!(world.released, BTreeSet::from([START + HOUR]));
    let listed = good(&["sense", "query", &holder]);
    assert!(
        listed.contains("1 windows with a result, 0 with too few devices, 1 whose frames the server had removed"),
        "{listed}"
    );
    // a question of later is about the same frames: its first window lost some, too
    let late = world.place.write("late.toml", &QUESTION.replace("hours", "late"));
    good(&["sense", "query", &holder, &late]);
    let said = stderr(&tobari(&words));
    let told = format!("late: nothing is released for the window at {START}: the server removed frames of it");
    assert!(said.contains(&told) && !said.contains("hours: "), "{said}");
    let listed = good(&["sense", "query", &holder]);
    let both = "1 windows with a result, 0 with too few devices, 1 whose frames the server had removed";
    assert_eq!(listed.matches(both).count(), 2, "{listed}");
}
