//! Forward and backward passes of layers, on numbers in the order `[channel][row][column][image]`.
//!
//! With `x̂ = (x - mean)/√(variance + ε)` over the images and positions of a channel,
//! `z = gain x̂ + shift` and `y = a z² + b z + c`:
//!
//! ```text
//! ∂z = ∂y (2 a z + b),      ∂a = Σ ∂y z²,  ∂b = Σ ∂y z,  ∂c = Σ ∂y
//! ∂x = gain/√(variance + ε) (∂z - mean(∂z) - x̂ mean(∂z x̂)),      ∂gain = Σ ∂z x̂,  ∂shift = Σ ∂z
//! ```
//!
//! (Ioffe and Szegedy, arXiv 1502.03167, section 3). Every innermost loop runs over [`LANES`]
//! images at a time, so that it compiles to vector instructions.

use super::super::model::Volume;
use super::{BATCH, Block, EPSILON};
use std::ops::Range;

/// Images in an innermost loop.
const LANES: usize = 32;
const _: () = assert!(BATCH.is_multiple_of(LANES));
/// Inputs of an activation beyond this bound are pushed back.
const BOUNDARY: f32 = 4.0;

/// The shapes of a block, and the positions of its parameters: weights, gain, shift, then the three
/// coefficients, each with one number for each channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) input: Volume,
    pub(super) output: Volume,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    start: usize,
}

impl Shape {
    pub(super) fn new(input: Volume, block: &Block, start: usize) -> Self {
        let count = |size: usize| (size - block.kernel) / block.stride + 1;
        let output = Volume { channels: block.channels, height: count(input.height), width: count(input.width) };
        Self { input, output, kernel: block.kernel, stride: block.stride, start }
    }

    /// The number of weights of one channel.
    pub(super) fn taps(&self) -> usize {
        self.input.channels * self.kernel * self.kernel
    }

    pub(super) fn weights(&self) -> Range<usize> {
        self.start..self.start + self.output.channels * self.taps()
    }

    fn by_channel(&self, place: usize) -> Range<usize> {
        let start = self.weights().end + place * self.output.channels;
        start..start + self.output.channels
    }

    pub(super) fn gain(&self) -> Range<usize> {
        self.by_channel(0)
    }

    pub(super) fn shift(&self) -> Range<usize> {
        self.by_channel(1)
    }

    /// The range of a coefficient: of the square, of the number itself, or the constant.
    pub(super) fn coefficient(&self, power: usize) -> Range<usize> {
        self.by_channel(2 + power)
    }

    pub(super) fn end(&self) -> usize {
        self.by_channel(4).end
    }

    fn area(&self) -> usize {
        self.output.height * self.output.width
    }

    /// The position of the first number under the kernel, for each place of a result's channel.
    fn corners(&self) -> Vec<usize> {
        let corner = |row, column| self.input.index(0, row * self.stride, column * self.stride);
        (0..self.output.height).flat_map(|row| (0..self.output.width).map(move |column| corner(row, column))).collect()
    }

    /// The distance of each number under the kernel from the first.
    fn offsets(&self) -> Vec<usize> {
        let kernel = Volume { channels: self.input.channels, height: self.kernel, width: self.kernel };
        super::super::network::places(kernel).map(|[i, a, b]| self.input.index(i, a, b)).collect()
    }
}

/// Mean and variance of the input of a batch normalisation, by channel.
#[derive(Clone, Debug)]
pub(super) struct Statistics {
    pub(super) mean: Vec<f32>,
    pub(super) variance: Vec<f32>,
}

impl Statistics {
    /// The statistics over all batches, which have the same size.
    pub(super) fn mean(all: &[&Self]) -> Self {
        let count = all.len().max(1) as f64;
        let channels = all.first().map_or(0, |one| one.mean.len());
        let over = |number: &dyn Fn(&Self) -> f64| all.iter().map(|one| number(one)).sum::<f64>() / count;
        let means: Vec<f64> = (0..channels).map(|c| over(&|one| f64::from(one.mean[c]))).collect();
        let variance = |c: usize| over(&|one| f64::from(one.variance[c]) + (f64::from(one.mean[c]) - means[c]).powi(2));
        let variance = (0..channels).map(|c| variance(c) as f32).collect();
        Self { mean: means.iter().map(|mean| *mean as f32).collect(), variance }
    }
}

/// Values that the backward pass needs.
pub(super) struct ForwardValues {
    /// `x̂`.
    normal: Vec<f32>,
    pub(super) result: Vec<f32>,
    pub(super) statistics: Statistics,
}

