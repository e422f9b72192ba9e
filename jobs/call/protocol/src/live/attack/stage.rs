//! The stage of an attack: an honest room and honest members, and between them the attacker.
//!
//! Time is the room's time: one frame of all members is 20 ms. Nothing waits, so the play of a
//! minute takes only as long as its arithmetic.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use crate::wire::{LivePacket, LivePayload, LiveSum};
use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use tobari_curve::{
    Adder,
    wire::{MemberSet, RoomId},
};

use super::super::{
    Alarm, LiveEvent, LiveLimits, LiveMember, LiveRoom, News, OpenedTick, Outgoing, RoomLink,
    group::messages::Step,
    messages::{ClientMessage, ServerMessage, Welcome},
    roster,
};
use super::proven;
use crate::{PACKET_SAMPLES, TICK_MS, server::Refusal};

/// The number of the room on the wire.
pub const ROOM: RoomId = RoomId([7; 8]);
/// How many of the last packets a dishonest server still has.
const KEPT: usize = 256;

/// A member, and everything it was told.
pub struct Person {
    /// The member.
    pub member: LiveMember,
    /// Its randomness.
    pub rng: ChaCha20Rng,
    /// The ticks that it heard.
    pub heard: Vec<OpenedTick>,
    /// Its events.
    pub news: Vec<News>,
    /// Its alarms, with the time of each.
    pub noticed: Vec<(Duration, Alarm)>,
    /// The messages from the server, as received.
    pub came: Vec<Vec<u8>>,
    /// The rosters among them, taken out of their steps if the members agree on keys.
    /// [`Stage::forget`] keeps them.
    pub rosters: Vec<Vec<u8>>,
    /// The packets that it made.
    pub packets: Vec<Vec<u8>>,
    /// The level of all samples of its next frames; none if it sends silence.
    pub says: Option<i16>,
}

impl Person {
    /// Its alarms.
    pub fn alarms(&self) -> Vec<Alarm> {
        self.noticed.iter().map(|(_, alarm)| alarm.clone()).collect()
    }

    /// Takes the member's new events.
    pub fn drain(&mut self, now: Duration) {
        while let Some(news) = self.member.poll_news() {
            if let News::Alarm(alarm) = &news {
                self.noticed.push((now, alarm.clone()));
            }
            self.news.push(news);
        }
    }
}

/// Changes a message of a dishonest server to a member. Its arguments are the last accepted
/// packets, the member's number, and the bytes.
pub type Cheat = Box<dyn FnMut(&VecDeque<LivePacket>, u16, Vec<u8>) -> Vec<Vec<u8>>>;

/// A room, its server and its members.
pub struct Stage {
    /// The link; the host's link if there is a host.
    pub link: RoomLink,
    /// The room.
    pub room: LiveRoom,
    /// The members, by number.
    pub people: BTreeMap<u16, Person>,
    /// The time.
    pub now: Duration,
    /// The cheating of the server.
    pub cheat: Option<Cheat>,
    /// Members whose packets the server does not add.
    pub left_out: BTreeSet<u16>,
    /// When the server first sent something false.
    pub cheated: Option<Duration>,
    /// The removed members, and the reasons.
    pub removed: Vec<(u16, String)>,
    taken: VecDeque<LivePacket>,
    /// The levels of removed members, whose packets are in earlier sums.
    said: BTreeMap<u16, Option<i16>>,
    rng: ChaCha20Rng,
}

impl Stage {
    /// An empty room of this link.
    ///
    /// # Errors
    /// [`Refusal`] if the server has no such rooms.
    pub fn open(link: RoomLink, seed: [u8; 32]) -> Result<Self, Refusal> {
        let room = LiveRoom::open(ROOM, &proven(&link, true), LiveLimits::default(), Duration::ZERO)?;
        Ok(Self {
            link,
            room,
            people: BTreeMap::new(),
            now: Duration::ZERO,
            cheat: None,
            left_out: BTreeSet::new(),
            cheated: None,
            removed: Vec::new(),
            taken: VecDeque::new(),
            said: BTreeMap::new(),
            rng: ChaCha20Rng::from_seed(seed),
        })
    }

