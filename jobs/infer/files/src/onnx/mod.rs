//! Networks from ONNX files, and back.
//!
//! **What is read.** A chain of layers from one input to one output, of the operators in
//! [`OPERATORS`], with constant weights in float or double: convolutions, batch normalisation,
//! polynomial activations of degree two however they are written (`a*x*x + b*x + c` in any order,
//! `Pow(x, 2)`), means, dense layers. Everything else is refused, and the error lists all of it at
//! once: nodes that are not known, attributes with values that are not, branches. The first
//! dimension is the batch.
//!
//! **Activations.** Between two layers a value is a polynomial of degree two of the last layer's
//! result, `square x² + linear x + constant`, so sums and products with constants and with one
//! another are polynomials again, or of too high a degree. A layer after it makes it a quadratic
//! (or affine) layer.
//!
//! **Input.** What numbers the network wants for pixels `p` from 0 to 255 does not stand in the
//! file; [`Pixels`] says it: `(p/255 - mean)/deviation`.
//!
//! **Files of strangers.** No bytes make this panic or take memory beyond a small multiple of the
//! file's size: counts are limited, sizes are compared with what is there, and nothing is executed.

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

/// Bytes of a file at most.
pub const MAX_ONNX_BYTES: u64 = 1 << 28;

/// What a network takes for a pixel `p` from 0 to 255: `(p/255 - mean)/deviation`; one of each, or
/// one a channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// The means.
    pub mean: Vec<f64>,
    /// The deviations, not 0.
    pub deviation: Vec<f64>,
}

impl Default for Pixels {
    /// Numbers from 0 to 1.
    fn default() -> Self {
        Self { mean: vec![0.0], deviation: vec![1.0] }
    }
}

/// Why a file is no network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Bytes that are no such file.
    #[error("not an ONNX model that is read here: {0}")]
    Malformed(String),
    /// What stands in it is not supported.
    #[error("expected a chain of {}; found what is not supported:\n  {}", OPERATORS.join(", "), .0.join("\n  "))]
    Unsupported(Vec<String>),
    /// Its layers do not fit.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The file's name and what is wrong.
    #[error("{name}: {error}")]
    In {
        /// The file, as the caller named it.
        name: String,
        /// What is wrong with it.
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

/// A network of a file's bytes.
///
/// # Errors
/// [`OnnxError`].
pub fn decode_onnx(bytes: &[u8], pixels: &Pixels) -> Result<Network, OnnxError> {
    import::import(graph::Graph::decode(bytes)?, pixels)
}

/// Whatever the bytes are, they are a network that can be written again, or an error.
#[doc(hidden)]
pub fn fuzz_onnx(data: &[u8]) {
    let Ok(network) = decode_onnx(data, &Pixels::default()) else { return };
    // in single precision a weight may be infinite, and a second file is one layer longer where
    // coefficients are 1
    if let Ok(again) = decode_onnx(&encode_onnx(&network), &Pixels::default()) {
        assert_eq!((again.input().len(), again.output().len()), (network.input().len(), network.output().len()));
    }
}
