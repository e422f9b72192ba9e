//! A live room that several servers hold together, joined by a bus on which each hears what the
//! others publish.
//!
//! **What is computed.** The sum of all members' packets of a tick, with one list, as
//! [`super::server`] has it. One server *leads*: it has the [`LiveRoom`], and with it numbers,
//! rosters, epochs and the clock of the ticks. The others are its *edges*: each adds its own
//! members' packets of a tick, `C_e = sum of c_u`, `T_e = sum of tag_u`, `S_e`, and publishes these
//! parts; the leader adds them, and publishes the sum `(sum of C_e, sum of T_e, union of S_e)`, the
//! same bytes for everybody. Packets and tags are linear, so the sum of sums verifies as the sum
//! does, and lists are disjoint or the part is dropped. All else, joins, notes, messages, rosters,
//! is passed on, in order and without a gap (`line`).
//!
//! **What it costs.** Two hops on the bus, and [`HOLD`] in which an edge waits for more packets of
//! its members; for each edge up to four parts a tick, each as long as a packet.
//!
//! **Who leads.** The first server to have a member. A server that is to open a room says that it
//! seeks, listens for [`SEEK`] to whether somebody's ticks are heard, and if not leads, unless
//! another seeks whose station has a smaller number. Stations are drawn anew for each room that a
//! server opens, so each is used once.
//!
//! **Who fails.** An edge that is not heard for [`LOST`] is gone, and its members with it. An edge
//! that hears no tick for as long lets go of its members, who come again as after any lost
//! connection, to a room with a new number, with new sessions: no tick under no key is used twice,
//! because nothing that was agreed with the old leader is used at all. A leader that hears the
//! ticks of another with a smaller number lets go likewise. Where the bus is torn in two there are
//! two rooms, with different rosters and so different keys; when it is whole again one is left.
//!
//! **Who sees what.** What one server sees, all do, and so does the bus: numbers, timing, sizes,
//! masked words. Names and voices are sealed. What a stranger on the bus can do is what a malicious
//! server can: deny, delay, list wrongly; forge no sum.
//!
//! Loss, repetition and disorder on the bus cost sums at most, never correctness; the state
//! machines here have no clock and no socket.

mod edge;
mod lead;
mod line;
mod messages;
mod seek;

pub use messages::BusMessage;
#[doc(hidden)]
pub use messages::fuzz_cascade_messages;

use std::{collections::VecDeque, fmt, time::Duration};

use crate::wire::{LiveLayout, LivePacket};
use tobari_curve::{PointEncoding, wire::RoomId};

use self::{
    edge::Edge,
    lead::Lead,
    messages::BusContent,
    seek::{Seek, SeekOutcome},
};
use super::{
    LiveLimits, LiveRoom, LiveUplink, Mixer, Proven,
    messages::{ClientMessage, ServerMessage, Welcome},
};
use crate::server::{Fault, Refusal};

/// How long an edge waits for more packets before it says what it has.
pub const HOLD: Duration = Duration::from_millis(5);
/// How long whoever is not heard is still there.
pub const LOST: Duration = Duration::from_secs(1);
/// How long a server listens for somebody who leads before it leads itself.
pub const SEEK: Duration = Duration::from_millis(300);
/// How long a room waits for its first member.
const OPENING: Duration = Duration::from_secs(5);

/// What one server is in one room, and only once: a number that was drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station(pub [u8; 8]);

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// To whom something is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// To all servers of the room.
    All,
    /// To one of them.
    To(Station),
}

