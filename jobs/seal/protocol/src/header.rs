//! The bytes before the first chunk.
//!
//! ```text
//! "tobari-seal" | version 1 | suite 1 | log2 of a chunk's bytes 1 | salt 32
//! | length of the sealed record about the source 4 | length of stanzas 2 | stanzas
//! | HMAC-SHA-256(k_header, all bytes before) 32 | sealed record
//! ```

use super::chunk::{Secret, Suite};
use super::keys::{FileKeys, mac};
use super::{Meta, SealError, SetKey, Stanzas};
use hmac::Mac;
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 11] = b"tobari-seal";
const VERSION: u8 = 1;
/// Bytes before the stanzas. [`head_bytes`] computes the length of the whole head from them.
pub const FIXED_BYTES: usize = 11 + 3 + 32 + 4 + 2;
const MAC_BYTES: usize = 32;
/// The most bytes of a sealed record about a source.
const MAX_META_BYTES: usize = 2 << 20;

/// The suite and the size of the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    suite: Suite,
    chunk_log2: u8,
}

impl Layout {
    /// A layout with chunks of 64 KiB.
    pub const fn new(suite: Suite) -> Self {
        Self { suite, chunk_log2: 16 }
    }

    /// A layout with chunks of `2^chunk_log2` bytes.
    ///
    /// # Errors
    /// [`SealError::Malformed`] unless a chunk has 4 KiB to 4 MiB.
    pub fn with_chunks(suite: Suite, chunk_log2: u8) -> Result<Self, SealError> {
        let fits = (12..=22).contains(&chunk_log2);
        if fits { Ok(Self { suite, chunk_log2 }) } else { Err(SealError::Malformed("chunks of 2^12 to 2^22 bytes")) }
    }

    /// The suite.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Bytes of content in every chunk but the last.
    pub const fn chunk_bytes(&self) -> usize {
        1 << self.chunk_log2
    }

    /// Bytes of a full sealed chunk.
    pub const fn sealed_bytes(&self) -> usize {
        self.suite.sealed_bytes(self.chunk_bytes())
    }
}

/// The first fields.
struct Fixed {
    layout: Layout,
    salt: [u8; 32],
    meta_bytes: usize,
    stanza_bytes: usize,
}

impl Fixed {
    fn encode(&self) -> [u8; FIXED_BYTES] {
        let mut out = [0; FIXED_BYTES];
        out[..11].copy_from_slice(MAGIC);
        out[11..14].copy_from_slice(&[VERSION, self.layout.suite as u8, self.layout.chunk_log2]);
        out[14..46].copy_from_slice(&self.salt);
        out[46..50].copy_from_slice(&(self.meta_bytes as u32).to_be_bytes());
        out[50..].copy_from_slice(&(self.stanza_bytes as u16).to_be_bytes());
        out
    }

    fn decode(bytes: &[u8; FIXED_BYTES]) -> Result<Self, SealError> {
        let malformed = || SealError::Malformed("a header");
        let (magic, rest) = bytes.split_first_chunk::<11>().ok_or_else(malformed)?;
        let ([version, suite, chunk_log2], rest) = rest.split_first_chunk::<3>().ok_or_else(malformed)?;
        let (salt, rest) = rest.split_first_chunk::<32>().ok_or_else(malformed)?;
        let (meta, rest) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
        let stanzas = rest.first_chunk::<2>().ok_or_else(malformed)?;
        if magic != MAGIC {
            return Err(SealError::Malformed("\"tobari-seal\" at the start"));
        }
        if *version != VERSION {
            return Err(SealError::Version(*version));
        }
        let layout = Layout::with_chunks(Suite::of_number(*suite)?, *chunk_log2)?;
        let meta_bytes = u32::from_be_bytes(*meta) as usize;
        if meta_bytes > MAX_META_BYTES {
            let (most, found) = (MAX_META_BYTES as u64, meta_bytes as u64);
            return Err(SealError::TooMany { what: "bytes about the source", most, found });
        }
        let stanza_bytes = usize::from(u16::from_be_bytes(*stanzas));
        Ok(Self { layout, salt: *salt, meta_bytes, stanza_bytes })
    }
}

/// The number of bytes before the first chunk, computed from the start of the file.
///
/// # Errors
/// [`SealError`] for bytes that are not the start of a sealed file.
pub fn head_bytes(start: &[u8; FIXED_BYTES]) -> Result<usize, SealError> {
    let fixed = Fixed::decode(start)?;
    Ok(FIXED_BYTES + fixed.stanza_bytes + MAC_BYTES + fixed.meta_bytes)
}

/// Everything before the first chunk, not verified yet.
pub struct Head {
    fixed: Fixed,
    stanzas: Stanzas,
    /// From the start to the MAC, without it.
    header: Vec<u8>,
    mac: [u8; MAC_BYTES],
    meta: Vec<u8>,
}

