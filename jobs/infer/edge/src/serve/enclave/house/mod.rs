//! One model's enclave and its sessions. All functions block and compute: call them on the blocking
//! pool.

use super::process::Started;
use super::{EnclaveOptions, EnclaveTold};
use crate::clear;
use crate::network::AnyModel;
use axum::{body::Bytes, http::StatusCode};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};
use tobari_enclave::{
    Configuration, Digest, Enclave, EnclaveError, Evidence, Measurement, Nonce, Protections, Request, SessionId, Status,
};
use tobari_infer::Model;
use tobari_infer::guarded::{
    Combination, Host, HostError, HostSession, NetworkSetup, Offer, ParkedSession, Route, Setup,
};
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::mixed::{InsideNetwork, Process};
use tobari_infer_deep::settings::Engine;
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_node::{clients::Origin, reply::Reply, share::Share};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

/// The pause after a failed start, before another start is tried.
const PAUSE: Duration = Duration::from_secs(2);

/// A function that starts an enclave.
pub(super) type Start = fn(&Configuration, &[u8], &[OsString]) -> Result<Started, EnclaveError>;

/// The enclave of one model; see the head of this file.
pub(crate) struct EnclaveHost {
    start: Start,
    host: Host,
    configuration: Configuration,
    setup: Vec<u8>,
    options: EnclaveOptions,
    /// A client's share of the sessions.
    share: Share,
    offer: (Bytes, Offer),
    /// Turns for computing: one at a time if all stages run inside.
    pub(super) turns: Option<Arc<Semaphore>>,
    /// Facts that a restart does not change; the process number is that of the first process.
    told: EnclaveTold,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Arc<Running>>,
    sessions: HashMap<SessionId, Arc<Entry>>,
    /// Sessions of the last enclave that ended, and the reason for its end.
    lost: (HashSet<SessionId>, String),
    /// Time and reason of the last failed start.
    failed: Option<(Instant, String)>,
}

/// All that follows from a model and the options of its enclave, before the enclave starts.
struct Prepared {
    route: Route,
    configuration: Configuration,
    setup: Vec<u8>,
    host: Host,
}

impl Prepared {
    /// Of maps with squares between them. The process needs the model too.
    fn flat(
        model: &Model,
        parameters: &LatticeParameters,
        options: &EnclaveOptions,
        layout: Option<&str>,
        weight_bytes: u64,
    ) -> Result<Self, String> {
        let combination = options.combination;
        let route = Route::new(combination, parameters);
        let mut setup = Setup { route, parameters: parameters.clone(), model: model.clone() };
        match layout.filter(|_| combination.is_encrypted()) {
            Some(layout) => layout.clone_into(&mut setup.route.layout),
            None => setup = setup.suited(),
        }
        let configuration = setup.configuration(options.tells, options.sessions, options.images).map_err(text)?;
        let known = if combination.encrypts_weights() { setup.shape().map_err(text)? } else { setup.clone() };
        let host = Host::new(&known, weight_bytes).map_err(text)?;
        Ok(Self { route: setup.route.clone(), configuration, setup: setup.encode(), host })
    }

    /// Of a network of any depth: inside in the clear, or with its maps in the process.
    fn deep(model: &DeepModel, parameters: &LatticeParameters, options: &EnclaveOptions) -> Result<Self, String> {
        EnclaveHost::takes_deep(options.combination, model)?;
        let (setup, host) = match options.combination {
            Combination::EnclavePlain => {
                let clear = clear::of(model.clone());
                (NetworkSetup::plain(parameters.clone(), model.encode(), clear), Host::passing_on())
            }
            _ => {
                let circuit = model.circuit().map_err(text)?;
                let inside = InsideNetwork::of(model, &circuit).map_err(text)?;
                let inside = inside.ok_or("expected a network for an enclave")?;
                let process = Process::new(model.network_of(circuit).map_err(text)?);
                (NetworkSetup::mixed(model.encode(), Box::new(inside)), Host::mixed(Box::new(process)))
            }
        };
        let configuration = setup.configuration(options.tells, options.sessions, options.images).map_err(text)?;
        Ok(Self { route: setup.route(), configuration, setup: setup.encode(), host })
    }
}

