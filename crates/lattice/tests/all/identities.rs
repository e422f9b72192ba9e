//! A mixture of two keys is an error at once, in every operation, and never a number.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use tobari_lattice::ckks::{self, OperationError, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::{Modulus, ProductSums, Seed, WeightMatrix};
use tobari_lattice::rlwe::{KeyId, OtherKey, PublicKey, SecretKey};
use tobari_lattice::{bgv, wire};

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn integers() -> LatticeParameters {
    let t = Plaintext::Integers(Modulus::new(257).unwrap());
    LatticeParameters::insecure_of_sizes(64, &[40; 5], &[45], 5, t).unwrap()
}

fn approximate() -> LatticeParameters {
    let data = [50, 40, 40, 40, 40];
    LatticeParameters::insecure_of_sizes(64, &data, &[50], 5, Plaintext::Approximate).unwrap()
}

/// A person with a key, in BGV.
struct Exact {
    secret: SecretKey,
    public: PublicKey,
    keys: bgv::EvaluationKeys,
}

impl Exact {
    fn of(secret: SecretKey) -> Self {
        let mut rng = rng(7);
        let keys = bgv::EvaluationKeys::new(secret.parameters()).with_expansion(&secret, 6, &mut rng).unwrap();
        let keys = keys.with_relinearization(&secret, 5, &mut rng).unwrap().with_swap(&secret, 5, &mut rng).unwrap();
        let keys = (1..8).fold(keys, |keys, step| keys.with_rotation(&secret, step, 5, &mut rng).unwrap());
        Self { public: PublicKey::generate(&secret, &mut rng), keys, secret }
    }

    fn new(seed: u8) -> Self {
        Self::of(SecretKey::generate(&integers(), &mut rng(seed)))
    }

    /// Of the same secret with no identity.
    fn unknown(&self) -> Self {
        Self::of(SecretKey::from_seed(&integers(), self.secret.to_seed().clone()))
    }

    fn encrypt(&self, number: i64) -> bgv::Ciphertext {
        let plaintext = bgv::Encoder::new(&integers()).unwrap().encode(&[number; 64]).unwrap();
        plaintext.encrypt_seeded(&self.secret, 5, &mut rng(8)).unwrap().expand()
    }

    fn decrypt(&self, ciphertext: &bgv::Ciphertext) -> i64 {
        let message = bgv::Decryptor::new(&self.secret).unwrap().decrypt(ciphertext).unwrap();
        bgv::Encoder::new(&integers()).unwrap().decode(&message).unwrap()[0]
    }
}

/// A person with a key, in CKKS.
struct Approximate {
    secret: SecretKey,
    public: PublicKey,
    keys: ckks::EvaluationKeys,
}

impl Approximate {
    fn of(secret: SecretKey) -> Self {
        let (mut rng, mut keys) = (rng(7), ckks::EvaluationKeys::new(&approximate()));
        keys.add_relinearization(&secret, 5, &mut rng).unwrap();
        keys.add_conjugation(&secret, 5, &mut rng).unwrap();
        (1..8).for_each(|step| keys.add_rotation(&secret, step, 5, &mut rng).unwrap());
        Self { public: PublicKey::generate(&secret, &mut rng), keys, secret }
    }

    fn new(seed: u8) -> Self {
        Self::of(SecretKey::generate(&approximate(), &mut rng(seed)))
    }

    fn unknown(&self) -> Self {
        Self::of(SecretKey::from_seed(&approximate(), self.secret.to_seed().clone()))
    }

    fn encrypt(&self, number: f64) -> ckks::Ciphertext {
        let encoder = ckks::Encoder::new(&approximate()).unwrap();
        let plaintext = encoder.encode(&[number; 32], &Scale::power_of_two(40), 5).unwrap();
        plaintext.encrypt(&self.public, &mut rng(8)).unwrap()
    }

    fn decrypt(&self, ciphertext: &ckks::Ciphertext) -> f64 {
        let encoder = ckks::Encoder::new(&approximate()).unwrap();
        ckks::Decryptor::new(&self.secret, &encoder).unwrap().decrypt(ciphertext).unwrap()[0]
    }
}

/// What mixing these keys gives.
fn mixed(expected: &SecretKey, found: &SecretKey) -> OtherKey {
    OtherKey { expected: expected.id().unwrap(), found: found.id().unwrap() }
}

