//! Whether the server accepts clients, and which of its jobs work: `/healthz` and `/readyz`.
//!
//! `/readyz` is for load balancers: 200 if every served job is ready, and 503 if one is not or the
//! server is closing. The body of a 200 is `ready`, and the body of a closing server is `closing`.
//! A client that accepts `application/json` gets one JSON object instead, and so does every client
//! while a job is not ready:
//!
//! ```text
//!   {"ready":false,"jobs":{"call":{"state":"ready"},
//!                          "sense":{"state":"failing","reason":"storage is full"}}}
//! ```
//!
//! A job is `ready`, `failing` with a reason, or `closing`. Only served jobs are listed. The answer
//! contains no path, address or client's name.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};

use crate::{job::Job, stop::Stop};

/// The current state of these jobs.
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

/// The routes for liveness and readiness.
pub(crate) fn routes(jobs: Vec<Arc<dyn Job>>, stopped: Stop) -> Router {
    // answering waits for no disk
    let ready = move |headers: HeaderMap| async move { answer(&jobs, &headers, stopped.is_given()) };
    let alive = || async { "ok" };
    Router::new().route("/health", get(alive)).route("/healthz", get(alive)).route("/readyz", get(ready))
}