struct Running {
    enclave: Mutex<Box<dyn Enclave + Send>>,
    measurement: Measurement,
    protections: Protections,
}

/// The enclave, locked for each single request, so that other requests may run in between.
struct Shared<'a>(&'a Running);

/// A session.
struct Entry {
    origin: Origin,
    stage: Mutex<Stage>,
    used: Mutex<Instant>,
    running: Arc<Running>,
}

enum Stage {
    /// The evidence was sent.
    Reported,
    /// The channel is open; `left` images remain.
    Open { kept: ParkedSession, left: u32 },
    /// The session accepts no more messages.
    Ended,
}

/// The kind of a client's message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Image,
    Ask,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Enclave for Shared<'_> {
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        lock(&self.0.enclave).request(request, body, reply)
    }

    fn measurement(&self) -> &Measurement {
        &self.0.measurement
    }

    fn protections(&self) -> &Protections {
        &self.0.protections
    }

    fn stop(&mut self) {
        lock(&self.0.enclave).stop();
    }
}

impl Running {
    fn new(enclave: Box<dyn Enclave + Send>) -> Arc<Self> {
        let (measurement, protections) = (*enclave.measurement(), enclave.protections().clone());
        Arc::new(Self { enclave: Mutex::new(enclave), measurement, protections })
    }
}

