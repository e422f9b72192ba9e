//! The cryptography of Tobari under one name.
//!
//! [`tobari_curve`], [`tobari_lattice`] and [`tobari_aes`] have crates of their own; this one adds
//! what live rooms need: masks, and the bytes of their packets.
//!
//! No I/O, no clock, no thread: randomness is an argument.

#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod fuzz;
pub mod mask;
pub mod wire;

pub use tobari_curve::elgamal;
pub use tobari_lattice::{bgv, ckks, ring, rlwe};

/// Prime-order curves, and batches of their points.
pub mod curve {
    pub use tobari_curve::{
        Adder, BuiltCurve, Curve, DiscreteLog, FixedBase, Mismatch, NotInRange, PointEncoding, PointError, Points,
        Scalar, ScalarError, UnknownCurve, VartimeFixedBase,
    };
}

/// Parameters of both kinds of cryptography.
pub mod params {
    pub use tobari_curve::params::{FLOOR_BITS, Parameters, RECOMMENDED_BITS, RefusedCurve, SecurityFloor};
    pub use tobari_lattice::params::{LatticeError, LatticeParameters, NamedSet, Plaintext, Security};
}

/// The loops, and which of them a process uses.
pub mod simd {
    pub use tobari_aes as aes;
    pub use tobari_curve::CurveKernels;
    pub use tobari_lattice::RingKernels;
    pub use tobari_simd::{Backend, BackendInUse, StreamKernels, choose_backend};
}
