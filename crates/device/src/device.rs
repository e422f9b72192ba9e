//! Encryption of readings into frames.

use crate::counter::{CounterError, CounterStore, Counters};
use crate::frame::{DeviceNumber, Head, MAC, NONCE, READINGS};
use crate::profile::sealed::Stamped;
use crate::profile::{Profile, field};
use crate::schedule::{Keys, Root, head_of, product, small};
use hmac::Mac;
use zeroize::Zeroizing;

/// Why there is no frame.
pub type SealError<E> = CounterError<E>;

/// Makes frames under one key.
///
/// ```
/// use tobari_device::{CounterStore, Device, DeviceNumber, MacKey, Opener, P1, Profile, Root};
/// struct Flash(u32); // a sensor's own, durable
/// impl CounterStore for Flash {
///     type Error = core::convert::Infallible;
///     fn load(&mut self) -> Result<u32, Self::Error> { Ok(self.0) }
///     fn store(&mut self, next: u32) -> Result<(), Self::Error> { self.0 = next; Ok(()) }
/// }
/// let (root, number) = (Root::from_bytes([7; 32]), DeviceNumber::new(12).unwrap());
/// let mut device = Device::<P1, _>::open(&root, number, Flash(0))?;
/// let (readings, mut frame) = ([21; 256], P1::EMPTY);
/// device.seal(&readings, &mut frame)?;
/// assert_eq!(frame.len(), 553);
///
/// // ingest has the MAC key, the key holder the root
/// let envelope = MacKey::<P1>::from_bytes(&root.mac_key::<P1>()).open(&frame).unwrap();
/// assert_eq!(*Opener::<P1>::new(&root).open(&envelope).unwrap(), readings);
/// # Ok::<(), tobari_device::SealError<core::convert::Infallible>>(())
/// ```
pub struct Device<P: Profile, S> {
    keys: Keys<P>,
    number: DeviceNumber,
    counters: Counters<S>,
}

impl<P: Profile, S: CounterStore> Device<P, S> {
    /// A device with its key, the number of the key, and the storage of its counter.
    ///
    /// # Errors
    /// [`CounterError::Store`].
    pub fn open(root: &Root, number: DeviceNumber, store: S) -> Result<Self, SealError<S::Error>> {
        // first, so that the keys are made directly in the return value
        let counters = Counters::open(store)?;
        Ok(Self { keys: Keys::new(root), number, counters })
    }

    /// Encrypts readings into a frame of version 1.
    ///
    /// # Errors
    /// [`CounterError`]; the frame is then unchanged.
    pub fn seal(&mut self, readings: &[u8; READINGS], frame: &mut P::Frame) -> Result<(), SealError<S::Error>>
    where
        P: Profile<Stamp = ()>,
    {
        self.seal_at((), readings, frame)
    }

    /// Encrypts readings into a frame with this stamp. Code for all profiles passes
    /// `stamp.into()`, and version 1 leaves it out.
    ///
    /// # Errors
    /// As [`Self::seal`].
    pub fn seal_at(
        &mut self,
        stamp: P::Stamp,
        readings: &[u8; READINGS],
        frame: &mut P::Frame,
    ) -> Result<(), SealError<S::Error>> {
        let head = Head { device: self.number, counter: self.counters.take()?, stamp: stamp.stamp() };
        seal_under(&self.keys, &head_of::<P>(head)[..P::HEAD], readings, frame.as_mut());
        Ok(())
    }
}

/// Writes a frame under a new head.
fn seal_under<P: Profile>(keys: &Keys<P>, head: &[u8], readings: &[u8; READINGS], frame: &mut [u8]) {
    for attempt in 0..=u8::MAX {
        let (nonce, mut stream) = keys.synthetic(attempt, head, readings);
        let mut noise = Zeroizing::new([0; READINGS]);
        small::<P>(&mut stream, &mut noise);
        if write(keys, head, &nonce, readings, &noise, frame) {
            return;
        }
    }
}

