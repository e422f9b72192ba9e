//! Refreshes at degrees without security.

use super::*;
use crate::ckks::{Decryptor, Estimate};
use crate::params::Plaintext;
use crate::rlwe::tests::rng;
use chacha20::ChaCha20Rng;

/// A key holder and a server. Six of the levels are data's.
struct Bench {
    secret: SecretKey,
    encoder: Encoder,
    rng: ChaCha20Rng,
}

impl Bench {
    fn new(log_degree: u32, seed: u8) -> Self {
        let data: Vec<u32> = [50, 40, 40, 40, 40, 40].into_iter().chain([50; 13]).collect();
        Self::of(log_degree, seed, &data, &[50; 4], 5)
    }

    /// Short primes, for bits at the scale `2^33`. Seven levels are data's.
    fn of_bits(log_degree: u32, seed: u8) -> Self {
        let data: Vec<u32> = [41, 33, 33, 33, 33, 33, 33].into_iter().chain([41; 12]).collect();
        let bench = Self::of(log_degree, seed, &data, &[42; 3], 7);
        Self { encoder: bench.encoder.within(1.25), ..bench }
    }

    fn of(log_degree: u32, seed: u8, data: &[u32], special: &[u32], digits: usize) -> Self {
        let kind = Plaintext::Approximate;
        let parameters = LatticeParameters::insecure_of_sizes(1 << log_degree, data, special, digits, kind).unwrap();
        let mut rng = rng(seed);
        let secret = SecretKey::generate(&parameters, &mut rng);
        Self { secret, encoder: Encoder::new(&parameters).unwrap(), rng }
    }

    fn server(&mut self, settings: RefreshSettings) -> (Refresh, RefreshKeys) {
        let refresh = Refresh::new(self.secret.parameters(), settings).unwrap();
        let keys = refresh.keys(&self.secret, &mut self.rng).unwrap();
        // but for the tables of rotations
        let foretold = refresh.keys_memory();
        assert!((foretold..foretold + foretold / 500).contains(&keys.memory()), "{} {foretold}", keys.memory());
        (refresh, keys)
    }

    fn encrypt(&mut self, z: &[Complex], bits: u32, level: usize) -> Ciphertext {
        let plaintext = self.encoder.encode_complex(z, &Scale::power_of_two(bits), level).unwrap();
        plaintext.encrypt_seeded(&self.secret, &mut self.rng).unwrap().expand()
    }

    /// The largest error; slots from `z.len()` on repeat.
    fn error(&self, found: &Ciphertext, z: &[Complex]) -> f64 {
        let found = Decryptor::new(&self.secret, &self.encoder).unwrap().decrypt_complex(found).unwrap();
        let error = |(j, f): (usize, &Complex)| (*f - z[j % z.len()]).abs();
        found.iter().enumerate().map(error).fold(0.0, f64::max)
    }

    /// Refreshes, and checks result and bound. Returns the error and the bound.
    fn check(&mut self, server: &(Refresh, RefreshKeys), z: &[Complex], bits: u32, level: usize) -> [f64; 2] {
        let (refresh, keys) = server;
        let x = self.encrypt(z, bits, level);
        let y = refresh.refresh(&x, keys).unwrap();
        assert_eq!((y.level(), y.scale(), y.key()), (refresh.level(), x.scale(), x.key()));
        let slots = refresh.settings().slots;
        let wanted: Vec<Complex> = (0..slots)
            .map(|j| z.get(j).copied().unwrap_or_default())
            .map(|z| if refresh.settings().numbers == Numbers::Complex { z } else { z.re.into() })
            .collect();
        let (error, bound) = (self.error(&y, &wanted), y.estimate().unwrap().error());
        assert!(error <= bound, "{:?}: 2^{:.2} > 2^{:.2}", refresh.settings(), error.log2(), bound.log2());
        [error, bound]
    }
}

/// Numbers in the unit circle.
fn numbers(count: usize, seed: usize) -> Vec<Complex> {
    let of = |j: usize| {
        let angle = (j * 7919 + seed * 31) as f64;
        let length = ((j * 104_729 + seed) % 1000) as f64 / 999.0;
        Complex { re: angle.cos() * length, im: angle.sin() * length }
    };
    (0..count).map(of).collect()
}

