//! Inference, each part a process of its own: an image is encrypted, classified by a server without a key, and opened; every label is that of the model in the clear.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod support;

use serde_json::Value;
use std::path::Path;
use support::tables::{files, post, raw};
use support::{Server, stderr, tobari};
use tempfile::{TempDir, tempdir};
use tobari_apps::infer::Model;
use tobari_apps::infer::digits::{STYLES, draw};

/// A folder of one's own.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Drawn digits as a file of images, and their labels by the model in integers.
    fn drawn(&self, count: usize) -> (String, Vec<usize>) {
        let fixed = Model::digits().unwrap().fixed().unwrap();
        let images: Vec<Vec<u8>> = (0..count).map(|i| draw((i % 10) as u8, &STYLES[i / 10 % 6])).collect();
        let head = [[0, 0, 8, 3], (count as u32).to_be_bytes(), 28u32.to_be_bytes(), 28u32.to_be_bytes()].concat();
        let path = self.path("drawn.idx");
        std::fs::write(&path, [head, images.concat()].concat()).unwrap();
        (path, images.iter().map(|image| fixed.classify(image).unwrap()).collect())
    }

    fn keygen(&self, name: &str, server: &str) -> String {
        good(&["infer", "keygen", "-o", &self.path(name), "--server", server]);
        self.path(name)
    }

    fn encrypt(&self, images: &str, index: usize, key: &str) -> String {
        let output = self.path("question");
        good(&["infer", "encrypt", images, "--index", &index.to_string(), "--key", key, "-o", &output]);
        output
    }

    /// The label by a server, to which the key's keys are known or not.
    fn label(&self, question: &str, key: &str, server: &str, sends: bool) -> Value {
        let answer = self.path("answer");
        let mut words = vec!["infer", "run", question, "-o", &answer, "--server", server];
        if sends {
            words.extend(["--key", key]);
        }
        good(&words);
        serde_json::from_str(&good(&["infer", "decrypt", &answer, "--key", key, "--json"])).unwrap()
    }
}

