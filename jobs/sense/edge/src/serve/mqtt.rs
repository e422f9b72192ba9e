//! Frames over MQTT 5: the server subscribes at a broker, and devices publish there.
//!
//! Topics are `tobari/{fleet}/…`, with any suffix that a device chooses. A message has one frame or
//! several, one after another, with quality of service 1. **The server acknowledges a message once
//! its frames are on the disk**, or if it has no frame to store. A message for an unregistered
//! fleet is acknowledged once it is on the disk itself ([`super::kept`]). The broker delivers a
//! message that could not be stored again on the next connection. So the server disconnects while
//! the disk accepts nothing, and reconnects when it accepts frames again. The broker keeps the
//! session for a day, so a server that restarts misses nothing. The broker sees the same as
//! everybody on the network path: frames, their senders and their times.

use super::{
    FleetName, Sense,
    fleet::{Fleet, Known},
    handle::{self, Candidates},
    kept::Message,
    now_ms,
};
use axum::{body::Bytes, http::StatusCode};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, PubAckReason, Publish};
use rumqttc::v5::{AsyncClient, Event, MqttOptions};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tobari_node::{Job, disk::LOOK, reply::Reply, stop::Stop};
use tobari_octets::{hex, unhex_lower};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use zeroize::Zeroizing;

const TOPICS: &str = "tobari/+/#";
/// Messages handled at once; more messages wait at the broker.
const AT_ONCE: u16 = 256;
/// Bytes of messages handled at once, unless one message may have more.
const BYTES_AT_ONCE: usize = 8 << 20;
/// Waiting messages of a fleet that are handled at once after its registration.
const TAKEN_AT_ONCE: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long a broker keeps the session of an absent server, in seconds.
pub(super) const SESSION: u32 = 86_400;
/// The time limit for an answer of a broker.
const PATIENCE: Duration = Duration::from_secs(30);
/// A shorter connection counts as short, and [`EVICTED`] short ones in a row are no accident.
const SHORT: Duration = Duration::from_secs(10);
const EVICTED: u32 = 3;
/// The pause before the next attempt to reach an absent broker.
const PAUSE: Duration = Duration::from_secs(1);

/// A broker.
#[derive(Clone)]
pub struct MqttBroker {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The user name and password.
    pub login: Option<(String, Zeroizing<String>)>,
}

impl std::fmt::Debug for MqttBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MqttBroker {{ host: {:?}, port: {}, login: {} }}", self.host, self.port, self.login.is_some())
    }
}

impl std::str::FromStr for MqttBroker {
    type Err = String;

    /// Parses `mqtt://host:port`; the default port is 1883.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a broker as mqtt://host:1883".to_owned();
        let rest = text.strip_prefix("mqtt://").ok_or_else(wrong)?.trim_end_matches('/');
        let bare = |rest: &str| rest.starts_with('[') && rest.ends_with(']');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !bare(rest) => (host, port.parse().map_err(|_| wrong())?),
            _ => (rest, 1883),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@', '[', ']']) || host.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port, login: None })
    }
}

/// Why a broker did not accept messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MqttError {
    /// The broker is absent, or rejects this client.
    #[error("the broker is not there, or closed the connection: look at the broker, then try again")]
    Away,
    /// The broker rejected a message.
    #[error("the broker rejects this fleet's messages: allow the topics tobari/FLEET/# for this login")]
    Refused,
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
    getrandom::fill(&mut name).map_err(|_| MqttError::Away)?;
    let mut options = MqttOptions::new(format!("tobari-{}", hex(&name)), broker.host.clone(), broker.port);
    options.set_keep_alive(KEEP_ALIVE).set_clean_start(true).set_max_packet_size(Some(largest as u32 + 1024));
    if let Some((user, password)) = &broker.login {
        options.set_credentials(user, password.as_str());
    }
    let (client, mut events) = AsyncClient::new(options, messages.len().max(1));
    let mut left = messages.len();
    for message in messages {
        client.try_publish(topic, QoS::AtLeastOnce, false, message).map_err(|_| MqttError::Away)?;
    }
    while left > 0 {
        let event = timeout(PATIENCE, events.poll()).await.map_err(|_| MqttError::Silent)?;
        if let Event::Incoming(Packet::PubAck(ack)) = event.map_err(|_| MqttError::Away)? {
            if !matches!(ack.reason, PubAckReason::Success | PubAckReason::NoMatchingSubscribers) {
                return Err(MqttError::Refused);
            }
            left -= 1;
        }
    }
    let _ = client.try_disconnect();
    // until the disconnection is sent; its result does not matter
    let _ = timeout(PAUSE, events.poll()).await;
    Ok(())
}