    /// A member joins by a link of this room.
    ///
    /// # Errors
    /// [`Refusal`] if the room rejects it.
    pub fn enter(&mut self, link: &RoomLink, speak: bool) -> Result<u16, Refusal> {
        let welcome = self.room.join(&proven(link, speak), self.now)?;
        Ok(self.seat(link, speak, &welcome))
    }

    /// A member that was admitted takes its place, and presents itself.
    pub fn seat(&mut self, link: &RoomLink, speak: bool, welcome: &Welcome) -> u16 {
        self.seat_named(link, &format!("person {}", welcome.member), speak, welcome)
    }

    /// Like [`Stage::seat`], with a name of the caller's choice.
    pub fn seat_named(&mut self, link: &RoomLink, name: &str, speak: bool, welcome: &Welcome) -> u16 {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let mut rng = ChaCha20Rng::from_seed(seed);
        if let Some(member) = LiveMember::new(link, name, speak, welcome, &mut rng) {
            let (heard, news, noticed, came) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let (rosters, packets, says) = (Vec::new(), Vec::new(), Some(0));
            let person = Person { member, rng, heard, news, noticed, came, rosters, packets, says };
            self.people.insert(welcome.member, person);
        }
        self.carry();
        welcome.member
    }

    /// Sets a member's level from now on.
    pub fn says(&mut self, member: u16, level: impl Into<Option<i16>>) {
        if let Some(person) = self.people.get_mut(&member) {
            person.says = level.into();
        }
    }

    /// Passes the members' messages other than packets to the room, and its events to them.
    pub fn carry(&mut self) {
        let numbers: Vec<u16> = self.people.keys().copied().collect();
        for number in numbers {
            while let Some(out) = self.people.get_mut(&number).and_then(|person| person.member.poll_outgoing()) {
                match out {
                    Outgoing::Text(text) => {
                        if let Ok(message) = ClientMessage::parse(&text) {
                            self.room.message(number, &message, self.now);
                        }
                    }
                    Outgoing::Binary(note) => self.room.note(number, &note, self.now),
                }
            }
        }
        self.follow();
    }

    /// Passes the room's events to its members.
    pub fn follow(&mut self) {
        while let Some(event) = self.room.poll(self.now) {
            match event {
                LiveEvent::Closed { sum: Some(sum), members, .. } => {
                    members.into_iter().for_each(|member| self.deliver(member, sum.clone()));
                }
                LiveEvent::Closed { tick, sum: None, members, .. } => {
                    members.into_iter().for_each(|member| self.tell(member, &ServerMessage::Silent { tick }));
                }
                LiveEvent::Send { members, bytes } => {
                    members.into_iter().for_each(|member| self.deliver(member, bytes.clone()));
                }
                LiveEvent::Tell { member, message } => self.tell(member, &message),
                LiveEvent::Removed { member, fault } => {
                    self.removed.push((member, fault.to_string()));
                    let gone = self.people.remove(&member);
                    self.said.extend(gone.map(|person| (member, person.says)));
                }
            }
        }
    }

    fn deliver(&mut self, member: u16, bytes: Vec<u8>) {
        let all = match &mut self.cheat {
            Some(cheat) => {
                let all = cheat(&self.taken, member, bytes.clone());
                if all != [bytes] {
                    self.cheated.get_or_insert(self.now);
                }
                all
            }
            None => vec![bytes],
        };
        let Some(person) = self.people.get_mut(&member) else { return };
        for bytes in all {
            person.heard.extend(person.member.binary(&bytes));
            let step = Step::decode(&bytes).map(|step| step.roster.to_vec());
            person.rosters.extend(step.or_else(|| (bytes.get(1) == Some(&roster::KIND)).then(|| bytes.clone())));
            person.came.push(bytes);
        }
        person.drain(self.now);
    }

