//! Inference with an enclave over the network: a server, a client that verifies the server, and an
//! attacker between them.

use crate::enclave_world::{Between, Client, Place, Way, refused, said, send};
use crate::support::{Server, stderr, tobari};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{Combination, EnclaveAnswer};
use tobari_infer_files::images::Picture;
use tobari_infer_files::onnx::{Pixels, read_graph};

fn serve(arguments: &[&str]) -> Server {
    Server::start(&[&["--infer", "digits", "--infer-enclave"], arguments].concat())
}

#[test]
fn every_combination_gives_the_plain_label_and_says_what_was_verified() {
    let place = Place::new();
    let labels = place.labels(&[3, 14]);
    let own: Value = serde_json::from_str(said(&["info", "--json"]).lines().next().unwrap()).unwrap();
    for combination in Combination::ALL {
        let name = combination.name();
        let server = serve(&[name]);
        let announced = server.announced["simulated_enclaves"][0].clone();
        assert_eq!((&announced["evidence"], &announced["combination"]), (&"simulated".into(), &name.into()));
        let words = ["--index", "3,14", "--combination", name, "--json"];
        let lines = place.ask(&server.url, &words);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["label"].as_u64().unwrap() as usize).collect::<Vec<_>>(), labels);
        let verified = &lines[1]["verified"];
        let set = if combination == Combination::MixedMaskedReset { "infer-r" } else { "infer-f" };
        for (what, expected) in [
            ("evidence", "simulated"),
            ("combination", name),
            ("set", set),
            ("tells", "label"),
            ("measurement", announced["measurement"].as_str().unwrap()),
            ("executable", own["executable"].as_str().unwrap()),
        ] {
            assert_eq!(verified[what], expected, "{name}: {what}");
        }
        // a client can learn the expected measurement in advance
        let told = said(&["infer", "enclave", "--server", &server.url, "--json"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["expected"][0]["measurement"], verified["measurement"], "{name}");
        assert_eq!(told["configuration"], verified["configuration"], "{name}");
        let log = server.stop();
        assert!(log.contains("warning: the enclave is SIMULATED"), "{log}");
    }
}

#[test]
fn what_the_planner_takes_is_what_is_served_and_says_what_binds() {
    let place = Place::new();
    let label = place.labels(&[3])[0].to_string();
    let auto = ["auto", "--enclave-costs", "recorded"];
    let cases: [(&[&str], &str, Option<&str>); 4] = [
        // no other combination that a server offers is faster
        (&[], "enclave-plain", None),
        (&["--plain-in-enclave", "no"], "enclave-user-data", Some("user data need not be protected")),
        (
            &["--protect", "data,integrity", "--side-channels"],
            "enclave-user-data",
            Some("user data need not be protected"),
        ),
        (
            &["--protect", "data,model,integrity", "--side-channels"],
            "enclave-both",
            Some("side channels of the enclave are out of scope"),
        ),
    ];
    for (words, name, binds) in cases {
        let server = serve(&[&auto, words].concat());
        let placement = &server.announced["placement"];
        assert_eq!((&placement["combination"], &placement["costs"]), (&name.into(), &"recorded".into()), "{words:?}");
        assert_eq!(server.announced["simulated_enclaves"][0]["combination"], name);
        assert_eq!(placement["binds"]["gives_up"].as_str(), binds, "{words:?}");
        let told = place.ask(&server.url, &["--index", "3", "--combination", name]);
        assert_eq!(told.trim(), label, "{name}");
    }
    // the text for people says so, too
    let words = ["serve", "--addr", "127.0.0.1:0", "--until-stdin-closes", "--infer", "digits", "--infer-enclave"];
    let text = said(&[&words[..], &auto, &["--side-channels"]].concat());
    let line = text.lines().find(|line| line.starts_with("placed by recorded costs: enclave-user-data, ")).unwrap();
    assert!(line.ends_with(" ms an image"), "{line}");
    assert!(text.contains("protected: user data; side channels of the enclave: in scope"), "{text}");
    assert!(text.contains("what binds most: if "), "{text}");

    let called = |words: &[&str]| {
        let all = [&["serve", "--addr", "127.0.0.1:0", "--infer", "digits", "--until-stdin-closes"], words].concat();
        let output = tobari(&all);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        stderr(&output)
    };
    assert!(called(&["--infer-enclave", "enclave-plain", "--protect", "data"]).contains("need --infer-enclave auto"));
    assert!(called(&["--side-channels"]).contains("need --infer-enclave auto"));
    assert!(
        called(&["--infer-enclave", "auto", "--infer-set", "infer-s"])
            .contains("remove --infer-set and --infer-layout")
    );
    let other = place.path("other.tim");
    let model = tobari_infer::Model::digits().unwrap();
    let one = tobari_infer::Model::new(model.stages()[..1].to_vec(), 0).unwrap();
    std::fs::write(&other, one.encode()).unwrap();
    let told = called(&["--infer", &other, "--infer-enclave", "auto", "--enclave-costs", "recorded"]);
    assert!(told.contains("costs are known of no other") && told.contains("name a combination"), "{told}");
}

