//! A server that follows a leader: adds its members' packets, and passes on everything else.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use crate::wire::{self, LiveLayout, LivePacket, LivePayload, LiveSum};
use tobari_curve::wire::{MemberSet, RoomId};

use super::{
    Address, HOLD, LOST, SharedEvent, Station,
    line::Line,
    messages::{BusContent, BusMessage, EdgeState, MAX_PARTS, Parts, Tick, ToEdge, ToLeader, Word},
    on_bus,
};
use crate::{
    TICK_MS,
    live::{
        LiveUplink, Mixer, PACKET_WORDS, Proven,
        messages::{ClientMessage, ServerMessage},
        modes::layout_of,
        server::Sum,
    },
    messages::Code,
    server::{Fault, Refusal},
};

/// The longest time between two messages to the leader.
const SAY: Duration = Duration::from_millis(TICK_MS);
/// Ticks that are held until the words sent before them arrive.
const HELD: usize = 8;

/// The part of a member's state that decides whether its packets count.
struct Member {
    waits: bool,
    speaks: bool,
    muted: bool,
    /// The first epoch that it is in.
    since: Option<u32>,
}

/// Known once a member has joined.
#[derive(Clone, Copy)]
struct Room {
    id: RoomId,
    layout: LiveLayout,
}

/// The edge's part.
pub(super) struct Edge {
    me: Station,
    leader: Station,
    window: u32,
    /// The number of the leader's link to this edge, once it is known.
    link: Option<u32>,
    line: Line,
    room: Option<Room>,
    waiting: BTreeMap<u32, Proven>,
    members: BTreeMap<u16, Member>,
    /// The first tick that has not closed, as far as known.
    open: u32,
    /// The parts to publish, by tick and epoch, and since when they wait.
    parts: BTreeMap<(u32, u32), Sum>,
    waits: Option<Duration>,
    /// The members that have sent for each open tick.
    taken: BTreeMap<u32, BTreeSet<u16>>,
    late: MemberSet,
    held: VecDeque<Tick>,
    /// The newest tick that lists this edge.
    newest: u32,
    /// Since when this leader is followed, when it was last heard, and when this edge last sent.
    since: Duration,
    heard: Duration,
    said: Option<Duration>,
    /// When this server ends its part.
    closes: Option<Duration>,
    /// Does the leader know that no member is left?
    is_over: bool,
    pub(super) events: VecDeque<SharedEvent>,
}

impl Edge {
    pub(super) fn new(me: Station, leader: Station, window: u32, now: Duration) -> Self {
        Self {
            me,
            leader,
            window,
            link: None,
            line: Line::default(),
            room: None,
            waiting: BTreeMap::new(),
            members: BTreeMap::new(),
            open: 0,
            parts: BTreeMap::new(),
            waits: None,
            taken: BTreeMap::new(),
            late: MemberSet::default(),
            held: VecDeque::new(),
            newest: 0,
            since: now,
            heard: now,
            said: None,
            closes: None,
            is_over: false,
            events: VecDeque::new(),
        }
    }

    pub(super) fn open_tick(&self) -> u32 {
        self.open
    }

    pub(super) fn layout(&self) -> Option<LiveLayout> {
        self.room.map(|room| room.layout)
    }

    pub(super) fn is_left(&self) -> bool {
        self.members.is_empty() && self.waiting.is_empty() && self.events.is_empty()
    }

    fn publish(&mut self, to: Address, said: BusContent) {
        let bytes = BusMessage { from: self.me, said }.encode();
        self.events.push_back(SharedEvent::Publish { to, bytes });
    }

    fn say(&mut self, item: &ToLeader) {
        self.line.say(&item.encode());
    }

    pub(super) fn say_over(&mut self, now: Duration) {
        self.flush(now);
        self.publish(Address::To(self.leader), BusContent::Over);
    }

    pub(super) fn join(&mut self, ticket: u32, join: &Proven) {
        if self.closes.is_some() {
            self.events.push_back(SharedEvent::Refused { ticket, refusal: Refusal::Closing });
            return;
        }
        self.waiting.insert(ticket, join.clone());
        self.say(&ToLeader::Join { ticket, join: join.clone() });
    }

