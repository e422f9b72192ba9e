//! Drives a live room with arbitrary events, and holds it to its invariants.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tobari_core::{
    mask::Tag,
    wire::{self, LiveHeader, LivePacket, LivePayload, RoomId},
};

use super::{LiveEvent, LiveLimits, LiveRoom};
use crate::call::{
    TICK_MS,
    live::{
        PACKET_WORDS,
        link::{Settings, mark_of},
        messages::{ClientMessage, Join, Token, VERSION},
        notes::{self, NOTE_BYTES},
        roster::Change,
    },
    server::Fault,
};

const ROOM: RoomId = RoomId([9; 8]);
const TOKEN: [u8; 16] = [5; 16];

/// Whatever members do and whenever: nothing panics; ticks close in order; a sum holds exactly the packets that were taken, each member's once,
/// all of its tick's epoch and of members on its roster; who waits or is gone hears nothing; rosters add up to who is there.
pub fn fuzz_live_room(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let first = bytes.next().unwrap_or(0);
    let host = (first & 3 != 0).then(|| mark_of(&TOKEN));
    let settings = Settings { lobby: first & 2 != 0, host, speakers: u16::from(first >> 4) + 1, ..Settings::default() };
    let limits =
        LiveLimits { window: 4, members: 12, lobby: 3, hello: Duration::from_secs(2), ..LiveLimits::default() };
    let join = Join { version: VERSION, settings, speak: true, token: None };
    let Ok(room) = LiveRoom::open(ROOM, &join, limits, Duration::ZERO) else { return };
    let mut driver = Driver { room, join, now: Duration::ZERO, model: Model::default() };
    while let (Some(what), Some(which)) = (bytes.next(), bytes.next()) {
        driver.happen(what, which);
        driver.follow();
    }
}

/// What is to be expected.
#[derive(Default)]
struct Model {
    inside: BTreeSet<u16>,
    waiting: BTreeSet<u16>,
    ticks: u32,
    /// For each member that has a roster: the last epoch, and who is on it.
    rosters: BTreeMap<u16, (u32, BTreeSet<u16>)>,
}

struct Driver {
    room: LiveRoom,
    join: Join,
    now: Duration,
    model: Model,
}

impl Driver {
    fn happen(&mut self, what: u8, which: u8) {
        let member = u16::from(which % 16);
        match what % 10 {
            0 => self.enter(which),
            1..=3 => self.send(member, which, what),
            4 => self.note(member, which / 16),
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
        }
    }

    fn enter(&mut self, how: u8) {
        let token = match how & 12 {
            12 => Some(Token(TOKEN)),
            8 => Some(Token([1; 16])),
            _ => None,
        };
        let settings = if how & 16 == 0 { self.join.settings } else { Settings::default() };
        let join = Join { settings, speak: how & 1 == 0, token, ..self.join.clone() };
        let before = self.room.members();
        let Ok(welcome) = self.room.join(&join, self.now) else { return assert_eq!(self.room.members(), before) };
        assert!(welcome.tick == self.model.ticks && join.settings == self.join.settings);
        assert!(!welcome.waiting || join.settings.lobby && token.is_none());
        let set = if welcome.waiting { &mut self.model.waiting } else { &mut self.model.inside };
        assert!(set.insert(welcome.member), "a number that somebody has");
    }

    fn send(&mut self, member: u16, which: u8, what: u8) {
        let tick = (self.model.ticks + u32::from(which / 16) % 8).saturating_sub(2);
        let epoch = self.room.epochs.of(tick).unwrap_or(1) + u32::from(what >= 200);
        let payload = LivePayload::zero(self.room.layout, PACKET_WORDS);
        let header = LiveHeader { room: ROOM, member, epoch, tick };
        self.room.packet(&LivePacket { header, tag: Tag::default(), payload });
    }

    fn note(&mut self, member: u16, session: u8) {
        let mut note = vec![0; NOTE_BYTES];
        note[..2].copy_from_slice(&[wire::VERSION, notes::KIND]);
        note[2..10].copy_from_slice(&ROOM.0);
        note[10..26].fill(session);
        note[26] = member as u8;
        self.room.note(member, &note, self.now);
    }

    fn say(&mut self, member: u16, which: u8) {
        let other = u16::from(which / 16);
        let message = match which % 6 {
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
                LiveEvent::Removed { member, .. } => {
                    let gone = !self.room.members.contains_key(&member);
                    assert!(gone, "a member that was removed is there");
                    self.model.inside.remove(&member);
                    self.model.waiting.remove(&member);
                    self.model.rosters.remove(&member);
                }
            }
        }
        assert!(self.room.sums.len() <= 4 && self.room.members.len() <= 12);
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
        let Some(change) = Change::decode(bytes) else { return assert!(notes::head_of(bytes).is_some()) };
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
            // two come, present themselves, speak before and after their roster holds, one leaves
            &[0xf0, 0, 0, 0, 0, 0, 4, 0x10, 4, 0x21, 6, 4, 1, 0x30, 6, 100, 1, 0x30, 2, 0x31, 6, 4, 8, 1, 6, 200][..],
            // a lobby: a host, one who waits, is admitted, and one who is put out
            &[0xf3, 0, 0, 12, 0, 0, 4, 0x10, 4, 0x21, 5, 0x13, 6, 200, 5, 0x10, 6, 100, 5, 0x1c, 6, 100],
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
                let start = [0, 12, 0, 0, 0, 1, 4, 0x10, 4, 0x21, 4, 0x32];
                data[1..=start.len()].copy_from_slice(&start);
            }
            fuzz_live_room(&data);
        }
    }
}
