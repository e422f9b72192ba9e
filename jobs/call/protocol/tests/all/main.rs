//! Calls: rooms of recordings, live rooms, and the members of both.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod client;
mod live;
mod live_wire;
mod room;
