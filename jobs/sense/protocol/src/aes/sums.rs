//! Sums of AES-decrypted bytes, over blocks of one batch or of several: a weight for each block,
//! and a sum for each of its sixteen bytes.
//!
//! ```text
//! S_i = Σ_batch Σ_block w_(batch, block) · byte_i,      i = 0 … 15
//! ```
//!
//! Weights take a level. Blocks are adjacent, so `log2 B` rotations and a swap of the rows add all
//! of them. Zeros clear undeclared slots and take no level. Two products are left afterwards.
//!
//! **Sums are exact below `t`** = 786,433. With weights of 1 that is up to 3,084 bytes of full
//! scale: three full batches and twelve blocks. The planner rejects larger sums before a block is
//! decrypted.
//!
//! **Who sees what.** The server sees weights and places, which the question gives it. The key
//! holder sees sixteen sums. It withholds all of them if an undeclared slot is not zero or a sum is
//! out of range.

use super::chain::{MODULUS, PRODUCTS};
use super::cipher::BLOCK;
use super::layout::Layout;
use crate::bounds::{Range, Scheme};
use crate::client::Withheld;
use crate::linear::PlanError;
use rand_core::CryptoRng;
use tobari_lattice::bgv::EvaluationKeys;
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::engine::Machine;
use tobari_plan::program::Op;

/// The arithmetic of sums: nothing is scaled, and there is no noise.
const SCHEME: Scheme = Scheme { modulus: MODULUS as i64, rank: 0, delta: 1 };
/// Multiplications that are left after the weights.
const LEVEL: u16 = PRODUCTS as u16 - 1;

/// A sum that cannot overflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumPlan {
    layout: Layout,
    batches: Vec<Vec<i64>>,
    range: Range,
}

/// An input of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SumInput {
    /// The weights of a batch.
    Weights(usize),
    /// Ones in the slots of the sums, and zeros elsewhere.
    Declared,
    /// The key of a rotation.
    Rotation {
        /// The rotation in slots.
        steps: i64,
    },
    /// The key that swaps the rows.
    Swap,
}

/// The inputs of a sum.
pub struct SumInputs<V> {
    weights: Vec<V>,
    declared: V,
    rotations: Vec<V>,
    swap: V,
}

impl SumPlan {
    /// Plans a sum of batches. Each batch has a weight for each place, 0 where there is no block;
    /// bytes are at most `most`.
    ///
    /// ```
    /// use tobari_sense::aes::{Layout, SumPlan};
    /// let layout = Layout::new(1 << 17).unwrap();
    /// let of = |blocks: usize| -> Vec<Vec<i64>> {
    ///     (0..4).map(|batch| (0..1024).map(|i| i64::from(1024 * batch + i < blocks)).collect()).collect()
    /// };
    /// assert_eq!(SumPlan::new(layout, of(3084), 255)?.range().most, 786_420);
    /// assert!(SumPlan::new(layout, of(3085), 255).is_err());
    /// # Ok::<(), tobari_sense::linear::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// [`PlanError::Overflow`] for a sum that might overflow; [`PlanError::Shape`] without a batch,
    /// or with a wrong number of weights.
    pub fn new(layout: Layout, batches: Vec<Vec<i64>>, most: u8) -> Result<Self, PlanError> {
        if batches.is_empty() {
            return Err(PlanError::Shape { expected: "a batch", found: 0 });
        }
        if let Some(weights) = batches.iter().find(|weights| weights.len() != layout.blocks()) {
            return Err(PlanError::Shape { expected: "a weight for each place", found: weights.len() });
        }
        let range = SCHEME.exact(batches.iter().flatten().copied(), most)?;
        Ok(Self { layout, batches, range })
    }

    /// The range of a sum.
    pub fn range(&self) -> Range {
        self.range
    }

    /// All inputs, in the order of their use.
    pub fn inputs(&self) -> Vec<SumInput> {
        let weights = (0..self.batches.len()).map(SumInput::Weights);
        let rotations = self.steps().map(|steps| SumInput::Rotation { steps });
        weights.chain(rotations).chain([SumInput::Swap, SumInput::Declared]).collect()
    }