/// Writes the frame; false if the body has no encoding.
pub(crate) fn write<P: Profile>(
    keys: &Keys<P>,
    head: &[u8],
    nonce: &[u8; NONCE],
    readings: &[u8; READINGS],
    noise: &[u32; READINGS],
    frame: &mut [u8],
) -> bool {
    let field = field::<P>();
    let mut b = product::<P>(&keys.secret, head, nonce);
    for ((b, reading), noise) in b.iter_mut().zip(readings).zip(noise) {
        // below 3q
        *b = field.once(field.once(*b + P::DELTA * u32::from(*reading) + noise));
    }
    let (signed, mac) = frame.split_at_mut(P::FRAME - MAC);
    signed[..P::HEAD].copy_from_slice(head);
    signed[P::HEAD..P::HEAD + NONCE].copy_from_slice(nonce);
    let good = P::pack(&b, &mut signed[P::HEAD + NONCE..]);
    let tag = keys.mac().clone().chain_update(&*signed).finalize().into_bytes();
    mac.copy_from_slice(&tag[..MAC]);
    good
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Stamp;
    use crate::holder::Opener;
    use crate::ingest::MacKey;
    use crate::profile::{P1, P17, U25, U28};
    use std::vec::Vec;

    fn first<P: Profile>() -> Head {
        let stamp = P::Stamp::from(Stamp::new(1_798_761_600, 3).unwrap()).stamp();
        Head { device: DeviceNumber::new(5).unwrap(), counter: 9, stamp }
    }

    fn frame<P: Profile>(keys: &Keys<P>, head: Head, readings: &[u8; READINGS]) -> P::Frame {
        let mut frame = P::EMPTY;
        seal_under(keys, &head_of::<P>(head)[..P::HEAD], readings, frame.as_mut());
        frame
    }

    fn body<P: Profile>(root: &Root, frame: &P::Frame) -> [u32; READINGS] {
        *MacKey::<P>::from_bytes(&root.mac_key::<P>()).open(frame.as_ref()).unwrap().body()
    }

    fn centred<P: Profile>(x: u32) -> i64 {
        let x = i64::from(x);
        if x > i64::from(P::MODULUS / 2) { x - i64::from(P::MODULUS) } else { x }
    }

    /// Encrypts two readings under one counter, as after storage was restored.
    fn restored<P: Profile>() {
        let root = Root::from_bytes([3; 32]);
        let keys = Keys::<P>::new(&root);
        let first: [u8; READINGS] = core::array::from_fn(|i| i as u8);
        let mut second = first;
        second[100] ^= 1;
        let frames = [&first, &second].map(|readings| frame(&keys, self::first::<P>(), readings));
        let nonces: Vec<&[u8]> = frames.iter().map(|frame| &frame.as_ref()[P::HEAD..P::HEAD + NONCE]).collect();
        assert_ne!(nonces[0], nonces[1], "one bit of a reading changes the nonce");
        assert_eq!(
            frame(&keys, self::first::<P>(), &first).as_ref(),
            frames[0].as_ref(),
            "the same reading, the same frame"
        );
        // differences of bodies reveal nothing: they are as wide as the modulus
        let [one, two] = frames.map(|frame| body::<P>(&root, &frame));
        let wide = one.iter().zip(&two).filter(|(a, b)| {
            centred::<P>((**a + P::MODULUS - **b) % P::MODULUS).unsigned_abs() > u64::from(P::MODULUS / 8)
        });
        assert!(wide.count() > 150);
    }

    #[test]
    fn two_readings_under_one_counter_have_different_nonces() {
        restored::<P1>();
        restored::<U25>();
        restored::<P17>();
        restored::<U28>();
    }

    /// The scheme that this crate avoids: the counter as nonce.
    fn leaked<P: Profile>() {
        let root = Root::from_bytes([4; 32]);
        let keys = Keys::<P>::new(&root);
        let first: [u8; READINGS] = core::array::from_fn(|i| (i * 7) as u8);
        let second: [u8; READINGS] = core::array::from_fn(|i| (i * 13 + 5) as u8);
        let head = &head_of::<P>(self::first::<P>())[..P::HEAD];
        let bodies = [&first, &second].map(|readings| {
            let mut nonce = [0; NONCE];
            nonce[..P::HEAD].copy_from_slice(head);
            let (_, mut stream) = keys.synthetic(0, head, readings);
            let (mut noise, mut frame) = ([0; READINGS], P::EMPTY);
            small::<P>(&mut stream, &mut noise);
            assert!(write(&keys, head, &nonce, readings, &noise, frame.as_mut()));
            body::<P>(&root, &frame)
        });
        for (place, (a, b)) in bodies[0].iter().zip(&bodies[1]).enumerate() {
            let difference = centred::<P>((a + P::MODULUS - b) % P::MODULUS);
            let delta = i64::from(P::DELTA);
            let readings = i64::from(first[place]) - i64::from(second[place]);
            // Δ(m1 - m2) + e1 - e2, modulo q
            let found = [difference, difference + i64::from(P::MODULUS), difference - i64::from(P::MODULUS)];
            assert!(found.iter().any(|x| (x - delta * readings).abs() <= 6), "{} at {place}", P::NAME);
        }
    }

    #[test]
    fn with_a_counter_as_nonce_the_difference_of_two_readings_is_read_off() {
        leaked::<P1>();
        leaked::<U25>();
        leaked::<P17>();
        leaked::<U28>();
    }

    fn distribution<P: Profile>() {
        let root = Root::from_bytes([9; 32]);
        let (keys, opener) = (Keys::<P>::new(&root), Opener::<P>::new(&root));
        let mac = MacKey::<P>::from_bytes(&root.mac_key::<P>());
        let mut counts = [0u32; 7];
        for counter in 0..400 {
            let sealed = frame(&keys, Head { counter, ..first::<P>() }, &[200; READINGS]);
            let envelope = mac.open(sealed.as_ref()).unwrap();
            for phase in *opener.phase(&envelope) {
                counts[(phase as i32 - 200 * P::DELTA as i32 + 3) as usize] += 1;
            }
        }
        // expected counts of 64
        let total = 400.0 * READINGS as f64;
        let chi: f64 = counts.iter().zip([1.0, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0]).fold(0.0, |sum, (found, of)| {
            let expected = total * of / 64.0;
            sum + (f64::from(*found) - expected) * (f64::from(*found) - expected) / expected
        });
        assert!(chi < 30.0, "χ² of six degrees of freedom: {chi}");
    }

    #[test]
    fn noise_has_the_distribution_that_security_counts_on() {
        distribution::<P1>();
        distribution::<U25>();
        distribution::<P17>();
        distribution::<U28>();
    }
}
