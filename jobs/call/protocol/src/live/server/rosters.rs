//! Makes the next roster: this server does it alone, or asks a member for a commit.

use std::{collections::BTreeSet, time::Duration};

use tobari_curve::wire::MemberSet;

use super::{
    LiveEvent, LiveRoom, Member,
    epochs::{Commit, Next, PARTING},
};
use crate::{
    live::{
        group::{
            Answer,
            messages::{self, OFFER, Piece, Step, Task},
        },
        link::Keys,
        messages::ServerMessage,
        roster::{Change, Form},
    },
    server::Fault,
};

/// Time for a committer between one piece of its answer and the next.
const ANSWER: Duration = Duration::from_secs(3);
/// Time for the whole answer. Otherwise a committer that sends one byte now and then would keep out
/// all new members.
const WHOLE_ANSWER: Duration = Duration::from_secs(10);
/// How many rosters are kept with the member that made them.
const LED: usize = 4;

/// A member that was asked for a commit, and its answer so far.
pub(super) struct Asked {
    committer: u16,
    next: Next,
    since: Duration,
    heard: Duration,
    answer: Vec<u8>,
    total: Option<u32>,
}

/// A roster that a member has made.
pub(super) struct Led {
    epoch: u32,
    committer: u16,
    /// The members that got it, without the committer.
    told: BTreeSet<u16>,
    /// The members of these that could not follow it.
    lost: BTreeSet<u16>,
}

/// The message that leads a group to a roster.
#[derive(Default)]
struct Words {
    commit: Vec<u8>,
    welcome: Vec<u8>,
}

impl LiveRoom {
    /// Puts a member on the next roster once its hello is there, and its offer if one is needed.
    pub(super) fn list(&mut self, number: u16, now: Duration) {
        let Some(member) = self.members.get(&number).filter(|member| !member.waits) else { return };
        let Some((session, hello)) = &member.hello else { return };
        let offered = member.offer.as_ref().is_some_and(|(offered, _)| offered == session);
        if self.settings.keys == Keys::Link || offered {
            self.epochs.list(number, hello.clone(), now);
        }
    }

    /// Sends the next roster, if it is due, or asks a member to make it.
    pub(super) fn commit(&mut self, now: Duration) {
        let Some(next) = self.epochs.next(now) else { return };
        match self.settings.keys {
            Keys::Link => self.say(next, &[], None, None),
            Keys::Group => self.ask(next, now),
        }
    }

    /// Asks a member that stays for a commit. It prefers a member that has refused none of the new
    /// members, then one with fewer complaints about its commits, then the host, then the member
    /// that has been there longest. If no member stays, a new member founds a group.
    fn ask(&mut self, next: Next, now: Duration) {
        let stays = |number: &u16| {
            self.epochs.lists(*number) && !next.gone.contains(*number) && next.new.iter().all(|(new, _)| new != number)
        };
        let standing = self.members.iter().filter(|(number, member)| member.knows && stays(number));
        let has_refused = |number: u16| next.new.iter().any(|(new, _)| self.refuser_of(*new) == Some(number));
        let committer = standing.min_by_key(|(number, member)| {
            (has_refused(**number), member.complaints, !member.host, member.since, **number)
        });
        if let Some((committer, _)) = committer {
            let committer = *committer;
            let bytes = self.task(&next).encode();
            self.events.push_back(LiveEvent::Send { members: vec![committer], bytes });
            self.asked = Some(Asked { committer, next, since: now, heard: now, answer: Vec::new(), total: None });
            return;
        }
        let joined =
            |number: u16| self.members.get(&number).map(|member| (member.complaints, !member.host, member.joined));
        let founder = next.new.iter().map(|(number, _)| *number).min_by_key(|number| (joined(*number), *number));
        match founder {
            Some(founder) => {
                let stay: Vec<u16> = self.members.keys().copied().filter(|number| stays(number)).collect();
                let next = self.epochs.alone(next, founder, &stay, now);
                // members of the former group join this one later
                self.members.iter_mut().filter(|(number, _)| **number != founder).for_each(|(_, it)| it.knows = false);
                self.say(next, &[], Some(&Words::default()), None);
                // members that are still in the old group must begin another session
                stay.into_iter().for_each(|number| self.tell(number, ServerMessage::Again {}));
            }
            // the server waits for members that are about to begin another session
            None if self.members.keys().any(stays) => self.epochs.back(next, now + PARTING),
            // nobody is left to tell
            None => self.say(next, &[], Some(&Words::default()), None),
        }
    }

