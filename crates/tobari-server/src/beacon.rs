//! A Beacon of version 2 for programs on the same machine: questions about single variants as JSON, answered by whatever the caller gives.
//!
//! ```text
//!   GET  /, /info      who this is
//!   GET  /map          the one endpoint
//!   POST /g_variants   query.requestParameters: referenceName, start (0-based), referenceBases, alternateBases; query.requestedGranularity: boolean or count
//! ```
//!
//! Whoever asks here asks as the caller, so that only addresses of this machine are listened at, and web pages are kept out: a request must name this machine as its host, and
//! a query must be of the type `application/json`, which a page of another origin may not send unasked. Records are refused, as there is no way to them. Nothing of a request is logged.

use crate::ServerError;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use std::{future::Future, io, net::SocketAddr, pin::Pin, sync::Arc};
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
    /// Whether the number is wanted, and not only whether there is one.
    pub count: bool,
}

/// How often a variant occurs, 0 or 1 where only that is wanted; or why it is not known, for whoever asked.
pub type BeaconAnswer = Pin<Box<dyn Future<Output = Result<u64, String>> + Send>>;

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
            .layer(middleware::from_fn(from_this_machine))
            .with_state(self.source);
        axum::serve(self.listener, routes).with_graceful_shutdown(shutdown).await
    }
}

/// Names that other machines' names may be made to point to are no name of this one.
pub(crate) async fn from_this_machine(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    if ["localhost", "127.0.0.1", "[::1]"].contains(&name) {
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
    let error = json!({ "errorCode": status.as_u16(), "errorMessage": what });
    reply(status, &json!({ "meta": meta(), "error": error }))
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

async fn variants(State(source): State<BeaconSource>, headers: HeaderMap, body: Body) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json");
    }
    let Ok(bytes) = to_bytes(body, MOST_BYTES).await else {
        return failed(StatusCode::PAYLOAD_TOO_LARGE, "expected at most 65536 bytes");
    };
    let query = match parse(&bytes) {
        Ok(query) => query,
        Err(what) => return failed(StatusCode::BAD_REQUEST, what),
    };
    let granularity = if query.count { "count" } else { "boolean" };
    match source(query).await {
        Ok(found) => {
            let mut summary = json!({ "exists": found > 0 });
            if granularity == "count" {
                summary["numTotalResults"] = found.into();
            }
            let mut meta = meta();
            meta["returnedGranularity"] = granularity.into();
            meta["receivedRequestSummary"] = json!({
                "apiVersion": API_VERSION, "requestedGranularity": granularity, "requestedSchemas": [],
                "pagination": { "skip": 0, "limit": 0 },
            });
            reply(StatusCode::OK, &json!({ "meta": meta, "responseSummary": summary }))
        }
        Err(what) => failed(StatusCode::BAD_GATEWAY, &what),
    }
}

/// A request's body; otherwise what is wrong with it.
fn parse(bytes: &[u8]) -> Result<BeaconQuery, &'static str> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| "expected JSON")?;
    let query = &value["query"];
    let count = match &query["requestedGranularity"] {
        Value::Null => false,
        Value::String(text) if text == "boolean" => false,
        Value::String(text) if text == "count" => true,
        _ => return Err("expected granularity boolean or count: there are no records"),
    };
    let parameters = &query["requestParameters"];
    // some programs send the parameters of a variant under a name of their own
    let parameters = parameters.get("g_variant").unwrap_or(parameters);
    let text =
        |name: &str, what| parameters[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned).ok_or(what);
    let start = match &parameters["start"] {
        Value::Array(list) if list.len() == 1 => list[0].as_u64(),
        Value::Array(_) => return Err("expected one start: variants are asked for at their position"),
        start => start.as_u64(),
    };
    Ok(BeaconQuery {
        chromosome: text("referenceName", "expected referenceName")?,
        // 0-based there, 1-based in tables
        position: start.and_then(|start| start.checked_add(1)).ok_or("expected start, a number from 0")?,
        reference: text("referenceBases", "expected referenceBases")?,
        alternate: text("alternateBases", "expected alternateBases")?,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_begin_at_zero_and_records_are_refused() {
        let with = |granularity: &str, start: &str| {
            let parameters =
                format!(r#"{{"referenceName":"20","start":{start},"referenceBases":"A","alternateBases":"C"}}"#);
            parse(
                format!(r#"{{"query":{{"requestedGranularity":{granularity},"requestParameters":{parameters}}}}}"#)
                    .as_bytes(),
            )
        };
        let expected = BeaconQuery {
            chromosome: "20".to_owned(),
            position: 100,
            reference: "A".to_owned(),
            alternate: "C".to_owned(),
            count: true,
        };
        assert_eq!(with("\"count\"", "[99]"), Ok(expected.clone()));
        assert_eq!(with("null", "99"), Ok(BeaconQuery { count: false, ..expected }));
        for (granularity, start) in [
            ("\"record\"", "99"),
            ("7", "99"),
            ("null", "[1,2]"),
            ("null", "-1"),
            ("null", "null"),
            ("null", "18446744073709551615"),
        ] {
            assert!(with(granularity, start).is_err(), "{granularity} {start}");
        }
        for wrong in ["", "[]", "{}", "{\"query\":7}"] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn whatever_is_posted_is_a_whole_query_or_refused() {
        let good = r#"{"query":{"requestedGranularity":"count","requestParameters":{"g_variant":{"referenceName":"20","start":[0],"referenceBases":"A","alternateBases":"C"}}}}"#;
        let judge = |bytes: &[u8]| {
            let Ok(query) = parse(bytes) else { return false };
            let texts = [&query.chromosome, &query.reference, &query.alternate];
            assert!(query.position > 0 && texts.iter().all(|text| !text.is_empty()), "{query:?}");
            true
        };
        assert!(judge(good.as_bytes()));
        for place in 0..good.len() {
            assert!(!judge(&good.as_bytes()[..place]));
            for change in *b"\"[]{}:,9-e\\\0\xff" {
                let mut changed = good.as_bytes().to_vec();
                changed[place] = change;
                judge(&changed);
            }
        }
        assert!(!judge(&b"[".repeat(1 << 20)) && !judge(&b"{\"query\":".repeat(1 << 16)));
    }
}
