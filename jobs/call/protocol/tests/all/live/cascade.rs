//! Rooms that several servers hold together, over a bus that loses, repeats, reorders and splits,
//! with servers that fail.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use proptest::prelude::*;
use tobari_call::live::attack::proven;
use tobari_call::live::cascade::{Address, BusMessage, SharedEvent, SharedRoom, Station};
use tobari_call::live::messages::{ClientMessage, ServerMessage};
use tobari_call::live::{
    Alarm, Keys, LiveLimits, LiveMember, LiveMode, LiveUplink, News, OneByOne, Outgoing, RoomLink, Settings,
};
use tobari_call::messages::Code;
use tobari_curve::wire::RoomId;

use super::link_with;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The faults of a bus, in percent and milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Bus {
    loss: u32,
    twice: u32,
    delay: u64,
    jitter: u64,
}

/// A server's part in the room. The server gets a new part each time it releases its members.
struct Site {
    room: SharedRoom,
    station: Station,
    seats: BTreeMap<u16, usize>,
    joins: BTreeMap<u32, usize>,
    is_alive: bool,
    /// The side of a split bus that the server is on.
    side: u8,
}

struct Person {
    site: usize,
    level: i16,
    place: Option<(LiveMember, LiveUplink, RoomId)>,
    /// When the person joins, for the first time or again; none while the person is in the room.
    comes: Option<Duration>,
    rng: ChaCha20Rng,
    /// When the person heard a sum, and how many others were in it.
    heard: Vec<(Duration, usize)>,
    alarms: Vec<Alarm>,
    over: Option<Code>,
    /// Does the client spoil the signature of its hello?
    spoils: bool,
}

struct World {
    link: RoomLink,
    now: Duration,
    bus: Bus,
    torn: bool,
    dice: ChaCha20Rng,
    sites: Vec<Site>,
    people: Vec<Person>,
    under_way: BTreeMap<(Duration, u64), (usize, Station, Vec<u8>)>,
    sent: u64,
    /// The level of the person with each number; none for a number that several persons had.
    levels: HashMap<(RoomId, u16), Option<i16>>,
}

impl World {
    fn new(settings: Settings, bus: Bus, sites: usize, seed: u8) -> Self {
        let mut world = Self {
            link: link_with(settings, 9),
            now: Duration::ZERO,
            bus,
            torn: false,
            dice: ChaCha20Rng::from_seed([seed; 32]),
            sites: Vec::new(),
            people: Vec::new(),
            under_way: BTreeMap::new(),
            sent: 0,
            levels: HashMap::new(),
        };
        for _ in 0..sites {
            let site = world.site();
            world.sites.push(site);
        }
        world
    }

    fn site(&mut self) -> Site {
        let mut station = Station([0; 8]);
        self.dice.fill_bytes(&mut station.0);
        let room = SharedRoom::new(station, LiveLimits::default(), self.now);
        Site { room, station, seats: BTreeMap::new(), joins: BTreeMap::new(), is_alive: true, side: 0 }
    }

