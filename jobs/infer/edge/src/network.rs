//! Both kinds of models: maps with squares between them, and networks of any depth.

use std::path::Path;
use std::time::Instant;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use tobari_host::files::read_bounded;
use tobari_infer::compile::Card;
use tobari_infer::program::Input;
use tobari_infer::server::{Keyring, Seconds, ServeError, Service};
use tobari_infer::{Model, Volume, messages};
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::encrypted::{Network, NetworkKeys, RunError};
use tobari_infer_deep::file::{MAGIC, MAX_FILE_BYTES};
use tobari_lattice::ckks::{EvaluationKeys, SeededCiphertext};
use zeroize::Zeroizing;

/// A model of either kind.
pub(crate) enum AnyModel {
    /// Maps with squares between them, in special layouts.
    Flat(Model),
    /// A network of any depth.
    Deep(Box<DeepModel>),
}

impl AnyModel {
    /// Reads a file.
    ///
    /// # Errors
    /// Text: the fault of the file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let bytes = read_bounded(path, MAX_FILE_BYTES as u64).map_err(|error| error.to_string())?;
        if bytes.starts_with(&MAGIC) {
            let model = DeepModel::decode(&bytes).map_err(|error| error.to_string())?;
            return Ok(Self::Deep(Box::new(model)));
        }
        Ok(Self::Flat(Model::decode(&bytes).map_err(|error| error.to_string())?))
    }

    /// The name of the model: SHA-256 of its bytes.
    pub(crate) fn digest(&self) -> [u8; 32] {
        match self {
            Self::Flat(model) => model.digest(),
            Self::Deep(model) => model.digest(),
        }
    }

    /// The shape of a picture.
    pub(crate) fn input(&self) -> Volume {
        match self {
            Self::Flat(model) => model.input(),
            Self::Deep(model) => model.graph().input(),
        }
    }

    /// The number of classes.
    pub(crate) fn classes(&self) -> usize {
        match self {
            Self::Flat(model) => model.classes(),
            Self::Deep(model) => model.graph().output().len(),
        }
    }
}

/// A model that is ready to run.
pub(crate) enum Engine {
    /// Of maps with squares.
    Flat(Box<Service>),
    /// Of any depth.
    Deep(Box<Network>),
}

/// A client's keys on the server.
#[derive(Clone)]
pub(crate) enum Ring {
    /// For maps with squares.
    Flat(Keyring),
    /// For a network of any depth.
    Deep(NetworkKeys),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// Of maps with squares.
    #[error(transparent)]
    Flat(#[from] ServeError),
    /// Of a network of any depth.
    #[error(transparent)]
    Deep(#[from] RunError),
    /// A malformed message.
    #[error(transparent)]
    Message(#[from] messages::MessageError),
    /// No randomness.
    #[error("the system gives no randomness")]
    Randomness,
    /// Keys of another model.
    #[error("expected keys of this model, found others")]
    Keys,
}

impl EngineError {
    /// Whether the client's bytes are at fault.
    pub(crate) fn is_of_the_client(&self) -> bool {
        match self {
            Self::Flat(error) => {
                matches!(error, ServeError::Count { .. } | ServeError::Ciphertext { .. } | ServeError::Key { .. })
            }
            Self::Deep(error) => matches!(error, RunError::Question { .. } | RunError::Key { .. }),
            Self::Message(_) => true,
            Self::Randomness | Self::Keys => false,
        }
    }
}

impl Engine {
    /// The public facts of the model.
    pub(crate) fn card(&self) -> Card {
        match self {
            Self::Flat(service) => service.card().clone(),
            Self::Deep(network) => network.card(),
        }
    }

    /// Bytes of a client's keys in memory.
    pub(crate) fn keyring_memory(&self) -> Result<u64, EngineError> {
        Ok(match self {
            Self::Flat(service) => service.keyring_memory()?,
            Self::Deep(network) => network.keyring_memory(),
        })
    }

    /// A client's keys.
    pub(crate) fn keyring(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<Ring, EngineError> {
        Ok(match self {
            Self::Flat(service) => Ring::Flat(service.keyring(keys)?),
            Self::Deep(network) => Ring::Deep(network.keyring(keys)?),
        })
    }

    /// The answer to a question, and the seconds of each step. `progress` hears the number of each
    /// step of a network of any depth before it begins, the number of all, and the step's name, and
    /// ends the run by returning `false`.
    pub(crate) fn answer(
        &self,
        card: &Card,
        ring: &Ring,
        question: &[u8],
        mut progress: impl FnMut(usize, usize, &str) -> bool,
    ) -> Result<(Vec<u8>, Seconds), EngineError> {
        let question = messages::decode_question(question, card)?;
        let image = question.iter().map(SeededCiphertext::expand).collect();
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(|_| EngineError::Randomness)?;
        let (mut rng, began) = (ChaCha20Rng::from_seed(*seed), Instant::now());
        let (answer, seconds) = match (self, ring) {
            (Self::Flat(service), Ring::Flat(ring)) => {
                service.resume(ring).run_timed(image, &mut rng, &mut || began.elapsed().as_secs_f64())?
            }
            (Self::Deep(network), Ring::Deep(ring)) => {
                let steps = &network.circuit().steps.steps;
                let mut starts = Vec::with_capacity(steps.len());
                let answer = network.run(image, ring, &mut rng, |step| {
                    starts.push(began.elapsed().as_secs_f64());
                    progress(step, steps.len(), steps.get(step).map_or("", |(name, ..)| name.as_str()))
                })?;
                let ends = starts.iter().skip(1).copied().chain([began.elapsed().as_secs_f64()]);
                let times = starts.iter().zip(ends).map(|(start, end)| end - start);
                (answer, steps.iter().map(|(name, ..)| name.clone()).zip(times).collect())
            }
            _ => return Err(EngineError::Keys),
        };
        Ok((messages::encode_answer(&answer)?, seconds))
    }
}
