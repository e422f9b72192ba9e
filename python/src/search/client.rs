//! The client of a search.

use crate::errors::{failed, fault, malformed};
use crate::randomness::generator;
use crate::work::{long, short};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use tobari_lattice::rlwe::SecretKey;
use tobari_octets::hex;
use tobari_search::client::{Asker, MatchResult};
use tobari_search::fullness::Fullness;
use tobari_search::hidden::cells::Coordinate;
use tobari_search::hidden::numbers::Kind;
use tobari_search::hidden::question::HiddenPrepared;
use tobari_search::hidden::{self, arrangement};
use tobari_search::identity;
use tobari_search::messages::CLIENT_BYTES;
use tobari_search::program::sets;
use tobari_search::question::{self, Wish, pattern};
use tobari_search::server::Granularity;
use tobari_search::table::{self, CatalogueContent, Question, Sites};

/// The description of a table for clients.
pub(super) fn told(table: &table::Table) -> Vec<u8> {
    let catalogue = table.catalogue().encode();
    let length = (catalogue.len() as u64).to_be_bytes();
    [&length[..], &catalogue, &Fullness::of(table).encode()].concat()
}

/// A question that owns its key.
pub(super) enum Asked {
    Window { start: usize, length: usize, pattern: u128 },
    Key(Vec<u8>),
}

impl Asked {
    /// A question about a key, or about a site and alleles.
    pub(super) fn new(
        key: Option<Vec<u8>>,
        site: Option<&str>,
        alleles: Option<&str>,
        sites: Option<&Sites>,
    ) -> PyResult<Self> {
        match (key, site, alleles, sites) {
            (Some(key), None, None, None) => Ok(Self::Key(key)),
            (None, Some(site), Some(alleles), Some(sites)) => {
                let (pattern, length) = pattern(alleles).map_err(failed)?;
                Ok(Self::Window { start: sites.named(site).map_err(failed)?, length, pattern })
            }
            (.., None) => Err(failed("expected a key, because the table is one of keys, found another question")),
            _ => Err(failed("expected a site and alleles, because the table is one of sites, found another question")),
        }
    }

    pub(super) fn borrow(&self) -> Question<'_> {
        match self {
            &Self::Window { start, length, pattern } => Question::Window { start, length, pattern },
            Self::Key(key) => Question::Key(key),
        }
    }
}

/// The public description of a table: no key, no allele, no count.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Catalogue {
    catalogue: table::Catalogue,
    fullness: Fullness,
}

#[pymethods]
impl Catalogue {
    /// Reads the server's description.
    #[new]
    fn new(py: Python<'_>, told: &[u8]) -> PyResult<Self> {
        short(py, || {
            let few = || malformed("the description of the table is too short");
            let (length, rest) = told.split_first_chunk().ok_or_else(few)?;
            let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| few())?;
            let (catalogue, fullness) = rest.split_at_checked(length).ok_or_else(few)?;
            let catalogue = table::Catalogue::decode(catalogue).map_err(malformed)?;
            Ok(Self { catalogue, fullness: Fullness::decode(fullness).map_err(malformed)? })
        })
    }

    /// The table's name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.catalogue.name)
    }

    /// The owner's name for the table.
    #[getter]
    fn label(&self) -> &str {
        &self.catalogue.label
    }

    /// The kind: keys, panel, or variants (without phase).
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.catalogue.content {
            CatalogueContent::Panel { .. } => "panel",
            CatalogueContent::Variants { .. } => "variants",
            CatalogueContent::Keys { .. } => "keys",
        }
    }

    /// Sites, each as chr20:1000000:A:G; empty for a table of keys.
    #[getter]
    fn sites(&self) -> Vec<String> {
        self.catalogue.sites().map(|sites| sites.iter().map(|site| site.to_string()).collect()).unwrap_or_default()
    }

    /// The least count: a key or haplotype with fewer occurrences counts as absent.
    #[getter]
    fn min_count(&self) -> u32 {
        self.catalogue.least
    }

    /// Prepares a question: `key`, or `site` and `alleles`, whose place the server sees. Without
    /// `counts` the answer says only whether a match occurs; with `longest`, how many of the
    /// alleles occur from the first on.
    #[pyo3(signature = (key=None, site=None, alleles=None, counts=true, longest=false))]
    fn prepare(
        &self,
        py: Python<'_>,
        key: Option<Vec<u8>>,
        site: Option<&str>,
        alleles: Option<&str>,
        counts: bool,
        longest: bool,
    ) -> PyResult<Prepared> {
        let asked = Asked::new(key, site, alleles, self.catalogue.sites())?;
        let granularity = if counts { Granularity::Count } else { Granularity::Boolean };
        let wish = Wish { granularity, longest };
        let of = (&self.catalogue, &self.fullness);
        let inner = short(py, || question::Prepared::new(of, &asked.borrow(), wish).map_err(failed))?;
        Ok(Prepared { inner: Arc::new(inner) })
    }

    /// Prepares a question whose place hides: in its cell, or with `whole` in the whole table.
    #[pyo3(signature = (site, alleles, counts=true, whole=false))]
    fn prepare_hidden(
        &self,
        py: Python<'_>,
        site: &str,
        alleles: &str,
        counts: bool,
        whole: bool,
    ) -> PyResult<HiddenQuestion> {
        let asked = Asked::new(None, Some(site), Some(alleles), self.catalogue.sites())?;
        let question = asked.borrow();
        let start = if let Question::Window { start, .. } = question { start } else { 0 };
        let cell = self.catalogue.sites().and_then(|sites| Coordinate::of(sites, start)).filter(|_| !whole);
        let kind = Kind::of(&question);
        let prepared =
            short(py, || HiddenPrepared::new(&self.catalogue, kind, cell.as_ref(), Some(&question)).map_err(failed))?;
        let granularity = if counts { Granularity::Count } else { Granularity::Boolean };
        Ok(HiddenQuestion { prepared, cell: cell.map(|cell| cell.to_string()), granularity })
    }

    fn __repr__(&self) -> String {
        let what = match &self.catalogue.content {
            CatalogueContent::Keys { entries, .. } => format!("{entries} keys"),
            _ => format!("{} sites", self.catalogue.sites().map_or(0, Sites::len)),
        };
        format!("<search.Catalogue {:?} of kind {}: {what}>", self.label(), self.kind())
    }
}

