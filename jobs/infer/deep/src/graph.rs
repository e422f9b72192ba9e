//! A network as a graph: each node computes one value from values before it.
//!
//! Value 0 is the picture, and value `k + 1` is the result of node `k`; the last value is the
//! network's result. Every value is a [`Volume`]: channels, rows and columns, for one picture.
//! Pixels `p` are integers from 0 to 255, and value 0 is `scale p + offset`, channel by channel
//! ([`Normalisation`]).
//!
//! ```text
//! convolution    y[o][r][c] = bias[o] + Σ w[o][i][a][b] x[g + i][R][C],   where the output channel
//!                  o belongs to the group that starts at the input channel g, and
//!                  R = stride r + dilation a - top,  C = stride c + dilation b - left   (0 outside)
//! dense          y[o] = bias[o] + Σ w[o][i] x[i],   i over all numbers of x in their order
//! affine         y = scale x + shift
//! average pool   the mean of the numbers of a channel under the window
//! maximum pool   the largest of them, without the padding
//! sum            y = Σ f_k x_k,   volumes of one shape
//! product        y = x_1 x_2, number by number
//! concatenation  the channels of all inputs, one after another
//! gather         y[k] = x[index k], or 0
//! reshape        the same numbers in another shape
//! polynomial     y = c_0 + c_1 x + c_2 x² …
//! activation     y = f(x), see [`Activation`]
//! ```
//!
//! Numbers of an affine node and coefficients of a polynomial are one for the whole volume, one for
//! each channel, or one for each number.
//!
//! **Bounds.** At most [`MAX_NODES`] nodes, 2^20 numbers in a value, 2^24 weights in a node and
//! 2^26 in all.

use tobari_infer::model::{MAX_NUMBERS, MAX_WEIGHTS};
use tobari_infer::{Normalisation, Volume};

/// The most nodes of a graph.
pub const MAX_NODES: usize = 4096;
/// The most weights of all nodes together.
pub const MAX_ALL_WEIGHTS: usize = 1 << 26;
/// The highest degree of a polynomial node.
pub const MAX_DEGREE: usize = 64;

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// `x` for `x >= 0`, and `slope x` below.
    LeakyRelu {
        /// The slope below 0.
        slope: f64,
    },
    /// `x` for `x >= 0`, and `alpha (e^x - 1)` below.
    Elu {
        /// The factor below 0.
        alpha: f64,
    },
    /// `|x|`
    Absolute,
    /// `x`, but no less than `low` and no more than `high`. Either may be infinite.
    Clip {
        /// The least result.
        low: f64,
        /// The largest result.
        high: f64,
    },
    /// `1/(1 + e^-x)`
    Sigmoid,
    /// `(e^x - e^-x)/(e^x + e^-x)`
    Tanh,
    /// `log(1 + e^x)`
    Softplus,
    /// `x/(1 + e^-x)`
    Silu,
    /// `x (1 + erf(x/√2))/2`, by the error function.
    Gelu,
    /// `max(0, min(1, slope x + offset))`
    HardSigmoid {
        /// The slope in the middle.
        slope: f64,
        /// The value at 0.
        offset: f64,
    },
    /// `x max(0, min(1, x/6 + 1/2))`
    HardSwish,
}

