//! Mode `mask`: an additive cipher from a pseudorandom function, and a one-time linear
//! authenticator for sums.
//!
//! Sender `u` has a key `k_u` that it uses for one session, all receivers hold it too, and a server
//! adds what it cannot read. With samples `m_{u,i}` of tick `t` and `F` the key stream of ChaCha20,
//!
//! ```text
//! c_{u,i}  = m_{u,i} + F(k_u, t, i)                   mod 2^w
//! c_i      = Σ c_{u,i}                                mod 2^w      by the server, for the set S of senders
//! M_i      = c_i - Σ_{u in S} F(k_u, t, i)            mod 2^w, centred: the number of least absolute value
//! ```
//!
//! `M_i` is the exact sum while it fits `w` bits as a signed number: [`Width::for_senders`].
//! Castelluccia, Mykletun, Tsudik (2005, 2009).
//!
//! **What it rests on.** ChaCha20's stream cannot be told from random, and no pair `(k_u, t)`
//! serves two packets: the difference of two such packets would be the difference of their samples.
//! So [`MaskSender`] takes ticks in increasing order only, whoever asks, and there is no way to
//! give the stream's place. That keys differ from session to session is for whoever derives them.
//!
//! # The authenticator
//! Over `p = 2^61 - 1`, twice with independent numbers (Agrawal, Boneh, ACNS 2009; Catalano, Fiore,
//! Eurocrypt 2013; degree one):
//!
//! ```text
//! tag_u = Σ_i α_{t,i} m_{u,i} + ν_{u,t}               α from a key of all, ν from a key of the session
//! T     = Σ_{u in S} tag_u                            by the server, modulo p
//! accept  T = Σ_i α_{t,i} M_i + Σ_{u in S} ν_{u,t}
//! ```
//!
//! Whoever does not hold the keys and gives other sums, another `S` or another tick passes with
//! probability at most `2^-120`: the `ν` hide the `α`, which are drawn for one tick; `Σ ν` depends
//! on every session in `S`, each counted once. Tags say nothing while no `(u, t)` has two of them
//! ([`TagSender`] sees to it); two would be a linear equation in the `α`. Whoever holds the keys
//! can forge: senders and receivers are one group here.
//!
//! The tag is over integers and knows nothing of the cipher, so it serves any additive mode:
//! [`TagSender`] and [`TagReceiver`] are for those whose ciphertexts are not masks.
//!
//! # Cost
//! A receiver draws the streams of all in `S` and adds them, in lanes, without putting any in
//! order; beside it everything else is small: 1,284 bytes of ChaCha20 a sender and a packet of 321
//! samples.
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

/// The largest number of senders that a receiver holds keys of.
pub const MAX_SENDERS: usize = 4096;
/// The largest number of samples in a packet.
pub const MAX_SAMPLES: usize = 1024;
