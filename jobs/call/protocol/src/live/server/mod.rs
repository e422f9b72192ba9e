//! The half of a live room without keys: its rules, as a state machine.
//!
//! The caller tells a [`LiveRoom`] each event and then calls [`LiveRoom::poll`] until it returns
//! none. Time is a [`Duration`] since an origin of the caller's choice.
//!
//! **Ticks.** Tick `t` opens `20 t` ms after the first member joined and closes 20 ms later, no
//! matter who has sent by then. The room accepts packets for [`LiveLimits::window`] ticks,
//! beginning with the open one, and adds each at once. It adds one packet for each member and tick.
//! It ignores a second one, so a member may send a packet again without any effect. A packet is
//! dropped if its tick is closed, or if its epoch is not the epoch of its tick. The next sum lists
//! its sender as late. All members get one identical sum.
//!
//! **Epochs.** A member that has presented itself is on the next roster. The room sends rosters at
//! most once a second, but at once when it removes a member. A roster takes effect at a tick some
//! way ahead. The server never adds packets of two epochs.
//!
//! **Keys of a group.** If the members agree on keys ([`super::group`]), one of them makes each
//! roster: the room asks it for a commit, and sends its answer to all with the roster. The server
//! can read none of it. In such a room a departure waits for other changes for a quarter of a
//! second at most. In a room with keys from the link, a member that left has all keys anyway; so
//! its departure waits as long as a join.
//!
//! **Lobby.** A member that waits gets nothing, and only hosts get its hello. That is a rule of
//! this server and not of cryptography: everyone with the link has the keys.
//!
//! **Presentation.** From the member that opened it, the room has the public half of the key that
//! is derived from the link, and nothing else. The room removes a member at once if its hello is
//! not signed with that key for its number, or if the session of its hello was presented before.
//!
//! **Removal.** The room removes a member that breaks a rule, sends more than [`LiveLimits`]
//! allows, or does not present itself in time. The others go on.

mod epochs;
mod fuzz;
mod limits;
mod mixing;
mod partial;
mod rosters;
mod uplink;
mod words;

#[doc(hidden)]
pub use fuzz::fuzz_live_room;
pub use limits::LiveLimits;
pub use mixing::{Mixer, OneByOne};
pub use uplink::LiveUplink;

pub(super) use mixing::Sum;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::wire::{self, LiveLayout, LivePacket, LivePayload, LiveSum};
use ed25519_dalek::VerifyingKey;
use tobari_curve::wire::{MAX_MEMBERS, MemberSet, RoomId};

use self::{
    epochs::{AT_ONCE, BATCH, Epochs, PARTING},
    limits::Credit,
    mixing::Sums,
    rosters::{Asked, Led},
    words::Presented,
};
use super::{
    entry::{Proven, key_of},
    keys::SessionId,
    link::{Keys, Settings, mark_of},
    messages::{ClientMessage, ServerMessage, Welcome},
    modes::layout_of,
};
use crate::{
    TICK_MS,
    server::{Fault, MAX_WINDOW, Refusal},
};

/// A room ends here at the latest, after 2.7 years, so that no addition of ticks overflows.
const MAX_TICKS: u32 = u32::MAX - 2 * MAX_WINDOW;

struct Member {
    joined: Duration,
    host: bool,
    /// In the lobby?
    waits: bool,
    /// May it send?
    speaks: bool,
    /// Was it ever allowed to? If it no longer is, packets of it may still be on their way.
    spoke: bool,
    muted: bool,
    hello: Option<(SessionId, Vec<u8>)>,
    /// Its offer to the members' group, if the members agree on keys.
    offer: Option<(SessionId, Vec<u8>)>,
    /// Does it know the last roster?
    knows: bool,
    /// The first epoch whose roster it is on.
    since: Option<u32>,
    /// When it last got a whole roster because it asked for one.
    told_whole: Option<Duration>,
    /// How often others could not follow a commit of this member.
    complaints: u32,
    /// The member that refused its offer.
    refused_by: Option<u16>,
    credit: Credit,
}

