//! A model file as its graph: nodes, constants, one input, one output.
//!
//! The field numbers are those of `onnx.proto` (ONNX, Apache-2.0): ModelProto 7 graph, 8
//! operator sets; GraphProto 1 node, 5 initializer, 11 input, 12 output, 15 sparse initializer;
//! NodeProto 1 input, 2 output, 3 name, 4 operator, 5 attribute, 7 domain; AttributeProto 1 name, 2
//! f, 3 i, 4 s, 5 t, 7 floats, 8 ints; TensorProto 1 dims, 2 type, 4 floats, 5 and 7 integers, 8
//! name, 9 raw bytes, 10 doubles, 14 location; ValueInfoProto 1 name, 2 type; of a type 1 tensor: 1
//! element, 2 shape; of a shape 1 dimension: 1 value.

use super::OnnxError;
use super::proto::{NotAMessage, Value, fields, integer};
use std::collections::HashMap;

/// The most nodes and constants of a graph.
pub(super) const MAX_NODES: usize = 4096;
/// The most numbers of all constants together.
const MAX_CONSTANTS: usize = 1 << 25;
/// The most inputs, outputs, attributes or dimensions of one object.
const MAX_PARTS: usize = 64;

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) dims: Vec<usize>,
    pub(super) numbers: Vec<f64>,
    /// Whether the numbers are integers, as in shapes.
    pub(super) whole: bool,
}

/// The value of an attribute, of the supported kinds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Float(f32),
    Integer(i64),
    Text(String),
    Tensor(Tensor),
    Floats(Vec<f32>),
    Integers(Vec<i64>),
    Other,
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) operator: &'a str,
    pub(super) domain: &'a str,
    pub(super) inputs: Vec<&'a str>,
    pub(super) outputs: Vec<&'a str>,
    pub(super) attributes: HashMap<&'a str, Attribute>,
}

/// The graph's input: its name, and its dimensions that are numbers.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub(super) name: &'a str,
    pub(super) dims: Vec<Option<usize>>,
}

#[derive(Debug)]
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) constants: HashMap<&'a str, Tensor>,
    pub(super) inputs: Vec<Input<'a>>,
    pub(super) outputs: Vec<&'a str>,
    /// The version of the standard operators.
    pub(super) version: i64,
}

impl From<NotAMessage> for OnnxError {
    fn from(_: NotAMessage) -> Self {
        malformed("expected fields of protocol buffers, found other bytes")
    }
}

pub(super) fn malformed(what: impl Into<String>) -> OnnxError {
    OnnxError::Malformed(what.into())
}

fn text<'a>(value: &Value<'a>) -> Result<&'a str, OnnxError> {
    let Value::Bytes(bytes) = value else { return Err(malformed("expected a text, found a number")) };
    std::str::from_utf8(bytes).map_err(|_| malformed("expected texts in UTF-8, found others"))
}

fn bytes<'a>(value: &Value<'a>) -> Result<&'a [u8], OnnxError> {
    let Value::Bytes(bytes) = value else { return Err(malformed("expected a message, found a number")) };
    Ok(bytes)
}

fn whole(value: &Value<'_>) -> Result<i64, OnnxError> {
    let Value::Integer(integer) = value else { return Err(malformed("expected an integer, found something else")) };
    Ok(*integer as i64)
}

/// Appends an element if the limit allows it.
fn push<T>(all: &mut Vec<T>, limit: usize, what: &str, one: T) -> Result<(), OnnxError> {
    if all.len() >= limit {
        return Err(malformed(format!("expected at most {limit} {what}, found more")));
    }
    all.push(one);
    Ok(())
}

