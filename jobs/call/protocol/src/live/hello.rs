//! Hellos: how a session introduces itself to a room (kind 24 of the wire).
//!
//! ```text
//! hello     = version 1, kind 1, room 8, member 2, session 16, speaks 1, sealed 81, signature 64
//! sealed    = AES-256-GCM(hello_sid, nonce 0, the fields before it,
//!             length of the name 1 ‖ name, padded with zeros to 64)
//! signature = Ed25519(sign, "tobari call hello" 1 ‖ the fields before it)
//! ```
//!
//! Everything that keys depend on is unencrypted and signed with the key of the link
//! (`super::keys`). The server has the public half of that key. So an honest server rejects every
//! hello that a member would reject, before the hello is on any roster. Only the name is encrypted.
//! A name that does not decrypt is unknown, and harms no member.
//!
//! Signatures are checked one by one and strictly, as [`VerifyingKey::verify_strict`] does. Batch
//! verification would be twice as fast, but accepts some crafted signatures at one time and not at
//! another. Members who disagree about one signature derive different keys.

use aes_gcm::{
    Aes256Gcm, Nonce, Tag,
    aead::{AeadInOut, KeyInit, inout::InOutBuf},
};
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use tobari_curve::wire::{MAX_MEMBERS, RoomId, VERSION};
use zeroize::Zeroizing;

use super::{
    keys::{RoomKeys, SessionId},
    notes::{Hello, MAX_NAME, is_name},
};

/// The kind of a hello on the wire.
pub(super) const KIND: u8 = 0x24;
const DOMAIN: &[u8] = b"tobari call hello\x01";
const CLEAR: usize = 2 + 8 + 2 + 16 + 1;
const TEXT: usize = 1 + MAX_NAME;
const TAG: usize = 16;
const SIGNED: usize = CLEAR + TEXT + TAG;
/// Bytes of a hello.
pub const HELLO_BYTES: usize = SIGNED + 64;

/// The unencrypted head of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HelloHead {
    pub(super) room: RoomId,
    pub(super) member: u16,
    pub(super) session: SessionId,
    pub(super) speaks: bool,
}

/// Do these bytes begin as a hello does?
pub fn is_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [VERSION, KIND, ..])
}

/// The hello of a session; none if the name is too long.
pub(super) fn write(keys: &RoomKeys, room: RoomId, session: SessionId, hello: &Hello) -> Option<Vec<u8>> {
    let name = hello.name.as_bytes();
    let mut out = Vec::with_capacity(HELLO_BYTES);
    out.extend_from_slice(&[VERSION, KIND]);
    out.extend_from_slice(&room.0);
    out.extend_from_slice(&hello.member.to_be_bytes());
    out.extend_from_slice(&session.0);
    out.push(hello.speaks.into());
    let mut text = Zeroizing::new([0; TEXT]);
    text[0] = u8::try_from(name.len()).ok()?;
    text.get_mut(1..1 + name.len())?.copy_from_slice(name);
    let cipher = Aes256Gcm::new(&(*keys.hello(session)).into());
    let sealed = cipher.encrypt_inout_detached(&Nonce::default(), &out, InOutBuf::from(&mut text[..]));
    let tag: [u8; TAG] = sealed.ok()?.into();
    out.extend_from_slice(&text[..]);
    out.extend_from_slice(&tag);
    let signature = keys.signing().sign(&[DOMAIN, &out].concat());
    out.extend_from_slice(&signature.to_bytes());
    Some(out)
}

/// None unless these bytes have the form of a hello.
pub(super) fn head_of(bytes: &[u8]) -> Option<HelloHead> {
    if bytes.len() != HELLO_BYTES || !is_hello(bytes) || bytes[CLEAR - 1] > 1 {
        return None;
    }
    let (mut room, mut session) = (RoomId([0; 8]), SessionId([0; 16]));
    room.0.copy_from_slice(&bytes[2..10]);
    session.0.copy_from_slice(&bytes[12..28]);
    let member = u16::from_be_bytes([bytes[10], bytes[11]]);
    let head = HelloHead { room, member, session, speaks: bytes[CLEAR - 1] == 1 };
    (usize::from(member) < MAX_MEMBERS).then_some(head)
}

