//! The file of a table, `.tsi`.
//!
//! | field | bytes |
//! |---|---|
//! | `TSI`, version | 4 |
//! | length of the catalogue; the catalogue ([`super::catalogue`]) | 8; that many |
//! | a panel whose numbers of alleles change: haplotypes of each stretch between changes | 4 each |
//! | a panel: alleles, site after site, in words of 64, in each site's order of haplotypes | 8 each |
//! | … the order after the last site; since when neighbours in it agree | 4 for each haplotype, each |
//! | … for each length of a window, the numbers of patterns of its fullest windows | 4 each |
//! | variants without phase: the number of alleles 1 at each site | 4 each |
//! | … the number of alleles called at each site, if this number differs by site | 4 each |
//! | keys: number and count of each, ascending | 5 or more, by the bits of a number, and 4 each |
//! | SHA-256 of all bytes before | 32 |
//!
//! The length of each part follows from the catalogue, and for variants from the bytes that are
//! left. So a reader checks that all bytes are there before it allocates memory. Integers are
//! big-endian. The checksum finds damage; it does not show who made the file.

use super::catalogue::{self, Catalogue, CatalogueContent, Described};
use super::fields::{Fields, TableBytesError};
use super::keys::{KeyRule, KeyTable};
use super::{Alleles, Content, Sites, Table};
use crate::panel::{MAX_LENGTH, Panel, Parts, Transform, listed, words_of};
use sha2::{Digest, Sha256};

/// The most bytes of a file.
pub const MAX_TABLE_BYTES: u64 = 1 << 36;
const MAGIC: [u8; 4] = *b"TSI\x01";
const CHECKSUM_BYTES: usize = 32;

/// Encodes a table.
pub fn encode_table(table: &Table) -> Vec<u8> {
    let (mut out, alleles, after) = match &table.content {
        Content::Panel { sites, panel } => {
            let (bits, parts) = panel.parts();
            let (before, after) = around_panel(table, sites, &parts, panel.haplotypes());
            (before, bits, after)
        }
        Content::Variants { sites, counts, alleles } => {
            let mut out = headed(table, &Described::Variants(sites, alleles.most()));
            put_u32s(&mut out, counts);
            if let Alleles::Each(all) = alleles {
                put_u32s(&mut out, all);
            }
            (out, &[][..], Vec::new())
        }
        Content::Keys(keys) => {
            let mut out = headed(table, &Described::Keys(keys.rule(), keys.len() as u64));
            let skipped = 16 - number_bytes(keys.rule());
            for (number, count) in keys.entries() {
                out.extend_from_slice(&number.to_be_bytes()[skipped..]);
                out.extend_from_slice(&count.to_be_bytes());
            }
            (out, &[][..], Vec::new())
        }
    };
    out.reserve_exact(8 * alleles.len() + after.len() + CHECKSUM_BYTES);
    alleles.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    out.extend_from_slice(&after);
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    out
}

/// The bytes of a panel's file before and after the alleles. The alleles are the words that
/// [`Transform::push`] returned, site after site, big-endian. [`TableSum`] gives the last bytes of
/// the file. A panel is written in this way if memory has no room for its alleles.
///
/// The table gives everything but the panel and its sites.
pub fn encode_around(table: &Table, sites: &Sites, transform: &Transform) -> (Vec<u8>, Vec<u8>) {
    around_panel(table, sites, &transform.parts(), transform.most_haplotypes())
}

fn around_panel(table: &Table, sites: &Sites, parts: &Parts<'_>, haplotypes: usize) -> (Vec<u8>, Vec<u8>) {
    let mut before = headed(table, &Described::Panel(sites, haplotypes as u32));
    if !sites.breaks().is_empty() {
        let each: Vec<u32> = parts.stretches.iter().map(|(_, haplotypes)| *haplotypes as u32).collect();
        put_u32s(&mut before, &each);
    }
    let mut after = Vec::new();
    put_u32s(&mut after, parts.order);
    put_u32s(&mut after, parts.since);
    parts.fullest.iter().for_each(|list| put_u32s(&mut after, list));
    (before, after)
}

/// The first bytes of a file: up to the catalogue.
fn headed(table: &Table, content: &Described<'_>) -> Vec<u8> {
    let catalogue =
        catalogue::encode((&table.name, table.revision, table.least, &table.label, table.assembly.as_deref()), content);
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(catalogue.len() as u64).to_be_bytes());
    out.extend_from_slice(&catalogue);
    out
}

fn put_u32s(out: &mut Vec<u8>, all: &[u32]) {
    out.reserve_exact(4 * all.len());
    all.iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
}

/// The checksum of a file that is written part by part.
#[derive(Clone, Default)]
pub struct TableSum(Sha256);

impl TableSum {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The last bytes of the file.
    pub fn finish(self) -> [u8; CHECKSUM_BYTES] {
        self.0.finalize().into()
    }
}

fn number_bytes(rule: &KeyRule) -> usize {
    rule.bits().div_ceil(8) as usize
}

