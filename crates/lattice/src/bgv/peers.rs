//! The scheme against answers of Lattigo and OpenFHE: their ciphertexts decrypt to what they hold,
//! and our evaluator does to them what theirs does.
//!
//! OpenFHE keeps a message as we do, `m + t e mod Q`, with primes that are 1 modulo `t`. Lattigo
//! keeps it as `m/t mod Q` with an error of 1, not `t`. A product by `t` makes it one of ours, and
//! the factor is its scale.
//!
//! So do Lattigo's evaluation keys: times `t`, with errors that are multiples of `t`, they switch
//! the last part of **Lattigo's** ciphertext, and the result is `t` times Lattigo's.

use super::*;
use crate::ring::Poly;
use crate::rlwe;
use crate::rlwe::known_answers::{Answers, largest};
use crate::rlwe::tests::rng;

const ALL: [&str; 9] =
    ["fresh-a", "fresh-b", "product", "relinearised", "rotated1", "rotated2", "rotated-5", "swapped", "switched"];

fn ciphertext(answers: &Answers, name: &str) -> Ciphertext {
    let (mut inner, factor) = answers.ciphertext(name);
    if answers.name.starts_with("lattigo") {
        inner.scale_assign(answers.parameters.error_factor() as i64);
    }
    let mut ciphertext = Ciphertext::new(inner, factor, 0.0);
    ciphertext.declare_noise(60.0);
    ciphertext
}

fn decrypted(answers: &Answers, ciphertext: &Ciphertext) -> Plaintext {
    Decryptor::new(&answers.ternary_secret()).unwrap().decrypt_measured(ciphertext).unwrap()
}

/// The slots of the inputs, as the generator fills them.
fn inputs(answers: &Answers) -> [Vec<i64>; 2] {
    let t = answers.parameters.error_factor() as i64;
    let count = 0..answers.parameters.degree() as i64;
    let a = count.clone().map(|i| (i * i * 7 + i * 3) % t - t / 2).collect();
    [a, count.map(|i| t / 2 - (i * 11 + 5) % t).collect()]
}

/// Both rows turned to the left.
fn turned(slots: &[i64], steps: i64) -> Vec<i64> {
    let half = slots.len() / 2;
    let mut rows = slots.to_vec();
    rows.chunks_mut(half).for_each(|row| row.rotate_left(steps.rem_euclid(half as i64) as usize));
    rows
}

fn expected(answers: &Answers, name: &str) -> Vec<i64> {
    let ([a, b], t) = (inputs(answers), answers.parameters.error_factor() as i64);
    let centred = |value: i64| (value + t / 2).rem_euclid(t) - t / 2;
    let product: Vec<i64> = a.iter().zip(&b).map(|(a, b)| centred(a * b)).collect();
    match name {
        "fresh-a" => a,
        "fresh-b" => b,
        "product" | "relinearised" | "switched" => product,
        "swapped" => [&a[a.len() / 2..], &a[..a.len() / 2]].concat(),
        "product-rotated-5" => turned(&product, -5),
        _ => turned(&a, name.strip_prefix("rotated").unwrap().parse().unwrap()),
    }
}

#[test]
fn ciphertexts_of_others_decrypt_to_what_they_hold() {
    // 64 slots modulo 257 with every step, and degrees and moduli of named sets: the steps of one
    // (`search-17`), and the end of a circuit (`bgv-c`)
    let without_swap: Vec<&str> = ALL.into_iter().filter(|name| *name != "swapped").collect();
    let steps = ["fresh-a", "fresh-b", "product", "relinearised", "rotated-5", "switched"];
    for (file, names) in [
        ("lattigo-bgv-64", &ALL[..]),
        ("lattigo-bgv-4096", &steps),
        ("lattigo-bgv-16384", &["product-rotated-5"]),
        ("openfhe-bgv-64", &without_swap),
        ("openfhe-bgv-16384", &["product-rotated-5"]),
    ] {
        let answers = Answers::read(file);
        let encoder = Encoder::new(&answers.parameters).unwrap();
        assert_eq!(answers.all("ciphertext").count(), names.len());
        for name in names {
            let found = encoder.decode(&decrypted(&answers, &ciphertext(&answers, name))).unwrap();
            assert_eq!(found, expected(&answers, name), "{file}, {name}");
            if let Some(slots) = answers.all("slots").find(|fields| fields[0] == **name) {
                let theirs: Vec<i64> = slots[1].split(',').map(|text| text.parse().unwrap()).collect();
                assert_eq!(found, theirs, "{file}, {name}: what they decrypted");
            }
        }
    }
}

