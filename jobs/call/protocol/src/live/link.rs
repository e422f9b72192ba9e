//! The link of a live room: its place, its settings, and its secret. The secret is in the fragment,
//! which no browser sends to a server.
//!
//! ```text
//! https://host[:port][/prefix]/call/ROOM#FRAGMENT
//! FRAGMENT  base64url without padding of: version 1, flags, speakers 2, secret 32
//!           [, mark of the host 16 [, token of the host 16]]
//! flags     1 mode elgamal-shared, 2 talk spurts, 4 lobby, 8 a host, 16 the host's own link,
//!           32 mode elgamal, 64 keys of a group
//! ```
//!
//! **The settings are in the link, not at the server.** Members get them from the sender of the
//! link, and every key depends on them. If a server lets a member join under other settings, the
//! first sum reveals it. The *mark* is a hash of the host's token. The server learns the mark when
//! the room is opened, and so recognizes the host by its token. The token is no key. The curve of
//! both modes of ElGamal is secp256k1.

use std::{fmt, str::FromStr};

use crate::mask::Width;
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use tobari_curve::wire::MAX_MEMBERS;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::messages::RoomName;

/// The first byte of a fragment.
const VERSION: u8 = 1;
/// Bytes of a host's token, and of its mark.
pub const TOKEN_BYTES: usize = 16;
const SHARED: u8 = 1;
const SPURTS: u8 = 2;
const LOBBY: u8 = 4;
const HOSTED: u8 = 8;
const HOSTS_OWN: u8 = 16;
const ELGAMAL: u8 = 32;
const GROUP: u8 = 64;
const FLAGS: u8 = SHARED | SPURTS | LOBBY | HOSTED | HOSTS_OWN | ELGAMAL | GROUP;

/// How samples are encrypted in a live room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveMode {
    /// A pseudorandom mask: [`crate::mask`].
    #[default]
    Mask,
    /// Lifted ElGamal with shared randomness on secp256k1: [`tobari_curve::elgamal`]. Ten times the
    /// bytes of `mask`.
    ElgamalShared,
    /// Lifted ElGamal on secp256k1, one ciphertext for each sample, as in the paper. Twice the
    /// bytes of `elgamal-shared`.
    Elgamal,
}

impl LiveMode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Mask, Self::ElgamalShared, Self::Elgamal];

    /// The name, in control messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mask => "mask",
            Self::ElgamalShared => "elgamal-shared",
            Self::Elgamal => "elgamal",
        }
    }

    /// The mode of that name; none if there is no such mode.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    fn flag(self) -> u8 {
        match self {
            Self::Mask => 0,
            Self::ElgamalShared => SHARED,
            Self::Elgamal => ELGAMAL,
        }
    }
}

/// When speakers send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sending {
    /// A packet every 20 ms, whether or not there is something to say. Times and lengths say
    /// nothing about who speaks.
    #[default]
    Constant,
    /// Packets only while there is something to hear. The server learns who speaks and when.
    Spurts,
}

/// The source of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// The link's secret alone. Anyone with the link has the keys of every epoch.
    #[default]
    Link,
    /// The link's secret, and a secret that the members agree on (MLS, `super::group`). Only the
    /// members of an epoch have its keys.
    Group,
}

impl Keys {
    /// The name, on the command line and in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Group => "mls",
        }
    }
}

/// The settings of a room, for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How samples are encrypted.
    pub mode: LiveMode,
    /// When speakers send.
    pub sending: Sending,
    /// The source of the keys.
    pub keys: Keys,
    /// Must new members wait until the host admits them? Then there must be a host.
    pub lobby: bool,
    /// How many members may speak at once, from 1 to [`MAX_MEMBERS`]. It determines the width of
    /// masks.
    pub speakers: u16,
    /// The mark of the host, if the room has one.
    pub host: Option<[u8; TOKEN_BYTES]>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: LiveMode::Mask,
            sending: Sending::Constant,
            keys: Keys::Link,
            lobby: false,
            speakers: 1024,
            host: None,
        }
    }
}

