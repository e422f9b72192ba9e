//! A server that is killed under load, again and again: acknowledged data stay, and withdrawn data
//! stay away.

use super::*;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::slice::Iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use support::tables::{post, raw};
use support::tobari;
use tobari_client::Fingerprint;
use tobari_search::identity::Identity;
use tobari_search::program;
use tobari_sense::registry::Registry;

const ROUNDS: usize = 4;

/// The server's acknowledgements, by the client that received them.
#[derive(Default)]
struct Acknowledged<'a> {
    /// Frames of a device.
    taken: Vec<&'a [u8]>,
    /// Whether all frames of another device were removed after the last one arrived, in this round;
    /// and the number of such rounds.
    removed: bool,
    removals: usize,
    /// Models and the hashes of keys for images.
    keys: Vec<[String; 2]>,
    /// Clients and the names of their keys for searches.
    registered: Vec<[String; 2]>,
    /// Registered questions, and withdrawn questions.
    asked: Vec<String>,
    forgotten: Vec<String>,
    /// The number of tests that a client of the search has left.
    left: Option<u64>,
}

/// The clients of the server.
struct Askers {
    place: Fleet,
    fleet: String,
    /// A question about the fleet.
    order: Vec<u8>,
    seeker: Tables,
    /// The seeker's name.
    name: String,
}

impl Askers {
    fn new(house: &TestServer) -> Self {
        let ((place, fleet), seeker) = (fleet(&house.server.url), Tables::new());
        let questions = std::fs::read_dir(place.path("holder/questions")).unwrap();
        let question = questions.map(|entry| entry.unwrap().path()).next().unwrap();
        let question: Value = serde_json::from_slice(&std::fs::read(question).unwrap()).unwrap();
        seeker.write("asked", "entry 3\nentry 4\n");
        let name = Identity::decode(&std::fs::read(seeker.path("key")).unwrap()).unwrap().name();
        let order = question["order"].to_string().into_bytes();
        Self { place, fleet: format!("/sense/v1/fleets/{fleet}"), order, seeker, name: hex(&name) }
    }

    /// The frames of a device, in this number of batches of three.
    fn batches(&self, device: usize, count: usize) -> Vec<Vec<u8>> {
        let readings = (0..16 * 3 * count).map(|i| format!("{}\n", i * i % 251)).collect::<String>();
        self.place.write("readings.csv", &readings);
        self.place.seal(DEVICES[device], "readings.csv", &["-o", &self.place.path("frames")]);
        let frames = std::fs::read(self.place.path("frames")).unwrap();
        frames.chunks_exact(frames.len() / count).map(<[u8]>::to_vec).collect()
    }

    /// Sends a batch; returns how many frames were taken, and how many were duplicates.
    fn send(&self, house: &TestServer, batch: &[u8]) -> Option<[u64; 2]> {
        let told = json(house, "POST", &format!("{}/frames", self.fleet), batch)?;
        Some(["taken", "duplicate"].map(|what| told[what].as_u64().unwrap()))
    }

    /// Removes the frames of a device; returns how many were removed.
    fn remove(&self, house: &TestServer, device: usize) -> Option<u64> {
        let registry = Registry::decode(&std::fs::read(self.place.path("holder/devices")).unwrap()).unwrap();
        let number = registry.entries()[device].number.value();
        json(house, "DELETE", &format!("{}/devices/{number}/frames", self.fleet), b"")?["removed"].as_u64()
    }

    /// Queries tables until the test ends; returns the number of tests left after the last answer.
    fn search(&self, house: &TestServer, ended: &AtomicBool) -> Option<u64> {
        let mut last = None;
        while !ended.load(Ordering::Relaxed) {
            let asked = ["--queries", &self.seeker.path("asked"), "--table", "keys"];
            let told = self.seeker.query(&house.server.url, &asked);
            match left(house, &self.name).filter(|_| told.status.success()) {
                Some(left) => last = Some(left),
                None => break,
            }
        }
        last
    }

