//! What is done with each request.

use super::{
    FleetName, Sense, Shared,
    fleet::{AnswerError, Fleet, Known, MAX_ORDER, is_id},
    now_ms,
};
use crate::search::{drain, reply::Reply, sha256};
use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::{fmt::Write, sync::Arc};
use tobari_apps::sense::bundle::{Bundle, MAX_BUNDLE, MAX_OBJECT};
use tobari_apps::sense::cloud::CloudError;
use tobari_apps::sense::enrol::{hex, unhex};
use tobari_apps::sense::ingest::IngestCounts;
use tobari_apps::sense::order::{Order, OrderError};
use tokio::time::timeout;

/// Takes frames. Anybody may send them: a frame's MAC tells who made it.
pub(super) async fn frames(
    State(sense): State<Sense>,
    Path(fleet): Path<String>,
    body: Body,
) -> Result<Response, Reply> {
    let shared = sense.shared;
    let found = shared.named(&fleet);
    let (fleet, known) = match found {
        Ok(found) => found,
        Err(reply) => {
            drain(body).await;
            return Err(reply);
        }
    };
    let Ok(_place) = shared.places.try_acquire() else {
        drain(body).await;
        let text = "expected room for another batch, found none: send it again";
        return Err(Reply::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text));
    };
    let bytes = shared.read(body, shared.options.batch_bytes).await?;
    let counts = take(&shared, &fleet, &known, bytes).await?;
    let told: serde_json::Map<_, _> =
        counts.named().iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    Ok(([(header::CONTENT_TYPE, "application/json")], json!(told).to_string()).into_response())
}

/// Has frames checked and stored; what was refused is counted whatever becomes of the rest.
pub(super) async fn take(
    shared: &Shared,
    fleet: &Fleet,
    known: &Arc<Known>,
    bytes: Bytes,
) -> Result<IngestCounts, Reply> {
    let gate = Arc::clone(known);
    let checked = shared.cpu.run(move || Fleet::check(&gate, &bytes)).await;
    let (frames, checked, mut counts) = checked.ok_or_else(|| Reply::fault("a fault of the server"))?;
    fleet.counts.lock().frames.add(&counts);
    if !checked.is_empty() {
        let stored = Fleet::store(known, frames, checked).await;
        counts.add(&stored.ok_or_else(|| Reply::fault("a fault of the server: the frames are not stored"))?);
    }
    Ok(counts)
}

/// What is known of a fleet.
pub(super) async fn known(
    State(sense): State<Sense>,
    Path(fleet): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    sense.shared.enter(&headers)?;
    let (_, known) = sense.shared.named(&fleet)?;
    let told = json!({ "version": 1, "bundle": hex(&known.hash) });
    Ok(([(header::CONTENT_TYPE, "application/json")], told.to_string()).into_response())
}

/// Takes a bundle, of a fleet that is new or known.
pub(super) async fn bundle(
    State(sense): State<Sense>,
    Path(fleet): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let bytes = sense.shared.keyholders(&headers, body, MAX_BUNDLE).await?;
    let name = named(&fleet)?;
    let bundle = Bundle::decode(&bytes).map_err(|error| malformed(error.to_string()))?;
    if bundle.fleet != fleet {
        return Err(malformed("expected the bundle of the fleet that the path names, found another's".to_owned()));
    }
    let taken = blocking(move || {
        let Some(fleet) = sense.fleet_or_new(&name).map_err(fault)? else {
            let text = "expected room for another fleet, found none";
            return Err(Reply::new(StatusCode::INSUFFICIENT_STORAGE, "quota", text));
        };
        fleet
            .take_bundle(bundle, &bytes)
            .map_err(fault)?
            .map_err(|missing| Reply::new(StatusCode::CONFLICT, "object", format!("expected {missing}, found none")))
    });
    taken.await?;
    tracing::info!("a fleet's bundle was taken");
    Ok(StatusCode::CREATED)
}