    /// Gives a member a control message.
    pub fn tell(&mut self, member: u16, message: &ServerMessage) {
        let Some(person) = self.people.get_mut(&member) else { return };
        person.member.message(message, &mut person.rng);
        person.drain(self.now);
    }

    /// The next packet of a member, with its current level.
    pub fn packet(&mut self, member: u16) -> Option<Vec<u8>> {
        let person = self.people.get_mut(&member)?;
        let said = person.says;
        let samples = [said.unwrap_or(0); PACKET_SAMPLES];
        let packet = person.member.frame(&samples, said.is_some_and(|said| said != 0), &mut person.rng)?;
        person.packets.push(packet.clone());
        Some(packet)
    }

    /// Sends a packet through the server's checks.
    pub fn send(&mut self, number: u16, packet: &[u8]) {
        let welcome = Welcome { room: ROOM, member: number, tick: 0, window: 32, waiting: false };
        match self.room.uplink(&welcome).decode(packet) {
            Ok(packet) => {
                if !self.left_out.contains(&number) {
                    self.room.packet(&packet);
                }
                if self.taken.len() == KEPT {
                    self.taken.pop_front();
                }
                self.taken.push_back(packet);
            }
            Err(fault) => self.room.remove(number, fault),
        }
        self.follow();
    }

    /// The last packets that the server accepted.
    pub fn taken(&self) -> &VecDeque<LivePacket> {
        &self.taken
    }

    /// Lets 20 ms pass.
    pub fn pass(&mut self) {
        self.now += Duration::from_millis(TICK_MS);
        self.follow();
        self.carry();
    }

    /// One frame of all members, and 20 ms.
    pub fn frame(&mut self) {
        let numbers: Vec<u16> = self.people.keys().copied().collect();
        for number in numbers {
            if let Some(packet) = self.packet(number) {
                self.send(number, &packet);
            }
        }
        self.pass();
    }

    /// Several frames.
    pub fn frames(&mut self, count: usize) {
        (0..count).for_each(|_| self.frame());
    }

    /// Forgets everything that members heard, sent and were told so far.
    pub fn forget(&mut self) {
        self.cheated = None;
        self.said.clear();
        for person in self.people.values_mut() {
            person.heard.clear();
            person.news.clear();
            person.noticed.clear();
            person.came.clear();
            person.packets.clear();
        }
    }

    /// Is this the sum of the current levels of the other members on its list?
    pub fn is_true(&self, member: u16, heard: &OpenedTick) -> bool {
        let level = |other: u16| {
            let says = self.people.get(&other).map(|person| person.says).or_else(|| self.said.get(&other).copied());
            says.flatten().map_or(0, i32::from)
        };
        let sum: i32 = heard.speakers.iter().filter(|other| *other != member).map(level).sum();
        heard.samples.iter().all(|sample| *sample == sum)
    }
}

/// The sum of packets of one tick, as a server adds them; none for no packet.
pub fn sum_of<'a>(packets: impl IntoIterator<Item = &'a LivePacket>) -> Option<LiveSum> {
    let mut sum: Option<LiveSum> = None;
    for packet in packets {
        match &mut sum {
            None => sum = Some(alone(packet)),
            Some(sum) => {
                add(&mut sum.payload, &packet.payload);
                sum.tag.add_assign(&packet.tag);
                sum.speakers.insert(packet.header.member);
            }
        }
    }
    sum
}

/// One packet as the sum of its tick.
pub fn alone(packet: &LivePacket) -> LiveSum {
    let (header, tag, payload) = (packet.header, packet.tag, packet.payload.clone());
    let mut speakers = MemberSet::default();
    speakers.insert(header.member);
    LiveSum {
        room: header.room,
        epoch: header.epoch,
        tick: header.tick,
        speakers,
        late: MemberSet::default(),
        tag,
        payload,
    }
}

/// Adds the payload of a packet. Packets of one room always fit.
pub fn add(sum: &mut LivePayload, other: &LivePayload) {
    let fits = sum.add_assign_with(other, &mut Adder::default());
    debug_assert!(fits, "packets of one room");
}
