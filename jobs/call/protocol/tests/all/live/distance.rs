//! Members far from their server: lines with round trips of up to 600 ms, and with jitter and
//! losses as under TCP.

#![allow(clippy::print_stdout, reason = "figures are printed")]

use std::collections::VecDeque;

use crate::live::*;
use tobari_call::live::LiveEvent;
use tobari_call::live::messages::ServerMessage;

/// Milliseconds of one simulation step.
const STEP_MS: u64 = 5;

/// The line of one connection. Messages arrive in order.
#[derive(Clone, Copy)]
struct Line {
    /// Round-trip time in milliseconds.
    round_trip: u64,
    /// The largest extra delay each way.
    jitter: u64,
    /// Per thousand packets: how many are lost. A lost packet and those behind it arrive after it
    /// was sent again.
    lost: u64,
}

const fn line(round_trip: u64) -> Line {
    Line { round_trip, jitter: 0, lost: 0 }
}

/// One direction of a line.
struct Way {
    queue: VecDeque<(u64, Thing)>,
    seed: u64,
}

enum Thing {
    Packet(Vec<u8>),
    Binary(Vec<u8>),
    Text(String),
}

impl Way {
    fn new(seed: u64) -> Self {
        Self { queue: VecDeque::new(), seed }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below.max(1)
    }

    fn send(&mut self, now: u64, line: Line, thing: Thing) {
        let mut due = now + line.round_trip / 2 + self.draw(line.jitter + 1);
        if self.draw(1000) < line.lost {
            due += line.round_trip.max(200);
        }
        let due = due.max(self.queue.back().map_or(0, |last| last.0));
        self.queue.push_back((due, thing));
    }

    fn arrived(&mut self, now: u64) -> Option<Thing> {
        self.queue.pop_front_if(|(due, _)| *due <= now).map(|(_, thing)| thing)
    }
}

/// A far speaker, and a listener beside the server.
struct Far {
    world: World,
    far: u16,
    near: u16,
    now: u64,
    line: Line,
    up: Way,
    down: Way,
    /// When the packet of each tick was made.
    made: BTreeMap<u32, u64>,
    last: Option<u32>,
    probes: u32,
    /// For each tick that the listener heard: its time, and the delay of the far speaker's audio if
    /// it is in the sum.
    heard: Vec<(u64, Option<u64>)>,
}

impl Far {
    fn new(line: Line, seed: u64) -> Self {
        let mut world = World::new(link());
        let (far, near) = (world.enter(true), world.enter(false));
        let (up, down) = (Way::new(seed), Way::new(seed + 1));
        let (made, heard) = (BTreeMap::new(), Vec::new());
        Self { world, far, near, now: 0, line, up, down, made, last: None, probes: 0, heard }
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds * 1000 / STEP_MS {
            self.step();
        }
    }

    fn step(&mut self) {
        while let Some(thing) = self.up.arrived(self.now) {
            match thing {
                Thing::Packet(packet) => self.world.send(self.far, &packet),
                Thing::Binary(note) => self.world.0.room.note(self.far, &note, Duration::from_millis(self.now)),
                Thing::Text(text) => {
                    let message = ClientMessage::parse(&text).unwrap();
                    self.world.0.room.message(self.far, &message, Duration::from_millis(self.now));
                }
            }
        }
        self.follow();
        while let Some(thing) = self.down.arrived(self.now) {
            let person = self.world.people.get_mut(&self.far).unwrap();
            match thing {
                Thing::Text(text) => {
                    person.member.message(&ServerMessage::parse(&text).unwrap(), &mut person.rng);
                }
                Thing::Packet(bytes) | Thing::Binary(bytes) => drop(person.member.binary(&bytes)),
            }
            person.drain(Duration::from_millis(self.now));
        }
        // frames are made between the ticks
        if self.now % 20 == 10 {
            self.frame();
        }
        self.now += STEP_MS;
    }

