//! The handlers of the requests.

use super::{Infer, Name, Shared, large::Found, models::Served};
use crate::network::{EngineError, Ring};
use axum::{
    Extension,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tobari_infer::messages;
use tobari_infer::server::Seconds;
use tobari_node::body::{or_drain, read};
use tobari_node::clients::Origin;
use tobari_node::clients::Place;
use tobari_node::places::{Full, Tag};
use tobari_node::reply::{Reply, octets};
use tobari_octets::{hex, sha256, unhex};

/// The header with the number of large keys that the server has.
const NEXT: &str = "tobari-next";
/// Time for one large key, of a hundred megabytes.
const KEY_PATIENCE: Duration = Duration::from_secs(600);

/// Lists the models.
pub(super) async fn list(State(infer): State<Infer>, headers: HeaderMap) -> Result<Response, Reply> {
    let shared = infer.shared;
    shared.enter(&headers, &Origin::Unknown)?;
    let models: Vec<_> = shared.models.values().map(|served| &served.line).collect();
    let told = json!({ "version": 1, "models": models });
    Ok(([(header::CONTENT_TYPE, "application/json")], told.to_string()).into_response())
}

/// Returns the public facts of a model.
pub(super) async fn model(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    shared.enter(&headers, &Origin::Unknown)?;
    let (_, served) = shared.model(&digest)?;
    Ok(octets(served.direct()?.card.clone()))
}

/// Returns whether the server has these keys.
pub(super) async fn known(
    State(infer): State<Infer>,
    Path((digest, hash)): Path<(String, String)>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    let origin = shared.enter(&headers, &place.guest.origin)?;
    let (model, served) = shared.model(&digest)?;
    let hash = unhex(&hash).ok_or_else(no_keys)?;
    if served.direct()?.is_large {
        let found = shared.large.found(&(model, hash), &shared.keeper.tag(&origin));
        return Ok(match found {
            Found::All => StatusCode::NO_CONTENT.into_response(),
            Found::First(next) => ([(NEXT, next.to_string())], no_keys()).into_response(),
        });
    }
    let known = shared.keys().rings.contains_key(&(model, hash));
    known.then(|| StatusCode::NO_CONTENT.into_response()).ok_or_else(no_keys)
}

/// Stores one of a client's large keys.
pub(super) async fn large_key(
    State(infer): State<Infer>,
    Path((digest, hash, index)): Path<(String, String, usize)>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    let found = shared.enter(&headers, &place.guest.origin).and_then(|origin| {
        let (model, served) = shared.model(&digest)?;
        let hash = unhex(&hash).ok_or_else(no_keys)?;
        let direct = served.direct()?;
        if !direct.is_large {
            let text = "the keys of this model are one message, without a number after their name";
            return Err(Reply::new(StatusCode::CONFLICT, "order", text));
        }
        let length = messages::key_lengths(&direct.known).get(index).copied();
        let length = length.ok_or_else(|| malformed(format!("expected {} keys", direct.known.keys.len())))?;
        shared.store.iter().try_for_each(|store| store.disk().ready())?;
        Ok((origin, (model, hash), served, length))
    });
    let ((origin, place, served, length), body) = or_drain(found, body).await?;
    let mut claim = shared.memory.claim(&origin);
    let bytes = read(body, length, shared.options.patience.max(KEY_PATIENCE), &mut claim).await?;
    let turn = Arc::new(shared.uploads.take(&origin).await?);
    let work = Arc::clone(&shared);
    let taken = shared.cpu.run_in(&turn, move || {
        let store = work.store.as_ref().ok_or_else(no_keys)?;
        work.large.take((store, &served), &place, work.keeper.tag(&origin), index, &bytes)
    });
    let found = taken.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))?;
    Ok(match found {
        Found::All => (StatusCode::CREATED, [("tobari-key", hex(&place.1))]).into_response(),
        Found::First(next) => (StatusCode::NO_CONTENT, [(NEXT, next.to_string())]).into_response(),
    })
}

