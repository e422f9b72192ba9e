//! The server of a search: it has tables, and no key.

use super::table::Table;
use crate::errors::{failed, fault, refused};
use crate::randomness::generator;
use crate::work::{long, short};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, MutexGuard};
use tobari_search::desk::{Limits, SearchService};

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

#[pymethods]
impl Server {
    /// A server without tables. `tests` limits a client's tests in all (a longest match takes
    /// several), `region_tests` those in any 100,000 bases, `uses` the blocks of answers of a key,
    /// and `clients` the number of clients.
    #[new]
    #[pyo3(signature = (tests=None, region_tests=None, uses=None, clients=None))]
    fn new(tests: Option<u64>, region_tests: Option<u64>, uses: Option<u32>, clients: Option<usize>) -> Self {
        let limits = Limits::default();
        let tests = tests.unwrap_or(limits.tests);
        let region_tests = region_tests.unwrap_or(limits.region_tests);
        let uses = uses.unwrap_or(limits.uses);
        let clients = clients.unwrap_or(limits.clients);
        let limits = Limits { clients, tests, region_tests, uses, ..limits };
        Self { desk: Arc::new(Mutex::new(SearchService::new(limits))) }
    }

    /// Serves a table; it replaces a table of the same name.
    fn serve(&self, py: Python<'_>, table: &Table) -> PyResult<()> {
        let (desk, table) = (Arc::clone(&self.desk), Arc::clone(&table.inner));
        long(py, None, move |watch| {
            let table = tobari_search::table::Table::clone(&table);
            watch.wanted()?;
            desk.lock().map_err(|_| fault())?.serve_table(table).map_err(refused)
        })
    }

    /// Registers a client's key for questions of a set of parameters.
    fn register(&self, py: Python<'_>, client: &[u8], set: &str, registration: &[u8]) -> PyResult<()> {
        let client = name(client)?;
        short(py, || self.desk()?.register(client, set, registration).map_err(refused))
    }

    /// The remaining tests of a client; none if it is not registered.
    fn tests_left(&self, client: &[u8]) -> PyResult<Option<u64>> {
        let client = name(client)?;
        Ok(self.desk()?.tests_left(&client))
    }

    /// Answers a query, and charges its client's budget.
    fn answer<'py>(&self, py: Python<'py>, query: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (admitted, _) = short(py, || self.desk()?.admit(query).map_err(refused))?;
        let answer = long(py, None, move |_| admitted.answer(&mut generator()?).map_err(refused))?;
        Ok(PyBytes::new(py, &answer))
    }

    fn __repr__(&self) -> &'static str {
        "<search.Server>"
    }
}
