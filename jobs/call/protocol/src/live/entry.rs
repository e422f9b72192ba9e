//! The proof of a member that joins a live room.
//!
//! ```text
//! server ── challenge (nonce) ──▶ member     the first message: a new nonce for each connection
//! member ── join ───────────────▶ server     a request, and a proof that signs nonce and request
//! proof = Ed25519(sign, "tobari call join" 3 ‖ nonce 16 ‖ length 1, host ‖ length 1, room
//!         ‖ settings 19 ‖ speaks 1 ‖ a byte 0, or a byte 1 and the host's token 16)
//! ```
//!
//! The key `sign` is derived from the link (`super::keys`). The server learns its public half from
//! the member that opens the room, and stores nothing else. A recorded join proves nothing on
//! another connection, because that connection has another nonce. A proof names the host that the
//! client dialled. So a server that received a proof cannot pass it on to a server of another name.
//!
//! An active attacker on a connection without TLS can still take the connection over after its
//! join. Only TLS prevents that.

use ed25519_dalek::{Signature, Signer, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{
    keys::RoomKeys,
    link::{RoomLink, TOKEN_BYTES},
    messages::{Join, Token, VERSION},
};
use crate::{messages::RoomName, server::Refusal};

/// The beginning of everything that a proof signs.
const DOMAIN: &[u8] = b"tobari call join\x03";
/// The longest name of a host, in bytes.
pub(super) const MAX_HOST: usize = 255;

/// Bytes that a control message holds as hexadecimal digits.
macro_rules! hexadecimal {
    ($(#[$doc:meta])* $name:ident, $bytes:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub [u8; $bytes]);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&digits(&self.0))
            }
        }

        impl<'a> Deserialize<'a> for $name {
            fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                bytes(&text).map(Self).ok_or_else(|| D::Error::custom("expected hexadecimal digits of another number"))
            }
        }
    };
}

hexadecimal! {
    /// The nonce of a server for one connection: 32 hexadecimal digits. It is no secret.
    Nonce, 16
}
hexadecimal! {
    /// The public half of the key that is derived from a link: 64 hexadecimal digits.
    RoomKey, 32
}
hexadecimal! {
    /// A signature: 128 hexadecimal digits.
    Proof, 64
}

fn digits(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut out = [0; N];
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(out)
}

/// The name of a host without its port, in lower case; none if it is no host that a URL can name.
///
/// ```
/// use tobari_call::live::host_of;
/// assert_eq!(host_of("Call.example:7610").as_deref(), Some("call.example"));
/// assert_eq!(host_of("[::1]:7610").as_deref(), Some("[::1]"));
/// assert_eq!(host_of(""), None);
/// ```
pub fn host_of(authority: &str) -> Option<String> {
    let end = match authority.find(']') {
        Some(bracket) if authority.starts_with('[') => bracket + 1,
        _ => authority.find(':').unwrap_or(authority.len()),
    };
    let host = authority[..end].to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let legal = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._[]:%".contains(&byte));
    (legal && (1..=MAX_HOST).contains(&host.len())).then(|| host.to_owned())
}

/// The challenge that the member of one connection must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Drawn for this connection.
    pub nonce: Nonce,
    /// The room of the connection.
    pub room: RoomName,
    /// The names under which the server is reached, as [`host_of`] writes them.
    pub hosts: Vec<String>,
}

/// The join of a member with this link, as the answer to the challenge of its server.
pub(super) fn answer(link: &RoomLink, speak: bool, nonce: Nonce) -> Join {
    let keys = RoomKeys::new(link);
    let token = link.host.as_ref().map(|token| Token(*token.expose_bytes()));
    let (key, proof) = (RoomKey(keys.verifying().to_bytes()), Proof([0; 64]));
    let host = link.host_name();
    let mut join = Join { version: VERSION, settings: link.settings, speak, token, host, key, proof };
    let signed = signed(nonce, &link.room, &join);
    join.proof = Proof(keys.signing().sign(&signed).to_bytes());
    join
}

