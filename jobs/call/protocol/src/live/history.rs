//! The lists of the sums, as one digest for every five seconds. Members compare digests to find out
//! whether all were given the same lists.
//!
//! `digest of window w = SHA-256("tobari history" 1 ‖ w 4 ‖ for each tick of it: tick 4, epoch 4,
//! number of speakers 2, speakers 2 each, ascending)`, for members who heard every tick of the
//! window. Each member sends its digest to the others from time to time (`super::notes`): about
//! sixteen members a window in a large room. If a server gives two members different lists for one
//! tick, for instance one voice to each, the next note that gets from one to the other reveals it.
//! If a server keeps notes back, or makes sure that no window is whole, missing notes reveal it:
//! nothing can be compared with a member for [`PATIENCE`] of its turns (`History::passed`). On a
//! line that loses sums this happens without anyone's fault.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use tobari_curve::wire::MemberSet;

/// Ticks of a window: five seconds.
pub const WINDOW_TICKS: u32 = 250;
/// How many members send their digest in each window.
const TELLERS: u32 = 16;
/// Windows that are remembered.
const KEPT: usize = 4;
/// Digests of other members that are remembered for windows that have not ended here.
const WAITING: usize = 64;
/// Turns of a member that may pass without a comparison. Two windows are added: the window in which
/// the member joined, and one on the way.
pub const PATIENCE: u32 = 3;

#[derive(Default)]
pub(super) struct History {
    /// The current window, unless a tick of it was missed: the next tick, and the digest so far.
    current: Option<(u32, Sha256)>,
    own: BTreeMap<u32, [u8; 32]>,
    others: Vec<(u32, u16, [u8; 32])>,
    /// The window of the last tick.
    window: Option<u32>,
    /// Windows since the last comparison with a member, or since it joined.
    unconfirmed: BTreeMap<u16, u32>,
}

impl History {
    /// Adds a tick and its list. Returns a window that has ended, with its digest.
    pub(super) fn heard(&mut self, tick: u32, epoch: u32, speakers: &MemberSet) -> Option<(u32, [u8; 32])> {
        if tick.is_multiple_of(WINDOW_TICKS) {
            let window = tick / WINDOW_TICKS;
            self.current =
                Some((tick, Sha256::new().chain_update(b"tobari history\x01").chain_update(window.to_be_bytes())));
        }
        let (next, hash) = self.current.as_mut().filter(|(next, _)| *next == tick)?;
        hash.update(tick.to_be_bytes());
        hash.update(epoch.to_be_bytes());
        hash.update((speakers.len() as u16).to_be_bytes());
        speakers.iter().for_each(|member| hash.update(member.to_be_bytes()));
        *next += 1;
        if !next.is_multiple_of(WINDOW_TICKS) {
            return None;
        }
        let (_, hash) = self.current.take()?;
        let (window, digest) = (tick / WINDOW_TICKS, hash.finalize().into());
        self.own.insert(window, digest);
        while self.own.len() > KEPT {
            self.own.pop_first();
        }
        Some((window, digest))
    }

    /// The number of windows in which each of `members` members sends its digest once.
    fn turns(members: usize) -> u32 {
        (members as u32).div_ceil(TELLERS).max(1)
    }

    /// Is it this member's turn, among `members`, to send its digest of a window?
    pub(super) fn tells(member: u16, window: u32, members: usize) -> bool {
        (u32::from(member) + window).is_multiple_of(Self::turns(members))
    }

    /// Takes a member's digest of a window. Returns the window if the digest differs from the one
    /// here.
    pub(super) fn told(&mut self, window: u32, member: u16, digest: [u8; 32]) -> Option<u32> {
        match self.own.get(&window) {
            Some(own) => {
                let differs = *own != digest;
                self.unconfirmed.entry(member).and_modify(|windows| *windows = 0);
                differs.then_some(window)
            }
            None => {
                if self.others.len() >= WAITING {
                    self.others.remove(0);
                }
                self.others.push((window, member, digest));
                None
            }
        }
    }

    /// The members that sent a different digest of a window before it ended here.
    pub(super) fn differing(&mut self, window: u32) -> Vec<u16> {
        let others = std::mem::take(&mut self.others);
        let (now, later): (Vec<_>, Vec<_>) =
            others.into_iter().filter(|told| told.0 >= window).partition(|told| told.0 == window);
        self.others = later;
        now.into_iter()
            .filter_map(|(window, member, digest)| self.told(window, member, digest).map(|_| member))
            .collect()
    }

