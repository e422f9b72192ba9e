//! The search with the place hidden: how often does a key occur in a table of millions? The server
//! does not see the part of the table that the question is about. For a part of a panel, a cell
//! ([`cells`]), the server sees the cell and nothing of the place in it.
//!
//! **Computation.** [`super`] compares a query with all entries at public places. Here a public
//! keyed permutation of the keys puts entries into blocks ([`program`]). The client sends one
//! ciphertext. Its coefficients hold the limbs of the key's number, and a one at the key's block.
//! The server expands each coefficient into a ciphertext, selects the block, and compares
//! ([`server`]):
//!
//! ```text
//!   q_j, s_b  ←  expansion of the query             B + L - 1 key switches
//!                                                   (tobari_lattice::bgv::Expansion)
//!   K_j = Σ_b s_b K_(b,j),   C = Σ_b s_b C_b        products with plaintexts, which shards of a
//!                                                   table can share
//!   R_i = Σ_j r_ij (q_j - K_j),   V = C + Σ_j r'_j (q_j - K_j)
//! ```
//!
//! A key is a number of up to 128 bits. Only [`numbers`] knows its meaning: a pattern of so many
//! sites at a place, or a fingerprint of a string. An [`arrangement`] is the table in a server's
//! memory.
//!
//! **Choices, as measured** (`N = 8192`, `t` below 2^20, three primes of 50 bits and a special one;
//! [`server`] has the cost). A key switch takes about as long as ten products with a prepared
//! polynomial, or four with a packed one. So blocks of several pages take less time, and more bytes
//! of answer. Four primes of 41 bits make a key switch 1.5 times as long. `N = 2^14` with `t` above
//! 2^40 needs two limbs instead of three, but makes a key switch four to seven times as long, for
//! twice the slots. Limbs travel in the selector's ciphertext: each costs a key switch instead of
//! 154 KB.
//!
//! **Leakage.** A semi-honest server sees that a client asks a table, and ciphertexts (RLWE, with
//! circular security of the keys). A semi-honest client sees the answer and the public layout of
//! blocks, from which it knows the approximate number of entries. It also sees **the slot of a
//! match**. The slot of a key is drawn uniformly, independent of everything else, when the table is
//! packed, and stays the same for every query. It tells only that other entries of the block are in
//! other slots, a known fact, and whether the table was packed anew. A new order for every query,
//! as in [`super::server`], would take a transform of every block. A new order would protect only
//! against queries with different numbers in different slots; the next paragraph bounds those
//! queries.
//!
//! **Malformed queries.** A leaf after `d` steps, with `2^d` at most twice the blocks and limbs,
//! keeps every coefficient at a multiple of `2^d`. A client that does not encrypt zeros there
//! compares `N/2^d` different numbers, each in `2^d` slots; with malformed keys it compares one
//! number in each slot. It can mix blocks, because `s` can be any numbers. A comparison is still of
//! one value with one combination of entries in one slot. So against slots drawn at random, a query
//! meets one entry on average, like an honest query. But slots stay the same: a client that asks
//! often learns the slots of its own matches, and can ask for combinations of entries in the same
//! slots of other blocks. Malformed ciphertexts leak bits of masks here too, as in [`super`]. **The
//! claim is for semi-honest clients**, and budgets count queries. With labels ([`crate::oprf`]) the
//! claim is for malicious clients: all numbers and counts are then uniform to a client without an
//! evaluation, whatever combinations it reads. Budgets count evaluations.
//!
//! **Necessary measures**, each held by a test: fresh randomness in every output; seeds for the
//! uniform halves of keys and queries; noise flooded over the noise of honest queries; every mask,
//! when a table has several limbs.

pub mod arrangement;
pub mod cells;
pub mod client;
pub mod index;
pub mod messages;
pub mod numbers;
pub mod permutation;
pub mod program;
pub mod question;
pub mod server;

#[doc(hidden)]
pub use messages::fuzz_hidden_messages;
