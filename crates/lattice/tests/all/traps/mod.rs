//! Traps of other libraries: mistakes that gave users a wrong value without notice, a crash, or an
//! unclear error. Users reported all of them in public issue trackers.
//!
//! A test makes the user's mistake with this crate. The test asserts the right value, or the exact
//! variant of the error. Its comment names the threads, as `owner/repository#number`; the numbers
//! are those of public threads. The last test here compares the comments with this table.
//!
//! | thread | test |
//! |---|---|
//! | alan-turing-institute/SHEEP#204 | products::a_product_of_three_parts_turns_only_after_its_relinearisation |
//! | google/heir#3337 | keys::the_key_of_a_negative_step_serves_this_step |
//! | homenc/HElib#125 | parameters::a_plaintext_modulus_without_slots_is_refused_with_the_condition |
//! | homenc/HElib#148 | noise::repeated_shifts_are_right_until_there_is_no_budget |
//! | homenc/HElib#279 | noise::products_are_right_until_there_is_no_budget_and_errors_from_then_on |
//! | homenc/HElib#285 | noise::products_are_right_until_there_is_no_budget_and_errors_from_then_on |
//! | homenc/HElib#291 | encoding::constants_beyond_32_bits_are_added_exactly |
//! | homenc/HElib#347 | encoding::a_product_with_minus_one_has_its_third_power |
//! | homenc/HElib#524 | noise::a_forged_bound_on_the_noise_makes_no_message |
//! | homenc/HElib#526 | bytes::a_ciphertext_with_a_damaged_field_is_refused_by_the_name_of_the_field |
//! | homenc/HElib#527 | bytes::a_flipped_bit_in_parameters_is_an_error_or_other_parameters |
//! | homenc/HElib#529 | bytes::truncated_keys_and_parameters_are_refused_at_every_length |
//! | Huelse/SEAL-Python#84 | levels::a_plaintext_serves_its_level_and_all_lower_levels |
//! | ibarrond/Pyfhel#44 | noise::a_third_power_without_room_is_an_error |
//! | ibarrond/Pyfhel#177 | encoding::more_numbers_than_slots_are_refused_with_both_counts |
//! | ibarrond/Pyfhel#215 | parameters::a_plaintext_modulus_without_slots_is_refused_with_the_condition |
//! | ibarrond/Pyfhel#235 | scales::a_bias_is_encoded_at_the_scale_of_the_product |
//! | ibarrond/Pyfhel#269 | levels::ciphertexts_of_different_levels_are_refused_by_number_or_aligned |
//! | microsoft/SEAL#10 | encoding::numbers_over_many_primes_come_back |
//! | microsoft/SEAL#50 | scales::a_scale_as_large_as_the_modulus_leaves_no_room_for_a_message |
//! | microsoft/SEAL#64 | scales::products_without_rescaling_end_when_the_scale_has_no_room |
//! | microsoft/SEAL#97 | products::a_product_of_three_parts_turns_only_after_its_relinearisation |
//! | microsoft/SEAL#166 | encoding::negative_slots_multiply_like_integers |
//! | microsoft/SEAL#200 | products::a_product_with_a_number_below_the_precision_is_zero |
//! | microsoft/SEAL#220 | parameters::a_plaintext_modulus_out_of_range_is_refused |
//! | microsoft/SEAL#222 | parameters::a_plaintext_modulus_without_slots_is_refused_with_the_condition |
//! | microsoft/SEAL#224 | products::a_difference_with_itself_is_zero_and_starts_a_sum |
//! | microsoft/SEAL#285 | keys::a_key_of_a_low_level_has_the_size_of_that_level |
//! | microsoft/SEAL#307 | noise::a_plaintext_product_without_room_is_an_error |
//! | microsoft/SEAL#351 | products::two_parts_and_three_parts_have_a_sum |
//! | microsoft/SEAL#367 | noise::a_fresh_ciphertext_without_room_is_an_error |
//! | microsoft/SEAL#372 | scales::a_scale_far_from_the_fresh_one_is_refused_in_a_sum_and_can_be_adjusted |
//! | microsoft/SEAL#377 | levels::a_plaintext_serves_its_level_and_all_lower_levels |
//! | microsoft/SEAL#420 | parameters::a_plaintext_modulus_without_slots_is_refused_with_the_condition |
//! | microsoft/SEAL#423 | levels::encryption_at_a_lower_level_has_the_bytes_of_that_level |
//! | microsoft/SEAL#433 | bytes::a_computed_ciphertext_goes_on_from_its_bytes_to_the_same_bits |
//! | microsoft/SEAL#453 | parameters::a_modulus_too_large_for_the_ring_is_refused_with_the_limit |
//! | microsoft/SEAL#570 | encoding::numbers_that_do_not_fit_the_modulus_are_refused_with_the_bound |
//! | microsoft/SEAL#608 | parameters::a_degree_of_65536_works |
//! | microsoft/SEAL#655 | bytes::a_stream_at_the_wrong_position_is_refused_for_what_is_found_there |
//! | microsoft/SEAL#659 | scales::scales_that_nearly_agree_are_shown_with_their_difference |
//! | microsoft/SEAL#668 | encoding::complex_numbers_are_encrypted_and_multiply |
//! | microsoft/SEAL#684 | noise::a_circuit_deeper_than_the_chain_is_an_error_in_both_schemes |
//! | microsoft/SEAL#742 | noise::noise_that_overflows_the_modulus_is_an_error |
//! | openfheorg/openfhe-development#111 | noise::polynomials_of_high_degree_are_right_or_an_error |
//! | openfheorg/openfhe-development#382 | parameters::a_modulus_too_large_for_the_ring_is_refused_with_the_limit |
//! | openfheorg/openfhe-development#571 | bytes::bytes_of_another_version_are_refused_as_such |
//! | openfheorg/openfhe-development#575 | products::a_product_of_three_parts_turns_only_after_its_relinearisation |
//! | openfheorg/openfhe-development#675 | keys::a_rotation_by_nothing_needs_no_key |
//! | openfheorg/openfhe-development#714 | noise::whatever_the_parameters_results_are_right_or_an_error |
//! | openfheorg/openfhe-development#941 | bytes::a_key_can_be_read_twice |
//! | openfheorg/openfhe-development#1235 | encoding::complex_numbers_are_encrypted_and_multiply |
//! | openfheorg/openfhe-development#1257 | encoding::tiny_numbers_are_zero_within_the_precision |
//! | openfheorg/openfhe-development#1317 | keys::every_step_is_taken_modulo_the_slots |
//! | openfheorg/openfhe-development#1333 | scales::a_constant_is_added_at_the_scale_of_its_ciphertext |
//! | OpenMined/TenSEAL#19 | encoding::more_numbers_than_slots_are_refused_with_both_counts |
//! | OpenMined/TenSEAL#78 | levels::products_beyond_the_last_prime_are_refused_with_the_missing_level |
//! | OpenMined/TenSEAL#187 | noise::a_third_power_without_room_is_an_error |
//! | OpenMined/TenSEAL#205 | levels::a_larger_scale_gives_no_further_product |
//! | OpenMined/TenSEAL#206 | keys::only_the_keys_that_were_asked_for_are_written |
//! | OpenMined/TenSEAL#354 | products::a_product_leaves_its_factors_as_they_were |
//! | OpenMined/TenSEAL#398 | products::zero_diagonals_of_a_matrix_are_zeros |
//! | OpenMined/TenSEAL#411 | scales::a_bias_is_encoded_at_the_scale_of_the_product |
//! | OpenMined/TenSEAL#449 | products::products_with_zero_keep_the_level_and_the_scale_of_the_others |
//! | OpenMined/TenSEAL#452 | keys::only_the_keys_that_were_asked_for_are_written |
//! | OpenMined/TenSEAL#500 | encoding::more_numbers_than_slots_are_refused_with_both_counts |
//! | OpenMined/TenSEAL#504 | products::matrices_of_every_shape_that_fits_the_slots_give_their_product |
//! | s0l0ist/node-seal#109 | bytes::a_key_that_was_recoded_as_text_is_refused |
//! | s0l0ist/node-seal#160 | products::a_difference_with_itself_is_zero_and_starts_a_sum |
//! | tfhe/tfhe#272 | bytes::truncated_keys_and_parameters_are_refused_at_every_length |
//! | tfhe/tfhe#273 | bytes::an_object_of_another_shape_is_refused_and_writes_nothing_beyond_its_room |
//! | tuneinsight/lattigo#169 | scales::the_sum_of_all_slots_has_the_scale_of_its_ciphertext |
//! | tuneinsight/lattigo#338 | scales::a_difference_of_different_scales_is_refused_and_changes_no_operand |
//! | tuneinsight/lattigo#467 | scales::integers_of_different_factors_have_their_sum |
//! | tuneinsight/lattigo#478 | encoding::all_coefficients_are_encoded_for_a_modulus_without_slots |
//! | tuneinsight/lattigo#517 | encoding::numbers_over_many_primes_come_back |
//! | tuneinsight/lattigo#581 | scales::a_constant_is_added_at_the_scale_of_its_ciphertext |
//! | zama-ai/tfhe-rs#572 | bytes::hostile_lengths_are_refused_before_any_memory_is_taken |
//! | zama-ai/tfhe-rs#3827 | parameters::a_plaintext_modulus_out_of_range_is_refused |

