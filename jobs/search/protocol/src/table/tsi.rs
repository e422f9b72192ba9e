//! The file of a table, `.tsi`.
//!
//! | field | bytes |
//! |---|---|
//! | `TSI`, version | 4 |
//! | length of the catalogue; the catalogue ([`super::catalogue`]) | 8; that many |
//! | a panel: alleles, site after site, in words of 64, in each site's order of haplotypes | 8 each |
//! | … the order after the last site; since when neighbours in it agree | 4 for each haplotype, each |
//! | … for each length of a window, the numbers of patterns of its fullest windows | 4 each |
//! | variants without phase: the number of alleles 1 at each site | 4 each |
//! | keys: number and count of each, ascending | 5 or more, by the bits of a number, and 4 each |
//! | SHA-256 of all bytes before | 32 |
//!
//! The length of each part follows from the catalogue, so a reader checks that all bytes are there
//! before it allocates memory. Integers are big-endian. The checksum finds damage; it does not show
//! who made the file.

use super::catalogue::{Catalogue, CatalogueContent};
use super::fields::{Fields, TableBytesError};
use super::keys::{KeyRule, KeyTable};
use super::{Content, Table};
use crate::panel::{MAX_LENGTH, Panel, listed};
use sha2::{Digest, Sha256};

/// The most bytes of a file.
pub const MAX_TABLE_BYTES: u64 = 1 << 36;
const MAGIC: [u8; 4] = *b"TSI\x01";
const CHECKSUM_BYTES: usize = 32;

/// Encodes a table.
pub fn encode_table(table: &Table) -> Vec<u8> {
    let catalogue = table.catalogue().encode();
    let mut out = Vec::with_capacity(catalogue.len() + body_bytes(table) + 64);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(catalogue.len() as u64).to_be_bytes());
    out.extend_from_slice(&catalogue);
    let put_u32s = |out: &mut Vec<u8>, all: &[u32]| all.iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
    match &table.content {
        Content::Panel { panel, .. } => {
            let parts = panel.parts();
            parts.bits.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
            put_u32s(&mut out, parts.order);
            put_u32s(&mut out, parts.since);
            parts.fullest.iter().for_each(|list| put_u32s(&mut out, list));
        }
        Content::Variants { counts, .. } => put_u32s(&mut out, counts),
        Content::Keys(keys) => {
            let skipped = 16 - number_bytes(keys.rule());
            for (number, count) in keys.entries() {
                out.extend_from_slice(&number.to_be_bytes()[skipped..]);
                out.extend_from_slice(&count.to_be_bytes());
            }
        }
    }
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    out
}

/// Bytes of the part after the catalogue, for one allocation.
fn body_bytes(table: &Table) -> usize {
    match &table.content {
        Content::Panel { panel, .. } => {
            let parts = panel.parts();
            8 * parts.bits.len() + 4 * (parts.order.len() + parts.since.len() + parts.fullest.iter().flatten().count())
        }
        Content::Variants { counts, .. } => 4 * counts.len(),
        Content::Keys(keys) => (number_bytes(keys.rule()) + 4) * keys.len(),
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
            let (haplotypes, length) = (haplotypes as usize, sites.len());
            let words = haplotypes.div_ceil(64).checked_mul(length).ok_or(TableBytesError::Malformed("length"))?;
            let parts = (fields.u64s(words)?, fields.u32s(haplotypes)?, fields.u32s(haplotypes)?);
            let fullest = (1..=MAX_LENGTH).map(|window| fields.u32s(listed(length, window)));
            let fullest = fullest.collect::<Result<_, _>>()?;
            let panel = Panel::from_parts(haplotypes, length, (parts.0, parts.1, parts.2, fullest))?;
            Content::Panel { sites, panel }
        }
        CatalogueContent::Variants { sites, alleles } => {
            let counts = fields.u32s(sites.len())?;
            if counts.iter().any(|count| *count > alleles) {
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
