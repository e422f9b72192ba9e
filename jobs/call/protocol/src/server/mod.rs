//! The half of a call that never holds a key: the rules of one room, as a state machine.
//!
//! A caller reports events ([`Room::join`], [`Room::packet`], [`Room::message`], [`Room::leave`])
//! and asks for their consequences ([`Room::poll`], until it returns none). Time is a [`Duration`]
//! since an origin of the caller's choice. Packets from a connection pass its [`Uplink`] first,
//! which turns bytes into points.
//!
//! **Ticks.** One tick is *open*: the first that has not closed. The room accepts packets for
//! [`Limits::window`] ticks, from the open one on, and adds each at once to its tick's sum. Memory
//! is `O(window)`, whatever the number of members. Each member's ticks must increase, so no tick
//! holds two packets of one member. Ticks close in order. Listeners get the sum, and the others
//! a short message. If no packet arrived, on time or late, all members get the message.
//!
//! - **Lockstep**: the open tick closes when every remaining speaker has sent its packet or ended,
//!   and every listener has acknowledged all but the last `window` sums. Nothing is dropped: a
//!   speaker may not skip a tick. Tick 0 waits for the number of speakers that the room was created
//!   for; a speaker that joins later starts at the open tick.
//! - **Live**: tick `t` opens `20 t` ms after the first speaker's welcome and closes 20 ms later. A
//!   packet for a closed tick is dropped, and its sender is listed as late in the next sum.
//!
//! **Removal.** The room removes a member that breaks a rule, and a member that a lockstep room has
//! waited for longer than [`Limits::idle`]. Its earlier packets still count, and the other members
//! continue. A lockstep room whose speakers do not all join within [`Limits::gather`] removes all
//! members. A member just inside the limits can slow a lockstep room down to one tick every `idle`:
//! lockstep is for members that trust one another to stay responsive.
//!
//! **Mode.** The first member fixes mode, curve and pace. The rules are the same in all modes: a
//! sum contains whole packets only.
//!
//! **Cost.** One addition of ciphertexts a packet, and work linear in the members a tick.

mod fault;
mod fuzz;
mod payload;
mod uplink;

pub use fault::{Fault, Refusal};
#[doc(hidden)]
pub use fuzz::fuzz_room;
pub use payload::AnyPayload;
pub use uplink::Uplink;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tobari_curve::{
    Adder, PointEncoding,
    elgamal::Mode,
    params::{Parameters, SecurityFloor},
    wire::{MAX_MEMBERS, MemberSet, RoomId, SumHeader, WireError},
};

use super::{
    PACKET_SAMPLES, TICK_MS,
    messages::{ClientMessage, Join, Pace, Welcome},
};

/// The largest [`Limits::window`].
pub const MAX_WINDOW: u32 = 1024;
/// A room ends at this tick at the latest, so that no addition of ticks overflows. Live, that is
/// after 2.7 years.
const MAX_TICKS: u32 = u32::MAX - 2 * MAX_WINDOW;

/// The limits of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many ticks take packets at once; at most [`MAX_WINDOW`].
    pub window: u32,
    /// Ciphertexts in each packet.
    pub samples: usize,
    /// How many members a room accepts over its life; at most [`MAX_MEMBERS`]. Member numbers are
    /// not reused.
    pub members: usize,
    /// How long a lockstep room waits for one member.
    pub idle: Duration,
    /// How long a lockstep room waits for its speakers to join.
    pub gather: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window: 32,
            samples: PACKET_SAMPLES,
            members: MAX_MEMBERS,
            idle: Duration::from_secs(30),
            gather: Duration::from_mins(5),
        }
    }
}

