//! Requests for tables that are asked with the place hidden: layouts, registrations of some 6 MB,
//! and queries.
//!
//! A registration takes 20 MB while it is handled, so few are handled at once. With a data folder
//! it is stored there, and read again after it was dropped from memory. Without a data folder, the
//! client gets the error to register again (409).

use super::super::{
    Client, Search, Shared,
    audit::Line,
    refusals::refused,
    store::{HIDDEN, MAX_HIDDEN_KEY_BYTES},
};
use super::{Purpose, text};
use axum::{
    Extension,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use futures_util::future::join_all;
use std::{sync::Arc, time::SystemTime};
use tobari_node::{
    body::or_drain,
    clients::{Origin, Place},
    reply::Reply,
};
use tobari_octets::{hex, sha256, unhex};
use tobari_search::desk::Refusal;
use tobari_search::desk::hidden::{AdmittedHidden, AskedHidden};
use tobari_search::hidden::arrangement::{ArrangeError, Arrangement};
use tobari_search::hidden::cells::Cell;
use tobari_search::hidden::messages;
use tobari_search::hidden::numbers::Kind;
use tobari_search::hidden::server::{Partial, Registration};
use tobari_search::messages::{CLIENT_BYTES, TABLE_BYTES};

/// The layout of a table for one kind of question.
pub(in super::super) async fn layout(
    State(search): State<Search>,
    Path((name, kind)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = search.shared;
    shared.client(&headers, &Origin::Unknown)?;
    let state = shared.state();
    let name = unhex(&name).filter(|name| state.told.contains_key(name)).ok_or_else(|| refused(&Refusal::Table))?;
    let there =
        kind.parse::<Kind>().ok().and_then(|kind| state.desk.arrangements(&name).find(|one| one.kind() == kind));
    let Some(there) = there else {
        let kinds: Vec<String> = state.desk.arrangements(&name).map(|one| one.kind().to_string()).collect();
        let text = match kinds.is_empty() {
            true => "the server does not offer this table with the place hidden: ask without --hidden, or ask another server".to_owned(),
            false => format!(
                "the server hides the place for other questions ({}): ask one of these",
                kinds.join(", ")
            ),
        };
        return Err(Reply::new(StatusCode::NOT_FOUND, "hidden", text));
    };
    let tag = [(header::ETAG, format!("\"{}\"", hex(&there.name()[..16])))];
    if text(&headers, "if-none-match") == Some(&tag[0].1) {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok((tag, [(header::CONTENT_TYPE, "application/octet-stream")], there.told().to_vec()).into_response())
}

/// The layout of a cell for windows of so many sites. The cell is arranged now, unless a client
/// asked for it before.
pub(in super::super) async fn cell(
    State(search): State<Search>,
    Path((name, length, chromosome, number)): Path<(String, String, u32, u32)>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = search.shared;
    shared.client(&headers, &place.guest.origin)?;
    let name = unhex(&name).ok_or_else(|| refused(&Refusal::Table))?;
    let Ok(Kind::Windows(length)) = length.parse() else {
        return Err(refused(&Refusal::Question("in a cell, of 1 to 128 sites")));
    };
    let cell = Cell { chromosome, number };
    let there = shared.state().desk.cell(&name, length, cell);
    let there = match there {
        Some(there) => there,
        None => {
            let turn = Arc::new(shared.turns.take(&place.guest.origin).await?);
            let alone = Arc::clone(&shared.arranging).lock_owned().await;
            let work = Arc::clone(&shared);
            let arranged = shared.cpu.run_in(&turn, move || {
                let arranged = work.arrange_cell(&name, length, cell);
                drop(alone);
                arranged
            });
            arranged.await.ok_or_else(|| Reply::fault("a fault of the server"))??
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], there.told().to_vec()).into_response())
}

/// Registers a key.
pub(in super::super) async fn register(
    State(search): State<Search>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let shared = search.shared;
    let hides = shared.state().desk.hides().then_some(()).ok_or_else(|| refused(&Refusal::Set));
    let ((), body) = or_drain(hides, body).await?;
    let purpose = Purpose::Key(HIDDEN, MAX_HIDDEN_KEY_BYTES as usize);
    let (client, bytes, _claim) = shared.enter(&headers, &place, body, purpose).await?;
    let turn = Arc::new(shared.registrations.take(&client.origin).await?);
    let work = Arc::clone(&shared);
    let done = shared.cpu.run_in(&turn, move || {
        let done = work.register_hidden(&client, &bytes);
        work.note_hidden(&client, "hidden registration", None, super::outcome(&done))?;
        done
    });
    done.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Answers a query.
pub(in super::super) async fn query(
    State(search): State<Search>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = search.shared;
    let purpose = Purpose::Question(shared.options.body_bytes);
    let (client, bytes, claim) = shared.enter(&headers, &place, body, purpose).await?;
    let turn = Arc::new(shared.turns.take(&client.origin).await?);
    let key = text(&headers, "tobari-key").and_then(unhex);
    let fault = || Reply::fault("a fault of the server");
    let (work, who) = (Arc::clone(&shared), client.clone());
    let admitted = shared.cpu.run_in(&turn, move || {
        let admitted = work.admit_hidden(&who, &bytes, key);
        if let Err(reply) = &admitted {
            work.note_hidden(&who, "hidden query", None, reply.word)?;
        }
        admitted
    });
    let (admitted, asked, charge) = admitted.await.ok_or_else(fault)??;
    let (work, kept, id) = (Arc::clone(&shared), Arc::clone(&shared), client.id);
    // every part waits its turn for a core, so that one question does not block others
    let admitted = Arc::new(admitted);
    let parts = admitted.ranges(shared.cpu.cores()).into_iter().map(|range| {
        let admitted = Arc::clone(&admitted);
        shared.cpu.run_in(&turn, move || admitted.part(range))
    });
    let parts = join_all(parts).await;
    let computed = shared.cpu.run_in(&turn, move || {
        let answer = answer(&admitted, parts);
        let word = answer.as_ref().map_or_else(|reply| reply.word, |_| "answered");
        work.note_hidden(&client, "hidden query", Some(&asked), word)?;
        answer
    });
    let written = tokio::task::spawn_blocking(move || kept.keep(&id, charge));
    let (answer, written) = tokio::join!(computed, written);
    written.map_err(|_| fault())??;
    let answer = answer.ok_or_else(fault)??;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], claim.answer(answer)).into_response())
}

