//! The scheme against answers of Microsoft SEAL: encodings are compared by residues, ciphertexts by
//! their decryptions.

use super::encode::coefficients_of;
use super::*;
use crate::rlwe::SecretKey;
use crate::rlwe::known_answers::{Answers, power, slot};
use crate::rlwe::tests::rng;

const FILES: [&str; 2] = ["seal-ckks-64", "seal-ckks-1024"];

struct Case {
    answers: Answers,
    encoder: Encoder,
    /// Our slot for each of SEAL's, and whether our slot holds the conjugate.
    places: Vec<(usize, bool)>,
}

impl Case {
    fn read(file: &str) -> Self {
        let answers = Answers::read(file);
        let degree = answers.parameters.degree();
        // SEAL's slots are the values at ζ^(3^i), ours at ζ^(5^j)
        let places = (0..degree as i64 / 2).map(|i| slot(degree, power(degree, 3, i))).collect();
        Self { encoder: Encoder::new(&answers.parameters).unwrap(), answers, places }
    }

    /// The slots in SEAL's order.
    fn slots(&self, name: &str) -> Vec<Complex> {
        let number = |text: &str| {
            let (re, im) = text.split_once(':').unwrap();
            Complex { re: re.parse().unwrap(), im: im.parse().unwrap() }
        };
        self.answers.one("slots", name)[0].split(',').map(number).collect()
    }

    fn in_our_order(&self, slots: &[Complex]) -> Vec<Complex> {
        let mut ours = vec![Complex::default(); slots.len()];
        for (z, (place, conjugate)) in slots.iter().zip(&self.places) {
            ours[*place] = if *conjugate { z.conjugate() } else { *z };
        }
        ours
    }

    fn in_seals_order(&self, slots: &[Complex]) -> Vec<Complex> {
        let of = |(place, conjugate): &(usize, bool)| {
            if *conjugate { slots[*place].conjugate() } else { slots[*place] }
        };
        self.places.iter().map(of).collect()
    }

    /// The ciphertext, at the scale whose value equals SEAL's number.
    fn ciphertext(&self, name: &str) -> Ciphertext {
        let [level, scale, parts @ ..] = self.answers.one("ciphertext", name) else { panic!("{name} is too short") };
        let (level, scale): (usize, f64) = (level.parse().unwrap(), scale.parse().unwrap());
        let parameters = &self.answers.parameters;
        let rescaled = Scale::power_of_two(60).quotient(&Scale::prime(2)).unwrap();
        let near = |exact: &Scale| (exact.to_f64(parameters).unwrap() / scale - 1.0).abs() < 2f64.powi(-51);
        let exact = [Scale::power_of_two(30), Scale::power_of_two(60), rescaled].into_iter().find(near);
        let inner = crate::rlwe::Ciphertext::new(parameters, None, self.answers.parts(parts, level));
        Ciphertext::new(inner, exact.unwrap_or_else(|| panic!("{name} has the scale {scale}")), None)
    }

    fn decrypt(&self, secret: &SecretKey, ciphertext: &Ciphertext) -> Vec<Complex> {
        let decryptor = Decryptor::new(secret, &self.encoder).unwrap();
        self.in_seals_order(&decryptor.decrypt_complex(ciphertext).unwrap())
    }

    /// The expected slots of the ciphertext with this name, from the input slots.
    fn expected(&self, name: &str) -> Vec<Complex> {
        let [mut a, b] = ["a", "b"].map(|name| self.slots(name));
        let mut product: Vec<Complex> = a.iter().zip(&b).map(|(a, b)| *a * *b).collect();
        let turn = |slots: &mut [Complex], steps: &str| {
            let steps = steps.parse::<i64>().unwrap().rem_euclid(slots.len() as i64) as usize;
            slots.rotate_left(steps);
        };
        match name {
            "fresh-a" => a,
            "fresh-b" => b,
            "product" | "relinearised" | "rescaled" => product,
            "conjugate" => a.iter().map(|z| z.conjugate()).collect(),
            _ => match name.split_once("rotated").unwrap() {
                ("", steps) => {
                    turn(&mut a, steps);
                    a
                }
                (_, steps) => {
                    turn(&mut product, steps);
                    product
                }
            },
        }
    }
}

fn distance(a: &[Complex], b: &[Complex]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max)
}

