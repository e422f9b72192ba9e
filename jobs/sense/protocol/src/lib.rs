//! Statistics and alarms over device readings that the server never sees.
//!
//! **The computation.** A device hides 256 readings, bytes, in a frame `b = Σ a_i s_i + Δ m + e` of
//! `Z_q[X]/(X^256 + 1)` ([`tobari_device`]). The server has the transforms of the secrets under BGV
//! whose **plaintext modulus is `q`**, a block of 256 slots for each device, and subtracts them:
//!
//! ```text
//! x^ = b^ - Σ a_i^ · LHE(s_i^)  =  LHE((Δ m + e)^)
//! ```
//!
//! with as many products as a secret has polynomials, for all devices of a ciphertext at once. Then
//! one of two paths follows:
//!
//! * **Linear** ([`linear`]): sums of `x^`, weighted by device and time, are transforms of sums.
//!   The key holder decrypts, transforms back and rounds. This takes no level, and needs evaluation
//!   keys only for sums over blocks. It is exact while `Δ Σ w m` and the summed noise stay within
//!   `q` and `Δ/2` ([`bounds`]): 254 devices of full scale in U25, 1,026 in U28. The planner
//!   rejects more.
//! * **Exact** ([`exact`]): the transform back runs under encryption, as two linear maps of 16 and
//!   31 diagonals. Then a polynomial that is interpolated **on the valid points alone**,
//!   `{256 m + e : |e| ≤ 3}`, removes the noise. It has degree 1,791 and so takes eleven levels. It
//!   costs the same for any function of a byte: the reading itself, a comparison with a threshold,
//!   membership in a bin, a half of its square. At least three levels are left afterwards.
//!
//! The paper is the comparison of homomorphic encryption between IoT devices and a cloud. It
//! decrypts bit by bit, with `n²` products for each ciphertext, at a degree of 128 that protects
//! nothing, and its result keeps the noise.
//!
//! [`direct`] is the baseline: devices that encrypt under the homomorphic scheme themselves, packed
//! and bit by bit.
//!
//! **Who sees what.** The server sees device numbers, counters, sizes, times and queries; no
//! reading. The key holder could decrypt everything, and must not collude with the server; it gets
//! results. Devices see their own readings. **The server is trusted to run the registered query**:
//! the key holder cannot tell from a ciphertext to which query it belongs, and an active server
//! could submit a single reading as a sum. Undeclared slots of a result must be zero, and one
//! number in many slots must be the same in all of them. These checks limit damage and prove
//! nothing.
//!
//! **Not protected.** A device can send any reading, and points between the valid ones, which the
//! polynomial maps anywhere. Ingest detects forged, malformed and replayed frames, and nothing
//! else.

#![forbid(unsafe_code)]

pub mod aes;
pub mod analytics;
pub mod bounds;
pub mod bundle;
pub mod client;
pub mod cloud;
pub mod desk;
pub mod direct;
pub mod enrol;
pub mod exact;
pub mod holder;
pub mod ingest;
pub mod interpolation;
pub mod layout;
pub mod linear;
mod lists;
pub mod message;
pub mod order;
pub mod program;
pub mod question;
pub mod registry;
pub mod release;
pub mod schema;
pub mod server;
pub mod setting;

pub use bounds::{Overflow, Scheme};
#[doc(hidden)]
pub use bundle::fuzz_bundle;
#[doc(hidden)]
pub use enrol::fuzz_enrolment;
#[doc(hidden)]
pub use holder::fuzz_registry;
pub use layout::{Arrangement, Layout};
#[doc(hidden)]
pub use message::fuzz_window_results;
#[doc(hidden)]
pub use question::fuzz_questions;
pub use schema::{ProfileName, Schema};
#[doc(hidden)]
pub use tobari_device as devices;
