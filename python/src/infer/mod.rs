//! `tobari.infer`: models, the client's half and the server's, in bytes.
//!
//! Questions, answers, keys and holders have the formats of `tobari infer`: one half may be here,
//! and the other on the command line or behind HTTP. A question is for one model under one key;
//! both are compared before any computation.

mod network;
mod questions;

use crate::arrays;
use crate::errors::{failed, malformed, refused};
use crate::randomness::generator;
use crate::work::{long, short};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;
use tobari_infer::client::{AnswerView, Output};
use tobari_infer::compile::{self, Card};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::fold::{FoldOptions, Reach, fold};
use tobari_infer::forecast::noisy;
use tobari_infer::holder::{self, NAME_BYTES, short as beginning};
use tobari_infer::precision::StageReport;
use tobari_infer::ready::{SET, ready};
use tobari_infer::server::{self, Keyring};
use tobari_infer::{self as infer, messages};
use tobari_infer_files::images::decode_digit;
use tobari_infer_files::onnx::{Pixels, decode_onnx};
use tobari_lattice::params::NamedSet;
use tobari_octets::sha256;
use zeroize::Zeroizing;

/// A network as it is evaluated: linear maps with squares between them.
#[pyclass(frozen, module = "tobari.infer")]
struct Model {
    inner: Arc<infer::Model>,
}

#[pymethods]
impl Model {
    /// The paper's network, trained on handwritten digits: 28 x 28 grey pixels, 0 the background.
    #[staticmethod]
    fn digits() -> PyResult<Self> {
        Ok(Self { inner: Arc::new(infer::Model::digits().map_err(malformed)?) })
    }

    /// Reads the bytes of `to_bytes`: a `.tim` file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let model = short(py, || infer::Model::decode(data).map_err(malformed))?;
        Ok(Self { inner: Arc::new(model) })
    }

    /// A network from the bytes of an ONNX file, with input `(pixel/255 - mean)/deviation`. With
    /// `images`, the ranges are the largest values of these images times `headroom`, and the images
    /// determine the margin between labels; without images, the ranges hold for every image. A
    /// given `margin` replaces that of the images.
    #[staticmethod]
    #[pyo3(signature = (data, mean, deviation, images=Vec::new(), headroom=2.0, margin=None))]
    fn from_onnx(
        py: Python<'_>,
        data: &[u8],
        mean: Vec<f64>,
        deviation: Vec<f64>,
        images: Vec<Vec<u8>>,
        headroom: f64,
        margin: Option<f64>,
    ) -> PyResult<Self> {
        let data = data.to_vec();
        let model = long(py, None, move |_| {
            let network = decode_onnx(&data, &Pixels { mean, deviation }).map_err(malformed)?;
            let images: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
            let reach = match images.is_empty() {
                true => Reach::Every,
                false => Reach::Seen { images: &images, headroom },
            };
            let model = fold(&network, &FoldOptions::new(reach)).map_err(failed)?;
            let Some(margin) = margin else {
                infer::calibration::check_images(&model, &images).map_err(failed)?;
                return Ok(model);
            };
            let powers = model.calibration().map(|known| known.powers.clone()).unwrap_or_default();
            model.calibrated(infer::Calibration { margin, powers }).map_err(failed)
        })?;
        Ok(Self { inner: Arc::new(model) })
    }

    /// Its bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.encode())
    }

    /// SHA-256 of the model's bytes: its name.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.digest())
    }

    /// Channels, rows and columns of an image.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let input = self.inner.input();
        (input.channels, input.height, input.width)
    }

    /// The number of classes.
    #[getter]
    fn classes(&self) -> usize {
        self.inner.classes()
    }

    /// The margin between labels that 19 of 20 images reach, in logits; none if it is unknown.
    #[getter]
    fn margin(&self) -> Option<f64> {
        self.inner.calibration().map(|known| known.margin)
    }

    /// Names of its linear maps.
    #[getter]
    fn stages(&self) -> Vec<String> {
        self.inner.stages().iter().map(|stage| stage.name.clone()).collect()
    }

    /// The logits of an unencrypted image: an encrypted run should be close to them.
    fn forward<'py>(&self, py: Python<'py>, pixels: &[u8]) -> PyResult<Bound<'py, numpy::PyArray1<f64>>> {
        let logits = short(py, || self.inner.forward(pixels).map_err(failed))?;
        arrays::array(py, &logits, None)
    }

    /// Prepares encrypted runs, for a layout (by default the first that fits the model) and a set
    /// of parameters. The predicted error must be within half the margin between labels.
    #[pyo3(signature = (layout=None, set=SET))]
    fn compile(&self, py: Python<'_>, layout: Option<String>, set: &str) -> PyResult<Compiled> {
        let named = NamedSet::from_name(set).filter(|set| set.plaintext_modulus.is_none());
        let named = named
            .ok_or_else(|| failed(format!("expected a set of parameters for approximate numbers, found {set:?}")))?;
        let model = Arc::clone(&self.inner);
        let (compiled, stages) = long(py, None, move |_| {
            let parameters = named.parameters().map_err(failed)?;
            ready(&model, layout.as_deref(), &parameters).map_err(failed)
        })?;
        Ok(Compiled { model: Arc::clone(&self.inner), inner: Arc::new(compiled), stages, set: named.name })
    }

    fn __repr__(&self) -> String {
        let (channels, rows, columns) = self.shape();
        let (name, classes) = (beginning(&self.inner.digest()), self.classes());
        format!("<infer.Model {name}: {channels} x {rows} x {columns} pixels to {classes} classes>")
    }
}

