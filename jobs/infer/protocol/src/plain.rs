//! Computes a [`Model`] on plaintext: in doubles, and in integers that are the same on every
//! machine.
//!
//! **Doubles.** [`Model::forward`]. Sums have a fixed order and no fused operations, so the results
//! do not depend on the machine either. They are no reference for labels, because an encrypted run
//! has an error of its own.
//!
//! **Integers.** [`FixedModel`] is the reference for labels of encrypted runs, and the computation
//! inside an enclave. Numbers have [`FRACTION_BITS`] = 24 bits after the point:
//!
//! ```text
//! v_0 = 2^16 p                                         (pixels p/256, exactly)
//! u_k = ⌊(W_k v_(k-1) + b_k) / 2^weight_bits + 1/2⌋,   then limited to [-2^28, 2^28]
//!                                                      (all stages but the last)
//! v_k = ⌊u_k² / 2^24 + 1/2⌋
//! ```
//!
//! `W_k` are the integer weights and `b_k` the offsets on the grid of `W_k v_(k-1)`, both exact.
//! The last stage's `u` is not limited. Before a `FixedModel` is made, a check ensures that no sum
//! exceeds 62 bits: a row's absolute weights times `2^32`, plus the offset. So nothing overflows.
//!
//! # Leakage
//!
//! In both forms, instructions and memory accesses depend only on the model's shapes; [`argmax`]
//! has no branch and no index that depends on the numbers. Integer products take constant time on
//! the supported processors. Products of doubles may not (subnormal numbers), so an enclave uses
//! integers.

use super::fold::interval;
use super::model::{Map, Model, Stage};
use super::network::InputError;
use std::hint::black_box;
use zeroize::Zeroize;

/// Bits after the point of the integers.
pub const FRACTION_BITS: u32 = 24;
/// The largest number before a square, as an integer: 16.
const MOST: i64 = 1 << (FRACTION_BITS + 4);
/// Results that are computed together.
const TILE: usize = 16;

/// Why a model has no integer form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FixedError {
    /// A sum that may be too large.
    #[error("stage {stage}: expected sums of integers below 2^62, found a row of weights that may exceed it")]
    Sum {
        /// The stage's name.
        stage: String,
    },
    /// Offsets finer than the grid of the sums.
    #[error("stage {stage}: expected offsets of at most {expected} bits after the point, found {found}")]
    Bias {
        /// The stage's name.
        stage: String,
        /// `24 + weight_bits`.
        expected: u32,
        /// The bits of its offsets.
        found: u32,
    },
}

/// The size of a stage's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct StageRange {
    /// The stage's name.
    pub name: String,
    /// The largest `|u|` over the given images.
    pub seen: f64,
    /// The largest `|u|` that any image can have, by interval arithmetic over the weights.
    pub bound: f64,
    /// The largest sum of absolute weights of a row: the factor by which errors of the input may
    /// grow.
    pub gain: f64,
}

/// The numbers in sums: doubles or integers.
trait Number: Copy + Default {
    fn add_product(self, weight: Self, number: Self) -> Self;
    fn plus(self, other: Self) -> Self;
}