/// Stores keys.
pub(super) async fn register(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    let found = shared.enter(&headers, &place.guest.origin).and_then(|origin| {
        let (model, served) = shared.model(&digest)?;
        let limit = served.direct()?.keys.0;
        if served.direct()?.is_large {
            let text = "the keys of this model are gigabytes: send them one by one (POST …/keys/{hash}/{n})";
            return Err(Reply::new(StatusCode::CONFLICT, "order", text));
        }
        shared.store.iter().try_for_each(|store| store.disk().ready())?;
        shared.has_room(None, &shared.keeper.tag(&origin), &served)?;
        Ok((origin, model, served, limit))
    });
    let ((origin, model, served, limit), body) = or_drain(found, body).await?;
    let mut claim = shared.memory.claim(&origin);
    let bytes = read(body, limit, shared.options.patience, &mut claim).await?;
    let turn = Arc::new(shared.uploads.take(&origin).await?);
    let work = Arc::clone(&shared);
    let taken = shared.cpu.run_in(&turn, move || {
        let hash = sha256(&bytes);
        work.take(&(model, hash), &served, work.keeper.tag(&origin), &bytes).map(|()| hash)
    });
    let hash = taken.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))?;
    Ok((StatusCode::CREATED, [("tobari-key", hex(&hash))]).into_response())
}

/// Answers a question.
pub(super) async fn answer(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    let found = shared.enter(&headers, &place.guest.origin).and_then(|origin| {
        let (model, served) = shared.model(&digest)?;
        let limit = served.direct()?.question;
        let hash = headers.get("tobari-key").and_then(|value| value.to_str().ok()).and_then(unhex);
        let place = hash.map(|hash| (model, hash)).ok_or_else(no_keys)?;
        let ring = if served.direct()?.is_large { None } else { Some(shared.used(&place)?) };
        if ring.is_none() && shared.large.found(&place, &shared.keeper.tag(&origin)) != Found::All {
            return Err(no_keys());
        }
        Ok((origin, served, limit, ring, place))
    });
    let ((origin, served, limit, ring, keys), body) = or_drain(found, body).await?;
    let mut claim = shared.memory.claim(&origin);
    let bytes = read(body, limit, shared.options.patience, &mut claim).await?;
    let turn = Arc::new(shared.turns.take(&origin).await?);
    let Some(ring) = ring else {
        return Ok(super::run::begin(shared, (served, keys), origin, turn, (claim, bytes)));
    };
    shared.note_use(keys);
    let answered = shared.cpu.run_in(&turn, move || run(&served, &ring, &bytes));
    let (answer, seconds) = answered.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))?;
    Ok(([("server-timing", timing(&seconds))], octets(claim.answer(answer))).into_response())
}

/// Milliseconds by stage, in the form that browsers read. The computation does not depend on the
/// content of the question, so the times reveal nothing about it.
fn timing(seconds: &Seconds) -> String {
    let stage = |(at, (_, seconds)): (usize, &(String, f64))| format!("s{at};dur={:.2}", 1e3 * seconds);
    seconds.iter().enumerate().map(stage).collect::<Vec<_>>().join(", ")
}

/// The answer, and the seconds of each stage.
fn run(served: &Served, ring: &Ring, bytes: &[u8]) -> Result<(Vec<u8>, Seconds), Reply> {
    let direct = served.direct()?;
    direct.engine.answer(&direct.known, ring, bytes, |_, _, _| true).map_err(|error| refused(&error))
}

pub(super) fn no_keys() -> Reply {
    let text = "the server has no keys of this name for the model: send them first";
    Reply::new(StatusCode::NOT_FOUND, "key", text)
}

/// The reply when all room for keys is in use, or this client's share.
fn no_room(full: &Full) -> Reply {
    let reply = Reply::full(full, "quota", ("keys", "--infer-keys"));
    Reply { status: StatusCode::INSUFFICIENT_STORAGE, ..reply }
}

