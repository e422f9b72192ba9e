//! Live rooms: `/call/v3/{room}`, and their counters at `/metrics`.
//!
//! [`tobari_call::live::server`] has the rules; this module has sockets, clocks and threads. One
//! task owns each room and receives all events through one bounded queue. Each member has its own
//! bounded queue. Sockets are read and written, and packets decoded, on all cores; packets of
//! points are added on several ([`shards`]). A member that is too slow misses sums, as on any bad
//! line. A member that does not take a roster is removed, because it could not decrypt any later
//! sum. With a bus (feature `cascade`) all servers with members in a room hold the room together.

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

/// All live rooms of a server.
pub(crate) struct LiveRooms(Live);

impl LiveRooms {
    /// For members that reach the server under these names, or under the host of their request.
    pub(crate) fn new(names: &[HostName], #[cfg(feature = "cascade")] bus: Option<bus::Bus>) -> Self {
        Self(Live {
            metrics: Arc::new(Metrics::default()),
            names: names.iter().map(HostName::to_string).collect(),
            #[cfg(feature = "cascade")]
            bus,
        })
    }

    /// The routes.
    pub(crate) fn routes(&self, limits: RoomLimits, openers: Openers, stopped: Stop) -> Router {
        let rooms = Rooms::new(self.0.clone(), limits, openers, stopped);
        let calls = Router::new().route("/call/v3/{room}", get(call::<Live, true>));
        calls.route("/call/v2/{room}", get(call::<Live, false>)).with_state(rooms)
    }

    /// Adds their counters.
    pub(crate) fn metrics(&self, metrics: &mut tobari_node::metrics::Metrics) {
        self.0.metrics.add_to(metrics);
    }
}
