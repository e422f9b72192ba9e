//! The search: how often does a haplotype, or a lookup key, occur in the server's table? The client
//! does not see the table.
//!
//! **Computation.** For each of `D` public places, the server lists the distinct patterns that
//! occur there, and how often. An entry is `(K, c)`: the number `K` stands for a place and a
//! pattern, as one or two limbs modulo `t`, and `c` is the count. The client's query is one such
//! number `q`, encrypted. For each entry the server computes, in a slot of its own,
//!
//! ```text
//!   R = M (q - K),      V = c + m' (q - K),      M uniform and invertible, m' uniform, both fresh
//! ```
//!
//! ([`program`]). Where `q = K`, `R` is zero and `V` is the count; everywhere else both are
//! uniform. A question takes one round, and one ciphertext from the client for each limb. It takes
//! no evaluation keys, because all products are with plaintexts. For the **longest match**, slots
//! form groups, one for each number of sites. In each group the query has the number of a prefix of
//! its pattern, so the number of groups with a match is the number of sites that match
//! ([`program::Layout`]). **Lookup keys of any table** are numbers too.
//!
//! Paper: A. Hiroe and M. Oguchi's comparison of persistent memory and low-latency SSDs for genome
//! search under fully homomorphic encryption. **This is another algorithm than the paper's.** The
//! paper evaluates the positional Burrows-Wheeler transform under encryption, with bootstrapping;
//! the statement about privacy is the same. Here the transform is an index of plain data
//! ([`panel`]), which the server has anyway.
//!
//! **Leakage.** A semi-honest server sees the places, the number of sites of a pattern, and
//! ciphertexts (RLWE). A semi-honest client sees the answer, and the number of slots, which is
//! public. Slots without an entry look like other slots without a match.
//!
//! **Necessary measures**, each held by a test:
//!
//! - Every output gets fresh randomness, `Enc_pk(0)`. Otherwise the client could divide by the
//!   `c_1` that it knows.
//! - Queries and public keys are accepted only with a seed for their uniform half.
//! - Noise is flooded over the noise of honest queries.
//! - Entries take new random slots for every query.
//! - A place hides among all places of its cell, which is the same for each of them
//!   ([`hidden::cells`]), or among all places of the table.
//!
//! **Not protected.** A server may answer anything. A client that makes malformed ciphertexts
//! learns more: some bits of each `r`, or one comparison for every slot. A longest match is as many
//! tests as the pattern has sites. Where this matters, serve the table with labels instead of
//! numbers ([`oprf`]). Neither mode stops membership inference by many honest questions.

#![forbid(unsafe_code)]

mod arithmetic;
pub mod client;
pub mod desk;
mod fields;
pub mod fullness;
pub mod hidden;
pub mod identity;
pub mod messages;
pub mod oprf;
pub mod panel;
pub mod pbwt;
pub mod program;
pub mod question;
pub mod server;
pub mod simulated;
pub mod table;

#[doc(hidden)]
pub use identity::fuzz_kept;
#[doc(hidden)]
pub use messages::fuzz_messages;
#[doc(hidden)]
pub use table::fuzz_table;
