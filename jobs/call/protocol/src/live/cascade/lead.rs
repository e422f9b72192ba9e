//! The server that leads: the room itself, and the links to the edges.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::wire::{self, LiveSum};
use tobari_curve::wire::MemberSet;

use super::{
    Address, Counts, LOST, SharedEvent, Station,
    line::Line,
    messages::{BusContent, BusMessage, EdgeState, MAX_EDGES, Parts, Tick, ToEdge, ToLeader, Word},
    on_bus,
};
use crate::{
    live::{
        LiveEvent, LiveRoom, LiveUplink, Mixer, Proven,
        messages::{ServerMessage, Welcome},
    },
    server::{Fault, Refusal},
};

/// How long a room that has just opened gathers hellos. After the loss of a leader all members join
/// at once, and the second roster is a second after the first.
const GATHER: Duration = Duration::from_millis(250);
/// The most notes that are gathered.
const GATHERED: usize = 1024;
/// How many stations of lost edges are kept, so that they do not count as new ones.
const PAST: usize = 256;

/// The link to a server with members in this room.
struct Link {
    number: u32,
    line: Line,
    heard: Duration,
}

/// The edge of a member, and the epochs that the member is in.
struct Home {
    edge: Station,
    since: Option<u32>,
    /// The last epoch, if the member has left.
    until: Option<u32>,
}

impl Home {
    fn is_in(&self, epoch: u32) -> bool {
        self.since.is_some_and(|since| since <= epoch) && self.until.is_none_or(|until| epoch <= until)
    }
}

/// The leader's part.
pub(super) struct Lead {
    me: Station,
    pub(super) room: LiveRoom,
    links: BTreeMap<Station, Link>,
    numbers: u32,
    past: VecDeque<Station>,
    /// Present and former members of the edges.
    homes: BTreeMap<u16, Home>,
    /// The last epoch whose roster the edges know.
    told: u32,
    /// Notes from before the first roster, and the time until which they are gathered.
    gathered: Vec<(u16, Vec<u8>)>,
    gathers: Duration,
    /// This leader accepts no followers any more.
    closing: bool,
    pub(super) events: VecDeque<SharedEvent>,
}

impl Lead {
    pub(super) fn new(me: Station, room: LiveRoom, now: Duration) -> Self {
        Self {
            me,
            room,
            links: BTreeMap::new(),
            numbers: 0,
            past: VecDeque::new(),
            homes: BTreeMap::new(),
            told: 0,
            gathered: Vec::new(),
            gathers: now + GATHER,
            closing: false,
            events: VecDeque::new(),
        }
    }

    pub(super) fn edges(&self) -> usize {
        self.links.len()
    }

    pub(super) fn is_left(&self) -> bool {
        self.room.members() == 0 && self.events.is_empty()
    }

    /// The edge of a member, if it is at one.
    fn home(&self, member: u16) -> Option<Station> {
        self.homes.get(&member).filter(|home| home.until.is_none()).map(|home| home.edge)
    }

    fn publish(&mut self, to: Address, said: BusContent) {
        let bytes = BusMessage { from: self.me, said }.encode();
        self.events.push_back(SharedEvent::Publish { to, bytes });
    }

    pub(super) fn say_over(&mut self) {
        self.publish(Address::All, BusContent::Over);
    }

    fn say(&mut self, edge: Station, item: &ToEdge) {
        if let Some(link) = self.links.get_mut(&edge) {
            link.line.say(&item.encode());
        }
    }

    /// Sends the queued words.
    fn send_words(&mut self, now: Duration) {
        let mut words = Vec::new();
        for (edge, link) in &mut self.links {
            let number = link.number;
            words.extend(std::iter::from_fn(|| link.line.word(number, now)).map(|word| (*edge, word)));
        }
        words.into_iter().for_each(|(edge, word)| self.publish(Address::To(edge), BusContent::Word(word)));
    }

    /// Admits a member, and forgets the former member with its number.
    fn let_in(&mut self, join: &Proven, now: Duration) -> Result<Welcome, Refusal> {
        let welcome = self.room.join(join, now)?;
        self.homes.remove(&welcome.member);
        self.gathered.retain(|(number, _)| *number != welcome.member);
        Ok(welcome)
    }