/// An event that the server must act on.
#[derive(Debug)]
pub enum LiveEvent {
    /// A tick is over: the sum, or the message that it was silent, goes to all of these members.
    Closed {
        /// The tick.
        tick: u32,
        /// How many packets are in its sum.
        packets: usize,
        /// How many packets arrived and were dropped since the last tick closed.
        late: usize,
        /// The sum; none if no packet arrived and none was late.
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
    /// A member is removed: tell it the reason and disconnect it.
    Removed {
        /// The member.
        member: u16,
        /// The reason.
        fault: Fault,
    },
}

/// One live room.
///
/// ```
/// use std::time::Duration;
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_call::live::{Challenge, LiveLimits, LiveMember, LiveRoom, RoomLink, Settings};
/// use tobari_call::live::messages::Nonce;
/// use tobari_curve::wire::RoomId;
///
/// // a program takes its randomness from the system
/// let mut rng = ChaCha20Rng::from_seed([1; 32]);
/// let link = RoomLink::new("https://call.example", "monday".parse()?, Settings::default(), &mut rng);
/// let challenge = Challenge { nonce: Nonce([2; 16]), room: link.room.clone(), hosts: vec!["call.example".into()] };
/// let proven = LiveMember::join(&link, true, challenge.nonce).checked(&challenge)?;
/// let mut room = LiveRoom::open(RoomId(*b"a random"), &proven, LiveLimits::default(), Duration::ZERO)?;
/// assert_eq!(room.join(&proven, Duration::ZERO)?.member, 0);
/// let other = RoomLink::new("https://call.example", "monday".parse()?, Settings::default(), &mut rng);
/// let proven = LiveMember::join(&other, true, challenge.nonce).checked(&challenge)?;
/// assert!(room.join(&proven, Duration::ZERO).is_err(), "another secret");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveRoom {
    id: RoomId,
    settings: Settings,
    /// The public half of the key that is derived from the link.
    key: VerifyingKey,
    presented: Presented,
    layout: LiveLayout,
    limits: LiveLimits,
    members: BTreeMap<u16, Member>,
    joined: bool,
    epochs: Epochs,
    /// The member that makes the next roster, if the members agree on keys.
    asked: Option<Asked>,
    /// The last rosters that members made, and the members that could not follow them.
    led: VecDeque<Led>,
    /// When the first member joined: tick 0 opened then.
    started: Duration,
    /// The open tick.
    open: u32,
    sums: Sums,
    mixer: OneByOne,
    late: MemberSet,
    events: VecDeque<LiveEvent>,
    /// When the room ends, if the server is closing.
    closes: Option<Duration>,
    /// When the room next looks for members that are too late: once a tick, however many events
    /// there are.
    looks: Duration,
}

impl LiveRoom {
    /// The room that its first member asks for. This member still has to join.
    ///
    /// # Errors
    /// [`Refusal`] if this server has no such rooms.
    pub fn open(id: RoomId, proven: &Proven, limits: LiveLimits, now: Duration) -> Result<Self, Refusal> {
        let limits = LiveLimits {
            window: limits.window.clamp(1, MAX_WINDOW),
            members: limits.members.clamp(1, MAX_MEMBERS),
            ..limits
        };
        let settings = proven.join().settings;
        let layout = layout_of(&settings).ok_or(Refusal::Settings)?;
        if settings.speakers > limits.speakers {
            return Err(Refusal::Members { found: settings.speakers, most: limits.speakers.into() });
        }
        Ok(Self {
            id,
            settings,
            key: key_of(proven.join().key).ok_or(Refusal::Proof)?,
            presented: Presented::default(),
            layout,
            limits,
            members: BTreeMap::new(),
            joined: false,
            epochs: Epochs::default(),
            asked: None,
            led: VecDeque::new(),
            started: now,
            open: 0,
            sums: Sums::default(),
            mixer: OneByOne::default(),
            late: MemberSet::default(),
            events: VecDeque::new(),
            closes: None,
            looks: now,
        })
    }

    /// How packets and sums are written.
    pub fn layout(&self) -> LiveLayout {
        self.layout
    }

    /// The settings of the room.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The receiver for packets of the member that got `welcome`.
    pub fn uplink(&self, welcome: &Welcome) -> LiveUplink {
        LiveUplink::new(self.layout, welcome)
    }