/// One room.
///
/// ```
/// use std::time::Duration;
/// use tobari_call::messages::{Join, Pace};
/// use tobari_call::server::{Limits, Room};
/// use tobari_curve::{Curve, params::SecurityFloor, wire::RoomId};
///
/// let join = Join::new(Pace::Lockstep { members: 2 }, Curve::Secp256k1);
/// let mut room = Room::open(RoomId(*b"a random"), &join, SecurityFloor::Standard, Limits::default(), Duration::ZERO)?;
/// assert_eq!(room.join(&join, Duration::ZERO)?.member, 0);
/// assert_eq!(room.join(&join, Duration::ZERO)?.member, 1);
/// assert!(room.join(&Join { curve: Curve::NistP256, ..join }, Duration::ZERO).is_err());
/// # Ok::<(), tobari_call::server::Refusal>(())
/// ```
pub struct Room {
    id: RoomId,
    parameters: Parameters,
    mode: Mode,
    pace: Pace,
    limits: Limits,
    created: Duration,
    members: BTreeMap<u16, Member>,
    /// The number of the next member.
    next_member: u16,
    /// Speakers that ever joined.
    announced: usize,
    /// When the first speaker of a live room joined: tick 0 opened then.
    started: Option<Duration>,
    /// The open tick, and the time when it opened.
    open: u32,
    open_since: Duration,
    /// The sums of the open tick and later ticks, up to the last packet's tick.
    sums: VecDeque<Option<Sum>>,
    /// Reused memory of the additions.
    adder: Adder,
    /// Members whose packets arrived too late since the last tick closed.
    late: MemberSet,
    /// In a lockstep room: the members that the open tick waits for.
    blockers: BTreeSet<u16>,
    removed: VecDeque<(u16, Fault)>,
    over: bool,
}

struct Member {
    joined: Duration,
    speech: Option<Speech>,
    hearing: Option<Hearing>,
}

struct Speech {
    /// The first tick that this member may still send.
    next: u32,
    ended: bool,
}

struct Hearing {
    encoding: PointEncoding,
    /// The first tick that this member has not acknowledged.
    next: u32,
}

struct Sum {
    ciphertexts: AnyPayload,
    speakers: MemberSet,
}

/// A consequence of what happened in the room.
pub enum Event {
    /// A tick is over.
    Closed(Tick),
    /// The room removed a member: the caller must send it the reason and disconnect it.
    Removed {
        /// The member.
        member: u16,
        /// Why.
        fault: Fault,
    },
    /// The room is over.
    Ended {
        /// How many ticks it had.
        ticks: u32,
        /// The members to inform.
        members: Vec<u16>,
    },
}

/// A tick that is over, and the members to inform.
pub struct Tick {
    /// The tick.
    pub tick: u32,
    /// Whose packets are in the sum.
    pub speakers: MemberSet,
    /// Members whose packets arrived too late since the tick before.
    pub late: MemberSet,
    /// Members that get the sum, each with its encoding.
    pub listeners: Vec<(u16, PointEncoding)>,
    /// Members that only learn that the tick is over.
    pub others: Vec<u16>,
    room: RoomId,
    sum: AnyPayload,
}

impl Tick {
    /// The bytes of the sum: the same for all listeners that share an encoding.
    pub fn encode(&self, encoding: PointEncoding) -> Vec<u8> {
        let (speakers, late) = (self.speakers.clone(), self.late.clone());
        let header = SumHeader { room: self.room, tick: self.tick, encoding, speakers, late };
        self.sum.encode_sum(&header)
    }
}

impl Room {
    /// Opens a room with the settings of its first member. The member itself has not joined yet.
    ///
    /// # Errors
    /// [`Refusal`] if the curve is below `floor`, or the number of members out of range.
    pub fn open(id: RoomId, join: &Join, floor: SecurityFloor, limits: Limits, now: Duration) -> Result<Self, Refusal> {
        let parameters = Parameters::new(join.curve, floor)?;
        let limits = Limits {
            window: limits.window.clamp(1, MAX_WINDOW),
            members: limits.members.clamp(1, MAX_MEMBERS),
            ..limits
        };
        match join.pace {
            Pace::Lockstep { members } if members == 0 || usize::from(members) > limits.members => {
                return Err(Refusal::Members { found: members, most: limits.members });
            }
            Pace::Lockstep { .. } | Pace::Live => {}
        }
        Ok(Self {
            id,
            parameters,
            mode: join.mode,
            pace: join.pace,
            limits,
            created: now,
            members: BTreeMap::new(),
            next_member: 0,
            announced: 0,
            started: None,
            open: 0,
            open_since: now,
            sums: VecDeque::new(),
            adder: Adder::default(),
            late: MemberSet::default(),
            blockers: BTreeSet::new(),
            removed: VecDeque::new(),
            over: false,
        })
    }