/// Asserts that every result is this error.
fn assert_all<T, E: Debug + PartialEq>(results: Vec<(&str, Result<T, E>)>, expected: &E) {
    for (name, result) in results {
        assert_eq!(result.map(drop).as_ref(), Err(expected), "{name}");
    }
}

#[test]
fn every_operation_of_bgv_refuses_two_keys() {
    let [a, b] = [1, 2].map(Exact::new);
    let (parameters, encoder) = (integers(), bgv::Encoder::new(&integers()).unwrap());
    let evaluator = bgv::Evaluator::new(&parameters).unwrap();
    let [x, y] = [&a, &b].map(|one| one.encrypt(3));
    let product = evaluator.tensor(&x, &x).unwrap();
    let low = evaluator.to_level(&y, 3).unwrap();
    let other_factor = evaluator.to_level(&y, 4).unwrap();
    let plain = encoder.encode(&[2; 64]).unwrap();
    let prepared = bgv::PreparedPlaintext::new(&parameters, &plain, 5).unwrap();
    let [h, g] = [&x, &y].map(|one| evaluator.hoist(one).unwrap());
    let diagonals: BTreeMap<i64, Vec<i64>> = (0..4).map(|step| (step, vec![1; 32])).collect();
    let transform = bgv::LinearTransform::new(&parameters, &encoder, &diagonals, 5);
    let turn = |inputs, keys| bgv::Turn { steps: 1, inputs, keys };
    let forms = |left: &[&bgv::Ciphertext], right: &[&bgv::Ciphertext], keys| {
        let weights = [vec![1; (left.len() + 1) * (right.len() + 1)]];
        evaluator.bilinear_forms(&bgv::Forms { left, right, weights: &weights, divisor: 1 }, keys)
    };
    let first = |list: Result<Vec<bgv::Ciphertext>, bgv::EvaluateError>| list.map(|mut list| list.remove(0));
    let assigned = |to: &bgv::Ciphertext, other: &bgv::Ciphertext| {
        let mut sum = to.clone();
        let result = evaluator.add_assign(&mut sum, other);
        assert!(wire::store_ciphertext(&sum) == wire::store_ciphertext(to), "what was refused changes nothing");
        result.map(|()| sum)
    };
    let products = |sum: &bgv::Ciphertext, pairs: &[(&bgv::Ciphertext, &bgv::PreparedPlaintext)]| {
        let mut new = sum.clone();
        let result = evaluator.add_products(&mut new, pairs);
        assert!(wire::store_ciphertext(&new) == wire::store_ciphertext(sum), "what was refused changes nothing");
        result.map(|()| new)
    };
    let expansion = bgv::Expansion::new(&parameters, 5).unwrap();
    let mut results = vec![
        ("add", evaluator.add(&x, &y)),
        ("add of another level", evaluator.add(&x, &low)),
        ("add of another factor", evaluator.add(&x, &other_factor)),
        ("add_assign", assigned(&x, &y)),
        ("add_assign of another level", assigned(&x, &low)),
        ("sub", evaluator.sub(&x, &y)),
        ("mul", evaluator.mul(&x, &y, &a.keys)),
        ("mul with the other's keys", evaluator.mul(&x, &x, &b.keys)),
        ("tensor", evaluator.tensor(&x, &y)),
        ("mul_mod_switch", evaluator.mul_mod_switch(&x, &y, &a.keys)),
        ("relinearize", evaluator.relinearize(&product, &b.keys)),
        ("relinearize_mod_switch", evaluator.relinearize_mod_switch(&product, &b.keys)),
        ("rotate", evaluator.rotate(&x, 1, &b.keys)),
        ("rotate without such a key", evaluator.rotate(&x, 9, &b.keys)),
        ("rotate_hoisted", evaluator.rotate_hoisted(&h, 1, &b.keys)),
        ("swap_rows", evaluator.swap_rows(&x, &b.keys)),
        ("dot_prepared", evaluator.dot_prepared(&[(&x, &prepared), (&y, &prepared)])),
        ("add_products", products(&x, &[(&y, &prepared)])),
        ("add_products of two", products(&evaluator.zero(5).unwrap(), &[(&x, &prepared), (&y, &prepared)])),
        ("bilinear_forms", first(forms(&[&x], &[&y], &a.keys))),
        ("bilinear_forms on the left", first(forms(&[&x, &y], &[&x], &a.keys))),
        ("bilinear_forms with the other's keys", first(forms(&[&x], &[&x], &b.keys))),
        ("rotated_sum", evaluator.rotated_sum(&[], &[turn(vec![&h, &g], &a.keys)])),
        ("rotated_sum with the other's keys", evaluator.rotated_sum(&[], &[turn(vec![&h], &b.keys)])),
        ("polynomials", first(evaluator.polynomials(&x, &[vec![1, 2, 3]], &b.keys))),
        ("polynomial", evaluator.polynomial(&x, &[1, 2, 3], &b.keys)),
        ("flood", evaluator.flood(&x, &b.public, 10, &mut rng(9))),
        ("expand", evaluator.expand(&x, &expansion, &b.keys, 0..5, |_, _| Ok(())).map(|()| x.clone())),
    ];
    if let Ok(transform) = &transform {
        results.push(("transform", evaluator.transform(&x, transform, &b.keys)));
    }
    assert_eq!(results.len(), 29, "a matrix exists for this ring");
    assert_all(results, &bgv::EvaluateError::OtherKey(mixed(&a.secret, &b.secret)));
    // the first key in the order of the arguments is the expected one
    let found = evaluator.rotated_sum(&[&y], &[turn(vec![&h], &a.keys)]).map(drop);
    assert_eq!(found, Err(bgv::EvaluateError::OtherKey(mixed(&b.secret, &a.secret))));
    assert_eq!(a.decrypt(&evaluator.mul(&x, &x, &a.keys).unwrap()), 9, "one key computes");
}

