//! Inference over HTTP: the server has models, and cannot see the clients' images.
//!
//! ```text
//! MODEL = /infer/v1/models/{digest}
//!
//!   GET  /infer/v1           JSON: the models, with their digests, shapes, layouts, parameters and
//!                            sizes
//!   GET  MODEL               the public facts of a model (tobari_infer::card)
//!   POST MODEL/keys          a client's evaluation keys; later requests name them by their SHA-256
//!   GET  MODEL/keys/{hash}   204 if the server has these keys, 404 otherwise
//!   POST MODEL/keys/{hash}/{n}  key n of the card, for a model with large keys (the module `large`);
//!                            Tobari-Next: the number of keys that the server has
//!   POST MODEL/answers       a question; returns the answer. Tobari-Key: SHA-256 of the keys. With
//!                            large keys, the steps of the run come first (the module `run`)
//!   …    MODEL/enclave…      an enclave for clients that verify it (routes: the module `enclave`)
//! ```
//!
//! A rejection has a status, one line of text, and a word for programs in the header
//! `Tobari-Refusal`, as in search.
//!
//! **What the server holds.** Models, and evaluation keys. Evaluation keys are public and decrypt
//! nothing. No option, file or message can give the server a secret key. The keys of enclaves are
//! generated inside them; a simulated enclave hides nothing from the server's operator. The
//! operator has the weights of the models. A client sees the shape of a layout and its decrypted
//! answers ([`tobari_infer::server`] describes the leakage).
//!
//! **Access.** With a file of tokens, only clients with a token are served; otherwise every client
//! on this machine, unless the options say otherwise. Keys have no owner: their maker knows
//! their name, and answers under them are useless to others.
//!
//! **Scheduling.** Decoding and arithmetic run on the blocking pool, with at most as many tasks at
//! once as there are cores. A permitted request is first read completely, in memory of its client's
//! share. Then it waits up to two seconds for a turn. The options set the number of turns (four for
//! uploads of keys), of which one client has a share, too; without a turn the request is rejected
//! (503).
//!
//! **Storage.** Keys of models with refreshes are on the disk (the module `large`). Others are in
//! memory, within a limit of bytes of which one address or token has a share. With a data folder
//! they are also on the disk (`store`), so that a restarted server has them. Keys that were not
//! used for an hour are removed when others need the room, the least recently used first
//! ([`tobari_node::places`]); their client gets an error (404, `key`) and sends them again. If all
//! keys are in use, further ones are rejected (507).

mod enclave;
mod handle;
mod large;
mod models;
mod run;
mod store;

use crate::network::Ring;
use axum::{
    Router,
    routing::{get, post},
};
use futures_util::future::BoxFuture;
use large::LargeKeys;
use models::Served;
use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::Store;
use tobari_host::storage::Trouble;
use tobari_infer::ready::SET;
use tobari_node::{
    Given, Job, JobError, Offer, Page, Reach, Running, StartupNotes,
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
pub(crate) use run::CONTENT_TYPE as RUN_CONTENT_TYPE;

const NAME: &str = "infer";
/// The page of images.
pub const PAGE: Page = Page { job: NAME, file: "infer.html", also: &[], calling: &[] };
/// The most uploads of keys that are processed at once.
const UPLOADS: usize = 4;
/// The warning about an enclave without hardware.
const SIMULATED: &str = "warning: the enclave is SIMULATED: a process of this machine without protection by hardware. The operator can read the images. Clients accept its evidence only with --accept-simulated";
/// The digest of a model, or of keys.
type Name = [u8; 32];

/// Options of inference on a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InferOptions {
    /// The models.
    pub models: Vec<ModelSource>,
    /// The layout of all models; without it, the fastest that fits a model.
    pub layout: Option<String>,
    /// The parameter set of all models.
    pub set: String,
    /// A file of names and hashes of tokens; only clients with a token are served.
    pub tokens: Option<PathBuf>,
    /// Serve every client without tokens, also from other machines.
    pub open: bool,
    /// The folder where keys are stored.
    pub data: Option<PathBuf>,
    /// The most bytes of memory for clients' keys.
    pub key_bytes: u64,
    /// The most bytes of files of large keys.
    pub key_file_bytes: u64,
    /// The time after their last use for which keys keep their room.
    pub idle: Duration,
    /// The most bytes of memory for each model's encoded weights; a model that needs more encodes
    /// them again for every question.
    pub weight_bytes: u64,
    /// The most questions in the server at once: read, waiting for a core, and computed.
    pub queue: usize,
    /// Time to send a request's body.
    pub patience: Duration,
    /// The enclave of each model, if enclaves are to run.
    pub enclave: Option<EnclaveOptions>,
}

