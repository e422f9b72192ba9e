//! The catalogue: the description of a table for clients, as bytes.
//!
//! | field | bytes |
//! |---|---|
//! | `TSC`, version | 4 |
//! | name | 32 |
//! | revision, least count | 4 each |
//! | label | text |
//! | version 2: assembly | text |
//! | kind: 0 panel, 1 variants without phase, 2 keys, 3 panel whose numbers of alleles change | 1 |
//! | of kinds 0, 1 and 3: the greatest number of haplotypes or alleles | 4 |
//! | … chromosomes | number |
//! | … of each: name, number of sites | text, number |
//! | … … of each site: distance to the previous one, name or none, two alleles | number, 3 texts |
//! | kind 3, at the end: number of changes; sites between them | number, each |
//! | of kind 2: bits of a limb, limbs, form (0 exact, 1 fingerprint) | 1 each |
//! | … longest key in bytes (1), or key of fingerprints (32) | 1 or 32 |
//! | … keys | 8 |
//!
//! A *number* has seven bits a byte, the lowest first. A *text* is its length in bytes as a number,
//! and the bytes in UTF-8. Other integers are big-endian.
//!
//! **Versions.** Version 2 has an assembly, version 1 has none, and each table has one of the two
//! forms: so files of earlier releases keep their bytes, and their assembly is unknown. A table of
//! keys has version 1.

use super::assembly::{MAX_ASSEMBLY_BYTES, is_assembly_name};
use super::fields::{Fields, TableBytesError, put_number, put_text};
use super::keys::{KeyForm, KeyRule, MAX_KEYS};
use super::site::{MAX_ALLELE_BYTES, MAX_CHROMOSOME_BYTES, MAX_ID_BYTES, SiteView, Sites};
use crate::messages::TABLE_BYTES;
use crate::panel::{MAX_HAPLOTYPES, MAX_LENGTH};
use std::sync::Arc;

/// The most bytes of a label.
pub const MAX_LABEL_BYTES: usize = 1 << 10;
/// Without an assembly.
const MAGIC: [u8; 4] = *b"TSC\x01";
/// With an assembly.
const MAGIC_ASSEMBLY: [u8; 4] = *b"TSC\x02";
/// The fewest bytes of a site: its position, no name, and two alleles of one character.
const LEAST_SITE_BYTES: usize = 6;
/// The fewest bytes of a chromosome: its name, its number of sites, and one site.
const LEAST_CHROMOSOME_BYTES: usize = 3 + LEAST_SITE_BYTES;

/// The content of a table, as the catalogue describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogueContent {
    /// Haplotypes.
    Panel {
        /// The sites.
        sites: Sites,
        /// The number of haplotypes; where it differs by site, the greatest.
        haplotypes: u32,
    },
    /// Variants without phase.
    Variants {
        /// The sites.
        sites: Sites,
        /// Alleles called at each site; where the number differs by site, the greatest.
        alleles: u32,
    },
    /// Keys.
    Keys {
        /// The rule that makes numbers of keys.
        rule: KeyRule,
        /// The number of keys.
        entries: u64,
    },
}

/// The description of a table for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// The table's name.
    pub name: [u8; TABLE_BYTES],
    /// The table's revision.
    pub revision: u32,
    /// The table's least count.
    pub least: u32,
    /// The table's label.
    pub label: String,
    /// The assembly of the sites' positions; none if it is unknown.
    pub assembly: Option<String>,
    /// The description of the content.
    pub content: CatalogueContent,
}

impl Catalogue {
    /// The sites; none in a table of keys.
    pub fn sites(&self) -> Option<&Sites> {
        match &self.content {
            CatalogueContent::Panel { sites, .. } | CatalogueContent::Variants { sites, .. } => Some(sites),
            CatalogueContent::Keys { .. } => None,
        }
    }

