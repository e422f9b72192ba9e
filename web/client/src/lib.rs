//! The clients' halves in a browser, behind functions that JavaScript can call: a member of a live
//! call (feature `call`), who asks about an image or a table (feature `ask`), and the key holder of
//! a fleet (feature `sense`). Each feature is a module of its own, so that no page loads what it
//! does not run; `mls` is `call` with what calls need whose members agree on keys.
//!
//! **What is computed.** [`Client`] joins the rate of the sound card to the frames of 16 kHz that a
//! call is made of ([`Resampler`]), and joins microphone, member and ear as the command-line client
//! does. [`infer::Asker`] makes the key of a model, encrypts an image under it and reads the
//! answer, as `tobari infer` does, and [`search::Searcher`] asks a table, as `tobari search query`
//! does; [`sense::Fleet`] is the key holder of `tobari sense`, and the devices of a fleet that the
//! tab plays. It is the clients' half only: nothing of the server is in it.
//!
//! **Who sees what.** The compiled modules import nothing: they can reach neither network, nor
//! clock, nor memory of the page. They are given randomness, the link, samples, pixels and what
//! came from the server, and give back what is to be sent, played and shown ([`abi`]). Secrets and
//! all keys stay in their memory; buffers that held a link or a key are wiped when they were read.
//! What JavaScript itself held of them (a string, the address bar, a kept key) cannot be wiped.
//!
//! **Whose code it is.** Whoever serves the page serves this module too.
//! `book/src/explanation/threats/call.md` begins with what follows from that.
//!
//! Built by `cargo xtask web` for `wasm32-unknown-unknown` with vectors (`simd128`):
//! `web/dist/tobari.wasm` for calls, `web/dist/tobari-mls.wasm` for calls whose members agree on
//! keys, `web/dist/ask.wasm` for questions, `web/dist/sense.wasm` for fleets.

#![deny(unsafe_code)] // `abi` exports names, which the compiler counts as unsafe; there is no unsafe block

pub mod abi;
#[cfg(feature = "call")]
mod client;
#[cfg(feature = "ask")]
pub mod infer;
#[cfg(feature = "call")]
mod resample;
#[cfg(feature = "ask")]
pub mod search;
#[cfg(feature = "sense")]
pub mod sense;

#[cfg(feature = "call")]
pub use client::{Client, LinkOrder, Links, Start, StartError, Thing, describe, guests_link, make_links};
#[cfg(feature = "call")]
pub use resample::{RateError, Resampler};
