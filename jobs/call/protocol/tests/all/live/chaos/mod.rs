//! A room whose members join and leave all the time, in simulated time that passes as fast as the
//! computation allows: `cargo xtask soak call-accelerated`.
//!
//! **Events.** Members join, stay a while, leave or vanish, and join again; the server notices
//! vanished members some seconds later. Some of their packets are lost, some arrive twice, and each
//! takes its own time, so packets overtake one another. Every few minutes the server is killed, or
//! stopped in good order, or all members go home. The next room may be one whose members agree on
//! keys. Every fourth minute the server is dishonest: it changes one of every four sums.
//!
//! **Checks.** Each decrypted sum is compared with the samples that its listed speakers sent in its
//! tick. Every member that could decrypt a changed sum must reject it. No member goes without sums
//! for long, no member is removed, an honest server causes no alarm, and a room that all members
//! have left is gone.
//!
//! **Listeners.** Decrypting a sum costs as much as all other work of a tick, so only some members
//! decrypt each sum. A few hear every tick and compare histories; the others hear one tick now and
//! then, as on a bad line. All members send in every tick.

#![allow(clippy::print_stdout, reason = "figures of the soak are printed")]

mod figures;
mod guest;

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    time::Instant,
};

use chacha20::rand_core::Rng;
use tobari_call::live::messages::{ServerMessage, Welcome};
use tobari_call::live::{Keys, LiveEvent, LiveLimits, LiveRoom, OneByOne, PACKET_WORDS, attack, group};
use tobari_call::{
    mask::Tag,
    wire::{LiveLayout, LivePacket, LivePayload},
};
use tobari_curve::wire::{MemberSet, RoomId};

use self::{
    figures::{Counts, grows, resident_kb},
    guest::{Down, Guest, SpokenSamples, voice},
};
use crate::live::*;

/// Ticks in a second.
const SECOND: u64 = 50;
/// Per thousand packets: how many are lost, arrive twice, or take long. Per thousand sums: how many
/// are lost.
const LOST: u32 = 50;
const TWICE: u32 = 10;
const SLOW: u32 = 20;
const LOST_SUMS: u32 = 20;
/// Per thousand joins: how many only listen. Per thousand ticks: in how many such a listener raises
/// or lowers its hand.
const LISTEN: u32 = 60;
const HAND: u32 = 2;
/// Per thousand sums in a dishonest minute: how many are changed.
const FORGED: u32 = 250;
/// Ticks for which a dishonest server keeps the packets.
const KEPT: u32 = 40;
/// Ticks, at most, until the server notices a vanished member, and until a member joins again. For
/// the server's life: the shortest, and how much longer it can be.
const NOTICED: u64 = 5 * SECOND;
const RESTS: u64 = 3 * SECOND;
const LIVES: (u64, u64) = (60 * SECOND, 120 * SECOND);
/// One of `GROUPS` lives of the server has a room whose members agree on keys: the first, because
/// it takes the most memory.
const GROUPS: u64 = 4;
/// How often memory is sampled, in ticks.
const LOOK: u64 = 10 * SECOND;

fn time(ticks: u64) -> Duration {
    Duration::from_millis(20 * ticks)
}

/// The times of a room, by the source of its keys.
struct Pace {
    /// Ticks for which a member stays: at least, and how much longer at most. A commit of a group
    /// costs each of its members a millisecond or two.
    stays: (u64, u64),
    /// Ticks for which a present member may hear nothing. In a group the server may ask several
    /// members in turn for a commit that have just vanished.
    patience: u64,
}

const LINKED: Pace = Pace { stays: (4 * SECOND, 16 * SECOND), patience: 4 * SECOND };
const AGREED: Pace = Pace { stays: (30 * SECOND, 240 * SECOND), patience: 15 * SECOND };

fn pace(keys: Keys) -> &'static Pace {
    if keys == Keys::Group { &AGREED } else { &LINKED }
}