/// Whether there is an object.
pub(super) async fn has_object(
    State(sense): State<Sense>,
    Path((fleet, hash)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    sense.shared.enter(&headers)?;
    let name = named(&fleet)?;
    let has = unhex::<32>(&hash).is_some() && sense.shared.fleet(&name).is_some_and(|fleet| fleet.has_object(&hash));
    let text = "expected the name of an object that is there, found another";
    has.then_some(StatusCode::NO_CONTENT).ok_or_else(|| Reply::new(StatusCode::NOT_FOUND, "object", text))
}

/// Takes an object.
pub(super) async fn object(
    State(sense): State<Sense>,
    Path((fleet, hash)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let bytes = sense.shared.keyholders(&headers, body, MAX_OBJECT).await?;
    let name = named(&fleet)?;
    let kept = blocking(move || {
        let found = sha256(&bytes);
        if unhex(&hash) != Some(found) {
            return Err(malformed("expected bytes whose SHA-256 is their name, found others".to_owned()));
        }
        let Some(fleet) = sense.fleet_or_new(&name).map_err(fault)? else {
            let text = "expected room for another fleet, found none";
            return Err(Reply::new(StatusCode::INSUFFICIENT_STORAGE, "quota", text));
        };
        fleet.keep_object(&found, &bytes).map_err(fault)
    });
    kept.await?;
    Ok(StatusCode::CREATED)
}

/// Takes an order.
pub(super) async fn order(
    State(sense): State<Sense>,
    Path((fleet, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let bytes = sense.shared.keyholders(&headers, body, MAX_ORDER).await?;
    let (fleet, known) = sense.shared.named(&fleet)?;
    let order: Order =
        serde_json::from_slice(&bytes).map_err(|_| malformed("expected an order, found another text".to_owned()))?;
    order.check().map_err(|error| malformed(error.to_string()))?;
    if !is_id(&id) || order.profile != known.bundle.profile {
        return Err(malformed(
            "expected a name of 16 hexadecimal digits and the fleet's profile, found others".to_owned(),
        ));
    }
    let kept = blocking(move || fleet.keep_order(&id, order, &bytes).map_err(fault)).await?;
    let text = "expected room for another order, or this name for this order; found another under it, or no room";
    kept.then_some(StatusCode::CREATED).ok_or_else(|| Reply::new(StatusCode::CONFLICT, "question", text))
}

/// Forgets an order.
pub(super) async fn forget(
    State(sense): State<Sense>,
    Path((fleet, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    sense.shared.enter(&headers)?;
    let (fleet, _) = sense.shared.named(&fleet)?;
    let gone = is_id(&id) && blocking(move || Ok(fleet.forget_order(&id))).await?;
    gone.then_some(StatusCode::NO_CONTENT).ok_or_else(no_question)
}

/// Windows whose results can be fetched.
pub(super) async fn windows(
    State(sense): State<Sense>,
    Path((fleet, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    sense.shared.enter(&headers)?;
    let (fleet, _) = sense.shared.named(&fleet)?;
    let order = fleet.order(&id).ok_or_else(no_question)?;
    let windows = blocking(move || fleet.windows(&id, &order, now_ms()).map_err(fault)).await?;
    let told = json!({ "version": 1, "windows": windows });
    Ok(([(header::CONTENT_TYPE, "application/json")], told.to_string()).into_response())
}

/// Computes the results of a window.
pub(super) async fn answer(
    State(sense): State<Sense>,
    Path((fleet, id, start)): Path<(String, String, u64)>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = sense.shared;
    shared.enter(&headers)?;
    let (fleet, known) = shared.named(&fleet)?;
    let order = fleet.order(&id).ok_or_else(no_question)?;
    let begins = start.is_multiple_of(order.every_ms) && start.checked_add(order.length_ms).is_some();
    if !begins || start + order.length_ms > now_ms() {
        let text = "expected a window of the question that has ended, found another";
        return Err(Reply::new(StatusCode::CONFLICT, "window", text));
    }
    let Ok(_place) = shared.questions.acquire().await else { return Err(Reply::fault("a fault of the server")) };
    let memory = shared.options.memory;
    let answered = shared.cpu.run(move || fleet.answer(&known, &order, start, memory)).await;
    let bytes = answered.ok_or_else(|| Reply::fault("a fault of the server"))?.map_err(|error| unanswered(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Notes that results were fetched.
pub(super) async fn done(
    State(sense): State<Sense>,
    Path((fleet, id, start)): Path<(String, String, u64)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    sense.shared.enter(&headers)?;
    let (fleet, _) = sense.shared.named(&fleet)?;
    fleet.order(&id).ok_or_else(no_question)?;
    blocking(move || fleet.note_done(&id, start).map_err(fault)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a device's frames.
pub(super) async fn remove(
    State(sense): State<Sense>,
    Path((fleet, number)): Path<(String, u32)>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    sense.shared.enter(&headers)?;
    let (fleet, known) = sense.shared.named(&fleet)?;
    let removed = blocking(move || fleet.remove_device(&known, number).map_err(fault)).await?;
    tracing::info!(frames = removed, "frames of a device were removed");
    Ok(([(header::CONTENT_TYPE, "application/json")], json!({ "removed": removed }).to_string()).into_response())
}

/// What was counted of all fleets together, for Prometheus.
pub(super) async fn metrics(State(sense): State<Sense>, headers: HeaderMap) -> Result<Response, Reply> {
    sense.shared.enter(&headers)?;
    let (mut frames, mut stored, mut groups, fleets) = (IngestCounts::default(), 0, 0, sense.shared.all());
    for fleet in &fleets {
        let counted = *fleet.counts.lock();
        frames.add(&counted.frames);
        (stored, groups) = (stored + counted.stored, groups + counted.groups);
    }
    let mut text = String::new();
    for (what, count) in frames.named() {
        // writing to a string does not fail
        let _ = writeln!(text, "tobari_sense_frames_total{{verdict=\"{what}\"}} {count}");
    }
    let _ = writeln!(
        text,
        "tobari_sense_frames_stored {stored}\ntobari_sense_commits_total {groups}\ntobari_sense_fleets {}",
        fleets.len()
    );
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

fn named(fleet: &str) -> Result<FleetName, Reply> {
    let text = "expected the name of a fleet that this server has, found another";
    unhex(fleet).ok_or_else(|| Reply::new(StatusCode::NOT_FOUND, "fleet", text))
}

fn no_question() -> Reply {
    Reply::new(StatusCode::NOT_FOUND, "question", "expected the name of a question that is registered, found another")
}

fn malformed(text: String) -> Reply {
    Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", text)
}

fn fault(error: impl std::fmt::Display) -> Reply {
    tracing::error!(%error, "a fault");
    Reply::fault("a fault of the server: its storage")
}

fn unanswered(error: &AnswerError) -> Reply {
    match error {
        AnswerError::Cloud(CloudError::Order(OrderError::Empty { .. })) => {
            Reply::new(StatusCode::NOT_FOUND, "empty", error.to_string())
        }
        AnswerError::Cloud(CloudError::Order(_)) => {
            Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "overflow", error.to_string())
        }
        AnswerError::Cloud(CloudError::Material(_)) => Reply::new(StatusCode::CONFLICT, "object", error.to_string()),
        _ => fault(error),
    }
}

/// Work with files, beside the asynchronous threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Reply> + Send + 'static) -> Result<T, Reply> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Reply::fault("a fault of the server")))
}

impl Shared {
    /// Whether who asks may.
    fn enter(&self, headers: &HeaderMap) -> Result<(), Reply> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        tokens.bearer(headers).map(|_| ()).ok_or_else(Reply::unknown)
    }

    /// A fleet whose bundle came.
    fn named(&self, fleet: &str) -> Result<(Arc<Fleet>, Arc<Known>), Reply> {
        let found = self.fleet(&named(fleet)?).and_then(|fleet| Some((Arc::clone(&fleet), fleet.known()?)));
        let text = "expected the name of a fleet that this server has, found another";
        found.ok_or_else(|| Reply::new(StatusCode::NOT_FOUND, "fleet", text))
    }

    /// The body of a request of a key holder.
    async fn keyholders(&self, headers: &HeaderMap, body: Body, most: usize) -> Result<Bytes, Reply> {
        if let Err(reply) = self.enter(headers) {
            drain(body).await;
            return Err(reply);
        }
        self.read(body, most).await
    }

    /// All of a body.
    async fn read(&self, body: Body, most: usize) -> Result<Bytes, Reply> {
        match timeout(self.options.patience, to_bytes(body, most)).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) => {
                let text = format!("expected a body of at most {most} bytes, found more, or an end too soon");
                Err(Reply::new(StatusCode::PAYLOAD_TOO_LARGE, "size", text))
            }
            Err(_) => Err(Reply::new(StatusCode::REQUEST_TIMEOUT, "time", "expected the whole body sooner")),
        }
    }
}
