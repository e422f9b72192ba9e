//! A session's offer to join the group: a key package, sealed under a key of the link.

use aes_gcm::{
    Aes256Gcm, Nonce, Tag,
    aead::{AeadInOut, KeyInit, inout::InOutBuf},
};
use tobari_curve::wire::RoomId;

use super::{
    super::keys::{RoomKeys, SessionId},
    messages::{MAX_PACKAGE, OFFER, OFFER_HEAD, TAG, head, offer_head},
};

/// The offer of a session's key package; none if the package is empty or too long.
pub(super) fn seal(keys: &RoomKeys, room: RoomId, session: SessionId, package: &[u8]) -> Option<Vec<u8>> {
    if package.is_empty() || package.len() > MAX_PACKAGE {
        return None;
    }
    let mut offer = head(OFFER, room);
    offer.extend_from_slice(&session.0);
    let mut text = package.to_vec();
    let cipher = Aes256Gcm::new(&(*keys.offer(session)).into());
    let sealed = cipher.encrypt_inout_detached(&Nonce::default(), &offer, InOutBuf::from(&mut text[..]));
    let tag: [u8; TAG] = sealed.ok()?.into();
    offer.extend_from_slice(&text);
    offer.extend_from_slice(&tag);
    Some(offer)
}

/// The key package in an offer of this session; none if the offer was not sealed with the link for
/// it.
pub(super) fn open(keys: &RoomKeys, room: RoomId, session: SessionId, offer: &[u8]) -> Option<Vec<u8>> {
    if offer_head(offer)? != (room, session) {
        return None;
    }
    let (clear, rest) = offer.split_at(OFFER_HEAD);
    let (sealed, tag) = rest.split_last_chunk::<TAG>()?;
    let mut text = sealed.to_vec();
    let cipher = Aes256Gcm::new(&(*keys.offer(session)).into());
    let buffer = InOutBuf::from(&mut text[..]);
    cipher.decrypt_inout_detached(&Nonce::default(), clear, buffer, &Tag::from(*tag)).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::super::link::{RoomLink, Settings};
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    const ROOM: RoomId = RoomId([3; 8]);
    const SESSION: SessionId = SessionId([5; 16]);

    fn keys(seed: u8) -> RoomKeys {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        RoomKeys::new(&RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng))
    }

    #[test]
    fn an_offer_opens_for_who_has_the_link_and_as_what_it_is() {
        let keys = keys(1);
        let offer = seal(&keys, ROOM, SESSION, b"a key package").unwrap();
        assert_eq!(open(&keys, ROOM, SESSION, &offer).unwrap(), b"a key package");
        for place in 0..offer.len() {
            let mut other = offer.clone();
            other[place] ^= 1;
            assert!(open(&keys, ROOM, SESSION, &other).is_none(), "{place}");
        }
        assert!(open(&self::keys(2), ROOM, SESSION, &offer).is_none());
        assert!(open(&keys, RoomId([4; 8]), SESSION, &offer).is_none());
        assert!(open(&keys, ROOM, SessionId([6; 16]), &offer).is_none());
        assert!(!offer.windows(3).any(|bytes| bytes == b"key"));
        assert!(seal(&keys, ROOM, SESSION, &[0; MAX_PACKAGE]).is_some());
        assert!(seal(&keys, ROOM, SESSION, &[0; MAX_PACKAGE + 1]).is_none());
        assert!(seal(&keys, ROOM, SESSION, b"").is_none());
    }
}
