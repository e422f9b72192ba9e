//! Frames over MQTT: the server subscribes at a broker, and devices publish there. The versions 5
//! and 3.1.1 are spoken, encrypted or not ([`super::broker`]).
//!
//! Topics are `tobari/{fleet}/…`, with any suffix that a device chooses. A message has one frame or
//! several, one after another, with quality of service 1. **The server acknowledges a message once
//! its frames are on the disk**, or if it has no frame to store. A message for an unregistered
//! fleet is acknowledged once it is on the disk itself ([`super::kept`]). The broker delivers a
//! message that could not be stored again on the next connection. So the server disconnects while
//! the disk accepts nothing, and reconnects when it accepts frames again. The broker keeps the
//! session for a day, so a server that restarts misses nothing that the broker keeps. (A broker of
//! MQTT 3.1.1 keeps it as long as it likes; many keep a limited number of messages.) The broker
//! sees frames, their senders and their times.
//!
//! A message of which nothing can be stored is acknowledged too, and counted as a dead letter: else
//! it would come again for ever, and [`AT_ONCE`] such messages would stop all others.

use super::{
    FleetName, Sense,
    broker::{Client, LinkEvent, MqttBroker, MqttMessage, PATIENCE, Receipt, Rejected, Use, link},
    fleet::{Fleet, Known},
    handle::{self, Candidates},
    kept::Message,
    now_ms,
};
use axum::{body::Bytes, http::StatusCode};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tobari_node::{Job, disk::LOOK, reply::Reply, stop::Stop};
use tobari_octets::{hex, unhex_lower};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep, timeout, timeout_at},
};

const TOPICS: &str = "tobari/+/#";
/// Messages handled at once; more messages wait at the broker.
const AT_ONCE: u16 = 256;
/// Bytes of messages handled at once, unless one message may have more.
const BYTES_AT_ONCE: usize = 8 << 20;
/// Waiting messages of a fleet that are handled at once after its registration.
const TAKEN_AT_ONCE: usize = 64;
/// How long a broker keeps the session of an absent server, in seconds.
pub(super) const SESSION: u32 = 86_400;
/// A shorter connection counts as short, and [`EVICTED`] short ones in a row are no accident.
const SHORT: Duration = Duration::from_secs(10);
const EVICTED: u32 = 3;
/// The pause before the next attempt to reach an absent broker.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a broker did not accept messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MqttError {
    /// The broker is absent, or rejects this client.
    #[error("no connection with the broker: {0}. Look at the broker, then try again")]
    Away(String),
    /// The broker rejected a message.
    #[error("the broker rejects this fleet's messages: allow the topics tobari/FLEET/# for this login")]
    Refused,
    /// The broker rejected a message for another reason.
    #[error("the broker rejects a message ({0}): look at the broker's limits, then send again")]
    Rejected(String),
    /// The broker would lose a message.
    #[error(
        "no server has subscribed at the broker, which would lose the frames: start \
         `tobari serve --sense FOLDER --sense-mqtt URL` with this broker once, then send again"
    )]
    Nobody,
    /// The broker did not answer in time.
    #[error("expected an answer of the broker within {} s, found none", PATIENCE.as_secs())]
    Silent,
}

