//! The scheme against answers of Microsoft SEAL: encodings are compared by coefficients,
//! ciphertexts by their decryptions.

use super::*;
use crate::ring::{Modulus, Ntt};
use crate::rlwe::known_answers::{Answers, power, seals_root, slot};
use crate::rlwe::tests::rng;
use crate::rlwe::{self, SecretKey};

const FILES: [&str; 2] = ["seal-bgv-64", "seal-bgv-1024"];

struct Case {
    answers: Answers,
    encoder: Encoder,
    t: Modulus,
    /// Our slot for each of SEAL's.
    places: Vec<usize>,
}

impl Case {
    fn read(file: &str) -> Self {
        let answers = Answers::read(file);
        let (degree, t) = (answers.parameters.degree(), modulus(&answers.parameters).unwrap());
        let u = seals_root(&Ntt::new(t, degree).unwrap());
        let place = |column: i64, opposite: bool| {
            // SEAL's rows are the values at ψ^(3^i) and ψ^(-3^i), ours at φ^(5^j) and φ^(-5^j)
            let (slot, other) = slot(degree, u * power(degree, 3, column) % (2 * degree));
            slot + if other == opposite { 0 } else { degree / 2 }
        };
        let half = degree as i64 / 2;
        let places = (0..2 * half).map(|i| place(i % half, i >= half)).collect();
        Self { encoder: Encoder::new(&answers.parameters).unwrap(), answers, t, places }
    }

    /// SEAL's slots, centred, in SEAL's order.
    fn slots(&self, name: &str) -> Vec<i64> {
        let centred = |text: &str| self.t.centred(self.t.reduce_signed(text.parse().unwrap()));
        self.answers.one("slots", name)[0].split(',').map(centred).collect()
    }

    fn in_our_order(&self, slots: &[i64]) -> Vec<i64> {
        let mut ours = vec![0; slots.len()];
        slots.iter().zip(&self.places).for_each(|(value, place)| ours[*place] = *value);
        ours
    }

    fn in_seals_order(&self, slots: &[i64]) -> Vec<i64> {
        self.places.iter().map(|place| slots[*place]).collect()
    }

    fn ciphertext(&self, name: &str) -> Ciphertext {
        let [level, factor, parts @ ..] = self.answers.one("ciphertext", name) else { panic!("{name} is too short") };
        let (level, factor) = (level.parse().unwrap(), factor.parse().unwrap());
        let inner = rlwe::Ciphertext::new(&self.answers.parameters, None, self.answers.parts(parts, level));
        Ciphertext::new(inner, factor, 30.0)
    }

    /// The expected slots of the ciphertext with this name, from the input slots.
    fn expected(&self, name: &str) -> Vec<i64> {
        let [a, b] = ["a", "b"].map(|name| self.slots(name));
        let half = a.len() / 2;
        let product: Vec<i64> = a.iter().zip(&b).map(|(a, b)| self.t.centred(self.t.reduce_signed(a * b))).collect();
        let turned = |row: &[i64], steps: &str| {
            let steps = steps.parse::<i64>().unwrap().rem_euclid(half as i64) as usize;
            [&row[steps..half], &row[..steps], &row[half + steps..], &row[half..half + steps]].concat()
        };
        match name {
            "fresh-a" => a,
            "fresh-b" => b,
            "product" | "relinearised" | "switched" => product,
            "swapped" => [&a[half..], &a[..half]].concat(),
            _ => match name.split_once("rotated").unwrap() {
                ("", steps) => turned(&a, steps),
                (_, steps) => turned(&product, steps),
            },
        }
    }
}

fn decrypt(secret: &SecretKey, ciphertext: &Ciphertext) -> Plaintext {
    Decryptor::new(secret).unwrap().decrypt(ciphertext).unwrap()
}

