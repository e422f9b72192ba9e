//! Every reading counts once: through lost replies, errors in a file, crashes of the device at any
//! moment, restarts of the server, and two runs at once. Each test compares the sums that the key
//! holder decrypts with the sums of the readings.

use crate::support::fleet::{Place, ask, bad, get, good};
use crate::support::{Server, stderr, tobari};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const SCHEMA: &str = "profile = \"u25\"\n[[channel]]\nname = \"x\"\n";
const QUESTION: &str = "name = \"q\"\nleast-devices = 1\nframes = 1000\npart = 254\nwindow = { length = \"1s\" }\n\
    [[statistic]]\nkind = \"count\"\n[[statistic]]\nkind = \"sum\"\nchannel = \"x\"\n";

/// A fleet of one device, a question, and a server that knows both.
struct World {
    place: Place,
    server: Option<Server>,
}

impl World {
    fn new() -> Self {
        let place = Place::new();
        place.fleet(SCHEMA, &["a"]);
        good(&["sense", "query", &place.path("holder"), &place.write("question.toml", QUESTION)]);
        let mut world = Self { place, server: None };
        world.start();
        world.keyholder();
        world
    }

    fn start(&mut self) {
        self.server = None;
        self.server = Some(Server::start(&["--sense", &self.place.path("server")]));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn keyholder(&self) -> String {
        let holder = self.place.path("holder");
        good(&["sense", "keyholder", &holder, "--server", &self.server().url, "--once", "--json"])
    }

    /// The number and sum of all readings, as the key holder releases them over all windows.
    fn totals(&self) -> (u64, u64) {
        std::thread::sleep(Duration::from_millis(1_100));
        self.keyholder();
        let folder = self.place.path("holder/releases");
        let (mut count, mut sum) = (0, 0);
        for question in std::fs::read_dir(folder).unwrap() {
            let files = std::fs::read_dir(question.unwrap().path()).unwrap().map(|file| file.unwrap().path());
            // windows in which no device of the question has frames leave another kind of file
            for file in files.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
                let release: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
                let figures = &release["groups"][0]["figures"];
                count += figures[0]["value"].as_u64().unwrap();
                sum += figures[1]["exact"].as_str().unwrap().parse::<u64>().unwrap();
            }
        }
        (count, sum)
    }

    fn stored(&self) -> u64 {
        let metrics = get(&self.server().address(), "/sense/v1/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix("tobari_sense_frames_stored "));
        line.unwrap().parse().unwrap()
    }

    fn words(&self, url: &str) -> Vec<String> {
        self.place.encrypt("a", "readings.csv", &["--server", url])
    }

    fn spawned(&self, words: &[String]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_tobari"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn send(&self) -> String {
        let (device, card) = (self.place.path("devices/a.device"), self.place.path("holder/fleet.json"));
        good(&["sense", "send", "--device", &device, "--fleet", &card, "--server", &self.server().url, "--json"])
    }
}

fn each(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// A line of readings, their number and their sum.
fn numbers(range: std::ops::Range<u64>) -> (String, (u64, u64)) {
    let of = |i: u64| i * 7 % 251;
    (range.clone().map(|i| format!("{}\n", of(i))).collect(), (range.end - range.start, range.map(of).sum()))
}

/// A request as it came, whole.
fn request(stream: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut some).unwrap();
        bytes.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        if bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4 + length.parse::<usize>().unwrap()
            == bytes.len()
        {
            return bytes;
        }
    }
}

/// Stands before a server. It passes a request on after the first message through `go`, and tells
/// the request's body once the server has answered. The reply is lost.
fn deaf(server: &Server) -> (String, Sender<()>, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, to) = (format!("http://{}", listener.local_addr().unwrap()), server.address());
    let ((go, went), (told, heard)) = (channel(), channel());
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let mut near = near.unwrap();
            let bytes = request(&mut near);
            if went.recv().is_err() {
                return;
            }
            let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            let path = String::from_utf8_lossy(&bytes).split(' ').nth(1).unwrap().to_owned();
            let reply = ask(&to, "POST", &path, &bytes[at..]).unwrap();
            assert_eq!(reply.0, 200);
            told.send(bytes[at..].to_vec()).unwrap();
            let _ = near.shutdown(Shutdown::Both);
        }
    });
    (url, go, heard)
}

