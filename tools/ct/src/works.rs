//! What is traced: each work does the same with one secret or with the other.

#![allow(clippy::unwrap_used, reason = "works of a test")]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::hint::black_box;
use tobari_curve::{BuiltCurve, Curve, FixedBase, Points, Scalar};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::{Domain, Modulus, Seed};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::{bgv, ckks, wire};
use tobari_simd::{Backend, choose_backend};

/// A work with one secret.
pub(super) type Work = Box<dyn Fn()>;

/// The work with this secret.
fn on<T: 'static>(secret: T, run: impl Fn(&T) + 'static) -> Work {
    Box::new(move || run(&secret))
}

/// A work of fewer instructions was optimised away.
pub(super) const FEWEST: usize = 500;

/// The smallest ring: ternary samplers reject values, and two seeds that reject at the same places
/// are found for few coefficients only.
const SMALL: usize = 32;

/// Its slots.
const SLOTS: usize = SMALL / 2;

/// Names of all works, whether each has a fault, and the backends that it runs on.
pub(super) fn all() -> Vec<(String, bool, Vec<&'static str>)> {
    let faults = ["a branch", "an address", "a division"].map(|name| (name.to_owned(), true, vec!["portable"]));
    let lattice = [
        "gaussian errors",
        "binomial errors",
        "ternary secrets",
        "sparse secrets",
        "secret key from a seed",
        "secret key to bytes",
        "public key of a secret",
        "evaluation key of a secret",
        "bgv: encode and encrypt",
        "bgv: encrypt, public key",
        "bgv: decrypt",
        "ckks: encode and encrypt",
        "ckks: encrypt, public key",
        "ckks: decrypt",
        "ckks: label",
        "ckks: top",
        "ckks: rounded",
        "ckks: flooded",
    ];
    let mut backends = vec!["portable", "fastest"];
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("avx512ifma") {
        backends.insert(1, "avx2");
    }
    let mut all = Vec::from(faults);
    // these have one form on all backends
    let has_one_form = |name: &str| {
        ["binomial", "ternary", "sparse"].iter().any(|one| name.starts_with(one)) || name.contains("bytes")
    };
    // the loops that Valgrind cannot run, for both forms of field elements: a million instructions
    // each, which take most of a minute
    if std::is_x86_feature_detected!("avx512ifma") {
        let works = [(BuiltCurve::Secp256k1, "multiply many"), (BuiltCurve::NistP256, "fixed base")];
        let name = |(curve, what)| format!("points: {}: {what}", Curve::from(curve).name());
        all.extend(works.map(|work| (name(work), false, vec!["fastest"])));
    }
    all.extend(lattice.into_iter().map(|name| {
        let backends = if has_one_form(name) { vec!["fastest"] } else { backends.clone() };
        (name.to_owned(), false, backends)
    }));
    all
}

/// The work of this name on this backend, with the first secret (0) or the other. Both are in the
/// same place in memory: what is traced is a copy of one of two, or made by the same steps.
pub(super) fn work(backend: &str, name: &str, which: usize) -> Work {
    let backend = match backend {
        "portable" => Backend::Portable,
        "avx2" => Backend::Avx2,
        _ => Backend::Fastest,
    };
    choose_backend(backend).unwrap();
    match name {
        "a branch" => on([false, true][which], |secret| {
            if black_box(*secret) {
                black_box(3);
            }
        }),
        "an address" => {
            let table = vec![1u8; 4096];
            on([1024, 2048][which], move |secret| _ = black_box(table[*secret]))
        }
        "a division" => on([3, 1 << 40][which], |secret| _ = black_box(black_box(u64::MAX - 7) / black_box(*secret))),
        _ => match name.split_once(": ") {
            Some(("bgv", what)) => exact(what, which),
            Some(("ckks", what)) => approximate(what, which),
            Some(("points", what)) => points(what, which),
            _ => keys(name, which),
        },
    }
}