    /// A tick is over, whether or not it was heard; `others` are the other members on its roster.
    /// At the end of each window, returns the members with whom nothing could be compared for too
    /// long, each member once.
    pub(super) fn passed(&mut self, tick: u32, others: impl Fn() -> BTreeSet<u16>) -> Vec<u16> {
        let window = tick / WINDOW_TICKS;
        if self.window.replace(window).is_none_or(|last| last == window) {
            return Vec::new();
        }
        let others = others();
        self.unconfirmed.retain(|member, _| others.contains(member));
        let most = PATIENCE * Self::turns(others.len() + 1) + 2;
        let mut found = Vec::new();
        for member in others {
            let windows = self.unconfirmed.entry(member).or_insert(0);
            *windows = windows.saturating_add(1);
            if *windows == most + 1 {
                found.push(member);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: &[u16]) -> MemberSet {
        let mut set = MemberSet::default();
        members.iter().for_each(|member| assert!(set.insert(*member)));
        set
    }

    fn window(history: &mut History, window: u32, odd: Option<u32>) -> Option<(u32, [u8; 32])> {
        let ticks = window * WINDOW_TICKS..(window + 1) * WINDOW_TICKS;
        ticks.filter_map(|tick| history.heard(tick, 1, &set(if odd == Some(tick) { &[1] } else { &[1, 2] }))).last()
    }

    #[test]
    fn one_list_in_five_seconds_that_differs_is_found_whoever_tells_first() {
        let [mut one, mut two, mut three] = [(); 3].map(|()| History::default());
        let same = [window(&mut one, 0, None).unwrap(), window(&mut two, 0, None).unwrap()];
        assert_eq!(same[0], same[1]);
        assert_eq!(one.told(0, 2, same[1].1), None);
        let odd = window(&mut three, 0, Some(77)).unwrap();
        assert_eq!(one.told(0, 3, odd.1), Some(0));
        // sent before the window has ended here
        assert_eq!(two.told(1, 3, [7; 32]), None);
        window(&mut two, 1, None);
        assert_eq!(two.differing(1), [3]);
        assert!(two.differing(1).is_empty());
    }

    #[test]
    fn a_window_with_a_tick_missing_is_not_told() {
        let mut history = History::default();
        for tick in 0..2 * WINDOW_TICKS {
            if tick == 7 {
                continue;
            }
            let told = history.heard(tick, 1, &set(&[1]));
            assert_eq!(told.map(|(window, _)| window), (tick == 2 * WINDOW_TICKS - 1).then_some(1));
        }
        let mut late = History::default();
        assert!((5..WINDOW_TICKS).all(|tick| late.heard(tick, 1, &set(&[1])).is_none()));
    }

    /// Windows pass, heard here or not; member 2 sends its digest of some of them.
    #[test]
    fn a_member_with_whom_nothing_can_be_compared_is_found_and_said_once() {
        let most = PATIENCE + 2;
        for heard in [true, false] {
            let (mut history, mut found) = (History::default(), Vec::new());
            for number in 0..20 {
                for tick in number * WINDOW_TICKS..(number + 1) * WINDOW_TICKS {
                    if heard || tick % 7 != 0 {
                        history.heard(tick, 1, &set(&[1, 2]));
                    }
                    let unconfirmed = history.passed(tick, || BTreeSet::from([2, 3]));
                    found.extend(unconfirmed.into_iter().map(|member| (member, number)));
                }
                let mut same = History::default();
                if let Some((number, digest)) = window(&mut same, number, None).filter(|(number, _)| *number != 12) {
                    assert_eq!(history.told(number, 2, digest), None);
                }
            }
            // one missing digest is harmless; a member that misses ticks cannot compare with
            // anybody
            let all: &[(u16, u32)] = if heard { &[(3, most + 1)] } else { &[(2, most + 1), (3, most + 1)] };
            assert_eq!(found, all, "{heard}");
        }
    }

    #[test]
    fn in_a_large_room_everybody_tells_now_and_then_and_few_at_once() {
        for members in [1usize, 2, 16, 17, 1024] {
            let turns = members.div_ceil(16) as u32;
            for member in [0, members as u16 - 1] {
                assert_eq!((0..turns).filter(|window| History::tells(member, *window, members)).count(), 1);
            }
            let at_once = (0..members as u16).filter(|member| History::tells(*member, 5, members)).count();
            assert!(at_once <= 16, "{members}");
        }
    }

    #[test]
    fn words_of_others_do_not_fill_the_memory() {
        let mut history = History::default();
        (0..1000).for_each(|window| assert_eq!(history.told(window, 1, [0; 32]), None));
        assert_eq!(history.others.len(), WAITING);
    }
}
