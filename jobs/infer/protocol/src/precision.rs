//! Predicts, before any encryption, the precision of logits and whether all numbers fit.
//!
//! # Error model
//! Errors count as independent between slots. A stage passes on a deviation `σ`. `‖w‖₂` is the
//! largest Euclidean norm of a row, `v` a bound of the inputs, `D` the number of products of an
//! output ciphertext, `F` the number of its folds:
//!
//! | source | adds to `σ²` of the sums |
//! |---|---|
//! | inputs, and their rotations | `‖w‖₂² (σ_in² + σ_switch²)` |
//! | encoding or encryption of weights | `2^F D v² σ_w²`: in every slot, at zeros too |
//! | giant steps | `2^F G σ_switch²`, at the scale of products |
//! | relinearisations of encrypted weights | the same, one for each giant step |
//! | a division by a prime | `2^F σ_rescale²` |
//! | folds | `2^F σ_switch²`, at the scale of sums |
//! | offsets | `σ_encode²`, or that of an encryption |
//!
//! A square of numbers up to `R` gives `4 R² σ² + 2 σ⁴ + σ_product²`. The `σ` of operations come
//! from the core's [`Estimator`], which bounds polynomials by six deviations and products of two by
//! thirty-six. **The stated error is `6 σ`**: this is a model, not a proof; tests compare measured
//! errors with it. It bounds logits before they are multiplied by the model's power of two.
//!
//! **Unused slots** hold leftovers of the previous sums, and are multiplied by weights that are 0
//! except for their errors. `v²` is therefore computed slot by slot. A number of the model is
//! within its range. Any other slot holds a sum of products with independent signs, whose square
//! has the mean square `3 (Σ w² v²)²`.
//!
//! If images gave the average size of the numbers ([`Calibration`]), that size is used for `v²` of
//! the model's numbers and instead of `R²`; otherwise the ranges are used.
//!
//! [`Calibration`]: super::calibration::Calibration
//!
//! # Ranges
//! A stage's sums are assumed to stay within a range ([`Ranges`]): that of training images, or the
//! worst case for pixels from 0 to 1. A number with its error must stay below half the modulus, or
//! it would overflow. A stage that could overflow is rejected by name.

use super::compile::{Compiled, Flow};
use super::layout::{Linear, Output};
use super::model::Model;
use tobari_lattice::ckks::{Estimate, Estimator, Scale};

/// The largest absolute values of the sums of each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges(pub Vec<f64>);

impl Ranges {
    /// The same range for every stage; models are folded for 1.
    pub fn all(model: &Model, most: f64) -> Self {
        Self(vec![most; model.stages().len()])
    }

    /// The largest values for any pixels from 0 to 1, with each number bounded on its own.
    pub fn worst(model: &Model) -> Self {
        // neither pixels nor squares are negative
        let mut most = vec![1.0; model.input().len()];
        let mut ranges = Vec::with_capacity(model.stages().len());
        for stage in model.stages() {
            let sum = |output: usize| {
                let (mut high, mut low) = (stage.bias[output], stage.bias[output]);
                for (input, weight) in stage.row(output) {
                    let term = weight * most[input];
                    high += term.max(0.0);
                    low += term.min(0.0);
                }
                high.abs().max(low.abs())
            };
            let sums: Vec<f64> = (0..stage.output.len()).map(sum).collect();
            ranges.push(sums.iter().copied().fold(0.0, f64::max));
            most = sums.iter().map(|u| u * u).collect();
        }
        Self(ranges)
    }

    /// The largest values of some images, times a margin.
    pub fn of_images<'a>(model: &Model, images: impl IntoIterator<Item = &'a [f64]>, margin: f64) -> Self {
        let mut ranges = vec![0.0f64; model.stages().len()];
        for image in images {
            let mut values = image.to_vec();
            for (stage, range) in model.stages().iter().zip(&mut ranges) {
                let sum = |output: usize| {
                    stage.bias[output] + stage.row(output).iter().map(|(i, w)| w * values[*i]).sum::<f64>()
                };
                let sums: Vec<f64> = (0..stage.output.len()).map(sum).collect();
                *range = sums.iter().fold(*range, |most, u| u.abs().max(most));
                values = sums.iter().map(|u| u * u).collect();
            }
        }
        Self(ranges.into_iter().map(|range| range * margin).collect())
    }
}

/// The prediction for a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageReport {
    /// The stage's name.
    pub name: String,
    /// Data primes of the input.
    pub primes: usize,
    /// The range of its sums.
    pub range: f64,
    /// The error of the sums: six deviations.
    pub error: f64,
    /// The fewest bits at any step between the largest number, at its scale, and half the modulus.
    pub headroom_bits: f64,
}

/// Why a model should not run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// Numbers could overflow.
    #[error("stage {stage}: expected numbers below {most}, found a range of {found}")]
    Range {
        /// The stage's name.
        stage: String,
        /// The bound for the sums.
        most: f64,
        /// The range.
        found: f64,
    },
    /// The error is too large.
    #[error("stage {stage}: expected an error of at most {most}, found {found}")]
    Error {
        /// The stage's name.
        stage: String,
        /// The largest allowed error.
        most: f64,
        /// The predicted error.
        found: f64,
    },
    /// The number of ranges differs from the number of stages.
    #[error("expected a range for each of {expected} stages, found {found}")]
    Ranges {
        /// Stages.
        expected: usize,
        /// Ranges.
        found: usize,
    },
}