/// Publishes messages under a topic, and returns after the broker has acknowledged all of them.
///
/// # Errors
/// [`MqttError`]: then it is unknown which messages the broker accepted; frames may be sent again.
pub async fn publish(broker: &MqttBroker, topic: &str, messages: Vec<Vec<u8>>) -> Result<(), MqttError> {
    let largest = messages.iter().map(Vec::len).max().unwrap_or(0);
    // a random name: brokers disconnect another client of the same name
    let mut name = [0; 8];
    getrandom::fill(&mut name).map_err(|error| MqttError::Away(error.to_string()))?;
    let name = format!("tobari-{}", hex(&name));
    let (client, mut events) = link(broker, &name, messages.len().max(1), Use::Publish(largest));
    let mut left = messages.len();
    for message in messages {
        if !client.publish(topic, message) {
            return Err(MqttError::Refused);
        }
    }
    // a broker that only answers pings is silent, too
    let mut limit = tokio::time::Instant::now() + PATIENCE;
    while left > 0 {
        let event = timeout_at(limit, events.next()).await.map_err(|_| MqttError::Silent)?;
        match event.map_err(MqttError::Away)? {
            LinkEvent::Sent(Ok(())) => (left, limit) = (left - 1, tokio::time::Instant::now() + PATIENCE),
            LinkEvent::Sent(Err(Rejected::Nobody)) => return Err(MqttError::Nobody),
            LinkEvent::Sent(Err(Rejected::Login)) => return Err(MqttError::Refused),
            LinkEvent::Sent(Err(Rejected::Other(reason))) => return Err(MqttError::Rejected(reason)),
            _ => {}
        }
    }
    client.disconnect();
    // until the disconnection is sent; its result does not matter
    let _ = timeout(PAUSE, events.next()).await;
    Ok(())
}

/// Takes frames from a broker until the server stops.
pub(super) async fn listen(sense: Sense, broker: MqttBroker, mut stopped: Stop) {
    let bytes = sense.shared.options.batch_bytes;
    let to = Use::Listen { session: SESSION, at_once: AT_ONCE, bytes };
    let (client, mut events) = link(&broker, &sense.shared.mqtt_name, usize::from(AT_ONCE), to);
    let places = Arc::new(Semaphore::new(usize::from(AT_ONCE)));
    let most = bytes.max(BYTES_AT_ONCE);
    let room = Arc::new(Semaphore::new(most));
    let (line, queue) = mpsc::channel(usize::from(AT_ONCE));
    let (acks, stored) = mpsc::unbounded_channel();
    let (refused, connection) = (Arc::new(Notify::new()), Arc::new(AtomicU64::new(0)));
    tokio::spawn(store(sense.clone(), acks, queue, Arc::clone(&refused)));
    tokio::spawn(acknowledge(client.clone(), stored, Arc::clone(&connection)));
    let mut lives = Lives::default();
    loop {
        let event = tokio::select! {
            () = stopped.wait() => return client.disconnect(),
            () = refused.notified() => {
                // the broker delivers unacknowledged messages on a new connection, in order
                connection.fetch_add(1, Relaxed);
                events.cut();
                if works_again(&sense, &mut stopped).await {
                    continue;
                }
                return;
            }
            event = events.next() => event,
        };
        match event {
            Ok(LinkEvent::Connected) => {
                client.subscribe(TOPICS);
                lives.begin();
            }
            Ok(LinkEvent::Unsubscribed) => {
                tracing::error!("the broker rejects the subscription {TOPICS}: allow it for this server's login");
            }
            Ok(LinkEvent::Message(message)) => {
                let bytes = message.payload.len().min(most) as u32;
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let Ok(memory) = Arc::clone(&room).acquire_many_owned(bytes).await else { return };
                let MqttMessage { topic, payload, receipt } = message;
                let receipt = (connection.load(Relaxed), receipt);
                let checked = tokio::spawn(check(sense.clone(), topic, payload.clone()));
                if line.send(Taken { payload, receipt, checked, place: [place, memory] }).await.is_err() {
                    return;
                }
            }
            Ok(LinkEvent::Sent(_) | LinkEvent::Other) => {}
            Err(reason) => {
                connection.fetch_add(1, Relaxed);
                let pause = lives.end(&reason);
                tokio::select! {
                    () = stopped.wait() => return,
                    () = sleep(pause) => {}
                }
            }
        }
    }
}

/// The lengths of connections with the broker.
#[derive(Default)]
struct Lives {
    since: Option<Instant>,
    short: u32,
    /// The last reason that the log tells.
    told: String,
}

impl Lives {
    fn begin(&mut self) {
        self.since = Some(Instant::now());
        self.told.clear();
        tracing::info!("connected with the broker");
    }