#[test]
fn decryptions_and_sets_of_keys_of_bgv_refuse_two_keys() {
    let ([a, b], parameters) = ([1, 2].map(Exact::new), integers());
    let evaluator = bgv::Evaluator::new(&parameters).unwrap();
    let [x, y] = [&a, &b].map(|one| one.encrypt(3));
    let holder = bgv::Decryptor::new(&a.secret).unwrap();
    let other = bgv::DecryptError::OtherKey(mixed(&a.secret, &b.secret));
    assert_eq!(holder.decrypt(&y).map(drop), Err(other));
    assert_eq!(holder.decrypt_measured(&y).map(drop), Err(other));
    assert_eq!(holder.noise(&y).map(drop), Err(other));
    let refused = [
        a.keys.clone().with_relinearization(&b.secret, 5, &mut rng(3)).map(drop),
        a.keys.clone().with_rotation(&b.secret, 3, 5, &mut rng(3)).map(drop),
        a.keys.clone().with_swap(&b.secret, 5, &mut rng(3)).map(drop),
        a.keys.clone().with_expansion(&b.secret, 2, &mut rng(3)).map(drop),
        a.keys.clone().take_rotation(1).unwrap().with_swap(&b.secret, 5, &mut rng(3)).map(drop),
        a.keys.cut(2).unwrap().with_swap(&b.secret, 2, &mut rng(3)).map(drop),
    ];
    assert_eq!(refused, [Err(bgv::KeyError::OtherKey(mixed(&a.secret, &b.secret))); 6]);
    let others = LatticeParameters::insecure_of_sizes(64, &[40; 4], &[45], 4, parameters.plaintext()).unwrap();
    let mut keys = bgv::EvaluationKeys::new(&others);
    assert_eq!(keys.add_swap(&a.secret, 1, &mut rng(3)), Err(bgv::KeyError::OtherParameters));
    assert_eq!(evaluator.rotate(&x, 1, &keys).map(drop), Err(bgv::EvaluateError::Parameters));
    keys = bgv::EvaluationKeys::new(&parameters);
    keys.add_rotation(&a.secret, 64, 5, &mut rng(3)).unwrap();
    assert_eq!(keys.memory(), 0, "a rotation by nothing needs no key");
}

