//! Traps of other libraries: mistakes that gave users a wrong value without notice, a crash, or an
//! unclear error. Users reported all of them in public issue trackers.
//!
//! A test makes the user's mistake with this crate. The test asserts the right value, or the exact
//! variant of the error. Its comment names the threads, as `owner/repository#number`; the numbers
//! are those of public threads. The last test here compares the comments with this table of
//! threads and files.
//!
//! | thread | file |
//! |---|---|
//! | alan-turing-institute/SHEEP#204 | products |
//! | google/heir#1823 | bounds |
//! | google/heir#3337 | keys |
//! | homenc/HElib#125 | parameters |
//! | homenc/HElib#148 | noise |
//! | homenc/HElib#279 | noise |
//! | homenc/HElib#284 | refresh |
//! | homenc/HElib#285 | noise |
//! | homenc/HElib#291 | encoding |
//! | homenc/HElib#347 | encoding |
//! | homenc/HElib#450 | bounds |
//! | homenc/HElib#524 | noise |
//! | homenc/HElib#526 | bytes |
//! | homenc/HElib#527 | bytes |
//! | homenc/HElib#529 | bytes |
//! | Huelse/SEAL-Python#84 | levels |
//! | ibarrond/Pyfhel#44 | noise |
//! | ibarrond/Pyfhel#177 | encoding |
//! | ibarrond/Pyfhel#215 | parameters |
//! | ibarrond/Pyfhel#235 | scales |
//! | ibarrond/Pyfhel#269 | levels |
//! | microsoft/SEAL#10 | encoding |
//! | microsoft/SEAL#50 | scales |
//! | microsoft/SEAL#64 | scales |
//! | microsoft/SEAL#97 | products |
//! | microsoft/SEAL#166 | encoding |
//! | microsoft/SEAL#200 | products |
//! | microsoft/SEAL#220 | parameters |
//! | microsoft/SEAL#222 | parameters |
//! | microsoft/SEAL#224 | products |
//! | microsoft/SEAL#252 | bounds |
//! | microsoft/SEAL#285 | keys |
//! | microsoft/SEAL#307 | noise |
//! | microsoft/SEAL#351 | products |
//! | microsoft/SEAL#367 | noise |
//! | microsoft/SEAL#372 | scales |
//! | microsoft/SEAL#377 | levels |
//! | microsoft/SEAL#420 | parameters |
//! | microsoft/SEAL#423 | levels |
//! | microsoft/SEAL#433 | bytes |
//! | microsoft/SEAL#453 | parameters |
//! | microsoft/SEAL#570 | encoding |
//! | microsoft/SEAL#608 | parameters |
//! | microsoft/SEAL#655 | bytes |
//! | microsoft/SEAL#659 | scales |
//! | microsoft/SEAL#668 | encoding |
//! | microsoft/SEAL#684 | noise |
//! | microsoft/SEAL#742 | noise |
//! | openfheorg/openfhe-development#111 | noise |
//! | openfheorg/openfhe-development#382 | parameters |
//! | openfheorg/openfhe-development#390 | refresh |
//! | openfheorg/openfhe-development#571 | bytes |
//! | openfheorg/openfhe-development#575 | products |
//! | openfheorg/openfhe-development#584 | parameters |
//! | openfheorg/openfhe-development#610 | refresh |
//! | openfheorg/openfhe-development#675 | keys |
//! | openfheorg/openfhe-development#714 | noise |
//! | openfheorg/openfhe-development#941 | bytes |
//! | openfheorg/openfhe-development#1112 | refresh |
//! | openfheorg/openfhe-development#1235 | encoding |
//! | openfheorg/openfhe-development#1257 | encoding |
//! | openfheorg/openfhe-development#1264 | refresh |
//! | openfheorg/openfhe-development#1317 | keys |
//! | openfheorg/openfhe-development#1333 | scales |
//! | OpenMined/TenSEAL#19 | encoding |
//! | OpenMined/TenSEAL#78 | levels |
//! | OpenMined/TenSEAL#187 | noise |
//! | OpenMined/TenSEAL#205 | levels |
//! | OpenMined/TenSEAL#206 | keys |
//! | OpenMined/TenSEAL#354 | products |
//! | OpenMined/TenSEAL#398 | products |
//! | OpenMined/TenSEAL#411 | scales |
//! | OpenMined/TenSEAL#449 | products |
//! | OpenMined/TenSEAL#452 | keys |
//! | OpenMined/TenSEAL#453 | bounds |
//! | OpenMined/TenSEAL#500 | encoding |
//! | OpenMined/TenSEAL#504 | products |
//! | s0l0ist/node-seal#109 | bytes |
//! | s0l0ist/node-seal#160 | products |
//! | snucrypto/HEAAN#33 | refresh |
//! | tfhe/tfhe#272 | bytes |
//! | tfhe/tfhe#273 | bytes |
//! | tuneinsight/lattigo#96 | refresh |
//! | tuneinsight/lattigo#134 | refresh |
//! | tuneinsight/lattigo#141 | refresh |
//! | tuneinsight/lattigo#169 | scales |
//! | tuneinsight/lattigo#338 | scales |
//! | tuneinsight/lattigo#467 | scales |
//! | tuneinsight/lattigo#476 | refresh |
//! | tuneinsight/lattigo#478 | encoding |
//! | tuneinsight/lattigo#505 | refresh |
//! | tuneinsight/lattigo#517 | encoding |
//! | tuneinsight/lattigo#581 | scales |
//! | zama-ai/tfhe-rs#572 | bytes |
//! | zama-ai/tfhe-rs#3827 | parameters |