    /// Registers questions, and withdraws every other question.
    fn order(&self, house: &TestServer, round: usize, ended: &AtomicBool) -> [Vec<String>; 2] {
        let (mut asked, mut forgotten) = (Vec::new(), Vec::new());
        let status =
            |method, path: &str, body: &[u8]| ask(&house.server.address(), method, path, body).map(|told| told.0);
        for number in (0..200).take_while(|_| !ended.load(Ordering::Relaxed)) {
            let path = format!("{}/questions/{round:08x}{number:08x}", self.fleet);
            match status("POST", &path, &self.order) {
                Some(201) if number % 2 == 0 => asked.push(path),
                Some(201) if status("DELETE", &path, b"") == Some(204) => forgotten.push(path),
                _ => break,
            }
            thread::sleep(Duration::from_millis(5));
        }
        [asked, forgotten]
    }
}

/// The JSON of a reply; none if the server is gone or rejects the request.
fn json(house: &TestServer, method: &str, path: &str, body: &[u8]) -> Option<Value> {
    let (status, told) = ask(&house.server.address(), method, path, body)?;
    (status == 200).then(|| serde_json::from_slice(&told).unwrap())
}

/// The number of tests that a client has left, by the client's name.
fn left(house: &TestServer, client: &str) -> Option<u64> {
    let head = format!("GET /search/v1 HTTP/1.0\r\nHost: localhost\r\nTobari-Client: {client}\r\n\r\n");
    let (_, reply) = raw(&house.server.address(), head.as_bytes());
    serde_json::from_str::<Value>(reply.split_once("\r\n\r\n")?.1).ok()?["tests_left"].as_u64()
}

/// Registers keys for images and uses them; `used` is set after the first use.
fn keys(house: &TestServer, round: usize, ended: &AtomicBool, used: &AtomicBool) -> Vec<[String; 2]> {
    let mut keys = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let own = Images(tempdir().unwrap(), house.server.url.clone());
        if !tobari(&["infer", "keygen", "-o", &own.path("key"), "--server", &own.1]).status.success() {
            break;
        }
        let question = std::fs::read(own.encrypt(&draw(3, &STYLES[round]))).unwrap();
        if !tobari(&own.run().iter().map(String::as_str).collect::<Vec<_>>()).status.success() {
            break;
        }
        keys.push([&question[2..34], &question[34..66]].map(hex));
        used.store(true, Ordering::Relaxed);
    }
    keys
}

/// Registers keys for searches, of one client after another.
fn registrations(house: &TestServer, seed: u64, ended: &AtomicBool) -> Vec<[String; 2]> {
    let (mut rng, mut registered) = (ChaCha20Rng::seed_from_u64(seed), Vec::new());
    let set = program::sets().next().unwrap();
    while !ended.load(Ordering::Relaxed) {
        let identity = Identity::generate(&mut rng);
        let (name, (_, key)) = (hex(&identity.name()), identity.key(&set, 1).unwrap());
        let request = post(&format!("/search/v1/keys/{}", set.name), &format!("Tobari-Client: {name}\r\n"), &key);
        match raw(&house.server.address(), &request) {
            (204, _) => registered.push([name, Fingerprint::of(&key).to_string()]),
            _ => break,
        }
        thread::sleep(Duration::from_millis(5));
    }
    registered
}

/// The status of an invalid query by this client under this key.
fn known(house: &TestServer, table: &[u8], [name, key]: &[String; 2]) -> u16 {
    let id: Vec<u8> = (0..16).map(|i| u8::from_str_radix(&name[2 * i..2 * i + 2], 16).unwrap()).collect();
    let query = [&[1, 0x21][..], table, &id, &[0, 1, 5, 1, 0, 0, 0, 1, 0, 1], &[0; 60]].concat();
    let headers = format!("Tobari-Client: {name}\r\nTobari-Key: {key}\r\n");
    raw(&house.server.address(), &post("/search/v1/queries", &headers, &query)).0
}

