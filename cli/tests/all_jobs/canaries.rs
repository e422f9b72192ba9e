//! Secrets must not leak: keys, questions, images, readings and voices are neither in the server's
//! memory, files, log and replies nor in the messages of programs. The content of a folder is not
//! in its sealed copy.

use super::*;
use std::collections::HashSet;
use support::tables::{files, post, raw};
use support::{keep_what_is_said, said, tobari};

/// Numbers in every encoding in which a program could have left them.
fn forms(numbers: &[i32]) -> Vec<Vec<u8>> {
    let text = |between: &str| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(between).into_bytes();
    vec![
        numbers.iter().map(|number| *number as u8).collect(),
        numbers.iter().flat_map(|number| (*number as i16).to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| i64::from(*number).to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| f64::from(*number).to_le_bytes()).collect(),
        numbers.iter().flat_map(|number| (f64::from(*number) / 256.0).to_le_bytes()).collect(),
        text(","),
        text(", "),
        text("\n"),
    ]
}

/// A secret as bytes and as text.
fn secret(bytes: &[u8]) -> Vec<Vec<u8>> {
    let hex = hex(bytes);
    vec![bytes.to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes(), format!("{bytes:?}").into_bytes()]
}

fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    // comparing the first byte first is quick
    bytes.windows(needle.len()).any(|window| window[0] == needle[0] && window == needle)
}

/// Byte strings that must not be found outside of their owner's files.
#[derive(Default)]
struct Canaries {
    /// Keys, questions, images, readings and voices.
    secrets: Vec<Vec<u8>>,
    /// Names that owners give to things.
    names: Vec<Vec<u8>>,
}

impl Canaries {
    fn all(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.secrets.iter().chain(&self.names)
    }

    fn search(&mut self, house: &TestServer) {
        let seeker = Tables::new();
        let asked = seeker.write("asked", "canary of a question 58131\nentry 3\n");
        for how in [&["--table", "keys"][..], &["--table", "keys", "--hidden"]] {
            seeker.same(&house.server.url, &house.keys, &asked, how, &[]);
        }
        seeker.query(&house.server.url, &["--queries", &asked, "--table", "no such table"]);
        self.secrets.extend(secret(&std::fs::read(seeker.path("key")).unwrap()[4..]));
        self.secrets.push(b"canary of a question".to_vec());
    }

    fn infer(&mut self, house: &TestServer) {
        let (own, mut image) = (Images::new(&house.server.url), draw(2, &STYLES[1]));
        let ink: Vec<u8> = (0..28_u32).map(|i| (37 + i * i * 5 % 199) as u8).collect();
        image[28..56].copy_from_slice(&ink);
        own.same(&image);
        own.same_in_an_enclave(&image);
        let (key, other) = (own.path("key"), Images::new(&house.server.url));
        tobari(&["infer", "decrypt", &own.path("answer"), "--key", &other.path("key")]);
        tobari(&["infer", "encrypt", &own.path("image"), "--index", "1", "--key", &key, "-o", &own.path("none")]);
        self.secrets.extend(secret(&std::fs::read(key).unwrap()[4..36]));
        self.secrets.extend(forms(&ink.iter().map(|pixel| i32::from(*pixel)).collect::<Vec<_>>()));
    }

    /// Sends readings of devices; returns the name of the fleet and the frames.
    fn sense(&mut self, house: &TestServer) -> (String, Vec<u8>) {
        let (place, name) = fleet(&house.server.url);
        let of = |device: usize, i: usize| (device * 83 + i * i * 29 + 17) % 256;
        let sent = frames(&place, of);
        send(&house.server.address(), &name, &sent);
        released(&house.server.url, &place);
        self.secrets
            .extend((0..3).flat_map(|device| forms(&(0..16).map(|i| of(device, i) as i32).collect::<Vec<_>>())));
        self.secrets.extend(secret(&std::fs::read(place.path("holder/holder.key")).unwrap()[5..]));
        self.names.push(b"canary-of-a".to_vec());
        (name, sent)
    }

