//! The task that owns one live room: hears what happens, adds, and tells members.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};
use tobari_apps::call::{
    TICK_MS,
    live::{
        LiveEvent, LiveRoom, LiveUplink,
        messages::{ClientMessage, Join, ServerMessage, Welcome},
    },
    server::{Fault, Refusal},
};
use tobari_core::wire::{LivePacket, RoomId};
use tokio::{
    sync::{mpsc, oneshot},
    task,
    time::sleep_until,
};

use super::metrics::Metrics;
use crate::{ServerLimits, stop::Stop};

/// What a member's queue holds, and how much of it sums may fill: more than a second of them is of no use to anybody.
const QUEUE: usize = 192;
const SUMS: usize = 64;
/// How many happenings are handled in one go.
const BATCH: usize = 512;

/// Until then; for ever if there is no such time.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

/// What a session tells its room.
pub(super) enum Happening {
    /// Somebody wants in.
    Join { join: Join, reply: oneshot::Sender<Result<Seat, Refusal>> },
    /// A packet, decoded.
    Packet { packet: Box<LivePacket> },
    /// A note.
    Note { member: u16, note: Bytes },
    /// A control message.
    Message { member: u16, message: ClientMessage },
    /// Something that the session does not put up with.
    Fault { member: u16, fault: Fault },
    /// The connection is gone.
    Left { member: u16 },
}

/// A member's place in a room, from the session's side.
pub(super) struct Seat {
    pub(super) welcome: Welcome,
    pub(super) uplink: LiveUplink,
    pub(super) queue: mpsc::Receiver<Message>,
    /// The last message, after the queue has run dry. None if the room's task died.
    pub(super) farewell: oneshot::Receiver<ServerMessage>,
}

/// A member's place in a room, from the room's side.
struct Link {
    queue: mpsc::Sender<Message>,
    farewell: oneshot::Sender<ServerMessage>,
}

/// A room with its members' links.
pub(super) struct LiveTask {
    room: LiveRoom,
    id: String,
    origin: Instant,
    links: HashMap<u16, Link>,
    drain: Duration,
    metrics: Arc<Metrics>,
}

impl Drop for LiveTask {
    fn drop(&mut self) {
        self.metrics.rooms.fetch_sub(1, Relaxed);
        self.metrics.members.fetch_sub(self.links.len() as i64, Relaxed);
    }
}

impl LiveTask {
    pub(super) fn open(id: RoomId, join: &Join, limits: &ServerLimits, metrics: Arc<Metrics>) -> Result<Self, Refusal> {
        let origin = Instant::now();
        let room = LiveRoom::open(id, join, limits.live, origin.elapsed())?;
        // The number on the wire stands for the room in the log: its name is the members' own.
        let id = id.to_string();
        let settings = room.settings();
        tracing::info!(room = id, mode = %settings.mode, speakers = settings.speakers, lobby = settings.lobby, "live room opened");
        metrics.rooms.fetch_add(1, Relaxed);
        Ok(Self { room, id, origin, links: HashMap::new(), drain: limits.drain, metrics })
    }

    /// Runs until the room is left by everybody.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Happening>, mut stopped: Stop) {
        let (id, mut happenings, mut closing) = (self.id.clone(), Vec::new(), false);
        loop {
            let deadline = self.room.deadline().map(|deadline| self.origin + deadline);
            let mut close = false;
            tokio::select! {
                count = inbox.recv_many(&mut happenings, BATCH) => close = count == 0,
                () = until(deadline) => {}
                () = stopped.wait(), if !closing => close = true,
            }
            closing |= close;
            let batch = std::mem::take(&mut happenings);
            let worked = task::spawn_blocking(move || {
                self.work(batch, close);
                self
            });
            match worked.await {
                Ok(task) if !task.links.is_empty() => self = task,
                Ok(task) => return tracing::info!(room = id, ticks = task.room.open_tick(), "live room closed"),
                Err(_) => return tracing::error!(room = id, "live room closed by an internal error"),
            }
        }
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Everything that costs time: additions, encodings.
    fn work(&mut self, batch: Vec<Happening>, close: bool) {
        // First what is due: a packet that was still waiting when its tick ended is late.
        self.follow();
        for happening in batch {
            self.hear(happening);
        }
        if close {
            let now = self.now();
            self.room.close(now, now + self.drain);
        }
        self.follow();
    }

    fn hear(&mut self, happening: Happening) {
        let now = self.now();
        match happening {
            Happening::Join { join, reply } => self.join(&join, reply),
            Happening::Packet { packet } => self.room.packet(&packet),
            Happening::Note { member, note } => self.room.note(member, &note, now),
            Happening::Message { member, message } => self.room.message(member, &message, now),
            Happening::Fault { member, fault } => self.room.remove(member, fault),
            Happening::Left { member } => {
                if self.links.remove(&member).is_some() {
                    self.metrics.members.fetch_sub(1, Relaxed);
                    self.room.leave(member, now);
                    tracing::info!(room = self.id, members = self.room.members(), "a member left");
                }
            }
        }
    }

