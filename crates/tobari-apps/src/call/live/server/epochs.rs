//! Who is on the roster, from which tick on, and when the next roster is due.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tobari_core::wire::{MemberSet, RoomId};

use super::super::roster::Change;

/// At most one roster in this time, unless somebody is put out.
const BATCH: Duration = Duration::from_secs(1);
/// Ticks from when a roster is said to when it holds: time for it to arrive, and for keys to be derived.
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
    /// Since when there is something to say, and whether it must not wait.
    since: Option<Duration>,
    urgent: bool,
    committed: Option<Duration>,
    /// Numbers that were given up, with the tick from which on they are free.
    retired: VecDeque<(u16, u32)>,
    in_use: BTreeSet<u16>,
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
        self.since.get_or_insert(now);
    }

    /// Takes a member off the roster; its number comes free when that holds.
    pub(super) fn unlist(&mut self, member: u16, urgent: bool, now: Duration) {
        if self.listed.contains_key(&member) {
            self.changes.insert(member, None);
            self.since.get_or_insert(now);
            self.urgent |= urgent;
        } else {
            self.changes.remove(&member);
            self.in_use.remove(&member);
        }
    }

    /// When the next roster is due.
    pub(super) fn due(&self) -> Option<Duration> {
        let since = self.since?;
        match self.committed {
            Some(committed) if !self.urgent => Some(since.max(committed + BATCH)),
            _ => Some(since),
        }
    }

    /// The next roster, if it is due.
    pub(super) fn commit(&mut self, room: RoomId, open: u32, now: Duration) -> Option<Commit> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        (self.since, self.urgent) = (None, false);
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return None;
        }
        self.committed = Some(now);
        let (base, last_from) = self.spans.back().copied().unwrap_or_default();
        let from = (open + LEAD).max(last_from + u32::from(base > 0));
        let (mut gone, mut new) = (MemberSet::default(), Vec::new());
        for (member, hello) in changes {
            match hello {
                Some(hello) => {
                    self.listed.insert(member, hello.clone());
                    new.push((member, hello));
                }
                None => {
                    self.listed.remove(&member);
                    gone.insert(member);
                    self.retired.push_back((member, from));
                }
            }
        }
        let epoch = base + 1;
        self.spans.push_back((epoch, from));
        let numbers = new.iter().map(|(member, _)| *member).collect();
        let change = Change { room, epoch, base, from, gone, new };
        let all = self.listed.iter().map(|(member, hello)| (*member, hello.clone())).collect();
        let whole = Change { base: 0, gone: MemberSet::default(), new: all, ..change.clone() };
        Some(Commit { epoch, new: numbers, change: change.encode(), whole: whole.encode() })
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
