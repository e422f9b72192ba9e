//! Drives a live room with arbitrary events, and checks its invariants.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    mask::Tag,
    wire::{self, LiveHeader, LivePacket, LivePayload},
};
use tobari_curve::wire::{RoomId, VERSION};

use super::{LiveEvent, LiveLimits, LiveRoom};
use crate::{
    TICK_MS,
    live::{
        PACKET_WORDS, SessionId,
        entry::{Proven, answer},
        group::{
            Answer,
            messages::{OFFER, STEP, Step, TASK, Task},
        },
        hello,
        keys::RoomKeys,
        link::{Keys, RoomLink, RoomSecret, Settings, mark_of},
        messages::{ClientMessage, Join, Nonce, RoomKey, Token},
        notes::{self, Hello, NOTE_BYTES},
        roster::Change,
    },
    server::Fault,
};

const ROOM: RoomId = RoomId([9; 8]);
const TOKEN: [u8; 16] = [5; 16];

/// Drives a room with any actions of members at any time, with keys from the link or of a group.
/// Nothing panics. Ticks close in order. A sum holds exactly the accepted packets, one of each
/// member, all of its tick's epoch and of members on its roster. Members that wait or have left get
/// nothing. The changes of rosters add up to the members that are there.
pub fn fuzz_live_room(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let first = bytes.next().unwrap_or(0);
    let host = (first & 3 != 0).then(|| mark_of(&TOKEN));
    let keys = if first & 8 == 0 { Keys::Link } else { Keys::Group };
    let speakers = u16::from(first >> 4) + 1;
    let settings = Settings { lobby: first & 2 != 0, host, speakers, keys, ..Settings::default() };
    // a window shorter than the time from sending a roster to its effect, or longer
    let window = if first & 4 == 0 { 4 } else { 24 };
    let limits = LiveLimits { window, members: 12, lobby: 3, hello: Duration::from_secs(2), ..LiveLimits::default() };
    let Ok(name) = "fuzz".parse() else { return };
    let link = RoomLink { server: String::new(), room: name, settings, secret: RoomSecret([3; 32]), host: None };
    let join = answer(&link, true, Nonce([0; 16]));
    let Ok(room) = LiveRoom::open(ROOM, &Proven::unchecked(join.clone()), limits, Duration::ZERO) else { return };
    let (model, tasks) = (Model::default(), BTreeMap::new());
    let mut driver = Driver { room, keys: RoomKeys::new(&link), join, now: Duration::ZERO, said: 0, model, tasks };
    while let (Some(what), Some(which)) = (bytes.next(), bytes.next()) {
        driver.happen(what, which);
        driver.follow();
    }
}

/// The expected state.
#[derive(Default)]
struct Model {
    inside: BTreeSet<u16>,
    waiting: BTreeSet<u16>,
    ticks: u32,
    /// For each member that has a roster: the last epoch, and the members on it.
    rosters: BTreeMap<u16, (u32, BTreeSet<u16>)>,
}

struct Driver {
    room: LiveRoom,
    keys: RoomKeys,
    join: Join,
    /// How many hellos were sent: each is of another session, except in some events.
    said: u128,
    now: Duration,
    model: Model,
    /// The members that were asked for a commit, and their tasks.
    tasks: BTreeMap<u16, Task>,
}

impl Driver {
    fn happen(&mut self, what: u8, which: u8) {
        let member = u16::from(which % 16);
        match what % 10 {
            0 => self.enter(which),
            1..=3 => self.send(member, which, what),
            4 if what >= 240 => self.offer(member, which / 16),
            4 if what >= 200 => self.answer(which),
            4 => {
                self.note(member, which / 16);
                self.offer(member, which / 16);
            }
            5 => self.say(member, which),
            6 | 7 => self.now += Duration::from_millis(TICK_MS / 2 * u64::from(which)),
            8 if which < 64 => self.room.leave(member, self.now),
            8 => self.room.remove(member, Fault::Slow),
            _ if which == 255 => self.room.close(self.now, self.now + Duration::from_secs(1)),
            _ => self.now += Duration::from_millis(1),
        }
        let gone: Vec<u16> = self.model.inside.union(&self.model.waiting).copied().collect();
        for member in gone.into_iter().filter(|member| !self.room.members.contains_key(member)) {
            self.model.inside.remove(&member);
            self.model.waiting.remove(&member);
            self.model.rosters.remove(&member);
            self.tasks.remove(&member);
        }
    }

