//! Writes a network as an ONNX file, in the form of common tools: float weights, one input of
//! `p/255` with the batch as first dimension.

use super::proto::Writer;
use tobari_infer::{LayerKind, Network, Volume};

/// Version of the standard operators.
const VERSION: i64 = 13;
/// Version of the file format.
const FORMAT: i64 = 8;

/// Encodes a network. Numbers are rounded to single precision; the input takes pixels divided by
/// 255.
pub fn encode_onnx(network: &Network) -> Vec<u8> {
    let mut graph = GraphWriter { nodes: Vec::new(), constants: Vec::new(), value: "input".to_owned(), count: 0 };
    let (input, normalisation) = (network.input(), network.normalisation());
    let scale: Vec<f64> = normalisation.scale.iter().map(|scale| 255.0 * scale).collect();
    if scale.iter().any(|x| *x != 1.0) {
        graph.elementwise("Mul", "normalisation", &scale, input);
    }
    if normalisation.offset.iter().any(|x| *x != 0.0) {
        graph.elementwise("Add", "normalisation", &normalisation.offset, input);
    }
    for (at, layer) in network.layers().iter().enumerate() {
        graph.layer(&format!("{}.{}", at, layer.name()), layer.kind(), layer.input(), layer.output());
    }
    let mut message = Writer::default();
    for node in &graph.nodes {
        message = message.message(1, node);
    }
    message = message.field(2, b"network");
    for constant in &graph.constants {
        message = message.message(5, constant);
    }
    let message =
        message.message(11, &value_info("input", input)).message(12, &value_info(&graph.value, network.output()));
    let operators = Writer::default().field(1, b"").integer(2, VERSION);
    Writer::default().integer(1, FORMAT).field(2, b"tobari").message(7, &message).message(8, &operators).bytes
}

struct GraphWriter {
    nodes: Vec<Writer>,
    constants: Vec<Writer>,
    /// The name of the last value.
    value: String,
    count: usize,
}

/// The dimensions of a volume: a vector has one.
fn dims(volume: Volume) -> Vec<usize> {
    if (volume.channels, volume.height) == (1, 1) {
        vec![volume.width]
    } else {
        vec![volume.channels, volume.height, volume.width]
    }
}

fn value_info(name: &str, volume: Volume) -> Writer {
    let batch = Writer::default().field(2, b"batch");
    let shape = dims(volume).into_iter().fold(Writer::default().message(1, &batch), |shape, dim| {
        shape.message(1, &Writer::default().integer(1, dim as i64))
    });
    let tensor = Writer::default().integer(1, 1).message(2, &shape);
    Writer::default().field(1, name.as_bytes()).message(2, &Writer::default().message(1, &tensor))
}

fn attribute(name: &str) -> Writer {
    Writer::default().field(1, name.as_bytes())
}

fn integers(name: &str, all: &[usize]) -> Writer {
    all.iter().fold(attribute(name), |attribute, size| attribute.integer(8, *size as i64)).integer(20, 7)
}

fn one(name: &str, integer: i64) -> Writer {
    attribute(name).integer(3, integer).integer(20, 2)
}

impl GraphWriter {
    /// Adds a constant to the graph, and returns its name.
    fn constant(&mut self, name: &str, dims: &[usize], numbers: &[f64]) -> String {
        let name = format!("{name}.{}", self.constants.len());
        let tensor = dims.iter().fold(Writer::default(), |tensor, dim| tensor.integer(1, *dim as i64));
        let raw: Vec<u8> = numbers.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
        self.constants.push(tensor.integer(2, 1).field(8, name.as_bytes()).field(9, &raw));
        name
    }

    /// Adds a node with the named inputs, and returns the name of its new value.
    fn node(&mut self, operator: &str, name: &str, inputs: &[&str], attributes: &[Writer]) -> String {
        self.count += 1;
        let output = format!("value{}", self.count);
        let node = inputs.iter().fold(Writer::default(), |node, input| node.field(1, input.as_bytes()));
        let node = node.field(2, output.as_bytes()).field(3, name.as_bytes()).field(4, operator.as_bytes());
        self.nodes.push(attributes.iter().fold(node, |node, attribute| node.message(5, attribute)));
        output
    }

