//! The secret that the members of a call hold, in either mode, and its file.

use std::path::Path;
use tobari_command::output::Failure;
use tobari_core::elgamal::{EpochSecret, Mode, SecretKey};
use tobari_core::params::{Parameters, SecurityFloor};
use tobari_core::wire::{self, WireError};
use tobari_host::files;
use zeroize::Zeroizing;

/// The largest key file.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// What decrypts a call.
#[derive(Clone)]
pub(crate) enum CallKey {
    /// In mode `elgamal`; its public half encrypts.
    Elgamal(SecretKey),
    /// In mode `elgamal-shared`; it encrypts too.
    ElgamalShared(EpochSecret),
}

impl CallKey {
    /// A fresh one.
    pub(crate) fn generate(mode: Mode, parameters: Parameters) -> Result<Self, Failure> {
        let mut rng = tobari_command::randomness::generator()?;
        Ok(match mode {
            Mode::Elgamal => Self::Elgamal(SecretKey::generate(parameters, &mut rng)),
            Mode::ElgamalShared => Self::ElgamalShared(EpochSecret::generate(parameters, &mut rng)),
        })
    }

    /// From its file, whatever the mode.
    pub(crate) fn read(path: &Path, floor: SecurityFloor) -> Result<Self, Failure> {
        let bytes = Zeroizing::new(files::read_bounded(path, MAX_KEY_FILE_BYTES)?);
        Self::decode(&bytes, floor).map_err(|error| match error {
            WireError::BelowFloor(error) => insecure(error),
            error => Failure::Work(format!("{}: {error}", path.display())),
        })
    }

    fn decode(bytes: &[u8], floor: SecurityFloor) -> Result<Self, WireError> {
        match wire::mode_of_secret_key(bytes)? {
            Mode::Elgamal => wire::decode_secret_key(bytes, floor).map(Self::Elgamal),
            Mode::ElgamalShared => wire::decode_epoch_secret(bytes, floor).map(Self::ElgamalShared),
        }
    }

    /// The bytes of its file.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Elgamal(key) => wire::encode_secret_key(key),
            Self::ElgamalShared(secret) => wire::encode_epoch_secret(secret),
        }
    }

    /// The mode.
    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self::Elgamal(_) => Mode::Elgamal,
            Self::ElgamalShared(_) => Mode::ElgamalShared,
        }
    }

    /// The parameters.
    pub(crate) fn parameters(&self) -> Parameters {
        match self {
            Self::Elgamal(key) => key.parameters(),
            Self::ElgamalShared(secret) => secret.parameters(),
        }
    }
}

/// A curve below the floor is a wrong call, with a way out.
pub(crate) fn insecure(error: impl std::fmt::Display) -> Failure {
    Failure::Call(format!("{error}; --insecure-paper admits it for measurements"))
}
