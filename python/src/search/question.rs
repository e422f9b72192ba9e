//! Questions of a client: prepared, evaluated where the table has labels, encrypted, and read.
//!
//! **Labels.** The server first evaluates a question to a table with labels, blinded. `evaluation`
//! makes the request, and `finish` takes the reply. The result is the question with its labels,
//! which are valid for any number of queries as long as the table has the same key of labels.

use super::client::{Asked, Key};
use crate::errors::{failed, fault, malformed};
use crate::randomness::generator;
use crate::work::short;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex};
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::Modulus;
use tobari_search::client::{Asker, MatchResult};
use tobari_search::hidden::question::{HiddenEvaluation as Pending, HiddenPrepared};
use tobari_search::hidden::{self, arrangement};
use tobari_search::messages::CLIENT_BYTES;
use tobari_search::oprf::function::Blinding;
use tobari_search::question;
use tobari_search::question::labelled::{Labels, PreparedLabelled};
use tobari_search::server::Granularity;

/// A client's name on a server.
fn named(client: &[u8]) -> PyResult<[u8; CLIENT_BYTES]> {
    client.try_into().map_err(|_| failed(format!("expected a client's name of 16 bytes, found {}", client.len())))
}

fn unlabelled() -> PyErr {
    failed(
        "expected a question that the server has evaluated, because the table has labels, found one without: call evaluation",
    )
}

fn plain() -> PyErr {
    failed("expected a question to a table with labels that is not evaluated yet, found another: ask it as it is")
}

/// Takes what is used once.
fn once<T>(pending: &Mutex<Option<T>>) -> PyResult<T> {
    let mut pending = pending.lock().map_err(|_| fault())?;
    pending.take().ok_or_else(|| failed("expected one reply to an evaluation, found a second one"))
}

/// A prepared question whose place hides, not encrypted yet.
#[pyclass(frozen, module = "tobari.search")]
#[derive(Clone)]
pub(super) struct HiddenQuestion {
    prepared: HiddenPrepared,
    /// The question, or why the table has no answer to it: then it is asked without meaning.
    asked: Result<Arc<Asked>, String>,
    /// Whether the table has labels.
    labels: bool,
    cell: Option<String>,
    granularity: Granularity,
}

impl HiddenQuestion {
    pub(super) fn new(
        prepared: HiddenPrepared,
        asked: Result<Asked, String>,
        labels: bool,
        (cell, granularity): (Option<String>, Granularity),
    ) -> Self {
        Self { prepared, asked: asked.map(Arc::new), labels, cell, granularity }
    }

    fn waits(&self) -> bool {
        self.labels && self.prepared.shown().2.is_none()
    }
}

fn hidden_set() -> PyResult<NamedSet> {
    arrangement::set().ok_or_else(fault)
}

#[pymethods]
impl HiddenQuestion {
    /// The cell that the server sees, as 20:1000001-2000000; none in the whole table.
    #[getter]
    fn cell(&self) -> Option<&str> {
        self.cell.as_deref()
    }

    /// The number of places among which the server cannot tell the true one.
    #[getter]
    fn places(&self) -> usize {
        self.prepared.places()
    }

    /// The path of the server's layout, below that of the table.
    #[getter]
    fn path(&self) -> String {
        self.prepared.path()
    }

