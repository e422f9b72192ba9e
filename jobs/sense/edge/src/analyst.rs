//! Figures for analysts: released results, as JSON and for Prometheus. The key holder's process
//! serves them, never the server that computed with encrypted readings.
//!
//! ```text
//!   GET /                    a page with the figures over time
//!   GET /releases            JSON: the newest release of every question
//!   GET /releases/{question} JSON: all releases of a question in memory, the oldest first
//!   GET /metrics             for Prometheus: the newest release of every question, and the numbers
//!                            of results that were released, withheld and refused
//! ```
//!
//! With a file of tokens, the endpoint serves only analysts with a token. Without tokens, it serves
//! only this machine, and rejects other addresses. A request must then also name this machine as
//! its host. This stops web pages that make other machines' names point here.
//!
//! The page has no figure, so it needs no token. It asks for the token and sends it with its own
//! requests. It draws with code of this endpoint alone.

use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io,
    net::SocketAddr,
    path::Path as FilePath,
    sync::{Arc, PoisonError, RwLock},
};
use tobari_node::{ServerError, hosts::names_this_machine, metrics::Metrics};
use tobari_node::{
    reply::Reply,
    tokens::{Tokens, TokensError},
};
use tobari_sense::desk::Opened;
use tobari_sense::release::{Release, Sample};
use tokio::net::TcpListener;

/// Releases of a question in memory; older ones are only files.
const KEPT: usize = 1000;

/// The figures that analysts can read.
#[derive(Default)]
pub struct Figures {
    questions: BTreeMap<String, Vec<Release>>,
    /// The numbers of windows with too few devices, by question.
    empty: BTreeMap<String, u64>,
    /// The numbers of windows whose frames the server had removed, by question.
    removed: BTreeMap<String, u64>,
    opened: Opened,
}

/// Figures that writers and readers share.
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

    /// Sets the numbers of results by outcome.
    pub fn count(&mut self, opened: Opened) {
        self.opened = opened;
    }

    /// Counts a window of a question in which too few devices had frames.
    pub fn count_empty(&mut self, question: &str) {
        *self.empty.entry(question.to_owned()).or_default() += 1;
    }

    /// Counts a window of a question of which the server had removed frames.
    pub fn count_removed(&mut self, question: &str) {
        *self.removed.entry(question.to_owned()).or_default() += 1;
    }

    /// The newest releases and the counts.
    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        // the sheets of a window have the numbers of devices and frames, and its end, in common
        let mut known = BTreeSet::new();
        let is_new = |sample: &Sample| known.insert((sample.name, sample.labels.clone()));
        for Sample { name, help, labels, value } in self.newest().flat_map(Release::samples).filter(is_new) {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            metrics.gauge(&format!("tobari_sense_{name}"), help).add(&labels, value);
        }
        let Opened { released, withheld, refused } = self.opened;
        let mut results = metrics.counter("tobari_sense_results_total", "Results by outcome.");
        for (outcome, count) in [("released", released), ("withheld", withheld), ("refused", refused)] {
            results.add(&[("outcome", outcome)], count);
        }
        let help = "Windows in which too few devices had frames, by question.";
        let mut empty = metrics.counter("tobari_sense_empty_windows_total", help);
        self.empty.iter().for_each(|(question, count)| empty.add(&[("question", question)], *count));
        let help = "Windows without a result, because the server had removed frames of them, by question.";
        let mut removed = metrics.counter("tobari_sense_removed_windows_total", help);
        self.removed.iter().for_each(|(question, count)| removed.add(&[("question", question)], *count));
        metrics
    }

    /// The releases of the newest window of each question: one for each sheet.
    fn newest(&self) -> impl Iterator<Item = &Release> {
        self.questions.values().flat_map(|releases| {
            let start = releases.last().map(|release| release.start_ms);
            releases.iter().filter(move |release| Some(release.start_ms) == start)
        })
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
    /// The address is not available.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The file of tokens is invalid.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl Analysts {
    /// Binds the address.
    ///
    /// # Errors
    /// [`AnalystError`], also for an address that other machines can reach without tokens.
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

    /// The address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves requests until `shutdown` is done.
    ///
    /// # Errors
    /// Errors of the system.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let figures = Router::new()
            .route("/releases", get(newest))
            .route("/releases/{question}", get(all))
            .route("/metrics", get(metrics))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.shared), enter));
        let mut page = Router::new();
        for (path, kind, text) in PAGE {
            page = page.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }));
        }
        let page = page.layer(middleware::from_fn_with_state(Arc::clone(&self.shared), find));
        let routes = figures.merge(page).layer(middleware::map_response(guarded)).with_state(self.shared);
        tobari_node::answer_few(self.listener, routes, shutdown).await;
        Ok(())
    }
}

/// The page: paths, content types and texts.
const PAGE: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("../assets/figures/index.html")),
    ("/figures.css", "text/css; charset=utf-8", include_str!("../assets/figures/figures.css")),
    ("/figures.js", "text/javascript; charset=utf-8", include_str!("../assets/figures/figures.js")),
];

/// The headers of every response: a page runs only code of this endpoint, and sends only to it.
const GUARDS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

async fn guarded(mut response: Response) -> Response {
    for (name, value) in GUARDS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Lets everybody read the page who may ask for figures, with or without a token.
async fn find(State(shared): State<Arc<Shared>>, headers: HeaderMap, request: Request, next: Next) -> Response {
    if shared.tokens.is_some() || names_this_machine(&headers) { next.run(request).await } else { foreign() }
}

fn foreign() -> Response {
    (StatusCode::FORBIDDEN, "expected this machine as the host").into_response()
}

async fn enter(State(shared): State<Arc<Shared>>, headers: HeaderMap, request: Request, next: Next) -> Response {
    match &shared.tokens {
        Some(tokens) if tokens.bearer(&headers).is_none() => Reply::unknown().into_response(),
        Some(_) => next.run(request).await,
        None if names_this_machine(&headers) => next.run(request).await,
        None => foreign(),
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

async fn metrics(State(shared): State<Arc<Shared>>) -> Metrics {
    let figures = shared.figures.read().unwrap_or_else(PoisonError::into_inner);
    figures.metrics()
}