impl<'a> Acknowledged<'a> {
    /// Collects acknowledgements until the server is killed after this delay.
    fn until_killed(
        &mut self,
        (house, askers): (&TestServer, &Askers),
        (round, seed, delay): (usize, u64, Duration),
        [sent, removed]: [&mut Iter<'a, Vec<u8>>; 2],
    ) {
        let (ended, used, pid) = (AtomicBool::new(false), AtomicBool::new(false), house.server.pid());
        thread::scope(|scope| {
            let (ended, used) = (&ended, &used);
            let keys = scope.spawn(|| keys(house, round, ended, used));
            let registered = scope.spawn(|| registrations(house, seed, ended));
            let ordered = scope.spawn(|| askers.order(house, round, ended));
            let left = scope.spawn(|| askers.search(house, ended));
            let removal = scope.spawn(move || {
                let batch = removed.next().unwrap();
                let came = askers.send(house, batch) == Some([3, 0]);
                thread::sleep(delay * round as u32 / ROUNDS as u32);
                came && askers.remove(house, 1) == Some(3)
            });
            let taken = scope.spawn(move || {
                sent.take_while(|batch| askers.send(house, batch).is_some()).map(Vec::as_slice).collect::<Vec<_>>()
            });
            thread::sleep(delay);
            // on a busy machine, every round may have been too short for a key
            let last = Instant::now();
            while round + 1 == ROUNDS && self.keys.is_empty() && !used.load(Ordering::Relaxed) {
                assert!(last.elapsed() < Duration::from_secs(60), "no key is used within a minute");
                thread::sleep(Duration::from_millis(20));
            }
            ended.store(true, Ordering::Relaxed);
            // requests in flight are cut off
            assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
            self.taken.extend(taken.join().unwrap());
            self.removed = removal.join().unwrap();
            self.removals += usize::from(self.removed);
            self.keys.extend(keys.join().unwrap());
            self.registered.extend(registered.join().unwrap());
            let [asked, forgotten] = ordered.join().unwrap();
            self.asked.extend(asked);
            self.forgotten.extend(forgotten);
            self.left = left.join().unwrap().or(self.left);
        });
    }

    /// Checks that everything is as it was acknowledged.
    fn is_there(&self, house: &TestServer, askers: &Askers) {
        // frames before a device's window are late by now, whether the server has them or not
        for batch in self.taken.iter().rev().take(16) {
            assert_eq!(askers.send(house, batch), Some([0, 3]), "frames that were taken");
        }
        assert!(!self.removed || askers.remove(house, 1) == Some(0), "frames that were removed are there again");
        for [model, hash] in &self.keys {
            let known = ask(&house.server.address(), "GET", &format!("/infer/v1/models/{model}/keys/{hash}"), b"");
            assert_eq!(known.unwrap().0, 204, "keys that were taken");
        }
        let tables = told(house, "/search/v1");
        let table = tables["tables"][0]["name"].as_str().unwrap();
        let table: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&table[2 * i..2 * i + 2], 16).unwrap()).collect();
        for registered in &self.registered {
            assert_eq!(known(house, &table, registered), 422, "keys that were registered");
        }
        assert_eq!(known(house, &table, &["07".repeat(16), "07".repeat(32)]), 409, "keys that were not");
        for (questions, status) in [(&self.asked, 200), (&self.forgotten, 404)] {
            for question in questions {
                let told = ask(&house.server.address(), "GET", &format!("{question}/windows"), b"").unwrap().0;
                assert_eq!(told, status, "{question}");
            }
        }
        assert!(left(house, &askers.name).unwrap() <= self.left.unwrap_or(u64::MAX), "what was spent stays spent");
    }
}

/// `TOBARI_SEED` repeats the timing of an earlier run.
#[test]
fn what_was_acknowledged_is_there_after_kills_under_load() {
    let _alone = alone();
    let given = std::env::var("TOBARI_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| getrandom::u64().unwrap());
    println!("TOBARI_SEED={seed}");
    let mut house = TestServer::open("info");
    let askers = Askers::new(&house);
    let all = left(&house, &askers.name).unwrap();
    let (frames, removed) = (askers.batches(0, 200), askers.batches(1, ROUNDS));
    let (mut sent, mut removed) = (frames.iter(), removed.iter());
    let mut acknowledged = Acknowledged::default();
    for (round, delay) in noise(seed, ROUNDS).into_iter().enumerate() {
        let delay = Duration::from_millis(400 + u64::from(delay.unsigned_abs()) % 900);
        let moment = (round, seed.wrapping_add(round as u64), delay);
        acknowledged.until_killed((&house, &askers), moment, [&mut sent, &mut removed]);
        house.kill_and_start();
        acknowledged.is_there(&house, &askers);
    }
    let Acknowledged { taken, keys, registered, asked, forgotten, removals, left, .. } = &acknowledged;
    let counts = [taken.len() / 10, keys.len(), registered.len() / 10, asked.len(), forgotten.len(), *removals];
    assert!(counts.iter().all(|count| *count > 0) && left.is_some_and(|left| left < all), "{counts:?} {left:?}");
    assert!(!house.log().contains("panicked"), "{}", house.log());
}
