//! The search over HTTP: tables that the server has, for clients whose questions it cannot see.
//!
//! ```text
//!   GET  /search/v1                    JSON: who the client is, what it may still ask, the tables and their tags
//!   GET  /search/v1/tables/{name}      what is told of a table: length of the catalogue (8, big-endian), catalogue, fullness; its tag is the ETag
//!   POST /search/v1/keys/{set}         a registration: the client's public key of a set of parameters
//!   POST /search/v1/evaluations        an evaluation for a question to a table with labels; what was evaluated is the body
//!   POST /search/v1/queries            a query; the answer is the body. If-Match: the table's tag; Tobari-Key: SHA-256 of the registration
//!   GET  /search/v1/tables/{name}/hidden/{length}    the layout to ask for so many sites anywhere, or `keys`, with the place hidden; the ETag is its name's
//!   POST /search/v1/hidden/keys        a registration for such questions: the public key and keys to expand queries
//!   POST /search/v1/hidden/queries     a query with the place hidden. Tobari-Key: SHA-256 of the registration
//! ```
//!
//! The bytes are those of [`tobari_search`]. A refusal is a status, one line of text, and a word
//! for programs in the header `Tobari-Refusal`. A query with the tag of another revision (412), or
//! for a key that is not the registered one (409), is refused before it is paid: its answer could
//! not be read.
//!
//! **Who is who.** With a file of tokens, the token says who asks, and the client's 16 bytes follow
//! from the name that the file gives it: who has one token has one budget. Without, clients name
//! themselves in the header `Tobari-Client`, and budgets hold nobody: for one machine, unless the
//! options say otherwise.
//!
//! **Labels.** Where the options say so, all tables are served with labels, under keys that are
//! drawn when a file is read and are kept nowhere; the list of tables says the mode of each.
//! Evaluations are paid as they are admitted, with what was paid on the disk before they leave. A
//! question under an earlier key (412, `labels`) is to be evaluated again, one of the other mode
//! (409, `mode`) to be asked otherwise.
//!
//! **Who runs what.** The desk admits under a lock, on the blocking pool; answers are computed
//! there without the lock, no more at once than there are cores. A request that may be made is read
//! whole first, in memory of its client's share; then it waits two seconds for one of as many turns
//! as the options say, of which one client has a share, too, and is sent away (503) where there is
//! none.
//!
//! **Places.** Keys and accounts of so many clients are held, of which one address has a share. A
//! client that asks keeps its place; one that was not used for an hour is given away when another
//! client needs it, the least recently used first ([`tobari_node::places`]). Its client is told to
//! register again (409, `key`), which clients do by themselves. With tokens, what a client has used
//! up stays even then: a budget never comes back.
//!
//! **What is kept.** With a data folder, what each client has used is on the disk before an answer
//! leaves (`store`). The audit log has one line a query, evaluation or registration, and never
//! where or what.

mod arrange;
mod audit;
mod handle;
mod refusals;
mod store;
mod tables;

use audit::Audit;
use axum::{
    Router,
    body::Bytes,
    routing::{get, post},
};
use futures_util::future::BoxFuture;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::Store;
use tobari_host::storage::Trouble;
use tobari_node::{
    Given, Job, JobError, Offer, Page, Running,
    clients::Origin,
    cpu::Cpu,
    disk::{Disk, keep_trying},
    memory::{Bounds, Memory},
    places::{Keeper, PlaceLimits, Places},
    reading,
    stop::Stop,
    tokens::{TokenFiles, Tokens, TokensError},
    turns::Turns,
};
use tobari_octets::sha256;
use tobari_search::desk::{Limits, Refusal, SearchService};
use tobari_search::hidden::numbers::Kind;
use tobari_search::messages::{CLIENT_BYTES, TABLE_BYTES};

pub use arrange::HiddenOptions;

const NAME: &str = "search";
/// The page of tables.
pub const PAGE: Page = Page { job: NAME, file: "search.html", also: &[], calling: &[] };
/// Registrations that are worked at at once.
const REGISTRATIONS: usize = 4;

