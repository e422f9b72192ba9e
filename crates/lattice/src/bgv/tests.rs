//! The scheme against plain integers.

use super::*;
use crate::params::{LatticeParameters, Plaintext as Scheme};
use crate::ring::{Modulus, Poly};
use crate::rlwe::tests::{cases, rng};
use crate::rlwe::{PublicKey, SecretKey};
use proptest::prelude::*;

/// Six data primes in three digits, at a degree without security.
fn parameters(t: u64) -> LatticeParameters {
    let t = Scheme::Integers(Modulus::new(t).unwrap());
    LatticeParameters::insecure_of_sizes(64, &[40; 6], &[45; 2], 3, t).unwrap()
}

struct Setup {
    secret: SecretKey,
    public: PublicKey,
    keys: EvaluationKeys,
    evaluator: Evaluator,
    t: i64,
}

impl Setup {
    fn new(t: u64) -> Self {
        let mut rng = rng(11);
        let parameters = parameters(t);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let mut keys = EvaluationKeys::new(secret.parameters())
            .with_relinearization(&secret, 6, &mut rng)
            .unwrap()
            .with_swap(&secret, 6, &mut rng)
            .unwrap();
        for steps in [1, 3, -1] {
            keys = keys.with_rotation(&secret, steps, 6, &mut rng).unwrap();
        }
        let public = PublicKey::generate(&secret, &mut rng);
        Self { evaluator: Evaluator::new(&parameters).unwrap(), secret, public, keys, t: t as i64 }
    }

    fn encoder(&self) -> Encoder {
        Encoder::new(self.secret.parameters()).unwrap()
    }

    fn encrypt(&self, values: &[i64], seed: u8) -> Ciphertext {
        let plaintext = self.encoder().encode(values).unwrap();
        plaintext.encrypt(&self.public, 6, &mut rng(seed)).unwrap()
    }

    /// The slots, from 0 to `t - 1`. Checks that the measured noise is within the bound, and the
    /// bound within the modulus.
    fn decrypt(&self, ciphertext: &Ciphertext) -> Vec<i64> {
        let measured = self.secret.noise(&ciphertext.inner).log2();
        assert!(measured <= ciphertext.noise_bound(), "2^{measured:.1} above 2^{:.1}", ciphertext.noise_bound());
        assert!(ciphertext.noise_budget() > 0.0, "no budget left");
        let plaintext = Decryptor::new(&self.secret).unwrap().decrypt(ciphertext).unwrap();
        self.encoder().decode(&plaintext).unwrap().into_iter().map(|value| value.rem_euclid(self.t)).collect()
    }
}

/// The expected slots.
fn slotwise(t: i64, a: &[i64], b: &[i64], of: impl Fn(i64, i64) -> i64) -> Vec<i64> {
    a.iter().zip(b).map(|(a, b)| of(*a, *b).rem_euclid(t)).collect()
}

fn rotated(values: &[i64], steps: i64) -> Vec<i64> {
    let half = values.len() / 2;
    let row =
        |row: &[i64]| (0..half).map(|j| row[(j as i64 + steps).rem_euclid(half as i64) as usize]).collect::<Vec<_>>();
    [row(&values[..half]), row(&values[half..])].concat()
}

fn values(seed: i64) -> Vec<i64> {
    (0..64).map(|i| (i * i * 31 + seed * 17 + i) % 257).collect()
}