/// A model that is ready for encrypted runs, without keys and images.
#[pyclass(frozen, module = "tobari.infer")]
struct Compiled {
    model: Arc<infer::Model>,
    inner: Arc<compile::Compiled>,
    stages: Vec<StageReport>,
    set: &'static str,
}

#[pymethods]
impl Compiled {
    /// The name of the layout.
    #[getter]
    fn layout(&self) -> String {
        self.inner.layout().name().to_owned()
    }

    /// The name of the set of parameters.
    #[getter]
    fn set(&self) -> &'static str {
        self.set
    }

    /// The digest of the model.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.model.digest())
    }

    /// The public facts about the model, for clients: nothing of its weights.
    fn card<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.card().encode())
    }

    /// The prediction for each stage: name, primes, error of its sums, spare bits.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let one = |stage: &StageReport| {
            let line = PyDict::new(py);
            line.set_item("name", &stage.name)?;
            line.set_item("primes", stage.primes)?;
            line.set_item("error", stage.error)?;
            line.set_item("headroom_bits", stage.headroom_bits)?;
            Ok(line)
        };
        self.stages.iter().map(one).collect()
    }

    /// The foretold error of a logit: labels that are closer than twice this may be exchanged.
    #[getter]
    fn error(&self) -> Option<f64> {
        self.inner.error()
    }

    /// The logits of an unencrypted image, computed slot by slot as the layout does, with errors of
    /// encryption from this seed.
    #[pyo3(signature = (pixels, seed=0))]
    fn simulate<'py>(&self, py: Python<'py>, pixels: &[u8], seed: u64) -> PyResult<Bound<'py, numpy::PyArray1<f64>>> {
        let (expected, found) = (self.model.input().len(), pixels.len());
        if expected != found {
            return Err(failed(format!("expected an image of {expected} pixels, found {found}")));
        }
        let (compiled, numbers) = (Arc::clone(&self.inner), Zeroizing::new(infer::Model::numbers(pixels)));
        let logits = long(py, None, move |_| noisy(&compiled, &numbers, seed).map_err(failed))?;
        arrays::array(py, &logits, None)
    }

    /// The server's half. Weights are encoded once if they take at most `memory` bytes.
    #[pyo3(signature = (memory=1 << 30))]
    fn service(&self, py: Python<'_>, memory: u64) -> PyResult<Service> {
        let compiled = compile::Compiled::clone(&self.inner);
        let service = long(py, None, move |_| server::Service::new(compiled, memory).map_err(failed))?;
        Ok(Service { model: self.model.digest(), inner: Arc::new(service) })
    }
}

/// The server's half: a model that answers, without a key.
#[pyclass(frozen, module = "tobari.infer")]
struct Service {
    model: [u8; NAME_BYTES],
    inner: Arc<server::Service>,
}

#[pymethods]
impl Service {
    /// The public facts about the model, for clients.
    fn card<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.card().encode())
    }

    /// The digest of the model.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.model)
    }

    /// Prepares a client's evaluation keys.
    fn session(&self, py: Python<'_>, keys: &[u8]) -> PyResult<Session> {
        let (service, bytes) = (Arc::clone(&self.inner), keys.to_vec());
        let (name, ring) = long(py, None, move |_| {
            let keys = messages::decode_keys(&bytes, service.card()).map_err(malformed)?;
            Ok((sha256(&bytes), service.keyring(keys).map_err(refused)?))
        })?;
        Ok(Session { model: self.model, service: Arc::clone(&self.inner), name, ring })
    }
}

/// A service and a client's evaluation keys.
#[pyclass(frozen, module = "tobari.infer")]
struct Session {
    model: [u8; NAME_BYTES],
    service: Arc<server::Service>,
    name: [u8; NAME_BYTES],
    ring: Keyring,
}

#[pymethods]
impl Session {
    /// SHA-256 of the keys: their name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.name)
    }

    /// Bytes of the keys in memory.
    #[getter]
    fn memory(&self) -> u64 {
        self.ring.memory()
    }

    /// Answers questions, in their order.
    #[pyo3(signature = (questions, progress=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        questions: Vec<Vec<u8>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (service, ring, names) = (Arc::clone(&self.service), self.ring.clone(), [self.model, self.name]);
        let answers = long(py, progress.map(|progress| (progress, "images")), move |watch| {
            let mut rng = generator()?;
            let run = |image| service.resume(&ring).run(image, &mut rng).map_err(failed);
            questions::answers(&questions, [&names[0], &names[1]], service.card(), watch, run)
        })?;
        Ok(answers.iter().map(|answer| PyBytes::new(py, answer)).collect())
    }
}

