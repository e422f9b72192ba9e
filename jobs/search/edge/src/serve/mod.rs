//! The search over HTTP: the server has tables, and cannot see the clients' questions.
//!
//! ```text
//!   GET  /search/v1                 JSON: the client's name, its budget, the tables, their tags
//!   GET  /search/v1/tables/{name}   a table's description: length of the catalogue (8 bytes,
//!                                   big-endian), catalogue, fullness; the ETag is the table's tag
//!   POST /search/v1/keys/{set}      a registration: the client's public key of a parameter set
//!   POST /search/v1/evaluations     an evaluation for a question to a table with labels; returns
//!                                   the evaluated points
//!   POST /search/v1/queries         a query; returns the answer. If-Match: the table's tag;
//!                                   Tobari-Key: SHA-256 of the registration
//!   GET  /search/v1/tables/{name}/hidden/{length}
//!                                   the layout for questions of {length} sites (or `keys`) with
//!                                   the place hidden; the ETag is the layout's name
//!   GET  /search/v1/tables/{name}/hidden/{length}/{chromosome}/{cell}
//!                                   the layout for questions of {length} sites in a cell: the
//!                                   chromosome's number in the table, from 0, and the cell's
//!   POST /search/v1/hidden/keys     a registration for questions with the place hidden: the public
//!                                   key, and keys to expand queries
//!   POST /search/v1/hidden/queries  a query with the place hidden. Tobari-Key: SHA-256 of the
//!                                   registration
//! ```
//!
//! [`tobari_search`] defines the bytes. A refusal is a status, one line of text, and a word for
//! programs in the header `Tobari-Refusal`. A query with the tag of another revision (412), or for
//! a key that is not the registered one (409), is rejected before it is paid, because the client
//! could not read the answer.
//!
//! **Clients.** With a file of tokens, the token identifies the client, and the client's 16 bytes
//! are derived from the token's name in the file. So one token has one budget. Without the file,
//! clients name themselves in the header `Tobari-Client`, and budgets bind nobody. The server then
//! starts only on a loopback address without a named proxy, unless the options say otherwise.
//!
//! **Labels.** If the options say so, all tables are served with labels, under keys that are drawn
//! when a file is read and are stored nowhere. The list of tables contains the mode of each.
//! Evaluations are paid at admission; the charge is on the disk before they leave. After a rejected
//! question under an earlier key (412, `labels`) the client has to evaluate again. After a question
//! of the other mode (409, `mode`) it has to ask in the table's mode.
//!
//! **Threads and turns.** The desk admits requests under a lock, on the blocking pool. Answers are
//! computed there without the lock, at most as many at once as there are cores. An allowed request
//! is first read as a whole, in memory of its client's share. Then it waits up to two seconds for
//! one of as many turns as the options say; a client has a share of the turns, too. Without a turn
//! it is rejected (503).
//!
//! **Places.** The server holds keys and accounts of so many clients; one address has a share of
//! them. A client that asks keeps its place. If another client needs a place, the server takes the
//! least recently used one that was unused for an hour ([`tobari_node::places`]). The client that
//! lost its place gets the error to register again (409, `key`), and registers automatically. With
//! tokens, its account stays even then: a budget never comes back.
//!
//! **Storage.** With a data folder, each client's account is on the disk before an answer leaves
//! (`store`). The audit log has one line for each query, evaluation or registration, without place
//! and content.

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
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::Store;
use tobari_host::storage::Trouble;
use tobari_node::{
    Given, Job, JobError, Offer, Page, Reach, Running,
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
/// Registrations that are handled at once.
const REGISTRATIONS: usize = 4;

/// Options of the search server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchOptions {
    /// Files of tables.
    pub tables: Vec<PathBuf>,
    /// The allowed clients: a file of names and hashes of tokens.
    pub tokens: Option<PathBuf>,
    /// Serve clients without tokens, beyond this machine too.
    pub open: bool,
    /// The limits of clients.
    pub limits: Limits,
    /// Serve all tables with labels, for clients that need not follow the protocol.
    pub malicious: bool,
    /// Bytes of the labels of windows that stay in memory, for each table. The labels of tables of
    /// keys always stay.
    pub label_bytes: usize,
    /// The tables that are asked with the place hidden.
    pub hidden: HiddenOptions,
    /// The folder for keys and accounts.
    pub data: Option<PathBuf>,
    /// The audit log.
    pub audit: Option<PathBuf>,
    /// The most bytes of all clients' registrations.
    pub key_bytes: u64,
    /// How long an unused place stays the client's.
    pub idle: Duration,
    /// The most bytes of a request.
    pub body_bytes: usize,
    /// The most queries at once: read, waiting for a core, and computed.
    pub queue: usize,
    /// Time to send a request's body.
    pub patience: Duration,
    /// Time between two checks of the tables' files.
    pub look: Duration,
}