    /// Sites of the longest possible pattern: 1 without phase, 0 in a table of keys.
    pub fn longest_pattern(&self) -> usize {
        match &self.content {
            CatalogueContent::Panel { sites, .. } => sites.len().min(MAX_LENGTH),
            CatalogueContent::Variants { .. } => 1,
            CatalogueContent::Keys { .. } => 0,
        }
    }

    /// Whether this catalogue has all sites of an earlier one, under the same numbers and with
    /// positions of the same assembly, and every window of it. A client asks a replaced table on
    /// only then: a question holds the number of its site, and a window that is gone would stop the
    /// client there alone. The numbers of keys are computed anew for each question.
    pub fn has_grown_from(&self, before: &Self) -> bool {
        if before.assembly.is_some() && before.assembly != self.assembly {
            return false;
        }
        match (before.sites(), self.sites()) {
            (Some(before), Some(now)) => {
                let breaks = now.breaks().iter().take_while(|site| **site < before.len());
                before.len() <= now.len()
                    && before.iter().zip(now.iter()).all(|(a, b)| a == b)
                    && breaks.eq(before.breaks())
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// Encodes the catalogue.
    pub fn encode(&self) -> Vec<u8> {
        let content = match &self.content {
            CatalogueContent::Panel { sites, haplotypes } => Described::Panel(sites, *haplotypes),
            CatalogueContent::Variants { sites, alleles } => Described::Variants(sites, *alleles),
            CatalogueContent::Keys { rule, entries } => Described::Keys(rule, *entries),
        };
        encode((&self.name, self.revision, self.least, &self.label, self.assembly.as_deref()), &content)
    }

    /// Decodes a catalogue.
    ///
    /// # Errors
    /// [`TableBytesError`] for bytes that are not a catalogue.
    pub fn decode(bytes: &[u8]) -> Result<Self, TableBytesError> {
        let told = bytes.starts_with(&MAGIC_ASSEMBLY);
        let magic = if told { MAGIC_ASSEMBLY } else { MAGIC };
        let mut fields = Fields::open(bytes, "catalogue of a table", magic)?;
        let (name, revision, least) = (fields.array()?, fields.u32()?, fields.u32()?);
        if revision == 0 || least == 0 {
            return Err(TableBytesError::Malformed("revision or least count"));
        }
        let label = fields.text(MAX_LABEL_BYTES, "label")?.to_owned();
        if label.chars().any(char::is_control) {
            return Err(TableBytesError::Malformed("label"));
        }
        let assembly = if told { Some(fields.text(MAX_ASSEMBLY_BYTES, "assembly")?.to_owned()) } else { None };
        if assembly.as_deref().is_some_and(|name| !is_assembly_name(name)) {
            return Err(TableBytesError::Malformed("assembly"));
        }
        let content = match fields.byte()? {
            kind @ (0 | 3) => {
                let haplotypes = fields.u32()?;
                if !(1..=MAX_HAPLOTYPES).contains(&(haplotypes as usize)) {
                    return Err(TableBytesError::Malformed("number of haplotypes"));
                }
                let mut sites = take_sites(&mut fields)?;
                if kind == 3 {
                    take_breaks(&mut fields, &mut sites)?;
                }
                CatalogueContent::Panel { sites, haplotypes }
            }
            1 => {
                let alleles = fields.u32()?;
                if alleles == 0 {
                    return Err(TableBytesError::Malformed("number of alleles"));
                }
                CatalogueContent::Variants { sites: take_sites(&mut fields)?, alleles }
            }
            2 if !told => take_keys(&mut fields)?,
            _ => return Err(TableBytesError::Malformed("kind of table")),
        };
        fields.end()?;
        Ok(Self { name, revision, least, label, assembly, content })
    }
}

/// The content that a catalogue describes, borrowed from a catalogue or a table.
pub(super) enum Described<'a> {
    Panel(&'a Sites, u32),
    Variants(&'a Sites, u32),
    Keys(&'a KeyRule, u64),
}

/// The name, the revision, the least count, the label and the assembly of a table.
pub(super) type Heading<'a> = (&'a [u8; TABLE_BYTES], u32, u32, &'a str, Option<&'a str>);

/// Encodes the catalogue of a table.
pub(super) fn encode((name, revision, least, label, assembly): Heading<'_>, content: &Described<'_>) -> Vec<u8> {
    let mut out = if assembly.is_some() { MAGIC_ASSEMBLY } else { MAGIC }.to_vec();
    out.extend_from_slice(name);
    out.extend_from_slice(&revision.to_be_bytes());
    out.extend_from_slice(&least.to_be_bytes());
    put_text(&mut out, label);
    assembly.iter().for_each(|assembly| put_text(&mut out, assembly));
    match *content {
        Described::Panel(sites, haplotypes) => {
            out.push(if sites.breaks().is_empty() { 0 } else { 3 });
            out.extend_from_slice(&haplotypes.to_be_bytes());
            put_sites(&mut out, sites);
            put_breaks(&mut out, sites.breaks());
        }
        Described::Variants(sites, alleles) => {
            out.push(1);
            out.extend_from_slice(&alleles.to_be_bytes());
            put_sites(&mut out, sites);
        }
        Described::Keys(rule, entries) => {
            out.extend_from_slice(&[2, rule.limb_bits(), rule.limbs()]);
            match rule.form() {
                KeyForm::Exact { most_bytes } => out.extend_from_slice(&[0, *most_bytes]),
                KeyForm::Fingerprint(key) => {
                    out.push(1);
                    out.extend_from_slice(key);
                }
            }
            out.extend_from_slice(&entries.to_be_bytes());
        }
    }
    out
}

/// Nothing without a change.
fn put_breaks(out: &mut Vec<u8>, breaks: &[usize]) {
    if !breaks.is_empty() {
        put_number(out, breaks.len() as u64);
    }
    let mut last = 0;
    for site in breaks {
        put_number(out, (site - last) as u64);
        last = *site;
    }
}

fn take_breaks(fields: &mut Fields<'_>, sites: &mut Sites) -> Result<(), TableBytesError> {
    let wrong = TableBytesError::Malformed("changes of the number of alleles");
    let count = fields.number()?;
    if count == 0 || count > fields.left().min(sites.len()) as u64 {
        return Err(wrong);
    }
    let mut site = 0usize;
    let mut breaks = Vec::with_capacity(count as usize);
    for _ in 0..count {
        site = site.saturating_add(usize::try_from(fields.number()?).unwrap_or(usize::MAX));
        breaks.push(site);
    }
    if sites.take_breaks(breaks) { Ok(()) } else { Err(wrong) }
}

fn take_keys(fields: &mut Fields<'_>) -> Result<CatalogueContent, TableBytesError> {
    let [limb_bits, limbs, form] = fields.array()?;
    let form = match form {
        0 => KeyForm::Exact { most_bytes: fields.byte()? },
        1 => KeyForm::Fingerprint(fields.array()?),
        _ => return Err(TableBytesError::Malformed("form of keys")),
    };
    let rule = KeyRule::new(limb_bits, limbs, form)?;
    let entries = fields.u64()?;
    let fits = (1..=MAX_KEYS as u64).contains(&entries);
    if fits { Ok(CatalogueContent::Keys { rule, entries }) } else { Err(TableBytesError::Malformed("number of keys")) }
}

fn put_sites(out: &mut Vec<u8>, sites: &Sites) {
    put_number(out, sites.chromosomes().count() as u64);
    for (name, range) in sites.chromosomes() {
        put_text(out, name);
        put_number(out, range.len() as u64);
        let mut last = 0;
        for site in range.filter_map(|index| sites.get(index)) {
            put_number(out, site.position - last);
            last = site.position;
            put_text(out, site.id.unwrap_or_default());
            put_text(out, site.reference);
            put_text(out, site.alternate);
        }
    }
}

/// Reserves memory for as many sites as the remaining bytes can hold, so that nothing is copied as
/// the lists grow: less than three bytes of memory for each byte. Unused memory is given back.
fn take_sites(fields: &mut Fields<'_>) -> Result<Sites, TableBytesError> {
    let mut sites = Sites::new();
    let chromosomes = fields.number()?;
    if chromosomes > (fields.left() / LEAST_CHROMOSOME_BYTES) as u64 {
        return Err(TableBytesError::Malformed("number of chromosomes"));
    }
    let chromosomes = chromosomes as usize;
    let heads = (LEAST_CHROMOSOME_BYTES - LEAST_SITE_BYTES) * chromosomes;
    sites.reserve(chromosomes, (fields.left() - heads) / LEAST_SITE_BYTES);
    for _ in 0..chromosomes {
        let chromosome: Arc<str> = fields.text(MAX_CHROMOSOME_BYTES, "name of a chromosome")?.into();
        let count = fields.number()?;
        if count == 0 || count > (fields.left() / LEAST_SITE_BYTES) as u64 {
            return Err(TableBytesError::Malformed("number of sites"));
        }
        let before = sites.len();
        let mut position = 0u64;
        for _ in 0..count {
            position = position.saturating_add(fields.number()?);
            let id = Some(fields.text(MAX_ID_BYTES, "name of a site")?).filter(|id| !id.is_empty());
            let reference = fields.text(MAX_ALLELE_BYTES, "allele")?;
            let alternate = fields.text(MAX_ALLELE_BYTES, "allele")?;
            sites.add(SiteView { chromosome: &chromosome, position, id, reference, alternate })?;
        }
        // the same name twice would be one chromosome, with another encoding
        if sites.last_start() != Some(before) {
            return Err(TableBytesError::Malformed("name of a chromosome"));
        }
    }
    sites.shrink();
    Ok(sites)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::table::Site;

    /// A question holds the number of its site, so a table whose sites moved would answer another
    /// question. The verdict is the same for all questions: it shows nothing of the place.
    #[test]
    fn a_replaced_table_is_asked_on_only_if_all_its_earlier_sites_keep_their_numbers() {
        let of = |positions: &[u64]| {
            let mut sites = Sites::new();
            for position in positions {
                let (reference, alternate) = ("A".into(), "C".into());
                sites
                    .push(Site { chromosome: "20".into(), position: *position, id: None, reference, alternate })
                    .unwrap();
            }
            let content = CatalogueContent::Panel { sites, haplotypes: 4 };
            Catalogue {
                name: [positions.len() as u8; 32],
                revision: 1,
                least: 1,
                label: String::new(),
                assembly: None,
                content,
            }
        };
        let before = of(&[5, 9, 2_000_000]);
        for now in [before.clone(), of(&[5, 9, 2_000_000, 2_000_007])] {
            assert!(now.has_grown_from(&before));
        }
        // a site more before the last one, in its cell or in another; one moved; one gone
        for now in [&[5, 9, 11, 2_000_000][..], &[5, 9, 1_999_999, 2_000_000], &[5, 8, 2_000_000], &[5, 9]] {
            assert!(!of(now).has_grown_from(&before), "{now:?}");
        }
        // another number of alleles ends windows: before the earlier last site, or after it
        let broken = |at: usize| {
            let mut sites = Sites::new();
            for (index, site) in of(&[5, 9, 2_000_000, 2_000_007]).sites().unwrap().iter().enumerate() {
                sites.push(site.to_site()).unwrap();
                if index == at {
                    sites.mark_break();
                }
            }
            Catalogue { content: CatalogueContent::Panel { sites, haplotypes: 4 }, ..of(&[5]) }
        };
        assert!(broken(3).has_grown_from(&before) && !broken(2).has_grown_from(&before));
        // another assembly moves every position; a table may begin to record its own
        let with =
            |assembly: Option<&str>| Catalogue { assembly: assembly.map(str::to_owned), ..of(&[5, 9, 2_000_000]) };
        let (told, other) = (with(Some("GRCh38")), with(Some("GRCh37")));
        assert!(told.has_grown_from(&before) && told.has_grown_from(&told));
        assert!(!other.has_grown_from(&told) && !before.has_grown_from(&told));
    }
}