/// The computation of a node; the head of the module has the formulas.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A convolution (as networks call it: a correlation).
    Convolution {
        /// Channels of the result.
        channels: usize,
        /// Rows and columns of the kernel.
        kernel: [usize; 2],
        /// Rows and columns from one result to the next.
        stride: [usize; 2],
        /// Rows and columns of the input from one weight to the next; 1 without gaps.
        dilation: [usize; 2],
        /// Zeros above, to the left, below and to the right.
        padding: [usize; 4],
        /// Groups of channels; results of a group depend on its channels alone.
        groups: usize,
        /// `w[o][i][a][b]`, the last index fastest; `i` counts the channels of a group.
        weights: Vec<f64>,
        /// One for each channel of the result.
        bias: Vec<f64>,
    },
    /// A matrix and an offset. The result is a vector of one channel.
    Dense {
        /// Numbers of the result.
        outputs: usize,
        /// `w[o][i]`, the last index fastest.
        weights: Vec<f64>,
        /// One for each number of the result.
        bias: Vec<f64>,
    },
    /// A scale and a shift: one, one for each channel, or one for each number.
    Affine {
        /// The factors.
        scale: Vec<f64>,
        /// As many shifts.
        shift: Vec<f64>,
    },
    /// Means of windows, channel by channel.
    AveragePool {
        /// Rows and columns of the window.
        kernel: [usize; 2],
        /// Rows and columns from one result to the next.
        stride: [usize; 2],
        /// Zeros above, to the left, below and to the right.
        padding: [usize; 4],
        /// Whether the padding counts; if not, the mean is over the inside alone.
        count_padding: bool,
    },
    /// Largest numbers of windows, channel by channel.
    MaximumPool {
        /// Rows and columns of the window.
        kernel: [usize; 2],
        /// Rows and columns from one result to the next.
        stride: [usize; 2],
        /// Rows and columns from one number of the window to the next; 1 without gaps.
        dilation: [usize; 2],
        /// Rows and columns around the input that are never the largest.
        padding: [usize; 4],
    },
    /// `Σ f_k x_k`
    Sum {
        /// One for each input.
        factors: Vec<f64>,
    },
    /// The product of two inputs, number by number.
    Product,
    /// The channels of all inputs, one after another. Inputs have the same rows and columns.
    Concatenate,
    /// Any choice of numbers: paddings, slices, transpositions.
    Gather {
        /// The shape of the result.
        output: Volume,
        /// For each number of the result its place in the input; without one it is 0.
        places: Vec<Option<u32>>,
    },
    /// The same numbers in another shape.
    Reshape {
        /// The shape.
        output: Volume,
    },
    /// A polynomial.
    Polynomial {
        /// By degree, from 0: one number, one for each channel, or one for each number of the
        /// volume. All degrees have the same count.
        coefficients: Vec<Vec<f64>>,
    },
    /// A function of each number.
    Activation(Activation),
}

/// A node of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    name: String,
    op: Op,
    inputs: Vec<usize>,
    output: Volume,
}

impl Node {
    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its computation.
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// The numbers of the values that it takes.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// The shape of its result.
    pub fn output(&self) -> Volume {
        self.output
    }
}

/// A network with checked shapes and counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    input: Volume,
    normalisation: Normalisation,
    nodes: Vec<Node>,
}

/// Errors of a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Too many nodes.
    #[error("expected at most {MAX_NODES} nodes, found more")]
    Nodes,
    /// Too many weights.
    #[error("expected at most 2^26 weights in all nodes, found more")]
    Weights,
    /// An input without numbers or with too many, or a normalisation for another number of
    /// channels.
    #[error("expected an input of 1 to 2^20 numbers and a finite scale and offset for each of its channels")]
    Input,
    /// A node that does not fit.
    #[error("node {node}: {reason}")]
    Node {
        /// The node's name.
        node: String,
        /// The reason.
        reason: String,
    },
}

/// A picture of another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a picture of {expected} numbers, found {found}")]
pub struct PictureError {
    /// The network's number of inputs.
    pub expected: usize,
    /// The picture's number of pixels.
    pub found: usize,
}

impl Graph {
    /// A graph without nodes: its result is the picture.
    ///
    /// # Errors
    /// [`GraphError::Input`].
    pub fn new(input: Volume, normalisation: Normalisation) -> Result<Self, GraphError> {
        let counts = [normalisation.scale.len(), normalisation.offset.len()];
        let finite = normalisation.scale.iter().chain(&normalisation.offset).all(|x| x.is_finite());
        if numbers(input).is_none() || counts != [input.channels; 2] || !finite {
            return Err(GraphError::Input);
        }
        Ok(Self { input, normalisation, nodes: Vec::new() })
    }

