//! Inference over HTTP: models that the server has, for clients whose images it cannot see.
//!
//! ```text
//!   GET  /infer/v1                               JSON: the models, with their digests, shapes, layouts, parameters and sizes
//!   GET  /infer/v1/models/{digest}               what a client may know of a model (tobari_infer::card)
//!   POST /infer/v1/models/{digest}/keys          a client's evaluation keys; they are called by their SHA-256 from then on
//!   GET  /infer/v1/models/{digest}/keys/{hash}   204 where the server has these keys, 404 where it has not
//!   POST /infer/v1/models/{digest}/answers       a question; the answer is the body. Tobari-Key: SHA-256 of the keys
//!   …    /infer/v1/models/{digest}/enclave…      an enclave for clients that verify it (the module `enclave` has the routes)
//! ```
//!
//! A refusal is a status, one line of text, and a word for programs in the header `Tobari-Refusal`,
//! as the search has them.
//!
//! **What the server holds.** Models, and evaluation keys: public material that decrypts nothing.
//! It has no option, file or message that could bring it a secret key; keys of enclaves are born in
//! them, and a simulated one keeps nothing from whoever runs it. Who has a model's weights is who
//! runs the server; a client sees the shape of a layout and what it decrypts
//! ([`tobari_infer::server`] says what that tells).
//!
//! **Who is who.** With a file of tokens, only who has one is served. Without, anybody on this
//! machine, unless the options say otherwise. Keys belong to nobody: their name is known to whoever
//! made them, and answers under them help nobody else.
//!
//! **Who runs what.** Decoding and arithmetic run on the blocking pool, no more at once than there
//! are cores. A request that may be made is read whole first, in memory of its client's share; then
//! it waits two seconds for one of as many turns as the options say (four for uploads of keys), of
//! which one client has a share, too, and is sent away (503) where there is none.
//!
//! **What is kept.** Keys in memory, within a limit of bytes of which one address or token has a
//! share, and with a data folder on the disk, too (`store`), so that a new start knows them. Keys
//! that were not used for an hour are given away when others need their room, the least recently
//! used first ([`tobari_node::places`]); their client is told (404, `key`) and sends them again.
//! Where all are in use, further keys are refused (507).

mod enclave;
mod handle;
mod models;
mod store;

use axum::{
    Router,
    routing::{get, post},
};
use futures_util::future::BoxFuture;
use models::Served;
use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::Store;
use tobari_host::storage::Trouble;
use tobari_infer::ready::SET;
use tobari_infer::server::Keyring;
use tobari_node::{
    Given, Job, JobError, Offer, Page, Running, StartupNotes,
    cpu::Cpu,
    disk::keep_trying,
    memory::{Bounds, Memory},
    places::{Keeper, PlaceLimits, Places},
    reading,
    share::Share,
    stop::Stop,
    tokens::{TokenFiles, Tokens, TokensError},
    turns::Turns,
};

pub use enclave::{EnclaveOptions, EnclaveTold};
pub use models::ModelSource;

const NAME: &str = "infer";
/// The page of images.
pub const PAGE: Page = Page { job: NAME, file: "infer.html", also: &[], calling: &[] };
/// Uploads of keys that are worked at at once.
const UPLOADS: usize = 4;
/// What is said of an enclave without hardware.
const SIMULATED: &str = "warning: the enclave is SIMULATED: a process of this machine that no hardware protects; whoever runs this server can read the images, and clients take its evidence only with --accept-simulated";
/// A digest of a model, or of keys.
type Name = [u8; 32];

/// How inference is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InferOptions {
    /// The models.
    pub models: Vec<ModelSource>,
    /// The layout of all of them; without it, the fastest that takes a model.
    pub layout: Option<String>,
    /// The set of parameters of all of them.
    pub set: String,
    /// Who may ask: a file of names and hashes of tokens.
    pub tokens: Option<PathBuf>,
    /// Serve anybody without tokens, beyond this machine too.
    pub open: bool,
    /// Where keys are kept.
    pub data: Option<PathBuf>,
    /// Bytes of memory for clients' keys.
    pub key_bytes: u64,
    /// How long keys have their room after they were used.
    pub idle: Duration,
    /// Bytes of memory for each model's encoded weights; a model that needs more encodes them anew
    /// for every question.
    pub weight_bytes: u64,
    /// Questions in the house at most: read, waiting for a core, and computed.
    pub queue: usize,
    /// Time to send a request's body.
    pub patience: Duration,
    /// An enclave for each model, if there is to be one.
    pub enclave: Option<EnclaveOptions>,
}

impl InferOptions {
    /// Of these models, for this machine, with the usual limits.
    pub fn new(models: Vec<ModelSource>) -> Self {
        Self {
            models,
            layout: None,
            set: SET.to_owned(),
            tokens: None,
            open: false,
            data: None,
            key_bytes: 2 << 30,
            idle: Duration::from_secs(3600),
            weight_bytes: 1 << 30,
            queue: 16,
            patience: Duration::from_secs(60),
            enclave: None,
        }
    }
}

