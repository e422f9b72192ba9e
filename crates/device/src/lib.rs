//! What a sensor runs: readings sealed so that a server can compute with them and cannot read them.
//! No standard library, no allocation, no `unsafe`; a frame is made in less than 8 KiB of stack.
//!
//! **What is computed.** A device has a secret `s`, a vector of small polynomials of
//! `R_q = Z_q[X]/(X^256 + 1)`, and hides 256 bytes `m`, one in each coefficient, under a sample of
//! module learning with errors:
//!
//! ```text
//! b = Σ_i a_i s_i + Δ m + e   (mod q),      s_i, e from CBD(3), so that |e| ≤ 3,
//! ```
//!
//! where the `a_i` are uniform and public, drawn in the domain of the transform from the frame's
//! head and nonce. Whoever has `s` takes `Σ a_i s_i` off and finds `Δ m + e`. A server that has the
//! transform of `s` under homomorphic encryption does the same blindly: `q` is that scheme's
//! plaintext modulus, and the subtraction is slot by slot ([`Uniform`]). The paper: the comparison
//! of homomorphic encryption between IoT devices and a cloud, its design 3; this is another scheme
//! than the paper's additive one, whose degree of 128 protects nothing and whose conversion leaves
//! noise in the result.
//!
//! | profile | q | rank | Δ | body | frame |
//! |---|---|---|---|---|---|
//! | [`P1`] | 65,537 | 3 | 256 | 513 B | 553 B |
//! | [`U25`] | 33,292,289 | 4 | 512 | 800 B | 840 B |
//! | [`GcmDevice`] | AES-128-GCM, for servers that evaluate AES | | | 256 B | 284 B |
//!
//! **A frame**, version 1, little-endian: version and profile (1), device number (3), counter (4),
//! nonce (16), body, MAC (16). A device number names one key: who is given a new key is given a new
//! number. The MAC is HMAC-SHA-256, cut to 128 bits, over everything before it, under a key that
//! ingest has too: one attempt to forge succeeds with probability `2^-128`.
//!
//! **The nonce is synthetic**: `nonce ‖ rest = PRF(key, attempt ‖ head ‖ m)`, the noise is
//! `PRF(key', nonce ‖ rest)`. If a counter ever comes twice, because storage was restored, two
//! different readings still have different nonces and different noise (equal with probability
//! `2^-128`; among `2^30` frames, each counter twice at the most, below `2^-98`), and the same
//! reading gives the same frame. With the counter as nonce the difference of two readings under one
//! counter could be read off: a test does so. AES-GCM has no such net: there a repeated counter is
//! fatal, and the [`CounterStore`]'s contract is all there is.
//!
//! # Security
//! The lattice-estimator (Albrecht, Player, Scott; revision 27a581b of June 2026, cost model
//! MATZOV, secret and noise centred binomial, `2^40` samples), operations:
//!
//! | | dimension | log2 q | primal | bounded distance | dual | hybrid dual | hybrid decoding | coded BKW | Arora-Ge, Gröbner | β, core-SVP |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | [`P1`] | 768 | 16 | 2^158.5 | 2^155.5 | 2^163.8 | **2^154.6** | 2^155.5 | 2^225 | 2^249 | 456, 2^133.2 |
//! | [`U25`] | 1024 | 25 | 2^135.3 | **2^133.5** | 2^138.5 | 2^134.0 | 2^133.5 | 2^244 | 2^320 | 370, 2^108.0 |
//!
//! Both are above `2^128` operations for every attack that it knows; by core-SVP, which leaves out
//! what is beside one call of the sieve, U25 stands at 108, where Kyber-512 stands at 118. The
//! structure of modules gives no better attack that is known.
//!
//! **How many samples there are is part of the claim**: noise of seven values falls to plain linear
//! algebra over about `768^7/7! ≈ 2^55` samples, at about `2^110` operations, and the Gröbner basis
//! above is for `2^40`. So a device seals at most [`FRAME_LIMIT`] frames, `2^38` samples, under a
//! key, and then refuses. There is no way to raise the limit.
//!
//! That of the rest: HMAC-SHA-256 as PRF and MAC, ChaCha20 under a key that everybody knows as an
//! expansion that lattices don't know (as all of this project's seeds).
//!
//! # Who sees what
//! Who holds a MAC key can forge frames of that device, and reads nothing. Who holds the root reads
//! all of its frames. Everybody sees device numbers, counters, how many frames there are and when.
//! **A device can lie**: any reading, and any point between the valid ones; nobody but the key
//! holder could tell.
//!
//! # Timing
//! No branch and no address depends on `s`, `m` or `e`. Multiplications are 32 by 32 bits: of
//! constant time on Cortex-M4 and above and on every larger core, not on Cortex-M3. Reductions are
//! masks. The number of attempts depends on the body, which is public: a second one is needed with
//! probability below `2^-81`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod counter;
mod device;
mod field;
mod frame;
mod fuzz;
mod gcm;
mod holder;
mod ingest;
mod pack;
mod profile;
mod schedule;

pub use counter::{BLOCK, CounterError, CounterStore, Counters, FRAME_LIMIT, InsecureVolatileCounter};
pub use device::{Device, SealError};
pub use frame::{DeviceNumber, HEAD, Head, MAC, NONCE, READINGS, Refused, VERSION};
#[doc(hidden)]
pub use fuzz::fuzz_frames;
pub use gcm::{GCM_FRAME, GcmDevice, GcmOpener, gcm_key};
pub use holder::{OffGrid, Opener};
pub use ingest::{Envelope, MacKey, ReplayWindow, Uniform, WINDOW, peek};
pub use profile::{P1, Profile, U25, transform_root};
pub use schedule::Root;
