//! Encrypted runs: decrypted results equal those of the plain network within the stated error;
//! unsuitable models and messages are rejected.

#![allow(clippy::print_stdout, reason = "measurements")]

use crate::world::{convolution, dense, digits, distance, image, label, logits, plain, rng, small};
use tobari_engine::CkksEngine;
use tobari_infer::client::{Client, ClientError, Output};
use tobari_infer::compile::{self, CompileError, Compiled, Flow, Options};
use tobari_infer::precision::{PrecisionError, Ranges, report};
use tobari_infer::program::Input;
use tobari_infer::server::{Constants, ServeError, Service, encrypt_weights};
use tobari_infer::{self as infer, Model, Volume, messages};
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, EvaluationKeys, Scale, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire::LatticeWireError;
use tobari_plan::check::labels;
use tobari_plan::engine::Engine;
use tobari_plan::program::Encoding;
use tobari_plan::site::Secrecy;

/// Bytes for encoded weights.
const MEMORY: u64 = 1 << 30;

fn set(name: &str) -> LatticeParameters {
    NamedSet::from_name(name).unwrap().parameters().unwrap()
}

struct World {
    model: Model,
    service: Service,
    client: Client,
}

impl World {
    fn new(model: Model, layout: &str, parameters: &LatticeParameters, options: Options, seed: u64) -> Self {
        let service = Service::new(Compiled::new(&model, layout, parameters, options).unwrap(), MEMORY).unwrap();
        let client = Client::new(service.card().clone(), &mut rng(seed)).unwrap();
        Self { model, service, client }
    }

    fn keys(&self) -> Vec<(Input, EvaluationKeys)> {
        self.client.keys(&mut rng(100)).unwrap()
    }

    fn weights(&self) -> Constants {
        encrypt_weights(self.service.compiled(), self.client.secret(), &mut rng(101)).unwrap()
    }

    fn encrypt(&self, image: &[f64]) -> Vec<Ciphertext> {
        self.client.encrypt(image, &mut rng(102)).unwrap().iter().map(SeededCiphertext::expand).collect()
    }
}

/// The largest error of some images' logits, divided by `2^logit_bits`, and the shortest time of
/// each stage over all runs, in seconds.
fn run(world: &World, images: u64) -> (f64, Vec<(String, f64)>) {
    let session = match world.service.compiled().options().encrypted {
        true => world.service.session_with(world.keys(), world.weights()).unwrap(),
        false => world.service.session(world.keys()).unwrap(),
    };
    let (mut error, mut least): (f64, Vec<(String, f64)>) = (0.0, Vec::new());
    let start = std::time::Instant::now();
    for seed in 0..images {
        let image = image(&world.model, seed);
        let mut clock = || start.elapsed().as_secs_f64();
        let (answer, seconds) = session.run_timed(world.encrypt(&image), &mut rng(seed), &mut clock).unwrap();
        let told = world.client.decrypt(&answer, Output::Logits).unwrap();
        let expected = logits(&world.model, &image);
        error = error.max(distance(&told.logits, &expected));
        let second = |skip: usize| {
            expected.iter().enumerate().filter(|(i, _)| *i != skip).map(|(_, x)| *x).fold(f64::MIN, f64::max)
        };
        let best = label(&expected);
        let gap = expected[best] - second(best);
        if gap > 2.0 * error {
            assert_eq!(told.labels[0], best);
            assert_eq!(world.client.decrypt(&answer, Output::Label).unwrap().labels, [best]);
        }
        if least.is_empty() {
            least = seconds;
        } else {
            least.iter_mut().zip(seconds).for_each(|(least, found)| least.1 = least.1.min(found.1));
        }
    }
    (error / 2f64.powi(world.model.logit_bits()), least)
}