    fn comes(&mut self, site: usize, level: i16) -> usize {
        let number = self.people.len();
        let rng = ChaCha20Rng::from_seed([number as u8 + 100; 32]);
        let comes = Some(self.now);
        let (heard, alarms) = (Vec::new(), Vec::new());
        self.people.push(Person { site, level, place: None, comes, rng, heard, alarms, over: None, spoils: false });
        number
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += ms(1);
            self.carry();
            self.enter();
            self.speak();
            (0..self.sites.len()).for_each(|site| self.follow(site));
        }
    }

    fn carry(&mut self) {
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, station, bytes) = entry.remove();
            let site = &mut self.sites[to];
            if site.is_alive && site.station == station {
                let message = BusMessage::decode(&bytes).unwrap();
                site.room.hear(&message, &mut OneByOne::default(), self.now);
            }
        }
    }

    fn publish(&mut self, from: usize, to: Address, bytes: &[u8]) {
        for site in 0..self.sites.len() {
            let found = &self.sites[site];
            let cut = self.torn && found.side != self.sites[from].side;
            if site == from || !found.is_alive || cut || matches!(to, Address::To(station) if station != found.station)
            {
                continue;
            }
            let copies = 1 + u32::from(self.dice.next_u32() % 100 < self.bus.twice);
            for _ in 0..copies {
                if self.dice.next_u32() % 100 >= self.bus.loss {
                    let delay = self.bus.delay + u64::from(self.dice.next_u32()) % (self.bus.jitter + 1);
                    self.sent += 1;
                    let key = (self.now + ms(delay), self.sent);
                    self.under_way.insert(key, (site, self.sites[site].station, bytes.to_vec()));
                }
            }
        }
    }

    fn enter(&mut self) {
        for number in 0..self.people.len() {
            let person = &mut self.people[number];
            if person.comes.is_none_or(|comes| self.now < comes) {
                continue;
            }
            let alive = self.sites.iter().position(|site| site.is_alive);
            if !self.sites[person.site].is_alive {
                person.site = alive.unwrap();
            }
            person.comes = None;
            let site = &mut self.sites[person.site];
            site.joins.insert(number as u32, number);
            site.room.join(number as u32, &proven(&self.link, true), self.now);
        }
    }

    fn speak(&mut self) {
        for (number, person) in self.people.iter_mut().enumerate() {
            // each microphone has its own phase
            if !(self.now.as_millis() as u64 + 7 * number as u64).is_multiple_of(20) {
                continue;
            }
            let Some((member, uplink, _)) = &mut person.place else { continue };
            if let Some(packet) = member.frame(&[person.level; 320], true, &mut person.rng) {
                let packet = uplink.decode(&packet).unwrap();
                let site = &mut self.sites[person.site];
                site.room.packets(&[&packet], &mut OneByOne::default(), self.now);
            }
        }
    }

    fn follow(&mut self, site: usize) {
        while self.sites[site].is_alive
            && let Some(event) = self.sites[site].room.poll(self.now)
        {
            self.happen(site, event);
        }
        // the next member finds the room anew, or opens it
        if self.sites[site].is_alive && self.sites[site].room.is_left() {
            self.again(site);
        }
        let Some(place) = self.sites.get_mut(site).filter(|site| site.is_alive) else { return };
        assert!(place.room.deadline().is_none_or(|deadline| deadline > self.now), "something is due and was not told");
    }

    fn happen(&mut self, site: usize, event: SharedEvent) {
        let place = &mut self.sites[site];
        match event {
            SharedEvent::Seated { ticket, welcome, uplink } => {
                let person = place.joins.remove(&ticket).unwrap();
                assert!(place.seats.insert(welcome.member, person).is_none());
                let person = &mut self.people[person];
                let level = self.levels.entry((welcome.room, welcome.member)).or_insert(Some(person.level));
                if *level != Some(person.level) {
                    *level = None;
                }
                let member = LiveMember::new(&self.link, "name", true, &welcome, &mut person.rng).unwrap();
                person.place = Some((member, uplink, welcome.room));
                self.say(site, welcome.member);
            }
            SharedEvent::Refused { ticket, refusal } => {
                let person = place.joins.remove(&ticket).unwrap();
                self.people[person].over = Some(refusal.code());
            }
            SharedEvent::Closed { tick, sum, members, .. } => {
                for member in members {
                    match &sum {
                        Some(sum) => self.binary(site, member, sum),
                        None => self.message(site, member, &ServerMessage::Silent { tick }),
                    }
                }
            }
            SharedEvent::Send { members, bytes } => {
                members.into_iter().for_each(|member| self.binary(site, member, &bytes));
            }
            SharedEvent::Tell { member, message } => self.message(site, member, &message),
            SharedEvent::Removed { member, message } => {
                self.message(site, member, &message);
                if let Some(person) = self.sites[site].seats.remove(&member) {
                    self.people[person].place = None;
                }
            }
            SharedEvent::Publish { to, bytes } => self.publish(site, to, &bytes),
            SharedEvent::Parted => self.again(site),
        }
    }

    /// Replaces a server's part: it releases its members, and they join again later.
    fn again(&mut self, site: usize) {
        let (is_alive, side) = (self.sites[site].is_alive, self.sites[site].side);
        let fresh = self.site();
        let old = std::mem::replace(&mut self.sites[site], Site { is_alive, side, ..fresh });
        for person in old.seats.into_values().chain(old.joins.into_values()) {
            let person = &mut self.people[person];
            (person.place, person.comes) = (None, Some(self.now + ms(300)));
        }
    }

    fn kill(&mut self, site: usize) {
        self.sites[site].is_alive = false;
        self.again(site);
    }

    fn drain(&mut self, site: usize, member: u16) {
        let Some(person) = self.sites[site].seats.get(&member) else { return };
        let person = &mut self.people[*person];
        let Some((member, _, _)) = &mut person.place else { return };
        while let Some(news) = member.poll_news() {
            match news {
                News::Alarm(alarm) => person.alarms.push(alarm),
                News::Over { code, .. } => person.over = code,
                _ => {}
            }
        }
    }

    fn message(&mut self, site: usize, member: u16, message: &ServerMessage) {
        if let Some(person) = self.sites[site].seats.get(&member)
            && let person = &mut self.people[*person]
            && let Some((place, _, _)) = &mut person.place
        {
            place.message(message, &mut person.rng);
        }
        self.drain(site, member);
        self.say(site, member);
    }

    fn binary(&mut self, site: usize, member: u16, bytes: &[u8]) {
        if let Some(person) = self.sites[site].seats.get(&member)
            && let person = &mut self.people[*person]
            && let Some((place, _, room)) = &mut person.place
            && let Some(heard) = place.binary(bytes)
        {
            let others: Vec<u16> = heard.speakers.iter().filter(|speaker| *speaker != member).collect();
            let levels: Option<Vec<i16>> = others.iter().map(|other| self.levels[&(*room, *other)]).collect();
            if let Some(levels) = levels {
                let expected: i32 = levels.into_iter().map(i32::from).sum();
                assert!(heard.samples.iter().all(|sample| *sample == expected), "garbage at tick {}", heard.tick);
            }
            person.heard.push((self.now, others.len()));
        }
        self.drain(site, member);
        self.say(site, member);
    }

    /// Sends a member's outgoing messages, except packets.
    fn say(&mut self, site: usize, member: u16) {
        let Some(person) = self.sites[site].seats.get(&member).copied() else { return };
        let Some((place, _, _)) = &mut self.people[person].place else { return };
        let mut said: Vec<Outgoing> = std::iter::from_fn(|| place.poll_outgoing()).collect();
        for out in said.iter_mut().filter(|_| self.people[person].spoils) {
            if let Outgoing::Binary(bytes) = out {
                bytes.iter_mut().skip(60).for_each(|byte| *byte ^= 0x55);
            }
        }
        let room = &mut self.sites[site].room;
        for out in said {
            match out {
                Outgoing::Binary(bytes) => room.note(member, &bytes, self.now),
                Outgoing::Text(text) => room.message(member, &ClientMessage::parse(&text).unwrap(), self.now),
            }
        }
    }

    /// The longest time after `from` in which a person heard fewer than `others` others.
    fn longest_gap(&self, person: usize, others: usize, from: Duration) -> Duration {
        let times = self.people[person].heard.iter().filter(|(at, count)| *at >= from && *count >= others);
        let mut last = from;
        let mut longest = Duration::ZERO;
        for (at, _) in times {
            longest = longest.max(*at - last);
            last = *at;
        }
        longest.max(self.now - last)
    }

    /// No member received a sum or a list that does not verify.
    fn nobody_hears_garbage(&self) {
        for person in &self.people {
            let wrong = |alarm: &&Alarm| !matches!(alarm, Alarm::Omitted { .. } | Alarm::Unconfirmed { .. });
            assert_eq!(person.alarms.iter().find(wrong), None);
        }
    }

    fn no_alarms(&self) {
        self.people.iter().for_each(|person| assert!(person.alarms.is_empty(), "{:?}", person.alarms));
    }

    /// The server that leads.
    fn leader(&self) -> usize {
        let leads: Vec<usize> = (0..self.sites.len())
            .filter(|site| self.sites[*site].is_alive && self.sites[*site].room.edges().is_some())
            .collect();
        assert_eq!(leads.len(), 1, "one leads");
        leads[0]
    }
}

