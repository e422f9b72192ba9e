//! What is done with each request.

use super::{Infer, Name, Shared, models::Served};
use crate::body::{or_drain, place, read};
use crate::search::{hex, reply::Reply, sha256, unhex};
use axum::{
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use serde_json::json;
use std::{sync::Arc, time::Instant};
use tobari_apps::infer::{
    messages,
    server::{Keyring, Seconds, ServeError},
};
use tobari_core::ckks::SeededCiphertext;
use zeroize::Zeroizing;

/// The models.
pub(super) async fn list(State(infer): State<Infer>, headers: HeaderMap) -> Result<Response, Reply> {
    let shared = infer.shared;
    shared.enter(&headers)?;
    let models: Vec<_> = shared.models.values().map(|served| &served.line).collect();
    let told = json!({ "version": 1, "models": models });
    Ok(([(header::CONTENT_TYPE, "application/json")], told.to_string()).into_response())
}

/// What clients may know of a model.
pub(super) async fn model(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    shared.enter(&headers)?;
    let (_, served) = shared.model(&digest)?;
    Ok(octets(served.card.clone()))
}

/// Whether there are such keys.
pub(super) async fn known(
    State(infer): State<Infer>,
    Path((digest, hash)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    let shared = infer.shared;
    shared.enter(&headers)?;
    let (model, _) = shared.model(&digest)?;
    let hash = unhex(&hash).ok_or_else(no_keys)?;
    shared.keys().rings.contains_key(&(model, hash)).then_some(StatusCode::NO_CONTENT).ok_or_else(no_keys)
}

/// Takes keys.
pub(super) async fn register(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    let found = shared.enter(&headers).and_then(|()| shared.model(&digest));
    let ((model, served), body) = or_drain(found, body).await?;
    let (_place, body) = place(&shared.uploads, body).await?;
    let bytes = read(body, served.keys.0, shared.options.patience).await?;
    let work = Arc::clone(&shared);
    let taken = shared.cpu.run(move || {
        let hash = sha256(&bytes);
        work.take(&model, &served, hash, &bytes, true).map(|()| hash)
    });
    let hash = taken.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))?;
    Ok((StatusCode::CREATED, [("tobari-key", hex(&hash))]).into_response())
}

/// Answers a question.
pub(super) async fn answer(
    State(infer): State<Infer>,
    Path(digest): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = infer.shared;
    let found = shared.enter(&headers).and_then(|()| shared.model(&digest));
    let found = found.and_then(|(model, served)| {
        let hash = headers.get("tobari-key").and_then(|value| value.to_str().ok()).and_then(unhex);
        let ring = hash.and_then(|hash| shared.keys().rings.get(&(model, hash)).cloned());
        Ok((served, ring.ok_or_else(no_keys)?))
    });
    let ((served, ring), body) = or_drain(found, body).await?;
    let (_place, body) = place(&shared.places, body).await?;
    let bytes = read(body, served.question, shared.options.patience).await?;
    let answered = shared.cpu.run(move || run(&served, &ring, &bytes));
    let (answer, seconds) = answered.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))?;
    Ok(([("server-timing", timing(&seconds))], octets(answer.into())).into_response())
}

/// Milliseconds by stage, as browsers read them: what is computed does not depend on what was sent, so they tell nothing of it.
fn timing(seconds: &Seconds) -> String {
    let stage = |(at, (_, seconds)): (usize, &(String, f64))| format!("s{at};dur={:.2}", 1e3 * seconds);
    seconds.iter().enumerate().map(stage).collect::<Vec<_>>().join(", ")
}

/// The answer, and the seconds of each stage.
fn run(served: &Served, ring: &Keyring, bytes: &[u8]) -> Result<(Vec<u8>, Seconds), Reply> {
    let service = &served.service;
    let question = messages::decode_question(bytes, service.card());
    let question = question.map_err(|error| malformed(error.to_string()))?;
    let image = question.iter().map(SeededCiphertext::expand).collect();
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(|_| Reply::fault("a fault of the server: no randomness"))?;
    let (mut rng, began) = (ChaCha20Rng::from_seed(*seed), Instant::now());
    let ran = service.resume(ring).run_timed(image, &mut rng, &mut || began.elapsed().as_secs_f64());
    let (answer, seconds) = ran.map_err(|error| refused(&error))?;
    Ok((messages::encode_answer(&answer), seconds))
}

pub(super) fn octets(bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response()
}

fn no_keys() -> Reply {
    let text = "expected the name of keys that this server has for this model, found another or none: send them first";
    Reply::new(StatusCode::NOT_FOUND, "key", text)
}

fn malformed(text: String) -> Reply {
    Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", text)
}

fn refused(error: &ServeError) -> Reply {
    match error {
        ServeError::Count { .. } | ServeError::Ciphertext { .. } | ServeError::Key { .. } => {
            malformed(error.to_string())
        }
        _ => Reply::fault("a fault of the server: no answer could be computed"),
    }
}

impl Shared {
    /// Whether who asks may.
    pub(super) fn enter(&self, headers: &HeaderMap) -> Result<(), Reply> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        tokens.bearer(headers).map(|_| ()).ok_or_else(Reply::unknown)
    }

    pub(super) fn model(&self, digest: &str) -> Result<(Name, Arc<Served>), Reply> {
        let found = unhex(digest).and_then(|name| Some((name, Arc::clone(self.models.get(&name)?))));
        let text = "expected the digest of a model that this server has, found another";
        found.ok_or_else(|| Reply::new(StatusCode::NOT_FOUND, "model", text))
    }

    /// Keys are taken: their memory is reserved before anything is decoded, and they are on the disk before they are told of.
    pub(super) fn take(
        &self,
        model: &Name,
        served: &Served,
        hash: Name,
        bytes: &[u8],
        keep: bool,
    ) -> Result<(), Reply> {
        let (place, memory) = ((*model, hash), served.keys.1);
        {
            let mut keys = self.keys();
            if keys.rings.contains_key(&place) {
                return Ok(());
            }
            let (found, most) = (keys.bytes.saturating_add(memory), self.options.key_bytes);
            if found > most {
                let text =
                    format!("expected room for {memory} bytes of keys within the server's {most}, found too little");
                return Err(Reply::new(StatusCode::INSUFFICIENT_STORAGE, "quota", text));
            }
            keys.bytes = found;
        }
        let ready = self.make_ready(served, bytes).and_then(|ring| {
            let kept = match &self.store {
                Some(store) if keep => store.write(model, &hash, bytes),
                _ => Ok(()),
            };
            kept.map(|()| ring).map_err(|error| {
                tracing::error!(%error, "keys cannot be kept");
                Reply::fault("a fault of the server: the keys cannot be kept")
            })
        });
        let mut keys = self.keys();
        // what was reserved goes back where there is nothing to show for it, or the same twice
        let done = ready.map(|ring| keys.rings.insert(place, ring).is_some());
        if !matches!(done, Ok(false)) {
            keys.bytes = keys.bytes.saturating_sub(memory);
        }
        tracing::info!(bytes = keys.bytes, sets = keys.rings.len(), taken = done.is_ok(), "keys were sent");
        done.map(|_| ())
    }

    fn make_ready(&self, served: &Served, bytes: &[u8]) -> Result<Keyring, Reply> {
        let keys = messages::decode_keys(bytes, served.service.card());
        let keys = keys.map_err(|error| malformed(error.to_string()))?;
        served.service.keyring(keys).map_err(|error| refused(&error))
    }
}
