//! The task that owns one room: hears what happens, does the arithmetic off the asynchronous threads, and tells members.

use std::{collections::HashMap, future::pending, time::Instant};

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};
use tobari_apps::call::{
    messages::{ClientMessage, Join, Pace, ServerMessage, Welcome},
    server::{AnyPayload, Event, Fault, Limits, Refusal, Room, Tick, Uplink},
};
use tobari_core::{curve::PointEncoding, params::SecurityFloor, wire::RoomId};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    task,
    time::sleep_until,
};

use crate::stop::Stop;

/// What a member's queue holds beyond the sums that it may leave unacknowledged.
const QUEUE_MARGIN: usize = 8;
/// How many happenings are handled in one go.
const BATCH: usize = 16;

/// Until then; for ever if there is no such time.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

/// What a session tells its room.
pub(crate) enum Happening {
    /// Somebody wants in.
    Join { join: Join, reply: oneshot::Sender<Result<Seat, Refusal>> },
    /// A packet, decoded.
    Packet { member: u16, tick: u32, ciphertexts: AnyPayload },
    /// A control message.
    Message { member: u16, message: ClientMessage },
    /// Something that the session does not put up with.
    Fault { member: u16, fault: Fault },
    /// The connection is gone.
    Left { member: u16 },
}

/// A member's place in a room, from the session's side.
pub(crate) struct Seat {
    pub(crate) welcome: Welcome,
    pub(crate) uplink: Uplink,
    pub(crate) queue: mpsc::Receiver<Message>,
    /// The last message, after the queue has run dry. None if the room's task died.
    pub(crate) farewell: oneshot::Receiver<ServerMessage>,
}

/// A member's place in a room, from the room's side.
struct Link {
    queue: mpsc::Sender<Message>,
    farewell: oneshot::Sender<ServerMessage>,
}

/// A room with its members' links.
pub(crate) struct RoomTask {
    room: Room,
    id: String,
    pace: Pace,
    limits: Limits,
    origin: Instant,
    links: HashMap<u16, Link>,
}

impl RoomTask {
    pub(crate) fn open(id: RoomId, join: &Join, floor: SecurityFloor, limits: Limits) -> Result<Self, Refusal> {
        let origin = Instant::now();
        let room = Room::open(id, join, floor, limits, origin.elapsed())?;
        let limits = room.limits();
        // The number on the wire stands for the room in the log: its name is the members' own.
        let id = id.to_string();
        tracing::info!(room = id, pace = ?join.pace, curve = %join.curve, mode = %join.mode, "room opened");
        Ok(Self { room, id, pace: join.pace, limits, origin, links: HashMap::new() })
    }

