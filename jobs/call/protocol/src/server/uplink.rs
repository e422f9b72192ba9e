//! The path of a packet from a member's connection into its room.

use tobari_curve::{
    elgamal::Mode,
    params::Parameters,
    wire::{PacketHeader, RoomId},
};

use super::{AnyPayload, Fault};
use crate::messages::Welcome;

/// The decoder for one member's packets: turns bytes into points, and rejects packets of other
/// members.
#[derive(Clone, Copy, Debug)]
pub struct Uplink {
    parameters: Parameters,
    mode: Mode,
    room: RoomId,
    member: u16,
    samples: usize,
}

impl Uplink {
    /// A decoder for the member that got `welcome`, in a room of `parameters` and `mode`, and
    /// packets of `samples` samples.
    pub fn new(parameters: Parameters, mode: Mode, welcome: &Welcome, samples: usize) -> Self {
        Self { parameters, mode, room: welcome.room, member: welcome.member, samples }
    }

    /// Checks a packet without touching a point: cheap.
    ///
    /// # Errors
    /// [`Fault`] if the bytes are not a packet in this mode on this curve, or the packet is for
    /// another room, of another member, or of another length.
    pub fn check(&self, packet: &[u8]) -> Result<PacketHeader, Fault> {
        let header = AnyPayload::decode_header(self.mode, packet, self.parameters)?;
        if header.room != self.room {
            return Err(Fault::Room);
        }
        if header.member != self.member {
            return Err(Fault::Sender { found: header.member, expected: self.member });
        }
        if usize::from(header.messages) != self.samples {
            return Err(Fault::Samples { found: header.messages.into(), expected: self.samples });
        }
        Ok(header)
    }

    /// Checks a packet and decodes it: its tick, and points that are all on the curve. This takes
    /// some microseconds a point.
    ///
    /// # Errors
    /// As [`Uplink::check`], and if any point is not on the curve.
    pub fn decode(&self, packet: &[u8]) -> Result<(u32, AnyPayload), Fault> {
        self.check(packet)?;
        let (header, ciphertexts) = AnyPayload::decode(self.mode, packet, self.parameters)?;
        Ok((header.tick, ciphertexts))
    }
}