#[test]
fn every_operation_is_that_of_the_slots() {
    let s = Setup::new(257);
    let (a, b) = (values(1), values(2));
    let (x, y) = (s.encrypt(&a, 1), s.encrypt(&b, 2));
    let (e, k) = (&s.evaluator, &s.keys);
    let of = |operation: fn(i64, i64) -> i64| slotwise(257, &a, &b, operation);
    assert_eq!(s.decrypt(&e.add(&x, &y).unwrap()), of(|a, b| a + b));
    assert_eq!(s.decrypt(&e.sub(&x, &y).unwrap()), of(|a, b| a - b));
    assert_eq!(s.decrypt(&e.neg(&x).unwrap()), of(|a, _| -a));
    assert_eq!(s.decrypt(&e.mul(&x, &y, k).unwrap()), of(|a, b| a * b));
    assert_eq!(s.decrypt(&e.mul_integer(&x, -100_000).unwrap()), of(|a, _| -100_000 * a));
    assert_eq!(s.decrypt(&e.add_constant(&x, -5).unwrap()), of(|a, _| a - 5));
    let plain = s.encoder().encode(&b).unwrap();
    assert_eq!(s.decrypt(&e.add_plain(&x, &plain).unwrap()), of(|a, b| a + b));
    assert_eq!(s.decrypt(&e.mul_plain(&x, &plain).unwrap()), of(|a, b| a * b));
    for steps in [0, 1, 3, -1, 33, 31] {
        assert_eq!(s.decrypt(&e.rotate(&x, steps, k).unwrap()), rotated(&a, steps), "{steps}");
    }
    let hoisted = e.hoist(&x).unwrap();
    for steps in [3, 0, -1] {
        assert_eq!(s.decrypt(&e.rotate_hoisted(&hoisted, steps, k).unwrap()), rotated(&a, steps));
    }
    assert_eq!(s.decrypt(&e.swap_rows(&x, k).unwrap()), [&a[32..], &a[..32]].concat());
}

#[test]
fn products_may_wait_for_their_relinearisation() {
    let s = Setup::new(257);
    let (a, b) = (values(3), values(4));
    let (x, y) = (s.encrypt(&a, 3), s.encrypt(&b, 4));
    let e = &s.evaluator;
    // x y + x x - y y, with one key switch, also added to something that has two parts
    let [xy, xx, yy] = [(&x, &y), (&x, &x), (&y, &y)].map(|(x, y)| e.tensor(x, y).unwrap());
    let sum = e.add(&e.sub(&e.add(&xy, &xx).unwrap(), &yy).unwrap(), &x).unwrap();
    let wanted = slotwise(257, &a, &b, |a, b| a * b + a * a - b * b + a);
    assert!(sum.needs_relinearization());
    assert_eq!(s.decrypt(&sum), wanted, "three parts decrypt");
    assert_eq!(s.decrypt(&e.to_level(&sum, 5).unwrap()), wanted, "and switch their modulus");
    assert_eq!(s.decrypt(&e.relinearize(&sum, &s.keys).unwrap()), wanted);
    assert_eq!(e.tensor(&sum, &x).map(|_| ()), Err(EvaluateError::NotRelinearized));
    assert_eq!(e.rotate(&sum, 1, &s.keys).map(|_| ()), Err(EvaluateError::NotRelinearized));
}

#[test]
fn levels_and_factors_that_differ_are_made_equal() {
    for t in [257, 65_537, 786_433] {
        let s = Setup::new(t);
        let (a, b) = (values(5), values(6));
        let (x, y) = (s.encrypt(&a, 5), s.encrypt(&b, 6));
        let e = &s.evaluator;
        let x = e.to_level(&e.mul(&x, &x, &s.keys).unwrap(), 4).unwrap();
        for level in [6, 5, 4, 3] {
            let y = e.to_level(&y, level).unwrap();
            let sum = e.add(&x, &y).unwrap();
            assert_eq!(sum.level(), level.min(4));
            assert_eq!(s.decrypt(&sum), slotwise(t as i64, &a, &b, |a, b| a * a + b));
            assert_eq!(s.decrypt(&e.sub(&y, &x).unwrap()), slotwise(t as i64, &a, &b, |a, b| b - a * a));
        }
    }
}

#[test]
fn a_circuit_of_depth_five_is_exact() {
    let s = Setup::new(257);
    let a = values(7);
    let mut x = s.encrypt(&a, 7);
    let mut wanted = a;
    for level in (1..6).rev() {
        x = s.evaluator.mul(&x, &x, &s.keys).unwrap();
        x = s.evaluator.to_level(&x, level).unwrap();
        wanted.iter_mut().for_each(|value| *value = *value * *value % 257);
        assert_eq!(s.decrypt(&x), wanted);
    }
}

#[test]
fn polynomials_are_those_of_the_slots() {
    let s = Setup::new(257);
    let a = values(8);
    let x = s.encrypt(&a, 8);
    for coefficients in
        [&[5][..], &[0, 1], &[3, -2, 1], &[1, 0, 0, 0, 7], &[9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8]]
    {
        let result = s.evaluator.polynomial(&x, coefficients, &s.keys).unwrap();
        let wanted: Vec<i64> = a
            .iter()
            .map(|value| coefficients.iter().rev().fold(0, |sum, c| (sum * value + c).rem_euclid(257)))
            .collect();
        assert_eq!(s.decrypt(&result), wanted, "{coefficients:?}");
    }
}

