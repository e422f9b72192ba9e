//! Key files: a secret key leaves the program only in this form.

use super::{Kind, WireError, head, read_head, read_version_and_kind};
use crate::curve::{Points, Scalar};
use crate::elgamal::{EpochSecret, Mode, PublicKey, SecretKey};
use crate::params::{Parameters, SecurityFloor};
use tobari_octets::Reader;
use zeroize::Zeroizing;

/// The first bytes of a key file.
const KEY_MAGIC: &[u8; 6] = b"TOBARI";

/// The mode of a secret key file. The mode's own function reads the rest.
///
/// # Errors
/// [`WireError`] if this is not a key file of this version, or holds a public key.
pub fn mode_of_secret_key(bytes: &[u8]) -> Result<Mode, WireError> {
    let mut reader = key_reader(bytes)?;
    match read_version_and_kind(&mut reader)? {
        kind if kind == Kind::SecretKey as u8 => Ok(Mode::Elgamal),
        kind if kind == Kind::EpochSecret as u8 => Ok(Mode::ElgamalShared),
        found => Err(WireError::Kind { expected: Kind::SecretKey, found }),
    }
}

/// A secret key file. Zeroed on drop.
pub fn encode_secret_key(key: &SecretKey) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(160)); // never grows, so no copy is left behind
    out.extend_from_slice(KEY_MAGIC);
    out.extend_from_slice(&head(Kind::SecretKey, key.parameters().curve()));
    out.extend_from_slice(&key.scalar().to_be_bytes());
    out.extend_from_slice(&key.public_key().point().to_sec1());
    out
}

/// Reads a secret key file.
///
/// # Errors
/// [`WireError`]; no message holds any part of the key.
pub fn decode_secret_key(bytes: &[u8], floor: SecurityFloor) -> Result<SecretKey, WireError> {
    let mut reader = key_reader(bytes)?;
    let curve = read_head(&mut reader, Kind::SecretKey)?;
    let parameters = Parameters::new(curve, floor)?;
    reader.expect_rest(curve.scalar_bytes() + 1 + curve.coordinate_bytes())?;
    let scalar = Scalar::from_be_bytes(parameters.built_curve(), reader.take(curve.scalar_bytes())?)?;
    let key = SecretKey::from_scalar(parameters, scalar).ok_or(WireError::DamagedKey)?;
    let public = reader.take(1 + curve.coordinate_bytes())?;
    if key.public_key().point().to_sec1() != public {
        return Err(WireError::DamagedKey);
    }
    Ok(key)
}

/// A key file of mode `elgamal-shared`. Zeroed on drop.
pub fn encode_epoch_secret(secret: &EpochSecret) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(160)); // never grows, so no copy is left behind
    out.extend_from_slice(KEY_MAGIC);
    out.extend_from_slice(&head(Kind::EpochSecret, secret.parameters().curve()));
    out.extend_from_slice(secret.seed());
    out.extend_from_slice(&secret.first_point().to_sec1());
    out
}

/// Reads a key file of mode `elgamal-shared`.
///
/// # Errors
/// [`WireError`]; no message holds any part of the secret.
pub fn decode_epoch_secret(bytes: &[u8], floor: SecurityFloor) -> Result<EpochSecret, WireError> {
    let mut reader = key_reader(bytes)?;
    let curve = read_head(&mut reader, Kind::EpochSecret)?;
    let parameters = Parameters::new(curve, floor)?;
    reader.expect_rest(EpochSecret::BYTES + 1 + curve.coordinate_bytes())?;
    let secret = EpochSecret::from_seed(parameters, Zeroizing::new(reader.array()?));
    if secret.first_point().to_sec1() != reader.take(1 + curve.coordinate_bytes())? {
        return Err(WireError::DamagedKey);
    }
    Ok(secret)
}

/// A public key file.
pub fn encode_public_key(key: &PublicKey) -> Vec<u8> {
    let mut out = KEY_MAGIC.to_vec();
    out.extend_from_slice(&head(Kind::PublicKey, key.parameters().curve()));
    out.extend_from_slice(&key.point().to_sec1());
    out
}

/// Reads a public key file.
///
/// # Errors
/// [`WireError`], with the expected and the found value.
pub fn decode_public_key(bytes: &[u8], floor: SecurityFloor) -> Result<PublicKey, WireError> {
    let mut reader = key_reader(bytes)?;
    let curve = read_head(&mut reader, Kind::PublicKey)?;
    let parameters = Parameters::new(curve, floor)?;
    reader.expect_rest(1 + curve.coordinate_bytes())?;
    let point = Points::from_sec1(parameters.built_curve(), reader.take(1 + curve.coordinate_bytes())?)?;
    PublicKey::from_point(parameters, point).ok_or(WireError::Malformed("public key"))
}

fn key_reader(bytes: &[u8]) -> Result<Reader<'_>, WireError> {
    let mut reader = Reader::new(bytes);
    if reader.take(KEY_MAGIC.len()).ok() != Some(KEY_MAGIC) {
        return Err(WireError::NotAKeyFile);
    }
    Ok(reader)
}