#[test]
fn refreshed_numbers_are_right_for_all_slots_and_kinds() {
    let mut bench = Bench::new(10, 1);
    for slots in [512, 256, 64, 4] {
        for complex in [false, true] {
            let settings = if complex { RefreshSettings::complex(slots) } else { RefreshSettings::real(slots) };
            for (settings, bits, least) in [(settings.clone(), 40, 14.5), (settings.precise(), 42, 19.0)] {
                let server = bench.server(settings);
                let [error, bound] = bench.check(&server, &numbers(slots, slots), bits, 6);
                let bits = [error, bound].map(|error| -error.log2());
                assert!(bits[1] > least && bits[0] > bits[1] && bits[0] < bits[1] + 9.0, "{bits:?}");
            }
        }
    }
}

#[test]
fn every_level_of_input_and_every_scale_that_fits() {
    let mut bench = Bench::new(9, 2);
    let server = bench.server(RefreshSettings::complex(256));
    let z = numbers(256, 3);
    for level in server.0.settings().least_level()..=19 {
        bench.check(&server, &z, 40, level);
    }
    // the sine's error falls with the scale, and that of the noise grows
    for bits in 30..=42 {
        bench.check(&server, &z, bits, 4);
    }
    // one bit more is beyond the margin of the sine
    let x = bench.encrypt(&z, 43, 4);
    let refused = server.0.refresh(&x, &server.1).map(drop).unwrap_err();
    assert!(
        matches!(refused, RefreshError::Magnitude { magnitude, most } if magnitude > 1.0 && most < 1.0),
        "{refused}"
    );
    let x = bench.encrypt(&z, 40, 3);
    let refused = server.0.refresh(&x, &server.1).map(drop).unwrap_err();
    assert_eq!(refused, OperationError::Exhausted { least: 4, found: 3 }.into());
}

#[test]
fn numbers_in_other_slots_do_not_matter() {
    let mut bench = Bench::new(9, 3);
    for slots in [4, 32, 128] {
        let server = bench.server(RefreshSettings::complex(slots));
        let (few, mut all) = (numbers(slots, 1), numbers(256, 9));
        all[..slots].copy_from_slice(&few);
        for z in [&few, &all] {
            let y = server.0.refresh(&bench.encrypt(z, 40, 4), &server.1).unwrap();
            assert!(bench.error(&y, &few) < 2f64.powi(-15));
        }
    }
}

#[test]
fn a_refreshed_ciphertext_computes_on_and_is_refreshed_again() {
    let mut bench = Bench::new(9, 4);
    let (refresh, keys) = bench.server(RefreshSettings::real(256));
    let evaluator = Evaluator::new(bench.secret.parameters()).unwrap();
    let mut z: Vec<Complex> = numbers(256, 5).iter().map(|z| z.re.into()).collect();
    let mut x = bench.encrypt(&z, 40, 4);
    for turn in 0..20 {
        x = refresh.refresh(&x, &keys).unwrap();
        // x -> 1 - x²/2 - stays within the unit interval, and forgets old errors
        let square = evaluator.mul_rescale(&x, &x, keys.evaluation()).unwrap();
        let half = evaluator.rescale(&evaluator.mul_constant(&square, -0.5).unwrap()).unwrap();
        let y = evaluator.set_scale(&half, &Scale::power_of_two(40)).unwrap();
        x = evaluator.add_constant(&y, 0.5).unwrap();
        z.iter_mut().for_each(|z| *z = (0.5 - z.re * z.re / 2.0).into());
        let bound = x.estimate().unwrap();
        assert!(bench.error(&x, &z) <= bound.error() && bound.magnitude() <= 1.01, "turn {turn}: {bound:?}");
        assert!(bench.error(&x, &z) < 2f64.powi(-13), "turn {turn}");
    }
}

#[test]
fn many_keys_keep_the_bound() {
    let mut worst: f64 = 0.0;
    for seed in 0..20 {
        let mut bench = Bench::new(8, 100 + seed);
        let server = bench.server(RefreshSettings::complex(128));
        for turn in 0..3 {
            let [error, bound] = bench.check(&server, &numbers(128, turn), 40, 4);
            worst = worst.max(error / bound);
        }
    }
    assert!(worst > 0.05 && worst <= 1.0, "{worst}");
}

