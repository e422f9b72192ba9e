//! One member of the load. It sends a member's packets; members with the role of an ear also
//! decrypt the sums.
//!
//! Members that neither say nor hear a word have no task and no clock of their own: a [`Flock`]
//! handles its members one after another, because the wakeups of a thousand tasks would fill a
//! core. A watched member reports what it decrypts, and a member can get orders for messages to
//! send.

use chacha20::ChaCha20Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tobari_call::live::audio::PlaybackBuffer;
use tobari_call::live::messages::ClientMessage;
use tobari_call::live::{Alarm, LiveMember, News, RoomLink};
use tobari_call::{PACKET_SAMPLES, TICK_MS};
use tobari_call_edge::connect::{LiveInbound, LiveIncoming, LiveOutbound, connect_live};
use tobari_client::ClientTls;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_curve::wire::MemberSet;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The level of a word: one loud frame, every half second.
const WORD: i16 = 12_000;
const WORD_EVERY: u32 = 25;
/// A louder sample counts as a heard word.
const HEARD: i16 = 6_000;
/// The places of epoch and tick in a sum on the wire, after version, kind, layout and room.
const EPOCH_AT: std::ops::Range<usize> = 12..16;
const TICK_AT: std::ops::Range<usize> = 16..20;
/// The kinds of sums, by mode.
const SUMS: [u8; 3] = [0x09, 0x0b, 0x1a];

/// The role of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Says words, and skips sums.
    Mouth,
    /// Sends silence, and skips sums.
    Silent,
    /// Listens.
    Ear,
    /// Sends nothing, and skips sums.
    Deaf,
    /// Sends silence, and decrypts sums.
    Guest,
    /// Has offered its key package, and ignores all messages.
    Leaf,
}

impl Role {
    fn speaks(self) -> bool {
        matches!(self, Self::Mouth | Self::Silent | Self::Guest)
    }

    fn listens(self) -> bool {
        matches!(self, Self::Ear | Self::Guest)
    }
}

/// An event of a watched member.
pub(super) struct MemberEvent {
    pub(super) who: u16,
    pub(super) at: Instant,
    pub(super) what: Happened,
}

/// See [`MemberEvent`].
pub(super) enum Happened {
    /// The member has a roster with this many members.
    Roster(usize),
    /// The member has decrypted a sum of this epoch, with packets of these members.
    Opened(u32, MemberSet),
    /// The server has removed the member.
    PutOut,
}

/// The members' reports for the measurement.
#[derive(Default)]
pub(super) struct Mouths {
    speaking: AtomicU64,
    alarms: AtomicU64,
    /// The start of the last word.
    said: Mutex<Option<Instant>>,
    /// The delays of words, in milliseconds.
    words: Mutex<Vec<f64>>,
}

impl Mouths {
    /// The number of members that have begun to send.
    pub(super) fn speaking(&self) -> u64 {
        self.speaking.load(Relaxed)
    }

    pub(super) fn alarms(&self) -> u64 {
        self.alarms.load(Relaxed)
    }

    pub(super) fn forget(&self) {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn words(&self) -> Vec<f64> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, begun: Option<Instant>) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    fn hear(&self, at: Instant) {
        let said = *self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(took) = said.and_then(|said| at.checked_duration_since(said)) {
            self.words.lock().unwrap_or_else(PoisonError::into_inner).push(took.as_secs_f64() * 1000.0);
        }
    }
}

/// A member with its connection.
pub(super) struct Caller {
    member: LiveMember,
    outbound: LiveOutbound,
    inbound: LiveInbound,
    rng: ChaCha20Rng,
    role: Role,
    told: Arc<Mouths>,
    ear: PlaybackBuffer,
    frames: u32,
    has_sent: bool,
    was_loud: bool,
    said_hello: bool,
    watcher: Option<UnboundedSender<MemberEvent>>,
}

impl Caller {
    pub(super) async fn enter(link: Arc<RoomLink>, role: Role, told: Arc<Mouths>) -> Result<Self, Failure> {
        let mut rng = randomness::generator()?;
        let speaks = role.speaks();
        let join = |nonce| LiveMember::join(&link, speaks, nonce);
        let (welcome, outbound, inbound) = connect_live(&link.server, &link.room, join, &ClientTls::System).await?;
        let member = LiveMember::new(&link, "load", speaks, &welcome, &mut rng)
            .ok_or_else(|| Failure::Work("a link whose settings are impossible".to_owned()))?;
        let (ear, frames) = (PlaybackBuffer::default(), 0);
        let (has_sent, was_loud, said_hello, watcher) = (false, false, false, None);
        let mut caller =
            Self { member, outbound, inbound, rng, role, told, ear, frames, has_sent, was_loud, said_hello, watcher };
        caller.say().await?;
        Ok(caller)
    }