mod bytes;
mod encoding;
mod keys;
mod levels;
mod noise;
mod parameters;
mod products;
mod scales;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::cell::RefCell;
use std::collections::BTreeSet;
use tobari_lattice::ckks::{Precision, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::{bgv, ckks};

/// Errors at the scale 2^40 are about 2^-32.
const SMALL: f64 = 1.0 / (1u64 << 24) as f64;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
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
        self.encoder.encode(slots, &Scale::power_of_two(scale), level).unwrap()
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
        let mut keys = bgv::EvaluationKeys::none();
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
        holder.encrypt(&self.encoder.encode(values).unwrap(), level, &mut *self.rng.borrow_mut()).expand()
    }

    fn decrypt(&self, ciphertext: &bgv::Ciphertext) -> Result<Vec<i64>, bgv::DecryptError> {
        let message = bgv::Decryptor::new(&self.secret).unwrap().decrypt(ciphertext)?;
        Ok(self.encoder.decode(&message))
    }
}

/// The text of this module, and of its files by name.
const HEAD: &str = include_str!("mod.rs");
const FILES: [(&str, &str); 8] = [
    ("bytes", include_str!("bytes.rs")),
    ("encoding", include_str!("encoding.rs")),
    ("keys", include_str!("keys.rs")),
    ("levels", include_str!("levels.rs")),
    ("noise", include_str!("noise.rs")),
    ("parameters", include_str!("parameters.rs")),
    ("products", include_str!("products.rs")),
    ("scales", include_str!("scales.rs")),
];

