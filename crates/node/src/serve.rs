//! The listener: binds, accepts, answers HTTP, and closes in order.

use std::{collections::BTreeSet, future::Future, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tobari_client::Fingerprint;
use tobari_host::data::{DataError, DataFolder};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    ServerLimits, ServerOptions, Tls,
    clients::{Clients, Place, forwarded},
    edge::{self, Edge},
    hosts::Hosts,
    job::{Given, Job, JobError, Offer, Page, Reach, Running, StartupNotes},
    memory::Bounds,
    metrics::Metrics,
    origins::Origins,
    patient::StallTimeoutStream,
    ready,
    stop::{Stop, stop},
    tls::{Acceptor, ServerTls, TlsError, server_tls},
    tokens::TokenFiles,
    web::{self, Bundle, BundleError},
};

/// The wait after the system could not accept a connection (too many open files, for instance).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The most bytes that are read ahead from a connection, and so the longest head of a request.
const BUFFERED: usize = 64 << 10;

/// A server that listens but does not answer yet: see [`Server::run`].
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tobari_node::{ServerOptions, bind};
/// let server = bind(ServerOptions::new(([127, 0, 0, 1], 0).into())).await?;
/// assert_eq!(server.url(), format!("http://127.0.0.1:{}", server.local_addr().port()));
/// server.run(async { /* until this is done: a signal, for instance */ }).await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    tls: Option<ServerTls>,
    jobs: Vec<Arc<dyn Job>>,
    page: Bundle,
    tokens: TokenFiles,
    options: ServerOptions,
    /// Locked while the server runs.
    _data: Vec<DataFolder>,
}

/// Binds the address, reads the certificate, locks the data folders and opens the jobs in their
/// order. From now on connections queue up.
///
/// # Errors
/// [`ServerError`] if the address is in use, or the certificate, a folder or a job is unusable.
pub async fn bind(mut options: ServerOptions) -> Result<Server, ServerError> {
    let fault = |source| ServerError::Bind { addr: options.addr, source };
    let listener = TcpListener::bind(options.addr).await.map_err(fault)?;
    let addr = listener.local_addr().map_err(fault)?;
    let tls = server_tls(&options.tls, addr)?;
    let page = match &options.web {
        Some(folder) => options.bundle.read(folder)?,
        None => options.bundle.clone(),
    };
    let offers = std::mem::take(&mut options.jobs);
    let data = data_folders(&offers)?;
    let tokens = TokenFiles::default();
    let given = Given {
        reach: Reach::of(addr.ip(), &options),
        bounds: Bounds::new(&options.limits),
        tokens: tokens.clone(),
        hosts: options.host_names.as_slice().into(),
    };
    let mut jobs = Vec::with_capacity(offers.len());
    for offer in offers {
        jobs.push(offer.open(given.clone()).await?);
    }
    Ok(Server { listener, addr, tls, jobs, page, tokens, options, _data: data })
}

/// The data folders of all jobs, each once.
fn data_folders(offers: &[Box<dyn Offer>]) -> Result<Vec<DataFolder>, DataError> {
    let folders: BTreeSet<PathBuf> = offers.iter().flat_map(|offer| offer.folders()).collect();
    folders.iter().map(|folder| DataFolder::open(folder)).collect()
}

