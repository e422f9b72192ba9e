//! Keys that a group agrees on: MLS (RFC 9420), over a server that carries messages and is trusted
//! with nothing.
//!
//! **The object.** A group at epoch `n` is a tree whose leaves are its members, each with an
//! identity (bytes of the application's choice) and an Ed25519 key. A *commit* by one member takes
//! members in and out and leads to epoch `n + 1`, whose secrets are known to exactly those on the
//! tree of `n + 1`: not to who was taken out, nor, of earlier epochs, to who was taken in.
//! Newcomers get a *welcome*. Each epoch exports secrets ([`Group::export`]), and has
//! [words](Group::words) that are equal at all of its members and nowhere else.
//!
//! **What is fixed here.** The ciphersuite is `MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519`.
//! Commits are encrypted, padded, hold their proposals (additions and removals, nothing else) and
//! always a new path of the committer's. Nobody comes in by a commit of their own. Group and
//! newcomer live in memory only and end with it.
//!
//! **Pure.** The library is built without its clock (key packages have no time of expiry: they live
//! as long as a connection). The ciphersuite is composed here from known primitives. All its
//! randomness comes from the caller.
//!
//! **Bounds.** [`MAX_MEMBERS`] members; lengths of messages are checked before they are read. Cost
//! of a commit: `O(log n)` public-key operations, plus one for each newcomer; a welcome holds the
//! tree, a few hundred bytes a member.
//!
//! **Leakage.** To who carries the messages: their lengths, which grow with the number of
//! newcomers, and the group's id and epoch. A key package is readable: whoever does not want its
//! identity seen seals it.

#![forbid(unsafe_code)]

mod fuzz;
mod group;
mod provider;
mod rules;
mod words;

#[doc(hidden)]
pub use fuzz::fuzz_group_messages;
pub use group::{Commit, Group, GroupError, Leaf, Newcomer};
pub use words::{WORDS_BITS, words};

/// Members of a group at most.
pub const MAX_MEMBERS: usize = 4096;
/// The longest identity, in bytes.
pub const MAX_IDENTITY: usize = 96;
/// The longest key package, in bytes.
pub const MAX_PACKAGE: usize = 1024;
/// The longest commit, in bytes: four thousand newcomers, or a path to as many members one by one.
pub const MAX_COMMIT: usize = 3 << 20;
/// The longest welcome, in bytes: the tree, and a secret for each newcomer.
pub const MAX_WELCOME: usize = 4 << 20;