    /// The curve of the room.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// The mode of the room.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The decoder for packets of the member that got `welcome`.
    pub fn uplink(&self, welcome: &Welcome) -> Uplink {
        Uplink::new(self.parameters, self.mode, welcome, self.limits.samples)
    }

    /// The effective limits of the room: window and members are cut to the possible range.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How many members there are.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The first tick that has not closed, and so the number of closed ticks.
    pub fn open_tick(&self) -> u32 {
        self.open
    }

    /// Has the room ended, or have all members left? A room that nobody has joined yet is not over.
    pub fn is_over(&self) -> bool {
        self.over || (self.next_member > 0 && self.members.is_empty())
    }

    /// Adds a member.
    ///
    /// # Errors
    /// [`Refusal`] if the member asks for another curve, mode or pace than the room's, would
    /// neither speak nor listen, or if the room is full or over.
    pub fn join(&mut self, join: &Join, now: Duration) -> Result<Welcome, Refusal> {
        self.admits(join)?;
        let member = self.next_member;
        self.next_member += 1;
        let speech = join.speak.then_some(Speech { next: self.open, ended: false });
        let hearing = join.listen.then_some(Hearing { encoding: join.downlink, next: self.open });
        self.members.insert(member, Member { joined: now, speech, hearing });
        if join.speak {
            self.announce(now);
        }
        self.refresh(member);
        Ok(Welcome { room: self.id, member, tick: self.open, window: self.limits.window })
    }

    fn admits(&self, join: &Join) -> Result<(), Refusal> {
        // This check is first: a room that is over does not restrict the next room of its name.
        if self.is_over() {
            return Err(Refusal::Over);
        }
        let expected = self.parameters.curve();
        if join.curve != expected {
            return Err(Refusal::Curve { found: join.curve, expected });
        }
        if join.mode != self.mode {
            return Err(Refusal::Mode { found: join.mode, expected: self.mode });
        }
        if join.pace != self.pace {
            return Err(Refusal::Pace { found: join.pace, expected: self.pace });
        }
        if !join.speak && !join.listen {
            return Err(Refusal::Idler);
        }
        if usize::from(self.next_member) >= self.limits.members {
            return Err(Refusal::Full { members: self.limits.members });
        }
        Ok(())
    }

    /// Counts a speaker; the last expected speaker starts the room.
    fn announce(&mut self, now: Duration) {
        let waited = !self.has_gathered();
        self.announced += 1;
        if waited && self.has_gathered() {
            self.started = Some(now);
            self.open_since = now;
        }
    }

    fn has_gathered(&self) -> bool {
        match self.pace {
            Pace::Lockstep { members } => self.announced >= usize::from(members),
            Pace::Live => self.announced > 0,
        }
    }

    /// Adds a packet that has passed its member's [`Uplink`]. A packet from a member that has left
    /// is ignored.
    pub fn packet(&mut self, member: u16, tick: u32, ciphertexts: AnyPayload) {
        let taken = self.add(member, tick, ciphertexts);
        self.settle(member, taken);
    }

