//! The task that owns one live room: receives events, adds packets, and sends to members.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{body::Bytes, extract::ws::Message};
use tobari_call::TICK_MS;
use tobari_call::live::messages::ServerMessage;
use tobari_call::live::{LiveEvent, LiveMode, LiveRoom, Proven};
use tobari_call::server::{Fault, Refusal};
use tobari_call::wire::LivePacket;
use tobari_curve::wire::RoomId;
use tobari_host::threads;
use tokio::sync::oneshot;

use super::{
    intake::LiveBinary,
    metrics::Metrics,
    mixing::{Happening, Live, Mixing, Seat},
    seats::{Seats, text},
    shards::Shards,
};
use crate::{kind::Task, limits::RoomLimits};

/// A room with its members' links.
pub(super) struct LiveTask {
    room: LiveRoom,
    id: String,
    origin: Instant,
    seats: Seats,
    drain: Duration,
    shards: Shards,
}

impl Task<Live> for LiveTask {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn deadline(&self) -> Option<Instant> {
        self.room.deadline().map(|deadline| self.origin + deadline)
    }

    /// Adding a masked packet takes 50 ns, and sending a sum to a thousand members takes less than
    /// a millisecond. Waking a thread for each packet would take a fifth of a busy server's time.
    fn is_light(&self) -> bool {
        self.room.settings().mode == LiveMode::Mask
    }

    /// Additions, encodings.
    fn work(&mut self, batch: Vec<Happening>, close: bool) {
        self.take(batch, close);
    }

    fn is_left(&self) -> bool {
        self.seats.is_empty()
    }

    fn ticks(&self) -> u32 {
        self.room.open_tick()
    }
}

impl Mixing for LiveTask {
    fn follow(&mut self) {
        while let Some(event) = self.room.poll(self.now()) {
            match event {
                LiveEvent::Closed { tick, packets, late, sum, members } => {
                    let due = self.room.tick_opened(tick) + Duration::from_millis(TICK_MS);
                    self.seats.count(packets, late, self.now().saturating_sub(due));
                    self.seats.offer(&members, tick, sum);
                }
                LiveEvent::Send { members, bytes } => {
                    let message = Message::Binary(Bytes::from(bytes));
                    members.iter().for_each(|member| self.send(*member, message.clone()));
                }
                LiveEvent::Tell { member, message } => self.send(member, text(&message)),
                LiveEvent::Removed { member, fault } => {
                    tracing::info!(room = self.id, member, code = %fault.code(), reason = %fault, "member removed");
                    let last = ServerMessage::Removed { code: fault.code(), reason: fault.to_string() };
                    self.seats.dismiss(member, last);
                }
            }
        }
    }

    fn mix(&mut self, packets: &[Box<LivePacket>]) {
        let packets: Vec<&LivePacket> = packets.iter().map(|packet| &**packet).collect();
        self.room.packets(&packets, &mut self.shards);
    }

    fn hear(&mut self, happening: Happening) {
        let now = self.now();
        match happening {
            Happening::Join { join, reply } => self.join(&join, reply),
            Happening::Binary { binary: LiveBinary::Packet(packet), .. } => self.mix(&[packet]),
            Happening::Binary { member, binary: LiveBinary::Note(note) } => self.room.note(member, &note, now),
            Happening::Message { member, message } => self.room.message(member, &message, now),
            Happening::Fault { member, fault } => self.room.remove(member, fault),
            Happening::Left { member } => {
                if self.seats.forget(member) {
                    self.room.leave(member, now);
                    tracing::info!(room = self.id, members = self.room.members(), "a member left");
                }
            }
            // no other server holds this room
            #[cfg(feature = "cascade")]
            Happening::Heard(_) => {}
        }
    }

    fn close(&mut self) {
        let now = self.now();
        self.room.close(now, now + self.drain);
    }
}

