//! Statistics over the frames of devices: both designs, the key holder's desk, and weights.

#![allow(clippy::unwrap_used, reason = "a test")]

mod aes;
mod desk;
mod exact;
mod fleet;
mod linear;
mod stamped;
mod weights;
mod wide;
mod world;
