//! Devices' frames over HTTP, and questions about them: for devices and key holders whose readings
//! the server cannot see.
//!
//! ```text
//!   POST   /sense/v1/fleets/{fleet}/frames                          frames, one after another; JSON: how many were taken, and how many refused for which reason
//!   GET    /sense/v1/fleets/{fleet}                                 JSON: SHA-256 of the fleet's bundle                                                (*)
//!   POST   /sense/v1/fleets/{fleet}                                 the bundle: MAC keys, and which objects there are (tobari_sense::bundle)     (*)
//!   GET    /sense/v1/fleets/{fleet}/objects/{hash}                  204 where the server has an object, 404 where it has not                           (*)
//!   POST   /sense/v1/fleets/{fleet}/objects/{hash}                  an object: secrets under encryption, or a key that decrypts nothing                (*)
//!   POST   /sense/v1/fleets/{fleet}/questions/{id}                  an order (tobari_sense::order); DELETE takes it back                         (*)
//!   GET    /sense/v1/fleets/{fleet}/questions/{id}/windows          JSON: when windows began that have ended, have frames and were not fetched         (*)
//!   POST   /sense/v1/fleets/{fleet}/questions/{id}/windows/{start}  computes the results of a window: they are the body                               (*)
//!   DELETE /sense/v1/fleets/{fleet}/questions/{id}/windows/{start}  they were fetched                                                                  (*)
//!   DELETE /sense/v1/fleets/{fleet}/devices/{number}/frames         a device's frames are removed                                                      (*)
//!   DELETE /sense/v1/fleets/{fleet}                                 a fleet that ends, ends now                                                        (*)
//!   GET    /sense/v1/fleets/{fleet}/held                            JSON: what the server holds of a fleet that ends, for who has its name
//!   GET    /sense/v1                                                JSON: room for fleets that end, and how long they last                             (v)
//!   GET    /sense/v1/metrics                                        Prometheus text, without a name                                                    (*)
//! ```
//!
//! Those with a star are the key holder's (`rights`): with a file of tokens, only who has one is
//! served there; of a fleet that ends (`passing`), only who has its secret (`Tobari-Passing`). (v)
//! is for who may have such a fleet. Frames need no right: a device's MAC is what tells it. The
//! answer to a batch of which some were taken says when that was (`Tobari-Stored`, milliseconds
//! since 1970), and that of a window how long it was computed (`Server-Timing`).
//!
//! **What the server holds.** Frames, numbers of devices and keys that tell frames from forgeries;
//! secrets under encryption; keys that decrypt nothing. It has no option, file or message that
//! could bring it what opens a frame. Names of devices, tenants and channels never come.
//!
//! Frames come over MQTT, too, where there is a broker (`mqtt`).
//!
//! **Ingest.** A batch is answered when all that is taken of it is on the disk: frames of many
//! batches share a transaction (`commit`). A batch that is not answered can be sent again: what was
//! taken is counted as a duplicate and answered as taken.
//!
//! **Who may take how much.** A body is read, in memory of its client's share, before its request
//! takes a turn; of turns, of fleets that end, and of fleets that stay one address or token has a
//! share ([`tobari_node::share`]).
//!
//! **A disk that fails** (full, read-only, errors) loses nothing that was acknowledged. What needs
//! it is refused with 507 (`Tobari-Refusal: storage`, `Retry-After`), messages over MQTT stay with
//! the broker, and `/readyz` says 503. The disk is tried every second, and the job goes on when it
//! works.
//!
//! **Who runs what.** MACs are checked on the blocking pool, no more at once than there are cores;
//! one thread a fleet stores; one question at a time is computed, by a plan that was checked
//! ([`tobari_host::job`]), within a limit of memory if there is one.

mod commit;
mod fleet;
mod found;
mod handle;
mod identity;
mod kept;
mod mqtt;
mod passing;
mod rights;

