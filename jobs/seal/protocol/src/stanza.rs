//! The set's key, wrapped by a key file, by a passphrase, or for a recipient of `age`.
//!
//! A key file and a passphrase wrap the set's key with AES-256-GCM and a nonce of zeros. The nonce
//! may be zero because each wrapping key is used once: it is derived with a salt drawn for the
//! stanza. A recipient of `age` gets an `age` file that contains the key. Another crate
//! (`tobari-seal-files`) writes and reads these files.

use super::chunk::{Gcm, PortableGcm};
use super::keys::derive;
use super::{KeyFile, SealError, SetKey};
use argon2::{Algorithm, Argon2, Params, Version};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// Bytes of the wrapped key: the key and a tag.
const WRAPPED_BYTES: usize = 48;
const KEY_FILE: u8 = 1;
const PASSPHRASE: u8 = 2;
const AGE: u8 = 3;
/// The most stanzas of a set.
const MAX_STANZAS: usize = 32;
/// The most bytes of a stanza's body. An `age` file for one recipient has fewer than 500 bytes, or
/// fewer than 2,000 for a post-quantum key.
pub const MAX_WRAPPED_BYTES: usize = 4096;

/// The cost of one guess at a passphrase (Argon2id, RFC 9106).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassphraseCost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u8,
    /// Independent lanes.
    pub lanes: u8,
}

impl PassphraseCost {
    /// The second recommendation of RFC 9106, section 4, with one lane: 64 MiB, 3 passes.
    pub const USUAL: Self = Self { memory_kib: 64 * 1024, passes: 3, lanes: 1 };
}

/// Limits on the cost that a stanza names, checked before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostLimits {
    /// The most memory, in KiB.
    pub memory_kib: u32,
    /// The most passes.
    pub passes: u8,
    /// The most lanes.
    pub lanes: u8,
}

impl CostLimits {
    /// 1 GiB, 10 passes, 16 lanes.
    pub const USUAL: Self = Self { memory_kib: 1 << 20, passes: 10, lanes: 16 };
    /// Less memory gives no protection.
    const LEAST_MEMORY_KIB: u32 = 8 * 1024;

    fn check(&self, cost: PassphraseCost) -> Result<(), SealError> {
        let within = |what, least: u32, most: u32, found: u32| {
            let fits = (least..=most).contains(&found);
            if fits { Ok(()) } else { Err(SealError::Cost { what, least, most, found }) }
        };
        within("KiB of memory", Self::LEAST_MEMORY_KIB, self.memory_kib, cost.memory_kib)?;
        within("passes", 1, self.passes.into(), cost.passes.into())?;
        within("lanes", 1, self.lanes.into(), cost.lanes.into())
    }
}

/// The set's key, wrapped in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    kind: u8,
    body: Vec<u8>,
}

impl Stanza {
    /// Wraps the set's key by a key file.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn for_key_file(file: &KeyFile, set: &SetKey, rng: &mut (impl CryptoRng + ?Sized)) -> Result<Self, SealError> {
        let mut salt = [0; 32];
        rng.fill_bytes(&mut salt);
        let wrapped = wrap(&key_of_file(file, &salt), set);
        Ok(Self { kind: KEY_FILE, body: [&salt[..], &wrapped].concat() })
    }

    /// Wraps the set's key by a passphrase.
    ///
    /// # Errors
    /// [`SealError::Cost`] beyond the usual limits, or [`SealError::Memory`].
    pub fn for_passphrase(
        passphrase: &[u8],
        cost: PassphraseCost,
        set: &SetKey,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Self, SealError> {
        CostLimits::USUAL.check(cost)?;
        let mut salt = [0; 16];
        rng.fill_bytes(&mut salt);
        let key = key_of_passphrase(passphrase, cost, &salt)?;
        let wrapped = wrap(&key, set);
        let body = [&cost.memory_kib.to_be_bytes()[..], &[cost.passes, cost.lanes], &salt, &wrapped].concat();
        Ok(Self { kind: PASSPHRASE, body })
    }

    /// Wraps an `age` file for a recipient; `file` contains [`SetKey::expose_bytes`].
    ///
    /// # Errors
    /// [`SealError::TooMany`] bytes.
    pub fn for_age(file: Vec<u8>) -> Result<Self, SealError> {
        let stanza = Self { kind: AGE, body: file };
        stanza.check_length()?;
        Ok(stanza)
    }

    fn check_length(&self) -> Result<(), SealError> {
        let found = self.body.len();
        let fits = match self.kind {
            KEY_FILE => found == 32 + WRAPPED_BYTES,
            PASSPHRASE => found == 6 + 16 + WRAPPED_BYTES,
            _ => (1..=MAX_WRAPPED_BYTES).contains(&found),
        };
        if fits { Ok(()) } else { Err(SealError::Malformed("a stanza of the length of its kind")) }
    }

    /// The `age` file, if the stanza holds one.
    pub fn age(&self) -> Option<&[u8]> {
        (self.kind == AGE).then_some(&self.body)
    }

    /// Whether a passphrase unwraps this stanza.
    pub fn takes_passphrase(&self) -> bool {
        self.kind == PASSPHRASE
    }

    /// The set's key, if this key file wrapped it.
    pub fn open_with_key_file(&self, file: &KeyFile) -> Option<SetKey> {
        let (salt, wrapped) = self.body.split_first_chunk::<32>().filter(|_| self.kind == KEY_FILE)?;
        unwrap(&key_of_file(file, salt), wrapped.try_into().ok()?)
    }

    /// The set's key, if this passphrase wrapped it.
    ///
    /// # Errors
    /// [`SealError::Cost`] for a stanza beyond the limits, [`SealError::Memory`].
    pub fn open_with_passphrase(&self, passphrase: &[u8], limits: &CostLimits) -> Result<Option<SetKey>, SealError> {
        if self.kind != PASSPHRASE {
            return Ok(None);
        }
        let malformed = || SealError::Malformed("a stanza of a passphrase");
        let ([a, b, c, d, passes, lanes], rest) = self.body.split_first_chunk::<6>().ok_or_else(malformed)?;
        let (salt, wrapped) = rest.split_first_chunk::<16>().ok_or_else(malformed)?;
        let cost = PassphraseCost { memory_kib: u32::from_be_bytes([*a, *b, *c, *d]), passes: *passes, lanes: *lanes };
        limits.check(cost)?;
        let key = key_of_passphrase(passphrase, cost, salt)?;
        Ok(unwrap(&key, wrapped.try_into().map_err(|_| malformed())?))
    }
}