    fn join(&mut self, join: &Join, reply: oneshot::Sender<Result<Seat, Refusal>>) {
        let answer = self.room.join(join, self.now()).map(|welcome| {
            let (link, queue) = mpsc::channel(QUEUE);
            let (goodbye, farewell) = oneshot::channel();
            self.links.insert(welcome.member, Link { queue: link, farewell: goodbye });
            self.metrics.members.fetch_add(1, Relaxed);
            Seat { welcome, uplink: self.room.uplink(&welcome), queue, farewell }
        });
        tracing::info!(room = self.id, members = self.room.members(), refused = answer.is_err(), "join");
        if let Err(Ok(seat)) = reply.send(answer) {
            // The connection went away while it waited.
            self.hear(Happening::Left { member: seat.welcome.member });
        }
    }

    /// Tells members all that follows by now.
    fn follow(&mut self) {
        while let Some(event) = self.room.poll(self.now()) {
            match event {
                LiveEvent::Closed { tick, packets, late, sum, members } => {
                    self.count(tick, packets, late, sum.as_ref().map_or(0, |sum| sum.len() * members.len()));
                    let message = match sum {
                        Some(sum) => Message::Binary(Bytes::from(sum)),
                        None => text(&ServerMessage::Silent { tick }),
                    };
                    members.iter().for_each(|member| self.offer(*member, &message));
                }
                LiveEvent::Send { members, bytes } => {
                    let message = Message::Binary(Bytes::from(bytes));
                    members.iter().for_each(|member| self.send(*member, message.clone()));
                }
                LiveEvent::Tell { member, message } => self.send(member, text(&message)),
                LiveEvent::Removed { member, fault } => {
                    tracing::info!(room = self.id, member, code = %fault.code(), reason = %fault, "member removed");
                    self.metrics.removed.fetch_add(1, Relaxed);
                    self.dismiss(member, ServerMessage::Removed { code: fault.code(), reason: fault.to_string() });
                }
            }
        }
    }

    fn count(&self, tick: u32, packets: usize, late: usize, bytes: usize) {
        let metrics = &self.metrics;
        metrics.ticks.fetch_add(1, Relaxed);
        metrics.packets.fetch_add(packets as u64, Relaxed);
        metrics.late.fetch_add(late as u64, Relaxed);
        metrics.sent_bytes.fetch_add(bytes as u64, Relaxed);
        let due = self.room.tick_opened(tick) + Duration::from_millis(TICK_MS);
        metrics.tick_delay_ms.fetch_add(self.now().saturating_sub(due).as_millis() as u64, Relaxed);
    }

    /// Puts a sum into a member's queue, unless it takes them too slowly: then it misses this one.
    fn offer(&self, member: u16, message: &Message) {
        let Some(link) = self.links.get(&member) else { return };
        if link.queue.capacity() <= QUEUE - SUMS || link.queue.try_send(message.clone()).is_err() {
            self.metrics.missed.fetch_add(1, Relaxed);
        }
    }

    /// Puts into a member's queue what it must not miss.
    fn send(&mut self, member: u16, message: Message) {
        let Some(link) = self.links.get(&member) else { return };
        if link.queue.try_send(message).is_err() {
            self.room.remove(member, Fault::Slow);
        }
    }

    /// Ends a member's connection after what is in its queue.
    fn dismiss(&mut self, member: u16, last: ServerMessage) {
        if let Some(link) = self.links.remove(&member) {
            self.metrics.members.fetch_sub(1, Relaxed);
            // If the session is gone there is nobody to tell.
            let _ = link.farewell.send(last);
        }
    }
}

fn text(message: &ServerMessage) -> Message {
    Message::Text(Utf8Bytes::from(message.to_text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_apps::call::live::Settings;

    fn open() -> (LiveTask, Join) {
        let join = Join { version: 2, settings: Settings::default(), speak: true, token: None };
        let metrics = Arc::new(Metrics::default());
        (LiveTask::open(RoomId([1; 8]), &join, &ServerLimits::default(), metrics).unwrap(), join)
    }

    fn enter(task: &mut LiveTask, join: &Join) -> Seat {
        let (reply, mut answer) = oneshot::channel();
        task.work(vec![Happening::Join { join: join.clone(), reply }], false);
        answer.try_recv().unwrap().unwrap()
    }

    /// Lets time go by, as far as the room can tell.
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
        assert!(task.metrics.missed.load(Relaxed) >= 130);
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
        assert!(matches!(slow.farewell.try_recv(), Ok(ServerMessage::Removed { .. })));
    }

    #[test]
    fn counters_hold_no_name_and_add_up() {
        let (mut task, join) = open();
        let seats = [enter(&mut task, &join), enter(&mut task, &join)];
        wait(&mut task, Duration::from_millis(TICK_MS * 5));
        let text = task.metrics.text();
        assert!(text.contains("tobari_call_members 2\n") && text.contains("tobari_call_ticks_total 5\n"), "{text}");
        task.work(vec![Happening::Left { member: 0 }], false);
        drop(seats);
        let metrics = Arc::clone(&task.metrics);
        drop(task);
        assert!(metrics.text().contains("tobari_call_members 0\n") && metrics.text().contains("tobari_call_rooms 0\n"));
    }
}