/// A head after its verification and decryption.
pub(super) struct OpenHead {
    pub(super) keys: FileKeys,
    pub(super) meta: Meta,
    pub(super) context: [u8; 32],
    /// The digest of the header, and the sealed record: the first input of the MAC over the file.
    pub(super) begin: Vec<u8>,
}

impl Head {
    /// Parses the head. Nothing is verified or decrypted yet.
    ///
    /// # Errors
    /// [`SealError`] unless the bytes are exactly one head.
    pub fn decode(bytes: &[u8]) -> Result<Self, SealError> {
        let start = bytes.first_chunk::<FIXED_BYTES>().ok_or(SealError::Truncated)?;
        let fixed = Fixed::decode(start)?;
        let header_bytes = FIXED_BYTES + fixed.stanza_bytes;
        let (header, rest) = bytes.split_at_checked(header_bytes).ok_or(SealError::Truncated)?;
        let (mac, meta) = rest.split_first_chunk::<MAC_BYTES>().ok_or(SealError::Truncated)?;
        if meta.len() != fixed.meta_bytes {
            return Err(SealError::Malformed("a record of the length that the header says"));
        }
        let stanzas = Stanzas::decode(&header[FIXED_BYTES..])?;
        Ok(Self { fixed, stanzas, header: header.to_vec(), mac: *mac, meta: meta.to_vec() })
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        [&self.header[..], &self.mac, &self.meta].concat()
    }

    /// The stanzas, which wrap the set's key.
    pub fn stanzas(&self) -> &Stanzas {
        &self.stanzas
    }

    /// The suite and the size of the chunks.
    pub fn layout(&self) -> Layout {
        self.fixed.layout
    }

    /// The salt of this attempt.
    pub fn salt(&self) -> &[u8; 32] {
        &self.fixed.salt
    }

    /// Seals a head.
    pub(super) fn seal(
        set: &SetKey,
        stanzas: &Stanzas,
        layout: Layout,
        salt: [u8; 32],
        iv: [u8; 16],
        meta: &Meta,
    ) -> Result<(Self, OpenHead), SealError> {
        let (keys, text, stanza_bytes) = (FileKeys::derive(set, &salt), meta.encode()?, stanzas.encode());
        let meta_bytes = layout.suite.sealed_bytes(text.len());
        if meta_bytes > MAX_META_BYTES {
            let (most, found) = (MAX_META_BYTES as u64, meta_bytes as u64);
            return Err(SealError::TooMany { what: "bytes about the source", most, found });
        }
        let fixed = Fixed { layout, salt, meta_bytes, stanza_bytes: stanza_bytes.len() };
        let header = [&fixed.encode()[..], &stanza_bytes].concat();
        let tag = mac(&keys.head)?.chain_update(&header).finalize().into_bytes().into();
        let digest = digest_of_header(&header, &tag);
        let sealed = Secret::new(layout.suite, &keys.meta, digest, text.len())?.seal_record(&text, iv)?;
        let (context, begin) = (context_of(&digest, &sealed), [&digest[..], &sealed].concat());
        let head = Self { fixed, stanzas: stanzas.clone(), header, mac: tag, meta: sealed };
        Ok((head, OpenHead { keys, meta: meta.clone(), context, begin }))
    }

    /// Verifies the header and decrypts the record.
    pub(super) fn open(&self, set: &SetKey) -> Result<OpenHead, SealError> {
        let keys = FileKeys::derive(set, &self.fixed.salt);
        let wrong = |_| SealError::NotAuthentic("the header");
        mac(&keys.head)?.chain_update(&self.header).verify_slice(&self.mac).map_err(wrong)?;
        let digest = digest_of_header(&self.header, &self.mac);
        let secret = Secret::new(self.fixed.layout.suite, &keys.meta, digest, MAX_META_BYTES)?;
        let wrong = |_| SealError::NotAuthentic("the record about the source");
        let meta = Meta::decode(&secret.open_record(&self.meta).map_err(wrong)?)?;
        let (context, begin) = (context_of(&digest, &self.meta), [&digest[..], &self.meta].concat());
        Ok(OpenHead { keys, meta, context, begin })
    }
}

fn digest_of_header(header: &[u8], mac: &[u8; MAC_BYTES]) -> [u8; 32] {
    Sha256::new().chain_update(b"tobari-seal/1/header").chain_update(header).chain_update(mac).finalize().into()
}

/// The associated data of every chunk. It binds chunks to the header and, through the record, to
/// the path and the times.
fn context_of(digest: &[u8; 32], sealed_meta: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"tobari-seal/1/context")
        .chain_update(digest)
        .chain_update(sealed_meta)
        .finalize()
        .into()
}
