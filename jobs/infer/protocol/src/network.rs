//! A network as people write it: convolutions, batch normalisation, polynomial activations of
//! degree two, average pooling, dense layers.
//!
//! **Computation.** Pixels `p` are integers from 0 to 255; the first layer takes `scale p +
//! offset`, channel by channel. The layers follow in order, in doubles:
//!
//! ```text
//! convolution    y[o][r][c] = bias[o]
//!                  + Σ w[o][i][a][b] x[i][stride r + a - top][stride c + b - left]   (0 outside x)
//! affine         y = scale x + shift                   (batch normalisation with fixed statistics)
//! quadratic      y = square x² + linear x + constant
//! average pool   y[i][r][c] = the mean of the numbers of x[i] under the window
//! reshape        y = x, in the same order
//! dense          y[o] = bias[o] + Σ w[o][i] x[i]
//! ```
//!
//! An affine or quadratic layer has one number, one per channel, or one for each element.
//! [`Network::forward`] is written from these formulas alone and shares no code with the folded
//! form ([`fold`](super::fold)) or its engines ([`plain`](super::plain)), so that each checks the
//! other.
//!
//! **Bounds.** At most [`MAX_LAYERS`] layers, [`MAX_NUMBERS`] numbers between them and
//! [`MAX_WEIGHTS`] weights in one. A network is never encrypted: it stays with the model's owner.

use super::model::{MAX_NUMBERS, MAX_WEIGHTS, Volume};

/// The most layers of a network.
pub const MAX_LAYERS: usize = 256;

/// The computation of one layer; the head of the module has the formulas.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerKind {
    /// A convolution (as networks call it: a correlation).
    Convolution {
        /// Channels of the result.
        channels: usize,
        /// Rows and columns of the kernel.
        kernel: [usize; 2],
        /// Rows and columns from one result to the next.
        stride: [usize; 2],
        /// Zeros above, to the left, below and to the right; each fewer than the kernel's rows or
        /// columns.
        padding: [usize; 4],
        /// `w[o][i][a][b]`, the last index fastest.
        weights: Vec<f64>,
        /// One per channel of the result.
        bias: Vec<f64>,
    },
    /// A scale and a shift.
    Affine {
        /// One, one per channel, or one for each number.
        scale: Vec<f64>,
        /// As many as of `scale`.
        shift: Vec<f64>,
    },
    /// A polynomial of degree two.
    Quadratic {
        /// Coefficient of `x²`: one, one per channel, or one for each number.
        square: Vec<f64>,
        /// Coefficient of `x`: as many as of `square`.
        linear: Vec<f64>,
        /// As many as of `square`.
        constant: Vec<f64>,
    },
    /// Means of windows, channel by channel.
    AveragePool {
        /// Rows and columns of the window.
        kernel: [usize; 2],
        /// Rows and columns from one result to the next.
        stride: [usize; 2],
        /// Zeros above, to the left, below and to the right; each fewer than the window's rows or
        /// columns.
        padding: [usize; 4],
        /// Whether the padding counts; if not, the mean is over the inside alone.
        count_padding: bool,
    },
    /// The same numbers in another shape.
    Reshape {
        /// The shape.
        output: Volume,
    },
    /// A matrix and an offset.
    Dense {
        /// Numbers of the result.
        outputs: usize,
        /// `w[o][i]`, the last index fastest.
        weights: Vec<f64>,
        /// One for each number of the result.
        bias: Vec<f64>,
    },
}

/// A layer with its name and shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    name: String,
    kind: LayerKind,
    input: Volume,
    output: Volume,
}

impl Layer {
    /// The layer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The layer's computation.
    pub fn kind(&self) -> &LayerKind {
        &self.kind
    }

    /// The shape of the input.
    pub fn input(&self) -> Volume {
        self.input
    }

    /// The shape of the result.
    pub fn output(&self) -> Volume {
        self.output
    }
}

/// The map of a pixel `p`, an integer from 0 to 255, before the first layer: `scale p + offset`,
/// with one of each per channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalisation {
    /// One per channel.
    pub scale: Vec<f64>,
    /// One per channel.
    pub offset: Vec<f64>,
}

