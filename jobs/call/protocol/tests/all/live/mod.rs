//! Live rooms end to end without a network: honest rooms, and rooms whose server cheats.

#[cfg(feature = "mls")]
mod agreed;
mod attacks;
mod cascade;
mod chaos;
mod conduct;
mod distance;
#[cfg(feature = "mls")]
mod insiders;
mod recordings;
mod rosters;
mod talking;
mod transcripts;

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    time::Duration,
};

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_call::live::{
    Alarm, LiveMember, LiveMode, News, OpenedTick, Outgoing, RoomLink, Settings,
    attack::{Person, ROOM, Stage, proven},
    messages::{self, ClientMessage},
};
use tobari_call::wire::{self, LiveSum};

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

/// The levels that a person heard, where each speaker sends one constant level.
trait Levels {
    fn levels(&self) -> Vec<i32>;
    fn last(&self) -> (Vec<u16>, i32);
}

impl Levels for Person {
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

/// A [`Stage`] whose persons are admitted.
struct World(Stage);

impl Deref for World {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Stage {
        &mut self.0
    }
}

impl World {
    fn new(link: RoomLink) -> Self {
        Self::of(link, 0)
    }

    /// The same room with other sessions.
    fn of(link: RoomLink, seed: u8) -> Self {
        Self(Stage::open(link, [seed; 32]).unwrap())
    }

    /// A room of `count` speakers, whose roster is in effect.
    fn with(count: u16) -> Self {
        Self::filled(link(), count)
    }

    /// The same room in another mode.
    fn in_mode(mode: LiveMode, count: u16) -> Self {
        Self::filled(link_with(Settings { mode, speakers: 4, ..Settings::default() }, 3), count)
    }

    fn filled(link: RoomLink, count: u16) -> Self {
        let mut world = Self::new(link);
        (0..count).for_each(|member| assert_eq!(world.enter(true), member));
        world.settle();
        world
    }

    fn enter(&mut self, speak: bool) -> u16 {
        let link = self.link.for_members();
        self.enter_by(&link, speak)
    }

    fn enter_by(&mut self, link: &RoomLink, speak: bool) -> u16 {
        self.0.enter(link, speak).unwrap()
    }

    #[cfg(feature = "mls")]
    fn named(&mut self, link: &RoomLink, name: &str, welcome: &messages::Welcome) -> u16 {
        self.seat_named(link, name, true, welcome)
    }

    /// Runs until the roster of the members is in effect and every member has been heard.
    fn settle(&mut self) {
        self.frames(80);
        self.forget();
    }

    fn person_of(&self, member: u16) -> &Person {
        &self.people[&member]
    }

    /// Decodes a sum; this needs no key.
    fn sum(&self, bytes: &[u8]) -> Option<LiveSum> {
        wire::decode_live_sum(self.room.layout(), bytes).ok()
    }

    #[cfg(feature = "mls")]
    fn no_alarms_of(&self, members: &[u16]) {
        members.iter().for_each(|number| assert_eq!(self.person_of(*number).alarms(), [], "member {number}"));
    }

    fn no_alarms(&self) {
        for (number, person) in &self.people {
            assert_eq!(person.alarms(), [], "member {number}");
        }
        assert!(self.removed.is_empty(), "{:?}", self.removed);
    }
}
