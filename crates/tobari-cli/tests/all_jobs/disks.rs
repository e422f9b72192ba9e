//! A disk that is full for a while, under the search and under inference.

use super::limits::{ATTACKER, Registration, asks};
use super::*;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use tobari_host::testing::not_run;

/// A server on a small file system of its own, which ends with it.
const ON_A_SMALL_DISK: &str = "mount -t tmpfs -o size=64m none \"$2\" || exit 77
    exec \"$1\" serve --addr 127.0.0.1:0 --json --search \"$3\" --infer digits --data \"$2/data\" --audit \"$2/audit\"";

struct SmallDisk {
    child: Child,
    address: String,
    /// The file system, as it is seen from outside its name space.
    seen: PathBuf,
}

impl SmallDisk {
    /// None where the system makes no such file system.
    fn start(mount: &str, table: &str) -> Option<Self> {
        std::fs::create_dir(mount).unwrap();
        let mut unshared = Command::new("unshare");
        unshared.args(["--user", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]);
        unshared.args([env!("CARGO_BIN_EXE_tobari"), mount, table]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = unshared.stderr(Stdio::null()).spawn().ok()?;
        let mut line = String::new();
        if BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap() == 0 {
            assert_eq!(child.wait().unwrap().code(), Some(77), "the server starts");
            return None;
        }
        let told: Value = serde_json::from_str(&line).unwrap();
        let address = support::address(told["listening"].as_str().unwrap()).to_owned();
        let seen = format!("/proc/{}/root{mount}", child.id()).into();
        Some(Self { child, address, seen })
    }

    /// Takes all room that there is: in which file.
    fn fill(&self) -> PathBuf {
        let path = self.seen.join("filler");
        let mut filler = std::fs::File::create(&path).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
        path
    }

    /// The state of a job by `/readyz`, and the status.
    fn job(&self, job: &str) -> (u16, Value) {
        let (status, body) = ask(&self.address, "GET", "/readyz", b"").unwrap();
        let told: Value = serde_json::from_slice(&body).unwrap_or_else(|_| serde_json::json!({ "jobs": {} }));
        (status, told["jobs"][job].clone())
    }

    fn becomes_ready(&self) {
        let began = Instant::now();
        while ask(&self.address, "GET", "/readyz", b"").unwrap() != (200, b"ready\n".to_vec()) {
            assert!(began.elapsed() < Duration::from_secs(20), "there is room and the server is not ready");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[test]
fn fault_25_keys_and_questions_are_refused_while_the_disk_is_full_and_kept_when_it_is_not() {
    const NAME: &str = "fault_25_keys_and_questions_are_refused_while_the_disk_is_full_and_kept_when_it_is_not";
    let (place, folder) = (Tables::new(), tempdir().unwrap());
    let (table, queries) = (place.variants("panel", SITES, '|'), place.write("queries", &questions(5, 3)));
    let other = Server::start(&["--search", &table]);
    let (key, _) = Registration::of(&other, &queries);
    other.stop();
    let mount = folder.path().join("mount").to_str().unwrap().to_owned();
    let Some(disk) = SmallDisk::start(&mount, &table) else {
        return not_run(NAME, "this system makes no file system for whoever asks");
    };
    let url = format!("http://{}", disk.address);
    assert_eq!(key.send(ATTACKER, &disk.address, 1).0, 204);
    asks(&place, ATTACKER, &disk.address, &queries);
    disk.becomes_ready();

    let filler = disk.fill();
    for round in 0..3 {
        // a key that comes while the disk is full is refused each time: it is never taken for one that is kept
        let (status, word, text) = key.send(ATTACKER, &disk.address, 2);
        assert_eq!((status, word.as_str()), (507, "storage"), "{round}: {text}");
        assert!(text.contains("storage is full") && text.contains("not acknowledged"), "{round}: {text}");
        let (status, search) = disk.job("search");
        assert_eq!((status, &search["state"], &search["reason"]), (503, &"failing".into(), &"storage is full".into()));
        assert_eq!(ask(&disk.address, "GET", "/healthz", b"").unwrap().0, 200, "it lives");
        thread::sleep(Duration::from_millis(700));
    }
    let asked = place.query(&url, &["--queries", &queries]);
    assert!(!asked.status.success() && stderr(&asked).contains("storage is full"), "{}", stderr(&asked));
    // inference: the keys that it cannot keep are refused, and it says so
    let (images, image) = (Images::new(&url), draw(4, &STYLES[2]));
    images.encrypt(&image);
    let words = images.run();
    let classified = || tobari(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = classified();
    assert!(!refused.status.success() && stderr(&refused).contains("storage is full"), "{}", stderr(&refused));
    assert_eq!(disk.job("infer").1["state"], "failing");

    // there is room: the server finds out by itself
    std::fs::remove_file(filler).unwrap();
    disk.becomes_ready();
    assert_eq!(key.send(ATTACKER, &disk.address, 2).0, 204);
    asks(&place, ATTACKER, &disk.address, &queries);
    let answered = classified();
    assert!(answered.status.success(), "{}", stderr(&answered));
    assert_eq!(images.label(), plain_label(&image));

    // all that was acknowledged is on the disk, and each line of the audit log is whole
    let audit = std::fs::read_to_string(disk.seen.join("audit")).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["outcome"] == "registered"));
    let data = folder.path().join("copy");
    let copied = Command::new("cp").args(["-a", disk.seen.join("data").to_str().unwrap()]).arg(&data).status();
    assert!(copied.unwrap().success());
    drop(disk);
    for number in [1, 2] {
        assert!(data.join(format!("{number:032x}/search.key")).is_file(), "the key of client {number}");
    }
    let again = Server::start(&["--search", &table, "--infer", "digits", "--data", data.to_str().unwrap()]);
    asks(&place, ATTACKER, &again.address(), &queries);
}