#[test]
fn slots_have_seals_residues_once_they_stand_in_its_order() {
    for file in FILES {
        let case = Case::read(file);
        for name in ["a", "b"] {
            let fields = case.answers.one("plaintext", name);
            let level = fields[0].parse().unwrap();
            let scale = Scale::power_of_two(fields[1].parse().unwrap());
            let slots = case.slots(name);
            let theirs = case.answers.element(&fields[2], level);
            let ours = case.encoder.encode_complex(&case.in_our_order(&slots), &scale, level).unwrap();
            assert!(*ours.element() == theirs, "{file}, {name}");
            assert!(*case.encoder.encode_complex(&slots, &scale, level).unwrap().element() != theirs);
            // N/(2Δ) is the worst-case bound of rounding
            let found = case.in_seals_order(&case.encoder.slots_of(&mut coefficients_of(&theirs.inverse()), &scale));
            assert!(distance(&found, &slots) < case.answers.parameters.degree() as f64 / 2f64.powi(31));
        }
    }
}

#[test]
fn seals_ciphertexts_decrypt_to_what_they_hold() {
    for file in FILES {
        let case = Case::read(file);
        let secret = case.answers.secret();
        let names: Vec<&String> = case.answers.all("ciphertext").map(|fields| &fields[0]).collect();
        assert_eq!(names.len(), if file == FILES[0] { 9 } else { 1 });
        for name in names {
            let found = case.decrypt(&secret, &case.ciphertext(name));
            // the same phase: only the rounding of doubles differs
            let rounding = distance(&found, &case.slots(name));
            assert!(rounding < 2f64.powi(-44), "{file}, {name}: {rounding:e} from what SEAL decrypted");
            let error = distance(&found, &case.expected(name));
            assert!(error < 2f64.powi(-12), "{file}, {name}: {error:e} from what it should be");
        }
    }
}

#[test]
fn our_evaluator_does_to_seals_ciphertexts_what_seals_does() {
    let case = Case::read(FILES[0]);
    let (secret, mut rng) = (case.answers.secret(), rng(22));
    let parameters = &case.answers.parameters;
    let evaluator = Evaluator::new(parameters).unwrap();
    let mut keys = EvaluationKeys::new(parameters);
    keys.add_relinearization(&secret, 3, &mut rng).unwrap();
    keys.add_conjugation(&secret, 3, &mut rng).unwrap();
    let near = |ours: &Ciphertext, name: &str| {
        let theirs = case.ciphertext(name);
        assert_eq!((ours.level(), ours.scale()), (theirs.level(), theirs.scale()), "{name}");
        let error = distance(&case.decrypt(&secret, ours), &case.slots(name));
        assert!(error < 2f64.powi(-16), "{name}: {error:e}");
    };
    let declared = |name: &str| {
        let mut ciphertext = case.ciphertext(name);
        ciphertext.declare(1.5);
        ciphertext
    };
    let [a, b] = ["fresh-a", "fresh-b"].map(declared);
    let product = evaluator.mul(&a, &b, &keys).unwrap();
    near(&product, "relinearised");
    near(&evaluator.rescale(&product).unwrap(), "rescaled");
    near(&evaluator.rescale(&declared("relinearised")).unwrap(), "rescaled");
    near(&evaluator.conjugate(&a, &keys).unwrap(), "conjugate");
    for seals_steps in [1, 2, -5] {
        let (steps, opposite) = slot(parameters.degree(), power(parameters.degree(), 3, seals_steps));
        keys.add_rotation(&secret, steps as i64, 3, &mut rng).unwrap();
        let mut rotated = evaluator.rotate(&a, steps as i64, &keys).unwrap();
        if opposite {
            rotated = evaluator.conjugate(&rotated, &keys).unwrap();
        }
        near(&rotated, &format!("rotated{seals_steps}"));
    }
}

#[test]
fn another_residue_or_another_key_is_no_message() {
    let case = Case::read(FILES[0]);
    let secret = case.answers.secret();
    let refused = |secret: &SecretKey, ciphertext: &Ciphertext| {
        let found = Decryptor::new(secret, &case.encoder).unwrap().decrypt_complex(ciphertext);
        assert_eq!(found.map(drop), Err(ReleaseError::NoMessage));
    };
    for part in 0..2 {
        let mut ciphertext = case.ciphertext("fresh-a");
        ciphertext.inner_mut().parts_mut()[part].row_mut(1)[17] ^= 1;
        refused(&secret, &ciphertext);
    }
    let mut coefficients = vec![0; 64];
    coefficients[3] = 1;
    let other = SecretKey::from_ternary(&case.answers.parameters, &coefficients);
    refused(&other, &case.ciphertext("fresh-a"));
}
