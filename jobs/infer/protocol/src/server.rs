//! The server's half: runs a compiled model on encrypted images. It holds no secret key.
//!
//! A [`Service`] has a model and its weights, encoded once. A [`Session`] has the keys of one
//! client and, if weights are encrypted, the weights under the client's key. Between two questions
//! a server stores the keys as a [`Keyring`].
//!
//! # Hiding partial sums
//! The slots of an answer without logits hold partial sums of the last map: numbers of the model
//! that the client must not learn. Before an answer is sent, the server adds a plaintext that is 0
//! in the slots of logits and uniform elsewhere, **as wide as the modulus has room for**. With `q`
//! the modulus of the answer and `Δ` its scale, the numbers go up to `A = q √(3 N) / (48 Δ)`. The
//! coefficients of the added plaintext then have a deviation of `q/48`, and the answer stays below
//! `q/2` in absolute value by 24 deviations. So a partial sum `m` is hidden up to a statistical
//! distance of `|m| / (2 A)` for each slot: about `2^-8 |m|` if `q / Δ` is `2^6`.
//!
//! Some leakage remains. A client with the key that repeats questions averages the hiding away and
//! learns the partial sums to more and more bits. The logits of many images alone reveal the model
//! (model extraction). The noise of an answer depends on the weights and is not flooded. So the
//! hiding protects weights against a client that asks rarely or sees only labels, not against one
//! that tries to learn the model. If weights must stay secret from clients, decrypt in an enclave
//! and release only labels.

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
    /// A key is missing, or has another level or other parameters.
    #[error("expected a {name}, found none")]
    Key {
        /// The name of the key.
        name: String,
    },
    /// A wrong number of ciphertexts.
    #[error("expected {expected} ciphertexts, found {found}")]
    Count {
        /// The number expected.
        expected: usize,
        /// The number found.
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
    /// Plaintext weights instead of encrypted ones, or the reverse.
    #[error("expected {expected}, found the other kind of weights")]
    Weights {
        /// The kind of weights expected.
        expected: &'static str,
    },
    /// The stage does not exist.
    #[error("expected a stage below {most}, found {found}")]
    Stage {
        /// The number of stages.
        most: usize,
        /// The requested stage.
        found: usize,
    },
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Weights and offsets by their input.
pub type Constants = BTreeMap<Input, Arc<CkksValue>>;

/// A model that answers questions.
pub struct Service {
    compiled: Compiled,
    engine: CkksEngine,
    /// All weights; empty if they are encrypted, or encoded on demand.
    weights: Constants,
    card: Card,
}

/// A client's decoded keys, and weights under its key if they are encrypted: the state that a
/// server stores for a client between two questions. It is cheap to clone.
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
    /// Encodes the weights if they take at most `memory` bytes; otherwise each run encodes them
    /// again. Encrypted weights belong to the session.
    ///
    /// # Errors
    /// [`ServeError::Engine`].
    pub fn new(compiled: Compiled, memory: u64) -> Result<Self, ServeError> {
        let engine = CkksEngine::new(compiled.parameters())?.unbounded();
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

    /// The public facts of the model.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// A session with these keys, each an object of its own, in any order. Keys that are not needed
    /// are dropped.
    ///
    /// # Errors
    /// [`ServeError::Key`] names the first missing key.
    pub fn session(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<Session<'_>, ServeError> {
        self.open(keys, Constants::new(), false)
    }

    /// Only the keys of a session, for a server that stores them.
    ///
    /// # Errors
    /// As in [`Self::session`].
    pub fn keyring(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<Keyring, ServeError> {
        Ok(self.session(keys)?.ring)
    }

    /// A session with keys from [`Self::keyring`] of this service, or from another session of it. A
    /// stage without its key fails.
    pub fn resume(&self, ring: &Keyring) -> Session<'_> {
        Session { service: self, ring: ring.clone() }
    }

    /// The bytes of memory that a session's keys will take.
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
    /// As in [`Self::session`]; [`ServeError::Weights`] if the model is not compiled for encrypted
    /// weights, or weights are missing or have another shape.
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
            let expected = if encrypted { "plaintext weights" } else { "encrypted weights" };
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
    /// The session's keys.
    pub fn into_keys(self) -> Keyring {
        self.ring
    }

    /// Bytes of the keys and of encrypted weights in memory.
    pub fn memory(&self) -> u64 {
        self.ring.memory()
    }

    /// Computes the ciphertexts of the logits from those of an image, with all other slots hidden.
    ///
    /// # Errors
    /// [`ServeError`] for ciphertexts that do not match the model.
    pub fn run(&self, image: Vec<Ciphertext>, rng: &mut impl CryptoRng) -> Result<Vec<Ciphertext>, ServeError> {
        Ok(self.run_timed(image, rng, &mut || 0.0)?.0)
    }

    /// The same, with the seconds of each stage by the caller's clock; the last entry is the
    /// hiding.
    ///
    /// # Errors
    /// As in [`Self::run`].
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

    /// One stage alone: from the ciphertexts of its input to those of its output, without hiding.
    /// For stages whose results go to an enclave.
    ///
    /// # Errors
    /// As in [`Self::run`].
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

    /// Adds random numbers to all slots without logits.
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

/// The width `A` of the hiding.
fn width(compiled: &Compiled, value: &Ciphertext) -> f64 {
    let parameters = compiled.parameters();
    let primes = &parameters.ring().data_primes()[..value.level()];
    let modulus: f64 = primes.iter().map(|prime| prime.modulus().value() as f64).product();
    let scale = value.scale().to_f64(parameters).unwrap_or(f64::INFINITY);
    modulus * (3.0 * parameters.degree() as f64).sqrt() / (48.0 * scale)
}

/// Encrypts the weights and offsets of a model under a key. The caller has both: the model's owner,
/// or an enclave.
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
    let (engine, encoder) = (
        CkksEngine::new(compiled.parameters())?.unbounded(),
        Encoder::new(compiled.parameters())?.within(f64::INFINITY),
    );
    let mut weights = Constants::new();
    for input in compiled.constants() {
        let (Some(slots), Some((scale, primes))) = (compiled.slots(input), compiled.place(input)) else { continue };
        let encrypted = encoder.encrypt_seeded(&slots, scale, primes, secret, rng)?.expand();
        weights.insert(input, Arc::new(engine.ciphertext(encrypted)?));
    }
    Ok(weights)
}