impl LiveTask {
    pub(super) fn open(id: RoomId, join: &Proven, limits: &RoomLimits, metrics: Arc<Metrics>) -> Result<Self, Refusal> {
        let origin = Instant::now();
        let room = LiveRoom::open(id, join, limits.call.live, origin.elapsed())?;
        // The log shows the room's wire number, because the name is private to the members.
        let id = id.to_string();
        let settings = room.settings();
        tracing::info!(room = id, mode = %settings.mode, speakers = settings.speakers, lobby = settings.lobby, "live room opened");
        let shards = Shards::new(threads::available());
        Ok(Self { room, id, origin, seats: Seats::new(metrics), drain: limits.house.drain, shards })
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn join(&mut self, join: &Proven, reply: oneshot::Sender<Result<Seat, Refusal>>) {
        let welcomed = self.room.join(join, self.now());
        let answer = welcomed.map(|welcome| self.seats.seat(welcome, self.room.uplink(&welcome)));
        tracing::info!(room = self.id, members = self.room.members(), refused = answer.is_err(), "join");
        if let Err(Ok(seat)) = reply.send(answer) {
            // The connection went away while it waited.
            self.hear(Happening::Left { member: seat.welcome.member });
        }
    }

    /// Queues a message that the member must not miss.
    fn send(&mut self, member: u16, message: Message) {
        if !self.seats.send(member, message) {
            self.room.remove(member, Fault::Slow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::seats::{QUEUE, SUMS};
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use std::sync::atomic::Ordering::Relaxed;
    use tobari_call::live::attack::proven;
    use tobari_call::live::{RoomLink, Settings};

    fn join(settings: Settings) -> Proven {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        proven(&RoomLink::new("http://h", "r".parse().unwrap(), settings, &mut rng), true)
    }

    fn open() -> (LiveTask, Proven) {
        let join = join(Settings::default());
        let metrics = Arc::new(Metrics::default());
        (LiveTask::open(RoomId([1; 8]), &join, &RoomLimits::default(), metrics).unwrap(), join)
    }

    fn enter(task: &mut LiveTask, join: &Proven) -> Seat {
        let (reply, mut answer) = oneshot::channel();
        task.work(vec![Happening::Join { join: join.clone(), reply }], false);
        answer.try_recv().unwrap().unwrap()
    }

    /// Advances the room's clock.
    fn wait(task: &mut LiveTask, time: Duration) {
        task.origin -= time;
        task.work(Vec::new(), false);
    }

    #[test]
    fn who_takes_nothing_misses_ticks_and_holds_nobody_up() {
        let (mut task, join) = open();
        let mut quick = enter(&mut task, &join);
        let slow = enter(&mut task, &join);
        for tick in 0..200 {
            wait(&mut task, Duration::from_millis(TICK_MS));
            assert!(quick.queue.try_recv().is_ok(), "{tick}");
        }
        assert_eq!((slow.queue.len(), task.room.members()), (SUMS, 2));
        assert!(task.seats.metrics.missed.load(Relaxed) >= 130);
    }

    #[test]
    fn who_does_not_take_what_it_must_not_miss_is_put_out() {
        let (mut task, join) = open();
        let mut slow = enter(&mut task, &join);
        let _other = enter(&mut task, &join);
        for _ in 0..=QUEUE {
            task.send(0, text(&ServerMessage::Muted { muted: true }));
        }
        task.work(Vec::new(), false);
        assert_eq!(task.room.members(), 1);
        assert!(matches!(slow.farewell.try_recv(), Ok(Some(ServerMessage::Removed { .. }))));
    }

    #[test]
    fn counters_hold_no_name_and_add_up() {
        let (mut task, join) = open();
        let seats = [enter(&mut task, &join), enter(&mut task, &join)];
        wait(&mut task, Duration::from_millis(TICK_MS * 5));
        let text = exposed(&task.seats.metrics);
        assert!(text.contains("tobari_call_members 2\n") && text.contains("tobari_call_ticks_total 5\n"), "{text}");
        task.work(vec![Happening::Left { member: 0 }], false);
        drop(seats);
        let metrics = Arc::clone(&task.seats.metrics);
        drop(task);
        let text = exposed(&metrics);
        assert!(text.contains("tobari_call_members 0\n") && text.contains("tobari_call_rooms 0\n"), "{text}");
    }

    fn exposed(metrics: &Metrics) -> String {
        let mut exposed = tobari_node::metrics::Metrics::default();
        metrics.add_to(&mut exposed);
        exposed.text()
    }
}
