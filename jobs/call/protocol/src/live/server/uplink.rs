//! The way of a packet from a member's connection into its live room.

use crate::wire::{self, LiveHeader, LiveLayout, LivePacket};
use tobari_curve::wire::RoomId;

use super::super::{PACKET_WORDS, messages::Welcome};
use crate::server::Fault;

/// One member's way in: turns the bytes of its packets into what can be added, and refuses what is
/// not its own.
#[derive(Clone, Copy, Debug)]
pub struct LiveUplink {
    pub(super) layout: LiveLayout,
    pub(super) room: RoomId,
    pub(super) member: u16,
    pub(super) samples: usize,
}

impl LiveUplink {
    /// Of the member that got `welcome` in a room of that layout.
    pub(in super::super) fn new(layout: LiveLayout, welcome: &Welcome) -> Self {
        Self { layout, room: welcome.room, member: welcome.member, samples: PACKET_WORDS }
    }

    /// Checks a packet without touching a sample: cheap.
    ///
    /// # Errors
    /// [`Fault`] if it is no packet of this layout, or one for another room, of another member, or
    /// of another length.
    pub fn check(&self, packet: &[u8]) -> Result<LiveHeader, Fault> {
        let (header, samples) = wire::decode_live_header(self.layout, packet)?;
        if header.room != self.room {
            return Err(Fault::Room);
        }
        if header.member != self.member {
            return Err(Fault::Sender { found: header.member, expected: self.member });
        }
        if usize::from(samples) != self.samples {
            return Err(Fault::Samples { found: samples.into(), expected: self.samples });
        }
        Ok(header)
    }

    /// Checks a packet and decodes it. In mode `mask` half a microsecond, else some microseconds a
    /// point.
    ///
    /// # Errors
    /// As [`LiveUplink::check`], and if what is in it is malformed.
    pub fn decode(&self, packet: &[u8]) -> Result<LivePacket, Fault> {
        self.check(packet)?;
        Ok(wire::decode_live_packet(self.layout, packet)?)
    }

    /// Does decoding cost so much that it should wait for a core?
    pub fn is_costly(&self) -> bool {
        !matches!(self.layout, LiveLayout::Mask { .. })
    }
}
