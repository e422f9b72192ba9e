//! The server over real sockets, with a job for tests only and without any job.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod house;
mod toy;
