//! A server's desk: its tables, its clients and what they may still ask; bytes in, bytes out.
//!
//! **What is counted.** A query is one test for membership, which its client's budget pays; and one use of its key, because every answer tells a
//! little of the noise: the statistical distance of a query ([`super::server::Matcher::distance`]) times the uses of a key is what its owner can
//! have learnt besides answers. Whoever is at the end of a budget is refused, and nothing is computed.
//!
//! **What is told** to whoever keeps a log: who asked which table for how many sites, never where, and nothing of the query itself.

use super::messages::{self, CLIENT_BYTES, MAX_BLOCKS, MessageError, Query, TABLE_BYTES};
use super::panel::Panel;
use super::program::{self, KeyError, Keys};
use super::server::{AnswerError, Granularity, Matcher};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, btree_map::Entry};
use tobari_core::params::{LatticeError, NamedSet};
use tobari_core::rlwe::PublicKey;

/// What clients may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at most.
    pub clients: usize,
    /// Tests for membership of a client, of all tables together.
    pub tests: u64,
    /// Queries under one key.
    pub uses: u32,
}

impl Default for Limits {
    /// 1,000 clients, 10,000 tests each, 2^10 queries under a key.
    fn default() -> Self {
        Self { clients: 1_000, tests: 10_000, uses: 1 << 10 }
    }
}

/// What was asked, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// By whom.
    pub client: [u8; CLIENT_BYTES],
    /// Of which table.
    pub table: [u8; TABLE_BYTES],
    /// Sites of the pattern.
    pub length: usize,
    /// Places.
    pub places: usize,
    /// What is told.
    pub granularity: Granularity,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No such table.
    #[error("expected the name of a table that is served, found another")]
    Table,
    /// A client that is not registered, or has no key for questions of this size.
    #[error("expected a client with a key of the set {set}, found none")]
    Key {
        /// The set of parameters.
        set: &'static str,
    },
    /// A set that no question is of.
    #[error("expected a set of parameters for searches, found another")]
    Set,
    /// No room for another client.
    #[error("expected at most {most} clients, found one more")]
    Clients {
        /// How many there may be.
        most: usize,
    },
    /// The client's budget is used up.
    #[error("the budget of {tests} tests is used up")]
    Budget {
        /// Of tests.
        tests: u64,
    },
    /// The key was used often enough: a new one is to be registered.
    #[error("the key was used {uses} times: register a new one")]
    Uses {
        /// How often it may be.
        uses: u32,
    },
    /// A question too large for one answer.
    #[error("expected a question with room for its patterns in {MAX_BLOCKS} blocks, found one of {blocks}")]
    Blocks {
        /// Blocks that it would take.
        blocks: usize,
    },
    /// Places and patterns that no set has numbers for, or that are not in the panel.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Bytes that are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// What the comparison says.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// Parameters that do not exist: a fault of this program.
    #[error(transparent)]
    Parameters(#[from] LatticeError),
}

/// A table as it is served.
struct Served {
    panel: Panel,
    least: u32,
}

/// A key, and how often it was used.
struct Registered {
    public: PublicKey,
    uses: u32,
}

/// A client.
struct Client {
    keys: BTreeMap<&'static str, Registered>,
    tests: u64,
}

/// Tables and clients.
pub struct Desk {
    limits: Limits,
    tables: BTreeMap<[u8; TABLE_BYTES], Served>,
    clients: BTreeMap<[u8; CLIENT_BYTES], Client>,
    matchers: BTreeMap<&'static str, Matcher>,
}

impl Desk {
    /// Without a table.
    pub fn new(limits: Limits) -> Self {
        Self { limits, tables: BTreeMap::new(), clients: BTreeMap::new(), matchers: BTreeMap::new() }
    }

    /// Serves a panel; patterns that fewer than `least` haplotypes have are as if they were absent. One of the same name is replaced, and clients keep
    /// their keys and budgets.
    pub fn serve(&mut self, name: [u8; TABLE_BYTES], panel: Panel, least: u32) {
        self.tables.insert(name, Served { panel, least });
    }

    /// Registers a client's key for questions of one size: bytes of a registration under a set of parameters. A new key is used anew; the budget is
    /// the client's, and stays.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub fn register(&mut self, client: [u8; CLIENT_BYTES], set: &str, bytes: &[u8]) -> Result<(), Refusal> {
        let set = program::sets().find(|known| known.name == set).ok_or(Refusal::Set)?;
        let public = messages::decode_registration(bytes, matcher(&mut self.matchers, &set)?.parameters())?;
        let most = self.limits.clients;
        if self.clients.len() >= most && !self.clients.contains_key(&client) {
            return Err(Refusal::Clients { most });
        }
        let tests = self.limits.tests;
        let client = self.clients.entry(client).or_insert_with(|| Client { keys: BTreeMap::new(), tests });
        client.keys.insert(set.name, Registered { public, uses: 0 });
        Ok(())
    }

    /// Tests that a client may still make.
    pub fn tests_left(&self, client: &[u8; CLIENT_BYTES]) -> Option<u64> {
        self.clients.get(client).map(|client| client.tests)
    }

    /// Answers a query: bytes, and what may be logged. How long it takes depends on what is public: table, sites, places, what is told.
    ///
    /// # Errors
    /// [`Refusal`]; the budget is as it was.
    pub fn answer(&mut self, bytes: &[u8], rng: &mut impl CryptoRng) -> Result<(Vec<u8>, Asked), Refusal> {
        let (places, length) = messages::query_size(bytes)?;
        let none = || {
            let most = program::sets().filter_map(|set| set.plaintext_modulus).max().unwrap_or(0);
            KeyError::TooMany { most, places, length }
        };
        let set: NamedSet = program::set(places, length).ok_or_else(none)?;
        let matcher = matcher(&mut self.matchers, &set)?;
        let query = messages::decode_query(bytes, matcher.parameters())?;
        let Query { table, client, granularity, .. } = query;
        let asked = Asked { client, table, length, places, granularity };
        let Served { panel, least } = self.tables.get(&table).ok_or(Refusal::Table)?;
        let no_key = Refusal::Key { set: set.name };
        let Some(client) = self.clients.get_mut(&client) else { return Err(no_key) };
        let Some(key) = client.keys.get_mut(set.name) else { return Err(no_key) };
        if client.tests == 0 {
            return Err(Refusal::Budget { tests: self.limits.tests });
        }
        if key.uses >= self.limits.uses {
            return Err(Refusal::Uses { uses: self.limits.uses });
        }
        let keys = Keys::new(matcher.modulus(), places, length)?;
        let entries = keys.entries(matcher.modulus(), panel, &query.starts, *least)?;
        // as many as the fullest windows would need: the number of patterns in these does not show
        let most = places * panel.most_patterns(length).unwrap_or(0) as usize;
        let blocks = most.div_ceil(matcher.slots()).max(1);
        if blocks > MAX_BLOCKS {
            return Err(Refusal::Blocks { blocks });
        }
        let answer = matcher.answer(&key.public, &query.ciphertext, &entries, blocks, granularity, rng)?;
        (client.tests, key.uses) = (client.tests - 1, key.uses + 1);
        Ok((messages::encode_answer(&answer), asked))
    }
}

/// The one matcher of a set: tables are made once, and all keys are read with its parameters.
fn matcher<'a>(all: &'a mut BTreeMap<&'static str, Matcher>, set: &NamedSet) -> Result<&'a Matcher, Refusal> {
    Ok(match all.entry(set.name) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(room) => room.insert(Matcher::new(&set.parameters()?)?),
    })
}
