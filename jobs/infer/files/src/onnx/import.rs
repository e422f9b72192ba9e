//! Converts a graph to a network.

use super::graph::{Attribute, Graph, Node, Tensor, malformed};
use super::layers::{constant, convolution, dense, gemm, normalised, pool, reshaped};
use super::polynomial::{Polynomial, product, scaled, sum, volume};
use super::{OnnxError, Pixels};
use std::collections::HashMap;
use std::rc::Rc;
use tobari_infer::model::MAX_NUMBERS;
use tobari_infer::{LayerKind, Network, Normalisation};

/// The supported operators.
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
/// The supported versions of the standard operators.
const VERSIONS: std::ops::RangeInclusive<i64> = 7..=26;
/// The most numbers of all polynomials and layers together.
const MAX_COEFFICIENTS: usize = 1 << 25;
/// The most unsupported parts in an error.
const MAX_FAULTS: usize = 100;

/// A description of an unsupported part.
pub(super) type Fault = String;

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Constant(Rc<Tensor>),
    Polynomial(Rc<Polynomial>),
    /// The result of an unsupported part, for which no further error is reported.
    Unknown,
}

struct Import<'a> {
    values: HashMap<&'a str, Value>,
    layers: Vec<(String, LayerKind)>,
    /// The batch's size, if it is a number.
    batch: Option<usize>,
    faults: Vec<Fault>,
    room: usize,
}

pub(super) fn import(graph: Graph<'_>, pixels: &Pixels) -> Result<Network, OnnxError> {
    let Graph { nodes, constants, inputs, outputs, version } = graph;
    let ([input], [output]) = (&inputs[..], &outputs[..]) else {
        let found = (inputs.len(), outputs.len());
        return Err(malformed(format!("expected one input and one output, found {} and {}", found.0, found.1)));
    };
    let mut import = Import {
        values: constants.into_iter().map(|(name, tensor)| (name, Value::Constant(Rc::new(tensor)))).collect(),
        layers: Vec::new(),
        batch: input.dims.first().copied().flatten(),
        faults: Vec::new(),
        room: MAX_COEFFICIENTS,
    };
    if !VERSIONS.contains(&version) {
        import.faults.push(format!("version {version} of the operators (expected 7 to 26)"));
    }
    let dims: Option<Vec<usize>> = input.dims.iter().skip(1).copied().collect();
    let count = |dims: &Vec<usize>| dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let fits = |dims: &Vec<usize>| {
        (1..=3).contains(&dims.len()) && count(dims).is_some_and(|count| (1..=MAX_NUMBERS).contains(&count))
    };
    let dims = dims.filter(fits).ok_or_else(|| {
        malformed("expected an input of a batch and one to three dimensions that are numbers, found another")
    })?;
    let volume = volume(&dims);
    import.values.insert(input.name, Value::Polynomial(Rc::new(Polynomial::identity(0, dims))));
    for (at, node) in nodes.iter().enumerate() {
        import.node(at, node);
    }
    let last = import.values.get(output).cloned();
    match last {
        Some(Value::Polynomial(last)) => {
            if let Err(fault) = import.flush(&last, "output") {
                import.faults.push(fault);
            }
        }
        Some(Value::Unknown) => {}
        _ => import.faults.push("an output that does not depend on the input".to_owned()),
    }
    if !import.faults.is_empty() {
        return Err(OnnxError::Unsupported(import.faults));
    }
    if import.layers.is_empty() {
        import.layers.push(("identity".to_owned(), LayerKind::Reshape { output: volume }));
    }
    Ok(Network::new(volume, normalisation(pixels, volume.channels)?, import.layers)?)
}

fn normalisation(pixels: &Pixels, channels: usize) -> Result<Normalisation, OnnxError> {
    let wrong = [&pixels.mean, &pixels.deviation].iter().any(|all| all.len() != 1 && all.len() != channels);
    if wrong || pixels.deviation.contains(&0.0) {
        let what = "expected one mean and one deviation other than 0, or one of each channel, found others";
        return Err(malformed(what));
    }
    let of = |all: &[f64], channel: usize| all[channel % all.len()];
    let deviation = |channel| of(&pixels.deviation, channel);
    Ok(Normalisation {
        scale: (0..channels).map(|channel| 1.0 / (255.0 * deviation(channel))).collect(),
        offset: (0..channels).map(|channel| -of(&pixels.mean, channel) / deviation(channel)).collect(),
    })
}

