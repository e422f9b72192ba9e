//! Evidence, channel and sessions, with an enclave in the same process: what is refused, and what ends.

#![allow(clippy::unwrap_used, reason = "a test")]

mod bytes;
mod channel;
mod evidence;
mod job;
mod script;
mod seal;
