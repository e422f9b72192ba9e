//! The task that owns one room: receives events, does the arithmetic off the asynchronous threads,
//! and sends to members.

use std::time::Instant;

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};
use tobari_call::PACKET_SAMPLES;
use tobari_call::messages::{
    ClientMessage, Code, Join, MAX_CONTROL_BYTES, MessageError, Pace, RoomName, ServerMessage, Welcome,
};
use tobari_call::server::{AnyPayload, Event, Fault, Limits, Refusal, Room, Tick, Uplink};
use tobari_curve::{PointEncoding, params::SecurityFloor, wire::RoomId};
use tobari_node::cpu::Cpu;
use tokio::sync::oneshot;

use crate::{
    kind::{Intake, Kind, Links, NotAJoin, Opening, Task, words},
    limits::RoomLimits,
};

/// The longest message from a member: a packet on the largest curve in mode `elgamal`, two
/// uncompressed points of 96 bytes for each sample.
pub(crate) const MAX_MESSAGE_BYTES: usize = PACKET_SAMPLES * 2 * 96 + MAX_CONTROL_BYTES;
/// Length of a member's queue beyond the sums that it may leave unacknowledged.
const QUEUE_MARGIN: usize = 8;

/// Rooms for points without tags, on curves of at least this strength.
#[derive(Clone, Copy)]
pub(crate) struct Points {
    pub(crate) floor: SecurityFloor,
}

type Happening = crate::kind::Happening<Points>;
type Seat = crate::kind::Seat<Points>;

impl Kind for Points {
    const NAME: &str = "room";
    /// Packets wait decoded, so this bounds memory.
    const QUEUE: usize = 16;
    const BATCH: usize = 16;
    const MAX_MESSAGE_BYTES: usize = MAX_MESSAGE_BYTES;
    type Join = Join;
    type Asked = ();
    type Intake = Packets;
    type Task = RoomTask;
    #[cfg(feature = "cascade")]
    type FromBus = std::convert::Infallible;

    fn open(&self, opening: &Opening<'_, Self>, join: &Join, limits: &RoomLimits) -> Result<RoomTask, Refusal> {
        RoomTask::open(opening.id, join, self.floor, limits.call.room)
    }

    fn ask(&self, _room: &RoomName, _host: Option<&str>) -> Option<((), Option<ServerMessage>)> {
        Some(((), None))
    }

    fn join(said: ClientMessage, (): &()) -> Result<Join, NotAJoin> {
        if let ClientMessage::Join(join) = said { Ok(join) } else { Err(NotAJoin::Other) }
    }

    words!();
}

/// The decoder of packets.
pub(crate) struct Packets(Uplink);

impl Intake for Packets {
    type Binary = (u32, AnyPayload);

    async fn take(&mut self, packet: Bytes, cpu: &Cpu) -> Result<(u32, AnyPayload), Fault> {
        // An obviously wrong packet does not wait for a core.
        self.0.check(&packet)?;
        let uplink = self.0;
        cpu.run(move || uplink.decode(&packet)).await.ok_or(Fault::Internal)?
    }
}

/// A room with its members' links.
pub(crate) struct RoomTask {
    room: Room,
    id: String,
    pace: Pace,
    limits: Limits,
    origin: Instant,
    links: Links<Points>,
}

impl Task<Points> for RoomTask {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn deadline(&self) -> Option<Instant> {
        self.room.deadline().map(|deadline| self.origin + deadline)
    }

    /// Additions, encodings.
    fn work(&mut self, batch: Vec<Happening>, close: bool) {
        // Close due ticks first: a packet that was still waiting when its tick ended is late.
        self.follow();
        for happening in batch {
            self.hear(happening);
            self.follow();
        }
        if close {
            self.room.remove_all(&Fault::Shutdown);
            self.follow();
        }
    }

    fn is_left(&self) -> bool {
        self.links.is_empty()
    }

    fn ticks(&self) -> u32 {
        self.room.open_tick()
    }
}