    fn frame(&mut self) {
        let person = self.world.people.get_mut(&self.far).unwrap();
        let packet = person.member.frame(&level(5), true, &mut person.rng);
        let probe = person.member.probe();
        if let Some(packet) = packet {
            let tick = self.tick_of(&packet);
            assert!(self.last.is_none_or(|last| tick > last), "{tick} after {:?}", self.last);
            self.last = Some(tick);
            self.made.insert(tick, self.now);
            self.up.send(self.now, self.line, Thing::Packet(packet));
        }
        if let Some(probe) = probe {
            let tick = self.tick_of(&probe);
            assert!(Some(tick) < self.last && self.made.contains_key(&tick), "a probe is a packet that was sent");
            self.probes += 1;
            self.up.send(self.now, self.line, Thing::Packet(probe));
        }
        while let Some(out) = self.world.people.get_mut(&self.far).unwrap().member.poll_outgoing() {
            let thing = match out {
                Outgoing::Text(text) => Thing::Text(text),
                Outgoing::Binary(bytes) => Thing::Binary(bytes),
            };
            self.up.send(self.now, self.line, thing);
        }
        let near = self.world.people.get_mut(&self.near).unwrap();
        near.member.frame(&level(0), false, &mut near.rng);
        while let Some(out) = self.world.people.get_mut(&self.near).unwrap().member.poll_outgoing() {
            if let Outgoing::Binary(note) = out {
                self.world.0.room.note(self.near, &note, Duration::from_millis(self.now));
            }
        }
    }

    /// Delivers the server's events, to the listener at once.
    fn follow(&mut self) {
        while let Some(event) = self.world.0.room.poll(Duration::from_millis(self.now)) {
            let (bytes, members) = match event {
                LiveEvent::Closed { sum: Some(bytes), members, .. } | LiveEvent::Send { members, bytes } => {
                    (bytes, members)
                }
                LiveEvent::Closed { tick, sum: None, .. } => {
                    let silent = ServerMessage::Silent { tick };
                    let near = self.world.people.get_mut(&self.near).unwrap();
                    near.member.message(&silent, &mut near.rng);
                    self.down.send(self.now, self.line, Thing::Text(silent.to_text()));
                    continue;
                }
                LiveEvent::Removed { fault, .. } => panic!("the server removes somebody: {fault}"),
                LiveEvent::Tell { .. } => continue,
            };
            if members.contains(&self.near) {
                let near = self.world.people.get_mut(&self.near).unwrap();
                if let Some(heard) = near.member.binary(&bytes) {
                    let made = self.made.get(&heard.tick).filter(|_| heard.speakers.contains(self.far));
                    self.heard.push((self.now, made.map(|made| self.now - made)));
                }
                near.drain(Duration::from_millis(self.now));
            }
            if members.contains(&self.far) {
                self.down.send(self.now, self.line, Thing::Binary(bytes));
            }
        }
    }

    fn tick_of(&self, packet: &[u8]) -> u32 {
        wire::decode_live_header(self.world.room.layout(), packet).unwrap().0.tick
    }

    fn person(&self) -> &Person {
        self.world.person_of(self.far)
    }

    /// For the ticks in these seconds: the share with the far speaker, and the speaker's mean
    /// delay.
    fn part(&self, from: u64, to: u64) -> (f64, f64) {
        let within = || self.heard.iter().filter(|(at, _)| (from * 1000..to * 1000).contains(at));
        let delays: Vec<u64> = within().filter_map(|(_, delay)| *delay).collect();
        let ticks = 50 * (to - from);
        let mean = delays.iter().sum::<u64>() as f64 / delays.len().max(1) as f64;
        (delays.len() as f64 / ticks as f64, mean)
    }

    fn told(&self, what: fn(&News) -> bool) -> usize {
        self.person().news.iter().filter(|news| what(news)).count()
    }
}