    /// Runs until the room is over, or left by everybody.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Happening>, mut stopped: Stop) {
        let (id, mut happenings) = (self.id.clone(), Vec::new());
        loop {
            let deadline = self.room.deadline().map(|deadline| self.origin + deadline);
            let mut stop = false;
            tokio::select! {
                count = inbox.recv_many(&mut happenings, BATCH) => stop = count == 0,
                () = until(deadline) => {}
                () = stopped.wait() => stop = true,
            }
            let batch = std::mem::take(&mut happenings);
            let worked = task::spawn_blocking(move || {
                self.work(batch, stop);
                self
            });
            match worked.await {
                Ok(task) if !task.links.is_empty() => self = task,
                Ok(task) => return tracing::info!(room = id, ticks = task.room.open_tick(), "room closed"),
                Err(_) => return tracing::error!(room = id, "room closed by an internal error"),
            }
        }
    }

    /// Everything that costs time: additions, encodings.
    fn work(&mut self, batch: Vec<Happening>, stop: bool) {
        // First what is due: a packet that was still waiting when its tick ended is late.
        self.follow();
        for happening in batch {
            self.hear(happening);
            self.follow();
        }
        if stop {
            self.room.remove_all(&Fault::Shutdown);
            self.follow();
        }
    }

    fn hear(&mut self, happening: Happening) {
        match happening {
            Happening::Join { join, reply } => self.join(&join, reply),
            Happening::Packet { member, tick, ciphertexts } => self.room.packet(member, tick, ciphertexts),
            Happening::Message { member, message } => self.room.message(member, &message),
            Happening::Fault { member, fault } => self.room.remove(member, fault),
            Happening::Left { member } => {
                if self.links.remove(&member).is_some() {
                    self.room.leave(member);
                    tracing::info!(room = self.id, members = self.room.members(), "a member left");
                }
            }
        }
    }

    fn join(&mut self, join: &Join, reply: oneshot::Sender<Result<Seat, Refusal>>) {
        let answer = self.room.join(join, self.origin.elapsed()).map(|welcome| {
            let (link, queue) = mpsc::channel(self.limits.window as usize + QUEUE_MARGIN);
            let (goodbye, farewell) = oneshot::channel();
            self.links.insert(welcome.member, Link { queue: link, farewell: goodbye });
            Seat { welcome, uplink: self.room.uplink(&welcome), queue, farewell }
        });
        tracing::info!(room = self.id, members = self.room.members(), refused = answer.is_err(), "join");
        if let Err(Ok(seat)) = reply.send(answer) {
            // The connection went away while it waited.
            self.links.remove(&seat.welcome.member);
            self.room.leave(seat.welcome.member);
        }
    }

    /// Tells members all that follows by now.
    fn follow(&mut self) {
        while let Some(event) = self.room.poll(self.origin.elapsed()) {
            match event {
                Event::Closed(tick) => self.tell(&tick),
                Event::Removed { member, fault } => {
                    tracing::info!(room = self.id, member, code = %fault.code(), reason = %fault, "member removed");
                    self.dismiss(member, ServerMessage::Removed { code: fault.code(), reason: fault.to_string() });
                }
                Event::Ended { ticks, members } => {
                    for member in members {
                        self.dismiss(member, ServerMessage::Ended { ticks });
                    }
                }
            }
        }
    }

    /// Sends a sum to those who listen, encoded once for each encoding; the others hear that the tick is over.
    fn tell(&mut self, tick: &Tick) {
        for encoding in [PointEncoding::Compressed, PointEncoding::Uncompressed] {
            let members = || tick.listeners.iter().filter(|listener| listener.1 == encoding).map(|listener| listener.0);
            if members().next().is_some() {
                let sum = Message::Binary(Bytes::from(tick.encode(encoding)));
                members().for_each(|member| self.send(member, &sum));
            }
        }
        if !tick.others.is_empty() {
            let closed = Message::Text(Utf8Bytes::from(ServerMessage::Closed { tick: tick.tick }.to_text()));
            tick.others.iter().for_each(|&member| self.send(member, &closed));
        }
    }

    /// Puts a message into a member's queue. One that does not take its messages misses them in a live room; in a
    /// lockstep room, which drops nothing, it is removed.
    fn send(&mut self, member: u16, message: &Message) {
        let Some(link) = self.links.get(&member) else { return };
        if let Err(TrySendError::Full(_)) = link.queue.try_send(message.clone())
            && self.pace != Pace::Live
        {
            self.room.remove(member, Fault::Slow);
        }
    }

    /// Ends a member's connection after what is in its queue.
    fn dismiss(&mut self, member: u16, last: ServerMessage) {
        if let Some(link) = self.links.remove(&member) {
            // If the session is gone there is nobody to tell.
            let _ = link.farewell.send(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tobari_apps::call::{TICK_MS, messages::Code};
    use tobari_core::curve::Curve;

    use super::*;

    fn open(pace: Pace) -> (RoomTask, Join) {
        let join = Join::new(pace, Curve::Secp256k1);
        let limits = Limits { window: 2, samples: 1, ..Limits::default() };
        (RoomTask::open(RoomId([1; 8]), &join, SecurityFloor::Standard, limits).unwrap(), join)
    }

    fn enter(task: &mut RoomTask, join: &Join) -> Seat {
        let (reply, mut answer) = oneshot::channel();
        task.work(vec![Happening::Join { join: join.clone(), reply }], false);
        answer.try_recv().unwrap().unwrap()
    }

    fn say(task: &mut RoomTask, member: u16, tick: u32) {
        let ciphertexts = AnyPayload::zero(task.room.mode(), task.room.parameters(), 1);
        task.work(vec![Happening::Packet { member, tick, ciphertexts }], false);
    }

    /// Lets time go by, as far as the room can tell.
    fn wait(task: &mut RoomTask, time: Duration) {
        task.origin -= time;
        task.work(Vec::new(), false);
    }

    const QUEUE: usize = 2 + QUEUE_MARGIN;

    #[test]
    fn a_live_listener_that_takes_nothing_misses_sums_and_nobody_waits() {
        let (mut task, join) = open(Pace::Live);
        let mut quick = enter(&mut task, &join);
        let mut slow = enter(&mut task, &Join { speak: false, ..join });
        for tick in 0..100 {
            say(&mut task, 0, tick);
            wait(&mut task, Duration::from_millis(TICK_MS));
            assert!(matches!(quick.queue.try_recv(), Ok(Message::Binary(_))), "{tick}");
        }
        assert_eq!((task.room.members(), slow.queue.len()), (2, QUEUE));
        assert!(slow.farewell.try_recv().is_err(), "it stays, and hears on once it listens again");
    }

    #[test]
    fn a_lockstep_member_that_takes_nothing_is_removed_and_the_others_go_on() {
        let (mut task, join) = open(Pace::Lockstep { members: 2 });
        let deaf = Join { listen: false, ..join };
        let mut quick = enter(&mut task, &deaf);
        let mut slow = enter(&mut task, &deaf);
        task.work(vec![Happening::Message { member: 1, message: ClientMessage::End {} }], false);
        for tick in 0..100 {
            say(&mut task, 0, tick);
            assert!(matches!(quick.queue.try_recv(), Ok(Message::Text(_))), "{tick}");
        }
        assert_eq!((task.room.members(), slow.queue.len()), (1, QUEUE));
        let last = slow.farewell.try_recv().unwrap();
        assert!(matches!(last, ServerMessage::Removed { code: Code::Slow, .. }), "{last:?}");
    }

    #[test]
    fn what_is_queued_comes_before_the_farewell() {
        let (mut task, join) = open(Pace::Lockstep { members: 1 });
        let mut seat = enter(&mut task, &join);
        say(&mut task, 0, 0);
        task.work(vec![Happening::Message { member: 0, message: ClientMessage::End {} }], false);
        assert!(task.links.is_empty());
        assert!(matches!(seat.queue.try_recv(), Ok(Message::Binary(_))));
        assert!(matches!(seat.queue.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
        assert_eq!(seat.farewell.try_recv(), Ok(ServerMessage::Ended { ticks: 1 }));
    }

    #[test]
    fn listeners_of_one_encoding_share_the_bytes() {
        let (mut task, join) = open(Pace::Lockstep { members: 1 });
        let mut seats = [enter(&mut task, &join), enter(&mut task, &Join { speak: false, ..join })];
        say(&mut task, 0, 0);
        let sums = seats.each_mut().map(|seat| match seat.queue.try_recv() {
            Ok(Message::Binary(sum)) => sum,
            other => panic!("no sum, but {other:?}"),
        });
        assert_eq!(sums[0].as_ptr(), sums[1].as_ptr());
    }

    #[test]
    fn who_goes_away_while_joining_leaves_no_member_behind() {
        let (mut task, join) = open(Pace::Lockstep { members: 2 });
        let (reply, answer) = oneshot::channel();
        drop(answer);
        task.work(vec![Happening::Join { join, reply }], false);
        assert!(task.links.is_empty() && task.room.is_over());
    }
}
