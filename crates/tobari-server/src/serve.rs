//! The house with the jobs that its options ask for.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use tobari_client::Fingerprint;
use tobari_host::data::DataError;
use tobari_node::{BundleError, JobError, Reloader, Server, TlsError};

use crate::{
    EnclaveTold, InferError, SearchError, SenseError, ServerOptions,
    call::{self, CallOptions},
    infer::{self, InferOffer},
    search, sense,
};

/// A server that listens but does not answer yet: see [`BlindServer::run`].
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tobari_server::{ServerOptions, bind};
/// let server = bind(ServerOptions::new(([127, 0, 0, 1], 0).into())).await?;
/// assert_eq!(server.url(), format!("http://127.0.0.1:{}", server.local_addr().port()));
/// server.run(async { /* until this is done: a signal, for instance */ }).await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlindServer {
    house: Server,
    enclaves: Arc<OnceLock<Vec<EnclaveTold>>>,
}

/// Takes the address and reads the certificate; from now on connections queue up.
///
/// # Errors
/// [`ServerError`] if the address is taken, or the certificate or a file of a job unusable.
pub async fn bind(options: ServerOptions) -> Result<BlindServer, ServerError> {
    let enclaves = Arc::default();
    let house = tobari_node::bind(house(options, &enclaves)).await?;
    Ok(BlindServer { house, enclaves })
}

/// The house that these options ask for. Calls are always served, and the pages of all jobs shown.
fn house(options: ServerOptions, enclaves: &Arc<OnceLock<Vec<EnclaveTold>>>) -> tobari_node::ServerOptions {
    let mut house = tobari_node::ServerOptions::new(options.addr);
    house.jobs.push(Box::new(CallOptions {
        floor: options.floor,
        limits: options.limits.of_calls(),
        #[cfg(feature = "cascade")]
        bus: options.call_bus,
    }));
    if let Some(search) = options.search {
        house.jobs.push(Box::new(search));
    }
    if let Some(infer) = options.infer {
        house.jobs.push(Box::new(InferOffer { options: infer, enclaves: Arc::clone(enclaves) }));
    }
    if let Some(sense) = options.sense {
        house.jobs.push(Box::new(sense));
    }
    house.pages = vec![call::PAGE, infer::PAGE, search::PAGE, sense::PAGE];
    house.limits = options.limits.of_house();
    (house.tls, house.behind_proxy, house.web) = (options.tls, options.behind_proxy, options.web);
    (house.host_names, house.web_origins) = (options.host_names, options.web_origins);
    house.web_servers = options.web_servers;
    house
}

impl BlindServer {
    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.house.local_addr()
    }

    /// How a client on this machine reaches it.
    pub fn url(&self) -> String {
        self.house.url()
    }

    /// The fingerprint of the server's own certificate, if it has one that stays.
    pub fn certificate_fingerprint(&self) -> Option<Fingerprint> {
        self.house.certificate_fingerprint()
    }

    /// The fingerprint of the page that it serves.
    pub fn page_digest(&self) -> Fingerprint {
        self.house.page_digest()
    }

    /// What is to be said of its enclaves, one for each model that has one.
    pub fn enclaves(&self) -> Vec<EnclaveTold> {
        self.enclaves.get().cloned().unwrap_or_default()
    }

    /// What reads the files of tokens and certificates again.
    pub fn reloader(&self) -> Reloader {
        self.house.reloader()
    }

    /// Serves until `shutdown` is done; then every room ends and every member is told, within the limits' grace.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.house.run(shutdown).await;
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be had.
    #[error("cannot listen on {addr}: {source}")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Connections cannot be encrypted.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A folder of data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The search cannot be served.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The models cannot be served.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// Devices' frames cannot be served.
    #[error(transparent)]
    Sense(#[from] SenseError),
    /// The bus of calls cannot be used.
    #[cfg(feature = "cascade")]
    #[error(transparent)]
    Bus(#[from] crate::BusError),
    /// A job ended while it was opened.
    #[error(transparent)]
    Job(JobError),
    /// The page cannot be read.
    #[error(transparent)]
    Web(#[from] BundleError),
}

impl From<tobari_node::ServerError> for ServerError {
    fn from(error: tobari_node::ServerError) -> Self {
        match error {
            tobari_node::ServerError::Bind { addr, source } => Self::Bind { addr, source },
            tobari_node::ServerError::Tls(error) => Self::Tls(error),
            tobari_node::ServerError::Data(error) => Self::Data(error),
            tobari_node::ServerError::Job(error) => Self::of_job(error),
            tobari_node::ServerError::Web(error) => Self::Web(error),
        }
    }
}

impl ServerError {
    /// The error of the job that says it.
    fn of_job(error: JobError) -> Self {
        let known = error.downcast().map(Self::Search);
        let known = known.or_else(|error| error.downcast().map(Self::Infer));
        let known = known.or_else(|error| error.downcast().map(Self::Sense));
        #[cfg(feature = "cascade")]
        let known = known.or_else(|error| error.downcast().map(Self::Bus));
        known.unwrap_or_else(Self::Job)
    }
}
