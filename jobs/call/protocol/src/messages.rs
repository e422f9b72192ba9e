//! The control messages between members and server, version 1: everything except packets and sums.
//!
//! A call runs over one WebSocket at `/call/v1/{room}`, where the room's name is a [`RoomName`].
//! Packets and sums are binary messages ([`tobari_curve::wire`]); everything else is a text message
//! holding one JSON object of at most [`MAX_CONTROL_BYTES`] bytes, with exactly the fields named
//! here.
//!
//! 1. The member sends [`Join`] first, within the server's time limit. The first member fixes the
//!    room's [`Pace`] and curve, and the [`Mode`] of its packets; later members must name the same.
//!    A join without a mode means `elgamal`, and a join in mode `elgamal` is written without one.
//!    So clients that know no other mode still work.
//! 2. The server answers [`Welcome`], or `refused` with a [`Code`] and a sentence, and closes.
//! 3. A speaker sends packets, each for a later tick than the one before, and then `end`. In a
//!    lockstep room the first packet is for the tick of the welcome, and no tick may be skipped.
//! 4. After each tick a listener gets the sum in the encoding it asked for. A member that does not
//!    listen gets `closed`. In a live room all members get `closed` after a tick without any
//!    packet, on time or late. A listener acknowledges with `received`, each time a later tick; in
//!    a lockstep room this is the flow control.
//! 5. When every speaker has ended or left, all members get `ended` and the room is closed. A
//!    member that breaks a rule gets `removed` with a code and a sentence, and is disconnected; the
//!    other members continue.
//!
//! ```
//! use tobari_call::messages::{ClientMessage, ServerMessage};
//! let said = ClientMessage::parse(r#"{"type":"received","tick":7}"#)?;
//! assert_eq!(said, ClientMessage::Received { tick: 7 });
//! assert!(ServerMessage::parse(r#"{"type":"closed","tick":7,"also":1}"#).is_err());
//! # Ok::<(), tobari_call::messages::MessageError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tobari_curve::{Curve, PointEncoding, elgamal::Mode, wire::RoomId};

pub use super::control::MessageError;
use super::control::{client_messages, server_messages};

/// The version of the protocol, in every [`Join`].
pub const VERSION: u32 = 1;
/// The longest control message, in bytes, either way.
pub const MAX_CONTROL_BYTES: usize = 1024;
/// The longest name of a room, in bytes.
pub const MAX_ROOM_NAME: usize = 64;

/// How a room decides that a tick is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Pace {
    /// A tick closes when every speaker has sent its packet or ended. No packet is dropped, and no
    /// clock sets the pace.
    Lockstep {
        /// Tick 0 waits until this many speakers have joined: from 1 to
        /// [`tobari_curve::wire::MAX_MEMBERS`].
        members: u16,
    },
    /// A tick closes 20 ms after it opens, by the server's clock. Later packets are dropped, and
    /// their senders are listed as late.
    Live,
}

/// The first message of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// [`VERSION`].
    pub version: u32,
    /// How the room's ticks close.
    pub pace: Pace,
    /// The curve of every packet in the room.
    #[serde(with = "curve_name")]
    pub curve: Curve,
    /// How the samples of every packet in the room are encrypted; `elgamal` if the join names no
    /// mode.
    #[serde(with = "mode_name", default, skip_serializing_if = "is_usual")]
    pub mode: Mode,
    /// Will this member send packets?
    pub speak: bool,
    /// Does this member want the sums?
    pub listen: bool,
    /// How the points of the sums are written, for a member that listens.
    #[serde(with = "encoding_name")]
    pub downlink: PointEncoding,
}

impl Join {
    /// A member that speaks and listens in mode `elgamal`, with compressed sums.
    pub fn new(pace: Pace, curve: Curve) -> Self {
        let (mode, downlink) = (Mode::default(), PointEncoding::Compressed);
        Self { version: VERSION, pace, curve, mode, speak: true, listen: true, downlink }
    }
}

/// A message of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ClientMessage {
    /// Asks to join the room.
    Join(Join),
    /// No more packets from this member.
    End {},
    /// The member has received the sums up to and including this tick.
    Received {
        /// The tick.
        tick: u32,
    },
}