    /// The member that has refused this member's offer, if that member is still there.
    fn refuser_of(&self, number: u16) -> Option<u16> {
        self.members.get(&number)?.refused_by.filter(|by| self.members.contains_key(by))
    }

    /// A member could not follow the commit of an epoch, or the task that it was given. The server
    /// no longer asks it for commits, and asks the maker of that commit after all others. If most
    /// members could not follow a commit, and two at least, the server removes its maker, and all
    /// begin again.
    pub(super) fn cannot_follow(&mut self, number: u16, epoch: u32, now: Duration) {
        if let Some(asked) = self.asked.take_if(|asked| asked.committer == number) {
            self.epochs.back(asked.next, now);
        }
        let Some(led) = self.led.iter_mut().find(|led| led.epoch == epoch) else { return };
        if !led.told.contains(&number) || !led.lost.insert(number) {
            return;
        }
        let (committer, lost, told) = (led.committer, led.lost.clone(), led.told.clone());
        if let Some(member) = self.members.get_mut(&committer) {
            member.complaints = member.complaints.saturating_add(1);
        }
        // in a room of two it is one member's word against the other's
        if lost.len() < 2 || 2 * lost.len() <= told.len() || !self.members.contains_key(&committer) {
            return;
        }
        for number in told {
            if self.members.get_mut(&number).is_some_and(|member| std::mem::take(&mut member.knows)) {
                self.tell(number, ServerMessage::Again {});
            }
        }
        self.remove(committer, Fault::Commit);
    }

    fn task(&self, next: &Next) -> Task {
        let change = Change {
            form: Form::Signed,
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
        let words = Words { commit: answer.commit, welcome: answer.welcome };
        self.say(asked.next, &answer.refused, Some(&words), Some(number));
        answer.refused.iter().for_each(|member| self.refused(*member, number, now));
        Ok(())
    }

    /// A committer reports an invalid offer. The server removes the sender of the offer if another
    /// member reports it too, or if there is no other member to ask.
    fn refused(&mut self, number: u16, by: u16, now: Duration) {
        let other = |(other, member): (&u16, &Member)| ![number, by].contains(other) && member.knows;
        let is_the_first = self.refuser_of(number).is_none_or(|before| before == by) && self.members.iter().any(other);
        let Some(member) = self.members.get_mut(&number) else { return };
        if !is_the_first {
            return self.remove(number, Fault::Offer);
        }
        (member.refused_by, member.knows, member.since) = (Some(by), false, None);
        if let Some((_, hello)) = member.hello.clone() {
            self.epochs.again(number, hello, now);
        }
    }

    /// The time at which the answer of a committer is due.
    pub(super) fn answer_due(&self) -> Option<Duration> {
        self.asked.as_ref().map(|asked| (asked.heard + ANSWER).min(asked.since + WHOLE_ANSWER))
    }

    /// Removes a committer that does not answer in time. The next one is asked at once.
    pub(super) fn expire_answer(&mut self, now: Duration) {
        if self.answer_due().is_some_and(|due| due <= now)
            && let Some(asked) = &self.asked
        {
            self.remove(asked.committer, Fault::Idle { waited: ANSWER });
        }
    }

    /// If the committer has left, another one is to be asked.
    pub(super) fn is_gone(&mut self, number: u16, now: Duration) {
        if let Some(asked) = self.asked.take_if(|asked| asked.committer == number) {
            self.epochs.back(asked.next, now);
        }
    }

    /// Sends a roster, with the message that leads a group there if there is one.
    fn say(&mut self, next: Next, refused: &[u16], words: Option<&Words>, committer: Option<u16>) {
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
            // a new session joins a group like a new member
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
        if let Some(committer) = committer {
            let come = newcomers.iter().filter(|number| comes.contains(**number));
            let told = know.iter().chain(come).copied().filter(|number| *number != committer).collect();
            self.led.push_back(Led { epoch, committer, told, lost: BTreeSet::new() });
            if self.led.len() > LED {
                self.led.pop_front();
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