/// The forward pass of a block on a batch.
pub(super) fn forward(shape: &Shape, parameters: &[f32], x: &[f32]) -> ForwardValues {
    let mut normal = convolve(shape, &parameters[shape.weights()], x);
    let mut result = vec![0.0; normal.len()];
    let (mut mean, mut variance) = (Vec::new(), Vec::new());
    let of = |range: Range<usize>, channel: usize| parameters[range][channel];
    let lines = shape.area() * BATCH;
    for (channel, (normal, result)) in normal.chunks_exact_mut(lines).zip(result.chunks_exact_mut(lines)).enumerate() {
        let sum = |f: &dyn Fn(f32) -> f32| normal.iter().map(|x| f64::from(f(*x))).sum::<f64>() / lines as f64;
        let middle = sum(&|x| x) as f32;
        let spread = sum(&|x| (x - middle) * (x - middle)) as f32;
        let inverse = 1.0 / (spread + EPSILON).sqrt();
        let (gain, shift) = (of(shape.gain(), channel), of(shape.shift(), channel));
        let [a, b, c] = [0, 1, 2].map(|power| of(shape.coefficient(power), channel));
        for (normal, result) in normal.iter_mut().zip(result) {
            *normal = (*normal - middle) * inverse;
            let z = gain * *normal + shift;
            *result = (a * z + b) * z + c;
        }
        mean.push(middle);
        variance.push(spread);
    }
    ForwardValues { normal, result, statistics: Statistics { mean, variance } }
}

/// The slope of a block's input from the slope of its result (if `inner`), and the gradient of its
/// parameters.
#[expect(clippy::too_many_arguments, reason = "what a layer's way back needs")]
pub(super) fn backward(
    shape: &Shape,
    parameters: &[f32],
    x: &[f32],
    kept: &ForwardValues,
    mut slope: Vec<f32>,
    boundary: f32,
    inner: bool,
    values: &mut [f32],
) -> Vec<f32> {
    let lines = shape.area() * BATCH;
    let pressure = 2.0 * boundary / slope.len() as f32;
    for (channel, (slope, normal)) in slope.chunks_exact_mut(lines).zip(kept.normal.chunks_exact(lines)).enumerate() {
        let of = |range: Range<usize>| parameters[range][channel];
        let (gain, shift) = (of(shape.gain()), of(shape.shift()));
        let [a, b] = [0, 1].map(|power| of(shape.coefficient(power)));
        let mut sums = [[0.0f32; LANES]; 5];
        for (slope, normal) in slope.chunks_exact_mut(LANES).zip(normal.chunks_exact(LANES)) {
            for lane in 0..LANES {
                let z = gain * normal[lane] + shift;
                let dy = slope[lane];
                let beyond = (z - BOUNDARY).max(0.0) + (z + BOUNDARY).min(0.0);
                let dz = dy * (2.0 * a * z + b) + pressure * beyond;
                slope[lane] = dz;
                sums[0][lane] += dy * z * z;
                sums[1][lane] += dy * z;
                sums[2][lane] += dy;
                sums[3][lane] += dz * normal[lane];
                sums[4][lane] += dz;
            }
        }
        let [square, linear, constant, by_normal, alone] = sums.map(|lanes| lanes.iter().sum::<f32>());
        for (power, sum) in [square, linear, constant].into_iter().enumerate() {
            values[shape.coefficient(power)][channel] = sum;
        }
        values[shape.gain()][channel] = by_normal;
        values[shape.shift()][channel] = alone;
        let inverse = gain / (kept.statistics.variance[channel] + EPSILON).sqrt();
        let (by_normal, alone) = (by_normal / lines as f32, alone / lines as f32);
        for (slope, normal) in slope.iter_mut().zip(normal) {
            *slope = inverse * (*slope - alone - normal * by_normal);
        }
    }
    weights_backward(shape, x, &slope, &mut values[shape.weights()]);
    if inner { input_backward(shape, &parameters[shape.weights()], &slope) } else { Vec::new() }
}

fn lanes(numbers: &[f32], start: usize) -> &[f32; LANES] {
    let (lanes, _) = numbers[start..].as_chunks();
    &lanes[0]
}

fn convolve(shape: &Shape, weights: &[f32], x: &[f32]) -> Vec<f32> {
    let (corners, offsets) = (shape.corners(), shape.offsets());
    let mut result = Vec::with_capacity(shape.output.len() * BATCH);
    for weights in weights.chunks_exact(shape.taps()) {
        for corner in &corners {
            for part in (0..BATCH).step_by(LANES) {
                let mut sum = [0.0; LANES];
                for (weight, offset) in weights.iter().zip(&offsets) {
                    let x = lanes(x, (corner + offset) * BATCH + part);
                    (0..LANES).for_each(|lane| sum[lane] += weight * x[lane]);
                }
                result.extend_from_slice(&sum);
            }
        }
    }
    result
}

