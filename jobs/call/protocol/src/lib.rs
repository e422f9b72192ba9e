//! The call: a voice conference mixed by a server that cannot hear it.
//!
//! **What is computed.** Each of `n` speakers has a sequence of 16-bit samples `m_u`, at 16 kHz,
//! cut into packets of 320 samples (20 ms, one *tick*). For each tick `t` the server adds the
//! encrypted packets that it has, and hands out
//!
//! ```text
//!   Enc(M_t) = sum over u in S_t of Enc(m_{u,t}),      M_{t,i} = sum over u in S_t of m_{u,t,i}
//! ```
//!
//! together with the set `S_t` of those whose packets are in it. The sum is exact over the
//! integers: nothing is clipped before a listener does so ([`program::limit`]). Lifted ElGamal is
//! additive in both of its modes ([`tobari_curve::elgamal::Mode`]), so the server needs no key and
//! has none. Paper: Ueno et al., sections 3 and 4 (`book/src/explanation/mathematics.md` gives it
//! in full).
//!
//! **Who sees what.** Whoever holds the secret key hears the sum, and could hear any single packet
//! that it gets hold of. In mode `elgamal` a speaker needs the public key only; in mode
//! `elgamal-shared`, whose packets have half the points, every member holds the secret. The server
//! sees points of a curve, never a sample, a key or the sum.
//!
//! **What leaks to the server.** The room's name, curve and mode, how many members there are, who
//! of them may speak, when packets arrive and which are missing, when a speaker ends, and when a
//! listener acknowledges a tick: that follows decryption, whose time depends on the sum. Not who is
//! talking: a silent speaker sends encryptions of zero at the same rate.
//!
//! **What is not protected yet.** The server can leave a speaker out, add one twice, or add a
//! packet of its own making, and no listener can tell: nothing authenticates the sum. By watching
//! which altered sums a listener rejects it can learn about what was said; so secrecy is claimed
//! against a server that follows the protocol.
//!
//! **The bound.** A sum of `n` samples of absolute value at most 32768 needs a discrete logarithm
//! of `n * 32768`; a listener's table must reach that far, or the tick fails to decrypt (it is
//! never wrong).
//!
//! **The life of 20 milliseconds.** From a sample in a WAV file to a sample of the mix, as
//! `tobari call mix` does it on a curve of 256 bits in mode `elgamal`; what mode `elgamal-shared`
//! does otherwise follows:
//!
//! 1. `wav::read_speech` compares the header with the file, decodes, takes the mean of two
//!    channels, resamples, and rounds once. Out come 16-bit samples at 16 kHz. `program::frame`
//!    cuts 320 of them, silence filling the last frame.
//! 2. `Speaker::packet` refuses a tick that is not later than the last. `Encryptor::encrypt` draws
//!    320 scalars `r`, computes all `r·sG` and `rG` together (43 windows of both tables, added in
//!    batches) and adds `mG` from three more tables.
//! 3. `wire::encode_packet` writes a head of 20 bytes and 640 points: 40,980 bytes, or 20,580
//!    compressed.
//! 4. A WebSocket message carries it to the server, inside TLS if the URL says so.
//! 5. The connection's task reads one packet at a time. `Uplink::check` looks at the head: mode,
//!    curve, room, sender, length. `Uplink::decode` checks every point, on a thread of its own
//!    behind a gate as wide as the machine has cores.
//! 6. The room's task takes it from a bounded queue. `Room::packet` checks the tick and adds it to
//!    that tick's sum at once: one batched addition. The packet is then gone; a room keeps sums,
//!    not packets.
//! 7. The tick closes: in lockstep when every speaker has sent it or ended, live by the clock.
//!    `Tick::encode` writes the sum with the list of those in it and those too late, once for each
//!    encoding that listeners asked for.
//! 8. `Listener::admit` checks room, tick and length and every point. `check_speakers` compares the
//!    list with what the recordings should have sent.
//! 9. `Decryptor::vartime_decrypt` computes all `sR` together, subtracts, and finds 320 logarithms.
//!    The listener acknowledges.
//! 10. After the last tick the sum is cut to the longest recording, limited to 16 bits
//!     (`program::limit`) or kept as 32, and written whole or not at all.
//!
//! In mode `elgamal-shared`, which the join names, step 2 draws one `r` and computes `(m_i + r s_i)
//! G` and `rG` from one table; a packet has 321 points, 20,564 bytes or 10,333 compressed; and in
//! step 9 all `s_i R` come from one table of `R`. Everything between is the same code.
//!
//! A demonstration or a mix without `--server` starts the same executable again as `serve` on
//! loopback. It gets an address and nothing else.
//!
//! **The protocol** is described in [`messages`] (what is said) and [`server`] (the rules of a
//! room).

#![forbid(unsafe_code)]

pub mod client;
mod control;
#[doc(hidden)]
pub mod fuzz;
pub mod live;
pub mod mask;
pub mod messages;
pub mod program;
pub mod server;
pub mod wire;

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
