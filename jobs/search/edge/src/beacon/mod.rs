//! A Beacon of version 2 for programs on the same machine: questions about single variants as JSON,
//! answered by whatever the caller gives.
//!
//! ```text
//!   GET  /, /info      who this is
//!   GET  /map          the one endpoint
//!   POST /g_variants   query.requestParameters: referenceName, start (0-based), referenceBases, alternateBases, assemblyId; query.requestedGranularity: boolean or count
//! ```
//!
//! **Nothing of a request is passed over**: a field that this Beacon does not answer to,
//! as a filter or a range, is refused by its name, because an answer without it is the answer to
//! another question. Every refusal has Beacon's form of an error.
//!
//! Whoever asks here asks as the caller, so that only addresses of this machine are listened at,
//! and web pages are kept out: a request must name this machine as its host, and a query must be of
//! the type `application/json`, which a page of another origin may not send unasked. For that
//! reason a question is no GET. Records are refused, as there is no way to them. Nothing of a
//! request is logged.

mod request;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use request::parse;
use serde_json::{Value, json};
use std::{future::Future, io, net::SocketAddr, pin::Pin, sync::Arc};
use tobari_node::{ServerError, hosts::names_this_machine};
use tokio::net::TcpListener;

const MOST_BYTES: usize = 1 << 16;
const API_VERSION: &str = "v2.0.0";
const BEACON_ID: &str = "org.tobari.search";

/// A variant that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeaconQuery {
    /// The chromosome, as the request has it.
    pub chromosome: String,
    /// The position, 1-based, as tables have it.
    pub position: u64,
    /// The reference allele.
    pub reference: String,
    /// The alternate allele.
    pub alternate: String,
    /// The assembly that the position is of, if the request names one.
    pub assembly: Option<String>,
    /// Whether the number is wanted, and not only whether there is one.
    pub count: bool,
}

/// Why there is no answer, for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeaconFailure {
    /// A question that has no answer here.
    Question(String),
    /// A server that did not answer.
    Server(String),
}

/// How often a variant occurs, 0 or 1 where only that is wanted; or why it is not known.
pub type BeaconAnswer = Pin<Box<dyn Future<Output = Result<u64, BeaconFailure>> + Send>>;

/// What answers.
pub type BeaconSource = Arc<dyn Fn(BeaconQuery) -> BeaconAnswer + Send + Sync>;

/// A Beacon that listens but does not answer yet.
pub struct Beacon {
    listener: TcpListener,
    addr: SocketAddr,
    source: BeaconSource,
}

impl Beacon {
    /// Takes the address.
    ///
    /// # Errors
    /// [`ServerError::Bind`] if it is taken, or not of this machine alone.
    pub async fn bind(addr: SocketAddr, source: BeaconSource) -> Result<Self, ServerError> {
        let fault = |source| ServerError::Bind { addr, source };
        if !addr.ip().is_loopback() {
            let what = "expected an address of this machine alone, as 127.0.0.1:7611, because whoever asks a beacon asks as its owner";
            return Err(fault(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let listener = TcpListener::bind(addr).await.map_err(fault)?;
        let addr = listener.local_addr().map_err(fault)?;
        Ok(Self { listener, addr, source })
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
            .route("/", get(info))
            .route("/info", get(info))
            .route("/map", get(map))
            .route("/g_variants", post(variants))
            .fallback(async || failed(StatusCode::NOT_FOUND, "expected /info, /map or /g_variants"))
            .method_not_allowed_fallback(async || {
                let what = "expected POST of application/json to /g_variants, and GET elsewhere: web pages may send GET unasked";
                failed(StatusCode::METHOD_NOT_ALLOWED, what)
            })
            .layer(middleware::from_fn(from_this_machine))
            .with_state(self.source);
        axum::serve(self.listener, routes).with_graceful_shutdown(shutdown).await
    }
}

async fn from_this_machine(request: Request, next: Next) -> Response {
    if names_this_machine(request.headers()) {
        return next.run(request).await;
    }
    failed(StatusCode::FORBIDDEN, "expected this machine as the host")
}

fn meta() -> Value {
    json!({ "beaconId": BEACON_ID, "apiVersion": API_VERSION, "returnedSchemas": [] })
}

fn reply(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn failed(status: StatusCode, what: &str) -> Response {
    failed_to(status, what, &request::summary())
}

/// The error of a request with this summary.
fn failed_to(status: StatusCode, what: &str, received: &Value) -> Response {
    let error = json!({ "errorCode": status.as_u16(), "errorMessage": what });
    reply(status, &json!({ "meta": meta_of(received), "error": error }))
}

/// What is told with an answer to a request.
fn meta_of(received: &Value) -> Value {
    let mut meta = meta();
    meta["returnedGranularity"] = received["requestedGranularity"].clone();
    meta["receivedRequestSummary"] = received.clone();
    meta
}

async fn info() -> Response {
    let response = json!({
        "id": BEACON_ID, "name": "Tobari search", "apiVersion": API_VERSION, "environment": "prod",
        "organization": { "id": "local", "name": "this machine" },
        "description": "single variants of a table, asked for under encryption",
    });
    reply(StatusCode::OK, &json!({ "meta": meta(), "response": response }))
}

async fn map() -> Response {
    let sets = json!({ "genomicVariant": { "entryType": "genomicVariant", "rootUrl": "/g_variants" } });
    let response = json!({
        "$schema": "https://raw.githubusercontent.com/ga4gh-beacon/beacon-v2/main/framework/json/configuration/beaconMapSchema.json",
        "endpointSets": sets,
    });
    reply(StatusCode::OK, &json!({ "meta": meta(), "response": response }))
}

async fn variants(State(source): State<BeaconSource>, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json");
    }
    if uri.query().is_some() {
        let what = "expected the question in the body, found some of it after ? in the address";
        return failed(StatusCode::BAD_REQUEST, what);
    }
    let Ok(bytes) = to_bytes(body, MOST_BYTES).await else {
        return failed(StatusCode::PAYLOAD_TOO_LARGE, "expected at most 65536 bytes");
    };
    let (query, received) = match parse(&bytes) {
        Ok(parsed) => parsed,
        Err(what) => return failed(StatusCode::BAD_REQUEST, &what),
    };
    let count = query.count;
    match source(query).await {
        Ok(found) => {
            let mut summary = json!({ "exists": found > 0 });
            if count {
                summary["numTotalResults"] = found.into();
            }
            reply(StatusCode::OK, &json!({ "meta": meta_of(&received), "responseSummary": summary }))
        }
        Err(BeaconFailure::Question(what)) => failed_to(StatusCode::BAD_REQUEST, &what, &received),
        Err(BeaconFailure::Server(what)) => failed_to(StatusCode::BAD_GATEWAY, &what, &received),
    }
}
