//! A connection with a broker, by one of the two versions of MQTT.
//!
//! The client libraries of both versions have the same shape and other types. A link hides the
//! difference: what is sent and received is the same.

use super::{MqttBroker, MqttVersion};
use axum::body::Bytes;
use rumqttc_v4 as v3;
use rumqttc_v5 as v5;
use std::{io, time::Duration};

/// Pings of the broker, in seconds.
const KEEP_ALIVE: u16 = 30;

/// The time limit for a connection with a broker, with its handshakes.
const CONNECT: Duration = Duration::from_secs(20);

/// What a link is for.
#[derive(Clone, Copy)]
pub(in super::super) enum Use {
    /// Messages of at most this many bytes are sent.
    Publish(usize),
    /// Messages are received and acknowledged. The broker keeps the session of an absent server
    /// for so many seconds; in MQTT 3.1.1, as long as it likes.
    Listen {
        session: u32,
        /// Messages handled at once.
        at_once: u16,
        /// The largest message; a broker of MQTT 5 sends no larger one.
        bytes: usize,
    },
}

/// The largest message of a broker of MQTT 3.1.1, which does not know our limit: a larger one ends
/// the connection, and comes again with the next. So the limit is far above that of messages which
/// are taken, and what is between the two is counted and dropped.
const RECEIVED: usize = 32 << 20;

/// A message of the broker.
pub(in super::super) struct MqttMessage {
    pub(in super::super) topic: Bytes,
    pub(in super::super) payload: Bytes,
    pub(in super::super) receipt: Receipt,
}

/// What acknowledges a message.
pub(in super::super) enum Receipt {
    V3(Box<v3::Publish>),
    V5(Box<v5::Publish>),
}

/// An event on a link.
pub(in super::super) enum LinkEvent {
    Connected,
    /// The broker rejects the subscription.
    Unsubscribed,
    Message(MqttMessage),
    /// The broker took a sent message, or tells why not.
    Sent(Result<(), Rejected>),
    Other,
}

/// Why a broker did not take a message.
pub(in super::super) enum Rejected {
    /// No client has subscribed: the message is lost.
    Nobody,
    /// The login may not publish there.
    Login,
    /// Another reason, in the broker's words.
    Other(String),
}

/// The sending half of a link.
#[derive(Clone)]
pub(in super::super) enum Client {
    V3(v3::AsyncClient),
    V5(v5::AsyncClient),
}

/// The receiving half of a link, which also does the work of both.
pub(in super::super) enum Events {
    V3(Box<v3::EventLoop>),
    V5 {
        events: Box<v5::EventLoop>,
        /// Whether the broker has accepted the connection.
        accepted: bool,
    },
}

/// A link with a broker under this name. Nothing is sent until events are awaited.
pub(in super::super) fn link(broker: &MqttBroker, name: &str, capacity: usize, of: Use) -> (Client, Events) {
    let (login, place) = (broker.login.clone(), (broker.host.clone(), broker.port));
    let again = broker.clone();
    let connect = move |_, _| again.clone().connect();
    match broker.version {
        MqttVersion::V3 => {
            let mut options = v3::MqttOptions::new(name, place);
            options.set_keep_alive(KEEP_ALIVE).set_socket_connector(connect);
            match of {
                Use::Publish(_) => options.set_clean_session(true),
                Use::Listen { .. } => options.set_clean_session(false).set_ack_mode(v3::AckMode::Manual),
            };
            // the second limit holds for all packets that are sent, with the login among them
            options.set_max_packet_size(RECEIVED, RECEIVED);
            if let Some((user, password)) = login {
                options.set_credentials(user, password.as_bytes().to_vec());
            }
            let (client, mut events) = v3::AsyncClient::builder(options).capacity(capacity).build();
            let mut network = v3::NetworkOptions::new();
            network.set_connection_timeout(CONNECT.as_secs());
            events.set_network_options(network);
            (Client::V3(client), Events::V3(Box::new(events)))
        }
        MqttVersion::V5 => {
            let mut options = v5::MqttOptions::new(name, place);
            options.set_keep_alive(KEEP_ALIVE).set_socket_connector(connect).set_connect_timeout(CONNECT);
            match of {
                Use::Publish(bytes) => {
                    options.set_clean_start(true).set_max_packet_size(Some(bytes as u32 + 1024));
                }
                Use::Listen { session, at_once, bytes } => {
                    options.set_ack_mode(v5::AckMode::Manual).set_clean_start(false);
                    // a server that starts again does not know the messages that the broker sent
                    // before: they come again
                    options.set_broker_session_resume_policy(v5::BrokerSessionResumePolicy::AllowBrokerOnly);
                    options.set_session_expiry_interval(Some(session)).set_receive_maximum(Some(at_once));
                    options.set_max_packet_size(Some(bytes as u32));
                }
            }
            if let Some((user, password)) = login {
                options.set_credentials(user, password.as_bytes().to_vec());
            }
            let (client, events) = v5::AsyncClient::builder(options).capacity(capacity).build();
            (Client::V5(client), Events::V5 { events: Box::new(events), accepted: false })
        }
    }
}

