//! The body of a fuzz target.

use crate::frame::Refused;
use crate::gcm::GcmOpener;
use crate::holder::Opener;
use crate::ingest::MacKey;
use crate::profile::{P1, P17, Profile, U25, U28};
use crate::schedule::{Keys, Root};
use hmac::Mac;

/// Any bytes, as a frame under a known key, are rejected, or their body decodes and encodes to the
/// same bytes. Tried once unchanged, and once with the right MAC.
#[doc(hidden)]
pub fn fuzz_frames(bytes: &[u8]) {
    let root = Root::from_bytes([1; 32]);
    one::<P1>(&root, bytes);
    one::<U25>(&root, bytes);
    one::<P17>(&root, bytes);
    one::<U28>(&root, bytes);
    let _ = GcmOpener::new(&root).open(bytes);
}

fn one<P: Profile>(root: &Root, bytes: &[u8]) {
    let key = MacKey::<P>::from_bytes(&root.mac_key::<P>());
    let mut frame = P::EMPTY;
    let frame = frame.as_mut();
    if bytes.len() != frame.len() {
        assert!(matches!(key.open(bytes), Err(Refused::Length { .. })));
        return;
    }
    let _ = key.open(bytes);
    frame.copy_from_slice(bytes);
    let (signed, mac) = frame.split_at_mut(P::FRAME - crate::MAC);
    let tag = Keys::<P>::new(root).mac().clone().chain_update(&*signed).finalize().into_bytes();
    mac.copy_from_slice(&tag[..crate::MAC]);
    let Ok(envelope) = key.open(frame) else { return };
    let mut again = P::EMPTY;
    let body = &mut again.as_mut()[..P::BODY];
    assert!(P::pack(envelope.body(), body) && *body == frame[P::HEAD + crate::NONCE..][..P::BODY]);
    let _ = Opener::<P>::new(root).open(&envelope);
}
