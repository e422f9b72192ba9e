//! The listener: binds, accepts, answers HTTP, and closes in order.

use std::{future::Future, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Path, State, WebSocketUpgrade},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tobari_apps::call::messages::RoomName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Fingerprint, ServerLimits, ServerOptions,
    infer::{EnclaveTold, Infer, InferError},
    live,
    rooms::Rooms,
    search::{Search, SearchError},
    sense::{Sense, SenseError},
    session::{MAX_MESSAGE_BYTES, session},
    stop::{Stop, stop},
    tls::{ServerTls, server_tls},
};

/// How long to wait after the system could not accept a connection (too many open files, for instance).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const GREETING: &str = "Tobari: a blind server. It mixes what it cannot hear.\n";

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
    listener: TcpListener,
    addr: SocketAddr,
    tls: Option<ServerTls>,
    search: Option<Search>,
    infer: Option<Infer>,
    sense: Option<Sense>,
    options: ServerOptions,
}

/// Takes the address and reads the certificate; from now on connections queue up.
///
/// # Errors
/// [`ServerError`] if the address is taken, or the certificate or a file of the search unusable.
pub async fn bind(options: ServerOptions) -> Result<BlindServer, ServerError> {
    let fault = |source| ServerError::Bind { addr: options.addr, source };
    let listener = TcpListener::bind(options.addr).await.map_err(fault)?;
    let addr = listener.local_addr().map_err(fault)?;
    let tls = server_tls(&options.tls, addr)?;
    let search = match options.search.clone() {
        None => None,
        Some(search) => Some(
            tokio::task::spawn_blocking(move || Search::open(&search, addr.ip()))
                .await
                .map_err(|error| fault(io::Error::other(error)))??,
        ),
    };
    let infer = match options.infer.clone() {
        None => None,
        Some(infer) => Some(
            tokio::task::spawn_blocking(move || Infer::open(&infer, addr.ip()))
                .await
                .map_err(|error| fault(io::Error::other(error)))??,
        ),
    };
    let sense = match options.sense.clone() {
        None => None,
        Some(sense) => Some(
            tokio::task::spawn_blocking(move || Sense::open(&sense, addr.ip()))
                .await
                .map_err(|error| fault(io::Error::other(error)))??,
        ),
    };
    Ok(BlindServer { listener, addr, tls, search, infer, sense, options })
}

impl BlindServer {
    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// How a client on this machine reaches it.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(if addr.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
        }
        format!("{scheme}://{addr}")
    }

    /// The fingerprint of the server's own certificate, if it has one.
    pub fn certificate_fingerprint(&self) -> Option<Fingerprint> {
        self.tls.as_ref().map(|tls| tls.fingerprint)
    }

    /// What is to be said of its enclaves, one for each model that has one.
    pub fn enclaves(&self) -> Vec<EnclaveTold> {
        self.infer.as_ref().map(Infer::enclaves).unwrap_or_default()
    }

    /// Serves until `shutdown` is done; then every room ends and every member is told, within the limits' grace.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let limits = self.options.limits;
        let places = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        let (stop, stopped) = stop();
        let rooms = Rooms::new(self.options.floor, limits, stopped.clone());
        if let Some(search) = self.search.clone() {
            tokio::spawn(search.keep_up(stopped.clone()));
        }
        if let Some(infer) = &self.infer {
            tokio::spawn(infer.keep_up(stopped.clone()));
        }
        if let Some(sense) = self.sense.clone() {
            tokio::spawn(sense.keep_up(stopped.clone()));
        }
        let door = Door {
            app: routes(rooms, self.search.as_ref(), self.infer.as_ref(), self.sense.as_ref())
                .merge(live::routes(limits, stopped.clone())),
            tls: self.tls.map(|tls| tls.acceptor),
            limits,
            stopped,
            places: Arc::new(Semaphore::new(places as usize)),
        };
        tokio::select! {
            () = shutdown => {}
            () = door.accept(&self.listener) => {}
        }
        drop(self.listener);
        stop.send();
        if timeout(limits.grace + limits.drain, door.places.acquire_many(places)).await.is_err() {
            tracing::info!("closed with connections still open");
        }
    }
}

/// One place among the connections: held by the connection, and by the session that it may turn into.
pub(crate) type Place = Arc<OwnedSemaphorePermit>;

/// What every new connection passes.
struct Door {
    app: Router,
    tls: Option<TlsAcceptor>,
    limits: ServerLimits,
    stopped: Stop,
    places: Arc<Semaphore>,
}

impl Door {
    async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match Arc::clone(&self.places).try_acquire_owned() {
                    Ok(place) => self.enter(stream, Arc::new(place)),
                    Err(_) => tracing::info!(limit = self.limits.connections, "connection refused: no place left"),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn enter(&self, stream: TcpStream, place: Place) {
        let (app, limits, stopped) = (self.app.clone(), self.limits, self.stopped.clone());
        let tls = self.tls.clone();
        tokio::spawn(async move {
            // A failure here is the client's affair, and its reason may name what it tried: it is not logged.
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

/// Answers the requests of one connection until it closes, turns into a WebSocket, or the server stops.
async fn answer<S>(stream: S, app: Router, limits: ServerLimits, mut stopped: Stop, place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(app.layer(Extension(place)));
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.handshake)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
    );
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stopped.wait() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

fn routes(rooms: Rooms, search: Option<&Search>, infer: Option<&Infer>, sense: Option<&Sense>) -> Router {
    let own = Router::new()
        .route("/", get(|| async { GREETING }))
        .route("/health", get(|| async { "ok" }))
        .route("/call/v1/{room}", get(call))
        .with_state(rooms);
    let own = search.map_or(own.clone(), |search| own.merge(search.routes()));
    let own = infer.map_or(own.clone(), |infer| own.merge(infer.routes()));
    sense.map_or(own.clone(), |sense| own.merge(sense.routes()))
}

async fn call(
    State(rooms): State<Rooms>,
    Path(room): Path<String>,
    Extension(place): Extension<Place>,
    upgrade: WebSocketUpgrade,
) -> Response {
    match room.parse::<RoomName>() {
        Ok(name) => upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES).on_upgrade(
            move |socket| async move {
                session(socket, name, rooms).await;
                drop(place);
            },
        ),
        Err(error) => (StatusCode::NOT_FOUND, error.to_string()).into_response(),
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
    /// A file of the certificate cannot be used.
    #[error("{}: {what}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Certificate and key do not go together, or not with TLS.
    #[error("certificate: {0}")]
    Tls(#[from] rustls::Error),
    /// The search cannot be served.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The models cannot be served.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// Devices' frames cannot be served.
    #[error(transparent)]
    Sense(#[from] SenseError),
    /// No certificate could be made.
    #[error("self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
}