/// `t` need not be prime without slots.
#[test]
fn coefficients_multiply_modulo_any_t() {
    for t in [2u64, 4, 1 << 20, 1000] {
        let s = Setup::new(t);
        let parameters = s.secret.parameters();
        let message = |seed: i64| (0..64).map(|i| (i * 7 + seed) % 1000).collect::<Vec<i64>>();
        let [a, b] = [1, 2].map(message);
        let encrypt = |values: &[i64]| {
            let plaintext = Plaintext::from_coefficients(parameters, values).unwrap();
            plaintext.encrypt_seeded(&s.secret, 6, &mut rng(9)).unwrap().expand()
        };
        let product = s.evaluator.mul(&encrypt(&a), &encrypt(&b), &s.keys).unwrap();
        let product = s.evaluator.to_level(&product, 3).unwrap();
        let mut wanted = vec![0; 64];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                wanted[(i + j) % 64] += if i + j < 64 { a * b } else { -a * b };
            }
        }
        let found = Decryptor::new(&s.secret).unwrap().decrypt(&product).unwrap();
        let reduced = |values: &[i64]| values.iter().map(|value| value.rem_euclid(t as i64)).collect::<Vec<_>>();
        assert_eq!(reduced(found.coefficients()), reduced(&wanted), "t = {t}");
    }
}

#[test]
fn what_cannot_be_computed_is_an_error() {
    let s = Setup::new(257);
    let x = s.encrypt(&[1], 10);
    let e = &s.evaluator;
    let error = |result: Result<Ciphertext, EvaluateError>| result.map(|_| ()).unwrap_err();
    let none = EvaluationKeys::new(s.secret.parameters());
    assert!(error(e.mul(&x, &x, &none)).to_string().contains("a key for relinearisation"));
    assert!(error(e.rotate(&x, 2, &s.keys)).to_string().contains("a key for rotation by 2 at level 6, found none"));
    let low = EvaluationKeys::new(s.secret.parameters()).with_relinearization(&s.secret, 4, &mut rng(1)).unwrap();
    let told = error(e.mul(&x, &x, &low)).to_string();
    assert_eq!(told, "expected a key for relinearisation at level 6, found one for level 4");
    for wanted in [0, 7] {
        assert_eq!(error(e.to_level(&x, wanted)), EvaluateError::Level { present: 6, wanted });
    }
    let other = Setup::new(769);
    assert_eq!(error(e.add(&other.encrypt(&[1], 1), &x)), EvaluateError::Parameters);
    assert_eq!(error(e.mul(&x, &x, &other.keys)), EvaluateError::Parameters);
    let flooded = error(e.flood(&x, &s.public, 300, &mut rng(1)));
    let EvaluateError::Flooding { most, found: 300 } = flooded else { panic!("{flooded}") };
    assert!((201..240).contains(&most) && e.flood(&x, &s.public, most, &mut rng(1)).is_ok(), "{most}");
    let more = error(e.flood(&x, &s.public, most + 1, &mut rng(1)));
    assert_eq!(more, EvaluateError::Flooding { most, found: most + 1 });
    let approximate = crate::rlwe::tests::toy(None);
    assert_eq!(Evaluator::new(&approximate).map(|_| ()), Err(EncodeError::Approximate));
}

