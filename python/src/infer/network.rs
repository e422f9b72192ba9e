//! Networks of any depth and shape, as [`tobari_infer_deep`] compiles them.

use super::questions;
use crate::arrays;
use crate::errors::{failed, malformed, refused};
use crate::randomness::generator;
use crate::work::{Watch, long, short};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::Arc;
use tobari_infer::compile::Card;
use tobari_infer::holder::{NAME_BYTES, short as beginning};
use tobari_infer::messages;
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::encrypted;
use tobari_infer_deep::machine::Circuit;
use tobari_infer_deep::model::CompileOptions;
use tobari_infer_deep::settings::{Engine, EngineKind};
use tobari_infer_files::onnx::{Pixels, read_graph};
use tobari_octets::sha256;

/// A compiled network of any depth and shape: branches, pools, any activation.
#[pyclass(frozen, module = "tobari.infer")]
pub(super) struct Network {
    inner: Arc<DeepModel>,
    /// Steps and layouts, for simulations.
    circuit: Arc<Circuit>,
}

impl Network {
    fn of(model: DeepModel) -> PyResult<Self> {
        let circuit = Arc::new(model.circuit().map_err(failed)?);
        Ok(Self { inner: Arc::new(model), circuit })
    }
}

#[pymethods]
impl Network {
    /// Compiles an ONNX file for encrypted runs, with input `(pixel/255 - mean)/deviation`. Ranges
    /// are those of `images`, times `headroom`; labels are to be right down to `margin`, by default
    /// that of the images. `engine` is levels, refresh or enclave, and chosen without one.
    /// `quadratic` replaces activations by polynomials of degree two.
    #[staticmethod]
    #[pyo3(signature = (path, mean, deviation, images, engine=None, margin=None, headroom=None, quadratic=false))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a Python function")]
    fn compile(
        py: Python<'_>,
        path: PathBuf,
        mean: Vec<f64>,
        deviation: Vec<f64>,
        images: Vec<Vec<u8>>,
        engine: Option<&str>,
        margin: Option<f64>,
        headroom: Option<f64>,
        quadratic: bool,
    ) -> PyResult<Self> {
        let engine: Option<EngineKind> = engine.map(str::parse).transpose().map_err(failed)?;
        if headroom.is_some_and(|factor| !(1.0..=1000.0).contains(&factor)) {
            return Err(failed("expected a headroom from 1 to 1000"));
        }
        let options = CompileOptions { headroom, margin, quadratic, engine };
        long(py, None, move |_| {
            let graph = read_graph(&path, &Pixels { mean, deviation }).map_err(malformed)?.graph;
            let images: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
            Self::of(DeepModel::compile(graph, &images, options).map_err(failed)?)
        })
    }

