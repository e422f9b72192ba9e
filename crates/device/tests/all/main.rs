//! Frames, and the vectors that pin them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod frames;
mod vectors;