/// As in a search: a product with a plaintext, flooded, in few bits.
#[test]
fn without_special_primes_whatever_needs_no_key_is_computed() {
    let t = Scheme::Integers(Modulus::new(257).unwrap());
    let parameters = LatticeParameters::insecure_of_sizes(64, &[36, 35, 35], &[], 3, t).unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(21));
    let public = PublicKey::generate(&secret, &mut rng(22));
    let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
    let decryptor = Decryptor::new(&secret).unwrap();
    let query = encoder.encode(&[5; 64]).unwrap().encrypt_seeded(decryptor.key(), 3, &mut rng(23)).unwrap().expand();
    let keys: Vec<i64> = (0..64).collect();
    let difference = evaluator.sub(&query, &evaluator.add_constant(&query, 5).unwrap()).unwrap();
    assert_eq!(encoder.decode(&decryptor.decrypt(&difference).unwrap()).unwrap()[..3], [-5, -5, -5]);
    let product = evaluator.mul_plain(&query, &encoder.encode(&keys).unwrap()).unwrap();
    let answer = evaluator.flood(&product, &public, 80, &mut rng(24)).unwrap();
    let answer = evaluator.to_level(&answer, 1).unwrap();
    let found = encoder.decode(&decryptor.decrypt(&answer).unwrap()).unwrap();
    assert!(found.iter().zip(&keys).all(|(found, key)| (found - 5 * key) % 257 == 0));
    assert!(evaluator.mul(&query, &query, &EvaluationKeys::new(evaluator.parameters())).is_err());
}

/// The claim in a product's bytes tells the size of the server's plaintext. After a flood of 40
/// bits more, no question of many has a claim that tells two plaintexts apart.
#[test]
fn the_claim_of_a_product_tells_the_plaintext_s_size_and_that_of_a_flooded_one_does_not() {
    let s = Setup::new(257);
    let (small, large) = (s.encoder().encode(&[1; 64]).unwrap(), s.encoder().encode(&values(9)).unwrap());
    for turn in 0..20 {
        let x = s.encrypt(&values(i64::from(turn)), turn);
        let products = [&small, &large].map(|factor| s.evaluator.mul_plain(&x, factor).unwrap());
        let [one, other] = products.each_ref().map(Ciphertext::bound_units);
        assert_ne!(one, other, "the attack works");
        let bits = products[1].noise_bound().ceil() as u32 + 40;
        let [one, other] = products
            .each_ref()
            .map(|product| s.evaluator.flood(product, &s.public, bits, &mut rng(turn)).unwrap().bound_units());
        assert_eq!(one, other, "the attack fails");
    }
}

/// Without flooding, a client that knows `c_1` and receives `r c_1` divides and gets `r`, the
/// server's plaintext.
#[test]
fn a_product_gives_its_plaintext_away_and_a_flooded_one_does_not() {
    let s = Setup::new(257);
    let x = s.encrypt(&values(1), 12);
    let mask = s.encoder().encode(&values(9)).unwrap();
    let product = s.evaluator.mul_plain(&x, &mask).unwrap();
    let quotient_of = |product: &Ciphertext| {
        // r = (r c_1) c_1^-1, value by value modulo the first prime
        let q = s.secret.parameters().ring().data_primes()[0].modulus();
        let [with, without] = [product, &x].map(|ciphertext| ciphertext.inner.parts()[1].row(0).to_vec());
        let quotient = with.iter().zip(&without).map(|(p, c)| q.mul(*p, q.inverse(*c).unwrap()));
        let ring = s.secret.parameters().ring();
        let element = Poly::from_values(ring, ring.basis(1), &quotient.collect::<Vec<_>>()).inverse();
        element.row(0).iter().map(|residue| q.centred(*residue)).collect::<Vec<_>>()
    };
    assert_eq!(quotient_of(&product), mask.coefficients(), "the attack works");
    let flooded = s.evaluator.flood(&product, &s.public, 150, &mut rng(13)).unwrap();
    let quotient = quotient_of(&flooded);
    assert!(quotient.iter().all(|value| value.abs() > 1 << 20), "the attack fails");
    assert_eq!(s.decrypt(&flooded), slotwise(257, &values(1), &values(9), |a, b| a * b));
    // the error is that of the flooding: it has its size, and differs each time
    let again = s.evaluator.flood(&product, &s.public, 150, &mut rng(14)).unwrap();
    for flooded in [&flooded, &again] {
        let measured = s.secret.noise(&flooded.inner).log2();
        assert!(measured > 156.0 && measured < 158.1, "2^{measured}");
    }
    assert!(flooded.inner.parts()[0] != again.inner.parts()[0] && flooded.inner.parts()[1] != again.inner.parts()[1]);
}