/// Runs a model and compares the error with the prediction.
fn held(name: &str, parameters: &LatticeParameters, model: Model, encrypted: bool) {
    let options = Options { flow: Flow::Through, encrypted };
    let world = World::new(model, name, parameters, options, 1);
    let images: Vec<Vec<f64>> = (0..4).map(|seed| image(&world.model, seed)).collect();
    let ranges = Ranges::of_images(&world.model, images.iter().map(Vec::as_slice), 1.1);
    let reports = report(world.service.compiled(), &world.model, &ranges, f64::INFINITY).unwrap();
    let (error, _) = run(&world, 4);
    let last = reports.last().unwrap();
    println!("{name} {encrypted}: error {error:.2e}, foretold {:.2e}, {:?}", last.error, reports);
    assert!(error < last.error, "{name}: {error:e}, foretold {:e}", last.error);
    assert!(error > last.error / 200.0, "{name}: a bound that tells something: {error:e}, {:e}", last.error);
    assert!(reports.iter().all(|report| report.headroom_bits > 2.0));
}

#[test]
fn the_papers_network_comes_out_right_in_every_layout() {
    for (name, set) in [
        ("balanced", "infer-s"),
        ("balanced", "infer-f"),
        ("wide", "infer-f"),
        ("wide", "infer-s"),
        ("compact", "infer-s"),
        ("dense", "infer-s"),
    ] {
        held(name, &self::set(set), digits(1), false);
    }
}

#[test]
fn encrypted_weights_give_the_same() {
    for (name, set) in [("balanced", "infer-s"), ("balanced", "infer-f"), ("wide", "infer-f")] {
        held(name, &self::set(set), digits(2), true);
    }
}

/// Parameters with 256 slots, and without security.
fn toy() -> LatticeParameters {
    LatticeParameters::insecure_of_sizes(512, &[50, 26, 26, 26, 26], &[50], 5, Plaintext::Approximate).unwrap()
}

#[test]
fn small_networks_come_out_right_in_every_layout_and_with_encrypted_weights() {
    for name in ["compact", "balanced", "wide", "paper", "dense"] {
        for encrypted in [false, true] {
            held(name, &toy(), small(3), encrypted);
        }
    }
}

#[test]
fn one_channel_is_a_network_too() {
    let rng = &mut rng(3);
    let first = convolution("conv1", Volume { channels: 1, height: 9, width: 9 }, 1, 3, 2, rng);
    let second = convolution("conv2", first.output, 1, 2, 2, rng);
    let third = dense("fc", second.output, 2, rng);
    let model = Model::new(vec![first, second, third], 0).unwrap();
    for name in ["compact", "balanced", "wide", "paper", "dense"] {
        held(name, &toy(), model.clone(), false);
    }
}

/// Simulates an enclave between the stages: it decrypts, folds if the folds are left to it,
/// squares, and encrypts again.
fn with_resets(model: &Model, name: &str, parameters: &LatticeParameters, fold: bool, image: &[f64]) -> Vec<f64> {
    let options = Options { flow: Flow::Reset { fold }, encrypted: false };
    let world = World::new(model.clone(), name, parameters, options, 5);
    let session = world.service.session(world.keys()).unwrap();
    let encoder = Encoder::new(parameters).unwrap();
    let decryptor = Decryptor::new(world.client.secret(), &encoder).unwrap();
    let compiled = world.service.compiled();
    let mut numbers = image.to_vec();
    for (number, stage) in model.stages().iter().enumerate() {
        let linear = compiled.stage(number).linear;
        let scale = &compiled.scales(number).input;
        let fresh = |slots: &Vec<f64>| {
            encoder
                .encode(slots, scale, 1)
                .unwrap()
                .encrypt_seeded(world.client.secret(), &mut rng(6))
                .unwrap()
                .expand()
        };
        let values = linear.place(&numbers).iter().map(fresh).collect();
        let results = session.stage(number, values).unwrap();
        let mut slots: Vec<Vec<f64>> = results.iter().map(|part| decryptor.decrypt(part).unwrap().to_vec()).collect();
        if !fold {
            linear.fold(&mut slots);
        }
        let sums = linear.read(&slots, stage.output.len());
        let last = number + 1 == model.stages().len();
        numbers = sums.iter().map(|u| if last { *u } else { u * u }).collect();
    }
    numbers.iter().map(|u| u * 2f64.powi(model.logit_bits())).collect()
}