    /// How many members there are, including those in the lobby.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The first tick that has not closed.
    pub fn open_tick(&self) -> u32 {
        self.open
    }

    /// Has everybody left? A room that nobody has joined yet is not over.
    pub fn is_over(&self) -> bool {
        self.joined && self.members.is_empty()
    }

    fn speakers(&self) -> usize {
        self.members.values().filter(|member| member.speaks && !member.waits).count()
    }

    fn has_place_to_speak(&self) -> Result<(), Refusal> {
        let speakers = self.settings.speakers;
        if self.speakers() >= speakers.into() { Err(Refusal::Speakers { speakers }) } else { Ok(()) }
    }

    /// Admits a member to the room, or to the lobby.
    ///
    /// # Errors
    /// [`Refusal`] if the member names other settings, does not have the secret of the member that
    /// opened the room, has a wrong token, or finds no place.
    pub fn join(&mut self, proven: &Proven, now: Duration) -> Result<Welcome, Refusal> {
        let join = proven.join();
        if self.is_over() {
            return Err(Refusal::Over);
        }
        if self.closes.is_some() {
            return Err(Refusal::Closing);
        }
        if join.settings != self.settings {
            return Err(Refusal::Settings);
        }
        if join.key.0 != *self.key.as_bytes() {
            return Err(Refusal::Secret);
        }
        let host = match (&join.token, self.settings.host) {
            (Some(token), Some(mark)) if mark_of(&token.0) == mark => true,
            (Some(_), _) => return Err(Refusal::NotTheHost),
            (None, _) => false,
        };
        let waits = self.settings.lobby && !host;
        if waits && self.members.values().filter(|member| member.waits).count() >= self.limits.lobby {
            return Err(Refusal::Full { members: self.limits.lobby });
        }
        if join.speak && !waits {
            self.has_place_to_speak()?;
        }
        let full = Refusal::Full { members: self.limits.members };
        let member = self.epochs.take_number(self.limits.members, self.open).ok_or(full)?;
        if !self.joined {
            (self.joined, self.started) = (true, now);
        }
        let new = Member {
            joined: now,
            host,
            waits,
            speaks: join.speak,
            spoke: join.speak,
            muted: false,
            hello: None,
            offer: None,
            knows: false,
            since: None,
            told_whole: None,
            complaints: 0,
            refused_by: None,
            credit: Credit::new(&self.limits, now),
        };
        self.members.insert(member, new);
        Ok(Welcome { room: self.id, member, tick: self.open, window: self.limits.window, waiting: waits })
    }

    /// Takes a packet from the member's [`LiveUplink`]. A packet from a member that has left is
    /// ignored.
    pub fn packet(&mut self, packet: &LivePacket) {
        let mut mixer = std::mem::take(&mut self.mixer);
        self.packets(&[packet], &mut mixer);
        self.mixer = mixer;
    }

    /// Takes many packets at once, and lets a mixer add them. The result is the same as for one
    /// packet after another.
    pub fn packets(&mut self, packets: &[&LivePacket], mixer: &mut dyn Mixer) {
        let mut parts: BTreeMap<usize, Vec<&LivePayload>> = BTreeMap::new();
        for packet in packets {
            match self.take(packet) {
                Ok(Some(ahead)) => parts.entry(ahead).or_default().push(&packet.payload),
                Ok(None) => {}
                Err(fault) => self.remove(packet.header.member, fault),
            }
        }
        parts.into_iter().for_each(|(ahead, parts)| self.sums.mix(ahead, &parts, mixer));
    }

