//! A member of a call with microphone and playback, at the rate of a sound card.

use std::collections::VecDeque;

use chacha20::{ChaCha20Rng, rand_core::Rng};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tobari_call::PACKET_SAMPLES;
use tobari_call::live::audio::{Microphone, PlaybackBuffer};
use tobari_call::live::messages::{ClientMessage, ServerMessage};
use tobari_call::live::{Alarm, Keys, LinkError, LiveMember, LiveMode, Outgoing, RoomLink, Sending, Settings, group};
use zeroize::Zeroizing;

use crate::resample::{RateError, Resampler};

/// Samples a second of a call.
const RATE_HZ: u32 = 16_000;
/// The most frames of one call of [`Client::capture`]. After a long standstill of the page, further
/// frames are skipped.
const MOST_FRAMES: usize = 10;

/// A page's order for a new link.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkOrder {
    /// The server's address, as in `https://host:7610`.
    pub server: String,
    /// The name of the room; a random one where it is empty.
    pub room: String,
    /// Mode `elgamal-shared` instead of `mask`.
    pub shared: bool,
    /// A member sends packets only while they talk; so the server learns who talks.
    pub spurts: bool,
    /// New members wait for the host.
    pub lobby: bool,
    /// Whether the room has a host.
    pub host: bool,
    /// The members agree on keys (MLS), with new keys whenever a member joins or leaves.
    pub mls: bool,
    /// The number of members that may speak at once.
    pub speakers: u16,
}

/// Links of a new room.
#[derive(Serialize)]
pub struct Links {
    /// The link for everybody.
    pub link: String,
    /// The link for the host alone, if there is one.
    pub host_link: Option<String>,
}

/// Makes the links of a new room; none if the order is impossible.
pub fn make_links(order: &LinkOrder, rng: &mut ChaCha20Rng) -> Option<Links> {
    let scheme = ["http://", "https://"].iter().any(|scheme| order.server.starts_with(scheme));
    if !scheme || order.server.contains(['#', '?']) {
        return None;
    }
    let room = if order.room.is_empty() { format!("room-{:016x}", rng.next_u64()) } else { order.room.clone() };
    let settings = Settings {
        mode: if order.shared { LiveMode::ElgamalShared } else { LiveMode::Mask },
        sending: if order.spurts { Sending::Spurts } else { Sending::Constant },
        keys: if order.mls { Keys::Group } else { Keys::Link },
        lobby: order.lobby,
        speakers: order.speakers,
        host: (order.host || order.lobby).then_some([0; 16]),
    };
    if !settings.is_valid() {
        return None;
    }
    let link = RoomLink::new(&order.server, room.parse().ok()?, settings, rng);
    let host_link = link.host.as_ref().map(|_| link.to_text().to_string());
    Some(Links { link: link.for_members().to_text().to_string(), host_link })
}

/// The link for everybody, from the host's own link; none for an invalid link.
pub fn guests_link(link: &str) -> Option<Zeroizing<String>> {
    link.parse().ok().map(|link: RoomLink| link.for_members().to_text())
}

/// The settings of the room in a link, for people, and the address of its WebSocket, without the
/// secret.
///
/// # Errors
/// [`StartError`] if a page cannot use the link.
pub fn describe(link: &str) -> Result<Value, StartError> {
    read(link).map(|link| about(&link))
}

fn read(link: &str) -> Result<RoomLink, StartError> {
    let link: RoomLink = link.parse()?;
    let scheme = ["http://", "https://"].iter().any(|scheme| link.server.starts_with(scheme));
    if scheme { Ok(link) } else { Err(StartError::Scheme) }
}

/// The address of the WebSocket; it contains no secret.
fn address(link: &RoomLink) -> String {
    format!("{}/call/v3/{}", link.server.replacen("http", "ws", 1), link.room.as_str())
}

fn about(link: &RoomLink) -> Value {
    let settings = &link.settings;
    serde_json::json!({
        "address": address(link), "server": link.server, "room": link.room.as_str(), "mode": settings.mode.to_string(),
        "keys": settings.keys.name(),
        "spurts": settings.sending == Sending::Spurts, "lobby": settings.lobby, "speakers": settings.speakers,
        "hosted": settings.host.is_some(), "host": link.host.is_some(),
    })
}

