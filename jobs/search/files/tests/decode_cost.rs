//! Reading an object from an untrusted sender takes at most ten times its bytes of memory, and a
//! small constant.

#![allow(clippy::unwrap_used, reason = "a test")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;
use tobari_lattice::bgv;
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::{Modulus, Seed, primes_below};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::wire;

thread_local! {
    /// Bytes that this thread holds, and the most bytes that it held.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(bytes: isize) {
    _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

#[expect(unsafe_code, reason = "an allocator that counts for the system's")]
// SAFETY: every call goes to the system's allocator as it came
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that were held while `run` ran, above those before.
fn peak<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.with(|held| {
        held.set((held.get().0, held.get().0));
        held.get().0
    });
    let result = run();
    (HELD.with(|held| held.get().1 - before) as usize, result)
}

/// The constant for every object: shared structures, the message of an error.
const FIXED: usize = 2048;

#[test]
fn fault_32_parameters_cost_no_more_than_ten_times_their_bytes() {
    let degree = 1 << 17;
    let primes: Vec<u64> = primes_below(50, 2 * degree as u64).take(70).collect();
    let set = LatticeParameters::new(degree, &primes[..60], &primes[60..], 6, Plaintext::Approximate).unwrap();
    let bytes = wire::encode_parameters(&set);
    assert_eq!(bytes.len(), 504);
    let start = Instant::now();
    let (most, read) = peak(|| wire::decode_parameters(&bytes));
    assert_eq!(read.unwrap().data_primes(), 60);
    assert!(most <= 10 * bytes.len() + FIXED, "{most} bytes for {}", bytes.len());
    // it took 440 ms when tables were made at once
    assert!(start.elapsed().as_millis() < 100, "{:?}", start.elapsed());
    // malformed parameters cost no more
    let mut repeated = bytes.clone();
    let (one, two) = (14, 21);
    repeated.copy_within(one..two, two);
    let (most, read) = peak(|| wire::decode_parameters(&repeated));
    assert!(read.is_err() && most <= 10 * bytes.len() + FIXED, "{most}");
}

#[test]
fn fault_32_no_other_lattice_object_costs_more_than_ten_times_its_bytes() {
    let t = Plaintext::Integers(Modulus::new(257).unwrap());
    // short primes make short objects. Words in memory have 64 bits, so shorter primes than these
    // cost more; no named set has shorter primes
    for (data, special) in [(&[20u32, 20][..], &[20u32][..]), (&[36, 35], &[35])] {
        let parameters = LatticeParameters::of_sizes(1 << 12, data, special, 2, t).unwrap();
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
        let public = PublicKey::generate(&secret, &mut rng);
        let message = bgv::Plaintext::from_coefficients(&parameters, &[1]).unwrap();
        let bytes = wire::encode_ring_public_key(&public);
        check("public key", &bytes, &parameters, |bytes, of| drop(wire::decode_ring_public_key(bytes, of).unwrap()));
        for level in 1..=2 {
            let seeded = message.encrypt_seeded(&secret, level, &mut rng).unwrap();
            let bytes = wire::encode_seeded_ciphertext(&seeded);
            check("seeded ciphertext", &bytes, &parameters, |bytes, of| {
                drop(wire::decode_seeded_ciphertext(bytes, of).unwrap());
            });
            check("seeded ciphertext, expanded", &bytes, &parameters, |bytes, of| {
                drop(wire::decode_seeded_ciphertext(bytes, of).unwrap().expand());
            });
            let bytes = wire::encode_ciphertext(&seeded.expand()).unwrap();
            check("ciphertext", &bytes, &parameters, |bytes, of| drop(wire::decode_ciphertext(bytes, of).unwrap()));
            let keys =
                bgv::EvaluationKeys::new(secret.parameters()).with_rotation(&secret, 1, level, &mut rng).unwrap();
            let bytes = wire::encode_evaluation_keys(&keys);
            check("keys", &bytes, &parameters, |bytes, of| drop(wire::decode_evaluation_keys(bytes, of).unwrap()));
        }
    }
}

/// Reads an object of unused parameters: a ring that was used has memory that it reuses.
fn check(name: &str, bytes: &[u8], parameters: &LatticeParameters, read: impl FnOnce(&[u8], &LatticeParameters)) {
    let fresh = wire::decode_parameters(&wire::encode_parameters(parameters)).unwrap();
    let (most, ()) = peak(|| read(bytes, &fresh));
    assert!(most <= 10 * bytes.len() + FIXED, "{name}: {most} bytes for {}", bytes.len());
}

/// A catalogue of a table: for each chromosome its sites, each with its distance from the last one
/// and an alternate allele.
fn catalogue(chromosomes: &[(String, Vec<(u8, String)>)]) -> Vec<u8> {
    // numbers below 2^21, in as few bytes as possible
    fn number(out: &mut Vec<u8>, number: usize) {
        match number {
            ..0x80 => out.push(number as u8),
            0x80..0x4000 => out.extend([number as u8 | 0x80, (number >> 7) as u8]),
            _ => out.extend([number as u8 | 0x80, (number >> 7) as u8 | 0x80, (number >> 14) as u8]),
        }
    }
    let mut out = [&b"TSC\x01"[..], &[7; 32], &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2]].concat();
    number(&mut out, chromosomes.len());
    for (name, sites) in chromosomes {
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        number(&mut out, sites.len());
        for (after, alternate) in sites {
            out.extend_from_slice(&[*after, 0, 1, b'A', alternate.len() as u8]);
            out.extend_from_slice(alternate.as_bytes());
        }
    }
    out
}

#[test]
fn fault_32_no_catalogue_costs_more_than_ten_times_its_bytes() {
    // three characters for each number, without lower case, because alleles ignore case
    let short = |number: usize| -> String {
        [number % 64, number / 64 % 64, number / 64 / 64].iter().map(|c| char::from(b'!' + *c as u8)).collect()
    };
    let one = |sites: Vec<(u8, String)>| vec![("20".to_owned(), sites)];
    let small = one(vec![(1, "C".to_owned()); 200_000]);
    let crowd = one((0..115_000).map(|number| (u8::from(number == 0), short(number))).collect());
    let few = one((0..200_000).map(|number| (u8::from(number % 17 == 0), short(number % 17))).collect());
    let long = one(vec![(1, "C".repeat(100)); 10_000]);
    // a hash table has just grown at this number of names
    let many = |names: usize| (0..names).map(|number| (short(number), vec![(1, "C".to_owned())])).collect();
    for (name, chromosomes) in [
        ("small sites", small),
        ("sites of one position", crowd),
        ("seventeen at each position", few),
        ("long alleles", long),
        ("chromosomes", many(115_000)),
        ("more chromosomes", many((1 << 17) + 1)),
    ] {
        let bytes = catalogue(&chromosomes);
        let (most, read) = peak(|| tobari_search::table::Catalogue::decode(&bytes));
        let read = read.unwrap();
        assert!(most <= 10 * bytes.len() + FIXED, "{name}: {most} bytes for {}", bytes.len());
        assert_eq!(read.encode(), bytes, "{name}");
    }
}
