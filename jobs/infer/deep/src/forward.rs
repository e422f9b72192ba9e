//! A network without encryption, node by node from the formulas of [`graph`](super::graph), in
//! doubles. This code shares nothing with the encrypted form, so that each checks the other.

use super::graph::{Activation, Graph, Op, PictureError};
use tobari_infer::Volume;

impl Activation {
    /// The function's value.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Self::Relu => x.max(0.0),
            Self::LeakyRelu { slope } => {
                if x < 0.0 {
                    slope * x
                } else {
                    x
                }
            }
            Self::Elu { alpha } => {
                if x < 0.0 {
                    alpha * x.exp_m1()
                } else {
                    x
                }
            }
            Self::Absolute => x.abs(),
            Self::Clip { low, high } => x.max(low).min(high),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
            Self::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Gelu => x * normal(x),
            Self::HardSigmoid { slope, offset } => (slope * x + offset).clamp(0.0, 1.0),
            Self::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        }
    }
}

/// The probability that a standard normal number is below `x`: by its power series near 0, and by
/// the continued fraction of its tail elsewhere.
fn normal(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() < 3.0 {
        let (mut term, mut sum, mut k) = (x, x, 1.0);
        while term.abs() > f64::EPSILON * sum.abs() {
            k += 2.0;
            term *= x * x / k;
            sum += term;
        }
        return 0.5 + density * sum;
    }
    let tail = (1..=60).rev().fold(x.abs(), |tail, k| x.abs() + f64::from(k) / tail);
    if x > 0.0 { 1.0 - density / tail } else { density / tail }
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
        for node in self.nodes() {
            let inputs: Vec<(&[f64], Volume)> =
                node.inputs().iter().map(|value| (&values[*value][..], self.volume(*value))).collect();
            let result = compute(node.op(), &inputs, node.output());
            values.push(result);
        }
        values
    }
}

/// A node's result.
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
                found.iter().sum::<f64>() / count.max(1) as f64
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
        Op::Concatenate => inputs.iter().flat_map(|(x, _)| x.iter().copied()).collect(),
        Op::Gather { places, .. } => places.iter().map(|place| place.map_or(0.0, |at| x[at as usize])).collect(),
        Op::Reshape { .. } => x.to_vec(),
        Op::Polynomial { coefficients } => {
            let horner = |at: usize| coefficients.iter().rev().fold(0.0, |sum, c| sum * x[at] + pick(c, at));
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
        let (mut results, mut found) = (Vec::with_capacity(output.len()), Vec::new());
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
