//! A chunk and the two suites.
//!
//! | suite | sealed chunk |
//! |---|---|
//! | 1, AES-256-GCM | ciphertext, tag (16); nonce `prefix 7 ‖ number 4 ‖ last 1`; data: context |
//! | 2, AES-256-CBC and HMAC-SHA-256 | IV (16), padded ciphertext, MAC (32) |
//!
//! The MAC of suite 2 is `HMAC(k_mac, context ‖ number (4) ‖ last (1) ‖ IV ‖ ciphertext)`. It is
//! checked before anything is decrypted.
//!
//! The context is a digest of 32 bytes: of the header and, for content, of the sealed record about
//! the source too.
//!
//! A third mode is CBC alone ([`BareCbc`]). No file uses it, as it does not detect altered
//! messages. It exists for comparisons with programs that encrypt so.

use super::SealError;
use super::keys::{RecordKeys, mac};
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use bytes::Bytes;
use hmac::Mac;
use rand_core::CryptoRng;
use std::ops::Range;
use std::sync::Arc;
use tobari_aes::{AesKey, CbcMessage, encrypt_cbc_in_lanes, padded_bytes, strip_padding};
use zeroize::{Zeroize, Zeroizing};

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

    /// Bytes of a sealed chunk with `bytes` bytes of content.
    pub const fn sealed_bytes(self, bytes: usize) -> usize {
        match self {
            Self::Gcm => bytes + TAG_BYTES,
            Self::CbcHmac => IV_BYTES + padded_bytes(bytes) + MAC_BYTES,
        }
    }

    /// Bytes of a sealed chunk's tag, at its end. In the MAC over the file it stands for the chunk.
    pub(super) const fn tag_bytes(self) -> usize {
        match self {
            Self::Gcm => TAG_BYTES,
            Self::CbcHmac => MAC_BYTES,
        }
    }
}

/// AES-256-GCM with nonces of 12 bytes and tags of 16 (NIST SP 800-38D), provided by the caller.
pub trait Gcm {
    /// Encrypts in place and returns the tag.
    fn seal(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8]) -> [u8; 16];
    /// Decrypts in place if the tag is right; if not, `text` holds meaningless bytes.
    fn open(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool;
}

/// The `aes-gcm` crate: runs everywhere, and is the reference for other implementations.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortableGcm;

