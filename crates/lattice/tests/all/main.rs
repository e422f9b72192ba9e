//! Bytes of objects, transforms, and the bits of approximate numbers.

#![allow(clippy::unwrap_used, reason = "a test")]

mod ckks_bits;
mod identities;
mod refresh;
mod transform_sum;
mod traps;
mod wire;
