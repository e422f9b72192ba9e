//! The owner's table.

use super::client::{self, Asked};
use crate::arrays;
use crate::errors::{failed, fault, malformed};
use crate::randomness::generator;
use crate::work::{Progress, Watch, long};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;
use tobari_search::table::{
    self, Content, KeyTable, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Site, decode_table, encode_table,
};
use tobari_search_files::variants::{PhaseSets, Selection, VariantReader};

/// Entries that are read from Python between two checks for Ctrl-C.
const ENTRIES: usize = 1 << 12;

/// A table: keys with counts, or a phased panel of haplotypes.
#[pyclass(frozen, module = "tobari.search")]
pub(super) struct Table {
    pub(super) inner: Arc<table::Table>,
}

/// The chromosome, and the positions and alleles of its sites.
struct Sites {
    chromosome: String,
    positions: Vec<u64>,
    references: Vec<String>,
    alternates: Vec<String>,
}

impl Table {
    fn new(content: Content, min_count: u32, label: &str) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(table::Table::new(content, min_count.max(1), label, &mut generator()?)) })
    }
}

fn in_sites<'a, 'py>(progress: Option<&'a Bound<'py, PyAny>>) -> Progress<'a, 'py> {
    progress.map(|progress| (progress, "sites"))
}

fn panel(rows: &[Vec<bool>], sites: Sites, watch: &Watch) -> PyResult<Content> {
    let count = rows.len();
    watch.expect(count);
    let lengths = [sites.positions.len(), sites.references.len(), sites.alternates.len()];
    if let Some(found) = lengths.into_iter().find(|length| *length != count) {
        return Err(failed(format!(
            "expected a position, reference and alternate allele for each of {count} sites, found {found}"
        )));
    }
    let mut content = Content::panel(rows.first().map_or(0, Vec::len)).map_err(failed)?;
    let chromosome: Arc<str> = sites.chromosome.into();
    let alleles = sites.references.into_iter().zip(sites.alternates);
    for ((row, position), (reference, alternate)) in rows.iter().zip(sites.positions).zip(alleles) {
        let (reference, alternate) = (reference.into(), alternate.into());
        let site = Site { chromosome: Arc::clone(&chromosome), position, id: None, reference, alternate };
        content.push_site(site, row).map_err(failed)?;
        watch.step()?;
    }
    Ok(content)
}

#[pymethods]
impl Table {
    /// A table of keys with counts. Keys are `bytes`; a key may appear several times.
    #[staticmethod]
    #[pyo3(signature = (entries, label="", min_count=1))]
    fn from_keys(py: Python<'_>, entries: &Bound<'_, PyAny>, label: &str, min_count: u32) -> PyResult<Self> {
        let one = |(number, entry): (usize, PyResult<Bound<'_, PyAny>>)| {
            if number % ENTRIES == 0 {
                py.check_signals()?;
            }
            entry?.extract::<(Vec<u8>, u64)>()
        };
        let entries = entries.try_iter()?.enumerate().map(one).collect::<PyResult<Vec<_>>>()?;
        let keys = long(py, None, move |watch| {
            let mut builder = KeyTableBuilder::new();
            for (key, count) in &entries {
                builder.push(key, *count).map_err(failed)?;
                watch.wanted()?;
            }
            builder.finish(LIMB_BITS, MAX_COUNT, &mut generator()?).map_err(failed)
        })?;
        Self::new(Content::Keys(keys), min_count, label)
    }

