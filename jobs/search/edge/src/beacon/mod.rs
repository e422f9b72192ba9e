//! A Beacon of version 2 for programs on the same machine: JSON questions about single variants.
//! The caller supplies the answers.
//!
//! ```text
//!   GET  /, /info      the name and the description of this Beacon
//!   GET  /map          the map of endpoints: only /g_variants
//!   POST /g_variants   a question. query.requestParameters: referenceName, start (0-based),
//!                      referenceBases, alternateBases, assemblyId;
//!                      query.requestedGranularity: boolean or count
//! ```
//!
//! **No field of a request is ignored.** The Beacon rejects a field that it does not support, such
//! as a filter or a range, and names the field: an answer without the field would answer another
//! question. Every error has Beacon's form.
//!
//! Every program that reaches the Beacon asks in the name of its user. So the Beacon listens on
//! addresses of this machine only, and keeps web pages out. A request must name this machine as its
//! host. A query must have the type `application/json`, which a page of another origin may not send
//! without permission; for that reason questions are not GET requests. Requests for records are
//! rejected, because the protocol gives no records. The Beacon logs nothing of a request.

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

/// The variant of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeaconQuery {
    /// The chromosome, as written in the request.
    pub chromosome: String,
    /// The position, 1-based as in tables.
    pub position: u64,
    /// The reference allele.
    pub reference: String,
    /// The alternate allele.
    pub alternate: String,
    /// The assembly of the position, if the request names one.
    pub assembly: Option<String>,
    /// Whether the answer is the count; otherwise only whether the variant occurs.
    pub count: bool,
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeaconFailure {
    /// The question has no answer here.
    Question(String),
    /// A server did not answer.
    Server(String),
}

/// The count of a variant, or only 0 or 1 if the count is not wanted; or the reason why it is
/// unknown.
pub type BeaconAnswer = Pin<Box<dyn Future<Output = Result<u64, BeaconFailure>> + Send>>;

/// The source of answers.
pub type BeaconSource = Arc<dyn Fn(BeaconQuery) -> BeaconAnswer + Send + Sync>;

/// A Beacon that is bound to an address, but does not answer yet.
pub struct Beacon {
    listener: TcpListener,
    addr: SocketAddr,
    source: BeaconSource,
}

impl Beacon {
    /// Binds the address.
    ///
    /// # Errors
    /// [`ServerError::Bind`] if the address is in use, or other machines can reach it.
    pub async fn bind(addr: SocketAddr, source: BeaconSource) -> Result<Self, ServerError> {
        let fault = |source| ServerError::Bind { addr, source };
        if !addr.ip().is_loopback() {
            let what = "a Beacon listens on this machine alone (127.0.0.1:7611), because every question to it is asked in its owner's name";
            return Err(fault(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let listener = TcpListener::bind(addr).await.map_err(fault)?;
        let addr = listener.local_addr().map_err(fault)?;
        Ok(Self { listener, addr, source })
    }

    /// The Beacon's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until `shutdown` completes.
    ///
    /// # Errors
    /// The system's error.
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

/// The `meta` part of a reply to a request.
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
