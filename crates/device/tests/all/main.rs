//! Frames, and the vectors that hold them in place.

#![allow(clippy::unwrap_used, reason = "a test")]

mod frames;
mod vectors;