    /// Sends the offer that belongs to a hello, if the members agree on keys.
    fn offer(&mut self, member: u16, session: u8) {
        let offered = self.room.members.get(&member).map(|member| member.offer.as_ref().map(|(session, _)| session.0));
        // a second offer of one session removes its sender: do not send one each time
        if self.join.settings.keys == Keys::Group
            && offered.is_some_and(|it| session == 15 || it != Some([session; 16]))
        {
            let presented = self.room.members.get(&member).and_then(|member| member.hello.as_ref());
            let session = presented.map_or([session; 16], |(session, _)| session.0);
            let head = [&[VERSION, OFFER][..], &ROOM.0, &session, &[0; 17]].concat();
            self.room.note(member, &head, self.now);
        }
    }

    /// The first committer answers: it accepts all, refuses the last, or sends an invalid answer.
    fn answer(&mut self, how: u8) {
        let Some((member, task)) = self.tasks.pop_first() else { return };
        let new: Vec<u16> = task.change.new.iter().map(|(new, _)| *new).collect();
        let refused: Vec<u16> = new.iter().rev().take(usize::from(how & 1)).copied().collect();
        let welcome = if new.len() > refused.len() { vec![2; 20_000] } else { Vec::new() };
        let epoch = task.change.epoch + u32::from(how & 14 == 14);
        for piece in (Answer { refused, commit: vec![1], welcome }).pieces(ROOM, epoch) {
            self.room.note(member, &piece, self.now);
        }
    }

    fn enter(&mut self, how: u8) {
        let token = match how & 12 {
            12 => Some(Token(TOKEN)),
            8 => Some(Token([1; 16])),
            _ => None,
        };
        let settings = if how & 16 == 0 { self.join.settings } else { Settings::default() };
        let key = if how & 32 == 0 { self.join.key } else { RoomKey([4; 32]) };
        let join = Join { settings, speak: how & 1 == 0, token, key, ..self.join.clone() };
        let before = self.room.members();
        let entered = self.room.join(&Proven::unchecked(join.clone()), self.now);
        let Ok(welcome) = entered else { return assert_eq!(self.room.members(), before) };
        assert!(welcome.tick == self.model.ticks && join.settings == self.join.settings && join.key == self.join.key);
        assert!(!welcome.waiting || join.settings.lobby && token.is_none());
        let set = if welcome.waiting { &mut self.model.waiting } else { &mut self.model.inside };
        assert!(set.insert(welcome.member), "a number that somebody has");
    }

    fn send(&mut self, member: u16, which: u8, what: u8) {
        let ahead = u32::from(which / 16) % 8 * (self.room.limits.window / 4);
        let tick = (self.model.ticks + ahead).saturating_sub(2);
        let epoch = self.room.epochs.of(tick).unwrap_or(1) + u32::from(what >= 200);
        let payload = LivePayload::zero(self.room.layout, PACKET_WORDS);
        let header = LiveHeader { room: ROOM, member, epoch, tick };
        self.room.packet(&LivePacket { header, tag: Tag::default(), payload });
    }

