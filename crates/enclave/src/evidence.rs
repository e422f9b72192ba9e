//! The evidence of an enclave.
//!
//! A **measurement** identifies the code and its configuration: SHA-256 over the digest of the
//! executable and the digest of the [`Configuration`](crate::Configuration). A **statement**
//! contains the session, the public key of its channel, the verifier's nonce, the configuration's
//! digest, and the protections of the process. **Report data** is SHA-512 of the statement, 64
//! bytes, the size that platforms use. The **proof** is the platform's confirmation that the
//! measured code asked for these report data.
//!
//! The only platform so far is `simulated`: a signature by an Ed25519 key that the enclave's own
//! process drew at its start. It shows that statement and measurement come unchanged from the
//! holder of that key. It shows **nothing about the holder**: any program can draw a key and sign
//! any measurement. The simulated platform takes the place of a processor's signature for tests of
//! all other code. Verifiers reject it unless the policy accepts it.
//!
//! Bytes, version 1: version (1), kind (1), measurement (32), session (16), channel key (32), nonce
//! (32), configuration (32), protections (39), proof. The proof of kind 1, simulated: public key
//! (32) and signature (64). Kinds 2 (SEV-SNP) and 3 (TDX) are reserved.

use crate::digest::Digest;
use crate::protection::Protections;
use crate::wire::{Reader, WrongLength};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rand_core::CryptoRng;
use sha2::Sha512;
use zeroize::Zeroizing;

/// Version of the bytes.
const VERSION: u8 = 1;
const SIMULATED: u8 = 1;
/// The longest evidence, in bytes.
pub const MAX_EVIDENCE_BYTES: usize = 16 << 10;
/// The purpose, the first part of the bytes that the simulated platform signs.
const SIMULATED_PURPOSE: &[u8] = b"tobari SIMULATED evidence 1, no hardware";

/// Identifies the code that runs and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Measurement(Digest);

impl Measurement {
    /// The measurement of an executable under a configuration. `executable` is SHA-256 of the
    /// unchanged file, and `configuration` is the configuration's digest.
    pub fn new(executable: &Digest, configuration: &Digest) -> Self {
        Self(Digest::of("tobari enclave measurement 1", &[executable.as_bytes(), configuration.as_bytes()]))
    }

    /// The measurement of these bytes, from a platform.
    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl std::fmt::Display for Measurement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// 32 random bytes of a verifier, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

/// The number of a session: 16 random bytes, not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    pub(crate) fn draw(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = [0; 16];
        rng.fill_bytes(&mut bytes);
        Self(bytes)
    }
}

/// The facts that evidence binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The only session that this evidence opens.
    pub session: SessionId,
    /// The public key of the session's channel (X25519), fresh.
    pub channel_key: [u8; 32],
    /// The verifier's nonce.
    pub nonce: Nonce,
    /// Digest of the configuration: model, plan, parameters, output policy, script.
    pub configuration: Digest,
    /// The protections of the process, as its own code found them.
    pub protections: Protections,
}

impl Statement {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.session.0);
        bytes.extend(self.channel_key);
        bytes.extend(self.nonce.0);
        bytes.extend(self.configuration.as_bytes());
        self.protections.encode(bytes);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WrongLength> {
        Ok(Self {
            session: SessionId(reader.array()?),
            channel_key: reader.array()?,
            nonce: Nonce(reader.array()?),
            configuration: Digest::new(reader.array()?),
            protections: Protections::decode(reader)?,
        })
    }

    /// The bytes that a platform confirms.
    pub fn report_data(&self) -> [u8; 64] {
        use sha2::Digest as _;
        let mut bytes = b"tobari enclave report data 1".to_vec();
        self.encode(&mut bytes);
        Sha512::digest(&bytes).into()
    }
}

/// A platform's confirmation of a measurement and report data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// No hardware: see the module's head.
    Simulated {
        /// The development key of this one process.
        key: [u8; 32],
        /// The signature over purpose, measurement and report data.
        signature: [u8; 64],
    },
}