use axum::{
    Router,
    routing::{delete, get, post},
};
use fleet::Fleet;
use futures_util::future::BoxFuture;
use kept::WaitingMessages;
use passing::Passing;
use rights::Registrars;
use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tobari_host::{files::FileError, storage::Trouble};
use tobari_node::{
    Given, Job, JobError, Offer, Page, Running,
    clients::Origin,
    cpu::Cpu,
    disk::{Disk, keep_trying},
    memory::{Bounds, Memory},
    reading,
    share::Share,
    stop::Stop,
    tokens::{TokenFiles, TokensError},
    turns::Turns,
};
use tobari_octets::{hex, unhex_lower};
use tobari_sense::registry::FLEET;
use tobari_sense_files::StoreError;

const NAME: &str = "sense";
/// The page of fleets.
pub const PAGE: Page = Page { job: NAME, file: "sense.html", also: &[], calling: &[] };
/// How often old frames are looked for.
const KEEPING: Duration = Duration::from_secs(600);
/// How often fleets are looked for whose time is over.
const SWEEPING: Duration = Duration::from_secs(15);
/// Messages of key holders that are worked at at once: the longest has 256 MiB.
const MESSAGES: usize = 4;
/// Fleets of a server at most.
const MAX_FLEETS: usize = 64;

pub use mqtt::{MqttBroker, MqttError, publish};

/// A fleet's name.
pub(crate) type FleetName = [u8; FLEET];

/// How devices' frames are served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SenseOptions {
    /// Where fleets, frames and questions are kept.
    pub folder: PathBuf,
    /// Who may register fleets that stay, and ask: a file of names and hashes of tokens.
    pub tokens: Option<PathBuf>,
    /// Serve anybody without tokens, beyond this machine too.
    pub open: bool,
    /// Bytes of a batch of frames at most.
    pub batch_bytes: usize,
    /// Batches in the house at most.
    pub queue: usize,
    /// How long frames are kept; for ever without.
    pub keep: Option<Duration>,
    /// Time to send a request's body.
    pub patience: Duration,
    /// Where devices publish frames, too.
    pub mqtt: Option<MqttBroker>,
    /// Whether anybody may have a fleet that ends, without a token.
    pub visitors: bool,
    /// Bytes of memory for a question: its values, frames and pages of the store. Values that do
    /// not fit go to a file of the fleet's folder, and frames are read again. As many as there are
    /// without.
    pub memory: Option<u64>,
}

impl SenseOptions {
    /// In a folder, for this machine, with the usual limits.
    pub fn new(folder: PathBuf) -> Self {
        let (batch_bytes, queue, patience) = (4 << 20, 64, Duration::from_secs(60));
        let (tokens, open, visitors, keep, mqtt, memory) = Default::default();
        Self { folder, tokens, open, batch_bytes, queue, keep, patience, mqtt, visitors, memory }
    }
}

/// Why frames cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SenseError {
    /// A file or folder that cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A disk that takes nothing for now.
    #[error("{}: the disk {trouble} ({what}): it has to take bytes again before this can be kept", path.display())]
    Disk {
        /// Which file or folder could not be written.
        path: PathBuf,
        /// What is wrong with the disk.
        trouble: Trouble,
        /// What the system says.
        what: String,
    },
    /// What the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody said who may ask, at an address that others reach.
    #[error(
        "other machines reach {0}: add --tokens FILE, --open to answer everybody, or --sense-visitors for temporary fleets"
    )]
    Open(IpAddr),
    /// What is wrong with the file of tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl SenseError {
    pub(crate) fn file(path: impl Into<PathBuf>, what: impl std::fmt::Display) -> Self {
        Self::File { path: path.into(), what: format!("{what}") }
    }

    fn disk(path: &Path, error: &FileError) -> Self {
        Self::Disk { path: path.to_owned(), trouble: error.trouble(), what: error.to_string() }
    }

    fn system(path: &Path, error: &std::io::Error) -> Self {
        Self::Disk { path: path.to_owned(), trouble: Trouble::of(error), what: error.to_string() }
    }

    /// What is wrong with the disk, if it is the disk.
    fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Disk { trouble, .. } => Some(*trouble),
            Self::Store(error) => error.trouble(),
            _ => None,
        }
    }
}

