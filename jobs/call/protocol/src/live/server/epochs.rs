//! The members on the roster, the tick from which on they are, and the time of the next roster.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tobari_curve::wire::{MemberSet, RoomId};

use super::super::roster::{Change, Form};

/// How long after the last roster a new member may wait for others: each roster with new members
/// costs a commit and a welcome to all.
pub(super) const BATCH: Duration = Duration::from_secs(1);
/// The same for a member that left: its keys must be useless within a second. Still, many members
/// that leave together do not cost a commit each.
pub(super) const PARTING: Duration = Duration::from_millis(250);
/// A removed member waits for nobody.
pub(super) const AT_ONCE: Duration = Duration::ZERO;
/// Ticks from the moment a roster is sent until it takes effect: time for it to arrive, and to
/// derive keys.
const LEAD: u32 = 15;

/// The rosters of a room.
#[derive(Default)]
pub(super) struct Epochs {
    /// Number and first tick of the epochs that the open tick and later ticks belong to.
    spans: VecDeque<(u32, u32)>,
    /// The last roster: hellos by number.
    listed: BTreeMap<u16, Vec<u8>>,
    /// The changes since then: a hello, or none for a member that has left.
    changes: BTreeMap<u16, Option<Vec<u8>>>,
    /// The new members on the roster that is being made.
    coming: Option<BTreeSet<u16>>,
    /// Since when a roster is wanted, and how long after the last roster it may wait.
    wanted: Option<(Duration, Duration)>,
    committed: Option<Duration>,
    /// Numbers of former members, with the tick from which on they are free.
    retired: VecDeque<(u16, u32)>,
    in_use: BTreeSet<u16>,
}

/// The changes of the next roster.
pub(super) struct Next {
    pub(super) epoch: u32,
    /// The epoch before; 0 if there was none.
    pub(super) base: u32,
    pub(super) gone: MemberSet,
    /// By number, ascending; hellos as received.
    pub(super) new: Vec<(u16, Vec<u8>)>,
}

/// A roster to be sent.
pub(super) struct Commit {
    pub(super) epoch: u32,
    /// Members that are new on it, or have a new session.
    pub(super) new: Vec<u16>,
    /// For members that know the last one.
    pub(super) change: Vec<u8>,
    /// For members that know none.
    pub(super) whole: Vec<u8>,
}

impl Epochs {
    /// A number that no member has, nor had in an epoch that still lasts.
    pub(super) fn take_number(&mut self, most: usize, open: u32) -> Option<u16> {
        while self.retired.front().is_some_and(|(_, from)| *from <= open) {
            if let Some((member, _)) = self.retired.pop_front() {
                self.in_use.remove(&member);
            }
        }
        let free = (0..most as u16).find(|member| !self.in_use.contains(member))?;
        self.in_use.insert(free);
        Some(free)
    }

    /// Puts a member on the next roster.
    pub(super) fn list(&mut self, member: u16, hello: Vec<u8>, now: Duration) {
        self.changes.insert(member, Some(hello));
        self.want(BATCH, now);
    }

    /// A roster is wanted. It may wait this long after the last one.
    fn want(&mut self, pause: Duration, now: Duration) {
        let (since, least) = self.wanted.unwrap_or((now, pause));
        self.wanted = Some((since, least.min(pause)));
    }

    /// Takes a member off the roster; this may wait so long after the last roster. Its number is
    /// free once the new roster takes effect.
    pub(super) fn unlist(&mut self, member: u16, pause: Duration, now: Duration) {
        let is_coming = self.coming.as_ref().is_some_and(|coming| coming.contains(&member));
        if is_coming || self.listed.contains_key(&member) {
            self.changes.insert(member, None);
            self.want(pause, now);
        } else {
            self.changes.remove(&member);
            self.free(member);
        }
    }

    /// A number that was on no roster, or is not on the last, is free at once, unless it is already
    /// about to be.
    fn free(&mut self, member: u16) {
        if !self.retired.iter().any(|(retired, _)| *retired == member) {
            self.in_use.remove(&member);
        }
    }

    /// When the next roster is due; never while one is being made.
    pub(super) fn due(&self) -> Option<Duration> {
        let (since, pause) = self.wanted.filter(|_| self.coming.is_none())?;
        Some(self.committed.map_or(since, |committed| since.max(committed + pause)))
    }