    fn add(&mut self, member: u16, tick: u32, ciphertexts: AnyPayload) -> Result<(), Fault> {
        let Some(sender) = self.members.get_mut(&member) else { return Ok(()) };
        let speech = sender.speech.as_mut().ok_or(Fault::NotASpeaker)?;
        let (expected, found) = (self.parameters.curve(), ciphertexts.parameters().curve());
        if expected != found {
            return Err(WireError::Curve { expected, found }.into());
        }
        if ciphertexts.mode() != self.mode {
            return Err(Fault::Mode { found: ciphertexts.mode(), expected: self.mode });
        }
        if ciphertexts.samples() != self.limits.samples {
            return Err(Fault::Samples { found: ciphertexts.samples(), expected: self.limits.samples });
        }
        if speech.ended {
            return Err(Fault::AfterEnd);
        }
        if tick < speech.next {
            return Err(Fault::Backwards { tick, next: speech.next });
        }
        if tick > speech.next && self.pace != Pace::Live {
            return Err(Fault::Gap { tick, next: speech.next });
        }
        let Some(ahead) = tick.checked_sub(self.open) else {
            speech.next = tick + 1;
            self.late.insert(member);
            return Ok(());
        };
        if ahead >= self.limits.window {
            return Err(Fault::Flood { tick, open: self.open, window: self.limits.window });
        }
        speech.next = tick + 1;
        self.add_to_sum(ahead as usize, member, ciphertexts)
    }

    fn add_to_sum(&mut self, ahead: usize, member: u16, ciphertexts: AnyPayload) -> Result<(), Fault> {
        if self.sums.len() <= ahead {
            self.sums.resize_with(ahead + 1, || None);
        }
        match &mut self.sums[ahead] {
            Some(sum) => {
                // Ticks increase, so the sum has no packet of this member yet.
                if !sum.speakers.insert(member) {
                    return Err(Fault::Internal);
                }
                sum.ciphertexts.add_assign_with(&ciphertexts, &mut self.adder)?;
            }
            empty => {
                let mut speakers = MemberSet::default();
                speakers.insert(member);
                *empty = Some(Sum { ciphertexts, speakers });
            }
        }
        Ok(())
    }

    /// Handles a control message. A message from a member that has left is ignored.
    pub fn message(&mut self, member: u16, message: &ClientMessage) {
        let taken = self.hear(member, message);
        self.settle(member, taken);
    }

    fn hear(&mut self, member: u16, message: &ClientMessage) -> Result<(), Fault> {
        let Some(sender) = self.members.get_mut(&member) else { return Ok(()) };
        match message {
            ClientMessage::Join(_) => Err(Fault::SecondJoin),
            ClientMessage::End {} => {
                let speech = sender.speech.as_mut().ok_or(Fault::NotASpeaker)?;
                if speech.ended {
                    return Err(Fault::AfterEnd);
                }
                speech.ended = true;
                Ok(())
            }
            &ClientMessage::Received { tick } => {
                let hearing = sender.hearing.as_mut().ok_or(Fault::NotAListener)?;
                if tick < hearing.next || tick >= self.open {
                    return Err(Fault::Acknowledgement { tick, next: hearing.next, open: self.open });
                }
                hearing.next = tick + 1;
                Ok(())
            }
        }
    }

    /// Records that a member's connection has ended. Its earlier packets still count.
    pub fn leave(&mut self, member: u16) {
        self.members.remove(&member);
        self.blockers.remove(&member);
    }

    /// Removes a member for a fault that was found elsewhere: on its connection, or in its
    /// [`Uplink`].
    pub fn remove(&mut self, member: u16, fault: Fault) {
        if self.members.contains_key(&member) {
            self.leave(member);
            self.removed.push_back((member, fault));
        }
    }

    /// Removes all members.
    pub fn remove_all(&mut self, fault: &Fault) {
        let members: Vec<u16> = self.members.keys().copied().collect();
        for member in members {
            self.remove(member, fault.clone());
        }
    }

    /// After a member's action: removes the member if the action broke a rule; otherwise updates
    /// whether the open tick still waits for the member.
    fn settle(&mut self, member: u16, taken: Result<(), Fault>) {
        match taken {
            Ok(()) => self.refresh(member),
            Err(fault) => self.remove(member, fault),
        }
    }

    fn refresh(&mut self, member: u16) {
        if self.members.get(&member).is_some_and(|found| self.waits_for(found)) {
            self.blockers.insert(member);
        } else {
            self.blockers.remove(&member);
        }
    }