impl Number for f64 {
    fn add_product(self, weight: Self, number: Self) -> Self {
        self + weight * number
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl Number for i64 {
    fn add_product(self, weight: Self, number: Self) -> Self {
        self.wrapping_add(weight.wrapping_mul(number)) // in 62 bits, as was checked
    }

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Stage {
    /// `u = W v + b`; `v` has as many numbers as the input.
    pub fn apply(&self, v: &[f64]) -> Vec<f64> {
        sums(self, self.map.weights(), &self.bias, v)
    }
}

impl Model {
    /// Pixels as numbers of the first stage: `p/256`.
    pub fn numbers(pixels: &[u8]) -> Vec<f64> {
        pixels.iter().map(|pixel| f64::from(*pixel) / 256.0).collect()
    }

    /// `u_k` of every stage; the last are the logits divided by `2^logit_bits`.
    ///
    /// # Errors
    /// [`InputError`] for an image of another size.
    pub fn stages_of(&self, pixels: &[u8]) -> Result<Vec<Vec<f64>>, InputError> {
        let (expected, found) = (self.input().len(), pixels.len());
        if expected != found {
            return Err(InputError { expected, found });
        }
        let mut all: Vec<Vec<f64>> = Vec::with_capacity(self.stages().len());
        for stage in self.stages() {
            let v = all.last().map_or_else(|| Self::numbers(pixels), |u| u.iter().map(|u| u * u).collect());
            all.push(stage.apply(&v));
        }
        Ok(all)
    }

    /// The logits of one image.
    ///
    /// # Errors
    /// [`InputError`] for an image of another size.
    ///
    /// # Example
    ///
    /// ```
    /// use tobari_infer::Model;
    /// let model = Model::digits()?;
    /// let logits = model.forward(&[0; 784])?; // a blank image is some digit too
    /// assert_eq!(logits.len(), model.classes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forward(&self, pixels: &[u8]) -> Result<Vec<f64>, InputError> {
        let mut logits = self.stages_of(pixels)?.pop().unwrap_or_default();
        let scale = 2f64.powi(self.logit_bits());
        logits.iter_mut().for_each(|logit| *logit *= scale);
        Ok(logits)
    }

    /// The sizes of the numbers of each stage, over images and over all possible inputs.
    ///
    /// # Errors
    /// [`InputError`] for an image of another size.
    pub fn ranges(&self, images: &[&[u8]]) -> Result<Vec<StageRange>, InputError> {
        let mut ranges = Vec::with_capacity(self.stages().len());
        let mut inputs = vec![[0.0, 255.0 / 256.0]; self.input().len()];
        for stage in self.stages() {
            let results: Vec<[f64; 2]> = (0..stage.output.len()).map(|at| interval(stage, at, &inputs)).collect();
            let most = |[low, high]: &[f64; 2]| low.abs().max(high.abs());
            let bound = results.iter().map(most).fold(0.0, f64::max);
            let rows = stage.map.weights().chunks_exact(stage.map.weights().len() / stage.map.rows(stage.output));
            let gain = rows.map(|row| row.iter().map(|w| w.abs()).sum()).fold(0.0, f64::max);
            ranges.push(StageRange { name: stage.name.clone(), seen: 0.0, bound, gain });
            inputs = results
                .iter()
                .map(|ends| {
                    let least = if ends[0] < 0.0 && ends[1] > 0.0 { 0.0 } else { ends[0].abs().min(ends[1].abs()) };
                    [least * least, most(ends) * most(ends)]
                })
                .collect();
        }
        for image in images {
            for (range, u) in ranges.iter_mut().zip(self.stages_of(image)?) {
                range.seen = u.iter().fold(range.seen, |most, u| most.max(u.abs()));
            }
        }
        Ok(ranges)
    }

    /// The model in integers.
    ///
    /// # Errors
    /// [`FixedError`].
    pub fn fixed(&self) -> Result<FixedModel, FixedError> {
        let weights = self.stages().iter().map(fixed_weights).collect::<Result<_, _>>()?;
        Ok(FixedModel { model: self.clone(), weights })
    }
}

/// A model in integers; the head of the module defines its computation, bit by bit.
#[derive(Clone, Debug)]
pub struct FixedModel {
    model: Model,
    /// Weights and offsets of each stage.
    weights: Vec<(Vec<i64>, Vec<i64>)>,
}

impl FixedModel {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The last stage's numbers, with `2^24` for 1: logits divided by `2^logit_bits`.
    ///
    /// # Errors
    /// [`InputError`] for an image of another size.
    pub fn logits(&self, pixels: &[u8]) -> Result<Vec<i64>, InputError> {
        let (expected, found) = (self.model.input().len(), pixels.len());
        if expected != found {
            return Err(InputError { expected, found });
        }
        let mut v: Vec<i64> = pixels.iter().map(|pixel| i64::from(*pixel) << (FRACTION_BITS - 8)).collect();
        for stage in 0..self.weights.len() {
            let mut u = self.stage(stage, &v);
            v.zeroize();
            if stage + 1 < self.weights.len() {
                square(&mut u);
            }
            v = u;
        }
        Ok(v)
    }

    /// `u_k` of one stage, from the numbers of its input.
    fn stage(&self, stage: usize, v: &[i64]) -> Vec<i64> {
        let (weights, bias) = &self.weights[stage];
        let stage = &self.model.stages()[stage];
        let mut u = sums(stage, weights, bias, v);
        let half = (1i64 << stage.weight_bits) >> 1;
        u.iter_mut().for_each(|u| *u = (*u + half) >> stage.weight_bits);
        u
    }

    /// The class with the largest logit; the first one if several are equal.
    ///
    /// # Errors
    /// [`InputError`] for an image of another size.
    pub fn classify(&self, pixels: &[u8]) -> Result<usize, InputError> {
        let mut logits = self.logits(pixels)?;
        let best = argmax(&logits);
        logits.zeroize();
        Ok(best)
    }
}

/// The square of each number, limited and rounded as in the head of the module.
fn square(numbers: &mut [i64]) {
    for u in numbers {
        let limited = (*u).clamp(-MOST, MOST); // two selections, no branch
        *u = (limited * limited + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS;
    }
}

/// The position of the largest number, the first one if several are equal. No branch and no index
/// depends on the numbers, which are within ±2^62.
pub fn argmax(numbers: &[i64]) -> usize {
    let (mut best, mut place) = (i64::MIN >> 1, 0);
    for (at, number) in numbers.iter().enumerate() {
        // all ones if the number is larger; hidden from the compiler, which could make a branch of
        // it
        let larger = black_box(best.wrapping_sub(*number) >> 63);
        best ^= (best ^ number) & larger;
        place ^= (place ^ at) & larger as usize;
    }
    place
}

/// Weights as integers, and offsets on the grid of the sums.
fn fixed_weights(stage: &Stage) -> Result<(Vec<i64>, Vec<i64>), FixedError> {
    let name = || stage.name.clone();
    let expected = FRACTION_BITS + stage.weight_bits;
    if stage.bias_bits > expected {
        return Err(FixedError::Bias { stage: name(), expected, found: stage.bias_bits });
    }
    // both are below 2^52 on their grids: the model's check ensures it
    let integer = |bits: u32| move |x: &f64| (x * 2f64.powi(bits as i32)) as i64;
    let weights: Vec<i64> = stage.map.weights().iter().map(integer(stage.weight_bits)).collect();
    let up = expected - stage.bias_bits;
    let bias: Vec<i128> =
        stage.bias.iter().map(integer(stage.bias_bits)).map(|b| i128::from(b) << up.min(70)).collect();
    let (length, area) =
        (weights.len() / stage.map.rows(stage.output), stage.output.len() / stage.map.rows(stage.output));
    let rows: Vec<i128> =
        weights.chunks_exact(length).map(|row| row.iter().map(|w| i128::from(w.abs())).sum::<i128>()).collect();
    let most = i128::from(MOST * MOST) >> FRACTION_BITS;
    let sum = |(at, bias): (usize, &i128)| rows[at / area] * most + bias.abs();
    if stage.weight_bits > 61 || bias.iter().enumerate().map(sum).any(|sum| sum >= 1 << 62) {
        return Err(FixedError::Sum { stage: name() });
    }
    Ok((weights, bias.into_iter().map(|b| b as i64).collect()))
}

/// A map and its offsets, computed for [`TILE`] results of a channel at a time.
fn sums<T: Number>(stage: &Stage, weights: &[T], bias: &[T], v: &[T]) -> Vec<T> {
    match &stage.map {
        Map::Dense { .. } => {
            let rows = weights.chunks_exact(v.len());
            bias.iter().zip(rows).map(|(bias, row)| bias.plus(dot(row, v))).collect()
        }
        Map::Convolution { kernel, stride, padding, .. } => {
            let (input, output) = (stage.input, stage.output);
            let (area, taps) = (output.height * output.width, input.channels * kernel[0] * kernel[1]);
            let mut results = bias.to_vec();
            let mut tile = vec![[T::default(); TILE]; taps];
            for first in (0..area).step_by(TILE) {
                let count = TILE.min(area - first);
                gather(stage, (*kernel, *stride, *padding), v, first, &mut tile[..]);
                for (channel, row) in weights.chunks_exact(taps).enumerate() {
                    let mut sum = [T::default(); TILE];
                    for (weight, numbers) in row.iter().zip(&tile) {
                        (0..TILE).for_each(|lane| sum[lane] = sum[lane].add_product(*weight, numbers[lane]));
                    }
                    let results = &mut results[channel * area + first..][..count];
                    results.iter_mut().zip(sum).for_each(|(result, sum)| *result = result.plus(sum));
                }
            }
            results
        }
    }
}

/// The inputs under the kernel for each of [`TILE`] results from `first` on, tap by tap.
fn gather<T: Number>(
    stage: &Stage,
    (kernel, stride, padding): ([usize; 2], [usize; 2], [usize; 2]),
    v: &[T],
    first: usize,
    tile: &mut [[T; TILE]],
) {
    let (input, width) = (stage.input, stage.output.width);
    let rows = kernel[0] * kernel[1];
    for (tap, lanes) in tile.iter_mut().enumerate() {
        let [channel, a, b] = [tap / rows, tap % rows / kernel[1], tap % kernel[1]];
        for (lane, number) in lanes.iter_mut().enumerate().take(stage.output.height * width - first) {
            // outside the input; above and to the left the subtraction wraps around
            let y = ((first + lane) / width * stride[0] + a).wrapping_sub(padding[0]);
            let x = ((first + lane) % width * stride[1] + b).wrapping_sub(padding[1]);
            let inside = y < input.height && x < input.width;
            *number = if inside { v[input.index(channel, y, x)] } else { T::default() };
        }
    }
}

/// A scalar product, as eight partial sums that are added in order.
fn dot<T: Number>(weights: &[T], numbers: &[T]) -> T {
    let (first, rest) = weights.as_chunks::<8>();
    let (others, rest_of_others) = numbers.as_chunks::<8>();
    let mut sum = [T::default(); 8];
    for (w, x) in first.iter().zip(others) {
        (0..8).for_each(|lane| sum[lane] = sum[lane].add_product(w[lane], x[lane]));
    }
    let rest = rest.iter().zip(rest_of_others).fold(T::default(), |sum, (w, x)| sum.add_product(*w, *x));
    sum.into_iter().fold(rest, T::plus)
}