impl Normalisation {
    /// Pixels from 0 to 1, minus `mean`, divided by `deviation`; the same for every channel.
    pub fn standard(channels: usize, mean: f64, deviation: f64) -> Self {
        Self { scale: vec![1.0 / (255.0 * deviation); channels], offset: vec![-mean / deviation; channels] }
    }
}

/// A network with checked shapes and counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    input: Volume,
    normalisation: Normalisation,
    layers: Vec<Layer>,
}

/// Errors of [`Network::new`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// No layer, or too many.
    #[error("expected 1 to {MAX_LAYERS} layers, found {0}")]
    Layers(usize),
    /// An input without numbers or with too many, or a normalisation for another number of
    /// channels.
    #[error("expected an input of 1 to 2^20 numbers and a scale and an offset for each of its channels, found others")]
    Input,
    /// Too few or too many numbers of a kind.
    #[error("layer {layer}: expected {expected} {what}, found {found}")]
    Count {
        /// The layer's name.
        layer: String,
        /// The kind of number.
        what: &'static str,
        /// The number expected.
        expected: String,
        /// The number found.
        found: usize,
    },
    /// A number that is infinite or NaN.
    #[error("layer {layer}: expected finite numbers as {what}, found another")]
    NotFinite {
        /// The layer's name.
        layer: String,
        /// The kind of number.
        what: &'static str,
    },
    /// Sizes that do not fit.
    #[error("layer {layer}: {reason}")]
    Shape {
        /// The layer's name.
        layer: String,
        /// The reason.
        reason: &'static str,
    },
}

/// An image of another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an image of {expected} numbers, found {found}")]
pub struct InputError {
    /// The network's number of inputs.
    pub expected: usize,
    /// The image's number of pixels.
    pub found: usize,
}

impl Network {
    /// A network of these layers in order, each with its name. Shapes follow from the input's.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn new(
        input: Volume,
        normalisation: Normalisation,
        layers: Vec<(String, LayerKind)>,
    ) -> Result<Self, NetworkError> {
        if layers.is_empty() || layers.len() > MAX_LAYERS {
            return Err(NetworkError::Layers(layers.len()));
        }
        let counts = [normalisation.scale.len(), normalisation.offset.len()];
        let finite = normalisation.scale.iter().chain(&normalisation.offset).all(|x| x.is_finite());
        if numbers(input).is_none() || counts != [input.channels; 2] || !finite {
            return Err(NetworkError::Input);
        }
        let (mut checked, mut volume) = (Vec::with_capacity(layers.len()), input);
        for (name, kind) in layers {
            let output = output_of(&name, &kind, volume)?;
            checked.push(Layer { name, kind, input: volume, output });
            volume = output;
        }
        Ok(Self { input, normalisation, layers: checked })
    }

    /// The shape of the pixels.
    pub fn input(&self) -> Volume {
        self.input
    }

    /// The map of pixels before the first layer.
    pub fn normalisation(&self) -> &Normalisation {
        &self.normalisation
    }

    /// The layers.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The shape of the result.
    pub fn output(&self) -> Volume {
        self.layers.last().map_or(self.input, |layer| layer.output)
    }

    /// The result for one image, layer by layer from the formulas.
    ///
    /// # Errors
    /// [`InputError`] for an image of another size.
    pub fn forward(&self, pixels: &[u8]) -> Result<Vec<f64>, InputError> {
        let (expected, found) = (self.input.len(), pixels.len());
        if expected != found {
            return Err(InputError { expected, found });
        }
        let area = self.input.height * self.input.width;
        let normalise = |(at, pixel): (usize, &u8)| {
            self.normalisation.scale[at / area] * f64::from(*pixel) + self.normalisation.offset[at / area]
        };
        let mut numbers: Vec<f64> = pixels.iter().enumerate().map(normalise).collect();
        for layer in &self.layers {
            numbers = layer.forward(&numbers);
        }
        Ok(numbers)
    }
}