/// Random decisions.
trait Dice {
    fn below(&mut self, most: u64) -> u64;
    fn one_of(&mut self, in_a_thousand: u32) -> bool;
}

impl Dice for ChaCha20Rng {
    fn below(&mut self, most: u64) -> u64 {
        self.next_u64() % most
    }

    fn one_of(&mut self, in_a_thousand: u32) -> bool {
        self.next_u32() % 1000 < in_a_thousand
    }
}

/// A packet in transit, and its sender.
type Flying = (u16, Rc<Vec<u8>>);

enum Place {
    Away { until: u64 },
    Here(Box<Guest>),
}

/// How a life of the server ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    Stopped,
    Emptied,
}

struct Chaos {
    seed: u64,
    rng: ChaCha20Rng,
    /// One link for each kind of keys.
    links: Vec<RoomLink>,
    now: u64,
    places: Vec<Place>,
    /// About how many members decrypt a sum.
    ears: usize,
    /// The place of each member, by member number.
    seats: BTreeMap<u16, usize>,
    room: Option<LiveRoom>,
    id: RoomId,
    keys: Keys,
    /// When and how this life of the server ends, and whether it is ending already.
    ends: (u64, End),
    closing: bool,
    /// Vanished members, and when the server notices each.
    ghosts: Vec<(u64, u16)>,
    /// Packets in transit, by arrival tick.
    flying: BTreeMap<u64, Vec<Flying>>,
    /// The spoken samples, by tick and member number.
    said: SpokenSamples,
    /// The packets that the server received.
    taken: BTreeMap<(u32, u16), LivePacket>,
    counts: Counts,
}

impl Chaos {
    fn new(members: usize, ears: usize, seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let kinds = if group::HAS_GROUPS { &[Keys::Link, Keys::Group][..] } else { &[Keys::Link] };
        // a vanished member also has a place, until the server notices
        let speakers = 2 * members as u16;
        let settings = |keys: &Keys| Settings { keys: *keys, speakers, ..Settings::default() };
        let links =
            kinds.iter().map(|keys| RoomLink::new("http://h", "room".parse().unwrap(), settings(keys), &mut rng));
        let links = links.collect();
        let places = (0..members).map(|_| Place::Away { until: 0 }).collect();
        let mut chaos = Self {
            seed,
            rng,
            links,
            now: 0,
            places,
            ears,
            seats: BTreeMap::new(),
            room: None,
            id: ROOM,
            keys: Keys::Link,
            ends: (0, End::Killed),
            closing: false,
            ghosts: Vec::new(),
            flying: BTreeMap::new(),
            said: BTreeMap::new(),
            taken: BTreeMap::new(),
            counts: Counts::default(),
        };
        chaos.begin();
        chaos
    }

    /// Starts a new life of the server, without memory of the last.
    fn begin(&mut self) {
        let life = self.counts.lives;
        self.counts.lives += 1;
        self.rng.fill_bytes(&mut self.id.0);
        let agrees = life.is_multiple_of(GROUPS);
        self.keys = self.links.last().filter(|_| agrees).map_or(Keys::Link, |link| link.settings.keys);
        self.counts.groups += u64::from(self.keys == Keys::Group);
        let end = [End::Killed, End::Emptied, End::Killed, End::Stopped, End::Killed][(life % 5) as usize];
        self.ends = (self.now + LIVES.0 + self.rng.below(LIVES.1), end);
        self.closing = false;
        (self.room, self.ghosts) = (None, Vec::new());
        self.seats.clear();
        self.flying.clear();
        self.said.clear();
        self.taken.clear();
        for place in &mut self.places {
            *place = Place::Away { until: self.now + self.rng.below(RESTS) };
        }
    }

    fn link(&self) -> &RoomLink {
        self.links.iter().find(|link| link.settings.keys == self.keys).unwrap()
    }

    fn fault(&mut self, what: &str) {
        let (seconds, life) = (self.now / SECOND, self.counts.lives);
        self.counts.fault(format!("{seconds} s, life {life}, {:?}: {what}", self.keys));
    }

