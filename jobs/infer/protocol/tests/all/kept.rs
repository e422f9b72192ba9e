//! The public facts of a model and the files of clients: each has exactly one byte string, and all
//! other bytes are rejected.

#![allow(clippy::print_stdout, reason = "measurements")]

use crate::world::{digits, distance, image, label, logits, rng};
use tobari_infer::card::CardError;
use tobari_infer::client::{Client, Output};
use tobari_infer::compile::Card;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::forecast::exact;
use tobari_infer::holder::{Holder, HolderError, Sealed, SealedKind};
use tobari_infer::messages;
use tobari_infer::ready::{ORDER, SET, ready};
use tobari_infer::server::Service;
use tobari_infer::{Model, fuzz_kept};
use tobari_lattice::ckks::SeededCiphertext;
use tobari_lattice::params::{LatticeParameters, NamedSet};

fn parameters() -> LatticeParameters {
    NamedSet::from_name(SET).unwrap().parameters().unwrap()
}

fn card(model: &Model) -> Card {
    ready(model, None, &parameters()).unwrap().0.card()
}

#[test]
fn a_card_has_one_byte_string_and_whatever_else_is_refused() {
    for layout in ORDER.into_iter().filter(|layout| *layout != "compact") {
        let Ok((compiled, _)) = ready(&digits(1), Some(layout), &parameters()) else { continue };
        let card = compiled.card();
        let bytes = card.encode();
        // two sets of parameters are equal only if they are one object, so bytes are compared
        assert!(Card::decode(&bytes).unwrap().encode() == bytes, "{layout}");
        println!("{layout}: {} bytes, keys {}", bytes.len(), messages::keys_bytes(&card));
    }
    let bytes = card(&digits(1)).encode();
    for length in [0, 1, 2, 3, 20, 100, 1_000, bytes.len() - 1] {
        assert!(Card::decode(&bytes[..length]).is_err(), "{length}");
    }
    let more = [&bytes[..], &[0]].concat();
    assert!(matches!(Card::decode(&more), Err(CardError::Length { what: "the end", expected: 0, found: 9 })));
    // every byte at the head and at the end: another card, or an error, and never a panic
    let ends = (0..80.min(bytes.len())).chain(bytes.len() - 200..bytes.len());
    for place in ends {
        for change in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[place] ^= change;
            fuzz_kept(&bytes);
        }
    }
    let mut other = bytes.clone();
    other[1] = 0x32;
    assert!(Card::decode(&other).unwrap_err().to_string().contains("expected version 1 and kind 0x33"));
}

#[test]
fn a_card_cannot_ask_for_memory_beyond_its_bytes() {
    let bytes = card(&digits(1)).encode();
    // degree 2^17, and then 255 primes, in the head of the same bytes
    for (place, value) in [(6, 17), (7, 255)] {
        let mut lying = bytes.clone();
        lying[place] = value;
        let error = Card::decode(&lying).unwrap_err();
        assert_eq!(error, CardError::Malformed("parameters of at most 2^16 coefficients and 64 primes"));
    }
    assert!(Card::decode(&vec![1; (1 << 23) + 1]).is_err());
}

#[test]
fn what_a_client_may_know_of_the_weights_is_the_foretold_error() {
    let (one, other) = (digits(1), digits(2));
    assert_ne!(one.digest(), other.digest());
    let mut without = card(&other);
    without.logit_bits = card(&one).logit_bits;
    without.error = card(&one).error;
    assert_eq!(card(&one).encode(), without.encode());
    // of which a client gets three bits and an exponent
    for card in [card(&one), card(&other)] {
        assert_eq!(card.error.unwrap().to_bits() & ((1 << 50) - 1), 0, "{:?}", card.error);
    }
}

