//! The state of reading a sealed file.

use super::chunk::{Chunk, Secret, Task};
use super::header::{Head, Layout};
use super::keys::{HmacSha256, RecordKeys, mac};
use super::record::Trailer;
use super::sealing::absorb;
use super::{Identity, Meta, SealError, SetKey, Stanza};
use hmac::Mac;
use std::sync::Arc;

const MAC_BYTES: usize = 32;

/// The next part of a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The caller must read ahead until it has this many bytes, or reaches the end.
    Need(usize),
    /// A chunk.
    Chunk {
        /// Its sealed length in bytes.
        bytes: usize,
        /// Whether it is the last one.
        last: bool,
    },
    /// All remaining bytes are the end of the file, for [`Opening::finish`].
    End,
}

/// A sealed file during its reading: hands out chunks to open, and verifies the end. Opened chunks
/// may be used at once, as a *part* of the file. Only [`Opening::finish`] proves that the file is
/// whole.
pub struct Opening {
    layout: Layout,
    secret: Arc<Secret>,
    trailer: RecordKeys,
    context: [u8; 32],
    mac: HmacSha256,
    salt: [u8; 32],
    meta: Meta,
    chunks: u32,
    ended: bool,
}

impl Opening {
    /// Begins: calls `unwrap` with each stanza until one gives the set's key.
    ///
    /// # Errors
    /// [`SealError::NotAuthentic`] if no stanza gives the key, or the header was altered.
    pub fn begin(head: &Head, unwrap: impl FnMut(&Stanza) -> Option<SetKey>) -> Result<Self, SealError> {
        let set = head.stanzas().iter().find_map(unwrap).ok_or(SealError::NotAuthentic("a key"))?;
        Self::with_key(head, &set)
    }

    /// Begins with the set's key.
    ///
    /// # Errors
    /// [`SealError::NotAuthentic`].
    pub fn with_key(head: &Head, set: &SetKey) -> Result<Self, SealError> {
        let (open, layout) = (head.open(set)?, head.layout());
        let secret = Secret::new(layout.suite(), &open.keys.content, open.context, layout.chunk_bytes())?;
        Ok(Self {
            layout,
            secret: Arc::new(secret),
            trailer: open.keys.trailer.clone(),
            context: open.context,
            mac: mac(&open.keys.file)?.chain_update(&open.begin),
            salt: *head.salt(),
            meta: open.meta.clone(),
            chunks: 0,
            ended: false,
        })
    }

    /// The record about the source.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The suite and the size of the chunks.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes after the last chunk.
    pub fn end_bytes(&self) -> usize {
        self.layout.suite().sealed_bytes(Trailer::BYTES) + MAC_BYTES
    }

    /// The next part of the file. The caller has read `ahead` bytes beyond the last chunk; with
    /// `ended` these are all.
    ///
    /// # Errors
    /// [`SealError::Truncated`] if the file ends too early, [`SealError::Malformed`] if bytes
    /// follow its end.
    pub fn next(&self, ahead: usize, ended: bool) -> Result<Next, SealError> {
        let (full, end) = (self.layout.sealed_bytes(), self.end_bytes());
        if self.ended {
            return match ahead {
                found if found > end => Err(SealError::Malformed("the end of the file after its last chunk")),
                found if found == end && ended => Ok(Next::End),
                _ if ended => Err(SealError::Truncated),
                _ => Ok(Next::Need(end + 1)),
            };
        }
        if ahead > full + end {
            return Ok(Next::Chunk { bytes: full, last: false });
        }
        if !ended {
            return Ok(Next::Need(full + end + 1));
        }
        // The shortest possible last chunk is empty.
        let bytes = ahead.checked_sub(end).filter(|bytes| *bytes >= self.layout.suite().sealed_bytes(0));
        bytes.map(|bytes| Next::Chunk { bytes, last: true }).ok_or(SealError::Truncated)
    }

    /// The next chunk to open.
    ///
    /// # Errors
    /// [`SealError::OutOfTurn`] after the last chunk; [`SealError::Malformed`] for another length
    /// than [`Opening::next`] gave.
    pub fn chunk(&mut self, sealed: Vec<u8>, last: bool) -> Result<Chunk, SealError> {
        if self.ended {
            return Err(SealError::OutOfTurn("no chunk after the last one"));
        }
        let full = self.layout.sealed_bytes();
        if sealed.len() > full || !last && sealed.len() != full {
            return Err(SealError::Malformed("a chunk of its length"));
        }
        absorb(&mut self.mac, self.layout.suite(), self.chunks, &sealed)?;
        let number = self.chunks;
        self.chunks = number.checked_add(1).ok_or(SealError::Malformed("fewer than 2^32 chunks"))?;
        self.ended = last;
        Ok(Chunk::new(self.secret.clone(), Task::Open, number, last, sealed))
    }

    /// Verifies the end, after `content_bytes` bytes were opened in all.
    ///
    /// # Errors
    /// [`SealError`] unless this is the end of this file and the content is whole.
    pub fn finish(self, end: &[u8], content_bytes: u64) -> Result<Identity, SealError> {
        if !self.ended {
            return Err(SealError::Truncated);
        }
        let (record, tag) = end.split_last_chunk::<MAC_BYTES>().ok_or(SealError::Truncated)?;
        let wrong = || SealError::NotAuthentic("the end of the file");
        self.mac.chain_update(record).verify_slice(tag).map_err(|_| wrong())?;
        let secret = Secret::new(self.layout.suite(), &self.trailer, self.context, Trailer::BYTES)?;
        let trailer = Trailer::decode(&secret.open_record(record).map_err(|_| wrong())?)?;
        let expected = self.meta.content_bytes().unwrap_or(content_bytes);
        if trailer != (Trailer { chunks: self.chunks, content_bytes }) || content_bytes != expected {
            return Err(wrong());
        }
        Ok(Identity { salt: self.salt, mac: *tag })
    }
}
