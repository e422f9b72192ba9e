//! Live rooms from end to end without a network: honest ones, and ones whose server cheats.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod attacks;
mod conduct;
mod recordings;
mod talking;

use std::{collections::BTreeMap, time::Duration};

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_apps::call::live::{
    Alarm, Heard, LiveEvent, LiveLimits, LiveMember, LiveRoom, News, Outgoing, RoomLink, Settings,
    messages::{ClientMessage, ServerMessage, Welcome},
};
use tobari_core::wire::{self, LiveSum, RoomId};

/// Samples of a constant level.
fn level(level: i16) -> [i16; 320] {
    [level; 320]
}

fn link_with(settings: Settings, seed: u8) -> RoomLink {
    RoomLink::new("http://h", "room".parse().unwrap(), settings, &mut ChaCha20Rng::from_seed([seed; 32]))
}

fn link() -> RoomLink {
    link_with(Settings { speakers: 8, ..Settings::default() }, 1)
}

/// A member and all that it was told.
struct Person {
    member: LiveMember,
    rng: ChaCha20Rng,
    heard: Vec<Heard>,
    news: Vec<News>,
    /// What came from the server, as it came.
    came: Vec<Vec<u8>>,
    packets: Vec<Vec<u8>>,
    /// What is said in each frame; none for whoever says nothing.
    says: Option<i16>,
}

impl Person {
    fn drain(&mut self) {
        while let Some(news) = self.member.poll_news() {
            self.news.push(news);
        }
    }

    fn alarms(&self) -> Vec<Alarm> {
        let alarm = |news: &News| if let News::Alarm(alarm) = news { Some(alarm.clone()) } else { None };
        self.news.iter().filter_map(alarm).collect()
    }

    fn levels(&self) -> Vec<i32> {
        self.heard
            .iter()
            .map(|heard| {
                assert!(heard.samples.iter().all(|sample| *sample == heard.samples[0]) && heard.samples.len() == 320);
                heard.samples[0]
            })
            .collect()
    }

    fn last(&self) -> (Vec<u16>, i32) {
        let heard = self.heard.last().expect("nothing was heard");
        (heard.speakers.iter().collect(), heard.samples[0])
    }
}

/// What a dishonest server does to what it sends to a member: its number, and the bytes.
type Cheat = Box<dyn FnMut(u16, Vec<u8>) -> Vec<Vec<u8>>>;

/// A room, its server and its people, all in one place.
struct World {
    link: RoomLink,
    room: LiveRoom,
    people: BTreeMap<u16, Person>,
    now: Duration,
    cheat: Option<Cheat>,
    seed: u32,
    removed: Vec<(u16, String)>,
}

impl World {
    fn new(link: RoomLink) -> Self {
        let join = LiveMember::join(&link, true);
        let room = LiveRoom::open(RoomId([7; 8]), &join, LiveLimits::default(), Duration::ZERO).unwrap();
        Self { link, room, people: BTreeMap::new(), now: Duration::ZERO, cheat: None, seed: 0, removed: Vec::new() }
    }

    /// So many that speak, on a roster that holds.
    fn with(count: u16) -> Self {
        let mut world = Self::new(link());
        for member in 0..count {
            assert_eq!(world.enter(true), member);
        }
        world.settle();
        world
    }

    fn enter(&mut self, speak: bool) -> u16 {
        let link = self.link.for_members();
        self.enter_by(&link, speak)
    }

    fn enter_by(&mut self, link: &RoomLink, speak: bool) -> u16 {
        let welcome = self.room.join(&LiveMember::join(link, speak), self.now).unwrap();
        self.person(link, speak, &welcome)
    }

    fn person(&mut self, link: &RoomLink, speak: bool, welcome: &Welcome) -> u16 {
        self.seed += 1;
        let mut rng = ChaCha20Rng::seed_from_u64(self.seed.into());
        let name = format!("person {}", welcome.member);
        let member = LiveMember::new(link, &name, speak, welcome, &mut rng).unwrap();
        let (heard, news, came, packets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        self.people.insert(welcome.member, Person { member, rng, heard, news, came, packets, says: Some(0) });
        self.carry();
        welcome.member
    }

    fn says(&mut self, member: u16, level: impl Into<Option<i16>>) {
        self.people.get_mut(&member).unwrap().says = level.into();
    }

    /// What people have to say besides packets goes to the room, and what follows to them.
    fn carry(&mut self) {
        let numbers: Vec<u16> = self.people.keys().copied().collect();
        for number in numbers {
            while let Some(out) = self.people.get_mut(&number).and_then(|person| person.member.poll_outgoing()) {
                match out {
                    Outgoing::Text(text) => {
                        self.room.message(number, &ClientMessage::parse(&text).unwrap(), self.now);
                    }
                    Outgoing::Binary(note) => self.room.note(number, &note, self.now),
                }
            }
        }
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(event) = self.room.poll(self.now) {
            match event {
                LiveEvent::Closed { tick, sum: Some(sum), members, .. } => {
                    let _ = tick;
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
                    self.people.remove(&member);
                }
            }
        }
    }

    fn deliver(&mut self, member: u16, bytes: Vec<u8>) {
        let all = match &mut self.cheat {
            Some(cheat) => cheat(member, bytes),
            None => vec![bytes],
        };
        let Some(person) = self.people.get_mut(&member) else { return };
        for bytes in all {
            person.heard.extend(person.member.binary(&bytes));
            person.came.push(bytes);
        }
        person.drain();
    }

    fn tell(&mut self, member: u16, message: &ServerMessage) {
        let Some(person) = self.people.get_mut(&member) else { return };
        person.member.message(message, &mut person.rng);
        person.drain();
    }

    /// One frame of everybody, and 20 ms.
    fn frame(&mut self) {
        let numbers: Vec<u16> = self.people.keys().copied().collect();
        for number in numbers {
            let Some(person) = self.people.get_mut(&number) else { continue };
            let said = person.says;
            let packet =
                person.member.frame(&level(said.unwrap_or(0)), said.is_some_and(|said| said != 0), &mut person.rng);
            if let Some(packet) = packet {
                person.packets.push(packet.clone());
                self.send(number, &packet);
            }
        }
        self.now += Duration::from_millis(20);
        self.follow();
        self.carry();
    }

    /// A packet on its way through the server's checks.
    fn send(&mut self, number: u16, packet: &[u8]) {
        let welcome = Welcome { room: RoomId([7; 8]), member: number, tick: 0, window: 32, waiting: false };
        match self.room.uplink(&welcome).decode(packet) {
            Ok(packet) => self.room.packet(&packet),
            Err(fault) => self.room.remove(number, fault),
        }
        self.follow();
    }

    fn frames(&mut self, count: usize) {
        (0..count).for_each(|_| self.frame());
    }

    /// Until the roster of those who are there holds and everybody has been heard.
    fn settle(&mut self) {
        self.frames(80);
        self.forget();
    }

    fn forget(&mut self) {
        for person in self.people.values_mut() {
            person.heard.clear();
            person.news.clear();
            person.came.clear();
            person.packets.clear();
        }
    }

    fn person_of(&self, member: u16) -> &Person {
        &self.people[&member]
    }

    /// Reads a sum as anybody can.
    fn sum(&self, bytes: &[u8]) -> Option<LiveSum> {
        wire::decode_live_sum(self.room.layout(), bytes).ok()
    }

    fn no_alarms(&self) {
        for (number, person) in &self.people {
            assert_eq!(person.alarms(), [], "member {number}");
        }
        assert!(self.removed.is_empty(), "{:?}", self.removed);
    }
}
