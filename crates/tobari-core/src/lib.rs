//! The cryptography of Tobari.
//!
//! Rooms, each standing on those after it: [`wire`] → [`elgamal`] → [`curve`] → [`simd`], [`wire`] → [`mask`] → [`simd`], and [`wire`] →
//! [`bgv`], [`ckks`] → [`rlwe`] → [`params`] → [`ring`] → [`simd`]. Read the latter from [`ring`] on: each head is a chapter, and `examples/1_encrypt.rs` to
//! `6_errors.rs` are lessons.
//!
//! No I/O, no clock, no thread, no global state but the choice of a backend and tables of public points: randomness is an argument.

#![deny(unsafe_code)]

pub mod bgv;
pub mod ckks;
pub mod curve;
pub mod elgamal;
#[doc(hidden)]
pub mod fuzz;
pub mod mask;
pub mod params;
pub mod ring;
pub mod rlwe;
pub mod simd;
pub mod wire;