/// How the search is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchOptions {
    /// Files of tables.
    pub tables: Vec<PathBuf>,
    /// Who may ask: a file of names and hashes of tokens.
    pub tokens: Option<PathBuf>,
    /// Serve anybody without tokens, beyond this machine too.
    pub open: bool,
    /// What clients may ask.
    pub limits: Limits,
    /// Serve all tables with labels, for clients that need not follow the protocol.
    pub malicious: bool,
    /// Bytes of the labels of each such table that are kept, beside those of keys, which are all
    /// kept.
    pub label_bytes: usize,
    /// Which tables are asked with the place hidden.
    pub hidden: HiddenOptions,
    /// Where keys and accounts are kept.
    pub data: Option<PathBuf>,
    /// The audit log.
    pub audit: Option<PathBuf>,
    /// Bytes of all clients' registrations at most.
    pub key_bytes: u64,
    /// How long a client's place is its own after it was used.
    pub idle: Duration,
    /// Bytes of a request at most.
    pub body_bytes: usize,
    /// Queries in the house at most: read, waiting for a core, and computed.
    pub queue: usize,
    /// Time to send a request's body.
    pub patience: Duration,
    /// Time between two looks at the tables' files.
    pub look: Duration,
}

impl SearchOptions {
    /// Of these tables, for this machine, with the usual limits.
    pub fn new(tables: Vec<PathBuf>) -> Self {
        let (body_bytes, patience, look) = (16 << 20, Duration::from_secs(30), Duration::from_secs(1));
        let (tokens, data, audit) = (None, None, None);
        Self {
            tables,
            tokens,
            open: false,
            malicious: false,
            label_bytes: 1 << 28,
            limits: Limits::default(),
            hidden: HiddenOptions::default(),
            data,
            audit,
            key_bytes: 4 << 30,
            idle: Duration::from_secs(3600),
            body_bytes,
            queue: 64,
            patience,
            look,
        }
    }
}

/// Why the search cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A file that cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Nobody said who may ask, at an address that others reach.
    #[error("other machines reach {0}: add --tokens FILE, or --open to answer everybody")]
    Open(IpAddr),
    /// What is wrong with the file of tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// No key for labels can be drawn.
    #[error("expected random bytes from the system, found none")]
    Randomness,
    /// A kind of question that none of the tables answers.
    #[error("no table answers hidden questions of the kind {0}: change --hidden")]
    Hidden(Kind),
    /// The desk does not take a table or a key that was kept.
    #[error(transparent)]
    Desk(#[from] Refusal),
}

impl SearchError {
    fn file(path: impl Into<PathBuf>, what: impl std::fmt::Display) -> Self {
        let path = path.into();
        let what = tobari_host::files::without_name(&path, what);
        Self::File { path, what }
    }
}

/// A client, so far as the server knows.
#[derive(Clone)]
pub(crate) struct Client {
    id: [u8; CLIENT_BYTES],
    name: Arc<str>,
    origin: Origin,
}

impl Client {
    /// The client whose token has this name: its 16 bytes follow from it.
    fn named(name: Arc<str>) -> Self {
        let mut id = [0; CLIENT_BYTES];
        id.copy_from_slice(&sha256(&[b"tobari search client ", name.as_bytes()].concat())[..CLIENT_BYTES]);
        Self { id, origin: Origin::Token(Arc::clone(&name)), name }
    }
}

/// What is told of a table.
struct TableInfo {
    tag: String,
    line: serde_json::Value,
    body: Bytes,
}

/// The desk and what must change with it.
struct State {
    desk: SearchService,
    told: BTreeMap<[u8; TABLE_BYTES], TableInfo>,
    /// By client and set, the hash of the key that is registered.
    keys: HashMap<[u8; CLIENT_BYTES], BTreeMap<&'static str, [u8; 32]>>,
    /// How often anybody was charged.
    charges: u64,
    /// Who has a place.
    places: Places<[u8; CLIENT_BYTES]>,
    /// By client and set, bytes of the registration.
    sizes: HashMap<[u8; CLIENT_BYTES], BTreeMap<&'static str, u64>>,
}

impl State {
    /// Without a client.
    fn new(limits: Limits, places: PlaceLimits) -> Self {
        // clients are counted by their places
        let desk = SearchService::new(Limits { clients: usize::MAX, ..limits });
        let (told, keys, sizes) = Default::default();
        Self { desk, told, keys, charges: 0, places: Places::new(places), sizes }
    }

    /// Bytes of a client's registrations once one of this set has so many.
    fn size(&self, client: &[u8; CLIENT_BYTES], set: &str, bytes: u64) -> u64 {
        let others = self.sizes.get(client).into_iter().flatten().filter(|(other, _)| **other != set);
        others.map(|(_, bytes)| bytes).sum::<u64>().saturating_add(bytes)
    }

    /// Forgets a client whose place was given away; what it has used up stays where budgets hold
    /// somebody.
    fn forget(&mut self, client: &[u8; CLIENT_BYTES], keep_budget: bool) {
        self.desk.release(client, keep_budget);
        self.keys.remove(client);
        self.sizes.remove(client);
    }
}

