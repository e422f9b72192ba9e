//! Pictures of models of several shapes and depths, through all commands.

use super::infer::{Place, good, refused};
use crate::support::Server;
use serde_json::Value;
use tobari_infer::{Calibration, LayerKind, Map, Model, Network, Normalisation, Stage, Volume};
use tobari_infer_files::images::Picture;
use tobari_infer_files::onnx::encode_onnx;

/// A model with one layer: class `c` is the sum of channel `c`.
fn channels(channels: usize, side: usize) -> Vec<u8> {
    let input = Volume { channels, height: side, width: side };
    let plane = side * side;
    let weight = |at: usize| if at / input.len() == at % input.len() / plane { 1.0 / 64.0 } else { 0.0 };
    let weights = (0..3 * input.len()).map(weight).collect();
    let (map, bias, output) = (Map::Dense { weights }, vec![0.0; 3], Volume::vector(3));
    let stage = Stage { name: "sums".to_owned(), input, output, map, bias, weight_bits: 16, bias_bits: 16 };
    let calibration = Calibration { margin: 0.5, powers: Vec::new() };
    Model::new(vec![stage], 0).unwrap().calibrated(calibration).unwrap().encode()
}

#[test]
fn a_png_is_taken_as_it_is_by_a_model_of_its_size_and_channels_and_refused_by_any_other() {
    let place = Place::new();
    let (model, flat, png) = (place.path("rgb.tim"), place.path("flat.tim"), place.path("it.png"));
    std::fs::write(&model, channels(3, 5)).unwrap();
    std::fs::write(&flat, channels(2, 5)).unwrap();
    let write = |picture: &Picture| std::fs::write(&png, picture.encode_png("it").unwrap()).unwrap();
    for (class, pixel) in [[200, 20, 90, 255], [30, 180, 40, 255], [10, 0, 77, 255]].into_iter().enumerate() {
        write(&Picture { width: 5, height: 5, pixels: vec![pixel; 25] });
        let told: Value =
            serde_json::from_str(&good(&["infer", "simulate", &png, "--model", &model, "--json"])).unwrap();
        assert_eq!((&told["label"], &told["plain_label"]), (&class.into(), &class.into()));
    }
    // an image is encrypted at the size that the key file tells
    let key = place.path("key");
    good(&["infer", "keygen", "-o", &key, "--model", &model]);
    good(&["infer", "encrypt", &png, "--key", &key, "-o", &place.path("question")]);
    for (picture, why) in [
        (Picture::of_grey(6, &[9; 36]), "the model takes 5 x 5 pixels, and the picture has 6 x 6"),
        (Picture { width: 5, height: 5, pixels: vec![[9, 9, 9, 100]; 25] }, "the picture has transparent parts"),
    ] {
        write(&picture);
        let said = refused(&["infer", "encrypt", &png, "--key", &key, "-o", &place.path("no")]);
        assert!(said.contains(why), "{said}");
    }
    let said = refused(&["infer", "simulate", &png, "--model", &flat]);
    assert!(said.contains("a model of 50 numbers, which are no picture in grey or colour"), "{said}");
}

/// Of a model that takes what MNIST's size is, the pictures are its own. They were inverted,
/// stretched and centred once, so that a model of clothes was asked about another picture, while
/// its calibration and its simulation took the pictures as they are.
#[test]
fn a_picture_of_mnists_size_is_changed_for_the_built_in_model_alone_or_on_request() {
    let place = Place::new();
    let (model, png, key) = (place.path("halves.tim"), place.path("it.png"), place.path("key"));
    // class 0 is the sum of the left half, class 1 that of the right half
    let input = Volume { channels: 1, height: 28, width: 28 };
    let weight = |at: usize| if at / 784 == at % 28 / 14 { 1.0 / 512.0 } else { 0.0 };
    let (map, bias) = (Map::Dense { weights: (0..2 * 784).map(weight).collect() }, vec![0.0; 2]);
    let output = Volume::vector(2);
    let stage = Stage { name: "halves".to_owned(), input, output, map, bias, weight_bits: 16, bias_bits: 16 };
    let calibration = Calibration { margin: 0.1, powers: Vec::new() };
    std::fs::write(&model, Model::new(vec![stage], 0).unwrap().calibrated(calibration).unwrap().encode()).unwrap();
    // white on the left, grey on the right: inverted, the right half would be the brighter one
    let grey: Vec<u8> = (0..784).map(|at| if at % 28 < 14 { 255 } else { 150 }).collect();
    std::fs::write(&png, Picture::of_grey(28, &grey).encode_png("it").unwrap()).unwrap();
    good(&["infer", "keygen", "-o", &key, "--model", &model]);
    let (question, answer) = (place.path("question"), place.path("answer"));
    let label = |fit: &[&str]| {
        good(&[&["infer", "encrypt", &png, "--key", &key, "-o", &question], fit].concat());
        good(&["infer", "run", &question, "-o", &answer, "--key", &key, "--model", &model]);
        let told: Value = serde_json::from_str(&good(&["infer", "decrypt", &answer, "--key", &key, "--json"])).unwrap();
        let words = [&["infer", "simulate", &png, "--model", &model, "--json"], fit].concat();
        let simulated: Value = serde_json::from_str(&good(&words)).unwrap();
        assert_eq!((&simulated["label"], &simulated["plain_label"]), (&told["label"], &told["label"]), "{fit:?}");
        told["label"].as_u64().unwrap()
    };
    assert_eq!([label(&[]), label(&["--fit", "exact"]), label(&["--fit", "digit"])], [0, 0, 1]);
    // a folder gives the same pictures as a file
    let words = ["infer", "simulate", &place.path(""), "--model", &model, "--json"];
    let folder: Value = serde_json::from_str(&good(&words)).unwrap();
    assert_eq!(folder["label"], 0);
    let small = place.path("small.tim");
    std::fs::write(&small, channels(3, 5)).unwrap();
    let said = refused(&["infer", "simulate", &png, "--model", &small, "--fit", "digit"]);
    assert!(said.contains("a digit has 28 x 28 grey pixels, and the model takes 3 x 5 x 5"), "{said}");
}

