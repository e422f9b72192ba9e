//! ONNX files: agreement with ONNX Runtime, writing and reading again, and rejections.

use std::path::{Path, PathBuf};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::fold::{FoldOptions, Reach, fold};
use tobari_infer::{LayerKind, Model, Network, Normalisation, Volume};
use tobari_infer_files::onnx::{OnnxError, Pixels, decode_onnx, encode_onnx, fuzz_onnx, read_onnx};

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors/onnx")
}

const NAMES: [&str; 5] = ["convolutions", "dense", "logistic", "colours", "same"];

/// Images, and ONNX Runtime's results for them.
fn answers(name: &str) -> Vec<(Vec<u8>, Vec<f64>)> {
    let text = std::fs::read_to_string(vectors().join(format!("{name}.txt"))).unwrap();
    let lines: Vec<Vec<f64>> = text.lines().map(|line| line.split(' ').map(|x| x.parse().unwrap()).collect()).collect();
    let (pairs, []) = lines.as_chunks::<2>() else { panic!("two lines an image") };
    pairs.iter().map(|[pixels, out]| (pixels.iter().map(|p| *p as u8).collect(), out.clone())).collect()
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1f64, |most, x| most.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < tolerance * size, "{what}: {found} {expected}");
    }
}

#[test]
fn networks_compute_what_onnx_runtime_computes() {
    for name in NAMES {
        let network = read_onnx(&vectors().join(format!("{name}.onnx")), &Pixels::default()).unwrap();
        for (pixels, expected) in answers(name) {
            assert_near(&network.forward(&pixels).unwrap(), &expected, 1e-5, name);
        }
    }
}

#[test]
fn imported_networks_fold() {
    for name in NAMES {
        let network = read_onnx(&vectors().join(format!("{name}.onnx")), &Pixels::default()).unwrap();
        let answers = answers(name);
        let images: Vec<&[u8]> = answers.iter().map(|(pixels, _)| &pixels[..]).collect();
        let reach = Reach::Seen { images: &images, headroom: 1.2 };
        let model = fold(&network, &FoldOptions::new(reach)).unwrap();
        for (pixels, expected) in &answers {
            assert_near(&model.forward(pixels).unwrap(), expected, 5e-3, name);
        }
    }
}

#[test]
fn a_written_network_is_read_as_the_same() {
    for name in NAMES {
        let network = read_onnx(&vectors().join(format!("{name}.onnx")), &Pixels::default()).unwrap();
        let again = decode_onnx(&encode_onnx(&network), &Pixels::default()).unwrap();
        for (pixels, _) in answers(name) {
            assert_near(&again.forward(&pixels).unwrap(), &network.forward(&pixels).unwrap(), 1e-5, name);
        }
    }
    // a normalisation that becomes layers
    let volume = Volume { channels: 2, height: 1, width: 2 };
    let normalisation = Normalisation { scale: vec![0.01, 0.02], offset: vec![-1.0, 0.5] };
    let square = LayerKind::Quadratic { square: vec![1.0, 2.0], linear: vec![0.5], constant: vec![0.0, 1.0] };
    let network = Network::new(volume, normalisation, vec![("q".to_owned(), square)]).unwrap();
    let again = decode_onnx(&encode_onnx(&network), &Pixels::default()).unwrap();
    let pixels = [3, 200, 100, 7];
    assert_near(&again.forward(&pixels).unwrap(), &network.forward(&pixels).unwrap(), 1e-5, "normalisation");
}

#[test]
fn pixels_are_what_is_said_they_are() {
    let file = std::fs::read(vectors().join("colours.onnx")).unwrap();
    let pixels = Pixels { mean: vec![0.5, 0.25, 0.0], deviation: vec![2.0, 1.0, 0.5] };
    let network = decode_onnx(&file, &pixels).unwrap();
    assert_near(&network.normalisation().scale, &[1.0 / 510.0, 1.0 / 255.0, 2.0 / 255.0], 1e-12, "scale");
    assert_near(&network.normalisation().offset, &[-0.25, -0.25, 0.0], 1e-12, "offset");
    for wrong in [vec![0.0], vec![1.0; 2], vec![]] {
        let pixels = Pixels { mean: vec![0.0], deviation: wrong };
        assert!(matches!(decode_onnx(&file, &pixels), Err(OnnxError::Malformed(_))));
    }
}

#[test]
fn everything_that_is_not_supported_is_listed_at_once() {
    let error = read_onnx(&vectors().join("refused.onnx"), &Pixels::default()).unwrap_err().to_string();
    for part in [
        "refused.onnx",
        "/r1/Relu (Relu): no such operator",
        "/c2/Conv (Conv): dilations",
        "/cube/Mul (Mul): a polynomial of a higher degree than two",
        "/m/MaxPool (MaxPool): no such operator",
        "/logits/Softmax (Softmax): no such operator",
        "AveragePool, BatchNormalization",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("/flat/"), "what follows from something else is not listed: {error}");
}

#[test]
fn branches_are_refused() {
    let error = read_onnx(&vectors().join("branch.onnx"), &Pixels::default()).unwrap_err().to_string();
    assert!(error.contains("/logits/Add (Add): a branch"), "{error}");
}

#[test]
fn the_digits_as_onnx_are_the_built_in_model() {
    let network = read_onnx(&vectors().join("digits.onnx"), &Pixels::default()).unwrap();
    let model = Model::digits().unwrap();
    let images: Vec<Vec<u8>> = STYLES.iter().flat_map(|style| (0..10).map(move |digit| draw(digit, style))).collect();
    for image in &images {
        assert_near(&network.forward(image).unwrap(), &model.forward(image).unwrap(), 2e-3, "digits");
    }
    let all: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
    let folded = fold(&network, &FoldOptions::new(Reach::Seen { images: &all, headroom: 1.5 })).unwrap();
    let shapes = |model: &Model| model.stages().iter().map(|stage| (stage.input, stage.output)).collect::<Vec<_>>();
    assert_eq!(shapes(&folded), shapes(&model));
}

#[test]
fn cut_and_changed_files_are_refused_or_read() {
    for name in ["convolutions", "dense", "colours", "refused"] {
        let file = std::fs::read(vectors().join(format!("{name}.onnx"))).unwrap();
        for length in 0..file.len() {
            fuzz_onnx(&file[..length]);
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            for value in [changed[at] ^ 1, changed[at] ^ 0x80, 0, 0xff] {
                changed[at] = value;
                fuzz_onnx(&changed);
            }
        }
    }
}
