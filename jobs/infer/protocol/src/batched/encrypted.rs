//! A batch under an encrypted model.
//!
//! A weight is a ciphertext with one number in all slots. A sum of products of ciphertexts has
//! three parts, and is relinearised and divided by one prime once, whatever its length. Positions
//! of a convolution share their weights, which are read once for all of them
//! ([`Evaluator::tensor_sums`]). A layer and a square take a prime each, so a network of `k` layers
//! takes `2 k - 1`. The last prime has more bits: its products are not divided.
//!
//! **Passive hosts only.** The host holds the weights under the key of the person who gets the
//! results. A host that returned a weight as a result would have it decrypted. Two measures stop
//! that: results that are labels only, or a guarded site for the work
//! (`book/src/explanation/threats/infer.md`).
//!
//! Memory: the weights of the paper's network take 3.5 GB at `N = 2^13`, encrypted again for each
//! key.

use super::{BatchedError, HEADROOM, LEAST_BITS};
use crate::{Map, Model, Stage};
use rand_core::CryptoRng;
use tobari_lattice::ckks::{Ciphertext, Encoder, EvaluationKeys, Evaluator, OperationError, Scale};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::{MAX_INPUTS, ProductSums};
use tobari_lattice::rlwe::SecretKey;

/// Bits of the scale of the last stage's weights.
const LAST_BITS: u32 = 22;

/// `log2` of the scale of pixels: that of the smallest prime that a product is divided by. Squares
/// divided by primes of about that size keep the scale. [`EncryptedBatched::new`] rejects
/// parameters whose primes lose too many of its bits.
fn input_bits(primes: &[f64]) -> u32 {
    let least = primes.iter().skip(1).copied().fold(f64::INFINITY, f64::min);
    if least.is_finite() { least.round() as u32 } else { INPUT_BITS_ALONE }
}

/// The same for a set with one prime, where nothing is divided.
const INPUT_BITS_ALONE: u32 = 26;

/// Sums of one stage, and the outputs that they belong to.
#[derive(Clone, Debug)]
struct Products {
    name: String,
    inputs: usize,
    outputs: usize,
    /// In runs of at most [`MAX_INPUTS`] inputs: sums, and the output that each belongs to.
    runs: Vec<(Vec<ProductSums>, Vec<u32>)>,
    /// Primes of the ciphertexts before the stage.
    level: usize,
    /// Scale of the weights. `bias_scale` is that of the offsets, which are added to the sums after
    /// the division; the last sums have no division.
    scale: Scale,
    bias_scale: Scale,
    last: bool,
}

/// The shape of a model for batches under encrypted weights. It holds no weight.
pub struct EncryptedBatched {
    evaluator: Evaluator,
    stages: Vec<Products>,
    /// `log2` of the scale of pixels.
    input_bits: u32,
}

/// All weights and offsets of a model under one key.
pub struct EncryptedWeights {
    /// By stage.
    weights: Vec<Vec<Ciphertext>>,
    /// By stage, one for each output.
    bias: Vec<Vec<Ciphertext>>,
}

impl EncryptedWeights {
    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        self.weights.iter().chain(&self.bias).flatten().map(Ciphertext::memory).sum()
    }
}

/// Weights of a stage, in the order of their encryption.
fn weights_of(stage: &Stage) -> &[f64] {
    match &stage.map {
        Map::Convolution { weights, .. } | Map::Dense { weights } => weights,
    }
}

/// Positions, and the inputs of each.
type Positions = Vec<(usize, Vec<u32>)>;

