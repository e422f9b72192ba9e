//! A table as its owner has it: content, name, file, and the description for clients.
//!
//! **Content** is one of three kinds ([`Content`]): a phased panel, which counts haplotypes;
//! variants without phase, which count alleles of single sites; or any keys. [`Table::count`]
//! answers on plain data the question that a query asks under encryption.
//!
//! **Leakage.** The table stays with its owner. Every client gets the [`Catalogue`]: the name, the
//! sites or the rule of keys, the number of haplotypes or keys, and the count below which entries
//! are left out. The catalogue has no allele, no key and no count.
//!
//! **Names and revisions.** The name is drawn once. Additions keep the name, and with it what
//! clients made under the name, and raise the revision. Sites can be added after the last site of a
//! panel ([`Content::push_site`]), at the cost of these sites only. Haplotypes cannot be added,
//! because they are part of every site's order; the panel must be made anew. Keys cannot be added
//! either.

mod assembly;
mod catalogue;
mod fields;
mod keys;
mod site;
mod tsi;

pub use assembly::{Accession, AssemblyMismatch, HumanAssembly, MAX_ASSEMBLY_BYTES, is_mitochondrial, same_assembly};
pub use catalogue::{Catalogue, CatalogueContent, MAX_LABEL_BYTES};
pub use fields::TableBytesError;
pub use keys::{
    FINGERPRINT_KEY_BYTES, KeyForm, KeyRule, KeyTable, KeyTableBuilder, KeyTableError, LIMB_BITS, MAX_COUNT,
    MAX_KEY_BYTES, MAX_KEYS, MAX_LIMBS,
};
pub use site::{MAX_POSITION, MAX_SITES, Site, SiteError, SiteView, Sites, canonical_allele, canonical_chromosome};
#[doc(hidden)]
pub use tsi::fuzz_table;
pub use tsi::{MAX_TABLE_BYTES, TableSum, decode_table, encode_around, encode_table};

use super::messages::TABLE_BYTES;
use super::panel::{self, MAX_LENGTH, Panel, PanelError, Pattern};
use rand_core::CryptoRng;

/// The content of a table.
#[derive(Clone, Debug)]
pub enum Content {
    /// Phased haplotypes.
    Panel {
        /// The panel's sites.
        sites: Sites,
        /// The alleles.
        panel: Panel,
    },
    /// The number of alleles 1 at each site, without phase.
    Variants {
        /// The sites.
        sites: Sites,
        /// The number of alleles 1 at each site, at most `alleles`.
        counts: Vec<u32>,
        /// Alleles called at each site.
        alleles: Alleles,
    },
    /// Keys.
    Keys(KeyTable),
}

/// The number of alleles that were called at a site, as AN of VCF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alleles {
    /// The same number at all sites.
    Same(u32),
    /// The number at each site. Not all are the same.
    Each(Vec<u32>),
}

impl From<u32> for Alleles {
    fn from(alleles: u32) -> Self {
        Self::Same(alleles)
    }
}

impl Alleles {
    /// The number at a site; zero after the last site.
    pub fn at(&self, site: usize) -> u32 {
        match self {
            Self::Same(alleles) => *alleles,
            Self::Each(all) => all.get(site).copied().unwrap_or(0),
        }
    }

    /// The greatest number.
    pub fn most(&self) -> u32 {
        match self {
            Self::Same(alleles) => *alleles,
            Self::Each(all) => all.iter().copied().max().unwrap_or(0),
        }
    }

