//! The file of a compiled network, `.tim` of version 3.
//!
//! | field | bytes |
//! |---|---|
//! | `TIM`, version 3 | 4 |
//! | channels, rows, columns of the picture | 4 each |
//! | scales, then offsets of the channels | numbers |
//! | headroom; right bits of activations; 1 if activations are of degree two, or 0 | 8; 1; 1 |
//! | margin, foretold error, part of approximations, deviation of the noise | 8 each |
//! | bits of the scale; length and text of the sizes of parameters | 1; 2; so many |
//! | 0 for levels alone, 1 for quick refreshes, 2 for precise ones, 3 for an enclave | 1 |
//! | ranges and fitted coefficients | numbers |
//! | nodes | 2 |
//! | of each node: length of its name, the name; inputs, the value of each | 1, so many; 1, 2 each |
//! | … the kind of its computation, and what that has | 1; see `put_op` |
//! | SHA-256 of all the bytes before | 32 |
//!
//! Integers are big-endian. *Numbers* are a count (4 bytes), the size of each (4 or 8 bytes: the
//! least that holds all of them exactly), and the numbers. The checksum finds damage and identifies
//! a network; it does not authenticate the author. A network has one byte string, and takes at most
//! ten times its bytes in memory.

use crate::graph::{Activation, Graph, Op};
use crate::lower::LowerOptions;
use crate::model::{DeepModel, Forecast};
use crate::settings::{Engine, Refreshing, Settings};
use sha2::{Digest, Sha256};
use tobari_infer::{Normalisation, Volume};
use tobari_octets::{LengthError, Reader};

/// The most bytes of a file.
pub const MAX_FILE_BYTES: usize = 1 << 29;
/// The first bytes of a file.
pub const MAGIC: [u8; 4] = *b"TIM\x03";
const CHECKSUM: usize = 32;
const MAX_NAME: usize = 255;