proptest! {
    #![proptest_config(cases(30))]
    /// Whatever is computed, decryption is right and the measured noise within the bound, as long
    /// as there is budget.
    #[test]
    fn random_circuits_are_exact_and_stay_within_their_bound(steps in prop::collection::vec((0usize..9, 0usize..6, 0usize..6, any::<i64>()), 1..24)) {
        let s = Setup::new(257);
        let e = &s.evaluator;
        let mut pool: Vec<(Ciphertext, Vec<i64>)> = (0..6).map(|i| (s.encrypt(&values(i), i as u8), values(i))).collect();
        for (operation, i, j, scalar) in steps {
            let ((x, a), (y, b)) = (pool[i].clone(), pool[j].clone());
            let (z, c) = match operation {
                0 => (e.add(&x, &y), slotwise(257, &a, &b, |a, b| a + b)),
                1 => (e.sub(&x, &y), slotwise(257, &a, &b, |a, b| a - b)),
                2 | 3 => (e.mul(&x, &y, &s.keys), slotwise(257, &a, &b, |a, b| a * b)),
                4 => (e.mul_integer(&x, scalar), slotwise(257, &a, &b, |a, _| a * scalar.rem_euclid(257))),
                5 => (e.rotate(&x, [1, 3, -1][j % 3], &s.keys), rotated(&a, [1, 3, -1][j % 3])),
                6 => (e.mul_plain(&x, &s.encoder().encode(&b).unwrap()), slotwise(257, &a, &b, |a, b| a * b)),
                7 if x.level().min(y.level()) > 1 => (e.mul_mod_switch(&x, &y, &s.keys), slotwise(257, &a, &b, |a, b| a * b)),
                _ => (e.to_level(&x, (x.level() - 1).max(1)), a.clone()),
            };
            let z = z.unwrap();
            if z.noise_budget() <= 0.0 {
                continue;
            }
            prop_assert_eq!(s.decrypt(&z), c.clone());
            pool[j] = (z, c);
        }
    }
}

fn written(ciphertext: &Ciphertext) -> Vec<u8> {
    crate::wire::encode_ciphertext(ciphertext).unwrap()
}

#[test]
fn products_summed_in_one_pass_are_those_summed_one_by_one() {
    let setup = Setup::new(257);
    let (encoder, evaluator) = (setup.encoder(), &setup.evaluator);
    let parameters = setup.secret.parameters();
    let mut a: Vec<_> = (0..4).map(|i| setup.encrypt(&values(i), 20 + i as u8)).collect();
    let m: Vec<_> = (4..8).map(|i| encoder.encode(&values(i)).unwrap()).collect();
    let m: Vec<_> = m.iter().map(|m| PreparedPlaintext::new(parameters, m, 6).unwrap()).collect();
    for unlike in [false, true] {
        if unlike {
            a[2] = evaluator.to_level(&a[2], 5).unwrap(); // another level, and another factor
        }
        let pairs: Vec<_> = a.iter().zip(&m).collect();
        let mut sum = evaluator.mul_prepared(&a[0], &m[0]).unwrap();
        for (a, m) in &pairs[1..] {
            evaluator.add_assign(&mut sum, &evaluator.mul_prepared(a, m).unwrap()).unwrap();
        }
        let dot = evaluator.dot_prepared(&pairs).unwrap();
        assert!(written(&dot) == written(&sum) && dot.noise_bound() == sum.noise_bound());
    }
    let low = PreparedPlaintext::new(parameters, &encoder.encode(&[1]).unwrap(), 5).unwrap();
    assert!(evaluator.dot_prepared(&[(&a[0], &m[0]), (&a[1], &low)]).is_err());
    let other = Setup::new(769);
    assert!(other.evaluator.dot_prepared(&[(&a[0], &m[0])]).is_err());
}

#[test]
fn what_is_cut_rotates_as_what_is_not() {
    let setup = Setup::new(257);
    let a = setup.encrypt(&values(1), 30);
    let hoisted = setup.evaluator.hoist(&a).unwrap().into_owned();
    for steps in [0, 1, 3, -1] {
        let rotated = setup.evaluator.rotate(&a, steps, &setup.keys).unwrap();
        let found = setup.evaluator.rotate_hoisted(&hoisted, steps, &setup.keys).unwrap();
        assert!(written(&found) == written(&rotated) && found.noise_bound() == rotated.noise_bound());
    }
    let missing = setup.evaluator.rotate_hoisted(&hoisted, 2, &setup.keys).map(|_| ());
    assert!(matches!(missing, Err(EvaluateError::MissingKey { .. })));
    let product = setup.evaluator.tensor(&a, &a).unwrap();
    assert!(matches!(setup.evaluator.hoist(&product).map(|_| ()), Err(EvaluateError::NotRelinearized)));
}