/// The answer to a [`Join`] that the server accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The room's number on the wire: 16 hexadecimal digits.
    #[serde(with = "room_hex")]
    pub room: RoomId,
    /// The member's number in this room.
    pub member: u16,
    /// The tick that is open now: the first that this member may send. In a lockstep room the
    /// member must send it.
    pub tick: u32,
    /// How many ticks are open at once: a packet's tick must be earlier than the open tick plus
    /// this number.
    pub window: u32,
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ServerMessage {
    /// The member has joined.
    Welcome(Welcome),
    /// The server rejected the join; the connection ends.
    Refused {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        reason: String,
    },
    /// A tick is over: sent to members that do not listen, and to all members if there is no sum.
    Closed {
        /// The tick.
        tick: u32,
    },
    /// The room is over.
    Ended {
        /// How many ticks it had.
        ticks: u32,
    },
    /// The server removed the member; the connection ends.
    Removed {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        reason: String,
    },
}

/// Why a member was refused or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Code {
    /// A message that is not one of this protocol, or not allowed at this point.
    Malformed,
    /// Another version of the protocol, or of a packet.
    Version,
    /// A join or a packet on a curve that the room does not use, or that the server does not admit.
    Curve,
    /// A join or a packet in a mode that the room does not use.
    Mode,
    /// Another pace than the room's, or a number of members out of range.
    Pace,
    /// A member that would neither speak nor listen.
    Idler,
    /// No place left, in the room or on the server.
    Full,
    /// A timeout: the join, the room's other speakers, or a packet or acknowledgement that the room
    /// waits for did not arrive in time.
    Timeout,
    /// Bytes that are not a packet, or not one of the right length.
    Packet,
    /// A point that is not on the curve.
    Point,
    /// A packet for another room.
    Room,
    /// A packet in the name of another member, or from one that does not speak.
    Member,
    /// A second packet for one tick, or one for an earlier tick.
    Backwards,
    /// A tick left out in a lockstep room.
    Gap,
    /// A packet too far ahead of the open tick.
    Flood,
    /// A packet after `end`, or `end` twice.
    Ended,
    /// An acknowledgement of a tick that has not closed, or not later than the one before.
    Acknowledgement,
    /// A member that does not read fast enough.
    Slow,
    /// The server is closing.
    Shutdown,
    /// A live room with other settings than the link's.
    Settings,
    /// A live room that was opened with another secret than the link's.
    Secret,
    /// Something that only the host may do, or a token that is not the host's.
    Host,
    /// The host removed the member.
    Ejected,
    /// An invalid note, or more notes than a room accepts; an invalid offer or part of a commit, or
    /// one that the server did not ask for.
    Note,
    /// An invalid hello, one of another member, or one of a session that was presented before.
    Hello,
    /// A proof for a server of another name.
    Server,
    /// A fault of the server.
    Internal,
    /// A code of a later server.
    #[serde(other)]
    Unknown,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

client_messages!(ClientMessage, VERSION);
server_messages!(ServerMessage);

/// The name of a room: 1 to 64 letters, digits, `_` or `-` of ASCII.
///
/// ```
/// use tobari_call::messages::RoomName;
/// assert_eq!("team-7".parse::<RoomName>()?.as_str(), "team-7");
/// assert!("a/b".parse::<RoomName>().is_err());
/// # Ok::<(), tobari_call::messages::NotARoomName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoomName(String);

impl RoomName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RoomName {
    type Err = NotARoomName;

    fn from_str(name: &str) -> Result<Self, NotARoomName> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > MAX_ROOM_NAME || !name.bytes().all(legal) {
            return Err(NotARoomName);
        }
        Ok(Self(name.to_owned()))
    }
}

/// A text that cannot be the name of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("room name: expected 1 to {MAX_ROOM_NAME} of A-Z, a-z, 0-9, _ and -")]
pub struct NotARoomName;