#[test]
fn nothing_is_sent_to_an_enclave_that_is_not_what_was_asked_for() {
    let place = Place::new();
    // one session: a client that rejects the evidence frees its place
    let server = serve(&["enclave-plain", "--tells", "top:3", "--enclave-sessions", "1"]);
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let between = Between::start(&server.address(), move |path, _, _| seen.lock().unwrap().push(path.to_owned()));
    let other = "ab".repeat(32);
    let cases: [(&[&str], &str); 6] = [
        (&["--tells", "top:3"], "simulated evidence, which anybody can make: --accept-simulated takes it"),
        (&["--accept-simulated"], "expected an enclave that tells at most label, found one that tells top:3"),
        (&["--accept-simulated", "--tells", "top:2"], "at most top:2, found one that tells top:3"),
        (&["--accept-simulated", "--tells", "rounded:9"], "at most rounded:9, found one that tells top:3"),
        (
            &["--accept-simulated", "--tells", "top:3", "--executable", &other],
            "expected the measurement of an allowed executable",
        ),
        (
            &["--accept-simulated", "--tells", "top:3", "--combination", "process-both"],
            "expected an enclave in the combination process-both, found enclave-plain",
        ),
    ];
    for (words, why) in cases {
        let text =
            refused(&[&["infer", "ask", &place.images, "--index", "0", "--server", &between.url], words].concat());
        assert!(text.contains(why), "{words:?}: {text}");
    }
    let wrong = ["infer", "ask", &place.images, "--index", "0", "--server", &between.url, "--model", &other];
    assert!(refused(&wrong).contains("expected one model that --model names"));
    {
        let paths = paths.lock().unwrap();
        assert!(paths.iter().any(|path| path.ends_with("/report")), "evidence was asked for: {paths:?}");
        let opened = |path: &&String| path.ends_with("/sessions") || path.ends_with("/images");
        assert_eq!(paths.iter().find(opened), None, "nothing was sent: {paths:?}");
    }
    let told: Value = serde_json::from_str(&place.ask(
        &between.url,
        &["--index", "7", "--tells", "top:3", "--executable", &other, "--executable", &own_digest(), "--json"],
    ))
    .unwrap();
    assert_eq!((&told["label"], told["labels"].as_array().unwrap().len()), (&place.labels(&[7])[0].into(), 3));
    assert_eq!(told["verified"]["executable"], own_digest());
    // the answer follows the server's policy, in its units
    let server = serve(&["enclave-plain", "--tells", "rounded:2"]);
    let told: Value =
        serde_json::from_str(&place.ask(&server.url, &["--index", "7", "--tells", "rounded:4", "--json"])).unwrap();
    let scores: Vec<f64> = told["scores"].as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).collect();
    let plain = tobari_infer::Model::digits().unwrap().forward(&draw(7, &STYLES[0])).unwrap();
    for (score, plain) in scores.iter().zip(&plain) {
        assert!((score - plain).abs() < 0.13 && (4.0 * score).fract() == 0.0, "{score} {plain}");
    }
}

fn own_digest() -> String {
    let line = said(&["info", "--json"]);
    let line: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    line["executable"].as_str().unwrap().to_owned()
}