/// Bits with an error of at most `most` in one direction or the other.
fn bits(count: usize, seed: usize, most: f64) -> (Vec<Complex>, Vec<Complex>) {
    let bit = |j: usize| f64::from(u8::from((j * 7919 + seed * 31 + j * j * seed) % 7 < 3));
    let error = |j: usize| most * (((j * 104_729 + seed) % 201) as f64 / 100.0 - 1.0);
    let exact = (0..count).map(|j| Complex::from(bit(j))).collect();
    (exact, (0..count).map(|j| Complex::from(bit(j) + error(j))).collect())
}

#[test]
fn refreshed_bits_are_bits_and_their_errors_are_squared() {
    let mut bench = Bench::of_bits(10, 7);
    for slots in [512, 128, 16] {
        let server = bench.server(RefreshSettings::bits(slots, 33));
        assert_eq!(server.0.level(), 8);
        for (most, floor) in [(0.245, 0.145), (0.03, 2.3e-3), (1e-4, 1e-6), (0.0, 1e-6)] {
            let (exact, near) = bits(slots, slots, most);
            let mut x = bench.encrypt(&near, 33, 5);
            let estimate = x.estimate().unwrap();
            let [_, _, encoding, noise] = estimate.bounds();
            let declared = Estimate::of_bounds([1.0, 0.0, encoding, noise + most], estimate.scale(), 5);
            x.declare_estimate(&declared).unwrap();
            let y = server.0.refresh(&x, &server.1).unwrap();
            assert_eq!((y.level(), y.scale(), y.key()), (8, &Scale::prime(0), x.key()));
            let (error, bound) = (bench.error(&y, &exact), y.estimate().unwrap());
            assert!(error <= bound.error() && bound.error() <= floor, "{slots} {most}: {error:e} {bound:?}");
            assert!(most > 0.0 || error < 2f64.powi(-22), "{error:e}");
        }
    }
}

/// A product with a bit, and the maximum of two: `a b` and `a + b - a b`.
#[test]
fn a_long_computation_on_bits_is_exact() {
    let mut bench = Bench::of_bits(9, 8);
    let (refresh, keys) = bench.server(RefreshSettings::bits(64, 33));
    let evaluator = Evaluator::new(bench.secret.parameters()).unwrap();
    let repeated = |seed: usize| bits(64, seed, 0.0).0.repeat(4);
    let (mut exact, mut worst) = (repeated(1), 0.0f64);
    let mut x = bench.encrypt(&exact, 33, 5);
    x.declare_magnitude(1.0).unwrap();
    for turn in 0..100 {
        x = refresh.refresh(&x, &keys).unwrap();
        let other = repeated(turn + 2);
        let level = x.level();
        let plaintext = bench.encoder.encode_complex(&other, &Scale::power_of_two(33), level).unwrap();
        let mut b = plaintext.encrypt_seeded(&bench.secret, &mut bench.rng).unwrap().expand();
        b.declare_magnitude(1.0).unwrap();
        let product = evaluator.mul(&x, &b, keys.evaluation()).unwrap();
        let product = if turn % 2 == 0 {
            exact.iter_mut().zip(&other).for_each(|(a, b)| *a = *a * *b);
            product
        } else {
            exact.iter_mut().zip(&other).for_each(|(a, b)| *a = (a.re.max(b.re)).into());
            let a = evaluator.mul_constant_at(&x, 1.0, &Scale::power_of_two(33)).unwrap();
            let one = Scale::prime(0);
            let b = evaluator.mul_constant_at(&b, 1.0, &one).unwrap();
            evaluator.sub(&evaluator.add(&a, &b).unwrap(), &product).unwrap()
        };
        x = evaluator.set_scale(&evaluator.rescale(&product).unwrap(), &Scale::power_of_two(33)).unwrap();
        x.declare_magnitude(1.0).unwrap();
        let (error, bound) = (bench.error(&x, &exact), x.estimate().unwrap().error());
        assert!(error <= bound && bound < 1e-3, "turn {turn}: {error:e} > {bound:e}");
        worst = worst.max(error);
    }
    assert!(worst < 1e-4, "{worst:e}");
}

