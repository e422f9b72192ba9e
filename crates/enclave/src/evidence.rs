//! What an enclave shows of itself.
//!
//! A **measurement** says which code runs with which configuration: SHA-256 over the digest of the
//! executable and that of the [`Configuration`](crate::Configuration). A **statement** says for
//! whom: the session, the public key of its channel, the verifier's nonce, the configuration's
//! digest, and what protects the process. **Report data** is SHA-512 of the statement, 64 bytes, as
//! the platforms have it. The **proof** is the platform's word that the measured code asked for
//! these report data.
//!
//! The one platform so far is `simulated`: a signature by an Ed25519 key that the enclave's own
//! process drew when it started. It shows that statement and measurement come from whoever holds
//! that key, unchanged, and **nothing about who that is**: any program can draw a key and sign any
//! measurement. It stands where a processor's signature will stand, so that everything around it
//! can be tested; verifiers refuse it unless told otherwise.
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
/// No evidence is longer, in bytes.
pub const MAX_EVIDENCE_BYTES: usize = 16 << 10;
/// What the simulated platform signs begins with this.
const SIMULATED_PURPOSE: &[u8] = b"tobari SIMULATED evidence 1, no hardware";

/// Which code runs, with which configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Measurement(Digest);

impl Measurement {
    /// Of the executable with SHA-256 `executable` (that of the file as it is), under a
    /// configuration with this digest.
    pub fn new(executable: &Digest, configuration: &Digest) -> Self {
        Self(Digest::of("tobari enclave measurement 1", &[executable.as_bytes(), configuration.as_bytes()]))
    }

    /// As bytes of a platform.
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

/// For whom evidence is made and what it binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The session that this evidence opens, and no other.
    pub session: SessionId,
    /// The public key of its channel (X25519), fresh.
    pub channel_key: [u8; 32],
    /// What the verifier sent.
    pub nonce: Nonce,
    /// Digest of the configuration: model, plan, parameters, output policy, script.
    pub configuration: Digest,
    /// What protects the process, as its own code found it.
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

    /// What a platform is asked to vouch for.
    pub fn report_data(&self) -> [u8; 64] {
        use sha2::Digest as _;
        let mut bytes = b"tobari enclave report data 1".to_vec();
        self.encode(&mut bytes);
        Sha512::digest(&bytes).into()
    }
}

/// A platform's word for a measurement and report data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// No hardware: see the head of this module.
    Simulated {
        /// The development key of this one process.
        key: [u8; 32],
        /// Over purpose, measurement and report data.
        signature: [u8; 64],
    },
}

impl Proof {
    /// Its name, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Simulated { .. } => "simulated",
        }
    }

    /// Whether hardware stands behind it.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Self::Simulated { .. })
    }
}

/// Measurement, statement and proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Which code runs, with which configuration.
    pub measurement: Measurement,
    /// For whom, and what it binds.
    pub statement: Statement,
    /// The platform's word for both.
    pub proof: Proof,
}

/// Why bytes are no evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// Another version.
    #[error("expected evidence of version 1, found version {0}")]
    Version(u8),
    /// A platform that is not known here.
    #[error("expected evidence of kind 1 (simulated), found kind {0}")]
    Kind(u8),
    /// Cut off, bytes left over, or a field without meaning.
    #[error("expected the bytes of one evidence, found others")]
    Malformed,
    /// The platform's signature does not fit.
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

    /// Reads what [`Evidence::encode`] writes, and nothing else. What it says is not checked: see
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

    /// Whether the platform's word fits measurement and statement. Whether that platform is to be
    /// believed is the policy's affair.
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

/// What vouches for measurement and report data: the platform, seen from inside.
pub trait Attester: Send {
    /// The proof for these report data; the platform adds the measurement by itself.
    fn prove(&self, measurement: &Measurement, report_data: &[u8; 64]) -> Proof;
}

/// The platform without hardware: a key drawn at the start, openly a development key.
///
/// The key dies with the process; there is no list of such keys and no authority over them. Wiped
/// when dropped.
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
