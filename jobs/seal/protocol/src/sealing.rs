//! The state of writing a sealed file.

use super::chunk::{Chunk, Secret, Task};
use super::header::{Head, Layout};
use super::keys::{HmacSha256, RecordKeys, mac};
use super::record::Trailer;
use super::{Identity, Meta, SealError, SetKey, Stanzas};
use hmac::Mac;
use rand_core::CryptoRng;
use std::sync::Arc;

/// One attempt at one file: hands out chunks, and takes them back sealed, in order.
///
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_seal::*;
///
/// # fn main() -> Result<(), SealError> {
/// let mut rng = ChaCha20Rng::from_seed([1; 32]); // the system's randomness, elsewhere
/// let (set, file) = (SetKey::random(&mut rng), KeyFile::random(&mut rng));
/// let stanzas = Stanzas::new(vec![Stanza::for_key_file(&file, &set, &mut rng)?])?;
///
/// let meta = Meta::new(Kind::File, b"notes.txt", 5);
/// let (mut sealing, mut bytes) = Sealing::begin(&set, &stanzas, Layout::new(Suite::Gcm), &meta, &mut rng)?;
/// let chunk = sealing.chunk(b"hello".to_vec(), true, &mut rng)?;
/// for sealed in process(&[&chunk], &PortableGcm) {
///     let sealed = sealed?;
///     sealing.sealed(&sealed)?;
///     bytes.extend(sealed);
/// }
/// let (end, _identity) = sealing.finish(&mut rng)?;
/// bytes.extend(end);
///
/// // the owner of the key file decrypts it
/// let head = head_bytes(bytes.first_chunk().expect("a header"))?;
/// let (head, rest) = bytes.split_at(head);
/// let mut opening = Opening::begin(&Head::decode(head)?, |stanza| stanza.open_with_key_file(&file))?;
/// assert_eq!(opening.meta().path, b"notes.txt");
/// let Next::Chunk { bytes, last } = opening.next(rest.len(), true)? else { panic!("expected a chunk") };
/// let chunk = opening.chunk(rest[..bytes].to_vec(), last)?;
/// assert_eq!(process(&[&chunk], &PortableGcm).remove(0)?, &b"hello"[..]);
/// opening.finish(&rest[bytes..], 5)?;
/// # Ok(())
/// # }
/// ```
pub struct Sealing {
    layout: Layout,
    secret: Arc<Secret>,
    trailer: RecordKeys,
    context: [u8; 32],
    mac: HmacSha256,
    salt: [u8; 32],
    /// Bytes of content, if the record about the source says how many.
    expected: Option<u64>,
    content_bytes: u64,
    handed_out: u32,
    taken_back: u32,
    ended: bool,
}

impl Sealing {
    /// Begins, and returns the bytes before the first chunk.
    ///
    /// # Errors
    /// [`SealError`] for an invalid record about the source.
    pub fn begin(
        set: &SetKey,
        stanzas: &Stanzas,
        layout: Layout,
        meta: &Meta,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(Self, Vec<u8>), SealError> {
        let (mut salt, mut iv) = ([0; 32], [0; 16]);
        rng.fill_bytes(&mut salt);
        rng.fill_bytes(&mut iv);
        let (head, open) = Head::seal(set, stanzas, layout, salt, iv, meta)?;
        let secret = Secret::new(layout.suite(), &open.keys.content, open.context, layout.chunk_bytes())?;
        let sealing = Self {
            layout,
            secret: Arc::new(secret),
            trailer: open.keys.trailer.clone(),
            context: open.context,
            mac: mac(&open.keys.file)?.chain_update(&open.begin),
            salt,
            expected: meta.content_bytes(),
            content_bytes: 0,
            handed_out: 0,
            taken_back: 0,
            ended: false,
        };
        Ok((sealing, head.encode()))
    }

    /// The next chunk: full, or the last one. An empty source has one empty chunk.
    ///
    /// The chunk gets a number that no other chunk of this attempt has, and owns its bytes.
    ///
    /// # Errors
    /// [`SealError::OutOfTurn`] after the last chunk and for a wrong length; [`SealError::TooMany`]
    /// for too many chunks.
    pub fn chunk(
        &mut self,
        plaintext: Vec<u8>,
        last: bool,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Chunk, SealError> {
        let full = self.layout.chunk_bytes();
        let fits = if last { plaintext.len() <= full } else { plaintext.len() == full };
        let empty = plaintext.is_empty() && self.handed_out > 0;
        if self.ended || !fits || empty {
            return Err(SealError::OutOfTurn("full chunks, and a last one that is not empty"));
        }
        let number = self.handed_out;
        let most = u64::from(u32::MAX);
        self.handed_out = number.checked_add(1).ok_or(SealError::TooMany { what: "chunks", most, found: most + 1 })?;
        self.ended = last;
        self.content_bytes += plaintext.len() as u64;
        let mut iv = [0; 16];
        rng.fill_bytes(&mut iv);
        Ok(Chunk::new(self.secret.clone(), Task::Seal { iv }, number, last, plaintext))
    }

    /// Adds the next sealed chunk to the MAC, in the order of the numbers.
    ///
    /// # Errors
    /// [`SealError::OutOfTurn`] for more chunks than were handed out, or for one that is too short.
    pub fn sealed(&mut self, sealed: &[u8]) -> Result<(), SealError> {
        if self.taken_back == self.handed_out {
            return Err(SealError::OutOfTurn("a chunk that was handed out"));
        }
        absorb(&mut self.mac, self.layout.suite(), self.taken_back, sealed)?;
        self.taken_back += 1;
        Ok(())
    }

    /// The bytes after the last chunk, and the file's identity.
    ///
    /// # Errors
    /// [`SealError::OutOfTurn`] unless all chunks are back and the content has the length in the
    /// record.
    pub fn finish(self, rng: &mut (impl CryptoRng + ?Sized)) -> Result<(Vec<u8>, Identity), SealError> {
        if !self.ended || self.taken_back != self.handed_out {
            return Err(SealError::OutOfTurn("every chunk, the last one too"));
        }
        if self.expected.is_some_and(|expected| expected != self.content_bytes) {
            return Err(SealError::OutOfTurn("as much content as the record about the source says"));
        }
        let mut iv = [0; 16];
        rng.fill_bytes(&mut iv);
        let text = Trailer { chunks: self.handed_out, content_bytes: self.content_bytes }.encode();
        let secret = Secret::new(self.layout.suite(), &self.trailer, self.context, Trailer::BYTES)?;
        let mut end = secret.seal_record(&text, iv)?;
        let mac: [u8; 32] = self.mac.chain_update(&end).finalize().into_bytes().into();
        end.extend_from_slice(&mac);
        Ok((end, Identity { salt: self.salt, mac }))
    }
}

/// Adds a sealed chunk to the MAC over the file: number (4), length (4), and the chunk's tag or MAC
/// instead of its bytes.
pub(super) fn absorb(mac: &mut HmacSha256, suite: super::Suite, number: u32, sealed: &[u8]) -> Result<(), SealError> {
    let at = sealed.len().checked_sub(suite.tag_bytes()).ok_or(SealError::OutOfTurn("a whole sealed chunk"))?;
    mac.update(&number.to_be_bytes());
    mac.update(&(sealed.len() as u32).to_be_bytes());
    mac.update(&sealed[at..]);
    Ok(())
}
