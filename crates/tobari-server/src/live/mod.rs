//! Live rooms: `/call/v2/{room}`, and what is counted of them at `/metrics`.
//!
//! The rules are those of [`tobari_apps::call::live::server`]; here are sockets, clocks and threads. One task owns each room and hears of
//! everything through one bounded queue; each member has a bounded queue of its own. Who does not take sums misses them, as on any bad line;
//! who does not take a roster is put out, because it would hear nothing from then on.

mod metrics;
mod rooms;
mod session;
mod task;

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Path, State, WebSocketUpgrade},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tobari_apps::call::{PACKET_SAMPLES, messages::RoomName};

use crate::{ServerLimits, serve::Place, stop::Stop};

use metrics::Metrics;
use rooms::LiveRooms;

/// The longest message from a member: a packet on the curve of live rooms, which has 33 bytes a point.
pub(crate) const MAX_LIVE_MESSAGE_BYTES: usize = 34 * (PACKET_SAMPLES + 2) + 1024;

/// The routes of live rooms.
pub(crate) fn routes(limits: ServerLimits, stopped: Stop) -> Router {
    let metrics = Arc::new(Metrics::default());
    let rooms = LiveRooms::new(limits, stopped, Arc::clone(&metrics));
    Router::new().route("/call/v2/{room}", get(call)).with_state(rooms).route(
        "/metrics",
        get(move || async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text()) }),
    )
}

async fn call(
    State(rooms): State<LiveRooms>,
    Path(room): Path<String>,
    Extension(place): Extension<Place>,
    upgrade: WebSocketUpgrade,
) -> Response {
    match room.parse::<RoomName>() {
        Ok(name) => upgrade.max_message_size(MAX_LIVE_MESSAGE_BYTES).max_frame_size(MAX_LIVE_MESSAGE_BYTES).on_upgrade(
            move |socket| async move {
                session::session(socket, name, rooms).await;
                drop(place);
            },
        ),
        Err(error) => (StatusCode::NOT_FOUND, error.to_string()).into_response(),
    }
}
