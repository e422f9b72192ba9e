//! The tree of keys of a live room: HKDF with SHA-256 (RFC 5869) from the room's secret.
//!
//! ```text
//! room      = Extract("tobari call/2", secret of the link)
//! sign      = Ed25519 key with the seed Expand(room, "sign" ‖ place): members prove with it that
//!             they have the link; the server has its public half
//! hello_sid = Expand(room, "hello" ‖ place ‖ sid)        key of the name in a session's hello
//! note_sid  = Expand(room, "note" ‖ place ‖ sid)         key of a session's notes to the members
//! offer_sid = Expand(room, "offer" ‖ place ‖ sid)        key of a session's key package, if the
//!                                                        members agree on keys
//! room_e    = room; if the members agree on keys, Extract(room, secret of the group)
//! E_e       = Expand(room_e, "epoch" ‖ place ‖ e ‖ digest of the roster of e)
//! k_u       = Expand(E_e, "mask" ‖ place ‖ u ‖ sid_u)    key of a session's masks, 32 bytes
//! b_u       = Expand(E_e, "tag" ‖ place ‖ u ‖ sid_u)     key that hides a session's tags
//! α         = Expand(E_e, "sum" ‖ place)                 coefficients of the tags of all sessions
//! s         = Expand(E_e, "points" ‖ place)              secret of the modes with ElGamal:
//!             elgamal-shared expands it to one key for each place of a packet; elgamal has only
//!             the first of these keys (settings include the mode, so s differs between modes)
//! place     = settings of the link (19 bytes) ‖ length and name of the room
//! ```
//!
//! **A session** is 128 random bits. A client draws them whenever it begins to speak or to listen.
//! The session is part of every key that encrypts the client's messages, so neither a reused number
//! nor a reconnection repeats a key. **An epoch** has the keys of its roster: they depend on its
//! members, their numbers and sessions, and its first tick. So members who were given different
//! rosters have different keys, and cannot decrypt each other's packets. The sessions of all
//! listeners are in the roster too. So nothing that was recorded before a member joined can be
//! played to that member.

use crate::mask::{EpochKey, SessionKey};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use ed25519_dalek::{SigningKey, VerifyingKey};
use hkdf::Hkdf;
use sha2::Sha256;
use tobari_curve::{
    elgamal::{EpochSecret, SecretKey},
    params::Parameters,
};
use zeroize::Zeroizing;

use super::link::{RoomLink, RoomSecret, Settings};
use crate::messages::RoomName;

const SALT: &[u8] = b"tobari call/2";

/// A session: 16 bytes that its client drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

/// The keys of a room.
#[derive(Clone)]
pub(super) struct RoomKeys {
    room: Zeroizing<[u8; 32]>,
    place: Vec<u8>,
    verifying: VerifyingKey,
}

impl RoomKeys {
    pub(super) fn new(link: &RoomLink) -> Self {
        Self::of(&link.secret, &link.room, &link.settings)
    }

    fn of(secret: &RoomSecret, room: &RoomName, settings: &Settings) -> Self {
        let mut place = settings.to_bytes().to_vec();
        // a name has at most 64 bytes
        place.push(room.as_str().len() as u8);
        place.extend_from_slice(room.as_str().as_bytes());
        let (extracted, _) = Hkdf::<Sha256>::extract(Some(SALT), &secret.0);
        let room = Zeroizing::new(extracted.into());
        let verifying = SigningKey::from_bytes(&expand(&room, &[b"sign", &place])).verifying_key();
        Self { room, place, verifying }
    }

    /// The key with which members sign, for the server and for one another. It reveals nothing
    /// about any other key.
    pub(super) fn signing(&self) -> SigningKey {
        SigningKey::from_bytes(&expand(&self.room, &[b"sign", &self.place]))
    }

    /// The key that checks these signatures.
    pub(super) fn verifying(&self) -> VerifyingKey {
        self.verifying
    }

    /// The key of the name in a session's hello.
    pub(super) fn hello(&self, session: SessionId) -> Zeroizing<[u8; 32]> {
        expand(&self.room, &[b"hello", &self.place, &session.0])
    }

    /// The key of a session's notes to the members.
    pub(super) fn note(&self, session: SessionId) -> Zeroizing<[u8; 32]> {
        expand(&self.room, &[b"note", &self.place, &session.0])
    }

    /// The key of a session's offer to the group.
    #[cfg(any(feature = "mls", test))]
    pub(super) fn offer(&self, session: SessionId) -> Zeroizing<[u8; 32]> {
        expand(&self.room, &[b"offer", &self.place, &session.0])
    }

    /// The keys of an epoch. If the members agree on keys, the keys depend on the secret of their
    /// group too.
    pub(super) fn epoch(&self, epoch: u32, roster: &[u8; 32], group: Option<&[u8; 32]>) -> EpochKeys {
        let room = match group {
            None => self.room.clone(),
            Some(secret) => {
                let (extracted, _) = Hkdf::<Sha256>::extract(Some(&*self.room), secret);
                Zeroizing::new(extracted.into())
            }
        };
        let secret = expand(&room, &[b"epoch", &self.place, &epoch.to_be_bytes(), roster]);
        EpochKeys { secret, place: self.place.clone() }
    }
}

/// The keys of an epoch.
pub(super) struct EpochKeys {
    secret: Zeroizing<[u8; 32]>,
    place: Vec<u8>,
}