#[test]
fn fault_22_whoever_is_far_from_the_server_is_heard_as_far_as_its_window_goes() {
    println!("round trip, jitter, losses of 1000: heard, lead ms, from frame to sum ms, probes, told late");
    for (round_trip, jitter, lost, least) in [
        (0, 0, 0, 0.999),
        (60, 0, 0, 0.999),
        (60, 20, 0, 0.985),
        (60, 20, 10, 0.90),
        (150, 0, 0, 0.999),
        (150, 20, 0, 0.985),
        (150, 20, 10, 0.85),
        (260, 0, 0, 0.999),
        (260, 20, 0, 0.985),
        (260, 20, 10, 0.80),
        (300, 20, 0, 0.985),
        (400, 20, 0, 0.985),
        (400, 20, 10, 0.50),
        (500, 20, 0, 0.985),
        (600, 0, 0, 0.999),
        (600, 5, 0, 0.985),
    ] {
        let line = Line { round_trip, jitter, lost };
        let mut play = Far::new(line, 7);
        play.seconds(60);
        let (part, delay) = play.part(10, 60);
        let (lead, late) = (play.person().member.lead_ms(), play.told(|news| matches!(news, News::Late { .. })));
        println!("{round_trip}, {jitter}, {lost}: {part:.3}, {lead}, {delay:.0}, {}, {late}", play.probes);
        assert!(part >= least, "{round_trip} {jitter} {lost}: {part}");
        let needed = (round_trip + 2 * jitter).div_ceil(20) * 20;
        let spare = if lost > 0 { 460 } else { 60 };
        assert!(u64::from(lead) <= needed + spare, "{round_trip} {jitter} {lost}: a lead of {lead} ms");
        assert_eq!(play.told(|news| matches!(news, News::Far { .. })), 0, "{round_trip} {jitter} {lost}");
        let omitted = play.person().alarms();
        assert!(omitted.is_empty(), "an honest server is not accused: {omitted:?}");
    }
}

#[test]
fn fault_22_beyond_the_window_the_person_is_told_the_round_trip_and_the_limit_and_is_heard_when_it_is_shorter() {
    for round_trip in [680, 800, 1200] {
        let mut play = Far::new(line(round_trip), 3);
        play.seconds(10);
        let far: Vec<_> = play.person().news.iter().filter(|news| matches!(news, News::Far { .. })).collect();
        let [News::Far { round_trip_ms, most_ms }] = far[..] else { panic!("{round_trip}: told {far:?}") };
        assert!(u64::from(*round_trip_ms).abs_diff(round_trip) <= 20 && *most_ms == 620, "{far:?}");
        let made = play.made.len();
        play.seconds(10);
        assert!(play.made.len() - made <= 11, "nothing but a packet a second is sent for nobody");
        play.line = line(100);
        play.seconds(20);
        assert_eq!(play.told(|news| matches!(news, News::Near)), 1);
        let (part, _) = play.part(30, 40);
        assert!(part > 0.999 && play.person().member.lead_ms() <= 180, "{part}");
    }
}

#[test]
fn fault_22_a_line_that_is_slow_for_a_while_leaves_no_delay_behind() {
    for slow in [260, 400, 560] {
        let mut play = Far::new(line(40), 5);
        play.seconds(20);
        let before = play.part(10, 20);
        play.line = line(slow);
        play.seconds(20);
        let then = play.part(25, 40);
        play.line = line(40);
        play.seconds(30);
        let after = play.part(55, 70);
        println!("40, {slow}, 40 ms: heard and ms from frame to sum: {before:?}, {then:?}, {after:?}");
        assert!(before.0 > 0.999 && then.0 > 0.999 && after.0 > 0.999, "{slow}");
        assert!(after.1 <= before.1 + 40.0, "{slow}: {} ms, and {} after", before.1, after.1);
        let (while_slow, _) = play.part(20, 25);
        assert!(while_slow > 0.6, "{slow}: {while_slow} heard while the line changed");
    }
}

#[test]
fn fault_22_no_packet_lies_outside_the_servers_window_whatever_the_line_does() {
    // `follow` panics if the server removes a sender; the line changes every second
    for seed in 0..6 {
        let mut play = Far::new(line(0), seed);
        for _ in 0..40 {
            let round_trip = play.up.draw(40) * 25;
            let (jitter, lost) = (play.up.draw(3) * 40, play.up.draw(2) * 30);
            play.line = Line { round_trip, jitter, lost };
            play.seconds(1);
        }
        play.line = line(20);
        play.seconds(30);
        let (part, delay) = play.part(60, 70);
        assert!(part > 0.98 && delay < 120.0, "{seed}: {part} heard, {delay} ms under way");
    }
}