#[test]
fn every_operation_of_ckks_refuses_two_keys() {
    let [a, b] = [1, 2].map(Approximate::new);
    let (parameters, encoder) = (approximate(), ckks::Encoder::new(&approximate()).unwrap());
    let evaluator = ckks::Evaluator::new(&parameters).unwrap();
    let [x, y] = [&a, &b].map(|one| one.encrypt(0.5));
    let product = evaluator.tensor(&x, &x).unwrap();
    let plain = encoder.encode(&[0.25; 32], &Scale::power_of_two(40), 5).unwrap();
    let diagonal = encoder.encode_diagonal(&[0.25; 32], &Scale::power_of_two(40), 5).unwrap();
    let scaled = evaluator.mul_plain(&x, &plain).unwrap();
    let h = evaluator.hoist(&x).unwrap();
    let diagonals: BTreeMap<i64, Vec<f64>> = (0..4).map(|step| (step, vec![0.5; 32])).collect();
    let transform = ckks::LinearTransform::new(&encoder, &diagonals, &Scale::power_of_two(40), 5).unwrap();
    let grid = ckks::Grid { baby: 1, babies: 2, giant: 2, giants: 1 };
    let sum_of = |inputs: &[&ckks::Ciphertext], keys: &ckks::EvaluationKeys| {
        evaluator.transform_sum(inputs, &vec![&diagonal; 2 * inputs.len()], grid, &[keys])
    };
    let matrix = WeightMatrix::new(2, &[1, 2]).unwrap();
    let sums = [ProductSums { weights: vec![0], inputs: vec![vec![0]] }];
    let first = |list: Result<Vec<ckks::Ciphertext>, OperationError>| list.map(|mut list| list.remove(0));
    let unchanged = |to: &ckks::Ciphertext, act: &dyn Fn(&mut ckks::Ciphertext) -> Result<(), OperationError>| {
        let mut sum = to.clone();
        let result = act(&mut sum);
        assert!(
            wire::encode_ckks_ciphertext(&sum).unwrap() == wire::encode_ckks_ciphertext(to).unwrap(),
            "nothing changes"
        );
        result.map(|()| sum)
    };
    let results = vec![
        ("add", evaluator.add(&x, &y)),
        ("add_assign", unchanged(&x, &|sum| evaluator.add_assign(sum, &y))),
        ("sub", evaluator.sub(&x, &y)),
        ("align", evaluator.align(&x, &y).map(|(x, _)| x.into_owned())),
        ("tensor", evaluator.tensor(&x, &y)),
        ("mul", evaluator.mul(&x, &y, &a.keys)),
        ("mul with the other's keys", evaluator.mul(&x, &x, &b.keys)),
        ("mul_rescale", evaluator.mul_rescale(&x, &y, &a.keys)),
        ("relinearize", evaluator.relinearize(&product, &b.keys)),
        ("relinearize_rescale", evaluator.relinearize_rescale(&product, &b.keys)),
        ("mul_plain_add_assign", unchanged(&scaled, &|sum| evaluator.mul_plain_add_assign(sum, &y, &plain))),
        ("dot_plain", evaluator.dot_plain(&[(&x, &plain), (&y, &plain)])),
        ("rotate", evaluator.rotate(&x, 1, &b.keys)),
        ("rotate without such a key", evaluator.rotate(&x, 9, &b.keys)),
        ("rotate_hoisted", evaluator.rotate_hoisted(&h, 1, &b.keys)),
        ("conjugate", evaluator.conjugate(&x, &b.keys)),
        ("sum_slots", evaluator.sum_slots(&x, 4, &b.keys)),
        ("weighted_sums", first(evaluator.weighted_sums(&matrix, 4, &[&x, &y]))),
        ("tensor_sums", first(evaluator.tensor_sums(&sums, &[&x], &[&y]))),
        ("tensor_sums of two inputs", first(evaluator.tensor_sums(&sums, &[&x, &y], &[&x]))),
        ("transform", evaluator.transform(&x, &transform, &b.keys)),
        ("transform_sum", sum_of(&[&x, &y], &a.keys)),
        ("transform_sum with the other's keys", sum_of(&[&x], &b.keys)),
        ("polynomial", evaluator.polynomial(&x, &[0.1, 0.2, 0.3], &b.keys)),
    ];
    let expected = OperationError::OtherKey(mixed(&a.secret, &b.secret));
    assert_all(results, &expected);

    let holder = ckks::Decryptor::new(&a.secret, &encoder).unwrap();
    let other = ckks::ReleaseError::from(expected.clone());
    assert_eq!(holder.decrypt(&y).map(drop), Err(other.clone()));
    assert_eq!(holder.decrypt_complex(&y).map(drop), Err(other.clone()));
    assert_eq!(holder.rounded(&y, 2).map(drop), Err(other.clone()));
    assert_eq!(holder.label(&y, &[0, 1]).map(drop), Err(other.clone()));
    assert!(holder.plaintext(&y).map(drop).is_err_and(|error| error.to_string() == other.to_string()));
    // a budget belongs to one key, and an error costs nothing
    let mut budget = ckks::FloodBudget::new(&b.secret, 14, 6, 2).unwrap();
    assert_eq!(holder.flooded(&x, &mut budget, &mut rng(4)).map(drop), Err(other));
    let holder = ckks::Decryptor::new(&b.secret, &encoder).unwrap();
    let other = ckks::ReleaseError::from(OperationError::OtherKey(mixed(&b.secret, &a.secret)));
    assert_eq!(holder.flooded(&x, &mut budget, &mut rng(4)).map(drop), Err(other));
    assert_eq!(budget.left(), 2);
    holder.flooded(&y, &mut budget, &mut rng(4)).unwrap();
    let mut keys = a.keys.clone();
    let refused = [
        keys.add_relinearization(&b.secret, 5, &mut rng(3)),
        keys.add_rotation(&b.secret, 3, 5, &mut rng(3)),
        keys.add_conjugation(&b.secret, 5, &mut rng(3)),
        keys.take_rotation(1).unwrap().add_conjugation(&b.secret, 5, &mut rng(3)),
    ];
    assert_eq!(refused, std::array::from_fn(|_| Err(expected.clone())));
    assert!((a.decrypt(&evaluator.mul(&x, &x, &a.keys).unwrap()) - 0.25).abs() < 1e-6, "one key computes");
}