impl InferOptions {
    /// Options for these models, with the usual limits, for clients on this machine.
    pub fn new(models: Vec<ModelSource>) -> Self {
        Self {
            models,
            layout: None,
            set: SET.to_owned(),
            tokens: None,
            open: false,
            data: None,
            key_bytes: 2 << 30,
            key_file_bytes: 64 << 30,
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
        /// The file's path.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A model that cannot be served.
    #[error("model {name}: {what}")]
    Model {
        /// The model's name.
        name: String,
        /// The fault.
        what: String,
    },
    /// An unknown parameter set.
    #[error("{0} is no parameter set: `tobari info` lists the sets")]
    Set(String),
    /// No access rule for an address that other machines reach.
    #[error("other machines reach {0}: add --tokens FILE, or --open to answer everybody")]
    Open(Reach),
    /// A fault of the file of tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl InferError {
    pub(crate) fn file(path: impl Into<PathBuf>, what: impl std::fmt::Display) -> Self {
        let path = path.into();
        let what = tobari_host::files::without_name(&path, what);
        Self::File { path, what }
    }
}

/// Clients' keys by model and by name, and their memory.
struct Keys {
    rings: HashMap<(Name, Name), Ring>,
    places: Places<(Name, Name)>,
}

struct Shared {
    models: BTreeMap<Name, Arc<Served>>,
    keys: Mutex<Keys>,
    tokens: Option<Arc<Tokens>>,
    store: Option<Store>,
    large: LargeKeys,
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
    /// Notes about the service for its start, without the enclaves.
    told: Arc<StartupNotes>,
}

impl Infer {
    /// Reads all models, prepares them, and loads the stored keys.
    fn open(options: &InferOptions, reach: Reach, bounds: &Bounds, files: &TokenFiles) -> Result<Self, InferError> {
        if options.tokens.is_none() && !options.open && !reach.is_this_machine() {
            return Err(InferError::Open(reach));
        }
        let tokens = options.tokens.as_deref().map(|path| files.open(path)).transpose()?;
        Self::of(models::open(options, bounds.share)?, options, bounds, tokens)
    }

    /// Serves these models, with the stored keys.
    fn of(
        models: BTreeMap<Name, Arc<Served>>,
        options: &InferOptions,
        bounds: &Bounds,
        tokens: Option<Arc<Tokens>>,
    ) -> Result<Self, InferError> {
        let share = bounds.share;
        let store = options.data.as_deref().map(Store::open).transpose()?;
        let keeper = store.as_ref().map(Store::keeper).transpose()?;
        // the large keys of one client are in memory beside those of others
        let large = models.values().filter_map(|served| served.direct().ok().filter(|direct| direct.is_large));
        let one = large.map(|direct| direct.keys.1).max().unwrap_or(0);
        let places = PlaceLimits { count: u64::MAX, bytes: options.key_bytes - one, idle: options.idle, share };
        let files = PlaceLimits { bytes: options.key_file_bytes, ..places };
        let shared = Shared {
            models,
            keys: Mutex::new(Keys { rings: HashMap::new(), places: Places::new(places) }),
            tokens,
            store,
            large: LargeKeys::new(files, share),
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

    /// The descriptions of the enclaves.
    fn enclaves(&self) -> Vec<EnclaveTold> {
        self.houses().map(|house| house.told().clone()).collect()
    }

    /// Until the server stops, ends idle sessions of enclaves and retries after errors of the disk.
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

/// Inference with its options, for a server to start.
pub struct InferOffer {
    /// The options.
    pub options: InferOptions,
    /// Notes about the service for its start, without the enclaves.
    pub told: StartupNotes,
}

impl Offer for InferOffer {
    fn folders(&self) -> Vec<PathBuf> {
        self.options.data.iter().cloned().collect()
    }

    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(async move {
            let Self { options, told } = *self;
            let infer = reading(move || Infer::open(&options, given.reach, &given.bounds, &given.tokens)).await?;
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
            .route("/infer/v1/models/{digest}/keys/{hash}/{index}", post(handle::large_key))
            .route("/infer/v1/models/{digest}/answers", post(handle::answer))
            .merge(enclave::routes())
            .with_state(self.clone())
    }

    /// The present error of the disk, if there is one.
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
