//! A member that missed a roster asks the server for the whole roster. If the members agree on
//! keys, it joins their group again.
//!
//! Until the roster arrives, the member keeps its keys. It never leaves out an entry by itself: its
//! keys would then differ from those of the others.

/// Ticks between two requests for the whole roster: one second, and three if others must add a
/// session to the group.
const AGAIN: u32 = 50;
const AGAIN_IN_A_GROUP: u32 = 150;
/// Ticks between two sessions that are begun for this reason.
const APART: u32 = 50;

/// Whether a member is behind, and what it needs to catch up.
#[derive(Default)]
pub(super) struct Behind {
    /// The last epoch whose roster could not be followed, and the tick of the next request.
    waits: Option<(u32, u32)>,
    /// The first tick at which another session may be begun.
    free: u32,
}

impl Behind {
    /// Is this member behind?
    pub(super) fn is_behind(&self) -> bool {
        self.waits.is_some()
    }

    /// A roster could not be followed at this tick. Returns whether to ask for all of it at once.
    pub(super) fn fell(&mut self, epoch: u32, tick: u32, in_a_group: bool) -> bool {
        let again = tick.saturating_add(if in_a_group { AGAIN_IN_A_GROUP } else { AGAIN });
        match &mut self.waits {
            Some((last, _)) => {
                *last = epoch;
                false
            }
            None => {
                self.waits = Some((epoch, again));
                true
            }
        }
    }

    /// A roster was followed.
    pub(super) fn caught_up(&mut self) {
        self.waits = None;
    }

    /// A tick is over. Returns the epoch if the member must ask again.
    pub(super) fn passed(&mut self, tick: u32, in_a_group: bool) -> Option<u32> {
        let (epoch, at) = self.waits.as_mut().filter(|(_, at)| *at <= tick)?;
        *at = tick.saturating_add(if in_a_group { AGAIN_IN_A_GROUP } else { AGAIN });
        Some(*epoch)
    }

    /// May another session be begun at this tick? If so, it counts as begun.
    pub(super) fn begins(&mut self, tick: u32) -> bool {
        let may = tick >= self.free;
        if may {
            self.free = tick.saturating_add(APART);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_behind_asks_at_once_and_then_now_and_then_until_it_has_caught_up() {
        let mut behind = Behind::default();
        assert!(behind.fell(7, 100, false) && !behind.fell(8, 120, false) && behind.is_behind());
        assert_eq!(
            (behind.passed(149, false), behind.passed(150, false), behind.passed(151, false)),
            (None, Some(8), None)
        );
        assert_eq!(behind.passed(200, false), Some(8));
        behind.caught_up();
        assert!(!behind.is_behind() && behind.passed(1000, false).is_none() && behind.fell(9, 1000, true));
        assert_eq!((behind.passed(1149, true), behind.passed(1150, true)), (None, Some(9)));
    }

    #[test]
    fn sessions_are_begun_a_second_apart() {
        let mut behind = Behind::default();
        assert!(behind.begins(0) && !behind.begins(49) && behind.begins(50) && !behind.begins(99));
    }
}
