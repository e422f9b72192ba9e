//! Who asks.

use crate::errors::{failed, malformed};
use crate::randomness::generator;
use crate::work::{long, short};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use tobari_lattice::rlwe::SecretKey;
use tobari_octets::hex;
use tobari_search::client::{Asker, MatchResult};
use tobari_search::fullness::Fullness;
use tobari_search::identity;
use tobari_search::program::sets;
use tobari_search::question::{self, Wish, pattern};
use tobari_search::server::Granularity;
use tobari_search::table::{self, CatalogueContent, Question, Sites};

/// What is told of a table.
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
    /// Of a key, or of a site and alleles.
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

/// What is known of a table before it is asked: no key, no allele, no count.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Catalogue {
    catalogue: table::Catalogue,
    fullness: Fullness,
}

#[pymethods]
impl Catalogue {
    /// Of the bytes that a server tells.
    #[new]
    fn new(py: Python<'_>, told: &[u8]) -> PyResult<Self> {
        short(py, || {
            let few = || malformed("expected what is told of a table, found fewer bytes");
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

    /// What its owner calls it.
    #[getter]
    fn label(&self) -> &str {
        &self.catalogue.label
    }

    /// keys, panel, or variants (without phase).
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.catalogue.content {
            CatalogueContent::Panel { .. } => "panel",
            CatalogueContent::Variants { .. } => "variants",
            CatalogueContent::Keys { .. } => "keys",
        }
    }

    /// Sites, each as chr20:1000000:A:G; none of a table of keys.
    #[getter]
    fn sites(&self) -> Vec<String> {
        self.catalogue.sites().map(|sites| sites.iter().map(|site| site.to_string()).collect()).unwrap_or_default()
    }

    /// What occurs fewer times is as if it were absent.
    #[getter]
    fn min_count(&self) -> u32 {
        self.catalogue.least
    }

    /// A question, ready to be encrypted: `key`, or `site` and `alleles`. `places` hides the true
    /// place among so many, of one question only; without `counts` only whether it occurs is told;
    /// with `longest`, how many of the alleles occur from the first on.
    #[pyo3(signature = (identity, key=None, site=None, alleles=None, places=1, counts=true, longest=false))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn prepare(
        &self,
        py: Python<'_>,
        identity: &Identity,
        key: Option<Vec<u8>>,
        site: Option<&str>,
        alleles: Option<&str>,
        places: u32,
        counts: bool,
        longest: bool,
    ) -> PyResult<Prepared> {
        let asked = Asked::new(key, site, alleles, self.catalogue.sites())?;
        let granularity = if counts { Granularity::Count } else { Granularity::Boolean };
        let wish = Wish { granularity, longest, places };
        let of = (&self.catalogue, &self.fullness);
        let inner =
            short(py, || question::Prepared::new(of, &asked.borrow(), wish, identity.inner.decoys()).map_err(failed))?;
        Ok(Prepared { inner: Arc::new(inner) })
    }

    fn __repr__(&self) -> String {
        let what = match &self.catalogue.content {
            CatalogueContent::Keys { entries, .. } => format!("{entries} keys"),
            _ => format!("{} sites", self.catalogue.sites().map_or(0, Sites::len)),
        };
        format!("<search.Catalogue {:?} of kind {}: {what}>", self.label(), self.kind())
    }
}

/// A client: one secret of which its keys follow. It is not printed, not pickled, and wiped when it
/// goes.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Identity {
    inner: Arc<identity::Identity>,
}

#[pymethods]
impl Identity {
    /// A new one, of the system's randomness.
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self { inner: Arc::new(identity::Identity::generate(&mut generator()?)) })
    }

    /// The one that `to_bytes` wrote: the file of `tobari search keygen`.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(identity::Identity::decode(data).map_err(malformed)?) })
    }

    /// All of it, secret: Python's copy is not wiped.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.encode())
    }

    /// What servers call it, where there is no token. Public.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.name())
    }

    /// The key for questions of a set of parameters, in its `generation`-th edition: servers limit
    /// how often one is used.
    #[pyo3(signature = (set, generation=0))]
    fn key(&self, py: Python<'_>, set: &str, generation: u64) -> PyResult<Key> {
        let set = sets().find(|known| known.name == set);
        let set = set.ok_or_else(|| failed("expected a set of parameters for searches, found another"))?;
        let identity = Arc::clone(&self.inner);
        let (secret, registration) = long(py, None, move |_| identity.key(&set, generation).map_err(failed))?;
        Ok(Key { set: set.name, secret: Arc::new(secret), registration })
    }

    fn __repr__(&self) -> String {
        let name = hex(&self.inner.name()[..4]);
        format!("<search.Identity {name}>")
    }
}

/// A client's key for one set of parameters. It is not printed, not pickled, and wiped when it
/// goes.
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

    /// What a server has to know of it. Public.
    #[getter]
    fn registration<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.registration)
    }

    fn __repr__(&self) -> String {
        format!("<search.Key of {}>", self.set)
    }
}

/// A question that is ready to be encrypted.
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
    /// The set of parameters whose key asks it.
    #[getter]
    fn set(&self) -> &'static str {
        self.inner.set().name
    }

    /// `log2` of a bound on the probability of a false match; none where there is none.
    #[getter]
    fn false_matches(&self) -> Option<f64> {
        self.inner.false_matches()
    }

    /// The query's bytes, of a client that the server calls so.
    fn query<'py>(&self, py: Python<'py>, key: &Key, client: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        self.fits(key)?;
        let client = client
            .try_into()
            .map_err(|_| failed(format!("expected a client's name of 16 bytes, found {}", client.len())))?;
        let query = short(py, || {
            let asker = Asker::new(&key.secret).map_err(failed)?;
            self.inner.query(&asker, client, &mut generator()?).map_err(failed)
        })?;
        Ok(PyBytes::new(py, &query))
    }

    /// Reads an answer: whether it occurs, how often (if that was asked), and how many alleles from
    /// the first on do (if that was asked).
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
