//! The sensor's side: encrypted readings that a server can compute with and cannot read. The crate
//! uses no standard library, no allocation and no `unsafe`. It makes a frame in less than 8 KiB of
//! stack.
//!
//! **The computation.** A device has a secret `s`, a vector of small polynomials of
//! `R_q = Z_q[X]/(X^256 + 1)`. It hides 256 bytes `m`, one in each coefficient, under a sample of
//! module learning with errors:
//!
//! ```text
//! b = Σ_i a_i s_i + Δ m + e   (mod q),      s_i, e from CBD(3), so that |e| ≤ 3,
//! ```
//!
//! where the `a_i` are uniform and public, drawn in the domain of the transform from the frame's
//! head and nonce. The owner of `s` subtracts `Σ a_i s_i` and gets `Δ m + e`. A server that has the
//! transform of `s` under homomorphic encryption subtracts it without seeing it: `q` is that
//! scheme's plaintext modulus, and the subtraction is slot by slot ([`Uniform`]). The design is
//! number 3 of the paper that compares homomorphic encryption between IoT devices and a cloud. The
//! scheme is not the paper's additive one: its degree of 128 protects nothing, and its conversion
//! leaves noise in the result.
//!
//! | profile | version | q | rank | Δ | body | frame |
//! |---|---|---|---|---|---|---|
//! | [`P1`] | 1 | 65,537 | 3 | 256 | 513 B | 553 B |
//! | [`U25`] | 1 | 33,292,289 | 4 | 512 | 800 B | 840 B |
//! | [`P17`] | 2 | 65,537 | 3 | 256 | 513 B | 560 B |
//! | [`U28`] | 2 | 268,042,241 | 5 | 1,024 | 896 B | 943 B |
//! | [`GcmDevice`] | 1 | AES-128-GCM, for servers that evaluate AES | | | 256 B | 284 B |
//!
//! **A frame**, little-endian: version and profile (1), device number (3), counter (4); in version
//! 2, time (5) and sheet (2); nonce (16), body, MAC (16). The [`Stamp`] tells when the readings
//! were taken, and which part of a long row they are. A device number names one key: a device with
//! a new key gets a new number. The MAC is HMAC-SHA-256, cut to 128 bits, over everything before
//! it. Ingest has the MAC key, too. One attempt to forge a frame succeeds with probability
//! `2^-128`. **All keys depend on the profile, and so on the version**: nobody can make a frame of
//! an older version pass for one of a fleet with a newer one.
//!
//! **The nonce is synthetic**: `nonce ‖ rest = PRF(key, attempt ‖ head ‖ m)`, and the noise is
//! `PRF(key', nonce ‖ rest)`. A counter can repeat after storage was restored. Then two different
//! readings still have different nonces and different noise (equal with probability `2^-128`; among
//! `2^30` frames, each counter twice at the most, below `2^-98`), and the same reading gives the
//! same frame. With the counter as nonce, an attacker could read off the difference of two readings
//! under one counter: a test does so. AES-GCM has no such protection: a repeated counter is fatal
//! there, and only the [`CounterStore`]'s contract prevents it.
//!
//! # Security
//! Operations by the lattice-estimator (Albrecht, Player, Scott; revision 27a581b of June 2026,
//! cost model MATZOV, secret and noise centred binomial, `2^40` samples):
//!
//! | | [`P1`], [`P17`] | [`U25`] | [`U28`] |
//! |---|---|---|---|
//! | dimension | 768 | 1024 | 1280 |
//! | log2 q | 16 | 25 | 28 |
//! | primal | 2^158.5 | 2^135.3 | 2^151.9 |
//! | bounded distance | 2^155.5 | **2^133.5** | **2^150.1** |
//! | dual | 2^163.8 | 2^138.5 | 2^155.3 |
//! | hybrid dual | **2^154.6** | 2^134.0 | 2^150.2 |
//! | hybrid decoding | 2^155.5 | 2^133.5 | 2^150.1 |
//! | coded BKW | 2^225 | 2^244 | 2^299 |
//! | Arora-Ge, Gröbner | 2^249 | 2^320 | 2^394 |
//! | β, core-SVP | 456, 2^133.2 | 370, 2^108.0 | 429, 2^125.3 |
//!
//! All take more than `2^128` operations for every attack of the estimator. Core-SVP counts only
//! one call of the sieve: by this measure U25 has 108 bits, Kyber-512 has 118 and U28 has 125. In
//! operations of the estimator, Kyber-512 has `2^140.2`, fewer than P1, P17 and U28. No better
//! attack on the structure of modules is known.
//!
//! **The claim depends on the number of samples.** Noise of seven values falls to plain linear
//! algebra, with the square of the samples in operations. For [`P1`] that is about
//! `768^7/7! ≈ 2^55` samples and `2^110` operations; for [`U25`] it is `1024^7/7! ≈ 2^58` samples
//! and `2^115` operations, and for [`U28`] `2^60` and `2^120`. These operation counts are below
//! `2^128`, and the Gröbner basis above is for `2^40` samples. So a device encrypts at most
//! [`FRAME_LIMIT`] frames, `2^38` samples, under a key, and then returns an error. The limit cannot
//! be raised.
//!
//! The remaining assumptions: HMAC-SHA-256 is a PRF and a MAC, and ChaCha20 under a public key is
//! an expansion independent of lattices (as for all seeds of this project).
//!
//! # Who sees what
//! The owner of a MAC key can forge frames of that device, and reads nothing. The owner of the root
//! reads all of its frames. Everybody sees device numbers, counters, and the number and time of
//! frames. **A device can lie**: it can send any reading, and any point between the valid ones.
//! Only the key holder could notice.
//!
//! # Timing
//! No branch and no address depends on `s`, `m` or `e`. Multiplications are 32 by 32 bits: constant
//! time on Cortex-M4 and above and on every larger core, not on Cortex-M3. Reductions are masks.
//! The number of attempts depends on the body, which is public: a second attempt is needed with
//! probability below `2^-81`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod counter;
mod device;
mod field;
mod flash;
mod frame;
mod fuzz;
mod gcm;
mod holder;
mod ingest;
mod pack;
mod profile;
mod schedule;
mod timing;

pub use counter::{BLOCK, CounterError, CounterStore, Counters, FRAME_LIMIT, InsecureVolatileCounter};
pub use device::{Device, SealError};
pub use flash::{FlashCounter, FlashError};
pub use frame::{DeviceNumber, HEAD, Head, MAC, NONCE, READINGS, Refused, STAMPED_HEAD, Stamp};
#[doc(hidden)]
pub use fuzz::fuzz_frames;
pub use gcm::{GCM_FRAME, GcmDevice, GcmOpener, gcm_key};
pub use holder::{OffGrid, Opener};
pub use ingest::{Envelope, MacKey, ReplayWindow, Uniform, WINDOW, peek};
pub use profile::{P1, P17, Profile, U25, U28, transform_root};
pub use schedule::Root;
#[doc(hidden)]
pub use timing::time_a_frame;