pub(super) fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// Two seeds whose ternary samplers reject at the same places, and whose values differ: the places
/// tell nothing about the values, and would part the runs.
fn seeds(domain: Domain, of: impl Fn(u64) -> Seed) -> [u64; 2] {
    // 2^32 - 5 keeps a word of 32 bits as it is
    let whole = Modulus::new((1 << 32) - 5).unwrap();
    let pattern = |index: u64| -> (Vec<bool>, Vec<u64>) {
        let mut words = [0; SMALL / 8];
        of(index).stream(domain, 0).uniform(&whole, &mut words);
        let crumbs = words.iter().flat_map(|word| (0..16).map(move |i| word >> (2 * i) & 3));
        let (mut kept, mut places, mut values) = (0, Vec::new(), Vec::new());
        for crumb in crumbs {
            if kept < SMALL {
                places.push(crumb == 3);
                kept += usize::from(crumb != 3);
                values.push(crumb);
            }
        }
        (places, values)
    };
    let mut seen = std::collections::HashMap::new();
    for index in 0..1_000_000 {
        let (places, values) = pattern(index);
        // enough values in two words, so that both seeds read as many
        if places.iter().filter(|rejected| !**rejected).count() < SMALL {
            continue;
        }
        match seen.get(&places) {
            None => _ = seen.insert(places, (index, values)),
            Some((first, before)) if *before != values => return [*first, index],
            Some(_) => {}
        }
    }
    unreachable!("two of a million seeds reject alike")
}

fn numbered(index: u64) -> Seed {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    Seed::from_bytes(bytes)
}

/// Toy parameters.
fn parameters(degree: usize, plaintext: Plaintext) -> LatticeParameters {
    LatticeParameters::insecure_of_sizes(degree, &[40, 40], &[40], 2, plaintext).unwrap()
}

fn integers() -> Plaintext {
    Plaintext::Integers(Modulus::new(257).unwrap())
}

fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Samplers, and keys.
fn keys(name: &str, which: usize) -> Work {
    match name {
        "gaussian errors" => on(numbered([1, 2][which]), |seed| {
            let mut out = [0; 64];
            seed.stream(Domain::Error, 0).gaussian(&mut out);
            black_box(out);
        }),
        "binomial errors" => on(numbered([1, 2][which]), |seed| {
            let mut out = [0; 64];
            seed.stream(Domain::Error, 0).centred_binomial(21, &mut out);
            black_box(out);
        }),
        "ternary secrets" => on(numbered(seeds(Domain::Secret, numbered)[which]), |seed| {
            let mut out = [0; SMALL];
            seed.stream(Domain::Secret, 0).ternary(&mut out);
            black_box(out);
        }),
        // no position is drawn twice: a rejected one would part the runs
        "sparse secrets" => on(numbered([1, 2][which]), |seed| {
            let mut out = [0; 1024];
            seed.stream(Domain::Secret, 1).sparse_ternary(4, &mut out);
            black_box(out);
        }),
        _ => keys_of_rings(name, which),
    }
}

fn keys_of_rings(name: &str, which: usize) -> Work {
    let parameters = leaked(parameters(SMALL, integers()));
    let seed = numbered(seeds(Domain::Secret, numbered)[which]);
    if name == "secret key from a seed" {
        return on(seed, move |seed| _ = black_box(SecretKey::from_seed(parameters, seed.clone())));
    }
    let secret = SecretKey::from_seed(parameters, seed);
    match name {
        "secret key to bytes" => on(secret, |secret| _ = black_box(wire::encode_ring_secret_key(secret))),
        "public key of a secret" => on(secret, |secret| _ = black_box(PublicKey::generate(secret, &mut rng(3)))),
        "evaluation key of a secret" => on(secret, |secret| {
            let mut keys = bgv::EvaluationKeys::new(parameters);
            keys.add_relinearization(secret, 1, &mut rng(4)).unwrap();
            black_box(&keys);
        }),
        other => panic!("no work is called {other}"),
    }
}

/// Works with eight points at once.
fn points(name: &str, which: usize) -> Work {
    let (curve, what) = name.split_once(": ").unwrap();
    let curve = Curve::from_name(curve).unwrap().built().unwrap();
    let scalars = [1, 2].map(|seed| Scalar::random(curve, &mut rng(seed)));
    let points = Points::generator(curve).repeat(0, 8);
    match what {
        "fixed base" => {
            let base = FixedBase::new(&points, 0);
            on(scalars[which].clone(), move |scalar| {
                _ = black_box(base.multiply_all(std::slice::from_ref(scalar)));
            })
        }
        "multiply many" => on(scalars[which].clone(), move |scalar| _ = black_box(points.multiply_all(scalar))),
        other => panic!("no work is called {other}"),
    }
}

