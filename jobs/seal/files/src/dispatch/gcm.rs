//! AES-256-GCM by `ring`: the same bytes as the portable implementation, but faster.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use tobari_seal::{Gcm, PortableGcm};

/// `ring`'s AES-256-GCM. The caller provides each nonce, together with its chunk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingGcm;

fn key(bytes: &[u8; 32]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, bytes).ok().map(LessSafeKey::new)
}

impl Gcm for RingGcm {
    fn seal(&self, bytes: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8]) -> [u8; 16] {
        let ring = key(bytes).and_then(|key| {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            key.seal_in_place_separate_tag(nonce, Aad::from(data), text).ok()?.as_ref().try_into().ok()
        });
        // `ring` rejects lengths beyond 64 GiB before it changes the text. The portable
        // implementation rejects them, too.
        ring.unwrap_or_else(|| PortableGcm.seal(bytes, nonce, data, text))
    }

    fn open(&self, bytes: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
        let Some(key) = key(bytes) else { return false };
        let nonce = Nonce::assume_unique_for_key(*nonce);
        key.open_in_place_separate_tag(nonce, Aad::from(data), Tag::from(*tag), text, 0..).is_ok()
    }
}