/// A server that keeps ciphertexts of many people, restarts, and takes the wrong one at times.
#[test]
fn an_identity_outlives_operations_bytes_and_restarts() {
    let people: Vec<Exact> = (1..5).map(Exact::new).collect();
    let ids: BTreeSet<_> = people.iter().map(|one| one.secret.id().unwrap().to_bytes()).collect();
    assert_eq!(ids.len(), 4);
    let (parameters, mut rng) = (integers(), rng(20));
    let restarted = |one: &Exact| {
        let (public, keys) = (wire::encode_ring_public_key(&one.public), &one.keys);
        Exact {
            secret: wire::decode_ring_secret_key(&wire::encode_ring_secret_key(&one.secret), &parameters).unwrap(),
            public: wire::decode_ring_public_key(&public, &parameters).unwrap(),
            keys: wire::decode_evaluation_keys(&wire::encode_evaluation_keys(keys), &parameters).unwrap(),
        }
    };
    let mut server: Vec<Exact> = people.iter().map(restarted).collect();
    let evaluator = bgv::Evaluator::new(&parameters).unwrap();
    let encoder = bgv::Encoder::new(&parameters).unwrap();
    let (mut mixtures, mut right) = (0, 0);
    for question in 0..200 {
        let owner = (rng.next_u32() % 4) as usize;
        let number = i64::from(rng.next_u32() % 5) - 2;
        let message = encoder.encode(&[number; 64]).unwrap();
        let first = message.encrypt(&server[owner].public, 5, &mut rng).unwrap();
        let (mut x, mut expected, mut good) = (first.clone(), number, true);
        for _ in 0..3 {
            // now and then, the keys or the ciphertext of somebody else
            let other = if rng.next_u32().is_multiple_of(6) { (owner + 1) % 4 } else { owner };
            let (one, keys) = (people[other].encrypt(1), &server[other].keys);
            let (result, next) = match rng.next_u32() % 5 {
                0 => (evaluator.add(&x, &one), expected + 1),
                1 => (evaluator.sub(&x, &one), expected - 1),
                2 => (evaluator.rotate(&x, 1, keys), expected),
                3 => (evaluator.mul_mod_switch(&x, &first, keys), expected * number),
                _ => {
                    let mut read = wire::decode_ciphertext(&wire::encode_ciphertext(&x).unwrap(), &parameters).unwrap();
                    read.declare_noise(x.noise_bound());
                    server = people.iter().map(restarted).collect();
                    (evaluator.add(&read, &one), expected + 1)
                }
            };
            let [mine, theirs] = [owner, other].map(|one| &people[one].secret);
            match result {
                Ok(result) => (x, expected) = (result, next),
                Err(why) => {
                    assert_eq!(why, bgv::EvaluateError::OtherKey(mixed(mine, theirs)), "question {question}");
                    (good, mixtures) = (false, mixtures + 1);
                    break;
                }
            }
            assert_eq!(other, owner, "question {question}: a mixture was computed");
            assert_eq!(x.key(), mine.id());
        }
        if good {
            assert_eq!(people[owner].decrypt(&x), expected, "question {question}");
            right += 1;
        }
    }
    assert!(mixtures > 40 && right > 80, "{mixtures} mixtures, {right} results");
}