impl Server {
    /// The address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for clients on this machine.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(if addr.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
        }
        format!("{scheme}://{addr}")
    }

    /// The fingerprint of the server's own certificate; none for a certificate that is renewed.
    pub fn certificate_fingerprint(&self) -> Option<Fingerprint> {
        self.tls.as_ref().and_then(|tls| tls.fingerprint)
    }

    /// The fingerprint of the pages that the server serves.
    pub fn page_digest(&self) -> Fingerprint {
        self.page.digest()
    }

    /// The startup notes of the jobs, in their order.
    pub fn told(&self) -> StartupNotes {
        let mut told = StartupNotes::default();
        told.extend(self.jobs.iter().map(|job| job.told()));
        told
    }

    /// A reloader of the token files and of the certificate.
    pub fn reloader(&self) -> Reloader {
        let acceptor = self.tls.as_ref().map(|tls| tls.acceptor.clone());
        Reloader { tokens: self.tokens.clone(), tls: self.options.tls.clone(), addr: self.addr, acceptor }
    }

    /// The pages of the served jobs, and the further pages of the options.
    fn pages(&self) -> Vec<Page> {
        let mut pages: Vec<Page> = self.jobs.iter().filter_map(|job| job.page()).collect();
        for page in &self.options.pages {
            if pages.iter().all(|own| own.job != page.job) {
                pages.push(*page);
            }
        }
        pages
    }

    /// All routes of the server.
    fn routes(&self, edge: &Arc<Edge>, running: &Running) -> Router {
        let (jobs, told) = (self.jobs.clone(), Arc::clone(edge));
        let metrics = async move || {
            let mut metrics = Metrics::default();
            jobs.iter().for_each(|job| job.metrics(&mut metrics));
            told.metrics(&mut metrics);
            metrics
        };
        let own = Router::new().route("/metrics", get(metrics));
        // a job answers for its own paths only: its fallback does not apply to unknown paths
        let all = self.jobs.iter().fold(own, |all, job| all.merge(job.routes(running).reset_fallback()));
        let names: Vec<&'static str> = self.jobs.iter().map(|job| job.name()).collect();
        all.merge(web::routes(self.page.clone(), &names, &self.pages(), &self.options.web_servers))
            .merge(ready::routes(self.jobs.clone(), running.stopped.clone()))
            .layer(Extension(Origins::new(&self.options.web_origins)))
    }

    /// Serves until `shutdown` is done. Then every job gets the signal, continues for the limits'
    /// drain, and connections end within the limits' grace.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let limits = self.options.limits;
        let places = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        let (stop, stopped) = stop();
        let running = Running { stopped: stopped.clone(), limits };
        for job in &self.jobs {
            tokio::spawn(Arc::clone(job).keep_up(running.clone()));
        }
        let clients = Clients::new(&limits);
        let behind_proxy = self.options.behind_proxy;
        let edge = Arc::new(Edge::new(Hosts::new(self.addr.ip(), &self.options.host_names)));
        let telling = tokio::spawn(Arc::clone(&edge).keep_up());
        let app = self.routes(&edge, &running);
        let tls = self.tls.map(|tls| {
            #[cfg(feature = "acme")]
            if let Some(renewal) = tls.renewal {
                tokio::spawn(renewal.keep_up());
            }
            tls.acceptor
        });
        let told_apart = from_fn_with_state(clients.clone(), by_the_proxys_word);
        let door = Door {
            app: if behind_proxy { app.layer(told_apart) } else { app }
                .layer(from_fn_with_state(Arc::clone(&edge), edge::pass)),
            tls,
            limits,
            stopped,
            places: Arc::new(Semaphore::new(places as usize)),
            clients,
            behind_proxy,
        };
        tokio::select! {
            () = shutdown => {}
            () = door.accept(&self.listener) => {}
        }
        stop.send(limits.drain);
        // while jobs continue, new clients learn that the server is closing
        tokio::select! {
            () = sleep(limits.drain) => {}
            () = door.emptied(places as usize) => {}
            () = door.accept(&self.listener) => {}
        }
        drop(self.listener);
        if timeout(limits.grace, door.places.acquire_many(places)).await.is_err() {
            tracing::info!("closed with connections still open");
        }
        telling.abort();
        edge.tell();
    }
}

/// Answers a few clients over plain HTTP until `shutdown` is done, within the default time limits:
/// for a program that serves no jobs.
pub async fn answer_few(listener: TcpListener, app: Router, shutdown: impl Future<Output = ()>) {
    let limits = ServerLimits { connections: 256, client_connections: 64, ..ServerLimits::default() };
    let ((stop, stopped), places) = (stop(), Arc::new(Semaphore::new(limits.connections)));
    let (clients, behind_proxy) = (Clients::new(&limits), false);
    let door = Door { app, tls: None, limits, stopped, places, clients, behind_proxy };
    tokio::select! {
        () = shutdown => {}
        () = door.accept(&listener) => {}
    }
    stop.send(Duration::ZERO);
    drop(listener);
    let _ = timeout(limits.grace, door.emptied(limits.connections)).await;
}

