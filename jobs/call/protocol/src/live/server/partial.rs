//! What a room takes from other servers that hold it together with this one
//! ([`super::super::cascade`]): sums of their members' packets.

use crate::wire::LiveSum;

use super::{LiveRoom, Mixer};

impl LiveRoom {
    /// The epoch of the last roster; 0 before there is one.
    pub(in super::super) fn epoch(&self) -> u32 {
        self.epochs.last()
    }

    /// The first epoch whose roster a member is on.
    pub(in super::super) fn listed_since(&self, member: u16) -> Option<u32> {
        self.members.get(&member)?.since
    }

    /// Adds the sum of some members' packets of one tick; false if it was not added. Its members
    /// must be those of whoever summed, on the roster of its epoch, and none of them muted: that is
    /// for the caller to know. A sum that comes too late, or of another epoch than its tick's,
    /// makes its members late.
    pub(in super::super) fn partial(&mut self, part: &LiveSum, mixer: &mut dyn Mixer) -> bool {
        let in_epoch = part.room == self.id && self.epochs.of(part.tick) == Some(part.epoch);
        let ahead = part.tick.checked_sub(self.open).filter(|ahead| in_epoch && *ahead < self.limits.window);
        let Some(ahead) = ahead else {
            part.speakers.iter().for_each(|member| self.is_late(member));
            return false;
        };
        self.sums.merge(ahead as usize, part, self.layout, mixer)
    }

    /// A packet of this member was dropped.
    pub(in super::super) fn is_late(&mut self, member: u16) {
        if self.members.contains_key(&member) {
            self.late.insert(member);
        }
    }
}
