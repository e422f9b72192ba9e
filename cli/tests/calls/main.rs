//! Calls in real time: no other test of this crate runs at the same time.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which say what they did not run")]

mod call_live;
mod mix;
#[path = "../support/mod.rs"]
mod support;