impl Settings {
    /// Are these settings possible?
    pub fn is_valid(&self) -> bool {
        (1..=MAX_MEMBERS).contains(&usize::from(self.speakers)) && (!self.lobby || self.host.is_some())
    }

    /// Bits of a mask, enough for the sum of all speakers.
    pub fn width(&self) -> Option<Width> {
        Width::for_senders(self.speakers.into())
    }

    fn flags(&self) -> u8 {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        self.mode.flag()
            | flag(self.sending == Sending::Spurts, SPURTS)
            | flag(self.keys == Keys::Group, GROUP)
            | flag(self.lobby, LOBBY)
            | flag(self.host.is_some(), HOSTED)
    }

    /// The bytes that keys are bound to.
    pub(super) fn to_bytes(self) -> [u8; 3 + TOKEN_BYTES] {
        let mut bytes = [0; 3 + TOKEN_BYTES];
        bytes[0] = self.flags();
        bytes[1..3].copy_from_slice(&self.speakers.to_be_bytes());
        bytes[3..].copy_from_slice(&self.host.unwrap_or_default());
        bytes
    }
}

/// The secret of a room, which everyone with its link holds. Zeroed on drop; neither printed nor
/// compared; exported in the link only.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct RoomSecret(pub(super) [u8; 32]);

impl RoomSecret {
    /// A new secret.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut secret = Self([0; 32]);
        rng.fill_bytes(&mut secret.0);
        secret
    }
}

/// The token by which the server recognizes the host. Zeroed on drop; neither printed nor compared.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct HostToken([u8; TOKEN_BYTES]);

impl HostToken {
    /// A new token.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut token = Self([0; TOKEN_BYTES]);
        rng.fill_bytes(&mut token.0);
        token
    }

    /// The bytes, for the server.
    pub fn expose_bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }

    /// The mark of the token, which the server and the members know.
    pub fn mark(&self) -> [u8; TOKEN_BYTES] {
        mark_of(&self.0)
    }
}

/// The mark of a token: the first 16 bytes of a hash.
pub(super) fn mark_of(token: &[u8; TOKEN_BYTES]) -> [u8; TOKEN_BYTES] {
    let digest = Sha256::new().chain_update(b"tobari call host\x01").chain_update(token).finalize();
    let mut mark = [0; TOKEN_BYTES];
    mark.copy_from_slice(&digest[..TOKEN_BYTES]);
    mark
}

/// A link: see the module.
///
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_call::live::{RoomLink, Settings};
/// let mut rng = ChaCha20Rng::from_seed([1; 32]); // a program takes its randomness from the system
/// let link = RoomLink::new("https://call.example", "monday".parse()?, Settings::default(), &mut rng);
/// let text = link.to_text();
/// assert!(text.starts_with("https://call.example/call/monday#"));
/// let again: RoomLink = text.parse()?;
/// assert_eq!(*again.to_text(), *text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RoomLink {
    /// The address of the server: scheme, host, and the path before `/call`.
    pub server: String,
    /// The room.
    pub room: RoomName,
    /// The settings of the room.
    pub settings: Settings,
    /// The secret of the room.
    pub secret: RoomSecret,
    /// The host's token, in the host's own link.
    pub host: Option<HostToken>,
}

impl RoomLink {
    /// A link to a new room. If the settings ask for a host, the mark in them is replaced by that
    /// of a new token, and this is the host's link.
    pub fn new(server: &str, room: RoomName, settings: Settings, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let secret = RoomSecret::random(rng);
        let host = settings.host.map(|_| HostToken::random(rng));
        let settings = Settings { host: host.as_ref().map(HostToken::mark), ..settings };
        Self { server: server.trim_end_matches('/').to_owned(), room, settings, secret, host }
    }

    /// The host that the link names, without its port; empty if it names none.
    pub(super) fn host_name(&self) -> String {
        let after_scheme = self.server.split_once("://").map_or(self.server.as_str(), |(_, rest)| rest);
        let authority = after_scheme.split('/').next().unwrap_or_default();
        super::host_of(authority).unwrap_or_default()
    }