    /// A phased panel: a row for each site, in the order of positions, and a column for each
    /// haplotype; 1 is the alternate allele. Progress is in sites.
    #[staticmethod]
    #[pyo3(signature = (alleles, positions, references, alternates, chromosome="1", label="", min_count=1, progress=None))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn from_panel(
        py: Python<'_>,
        alleles: &Bound<'_, PyAny>,
        positions: Vec<u64>,
        references: Vec<String>,
        alternates: Vec<String>,
        chromosome: &str,
        label: &str,
        min_count: u32,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let rows = arrays::bits(alleles)?;
        let sites = Sites { chromosome: chromosome.to_owned(), positions, references, alternates };
        let content = long(py, in_sites(progress), move |watch| panel(&rows, sites, watch))?;
        Self::new(content, min_count, label)
    }

    /// The phased variants of a .vcf, .vcf.gz or .bcf file. `tobari search index` has more options.
    /// Progress is in sites, with a total of 0: their number is known only at the end.
    #[staticmethod]
    #[pyo3(signature = (path, label="", min_count=1, progress=None))]
    fn from_vcf(
        py: Python<'_>,
        path: PathBuf,
        label: &str,
        min_count: u32,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let content = long(py, in_sites(progress), move |watch| {
            let mut reader = VariantReader::open(&path, Selection::default()).map_err(malformed)?;
            let (mut content, mut sets): (Option<Content>, _) = (None, PhaseSets::default());
            while let Some(variant) = reader.next_variant().map_err(malformed)? {
                watch.step()?;
                if !variant.phased {
                    return Err(malformed(
                        "a genotype is not phased (as 0|1): phase the file, or index it with `tobari search index`",
                    ));
                }
                sets.join(&variant).map_err(malformed)?;
                let content = match &mut content {
                    Some(content) => content,
                    none => none.insert(Content::panel(variant.alleles.len()).map_err(failed)?),
                };
                let site = Site {
                    chromosome: variant.chromosome,
                    position: variant.position,
                    id: variant.id,
                    reference: variant.reference,
                    alternate: variant.alternate,
                };
                content.push_site(site, &variant.alleles).map_err(failed)?;
            }
            content.ok_or_else(|| malformed("expected at least one variant to keep, found none"))
        })?;
        Self::new(content, min_count, label)
    }

    /// Reads the bytes of `to_bytes`: a `.tsi` file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let data = data.to_vec();
        let table = long(py, None, move |_| decode_table(&data).map_err(malformed))?;
        Ok(Self { inner: Arc::new(table) })
    }

    /// Its bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let table = Arc::clone(&self.inner);
        let bytes = long(py, None, move |_| Ok(encode_table(&table)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The random name of the table; it stays the same when entries are added.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.name)
    }

    /// The owner's name for the table; clients see it.
    #[getter]
    fn label(&self) -> &str {
        &self.inner.label
    }

    /// The kind: keys, panel, or variants (without phase).
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.inner.content {
            Content::Panel { .. } => "panel",
            Content::Variants { .. } => "variants",
            Content::Keys(_) => "keys",
        }
    }

    /// The number of keys, or of sites.
    fn __len__(&self) -> usize {
        match &self.inner.content {
            Content::Keys(keys) => keys.len(),
            other => other.sites().map_or(0, table::Sites::len),
        }
    }

    /// The description for clients: no key, no allele, no count. `labels` is whether the table is
    /// served with labels.
    #[pyo3(signature = (labels=false))]
    fn told<'py>(&self, py: Python<'py>, labels: bool) -> PyResult<Bound<'py, PyBytes>> {
        let table = Arc::clone(&self.inner);
        let bytes = long(py, None, move |_| Ok(client::told(&table, labels)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Counts the occurrences in the unencrypted table: of `key`, or of `alleles` (as 0101) from
    /// `site` (as chr20:1000000) on.
    #[pyo3(signature = (key=None, site=None, alleles=None))]
    fn count(&self, key: Option<Vec<u8>>, site: Option<&str>, alleles: Option<&str>) -> PyResult<u64> {
        let asked = Asked::new(key, site, alleles, self.inner.content.sites())?;
        self.inner.count(&asked.borrow()).map_err(failed)
    }

    /// The number of alleles that occur together from the first on, in the unencrypted table.
    fn longest(&self, site: &str, alleles: &str) -> PyResult<usize> {
        let asked = Asked::new(None, Some(site), Some(alleles), self.inner.content.sites())?;
        self.inner.longest(&asked.borrow()).map_err(failed)
    }

    /// Splits a table of keys into `count` parts of the same name. Each key is in one part, so the
    /// sum of the parts' answers to one query is the answer of the whole table.
    fn shards(&self, py: Python<'_>, count: usize) -> PyResult<Vec<Self>> {
        let Content::Keys(keys) = &self.inner.content else {
            return Err(failed(format!(
                "expected a table of keys, found one of kind {}: cut a panel's columns instead",
                self.kind()
            )));
        };
        if !(1..=keys.len()).contains(&count) {
            return Err(failed(format!("expected 1 to {} parts, found {count}", keys.len())));
        }
        let table = Arc::clone(&self.inner);
        long(py, None, move |watch| {
            let Content::Keys(keys) = &table.content else { return Err(fault()) };
            let part = |keys: KeyTable| {
                let content = Content::Keys(keys);
                let (label, assembly) = (table.label.clone(), table.assembly.clone());
                Self { inner: Arc::new(table::Table { content, label, assembly, ..*table }) }
            };
            Ok(parts(keys, count, watch)?.into_iter().map(part).collect())
        })
    }

    fn __repr__(&self) -> String {
        let what = if self.kind() == "keys" { "keys" } else { "sites" };
        format!("<search.Table {:?} of kind {}: {} {what}>", self.label(), self.kind(), self.__len__())
    }
}

/// Splits the sorted keys into ranges; the sizes of the parts differ by at most one.
fn parts(keys: &KeyTable, count: usize, watch: &Watch) -> PyResult<Vec<KeyTable>> {
    let entries: Vec<(u128, u32)> = keys.entries().collect();
    let cut = |part: usize| entries.len() * part / count;
    let of = |part: usize| {
        watch.wanted()?;
        let entries = &entries[cut(part)..cut(part + 1)];
        let (numbers, counts) = entries.iter().copied().unzip();
        KeyTable::from_parts(*keys.rule(), numbers, counts).map_err(failed)
    };
    (0..count).map(of).collect()
}