    /// Advances time by 20 ms.
    fn tick(&mut self) {
        self.end();
        self.come_and_go();
        self.speak();
        self.arrive();
        self.now += 1;
        self.follow();
        self.hear();
        self.look();
    }

    /// Ends the server's life when its time is reached.
    fn end(&mut self) {
        let (at, end) = self.ends;
        if self.now < at {
            return;
        }
        if !self.closing {
            self.counts.ends[end as usize] += 1;
            if end == End::Killed {
                return self.begin();
            }
            self.closing = true;
            let now = self.now;
            match &mut self.room {
                Some(room) if end == End::Stopped => room.close(time(now), time(now + 2 * SECOND)),
                _ => self.places.iter_mut().for_each(|place| {
                    if let Place::Here(guest) = place {
                        guest.until = guest.until.min(now + self.rng.below(2 * SECOND));
                    }
                }),
            }
        } else if self.room.as_ref().is_none_or(LiveRoom::is_over) {
            self.begin();
        } else if self.now > at + 10 * SECOND {
            let members = self.room.as_ref().map_or(0, LiveRoom::members);
            self.counts.remained += members as u64;
            self.fault(&format!("a room with {members} members is still there"));
            self.begin();
        }
    }

    fn come_and_go(&mut self) {
        for place in 0..self.places.len() {
            match &self.places[place] {
                Place::Away { until } if *until <= self.now && !self.closing => self.come(place),
                Place::Here(guest) if guest.until <= self.now => self.go(place),
                _ => {}
            }
        }
        let Some(room) = &mut self.room else { return };
        let now = self.now;
        self.ghosts.retain(|(until, number)| {
            let noticed = *until <= now;
            if noticed {
                room.leave(*number, time(now));
            }
            !noticed
        });
        // the next member to join opens another room
        if room.is_over() && !self.closing {
            self.begin();
        }
    }

    fn come(&mut self, place: usize) {
        let (link, now) = (self.link().clone(), self.now);
        if self.room.as_ref().is_some_and(LiveRoom::is_over) {
            return;
        }
        let listens = self.rng.one_of(LISTEN);
        let join = proven(&link, !listens);
        let open = || LiveRoom::open(self.id, &join, LiveLimits::default(), time(now)).unwrap();
        let welcome = match self.room.get_or_insert_with(open).join(&join, time(now)) {
            Ok(welcome) => welcome,
            Err(refusal) => {
                self.places[place] = Place::Away { until: now + SECOND };
                return self.fault(&format!("refused: {refusal}"));
            }
        };
        let number = welcome.member;
        let member = LiveMember::new(&link, &format!("guest {place}"), !listens, &welcome, &mut self.rng).unwrap();
        let (least, more) = pace(self.keys).stays;
        let guest = Guest {
            member,
            number,
            listens,
            speaks: !listens,
            until: now + least + self.rng.below(more),
            attentive: self.rng.below(self.places.len() as u64) < self.ears as u64 / 2,
            delay: self.rng.below(4),
            down: VecDeque::new(),
            up: VecDeque::new(),
            heard: now,
            has_heard: false,
        };
        self.counts.joins += 1;
        self.places[place] = Place::Here(Box::new(guest));
        self.seats.insert(number, place);
    }

    /// The guest leaves or vanishes.
    fn go(&mut self, place: usize) {
        let away = Place::Away { until: self.now + self.rng.below(RESTS) };
        let Place::Here(guest) = std::mem::replace(&mut self.places[place], away) else { return };
        self.seats.remove(&guest.number);
        if self.rng.one_of(500) {
            self.counts.vanished += 1;
            self.ghosts.push((self.now + self.rng.below(NOTICED), guest.number));
        } else if let Some(room) = &mut self.room {
            self.counts.left += 1;
            room.leave(guest.number, time(self.now));
        }
    }

