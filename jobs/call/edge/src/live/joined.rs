//! The task that owns this server's part of a live room on several servers.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use axum::{body::Bytes, extract::ws::Message};
use tobari_call::live::Proven;
use tobari_call::live::cascade::{SharedEvent, SharedRoom, Station};
use tobari_call::server::{Fault, Refusal};
use tobari_call::wire::{LiveLayout, LivePacket};
use tobari_curve::wire::RoomId;
use tobari_host::threads;
use tokio::sync::{mpsc, oneshot};

use super::{
    bus::{Bus, Letter},
    intake::LiveBinary,
    metrics::Metrics,
    mixing::{Happening, Live, Mixing, Seat},
    seats::{Seats, text},
    shards::Shards,
};
use crate::{
    kind::{Opening, Task},
    limits::RoomLimits,
};

/// This server's part of a room, with the links of this server's members.
pub(super) struct JoinedTask {
    room: SharedRoom,
    id: String,
    origin: Instant,
    seats: Seats,
    outbox: mpsc::Sender<Letter>,
    /// Clients that wait for an answer to their join.
    joins: HashMap<u32, oneshot::Sender<Result<Seat, Refusal>>>,
    tickets: u32,
    drain: Duration,
    shards: Shards,
    /// Has this server learned whether it leads?
    leads: Option<bool>,
    is_over: bool,
}

impl Task<Live> for JoinedTask {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn deadline(&self) -> Option<Instant> {
        self.room.deadline().map(|deadline| self.origin + deadline)
    }

    /// As on a single server: the part of another server is added like a packet and encoded like a
    /// sum. Before the layout of packets is known there are none.
    fn is_light(&self) -> bool {
        self.room.layout().is_none_or(|layout| matches!(layout, LiveLayout::Mask { .. }))
    }

    fn work(&mut self, batch: Vec<Happening>, close: bool) {
        self.take(batch, close);
    }

    fn is_left(&self) -> bool {
        self.is_over || self.seats.is_empty() && self.joins.is_empty() && self.room.is_left()
    }

    fn ticks(&self) -> u32 {
        self.room.open_tick()
    }
}

impl Mixing for JoinedTask {
    fn follow(&mut self) {
        while let Some(event) = self.room.poll(self.now()) {
            self.happen(event);
        }
        self.count();
    }

    fn mix(&mut self, packets: &[Box<LivePacket>]) {
        let packets: Vec<&LivePacket> = packets.iter().map(|packet| &**packet).collect();
        self.room.packets(&packets, &mut self.shards, self.origin.elapsed());
    }

    fn hear(&mut self, happening: Happening) {
        let now = self.now();
        match happening {
            Happening::Join { join, reply } => self.join(&join, reply),
            Happening::Binary { binary: LiveBinary::Packet(packet), .. } => self.mix(&[packet]),
            Happening::Binary { member, binary: LiveBinary::Note(note) } => self.room.note(member, &note, now),
            Happening::Message { member, message } => self.room.message(member, &message, now),
            Happening::Fault { member, fault } => self.room.remove(member, &fault),
            Happening::Left { member } => {
                if self.seats.forget(member) {
                    self.room.leave(member, now);
                    tracing::info!(room = self.id, "a member left");
                }
            }
            Happening::Heard(message) => self.room.hear(&message, &mut self.shards, now),
        }
    }

    fn close(&mut self) {
        let now = self.now();
        self.room.close(now, now + self.drain);
    }
}

impl JoinedTask {
    pub(super) fn open(opening: &Opening<'_, Live>, bus: &Bus, limits: &RoomLimits, metrics: Arc<Metrics>) -> Self {
        let outbox = bus.carry(opening.name, Station(opening.id.0), opening.inbox.clone(), Arc::clone(&metrics));
        Self::new(opening.id, outbox, limits, metrics)
    }

