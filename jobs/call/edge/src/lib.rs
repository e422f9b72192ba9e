//! Calls at the edge of the network: rooms on a server, a member's half of a connection, and the
//! commands of `tobari call`.
//!
//! ```text
//!   GET /call/v1/{room}      a WebSocket: one member of a call (protocol: tobari_call::messages)
//!   GET /call/v3/{room}      a WebSocket: one member of a live room (tobari_call::live::messages)
//!   GET /call/, /call/{room} the page of live rooms
//! ```
//!
//! **What the server holds.** Points of a curve, room names and member numbers. No option, file or
//! message can give it a key of a call. Its log contains no sample, point, address or room name.
//!
//! **Threads.** Each room is one task that owns its state machine and receives all events through
//! one bounded queue. Arithmetic on points never runs on the asynchronous threads: decoding passes
//! a gate as wide as the machine has cores, additions run on the blocking pool. Masked words are
//! added on the asynchronous threads, because a hand-over would take longer.
//!
//! **Bounds**, besides those of the node: rooms in total and for each client, members, the length
//! of every message, every queue, and the time for a join, a write, and for silence.

#![forbid(unsafe_code)]

pub mod command;
pub mod connect;
pub mod demo;
mod door;
mod kind;
mod limits;
mod live;
mod openers;
mod room_task;
mod rooms;
mod serve;
mod session;
pub mod sum;

pub use limits::CallLimits;
#[cfg(feature = "cascade")]
pub use live::bus::{BusError, CallBus};
pub use serve::{CallOptions, PAGE};
