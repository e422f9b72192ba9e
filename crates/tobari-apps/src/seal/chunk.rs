//! A chunk and the two suites.
//!
//! | suite | sealed chunk |
//! |---|---|
//! | 1, AES-256-GCM | ciphertext, tag (16); nonce `prefix (7) ‖ number (4) ‖ last (1)`, associated data: the context |
//! | 2, AES-256-CBC and HMAC-SHA-256 | IV (16), padded ciphertext, `HMAC(k_mac, context ‖ number (4) ‖ last (1) ‖ IV ‖ ciphertext)` (32), which is checked before anything is decrypted |
//!
//! The context is 32 bytes that stand for all that precedes: the digest of the header, and for content that of the sealed record about the source too.

use super::SealError;
use super::keys::{RecordKeys, mac};
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use hmac::Mac;
use std::sync::Arc;
use tobari_core::simd::aes::{AesKey, CbcMessage, decrypt_padded, encrypt_cbc, padded_bytes};
use zeroize::Zeroize;

/// How chunks are encrypted and authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES-256-GCM.
    Gcm = 1,
    /// AES-256-CBC, then HMAC-SHA-256 over it.
    CbcHmac = 2,
}

const TAG_BYTES: usize = 16;
const IV_BYTES: usize = 16;
const MAC_BYTES: usize = 32;

impl Suite {
    pub(super) fn of_number(number: u8) -> Result<Self, SealError> {
        match number {
            1 => Ok(Self::Gcm),
            2 => Ok(Self::CbcHmac),
            _ => Err(SealError::Malformed("suite 1 or 2")),
        }
    }

    /// Bytes of a sealed chunk with so many bytes of content.
    pub const fn sealed_bytes(self, bytes: usize) -> usize {
        match self {
            Self::Gcm => bytes + TAG_BYTES,
            Self::CbcHmac => IV_BYTES + padded_bytes(bytes) + MAC_BYTES,
        }
    }

    /// Bytes at the end of a sealed chunk that stand for it in the MAC over the file.
    pub(super) const fn tag_bytes(self) -> usize {
        match self {
            Self::Gcm => TAG_BYTES,
            Self::CbcHmac => MAC_BYTES,
        }
    }
}

/// AES-256-GCM with nonces of 12 bytes and tags of 16 (NIST SP 800-38D), as whoever calls provides it.
pub trait Gcm {
    /// Encrypts in place; answers the tag.
    fn seal(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8]) -> [u8; 16];
    /// Decrypts in place if the tag is right; if not, what is in `text` then means nothing.
    fn open(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool;
}

/// The `aes-gcm` crate: runs everywhere, and says what the others must give.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortableGcm;

impl Gcm for PortableGcm {
    fn seal(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8]) -> [u8; 16] {
        let cipher = Aes256Gcm::new(&(*key).into());
        match cipher.encrypt_inout_detached(&Nonce::from(*nonce), data, InOutBuf::from(&mut *text)) {
            Ok(tag) => tag.into(),
            // Only beyond 64 GiB, and a chunk has 4 MiB at most: then nothing may leave.
            Err(_) => {
                text.zeroize();
                [0; 16]
            }
        }
    }

    fn open(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
        let cipher = Aes256Gcm::new(&(*key).into());
        cipher.decrypt_inout_detached(&Nonce::from(*nonce), data, InOutBuf::from(text), &Tag::from(*tag)).is_ok()
    }
}

/// What all chunks of one file have in common.
pub(super) struct Secret {
    suite: Suite,
    keys: RecordKeys,
    /// The expanded key of the suite with CBC.
    aes: Option<AesKey>,
    context: [u8; 32],
    /// Bytes of content in every chunk but the last.
    full: usize,
}

impl Secret {
    pub(super) fn new(suite: Suite, keys: &RecordKeys, context: [u8; 32], full: usize) -> Result<Self, SealError> {
        let aes = match suite {
            Suite::Gcm => None,
            Suite::CbcHmac => Some(AesKey::new(&keys.encrypt).map_err(|_| SealError::OutOfTurn("a key of 32 bytes"))?),
        };
        Ok(Self { suite, keys: keys.clone(), aes, context, full })
    }

