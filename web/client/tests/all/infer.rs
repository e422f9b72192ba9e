//! A browser's client asks the server's half about drawn digits.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::ready::{SET, ready};
use tobari_infer::server::{Keyring, Service};
use tobari_infer::{Model, messages};
use tobari_lattice::params::NamedSet;
use tobari_wasm::infer::{AskError, Asker};

/// The server's half, and the description of its model: digest and card.
fn served() -> (Service, Vec<u8>) {
    let model = Model::digits().unwrap();
    let parameters = NamedSet::from_name(SET).unwrap().parameters().unwrap();
    let (compiled, _) = ready(&model, None, &parameters).unwrap();
    let service = Service::new(compiled, 1 << 30).unwrap();
    let told = [&model.digest()[..], &service.card().encode()].concat();
    (service, told)
}

#[test]
fn drawn_digits_are_told_by_who_has_the_key_and_by_nobody_else() {
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    let (service, told) = served();
    let mut asker = Asker::new(&told, &mut rng).unwrap();
    let keys = asker.keys().unwrap();
    assert_eq!(keys, asker.keys().unwrap(), "the same bytes whenever they are made");
    let ring: Keyring = service.keyring(messages::decode_keys(&keys, service.card()).unwrap()).unwrap();
    let fixed = Model::digits().unwrap().fixed().unwrap();
    let stranger = Asker::new(&told, &mut rng).unwrap();
    let again = Asker::take_up(&asker.kept()).unwrap();
    assert_eq!(again.told().keys, asker.told().keys);
    for digit in 0..3 {
        let pixels = draw(digit, &STYLES[0]);
        let body = asker.question(&pixels, &mut rng).unwrap();
        let question = messages::decode_question(&body, service.card()).unwrap();
        let image = question.iter().map(tobari_lattice::ckks::SeededCiphertext::expand).collect();
        let answer = messages::encode_answer(&service.resume(&ring).run(image, &mut rng).unwrap()).unwrap();
        let found = asker.answer(&answer).unwrap();
        assert_eq!((found.labels.len(), found.labels[0]), (3, fixed.classify(&pixels).unwrap()));
        assert!(!found.close, "a drawn digit is far from the others");
        assert_eq!(again.answer(&answer).unwrap(), found, "a kept key reads it too");
        assert!(matches!(stranger.answer(&answer), Err(AskError::Client(_))), "another key reads noise");
    }
    assert!(asker.question(&[0; 783], &mut rng).is_err());
}

#[test]
fn what_is_no_model_no_key_and_no_answer_is_refused() {
    let mut rng = ChaCha20Rng::from_seed([6; 32]);
    let (_, told) = served();
    for wrong in [&[][..], &told[..31], &told[..told.len() - 1], &[0; 40]] {
        assert!(Asker::new(wrong, &mut rng).is_err(), "{} bytes", wrong.len());
    }
    assert!(Asker::take_up(b"TIK\x02").is_err());
    let asker = Asker::new(&told, &mut rng).unwrap();
    assert!(matches!(asker.answer(b"no answer"), Err(AskError::Message(_))));
}
