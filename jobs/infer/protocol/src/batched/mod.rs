//! Thousands of images at once: a ciphertext for each pixel, a slot for each image.
//!
//! No slot is ever moved, so there are no rotations, and weights are numbers, not vectors. As
//! integers `w 2^b` of at most sixteen bits they cost one multiply-add per residue
//! ([`Evaluator::weighted_sums`]), and **their products are not rescaled**: the scale grows by only
//! `b` bits. A square is divided by two primes at once, instead of a layer and a square by one
//! each. With
//!
//! ```text
//! s -> s 2^b -> (s 2^b)² / (q q'),       b = 14, q ≈ q' ≈ 2^26,
//! ```
//!
//! scales stay near `2^24`, and a network of two squares needs five primes, the same as for one
//! image at a time. The scale of pixels is the largest for which every stage has room.
//!
//! **Leakage.** The server sees the number of images and the model. The client sees its logits. The
//! model can be encrypted too ([`EncryptedWeights`]): then each weight is a ciphertext of one
//! number, products are relinearised once per sum, and each layer is divided by a prime of its own.
//!
//! # Checks
//! Linear layers are linear modulo every prime, so a guarded site can check them by Freivalds' test
//! ([`LinearCheck`]: MFCS 1979; for networks Slalom, ICLR 2019) at a cost of `inputs + outputs`
//! products instead of all weights. The test covers only the linear map before the square: squares,
//! relinearisation and rescaling round. To protect those as well, run them in a guarded site. For
//! that purpose [`Batched::linear`] and [`Batched::activate`] are separate.
//!
//! # Cost
//! For the paper's network, 4,096 images at `N = 2^13`: 18,000, 100,000 and 8,000 products of a
//! number and a ciphertext of 5, 3 and 1 primes, and 1,520 squares.

mod encrypted;

use super::{Map, Model, Stage};
pub use encrypted::{EncryptedBatched, EncryptedWeights};
use rand_core::CryptoRng;
use std::sync::Arc;
use tobari_lattice::ckks::{Ciphertext, EvaluationKeys, Evaluator, LinearCheck, OperationError, Scale};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::{MAX_INPUTS, WeightMatrix};

/// `log2` of the scale of pixels: the largest of these for which every stage has room.
const INPUT_BITS: std::ops::RangeInclusive<u32> = 18..=30;
/// Minimum bits of scale after a square: it is divided by primes as long as these remain.
const LEAST_BITS: f64 = 20.0;
/// Bits that numbers take above the scale, sign included: stages keep numbers within 1.
const HEADROOM: f64 = 2.0;