fn malformed(text: String) -> Reply {
    Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", text)
}

pub(super) fn refused(error: &EngineError) -> Reply {
    if error.is_of_the_client() {
        return malformed(error.to_string());
    }
    tracing::error!(%error, "a question was not answered");
    Reply::fault("a fault of the server: no answer could be computed")
}

impl Shared {
    /// The client's origin, if the client has access.
    pub(super) fn enter(&self, headers: &HeaderMap, origin: &Origin) -> Result<Origin, Reply> {
        let Some(tokens) = &self.tokens else { return Ok(origin.clone()) };
        tokens.bearer(headers).map(Origin::Token).ok_or_else(Reply::unknown)
    }

    pub(super) fn model(&self, digest: &str) -> Result<(Name, Arc<Served>), Reply> {
        let found = unhex(digest).and_then(|name| Some((name, Arc::clone(self.models.get(&name)?))));
        let text = "the server has no model with this digest: `tobari infer keygen` makes a key for one of its models";
        found.ok_or_else(|| Reply::new(StatusCode::NOT_FOUND, "model", text))
    }

    /// Checks that there is room for keys of this client.
    fn has_room(&self, place: Option<&(Name, Name)>, tag: &Tag, served: &Served) -> Result<(), Reply> {
        let checked = self.keys().places.check(place, tag, served.direct()?.keys.1, SystemTime::now());
        checked.map_err(|full| no_room(&full))
    }

    /// Stores keys: room is checked before anything is decoded, and keys are on the disk before the
    /// client gets a reply.
    fn take(&self, place: &(Name, Name), served: &Served, tag: Tag, bytes: &[u8]) -> Result<(), Reply> {
        let done = self.take_in(place, served, tag, bytes);
        let keys = self.keys();
        let (bytes, sets) = (keys.places.bytes(), keys.rings.len());
        tracing::info!(bytes, sets, taken = done.is_ok(), "keys were sent");
        done
    }

    fn take_in(&self, place: &(Name, Name), served: &Served, tag: Tag, bytes: &[u8]) -> Result<(), Reply> {
        if self.keys().rings.contains_key(place) {
            self.note_use(*place);
            return Ok(());
        }
        self.has_room(Some(place), &tag, served)?;
        let ring = self.make_ready(served, bytes)?;
        if let Some(store) = &self.store {
            store.write(place, &tag, bytes).map_err(|error| store.disk().failed(&error))?;
        }
        let mut keys = self.keys();
        let taken = keys.places.take(place, tag, served.direct()?.keys.1, SystemTime::now());
        if taken.is_ok() {
            keys.rings.insert(*place, ring);
        } else if let Some(store) = &self.store {
            // other clients took the room meanwhile
            store.remove(place);
        }
        let given = taken.map_err(|full| no_room(&full))?;
        for other in &given {
            keys.rings.remove(other);
            // under the lock, so that no request stores the same keys meanwhile
            if let Some(store) = &self.store {
                store.remove(other);
            }
        }
        if !given.is_empty() {
            tracing::info!(sets = given.len(), "keys that were not used for long were given away");
        }
        Ok(())
    }

    /// The keys of this name.
    fn used(&self, place: &(Name, Name)) -> Result<Ring, Reply> {
        self.keys().rings.get(place).cloned().ok_or_else(no_keys)
    }

    /// Records a use of keys.
    fn note_use(&self, place: (Name, Name)) {
        let now = SystemTime::now();
        let due = self.keys().places.touch(&place, now);
        if let Some(store) = self.store.as_ref().filter(|_| due) {
            store.tell(&place, now);
        }
    }

    pub(super) fn make_ready(&self, served: &Served, bytes: &[u8]) -> Result<Ring, Reply> {
        let direct = served.direct()?;
        let keys = messages::decode_keys(bytes, &direct.known);
        let keys = keys.map_err(|error| malformed(error.to_string()))?;
        direct.engine.keyring(keys).map_err(|error| refused(&error))
    }
}
