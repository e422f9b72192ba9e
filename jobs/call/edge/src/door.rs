//! The entry to rooms: upgrades an HTTP request to the WebSocket of one member.

use axum::{
    Extension,
    extract::{Path, State, WebSocketUpgrade},
    http::{HeaderMap, HeaderName, StatusCode, header, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use tobari_call::live::host_of;
use tobari_call::messages::{Code, RoomName};
use tobari_client::READ_BYTES;
use tobari_node::{clients::Place, origins::Origins};

use crate::{
    kind::Kind,
    rooms::Rooms,
    session::{Call, session},
};

/// The header with the machine-readable reason of a refusal.
pub(crate) const REFUSAL: &str = "tobari-refusal";
/// The answer to a join during shutdown.
pub(crate) const CLOSING: &str = "the server is shutting down or restarting, and lets nobody in";

/// A WebSocket for one member of a room of this kind. If the protocol is not `CURRENT`, the answer
/// asks the client to update.
pub(crate) async fn call<K: Kind, const CURRENT: bool>(
    State(rooms): State<Rooms<K>>,
    Path(room): Path<String>,
    Extension(place): Extension<Place>,
    Extension(origins): Extension<Origins>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    answer_call((rooms, room, CURRENT), place, &origins, &headers, upgrade)
}

fn answer_call<K: Kind>(
    (rooms, room, is_asked): (Rooms<K>, String, bool),
    place: Place,
    origins: &Origins,
    headers: &HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !origins.admits(headers) {
        return (StatusCode::FORBIDDEN, "pages of this origin may not call here\n").into_response();
    }
    let most = K::MAX_MESSAGE_BYTES;
    if let Some(seconds) = rooms.stopped().seconds_left() {
        return closing(seconds);
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).and_then(host_of);
    match room.parse::<RoomName>() {
        Ok(room) => {
            let upgrade = upgrade.max_message_size(most).max_frame_size(most).read_buffer_size(READ_BYTES);
            upgrade.on_upgrade(move |socket| async move {
                session(socket, Call { room, host, is_asked, guest: &place.guest }, rooms).await;
                drop(place);
            })
        }
        Err(error) => (StatusCode::NOT_FOUND, error.to_string()).into_response(),
    }
}

/// The response to a join during shutdown.
fn closing(seconds: u64) -> Response {
    let text = format!("{CLOSING}: try again in {seconds} s\n");
    let headers = [(RETRY_AFTER, seconds.to_string()), (HeaderName::from_static(REFUSAL), Code::Shutdown.to_string())];
    (StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response()
}
