//! Rejections of models, policies and keys that could give a wrong label or reveal a key.

#![allow(clippy::print_stdout, reason = "measurements")]

use crate::world::{label, rng};
use rand_core::Rng;
use tobari_enclave::OutputPolicy;
use tobari_infer::calibration::{MarginError, check_images};
use tobari_infer::card::{CardError, MAX_KEYS_BYTES};
use tobari_infer::client::{Client, ClientError, Output};
use tobari_infer::compile::{Card, Compiled, Options};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::fold::{FoldOptions, Reach, fold};
use tobari_infer::guarded::{Combination, Route, RouteError, Setup};
use tobari_infer::holder::{Holder, HolderError};
use tobari_infer::program::Input;
use tobari_infer::ready::{ReadyError, ready};
use tobari_infer::server::Service;
use tobari_infer::{Calibration, LayerKind, Model, Network, Normalisation, Volume};
use tobari_lattice::ckks::{Ciphertext, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet};

fn set(name: &str) -> LatticeParameters {
    NamedSet::from_name(name).unwrap().parameters().unwrap()
}

/// A network with random weights for small colour images.
fn colour() -> Network {
    let mut rng = rng(3);
    let mut many = |count: usize, width: f64| -> Vec<f64> {
        (0..count).map(|_| width * (f64::from(rng.next_u32()) / 2f64.powi(31) - 1.0)).collect()
    };
    let mut convolution = |inputs: usize, channels: usize| LayerKind::Convolution {
        channels,
        kernel: [3; 2],
        stride: [1; 2],
        padding: [0; 4],
        weights: many(9 * inputs * channels, 1.7 / (9.0 * inputs as f64).sqrt()),
        bias: many(channels, 0.2),
    };
    let square = || LayerKind::Quadratic { square: vec![0.2], linear: vec![0.5], constant: vec![0.2] };
    let (first, second) = (convolution(3, 4), convolution(4, 4));
    let weights = many(64 * 10, 1.7 / 8.0);
    let kinds = vec![
        first,
        square(),
        second,
        square(),
        LayerKind::Reshape { output: Volume::vector(64) },
        LayerKind::Dense { outputs: 10, weights, bias: vec![0.0; 10] },
    ];
    let normalisation = Normalisation { scale: vec![1.0 / 255.0; 3], offset: vec![0.0; 3] };
    let named = |(at, kind): (usize, LayerKind)| (format!("layer{at}"), kind);
    let input = Volume { channels: 3, height: 8, width: 8 };
    Network::new(input, normalisation, kinds.into_iter().enumerate().map(named).collect()).unwrap()
}

/// Smooth pictures of a single colour.
fn pictures(count: usize) -> Vec<Vec<u8>> {
    let mut rng = rng(8);
    let one = |_| {
        let ends: Vec<[f64; 3]> = (0..3).map(|_| [0; 3].map(|_| f64::from(rng.next_u32() >> 24))).collect();
        let pixel = |at: usize| {
            let (channel, row, column) = (at / 64, (at / 8 % 8) as f64 / 7.0, (at % 8) as f64 / 7.0);
            let [a, b, c] = ends[channel];
            (a * (1.0 - row) + b * row * column + c * row * (1.0 - column)) as u8
        };
        (0..3 * 64).map(pixel).collect()
    };
    (0..count).map(one).collect()
}

/// Logits by an encrypted run.
fn encrypted(compiled: Compiled, images: &[Vec<u8>]) -> Vec<Vec<f64>> {
    let service = Service::new(compiled, 1 << 30).unwrap();
    let client = Client::new(service.card().clone(), &mut rng(1)).unwrap();
    let session = service.session(client.keys(&mut rng(2)).unwrap()).unwrap();
    let run = |pixels: &Vec<u8>| {
        let sent = client.encrypt(&Model::numbers(pixels), &mut rng(5)).unwrap();
        let values = sent.iter().map(SeededCiphertext::expand).collect();
        client.decrypt(&session.run(values, &mut rng(6)).unwrap(), Output::Logits).unwrap().logits
    };
    images.iter().map(run).collect()
}

