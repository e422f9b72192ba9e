//! The clients' halves in a browser, behind functions that JavaScript can call: a member of a live
//! call (feature `call`), the client of an inference or a search (feature `ask`), and the key
//! holder of a fleet (feature `sense`). Each feature is compiled to a module of its own, so that no
//! page loads code that it does not run. Feature `mls` is `call` with the code for calls whose
//! members agree on keys.
//!
//! **Computation.** [`Client`] converts between the rate of the sound card and the 16 kHz frames of
//! a call ([`Resampler`]), and connects microphone, member and playback as the command-line client
//! does. [`infer::Asker`] makes the key for a model, encrypts an image under it and decrypts the
//! answer, as `tobari infer` does. [`search::Searcher`] queries a table, as `tobari search query`
//! does. [`sense::Fleet`] is the key holder of `tobari sense`, with devices that the tab simulates.
//! No code of the server is included.
//!
//! **Access.** The compiled modules import nothing: they can reach neither the network, nor a
//! clock, nor the page's memory. The page gives them randomness, the link, samples, pixels and the
//! server's messages, and gets the data to send, play and show ([`abi`]). Secrets and all keys stay
//! in the module's memory; buffers with a link or a key are wiped after they are read. Copies that
//! JavaScript itself holds (a string, the address bar, a stored key) cannot be wiped.
//!
//! **The source of the code.** The server of the page serves this module too.
//! `book/src/explanation/threats/call.md` begins with the consequences.
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