impl Layer {
    /// The layer's result for as many numbers as its input has.
    pub(super) fn forward(&self, x: &[f64]) -> Vec<f64> {
        let (input, output) = (self.input, self.output);
        match &self.kind {
            LayerKind::Convolution { kernel, stride, padding, weights, bias, .. } => {
                let taps = input.channels * kernel[0] * kernel[1];
                places(output)
                    .map(|[o, r, c]| {
                        let mut sum = bias[o];
                        for (tap, [i, a, b]) in
                            places(Volume { channels: input.channels, height: kernel[0], width: kernel[1] }).enumerate()
                        {
                            if let Some([row, column]) = under(input, *stride, *padding, [r, c], [a, b]) {
                                sum += weights[o * taps + tap] * x[input.index(i, row, column)];
                            }
                        }
                        sum
                    })
                    .collect()
            }
            LayerKind::Affine { scale, shift } => {
                let (scale, shift) = (spread(scale, output), spread(shift, output));
                (0..x.len()).map(|at| scale[at] * x[at] + shift[at]).collect()
            }
            LayerKind::Quadratic { square, linear, constant } => {
                let [square, linear, constant] = [square, linear, constant].map(|numbers| spread(numbers, output));
                (0..x.len()).map(|at| square[at] * x[at] * x[at] + linear[at] * x[at] + constant[at]).collect()
            }
            LayerKind::AveragePool { kernel, stride, padding, count_padding } => places(output)
                .map(|[i, r, c]| {
                    let (mut sum, mut inside) = (0.0, 0);
                    for [_, a, b] in places(Volume { channels: 1, height: kernel[0], width: kernel[1] }) {
                        if let Some([row, column]) = under(input, *stride, *padding, [r, c], [a, b]) {
                            sum += x[input.index(i, row, column)];
                            inside += 1;
                        }
                    }
                    sum / if *count_padding { kernel[0] * kernel[1] } else { inside } as f64
                })
                .collect(),
            LayerKind::Reshape { .. } => x.to_vec(),
            LayerKind::Dense { weights, bias, .. } => bias
                .iter()
                .zip(weights.chunks_exact(x.len()))
                .map(|(bias, row)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>())
                .collect(),
        }
    }
}

/// Expands one number, or one per channel, to one for each number.
pub(super) fn spread(numbers: &[f64], volume: Volume) -> Vec<f64> {
    let area = volume.height * volume.width;
    match numbers.len() {
        1 => vec![numbers[0]; volume.len()],
        count if count == volume.len() => numbers.to_vec(),
        _ => numbers.iter().flat_map(|x| std::iter::repeat_n(*x, area)).collect(),
    }
}

/// Every channel, row and column, in order.
pub(super) fn places(volume: Volume) -> impl Iterator<Item = [usize; 3]> {
    (0..volume.channels).flat_map(move |channel| {
        (0..volume.height).flat_map(move |row| (0..volume.width).map(move |column| [channel, row, column]))
    })
}

/// The row and column of the input under a place of a kernel; `None` outside the input.
pub(super) fn under(
    input: Volume,
    stride: [usize; 2],
    padding: [usize; 4],
    result: [usize; 2],
    place: [usize; 2],
) -> Option<[usize; 2]> {
    let row = (stride[0] * result[0] + place[0]).checked_sub(padding[0])?;
    let column = (stride[1] * result[1] + place[1]).checked_sub(padding[1])?;
    (row < input.height && column < input.width).then_some([row, column])
}

/// The number of elements of a volume; `None` if there are none or too many.
fn numbers(volume: Volume) -> Option<usize> {
    let count = volume.channels.checked_mul(volume.height)?.checked_mul(volume.width)?;
    (1..=MAX_NUMBERS).contains(&count).then_some(count)
}