fn settings() -> Settings {
    Settings { speakers: 8, ..Settings::default() }
}

/// A call with two persons at each of three servers.
fn three(settings: Settings, bus: Bus, seed: u8) -> World {
    let mut world = World::new(settings, bus, 3, seed);
    for site in 0..3 {
        for member in 0..2 {
            world.comes(site, 100 << (2 * site + member));
        }
    }
    world.run(ms(3000));
    world
}

const LAN: Bus = Bus { loss: 0, twice: 0, delay: 1, jitter: 1 };

#[test]
fn fault_20_a_hello_of_noise_at_any_server_puts_its_sender_out_and_costs_nobody_a_tick() {
    let bus = Bus { loss: 2, twice: 5, delay: 2, jitter: 8 };
    let mut world = World::new(Settings { speakers: 16, ..Settings::default() }, bus, 3, 8);
    let honest: Vec<usize> = (0..6).map(|number| world.comes(number % 3, 1 << number)).collect();
    world.run(ms(4000));
    let from = world.now;
    for site in 0..3 {
        let noisy = world.comes(site, 0);
        world.people[noisy].spoils = true;
        world.run(ms(1500));
        assert_eq!(world.people[noisy].over, Some(Code::Hello), "at server {site}");
        // and then an honest member
        let late = world.comes(site, 64 << site);
        world.run(ms(2500));
        assert!(world.people[late].heard.len() > 50 && world.people[late].over.is_none(), "at server {site}");
    }
    for person in honest {
        let gap = world.longest_gap(person, 5, from);
        assert!(gap < ms(250), "person {person} heard fewer than five others for {gap:?}");
        let rosters =
            world.people[person].alarms.iter().filter(|it| matches!(it, Alarm::Roster(_) | Alarm::LeftOut { .. }));
        assert_eq!(rosters.count(), 0, "person {person}");
    }
}