/// Bits that must remain.
const LEAST_HEADROOM: f64 = 1.0;

/// Predicts every stage of a model, which must be the one that was compiled; `most` is the largest
/// allowed error of a stage's sums.
///
/// # Errors
/// [`PrecisionError`] with the name of the first stage whose numbers do not fit or whose error is
/// too large.
pub fn report(
    compiled: &Compiled,
    model: &Model,
    ranges: &Ranges,
    most: f64,
) -> Result<Vec<StageReport>, PrecisionError> {
    let (expected, found) = (compiled.len(), ranges.0.len());
    if expected != found {
        return Err(PrecisionError::Ranges { expected, found });
    }
    let estimator = Estimator::new(compiled.parameters());
    let mut reports = Vec::with_capacity(found);
    let (mut largest, mut deviation) = (1.0f64, None);
    let mut squares: Vec<Vec<f64>> = Vec::new();
    for (number, range) in ranges.0.iter().copied().enumerate() {
        let noise = Noise { compiled, estimator: &estimator, number };
        let incoming = match (deviation, compiled.options().flow) {
            (Some(deviation), Flow::Through) => deviation,
            // encrypted again, from numbers with their previous error
            (carried, _) => f64::hypot(noise.fresh(largest), carried.unwrap_or(0.0)),
        };
        let norm = norm(model, number);
        let linear = compiled.stage(number).linear;
        let known = |stage: usize| model.calibration().and_then(|known| known.powers.get(stage).copied());
        if number == 0 || matches!(compiled.options().flow, Flow::Reset { .. }) {
            // a fresh encryption: every slot counts with the power of the inputs, or their bound
            squares =
                vec![vec![known(number).unwrap_or(largest * largest); compiled.layout().slots()]; linear.takes.len()];
        }
        let sums = noise.sums(incoming, largest_sum(linear, &squares), norm);
        let (headroom, room) = noise.headroom(range, sums);
        let stage = model.stages()[number].name.clone();
        if headroom < LEAST_HEADROOM || headroom.is_nan() {
            return Err(PrecisionError::Range { stage, most: room, found: range });
        }
        let error = 6.0 * sums;
        if error > most || error.is_nan() {
            return Err(PrecisionError::Error { stage, most, found: error });
        }
        let primes = compiled.stage(number).manner.primes;
        reports.push(StageReport { name: stage, primes, range, error, headroom_bits: headroom });
        let power = known(number + 1).unwrap_or(range.powi(4));
        deviation = Some(noise.square(range.min(power.powf(0.25)), sums));
        largest = range * range;
        squares = squares_after(linear, &squares, power);
    }
    Ok(reports)
}

/// The largest Euclidean norm of a row.
fn norm(model: &Model, stage: usize) -> f64 {
    let stage = &model.stages()[stage];
    let of = |output: usize| stage.row(output).iter().map(|(_, weight)| weight * weight).sum::<f64>();
    (0..stage.output.len()).map(of).fold(0.0, f64::max).sqrt()
}

/// For each slot of each output, the folded sum over its products of `term`, a function of weight
/// and mean square.
fn sums_of(linear: &Linear, squares: &[Vec<f64>], term: impl Fn(f64, f64) -> f64) -> Vec<Vec<f64>> {
    let one = |output: &Output| {
        let n = output.offset.len();
        let mut sums = vec![0.0; n];
        for giant in &output.giants {
            for part in &giant.terms {
                let Some(numbers) = squares.get(part.input) else { continue };
                let (steps, baby) =
                    (giant.steps.rem_euclid(n as i64) as usize, part.baby.rem_euclid(n as i64) as usize);
                for (slot, sum) in sums.iter_mut().enumerate() {
                    let from = (slot + steps) % n;
                    *sum += term(part.weights.at(from), numbers[(from + baby) % n]);
                }
            }
        }
        for steps in &linear.folds {
            let mut turned = sums.clone();
            turned.rotate_left(steps.rem_euclid(n as i64) as usize);
            sums.iter_mut().zip(turned).for_each(|(sum, other)| *sum += other);
        }
        sums
    };
    linear.outputs.iter().map(one).collect()
}

/// The largest sum of mean squares of the inputs in the products of one output number.
fn largest_sum(linear: &Linear, squares: &[Vec<f64>]) -> f64 {
    let sums = sums_of(linear, squares, |_, square| square);
    let used = linear.outputs.iter().zip(&sums).flat_map(|(output, sums)| output.gives.iter().zip(sums));
    used.filter(|(number, _)| number.is_some()).fold(0.0, |most, (_, sum)| sum.max(most))
}