#[test]
fn stages_run_one_by_one_between_which_an_enclave_squares() {
    for (name, fold) in [("wide", false), ("wide", true), ("balanced", false), ("compact", false), ("paper", true)] {
        let model = small(4);
        let image = image(&model, 1);
        let found = with_resets(&model, name, &toy(), fold, &image);
        let error = distance(&found, &logits(&model, &image));
        assert!(error < 1e-2, "{name} {fold}: {error:e}");
    }
    let model = digits(4);
    let image = image(&model, 1);
    let found = with_resets(&model, "wide", &set("infer-f"), false, &image);
    let error = distance(&found, &logits(&model, &image)) / 8.0;
    assert!(error < 1e-2, "{error:e}");
}

#[test]
fn slots_that_are_no_logits_are_hidden_and_logits_are_not_moved() {
    let world = World::new(small(5), "balanced", &toy(), Options::PLAIN_WEIGHTS, 7);
    let session = world.service.session(world.keys()).unwrap();
    let image = image(&world.model, 2);
    let encrypted = world.encrypt(&image);
    let answers: Vec<Ciphertext> =
        (0..2).map(|seed| session.run(encrypted.clone(), &mut rng(seed)).unwrap().remove(0)).collect();
    let encoder = Encoder::new(world.service.compiled().parameters()).unwrap();
    let decryptor = Decryptor::new(world.client.secret(), &encoder).unwrap();
    let [a, b] = [0, 1].map(|i| decryptor.decrypt(&answers[i]).unwrap());
    let logits: Vec<usize> = world.client.card().logits.iter().map(|(_, slot)| *slot).collect();
    let expected = plain(&world.model, &image).pop().unwrap();
    for slot in 0..a.len() {
        match logits.iter().position(|logit| *logit == slot) {
            Some(class) => assert!((a[slot] - expected[class]).abs() < 1e-2 && (a[slot] - b[slot]).abs() < 1e-6),
            None => assert!((a[slot] - b[slot]).abs() > 1e-4, "{slot}"),
        }
    }
    // as wide as possible: the numbers spread over hundreds
    let spread = a.iter().fold(0.0f64, |most, x| x.abs().max(most));
    assert!(spread > 100.0 * expected.iter().fold(0.0f64, |most, x| x.abs().max(most)), "{spread}");
}

#[test]
fn answers_tell_as_much_as_is_asked_and_nothing_under_another_key() {
    let world = World::new(small(6), "wide", &toy(), Options::PLAIN_WEIGHTS, 8);
    let session = world.service.session(world.keys()).unwrap();
    let image = image(&world.model, 3);
    let answer = session.run(world.encrypt(&image), &mut rng(0)).unwrap();
    let all = world.client.decrypt(&answer, Output::Logits).unwrap();
    let expected = logits(&world.model, &image);
    let mut sorted: Vec<usize> = (0..6).collect();
    sorted.sort_by(|a, b| expected[*b].total_cmp(&expected[*a]));
    assert_eq!(all.labels, sorted);
    assert_eq!(Output::default(), Output::Label);
    let told = |output| world.client.decrypt(&answer, output).unwrap();
    assert_eq!((told(Output::Label).labels, told(Output::Label).logits), (sorted[..1].to_vec(), vec![]));
    assert_eq!((told(Output::Top(3)).labels, told(Output::Top(3)).logits), (sorted[..3].to_vec(), vec![]));
    let rounded = told(Output::Rounded(2)).logits;
    assert!(rounded.iter().zip(&expected).all(|(a, b)| (a * 4.0).fract() == 0.0 && (a - b).abs() < 0.15));
    for (output, error) in [
        (Output::Top(0), ClientError::Labels { most: 6, found: 0 }),
        (Output::Top(7), ClientError::Labels { most: 6, found: 7 }),
        (Output::Rounded(53), ClientError::Bits { most: 16, found: 53 }),
    ] {
        assert_eq!(world.client.decrypt(&answer, output), Err(error));
    }
    // another client's key, and an image returned as an answer
    let other = Client::new(world.service.card().clone(), &mut rng(9)).unwrap();
    assert!(matches!(other.decrypt(&answer, Output::Label), Err(ClientError::Noise { .. })));
    let question = world.encrypt(&image);
    assert!(matches!(world.client.decrypt(&question[..1], Output::Label), Err(ClientError::Answer { .. })));
    assert!(matches!(world.client.decrypt(&[], Output::Label), Err(ClientError::Answer { .. })));
    // keys of one client are useless for another
    let stranger = world.service.session(other.keys(&mut rng(1)).unwrap()).unwrap();
    let nonsense = stranger.run(question, &mut rng(0)).unwrap();
    assert!(matches!(world.client.decrypt(&nonsense, Output::Label), Err(ClientError::Noise { .. })));
}

