//! Design 1: the device encrypts under the homomorphic scheme itself, and no conversion is needed.
//! It is the baseline for conversions.
//!
//! **Bitwise**, as in the paper: one ciphertext for each bit of each reading, 2,048 for 256 bytes.
//! The server adds bits with their weights. **Packed**, the best form of the design: all readings
//! in the slots of one ciphertext. The server's computation of either is a [`Job`] for the planner.
//! Fleets' frames use neither.
//!
//! Both use our own parameters of 128 bits that leave three products ([`parameters`]), not the
//! paper's. A fleet encrypts under the key holder's public key. With the secret key a ciphertext is
//! half as long, because half of it is a seed, and is made sooner. But then every device could
//! decrypt the readings of all others, so this serves measurements only. Each line that quotes a
//! measurement names its key.

use super::linear::{PlanError, key_holder};
use tobari_device::READINGS;
use tobari_engine::BgvEngine;
use tobari_lattice::bgv::{EncodeError, Encoder, Plaintext};
use tobari_lattice::params::{LatticeError, LatticeParameters, Plaintext as Scheme};
use tobari_lattice::ring::Modulus;
use tobari_plan::engine::Machine;
use tobari_plan::program::{Op, Program, Recorder, Value};
use tobari_plan::site::Secrecy;

/// Bits of a reading.
pub const BITS: usize = 8;
/// Products that ciphertexts can bear.
pub const PRODUCTS: usize = 3;

/// Integers modulo 65,537 at `N = 2^13`, three products deep.
///
/// # Errors
/// [`LatticeError`] for invalid parameters; it cannot occur for these.
pub fn parameters() -> Result<LatticeParameters, LatticeError> {
    let t = Modulus::new(65_537).ok_or(LatticeError::PlaintextModulus { found: 65_537 })?;
    LatticeParameters::of_sizes(1 << 13, &[37, 35, 35, 41], &[42], 4, Scheme::Integers(t))
}

/// All readings in one plaintext, the first in slot 0.
///
/// # Errors
/// [`EncodeError`] for parameters with too few slots.
pub fn packed(encoder: &Encoder, readings: &[u8; READINGS]) -> Result<Plaintext, EncodeError> {
    encoder.encode(&readings.map(i64::from))
}

/// Every bit of every reading as its own plaintext, the lowest bit first.
///
/// # Errors
/// [`EncodeError`] for parameters of another scheme.
pub fn bitwise(parameters: &LatticeParameters, readings: &[u8; READINGS]) -> Result<Vec<Plaintext>, EncodeError> {
    let bit = |place: usize| i64::from(readings[place / BITS] >> (place % BITS) & 1);
    (0..READINGS * BITS).map(|place| Plaintext::from_coefficients(parameters, &[bit(place)])).collect()
}

/// A reading from its bits, in every slot: `Σ 2^i b_i`.
///
/// # Errors
/// Errors of the machine.
pub fn recomposed<M: Machine>(machine: &mut M, bits: &[M::Value; BITS]) -> Result<M::Value, M::Error> {
    let mut terms = vec![bits[0].clone()];
    for (weight, bit) in (1..).zip(&bits[1..]) {
        terms.push(machine.step(Op::Scale(1 << weight), &[bit])?);
    }
    machine.step(Op::Add, &terms.iter().collect::<Vec<_>>())
}

/// The server's computation on a design's ciphertexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// A reading from its eight bits, times itself.
    Bitwise,
    /// The sum of the readings of this many devices (at least two), place by place, and its square.
    Packed(usize),
}

impl Job {
    /// The number of ciphertexts from devices.
    pub fn ciphertexts(self) -> usize {
        match self {
            Self::Bitwise => BITS,
            Self::Packed(devices) => devices,
        }
    }

    /// The value and its square, on any machine. Inputs are the ciphertexts, then the
    /// relinearization key.
    ///
    /// # Errors
    /// Errors of the machine.
    ///
    /// # Panics
    /// If the inputs are not as many ciphertexts and one key.
    pub fn program<M: Machine>(self, machine: &mut M, inputs: &[M::Value]) -> Result<[M::Value; 2], M::Error> {
        let (ciphertexts, key) = inputs.split_at(self.ciphertexts());
        let value = match self {
            Self::Bitwise => recomposed(machine, &std::array::from_fn(|bit| ciphertexts[bit].clone()))?,
            Self::Packed(_) => machine.step(Op::Add, &ciphertexts.iter().collect::<Vec<_>>())?,
        };
        let square = machine.mul(&value, &value, &key[0])?;
        Ok([value, square])
    }