    fn nonce(&self, number: u32, last: bool) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..7].copy_from_slice(&self.keys.prefix);
        nonce[7..11].copy_from_slice(&number.to_be_bytes());
        nonce[11] = u8::from(last);
        nonce
    }

    fn mac(&self, number: u32, last: bool, body: &[u8]) -> Result<super::keys::HmacSha256, SealError> {
        let place = [number.to_be_bytes().as_slice(), &[u8::from(last)]].concat();
        Ok(mac(&self.keys.mac)?.chain_update(self.context).chain_update(place).chain_update(body))
    }

    /// One record that stands alone, number 0 and last.
    pub(super) fn seal_record(self, text: &[u8], iv: [u8; 16]) -> Result<Vec<u8>, SealError> {
        let chunk = Chunk::new(Arc::new(self), Task::Seal { iv }, 0, true, text.to_vec());
        process(&[&chunk], &PortableGcm).pop().ok_or(SealError::OutOfTurn("a record"))?
    }

    pub(super) fn open_record(self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let chunk = Chunk::new(Arc::new(self), Task::Open, 0, true, sealed.to_vec());
        process(&[&chunk], &PortableGcm).pop().ok_or(SealError::OutOfTurn("a record"))?
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Seal { iv: [u8; 16] },
    Open,
}

/// A chunk that is to be sealed or opened: by any engine, any number of times, with one result.
///
/// It owns its bytes and its number, and nothing changes either: that is what makes doing it twice harmless.
pub struct Chunk {
    secret: Arc<Secret>,
    task: Task,
    number: u32,
    last: bool,
    input: Vec<u8>,
}

impl Chunk {
    pub(super) fn new(secret: Arc<Secret>, task: Task, number: u32, last: bool, input: Vec<u8>) -> Self {
        Self { secret, task, number, last, input }
    }

    /// Bytes that go in.
    pub fn bytes(&self) -> usize {
        self.input.len()
    }

    /// Its number in its file, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The bytes that go in.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Whether it is to be sealed; else it is to be opened.
    pub fn seals(&self) -> bool {
        self.task != Task::Open
    }

    /// What a module needs to do the AES part of sealing: suite, key, nonce or IV, associated data, plaintext. `None` for one that is to be opened.
    pub fn for_module(&self) -> Option<ForModule<'_>> {
        let Task::Seal { iv } = self.task else { return None };
        let secret = &self.secret;
        let (nonce, data): (_, &[u8]) = match secret.suite {
            Suite::Gcm => (secret.nonce(self.number, self.last).to_vec(), &secret.context),
            Suite::CbcHmac => (iv.to_vec(), &[]),
        };
        Some(ForModule { suite: secret.suite, key: &secret.keys.encrypt, nonce, data, text: &self.input })
    }

    /// The sealed chunk from what a module answered: ciphertext and tag for GCM; padded ciphertext for CBC, to which this adds IV and MAC.
    ///
    /// # Errors
    /// [`SealError::Malformed`] for another length. Whether the bytes are right is not looked at: see [`Chunk::check`].
    pub fn from_module(&self, answer: &[u8]) -> Result<Vec<u8>, SealError> {
        let (secret, wrong) = (&self.secret, SealError::Malformed("an answer of the chunk's length"));
        let Task::Seal { iv } = self.task else { return Err(wrong) };
        match secret.suite {
            Suite::Gcm if answer.len() == self.input.len() + TAG_BYTES => Ok(answer.to_vec()),
            Suite::CbcHmac if answer.len() == padded_bytes(self.input.len()) => {
                let mut out = Vec::with_capacity(secret.suite.sealed_bytes(self.input.len()));
                out.extend_from_slice(&iv);
                out.extend_from_slice(answer);
                let mac = secret.mac(self.number, self.last, &out)?.finalize().into_bytes();
                out.extend_from_slice(&mac);
                Ok(out)
            }
            _ => Err(wrong),
        }
    }

    /// Whether `sealed` opens to exactly this chunk's bytes: what a result of somebody else is asked before it is believed.
    pub fn check(&self, sealed: &[u8], gcm: &dyn Gcm) -> bool {
        let back = Chunk::new(self.secret.clone(), Task::Open, self.number, self.last, sealed.to_vec());
        open(&back, gcm).is_ok_and(|text| text == self.input)
    }
}