/// The predicted error was computed, but compared with infinity.
#[test]
fn fault_36_a_model_is_ready_only_where_its_labels_survive_the_foretold_error() {
    let (network, parameters) = (colour(), set("infer-f"));
    let images = pictures(200);
    let (seen, others) = images.split_at(100);
    let seen: Vec<&[u8]> = seen.iter().map(Vec::as_slice).collect();
    // without images the margin is unknown
    let every = fold(&network, &FoldOptions::new(Reach::Every)).unwrap();
    assert_eq!(every.calibration(), None);
    let error = match ready(&every, None, &parameters) {
        Err(ReadyError::Margin(MarginError::Unknown { error })) => error,
        other => panic!("{:?}", other.map(|_| ())),
    };
    let with = |margin: f64| every.clone().calibrated(Calibration { margin, powers: Vec::new() }).unwrap();
    // the margin must be at least twice the error
    assert!(ready(&with(2.0 * error), None, &parameters).is_ok());
    let refused = ready(&with(1.99 * error), None, &parameters).map(|_| ()).unwrap_err();
    assert!(matches!(refused, ReadyError::Margin(MarginError::Small { .. })), "{refused}");
    assert!(refused.to_string().contains("--images") && refused.to_string().contains("another set"), "{refused}");
    // the margin of its own images is too small
    let own = Calibration::of_images(&every, &seen).unwrap().unwrap();
    println!("error {error}, margin {}", own.margin);
    let refused = ready(&with(own.margin), None, &parameters).map(|_| ());
    assert!(matches!(refused, Err(ReadyError::Margin(_))), "{error} {}", own.margin);
    // with images: if the model is ready, every image with that margin keeps its label
    let model = fold(&network, &FoldOptions::new(Reach::Seen { images: &seen, headroom: 1.5 })).unwrap();
    let margin = model.calibration().unwrap().margin;
    let mut served = 0;
    for name in ["infer-f", "infer-s", "ckks-b"] {
        let Ok((compiled, _)) = ready(&model, None, &set(name)) else { continue };
        served += 1;
        let others = &others[..if name == "infer-f" { 24 } else { 4 }];
        for (found, image) in encrypted(compiled, others).iter().zip(others) {
            let plain = network.forward(image).unwrap();
            let best = label(&plain);
            let second =
                plain.iter().enumerate().filter(|(at, _)| *at != best).map(|(_, x)| *x).fold(f64::MIN, f64::max);
            assert!(label(found) == best || plain[best] - second < margin, "{name}: {found:?} {plain:?}");
        }
    }
    assert!(served > 0, "no set has room for it");
}

#[test]
fn fault_36_an_enclaves_combination_is_held_to_the_margin_too() {
    let digits = Model::digits().unwrap();
    let small = digits.clone().calibrated(Calibration { margin: 1e-4, powers: Vec::new() }).unwrap();
    let unknown = Model::new(digits.stages().to_vec(), digits.logit_bits()).unwrap();
    for combination in Combination::ALL {
        let parameters = set(combination.usual_set());
        let configured = |model: &Model| {
            let route = Route::new(combination, &parameters);
            let setup = Setup { route, parameters: parameters.clone(), model: model.clone() };
            setup.configuration(OutputPolicy::Label, 1, 1)
        };
        assert!(configured(&digits).is_ok(), "{}: {:?}", combination.name(), configured(&digits));
        let name = combination.name();
        if combination.is_encrypted() {
            assert!(matches!(configured(&small), Err(RouteError::Margin(MarginError::Small { .. }))), "{name}");
            assert!(matches!(configured(&unknown), Err(RouteError::Margin(MarginError::Unknown { .. }))), "{name}");
        } else {
            assert!(configured(&small).is_ok() && configured(&unknown).is_ok(), "integers have no such errors");
        }
    }
}