    /// Sends a frame of every guest.
    fn speak(&mut self) {
        let mut twice = None;
        for place in &mut self.places {
            let Place::Here(guest) = place else { continue };
            if guest.listens && self.rng.one_of(HAND) {
                guest.speaks = self.rng.one_of(500);
                guest.member.raise_hand(guest.speaks);
            }
            let (level, mut of) = ((self.rng.next_u32() % 60_001) as i32 - 30_000, 0);
            let voice = |tick| {
                of = tick;
                voice(level as i16)
            };
            let Some(packet) = guest.member.frame_of(voice, level > 0, &mut self.rng) else { continue };
            self.counts.packets += 1;
            if self.said.entry(of).or_default().insert(guest.number, level as i16).is_some() {
                twice = Some((guest.number, of));
            }
            if self.rng.one_of(LOST) {
                self.counts.lost += 1;
                continue;
            }
            let packet = Rc::new(packet);
            for _ in 0..1 + u8::from(self.rng.one_of(TWICE)) {
                let most = if self.rng.one_of(SLOW) { 12 } else { 3 };
                let delay = self.rng.below(most);
                self.flying.entry(self.now + delay).or_default().push((guest.number, Rc::clone(&packet)));
            }
        }
        if let Some((member, tick)) = twice {
            self.fault(&format!("two packets of member {member} for tick {tick}"));
        }
    }

    /// Delivers the messages that have reached the server by now.
    fn arrive(&mut self) {
        let Some(mut room) = self.room.take() else { return };
        let mut packets = Vec::new();
        for (member, bytes) in self.flying.remove(&self.now).unwrap_or_default() {
            let welcome = Welcome { room: self.id, member, tick: 0, window: 32, waiting: false };
            match room.uplink(&welcome).decode(&bytes) {
                Ok(packet) => packets.push(packet),
                Err(fault) => self.fault(&format!("a packet of member {member}: {fault}")),
            }
        }
        room.packets(&packets.iter().collect::<Vec<_>>(), &mut OneByOne::default());
        self.taken.extend(packets.into_iter().map(|packet| ((packet.header.tick, packet.header.member), packet)));
        for place in &mut self.places {
            let Place::Here(guest) = place else { continue };
            while let Some(out) = guest.member.poll_outgoing() {
                guest.up.push_back((self.now + guest.delay, out));
            }
            while guest.up.front().is_some_and(|(at, _)| *at <= self.now) {
                match guest.up.pop_front() {
                    Some((_, Outgoing::Text(text))) => {
                        room.message(guest.number, &ClientMessage::parse(&text).unwrap(), time(self.now));
                    }
                    Some((_, Outgoing::Binary(note))) => room.note(guest.number, &note, time(self.now)),
                    None => {}
                }
            }
        }
        self.room = Some(room);
    }

    /// Sends the room's events to the members.
    fn follow(&mut self) {
        let Some(mut room) = self.room.take() else { return };
        while let Some(event) = room.poll(time(self.now)) {
            match event {
                LiveEvent::Closed { tick, sum: Some(sum), late, members, .. } => {
                    self.counts.late += late as u64;
                    let (bytes, forged) = self.forge(room.layout(), tick, sum);
                    self.sum(tick, &members, &Down::Sum { bytes: Rc::new(bytes), forged });
                }
                LiveEvent::Closed { tick, sum: None, members, .. } => {
                    self.send(&members, &Down::Message(Rc::new(ServerMessage::Silent { tick })));
                }
                LiveEvent::Send { members, bytes } => self.send(&members, &Down::Binary(Rc::new(bytes))),
                LiveEvent::Tell { member, message } => self.send(&[member], &Down::Message(Rc::new(message))),
                LiveEvent::Removed { member, fault } => self.removed(member, &fault.to_string()),
            }
        }
        let open = room.open_tick();
        self.said = self.said.split_off(&open.saturating_sub(KEPT));
        self.taken = self.taken.split_off(&(open.saturating_sub(KEPT), 0));
        self.room = Some(room);
    }

