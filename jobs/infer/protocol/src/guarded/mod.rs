//! Inference with an enclave: an image goes in through the attested channel, a label comes out, and
//! the keys for the steps in between are generated inside.
//!
//! # Combinations
//! A [`Route`] states where each step runs and in which form ([`Combination`]). "Process" is the
//! host's own, unprotected process.
//!
//! | combination | linear maps | squares | the process sees |
//! |---|---|---|---|
//! | `enclave-plain` | enclave, in integers | enclave | sizes and times |
//! | `enclave-user-data` | enclave, on ciphertexts | the same | the same |
//! | `enclave-both` | enclave, weights encrypted too | the same | the same |
//! | `process-user-data` | process, on ciphertexts | the same | ciphertexts; it has the weights |
//! | `process-both` | process, weights encrypted too | the same | ciphertexts of both; the model's shape |
//! | `mixed-plain-reset` | process, on ciphertexts | enclave, plain | ciphertexts; the weights |
//! | `mixed-masked-reset` | process, on ciphertexts | the same | ciphertexts; it has the weights |
//!
//! `enclave-plain` also takes networks of other kinds, at any depth and with any activation
//! ([`PlainNetwork`]), which run in doubles; and `mixed-plain-reset` takes those whose maps the
//! process can compute ([`MixedNetwork`]). All other combinations take a [`Model`](crate::Model)
//! alone.
//!
//! In `enclave-user-data` and `enclave-both` the key is in the same enclave as the computation.
//! They protect images (and weights) from an attacker who observes the memory accesses of the long
//! computations, but not from an attacker who reads the key.
//!
//! # A session
//! ```text
//! client                 process                           inside
//!                        keys (once; then empty) ────────▶ returns evaluation keys, and weights
//!                                                          under the session's key
//!   image, sealed ─────▶                         ────────▶ stores the image
//!                        input                   ────────▶ returns the image, encrypted
//!                        reset k, of each stage  ────────▶ returns the values, encrypted again
//!                        result                  ────────▶ decrypts the result, stores the label
//!   ask, sealed ───────▶                         ────────▶ returns the label, sealed
//! ```
//!
//! The script in the attested configuration fixes the messages, their order and their number: a
//! host that asks for another decryption ends the session. **Every decryption is an oracle**: the
//! host chooses the ciphertext of a result or a reset. The defences are:
//!
//! * Each session has a key of its own. Another session's ciphertext decrypts to noise, which is
//!   rejected.
//! * The output policy decides on the output, by default the label. Where the host holds encrypted
//!   weights, scores of any precision are rejected. Where anything is encrypted, exact scores are
//!   rejected ([`Setup::configuration`]).
//! * In `process-*` and `mixed-*` the host is still **semi-honest**: it can pass in a wrong result,
//!   and the client gets a wrong label.
//!
//! # Resets
//! *Plain*: inside, sums are decrypted, limited to ±16, squared, and encrypted in the places of the
//! next stage's input. The enclave holds the activations unencrypted.
//!
//! *Masked*: the process squares, then adds to the polynomial a mask that is uniform on `[-2^b,
//! 2^b)` in every coefficient, as wide as the modulus has room for. Inside, sum and mask are
//! decrypted as integers and encrypted under the next stage's modulus; the process then subtracts
//! the mask. Before the last stage there is no reset, because that stage needs no more primes than
//! are left. A result `m` of slots below `M` at scale `Δ` over a ring of degree `N` is hidden from
//! the inside (from an observer of the enclave; the key itself is there) up to the statistical
//! distance
//!
//! ```text
//! N Δ M / 2^(b + 1)      a reset, for each coefficient of the message is below Δ M,
//! ```
//!
//! The distances add up: a configuration whose resets could exceed `2^-20` over all images of a
//! session is rejected ([`Route::distance_bits`]). `M` is the square of the largest sum that any
//! image can give.
//!
//! # Leakage
//! Inside, no branch or address depends on an image, a sum or a label. An image of the wrong
//! length, a ciphertext of the wrong shape, and noise in place of a result all end the session, and
//! look the same. A network of another kind must keep these rules in its own code
//! ([`PlainNetwork::logits`], [`Numbers::visit`]). Decoding to doubles branches on whether *all*
//! coefficients of a decrypted polynomial are small; they are, unless it is noise.

mod client;
mod host;
mod inside;
mod networks;
mod offer;
mod route;
mod wire;

pub use client::{AskError, Asker, EnclaveAnswer};
pub use host::{
    Counted, Host, HostError, HostSession, ParkedSession, ProcessNetwork, ProcessSession, Timings, Traffic,
    VisitEnclave,
};
pub use inside::Guarded;
pub use networks::{Foreign, MixedNetwork, NetworkSetup, Numbers, PlainNetwork};
pub use offer::{Expected, MAX_OFFER_BYTES, Offer, OfferError, Unexpected, fuzz_offer};
pub use route::{Combination, Route, RouteError, Setup, SetupError, fuzz_setup};