#[test]
fn whoever_stands_in_between_can_break_a_session_and_nothing_else() {
    let place = Place::new();
    let server = serve(&["process-user-data", "--enclave-images", "5"]);
    let kept: Mutex<Option<Vec<u8>>> = Mutex::default();
    let flip = |body: &mut Vec<u8>, at: usize| {
        if let Some(byte) = body.get_mut(at) {
            *byte ^= 1;
        }
    };
    type Rule = Box<dyn Fn(&str, Way, &mut Vec<u8>) + Send + Sync>;
    let changed = |end: &'static str, way: Way, at: usize| -> Rule {
        Box::new(move |path, found, body| {
            if path.ends_with(end) && found == way {
                flip(body, at);
            }
        })
    };
    let ended = "the session has ended";
    let cases: [(Rule, &str); 11] = [
        (changed("/enclave", Way::Down, 0), "expected the offer of an enclave, version 1"),
        // in the configuration after route and parameters: the model, the plan, the setup
        (changed("/enclave", Way::Down, 80), "expected an enclave for the model"),
        (changed("/enclave", Way::Down, 110), "of the route that stands beside it"),
        (changed("/enclave", Way::Down, 180), "expected configuration"),
        // a configuration with another number of sessions is valid, but it is not the one in the
        // evidence
        (
            Box::new(|path, way, body| {
                if path.ends_with("/enclave") && way == Way::Down {
                    let mut offer = tobari_infer::guarded::Offer::decode(body).unwrap();
                    offer.configuration.max_sessions += 1;
                    *body = offer.encode();
                }
            }),
            "expected configuration",
        ),
        (changed("/report", Way::Down, 2), "expected a signature over measurement and report data"),
        (changed("/report", Way::Up, 0), "expected the nonce of this challenge"),
        (
            // replays the first evidence
            Box::new(move |path, way, body| {
                if path.ends_with("/report") && way == Way::Down {
                    let mut kept = kept.lock().unwrap();
                    body.clone_from(kept.get_or_insert_with(|| body.clone()));
                }
            }),
            "the evidence was made for another client, or earlier",
        ),
        (changed("/images", Way::Up, 100), ended),
        (changed("/images", Way::Down, 3), ended),
        (changed("/answers", Way::Down, 5), ended),
    ];
    for (number, (rule, why)) in cases.into_iter().enumerate() {
        let between = Between::start(&server.address(), rule);
        let words = ["infer", "ask", &place.images, "--index", "1", "--server", &between.url, "--accept-simulated"];
        if number == 7 {
            assert_eq!(said(&words).trim(), place.labels(&[1])[0].to_string(), "the first is its own");
        }
        let text = refused(&words);
        assert!(text.contains(why), "{number}: {text}");
    }
    assert_eq!(place.ask(&server.url, &["--index", "1"]).trim(), place.labels(&[1])[0].to_string(), "it still serves");
}

#[test]
fn sessions_beyond_the_cap_are_refused_and_the_others_go_on() {
    let place = Place::new();
    let server = serve(&["mixed-plain-reset", "--enclave-sessions", "1", "--enclave-images", "2"]);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut client = Client::open(&server, &mut rng).unwrap();
    let words = ["infer", "ask", &place.images, "--index", "0", "--server", &server.url, "--accept-simulated"];
    let text = refused(&words);
    assert!(text.contains("(503)") && text.contains("the enclave has as many sessions as it allows"), "{text}");
    for digit in [2, 6] {
        let pixels = draw(digit, &STYLES[0]);
        assert_eq!(client.classify(&pixels), Ok(EnclaveAnswer::Labels(place.labels(&[digit.into()]))), "it goes on");
    }
    // its images are used up, and its place is free
    assert_eq!(client.classify(&draw(1, &STYLES[0])).unwrap_err().0, 404);
    assert_eq!(said(&words).trim(), place.labels(&[0])[0].to_string());
    let text = refused(&[&words[..3], &["--index", "0,1,2"], &words[5..]].concat());
    assert!(text.contains("a session takes 2 images"), "{text}");
}