    /// Counts a connection that ended, or never began, and returns the pause before the next one.
    fn end(&mut self, reason: &str) -> Duration {
        if self.told != reason {
            tracing::warn!("the broker is away: {reason}");
            reason.clone_into(&mut self.told);
        }
        let was_short = self.since.take().is_some_and(|since| since.elapsed() < SHORT);
        self.short = if was_short { self.short + 1 } else { 0 };
        if self.short < EVICTED {
            return PAUSE;
        }
        // each of the two clients disconnects the other when it reconnects
        tracing::error!(
            "the broker ended this server's connection {} times soon after it began: another client may be using its \
             name, as a server with a copy of the data folder does. Stop that server, or remove the file {} from its \
             copy",
            self.short,
            super::identity::FILE
        );
        PATIENCE
    }
}

/// Waits until the disk accepts frames; false if the server stops first.
async fn works_again(sense: &Sense, stopped: &mut Stop) -> bool {
    tracing::warn!("frames cannot be stored: they stay with the broker meanwhile");
    loop {
        tokio::select! {
            () = stopped.wait() => return false,
            () = sleep(PAUSE) => {}
        }
        if sense.trouble().is_none() {
            return true;
        }
    }
}

/// The fleet of a message.
enum Checked {
    /// No fleet: the topic names none.
    Nobodys,
    /// A message that is longer than a batch.
    TooLong,
    /// A fleet that is not registered.
    Unregistered(FleetName),
    /// A registered fleet, with the result of the check of the frames.
    Of(FleetName, Arc<Fleet>, Arc<Known>, Result<Candidates, Reply>),
}

/// What acknowledges a message, with the number of its connection.
type NumberedReceipt = (u64, Receipt);

/// A message that is being checked.
struct Taken {
    payload: Bytes,
    receipt: NumberedReceipt,
    checked: JoinHandle<Checked>,
    /// The permits for a place and for the message's bytes, held while the message is handled.
    place: [OwnedSemaphorePermit; 2],
}

/// Stores messages in the order of their arrival; many are checked at once. The order matters: a
/// device's frame is late once many newer frames of the device are stored.
async fn store(
    sense: Sense,
    acks: mpsc::UnboundedSender<NumberedReceipt>,
    mut line: mpsc::Receiver<Taken>,
    refused: Arc<Notify>,
) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let waiting = !sense.shared.kept.fleets().is_empty();
        let taken = tokio::select! {
            taken = line.recv() => taken,
            _ = look.tick(), if waiting => {
                take_registered(&sense).await;
                continue;
            }
        };
        let Some(Taken { payload, receipt, checked, place }) = taken else { return };
        let queued = match checked.await {
            Ok(Checked::Of(name, fleet, known, Ok(candidates))) => {
                // first the messages that arrived before it
                if !take_kept(&sense, &name, &fleet, &known).await {
                    refused.notify_one();
                    continue;
                }
                candidates.queue(&known, None).await
            }
            Ok(reason @ (Checked::Nobodys | Checked::TooLong)) => {
                match reason {
                    Checked::TooLong => sense.shared.count_long(),
                    _ => sense.shared.kept.nobodys(),
                }
                let _ = acks.send(receipt);
                continue;
            }
            Ok(Checked::Unregistered(name)) => {
                match keep(&sense, name, payload).await {
                    true => drop(acks.send(receipt)),
                    false => refused.notify_one(),
                }
                continue;
            }
            // the broker delivers the message again
            Ok(Checked::Of(_, _, _, Err(_))) | Err(_) => continue,
        };
        drop(payload);
        let (sense, acks, refused) = (sense.clone(), acks.clone(), Arc::clone(&refused));
        tokio::spawn(async move {
            let stored = match queued {
                Ok(queued) => queued.stored().await,
                Err(reply) => Err(reply),
            };
            match stored {
                Ok(stored) => {
                    sense.shared.count_letter(&stored.counts);
                    drop(acks.send(receipt));
                }
                Err(reply) if reply.status == StatusCode::INSUFFICIENT_STORAGE => refused.notify_one(),
                Err(_) => {}
            }
            drop(place);
        });
    }
}

