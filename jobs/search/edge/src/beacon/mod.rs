//! A Beacon of version 2 for programs on the same machine: JSON questions about variants. The
//! caller supplies the answers.
//!
//! ```text
//!   GET  /, /info, /service-info, /configuration, /map, /entry_types, /filtering_terms
//!                      descriptions of this Beacon
//!   GET  /g_variants   a question in the address
//!   POST /g_variants   a question in a body of JSON
//! ```
//!
//! **No field of a request is ignored.** The Beacon rejects a field that it does not support, such
//! as a filter or a gene, and names the field: an answer without the field would answer another
//! question. Every error has Beacon's form.
//!
//! **Results are variants.** `exists` tells whether some variant that the question names
//! occurs, and `numTotalResults` how many of them do. `info` has the number of alleles, which
//! tells how often they occur together. There are no records, so a request for records is
//! answered by counts, and `returnedGranularity` says so. A request with `testMode` is answered
//! without data.
//!
//! Every program that reaches the Beacon asks in the name of its user. So the Beacon listens on
//! addresses of this machine only, and keeps web pages out. A request must name this machine as its
//! host. A body must have the type `application/json`, which a page of another origin may not send
//! without permission. A question in an address must not come from a page: browsers say so in
//! `Sec-Fetch-Site`, `Origin` or `Referer`. The Beacon logs nothing of a request.

mod address;
mod describe;
mod parameters;
mod request;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use describe::About;
use parameters::{Parsed, summary};
use serde_json::{Value, json};
use std::{future::Future, io, net::SocketAddr, pin::Pin, sync::Arc};
use tobari_node::{ServerError, hosts::names_this_machine};
use tokio::net::TcpListener;

const MOST_BYTES: usize = 1 << 16;
const API_VERSION: &str = "v2.0.0";
const BEACON_ID: &str = "org.tobari.search";

/// The variants of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeaconQuery {
    /// The chromosome, as written in the request.
    pub chromosome: String,
    /// The positions.
    pub region: BeaconRegion,
    /// The reference allele in upper case, if the request has one. N is any base.
    pub reference: Option<String>,
    /// The alternate allele in upper case, if the request has one. N is any base.
    pub alternate: Option<String>,
    /// The assembly of the positions, if the request names one.
    pub assembly: Option<String>,
    /// Whether the answer is a count; otherwise only whether a variant occurs.
    pub count: bool,
}

/// The positions of a question. Ranges count from 0 and are without their last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeaconRegion {
    /// Variants at this position, 1-based as in tables.
    At(u64),
    /// Variants that overlap a range.
    Range {
        /// The first base.
        start: u64,
        /// The base after the last one.
        end: u64,
    },
    /// Variants that begin in one range and end in another.
    Bracket {
        /// The range of first bases.
        start: (u64, u64),
        /// The range of ends: the bases after the last ones.
        end: (u64, u64),
    },
}

/// The level of detail of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Granularity {
    Boolean,
    Count,
}

impl Granularity {
    fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Count => "count",
        }
    }
}

/// The variants that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeaconFound {
    /// The variants of the question that occur.
    pub variants: u64,
    /// How often they occur: the sum of their alleles. Without meaning if no count was asked for.
    pub alleles: u64,
    /// The variants of the question that tables list, whether they occur or not.
    pub listed: u64,
    /// Variants with fewer alleles count as absent; 1 if none do.
    pub least: u32,
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeaconFailure {
    /// The question has no answer here.
    Question(String),
    /// A server did not answer.
    Server(String),
}

/// The variants of a question that occur; or the reason why that is unknown.
pub type BeaconAnswer = Pin<Box<dyn Future<Output = Result<BeaconFound, BeaconFailure>> + Send>>;

/// The source of answers.
pub type BeaconSource = Arc<dyn Fn(BeaconQuery) -> BeaconAnswer + Send + Sync>;

/// A Beacon that is bound to an address, but does not answer yet.
pub struct Beacon {
    listener: TcpListener,
    addr: SocketAddr,
    state: Arc<Answering>,
}

/// The state of a Beacon that answers.
struct Answering {
    source: BeaconSource,
    about: About,
}

