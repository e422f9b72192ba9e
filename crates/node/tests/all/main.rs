//! The house over real sockets, with a job that nothing else knows and without any.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod house;
mod toy;
