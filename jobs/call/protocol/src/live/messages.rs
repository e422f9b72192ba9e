//! Control messages between a member of a live room and the server, version 3: everything except
//! packets, sums, rosters and notes.
//!
//! A live room runs over one WebSocket at `/call/v3/{room}`. Control messages are texts: one JSON
//! object of at most [`MAX_CONTROL_BYTES`](crate::messages::MAX_CONTROL_BYTES) bytes with exactly
//! the fields named here. All other messages are binary.
//!
//! 1. The server first sends `challenge`, with a nonce that it draws for this connection. The
//!    member answers `join`, with a signature over the nonce and everything that it asks for
//!    (`super::entry`). The first member opens the room with the settings and the public key of the
//!    link. Later members must name the same.
//! 2. The server answers `welcome`, or `refused` and closes. The member then sends its hello
//!    (`super::hello`). The server checks the hello with that key.
//! 3. In a room with a lobby the member waits until the host sends `admit`. It gets nothing before
//!    `admitted`.
//! 4. From then on the member gets rosters, and after each tick the sum, or `silent` if no packet
//!    arrived.
//! 5. A listener who wants to speak sends `hand`. Without a host, `granted` follows at once; with a
//!    host, when the host sends `grant`. The listener then sends a hello of a new session, and
//!    speaks from the roster that lists this session.
//! 6. Hosts get `hand` and `left`, and the hellos of waiting members. They send `admit`, `mute`,
//!    `grant` and `eject`.
//! 7. In a room whose members agree on keys (`"keys":"group"`) a session also sends an offer after
//!    its hello, and rosters arrive inside steps (`super::group`).
//! 8. A member that cannot follow a roster sends `behind`, and gets the whole roster. If the
//!    members agree on keys, it begins another session too. `again` asks a member to begin another
//!    session, because its group begins anew.
//! 9. `closing` says that the server will end the room soon. `ended` or `removed` is the last
//!    message.

use serde::{Deserialize, Serialize};
use tobari_curve::wire::RoomId;

pub use super::entry::{Nonce, Proof, RoomKey};
use super::link::{Keys, LiveMode, Sending, Settings, TOKEN_BYTES};
use crate::{
    control::{client_messages, server_messages},
    messages::{Code, MessageError, room_hex},
};

/// The version of the protocol, in every [`Join`].
pub const VERSION: u32 = 3;

/// The first message of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// [`VERSION`].
    pub version: u32,
    /// The settings of the link.
    #[serde(with = "settings")]
    pub settings: Settings,
    /// Will this member send packets?
    pub speak: bool,
    /// The host's token: 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The host that the client dialled, as [`host_of`](super::host_of) writes it.
    pub host: String,
    /// The public half of the key that is derived from the link. The first member sets it; all
    /// later members must name the same key.
    pub key: RoomKey,
    /// The signature (`super::entry`).
    pub proof: Proof,
}

/// 16 bytes as 32 hexadecimal digits. They are for the server only, and are not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token(pub [u8; TOKEN_BYTES]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// A message from a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ClientMessage {
    /// The request to join.
    Join(Join),
    /// A listener wants to speak, or no longer.
    Hand {
        /// Is the hand up?
        raised: bool,
    },
    /// This member cannot follow the roster of an epoch: it lacks the roster before, or the commit
    /// or welcome that leads the group there.
    Behind {
        /// The epoch.
        epoch: u32,
    },
    /// From a host: admits a member from the lobby.
    Admit {
        /// The member.
        member: u16,
    },
    /// From a host: leaves a member's packets out of sums, or no longer.
    Mute {
        /// The member.
        member: u16,
        /// Is it muted from now on?
        muted: bool,
    },
    /// From a host: lets a member speak, or only listen.
    Grant {
        /// The member.
        member: u16,
        /// May it speak from now on?
        speak: bool,
    },
    /// From a host: removes a member.
    Eject {
        /// The member.
        member: u16,
    },
}

