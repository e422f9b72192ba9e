//! The blind server at the edge of the network, and the client's half of a connection to it.
//!
//! ```text
//!   GET /                    one line: what this is; to browsers, the way to the page
//!   GET /healthz             ok, while the process answers (and at /health)
//!   GET /readyz              ready, or 503 and why: a job's disk fails, or the server is closing; with each job as JSON (the module `ready`)
//!   /search/v1…              searches in tables (the module `search` has the routes)
//!   /infer/v1…               images through models, encrypted (the module `infer` has the routes)
//!   /sense/v1…               devices' frames, and questions about them (the module `sense` has the routes)
//!   GET /call/v1/{room}      a WebSocket: one member of a call (tobari_apps::call::messages has the protocol)
//!   GET /call/v3/{room}      a WebSocket: one member of a live room (tobari_apps::call::live::messages)
//!   GET /call/, /call/{room} the page of live rooms, with what belongs to it under /web/ (the module `web`)
//!   GET /metrics             counters of live rooms and of refused requests, without names
//! ```
//!
//! **What the server holds.** Points of a curve, room names and member numbers, and its own TLS key. It has no option, file
//! or message that could bring it a key of a call, and writes no sample, point, address or room name to its log.
//!
//! **Who runs what.** Each connection is an asynchronous task that reads, checks and answers; each room is one task that
//! owns its state machine and hears of everything through one bounded queue. Arithmetic on points never runs on the
//! asynchronous threads: decoding passes a gate as wide as the machine has cores, additions run on the blocking pool. Masked words are
//! added on the asynchronous threads: handing them over would take longer.
//!
//! **What is bounded.** Connections and rooms, of all and of each client; registrations, turns at
//! the cores, and bytes of bodies and answers, of all and of each client (the module `share` has
//! the rule); members, the length of every message, every queue, and the time for a TLS handshake,
//! a request's head, a join, a write, and for silence.

#![forbid(unsafe_code)]

pub mod analyst;
pub mod beacon;
mod body;
mod clients;
pub mod connect;
mod cpu;
mod disk;
mod door;
mod edge;
mod hosts;
mod infer;
mod kind;
mod limits;
mod live;
mod memory;
mod options;
mod origins;
mod patient;
mod places;
mod ready;
mod reply;
mod room_task;
mod rooms;
mod search;
mod sense;
mod serve;
mod session;
mod share;
mod stop;
pub mod sum;
#[cfg(test)]
mod testing;
mod tls;
mod tokens;
mod turns;
mod web;

pub use connect::connect;
pub use hosts::{HostName, NotAHostName};
pub use infer::{EnclaveOptions, EnclaveTold, InferError, InferOptions, ModelSource};
pub use limits::ServerLimits;
#[cfg(feature = "cascade")]
pub use live::bus::{BusError, CallBus};
pub use options::ServerOptions;
pub use origins::{NotAWebServer, NotAnOrigin, WebOrigin, WebServer};
pub use search::{HiddenOptions, SearchError, SearchOptions};
pub use sense::{MqttBroker, MqttError, SenseError, SenseOptions, publish};
pub use serve::{BlindServer, Reloader, ServerError, bind};
#[cfg(feature = "acme")]
pub use tls::acme::{AcmeOptions, LETS_ENCRYPT};
pub use tls::{Tls, TlsError};
pub use tobari_client::{Fingerprint, NotAFingerprint};
pub use tokens::{TokensError, token_hash};
pub use web::{Bundle, BundleError};