/// What follows from what happened, at this server.
#[derive(Debug)]
pub enum SharedEvent {
    /// Whoever joined with this ticket is in.
    Seated {
        /// The caller's own number for the join.
        ticket: u32,
        /// As what.
        welcome: Welcome,
        /// The way in for its packets.
        uplink: LiveUplink,
    },
    /// Whoever joined with this ticket is not.
    Refused {
        /// The caller's own number for the join.
        ticket: u32,
        /// Why.
        refusal: Refusal,
    },
    /// A tick is over: these bytes, or that it was silent, go to these members.
    Closed {
        /// The tick.
        tick: u32,
        /// How many packets are in the sum, and how many were dropped: known where the room is led.
        counted: Option<(usize, usize)>,
        /// The sum, if there is one.
        sum: Option<Vec<u8>>,
        /// Who hears of it.
        members: Vec<u16>,
    },
    /// A roster or a note goes to these members, who must not miss it.
    Send {
        /// To whom.
        members: Vec<u16>,
        /// What.
        bytes: Vec<u8>,
    },
    /// A message goes to this member, who must not miss it.
    Tell {
        /// To whom.
        member: u16,
        /// What.
        message: ServerMessage,
    },
    /// A member is to be told its last message and disconnected.
    Removed {
        /// The member.
        member: u16,
        /// The message.
        message: ServerMessage,
    },
    /// Goes to other servers.
    Publish {
        /// To which.
        to: Address,
        /// A [`BusMessage`].
        bytes: Vec<u8>,
    },
    /// The room is no more, here: all members are to be disconnected without a word, so that they
    /// come again. Nothing follows.
    Parted,
}

/// What happened on the bus, to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Parts that were added to sums.
    pub parts: u64,
    /// Parts that were not: late, of another epoch, or there already.
    pub refused: u64,
    /// Edges whose members were given up.
    pub edges_lost: u64,
    /// Leaders that were given up, or given way to.
    pub leaders_lost: u64,
}

/// How the parts of a room are written on the bus.
fn on_bus(layout: LiveLayout) -> LiveLayout {
    match layout {
        LiveLayout::Mask { .. } => layout,
        LiveLayout::ElgamalShared { parameters, .. } => {
            LiveLayout::ElgamalShared { parameters, encoding: PointEncoding::Uncompressed }
        }
        LiveLayout::Elgamal { parameters, .. } => {
            LiveLayout::Elgamal { parameters, encoding: PointEncoding::Uncompressed }
        }
    }
}

enum Part {
    Seeking(Seek),
    Leading(Box<Lead>),
    Following(Box<Edge>),
    Over,
}

