//! The first check of every request. It counts requests for hosts that are not this server's, and
//! requests without a known token.
//!
//! An attacker who guesses tokens can send thousands of requests a second. So the server counts
//! refusals, and writes one log line for an interval. Neither the counter nor the line has an
//! address, a token or a host.

use crate::{body::DRAINED, hosts::Hosts, metrics::Metrics, reply::Reply};
use axum::{
    body::HttpBody,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

/// The log gets at most one line of a kind in this time.
const INTERVAL: Duration = Duration::from_secs(10);

/// Refusals of one kind.
#[derive(Default)]
struct Count {
    all: AtomicU64,
    /// The refusals that the log already has.
    told: AtomicU64,
}

impl Count {
    /// The number of refusals since the last call.
    fn untold(&self) -> u64 {
        let all = self.all.load(Relaxed);
        all.saturating_sub(self.told.swap(all, Relaxed))
    }
}

/// The state of the first check.
pub(crate) struct Edge {
    hosts: Hosts,
    unknown: Count,
    misdirected: Count,
    come: Notify,
}

impl Edge {
    pub(crate) fn new(hosts: Hosts) -> Self {
        Self { hosts, unknown: Count::default(), misdirected: Count::default(), come: Notify::new() }
    }

    /// Logs the first refusal at once, and the following ones together, once in an interval.
    pub(crate) async fn keep_up(self: Arc<Self>) {
        loop {
            self.come.notified().await;
            self.tell();
            sleep(INTERVAL).await;
        }
    }

    /// Logs the refusals since the last line.
    pub(crate) fn tell(&self) {
        let (unknown, misdirected) = (self.unknown.untold(), self.misdirected.untold());
        if unknown > 0 {
            tracing::warn!(count = unknown, "requests without a known token were refused");
        }
        if misdirected > 0 {
            tracing::warn!(
                count = misdirected,
                "requests for another host than this server's were refused: --host-name names those that it answers for"
            );
        }
    }

    /// Adds the counters.
    pub(crate) fn metrics(&self, metrics: &mut Metrics) {
        let unknown = metrics.counter("tobari_edge_unknown_tokens_total", "Requests without a known token.");
        unknown.set(self.unknown.all.load(Relaxed));
        let misdirected = metrics.counter("tobari_edge_misdirected_total", "Requests for another host name.");
        misdirected.set(self.misdirected.all.load(Relaxed));
    }

    fn count(&self, status: StatusCode) {
        let count = match status {
            StatusCode::UNAUTHORIZED => &self.unknown,
            StatusCode::MISDIRECTED_REQUEST => &self.misdirected,
            _ => return,
        };
        count.all.fetch_add(1, Relaxed);
        self.come.notify_one();
    }
}

/// Refuses requests for hosts that are not this server's, and counts refusals.
///
/// The server does not read a long body of a refused request, so the connection ends. The answer
/// says so: otherwise a client would send its next request into a connection that closes.
pub(crate) async fn pass(State(edge): State<Arc<Edge>>, request: Request, next: Next) -> Response {
    let is_long = HttpBody::size_hint(request.body()).exact().is_none_or(|length| length > DRAINED);
    let mut response = if edge.hosts.admit(request.version(), request.uri(), request.headers()) {
        next.run(request).await
    } else {
        let text = "this server does not answer for the host that the request names: reach it as localhost, or have \
                    its operator name the host (tobari serve --host-name)";
        Reply::new(StatusCode::MISDIRECTED_REQUEST, "host", text).into_response()
    };
    let status = response.status();
    if is_long && (status.is_client_error() || status.is_server_error()) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    edge.count(status);
    response
}