/// The threads in the comments of a file's tests, each with its test.
fn named(file: &str, text: &str) -> Vec<(String, String)> {
    let (mut found, mut threads) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("/// ") {
            let quoted = comment.split('`').skip(1).step_by(2);
            threads.extend(quoted.filter(|word| word.contains('/') && word.contains('#')).map(str::to_owned));
        } else if let Some(test) = line.strip_prefix("fn ") {
            let name = test.split('(').next().unwrap();
            found.extend(threads.drain(..).map(|thread| (thread, format!("{file}::{name}"))));
        }
    }
    found
}

#[test]
fn the_table_lists_every_thread_with_its_test() {
    let rows = HEAD.lines().filter_map(|line| line.strip_prefix("//! | ")?.strip_suffix(" |")?.split_once(" | "));
    let rows: Vec<(String, String)> =
        rows.filter(|(thread, _)| thread.contains('#')).map(|(thread, test)| (thread.into(), test.into())).collect();
    let table: BTreeSet<&(String, String)> = rows.iter().collect();
    assert_eq!(table.len(), rows.len(), "each row once");
    let comments: Vec<(String, String)> = FILES.iter().flat_map(|(file, text)| named(file, text)).collect();
    assert_eq!(table, comments.iter().collect());
    let threads: BTreeSet<&str> = rows.iter().map(|(thread, _)| thread.as_str()).collect();
    assert!(threads.len() >= 45, "{} threads", threads.len());
    for thread in threads {
        let (repository, number) = thread.split_once('#').unwrap();
        assert!(repository.split('/').count() == 2 && number.parse::<u32>().is_ok(), "{thread}");
    }
    // every file of the folder is read, and every test names a thread
    let files: Vec<&str> = HEAD.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    assert_eq!(files, FILES.map(|(file, _)| file));
    for (file, text) in FILES {
        let tests: BTreeSet<String> = named(file, text).into_iter().map(|(_, test)| test).collect();
        assert_eq!(text.matches("#[test]\nfn ").count(), tests.len(), "{file}");
    }
}
