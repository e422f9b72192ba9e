//! A disk that is temporarily full, under search and under inference.

use super::limits::{ATTACKER, Registration, asks};
use super::*;
use support::disk::SmallDisk;
use tobari_host::testing::not_run;

/// A shell script: a server on a small file system of its own, which disappears with the server.
const ON_A_SMALL_DISK: &str = "mount -t tmpfs -o size=64m none \"$2\" || exit 77
    exec \"$1\" serve --addr 127.0.0.1:0 --json --search \"$3\" --infer digits --data \"$2/data\" --audit \"$2/audit\"";

/// The HTTP status of `/readyz`, and the state of a job in its reply.
fn job(address: &str, job: &str) -> (u16, Value) {
    let (status, body) = ask(address, "GET", "/readyz", b"").unwrap();
    let told: Value = serde_json::from_slice(&body).unwrap();
    (status, told["jobs"][job].clone())
}

fn becomes_ready(address: &str) {
    let began = Instant::now();
    while ask(address, "GET", "/readyz", b"").unwrap() != (200, b"ready\n".to_vec()) {
        assert!(began.elapsed() < Duration::from_secs(20), "there is room and the server is not ready");
        thread::sleep(Duration::from_millis(100));
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
    let Some(disk) = SmallDisk::start(ON_A_SMALL_DISK, &mount, &[&table]) else {
        return not_run(NAME, "this system makes no file system for whoever asks");
    };
    let (url, address) = (disk.url.clone(), disk.address().to_owned());
    assert_eq!(key.send(ATTACKER, &address, 1).0, 204);
    asks(&place, ATTACKER, &address, &queries);
    becomes_ready(&address);

    let filler = disk.fill();
    for round in 0..3 {
        // a key that arrives while the disk is full is rejected each time: the server never
        // mistakes it for a stored key
        let (status, word, text) = key.send(ATTACKER, &address, 2);
        assert_eq!((status, word.as_str()), (507, "storage"), "{round}: {text}");
        assert!(text.contains("storage is full") && text.contains("not acknowledged"), "{round}: {text}");
        let (status, search) = job(&address, "search");
        assert_eq!((status, &search["state"], &search["reason"]), (503, &"failing".into(), &"storage is full".into()));
        assert_eq!(ask(&address, "GET", "/healthz", b"").unwrap().0, 200, "it lives");
        thread::sleep(Duration::from_millis(700));
    }
    let asked = place.query(&url, &["--queries", &queries]);
    assert!(!asked.status.success() && stderr(&asked).contains("storage is full"), "{}", stderr(&asked));
    // inference: keys that cannot be stored are rejected, with the reason
    let (images, image) = (Images::new(&url), draw(4, &STYLES[2]));
    images.encrypt(&image);
    let words = images.run();
    let classified = || tobari(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = classified();
    assert!(!refused.status.success() && stderr(&refused).contains("storage is full"), "{}", stderr(&refused));
    assert_eq!(job(&address, "infer").1["state"], "failing");

    // there is space again: the server recovers by itself
    std::fs::remove_file(filler).unwrap();
    becomes_ready(&address);
    assert_eq!(key.send(ATTACKER, &address, 2).0, 204);
    asks(&place, ATTACKER, &address, &queries);
    let answered = classified();
    assert!(answered.status.success(), "{}", stderr(&answered));
    assert_eq!(images.label(), plain_label(&image));

    // all acknowledged data are on the disk, and each line of the audit log is complete
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