    /// Does the open tick of a lockstep room wait for this member's packet or acknowledgement?
    fn waits_for(&self, member: &Member) -> bool {
        let silent = |speech: &Speech| !speech.ended && speech.next <= self.open;
        let behind = |hearing: &Hearing| hearing.next + self.limits.window <= self.open;
        self.pace != Pace::Live
            && (member.speech.as_ref().is_some_and(silent) || member.hearing.as_ref().is_some_and(behind))
    }

    /// The next consequence at time `now`. Call it until it returns none: after every event, and
    /// whenever [`Room::deadline`] is reached.
    pub fn poll(&mut self, now: Duration) -> Option<Event> {
        if self.over {
            return None;
        }
        self.expire(now);
        if let Some((member, fault)) = self.removed.pop_front() {
            return Some(Event::Removed { member, fault });
        }
        if self.is_finished() {
            self.over = true;
            let members = std::mem::take(&mut self.members).into_keys().collect();
            return Some(Event::Ended { ticks: self.open, members });
        }
        self.is_complete(now).then(|| Event::Closed(self.close(now)))
    }

    /// The time of the next [`Room::poll`] with a result, if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        if self.members.is_empty() {
            return None;
        }
        match self.pace {
            Pace::Live => self.started.map(|_| self.closes_at()),
            Pace::Lockstep { .. } if !self.has_gathered() => Some(self.created + self.limits.gather),
            Pace::Lockstep { .. } => self.blockers.iter().filter_map(|member| self.patience(*member)).min(),
        }
    }

    /// When the open tick of a live room closes.
    fn closes_at(&self) -> Duration {
        self.started.unwrap_or(self.open_since) + Duration::from_millis(TICK_MS * (u64::from(self.open) + 1))
    }

    /// The time until which a lockstep room waits for `member`.
    fn patience(&self, member: u16) -> Option<Duration> {
        self.members.get(&member).map(|found| found.joined.max(self.open_since) + self.limits.idle)
    }

    /// Removes the members that the room has waited for too long.
    fn expire(&mut self, now: Duration) {
        if self.pace == Pace::Live || self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if !self.has_gathered() {
            return self.remove_all(&Fault::Gather { waited: self.limits.gather });
        }
        let out: Vec<u16> =
            self.blockers.iter().copied().filter(|&m| self.patience(m).is_some_and(|until| until <= now)).collect();
        for member in out {
            self.remove(member, Fault::Idle { waited: self.limits.idle });
        }
    }

    /// May the open tick close?
    fn is_complete(&self, now: Duration) -> bool {
        match self.pace {
            Pace::Live => self.started.is_some() && now >= self.closes_at(),
            Pace::Lockstep { .. } => self.has_gathered() && self.blockers.is_empty() && !self.sums.is_empty(),
        }
    }

    /// Has every speaker ended or left, and is every packet in a sum?
    fn is_finished(&self) -> bool {
        let speaks = |member: &Member| member.speech.as_ref().is_some_and(|speech| !speech.ended);
        let said = self.has_gathered() && self.sums.is_empty() && !self.members.values().any(speaks);
        said || self.open >= MAX_TICKS
    }

    fn close(&mut self, now: Duration) -> Tick {
        let sum = self.sums.pop_front().flatten();
        let (sum, speakers) = match sum {
            Some(sum) => (sum.ciphertexts, sum.speakers),
            None => (AnyPayload::zero(self.mode, self.parameters, self.limits.samples), MemberSet::default()),
        };
        let (mut listeners, mut others) = (Vec::new(), Vec::new());
        let silent = speakers.is_empty() && self.late.is_empty();
        for (&number, member) in &self.members {
            match &member.hearing {
                Some(hearing) if !silent => listeners.push((number, hearing.encoding)),
                Some(_) | None => others.push(number),
            }
        }
        let tick = Tick {
            tick: self.open,
            speakers,
            late: std::mem::take(&mut self.late),
            listeners,
            others,
            room: self.id,
            sum,
        };
        self.open += 1;
        self.open_since = now;
        let waits: BTreeSet<u16> =
            self.members.iter().filter(|(_, found)| self.waits_for(found)).map(|(&number, _)| number).collect();
        self.blockers = waits;
        tick
    }
}
