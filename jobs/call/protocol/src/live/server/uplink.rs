//! Checks and decodes packets between a member's connection and its live room.

use crate::wire::{self, LiveHeader, LiveLayout, LivePacket};
use tobari_curve::wire::RoomId;

use super::super::{PACKET_WORDS, messages::Welcome};
use crate::server::Fault;

/// The receiver of one member's packets: decodes them, and rejects packets of others.
#[derive(Clone, Copy, Debug)]
pub struct LiveUplink {
    pub(super) layout: LiveLayout,
    pub(super) room: RoomId,
    pub(super) member: u16,
    pub(super) samples: usize,
}

impl LiveUplink {
    /// For the member that got `welcome` in a room of that layout.
    pub(in super::super) fn new(layout: LiveLayout, welcome: &Welcome) -> Self {
        Self { layout, room: welcome.room, member: welcome.member, samples: PACKET_WORDS }
    }

    /// Checks a packet without reading a sample: cheap.
    ///
    /// # Errors
    /// [`Fault`] if it is no packet of this layout, or if it is for another room, of another
    /// member, or of another length.
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

    /// Checks and decodes a packet. This takes half a microsecond in mode `mask`, else some
    /// microseconds for each point.
    ///
    /// # Errors
    /// As [`LiveUplink::check`], and if the payload is malformed.
    pub fn decode(&self, packet: &[u8]) -> Result<LivePacket, Fault> {
        self.check(packet)?;
        Ok(wire::decode_live_packet(self.layout, packet)?)
    }

    /// Does decoding cost so much that it should wait for a core?
    pub fn is_costly(&self) -> bool {
        !matches!(self.layout, LiveLayout::Mask { .. })
    }
}