    /// The same member, with a receiver for its events.
    pub(super) fn watched(mut self, watcher: UnboundedSender<MemberEvent>) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// The member's number, from the server.
    pub(super) fn number(&self) -> u16 {
        self.member.number()
    }

    /// Runs until the stop signal.
    pub(super) async fn run(self, stopped: watch::Receiver<bool>) -> Result<(), Failure> {
        let (_, nothing) = mpsc::unbounded_channel();
        self.obey(stopped, nothing).await
    }

    /// Runs until the stop signal, or until the removal of a watched member. Sends the messages in
    /// `orders`.
    pub(super) async fn obey(
        mut self,
        mut stopped: watch::Receiver<bool>,
        mut orders: UnboundedReceiver<ClientMessage>,
    ) -> Result<(), Failure> {
        let mut clock = clock(TICK_MS);
        loop {
            tokio::select! {
                _ = stopped.changed() => break,
                Some(order) = orders.recv() => self.member.say(&order),
                at = clock.tick() => self.frame(at.into_std()).await?,
                came = self.inbound.receive() => {
                    if self.come(came?) && self.watcher.is_some() {
                        return Ok(());
                    }
                }
            }
            self.say().await?;
        }
        let _ = self.outbound.close().await;
        Ok(())
    }

    /// Processes 20 ms of both directions, which ended at `at`.
    async fn frame(&mut self, at: Instant) -> Result<(), Failure> {
        let is_word = self.role == Role::Mouth && self.frames.is_multiple_of(WORD_EVERY);
        self.frames = self.frames.wrapping_add(1);
        let samples = [if is_word { WORD } else { 0 }; PACKET_SAMPLES];
        if let Some(packet) = self.member.frame(&samples, is_word, &mut self.rng) {
            if is_word {
                self.told.say(at.checked_sub(Duration::from_millis(TICK_MS)));
            }
            self.outbound.send_packet(packet).await?;
            if !std::mem::replace(&mut self.has_sent, true) {
                self.told.speaking.fetch_add(1, Relaxed);
            }
        }
        if self.role.listens() {
            self.listen(at);
        }
        Ok(())
    }

    /// Notes a word at the time when its first loud sample is played.
    fn listen(&mut self, at: Instant) {
        let frame = self.ear.pull();
        let first = frame.iter().position(|sample| *sample > HEARD);
        if let Some(first) = first.filter(|_| !self.was_loud) {
            self.told.hear(at + Duration::from_secs_f64(first as f64 / 16_000.0));
        }
        self.was_loud = first.is_some();
    }

    /// Processes a message; true if the call is over for this member.
    fn come(&mut self, came: LiveIncoming) -> bool {
        match came {
            _ if self.role == Role::Leaf => return false,
            LiveIncoming::Message(message) => self.member.message(&message, &mut self.rng),
            LiveIncoming::Binary(bytes) => match passed_over(&bytes).filter(|_| !self.role.listens()) {
                // the member's clock needs only the tick
                Some(tick) => self.member.pass_over(tick),
                None => {
                    if let Some(heard) = self.member.binary(&bytes) {
                        self.ear.push(heard.tick, heard.samples.to_vec());
                        if let Some(epoch) = number_at(&bytes, EPOCH_AT) {
                            self.tell(|| Happened::Opened(epoch, heard.speakers));
                        }
                    }
                }
            },
        }
        let mut is_over = false;
        while let Some(news) = self.member.poll_news() {
            match news {
                // a member that skips sums does not find its own packets in them, and sends others
                // nothing to compare, so other alarms are expected
                News::Alarm(Alarm::Sum(_) | Alarm::Roster(_) | Alarm::LeftOut { .. } | Alarm::Unexpected) => {
                    self.told.alarms.fetch_add(1, Relaxed);
                }
                News::Roster { .. } => {
                    let members = self.member.roster().map_or(0, BTreeMap::len);
                    self.tell(|| Happened::Roster(members));
                }
                News::Over { .. } => {
                    is_over = true;
                    self.tell(|| Happened::PutOut);
                }
                _ => {}
            }
        }
        is_over
    }

    fn tell(&self, what: impl FnOnce() -> Happened) {
        if let Some(watcher) = &self.watcher {
            // a watcher that is gone has its figures already
            let _ = watcher.send(MemberEvent { who: self.number(), at: Instant::now(), what: what() });
        }
    }

