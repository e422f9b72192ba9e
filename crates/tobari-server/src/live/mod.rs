//! Live rooms: `/call/v3/{room}`, and what is counted of them at `/metrics`.
//!
//! The rules are those of [`tobari_apps::call::live::server`]; here are sockets, clocks and threads. One task owns each room and hears of
//! everything through one bounded queue; each member has a bounded queue of its own. Sockets are read and written, and packets decoded, on all
//! cores; packets of points are added on several ([`shards`]). Who does not take sums misses them, as on any bad line;
//! who does not take a roster is put out, because it would hear nothing from then on. With a bus (feature `cascade`) a room is held by all servers
//! on it whose members are in it.

#[cfg(feature = "cascade")]
pub(crate) mod bus;
mod intake;
#[cfg(feature = "cascade")]
mod joined;
mod metrics;
mod mixing;
mod owner;
mod seats;
mod shards;
mod task;

use std::sync::Arc;

use axum::{Router, http::header, routing::get};

use crate::{ServerLimits, door::call, edge::Edge, hosts::HostName, rooms::Rooms, stop::Stop};

use metrics::Metrics;
use mixing::Live;

/// The routes of live rooms; what the edge counts is told with their counters.
pub(crate) fn routes(
    limits: ServerLimits,
    stopped: Stop,
    names: &[HostName],
    edge: Arc<Edge>,
    #[cfg(feature = "cascade")] bus: Option<bus::Bus>,
) -> Router {
    let metrics = Arc::new(Metrics::default());
    let live = Live {
        metrics: Arc::clone(&metrics),
        names: names.iter().map(HostName::to_string).collect(),
        #[cfg(feature = "cascade")]
        bus,
    };
    let rooms = Rooms::new(live, limits, stopped);
    let calls = Router::new().route("/call/v3/{room}", get(call::<Live, true>));
    calls.route("/call/v2/{room}", get(call::<Live, false>)).with_state(rooms).route(
        "/metrics",
        get(move || async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text() + &edge.text()) }),
    )
}
