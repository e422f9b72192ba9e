//! What a client has used up, as bytes that outlive the server.
//!
//! | field | bytes |
//! |---|---|
//! | `TSL`, version | 4 |
//! | client | 16 |
//! | tests made | 8 |
//! | keys | 1 |
//! | … of each: bytes of its set's name, the name, uses; by name | 1, so many, 4 |
//! | regions | 4 |
//! | … of each: table, region, tests made there; ascending | 32, 4, 8 |
//!
//! What was used is kept, not what is left, so that other limits count from the first question on. Integers are big-endian; there is one byte string for each account.

use super::{CLIENT_BYTES, TABLE_BYTES, program};
use crate::search::hidden::arrangement;
use std::collections::BTreeMap;

const MAGIC: [u8; 4] = *b"TSL\x01";

/// What a client has used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Whose.
    pub client: [u8; CLIENT_BYTES],
    /// Tests for membership.
    pub tests: u64,
    /// By set of parameters, uses of the key.
    pub uses: BTreeMap<&'static str, u32>,
    /// By table and region, tests for membership.
    pub regions: BTreeMap<([u8; TABLE_BYTES], u32), u64>,
}

/// Bytes that are no account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed account of a client: expected {0}")]
pub struct AccountError(&'static str);

impl Account {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [&MAGIC[..], &self.client, &self.tests.to_be_bytes(), &[self.uses.len() as u8]].concat();
        for (set, uses) in &self.uses {
            out.push(set.len() as u8);
            out.extend_from_slice(set.as_bytes());
            out.extend_from_slice(&uses.to_be_bytes());
        }
        out.extend_from_slice(&(self.regions.len() as u32).to_be_bytes());
        for ((table, region), tests) in &self.regions {
            out.extend_from_slice(table);
            out.extend_from_slice(&region.to_be_bytes());
            out.extend_from_slice(&tests.to_be_bytes());
        }
        out
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`AccountError`].
    pub fn decode(mut bytes: &[u8]) -> Result<Self, AccountError> {
        if take::<4>(&mut bytes)? != MAGIC {
            return Err(AccountError("its first bytes"));
        }
        let (client, tests, [keys]) = (take(&mut bytes)?, u64::from_be_bytes(take(&mut bytes)?), take(&mut bytes)?);
        let mut uses = BTreeMap::new();
        for _ in 0..keys {
            let [length] = take(&mut bytes)?;
            let (name, rest) = bytes.split_at_checked(length.into()).ok_or(AccountError("more bytes"))?;
            bytes = rest;
            let set = program::sets().chain(arrangement::set()).find(|set| set.name.as_bytes() == name);
            let set = set.ok_or(AccountError("a set of parameters for searches"))?.name;
            if uses.last_key_value().is_some_and(|(last, _)| *last >= set) {
                return Err(AccountError("keys in order"));
            }
            uses.insert(set, u32::from_be_bytes(take(&mut bytes)?));
        }
        let count = u32::from_be_bytes(take(&mut bytes)?) as usize;
        if bytes.len() != count.saturating_mul(TABLE_BYTES + 12) {
            return Err(AccountError("as many regions as it says"));
        }
        let mut regions = BTreeMap::new();
        for _ in 0..count {
            let region = (take(&mut bytes)?, u32::from_be_bytes(take(&mut bytes)?));
            if regions.last_key_value().is_some_and(|(last, _)| *last >= region) {
                return Err(AccountError("regions in order"));
            }
            regions.insert(region, u64::from_be_bytes(take(&mut bytes)?));
        }
        Ok(Self { client, tests, uses, regions })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], AccountError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(AccountError("more bytes"))?;
    *bytes = rest;
    Ok(*taken)
}

/// Whatever decodes encodes to the same bytes.
pub(in crate::search) fn fuzz_account(data: &[u8]) {
    if let Ok(account) = Account::decode(data) {
        assert_eq!(account.encode(), data);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn an_account_has_one_byte_string_and_nothing_else_is_one() {
        let uses = BTreeMap::from([("search", 5), ("search-40", 1 << 10)]);
        let regions = BTreeMap::from([(([1; 32], 4), 9), (([1; 32], 5), 1), (([2; 32], 0), 3)]);
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
}