/// Keeps a message for an unregistered fleet; false if the disk does not accept it.
async fn keep(sense: &Sense, name: FleetName, payload: Bytes) -> bool {
    let (shared, came_ms) = (Arc::clone(&sense.shared), now_ms());
    let keep = move || match shared.kept.keep(&name, came_ms, &payload) {
        Ok(()) => true,
        Err(error) => {
            shared.disk.failed(&error);
            false
        }
    };
    tokio::task::spawn_blocking(keep).await.unwrap_or(false)
}

/// Stores messages of fleets that were registered meanwhile, and drops messages that waited too
/// long.
async fn take_registered(sense: &Sense) {
    for name in sense.shared.kept.fleets() {
        let fleet = sense.shared.fleet(&name).and_then(|fleet| Some((fleet.known()?, fleet)));
        if let Some((known, fleet)) = fleet {
            // a message that is not stored now is tried again
            take_kept(sense, &name, &fleet, &known).await;
        }
    }
    sense.shared.kept.expire(Instant::now());
}

/// Stores the messages of an earlier run, on a server without a broker: they were acknowledged, and
/// windows wait for them.
pub(super) async fn take_left(sense: Sense, mut stopped: Stop) {
    while !sense.shared.kept.fleets().is_empty() {
        take_registered(&sense).await;
        tokio::select! {
            () = stopped.wait() => return,
            () = sleep(LOOK) => {}
        }
    }
}

/// Stores the messages that waited for a fleet, in order and with their times of arrival. False if
/// not all of them are stored.
async fn take_kept(sense: &Sense, name: &FleetName, fleet: &Fleet, known: &Arc<Known>) -> bool {
    let shared = &sense.shared;
    while shared.kept.holds(name) {
        let (kept, of) = (Arc::clone(shared), *name);
        let oldest = tokio::task::spawn_blocking(move || kept.kept.oldest(&of, TAKEN_AT_ONCE)).await;
        let Ok(Ok(messages)) = oldest else {
            tracing::error!(
                "messages for a fleet that was not registered cannot be read now: they stay where they are"
            );
            return false;
        };
        let mut queued = Vec::with_capacity(messages.len());
        for Message { number, came_ms, bytes } in messages {
            let checked = handle::check(shared, fleet, known, bytes.into()).await;
            let Ok(candidates) = checked else { return false };
            let Ok(one) = candidates.queue(known, Some(came_ms)).await else { return false };
            queued.push((number, one));
        }
        for (number, one) in queued {
            let Ok(stored) = one.stored().await else { return false };
            shared.count_letter(&stored.counts);
            shared.kept.taken(name, number);
        }
    }
    true
}

/// Acknowledges messages to the broker, in a task that holds no place, since an acknowledgement
/// waits for the connection. If a broker sends more messages at once than the limit, the connection
/// is not served until a place is free. What came on an earlier connection comes again, and is
/// acknowledged then. (In the moment in which a connection ends, an acknowledgement may still go to
/// the next one: the client then ends that one too.)
async fn acknowledge(client: Client, mut stored: mpsc::UnboundedReceiver<NumberedReceipt>, now: Arc<AtomicU64>) {
    while let Some((connection, receipt)) = stored.recv().await {
        if connection == now.load(Relaxed) {
            client.acknowledge(&receipt).await;
        }
    }
}

async fn check(sense: Sense, topic: Bytes, payload: Bytes) -> Checked {
    let topic = std::str::from_utf8(&topic).unwrap_or_default();
    let Some(name) = topic.split('/').nth(1).and_then(unhex_lower) else { return Checked::Nobodys };
    if payload.len() > sense.shared.options.batch_bytes {
        return Checked::TooLong;
    }
    let fleet = sense.shared.fleet(&name).and_then(|fleet| Some((fleet.known()?, fleet)));
    let Some((known, fleet)) = fleet else { return Checked::Unregistered(name) };
    let checked = handle::check(&sense.shared, &fleet, &known, payload).await;
    Checked::Of(name, fleet, known, checked)
}