/// Takes frames from a broker until the server stops.
pub(super) async fn listen(sense: Sense, broker: MqttBroker, mut stopped: Stop) {
    let mut options = MqttOptions::new(sense.shared.mqtt_name.clone(), broker.host, broker.port);
    options.set_keep_alive(KEEP_ALIVE).set_clean_start(false).set_session_expiry_interval(Some(SESSION));
    options.set_manual_acks(true).set_receive_maximum(Some(AT_ONCE));
    options.set_max_packet_size(Some(sense.shared.options.batch_bytes as u32));
    if let Some((user, password)) = &broker.login {
        options.set_credentials(user, password.as_str());
    }
    let (client, mut events) = AsyncClient::new(options, usize::from(AT_ONCE));
    let places = Arc::new(Semaphore::new(usize::from(AT_ONCE)));
    let most = sense.shared.options.batch_bytes.max(BYTES_AT_ONCE);
    let room = Arc::new(Semaphore::new(most));
    let (line, queue) = mpsc::channel(usize::from(AT_ONCE));
    let (acks, stored) = mpsc::unbounded_channel();
    let refused = Arc::new(Notify::new());
    tokio::spawn(store(sense.clone(), acks, queue, Arc::clone(&refused)));
    tokio::spawn(acknowledge(client.clone(), stored));
    let (mut connected, mut short) = (None::<Instant>, 0);
    loop {
        let event = tokio::select! {
            () = stopped.wait() => return drop(client.try_disconnect()),
            () = refused.notified() => {
                // the broker delivers unacknowledged messages on a new connection, in order
                events.clean();
                if works_again(&sense, &mut stopped).await {
                    continue;
                }
                return;
            }
            event = events.poll() => event,
        };
        match event {
            Ok(Event::Incoming(Packet::ConnAck(_))) => {
                // the only error is a full queue, and a new connection has an empty one
                let _ = client.try_subscribe(TOPICS, QoS::AtLeastOnce);
                connected = Some(Instant::now());
                tracing::info!("connected with the broker");
            }
            Ok(Event::Incoming(Packet::Publish(message))) => {
                let bytes = message.payload.len().min(most) as u32;
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let Ok(memory) = Arc::clone(&room).acquire_many_owned(bytes).await else { return };
                let place = [place, memory];
                let checked = tokio::spawn(check(sense.clone(), message.clone()));
                if line.send(Taken { message, checked, place }).await.is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(_) => {
                // the error may name the broker's address
                tracing::warn!("the broker is away");
                let was_short = connected.take().is_some_and(|since| since.elapsed() < SHORT);
                short = if was_short { short + 1 } else { 0 };
                let evicted = short >= EVICTED;
                if evicted {
                    // each of the two clients disconnects the other when it reconnects
                    tracing::error!(
                        "the broker ended this server's connection {short} times soon after it began: another \
                         client may be using its name, as a server with a copy of the data folder does. Stop \
                         that server, or remove the file {} from its copy",
                        super::identity::FILE
                    );
                }
                tokio::select! {
                    () = stopped.wait() => return,
                    () = sleep(if evicted { PATIENCE } else { PAUSE }) => {}
                }
            }
        }
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
    /// A fleet that is not registered.
    Unregistered(FleetName),
    /// A registered fleet, with the result of the check of the frames.
    Of(FleetName, Arc<Fleet>, Arc<Known>, Result<Candidates, Reply>),
}

/// A message that is being checked.
struct Taken {
    message: Publish,
    checked: JoinHandle<Checked>,
    /// The permits for a place and for the message's bytes, held while the message is handled.
    place: [OwnedSemaphorePermit; 2],
}

/// Stores messages in the order of their arrival; many are checked at once. The order matters: a
/// device's frame is late once many newer frames of the device are stored.
async fn store(
    sense: Sense,
    acks: mpsc::UnboundedSender<Publish>,
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
        let Some(Taken { mut message, checked, place }) = taken else { return };
        let payload = std::mem::take(&mut message.payload);
        let queued = match checked.await {
            Ok(Checked::Of(name, fleet, known, Ok(candidates))) => {
                // first the messages that arrived before it
                if !take_kept(&sense, &name, &fleet, &known).await {
                    refused.notify_one();
                    continue;
                }
                candidates.queue(&known, None).await
            }
            Ok(Checked::Nobodys) => {
                sense.shared.kept.nobodys();
                let _ = acks.send(message);
                continue;
            }
            Ok(Checked::Unregistered(name)) => {
                match keep(&sense, name, payload).await {
                    true => drop(acks.send(message)),
                    false => refused.notify_one(),
                }
                continue;
            }
            // the broker delivers the message again
            Ok(Checked::Of(_, _, _, Err(_))) | Err(_) => continue,
        };
        drop(payload);
        let (acks, refused) = (acks.clone(), Arc::clone(&refused));
        tokio::spawn(async move {
            let stored = match queued {
                Ok(queued) => queued.stored().await,
                Err(reply) => Err(reply),
            };
            match stored {
                Ok(_) => drop(acks.send(message)),
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
            if one.stored().await.is_err() {
                return false;
            }
            shared.kept.taken(name, number);
        }
    }
    true
}

/// Acknowledges messages to the broker, in a task that holds no place, since an acknowledgement
/// waits for the connection. If a broker sends more messages at once than the limit, the connection
/// is not served until a place is free.
async fn acknowledge(client: AsyncClient, mut stored: mpsc::UnboundedReceiver<Publish>) {
    while let Some(message) = stored.recv().await {
        let _ = client.ack(&message).await;
    }
}

async fn check(sense: Sense, message: Publish) -> Checked {
    let topic = std::str::from_utf8(&message.topic).unwrap_or_default();
    let Some(name) = topic.split('/').nth(1).and_then(unhex_lower) else { return Checked::Nobodys };
    let fleet = sense.shared.fleet(&name).and_then(|fleet| Some((fleet.known()?, fleet)));
    let Some((known, fleet)) = fleet else { return Checked::Unregistered(name) };
    let checked = handle::check(&sense.shared, &fleet, &known, message.payload.clone()).await;
    Checked::Of(name, fleet, known, checked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    /// Every text of at most this many of these characters.
    fn texts(alphabet: &'static [u8], most: u32) -> impl Iterator<Item = Vec<u8>> {
        let base = alphabet.len();
        (0..=most).flat_map(move |length| {
            (0..base.pow(length))
                .map(move |number| (0..length).map(|place| alphabet[number / base.pow(place) % base]).collect())
        })
    }

    #[test]
    fn a_broker_is_a_host_and_a_port() {
        let of = |text: &str| text.parse::<MqttBroker>().map(|broker| (broker.host, broker.port));
        assert_eq!(of("mqtt://localhost"), Ok(("localhost".to_owned(), 1883)));
        assert_eq!(of("mqtt://10.0.0.1:1884/"), Ok(("10.0.0.1".to_owned(), 1884)));
        assert_eq!(of("mqtt://[::1]:7"), Ok(("::1".to_owned(), 7)));
        assert_eq!(of("mqtt://[::1]"), Ok(("::1".to_owned(), 1883)));
        for wrong in ["", "localhost", "mqtt://", "mqtts://a", "mqtt://a:b", "mqtt://user@a", "mqtt://a:70000"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        for text in texts(b"a0:/[].@", 5) {
            let text = format!("mqtt://{}", String::from_utf8(text).unwrap());
            if let Ok((host, port)) = of(&text) {
                assert!(!host.is_empty() && !host.contains(['/', '@', '[', ']']), "{text}: {host}, {port}");
            }
        }
    }
}