struct Shared {
    state: Mutex<State>,
    tokens: Option<Arc<Tokens>>,
    store: Option<Store>,
    audit: Option<Audit>,
    cpu: Cpu,
    keeper: Keeper,
    memory: Memory,
    turns: Turns,
    /// For registrations.
    registrations: Turns,
    options: SearchOptions,
}

/// The search, ready to serve.
#[derive(Clone)]
pub(crate) struct Search {
    shared: Arc<Shared>,
    files: Arc<Mutex<tables::Files>>,
}

impl Search {
    /// Reads all files.
    fn open(options: &SearchOptions, ip: IpAddr, bounds: &Bounds, files: &TokenFiles) -> Result<Self, SearchError> {
        if options.tokens.is_none() && !options.open && !ip.is_loopback() {
            return Err(SearchError::Open(ip));
        }
        let tokens = options.tokens.as_deref().map(|path| files.open(path)).transpose()?;
        let (count, share) = (options.limits.clients as u64, bounds.share);
        let places = PlaceLimits { count, bytes: options.key_bytes, idle: options.idle, share };
        let mut state = State::new(options.limits, places);
        let labels = options.malicious.then_some(options.label_bytes);
        let files = tables::Files::open(&options.tables, (labels, &options.hidden), &mut state)?;
        let store = options.data.as_deref().map(|folder| Store::open(folder, &mut state)).transpose()?;
        let audit = options.audit.as_deref().map(Audit::open).transpose()?;
        let keeper = options.data.as_deref().map(Keeper::open).transpose();
        let keeper = keeper.map_err(|error| SearchError::file(options.data.clone().unwrap_or_default(), error))?;
        let shared = Shared {
            state: Mutex::new(state),
            tokens,
            store,
            audit,
            cpu: Cpu::default(),
            keeper: keeper.unwrap_or_else(Keeper::drawn),
            memory: bounds.memory.clone(),
            turns: Turns::new(options.queue, share),
            registrations: Turns::new(REGISTRATIONS, share),
            options: options.clone(),
        };
        Ok(Self { shared: Arc::new(shared), files: Arc::new(Mutex::new(files)) })
    }

    /// Looks at the tables' files again and again, and serves what they have become.
    async fn look(self, mut stopped: Stop) {
        let tried = Arc::clone(&self.shared);
        tokio::spawn(keep_trying(stopped.clone(), move || tried.disks().for_each(Disk::try_again)));
        loop {
            tokio::select! {
                () = stopped.wait() => return,
                () = tokio::time::sleep(self.shared.options.look) => {}
            }
            let this = self.clone();
            let looked = tokio::task::spawn_blocking(move || {
                this.files
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .look(&this.shared.state, &this.shared.options.hidden);
            });
            if looked.await.is_err() {
                tracing::error!("looking at the tables failed");
            }
        }
    }
}

impl Offer for SearchOptions {
    fn folders(&self) -> Vec<PathBuf> {
        self.data.iter().cloned().collect()
    }

    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(async move {
            let search = reading(move || Search::open(&self, given.ip, &given.bounds, &given.tokens)).await?;
            Ok(Arc::new(search) as Arc<dyn Job>)
        })
    }
}

impl Job for Search {
    fn name(&self) -> &'static str {
        NAME
    }

    fn routes(&self, _: &Running) -> Router {
        Router::new()
            .route("/search/v1", get(handle::list))
            .route("/search/v1/tables/{name}", get(handle::table))
            .route("/search/v1/keys/{set}", post(handle::register))
            .route("/search/v1/evaluations", post(handle::evaluation))
            .route("/search/v1/queries", post(handle::query))
            .route("/search/v1/tables/{name}/hidden/{length}", get(handle::hidden::layout))
            .route("/search/v1/hidden/keys", post(handle::hidden::register))
            .route("/search/v1/hidden/queries", post(handle::hidden::query))
            .with_state(self.clone())
    }

    /// What is wrong with the disk.
    fn trouble(&self) -> Option<Trouble> {
        self.shared.disks().find_map(Disk::trouble)
    }

    fn page(&self) -> Option<Page> {
        Some(PAGE)
    }

    fn keep_up(self: Arc<Self>, running: Running) -> BoxFuture<'static, ()> {
        Box::pin(Self::clone(&self).look(running.stopped))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Where something is kept: keys and accounts, and the audit log.
    fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.store.iter().map(Store::disk).chain(self.audit.iter().map(Audit::disk))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_its_name_alone() {
        let [one, same, other] = ["alice", "alice", "bob"].map(|name| Client::named(name.into()));
        assert_eq!(one.id, same.id);
        assert_ne!(one.id, other.id);
    }
}
