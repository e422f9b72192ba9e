//! A client's verification of evidence, before it sends any key, image or weight.
//!
//! All conditions must hold at once; each reason to reject has its own error. Time is an argument,
//! in seconds of any clock that does not go back. The enclave has no clock, so the age of evidence
//! counts from the moment the verifier drew its nonce.
//!
//! A [`Challenge`] allows one verification, so replayed evidence meets another nonce. Only this
//! module makes an [`Attested`], and only an `Attested` opens a channel.

use crate::configuration::Configuration;
use crate::digest::Digest;
use crate::evidence::{Evidence, EvidenceError, Measurement, Nonce, Statement};
use crate::protection::{Protection, State};
use rand_core::CryptoRng;
use std::time::Duration;

/// The evidence that a verifier accepts. The default is strict: see [`Policy::new`].
#[derive(Clone, Debug)]
pub struct Policy {
    /// SHA-256 of the executables that may run in the enclave. Releases publish them with
    /// reproducible builds.
    pub executables: Vec<Digest>,
    /// The configuration that the enclave must have.
    pub configuration: Configuration,
    /// Whether evidence without hardware is accepted. **Anybody can make such evidence**; it is for
    /// tests and demonstrations.
    pub accept_simulated: bool,
    /// The greatest age of evidence, counted from the challenge.
    pub max_age: Duration,
    /// Protections that must be fully in force, as far as the measured code can tell.
    pub required: Vec<Protection>,
}

impl Policy {
    /// A policy for these executables under this configuration: no simulated evidence, one minute,
    /// no required protection.
    pub fn new(executables: Vec<Digest>, configuration: Configuration) -> Self {
        Self {
            executables,
            configuration,
            accept_simulated: false,
            max_age: Duration::from_secs(60),
            required: Vec::new(),
        }
    }

    /// Accepts simulated evidence, too, as `--accept-simulated` does.
    #[must_use]
    pub fn accepting_simulated(mut self) -> Self {
        self.accept_simulated = true;
        self
    }
}

/// Why evidence is rejected. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The evidence is malformed, or its signature is wrong.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// Simulated evidence, and the policy does not accept it.
    #[error(
        "expected evidence of a hardware platform, found simulated evidence, which anybody can make: --accept-simulated takes it"
    )]
    Simulated,
    /// Evidence for another challenge: replayed, or mixed up.
    #[error(
        "expected the nonce of this challenge, found another: the evidence was made for another client, or earlier"
    )]
    Nonce,
    /// The evidence is too old.
    #[error("expected evidence within {limit} s of the challenge, found it after {age} s")]
    Expired {
        /// Seconds since the challenge.
        age: u64,
        /// The policy's limit.
        limit: u64,
    },
    /// The clock went back.
    #[error("expected a time not before the challenge, found an earlier one")]
    Clock,
    /// The enclave has another configuration.
    #[error(
        "expected configuration {expected}, found {found}: another model, plan, parameters, output policy or script"
    )]
    Configuration {
        /// The policy's configuration.
        expected: Digest,
        /// The evidence's configuration.
        found: Digest,
    },
    /// The enclave runs other code.
    #[error("expected the measurement of an allowed executable, found {found}")]
    Measurement {
        /// The evidence's measurement.
        found: Measurement,
    },
    /// A protection that the policy requires is missing.
    #[error("expected the enclave to have {protection}, found it {state}")]
    Protection {
        /// The protection.
        protection: Protection,
        /// Its state.
        state: State,
    },
}

/// A nonce and the time of its draw, for one verification.
#[derive(Debug)]
pub struct Challenge {
    nonce: Nonce,
    drawn_at: u64,
}

impl Challenge {
    /// Draws a nonce at `now`, in seconds.
    pub fn new(rng: &mut (impl CryptoRng + ?Sized), now: u64) -> Self {
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        Self { nonce: Nonce(nonce), drawn_at: now }
    }

    /// The nonce for the enclave.
    pub fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// Verifies `evidence` at `now`, in seconds.
    ///
    /// # Errors
    ///
    /// See [`VerifyError`].
    pub fn verify(self, policy: &Policy, evidence: &[u8], now: u64) -> Result<Attested, VerifyError> {
        let Evidence { measurement, statement, proof } = {
            let decoded = Evidence::decode(evidence)?;
            decoded.check_proof()?;
            decoded
        };
        if proof.is_simulated() && !policy.accept_simulated {
            return Err(VerifyError::Simulated);
        }
        if statement.nonce != self.nonce {
            return Err(VerifyError::Nonce);
        }
        let age = now.checked_sub(self.drawn_at).ok_or(VerifyError::Clock)?;
        if age > policy.max_age.as_secs() {
            return Err(VerifyError::Expired { age, limit: policy.max_age.as_secs() });
        }
        let expected = policy.configuration.digest();
        if statement.configuration != expected {
            return Err(VerifyError::Configuration { expected, found: statement.configuration });
        }
        if !policy.executables.iter().any(|executable| Measurement::new(executable, &expected) == measurement) {
            return Err(VerifyError::Measurement { found: measurement });
        }
        for &protection in &policy.required {
            let state = statement.protections.state(protection);
            if state != State::Applied {
                return Err(VerifyError::Protection { protection, state });
            }
        }
        let digest = Digest::of_bytes(evidence);
        Ok(Attested {
            statement,
            measurement,
            simulated: proof.is_simulated(),
            digest,
            configuration: policy.configuration.clone(),
        })
    }
}

/// An enclave whose evidence a policy accepted. Channels open to it.
#[derive(Debug)]
pub struct Attested {
    pub(crate) statement: Statement,
    measurement: Measurement,
    simulated: bool,
    pub(crate) digest: Digest,
    pub(crate) configuration: Configuration,
}

impl Attested {
    /// The statement: session, protections and the rest.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The code that runs, and its configuration.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// Whether no hardware confirms the enclave. Say so wherever you show one of its results.
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }
}
