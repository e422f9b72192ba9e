//! Homomorphic encryption over lattices: exact integers ([`bgv`]) and approximate numbers
//! ([`ckks`]).
//!
//! Modules, each built on those after it: [`wire`] → [`bgv`], [`ckks`] → [`rlwe`] → [`params`] →
//! [`ring`] → the loops of `kernels`, which [`RingKernels`] collects in a table. Start with
//! [`ring`]: each module head is a chapter, and `examples/1_encrypt.rs` to `6_errors.rs` are
//! lessons.
//!
//! The crate has no I/O, clock or thread, and no global state except the choice of a backend.
//! Randomness is an argument. Only the folder `kernels` contains `unsafe`.

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
