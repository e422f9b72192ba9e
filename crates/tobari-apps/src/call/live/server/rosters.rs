//! Who makes the next roster: this server alone, or a member that is asked for a commit.

use std::time::Duration;

use tobari_core::wire::MemberSet;

use super::{
    LiveEvent, LiveRoom,
    epochs::{Commit, Next},
};
use crate::call::{
    live::{
        group::{
            Answer,
            messages::{self, OFFER, Piece, Step, Task},
        },
        link::Keys,
        roster::Change,
    },
    server::Fault,
};

/// Time for a committer between one piece of its answer and the next.
const ANSWER: Duration = Duration::from_secs(3);

/// A member that was asked for a commit, and what has come of it.
pub(super) struct Asked {
    committer: u16,
    next: Next,
    heard: Duration,
    answer: Vec<u8>,
    total: Option<u32>,
}

/// What leads a group to a roster.
#[derive(Default)]
struct Words {
    commit: Vec<u8>,
    welcome: Vec<u8>,
}

impl LiveRoom {
    /// Puts a member on the next roster when all has come that is needed for it.
    pub(super) fn list(&mut self, number: u16, now: Duration) {
        let Some(member) = self.members.get(&number).filter(|member| !member.waits) else { return };
        let Some((session, hello)) = &member.hello else { return };
        let offered = member.offer.as_ref().is_some_and(|(offered, _)| offered == session);
        if self.settings.keys == Keys::Link || offered {
            self.epochs.list(number, hello.clone(), now);
        }
    }

    /// Says the next roster, if it is due, or asks somebody to make it.
    pub(super) fn commit(&mut self, now: Duration) {
        let Some(next) = self.epochs.next(now) else { return };
        match self.settings.keys {
            Keys::Link => self.say(next, &[], None),
            Keys::Group => self.ask(next, now),
        }
    }

    /// Asks the host, if it is in the group, or who has been there longest. Where nobody is who stays, who comes founds a group.
    fn ask(&mut self, next: Next, now: Duration) {
        let stays = |number: &u16| {
            self.epochs.lists(*number) && !next.gone.contains(*number) && next.new.iter().all(|(new, _)| new != number)
        };
        let standing = self.members.iter().filter(|(number, member)| member.knows && stays(number));
        let committer = standing.min_by_key(|(number, member)| (!member.host, member.since, **number));
        if let Some((committer, _)) = committer {
            let committer = *committer;
            let bytes = self.task(&next).encode();
            self.events.push_back(LiveEvent::Send { members: vec![committer], bytes });
            self.asked = Some(Asked { committer, next, heard: now, answer: Vec::new(), total: None });
            return;
        }
        let joined = |number: u16| self.members.get(&number).map(|member| (!member.host, member.joined));
        let founder = next.new.iter().map(|(number, _)| *number).min_by_key(|number| (joined(*number), *number));
        match founder {
            Some(founder) => {
                let next = self.epochs.alone(next, founder, now);
                // whoever was in a group that is no more comes into this one later
                self.members.iter_mut().filter(|(number, _)| **number != founder).for_each(|(_, it)| it.knows = false);
                self.say(next, &[], Some(&Words::default()));
            }
            // nobody is left to tell
            None => self.say(next, &[], Some(&Words::default())),
        }
    }

    fn task(&self, next: &Next) -> Task {
        let change = Change {
            room: self.id,
            epoch: next.epoch,
            base: next.base,
            from: 0,
            gone: next.gone.clone(),
            new: next.new.clone(),
        };
        let offer = |number: &u16| self.members.get(number).and_then(|member| member.offer.as_ref());
        let offers = next.new.iter().map(|(number, _)| offer(number).map_or(Vec::new(), |(_, offer)| offer.clone()));
        Task { offers: offers.collect(), change }
    }

