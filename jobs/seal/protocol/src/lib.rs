//! Files sealed under a key: the format, and the states of writing and reading it.
//! `book/src/reference/seal-format.md` specifies the format.
//!
//! A sealed file is a header, a record about the source, chunks, and a trailer. A random key `K`
//! belongs to a set of files and never encrypts data. `K` is wrapped for every key file, passphrase
//! and recipient of the set (`Stanza`). Every *attempt* at a file draws a salt of 256 bits. All
//! keys of the attempt are derived from this salt and `K`:
//!
//! ```text
//! prk = HKDF-Extract(salt, K)        k_name = HKDF-Expand(prk, "tobari-seal/1/" ‖ name)
//! ```
//!
//! Chunk `i` is encrypted under `k_enc` with the nonce `prefix ‖ i ‖ last`, and with the digest of
//! header and record as associated data. So a chunk decrypts only in its own file and at its own
//! place, and the last chunk only as the last one (STREAM: Hoang, Reyhanitabar, Rogaway and Vizár,
//! *Online authenticated-encryption and its nonce-reuse misuse-resistance*, CRYPTO 2015, section
//! 7). A nonce cannot repeat: [`Sealing`] hands out each number once, a chunk owns its plaintext
//! and never changes it, and a second attempt at a file has another salt. Any engine may seal a
//! chunk any number of times: the bytes are the same.
//!
//! | file | what it holds |
//! |---|---|
//! | `keys` | keys of a set and of a file; names of sealed files |
//! | `stanza` | the set's key, wrapped: by a key file, a passphrase, or for a recipient of `age` |
//! | `header` | the bytes before the first chunk |
//! | `record` | the record about a source, and the trailer |
//! | `chunk` | both suites: AES-256-GCM, and AES-256-CBC with HMAC-SHA-256 |
//! | `sealing`, `opening` | the states of writing and of reading a file |
//! | `manifest` | which files belong together |
//!
//! # Who sees what
//! The storage provider sees the number of sealed files, their lengths to within 16 bytes, and how
//! the set's key is wrapped. It can replace a file by an older one of the same path. Such a file
//! decrypts by itself; only the manifest detects it. Nothing here detects an old *set* that
//! replaces the whole new one: there is no counter.

#![forbid(unsafe_code)]

mod chunk;
mod fuzz;
mod header;
mod keys;
mod manifest;
mod opening;
mod record;
mod sealing;
mod stanza;

pub use chunk::{BareCbc, Chunk, ForModule, Gcm, Operation, PortableGcm, Rooms, Suite, process, process_in_lanes};
pub use fuzz::{fuzz_seal_manifest, fuzz_seal_records, fuzz_seal_stream};
pub use header::{FIXED_BYTES, Head, Layout, head_bytes};
pub use keys::{KeyFile, SetKey};
pub use manifest::{Entry, ListOrder, MAX_ENTRY_BYTES};
pub use opening::{Next, Opening};
pub use record::{Kind, MAX_RANGES, Meta, Range, Time};
pub use sealing::Sealing;
pub use stanza::{CostLimits, MAX_WRAPPED_BYTES, PassphraseCost, Stanza, Stanzas};

/// Why sealing or opening failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// Bytes that a sealed file cannot have at this place.
    #[error("malformed sealed file: expected {0}, found something else")]
    Malformed(&'static str),
    /// Another version of the format.
    #[error("expected a sealed file of version 1, found version {0}")]
    Version(u8),
    /// Altered, moved, or sealed under another key: one error for all three. No decrypted byte is
    /// returned.
    #[error("expected {0} as it was sealed, found it altered, out of place, or of another key")]
    NotAuthentic(&'static str),
    /// The file was cut: the bytes decrypted so far are only a part of the source.
    #[error("the input ends too early: the decrypted bytes are a verified part from the start, and not the whole")]
    Truncated,
    /// Parameters of a passphrase that cost too much, or protect too little.
    #[error("expected {what} of {least} to {most} for a passphrase, found {found}")]
    Cost {
        /// Which parameter.
        what: &'static str,
        /// The least that is accepted.
        least: u32,
        /// The most.
        most: u32,
        /// The value found.
        found: u32,
    },
    /// More than the format allows.
    #[error("expected at most {most} {what}, found {found}")]
    TooMany {
        /// The things counted.
        what: &'static str,
        /// The limit.
        most: u64,
        /// How many.
        found: u64,
    },
    /// A call out of order, such as a chunk after the last one.
    #[error("expected {0}")]
    OutOfTurn(&'static str),
    /// No memory to derive a key from a passphrase.
    #[error("expected {0} KiB of memory for a passphrase, found less")]
    Memory(u32),
}

/// The identity of a finished sealed file, as a manifest lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The salt of this attempt.
    pub salt: [u8; 32],
    /// The MAC over the whole file.
    pub mac: [u8; 32],
}