#[test]
fn what_does_not_fit_is_refused() {
    let world = World::new(small(7), "balanced", &toy(), Options::PLAIN_WEIGHTS, 10);
    let image = image(&world.model, 4);
    let rng = &mut rng(11);
    let client = &world.client;
    assert_eq!(client.encrypt(&image[1..], rng).err(), Some(ClientError::Pixels { expected: 81, found: 80 }));
    for bad in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
        let mut other = image.clone();
        other[5] = bad;
        assert_eq!(client.encrypt(&other, rng).err(), Some(ClientError::Range));
    }
    // keys: one is missing, one has another level, one is of other parameters
    for missing in 0..world.keys().len() {
        let mut keys = world.keys();
        let (input, _) = keys.remove(missing);
        let error = world.service.session(keys).map(|_| ()).unwrap_err();
        assert!(matches!(&error, ServeError::Key { name } if *name == compile::name(input)), "{error}");
    }
    let secret = client.secret();
    let mut keys = world.keys();
    let (input, key) = keys.iter_mut().find(|(input, _)| matches!(input, Input::Rotation { level: 4, .. })).unwrap();
    let Input::Rotation { steps, .. } = *input else { unreachable!() };
    *key = EvaluationKeys::new(secret.parameters());
    key.add_rotation(secret, steps, 4, rng).unwrap();
    assert!(matches!(world.service.session(keys).map(|_| ()), Err(ServeError::Key { .. })));
    let other = LatticeParameters::insecure_of_sizes(512, &[50, 27, 27, 27, 27], &[50], 5, Plaintext::Approximate);
    let strange = World::new(small(7), "balanced", &other.unwrap(), Options::PLAIN_WEIGHTS, 10);
    assert!(matches!(world.service.session(strange.keys()).map(|_| ()), Err(ServeError::Key { .. })));
    assert!(
        Client::with_secret(
            client.card().clone(),
            SecretKey::from_seed(strange.service.compiled().parameters(), Seed::random(rng))
        )
        .is_err()
    );
    // ciphertexts: too few, over other primes, at another scale, of other parameters
    let session = world.service.session(world.keys()).unwrap();
    let good = world.encrypt(&image);
    assert!(matches!(session.run(good[1..].to_vec(), rng), Err(ServeError::Count { .. })));
    let encoder = Encoder::new(world.service.compiled().parameters()).unwrap();
    let with = |scale, primes| {
        let plaintext = encoder.encode(&[0.5], &Scale::power_of_two(scale), primes).unwrap();
        plaintext.encrypt_seeded(secret, &mut crate::world::rng(1)).unwrap().expand()
    };
    for bad in [with(26, 4), with(27, 5), strange.encrypt(&image)[0].clone()] {
        let mut values = good.clone();
        values[0] = bad;
        assert!(matches!(session.run(values, rng), Err(ServeError::Ciphertext { .. })));
    }
    assert!(matches!(session.stage(3, good), Err(ServeError::Stage { most: 3, found: 3 })));
    // weights of the other kind
    assert!(matches!(
        world.service.session_with(world.keys(), Constants::new()).map(|_| ()),
        Err(ServeError::Weights { .. })
    ));
    assert!(encrypt_weights(world.service.compiled(), secret, rng).is_err());
    let hidden = World::new(small(7), "balanced", &toy(), Options::ENCRYPTED_WEIGHTS, 12);
    assert!(matches!(hidden.service.session(hidden.keys()).map(|_| ()), Err(ServeError::Weights { .. })));
    let mut weights = hidden.weights();
    weights.pop_first();
    assert!(matches!(hidden.service.session_with(hidden.keys(), weights).map(|_| ()), Err(ServeError::Weights { .. })));
}

