//! Refreshes at degrees without security.

use super::*;
use crate::ckks::Decryptor;
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
        let kind = Plaintext::Approximate;
        let parameters = LatticeParameters::insecure_of_sizes(1 << log_degree, &data, &[50; 4], 5, kind).unwrap();
        let mut rng = rng(seed);
        let secret = SecretKey::generate(&parameters, &mut rng);
        Self { secret, encoder: Encoder::new(&parameters).unwrap(), rng }
    }

    fn server(&mut self, settings: RefreshSettings) -> (Refresh, RefreshKeys) {
        let refresh = Refresh::new(self.secret.parameters(), settings).unwrap();
        let keys = refresh.keys(&self.secret, &mut self.rng).unwrap();
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
            .map(|z| if refresh.settings().complex { z } else { z.re.into() })
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