    /// The same computation, recorded for a planner.
    ///
    /// # Errors
    /// [`PlanError`] for a program that cannot be recorded.
    pub fn record(self, engine: &BgvEngine) -> Result<Program, PlanError> {
        let (mut recorder, level) = (Recorder::new(engine), engine.top_level());
        let encrypted = || Secrecy::Encrypted { key: key_holder() };
        let mut inputs = Vec::with_capacity(self.ciphertexts() + 1);
        for i in 0..self.ciphertexts() {
            inputs.push(recorder.input(format!("ciphertext {i}"), engine.ciphertext_shape(level)?, encrypted())?);
        }
        let shape = engine.relinearization_key_shape(level)?;
        inputs.push(recorder.input("relinearization key".to_owned(), shape, encrypted())?);
        let outputs: [Value; 2] = self.program(&mut recorder, &inputs)?;
        Ok(recorder.finish(&outputs)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;
    use std::sync::Arc;
    use tobari_engine::BgvValue;
    use tobari_lattice::bgv::{Decryptor, EvaluationKeys, Evaluator};
    use tobari_lattice::ring::Seed;
    use tobari_lattice::rlwe::{PublicKey, SecretKey};
    use tobari_plan::check::Requirements;
    use tobari_plan::cost::Costs;
    use tobari_plan::engine::Direct;
    use tobari_plan::plan::plan;
    use tobari_plan::site::Site;

    #[test]
    fn both_forms_hold_the_readings_and_bear_three_products() {
        let (parameters, mut rng) = (parameters().unwrap(), ChaCha20Rng::seed_from_u64(1));
        assert!(parameters.security().is_some());
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
        let public = PublicKey::generate(&secret, &mut rng);
        let keys =
            EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, PRODUCTS + 1, &mut rng).unwrap();
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let holder = Decryptor::new(&secret).unwrap();
        let readings: [u8; READINGS] = std::array::from_fn(|i| (i * 37 + 255) as u8);
        let mut value = packed(&encoder, &readings).unwrap().encrypt(&public, PRODUCTS + 1, &mut rng).unwrap();
        for power in [1u32, 2, 4, 8] {
            if power > 1 {
                value = evaluator.mul_mod_switch(&value, &value, &keys).unwrap();
            }
            assert!(value.noise_budget() > 0.0, "power {power}");
            let found = encoder.decode(&holder.decrypt(&value).unwrap()).unwrap();
            for (found, reading) in found.iter().zip(readings) {
                let expected = (0..power).fold(1, |product, _| product * i64::from(reading) % 65_537);
                assert_eq!(found.rem_euclid(65_537), expected);
            }
        }
        assert_eq!(bitwise(&parameters, &readings).unwrap().len(), 2_048);
    }

    /// Runs a job on ciphertexts and a key, decrypts its results, and checks that a server without
    /// keys can run its plan.
    fn run(job: Job, messages: &[Plaintext], rng: &mut ChaCha20Rng) -> [Vec<i64>; 2] {
        let parameters = parameters().unwrap();
        let secret = SecretKey::from_seed(&parameters, Seed::random(rng));
        let public = PublicKey::generate(&secret, rng);
        let (encoder, holder) = (Encoder::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
        let engine = BgvEngine::new(&parameters, None, rng).unwrap();
        let mut inputs: Vec<Arc<BgvValue>> = messages
            .iter()
            .map(|message| Arc::new(engine.ciphertext(message.encrypt(&public, PRODUCTS + 1, rng).unwrap()).unwrap()))
            .collect();
        let keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, PRODUCTS + 1, rng).unwrap();
        inputs.push(Arc::new(engine.key(keys).unwrap()));
        let results = job.program(&mut Direct::new(&engine), &inputs).unwrap();
        let program = job.record(&engine).unwrap();
        assert_eq!((program.inputs().len(), program.outputs().len()), (messages.len() + 1, 2));
        // the two ciphertexts and the key are all needed to the end
        let part = if job == Job::Bitwise { 3 } else { 4 };
        for memory in [program.bytes()[0], program.bytes()[0] * part / 4] {
            let planned = plan(program.clone(), Site::blind("cloud", 1, memory), &Costs::unmeasured()).unwrap();
            assert!(planned.check(&Requirements::default()).is_ok());
        }
        let holds_the_key = Site { keys: vec![key_holder()], ..Site::blind("key holder's process", 1, u64::MAX) };
        let refused = plan(program, holds_the_key, &Costs::unmeasured());
        assert!(refused.is_err() || refused.is_ok_and(|plan| plan.check(&Requirements::default()).is_err()));
        results.map(|result| {
            let ciphertext = result.as_ciphertext().unwrap();
            assert!(ciphertext.noise_budget() > 0.0);
            encoder
                .decode(&holder.decrypt(ciphertext).unwrap())
                .unwrap()
                .iter()
                .map(|slot| slot.rem_euclid(65_537))
                .collect()
        })
    }

    #[test]
    fn readings_from_bits_and_sums_of_devices_are_the_plain_ones_and_plans_of_a_blind_server() {
        let (parameters, mut rng) = (parameters().unwrap(), ChaCha20Rng::seed_from_u64(2));
        let sent: Vec<[u8; READINGS]> =
            (0..5).map(|device| std::array::from_fn(|i| (i * 37 + device * 101 + 255) as u8)).collect();
        let bits = bitwise(&parameters, &sent[0]).unwrap();
        for place in [0, 1, 100, 255] {
            let reading = i64::from(sent[0][place]);
            let [value, square] = run(Job::Bitwise, &bits[place * BITS..][..BITS], &mut rng);
            assert!(value.iter().all(|slot| *slot == reading), "place {place}");
            assert!(square.iter().all(|slot| *slot == reading * reading), "place {place}");
        }
        let encoder = Encoder::new(&parameters).unwrap();
        for devices in [2, 5] {
            let messages: Vec<Plaintext> = sent[..devices].iter().map(|sent| packed(&encoder, sent).unwrap()).collect();
            let [value, square] = run(Job::Packed(devices), &messages, &mut rng);
            for place in 0..READINGS {
                let sum: i64 = sent[..devices].iter().map(|sent| i64::from(sent[place])).sum();
                assert_eq!((value[place], square[place]), (sum, sum * sum % 65_537));
            }
        }
    }
}