/// Errors of a conversion into the batched form, or of a step.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchedError {
    /// A weight of more than sixteen bits.
    #[error("stage {stage}: expected weights of at most 2^15 steps of 2^-{bits}, found a larger one")]
    Weight {
        /// The stage.
        stage: String,
        /// Bits after the point.
        bits: u32,
    },
    /// The modulus has no room for the numbers of a stage.
    #[error("stage {stage}: expected a modulus of {needed:.0} bits or more, found {found:.0}")]
    Room {
        /// The stage.
        stage: String,
        /// Bits of the numbers at their scale.
        needed: f64,
        /// Bits of the modulus.
        found: f64,
    },
    /// The primes divide numbers by more than their scale allows.
    #[error("stage {stage}: expected at least {LEAST_BITS} bits of scale after its square, found {found:.1}")]
    Precision {
        /// The stage.
        stage: String,
        /// Bits of scale that would be left.
        found: f64,
    },
    /// A wrong number of inputs.
    #[error("stage {stage}: expected {expected} ciphertexts, found {found}")]
    Inputs {
        /// The stage.
        stage: String,
        /// The number expected.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// Sums that do not pass the check.
    #[error("stage {stage}: the sums are not those of its weights: the site that made them is wrong, or lies")]
    Wrong {
        /// The stage.
        stage: String,
    },
    /// An error of the scheme.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

/// Outputs that sum the same inputs.
#[derive(Clone, Debug)]
struct Group {
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    /// For runs of at most [`MAX_INPUTS`] inputs.
    matrices: Arc<Vec<WeightMatrix>>,
}

/// A stage as integers.
#[derive(Clone, Debug)]
struct Integers {
    name: String,
    inputs: usize,
    outputs: usize,
    groups: Vec<Group>,
    bias: Vec<f64>,
    bits: u32,
    /// Primes that divide the square after this stage; `None` after the last stage.
    divided_by: Option<usize>,
}

/// The linear map of a stage: [`Batched::linear`], or a call to another site.
pub type LinearMap<'a> = &'a mut dyn FnMut(&Batched, usize, &[Ciphertext]) -> Result<Vec<Ciphertext>, BatchedError>;

/// A model in its batched form.
pub struct Batched {
    evaluator: Evaluator,
    stages: Vec<Integers>,
    /// Primes of the ciphertexts of pixels, and `log2` of their scale.
    level: usize,
    input_bits: u32,
}

/// Assigns each weight of a position to its input, and groups positions with the same weights:
/// positions at a border have fewer.
fn groups(stage: &Stage) -> Result<Vec<Group>, BatchedError> {
    let integer = |weight: f64| (weight * 2f64.powi(stage.weight_bits as i32)) as i32;
    let too_large = || BatchedError::Weight { stage: stage.name.clone(), bits: stage.weight_bits };
    let matrices = |weights: &[f64], inputs: usize| -> Result<Arc<Vec<WeightMatrix>>, BatchedError> {
        let parts = (0..inputs).step_by(MAX_INPUTS).map(|from| {
            let count = MAX_INPUTS.min(inputs - from);
            let rows = weights.chunks(inputs).flat_map(|row| row[from..][..count].iter().map(|w| integer(*w)));
            WeightMatrix::new(count, &rows.collect::<Vec<i32>>()).ok_or_else(too_large)
        });
        Ok(Arc::new(parts.collect::<Result<_, _>>()?))
    };
    let (kernel, stride, padding, weights) = match &stage.map {
        Map::Dense { weights } => {
            let (inputs, outputs) = (stage.input.len(), stage.output.len());
            let all = |count: usize| (0..count as u32).collect();
            return Ok(vec![Group {
                inputs: all(inputs),
                outputs: all(outputs),
                matrices: matrices(weights, inputs)?,
            }]);
        }
        Map::Convolution { kernel, stride, padding, weights } => (kernel, stride, padding, weights),
    };
    let mut made: Vec<(Vec<usize>, Arc<Vec<WeightMatrix>>)> = Vec::new();
    let mut groups = Vec::new();
    let area = kernel[0] * kernel[1];
    for (row, column) in (0..stage.output.height).flat_map(|r| (0..stage.output.width).map(move |c| (r, c))) {
        let (mut inputs, mut taps) = (Vec::new(), Vec::new());
        for tap in 0..stage.input.channels * area {
            let (channel, a, b) = (tap / area, tap % area / kernel[1], tap % kernel[1]);
            let (y, x) = (stride[0] * row + a, stride[1] * column + b);
            let (y, x) = (y.wrapping_sub(padding[0]), x.wrapping_sub(padding[1]));
            if y < stage.input.height && x < stage.input.width {
                inputs.push(stage.input.index(channel, y, x) as u32);
                taps.push(tap);
            }
        }
        let known = made.iter().find(|(known, _)| *known == taps).map(|(_, matrices)| Arc::clone(matrices));
        let matrices = match known {
            Some(matrices) => matrices,
            None => {
                let rows = weights.chunks(stage.input.channels * area).flat_map(|row| taps.iter().map(|tap| row[*tap]));
                let matrices = matrices(&rows.collect::<Vec<f64>>(), taps.len())?;
                made.push((taps, Arc::clone(&matrices)));
                matrices
            }
        };
        let outputs = (0..stage.output.channels).map(|channel| stage.output.index(channel, row, column) as u32);
        groups.push(Group { inputs, outputs: outputs.collect(), matrices });
    }
    Ok(groups)
}

/// The number of primes that divide the square after each stage, for pixels at this scale; `None`
/// after the last.
fn divisions(model: &Model, primes: &[f64], input_bits: u32) -> Result<Vec<Option<usize>>, BatchedError> {
    let last = model.stages().len() - 1;
    let (mut level, mut scale) = (primes.len(), f64::from(input_bits));
    let stages = model.stages().iter().enumerate().map(|(k, stage)| {
        let room = |scale: f64, level: usize| {
            let (needed, found) = (scale + HEADROOM, primes[..level].iter().sum());
            let refused = BatchedError::Room { stage: stage.name.clone(), needed, found };
            if needed <= found { Ok(()) } else { Err(refused) }
        };
        scale += f64::from(stage.weight_bits);
        room(scale, level)?;
        if k == last {
            return Ok(None);
        }
        scale *= 2.0;
        room(scale, level)?;
        let before = level;
        while level > 1 && scale - primes[level - 1] >= LEAST_BITS {
            level -= 1;
            scale -= primes[level];
        }
        Ok(Some(before - level))
    });
    stages.collect()
}

impl Batched {
    /// The batched form of a model, if the sizes of weights and modulus allow it.
    ///
    /// # Errors
    /// [`BatchedError`] names the first stage that does not fit.
    pub fn new(model: &Model, parameters: &LatticeParameters) -> Result<Self, BatchedError> {
        let primes: Vec<f64> =
            parameters.ring().data_primes().iter().map(|q| (q.modulus().value() as f64).log2()).collect();
        let tried = |bits: u32| Ok::<_, BatchedError>((bits, divisions(model, &primes, bits)?));
        // the smallest scale gives the error that names the fault of the model
        let fits = INPUT_BITS.rev().map(tried).find(Result::is_ok).unwrap_or_else(|| tried(*INPUT_BITS.start()));
        let (input_bits, divided_by) = fits?;
        let stages = model.stages().iter().zip(divided_by).map(|(stage, divided_by)| {
            Ok(Integers {
                name: stage.name.clone(),
                inputs: stage.input.len(),
                outputs: stage.output.len(),
                groups: groups(stage)?,
                bias: stage.bias.clone(),
                bits: stage.weight_bits,
                divided_by,
            })
        });
        let stages = stages.collect::<Result<_, BatchedError>>()?;
        Ok(Self { evaluator: Evaluator::new(parameters)?.unbounded(), stages, level: primes.len(), input_bits })
    }

    /// Primes of the ciphertexts of pixels, and their scale.
    pub fn input(&self) -> (usize, Scale) {
        (self.level, Scale::power_of_two(self.input_bits))
    }

    /// The number of ciphertexts of pixels: one per pixel.
    pub fn inputs(&self) -> usize {
        self.stages.first().map_or(0, |stage| stage.inputs)
    }

    /// The number of stages.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// The linear map of a stage without its offsets: the part that a guarded site can check.
    ///
    /// # Errors
    /// [`BatchedError`] for inputs that do not match the stage.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn linear(&self, stage: usize, inputs: &[Ciphertext]) -> Result<Vec<Ciphertext>, BatchedError> {
        let stage = &self.stages[stage];
        if inputs.len() != stage.inputs {
            let (expected, found) = (stage.inputs, inputs.len());
            return Err(BatchedError::Inputs { stage: stage.name.clone(), expected, found });
        }
        let mut sums: Vec<Option<Ciphertext>> = vec![None; stage.outputs];
        for group in &stage.groups {
            let all: Vec<&Ciphertext> = group.inputs.iter().map(|input| &inputs[*input as usize]).collect();
            let mut found: Vec<Ciphertext> = Vec::new();
            for (matrix, inputs) in group.matrices.iter().zip(all.chunks(MAX_INPUTS)) {
                let part = self.evaluator.weighted_sums(matrix, stage.bits, inputs)?;
                match found.is_empty() {
                    true => found = part,
                    false => {
                        found.iter_mut().zip(&part).try_for_each(|(sum, part)| self.evaluator.add_assign(sum, part))?;
                    }
                }
            }
            for (output, sum) in group.outputs.iter().zip(found) {
                sums[*output as usize] = Some(sum);
            }
        }
        Ok(sums.into_iter().flatten().collect())
    }

    /// Offset and square of one output of a stage, at the scale and level of the next stage's
    /// input. After the last stage, only the offset is added.
    ///
    /// # Errors
    /// [`BatchedError`] without a key for products at this level.
    ///
    /// # Panics
    /// If there is no such stage or output.
    pub fn activate(
        &self,
        stage: usize,
        output: usize,
        sum: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, BatchedError> {
        let stage = &self.stages[stage];
        let sum = self.evaluator.add_constant(sum, stage.bias[output])?;
        let Some(primes) = stage.divided_by else { return Ok(sum) };
        let mut square = match primes {
            0 => self.evaluator.mul(&sum, &sum, keys)?,
            _ => self.evaluator.mul_rescale(&sum, &sum, keys)?,
        };
        for _ in 1..primes {
            square = self.evaluator.rescale(&square)?;
        }
        Ok(square)
    }

    /// The whole run: from ciphertexts of pixels to ciphertexts of logits, divided by
    /// `2^logit_bits` of the model.
    ///
    /// # Errors
    /// [`BatchedError`].
    pub fn run(&self, pixels: Vec<Ciphertext>, keys: &EvaluationKeys) -> Result<Vec<Ciphertext>, BatchedError> {
        let mut numbers = pixels;
        for stage in 0..self.stages.len() {
            let sums = self.linear(stage, &numbers)?;
            drop(numbers);
            let active = sums.into_iter().enumerate().map(|(output, sum)| self.activate(stage, output, &sum, keys));
            numbers = active.collect::<Result<_, _>>()?;
        }
        Ok(numbers)
    }

    /// Freivalds' test for a stage: it checks a result of [`Self::linear`] against the inputs.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn check(&self, stage: usize) -> LinearCheck {
        let stage = &self.stages[stage];
        let mut rows: Vec<Vec<(u32, i32)>> = vec![Vec::new(); stage.outputs];
        for group in &stage.groups {
            for (row, output) in group.outputs.iter().enumerate() {
                let weights = group.matrices.iter().flat_map(|matrix| matrix.row(row));
                rows[*output as usize] = group.inputs.iter().copied().zip(weights).collect();
            }
        }
        LinearCheck::new(stage.inputs, rows)
    }

    /// [`Self::run`], with every linear map checked by this many repetitions. It plays both a plain
    /// process and a guarded site; `linear` is the part of the plain process.
    ///
    /// # Errors
    /// [`BatchedError`]; [`BatchedError::Wrong`] names the stage whose sums fail the check.
    pub fn run_checked(
        &self,
        pixels: Vec<Ciphertext>,
        keys: &EvaluationKeys,
        repetitions: u32,
        linear: LinearMap<'_>,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<Ciphertext>, BatchedError> {
        let mut numbers = pixels;
        for stage in 0..self.stages.len() {
            let sums = linear(self, stage, &numbers)?;
            let [given, found] = [&numbers, &sums].map(|all| all.iter().collect::<Vec<_>>());
            if !self.check(stage).holds(&given, &found, self.stages[stage].bits, repetitions, rng) {
                return Err(BatchedError::Wrong { stage: self.stages[stage].name.clone() });
            }
            let active = sums.iter().enumerate().map(|(output, sum)| self.activate(stage, output, sum, keys));
            numbers = active.collect::<Result<_, _>>()?;
        }
        Ok(numbers)
    }
}
