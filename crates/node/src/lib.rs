//! The shell of a blind server: it listens, encrypts, bounds and counts, and serves the jobs that
//! it is given. It knows none by name.
//!
//! ```text
//!   GET /                    one line: what this is; to browsers, the way to the page
//!   GET /jobs                which jobs are served, as JSON
//!   GET /JOB/, /web/…        the page of a job, and what belongs to it (the module `web`)
//!   GET /healthz             ok, while the process answers (and at /health)
//!   GET /readyz              ready, or 503 and why, and each job as JSON (the module `ready`)
//!   GET /metrics             counters of the jobs in their order, then of refused requests
//!   …   /JOB/…               what the job answers ([`job`])
//! ```
//!
//! **Who runs what.** Each connection is an asynchronous task that reads, checks and answers. A job
//! does its arithmetic elsewhere ([`cpu`]) and waits for the disk elsewhere ([`job::reading`]).
//!
//! **What is bounded.** Connections, of all and of each client; places, turns at the cores, and
//! bytes of bodies and answers, of all and of each client ([`share`] has the rule); and the time
//! for a TLS handshake, a request's head, a body, and a write.
//!
//! **How a request comes in.** Its host is checked (the module `edge`), and behind a proxy its
//! client is told apart ([`clients`]). The job finds out whether that client may ([`tokens`]),
//! reads the body in memory that the client has a right to ([`body`], [`memory`]), takes a turn
//! ([`turns`]), and answers, or refuses with a word for programs ([`reply`]).

#![forbid(unsafe_code)]

pub mod body;
pub mod clients;
pub mod cpu;
pub mod disk;
mod edge;
pub mod hosts;
pub mod job;
mod limits;
pub mod memory;
mod options;
pub mod origins;
mod patient;
pub mod places;
mod ready;
pub mod reply;
mod serve;
pub mod share;
pub mod stop;
#[cfg(test)]
mod testing;
mod tls;
pub mod tokens;
pub mod turns;
mod web;

pub use hosts::{HostName, NotAHostName};
pub use job::{Given, Job, JobError, Offer, Page, Running, StartupNotes, reading};
pub use limits::ServerLimits;
pub use options::ServerOptions;
pub use origins::{NotAWebServer, NotAnOrigin, WebOrigin, WebServer};
pub use serve::{Reloader, Server, ServerError, answer_few, bind};
#[cfg(feature = "acme")]
pub use tls::acme::{AcmeOptions, LETS_ENCRYPT};
pub use tls::{Tls, TlsError};
pub use tokens::{TokensError, token_hash};
pub use web::{Bundle, BundleError, PageFile};
