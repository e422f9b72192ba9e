//! The bodies of timing tests.

use crate::device::write;
use crate::frame::{DeviceNumber, Head, NONCE, READINGS, Stamp};
use crate::profile::{Profile, sealed::Stamped};
use crate::schedule::{Keys, Root, head_of, small};
use core::hint::black_box;
use zeroize::Zeroizing;

/// All steps of a device with its secrets: keys of a root, nonce and noise of readings, and a body.
/// The body is made with `nonce`, and thrown away: a real nonce follows from the readings, and the
/// public half that is drawn from it takes a time of its own. So two calls differ in secrets only.
#[doc(hidden)]
pub fn time_a_frame<P: Profile>(root: &Root, readings: &[u8; READINGS], nonce: &[u8; NONCE]) {
    let Some(device) = DeviceNumber::new(0) else { return };
    let keys = Keys::<P>::new(root);
    let head = head_of::<P>(Head { device, counter: 0, stamp: P::Stamp::from(Stamp::default()).stamp() });
    let head = &head[..P::HEAD];
    let (synthetic, mut stream) = keys.synthetic(0, head, readings);
    black_box(synthetic);
    let mut noise = Zeroizing::new([0; READINGS]);
    small::<P>(&mut stream, &mut noise);
    let mut frame = P::EMPTY;
    black_box(write(&keys, head, nonce, readings, &noise, frame.as_mut()));
    black_box(frame.as_ref());
}
