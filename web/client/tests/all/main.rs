//! The computations of the pages.

#![allow(clippy::unwrap_used, reason = "a test")]

#[cfg(feature = "ask")]
mod infer;
#[cfg(feature = "call")]
mod room;
#[cfg(feature = "ask")]
mod search;
#[cfg(feature = "sense")]
mod sense;
