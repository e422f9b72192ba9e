//! Malicious-client mode: what a client has not had evaluated is of no use to it, whatever it gets
//! out of an answer.
//!
//! **Why.** An answer hides a table by masks, and noise hides masks only while ciphertexts were
//! honestly made. A client that makes others reads some bits of masks and compares one number in
//! every slot. Here the numbers of entries themselves are pseudo-random: `x` being a place and a
//! pattern, or a word,
//!
//! ```text
//!   y = F_k(x),    number (H_1(y), H_2(y)) mod t,    count c + H_3(y) mod t,
//! ```
//!
//! with `F` the oblivious pseudo-random function of RFC 9497 ([`function`]), its key `k` the
//! server's, and `H_i` 128-bit parts of the 512 bits of `y`, reduced: within `t 2^-128 = 2^-88` of
//! uniform. A client has `F_k` evaluated at its `x`, blinded, asks for the number, and takes
//! `H_3(y)` from the count. What else it may extract are numbers and counts that are uniform to
//! whoever has not had that very `x` evaluated, so that **evaluations bound the tests**, and they
//! are what a budget counts. Windows have as many entries as the fullest one: the others are filled
//! up ([`labels`]).
//!
//! **Bounds.** The one-more Diffie-Hellman assumption in ristretto255, with SHA-512 as a random
//! oracle. It is **not post-quantum**, for the table; the client's side is: a blinded element is
//! uniform whatever `x` is. The set is `search-40` with two limbs, for every question: among `n`
//! entries one is matched falsely with probability at most `n t^-2`, about `n 2^-80`.
//!
//! **Who has keys.** `k` keeps the *table* from clients; it decrypts nothing, and nothing of a
//! client is hidden by it. A server draws it when it begins to serve a table, so that it can be
//! started without any, and draws another when the table changes: two counts under one pad would
//! tell their difference. A [`Revision`] names the key; labels of an earlier one are refused, and
//! the client evaluates again.
//!
//! **What is not protected.** The server learns who asks how much, as ever, but not where: it
//! cannot count tests by region. That a server uses one key for all is not proven. Evaluations are
//! honest tests: whoever may make enough of them scans.

pub mod function;
pub mod labels;
pub mod messages;

use super::program::Shape;
use tobari_lattice::params::NamedSet;

/// Bytes of the name of a key.
pub const REVISION_BYTES: usize = 16;

/// The name of a key, by which labels of an earlier one are told apart.
pub type Revision = [u8; REVISION_BYTES];

/// How numbers come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By a public rule ([`super::program::Keys`]): for clients that follow the protocol.
    Plain,
    /// By evaluations under the key of this name ([`labels::Label`]).
    Labelled(Revision),
}

/// Limbs of a label's number.
pub const LIMBS: usize = 2;

impl Mode {
    /// The set of parameters for a question, and for counts up to `counted`: with labels always the
    /// one of the largest plaintext modulus. None as for [`Shape::set`].
    pub fn set(self, shape: Shape, counted: u64) -> Option<NamedSet> {
        let set = shape.set(counted)?;
        match self {
            Self::Plain => Some(set),
            Self::Labelled(_) => super::program::sets().last(),
        }
    }
}
