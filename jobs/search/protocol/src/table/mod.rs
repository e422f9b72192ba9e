//! A table as its owner has it: what is in it, its name, and the file it is kept in; and what of it
//! is told to whoever asks.
//!
//! **What is in it** is one of three ([`Content`]): a phased panel, in which haplotypes are
//! counted; variants without phase, in which only the alleles of one site are counted; or any keys.
//! [`Table::count`] answers in the clear what a query asks under encryption.
//!
//! **Who sees what.** The table stays with its owner. Whoever asks gets the [`Catalogue`]: the
//! name, where the sites are or how keys become numbers, how many haplotypes or keys there are, and
//! below what count an entry is left out; no allele, no key and no count.
//!
//! **Names and revisions.** The name is drawn once and stays when something is added, so that
//! clients keep what they made under it; the revision rises. To a panel, sites can be added after
//! the last ([`Content::push_site`]), at the cost of these sites only. Haplotypes cannot: they
//! stand in every site's order, and the panel is made anew. Nor can keys.

mod catalogue;
mod fields;
mod keys;
mod site;
mod tsi;

pub use catalogue::{Catalogue, CatalogueContent, MAX_LABEL_BYTES};
pub use fields::TableBytesError;
pub use keys::{
    FINGERPRINT_KEY_BYTES, KeyForm, KeyRule, KeyTable, KeyTableBuilder, KeyTableError, LIMB_BITS, MAX_COUNT,
    MAX_KEY_BYTES, MAX_KEYS, MAX_LIMBS,
};
pub use site::{MAX_POSITION, MAX_SITES, Site, SiteError, SiteView, Sites, canonical_allele, canonical_chromosome};
#[doc(hidden)]
pub use tsi::fuzz_table;
pub use tsi::{MAX_TABLE_BYTES, decode_table, encode_table};

use super::messages::TABLE_BYTES;
use super::panel::{MAX_LENGTH, Panel, PanelError, Pattern};
use rand_core::CryptoRng;

/// What is in a table.
#[derive(Clone, Debug)]
pub enum Content {
    /// Phased haplotypes.
    Panel {
        /// Where the panel's sites are.
        sites: Sites,
        /// Alleles.
        panel: Panel,
    },
    /// How many alleles 1 there are at each site, without phase.
    Variants {
        /// Where.
        sites: Sites,
        /// Alleles 1, at most `alleles`.
        counts: Vec<u32>,
        /// Alleles that were called at each site.
        alleles: u32,
    },
    /// Keys.
    Keys(KeyTable),
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Drawn once.
    pub name: [u8; TABLE_BYTES],
    /// From 1, and one more with each addition.
    pub revision: u32,
    /// Entries of a lower count are as if they were absent; at least 1.
    pub least: u32,
    /// What the owner calls it, for people.
    pub label: String,
    /// What is in it.
    pub content: Content,
}

/// Something to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// Alleles from a site on: bit `i` is the one at site `start + i`.
    Window {
        /// The first site's number.
        start: usize,
        /// Sites.
        length: usize,
        /// Alleles.
        pattern: Pattern,
    },
    /// A key.
    Key(&'a [u8]),
}