    /// A client of this server wants to join.
    pub(super) fn join(&mut self, ticket: u32, join: &Proven, now: Duration) {
        match self.let_in(join, now) {
            Ok(welcome) => {
                let uplink = LiveUplink::new(self.room.layout(), &welcome);
                self.events.push_back(SharedEvent::Seated { ticket, welcome, uplink });
            }
            Err(refusal) => self.events.push_back(SharedEvent::Refused { ticket, refusal }),
        }
    }

    /// Takes a note of a member of any server.
    pub(super) fn note(&mut self, member: u16, note: &[u8], now: Duration) {
        if now < self.gathers && self.gathered.len() < GATHERED {
            self.gathered.push((member, note.to_vec()));
        } else {
            self.pass_on_notes(now);
            self.room.note(member, note, now);
        }
    }

    fn pass_on_notes(&mut self, now: Duration) {
        for (member, note) in std::mem::take(&mut self.gathered) {
            self.room.note(member, &note, now);
        }
    }

    /// Takes a message from the bus; false if this leader gives way to another.
    pub(super) fn hear(
        &mut self,
        message: &BusMessage,
        mixer: &mut dyn Mixer,
        counts: &mut Counts,
        now: Duration,
    ) -> bool {
        let from = message.from;
        match &message.said {
            BusContent::Tick(_) => return from > self.me || self.closing,
            BusContent::Seek => {}
            BusContent::Over => self.lose(from, now),
            BusContent::Parts(parts) => self.parts(from, parts, mixer, counts, now),
            BusContent::Word(word) => self.word(from, word, now),
        }
        true
    }