/// A curve by its name.
mod curve_name {
    use super::{Curve, Deserialize};
    use serde::{Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(super) fn serialize<S: Serializer>(curve: &Curve, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(curve.name())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Curve, D::Error> {
        Curve::from_name(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A mode by its name.
mod mode_name {
    use super::{Deserialize, Mode};
    use serde::{Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(super) fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(mode.name())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Mode, D::Error> {
        Mode::from_name(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Is this the mode that a join need not name?
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_usual(mode: &Mode) -> bool {
    *mode == Mode::default()
}

/// `compressed` or `uncompressed`.
mod encoding_name {
    use super::{Deserialize, PointEncoding, Serialize};
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Name {
        Compressed,
        Uncompressed,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(super) fn serialize<S: Serializer>(encoding: &PointEncoding, serializer: S) -> Result<S::Ok, S::Error> {
        match encoding {
            PointEncoding::Compressed => Name::Compressed,
            PointEncoding::Uncompressed => Name::Uncompressed,
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<PointEncoding, D::Error> {
        Ok(match Name::deserialize(deserializer)? {
            Name::Compressed => PointEncoding::Compressed,
            Name::Uncompressed => PointEncoding::Uncompressed,
        })
    }
}

/// A room's number as 16 hexadecimal digits.
pub(super) mod room_hex {
    use super::{Deserialize, RoomId};
    use serde::{Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(crate) fn serialize<S: Serializer>(room: &RoomId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(room)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<RoomId, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hexadecimal = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match u64::from_str_radix(&text, 16) {
            Ok(number) if hexadecimal => Ok(RoomId(number.to_be_bytes())),
            _ => Err(D::Error::custom("expected 16 hexadecimal digits")),
        }
    }
}

/// The body of a fuzz target: a text that parses as a message or a name is the same after writing
/// and parsing it again.
#[doc(hidden)]
pub fn fuzz_messages(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(message) = ClientMessage::parse(text) {
        assert_eq!(ClientMessage::parse(&message.to_text()), Ok(message));
    }
    if let Ok(message) = ServerMessage::parse(text) {
        // A reason may be longer once its characters are escaped, so that it no longer fits.
        let written = message.to_text();
        assert!(written.len() > MAX_CONTROL_BYTES || ServerMessage::parse(&written) == Ok(message));
    }
    if let Ok(name) = text.parse::<RoomName>() {
        assert_eq!(name.as_str(), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: &str = r#"{"type":"join","version":1,"pace":{"lockstep":{"members":3}},"curve":"secp256k1","speak":true,"listen":false,"downlink":"uncompressed"}"#;

    fn join() -> Join {
        Join {
            listen: false,
            downlink: PointEncoding::Uncompressed,
            ..Join::new(Pace::Lockstep { members: 3 }, Curve::Secp256k1)
        }
    }

    #[test]
    fn a_join_reads_and_writes_as_documented() {
        assert_eq!(ClientMessage::parse(JOIN), Ok(ClientMessage::Join(join())));
        assert_eq!(ClientMessage::Join(join()).to_text(), JOIN);
        let live = JOIN.replace(r#"{"lockstep":{"members":3}}"#, r#""live""#);
        assert_eq!(ClientMessage::parse(&live), Ok(ClientMessage::Join(Join { pace: Pace::Live, ..join() })));
    }

    #[test]
    fn a_join_names_its_mode_unless_it_is_the_first() {
        let shared = JOIN.replace(r#""speak""#, r#""mode":"elgamal-shared","speak""#);
        let expected = ClientMessage::Join(Join { mode: Mode::ElgamalShared, ..join() });
        assert_eq!(ClientMessage::parse(&shared), Ok(expected.clone()));
        assert_eq!(expected.to_text(), shared);
        let named = JOIN.replace(r#""speak""#, r#""mode":"elgamal","speak""#);
        assert_eq!(ClientMessage::parse(&named), ClientMessage::parse(JOIN));
        for bad in ["mask", "", "ELGAMAL"] {
            let error = ClientMessage::parse(&shared.replace("elgamal-shared", bad)).expect_err(bad);
            assert_eq!(error.code(), Code::Malformed, "{bad}");
        }
        for length in 0..shared.len() {
            assert!(ClientMessage::parse(&shared[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn every_message_of_the_server_survives_the_wire() {
        let welcome = Welcome { room: RoomId([0, 1, 2, 3, 4, 5, 6, 255]), member: 7, tick: 0, window: 32 };
        let reason = || "a sentence with \"quotes\"".to_owned();
        for (message, text) in [
            (
                ServerMessage::Welcome(welcome),
                r#"{"type":"welcome","room":"00010203040506ff","member":7,"tick":0,"window":32}"#,
            ),
            (
                ServerMessage::Refused { code: Code::Full, reason: reason() },
                r#"{"type":"refused","code":"full","reason":"a sentence with \"quotes\""}"#,
            ),
            (ServerMessage::Closed { tick: 3 }, r#"{"type":"closed","tick":3}"#),
            (ServerMessage::Ended { ticks: 4 }, r#"{"type":"ended","ticks":4}"#),
            (
                ServerMessage::Removed { code: Code::Flood, reason: reason() },
                r#"{"type":"removed","code":"flood","reason":"a sentence with \"quotes\""}"#,
            ),
        ] {
            assert_eq!(message.to_text(), text);
            assert_eq!(ServerMessage::parse(text), Ok(message));
        }
    }

    #[test]
    fn what_is_not_exactly_a_message_is_refused() {
        let surplus = JOIN.replace(r#""speak""#, r#""extra":1,"speak""#);
        let twice = JOIN.replace(r#""speak""#, r#""speak":true,"speak""#);
        let surplus_in_pace = JOIN.replace(r#""members":3"#, r#""members":3,"more":1"#);
        for text in [
            "",
            "null",
            "{}",
            "[\"end\"]",
            r#"["received",7]"#,
            r#"{"type":"end","tick":1}"#,
            r#"{"type":"received"}"#,
            r#"{"type":"received","tick":-1}"#,
            r#"{"type":"received","tick":4294967296}"#,
            r#"{"type":"received","tick":1}{"#,
            r#"{"type":"welcome"}"#,
            &surplus,
            &twice,
            &surplus_in_pace,
            &JOIN.replace("secp256k1", "secp256k2"),
            &JOIN.replace("uncompressed", "zipped"),
            &JOIN.replace(":3}", ":65536}"),
        ] {
            let error = ClientMessage::parse(text).expect_err(text);
            assert_eq!(error.code(), Code::Malformed, "{text}");
        }
    }

    #[test]
    fn another_version_is_named_whatever_else_it_says() {
        let later = r#"{"type":"join","version":2,"colour":"red"}"#;
        assert_eq!(ClientMessage::parse(later), Err(MessageError::Version { found: 2, expected: 1 }));
        assert_eq!(
            ClientMessage::parse(&JOIN.replace(":1,", ":0,")),
            Err(MessageError::Version { found: 0, expected: 1 })
        );
    }

    #[test]
    fn a_message_longer_than_the_limit_is_not_parsed() {
        let long = format!("{}{}", JOIN, " ".repeat(MAX_CONTROL_BYTES));
        assert_eq!(ClientMessage::parse(&long), Err(MessageError::TooLong));
        let longest = format!("{JOIN:<MAX_CONTROL_BYTES$}");
        assert!(ClientMessage::parse(&longest).is_ok());
    }

    #[test]
    fn damaged_messages_do_not_break_the_parser() {
        let ended = r#"{"type":"ended","ticks":4}"#;
        let removed = r#"{"type":"removed","code":"flood","reason":"\u0000\ud83d\ude00"}"#;
        let shared = JOIN.replace(r#""speak""#, r#""mode":"elgamal-shared","speak""#);
        for text in [JOIN, &shared, ended, removed, "[[[[[[[[", "a-room"] {
            for place in 0..text.len() {
                fuzz_messages(&text.as_bytes()[..place]);
                for byte in [0, b'"', b'}', b'[', b'9', 0x80] {
                    let mut damaged = text.as_bytes().to_vec();
                    damaged[place] = byte;
                    fuzz_messages(&damaged);
                }
            }
        }
        fuzz_messages(&b"[".repeat(MAX_CONTROL_BYTES));
        fuzz_messages(br#"{"type":"end","type":{"type":{"type":{}}}}"#);
    }

    #[test]
    fn room_numbers_are_sixteen_lower_case_digits() {
        for room in ["", "00010203040506f", "00010203040506fff", "00010203040506FF", "+0010203040506ff"] {
            let text = format!(r#"{{"type":"welcome","room":"{room}","member":7,"tick":0,"window":32}}"#);
            assert!(ServerMessage::parse(&text).is_err(), "{room}");
        }
    }

    #[test]
    fn a_code_of_a_later_server_is_unknown_not_an_error() {
        let text = r#"{"type":"removed","code":"weather","reason":""}"#;
        let expected = ServerMessage::Removed { code: Code::Unknown, reason: String::new() };
        assert_eq!(ServerMessage::parse(text), Ok(expected));
    }

    #[test]
    fn names_of_rooms_are_short_and_plain() {
        let longest = "x".repeat(MAX_ROOM_NAME);
        for name in ["a", "A-z_09", &longest] {
            assert_eq!(name.parse::<RoomName>().unwrap().to_string(), name);
        }
        for name in ["", " ", "a b", "ü", "a/b", "..", "a\0", &format!("{longest}x")] {
            assert_eq!(name.parse::<RoomName>(), Err(NotARoomName), "{name:?}");
        }
    }
}
