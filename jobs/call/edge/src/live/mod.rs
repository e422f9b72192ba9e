//! Live rooms: `/call/v3/{room}`, and what is counted of them at `/metrics`.
//!
//! The rules are those of [`tobari_call::live::server`]; here are sockets, clocks and threads. One
//! task owns each room and hears of everything through one bounded queue; each member has a bounded
//! queue of its own. Sockets are read and written, and packets decoded, on all cores; packets of
//! points are added on several ([`shards`]). Who does not take sums misses them, as on any bad
//! line; who does not take a roster is put out, because it would hear nothing from then on. With a
//! bus (feature `cascade`) a room is held by all servers on it whose members are in it.

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

use axum::{Router, routing::get};
use tobari_node::{HostName, stop::Stop};

use crate::{door::call, limits::RoomLimits, openers::Openers, rooms::Rooms};

use metrics::Metrics;
use mixing::Live;

/// All live rooms of a server, before anybody is in one.
pub(crate) struct LiveRooms(Live);

impl LiveRooms {
    /// For members that reach the server by these names, or by the host of their request.
    pub(crate) fn new(names: &[HostName], #[cfg(feature = "cascade")] bus: Option<bus::Bus>) -> Self {
        Self(Live {
            metrics: Arc::new(Metrics::default()),
            names: names.iter().map(HostName::to_string).collect(),
            #[cfg(feature = "cascade")]
            bus,
        })
    }

    /// The ways in.
    pub(crate) fn routes(&self, limits: RoomLimits, openers: Openers, stopped: Stop) -> Router {
        let rooms = Rooms::new(self.0.clone(), limits, openers, stopped);
        let calls = Router::new().route("/call/v3/{room}", get(call::<Live, true>));
        calls.route("/call/v2/{room}", get(call::<Live, false>)).with_state(rooms)
    }

    /// Their counters, in the format that Prometheus reads.
    pub(crate) fn metrics(&self) -> String {
        self.0.metrics.text()
    }
}