    /// Takes an offer, or a piece of an answer.
    pub(super) fn hear_group(&mut self, number: u16, bytes: &[u8], now: Duration) -> Result<(), Fault> {
        if bytes.get(1) != Some(&OFFER) {
            return self.hear_piece(number, bytes, now);
        }
        let limits = self.limits;
        let Some(member) = self.members.get_mut(&number) else { return Ok(()) };
        member.credit.spend(&limits, now)?;
        let (room, session) = messages::offer_head(bytes).ok_or(Fault::Offer)?;
        let is_again = member.offer.as_ref().is_some_and(|(offered, _)| *offered == session);
        if room != self.id || is_again {
            return Err(Fault::Offer);
        }
        member.offer = Some((session, bytes.to_vec()));
        self.list(number, now);
        Ok(())
    }

    fn hear_piece(&mut self, number: u16, bytes: &[u8], now: Duration) -> Result<(), Fault> {
        if !self.members.contains_key(&number) {
            return Ok(());
        }
        let asked = self.asked.as_mut().filter(|asked| asked.committer == number).ok_or(Fault::NotAsked)?;
        let piece = Piece::decode(bytes).ok_or(Fault::NotAsked)?;
        let total = *asked.total.get_or_insert(piece.total);
        let follows = piece.offset as usize == asked.answer.len() && piece.total == total;
        if piece.room != self.id || piece.epoch != asked.next.epoch || !follows {
            return Err(Fault::NotAsked);
        }
        asked.answer.extend_from_slice(&piece.bytes);
        asked.heard = now;
        if asked.answer.len() < total as usize {
            return Ok(());
        }
        let answer = Answer::decode(&asked.answer).ok_or(Fault::NotAsked)?;
        let new = |member: &u16| asked.next.new.iter().any(|(new, _)| new == member);
        let comes = asked.next.new.len() > answer.refused.len();
        if !answer.refused.iter().all(new) || comes == answer.welcome.is_empty() {
            return Err(Fault::NotAsked);
        }
        let Some(asked) = self.asked.take() else { return Ok(()) };
        self.say(asked.next, &answer.refused, Some(&Words { commit: answer.commit, welcome: answer.welcome }));
        answer.refused.iter().for_each(|member| self.remove(*member, Fault::Offer));
        Ok(())
    }

    /// When an answer that was asked for is due.
    pub(super) fn answer_due(&self) -> Option<Duration> {
        self.asked.as_ref().map(|asked| asked.heard + ANSWER)
    }

    /// Puts out who was asked and does not answer: the next is asked at once.
    pub(super) fn expire_answer(&mut self, now: Duration) {
        if self.answer_due().is_some_and(|due| due <= now)
            && let Some(asked) = &self.asked
        {
            self.remove(asked.committer, Fault::Idle { waited: ANSWER });
        }
    }

    /// If somebody is gone who was asked, another is to be.
    pub(super) fn is_gone(&mut self, number: u16, now: Duration) {
        if let Some(asked) = self.asked.take_if(|asked| asked.committer == number) {
            self.epochs.back(asked.next, now);
        }
    }

    /// Says a roster, with what leads a group there if there is one.
    fn say(&mut self, next: Next, refused: &[u16], words: Option<&Words>) {
        let taken = self.sums.ticks();
        let comes: MemberSet = {
            let mut set = MemberSet::default();
            next.new.iter().filter(|(number, _)| !refused.contains(number)).for_each(|(number, _)| {
                set.insert(*number);
            });
            set
        };
        let Commit { epoch, new, change, whole } = self.epochs.hold(self.id, next, refused, self.open, taken);
        let (mut know, mut newcomers) = (Vec::new(), Vec::new());
        for (number, member) in &mut self.members {
            if member.waits || !self.epochs.lists(*number) {
                continue;
            }
            // a new session comes into a group as a newcomer does
            if member.knows && !(words.is_some() && comes.contains(*number)) {
                know.push(*number);
            } else {
                newcomers.push(*number);
            }
            member.knows = true;
            if new.contains(number) {
                member.since.get_or_insert(epoch);
            }
        }
        let commit = words.map(|words| &words.commit[..]);
        let welcome = words.map(|words| &words.welcome[..]);
        for (members, roster, words) in [(know, change, commit), (newcomers, whole, welcome)] {
            if members.is_empty() {
                continue;
            }
            let bytes = match words {
                Some(words) => Step { room: self.id, words, roster: &roster }.encode(),
                None => roster,
            };
            self.events.push_back(LiveEvent::Send { members, bytes });
        }
    }
}
