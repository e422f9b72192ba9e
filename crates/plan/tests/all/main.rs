//! Programs, plans, their check, and dispatch.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod dispatch;
mod places;
mod plans;
mod scale;
mod secrecy;
mod sums;