/// Accepts new connections.
struct Door {
    app: Router,
    tls: Option<Acceptor>,
    limits: ServerLimits,
    stopped: Stop,
    places: Arc<Semaphore>,
    clients: Clients,
    behind_proxy: bool,
}

impl Door {
    async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => match self.place(peer) {
                    Ok(place) => self.enter(stream, place),
                    Err((limit, why)) => tracing::info!(limit, "connection refused: {why}"),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Waits until all `places` places are free.
    async fn emptied(&self, places: usize) {
        while self.places.available_permits() < places {
            sleep(ACCEPT_PAUSE).await;
        }
    }

    /// A place for a connection from this peer, or the limit that it exceeds. Behind a proxy the
    /// requests name their clients.
    fn place(&self, peer: SocketAddr) -> Result<Place, (usize, &'static str)> {
        let limits = &self.limits;
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let permit = permit.map_err(|_| (limits.connections, "no place left"))?;
        let address = (!self.behind_proxy).then(|| peer.ip());
        let guest = self.clients.enter(address).ok_or((limits.client_connections, "too many from one client"))?;
        Ok(Place::new(permit, guest))
    }

    fn enter(&self, stream: TcpStream, place: Place) {
        let (app, limits, stopped) = (self.app.clone(), self.limits, self.stopped.clone());
        let tls = self.tls.as_ref().map(Acceptor::now);
        tokio::spawn(async move {
            // A failure here is the client's, and its reason may tell what the client tried: it is
            // not logged.
            let _ = stream.set_nodelay(true);
            match tls {
                None => answer(stream, app, limits, stopped, place).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(limits.handshake, tls.accept(stream)).await {
                        answer(stream, app, limits, stopped, place).await;
                    }
                }
            }
        });
    }
}

/// Answers the requests of one connection until it closes, turns into a WebSocket, or the server
/// stops.
async fn answer<S>(stream: S, app: Router, limits: ServerLimits, mut stopped: Stop, place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(app.layer(Extension(place)));
    let mut http = http1::Builder::new();
    // a client that connects while the server is closing may send one request
    http.max_buf_size(BUFFERED)
        .timer(TokioTimer::new())
        .header_read_timeout(limits.handshake)
        .keep_alive(!stopped.is_given());
    let stream = TokioIo::new(StallTimeoutStream::new(stream, limits.write));
    let mut connection = std::pin::pin!(http.serve_connection(stream, service).with_upgrades());
    if stopped.is_given() {
        let _ = connection.await;
        return;
    }
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stopped.wait() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Replaces the proxy by the client that the proxy names.
async fn by_the_proxys_word(State(clients): State<Clients>, mut request: Request, next: Next) -> Response {
    let Some(guest) = clients.enter(forwarded(request.headers())) else {
        return (StatusCode::TOO_MANY_REQUESTS, "too many connections from one client\n").into_response();
    };
    if let Some(place) = request.extensions_mut().get_mut::<Place>() {
        place.guest = Arc::new(guest);
    }
    next.run(request).await
}

/// Reads the token files and the certificate again while a server runs.
pub struct Reloader {
    tokens: TokenFiles,
    tls: Tls,
    addr: SocketAddr,
    acceptor: Option<Acceptor>,
}

impl Reloader {
    /// Reads the files now. A file that cannot be used is logged, and the old content stays in
    /// force. Existing connections continue; new ones get the new certificate. This waits for the
    /// disk.
    pub fn reload(&self) {
        self.tokens.reload();
        let (Tls::Files { .. }, Some(acceptor)) = (&self.tls, &self.acceptor) else { return };
        match server_tls(&self.tls, self.addr) {
            Ok(Some(new)) => {
                acceptor.become_as(&new.acceptor);
                let fingerprint = new.fingerprint.map(|fingerprint| fingerprint.to_string()).unwrap_or_default();
                tracing::info!(fingerprint, "the certificate was read again");
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "the certificate cannot be used: the old one stays in force; mend its files");
            }
        }
    }
}

/// The reason why a server cannot start. A program that offers jobs can match every case.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {addr}: {source}")]
    Bind {
        /// The configured address.
        addr: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Connections cannot be encrypted.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A folder of data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A job cannot be served.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The page cannot be read.
    #[error(transparent)]
    Web(#[from] BundleError),
}