fn runs(stage: &Stage) -> Vec<(Vec<ProductSums>, Vec<u32>)> {
    let (kernel, stride, padding) = match &stage.map {
        Map::Dense { .. } => {
            let inputs = stage.input.len();
            let run = |from: usize| {
                let list: Vec<u32> = (from..(from + MAX_INPUTS).min(inputs)).map(|i| i as u32).collect();
                let sum = |output: usize| ProductSums {
                    weights: list.iter().map(|i| (output * inputs) as u32 + i).collect(),
                    inputs: vec![list.clone()],
                };
                let outputs = stage.output.len();
                ((0..outputs).map(sum).collect(), (0..outputs as u32).collect())
            };
            return (0..inputs).step_by(MAX_INPUTS).map(run).collect();
        }
        Map::Convolution { kernel, stride, padding, .. } => (kernel, stride, padding),
    };
    let area = kernel[0] * kernel[1];
    let taps = stage.input.channels * area;
    // positions, grouped by the taps that lie within the input
    let mut kinds: Vec<(Vec<usize>, Positions)> = Vec::new();
    for position in 0..stage.output.height * stage.output.width {
        let (row, column) = (position / stage.output.width, position % stage.output.width);
        let within = (0..taps).filter_map(|tap| {
            let (channel, a, b) = (tap / area, tap % area / kernel[1], tap % kernel[1]);
            let y = (stride[0] * row + a).checked_sub(padding[0])?;
            let x = (stride[1] * column + b).checked_sub(padding[1])?;
            let inside = y < stage.input.height && x < stage.input.width;
            inside.then(|| (tap, stage.input.index(channel, y, x) as u32))
        });
        let (list, inputs): (Vec<usize>, Vec<u32>) = within.unzip();
        match kinds.iter_mut().find(|(known, _)| *known == list) {
            Some((_, positions)) => positions.push((position, inputs)),
            None => kinds.push((list, vec![(position, inputs)])),
        }
    }
    let mut made: Vec<(Vec<ProductSums>, Vec<u32>)> = Vec::new();
    for (list, positions) in &kinds {
        for (run, from) in (0..list.len()).step_by(MAX_INPUTS).enumerate() {
            let to = (from + MAX_INPUTS).min(list.len());
            if made.len() == run {
                made.push((Vec::new(), Vec::new()));
            }
            let (sums, outputs) = &mut made[run];
            for channel in 0..stage.output.channels {
                sums.push(ProductSums {
                    weights: list[from..to].iter().map(|tap| (channel * taps + tap) as u32).collect(),
                    inputs: positions.iter().map(|(_, inputs)| inputs[from..to].to_vec()).collect(),
                });
                let area = stage.output.height * stage.output.width;
                outputs.extend(positions.iter().map(|(position, _)| (channel * area + position) as u32));
            }
        }
    }
    made
}

impl EncryptedBatched {
    /// The form for a model's shape.
    ///
    /// # Errors
    /// [`BatchedError::Room`] names the first stage without enough primes,
    /// [`BatchedError::Precision`] the first stage whose numbers lose too much precision.
    pub fn new(model: &Model, parameters: &LatticeParameters) -> Result<Self, BatchedError> {
        let count = model.stages().len();
        let primes: Vec<f64> =
            parameters.ring().data_primes().iter().map(|q| (q.modulus().value() as f64).log2()).collect();
        let mut stages = Vec::with_capacity(count);
        let input_bits = input_bits(&primes);
        let (mut level, mut before) = (primes.len(), Scale::power_of_two(input_bits));
        let mut before_bits = f64::from(input_bits);
        for (k, stage) in model.stages().iter().enumerate() {
            let last = k + 1 == count;
            // a scale equal to the prime that divides the product leaves the scale of the inputs
            // unchanged
            let scale = if last { Scale::power_of_two(LAST_BITS) } else { Scale::prime(level.max(1) - 1) };
            let bits = if last { f64::from(LAST_BITS) } else { primes[level.max(1) - 1] };
            let needed = before_bits + bits + HEADROOM - 1.0;
            let found = primes[..level].iter().sum();
            if needed > found || (!last && level < 3) {
                return Err(BatchedError::Room { stage: stage.name.clone(), needed, found });
            }
            let no_room = || OperationError::NoRoom { level };
            let bias_scale = if last { before.product(&scale).ok_or_else(no_room)? } else { before.clone() };
            if !last {
                // a product at the scale of its prime keeps the scale; a square divided by the next
                // prime has this scale
                let square = before.product(&before).and_then(|square| square.quotient(&Scale::prime(level - 2)));
                before = square.ok_or_else(no_room)?;
                before_bits = 2.0 * before_bits - primes[level - 2];
                if before_bits < LEAST_BITS {
                    return Err(BatchedError::Precision { stage: stage.name.clone(), found: before_bits });
                }
            }
            stages.push(Products {
                name: stage.name.clone(),
                inputs: stage.input.len(),
                outputs: stage.output.len(),
                runs: runs(stage),
                level,
                scale,
                bias_scale,
                last,
            });
            level = level.saturating_sub(2);
        }
        Ok(Self { evaluator: Evaluator::new(parameters)?.unbounded(), stages, input_bits })
    }