    fn send(&mut self, members: &[u16], what: &Down) {
        for number in members {
            if let Some(Place::Here(guest)) = self.seats.get(number).map(|place| &mut self.places[*place]) {
                guest.send(self.now, what.clone());
            }
        }
    }

    /// Sends a sum to the members that hear this tick.
    fn sum(&mut self, tick: u32, members: &[u16], sum: &Down) {
        let turns = (2 * self.places.len() / self.ears).max(1);
        let hears = |number: &u16| (tick as usize + usize::from(*number)).is_multiple_of(turns);
        for number in members {
            let Some(Place::Here(guest)) = self.seats.get(number).map(|place| &mut self.places[*place]) else {
                continue;
            };
            if guest.attentive || hears(number) && !self.rng.one_of(LOST_SUMS) {
                guest.send(self.now, sum.clone());
            }
        }
    }

    /// A removed member. The server may ask a vanished member for a commit, which it cannot make,
    /// and a stopping server removes all.
    fn removed(&mut self, member: u16, why: &str) {
        self.ghosts.retain(|(_, number)| *number != member);
        if let Some(place) = self.seats.remove(&member) {
            self.places[place] = Place::Away { until: self.now };
            if !self.closing {
                self.fault(&format!("member {member} was put out: {why}"));
            }
        }
    }

    /// The sum to send, and whether it was changed: in a dishonest minute some sums are.
    fn forge(&mut self, layout: LiveLayout, tick: u32, mut bytes: Vec<u8>) -> (Vec<u8>, bool) {
        let is_dishonest = self.now / (60 * SECOND) % 4 == 1;
        let Some(mut sum) = wire::decode_live_sum(layout, &bytes).ok().filter(|sum| !sum.speakers.is_empty()) else {
            return (bytes, false);
        };
        if !is_dishonest || !self.rng.one_of(FORGED) {
            return (bytes, false);
        }
        let listed: Vec<u16> = sum.speakers.iter().collect();
        let one = listed[self.rng.below(listed.len() as u64) as usize];
        let others = || listed.iter().filter(|member| **member != one);
        let of = |member: &u16, tick: u32| &self.taken[&(tick, *member)];
        match self.rng.below(6) {
            0 => {
                // flip one bit of the payload, which is longer than 600 bytes
                let place = bytes.len() - 1 - self.rng.below(600) as usize;
                bytes[place] ^= 1 << self.rng.below(8);
                return (bytes, true);
            }
            // a packet left out, a packet added twice, an earlier packet added
            1 => match attack::sum_of(others().map(|member| of(member, tick))) {
                Some(rest) => (sum.payload, sum.tag) = (rest.payload, rest.tag),
                None => (sum.payload, sum.tag) = (LivePayload::zero(layout, PACKET_WORDS), Tag::default()),
            },
            2 => add(&mut sum, of(&one, tick)),
            3 => {
                let earlier = self.taken.range(..(tick, 0)).rev().find(|((_, member), _)| *member == one);
                add(&mut sum, earlier.map_or(of(&one, tick), |(_, earlier)| earlier));
            }
            // an empty sum
            4 => (sum.payload, sum.tag) = (LivePayload::zero(layout, PACKET_WORDS), Tag::default()),
            // a speaker left out of the list
            _ => {
                sum.speakers = MemberSet::default();
                others().for_each(|member| _ = sum.speakers.insert(*member));
            }
        }
        (wire::encode_live_sum(layout, &sum), true)
    }