#[test]
fn what_may_be_no_bits_is_refused() {
    let mut bench = Bench::of_bits(9, 9);
    let (refresh, keys) = bench.server(RefreshSettings::bits(64, 33));
    assert_eq!(RefreshSettings::bits(64, 33).precise(), RefreshSettings::bits(64, 33));
    let (exact, _) = bits(64, 1, 0.0);
    let x = bench.encrypt(&exact, 32, 5);
    let refused = refresh.refresh(&x, &keys).map(drop).unwrap_err();
    assert_eq!(refused, RefreshError::Scale { bits: 33, found: Scale::power_of_two(32) });
    for (magnitude, noise) in [(1.01, 0.0), (1.0, 0.251)] {
        let mut x = bench.encrypt(&exact, 33, 5);
        let declared = Estimate::of_bounds([magnitude, 0.0, 0.0, noise], 33f64.exp2(), 5);
        x.declare_estimate(&declared).unwrap();
        let refused = refresh.refresh(&x, &keys).map(drop).unwrap_err();
        assert!(matches!(refused, RefreshError::Operation(OperationError::Bits { .. })), "{refused}");
        assert!(refused.to_string().contains("declare what is known of them"));
    }
}

/// Two senders, breaks, repetitions, and pieces that do not belong.
#[test]
fn keys_in_pieces_are_collected_in_any_order_and_refresh_right() {
    let mut bench = Bench::new(8, 10);
    let parameters = bench.secret.parameters().clone();
    let refresh = Refresh::new(&parameters, RefreshSettings::real(32)).unwrap();
    let mut received = RefreshKeysInPieces::new(&refresh);
    let mut missing = received.missing();
    assert_eq!(missing.len(), refresh.pieces().len());
    missing.reverse();
    let half = missing.len() / 2;
    for piece in &missing[..half] {
        let bytes = refresh.piece(*piece, &bench.secret, &mut bench.rng).unwrap();
        assert_eq!(received.add(&bytes), Ok(*piece));
    }
    // another secret's piece, a cut one, one for too few primes, and one of another refresh
    let stranger = SecretKey::generate(&parameters, &mut bench.rng);
    for piece in [KeyPiece::Raise, KeyPiece::Products] {
        let strange = refresh.piece(piece, &stranger, &mut bench.rng).unwrap();
        assert!(matches!(received.add(&strange), Err(PieceError::OtherKey(_))), "{piece:?}");
        assert!(matches!(received.add(&strange[..strange.len() - 1]), Err(PieceError::Wire(_))));
    }
    let of = |key: EvaluationKeys| crate::wire::encode_ckks_evaluation_keys(&key);
    let none = || EvaluationKeys::new(&parameters);
    let low = of(none().with_conjugation(&bench.secret, 2, &mut bench.rng).unwrap());
    let expected = refresh.pieces()[&KeyPiece::Conjugation];
    assert_eq!(received.add(&low), Err(PieceError::Level { piece: KeyPiece::Conjugation, expected, found: 2 }));
    let other = of(none().with_rotation(&bench.secret, 5, 2, &mut bench.rng).unwrap());
    let two = none().with_rotation(&bench.secret, 1, 2, &mut bench.rng).unwrap();
    let two = of(two.with_rotation(&bench.secret, 2, 2, &mut bench.rng).unwrap());
    for wrong in [other, two, of(none())] {
        assert!(matches!(received.add(&wrong), Err(PieceError::Unknown { .. })));
    }
    // the sender goes on, and sends one piece twice
    assert_eq!(received.missing().len(), missing.len() - half);
    let again = refresh.piece(missing[0], &bench.secret, &mut bench.rng).unwrap();
    assert_eq!(received.add(&again), Ok(missing[0]));
    for piece in received.missing() {
        received.add(&refresh.piece(piece, &bench.secret, &mut bench.rng).unwrap()).unwrap();
    }
    let keys = received.finish().unwrap();
    bench.check(&(refresh, keys), &numbers(32, 3), 40, 6);
    let refresh = Refresh::new(&parameters, RefreshSettings::real(32)).unwrap();
    let none = RefreshKeysInPieces::new(&refresh);
    let count = none.missing().len();
    assert_eq!(none.finish().map(drop), Err(PieceError::Missing { missing: count }));
    let unused = refresh.piece(KeyPiece::Rotation(77), &bench.secret, &mut bench.rng);
    assert_eq!(unused, Err(RefreshError::Keys));
}

