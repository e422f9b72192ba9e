//! The errors that encryption adds to the slots of a number, for runs on plaintext.
//!
//! Every operation adds a nearly normal error to each slot. Its deviation is that of
//! [`Estimator`], whose bounds count six deviations for one polynomial and thirty-six for a product
//! of two, for complex slots. Real parts have `1/√2` of them.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::f64::consts::SQRT_2;
use tobari_lattice::ckks::{Estimate, Estimator, Scale};
use tobari_lattice::params::LatticeParameters;

/// A source of such errors.
#[derive(Debug)]
pub struct Noise {
    estimator: Estimator,
    rng: ChaCha20Rng,
}

impl Noise {
    /// Errors under these parameters. The same seed gives the same errors: none of them is secret.
    pub fn new(parameters: &LatticeParameters, seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        Self { estimator: Estimator::new(parameters), rng: ChaCha20Rng::from_seed(bytes) }
    }

    /// A number of deviation 1, nearly normal: the sum of four uniform ones, which takes a tenth of
    /// the time of an exact method. What reaches the logits is a sum of thousands of them.
    pub fn normal(&mut self) -> f64 {
        let word = self.rng.next_u64();
        let sum: u64 = (0..4).map(|part| word >> (16 * part) & 0xffff).sum();
        (sum as f64 - 2.0 * 65_535.0) * (3f64.sqrt() / 65_536.0)
    }

    /// A number from 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / 2f64.powi(32)
    }

    /// Adds an error to each number, of the deviation that `deviation` gives for its place.
    pub fn add(&mut self, numbers: &mut [f64], deviation: impl Fn(usize) -> f64) {
        for (at, number) in numbers.iter_mut().enumerate() {
            *number += deviation(at) * self.normal();
        }
    }

    fn zero(&self, scale: &Scale, primes: usize) -> Estimate {
        self.estimator.encode(0.0, scale, primes)
    }

    /// The deviation of an encoding.
    pub fn encoded(&self, scale: &Scale, primes: usize) -> f64 {
        self.zero(scale, primes).error() / 6.0 / SQRT_2
    }

    /// The deviation of a fresh encryption.
    pub fn fresh(&self, scale: &Scale, primes: usize) -> f64 {
        self.estimator.encrypt_seeded(&self.zero(scale, primes)).error() / 6.0 / SQRT_2
    }

    /// The deviation of a key switch at this scale.
    pub fn switched(&self, scale: &Scale, primes: usize) -> f64 {
        self.estimator.switch(&self.zero(scale, primes)).noise() / 36.0 / SQRT_2
    }

    /// The deviation of a division by the last of `primes`, in the numbers, which had this scale.
    pub fn rescaled(&self, scale: &Scale, primes: usize) -> f64 {
        self.estimator.rescale(&self.zero(scale, primes)).noise() / 36.0 / SQRT_2
    }
}
