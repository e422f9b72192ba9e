//! Classified images: layouts, models, precision and refusals, in the clear and under encryption.

#![allow(clippy::unwrap_used, reason = "a test")]

mod batched;
mod digits;
mod encrypted;
mod guarded;
mod kept;
mod layout;
mod model;
mod offer;
mod precision;
mod refused;
mod world;