    /// Takes packets of members. A packet that the leader would not add must not be added here:
    /// nothing can be taken out of a sum.
    pub(super) fn packets(&mut self, packets: &[&LivePacket], mixer: &mut dyn Mixer, now: Duration) {
        let Some(room) = self.room else { return };
        let mut taken: BTreeMap<(u32, u32), Vec<&LivePayload>> = BTreeMap::new();
        for packet in packets {
            match self.take(packet, room) {
                Ok(false) => {}
                Ok(true) => {
                    let (tick, epoch) = (packet.header.tick, packet.header.epoch);
                    let sum = self.parts.entry((tick, epoch)).or_insert_with(|| Sum::empty(room.layout, epoch));
                    sum.speakers.insert(packet.header.member);
                    sum.tag.add_assign(&packet.tag);
                    taken.entry((tick, epoch)).or_default().push(&packet.payload);
                    self.waits.get_or_insert(now);
                }
                Err(fault) => self.remove(packet.header.member, &fault),
            }
        }
        for (key, payloads) in taken {
            if let Some(sum) = self.parts.get_mut(&key) {
                mixer.mix(&mut sum.payload, &payloads);
            }
        }
    }

    fn take(&mut self, packet: &LivePacket, room: Room) -> Result<bool, Fault> {
        let header = packet.header;
        let Some(sender) = self.members.get(&header.member) else { return Ok(false) };
        if !packet.payload.fits(room.layout) || packet.payload.samples() != PACKET_WORDS {
            return Err(Fault::Internal);
        }
        // a member that may no longer speak may have sent this before it knew
        if !sender.speaks || sender.waits || sender.muted {
            return Ok(false);
        }
        let listed = sender.since.is_some_and(|since| since <= header.epoch);
        let Some(ahead) = header.tick.checked_sub(self.open).filter(|_| listed) else {
            self.late.insert(header.member);
            return Ok(false);
        };
        if ahead >= self.window {
            return Err(Fault::Flood { tick: header.tick, open: self.open, window: self.window });
        }
        Ok(self.taken.entry(header.tick).or_default().insert(header.member))
    }

    pub(super) fn note(&mut self, member: u16, note: &[u8]) {
        if self.members.contains_key(&member) {
            self.say(&ToLeader::Note { member, bytes: note.to_vec() });
        }
    }

    pub(super) fn message(&mut self, member: u16, message: &ClientMessage) {
        if self.members.contains_key(&member) {
            self.say(&ToLeader::Said { member, message: message.clone() });
        }
    }

    pub(super) fn remove(&mut self, member: u16, fault: &Fault) {
        if self.members.remove(&member).is_some() {
            self.say(&ToLeader::Left { member, urgent: true });
            let message = ServerMessage::Removed { code: fault.code(), reason: fault.to_string() };
            self.events.push_back(SharedEvent::Removed { member, message });
        }
    }

    pub(super) fn leave(&mut self, member: u16) {
        if self.members.remove(&member).is_some() {
            self.say(&ToLeader::Left { member, urgent: false });
        }
    }

    /// Takes a message from the bus; false if the leader is lost.
    pub(super) fn hear(&mut self, message: &BusMessage, now: Duration) -> bool {
        if message.from != self.leader {
            return true;
        }
        match &message.said {
            BusContent::Tick(tick) => {
                self.heard = now;
                self.tick(tick, now)
            }
            BusContent::Word(word) => self.word(word),
            BusContent::Over => false,
            BusContent::Seek | BusContent::Parts(_) => true,
        }
    }

    /// Is this the current link, or the first? A lost link does not come back.
    fn is_link(&mut self, link: u32) -> bool {
        *self.link.get_or_insert(link) == link
    }

    fn tick(&mut self, tick: &Tick, now: Duration) -> bool {
        let Some(state) = self.state_in(tick) else {
            if self.link.is_some() {
                // a tick from before this edge was listed may arrive after one that lists it
                return tick.tick < self.newest.max(self.open);
            }
            // the leader has received nothing yet; an edge that it cannot hear, or has no place
            // for, seeks again
            self.line.confirm(0, now);
            return now < self.since + LOST;
        };
        if !self.is_link(state.link) {
            return false;
        }
        self.newest = self.newest.max(tick.tick);
        self.line.confirm(state.heard, now);
        if self.held.len() == HELD {
            // its members miss a sum, as on any bad line
            self.held.pop_front();
        }
        self.held.push_back(tick.clone());
        self.deliver();
        true
    }

    fn state_in(&self, tick: &Tick) -> Option<EdgeState> {
        tick.edges.iter().find(|state| state.edge == self.me).copied()
    }

