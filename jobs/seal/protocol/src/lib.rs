//! Files sealed under a key: the format, and the states of writing and reading it.
//! `book/src/reference/seal-format.md` is its specification.
//!
//! A sealed file is a header, a record about the source, chunks, and a trailer. A random key `K`
//! belongs to a set of files and never encrypts data; it is wrapped for whoever may open the set
//! (`Stanza`). Every *attempt* at a file draws a salt of 256 bits, from which and `K` all its keys
//! are derived:
//!
//! ```text
//! prk = HKDF-Extract(salt, K)        k_name = HKDF-Expand(prk, "tobari-seal/1/" ‖ name)
//! ```
//!
//! Chunk `i` is encrypted under `k_enc` with the nonce `prefix ‖ i ‖ last`, and with the digest of
//! header and record as associated data. So a chunk opens only in its own file, at its own place,
//! and the last one only as the last one (STREAM: Hoang, Reyhanitabar, Rogaway and Vizár, *Online
//! authenticated-encryption and its nonce-reuse misuse-resistance*, CRYPTO 2015, section 7). A
//! nonce cannot repeat: [`Sealing`] hands out each number once, the chunk that carries it owns its
//! plaintext, which nothing can change any more, and a second attempt at a file has another salt. A
//! chunk may be sealed any number of times, by whatever engine: the bytes are the same.
//!
//! | file | what it holds |
//! |---|---|
//! | `keys` | keys of a set and of a file; names of sealed files |
//! | `stanza` | the set's key, wrapped: by a key file, a passphrase, or for a recipient of `age` |
//! | `header` | the bytes before the first chunk |
//! | `record` | what is said of a source, and of the whole at its end |
//! | `chunk` | both suites: AES-256-GCM, and AES-256-CBC with HMAC-SHA-256 |
//! | `sealing`, `opening` | the states of a file that is written, or read |
//! | `manifest` | which files belong together |
//!
//! # Who sees what
//! Whoever stores sealed files sees how many there are, their lengths to within 16 bytes, and how
//! the set's key is wrapped. An old file put back in the place of a new one of the same path opens
//! by itself; only the manifest tells. An old *set* put back whole opens: nothing here keeps a
//! count.

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

/// Why something is not sealed, or not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// Bytes that no sealed file has there.
    #[error("malformed sealed file: expected {0}, found something else")]
    Malformed(&'static str),
    /// Another version of the format.
    #[error("expected a sealed file of version 1, found version {0}")]
    Version(u8),
    /// Altered, moved, or sealed under another key: one answer for all, and nothing of what was
    /// decrypted.
    #[error("expected {0} as it was sealed, found it altered, out of place, or of another key")]
    NotAuthentic(&'static str),
    /// The file ends before its end: what was opened so far is a part of what was sealed.
    #[error("expected more bytes, found the end: what was opened is a verified part from the start, and not the whole")]
    Truncated,
    /// Parameters of a passphrase that would take too much, or protect too little.
    #[error("expected {what} of {least} to {most} for a passphrase, found {found}")]
    Cost {
        /// Which parameter.
        what: &'static str,
        /// The least that is accepted.
        least: u32,
        /// The most.
        most: u32,
        /// What is there.
        found: u32,
    },
    /// More of something than the format has room for.
    #[error("expected at most {most} {what}, found {found}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        most: u64,
        /// How many.
        found: u64,
    },
    /// A call out of turn, as a chunk after the last one.
    #[error("expected {0}")]
    OutOfTurn(&'static str),
    /// Memory for a passphrase's key that could not be had.
    #[error("expected {0} KiB of memory for a passphrase, found less")]
    Memory(u32),
}

/// By what a finished sealed file is known: a manifest lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The salt of this attempt.
    pub salt: [u8; 32],
    /// The MAC over the whole file.
    pub mac: [u8; 32],
}
