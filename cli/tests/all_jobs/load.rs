//! All jobs at once, with hostile clients among the honest ones.

use super::*;
use std::sync::OnceLock;
use support::exact_samples;
use support::rude::{Post, Rude, Target};
use support::tap::{Heard, Tap};

/// The limit on the server's memory. It took 263 MB at most, with 3,500 to 5,300 connections.
const MEMORY_KB: usize = 768 << 10;
/// How many more threads and descriptors there may be than before. Two fleets were added. Threads
/// for blocking work end after ten idle seconds, and the server's own rounds keep about ten.
const SPARE: [usize; 2] = [24, 9];

/// Honest clients of each job.
const CLIENTS: usize = 2;

/// The work of honest clients at each of two servers.
const JOBS: [&[fn(&Guest<'_>)]; 2] = [&[searches, images, enclaves, readings, mixes, calls], &[evaluations]];
/// The hostile clients of each server.
const RUDE: [&[Rude]; 2] = [&rude::ALL, &rude::BRIEF];

/// A server of all jobs, and a second one whose tables have labels, because one server has either
/// labels or hidden places. With the clients that return again and again.
struct Load {
    house: TestServer,
    labels: Server,
    bad: [Target; 2],
    /// The line of every honest client, by server and job.
    taps: [Vec<[Tap; CLIENTS]>; 2],
    regulars: Regulars,
}

/// Clients that have a key or a fleet and return with it: two of each.
#[derive(Default)]
struct Regulars {
    seekers: [[OnceLock<Tables>; CLIENTS]; 2],
    images: [OnceLock<Images>; CLIENTS],
    fleets: [OnceLock<(Fleet, String)>; CLIENTS],
}

/// One of the honest clients of a job: its number, and the address of its server.
struct Guest<'a> {
    load: &'a Load,
    client: usize,
    url: &'a str,
}

impl Load {
    fn open(level: &str) -> Self {
        let house = TestServer::open(level);
        let args = ["--malicious", "--search", &house.panel, "--search", &house.keys, "--log", level];
        let labels = Server::logging_to(&house.folder.path().join("labels.log"), &[&args[..], &BUDGETS].concat());
        let bad = [target(&house), labelled(&house, &labels)];
        let tap =
            |target: &Target, jobs: &[_]| jobs.iter().map(|_| [0; CLIENTS].map(|_| Tap::to(&target.address))).collect();
        let taps = [0, 1].map(|server| tap(&bad[server], JOBS[server]));
        Self { house, labels, bad, taps, regulars: Regulars::default() }
    }

    /// Runs two honest clients of every job, and hostile clients until the honest ones have ended.
    /// Returns how many replies repeated what only their own client had sent.
    fn all_at_once(&self) -> usize {
        self.bad.iter().for_each(|target| target.done.store(false, Ordering::Relaxed));
        thread::scope(|scope| {
            let (mut honest, mut bad) = (Vec::new(), Vec::new());
            for server in [0, 1] {
                let target = &self.bad[server];
                bad.extend(RUDE[server].iter().map(|rude| {
                    scope.spawn(move || (0..).take_while(|_| !target.is_done()).for_each(|round| rude(target, round)))
                }));
                let jobs = JOBS[server].iter().zip(&self.taps[server]);
                let jobs =
                    jobs.flat_map(|(job, taps)| taps.iter().enumerate().map(move |(client, tap)| (job, client, tap)));
                honest.extend(
                    jobs.map(|(job, client, tap)| {
                        scope.spawn(move || job(&Guest { load: self, client, url: &tap.url }))
                    }),
                );
            }
            let honest: Vec<_> = honest.into_iter().map(|job| job.join().is_ok()).collect();
            self.bad.iter().for_each(|target| target.done.store(true, Ordering::Relaxed));
            let bad: Vec<_> = bad.into_iter().map(|bad| bad.join().is_ok()).collect();
            assert!(honest.iter().chain(&bad).all(|good| *good), "{honest:?} {bad:?}\n{}", self.logs());
        });
        self.nobody_is_told_of_another()
    }

    /// Checks that data of one client are in no reply to another. Returns how many clients received
    /// their own data.
    fn nobody_is_told_of_another(&self) -> usize {
        let heard: Vec<Heard> = self.taps.iter().flatten().flatten().map(Tap::take).collect();
        let sent: Vec<_> = heard.iter().map(Heard::sent).collect();
        let mut echoed = 0;
        for (one, own) in sent.iter().enumerate() {
            let others = sent.iter().enumerate().filter(|(other, _)| *other != one);
            let own = others.fold(own.clone(), |own, (_, other)| &own - other);
            for (other, heard) in heard.iter().enumerate() {
                let told = heard.told(&own);
                echoed += usize::from(other == one && !told.is_empty());
                assert!(other == one || told.is_empty(), "{other} was told of {one}: {told:?}");
            }
        }
        echoed
    }

    fn logs(&self) -> String {
        self.house.log() + &std::fs::read_to_string(self.house.folder.path().join("labels.log")).unwrap()
    }

    /// Connections of hostile clients.
    fn connections(&self) -> usize {
        self.bad.iter().map(|target| target.connections.load(Ordering::Relaxed)).sum()
    }
}

fn searches(guest: &Guest<'_>) {
    let Guest { load: Load { house, regulars, .. }, client, url } = guest;
    let own = regulars.seekers[0][*client].get_or_init(Tables::new);
    for round in 0..2 {
        let queries = own.write("queries", &questions(5 + 3 * client + round, 24));
        own.same(url, &house.panel, &queries, &["--table", "panel"], &[]);
        let asked: String = (0..12).map(|i| format!("entry {}\n", i * (client + 1) + round)).collect();
        own.same(url, &house.keys, &own.write("asked", &asked), &["--table", "keys"], &[]);
    }
    let queries: String = questions(5, 24).lines().skip(6 * client).take(12).map(|line| format!("{line}\n")).collect();
    own.same(url, &house.panel, &own.write("queries", &queries), &["--table", "panel", "--hidden"], &[]);
    own.same(url, &house.keys, &own.path("asked"), &["--table", "keys", "--hidden"], &[]);
}

/// Searches in tables with labels.
fn evaluations(guest: &Guest<'_>) {
    let Guest { load: Load { house, regulars, .. }, client, url } = guest;
    let own = regulars.seekers[1][*client].get_or_init(Tables::new);
    let queries = own.write("queries", &questions(7 + client, 12));
    own.same(url, &house.panel, &queries, &["--table", "panel", "--malicious"], &[]);
    let asked: String = (0..12).map(|i| format!("entry {}\n", i + client)).collect();
    own.same(url, &house.keys, &own.write("asked", &asked), &["--table", "keys", "--malicious"], &[]);
}

fn images(guest: &Guest<'_>) {
    classified(guest.load.regulars.images[guest.client].get_or_init(|| Images::new(guest.url)), guest.client);
}

fn classified(own: &Images, client: usize) {
    (0..4).for_each(|round| own.same(&draw(((5 * client + 3 * round) % 10) as u8, &STYLES[(client + round) % 6])));
}

fn enclaves(guest: &Guest<'_>) {
    let own = Images(tempdir().unwrap(), guest.url.to_owned());
    (0..4).for_each(|round| own.same_in_an_enclave(&draw((4 * guest.client + round) as u8, &STYLES[round])));
}

fn readings(guest: &Guest<'_>) {
    let (place, name) = guest.load.regulars.fleets[guest.client].get_or_init(|| fleet(guest.url));
    let of = |device: usize, i: usize| (device * 31 + i * i * 7 + guest.client * 50) % 256;
    send(support::address(guest.url), name, &frames(place, of));
    let told = released(guest.url, place);
    let sum: usize = (0..3).flat_map(|device| (0..32).map(move |i| of(device, i))).sum();
    let mean = told["groups"][0]["figures"][0]["value"].as_f64().unwrap();
    assert!((mean - sum as f64 / 96.0).abs() < 1e-9, "{told}");
}

fn mixes(guest: &Guest<'_>) {
    let folder = tempdir().unwrap();
    for (round, mode) in ["elgamal", "elgamal-shared", "elgamal"].into_iter().enumerate() {
        let voices = [0, 1].map(|voice| noise((guest.client * 10 + round * 2 + voice) as u64, 640));
        let [one, two] = [0, 1].map(|voice| record(folder.path(), &format!("{voice}.wav"), &voices[voice]));
        let output = folder.path().join("mix.wav");
        let [one, two, mix] = [&one, &two, &output].map(|path| path.to_str().unwrap());
        good(&["call", "mix", "--exact", "--mode", mode, "-o", mix, "--server", guest.url, one, two]);
        let sum: Vec<i32> = voices[0].iter().zip(&voices[1]).map(|(a, b)| i32::from(*a) + i32::from(*b)).collect();
        assert!(exact_samples(&output) == sum, "not the plain sum");
    }
}

/// Two rooms with a voice each: a voice is heard in its own room, and not in the other.
fn calls(guest: &Guest<'_>) {
    // soft, so that the limiter changes nothing
    let [own, other] = [guest.client, 1 - guest.client]
        .map(|client| noise(31 + client as u64, 40_000).iter().map(|sample| sample / 4).collect::<Vec<i16>>());
    let (_, heard) = talk(guest.url, &own);
    // on a busy machine some ticks are lost, but not all
    assert!(parts(&own, &heard) > 0 && parts(&other, &heard) == 0, "{} {}", parts(&own, &heard), parts(&other, &heard));
}

/// How many parts of a speech are heard exactly as spoken.
fn parts(spoken: &[i16], heard: &[i16]) -> usize {
    spoken.chunks_exact(400).filter(|part| heard.windows(200).any(|window| window == &part[..200])).count()
}

/// Valid requests for the routes of all jobs, recorded from an honest client.
pub(super) fn target(house: &TestServer) -> Target {
    let tap = Tap::to(&house.server.address());
    let (seeker, own) = (Tables::new(), Images::new(&tap.url));
    own.same(&draw(7, &STYLES[0]));
    own.same_in_an_enclave(&draw(7, &STYLES[0]));
    let queries = seeker.write("queries", &questions(5, 6));
    seeker.same(&tap.url, &house.panel, &queries, &["--table", "panel"], &[]);
    seeker.same(&tap.url, &house.panel, &queries, &["--table", "panel", "--hidden"], &[]);
    let (place, fleet) = fleet(&tap.url);
    send(support::address(&tap.url), &fleet, &frames(&place, |device, i| device + i));
    let mut posts = posts(&tap.take());
    // a report makes a session: sessions for nobody would keep honest clients out of the enclave,
    // and valid keys would take the room of other clients' keys
    posts.retain(|post| !post.path.ends_with("/report"));
    posts.iter_mut().filter(|post| post.path.starts_with("/infer") && post.path.ends_with("/keys")).for_each(|post| {
        post.body.pop();
    });
    let client = posts.iter().find(|post| post.path.starts_with("/search/")).unwrap().headers.clone();
    let question = format!("/sense/v1/fleets/{fleet}/questions/{}", "07".repeat(8));
    posts.extend([
        Post { path: "/search/v1/evaluations".to_owned(), headers: client, body: rude::bytes(4, 600) },
        Post { path: format!("{question}/windows/0"), headers: String::new(), body: vec![0; 9] },
    ]);
    let kinds: Vec<_> = posts.iter().map(kind).collect();
    assert_eq!(kinds.len(), if cfg!(target_os = "linux") { 14 } else { 12 }, "{kinds:?}");
    Target::new(house.server.address(), posts, routes(house, &fleet))
}

/// The same for a server whose tables have labels.
fn labelled(house: &TestServer, labels: &Server) -> Target {
    let (tap, seeker) = (Tap::to(&labels.address()), Tables::new());
    let queries = seeker.write("queries", &questions(5, 6));
    seeker.same(&tap.url, &house.panel, &queries, &["--table", "panel", "--malicious"], &[]);
    let routes = ["", "/keys/search", "/evaluations", "/queries", "/hidden/queries"];
    let posts = posts(&tap.take());
    assert_eq!(posts.len(), 3, "a key, evaluations, queries");
    Target::new(labels.address(), posts, routes.map(|rest| format!("/search/v1{rest}")).to_vec())
}

/// The posts of a client, one of each kind.
pub(super) fn posts(heard: &Heard) -> Vec<Post> {
    let posts = heard.requests().into_iter().filter(|(method, post)| method == "POST" && !post.body.is_empty());
    let kinds: std::collections::BTreeMap<_, _> = posts.map(|(_, post)| (kind(&post), post)).collect();
    kinds.into_values().collect()
}

/// A path without its names.
fn kind(post: &Post) -> String {
    post.path.split('/').map(|word| if word.len() < 16 { word } else { "*" }).collect::<Vec<_>>().join("/")
}

/// A number from a process's status in `/proc`.
pub(super) fn status(pid: u32, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn threads_and_descriptors(pid: u32) -> [usize; 2] {
    [status(pid, "Threads"), std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()]
}

/// Waits until there are no more threads and descriptors than before, apart from [`SPARE`].
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
    let mut load = Load::open("info");
    let (pid, linux) = (load.house.server.pid(), cfg!(target_os = "linux"));
    let before = if linux { threads_and_descriptors(pid) } else { [0; 2] };
    let deaf: Vec<TcpStream> = (0..12).filter_map(|_| rude::deaf(&load.bad[0])).collect();
    let echoed = load.all_at_once();
    assert!(echoed > 3, "clients hear of themselves, as of the key that was taken: {echoed}");
    assert!(load.connections() > 100);
    // clients that do not read are still connected
    if linux {
        wait_until_settled(pid, before);
    }
    drop(deaf);
    for server in [&load.house.server, &load.labels] {
        assert_eq!(get(&server.address(), "/healthz"), "ok");
    }
    classified(&Images::new(&load.house.server.url), 2);
    assert!(
        load.house.server.is_alive() && load.labels.is_alive() && !load.logs().contains("panicked"),
        "{}",
        load.logs()
    );
    for pid in [pid, load.labels.pid()].iter().filter(|_| linux) {
        let (most, now) = (status(*pid, "VmHWM"), status(*pid, "VmRSS"));
        assert!(most < MEMORY_KB, "{most} kB at most, {now} kB now");
    }
}

/// `cargo xtask soak all-jobs` runs this for `TOBARI_SOAK_MINUTES` minutes.
#[test]
#[ignore = "takes minutes: cargo xtask soak all-jobs"]
fn a_server_of_all_jobs_grows_by_a_tenth_at_most_while_the_same_clients_and_bad_ones_come_in_round_after_round() {
    let minutes = std::env::var("TOBARI_SOAK_MINUTES").ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(1_u64);
    let mut load = Load::open("warn");
    let pid = load.house.server.pid();
    let before = threads_and_descriptors(pid);
    let (began, mut sizes) = (Instant::now(), Vec::new());
    // enough rounds to tell growth from chance
    while sizes.len() < 8 || began.elapsed() < Duration::from_secs(60 * minutes) {
        load.all_at_once();
        wait_until_settled(pid, before);
        let ([threads, files], size) = (threads_and_descriptors(pid), status(pid, "VmRSS"));
        sizes.push(size);
        println!("round {}: {size} kB, {threads} threads, {files} descriptors", sizes.len());
    }
    assert!(load.house.server.is_alive() && !load.logs().contains("panicked"), "{}", load.logs());
    // the first rounds bring lasting data: keys, fleets, and the threads' own memory
    let quarter = sizes.len() / 4;
    let middle = |sizes: &[usize]| {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes[sizes.len() / 2] as f64
    };
    let (earlier, last) = (middle(&sizes[quarter..2 * quarter]), middle(&sizes[3 * quarter..]));
    let connections = load.connections();
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