#[test]
fn plaintexts_come_back_from_their_element_and_from_their_bytes() {
    let setup = Setup::new(257);
    let parameters = setup.secret.parameters();
    let plaintext = setup.encoder().encode(&values(5)).unwrap();
    let prepared = PreparedPlaintext::new(parameters, &plaintext, 3).unwrap();
    assert_eq!(prepared.to_plaintext().unwrap().coefficients(), plaintext.coefficients());
    let bytes = crate::wire::pack_plaintext(&plaintext, parameters).unwrap();
    assert_eq!(bytes.len(), 64 * 9 / 8);
    let found = crate::wire::unpack_plaintext(&bytes, parameters).unwrap();
    assert_eq!(found.coefficients(), plaintext.coefficients());
    for wrong in [&bytes[1..], &[&bytes[..], &[0]].concat(), &[0xff; 72]] {
        assert!(crate::wire::unpack_plaintext(wrong, parameters).is_err());
    }
}

/// A server gets one operand from bytes and has another one of its own.
#[test]
fn nothing_is_known_about_results_with_a_ciphertext_from_bytes_until_its_noise_is_declared() {
    let setup = Setup::new(257);
    let (encoder, parameters) = (setup.encoder(), setup.secret.parameters());
    let (e, k, own) = (&setup.evaluator, &setup.keys, setup.encrypt(&values(1), 31));
    let read = || crate::wire::decode_ciphertext(&written(&own), parameters).unwrap();
    let mut declared = read();
    assert_eq!((declared.noise_bound(), declared.noise_budget()), (f64::INFINITY, f64::NEG_INFINITY));
    let claimed = declared.claimed_noise();
    assert!(claimed >= own.noise_bound() && claimed < own.noise_bound() + 1.0 / 1024.0);
    declared.declare_fresh();
    assert!(declared.claimed_noise() >= declared.noise_bound() && declared.noise_bound() >= own.noise_bound());
    let plaintext = encoder.encode(&values(2)).unwrap();
    let (nothing, prepared) =
        (encoder.encode(&[]).unwrap(), PreparedPlaintext::new(parameters, &plaintext, 6).unwrap());
    let diagonals = std::collections::BTreeMap::from([(1, values(4))]);
    let transform = LinearTransform::new(parameters, &encoder, &diagonals, 6).unwrap();
    let forms = |x: &Ciphertext, weights: [i64; 4]| {
        let forms = Forms { left: &[x], right: &[&own], weights: &[weights.to_vec()], divisor: 1 };
        e.bilinear_forms(&forms, k).map(|mut all| all.remove(0))
    };
    let turned = |x: &Ciphertext| {
        let hoisted = e.hoist(x)?;
        e.rotated_sum(&[&own], &[Turn { steps: 1, inputs: vec![&hoisted], keys: k }])
    };
    let sums = |x: &Ciphertext| {
        let mut sum = own.clone();
        e.add_products(&mut sum, &[(x, &prepared)])?;
        e.add_assign(&mut sum, x).map(|()| sum)
    };
    type Operation<'a> = (&'a str, &'a dyn Fn(&Ciphertext) -> Result<Ciphertext, EvaluateError>);
    let all: [Operation<'_>; 25] = [
        ("itself", &|x| Ok(x.clone())),
        ("add", &|x| e.add(&own, x)),
        ("add, other factors", &|x| e.add(&e.mul_unit(own.clone(), 3)?, x)),
        ("sub", &|x| e.sub(x, &own)),
        ("neg", &|x| e.neg(x)),
        ("add_assign", &sums),
        ("add_plain", &|x| e.add_plain(x, &plaintext)),
        ("add_constant", &|x| e.add_constant(x, 7)),
        ("mul_plain", &|x| e.mul_plain(x, &plaintext)),
        ("mul_plain, zeros", &|x| e.mul_plain(x, &nothing)),
        ("mul_prepared", &|x| e.mul_prepared(x, &prepared)),
        ("mul_integer", &|x| e.mul_integer(x, 5)),
        ("mul_integer, zero", &|x| e.mul_integer(x, 0)),
        ("mul", &|x| e.mul(&own, x, k)),
        ("mul_mod_switch", &|x| e.mul_mod_switch(x, &own, k)),
        ("rotate", &|x| e.rotate(x, 1, k)),
        ("rotate_hoisted", &|x| e.rotate_hoisted(&e.hoist(x)?, 1, k)),
        ("swap_rows", &|x| e.swap_rows(x, k)),
        ("to_level", &|x| e.to_level(x, 2)),
        ("mul_unit", &|x| e.mul_unit(x.clone(), 3)),
        ("dot_prepared", &|x| e.dot_prepared(&[(&own, &prepared), (x, &prepared)])),
        ("polynomial", &|x| e.polynomial(x, &[1, 0, 2, 0, 0, 3], k)),
        ("bilinear_forms", &|x| forms(x, [1, 0, 0, 2])),
        ("rotated_sum", &turned),
        ("transform", &|x| e.transform(x, &transform, k)),
    ];
    let holder = Decryptor::new(&setup.secret).unwrap();
    for (name, operation) in all {
        let found = operation(&read()).unwrap();
        assert_eq!((found.noise_bound(), found.noise_budget()), (f64::INFINITY, f64::NEG_INFINITY), "{name}");
        if !found.needs_relinearization() {
            assert_eq!(holder.decrypt(&found).map(drop), Err(DecryptError::NoBound), "{name}");
            let refused = e.flood(&found, &setup.public, 1, &mut rng(1)).map(drop);
            assert_eq!(refused, Err(EvaluateError::NoBound), "{name}");
        }
        let (known, right) = (operation(&declared).unwrap(), operation(&own).unwrap());
        assert!(known.noise_budget() > 0.0 && known.noise_budget() <= right.noise_budget(), "{name}");
        let [known, right] = [known, right].map(|x| holder.decrypt(&x).unwrap().coefficients().to_vec());
        assert_eq!(known, right, "{name}");
    }
    for bits in [f64::NAN, -1.0, f64::INFINITY] {
        declared.declare_noise(bits);
        assert_eq!(holder.decrypt(&declared).map(drop), Err(DecryptError::NoBound), "{bits}");
    }
}

