//! The handlers of requests.

pub(super) mod hidden;

use super::{Client, Search, Shared, State as Kept, audit::Line, refusals::refused};
use axum::{
    Extension,
    body::{Body, Bytes, HttpBody},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use serde_json::json;
use std::{sync::Arc, time::SystemTime};
use tobari_node::reply::Reply;
use tobari_node::{
    body::{or_drain, read},
    clients::Origin,
    clients::Place,
    disk::Disk,
    memory::Claim,
    places::Full,
};
use tobari_octets::{hex, sha256, unhex};
use tobari_search::{
    desk::{Admitted, AdmittedEvaluation, Asked, AskedEvaluation, Refusal},
    messages::{self, CLIENT_BYTES},
    oprf, program,
};

/// The most bytes of a request of a client that has no key here. Longer requests are rejected
/// before they are read.
const STRANGERS: usize = 64 << 10;
/// The most bytes of a registration; the longest has some 300 kB.
const KEY_BYTES: usize = 1 << 20;
/// The most bytes of an evaluation.
const EVALUATION_BYTES: usize = 1 << 10 | oprf::messages::MAX_ELEMENTS << 6;

/// The purpose of a body. It decides the allowed length and the allowed clients.
enum Purpose {
    /// A registration of this set, of at most so many bytes.
    Key(&'static str, usize),
    /// A request of at most so many bytes that is answered only for clients with a key.
    Question(usize),
}

/// The tables, and the client's remaining budget.
pub(super) async fn list(
    State(search): State<Search>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = search.shared;
    let client = shared.client(&headers, &place.guest.origin)?;
    let state = shared.state();
    let tables: Vec<_> = state.told.values().map(|told| &told.line).collect();
    let limits = &shared.options.limits;
    let mut told = json!({ "version": 1, "tests": limits.tests, "labels": limits.labels, "tables": tables });
    if let Some(client) = client {
        told["client"] = hex(&client.id).into();
        told["tests_left"] = state.desk.tests_left(&client.id).unwrap_or(shared.options.limits.tests).into();
    }
    Ok(([(header::CONTENT_TYPE, "application/json")], told.to_string()).into_response())
}

/// A table's public information.
pub(super) async fn table(
    State(search): State<Search>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = search.shared;
    shared.client(&headers, &Origin::Unknown)?;
    let state = shared.state();
    let told = unhex(&name).and_then(|name| state.told.get(&name)).ok_or_else(|| refused(&Refusal::Table))?;
    let tag = [(header::ETAG, told.tag.clone())];
    if text(&headers, "if-none-match") == Some(&told.tag) {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok((tag, [(header::CONTENT_TYPE, "application/octet-stream")], told.body.clone()).into_response())
}

/// Registers a key.
pub(super) async fn register(
    State(search): State<Search>,
    Path(set): Path<String>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let shared = search.shared;
    let set = program::sets().find(|known| known.name == set).ok_or_else(|| refused(&Refusal::Set));
    let (set, body) = or_drain(set.map(|set| set.name), body).await?;
    let (client, bytes, _claim) = shared.enter(&headers, &place, body, Purpose::Key(set, KEY_BYTES)).await?;
    let turn = Arc::new(shared.registrations.take(&client.origin).await?);
    let work = Arc::clone(&shared);
    let done = shared.cpu.run_in(&turn, move || {
        let done = work.register(&client, set, &bytes);
        work.note(&client, "registration", None, outcome(&done))?;
        done
    });
    done.await.unwrap_or_else(|| Err(Reply::fault("a fault of the server")))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Evaluates the inputs of a question to a table with labels.
pub(super) async fn evaluation(
    State(search): State<Search>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = search.shared;
    let purpose = Purpose::Question(EVALUATION_BYTES.min(shared.options.body_bytes));
    let (client, bytes, claim) = shared.enter(&headers, &place, body, purpose).await?;
    let turn = Arc::new(shared.turns.take(&client.origin).await?);
    let fault = || Reply::fault("a fault of the server");
    let (work, kept) = (Arc::clone(&shared), Arc::clone(&shared));
    let done = shared.cpu.run_in(&turn, move || {
        let admitted = work.admit_evaluation(&client, &bytes);
        let head = match &admitted {
            Ok((_, asked, _)) => Some(Head::Evaluated(*asked)),
            Err(_) => oprf::messages::evaluation_head(&bytes).ok().map(|(table, _)| Head::Table(table)),
        };
        let word = admitted.as_ref().map_or_else(|reply| reply.word, |_| "evaluated");
        work.note(&client, "evaluation", head.as_ref(), word)?;
        let (admitted, _, charge) = admitted?;
        Ok::<_, Reply>((admitted.answer(), client.id, charge))
    });
    let (answer, id, charge) = done.await.ok_or_else(fault)??;
    let written = tokio::task::spawn_blocking(move || kept.keep(&id, charge)).await;
    written.map_err(|_| fault())??;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], claim.answer(answer)).into_response())
}

/// Answers a query.
pub(super) async fn query(
    State(search): State<Search>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Reply> {
    let shared = search.shared;
    let purpose = Purpose::Question(shared.options.body_bytes);
    let (client, bytes, claim) = shared.enter(&headers, &place, body, purpose).await?;
    let turn = Arc::new(shared.turns.take(&client.origin).await?);
    let known = (text(&headers, "if-match").map(str::to_owned), text(&headers, "tobari-key").and_then(unhex));
    let fault = || Reply::fault("a fault of the server");
    let (work, who) = (Arc::clone(&shared), client.clone());
    let admitted = shared.cpu.run_in(&turn, move || {
        let admitted = work.admit(&who, &bytes, known);
        if let Err(reply) = &admitted {
            work.note(&who, "query", messages::query_head(&bytes).ok().map(Head::Refused).as_ref(), reply.word)?;
        }
        admitted
    });
    let (admitted, asked, charge) = admitted.await.ok_or_else(fault)??;
    let (work, kept, id) = (Arc::clone(&shared), Arc::clone(&shared), client.id);
    let computed = shared.cpu.run_in(&turn, move || {
        let answer = answer(&admitted);
        let word = answer.as_ref().map_or_else(|reply| reply.word, |_| "answered");
        work.note(&client, "query", Some(&Head::Asked(asked)), word)?;
        answer
    });
    let written = tokio::task::spawn_blocking(move || kept.keep(&id, charge));
    let (answer, written) = tokio::join!(computed, written);
    written.map_err(|_| fault())??;
    let answer = answer.ok_or_else(fault)??;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], claim.answer(answer)).into_response())
}