#[test]
fn degrees_whose_sparse_secret_nobody_estimated_are_refused() {
    let degree = 1 << 14;
    let data: Vec<u32> = [50].into_iter().chain([25; 14]).collect();
    let secure = LatticeParameters::of_sizes(degree, &data, &[30], 15, Plaintext::Approximate).unwrap();
    let refused = Refresh::new(&secure, RefreshSettings::real(16)).map(drop);
    assert_eq!(refused, Err(LatticeError::Insecure { degree, most: 0, found: 80 }.into()));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut bench = Bench::new(9, 6);
    let parameters = bench.secret.parameters().clone();
    let (refresh, keys) = bench.server(RefreshSettings::real(256));
    let x = bench.encrypt(&numbers(256, 1), 40, 4);
    // keys of other settings, and of another secret
    let (_, others) = bench.server(RefreshSettings::complex(256));
    assert_eq!(refresh.refresh(&x, &others).map(drop), Err(RefreshError::Keys));
    let stranger = SecretKey::generate(&parameters, &mut bench.rng);
    let strange = refresh.keys(&stranger, &mut bench.rng).unwrap();
    let refused = refresh.refresh(&x, &strange).map(drop).unwrap_err();
    assert!(matches!(refused, RefreshError::Operation(OperationError::OtherKey(_))), "{refused}");
    // numbers of which nothing is known
    let bytes = crate::wire::encode_ckks_ciphertext(&x).unwrap();
    let mut read = crate::wire::decode_ckks_ciphertext(&bytes, &parameters).unwrap();
    let refused = refresh.refresh(&read, &keys).map(drop);
    assert_eq!(refused, Err(OperationError::NoEstimate.into()));
    read.declare(1.0);
    assert!(refresh.refresh(&read, &keys).is_ok());
    read.declare(1000.0);
    let refused = refresh.refresh(&read, &keys).map(drop).unwrap_err().to_string();
    assert!(refused.contains("declare a smaller range"), "{refused}");
    // settings without room
    for slots in [0, 2, 3, 512] {
        let refused = Refresh::new(&parameters, RefreshSettings::real(slots)).map(drop);
        assert!(matches!(refused, Err(RefreshError::Settings { most: 256, .. })), "{slots}");
    }
    let short = LatticeParameters::insecure_of_sizes(512, &[50; 13], &[50], 13, Plaintext::Approximate).unwrap();
    let refused = Refresh::new(&short, RefreshSettings::real(16)).map(drop);
    assert_eq!(refused, Err(RefreshError::Settings { most: 256, levels: 13, slots: 16, depth: 11 }));
    // products have three parts
    let evaluator = Evaluator::new(&parameters).unwrap();
    let product = evaluator.tensor(&x, &x).unwrap();
    assert!(refresh.refresh(&product, &keys).is_err());
}

#[test]
fn a_refresh_tells_its_steps_and_ends_between_them() {
    let mut bench = Bench::new(9, 21);
    for settings in [RefreshSettings::real(16), RefreshSettings::complex(256), RefreshSettings::real(8).precise()] {
        let (refresh, keys) = bench.server(settings);
        let x = bench.encrypt(&numbers(refresh.settings().slots(), 1), 40, 4);
        let mut told = 0;
        let counted: Result<Ciphertext, RefreshError> = refresh.refresh_with(&x, &keys, || {
            told += 1;
            Ok(())
        });
        assert_eq!(told, refresh.steps());
        let bytes = |x: &Ciphertext| crate::wire::encode_ckks_ciphertext(x).unwrap();
        assert!(bytes(&counted.unwrap()) == bytes(&refresh.refresh(&x, &keys).unwrap()));
        for last in [1, told / 2, told] {
            let mut left = last;
            let ended = refresh.refresh_with(&x, &keys, || {
                left -= 1;
                if left == 0 { Err(RefreshError::Operation(OperationError::Empty)) } else { Ok(()) }
            });
            assert_eq!((ended.map(drop), left), (Err(OperationError::Empty.into()), 0), "{last}");
        }
    }
}