    /// A part with this number, which sends its messages to `outbox`.
    fn new(id: RoomId, outbox: mpsc::Sender<Letter>, limits: &RoomLimits, metrics: Arc<Metrics>) -> Self {
        let origin = Instant::now();
        let room = SharedRoom::new(Station(id.0), limits.call.live, origin.elapsed());
        let shards = Shards::new(threads::available());
        Self {
            room,
            id: id.to_string(),
            origin,
            seats: Seats::new(metrics),
            outbox,
            joins: HashMap::new(),
            tickets: 0,
            drain: limits.house.drain,
            shards,
            leads: None,
            is_over: false,
        }
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn join(&mut self, join: &Proven, reply: oneshot::Sender<Result<Seat, Refusal>>) {
        let ticket = self.tickets;
        self.tickets = self.tickets.wrapping_add(1);
        self.joins.insert(ticket, reply);
        self.room.join(ticket, join, self.now());
    }

    fn happen(&mut self, event: SharedEvent) {
        match event {
            SharedEvent::Seated { ticket, welcome, uplink } => {
                tracing::info!(room = self.id, "join");
                let seat = self.seats.seat(welcome, uplink);
                let answered = self.joins.remove(&ticket).map(|reply| reply.send(Ok(seat)));
                if !matches!(answered, Some(Ok(()))) {
                    // The connection went away while it waited.
                    self.hear(Happening::Left { member: welcome.member });
                }
            }
            SharedEvent::Refused { ticket, refusal } => {
                tracing::info!(room = self.id, refused = true, "join");
                // a client that has left needs no answer
                let _ = self.joins.remove(&ticket).map(|reply| reply.send(Err(refusal)));
            }
            SharedEvent::Closed { tick, counted, sum, members } => {
                if let (Some((packets, late)), Some(due)) = (counted, self.room.tick_due(tick)) {
                    self.seats.count(packets, late, self.now().saturating_sub(due));
                }
                self.seats.offer(&members, tick, sum);
            }
            SharedEvent::Send { members, bytes } => {
                let message = Message::Binary(Bytes::from(bytes));
                members.iter().for_each(|member| self.send(*member, message.clone()));
            }
            SharedEvent::Tell { member, message } => self.send(member, text(&message)),
            SharedEvent::Removed { member, message } => self.seats.dismiss(member, message),
            SharedEvent::Publish { to, bytes } => {
                if self.outbox.try_send(Letter { to, bytes }).is_err() {
                    self.seats.metrics.bus.dropped.fetch_add(1, Relaxed);
                }
            }
            SharedEvent::Parted => {
                tracing::info!(
                    room = self.id,
                    "disconnected the members, who join again: another server leads now, or this one heard none"
                );
                self.seats.hang_up();
                self.joins.clear();
                self.is_over = true;
            }
        }
    }

    /// Queues a message that the member must not miss.
    fn send(&mut self, member: u16, message: Message) {
        if !self.seats.send(member, message) {
            self.room.remove(member, &Fault::Slow);
        }
    }

    fn count(&mut self) {
        let counts = self.room.take_counts();
        let bus = &self.seats.metrics.bus;
        bus.parts.fetch_add(counts.parts, Relaxed);
        bus.refused_parts.fetch_add(counts.refused, Relaxed);
        bus.edges_lost.fetch_add(counts.edges_lost, Relaxed);
        bus.leaders_lost.fetch_add(counts.leaders_lost, Relaxed);
        let leads = self.room.role();
        if leads.is_some() && leads != self.leads {
            let how = if leads == Some(true) {
                "this server leads the room"
            } else {
                "this server follows another in the room"
            };
            tracing::info!(room = self.id, "{how}");
            self.leads = leads;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use tobari_call::live::attack::proven;
    use tobari_call::live::cascade::BusMessage;
    use tobari_call::live::{LiveMode, RoomLink, Settings};

    /// Two servers' parts of one room, and the messages from each to the other.
    struct Pair([(JoinedTask, mpsc::Receiver<Letter>); 2]);

    impl Pair {
        fn new() -> Self {
            Self([1, 2].map(|station| {
                let (outbox, letters) = mpsc::channel(1024);
                let limits = RoomLimits::default();
                (JoinedTask::new(RoomId([station; 8]), outbox, &limits, Arc::default()), letters)
            }))
        }

        /// A member joins at one of them, and is admitted within a second.
        fn enter(&mut self, place: usize, join: &Proven) -> Seat {
            let (reply, mut answer) = oneshot::channel();
            self.0[place].0.work(vec![Happening::Join { join: join.clone(), reply }], false);
            for _ in 0..50 {
                self.pass(Duration::from_millis(20));
            }
            answer.try_recv().unwrap().unwrap()
        }

        /// Advances their clocks, and delivers their messages to each other.
        fn pass(&mut self, time: Duration) {
            for place in 0..2 {
                let said = std::iter::from_fn(|| self.0[1 - place].1.try_recv().ok());
                let heard = said.map(|letter| Happening::Heard(BusMessage::decode(&letter.bytes).unwrap())).collect();
                let task = &mut self.0[place].0;
                task.origin -= time;
                task.work(heard, false);
            }
        }

        fn of<T>(&self, what: impl Fn(&JoinedTask) -> T) -> [T; 2] {
            [0, 1].map(|place| what(&self.0[place].0))
        }
    }

    #[test]
    fn masked_words_are_light_at_a_leader_and_at_an_edge_and_points_at_neither() {
        for mode in LiveMode::ALL {
            let settings = Settings { mode, speakers: 4, ..Settings::default() };
            let mut rng = ChaCha20Rng::from_seed([1; 32]);
            let join = proven(&RoomLink::new("http://h", "r".parse().unwrap(), settings, &mut rng), true);
            let mut pair = Pair::new();
            assert_eq!(pair.of(Task::is_light), [true, true], "{mode}: nothing to add yet");
            let _seats = [pair.enter(0, &join), pair.enter(1, &join)];
            assert_eq!(pair.of(|task| task.room.role()), [Some(true), Some(false)], "{mode}");
            assert_eq!(pair.of(Task::is_light), [mode == LiveMode::Mask; 2], "{mode}");
        }
    }
}
