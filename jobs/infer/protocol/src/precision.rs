//! How precise logits will be, and whether numbers fit: told before anything is encrypted.
//!
//! # What is counted
//! Errors are taken for independent from slot to slot, with a deviation `σ` that a stage carries
//! on, `‖w‖₂` being the largest Euclidean norm of a row and `v` a bound of what comes in, `D` the
//! products of an output ciphertext, `F` its folds:
//!
//! | from | adds to `σ²` of the sums |
//! |---|---|
//! | what comes in, and its rotations | `‖w‖₂² (σ_in² + σ_switch²)` |
//! | weights as they are encoded, or encrypted | `2^F D v² σ_w²`: in every slot, also where the weight is 0 |
//! | giant steps | `2^F G σ_switch²`, at the scale of products |
//! | relinearisations of encrypted weights | likewise, one for each giant step |
//! | a division by a prime | `2^F σ_rescale²` |
//! | folds | `2^F σ_switch²`, at the scale of sums |
//! | offsets | `σ_encode²`, or of an encryption |
//!
//! and a square of numbers up to `R` gives `4 R² σ² + 2 σ⁴ + σ_product²`. The `σ` of operations are
//! those that the core's [`Estimator`] bounds: it bounds polynomials by six deviations, and
//! products of two by thirty-six. **The stated error is `6 σ`**: a model, not a proof; tests hold
//! measured errors to it. It is a bound of logits before they are multiplied by the model's power
//! of two.
//!
//! **Slots without a use** hold what the sums before left there, and meet weights that are 0 but
//! for their own errors. `v²` is therefore counted slot by slot: a number of the model is within
//! its range, and what stands elsewhere is a sum of products with independent signs, whose square
//! has the mean square `3 (Σ w² v²)²`.
//!
//! Where images told how large numbers are on average ([`Calibration`]), that counts for `v²` of
//! the model's numbers, and in place of `R²`; else the ranges.
//!
//! [`Calibration`]: super::calibration::Calibration
//!
//! # Ranges
//! A stage's sums are said to stay within a range ([`Ranges`]): of training images, or the worst
//! that pixels from 0 to 1 can do. Where a number with its error could reach half the modulus it
//! would wrap around: such a stage is refused, by its name.

use super::compile::{Compiled, Flow};
use super::layout::{Linear, Output};
use super::model::Model;
use tobari_lattice::ckks::{Estimate, Estimator, Scale};

/// The largest absolute values of the sums of each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges(pub Vec<f64>);

impl Ranges {
    /// The same for every stage: 1 is what models are folded for.
    pub fn all(model: &Model, most: f64) -> Self {
        Self(vec![most; model.stages().len()])
    }

    /// The largest that any pixels from 0 to 1 lead to, each number taken for itself.
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

    /// The largest of some images, times a margin.
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

/// What is foretold of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Data primes of what comes in.
    pub primes: usize,
    /// The range of its sums.
    pub range: f64,
    /// What they are off by: six deviations.
    pub error: f64,
    /// Bits between the largest number, at its scale, and half the modulus, where they are fewest.
    pub headroom_bits: f64,
}

/// Why a model should not run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// Numbers could wrap around.
    #[error("stage {stage}: expected numbers below {most}, found a range of {found}")]
    Range {
        /// Its name.
        stage: String,
        /// What they must be below.
        most: f64,
        /// The range.
        found: f64,
    },
    /// Too large an error.
    #[error("stage {stage}: expected an error of at most {most}, found {found}")]
    Error {
        /// Its name.
        stage: String,
        /// The most.
        most: f64,
        /// What is foretold.
        found: f64,
    },
    /// Another number of ranges than of stages.
    #[error("expected a range for each of {expected} stages, found {found}")]
    Ranges {
        /// Stages.
        expected: usize,
        /// Ranges.
        found: usize,
    },
}

/// Bits that must be left.
const LEAST_HEADROOM: f64 = 1.0;

/// What is foretold of every stage of a model, which must be the one that was compiled; `most` is
/// the largest error that a stage's sums may have.
///
/// # Errors
/// [`PrecisionError`] with the name of the first stage whose numbers do not fit, or whose error is
/// larger.
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
            // encrypted anew, from numbers that have the error that they have
            (carried, _) => f64::hypot(noise.fresh(largest), carried.unwrap_or(0.0)),
        };
        let norm = norm(model, number);
        let linear = compiled.stage(number).linear;
        let known = |stage: usize| model.calibration().and_then(|known| known.powers.get(stage).copied());
        if number == 0 || matches!(compiled.options().flow, Flow::Reset { .. }) {
            // the client that encrypts them places them
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

/// For each slot of each output, the sum over its products, folded, of what `term` says of weight
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

/// The largest sum of mean squares that a number of the output has under its products.
fn largest_sum(linear: &Linear, squares: &[Vec<f64>]) -> f64 {
    let sums = sums_of(linear, squares, |_, square| square);
    let used = linear.outputs.iter().zip(&sums).flat_map(|(output, sums)| output.gives.iter().zip(sums));
    used.filter(|(number, _)| number.is_some()).fold(0.0, |most, (_, sum)| sum.max(most))
}

/// Mean squares of what stands in the slots after the square of a stage whose numbers have squares
/// of this mean square.
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
    /// Nothing, exactly.
    fn nothing(&self, scale: &Scale, primes: usize) -> Estimate {
        self.estimator.encoded(0.0, scale, primes)
    }

    /// Of numbers up to `most` as a client encrypts them.
    fn fresh(&self, most: f64) -> f64 {
        let (scales, primes) = (self.compiled.scales(self.number), self.compiled.stage(self.number).manner.primes);
        self.estimator.encrypt_seeded(&self.estimator.encode(most, &scales.input, primes)).error() / 6.0
    }

    /// Of a key switch.
    fn switch(&self, scale: &Scale, primes: usize) -> f64 {
        self.estimator.switch(&self.nothing(scale, primes)).error() / 36.0
    }

    /// Of the sums, before the square; `products` is the sum of the mean squares that a result's
    /// weights are multiplied by.
    fn sums(&self, incoming: f64, products: f64, norm: f64) -> f64 {
        let (stage, scales) = (self.compiled.stage(self.number), self.compiled.scales(self.number));
        let (manner, linear) = (stage.manner, stage.linear);
        // the client may fold after decryption: errors of that many slots add up there as well
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
            true => self.estimator.rescale(&self.nothing(&scales.products, manner.primes)).error() / 36.0,
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

    /// Of the squares of numbers of this size.
    fn square(&self, range: f64, sums: f64) -> f64 {
        let (stage, scales) = (self.compiled.stage(self.number), self.compiled.scales(self.number));
        let own = match stage.manner.square {
            true => {
                let product = self.estimator.tensor(
                    &self.nothing(&scales.sums, stage.manner.sums()),
                    &self.nothing(&scales.sums, stage.manner.sums()),
                );
                self.estimator.rescale(&self.estimator.switch(&product)).error() / 36.0
            }
            false => 0.0,
        };
        (4.0 * range * range * sums * sums + 2.0 * sums.powi(4) + own * own).sqrt()
    }

    /// Bits that are left where they are fewest, and what the sums would have to be below for the
    /// least.
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
            // a square takes twice the bits, so that half of what is missing counts
            least = least.min(bits(largest * largest, &scales.results, manner.results()) / 2.0);
        }
        (least, largest * (least - LEAST_HEADROOM).exp2())
    }
}