#[test]
fn our_evaluator_does_to_lattigos_ciphertexts_what_lattigos_does() {
    evaluate_as("lattigo-bgv-64");
    evaluate_as("lattigo-bgv-4096");
}

/// Lattigo's ciphertext with the last part as it is, and the others times `t`.
fn for_lattigos_keys(answers: &Answers, name: &str) -> Ciphertext {
    let (inner, factor) = answers.ciphertext(name);
    let t = answers.parameters.error_factor() as i64;
    let mut parts = inner.parts().to_vec();
    let last = parts.len() - 1;
    parts[..last].iter_mut().for_each(|part| part.scale_assign(t));
    let mut ciphertext = Ciphertext::new(rlwe::Ciphertext::new(&answers.parameters, None, parts), factor, 0.0);
    ciphertext.declare_noise(60.0);
    ciphertext
}

#[test]
fn our_evaluator_switches_with_lattigos_keys() {
    for (file, steps) in [("lattigo-bgv-64", &[1, 2, -5][..]), ("lattigo-bgv-4096", &[-5])] {
        let answers = Answers::read(file);
        let t = answers.parameters.error_factor() as i64;
        let keys = EvaluationKeys::from_inner(&answers.parameters, answers.lattigos_keys(steps, t));
        let evaluator = Evaluator::new(&answers.parameters).unwrap();
        let same = |ours: &Ciphertext, name: &str| {
            let theirs = ciphertext(&answers, name);
            assert_eq!(decrypted(&answers, ours).coefficients(), decrypted(&answers, &theirs).coefficients(), "{name}");
            // both have the same message, and errors of two switches
            let secret = answers.ternary_secret();
            let [mut ours, theirs] = [ours, &theirs].map(|one| Poly::clone(&secret.phase_values(&one.inner)));
            ours.sub_assign(&theirs);
            let off = largest(ours) / t.unsigned_abs();
            assert!(off < 1 << 20, "{file}, {name}: {off} times t");
        };
        same(&evaluator.relinearize(&for_lattigos_keys(&answers, "product"), &keys).unwrap(), "relinearised");
        for step in steps {
            let rotated = evaluator.rotate(&for_lattigos_keys(&answers, "fresh-a"), *step, &keys).unwrap();
            same(&rotated, &format!("rotated{step}"));
        }
        // keys that are not times t leave nothing of the message
        let wrong = EvaluationKeys::from_inner(&answers.parameters, answers.lattigos_keys(steps, 1));
        let rotated = evaluator.rotate(&for_lattigos_keys(&answers, "fresh-a"), -5, &wrong).unwrap();
        let found = Decryptor::new(&answers.ternary_secret()).unwrap().decrypt_measured(&rotated).map(drop);
        assert_eq!(found, Err(DecryptError::Noise), "{file}");
    }
}

#[test]
fn our_evaluator_does_to_openfhes_ciphertexts_what_openfhes_does() {
    evaluate_as("openfhe-bgv-64");
}

fn evaluate_as(file: &str) {
    let answers = Answers::read(file);
    let (secret, mut rng, top) = (answers.ternary_secret(), rng(22), answers.parameters.data_primes());
    let evaluator = Evaluator::new(&answers.parameters).unwrap();
    let mut keys = EvaluationKeys::new(&answers.parameters).with_relinearization(&secret, top, &mut rng).unwrap();
    let of = |name: &str| ciphertext(&answers, name);
    let same = |ours: &Ciphertext, name: &str| {
        let [ours, theirs] = [ours, &of(name)].map(|one| decrypted(&answers, one));
        assert_eq!(ours.coefficients(), theirs.coefficients(), "{name}");
    };
    same(&evaluator.tensor(&of("fresh-a"), &of("fresh-b")).unwrap(), "product");
    same(&evaluator.relinearize(&of("product"), &keys).unwrap(), "relinearised");
    let switched = evaluator.to_level(&of("relinearised"), top - 1).unwrap();
    assert_eq!(switched.factor(), of("switched").factor());
    same(&switched, "switched");
    let has = |name: &str| answers.all("ciphertext").any(|fields| fields[0] == name);
    if has("swapped") {
        keys.add_swap(&secret, top, &mut rng).unwrap();
        same(&evaluator.swap_rows(&of("fresh-a"), &keys).unwrap(), "swapped");
    }
    let steps: Vec<i64> = [1, 2, -5].into_iter().filter(|steps| has(&format!("rotated{steps}"))).collect();
    assert!(steps.contains(&-5));
    for steps in steps {
        keys.add_rotation(&secret, steps, top, &mut rng).unwrap();
        same(&evaluator.rotate(&of("fresh-a"), steps, &keys).unwrap(), &format!("rotated{steps}"));
    }
}