#[test]
fn a_lost_reply_a_kill_and_a_restart_of_the_server_double_no_reading() {
    let mut world = World::new();
    let (text, mut all) = numbers(0..300);
    world.place.write("readings.csv", &text);
    let (url, go, heard) = deaf(world.server());
    // the reply is lost: the server has 256 frames, and the device knows of none
    go.send(()).unwrap();
    let output = tobari(&each(&world.words(&url)));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("300 frames wait in"), "{}", stderr(&output));
    let first = heard.recv().unwrap();
    assert_eq!((first.len(), world.stored()), (256 * 840, 256));
    // the same command again, killed before it hears the reply: the same bytes
    let mut child = world.spawned(&world.words(&url));
    go.send(()).unwrap();
    assert!(heard.recv().unwrap() == first, "sent again byte for byte");
    child.kill().unwrap();
    child.wait().unwrap();
    // and to a server that was started again
    world.start();
    let told = tobari(&each(&world.words(&world.server().url)));
    let said = stderr(&told);
    assert!(told.status.success() && said.contains("encrypted before") && said.contains("took 300"), "{said}");
    assert_eq!(world.stored(), 300);
    // once more, by mistake; then the next readings, after which the first file is still known
    let again = tobari(&each(&world.words(&world.server().url)));
    assert!(stderr(&again).contains("nothing is encrypted twice"), "{}", stderr(&again));
    let (text, more) = numbers(300..310);
    std::fs::copy(world.place.path("readings.csv"), world.place.path("first.csv")).unwrap();
    let changed = std::fs::metadata(world.place.path("readings.csv")).unwrap().modified().unwrap();
    world.place.write("readings.csv", &text);
    good(&each(&world.words(&world.server().url)));
    let file = std::fs::File::options().write(true).open(world.place.path("first.csv")).unwrap();
    file.set_modified(changed).unwrap();
    let told = world.place.seal("a", "first.csv", &["--server", &world.server().url, "--json"]);
    assert!(told.contains("\"encrypted_before\":true"), "{told}");
    // a copy with another time, and a wish, are new readings
    world.place.write("first.csv", "5\n");
    world.place.seal("a", "first.csv", &["--server", &world.server().url]);
    world.place.seal("a", "first.csv", &["--server", &world.server().url, "--again"]);
    all = (all.0 + more.0 + 2, all.1 + more.1 + 10);
    assert_eq!(world.totals(), all);
    let metrics = get(&world.server().address(), "/sense/v1/metrics");
    for verdict in ["replayed", "late", "forged", "malformed"] {
        assert!(metrics.contains(&format!("{{verdict=\"{verdict}\"}} 0\n")), "{metrics}");
    }
}

