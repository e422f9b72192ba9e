//! Freivalds' test of linear maps of ciphertexts (Freivalds, MFCS 1979).
//!
//! For integers `w_ji` and ciphertexts `x_i`, the verifier checks the claim `y_j = Σ_i w_ji x_i`.
//! In each repetition and modulo each prime `q` it draws uniform secret `s_j` and tests:
//!
//! ```text
//! Σ_j s_j y_j = Σ_i t_i x_i,      t_i = Σ_j s_j w_ji   modulo q,
//! ```
//!
//! coefficient by coefficient of both parts. A `y` that is wrong modulo `q` anywhere passes with
//! probability `1/q`, and `k` repetitions with `q^-k`: with primes of 26 bits, three make `2^-78`.
//! A wrong `y` may be wrong modulo one prime alone, so the smallest prime counts.
//!
//! The test covers operations that are linear modulo `q`. It does not cover relinearisation and
//! rescaling, which round. Cost: a product of a number and an element for each input and each
//! output, instead of one for each weight.
//!
//! # Leakage
//! Ciphertexts are public; `s` is drawn for each repetition and dropped. The result of the test is
//! public.

use super::ciphertext::Ciphertext;
use super::scale::Scale;
use crate::ring::{Eval, Modulus, Poly};
use rand_core::CryptoRng;

/// The weights of the inputs in each output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearCheck {
    inputs: usize,
    rows: Vec<Vec<(u32, i32)>>,
    /// Does every row name inputs that exist?
    complete: bool,
}

impl LinearCheck {
    /// A row for each output: inputs and their weights. A check with a row that names an input that
    /// does not exist holds for nothing.
    pub fn new(inputs: usize, rows: Vec<Vec<(u32, i32)>>) -> Self {
        let complete = rows.iter().flatten().all(|(input, _)| (*input as usize) < inputs);
        Self { inputs, rows, complete }
    }

    /// Are the outputs these sums of the inputs, with `bits` bits more of scale? A no is certain. A
    /// yes is wrong with a chance of at most `q^-repetitions`, where `q` is the smallest prime of
    /// the level.
    pub fn holds(
        &self,
        inputs: &[&Ciphertext],
        outputs: &[&Ciphertext],
        bits: u32,
        repetitions: u32,
        rng: &mut impl CryptoRng,
    ) -> bool {
        let (Some(x), Some(y)) = (inputs.first(), outputs.first()) else {
            return self.complete && inputs.len() == outputs.len();
        };
        let alike = |all: &[&Ciphertext], scale: Option<Scale>| {
            all.iter().all(|one| {
                let same = one.parameters() == x.parameters() && one.level() == x.level();
                same && !one.needs_relinearization() && Some(one.scale()) == scale.as_ref()
            })
        };
        let scaled = x.scale().product(&Scale::power_of_two(bits));
        let counted = self.complete && inputs.len() == self.inputs && outputs.len() == self.rows.len();
        if !counted || !alike(inputs, Some(x.scale().clone())) || !alike(outputs, scaled) || repetitions == 0 {
            return false;
        }
        let primes: Vec<Modulus> =
            y.parameters().ring().data_primes()[..y.level()].iter().map(|prime| *prime.modulus()).collect();
        (0..repetitions).all(|_| {
            let (s, t): (Vec<Vec<u64>>, Vec<Vec<u64>>) = primes.iter().map(|q| self.challenge(q, rng)).unzip();
            (0..2).all(|part| {
                let [xs, ys] = [inputs, outputs]
                    .map(|all| all.iter().map(|one| &one.inner().parts()[part]).collect::<Vec<&Poly<Eval>>>());
                Poly::combination(&t, &xs).values() == Poly::combination(&s, &ys).values()
            })
        })
    }