    /// Adds a node on the last value and constants.
    fn next(&mut self, operator: &str, name: &str, constants: &[&str], attributes: &[Writer]) {
        let value = std::mem::take(&mut self.value);
        let inputs: Vec<&str> = std::iter::once(value.as_str()).chain(constants.iter().copied()).collect();
        self.value = self.node(operator, name, &inputs, attributes);
    }

    fn coefficients(&mut self, name: &str, numbers: &[f64], volume: Volume) -> String {
        let shape = match numbers.len() {
            1 => vec![],
            count if count == volume.len() => dims(volume),
            count => vec![count, 1, 1],
        };
        self.constant(name, &shape, numbers)
    }

    fn elementwise(&mut self, operator: &str, name: &str, numbers: &[f64], volume: Volume) {
        let constant = self.coefficients(name, numbers, volume);
        self.next(operator, name, &[&constant], &[]);
    }

    fn layer(&mut self, name: &str, kind: &LayerKind, input: Volume, output: Volume) {
        match kind {
            LayerKind::Convolution { channels, kernel, stride, padding, weights, bias } => {
                let weights = self.constant(name, &[*channels, input.channels, kernel[0], kernel[1]], weights);
                let bias = self.constant(name, &[*channels], bias);
                let attributes =
                    [integers("kernel_shape", kernel), integers("strides", stride), integers("pads", padding)];
                self.volume(name, input);
                self.next("Conv", name, &[&weights, &bias], &attributes);
                self.vector_if(name, output);
            }
            LayerKind::AveragePool { kernel, stride, padding, count_padding } => {
                let attributes = [
                    integers("kernel_shape", kernel),
                    integers("strides", stride),
                    integers("pads", padding),
                    one("count_include_pad", i64::from(*count_padding)),
                ];
                self.volume(name, input);
                self.next("AveragePool", name, &[], &attributes);
                self.vector_if(name, output);
            }
            LayerKind::Affine { scale, shift } => {
                self.elementwise("Mul", name, scale, output);
                self.elementwise("Add", name, shift, output);
            }
            LayerKind::Quadratic { square, linear, constant } => {
                // (square x + linear) x + constant
                let x = self.value.clone();
                self.elementwise("Mul", name, square, output);
                self.elementwise("Add", name, linear, output);
                self.next("Mul", name, &[&x], &[]);
                self.elementwise("Add", name, constant, output);
            }
            LayerKind::Reshape { output } => self.reshape(name, &dims(*output)),
            LayerKind::Dense { outputs, weights, bias } => {
                if dims(input).len() > 1 {
                    self.next("Flatten", name, &[], &[one("axis", 1)]);
                }
                let weights = self.constant(name, &[*outputs, input.len()], weights);
                let bias = self.constant(name, &[*outputs], bias);
                self.next("Gemm", name, &[&weights, &bias], &[one("transB", 1)]);
            }
        }
    }

    fn reshape(&mut self, name: &str, dims: &[usize]) {
        let shape = format!("{name}.shape{}", self.constants.len());
        let raw: Vec<u8> =
            std::iter::once(-1).chain(dims.iter().map(|dim| *dim as i64)).flat_map(i64::to_le_bytes).collect();
        let tensor = Writer::default().integer(1, dims.len() as i64 + 1).integer(2, 7);
        self.constants.push(tensor.field(8, shape.as_bytes()).field(9, &raw));
        self.next("Reshape", name, &[&shape], &[]);
    }

    /// Reshapes a value that was written as a vector to its rows and columns.
    fn volume(&mut self, name: &str, volume: Volume) {
        if dims(volume).len() == 1 {
            self.reshape(name, &[volume.channels, volume.height, volume.width]);
        }
    }

    /// Reshapes a result to a vector if it is one.
    fn vector_if(&mut self, name: &str, volume: Volume) {
        if dims(volume).len() == 1 {
            self.reshape(name, &[volume.width]);
        }
    }
}