/// The part of an audit line about a query or an evaluation.
enum Head {
    Refused(([u8; messages::TABLE_BYTES], program::Shape)),
    Asked(Asked),
    Table([u8; messages::TABLE_BYTES]),
    Evaluated(AskedEvaluation),
}

/// All places are taken, or this client's share of them.
fn no_place(full: &Full) -> Reply {
    let most = if full.bytes { "--max-key-bytes" } else { "--max-clients" };
    Reply::full(full, "clients", (if full.bytes { "registrations" } else { "clients" }, most))
}

/// The client lost its place, or never had one.
fn not_here() -> Reply {
    let text = "this server has no key of this client: the client was never here, or was away so long that its place was given away; register again";
    Reply::new(StatusCode::CONFLICT, "key", text)
}

fn outcome(done: &Result<(), Reply>) -> &'static str {
    done.as_ref().map_or_else(|reply| reply.word, |()| "registered")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn answer(admitted: &Admitted) -> Result<Vec<u8>, Reply> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|_| Reply::fault("a fault of the server: no randomness"))?;
    admitted.answer(&mut ChaCha20Rng::from_seed(seed)).map_err(|refusal| refused(&refusal))
}

impl Shared {
    /// The client; none if clients name themselves and this one has not.
    fn client(&self, headers: &HeaderMap, origin: &Origin) -> Result<Option<Client>, Reply> {
        let Some(tokens) = &self.tokens else {
            let id = text(headers, "tobari-client").and_then(unhex);
            return Ok(id.map(|id| Client { id, name: hex(&id).into(), origin: origin.clone() }));
        };
        tokens.bearer(headers).map(|name| Some(Client::named(name))).ok_or_else(Reply::unknown)
    }