    fn call(&mut self, house: &TestServer) {
        let speech = noise(29, 40_000);
        let (link, _) = talk(&house.server.url, &speech);
        self.secrets.push(link.split_once('#').unwrap().1.as_bytes().to_vec());
        let samples: Vec<i32> = speech[6_000..6_010].iter().map(|sample| i32::from(*sample)).collect();
        self.secrets.extend_from_slice(&forms(&samples)[1..]);
    }

    /// Searches for canaries in the server's replies at every path, to plain requests and to
    /// rejected requests that contain a canary.
    fn are_told_nowhere(&self, house: &TestServer, fleet: &str) {
        let address = house.server.address();
        let planted = "canary-of-a-refused-request";
        let mut told = Vec::new();
        for path in routes(house, fleet) {
            told.push((path.clone(), ask(&address, "GET", &path, b"").unwrap().1));
            // a reply may repeat the sender's own path; the log must not
            let at = format!("{path}/canary-in-a-path?{planted}");
            let headers = ["Tobari-Client", "Tobari-Key", "Authorization", "Cookie", "If-Match", "Tobari-Passing"];
            let headers: String = headers.map(|name| format!("{name}: {planted}\r\n")).concat();
            for path in [&at, &path] {
                for headers in [&headers, &format!("Tobari-Client: {}\r\n{headers}", "07".repeat(16))] {
                    let (status, reply) = raw(&address, &post(path, headers, planted.as_bytes()));
                    assert!(status >= 300 || path.ends_with("/frames"), "{path}: {reply}");
                    told.push((path.clone(), reply.into_bytes()));
                }
            }
        }
        let metrics = |(path, told): &(String, Vec<u8>)| path.ends_with("/metrics") && holds(told, b"tobari_");
        assert!(told.iter().filter(|told| metrics(told)).count() == 2, "figures of calls and of sensors are searched");
        for (path, told) in &told {
            for canary in self.all() {
                assert!(!holds(told, canary), "{path}: {}", String::from_utf8_lossy(canary));
            }
        }
    }
}

#[test]
fn no_canary_of_any_job_is_in_the_servers_memory_files_or_log() {
    keep_what_is_said();
    let mut house = TestServer::open("debug");
    if cfg!(target_os = "linux") {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", house.server.pid())).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().nth(4), Some("0"), "a crash leaves no file of the memory");
    }
    let mut canaries = Canaries::default();
    canaries.search(&house);
    canaries.infer(&house);
    let (fleet, sent) = canaries.sense(&house);
    canaries.call(&house);
    if cfg!(target_os = "linux") {
        let needles: Vec<&[u8]> = canaries.all().map(Vec::as_slice).collect();
        let found = support::memory::found_in_memory(&house.server, &needles);
        assert_eq!(found, [] as [usize; 0], "canaries in the memory of the server");
    }
    // after the search of memory: a plaintext that a client sends stays there for a while
    canaries.are_told_nowhere(&house, &fleet);
    house.server.kill();
    let kept: Vec<Vec<u8>> = files(house.folder.path()).iter().map(|path| std::fs::read(path).unwrap()).collect();
    let kept = |needle: &[u8]| kept.iter().any(|bytes| holds(bytes, needle));
    assert!(kept(b"keys were sent") && kept(&sent[100..160]), "the log and the frames are searched");
    for canary in canaries.all().chain([&b"canary-in-a-path".to_vec()]) {
        assert!(!kept(canary), "{}", String::from_utf8_lossy(canary));
    }
    // programs may print the names to their owners, so only secrets are searched for
    let said = said();
    assert!(holds(&said, b"expected an answer for the key"), "errors of clients are searched");
    for canary in &canaries.secrets {
        assert!(!holds(&said, canary), "{}", String::from_utf8_lossy(canary));
    }
}