#[test]
fn an_error_near_the_end_of_a_file_or_a_short_pipe_sends_nothing() {
    let world = World::new();
    let (text, all) = numbers(0..300);
    let wrong = text.lines().enumerate().map(|(i, line)| if i == 289 { "21,5\n" } else { line }.to_owned() + "\n");
    let wrong: String = wrong.collect::<String>().replace("\n\n", "\n");
    world.place.write("readings.csv", &wrong);
    let words = world.words(&world.server().url);
    bad(&each(&words), 1, "line 290: ");
    assert_eq!(world.stored(), 0);
    // the same through a pipe, and as a redirected file
    let mut piped = words.clone();
    piped[2] = "-".to_owned();
    let mut child = world.spawned(&piped);
    child.stdin.take().unwrap().write_all(wrong.as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let redirected = |path: &str| {
        let file = std::fs::File::open(path).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        command.args(&piped).stdin(file).output().unwrap()
    };
    let output = redirected(&world.place.path("readings.csv"));
    assert_eq!((output.status.code(), world.stored()), (Some(1), 0), "{}", stderr(&output));
    // mended, all of them count, once
    world.place.write("readings.csv", &text);
    good(&each(&words));
    let output = redirected(&world.place.path("readings.csv"));
    assert!(stderr(&output).contains("encrypted before"), "the same file: {}", stderr(&output));
    assert_eq!(world.totals(), all);
}

#[test]
fn frames_that_cannot_be_sent_wait_for_the_next_run_and_a_second_run_at_once_is_refused() {
    let mut world = World::new();
    let address = world.server().address();
    let url = format!("http://{address}");
    // the device is killed between sealing and sending: the listener never reads
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", silent.local_addr().unwrap());
    let (text, first) = numbers(0..20);
    world.place.write("readings.csv", &text);
    let mut child = world.spawned(&world.words(&nowhere));
    let _taken = silent.accept().unwrap();
    bad(&each(&world.words(&url)), 1, "no other process sends for");
    bad(&each(&world.place.encrypt("a", "readings.csv", &["-o", "-"])), 1, "no other process sends for");
    child.kill().unwrap();
    child.wait().unwrap();
    // the server is away: the next readings wait behind the first
    drop(silent);
    let (text, second) = numbers(20..50);
    world.place.write("readings.csv", &text);
    bad(&each(&world.words(&nowhere)), 1, "50 frames wait in");
    let sent = world.send();
    assert!(sent.contains("\"frames\":50") && sent.contains("\"taken\":50"), "{sent}");
    assert!(world.send().contains("\"frames\":0"));
    // a device that the server does not know yet: nothing is lost
    let holder = world.place.path("holder");
    good(&["sense", "provision", &holder, "b", "-o", &world.place.path("devices")]);
    world.place.write("other.csv", "1\n2\n");
    let other = world.place.encrypt("b", "other.csv", &["--server", &url]);
    bad(&each(&other), 1, "refused 2 as forged: start the key holder");
    world.keyholder();
    good(&each(&other));
    assert_eq!(world.stored(), 52);
    // frames under an old key are kept apart, and do not stand in the way
    world.place.write("other.csv", "3\n");
    let other = world.place.encrypt("b", "other.csv", &["--server", &nowhere]);
    bad(&each(&other), 1, "1 frames wait in");
    good(&["sense", "provision", &holder, "b", "--revoke"]);
    world.keyholder();
    let other = world.place.encrypt("b", "other.csv", &["--server", &url]);
    bad(&each(&other), 1, "refused 1 as revoked. These frames are in");
    let kept = world.place.path("devices/b.device.outbox/refused-0000000000-0000000000.frames");
    assert_eq!(std::fs::metadata(kept).unwrap().len(), 840);
    assert_eq!(world.totals(), (first.0 + second.0, first.1 + second.1));
    world.server = None;
}

#[test]
fn readings_of_a_pipe_are_sent_after_a_pause_and_an_error_names_what_counts() {
    let world = World::new();
    let mut words = world.place.encrypt("a", "-", &["--server", &world.server().url, "--flush-every", "1"]);
    words[2] = "-".to_owned();
    let spawn = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        let child = command.args(&words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        child.unwrap()
    };
    let wait = |frames: u64| {
        for _ in 0..100 {
            if world.stored() == frames {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("expected {frames} frames, found {}", world.stored());
    };
    let mut child = spawn();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(b"1\n2\n4\n").unwrap();
    // the pipe stays open
    wait(3);
    pipe.write_all(b"8\n").unwrap();
    wait(4);
    pipe.write_all(b"16\n32\nwarm\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("line 7: ") && said.contains("up to line 6 are encrypted and count"), "{said}");
    assert_eq!(world.stored(), 6);
    // a signal ends it, and what was read counts
    #[cfg(unix)]
    {
        let mut child = spawn();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(b"64\n").unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        assert!(child.wait().unwrap().success());
        drop(pipe);
        assert_eq!(world.totals(), (7, 127));
    }
}
