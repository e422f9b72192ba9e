//! A member of a live room: the half that holds keys, as a state machine.
//!
//! The caller gives a [`LiveMember`] 320 samples of the microphone every 20 ms, and the messages of
//! the server. The member returns what to send and what to play. It has no clock: frames are its
//! time.
//!
//! **Rules against the server.** Ticks of packets increase, over all epochs. A packet that is sent
//! again has the same bytes ([`LiveMember::again`]). Sums arrive in increasing order, each under
//! the epoch of its tick. Entries of a roster that no member of this room has signed are left out
//! (`super::roster`); the rest of the roster is valid. A member that cannot follow asks for the
//! whole roster (`super::behind`). A message that breaks a rule is not played, and is reported as
//! an [`Alarm`].

mod follow;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::wire::{self, LiveHeader, LiveLayout, LivePacket};
use chacha20::{
    ChaCha20Rng,
    rand_core::{CryptoRng, SeedableRng},
};
use tobari_curve::wire::MemberSet;
use zeroize::Zeroizing;

use super::{
    FLAGS, PACKET_WORDS,
    audio::splice,
    behind::Behind,
    cadence::Cadence,
    entry,
    epoch::SumError,
    flagged,
    group::{
        self, Agreement, GroupSecret,
        messages::{STEP, TASK},
    },
    hearing::{Hearing, Opened},
    hello,
    history::History,
    keys::SessionId,
    link::{Keys, RoomLink},
    messages::{ClientMessage, Join, Nonce, ServerMessage, Welcome},
    news::{Alarm, News},
    notes::{self, Hello, NoteWriter, Say},
    presence::Presence,
    roster::{self, Roster},
};
use crate::{PACKET_SAMPLES, TICK_MS};

/// Packets that are kept, to send them again and to take one's own voice out of sums.
const REMEMBERED: usize = 128;
/// Ticks after which a packet counts as left out if no sum has it and no sum lists it as late: two
/// seconds.
const OMITTED_TICKS: u32 = 100;

/// A message to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A control message.
    Text(String),
    /// A note, or a message for the group.
    Binary(Vec<u8>),
}

impl Outgoing {
    /// Is it a hello or a note, for the other members to read? All else is for the server or the
    /// group.
    pub fn is_note(&self) -> bool {
        matches!(self, Self::Binary(bytes) if matches!(bytes.get(1), Some(&(hello::KIND | notes::KIND))))
    }
}

/// One tick that was heard.
pub struct OpenedTick {
    /// The tick.
    pub tick: u32,
    /// The members whose packets are in it.
    pub speakers: MemberSet,
    /// The exact sum without one's own voice: [`PACKET_SAMPLES`] samples.
    pub samples: Zeroizing<Vec<i32>>,
}

/// A packet that was sent.
struct Sent {
    tick: u32,
    /// The epoch of the keys that encrypted it.
    epoch: u32,
    packet: Vec<u8>,
    samples: Zeroizing<[i16; PACKET_SAMPLES]>,
}

/// A member: see the module.
pub struct LiveMember {
    hearing: Hearing,
    name: String,
    number: u16,
    /// The session under which this member is, or will be, on the roster.
    session: SessionId,
    /// All sessions of this member so far.
    sessions: BTreeSet<SessionId>,
    notes: NoteWriter,
    /// If the members agree on keys.
    group: Option<Box<dyn Agreement>>,
    /// Does it send, as far as the server allows?
    speaks: bool,
    muted_by_host: bool,
    /// Packets of ticks up to this one may be missing without a fault of the server: it was not to
    /// add them, or the line accepted none.
    excused: Option<u32>,
    cadence: Cadence,
    last_sent: Option<u32>,
    sent: VecDeque<Sent>,
    /// A frame that was left out; it fades into the next one.
    passed_over: Option<Zeroizing<[i16; PACKET_SAMPLES]>>,
    /// A packet of a tick before this one is to be sent again, to measure the round trip.
    probe: Option<u32>,
    /// Ticks whose sums lack our packet. A later sum may still list it as late.
    absent: VecDeque<u32>,
    history: History,
    /// The last note of each session.
    noted: BTreeMap<SessionId, u32>,
    talking: BTreeSet<u16>,
    presence: Presence,
    behind: Behind,
    /// For sessions that begin where the caller gives no randomness.
    rng: ChaCha20Rng,
    outgoing: VecDeque<Outgoing>,
    news: VecDeque<News>,
}