#[test]
fn an_enclave_that_is_killed_ends_its_sessions_and_the_next_client_is_served() {
    let place = Place::new();
    let server = serve(&["process-user-data"]);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (mut finds, mut other) = (Client::open(&server, &mut rng).unwrap(), Client::open(&server, &mut rng).unwrap());
    let pixels = draw(9, &STYLES[0]);
    let told = Ok(EnclaveAnswer::Labels(place.labels(&[9])));
    assert_eq!((finds.classify(&pixels), other.classify(&pixels)), (told.clone(), told.clone()));
    let process = server.announced["simulated_enclaves"][0]["process"].to_string();
    assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
    let (status, text) = finds.classify(&pixels).unwrap_err();
    assert_eq!(status, 503);
    assert!(text.contains("killed by signal 9") && text.contains("open another session"), "{text}");
    for client in [&mut finds, &mut other] {
        let (status, text) = client.classify(&pixels).unwrap_err();
        assert_eq!(status, 410);
        assert!(text.contains("its sessions are lost: open another session"), "{text}");
    }
    assert_eq!(place.ask(&server.url, &["--index", "9"]).trim(), place.labels(&[9])[0].to_string());
    let mut again = Client::open(&server, &mut rng).unwrap();
    assert_eq!(again.classify(&pixels), told);
    let log = server.stop();
    assert!(log.contains("an enclave has ended") && log.contains("an enclave was started anew"), "{log}");
}