/// Errors of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Too few bytes, or too many.
    #[error("malformed network: {0}")]
    Length(#[from] LengthError),
    /// Another kind of file.
    #[error("expected a compiled network of version 3, found another file")]
    Magic,
    /// A field with an invalid value.
    #[error("malformed network: expected {0}, found something else")]
    Malformed(&'static str),
    /// The file was changed or damaged.
    #[error("damaged network: the checksum at the end does not match the content")]
    Checksum,
    /// Nodes that do not form a graph.
    #[error(transparent)]
    Graph(#[from] crate::graph::GraphError),
}

impl DeepModel {
    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_volume(&mut out, self.graph.input());
        put_numbers(&mut out, &self.graph.normalisation().scale);
        put_numbers(&mut out, &self.graph.normalisation().offset);
        out.extend_from_slice(&self.options.headroom.to_be_bytes());
        out.extend_from_slice(&[self.options.bits as u8, u8::from(self.options.quadratic)]);
        let Forecast { margin, error, approximation, noise } = self.forecast;
        [margin, error, approximation, noise].iter().for_each(|x| out.extend_from_slice(&x.to_be_bytes()));
        out.push(self.settings.scale as u8);
        let sizes = self.settings.sizes.to_string();
        out.extend_from_slice(&(sizes.len() as u16).to_be_bytes());
        out.extend_from_slice(sizes.as_bytes());
        out.push(match self.settings.engine {
            Engine::Levels => 0,
            Engine::Refresh(Refreshing::Quick) => 1,
            Engine::Refresh(Refreshing::Precise) => 2,
            Engine::Enclave => 3,
        });
        put_numbers(&mut out, &self.facts);
        out.extend_from_slice(&(self.graph.nodes().len() as u16).to_be_bytes());
        for node in self.graph.nodes() {
            let name = short(node.name());
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            out.push(node.inputs().len() as u8);
            node.inputs().iter().for_each(|value| out.extend_from_slice(&(*value as u16).to_be_bytes()));
            put_op(&mut out, node.op());
        }
        let checksum = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// SHA-256 of the bytes without the checksum, which identifies the network.
    pub fn digest(&self) -> [u8; 32] {
        let bytes = self.encode();
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[bytes.len() - CHECKSUM..]);
        digest
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(FileError::Malformed("at most 2^29 bytes"));
        }
        if bytes.get(..4) != Some(&MAGIC[..]) {
            return Err(FileError::Magic);
        }
        let (before, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(FileError::Checksum)?;
        if Sha256::digest(before)[..] != checksum[..] {
            return Err(FileError::Checksum);
        }
        let mut reader = Reader::new(before);
        reader.take(4)?;
        let input = take_volume(&mut reader)?;
        let (scale, offset) = (take_numbers(&mut reader)?, take_numbers(&mut reader)?);
        let headroom = f64::from_be_bytes(reader.array()?);
        let (bits, quadratic) = (u32::from(reader.u8()?), flag(reader.u8()?)?);
        let mut doubles = [0.0; 4];
        for double in &mut doubles {
            *double = f64::from_be_bytes(reader.array()?);
        }
        let [margin, error, approximation, noise] = doubles;
        let scale_bits = u32::from(reader.u8()?);
        let length = usize::from(reader.u16()?);
        let text = std::str::from_utf8(reader.take(length)?).map_err(|_| FileError::Malformed("sizes as text"))?;
        let sizes = text.parse().map_err(|_| FileError::Malformed("sizes of parameters"))?;
        let engine = match reader.u8()? {
            0 => Engine::Levels,
            1 => Engine::Refresh(Refreshing::Quick),
            2 => Engine::Refresh(Refreshing::Precise),
            3 => Engine::Enclave,
            _ => return Err(FileError::Malformed("levels, refreshes or an enclave")),
        };
        let facts = take_numbers(&mut reader)?;
        let fine =
            headroom >= 1.0 && headroom.is_finite() && (1..=40).contains(&bits) && (1..=50).contains(&scale_bits);
        let told = margin > 0.0 && error >= 0.0 && approximation >= 0.0 && noise >= 0.0;
        if !(fine && told) {
            return Err(FileError::Malformed("choices in their ranges"));
        }
        let mut graph = Graph::new(input, Normalisation { scale, offset })?;
        for _ in 0..reader.u16()? {
            let length = usize::from(reader.u8()?);
            let name = std::str::from_utf8(reader.take(length)?).map_err(|_| FileError::Malformed("names as text"))?;
            if name.chars().any(char::is_control) {
                return Err(FileError::Malformed("names without control characters"));
            }
            let inputs = (0..reader.u8()?).map(|_| Ok(usize::from(reader.u16()?)));
            let inputs = inputs.collect::<Result<Vec<_>, LengthError>>()?;
            let op = take_op(&mut reader)?;
            graph.add(name, op, &inputs)?;
        }
        if !reader.rest().is_empty() {
            return Err(LengthError::TooLong { extra: reader.rest().len() }.into());
        }
        let refreshing = engine.refreshing();
        let (strict, enclaved) = (refreshing.is_some(), engine == Engine::Enclave);
        let options = LowerOptions { headroom, bits, quadratic, strict, enclaved };
        let settings = Settings { sizes, scale: scale_bits, engine };
        if refreshing.is_some_and(|kind| Settings::refreshed(kind).as_ref() != Some(&settings)) {
            return Err(FileError::Malformed("the parameters of its refreshes"));
        }
        if enclaved && settings.sizes.data.len() != 2 {
            return Err(FileError::Malformed("two data primes for maps alone"));
        }
        let forecast = Forecast { margin, error, approximation, noise };
        let model = Self { graph, options, facts, settings, forecast };
        // one byte string for each network
        if model.encode() == bytes { Ok(model) } else { Err(FileError::Malformed("the shortest form of numbers")) }
    }
}

/// Fuzzing: any bytes are a network that is written as it was read, or give an error.
#[doc(hidden)]
pub fn fuzz_file(data: &[u8]) {
    let _ = DeepModel::decode(data);
    // a right checksum takes the reader further
    let mut whole = MAGIC.to_vec();
    whole.extend_from_slice(data);
    let checksum = Sha256::digest(&whole);
    whole.extend_from_slice(&checksum);
    if let Ok(model) = DeepModel::decode(&whole) {
        assert_eq!(model.encode(), whole);
    }
}

/// A name without control characters, cut to 255 bytes.
fn short(name: &str) -> String {
    let mut short = String::new();
    for c in name.chars().filter(|c| !c.is_control()) {
        if short.len() + c.len_utf8() > MAX_NAME {
            break;
        }
        short.push(c);
    }
    short
}

fn flag(byte: u8) -> Result<bool, FileError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(FileError::Malformed("0 or 1")),
    }
}

