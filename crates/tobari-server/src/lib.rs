//! The blind server at the edge of the network, and the client's half of a connection to it.
//!
//! ```text
//!   GET /                    one line: what this is
//!   GET /health              ok
//!   /search/v1…              searches in tables (the module `search` has the routes)
//!   /infer/v1…               images through models, encrypted (the module `infer` has the routes)
//!   /sense/v1…               devices' frames, and questions about them (the module `sense` has the routes)
//!   GET /call/v1/{room}      a WebSocket: one member of a call (tobari_apps::call::messages has the protocol)
//!   GET /call/v2/{room}      a WebSocket: one member of a live room (tobari_apps::call::live::messages)
//!   GET /metrics             counters of live rooms, without names
//! ```
//!
//! **What the server holds.** Points of a curve, room names and member numbers, and its own TLS key. It has no option, file
//! or message that could bring it a key of a call, and writes no sample, point, address or room name to its log.
//!
//! **Who runs what.** Each connection is an asynchronous task that reads, checks and answers; each room is one task that
//! owns its state machine and hears of everything through one bounded queue. Arithmetic on points never runs on the
//! asynchronous threads: decoding passes a gate as wide as the machine has cores, additions run on the blocking pool.
//!
//! **What is bounded.** Connections, rooms, members, the length of every message, every queue, and the time for a TLS
//! handshake, a request's head, a join, a write, and for silence.

#![forbid(unsafe_code)]

pub mod analyst;
pub mod beacon;
pub mod connect;
mod cpu;
mod fingerprint;
mod infer;
mod live;
mod options;
mod room_task;
mod rooms;
mod search;
mod sense;
mod serve;
mod session;
mod stop;
pub mod sum;
mod tls;
mod tokens;

pub use connect::connect;
pub use fingerprint::{Fingerprint, NotAFingerprint};
pub use infer::{EnclaveOptions, EnclaveTold, InferError, InferOptions, ModelSource};
pub use options::{ServerLimits, ServerOptions, Tls};
pub use search::{HiddenOptions, SearchError, SearchOptions};
pub use sense::{MqttBroker, MqttError, SenseError, SenseOptions, publish};
pub use serve::{BlindServer, ServerError, bind};
pub use tokens::{TokensError, token_hash};