mod bounds;
mod bytes;
mod encoding;
mod keys;
mod levels;
mod noise;
mod parameters;
mod products;
mod refresh;
mod scales;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::cell::RefCell;
use std::collections::BTreeSet;
use tobari_lattice::ckks::{Precision, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::{bgv, ckks, wire};

/// Errors at the scale 2^40 are about 2^-32.
const SMALL: f64 = 1.0 / (1u64 << 24) as f64;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// Bytes of an object before its own fields: version, kind, parameters, identity of the key.
fn head_bytes(parameters: &LatticeParameters) -> usize {
    wire::encode_parameters(parameters).len() + 8
}

/// 32 numbers from -1 to 1.
fn numbers(seed: u32) -> Vec<f64> {
    (0..32).map(|j| f64::from((j * 37 + seed * 11) % 101) / 50.0 - 1.0).collect()
}

fn zip(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
}

/// A row whose slot `j` has the value of slot `j + step`.
fn turned<T: Copy>(row: &[T], step: i64) -> Vec<T> {
    let length = row.len() as i64;
    (0..length).map(|j| row[(j + step).rem_euclid(length) as usize]).collect()
}

/// A holder of keys, and a server for approximate numbers.
struct Ckks {
    secret: SecretKey,
    keys: ckks::EvaluationKeys,
    encoder: ckks::Encoder,
    evaluator: ckks::Evaluator,
    rng: RefCell<ChaCha20Rng>,
}

impl Ckks {
    /// At degree 64, without security: 32 slots, and a digit for each data prime.
    fn toy(data: &[u32]) -> Self {
        let approximate = Plaintext::Approximate;
        Self::of(&LatticeParameters::insecure_of_sizes(64, data, &[50], data.len(), approximate).unwrap())
    }

    /// With the keys for products, conjugations, and some rotations.
    fn of(parameters: &LatticeParameters) -> Self {
        let (mut rng, level) = (rng(1), parameters.data_primes());
        let secret = SecretKey::generate(parameters, &mut rng);
        let mut keys = ckks::EvaluationKeys::new(parameters);
        keys.add_relinearization(&secret, level, &mut rng).unwrap();
        keys.add_conjugation(&secret, level, &mut rng).unwrap();
        for step in [1, 2, 4, 8, 16, -1] {
            keys.add_rotation(&secret, step, level, &mut rng).unwrap();
        }
        let (encoder, evaluator) = (ckks::Encoder::new(parameters).unwrap(), ckks::Evaluator::new(parameters).unwrap());
        Self { secret, keys, encoder, evaluator, rng: RefCell::new(rng) }
    }

    fn plain(&self, slots: &[f64], scale: u32, level: usize) -> ckks::Plaintext {
        let range = slots.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        self.encoder.within(range).encode(slots, &Scale::power_of_two(scale), level).unwrap()
    }

    fn encrypt(&self, slots: &[f64], scale: u32, level: usize) -> ckks::Ciphertext {
        let plain = self.plain(slots, scale, level);
        plain.encrypt_seeded(&self.secret, &mut *self.rng.borrow_mut()).unwrap().expand()
    }

    fn decrypt(&self, ciphertext: &ckks::Ciphertext) -> Vec<f64> {
        ckks::Decryptor::new(&self.secret, &self.encoder).unwrap().decrypt(ciphertext).unwrap().to_vec()
    }

    /// Asserts that every slot is within `most` of its expected value.
    #[track_caller]
    fn assert_slots(&self, found: &ckks::Ciphertext, expected: &[f64], most: f64) {
        let found = self.decrypt(found);
        assert_eq!(found.len(), expected.len(), "a value for every slot");
        let error = Precision::of(&found, expected).max();
        assert!(error <= most, "an error of {error:e}, at most {most:e}");
    }
}

/// A holder of keys, and a server for integers.
struct Bgv {
    secret: SecretKey,
    keys: bgv::EvaluationKeys,
    encoder: bgv::Encoder,
    evaluator: bgv::Evaluator,
    rng: RefCell<ChaCha20Rng>,
    t: i64,
}

impl Bgv {
    /// Modulo 257 at degree 64, without security: 64 slots in two rows, primes of 40 bits.
    fn toy(primes: usize) -> Self {
        let t = Plaintext::Integers(Modulus::new(257).unwrap());
        Self::of(&LatticeParameters::insecure_of_sizes(64, &vec![40; primes], &[45], primes, t).unwrap())
    }

    /// With the keys for products, swaps, and some rotations, if there is a special prime.
    fn of(parameters: &LatticeParameters) -> Self {
        let (mut rng, level) = (rng(2), parameters.data_primes());
        let secret = SecretKey::generate(parameters, &mut rng);
        let mut keys = bgv::EvaluationKeys::new(parameters);
        if !parameters.ring().special_primes().is_empty() {
            keys = keys.with_relinearization(&secret, level, &mut rng).unwrap();
            keys = keys.with_swap(&secret, level, &mut rng).unwrap();
            for step in [1, 2, -1] {
                keys = keys.with_rotation(&secret, step, level, &mut rng).unwrap();
            }
        }
        let (encoder, evaluator) = (bgv::Encoder::new(parameters).unwrap(), bgv::Evaluator::new(parameters).unwrap());
        let t = parameters.error_factor() as i64;
        Self { secret, keys, encoder, evaluator, rng: RefCell::new(rng), t }
    }

    fn public(&self) -> PublicKey {
        PublicKey::generate(&self.secret, &mut *self.rng.borrow_mut())
    }

    /// 64 centred numbers.
    fn values(&self, seed: i64) -> Vec<i64> {
        (0..64).map(|i| self.centred(i * i * 31 + seed * 17 + i)).collect()
    }

    /// The residue of least absolute value.
    fn centred(&self, value: i64) -> i64 {
        let residue = value.rem_euclid(self.t);
        if residue > self.t / 2 { residue - self.t } else { residue }
    }

    /// The centred results of an operation, slot by slot.
    fn zip(&self, a: &[i64], b: &[i64], of: impl Fn(i64, i64) -> i64) -> Vec<i64> {
        a.iter().zip(b).map(|(a, b)| self.centred(of(*a, *b))).collect()
    }

    fn encrypt(&self, values: &[i64], level: usize) -> bgv::Ciphertext {
        let holder = bgv::Decryptor::new(&self.secret).unwrap();
        self.encoder
            .encode(values)
            .unwrap()
            .encrypt_seeded(holder.key(), level, &mut *self.rng.borrow_mut())
            .unwrap()
            .expand()
    }

    fn decrypt(&self, ciphertext: &bgv::Ciphertext) -> Result<Vec<i64>, bgv::DecryptError> {
        let message = bgv::Decryptor::new(&self.secret).unwrap().decrypt(ciphertext)?;
        Ok(self.encoder.decode(&message).unwrap())
    }
}

/// The text of this module, and of its files by name.
const HEAD: &str = include_str!("mod.rs");
const FILES: [(&str, &str); 10] = [
    ("bounds", include_str!("bounds.rs")),
    ("bytes", include_str!("bytes.rs")),
    ("encoding", include_str!("encoding.rs")),
    ("keys", include_str!("keys.rs")),
    ("levels", include_str!("levels.rs")),
    ("noise", include_str!("noise.rs")),
    ("parameters", include_str!("parameters.rs")),
    ("products", include_str!("products.rs")),
    ("refresh", include_str!("refresh.rs")),
    ("scales", include_str!("scales.rs")),
];

/// The threads in the comments of a file's tests, and the number of tests that name one.
fn named(text: &str) -> (Vec<&str>, usize) {
    let (mut found, mut threads, mut tests) = (Vec::new(), Vec::new(), 0);
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("/// ") {
            let quoted = comment.split('`').skip(1).step_by(2);
            threads.extend(quoted.filter(|word| word.contains('/') && word.contains('#')));
        } else if line.starts_with("fn ") {
            tests += usize::from(!threads.is_empty());
            found.append(&mut threads);
        }
    }
    (found, tests)
}

