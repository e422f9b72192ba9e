//! Hellos and notes of members, and their requests if they cannot follow.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use super::{LiveEvent, LiveRoom};
use crate::{
    live::{
        group::messages::is_for_the_group,
        hello::{self, is_hello},
        keys::SessionId,
        link::Keys,
        notes,
    },
    server::Fault,
};

/// The least time between two whole rosters to one member.
const WHOLE: Duration = Duration::from_secs(1);
/// How many presented sessions are kept.
const REMEMBERED: usize = 1 << 14;

/// The sessions that were presented in a room. So a member cannot present a hello that it took from
/// the wire, or from another member.
#[derive(Default)]
pub(super) struct Presented {
    known: BTreeSet<SessionId>,
    order: VecDeque<SessionId>,
}

impl Presented {
    /// Takes note of a session; false if it was presented before.
    fn insert(&mut self, session: SessionId) -> bool {
        if !self.known.insert(session) {
            return false;
        }
        self.order.push_back(session);
        if self.order.len() > REMEMBERED
            && let Some(first) = self.order.pop_front()
        {
            self.known.remove(&first);
        }
        true
    }
}

impl LiveRoom {
    /// Takes a hello, a note for all, or a message for the members' group.
    pub fn note(&mut self, member: u16, note: &[u8], now: Duration) {
        let is_for_the_group = self.settings.keys == Keys::Group && is_for_the_group(note);
        let heard = match () {
            () if is_for_the_group => self.hear_group(member, note, now),
            () if is_hello(note) => self.hear_hello(member, note, now),
            () => self.hear_note(member, note, now),
        };
        if let Err(fault) = heard {
            self.remove(member, fault);
        }
    }

    /// Checks all that a member checks before it lists another one. So no entry that members would
    /// leave out gets onto a roster.
    fn hear_hello(&mut self, number: u16, bytes: &[u8], now: Duration) -> Result<(), Fault> {
        let limits = self.limits;
        let Some(sender) = self.members.get_mut(&number) else { return Ok(()) };
        sender.credit.spend(&limits, now)?;
        let head = hello::verified(&self.key, self.id, number, bytes).ok_or(Fault::Hello)?;
        // the host's order to stop speaking and this hello may have crossed
        if head.speaks && !sender.speaks && !sender.spoke {
            return Err(Fault::Hello);
        }
        let waits = sender.waits;
        let is = |hello: &Option<(SessionId, Vec<u8>)>| hello.as_ref().is_some_and(|it| it.0 == head.session);
        if self.members.values().any(|member| is(&member.hello)) || !self.presented.insert(head.session) {
            return Err(Fault::Session);
        }
        if let Some(sender) = self.members.get_mut(&number) {
            sender.hello = Some((head.session, bytes.to_vec()));
        }
        if waits {
            let hosts = self.hosts();
            self.events.push_back(LiveEvent::Send { members: hosts, bytes: bytes.to_vec() });
        } else {
            self.list(number, now);
        }
        Ok(())
    }

    /// Passes a note on to all others, if it is of the session that its sender has presented.
    fn hear_note(&mut self, member: u16, note: &[u8], now: Duration) -> Result<(), Fault> {
        let limits = self.limits;
        let Some(sender) = self.members.get_mut(&member) else { return Ok(()) };
        sender.credit.spend(&limits, now)?;
        let head = notes::head_of(note).filter(|head| head.room == self.id).ok_or(Fault::Note)?;
        let is_its_own = sender.hello.as_ref().is_some_and(|(session, _)| *session == head.session);
        if !is_its_own || sender.waits {
            return Err(Fault::Note);
        }
        let others = self.inside().filter(|other| *other != member).collect();
        self.events.push_back(LiveEvent::Send { members: others, bytes: note.to_vec() });
        Ok(())
    }

    /// A member cannot follow a roster. It gets the whole roster again; if the members agree on
    /// keys, it joins the group again by itself.
    pub(super) fn behind(&mut self, number: u16, epoch: u32, now: Duration) {
        let is_listed = self.epochs.lists(number);
        let Some(member) = self.members.get_mut(&number).filter(|member| is_listed && member.knows) else { return };
        if self.settings.keys == Keys::Group {
            member.knows = false;
            return self.cannot_follow(number, epoch, now);
        }
        if member.told_whole.is_some_and(|told| now < told + WHOLE) {
            return;
        }
        member.told_whole = Some(now);
        if let Some(bytes) = self.epochs.whole(self.id) {
            self.events.push_back(LiveEvent::Send { members: vec![number], bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_were_presented_are_remembered_within_bounds() {
        let session = |number: usize| SessionId((number as u128).to_be_bytes());
        let mut presented = Presented::default();
        assert!((0..3 * REMEMBERED).all(|number| presented.insert(session(number))));
        assert!((2 * REMEMBERED..3 * REMEMBERED).all(|number| !presented.insert(session(number))));
        assert_eq!((presented.known.len(), presented.order.len()), (REMEMBERED, REMEMBERED));
    }
}