/// The bytes that a proof signs.
pub(super) fn signed(nonce: Nonce, room: &RoomName, join: &Join) -> Vec<u8> {
    let mut out = DOMAIN.to_vec();
    out.extend_from_slice(&nonce.0);
    for text in [join.host.as_str(), room.as_str()] {
        // both have at most 255 bytes
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(&join.settings.to_bytes());
    out.push(join.speak.into());
    match &join.token {
        None => out.push(0),
        Some(token) => {
            out.push(1);
            out.extend_from_slice(&token.0);
        }
    }
    out
}

/// A join whose proof was checked. Only such a join opens a room or gets a seat in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven(Join);

impl Proven {
    /// The join that was checked.
    pub fn join(&self) -> &Join {
        &self.0
    }

    /// A join that another server of the room has checked, or a join in a play without a server.
    pub(super) fn unchecked(join: Join) -> Self {
        Self(join)
    }
}

/// The key of a room; none if the bytes are no key, or a weak one.
pub(super) fn key_of(key: RoomKey) -> Option<VerifyingKey> {
    VerifyingKey::from_bytes(&key.0).ok().filter(|key| !key.is_weak())
}

impl Join {
    /// Checks a member's answer to a challenge.
    ///
    /// # Errors
    /// [`Refusal::Host`] if the proof is for a server of another name, [`Refusal::Proof`] if it is
    /// not a valid proof for this challenge.
    pub fn checked(self, challenge: &Challenge) -> Result<Proven, Refusal> {
        if !challenge.hosts.contains(&self.host) {
            return Err(Refusal::Host { found: self.host, expected: challenge.hosts.join(" or ") });
        }
        let signature = Signature::from_bytes(&self.proof.0);
        let signed = signed(challenge.nonce, &challenge.room, &self);
        let is_signed = key_of(self.key).is_some_and(|key| key.verify_strict(&signed, &signature).is_ok());
        if self.version == VERSION && is_signed { Ok(Proven(self)) } else { Err(Refusal::Proof) }
    }
}

const _: () = assert!(TOKEN_BYTES == 16);

#[cfg(test)]
mod tests {
    use super::super::{LiveMember, RoomLink, Sending, Settings, messages::Token};
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    fn link() -> RoomLink {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        RoomLink::new("https://Call.Example:7610/behind", "monday".parse().unwrap(), Settings::default(), &mut rng)
    }

    fn challenge() -> Challenge {
        let room = "monday".parse().unwrap();
        Challenge { nonce: Nonce([7; 16]), room, hosts: vec!["call.example".to_owned()] }
    }

    #[test]
    fn fault_21_a_proof_is_for_one_connection_one_room_one_server_and_what_was_asked_for() {
        let join = LiveMember::join(&link(), true, Nonce([7; 16]));
        assert_eq!(join.host, "call.example");
        assert_eq!(join.clone().checked(&challenge()).map(|proven| proven.0), Ok(join.clone()));
        // recorded, and sent again on another connection, or in another room
        for other in [
            Challenge { nonce: Nonce([8; 16]), ..challenge() },
            Challenge { room: "tuesday".parse().unwrap(), ..challenge() },
        ] {
            assert_eq!(join.clone().checked(&other), Err(Refusal::Proof));
        }
        // passed on to a server of another name, with or without that name in it
        let elsewhere = Challenge { hosts: vec!["evil.example".to_owned()], ..challenge() };
        let (found, expected) = ("call.example".to_owned(), "evil.example".to_owned());
        assert_eq!(join.clone().checked(&elsewhere), Err(Refusal::Host { found, expected }));
        let renamed = Join { host: "evil.example".to_owned(), ..join.clone() };
        assert_eq!(renamed.checked(&elsewhere), Err(Refusal::Proof));
        // with anything else changed
        for other in [
            Join { speak: false, ..join.clone() },
            Join { token: Some(Token([1; 16])), ..join.clone() },
            Join { settings: Settings { sending: Sending::Spurts, ..join.settings }, ..join.clone() },
            Join { key: RoomKey([9; 32]), ..join.clone() },
            Join { key: RoomKey([0; 32]), proof: Proof([0; 64]), ..join.clone() },
            Join { proof: Proof([9; 64]), ..join },
        ] {
            assert_eq!(other.checked(&challenge()), Err(Refusal::Proof));
        }
    }

    #[test]
    fn bytes_have_one_form_as_digits() {
        assert_eq!(digits(&[0x00, 0x9a, 0xff]), "009aff");
        assert_eq!(bytes::<3>("009aff"), Some([0x00, 0x9a, 0xff]));
        for wrong in ["009aff0", "009af", "009AFF", "009ag0", "", "é9aff"] {
            assert_eq!(bytes::<3>(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hosts_are_names_without_ports() {
        for (authority, host) in
            [("h", "h"), ("H.example.:443", "h.example"), ("[::1]", "[::1]"), ("127.0.0.1:1", "127.0.0.1")]
        {
            assert_eq!(host_of(authority).as_deref(), Some(host));
        }
        for wrong in ["", ":80", "ex ample", "é.example", "a/b", &"a".repeat(256)] {
            assert_eq!(host_of(wrong), None, "{wrong}");
        }
    }
}