impl RoomTask {
    fn open(id: RoomId, join: &Join, floor: SecurityFloor, limits: Limits) -> Result<Self, Refusal> {
        let origin = Instant::now();
        let room = Room::open(id, join, floor, limits, origin.elapsed())?;
        let limits = room.limits();
        // The log shows the room's wire number, because the name is private to the members.
        let id = id.to_string();
        tracing::info!(room = id, pace = ?join.pace, curve = %join.curve, mode = %join.mode, "room opened");
        Ok(Self { room, id, pace: join.pace, limits, origin, links: Links::new() })
    }

    fn hear(&mut self, happening: Happening) {
        match happening {
            Happening::Join { join, reply } => self.join(&join, reply),
            Happening::Binary { member, binary: (tick, ciphertexts) } => self.room.packet(member, tick, ciphertexts),
            Happening::Message { member, message } => self.room.message(member, &message),
            Happening::Fault { member, fault } => self.room.remove(member, fault),
            Happening::Left { member } => {
                if self.links.forget(member) {
                    self.room.leave(member);
                    tracing::info!(room = self.id, members = self.room.members(), "a member left");
                }
            }
            #[cfg(feature = "cascade")]
            Happening::Heard(never) => match never {},
        }
    }

    fn join(&mut self, join: &Join, reply: oneshot::Sender<Result<Seat, Refusal>>) {
        let answer = self.room.join(join, self.origin.elapsed()).map(|welcome| {
            let intake = Packets(self.room.uplink(&welcome));
            self.links.seat(welcome, intake, self.limits.window as usize + QUEUE_MARGIN)
        });
        tracing::info!(room = self.id, members = self.room.members(), refused = answer.is_err(), "join");
        if let Err(Ok(seat)) = reply.send(answer) {
            // The connection went away while it waited.
            self.links.forget(seat.welcome.member);
            self.room.leave(seat.welcome.member);
        }
    }

    /// Sends members everything that is due.
    fn follow(&mut self) {
        while let Some(event) = self.room.poll(self.origin.elapsed()) {
            match event {
                Event::Closed(tick) => self.tell(&tick),
                Event::Removed { member, fault } => {
                    tracing::info!(room = self.id, member, code = %fault.code(), reason = %fault, "member removed");
                    self.links
                        .dismiss(member, ServerMessage::Removed { code: fault.code(), reason: fault.to_string() });
                }
                Event::Ended { ticks, members } => {
                    for member in members {
                        self.links.dismiss(member, ServerMessage::Ended { ticks });
                    }
                }
            }
        }
    }

    /// Sends a sum to listeners, encoded once for each encoding. The others learn that the tick is
    /// over.
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

    /// Puts a message into a member's queue. A member whose queue is full misses the message in a
    /// live room. In a lockstep room, which drops nothing, it is removed.
    fn send(&mut self, member: u16, message: &Message) {
        if !self.links.send(member, message.clone(), 0) && self.pace != Pace::Live {
            self.room.remove(member, Fault::Slow);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tobari_call::TICK_MS;
    use tobari_curve::{
        BuiltCurve, Curve,
        elgamal::{Ciphertexts, SharedCiphertexts},
        params::Parameters,
        wire::packet_len,
    };
    use tokio::sync::mpsc;

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
        task.work(vec![Happening::Binary { member, binary: (tick, ciphertexts) }], false);
    }

    /// Advances the room's clock.
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
        let last = slow.farewell.try_recv().unwrap().unwrap();
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
        assert_eq!(seat.farewell.try_recv(), Ok(Some(ServerMessage::Ended { ticks: 1 })));
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

    #[test]
    fn the_longest_packet_of_every_curve_and_mode_fits_into_a_message() {
        for curve in BuiltCurve::ALL {
            let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap();
            let longest = packet_len::<Ciphertexts>(parameters, PointEncoding::Uncompressed, PACKET_SAMPLES);
            let shared = packet_len::<SharedCiphertexts>(parameters, PointEncoding::Uncompressed, PACKET_SAMPLES);
            assert!(shared < longest && longest <= MAX_MESSAGE_BYTES, "{curve}: {longest}");
        }
    }
}
