//! No object that somebody sends costs more than ten times its bytes to read, and a little that is the same for all.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;
use tobari_core::bgv::{self, Decryptor};
use tobari_core::params::{LatticeParameters, Plaintext};
use tobari_core::ring::{Modulus, primes_below};
use tobari_core::rlwe::{PublicKey, SecretKey};
use tobari_core::wire;

thread_local! {
    /// Bytes that this thread holds, and the most that it held.
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

/// The most bytes that were held at once while this ran, above those before.
fn peak<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.with(|held| {
        held.set((held.get().0, held.get().0));
        held.get().0
    });
    let result = run();
    (HELD.with(|held| held.get().1 - before) as usize, result)
}

/// The same for every object: shared structures, a scratch row, a message of an error.
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
    // 440 ms before, when tables were made at once
    assert!(start.elapsed().as_millis() < 100, "{:?}", start.elapsed());
    // what is none costs no more
    let mut repeated = bytes.clone();
    let (one, two) = (14, 21);
    repeated.copy_within(one..two, two);
    let (most, read) = peak(|| wire::decode_parameters(&repeated));
    assert!(read.is_err() && most <= 10 * bytes.len() + FIXED, "{most}");
}

#[test]
fn fault_32_no_other_lattice_object_costs_more_than_ten_times_its_bytes() {
    let t = Plaintext::Integers(Modulus::new(257).unwrap());
    // the smallest primes that there are make the shortest objects
    for (data, special) in [(&[17u32, 18][..], &[19u32][..]), (&[36, 35], &[35])] {
        let parameters = LatticeParameters::of_sizes(1 << 12, data, special, 2, t).unwrap();
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let public = PublicKey::generate(&secret, &mut rng);
        let message = bgv::Plaintext::from_coefficients(&parameters, &[1]).unwrap();
        let seeded = Decryptor::new(&secret).unwrap().encrypt(&message, 2, &mut rng);
        let keys = bgv::EvaluationKeys::none().with_rotation(&secret, 1, 2, &mut rng).unwrap();
        let check = |name: &str, bytes: &[u8], most: usize| {
            assert!(most <= 10 * bytes.len() + FIXED, "{name}: {most} bytes for {}", bytes.len());
        };
        let bytes = wire::encode_ring_public_key(&public);
        check("public key", &bytes, peak(|| wire::decode_ring_public_key(&bytes, &parameters).unwrap()).0);
        let bytes = wire::encode_seeded_ciphertext(&seeded);
        let read = || wire::decode_seeded_ciphertext(&bytes, &parameters).unwrap().expand();
        check("seeded ciphertext", &bytes, peak(read).0);
        let bytes = wire::encode_ciphertext(&seeded.expand());
        check("ciphertext", &bytes, peak(|| wire::decode_ciphertext(&bytes, &parameters).unwrap()).0);
        let bytes = wire::encode_evaluation_keys(&keys, &parameters);
        check("keys", &bytes, peak(|| wire::decode_evaluation_keys(&bytes, &parameters).unwrap()).0);
    }
}