    /// Delivers the messages that have reached the members by now.
    fn hear(&mut self) {
        let mut faults = Vec::new();
        let nobody_speaks = self.places.iter().all(|place| !matches!(place, Place::Here(guest) if guest.speaks));
        for place in &mut self.places {
            let Place::Here(guest) = place else { continue };
            while guest.down.front().is_some_and(|(at, _)| *at <= self.now) {
                let Some((_, what)) = guest.down.pop_front() else { break };
                let fault = match what {
                    Down::Sum { bytes, forged } => {
                        let heard = guest.member.binary(&bytes);
                        guest.judge(forged, heard.as_ref(), &self.said, self.now, &mut self.counts)
                    }
                    Down::Binary(bytes) => {
                        drop(guest.member.binary(&bytes));
                        guest.alarm().map(|alarm| alarm.to_string())
                    }
                    Down::Message(message) => {
                        if nobody_speaks && matches!(*message, ServerMessage::Silent { .. }) {
                            guest.heard = self.now;
                        }
                        guest.member.message(&message, &mut self.rng);
                        guest.alarm().map(|alarm| alarm.to_string())
                    }
                };
                faults.extend(fault.map(|fault| format!("member {}: {fault}", guest.number)));
            }
        }
        faults.iter().for_each(|fault| self.fault(fault));
    }

    /// Checks that no member is without sums for too long, and samples memory.
    fn look(&mut self) {
        let (now, kind) = (self.now, usize::from(self.keys == Keys::Group));
        let patience = pace(self.keys).patience;
        let mut quiet = Vec::new();
        for place in &mut self.places {
            let Place::Here(guest) = place else { continue };
            let since = now - guest.heard;
            self.counts.quiet[kind] = self.counts.quiet[kind].max(since);
            if since > patience && !self.closing {
                quiet.push((guest.number, guest.has_heard));
                guest.heard = now;
            }
        }
        for (number, has_heard) in quiet {
            self.fault(&format!("member {number} hears nothing for {} s, before: {has_heard}", patience / SECOND));
        }
        if now.is_multiple_of(LOOK) {
            self.counts.memory[kind].extend(resident_kb());
        }
    }

    /// Runs `ticks` ticks, and continues until all members have left.
    fn run(&mut self, ticks: u64) {
        let began = Instant::now();
        (0..ticks).for_each(|_| self.tick());
        let seconds = began.elapsed().as_secs_f64();
        let lives = self.counts.lives;
        if !self.closing {
            self.ends = (self.now, End::Emptied);
        }
        while self.counts.lives == lives {
            self.tick();
        }
        self.counts.tell(self.places.len(), ticks, seconds, self.seed);
    }
}

/// Adds a packet to a sum, and leaves the list unchanged.
fn add(sum: &mut LiveSum, packet: &LivePacket) {
    attack::add(&mut sum.payload, &packet.payload);
    sum.tag.add_assign(&packet.tag);
}

/// `cargo xtask soak call-accelerated`: minutes of the room's time in `TOBARI_SOAK_MINUTES`.
#[test]
#[ignore = "takes long: cargo xtask soak call-accelerated"]
fn a_room_of_64_in_accelerated_chaos_has_no_wrong_sum_is_never_stuck_and_does_not_grow() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let (minutes, seed) = (number("TOBARI_SOAK_MINUTES").unwrap_or(10_u64), number("TOBARI_SOAK_SEED").unwrap_or(12));
    let mut chaos = Chaos::new(64, 4, seed);
    chaos.run(60 * SECOND * minutes);
    let counts = &chaos.counts;
    assert!(counts.faults.is_empty() && counts.wrong + counts.undetected == 0, "seed {seed}: {:#?}", counts.faults);
    assert!(!counts.memory.iter().any(|sizes| grows(sizes)), "{:?}", counts.memory);
}

#[test]
fn four_minutes_of_a_few_people_in_chaos_have_no_wrong_sum_and_no_stuck_room() {
    let mut chaos = Chaos::new(4, 2, 1);
    chaos.run(240 * SECOND);
    let counts = &chaos.counts;
    assert!(counts.faults.is_empty() && counts.wrong + counts.undetected == 0, "{:#?}", counts.faults);
    assert!(counts.ends.iter().any(|times| *times > 0), "{:?}", counts.ends);
    assert!(counts.opened > 8_000 && counts.forged > 400, "{} {}", counts.opened, counts.forged);
}