    /// The link for the other members, without the host's token.
    pub fn for_members(&self) -> Self {
        Self { host: None, ..self.clone() }
    }

    /// The link as text. It holds the secret: anyone who reads it can hear the room.
    pub fn to_text(&self) -> Zeroizing<String> {
        let settings = &self.settings;
        let mut bytes = Zeroizing::new(Vec::with_capacity(72)); // never grows, so no copy is left behind
        bytes.push(VERSION);
        bytes.push(settings.flags() | if self.host.is_some() { HOSTS_OWN } else { 0 });
        bytes.extend_from_slice(&settings.speakers.to_be_bytes());
        bytes.extend_from_slice(&self.secret.0);
        bytes.extend_from_slice(settings.host.as_ref().map_or(&[][..], |mark| mark));
        bytes.extend_from_slice(self.host.as_ref().map_or(&[][..], |token| &token.0));
        let mut text = Zeroizing::new(String::with_capacity(self.server.len() + 200));
        text.push_str(&self.server);
        text.push_str("/call/");
        text.push_str(self.room.as_str());
        text.push('#');
        encode(&bytes, &mut text);
        text
    }
}

/// A text that is not the link of a room. The error does not repeat the text: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Nothing after a `#`.
    #[error("link of a call: expected the room's secret after a #, found none")]
    NoSecret,
    /// No `/call/ROOM`.
    #[error("link of a call: expected an address that ends in /call/ROOM, found another")]
    Address,
    /// An invalid fragment.
    #[error("link of a call: expected what `tobari call link` writes after the #, found something else")]
    Fragment,
    /// A fragment of a later version.
    #[error("link of a call: expected version {VERSION}, found {0}")]
    Version(u8),
}

impl FromStr for RoomLink {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let (address, fragment) = text.split_once('#').ok_or(LinkError::NoSecret)?;
        let (server, room) = address.rsplit_once("/call/").ok_or(LinkError::Address)?;
        let room: RoomName = room.parse().map_err(|_| LinkError::Address)?;
        if server.is_empty() || fragment.is_empty() {
            return Err(if server.is_empty() { LinkError::Address } else { LinkError::NoSecret });
        }
        let bytes = decode(fragment).ok_or(LinkError::Fragment)?;
        let (settings, secret, host) = read(&bytes)?;
        Ok(Self { server: server.to_owned(), room, settings, secret, host })
    }
}

fn read(bytes: &[u8]) -> Result<(Settings, RoomSecret, Option<HostToken>), LinkError> {
    let (&[version, flags, high, low], rest) = bytes.split_first_chunk().ok_or(LinkError::Fragment)?;
    if version != VERSION {
        return Err(LinkError::Version(version));
    }
    let has = |flag: u8| flags & flag != 0;
    if flags & !FLAGS != 0 || has(HOSTS_OWN) && !has(HOSTED) {
        return Err(LinkError::Fragment);
    }
    let modes = flags & (SHARED | ELGAMAL);
    let mode = LiveMode::ALL.into_iter().find(|mode| mode.flag() == modes).ok_or(LinkError::Fragment)?;
    let (secret, mut rest) = rest.split_first_chunk::<32>().ok_or(LinkError::Fragment)?;
    let mut field = |is: bool| -> Result<Option<[u8; TOKEN_BYTES]>, LinkError> {
        if !is {
            return Ok(None);
        }
        let (field, left) = rest.split_first_chunk().ok_or(LinkError::Fragment)?;
        rest = left;
        Ok(Some(*field))
    };
    let (mark, token) = (field(has(HOSTED))?, field(has(HOSTS_OWN))?.map(HostToken));
    let settings = Settings {
        mode,
        sending: if has(SPURTS) { Sending::Spurts } else { Sending::Constant },
        keys: if has(GROUP) { Keys::Group } else { Keys::Link },
        lobby: has(LOBBY),
        speakers: u16::from_be_bytes([high, low]),
        host: mark,
    };
    let is_its_mark = token.as_ref().is_none_or(|token| mark == Some(token.mark()));
    if !rest.is_empty() || !settings.is_valid() || !is_its_mark {
        return Err(LinkError::Fragment);
    }
    Ok((settings, RoomSecret(*secret), token))
}