/// Mean squares of all slots after the square of a stage, if the squares of the model's numbers
/// have the mean square `power`.
fn squares_after(linear: &Linear, squares: &[Vec<f64>], power: f64) -> Vec<Vec<f64>> {
    let mut sums = sums_of(linear, squares, |weight, square| weight * weight * square);
    for (output, sums) in linear.outputs.iter().zip(&mut sums) {
        for ((sum, offset), number) in sums.iter_mut().zip(&output.offset).zip(&output.gives) {
            let deviation = *sum + offset * offset;
            *sum = if number.is_some() { power } else { 3.0 * deviation * deviation };
        }
    }
    sums
}

/// Deviations of one stage.
struct Noise<'a> {
    compiled: &'a Compiled,
    estimator: &'a Estimator,
    number: usize,
}

impl Noise<'_> {
    /// A zero: the noise that it gets is that of the operation.
    fn nothing(&self, scale: &Scale, primes: usize) -> Estimate {
        self.estimator.encode(0.0, scale, primes)
    }

    /// The deviation of numbers up to `most` in a fresh encryption.
    fn fresh(&self, most: f64) -> f64 {
        let (scales, primes) = (self.compiled.scales(self.number), self.compiled.stage(self.number).manner.primes);
        self.estimator.encrypt_seeded(&self.estimator.encode(most, &scales.input, primes)).error() / 6.0
    }

    /// The deviation of a key switch.
    fn switch(&self, scale: &Scale, primes: usize) -> f64 {
        self.estimator.switch(&self.nothing(scale, primes)).noise() / 36.0
    }

    /// The deviation of the sums before the square; `products` is the sum of the mean squares that
    /// the weights of a result multiply.
    fn sums(&self, incoming: f64, products: f64, norm: f64) -> f64 {
        let (stage, scales) = (self.compiled.stage(self.number), self.compiled.scales(self.number));
        let (manner, linear) = (stage.manner, stage.linear);
        // the client may fold after decryption, where the errors of all these slots also add up
        let folds = 2f64.powi(linear.folds.len() as i32);
        let outputs = linear.outputs.iter();
        let giants = outputs.clone().map(|output| output.giants.len()).max().unwrap_or(0) as f64;
        let weights = outputs.flat_map(|output| &output.giants).flat_map(|giant| &giant.terms);
        let most = weights.map(|term| term.weights.largest()).fold(0.0, f64::max);
        let constant = |most: f64, scale: &Scale, primes: usize| {
            let encoded = self.estimator.encode(most, scale, primes);
            let made = if manner.encrypted { self.estimator.encrypt_seeded(&encoded) } else { encoded };
            made.error() / 6.0
        };
        let squared = |x: f64| x * x;
        let come = squared(norm) * (squared(incoming) + squared(self.switch(&scales.input, manner.primes)));
        let encoded = products * squared(constant(most, &scales.weights, manner.primes));
        let switches = if manner.encrypted { 2.0 * giants } else { giants - 1.0 };
        let turned = switches * squared(self.switch(&scales.products, manner.primes));
        let divided = match manner.divide {
            true => self.estimator.rescale(&self.nothing(&scales.products, manner.primes)).noise() / 36.0,
            false => 0.0,
        };
        let folded = if linear.folds.is_empty() || !manner.fold {
            0.0
        } else {
            squared(self.switch(&scales.sums, manner.sums()))
        };
        let offsets = squared(constant(1.0, &scales.sums, manner.sums()));
        (come + encoded + folds * (turned + squared(divided) + folded) + offsets).sqrt()
    }

    /// The deviation of the squares of numbers of this size.
    fn square(&self, range: f64, sums: f64) -> f64 {
        let (stage, scales) = (self.compiled.stage(self.number), self.compiled.scales(self.number));
        let own = match stage.manner.square {
            true => {
                let product = self.estimator.tensor(
                    &self.nothing(&scales.sums, stage.manner.sums()),
                    &self.nothing(&scales.sums, stage.manner.sums()),
                );
                self.estimator.rescale(&self.estimator.switch(&product)).noise() / 36.0
            }
            false => 0.0,
        };
        (4.0 * range * range * sums * sums + 2.0 * sums.powi(4) + own * own).sqrt()
    }

    /// The fewest remaining bits of any step, and the bound on the sums at which [`LEAST_HEADROOM`]
    /// would remain.
    fn headroom(&self, range: f64, sums: f64) -> (f64, f64) {
        let (manner, scales) = (self.compiled.stage(self.number).manner, self.compiled.scales(self.number));
        let largest = range + 6.0 * sums;
        let bits = |most: f64, scale: &Scale, primes: usize| {
            let tables = &self.compiled.parameters().ring().data_primes()[..primes];
            let modulus: f64 = tables.iter().map(|table| (table.modulus().value() as f64).log2()).sum();
            let scale = scale.to_f64(self.compiled.parameters()).unwrap_or(f64::INFINITY);
            modulus - 1.0 - scale.log2() - most.log2()
        };
        let products = bits(largest, &scales.products, manner.primes);
        let sums = bits(largest, &scales.sums, manner.sums());
        let mut least = products.min(sums);
        if manner.square {
            // a square takes twice the bits, so half of the missing bits count
            least = least.min(bits(largest * largest, &scales.results, manner.results()) / 2.0);
        }
        (least, largest * (least - LEAST_HEADROOM).exp2())
    }
}