/// The answer to a [`Join`] that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The room's number on the wire: 16 hexadecimal digits.
    #[serde(with = "room_hex")]
    pub room: RoomId,
    /// The member's number in this room.
    pub member: u16,
    /// The tick that is open now.
    pub tick: u32,
    /// How many ticks are open at once.
    pub window: u32,
    /// Does the member wait to be admitted?
    pub waiting: bool,
}

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ServerMessage {
    /// The challenge that the member's proof must answer, before anything else.
    Challenge {
        /// Drawn for this connection.
        nonce: Nonce,
    },
    /// The member must begin another session.
    Again {},
    /// The member has joined the room or its lobby.
    Welcome(Welcome),
    /// The member is rejected; the connection ends.
    Refused {
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        reason: String,
    },
    /// The host has admitted the member.
    Admitted {
        /// The tick that is open now.
        tick: u32,
    },
    /// A tick without a packet is over.
    Silent {
        /// The tick.
        tick: u32,
    },
    /// The member may speak from now on, with a session of its own, or only listen.
    Granted {
        /// May it speak?
        speak: bool,
    },
    /// The member's packets are left out of sums from now on, or no longer.
    Muted {
        /// Is it muted?
        muted: bool,
    },
    /// To hosts: a member wants to speak, or no longer.
    Hand {
        /// The member.
        member: u16,
        /// Is the hand up?
        raised: bool,
    },
    /// To hosts: a member has left, perhaps from the lobby.
    Left {
        /// The member.
        member: u16,
    },
    /// The room will end.
    Closing {
        /// Seconds until the end, at the latest.
        seconds: u32,
    },
    /// The room is over.
    Ended {
        /// How many ticks the room had.
        ticks: u32,
    },
    /// The member is removed; the connection ends.
    Removed {
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        reason: String,
    },
}

client_messages!(ClientMessage, VERSION);
server_messages!(ServerMessage);

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", u128::from_be_bytes(self.0)))
    }
}

impl<'a> Deserialize<'a> for Token {
    fn deserialize<D: serde::Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hexadecimal = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match u128::from_str_radix(&text, 16) {
            Ok(number) if hexadecimal => Ok(Self(number.to_be_bytes())),
            _ => Err(serde::de::Error::custom("expected 32 hexadecimal digits")),
        }
    }
}

/// Settings as an object.
mod settings {
    use super::{Deserialize, Keys, LiveMode, Sending, Serialize, Settings, Token};
    use serde::{Deserializer, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum SendingName {
        Constant,
        Spurts,
    }

    /// Omitted if keys come from the link, as before there was another choice.
    #[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum KeysName {
        #[default]
        Link,
        Group,
    }

    impl KeysName {
        #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
        fn is_link(&self) -> bool {
            *self == Self::Link
        }
    }

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Object {
        #[serde(with = "mode_name")]
        mode: LiveMode,
        sending: SendingName,
        #[serde(default, skip_serializing_if = "KeysName::is_link")]
        keys: KeysName,
        lobby: bool,
        speakers: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<Token>,
    }