    /// A member presents itself, correctly under a new session or incorrectly; or it sends a note.
    fn note(&mut self, member: u16, how: u8) {
        let current =
            self.room.members.get(&member).and_then(|member| member.hello.as_ref().map(|(session, _)| *session));
        if how == 14 || how == 13 && current.is_some() {
            let mut note = vec![0; NOTE_BYTES];
            note[..2].copy_from_slice(&[VERSION, notes::KIND]);
            note[2..10].copy_from_slice(&ROOM.0);
            note[10..26].copy_from_slice(&current.filter(|_| how == 13).unwrap_or(SessionId([1; 16])).0);
            return self.room.note(member, &note, self.now);
        }
        self.said += u128::from(how != 12);
        let session = SessionId(self.said.to_be_bytes());
        let said = Hello { member: member + u16::from(how == 11), speaks: how & 1 == 0, name: String::new() };
        let Some(mut bytes) = hello::write(&self.keys, ROOM, session, &said) else { return };
        bytes[100] ^= u8::from(how == 10);
        self.room.note(member, &bytes, self.now);
    }

    fn say(&mut self, member: u16, which: u8) {
        let other = u16::from(which / 16);
        let message = match which % 7 {
            6 => ClientMessage::Behind { epoch: self.room.epochs.last().saturating_sub(u32::from(which >> 7)) },
            0 => ClientMessage::Hand { raised: which & 16 == 0 },
            1 => ClientMessage::Admit { member: other },
            2 => ClientMessage::Mute { member: other, muted: which & 1 == 0 },
            3 => ClientMessage::Grant { member: other, speak: which & 1 == 1 },
            4 => ClientMessage::Eject { member: other },
            _ => ClientMessage::Join(self.join.clone()),
        };
        self.room.message(member, &message, self.now);
        let admitted: Vec<u16> = self.model.waiting.iter().copied().collect();
        for member in admitted {
            if self.room.members.get(&member).is_some_and(|found| !found.waits) {
                self.model.waiting.remove(&member);
                self.model.inside.insert(member);
            }
        }
    }

    fn follow(&mut self) {
        let mut count = 0;
        while let Some(event) = self.room.poll(self.now) {
            count += 1;
            assert!(count < 20_000, "it never ends");
            match event {
                LiveEvent::Closed { tick, packets, late, sum, members } => {
                    assert_eq!(tick, self.model.ticks);
                    self.model.ticks += 1;
                    assert!(members.iter().all(|member| !self.model.waiting.contains(member)));
                    assert_eq!(sum.is_some(), packets + late > 0);
                    if let Some(sum) = sum {
                        self.closed(tick, packets, &sum);
                    }
                }
                LiveEvent::Send { members, bytes } => self.sent(&members, &bytes),
                LiveEvent::Tell { .. } => {}
                LiveEvent::Removed { member, fault } => {
                    assert!(
                        fault != Fault::Internal,
                        "member {member} is put out for what is nobody's fault but the room's"
                    );
                    let gone = !self.room.members.contains_key(&member);
                    assert!(gone, "a member that was removed is there");
                    self.model.inside.remove(&member);
                    self.model.waiting.remove(&member);
                    self.model.rosters.remove(&member);
                }
            }
        }
        assert!(self.room.sums.ticks() <= self.room.limits.window && self.room.members.len() <= 12);
        let speakers = self.room.speakers();
        assert!(speakers <= self.join.settings.speakers.into(), "{speakers} speak");
        assert!(self.room.deadline().is_none_or(|deadline| deadline > self.now), "something is due and was not told");
    }

    fn closed(&mut self, tick: u32, packets: usize, sum: &[u8]) {
        let Ok(sum) = wire::decode_live_sum(self.room.layout, sum) else { panic!("a sum that does not decode") };
        assert_eq!((sum.tick, sum.speakers.len()), (tick, packets));
        assert!(packets == 0 || sum.epoch > 0);
        assert!(sum.payload == LivePayload::zero(self.room.layout, PACKET_WORDS));
    }

