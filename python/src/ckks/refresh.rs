//! Refreshes: from the last levels back to the first ones.

use super::{Ciphertext, Context, EvaluationKeys, Parameters, SecretKey};
use crate::errors::{Failed, failed};
use crate::randomness::generator;
use crate::shape::Shape;
use crate::work::{long, short};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use tobari_lattice::refresh::{self, RefreshKeysInPieces, RefreshSettings};

/// A refresh (bootstrapping) of vectors: the result has the same numbers at a high level again, so
/// that a computation can go on for ever. The server makes one, and refreshes with keys of the
/// client, without its secret.
///
/// `slots` is a power of two, at least the length of the vectors. With `complex`, numbers may be
/// complex, which takes almost twice the time. With `precise`, results have about 20 bits instead
/// of 17, for two levels. With `bits`, numbers are 0 or 1 but for their errors, at the scale
/// `2**bits`, and a refresh squares the errors: **that they are bits is your promise**.
///
/// The sets "refresh" and "refresh-precise" are for it. Their keys take 6 GB, and a refresh of all
/// slots some seconds; fewer slots take less.
///
/// >>> from tobari import ckks
/// >>> refresh = ckks.Refresh(ckks.Parameters("pbwt-bits"), slots=16)
/// >>> refresh.level, refresh.least_level
/// (8, 4)
#[pyclass(frozen, module = "tobari.ckks")]
pub(super) struct Refresh {
    context: Arc<Context>,
    refresh: Arc<refresh::Refresh>,
}

#[pymethods]
impl Refresh {
    #[new]
    #[pyo3(signature = (parameters, slots, *, complex=false, precise=false, bits=None))]
    fn new(
        py: Python<'_>,
        parameters: &Parameters,
        slots: usize,
        complex: bool,
        precise: bool,
        bits: Option<u32>,
    ) -> PyResult<Self> {
        let settings = match bits {
            Some(_) if complex || precise => return Err(failed("expected bits alone, found complex or precise, too")),
            Some(bits) => RefreshSettings::bits(slots, bits),
            None if complex => RefreshSettings::complex(slots),
            None => RefreshSettings::real(slots),
        };
        let settings = if precise { settings.precise() } else { settings };
        let context = Arc::clone(&parameters.context);
        let made = Arc::clone(&context);
        let made = long(py, None, move |_| refresh::Refresh::new(&made.parameters, settings).map_err(failed))?;
        Ok(Self { context, refresh: Arc::new(made) })
    }

    /// The level of results. Encrypt at this level, too: the levels above are the refresh's own.
    #[getter]
    fn level(&self) -> usize {
        self.refresh.level()
    }

    /// The lowest level of ciphertexts that can be refreshed.
    #[getter]
    fn least_level(&self) -> usize {
        self.refresh.settings().least_level()
    }

    /// Bits of the chance that a refresh exceeds the bound on its error.
    #[getter]
    fn failure_bits(&self) -> f64 {
        self.refresh.failure_bits()
    }

    /// Bytes of the keys in memory, before they are made.
    #[getter]
    fn keys_memory(&self) -> usize {
        self.refresh.keys_memory()
    }

    /// The client's keys for the server; `progress(done, total)` hears of each.
    #[pyo3(signature = (secret, progress=None))]
    fn keys(&self, py: Python<'_>, secret: &SecretKey, progress: Option<&Bound<'_, PyAny>>) -> PyResult<RefreshKeys> {
        self.context.same(&secret.context)?;
        let (refresh, key) = (Arc::clone(&self.refresh), Arc::clone(&secret.key));
        let keys = long(py, progress.map(|progress| (progress, "keys")), move |watch| {
            watch.expect(refresh.pieces().len());
            let each = || watch.step().map_err(Failed);
            refresh.keys_with(&key, &mut generator()?, each).map_err(|Failed(error)| error)
        })?;
        Ok(RefreshKeys { context: Arc::clone(&self.context), keys: Arc::new(keys) })
    }

    /// The number of pieces of the keys.
    fn __len__(&self) -> usize {
        self.refresh.pieces().len()
    }