impl<'a> Graph<'a> {
    pub(super) fn decode(file: &'a [u8]) -> Result<Self, OnnxError> {
        let (mut graph, mut version) = (None, None);
        for field in fields(file) {
            match field? {
                (7, value) if graph.is_none() => graph = Some(bytes(&value)?),
                (7, _) => return Err(malformed("expected one graph, found two")),
                (8, value) => {
                    let (mut domain, mut number) = ("", 0);
                    for field in fields(bytes(&value)?) {
                        match field? {
                            (1, value) => domain = text(&value)?,
                            (2, value) => number = whole(&value)?,
                            _ => {}
                        }
                    }
                    if domain.is_empty() || domain == "ai.onnx" {
                        version = Some(number);
                    }
                }
                _ => {}
            }
        }
        let graph = graph.ok_or_else(|| malformed("expected a graph, found none"))?;
        let version = version.ok_or_else(|| malformed("expected a version of the operators, found none"))?;
        Self::of(graph, version)
    }

    fn of(file: &'a [u8], version: i64) -> Result<Self, OnnxError> {
        let mut graph =
            Self { nodes: Vec::new(), constants: HashMap::new(), inputs: Vec::new(), outputs: Vec::new(), version };
        let mut room = MAX_CONSTANTS;
        for field in fields(file) {
            match field? {
                (1, value) => push(&mut graph.nodes, MAX_NODES, "nodes", Node::decode(bytes(&value)?, &mut room)?)?,
                (5, value) => {
                    let (name, tensor) = Tensor::decode(bytes(&value)?, &mut room)?;
                    if graph.constants.len() >= MAX_NODES || graph.constants.insert(name, tensor).is_some() {
                        let what = "expected at most 4096 constants, each of its own name, found others";
                        return Err(malformed(what));
                    }
                }
                (11, value) => push(&mut graph.inputs, MAX_NODES, "inputs", Input::decode(bytes(&value)?)?)?,
                (12, value) => push(&mut graph.outputs, MAX_PARTS, "outputs", Input::decode(bytes(&value)?)?.name)?,
                (15, _) => return Err(malformed("expected no sparse constant, found one")),
                _ => {}
            }
        }
        // older files also list their constants among the inputs
        let constants = &graph.constants;
        graph.inputs.retain(|input| !constants.contains_key(input.name));
        Ok(graph)
    }
}

impl<'a> Input<'a> {
    fn decode(file: &'a [u8]) -> Result<Self, OnnxError> {
        let mut input = Self { name: "", dims: Vec::new() };
        for field in fields(file) {
            match field? {
                (1, value) => input.name = text(&value)?,
                (2, value) => input.dims = dims(bytes(&value)?)?,
                _ => {}
            }
        }
        Ok(input)
    }
}

/// The dimensions of a tensor's type.
fn dims(file: &[u8]) -> Result<Vec<Option<usize>>, OnnxError> {
    let mut all = Vec::new();
    for tensor in fields(file) {
        let (1, tensor) = tensor? else { continue };
        for shape in fields(bytes(&tensor)?) {
            let (2, shape) = shape? else { continue };
            for dimension in fields(bytes(&shape)?) {
                let (1, dimension) = dimension? else { continue };
                let mut size = None;
                for field in fields(bytes(&dimension)?) {
                    if let (1, value) = field? {
                        size = usize::try_from(whole(&value)?).ok().filter(|size| *size > 0);
                    }
                }
                push(&mut all, MAX_PARTS, "dimensions", size)?;
            }
        }
    }
    Ok(all)
}

impl<'a> Node<'a> {
    fn decode(file: &'a [u8], room: &mut usize) -> Result<Self, OnnxError> {
        let (inputs, outputs, attributes) = (Vec::new(), Vec::new(), HashMap::new());
        let mut node = Self { name: "", operator: "", domain: "", inputs, outputs, attributes };
        for field in fields(file) {
            match field? {
                (1, value) => push(&mut node.inputs, MAX_PARTS, "inputs of a node", text(&value)?)?,
                (2, value) => push(&mut node.outputs, MAX_PARTS, "outputs of a node", text(&value)?)?,
                (3, value) => node.name = text(&value)?,
                (4, value) => node.operator = text(&value)?,
                (5, value) => {
                    let (name, attribute) = Attribute::decode(bytes(&value)?, room)?;
                    if node.attributes.len() >= MAX_PARTS || node.attributes.insert(name, attribute).is_some() {
                        return Err(malformed("expected at most 64 attributes, each of its own name, found others"));
                    }
                }
                (7, value) => node.domain = text(&value)?,
                _ => {}
            }
        }
        Ok(node)
    }
}

