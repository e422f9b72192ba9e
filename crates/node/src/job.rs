//! The interface between the server and a job: how the server opens a job, and the questions that
//! the server asks a running job.
//!
//! A server serves the jobs in [`crate::ServerOptions::jobs`], and knows none by name. An [`Offer`]
//! is a configured job that is not open yet; [`crate::bind`] locks its folders and opens it. A
//! [`Job`] is open: it has routes of its own, and gives the server its page and its parts of
//! `/readyz`, `/jobs` and `/metrics`.
//!
//! ```
//! use std::sync::Arc;
//! use axum::{Router, routing::get};
//! use futures_util::future::BoxFuture;
//! use tobari_node::{Given, Job, JobError, Offer, Running, ServerOptions, bind};
//!
//! /// Says good day to everybody.
//! struct Greeter;
//!
//! impl Offer for Greeter {
//!     fn open(self: Box<Self>, _: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
//!         Box::pin(async { Ok(Arc::new(*self) as Arc<dyn Job>) })
//!     }
//! }
//!
//! impl Job for Greeter {
//!     fn name(&self) -> &'static str {
//!         "greeter"
//!     }
//!
//!     fn routes(&self, _: &Running) -> Router {
//!         Router::new().route("/greeter/v1", get(async || "good day\n"))
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let mut options = ServerOptions::new(([127, 0, 0, 1], 0).into());
//! options.jobs.push(Box::new(Greeter));
//! bind(options).await?.run(async { /* until this is done */ }).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{error::Error, fmt, net::IpAddr, path::PathBuf, sync::Arc};

use axum::Router;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tobari_host::storage::Trouble;
use tokio::task::spawn_blocking;

use crate::{
    ServerLimits, ServerOptions, hosts::HostName, memory::Bounds, metrics::Metrics, stop::Stop, tokens::TokenFiles,
};

/// A configured job that is not open yet.
pub trait Offer: Send + 'static {
    /// Folders that no other process may use while the server runs. Jobs may share a folder.
    fn folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Opens the job after its folders are locked. Use [`reading`] for disk access.
    ///
    /// # Errors
    /// The job's own error. The operator who starts the server sees its text.
    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>>;
}

/// The resources that the server gives to every job.
///
/// The gate before the cores is not one of them: each job has a [`crate::cpu::Cpu`] of its own. At
/// a shared gate, packets that take microseconds would wait for questions that take seconds.
#[derive(Clone)]
#[non_exhaustive]
pub struct Given {
    /// The clients that can reach the server. Access without a token is for this machine only.
    pub reach: Reach,
    /// The limits of one client, and the memory for bodies and answers of all jobs together.
    pub bounds: Bounds,
    /// Token files. A file opened here is read again at the operator's command.
    pub tokens: TokenFiles,
    /// The names, besides this machine's own, by which clients reach the server.
    pub hosts: Arc<[HostName]>,
}

/// The machines whose clients can reach the server, as far as the options show.
///
/// A reverse proxy on this machine makes every client local. The server cannot notice such a proxy
/// by itself: only an option that makes sense behind a proxy shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    ip: IpAddr,
    proxied: bool,
}

impl Reach {
    pub(crate) fn of(ip: IpAddr, options: &ServerOptions) -> Self {
        Self { ip, proxied: options.behind_proxy || !options.host_names.is_empty() }
    }

    /// Whether the address is loopback and no option shows a proxy.
    pub fn is_this_machine(&self) -> bool {
        self.ip.is_loopback() && !self.proxied
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxied = if self.proxied { " through a proxy (--behind-proxy or --host-name)" } else { "" };
        write!(f, "{}{proxied}", self.ip)
    }
}

/// The signal and the limits that a job gets when the server starts.
#[derive(Clone)]
#[non_exhaustive]
pub struct Running {
    /// The signal that the server is closing.
    pub stopped: Stop,
    /// The limits of the server.
    pub limits: ServerLimits,
}

/// An open job. Every method except `name` and `routes` has a default.
pub trait Job: Send + Sync + 'static {
    /// One word of lower case: the name at `/readyz` and `/jobs`, and the first part of its paths.
    fn name(&self) -> &'static str;

    /// The job's routes, all under `/NAME/`, except `/NAME/` itself and the paths of
    /// [`Page::also`]. The server calls this once, and checks the host of each request before a
    /// handler runs. A handler finds the client's [`crate::clients::Place`] and the allowed
    /// [`crate::origins::Origins`] in the request's extensions.
    fn routes(&self, running: &Running) -> Router;

    /// The reason why the job cannot work now. `/readyz` calls this, so it must not wait for a
    /// disk.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Adds the job's part of `/metrics`, without any name or address of a client.
    fn metrics(&self, _metrics: &mut Metrics) {}

    /// The job's page, with the job's name in [`Page::job`].
    fn page(&self) -> Option<Page> {
        None
    }

    /// The job's background task. It must end soon after the server begins to close
    /// ([`Running::stopped`]).
    fn keep_up(self: Arc<Self>, _running: Running) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// The job's notes for the operator when the server starts.
    fn told(&self) -> StartupNotes {
        StartupNotes::default()
    }
}

/// A job's notes for the operator who starts the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartupNotes {
    /// For programs: members of a JSON object.
    pub members: Vec<(&'static str, Value)>,
    /// For people: results, one on each line.
    pub lines: Vec<String>,
    /// For people: warnings.
    pub warnings: Vec<String>,
}

impl Extend<Self> for StartupNotes {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, others: I) {
        for other in others {
            self.members.extend(other.members);
            self.lines.extend(other.lines);
            self.warnings.extend(other.warnings);
        }
    }
}

/// A page of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The job that the page shows. A server may show the page without serving the job; the page
    /// learns that from `/jobs`.
    pub job: &'static str,
    /// The file of the [`crate::Bundle`] at `/JOB/`; `/JOB` redirects there.
    pub file: &'static str,
    /// Further paths with the same file, in the syntax of axum.
    pub also: &'static [&'static str],
    /// The files that may connect to [`crate::ServerOptions::web_servers`].
    pub calling: &'static [&'static str],
}

/// The reason why a job cannot be served: any error of the job.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct JobError(Box<dyn Error + Send + Sync>);

impl JobError {
    /// A job's own error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }

    /// Returns the job's own error if it has this type.
    ///
    /// # Errors
    /// The same [`JobError`] if it has another type.
    pub fn downcast<E: Error + Send + Sync + 'static>(self) -> Result<E, Self> {
        self.0.downcast().map(|error| *error).map_err(Self)
    }
}

/// Runs work that waits for the disk on a blocking thread.
///
/// # Errors
/// The error of `read`, or its panic.
pub async fn reading<T, E>(read: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, JobError>
where
    T: Send + 'static,
    E: Error + Send + Sync + 'static,
{
    spawn_blocking(read).await.map_err(JobError::new)?.map_err(JobError::new)
}