impl Gcm for PortableGcm {
    fn seal(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8]) -> [u8; 16] {
        let cipher = Aes256Gcm::new(&(*key).into());
        match cipher.encrypt_inout_detached(&Nonce::from(*nonce), data, InOutBuf::from(&mut *text)) {
            Ok(tag) => tag.into(),
            // Only beyond 64 GiB, and a chunk has at most 4 MiB. No plaintext may leave then.
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

/// The keys and parameters that all chunks of one file share.
pub(super) struct Secret {
    suite: Suite,
    keys: RecordKeys,
    /// The expanded key of the suite with CBC.
    aes: Option<AesKey>,
    context: [u8; 32],
    /// Bytes of content in every chunk but the last.
    full: usize,
    /// Bytes of the key in use.
    key_bytes: usize,
}

impl Secret {
    pub(super) fn new(suite: Suite, keys: &RecordKeys, context: [u8; 32], full: usize) -> Result<Self, SealError> {
        let aes = match suite {
            Suite::Gcm => None,
            Suite::CbcHmac => Some(AesKey::new(&keys.encrypt).map_err(|_| SealError::OutOfTurn("a key of 32 bytes"))?),
        };
        Ok(Self { suite, keys: keys.clone(), aes, context, full, key_bytes: 32 })
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

    /// Seals a record that stands alone, as chunk 0 and the last one.
    pub(super) fn seal_record(self, text: &[u8], iv: [u8; 16]) -> Result<Vec<u8>, SealError> {
        let chunk = Chunk::new(Arc::new(self), Task::Seal { iv }, 0, true, text.to_vec());
        process(&[&chunk], &PortableGcm).pop().ok_or(SealError::OutOfTurn("a record"))?.map(Vec::from)
    }

    pub(super) fn open_record(self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let chunk = Chunk::new(Arc::new(self), Task::Open, 0, true, sealed.to_vec());
        process(&[&chunk], &PortableGcm).pop().ok_or(SealError::OutOfTurn("a record"))?.map(Vec::from)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Seal {
        iv: [u8; 16],
    },
    Open,
    /// CBC alone, in either direction.
    Bare {
        iv: [u8; 16],
        encrypts: bool,
    },
}

/// A chunk to seal or to open: by any engine, any number of times, with one result.
///
/// A chunk owns its bytes and its number, and neither ever changes. So sealing it twice is
/// harmless.
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

    /// The length of the input in bytes.
    pub fn bytes(&self) -> usize {
        self.input.len()
    }

    /// Its number in its file, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The input.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Whether a module can do the AES part: always, except for a sealed chunk to open.
    pub fn is_for_modules(&self) -> bool {
        self.task != Task::Open
    }

    /// The input of a module for the AES part. `None` for a sealed chunk to open: most of that work
    /// is the check of the tag or MAC.
    pub fn for_module(&self) -> Option<ForModule<'_>> {
        let (secret, text) = (&self.secret, self.input.as_slice());
        let mut nonce = [0; 16];
        let (operation, nonce_bytes) = match (self.task, secret.suite) {
            (Task::Open, _) => return None,
            (Task::Seal { .. }, Suite::Gcm) => {
                nonce[..12].copy_from_slice(&secret.nonce(self.number, self.last));
                (Operation::Gcm, 12)
            }
            (Task::Seal { iv }, Suite::CbcHmac) | (Task::Bare { iv, encrypts: true }, _) => {
                nonce = iv;
                (Operation::CbcEncrypt, 16)
            }
            (Task::Bare { iv, encrypts: false }, _) => {
                nonce = iv;
                (Operation::CbcDecrypt, 16)
            }
        };
        let data: &[u8] = if operation == Operation::Gcm { &secret.context } else { &[] };
        Some(ForModule { operation, key: &secret.keys.encrypt[..secret.key_bytes], nonce, nonce_bytes, data, text })
    }

    /// The most bytes of the result. Decryption removes the padding, and opening the tag.
    fn result_bytes(&self) -> usize {
        match (self.task, self.secret.suite) {
            (Task::Open, _) | (Task::Bare { encrypts: false, .. }, _) => self.input.len(),
            (Task::Seal { .. }, suite) => suite.sealed_bytes(self.input.len()),
            (Task::Bare { encrypts: true, .. }, _) => padded_bytes(self.input.len()),
        }
    }

    /// The place of the AES part in a result of [`Chunk::result_bytes`].
    fn answer(&self) -> Range<usize> {
        match (self.task, self.secret.suite) {
            (Task::Seal { .. }, Suite::CbcHmac) => IV_BYTES..self.result_bytes() - MAC_BYTES,
            _ => 0..self.result_bytes(),
        }
    }

    /// Adds the bytes around the AES part, which must be there. Returns the length of the result.
    fn complete(&self, room: &mut [u8]) -> Result<usize, SealError> {
        match (self.task, self.secret.suite) {
            (Task::Seal { iv }, Suite::CbcHmac) => {
                let wrong = SealError::Malformed("an answer of the chunk's length");
                let (body, end) = room.split_last_chunk_mut::<MAC_BYTES>().ok_or_else(|| wrong.clone())?;
                body.first_chunk_mut::<IV_BYTES>().ok_or(wrong)?.copy_from_slice(&iv);
                end.copy_from_slice(&self.secret.mac(self.number, self.last, body)?.finalize().into_bytes());
            }
            (Task::Bare { encrypts: false, .. }, _) => {
                return strip_padding(room).map(<[u8]>::len).map_err(|_| SealError::Malformed("padding"));
            }
            _ => {}
        }
        Ok(room.len())
    }

    /// Whether a result belongs to this chunk: the check of every result from a module. A sealed
    /// result is decrypted and compared with the input.
    pub fn check(&self, result: &[u8], gcm: &dyn Gcm) -> bool {
        let (task, input) = match self.task {
            Task::Seal { .. } | Task::Open => (Task::Open, result),
            Task::Bare { iv, encrypts: true } => (Task::Bare { iv, encrypts: false }, result),
            Task::Bare { .. } => return self.opens_to(result, gcm),
        };
        let back = Chunk::new(self.secret.clone(), task, self.number, self.last, input.to_vec());
        back.opens_to(&self.input, gcm)
    }

    fn opens_to(&self, expected: &[u8], gcm: &dyn Gcm) -> bool {
        let mut text = Zeroizing::new(Vec::with_capacity(self.input.len()));
        open(self, gcm, &mut text).is_ok_and(|()| *text == expected)
    }
}

/// An operation of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// AES-256-GCM: ciphertext, then the tag.
    Gcm = 1,
    /// AES-CBC encryption of the plaintext, padded by PKCS#7.
    CbcEncrypt = 2,
    /// AES-CBC decryption; the padding stays.
    CbcDecrypt = 3,
}

impl Operation {
    /// The operation of a number.
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Gcm),
            2 => Some(Self::CbcEncrypt),
            3 => Some(Self::CbcDecrypt),
            _ => None,
        }
    }

    /// Bytes of the answer to a text of `text` bytes.
    pub const fn answer_bytes(self, text: usize) -> usize {
        match self {
            Self::Gcm => text + TAG_BYTES,
            Self::CbcEncrypt => padded_bytes(text),
            Self::CbcDecrypt => text,
        }
    }
}

