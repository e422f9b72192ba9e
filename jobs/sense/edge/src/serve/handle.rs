//! The handlers of requests.

use super::clock::clocks;
use super::{
    FleetName, Sense, SenseError, Shared,
    commit::{Outcome, Stored},
    fleet::{AnswerError, Fleet, Known, MAX_ORDER, is_id},
    kept::KeptCounts,
    now_ms,
    passing::{self, BYTES, Begun, DEVICES, IDLE, LIFE, MESSAGE, OBJECT, PLACES, REQUESTS},
    rights::{Used, Who, full, no_fleet, of_visit, spent},
};
use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};
use tobari_host::memory::trim;
use tobari_host::storage::Trouble;
use tobari_node::body::{or_drain, read};
use tobari_node::clients::Origin;
use tobari_node::clients::Place;
use tobari_node::disk::{Disk, no_room};
use tobari_node::metrics::Metrics;
use tobari_node::reply::Reply;
use tobari_octets::{hex, sha256, unhex_lower};
use tobari_sense::bundle::{Bundle, MAX_BUNDLE, MAX_OBJECT};
use tobari_sense::cloud::CloudError;
use tobari_sense::ingest::{Checked, IngestCounts};
use tobari_sense::order::{Order, OrderError};
use tobari_sense_files::StoreError;
use tokio::sync::oneshot;

/// Accepts frames from anybody: the MAC identifies the device of a frame.
pub(super) async fn frames(
    State(sense): State<Sense>,
    Path(fleet): Path<String>,
    Extension(place): Extension<Place>,
    body: Body,
) -> Result<Response, Reply> {
    let shared = sense.shared;
    let origin = &place.guest.origin;
    let ((used, known), body) = or_drain(shared.of_devices(&fleet), body).await?;
    let most = used.visit.as_ref().map_or(shared.options.batch_bytes, |_| MESSAGE.min(shared.options.batch_bytes));
    let mut claim = shared.memory.claim(origin);
    let bytes = read(body, most, shared.options.patience, &mut claim).await?;
    let held = (shared.turns.take(origin).await?, claim);
    if used.visit.as_ref().is_some_and(|visit| !visit.has_room(bytes.len())) {
        return Err(spent());
    }
    // a device that goes away keeps its turn and its memory until its frames are stored
    let (at, gate, body, fleet) = (Arc::clone(&shared), Arc::clone(&known), bytes.clone(), Arc::clone(&used.fleet));
    let work = tokio::spawn(async move {
        let stored = check(&at, &fleet, &gate, body).await?.queue(&gate, None).await?.stored().await;
        drop(held);
        stored
    });
    let stored = work.await.map_err(|_| not_stored())??;
    if let Some(visit) = used.visit.as_ref().filter(|_| stored.counts.taken > 0) {
        let each = known.gate.frame_bytes();
        visit.charge(each * stored.counts.taken as usize);
        let mut traffic = visit.traffic();
        traffic.frames += stored.counts.taken;
        traffic.frame = bytes.chunks_exact(each).next_back().unwrap_or_default().to_vec();
    }
    let told: serde_json::Map<_, _> =
        stored.counts.named().iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    let mut response = as_json(&json!(told));
    if let Some(time) = stored.time_ms {
        // a sender that does its own statistics learns the window of its frames
        response.headers_mut().insert("tobari-stored", time.into());
    }
    Ok(response)
}

/// Checked frames.
pub(super) struct Candidates {
    frames: Vec<u8>,
    checked: Vec<Checked>,
    counts: IngestCounts,
}

/// Frames in the queue for the disk.
pub(super) struct Queued {
    stored: Option<oneshot::Receiver<Outcome>>,
    counts: IngestCounts,
}

fn not_stored() -> Reply {
    Reply::fault("a fault of the server: the frames are not stored")
}

/// The reply for data that the storage did not accept.
fn refused(trouble: Option<Trouble>, other: impl FnOnce() -> Reply) -> Reply {
    trouble.map_or_else(other, no_room)
}

/// The same reply for an error of a store.
fn closed(error: &StoreError) -> Reply {
    refused(error.trouble(), || fault(error))
}

