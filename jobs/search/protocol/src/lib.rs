//! The search: how often does this haplotype, or this key, occur in a table that the server has and
//! the client may not see?
//!
//! **What is computed.** The server lists, for each of `D` public places, the distinct patterns
//! that occur there and how often: entries `(K, c)`, `K` being a number that stands for a place and
//! a pattern, as one or two limbs modulo `t`. The client's query is one such number `q`, encrypted.
//! For each entry the server computes, in a slot of its own,
//!
//! ```text
//!   R = M (q - K),        V = c + m' (q - K),        M uniform and invertible, m' uniform, both fresh
//! ```
//!
//! ([`program`]), so that `R` is zero where `q = K`, and `V` is then the count; everywhere else
//! both are uniform. One round, one ciphertext up for each limb, and no evaluation keys: products
//! are with plaintexts only. For the **longest match** slots come in groups, one for each number of
//! sites, the query has in each group the number of a prefix of its pattern, and as many groups
//! have a match as sites occur ([`program::Layout`]). **Keys of any table** are numbers too.
//!
//! Paper: A. Hiroe and M. Oguchi's comparison of persistent memory and low-latency SSDs for genome
//! search under fully homomorphic encryption. **This is another algorithm than the paper's**, which
//! evaluates the positional Burrows-Wheeler transform under encryption, with bootstrapping; the
//! statement about privacy is the same. Here the transform is an index of plain data ([`panel`]),
//! which the server has anyway.
//!
//! **Who sees what.** A semi-honest server sees the places, how many sites a pattern has, and
//! ciphertexts (RLWE). A semi-honest client sees the answer, and how many slots there are, which is
//! public. Slots without an entry hold what other slots without a match hold.
//!
//! **What must not be left out**, each held by a test: every output is given fresh randomness,
//! `Enc_pk(0)`, or the client could divide by the `c_1` that it knows; queries and public keys are
//! accepted with a seed for their uniform half only; noise is flooded over that of honest queries;
//! entries take random slots anew for every query; places that hide the true one are a function of
//! it ([`client::places`]), and a client shows one list of them ([`question::decoys`]).
//!
//! **What is not protected.** A server may answer anything. A client that makes malformed
//! ciphertexts learns more: some bits of each `r`, or one comparison for every slot, and a longest
//! match is as many tests as it has sites; where that matters a table is served with labels instead
//! of numbers ([`oprf`]). Neither stops membership inference by many honest questions.

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