/// The AES part of a chunk.
pub struct ForModule<'a> {
    /// The operation.
    pub operation: Operation,
    /// The key: 16, 24 or 32 bytes.
    pub key: &'a [u8],
    nonce: [u8; 16],
    nonce_bytes: usize,
    /// The associated data of GCM; empty for CBC.
    pub data: &'a [u8],
    /// The input.
    pub text: &'a [u8],
}

impl ForModule<'_> {
    /// The nonce of GCM (12 bytes), or the IV of CBC (16).
    pub fn nonce(&self) -> &[u8] {
        &self.nonce[..self.nonce_bytes]
    }

    /// Bytes of the answer.
    pub fn answer_bytes(&self) -> usize {
        self.operation.answer_bytes(self.text.len())
    }
}

/// Room for the results of some chunks, one after another. A module fills a part of each.
pub struct Rooms {
    buffer: Vec<u8>,
    rooms: Vec<(Range<usize>, Range<usize>)>,
    /// Whether the answers fill the rooms completely.
    dense: bool,
}

impl Rooms {
    /// Room for the results of `chunks`; `None` if one of them is a sealed chunk to open.
    pub fn new(chunks: &[&Chunk]) -> Option<Self> {
        let all = chunks.iter().all(|chunk| chunk.is_for_modules());
        all.then(|| Self::of(chunks.iter().map(|chunk| (chunk.result_bytes(), chunk.answer()))))
    }

    /// Room for answers of these lengths, with no bytes around them.
    pub fn for_answers(bytes: impl Iterator<Item = usize>) -> Self {
        Self::of(bytes.map(|bytes| (bytes, 0..bytes)))
    }

    fn of(results: impl Iterator<Item = (usize, Range<usize>)>) -> Self {
        let (mut at, mut dense) = (0, true);
        let place = |(bytes, answer): (usize, Range<usize>)| {
            dense &= answer == (0..bytes);
            let room = at..at + bytes;
            at = room.end;
            (room.clone(), room.start + answer.start..room.start + answer.end)
        };
        let rooms = results.map(place).collect();
        Self { buffer: vec![0; at], rooms, dense }
    }

    /// The number of rooms.
    pub fn count(&self) -> usize {
        self.rooms.len()
    }