/// The head of a hello whose signature is valid for this room and this number. The result depends
/// on the bytes and the key alone, so all members get the same result.
pub(super) fn verified(key: &VerifyingKey, room: RoomId, member: u16, bytes: &[u8]) -> Option<HelloHead> {
    let head = head_of(bytes).filter(|head| head.room == room && head.member == member)?;
    let (signed, signature) = bytes.split_last_chunk::<64>()?;
    let signed = [DOMAIN, signed].concat();
    key.verify_strict(&signed, &Signature::from_bytes(signature)).ok().map(|()| head)
}

/// The name in a hello; none if it was not encrypted under the secret of the link, or is not a
/// valid name.
pub(super) fn name_of(keys: &RoomKeys, bytes: &[u8]) -> Option<String> {
    let head = head_of(bytes)?;
    let (clear, rest) = bytes.split_at(CLEAR);
    let (sealed, rest) = rest.split_at(TEXT);
    let (tag, _) = rest.split_first_chunk::<TAG>()?;
    let mut text = Zeroizing::new([0; TEXT]);
    text.copy_from_slice(sealed);
    let cipher = Aes256Gcm::new(&(*keys.hello(head.session)).into());
    cipher.decrypt_inout_detached(&Nonce::default(), clear, InOutBuf::from(&mut text[..]), &Tag::from(*tag)).ok()?;
    let (name, filling) = text[1..].split_at_checked(text[0].into())?;
    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
    filling.iter().all(|byte| *byte == 0).then(|| name.to_owned())
}

/// Bytes that read as a hello have its parts at their places.
pub(super) fn fuzz(data: &[u8]) {
    if let Some(head) = head_of(data) {
        assert_eq!((&data[2..10], &data[12..28]), (&head.room.0[..], &head.session.0[..]));
        assert_eq!((&data[10..12], data[28]), (&head.member.to_be_bytes()[..], head.speaks.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{RoomLink, Settings};
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    const ROOM: RoomId = RoomId([3; 8]);
    const SESSION: SessionId = SessionId([5; 16]);

    fn keys(seed: u8) -> RoomKeys {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        RoomKeys::new(&RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng))
    }

    fn hello(name: &str) -> Hello {
        Hello { member: 7, speaks: true, name: name.to_owned() }
    }

    #[test]
    fn a_hello_says_who_it_is_to_everybody_and_its_name_to_members() {
        let keys = keys(1);
        for name in ["", "Zoë", &"é".repeat(32)] {
            let bytes = write(&keys, ROOM, SESSION, &hello(name)).unwrap();
            let head = HelloHead { room: ROOM, member: 7, session: SESSION, speaks: true };
            assert_eq!((bytes.len(), verified(&keys.verifying(), ROOM, 7, &bytes)), (HELLO_BYTES, Some(head)));
            assert_eq!(name_of(&keys, &bytes).as_deref(), Some(name));
            assert!(name_of(&self::keys(2), &bytes).is_none());
        }
        assert!(write(&keys, ROOM, SESSION, &hello(&"a".repeat(65))).is_none());
    }

    #[test]
    fn every_changed_byte_another_room_another_number_and_another_secret_are_refused() {
        let keys = keys(1);
        let bytes = write(&keys, ROOM, SESSION, &hello("Ada")).unwrap();
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            assert!(verified(&keys.verifying(), ROOM, 7, &other).is_none(), "{place}");
        }
        assert!(verified(&keys.verifying(), RoomId([4; 8]), 7, &bytes).is_none());
        assert!(verified(&keys.verifying(), ROOM, 8, &bytes).is_none());
        assert!(verified(&self::keys(2).verifying(), ROOM, 7, &bytes).is_none());
        (0..bytes.len()).for_each(|length| assert!(head_of(&bytes[..length]).is_none()));
    }

    #[test]
    fn a_name_that_was_not_sealed_is_unknown_and_the_hello_holds() {
        let keys = keys(1);
        let mut bytes = write(&keys, ROOM, SESSION, &hello("Ada")).unwrap();
        bytes[40] ^= 1;
        let signature = keys.signing().sign(&[DOMAIN, &bytes[..SIGNED]].concat());
        bytes[SIGNED..].copy_from_slice(&signature.to_bytes());
        assert!(verified(&keys.verifying(), ROOM, 7, &bytes).is_some() && name_of(&keys, &bytes).is_none());
    }
}