/// Why inference cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// A file that cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A model that cannot be served.
    #[error("model {name}: {what}")]
    Model {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A set of parameters that there is not.
    #[error("{0} is no parameter set: `tobari info` lists the sets")]
    Set(String),
    /// Nobody said who may ask, at an address that others reach.
    #[error("other machines reach {0}: add --tokens FILE, or --open to answer everybody")]
    Open(IpAddr),
    /// What is wrong with the file of tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl InferError {
    fn file(path: impl Into<PathBuf>, what: impl std::fmt::Display) -> Self {
        let path = path.into();
        let what = tobari_host::files::without_name(&path, what);
        Self::File { path, what }
    }
}

/// Clients' keys by their model and their own name, and the memory that they take.
struct Keys {
    rings: HashMap<(Name, Name), Keyring>,
    places: Places<(Name, Name)>,
}

struct Shared {
    models: BTreeMap<Name, Arc<Served>>,
    keys: Mutex<Keys>,
    tokens: Option<Arc<Tokens>>,
    store: Option<Store>,
    cpu: Cpu,
    keeper: Keeper,
    memory: Memory,
    turns: Turns,
    uploads: Turns,
    options: InferOptions,
}

impl Shared {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inference, ready to serve.
#[derive(Clone)]
pub(crate) struct Infer {
    shared: Arc<Shared>,
    /// What is said of it, beside its enclaves.
    told: Arc<StartupNotes>,
}

impl Infer {
    /// Reads all models, makes them ready, and takes up the keys that were kept.
    fn open(options: &InferOptions, ip: IpAddr, bounds: &Bounds, files: &TokenFiles) -> Result<Self, InferError> {
        if options.tokens.is_none() && !options.open && !ip.is_loopback() {
            return Err(InferError::Open(ip));
        }
        let tokens = options.tokens.as_deref().map(|path| files.open(path)).transpose()?;
        let share = bounds.share;
        let models = models::open(options, share)?;
        let store = options.data.as_deref().map(Store::open).transpose()?;
        let keeper = store.as_ref().map(Store::keeper).transpose()?;
        let places = PlaceLimits { count: u64::MAX, bytes: options.key_bytes, idle: options.idle, share };
        let shared = Shared {
            models,
            keys: Mutex::new(Keys { rings: HashMap::new(), places: Places::new(places) }),
            tokens,
            store,
            cpu: Cpu::default(),
            keeper: keeper.unwrap_or_else(Keeper::drawn),
            memory: bounds.memory.clone(),
            turns: Turns::new(options.queue, share),
            uploads: Turns::new(UPLOADS, share),
            options: options.clone(),
        };
        if let Some(store) = &shared.store {
            store.take_up(&shared)?;
        }
        Ok(Self { shared: Arc::new(shared), told: Arc::default() })
    }

    /// What is to be said of its enclaves.
    fn enclaves(&self) -> Vec<EnclaveTold> {
        self.houses().map(|house| house.told().clone()).collect()
    }

    /// Ends sessions of enclaves that nobody uses, and tries a disk that fails, until the server
    /// stops.
    fn tend(&self, stopped: Stop) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        let again = move || shared.store.iter().for_each(|store| store.disk().try_again());
        let tried = keep_trying(stopped.clone(), again);
        let ended = enclave::keep_up(self.houses().cloned().collect(), stopped);
        async move {
            tokio::join!(tried, ended);
        }
    }

    fn houses(&self) -> impl Iterator<Item = &Arc<enclave::EnclaveHost>> {
        self.shared.models.values().filter_map(|served| served.enclave.as_ref())
    }
}

/// Inference as the options say it.
pub struct InferOffer {
    /// How it is served.
    pub options: InferOptions,
    /// What is said of it, beside its enclaves.
    pub told: StartupNotes,
}

impl Offer for InferOffer {
    fn folders(&self) -> Vec<PathBuf> {
        self.options.data.iter().cloned().collect()
    }

    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(async move {
            let Self { options, told } = *self;
            let infer = reading(move || Infer::open(&options, given.ip, &given.bounds, &given.tokens)).await?;
            Ok(Arc::new(Infer { told: told.into(), ..infer }) as Arc<dyn Job>)
        })
    }
}

impl Job for Infer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn routes(&self, _: &Running) -> Router {
        Router::new()
            .route("/infer/v1", get(handle::list))
            .route("/infer/v1/models/{digest}", get(handle::model))
            .route("/infer/v1/models/{digest}/keys", post(handle::register))
            .route("/infer/v1/models/{digest}/keys/{hash}", get(handle::known))
            .route("/infer/v1/models/{digest}/answers", post(handle::answer))
            .merge(enclave::routes())
            .with_state(self.clone())
    }

    /// What is wrong with the disk.
    fn trouble(&self) -> Option<Trouble> {
        self.shared.store.as_ref().and_then(|store| store.disk().trouble())
    }

    fn page(&self) -> Option<Page> {
        Some(PAGE)
    }

    fn keep_up(self: Arc<Self>, running: Running) -> BoxFuture<'static, ()> {
        Box::pin(self.tend(running.stopped))
    }

    fn told(&self) -> StartupNotes {
        let (enclaves, mut told) = (self.enclaves(), StartupNotes::clone(&self.told));
        if !enclaves.is_empty() {
            told.members.push(("simulated_enclaves", serde_json::json!(enclaves)));
            told.lines.extend(enclaves.iter().map(EnclaveTold::line));
            told.warnings.push(SIMULATED.to_owned());
        }
        told
    }
}
