//! A member that missed a roster. The member asks the server for the whole roster. Where the
//! members agree on keys it joins their group again.
//!
//! Until the roster comes the member keeps its keys. It never leaves out an entry by itself: its
//! keys would then differ from those of the others.

/// Ticks after which it is asked again whether the whole roster comes: a second, and three where a
/// session has to be taken in by others.
const AGAIN: u32 = 50;
const AGAIN_IN_A_GROUP: u32 = 150;
/// Ticks between one session and the next that is begun for such a reason.
const APART: u32 = 50;

/// What a member knows of being behind.
#[derive(Default)]
pub(super) struct Behind {
    /// The last epoch whose roster could not be followed, and from which tick on it is asked again.
    waits: Option<(u32, u32)>,
    /// The tick from which on another session may be begun.
    free: u32,
}

impl Behind {
    /// Is this member behind?
    pub(super) fn is_behind(&self) -> bool {
        self.waits.is_some()
    }

    /// A roster could not be followed, at this tick. Is it to be asked for at once?
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

    /// A tick is over. Answers the epoch if it is to be asked again.
    pub(super) fn passed(&mut self, tick: u32, in_a_group: bool) -> Option<u32> {
        let (epoch, at) = self.waits.as_mut().filter(|(_, at)| *at <= tick)?;
        *at = tick.saturating_add(if in_a_group { AGAIN_IN_A_GROUP } else { AGAIN });
        Some(*epoch)
    }

    /// May another session be begun at this tick? Then it is.
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
