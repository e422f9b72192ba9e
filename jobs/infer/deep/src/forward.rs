//! A network without encryption, node by node from the formulas of [`graph`](super::graph), in
//! doubles. This code shares nothing with the encrypted form, so that each checks the other; nodes
//! between encrypted maps that an enclave computes ([`enclaved`](super::enclaved)) are this code.
//!
//! # Time
//! An enclave runs this code on pictures that an observer of its memory and its clock must not
//! learn. So no branch and no address depends on a number, only on shapes and weights: activations
//! are sums, products and the larger of two numbers, and series of a fixed length in place of the
//! functions of the system's library. Numbers on the way are wiped before their memory is given
//! back, except the values themselves, which are the caller's.
//!
//! Processors take longer for numbers below 2^-1022. Values are multiples of 2^-352, so products
//! with weights of at least 2^-600 are never so small. Divisions, in the smooth activations alone,
//! take the same time on newer processors; nothing here ensures it.

use super::graph::{Activation, Graph, Op, PictureError};
use std::hint::black_box;
use tobari_infer::Volume;
use zeroize::Zeroize;

impl Activation {
    /// The function's value; the head of the module says how.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Self::Relu => x.max(0.0),
            Self::LeakyRelu { slope } => x.max(0.0) + slope * x.min(0.0),
            Self::Elu { alpha } => x.max(0.0) + alpha * exp_m1(x.min(0.0)),
            Self::Absolute => x.abs(),
            Self::Clip { low, high } => within(x, low, high),
            Self::Sigmoid => sigmoid(x),
            Self::Tanh => {
                let twice = exp_m1(2.0 * x);
                twice / (twice + 2.0)
            }
            Self::Softplus => x.max(0.0) + ln_1p(exp(-x.abs())),
            Self::Silu => x * sigmoid(x),
            Self::Gelu => x * normal(x),
            Self::HardSigmoid { slope, offset } => within(slope * x + offset, 0.0, 1.0),
            Self::HardSwish => x * within(x / 6.0 + 0.5, 0.0, 1.0),
        }
    }
}

/// `x`, but no less than `low` and no more than `high`.
fn within(x: f64, low: f64, high: f64) -> f64 {
    x.max(low).min(high)
}

/// Exponents end here: `e^300` is as good as infinite beside 1, and `e^-300` as 0.
const MOST: f64 = 300.0;
/// `log 2` to 32 bits, of which multiples up to 2^20 are exact, and the rest of it.
const LOG_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_8e-10];
/// A double of this size has no bits after the point, and the integer in its lowest bits.
const INTEGERS: f64 = 1.5 * (1u64 << 52) as f64;
/// `1/n`
const INVERSE: [f64; 15] = {
    let (mut inverse, mut n) = ([0.0; 15], 1);
    while n < inverse.len() {
        inverse[n] = 1.0 / n as f64;
        n += 1;
    }
    inverse
};

/// `2^k` and `e^r - 1`, where `x = k log 2 + r` and `r` is at most half of `log 2`.
fn parts(x: f64) -> [f64; 2] {
    let x = within(x, -MOST, MOST);
    let shifted = x * std::f64::consts::LOG2_E + INTEGERS;
    let k = shifted - INTEGERS;
    let r = x - k * LOG_2[0] - k * LOG_2[1];
    // r + r²/2! + r³/3! …; the next term is below 2^-60 of the first
    let rest = INVERSE.iter().skip(1).rev().fold(0.0, |rest, inverse| (1.0 + rest) * r * inverse);
    let bits = shifted.to_bits().wrapping_sub(INTEGERS.to_bits()).wrapping_add(1023) << 52;
    [f64::from_bits(bits), rest]
}

/// `e^x`, at most `e^300`.
fn exp(x: f64) -> f64 {
    let [power, rest] = parts(x);
    power + power * rest
}

/// `e^x - 1`, precise near 0.
fn exp_m1(x: f64) -> f64 {
    let [power, rest] = parts(x);
    power * rest + (power - 1.0)
}

