//! The server's half: runs a compiled model on encrypted images. It holds no secret key.
//!
//! A [`Service`] has a model and its weights, encoded once; a [`Session`] has the keys of one
//! client, and where weights are encrypted those under the client's key. A server that keeps keys
//! between two questions keeps them as a [`Keyring`].
//!
//! # What leaves
//! The slots of an answer that are no logits hold partial sums of the last map: numbers of the
//! model's that the client has no business with. Before an answer leaves, a plaintext is added that
//! is 0 in the slots of logits and uniform elsewhere, **as wide as the modulus has room for**: with
//! `q` the modulus of the answer and `Δ` its scale, numbers up to `A = q √(3 N) / (48 Δ)`, so that
//! the coefficients of what is added have a deviation of `q/48`, and the answer stays below `q/2`
//! in absolute value by 24 deviations. A partial sum `m` is then hidden up to a statistical
//! distance of `|m| / (2 A)` a slot: about `2^-8 |m|` where `q / Δ` is `2^6`.
//!
//! What remains, and against whom: a client with the key who asks again and again averages the
//! hiding away, and it learns the partial sums to more and more bits; the logits of many images
//! tell of the model by themselves (model extraction), and the noise of an answer depends on the
//! weights and is not flooded. So this protects weights against a client that asks seldom or is
//! shown labels only, not against one that sets out to learn the model. Where weights must stay
//! secret from clients, decrypt in an enclave and give out labels.

use super::compile::{Card, Compiled, name};
use super::program::Input;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_engine::{CkksEngine, CkksValue, EngineError};
use tobari_lattice::ckks::{Ciphertext, Encoder, EvaluationKeys};
use tobari_lattice::rlwe::{EvaluationKey, SecretKey};
use tobari_plan::engine::{Direct, Machine};
use tobari_plan::program::Op;
use zeroize::Zeroizing;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A key that is not among those given, or of another level or other parameters.
    #[error("expected a {name}, found none")]
    Key {
        /// What it is called.
        name: String,
    },
    /// Another number of ciphertexts.
    #[error("expected {expected} ciphertexts, found {found}")]
    Count {
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A ciphertext over other primes, at another scale or of other parameters.
    #[error(
        "expected ciphertexts of the model's parameters over {primes} data primes at scale {scale}, found another one"
    )]
    Ciphertext {
        /// Data primes.
        primes: usize,
        /// The scale.
        scale: String,
    },
    /// Weights in the clear where they should be encrypted, or the other way round.
    #[error("expected {expected}, found the other kind of weights")]
    Weights {
        /// What there should be.
        expected: &'static str,
    },
    /// A stage that there is not.
    #[error("expected a stage below {most}, found {found}")]
    Stage {
        /// How many there are.
        most: usize,
        /// The one asked for.
        found: usize,
    },
    /// What the engine says.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Weights and offsets by their place.
pub type Constants = BTreeMap<Input, Arc<CkksValue>>;

/// A model that answers.
pub struct Service {
    compiled: Compiled,
    engine: CkksEngine,
    /// All, or none where they are encoded when they are needed, or encrypted.
    weights: Constants,
    card: Card,
}

/// Keys of a client, made ready, and perhaps weights under its key: what a server keeps of a client
/// between two questions. It is cheap to copy.
#[derive(Clone)]
pub struct Keyring {
    keys: Arc<BTreeMap<Input, Arc<CkksValue>>>,
    weights: Arc<Constants>,
}

impl Keyring {
    /// Bytes of the keys and of encrypted weights in memory.
    pub fn memory(&self) -> u64 {
        self.keys.values().chain(self.weights.values()).map(|value| value.memory()).sum()
    }
}

/// A model and a client's keys together.
pub struct Session<'a> {
    service: &'a Service,
    ring: Keyring,
}

/// Seconds of the stages of a run.
pub type Seconds = Vec<(String, f64)>;

impl Service {
    /// With the weights encoded if they take at most `memory` bytes; beyond, each run encodes them
    /// anew. Encrypted weights come with the session.
    ///
    /// # Errors
    /// [`ServeError::Engine`].
    pub fn new(compiled: Compiled, memory: u64) -> Result<Self, ServeError> {
        let engine = CkksEngine::new(compiled.parameters())?;
        let mut weights = Constants::new();
        let constants = compiled.constants();
        let bytes = constants.iter().map(|input| Ok(compiled.shape(&engine, *input)?.resident));
        let bytes: u64 = bytes.sum::<Result<u64, EngineError>>()?;
        if !compiled.options().encrypted && bytes <= memory {
            for input in constants {
                weights.insert(input, Arc::new(compiled.encode(&engine, input)?));
            }
        }
        let card = compiled.card();
        Ok(Self { compiled, engine, weights, card })
    }

    /// The model.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The engine.
    pub fn engine(&self) -> &CkksEngine {
        &self.engine
    }

