//! Tables from files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod variants;
mod variants_phase;