    /// Passes on ticks once all words sent before them have arrived: a roster must not arrive after
    /// the sums for which it holds.
    fn deliver(&mut self) {
        let heard = self.line.heard();
        while let Some(tick) = self.held.pop_front_if(|tick| {
            let said = tick.edges.iter().find(|state| state.edge == self.me).map_or(0, |state| state.said);
            said <= heard
        }) {
            if tick.tick < self.open {
                continue; // repeated, or out of order
            }
            self.open = tick.tick + 1;
            self.taken = self.taken.split_off(&self.open);
            let inside = self.members.iter().filter(|(_, member)| !member.waits).map(|(number, _)| *number).collect();
            self.events.push_back(SharedEvent::Closed {
                tick: tick.tick,
                counted: None,
                sum: tick.sum,
                members: inside,
            });
        }
    }

    fn word(&mut self, word: &Word) -> bool {
        if !self.is_link(word.link) {
            return false;
        }
        let Ok(items) = self.line.take(word) else { return false };
        for item in items {
            let Some(item) = ToEdge::decode(&item) else { return false };
            self.item(item);
        }
        self.deliver();
        true
    }

    fn item(&mut self, item: ToEdge) {
        match item {
            ToEdge::Seated { ticket, welcome } => {
                let join = self.waiting.remove(&ticket);
                let known = join.and_then(|join| layout_of(&join.join().settings).map(|layout| (join, layout)));
                let Some((join, layout)) = known else {
                    return self.say(&ToLeader::Left { member: welcome.member, urgent: false });
                };
                self.room = Some(Room { id: welcome.room, layout });
                if self.members.is_empty() {
                    self.open = self.open.max(welcome.tick);
                }
                let (waits, speaks) = (welcome.waiting, join.join().speak);
                self.members.insert(welcome.member, Member { waits, speaks, muted: false, since: None });
                let uplink = LiveUplink::new(layout, &welcome);
                self.events.push_back(SharedEvent::Seated { ticket, welcome, uplink });
            }
            ToEdge::Refused { ticket, refusal } => {
                if let ServerMessage::Refused { code, reason } = refusal
                    && self.waiting.remove(&ticket).is_some()
                {
                    // a client looks again for a room that has just ended
                    let refusal = if code == Code::Ended { Refusal::Over } else { Refusal::Elsewhere { code, reason } };
                    self.events.push_back(SharedEvent::Refused { ticket, refusal });
                }
            }
            ToEdge::Listed { epoch, members } => {
                for (_, member) in self.members.iter_mut().filter(|(number, _)| members.contains(**number)) {
                    member.since.get_or_insert(epoch);
                }
            }
            ToEdge::Send { members, bytes } => {
                let members: Vec<u16> = members.iter().filter(|number| self.members.contains_key(number)).collect();
                self.events.push_back(SharedEvent::Send { members, bytes });
            }
            ToEdge::Tell { member, message } => self.tell(member, message),
        }
    }

    fn tell(&mut self, number: u16, message: ServerMessage) {
        let Some(member) = self.members.get_mut(&number) else { return };
        match message {
            ServerMessage::Admitted { .. } => member.waits = false,
            ServerMessage::Granted { speak } => member.speaks = speak,
            ServerMessage::Muted { muted } => member.muted = muted,
            ServerMessage::Removed { .. } => {
                self.members.remove(&number);
                return self.events.push_back(SharedEvent::Removed { member: number, message });
            }
            _ => {}
        }
        self.events.push_back(SharedEvent::Tell { member: number, message });
    }

    /// Publishes the waiting parts. They go before the words, so that packets of a member that has
    /// just left still count.
    fn flush(&mut self, now: Duration) {
        let Some(room) = self.room else {
            return self.say_parts(Vec::new(), now);
        };
        let layout = on_bus(room.layout);
        let mut sums = Vec::new();
        for ((tick, _), sum) in std::mem::take(&mut self.parts) {
            let Sum { epoch, payload, tag, speakers } = sum;
            let late = MemberSet::default();
            let part = LiveSum { room: room.id, epoch, tick, speakers, late, tag, payload };
            sums.push(wire::encode_live_sum(layout, &part));
            if sums.len() == MAX_PARTS {
                self.say_parts(std::mem::take(&mut sums), now);
            }
        }
        self.waits = None;
        self.say_parts(sums, now);
    }

    fn say_parts(&mut self, sums: Vec<Vec<u8>>, now: Duration) {
        self.said = Some(now);
        let late = std::mem::take(&mut self.late);
        let (said, heard) = (self.line.said(), self.line.heard());
        self.publish(Address::To(self.leader), BusContent::Parts(Parts { said, heard, late, sums }));
    }