impl Entry {
    /// The session's stage; `None` while another request uses it.
    fn stage(&self) -> Option<MutexGuard<'_, Stage>> {
        match self.stage.try_lock() {
            Ok(stage) => Some(stage),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl EnclaveHost {
    /// Checks that an enclave runs this network of any depth in this combination.
    pub(crate) fn takes_deep(combination: Combination, model: &DeepModel) -> Result<(), String> {
        let engine = model.settings().engine;
        match combination {
            Combination::EnclavePlain => Ok(()),
            Combination::MixedPlainReset if engine == Engine::Enclave => Ok(()),
            Combination::MixedPlainReset => Err(format!(
                "this network was compiled for {}, and an enclave in the combination {} needs one that was compiled \
                 for it: compile the network again with --engine enclave, or serve it with --infer-enclave {}",
                engine.kind().name(),
                combination.name(),
                Combination::EnclavePlain.name(),
            )),
            _ => Err(format!(
                "an enclave runs this network in the combinations {} and {} alone, found {}, which takes at most three \
                 maps with squares between them: serve this network with --infer-enclave {0}, or without \
                 --infer-enclave",
                Combination::EnclavePlain.name(),
                Combination::MixedPlainReset.name(),
                combination.name()
            )),
        }
    }

    /// Prepares the model for the process, and starts the enclave.
    ///
    /// Encoded weights may take `weight_bytes`. Without `layout`, the combination's own layout is
    /// used.
    pub(crate) fn open(
        (name, model): (&str, &AnyModel),
        options: (&EnclaveOptions, Share),
        layout: Option<&str>,
        weight_bytes: u64,
    ) -> Result<Self, String> {
        Self::with(super::process::start, (name, model), options, layout, weight_bytes)
    }

    fn with(
        start: Start,
        (name, model): (&str, &AnyModel),
        (options, share): (&EnclaveOptions, Share),
        layout: Option<&str>,
        weight_bytes: u64,
    ) -> Result<Self, String> {
        let (combination, began) = (options.combination, Instant::now());
        let set = options.set.as_deref().unwrap_or_else(|| combination.usual_set());
        let named = NamedSet::from_name(set).ok_or_else(|| format!("expected a set of parameters, found {set}"))?;
        let mut parameters = named.parameters().map_err(text)?;
        let mut set = set.to_owned();
        if let (AnyModel::Deep(model), Combination::MixedPlainReset) = (model, combination) {
            if options.set.is_some() {
                return Err("this network has parameters of its own: leave --infer-set out".to_owned());
            }
            let sizes = &model.settings().sizes;
            (parameters, set) = (sizes.parameters().map_err(text)?, sizes.to_string());
        }
        let prepared = match model {
            AnyModel::Flat(model) => Prepared::flat(model, &parameters, options, layout, weight_bytes)?,
            AnyModel::Deep(model) => Prepared::deep(model, &parameters, options)?,
        };
        let Prepared { route, configuration, setup, host } = prepared;
        let Started { enclave, executable, process } =
            start(&configuration, &setup, &options.launcher).map_err(text)?;
        let lacking = enclave.protections().lacking().map(|(what, state)| format!("{what}: {state}"));
        let told = EnclaveTold {
            model: name.to_owned(),
            evidence: "simulated",
            combination: combination.name(),
            set,
            layout: if combination.is_encrypted() { route.layout.clone() } else { String::new() },
            tells: options.tells.to_string(),
            sessions: options.sessions,
            images: options.images,
            session_bytes: host.session_memory().map_err(text)?,
            executable: executable.to_string(),
            measurement: enclave.measurement().to_string(),
            process,
            lacking: lacking.collect(),
        };
        let offer = Offer { route, parameters, configuration: configuration.clone() };
        tracing::info!(
            model = &Digest::new(model.digest()).to_string()[..8],
            combination = combination.name(),
            evidence = "simulated",
            milliseconds = began.elapsed().as_millis() as u64,
            "an enclave is ready"
        );
        let state = State { running: Some(Running::new(enclave)), ..State::default() };
        Ok(Self {
            start,
            host,
            configuration,
            setup,
            options: options.clone(),
            share,
            offer: (offer.encode().into(), offer),
            turns: (!combination.uses_process()).then(|| Arc::new(Semaphore::new(1))),
            told,
            state: Mutex::new(state),
        })
    }

    /// The offer: the public facts before there is evidence.
    pub(super) fn offer(&self) -> Bytes {
        self.offer.0.clone()
    }

    /// The server's description of the enclave.
    pub(crate) fn told(&self) -> &EnclaveTold {
        &self.told
    }

    /// The length of a client's frame; `None` if there is no such message.
    pub(super) fn frame_bytes(&self, kind: Kind) -> Option<usize> {
        let (image, ask) = self.offer.1.frames();
        if kind == Kind::Image { Some(image) } else { ask }
    }

    /// Makes a session for the client that sent this nonce, and returns its evidence.
    pub(super) fn report(&self, nonce: &Nonce, origin: &Origin) -> Result<Vec<u8>, Reply> {
        self.sweep();
        // an enclave that ended since the last request is noticed here; the second attempt uses a
        // new enclave
        for attempt in 0..2 {
            let running = {
                let mut state = lock(&self.state);
                self.has_room(&state, origin)?;
                self.running(&mut state)?
            };
            match Shared(&running).report(nonce) {
                Ok(evidence) => {
                    let id = Evidence::decode(&evidence).map(|evidence| evidence.statement.session);
                    let id = id.map_err(|_| Reply::fault("a fault of the server: no evidence could be had"))?;
                    let (stage, used) = (Mutex::new(Stage::Reported), Mutex::new(Instant::now()));
                    let entry = Entry { origin: origin.clone(), stage, used, running };
                    let mut state = lock(&self.state);
                    state.sessions.insert(id, Arc::new(entry));
                    tracing::info!(sessions = state.sessions.len(), "evidence was asked for");
                    return Ok(evidence);
                }
                Err(EnclaveError::Refused(Status::TooManySessions)) => return Err(too_many()),
                Err(EnclaveError::Refused(status)) => return Err(refused(status)),
                Err(error) => {
                    self.ended(&running, &error);
                    if attempt > 0 {
                        return Err(gone(&error));
                    }
                }
            }
        }
        Err(Reply::fault("a fault of the server: no evidence could be had"))
    }

    /// Checks that this client may have another session.
    fn has_room(&self, state: &State, origin: &Origin) -> Result<(), Reply> {
        let free = usize::from(self.options.sessions).saturating_sub(state.sessions.len());
        if free == 0 {
            return Err(too_many());
        }
        let held = state.sessions.values().filter(|entry| entry.origin == *origin).count();
        self.share.admits(held as u64, free as u64).then_some(()).ok_or_else(too_many_of_one)
    }

    /// The running enclave, or a new one.
    fn running(&self, state: &mut State) -> Result<Arc<Running>, Reply> {
        if let Some(running) = &state.running {
            return Ok(Arc::clone(running));
        }
        let refusal = |why: &str| Reply::new(StatusCode::SERVICE_UNAVAILABLE, "enclave", why);
        if let Some((_, why)) = state.failed.as_ref().filter(|(at, _)| at.elapsed() < PAUSE) {
            return Err(refusal(why));
        }
        match (self.start)(&self.configuration, &self.setup, &self.options.launcher) {
            Ok(started) => {
                tracing::info!("an enclave was started anew");
                state.failed = None;
                Ok(Arc::clone(state.running.insert(Running::new(started.enclave))))
            }
            Err(error) => {
                tracing::error!(%error, "an enclave does not start");
                let why = error.to_string();
                state.failed = Some((Instant::now(), why.clone()));
                Err(refusal(&why))
            }
        }
    }

    /// Handles the end of an enclave: its sessions are lost.
    fn ended(&self, running: &Arc<Running>, error: &EnclaveError) {
        let mut state = lock(&self.state);
        if !state.running.as_ref().is_some_and(|now| Arc::ptr_eq(now, running)) {
            return; // somebody else has found it
        }
        state.running = None;
        let (lost, rest) = state.sessions.drain().partition(|(_, entry)| Arc::ptr_eq(&entry.running, running));
        let lost: HashMap<SessionId, Arc<Entry>> = lost;
        state.sessions = rest;
        tracing::error!(%error, sessions = lost.len(), "an enclave has ended");
        state.lost = (lost.into_keys().collect(), error.to_string());
    }

    /// Opens the channel of a session with the client's message. Keys are generated inside; the
    /// process gets the ones that it needs.
    pub(super) fn open_session(&self, id: SessionId, encapsulated: &[u8; 32]) -> Result<(), Reply> {
        self.within(id, |entry, stage| {
            let mut enclave = Shared(&entry.running);
            enclave.open(id, encapsulated)?;
            if !matches!(stage, Stage::Reported) {
                return Err(EnclaveError::Refused(Status::OutOfOrder).into()); // the enclave has said so before
            }
            let kept = self.host.begin(&mut enclave, id)?.keep();
            *stage = Stage::Open { kept, left: self.options.images };
            Ok(())
        })
    }

    /// Passes in a client's frame and does all the work for it. Returns the reply's frame.
    pub(super) fn message(&self, id: SessionId, kind: Kind, frame: &[u8]) -> Result<Vec<u8>, Reply> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(|_| Reply::fault("a fault of the server: no randomness"))?;
        let mut rng = ChaCha20Rng::from_seed(*seed);
        self.within(id, |entry, stage| {
            let Stage::Open { kept, mut left } = std::mem::replace(stage, Stage::Ended) else {
                return Err(EnclaveError::Refused(Status::OutOfOrder).into());
            };
            let (mut session, mut enclave) = (self.host.resume(kept), Shared(&entry.running));
            let answer = self.step(&mut session, &mut enclave, kind, frame, &mut rng)?;
            left -= u32::from(self.is_last(kind));
            if left > 0 {
                *stage = Stage::Open { kept: session.keep(), left };
            }
            Ok(answer)
        })
    }

    fn step(
        &self,
        session: &mut HostSession<'_>,
        enclave: &mut dyn Enclave,
        kind: Kind,
        frame: &[u8],
        rng: &mut ChaCha20Rng,
    ) -> Result<Vec<u8>, HostError> {
        match kind {
            Kind::Image => Ok(session.image(enclave, frame, rng, &mut || 0.0)?.0),
            Kind::Ask => session.ask(enclave, frame),
        }
    }

    /// Whether a message of this kind is the last of a round.
    fn is_last(&self, kind: Kind) -> bool {
        (kind == Kind::Ask) == self.frame_bytes(Kind::Ask).is_some()
    }

    /// Runs work in a session, which no other request uses meanwhile. An error ends the session.
    fn within<T>(
        &self,
        id: SessionId,
        work: impl FnOnce(&Entry, &mut Stage) -> Result<T, HostError>,
    ) -> Result<T, Reply> {
        let entry = self.find(id)?;
        let mut stage = entry.stage().ok_or_else(|| {
            let text = "expected one message of a session at a time, found another that is not answered yet";
            Reply::new(StatusCode::CONFLICT, "order", text)
        })?;
        *lock(&entry.used) = Instant::now();
        let done = work(&entry, &mut stage);
        *lock(&entry.used) = Instant::now();
        if done.is_err() {
            *stage = Stage::Ended;
        }
        let ended = matches!(*stage, Stage::Ended);
        drop(stage);
        let done = done.map_err(|error| self.reply(&entry, &error));
        if ended {
            lock(&self.state).sessions.remove(&id);
            // the session inside has ended already, unless the error was in the process itself
            let _ = Shared(&entry.running).close(id);
        }
        done
    }

    fn find(&self, id: SessionId) -> Result<Arc<Entry>, Reply> {
        let state = lock(&self.state);
        if let Some(entry) = state.sessions.get(&id) {
            return Ok(Arc::clone(entry));
        }
        let (lost, why) = &state.lost;
        if lost.contains(&id) {
            return Err(Reply::new(StatusCode::GONE, "enclave", again(why)));
        }
        let text = "no session has this number; it may have ended: begin a new session";
        Err(Reply::new(StatusCode::NOT_FOUND, "session", text))
    }

    /// The reply to the client of a session that has ended.
    fn reply(&self, entry: &Entry, error: &HostError) -> Reply {
        match error {
            HostError::Enclave(EnclaveError::Refused(status)) => refused(*status),
            HostError::Enclave(error @ EnclaveError::TooLong { .. }) => {
                Reply::new(StatusCode::PAYLOAD_TOO_LARGE, "size", error.to_string())
            }
            HostError::Enclave(error) => {
                self.ended(&entry.running, error);
                gone(error)
            }
            error => {
                tracing::error!(%error, "a session cannot go on");
                Reply::fault("a fault of the server: no answer could be computed, the session has ended")
            }
        }
    }

    /// Ends a session at its client's request.
    pub(super) fn close(&self, id: SessionId) -> Result<(), Reply> {
        self.within(id, |_, stage| {
            *stage = Stage::Ended;
            Ok(())
        })
    }

    /// Ends idle sessions.
    pub(super) fn sweep(&self) {
        let old: Vec<(SessionId, Arc<Entry>)> = {
            let mut state = lock(&self.state);
            let is_old = |(_, entry): &(&SessionId, &Arc<Entry>)| {
                let limit = match entry.stage().as_deref() {
                    Some(Stage::Reported) => self.options.opening,
                    Some(_) => self.options.idle,
                    None => return false, // at work
                };
                lock(&entry.used).elapsed() >= limit
            };
            let old: Vec<SessionId> = state.sessions.iter().filter(is_old).map(|(id, _)| *id).collect();
            old.into_iter().filter_map(|id| state.sessions.remove_entry(&id)).collect()
        };
        for (id, entry) in &old {
            let _ = Shared(&entry.running).close(*id); // a message that came in between has ended it
        }
        if !old.is_empty() {
            tracing::info!(sessions = old.len(), "sessions were ended that nobody used");
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn again(why: &str) -> String {
    format!("{why}: open another session")
}

fn too_many() -> Reply {
    let text = "the enclave has as many sessions as it allows: try again later, or ask the operator to raise --enclave-sessions";
    Reply::new(StatusCode::SERVICE_UNAVAILABLE, "sessions", text)
}

fn too_many_of_one() -> Reply {
    let text = "this address or token has as many open sessions as one client may: end one, wait until one ends, or ask the server's operator to raise --client-share or --enclave-sessions";
    Reply::new(StatusCode::SERVICE_UNAVAILABLE, "sessions", text)
}

fn gone(error: &EnclaveError) -> Reply {
    Reply::new(StatusCode::SERVICE_UNAVAILABLE, "enclave", again(&error.to_string()))
}

fn refused(status: Status) -> Reply {
    match status {
        Status::TooManySessions => too_many(),
        Status::Malformed => Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", status.to_string()),
        _ => Reply::new(StatusCode::CONFLICT, "session", status.to_string()),
    }
}

#[cfg(test)]
mod tests;
