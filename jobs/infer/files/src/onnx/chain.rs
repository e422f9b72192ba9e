//! Graphs that are a chain of layers, as networks.

use super::import::{Fault, Value};
use super::steps::{Steps, Work};
use super::{Ending, OnnxError};
use tobari_infer::{LayerKind, Network, NetworkError};
use tobari_infer_deep::{Activation, Graph, Op};

/// The operators of a chain of layers.
pub const OPERATORS: &[&str] = &[
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Constant",
    "Conv",
    "Div",
    "Dropout",
    "Flatten",
    "Gemm",
    "GlobalAveragePool",
    "Identity",
    "MatMul",
    "Mul",
    "Neg",
    "Pow",
    "Reshape",
    "Sub",
];

/// Operators of graphs that work on pictures and that no chain has.
const NEVER: &[&str] = &[
    "ArgMax",
    "Celu",
    "Clip",
    "Elu",
    "Gelu",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "LogSoftmax",
    "MaxPool",
    "Mish",
    "PRelu",
    "Relu",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Swish",
    "Tanh",
    "TopK",
];

/// Checks an operator whose inputs are not known.
pub(super) fn possible(operator: &str) -> Result<(), Fault> {
    if NEVER.contains(&operator) { Err(NONE.to_owned()) } else { Ok(()) }
}

/// Checks that the steps from one on are layers of a chain, and that values are polynomials that a
/// layer may have.
pub(super) fn check(steps: &Steps, from: usize, values: &[Value]) -> Result<(), Fault> {
    for (at, step) in steps.all.iter().enumerate().skip(from) {
        let Work::Op(op) = &step.work else { return Err(NONE.to_owned()) };
        layer(op)?;
        if step.inputs != [at] {
            return Err("a branch: a value that other layers were applied to is used again".to_owned());
        }
    }
    for value in values {
        match value {
            Value::Computed(x) if x.poly.degree() > 2 => {
                return Err("a polynomial of a higher degree than two".to_owned());
            }
            Value::Ended(..) => return Err(NONE.to_owned()),
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a value is that of the last layer.
pub(super) fn last(steps: &Steps, value: usize) -> Result<(), Fault> {
    if value == steps.all.len() {
        Ok(())
    } else {
        Err("a branch: the result of the last layer is not the output".to_owned())
    }
}

/// The fault of operators that no layer has.
const NONE: &str = "no such operator in a chain of layers; `tobari infer compile` takes such networks";

fn layer(op: &Op) -> Result<(), Fault> {
    match op {
        Op::Convolution { dilation, .. } if *dilation != [1; 2] => Err("dilations".to_owned()),
        Op::Convolution { .. } | Op::Dense { .. } | Op::Affine { .. } | Op::AveragePool { .. } | Op::Reshape { .. } => {
            Ok(())
        }
        Op::Polynomial { coefficients } if coefficients.len() <= 3 => Ok(()),
        Op::Polynomial { .. } => Err("a polynomial of a higher degree than two".to_owned()),
        Op::Sum { .. } | Op::Product | Op::Concatenate => {
            Err("a branch: two values that depend on the picture".to_owned())
        }
        Op::Gather { .. } => Err(format!("{NONE}: another order of numbers")),
        Op::MaximumPool { .. } | Op::Activation(Activation::Absolute) => Err(NONE.to_owned()),
        Op::Activation(_) => Err(format!("{NONE}: expected a polynomial of degree two")),
    }
}

/// The network of a graph whose nodes are layers.
pub(super) fn network(graph: &Graph, ending: Ending) -> Result<Network, OnnxError> {
    let mut faults = Vec::new();
    let mut layers = Vec::with_capacity(graph.nodes().len());
    for (at, node) in graph.nodes().iter().enumerate() {
        let found = if node.inputs() == [at] { kind(node.op(), graph.volume(at).channels) } else { None };
        match found {
            Some(kind) => layers.push((node.name().to_owned(), kind)),
            None => faults.push(format!("node {}: {NONE}", node.name())),
        }
    }
    if ending != Ending::None {
        faults.push(format!("{ending:?} at the end: {NONE}"));
    }
    if !faults.is_empty() {
        return Err(OnnxError::Unsupported(faults));
    }
    if layers.is_empty() {
        layers.push(("identity".to_owned(), LayerKind::Reshape { output: graph.input() }));
    }
    let made = Network::new(graph.input(), graph.normalisation().clone(), layers);
    made.map_err(|error: NetworkError| error.into())
}

fn kind(op: &Op, inputs: usize) -> Option<LayerKind> {
    Some(match op {
        Op::Convolution { channels, kernel, stride, dilation: [1, 1], padding, groups, weights, bias } => {
            let weights = dense_groups(weights, *channels, inputs, *groups)?;
            let (kernel, stride, padding, bias) = (*kernel, *stride, *padding, bias.clone());
            LayerKind::Convolution { channels: *channels, kernel, stride, padding, weights, bias }
        }
        Op::Dense { outputs, weights, bias } => {
            LayerKind::Dense { outputs: *outputs, weights: weights.clone(), bias: bias.clone() }
        }
        Op::Affine { scale, shift } => LayerKind::Affine { scale: scale.clone(), shift: shift.clone() },
        Op::AveragePool { kernel, stride, padding, count_padding } => LayerKind::AveragePool {
            kernel: *kernel,
            stride: *stride,
            padding: *padding,
            count_padding: *count_padding,
        },
        Op::Reshape { output } => LayerKind::Reshape { output: *output },
        Op::Polynomial { coefficients } => {
            let [constant, linear, square] = &coefficients[..] else { return None };
            LayerKind::Quadratic { square: square.clone(), linear: linear.clone(), constant: constant.clone() }
        }
        _ => return None,
    })
}

/// The weights of a convolution without groups: those between groups are 0.
fn dense_groups(weights: &[f64], outputs: usize, inputs: usize, groups: usize) -> Option<Vec<f64>> {
    if groups == 1 {
        return Some(weights.to_vec());
    }
    let (taken, each) = (inputs / groups, outputs / groups);
    let taps = weights.len() / outputs / taken;
    let count = weights.len().checked_mul(groups).filter(|count| *count <= tobari_infer::model::MAX_WEIGHTS)?;
    let mut spread = vec![0.0; count];
    for (output, row) in weights.chunks_exact(taken * taps).enumerate() {
        let first = output / each * taken;
        spread[(output * inputs + first) * taps..][..row.len()].copy_from_slice(row);
    }
    Some(spread)
}