/// The AES part of sealing a chunk.
pub struct ForModule<'a> {
    /// The suite.
    pub suite: Suite,
    /// The key.
    pub key: &'a [u8; 32],
    /// The nonce of GCM (12 bytes), or the IV of CBC (16).
    pub nonce: Vec<u8>,
    /// The associated data of GCM; empty for CBC.
    pub data: &'a [u8],
    /// The plaintext.
    pub text: &'a [u8],
}

/// Seals or opens every chunk. Those of the suite with CBC are encrypted side by side, so give many at a time.
///
/// The results are in the order of the chunks. Only opening can fail.
pub fn process(chunks: &[&Chunk], gcm: &dyn Gcm) -> Vec<Result<Vec<u8>, SealError>> {
    let mut results: Vec<_> = chunks.iter().map(|chunk| prepare(chunk, gcm)).collect();
    let mut messages = Vec::new();
    for (chunk, result) in chunks.iter().zip(&mut results) {
        let (Task::Seal { iv }, Some(key), Ok(out)) = (&chunk.task, &chunk.secret.aes, result) else { continue };
        let Some(ciphertext) = out.get_mut(IV_BYTES..IV_BYTES + padded_bytes(chunk.input.len())) else { continue };
        messages.extend(CbcMessage::new(key, iv, &chunk.input, ciphertext));
    }
    encrypt_cbc(&mut messages);
    for (chunk, result) in chunks.iter().zip(&mut results) {
        if let (Task::Seal { .. }, Suite::CbcHmac, Ok(out)) = (&chunk.task, chunk.secret.suite, &mut *result) {
            let end = out.len() - MAC_BYTES;
            match chunk.secret.mac(chunk.number, chunk.last, &out[..end]) {
                Ok(mac) => out[end..].copy_from_slice(&mac.finalize().into_bytes()),
                Err(error) => *result = Err(error),
            }
        }
    }
    results
}

/// The result, but for what CBC does of many chunks at once.
fn prepare(chunk: &Chunk, gcm: &dyn Gcm) -> Result<Vec<u8>, SealError> {
    let (secret, Task::Seal { iv }) = (&chunk.secret, &chunk.task) else { return open(chunk, gcm) };
    let mut out = Vec::with_capacity(secret.suite.sealed_bytes(chunk.input.len()));
    match secret.suite {
        Suite::Gcm => {
            out.extend_from_slice(&chunk.input);
            let nonce = secret.nonce(chunk.number, chunk.last);
            let tag = gcm.seal(&secret.keys.encrypt, &nonce, &secret.context, &mut out);
            out.extend_from_slice(&tag);
        }
        Suite::CbcHmac => {
            out.extend_from_slice(iv);
            out.resize(secret.suite.sealed_bytes(chunk.input.len()), 0);
        }
    }
    Ok(out)
}

/// Checks, then decrypts. All chunks but the last must be full, and only the first may be empty.
fn open(chunk: &Chunk, gcm: &dyn Gcm) -> Result<Vec<u8>, SealError> {
    let (secret, wrong) = (&chunk.secret, SealError::NotAuthentic("a chunk"));
    let text = match secret.suite {
        Suite::Gcm => {
            let (text, tag) = chunk.input.split_last_chunk::<TAG_BYTES>().ok_or_else(|| wrong.clone())?;
            let mut text = text.to_vec();
            let nonce = secret.nonce(chunk.number, chunk.last);
            if !gcm.open(&secret.keys.encrypt, &nonce, &secret.context, &mut text, tag) {
                text.zeroize();
                return Err(wrong);
            }
            text
        }
        Suite::CbcHmac => {
            let (body, tag) = chunk.input.split_last_chunk::<MAC_BYTES>().ok_or_else(|| wrong.clone())?;
            let mac = secret.mac(chunk.number, chunk.last, body)?;
            mac.verify_slice(tag).map_err(|_| wrong.clone())?;
            let (iv, ciphertext) = body.split_first_chunk::<IV_BYTES>().ok_or_else(|| wrong.clone())?;
            let mut text = Vec::new();
            let key = secret.aes.as_ref().ok_or_else(|| wrong.clone())?;
            decrypt_padded(key, iv, ciphertext, &mut text).map_err(|_| wrong.clone())?;
            text
        }
    };
    let fits = if chunk.last { text.len() <= secret.full } else { text.len() == secret.full };
    if fits && (chunk.number == 0 || !text.is_empty()) { Ok(text) } else { Err(wrong) }
}