#[test]
fn members_at_three_servers_hear_the_exact_sum_of_all() {
    let mut world = three(settings(), LAN, 1);
    let from = world.now;
    world.run(ms(6000));
    world.no_alarms();
    assert_eq!(world.sites[world.leader()].room.edges(), Some(2));
    for person in 0..6 {
        assert!(world.longest_gap(person, 5, from) <= ms(120), "{:?}", world.longest_gap(person, 5, from));
    }
}

#[test]
fn so_they_do_in_modes_of_points_and_where_they_agree_on_keys() {
    let each = |settings| {
        let mut world = World::new(settings, LAN, 2, 2);
        world.comes(0, 700);
        world.comes(1, -9);
        world.run(ms(2500));
        world.no_alarms();
        assert!((0..2).all(|person| world.people[person].heard.iter().filter(|(_, others)| *others == 1).count() > 20));
    };
    each(Settings { mode: LiveMode::ElgamalShared, speakers: 2, ..Settings::default() });
    if tobari_call::live::group::HAS_GROUPS {
        each(Settings { keys: Keys::Group, ..settings() });
    }
}

#[test]
fn a_bus_far_away_only_needs_packets_sooner() {
    let mut world = three(settings(), Bus { delay: 40, ..LAN }, 3);
    world.run(ms(15_000));
    let from = world.now;
    world.run(ms(3000));
    world.no_alarms();
    (0..6).for_each(|person| assert!(world.longest_gap(person, 5, from) <= ms(500)));
}

#[test]
fn a_lost_edge_takes_its_members_along_for_less_than_three_seconds_and_nobody_else() {
    for seed in 1..4 {
        let mut world = three(settings(), LAN, seed);
        let edge = (world.leader() + 1) % 3;
        let from = world.now;
        let there: Vec<usize> = (0..6).filter(|person| world.people[*person].site == edge).collect();
        world.kill(edge);
        world.run(ms(6000));
        world.nobody_hears_garbage();
        for person in 0..6 {
            let gap = world.longest_gap(person, 5, from);
            assert!(gap < ms(3000), "{person}: {gap:?} without all others");
            if !there.contains(&person) {
                let gap = world.longest_gap(person, 3, from);
                assert!(gap <= ms(120), "{person}: {gap:?} without those who stayed");
            }
        }
    }
}

#[test]
fn a_lost_leader_is_followed_by_another_in_less_than_three_seconds() {
    for seed in 1..6 {
        let mut world = three(settings(), LAN, seed);
        let (leader, from) = (world.leader(), world.now);
        world.kill(leader);
        world.run(ms(6000));
        assert!(world.leader() != leader);
        world.nobody_hears_garbage();
        for person in 0..6 {
            let gap = world.longest_gap(person, 5, from);
            assert!(gap < ms(3000), "seed {seed}, {person}: {gap:?} without all others");
        }
    }
}

