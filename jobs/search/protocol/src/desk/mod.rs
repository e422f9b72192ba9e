//! A server's desk: its tables, its clients and their budgets; bytes in, bytes out.
//!
//! **Budgets.** A query is a test for membership. A query for the longest match is as many tests as
//! it has sites. The client's budget pays for the tests. So does the client's budget for each
//! region of the genome that a place of the query touches, because nobody knows the true place.
//! Regions are chromosomes and positions ([`regions`]), and hold for all tables together: a client
//! gets no budget back when a panel is indexed anew.
//!
//! Every block of an answer is a use of the client's key, because it tells a little about the
//! noise. Besides answers, the key's owner can have learnt at most the statistical distance of a
//! block ([`super::server::Matcher::distance`]) times the uses of the key. For a table with labels,
//! clients pay for evaluations instead of questions ([`SearchService::serve_labelled`]). A client
//! without budget is rejected before any computation.
//!
//! **Log entries** name the client, the table and the number of sites. They contain neither places
//! nor anything of the query itself.

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

/// The limits of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most clients.
    pub clients: usize,
    /// Tests for membership that a client may make, in all tables together.
    pub tests: u64,
    /// Bases of a region; at least 1.
    pub region: u32,
    /// Tests for membership that a client may make in one region, in all tables together.
    pub region_tests: u64,
    /// Blocks of answers under one key.
    pub uses: u32,
    /// The most entries that a question to a table with labels may need labels for, at the fullest
    /// windows. A label that is not in memory takes about 40 us.
    pub labels: usize,
    /// The most labels of a cell, which are made at its first question.
    pub cell_labels: usize,
}

impl Default for Limits {
    /// 1,000 clients; 10,000 tests for each client, at most 1,000 in a region of 100,000 bases;
    /// 2^10 blocks under a key; 2^17 labels for a question, and 2^20 for a cell.
    fn default() -> Self {
        let (labels, cell_labels) = (1 << 17, 1 << 20);
        Self { clients: 1_000, tests: 10_000, region: 100_000, region_tests: 1_000, uses: 1 << 10, labels, cell_labels }
    }
}