/// The shape of a layer's result, with its numbers checked.
fn output_of(name: &str, kind: &LayerKind, input: Volume) -> Result<Volume, NetworkError> {
    let shape = |reason| NetworkError::Shape { layer: name.to_owned(), reason };
    let check = |what, numbers: &[f64], allowed: &[usize]| check(name, what, numbers, allowed);
    let output = match kind {
        LayerKind::Convolution { channels, kernel, stride, padding, weights, bias } => {
            let [height, width] = windows(input, *kernel, *stride, *padding).map_err(shape)?;
            let taps = kernel[0].checked_mul(kernel[1]).and_then(|taps| taps.checked_mul(input.channels));
            let count = taps.and_then(|taps| taps.checked_mul(*channels)).filter(|count| *count <= MAX_WEIGHTS);
            check("weights", weights, &[count.ok_or_else(|| shape("expected at most 2^24 weights, found more"))?])?;
            check("offsets", bias, &[*channels])?;
            Volume { channels: *channels, height, width }
        }
        LayerKind::Affine { scale, shift } => {
            let allowed = [1, input.channels, input.len()];
            check("scales", scale, &allowed)?;
            check("shifts", shift, &allowed)?;
            input
        }
        LayerKind::Quadratic { square, linear, constant } => {
            for (what, numbers) in [("squares", square), ("linear terms", linear), ("constants", constant)] {
                check(what, numbers, &[1, input.channels, input.len()])?;
            }
            input
        }
        LayerKind::AveragePool { kernel, stride, padding, .. } => {
            let [height, width] = windows(input, *kernel, *stride, *padding).map_err(shape)?;
            Volume { channels: input.channels, height, width }
        }
        LayerKind::Reshape { output } => {
            if numbers(*output) != Some(input.len()) {
                return Err(shape("expected a shape of as many numbers, found another"));
            }
            *output
        }
        LayerKind::Dense { outputs, weights, bias } => {
            let count = outputs.checked_mul(input.len()).filter(|count| *count <= MAX_WEIGHTS);
            check("weights", weights, &[count.ok_or_else(|| shape("expected at most 2^24 weights, found more"))?])?;
            check("offsets", bias, &[*outputs])?;
            Volume::vector(*outputs)
        }
    };
    numbers(output).map(|_| output).ok_or_else(|| shape("expected a result of 1 to 2^20 numbers, found another"))
}

/// The number of windows that fit, in rows and columns.
fn windows(
    input: Volume,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 4],
) -> Result<[usize; 2], &'static str> {
    let mut count = [0; 2];
    for (axis, size) in [input.height, input.width].into_iter().enumerate() {
        let (kernel, before, after) = (kernel[axis], padding[axis], padding[axis + 2]);
        if kernel == 0 || kernel > MAX_NUMBERS || stride[axis] == 0 || stride[axis] > MAX_NUMBERS {
            return Err("expected a kernel and a stride of at least 1");
        }
        if before >= kernel || after >= kernel {
            return Err("expected less padding than the kernel has rows or columns");
        }
        let room = (size + before + after).checked_sub(kernel);
        count[axis] = room.ok_or("expected a kernel no larger than its input")? / stride[axis] + 1;
    }
    Ok(count)
}