#[test]
fn malformed_requests_are_refused_by_their_own_words() {
    let server = serve(&["process-user-data"]);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut good = Client::open(&server, &mut rng).unwrap();
    let base = good.path.clone();
    let unknown = format!("{base}/sessions/{}", "0".repeat(32));
    let no_model = format!("/infer/v1/models/{}/enclave", "0".repeat(64));
    for (method, path, body, status, word) in [
        ("POST", format!("{base}/report"), &[0; 31][..], 422, "message"),
        ("POST", format!("{base}/report"), &[0; 33], 413, "size"),
        ("POST", format!("{base}/sessions"), &[0; 47], 422, "message"),
        ("POST", format!("{base}/sessions"), &[0; 48], 404, "session"),
        ("POST", format!("{base}/sessions"), &[0; 100_000], 413, "size"),
        ("POST", format!("{unknown}/images"), &[0; 804], 404, "session"),
        ("POST", format!("{unknown}/images"), &[0; 805], 413, "size"),
        ("POST", format!("{unknown}/answers"), &[0; 20], 404, "session"),
        ("POST", format!("{base}/sessions/xyz/images"), &[0; 804], 404, "session"),
        ("DELETE", unknown.clone(), &[], 404, "session"),
        ("GET", no_model.clone(), &[], 404, "model"),
        ("POST", format!("{no_model}/report"), &[0; 32], 404, "model"),
        ("GET", format!("{base}/report"), &[], 405, ""),
    ] {
        let reply = send(&server.address(), method, &path, body);
        assert_eq!((reply.status, reply.word.as_str()), (status, word), "{method} {path}: {}", reply.text());
    }
    let pixels = draw(4, &STYLES[0]);
    assert_eq!(good.classify(&pixels), Ok(EnclaveAnswer::Labels(vec![4])), "it is still up");
    // a frame sent twice ends the session
    let frame = good.asker.image(&pixels).unwrap();
    assert_eq!(good.send("images", &frame).status, 200);
    assert_eq!(good.send("images", &frame).status, 409);
    assert_eq!(good.send("images", &frame).status, 404);

    let plain = Server::start(&["--infer", "digits"]);
    assert_eq!(send(&plain.address(), "GET", &base, &[]).word, "enclave");
    for wrong in [
        &["serve", "--infer-enclave", "enclave-plain"][..],
        &["serve", "--infer", "digits", "--infer-enclave", "enclave"],
        &["serve", "--infer", "digits", "--tells", "label"],
        &["serve", "--infer", "digits", "--infer-enclave", "enclave-plain", "--enclave-sessions", "0"],
        &["serve", "--infer", "digits", "--infer-enclave", "enclave-plain", "--tells", "top:0"],
        &["infer", "ask", "image.png"],
        &["infer", "ask", "--server", "http://127.0.0.1:1"],
        &["infer", "ask", "image.png", "--server", "http://127.0.0.1:1", "--executable", "abc"],
    ] {
        assert_ne!(tobari(wrong).status.code(), Some(0), "{wrong:?}");
    }
    for (tells, why) in [("scores", "exact ones of ciphertexts tell the key"), ("top:11", "as there are classes")] {
        let refused = tobari(&[
            "serve",
            "--addr",
            "127.0.0.1:0",
            "--infer",
            "digits",
            "--infer-enclave",
            "process-user-data",
            "--tells",
            tells,
        ]);
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}

#[test]
fn no_pixel_is_in_the_servers_memory_or_log_and_an_enclave_asks_for_tokens_as_the_rest_does() {
    let place = Place::new();
    let token: Value = serde_json::from_str(&said(&["search", "token", "alice", "--json"])).unwrap();
    let tokens = place.path("tokens");
    std::fs::write(&tokens, token["line"].as_str().unwrap()).unwrap();
    let server = serve(&["process-both", "--tokens", &tokens, "--log", "debug"]);
    let words = ["infer", "ask", &place.images, "--index", "7", "--server", &server.url, "--accept-simulated"];
    assert!(refused(&words).contains("(401)"));
    let label = said(&[&words[..], &["--token", token["token"].as_str().unwrap()]].concat());
    assert_eq!(label.trim(), place.labels(&[7])[0].to_string());
    let image = draw(7, &STYLES[0]);
    let ink = image.windows(48).find(|window| window.iter().filter(|pixel| **pixel > 0).count() > 12).unwrap();
    let doubles: Vec<u8> = ink.iter().flat_map(|pixel| (f64::from(*pixel) / 256.0).to_le_bytes()).collect();
    let shown = format!("{ink:?}");
    let canaries = [ink, &doubles, shown.as_bytes()];
    #[cfg(target_os = "linux")]
    assert_eq!(crate::support::memory::found_in_memory(&server, &canaries), [] as [usize; 0]);
    let log = server.stop().into_bytes();
    assert!(canaries.iter().all(|canary| !log.windows(canary.len()).any(|window| window == *canary)));
}

/// A colour picture of 16 x 16, and its numbers by channel. Pictures of odd seeds are dark.
fn picture(seed: u32) -> (Picture, Vec<u8>) {
    let dark = if seed.is_multiple_of(2) { 1 } else { 16 };
    let tone = |at: u32, channel: u32| ((at * at * (seed + 3) + at * 13 * channel + seed * 71) % 256 / dark) as u8;
    let pixel = |at: u32| [tone(at, 1), tone(at, 2), tone(at, 3), 255];
    let pixels: Vec<[u8; 4]> = (0..256).map(pixel).collect();
    let planes = (0..3).flat_map(|channel| pixels.iter().map(move |pixel| pixel[channel])).collect();
    (Picture { width: 16, height: 16, pixels }, planes)
}

/// The words of a question to the enclave of a server.
fn asked<'a>(url: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [&["infer", "ask", "--server", url, "--accept-simulated"], words].concat()
}