    /// Primes of the ciphertexts of pixels, and their scale.
    pub fn input(&self) -> (usize, Scale) {
        (self.stages.first().map_or(0, |stage| stage.level), Scale::power_of_two(self.input_bits))
    }

    /// All weights of a model under a key. The caller has both the weights and the key.
    ///
    /// # Errors
    /// [`BatchedError`] for a key of other parameters.
    pub fn encrypt(
        &self,
        model: &Model,
        secret: &SecretKey,
        encoder: &Encoder,
        rng: &mut impl CryptoRng,
    ) -> Result<EncryptedWeights, BatchedError> {
        let mut one = |value: f64, scale: &Scale, level: usize| -> Result<Ciphertext, BatchedError> {
            let plain = encoder.encode_constant(value, scale, level).map_err(|_| OperationError::NoRoom { level })?;
            Ok(plain.encrypt_seeded(secret, rng)?.expand())
        };
        let (mut weights, mut bias) = (Vec::new(), Vec::new());
        for (stage, products) in model.stages().iter().zip(&self.stages) {
            let all = weights_of(stage).iter().map(|w| one(*w, &products.scale, products.level));
            weights.push(all.collect::<Result<Vec<_>, _>>()?);
            let level = if products.last { products.level } else { products.level - 1 };
            let all = stage.bias.iter().map(|b| one(*b, &products.bias_scale, level));
            bias.push(all.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(EncryptedWeights { weights, bias })
    }

    /// From ciphertexts of pixels to ciphertexts of logits, divided by `2^logit_bits` of the model.
    ///
    /// # Errors
    /// [`BatchedError`] for inputs or weights that do not match the model.
    pub fn run(
        &self,
        pixels: Vec<Ciphertext>,
        weights: &EncryptedWeights,
        keys: &EvaluationKeys,
    ) -> Result<Vec<Ciphertext>, BatchedError> {
        let mut numbers = pixels;
        for (k, stage) in self.stages.iter().enumerate() {
            let sums = self.products(stage, &numbers, &weights.weights[k])?;
            let evaluator = &self.evaluator;
            let mut active = Vec::with_capacity(sums.len());
            for (sum, bias) in sums.into_iter().zip(&weights.bias[k]) {
                active.push(if stage.last {
                    evaluator.add(&evaluator.relinearize(&sum, keys)?, bias)?
                } else {
                    let sum = evaluator.add(&evaluator.relinearize_rescale(&sum, keys)?, bias)?;
                    evaluator.mul_rescale(&sum, &sum, keys)?
                });
            }
            numbers = active;
        }
        Ok(numbers)
    }

    fn products(
        &self,
        stage: &Products,
        numbers: &[Ciphertext],
        weights: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, BatchedError> {
        if numbers.len() != stage.inputs {
            let (expected, found) = (stage.inputs, numbers.len());
            return Err(BatchedError::Inputs { stage: stage.name.clone(), expected, found });
        }
        let [numbers, weights] = [numbers, weights].map(|all| all.iter().collect::<Vec<&Ciphertext>>());
        let mut made: Vec<Option<Ciphertext>> = vec![None; stage.outputs];
        for (sums, outputs) in &stage.runs {
            let found = self.evaluator.tensor_sums(sums, &numbers, &weights)?;
            for (output, sum) in outputs.iter().zip(found) {
                let place = &mut made[*output as usize];
                *place = Some(match place.take() {
                    None => sum,
                    Some(before) => self.evaluator.add(&before, &sum)?,
                });
            }
        }
        Ok(made.into_iter().flatten().collect())
    }
}
