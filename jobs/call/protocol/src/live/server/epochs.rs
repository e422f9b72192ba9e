//! Who is on the roster, from which tick on, and when the next roster is due.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tobari_curve::wire::{MemberSet, RoomId};

use super::super::roster::{Change, Form};

/// How long after the last roster who comes may wait for others: a newcomer costs a commit and a
/// welcome to all.
pub(super) const BATCH: Duration = Duration::from_secs(1);
/// The same for who has left and has keys that should be of no more use: out within a second, and a
/// crowd that goes home is no commit each.
pub(super) const PARTING: Duration = Duration::from_millis(250);
/// Who is put out waits for nobody.
pub(super) const AT_ONCE: Duration = Duration::ZERO;
/// Ticks from when a roster is said to when it holds: time for it to arrive, and for keys to be
/// derived.
const LEAD: u32 = 15;

/// The rosters of a room.
#[derive(Default)]
pub(super) struct Epochs {
    /// Number and first tick of the epochs that open ticks, or ticks to come, belong to.
    spans: VecDeque<(u32, u32)>,
    /// The last roster: hellos by number.
    listed: BTreeMap<u16, Vec<u8>>,
    /// What differs from it: a hello, or none for whoever is gone.
    changes: BTreeMap<u16, Option<Vec<u8>>>,
    /// Who is new on the one that is being made.
    coming: Option<BTreeSet<u16>>,
    /// Since when there is something to say, and how long after the last roster that may wait.
    wanted: Option<(Duration, Duration)>,
    committed: Option<Duration>,
    /// Numbers that were given up, with the tick from which on they are free.
    retired: VecDeque<(u16, u32)>,
    in_use: BTreeSet<u16>,
}

/// What the next roster is to change.
pub(super) struct Next {
    pub(super) epoch: u32,
    /// The one before; 0 if there was none.
    pub(super) base: u32,
    pub(super) gone: MemberSet,
    /// By number, ascending; hellos as they came.
    pub(super) new: Vec<(u16, Vec<u8>)>,
}

/// A roster to be said.
pub(super) struct Commit {
    pub(super) epoch: u32,
    /// Who is new on it, or has a new session.
    pub(super) new: Vec<u16>,
    /// To those who know the last one.
    pub(super) change: Vec<u8>,
    /// To those who know none.
    pub(super) whole: Vec<u8>,
}

impl Epochs {
    /// A number that nobody has, nor had in an epoch that lasts.
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

    /// There is something to say that may wait so long after the last roster.
    fn want(&mut self, pause: Duration, now: Duration) {
        let (since, least) = self.wanted.unwrap_or((now, pause));
        self.wanted = Some((since, least.min(pause)));
    }

    /// Takes a member off the roster, which may wait so long after the last one; its number comes
    /// free when that holds.
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

    /// A number that was on no roster, or is not on the last, comes free at once, unless it is
    /// about to.
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

    /// Is somebody on the last roster?
    pub(super) fn lists(&self, member: u16) -> bool {
        self.listed.contains_key(&member)
    }

    /// What the next roster changes, if it is due. No other is until [`Epochs::hold`] or
    /// [`Epochs::back`].
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

    /// A roster was not made: what it was to change is to be changed by the next, which is due at
    /// once, unless something has happened since.
    pub(super) fn back(&mut self, next: Next, now: Duration) {
        self.coming = None;
        for (member, hello) in next.new {
            match self.changes.get(&member) {
                None => {
                    self.changes.insert(member, Some(hello));
                }
                // came and went without ever having been listed
                Some(None) if !self.listed.contains_key(&member) => {
                    self.changes.remove(&member);
                    self.free(member);
                }
                // what has happened since counts
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

    /// Begins anew with one of who comes as the only one listed; the others who come are on the
    /// next roster, which is due at once. The numbers of those who stay are kept, though they are
    /// on no roster until they present themselves anew.
    pub(super) fn alone(&mut self, next: Next, founder: u16, stay: &[u16], now: Duration) -> Next {
        let (epoch, base) = (next.epoch, next.base);
        let (founders, others): (Vec<_>, Vec<_>) = next.new.into_iter().partition(|(member, _)| *member == founder);
        let mut gone = next.gone;
        for member in self.listed.keys().filter(|member| **member != founder) {
            gone.insert(*member);
        }
        // their numbers stay theirs
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

    /// The roster with these changes, without those who are refused. It holds from after the ticks
    /// from `open` on, `taken` of them, that may have packets already: those are of the epoch that
    /// there is.
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
                // it was there under another session, and goes with it
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

    /// The last roster, for somebody who knows none; none before there is one.
    pub(super) fn whole(&self, room: RoomId) -> Option<Vec<u8>> {
        let (epoch, from) = *self.spans.back()?;
        let new = self.listed.iter().map(|(member, hello)| (*member, hello.clone())).collect();
        Some(Change { form: Form::Signed, room, epoch, base: 0, from, gone: MemberSet::default(), new }.encode())
    }

    /// Puts somebody who is there, and not on the roster that was just said, on the next one: its
    /// number stays its own.
    pub(super) fn again(&mut self, member: u16, hello: Vec<u8>, now: Duration) {
        self.retired.retain(|(retired, _)| *retired != member);
        self.in_use.insert(member);
        self.list(member, hello, now);
    }

    /// The epoch that a tick belongs to; none before the first.
    pub(super) fn of(&self, tick: u32) -> Option<u32> {
        self.spans.iter().rev().find(|(_, from)| *from <= tick).map(|(epoch, _)| *epoch)
    }

    /// Forgets epochs that no tick from `open` on belongs to; the last one stays.
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

    /// Members 0 to 3 on a roster that was made at 10 s, and nothing to say.
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
