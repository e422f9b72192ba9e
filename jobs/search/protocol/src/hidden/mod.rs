//! The search with the place hidden: how often a key occurs in a table of millions, of which the
//! server does not even see the part that is asked for.
//!
//! **What is computed.** [`super`] compares a query with all entries at public places. Here entries
//! lie in blocks by a public keyed permutation of their keys ([`program`]), and the client's one
//! ciphertext holds, coefficient by coefficient, the number of what it looks for and a one at its
//! block. The server makes a ciphertext of each coefficient, selects, and compares ([`server`]):
//!
//! ```text
//!   q_j, s_b  ←  expansion of the query            B + L - 1 key switches      (tobari_lattice::bgv::Expansion)
//!   K_j = Σ_b s_b K_(b,j),   C = Σ_b s_b C_b        products with plaintexts, which shards of a table can share
//!   R_i = Σ_j r_ij (q_j - K_j),   V = C + Σ_j r'_j (q_j - K_j)
//! ```
//!
//! What a key means, a pattern of so many sites at a place, or a fingerprint of a string, is known
//! to [`numbers`] only: it is a number of up to 128 bits. What a server keeps in memory is an
//! [`arrangement`].
//!
//! **Choices, as measured** (`N = 8192`, `t` below 2^20, three primes of 50 bits and a special one;
//! [`server`] has the cost). A key switch takes about as long as ten products with a prepared
//! polynomial, or four with a packed one, so that blocks of several pages take less time, and more
//! bytes of answer. Four primes of 41 bits make a key switch half as long again; `N = 2^14` with
//! `t` above 2^40, which needs two limbs instead of three, makes it four to seven times as long,
//! for twice the slots. Limbs travel in the selector's ciphertext: a key switch each instead of 154
//! KB.
//!
//! **Who sees what.** A semi-honest server sees that a table is asked, and ciphertexts (RLWE, with
//! circular security of the keys). A semi-honest client sees the answer, how the table lies in
//! blocks, which is public and tells how many entries there are about, and **the slot of a match**.
//! That is the same for every query of a key, drawn when the table was packed, uniformly and from
//! nothing else: it tells nothing but that other entries of the block are in other slots, which is
//! known. It also tells whether the table was packed anew. A new order for every query, as
//! [`super::server`] has, would take a transform of every block; it is only for queries with other
//! numbers in other slots, and next is what these get.
//!
//! **What a malformed query gets.** A leaf after `d` steps, `2^d` being at most twice the blocks
//! and limbs, keeps every coefficient at a multiple of `2^d`: a client that does not encrypt zeros
//! there compares `N/2^d` different numbers, each in `2^d` slots, and with malformed keys one in
//! each slot. It can mix blocks, `s` being any numbers. A comparison is still of one value with one
//! combination of entries in one slot, so that against slots drawn at random a query meets one
//! entry on average, as an honest one does; but slots stay, and so a client that asks often learns
//! where its own finds lie, and can ask for combinations of what lies in other blocks at the same
//! slots. What [`super`] says of bits of masks that leak by malformed ciphertexts holds here as
//! well. **The claim is for semi-honest clients**, and budgets count queries.
//!
//! **What must not be left out**, each held by a test: fresh randomness in every output; seeds for
//! the uniform halves of keys and queries; noise that is flooded over that of honest queries; masks
//! of which none is left out when a table has several limbs.

pub mod arrangement;
pub mod client;
pub mod index;
pub mod messages;
pub mod numbers;
pub mod permutation;
pub mod program;
pub mod server;

#[doc(hidden)]
pub use messages::fuzz_hidden_messages;
