//! Design 1: the device encrypts under the homomorphic scheme itself, and nothing has to be
//! converted. What conversions are compared with.
//!
//! **Bitwise**, as in the paper: a ciphertext for each bit of each reading, 2,048 for 256 bytes,
//! and the server adds bits with their weights. **Packed**, its best form: all readings in the
//! slots of one ciphertext. What a server computes of either is a [`Job`] for the planner; fleets'
//! frames are none of these.
//!
//! Both with parameters of 128 bits that leave three products ([`parameters`]); the paper's are its
//! own. A fleet encrypts under the key holder's public key. With the secret key a ciphertext is
//! half as long, half of it being a seed, and is made sooner, but then every device could read
//! every other's: good for measurements alone, and each line that quotes one says which it was.

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
/// Products that ciphertexts bear.
pub const PRODUCTS: usize = 3;

/// Integers modulo 65,537 at `N = 2^13`, three products deep.
///
/// # Errors
/// None that could come about: [`LatticeError`] for numbers that are no parameters.
pub fn parameters() -> Result<LatticeParameters, LatticeError> {
    let t = Modulus::new(65_537).ok_or(LatticeError::PlaintextModulus { found: 65_537 })?;
    LatticeParameters::of_sizes(1 << 13, &[37, 35, 35, 41], &[42], 4, Scheme::Integers(t))
}

/// All readings, the first in slot 0.
///
/// # Errors
/// [`EncodeError`] for parameters without so many slots.
pub fn packed(encoder: &Encoder, readings: &[u8; READINGS]) -> Result<Plaintext, EncodeError> {
    encoder.encode(&readings.map(i64::from))
}

/// Every bit of every reading as a message of its own, the lowest first.
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
/// The machine's.
pub fn recomposed<M: Machine>(machine: &mut M, bits: &[M::Value; BITS]) -> Result<M::Value, M::Error> {
    let mut terms = vec![bits[0].clone()];
    for (weight, bit) in (1..).zip(&bits[1..]) {
        terms.push(machine.step(Op::Scale(1 << weight), &[bit])?);
    }
    machine.step(Op::Add, &terms.iter().collect::<Vec<_>>())
}

/// What a server computes of a design's ciphertexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// A reading from its eight bits, times itself.
    Bitwise,
    /// The sum of the readings of so many devices, place by place, and its square: of two devices
    /// and more.
    Packed(usize),
}

impl Job {
    /// Ciphertexts that come from devices.
    pub fn ciphertexts(self) -> usize {
        match self {
            Self::Bitwise => BITS,
            Self::Packed(devices) => devices,
        }
    }

    /// The value and its square, by any machine: ciphertexts first, then the key of products.
    ///
    /// # Errors
    /// The machine's.
    ///
    /// # Panics
    /// For another number of inputs than ciphertexts and a key.
    pub fn program<M: Machine>(self, machine: &mut M, inputs: &[M::Value]) -> Result<[M::Value; 2], M::Error> {
        let (ciphertexts, key) = inputs.split_at(self.ciphertexts());
        let value = match self {
            Self::Bitwise => recomposed(machine, &std::array::from_fn(|bit| ciphertexts[bit].clone()))?,
            Self::Packed(_) => machine.step(Op::Add, &ciphertexts.iter().collect::<Vec<_>>())?,
        };
        let square = machine.mul(&value, &value, &key[0])?;
        Ok([value, square])
    }

    /// The same, written down for a planner.
    ///
    /// # Errors
    /// [`PlanError`] for what cannot be written down.
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
    use tobari_lattice::bgv::{Decryptor, Encryptor, EvaluationKeys, Evaluator};
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
        let secret = SecretKey::generate(&parameters, &mut rng);
        let public = PublicKey::generate(&secret, &mut rng);
        let keys = EvaluationKeys::none().with_relinearization(&secret, PRODUCTS + 1, &mut rng).unwrap();
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let (holder, device) = (Decryptor::new(&secret).unwrap(), Encryptor::new(&public).unwrap());
        let readings: [u8; READINGS] = std::array::from_fn(|i| (i * 37 + 255) as u8);
        let mut value = device.encrypt(&packed(&encoder, &readings).unwrap(), PRODUCTS + 1, &mut rng);
        for power in [1u32, 2, 4, 8] {
            if power > 1 {
                value = evaluator.mul_mod_switch(&value, &value, &keys).unwrap();
            }
            assert!(value.noise_budget() > 0.0, "power {power}");
            let found = encoder.decode(&holder.decrypt(&value).unwrap());
            for (found, reading) in found.iter().zip(readings) {
                let expected = (0..power).fold(1, |product, _| product * i64::from(reading) % 65_537);
                assert_eq!(found.rem_euclid(65_537), expected);
            }
        }
        assert_eq!(bitwise(&parameters, &readings).unwrap().len(), 2_048);
    }

    /// Ciphertexts and a key as an engine takes them, the results of a job, opened, and its plan,
    /// which a server without keys may carry out.
    fn run(job: Job, messages: &[Plaintext], rng: &mut ChaCha20Rng) -> [Vec<i64>; 2] {
        let parameters = parameters().unwrap();
        let secret = SecretKey::generate(&parameters, rng);
        let public = PublicKey::generate(&secret, rng);
        let (encoder, holder) = (Encoder::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
        let device = Encryptor::new(&public).unwrap();
        let engine = BgvEngine::new(&parameters, None, rng).unwrap();
        let mut inputs: Vec<Arc<BgvValue>> = messages
            .iter()
            .map(|message| Arc::new(engine.ciphertext(device.encrypt(message, PRODUCTS + 1, rng)).unwrap()))
            .collect();
        let keys = EvaluationKeys::none().with_relinearization(&secret, PRODUCTS + 1, rng).unwrap();
        inputs.push(Arc::new(engine.key(keys).unwrap()));
        let results = job.program(&mut Direct::new(&engine), &inputs).unwrap();
        let program = job.record(&engine).unwrap();
        assert_eq!((program.inputs().len(), program.outputs().len()), (messages.len() + 1, 2));
        // of two ciphertexts and a key, each is needed to the end
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
            encoder.decode(&holder.decrypt(ciphertext).unwrap()).iter().map(|slot| slot.rem_euclid(65_537)).collect()
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