    async fn say(&mut self) -> Result<(), Failure> {
        while let Some(out) = self.member.poll_outgoing() {
            // after its hello, a member that skips sums has no history to send
            if !out.is_note() || self.role.listens() || !std::mem::replace(&mut self.said_hello, true) {
                self.outbound.say(out).await?;
            }
        }
        Ok(())
    }
}

/// A tick every `ms` milliseconds; missed ticks follow at once.
fn clock(ms: u64) -> Interval {
    let mut clock = interval(Duration::from_millis(ms));
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    clock
}

/// Members that share one task.
pub(super) struct Flock(Vec<Caller>);

/// Turns in a tick: each turn reads from every member, and one of them sends.
const TURNS: u64 = 4;

impl Flock {
    /// The largest number of members.
    pub(super) const MOST: usize = 64;

    pub(super) fn new(callers: Vec<Caller>) -> Self {
        Self(callers)
    }

    /// Runs until the stop signal.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) -> Result<(), Failure> {
        let mut clock = clock(TICK_MS / TURNS);
        for turn in (0..TURNS as usize).cycle() {
            let at = tokio::select! {
                _ = stopped.changed() => break,
                at = clock.tick() => at.into_std(),
            };
            for (number, caller) in self.0.iter_mut().enumerate() {
                while let Some(came) = caller.inbound.receive_now()? {
                    caller.come(came);
                }
                if caller.role == Role::Leaf {
                    continue;
                }
                if number % TURNS as usize == turn {
                    caller.frame(at).await?;
                }
                caller.say().await?;
            }
        }
        for caller in &mut self.0 {
            let _ = caller.outbound.close().await;
        }
        Ok(())
    }
}

/// The tick of a sum; none of anything else.
fn passed_over(bytes: &[u8]) -> Option<u32> {
    bytes.get(1).filter(|kind| SUMS.contains(kind))?;
    number_at(bytes, TICK_AT)
}

fn number_at(bytes: &[u8], place: std::ops::Range<usize>) -> Option<u32> {
    bytes.get(place)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::rand_core::SeedableRng;
    use std::time::Duration;
    use tobari_call::live::attack::proven;
    use tobari_call::live::{LiveEvent, LiveLimits, LiveMode, LiveRoom, Outgoing, Settings};
    use tobari_curve::wire::RoomId;

    /// In every mode, the tick that is read without a key is the tick of the sum.
    #[test]
    fn ticks_of_sums_are_read_where_they_stand_and_rosters_are_none() {
        for mode in LiveMode::ALL {
            let mut rng = ChaCha20Rng::from_seed([1; 32]);
            let settings = Settings { mode, speakers: 2, ..Settings::default() };
            let link = RoomLink::new("http://h", "r".parse().unwrap(), settings, &mut rng);
            let join = proven(&link, true);
            let mut room = LiveRoom::open(RoomId([1; 8]), &join, LiveLimits::default(), Duration::ZERO).unwrap();
            let welcome = room.join(&join, Duration::ZERO).unwrap();
            let mut member = LiveMember::new(&link, "", true, &welcome, &mut rng).unwrap();
            let (mut found, mut rosters) = (Vec::new(), 0);
            for frame in 1..40u64 {
                while let Some(Outgoing::Binary(note)) = member.poll_outgoing() {
                    room.note(0, &note, Duration::from_millis(20 * frame));
                }
                if let Some(packet) = member.frame(&[0; PACKET_SAMPLES], false, &mut rng) {
                    room.packet(&room.uplink(&welcome).decode(&packet).unwrap());
                }
                while let Some(event) = room.poll(Duration::from_millis(20 * frame)) {
                    match event {
                        LiveEvent::Closed { tick, sum: Some(sum), .. } => {
                            assert_eq!((passed_over(&sum), number_at(&sum, EPOCH_AT)), (Some(tick), Some(1)), "{mode}");
                            found.push(tick);
                            member.pass_over(tick);
                        }
                        LiveEvent::Closed { tick, .. } => member.pass_over(tick),
                        LiveEvent::Send { bytes, .. } => {
                            rosters += 1;
                            assert_eq!(passed_over(&bytes), None);
                            assert!(member.binary(&bytes).is_none());
                        }
                        _ => {}
                    }
                }
            }
            assert!(found.len() > 10 && rosters == 1, "{mode}: {found:?}, {rosters} rosters");
        }
    }
}