/// `log(1 + y)` for `y` from 0 to 1: twice the inverse hyperbolic tangent of `y/(2 + y)`, by its
/// series. The next term is below 2^-56 of the first.
fn ln_1p(y: f64) -> f64 {
    let s = y / (2.0 + y);
    let series = (0..17).rev().fold(0.0, |sum, k| sum * s * s + 1.0 / f64::from(2 * k + 1));
    2.0 * s * series
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// One of two numbers.
fn choose(condition: bool, yes: f64, no: f64) -> f64 {
    // hidden from the compiler, which could make a branch of it
    let mask = black_box(u64::from(condition).wrapping_neg());
    f64::from_bits(no.to_bits() ^ ((no.to_bits() ^ yes.to_bits()) & mask))
}

/// The probability that a standard normal number is below `x`: by its power series up to 3, and by
/// the continued fraction of its tail beyond. Both are computed for every number.
fn normal(x: f64) -> f64 {
    let density = exp(-x * x / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
    let small = within(x, -3.0, 3.0);
    // x + x³/3 + x⁵/(3·5) …; the terms after 45 are below 2^-60 of the sum
    let series = (1..=45).rev().fold(1.0, |sum, k| 1.0 + sum * small * small / f64::from(2 * k + 1));
    let large = x.abs().max(3.0);
    let tail = density / (1..=60).rev().fold(large, |tail, k| large + f64::from(k) / tail);
    let far = choose(x > 0.0, 1.0 - tail, tail);
    choose(x.abs() < 3.0, 0.5 + density * small * series, far)
}

/// The nearest multiple of 2^-352. Numbers from 2^-246 on stay the same.
fn settled(x: f64) -> f64 {
    const SMALL: f64 = 1.5 / ((1u128 << 100) as f64 * (1u128 << 100) as f64 * (1u128 << 100) as f64);
    x + SMALL - SMALL
}

impl Graph {
    /// Value 0 of a picture: pixels from 0 to 255, by channel, then by row.
    ///
    /// # Errors
    /// [`PictureError`] for a picture of another size.
    pub fn normalise(&self, pixels: &[u8]) -> Result<Vec<f64>, PictureError> {
        let (expected, found) = (self.input().len(), pixels.len());
        if expected != found {
            return Err(PictureError { expected, found });
        }
        let area = self.input().height * self.input().width;
        let (scale, offset) = (&self.normalisation().scale, &self.normalisation().offset);
        let number = |(at, pixel): (usize, &u8)| scale[at / area] * f64::from(*pixel) + offset[at / area];
        Ok(pixels.iter().enumerate().map(number).collect())
    }

    /// The result for one picture.
    ///
    /// # Errors
    /// [`PictureError`] for a picture of another size.
    pub fn forward(&self, pixels: &[u8]) -> Result<Vec<f64>, PictureError> {
        let mut values = self.values(self.normalise(pixels)?);
        Ok(values.pop().unwrap_or_default())
    }

    /// All values for a value 0, in order.
    ///
    /// # Panics
    /// If `first` has another length than the input.
    pub fn values(&self, first: Vec<f64>) -> Vec<Vec<f64>> {
        assert_eq!(first.len(), self.input().len(), "a value has the numbers of its volume");
        let mut values = vec![first];
        values[0].iter_mut().for_each(|x| *x = settled(*x));
        for node in self.nodes() {
            let inputs: Vec<(&[f64], Volume)> =
                node.inputs().iter().map(|value| (&values[*value][..], self.volume(*value))).collect();
            values.push(self::node(node.op(), &inputs, node.output()));
        }
        values
    }
}

/// A node's result.
pub(crate) fn node(op: &Op, inputs: &[(&[f64], Volume)], output: Volume) -> Vec<f64> {
    let mut result = compute(op, inputs, output);
    result.iter_mut().for_each(|x| *x = settled(*x));
    result
}

fn compute(op: &Op, inputs: &[(&[f64], Volume)], output: Volume) -> Vec<f64> {
    let (x, input) = inputs[0];
    let channel_of = |at: usize| at / (output.height * output.width);
    let pick = |numbers: &[f64], at: usize| match numbers.len() {
        1 => numbers[0],
        count if count == output.len() => numbers[at],
        _ => numbers[channel_of(at)],
    };
    match op {
        Op::Convolution { .. } => convolve(op, x, input, output),
        Op::Dense { weights, bias, .. } => {
            let dot = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
            bias.iter().zip(weights.chunks_exact(x.len())).map(|(bias, row)| bias + dot(row)).collect()
        }
        Op::Affine { scale, shift } => (0..x.len()).map(|at| pick(scale, at) * x[at] + pick(shift, at)).collect(),
        Op::AveragePool { kernel, stride, padding, count_padding } => {
            let window = Window { kernel: *kernel, stride: *stride, dilation: [1; 2], padding: *padding };
            let mean = |found: &[f64]| {
                let count = if *count_padding { kernel[0] * kernel[1] } else { found.len() };
                found.iter().sum::<f64>() * (1.0 / count.max(1) as f64)
            };
            window.over(x, input, output, mean)
        }
        Op::MaximumPool { kernel, stride, dilation, padding } => {
            let window = Window { kernel: *kernel, stride: *stride, dilation: *dilation, padding: *padding };
            window.over(x, input, output, |found| found.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        }
        Op::Sum { factors } => {
            (0..x.len()).map(|at| factors.iter().zip(inputs).map(|(factor, (x, _))| factor * x[at]).sum()).collect()
        }
        Op::Product => x.iter().zip(inputs[1].0).map(|(a, b)| a * b).collect(),
        Op::Concatenate => {
            // with all its room from the beginning: it does not move and leave numbers behind
            let mut all = Vec::with_capacity(output.len());
            inputs.iter().for_each(|(x, _)| all.extend_from_slice(x));
            all
        }
        Op::Gather { places, .. } => places.iter().map(|place| place.map_or(0.0, |at| x[at as usize])).collect(),
        Op::Reshape { .. } => x.to_vec(),
        Op::Polynomial { coefficients } => {
            let horner = |at: usize| coefficients.iter().rev().fold(0.0, |sum, c| settled(sum * x[at]) + pick(c, at));
            (0..x.len()).map(horner).collect()
        }
        Op::Activation(activation) => x.iter().map(|x| activation.value(*x)).collect(),
    }
}

/// The places of windows.
struct Window {
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 4],
}

impl Window {
    /// The row and column of the input under a place of the window; `None` outside the input.
    fn under(&self, input: Volume, result: [usize; 2], place: [usize; 2]) -> Option<[usize; 2]> {
        let axis = |i: usize| (self.stride[i] * result[i] + self.dilation[i] * place[i]).checked_sub(self.padding[i]);
        let (row, column) = (axis(0)?, axis(1)?);
        (row < input.height && column < input.width).then_some([row, column])
    }

    /// A function of the numbers under each window, channel by channel.
    fn over(&self, x: &[f64], input: Volume, output: Volume, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        // a window that lies outside the input is as large as one inside
        let room = (self.kernel[0] * self.kernel[1]).min(input.height * input.width);
        let (mut results, mut found) = (Vec::with_capacity(output.len()), Vec::with_capacity(room));
        for channel in 0..output.channels {
            for row in 0..output.height {
                for column in 0..output.width {
                    found.clear();
                    for a in 0..self.kernel[0] {
                        for b in 0..self.kernel[1] {
                            if let Some([r, c]) = self.under(input, [row, column], [a, b]) {
                                found.push(x[input.index(channel, r, c)]);
                            }
                        }
                    }
                    results.push(f(&found));
                }
            }
        }
        found.zeroize();
        results
    }
}

fn convolve(op: &Op, x: &[f64], input: Volume, output: Volume) -> Vec<f64> {
    let Op::Convolution { kernel, stride, dilation, padding, groups, weights, bias, .. } = op else {
        unreachable!("the caller matched")
    };
    let window = Window { kernel: *kernel, stride: *stride, dilation: *dilation, padding: *padding };
    let (inner, outer) = (input.channels / groups, output.channels / groups);
    let taps = kernel[0] * kernel[1];
    let mut results = Vec::with_capacity(output.len());
    for channel in 0..output.channels {
        let first = channel / outer * inner;
        let own = &weights[channel * inner * taps..][..inner * taps];
        for row in 0..output.height {
            for column in 0..output.width {
                let mut sum = bias[channel];
                for a in 0..kernel[0] {
                    for b in 0..kernel[1] {
                        let Some([r, c]) = window.under(input, [row, column], [a, b]) else { continue };
                        let tap = a * kernel[1] + b;
                        sum += (0..inner).map(|i| own[i * taps + tap] * x[input.index(first + i, r, c)]).sum::<f64>();
                    }
                }
                results.push(sum);
            }
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        // Abramowitz and Stegun, table 26.1
        for (x, expected) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.0, 0.158_655_253_931_457),
            (2.5, 0.993_790_334_674_224),
            (3.0, 0.998_650_101_968_370),
            (-4.0, 0.000_031_671_241_833_12),
        ] {
            assert!((normal(x) - expected).abs() < 1e-14, "{x}: {}", normal(x));
        }
    }

    #[test]
    fn functions_are_those_of_the_library_to_some_bits() {
        let near = |found: f64, expected: f64| (found - expected).abs() <= 4e-15 * expected.abs();
        for step in -40_000..=40_000 {
            let x = f64::from(step) * 1.001e-3;
            assert!(near(exp(x), x.exp()), "e^{x}: {:e}", exp(x));
            assert!(near(exp_m1(x), x.exp_m1()), "e^{x} - 1: {:e}", exp_m1(x));
            assert!(near(Activation::Tanh.value(x), x.tanh()), "tanh {x}: {:e}", Activation::Tanh.value(x));
            let (found, expected) = (Activation::Softplus.value(x), x.max(0.0) + (-x.abs()).exp().ln_1p());
            assert!(near(found, expected), "softplus {x}: {found:e}");
            // the sum of both tails is 1, where neither has lost its bits
            assert!((normal(x) + normal(-x) - 1.0).abs() < 1e-15, "{x}");
        }
        for x in [1e-9, 1e-100, 1e-17] {
            assert!(near(Activation::Tanh.value(x), x.tanh()) && near(exp_m1(x), x.exp_m1()), "{x}");
        }
        let finite = |x: f64| exp(x).is_finite() && exp(x) > 1e-131 && (0.0..=1.0).contains(&sigmoid(x));
        assert!([f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 301.0].into_iter().all(finite));
        // the series and the continued fraction meet at 3
        assert!((normal(3.0) - normal(3.0 - 1e-9) - 1e-9 * 0.004_431_848_411_938).abs() < 1e-15);
    }

    #[test]
    fn values_are_never_so_small_that_they_take_longer() {
        for x in [0.0, 1.0, -0.1, 1e-74, f64::from_bits(0x3090_0000_0000_0001)] {
            assert_eq!(settled(x).to_bits(), x.to_bits(), "{x:e}");
        }
        for x in [1e-90, -1e-91, 3e-100, 1e-106, 1e-107, 1e-200, 1e-310, -5e-324] {
            let (found, least) = (settled(x), 2f64.powi(-352));
            assert!((found - x).abs() <= least && (found / least).fract() == 0.0, "{x:e}: {found:e}");
        }
    }

    #[test]
    fn activations_have_their_values() {
        for (activation, x, expected) in [
            (Activation::Relu, -2.0, 0.0),
            (Activation::LeakyRelu { slope: 0.1 }, -2.0, -0.2),
            (Activation::Elu { alpha: 2.0 }, -700.0, -2.0),
            (Activation::Absolute, -2.0, 2.0),
            (Activation::Clip { low: 0.0, high: 6.0 }, 7.0, 6.0),
            (Activation::Sigmoid, 0.0, 0.5),
            (Activation::Tanh, 0.0, 0.0),
            (Activation::Softplus, 800.0, 800.0),
            (Activation::Silu, 0.0, 0.0),
            (Activation::Gelu, 1.0, 0.841_344_746_068_543),
            (Activation::HardSigmoid { slope: 0.2, offset: 0.5 }, 1.0, 0.7),
            (Activation::HardSwish, 3.0, 3.0),
        ] {
            assert!((activation.value(x) - expected).abs() < 1e-12, "{activation:?}");
        }
    }
}
