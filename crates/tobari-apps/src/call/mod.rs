//! The call: a voice conference mixed by a server that cannot hear it.
//!
//! **What is computed.** Each of `n` speakers has a sequence of 16-bit samples `m_u`, at 16 kHz, cut into packets of 320
//! samples (20 ms, one *tick*). For each tick `t` the server adds the encrypted packets that it has, and hands out
//!
//! ```text
//!   Enc(M_t) = sum over u in S_t of Enc(m_{u,t}),      M_{t,i} = sum over u in S_t of m_{u,t,i}
//! ```
//!
//! together with the set `S_t` of those whose packets are in it. The sum is exact over the integers: nothing is clipped
//! before a listener does so ([`program::limit`]). Lifted ElGamal is additive in both of its modes
//! ([`tobari_core::elgamal::Mode`]), so the server needs no key and has none.
//! Paper: Ueno et al., sections 3 and 4 (`docs/notation.md` gives it in full).
//!
//! **Who sees what.** Whoever holds the secret key hears the sum, and could hear any single packet that it gets hold of.
//! In mode `elgamal` a speaker needs the public key only; in mode `elgamal-shared`, whose packets have half the points, every
//! member holds the secret. The server sees points of a curve, never a sample, a key or the sum.
//!
//! **What leaks to the server.** The room's name, curve and mode, how many members there are, who of them may speak, when packets arrive
//! and which are missing, when a speaker ends, and when a listener acknowledges a tick: that follows decryption, whose time
//! depends on the sum. Not who is talking: a silent speaker sends encryptions of zero at the same rate.
//!
//! **What is not protected yet.** The server can leave a speaker out, add one twice, or add a packet of its own making,
//! and no listener can tell: nothing authenticates the sum. By watching which altered sums a listener rejects it can
//! learn about what was said; so secrecy is claimed against a server that follows the protocol.
//!
//! **The bound.** A sum of `n` samples of absolute value at most 32768 needs a discrete logarithm of `n * 32768`;
//! a listener's table must reach that far, or the tick fails to decrypt (it is never wrong).
//!
//! **The protocol** is described in [`messages`] (what is said) and [`server`] (the rules of a room).

pub mod client;
mod control;
pub mod live;
pub mod messages;
pub mod program;
pub mod server;

#[doc(hidden)]
pub use messages::fuzz_messages;
#[doc(hidden)]
pub use server::fuzz_room;

/// Samples a second.
pub const SAMPLE_RATE_HZ: u32 = 16_000;
/// Samples in one packet.
pub const PACKET_SAMPLES: usize = 320;
/// Length of one packet in milliseconds.
pub const TICK_MS: u64 = 20;
