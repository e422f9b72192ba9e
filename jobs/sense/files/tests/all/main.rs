//! Frames through a planned job.

#![allow(clippy::unwrap_used, reason = "a test")]

mod sense_job;
