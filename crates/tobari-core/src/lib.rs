//! The cryptography of Tobari.
//!
//! Rooms, each standing on those after it: [`wire`] → [`elgamal`] → [`curve`] → `simd`; [`params`] beside them.
//! No I/O, no clock, no thread, no global state but tables of constants and the choice of a backend: randomness is an argument.

#![deny(unsafe_code)]

pub mod bgv;
pub mod curve;
pub mod elgamal;
#[doc(hidden)]
pub mod fuzz;
pub mod params;
pub mod ring;
pub mod rlwe;
pub mod simd;
pub mod wire;
