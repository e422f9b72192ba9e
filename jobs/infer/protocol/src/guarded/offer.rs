//! A host's description of its enclave before there is evidence, and a client's requirements.
//!
//! **A client trusts nothing in an offer.** The offer states the configuration to look for in the
//! evidence. The client compares the offer with its requirements, and then rejects evidence of
//! anything else. A configuration has only digests of the route and the parameters; an offer has
//! both in full, so that a client can show them. The script is not checked here: an enclave of a
//! trusted executable starts only with the route's script.
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
/// The most bytes of an offer.
pub const MAX_OFFER_BYTES: usize = 16 << 10;

/// An enclave's setup as stated by its host.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The site and form of each step.
    pub route: Route,
    /// The parameters of the encryption.
    pub parameters: LatticeParameters,
    /// The configuration that evidence must show.
    pub configuration: Configuration,
}

/// Errors of an offer's bytes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// Another version, an invalid route, or lengths that do not fit.
    #[error("expected the offer of an enclave, version 1: a route, parameters and a configuration, found other bytes")]
    Malformed,
    /// Invalid parameters, such as those with less than 128 bits of security, or larger than a card
    /// allows.
    #[error(transparent)]
    Parameters(#[from] LatticeWireError),
    /// An invalid configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A configuration with the digest of another route or other parameters.
    #[error("expected a configuration of the {0} that stands beside it, found that of another")]
    Apart(&'static str),
}

/// A client's requirements for an enclave.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The digest of the model.
    pub model: Digest,
    /// The combination, or `None` to accept any.
    pub combination: Option<Combination>,
    /// The most informative output policy that the client accepts.
    pub tells: OutputPolicy,
}

/// Reasons to reject an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unexpected {
    /// Another model.
    #[error("expected an enclave for the model {expected}, found one for {found}")]
    Model {
        /// The client's requirement.
        expected: Digest,
        /// The offer's.
        found: Digest,
    },
    /// Another combination.
    #[error("expected an enclave in the combination {expected}, found {found}")]
    Combination {
        /// The client's requirement.
        expected: &'static str,
        /// The offer's.
        found: &'static str,
    },
    /// An output policy that reveals more than the client accepts.
    #[error("expected an enclave that tells at most {expected}, found one that tells {found}")]
    Tells {
        /// The most that the client accepts.
        expected: OutputPolicy,
        /// The offer's policy.
        found: OutputPolicy,
    },
    /// A script in which the client sends no image.
    #[error("expected a script in which a client sends an image and gets an answer, found another")]
    Script,
}

impl Offer {
    /// The offer's bytes; there is only one encoding.
    pub fn encode(&self) -> Vec<u8> {
        let parameters = wire::encode_parameters(&self.parameters);
        let mut out = vec![VERSION];
        out.extend(self.route.encode());
        out.extend((parameters.len() as u32).to_be_bytes());
        out.extend(parameters);
        out.extend(self.configuration.encode());
        out
    }

    /// Decodes the bytes of [`Self::encode`], and no others.
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

    /// Checks the offer against a client's requirements.
    ///
    /// # Errors
    /// [`Unexpected`] names the first mismatch.
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

    /// The bytes of an image; `None` for a script without one.
    pub fn pixels(&self) -> Option<usize> {
        self.client(IMAGE)
    }

    /// The bytes of a client's frames: of an image, and of the request for the answer if that is a
    /// separate message.
    pub fn frames(&self) -> (usize, Option<usize>) {
        let framed = |bytes| bytes + tobari_enclave::channel::FRAME_BYTES;
        (self.client(IMAGE).map_or(0, framed), self.client(ASK).map(framed))
    }

    /// The bytes of the client's message of this kind, without padding or tag.
    fn client(&self, kind: u8) -> Option<usize> {
        let step =
            self.configuration.script.steps().iter().find(|step| step.from == Party::Client && step.kind == kind);
        step.and_then(|step| match step.request {
            Size::Fixed(bytes) => Some(bytes as usize),
            Size::UpTo(_) => None,
        })
    }

    /// The name of the offer's set of parameters, if it has one.
    pub fn set(&self) -> Option<&'static str> {
        let bytes = wire::encode_parameters(&self.parameters);
        let same = |set: &NamedSet| {
            let like = set.degree == self.parameters.degree();
            like && set.parameters().is_ok_and(|parameters| wire::encode_parameters(&parameters) == bytes)
        };
        NamedSet::ALL.into_iter().find(same).map(|set| set.name)
    }
}

/// Fuzzing: bytes that decode as an offer must encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_offer(data: &[u8]) {
    if let Ok(offer) = Offer::decode(data) {
        assert_eq!(offer.encode(), data);
    }
}