/// Creates a folder with canaries in contents and in names.
fn folder(root: &Path) {
    std::fs::create_dir_all(root.join("canary-of-a-folder")).unwrap();
    std::fs::write(root.join("canary-of-a-folder/canary-of-a-text"), "canary of a text 58131\n".repeat(9_000)).unwrap();
    std::fs::write(root.join("canary-of-a-short-text"), "canary of a short text").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("canary-of-a-target", root.join("link")).unwrap();
}

#[test]
#[cfg(linux_64)]
fn no_canary_of_a_folder_is_in_its_sealed_one_or_in_what_is_said_of_it() {
    let place = tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    folder(&place.path().join("source"));
    std::fs::write(at("phrase"), "canary of a phrase 58131\n").unwrap();
    std::fs::write(at("wrong"), [7; 32]).unwrap();
    std::fs::write(at("short"), "canary of a key that is too long or short").unwrap();
    let mut told = Vec::new();
    let mut run = |words: &[&str], status: i32| {
        let done = tobari(&[words, &["--log", "debug"]].concat());
        assert_eq!(done.status.code(), Some(status), "{words:?}: {}", stderr(&done));
        told.extend([done.stdout, done.stderr].concat());
    };
    let mut secrets = vec![b"canary of a".to_vec()];
    for mode in ["gcm", "cbc"] {
        let (set, key, out) = (at(&format!("sealed/{mode}")), at(&format!("{mode}.key")), at(&format!("{mode}.out")));
        std::fs::create_dir_all(at("sealed")).unwrap();
        let sealing = ["seal", &at("source"), "-o", &set, "--mode", mode, "--module", "emulated", "--policy", "module"];
        run(&[&sealing[..], &["--new-key", &key, "--passphrase-file", &at("phrase")]].concat(), 0);
        run(&["seal", "verify", &set, "--key-file", &key], 0);
        run(&["seal", "verify", &set, "--key-file", &at("wrong")], 1);
        run(&["seal", "verify", &set, "--key-file", &at("short")], 1);
        run(&["unseal", &set, "-o", &out, "--passphrase-file", &at("phrase")], 0);
        run(&["unseal", &set, "-o", &at("none"), "--passphrase-file", &at("short")], 1);
        secrets.extend(secret(&std::fs::read(&key).unwrap()));
        assert!(std::fs::read(format!("{out}/canary-of-a-short-text")).unwrap() == b"canary of a short text");
    }
    let sealed = files(&place.path().join("sealed"));
    // damaged files: error messages must contain nothing of the remaining content
    for path in &sealed {
        let mut bytes = std::fs::read(path).unwrap();
        let whole: HashSet<&[u8]> = bytes.chunks_exact(16).collect();
        assert_eq!(whole.len(), bytes.len() / 16, "{}: the same block twice", path.display());
        for canary in secrets.iter().chain([&b"canary-of-a".to_vec()]) {
            let name = path.strip_prefix(place.path()).unwrap().to_str().unwrap().as_bytes();
            assert!(!holds(&bytes, canary) && !holds(name, canary), "{}", path.display());
        }
        assert!(!path.file_name().unwrap().to_string_lossy().contains("tobari-part"), "{}", path.display());
        if !path.ends_with("set.seal") {
            let at = bytes.len() - 20;
            bytes[at] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert!(sealed.len() >= 8, "{sealed:?}");
    for mode in ["gcm", "cbc"] {
        let (set, key) = (at(&format!("sealed/{mode}")), at(&format!("{mode}.key")));
        run(&["seal", "verify", &set, "--key-file", &key], 1);
        run(&["unseal", &set, "-o", &at(&format!("{mode}.rest")), "--key-file", &key, "--salvage"], 1);
    }
    assert!(told.len() > 1_000, "something is said");
    for canary in &secrets {
        assert!(!holds(&told, canary), "{}", String::from_utf8_lossy(canary));
    }
}
