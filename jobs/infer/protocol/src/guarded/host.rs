//! The process's part: it drives a session and runs its stages.

use super::route::{
    ASK, Combination, IMAGE, INPUT, PARTS, Part, RESETS, RESULT, RouteError, Setup, parts, parts_of_network,
};
use super::wire;
use crate::program::Input;
use crate::server::{self, Constants, Keyring, ServeError, Service};
use rand_core::CryptoRng;
use std::sync::Arc;
use tobari_enclave::{Enclave, EnclaveError, Measurement, Protections, Request, SessionId};
use tobari_engine::EngineError;
use tobari_lattice::ckks::{Ciphertext, EvaluationKeys, Evaluator, OperationError, Plaintext};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::Seed;
use tobari_lattice::wire::{self as objects, LatticeWireError};

/// Errors of the process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A route that does not fit.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The enclave rejected a request, or has ended.
    #[error(transparent)]
    Enclave(#[from] EnclaveError),
    /// An error of the stages.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An error of the core.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Bytes from the enclave that are not an object of the lattice schemes.
    #[error(transparent)]
    Object(#[from] LatticeWireError),
    /// An error of a network of another kind.
    #[error(transparent)]
    Network(Box<dyn std::error::Error + Send + Sync>),
    /// A message from the enclave that does not match the script.
    #[error("expected {expected} of the enclave, found other bytes")]
    Message {
        /// The message expected.
        expected: &'static str,
    },
}

/// Bytes between process and enclave, and the number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Into the enclave.
    pub in_bytes: u64,
    /// Out of it.
    pub out_bytes: u64,
    /// Requests.
    pub requests: u64,
}

/// An enclave whose traffic is counted: the bodies of all requests and replies, of all sessions.
pub struct Counted<E> {
    /// The enclave.
    pub enclave: E,
    /// The traffic so far.
    pub traffic: Traffic,
}

impl<E: Enclave> Counted<E> {
    /// Starts with no traffic.
    pub fn new(enclave: E) -> Self {
        Self { enclave, traffic: Traffic::default() }
    }
}

impl<E: Enclave> Enclave for Counted<E> {
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        self.traffic.requests += 1;
        self.traffic.in_bytes += body.len() as u64;
        let done = self.enclave.request(request, body, reply);
        if done.is_ok() {
            self.traffic.out_bytes += reply.len() as u64;
        }
        done
    }

    fn measurement(&self) -> &Measurement {
        self.enclave.measurement()
    }

    fn protections(&self) -> &Protections {
        self.enclave.protections()
    }

    fn stop(&mut self) {
        self.enclave.stop();
    }
}

/// Seconds of an image's steps by the caller's clock, with their names: `input`, each stage by its
/// name with `mask` and `reset` after it, `result`. Without stages in the process, `inside` alone.
pub type Timings = Vec<(String, f64)>;

/// The process's part of a network of another kind: its maps.
pub trait ProcessNetwork: Send + Sync {
    /// The parameters of the encryption.
    fn parameters(&self) -> &LatticeParameters;

    /// The keys that a run needs, in the order of those of
    /// [`MixedNetwork`](super::MixedNetwork::keys).
    fn keys(&self) -> Vec<Input>;

    /// The number of visits of the enclave for a picture.
    fn visits(&self) -> usize;

    /// The memory of a session's keys, in bytes.
    fn keyring_memory(&self) -> u64;

    /// Runs for a session with these keys.
    ///
    /// # Errors
    /// [`HostError`] for other keys than [`Self::keys`].
    fn session(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<Arc<dyn ProcessSession>, HostError>;
}

/// A session of a [`ProcessNetwork`].
pub trait ProcessSession: Send + Sync {
    /// Computes all maps of a picture. `visit` gets the number of a visit and the ciphertexts for
    /// it, and returns those of the enclave.
    ///
    /// # Errors
    /// Those of `visit`, or of the maps.
    fn run(&self, visit: &mut VisitEnclave<'_>) -> Result<(), HostError>;
}

/// A visit of the enclave.
pub type VisitEnclave<'a> = dyn FnMut(usize, Vec<Ciphertext>) -> Result<Vec<Ciphertext>, HostError> + 'a;

/// The process of a route. With encrypted weights it needs only the facts in [`Setup::shape`].
pub struct Host {
    combination: Combination,
    work: Option<Work>,
    /// A network of another kind, and the messages of its keys.
    network: Option<(Box<dyn ProcessNetwork>, Vec<Part>)>,
}

struct Work {
    service: Service,
    evaluator: Evaluator,
    parts: Vec<Part>,
}

impl Host {
    /// The weights are encoded in advance if they take at most `memory` bytes.
    ///
    /// # Errors
    /// [`HostError::Route`] or [`HostError::Serve`].
    pub fn new(setup: &Setup, memory: u64) -> Result<Self, HostError> {
        let combination = setup.route.combination;
        let work = match setup.compile()?.filter(|_| combination.uses_process()) {
            None => None,
            Some(compiled) => {
                let evaluator = Evaluator::new(compiled.parameters())?.unbounded();
                let service = Service::new(compiled, memory)?;
                let parts = parts(service.compiled(), service.engine())?;
                Some(Work { service, evaluator, parts })
            }
        };
        Ok(Self { combination, work, network: None })
    }