#[test]
fn a_holders_image_comes_back_as_its_logits_and_its_keys_are_always_the_same_bytes() {
    let model = digits(3);
    let (compiled, report) = ready(&model, None, &parameters()).unwrap();
    assert_eq!(compiled.layout().name(), "wide");
    let service = Service::new(compiled, 1 << 30).unwrap();
    let holder = Holder::generate(service.card().clone(), model.digest(), &mut rng(1)).unwrap();
    let again = Holder::decode(&holder.encode()).unwrap();
    let keys = again.keys().unwrap();
    assert_eq!((keys.len(), &keys), (messages::keys_bytes(service.card()), &holder.keys().unwrap()));
    let ring = service.keyring(messages::decode_keys(&keys, service.card()).unwrap()).unwrap();
    assert_eq!(ring.memory(), service.keyring_memory().unwrap(), "what is reserved is what is taken");

    let image = image(&model, 5);
    let question = holder.encrypt(&image, &mut rng(2)).unwrap();
    let sealed = Sealed::decode(SealedKind::Question, &question).unwrap();
    assert_eq!(sealed.body.len(), messages::question_bytes(service.card()));
    let values = messages::decode_question(sealed.body, service.card()).unwrap();
    let values = values.iter().map(SeededCiphertext::expand).collect();
    let answer = messages::encode_answer(&service.resume(&ring).run(values, &mut rng(3)).unwrap()).unwrap();
    assert_eq!(answer.len(), messages::answer_bytes(service.card()));
    let file = Sealed { kind: SealedKind::Answer, body: &answer, ..sealed }.encode();
    let told = again.decrypt(&file, Output::Logits).unwrap();
    let unit = 2f64.powi(model.logit_bits());
    let error = distance(&told.logits, &logits(&model, &image)) / unit;
    assert!(error < 10.0 * report.last().unwrap().error, "{error:e}");

    // another model's answer, another key's, a question, a truncated answer
    let other = Holder::generate(service.card().clone(), [7; 32], &mut rng(1)).unwrap();
    assert!(matches!(other.decrypt(&file, Output::Label), Err(HolderError::Model { .. })));
    let other = Holder::generate(service.card().clone(), model.digest(), &mut rng(9)).unwrap();
    assert!(matches!(other.decrypt(&file, Output::Label), Err(HolderError::Key { .. })));
    assert!(matches!(holder.decrypt(&question, Output::Label), Err(HolderError::Message(_))));
    for length in [0, 1, 2, 60, 66, 67, file.len() - 1] {
        assert!(holder.decrypt(&file[..length], Output::Label).is_err(), "{length}");
    }
}

#[test]
fn two_labels_that_errors_may_exchange_are_both_told() {
    let model = Model::digits().unwrap();
    let (compiled, _) = ready(&model, None, &parameters()).unwrap();
    let foretold = compiled.error().unwrap();
    let service = Service::new(compiled.clone(), 1 << 30).unwrap();
    let client = Client::new(service.card().clone(), &mut rng(1)).unwrap();
    let session = service.session(client.keys(&mut rng(2)).unwrap()).unwrap();
    let [one, other] = [3, 8].map(|digit| Model::numbers(&draw(digit, &STYLES[0])));
    let between =
        |part: f64| -> Vec<f64> { one.iter().zip(&other).map(|(a, b)| a * (1.0 - part) + b * part).collect() };
    let gap = |part: f64| {
        let mut all = logits(&model, &between(part));
        all.sort_by(|a, b| b.total_cmp(a));
        all[0] - all[1]
    };
    // mixtures of two digits, and the one where the label changes
    let (mut from, mut to) = (0.0, 1.0);
    let first = label(&logits(&model, &one));
    for _ in 0..40 {
        let middle = (from + to) / 2.0;
        match label(&logits(&model, &between(middle))) == first {
            true => from = middle,
            false => to = middle,
        }
    }
    assert!(gap(from) < 1e-6);
    let near = (0..40).map(|step| from + (f64::from(step) - 20.0) * 1e-4);
    let (mut close, mut wrong) = (0, 0);
    for part in near.chain([0.0, 1.0]) {
        let (image, gap) = (between(part.clamp(0.0, 1.0)), gap(part.clamp(0.0, 1.0)));
        let sent: Vec<_> = client.encrypt(&image, &mut rng(3)).unwrap().iter().map(SeededCiphertext::expand).collect();
        let told = client.decrypt(&session.run(sent, &mut rng(4)).unwrap(), Output::Label).unwrap();
        let right = label(&logits(&model, &image));
        match told.close {
            Some(both) => assert!(both.contains(&right) && gap < 4.0 * foretold, "{part}: {both:?}, {right}, {gap}"),
            None => {
                assert!(told.labels[0] == right && gap > 0.0, "{part}: {:?} in silence, {right}, {gap}", told.labels);
            }
        }
        close += usize::from(told.close.is_some());
        wrong += usize::from(told.labels[0] != right);
    }
    assert!(close > 5 && close < 42, "{close} close");
    println!("{close} close, {wrong} with the other label first");
}

#[test]
fn a_simulated_run_gives_the_plain_models_logits() {
    let model = digits(4);
    for layout in ["wide", "balanced"] {
        let (compiled, _) = ready(&model, Some(layout), &parameters()).unwrap();
        let image = image(&model, 6);
        let error = distance(&exact(&compiled, &image).unwrap(), &logits(&model, &image));
        assert!(error < 1e-9, "{layout}: {error:e}");
    }
}