fn good(words: &[&str]) -> String {
    let output = tobari(words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What is said of a refusal.
fn refused(words: &[&str]) -> String {
    let output = tobari(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    stderr(&output)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_label_is_the_plain_models_and_a_new_start_knows_the_keys() {
    let place = Place::new();
    let (images, labels) = place.drawn(10);
    let data = place.path("data");
    let serve = || Server::start(&["--infer", "digits", "--data", &data]);
    let server = serve();
    let key = place.keygen("key", &server.url);
    // without the key file there is nothing to make keys from, and it is said
    let question = place.encrypt(&images, 0, &key);
    let answer = place.path("answer");
    let said = refused(&["infer", "run", &question, "-o", &answer, "--server", &server.url]);
    assert!(said.contains("expected --key to make and send them"), "{said}");
    for (index, label) in labels.iter().enumerate() {
        let question = place.encrypt(&images, index, &key);
        let told = place.label(&question, &key, &server.url, index == 0);
        assert_eq!(told, serde_json::json!({ "label": label }), "image {index}");
    }
    server.stop();
    let server = serve();
    let told = place.label(&place.encrypt(&images, 3, &key), &key, &server.url, false);
    assert_eq!(told["label"], labels[3], "a new start knows the keys");
    let two = tobari(&["serve", "--addr", "127.0.0.1:0", "--infer", "digits", "--data", &data]);
    assert!(stderr(&two).contains("no other server"), "{}", stderr(&two));
    server.stop();
    let kept = files(Path::new(&data)).into_iter().find(|path| path.extension().is_some_and(|e| e == "keys")).unwrap();
    let mut bytes = std::fs::read(&kept).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&kept, bytes).unwrap();
    let damaged = tobari(&["serve", "--addr", "127.0.0.1:0", "--infer", "digits", "--data", &data]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(stderr(&damaged).contains("damaged keys"), "{}", stderr(&damaged));
}

#[test]
fn a_run_without_a_server_gives_the_same_and_as_much_is_told_as_is_asked() {
    let place = Place::new();
    let (images, labels) = place.drawn(2);
    let key = place.path("key");
    good(&["infer", "keygen", "-o", &key, "--layout", "balanced"]);
    let (question, answer) = (place.encrypt(&images, 1, &key), place.path("answer"));
    good(&["infer", "run", &question, "-o", &answer, "--key", &key, "--layout", "balanced"]);
    let told = |how: &str| -> Value {
        serde_json::from_str(&good(&["infer", "decrypt", &answer, "--key", &key, "--json", "--output", how])).unwrap()
    };
    assert_eq!(told("label"), serde_json::json!({ "label": labels[1] }));
    assert_eq!(told("top:3")["labels"].as_array().unwrap().len(), 3);
    let (rounded, exact) = (told("rounded:2")["logits"].clone(), told("logits")["logits"].clone());
    let plain = Model::digits().unwrap().forward(&draw(1, &STYLES[0])).unwrap();
    for (class, plain) in plain.iter().enumerate() {
        assert!((exact[class].as_f64().unwrap() - plain).abs() < 0.25, "{class}");
        assert_eq!((rounded[class].as_f64().unwrap() * 4.0).fract(), 0.0);
    }
    assert_eq!(tobari(&["infer", "decrypt", &answer, "--key", &key, "--output", "top"]).status.code(), Some(2));
    let simulated: Value =
        serde_json::from_str(&good(&["infer", "simulate", &images, "--index", "1", "--json"])).unwrap();
    assert_eq!((&simulated["label"], &simulated["plain_label"]), (&labels[1].into(), &labels[1].into()));
    // the layer is named
    let said = refused(&["infer", "simulate", &images, "--index", "1", "--tolerance", "1e-12"]);
    assert!(said.contains("stage ") && said.contains("expected an error of at most"), "{said}");
    let said = refused(&["infer", "run", &question, "-o", &answer, "--key", &key, "--layout", "wide"]);
    assert!(said.contains("expected the layout and set that the key was made for"), "{said}");
    let said = refused(&["infer", "keygen", "-o", &key]);
    assert!(said.contains("a secret never replaces a file"), "{said}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn keys_beyond_the_quota_and_other_keys_models_and_bytes_are_refused_and_the_server_stays_up() {
    let place = Place::new();
    let (images, labels) = place.drawn(1);
    let server = Server::start(&["--infer", "digits"]);
    let list = raw(&server.address(), b"GET /infer/v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").1;
    let list: Value = serde_json::from_str(&list[list.find('{').unwrap()..]).unwrap();
    let memory = list["models"][0]["key_memory"].as_u64().unwrap();
    println!("{list}");
    server.stop();
    // room for one client, not for two
    let server = Server::start(&["--infer", "digits", "--infer-keys", &(memory + memory / 2).to_string()]);
    let (one, two) = (place.keygen("one", &server.url), place.keygen("two", &server.url));
    let question = place.encrypt(&images, 0, &one);
    assert_eq!(place.label(&question, &one, &server.url, true)["label"], labels[0]);
    let answer = place.path("answer");
    let said = refused(&["infer", "decrypt", &answer, "--key", &two]);
    assert!(said.contains("expected an answer for the key"), "{said}");
    let said = refused(&["infer", "run", &question, "-o", &answer, "--server", &server.url, "--key", &two]);
    assert!(said.contains("with which the image was encrypted"), "{said}");
    let other = place.encrypt(&images, 0, &two);
    let said = refused(&["infer", "run", &other, "-o", &answer, "--server", &server.url, "--key", &two]);
    assert!(said.contains("(507)") && said.contains("bytes of keys within the server's"), "{said}");

    let bytes = std::fs::read(place.path("question")).unwrap();
    let (digest, hash) = (hex(&bytes[2..34]), hex(&bytes[34..66]));
    let one_bytes = std::fs::read(&one).unwrap();
    assert_eq!(digest, hex(&one_bytes[36..68]));
    let answers = format!("/infer/v1/models/{digest}/answers");
    let known = format!("Tobari-Key: {}\r\n", hex(&one_bytes[68..100]));
    let good_body = &bytes[66..];
    let cut = &good_body[..good_body.len() - 1];
    let other_version = [&[2], &good_body[1..]].concat();
    let too_long = [good_body, &[0]].concat();
    for (request, status, word) in [
        (post(&answers, &format!("Tobari-Key: {hash}\r\n"), good_body), 404, "key"),
        (post(&answers, "", good_body), 404, "key"),
        (post(&answers, &known, cut), 422, "message"),
        (post(&answers, &known, b""), 422, "message"),
        (post(&answers, &known, &other_version), 422, "message"),
        (post(&answers, &known, &too_long), 413, "size"),
        (post(&answers, &known, &vec![0x55; good_body.len()]), 422, "message"),
        (post(&format!("/infer/v1/models/{}/answers", "ab".repeat(32)), &known, good_body), 404, "model"),
        (post("/infer/v1/models/zz/keys", "", b"x"), 404, "model"),
        (post(&format!("/infer/v1/models/{digest}/keys"), "", b"no keys"), 507, "quota"),
        (b"DELETE /infer/v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(), 405, ""),
    ] {
        let (found, text) = raw(&server.address(), &request);
        assert_eq!(found, status, "{text}");
        assert!(word.is_empty() || text.contains(&format!("tobari-refusal: {word}\r\n")), "{text}");
    }
    let question = place.encrypt(&images, 0, &one);
    assert_eq!(place.label(&question, &one, &server.url, false)["label"], labels[0], "it is still up");
}

#[test]
fn malformed_keys_take_no_room_and_a_token_is_asked_for() {
    let place = Place::new();
    let token: Value = serde_json::from_str(&good(&["search", "token", "alice", "--json"])).unwrap();
    std::fs::write(place.path("tokens"), token["line"].as_str().unwrap()).unwrap();
    let server = Server::start(&["--infer", "one=digits", "--tokens", &place.path("tokens")]);
    let said = refused(&["infer", "keygen", "-o", &place.path("key"), "--server", &server.url]);
    assert!(said.contains("(401)"), "{said}");
    let token = token["token"].as_str().unwrap();
    good(&["infer", "keygen", "-o", &place.path("key"), "--server", &server.url, "--token", token, "--model", "one"]);
    let said = refused(&[
        "infer",
        "keygen",
        "-o",
        &place.path("k"),
        "--server",
        &server.url,
        "--token",
        token,
        "--model",
        "two",
    ]);
    assert!(said.contains("expected one model that --model names, among: one"), "{said}");
    let digest = hex(&std::fs::read(place.path("key")).unwrap()[36..68]);
    for body in [&b"no keys"[..], &[1, 0x30], &[0x55; 5_000]] {
        let request =
            post(&format!("/infer/v1/models/{digest}/keys"), &format!("Authorization: Bearer {token}\r\n"), body);
        let (status, text) = raw(&server.address(), &request);
        assert_eq!(status, 422, "{text}");
    }
    let log = server.stop();
    assert!(log.contains("bytes=0"), "what was reserved goes back: {log}");
    let open = tobari(&["serve", "--addr", "0.0.0.0:0", "--infer", "digits"]);
    assert!(stderr(&open).contains("expected a file of tokens"), "{}", stderr(&open));
    assert_eq!(tobari(&["serve", "--addr", "127.0.0.1:0", "--data", "x"]).status.code(), Some(2));
}

#[test]
fn no_secret_and_no_pixel_is_in_the_servers_memory_log_or_files() {
    let place = Place::new();
    let (images, labels) = place.drawn(8);
    let data = place.path("data");
    let server = Server::start(&["--infer", "digits", "--data", &data, "--log", "debug"]);
    let key = place.keygen("key", &server.url);
    let question = place.encrypt(&images, 7, &key);
    assert_eq!(place.label(&question, &key, &server.url, true)["label"], labels[7]);
    let secret = std::fs::read(&key).unwrap()[4..36].to_vec();
    let image = draw(7, &STYLES[0]);
    let ink = image.windows(48).find(|window| window.iter().filter(|pixel| **pixel > 0).count() > 12).unwrap();
    let doubles: Vec<u8> = ink.iter().flat_map(|pixel| (f64::from(*pixel) / 256.0).to_le_bytes()).collect();
    let canaries =
        [secret.clone(), hex(&secret).into_bytes(), format!("{secret:?}").into_bytes(), ink.to_vec(), doubles];
    #[cfg(target_os = "linux")]
    {
        let mut needles: Vec<&[u8]> = canaries.iter().map(Vec::as_slice).collect();
        let present = server.address().into_bytes();
        needles.push(&present);
        let search = tobari_host::process::process_memory_contains(server.pid(), &needles).unwrap();
        assert_eq!(search.found, [needles.len() - 1], "only what must be there, of {} bytes", search.searched_bytes);
    }
    let log = server.stop();
    assert!(log.contains("keys were sent"), "{log}");
    let mut kept = vec![log.into_bytes()];
    kept.extend(files(Path::new(&data)).iter().map(|path| std::fs::read(path).unwrap()));
    assert!(kept.len() >= 3, "log, lock, keys");
    for canary in &canaries {
        assert!(!kept.iter().any(|bytes| bytes.windows(canary.len()).any(|window| window == canary)));
    }
}

#[test]
fn images_of_mnist_have_their_plain_labels() {
    let Some(data) = std::env::var_os("TOBARI_DATA") else { return println!("NOT RUN: TOBARI_DATA is not set") };
    let images = Path::new(&data).join("mnist").join("t10k-images-idx3-ubyte.gz");
    let Ok(all) = tobari_host::images::read_idx_images(&images) else {
        return println!("NOT RUN: no folder mnist in TOBARI_DATA");
    };
    let fixed = Model::digits().unwrap().fixed().unwrap();
    let (place, server) = (Place::new(), Server::start(&["--infer", "digits"]));
    let key = place.keygen("key", &server.url);
    for (index, image) in all.iter().take(50).enumerate() {
        let question = place.encrypt(images.to_str().unwrap(), index, &key);
        let told = place.label(&question, &key, &server.url, index == 0);
        assert_eq!(told["label"], fixed.classify(image).unwrap(), "image {index}");
    }
}