struct Shared {
    fleets: RwLock<BTreeMap<FleetName, Arc<Fleet>>>,
    passing: Passing,
    registrars: Registrars,
    cpu: Cpu,
    share: Share,
    memory: Memory,
    /// For batches of frames.
    turns: Turns,
    /// For what key holders send: an object has up to 128 MiB.
    messages: Turns,
    questions: Turns,
    /// By whom fleets that stay were registered since the server started.
    registered: Mutex<BTreeMap<FleetName, Origin>>,
    /// Where bundles, objects and orders go.
    disk: Disk,
    /// Messages of the broker for fleets that are not registered yet.
    kept: WaitingMessages,
    /// As whom this server comes to the broker; empty where there is none.
    mqtt_name: String,
    options: SenseOptions,
}

impl Shared {
    fn fleet(&self, name: &FleetName) -> Option<Arc<Fleet>> {
        self.fleets.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn all(&self) -> Vec<Arc<Fleet>> {
        self.fleets.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// Devices' frames, ready to serve.
#[derive(Clone)]
pub(crate) struct Sense {
    shared: Arc<Shared>,
}

impl Sense {
    /// Takes up all fleets of the folder.
    fn open(options: &SenseOptions, ip: IpAddr, bounds: &Bounds, files: &TokenFiles) -> Result<Self, SenseError> {
        let registrars = match &options.tokens {
            Some(tokens) => Registrars::Tokens(files.open(tokens)?),
            None if options.open || ip.is_loopback() => Registrars::Anybody,
            None if options.visitors => Registrars::Nobody,
            None => return Err(SenseError::Open(ip)),
        };
        let fault = |error| SenseError::file(&options.folder, error);
        private_folder(&options.folder).map_err(fault)?;
        let (pages, mut fleets) = (fleet::pages(options.memory), BTreeMap::new());
        for entry in fs::read_dir(&options.folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let Some(name) = entry.file_name().to_str().and_then(unhex_lower::<FLEET>) else { continue };
            fleets.insert(name, Arc::new(Fleet::take_up(&entry.path(), pages)?));
        }
        let passing = Passing::open(&options.folder.join("passing"), bounds.share, pages).map_err(fault)?;
        let kept = WaitingMessages::open(&options.folder.join("unregistered"), bounds.share).map_err(fault)?;
        let mqtt_name = options.mqtt.as_ref().map_or_else(|| Ok(String::new()), |_| identity::of(&options.folder))?;
        let shared = Shared {
            kept,
            mqtt_name,
            fleets: RwLock::new(fleets),
            passing,
            registrars,
            cpu: Cpu::default(),
            share: bounds.share,
            memory: bounds.memory.clone(),
            turns: Turns::new(options.queue, bounds.share),
            messages: Turns::new(MESSAGES, bounds.share),
            questions: Turns::new(1, bounds.share),
            registered: Mutex::default(),
            disk: Disk::folder("what key holders send", &options.folder),
            options: options.clone(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// All fleets, those that end too.
    fn fleets(&self) -> Vec<Arc<Fleet>> {
        [self.shared.all(), self.shared.passing.fleets()].concat()
    }

    /// Tries what fails.
    fn try_again(&self) {
        self.shared.disk.try_again();
        self.fleets().iter().for_each(|fleet| fleet.recover());
    }

    /// Takes frames from a broker, removes those that were kept long enough, and ends fleets whose
    /// time is over, until the server stops.
    async fn tend(self, mut stopped: Stop) {
        if let Some(broker) = self.shared.options.mqtt.clone() {
            tokio::spawn(mqtt::listen(self.clone(), broker, stopped.clone()));
        } else {
            tokio::spawn(mqtt::take_left(self.clone(), stopped.clone()));
        }
        let again = self.clone();
        tokio::spawn(keep_trying(stopped.clone(), move || again.try_again()));
        let mut removal = Instant::now();
        loop {
            if let Some(keep) = self.shared.options.keep.filter(|_| Instant::now() >= removal) {
                self.remove_old(keep).await;
                removal = Instant::now() + KEEPING;
            }
            let shared = Arc::clone(&self.shared);
            match tokio::task::spawn_blocking(move || shared.passing.sweep(Instant::now())).await {
                Ok(0) | Err(_) => {}
                Ok(fleets) => tracing::info!(fleets, "fleets of visitors have ended"),
            }
            tokio::select! {
                () = stopped.wait() => return,
                () = tokio::time::sleep(SWEEPING) => {}
            }
        }
    }

    /// Removes frames that were kept for so long.
    async fn remove_old(&self, keep: Duration) {
        let before = now_ms().saturating_sub(keep.as_millis() as u64);
        for fleet in self.shared.all() {
            let removed = tokio::task::spawn_blocking(move || fleet.remove_before(before)).await;
            match removed {
                Ok(Ok(0)) => {}
                Ok(Ok(frames)) => tracing::info!(frames, "frames were kept long enough and are removed"),
                _ => tracing::error!("old frames cannot be removed"),
            }
        }
    }

    /// The fleet of a name, made where there is none.
    fn fleet_or_new(&self, name: &FleetName, origin: &Origin) -> Result<Option<Arc<Fleet>>, SenseError> {
        let mut fleets = self.shared.fleets.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(fleet) = fleets.get(name) {
            return Ok(Some(Arc::clone(fleet)));
        }
        if fleets.len() >= MAX_FLEETS || self.shared.passing.find(name, Instant::now()).is_some() {
            return Ok(None);
        }
        let mut registered = self.shared.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let held = registered.values().filter(|other| *other == origin).count();
        if !self.shared.share.admits(held as u64, (MAX_FLEETS - fleets.len()) as u64) {
            return Ok(None);
        }
        let (folder, pages) = (&self.shared.options.folder, fleet::pages(self.shared.options.memory));
        let fleet = Arc::new(Fleet::open(&folder.join(hex(name)), pages)?);
        registered.insert(*name, origin.clone());
        fleets.insert(*name, Arc::clone(&fleet));
        Ok(Some(fleet))
    }
}

impl Offer for SenseOptions {
    fn folders(&self) -> Vec<PathBuf> {
        vec![self.folder.clone()]
    }

    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(async move {
            let sense = reading(move || Sense::open(&self, given.ip, &given.bounds, &given.tokens)).await?;
            Ok(Arc::new(sense) as Arc<dyn Job>)
        })
    }
}

impl Job for Sense {
    fn name(&self) -> &'static str {
        NAME
    }

    fn routes(&self, _: &Running) -> Router {
        let fleet = "/sense/v1/fleets/{fleet}";
        let at = |rest: &str| format!("{fleet}{rest}");
        Router::new()
            .route("/sense/v1", get(handle::offered))
            .route("/sense/v1/metrics", get(handle::metrics))
            .route(fleet, get(handle::known).post(handle::bundle).delete(handle::end))
            .route(&at("/held"), get(handle::held))
            .route(&at("/frames"), post(handle::frames))
            .route(&at("/objects/{hash}"), get(handle::has_object).post(handle::object))
            .route(&at("/questions/{id}"), post(handle::order).delete(handle::forget))
            .route(&at("/questions/{id}/windows"), get(handle::windows))
            .route(&at("/questions/{id}/windows/{start}"), post(handle::answer).delete(handle::done))
            .route(&at("/devices/{number}/frames"), delete(handle::remove))
            .with_state(self.clone())
    }

    /// What is wrong with the disk: of frames, or of what key holders send.
    fn trouble(&self) -> Option<Trouble> {
        let stores = || self.fleets().iter().find_map(|fleet| fleet.trouble());
        self.shared.disk.trouble().or_else(stores)
    }

    fn page(&self) -> Option<Page> {
        Some(PAGE)
    }

    fn keep_up(self: Arc<Self>, running: Running) -> BoxFuture<'static, ()> {
        Box::pin(Self::clone(&self).tend(running.stopped))
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// Makes a folder that its owner alone may look into, and all above it.
fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