#[test]
fn models_and_parameters_that_do_not_go_together_are_refused_by_name() {
    let few = LatticeParameters::insecure_of_sizes(512, &[50, 26, 26, 26], &[50], 4, Plaintext::Approximate).unwrap();
    let none =
        LatticeParameters::insecure_of_sizes(512, &[50, 26, 26, 26, 26], &[], 5, Plaintext::Approximate).unwrap();
    for parameters in [&few, &none, &set("search-hidden")] {
        let error = Compiled::new(&small(1), "wide", parameters, Options::PLAIN_WEIGHTS).map(|_| ()).unwrap_err();
        assert!(matches!(error, CompileError::Parameters { primes: 5 }), "{error}");
    }
    assert!(matches!(
        Compiled::new(&small(1), "square", &toy(), Options::PLAIN_WEIGHTS).map(|_| ()),
        Err(CompileError::Layout(_))
    ));
    // numbers that could overflow, and errors that are too large
    let model = small(1);
    let compiled = Compiled::new(&model, "wide", &toy(), Options::PLAIN_WEIGHTS).unwrap();
    let stage = |ranges: &[f64], most| match report(&compiled, &model, &Ranges(ranges.to_vec()), most) {
        Err(PrecisionError::Range { stage, .. }) => format!("range of {stage}"),
        Err(PrecisionError::Error { stage, .. }) => format!("error of {stage}"),
        other => format!("{other:?}"),
    };
    assert_eq!(stage(&[1.0, 1.0, 100.0], 1.0), "range of fc");
    assert_eq!(stage(&[1.0, 1e8, 1.0], 1.0), "range of conv2");
    assert_eq!(stage(&[1.0, 1.0, 1.0], 1e-9), "error of conv1");
    assert_eq!(
        report(&compiled, &model, &Ranges(vec![1.0]), 1.0),
        Err(PrecisionError::Ranges { expected: 3, found: 1 })
    );
    // the worst-case range is an upper bound of the ranges of images
    let (worst, found) =
        (Ranges::worst(&model), Ranges::of_images(&model, [&image(&model, 1)[..], &[1.0; 81][..]], 1.0));
    assert!(worst.0.iter().zip(&found.0).all(|(worst, found)| worst >= found), "{worst:?} {found:?}");
}

#[test]
fn recorded_programs_are_sound_and_weights_never_reach_another_site() {
    for encrypted in [false, true] {
        let options = Options { flow: Flow::Through, encrypted };
        let compiled = Compiled::new(&small(2), "balanced", &toy(), options).unwrap();
        let engine = CkksEngine::new(&toy()).unwrap();
        for number in 0..compiled.len() {
            let (program, inputs) = compiled.record(&engine, number).unwrap();
            assert_eq!(program.inputs().len(), inputs.len());
            let labels = labels(&program).unwrap();
            let output = &labels[program.outputs()[0].index()];
            assert_eq!(output.secrecy, Secrecy::Encrypted { key: compile::client() });
            assert_eq!(output.noise_of.is_empty(), encrypted);
            for (input, value) in inputs.iter().zip(program.values()) {
                assert_eq!(compiled.shape(&engine, *input).unwrap(), *program.shape(value));
            }
            // weights that are exported and imported again are unchanged
            for input in inputs.iter().filter(|input| !encrypted && compiled.slots(**input).is_some()) {
                let (value, shape) =
                    (compiled.encode(&engine, *input).unwrap(), compiled.shape(&engine, *input).unwrap());
                let mut bytes = vec![0; shape.raw as usize];
                engine.export(&value, &shape, Encoding::Raw, &mut bytes).unwrap();
                let back = engine.import(&shape, Encoding::Raw, &bytes).unwrap();
                assert_eq!(engine.shape_of(&back).unwrap(), shape);
            }
        }
        let segments = compiled.segments(&engine).unwrap();
        let ends: Vec<_> = segments.iter().map(|segment| &segment.variants[0]).collect();
        assert!(ends.windows(2).all(|pair| pair[0].gives.serves(&pair[1].takes)));
    }
}

