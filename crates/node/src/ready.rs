//! Whether the server lets anybody in, and which of its jobs work: `/healthz` and `/readyz`.
//!
//! `/readyz` is 200 where every job that is served is ready, and 503 where one is not or the server
//! is closing, which is what load balancers look at. For those that look at the text as well, the
//! body of a 200 is `ready`, and that of a server that closes is `closing`. Whoever accepts
//! `application/json` gets one JSON object instead, and so does everybody while a job is not ready:
//!
//! ```text
//!   {"ready":false,"jobs":{"call":{"state":"ready"},"sense":{"state":"failing","reason":"storage is full"}}}
//! ```
//!
//! A job is `ready`, `failing` with a reason, or `closing`. Jobs that are not served are not
//! listed. No path, address or name is told.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};

use crate::{job::Job, stop::Stop};

/// How these jobs are, now.
fn answer(jobs: &[Arc<dyn Job>], headers: &HeaderMap, closing: bool) -> Response {
    let mut ready = !closing;
    let state = |job: &Arc<dyn Job>| {
        let told = match job.trouble() {
            _ if closing => json!({ "state": "closing" }),
            None => json!({ "state": "ready" }),
            Some(trouble) => {
                ready = false;
                json!({ "state": "failing", "reason": format!("storage {trouble}") })
            }
        };
        (job.name().to_owned(), told)
    };
    let jobs: BTreeMap<String, Value> = jobs.iter().map(state).collect();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let kind = headers.get(header::ACCEPT).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if (ready || closing) && !kind.contains("application/json") {
        return (status, if closing { "closing\n" } else { "ready\n" }).into_response();
    }
    let body = format!("{}\n", json!({ "ready": ready, "jobs": jobs }));
    (status, [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

/// What asks whether the server is there, and whether it lets anybody in.
pub(crate) fn routes(jobs: Vec<Arc<dyn Job>>, stopped: Stop) -> Router {
    // a look waits for no disk
    let ready = move |headers: HeaderMap| async move { answer(&jobs, &headers, stopped.is_given()) };
    let alive = || async { "ok" };
    Router::new().route("/health", get(alive)).route("/healthz", get(alive)).route("/readyz", get(ready))
}
