//! A model file as its nodes, constants, inputs and outputs.
//!
//! The field numbers are those of `onnx.proto` (ONNX, Apache-2.0): ModelProto 7 graph, 8
//! operator sets; GraphProto 1 node, 5 initializer, 11 input, 12 output, 15 sparse initializer;
//! NodeProto 1 input, 2 output, 3 name, 4 operator, 5 attribute, 7 domain; AttributeProto 1 name, 2
//! f, 3 i, 4 s, 5 t, 7 floats, 8 ints; TensorProto 1 dims, 2 type, 4 floats, 5, 7 and 11 integers,
//! 8 name, 9 raw bytes, 10 doubles, 13 external data, 14 location; of external data 1 key, 2 value;
//! ValueInfoProto 1 name, 2 type; of a type 1 tensor: 1 element, 2 shape; of a shape 1 dimension: 1
//! value.

use super::proto::{NotAMessage, Value, fields, integer};
use super::tensor::{Tensor, count};
use super::{External, MAX_ONNX_BYTES, OnnxError};
use std::collections::HashMap;

/// The most nodes of a file, with those on constants alone.
const MAX_FILE_NODES: usize = 1 << 14;
/// The most numbers of all constants together.
const MAX_CONSTANTS: usize = 1 << 26;
/// The most inputs, outputs, attributes, dimensions or numbers in an attribute of one object.
const MAX_PARTS: usize = 4096;

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
pub(super) struct Model<'a> {
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

/// The numbers that are still allowed, and the files with numbers outside the model.
struct Source<'s> {
    room: usize,
    external: &'s External<'s>,
    files: HashMap<String, Vec<u8>>,
    bytes: u64,
}

impl<'s> Source<'s> {
    fn new(external: &'s External<'s>, bytes: usize) -> Self {
        Self { room: MAX_CONSTANTS, external, files: HashMap::new(), bytes: bytes as u64 }
    }

    fn take(&mut self, count: usize) -> Result<(), OnnxError> {
        let what = "expected at most 2^26 numbers in all constants, found more";
        self.room = self.room.checked_sub(count).ok_or_else(|| malformed(what))?;
        Ok(())
    }

    /// A file beside the model. Each is loaded once.
    fn file(&mut self, location: &str) -> Result<&[u8], OnnxError> {
        if !self.files.contains_key(location) {
            let found = (self.external)(location).map_err(|reason| malformed(format!("{location:.64}: {reason}")))?;
            self.bytes = self.bytes.saturating_add(found.len() as u64);
            if self.bytes > MAX_ONNX_BYTES || self.files.len() >= MAX_PARTS {
                return Err(malformed("expected at most 2^30 bytes in the model and its files, found more"));
            }
            self.files.insert(location.to_owned(), found);
        }
        Ok(self.files.get(location).map_or(&[], Vec::as_slice))
    }
}

impl<'a> Model<'a> {
    pub(super) fn decode(file: &'a [u8], external: &External<'_>) -> Result<Self, OnnxError> {
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
        Self::of(graph, version, &mut Source::new(external, file.len()))
    }