    /// Adds a node and returns the number of its value.
    ///
    /// # Errors
    /// [`GraphError`] for too many nodes, or one that does not fit its inputs.
    pub fn add(&mut self, name: &str, op: Op, inputs: &[usize]) -> Result<usize, GraphError> {
        if self.nodes.len() >= MAX_NODES {
            return Err(GraphError::Nodes);
        }
        let fault = |reason: String| GraphError::Node { node: name.to_owned(), reason };
        if inputs.iter().any(|value| *value > self.nodes.len()) {
            return Err(fault("expected values of earlier nodes as inputs".to_owned()));
        }
        let volumes: Vec<Volume> = inputs.iter().map(|value| self.volume(*value)).collect();
        let output = output_of(&op, &volumes).map_err(fault)?;
        if numbers(output).is_none() {
            return Err(fault("expected a result of 1 to 2^20 numbers, found another".to_owned()));
        }
        let weights: usize = self.nodes.iter().map(|node| weights(&node.op)).sum();
        if weights + self::weights(&op) > MAX_ALL_WEIGHTS {
            return Err(GraphError::Weights);
        }
        self.nodes.push(Node { name: name.to_owned(), op, inputs: inputs.to_vec(), output });
        Ok(self.nodes.len())
    }

    /// The shape of the picture.
    pub fn input(&self) -> Volume {
        self.input
    }

    /// The map of pixels to value 0.
    pub fn normalisation(&self) -> &Normalisation {
        &self.normalisation
    }

    /// The nodes: node `k` computes value `k + 1`.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The shape of a value.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn volume(&self, value: usize) -> Volume {
        match value.checked_sub(1) {
            None => self.input,
            Some(node) => self.nodes[node].output,
        }
    }

    /// The shape of the result.
    pub fn output(&self) -> Volume {
        self.volume(self.nodes.len())
    }
}

/// The number of elements of a volume; `None` if there are none or too many.
fn numbers(volume: Volume) -> Option<usize> {
    let count = volume.channels.checked_mul(volume.height)?.checked_mul(volume.width)?;
    (1..=MAX_NUMBERS).contains(&count).then_some(count)
}

/// The count of a node's own numbers.
fn weights(op: &Op) -> usize {
    match op {
        Op::Convolution { weights, bias, .. } | Op::Dense { weights, bias, .. } => weights.len() + bias.len(),
        Op::Affine { scale, shift } => scale.len() + shift.len(),
        Op::Gather { places, .. } => places.len(),
        Op::Polynomial { coefficients } => coefficients.iter().map(Vec::len).sum(),
        _ => 0,
    }
}

/// The shape of a node's result, with its numbers checked.
fn output_of(op: &Op, inputs: &[Volume]) -> Result<Volume, String> {
    let expected = match op {
        Op::Sum { factors } => factors.len().max(1),
        Op::Concatenate => inputs.len().max(1),
        Op::Product => 2,
        _ => 1,
    };
    let [input, ..] = inputs else { return Err("expected an input, found none".to_owned()) };
    if inputs.len() != expected {
        return Err(format!("expected {expected} inputs, found {}", inputs.len()));
    }
    let input = *input;
    match op {
        Op::Convolution { .. } => convolution(op, input),
        Op::Dense { outputs, weights, bias } => {
            let count = outputs.checked_mul(input.len()).filter(|count| *count <= MAX_WEIGHTS);
            check("weights", weights, &[count.ok_or("expected at most 2^24 weights, found more")?])?;
            check("offsets", bias, &[*outputs])?;
            Ok(Volume::vector(*outputs))
        }
        Op::Affine { scale, shift } => {
            check("scales", scale, &[1, input.channels, input.len()])?;
            check("shifts", shift, &[scale.len()])?;
            Ok(input)
        }
        Op::AveragePool { kernel, stride, padding, .. } => pooled(input, *kernel, *stride, [1; 2], *padding),
        Op::MaximumPool { kernel, stride, dilation, padding } => pooled(input, *kernel, *stride, *dilation, *padding),
        Op::Sum { factors } => {
            check("factors", factors, &[inputs.len()])?;
            same(inputs)
        }
        Op::Product => same(inputs),
        Op::Concatenate => {
            if inputs.iter().any(|other| [other.height, other.width] != [input.height, input.width]) {
                return Err("expected inputs of the same rows and columns, found others".to_owned());
            }
            let channels = inputs.iter().map(|other| other.channels).sum();
            Ok(Volume { channels, ..input })
        }
        Op::Gather { output, places } => {
            let within = places.iter().flatten().all(|place| (*place as usize) < input.len());
            if numbers(*output) != Some(places.len()) || !within {
                return Err("expected a place in the input, or none, for each number of the result".to_owned());
            }
            Ok(*output)
        }
        Op::Reshape { output } => {
            if numbers(*output) != Some(input.len()) {
                return Err(format!("expected a shape of {} numbers, found another", input.len()));
            }
            Ok(*output)
        }
        Op::Polynomial { coefficients } => {
            let [first, ..] = &coefficients[..] else { return Err("expected coefficients, found none".to_owned()) };
            if coefficients.len() > MAX_DEGREE + 1 {
                return Err(format!("expected a degree of at most {MAX_DEGREE}, found {}", coefficients.len() - 1));
            }
            check("coefficients", first, &[1, input.channels, input.len()])?;
            coefficients.iter().try_for_each(|of_degree| check("coefficients", of_degree, &[first.len()]))?;
            Ok(input)
        }
        Op::Activation(activation) => {
            let fine = match *activation {
                Activation::LeakyRelu { slope } => slope.is_finite(),
                Activation::Elu { alpha } => alpha.is_finite(),
                Activation::Clip { low, high } => low <= high,
                Activation::HardSigmoid { slope, offset } => slope.is_finite() && offset.is_finite(),
                _ => true,
            };
            if fine { Ok(input) } else { Err("expected finite numbers in order, found others".to_owned()) }
        }
    }
}