/// A page's order to join a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The link, with its secret.
    pub link: String,
    /// The person's name.
    pub name: String,
    /// Whether the person wants to speak.
    pub speak: bool,
    /// Samples a second of the sound card, in both directions.
    pub rate: u32,
}

/// The reason why a client cannot join a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Not a link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A scheme without a WebSocket.
    #[error("link of a call: expected http or https, found another scheme")]
    Scheme,
    /// A call whose members agree on keys, in a module without MLS.
    #[error("a call whose members agree on keys (MLS): expected the client that has MLS, found the one without")]
    Keys,
    /// An impossible rate of the sound card.
    #[error(transparent)]
    Rate(#[from] RateError),
}

/// A message for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A text message.
    Text(String),
    /// A packet of sound. It is of no use later, so a full connection drops it.
    Packet(Vec<u8>),
    /// Another binary message, which must not be dropped.
    Binary(Vec<u8>),
}

/// A member of a call: see the module.
pub struct Client {
    link: RoomLink,
    name: String,
    speak: bool,
    rng: ChaCha20Rng,
    member: Option<LiveMember>,
    microphone: Microphone,
    ear: PlaybackBuffer,
    down: Resampler,
    up: Resampler,
    /// Samples at 16 kHz that do not fill a frame yet.
    pending: Vec<f32>,
    packets: VecDeque<Vec<u8>>,
    /// Whether a packet was made; after one, an earlier packet may be sent again to measure the
    /// round trip.
    probes: bool,
    first: Option<String>,
    news: VecDeque<Value>,
    /// Frames of the last capture as they were sent, and the last played frame.
    said: Zeroizing<Vec<i16>>,
    heard: Zeroizing<[i16; PACKET_SAMPLES]>,
    /// Loudness of the microphone before the gate: the largest sample of the last frames.
    peak: i16,
}

impl Client {
    /// A client that has not sent anything yet; its first message is the join, which answers the
    /// server's challenge.
    ///
    /// # Errors
    /// [`StartError`] if the link or the rate cannot be used.
    pub fn new(start: Start, rng: ChaCha20Rng) -> Result<Self, StartError> {
        let text = Zeroizing::new(start.link);
        let link = read(&text)?;
        if link.settings.keys == Keys::Group && !group::HAS_GROUPS {
            return Err(StartError::Keys);
        }
        Ok(Self {
            name: start.name,
            speak: start.speak,
            rng,
            member: None,
            microphone: Microphone::default(),
            ear: PlaybackBuffer::default(),
            down: Resampler::new(start.rate, RATE_HZ)?,
            up: Resampler::new(RATE_HZ, start.rate)?,
            pending: Vec::new(),
            packets: VecDeque::new(),
            probes: false,
            first: None,
            news: VecDeque::new(),
            said: Zeroizing::default(),
            heard: Zeroizing::new([0; PACKET_SAMPLES]),
            peak: 0,
            link,
        })
    }

    /// The address of the WebSocket; it contains no secret.
    pub fn address(&self) -> String {
        address(&self.link)
    }

    /// The link's settings and room, for people: see [`describe`].
    pub fn describe(&self) -> Value {
        about(&self.link)
    }

    /// Receives a text message of the server.
    pub fn text(&mut self, text: &str) {
        let Ok(message) = ServerMessage::parse(text) else { return self.news.push_back(Alarm::Unexpected.to_json()) };
        match (&mut self.member, &message) {
            (Some(member), message) => member.message(message, &mut self.rng),
            (None, ServerMessage::Challenge { nonce }) => {
                let join = LiveMember::join(&self.link, self.speak, *nonce);
                self.first = Some(ClientMessage::Join(join).to_text());
            }
            (None, ServerMessage::Welcome(welcome)) => {
                let (link, name, speak) = (&self.link, &self.name, self.speak);
                self.member = LiveMember::new(link, name, speak, welcome, &mut self.rng);
                let news =
                    serde_json::json!({ "news": "welcome", "member": welcome.member, "waiting": welcome.waiting });
                self.news.push_back(news);
            }
            (None, ServerMessage::Refused { code, reason } | ServerMessage::Removed { code, reason }) => {
                let over = serde_json::json!({ "news": "over", "code": code.to_string(), "reason": reason });
                self.news.push_back(over);
            }
            (None, _) => self.news.push_back(Alarm::Unexpected.to_json()),
        }
    }