    /// What clients may know.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// A session with these keys, each an object of its own, in any order; keys that are not needed
    /// are dropped.
    ///
    /// # Errors
    /// [`ServeError::Key`] names the first that is missing.
    pub fn session(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<Session<'_>, ServeError> {
        self.open(keys, Constants::new(), false)
    }

    /// The keys of a session alone, for a server that keeps them.
    ///
    /// # Errors
    /// As [`Self::session`].
    pub fn keyring(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<Keyring, ServeError> {
        Ok(self.session(keys)?.ring)
    }

    /// A session with keys that were made ready by [`Self::keyring`] of this service, or for
    /// another session of it: a stage that lacks a key fails.
    pub fn resume(&self, ring: &Keyring) -> Session<'_> {
        Session { service: self, ring: ring.clone() }
    }

    /// Bytes that the keys of a session take in memory, before there are any.
    ///
    /// # Errors
    /// [`ServeError::Engine`].
    pub fn keyring_memory(&self) -> Result<u64, ServeError> {
        let bytes = self.card.keys.iter().map(|input| Ok(self.compiled.shape(&self.engine, *input)?.resident));
        bytes.sum()
    }

    /// A session with encrypted weights.
    ///
    /// # Errors
    /// As [`Self::session`]; [`ServeError::Weights`] for a model that is not compiled for them, or
    /// weights that are missing or of another shape.
    pub fn session_with(
        &self,
        keys: Vec<(Input, EvaluationKeys)>,
        weights: Constants,
    ) -> Result<Session<'_>, ServeError> {
        self.open(keys, weights, true)
    }

    fn open(
        &self,
        keys: Vec<(Input, EvaluationKeys)>,
        weights: Constants,
        encrypted: bool,
    ) -> Result<Session<'_>, ServeError> {
        if encrypted != self.compiled.options().encrypted {
            let expected = if encrypted { "weights in the clear" } else { "encrypted weights" };
            return Err(ServeError::Weights { expected });
        }
        if encrypted {
            for input in self.compiled.constants() {
                let shape = self.compiled.shape(&self.engine, input)?;
                let fits = weights.get(&input).map(|value| self.engine.shape_of(value));
                if fits.transpose()? != Some(shape) {
                    return Err(ServeError::Weights { expected: "encrypted weights of this model" });
                }
            }
        }
        let mut given: BTreeMap<Input, EvaluationKeys> = keys.into_iter().collect();
        let mut keys = BTreeMap::new();
        for input in &self.card.keys {
            let missing = || ServeError::Key { name: name(*input) };
            let mut key = given.remove(input).ok_or_else(missing)?;
            if key.parameters() != self.compiled.parameters() {
                return Err(missing());
            }
            let (key, level) = match *input {
                Input::Rotation { steps, level } => (key.take_rotation(steps), level),
                Input::Relinearization { level } => (key.take_relinearization(), level),
                _ => (None, 0),
            };
            let fits = |key: &EvaluationKeys| key.only().map(EvaluationKey::level) == Some(usize::from(level) + 1);
            let key = key.filter(fits).ok_or_else(missing)?;
            keys.insert(*input, Arc::new(self.engine.key(key)?));
        }
        Ok(Session { service: self, ring: Keyring { keys: Arc::new(keys), weights: Arc::new(weights) } })
    }
}