    /// Does everything that is due; false if the leader is lost.
    pub(super) fn advance(&mut self, now: Duration) -> bool {
        if self.heard + LOST <= now || self.line.is_clogged() {
            return false;
        }
        if self.closes.is_some_and(|until| until <= now) && !self.members.is_empty() {
            let members: Vec<u16> = self.members.keys().copied().collect();
            members.into_iter().for_each(|member| self.remove(member, &Fault::Shutdown));
        }
        let waited = self.waits.is_some_and(|since| since + HOLD <= now);
        let words: Vec<Word> = std::iter::from_fn(|| self.line.word(0, now)).collect();
        if waited || !words.is_empty() || self.said.is_none_or(|said| said + SAY <= now) {
            self.flush(now);
        }
        words.into_iter().for_each(|word| self.publish(Address::To(self.leader), BusContent::Word(word)));
        if self.members.is_empty() && self.waiting.is_empty() && !self.is_over {
            self.is_over = true;
            self.publish(Address::To(self.leader), BusContent::Over);
        }
        true
    }

    /// Ends this server's part; the members of other servers go on.
    pub(super) fn close(&mut self, now: Duration, until: Duration) {
        if self.closes.is_none() {
            self.closes = Some(until);
            let seconds = until.saturating_sub(now).as_secs() as u32;
            for member in self.members.keys() {
                let message = ServerMessage::Closing { seconds };
                self.events.push_back(SharedEvent::Tell { member: *member, message });
            }
            for (ticket, _) in std::mem::take(&mut self.waiting) {
                self.events.push_back(SharedEvent::Refused { ticket, refusal: Refusal::Closing });
            }
        }
    }

    pub(super) fn deadline(&self) -> Duration {
        let say = self.said.map_or(Duration::ZERO, |said| said + SAY);
        let waits = self.waits.map(|since| since + HOLD);
        let all = [Some(self.heard + LOST), waits, self.closes.filter(|_| !self.members.is_empty())];
        all.into_iter().flatten().fold(say, Duration::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{RoomLink, Settings, attack::proven};
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    const ME: Station = Station([8; 8]);
    const LEADER: Station = Station([5; 8]);

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn edge() -> Edge {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let link = RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng);
        let mut edge = Edge::new(ME, LEADER, 32, at(0));
        edge.join(0, &proven(&link, true));
        edge
    }

    /// A tick is over, with a link to this edge or without; false if the edge leaves the leader.
    fn ticks(edge: &mut Edge, tick: u32, link: Option<u32>, now: Duration) -> bool {
        let edges = link.map(|link| EdgeState { edge: ME, link, said: 0, heard: 1 }).into_iter().collect();
        edge.hear(&BusMessage { from: LEADER, said: BusContent::Tick(Tick { tick, edges, sum: None }) }, now)
    }

    /// How many words are on their way.
    fn words(edge: &mut Edge, now: Duration) -> usize {
        assert!(edge.advance(now));
        let is_word = |event: &SharedEvent| {
            let SharedEvent::Publish { bytes, .. } = event else { return false };
            matches!(BusMessage::decode(bytes).unwrap().said, BusContent::Word(_))
        };
        edge.events.drain(..).filter(is_word).count()
    }

    #[test]
    fn a_first_word_that_is_lost_is_said_again_and_a_leader_that_never_answers_is_left() {
        let mut edge = edge();
        assert_eq!((words(&mut edge, at(0)), words(&mut edge, at(20))), (1, 0));
        assert!(ticks(&mut edge, 1, None, at(40)) && words(&mut edge, at(40)) == 0, "too soon");
        assert!(ticks(&mut edge, 2, None, at(60)) && words(&mut edge, at(60)) == 1);
        assert!((3..49).all(|tick| ticks(&mut edge, tick, None, at(20 * u64::from(tick)))));
        assert!(!ticks(&mut edge, 50, None, at(1000)), "heard, and not listed for a second");
    }

    #[test]
    fn whoever_is_listed_no_more_leaves_unless_the_tick_is_an_old_one() {
        let mut edge = edge();
        assert!(ticks(&mut edge, 5, Some(1), at(100)));
        assert!(ticks(&mut edge, 4, None, at(101)), "from before it was listed");
        assert!(!ticks(&mut edge, 6, None, at(120)));
        assert!(!ticks(&mut edge, 6, Some(2), at(120)), "another link");
    }
}