#[test]
fn fault_36_the_margin_is_what_19_of_20_images_reach() {
    let digits = Model::digits().unwrap();
    let images: Vec<Vec<u8>> = (0..300).map(|i| draw((i % 10) as u8, &STYLES[i / 10 % 6])).collect();
    let images: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
    let mut gaps: Vec<f64> = images
        .iter()
        .map(|image| {
            let mut logits = digits.forward(image).unwrap();
            logits.sort_by(|a, b| b.total_cmp(a));
            logits[0] - logits[1]
        })
        .collect();
    gaps.sort_by(f64::total_cmp);
    let found = Calibration::of_images(&digits, &images).unwrap().unwrap();
    assert_eq!(found.margin, gaps[15]);
    assert_eq!(found.powers.len(), 3);
    let power = |image: &&[u8]| Model::numbers(image).iter().map(|v| v * v).sum::<f64>() / 784.0;
    assert_eq!(found.powers[0], images.iter().map(power).fold(0.0, f64::max));
    assert_eq!(Calibration::of_images(&digits, &[]).unwrap(), None);
    // in the file, and back; an invalid margin is rejected
    let model = digits.clone().calibrated(found.clone()).unwrap();
    let again = Model::decode(&model.encode()).unwrap();
    assert_eq!((again.calibration(), &again), (Some(&found), &model));
    for margin in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(digits.clone().calibrated(Calibration { margin, powers: Vec::new() }).is_err());
    }
    assert!(digits.calibrated(Calibration { margin: 1.0, powers: vec![0.5] }).is_err());
}

/// The error for a user who gave images said to give images.
#[test]
fn fault_36_images_whose_labels_tie_are_told_from_no_images() {
    let network = |last: Vec<f64>| {
        let dense = |outputs: usize, weights| LayerKind::Dense { outputs, weights, bias: vec![0.0; outputs] };
        let one = (0..16).map(|at| f64::from(u8::from(at % 5 == 0))).collect();
        let kinds = [
            ("flat", LayerKind::Reshape { output: Volume::vector(4) }),
            ("same", dense(4, one)),
            ("square", LayerKind::Quadratic { square: vec![1.0], linear: vec![0.0], constant: vec![0.0] }),
            ("last", dense(last.len() / 4, last)),
        ];
        let input = Volume { channels: 1, height: 2, width: 2 };
        let normalisation = Normalisation::standard(1, 0.0, 1.0);
        Network::new(input, normalisation, kinds.map(|(name, kind)| (name.to_owned(), kind)).into()).unwrap()
    };
    // the two labels differ by the square of the first pixel
    let told = |last: &[f64], dark: usize| {
        let images: Vec<[u8; 4]> = (0..40).map(|i| [if i < dark { 0 } else { 200 }, 1 + i as u8, 90, 255]).collect();
        let images: Vec<&[u8]> = images.iter().map(|image| &image[..]).collect();
        let options = FoldOptions::new(Reach::Seen { images: &images, headroom: 2.0 });
        let model = fold(&network(last.to_vec()), &options).unwrap();
        assert_eq!(check_images(&model, &[]), Ok(()));
        (model.calibration().is_some(), check_images(&model, &images))
    };
    let two = [1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0];
    for dark in [0, 2] {
        assert_eq!(told(&two, dark), (true, Ok(())), "the margin leaves out a twentieth");
    }
    for dark in [3, 40] {
        let (known, told) = told(&two, dark);
        assert_eq!((known, &told), (false, &Err(MarginError::Ties { ties: dark, images: 40 })));
        let text = told.unwrap_err().to_string();
        assert!(text.contains(&format!("the two best labels of {dark} of 40 images are equal")), "{text}");
        assert!(text.contains("--margin"), "{text}");
    }
    let one = [1.0, 0.0, 0.0, 0.0];
    assert_eq!(told(&one, 1), (true, Ok(())));
    assert_eq!(told(&one, 0), (false, Err(MarginError::Alike { images: 40 })));
}

