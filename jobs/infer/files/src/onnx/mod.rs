//! Reads networks from ONNX files, and writes them.
//!
//! **Supported files.** A chain of layers from one input to one output, of the operators in
//! [`OPERATORS`], with constant weights in float or double: convolutions, batch normalisation,
//! polynomial activations of degree two in any notation (`a*x*x + b*x + c` in any order, `Pow(x,
//! 2)`), means, dense layers. Everything else is rejected, and the error lists all of it at once:
//! unknown nodes, attributes with unsupported values, branches. The first dimension is the batch.
//!
//! **Activations.** Between two layers a value is a polynomial of degree two in the last layer's
//! result, `square x² + linear x + constant`. Sums and products with constants and with each other
//! are again polynomials, possibly of too high a degree. The next layer turns the polynomial into a
//! quadratic (or affine) layer.
//!
//! **Input.** The file does not state the network's numbers for pixels `p` from 0 to 255.
//! [`Pixels`] states them: `(p/255 - mean)/deviation`.
//!
//! **Untrusted files.** No bytes cause a panic, or an allocation beyond a small multiple of the
//! file's size: counts are limited, sizes are compared with the file, and nothing is executed.

mod graph;
mod import;
mod layers;
mod polynomial;
mod proto;
mod write;

pub use import::OPERATORS;
pub use write::encode_onnx;

use std::path::Path;
use tobari_host::files::{FileError, name_of, read_bounded};
use tobari_infer::{Network, NetworkError};

/// The most bytes of a file.
pub const MAX_ONNX_BYTES: u64 = 1 << 28;

/// The network's number for a pixel `p` from 0 to 255: `(p/255 - mean)/deviation`, with one mean
/// and one deviation, or one for each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// The means.
    pub mean: Vec<f64>,
    /// The deviations, not 0.
    pub deviation: Vec<f64>,
}

impl Default for Pixels {
    /// Pixels as numbers from 0 to 1.
    fn default() -> Self {
        Self { mean: vec![0.0], deviation: vec![1.0] }
    }
}

/// Errors of reading a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes are not such a file.
    #[error("not an ONNX model that is read here: {0}")]
    Malformed(String),
    /// The file has unsupported parts.
    #[error("expected a chain of {}; found what is not supported:\n  {}", OPERATORS.join(", "), .0.join("\n  "))]
    Unsupported(Vec<String>),
    /// The layers do not form a network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// An error with the name of its file.
    #[error("{name}: {error}")]
    In {
        /// The file, as the caller named it.
        name: String,
        /// The error.
        error: Box<Self>,
    },
}

/// Reads a network.
///
/// # Errors
/// [`OnnxError`].
pub fn read_onnx(path: &Path, pixels: &Pixels) -> Result<Network, OnnxError> {
    let bytes = read_bounded(path, MAX_ONNX_BYTES)?;
    decode_onnx(&bytes, pixels).map_err(|error| OnnxError::In { name: name_of(path), error: Box::new(error) })
}

/// Decodes a network from a file's bytes.
///
/// # Errors
/// [`OnnxError`].
pub fn decode_onnx(bytes: &[u8], pixels: &Pixels) -> Result<Network, OnnxError> {
    import::import(graph::Graph::decode(bytes)?, pixels)
}

/// Fuzzing: any bytes are a network that can be written again, or give an error.
#[doc(hidden)]
pub fn fuzz_onnx(data: &[u8]) {
    let Ok(network) = decode_onnx(data, &Pixels::default()) else { return };
    // in single precision a weight may become infinite, and the second file has one more layer
    // where coefficients are 1
    if let Ok(again) = decode_onnx(&encode_onnx(&network), &Pixels::default()) {
        assert_eq!((again.input().len(), again.output().len()), (network.input().len(), network.output().len()));
    }
}
