//! What all owners of a live room share: the kind of room, the names of its happenings, and how a
//! batch of happenings is taken.

use std::sync::Arc;

use tobari_call::wire::LivePacket;

use super::{intake::LiveBinary, metrics::Metrics};

/// Live rooms, which are counted.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) metrics: Arc<Metrics>,
    /// This server's names, beside the host of each request.
    pub(super) names: Arc<[String]>,
    /// What joins this server with others, if anything does.
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

/// A live room, as far as a batch of what happened goes: packets that came together are added
/// together.
pub(super) trait Mixing {
    /// Tells members all that follows by now.
    fn follow(&mut self);

    /// Takes packets, as many as came since the last time.
    fn mix(&mut self, packets: &[Box<LivePacket>]);

    /// Takes anything else.
    fn hear(&mut self, happening: Happening);

    /// Begins to end the room.
    fn close(&mut self);

    /// Takes all that came.
    fn take(&mut self, batch: Vec<Happening>, close: bool) {
        // First what is due: a packet that was still waiting when its tick ended is late.
        self.follow();
        let mut packets = Vec::new();
        for happening in batch {
            match happening {
                Happening::Binary { binary: LiveBinary::Packet(packet), .. } => packets.push(packet),
                // what was sent before it counts before it
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