#[test]
fn slots_have_seals_polynomials_once_they_stand_in_its_order() {
    for file in FILES {
        let case = Case::read(file);
        for name in ["a", "b"] {
            let slots = case.slots(name);
            let text = &case.answers.one("polynomial", name)[0];
            let polynomial: Vec<i64> =
                text.split(',').map(|c| case.t.centred(u64::from_str_radix(c, 16).unwrap())).collect();
            let encoded = case.encoder.encode(&case.in_our_order(&slots)).unwrap();
            assert_eq!(encoded.coefficients(), polynomial, "{file}, {name}");
            assert_eq!(case.in_seals_order(&case.encoder.decode(&encoded).unwrap()), slots);
            // without the permutation it is another polynomial
            assert_ne!(case.encoder.encode(&slots).unwrap().coefficients(), polynomial);
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
            let found = case.encoder.decode(&decrypt(&secret, &case.ciphertext(name))).unwrap();
            let found = case.in_seals_order(&found);
            assert_eq!(found, case.slots(name), "{file}, {name}: what SEAL decrypted");
            assert_eq!(found, case.expected(name), "{file}, {name}: what it should be");
        }
        // a modulus switch leaves a factor
        assert_ne!(case.ciphertext(if file == FILES[0] { "switched" } else { "product-rotated3" }).factor(), 1);
    }
}

/// The step by 3 is the negative of a power of 5: a rotation and a swap here, and the same
/// automorphism in SEAL.
#[test]
fn our_evaluator_does_to_seals_ciphertexts_what_seals_does() {
    let case = Case::read(FILES[0]);
    let (secret, mut rng) = (case.answers.secret(), rng(21));
    let evaluator = Evaluator::new(&case.answers.parameters).unwrap();
    let mut keys = EvaluationKeys::new(secret.parameters())
        .with_relinearization(&secret, 3, &mut rng)
        .unwrap()
        .with_swap(&secret, 3, &mut rng)
        .unwrap();
    let message = |ciphertext: &Ciphertext| decrypt(&secret, ciphertext).coefficients().to_vec();
    let [a, b] = ["fresh-a", "fresh-b"].map(|name| case.ciphertext(name));
    let product = evaluator.mul(&a, &b, &keys).unwrap();
    let switched = evaluator.to_level(&case.ciphertext("relinearised"), 2).unwrap();
    assert_eq!(message(&product), message(&case.ciphertext("relinearised")));
    assert_eq!(message(&switched), message(&case.ciphertext("switched")));
    assert_eq!(switched.factor(), case.ciphertext("switched").factor());
    assert_eq!(message(&evaluator.swap_rows(&a, &keys).unwrap()), message(&case.ciphertext("swapped")));
    for seals_steps in [1, 2, -5] {
        let degree = case.answers.parameters.degree();
        let (steps, opposite) = slot(degree, power(degree, 3, seals_steps));
        keys = keys.with_rotation(&secret, steps as i64, 3, &mut rng).unwrap();
        let mut rotated = evaluator.rotate(&a, steps as i64, &keys).unwrap();
        if opposite {
            rotated = evaluator.swap_rows(&rotated, &keys).unwrap();
        }
        assert_eq!(opposite, seals_steps % 2 != 0);
        assert_eq!(message(&rotated), message(&case.ciphertext(&format!("rotated{seals_steps}"))), "{seals_steps}");
    }
}

#[test]
fn another_residue_or_another_key_is_no_message() {
    let case = Case::read(FILES[0]);
    let secret = case.answers.secret();
    let failed = |secret: &SecretKey, c: &Ciphertext| Decryptor::new(secret).unwrap().decrypt(c).err();
    assert_eq!(failed(&secret, &case.ciphertext("fresh-a")), None);
    for part in 0..2 {
        let mut ciphertext = case.ciphertext("fresh-a");
        let value = &mut ciphertext.inner.parts_mut()[part].row_mut(1)[17];
        *value ^= 1;
        assert_eq!(failed(&secret, &ciphertext), Some(DecryptError::Noise), "part {part}");
    }
    let mut coefficients = vec![0; 64];
    coefficients[3] = 1;
    let other = SecretKey::from_ternary(&case.answers.parameters, &coefficients);
    assert_eq!(failed(&other, &case.ciphertext("fresh-a")), Some(DecryptError::Noise));
}
