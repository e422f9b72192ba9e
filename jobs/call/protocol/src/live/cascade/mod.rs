//! A live room that several servers share. They are connected by a bus, on which each hears the
//! others.
//!
//! **What is computed.** The sum of all members' packets of a tick, with one list, as in
//! [`super::server`]. One server *leads*: it has the [`LiveRoom`], and with it numbers, rosters,
//! epochs and the clock of the ticks. The others are its *edges*: each adds its own members'
//! packets of a tick, `C_e = sum of c_u`, `T_e = sum of tag_u`, `S_e`, and publishes these parts.
//! The leader adds them and publishes the sum `(sum of C_e, sum of T_e, union of S_e)`, the same
//! bytes for all. Packets and tags are linear, so the sum of sums verifies like one sum. Lists are
//! disjoint, or else the part is dropped. Joins, notes, messages and rosters are passed on in order
//! and without a gap (`line`).
//!
//! **Cost.** Two hops on the bus, and the time [`HOLD`] in which an edge waits for more packets of
//! its members. Each edge sends up to four parts a tick, each as long as a packet.
//!
//! **The leader.** The first server with a member leads. A server that wants to open a room
//! publishes that it seeks, and listens for [`SEEK`]. It follows a leader whose ticks it hears. If
//! it hears none it leads, unless another server seeks whose station has a smaller number. A server
//! draws a new station for each room that it opens, so each station is used once.
//!
//! **Failures.** An edge that is not heard for [`LOST`] is gone, and its members with it. An edge
//! that hears no tick for as long disconnects its members. They join again as after any lost
//! connection, in a room with a new number and with new sessions. No tick is used twice under one
//! key, because nothing that was agreed with the old leader is used again. A leader that hears the
//! ticks of another leader with a smaller number disconnects its members too. If the bus is split
//! in two, there are two rooms with different rosters, and so with different keys. Once the bus is
//! whole again, one room is left.
//!
//! **Who sees what.** Each server of the room, and the bus, sees as much as a single server would:
//! numbers, timing, sizes, masked words. Names and voices are encrypted. A stranger on the bus can
//! do as much as a malicious server: deny, delay, list wrongly. It cannot forge a sum.
//!
//! Loss, repetition and reordering on the bus cost sums at most, never correctness. The state
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

/// How long an edge waits for more packets before it publishes its parts.
pub const HOLD: Duration = Duration::from_millis(5);
/// How long a server that is not heard still counts as there.
pub const LOST: Duration = Duration::from_secs(1);
/// How long a server listens for a leader before it leads itself.
pub const SEEK: Duration = Duration::from_millis(300);
/// How long a room waits for its first member.
const OPENING: Duration = Duration::from_secs(5);

/// The identity of one server in one room, used once: a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station(pub [u8; 8]);

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// The recipients of a message on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// To all servers of the room.
    All,
    /// To one server.
    To(Station),
}

/// An event that this server must act on.
#[derive(Debug)]
pub enum SharedEvent {
    /// The member that joined with this ticket has a place.
    Seated {
        /// The caller's own number for the join.
        ticket: u32,
        /// The welcome for the member.
        welcome: Welcome,
        /// The receiver for its packets.
        uplink: LiveUplink,
    },
    /// The member that joined with this ticket is rejected.
    Refused {
        /// The caller's own number for the join.
        ticket: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// A tick is over: the sum, or the message that it was silent, goes to these members.
    Closed {
        /// The tick.
        tick: u32,
        /// How many packets are in the sum, and how many were dropped; known at the leader only.
        counted: Option<(usize, usize)>,
        /// The sum, if there is one.
        sum: Option<Vec<u8>>,
        /// The members that get it.
        members: Vec<u16>,
    },
    /// A roster or a note goes to these members. It must not get lost.
    Send {
        /// The recipients.
        members: Vec<u16>,
        /// The roster or note.
        bytes: Vec<u8>,
    },
    /// A message goes to this member. It must not get lost.
    Tell {
        /// The recipient.
        member: u16,
        /// The message.
        message: ServerMessage,
    },
    /// A member is removed: send it this last message and disconnect it.
    Removed {
        /// The member.
        member: u16,
        /// The message.
        message: ServerMessage,
    },
    /// A message for other servers.
    Publish {
        /// The recipients.
        to: Address,
        /// A [`BusMessage`].
        bytes: Vec<u8>,
    },
    /// The room is over at this server: disconnect all members without a message, so that they join
    /// again. No event follows.
    Parted,
}

/// Counts of events on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Parts that were added to sums.
    pub parts: u64,
    /// Parts that were not added: late, of another epoch, or already there.
    pub refused: u64,
    /// Edges that were lost, with their members.
    pub edges_lost: u64,
    /// Leaders that were lost, or to which this one gave way.
    pub leaders_lost: u64,
}