impl LiveMember {
    /// The answer to the challenge of the server of `link`.
    pub fn join(link: &RoomLink, speak: bool, nonce: Nonce) -> Join {
        entry::answer(link, speak, nonce)
    }

    /// A member that got `welcome`. The others see the first 64 bytes of `name`.
    ///
    /// None if the settings of the link are impossible (a parsed link never has such settings), or
    /// if it asks for keys of a group and this build has none ([`group::HAS_GROUPS`]).
    pub fn new(
        link: &RoomLink,
        name: &str,
        speak: bool,
        welcome: &Welcome,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Option<Self> {
        let hearing = Hearing::new(link, welcome.room)?;
        let session = draw(rng);
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        let notes = NoteWriter::new(&hearing.keys, session, welcome.room);
        let group = match link.settings.keys {
            Keys::Link => None,
            Keys::Group => Some(group::agreement(welcome.room)?),
        };
        let mut member = Self {
            hearing,
            name: short(name),
            number: welcome.member,
            session,
            sessions: BTreeSet::from([session]),
            notes,
            group,
            speaks: speak,
            muted_by_host: false,
            excused: None,
            cadence: Cadence::new(welcome.tick, welcome.window),
            last_sent: None,
            sent: VecDeque::new(),
            passed_over: None,
            probe: None,
            absent: VecDeque::new(),
            history: History::default(),
            noted: BTreeMap::new(),
            talking: BTreeSet::new(),
            presence: Presence::new(&link.settings),
            behind: Behind::default(),
            rng: ChaCha20Rng::from_seed(*seed),
            outgoing: VecDeque::new(),
            news: VecDeque::new(),
        };
        member.present(rng);
        Some(member)
    }

    /// Sends a hello for the current session, and offers the session to the group.
    fn present(&mut self, mut rng: &mut (impl CryptoRng + ?Sized)) {
        let hello = Hello { member: self.number, speaks: self.speaks, name: self.name.clone() };
        let hello = hello::write(&self.hearing.keys, self.hearing.room, self.session, &hello);
        self.outgoing.extend(hello.map(Outgoing::Binary));
        if let Some(group) = &mut self.group {
            match group.begin(&self.hearing.keys, self.session, &self.name, &mut rng) {
                Some(offer) => self.outgoing.push_back(Outgoing::Binary(offer)),
                None => self.alarm(Alarm::Unexpected),
            }
        }
    }

    fn send_note(&mut self, say: &Say) {
        if let Some(note) = self.notes.write(say) {
            self.outgoing.push_back(Outgoing::Binary(note));
        }
    }

    /// The number that the server gave this member.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// How packets and sums are written.
    pub fn layout(&self) -> LiveLayout {
        self.hearing.layout
    }

    /// The members on the last roster, by number.
    pub fn roster(&self) -> Option<&BTreeMap<u16, roster::Listed>> {
        self.hearing.roster().map(|roster| &roster.members)
    }

    /// Words to compare with the other members, by voice for instance, if the members agree on
    /// keys. All members of one state of their group have the same words; a member that was led
    /// into another state has others. They change with every roster.
    pub fn words(&self) -> Option<String> {
        self.group.as_ref()?.words()
    }

    /// Words that stand for the key of a member in this call, if the members agree on keys.
    pub fn words_of(&self, member: u16) -> Option<String> {
        let session = self.roster()?.get(&member)?.session;
        self.group.as_ref()?.words_of(session)
    }

    /// The secret that this member's current state of the group exports for a roster: for attacks.
    pub(super) fn exported(&self, roster: &Roster) -> Option<GroupSecret> {
        self.group.as_ref()?.export(roster)
    }

    /// The next message to send, besides packets.
    pub fn poll_outgoing(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// The next event.
    pub fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Raises or lowers the hand of a listener.
    pub fn raise_hand(&mut self, raised: bool) {
        self.say(&ClientMessage::Hand { raised });
    }

    /// Sends a control message of a host to the server.
    pub fn say(&mut self, message: &ClientMessage) {
        self.outgoing.push_back(Outgoing::Text(message.to_text()));
    }

    /// May this member send, as far as server and roster allow?
    pub fn can_speak(&self) -> bool {
        self.speaks && self.hearing.roster().is_some()
    }

    /// Takes the next 20 ms of the microphone, after gain and gate, and whether somebody talks in
    /// it. Returns the packet to send, if there is one now. There is none before the first roster,
    /// none for a listener, and none without talk in a room of talk spurts.
    ///
    /// # Leakage
    /// In a room with constant sending, neither the work nor the number of bytes depends on the
    /// samples.
    pub fn frame(
        &mut self,
        samples: &[i16; PACKET_SAMPLES],
        talking: bool,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Option<Vec<u8>> {
        let samples = match self.passed_over.take() {
            Some(before) => Zeroizing::new(splice::overlap(&before, samples)),
            None => Zeroizing::new(*samples),
        };
        let packet = self.frame_of(|_| *samples, talking, rng);
        if packet.is_none() && self.cadence.has_passed_over() {
            self.passed_over = Some(samples);
        }
        packet
    }

    /// Like [`LiveMember::frame`], with samples that are made for their tick.
    pub fn frame_of(
        &mut self,
        samples: impl FnOnce(u32) -> [i16; PACKET_SAMPLES],
        talking: bool,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Option<Vec<u8>> {
        let tick = self.cadence.next()?;
        if !self.speaks || self.last_sent.is_some_and(|last| tick <= last) {
            return None;
        }
        if self.hearing.settings.sending == super::Sending::Spurts && !talking {
            return None;
        }
        let (number, room, layout) = (self.number, self.hearing.room, self.hearing.layout);
        let epoch = self.hearing.epoch_at(tick)?;
        let last = epoch.roster.last();
        let samples = Zeroizing::new(samples(tick));
        let mut words = Zeroizing::new([0; PACKET_WORDS]);
        words[..PACKET_SAMPLES].copy_from_slice(samples.as_slice());
        let mine = u32::from(number.wrapping_sub(flagged(tick, last)));
        let flag = u16::from(talking && mine < u32::from(FLAGS));
        words[PACKET_SAMPLES] = flag.wrapping_shl(mine) as i16;
        let (payload, tag) = epoch.encrypt(tick, &words, rng)?;
        let header = LiveHeader { room, member: number, epoch: epoch.number(), tick };
        let packet = wire::encode_live_packet(layout, &LivePacket { header, tag, payload });
        let epoch = header.epoch;
        self.last_sent = Some(tick);
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { tick, epoch, packet: packet.clone(), samples });
        self.cadence.sent(tick);
        self.probe = self.cadence.probes();
        Some(packet)
    }

    /// An old packet, with the bytes that were sent before. Send it after the packet of
    /// [`LiveMember::frame`], if there is one. The server lists its sender as late, and that shows
    /// how long the round trip takes. Nobody hears it. There is at most one a second, and none if
    /// the server is near.
    pub fn probe(&mut self) -> Option<Vec<u8>> {
        let open = self.probe.take()?;
        let closed = self.sent.iter().rev().find(|sent| sent.tick < open)?.packet.clone();
        self.cadence.probed();
        Some(closed)
    }

    /// By how many milliseconds packets are made ahead of the tick that is open, as far as known.
    pub fn lead_ms(&self) -> u32 {
        self.cadence.lead().saturating_mul(TICK_MS as u32)
    }

    /// The last measured round trip, in milliseconds, in steps of 20; none if it was never longer
    /// than that.
    pub fn round_trip_ms(&self) -> Option<u32> {
        self.cadence.round_trip().map(|ticks| ticks.saturating_mul(TICK_MS as u32))
    }

    /// The packet of a tick again, if it is kept: the same bytes. For transports that lose packets.
    /// The clients here use WebSocket, which loses none, and do not call this.
    pub fn again(&self, tick: u32) -> Option<&[u8]> {
        self.sent.iter().find(|sent| sent.tick == tick).map(|sent| sent.packet.as_slice())
    }

    /// Takes note that a packet of [`LiveMember::frame`] was not sent, because the line accepted
    /// nothing. The server is not at fault if no sum has this packet: it is reported as late. Nor
    /// is the server at fault if earlier packets are not there yet. Its tick gets no other packet.
    pub fn keep_back(&mut self, packet: &[u8]) {
        let Some(place) = self.sent.iter().rposition(|sent| sent.packet == packet) else { return };
        if let Some(Sent { tick, .. }) = self.sent.remove(place) {
            self.absent.clear();
            self.cadence.kept_back(tick);
            self.excused = self.excused.max(Some(tick));
            self.news.push_back(News::Late { tick });
        }
    }

    /// Takes a control message.
    pub fn message(&mut self, message: &ServerMessage, rng: &mut (impl CryptoRng + ?Sized)) {
        let news = match message {
            ServerMessage::Welcome(_) | ServerMessage::Challenge { .. } => News::Alarm(Alarm::Unexpected),
            ServerMessage::Again {} => return self.begin_again(),
            ServerMessage::Refused { code, reason } | ServerMessage::Removed { code, reason } => {
                News::Over { code: Some(*code), reason: reason.clone() }
            }
            ServerMessage::Ended { .. } => News::Over { code: None, reason: String::new() },
            &ServerMessage::Admitted { tick } => {
                self.cadence.opened(tick);
                News::Admitted
            }
            &ServerMessage::Silent { tick } => return self.silent(tick),
            &ServerMessage::Granted { speak } => {
                self.granted(speak, rng);
                News::Granted { speak }
            }
            &ServerMessage::Muted { muted } => {
                // a repeated message excuses nothing, or else a server could leave out anybody
                if std::mem::replace(&mut self.muted_by_host, muted) != muted {
                    self.excused = self.last_sent;
                }
                News::Muted { muted }
            }
            &ServerMessage::Hand { member, raised } => News::Hand { member, raised },
            &ServerMessage::Left { member } => News::Left { member },
            &ServerMessage::Closing { seconds } => News::Closing { seconds },
        };
        self.news.push_back(news);
    }

    /// Begins a new session that speaks or listens. Its keys have encrypted nothing yet.
    fn granted(&mut self, speak: bool, rng: &mut (impl CryptoRng + ?Sized)) {
        if self.speaks != speak {
            self.speaks = speak;
            self.begin(rng);
        }
    }

    /// Begins another session.
    fn begin(&mut self, rng: &mut (impl CryptoRng + ?Sized)) {
        self.excused = self.last_sent;
        self.session = draw(rng);
        self.sessions.insert(self.session);
        self.notes = NoteWriter::new(&self.hearing.keys, self.session, self.hearing.room);
        self.present(rng);
    }

    /// Takes a tick that is silent, as the server says.
    fn silent(&mut self, tick: u32) {
        let next = self.hearing.next();
        if tick < next {
            return self.alarm(Alarm::Sum(SumError::Rewound { tick, next }));
        }
        // in a room of talk spurts the last packet of a spurt still has its talk bit set
        let nobody = MemberSet::default();
        if let Some(last) = self.hearing.epoch_at(tick).map(|epoch| epoch.roster.last()) {
            self.see_who_talks((flagged(tick, last), 0), &nobody);
        }
        self.closed(tick, &nobody, &nobody);
    }

    /// Skips the sum of a tick that this member does not need: for load tests with many members.
    pub fn pass_over(&mut self, tick: u32) {
        if tick >= self.hearing.next() {
            self.hearing.pass(tick);
            self.cadence.opened(self.hearing.next());
        }
    }

    fn alarm(&mut self, alarm: Alarm) {
        self.news.push_back(News::Alarm(alarm));
    }

    /// Takes a binary message: a sum, a roster, a note, or a message for the group. Returns the
    /// tick of a sum that was decrypted.
    pub fn binary(&mut self, bytes: &[u8]) -> Option<OpenedTick> {
        match bytes.get(1).copied() {
            Some(roster::KIND) => self.roster_said(None, bytes),
            Some(STEP) => self.step(bytes),
            Some(TASK) => self.task(bytes),
            Some(notes::KIND) => self.noted(bytes),
            Some(hello::KIND) => self.waiting(bytes),
            _ => match self.sum(bytes) {
                Ok(heard) => return heard,
                Err(error) => self.alarm(Alarm::Sum(error)),
            },
        }
        None
    }

    /// A member in the lobby presents itself to a host.
    fn waiting(&mut self, bytes: &[u8]) {
        let head = hello::head_of(bytes);
        let said = head.and_then(|head| {
            let listed = roster::hello_of(head.member, bytes, &self.hearing.keys, self.hearing.room)?;
            Some(News::Waiting { member: head.member, name: listed.name })
        });
        self.news.push_back(said.unwrap_or(News::Alarm(Alarm::Unexpected)));
    }

    fn noted(&mut self, bytes: &[u8]) {
        let Some((head, say)) = notes::open(&self.hearing.keys, self.hearing.room, bytes) else {
            return self.alarm(Alarm::Unexpected);
        };
        let listed =
            self.roster().and_then(|members| members.iter().find(|(_, listed)| listed.session == head.session));
        let Some(member) = listed.map(|(member, _)| *member) else {
            // a member that has just left
            return;
        };
        let last = self.noted.entry(head.session).or_insert(0);
        if head.number <= *last {
            return self.alarm(Alarm::Unexpected);
        }
        *last = head.number;
        if let Say::History { window, digest } = say
            && let Some(window) = self.history.told(window, member, digest)
        {
            self.alarm(Alarm::Histories { member, window });
        }
    }

    fn sum(&mut self, bytes: &[u8]) -> Result<Option<OpenedTick>, SumError> {
        let Some(opened) = self.hearing.open(bytes)? else { return Ok(None) };
        let Opened { tick, speakers, late, mut samples, flags } = opened;
        self.see_who_talks(flags, &speakers);
        if speakers.contains(self.number)
            && let Some(own) = self.sent.iter().find(|sent| sent.tick == tick)
        {
            samples.iter_mut().zip(own.samples.iter()).for_each(|(sum, own)| *sum -= i32::from(*own));
        }
        self.closed(tick, &speakers, &late);
        Ok(Some(OpenedTick { tick, speakers, samples }))
    }

    /// Reports changes of talk among the sixteen members from `first` on.
    fn see_who_talks(&mut self, (first, flags): (u16, u16), speakers: &MemberSet) {
        for place in 0..FLAGS {
            let member = first + place;
            let talking = flags >> place & 1 == 1 && speakers.contains(member);
            let changed = if talking { self.talking.insert(member) } else { self.talking.remove(&member) };
            if changed {
                self.news.push_back(News::Talking { member, talking });
            }
        }
    }

    /// Members that are no longer on the roster do not talk: sums no longer say anything about
    /// them.
    fn forget_who_is_gone(&mut self) {
        let Some(roster) = self.hearing.roster() else { return };
        let gone = self.talking.extract_if(.., |member| !roster.members.contains_key(member));
        self.news.extend(gone.map(|member| News::Talking { member, talking: false }));
    }

    /// A tick is over, with the speakers and late members that the server lists.
    fn closed(&mut self, tick: u32, speakers: &MemberSet, late: &MemberSet) {
        let epoch = self.hearing.epoch_at(tick).map(|epoch| {
            let changed = self.presence.passed(&epoch.roster, speakers);
            (epoch.number(), changed)
        });
        let (epoch, changed) = epoch.unzip();
        for (member, session, missing) in changed.into_iter().flatten() {
            // nothing is reported about members that are not on the next roster
            if self.roster().and_then(|members| members.get(&member)).is_some_and(|listed| listed.session == session) {
                self.news.push_back(News::Missing { member, missing });
            }
        }
        self.hearing.pass(tick);
        self.cadence.opened(self.hearing.next());
        self.account(tick, speakers, late);
        if let Some(epoch) = self.behind.passed(tick, self.group.is_some()) {
            self.ask_for_all(epoch);
        }
        // others know more about the time before this member's first epoch: a window that begins
        // there is not compared
        if let Some((window, digest)) = epoch.and_then(|epoch| self.history.heard(tick, epoch, speakers)) {
            self.compare(window, digest);
        }
        let (own, roster) = (self.number, self.hearing.roster());
        let others =
            || roster.into_iter().flat_map(|roster| roster.members.keys().copied()).filter(|it| *it != own).collect();
        let members = self.history.passed(tick, others);
        if !members.is_empty() {
            self.alarm(Alarm::Unconfirmed { members });
        }
    }

    /// Accounts for our packets: in their sum, late, or left out.
    fn account(&mut self, tick: u32, speakers: &MemberSet, late: &MemberSet) {
        let is_due = Some(tick) > self.excused && !self.muted_by_host;
        // no server can add a packet that was made before the keys of its tick were known
        let epoch = self.hearing.epoch_at(tick).map(|epoch| epoch.number());
        let was_sent = self.sent.iter().any(|sent| sent.tick == tick && Some(sent.epoch) == epoch);
        if was_sent && is_due && !speakers.contains(self.number) && self.absent.len() < REMEMBERED {
            self.absent.push_back(tick);
        }
        if self.measure(tick, speakers, late) {
            // the number of late packets is not reported: all that are missing by now may have been
            // late
            self.absent.clear();
            self.news.push_back(News::Late { tick });
        }
        while self.absent.front().is_some_and(|absent| absent.saturating_add(OMITTED_TICKS) <= tick) {
            if let Some(tick) = self.absent.pop_front() {
                self.alarm(Alarm::Omitted { tick });
            }
        }
    }

    /// Updates the round trip from a sum. Was a packet of this member late? Probes do not count.
    fn measure(&mut self, tick: u32, speakers: &MemberSet, late: &MemberSet) -> bool {
        let (is_late, was_far) = (late.contains(self.number), self.cadence.is_far());
        let is_probe = self.cadence.closed(tick, speakers.contains(self.number), is_late);
        let round_trip_ms = self.round_trip_ms().unwrap_or(0);
        match (was_far, self.cadence.is_far()) {
            (false, true) => {
                let most_ms = self.cadence.most().saturating_mul(TICK_MS as u32);
                self.news.push_back(News::Far { round_trip_ms, most_ms });
            }
            (true, false) => self.news.push_back(News::Near),
            _ => {}
        }
        is_late && !is_probe
    }

    fn compare(&mut self, window: u32, digest: [u8; 32]) {
        for member in self.history.differing(window) {
            self.alarm(Alarm::Histories { member, window });
        }
        // listeners count too, because their notes also go to all members
        let members = self.roster().map_or(0, BTreeMap::len);
        if History::tells(self.number, window, members) {
            self.send_note(&Say::History { window, digest });
        }
    }
}

/// A new session.
fn draw(rng: &mut (impl CryptoRng + ?Sized)) -> SessionId {
    let mut session = SessionId([0; 16]);
    rng.fill_bytes(&mut session.0);
    session
}

/// The part of a name that the others see.
fn short(name: &str) -> String {
    let mut short = String::new();
    for letter in name.chars().filter(|letter| !letter.is_control()) {
        if short.len() + letter.len_utf8() > notes::MAX_NAME {
            break;
        }
        short.push(letter);
    }
    short
}