    /// Reads the bytes of `to_bytes`: a `.tim` file of `tobari infer compile`.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let data = data.to_vec();
        long(py, None, move |_| Self::of(DeepModel::decode(&data).map_err(malformed)?))
    }

    /// Its bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.encode())
    }

    /// SHA-256 of the network's bytes: its name.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.digest())
    }

    /// Channels, rows and columns of an image.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let input = self.inner.graph().input();
        (input.channels, input.height, input.width)
    }

    /// The number of classes.
    #[getter]
    fn classes(&self) -> usize {
        self.inner.graph().output().len()
    }

    /// `levels`, `refresh` or `enclave`.
    #[getter]
    fn engine(&self) -> &'static str {
        self.inner.settings().engine.kind().name()
    }

    /// The sizes of the parameters.
    #[getter]
    fn set(&self) -> String {
        self.inner.settings().sizes.to_string()
    }

    /// The margin between labels that 19 of 20 images reach, in logits.
    #[getter]
    fn margin(&self) -> f64 {
        self.inner.forecast().margin
    }

    /// The foretold error of a logit: labels that are closer than twice this may be exchanged.
    #[getter]
    fn error(&self) -> f64 {
        self.inner.forecast().error
    }

    /// The logits of an unencrypted image, as the network was read.
    fn forward<'py>(&self, py: Python<'py>, pixels: &[u8]) -> PyResult<Bound<'py, numpy::PyArray1<f64>>> {
        let logits = short(py, || self.inner.graph().forward(pixels).map_err(failed))?;
        arrays::array(py, &logits, None)
    }

    /// An encrypted run in the clear, slot by slot, with errors of encryption from this seed:
    /// `logits`, `plain` (those of the network as it was read), `error` (foretold for this image),
    /// `outside` (a client would withhold the answer), `close` (either of two labels may be right).
    #[pyo3(signature = (pixels, seed=0))]
    fn simulate<'py>(&self, py: Python<'py>, pixels: &[u8], seed: u64) -> PyResult<Bound<'py, PyDict>> {
        let (model, circuit, pixels) = (Arc::clone(&self.inner), Arc::clone(&self.circuit), pixels.to_vec());
        let found = long(py, None, move |_| model.simulate(&circuit, &pixels, seed).map_err(failed))?;
        let line = PyDict::new(py);
        line.set_item("logits", arrays::array(py, &found.logits, None)?)?;
        line.set_item("plain", arrays::array(py, &found.plain, None)?)?;
        line.set_item("error", found.error)?;
        line.set_item("outside", found.outside)?;
        line.set_item("close", found.close)?;
        Ok(line)
    }

    /// The server's half, with encoded weights.
    fn service(&self, py: Python<'_>) -> PyResult<NetworkService> {
        if self.inner.settings().engine == Engine::Enclave {
            return Err(failed(
                "an enclave computes a part of this network, and makes the keys: serve it with `tobari serve \
                 --infer-enclave mixed-plain-reset`, and ask with `tobari infer ask`",
            ));
        }
        let model = Arc::clone(&self.inner);
        let network = long(py, None, move |_| model.network().map_err(failed))?;
        let (model, card) = (self.inner.digest(), network.card());
        Ok(NetworkService { model, card: Arc::new(card), inner: Arc::new(network) })
    }

    fn __repr__(&self) -> String {
        let (channels, rows, columns) = self.shape();
        let (name, classes, engine) = (beginning(&self.inner.digest()), self.classes(), self.engine());
        format!("<infer.Network {name}: {channels} x {rows} x {columns} pixels to {classes} classes, by {engine}>")
    }
}

/// The server's half of a network: it answers, without a key.
#[pyclass(frozen, module = "tobari.infer")]
pub(super) struct NetworkService {
    model: [u8; NAME_BYTES],
    card: Arc<Card>,
    inner: Arc<encrypted::Network>,
}

#[pymethods]
impl NetworkService {
    /// The public facts about the network, for clients.
    fn card<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.card.encode())
    }

    /// The digest of the network.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.model)
    }

    /// Prepares a client's evaluation keys.
    fn session(&self, py: Python<'_>, keys: &[u8]) -> PyResult<NetworkSession> {
        let (network, card, bytes) = (Arc::clone(&self.inner), Arc::clone(&self.card), keys.to_vec());
        let (name, ring) = long(py, None, move |_| {
            let keys = messages::decode_keys(&bytes, &card).map_err(malformed)?;
            Ok((sha256(&bytes), network.keyring(keys).map_err(refused)?))
        })?;
        let (card, network) = (Arc::clone(&self.card), Arc::clone(&self.inner));
        Ok(NetworkSession { model: self.model, card, network, name, ring: Arc::new(ring) })
    }
}

/// A network and a client's evaluation keys.
#[pyclass(frozen, module = "tobari.infer")]
pub(super) struct NetworkSession {
    model: [u8; NAME_BYTES],
    card: Arc<Card>,
    network: Arc<encrypted::Network>,
    name: [u8; NAME_BYTES],
    ring: Arc<encrypted::NetworkKeys>,
}

#[pymethods]
impl NetworkSession {
    /// SHA-256 of the keys: their name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.name)
    }

    /// Bytes of the keys in memory.
    #[getter]
    fn memory(&self) -> u64 {
        self.network.keyring_memory()
    }

    /// Answers questions, in their order.
    #[pyo3(signature = (questions, progress=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        questions: Vec<Vec<u8>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (network, ring, card) = (Arc::clone(&self.network), Arc::clone(&self.ring), Arc::clone(&self.card));
        let names = [self.model, self.name];
        let answers = long(py, progress.map(|progress| (progress, "images")), move |watch: &Watch| {
            let mut rng = generator()?;
            let run = |image| network.run(image, &ring, &mut rng, |_| watch.wanted().is_ok()).map_err(failed);
            questions::answers(&questions, [&names[0], &names[1]], &card, watch, run)
        })?;
        Ok(answers.iter().map(|answer| PyBytes::new(py, answer)).collect())
    }
}