    /// Makes one of the pieces of the keys, counted from 0, as bytes to send. All pieces together
    /// are keys: `RefreshKeys.from_pieces`.
    fn piece(&self, py: Python<'_>, secret: &SecretKey, number: usize) -> PyResult<Py<PyBytes>> {
        self.context.same(&secret.context)?;
        let (pieces, found) = (self.refresh.pieces(), number);
        let most = pieces.len();
        let piece = pieces.into_keys().nth(number);
        let piece = piece.ok_or_else(|| failed(format!("expected a number below {most}, found {found}")))?;
        let bytes = short(py, || self.refresh.piece(piece, &secret.key, &mut generator()?).map_err(failed))?;
        Ok(PyBytes::new(py, &bytes).unbind())
    }

    /// The same numbers at the level `level`, at the same scale (bits: at a scale of their own).
    /// The result has the keys of the ciphertext, else the evaluation keys among `keys`.
    /// `progress(done, total)` hears of the steps.
    #[pyo3(signature = (ciphertext, keys, progress=None))]
    fn refresh(
        &self,
        py: Python<'_>,
        ciphertext: &Ciphertext,
        keys: &RefreshKeys,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        self.context.same(&keys.context)?;
        let slots = self.refresh.settings().slots();
        if let Some(shape) = ciphertext.shape.filter(|shape| shape.period() > slots) {
            let (found, length) = (shape.dimensions(), shape.period());
            return Err(failed(format!(
                "expected at most {slots} slots, found numbers of shape {found:?}, which take {length}: make a \
                 Refresh of more slots"
            )));
        }
        let (refresh, inner, own) = (Arc::clone(&self.refresh), Arc::clone(&ciphertext.inner), Arc::clone(&keys.keys));
        let refreshed = long(py, progress.map(|progress| (progress, "steps")), move |watch| {
            watch.expect(refresh.steps());
            let each = || watch.step().map_err(Failed);
            refresh.refresh_with(&inner, &own, each).map_err(|Failed(error)| error)
        })?;
        let shape = ciphertext.shape.or_else(|| (slots < self.context.encoder.slots()).then(|| Shape::vector(slots)));
        let found = ciphertext.of(refreshed, shape);
        Ok(found.or_with(keys.keys.evaluation()))
    }

    fn __repr__(&self) -> String {
        let (name, slots, level) = (&self.context.name, self.refresh.settings().slots(), self.refresh.level());
        format!("<ckks.Refresh of {name}: {slots} slots, back to level {level}>")
    }
}

/// The keys of a refresh, for a server. Public.
#[pyclass(frozen, module = "tobari.ckks")]
pub(super) struct RefreshKeys {
    context: Arc<Context>,
    keys: Arc<refresh::RefreshKeys>,
}

#[pymethods]
impl RefreshKeys {
    /// Collects the pieces of `Refresh.piece`, in any order. Pieces that are missing, of another
    /// secret or of another refresh are errors.
    #[staticmethod]
    fn from_pieces(py: Python<'_>, refresh: &Refresh, pieces: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut received = RefreshKeysInPieces::new(&refresh.refresh);
        for piece in pieces.try_iter()? {
            let piece: Vec<u8> = piece?.extract()?;
            short(py, || received.add(&piece).map(drop).map_err(failed))?;
            py.check_signals()?;
        }
        let keys = received.finish().map_err(failed)?;
        Ok(Self { context: Arc::clone(&refresh.context), keys: Arc::new(keys) })
    }

    /// Bytes in memory.
    #[getter]
    fn memory(&self) -> usize {
        self.keys.memory()
    }

    /// The keys for products, rotations and conjugates among them, for other computations.
    #[getter]
    fn evaluation_keys(&self) -> EvaluationKeys {
        EvaluationKeys { context: Arc::clone(&self.context), keys: Arc::clone(self.keys.evaluation()) }
    }

    fn __repr__(&self) -> String {
        format!("<ckks.RefreshKeys of {}, {} bytes in memory>", self.context.name, self.keys.memory())
    }
}