    /// The set of parameters of the key for this question.
    #[getter]
    fn set(&self) -> PyResult<&'static str> {
        Ok(hidden_set()?.name)
    }

    /// Whether the server must evaluate the question before the query: the table has labels.
    #[getter]
    fn needs_evaluation(&self) -> bool {
        self.waits()
    }

    /// The name of the table's key of labels; none without labels.
    #[getter]
    fn revision<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.prepared.shown().2.map(|revision| PyBytes::new(py, &revision))
    }

    /// The evaluation of the question, which costs one test; `client` is the client's name on the
    /// server.
    fn evaluation(&self, py: Python<'_>, client: &[u8]) -> PyResult<HiddenEvaluation> {
        if !self.waits() {
            return Err(plain());
        }
        let client = named(client)?;
        let pending = short(py, || {
            let question = self.asked.as_ref().ok().map(|asked| asked.borrow());
            self.prepared.evaluation(client, question.as_ref(), &mut generator()?).map_err(failed)
        })?;
        let request = pending.request().to_vec();
        Ok(HiddenEvaluation { question: self.clone(), request, pending: Mutex::new(Some(pending)) })
    }

    /// The query's bytes for the server's layout; `client` is the client's name on the server.
    fn query<'py>(&self, py: Python<'py>, layout: &[u8], key: &Key, client: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        if self.waits() {
            return Err(unlabelled());
        }
        let client = named(client)?;
        let query = short(py, || {
            let asker = hidden::client::Asker::new(&key.secret).map_err(failed)?;
            let target = self.prepared.target(layout, asker.parameters()).map_err(malformed)?;
            let of = (client, self.granularity);
            self.prepared.query(&asker, &target, of, &mut generator()?).map_err(failed)
        })?;
        Ok(PyBytes::new(py, &query))
    }

    /// Decrypts an answer: whether there is a match, and the number of occurrences (if asked for).
    /// Raises the reason why the table has no answer, if it has none.
    fn read(&self, py: Python<'_>, layout: &[u8], key: &Key, answer: &[u8]) -> PyResult<(bool, Option<u64>)> {
        if self.waits() {
            return Err(unlabelled());
        }
        if let Err(why) = &self.asked {
            return Err(failed(why));
        }
        let found = short(py, || {
            let asker = hidden::client::Asker::new(&key.secret).map_err(failed)?;
            let target = self.prepared.target(layout, asker.parameters()).map_err(malformed)?;
            let found = target.read(&asker, answer).map_err(malformed)?;
            Ok(self.prepared.uncover(found, &target, asker.modulus()))
        })?;
        Ok(match found {
            MatchResult::Present(count) => (true, count),
            _ => (false, None),
        })
    }

    fn __repr__(&self) -> String {
        match &self.cell {
            Some(cell) => format!("<search.HiddenQuestion in the cell {cell}, among {} places>", self.places()),
            None => format!("<search.HiddenQuestion among all {} places>", self.places()),
        }
    }
}

/// The evaluation of a question whose place hides. The server sees that one input is evaluated.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct HiddenEvaluation {
    question: HiddenQuestion,
    request: Vec<u8>,
    pending: Mutex<Option<Pending>>,
}

#[pymethods]
impl HiddenEvaluation {
    /// The request's bytes.
    #[getter]
    fn request<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.request)
    }

    /// The question with its label, from the server's reply. Call it once.
    fn finish(&self, py: Python<'_>, reply: &[u8]) -> PyResult<HiddenQuestion> {
        let pending = once(&self.pending)?;
        short(py, || {
            let t = hidden_set()?.plaintext_modulus.and_then(Modulus::new).ok_or_else(fault)?;
            let label = pending.finish(reply).map_err(malformed)?;
            let prepared = self.question.prepared.clone().with_label(&label, &t);
            Ok(HiddenQuestion { prepared, ..self.question.clone() })
        })
    }
}

/// A question, prepared for its table.
enum Ready {
    Plain(Box<question::Prepared>),
    /// With the labels, as soon as it is evaluated.
    Labels(Arc<PreparedLabelled>, Option<Labels>),
}

/// A prepared question, not encrypted yet.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Prepared {
    ready: Ready,
}

impl Prepared {
    pub(super) fn plain(prepared: question::Prepared) -> Self {
        Self { ready: Ready::Plain(Box::new(prepared)) }
    }

    pub(super) fn labels(prepared: PreparedLabelled) -> Self {
        Self { ready: Ready::Labels(Arc::new(prepared), None) }
    }

    fn named_set(&self) -> NamedSet {
        match &self.ready {
            Ready::Plain(prepared) => prepared.set(),
            Ready::Labels(prepared, _) => prepared.set(),
        }
    }