/// Works with messages of BGV.
fn exact(what: &str, which: usize) -> Work {
    let parameters = leaked(parameters(SMALL, integers()));
    let secret = leaked(SecretKey::generate(parameters, &mut rng(1)));
    let (encoder, decryptor) = (bgv::Encoder::new(parameters).unwrap(), leaked(bgv::Decryptor::new(secret).unwrap()));
    let slots: [Vec<i64>; 2] = [vec![0; SMALL], (0..SMALL as i64).map(|i| i * i % 257 - 128).collect()];
    match what {
        "encode and encrypt" => on(slots[which].clone(), move |slots| {
            let message = encoder.encode(slots).unwrap();
            _ = black_box(message.encrypt_seeded(decryptor.key(), 2, &mut rng(6)).unwrap());
        }),
        "encrypt, public key" => {
            let public = leaked(PublicKey::generate(secret, &mut rng(2)));
            on(slots[which].clone(), move |slots| {
                let message = encoder.encode(slots).unwrap();
                _ = black_box(message.encrypt(public, 2, &mut rng(6)).unwrap());
            })
        }
        "decrypt" => {
            let encrypt = |slots: &Vec<i64>| {
                encoder.encode(slots).unwrap().encrypt_seeded(decryptor.key(), 2, &mut rng(7)).unwrap().expand()
            };
            on(slots.each_ref().map(encrypt)[which].clone(), |ciphertext| {
                _ = black_box(decryptor.decrypt(ciphertext).unwrap());
            })
        }
        other => panic!("no work is called {other}"),
    }
}

/// Works with messages of CKKS. Ten labels are not a multiple of the vector width, so the loop's
/// remainder is tested, too; the compiler makes separate code for it. One message has large numbers
/// and the other one zeros, so that its coefficients are errors alone, some of them 0: decoding had
/// a branch on those.
fn approximate(what: &str, which: usize) -> Work {
    let parameters = leaked(parameters(SMALL, Plaintext::Approximate));
    let secret = leaked(SecretKey::generate(parameters, &mut rng(1)));
    let encoder = leaked(ckks::Encoder::new(parameters).unwrap().within(10.0));
    let slots: [Vec<f64>; 2] = [vec![0.0; SLOTS], (0..SLOTS as u32).map(|i| f64::from(i * 7 % 10) - 3.25).collect()];
    let public = leaked(PublicKey::generate(secret, &mut rng(2)));
    let encode = |slots: &[f64]| encoder.encode(slots, &ckks::Scale::power_of_two(25), 2).unwrap();
    let decryptor = leaked(ckks::Decryptor::new(secret, encoder).unwrap());
    let encrypt = |slots: &Vec<f64>| encode(slots).encrypt_seeded(secret, &mut rng(8)).unwrap().expand();
    let ciphertexts = slots.each_ref().map(encrypt);
    let labels: Vec<usize> = (0..10).collect();
    match what {
        "encode and encrypt" => on(slots[which].clone(), move |slots| {
            _ = black_box(encode(slots).encrypt_seeded(secret, &mut rng(8)).unwrap());
        }),
        "encrypt, public key" => {
            on(slots[which].clone(), move |slots| _ = black_box(encode(slots).encrypt(public, &mut rng(8)).unwrap()))
        }
        "decrypt" => on(ciphertexts[which].clone(), |x| _ = black_box(decryptor.decrypt(x).unwrap())),
        "label" => on(ciphertexts[which].clone(), move |x| _ = black_box(decryptor.label(x, &labels).unwrap())),
        "top" => on(ciphertexts[which].clone(), move |x| _ = black_box(decryptor.top(x, &labels, 3).unwrap())),
        "rounded" => on(ciphertexts[which].clone(), |x| _ = black_box(decryptor.rounded(x, 2).unwrap())),
        "flooded" => on(ciphertexts[which].clone(), |x| {
            let mut budget = ckks::FloodBudget::new(secret, x.estimate().unwrap().noise_bits(), 1, 1).unwrap();
            _ = black_box(decryptor.flooded(x, &mut budget, &mut rng(9)).unwrap());
        }),
        other => panic!("no work is called {other}"),
    }
}