    /// The process of an enclave that runs all stages on plain numbers. It passes messages on, and
    /// needs to know nothing of the network.
    pub fn passing_on() -> Self {
        Self { combination: Combination::EnclavePlain, work: None, network: None }
    }

    /// The process of a network of another kind whose maps it computes.
    pub fn mixed(network: Box<dyn ProcessNetwork>) -> Self {
        let parts = parts_of_network(network.parameters(), &network.keys());
        Self { combination: Combination::MixedPlainReset, work: None, network: Some((network, parts)) }
    }

    /// The service of the process's stages, if it has any.
    pub fn service(&self) -> Option<&Service> {
        self.work.as_ref().map(|work| &work.service)
    }

    /// The memory of the process that a session's keys, and weights under them, will take, in
    /// bytes. It is known before there is a session.
    ///
    /// # Errors
    /// [`HostError::Serve`] or [`HostError::Engine`].
    pub fn session_memory(&self) -> Result<u64, HostError> {
        if let Some((network, _)) = &self.network {
            return Ok(network.keyring_memory());
        }
        let Some(Work { service, .. }) = &self.work else { return Ok(0) };
        let (compiled, mut bytes) = (service.compiled(), service.keyring_memory()?);
        if compiled.options().encrypted {
            for input in compiled.constants() {
                bytes += compiled.shape(service.engine(), input)?.resident;
            }
        }
        Ok(bytes)
    }

    /// Continues a session parked by [`HostSession::keep`].
    pub fn resume(&self, kept: ParkedSession) -> HostSession<'_> {
        let session = self.work.as_ref().zip(kept.ring).map(|(work, ring)| work.service.resume(&ring));
        HostSession { host: self, id: kept.id, session, network: kept.network, fresh: kept.fresh }
    }

    /// Begins a session that a client has opened: takes its keys from the enclave.
    ///
    /// # Errors
    /// [`HostError`]; the session in the enclave has then ended, or is useless.
    pub fn begin<'a>(&'a self, enclave: &mut dyn Enclave, id: SessionId) -> Result<HostSession<'a>, HostError> {
        let mut session = HostSession { host: self, id, session: None, network: None, fresh: true };
        if let Some((network, parts)) = &self.network {
            let (mut keys, mut reply) = (Vec::new(), Vec::new());
            for (number, part) in parts.iter().enumerate() {
                enclave.host(id, PARTS + number as u8, &[], &mut reply)?;
                let objects = wire::split(&reply, part.inputs.len()).ok_or(HostError::Message { expected: "keys" })?;
                for (input, bytes) in part.inputs.iter().zip(objects) {
                    let bytes = objects::without_identity(bytes)?;
                    keys.push((*input, objects::decode_ckks_evaluation_keys(bytes, network.parameters())?));
                }
            }
            session.network = Some(network.session(keys)?);
            return Ok(session);
        }
        let Some(work) = &self.work else { return Ok(session) };
        let (mut keys, mut weights, mut reply) = (Vec::new(), Constants::new(), Vec::new());
        for (number, part) in work.parts.iter().enumerate() {
            enclave.host(id, PARTS + number as u8, &[], &mut reply)?;
            let objects = wire::split(&reply, part.inputs.len()).ok_or(HostError::Message { expected: "keys" })?;
            let parameters = work.service.compiled().parameters();
            for (input, bytes) in part.inputs.iter().zip(objects) {
                if matches!(input, Input::Rotation { .. } | Input::Relinearization { .. }) {
                    keys.push((
                        *input,
                        objects::decode_ckks_evaluation_keys(objects::without_identity(bytes)?, parameters)?,
                    ));
                } else {
                    let weight =
                        objects::decode_ckks_seeded_ciphertext(objects::without_identity(bytes)?, parameters)?.expand();
                    weights.insert(*input, Arc::new(work.service.engine().ciphertext(weight)?));
                }
            }
        }
        session.session = Some(match work.service.compiled().options().encrypted {
            true => work.service.session_with(keys, weights)?,
            false => work.service.session(keys)?,
        });
        Ok(session)
    }
}

