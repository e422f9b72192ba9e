//! What the house knows of a job: how it is opened, and what is asked of it while it is served.
//!
//! A house serves the jobs that [`crate::ServerOptions::jobs`] offers, and knows none by name. An
//! [`Offer`] is a job as options say it; [`crate::bind`] locks its folders and opens it. A [`Job`]
//! is one that is open: it has routes of its own, and the house asks it what to say at `/readyz`,
//! `/jobs` and `/metrics`, and which page shows it.
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

use std::{error::Error, net::IpAddr, path::PathBuf, sync::Arc};

use axum::Router;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tobari_host::storage::Trouble;
use tokio::task::spawn_blocking;

use crate::{ServerLimits, hosts::HostName, memory::Bounds, stop::Stop, tokens::TokenFiles};

/// A job as its options say it: not open yet.
pub trait Offer: Send + 'static {
    /// Folders that no other process may use while the server lives. Jobs may share one.
    fn folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Opens it, once its folders are locked. What waits for the disk goes into [`reading`].
    ///
    /// # Errors
    /// The job's own error, whose text is told to whoever starts the server.
    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>>;
}

/// What the house lends to every job.
///
/// A gate before the cores is not lent: each job has a [`crate::cpu::Cpu`] of its own. At a common
/// one, packets of microseconds would wait for questions of seconds.
#[derive(Clone)]
#[non_exhaustive]
pub struct Given {
    /// Where the house listens. What is open to everybody without a token is so on loopback only.
    pub ip: IpAddr,
    /// What one client may hold, and the memory for bodies and answers of all jobs together.
    pub bounds: Bounds,
    /// Files of tokens: one that is opened here is read again when the operator says so.
    pub tokens: TokenFiles,
    /// The names, besides this machine's own, by which the house is reached.
    pub hosts: Arc<[HostName]>,
}

/// What a job is served with.
#[derive(Clone)]
#[non_exhaustive]
pub struct Running {
    /// The signal that the house is closing.
    pub stopped: Stop,
    /// What the house puts up with.
    pub limits: ServerLimits,
}

/// A job that is open. All but its name and its routes has a usual answer.
pub trait Job: Send + Sync + 'static {
    /// One word of lower case: the name at `/readyz` and `/jobs`, and the first part of its paths.
    fn name(&self) -> &'static str;

    /// Its routes, all under `/NAME/`, but for `/NAME/` itself and what [`Page::also`] names; asked
    /// once. Before a request gets there the house has checked its host. A handler finds the
    /// client's [`crate::clients::Place`] and the [`crate::origins::Origins`] that may call in the
    /// request's extensions.
    fn routes(&self, running: &Running) -> Router;

    /// Why it cannot do its work now. `/readyz` asks, so this waits for no disk.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Appends its lines of `/metrics`, in the format that Prometheus reads, without any name or
    /// address of a client.
    fn metrics(&self, _text: &mut String) {}

    /// The page that shows it, with its own name in [`Page::job`].
    fn page(&self) -> Option<Page> {
        None
    }

    /// What it does beside requests, as a task. The task ends soon after the house begins to close
    /// ([`Running::stopped`]).
    fn keep_up(self: Arc<Self>, _running: Running) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// What it says of itself when the server begins.
    fn told(&self) -> StartupNotes {
        StartupNotes::default()
    }
}

/// What a job says of itself to whoever starts the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartupNotes {
    /// For programs: members of a JSON object.
    pub members: Vec<(&'static str, Value)>,
    /// For people: results, one a line.
    pub lines: Vec<String>,
    /// For people: what they have to know before they go on.
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
    /// The job that it shows. A house may show it without that job; the page finds that out at
    /// `/jobs`.
    pub job: &'static str,
    /// The file of the [`crate::Bundle`] that `/JOB/` answers with, and so does `/JOB`.
    pub file: &'static str,
    /// Further paths with the same file, as axum writes them.
    pub also: &'static [&'static str],
    /// The files that may connect to [`crate::ServerOptions::web_servers`].
    pub calling: &'static [&'static str],
}

/// Why a job cannot be served: whatever the job says.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct JobError(Box<dyn Error + Send + Sync>);

impl JobError {
    /// A job's own error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }

    /// The job's own error again, where it is of this type.
    ///
    /// # Errors
    /// The same [`JobError`], where it is of another.
    pub fn downcast<E: Error + Send + Sync + 'static>(self) -> Result<E, Self> {
        self.0.downcast().map(|error| *error).map_err(Self)
    }
}

/// Does what waits for the disk beside the asynchronous threads.
///
/// # Errors
/// That of `read`, or that it panicked.
pub async fn reading<T, E>(read: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, JobError>
where
    T: Send + 'static,
    E: Error + Send + Sync + 'static,
{
    spawn_blocking(read).await.map_err(JobError::new)?.map_err(JobError::new)
}
