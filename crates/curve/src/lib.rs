//! Prime-order curves, batches of their points, and lifted ElGamal. Anybody can add its
//! ciphertexts.
//!
//! Modules, each built on those after it: [`wire`] → [`elgamal`] → [`params`] → the curves, whose
//! items are on this page → the loops of `kernels`, which [`CurveKernels`] collects in a table.
//!
//! The crate has no I/O, clock or thread, and no global state except the choice of a backend and
//! tables of public points. Randomness is an argument. Only the folder `kernels` contains `unsafe`.

#![deny(unsafe_code)]

mod curve;
pub mod elgamal;
#[doc(hidden)]
pub mod fuzz;
mod kernels;
pub mod params;
pub mod wire;

pub use curve::{
    Adder, BuiltCurve, Curve, DiscreteLog, FixedBase, Mismatch, NotInRange, PointEncoding, PointError, Points, Scalar,
    ScalarError, UnknownCurve, VartimeFixedBase,
};
pub use kernels::CurveKernels;

/// The front page of the package, whose example is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct FrontPage;
