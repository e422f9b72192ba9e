//! The executed instructions must not depend on decrypted numbers. The compiler decides this, so
//! the test examines the compiled code: a child process computes with two secrets in turn, one
//! instruction at a time under a tracer, and the addresses of all instructions must be the same.
//! The test does not measure times of single instructions.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trace;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use tobari_lattice::bgv;
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::SecretKey;

/// The environment variable that names the work of a traced child.
const CHILD: &str = "TOBARI_TEST_TRACED";

/// Does its work with one secret or the other.
type Work = Box<dyn Fn(bool)>;

fn main() -> ExitCode {
    if let Ok(work) = env::var(CHILD) {
        return traced(&work);
    }
    tobari_host::testing::run_tests(
        &[
            ("a_branch_on_a_secret_is_seen", a_branch_on_a_secret_is_seen),
            ("fault_34_no_branch_depends_on_a_slot", fault_34_no_branch_depends_on_a_slot),
            (
                "a_message_of_bgv_is_decrypted_without_a_branch_on_it",
                a_message_of_bgv_is_decrypted_without_a_branch_on_it,
            ),
        ],
        &env::args().skip(1).collect::<Vec<_>>(),
    )
}

fn work(name: &str) -> Work {
    match name {
        "branch" => Box::new(|which| {
            let secret = black_box(u64::from(which));
            if secret == 1 {
                black_box(secret.wrapping_mul(3));
            }
        }),
        "bgv" => bgv_decryption(),
        other => ckks_decryption(other),
    }
}

/// Ten labels are not a multiple of the vector width, so the loop's remainder is tested, too; the
/// compiler makes separate code for it. One message has large numbers and the other one zeros, so
/// that its coefficients are errors alone, some of them 0: decoding had a branch on those.
fn ckks_decryption(release: &str) -> Work {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let parameters = LatticeParameters::insecure_of_sizes(64, &[40], &[], 1, Plaintext::Approximate).unwrap();
    let secret: &SecretKey = Box::leak(Box::new(SecretKey::generate(&parameters, &mut rng)));
    let encoder: &Encoder = Box::leak(Box::new(Encoder::new(&parameters).unwrap().within(10.0)));
    let mut encrypt = |number: &dyn Fn(usize) -> f64| {
        let slots: Vec<f64> = (0..encoder.slots()).map(number).collect();
        let plaintext = encoder.encode(&slots, &Scale::power_of_two(25), 1).unwrap();
        plaintext.encrypt_seeded(secret, &mut rng).unwrap().expand()
    };
    let ciphertexts: [Ciphertext; 2] = [encrypt(&|place| (place * 7 % 10) as f64 - 3.25), encrypt(&|_| 0.0)];
    let decryptor = Decryptor::new(secret, encoder).unwrap();
    let slots: Vec<usize> = (0..10).collect();
    let release = release.to_owned();
    Box::new(move |which| {
        let ciphertext = &ciphertexts[usize::from(which)];
        match &*release {
            "label" => _ = black_box(decryptor.label(ciphertext, &slots).unwrap()),
            "top" => _ = black_box(decryptor.top(ciphertext, &slots, 3).unwrap()),
            "rounded" => _ = black_box(decryptor.rounded(ciphertext, 2).unwrap()),
            other => panic!("no work is called {other}"),
        }
    })
}

fn bgv_decryption() -> Work {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let t = Plaintext::Integers(Modulus::new(257).unwrap());
    let parameters = LatticeParameters::insecure_of_sizes(64, &[40], &[], 1, t).unwrap();
    let secret: &SecretKey = Box::leak(Box::new(SecretKey::generate(&parameters, &mut rng)));
    let decryptor = bgv::Decryptor::new(secret).unwrap();
    let mut encrypt = |number: &dyn Fn(i64) -> i64| {
        let coefficients: Vec<i64> = (0..64).map(number).collect();
        let message = bgv::Plaintext::from_coefficients(&parameters, &coefficients).unwrap();
        decryptor.encrypt(&message, 1, &mut rng).unwrap().expand()
    };
    let ciphertexts = [encrypt(&|place| place * place), encrypt(&|place| -place % 3)];
    let decryptor: &bgv::Decryptor<'_> = Box::leak(Box::new(bgv::Decryptor::new(secret).unwrap()));
    Box::new(move |which| _ = black_box(decryptor.decrypt(&ciphertexts[usize::from(which)]).unwrap()))
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn traced(name: &str) -> ExitCode {
    if trace::run(&work(name)) { ExitCode::SUCCESS } else { ExitCode::from(trace::UNTRACED) }
}

/// The place at which the runs with both secrets differ, and the number of instructions; `None` if
/// nothing can be traced.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn parted(name: &str) -> Option<(Option<String>, usize)> {
    trace::compare(name)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn traced(name: &str) -> ExitCode {
    work(name)(false);
    ExitCode::FAILURE
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn parted(_: &str) -> Option<(Option<String>, usize)> {
    None
}

fn not_run(test: &str) {
    tobari_host::testing::not_run(test, "this system traces no process");
}

fn a_branch_on_a_secret_is_seen() {
    match parted("branch") {
        Some((parted, _)) => assert!(parted.is_some(), "the tracer would see nothing"),
        None => not_run("a_branch_on_a_secret_is_seen"),
    }
}

fn fault_34_no_branch_depends_on_a_slot() {
    for release in ["label", "top", "rounded"] {
        match parted(release) {
            Some((parted, count)) => {
                assert_eq!(parted, None, "{release}");
                assert!(count > 1_000, "{release}: {count} instructions");
            }
            None => not_run("fault_34_no_branch_depends_on_a_slot"),
        }
    }
}

fn a_message_of_bgv_is_decrypted_without_a_branch_on_it() {
    match parted("bgv") {
        Some((parted, count)) => {
            assert_eq!(parted, None);
            assert!(count > 1_000, "{count} instructions");
        }
        None => not_run("a_message_of_bgv_is_decrypted_without_a_branch_on_it"),
    }
}
