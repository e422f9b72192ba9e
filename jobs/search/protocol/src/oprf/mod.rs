//! Malicious-client mode: a client can use an entry only after the server evaluated the entry's
//! input, whatever else the client extracts from an answer.
//!
//! **Why.** Masks hide a table in an answer, and noise hides the masks only if ciphertexts were
//! made honestly. A client that makes other ciphertexts reads some bits of masks, and compares one
//! number in every slot. Therefore, here the numbers of entries themselves are pseudo-random. For
//! `x`, a place and a pattern, or a word,
//!
//! ```text
//!   y = F_k(x),    number (H_1(y), H_2(y)) mod t,    count c + H_3(y) mod t,
//! ```
//!
//! where `F` is the oblivious pseudo-random function of RFC 9497 ([`function`]) and `k` is the
//! server's key. `H_i` are 128-bit parts of the 512 bits of `y`, reduced: within `t 2^-128 = 2^-88`
//! of uniform. The server evaluates `F_k` at the client's blinded `x`; then the client asks for the
//! number, and subtracts `H_3(y)` from the count. All other numbers and counts that a client may
//! extract are uniform to clients without an evaluation of that very `x`. So **evaluations bound
//! the tests**, and budgets count evaluations. All windows have as many entries as the fullest
//! window: fillers take the place of missing entries ([`labels`]).
//!
//! **Hidden places** ([`crate::hidden`]) use other bits of the same output: a number of 128 bits,
//! and a pad modulo the smaller `t` of hidden tables ([`labels::Label::hidden`]). Slots without an
//! entry get uniform numbers instead of fillers. The number of blocks tells clients the number of
//! entries of a cell or a table, to within a block.
//!
//! **Bounds.** The table's privacy rests on the one-more Diffie-Hellman assumption in ristretto255,
//! with SHA-512 as a random oracle. This is **not post-quantum**. The client's privacy is: a
//! blinded element is uniform for every `x`. The set of parameters is `search-40` with two limbs,
//! for every question. Among `n` entries there is a false match with probability at most `n t^-2`,
//! about `n 2^-80`.
//!
//! **Keys.** `k` keeps the *table* from clients. It decrypts nothing, and protects nothing of a
//! client. A server draws `k` when it begins to serve a table, so it can start without a stored
//! key. It draws another key when the table changes, because two counts under one pad would tell
//! their difference. A [`Revision`] names the key. The server rejects labels of an earlier key, and
//! the client evaluates again.
//!
//! **Not protected.** The server learns which client asks, and how much, but not where: it cannot
//! count tests by region. Nothing proves that a server uses one key for all clients. Evaluations
//! are honest tests: a client with a large enough budget can scan the table.

pub mod function;
pub mod labels;
pub mod messages;

use super::program::Shape;
use tobari_lattice::params::NamedSet;

/// Bytes of the name of a key.
pub const REVISION_BYTES: usize = 16;

/// The name of a key. It tells labels of different keys apart.
pub type Revision = [u8; REVISION_BYTES];

/// How the numbers of entries are made.
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
    /// The set of parameters for a question, and for counts up to `counted`. With labels this is
    /// always the set with the largest plaintext modulus. None as for [`Shape::set`].
    pub fn set(self, shape: Shape, counted: u64) -> Option<NamedSet> {
        let set = shape.set(counted)?;
        match self {
            Self::Plain => Some(set),
            Self::Labelled(_) => super::program::sets().last(),
        }
    }
}