    /// The client and the whole body, after checking that this client may send the body.
    async fn enter(
        &self,
        headers: &HeaderMap,
        place: &Place,
        body: Body,
        purpose: Purpose,
    ) -> Result<(Client, Bytes, Claim), Reply> {
        let unnamed = "expected a client's name of 32 hexadecimal digits (Tobari-Client), found none";
        let unnamed = || Reply::new(StatusCode::UNAUTHORIZED, "client", unnamed);
        let client = self.client(headers, &place.guest.origin).and_then(|client| client.ok_or_else(unnamed));
        let length = HttpBody::size_hint(&body).lower();
        // check the storage before charging for data that could not be stored
        let client = client.and_then(|client| self.storage().map(|()| client));
        let found = client.and_then(|client| Ok((self.most(&client, &purpose, length)?, client)));
        let ((most, client), body) = or_drain(found, body).await?;
        let mut claim = self.memory.claim(&client.origin);
        let bytes = read(body, most, self.options.patience, &mut claim).await?;
        Ok((client, bytes, claim))
    }

    /// The most bytes of this client's body, or a refusal if a body of this length would be
    /// rejected anyway.
    fn most(&self, client: &Client, purpose: &Purpose, length: u64) -> Result<usize, Reply> {
        let state = self.state();
        match *purpose {
            Purpose::Key(set, most) => {
                if length > STRANGERS as u64 {
                    let (size, tag) = (state.size(&client.id, set, length), self.keeper.tag(&client.origin));
                    state
                        .places
                        .check(Some(&client.id), &tag, size, SystemTime::now())
                        .map_err(|full| no_place(&full))?;
                }
                Ok(most)
            }
            Purpose::Question(most) if state.desk.knows(&client.id) => Ok(most),
            Purpose::Question(most) if length > STRANGERS as u64 && length <= most as u64 => Err(not_here()),
            Purpose::Question(most) => Ok(most.min(STRANGERS)),
        }
    }

    fn register(&self, client: &Client, set: &'static str, bytes: &[u8]) -> Result<(), Reply> {
        let hash = sha256(bytes);
        let is_kept = self.store.as_ref().is_none_or(|store| store.has_key(&client.id, set, &hash));
        let charge = {
            let mut state = self.state();
            // the same key again is not a new one, and keeps the place
            if is_kept && state.keys.get(&client.id).and_then(|keys| keys.get(set)) == Some(&hash) {
                let due = state.places.touch(&client.id, SystemTime::now());
                drop(state);
                return if due { self.tell(client) } else { Ok(()) };
            }
            self.has_place(&state, client, set, bytes.len())?;
            state.desk.register(client.id, set, bytes).map_err(|refusal| refused(&refusal))?;
            self.take_place(&mut state, client, set, bytes.len())?;
            state.keys.entry(client.id).or_default().insert(set, hash);
            state.charges += 1;
            state.charges
        };
        if let Some(store) = &self.store {
            store.write_key(&client.id, set, bytes).map_err(|error| store.disk().failed(&error))?;
        }
        self.tell(client)?;
        self.keep(&client.id, charge)
    }

    /// Rejects requests with data to store while the disk fails.
    fn storage(&self) -> Result<(), Reply> {
        self.disks().try_for_each(Disk::ready)
    }

    /// Checks that there is a place for a registration of so many bytes.
    fn has_place(&self, state: &Kept, client: &Client, set: &str, bytes: usize) -> Result<(), Reply> {
        let (size, tag) = (state.size(&client.id, set, bytes as u64), self.keeper.tag(&client.origin));
        state.places.check(Some(&client.id), &tag, size, SystemTime::now()).map_err(|full| no_place(&full))
    }

    /// Takes the place. Clients that lose their places for it are forgotten, on the disk too, under
    /// the same lock.
    fn take_place(&self, state: &mut Kept, client: &Client, set: &'static str, bytes: usize) -> Result<(), Reply> {
        let (size, tag) = (state.size(&client.id, set, bytes as u64), self.keeper.tag(&client.origin));
        let given = state.places.take(&client.id, tag, size, SystemTime::now()).map_err(|full| no_place(&full))?;
        state.sizes.entry(client.id).or_default().insert(set, bytes as u64);
        if !given.is_empty() {
            tracing::info!(clients = given.len(), "places of clients that were not there for long were given away");
        }
        let keep = self.tokens.is_some();
        for other in &given {
            state.forget(other, keep);
            if let Some(store) = &self.store {
                store.remove(other, keep);
            }
        }
        Ok(())
    }