#[test]
fn messages_come_back_and_changed_bytes_are_refused_or_another_message() {
    let world = World::new(small(8), "balanced", &toy(), Options::PLAIN_WEIGHTS, 13);
    let card = world.client.card();
    let image = world.client.encrypt(&image(&world.model, 5), &mut rng(1)).unwrap();
    let (keys, question) = (messages::encode_keys(&world.keys()), messages::encode_question(&image));
    assert_eq!(keys.len(), messages::keys_bytes(card));
    let decoded = messages::decode_keys(&keys, card).unwrap();
    assert_eq!(messages::encode_keys(&decoded), keys);
    let session = world.service.session(decoded).unwrap();
    let sent = messages::decode_question(&question, card).unwrap();
    let answer = session.run(sent.iter().map(SeededCiphertext::expand).collect(), &mut rng(2)).unwrap();
    let answer = messages::encode_answer(&answer).unwrap();
    let found = world.client.decrypt(&messages::decode_answer(&answer, card).unwrap(), Output::Label);
    assert!(found.is_ok());
    for (bytes, count) in [(&keys, 0), (&question, image.len() as u8), (&answer, 1)] {
        let refused = |bytes: &[u8]| {
            messages::decode_keys(bytes, card).is_err()
                && messages::decode_question(bytes, card).is_err()
                && messages::decode_answer(bytes, card).is_err()
        };
        assert!(!refused(bytes) && refused(&bytes[..bytes.len() - 1]) && refused(&[bytes, &[0][..]].concat()));
        assert!((0..3).all(|length| refused(&bytes[..length])));
        if count > 0 {
            for wrong in [0, count - 1, count + 1, 255] {
                let mut changed = bytes.clone();
                changed[2] = wrong;
                assert!(refused(&changed));
            }
        }
    }
    // objects with the identity of a key: all messages of a card have one length
    let (mut keys_of, mut asked, mut answered) = (keys.clone(), question.clone(), answer.clone());
    (keys_of[2], asked[3], answered[3]) = (2, 2, 2);
    let refused = [
        messages::decode_keys(&keys_of, card).map(drop),
        messages::decode_question(&asked, card).map(drop),
        messages::decode_answer(&answered, card).map(drop),
    ];
    for refused in refused {
        let identity = matches!(&refused, Err(messages::MessageError::Object(LatticeWireError::Identity)));
        assert!(identity, "{refused:?}");
    }
    // a key in another's place
    let mut swapped = world.keys();
    let places: Vec<usize> =
        (0..swapped.len()).filter(|i| matches!(swapped[*i].0, Input::Rotation { level: 0, .. })).collect();
    swapped.swap(places[0], places[1]);
    let error = messages::decode_keys(&messages::encode_keys(&swapped), card).map(|_| ()).unwrap_err();
    assert!(matches!(error, messages::MessageError::Key { .. }), "{error}");
}

/// Messages of a card of four slots, also for the fuzzing corpus.
fn toy_messages() -> [Vec<u8>; 3] {
    let card = messages::toy_card().unwrap();
    let client = Client::new(card.clone(), &mut rng(1)).unwrap();
    let image = client.encrypt(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], &mut rng(2)).unwrap();
    let encoder = Encoder::new(&card.parameters).unwrap();
    let plaintext = encoder.encode(&[0.5, -0.25], &card.answer.1, 1).unwrap();
    let answer = plaintext.encrypt_seeded(client.secret(), &mut rng(3)).unwrap().expand();
    let keys = client.keys(&mut rng(4)).unwrap();
    [messages::encode_keys(&keys), messages::encode_question(&image), messages::encode_answer(&[answer]).unwrap()]
}

#[test]
fn fuzzed_messages_are_refused_or_come_back() {
    for bytes in toy_messages() {
        infer::fuzz_messages(&bytes);
        for place in 0..bytes.len() {
            infer::fuzz_messages(&bytes[..place]);
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[place] ^= 1 << bit;
                infer::fuzz_messages(&changed);
            }
        }
    }
    let card = messages::toy_card().unwrap();
    let [keys, question, answer] = toy_messages();
    assert!(messages::decode_keys(&keys, &card).is_ok() && messages::decode_question(&question, &card).is_ok());
    assert!(messages::decode_answer(&answer, &card).is_ok());
    if let Ok(folder) = std::env::var("TOBARI_INFER_CORPUS") {
        for (name, bytes) in ["keys", "question", "answer"].iter().zip([keys, question, answer]) {
            std::fs::write(format!("{folder}/{name}"), bytes).unwrap();
        }
    }
}
