//! What a host tells clients of its enclave before there is any evidence, and what a client expects
//! of it.
//!
//! **Nothing of an offer is believed.** It says which configuration to look for in the evidence; a
//! client compares it with what it expects, and evidence of anything else is refused afterwards. An
//! offer has what the configuration has digests of, the route and the parameters, so that a client
//! can say what they are. The script is not judged here: an enclave of an executable that is
//! trusted starts with no other than the route's.
//!
//! Bytes: version, route, length of the parameters (4, big-endian), parameters, configuration.

use super::route::{ASK, Combination, IMAGE, Route, parameters_digest};
use crate::card;
use tobari_enclave::configuration::ConfigurationError;
use tobari_enclave::{Configuration, Digest, OutputPolicy, Party, Size};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::wire::{self, LatticeWireError};

/// Version of the bytes.
const VERSION: u8 = 1;
/// No offer is longer, in bytes.
pub const MAX_OFFER_BYTES: usize = 16 << 10;

/// What an enclave is said to have been started with.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What is done where.
    pub route: Route,
    /// The parameters of the encryption.
    pub parameters: LatticeParameters,
    /// What evidence is to show.
    pub configuration: Configuration,
}

/// Bytes that are no offer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// Another version, no route, or lengths that do not fit.
    #[error("expected the offer of an enclave, version 1: a route, parameters and a configuration, found other bytes")]
    Malformed,
    /// No parameters, such as have less than 128 bits of security, or larger ones than a card has.
    #[error(transparent)]
    Parameters(#[from] LatticeWireError),
    /// No configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A configuration with the digest of another route or other parameters.
    #[error("expected a configuration of the {0} that stands beside it, found that of another")]
    Apart(&'static str),
}

/// What a client wants of an enclave.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The digest of the model.
    pub model: Digest,
    /// What is done where; none if that does not matter.
    pub combination: Option<Combination>,
    /// The most that may be told.
    pub tells: OutputPolicy,
}

/// Why an offer is not what a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unexpected {
    /// Another model.
    #[error("expected an enclave for the model {expected}, found one for {found}")]
    Model {
        /// The client's.
        expected: Digest,
        /// The offer's.
        found: Digest,
    },
    /// Another combination.
    #[error("expected an enclave in the combination {expected}, found {found}")]
    Combination {
        /// The client's.
        expected: &'static str,
        /// The offer's.
        found: &'static str,
    },
    /// More would be told.
    #[error("expected an enclave that tells at most {expected}, found one that tells {found}")]
    Tells {
        /// The most that may be told.
        expected: OutputPolicy,
        /// The offer's policy.
        found: OutputPolicy,
    },
    /// A script in which no image is sent, or nothing is told.
    #[error("expected a script in which a client sends an image and is told something, found another")]
    Script,
}

impl Offer {
    /// Its only bytes.
    pub fn encode(&self) -> Vec<u8> {
        let parameters = wire::encode_parameters(&self.parameters);
        let mut out = vec![VERSION];
        out.extend(self.route.encode());
        out.extend((parameters.len() as u32).to_be_bytes());
        out.extend(parameters);
        out.extend(self.configuration.encode());
        out
    }

    /// Reads what [`Self::encode`] writes, and nothing else.
    ///
    /// # Errors
    /// [`OfferError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, OfferError> {
        let rest = bytes.strip_prefix(&[VERSION]).filter(|_| bytes.len() <= MAX_OFFER_BYTES);
        let (route, rest) = rest.and_then(Route::decode).ok_or(OfferError::Malformed)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(OfferError::Malformed)?;
        let cut = rest.split_at_checked(u32::from_be_bytes(*length) as usize);
        let (parameters, configuration) = cut.ok_or(OfferError::Malformed)?;
        card::check_bounds(parameters)?;
        let parameters = wire::decode_parameters(parameters)?;
        let configuration = Configuration::decode(configuration)?;
        if route.digest() != configuration.plan {
            return Err(OfferError::Apart("route"));
        }
        if parameters_digest(&parameters) != configuration.parameters {
            return Err(OfferError::Apart("parameters"));
        }
        Ok(Self { route, parameters, configuration })
    }

    /// Whether it is what a client wants.
    ///
    /// # Errors
    /// [`Unexpected`] names the first thing that is not.
    pub fn check(&self, expected: &Expected) -> Result<(), Unexpected> {
        let Configuration { model, output, .. } = self.configuration;
        if model != expected.model {
            return Err(Unexpected::Model { expected: expected.model, found: model });
        }
        let found = self.route.combination;
        if let Some(combination) = expected.combination.filter(|combination| *combination != found) {
            return Err(Unexpected::Combination { expected: combination.name(), found: found.name() });
        }
        if !output.tells_at_most(expected.tells) {
            return Err(Unexpected::Tells { expected: expected.tells, found: output });
        }
        self.pixels().map(|_| ()).ok_or(Unexpected::Script)
    }

    /// Bytes of an image; none in a script without one.
    pub fn pixels(&self) -> Option<usize> {
        self.client(IMAGE)
    }

    /// Bytes of the frames that a client sends: of an image, and of the question for what is told
    /// where that is a message of its own.
    pub fn frames(&self) -> (usize, Option<usize>) {
        let framed = |bytes| bytes + tobari_enclave::channel::FRAME_BYTES;
        (self.client(IMAGE).map_or(0, framed), self.client(ASK).map(framed))
    }

    /// Bytes of the client's message of this kind, without padding or tag.
    fn client(&self, kind: u8) -> Option<usize> {
        let step =
            self.configuration.script.steps().iter().find(|step| step.from == Party::Client && step.kind == kind);
        step.and_then(|step| match step.request {
            Size::Fixed(bytes) => Some(bytes as usize),
            Size::UpTo(_) => None,
        })
    }

    /// The name of its set of parameters, if it is one of those that have names.
    pub fn set(&self) -> Option<&'static str> {
        let bytes = wire::encode_parameters(&self.parameters);
        let same = |set: &NamedSet| {
            let like = set.degree == self.parameters.degree();
            like && set.parameters().is_ok_and(|parameters| wire::encode_parameters(&parameters) == bytes)
        };
        NamedSet::ALL.into_iter().find(same).map(|set| set.name)
    }
}

/// Whatever decodes as an offer encodes to the same bytes.
#[doc(hidden)]
pub fn fuzz_offer(data: &[u8]) {
    if let Ok(offer) = Offer::decode(data) {
        assert_eq!(offer.encode(), data);
    }
}