    /// Adds a site's number after those of `sites` sites.
    fn push(&mut self, sites: usize, found: u32) {
        match self {
            Self::Same(_) if sites == 0 => *self = Self::Same(found),
            Self::Same(alleles) if *alleles == found => {}
            Self::Same(alleles) => {
                let mut all = vec![*alleles; sites];
                all.push(found);
                *self = Self::Each(all);
            }
            Self::Each(all) => all.push(found),
        }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The name, drawn once.
    pub name: [u8; TABLE_BYTES],
    /// The revision: 1, and one more after each addition.
    pub revision: u32,
    /// The least count, at least 1. Entries with a lower count are treated as absent.
    pub least: u32,
    /// The owner's name for the table, for people.
    pub label: String,
    /// The assembly of the sites' positions, such as `GRCh38`; none if it is unknown, as in files
    /// of earlier releases, and in a table of keys.
    pub assembly: Option<String>,
    /// The content.
    pub content: Content,
}

/// A pattern or a key to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// Alleles from a site on: bit `i` is the allele at site `start + i`.
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

/// Why a question cannot be counted, or a site not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The question needs haplotypes, and the table has no phase.
    #[error(
        "expected one site: this table has no phase (variants that were not phased), so that it cannot be known which alleles are on one haplotype; found {length} sites"
    )]
    Unphased {
        /// Sites asked for.
        length: usize,
    },
    /// A question about sites for a table of keys, or the other way round.
    #[error("expected a question for {expected}, found one for {found}")]
    Kind {
        /// The content of the table.
        expected: &'static str,
        /// The object of the question.
        found: &'static str,
    },
    /// A site has another number of alleles than the site before, or more alternate alleles than
    /// alleles.
    #[error("expected {alleles} alleles at {site}, found {found}")]
    Alleles {
        /// The site.
        site: String,
        /// Alleles there must be.
        alleles: u32,
        /// The number found.
        found: u64,
    },
    /// The text is not the name of an assembly, or the table has no positions.
    #[error(
        "expected an assembly of 1 to {MAX_ASSEMBLY_BYTES} printable characters without spaces, such as GRCh38, for a table of sites; found {found:?}"
    )]
    Assembly {
        /// The text.
        found: String,
    },
    /// The panel rejects the question or site.
    #[error(transparent)]
    Panel(#[from] PanelError),
    /// The sites reject the question or site.
    #[error(transparent)]
    Site(#[from] SiteError),
}

impl Content {
    /// A panel of `haplotypes` haplotypes, without a site.
    ///
    /// # Errors
    /// [`TableError::Panel`].
    pub fn panel(haplotypes: usize) -> Result<Self, TableError> {
        Ok(Self::Panel { sites: Sites::new(), panel: Panel::new(haplotypes)? })
    }

    /// Variants without phase, without a site. [`Self::push_count`] adds sites.
    pub fn variants() -> Self {
        Self::Variants { sites: Sites::new(), counts: Vec::new(), alleles: Alleles::Same(0) }
    }

    /// Variants without phase from a panel in the making: its sites, the number of alleles 1 at
    /// each, and its transform.
    pub fn without_phase(mut sites: Sites, counts: Vec<u32>, transform: &panel::Transform) -> Self {
        let mut alleles = Alleles::Same(0);
        let stretches = transform.stretches();
        for site in 0..counts.len() {
            let after = stretches.partition_point(|(first, _)| *first <= site);
            alleles.push(site, stretches[after - 1].1 as u32);
        }
        sites.take_breaks(Vec::new());
        Self::Variants { sites, counts, alleles }
    }

    /// The sites; none in a table of keys.
    pub fn sites(&self) -> Option<&Sites> {
        match self {
            Content::Panel { sites, .. } | Content::Variants { sites, .. } => Some(sites),
            Content::Keys(_) => None,
        }
    }

    /// Adds a site after the last one, with the alleles of all haplotypes: `true` is the alternate
    /// allele. A panel stores the alleles; variants without phase store the number of alternate
    /// ones.
    ///
    /// # Errors
    /// [`TableError`]; the table is unchanged then.
    pub fn push_site(&mut self, site: Site, values: &[bool]) -> Result<(), TableError> {
        match self {
            Content::Panel { sites, panel } => {
                let (expected, found) = (panel.last_haplotypes(), values.len());
                if expected != found {
                    return Err(PanelError::Alleles { site: panel.sites(), expected, found }.into());
                }
                sites.push(site)?;
                Ok(panel.push(values)?)
            }
            Content::Variants { counts, alleles, .. } => {
                let (expected, found) = (alleles.at(counts.len().saturating_sub(1)), values.len() as u64);
                if found != u64::from(expected) {
                    return Err(TableError::Alleles { site: site.to_string(), alleles: expected, found });
                }
                self.push_count(site, values.iter().map(|value| u32::from(*value)).sum(), expected)
            }
            Content::Keys(_) => Err(TableError::Kind { expected: "keys", found: "sites" }),
        }
    }

    /// As [`Self::push_site`], for the first site at which some sample has another number of
    /// alleles than at the sites before. No window of a panel has sites of both sides.
    ///
    /// # Errors
    /// [`TableError`]; the table is unchanged then.
    pub fn push_after_break(&mut self, site: Site, values: &[bool]) -> Result<(), TableError> {
        match self {
            Content::Panel { sites, panel } => {
                panel::check_haplotypes(values.len())?;
                sites.push(site)?;
                sites.mark_break();
                panel.begin(values.len())?;
                Ok(panel.push(values)?)
            }
            Content::Variants { .. } => {
                let ones = values.iter().map(|value| u32::from(*value)).sum();
                self.push_count(site, ones, u32::try_from(values.len()).unwrap_or(u32::MAX))
            }
            Content::Keys(_) => Err(TableError::Kind { expected: "keys", found: "sites" }),
        }
    }

    /// Adds a site to variants without phase: the number of alternate alleles, and of all alleles
    /// that were called.
    ///
    /// # Errors
    /// [`TableError`]; the table is unchanged then.
    pub fn push_count(&mut self, site: Site, ones: u32, all: u32) -> Result<(), TableError> {
        let Content::Variants { sites, counts, alleles } = self else {
            return Err(TableError::Kind { expected: "haplotypes or keys", found: "counts of alleles" });
        };
        if ones > all {
            return Err(TableError::Alleles { site: site.to_string(), alleles: all, found: u64::from(ones) });
        }
        sites.push(site)?;
        alleles.push(counts.len(), all);
        counts.push(ones);
        Ok(())
    }
}

impl Table {
    /// A new table with a drawn name.
    pub fn new(content: Content, least: u32, label: &str, rng: &mut impl CryptoRng) -> Self {
        let mut name = [0; TABLE_BYTES];
        rng.fill_bytes(&mut name);
        let label = label.chars().filter(|c| !c.is_control()).scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= MAX_LABEL_BYTES).then_some(c)
        });
        Self { name, revision: 1, least: least.max(1), label: label.collect(), assembly: None, content }
    }

    /// The same table with positions of this assembly, or of an unknown one.
    ///
    /// # Errors
    /// [`TableError::Assembly`] for a text that is no name, and for a table of keys.
    pub fn with_assembly(self, assembly: Option<String>) -> Result<Self, TableError> {
        match &assembly {
            Some(name) if self.content.sites().is_none() || !assembly::is_assembly_name(name) => {
                Err(TableError::Assembly { found: name.clone() })
            }
            _ => Ok(Self { assembly, ..self }),
        }
    }

    /// The description of the table for clients.
    pub fn catalogue(&self) -> Catalogue {
        let Self { name, revision, least, ref label, ref assembly, ref content } = *self;
        let content = match content {
            Content::Panel { sites, panel } => {
                CatalogueContent::Panel { sites: sites.clone(), haplotypes: panel.haplotypes() as u32 }
            }
            Content::Variants { sites, alleles, .. } => {
                CatalogueContent::Variants { sites: sites.clone(), alleles: alleles.most() }
            }
            Content::Keys(keys) => CatalogueContent::Keys { rule: *keys.rule(), entries: keys.len() as u64 },
        };
        Catalogue { name, revision, least, label: label.clone(), assembly: assembly.clone(), content }
    }

    /// How often the pattern or key occurs; zero below the least count.
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
                if pattern & 1 == 1 { ones } else { alleles.at(start).saturating_sub(ones) }
            }
            (Content::Keys(keys), Question::Key(key)) => keys.count(key),
            _ => return Err(self.kind(question)),
        };
        Ok(if count < self.least { 0 } else { u64::from(count) })
    }

    /// The number of alleles of a window, from the first on, that at least the least number of
    /// haplotypes have.
    ///
    /// # Errors
    /// [`TableError`] for a question that this table does not answer. A key has no longest match.
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
        // the longest match of a key is the one question of the right kind without an answer
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