fn key_of_file(file: &KeyFile, salt: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    derive(salt, &file.0, "wrap by key file", &mut *key);
    key
}

fn key_of_passphrase(
    passphrase: &[u8],
    cost: PassphraseCost,
    salt: &[u8; 16],
) -> Result<Zeroizing<[u8; 32]>, SealError> {
    let wrong = |_| SealError::Memory(cost.memory_kib);
    let params = Params::new(cost.memory_kib, cost.passes.into(), cost.lanes.into(), Some(32)).map_err(wrong)?;
    let (mut stretched, mut key) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_into(passphrase, salt, &mut *stretched).map_err(wrong)?;
    derive(salt, &stretched, "wrap by passphrase", &mut *key);
    Ok(key)
}

const WRAPPING: &[u8] = b"tobari-seal/1/wrapped key";

fn wrap(key: &[u8; 32], set: &SetKey) -> [u8; WRAPPED_BYTES] {
    let mut wrapped = [0; WRAPPED_BYTES];
    let (text, place) = wrapped.split_at_mut(32);
    text.copy_from_slice(&set.0);
    place.copy_from_slice(&PortableGcm.seal(key, &[0; 12], WRAPPING, text));
    wrapped
}

fn unwrap(key: &[u8; 32], wrapped: &[u8; WRAPPED_BYTES]) -> Option<SetKey> {
    let (text, tag) = wrapped.split_first_chunk::<32>()?;
    let mut set = SetKey(*text);
    PortableGcm.open(key, &[0; 12], WRAPPING, &mut set.0, tag.try_into().ok()?).then_some(set)
}

/// All stanzas of a set: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanzas(Vec<Stanza>);

impl Stanzas {
    /// A list of stanzas.
    ///
    /// # Errors
    /// [`SealError::TooMany`], or [`SealError::Malformed`] if there are none.
    pub fn new(stanzas: Vec<Stanza>) -> Result<Self, SealError> {
        if stanzas.is_empty() {
            return Err(SealError::Malformed("at least one key or recipient"));
        }
        if stanzas.len() > MAX_STANZAS {
            let (most, found) = (MAX_STANZAS as u64, stanzas.len() as u64);
            return Err(SealError::TooMany { what: "keys and recipients", most, found });
        }
        let stanzas = Self(stanzas);
        match u16::try_from(stanzas.encode().len()) {
            Ok(_) => Ok(stanzas),
            Err(_) => Err(SealError::TooMany {
                what: "bytes of keys and recipients",
                most: u16::MAX.into(),
                found: stanzas.encode().len() as u64,
            }),
        }
    }

    /// Each stanza.
    pub fn iter(&self) -> impl Iterator<Item = &Stanza> {
        self.0.iter()
    }

    /// The fields of each stanza: kind (1), length of the body (2), body.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for stanza in &self.0 {
            out.push(stanza.kind);
            // No body is longer than `MAX_WRAPPED_BYTES`.
            out.extend_from_slice(&(stanza.body.len() as u16).to_be_bytes());
            out.extend_from_slice(&stanza.body);
        }
        out
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, SealError> {
        let malformed = || SealError::Malformed("whole stanzas");
        let mut stanzas = Vec::new();
        while !bytes.is_empty() {
            let ([kind, high, low], rest) = bytes.split_first_chunk::<3>().ok_or_else(malformed)?;
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let (body, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
            let stanza = Stanza { kind: *kind, body: body.to_vec() };
            stanza.check_length()?;
            if *kind == 0 || stanzas.len() == MAX_STANZAS {
                return Err(SealError::Malformed("1 to 32 stanzas of a known kind"));
            }
            stanzas.push(stanza);
            bytes = rest;
        }
        Self::new(stanzas)
    }
}
