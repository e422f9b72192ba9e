//! The payload of packets and sums, for all modes.

use super::Kind;
use crate::curve::{Adder, Mismatch, Points};
use crate::elgamal::{Ciphertexts, Mode, SharedCiphertexts};
use crate::params::Parameters;
use std::borrow::Cow;

/// The payload of packets and sums: ciphertexts of a mode, which can be added without a key.
pub trait Payload: Clone + PartialEq + Send + Sync + 'static + sealed::Payload {
    /// The mode.
    const MODE: Mode;
    /// The neutral element of addition for this number of messages. It hides nothing.
    fn zero(parameters: Parameters, messages: usize) -> Self;
    /// The parameters.
    fn parameters(&self) -> Parameters;
    /// Number of messages.
    fn messages(&self) -> usize;
    /// Adds message by message, with memory that is reused for the next sum.
    ///
    /// # Errors
    /// [`Mismatch`] if curve or length differ; `self` is unchanged then.
    fn add_assign_with(&mut self, other: &Self, adder: &mut Adder) -> Result<(), Mismatch>;
}

/// The layout of a payload's points on the wire.
pub(super) mod sealed {
    use super::{Cow, Kind, Parameters, Points};

    pub trait Payload: Sized {
        const PACKET: Kind;
        const SUM: Kind;
        /// Number of points for this number of messages.
        fn points_of(messages: usize) -> usize;
        fn to_points(&self) -> Cow<'_, Points>;
        fn from_points(parameters: Parameters, points: Points) -> Option<Self>;
    }
}

/// The same implementation for both modes; they differ only on the wire.
macro_rules! payload {
    ($ciphertexts:ty, $mode:expr) => {
        impl Payload for $ciphertexts {
            const MODE: Mode = $mode;

            fn zero(parameters: Parameters, messages: usize) -> Self {
                <$ciphertexts>::zero(parameters, messages)
            }

            fn parameters(&self) -> Parameters {
                <$ciphertexts>::parameters(self)
            }

            fn messages(&self) -> usize {
                self.len()
            }

            fn add_assign_with(&mut self, other: &Self, adder: &mut Adder) -> Result<(), Mismatch> {
                <$ciphertexts>::add_assign_with(self, other, adder)
            }
        }
    };
}

payload!(Ciphertexts, Mode::Elgamal);
payload!(SharedCiphertexts, Mode::ElgamalShared);

impl sealed::Payload for Ciphertexts {
    const PACKET: Kind = Kind::Packet;
    const SUM: Kind = Kind::Sum;

    fn points_of(messages: usize) -> usize {
        2 * messages
    }

    fn to_points(&self) -> Cow<'_, Points> {
        self.to_points()
    }

    fn from_points(parameters: Parameters, points: Points) -> Option<Self> {
        Self::from_points(parameters, points)
    }
}

impl sealed::Payload for SharedCiphertexts {
    const PACKET: Kind = Kind::SharedPacket;
    const SUM: Kind = Kind::SharedSum;

    fn points_of(messages: usize) -> usize {
        messages + 1
    }

    fn to_points(&self) -> Cow<'_, Points> {
        Cow::Borrowed(self.points())
    }

    fn from_points(parameters: Parameters, points: Points) -> Option<Self> {
        Self::from_points(parameters, points)
    }
}
