//! A client's account, as bytes that outlive the server: the tests and uses that it has spent.
//!
//! | field | bytes |
//! |---|---|
//! | `TSL`, version | 4 |
//! | client | 16 |
//! | tests made | 8 |
//! | keys | 1 |
//! | … of each: bytes of its set's name, the name, uses; by name | 1, so many, 4 |
//! | regions | 4 |
//! | … each: bytes of its chromosome, this, length, index, tests; ascending | 1, so many, 4, 4, 8 |
//!
//! A region's length is in bases. Its index is the number of regions before it on the chromosome.
//! Its tests are those made in the region.
//!
//! Accounts store spent amounts, not remaining ones, so new limits count from the first question
//! on. Integers are big-endian; there is one byte string for each account. Accounts of version 1
//! had regions of a table's sites, without positions. They are read if they have no regions, and
//! rejected otherwise.

use super::regions::{Made, Region};
use super::{CLIENT_BYTES, program};
use crate::hidden::arrangement;
use std::collections::BTreeMap;

const MAGIC: [u8; 4] = *b"TSL\x02";
const BEFORE: [u8; 4] = *b"TSL\x01";
/// Bytes of a region, besides its chromosome's name.
const REGION_BYTES: usize = 17;

/// The tests and uses that a client has spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The client.
    pub client: [u8; CLIENT_BYTES],
    /// Tests for membership.
    pub tests: u64,
    /// Uses of the key, by set of parameters.
    pub uses: BTreeMap<&'static str, u32>,
    /// Tests for membership, by region.
    pub regions: Made,
}

/// The bytes are not an account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// No release wrote these bytes.
    #[error("malformed account of a client: expected {0}")]
    Malformed(&'static str),
    /// The regions are of a table's sites.
    #[error(
        "expected budgets of regions by their positions, found an account of an earlier release, by sites of a \
         table, which cannot be converted: remove this file to give its client new budgets"
    )]
    Sites,
}
use AccountError::Malformed;

impl Account {
    /// The account's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [&MAGIC[..], &self.client, &self.tests.to_be_bytes(), &[self.uses.len() as u8]].concat();
        for (set, uses) in &self.uses {
            out.push(set.len() as u8);
            out.extend_from_slice(set.as_bytes());
            out.extend_from_slice(&uses.to_be_bytes());
        }
        out.extend_from_slice(&(self.regions.0.len() as u32).to_be_bytes());
        for (Region { chromosome, bases, index }, tests) in &self.regions.0 {
            out.push(chromosome.len() as u8);
            out.extend_from_slice(chromosome.as_bytes());
            out.extend_from_slice(&bases.to_be_bytes());
            out.extend_from_slice(&index.to_be_bytes());
            out.extend_from_slice(&tests.to_be_bytes());
        }
        out
    }

    /// Reads an account.
    ///
    /// # Errors
    /// [`AccountError`].
    pub fn decode(mut bytes: &[u8]) -> Result<Self, AccountError> {
        let before = match take(&mut bytes)? {
            MAGIC => false,
            BEFORE => true,
            _ => return Err(Malformed("its first bytes")),
        };
        let (client, tests, [keys]) = (take(&mut bytes)?, u64::from_be_bytes(take(&mut bytes)?), take(&mut bytes)?);
        let mut uses = BTreeMap::new();
        for _ in 0..keys {
            let [length] = take(&mut bytes)?;
            let (name, rest) = bytes.split_at_checked(length.into()).ok_or(Malformed("more bytes"))?;
            bytes = rest;
            let set = program::sets().chain(arrangement::set()).find(|set| set.name.as_bytes() == name);
            let set = set.ok_or(Malformed("a set of parameters for searches"))?.name;
            if uses.last_key_value().is_some_and(|(last, _)| *last >= set) {
                return Err(Malformed("keys in order"));
            }
            uses.insert(set, u32::from_be_bytes(take(&mut bytes)?));
        }
        let count = u32::from_be_bytes(take(&mut bytes)?) as usize;
        if before && count > 0 {
            return Err(AccountError::Sites);
        }
        if bytes.len() < count.saturating_mul(REGION_BYTES) {
            return Err(Malformed("as many regions as it says"));
        }
        let mut regions = BTreeMap::new();
        for _ in 0..count {
            let [length] = take(&mut bytes)?;
            let (name, rest) = bytes.split_at_checked(length.into()).ok_or(Malformed("more bytes"))?;
            bytes = rest;
            let chromosome = std::str::from_utf8(name).map_err(|_| Malformed("the name of a chromosome"))?.into();
            let (bases, index) = (u32::from_be_bytes(take(&mut bytes)?), u32::from_be_bytes(take(&mut bytes)?));
            let region = Region { chromosome, bases, index };
            if bases == 0 || regions.last_key_value().is_some_and(|(last, _)| *last >= region) {
                return Err(Malformed("regions in order"));
            }
            regions.insert(region, u64::from_be_bytes(take(&mut bytes)?));
        }
        if !bytes.is_empty() {
            return Err(Malformed("as many regions as it says"));
        }
        let regions = Made(regions);
        Ok(Self { client, tests, uses, regions })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], AccountError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(Malformed("more bytes"))?;
    *bytes = rest;
    Ok(*taken)
}

/// Bytes that decode encode to the same bytes.
pub(crate) fn fuzz_account(data: &[u8]) {
    if let Ok(account) = Account::decode(data) {
        let bytes = account.encode();
        assert_eq!(bytes[4..], data[4..], "and an earlier version is written as this one");
        assert_eq!(bytes[..4], MAGIC);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn an_account_has_one_byte_string_and_nothing_else_is_one() {
        let uses = BTreeMap::from([("search", 5), ("search-40", 1 << 10)]);
        let of = |chromosome: &str, bases, index| Region { chromosome: chromosome.into(), bases, index };
        let regions = [(of("20", 100, 4), 9), (of("20", 1_000, 0), 1), (of("X", 100, 7), 3)];
        let regions = Made(BTreeMap::from(regions));
        let account = Account { client: [7; 16], tests: 13, uses, regions };
        let bytes = account.encode();
        assert_eq!(Account::decode(&bytes), Ok(account));
        (0..bytes.len()).for_each(|length| assert!(Account::decode(&bytes[..length]).is_err(), "{length}"));
        assert!(Account::decode(&[&bytes[..], &[0]].concat()).is_err());
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0xff;
            fuzz_account(&changed);
        }
    }

    #[test]
    fn fault_18_an_account_of_regions_by_sites_is_refused_with_a_remedy_and_one_without_is_read() {
        let uses = BTreeMap::from([("search", 5)]);
        let account = Account { client: [7; 16], tests: 13, uses, regions: Made::default() };
        let old = [&BEFORE[..], &account.encode()[4..]].concat();
        assert_eq!(Account::decode(&old), Ok(account));
        fuzz_account(&old);
        let mut old = old;
        let end = old.len();
        old[end - 1] = 1;
        old.extend_from_slice(&[&[1; 32][..], &[0; 11], &[9]].concat());
        assert_eq!(Account::decode(&old), Err(AccountError::Sites));
        assert!(AccountError::Sites.to_string().ends_with("remove this file to give its client new budgets"));
    }
}
