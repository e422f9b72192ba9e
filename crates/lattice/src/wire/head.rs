//! What every object begins with: version, kind, parameters, and the identity of its key.

use super::{LatticeKind, LatticeWireError};
use crate::params::{LatticeParameters, Plaintext};
use crate::ring::Modulus;
use crate::rlwe::KeyId;
use tobari_octets::{LengthError, Reader};

/// Version of objects of an unknown key.
pub const VERSION: u8 = 1;
/// Version of objects with the identity of their key.
pub(super) const VERSION_WITH_KEY: u8 = 2;
/// Bytes of an identity.
pub(super) const ID_BYTES: usize = 8;
/// Bytes of a prime.
const PRIME_BYTES: usize = 7;

/// A version that this program reads, and the number of the kind.
fn version_and_kind(reader: &mut Reader<'_>) -> Result<(u8, u8), LatticeWireError> {
    let version = reader.u8()?;
    let known = version == VERSION || version == VERSION_WITH_KEY;
    if known { Ok((version, reader.u8()?)) } else { Err(LatticeWireError::Version(version)) }
}

/// The first bytes of an object of this key.
pub(super) fn head_of(kind: LatticeKind, parameters: &LatticeParameters, key: Option<KeyId>) -> Vec<u8> {
    let mut out = head(kind, parameters);
    if let Some(key) = key {
        out[0] = VERSION_WITH_KEY;
        out.extend_from_slice(&key.to_bytes());
    }
    out
}

pub(super) fn head(kind: LatticeKind, parameters: &LatticeParameters) -> Vec<u8> {
    let ring = parameters.ring();
    let t = match parameters.plaintext() {
        Plaintext::Approximate => 0,
        Plaintext::Integers(t) => t.value(),
    };
    let counts = [ring.data_primes().len(), ring.special_primes().len(), parameters.digits()];
    let mut out = vec![VERSION, kind as u8, ring.degree().trailing_zeros() as u8];
    out.extend(counts.map(|count| count as u8));
    out.extend_from_slice(&t.to_be_bytes());
    for prime in ring.data_primes().iter().chain(ring.special_primes()) {
        out.extend_from_slice(&prime.modulus().value().to_be_bytes()[8 - PRIME_BYTES..]);
    }
    out
}

/// Reads version, kind and parameters, which must equal the given ones, and the key.
pub(super) fn read_head(
    reader: &mut Reader<'_>,
    expected: LatticeKind,
    parameters: &LatticeParameters,
) -> Result<Option<KeyId>, LatticeWireError> {
    let version = read_parameters(reader, expected, parameters)?;
    read_key_id(reader, version)
}

/// Reads the identity of the key, if the version has one.
fn read_key_id(reader: &mut Reader<'_>, version: u8) -> Result<Option<KeyId>, LatticeWireError> {
    if version == VERSION {
        return Ok(None);
    }
    let key = KeyId::from_bytes(reader.array()?);
    key.map(Some).ok_or(LatticeWireError::Malformed("identity of a key"))
}

/// Reads the version, and kind and parameters, which must equal the given ones.
pub(super) fn read_parameters(
    reader: &mut Reader<'_>,
    expected: LatticeKind,
    parameters: &LatticeParameters,
) -> Result<u8, LatticeWireError> {
    let (version, found) = version_and_kind(reader)?;
    if found != expected as u8 {
        return Err(LatticeWireError::Kind { expected, found });
    }
    let wanted = head(expected, parameters);
    if reader.take(wanted.len() - 2)? != &wanted[2..] {
        return Err(LatticeWireError::Parameters { expected: format!("{parameters:?}") });
    }
    Ok(version)
}

/// Rejects an object with the identity of its key. It is for messages whose objects have one length
/// for all keys, and for servers that compute with objects of several senders, so that nobody's
/// identity stops the others.
///
/// # Errors
/// [`LatticeWireError::Identity`].
pub fn without_identity(bytes: &[u8]) -> Result<&[u8], LatticeWireError> {
    if bytes.first() == Some(&VERSION_WITH_KEY) { Err(LatticeWireError::Identity) } else { Ok(bytes) }
}

/// Starts to read an object of one scheme: its key, and the bytes after that.
pub(super) fn open<'a>(
    expected: LatticeKind,
    bytes: &'a [u8],
    parameters: &LatticeParameters,
) -> Result<(Option<KeyId>, Reader<'a>), LatticeWireError> {
    let mut reader = Reader::new(bytes);
    let version = read_parameters(&mut reader, expected, parameters)?;
    check_scheme(expected, parameters)?;
    Ok((read_key_id(&mut reader, version)?, reader))
}

/// Rejects objects of a scheme for parameters of the other.
pub(super) fn check_scheme(expected: LatticeKind, parameters: &LatticeParameters) -> Result<(), LatticeWireError> {
    let of_ckks = matches!(
        expected,
        LatticeKind::CkksEvaluationKeys
            | LatticeKind::CkksCiphertext
            | LatticeKind::CkksSeededCiphertext
            | LatticeKind::RaiseKeys
    );
    let good = of_ckks == (parameters.plaintext() == Plaintext::Approximate);
    if good { Ok(()) } else { Err(LatticeWireError::Malformed("scheme")) }
}

/// Parameters alone.
pub fn encode_parameters(parameters: &LatticeParameters) -> Vec<u8> {
    head(LatticeKind::Parameters, parameters)
}

/// Reads parameters.
///
/// # Errors
/// [`LatticeWireError`] for invalid parameters, or less than 128 bits of security.
pub fn decode_parameters(bytes: &[u8]) -> Result<LatticeParameters, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    let (version, found) = version_and_kind(&mut reader)?;
    if found != LatticeKind::Parameters as u8 {
        return Err(LatticeWireError::Kind { expected: LatticeKind::Parameters, found });
    }
    if version != VERSION {
        return Err(LatticeWireError::Version(version));
    }
    let [log_degree, data, special, digits] = reader.array()?;
    if log_degree > 17 {
        return Err(LatticeWireError::Malformed("degree"));
    }
    let t = u64::from_be_bytes(reader.array()?);
    let plaintext = match t {
        0 => Plaintext::Approximate,
        t => Plaintext::Integers(Modulus::new(t).ok_or(LatticeWireError::Malformed("plaintext modulus"))?),
    };
    reader.expect_rest(PRIME_BYTES * (usize::from(data) + usize::from(special)))?;
    let mut primes = |count: u8| {
        let prime = |_| {
            let mut padded = [0; 8];
            padded[8 - PRIME_BYTES..].copy_from_slice(reader.take(PRIME_BYTES)?);
            Ok(u64::from_be_bytes(padded))
        };
        (0..count).map(prime).collect::<Result<Vec<_>, LengthError>>()
    };
    let (data, special) = (primes(data)?, primes(special)?);
    Ok(LatticeParameters::new(1 << log_degree, &data, &special, digits.into(), plaintext)?)
}
