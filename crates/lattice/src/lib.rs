//! Homomorphic encryption over lattices: exact integers ([`bgv`]) and approximate numbers
//! ([`ckks`]).
//!
//! Rooms, each standing on those after it: [`wire`] → [`bgv`], [`ckks`] → [`rlwe`] → [`params`] →
//! [`ring`] → the loops of `kernels`, of which [`RingKernels`] is a table. Read them from [`ring`]
//! on: each head is a chapter, and `examples/1_encrypt.rs` to `6_errors.rs` are lessons.
//!
//! No I/O, no clock, no thread, no global state but the choice of a backend: randomness is an
//! argument. Only the folder `kernels` holds `unsafe`.

#![deny(unsafe_code)]

pub mod bgv;
pub mod ckks;
#[doc(hidden)]
pub mod fuzz;
mod kernels;
pub mod params;
pub mod ring;
pub mod rlwe;
pub mod wire;

pub use kernels::RingKernels;