    /// Receives a binary message of the server; true if it is a sum that is played.
    pub fn binary(&mut self, bytes: &[u8]) -> bool {
        let Some(member) = &mut self.member else {
            self.news.push_back(Alarm::Unexpected.to_json());
            return false;
        };
        let heard = member.binary(bytes);
        if let Some(heard) = &heard {
            self.ear.push(heard.tick, heard.samples.to_vec());
        }
        heard.is_some()
    }

    /// Receives samples of the microphone at the rate of the sound card, from -1 to 1.
    pub fn capture(&mut self, samples: &[f32]) {
        self.down.process(samples, &mut self.pending);
        self.said.clear();
        let surplus = self.pending.len().saturating_sub(MOST_FRAMES * PACKET_SAMPLES);
        self.pending.drain(..surplus);
        let whole = self.pending.len() / PACKET_SAMPLES * PACKET_SAMPLES;
        if whole > 0 {
            self.peak = 0;
        }
        let samples: Zeroizing<Vec<f32>> = Zeroizing::new(self.pending.drain(..whole).collect());
        for samples in samples.as_chunks::<PACKET_SAMPLES>().0 {
            let frame = samples.map(|sample| (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16);
            self.peak = frame.iter().fold(self.peak, |peak, sample| peak.max(sample.saturating_abs()));
            let (frame, talking) = self.microphone.process(&frame);
            let Some(member) = &mut self.member else { continue };
            if let Some(packet) = member.frame(&frame, talking, &mut self.rng) {
                self.packets.push_back(packet);
                self.probes = true;
                self.said.extend_from_slice(&frame);
            }
        }
    }

    /// Appends the next 20 ms at the rate of the sound card.
    pub fn play(&mut self, out: &mut Vec<f32>) {
        *self.heard = self.ear.pull();
        let samples = Zeroizing::new(self.heard.map(|sample| f32::from(sample) / 32_768.0));
        self.up.process(samples.as_ref(), out);
    }

    /// The next message for the server. If the connection is full, packets of sound are held back,
    /// because they would be late.
    pub fn poll(&mut self, is_full: bool) -> Option<Thing> {
        if let Some(first) = self.first.take() {
            return Some(Thing::Text(first));
        }
        while let Some(packet) = self.packets.pop_front() {
            if !is_full {
                return Some(Thing::Packet(packet));
            }
            if let Some(member) = &mut self.member {
                member.keep_back(&packet);
            }
        }
        // after the packets: the probe of the round trip follows the sound
        if let Some(probe) = std::mem::take(&mut self.probes).then(|| self.member.as_mut()?.probe()).flatten()
            && !is_full
        {
            return Some(Thing::Packet(probe));
        }
        Some(match self.member.as_mut()?.poll_outgoing()? {
            Outgoing::Text(text) => Thing::Text(text),
            Outgoing::Binary(bytes) => Thing::Binary(bytes),
        })
    }

    /// The next event.
    pub fn poll_news(&mut self) -> Option<Value> {
        if let Some(news) = self.news.pop_front() {
            return Some(news);
        }
        let member = self.member.as_mut()?;
        let news = member.poll_news()?;
        Some(news.to_json(member))
    }

    /// Sends a message of a member or a host, in the syntax of the protocol; true if the message is
    /// valid.
    pub fn say(&mut self, message: &str) -> bool {
        match (&mut self.member, ClientMessage::parse(message)) {
            (_, Ok(ClientMessage::Join(_)) | Err(_)) | (None, _) => false,
            (Some(member), Ok(message)) => {
                member.say(&message);
                true
            }
        }
    }

    /// Mutes (sends silence) or unmutes the microphone.
    pub fn mute(&mut self, muted: bool) {
        self.microphone.mute(muted);
    }

    /// The samples that were sent of the last capture: gated, levelled, 16 kHz.
    pub fn said(&self) -> &[i16] {
        &self.said
    }

    /// The 20 ms that were played last, 16 kHz.
    pub fn heard(&self) -> &[i16] {
        self.heard.as_ref()
    }

    /// The largest sample of the last frames, before gate and gain.
    pub fn peak(&self) -> i16 {
        self.peak
    }

    /// The number of frames that have arrived and are not played yet.
    pub fn depth(&self) -> usize {
        self.ear.depth()
    }
}