/// A client: one secret from which its keys are derived. Its secret is never printed or pickled,
/// and is wiped on release.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Identity {
    inner: Arc<identity::Identity>,
}

#[pymethods]
impl Identity {
    /// A new client from the system's randomness.
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self { inner: Arc::new(identity::Identity::generate(&mut generator()?)) })
    }

    /// Reads the bytes of `to_bytes`: the file of `tobari search keygen`.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(identity::Identity::decode(data).map_err(malformed)?) })
    }

    /// The whole secret: Python's copy is not wiped.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.encode())
    }

    /// The client's name on servers without tokens. Public.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.name())
    }

    /// The key for questions of a set of parameters, by its `generation`: servers limit the uses of
    /// a key.
    #[pyo3(signature = (set, generation=0))]
    fn key(&self, py: Python<'_>, set: &str, generation: u64) -> PyResult<Key> {
        let hidden = arrangement::set().filter(|known| known.name == set);
        let set = sets().find(|known| known.name == set).or(hidden);
        let set = set.ok_or_else(|| failed("expected a set of parameters for searches, found another"))?;
        let identity = Arc::clone(&self.inner);
        let (secret, registration) = long(py, None, move |_| match hidden {
            Some(set) => identity.hidden_key(&set, generation).map_err(failed),
            None => identity.key(&set, generation).map_err(failed),
        })?;
        Ok(Key { set: set.name, secret: Arc::new(secret), registration })
    }

    fn __repr__(&self) -> String {
        let name = hex(&self.inner.name()[..4]);
        format!("<search.Identity {name}>")
    }
}

/// A client's key for one set of parameters. Its secret is never printed or pickled, and is wiped
/// on release.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Key {
    set: &'static str,
    secret: Arc<SecretKey>,
    registration: Vec<u8>,
}

#[pymethods]
impl Key {
    /// The name of the set.
    #[getter]
    fn set(&self) -> &'static str {
        self.set
    }

    /// The registration for a server. Public.
    #[getter]
    fn registration<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.registration)
    }

    fn __repr__(&self) -> String {
        format!("<search.Key of {}>", self.set)
    }
}

/// A prepared question whose place hides, not encrypted yet.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct HiddenQuestion {
    prepared: HiddenPrepared,
    cell: Option<String>,
    granularity: Granularity,
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
        arrangement::set().map(|set| set.name).ok_or_else(fault)
    }

    /// The query's bytes for the server's layout; `client` is the client's name on the server.
    fn query<'py>(&self, py: Python<'py>, layout: &[u8], key: &Key, client: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
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
    fn read(&self, py: Python<'_>, layout: &[u8], key: &Key, answer: &[u8]) -> PyResult<(bool, Option<u64>)> {
        let found = short(py, || {
            let asker = hidden::client::Asker::new(&key.secret).map_err(failed)?;
            let target = self.prepared.target(layout, asker.parameters()).map_err(malformed)?;
            target.read(&asker, answer).map_err(malformed)
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

/// A client's name on a server.
fn named(client: &[u8]) -> PyResult<[u8; CLIENT_BYTES]> {
    client.try_into().map_err(|_| failed(format!("expected a client's name of 16 bytes, found {}", client.len())))
}

/// A prepared question, not encrypted yet.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Prepared {
    inner: Arc<question::Prepared>,
}

impl Prepared {
    fn fits(&self, key: &Key) -> PyResult<()> {
        let (expected, found) = (self.inner.set().name, key.set);
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
        self.inner.set().name
    }

    /// `log2` of a bound on the probability of a false match; none if false matches are impossible.
    #[getter]
    fn false_matches(&self) -> Option<f64> {
        self.inner.false_matches()
    }

    /// The query's bytes; `client` is the client's name on the server.
    fn query<'py>(&self, py: Python<'py>, key: &Key, client: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        self.fits(key)?;
        let client = named(client)?;
        let query = short(py, || {
            let asker = Asker::new(&key.secret).map_err(failed)?;
            self.inner.query(&asker, client, &mut generator()?).map_err(failed)
        })?;
        Ok(PyBytes::new(py, &query))
    }

    /// Decrypts an answer: whether there is a match, the number of occurrences (if asked for), and
    /// the number of alleles that occur from the first on (if asked for).
    fn read(&self, py: Python<'_>, key: &Key, answer: &[u8]) -> PyResult<(bool, Option<u64>, Option<usize>)> {
        self.fits(key)?;
        let found = short(py, || {
            let asker = Asker::new(&key.secret).map_err(failed)?;
            self.inner.read(&asker, answer).map_err(malformed)
        })?;
        Ok(match found {
            MatchResult::Absent => (false, None, None),
            MatchResult::Present(count) => (true, count, None),
            MatchResult::Longest(sites, count) => (true, count, Some(sites)),
        })
    }
}