#[test]
fn polynomials_of_a_ciphertext_from_bytes_have_no_bound() {
    let setup = Setup::new(257);
    let x = setup.encrypt(&values(1), 31);
    let read = crate::wire::decode_ciphertext(&written(&x), setup.secret.parameters()).unwrap();
    let polynomials = [vec![0, 1, 0, 4], vec![3; 9]];
    let holder = Decryptor::new(&setup.secret).unwrap();
    let known = setup.evaluator.polynomials(&x, &polynomials, &setup.keys).unwrap();
    let unknown = setup.evaluator.polynomials(&read, &polynomials, &setup.keys).unwrap();
    for (known, unknown) in known.iter().zip(&unknown) {
        assert!(known.noise_budget() > 0.0 && unknown.noise_bound() == f64::INFINITY);
        let [known, unknown] = [known, unknown].map(|x| holder.decrypt_measured(x).unwrap().coefficients().to_vec());
        assert_eq!(known, unknown);
    }
}

#[test]
fn keys_that_are_taken_out_are_alone_and_gone() {
    let mut setup = Setup::new(257);
    let all = setup.keys.memory();
    assert!(setup.keys.only().is_none());
    let products = setup.keys.take_relinearization().unwrap();
    let turn = setup.keys.take_rotation(3).unwrap();
    assert!(products.only().is_some() && turn.only().is_some_and(|key| key.level() == 6));
    assert!(setup.keys.take_relinearization().is_none() && setup.keys.take_rotation(3).is_none());
    assert_eq!(setup.keys.memory() + products.memory() + turn.memory(), all);
    let a = setup.encrypt(&values(1), 32);
    assert_eq!(setup.decrypt(&setup.evaluator.rotate(&a, 3, &turn).unwrap()), rotated(&values(1), 3));
    assert!(setup.evaluator.rotate(&a, 3, &setup.keys).is_err() && setup.evaluator.mul(&a, &a, &products).is_ok());
}