    /// How many ticks ahead of the open one the packet is to be added; none if it is not to be
    /// added.
    fn take(&mut self, packet: &LivePacket) -> Result<Option<usize>, Fault> {
        let header = packet.header;
        let Some(sender) = self.members.get(&header.member) else { return Ok(None) };
        if !sender.spoke || sender.waits {
            return Err(Fault::NotASpeaker);
        }
        if sender.muted || !sender.speaks {
            return Ok(None);
        }
        // receivers find the keys of a packet by the roster of the tick's own epoch
        let listed = sender.since.is_some_and(|since| since <= header.epoch);
        let in_epoch = listed && self.epochs.of(header.tick) == Some(header.epoch);
        let Some(ahead) = header.tick.checked_sub(self.open).filter(|_| in_epoch) else {
            self.late.insert(header.member);
            return Ok(None);
        };
        if ahead >= self.limits.window {
            let (tick, open, window) = (header.tick, self.open, self.limits.window);
            return Err(Fault::Flood { tick, open, window });
        }
        let ahead = ahead as usize;
        Ok(self.sums.enlist(ahead, packet, self.layout)?.then_some(ahead))
    }

    /// Members that are not in the lobby.
    fn inside(&self) -> impl Iterator<Item = u16> + '_ {
        self.members.iter().filter(|(_, member)| !member.waits).map(|(number, _)| *number)
    }

    fn hosts(&self) -> Vec<u16> {
        self.members.iter().filter(|(_, member)| member.host).map(|(number, _)| *number).collect()
    }

    fn tell(&mut self, member: u16, message: ServerMessage) {
        self.events.push_back(LiveEvent::Tell { member, message });
    }

    /// Takes a control message. A message from a member that has left is ignored.
    pub fn message(&mut self, member: u16, message: &ClientMessage, now: Duration) {
        if let Err(fault) = self.hear(member, message, now) {
            self.remove(member, fault);
        }
    }

    fn hear(&mut self, member: u16, message: &ClientMessage, now: Duration) -> Result<(), Fault> {
        let limits = self.limits;
        let Some(sender) = self.members.get_mut(&member) else { return Ok(()) };
        // a host has to send messages about every member
        if !sender.host {
            sender.credit.spend(&limits, now)?;
        }
        match *message {
            ClientMessage::Join(_) => return Err(Fault::SecondJoin),
            ClientMessage::Hand { raised } => {
                if sender.waits {
                    return Err(Fault::Note);
                }
                self.hand(member, raised);
                return Ok(());
            }
            ClientMessage::Behind { epoch } => {
                self.behind(member, epoch, now);
                return Ok(());
            }
            _ if !sender.host => return Err(Fault::NotTheHost),
            ClientMessage::Admit { member } => self.admit(member, now),
            ClientMessage::Mute { member, muted } => self.mute(member, muted),
            ClientMessage::Grant { member, speak } => self.grant(member, speak),
            ClientMessage::Eject { member } => self.remove(member, Fault::Ejected),
        }
        Ok(())
    }

    fn hand(&mut self, member: u16, raised: bool) {
        if self.settings.host.is_none() {
            return self.grant(member, raised);
        }
        for host in self.hosts() {
            self.tell(host, ServerMessage::Hand { member, raised });
        }
    }

    /// If all places to speak are taken, the member becomes a listener.
    fn admit(&mut self, number: u16, now: Duration) {
        let place = self.has_place_to_speak().is_ok();
        let (open, Some(member)) = (self.open, self.members.get_mut(&number)) else { return };
        if !member.waits {
            return;
        }
        member.waits = false;
        let may_not = member.speaks && !place;
        member.spoke |= member.speaks;
        member.speaks &= place;
        self.list(number, now);
        self.tell(number, ServerMessage::Admitted { tick: open });
        if may_not {
            self.tell(number, ServerMessage::Granted { speak: false });
        }
    }

    fn mute(&mut self, number: u16, muted: bool) {
        if let Some(member) = self.members.get_mut(&number) {
            member.muted = muted;
            self.tell(number, ServerMessage::Muted { muted });
        }
    }

    /// Lets a member speak if there is a place, or only listen.
    fn grant(&mut self, number: u16, speak: bool) {
        let place = self.has_place_to_speak().is_ok();
        let Some(member) = self.members.get_mut(&number) else { return };
        if member.speaks == speak || speak && !place {
            return;
        }
        member.speaks = speak;
        member.spoke |= speak;
        self.tell(number, ServerMessage::Granted { speak });
    }

    /// Takes note that a member's connection has ended. Its earlier packets still count.
    pub fn leave(&mut self, number: u16, now: Duration) {
        let pause = if self.settings.keys == Keys::Group { PARTING } else { BATCH };
        self.forget(number, pause, now);
    }

    fn forget(&mut self, number: u16, pause: Duration, now: Duration) {
        if self.members.remove(&number).is_some() {
            self.epochs.unlist(number, pause, now);
            self.is_gone(number, now);
            for host in self.hosts() {
                self.tell(host, ServerMessage::Left { member: number });
            }
        }
    }

    /// Removes a member for a fault, perhaps one that was found elsewhere.
    pub fn remove(&mut self, number: u16, fault: Fault) {
        if self.members.contains_key(&number) {
            self.forget(number, AT_ONCE, self.opened());
            self.events.push_back(LiveEvent::Removed { member: number, fault });
        }
    }

    /// Ends the room at `until`, and tells all members. From now on nobody can join.
    pub fn close(&mut self, now: Duration, until: Duration) {
        if self.closes.is_none() {
            self.closes = Some(until);
            let seconds = until.saturating_sub(now).as_secs() as u32;
            let members: Vec<u16> = self.members.keys().copied().collect();
            members.into_iter().for_each(|member| self.tell(member, ServerMessage::Closing { seconds }));
        }
    }

    /// The time at which a tick opened, or will open.
    pub fn tick_opened(&self, tick: u32) -> Duration {
        self.started + Duration::from_millis(TICK_MS * u64::from(tick))
    }

    fn opened(&self) -> Duration {
        self.tick_opened(self.open)
    }

    /// The next event at time `now`. Call this until it returns none: after every call that tells
    /// the room something, and at each [`LiveRoom::deadline`].
    pub fn poll(&mut self, now: Duration) -> Option<LiveEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.members.is_empty() {
            return None;
        }
        if self.closes.is_some_and(|until| until <= now) || self.open >= MAX_TICKS {
            let all: Vec<u16> = self.members.keys().copied().collect();
            all.into_iter().for_each(|member| self.remove(member, Fault::Shutdown));
            return self.events.pop_front();
        }
        if self.looks <= now {
            self.looks = now + Duration::from_millis(TICK_MS);
            self.expire(now);
        }
        self.expire_answer(now);
        if self.events.is_empty() && now >= self.opened() + Duration::from_millis(TICK_MS) {
            return Some(self.close_tick());
        }
        if self.events.is_empty() {
            self.commit(now);
        }
        self.events.pop_front()
    }

    /// The time at which [`LiveRoom::poll`] has an event at the latest, if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        if self.members.is_empty() {
            return None;
        }
        let tick = self.opened() + Duration::from_millis(TICK_MS);
        Some([self.epochs.due(), self.closes, self.answer_due()].into_iter().flatten().fold(tick, Duration::min))
    }

    /// Removes members that have not presented themselves in time.
    fn expire(&mut self, now: Duration) {
        let waited = self.limits.hello;
        let offers = self.settings.keys == Keys::Group;
        let silent = |member: &Member| {
            let is_silent = member.hello.is_none() || offers && member.offer.is_none();
            is_silent && member.joined + waited <= now
        };
        let out: Vec<u16> =
            self.members.iter().filter(|(_, member)| silent(member)).map(|(number, _)| *number).collect();
        out.into_iter().for_each(|number| self.remove(number, Fault::Idle { waited }));
    }

    fn close_tick(&mut self) -> LiveEvent {
        let tick = self.open;
        let sum = self.sums.close();
        let late = std::mem::take(&mut self.late);
        let packets = sum.as_ref().map_or(0, |sum| sum.speakers.len());
        let dropped = late.len();
        let empty = || Sum::empty(self.layout, self.epochs.of(tick).unwrap_or(0));
        let sum = (packets > 0 || dropped > 0).then(|| sum.unwrap_or_else(empty)).map(|sum| {
            let Sum { epoch, payload, tag, speakers } = sum;
            wire::encode_live_sum(self.layout, &LiveSum { room: self.id, epoch, tick, speakers, late, tag, payload })
        });
        let members = self.inside().collect();
        self.open += 1;
        self.epochs.close(self.open);
        LiveEvent::Closed { tick, packets, late: dropped, sum, members }
    }
}
