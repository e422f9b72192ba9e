//! The shell of a blind server. It listens, encrypts connections, enforces limits, counts requests,
//! and serves the jobs that the caller gives it. The shell knows no job by name.
//!
//! ```text
//!   GET /                    for programs, one line about the server; for browsers, the start page
//!   GET /jobs                JSON: the jobs, and whether this server serves each
//!   GET /JOB/, /web/…        the page of a job, and the files of the pages (the module `web`)
//!   GET /healthz             ok, while the process answers (and at /health)
//!   GET /readyz              ready, or 503 with the reason; each job as JSON (the module `ready`)
//!   GET /metrics             counters of the jobs in their order, then of refused requests
//!   …   /JOB/…               the job's own routes ([`job`])
//! ```
//!
//! **Tasks and threads.** Each connection is an asynchronous task that reads, checks and answers.
//! A job runs its arithmetic ([`cpu`]) and its disk access ([`job::reading`]) on other threads.
//!
//! **Limits.** The server limits connections, places, turns at the cores, and bytes of bodies and
//! answers: for all clients together and for each client ([`share`] has the rule). It also limits
//! the time for a TLS handshake, a request's head, a body, and a write.
//!
//! **The path of a request.** The server checks the host (the module `edge`), and behind a proxy
//! identifies the client ([`clients`]). The job checks the client's permission ([`tokens`]), reads
//! the body within the client's memory limit ([`body`], [`memory`]), takes a turn ([`turns`]), and
//! answers, or refuses with a word for programs ([`reply`]).

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
pub mod metrics;
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
pub use job::{Given, Job, JobError, Offer, Page, Reach, Running, StartupNotes, reading};
pub use limits::ServerLimits;
pub use options::ServerOptions;
pub use origins::{NotAWebServer, NotAnOrigin, WebOrigin, WebServer};
pub use serve::{Reloader, Server, ServerError, answer_few, bind};
#[cfg(feature = "acme")]
pub use tls::acme::{AcmeOptions, LETS_ENCRYPT};
pub use tls::{Tls, TlsError};
pub use tokens::{TokensError, token_hash};
pub use web::{Bundle, BundleError, PageFile};