/// A session without its host: the state that a server keeps between two messages.
pub struct ParkedSession {
    id: SessionId,
    ring: Option<Keyring>,
    network: Option<Arc<dyn ProcessSession>>,
    fresh: bool,
}

/// A session on the process's side: ciphertexts, keys without the secret, and weights.
pub struct HostSession<'a> {
    host: &'a Host,
    id: SessionId,
    session: Option<server::Session<'a>>,
    network: Option<Arc<dyn ProcessSession>>,
    /// Whether the keys of this round have arrived.
    fresh: bool,
}

impl HostSession<'_> {
    /// The session's number in the enclave.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Parks the session until its next message; [`Host::resume`] continues it.
    pub fn keep(self) -> ParkedSession {
        let ring = self.session.map(server::Session::into_keys);
        ParkedSession { id: self.id, ring, network: self.network, fresh: self.fresh }
    }

    /// The memory of the session's keys and weights in the process, in bytes.
    pub fn memory(&self) -> u64 {
        let network = self.network.as_ref().and(self.host.network.as_ref());
        let of_network = network.map_or(0, |(network, _)| network.keyring_memory());
        self.session.as_ref().map_or(of_network, server::Session::memory)
    }

    /// Handles a client's image: passes the frame to the enclave and does all the process's work.
    /// The result is the reply's frame. It has the answer if the enclave computes everything.
    /// Otherwise it is empty, and [`Self::ask`] gets the answer.
    ///
    /// # Errors
    /// [`HostError`]; the session has ended, or is useless.
    pub fn image(
        &mut self,
        enclave: &mut dyn Enclave,
        frame: &[u8],
        rng: &mut impl CryptoRng,
        clock: &mut dyn FnMut() -> f64,
    ) -> Result<(Vec<u8>, Timings), HostError> {
        let (mut answer, mut reply, mut timings) = (Vec::new(), Vec::new(), Timings::new());
        let mut at = clock();
        let mut note = |name: &str| {
            let now = clock();
            timings.push((name.to_owned(), now - at));
            at = now;
        };
        if let (Some((process, parts)), Some(network)) = (&self.host.network, &self.network) {
            if !std::mem::take(&mut self.fresh) {
                for number in 0..parts.len() {
                    enclave.host(self.id, PARTS + number as u8, &[], &mut reply)?;
                }
            }
            enclave.client(self.id, IMAGE, frame, &mut answer)?;
            note("image");
            let (id, visits) = (self.id, process.visits());
            let mut visit = |number: usize, sent: Vec<Ciphertext>| {
                note("maps");
                let kind = match number {
                    0 => INPUT,
                    _ if number + 1 == visits => RESULT,
                    _ => RESETS.saturating_add((number - 1) as u8),
                };
                let body = if sent.is_empty() { Vec::new() } else { encode(&sent) };
                enclave.host(id, kind, &body, &mut reply)?;
                let returned = fresh(&reply, process.parameters())?;
                note("inside");
                Ok(returned)
            };
            network.run(&mut visit)?;
            return Ok((answer, timings));
        }
        let (Some(work), Some(session)) = (&self.host.work, &self.session) else {
            enclave.client(self.id, IMAGE, frame, &mut answer)?;
            note("inside");
            return Ok((answer, timings));
        };
        if !std::mem::take(&mut self.fresh) {
            for number in 0..work.parts.len() {
                enclave.host(self.id, PARTS + number as u8, &[], &mut reply)?;
            }
        }
        enclave.client(self.id, IMAGE, frame, &mut answer)?;
        enclave.host(self.id, INPUT, &[], &mut reply)?;
        let mut values = work.inputs(0, &reply)?;
        note("input");
        let compiled = work.service.compiled();
        for number in 0..compiled.len() {
            values = session.stage(number, values)?;
            note(&compiled.stage(number).linear.name);
            if !compiled.needs_reset(number) {
                if number + 1 < compiled.len() {
                    work.drop_to(compiled.stage(number + 1).manner.primes, &mut values)?;
                }
                continue;
            }
            let masks = self.mask(work, number, &mut values, rng)?;
            if !masks.is_empty() {
                note("mask");
            }
            enclave.host(self.id, RESETS + number as u8, &encode(&values), &mut reply)?;
            values = work.inputs(number + 1, &reply)?;
            note("reset");
            if !masks.is_empty() {
                work.unmask(number + 1, &masks, &mut values)?;
                note("mask");
            }
        }
        enclave.host(self.id, RESULT, &encode(&values), &mut reply)?;
        note("result");
        Ok((answer, timings))
    }

    /// Passes on a client's request for the answer, and returns the reply's frame.
    ///
    /// # Errors
    /// [`HostError::Enclave`].
    pub fn ask(&self, enclave: &mut dyn Enclave, frame: &[u8]) -> Result<Vec<u8>, HostError> {
        let mut answer = Vec::new();
        enclave.client(self.id, ASK, frame, &mut answer)?;
        Ok(answer)
    }

    /// Adds masks from fresh seeds to a stage's results, if the route has masks.
    fn mask(
        &self,
        work: &Work,
        stage: usize,
        values: &mut [Ciphertext],
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<(Seed, u32)>, HostError> {
        if self.host.combination != Combination::MixedMaskedReset {
            return Ok(Vec::new());
        }
        let compiled = work.service.compiled();
        let (parameters, level) = (compiled.parameters(), compiled.stage(stage).manner.results());
        let bits = Plaintext::mask_bits(parameters, level);
        let mut masks = Vec::with_capacity(values.len());
        for value in values {
            let seed = Seed::random(rng);
            let mask = Plaintext::mask(parameters, &seed, bits, value.scale(), level);
            *value = work.evaluator.add_plain(value, &mask.ok_or(HostError::Message { expected: "a level" })?)?;
            masks.push((seed, bits));
        }
        Ok(masks)
    }
}