    fn fits(&self, key: &Key) -> PyResult<()> {
        let (expected, found) = (self.named_set().name, key.set);
        if expected == found {
            Ok(())
        } else {
            Err(failed(format!("expected a key of {expected}, found one of {found}")))
        }
    }
}

#[pymethods]
impl Prepared {
    /// The set of parameters of the key for this question.
    #[getter]
    fn set(&self) -> &'static str {
        self.named_set().name
    }

    /// `log2` of a bound on the probability of a false match; none if false matches are impossible.
    #[getter]
    fn false_matches(&self) -> Option<f64> {
        match &self.ready {
            Ready::Plain(prepared) => prepared.false_matches(),
            Ready::Labels(prepared, _) => prepared.false_matches(),
        }
    }

    /// Whether the server must evaluate the question before the query: the table has labels.
    #[getter]
    fn needs_evaluation(&self) -> bool {
        matches!(self.ready, Ready::Labels(_, None))
    }

    /// The evaluation of the question, which costs one test, or for a longest match one for each
    /// allele; `client` is the client's name on the server.
    fn evaluation(&self, py: Python<'_>, client: &[u8]) -> PyResult<Evaluation> {
        let Ready::Labels(prepared, None) = &self.ready else { return Err(plain()) };
        let client = named(client)?;
        let (request, blinding) = short(py, || prepared.evaluation(client, &mut generator()?).map_err(failed))?;
        Ok(Evaluation { prepared: Arc::clone(prepared), request, blinding: Mutex::new(Some(blinding)) })
    }

    /// The query's bytes; `client` is the client's name on the server.
    fn query<'py>(&self, py: Python<'py>, key: &Key, client: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        self.fits(key)?;
        let client = named(client)?;
        let query = short(py, || {
            let asker = Asker::new(&key.secret).map_err(failed)?;
            let rng = &mut generator()?;
            match &self.ready {
                Ready::Plain(prepared) => prepared.query(&asker, client, rng).map_err(failed),
                Ready::Labels(prepared, Some(labels)) => prepared.query(&asker, client, labels, rng).map_err(failed),
                Ready::Labels(_, None) => Err(unlabelled()),
            }
        })?;
        Ok(PyBytes::new(py, &query))
    }

    /// Decrypts an answer: whether there is a match, the number of occurrences (if asked for), and
    /// the number of alleles that occur from the first on (if asked for).
    fn read(&self, py: Python<'_>, key: &Key, answer: &[u8]) -> PyResult<(bool, Option<u64>, Option<usize>)> {
        self.fits(key)?;
        let found = short(py, || {
            let asker = Asker::new(&key.secret).map_err(failed)?;
            match &self.ready {
                Ready::Plain(prepared) => prepared.read(&asker, answer).map_err(malformed),
                Ready::Labels(prepared, Some(labels)) => prepared.read(&asker, labels, answer).map_err(malformed),
                Ready::Labels(_, None) => Err(unlabelled()),
            }
        })?;
        Ok(match found {
            MatchResult::Absent => (false, None, None),
            MatchResult::Present(count) => (true, count, None),
            MatchResult::Longest(sites, count) => (true, count, Some(sites)),
        })
    }
}

/// The evaluation of a question. The server sees the number of inputs, and no input.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Evaluation {
    prepared: Arc<PreparedLabelled>,
    request: Vec<u8>,
    blinding: Mutex<Option<Blinding>>,
}

#[pymethods]
impl Evaluation {
    /// The request's bytes.
    #[getter]
    fn request<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.request)
    }

    /// The question with its labels, from the server's reply. Call it once.
    fn finish(&self, py: Python<'_>, reply: &[u8]) -> PyResult<Prepared> {
        let blinding = once(&self.blinding)?;
        let labels = short(py, || self.prepared.labels(blinding, reply).map_err(malformed))?;
        Ok(Prepared { ready: Ready::Labels(Arc::clone(&self.prepared), Some(labels)) })
    }
}