/// The same reply for a fleet that cannot be made or changed.
fn unmade(disk: &Disk, error: &SenseError) -> Reply {
    error.trouble().map_or_else(|| fault(error), |trouble| disk.note(trouble, error))
}

/// Checks frames. Rejected frames count, whatever happens to the rest.
pub(super) async fn check(
    shared: &Shared,
    fleet: &Fleet,
    known: &Arc<Known>,
    bytes: Bytes,
) -> Result<Candidates, Reply> {
    let gate = Arc::clone(known);
    let checked = shared.cpu.run(move || Fleet::check(&gate, &bytes)).await;
    let (frames, checked, counts) = checked.ok_or_else(|| Reply::fault("a fault of the server"))?;
    fleet.counts.lock().frames.add(&counts);
    Ok(Candidates { frames, checked, counts })
}

impl Candidates {
    /// Queues the frames for storage behind all earlier ones: a device's newer frame makes its
    /// older frames late. `came_ms` is the time of arrival of frames that waited elsewhere.
    pub(super) async fn queue(self, known: &Known, came_ms: Option<u64>) -> Result<Queued, Reply> {
        let Self { frames, checked, counts } = self;
        let stored = match checked.is_empty() {
            true => None,
            false => Some(Fleet::queue(known, frames, checked, came_ms).await.ok_or_else(not_stored)?),
        };
        Ok(Queued { stored, counts })
    }
}

impl Queued {
    /// Waits until the frames are on the disk.
    pub(super) async fn stored(self) -> Result<Stored, Reply> {
        let Self { stored, mut counts } = self;
        let Some(stored) = stored else { return Ok(Stored { counts, time_ms: None }) };
        let stored = stored.await.map_err(|_| not_stored())?.map_err(|trouble| refused(trouble, not_stored))?;
        counts.add(&stored.counts);
        Ok(Stored { counts, time_ms: stored.time_ms })
    }
}

/// The room for temporary fleets, for the page's visitors.
pub(super) async fn offered(State(sense): State<Sense>, headers: HeaderMap) -> Result<Response, Reply> {
    let shared = sense.shared;
    shared.visitor(&headers)?;
    let room = shared.passing.room(Instant::now());
    let passing = json!({
        "room": room, "places": PLACES, "idle_s": IDLE.as_secs(), "life_s": LIFE.as_secs(), "bytes": BYTES, "requests": REQUESTS,
    });
    Ok(as_json(&json!({ "version": 1, "now_ms": now_ms(), "passing": passing })))
}

/// The server's data of a temporary fleet, for clients that know its name.
pub(super) async fn held(State(sense): State<Sense>, Path(fleet): Path<String>) -> Result<Response, Reply> {
    let visit =
        unhex_lower(&fleet).and_then(|name| sense.shared.passing.find(&name, Instant::now())).ok_or_else(no_fleet)?;
    let traffic = visit.traffic().clone();
    let known = visit.fleet.known();
    let orders: Vec<_> = visit.fleet.orders_told();
    let (answer, answer_bytes, window) = traffic.answer;
    let told = json!({
        "version": 1, "now_ms": now_ms(), "left_s": visit.left(Instant::now()).as_secs(),
        "devices": known.map_or(0, |known| known.bundle.devices.len()), "questions": orders,
        "frames": traffic.frames, "frame": hex(&traffic.frame), "object_bytes": traffic.objects,
        "answers": traffic.answers, "answer": hex(&answer), "answer_bytes": answer_bytes, "window_ms": window,
        "up": traffic.up, "down": traffic.down,
    });
    Ok(as_json(&told))
}