    /// Rotations that add the blocks of a row.
    fn steps(&self) -> impl Iterator<Item = i64> {
        let blocks = self.layout.blocks() as i64 / 2;
        std::iter::successors(Some(1), |steps| Some(2 * steps)).take_while(move |steps| *steps < blocks)
    }

    /// The slots of a public input; `None` for keys.
    pub fn slots(&self, input: SumInput) -> Option<Vec<i64>> {
        let mut slots = vec![0; self.layout.slots()];
        match input {
            SumInput::Weights(batch) => {
                for (place, weight) in self.batches.get(batch)?.iter().enumerate() {
                    self.layout.results(place).for_each(|(slot, _)| slots[slot] = *weight);
                }
            }
            SumInput::Declared => self.layout.results(0).for_each(|(slot, _)| slots[slot] = 1),
            SumInput::Rotation { .. } | SumInput::Swap => return None,
        }
        Some(slots)
    }

    /// Reads the sums from the slots of a result.
    ///
    /// # Errors
    /// [`Withheld`] if a declared slot is not a sum in range, or an undeclared slot is not zero.
    pub fn read(&self, slots: &[i64]) -> Result<[i64; BLOCK], Withheld> {
        let mut left = slots.to_vec();
        if left.len() != self.layout.slots() {
            return Err(Withheld);
        }
        let mut sums = [0; BLOCK];
        for (slot, byte) in self.layout.results(0) {
            sums[byte] = self.range.place(&SCHEME, std::mem::take(&mut left[slot])).ok_or(Withheld)?;
        }
        if left.iter().all(|slot| *slot == 0) { Ok(sums) } else { Err(Withheld) }
    }
}

/// The level of a sum's public inputs.
pub fn level_of(input: SumInput) -> u16 {
    if matches!(input, SumInput::Weights(_)) { LEVEL + 1 } else { LEVEL }
}

/// The evaluation key for an input that is a key; `None` for other inputs, or if the parameters
/// have no such key.
pub fn sum_key(secret: &SecretKey, input: SumInput, rng: &mut impl CryptoRng) -> Option<EvaluationKeys> {
    let (none, primes) = (EvaluationKeys::new(secret.parameters()), usize::from(LEVEL) + 1);
    match input {
        SumInput::Rotation { steps } => none.with_rotation(secret, steps, primes, rng).ok(),
        SumInput::Swap => none.with_swap(secret, primes, rng).ok(),
        _ => None,
    }
}

impl<V> SumInputs<V> {
    /// Makes all inputs of a plan with `make`.
    ///
    /// # Errors
    /// Errors of `make`.
    pub fn new<E>(plan: &SumPlan, mut make: impl FnMut(SumInput) -> Result<V, E>) -> Result<Self, E> {
        let weights = (0..plan.batches.len()).map(|batch| make(SumInput::Weights(batch))).collect::<Result<_, _>>()?;
        let rotations = plan.steps().map(|steps| make(SumInput::Rotation { steps })).collect::<Result<_, _>>()?;
        let swap = make(SumInput::Swap)?;
        Ok(Self { weights, declared: make(SumInput::Declared)?, rotations, swap })
    }
}

/// The sums of batches of AES-decrypted bytes, with one value for each batch of the plan.
///
/// # Errors
/// Errors of the machine.
pub fn sum<M: Machine>(
    machine: &mut M,
    plan: &SumPlan,
    inputs: &SumInputs<M::Value>,
    batches: &[M::Value],
) -> Result<M::Value, M::Error> {
    let pairs: Vec<&M::Value> =
        batches.iter().zip(&inputs.weights).flat_map(|(bytes, weights)| [bytes, weights]).collect();
    let weighted = machine.step(Op::Dot, &pairs)?;
    let mut all = machine.step(Op::Rescale, &[&weighted])?;
    let swapped = machine.step(Op::Swap, &[&all, &inputs.swap])?;
    all = machine.add(&all, &swapped)?;
    for (steps, key) in plan.steps().zip(&inputs.rotations) {
        let turned = machine.rotate(&all, steps, key)?;
        all = machine.add(&all, &turned)?;
    }
    machine.mul_plain(&all, &inputs.declared)
}