impl Proof {
    /// The kind's name, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Simulated { .. } => "simulated",
        }
    }

    /// Whether no hardware confirms the evidence.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Self::Simulated { .. })
    }
}

/// Measurement, statement and proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The code that runs, and its configuration.
    pub measurement: Measurement,
    /// The facts that the evidence binds.
    pub statement: Statement,
    /// The platform's confirmation of both.
    pub proof: Proof,
}

/// Why bytes are not valid evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The version is unknown.
    #[error("expected evidence of version 1, found version {0}")]
    Version(u8),
    /// The platform is unknown.
    #[error("expected evidence of kind 1 (simulated), found kind {0}")]
    Kind(u8),
    /// The bytes are truncated, have a rest, or have a field without meaning.
    #[error("expected the bytes of one evidence, found others")]
    Malformed,
    /// The platform's signature is wrong.
    #[error("expected a signature over measurement and report data, found one that does not fit")]
    Signature,
}

impl From<WrongLength> for EvidenceError {
    fn from(_: WrongLength) -> Self {
        Self::Malformed
    }
}

impl Evidence {
    /// The only bytes of this evidence.
    pub fn encode(&self) -> Vec<u8> {
        let Proof::Simulated { key, signature } = &self.proof;
        let mut bytes = vec![VERSION, SIMULATED];
        bytes.extend(self.measurement.0.as_bytes());
        self.statement.encode(&mut bytes);
        bytes.extend(key);
        bytes.extend(signature);
        bytes
    }

    /// Reads the bytes of [`Evidence::encode`], and nothing else. The content is not verified: see
    /// [`crate::verify`].
    ///
    /// # Errors
    ///
    /// See [`EvidenceError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, EvidenceError> {
        if bytes.len() > MAX_EVIDENCE_BYTES {
            return Err(EvidenceError::Malformed);
        }
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            other => return Err(EvidenceError::Version(other)),
        }
        match reader.u8()? {
            SIMULATED => {}
            other => return Err(EvidenceError::Kind(other)),
        }
        let measurement = Measurement(Digest::new(reader.array()?));
        let statement = Statement::decode(&mut reader)?;
        let proof = Proof::Simulated { key: reader.array()?, signature: reader.array()? };
        reader.end()?;
        Ok(Self { measurement, statement, proof })
    }

    /// Checks that the proof fits measurement and statement. The policy decides whether to trust
    /// the platform.
    ///
    /// # Errors
    ///
    /// [`EvidenceError::Signature`].
    pub(crate) fn check_proof(&self) -> Result<(), EvidenceError> {
        let Proof::Simulated { key, signature } = &self.proof;
        let key = VerifyingKey::from_bytes(key).map_err(|_| EvidenceError::Signature)?;
        let signed = signed_bytes(&self.measurement, &self.statement.report_data());
        key.verify_strict(&signed, &Signature::from_bytes(signature)).map_err(|_| EvidenceError::Signature)
    }
}

fn signed_bytes(measurement: &Measurement, report_data: &[u8; 64]) -> Vec<u8> {
    [SIMULATED_PURPOSE, measurement.0.as_bytes(), report_data].concat()
}

/// The platform as code inside an enclave sees it: it confirms measurement and report data.
pub trait Attester: Send {
    /// The proof for these report data. A hardware platform adds the measurement by itself.
    fn prove(&self, measurement: &Measurement, report_data: &[u8; 64]) -> Proof;
}

/// The platform without hardware. Its development key is drawn at the start.
///
/// The key dies with the process, and is wiped on drop. There is no list of such keys, and no
/// authority over them.
pub struct SimulatedPlatform(SigningKey);

impl SimulatedPlatform {
    /// Draws the key.
    pub fn new(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(secret.as_mut());
        Self(SigningKey::from_bytes(&secret))
    }
}

impl Attester for SimulatedPlatform {
    fn prove(&self, measurement: &Measurement, report_data: &[u8; 64]) -> Proof {
        let signature = self.0.sign(&signed_bytes(measurement, report_data)).to_bytes();
        Proof::Simulated { key: self.0.verifying_key().to_bytes(), signature }
    }
}