impl Work {
    /// The ciphertexts of a stage's input.
    fn inputs(&self, stage: usize, bytes: &[u8]) -> Result<Vec<Ciphertext>, HostError> {
        let compiled = self.service.compiled();
        let count = compiled.stage(stage).linear.takes.len();
        let parts = wire::split(bytes, count).ok_or(HostError::Message { expected: "ciphertexts" })?;
        let one = |bytes| {
            Ok(objects::decode_ckks_seeded_ciphertext(objects::without_identity(bytes)?, compiled.parameters())?
                .expand())
        };
        parts.into_iter().map(one).collect()
    }

    /// Drops the primes that the next stage does not use.
    fn drop_to(&self, primes: usize, values: &mut [Ciphertext]) -> Result<(), HostError> {
        for value in values.iter_mut().filter(|value| value.level() > primes) {
            *value = self.evaluator.to_level(value, primes)?;
        }
        Ok(())
    }

    /// Subtracts the masks, over the current primes.
    fn unmask(&self, stage: usize, masks: &[(Seed, u32)], values: &mut [Ciphertext]) -> Result<(), HostError> {
        let compiled = self.service.compiled();
        let level = compiled.stage(stage).manner.primes;
        for (value, (seed, bits)) in values.iter_mut().zip(masks) {
            let mask = Plaintext::mask(compiled.parameters(), seed, *bits, value.scale(), level);
            let mask = mask.ok_or(HostError::Message { expected: "a level" })?;
            let negative = self.evaluator.add_plain(&self.evaluator.neg(value)?, &mask)?;
            *value = self.evaluator.neg(&negative)?;
        }
        Ok(())
    }
}

/// The ciphertexts of a list of any length; none without a list.
fn fresh(bytes: &[u8], parameters: &LatticeParameters) -> Result<Vec<Ciphertext>, HostError> {
    let Some(count) = bytes.first_chunk::<4>() else { return Ok(Vec::new()) };
    let parts = wire::split(bytes, u32::from_be_bytes(*count) as usize);
    let one =
        |bytes| Ok(objects::decode_ckks_seeded_ciphertext(objects::without_identity(bytes)?, parameters)?.expand());
    parts.ok_or(HostError::Message { expected: "ciphertexts" })?.into_iter().map(one).collect()
}

fn encode(values: &[Ciphertext]) -> Vec<u8> {
    wire::join(&values.iter().map(objects::store_ckks_ciphertext).collect::<Vec<_>>())
}
