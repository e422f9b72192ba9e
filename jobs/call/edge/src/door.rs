//! The way into rooms: an HTTP request turns into the WebSocket of one member.

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

/// The header with the word for programs of why a request is refused.
pub(crate) const REFUSAL: &str = "tobari-refusal";
/// What is said to whoever comes while the server ends.
pub(crate) const CLOSING: &str = "the server is shutting down or restarting, and lets nobody in";

/// A WebSocket for one member of a room of this kind. Where the protocol is not `CURRENT`, the
/// client is told to update.
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

/// To whoever wants to join while the server ends.
fn closing(seconds: u64) -> Response {
    let text = format!("{CLOSING}: try again in {seconds} s\n");
    let headers = [(RETRY_AFTER, seconds.to_string()), (HeaderName::from_static(REFUSAL), Code::Shutdown.to_string())];
    (StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response()
}