    fn parts(&mut self, from: Station, parts: &Parts, mixer: &mut dyn Mixer, counts: &mut Counts, now: Duration) {
        let Some(link) = self.links.get_mut(&from) else { return };
        link.heard = now;
        link.line.confirm(parts.heard, now);
        parts
            .late
            .iter()
            .filter(|member| self.home(*member) == Some(from))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|member| self.room.is_late(member));
        let layout = on_bus(self.room.layout());
        for bytes in &parts.sums {
            let part = wire::decode_live_sum(layout, bytes).ok().filter(|part| self.is_of(from, part));
            match part.is_some_and(|part| self.room.partial(&part, mixer)) {
                true => counts.parts += 1,
                false => counts.refused += 1,
            }
        }
    }

    /// Are these members of that edge, and on the roster of that epoch?
    fn is_of(&self, edge: Station, part: &LiveSum) -> bool {
        let is_of = |member| self.homes.get(&member).is_some_and(|home| home.edge == edge && home.is_in(part.epoch));
        part.speakers.iter().all(is_of)
    }

    fn word(&mut self, from: Station, word: &Word, now: Duration) {
        if !self.links.contains_key(&from) {
            let is_new = word.number == 1 && !self.past.contains(&from);
            if !is_new || self.closing || self.links.len() >= MAX_EDGES {
                return;
            }
            self.numbers += 1;
            self.links.insert(from, Link { number: self.numbers, line: Line::default(), heard: now });
        }
        let Some(link) = self.links.get_mut(&from) else { return };
        let Ok(items) = link.line.take(word) else { return self.lose(from, now) };
        for item in items {
            let Some(item) = ToLeader::decode(&item) else { return self.lose(from, now) };
            self.item(from, item, now);
        }
    }

    fn item(&mut self, from: Station, item: ToLeader, now: Duration) {
        let is_there = |member| self.home(member) == Some(from);
        match item {
            ToLeader::Join { ticket, join } => match self.let_in(&join, now) {
                Ok(welcome) => {
                    self.homes.insert(welcome.member, Home { edge: from, since: None, until: None });
                    self.say(from, &ToEdge::Seated { ticket, welcome });
                }
                Err(refusal) => {
                    let refusal = ServerMessage::Refused { code: refusal.code(), reason: refusal.to_string() };
                    self.say(from, &ToEdge::Refused { ticket, refusal });
                }
            },
            ToLeader::Note { member, bytes } if is_there(member) => self.note(member, &bytes, now),
            ToLeader::Said { member, message } if is_there(member) => self.room.message(member, &message, now),
            ToLeader::Left { member, urgent } if is_there(member) => {
                self.forget(member);
                if urgent { self.room.remove(member, Fault::Slow) } else { self.room.leave(member, now) }
            }
            // from a member that has left already
            ToLeader::Note { .. } | ToLeader::Said { .. } | ToLeader::Left { .. } => {}
        }
    }

    /// A member of an edge has left. Its packets of the epochs that it is in may still arrive.
    fn forget(&mut self, member: u16) {
        let (epoch, since) = (self.room.epoch(), self.room.listed_since(member));
        if let Some(home) = self.homes.get_mut(&member) {
            home.since = home.since.or(since);
            home.until.get_or_insert(epoch);
        }
    }

    /// An edge is lost, and its members with it.
    fn lose(&mut self, edge: Station, now: Duration) {
        if self.links.remove(&edge).is_none() {
            return;
        }
        self.past.push_back(edge);
        if self.past.len() > PAST {
            self.past.pop_front();
        }
        let members: Vec<u16> = self.homes.keys().copied().filter(|member| self.home(*member) == Some(edge)).collect();
        for member in members {
            self.forget(member);
            self.room.leave(member, now);
        }
    }

    /// Does everything that is due.
    pub(super) fn advance(&mut self, now: Duration, counts: &mut Counts) {
        let lost: Vec<Station> = self
            .links
            .iter()
            .filter(|(_, link)| link.heard + LOST <= now || link.line.is_clogged())
            .map(|(edge, _)| *edge)
            .collect();
        for edge in lost {
            counts.edges_lost += 1;
            self.lose(edge, now);
        }
        if now >= self.gathers {
            self.pass_on_notes(now);
        }
        while let Some(event) = self.room.poll(now) {
            self.tell_who_is_listed();
            self.pass_on(event);
            self.send_words(now);
        }
        self.send_words(now);
        if self.room.is_over() && !self.closing {
            // the next member opens another room
            self.closing = true;
            self.say_over();
        }
    }

    /// Tells the edges from which epoch on packets of their members count.
    fn tell_who_is_listed(&mut self) {
        let epoch = self.room.epoch();
        if epoch == self.told {
            return;
        }
        self.told = epoch;
        let mut listed: BTreeMap<Station, MemberSet> = BTreeMap::new();
        for (member, home) in self.homes.iter_mut().filter(|(_, home)| home.until.is_none() && home.since.is_none()) {
            home.since = self.room.listed_since(*member);
            if home.since.is_some() {
                listed.entry(home.edge).or_default().insert(*member);
            }
        }
        for (edge, members) in listed {
            self.say(edge, &ToEdge::Listed { epoch, members });
        }
    }

    /// Splits members into those of this server and those of the edges.
    fn split(&self, members: Vec<u16>) -> (Vec<u16>, BTreeMap<Station, MemberSet>) {
        let (mut here, mut there) = (Vec::new(), BTreeMap::<Station, MemberSet>::new());
        for member in members {
            match self.home(member) {
                None => here.push(member),
                Some(edge) => {
                    there.entry(edge).or_default().insert(member);
                }
            }
        }
        (here, there)
    }

    fn pass_on(&mut self, event: LiveEvent) {
        match event {
            LiveEvent::Closed { tick, packets, late, sum, members } => {
                if !self.closing {
                    self.publish_tick(tick, sum.as_ref());
                }
                let (members, _) = self.split(members);
                self.events.push_back(SharedEvent::Closed { tick, counted: Some((packets, late)), sum, members });
            }
            LiveEvent::Send { members, bytes } => {
                let (members, there) = self.split(members);
                for (edge, members) in there {
                    self.say(edge, &ToEdge::Send { members, bytes: bytes.clone() });
                }
                if !members.is_empty() {
                    self.events.push_back(SharedEvent::Send { members, bytes });
                }
            }
            LiveEvent::Tell { member, message } => match self.home(member) {
                Some(edge) => self.say(edge, &ToEdge::Tell { member, message }),
                None => self.events.push_back(SharedEvent::Tell { member, message }),
            },
            LiveEvent::Removed { member, fault } => {
                let message = ServerMessage::Removed { code: fault.code(), reason: fault.to_string() };
                match self.home(member) {
                    Some(edge) => {
                        self.forget(member);
                        self.say(edge, &ToEdge::Tell { member, message });
                    }
                    None => self.events.push_back(SharedEvent::Removed { member, message }),
                }
            }
        }
    }

    fn publish_tick(&mut self, tick: u32, sum: Option<&Vec<u8>>) {
        let state = |(edge, link): (&Station, &Link)| EdgeState {
            edge: *edge,
            link: link.number,
            said: link.line.said(),
            heard: link.line.heard(),
        };
        let edges: Vec<EdgeState> = self.links.iter().map(state).collect();
        // without edges the tick says that this room has a leader, and nobody needs the sum
        let sum = sum.filter(|_| !edges.is_empty()).cloned();
        self.publish(Address::All, BusContent::Tick(Tick { tick, edges, sum }));
    }

    /// Ends the room for the members of this server, and leaves the members of the edges to another
    /// leader.
    pub(super) fn close(&mut self, now: Duration, until: Duration) {
        self.say_over();
        let edges: Vec<Station> = self.links.keys().copied().collect();
        edges.into_iter().for_each(|edge| self.lose(edge, now));
        self.closing = true;
        self.room.close(now, until);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let lost = self.links.values().map(|link| link.heard + LOST).min();
        let gathers = (!self.gathered.is_empty()).then_some(self.gathers);
        [self.room.deadline(), lost, gathers].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{
        LiveLimits, OneByOne, PACKET_WORDS, RoomLink, SessionId, Settings, attack::proven, hello, keys::RoomKeys,
        notes::Hello,
    };
    use crate::{mask::Tag, wire::LivePayload};
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use tobari_curve::wire::RoomId;

    const ME: Station = Station([5; 8]);
    const ROOM: RoomId = RoomId(ME.0);

    fn link() -> RoomLink {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng)
    }

    fn join() -> Proven {
        proven(&link(), true)
    }

    /// A leader, and the lines of two edges to it.
    struct Two {
        lead: Lead,
        lines: BTreeMap<Station, Line>,
        counts: Counts,
        now: Duration,
    }

    impl Two {
        fn hear(&mut self, from: Station, said: BusContent) {
            let message = BusMessage { from, said };
            assert!(self.lead.hear(&message, &mut OneByOne::default(), &mut self.counts, self.now));
        }

        fn say(&mut self, from: Station, item: &ToLeader) {
            let line = self.lines.entry(from).or_default();
            line.say(&item.encode());
            let words: Vec<Word> = std::iter::from_fn(|| line.word(0, self.now)).collect();
            words.into_iter().for_each(|word| self.hear(from, BusContent::Word(word)));
        }

        /// A member of that edge joins and presents itself.
        fn comes(&mut self, edge: Station, member: u16) {
            self.say(edge, &ToLeader::Join { ticket: 0, join: join() });
            let said = Hello { member, speaks: true, name: String::new() };
            let bytes = hello::write(&RoomKeys::new(&link()), ROOM, SessionId([member as u8; 16]), &said).unwrap();
            self.say(edge, &ToLeader::Note { member, bytes });
        }

        fn wait(&mut self, time: Duration) {
            let until = self.now + time;
            while self.now < until {
                self.now += Duration::from_millis(5);
                let edges: Vec<Station> = self.lines.keys().copied().collect();
                edges.into_iter().for_each(|edge| self.parts(edge, Vec::new()));
                self.lead.advance(self.now, &mut self.counts);
                self.lead.events.clear();
            }
        }

        fn parts(&mut self, edge: Station, sums: Vec<Vec<u8>>) {
            self.hear(edge, BusContent::Parts(Parts { said: 0, heard: u32::MAX, late: MemberSet::default(), sums }));
        }

        /// The edge sends a sum of these members; true if the leader added it.
        fn adds(&mut self, edge: Station, members: &[u16], epoch: u32, ahead: u32) -> bool {
            let layout = self.lead.room.layout();
            let mut speakers = MemberSet::default();
            members.iter().for_each(|member| assert!(speakers.insert(*member)));
            let (tick, payload) = (self.lead.room.open_tick() + ahead, LivePayload::zero(layout, PACKET_WORDS));
            let (late, tag) = (MemberSet::default(), Tag::default());
            let part = LiveSum { room: ROOM, epoch, tick, speakers, late, tag, payload };
            let before = self.counts;
            self.parts(edge, vec![wire::encode_live_sum(layout, &part)]);
            let (added, refused) = (self.counts.parts - before.parts, self.counts.refused - before.refused);
            assert_eq!(added + refused, 1);
            added == 1
        }
    }

    fn two() -> Two {
        let room = LiveRoom::open(ROOM, &join(), LiveLimits::default(), Duration::ZERO).unwrap();
        let lead = Lead::new(ME, room, Duration::ZERO);
        let mut two = Two { lead, lines: BTreeMap::new(), counts: Counts::default(), now: Duration::ZERO };
        two.comes(Station([8; 8]), 0);
        two.comes(Station([9; 8]), 1);
        assert_eq!((two.lead.edges(), two.lead.room.members()), (2, 2));
        two
    }

    #[test]
    fn parts_of_strangers_and_parts_that_come_twice_are_refused() {
        let (one, other) = (Station([8; 8]), Station([9; 8]));
        let mut two = two();
        assert!(!two.adds(one, &[0], 1, 0), "nobody is on a roster yet");
        two.wait(Duration::from_secs(1));
        assert_eq!(two.lead.room.epoch(), 1);
        assert!(two.adds(one, &[0], 1, 1) && !two.adds(one, &[0], 1, 1), "twice");
        assert!(!two.adds(other, &[0, 1], 1, 1) && !two.adds(other, &[0], 1, 2), "members of another edge");
        assert!(two.adds(other, &[1], 1, 1) && two.adds(other, &[1], 1, 2));
        assert!(!two.adds(one, &[0], 2, 3) && !two.adds(one, &[0], 0, 3), "another epoch than the tick's");
        assert!(!two.adds(one, &[0], 1, 32), "beyond the window");
        assert!(!two.adds(one, &[7], 1, 3), "nobody");
        two.hear(
            Station([7; 8]),
            BusContent::Parts(Parts { said: 0, heard: 0, late: MemberSet::default(), sums: vec![vec![1]] }),
        );
        assert_eq!(two.lead.edges(), 2, "a station that has said nothing else");
    }

    #[test]
    fn what_a_member_sent_before_it_left_counts_and_what_it_never_could_send_does_not() {
        let (one, other) = (Station([8; 8]), Station([9; 8]));
        let mut two = two();
        two.wait(Duration::from_secs(1));
        two.say(one, &ToLeader::Left { member: 0, urgent: false });
        assert!(two.adds(one, &[0], 1, 0));
        two.comes(other, 2);
        two.wait(Duration::from_secs(2));
        assert_eq!(two.lead.room.epoch(), 2);
        assert!(!two.adds(one, &[0], 2, 1), "an epoch without it");
        assert!(two.adds(other, &[1], 2, 1) && two.adds(other, &[2], 2, 1));
    }

    #[test]
    fn an_edge_that_is_not_heard_is_lost_with_its_members_and_does_not_come_back() {
        let mut two = two();
        two.wait(Duration::from_secs(1));
        two.lines.remove(&Station([9; 8]));
        two.wait(LOST + Duration::from_millis(100));
        assert_eq!((two.lead.edges(), two.lead.room.members(), two.counts.edges_lost), (1, 1, 1));
        two.comes(Station([9; 8]), 2);
        assert_eq!((two.lead.edges(), two.lead.room.members()), (1, 1));
    }
}
