//! Devices' frames over HTTP, and questions about them, for devices and key holders. The server
//! cannot read the readings.
//!
//! ```text
//! FLEET = /sense/v1/fleets/{fleet}
//!
//!   POST   FLEET/frames                 frames, one after another; returns JSON: the numbers of
//!                                       accepted frames, and of rejected frames by reason
//!   GET    FLEET                        JSON: SHA-256 of the fleet's bundle                   (*)
//!   POST   FLEET                        the bundle: MAC keys, and names of objects
//!                                       (tobari_sense::bundle)                                (*)
//!   GET    FLEET/objects/{hash}         204 if the server has the object, 404 otherwise       (*)
//!   POST   FLEET/objects/{hash}         an object: encrypted secrets, or a key that decrypts
//!                                       nothing                                               (*)
//!   POST   FLEET/questions/{id}         an order (tobari_sense::order); DELETE removes it     (*)
//!   GET    FLEET/questions/{id}/windows JSON: the starts of windows that have ended, have frames
//!                                       and were not fetched                                  (*)
//!   POST   FLEET/questions/{id}/windows/{start}    computes the results of a window, and returns
//!                                       them                                                  (*)
//!   DELETE FLEET/questions/{id}/windows/{start}    the key holder has fetched the results     (*)
//!   DELETE FLEET/devices/{number}/frames           removes the frames of a device             (*)
//!   DELETE FLEET                        ends a temporary fleet now                            (*)
//!   GET    FLEET/held                   JSON: the server's data of a temporary fleet; the fleet's
//!                                       name is the permission
//!   GET    /sense/v1                    JSON: room for temporary fleets, and their lifetime   (v)
//!   GET    /sense/v1/metrics            Prometheus text, without names                        (*)
//! ```
//!
//! Routes with a star are the key holder's (`rights`). With a file of tokens they need a token. For
//! a temporary fleet (`passing`) they need its secret (`Tobari-Passing`). Routes with (v) are for
//! clients that may have a temporary fleet. Frames need no right: their MAC identifies the device.
//! The answer to a batch with accepted frames has the time of storage (`Tobari-Stored`,
//! milliseconds since 1970). The answer of a window has its computation time (`Server-Timing`).
//!
//! **What the server holds.** It holds frames; numbers of devices, with keys that detect forged
//! frames; encrypted secrets; and keys that decrypt nothing. It has no option, file or message that
//! could give it a key to decrypt frames. It never gets names of devices, tenants and channels.
//!
//! Frames also arrive over MQTT if there is a broker (`mqtt`).
//!
//! **Ingest.** The server answers a batch once all its accepted frames are on the disk; frames of
//! many batches share a transaction (`commit`). A client may send a batch again if it got no
//! answer: stored frames count as duplicates, and the answer treats them as accepted.
//!
//! **Shares of clients.** The server reads a body, in memory of its client's share, before its
//! request takes a turn. One address or token has a share of turns, of temporary fleets, and of
//! permanent fleets ([`tobari_node::share`]).
//!
//! **A disk that fails** (full, read-only, errors) loses no acknowledged data. Requests that need
//! the disk are rejected with 507 (`Tobari-Refusal: storage`, `Retry-After`), messages over MQTT
//! stay with the broker, and `/readyz` returns 503. The server tries the disk every second, and
//! resumes when it works.
//!
//! **Threads.** MACs are checked on the blocking pool, at most as many at once as there are cores.
//! One thread for each fleet stores frames. One question at a time is computed, by a checked plan
//! ([`tobari_host::job`]), within a memory limit if there is one.

mod broker;
mod clock;
mod commit;
mod fleet;
mod found;
mod handle;
mod identity;
mod kept;
mod mqtt;
mod passing;
mod rights;
mod windows;

use axum::{
    Router,
    routing::{delete, get, post},
};
use clock::ClosingClock;
use fleet::Fleet;
use futures_util::future::BoxFuture;
use kept::WaitingMessages;
use passing::Passing;
use rights::Registrars;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tobari_host::{files::FileError, storage::Trouble};
use tobari_node::{
    Given, Job, JobError, Offer, Page, Reach, Running,
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
use tobari_sense::ingest::IngestCounts;
use tobari_sense::registry::FLEET;
use tobari_sense_files::StoreError;

const NAME: &str = "sense";
/// The page of fleets.
pub const PAGE: Page = Page { job: NAME, file: "sense.html", also: &[], calling: &[] };
/// The interval of checks for old frames.
const KEEPING: Duration = Duration::from_secs(600);
/// The interval of checks for temporary fleets that must end.
const SWEEPING: Duration = Duration::from_secs(15);
/// Messages of key holders that are handled at once; the longest has 256 MiB.
const MESSAGES: usize = 4;
/// The largest number of fleets of a server.
const MAX_FLEETS: usize = 64;

pub use broker::{BrokerTls, MqttBroker, MqttVersion};
pub use mqtt::{MqttError, publish};

/// A fleet's name.
pub(crate) type FleetName = [u8; FLEET];

/// The options of the server for devices' frames.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SenseOptions {
    /// The folder of fleets, frames and questions.
    pub folder: PathBuf,
    /// A file of names and hashes of tokens: their owners may register permanent fleets, and ask
    /// questions.
    pub tokens: Option<PathBuf>,
    /// Serve anybody without tokens, beyond this machine, too.
    pub open: bool,
    /// Largest size of a batch of frames in bytes.
    pub batch_bytes: usize,
    /// The largest number of batches handled at once.
    pub queue: usize,
    /// How long frames are kept; forever by default.
    pub keep: Option<Duration>,
    /// The time limit for sending a request's body.
    pub patience: Duration,
    /// A broker at which devices publish frames, too.
    pub mqtt: Option<MqttBroker>,
    /// Whether anybody may have a temporary fleet, without a token.
    pub visitors: bool,
    /// Bytes of memory for a question: its values, frames and pages of the store. Values that do
    /// not fit go to a file in the fleet's folder, and frames are read again. `None` means no
    /// limit.
    pub memory: Option<u64>,
}