/// One server's part in a room.
///
/// Time is a [`Duration`] since an origin of the caller's choice. After everything that it is told,
/// and whenever [`SharedRoom::deadline`] has come, it is to be asked by [`SharedRoom::poll`] what
/// follows until it says none.
///
/// ```
/// use std::time::Duration;
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_call::live::{
///     LiveLimits, RoomLink, Settings, attack, cascade::{SharedEvent, SharedRoom, Station},
/// };
///
/// let mut rng = ChaCha20Rng::from_seed([1; 32]);
/// let link = RoomLink::new("https://call.example", "monday".parse()?, Settings::default(), &mut rng);
/// // a server checks what answers its challenge; here is none
/// let join = attack::proven(&link, true);
/// let mut room = SharedRoom::new(Station(*b"a random"), LiveLimits::default(), Duration::ZERO);
/// room.join(0, &join, Duration::ZERO);
/// // nobody else is heard for a while, so this server leads
/// let mut events = (0..50).flat_map(|i| std::iter::from_fn(|| room.poll(Duration::from_millis(10 * i))).collect::<Vec<_>>());
/// assert!(events.any(|event| matches!(event, SharedEvent::Seated { ticket: 0, welcome, .. } if welcome.member == 0)));
/// # Ok::<(), tobari_call::messages::NotARoomName>(())
/// ```
pub struct SharedRoom {
    me: Station,
    limits: LiveLimits,
    part: Part,
    opened: Duration,
    /// Has anybody asked to be let in?
    asked: bool,
    /// Joins that came before it was known who leads.
    waiting: VecDeque<(u32, Proven)>,
    events: VecDeque<SharedEvent>,
    counts: Counts,
}

impl SharedRoom {
    /// A room that is to be found or opened, by the station `me`, which was never used before.
    pub fn new(me: Station, limits: LiveLimits, now: Duration) -> Self {
        let part = Part::Seeking(Seek::new(me, now));
        let (waiting, events, counts) = (VecDeque::new(), VecDeque::new(), Counts::default());
        Self { me, limits, part, opened: now, asked: false, waiting, events, counts }
    }

    /// What happened on the bus since this was asked.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Does this server lead the room, or follow? None while that is open, and when its part is
    /// over.
    pub fn role(&self) -> Option<bool> {
        match &self.part {
            Part::Leading(_) => Some(true),
            Part::Following(_) => Some(false),
            Part::Seeking(_) | Part::Over => None,
        }
    }

    /// The edges of the leader, if this is it.
    pub fn edges(&self) -> Option<usize> {
        if let Part::Leading(lead) = &self.part { Some(lead.edges()) } else { None }
    }

    /// The first tick that has not closed, as far as is known here.
    pub fn open_tick(&self) -> u32 {
        match &self.part {
            Part::Leading(lead) => lead.room.open_tick(),
            Part::Following(edge) => edge.open_tick(),
            Part::Seeking(_) | Part::Over => 0,
        }
    }

    /// How packets are written, once that is known here: before, nobody has a place to send from.
    pub fn layout(&self) -> Option<LiveLayout> {
        match &self.part {
            Part::Leading(lead) => Some(lead.room.layout()),
            Part::Following(edge) => edge.layout(),
            Part::Seeking(_) | Part::Over => None,
        }
    }

    /// When a tick should have closed, where the room is led.
    pub fn tick_due(&self, tick: u32) -> Option<Duration> {
        if let Part::Leading(lead) = &self.part { Some(lead.room.tick_opened(tick + 1)) } else { None }
    }

    /// Is nobody left, here or at the edges of this leader?
    pub fn is_left(&self) -> bool {
        self.events.is_empty()
            && match &self.part {
                Part::Seeking(_) => false,
                Part::Leading(lead) => self.asked && lead.is_left(),
                Part::Following(edge) => edge.is_left(),
                Part::Over => true,
            }
    }

    /// Somebody wants in. The answer, with the caller's `ticket`, is an event.
    pub fn join(&mut self, ticket: u32, join: &Proven, now: Duration) {
        self.asked = true;
        match &mut self.part {
            Part::Seeking(_) => self.waiting.push_back((ticket, join.clone())),
            Part::Leading(lead) => lead.join(ticket, join, now),
            Part::Following(edge) => edge.join(ticket, join),
            Part::Over => self.events.push_back(SharedEvent::Refused { ticket, refusal: Refusal::Over }),
        }
    }

    /// Takes packets that came through their members' uplinks.
    pub fn packets(&mut self, packets: &[&LivePacket], mixer: &mut dyn Mixer, now: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.room.packets(packets, mixer),
            Part::Following(edge) => edge.packets(packets, mixer, now),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// Takes a note of a member, or what is for the members' group.
    pub fn note(&mut self, member: u16, note: &[u8], now: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.note(member, note, now),
            Part::Following(edge) => edge.note(member, note),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// Takes a control message of a member.
    pub fn message(&mut self, member: u16, message: &ClientMessage, now: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.room.message(member, message, now),
            Part::Following(edge) => edge.message(member, message),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// Puts a member of this server out.
    pub fn remove(&mut self, member: u16, fault: &Fault) {
        match &mut self.part {
            Part::Leading(lead) => lead.room.remove(member, fault.clone()),
            Part::Following(edge) => edge.remove(member, fault),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// Takes note that a connection to a member is gone.
    pub fn leave(&mut self, member: u16, now: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.room.leave(member, now),
            Part::Following(edge) => edge.leave(member),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// Takes a message from the bus, sent to all or to this station.
    pub fn hear(&mut self, message: &BusMessage, mixer: &mut dyn Mixer, now: Duration) {
        if message.from == self.me {
            return;
        }
        let stays = match &mut self.part {
            Part::Seeking(seek) => {
                seek.hear(message, now);
                true
            }
            Part::Leading(lead) => lead.hear(message, mixer, &mut self.counts, now),
            Part::Following(edge) => edge.hear(message, now),
            Part::Over => true,
        };
        if !stays {
            self.counts.leaders_lost += 1;
            self.part(now);
        }
    }

    /// Ends this server's part at `until`, and tells its members; nobody is let in any more. The
    /// members of a leader's edges come again to the edges.
    pub fn close(&mut self, now: Duration, until: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.close(now, until),
            Part::Following(edge) => edge.close(now, until),
            Part::Seeking(_) => {
                let refused = self.waiting.drain(..);
                let refused = refused.map(|(ticket, _)| SharedEvent::Refused { ticket, refusal: Refusal::Closing });
                self.events.extend(refused);
                self.part = Part::Over;
            }
            Part::Over => {}
        }
    }

    /// Lets go of everybody.
    fn part(&mut self, now: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.say_over(),
            Part::Following(edge) => edge.say_over(now),
            Part::Seeking(_) | Part::Over => {}
        }
        self.drain();
        // whoever waits looks again for a room
        self.events.push_back(SharedEvent::Parted);
        self.part = Part::Over;
    }

    /// Takes over what a part has to say.
    fn drain(&mut self) {
        match &mut self.part {
            Part::Leading(lead) => self.events.append(&mut lead.events),
            Part::Following(edge) => self.events.append(&mut edge.events),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// The next thing that follows, at time `now`.
    pub fn poll(&mut self, now: Duration) -> Option<SharedEvent> {
        if self.events.is_empty() {
            let stays = match &mut self.part {
                Part::Seeking(_) => self.seek(now),
                Part::Leading(lead) => {
                    lead.advance(now, &mut self.counts);
                    true
                }
                Part::Following(edge) => edge.advance(now),
                Part::Over => true,
            };
            if stays {
                self.drain();
            } else {
                self.counts.leaders_lost += 1;
                self.part(now);
            }
        }
        self.events.pop_front()
    }

    /// Looks for who leads; false if nobody has come for whom that would matter.
    fn seek(&mut self, now: Duration) -> bool {
        let Part::Seeking(seek) = &mut self.part else { return true };
        if self.waiting.is_empty() {
            return self.asked || now < self.opened + OPENING;
        }
        match seek.found(now) {
            Some(SeekOutcome::Nobody) => self.lead(now),
            Some(SeekOutcome::Leader(leader)) => {
                self.part = Part::Following(Box::new(Edge::new(self.me, leader, self.limits.window, now)));
            }
            None => {
                if seek.is_to_say(now) {
                    let bytes = BusMessage { from: self.me, said: BusContent::Seek }.encode();
                    self.events.push_back(SharedEvent::Publish { to: Address::All, bytes });
                }
                return true;
            }
        }
        for (ticket, join) in std::mem::take(&mut self.waiting) {
            self.join(ticket, &join, now);
        }
        if let Part::Following(edge) = &mut self.part {
            return edge.advance(now);
        }
        true
    }

    /// Leads, as the first who waits asks for it.
    fn lead(&mut self, now: Duration) {
        while let Some((ticket, join)) = self.waiting.front() {
            match LiveRoom::open(RoomId(self.me.0), join, self.limits, now) {
                Ok(room) => {
                    self.part = Part::Leading(Box::new(Lead::new(self.me, room, now)));
                    return;
                }
                Err(refusal) => self.events.push_back(SharedEvent::Refused { ticket: *ticket, refusal }),
            }
            self.waiting.pop_front();
        }
        self.part = Part::Over;
    }

    /// When [`SharedRoom::poll`] has something to say at the latest, if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        if !self.events.is_empty() {
            return Some(Duration::ZERO);
        }
        match &self.part {
            Part::Seeking(seek) if !self.waiting.is_empty() => Some(seek.deadline()),
            Part::Seeking(_) => Some(self.opened + OPENING),
            Part::Leading(lead) => lead.deadline(),
            Part::Following(edge) => Some(edge.deadline()),
            Part::Over => None,
        }
    }
}