impl Attribute {
    fn decode<'a>(file: &'a [u8], room: &mut usize) -> Result<(&'a str, Self), OnnxError> {
        let (mut name, mut found) = ("", Self::Other);
        for field in fields(file) {
            match field? {
                (1, value) => name = text(&value)?,
                (2, Value::Fixed32(bits)) => found = Self::Float(f32::from_bits(bits)),
                (3, value) => found = Self::Integer(whole(&value)?),
                (4, value) => {
                    let short = bytes(&value)?.get(..).filter(|bytes| bytes.len() <= 64);
                    found = short.map_or(Self::Other, |short| Self::Text(String::from_utf8_lossy(short).into_owned()));
                }
                (5, value) => found = Self::Tensor(Tensor::decode(bytes(&value)?, room)?.1),
                (7, value) => {
                    let mut all = if let Self::Floats(all) = found { all } else { Vec::new() };
                    each_float(&value, |x| push(&mut all, MAX_PARTS, "numbers of an attribute", x))?;
                    found = Self::Floats(all);
                }
                (8, value) => {
                    let mut all = if let Self::Integers(all) = found { all } else { Vec::new() };
                    each_integer(&value, |x| push(&mut all, MAX_PARTS, "numbers of an attribute", x))?;
                    found = Self::Integers(all);
                }
                _ => {}
            }
        }
        Ok((name, found))
    }
}

/// Integers, one for each field or packed.
fn each_integer(value: &Value<'_>, mut f: impl FnMut(i64) -> Result<(), OnnxError>) -> Result<(), OnnxError> {
    let &Value::Bytes(mut packed) = value else { return f(whole(value)?) };
    while !packed.is_empty() {
        f(integer(&mut packed).ok_or(NotAMessage)? as i64)?;
    }
    Ok(())
}

fn each_float(value: &Value<'_>, mut f: impl FnMut(f32) -> Result<(), OnnxError>) -> Result<(), OnnxError> {
    match value {
        Value::Fixed32(bits) => f(f32::from_bits(*bits)),
        Value::Bytes(packed) if packed.len().is_multiple_of(4) => {
            packed.as_chunks().0.iter().try_for_each(|bytes| f(f32::from_le_bytes(*bytes)))
        }
        _ => Err(NotAMessage.into()),
    }
}

fn each_double(value: &Value<'_>, mut f: impl FnMut(f64) -> Result<(), OnnxError>) -> Result<(), OnnxError> {
    match value {
        Value::Fixed64(bits) => f(f64::from_bits(*bits)),
        Value::Bytes(packed) if packed.len().is_multiple_of(8) => {
            packed.as_chunks().0.iter().try_for_each(|bytes| f(f64::from_le_bytes(*bytes)))
        }
        _ => Err(NotAMessage.into()),
    }
}

