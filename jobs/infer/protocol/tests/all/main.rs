//! Image classification: layouts, models, precision and rejections, on plaintext and under
//! encryption.

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