    /// `s` and `t` modulo a prime.
    fn challenge(&self, q: &Modulus, rng: &mut impl CryptoRng) -> (Vec<u64>, Vec<u64>) {
        let s: Vec<u64> = self.rows.iter().map(|_| uniform(q, rng)).collect();
        let mut t = vec![0; self.inputs];
        for (s, row) in s.iter().zip(&self.rows) {
            for (input, weight) in row {
                let product = q.mul(*s, q.reduce(u64::from(weight.unsigned_abs())));
                let sum = &mut t[*input as usize];
                *sum = if *weight < 0 { q.sub(*sum, product) } else { q.add(*sum, product) };
            }
        }
        (s, t)
    }
}

/// A uniform number below `q`, by rejection.
fn uniform(q: &Modulus, rng: &mut impl CryptoRng) -> u64 {
    loop {
        let candidate = rng.next_u64() >> (64 - q.bits());
        if candidate < q.value() {
            return candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::ckks::{Encoder, Evaluator};
    use crate::params::NamedSet;
    use crate::ring::WeightMatrix;
    use crate::rlwe::SecretKey;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    #[test]
    fn right_sums_pass_and_one_wrong_residue_does_not() {
        let parameters = NamedSet::from_name("infer-f").unwrap().parameters().unwrap();
        let mut rng = ChaCha20Rng::from_seed([6; 32]);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let (evaluator, encoder) =
            (Evaluator::new(&parameters).unwrap(), Encoder::new(&parameters).unwrap().within(3.0));
        let mut encrypt = |value: f64| {
            let plain = encoder.encode(&[value], &Scale::power_of_two(26), 3).unwrap();
            plain.encrypt_seeded(&secret, &mut rng).unwrap().expand()
        };
        let xs: Vec<Ciphertext> = (0..4).map(|i| encrypt(f64::from(i))).collect();
        let xs: Vec<&Ciphertext> = xs.iter().collect();
        let weights = [5, -7, 0, 30_000, -32_768, 1, 2, 3];
        let matrix = WeightMatrix::new(4, &weights).unwrap();
        let sums = evaluator.weighted_sums(&matrix, 14, &xs).unwrap();
        let rows = weights.chunks(4).map(|row| (0..).zip(row.iter().copied()).collect()).collect();
        let check = LinearCheck::new(4, rows);
        let mut holds = |sums: &[Ciphertext], bits, repetitions| {
            check.holds(&xs, &sums.iter().collect::<Vec<_>>(), bits, repetitions, &mut rng)
        };
        assert!(holds(&sums, 14, 3));
        assert!(!holds(&sums, 13, 3) && !holds(&sums[..1], 14, 3) && !holds(&sums, 14, 0));
        // one residue of one part modulo one prime
        for (output, part, row, place) in [(0, 0, 0, 0), (1, 1, 2, 8191), (1, 0, 1, 77)] {
            let mut wrong = sums.clone();
            let residue = &mut wrong[output].inner_mut().parts_mut()[part].row_mut(row)[place];
            *residue = if *residue == 0 { 1 } else { *residue - 1 };
            assert!(!holds(&wrong, 14, 1), "{output} {part} {row} {place}");
        }
        // another input's sum
        let swapped = [sums[1].clone(), sums[0].clone()];
        assert!(!holds(&swapped, 14, 1));
    }

    #[test]
    fn one_repetition_modulo_a_tiny_prime_lets_one_in_q_wrong_sums_through() {
        // the argument's bound is sharp: y off by 1 at one place passes iff s_j = 0
        let q = Modulus::new(17).unwrap();
        let check = LinearCheck::new(1, vec![vec![(0, 3)]]);
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let passes = (0..17_000).filter(|_| {
            let (s, t) = check.challenge(&q, &mut rng);
            let (x, wrong) = (5, 3 * 5 + 1);
            q.mul(s[0], q.reduce(wrong)) == q.mul(t[0], x)
        });
        let passes = passes.count();
        assert!((800..1200).contains(&passes), "{passes} of 17,000, expected 1,000");
    }
}