    fn sent(&mut self, members: &[u16], bytes: &[u8]) {
        if bytes[1] == TASK {
            let Some(task) = Task::decode(bytes) else { panic!("a task that is none") };
            let asked = members.first().filter(|asked| members.len() == 1 && self.room.members.contains_key(asked));
            let Some(asked) = asked else { return };
            assert!(!task.change.gone.contains(*asked) && task.change.new.iter().all(|(new, _)| new != asked));
            self.tasks.insert(*asked, task);
            return;
        }
        let step = if bytes[1] == STEP { Step::decode(bytes) } else { None };
        let roster = step.as_ref().map_or(bytes, |step| step.roster);
        let Some(change) = Change::decode(roster) else {
            return assert!(notes::head_of(bytes).is_some() || hello::head_of(bytes).is_some());
        };
        assert_eq!(step.is_some(), self.join.settings.keys == Keys::Group);
        if let Some(step) = step {
            // a commit to earlier members, a welcome to new ones, nothing to a founder
            let alone = step.words.is_empty() && change.base == 0 && change.new.len() == 1;
            assert!(alone || (step.words.len() == 1) == (change.base > 0));
        }
        for member in members.iter().filter(|member| self.model.inside.contains(member)) {
            let known = self.model.rosters.remove(member);
            let (epoch, mut listed) = known.filter(|_| change.base > 0).unwrap_or_default();
            assert_eq!(epoch, change.base, "member {member} cannot follow");
            listed.retain(|listed| !change.gone.contains(*listed));
            listed.extend(change.new.iter().map(|(new, _)| *new));
            assert!(listed.contains(member), "member {member} hears of a roster without it");
            self.model.rosters.insert(*member, (change.epoch, listed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fuzz_live_room;
    use chacha20::{
        ChaCha20Rng,
        rand_core::{Rng, SeedableRng},
    };

    #[test]
    fn sequences_that_matter_do_not_break_a_live_room() {
        for data in [
            // two join, present themselves, speak before and after their roster takes effect, one
            // leaves
            &[0xf0, 0, 0, 0, 0, 0, 4, 0x10, 4, 0x21, 6, 4, 1, 0x30, 6, 100, 1, 0x30, 2, 0x31, 6, 4, 8, 1, 6, 200][..],
            // a lobby: a host, a member that waits and is admitted, and one that is removed
            &[0xf3, 0, 0, 12, 0, 0, 4, 0x10, 4, 0x21, 5, 0x13, 6, 200, 5, 0x10, 6, 100, 5, 0x1c, 6, 100],
            // keys of a group: one founds, one joins and speaks, and the founder leaves
            &[
                0xf8, 0, 0, 0, 0, 4, 0x10, 4, 0x21, 6, 110, 204, 0, 6, 100, 1, 0x31, 8, 0, 6, 100, 0, 0, 4, 0x32, 6,
                110, 204, 0, 6, 50,
            ],
            // a committer is silent, refuses an offer, answers another task
            &[
                0xf8, 0, 0, 0, 0, 4, 0x10, 4, 0x21, 6, 255, 6, 255, 0, 0, 4, 0x32, 6, 110, 204, 1, 0, 0, 4, 0x43, 6,
                110, 204, 14, 6, 50,
            ],
            // nobody presents itself
            &[0xf0, 0, 0, 0, 6, 250, 6, 250],
            // one place to speak, and hands
            &[0x00, 0, 0, 0, 0, 1, 4, 0x10, 4, 0x21, 5, 0, 5, 1, 6, 200, 1, 0x31, 5, 0x13, 6, 200],
            // the server closes
            &[0xf0, 0, 0, 0, 4, 0x10, 9, 255, 0, 0, 6, 200],
        ] {
            fuzz_live_room(data);
        }
    }

    #[test]
    fn noise_does_not_break_a_live_room() {
        let mut rng = ChaCha20Rng::from_seed([6; 32]);
        for length in (0..1500).map(|round| round % 300) {
            let mut data = vec![0; length];
            rng.fill_bytes(&mut data);
            if length > 30 {
                if length % 3 == 0 {
                    data[0] |= 8;
                }
                let start = [0, 12, 0, 0, 0, 1, 4, 0x10, 4, 0x21, 4, 0x32];
                data[0] |= if length % 2 == 0 { 4 } else { 0 };
                data[1..=start.len()].copy_from_slice(&start);
            }
            fuzz_live_room(&data);
        }
    }
}
