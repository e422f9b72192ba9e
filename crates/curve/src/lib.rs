//! Prime-order curves, batches of their points, and lifted ElGamal, whose ciphertexts anybody can
//! add.
//!
//! Rooms, each standing on those after it: [`wire`] → [`elgamal`] → [`params`] → the curves, whose
//! items are those of this page → the loops of `kernels`, of which [`CurveKernels`] is a table.
//!
//! No I/O, no clock, no thread, no global state but the choice of a backend and tables of public
//! points: randomness is an argument. Only the folder `kernels` holds `unsafe`.

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