/// The layout of parts on the bus.
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
/// Time is a [`Duration`] since an origin of the caller's choice. Call [`SharedRoom::poll`] until
/// it returns none: after every call that tells the room something, and at each
/// [`SharedRoom::deadline`].
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
    /// Has anybody asked to join?
    asked: bool,
    /// Joins from before the leader was known.
    waiting: VecDeque<(u32, Proven)>,
    events: VecDeque<SharedEvent>,
    counts: Counts,
}

impl SharedRoom {
    /// A room to be found or opened, for the station `me`, which was never used before.
    pub fn new(me: Station, limits: LiveLimits, now: Duration) -> Self {
        let part = Part::Seeking(Seek::new(me, now));
        let (waiting, events, counts) = (VecDeque::new(), VecDeque::new(), Counts::default());
        Self { me, limits, part, opened: now, asked: false, waiting, events, counts }
    }

    /// The counts since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Does this server lead the room, or follow? None while it seeks, and after its part is over.
    pub fn role(&self) -> Option<bool> {
        match &self.part {
            Part::Leading(_) => Some(true),
            Part::Following(_) => Some(false),
            Part::Seeking(_) | Part::Over => None,
        }
    }

    /// How many edges the leader has; none at other servers.
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

    /// The layout of packets, once it is known here. Before that no member has a place to send
    /// from.
    pub fn layout(&self) -> Option<LiveLayout> {
        match &self.part {
            Part::Leading(lead) => Some(lead.room.layout()),
            Part::Following(edge) => edge.layout(),
            Part::Seeking(_) | Part::Over => None,
        }
    }

    /// When a tick should have closed; known at the leader only.
    pub fn tick_due(&self, tick: u32) -> Option<Duration> {
        if let Part::Leading(lead) = &self.part { Some(lead.room.tick_opened(tick + 1)) } else { None }
    }

    /// Are no members left, here or at the edges of this leader?
    pub fn is_left(&self) -> bool {
        self.events.is_empty()
            && match &self.part {
                Part::Seeking(_) => false,
                Part::Leading(lead) => self.asked && lead.is_left(),
                Part::Following(edge) => edge.is_left(),
                Part::Over => true,
            }
    }

    /// A client wants to join. The answer, with the caller's `ticket`, is an event.
    pub fn join(&mut self, ticket: u32, join: &Proven, now: Duration) {
        self.asked = true;
        match &mut self.part {
            Part::Seeking(_) => self.waiting.push_back((ticket, join.clone())),
            Part::Leading(lead) => lead.join(ticket, join, now),
            Part::Following(edge) => edge.join(ticket, join),
            Part::Over => self.events.push_back(SharedEvent::Refused { ticket, refusal: Refusal::Over }),
        }
    }

    /// Takes packets from the uplinks of their members.
    pub fn packets(&mut self, packets: &[&LivePacket], mixer: &mut dyn Mixer, now: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.room.packets(packets, mixer),
            Part::Following(edge) => edge.packets(packets, mixer, now),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// Takes a note of a member, or a message for the members' group.
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

    /// Removes a member of this server.
    pub fn remove(&mut self, member: u16, fault: &Fault) {
        match &mut self.part {
            Part::Leading(lead) => lead.room.remove(member, fault.clone()),
            Part::Following(edge) => edge.remove(member, fault),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// Takes note that a member's connection has ended.
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

    /// Ends this server's part at `until`, and tells its members. From now on nobody can join. The
    /// members at a leader's edges join again there.
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

    /// Disconnects all members.
    fn part(&mut self, now: Duration) {
        match &mut self.part {
            Part::Leading(lead) => lead.say_over(),
            Part::Following(edge) => edge.say_over(now),
            Part::Seeking(_) | Part::Over => {}
        }
        self.drain();
        // members that wait look again for a room
        self.events.push_back(SharedEvent::Parted);
        self.part = Part::Over;
    }

    /// Takes over the events of the part.
    fn drain(&mut self) {
        match &mut self.part {
            Part::Leading(lead) => self.events.append(&mut lead.events),
            Part::Following(edge) => self.events.append(&mut edge.events),
            Part::Seeking(_) | Part::Over => {}
        }
    }

    /// The next event at time `now`.
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

    /// Looks for a leader. False if no join came in time, or if the leader is lost at once.
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

    /// Leads the room that the first waiting join asks for.
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

    /// The time at which [`SharedRoom::poll`] has an event at the latest, if nothing happens
    /// before.
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