    /// The epoch of the last roster; 0 if there is none.
    pub(super) fn last(&self) -> u32 {
        self.spans.back().map_or(0, |(epoch, _)| *epoch)
    }

    /// Is the member on the last roster?
    pub(super) fn lists(&self, member: u16) -> bool {
        self.listed.contains_key(&member)
    }

    /// The changes of the next roster, if it is due. No other roster is due before [`Epochs::hold`]
    /// or [`Epochs::back`].
    pub(super) fn next(&mut self, now: Duration) -> Option<Next> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        self.wanted = None;
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return None;
        }
        self.committed = Some(now);
        let (mut gone, mut new) = (MemberSet::default(), Vec::new());
        for (member, hello) in changes {
            match hello {
                Some(hello) => new.push((member, hello)),
                None => {
                    gone.insert(member);
                }
            }
        }
        self.coming = Some(new.iter().map(|(member, _)| *member).collect());
        Some(Next { epoch: self.last() + 1, base: self.last(), gone, new })
    }

    /// A roster was not made: its changes go onto the next roster, which is due at once. Later
    /// changes of the same members take precedence.
    pub(super) fn back(&mut self, next: Next, now: Duration) {
        self.coming = None;
        for (member, hello) in next.new {
            match self.changes.get(&member) {
                None => {
                    self.changes.insert(member, Some(hello));
                }
                // joined and left without ever being listed
                Some(None) if !self.listed.contains_key(&member) => {
                    self.changes.remove(&member);
                    self.free(member);
                }
                // the later change counts
                Some(_) => {}
            }
        }
        for member in next.gone.iter() {
            self.changes.entry(member).or_insert(None);
        }
        if !self.changes.is_empty() {
            self.wanted = Some((now, AT_ONCE));
        }
    }

    /// Begins a new group with one new member, the only one listed. The other new members go onto
    /// the next roster, which is due at once. Members that stay keep their numbers, though they are
    /// on no roster until they present themselves again.
    pub(super) fn alone(&mut self, next: Next, founder: u16, stay: &[u16], now: Duration) -> Next {
        let (epoch, base) = (next.epoch, next.base);
        let (founders, others): (Vec<_>, Vec<_>) = next.new.into_iter().partition(|(member, _)| *member == founder);
        let mut gone = next.gone;
        for member in self.listed.keys().filter(|member| **member != founder) {
            gone.insert(*member);
        }
        // their numbers stay reserved
        let returns: BTreeSet<u16> = others.iter().map(|(member, _)| *member).chain(stay.iter().copied()).collect();
        returns.iter().for_each(|member| {
            self.listed.remove(member);
        });
        let mut kept = MemberSet::default();
        gone.iter().filter(|member| !returns.contains(member)).for_each(|member| {
            kept.insert(member);
        });
        self.back(Next { epoch, base, gone: MemberSet::default(), new: others }, now);
        self.coming = Some(BTreeSet::from([founder]));
        Next { epoch, base, gone: kept, new: founders }
    }

    /// The roster with these changes, without the refused members. `taken` ticks from `open` on may
    /// have packets of the current epoch already; the roster takes effect after them.
    pub(super) fn hold(&mut self, room: RoomId, next: Next, refused: &[u16], open: u32, taken: u32) -> Commit {
        self.coming = None;
        let Next { epoch, base, mut gone, mut new } = next;
        let last_from = self.spans.back().map_or(0, |(_, from)| *from);
        let from = (open + LEAD.max(taken)).max(last_from + u32::from(base > 0));
        new.retain(|(member, _)| !refused.contains(member));
        for member in refused {
            let has_left =
                self.changes.get(member).is_some_and(Option::is_none) && self.changes.remove(member).is_some();
            if self.listed.contains_key(member) {
                // it was listed under another session, and leaves with that
                gone.insert(*member);
            } else if has_left {
                self.free(*member);
            }
        }
        for (member, hello) in &new {
            self.listed.insert(*member, hello.clone());
        }
        for member in gone.iter() {
            self.listed.remove(&member);
            self.retired.push_back((member, from));
        }
        self.spans.push_back((epoch, from));
        let numbers = new.iter().map(|(member, _)| *member).collect();
        let change = Change { form: Form::Signed, room, epoch, base, from, gone, new };
        let whole = self.whole(room).unwrap_or_default();
        Commit { epoch, new: numbers, change: change.encode(), whole }
    }

    /// The last roster, for a member that knows none; none before there is one.
    pub(super) fn whole(&self, room: RoomId) -> Option<Vec<u8>> {
        let (epoch, from) = *self.spans.back()?;
        let new = self.listed.iter().map(|(member, hello)| (*member, hello.clone())).collect();
        Some(Change { form: Form::Signed, room, epoch, base: 0, from, gone: MemberSet::default(), new }.encode())
    }

    /// Puts a member that was refused on the next roster, and keeps its number reserved.
    pub(super) fn again(&mut self, member: u16, hello: Vec<u8>, now: Duration) {
        self.retired.retain(|(retired, _)| *retired != member);
        self.in_use.insert(member);
        self.list(member, hello, now);
    }

    /// The epoch that a tick belongs to; none before the first.
    pub(super) fn of(&self, tick: u32) -> Option<u32> {
        self.spans.iter().rev().find(|(_, from)| *from <= tick).map(|(epoch, _)| *epoch)
    }

    /// Forgets epochs to which no tick from `open` on belongs; the last one is kept.
    pub(super) fn close(&mut self, open: u32) {
        while self.spans.get(1).is_some_and(|(_, from)| *from <= open) {
            self.spans.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn hold(epochs: &mut Epochs, next: Next) {
        epochs.hold(RoomId([0; 8]), next, &[], 0, 0);
    }

    /// Members 0 to 3 on a roster that was made at 10 s, and no changes.
    fn settled() -> Epochs {
        let mut epochs = Epochs::default();
        (0..4).for_each(|member| epochs.list(member, vec![0], ms(10_000)));
        let next = epochs.next(ms(10_000)).unwrap();
        hold(&mut epochs, next);
        assert_eq!(epochs.due(), None);
        epochs
    }

    #[test]
    fn what_may_wait_does_not_make_what_must_not_wait() {
        let mut epochs = settled();
        epochs.list(4, vec![0], ms(10_010));
        assert_eq!(epochs.due(), Some(ms(11_000)), "who comes");
        epochs.unlist(1, PARTING, ms(10_020));
        assert_eq!(epochs.due(), Some(ms(10_250)), "who leaves, after one who comes");
        epochs.unlist(2, AT_ONCE, ms(10_030));
        assert!(epochs.due().unwrap() <= ms(10_030), "who is put out, after both");
        epochs.list(5, vec![0], ms(10_040));
        assert!(epochs.due().unwrap() <= ms(10_040), "and another who comes changes nothing");
        let next = epochs.next(ms(10_040)).unwrap();
        assert_eq!((next.gone.iter().collect::<Vec<_>>(), next.new.len()), (vec![1, 2], 2), "all are in it");
    }

    #[test]
    fn who_leaves_while_a_commit_is_made_is_in_the_next_a_quarter_of_a_second_after_that_was_asked_for() {
        let mut epochs = settled();
        epochs.unlist(0, PARTING, ms(12_000));
        let next = epochs.next(ms(12_000)).unwrap();
        epochs.unlist(1, PARTING, ms(12_010));
        assert_eq!(epochs.due(), None, "one at a time");
        hold(&mut epochs, next);
        assert_eq!(epochs.due(), Some(ms(12_250)));
        assert!(epochs.next(ms(12_249)).is_none());
        assert_eq!(epochs.next(ms(12_250)).unwrap().gone.iter().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn who_was_in_a_commit_that_was_not_made_is_in_the_next_at_once_with_who_left_since() {
        let mut epochs = settled();
        epochs.unlist(0, PARTING, ms(12_000));
        let next = epochs.next(ms(12_000)).unwrap();
        epochs.unlist(1, PARTING, ms(12_010));
        epochs.back(next, ms(12_100));
        assert_eq!(epochs.due(), Some(ms(12_100)));
        assert_eq!(epochs.next(ms(12_100)).unwrap().gone.iter().collect::<Vec<_>>(), [0, 1]);
    }
}