impl Session<'_> {
    /// Its keys.
    pub fn into_keys(self) -> Keyring {
        self.ring
    }

    /// Bytes of the keys and of encrypted weights in memory.
    pub fn memory(&self) -> u64 {
        self.ring.memory()
    }

    /// From the ciphertexts of an image to those of its logits, other slots hidden.
    ///
    /// # Errors
    /// [`ServeError`] for other ciphertexts than the model takes.
    pub fn run(&self, image: Vec<Ciphertext>, rng: &mut impl CryptoRng) -> Result<Vec<Ciphertext>, ServeError> {
        Ok(self.run_timed(image, rng, &mut || 0.0)?.0)
    }

    /// The same, and the seconds of each stage by the caller's clock; the last of them is the
    /// hiding.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_timed(
        &self,
        image: Vec<Ciphertext>,
        rng: &mut impl CryptoRng,
        clock: &mut dyn FnMut() -> f64,
    ) -> Result<(Vec<Ciphertext>, Seconds), ServeError> {
        let mut values = image;
        let mut seconds = Seconds::new();
        for number in 0..self.service.compiled.len() {
            let start = clock();
            values = self.stage(number, values)?;
            seconds.push((self.service.compiled.stage(number).linear.name.clone(), clock() - start));
        }
        let start = clock();
        let last = self.service.compiled.len() - 1;
        let hidden = values.into_iter().enumerate().map(|(output, value)| self.hide(last, output, value, rng));
        let hidden = hidden.collect::<Result<Vec<_>, _>>()?;
        seconds.push(("hiding".to_owned(), clock() - start));
        Ok((hidden, seconds))
    }

    /// One stage alone: from the ciphertexts of its input to those of its output, nothing hidden.
    /// This is for stages whose results go to an enclave.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn stage(&self, number: usize, values: Vec<Ciphertext>) -> Result<Vec<Ciphertext>, ServeError> {
        let Service { compiled, engine, weights, .. } = self.service;
        if number >= compiled.len() {
            return Err(ServeError::Stage { most: compiled.len(), found: number });
        }
        let (stage, scale) = (compiled.stage(number), &compiled.scales(number).input);
        let (expected, found) = (stage.linear.takes.len(), values.len());
        if expected != found {
            return Err(ServeError::Count { expected, found });
        }
        let primes = stage.manner.primes;
        let fits = |value: &Ciphertext| {
            value.parameters() == compiled.parameters()
                && value.level() == primes
                && value.scale() == scale
                && !value.needs_relinearization()
        };
        if !values.iter().all(fits) {
            return Err(ServeError::Ciphertext { primes, scale: scale.to_string() });
        }
        let values = values.into_iter().map(|value| Ok(Arc::new(engine.ciphertext(value)?)));
        let values = values.collect::<Result<Vec<_>, EngineError>>()?;
        let mut fetch = |input: Input| -> Result<Arc<CkksValue>, EngineError> {
            let found =
                self.ring.keys.get(&input).or_else(|| self.ring.weights.get(&input)).or_else(|| weights.get(&input));
            match found {
                Some(value) => Ok(Arc::clone(value)),
                None => Ok(Arc::new(compiled.encode(engine, input)?)),
            }
        };
        let results = stage.run::<_, EngineError>(&mut Direct::new(engine), &values, &mut fetch)?;
        let unexpected = || EngineError::Value { expected: "a ciphertext".to_owned() };
        let taken = |value: Arc<CkksValue>| {
            let whole = Arc::into_inner(value).and_then(CkksValue::into_ciphertext);
            Ok::<_, ServeError>(whole.ok_or_else(unexpected)?)
        };
        results.into_iter().map(taken).collect()
    }

    /// With random numbers in all slots that are no logits.
    fn hide(
        &self,
        stage: usize,
        output: usize,
        value: Ciphertext,
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, ServeError> {
        let Service { compiled, engine, .. } = self.service;
        let layout = compiled.layout();
        let width = width(compiled, &value);
        let unit = |rng: &mut dyn CryptoRng| (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        let mut slots: Zeroizing<Vec<f64>> =
            Zeroizing::new((0..layout.slots()).map(|_| width * unit(&mut *rng)).collect());
        layout.logits().iter().filter(|(of, _)| *of == output).for_each(|(_, slot)| slots[*slot] = 0.0);
        let level = value.level().saturating_sub(1) as u16;
        let mask = Arc::new(engine.numbers(&slots, &compiled.scales(stage).results, level)?);
        let value = Arc::new(engine.ciphertext(value)?);
        let hidden = Direct::new(engine).step(Op::Add, &[&value, &mask])?;
        let unexpected = || EngineError::Value { expected: "a ciphertext".to_owned() };
        Ok(Arc::into_inner(hidden).and_then(CkksValue::into_ciphertext).ok_or_else(unexpected)?)
    }
}

/// `A`.
fn width(compiled: &Compiled, value: &Ciphertext) -> f64 {
    let parameters = compiled.parameters();
    let primes = &parameters.ring().data_primes()[..value.level()];
    let modulus: f64 = primes.iter().map(|prime| prime.modulus().value() as f64).product();
    let scale = value.scale().to_f64(parameters).unwrap_or(f64::INFINITY);
    modulus * (3.0 * parameters.degree() as f64).sqrt() / (48.0 * scale)
}

/// The weights and offsets of a model under a key: for whoever has both, the model's owner or an
/// enclave.
///
/// # Errors
/// [`EngineError`] for a model that is not compiled for encrypted weights, or a secret of other
/// parameters.
pub fn encrypt_weights(
    compiled: &Compiled,
    secret: &SecretKey,
    rng: &mut impl CryptoRng,
) -> Result<Constants, EngineError> {
    if !compiled.options().encrypted {
        return Err(EngineError::Parameters { expected: "a model that is compiled for encrypted weights" });
    }
    let (engine, encoder) = (CkksEngine::new(compiled.parameters())?, Encoder::new(compiled.parameters())?);
    let mut weights = Constants::new();
    for input in compiled.constants() {
        let (Some(slots), Some((scale, primes))) = (compiled.slots(input), compiled.place(input)) else { continue };
        let encrypted = encoder.encrypt_seeded(&slots, scale, primes, secret, rng)?.expand();
        weights.insert(input, Arc::new(engine.ciphertext(encrypted)?));
    }
    Ok(weights)
}
