//! The server over real sockets: one program, as each would have a server of its own to compile.

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