    /// The place of each answer, for a module to fill.
    pub fn answers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (mut rest, mut at) = (self.buffer.as_mut_slice(), 0);
        self.rooms.iter().map(move |(_, answer)| {
            let (_, after) = std::mem::take(&mut rest).split_at_mut(answer.start - at);
            let (mine, after) = after.split_at_mut(answer.end - answer.start);
            (rest, at) = (after, answer.end);
            mine
        })
    }

    /// All answers one after another, if no bytes are around them. A module fills them at once and
    /// must not change the length.
    pub fn all_answers(&mut self) -> Option<&mut Vec<u8>> {
        self.dense.then_some(&mut self.buffer)
    }

    /// The bytes of each answer.
    pub fn into_answers(self) -> Vec<Bytes> {
        let whole = Bytes::from(self.buffer);
        self.rooms.into_iter().map(|(_, answer)| whole.slice(answer)).collect()
    }

    /// The results of the chunks for which the rooms were made, after a module has answered. For
    /// GCM: the ciphertext and the tag, unchanged. For CBC: the padded ciphertext, to which this
    /// function adds IV and MAC. For bare CBC: the ciphertext, or the plaintext without its
    /// padding. This function does not check the module's bytes: see [`Chunk::check`].
    ///
    /// # Errors
    /// [`SealError::Malformed`] for other chunks, answers of another length, or invalid padding.
    pub fn complete(mut self, chunks: &[&Chunk]) -> Result<Vec<Bytes>, SealError> {
        let wrong = SealError::Malformed("an answer of the chunk's length");
        if chunks.len() != self.rooms.len() {
            return Err(wrong);
        }
        let mut results = Vec::with_capacity(chunks.len());
        for (chunk, (room, _)) in chunks.iter().zip(&self.rooms) {
            let found = self.buffer.get_mut(room.clone()).filter(|found| found.len() == chunk.result_bytes());
            let bytes = chunk.complete(found.ok_or_else(|| wrong.clone())?)?;
            results.push(room.start..room.start + bytes);
        }
        let whole = Bytes::from(self.buffer);
        Ok(results.into_iter().map(|result| whole.slice(result)).collect())
    }
}

/// AES-CBC without a MAC, under one key: **for comparisons only**. Each message has a random IV.
#[derive(Clone)]
pub struct BareCbc(Arc<Secret>);

impl BareCbc {
    /// AES-128, 192 or 256, by the key's length.
    ///
    /// # Errors
    /// [`SealError::Malformed`] for another length.
    pub fn new(key: &[u8]) -> Result<Self, SealError> {
        let wrong = |_| SealError::Malformed("a key of 16, 24 or 32 bytes");
        let aes = AesKey::new(key).map_err(wrong)?;
        let mut keys = RecordKeys { encrypt: [0; 32], mac: [0; 32], prefix: [0; 7] };
        keys.encrypt[..key.len()].copy_from_slice(key);
        let (suite, context, full, key_bytes) = (Suite::CbcHmac, [0; 32], usize::MAX, key.len());
        Ok(Self(Arc::new(Secret { suite, keys, aes: Some(aes), context, full, key_bytes })))
    }

    /// A message to encrypt. Its result is the ciphertext, without the IV.
    pub fn encrypt(&self, plaintext: Vec<u8>, rng: &mut (impl CryptoRng + ?Sized)) -> Chunk {
        let mut iv = [0; 16];
        rng.fill_bytes(&mut iv);
        Chunk::new(self.0.clone(), Task::Bare { iv, encrypts: true }, 0, true, plaintext)
    }

    /// A message to decrypt.
    pub fn decrypt(&self, iv: [u8; 16], ciphertext: Vec<u8>) -> Chunk {
        Chunk::new(self.0.clone(), Task::Bare { iv, encrypts: false }, 0, true, ciphertext)
    }
}

/// Seals or opens every chunk. Chunks of the suite with CBC are encrypted side by side, so pass
/// many at a time.
///
/// The results are in the order of the chunks, parts of one buffer. Only opening can fail.
pub fn process(chunks: &[&Chunk], gcm: &dyn Gcm) -> Vec<Result<Bytes, SealError>> {
    process_in_lanes(chunks, gcm, None)
}

/// The same with `lanes` chains of CBC side by side, 1 to 32: for comparisons with engines that
/// encrypt one chain after another.
pub fn process_in_lanes(chunks: &[&Chunk], gcm: &dyn Gcm, lanes: Option<usize>) -> Vec<Result<Bytes, SealError>> {
    // Allocated at once: a buffer that grows leaves copies of the plaintext behind.
    let mut out = Vec::with_capacity(chunks.iter().map(|chunk| chunk.result_bytes()).sum());
    let mut places: Vec<_> = chunks.iter().map(|chunk| prepare(chunk, gcm, &mut out)).collect();
    let (mut messages, mut longest) = (Vec::with_capacity(chunks.len()), 0);
    let (mut rest, mut at) = (out.as_mut_slice(), 0);
    for (chunk, place) in chunks.iter().zip(&places) {
        let (Some(key), Ok(place)) = (&chunk.secret.aes, place) else { continue };
        let (Task::Seal { iv } | Task::Bare { iv, encrypts: true }) = &chunk.task else { continue };
        let answer = chunk.answer();
        let (_, after) = std::mem::take(&mut rest).split_at_mut(place.start + answer.start - at);
        let (ciphertext, after) = after.split_at_mut(answer.len());
        (rest, at) = (after, place.start + answer.end);
        longest = longest.max(chunk.input.len());
        messages.extend(CbcMessage::new(key, iv, &chunk.input, ciphertext));
    }
    encrypt_cbc_in_lanes(&mut messages, |kernels| lanes.unwrap_or_else(|| kernels.lanes(longest)));
    drop(messages);
    for (chunk, place) in chunks.iter().zip(&mut places) {
        if let (Task::Seal { .. }, Suite::CbcHmac, Ok(room)) = (&chunk.task, chunk.secret.suite, &*place)
            && let Err(error) = chunk.complete(&mut out[room.clone()])
        {
            *place = Err(error);
        }
    }
    let whole = Bytes::from(out);
    places.into_iter().map(|place| place.map(|place| whole.slice(place))).collect()
}

