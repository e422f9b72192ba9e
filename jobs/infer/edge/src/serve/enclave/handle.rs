//! The handlers of the requests. A body is read up to the length of its message, before the request
//! takes a turn.

use super::house::{EnclaveHost, Kind};
use crate::serve::{Infer, Shared};
use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use std::sync::Arc;
use tobari_enclave::{Nonce, SessionId};
use tobari_node::body::{or_drain, read};
use tobari_node::clients::Origin;
use tobari_node::clients::Place;
use tobari_node::memory::Claim;
use tobari_node::reply::{Reply, octets};
use tobari_node::turns::Turn;
use tobari_octets::unhex;

/// Bytes of a session's number, and of the encapsulated key of its channel.
const ID_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// Returns the enclave's offer.
pub(super) async fn offer(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    Ok(octets(house(&infer.shared, &digest, &headers, &Origin::Unknown)?.0.offer()))
}

/// Returns evidence of a new session.
pub(super) async fn report(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let found = house(&infer.shared, &digest, &headers, &place.guest.origin);
    let ((house, origin), body) = or_drain(found, body).await?;
    let (held, bytes) = take(&infer.shared, &origin, body, size_of::<Nonce>()).await?;
    let nonce = Nonce(exactly(&bytes)?);
    let work = move |house: &EnclaveHost| {
        let _held = held;
        house.report(&nonce, &origin)
    };
    Ok(octets(run(&infer.shared, house, work).await?))
}

/// Opens a session.
pub(super) async fn open(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let found = house(&infer.shared, &digest, &headers, &place.guest.origin);
    let ((house, origin), body) = or_drain(found, body).await?;
    let (held, bytes) = take(&infer.shared, &origin, body, ID_BYTES + KEY_BYTES).await?;
    let both: [u8; ID_BYTES + KEY_BYTES] = exactly(&bytes)?;
    let (id, key) = both.split_at(ID_BYTES);
    let (id, key) = (SessionId(exactly(id)?), exactly::<KEY_BYTES>(key)?);
    let work = move |house: &EnclaveHost| {
        let _held = held;
        house.open_session(id, &key)
    };
    run(&infer.shared, house, work).await.map(|()| StatusCode::CREATED)
}

/// Handles the frame of an image.
pub(super) async fn image(
    state: State<Infer>,
    path: Path<(String, String)>,
    place: Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    message(state, path, place, (headers, body), Kind::Image).await
}

/// Handles the frame that asks for the output.
pub(super) async fn ask(
    state: State<Infer>,
    path: Path<(String, String)>,
    place: Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    message(state, path, place, (headers, body), Kind::Ask).await
}

async fn message(
    State(infer): State<Infer>,
    Path((digest, id)): Path<(String, String)>,
    Extension(place): Extension<Place>,
    (headers, body): (HeaderMap, Body),
    kind: Kind,
) -> Result<Response, Reply> {
    let found = house(&infer.shared, &digest, &headers, &place.guest.origin).and_then(|(house, origin)| {
        let none = || {
            let text = "expected the frame of an image, found a request for its answer";
            Reply::new(StatusCode::NOT_FOUND, "message", text)
        };
        let expected = house.frame_bytes(kind).ok_or_else(none)?;
        Ok((house, origin, number(&id)?, expected))
    });
    let ((house, origin, id, expected), body) = or_drain(found, body).await?;
    let (held, frame) = take(&infer.shared, &origin, body, expected).await?;
    let work = move |house: &EnclaveHost| {
        let _held = held;
        house.message(id, kind, &frame)
    };
    Ok(octets(run(&infer.shared, house, work).await?))
}

/// Ends a session.
pub(super) async fn close(
    State(infer): State<Infer>,
    Path((digest, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    let (house, _) = house(&infer.shared, &digest, &headers, &Origin::Unknown)?;
    let id = number(&id)?;
    run(&infer.shared, house, move |house| house.close(id)).await.map(|()| StatusCode::NO_CONTENT)
}

/// The enclave of a model, and the client's origin if the client has access.
fn house(
    shared: &Shared,
    digest: &str,
    headers: &HeaderMap,
    origin: &Origin,
) -> Result<(Arc<EnclaveHost>, Origin), Reply> {
    let origin = shared.enter(headers, origin)?;
    let (_, served) = shared.model(digest)?;
    let text =
        "the server has no enclave for this model: use `tobari infer run`, or ask the operator for --infer-enclave";
    let house = served.enclave.clone().ok_or_else(|| Reply::new(StatusCode::NOT_FOUND, "enclave", text))?;
    Ok((house, origin))
}

fn number(text: &str) -> Result<SessionId, Reply> {
    let none = || {
        let text = "expected the number of a session as 32 hexadecimal digits, found other text";
        Reply::new(StatusCode::NOT_FOUND, "session", text)
    };
    unhex(text).map(SessionId).ok_or_else(none)
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Reply> {
    let wrong = || {
        let text = format!("expected a body of {N} bytes, found {}", bytes.len());
        Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", text)
    };
    bytes.try_into().map_err(|_| wrong())
}

/// The whole body of a message, with the turn and the memory to hold while it is processed.
async fn take(shared: &Shared, origin: &Origin, body: Body, expected: usize) -> Result<((Turn, Claim), Bytes), Reply> {
    let mut claim = shared.memory.claim(origin);
    let bytes = read(body, expected, shared.options.patience, &mut claim).await?;
    Ok(((shared.turns.take(origin).await?, claim), bytes))
}

/// Runs work on the enclave in its turn. The work holds the turn to the end, even if the client
/// disconnects. What the client's own turn and memory are for, `work` holds itself.
async fn run<T: Send + 'static>(
    shared: &Shared,
    house: Arc<EnclaveHost>,
    work: impl FnOnce(&EnclaveHost) -> Result<T, Reply> + Send + 'static,
) -> Result<T, Reply> {
    let turn = match &house.turns {
        Some(turns) => Arc::clone(turns).acquire_owned().await.ok(),
        None => None,
    };
    let done = shared.cpu.run(move || {
        let done = work(&house);
        drop(turn);
        done
    });
    done.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))
}