/// A network with ReLU, maximum pools and branches, the files of pictures, and their labels as ONNX
/// Runtime 1.32 says.
fn mixer(place: &Place) -> (String, Vec<String>, Vec<usize>) {
    let onnx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/infer/files/tests/corpus/mixer.onnx");
    let plain = read_graph(&onnx, &Pixels::default()).unwrap().graph;
    let (mut paths, mut labels) = (Vec::new(), Vec::new());
    for seed in 0..8 {
        let (picture, planes) = picture(seed);
        let logits = plain.forward(&planes).unwrap();
        labels.push((0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap());
        paths.push(place.path(&format!("{seed}.png")));
        std::fs::write(&paths[seed as usize], picture.encode_png("it").unwrap()).unwrap();
    }
    assert_eq!(labels, [0, 1, 2, 1, 2, 1, 0, 1], "as ONNX Runtime 1.32 says");
    (onnx.to_str().unwrap().to_owned(), paths, labels)
}

#[test]
fn a_network_of_any_depth_runs_in_the_enclave_in_the_clear_and_in_no_other_combination() {
    let place = Place::new();
    let (onnx, paths, labels) = mixer(&place);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    // the approximations are far off, which the enclave does not run
    let model = place.path("net.tim");
    let compile = ["infer", "compile", &onnx, "-o", &model, "--approximate", "quadratic", "--margin"];
    said(&[&compile[..], &["1000", "--images"], &paths].concat());
    let server = Server::start(&["--infer", &model, "--infer-enclave", "enclave-plain"]);
    let url = server.url.clone();
    let told = said(&asked(&url, &[&["--combination", "enclave-plain", "--json"], &paths[..]].concat()));
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["label"].as_u64().unwrap() as usize).collect::<Vec<_>>(), labels);
    let verified = &lines[0]["verified"];
    let announced = &server.announced["simulated_enclaves"][0];
    assert_eq!(verified["measurement"], announced["measurement"]);
    // the digest pins the model, and another one is not asked
    let digest = verified["model"].as_str().unwrap();
    assert_eq!(said(&asked(&url, &["--model", digest, paths[3]])).trim(), labels[3].to_string());
    assert!(
        refused(&asked(&url, &["--model", &"ab".repeat(32), paths[3]]))
            .contains("expected one model that --model names")
    );
    assert!(refused(&asked(&url, &["--executable", &"ab".repeat(32), paths[3]])).contains("an allowed executable"));
    // a picture of another size does not leave the client
    let large = place.path("large.png");
    std::fs::write(&large, Picture::of_grey(9, &[7; 81]).encode_png("it").unwrap()).unwrap();
    assert!(refused(&asked(&url, &[&large])).contains("the model takes 16 x 16 pixels"));
    assert_eq!(said(&asked(&url, &[paths[5]])).trim(), labels[5].to_string(), "the others are served");
    let log = server.stop();
    assert!(log.contains("warning: the enclave is SIMULATED"), "{log}");

    for combination in Combination::ALL.map(Combination::name).into_iter().filter(|name| *name != "enclave-plain") {
        let words = ["serve", "--addr", "127.0.0.1:0", "--infer", &model, "--infer-enclave", combination];
        let why = refused(&words);
        assert!(why.contains(combination) && why.contains("with --infer-enclave enclave-plain"), "{why}");
        let remedy = match combination {
            "mixed-plain-reset" => "compile the network again with --engine enclave",
            _ => "or without --infer-enclave",
        };
        assert!(why.contains(remedy), "{why}");
    }
}

#[test]
fn a_network_for_an_enclave_is_served_with_its_maps_in_the_process_and_nowhere_else() {
    let place = Place::new();
    let (onnx, paths, labels) = mixer(&place);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let model = place.path("net.tim");
    let compile = ["infer", "compile", &onnx, "-o", &model, "--engine", "enclave", "--json", "--images"];
    let told: Value = serde_json::from_str(&said(&[&compile[..], &paths].concat())).unwrap();
    assert_eq!((&told["engine"], &told["levels"]), (&"enclave".into(), &2.into()), "{told}");
    assert!(told["visits"].as_u64().unwrap() > 2 && told["approximation_error"] == 0.0, "{told}");
    let words = [&["infer", "simulate", "--model", &model, "--json"], &paths[..]].concat();
    for (line, label) in said(&words).lines().zip(&labels) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["label"], &line["plain_label"]), (&(*label).into(), &(*label).into()));
    }
    // clients have no keys, and a server needs an enclave
    let why = refused(&["infer", "keygen", "-o", &place.path("key"), "--model", &model]);
    assert!(why.contains("an enclave computes a part of this network") && why.contains("tobari infer ask"), "{why}");
    let why = refused(&["serve", "--addr", "127.0.0.1:0", "--infer", &model]);
    assert!(why.contains("serve it with --infer-enclave mixed-plain-reset"), "{why}");
    let served = ["serve", "--addr", "127.0.0.1:0", "--infer", &model, "--infer-enclave", "mixed-plain-reset"];
    let why = refused(&[&served[..], &["--infer-set", "infer-f"]].concat());
    assert!(why.contains("leave --infer-set out"), "{why}");
    let output = tobari(&["infer", "compile", &onnx, "-o", &model, "--engine", "enclave", "--set", "infer-f"]);
    let why = stderr(&output);
    assert!(output.status.code() == Some(2) && why.contains("leave --layout and --set out"), "{why}");

    let server = Server::start(&["--infer", &model, "--infer-enclave", "mixed-plain-reset"]);
    let told = said(&asked(&server.url, &[&["--json"], &paths[..]].concat()));
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["label"].as_u64().unwrap() as usize).collect::<Vec<_>>(), labels);
    assert_eq!(lines[0]["verified"]["combination"], "mixed-plain-reset");
    let why = refused(&["infer", "keygen", "-o", &place.path("key"), "--server", &server.url]);
    assert!(why.contains("an enclave alone answers questions about this model"), "{why}");
    assert_eq!(said(&asked(&server.url, &[paths[5]])).trim(), labels[5].to_string(), "the others are served");
    let log = server.stop();
    assert!(log.contains("warning: the enclave is SIMULATED"), "{log}");
}

