//! A server's desk: its tables, its clients and what they may still ask; bytes in, bytes out.
//!
//! **What is counted.** A query is a test for membership, and one for the longest match as many as it has sites: its client's budget pays them, and so
//! does the client's budget for each region of the table that a place of the query touches, as nobody knows which one is meant. Every block of an answer
//! is a use of the client's key, because it tells a little of the noise: the statistical distance of a block ([`super::server::Matcher::distance`]) times the uses
//! of a key is what its owner can have learnt besides answers. Whoever is at the end of a budget is refused, and nothing is computed.
//!
//! **What is told** to whoever keeps a log: who asked which table for how many sites, never where, and nothing of the query itself.

use super::messages::{self, CLIENT_BYTES, MAX_BLOCKS, MessageError, Query, TABLE_BYTES};
use super::panel::Panel;
use super::program::{self, EntryError, Keys, Layout, Shape};
use super::server::{AnswerError, Granularity, Matcher};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};
use std::sync::Arc;
use tobari_core::params::{LatticeError, NamedSet};
use tobari_core::rlwe::PublicKey;

/// What clients may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at most.
    pub clients: usize,
    /// Tests for membership of a client, of all tables together.
    pub tests: u64,
    /// Sites of a region.
    pub region: u32,
    /// Tests for membership of a client in one region.
    pub region_tests: u64,
    /// Blocks of answers under one key.
    pub uses: u32,
}

impl Default for Limits {
    /// 1,000 clients, 10,000 tests each, of which 1,000 in a region of 1,000 sites, and 2^10 blocks under a key.
    fn default() -> Self {
        Self { clients: 1_000, tests: 10_000, region: 1_000, region_tests: 1_000, uses: 1 << 10 }
    }
}

