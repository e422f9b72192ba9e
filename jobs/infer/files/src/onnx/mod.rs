//! Reads networks from ONNX files, and writes them.
//!
//! **Graphs.** [`decode_graph`] reads the operators in [`GRAPH_OPERATORS`]: convolutions, dense
//! layers, pools, activations, sums, products and concatenations of branches, and any arrangement
//! of numbers. It also reads the operators in [`CONSTANT_OPERATORS`], on constants. The first
//! dimension of the input is the batch, and the graph takes one picture of it. Everything else is
//! rejected, and the error lists all of it at once.
//!
//! **Chains.** [`decode_onnx`] reads files whose graph is a chain of layers with polynomials of
//! degree two, of the operators in [`OPERATORS`].
//!
//! **Polynomials.** Between two nodes a value is a polynomial in the result of a node. Sums and
//! products with constants and with each other are again polynomials, so that `a*x*x + b*x + c` in
//! any notation is one node. A polynomial of degree one is an affine node.
//!
//! **Ends.** Labels need neither a softmax nor the place of the largest number. Such nodes at the
//! end of a file are left out, and [`Ending`] names them.
//!
//! **Input.** The file does not state the network's numbers for pixels `p` from 0 to 255.
//! [`Pixels`] states them: `(p/255 - mean)/deviation`.
//!
//! **Untrusted files.** No bytes cause a panic, or an allocation beyond a small multiple of the
//! file's size: counts are limited, sizes are compared with the file, and nothing is executed. Only
//! files in the model's own folder are read besides.

mod call;
mod chain;
mod elementwise;
mod fold;
mod import;
mod linear;
mod model;
mod proto;
mod reduce;
mod shapes;
mod steps;
mod tensor;
mod views;
mod windows;
mod write;

pub use chain::OPERATORS;
pub use import::{CONSTANT_OPERATORS, GRAPH_OPERATORS};
pub use write::encode_onnx;

use std::path::{Component, Path};
use tobari_host::files::{FileError, name_of, read_bounded};
use tobari_infer::{Network, NetworkError};
use tobari_infer_deep::Graph;

/// The most bytes of a file, with the files of its constants.
pub const MAX_ONNX_BYTES: u64 = 1 << 30;

/// Loads a file that a model names beside itself: its bytes, or the reason why not.
pub type External<'a> = dyn Fn(&str) -> Result<Vec<u8>, String> + 'a;

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

/// The last nodes of a file that the graph leaves out. The order of the numbers before them is that
/// of the probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Nothing is left out.
    None,
    /// Probabilities of all labels.
    Softmax,
    /// Their logarithms.
    LogSoftmax,
    /// The label.
    ArgMax,
    /// The best labels.
    TopK,
    /// The probability of one label: more than a half if the number is above 0.
    Sigmoid,
}

/// A file as a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// The end of the file that the graph leaves out.
    pub ending: Ending,
    /// Differences between the file and the graph that a person should know.
    pub notes: Vec<String>,
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
    /// The file has parts that no chain of layers has.
    #[error("expected a chain of {}; found what is not supported:\n  {}", OPERATORS.join(", "), .0.join("\n  "))]
    Unsupported(Vec<String>),
    /// The file has parts that no graph has.
    #[error(
        "the file has parts that are not supported:\n  {}\nsupported operators: {}",
        .0.join("\n  "),
        GRAPH_OPERATORS.join(", ")
    )]
    Refused(Vec<String>),
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

/// Reads a network that is a chain of layers.
///
/// # Errors
/// [`OnnxError`].
pub fn read_onnx(path: &Path, pixels: &Pixels) -> Result<Network, OnnxError> {
    let bytes = read_bounded(path, MAX_ONNX_BYTES)?;
    let network =
        decode(&bytes, pixels, &|location| beside(path, location), true).and_then(|imported| chained(&imported));
    network.map_err(|error| named(path, error))
}

/// Decodes a network that is a chain of layers from a file's bytes.
///
/// # Errors
/// [`OnnxError`].
pub fn decode_onnx(bytes: &[u8], pixels: &Pixels) -> Result<Network, OnnxError> {
    decode(bytes, pixels, &nowhere, true).and_then(|imported| chained(&imported))
}

/// Reads a graph. Constants may stand in files in the same folder.
///
/// # Errors
/// [`OnnxError`].
pub fn read_graph(path: &Path, pixels: &Pixels) -> Result<Imported, OnnxError> {
    let bytes = read_bounded(path, MAX_ONNX_BYTES)?;
    decode_graph(&bytes, pixels, &|location| beside(path, location)).map_err(|error| named(path, error))
}

/// Decodes a graph from a file's bytes. `external` loads the files of constants that stand outside
/// the model, and must check their names.
///
/// # Errors
/// [`OnnxError`].
pub fn decode_graph(bytes: &[u8], pixels: &Pixels, external: &External<'_>) -> Result<Imported, OnnxError> {
    decode(bytes, pixels, external, false)
}

fn decode(bytes: &[u8], pixels: &Pixels, external: &External<'_>, chain: bool) -> Result<Imported, OnnxError> {
    import::import(model::Model::decode(bytes, external)?, pixels, bytes.len(), chain)
}

fn chained(imported: &Imported) -> Result<Network, OnnxError> {
    chain::network(&imported.graph, imported.ending)
}

fn named(path: &Path, error: OnnxError) -> OnnxError {
    OnnxError::In { name: name_of(path), error: Box::new(error) }
}

fn nowhere(_: &str) -> Result<Vec<u8>, String> {
    Err("expected all constants in the model, found some in another file".to_owned())
}

/// A file in the folder of a model. Its name has no folders, and a link must not lead out.
fn beside(model: &Path, location: &str) -> Result<Vec<u8>, String> {
    let mut parts = Path::new(location).components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return Err("expected the name of a file in the model's folder".to_owned());
    };
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let canonical = |path: &Path| path.canonicalize().map_err(|error| format!("cannot read: {error}"));
    let (folder, file) = (canonical(folder)?, canonical(&folder.join(name))?);
    if file.parent() != Some(&*folder) || !file.is_file() {
        return Err("expected a plain file in the model's folder, found a link out of it or something else".to_owned());
    }
    read_bounded(&file, MAX_ONNX_BYTES).map_err(|error| error.to_string())
}

/// Fuzzing: any bytes are a network that can be written again, or give an error.
#[doc(hidden)]
pub fn fuzz_onnx(data: &[u8]) {
    let graph = decode_graph(data, &Pixels::default(), &nowhere);
    let Ok(network) = decode_onnx(data, &Pixels::default()) else { return };
    let graph = graph.map(|imported| (imported.graph.input(), imported.graph.output().len()));
    assert_eq!(graph.ok(), Some((network.input(), network.output().len())), "a chain is a graph");
    // in single precision a weight may become infinite, and the second file has one more layer
    // where coefficients are 1
    if let Ok(again) = decode_onnx(&encode_onnx(&network), &Pixels::default()) {
        assert_eq!((again.input().len(), again.output().len()), (network.input().len(), network.output().len()));
    }
}