/// The alphabet of RFC 4648, section 5.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn encode(bytes: &[u8], text: &mut String) {
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
}

/// None unless [`encode`] would write this text.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() > 128 || text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(100));
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for letter in chunk {
            let value = ALPHABET.iter().position(|other| other == letter)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bits <<= 6 * (4 - chunk.len());
        let [_, three @ ..] = bits.to_be_bytes();
        let (kept, rest) = three.split_at(chunk.len() - 1);
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

impl fmt::Display for LiveMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that reads as a link is written with the same fragment.
pub(super) fn fuzz(text: &str) {
    if let Ok(link) = text.parse::<RoomLink>() {
        let written = link.to_text();
        let fragment = |text: &str| text.split_once('#').map(|(_, fragment)| fragment.to_owned());
        assert_eq!(fragment(&written), fragment(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    fn all_settings() -> Vec<Settings> {
        let mut all = Vec::new();
        for (mode, bits) in LiveMode::ALL.into_iter().flat_map(|mode| (0..16u16).map(move |bits| (mode, bits))) {
            let is = |bit: u16| bits >> bit & 1 == 1;
            all.push(Settings {
                mode,
                sending: if is(0) { Sending::Spurts } else { Sending::Constant },
                keys: if is(3) { Keys::Group } else { Keys::Link },
                lobby: is(1),
                speakers: [1, 2, 1024, 4096][usize::from(bits % 4)],
                host: (is(2) || is(1)).then_some([0; 16]),
            });
        }
        all
    }

    #[test]
    fn links_come_back_with_all_that_is_in_them() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for settings in all_settings() {
            let link = RoomLink::new("http://[::1]:7610/behind/", "a-1".parse().unwrap(), settings, &mut rng);
            for link in [link.clone(), link.for_members()] {
                let text = link.to_text();
                let again: RoomLink = text.parse().unwrap();
                assert_eq!((again.server.as_str(), again.room.as_str()), ("http://[::1]:7610/behind", "a-1"));
                assert_eq!(again.settings, link.settings);
                assert!(again.secret.0 == link.secret.0 && again.host.is_some() == link.host.is_some());
                assert_eq!(*again.to_text(), *text);
            }
        }
    }

    #[test]
    fn anything_else_is_not_a_link() {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let hosted = Settings { host: Some([0; 16]), ..Settings::default() };
        let text = RoomLink::new("http://h", "r".parse().unwrap(), hosted, &mut rng).to_text();
        let start = text.find('#').unwrap() + 1;
        for length in 0..text.len() {
            assert!(text[..length].parse::<RoomLink>().is_err(), "{length}");
        }
        for place in 0..3 {
            for letter in ["B", "/", "é", "="] {
                let other = format!("{}{letter}{}", &text[..start + place], &text[start + place + 1..]);
                assert!(other == *text || other.parse::<RoomLink>().is_err(), "{place} {letter}");
            }
        }
        assert!(format!("{}A", *text).parse::<RoomLink>().is_err());
        assert_eq!("http://h/call/r".parse::<RoomLink>().err(), Some(LinkError::NoSecret));
        assert_eq!("http://h/r#AAAA".parse::<RoomLink>().err(), Some(LinkError::Address));
    }

    #[test]
    fn a_link_of_no_speaker_or_of_a_lobby_without_a_host_is_none() {
        let bytes = |flags: u8, speakers: u16| {
            let mut bytes = vec![1, flags];
            bytes.extend_from_slice(&speakers.to_be_bytes());
            bytes.extend_from_slice(&[7; 32]);
            bytes
        };
        assert!(read(&bytes(0, 1024)).is_ok());
        for (flags, speakers) in [(0, 0), (0, 4097), (LOBBY, 4), (128, 4), (HOSTS_OWN, 4), (SHARED | ELGAMAL, 4)] {
            assert!(read(&bytes(flags, speakers)).is_err(), "{flags} {speakers}");
        }
    }
}
