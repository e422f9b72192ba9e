//! The server over real sockets: one program, because each program would compile its own server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod call;
mod edge;
mod fault_28;
mod live;
mod modes;
mod origins;
mod proxy;
#[path = "../support/mod.rs"]
mod support;
