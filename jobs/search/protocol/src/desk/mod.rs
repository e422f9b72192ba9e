//! A server's desk: its tables, its clients and what they may still ask; bytes in, bytes out.
//!
//! **What is counted.** A query is a test for membership, and one for the longest match as many as
//! it has sites: its client's budget pays them, and so does the client's budget for each region of
//! the genome that a place of the query touches, as nobody knows which one is meant. Regions are
//! chromosomes and positions ([`regions`]), of all tables together: indexing a panel anew gives no
//! budget back. Every block of an answer is a use of the client's key, because it tells a little of
//! the noise: the statistical distance of a block ([`super::server::Matcher::distance`]) times the
//! uses of a key is what its owner can have learnt besides answers. Of a table with labels
//! evaluations are paid instead of questions ([`SearchService::serve_labelled`]). Beyond its
//! budget a client is refused, and nothing is computed.
//!
//! **What is told** to whoever keeps a log: who asked which table for how many sites, never where,
//! and nothing of the query itself.

pub mod hidden;
pub mod ledger;
pub mod regions;
mod served;

use super::messages::{self, CLIENT_BYTES, MAX_BLOCKS, MessageError, Query, TABLE_BYTES};
use super::oprf::{self, labels::Labeller};
use super::panel::Panel;
use super::program::{self, EntryError, Keys, Layout, Shape};
use super::server::{AnswerError, Granularity, Matcher};
use super::table::Table;
use ledger::Account;
use rand_core::CryptoRng;
use regions::Made;
use served::Served;
use std::collections::{BTreeMap, btree_map::Entry};
use std::sync::Arc;
use tobari_lattice::params::{LatticeError, NamedSet};
use tobari_lattice::rlwe::PublicKey;

mod labelled;

pub use labelled::{AdmittedEvaluation, AskedEvaluation, LabelledTable};

/// What clients may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at most.
    pub clients: usize,
    /// Tests for membership of a client, of all tables together.
    pub tests: u64,
    /// Bases of a region; at least 1.
    pub region: u32,
    /// Tests for membership of a client in one region, of all tables together.
    pub region_tests: u64,
    /// Blocks of answers under one key.
    pub uses: u32,
    /// Entries that a question to a table with labels may need labels for, so many at the fullest
    /// windows: some 40 us each where they are not kept.
    pub labels: usize,
}

