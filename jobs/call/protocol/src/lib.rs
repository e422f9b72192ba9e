//! The call: a voice conference whose server mixes the audio without decrypting it.
//!
//! **Computation.** Each of `n` speakers has a sequence of 16-bit samples `m_u`, at 16 kHz, cut
//! into packets of 320 samples (20 ms, one *tick*). For each tick `t` the server adds the encrypted
//! packets that arrived, and sends out
//!
//! ```text
//!   Enc(M_t) = sum over u in S_t of Enc(m_{u,t}),      M_{t,i} = sum over u in S_t of m_{u,t,i}
//! ```
//!
//! together with the set `S_t` of the speakers in the sum. The sum is exact over the integers:
//! nothing is clipped before a listener clips it ([`program::limit`]). Lifted ElGamal is additive
//! in both of its modes ([`tobari_curve::elgamal::Mode`]), so the server needs no key and has none.
//! Paper: Ueno et al., sections 3 and 4 (`book/src/explanation/mathematics.md` gives the
//! mathematics in full).
//!
//! **Access.** A holder of the secret key can decrypt the sum, and also any single packet that it
//! obtains. In mode `elgamal` a speaker needs only the public key. In mode `elgamal-shared`, whose
//! packets have half the points, every member holds the secret. The server sees points of a curve,
//! never a sample, a key or the sum.
//!
//! **Leakage to the server.** The server learns the room's name, curve and mode, the number of
//! members, which members may speak, when packets arrive and which are missing, when a speaker
//! ends, and when a listener acknowledges a tick. The acknowledgement follows decryption, and the
//! decryption time depends on the sum. The server does not learn who is talking: a silent speaker
//! sends encryptions of zero at the same rate.
//!
//! **Not protected yet.** The server can omit a speaker, add a speaker twice, or add a packet of
//! its own, and no listener can tell: nothing authenticates the sum (only rooms of [`live`] do
//! that). A server that watches which altered sums a listener rejects can learn about the speech.
//! Secrecy is therefore claimed only against a server that follows the protocol.
//!
//! **The bound.** A sum of `n` samples of absolute value at most 32768 needs a discrete logarithm
//! of `n * 32768`; a listener's table must reach that far, or the tick fails to decrypt (it is
//! never wrong).
//!
//! **The life of 20 milliseconds.** These steps lead from a sample in a WAV file to a sample of the
//! mix, as `tobari call mix` runs them on a curve of 256 bits in mode `elgamal`. The differences of
//! mode `elgamal-shared` follow the list.
//!
//! 1. `wav::read_speech` compares the header with the file, decodes, takes the mean of two
//!    channels, resamples, and rounds once. The result is 16-bit samples at 16 kHz.
//!    `program::frame` cuts 320 of them and fills the last frame with silence.
//! 2. `Speaker::packet` rejects a tick that is not later than the last. `Encryptor::encrypt` draws
//!    320 scalars `r`, computes all `r·sG` and `rG` together (43 windows of both tables, added in
//!    batches) and adds `mG` from three more tables.
//! 3. `wire::encode_packet` writes a head of 20 bytes and 640 points: 40,980 bytes, or 20,580
//!    compressed.
//! 4. A WebSocket message carries the packet to the server, inside TLS if the URL says so.
//! 5. The connection's task reads one packet at a time. `Uplink::check` looks at the head: mode,
//!    curve, room, sender, length. `Uplink::decode` checks every point on a separate thread; at
//!    most as many packets as the machine has cores are decoded at once.
//! 6. The room's task takes the packet from a bounded queue. `Room::packet` checks the tick and
//!    adds the packet to that tick's sum at once: one batched addition. A room keeps sums, not
//!    packets.
//! 7. The tick closes: in lockstep when every speaker has sent its packet or ended, in live rooms
//!    by the clock. `Tick::encode` writes the sum with the lists of its speakers and of late
//!    speakers, once for each encoding that listeners asked for.
//! 8. `Listener::admit` checks room, tick and length and every point. `check_speakers` compares the
//!    list with the packets that the recordings should have sent.
//! 9. `Decryptor::vartime_decrypt` computes all `sR` together, subtracts, and finds 320 logarithms.
//!    The listener acknowledges the tick.
//! 10. After the last tick the sum is cut to the longest recording and limited to 16 bits
//!     (`program::limit`) or kept as 32. The output file is written whole or not at all.
//!
//! In mode `elgamal-shared`, which the join names, step 2 draws one `r` and computes
//! `(m_i + r s_i) G` and `rG` from one table; a packet has 321 points, 20,564 bytes or 10,333
//! compressed. In step 9 all `s_i R` come from one table of `R`. The code of all other steps is the
//! same.
//!
//! A demonstration or a mix without `--server` starts the same executable again as `serve` on
//! loopback. The child process gets an address and nothing else.
//!
//! **The protocol.** [`messages`] describes the messages, [`server`] the rules of a room.

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