fn answer(admitted: &AdmittedHidden, parts: Vec<Option<Result<Partial, Refusal>>>) -> Result<Vec<u8>, Reply> {
    let fault = || Reply::fault("a fault of the server");
    let parts = parts.into_iter().map(|part| part.ok_or_else(fault)?.map_err(|refusal| refused(&refusal)));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|_| Reply::fault("a fault of the server: no randomness"))?;
    admitted.finish(parts, &mut ChaCha20Rng::from_seed(seed)).map_err(|refusal| refused(&refusal))
}

impl Shared {
    /// Arranges a cell, and serves it from now on.
    fn arrange_cell(&self, table: &[u8; TABLE_BYTES], length: usize, cell: Cell) -> Result<Arc<Arrangement>, Reply> {
        let (source, room) = {
            let mut state = self.state();
            if let Some(there) = state.desk.cell(table, length, cell) {
                return Ok(there);
            }
            let source = state.desk.cell_source(table).map_err(|refusal| refused(&refusal))?;
            (source, self.options.hidden.memory.saturating_sub(state.desk.hidden_memory()))
        };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| Reply::fault("a fault of the server: no randomness"))?;
        let arranged = source.arrange(length, cell, room, &mut ChaCha20Rng::from_seed(seed)).map_err(|error| {
            let text = match error {
                ArrangeError::Question(error) => format!("the cell has no such question: {error}"),
                ArrangeError::Memory { .. } => format!("{error} (--hidden-memory): ask for fewer sites"),
                ArrangeError::Labels { .. } => format!("{error}, or show the place (--public)"),
                error => error.to_string(),
            };
            Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "question", text)
        })?;
        let arranged = Arc::new(arranged);
        self.state().desk.serve_cell(&source, &arranged, room);
        Ok(arranged)
    }

    fn register_hidden(&self, client: &Client, bytes: &[u8]) -> Result<(), Reply> {
        let hash = sha256(bytes);
        let registration = self.registration(bytes)?;
        let is_kept = self.store.as_ref().is_none_or(|store| store.has_key(&client.id, HIDDEN, &hash));
        let charge = {
            let mut state = self.state();
            let known = is_kept && state.desk.hidden_key(&client.id) == Some(&hash);
            self.has_place(&state, client, HIDDEN, bytes.len())?;
            let done = state.desk.register_hidden(client.id, hash, Some(registration));
            done.map_err(|refusal| refused(&refusal))?;
            if known {
                let due = state.places.touch(&client.id, SystemTime::now());
                drop(state);
                return if due { self.tell(client) } else { Ok(()) };
            }
            self.take_place(&mut state, client, HIDDEN, bytes.len())?;
            state.charges += 1;
            state.charges
        };
        if let Some(store) = &self.store {
            store.write_hidden_key(&client.id, bytes).map_err(|error| store.disk().failed(&error))?;
        }
        self.tell(client)?;
        self.keep(&client.id, charge)
    }

    /// Reads a registration, without holding a lock.
    fn registration(&self, bytes: &[u8]) -> Result<Registration, Reply> {
        let matcher = self.state().desk.hidden_matcher().map_err(|refusal| refused(&refusal))?;
        messages::decode_registration(bytes, matcher.parameters()).map_err(|error| refused(&Refusal::from(error)))
    }

    /// Admits a client's query under the key that it was made with, charges the client, and returns
    /// the number of charges.
    fn admit_hidden(
        &self,
        client: &Client,
        bytes: &[u8],
        key: Option<[u8; 32]>,
    ) -> Result<(AdmittedHidden, AskedHidden, u64), Reply> {
        let refused = |refusal: Refusal| refused(&refusal);
        if messages::query_client(bytes).map_err(|error| refused(error.into()))? != client.id {
            let text = "expected the client's own name in the query, found another";
            return Err(Reply::new(StatusCode::FORBIDDEN, "client", text));
        }
        let known = |state: &super::super::State| state.desk.hidden_key(&client.id).copied();
        let key = key.or_else(|| known(&self.state())).unwrap_or_default();
        let admit = || {
            let mut state = self.state();
            let (admitted, asked) = state.desk.admit_hidden(bytes, &key)?;
            state.places.touch(&client.id, SystemTime::now());
            state.charges += 1;
            Ok((admitted, asked, state.charges))
        };
        match admit() {
            Err(Refusal::Key { .. }) if known(&self.state()) == Some(key) && self.take_back(&client.id, key) => admit(),
            other => other,
        }
        .map_err(refused)
    }

    /// Reads a registration that was dropped from memory; true if it is available.
    fn take_back(&self, client: &[u8; CLIENT_BYTES], hash: [u8; 32]) -> bool {
        let bytes = self.store.as_ref().and_then(|store| store.read_hidden_key(client).ok());
        let registration = bytes.filter(|bytes| sha256(bytes) == hash).and_then(|bytes| self.registration(&bytes).ok());
        registration.is_some_and(|one| self.state().desk.register_hidden(*client, hash, Some(one)).is_ok())
    }

    /// Writes a line of the audit log.
    fn note_hidden(
        &self,
        client: &Client,
        what: &'static str,
        asked: Option<&AskedHidden>,
        outcome: &str,
    ) -> Result<(), Reply> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let shape = asked.map(|asked| asked.shape);
        let (table, granularity) = (asked.map(|asked| asked.table), asked.map(|asked| asked.granularity));
        audit.write(&Line { client: &client.name, what, table, shape, granularity, elements: None, outcome })
    }
}