    pub(super) fn serialize<S: Serializer>(settings: &Settings, serializer: S) -> Result<S::Ok, S::Error> {
        let object = Object {
            mode: settings.mode,
            sending: match settings.sending {
                Sending::Constant => SendingName::Constant,
                Sending::Spurts => SendingName::Spurts,
            },
            keys: match settings.keys {
                Keys::Link => KeysName::Link,
                Keys::Group => KeysName::Group,
            },
            lobby: settings.lobby,
            speakers: settings.speakers,
            host: settings.host.map(Token),
        };
        object.serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Settings, D::Error> {
        let object = Object::deserialize(deserializer)?;
        let settings = Settings {
            mode: object.mode,
            sending: match object.sending {
                SendingName::Constant => Sending::Constant,
                SendingName::Spurts => Sending::Spurts,
            },
            keys: match object.keys {
                KeysName::Link => Keys::Link,
                KeysName::Group => Keys::Group,
            },
            lobby: object.lobby,
            speakers: object.speakers,
            host: object.host.map(|token| token.0),
        };
        if settings.is_valid() { Ok(settings) } else { Err(D::Error::custom("settings that no link has")) }
    }

    /// A mode by its name.
    mod mode_name {
        use super::{Deserialize, Deserializer, Error, LiveMode, Serializer};

        #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
        pub(super) fn serialize<S: Serializer>(mode: &LiveMode, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(mode.name())
        }

        pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<LiveMode, D::Error> {
            LiveMode::from_name(&String::deserialize(deserializer)?)
                .ok_or_else(|| D::Error::custom("expected a mode of live rooms"))
        }
    }
}

/// Text that parses as a message parses as the same message after it is written.
pub(super) fn fuzz(text: &str) {
    if let Ok(message) = ClientMessage::parse(text) {
        assert_eq!(ClientMessage::parse(&message.to_text()), Ok(message));
    }
    if let Ok(message) = ServerMessage::parse(text) {
        // Escaped characters can make a reason longer, so that it no longer fits.
        let written = message.to_text();
        let fits = written.len() <= crate::messages::MAX_CONTROL_BYTES;
        assert!(!fits || ServerMessage::parse(&written) == Ok(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: &str = r#"{"type":"join","version":3,"settings":{"mode":"mask","sending":"constant","lobby":true,"speakers":1024,"host":"000102030405060708090a0b0c0d0e0f"},"speak":true,"token":"ffffffffffffffffffffffffffffffff","host":"h.example","key":"KEY","proof":"PROOF"}"#;

    fn text() -> String {
        PATTERN.replace("KEY", &"0a".repeat(32)).replace("PROOF", &"0b".repeat(64))
    }

    fn join() -> Join {
        let host = Some(std::array::from_fn(|i| i as u8));
        let settings = Settings { lobby: true, host, ..Settings::default() };
        let (key, proof) = (RoomKey([10; 32]), Proof([11; 64]));
        Join {
            version: 3,
            settings,
            speak: true,
            token: Some(Token([255; 16])),
            host: "h.example".to_owned(),
            key,
            proof,
        }
    }

    #[test]
    fn a_join_reads_and_writes_as_documented() {
        assert_eq!(ClientMessage::parse(&text()), Ok(ClientMessage::Join(join())));
        assert_eq!(ClientMessage::Join(join()).to_text(), text());
        assert!(!format!("{:?}", join()).contains("255, 255"), "a token is not shown");
    }

    #[test]
    fn every_mode_is_named_as_on_the_command_line() {
        for mode in LiveMode::ALL {
            let text = text().replace("mask", mode.name());
            let Ok(ClientMessage::Join(join)) = ClientMessage::parse(&text) else { panic!("{mode}") };
            assert_eq!((join.settings.mode, ClientMessage::Join(join).to_text()), (mode, text));
        }
    }

    #[test]
    fn where_keys_come_from_is_said_if_it_is_not_the_link() {
        let text = text().replace("\"constant\"", "\"constant\",\"keys\":\"group\"");
        let Ok(ClientMessage::Join(read)) = ClientMessage::parse(&text) else { panic!("{text}") };
        assert_eq!((read.settings.keys, ClientMessage::Join(read).to_text()), (Keys::Group, text.clone()));
        assert!(ClientMessage::parse(&text.replace("group", "gruppe")).is_err());
    }

    #[test]
    fn settings_that_no_link_has_and_other_words_are_refused() {
        for (from, to) in [
            (":1024", ":0"),
            (":1024", ":4097"),
            (",\"host\":\"000102030405060708090a0b0c0d0e0f\"", ""),
            ("mask", "elgamal-mask"),
            ("constant", "sometimes"),
            ("ffffffffffffffffffffffffffffffff", "fff"),
            ("ffffffffffffffffffffffffffffffff", "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"),
            ("\"speak\":true", "\"speak\":true,\"more\":1"),
            ("\"lobby\":true", "\"lobby\":true,\"more\":1"),
            ("0a0a", "0A0a"),
            ("0a0a", "0a"),
            ("0b0b", "0b0b0b"),
            ("\"host\":\"h.example\",", ""),
        ] {
            let text = text().replace(from, to);
            assert!(text != self::text() && ClientMessage::parse(&text).is_err(), "{text}");
        }
        assert_eq!(
            ClientMessage::parse(&text().replace("\"version\":3", "\"version\":2")),
            Err(MessageError::Version { found: 2, expected: VERSION })
        );
    }

    #[test]
    fn every_message_survives_the_wire() {
        let welcome = Welcome { room: RoomId([1; 8]), member: 7, tick: 9, window: 32, waiting: true };
        let reason = || "because".to_owned();
        for message in [
            ServerMessage::Challenge { nonce: Nonce([7; 16]) },
            ServerMessage::Again {},
            ServerMessage::Welcome(welcome),
            ServerMessage::Refused { code: Code::Settings, reason: reason() },
            ServerMessage::Admitted { tick: 1 },
            ServerMessage::Silent { tick: 2 },
            ServerMessage::Granted { speak: true },
            ServerMessage::Muted { muted: false },
            ServerMessage::Hand { member: 1, raised: true },
            ServerMessage::Left { member: 1 },
            ServerMessage::Closing { seconds: 3 },
            ServerMessage::Ended { ticks: 4 },
            ServerMessage::Removed { code: Code::Ejected, reason: reason() },
        ] {
            assert_eq!(ServerMessage::parse(&message.to_text()), Ok(message));
        }
        for message in [
            ClientMessage::Hand { raised: true },
            ClientMessage::Behind { epoch: 7 },
            ClientMessage::Admit { member: 1 },
            ClientMessage::Mute { member: 1, muted: true },
            ClientMessage::Grant { member: 1, speak: false },
            ClientMessage::Eject { member: 1 },
        ] {
            assert_eq!(ClientMessage::parse(&message.to_text()), Ok(message));
        }
    }
}