impl<'a> Import<'a> {
    /// Converts a node, or records its fault.
    fn node(&mut self, at: usize, node: &Node<'a>) {
        let found = self.value(node);
        let count = if matches!(node.operator, "BatchNormalization" | "Dropout") { 1 } else { node.outputs.len() };
        let value = match found {
            Ok(_) if count != 1 => Err(format!("expected one output, found {count}")),
            other => other,
        };
        let value = value.and_then(|value| {
            let size = if let Value::Polynomial(polynomial) = &value { polynomial.size() } else { 0 };
            self.take_room(size).map(|()| value)
        });
        let value = value.unwrap_or_else(|fault| {
            let name = if node.name.is_empty() { format!("{at}") } else { format!("{:.64}", node.name) };
            self.fault(format!("node {name} ({:.64}): {fault}", node.operator));
            Value::Unknown
        });
        for (place, name) in node.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let value = if place == 0 { value.clone() } else { Value::Unknown };
            if self.values.insert(name, value).is_some() {
                self.fault(format!("value {name:.64}: defined twice"));
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    fn take_room(&mut self, count: usize) -> Result<(), Fault> {
        self.room = self.room.checked_sub(count).ok_or("more numbers than all layers together may have (2^25)")?;
        Ok(())
    }

    fn value(&mut self, node: &Node<'a>) -> Result<Value, Fault> {
        if !matches!(node.domain, "" | "ai.onnx") {
            return Err(format!("operators of {:.64}", node.domain));
        }
        if !OPERATORS.contains(&node.operator) {
            return Err("no such operator".to_owned());
        }
        if node.operator == "Constant" {
            return constant(node);
        }
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            match self.values.get(name) {
                Some(Value::Unknown) => return Ok(Value::Unknown),
                Some(value) => inputs.push(Some(value.clone())),
                None if name.is_empty() => inputs.push(None),
                None => return Err(format!("an input {name:.64} that no earlier node makes")),
            }
        }
        let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
        match (node.operator, &inputs[..]) {
            ("Identity" | "Dropout", [Some(value), ..]) => Ok((*value).clone()),
            ("Cast", [Some(value @ Value::Polynomial(_))]) => match node.attributes.get("to") {
                Some(Attribute::Integer(1 | 11)) => Ok((*value).clone()),
                _ => Err("a cast to something but float or double".to_owned()),
            },
            ("Neg", [Some(Value::Polynomial(x))]) => Ok(scaled(x, -1.0)),
            ("Add", [Some(a), Some(b)]) => sum(a, b, 1.0),
            ("Sub", [Some(a), Some(b)]) => sum(a, b, -1.0),
            ("Mul", [Some(a), Some(b)]) => product(a, b),
            ("Div", [Some(a @ Value::Polynomial(_)), Some(Value::Constant(b))]) => {
                let numbers = b.numbers.iter().map(|x| 1.0 / x).collect();
                product(a, &Value::Constant(Rc::new(Tensor { dims: b.dims.clone(), numbers, whole: false })))
            }
            ("Pow", [Some(a @ Value::Polynomial(x)), Some(Value::Constant(power))]) => match power.numbers[..] {
                [1.0] => Ok(Value::Polynomial(Rc::clone(x))),
                [2.0] => product(a, a),
                _ => Err("a power other than 1 or 2".to_owned()),
            },
            ("Flatten" | "Reshape", [Some(Value::Polynomial(x)), rest @ ..]) => self.reshape(node, x, rest),
            (_, [Some(Value::Polynomial(x)), rest @ ..]) => {
                let mut constants = Vec::with_capacity(rest.len());
                for value in rest {
                    match value {
                        Some(Value::Constant(tensor)) => constants.push(Some(&**tensor)),
                        None => constants.push(None),
                        _ => return Err("weights that are not constant".to_owned()),
                    }
                }
                self.layer(node, x, &constants)
            }
            _ => Err("inputs of other kinds or another number than this operator has here".to_owned()),
        }
    }

    /// Converts a node that is a layer by itself.
    fn layer(&mut self, node: &Node<'a>, x: &Rc<Polynomial>, constants: &[Option<&Tensor>]) -> Result<Value, Fault> {
        let name = name_of(node);
        let (kind, dims) = match (node.operator, constants) {
            ("Conv", [Some(weights), rest @ ..]) if rest.len() <= 1 => {
                convolution(node, &x.dims, weights, rest.first().copied().flatten())?
            }
            ("BatchNormalization", [Some(scale), Some(shift), Some(mean), Some(variance)]) => {
                return normalised(node, x, [scale, shift, mean, variance]);
            }
            ("Gemm", [Some(weights), rest @ ..]) if rest.len() <= 1 => {
                gemm(node, &x.dims, weights, rest.first().copied().flatten())?
            }
            ("MatMul", [Some(weights)]) => dense(&x.dims, weights, None, [1.0, 1.0], false)?,
            ("AveragePool", []) => pool(node, &x.dims)?,
            ("GlobalAveragePool", []) => {
                let [channels, height, width] = x.dims[..] else { return Err("expected rows and columns".to_owned()) };
                let (kernel, count_padding) = ([height, width], true);
                let kind = LayerKind::AveragePool { kernel, stride: kernel, padding: [0; 4], count_padding };
                (kind, vec![channels, 1, 1])
            }
            _ => return Err("inputs of other kinds or another number than this operator has here".to_owned()),
        };
        if let LayerKind::Convolution { weights, .. } | LayerKind::Dense { weights, .. } = &kind {
            self.take_room(weights.len())?;
        }
        self.flush(x, name)?;
        self.layers.push((format!("{name:.64}"), kind));
        Ok(Value::Polynomial(Rc::new(Polynomial::identity(self.layers.len(), dims))))
    }

    /// Turns a polynomial into a layer, so that another layer can follow.
    fn flush(&mut self, x: &Polynomial, name: &str) -> Result<(), Fault> {
        if x.layers != self.layers.len() {
            return Err("a branch: a value that other layers were applied to is used again".to_owned());
        }
        self.take_room(x.size())?;
        let [constant, linear, square] = x.coefficients.clone();
        let all = |numbers: &[f64], value: f64| numbers.iter().all(|x| *x == value);
        if !all(&square, 0.0) {
            let kind = LayerKind::Quadratic { square, linear, constant };
            self.layers.push((format!("{name:.48} activation"), kind));
        } else if !(all(&linear, 1.0) && all(&constant, 0.0)) {
            let kind = LayerKind::Affine { scale: linear, shift: constant };
            self.layers.push((format!("{name:.48} scale"), kind));
        }
        Ok(())
    }

    fn reshape(&mut self, node: &Node<'a>, x: &Rc<Polynomial>, rest: &[Option<&Value>]) -> Result<Value, Fault> {
        let dims = if node.operator == "Flatten" {
            match node.attributes.get("axis") {
                None | Some(Attribute::Integer(1)) => {}
                Some(Attribute::Integer(axis)) if *axis == -(x.dims.len() as i64) => {}
                _ => return Err("an axis other than 1".to_owned()),
            }
            vec![x.dims.iter().product()]
        } else {
            let [Some(Value::Constant(shape))] = rest else { return Err("a shape that is not constant".to_owned()) };
            if !matches!(node.attributes.get("allowzero"), None | Some(Attribute::Integer(0))) {
                return Err("allowzero".to_owned());
            }
            reshaped(&x.dims, self.batch, shape)?
        };
        if dims == x.dims {
            return Ok(Value::Polynomial(Rc::clone(x)));
        }
        let (name, output) = (name_of(node), volume(&dims));
        self.flush(x, name)?;
        self.layers.push((format!("{name:.64}"), LayerKind::Reshape { output }));
        Ok(Value::Polynomial(Rc::new(Polynomial::identity(self.layers.len(), dims))))
    }
}

fn name_of<'a>(node: &Node<'a>) -> &'a str {
    if node.name.is_empty() { node.operator } else { node.name }
}