fn put_volume(out: &mut Vec<u8>, volume: Volume) {
    [volume.channels, volume.height, volume.width].iter().for_each(|size| put_size(out, *size));
}

fn put_size(out: &mut Vec<u8>, size: usize) {
    out.extend_from_slice(&(size as u32).to_be_bytes());
}

fn put_sizes(out: &mut Vec<u8>, sizes: &[usize]) {
    sizes.iter().for_each(|size| put_size(out, *size));
}

fn take_volume(reader: &mut Reader<'_>) -> Result<Volume, LengthError> {
    let [channels, height, width] = take_sizes(reader)?;
    Ok(Volume { channels, height, width })
}

fn take_sizes<const N: usize>(reader: &mut Reader<'_>) -> Result<[usize; N], LengthError> {
    let mut sizes = [0; N];
    for size in &mut sizes {
        *size = reader.u32()? as usize;
    }
    Ok(sizes)
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[f64]) {
    let small = numbers.iter().all(|x| f64::from(*x as f32).to_bits() == x.to_bits());
    put_size(out, numbers.len());
    out.push(if small { 4 } else { 8 });
    for x in numbers {
        match small {
            true => out.extend_from_slice(&(*x as f32).to_be_bytes()),
            false => out.extend_from_slice(&x.to_be_bytes()),
        }
    }
}

fn take_numbers(reader: &mut Reader<'_>) -> Result<Vec<f64>, FileError> {
    let (count, size) = (reader.u32()? as usize, usize::from(reader.u8()?));
    let bytes = count.checked_mul(size).ok_or(FileError::Malformed("numbers of 4 or 8 bytes"))?;
    let bytes = reader.take(bytes)?;
    match size {
        4 => Ok(bytes.as_chunks().0.iter().map(|x| f64::from(f32::from_be_bytes(*x))).collect()),
        8 => Ok(bytes.as_chunks().0.iter().map(|x| f64::from_be_bytes(*x)).collect()),
        _ => Err(FileError::Malformed("numbers of 4 or 8 bytes")),
    }
}

/// A node's computation: its kind, then its sizes, 4 bytes each, then its numbers.
fn put_op(out: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Convolution { channels, kernel, stride, dilation, padding, groups, weights, bias } => {
            out.push(1);
            put_sizes(out, &[*channels, *groups]);
            [kernel, stride, dilation].iter().for_each(|sizes| put_sizes(out, &sizes[..]));
            put_sizes(out, padding);
            put_numbers(out, weights);
            put_numbers(out, bias);
        }
        Op::Dense { outputs, weights, bias } => {
            out.push(2);
            put_size(out, *outputs);
            put_numbers(out, weights);
            put_numbers(out, bias);
        }
        Op::Affine { scale, shift } => {
            out.push(3);
            put_numbers(out, scale);
            put_numbers(out, shift);
        }
        Op::AveragePool { kernel, stride, padding, count_padding } => {
            out.push(4);
            [kernel, stride].iter().for_each(|sizes| put_sizes(out, &sizes[..]));
            put_sizes(out, padding);
            out.push(u8::from(*count_padding));
        }
        Op::MaximumPool { kernel, stride, dilation, padding } => {
            out.push(5);
            [kernel, stride, dilation].iter().for_each(|sizes| put_sizes(out, &sizes[..]));
            put_sizes(out, padding);
        }
        Op::Sum { factors } => {
            out.push(6);
            put_numbers(out, factors);
        }
        Op::Product => out.push(7),
        Op::Concatenate => out.push(8),
        Op::Gather { output, places } => {
            out.push(9);
            put_volume(out, *output);
            put_size(out, places.len());
            places.iter().for_each(|place| out.extend_from_slice(&place.unwrap_or(u32::MAX).to_be_bytes()));
        }
        Op::Reshape { output } => {
            out.push(10);
            put_volume(out, *output);
        }
        Op::Polynomial { coefficients } => {
            out.push(11);
            out.push(coefficients.len() as u8);
            coefficients.iter().for_each(|of_degree| put_numbers(out, of_degree));
        }
        Op::Activation(activation) => {
            out.push(12);
            put_activation(out, *activation);
        }
    }
}