/// An upper bound of the count of numbers in a tensor's field.
fn numbers_of((field, value): (u64, Value<'_>)) -> usize {
    match (field, value) {
        (5 | 7, Value::Bytes(packed)) => packed.iter().filter(|byte| **byte < 0x80).count(),
        // the type of raw bytes may still be unknown: a number has at least four bytes
        (4 | 9, Value::Bytes(packed)) => packed.len() / 4,
        (10, Value::Bytes(packed)) => packed.len() / 8,
        (4 | 5 | 7 | 10, _) => 1,
        _ => 0,
    }
}

impl Tensor {
    /// A tensor's name and numbers; `room` is the count of numbers that are still allowed.
    fn decode<'a>(file: &'a [u8], room: &mut usize) -> Result<(&'a str, Self), OnnxError> {
        let (mut name, mut kind, mut raw): (_, _, Option<&[u8]>) = ("", 0, None);
        // a growing vector would hold its numbers twice or more
        let count = fields(file).map_while(Result::ok).map(numbers_of).sum::<usize>().min(*room);
        let (mut dims, mut numbers) = (Vec::new(), Vec::with_capacity(count));
        let mut keep = |x: f64| {
            *room = room.checked_sub(1).ok_or_else(|| malformed("expected at most 2^25 constants, found more"))?;
            numbers.push(x);
            Ok(())
        };
        for field in fields(file) {
            match field? {
                (1, value) => each_integer(&value, |dim| {
                    let dim = usize::try_from(dim).map_err(|_| malformed("expected a size, found a negative one"))?;
                    push(&mut dims, MAX_PARTS, "dimensions", dim)
                })?,
                (2, value) => kind = whole(&value)?,
                (4, value) => each_float(&value, |x| keep(x.into()))?,
                (5 | 7, value) => each_integer(&value, |x| keep(x as f64))?,
                (8, value) => name = text(&value)?,
                (9, value) => raw = Some(bytes(&value)?),
                (10, value) => each_double(&value, &mut keep)?,
                (14, value) if whole(&value)? != 0 => {
                    return Err(malformed(format!(
                        "constant {name:.64}: expected its numbers here, found another file"
                    )));
                }
                _ => {}
            }
        }
        if let Some(raw) = raw {
            let width = match kind {
                1 | 6 => 4,
                7 | 11 => 8,
                _ => 1,
            };
            if !raw.len().is_multiple_of(width) {
                return Err(malformed(format!("constant {name:.64}: expected whole numbers of {width} bytes")));
            }
            for one in raw.chunks_exact(width) {
                match kind {
                    1 => each_float(&Value::Bytes(one), |x| keep(x.into()))?,
                    6 => keep(f64::from(i32::from_le_bytes([one[0], one[1], one[2], one[3]])))?,
                    7 => one.as_chunks().0.iter().try_for_each(|x| keep(i64::from_le_bytes(*x) as f64))?,
                    11 => each_double(&Value::Bytes(one), &mut keep)?,
                    _ => break,
                }
            }
        }
        if !matches!(kind, 1 | 6 | 7 | 11) {
            let what = "expected float, double, int32 or int64 numbers, found type";
            return Err(malformed(format!("constant {name:.64}: {what} {kind}")));
        }
        let count = dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
        if count != Some(numbers.len()) {
            let found = numbers.len();
            return Err(malformed(format!(
                "constant {name:.64}: expected as many numbers as {dims:?} says, found {found}"
            )));
        }
        Ok((name, Self { dims, numbers, whole: matches!(kind, 6 | 7) }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::Writer;
    use super::*;

    #[test]
    fn fault_32_a_constant_takes_eight_bytes_a_number_and_no_more() {
        let of_type = |kind| Writer::default().integer(1, 1000).integer(2, kind);
        let files = [
            of_type(7).field(7, &[5; 1000]),
            of_type(6).field(5, &[[0x85u8, 1]; 500].concat()).field(5, &[5; 500]),
            of_type(1).field(4, &[0; 4000]),
            of_type(11).field(10, &[0; 8000]),
            of_type(1).field(9, &[0; 4000]),
            (0..1000).fold(of_type(7), |file, _| file.integer(7, -5)),
        ];
        for file in files {
            let mut room = MAX_CONSTANTS;
            let (_, tensor) = Tensor::decode(&file.bytes, &mut room).unwrap();
            assert_eq!((tensor.numbers.len(), MAX_CONSTANTS - room), (1000, 1000));
            assert_eq!(tensor.numbers.capacity(), 1000);
            // no memory is allocated for numbers without room
            assert!(Tensor::decode(&file.bytes, &mut 999).is_err());
        }
        // doubles in raw bytes: the bound by size is twice their count
        let mut room = MAX_CONSTANTS;
        let file = of_type(11).field(9, &[0; 8000]);
        let (_, tensor) = Tensor::decode(&file.bytes, &mut room).unwrap();
        assert_eq!((tensor.numbers.len(), tensor.numbers.capacity()), (1000, 2000));
    }
}