#[test]
fn a_plan_of_a_network_has_every_engine_and_takes_the_fastest_that_is_allowed() {
    let place = Place::new();
    let (onnx, folder) = (place.path("deep.onnx"), place.path("pictures"));
    std::fs::create_dir(&folder).unwrap();
    super::infer_pictures::deep_network(&onnx);
    super::infer_pictures::deep_pictures(&folder);
    let paths = [folder.as_str()];
    let plan = |words: &[&str]| -> Value {
        let all = [&["plan", "infer", "--model", &onnx, "--json", "--images"], &paths[..], words].concat();
        serde_json::from_str(&said(&all)).unwrap()
    };
    let whole = plan(&[]);
    let engines = whole["engines"].as_array().unwrap();
    let names: Vec<&str> = engines.iter().map(|one| one["engine"].as_str().unwrap()).collect();
    assert_eq!(names, ["levels", "refresh", "enclave", "enclave-plain"]);
    assert_eq!(whole["chosen"], "enclave-plain", "nobody watches the enclave");
    let of = |name: &str| engines.iter().find(|one| one["engine"] == name).unwrap();
    for name in ["levels", "refresh", "enclave"] {
        let one = of(name);
        assert!(one["seconds"].as_f64().unwrap() > 0.0 && one["memory"].as_u64().unwrap() > 1 << 20, "{one}");
        assert!(one["logit_error"].as_f64().unwrap() < one["margin"].as_f64().unwrap() / 2.0, "{one}");
        assert_eq!(one["forbidden"], Value::Null, "{one}");
    }
    assert!(of("refresh")["key_bytes"].as_u64() > of("levels")["key_bytes"].as_u64(), "{whole}");
    assert!(of("enclave")["seconds"].as_f64() < of("levels")["seconds"].as_f64(), "{whole}");
    assert!(of("enclave")["visits"].as_u64().unwrap() > 2 && of("levels")["visits"] == 0, "{whole}");

    // one engine, under requirements that forbid it or not
    let levels = ["--engine", "levels"];
    let watched = plan(&[&levels[..], &["--side-channels"]].concat());
    assert_eq!((&watched["chosen"], watched["engines"].as_array().unwrap().len()), (&"levels".into(), 1));
    let onnx_words = ["plan", "infer", "--model", &onnx, "--images"];
    let refused_by = |words: &[&str]| {
        let output = tobari(&[&onnx_words[..], &paths, words].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output)
    };
    for (words, why) in [
        (&["--engine", "enclave", "--side-channels"][..], "activations may be in the clear in the enclave"),
        (&["--engine", "enclave", "--without-enclave"], "it needs an enclave"),
        (&["--engine", "enclave", "--active-host"], "the host does what it was told"),
        (&["--engine", "levels", "--protect", "data,integrity"], "results may be wrong unnoticed"),
        (&["--engine", "levels", "--protect", "data,model"], "the model need not be protected"),
    ] {
        let said = refused_by(words);
        assert!(said.contains(why) && said.contains("no engine protects this"), "{words:?}: {said}");
    }
    // an ONNX file without pictures has no ranges
    let output = tobari(&["plan", "infer", "--model", &onnx]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("give --images"), "{}", stderr(&output));
}