/// `--tells rounded:30` revealed exact scores, which are rejected.
#[test]
fn fault_37_a_rounding_that_hides_nothing_is_refused_where_there_are_ciphertexts() {
    let model = Model::digits().unwrap();
    for combination in Combination::ALL.into_iter().filter(|one| *one != Combination::ProcessBoth) {
        let parameters = set(combination.usual_set());
        let route = Route::new(combination, &parameters);
        let setup = Setup { route, parameters, model: model.clone() };
        let configured = |bits: u8| setup.configuration(OutputPolicy::Rounded(bits), 1, 1);
        if !combination.is_encrypted() {
            assert!(configured(30).is_ok(), "no ciphertext leaves, and integers have no errors to tell");
            continue;
        }
        for bits in [10, 16, 20, 24, 30] {
            let Err(RouteError::Rounding { found, most, error, .. }) = configured(bits) else {
                panic!("{} {bits}: {:?}", combination.name(), configured(bits).map(|_| ()))
            };
            assert_eq!(found, bits);
            assert!(2f64.powi(-i32::from(most)) >= 2.0 * error || most == 0, "{most} {error}");
            // the largest allowed number of bits is accepted, one more is not
            assert!(most == 0 || configured(most).is_ok(), "{most}");
            assert!(matches!(configured(most + 1), Err(RouteError::Rounding { .. })), "{most}");
        }
        let text = configured(30).unwrap_err().to_string();
        assert!(text.contains("tell the errors of decryption") && text.contains("label or top:N"), "{text}");
    }
}

/// An adversary knows the image and the model, and sees rounded scores. It computes the error of
/// decryption exactly if the rounding is fine, and learns nothing about it under an allowed
/// rounding.
#[test]
fn fault_37_an_allowed_rounding_tells_no_errors_over_a_history_and_a_refused_one_tells_all() {
    let (model, parameters) = (Model::digits().unwrap(), set("infer-f"));
    let route = Route::new(Combination::EnclaveUserData, &parameters);
    let setup = Setup { route, parameters: parameters.clone(), model: model.clone() };
    let Err(RouteError::Rounding { most, .. }) = setup.configuration(OutputPolicy::Rounded(30), 1, 1) else {
        panic!("an exact rounding")
    };
    let images: Vec<Vec<u8>> = (0..30).map(|i| draw((i % 10) as u8, &STYLES[i / 10 % 6])).collect();
    let compiled = Compiled::new(&model, "wide", &parameters, Options::PLAIN_WEIGHTS).unwrap();
    let found = encrypted(compiled, &images);
    let round = |x: f64, bits: i32| (x * 2f64.powi(bits)).round() / 2f64.powi(bits);
    let (mut changed, mut exact, mut all) = (0, 0, 0);
    for (logits, image) in found.iter().zip(&images) {
        for (logit, plain) in logits.iter().zip(model.forward(image).unwrap()) {
            let (allowed, refused) = (round(*logit, most.into()), round(*logit, 30));
            // what the adversary can compute without the answer
            let guessed = round(plain, most.into());
            changed += usize::from(allowed != guessed);
            assert!((allowed - guessed).abs() <= 2f64.powi(-i32::from(most)), "the same, or the next");
            let error = logit - plain;
            exact += usize::from((refused - plain - error).abs() < 2f64.powi(-30) && error.abs() > 2f64.powi(-20));
            all += 1;
        }
    }
    println!("rounded:{most}: {changed} of {all} scores changed; rounded:30: {exact} errors known");
    assert!(changed * 50 <= all, "{changed} of {all}");
    assert!(exact * 10 >= all * 9, "{exact} of {all}");
}