/// Adds the result to `out`. For CBC encryption it adds only the room, as that runs for many chunks
/// at once. For a chunk that fails it adds nothing.
fn prepare(chunk: &Chunk, gcm: &dyn Gcm, out: &mut Vec<u8>) -> Result<Range<usize>, SealError> {
    let (secret, start) = (&chunk.secret, out.len());
    match (&chunk.task, secret.suite) {
        (Task::Open, _) | (Task::Bare { encrypts: false, .. }, _) => {
            if let Err(error) = open(chunk, gcm, out) {
                out[start..].zeroize();
                out.truncate(start);
                return Err(error);
            }
        }
        (Task::Seal { .. }, Suite::Gcm) => {
            out.extend_from_slice(&chunk.input);
            let nonce = secret.nonce(chunk.number, chunk.last);
            let tag = gcm.seal(&secret.keys.encrypt, &nonce, &secret.context, &mut out[start..]);
            out.extend_from_slice(&tag);
        }
        (Task::Seal { .. }, Suite::CbcHmac) | (Task::Bare { .. }, _) => out.resize(start + chunk.result_bytes(), 0),
    }
    Ok(start..out.len())
}

/// Checks, then decrypts to the end of `out`. After a failure `out` may end with any bytes. All
/// chunks except the last must be full, and only the first may be empty.
fn open(chunk: &Chunk, gcm: &dyn Gcm, out: &mut Vec<u8>) -> Result<(), SealError> {
    let (secret, wrong, start) = (&chunk.secret, SealError::NotAuthentic("a chunk"), out.len());
    let padded = |iv, ciphertext: &[u8], out: &mut Vec<u8>| {
        let key = secret.aes.as_ref().ok_or_else(|| wrong.clone())?;
        out.resize(start + ciphertext.len(), 0);
        key.decrypt_cbc(iv, ciphertext, &mut out[start..]).map_err(|_| wrong.clone())?;
        let bytes = strip_padding(&out[start..]).map_err(|_| wrong.clone())?.len();
        out.truncate(start + bytes);
        Ok(())
    };
    if let Task::Bare { iv, .. } = &chunk.task {
        return padded(iv, &chunk.input, out);
    }
    match secret.suite {
        Suite::Gcm => {
            let (text, tag) = chunk.input.split_last_chunk::<TAG_BYTES>().ok_or_else(|| wrong.clone())?;
            out.extend_from_slice(text);
            let nonce = secret.nonce(chunk.number, chunk.last);
            if !gcm.open(&secret.keys.encrypt, &nonce, &secret.context, &mut out[start..], tag) {
                return Err(wrong);
            }
        }
        Suite::CbcHmac => {
            let (body, tag) = chunk.input.split_last_chunk::<MAC_BYTES>().ok_or_else(|| wrong.clone())?;
            let mac = secret.mac(chunk.number, chunk.last, body)?;
            mac.verify_slice(tag).map_err(|_| wrong.clone())?;
            let (iv, ciphertext) = body.split_first_chunk::<IV_BYTES>().ok_or_else(|| wrong.clone())?;
            padded(iv, ciphertext, out)?;
        }
    }
    let bytes = out.len() - start;
    let fits = if chunk.last { bytes <= secret.full } else { bytes == secret.full };
    if fits && (chunk.number == 0 || bytes > 0) { Ok(()) } else { Err(wrong) }
}
