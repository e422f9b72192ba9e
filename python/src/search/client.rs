//! The client of a search: tables as clients see them, and keys.

use super::question::{HiddenQuestion, Prepared};
use crate::errors::{failed, malformed};
use crate::randomness::generator;
use crate::work::{long, short};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use tobari_lattice::rlwe::SecretKey;
use tobari_octets::hex;
use tobari_search::fullness::{Fullness, most_keys};
use tobari_search::hidden::arrangement;
use tobari_search::hidden::numbers::Kind;
use tobari_search::hidden::question::{AboutSite, HiddenPrepared};
use tobari_search::identity;
use tobari_search::program::sets;
use tobari_search::question::labelled::PreparedLabelled;
use tobari_search::question::{self, Wish, pattern};
use tobari_search::server::Granularity;
use tobari_search::table::{self, CatalogueContent, Question, Sites};

/// The description of a table for clients. With labels, all windows look as full as the fullest.
pub(super) fn told(table: &table::Table, labels: bool) -> Vec<u8> {
    let (catalogue, fullness) = (table.catalogue().encode(), Fullness::of(table));
    let fullness = if labels { fullness.levelled() } else { fullness };
    let length = (catalogue.len() as u64).to_be_bytes();
    [&length[..], &catalogue, &fullness.encode()].concat()
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
    /// The most labels of a question, for a table with labels.
    labels: Option<u64>,
}

#[pymethods]
impl Catalogue {
    /// Reads the server's description. `labels` is the most labels of a question, for a table with
    /// labels; none for a table without.
    #[new]
    #[pyo3(signature = (told, labels=None))]
    fn new(py: Python<'_>, told: &[u8], labels: Option<u64>) -> PyResult<Self> {
        short(py, || {
            let few = || malformed("the description of the table is too short");
            let (length, rest) = told.split_first_chunk().ok_or_else(few)?;
            let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| few())?;
            let (catalogue, fullness) = rest.split_at_checked(length).ok_or_else(few)?;
            let catalogue = table::Catalogue::decode(catalogue).map_err(malformed)?;
            Ok(Self { catalogue, fullness: Fullness::decode(fullness).map_err(malformed)?, labels })
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

    /// The most labels of a question; none for a table without labels.
    #[getter]
    fn labels(&self) -> Option<u64> {
        self.labels
    }

    /// Whether the table has more keys than one answer compares. Its keys hide as places do.
    #[getter]
    fn large(&self) -> bool {
        let slots = sets().last().map_or(0, |set| set.degree);
        matches!(self.fullness, Fullness::Keys(keys) if keys > most_keys(slots))
    }

    /// Whether this table has all sites of an `earlier` one, under the same numbers and with
    /// positions of the same assembly.
    fn has_grown_from(&self, py: Python<'_>, earlier: &Self) -> PyResult<bool> {
        short(py, || Ok(self.catalogue.has_grown_from(&earlier.catalogue)))
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
        short(py, || match self.labels {
            None => Ok(Prepared::plain(question::Prepared::new(of, &asked.borrow(), wish).map_err(failed)?)),
            Some(most) => {
                let prepared = PreparedLabelled::new(of, &asked.borrow(), wish).map_err(failed)?;
                // before it is paid for
                prepared.check(most).map_err(failed)?;
                Ok(Prepared::labels(prepared))
            }
        })
    }

    /// Prepares a question whose place hides: in its cell, or with `whole` in the whole table. A
    /// `key` hides in the whole table only.
    #[pyo3(signature = (key=None, site=None, alleles=None, counts=true, whole=false))]
    fn prepare_hidden(
        &self,
        py: Python<'_>,
        key: Option<Vec<u8>>,
        site: Option<&str>,
        alleles: Option<&str>,
        counts: bool,
        whole: bool,
    ) -> PyResult<HiddenQuestion> {
        let granularity = if counts { Granularity::Count } else { Granularity::Boolean };
        let labels = self.labels.is_some();
        let sites = self.catalogue.sites();
        let (prepared, asked, cell) = match (&key, site, alleles) {
            (None, Some(site), Some(alleles)) => {
                let AboutSite { prepared, cell, question } =
                    short(py, || AboutSite::new(&self.catalogue, site, alleles, whole).map_err(failed))?;
                let asked = match question {
                    Ok(_) => Ok(Asked::new(None, Some(site), Some(alleles), sites)?),
                    Err(why) => Err(why),
                };
                (prepared, asked, cell.map(|cell| cell.to_string()))
            }
            _ => {
                let asked = Asked::new(key, site, alleles, sites)?;
                let question = asked.borrow();
                let prepared = short(py, || {
                    HiddenPrepared::new(&self.catalogue, Kind::of(&question), None, Some(&question)).map_err(failed)
                })?;
                (prepared, Ok(asked), None)
            }
        };
        Ok(HiddenQuestion::new(prepared, asked, labels, (cell, granularity)))
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
    pub(super) set: &'static str,
    pub(super) secret: Arc<SecretKey>,
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