/// A network of five maps for grey pictures of 6 rows and 8 columns, as ONNX.
pub(crate) fn deep_network(path: &str) {
    let number = |at: usize| ((at * 37 % 101) as f64 - 50.0) / 50.0;
    let dense = |inputs: usize, outputs: usize| LayerKind::Dense {
        outputs,
        weights: (0..inputs * outputs).map(|at| number(at + outputs) * 1.7 / (inputs as f64).sqrt()).collect(),
        bias: (0..outputs).map(|at| number(at + 7) / 4.0).collect(),
    };
    let square = || LayerKind::Quadratic { square: vec![0.2], linear: vec![0.5], constant: vec![0.2] };
    let mut kinds = vec![LayerKind::Reshape { output: Volume::vector(48) }, dense(48, 24), square()];
    for _ in 0..3 {
        kinds.extend([dense(24, 24), square()]);
    }
    kinds.push(dense(24, 4));
    let named = |(at, kind): (usize, LayerKind)| (format!("layer{at}"), kind);
    let normalisation = Normalisation { scale: vec![1.0 / 255.0], offset: vec![0.0] };
    let input = Volume { channels: 1, height: 6, width: 8 };
    let network = Network::new(input, normalisation, kinds.into_iter().enumerate().map(named).collect()).unwrap();
    std::fs::write(path, encode_onnx(&network)).unwrap();
}

/// Forty pictures for it in this folder.
pub(crate) fn deep_pictures(folder: &str) {
    let pixel = |number: usize, at: usize| ((number * 57 + at * (number + 3) * 29) % 256) as u8;
    for number in 0..40 {
        let pixels = (0..48).map(|at| pixel(number, at)).map(|grey| [grey, grey, grey, 255]).collect();
        let picture = Picture { width: 8, height: 6, pixels };
        std::fs::write(format!("{folder}/{number:02}.png"), picture.encode_png("it").unwrap()).unwrap();
    }
}

#[test]
fn a_network_of_five_maps_goes_all_commands_with_pictures_that_are_no_squares() {
    let place = Place::new();
    let (onnx, model, key, folder) =
        (place.path("deep.onnx"), place.path("deep.tim"), place.path("key"), place.path("pictures"));
    deep_network(&onnx);
    std::fs::create_dir(&folder).unwrap();
    deep_pictures(&folder);
    let told: Value =
        serde_json::from_str(&good(&["infer", "compile", &onnx, "-o", &model, "--images", &folder, "--json"])).unwrap();
    assert!(told["levels"].as_u64().unwrap() >= 8, "{told}");
    let foretold = told["logit_error"].as_f64().unwrap();
    let simulated: Vec<Value> = good(&["infer", "simulate", &folder, "--model", &model, "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(simulated.len(), 40);
    // on this machine, and by a server that has no key
    let server = Server::start(&["--infer", &model]);
    good(&["infer", "keygen", "-o", &key, "--server", &server.url]);
    let (question, answer) = (place.path("question"), place.path("answer"));
    for (number, how) in [(3, ["--server", &server.url]), (17, ["--model", &model])] {
        let png = format!("{folder}/{number:02}.png");
        good(&["infer", "encrypt", &png, "--key", &key, "-o", &question]);
        good(&[&["infer", "run", &question, "-o", &answer, "--key", &key], &how[..]].concat());
        let words = ["infer", "decrypt", &answer, "--key", &key, "--json", "--output", "logits"];
        let told: Value = serde_json::from_str(&good(&words)).unwrap();
        let expected = &simulated[number];
        for (found, expected) in told["logits"].as_array().unwrap().iter().zip(expected["logits"].as_array().unwrap()) {
            let off = (found.as_f64().unwrap() - expected.as_f64().unwrap()).abs();
            assert!(off < 2.0 * foretold, "{how:?}: off by {off}, {foretold} foretold");
        }
        if expected["close"] == false {
            assert_eq!(told["label"], expected["plain_label"], "{how:?}");
        }
    }
    // a picture of the same number of pixels and another shape
    let turned = place.path("turned.png");
    let picture = Picture { width: 6, height: 8, pixels: vec![[9, 9, 9, 255]; 48] };
    std::fs::write(&turned, picture.encode_png("it").unwrap()).unwrap();
    let said = refused(&["infer", "encrypt", &turned, "--key", &key, "-o", &question]);
    assert!(said.contains("the model takes 8 x 6 pixels, and the picture has 6 x 8"), "{said}");
}
