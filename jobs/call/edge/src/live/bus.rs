//! The bus between servers that hold live rooms together: NATS.
//!
//! The subject `{prefix}.call.{room}.all` reaches all servers of a room, and
//! `{prefix}.call.{room}.{station}` reaches one of them. `room` is half of the SHA-256 of the
//! room's name. The broker keeps nothing. Each room has a task that receives and a task that
//! publishes. Messages that do not fit into their queues, or that arrive while the broker is
//! unreachable, are dropped; the protocol allows this ([`tobari_call::live::cascade`]).

use std::{
    fmt,
    str::FromStr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tobari_octets::{hex, sha256};

use async_nats::{Client, ConnectOptions, Event, connection::State};
use futures_util::StreamExt;
use tobari_call::live::cascade::{Address, BusMessage, Station};
use tobari_call::messages::RoomName;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use super::metrics::Metrics;

/// Messages that may wait in the queue of each direction.
const OUTBOX: usize = 1024;
const INBOX: usize = 4096;
/// The pause before the next attempt to reach the broker.
const PAUSE: Duration = Duration::from_millis(250);

/// A broker that joins servers in live rooms, and how to connect to it.
#[derive(Clone)]
pub struct CallBus {
    /// As `nats://host:port` or `tls://host:port`.
    url: String,
    /// The prefix of all subjects.
    prefix: String,
    /// The user name and password.
    pub login: Option<(String, Zeroizing<String>)>,
    /// The name of this server in the broker's list of clients.
    pub name: String,
}

impl fmt::Debug for CallBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, prefix, login, name } = self;
        write!(f, "CallBus {{ url: {url:?}, prefix: {prefix:?}, login: {}, name: {name:?} }}", login.is_some())
    }
}

impl FromStr for CallBus {
    type Err = String;

    /// Parses `nats://host:port` or `tls://host:port`; the default port is 4222. A `/prefix` at the
    /// end separates deployments that share a broker.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a broker as nats://host:4222, or nats://host:4222/prefix".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = if prefix.is_empty() { "tobari" } else { prefix };
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let is_known = scheme == "nats" || scheme == "tls";
        if !is_known
            || host.is_empty()
            || host.contains(['@', '?', '#'])
            || host.contains(char::is_whitespace)
            || !is_word(prefix)
        {
            return Err(wrong());
        }
        let url = format!("{scheme}://{host}");
        url.parse::<async_nats::ServerAddr>().map_err(|_| wrong())?;
        Ok(Self { url, prefix: prefix.to_owned(), login: None, name: "tobari".to_owned() })
    }
}

/// The broker cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the bus of calls: {0}")]
pub struct BusError(#[from] async_nats::ConnectError);

/// A message to publish.
pub(super) struct Letter {
    pub(super) to: Address,
    pub(super) bytes: Vec<u8>,
}

/// The connection to a broker; it reconnects whenever it is lost.
#[derive(Clone)]
pub(crate) struct Bus {
    client: Client,
    prefix: Arc<str>,
}

impl Bus {
    /// Connects to a broker, and keeps trying if the broker is unreachable.
    pub(crate) async fn connect(options: &CallBus) -> Result<Self, BusError> {
        let mut connect = ConnectOptions::new()
            .name(&options.name)
            .no_echo()
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(|_| PAUSE)
            .ping_interval(Duration::from_secs(2))
            .client_capacity(OUTBOX)
            .subscription_capacity(INBOX)
            .event_callback(|event| async move {
                match event {
                    Event::Connected => tracing::info!("connected with the bus of calls"),
                    Event::Disconnected => tracing::warn!("the bus of calls is away"),
                    Event::SlowConsumer(_) => tracing::warn!("a room does not hear all that the bus of calls says"),
                    _ => {}
                }
            });
        if let Some((user, password)) = &options.login {
            connect = connect.user_and_password(user.clone(), password.as_str().to_owned());
        }
        let client = connect.connect(&options.url).await?;
        Ok(Self { client, prefix: options.prefix.as_str().into() })
    }

    /// Carries the messages of a room until the returned sender is dropped.
    pub(super) fn carry<H: From<BusMessage> + Send + 'static>(
        &self,
        name: &RoomName,
        station: Station,
        inbox: mpsc::WeakSender<H>,
        metrics: Arc<Metrics>,
    ) -> mpsc::Sender<Letter> {
        let room = format!("{}.call.{}", self.prefix, hex(&sha256(name.as_str().as_bytes())[..16]));
        let (outbox, letters) = mpsc::channel(OUTBOX);
        let hearing = tokio::spawn(hear(self.client.clone(), room.clone(), station, inbox, Arc::clone(&metrics)));
        let client = self.client.clone();
        tokio::spawn(async move {
            speak(client, room, letters, metrics).await;
            hearing.abort();
        });
        outbox
    }
}

/// Publishes the messages of a room until the room ends.
async fn speak(client: Client, room: String, mut letters: mpsc::Receiver<Letter>, metrics: Arc<Metrics>) {
    while let Some(Letter { to, bytes }) = letters.recv().await {
        // queued messages would be stale when the broker is back
        if client.connection_state() != State::Connected {
            metrics.bus.dropped.fetch_add(1, Relaxed);
            continue;
        }
        let subject = match to {
            Address::All => format!("{room}.all"),
            Address::To(station) => format!("{room}.{station}"),
        };
        metrics.bus.sent.fetch_add(1, Relaxed);
        metrics.bus.sent_bytes.fetch_add(bytes.len() as u64, Relaxed);
        if client.publish(subject, bytes.into()).await.is_err() {
            metrics.bus.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// Passes messages to a room, while clients can find it.
async fn hear<H: From<BusMessage>>(
    client: Client,
    room: String,
    station: Station,
    inbox: mpsc::WeakSender<H>,
    metrics: Arc<Metrics>,
) {
    let Ok(own) = client.subscribe(format!("{room}.{station}")).await else { return };
    let Ok(all) = client.subscribe(format!("{room}.all")).await else { return };
    let mut messages = futures_util::stream::select(own, all);
    while let Some(message) = messages.next().await {
        metrics.bus.received.fetch_add(1, Relaxed);
        let Some(message) = BusMessage::decode(&message.payload) else {
            metrics.bus.malformed.fetch_add(1, Relaxed);
            continue;
        };
        let Some(inbox) = inbox.upgrade() else { return };
        if inbox.send(message.into()).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn a_bus_is_a_scheme_a_host_a_port_and_a_prefix() {
        let of = |text: &str| text.parse::<CallBus>().map(|bus| (bus.url, bus.prefix));
        assert_eq!(of("nats://127.0.0.1:4222"), Ok(("nats://127.0.0.1:4222".to_owned(), "tobari".to_owned())));
        assert_eq!(of("tls://bus.example/team-7"), Ok(("tls://bus.example".to_owned(), "team-7".to_owned())));
        assert_eq!(of("nats://[::1]:7/"), Ok(("nats://[::1]:7".to_owned(), "tobari".to_owned())));
        for wrong in
            ["", "localhost", "nats://", "redis://a", "nats://user:word@a", "nats://a/b.c", "nats://a:x", "nats://a b"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_login_is_not_shown() {
        let mut bus: CallBus = "nats://a".parse().unwrap();
        bus.login = Some(("canary-user".to_owned(), Zeroizing::new("canary-password".to_owned())));
        assert!(!format!("{bus:?}").contains("canary"));
    }
}