impl Client {
    /// Queues a message. False if the queue has no room.
    pub(in super::super) fn publish(&self, topic: &str, message: Vec<u8>) -> bool {
        match self {
            Self::V3(client) => {
                client.try_publish(topic, message, v3::PublishOptions::new(v3::QoS::AtLeastOnce)).is_ok()
            }
            Self::V5(client) => {
                client.try_publish(topic, message, v5::PublishOptions::new(v5::QoS::AtLeastOnce)).is_ok()
            }
        }
    }

    /// Subscribes, once a connection is there: the queue of a new connection is empty.
    pub(in super::super) fn subscribe(&self, topics: &str) {
        match self {
            Self::V3(client) => drop(client.try_subscribe(topics, v3::QoS::AtLeastOnce)),
            Self::V5(client) => drop(client.try_subscribe(topics, v5::QoS::AtLeastOnce)),
        }
    }

    /// Acknowledges a message. It waits for the connection.
    pub(in super::super) async fn acknowledge(&self, receipt: &Receipt) {
        match (self, receipt) {
            (Self::V3(client), Receipt::V3(message)) => drop(client.ack(message).await),
            (Self::V5(client), Receipt::V5(message)) => drop(client.ack(message).await),
            // a link has one version
            _ => {}
        }
    }

    /// Ends the connection after what is queued.
    pub(in super::super) fn disconnect(&self) {
        match self {
            Self::V3(client) => drop(client.try_disconnect()),
            Self::V5(client) => drop(client.try_disconnect()),
        }
    }
}

impl Events {
    /// Ends the connection without a word. The next event begins a new one.
    pub(in super::super) fn cut(&mut self) {
        match self {
            Self::V3(events) => events.clean(),
            Self::V5 { events, .. } => events.clean(),
        }
    }

    /// The next event; a connection is made if there is none.
    ///
    /// # Errors
    /// Why there is no connection, without the broker's address. The next call tries again.
    pub(in super::super) async fn next(&mut self) -> Result<LinkEvent, String> {
        match self {
            Self::V3(events) => events.poll().await.map(of_v3).map_err(|error| reason_of_v3(&error)),
            Self::V5 { events, accepted } => match events.poll().await.map(of_v5) {
                Ok(event) => {
                    *accepted |= matches!(event, LinkEvent::Connected);
                    Ok(event)
                }
                Err(error) => Err(reason_of_v5(&error, std::mem::take(accepted))),
            },
        }
    }
}

fn of_v3(event: v3::Event) -> LinkEvent {
    let v3::Event::Incoming(packet) = event else { return LinkEvent::Other };
    match packet {
        v3::Packet::ConnAck(_) => LinkEvent::Connected,
        v3::Packet::PubAck(_) => LinkEvent::Sent(Ok(())),
        v3::Packet::SubAck(ack) if ack.return_codes.contains(&v3::SubscribeReasonCode::Failure) => {
            LinkEvent::Unsubscribed
        }
        v3::Packet::Publish(mut message) => {
            let payload = std::mem::take(&mut message.payload);
            LinkEvent::Message(MqttMessage {
                topic: message.topic.clone(),
                payload,
                receipt: Receipt::V3(Box::new(message)),
            })
        }
        _ => LinkEvent::Other,
    }
}