/// Ends a temporary fleet, for the client with its secret.
pub(super) async fn end(
    State(sense): State<Sense>,
    Path(fleet): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    let who = sense.shared.who(&headers)?;
    let used = sense.shared.used(&who, &fleet)?;
    if used.visit.is_none() {
        let text = "expected a fleet that ends, found one that stays: its folder is its operator's to remove";
        return Err(Reply::new(StatusCode::CONFLICT, "stays", text));
    }
    let name = named(&fleet)?;
    blocking(move || {
        sense.shared.passing.end(&name);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The hash of a fleet's bundle.
pub(super) async fn known(
    State(sense): State<Sense>,
    Path(fleet): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let who = sense.shared.who(&headers)?;
    let known = sense.shared.used(&who, &fleet)?.known()?;
    Ok(as_json(&json!({ "version": 1, "bundle": hex(&known.hash) })))
}

/// Accepts the bundle of a new or known fleet.
pub(super) async fn bundle(
    State(sense): State<Sense>,
    Path(fleet): Path<String>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let shared = Arc::clone(&sense.shared);
    let origin = shared.origin(&headers, &place.guest.origin);
    let (who, bytes, held) = shared.message(&headers, &origin, body, (MAX_BUNDLE, MESSAGE)).await?;
    let name = named(&fleet)?;
    let bundle = Bundle::decode(&bytes).map_err(|error| malformed(error.to_string()))?;
    if bundle.fleet != fleet {
        return Err(malformed("expected the bundle of the fleet that the path names, found another's".to_owned()));
    }
    if matches!(who, Who::Visitor(_)) && !passing::admits(&bundle) {
        return Err(malformed(format!(
            "expected a fleet of profile u25 with at most {DEVICES} devices, which may end; found another"
        )));
    }
    let taken = blocking(move || {
        let _held = held;
        let used = sense.used_or_new((&who, &origin), &name)?;
        used.charge(bytes.len())?;
        used.fleet
            .take_bundle(bundle, &bytes)
            .map_err(|error| unmade(&sense.shared.disk, &error))?
            .map_err(|missing| Reply::new(StatusCode::CONFLICT, "object", format!("expected {missing}, found none")))
    });
    taken.await?;
    tracing::info!("a fleet's bundle was taken");
    Ok(StatusCode::CREATED)
}

/// Whether the server has an object.
pub(super) async fn has_object(
    State(sense): State<Sense>,
    Path((fleet, hash)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    let who = sense.shared.who(&headers)?;
    named(&fleet)?;
    let used = sense.shared.used(&who, &fleet).ok().filter(|_| unhex_lower::<32>(&hash).is_some());
    let has = used.is_some_and(|used| used.fleet.has_object(&hash));
    let text = "expected the name of an object that is there, found another";
    has.then_some(StatusCode::NO_CONTENT).ok_or_else(|| Reply::new(StatusCode::NOT_FOUND, "object", text))
}

/// Accepts an object.
pub(super) async fn object(
    State(sense): State<Sense>,
    Path((fleet, hash)): Path<(String, String)>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let shared = Arc::clone(&sense.shared);
    let origin = shared.origin(&headers, &place.guest.origin);
    let (who, bytes, held) = shared.message(&headers, &origin, body, (MAX_OBJECT, OBJECT)).await?;
    let name = named(&fleet)?;
    let kept = blocking(move || {
        let _held = held;
        let found = sha256(&bytes);
        if unhex_lower(&hash) != Some(found) {
            return Err(malformed("expected bytes whose SHA-256 is their name, found others".to_owned()));
        }
        let used = sense.used_or_new((&who, &origin), &name)?;
        used.charge(bytes.len())?;
        if let Some(visit) = &used.visit {
            visit.traffic().objects += bytes.len() as u64;
        }
        used.fleet.keep_object(&found, &bytes).map_err(|error| sense.shared.disk.failed(&error))
    });
    kept.await?;
    Ok(StatusCode::CREATED)
}

const HOUR_MS: u64 = 3_600_000;

/// Accepts an order.
pub(super) async fn order(
    State(sense): State<Sense>,
    Path((fleet, id)): Path<(String, String)>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Reply> {
    let shared = Arc::clone(&sense.shared);
    let origin = shared.origin(&headers, &place.guest.origin);
    let (who, bytes, _held) = shared.message(&headers, &origin, body, (MAX_ORDER, MESSAGE)).await?;
    let used = sense.shared.used(&who, &fleet)?;
    let known = used.known()?;
    let order: Order =
        serde_json::from_slice(&bytes).map_err(|_| malformed("expected an order, found another text".to_owned()))?;
    order.check().map_err(|error| malformed(error.to_string()))?;
    if !is_id(&id) || order.profile != known.bundle.profile {
        return Err(malformed(
            "expected a name of 16 hexadecimal digits and the fleet's profile, found others".to_owned(),
        ));
    }
    if used.visit.is_some() && !passing::admits_order(&order) {
        let text =
            "expected a question with few groups, without parts, about windows of seconds to an hour; found another";
        return Err(malformed(text.to_owned()));
    }
    // frames of a window must be there until its end, and until its result is fetched
    let needed_ms = order.windows().longest().saturating_add(order.lateness_ms).saturating_add(HOUR_MS);
    if let Some(keep) = shared.options.keep.filter(|keep| keep.as_millis() < u128::from(needed_ms)) {
        let text = format!(
            "this server keeps frames for {} days (--sense-days), and this question needs {}: the length of its \
             windows, their lateness, and an hour to fetch results. Ask about shorter windows, or have frames kept longer",
            keep.as_secs() / 86_400,
            needed_ms.div_ceil(24 * HOUR_MS)
        );
        return Err(Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "retention", text));
    }
    used.charge(bytes.len())?;
    let kept =
        blocking(move || used.fleet.keep_order(&id, order, &bytes).map_err(|error| sense.shared.disk.failed(&error)))
            .await?;
    let text = "expected room for another order, or this name for this order; found another under it, or no room";
    kept.then_some(StatusCode::CREATED).ok_or_else(|| Reply::new(StatusCode::CONFLICT, "question", text))
}

/// Removes an order.
pub(super) async fn forget(
    State(sense): State<Sense>,
    Path((fleet, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    let used = sense.shared.used(&sense.shared.who(&headers)?, &fleet)?;
    used.known()?;
    let gone = is_id(&id) && blocking(move || Ok(used.fleet.forget_order(&id))).await?;
    gone.then_some(StatusCode::NO_CONTENT).ok_or_else(no_question)
}

/// Windows whose results can be fetched.
pub(super) async fn windows(
    State(sense): State<Sense>,
    Path((fleet, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let used = sense.shared.used(&sense.shared.who(&headers)?, &fleet)?;
    used.known()?;
    used.fleet.order(&id).ok_or_else(no_question)?;
    let until = whole_until(&sense.shared, &used, &fleet);
    let windows = blocking(move || used.fleet.windows(&id, until).map_err(|error| closed(&error))).await?;
    Ok(as_json(&json!({ "version": 1, "windows": windows })))
}

/// Computes the results of a window.
pub(super) async fn answer(
    State(sense): State<Sense>,
    Path((fleet, id, start)): Path<(String, String, u64)>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let shared = sense.shared;
    let used = shared.used(&shared.who(&headers)?, &fleet)?;
    let (known, until) = (used.known()?, whole_until(&shared, &used, &fleet));
    let Used { fleet, visit } = used;
    let order = fleet.order(&id).ok_or_else(no_question)?;
    has_ended(&order, start, until)?;
    if visit.as_ref().is_some_and(|visit| !visit.charge(0)) {
        return Err(spent());
    }
    let origin = shared.origin(&headers, &place.guest.origin);
    let turn = shared.questions.wait(&origin).await;
    let turn = Arc::new(turn.ok_or_else(|| Reply::fault("a fault of the server"))?);
    let (memory, began) = (shared.options.memory, Instant::now());
    let work = move || {
        let answer = fleet.answer(&known, (&id, &order), start, memory);
        // the next answer may use another thread's heap
        trim();
        answer
    };
    let answered = shared.cpu.run_in(&turn, work).await;
    let bytes = match answered.ok_or_else(|| Reply::fault("a fault of the server"))? {
        Err(AnswerError::Cloud(CloudError::Order(error @ OrderError::Empty { found, .. }))) => {
            shared.empty.fetch_add(1, Relaxed);
            let mut response = Reply::new(StatusCode::NOT_FOUND, "empty", error.to_string()).into_response();
            response.headers_mut().insert("tobari-devices", found.into());
            return Ok(response);
        }
        answered => answered.map_err(|error| unanswered(&error))?,
    };
    if let Some(visit) = visit {
        visit.answered(start, &bytes);
    }
    // the computation, and so its time, does not depend on the readings
    let timing = format!("answer;dur={:.1}", began.elapsed().as_secs_f64() * 1e3);
    let timing = [(HeaderName::from_static("server-timing"), timing)];
    let body = shared.memory.claim(&origin).answer(bytes);
    Ok((timing, [(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// The time before which windows have all of their frames. This is now, or the arrival of the first
/// message that waited for the registration of the fleet and whose frames are not stored yet.
fn whole_until(shared: &Shared, used: &Used, fleet: &str) -> u64 {
    // no message waits for a temporary fleet: another fleet may be expected under its name
    let name = unhex_lower(fleet).filter(|_| used.visit.is_none());
    let first = name.and_then(|name: FleetName| shared.kept.first_ms(&name));
    let stamped = used.fleet.known().is_some_and(|known| known.bundle.profile.is_stamped());
    let (now, wall_ms) = clocks();
    let now = if stamped { shared.closing.until(now, wall_ms) } else { wall_ms };
    first.map_or(now, |first| first.min(now))
}

/// Checks that a question has this window, and that it had ended at `until`.
fn has_ended(order: &Order, start: u64, until: u64) -> Result<(), Reply> {
    let windows = order.windows();
    let closes = windows.begins_at(start).then(|| windows.closes(start));
    let text = "expected a window of the question that has ended, found another";
    let over = closes.is_some_and(|closes| closes <= until);
    over.then_some(()).ok_or_else(|| Reply::new(StatusCode::CONFLICT, "window", text))
}

/// Records that results were fetched.
pub(super) async fn done(
    State(sense): State<Sense>,
    Path((fleet, id, start)): Path<(String, String, u64)>,
    headers: HeaderMap,
) -> Result<StatusCode, Reply> {
    let used = sense.shared.used(&sense.shared.who(&headers)?, &fleet)?;
    used.known()?;
    used.fleet.order(&id).ok_or_else(no_question)?;
    used.charge(0)?;
    blocking(move || used.fleet.note_done(&id, start).map_err(|error| closed(&error))).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a device's frames.
pub(super) async fn remove(
    State(sense): State<Sense>,
    Path((fleet, number)): Path<(String, u32)>,
    headers: HeaderMap,
) -> Result<Response, Reply> {
    let used = sense.shared.used(&sense.shared.who(&headers)?, &fleet)?;
    let known = used.known()?;
    used.charge(0)?;
    let removed = blocking(move || used.fleet.remove_device(&known, number).map_err(|error| closed(&error))).await?;
    tracing::info!(frames = removed, "frames of a device were removed");
    Ok(as_json(&json!({ "removed": removed })))
}

/// The counts of all permanent fleets, for Prometheus.
pub(super) async fn metrics(State(sense): State<Sense>, headers: HeaderMap) -> Result<Metrics, Reply> {
    sense.shared.holder(&headers)?;
    let (mut counts, mut stored, mut groups, fleets) = (IngestCounts::default(), 0, 0, sense.shared.all());
    let (mut clock, mut late, mut lost) = ([0; 2], 0, 0);
    for fleet in &fleets {
        let counted = *fleet.counts.lock();
        counts.add(&counted.frames);
        (stored, groups) = (stored + counted.stored, groups + counted.groups);
        (late, lost) = (late + counted.after_window, lost + counted.lost);
        clock = std::array::from_fn(|i| clock[i] + counted.clock[i]);
    }
    let all = fleets.clone();
    let ahead = blocking(move || Ok(all.iter().map(|fleet| fleet.frames_ahead(now_ms())).sum::<u64>())).await?;
    let KeptCounts { kept, taken, dropped, waiting } = sense.shared.kept.counts();
    let passing = PLACES - sense.shared.passing.room(Instant::now());
    let mut metrics = Metrics::default();
    let mut frames = metrics.counter("tobari_sense_frames_total", "Frames by verdict.");
    counts.named().iter().for_each(|(verdict, count)| frames.add(&[("verdict", verdict)], *count));
    let mut steps = metrics.counter("tobari_sense_clock_steps_total", "Steps of the server's clock by direction.");
    ["ahead", "back"].iter().zip(clock).for_each(|(direction, count)| steps.add(&[("direction", direction)], count));
    let help = "MQTT messages before their fleet, by outcome.";
    let mut messages = metrics.counter("tobari_sense_unregistered_messages_total", help);
    for (outcome, count) in [("kept", kept), ("taken", taken), ("dropped", dropped)] {
        messages.add(&[("outcome", outcome)], count);
    }
    let help = "MQTT messages of which nothing was stored, by reason.";
    let mut letters = metrics.counter("tobari_sense_dead_letters_total", help);
    letters.add(&[("reason", "unregistered")], dropped);
    letters.add(&[("reason", "too-long")], sense.shared.long.load(Relaxed));
    letters.add(&[("reason", "frames")], sense.shared.letters.load(Relaxed));
    let help = "MQTT messages that wait for their fleet.";
    metrics.gauge("tobari_sense_unregistered_messages_waiting", help).set(waiting);
    metrics.gauge("tobari_sense_frames_stored", "Stored frames.").set(stored);
    metrics.gauge("tobari_sense_frames_ahead", "Stored frames with a time in the future.").set(ahead);
    let help = "Frames stored after the results of their window were fetched.";
    metrics.counter("tobari_sense_late_frames_total", help).set(late);
    let help = "Frames that were removed for their age before the result of a window of theirs was fetched.";
    metrics.counter("tobari_sense_lost_frames_total", help).set(lost);
    metrics.counter("tobari_sense_commits_total", "Groups of frames written to the disk.").set(groups);
    let help = "Requests for windows in which too few devices had frames.";
    metrics.counter("tobari_sense_empty_windows_total", help).set(sense.shared.empty.load(Relaxed));
    metrics.gauge("tobari_sense_fleets", "Fleets.").set(fleets.len());
    metrics.gauge("tobari_sense_fleets_passing", "Temporary fleets of visitors.").set(passing);
    Ok(metrics)
}

fn as_json(told: &serde_json::Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], told.to_string()).into_response()
}

fn named(fleet: &str) -> Result<FleetName, Reply> {
    unhex_lower(fleet).ok_or_else(no_fleet)
}

impl Sense {
    /// The fleet with this name. A new one is made if there is none and there is room.
    fn used_or_new(&self, (who, origin): (&Who, &Origin), name: &FleetName) -> Result<Used, Reply> {
        let owner = match who {
            Who::Holder => {
                let fleet = self.fleet_or_new(name, origin);
                let fleet = fleet.map_err(|error| unmade(&self.shared.disk, &error))?.ok_or_else(full)?;
                return Ok(Used { fleet, visit: None });
            }
            Who::Visitor(owner) => owner,
        };
        if self.shared.fleet(name).is_some() {
            return Err(no_fleet());
        }
        let begun = self.shared.passing.begin(name, (owner, origin), Instant::now());
        match begun.map_err(|error| unmade(&self.shared.disk, &error))? {
            Begun::Visit(visit) => Ok(of_visit(visit)),
            Begun::Taken => Err(no_fleet()),
            Begun::Full => Err(full()),
        }
    }
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
        AnswerError::Cloud(CloudError::Order(_)) => {
            Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "overflow", error.to_string())
        }
        AnswerError::Cloud(CloudError::Material(_)) => Reply::new(StatusCode::CONFLICT, "object", error.to_string()),
        AnswerError::Store(error) => closed(error),
        AnswerError::Removed => Reply::new(StatusCode::GONE, "removed", error.to_string()),
        AnswerError::Memory { .. } => Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "memory", error.to_string()),
        AnswerError::Job(job) => refused(job.trouble(), || fault(error)),
        _ => fault(error),
    }
}

/// Runs work with files outside the asynchronous threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Reply> + Send + 'static) -> Result<T, Reply> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Reply::fault("a fault of the server")))
}
