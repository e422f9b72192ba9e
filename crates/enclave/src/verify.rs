//! A client's judgement of evidence: it comes before any key, image or weight leaves.
//!
//! Everything must fit at once; each reason to refuse has its own error. Time is an argument, in
//! seconds of any clock that does not go back: the enclave has none, so the age of evidence is
//! counted from the moment the verifier drew its nonce.
//!
//! A [`Challenge`] is used up by its one verification: evidence that comes a second time meets
//! another nonce. An [`Attested`] can be had in no other way than from here, and only an `Attested`
//! opens a channel.

use crate::configuration::Configuration;
use crate::digest::Digest;
use crate::evidence::{Evidence, EvidenceError, Measurement, Nonce, Statement};
use crate::protection::{Protection, State};
use rand_core::CryptoRng;
use std::time::Duration;

/// What a verifier accepts. Closed unless opened.
#[derive(Clone, Debug)]
pub struct Policy {
    /// SHA-256 of the executables that may run in the enclave, as published with reproducible
    /// builds.
    pub executables: Vec<Digest>,
    /// What it must have been started with.
    pub configuration: Configuration,
    /// Whether evidence without hardware is taken. **Anybody can make such evidence**; it is for
    /// tests and demonstrations.
    pub accept_simulated: bool,
    /// How long after the challenge evidence is still taken.
    pub max_age: Duration,
    /// Measures that must be wholly in force, as far as the measured code can tell.
    pub required: Vec<Protection>,
}

impl Policy {
    /// These executables under this configuration; no simulated evidence, one minute, no measure
    /// required.
    pub fn new(executables: Vec<Digest>, configuration: Configuration) -> Self {
        Self {
            executables,
            configuration,
            accept_simulated: false,
            max_age: Duration::from_secs(60),
            required: Vec::new(),
        }
    }

    /// Takes simulated evidence too: what `--accept-simulated` says.
    #[must_use]
    pub fn accepting_simulated(mut self) -> Self {
        self.accept_simulated = true;
        self
    }
}

/// Why evidence is refused. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// No evidence at all, or its signature does not fit.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// Evidence without hardware, and the policy takes none.
    #[error(
        "expected evidence of a hardware platform, found simulated evidence, which anybody can make: --accept-simulated takes it"
    )]
    Simulated,
    /// Evidence for another challenge: replayed, or mixed up.
    #[error("expected the nonce of this challenge, found another: the evidence was made for somebody else or earlier")]
    Nonce,
    /// It took too long.
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
    /// Started with another configuration.
    #[error(
        "expected configuration {expected}, found {found}: another model, plan, parameters, output policy or script"
    )]
    Configuration {
        /// The policy's.
        expected: Digest,
        /// The evidence's.
        found: Digest,
    },
    /// Other code.
    #[error("expected the measurement of an allowed executable, found {found}")]
    Measurement {
        /// The evidence's.
        found: Measurement,
    },
    /// A measure that the policy requires.
    #[error("expected the enclave to have {protection}, found it {state}")]
    Protection {
        /// Which.
        protection: Protection,
        /// What became of it.
        state: State,
    },
}

/// A nonce and when it was drawn, good for one verification.
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

    /// What to send to the enclave.
    pub fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// Judges `evidence` at `now`, in seconds.
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

/// An enclave whose evidence a policy accepted: what a channel is opened to.
#[derive(Debug)]
pub struct Attested {
    pub(crate) statement: Statement,
    measurement: Measurement,
    simulated: bool,
    pub(crate) digest: Digest,
    pub(crate) configuration: Configuration,
}

impl Attested {
    /// What it stated: session, protections and the rest.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Which code, with which configuration.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// Whether no hardware stands behind it: to be said wherever a result of it is shown.
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }
}