fn of_v5(event: v5::Event) -> LinkEvent {
    let v5::Event::Incoming(packet) = event else { return LinkEvent::Other };
    match packet {
        v5::Packet::ConnAck(_) => LinkEvent::Connected,
        v5::Packet::PubAck(ack) => LinkEvent::Sent(match ack.reason {
            v5::PubAckReason::Success => Ok(()),
            v5::PubAckReason::NoMatchingSubscribers => Err(Rejected::Nobody),
            v5::PubAckReason::NotAuthorized => Err(Rejected::Login),
            other => Err(Rejected::Other(format!("{other:?}"))),
        }),
        v5::Packet::SubAck(ack) if !matches!(ack.return_codes[..], [v5::SubscribeReasonCode::Success(_)]) => {
            LinkEvent::Unsubscribed
        }
        v5::Packet::Publish(mut message) => {
            let payload = std::mem::take(&mut message.payload);
            LinkEvent::Message(MqttMessage {
                topic: message.topic.clone(),
                payload,
                receipt: Receipt::V5(Box::new(message)),
            })
        }
        _ => LinkEvent::Other,
    }
}

/// Why a broker refused a connection, from its code.
fn refusal(code: &str) -> String {
    match code {
        _ if code.contains("ProtocolVersion") => {
            "the broker does not speak this version of MQTT: choose the other one (--mqtt-version, --sense-mqtt-version)"
                .to_owned()
        }
        "BadClientId" | "ClientIdentifierNotValid" | "BadUserNamePassword" | "NotAuthorized" => {
            format!("the broker rejects the login or the client's name ({code})")
        }
        _ => format!("the broker refuses the connection ({code}): try again later"),
    }
}

fn reason_of_v3(error: &v3::ConnectionError) -> String {
    match error {
        v3::ConnectionError::Io(error) | v3::ConnectionError::MqttState(v3::StateError::Io(error)) => of_io(error),
        v3::ConnectionError::ConnectionRefused(code) => refusal(&format!("{code:?}")),
        other => of_text(other.to_string()),
    }
}

fn reason_of_v5(error: &v5::ConnectionError, accepted: bool) -> String {
    match error {
        // the refusal of version 3.1.1 is shorter than that of version 5
        v5::ConnectionError::MqttState(v5::StateError::ConnectionAborted) if !accepted => {
            "the broker closed the connection before it accepted it: it may know MQTT 3.1.1 only (--mqtt-version, \
             --sense-mqtt-version)"
                .to_owned()
        }
        v5::ConnectionError::Io(error) | v5::ConnectionError::MqttState(v5::StateError::Io(error)) => of_io(error),
        v5::ConnectionError::ConnectionRefused(code)
        | v5::ConnectionError::MqttState(v5::StateError::ConnFail { reason: code }) => refusal(&format!("{code:?}")),
        v5::ConnectionError::MqttState(v5::StateError::ServerDisconnect { reason_code, .. }) => {
            format!("the broker ended the connection ({reason_code:?})")
        }
        other => of_text(other.to_string()),
    }
}

/// With TLS 1.3 a broker rejects a client's certificate after the handshake.
fn of_text(error: String) -> String {
    match error.rsplit_once("received fatal alert: ") {
        Some((_, alert)) => format!("the broker ended TLS ({alert}): it may expect a certificate of this client"),
        None if error.to_ascii_lowercase().contains("size limit exceeded") => format!(
            "the broker sent a message of more than {} MiB, and will send it again: set its limit of a message lower, \
             and remove the message there",
            RECEIVED >> 20
        ),
        None => error,
    }
}

fn of_io(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            "the broker closed the connection".to_owned()
        }
        io::ErrorKind::TimedOut => "the broker does not answer".to_owned(),
        _ => of_text(error.to_string()),
    }
}

/// The time limit for an answer of a broker.
pub(in super::super) const PATIENCE: Duration = Duration::from_secs(30);