/// The client of one model: only it can encrypt images for the model and decrypt answers. Its
/// secret is never printed or pickled, and is wiped on release.
#[pyclass(frozen, module = "tobari.infer")]
struct Holder {
    inner: Arc<holder::Holder>,
}

#[pymethods]
impl Holder {
    /// A new key, for the model with this digest and card.
    #[new]
    fn new(py: Python<'_>, card: &[u8], digest: &[u8]) -> PyResult<Self> {
        let digest: [u8; NAME_BYTES] = digest
            .try_into()
            .map_err(|_| malformed(format!("expected a digest of {NAME_BYTES} bytes, found {}", digest.len())))?;
        let card = Card::decode(card).map_err(malformed)?;
        let holder =
            long(py, None, move |_| holder::Holder::generate(card, digest, &mut generator()?).map_err(failed))?;
        Ok(Self { inner: Arc::new(holder) })
    }

    /// Reads the bytes of `to_bytes`: the file of `tobari infer keygen`.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(holder::Holder::decode(data).map_err(malformed)?) })
    }

    /// The whole key, secret: Python's copy is not wiped.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.encode())
    }

    /// The digest of the model.
    #[getter]
    fn model<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.model())
    }

    /// SHA-256 of the keys: their name on a server.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.keys_name())
    }

    /// The evaluation keys for the server: always the same bytes. Public.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let holder = Arc::clone(&self.inner);
        let keys = long(py, None, move |_| holder.keys().map_err(failed))?;
        Ok(PyBytes::new(py, &keys))
    }

    /// Encrypts an image: pixels from 0 to 255, row by row.
    fn encrypt<'py>(&self, py: Python<'py>, pixels: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let numbers = Zeroizing::new(infer::Model::numbers(pixels));
        let question = short(py, || self.inner.encrypt(&numbers, &mut generator()?).map_err(failed))?;
        Ok(PyBytes::new(py, &question))
    }

    /// Decrypts an answer: labels, the likeliest first; logits by class if `output` asks for them;
    /// and the two best labels if either may be right. `output` is label, top:K, rounded:BITS or
    /// logits.
    #[pyo3(signature = (answer, output="label"))]
    fn decrypt(&self, py: Python<'_>, answer: &[u8], output: &str) -> PyResult<Told> {
        let output = output_named(output)?;
        let AnswerView { labels, logits, close } = short(py, || self.inner.decrypt(answer, output).map_err(failed))?;
        Ok((labels, logits, close.map(|[first, second]| (first, second))))
    }

    fn __repr__(&self) -> String {
        format!(
            "<infer.Holder of the key {} for the model {}>",
            beginning(self.inner.keys_name()),
            beginning(self.inner.model())
        )
    }
}

/// Labels, logits, and two labels that are too close to tell.
type Told = (Vec<usize>, Vec<f64>, Option<(usize, usize)>);

fn output_named(text: &str) -> PyResult<Output> {
    let wrong = || failed(format!("expected label, top:K, rounded:BITS or logits, found {text:?}"));
    match text.split_once(':') {
        None if text == "label" => Ok(Output::Label),
        None if text == "logits" => Ok(Output::Logits),
        Some(("top", count)) => Ok(Output::Top(count.parse().map_err(|_| wrong())?)),
        Some(("rounded", bits)) => Ok(Output::Rounded(bits.parse().map_err(|_| wrong())?)),
        _ => Err(wrong()),
    }
}

/// A digit drawn from strokes, in one of a few handwritings: 784 pixels, row by row.
#[pyfunction]
#[pyo3(signature = (digit, hand=0))]
fn draw_digit<'py>(py: Python<'py>, digit: u8, hand: usize) -> PyResult<Bound<'py, PyBytes>> {
    let hands = STYLES.len();
    let style = STYLES.get(hand).ok_or_else(|| failed(format!("expected a hand below {hands}, found {hand}")))?;
    if digit > 9 {
        return Err(failed(format!("expected a digit from 0 to 9, found {digit}")));
    }
    Ok(PyBytes::new(py, &draw(digit, style)))
}

/// A PNG's bytes as a digit of 784 pixels, and the list of applied changes.
#[pyfunction]
fn decode_png_digit<'py>(py: Python<'py>, data: &[u8]) -> PyResult<(Bound<'py, PyBytes>, Vec<String>)> {
    let digit = short(py, || decode_digit("the image", data).map_err(malformed))?;
    Ok((PyBytes::new(py, &digit.pixels[..]), digit.notes.iter().map(ToString::to_string).collect()))
}

/// Makes the classes attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(draw_digit, module)?)?;
    module.add_function(wrap_pyfunction!(decode_png_digit, module)?)?;
    module.add_class::<Model>()?;
    module.add_class::<Compiled>()?;
    module.add_class::<Service>()?;
    module.add_class::<Session>()?;
    module.add_class::<network::Network>()?;
    module.add_class::<network::NetworkService>()?;
    module.add_class::<network::NetworkSession>()?;
    module.add_class::<Holder>()
}