#[test]
fn a_leader_that_closes_hands_over_at_once() {
    let mut world = three(settings(), LAN, 5);
    let (leader, from) = (world.leader(), world.now);
    world.sites[leader].room.close(world.now, world.now);
    world.run(ms(4000));
    world.nobody_hears_garbage();
    for person in 0..6 {
        if world.people[person].site == leader {
            assert_eq!(world.people[person].over, Some(Code::Shutdown));
        } else {
            assert!(world.longest_gap(person, 3, from) < ms(2000));
        }
    }
}

#[test]
fn an_edge_that_closes_tells_its_members_and_the_others_go_on() {
    let mut world = three(settings(), LAN, 5);
    let (edge, from) = ((world.leader() + 1) % 3, world.now);
    world.sites[edge].room.close(world.now, world.now);
    world.run(ms(4000));
    world.no_alarms();
    for person in 0..6 {
        if world.people[person].site == edge {
            assert_eq!(world.people[person].over, Some(Code::Shutdown));
        } else {
            assert!(world.longest_gap(person, 3, from) <= ms(120));
        }
    }
}

#[test]
fn a_torn_bus_makes_two_rooms_and_a_mended_one_makes_one_and_nobody_hears_garbage() {
    for seed in 1..5 {
        let mut world = three(settings(), LAN, seed);
        world.sites[0].side = 1;
        world.torn = true;
        world.run(ms(4000));
        let leads = |world: &World| world.sites.iter().filter(|site| site.room.edges().is_some()).count();
        assert_eq!(leads(&world), 2);
        let alone = world.people[0].heard.iter().rev().take(50).map(|(_, others)| *others).max();
        assert_eq!(alone, Some(1), "those of one side hear one another");
        world.torn = false;
        let from = world.now;
        world.run(ms(5000));
        assert_eq!(leads(&world), 1);
        world.nobody_hears_garbage();
        (0..6).for_each(|person| assert!(world.longest_gap(person, 5, from) < ms(3000)));
    }
}

#[test]
fn rules_of_the_room_hold_across_servers() {
    // the host is at one server; a guest at another waits, is admitted, muted and removed
    let settings = Settings { lobby: true, speakers: 4, host: Some([0; 16]), ..Settings::default() };
    let mut world = World::new(settings, LAN, 2, 7);
    let host = world.comes(0, 50);
    let whole = world.link.clone();
    world.run(ms(1000));
    world.link = whole.for_members();
    let guest = world.comes(1, 7);
    world.run(ms(1000));
    assert!(world.people[guest].heard.is_empty() && world.people[guest].place.is_some(), "it waits");
    let number = *world.sites[1].seats.keys().next().unwrap();
    let says = |world: &mut World, message: ClientMessage| {
        let (member, _, _) = world.people[host].place.as_mut().unwrap();
        member.say(&message);
        world.say(0, 0);
        world.run(ms(1500));
    };
    says(&mut world, ClientMessage::Admit { member: number });
    assert_eq!(world.people[guest].heard.last().map(|(_, others)| *others), Some(1));
    assert_eq!(world.people[host].heard.last().map(|(_, others)| *others), Some(1));
    says(&mut world, ClientMessage::Mute { member: number, muted: true });
    assert_eq!(world.people[host].heard.last().map(|(_, others)| *others), Some(0));
    says(&mut world, ClientMessage::Eject { member: number });
    assert_eq!(world.people[guest].over, Some(Code::Ejected));
    world.no_alarms();
    // the leader rejects a join with another secret
    world.link = link_with(settings, 8).for_members();
    let stranger = world.comes(1, 1);
    world.run(ms(500));
    assert!(world.people[stranger].over.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn loss_repetition_and_disorder_on_the_bus_never_make_garbage(
        seed in any::<u8>(), loss in 0u32..12, twice in 0u32..30, delay in 0u64..25, jitter in 0u64..30,
    ) {
        let mut world = three(settings(), Bus { loss, twice, delay, jitter }, seed);
        world.run(ms(4000));
        world.nobody_hears_garbage();
        // everybody is in the room, and hears the others now and then
        for person in &world.people {
            prop_assert!(person.place.is_some());
            let whole = person.heard.iter().filter(|(at, others)| *others == 5 && *at > world.now - ms(3000)).count();
            prop_assert!(whole > 10, "{whole} sums with all");
        }
    }
}