/// A question, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The client.
    pub client: [u8; CLIENT_BYTES],
    /// The table.
    pub table: [u8; TABLE_BYTES],
    /// The shape of the question.
    pub shape: Shape,
    /// Whether the answer has counts.
    pub granularity: Granularity,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The table is not served.
    #[error("expected the name of a table that is served, found another")]
    Table,
    /// The client is not registered, or has no key for questions of this size.
    #[error("expected a client with a key of the set {set}, found none")]
    Key {
        /// The set of parameters.
        set: &'static str,
    },
    /// No question uses this set of parameters.
    #[error("expected a set of parameters for searches, found another")]
    Set,
    /// There is no room for another client.
    #[error("there are {most} clients already, which is the limit: raise it, or release a client")]
    Clients {
        /// The most clients.
        most: usize,
    },
    /// The client's budget is used up.
    #[error("the budget of {tests} tests is used up: ask the server's operator for more tests")]
    Budget {
        /// The number of tests of the budget.
        tests: u64,
    },
    /// The client's budget for a region is used up.
    #[error(
        "the budget of {tests} tests in the region {region} is used up: ask about another region, or ask the server's \
         operator for more tests"
    )]
    Region {
        /// The number of tests of the budget.
        tests: u64,
        /// The region, as `20:100001-200000`.
        region: String,
    },
    /// A question with labels to a table without labels, or the other way round.
    #[error("expected a question {0}, found one of the other kind")]
    Mode(&'static str),
    /// The labels belong to an earlier key of the table.
    #[error("expected labels under the table's present key, found others: have them evaluated again")]
    Revision,
    /// The question would need too many labels.
    #[error("expected a question that needs at most {most} labels, found one of {found}: take fewer places or sites")]
    Labels {
        /// The most labels that a question may need.
        most: usize,
        /// The number of labels that it may need at the fullest windows.
        found: usize,
    },
    /// The table does not answer such a question.
    #[error("expected a question that the table answers, {0}")]
    Question(&'static str),
    /// The key has no uses left; the client must register a new key.
    #[error("the key was used {uses} times, by block of an answer: register a new one")]
    Uses {
        /// The allowed number of uses.
        uses: u32,
    },
    /// The question is too large for one answer.
    #[error("expected a question with room for its patterns in {MAX_BLOCKS} blocks, found one of {blocks}")]
    Blocks {
        /// The number of blocks that it would take.
        blocks: usize,
    },
    /// Counts that are too large, or places outside the panel.
    #[error(transparent)]
    Entries(#[from] EntryError),
    /// The bytes are not a message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The comparison failed.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The comparison with the place hidden failed.
    #[error(transparent)]
    Hidden(#[from] super::hidden::server::AnswerError),
    /// The parameters do not exist: a fault of this program.
    #[error(transparent)]
    Parameters(#[from] LatticeError),
}

impl Refusal {
    /// The word for programs: a client reacts to it, and not to the text.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Set => "set",
            Self::Key { .. } => "key",
            Self::Uses { .. } => "uses",
            Self::Clients { .. } => "clients",
            Self::Budget { .. } => "budget",
            Self::Region { .. } => "region",
            Self::Mode(_) => "mode",
            Self::Revision => "labels",
            Self::Answer(AnswerError::Query { .. } | AnswerError::Parameters) | Self::Message(_) => "message",
            Self::Parameters(_) | Self::Answer(_) | Self::Hidden(_) => "fault",
            // all other refusals mean that the desk does not answer such a question
            Self::Labels { .. } | Self::Question(_) | Self::Blocks { .. } | Self::Entries(_) => "question",
        }
    }
}

/// A key, and the number of its uses.
struct Registered {
    public: Arc<PublicKey>,
    uses: u32,
}

/// A client.
#[derive(Default)]
struct Client {
    keys: BTreeMap<&'static str, Registered>,
    /// The key for questions with the place hidden.
    hidden: Option<hidden::HiddenKey>,
    /// By set, uses of keys that were registered before the client was released, and not again
    /// since.
    before: BTreeMap<&'static str, u32>,
    /// Tests that were made, in all tables together.
    tests: u64,
    /// Tests that were made, by region.
    regions: Made,
}

/// Tables and clients.
pub struct SearchService {
    limits: Limits,
    tables: BTreeMap<[u8; TABLE_BYTES], Arc<Served>>,
    /// The labellers of tables with labels.
    labellers: BTreeMap<[u8; TABLE_BYTES], Arc<Labeller>>,
    clients: BTreeMap<[u8; CLIENT_BYTES], Client>,
    /// The accounts of released clients, which have no key here.
    released: BTreeMap<[u8; CLIENT_BYTES], Account>,
    matchers: BTreeMap<&'static str, Arc<Matcher>>,
    hidden: hidden::Hidden,
}

/// A query that was admitted and paid. Only the computation is left; it may run anywhere, at any
/// time.
pub struct Admitted {
    served: Arc<Served>,
    matcher: Arc<Matcher>,
    public: Arc<PublicKey>,
    query: Query,
    layout: Layout,
    labeller: Option<Arc<Labeller>>,
}

impl SearchService {
    /// A service without a table.
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

    /// Serves a panel. Patterns that fewer than `least` haplotypes have count as absent. A table of
    /// the same name is replaced, and clients keep their keys and budgets. The panel has no labels,
    /// even if the earlier table had labels ([`Self::serve_labelled`]).
    pub fn serve(&mut self, name: [u8; TABLE_BYTES], panel: Panel, least: u32) {
        self.labellers.remove(&name);
        self.drop_cells(&name);
        self.tables.insert(name, Arc::new(Served::of_panel(panel, least)));
    }

    /// Serves any table under its name. A table of the same name is replaced, and clients keep
    /// their keys and budgets.
    ///
    /// # Errors
    /// [`Refusal::Question`] for keys that no question has room for.
    pub fn serve_table(&mut self, table: Table) -> Result<(), Refusal> {
        let name = table.name;
        let served = Arc::new(Served::of_table(table)?);
        self.labellers.remove(&name);
        self.drop_cells(&name);
        self.tables.insert(name, served);
        Ok(())
    }

    /// Stops serving a table; clients keep their keys and budgets.
    pub fn withdraw(&mut self, name: &[u8; TABLE_BYTES]) {
        self.labellers.remove(name);
        self.drop_cells(name);
        self.tables.remove(name);
        self.serve_hidden(name, Vec::new());
    }

    /// Registers a client's key for questions of one size. The bytes are a registration under a set
    /// of parameters. A new key starts with zero uses; the client's budget stays.
    ///
    /// # Errors
    /// [`Refusal`]; then nothing has changed.
    pub fn register(&mut self, client: [u8; CLIENT_BYTES], set: &str, bytes: &[u8]) -> Result<(), Refusal> {
        let set = program::sets().find(|known| known.name == set).ok_or(Refusal::Set)?;
        let public = messages::decode_registration(bytes, matcher(&mut self.matchers, &set)?.parameters())?;
        let most = self.limits.clients;
        if self.clients.len() >= most && !self.clients.contains_key(&client) {
            return Err(Refusal::Clients { most });
        }
        let client = self.client(client);
        // the key may be the one of before the release
        let uses = client.before.remove(set.name).unwrap_or(0);
        client.keys.insert(set.name, Registered { public: Arc::new(public), uses });
        Ok(())
    }

    /// Releases a client: the desk forgets its keys, and the client has to register again. With
    /// `keep_budget` its account stays until then, and does not count as a client meanwhile.
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

    /// The client of this name; a new client if there is none. A released client gets its account
    /// back.
    fn client(&mut self, name: [u8; CLIENT_BYTES]) -> &mut Client {
        let client = self.clients.entry(name).or_default();
        if let Some(Account { tests, uses, regions, .. }) = self.released.remove(&name) {
            (client.tests, client.before, client.regions) = (tests, uses, regions);
        }
        client
    }

    /// The account of a client; none for an unknown client.
    pub fn account(&self, client: &[u8; CLIENT_BYTES]) -> Option<Account> {
        let Some(known) = self.clients.get(client) else { return self.released.get(client).cloned() };
        let hidden = known.hidden.iter().map(|key| ("search-hidden", key.uses));
        let before = known.before.iter().map(|(set, uses)| (*set, *uses));
        let uses = before.chain(known.keys.iter().map(|(set, key)| (*set, key.uses))).chain(hidden).collect();
        Some(Account { client: *client, tests: known.tests, uses, regions: known.regions.clone() })
    }

    /// Restores a stored account. Register the client's keys before: the account then sets their
    /// uses. The account of a client without a key is that of a released client.
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

    /// Admits a query. The client's budgets pay for it, unless evaluations of its labels were paid.
    /// Returns the query, with the facts that may be logged.
    ///
    /// # Errors
    /// [`Refusal`]; then all budgets are unchanged.
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

    /// Admits and answers a query.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn answer(&mut self, bytes: &[u8], rng: &mut impl CryptoRng) -> Result<(Vec<u8>, Asked), Refusal> {
        let (admitted, asked) = self.admit(bytes)?;
        Ok((admitted.answer(rng)?, asked))
    }
}

impl Admitted {
    /// The answer's bytes. The running time depends on public data: the table, the places, the
    /// shape and granularity, and whether labels of these places are in memory.
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
        Ok(messages::encode_answer(&answer)?)
    }
}

/// The one matcher of a set, so that its precomputed tables are made once. All keys are read with
/// its parameters.
fn matcher<'a>(all: &'a mut BTreeMap<&'static str, Arc<Matcher>>, set: &NamedSet) -> Result<&'a Arc<Matcher>, Refusal> {
    Ok(match all.entry(set.name) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(room) => room.insert(Arc::new(Matcher::new(&set.parameters()?)?)),
    })
}
