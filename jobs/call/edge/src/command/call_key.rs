//! The secret key of a call, in either mode, and its file.

use std::path::Path;
use tobari_command::output::Failure;
use tobari_curve::Curve;
use tobari_curve::elgamal::{EpochSecret, Mode, SecretKey};
use tobari_curve::params::{FLOOR_BITS, Parameters, RefusedCurve, SecurityFloor};
use tobari_curve::wire::{self, WireError};
use tobari_host::files;
use zeroize::Zeroizing;

/// The largest key file.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// The secret key of a call.
#[derive(Clone)]
pub(crate) enum CallKey {
    /// Mode `elgamal`: the public half encrypts.
    Elgamal(SecretKey),
    /// Mode `elgamal-shared`: the secret encrypts and decrypts.
    ElgamalShared(EpochSecret),
}

impl CallKey {
    /// Generates a key.
    pub(crate) fn generate(mode: Mode, parameters: Parameters) -> Result<Self, Failure> {
        let mut rng = tobari_command::randomness::generator()?;
        Ok(match mode {
            Mode::Elgamal => Self::Elgamal(SecretKey::generate(parameters, &mut rng)),
            Mode::ElgamalShared => Self::ElgamalShared(EpochSecret::generate(parameters, &mut rng)),
        })
    }

    /// Reads a key file of either mode.
    pub(crate) fn read(path: &Path, floor: SecurityFloor) -> Result<Self, Failure> {
        let bytes = Zeroizing::new(files::read_bounded(path, MAX_KEY_FILE_BYTES)?);
        Self::decode(&bytes, floor).map_err(|error| match error {
            WireError::RefusedCurve(error) => refused_curve(error),
            error => Failure::Work(format!("{}: {error}", path.display())),
        })
    }

    fn decode(bytes: &[u8], floor: SecurityFloor) -> Result<Self, WireError> {
        match wire::mode_of_secret_key(bytes)? {
            Mode::Elgamal => wire::decode_secret_key(bytes, floor).map(Self::Elgamal),
            Mode::ElgamalShared => wire::decode_epoch_secret(bytes, floor).map(Self::ElgamalShared),
        }
    }

    /// The bytes of the key file.
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

/// How to build a program that has the curves below the floor.
const WITH_PAPER: &str = "`cargo build --release --features tobari-cli/paper`";

/// A rejected curve is a usage error; the message says how to allow the curve.
pub(crate) fn refused_curve(error: RefusedCurve) -> Failure {
    let (RefusedCurve::BelowFloor { curve } | RefusedCurve::NotBuilt { curve }) = error;
    Failure::Call(match (error, curve.built()) {
        (RefusedCurve::BelowFloor { .. }, Some(_)) => format!("{error}; --insecure-paper admits it for measurements"),
        (RefusedCurve::BelowFloor { .. }, None) => {
            format!("{error}; --insecure-paper admits it for measurements in what {WITH_PAPER} builds")
        }
        (RefusedCurve::NotBuilt { .. }, _) => format!("{error} ({WITH_PAPER})"),
    })
}

/// Rejects an option that needs curves below the floor, if this build has none.
pub(crate) fn need_weak_curves(option: &str) -> Result<(), Failure> {
    need(option, Curve::ALL.into_iter().all(|curve| curve.built().is_some()))
}

/// The same with the build as an argument, so that the tests of one build cover both answers.
fn need(option: &str, there: bool) -> Result<(), Failure> {
    let text = || {
        format!("{option}: this build has no curves below {FLOOR_BITS} bits of security: build it with {WITH_PAPER}")
    };
    if there { Ok(()) } else { Err(Failure::Call(text())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(failure: &Failure) -> &str {
        let Failure::Call(text) = failure else { panic!("no wrong call: {failure}") };
        text
    }

    #[test]
    fn curves_that_this_build_lacks_are_a_wrong_call_that_says_how_to_build_them() {
        let curve = Curve::P160_1;
        let refused = refused_curve(RefusedCurve::NotBuilt { curve });
        assert!(call(&refused).contains("p160_1") && call(&refused).contains(WITH_PAPER), "{refused}");
        let refused = refused_curve(RefusedCurve::BelowFloor { curve });
        assert!(call(&refused).contains("--insecure-paper"), "{refused}");
        assert_eq!(call(&refused).contains(WITH_PAPER), curve.built().is_none(), "{refused}");
        assert!(need("--paper", true).is_ok());
        let refused = need("--paper", false).unwrap_err();
        assert!(call(&refused).starts_with("--paper: ") && call(&refused).contains(WITH_PAPER), "{refused}");
        assert_eq!(need_weak_curves("--paper").is_ok(), curve.built().is_some());
    }
}