#[test]
fn the_table_lists_every_thread_with_its_file() {
    let rows = HEAD.lines().filter_map(|line| line.strip_prefix("//! | ")?.strip_suffix(" |")?.split_once(" | "));
    let rows: Vec<(&str, &str)> = rows.filter(|(thread, _)| thread.contains('#')).collect();
    let table: BTreeSet<(&str, &str)> = rows.iter().copied().collect();
    assert_eq!(table.len(), rows.len(), "each row once");
    let comments = FILES.iter().flat_map(|(file, text)| named(text).0.into_iter().map(move |thread| (thread, *file)));
    assert_eq!(table, comments.collect());
    let threads: BTreeSet<&str> = rows.iter().map(|(thread, _)| *thread).collect();
    assert!(threads.len() >= 45, "{} threads", threads.len());
    for thread in threads {
        let (repository, number) = thread.split_once('#').unwrap();
        assert!(repository.split('/').count() == 2 && number.parse::<u32>().is_ok(), "{thread}");
    }
    // every file of the folder is read, and every test names a thread
    let files: Vec<&str> = HEAD.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    assert_eq!(files, FILES.map(|(file, _)| file));
    for (file, text) in FILES {
        assert_eq!(text.matches("#[test]\nfn ").count(), named(text).1, "{file}");
    }
}