    /// Writes the owner of the place to the disk, and that the place is in use.
    fn tell(&self, client: &Client) -> Result<(), Reply> {
        let Some(store) = &self.store else { return Ok(()) };
        let written = store.write_origin(&client.id, &self.keeper.tag(&client.origin));
        written.map_err(|error| store.disk().failed(&error))
    }

    /// Admits a client's query for the revision and the key that it was made with, charges the
    /// client, and returns the number of charges.
    fn admit(
        &self,
        client: &Client,
        bytes: &[u8],
        (tag, key): (Option<String>, Option<[u8; 32]>),
    ) -> Result<(Admitted, Asked, u64), Reply> {
        let refused = |refusal: Refusal| refused(&refusal);
        if messages::query_client(bytes).map_err(|error| refused(error.into()))? != client.id {
            let text = "expected the client's own name in the query, found another";
            return Err(Reply::new(StatusCode::FORBIDDEN, "client", text));
        }
        let (table, _) = messages::query_head(bytes).map_err(|error| refused(error.into()))?;
        let mut state = self.state();
        let told = state.told.get(&table).ok_or_else(|| refused(Refusal::Table))?;
        if tag.is_some_and(|tag| tag != told.tag) {
            let text = "the table has changed since the question was made: ask again";
            return Err(Reply::new(StatusCode::PRECONDITION_FAILED, "revision", text));
        }
        let registered =
            |key: &[u8; 32]| state.keys.get(&client.id).is_some_and(|keys| keys.values().any(|known| known == key));
        if key.is_some_and(|key| !registered(&key)) {
            let text = "expected a query under the client's registered key, found another";
            return Err(Reply::new(StatusCode::CONFLICT, "key", text));
        }
        let (admitted, asked) = state.desk.admit(bytes).map_err(refused)?;
        state.places.touch(&client.id, SystemTime::now());
        state.charges += 1;
        Ok((admitted, asked, state.charges))
    }

    /// Admits a client's evaluation, charges the client, and returns the number of charges.
    fn admit_evaluation(
        &self,
        client: &Client,
        bytes: &[u8],
    ) -> Result<(AdmittedEvaluation, AskedEvaluation, u64), Reply> {
        let refused = |refusal: Refusal| refused(&refusal);
        if oprf::messages::evaluation_head(bytes).map_err(|error| refused(error.into()))?.1 != client.id {
            let text = "expected the client's own name in the evaluation, found another";
            return Err(Reply::new(StatusCode::FORBIDDEN, "client", text));
        }
        let mut state = self.state();
        let (admitted, asked) = state.desk.admit_evaluation(bytes).map_err(refused)?;
        state.places.touch(&client.id, SystemTime::now());
        state.charges += 1;
        Ok((admitted, asked, state.charges))
    }

    /// Writes a client's account to the disk, up to this charge.
    fn keep(&self, client: &[u8; CLIENT_BYTES], charge: u64) -> Result<(), Reply> {
        let Some(store) = &self.store else { return Ok(()) };
        store.write_account(client, charge, &self.state).map_err(|error| store.disk().failed(&error))
    }

    /// Writes a line of the audit log.
    fn note(&self, client: &Client, what: &'static str, head: Option<&Head>, outcome: &str) -> Result<(), Reply> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let mut line =
            Line { client: &client.name, what, table: None, shape: None, granularity: None, elements: None, outcome };
        match head {
            None => {}
            Some(Head::Refused((table, shape))) => (line.table, line.shape) = (Some(*table), Some(*shape)),
            Some(Head::Asked(asked)) => {
                (line.table, line.shape, line.granularity) =
                    (Some(asked.table), Some(asked.shape), Some(asked.granularity));
            }
            Some(Head::Table(table)) => line.table = Some(*table),
            Some(Head::Evaluated(asked)) => {
                (line.table, line.elements) = (Some(asked.table), Some(asked.elements));
            }
        }
        audit.write(&line)
    }
}