/// Objects of version 1 and of keys from seeds: nothing is known, so nothing is refused, until
/// something known joins them.
#[test]
fn an_unknown_key_fits_every_key_and_results_take_the_known_one() {
    let [a, b] = [1, 2].map(Exact::new);
    let unknown = a.unknown();
    let evaluator = bgv::Evaluator::new(&integers()).unwrap();
    let (x, y, z) = (a.encrypt(5), unknown.encrypt(6), b.encrypt(7));
    assert_eq!((y.key(), unknown.keys.id(), unknown.public.id()), (None, None, None));
    let sum = evaluator.add(&y, &x).unwrap();
    assert_eq!((sum.key(), a.decrypt(&sum), unknown.decrypt(&sum)), (a.secret.id(), 11, 11));
    let expected = bgv::EvaluateError::OtherKey(mixed(&a.secret, &b.secret));
    assert_eq!(evaluator.add(&sum, &z).map(drop), Err(expected.clone()));
    let product = evaluator.mul(&y, &x, &unknown.keys).unwrap();
    assert_eq!((product.key(), a.decrypt(&product)), (a.secret.id(), 30));
    // a sum from zero takes the key of its first term
    let plain = bgv::Encoder::new(&integers()).unwrap().encode(&[2; 64]).unwrap();
    let prepared = bgv::PreparedPlaintext::new(&integers(), &plain, 5).unwrap();
    let mut sum = evaluator.zero(5).unwrap();
    evaluator.add_products(&mut sum, &[(&y, &prepared), (&x, &prepared)]).unwrap();
    assert_eq!((sum.key(), a.decrypt(&sum)), (a.secret.id(), 22));
    assert_eq!(evaluator.add_products(&mut sum, &[(&z, &prepared)]), Err(expected.clone()));
    assert_eq!(evaluator.dot_prepared(&[(&y, &prepared), (&x, &prepared), (&z, &prepared)]).map(drop), Err(expected));
    // the error that is left for unknown keys comes at decryption
    let stranger = b.unknown();
    let garbage = evaluator.rotate(&y, 1, &stranger.keys).unwrap();
    let found = bgv::Decryptor::new(&a.secret).unwrap().decrypt(&garbage).map(drop);
    assert_eq!(found, Err(bgv::DecryptError::Noise));

    let [a, b] = [1, 2].map(Approximate::new);
    let (x, y, z) = (a.encrypt(0.5), a.unknown().encrypt(0.25), b.encrypt(0.5));
    let evaluator = ckks::Evaluator::new(&approximate()).unwrap();
    let plain = ckks::Encoder::new(&approximate()).unwrap().encode(&[0.5; 32], &Scale::power_of_two(40), 5).unwrap();
    let mut sum = evaluator.mul_plain(&y, &plain).unwrap();
    evaluator.mul_plain_add_assign(&mut sum, &x, &plain).unwrap();
    assert_eq!(sum.key(), a.secret.id());
    assert!((a.decrypt(&sum) - 0.375).abs() < 1e-6);
    let expected = OperationError::OtherKey(mixed(&a.secret, &b.secret));
    assert_eq!(evaluator.mul_plain_add_assign(&mut sum, &z, &plain), Err(expected.clone()));
    assert_eq!(evaluator.dot_plain(&[(&y, &plain), (&x, &plain), (&z, &plain)]).map(drop), Err(expected));
}

/// An identity is random, stays with its key, and does not depend on the secret.
#[test]
fn an_identity_is_no_function_of_the_secret() {
    let parameters = integers();
    let seed = Seed::from_bytes([3; 32]);
    assert_eq!(SecretKey::from_seed(&parameters, seed.clone()).id(), None);
    let ids: BTreeSet<[u8; 8]> = (0..200).map(|i| KeyId::random(&mut rng(i)).to_bytes()).collect();
    assert_eq!(ids.len(), 200);
    // one secret under two identities, and each is only itself
    let [a, b] = [1, 2]
        .map(|one| Exact::of(SecretKey::from_seed(&parameters, seed.clone()).with_id(KeyId::random(&mut rng(one)))));
    let evaluator = bgv::Evaluator::new(&parameters).unwrap();
    assert!(evaluator.add(&a.encrypt(1), &b.encrypt(1)).is_err());
    let [bytes, others] = [&a, &b].map(|one| wire::encode_ring_public_key(&one.public));
    let differing = bytes.iter().zip(&others).filter(|(x, y)| x != y).count();
    assert!((1..=8).contains(&differing), "{differing} bytes: the identity alone");
}
