//! Sums of members' packets that a room takes from the other servers of a shared room
//! ([`super::super::cascade`]).

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

    /// Adds the sum of some members' packets of one tick; false if it was not added. The caller
    /// must make sure that its speakers are members of the server that summed, that they are on the
    /// roster of its epoch, and that none is muted. If a sum arrives too late, or is of another
    /// epoch than its tick, its speakers count as late.
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
