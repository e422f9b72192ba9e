//! Functions without arguments that a host can time, with the shipped, constant-time code. The
//! randomness is a fixed seed's: for timing only.
//!
//! The comparison of bits leaves out the feature `curves`, whose loops take a minute to compile.

mod bits;
mod frames;
mod lattice;
mod mask;
#[cfg(feature = "curves")]
mod shared;