    fn of(file: &'a [u8], version: i64, source: &mut Source<'_>) -> Result<Self, OnnxError> {
        let mut model =
            Self { nodes: Vec::new(), constants: HashMap::new(), inputs: Vec::new(), outputs: Vec::new(), version };
        for field in fields(file) {
            match field? {
                (1, value) => {
                    push(&mut model.nodes, MAX_FILE_NODES, "nodes", Node::decode(bytes(&value)?, source)?)?;
                }
                (5, value) => {
                    let (name, tensor) = Tensor::decode(bytes(&value)?, source)?;
                    if model.constants.len() >= MAX_FILE_NODES || model.constants.insert(name, tensor).is_some() {
                        let what = "expected at most 16384 constants, each of its own name, found others";
                        return Err(malformed(what));
                    }
                }
                (11, value) => push(&mut model.inputs, MAX_FILE_NODES, "inputs", Input::decode(bytes(&value)?)?)?,
                (12, value) => push(&mut model.outputs, MAX_PARTS, "outputs", Input::decode(bytes(&value)?)?.name)?,
                (15, _) => return Err(malformed("expected no sparse constant, found one: store it in full")),
                _ => {}
            }
        }
        // older files also list their constants among the inputs
        let constants = &model.constants;
        model.inputs.retain(|input| !constants.contains_key(input.name));
        Ok(model)
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
    fn decode(file: &'a [u8], source: &mut Source<'_>) -> Result<Self, OnnxError> {
        let (inputs, outputs, attributes) = (Vec::new(), Vec::new(), HashMap::new());
        let mut node = Self { name: "", operator: "", domain: "", inputs, outputs, attributes };
        for field in fields(file) {
            match field? {
                (1, value) => push(&mut node.inputs, MAX_PARTS, "inputs of a node", text(&value)?)?,
                (2, value) => push(&mut node.outputs, MAX_PARTS, "outputs of a node", text(&value)?)?,
                (3, value) => node.name = text(&value)?,
                (4, value) => node.operator = text(&value)?,
                (5, value) => {
                    let (name, attribute) = Attribute::decode(bytes(&value)?, source)?;
                    if node.attributes.len() >= MAX_PARTS || node.attributes.insert(name, attribute).is_some() {
                        return Err(malformed("expected at most 4096 attributes, each of its own name, found others"));
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
    fn decode<'a>(file: &'a [u8], source: &mut Source<'_>) -> Result<(&'a str, Self), OnnxError> {
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
                (5, value) => found = Self::Tensor(Tensor::decode(bytes(&value)?, source)?.1),
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

/// The types of numbers.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Float,
    Half,
    Brain,
    Double,
    /// Integers of so many bytes, with a sign or without.
    Integer(usize, bool),
}

impl Kind {
    fn of(code: i64) -> Option<Self> {
        Some(match code {
            1 => Self::Float,
            2 | 9 => Self::Integer(1, false),
            3 => Self::Integer(1, true),
            4 => Self::Integer(2, false),
            5 => Self::Integer(2, true),
            6 => Self::Integer(4, true),
            7 => Self::Integer(8, true),
            10 => Self::Half,
            11 => Self::Double,
            12 => Self::Integer(4, false),
            13 => Self::Integer(8, false),
            16 => Self::Brain,
            _ => return None,
        })
    }

    /// Bytes of one number.
    fn width(self) -> usize {
        match self {
            Self::Float => 4,
            Self::Half | Self::Brain => 2,
            Self::Double => 8,
            Self::Integer(width, _) => width,
        }
    }

    /// The number of little-endian bytes.
    fn number(self, bytes: &[u8]) -> f64 {
        let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        self.number_of_bits(bits)
    }

    fn number_of_bits(self, bits: u64) -> f64 {
        match self {
            Self::Float => f32::from_bits(bits as u32).into(),
            Self::Double => f64::from_bits(bits),
            Self::Brain => f32::from_bits((bits as u32 & 0xffff) << 16).into(),
            Self::Half => half(bits as u16),
            Self::Integer(width, signed) => {
                let unused = 64 - 8 * width as u32;
                if signed { ((bits << unused) as i64 >> unused) as f64 } else { (bits << unused >> unused) as f64 }
            }
        }
    }
}

/// A number of half precision: a sign, five bits of the exponent, ten of the fraction.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// A file beside the model, and the bytes in it.
#[derive(Default)]
struct Place<'a> {
    location: &'a str,
    offset: usize,
    length: Option<usize>,
}

/// A constant's parts before its numbers are decoded.
#[derive(Default)]
struct Head<'a> {
    name: &'a str,
    dims: Vec<usize>,
    kind: i64,
    raw: Option<&'a [u8]>,
    elsewhere: bool,
    place: Place<'a>,
    /// An upper bound of the count of numbers in fields of their own.
    fields: usize,
}

impl<'a> Head<'a> {
    fn decode(file: &'a [u8]) -> Result<Self, OnnxError> {
        let mut head = Self::default();
        for field in fields(file) {
            match field? {
                (1, value) => each_integer(&value, |dim| {
                    let dim = usize::try_from(dim).map_err(|_| malformed("expected a size, found a negative one"))?;
                    push(&mut head.dims, MAX_PARTS, "dimensions", dim)
                })?,
                (2, value) => head.kind = whole(&value)?,
                (4, Value::Bytes(packed)) => head.fields += packed.len() / 4,
                (5 | 7 | 11, Value::Bytes(packed)) => {
                    head.fields += packed.iter().filter(|byte| **byte < 0x80).count();
                }
                (10, Value::Bytes(packed)) => head.fields += packed.len() / 8,
                (4 | 5 | 7 | 10 | 11, _) => head.fields += 1,
                (8, value) => head.name = text(&value)?,
                (9, value) => head.raw = Some(bytes(&value)?),
                (13, value) => head.place.entry(bytes(&value)?)?,
                (14, value) => head.elsewhere = whole(&value)? != 0,
                _ => {}
            }
        }
        Ok(head)
    }
}

impl<'a> Place<'a> {
    fn entry(&mut self, file: &'a [u8]) -> Result<(), OnnxError> {
        let (mut key, mut content) = ("", "");
        for field in fields(file) {
            match field? {
                (1, value) => key = text(&value)?,
                (2, value) => content = text(&value)?,
                _ => {}
            }
        }
        let size = || {
            let wrong = |_| malformed(format!("expected a number of bytes, found {content:.32}"));
            content.trim().parse::<usize>().map_err(wrong)
        };
        match key {
            "location" => self.location = content,
            "offset" => self.offset = size()?,
            "length" => self.length = Some(size()?),
            _ => {}
        }
        Ok(())
    }
}

impl Tensor {
    /// A tensor's name and numbers.
    fn decode<'a>(file: &'a [u8], source: &mut Source<'_>) -> Result<(&'a str, Self), OnnxError> {
        let head = Head::decode(file)?;
        let (name, dims) = (head.name, head.dims.clone());
        let wrong = |what: String| malformed(format!("constant {name:.64}: {what}"));
        let what = "expected floats of 16 to 64 bits, integers or truth values, found type";
        let kind = Kind::of(head.kind).ok_or_else(|| wrong(format!("{what} {}", head.kind)))?;
        let expected = count(&dims, source.room.min(MAX_CONSTANTS))
            .ok_or_else(|| wrong("expected at most 2^26 numbers in all constants, found more".to_owned()))?;
        let mut numbers = Vec::new();
        let read = |numbers: &mut Vec<f64>, raw: &[u8]| {
            if raw.len() != expected.saturating_mul(kind.width()) {
                return Err(wrong(format!(
                    "expected {expected} numbers of {} bytes for its shape {dims:?}, found {} bytes",
                    kind.width(),
                    raw.len()
                )));
            }
            numbers.reserve_exact(expected);
            numbers.extend(raw.chunks_exact(kind.width()).map(|bytes| kind.number(bytes)));
            Ok(())
        };
        if head.elsewhere {
            let Place { location, offset, length } = head.place;
            let length = length.unwrap_or(expected.saturating_mul(kind.width()));
            let file = source.file(location)?;
            let part = offset.checked_add(length).and_then(|end| file.get(offset..end));
            let part = part.ok_or_else(|| wrong(format!("expected its bytes in {location:.64}, found its end")))?;
            read(&mut numbers, part)?;
        } else if let Some(raw) = head.raw {
            read(&mut numbers, raw)?;
        } else {
            // a growing vector would hold its numbers twice or more
            numbers.reserve_exact(head.fields.min(expected));
            let mut keep = |x: f64| push(&mut numbers, expected, "numbers, as the shape says", x);
            for field in fields(file) {
                match field? {
                    (4, value) => each_float(&value, |x| keep(x.into()))?,
                    (5 | 7 | 11, value) => each_integer(&value, |x| keep(kind.number_of_bits(x as u64)))?,
                    (10, value) => each_double(&value, &mut keep)?,
                    _ => {}
                }
            }
        }
        if numbers.len() != expected {
            let found = numbers.len();
            return Err(wrong(format!("expected as many numbers as {dims:?} says, found {found}")));
        }
        source.take(expected)?;
        Ok((name, Self { dims, numbers, whole: matches!(kind, Kind::Integer(..)) }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::Writer;
    use super::*;

    fn none(_: &str) -> Result<Vec<u8>, String> {
        Err("no such file".to_owned())
    }

    fn decoded(file: &[u8]) -> Result<Tensor, OnnxError> {
        Tensor::decode(file, &mut Source::new(&none, 0)).map(|(_, tensor)| tensor)
    }

    #[test]
    fn fault_32_a_constant_takes_eight_bytes_a_number_and_no_more() {
        let of_type = |kind| Writer::default().integer(1, 1000).integer(2, kind);
        let files = [
            of_type(7).field(7, &[5; 1000]),
            of_type(6).field(5, &[[0x85u8, 1]; 500].concat()).field(5, &[5; 500]),
            of_type(1).field(4, &[0; 4000]),
            of_type(11).field(10, &[0; 8000]),
            of_type(11).field(9, &[0; 8000]),
            of_type(1).field(9, &[0; 4000]),
            of_type(10).field(9, &[0; 2000]),
            of_type(2).field(9, &[0; 1000]),
            (0..1000).fold(of_type(7), |file, _| file.integer(7, -5)),
        ];
        for file in files {
            let mut source = Source::new(&none, 0);
            let (_, tensor) = Tensor::decode(&file.bytes, &mut source).unwrap();
            assert_eq!((tensor.numbers.len(), MAX_CONSTANTS - source.room), (1000, 1000));
            assert_eq!(tensor.numbers.capacity(), 1000);
            // no memory is allocated for numbers without room
            source.room = 999;
            assert!(Tensor::decode(&file.bytes, &mut source).is_err());
        }
        // a shape without numbers
        let empty = Writer::default().integer(1, 1 << 25).integer(2, 1);
        assert!(decoded(&empty.bytes).is_err());
    }

    #[test]
    fn numbers_of_all_types_have_their_values() {
        let one = |kind, raw: &[u8]| {
            let count = raw.len() / Kind::of(kind).unwrap().width();
            decoded(&Writer::default().integer(1, count as i64).integer(2, kind).field(9, raw).bytes).unwrap().numbers
        };
        assert_eq!(one(1, &1.5f32.to_le_bytes()), [1.5]);
        assert_eq!(one(2, &[200]), [200.0]);
        assert_eq!(one(3, &[200]), [-56.0]);
        assert_eq!(one(4, &[0, 0xff]), [65280.0]);
        assert_eq!(one(5, &[0, 0xff]), [-256.0]);
        assert_eq!(one(6, &(-7i32).to_le_bytes()), [-7.0]);
        assert_eq!(one(7, &i64::MIN.to_le_bytes()), [i64::MIN as f64]);
        assert_eq!(one(9, &[1, 0]), [1.0, 0.0]);
        assert_eq!(one(10, &[0x00, 0x3c, 0x00, 0xc1, 0x01, 0x00, 0xff, 0x7b]), [1.0, -2.5, 2f64.powi(-24), 65504.0]);
        assert_eq!(one(11, &0.1f64.to_le_bytes()), [0.1]);
        assert_eq!(one(12, &[0xff; 4]), [f64::from(u32::MAX)]);
        assert_eq!(one(13, &[0xff; 8]), [u64::MAX as f64]);
        assert_eq!(one(16, &[0x80, 0xbf]), [-1.0]);
        // halves stand in the field of 32-bit integers as their bits
        let halves = Writer::default().integer(1, 2).integer(2, 10).integer(5, 0x3c00).integer(5, 0xbc00);
        assert_eq!(decoded(&halves.bytes).unwrap().numbers, [1.0, -1.0]);
        for unknown in [0, 8, 14, 15, 17, 22] {
            assert!(decoded(&Writer::default().integer(1, 1).integer(2, unknown).field(9, &[0]).bytes).is_err());
        }
    }

    #[test]
    fn numbers_of_other_files_are_read_within_their_bounds() {
        let entry = |key: &str, value: &str| Writer::default().field(1, key.as_bytes()).field(2, value.as_bytes());
        let file = |offset: &str, length: &str| {
            Writer::default()
                .integer(1, 2)
                .integer(2, 1)
                .message(13, &entry("location", "weights"))
                .message(13, &entry("offset", offset))
                .message(13, &entry("length", length))
                .integer(14, 1)
                .bytes
        };
        let load = |name: &str| {
            assert_eq!(name, "weights");
            Ok([1.0f32, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect())
        };
        let read = |file: &[u8]| Tensor::decode(file, &mut Source::new(&load, 0)).map(|(_, tensor)| tensor.numbers);
        assert_eq!(read(&file("4", "8")).unwrap(), [2.0, 3.0]);
        for (offset, length) in [("8", "8"), ("18446744073709551615", "8"), ("4", "4"), ("-1", "8"), ("x", "8")] {
            assert!(read(&file(offset, length)).is_err(), "{offset} {length}");
        }
    }
}
