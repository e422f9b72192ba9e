//! Shared by all owners of a live room: the kind of room, the names of its events, and the handling
//! of a batch of events.

use std::sync::Arc;

use tobari_call::wire::LivePacket;

use super::{intake::LiveBinary, metrics::Metrics};

/// Live rooms, with their counters.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) metrics: Arc<Metrics>,
    /// This server's names, beside the host of each request.
    pub(super) names: Arc<[String]>,
    /// The bus to other servers, if there is one.
    #[cfg(feature = "cascade")]
    pub(super) bus: Option<super::bus::Bus>,
}

pub(super) type Happening = crate::kind::Happening<Live>;
pub(super) type Seat = crate::kind::Seat<Live>;

#[cfg(feature = "cascade")]
impl From<tobari_call::live::cascade::BusMessage> for Happening {
    fn from(message: tobari_call::live::cascade::BusMessage) -> Self {
        Happening::Heard(message)
    }
}

/// A live room that handles events in batches: the packets of a batch are added together.
pub(super) trait Mixing {
    /// Sends members everything that is due.
    fn follow(&mut self);

    /// Adds the packets that arrived since the last call.
    fn mix(&mut self, packets: &[Box<LivePacket>]);

    /// Handles any other event.
    fn hear(&mut self, happening: Happening);

    /// Begins to end the room.
    fn close(&mut self);

    /// Handles a batch.
    fn take(&mut self, batch: Vec<Happening>, close: bool) {
        // Close due ticks first: a packet that was still waiting when its tick ended is late.
        self.follow();
        let mut packets = Vec::new();
        for happening in batch {
            match happening {
                Happening::Binary { binary: LiveBinary::Packet(packet), .. } => packets.push(packet),
                // earlier packets are added before this event
                other => {
                    self.mix(&std::mem::take(&mut packets));
                    self.hear(other);
                }
            }
        }
        self.mix(&packets);
        if close {
            self.close();
        }
        self.follow();
    }
}
