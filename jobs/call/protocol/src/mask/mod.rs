//! Mode `mask`: an additive cipher from a pseudorandom function, and a one-time linear
//! authenticator for sums.
//!
//! Sender `u` has a key `k_u` for one session, and all receivers hold the key too. A server adds
//! the packets and cannot read them. With samples `m_{u,i}` of tick `t` and `F` the key stream of
//! ChaCha20,
//!
//! ```text
//! c_{u,i}  = m_{u,i} + F(k_u, t, i)           mod 2^w
//! c_i      = Σ c_{u,i}                        mod 2^w, by the server, for the set S of senders
//! M_i      = c_i - Σ_{u in S} F(k_u, t, i)    mod 2^w, centred: the number of least absolute value
//! ```
//!
//! `M_i` is the exact sum while it fits `w` bits as a signed number: [`Width::for_senders`].
//! Castelluccia, Mykletun, Tsudik (2005, 2009).
//!
//! **Assumptions.** ChaCha20's stream is indistinguishable from random, and no pair `(k_u, t)`
//! serves two packets: the difference of two such packets would be the difference of their samples.
//! Therefore [`MaskSender`] accepts ticks in increasing order only, and no function takes a
//! position in the stream. The caller that derives the keys must make them differ from session to
//! session.
//!
//! # The authenticator
//! Over `p = 2^61 - 1`, twice with independent numbers (Agrawal, Boneh, ACNS 2009; Catalano, Fiore,
//! Eurocrypt 2013; degree one):
//!
//! ```text
//! tag_u = Σ_i α_{t,i} m_{u,i} + ν_{u,t}     α from a key of all sessions, ν from one of session u
//! T     = Σ_{u in S} tag_u                  by the server, modulo p
//! accept if T = Σ_i α_{t,i} M_i + Σ_{u in S} ν_{u,t}
//! ```
//!
//! An attacker without the keys that presents other sums, another `S` or another tick passes with
//! probability at most `2^-120`: the `ν` hide the `α`, which are drawn for one tick; `Σ ν` depends
//! on every session in `S`, each counted once. Tags reveal nothing while no `(u, t)` has two of
//! them; [`TagSender`] ensures this. Two tags would give a linear equation in the `α`. A holder of
//! the keys can forge: senders and receivers are one group here.
//!
//! The tag is over integers and is independent of the cipher, so it serves any additive mode:
//! [`TagSender`] and [`TagReceiver`] are for modes whose ciphertexts are not masks.
//!
//! # Cost
//! A receiver computes the streams of all senders in `S` and adds them, in SIMD lanes and without
//! reordering any stream. This dominates the cost: 1,284 bytes of ChaCha20 for each sender and
//! packet of 321 samples.
//!
//! # Leakage
//! Constant time in keys, samples and sums. Ticks, lengths and sets are public.

mod cipher;
mod packing;
mod tag;
#[cfg(test)]
mod tests;

pub use cipher::{MaskMismatch, MaskReceiver, MaskSender, Masked};
pub use packing::{Form, MalformedWords, Width};
pub use tag::{EpochKey, OpenError, SessionKey, Tag, TagReceiver, TagSender, TickError};

/// The largest number of senders whose keys a receiver can hold.
pub const MAX_SENDERS: usize = 4096;
/// The largest number of samples in a packet.
pub const MAX_SAMPLES: usize = 1024;
