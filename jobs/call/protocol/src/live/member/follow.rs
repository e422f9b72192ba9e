//! How a member follows its room from roster to roster, and what happens if it cannot.

use std::collections::BTreeSet;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

use super::{
    super::{
        group::messages::{Step, Task},
        keys::SessionId,
        messages::ClientMessage,
        news::{Alarm, News},
        roster::{self, Roster, RosterError},
    },
    LiveMember, Outgoing,
};

impl LiveMember {
    /// Takes a roster, if this member is on it under one of its own sessions. A member that just
    /// began a session may still be listed under the one before. So a recording from before this
    /// member joined does not decrypt. If this member is listed but left out, because its session
    /// is there twice, it takes the roster and begins another session.
    ///
    /// If the members agree on keys, the roster must come with the `words` that lead the group
    /// there; otherwise it must come without.
    pub(super) fn roster_said(&mut self, words: Option<&[u8]>, bytes: &[u8]) {
        let before = self.left_out();
        let (number, sessions, group) = (self.number, &self.sessions, &mut self.group);
        let accept = |roster: &Roster| match roster.session_of(number) {
            None if roster.left_out.contains_key(&number) => Err(RosterError::NumberTaken(number)),
            None => Err(RosterError::NotListed),
            Some(own) if !sessions.contains(&own) => Err(RosterError::NumberTaken(number)),
            Some(_) => match (group, words) {
                (None, None) => Ok(None),
                (Some(group), Some(words)) => group.follow(words, roster, number).map(Some),
                _ => Err(RosterError::Keys),
            },
        };
        match self.hearing.take_roster(bytes, (number, self.session), accept) {
            Ok(roster) => {
                let (epoch, from) = (roster.epoch, roster.from);
                let known: BTreeSet<SessionId> = roster.members.values().map(|listed| listed.session).collect();
                self.noted.retain(|session, _| known.contains(session));
                self.forget_who_is_gone();
                self.cadence.changed_keys(from);
                self.behind.caught_up();
                self.news.push_back(News::Roster { epoch });
                self.see_who_is_left_out(&before);
            }
            Err(error) => self.not_followed(error, bytes),
        }
    }

    fn left_out(&self) -> Vec<(u16, [u8; 32])> {
        let all = self.hearing.roster().into_iter().flat_map(|roster| &roster.left_out);
        all.map(|(member, hello)| (*member, *hello)).collect()
    }

    /// Reports each entry that is left out, once.
    fn see_who_is_left_out(&mut self, before: &[(u16, [u8; 32])]) {
        let now = self.left_out();
        let members: Vec<u16> = now.iter().filter(|entry| !before.contains(entry)).map(|(member, _)| *member).collect();
        if members.is_empty() {
            return;
        }
        let is_meant = members.contains(&self.number);
        self.alarm(Alarm::LeftOut { members });
        if is_meant {
            self.begin_again();
        }
    }

    /// Reports once that a roster could not be followed, and asks for the whole roster if that can
    /// help.
    fn not_followed(&mut self, error: RosterError, bytes: &[u8]) {
        let is_behind = self.behind.is_behind();
        let helps = match error {
            RosterError::Base { .. } => true,
            RosterError::Keys | RosterError::Members => self.group.is_some(),
            _ => false,
        };
        if !helps || !is_behind {
            self.alarm(Alarm::Roster(error));
        }
        let Some(epoch) = roster::epoch_of(bytes).filter(|_| helps) else { return };
        if self.behind.fell(epoch, self.hearing.next(), self.group.is_some()) {
            self.ask_for_all(epoch);
        }
    }

    pub(super) fn step(&mut self, bytes: &[u8]) {
        match Step::decode(bytes).filter(|step| step.room == self.hearing.room) {
            Some(step) => self.roster_said(Some(step.words), step.roster),
            None => self.alarm(Alarm::Roster(RosterError::Malformed)),
        }
    }

    /// The server asks this member for a commit. The member makes it from its own view of the group
    /// and of the new entries, not from claims of the server.
    pub(super) fn task(&mut self, bytes: &[u8]) {
        let task = Task::decode(bytes);
        let (hearing, number) = (&self.hearing, self.number);
        let answer = match (&mut self.group, &task, hearing.roster()) {
            (Some(group), Some(task), Some(roster)) => group.commit(&hearing.keys, roster, number, task),
            _ => None,
        };
        let (answer, task) = match (answer, task) {
            (Some(answer), Some(task)) => (answer, task),
            // this member never reached the state of the group that the commit is for
            (None, Some(task)) if self.behind.is_behind() => {
                return self.say(&ClientMessage::Behind { epoch: task.change.base });
            }
            _ => return self.alarm(Alarm::Unexpected),
        };
        let pieces = answer.pieces(self.hearing.room, task.change.epoch);
        self.outgoing.extend(pieces.into_iter().map(Outgoing::Binary));
    }

    /// Like [`LiveMember::begin`], with this member's own randomness, and at most once a second.
    pub(super) fn begin_again(&mut self) {
        if self.behind.begins(self.hearing.next()) {
            let mut rng = std::mem::replace(&mut self.rng, ChaCha20Rng::from_seed([0; 32]));
            self.begin(&mut rng);
            self.rng = rng;
        }
    }

    /// Tells the server that this member cannot follow the roster of an epoch.
    pub(super) fn ask_for_all(&mut self, epoch: u32) {
        self.say(&ClientMessage::Behind { epoch });
        if self.group.is_some() {
            self.begin_again();
        }
    }
}