/// Decodes a table.
///
/// # Errors
/// [`TableBytesError`] for bytes that are not a table.
pub fn decode_table(bytes: &[u8]) -> Result<Table, TableBytesError> {
    let mut fields = Fields::open(bytes, "table for searches", MAGIC)?;
    let length = usize::try_from(fields.u64()?).map_err(|_| TableBytesError::Malformed("length of the catalogue"))?;
    // checked before the catalogue is used: most damage is found here
    let (before, checksum) = match bytes.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((before, checksum)) if fields.left() >= CHECKSUM_BYTES => (before, checksum),
        _ => return Err(TableBytesError::Malformed("length of the table")),
    };
    if Sha256::digest(before)[..] != checksum[..] {
        return Err(TableBytesError::Checksum);
    }
    let Catalogue { name, revision, least, label, assembly, content } = Catalogue::decode(fields.take(length)?)?;
    let content = match content {
        CatalogueContent::Panel { sites, haplotypes } => {
            let panel = take_panel(&mut fields, &sites, haplotypes as usize)?;
            Content::Panel { sites, panel }
        }
        CatalogueContent::Variants { sites, alleles } => {
            let counts = fields.u32s(sites.len())?;
            let alleles = match fields.left() {
                CHECKSUM_BYTES => Alleles::Same(alleles),
                _ => take_alleles(&mut fields, (sites.len(), alleles))?,
            };
            if counts.iter().enumerate().any(|(site, count)| *count > alleles.at(site)) {
                return Err(TableBytesError::Malformed("number of alleles"));
            }
            Content::Variants { sites, counts, alleles }
        }
        CatalogueContent::Keys { rule, entries } => Content::Keys(take_keys(&mut fields, rule, entries)?),
    };
    fields.take(CHECKSUM_BYTES)?;
    fields.end()?;
    Ok(Table { name, revision, least, label, assembly, content })
}

fn take_panel(fields: &mut Fields<'_>, sites: &Sites, haplotypes: usize) -> Result<Panel, TableBytesError> {
    let (length, breaks) = (sites.len(), sites.breaks());
    let each = match breaks {
        [] => vec![haplotypes as u32],
        _ => fields.u32s(breaks.len() + 1)?,
    };
    if each.iter().max().is_none_or(|most| *most as usize != haplotypes) {
        return Err(TableBytesError::Malformed("number of haplotypes"));
    }
    let firsts = [0].into_iter().chain(breaks.iter().copied());
    let stretches: Vec<(usize, usize)> = firsts.zip(each.iter().map(|haplotypes| *haplotypes as usize)).collect();
    let ends = breaks.iter().copied().chain([length]);
    let words = stretches.iter().zip(ends).try_fold(0usize, |all, ((first, haplotypes), end)| {
        words_of(*haplotypes).checked_mul(end - first).and_then(|words| all.checked_add(words))
    });
    let last = stretches.last().map_or(0, |(_, haplotypes)| *haplotypes);
    let words = fields.u64s(words.ok_or(TableBytesError::Malformed("length"))?)?;
    let parts = (words, fields.u32s(last)?, fields.u32s(last)?);
    let fullest = (1..=MAX_LENGTH).map(|window| fields.u32s(listed(&stretches, length, window)));
    let fullest = fullest.collect::<Result<_, _>>()?;
    Ok(Panel::from_parts(stretches, length, (parts.0, parts.1, parts.2, fullest))?)
}

/// The numbers of alleles of sites, the greatest of which the catalogue has.
fn take_alleles(fields: &mut Fields<'_>, (sites, most): (usize, u32)) -> Result<Alleles, TableBytesError> {
    let all = fields.u32s(sites)?;
    let differ = all.iter().any(|alleles| Some(alleles) != all.first());
    let alleles = Alleles::Each(all);
    let valid = differ && alleles.most() == most;
    if valid { Ok(alleles) } else { Err(TableBytesError::Malformed("number of alleles")) }
}

fn take_keys(fields: &mut Fields<'_>, rule: KeyRule, entries: u64) -> Result<KeyTable, TableBytesError> {
    let width = number_bytes(&rule);
    let length = usize::try_from(entries).ok().and_then(|entries| entries.checked_mul(width + 4));
    let bytes = fields.take(length.ok_or(TableBytesError::Malformed("number of keys"))?)?;
    let (mut numbers, mut counts) = (Vec::with_capacity(entries as usize), Vec::with_capacity(entries as usize));
    for entry in bytes.chunks_exact(width + 4) {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
        numbers.push(number(&entry[..width]));
        counts.push(number(&entry[width..]) as u32);
    }
    Ok(KeyTable::from_parts(rule, numbers, counts)?)
}

/// Every decoded table or catalogue encodes to the same bytes; with and without a right checksum as
/// the last bytes.
#[doc(hidden)]
pub fn fuzz_table(data: &[u8]) {
    if let Ok(catalogue) = Catalogue::decode(data) {
        assert_eq!(catalogue.encode(), data);
    }
    let summed = [data, &Sha256::digest(data)[..]].concat();
    for bytes in [data, &summed] {
        if let Ok(table) = decode_table(bytes) {
            assert_eq!(encode_table(&table), bytes);
        }
    }
}
