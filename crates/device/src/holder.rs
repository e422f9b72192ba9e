//! The key holder's operations with a device's root.

use crate::frame::READINGS;
use crate::ingest::Envelope;
use crate::profile::{Profile, field};
use crate::schedule::{Root, head_of, product};
use core::fmt;
use core::marker::PhantomData;
use zeroize::Zeroizing;

/// Decrypts the frames of a device.
pub struct Opener<P: Profile> {
    secret: Zeroizing<P::Secret>,
    profile: PhantomData<P>,
}

/// Some coefficients are not `Δ m + e` with `m` a byte and `|e| ≤ 3`: the device violated the
/// protocol. The error has their number, not their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffGrid {
    /// The number of coefficients that are not readings.
    pub coefficients: usize,
}

impl fmt::Display for OffGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {READINGS} readings, found {} coefficients that are none", self.coefficients)
    }
}

impl core::error::Error for OffGrid {}

impl<P: Profile> Opener<P> {
    /// An opener with a device's root.
    pub fn new(root: &Root) -> Self {
        Self { secret: root.secret::<P>(), profile: PhantomData }
    }

    /// Passes the transform of the secret to `take`: `i`, the place, and the residue. Use the
    /// values only for an encryption.
    pub fn for_each_secret(&self, mut take: impl FnMut(usize, usize, u32)) {
        for (i, polynomial) in self.secret.as_ref().iter().enumerate() {
            polynomial.iter().enumerate().for_each(|(place, s)| take(i, place, field::<P>().unstore(*s)));
        }
    }

    /// The phase `Δ m + e`, in canonical residues.
    pub fn phase(&self, envelope: &Envelope<P>) -> Zeroizing<[u32; READINGS]> {
        let field = field::<P>();
        let head = head_of::<P>(envelope.head());
        let mut phase = Zeroizing::new(product::<P>(&self.secret, &head[..P::HEAD], envelope.nonce()));
        for (phase, body) in phase.iter_mut().zip(envelope.body()) {
            *phase = field.once(*body + field.q - *phase);
        }
        phase
    }

    /// Decrypts the readings.
    ///
    /// # Errors
    /// [`OffGrid`].
    pub fn open(&self, envelope: &Envelope<P>) -> Result<Zeroizing<[u8; READINGS]>, OffGrid> {
        let (phase, mut readings) = (self.phase(envelope), Zeroizing::new([0; READINGS]));
        let mut coefficients = 0;
        for (reading, phase) in readings.iter_mut().zip(phase.iter()) {
            let shifted = field::<P>().once(*phase + 3);
            let (whole, rest) = (shifted / P::DELTA, shifted % P::DELTA);
            *reading = whole as u8;
            coefficients += usize::from(whole > 255) | usize::from(rest > 6);
        }
        if coefficients == 0 { Ok(readings) } else { Err(OffGrid { coefficients }) }
    }

    /// Turns the transform of a phase, or of a sum of phases, into its coefficients. The key holder
    /// decodes a linear result this way.
    pub fn coefficients(values: &mut [u32; READINGS]) {
        let field = field::<P>();
        values.iter_mut().for_each(|value| *value = field.reduce(*value));
        field.store(values);
        values.iter_mut().for_each(|value| *value = field.reduce_sum(u64::from(*value)));
        field.back_256(values);
    }
}