fn put_activation(out: &mut Vec<u8>, activation: Activation) {
    let (kind, numbers): (u8, Vec<f64>) = match activation {
        Activation::Relu => (0, vec![]),
        Activation::LeakyRelu { slope } => (1, vec![slope]),
        Activation::Elu { alpha } => (2, vec![alpha]),
        Activation::Absolute => (3, vec![]),
        Activation::Clip { low, high } => (4, vec![low, high]),
        Activation::Sigmoid => (5, vec![]),
        Activation::Tanh => (6, vec![]),
        Activation::Softplus => (7, vec![]),
        Activation::Silu => (8, vec![]),
        Activation::Gelu => (9, vec![]),
        Activation::HardSigmoid { slope, offset } => (10, vec![slope, offset]),
        Activation::HardSwish => (11, vec![]),
    };
    out.push(kind);
    numbers.iter().for_each(|x| out.extend_from_slice(&x.to_be_bytes()));
}

fn take_activation(reader: &mut Reader<'_>) -> Result<Activation, FileError> {
    let kind = reader.u8()?;
    let mut number = || Ok::<f64, LengthError>(f64::from_be_bytes(reader.array()?));
    Ok(match kind {
        0 => Activation::Relu,
        1 => Activation::LeakyRelu { slope: number()? },
        2 => Activation::Elu { alpha: number()? },
        3 => Activation::Absolute,
        4 => Activation::Clip { low: number()?, high: number()? },
        5 => Activation::Sigmoid,
        6 => Activation::Tanh,
        7 => Activation::Softplus,
        8 => Activation::Silu,
        9 => Activation::Gelu,
        10 => Activation::HardSigmoid { slope: number()?, offset: number()? },
        11 => Activation::HardSwish,
        _ => return Err(FileError::Malformed("an activation")),
    })
}

fn take_op(reader: &mut Reader<'_>) -> Result<Op, FileError> {
    Ok(match reader.u8()? {
        1 => {
            let [channels, groups] = take_sizes(reader)?;
            let (kernel, stride, dilation) = (take_sizes(reader)?, take_sizes(reader)?, take_sizes(reader)?);
            let padding = take_sizes(reader)?;
            let (weights, bias) = (take_numbers(reader)?, take_numbers(reader)?);
            Op::Convolution { channels, kernel, stride, dilation, padding, groups, weights, bias }
        }
        2 => {
            let [outputs] = take_sizes(reader)?;
            Op::Dense { outputs, weights: take_numbers(reader)?, bias: take_numbers(reader)? }
        }
        3 => Op::Affine { scale: take_numbers(reader)?, shift: take_numbers(reader)? },
        4 => {
            let (kernel, stride, padding) = (take_sizes(reader)?, take_sizes(reader)?, take_sizes(reader)?);
            Op::AveragePool { kernel, stride, padding, count_padding: flag(reader.u8()?)? }
        }
        5 => {
            let (kernel, stride, dilation) = (take_sizes(reader)?, take_sizes(reader)?, take_sizes(reader)?);
            Op::MaximumPool { kernel, stride, dilation, padding: take_sizes(reader)? }
        }
        6 => Op::Sum { factors: take_numbers(reader)? },
        7 => Op::Product,
        8 => Op::Concatenate,
        9 => {
            let output = take_volume(reader)?;
            let [count] = take_sizes(reader)?;
            let bytes = reader.take(count.checked_mul(4).ok_or(FileError::Malformed("places"))?)?;
            let place = |bytes: &[u8; 4]| Some(u32::from_be_bytes(*bytes)).filter(|place| *place != u32::MAX);
            Op::Gather { output, places: bytes.as_chunks().0.iter().map(place).collect() }
        }
        10 => Op::Reshape { output: take_volume(reader)? },
        11 => {
            let count = reader.u8()?;
            let coefficients = (0..count).map(|_| take_numbers(reader)).collect::<Result<_, _>>()?;
            Op::Polynomial { coefficients }
        }
        12 => Op::Activation(take_activation(reader)?),
        _ => return Err(FileError::Malformed("the computation of a node")),
    })
}
