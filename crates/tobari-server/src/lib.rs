//! The jobs of the blind server at the edge of the network, and a member's half of a connection to a
//! call. [`tobari_node`] serves them, and answers for the house: `/`, `/jobs`, `/readyz`, `/metrics`.
//!
//! ```text
//!   /search/v1…              searches in tables (the module `search` has the routes)
//!   /infer/v1…               images through models, encrypted (the module `infer` has the routes)
//!   /sense/v1…               devices' frames, and questions about them (the module `sense` has the routes)
//!   GET /call/v1/{room}      a WebSocket: one member of a call (tobari_apps::call::messages has the protocol)
//!   GET /call/v3/{room}      a WebSocket: one member of a live room (tobari_apps::call::live::messages)
//!   GET /call/, /call/{room} the page of live rooms
//! ```
//!
//! **What the server holds.** Points of a curve, room names and member numbers, and its own TLS key. It has no option, file
//! or message that could bring it a key of a call, and writes no sample, point, address or room name to its log.
//!
//! **Who runs what.** Each room is one task that owns its state machine and hears of everything through one bounded queue. Arithmetic on points never runs on the
//! asynchronous threads: decoding passes a gate as wide as the machine has cores, additions run on the blocking pool. Masked words are
//! added on the asynchronous threads: handing them over would take longer.
//!
//! **What is bounded**, beside what the house bounds: rooms, of all and of each client;
//! registrations; members, the length of every message, every queue, and the time for a join, a
//! write, and for silence.

#![forbid(unsafe_code)]

pub mod analyst;
pub mod beacon;
mod call;
pub mod connect;
mod door;
mod infer;
mod kind;
mod limits;
mod live;
mod openers;
mod options;
mod room_task;
mod rooms;
mod search;
mod sense;
mod serve;
mod session;
pub mod sum;

pub use connect::connect;
pub use infer::{EnclaveOptions, EnclaveTold, InferError, InferOptions, ModelSource};
pub use limits::ServerLimits;
#[cfg(feature = "cascade")]
pub use live::bus::{BusError, CallBus};
pub use options::ServerOptions;
pub use search::{HiddenOptions, SearchError, SearchOptions};
pub use sense::{MqttBroker, MqttError, SenseError, SenseOptions, publish};
pub use serve::{BlindServer, ServerError, bind};
pub use tobari_client::{Fingerprint, NotAFingerprint};
#[cfg(feature = "acme")]
pub use tobari_node::{AcmeOptions, LETS_ENCRYPT};
pub use tobari_node::{
    Bundle, BundleError, HostName, JobError, NotAHostName, NotAWebServer, NotAnOrigin, Reloader, Tls, TlsError,
    TokensError, WebOrigin, WebServer, token_hash,
};
