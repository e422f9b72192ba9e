//! The server of a search: it has tables, and no key.

use super::table::Table;
use crate::errors::{failed, fault, malformed, refused, refused_for};
use crate::randomness::generator;
use crate::work::{long, short};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, MutexGuard};
use tobari_octets::sha256;
use tobari_search::desk::{LabelledTable, Limits, Refusal, SearchService};
use tobari_search::hidden::arrangement::{self, ArrangeError};
use tobari_search::hidden::cells::Cell;
use tobari_search::hidden::messages;
use tobari_search::oprf::function::Secret;

/// The memory of arranged cells.
const CELL_MEMORY: u64 = 1 << 30;
/// The memory of labels of windows.
const LABEL_BYTES: usize = 1 << 28;
/// The most labels of a cell, for each label that a question may need.
const CELL_LABELS: usize = 8;

/// A server's half: tables, clients' public keys, and their remaining budgets.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Server {
    desk: Arc<Mutex<SearchService>>,
}

impl Server {
    fn desk(&self) -> PyResult<MutexGuard<'_, SearchService>> {
        self.desk.lock().map_err(|_| fault())
    }
}

fn name<const N: usize>(bytes: &[u8]) -> PyResult<[u8; N]> {
    bytes.try_into().map_err(|_| failed(format!("expected a name of {N} bytes, found {}", bytes.len())))
}

/// A refusal of the desk, with its word.
fn declined(refusal: Refusal) -> PyErr {
    refused_for(refusal.word(), refusal)
}

/// A cell that is not arranged.
fn unarranged(error: ArrangeError) -> PyErr {
    match error {
        error @ ArrangeError::Labels { .. } => {
            refused_for("question", format!("{error}, or show the place (public=True)"))
        }
        error => refused_for("question", error),
    }
}

#[pymethods]
impl Server {
    /// A server without tables. `tests` limits a client's tests in all (a longest match takes
    /// several), `region_tests` those in any 100,000 bases, `uses` the blocks of answers of a key,
    /// `clients` the number of clients, and `labels` those of a question to a table with labels.
    #[new]
    #[pyo3(signature = (tests=None, region_tests=None, uses=None, clients=None, labels=None))]
    fn new(
        tests: Option<u64>,
        region_tests: Option<u64>,
        uses: Option<u32>,
        clients: Option<usize>,
        labels: Option<usize>,
    ) -> Self {
        let limits = Limits::default();
        let tests = tests.unwrap_or(limits.tests);
        let region_tests = region_tests.unwrap_or(limits.region_tests);
        let uses = uses.unwrap_or(limits.uses);
        let clients = clients.unwrap_or(limits.clients);
        let labels = labels.unwrap_or(limits.labels);
        let cell_labels = labels.saturating_mul(CELL_LABELS);
        let limits = Limits { clients, tests, region_tests, uses, labels, cell_labels, ..limits };
        Self { desk: Arc::new(Mutex::new(SearchService::new(limits))) }
    }

    /// Serves a table; it replaces a table of the same name. With `labels`, questions need an
    /// evaluation under a new key, and keys take some 40 us each to serve.
    #[pyo3(signature = (table, labels=false))]
    fn serve(&self, py: Python<'_>, table: &Table, labels: bool) -> PyResult<()> {
        let (desk, table) = (Arc::clone(&self.desk), Arc::clone(&table.inner));
        long(py, None, move |watch| {
            let table = tobari_search::table::Table::clone(&table);
            watch.wanted()?;
            let desk = || desk.lock().map_err(|_| fault());
            if !labels {
                return desk()?.serve_table(table).map_err(declined);
            }
            let secret = Secret::random(&mut generator()?);
            let table = LabelledTable::new(table, secret, LABEL_BYTES).map_err(declined)?;
            desk()?.serve_table_labelled(table);
            Ok(())
        })
    }

    /// Evaluates a question to a table with labels, and charges its client's budget.
    fn evaluate<'py>(&self, py: Python<'py>, request: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (admitted, _) = short(py, || self.desk()?.admit_evaluation(request).map_err(declined))?;
        let reply = long(py, None, move |_| Ok(admitted.answer()))?;
        Ok(PyBytes::new(py, &reply))
    }

    /// Registers a client's key for questions of a set of parameters.
    fn register(&self, py: Python<'_>, client: &[u8], set: &str, registration: &[u8]) -> PyResult<()> {
        let client = name(client)?;
        if arrangement::set().is_some_and(|hidden| hidden.name == set) {
            return short(py, || {
                let mut desk = self.desk()?;
                let matcher = desk.hidden_matcher().map_err(declined)?;
                let read = messages::decode_registration(registration, matcher.parameters()).map_err(malformed)?;
                desk.register_hidden(client, sha256(registration), Some(read)).map_err(declined)
            });
        }
        short(py, || self.desk()?.register(client, set, registration).map_err(declined))
    }

    /// The layout of a cell of a table; `path` is that of the question.
    fn layout<'py>(&self, py: Python<'py>, table: &[u8], path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let table = name(table)?;
        let wrong = || refused("expected the path of a cell, as 6/0/12");
        let parts: Vec<u32> = path.split('/').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let [length, chromosome, number] = parts[..] else { return Err(wrong()) };
        let (length, cell, desk) = (length as usize, Cell { chromosome, number }, Arc::clone(&self.desk));
        let told = long(py, None, move |_| {
            let source = {
                let mut desk = desk.lock().map_err(|_| fault())?;
                if let Some(there) = desk.cell(&table, length, cell) {
                    return Ok(there.told().to_vec());
                }
                desk.cell_source(&table).map_err(declined)?
            };
            let arranged = source.arrange(length, cell, CELL_MEMORY, &mut generator()?).map_err(unarranged)?;
            let arranged = Arc::new(arranged);
            desk.lock().map_err(|_| fault())?.serve_cell(&source, &arranged, CELL_MEMORY);
            Ok(arranged.told().to_vec())
        })?;
        Ok(PyBytes::new(py, &told))
    }

    /// Answers a query whose place hides, and charges its client's budget. `key` is the SHA-256 of
    /// the client's registration.
    fn answer_hidden<'py>(&self, py: Python<'py>, query: &[u8], key: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let key = name(key)?;
        let (admitted, _) = short(py, || self.desk()?.admit_hidden(query, &key).map_err(declined))?;
        let answer = long(py, None, move |_| admitted.answer(&mut generator()?).map_err(declined))?;
        Ok(PyBytes::new(py, &answer))
    }

    /// The remaining tests of a client; none if it is not registered.
    fn tests_left(&self, client: &[u8]) -> PyResult<Option<u64>> {
        let client = name(client)?;
        Ok(self.desk()?.tests_left(&client))
    }

    /// Answers a query, and charges its client's budget.
    fn answer<'py>(&self, py: Python<'py>, query: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (admitted, _) = short(py, || self.desk()?.admit(query).map_err(declined))?;
        let answer = long(py, None, move |_| admitted.answer(&mut generator()?).map_err(declined))?;
        Ok(PyBytes::new(py, &answer))
    }

    fn __repr__(&self) -> &'static str {
        "<search.Server>"
    }
}