impl Beacon {
    /// Binds the address. `assembly`: of all tables, if it is known. `most_questions`: the most
    /// questions that `source` sends for a request, which descriptions state.
    ///
    /// # Errors
    /// [`ServerError::Bind`] if the address is in use, or other machines can reach it.
    pub async fn bind(
        addr: SocketAddr,
        source: BeaconSource,
        assembly: Option<String>,
        most_questions: usize,
    ) -> Result<Self, ServerError> {
        let fault = |source| ServerError::Bind { addr, source };
        if !addr.ip().is_loopback() {
            let what = "a Beacon listens on this machine alone (127.0.0.1:7611), because every question to it is asked in its owner's name";
            return Err(fault(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let listener = TcpListener::bind(addr).await.map_err(fault)?;
        let addr = listener.local_addr().map_err(fault)?;
        let about = About { root: format!("http://{addr}"), assembly, most_questions };
        Ok(Self { listener, addr, state: Arc::new(Answering { source, about }) })
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
        axum::serve(self.listener, routes(self.state)).with_graceful_shutdown(shutdown).await
    }
}

fn routes(state: Arc<Answering>) -> Router {
    let about = |describe: fn(&About) -> Value| {
        get(async move |State(state): State<Arc<Answering>>, uri: Uri| described(&uri, &describe(&state.about)))
    };
    Router::new()
        .route("/", about(describe::info))
        .route("/info", about(describe::info))
        .route("/service-info", about(describe::service_info))
        .route("/configuration", about(|_| describe::configuration()))
        .route("/map", about(describe::map))
        .route("/entry_types", about(|_| describe::entry_types_response()))
        .route("/filtering_terms", about(|_| describe::filtering_terms()))
        .route("/g_variants", get(asked_in_address).post(asked_in_body))
        .fallback(async || {
            let what = "expected /g_variants, or /info, /service-info, /configuration, /map, /entry_types or \
                        /filtering_terms: this Beacon has no other entry types";
            failed(StatusCode::NOT_FOUND, what)
        })
        .method_not_allowed_fallback(async || {
            failed(StatusCode::METHOD_NOT_ALLOWED, "expected GET, or POST to /g_variants")
        })
        .layer(middleware::from_fn(from_this_machine))
        .with_state(state)
}

async fn from_this_machine(request: Request, next: Next) -> Response {
    if names_this_machine(request.headers()) {
        return next.run(request).await;
    }
    failed(StatusCode::FORBIDDEN, "expected this machine as the host")
}

/// Whether a browser sent the request for a web page. An address that a person enters is none.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    let entered = |value: &header::HeaderValue| value.as_bytes() == b"none";
    headers.contains_key(header::ORIGIN)
        || headers.contains_key(header::REFERER)
        || headers.get("sec-fetch-site").is_some_and(|site| !entered(site))
}

fn reply(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn failed(status: StatusCode, what: &str) -> Response {
    failed_to(status, what, Granularity::Boolean, summary())
}

/// The error of a request with this summary.
fn failed_to(status: StatusCode, what: &str, granularity: Granularity, received: Value) -> Response {
    let error = json!({ "errorCode": status.as_u16(), "errorMessage": what });
    reply(status, &json!({ "meta": meta(granularity, received), "error": error }))
}

/// The `meta` part of a reply to a question.
fn meta(granularity: Granularity, received: Value) -> Value {
    let mut meta = json!({
        "beaconId": BEACON_ID, "apiVersion": API_VERSION, "returnedSchemas": describe::returned_schemas(),
        "returnedGranularity": granularity.name(),
    });
    if received["testMode"] == true {
        meta["testMode"] = true.into();
    }
    meta["receivedRequestSummary"] = received;
    meta
}

fn described(uri: &Uri, description: &Value) -> Response {
    match address::check_informational(uri.query().unwrap_or_default()) {
        Ok(()) => reply(StatusCode::OK, description),
        Err(what) => failed(StatusCode::BAD_REQUEST, &what),
    }
}

async fn asked_in_address(State(state): State<Arc<Answering>>, uri: Uri, headers: HeaderMap) -> Response {
    if is_of_a_page(&headers) {
        let what = "expected a program, found a web page: a page could ask in your name unseen";
        return failed(StatusCode::FORBIDDEN, what);
    }
    answer(&state, address::parse(uri.query().unwrap_or_default())).await
}

async fn asked_in_body(State(state): State<Arc<Answering>>, uri: Uri, headers: HeaderMap, body: Body) -> Response {
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
    answer(&state, request::parse(&bytes)).await
}

async fn answer(state: &Answering, parsed: Result<Parsed, String>) -> Response {
    let Parsed { query, granularity, test_mode, summary } = match parsed {
        Ok(parsed) => parsed,
        Err(what) => return failed(StatusCode::BAD_REQUEST, &what),
    };
    if test_mode {
        let info = json!({ "note": "in test mode no server is asked, and nothing is found" });
        return reply(StatusCode::OK, &answered(BeaconFound::default(), granularity, summary, &info));
    }
    match (state.source)(query).await {
        Ok(found) => {
            let info = info_of(found, granularity, state.about.assembly.as_deref());
            reply(StatusCode::OK, &answered(found, granularity, summary, &info))
        }
        Err(BeaconFailure::Question(what)) => failed_to(StatusCode::BAD_REQUEST, &what, granularity, summary),
        Err(BeaconFailure::Server(what)) => failed_to(StatusCode::BAD_GATEWAY, &what, granularity, summary),
    }
}

fn answered(found: BeaconFound, granularity: Granularity, summary: Value, info: &Value) -> Value {
    let mut response = json!({ "exists": found.variants > 0 });
    if granularity == Granularity::Count {
        response["numTotalResults"] = found.variants.into();
    }
    json!({ "meta": meta(granularity, summary), "responseSummary": response, "info": info })
}

/// Facts about an answer for which the specification has no member.
fn info_of(found: BeaconFound, granularity: Granularity, assembly: Option<&str>) -> Value {
    let mut info = json!({ "listedVariants": found.listed });
    if granularity == Granularity::Count {
        info["alleleCount"] = found.alleles.into();
    }
    if found.least > 1 {
        info["leastAlleleCount"] = found.least.into();
    }
    if let Some(assembly) = assembly {
        info["assemblyId"] = assembly.into();
    }
    info
}
