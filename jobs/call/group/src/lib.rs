//! Keys that a group agrees on: MLS (RFC 9420), over an untrusted server that carries the messages.
//!
//! **The object.** A group at epoch `n` is a tree whose leaves are its members, each with an
//! identity (bytes of the application's choice) and an Ed25519 key. A *commit* by one member adds
//! and removes members and leads to epoch `n + 1`. Only the members on the tree of `n + 1` know its
//! secrets: removed members do not, and new members do not know the secrets of earlier epochs. New
//! members get a *welcome*. Each epoch exports secrets ([`Group::export`]), and has
//! [words](Group::words) that are equal for all of its members and for nobody else.
//!
//! **Fixed choices.** The ciphersuite is `MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519`. Commits
//! are encrypted and padded. They hold their proposals (additions and removals only) and always a
//! new path of the committer. Nobody can join by a commit of their own. Groups and newcomers exist
//! in memory only.
//!
//! **Pure.** The library is built without its clock (key packages do not expire: they live as long
//! as a connection). The ciphersuite is composed here from known primitives. All its randomness
//! comes from the caller.
//!
//! **Bounds.** A group has at most [`MAX_MEMBERS`] members. Lengths of messages are checked before
//! they are parsed. A commit costs `O(log n)` public-key operations, plus one for each newcomer. A
//! welcome holds the tree, a few hundred bytes a member.
//!
//! **Leakage.** The server that carries the messages learns their lengths, which grow with the
//! number of newcomers, and the group's id and epoch. A key package is readable; a member that
//! wants to hide its identity must encrypt the package.

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

/// The largest number of members of a group.
pub const MAX_MEMBERS: usize = 4096;
/// The longest identity, in bytes.
pub const MAX_IDENTITY: usize = 96;
/// The longest key package, in bytes.
pub const MAX_PACKAGE: usize = 1024;
/// The longest commit, in bytes: four thousand newcomers, or a path to as many members one by one.
pub const MAX_COMMIT: usize = 3 << 20;
/// The longest welcome, in bytes: the tree, and a secret for each newcomer.
pub const MAX_WELCOME: usize = 4 << 20;