impl EpochKeys {
    pub(super) fn session(&self, member: u16, session: SessionId) -> SessionKey {
        let key = |name: &[u8]| expand(&self.secret, &[name, &self.place, &member.to_be_bytes(), &session.0]);
        SessionKey::from_bytes(&key(b"mask"), &key(b"tag"))
    }

    pub(super) fn coefficients(&self) -> EpochKey {
        EpochKey::from_bytes(&expand(&self.secret, &[b"sum", &self.place]))
    }

    pub(super) fn points(&self, parameters: Parameters) -> EpochSecret {
        EpochSecret::from_seed(parameters, self.points_seed())
    }

    /// The key of mode `elgamal`.
    pub(super) fn secret_key(&self, parameters: Parameters) -> SecretKey {
        SecretKey::generate(parameters, &mut ChaCha20Rng::from_seed(*self.points_seed()))
    }

    fn points_seed(&self) -> Zeroizing<[u8; 32]> {
        expand(&self.secret, &[b"points", &self.place])
    }
}

/// `Expand(key, parts)`, 32 bytes. Every part without a fixed length states its length.
fn expand(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut out = Zeroizing::new([0; 32]);
    // HKDF-SHA256 takes keys of 32 bytes and gives up to 8,160.
    if let Ok(hkdf) = Hkdf::<Sha256>::from_prk(key) {
        let _ = hkdf.expand_multi_info(parts, out.as_mut());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::link::{Keys, LiveMode, Sending};
    use super::*;

    fn secret(byte: u8) -> RoomSecret {
        RoomSecret([byte; 32])
    }

    fn keys(byte: u8, room: &str, settings: Settings) -> RoomKeys {
        RoomKeys::of(&secret(byte), &room.parse().unwrap(), &settings)
    }

    #[test]
    fn every_key_depends_on_secret_room_settings_epoch_roster_number_and_session() {
        let usual = Settings::default();
        let mut found = Vec::new();
        let mut add = |keys: &RoomKeys, epoch: u32, roster: u8, member: u16, session: u8| {
            let session = SessionId([session; 16]);
            for group in [None, Some([1; 32]), Some([2; 32])] {
                let epoch = keys.epoch(epoch, &[roster; 32], group.as_ref());
                let parts =
                    |name: &[u8]| *expand(&epoch.secret, &[name, &epoch.place, &member.to_be_bytes(), &session.0]);
                found.extend([parts(b"mask"), parts(b"tag"), *epoch.secret]);
            }
            found.extend([*keys.note(session), *keys.offer(session), *keys.hello(session)]);
        };
        let base = keys(1, "a", usual);
        add(&base, 1, 1, 1, 1);
        add(&keys(2, "a", usual), 1, 1, 1, 2);
        add(&keys(1, "b", usual), 1, 1, 1, 3);
        add(&keys(1, "a", Settings { mode: LiveMode::ElgamalShared, ..usual }), 1, 1, 1, 4);
        add(&keys(1, "a", Settings { mode: LiveMode::Elgamal, ..usual }), 1, 1, 1, 11);
        add(&keys(1, "a", Settings { sending: Sending::Spurts, ..usual }), 1, 1, 1, 5);
        add(&keys(1, "a", Settings { speakers: 7, ..usual }), 1, 1, 1, 6);
        add(&keys(1, "a", Settings { host: Some([1; 16]), ..usual }), 1, 1, 1, 7);
        add(&keys(1, "a", Settings { keys: Keys::Group, ..usual }), 1, 1, 1, 12);
        add(&base, 2, 1, 1, 8);
        add(&base, 1, 2, 1, 9);
        add(&base, 1, 3, 2, 10);
        let distinct: std::collections::HashSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), found.len());
        assert!(base.verifying() == base.signing().verifying_key());
        assert!(base.verifying() != keys(1, "b", usual).verifying());
        // the number and the session alone
        let epoch = base.epoch(1, &[1; 32], None);
        let mask = |member: u16, session: u8| {
            *expand(&epoch.secret, &[b"mask", &epoch.place, &member.to_be_bytes(), &[session; 16]])
        };
        assert!(mask(1, 1) != mask(2, 1) && mask(1, 1) != mask(1, 2));
    }

    #[test]
    fn keys_are_what_they_always_were() {
        // Computed by Python's hmac and hashlib from the formulas of this module's head.
        let keys = keys(7, "monday", Settings::default());
        use tobari_octets::hex;
        assert_eq!(hex(&*keys.note(SessionId([9; 16]))), NOTE);
        let epoch = keys.epoch(3, &[5; 32], None);
        let mask = expand(&epoch.secret, &[b"mask", &epoch.place, &300u16.to_be_bytes(), &[9; 16]]);
        assert_eq!(hex(&*mask), MASK);
        assert_eq!(hex(&*keys.offer(SessionId([9; 16]))), OFFER);
        assert_eq!(hex(&*keys.epoch(3, &[5; 32], Some(&[6; 32])).secret), OF_A_GROUP);
    }

    const NOTE: &str = "07eef3720eb4681d9d73c19c3905b8ef1eb9f47ec2a851df7c62c36bec77e414";
    const OFFER: &str = "1879563a7d3a3eadd4d95448f69c0f2d60a3d57d5b0f9794f90a9713658d15a9";
    const OF_A_GROUP: &str = "d88963e2afe8ff82e483d65322169f130083a79be0f83959d228ef2cfc8bfed9";
    const MASK: &str = "5f0c04751944fe8116fa5efa1d08be87ff78f430b517b07c6aeac806229da120";
}
