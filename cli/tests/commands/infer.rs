//! Inference, with each part in a process of its own: an image is encrypted, classified by a server
//! without a key, and the answer decrypted. Every label is that of the plain model.

use crate::support::tables::{files, post, raw};
use crate::support::{Server, stderr, tobari};
use serde_json::Value;
use std::path::Path;
use tempfile::{TempDir, tempdir};
use tobari_host::testing::data;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::{LayerKind, Model, Network, Normalisation, Volume};
use tobari_infer_files::images::Picture;
use tobari_infer_files::onnx::encode_onnx;

/// A folder for one test.
pub(super) struct Place(TempDir);

impl Place {
    pub(super) fn new() -> Self {
        Self(tempdir().unwrap())
    }

    pub(super) fn path(&self, name: &str) -> String {
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

    /// The label from a server, which knows the evaluation keys already or receives them now
    /// (`sends`).
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

pub(super) fn good(words: &[&str]) -> String {
    let output = tobari(words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that must fail.
pub(super) fn refused(words: &[&str]) -> String {
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
    // without the key file no evaluation keys can be made, and the message says so
    let question = place.encrypt(&images, 0, &key);
    let answer = place.path("answer");
    let said = refused(&["infer", "run", &question, "-o", &answer, "--server", &server.url]);
    assert!(said.contains("add --key to make and send them"), "{said}");
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
    assert!(stderr(&two).contains("uses this folder: stop it"), "{}", stderr(&two));
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
    // the errors of encryption, and not those of the layout alone
    let [off, foretold] = ["difference", "foretold_error"].map(|name| simulated[name].as_f64().unwrap());
    assert!(foretold / 100.0 < off && off < foretold && foretold < 0.25, "{simulated}");
    assert_eq!((&simulated["close"], &simulated["outside"]), (&false.into(), &false.into()));
    // the message names the layer
    let said = refused(&["infer", "simulate", &images, "--index", "1", "--tolerance", "1e-12"]);
    assert!(said.contains("stage ") && said.contains("expected an error of at most"), "{said}");
    let said = refused(&["infer", "run", &question, "-o", &answer, "--key", &key, "--layout", "wide"]);
    assert!(said.contains("the key was made for another layout or set"), "{said}");
    let said = refused(&["infer", "keygen", "-o", &key]);
    assert!(said.contains("a secret never replaces a file"), "{said}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_drawn_png_goes_the_readmes_four_commands_and_so_does_one_in_colour_and_one_inverted() {
    let (place, server) = (Place::new(), Server::start(&["--infer", "digits"]));
    let (png, key) = (place.path("three.png"), place.keygen("infer.key", &server.url));
    good(&["infer", "draw", "3", "-o", &png]);
    let drawn = std::fs::read(&png).unwrap();
    let grey = draw(3, &STYLES[0]);
    assert_eq!(tobari_infer_files::images::decode_png("it", &drawn).unwrap(), Picture::of_grey(28, &grey));
    // yellow ink on dark blue; black on white, four times as large and in a corner
    let mix = |ink: u8| {
        let part = |from: u32, to: u32| (from + (to.abs_diff(from) * u32::from(ink)) / 255) as u8;
        [part(10, 240), part(10, 230), part(60, 70), 255]
    };
    let colour = Picture { width: 28, height: 28, pixels: grey.iter().map(|ink| mix(*ink)).collect() };
    let mut inverted = Picture::of_grey(200, &[255; 200 * 150]);
    for (at, pixel) in inverted.pixels.iter_mut().enumerate() {
        let (row, column) = (at / 200, at % 200);
        if row < 112 && column < 112 {
            let ink = 255 - grey[row / 4 * 28 + column / 4];
            *pixel = [ink, ink, ink, 255];
        }
    }
    let cases: [(&str, Option<Picture>, &[&str]); 3] = [
        ("three.png", None, &[]),
        ("colour.png", Some(colour), &["colours were made grey"]),
        ("inverted.png", Some(inverted), &["dark ink on a light background was inverted", "scaled to 20 x 20"]),
    ];
    for (number, (name, picture, notes)) in cases.into_iter().enumerate() {
        let (path, question) = (place.path(name), place.path("image.enc"));
        if let Some(picture) = picture {
            std::fs::write(&path, picture.encode_png(name).unwrap()).unwrap();
        }
        let encrypted = tobari(&["infer", "encrypt", &path, "--key", &key, "-o", &question]);
        let said = stderr(&encrypted);
        assert!(encrypted.status.success() && notes.iter().all(|note| said.contains(note)), "{name}: {said}");
        assert_eq!(place.label(&question, &key, &server.url, number == 0)["label"], 3, "{name}");
    }
    std::fs::write(&png, "no picture").unwrap();
    let said = refused(&["infer", "encrypt", &png, "--key", &key, "-o", &place.path("no")]);
    assert!(said.contains("expected a whole PNG file"), "{said}");
    assert_eq!(tobari(&["infer", "draw", "10", "-o", &png]).status.code(), Some(2));
}

/// A network of one convolution, an activation and a dense layer for grey images of 8 x 8, as ONNX.
fn small_network(path: &str) {
    let number = |at: usize| ((at * 37 % 101) as f64 - 50.0) / 50.0;
    let kinds = vec![
        LayerKind::Convolution {
            channels: 2,
            kernel: [3; 2],
            stride: [1; 2],
            padding: [0; 4],
            weights: (0..18).map(|at| number(at) / 2.0).collect(),
            bias: vec![0.1, -0.2],
        },
        LayerKind::Quadratic { square: vec![0.2], linear: vec![0.5], constant: vec![0.2] },
        LayerKind::Reshape { output: Volume::vector(72) },
        LayerKind::Dense {
            outputs: 4,
            weights: (0..288).map(|at| number(at + 5) / 8.0).collect(),
            bias: vec![0.0, 0.0, 0.0, 3.0],
        },
    ];
    let named = |(at, kind): (usize, LayerKind)| (format!("layer{at}"), kind);
    let normalisation = Normalisation { scale: vec![1.0 / 255.0], offset: vec![0.0] };
    let input = Volume { channels: 1, height: 8, width: 8 };
    let network = Network::new(input, normalisation, kinds.into_iter().enumerate().map(named).collect()).unwrap();
    std::fs::write(path, encode_onnx(&network)).unwrap();
}

/// 50 images of 8 x 8 pixels.
fn fifty_images(place: &Place) -> String {
    let images = place.path("images.idx");
    let head = [[0, 0, 8, 3], 50u32.to_be_bytes(), 8u32.to_be_bytes(), 8u32.to_be_bytes()].concat();
    let pixels = (0..50 * 64).map(|at: usize| (at * at / 7 % 256) as u8).collect();
    std::fs::write(&images, [head, pixels].concat()).unwrap();
    images
}

#[test]
fn fault_36_compile_tells_images_whose_labels_tie_from_no_images() {
    let place = Place::new();
    let (onnx, model, images) = (place.path("net.onnx"), place.path("net.tim"), fifty_images(&place));
    let kinds = [
        LayerKind::Reshape { output: Volume::vector(64) },
        LayerKind::Dense { outputs: 2, weights: vec![0.25; 128], bias: vec![0.0; 2] },
    ];
    let normalisation = Normalisation { scale: vec![1.0 / 255.0], offset: vec![0.0] };
    let input = Volume { channels: 1, height: 8, width: 8 };
    let named = ["flat", "last"].map(str::to_owned).into_iter().zip(kinds).collect();
    std::fs::write(&onnx, encode_onnx(&Network::new(input, normalisation, named).unwrap())).unwrap();
    let said = refused(&["infer", "compile", &onnx, "-o", &model, "--images", &images]);
    assert!(said.contains("the two best labels of 50 of 50 images are equal") && said.contains("--margin"), "{said}");
    assert!(!said.contains("is not known") && !Path::new(&model).exists(), "{said}");
}

#[test]
fn fault_36_compile_and_serve_refuse_a_model_whose_labels_errors_may_change() {
    let place = Place::new();
    let (onnx, model) = (place.path("net.onnx"), place.path("net.tim"));
    small_network(&onnx);
    let compile = ["infer", "compile", &onnx, "-o", &model];
    let said = refused(&compile);
    assert!(said.contains("the margin between this model's labels is not known"), "{said}");
    assert!(said.contains("--images") && said.contains("--margin"), "{said}");
    let said = refused(&[&compile[..], &["--margin", "0.000001"]].concat());
    assert!(said.contains("half the margin between them"), "{said}");
    assert!(!Path::new(&model).exists(), "nothing is written of a model that is refused");
    assert_eq!(tobari(&[&compile[..], &["--margin", "0"]].concat()).status.code(), Some(2));
    // a stated margin, and a margin measured on images
    let told: Value = serde_json::from_str(&good(&[&compile[..], &["--margin", "1.5", "--json"]].concat())).unwrap();
    assert_eq!(told["margin"], 1.5);
    assert!(told["logit_error"].as_f64().unwrap() < 0.75, "{told}");
    let images = fifty_images(&place);
    let told: Value = serde_json::from_str(&good(&[&compile[..], &["--images", &images, "--json"]].concat())).unwrap();
    assert!(told["margin"].as_f64().unwrap() > 2.0 * told["logit_error"].as_f64().unwrap(), "{told}");
    Server::start(&["--infer", &model]).stop();
    // an uncalibrated model file is not served, and no key is made for it
    let unknown = place.path("unknown.tim");
    let plain = Model::decode(&std::fs::read(&model).unwrap()).unwrap();
    let plain = Model::new(plain.stages().to_vec(), plain.logit_bits()).unwrap();
    std::fs::write(&unknown, plain.encode()).unwrap();
    let said = refused(&["serve", "--addr", "127.0.0.1:0", "--infer", &unknown]);
    assert!(said.contains("unknown") && said.contains("--images"), "{said}");
    let said = refused(&["infer", "keygen", "-o", &place.path("key"), "--model", &unknown]);
    assert!(said.contains("--images") && !Path::new(&place.path("key")).exists(), "{said}");
}

#[test]
fn fault_37_a_server_is_not_started_with_a_rounding_that_hides_nothing() {
    for combination in ["process-user-data", "enclave-user-data", "mixed-plain-reset", "mixed-masked-reset"] {
        let words = ["serve", "--addr", "127.0.0.1:0", "--infer", "digits", "--infer-enclave", combination];
        let said = refused(&[&words[..], &["--tells", "rounded:30"]].concat());
        assert!(said.contains("tell the errors of decryption, from which the key follows"), "{said}");
    }
}

#[test]
fn a_plan_tells_each_layers_place_and_time_what_binds_and_the_cheapest_relaxation() {
    let plan = |words: &[&str]| good(&[&["plan", "infer"], words].concat());
    let text = plan(&["--protect", "data,model,integrity", "--side-channels"]);
    for line in [
        "protected: user data, the model, that results are right; side channels of the enclave: in scope; the host: passive; no plaintext activations in the enclave",
        "conv1: user data and model encrypted (1 ciphertexts, level 5) at enclave: 46048.000 ms",
        "act1: user data encrypted (5 ciphertexts, level 4) at enclave: 3684.000 ms",
        "conv2: user data and model encrypted (5 ciphertexts, level 3) at enclave: 978755.000 ms",
        "fc: user data and model encrypted (50 ciphertexts, level 1) at enclave: 19650.000 ms",
        "the result is released at enclave: 140.900 ms",
        "what binds most: if side channels of the enclave are out of scope, 0.340 s, 100.0 % less",
        "if results may be wrong unnoticed: 732.",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json: Value = serde_json::from_str(&plan(&["--protect", "data", "--json"])).unwrap();
    assert!((json["seconds"].as_f64().unwrap() - 0.33951).abs() < 1e-6, "{json}");
    // plain activations inside the enclave need an option of their own
    let sites = |words: &[&str]| -> Vec<(String, String)> {
        let json: Value = serde_json::from_str(&plan(&[words, &["--json"]].concat())).unwrap();
        let word = |step: &Value, what: &str| step[what].as_str().unwrap().to_owned();
        json["steps"].as_array().unwrap().iter().map(|step| (word(step, "way"), word(step, "site"))).collect()
    };
    assert!(sites(&["--plain-in-enclave", "yes"]).iter().all(|(way, site)| way == "plain" && site == "enclave"));
    assert!(sites(&["--plain-in-enclave", "no"]).iter().all(|(way, _)| way.starts_with("user data encrypted")));
    let recorded = ["--costs", "recorded", "--plain-in-enclave", "masked"];
    assert!(sites(&recorded).iter().all(|(way, _)| way.starts_with("user data encrypted")));
    // an enclave slower than a process is a projection, and is labelled as one
    let projected =
        plan(&["--costs", "recorded", "--protect", "data,integrity", "--side-channels", "--enclave-factor", "1.43"]);
    assert!(projected.contains("the enclave projected to take 1.43 times as long as a process"), "{projected}");
    let seconds = |words: &[&str]| -> f64 {
        let json: Value = serde_json::from_str(&plan(&[words, &["--json"]].concat())).unwrap();
        json["seconds"].as_f64().unwrap()
    };
    let integrity = ["--costs", "recorded", "--protect", "data,integrity", "--side-channels"];
    let ratio = seconds(&[&integrity[..], &["--enclave-factor", "1.43"]].concat()) / seconds(&integrity);
    assert!((1.3..1.43).contains(&ratio), "{ratio}");
    assert_eq!(tobari(&["plan", "infer", "--enclave-factor", "1.43"]).status.code(), Some(2));
    let tables = plan(&["--policy", "paper"]);
    for line in [
        "   11        yes            yes  user data and model encrypted in the enclave",
        "   12         no             no  user data encrypted in the process",
        "   14         no             no    294868.2",
    ] {
        assert!(tables.contains(line), "{line}\n{tables}");
    }
}

#[test]
fn keys_beyond_the_quota_and_other_keys_models_and_bytes_are_refused_and_the_server_stays_up() {
    let place = Place::new();
    let (images, labels) = place.drawn(1);
    let server = Server::start(&["--infer", "digits"]);
    let list = raw(&server.address(), b"GET /infer/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").1;
    let list: Value = serde_json::from_str(&list[list.find('{').unwrap()..]).unwrap();
    let memory = list["models"][0]["key_memory"].as_u64().unwrap();
    println!("{list}");
    server.stop();
    // memory for the keys of one client, but not of two
    let server = Server::start(&["--infer", "digits", "--infer-keys", &(memory + memory / 2).to_string()]);
    let (one, two) = (place.keygen("one", &server.url), place.keygen("two", &server.url));
    let question = place.encrypt(&images, 0, &one);
    assert_eq!(place.label(&question, &one, &server.url, true)["label"], labels[0]);
    let answer = place.path("answer");
    let said = refused(&["infer", "decrypt", &answer, "--key", &two]);
    assert!(said.contains("expected an answer for the key"), "{said}");
    let said = refused(&["infer", "run", &question, "-o", &answer, "--server", &server.url, "--key", &two]);
    assert!(said.contains("the image was encrypted under the key"), "{said}");
    let other = place.encrypt(&images, 0, &two);
    let said = refused(&["infer", "run", &other, "-o", &answer, "--server", &server.url, "--key", &two]);
    assert!(
        said.contains("(507)") && said.contains("bytes of keys. Ask the server's operator to raise --infer-keys"),
        "{said}"
    );

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
        (b"DELETE /infer/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(), 405, ""),
    ] {
        let (found, text) = raw(&server.address(), &request);
        assert_eq!(found, status, "{text}");
        assert!(word.is_empty() || text.contains(&format!("tobari-refusal: {word}\r\n")), "{text}");
    }
    let question = place.encrypt(&images, 0, &one);
    assert_eq!(place.label(&question, &one, &server.url, false)["label"], labels[0], "it is still up");
}

#[test]
fn fault_26_keys_that_nobody_uses_make_room_and_are_sent_again() {
    let place = Place::new();
    let (images, labels) = place.drawn(1);
    let server = Server::start(&["--infer", "digits"]);
    let list = raw(&server.address(), b"GET /infer/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").1;
    let list: Value = serde_json::from_str(&list[list.find('{').unwrap()..]).unwrap();
    let memory = list["models"][0]["key_memory"].as_u64().unwrap();
    server.stop();
    let (room, data) = ((memory + memory / 2).to_string(), place.path("data"));
    let args = ["--infer", "digits", "--infer-keys", &room, "--client-idle", "2", "--data", &data];
    let server = Server::start(&args);
    let (one, two) = (place.keygen("one", &server.url), place.keygen("two", &server.url));
    let question = place.encrypt(&images, 0, &one);
    assert_eq!(place.label(&question, &one, &server.url, true)["label"], labels[0]);
    // the second client arrives after the first was idle for a while, and then the first returns
    for (key, sent) in [(&two, true), (&two, false), (&one, true)] {
        std::thread::sleep(std::time::Duration::from_millis(2_500));
        let question = place.encrypt(&images, 0, key);
        assert_eq!(place.label(&question, key, &server.url, sent)["label"], labels[0], "{key}");
    }
    server.stop();
    let server = Server::start(&args);
    let question = place.encrypt(&images, 0, &one);
    assert_eq!(place.label(&question, &one, &server.url, false)["label"], labels[0], "a new start knows them");
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
    assert!(stderr(&open).contains("add --tokens FILE, or --open"), "{}", stderr(&open));
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
        let needles: Vec<&[u8]> = canaries.iter().map(Vec::as_slice).collect();
        let found = crate::support::memory::found_in_memory(&server, &needles);
        assert_eq!(found, [] as [usize; 0], "secrets in the memory of the server");
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
    let images = data("images_of_mnist_have_their_plain_labels", "mnist/t10k-images-idx3-ubyte.gz");
    let Some(images) = images else { return };
    let all = tobari_infer_files::images::read_idx_images(&images).unwrap();
    let fixed = Model::digits().unwrap().fixed().unwrap();
    let (place, server) = (Place::new(), Server::start(&["--infer", "digits"]));
    let key = place.keygen("key", &server.url);
    for (index, image) in all.iter().take(50).enumerate() {
        let question = place.encrypt(images.to_str().unwrap(), index, &key);
        let told = place.label(&question, &key, &server.url, index == 0);
        assert_eq!(told["label"], fixed.classify(image).unwrap(), "image {index}");
    }
}
