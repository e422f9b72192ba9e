//! Figures for analysts: what a key holder released, as JSON and for Prometheus. It is the key
//! holder's process that serves them, and never the server that computed with encrypted readings.
//!
//! ```text
//!   GET /                    one line: what this is
//!   GET /releases            JSON: the newest release of every question
//!   GET /releases/{question} JSON: all releases of a question that are at hand, the oldest first
//!   GET /metrics             the newest release of every question for Prometheus, and how many results were released, withheld and refused
//! ```
//!
//! With a file of tokens, only analysts who have one are served. Without, whoever is on this
//! machine; other addresses are refused then. A request must name this machine as its host where
//! there are no tokens, which keeps web pages out that have other machines' names point here.

use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{
    collections::BTreeMap,
    fmt::Write,
    future::Future,
    io,
    net::SocketAddr,
    path::Path as FilePath,
    sync::{Arc, PoisonError, RwLock},
};
use tobari_node::{ServerError, hosts::names_this_machine};
use tobari_node::{
    reply::Reply,
    tokens::{Tokens, TokensError},
};
use tobari_sense::desk::Opened;
use tobari_sense::release::Release;
use tokio::net::TcpListener;

/// Releases of a question that are at hand; older ones are files.
const KEPT: usize = 1000;

/// What analysts are shown.
#[derive(Default)]
pub struct Figures {
    questions: BTreeMap<String, Vec<Release>>,
    opened: Opened,
}

/// The same, for those who write and those who read.
pub type SharedFigures = Arc<RwLock<Figures>>;

impl Figures {
    /// Adds a release.
    pub fn add(&mut self, release: Release) {
        let releases = self.questions.entry(release.question.clone()).or_default();
        let place = releases.partition_point(|known| known.start_ms <= release.start_ms);
        releases.insert(place, release);
        if releases.len() > KEPT {
            releases.remove(0);
        }
    }

    /// Says what became of results so far.
    pub fn count(&mut self, opened: Opened) {
        self.opened = opened;
    }

    fn newest(&self) -> impl Iterator<Item = &Release> {
        self.questions.values().filter_map(|releases| releases.last())
    }
}

/// An endpoint that listens but does not answer yet.
pub struct Analysts {
    listener: TcpListener,
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    figures: SharedFigures,
    tokens: Option<Tokens>,
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalystError {
    /// The address cannot be had.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// What is wrong with the file of tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl Analysts {
    /// Takes the address.
    ///
    /// # Errors
    /// [`AnalystError`]: without tokens, for an address that others reach.
    pub async fn bind(
        addr: SocketAddr,
        tokens: Option<&FilePath>,
        figures: SharedFigures,
    ) -> Result<Self, AnalystError> {
        let tokens = tokens.map(Tokens::read).transpose()?;
        let fault = |source| ServerError::Bind { addr, source };
        if tokens.is_none() && !addr.ip().is_loopback() {
            let what = "other machines reach this address: add --analysts FILE";
            return Err(fault(io::Error::new(io::ErrorKind::InvalidInput, what)).into());
        }
        let listener = TcpListener::bind(addr).await.map_err(fault)?;
        let addr = listener.local_addr().map_err(fault)?;
        Ok(Self { listener, addr, shared: Arc::new(Shared { figures, tokens }) })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until `shutdown` is done.
    ///
    /// # Errors
    /// What the system says.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let routes = Router::new()
            .route("/", get(|| async { "Tobari: figures of devices, released by the key holder.\n" }))
            .route("/releases", get(newest))
            .route("/releases/{question}", get(all))
            .route("/metrics", get(metrics))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.shared), enter))
            .with_state(self.shared);
        tobari_node::answer_few(self.listener, routes, shutdown).await;
        Ok(())
    }
}

async fn enter(State(shared): State<Arc<Shared>>, headers: HeaderMap, request: Request, next: Next) -> Response {
    match &shared.tokens {
        Some(tokens) if tokens.bearer(&headers).is_none() => Reply::unknown().into_response(),
        Some(_) => next.run(request).await,
        None if names_this_machine(&headers) => next.run(request).await,
        None => (StatusCode::FORBIDDEN, "expected this machine as the host").into_response(),
    }
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => Reply::fault("a fault of the key holder").into_response(),
    }
}

async fn newest(State(shared): State<Arc<Shared>>) -> Response {
    let figures = shared.figures.read().unwrap_or_else(PoisonError::into_inner);
    json(&figures.newest().collect::<Vec<_>>())
}

async fn all(State(shared): State<Arc<Shared>>, Path(question): Path<String>) -> Response {
    let figures = shared.figures.read().unwrap_or_else(PoisonError::into_inner);
    let text = "expected the name of a question that has releases, found another";
    let found = figures.questions.get(&question);
    found.map_or_else(|| Reply::new(StatusCode::NOT_FOUND, "question", text).into_response(), json)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let figures = shared.figures.read().unwrap_or_else(PoisonError::into_inner);
    let mut text: String = figures.newest().map(Release::prometheus).collect();
    let Opened { released, withheld, refused } = figures.opened;
    for (what, count) in [("released", released), ("withheld", withheld), ("refused", refused)] {
        // writing to a string does not fail
        let _ = writeln!(text, "tobari_sense_results_total{{outcome=\"{what}\"}} {count}");
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
