//! The scheme against answers of Lattigo and OpenFHE: encodings, decryptions, results of our
//! evaluator, and results with evaluation keys that Lattigo made.

use super::*;
use crate::ring::Poly;
use crate::rlwe::known_answers::{Answers, largest};
use crate::rlwe::tests::rng;

fn scale_of(name: &str) -> Scale {
    match name {
        "product" | "relinearised" => Scale::power_of_two(60),
        "rescaled" | "product-rotated-5" => Scale::power_of_two(60).quotient(&Scale::prime(2)).unwrap(),
        _ => Scale::power_of_two(30),
    }
}

fn ciphertext(answers: &Answers, name: &str) -> Ciphertext {
    let mut ciphertext = Ciphertext::new(answers.ciphertext(name).0, scale_of(name), None);
    ciphertext.declare(2.0);
    ciphertext
}

/// The slots of the inputs, as the generator fills them.
fn inputs(slots: usize, complex: bool) -> [Vec<Complex>; 2] {
    let of = |i: usize, period: usize, phase: usize| ((i * 13 + phase) % period) as f64 / period as f64 * 2.0 - 1.0;
    let number = |[re, im]: [(usize, usize); 2]| {
        (0..slots)
            .map(move |i| Complex { re: of(i, re.0, re.1), im: if complex { of(i, im.0, im.1) } else { 0.0 } })
            .collect()
    };
    [number([(101, 0), (89, 7)]), number([(97, 3), (83, 5)])]
}

fn expected(answers: &Answers, name: &str) -> Vec<Complex> {
    let slots = answers.parameters.degree() / 2;
    let [mut a, b] = inputs(slots, answers.name.starts_with("lattigo"));
    let mut product: Vec<Complex> = a.iter().zip(&b).map(|(a, b)| *a * *b).collect();
    match name {
        "fresh-a" => a,
        "fresh-b" => b,
        "product" | "relinearised" | "rescaled" => product,
        "conjugated" => a.iter().map(|z| z.conjugate()).collect(),
        "product-rotated-5" => {
            product.rotate_right(5);
            product
        }
        _ => {
            let steps: i64 = name.strip_prefix("rotated").unwrap().parse().unwrap();
            a.rotate_left(steps.rem_euclid(slots as i64) as usize);
            a
        }
    }
}

fn distance(found: &[Complex], expected: &[Complex]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max)
}

#[test]
fn slots_have_lattigos_polynomials() {
    let answers = Answers::read("lattigo-ckks-64");
    let encoder = Encoder::new(&answers.parameters).unwrap().within(2.0);
    for (name, slots) in ["a", "b"].iter().zip(inputs(32, true)) {
        let theirs = answers.by_coefficients(&answers.one("polynomial", name)[0], answers.parameters.ring().basis(3));
        let ours = encoder.encode_complex(&slots, &Scale::power_of_two(30), 3).unwrap();
        let mut difference = theirs.clone();
        difference.sub_assign(ours.element());
        // the last bit is the rounding of doubles
        assert!(largest(difference) <= 1 && largest(theirs) > 1 << 25, "{name}");
    }
}

#[test]
fn approximate_ciphertexts_of_others_decrypt_to_what_they_hold() {
    for (file, count, error) in [
        ("lattigo-ckks-64", 9, 2f64.powi(-18)),
        ("lattigo-ckks-16384", 1, 2f64.powi(-12)),
        ("openfhe-ckks-64", 8, 2f64.powi(-18)),
        // OpenFHE encrypts without a special prime: `B(σ_e) (1 + 2 B(σ_s))` of 2^30 is 2^-8.5
        ("openfhe-ckks-16384", 1, 2f64.powi(-9)),
    ] {
        let answers = Answers::read(file);
        let (encoder, secret) = (Encoder::new(&answers.parameters).unwrap(), answers.ternary_secret());
        let decryptor = Decryptor::new(&secret, &encoder).unwrap();
        assert_eq!(answers.all("ciphertext").count(), count);
        for fields in answers.all("ciphertext") {
            let name = &fields[0];
            let found = decryptor.decrypt_complex(&ciphertext(&answers, name)).unwrap();
            let wrong = distance(&found, &expected(&answers, name));
            assert!(wrong < error, "{file}, {name}: {wrong:e}");
            if let Some(fields) = answers.all("scale").find(|fields| fields[0] == *name) {
                let (ours, theirs) = (scale_of(name).to_f64(&answers.parameters).unwrap(), &fields[1]);
                assert!((ours / theirs.parse::<f64>().unwrap() - 1.0).abs() < 2f64.powi(-50), "{name}: {theirs}");
            }
        }
    }
}

/// The largest coefficient by which two ciphertexts of one level differ under the secret.
fn difference(answers: &Answers, ours: &Ciphertext, theirs: &Ciphertext) -> u64 {
    let secret = answers.ternary_secret();
    let [mut ours, theirs] = [ours, theirs].map(|one| Poly::clone(&secret.phase_values(one.inner())));
    ours.sub_assign(&theirs);
    largest(ours)
}

#[test]
fn our_evaluator_does_to_approximate_ciphertexts_of_others_what_theirs_does() {
    for file in ["lattigo-ckks-64", "openfhe-ckks-64"] {
        evaluate_as(&Answers::read(file));
    }
}

fn evaluate_as(answers: &Answers) {
    let parameters = &answers.parameters;
    let (secret, mut rng) = (answers.ternary_secret(), rng(23));
    let mut own = EvaluationKeys::new(parameters).with_relinearization(&secret, 3, &mut rng).unwrap();
    let steps = [1, 2, -5];
    for step in steps {
        own.add_rotation(&secret, step, 3, &mut rng).unwrap();
    }
    let mut all = vec![("ours", own)];
    if answers.all("key").next().is_some() {
        all.push(("Lattigo's", EvaluationKeys::from_inner(parameters, answers.lattigos_keys(&steps, 1))));
    }
    let evaluator = Evaluator::new(parameters).unwrap().unbounded();
    let of = |name: &str| ciphertext(answers, name);
    assert_eq!(difference(answers, &evaluator.tensor(&of("fresh-a"), &of("fresh-b")).unwrap(), &of("product")), 0);
    let rescaled = evaluator.rescale(&of("relinearised")).unwrap();
    let off = difference(answers, &rescaled, &of("rescaled"));
    assert!(off <= 64, "{off}: a rounding of each coefficient");
    for (whose, keys) in &all {
        let relinearised = evaluator.relinearize(&of("product"), keys).unwrap();
        let off = difference(answers, &relinearised, &of("relinearised"));
        assert!(off < 1 << 12, "{off}: an error of {whose} key");
        for step in steps {
            let rotated = evaluator.rotate(&of("fresh-a"), step, keys).unwrap();
            let off = difference(answers, &rotated, &of(&format!("rotated{step}")));
            assert!(off < 1 << 12, "{off}: an error of {whose} key for {step}");
        }
    }
    // keys of another secret leave nothing
    let other = crate::rlwe::SecretKey::from_seed(parameters, crate::ring::Seed::from_bytes([9; 32]));
    let wrong = EvaluationKeys::new(parameters).with_relinearization(&other, 3, &mut rng).unwrap();
    let relinearised = evaluator.rescale(&evaluator.relinearize(&of("product"), &wrong).unwrap()).unwrap();
    let encoder = Encoder::new(parameters).unwrap();
    assert!(Decryptor::new(&secret, &encoder).unwrap().decrypt(&relinearised).is_err());
}