/// The card of the digits' model, a client, and a server's answer for a three.
fn answered() -> (Card, Client, Vec<Ciphertext>) {
    let compiled = Compiled::new(&Model::digits().unwrap(), "wide", &set("infer-f"), Options::PLAIN_WEIGHTS).unwrap();
    let service = Service::new(compiled, 1 << 30).unwrap();
    let card = service.card().clone();
    let client = Client::new(card.clone(), &mut rng(1)).unwrap();
    let session = service.session(client.keys(&mut rng(2)).unwrap()).unwrap();
    let sent = client.encrypt(&Model::numbers(&draw(3, &STYLES[0])), &mut rng(5)).unwrap();
    let answer = session.run(sent.iter().map(SeededCiphertext::expand).collect(), &mut rng(6)).unwrap();
    (card, client, answer)
}

#[test]
fn fault_37_a_client_is_told_that_fine_scores_are_exact_ones() {
    let (_, client, answer) = answered();
    let Err(ClientError::Bits { most, found: 30 }) = client.decrypt(&answer, Output::Rounded(30)) else {
        panic!("exact logits as rounded ones")
    };
    assert!((4..16).contains(&most), "{most}");
    assert!(client.decrypt(&answer, Output::Rounded(most)).is_ok());
    assert_eq!(client.decrypt(&answer, Output::Rounded(most + 1)), Err(ClientError::Bits { most, found: most + 1 }));
}

/// `rounded:0` was accepted where the errors are larger than its steps.
#[test]
fn fault_37_where_whole_numbers_hide_nothing_no_rounding_is_taken() {
    let (card, client, answer) = answered();
    // the same key, for a model whose logits are 2^60 times the decrypted numbers
    let coarse = Client::new(Card { logit_bits: 60, ..card }, &mut rng(1)).unwrap();
    for found in [0, 1, 30] {
        let refused = coarse.decrypt(&answer, Output::Rounded(found));
        assert_eq!(refused, Err(ClientError::NoBits { found }));
    }
    assert_eq!(coarse.decrypt(&answer, Output::Label), client.decrypt(&answer, Output::Label));
    assert!(client.decrypt(&answer, Output::Rounded(0)).is_ok());
}

/// `keygen` wrote keys that `encrypt` rejected.
#[test]
fn fault_38_a_key_that_is_made_is_a_key_that_is_read() {
    let model = Model::digits().unwrap();
    let mut refused = 0;
    for named in NamedSet::ALL.into_iter().filter(|set| set.plaintext_modulus.is_none()) {
        let Ok(parameters) = named.parameters() else { continue };
        for layout in ["wide", "balanced", "compact", "dense", "paper"] {
            let Ok(compiled) = Compiled::new(&model, layout, &parameters, Options::PLAIN_WEIGHTS) else { continue };
            let card = compiled.card();
            let read = Card::decode(&card.encode()).is_ok_and(|read| read.encode() == card.encode());
            println!("{} {layout}: {:?}", named.name, card.check());
            assert_eq!(card.check().is_ok(), read, "{} {layout}", named.name);
            refused += usize::from(!read);
        }
    }
    println!("{refused} refused");
    // enough keys to exceed the limit: rejected before the first one is made
    let compiled = Compiled::new(&model, "wide", &set("ckks-b"), Options::PLAIN_WEIGHTS).unwrap();
    let mut card = compiled.card();
    card.keys = (1..=800).map(|steps| Input::Rotation { steps, level: 12 }).collect();
    let error = match Holder::generate(card.clone(), model.digest(), &mut rng(1)) {
        Err(HolderError::Card(error @ CardError::Keys { .. })) => error,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert!(error.to_string().contains(&MAX_KEYS_BYTES.to_string()) && error.to_string().contains("layout"), "{error}");
    // and a card at the limits makes a holder that can be read again
    card.keys.truncate(1);
    let holder = Holder::generate(card, model.digest(), &mut rng(1)).unwrap();
    assert_eq!(Holder::decode(&holder.encode()).unwrap().encode()[..], holder.encode()[..]);
    // too many ciphertexts for a message
    let mut card = compiled.card();
    card.places = vec![card.places[0].clone(); 65];
    assert!(matches!(Holder::generate(card, model.digest(), &mut rng(1)), Err(HolderError::Card(_))));
}