fn convolution(op: &Op, input: Volume) -> Result<Volume, String> {
    let Op::Convolution { channels, kernel, stride, dilation, padding, groups, weights, bias } = op else {
        unreachable!("the caller matched")
    };
    if *groups == 0 || !input.channels.is_multiple_of(*groups) || !channels.is_multiple_of(*groups) {
        return Err(format!(
            "expected a number of groups that divides {} and {channels} channels, found {groups}",
            input.channels
        ));
    }
    let [height, width] = windows(input, *kernel, *stride, *dilation, *padding)?;
    let taps = kernel[0].checked_mul(kernel[1]).and_then(|taps| taps.checked_mul(input.channels / groups));
    let count = taps.and_then(|taps| taps.checked_mul(*channels)).filter(|count| *count <= MAX_WEIGHTS);
    check("weights", weights, &[count.ok_or("expected at most 2^24 weights, found more")?])?;
    check("offsets", bias, &[*channels])?;
    Ok(Volume { channels: *channels, height, width })
}

fn pooled(
    input: Volume,
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 4],
) -> Result<Volume, String> {
    if (0..2).any(|axis| padding[axis] >= kernel[axis] || padding[axis + 2] >= kernel[axis]) {
        return Err("expected less padding than the window has rows or columns".to_owned());
    }
    let [height, width] = windows(input, kernel, stride, dilation, padding)?;
    Ok(Volume { channels: input.channels, height, width })
}

fn same(inputs: &[Volume]) -> Result<Volume, String> {
    if inputs.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err("expected inputs of one shape, found others".to_owned());
    }
    Ok(inputs[0])
}

fn check(what: &str, numbers: &[f64], allowed: &[usize]) -> Result<(), String> {
    if !allowed.contains(&numbers.len()) {
        let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
        return Err(format!("expected {} {what}, found {}", allowed.join(" or "), numbers.len()));
    }
    if !numbers.iter().all(|x| x.is_finite()) {
        return Err(format!("expected finite numbers as {what}, found another"));
    }
    Ok(())
}

/// The number of windows that fit, in rows and columns.
fn windows(
    input: Volume,
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 4],
) -> Result<[usize; 2], String> {
    let mut count = [0; 2];
    let large = |x: usize| x > MAX_NUMBERS;
    for (axis, size) in [input.height, input.width].into_iter().enumerate() {
        let sizes = [kernel[axis], stride[axis], dilation[axis]];
        if sizes.contains(&0) || sizes.into_iter().any(large) || large(padding[axis]) || large(padding[axis + 2]) {
            return Err("expected a kernel, a stride and a dilation of at least 1, and padding below 2^20".to_owned());
        }
        let reach = (kernel[axis] - 1) * dilation[axis] + 1;
        let room = (size + padding[axis] + padding[axis + 2]).checked_sub(reach);
        let room =
            room.ok_or_else(|| format!("expected a kernel no larger than its input, found {reach} in {size}"))?;
        count[axis] = room / stride[axis] + 1;
    }
    Ok(count)
}