/// What was asked, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// By whom.
    pub client: [u8; CLIENT_BYTES],
    /// Of which table.
    pub table: [u8; TABLE_BYTES],
    /// What was asked.
    pub shape: Shape,
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
    /// The client's budget for a region is used up.
    #[error("the budget of {tests} tests in the region from site {start} on is used up")]
    Region {
        /// Of tests.
        tests: u64,
        /// The region's first site.
        start: u32,
    },
    /// A question that this table does not answer.
    #[error("expected a question that the table answers, {0}")]
    Question(&'static str),
    /// The key was used often enough: a new one is to be registered.
    #[error("the key was used {uses} times, by block of an answer: register a new one")]
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
    /// Counts that no number holds, or places that are not in the panel.
    #[error(transparent)]
    Entries(#[from] EntryError),
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

impl Served {
    /// Whether the table answers such a question at such places.
    fn admits(&self, shape: Shape, starts: &[u32]) -> Result<(), Refusal> {
        match shape {
            Shape::Word { .. } => Err(Refusal::Question("a pattern of a panel")),
            Shape::Pattern { length, .. } | Shape::Longest { length, .. } => {
                let check = |start: &u32| self.panel.check(*start as usize, length);
                Ok(starts.iter().try_for_each(check).map_err(EntryError::from)?)
            }
        }
    }

    /// The layout of an answer: as many slots as the fullest windows would need, so that the number of patterns in these does not show. The number of
    /// different places shows, which is public.
    fn layout(&self, shape: Shape, starts: &[u32], slots: usize) -> Layout {
        let different = 1 + starts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        Layout::new(shape, slots, |sites| different * self.panel.most_patterns(sites).unwrap_or(0) as usize)
    }

    fn most(&self) -> u64 {
        self.panel.haplotypes() as u64
    }
}

/// A key, and how often it was used.
struct Registered {
    public: Arc<PublicKey>,
    uses: u32,
}

/// A client.
struct Client {
    keys: BTreeMap<&'static str, Registered>,
    tests: u64,
    /// By table and region, how many tests were made.
    regions: BTreeMap<([u8; TABLE_BYTES], u32), u64>,
}

/// Tables and clients.
pub struct Desk {
    limits: Limits,
    tables: BTreeMap<[u8; TABLE_BYTES], Arc<Served>>,
    clients: BTreeMap<[u8; CLIENT_BYTES], Client>,
    matchers: BTreeMap<&'static str, Arc<Matcher>>,
}

/// A query that was admitted and paid: what is left is to compute, anywhere and at any time.
pub struct Admitted {
    served: Arc<Served>,
    matcher: Arc<Matcher>,
    public: Arc<PublicKey>,
    query: Query,
    layout: Layout,
}

impl Desk {
    /// Without a table.
    pub fn new(limits: Limits) -> Self {
        Self { limits, tables: BTreeMap::new(), clients: BTreeMap::new(), matchers: BTreeMap::new() }
    }

    /// Serves a panel; patterns that fewer than `least` haplotypes have are as if they were absent. One of the same name is replaced, and clients keep
    /// their keys and budgets.
    pub fn serve(&mut self, name: [u8; TABLE_BYTES], panel: Panel, least: u32) {
        self.tables.insert(name, Arc::new(Served { panel, least }));
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
        let new = || Client { keys: BTreeMap::new(), tests: self.limits.tests, regions: BTreeMap::new() };
        let client = self.clients.entry(client).or_insert_with(new);
        client.keys.insert(set.name, Registered { public: Arc::new(public), uses: 0 });
        Ok(())
    }

    /// Tests that a client may still make.
    pub fn tests_left(&self, client: &[u8; CLIENT_BYTES]) -> Option<u64> {
        self.clients.get(client).map(|client| client.tests)
    }

    /// Admits a query, which its client's budgets pay. What it costs, and what may be logged, comes with it.
    ///
    /// # Errors
    /// [`Refusal`]; all budgets are as they were.
    pub fn admit(&mut self, bytes: &[u8]) -> Result<(Admitted, Asked), Refusal> {
        let (table, shape) = messages::query_head(bytes)?;
        let served = self.tables.get(&table).ok_or(Refusal::Table)?;
        let set = shape.set(served.most()).ok_or(Refusal::Question("of fewer bits or sites"))?;
        let matcher = matcher(&mut self.matchers, &set)?;
        let query = messages::decode_query(bytes, matcher.parameters())?;
        served.admits(shape, &query.starts)?;
        let layout = served.layout(shape, &query.starts, matcher.slots());
        let blocks = layout.blocks();
        if blocks > MAX_BLOCKS {
            return Err(Refusal::Blocks { blocks });
        }
        let no_key = Refusal::Key { set: set.name };
        let Some(client) = self.clients.get_mut(&query.client) else { return Err(no_key) };
        let Some(key) = client.keys.get_mut(set.name) else { return Err(no_key) };
        let (limits, tests, uses) = (&self.limits, shape.tests() as u64, blocks as u32);
        let left = client.tests.checked_sub(tests).ok_or(Refusal::Budget { tests: limits.tests })?;
        let used = key.uses.checked_add(uses).filter(|used| *used <= limits.uses);
        let used = used.ok_or(Refusal::Uses { uses: limits.uses })?;
        let regions = regions(&query.starts, shape.length(), limits.region);
        for region in &regions {
            let before = client.regions.get(&(table, *region)).copied().unwrap_or(0);
            if before + tests > limits.region_tests {
                return Err(Refusal::Region { tests: limits.region_tests, start: region * limits.region.max(1) });
            }
        }
        (client.tests, key.uses) = (left, used);
        regions.into_iter().for_each(|region| *client.regions.entry((table, region)).or_default() += tests);
        let asked = Asked { client: query.client, table, shape, granularity: query.granularity };
        let (served, public) = (Arc::clone(served), Arc::clone(&key.public));
        Ok((Admitted { served, matcher: Arc::clone(matcher), public, query, layout }, asked))
    }

    /// Admits and answers.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn answer(&mut self, bytes: &[u8], rng: &mut impl CryptoRng) -> Result<(Vec<u8>, Asked), Refusal> {
        let (admitted, asked) = self.admit(bytes)?;
        Ok((admitted.answer(rng)?, asked))
    }
}

impl Admitted {
    /// The answer's bytes. How long it takes depends on what is public: table, places, what is asked and told.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn answer(&self, rng: &mut impl CryptoRng) -> Result<Vec<u8>, Refusal> {
        let Self { served, matcher, public, query, layout } = self;
        let keys = Keys::new(matcher.modulus(), query.shape, &query.table);
        let entries = keys.of_panel(&served.panel, &query.starts, served.least)?;
        let of = (layout, keys.limbs());
        let answer = matcher.answer(public, &query.ciphertexts, &entries, of, query.granularity, rng)?;
        Ok(messages::encode_answer(&answer))
    }
}

/// The regions of so many sites that windows at these places touch, each once.
fn regions(starts: &[u32], length: usize, region: u32) -> BTreeSet<u32> {
    let region = region.max(1);
    let touched = |start: &u32| start / region..=start.saturating_add(length as u32 - 1) / region;
    starts.iter().flat_map(touched).collect()
}

/// The one matcher of a set: tables are made once, and all keys are read with its parameters.
fn matcher<'a>(all: &'a mut BTreeMap<&'static str, Arc<Matcher>>, set: &NamedSet) -> Result<&'a Arc<Matcher>, Refusal> {
    Ok(match all.entry(set.name) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(room) => room.insert(Arc::new(Matcher::new(&set.parameters()?)?)),
    })
}
