//! Keys of a set and of a file.

use super::SealError;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use rand_core::CryptoRng;
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

pub(super) type HmacSha256 = Hmac<Sha256>;

/// The prefix of every derivation's name.
const DOMAIN: &[u8] = b"tobari-seal/1/";

/// `HKDF-Expand(HKDF-Extract(salt, secret), "tobari-seal/1/" ‖ name)`.
pub(super) fn derive(salt: &[u8], secret: &[u8; 32], name: &str, key: &mut [u8]) {
    // No caller derives more than 64 bytes; HKDF-SHA256 gives up to 8,160.
    let _ = Hkdf::<Sha256>::new(Some(salt), secret).expand_multi_info(&[DOMAIN, name.as_bytes()], key);
}

/// A MAC under a key of 32 bytes.
pub(super) fn mac(key: &[u8; 32]) -> Result<HmacSha256, SealError> {
    // HMAC takes keys of any length.
    HmacSha256::new_from_slice(key).map_err(|_| SealError::OutOfTurn("a key for a MAC"))
}

/// The key of a set of files: 32 random bytes, used only to derive other keys. Wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SetKey(pub(super) [u8; 32]);

impl SetKey {
    /// A new random key.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut key = Self([0; 32]);
        rng.fill_bytes(&mut key.0);
        key
    }

    /// A key from the content of an `age` file.
    ///
    /// # Errors
    /// [`SealError::Malformed`] unless it is 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealError> {
        bytes.try_into().map(Self).map_err(|_| SealError::Malformed("a key of 32 bytes"))
    }

    /// The bytes. Use them only to wrap the key.
    pub fn expose_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The path of a source's sealed file below the set's folder: 32 hexadecimal digits of a MAC
    /// over the source's path. The first two digits name a folder.
    pub fn output_name(&self, path: &[u8]) -> Result<String, SealError> {
        use std::fmt::Write;
        let mut key = [0; 32];
        derive(b"names", &self.0, "output names", &mut key);
        let tag = mac(&key).map(|mac| mac.chain_update(path).finalize().into_bytes());
        key.zeroize();
        let mut name = String::with_capacity(38);
        for (at, byte) in tag?.iter().take(16).enumerate() {
            // Writing to a string does not fail.
            let _ = write!(name, "{byte:02x}{}", if at == 0 { "/" } else { "" });
        }
        name.push_str(".seal");
        Ok(name)
    }
}

/// The content of a key file: exactly 32 bytes. Wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct KeyFile(pub(super) [u8; 32]);

impl KeyFile {
    /// A new random key.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut key = Self([0; 32]);
        rng.fill_bytes(&mut key.0);
        key
    }

    /// A key from a file's content.
    ///
    /// # Errors
    /// [`SealError::Malformed`] unless it is 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealError> {
        bytes.try_into().map(Self).map_err(|_| SealError::Malformed("a key file of exactly 32 bytes"))
    }

    /// The file's content.
    pub fn expose_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The keys of one attempt at one file.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct FileKeys {
    /// The key of the MAC over the header.
    pub(super) head: [u8; 32],
    /// The key of the MAC over the whole file.
    pub(super) file: [u8; 32],
    pub(super) meta: RecordKeys,
    pub(super) content: RecordKeys,
    pub(super) trailer: RecordKeys,
}

/// The keys for one kind of record.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct RecordKeys {
    pub(super) encrypt: [u8; 32],
    /// For the suite with CBC.
    pub(super) mac: [u8; 32],
    /// For the suite with GCM: the first seven bytes of every nonce.
    pub(super) prefix: [u8; 7],
}

impl FileKeys {
    pub(super) fn derive(set: &SetKey, salt: &[u8; 32]) -> Self {
        let key = |name: &str| {
            let mut key = [0; 32];
            derive(salt, &set.0, name, &mut key);
            key
        };
        let record = |name: &str| {
            let mut prefix = [0; 7];
            derive(salt, &set.0, &format!("{name} nonce"), &mut prefix);
            RecordKeys { encrypt: key(&format!("{name} encrypt")), mac: key(&format!("{name} mac")), prefix }
        };
        Self {
            head: key("header"),
            file: key("file"),
            meta: record("meta"),
            content: record("content"),
            trailer: record("trailer"),
        }
    }
}
