//! Inference with an enclave: an image goes in through the attested channel, a label comes out of
//! it, and the keys of what is in between are born inside.
//!
//! # Combinations
//! A [`Route`] says what is done where and in which form ([`Combination`]). "Process" is the host's
//! own, unprotected one.
//!
//! | combination | linear maps | squares | what the process sees |
//! |---|---|---|---|
//! | `enclave-plain` | enclave, in integers | enclave | sizes and times |
//! | `enclave-user-data` | enclave, on ciphertexts | the same | the same |
//! | `enclave-both` | enclave, weights encrypted too | the same | the same |
//! | `process-user-data` | process, on ciphertexts | the same | ciphertexts; it has the weights |
//! | `process-both` | process, weights encrypted too | the same | ciphertexts of both; the model's shape |
//! | `mixed-plain-reset` | process, on ciphertexts | enclave, in the clear | ciphertexts; it has the weights |
//! | `mixed-masked-reset` | process, on ciphertexts | the same | ciphertexts; it has the weights |
//!
//! In `enclave-user-data` and `enclave-both` the key is in the same enclave as what is computed
//! with it: they keep images (and weights) from whoever watches which memory the long computations
//! touch, not from whoever reads the key.
//!
//! # A session
//! ```text
//! client                        process                               inside
//!                               keys (once; then empty) ────────────▶ evaluation keys, weights under the session's key
//!   image, sealed ────────────▶                        ────────────▶ kept
//!                               input                  ────────────▶ the image, encrypted
//!                               reset k, of each stage ────────────▶ encrypted anew
//!                               result                 ────────────▶ decrypted, judged, kept
//!   ask, sealed ──────────────▶                        ────────────▶ the label, sealed
//! ```
//!
//! The script in the attested configuration fixes which of these come, in which order, and how
//! often: a host that asks for another decryption ends the session. **Every decryption is an
//! oracle**: what comes in as a result or at a reset is whatever the host chose. Against that
//!
//! * each session has a key of its own, so that another session's ciphertext decrypts to noise,
//!   which is refused;
//! * what leaves is by the output policy, the label by default; scores of any precision are refused
//!   where the host holds encrypted weights, and exact ones wherever it holds ciphertexts
//!   ([`Setup::configuration`]);
//! * in `process-*` and `mixed-*` the host is still **semi-honest**: it can hand in a wrong result,
//!   and the client is told a wrong label.
//!
//! # Resets
//! *Plain*: inside, sums are decrypted, limited to ±16, squared, and encrypted in the places of the
//! next stage's input: activations are in the clear in the enclave. *Masked*: the process squares,
//! then adds a mask to the polynomial, uniform on `[-2^b, 2^b)` in every coefficient, as wide as
//! the modulus leaves room for; inside, sum and mask are decrypted as integers and encrypted under
//! the next stage's modulus; the process subtracts the mask there; before the last stage nothing is
//! reset, as it takes no more primes than there are left. A result `m` of slots below `M` at scale
//! `Δ` over a ring of degree `N` is hidden from the inside (from who watches it, for the key itself
//! is there) up to the statistical distance
//!
//! ```text
//! N Δ M / 2^(b + 1)      a reset, for each coefficient of the message is below Δ M,
//! ```
//!
//! which adds up: a configuration whose resets could exceed `2^-20` over all images of a session is
//! refused ([`Route::distance_bits`]). `M` is the square of the largest sum that any image leads
//! to.
//!
//! # Leakage
//! Inside, no branch or address depends on an image, a sum or a label; an image of the wrong
//! length, a ciphertext of the wrong shape and noise in place of a result end the session, and look
//! the same. Decoding to doubles branches on whether *all* coefficients of a decrypted polynomial
//! are small, which they are but for noise.

mod client;
mod host;
mod inside;
mod offer;
mod route;
mod wire;

pub use client::{AskError, Asker, EnclaveAnswer};
pub use host::{Counted, Host, HostError, HostSession, ParkedSession, Timings, Traffic};
pub use inside::Guarded;
pub use offer::{Expected, MAX_OFFER_BYTES, Offer, OfferError, Unexpected, fuzz_offer};
pub use route::{Combination, Route, RouteError, Setup, SetupError, fuzz_setup};