impl SearchOptions {
    /// Options for these tables, for this machine only, with the default limits.
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
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        what: String,
    },
    /// Other machines reach the address, and no option says which clients are allowed.
    #[error("other machines reach {0}: add --tokens FILE, or --open to answer everybody")]
    Open(Reach),
    /// The file of tokens is invalid.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// No key for labels can be drawn.
    #[error("expected random bytes from the system, found none")]
    Randomness,
    /// No table answers this kind of questions.
    #[error("no table answers hidden questions of the kind {0}: change --hidden")]
    Hidden(Kind),
    /// The desk rejects a table or a stored key.
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

/// A client, as the server knows it.
#[derive(Clone)]
pub(crate) struct Client {
    id: [u8; CLIENT_BYTES],
    name: Arc<str>,
    origin: Origin,
}

impl Client {
    /// The client with a token of this name. Its 16 bytes are derived from the name.
    fn named(name: Arc<str>) -> Self {
        let mut id = [0; CLIENT_BYTES];
        id.copy_from_slice(&sha256(&[b"tobari search client ", name.as_bytes()].concat())[..CLIENT_BYTES]);
        Self { id, origin: Origin::Token(Arc::clone(&name)), name }
    }
}

/// A table's public information.
struct TableInfo {
    tag: String,
    line: serde_json::Value,
    body: Bytes,
}

/// The desk, and the state that must change with it.
struct State {
    desk: SearchService,
    told: BTreeMap<[u8; TABLE_BYTES], TableInfo>,
    /// By client and set, the hash of the registered key.
    keys: HashMap<[u8; CLIENT_BYTES], BTreeMap<&'static str, [u8; 32]>>,
    /// The number of charges of all clients.
    charges: u64,
    /// The places of clients.
    places: Places<[u8; CLIENT_BYTES]>,
    /// By client and set, bytes of the registration.
    sizes: HashMap<[u8; CLIENT_BYTES], BTreeMap<&'static str, u64>>,
}

impl State {
    /// A state without clients.
    fn new(limits: Limits, places: PlaceLimits) -> Self {
        // places limit the number of clients
        let desk = SearchService::new(Limits { clients: usize::MAX, ..limits });
        let (told, keys, sizes) = Default::default();
        Self { desk, told, keys, charges: 0, places: Places::new(places), sizes }
    }

    /// Bytes of a client's registrations, if the one of this set has so many bytes.
    fn size(&self, client: &[u8; CLIENT_BYTES], set: &str, bytes: u64) -> u64 {
        let others = self.sizes.get(client).into_iter().flatten().filter(|(other, _)| **other != set);
        others.map(|(_, bytes)| bytes).sum::<u64>().saturating_add(bytes)
    }

    /// Forgets a client that lost its place. Its account stays if budgets bind clients.
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
    /// Turns for registrations.
    registrations: Turns,
    /// Held while a cell is arranged, so that two clients do not arrange the same one.
    arranging: Arc<tokio::sync::Mutex<()>>,
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
    fn open(options: &SearchOptions, reach: Reach, bounds: &Bounds, files: &TokenFiles) -> Result<Self, SearchError> {
        if options.tokens.is_none() && !options.open && !reach.is_this_machine() {
            return Err(SearchError::Open(reach));
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
            arranging: Arc::default(),
            options: options.clone(),
        };
        Ok(Self { shared: Arc::new(shared), files: Arc::new(Mutex::new(files)) })
    }

    /// Checks the tables' files again and again, and serves the changed ones.
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
            let search = reading(move || Search::open(&self, given.reach, &given.bounds, &given.tokens)).await?;
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
            .route("/search/v1/tables/{name}/hidden/{length}/{chromosome}/{cell}", get(handle::hidden::cell))
            .route("/search/v1/hidden/keys", post(handle::hidden::register))
            .route("/search/v1/hidden/queries", post(handle::hidden::query))
            .with_state(self.clone())
    }

    /// The present trouble of the disk, if there is any.
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

    /// The disks of stored data: keys and accounts, and the audit log.
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