fn weights_backward(shape: &Shape, x: &[f32], slope: &[f32], values: &mut [f32]) {
    let (corners, offsets) = (shape.corners(), shape.offsets());
    let slopes = slope.chunks_exact(shape.area() * BATCH);
    for (slope, values) in slopes.zip(values.chunks_exact_mut(shape.taps())) {
        for (value, offset) in values.iter_mut().zip(&offsets) {
            let mut sum = [0.0; LANES];
            for (at, corner) in corners.iter().enumerate() {
                for part in (0..BATCH).step_by(LANES) {
                    let (slope, x) = (lanes(slope, at * BATCH + part), lanes(x, (corner + offset) * BATCH + part));
                    (0..LANES).for_each(|lane| sum[lane] += slope[lane] * x[lane]);
                }
            }
            *value = sum.iter().sum();
        }
    }
}

fn input_backward(shape: &Shape, weights: &[f32], slope: &[f32]) -> Vec<f32> {
    let (corners, offsets) = (shape.corners(), shape.offsets());
    let mut result = vec![0.0f32; shape.input.len() * BATCH];
    let slopes = slope.chunks_exact(shape.area() * BATCH);
    for (slope, weights) in slopes.zip(weights.chunks_exact(shape.taps())) {
        for (at, corner) in corners.iter().enumerate() {
            for part in (0..BATCH).step_by(LANES) {
                let slope = lanes(slope, at * BATCH + part);
                for (weight, offset) in weights.iter().zip(&offsets) {
                    let (result, _) = result[(corner + offset) * BATCH + part..].as_chunks_mut::<LANES>();
                    (0..LANES).for_each(|lane| result[0][lane] += weight * slope[lane]);
                }
            }
        }
    }
    result
}

/// A dense layer with weights `[class][number]`, then one offset for each class.
pub(super) fn dense(parameters: &[f32], classes: usize, x: &[f32]) -> Vec<f32> {
    let (weights, bias) = parameters.split_at(parameters.len() - classes);
    let mut result = Vec::with_capacity(classes * BATCH);
    for (weights, bias) in weights.chunks_exact(x.len() / BATCH).zip(bias) {
        let mut sum = [*bias; BATCH];
        for (weight, x) in weights.iter().zip(x.as_chunks::<BATCH>().0) {
            (0..BATCH).for_each(|lane| sum[lane] += weight * x[lane]);
        }
        result.extend_from_slice(&sum);
    }
    result
}

/// The slope of the input from the slope of the logits, and the gradient of the parameters.
pub(super) fn dense_backward(parameters: &[f32], x: &[f32], slope: &[f32], values: &mut [f32]) -> Vec<f32> {
    let (numbers, classes) = (x.len() / BATCH, slope.len() / BATCH);
    let (weights, bias) = values.split_at_mut(numbers * classes);
    let (x, slope) = (x.as_chunks::<BATCH>().0, slope.as_chunks::<BATCH>().0);
    let mut result = vec![[0.0f32; BATCH]; numbers];
    for class in 0..classes {
        bias[class] = slope[class].iter().sum();
        for at in 0..numbers {
            let mut sum = [0.0; LANES];
            (0..BATCH).for_each(|lane| sum[lane % LANES] += slope[class][lane] * x[at][lane]);
            weights[class * numbers + at] = sum.iter().sum();
            let weight = parameters[class * numbers + at];
            (0..BATCH).for_each(|lane| result[at][lane] += weight * slope[class][lane]);
        }
    }
    result.into_flattened()
}

/// Mean loss, number of right labels, and slope of the logits.
pub(super) fn cross_entropy(logits: &[f32], labels: &[u8], classes: usize, smoothing: f32) -> (f32, usize, Vec<f32>) {
    let mut slope = vec![0.0; logits.len()];
    let (mut loss, mut correct) = (0.0, 0);
    for (image, label) in labels.iter().enumerate() {
        let logit = |class: usize| logits[class * BATCH + image];
        let most = (0..classes).map(logit).fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = (0..classes).map(|class| (logit(class) - most).exp()).sum();
        let label = usize::from(*label);
        for class in 0..classes {
            let wanted = smoothing / classes as f32 + if class == label { 1.0 - smoothing } else { 0.0 };
            let log = logit(class) - most - total.ln();
            loss -= wanted * log / BATCH as f32;
            slope[class * BATCH + image] = (log.exp() - wanted) / BATCH as f32;
        }
        correct += usize::from(label < classes && logit(label) >= most);
    }
    (loss, correct, slope)
}