/// Why something cannot be counted or added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Haplotypes in a table without phase.
    #[error(
        "expected one site: this table has no phase (variants that were not phased), so that it cannot be known which alleles are on one haplotype; found {length} sites"
    )]
    Unphased {
        /// Sites asked for.
        length: usize,
    },
    /// Keys in a table of sites, or sites in one of keys.
    #[error("expected a question for {expected}, found one for {found}")]
    Kind {
        /// What is in the table.
        expected: &'static str,
        /// What is asked for.
        found: &'static str,
    },
    /// More alleles 1 than alleles.
    #[error("expected at most {alleles} alleles at {site}, found {found}")]
    Alleles {
        /// The site.
        site: String,
        /// Alleles of the table.
        alleles: u32,
        /// Found.
        found: u32,
    },
    /// What the panel says.
    #[error(transparent)]
    Panel(#[from] PanelError),
    /// What the sites say.
    #[error(transparent)]
    Site(#[from] SiteError),
}

impl Content {
    /// A panel of so many haplotypes, without a site.
    ///
    /// # Errors
    /// [`TableError::Panel`].
    pub fn panel(haplotypes: usize) -> Result<Self, TableError> {
        Ok(Self::Panel { sites: Sites::new(), panel: Panel::new(haplotypes)? })
    }

    /// The sites; none in a table of keys.
    pub fn sites(&self) -> Option<&Sites> {
        match self {
            Content::Panel { sites, .. } | Content::Variants { sites, .. } => Some(sites),
            Content::Keys(_) => None,
        }
    }

    /// Adds a site after the last, with everybody's alleles: `true` is the alternate one. A panel
    /// keeps them; variants without phase keep their number.
    ///
    /// # Errors
    /// [`TableError`]; the table is as it was.
    pub fn push_site(&mut self, site: Site, values: &[bool]) -> Result<(), TableError> {
        match self {
            Content::Panel { sites, panel } => {
                let (expected, found) = (panel.haplotypes(), values.len());
                if expected != found {
                    return Err(PanelError::Alleles { site: panel.sites(), expected, found }.into());
                }
                sites.push(site)?;
                Ok(panel.push(values)?)
            }
            Content::Variants { sites, counts, alleles } => {
                let found = u32::try_from(values.len()).unwrap_or(u32::MAX);
                if found != *alleles {
                    return Err(TableError::Alleles { site: site.to_string(), alleles: *alleles, found });
                }
                sites.push(site)?;
                counts.push(values.iter().map(|value| u32::from(*value)).sum());
                Ok(())
            }
            Content::Keys(_) => Err(TableError::Kind { expected: "keys", found: "sites" }),
        }
    }
}

impl Table {
    /// A new table, with a name that is drawn.
    pub fn new(content: Content, least: u32, label: &str, rng: &mut impl CryptoRng) -> Self {
        let mut name = [0; TABLE_BYTES];
        rng.fill_bytes(&mut name);
        let label = label.chars().filter(|c| !c.is_control()).scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= MAX_LABEL_BYTES).then_some(c)
        });
        Self { name, revision: 1, least: least.max(1), label: label.collect(), content }
    }

    /// What is told of it.
    pub fn catalogue(&self) -> Catalogue {
        let Self { name, revision, least, ref label, ref content } = *self;
        let content = match content {
            Content::Panel { sites, panel } => {
                CatalogueContent::Panel { sites: sites.clone(), haplotypes: panel.haplotypes() as u32 }
            }
            Content::Variants { sites, alleles, .. } => {
                CatalogueContent::Variants { sites: sites.clone(), alleles: *alleles }
            }
            Content::Keys(keys) => CatalogueContent::Keys { rule: *keys.rule(), entries: keys.len() as u64 },
        };
        Catalogue { name, revision, least, label: label.clone(), content }
    }

    /// How often it occurs; zero below the least count.
    ///
    /// # Errors
    /// [`TableError`] for a question that this table does not answer.
    pub fn count(&self, question: &Question<'_>) -> Result<u64, TableError> {
        let count = match (&self.content, *question) {
            (Content::Panel { sites, panel }, Question::Window { start, length, pattern }) => {
                check_length(length)?;
                sites.check_window(start, length)?;
                panel.count(start, length, pattern)?
            }
            (Content::Variants { sites, counts, alleles }, Question::Window { start, length, pattern }) => {
                check_phase(sites, start, length)?;
                let ones = counts.get(start).copied().unwrap_or(0);
                if pattern & 1 == 1 { ones } else { alleles - ones }
            }
            (Content::Keys(keys), Question::Key(key)) => keys.count(key),
            _ => return Err(self.kind(question)),
        };
        Ok(if count < self.least { 0 } else { u64::from(count) })
    }

    /// How many alleles of a window, from the first on, at least the least number of haplotypes
    /// have.
    ///
    /// # Errors
    /// [`TableError`] for a question that this table does not answer; a key has no part.
    pub fn longest(&self, question: &Question<'_>) -> Result<usize, TableError> {
        match (&self.content, *question) {
            (Content::Panel { sites, panel }, Question::Window { start, length, pattern }) => {
                check_length(length)?;
                sites.check_window(start, length)?;
                Ok(panel.longest_of(start, length, pattern, self.least)?)
            }
            (Content::Variants { .. }, Question::Window { .. }) => Ok(usize::from(self.count(question)? > 0)),
            _ => Err(self.kind(question)),
        }
    }

    fn kind(&self, question: &Question<'_>) -> TableError {
        let of = |keys| if keys { "keys" } else { "alleles at sites" };
        let (table, asked) = (matches!(self.content, Content::Keys(_)), matches!(question, Question::Key(_)));
        // a longest match of a key is the one question of the right kind that has no answer
        if table && asked {
            return TableError::Kind { expected: "whole keys", found: "a longest match" };
        }
        TableError::Kind { expected: of(table), found: of(asked) }
    }
}

fn check_length(length: usize) -> Result<(), TableError> {
    let fits = (1..=MAX_LENGTH).contains(&length);
    if fits { Ok(()) } else { Err(PanelError::Window { sites: MAX_LENGTH, start: 0, length }.into()) }
}

fn check_phase(sites: &Sites, start: usize, length: usize) -> Result<(), TableError> {
    if length > 1 {
        return Err(TableError::Unphased { length });
    }
    Ok(sites.check_window(start, length)?)
}