impl SenseOptions {
    /// Options for this folder and this machine, with the default limits.
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
        /// The file or folder.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// A disk that accepts no data for now.
    #[error("{}: the disk {trouble} ({what}): it has to take bytes again before this can be kept", path.display())]
    Disk {
        /// The file or folder that could not be written.
        path: PathBuf,
        /// The trouble with the disk.
        trouble: Trouble,
        /// The system's error.
        what: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Other machines can reach the address, and no option says who may ask.
    #[error(
        "other machines reach {0}: add --tokens FILE, --open to answer everybody, or --sense-visitors for temporary fleets"
    )]
    Open(Reach),
    /// The file of tokens is invalid.
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

    /// The trouble with the disk, if the disk is the cause.
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
    /// Turns for batches of frames.
    turns: Turns,
    /// Turns for key holders' messages: an object has up to 128 MiB.
    messages: Turns,
    questions: Turns,
    /// The clock that closes windows of version 2.
    closing: ClosingClock,
    /// Windows without a result, because too few devices had frames.
    empty: AtomicU64,
    /// The client that registered each permanent fleet since the server started.
    registered: Mutex<BTreeMap<FleetName, Origin>>,
    /// The disk of bundles, objects and orders.
    disk: Disk,
    /// Messages of the broker for unregistered fleets.
    kept: WaitingMessages,
    /// Messages of the broker of which no frame was stored, and none was stored before.
    letters: AtomicU64,
    /// Messages of the broker that were longer than a batch of frames.
    long: AtomicU64,
    /// This server's name at the broker; empty without a broker.
    mqtt_name: String,
    options: SenseOptions,
}

impl Shared {
    fn fleet(&self, name: &FleetName) -> Option<Arc<Fleet>> {
        self.fleets.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Counts a message of the broker with these verdicts, if it was of no use.
    fn count_letter(&self, counts: &IngestCounts) {
        if counts.taken + counts.duplicate == 0 && self.letters.fetch_add(1, Relaxed) == 0 {
            tracing::warn!("the broker delivered a message without a frame that this server takes; all are counted");
        }
    }

    /// Counts a message of the broker that is longer than a batch of frames.
    fn count_long(&self) {
        if self.long.fetch_add(1, Relaxed) == 0 {
            tracing::warn!(
                "the broker delivered a message that is longer than a batch (--sense-batch); all are counted"
            );
        }
    }

    fn all(&self) -> Vec<Arc<Fleet>> {
        self.fleets.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// The service for devices' frames.
#[derive(Clone)]
pub(crate) struct Sense {
    shared: Arc<Shared>,
}

impl Sense {
    /// Opens all fleets of the folder.
    fn open(options: &SenseOptions, reach: Reach, bounds: &Bounds, files: &TokenFiles) -> Result<Self, SenseError> {
        let registrars = match &options.tokens {
            Some(tokens) => Registrars::Tokens(files.open(tokens)?),
            None if options.open || reach.is_this_machine() => Registrars::Anybody,
            None if options.visitors => Registrars::Nobody,
            None => return Err(SenseError::Open(reach)),
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
        let (now, wall_ms) = clock::clocks();
        let shared = Shared {
            kept,
            letters: AtomicU64::default(),
            long: AtomicU64::default(),
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
            closing: ClosingClock::new(now, wall_ms),
            empty: AtomicU64::default(),
            registered: Mutex::default(),
            disk: Disk::folder("what key holders send", &options.folder),
            options: options.clone(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// All fleets, with temporary ones.
    fn fleets(&self) -> Vec<Arc<Fleet>> {
        [self.shared.all(), self.shared.passing.fleets()].concat()
    }

    /// Tries the disk and the closed stores again.
    fn try_again(&self) {
        self.shared.disk.try_again();
        self.fleets().iter().for_each(|fleet| fleet.recover());
    }

    /// Accepts frames from a broker, removes old frames, and ends temporary fleets whose time is
    /// over, until the server stops.
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

    /// Removes frames that are older than this.
    async fn remove_old(&self, keep: Duration) {
        let before = now_ms().saturating_sub(keep.as_millis() as u64);
        for fleet in self.shared.all() {
            let removed = tokio::task::spawn_blocking(move || fleet.remove_before(before)).await;
            match removed {
                Ok(Ok((0, _))) => {}
                Ok(Ok((frames, 0))) => tracing::info!(frames, "frames were kept long enough and are removed"),
                Ok(Ok((frames, lost))) => tracing::error!(
                    frames,
                    lost,
                    "frames are removed before their results were fetched (--sense-days): their windows have no \
                     result. Look at the key holder, or keep frames longer"
                ),
                _ => tracing::error!("old frames cannot be removed"),
            }
        }
    }

    /// The fleet with this name; a new one if there is none.
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
            let sense = reading(move || Sense::open(&self, given.reach, &given.bounds, &given.tokens)).await?;
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

    /// The trouble with the disk, from frames or from key holders' data.
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
    clock::clocks().1
}

/// Makes a folder that only its owner can read, and its parents.
fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
