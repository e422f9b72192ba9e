//! What a compiled network takes: time, memory, and bytes on the way.
//!
//! Bytes and memory follow from sizes. Time is a forecast: the prices of the search for layouts
//! ([`arrange`](crate::arrange)) count work in units of which a rotation takes 28 at each prime, so
//! a measured rotation turns them into seconds. Sums, rescalings and memory are in no price:
//! measured networks took about 1.6 times as long as their prices say, which is a factor here.

use crate::encrypted;
use crate::machine::{Circuit, Part};
use crate::model::{DeepModel, ModelError};
use crate::steps::Step;
use std::collections::BTreeMap;
use tobari_infer::program::Input;
use tobari_lattice::ckks::EvaluationKeys;

/// Units of a rotation at each prime.
const ROTATION: f64 = 28.0;

/// Seconds of a network over those of its prices.
const REST: f64 = 1.6;

/// Costs of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Foretold seconds of a picture on one core.
    pub seconds: f64,
    /// Bytes of encoded weights in memory; 0 if they are encoded when they are used.
    pub weights: u64,
    /// Bytes of a client's or a session's keys in memory.
    pub keys: u64,
    /// About the bytes of the keys as they are sent.
    pub sent_keys: u64,
    /// Refreshes of a picture.
    pub refreshes: usize,
    /// Visits of an enclave for a picture.
    pub visits: usize,
}

impl DeepModel {
    /// The costs in `circuit`, which is this model's. `rotation` tells the seconds of a rotation at
    /// a number of data primes.
    ///
    /// # Errors
    /// [`ModelError`] for parameters that do not exist.
    pub fn costs(&self, circuit: &Circuit, rotation: impl Fn(usize) -> f64) -> Result<Costs, ModelError> {
        let parameters = self.settings().sizes.parameters()?;
        let special = parameters.ring().special_primes().len();
        let (mut seconds, mut weights) = (0.0, 0);
        for (step, price) in circuit.arrangement.prices.iter().enumerate() {
            let level = circuit.argument_level(step).max(1);
            seconds += REST * price * rotation(level) / (ROTATION * level as f64);
            for part in &circuit.parts[step] {
                let Part::Products(products) = part else { continue };
                let count: usize = products.diagonals.values().map(BTreeMap::len).sum();
                weights += (count * (level + special) * parameters.degree() * 8) as u64;
            }
        }
        let keys: Vec<Input> = encrypted::all_keys(circuit, &parameters)?;
        let memory = |input: &Input| EvaluationKeys::memory_of_key(&parameters, encrypted::level_of(*input)) as u64;
        let keys: u64 = keys.iter().map(memory).sum();
        let steps = &circuit.steps.steps;
        let refreshes = steps.iter().filter(|(_, step, _)| matches!(step, Step::Refresh { .. })).count();
        let visits = if circuit.steps.are_enclaved() { circuit.steps.rounds().len() } else { 0 };
        let weights = if encrypted::are_kept(circuit, &parameters) { weights } else { 0 };
        // one of a key's two halves is sent, and of a word the bits of its prime alone
        let bits = parameters.ring().data_primes().iter().map(|prime| prime.modulus().bits()).max().unwrap_or(64);
        let sent_keys = keys / 2 * u64::from(bits) / 64;
        Ok(Costs { seconds, weights, keys, sent_keys, refreshes, visits })
    }
}