fn check(layer: &str, what: &'static str, numbers: &[f64], allowed: &[usize]) -> Result<(), NetworkError> {
    if !allowed.contains(&numbers.len()) {
        let mut allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        allowed.dedup();
        let (layer, expected) = (layer.to_owned(), allowed.join(" or "));
        return Err(NetworkError::Count { layer, what, expected, found: numbers.len() });
    }
    if numbers.iter().any(|x| !x.is_finite()) {
        return Err(NetworkError::NotFinite { layer: layer.to_owned(), what });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(input: Volume, kinds: Vec<LayerKind>) -> Result<Network, NetworkError> {
        let identity = Normalisation { scale: vec![1.0; input.channels], offset: vec![0.0; input.channels] };
        Network::new(input, identity, kinds.into_iter().map(|kind| ("l".to_owned(), kind)).collect())
    }

    const SQUARE: Volume = Volume { channels: 1, height: 3, width: 3 };
    const PIXELS: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];

    #[test]
    fn a_convolution_is_the_sum_written_out() {
        let convolution = |padding, stride| LayerKind::Convolution {
            channels: 1,
            kernel: [2, 2],
            stride,
            padding,
            weights: vec![1.0, 10.0, 100.0, 1000.0],
            bias: vec![0.5],
        };
        let plain = network(SQUARE, vec![convolution([0; 4], [1, 1])]).unwrap();
        assert_eq!(plain.forward(&PIXELS).unwrap(), [5421.5, 6532.5, 8754.5, 9865.5]);
        let padded = network(SQUARE, vec![convolution([1, 0, 0, 1], [2, 2])]).unwrap();
        assert_eq!(padded.output(), Volume { channels: 1, height: 2, width: 2 });
        assert_eq!(padded.forward(&PIXELS).unwrap(), [2100.5, 300.5, 8754.5, 906.5]);
    }

    #[test]
    fn a_mean_counts_its_padding_or_not() {
        for (count_padding, expected) in [(true, [0.25, 1.25, 2.75, 7.0]), (false, [1.0, 2.5, 5.5, 7.0])] {
            let pool = LayerKind::AveragePool { kernel: [2, 2], stride: [2, 2], padding: [1, 1, 0, 0], count_padding };
            assert_eq!(network(SQUARE, vec![pool]).unwrap().forward(&PIXELS).unwrap(), expected);
        }
    }

    #[test]
    fn the_other_layers_are_their_formulas() {
        let volume = Volume { channels: 2, height: 1, width: 2 };
        let kinds = vec![
            LayerKind::Affine { scale: vec![2.0, -1.0], shift: vec![1.0] },
            LayerKind::Quadratic { square: vec![1.0], linear: vec![0.0, 1.0, 2.0, 3.0], constant: vec![0.5, 0.25] },
            LayerKind::Reshape { output: Volume::vector(4) },
            LayerKind::Dense { outputs: 1, weights: vec![1.0, 10.0, 100.0, 1000.0], bias: vec![-1.0] },
        ];
        // affine: 3, 5, -2, -3; quadratic: 9.5, 30.5, 0.25, 0.25
        assert_eq!(network(volume, kinds).unwrap().forward(&[1, 2, 3, 4]).unwrap(), [588.5]);
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let dense = |outputs, weights: usize, bias: usize| LayerKind::Dense {
            outputs,
            weights: vec![0.0; weights],
            bias: vec![0.0; bias],
        };
        assert!(network(SQUARE, vec![dense(2, 18, 2)]).is_ok());
        assert_eq!(network(SQUARE, vec![]), Err(NetworkError::Layers(0)));
        for wrong in [dense(2, 17, 2), dense(2, 18, 1), dense(0, 0, 0), dense(usize::MAX, 0, 0)] {
            assert!(network(SQUARE, vec![wrong]).is_err());
        }
        let convolution = |channels, kernel, stride, padding| {
            let (weights, bias) = (vec![0.0; 4], vec![0.0]);
            network(SQUARE, vec![LayerKind::Convolution { channels, kernel, stride, padding, weights, bias }])
        };
        assert!(convolution(1, [2, 2], [1, 1], [1; 4]).is_ok());
        for wrong in [
            convolution(usize::MAX, [2, 2], [1, 1], [0; 4]),
            convolution(1, [usize::MAX, 2], [1, 1], [0; 4]),
            convolution(1, [4, 1], [1, 1], [0; 4]),
            convolution(1, [2, 2], [0, 1], [0; 4]),
            convolution(1, [2, 2], [1, 1], [2, 0, 0, 0]),
        ] {
            assert!(matches!(wrong, Err(NetworkError::Shape { .. })), "{wrong:?}");
        }
        let infinite = LayerKind::Affine { scale: vec![f64::INFINITY], shift: vec![0.0] };
        assert!(matches!(network(SQUARE, vec![infinite]), Err(NetworkError::NotFinite { .. })));
        let reshape = LayerKind::Reshape { output: Volume { channels: usize::MAX, height: 2, width: 1 } };
        assert!(network(SQUARE, vec![reshape]).is_err());
        let network = network(SQUARE, vec![dense(2, 18, 2)]).unwrap();
        assert_eq!(network.forward(&[0; 8]), Err(InputError { expected: 9, found: 8 }));
    }
}