impl Default for Limits {
    /// 1,000 clients, 10,000 tests each, of which 1,000 in a region of 100,000 bases, 2^10 blocks
    /// under a key, and 2^17 labels a question.
    fn default() -> Self {
        Self { clients: 1_000, tests: 10_000, region: 100_000, region_tests: 1_000, uses: 1 << 10, labels: 1 << 17 }
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
    #[error("there are {most} clients already, which is the limit: raise it, or release a client")]
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
    #[error("the budget of {tests} tests in the region {region} is used up")]
    Region {
        /// Of tests.
        tests: u64,
        /// The region, as `20:100001-200000`.
        region: String,
    },
    /// A question with labels to a table without, or the other way round.
    #[error("expected a question {0}, found one of the other kind")]
    Mode(&'static str),
    /// Labels under a key that is not the table's any more.
    #[error("expected labels under the table's present key, found others: have them evaluated again")]
    Revision,
    /// A question that would need too many labels.
    #[error("expected a question that needs at most {most} labels, found one of {found}: take fewer places or sites")]
    Labels {
        /// How many it may need.
        most: usize,
        /// How many it may need at the fullest windows.
        found: usize,
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
    /// What the comparison with the place hidden says.
    #[error(transparent)]
    Hidden(#[from] super::hidden::server::AnswerError),
    /// Parameters that do not exist: a fault of this program.
    #[error(transparent)]
    Parameters(#[from] LatticeError),
}

/// A key, and how often it was used.
struct Registered {
    public: Arc<PublicKey>,
    uses: u32,
}

/// A client.
#[derive(Default)]
struct Client {
    keys: BTreeMap<&'static str, Registered>,
    /// For questions with the place hidden.
    hidden: Option<hidden::HiddenKey>,
    /// By set, uses of keys that were registered before the client was let go, and not again yet.
    before: BTreeMap<&'static str, u32>,
    /// Made, of all tables together.
    tests: u64,
    /// By region, how many tests were made.
    regions: Made,
}

/// Tables and clients.
pub struct SearchService {
    limits: Limits,
    tables: BTreeMap<[u8; TABLE_BYTES], Arc<Served>>,
    /// Of those of them that have labels.
    labellers: BTreeMap<[u8; TABLE_BYTES], Arc<Labeller>>,
    clients: BTreeMap<[u8; CLIENT_BYTES], Client>,
    /// What those have used up who have no key here any more.
    released: BTreeMap<[u8; CLIENT_BYTES], Account>,
    matchers: BTreeMap<&'static str, Arc<Matcher>>,
    hidden: hidden::Hidden,
}

/// A query that was admitted and paid: what is left is to compute, anywhere and at any time.
pub struct Admitted {
    served: Arc<Served>,
    matcher: Arc<Matcher>,
    public: Arc<PublicKey>,
    query: Query,
    layout: Layout,
    labeller: Option<Arc<Labeller>>,
}

impl SearchService {
    /// Without a table.
    pub fn new(limits: Limits) -> Self {
        let (tables, labellers) = (BTreeMap::new(), BTreeMap::new());
        Self {
            limits,
            tables,
            labellers,
            clients: BTreeMap::new(),
            released: BTreeMap::new(),
            matchers: BTreeMap::new(),
            hidden: hidden::Hidden::default(),
        }
    }

    /// Serves a panel; patterns that fewer than `least` haplotypes have are as if they were absent.
    /// One of the same name is replaced, and clients keep their keys and budgets. It has no labels,
    /// whatever was there before ([`Self::serve_labelled`]).
    pub fn serve(&mut self, name: [u8; TABLE_BYTES], panel: Panel, least: u32) {
        self.labellers.remove(&name);
        self.tables.insert(name, Arc::new(Served::of_panel(panel, least)));
    }

    /// Serves any table under its name; one of the same name is replaced, and clients keep their
    /// keys and budgets.
    ///
    /// # Errors
    /// [`Refusal::Question`] for keys that no question has room for.
    pub fn serve_table(&mut self, table: Table) -> Result<(), Refusal> {
        let name = table.name;
        self.labellers.remove(&name);
        self.tables.insert(name, Arc::new(Served::of_table(table)?));
        Ok(())
    }

    /// Serves a table no longer; clients keep their keys and budgets.
    pub fn withdraw(&mut self, name: &[u8; TABLE_BYTES]) {
        self.labellers.remove(name);
        self.tables.remove(name);
        self.serve_hidden(name, Vec::new());
    }

    /// Registers a client's key for questions of one size: bytes of a registration under a set of
    /// parameters. A new key is used anew; the budget is the client's, and stays.
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
        let client = self.client(client);
        // it may be the key of before
        let uses = client.before.remove(set.name).unwrap_or(0);
        client.keys.insert(set.name, Registered { public: Arc::new(public), uses });
        Ok(())
    }

    /// Lets a client go: its keys are forgotten, and it has to register again. With `keep_budget`
    /// what it has used up stays for then, and does not count as a client meanwhile.
    pub fn release(&mut self, client: &[u8; CLIENT_BYTES], keep_budget: bool) {
        let account = self.account(client).filter(|_| keep_budget);
        self.clients.remove(client);
        match account {
            Some(account) => drop(self.released.insert(*client, account)),
            None => drop(self.released.remove(client)),
        }
    }

    /// Whether a client has a key here.
    pub fn knows(&self, client: &[u8; CLIENT_BYTES]) -> bool {
        self.clients.contains_key(client)
    }

    /// The client of this name, made where there is none; one that was let go has what it had used
    /// up.
    fn client(&mut self, name: [u8; CLIENT_BYTES]) -> &mut Client {
        let client = self.clients.entry(name).or_default();
        if let Some(Account { tests, uses, regions, .. }) = self.released.remove(&name) {
            (client.tests, client.before, client.regions) = (tests, uses, regions);
        }
        client
    }

    /// What a client has used up; none of one that is not registered.
    pub fn account(&self, client: &[u8; CLIENT_BYTES]) -> Option<Account> {
        let Some(known) = self.clients.get(client) else { return self.released.get(client).cloned() };
        let hidden = known.hidden.iter().map(|key| ("search-hidden", key.uses));
        let before = known.before.iter().map(|(set, uses)| (*set, *uses));
        let uses = before.chain(known.keys.iter().map(|(set, key)| (*set, key.uses))).chain(hidden).collect();
        Some(Account { client: *client, tests: known.tests, uses, regions: known.regions.clone() })
    }

    /// Takes up an account that was kept. Its keys are registered again before, and are then used
    /// as often as the account says; without a key its client is one that was let go.
    pub fn restore(&mut self, account: &Account) {
        let Some(client) = self.clients.get_mut(&account.client) else {
            self.released.insert(account.client, account.clone());
            return;
        };
        client.tests = account.tests;
        client.regions = account.regions.clone();
        client.keys.iter_mut().for_each(|(set, key)| key.uses = account.uses.get(set).copied().unwrap_or(key.uses));
        if let (Some(key), Some(uses)) = (&mut client.hidden, account.uses.get("search-hidden")) {
            key.uses = *uses;
        }
    }

    /// Tests that a client may still make.
    pub fn tests_left(&self, client: &[u8; CLIENT_BYTES]) -> Option<u64> {
        let released = || self.released.get(client).map(|account| account.tests);
        let tests = self.clients.get(client).map(|client| client.tests).or_else(released)?;
        Some(self.limits.tests.saturating_sub(tests))
    }

    /// Admits a query, which its client's budgets pay, unless evaluations of its labels were paid.
    /// What it costs, and what may be logged, comes with it.
    ///
    /// # Errors
    /// [`Refusal`]; all budgets are as they were.
    pub fn admit(&mut self, bytes: &[u8]) -> Result<(Admitted, Asked), Refusal> {
        let (table, shape) = messages::query_head(bytes)?;
        let served = self.tables.get(&table).ok_or(Refusal::Table)?;
        let mode = self.mode(&table).ok_or(Refusal::Table)?;
        labelled::check(mode, messages::query_mode(bytes)?)?;
        let labeller = self.labellers.get(&table).cloned();
        let set = mode.set(shape, served.most()).ok_or(Refusal::Question("of fewer bits or sites"))?;
        let matcher = matcher(&mut self.matchers, &set)?;
        let query = messages::decode_query(bytes, matcher.parameters())?;
        served.admits(shape, &query.starts, matcher.slots())?;
        let layout = served.layout(shape, &query.starts, matcher.slots()).ok_or(Refusal::Question("of fewer sites"))?;
        let blocks = layout.blocks();
        if blocks > MAX_BLOCKS {
            return Err(Refusal::Blocks { blocks });
        }
        let (most, found) = (self.limits.labels, served.fresh_labels(shape, &query.starts));
        if labeller.is_some() && found > most {
            return Err(Refusal::Labels { most, found });
        }
        let no_key = Refusal::Key { set: set.name };
        let Some(client) = self.clients.get_mut(&query.client) else { return Err(no_key) };
        let Some(key) = client.keys.get_mut(set.name) else { return Err(no_key) };
        let tests = if labeller.is_some() { 0 } else { shape.tests() as u64 };
        let (limits, uses) = (&self.limits, blocks as u32);
        let made = client.tests.checked_add(tests).filter(|made| *made <= limits.tests);
        let made = made.ok_or(Refusal::Budget { tests: limits.tests })?;
        let used = key.uses.checked_add(uses).filter(|used| *used <= limits.uses);
        let used = used.ok_or(Refusal::Uses { uses: limits.uses })?;
        let known: &[u32] = if labeller.is_some() { &[] } else { &query.starts };
        let regions = served.regions(&table, known, shape.length(), limits.region);
        for region in &regions {
            if client.regions.tests(region).saturating_add(tests) > limits.region_tests {
                return Err(Refusal::Region { tests: limits.region_tests, region: region.to_string() });
            }
        }
        (client.tests, key.uses) = (made, used);
        regions.into_iter().for_each(|region| client.regions.add(region, tests));
        let asked = Asked { client: query.client, table, shape, granularity: query.granularity };
        let (served, public) = (Arc::clone(served), Arc::clone(&key.public));
        Ok((Admitted { served, matcher: Arc::clone(matcher), public, query, layout, labeller }, asked))
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
    /// The answer's bytes. How long it takes depends on what is public: table, places, what is
    /// asked and told, and whether labels of these places are there already.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn answer(&self, rng: &mut impl CryptoRng) -> Result<Vec<u8>, Refusal> {
        let Self { served, matcher, public, query, layout, labeller } = self;
        let (entries, limbs) = match labeller {
            None => {
                let keys = Keys::new(matcher.modulus(), query.shape, &query.table);
                (served.entries(&keys, &query.starts)?, keys.limbs())
            }
            Some(labeller) => (served.labelled(labeller, query.shape, &query.starts)?, oprf::LIMBS),
        };
        let of = (layout, limbs);
        let answer = matcher.answer(public, &query.ciphertexts, &entries, of, query.granularity, rng)?;
        Ok(messages::encode_answer(&answer))
    }
}

/// The one matcher of a set: tables are made once, and all keys are read with its parameters.
fn matcher<'a>(all: &'a mut BTreeMap<&'static str, Arc<Matcher>>, set: &NamedSet) -> Result<&'a Arc<Matcher>, Refusal> {
    Ok(match all.entry(set.name) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(room) => room.insert(Arc::new(Matcher::new(&set.parameters()?)?)),
    })
}
