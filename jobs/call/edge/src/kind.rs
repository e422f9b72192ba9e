//! Kinds of rooms. Their messages differ; joining, sending and leaving are the same.
//!
//! Rooms of [`crate::room_task`] mix recordings and calls by points alone; those of [`crate::live`]
//! are live. Both share the entry ([`crate::rooms`]) and the members' connections
//! ([`crate::session`]). A [`Kind`] defines the join, the messages, and the [`Task`] that owns a
//! room.

use std::{
    collections::HashMap,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use axum::{body::Bytes, extract::ws::Message};
use tobari_call::messages::{Code, MessageError, RoomName};
use tobari_call::server::{Fault, Refusal};
use tobari_curve::wire::RoomId;
use tobari_node::{cpu::Cpu, stop::Stop};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    task,
    time::sleep_until,
};

use crate::limits::RoomLimits;

/// A kind of room.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    /// The name of the kind in the log.
    const NAME: &str;
    /// How many events may wait for a room, and how many are handled in one batch.
    const QUEUE: usize;
    const BATCH: usize;
    /// The longest message from a member.
    const MAX_MESSAGE_BYTES: usize;
    /// The first message of a member, checked.
    type Join: Clone + Send + Sync + 'static;
    /// The server's challenge before the join.
    type Asked: Send + Sync + 'static;
    /// The members' messages, the server's messages, and the welcome.
    type FromMember: Send + 'static;
    type ToMember: Send + Sync + 'static;
    type Welcome: Copy + Send + Sync + 'static;
    /// The decoder of a member's binary messages.
    type Intake: Intake;
    /// The owner of a room.
    type Task: Task<Self>;
    /// Messages of other servers that hold the same room.
    #[cfg(feature = "cascade")]
    type FromBus: Send + 'static;

    /// Opens a room as its first member asks for it.
    fn open(&self, opening: &Opening<'_, Self>, join: &Self::Join, limits: &RoomLimits) -> Result<Self::Task, Refusal>;
    /// Counts an admission or a refusal.
    fn entered(&self, _let_in: bool) {}

    fn parse(text: &str) -> Result<Self::FromMember, MessageError>;
    /// The challenge to a client that wants to join this room and named this host, with its message
    /// if there is one; none if there is no randomness.
    fn ask(&self, room: &RoomName, host: Option<&str>) -> Option<(Self::Asked, Option<Self::ToMember>)>;
    /// The join, if the message is a join that answers the challenge.
    fn join(said: Self::FromMember, asked: &Self::Asked) -> Result<Self::Join, NotAJoin>;
    /// The number of the admitted member.
    fn member(welcome: &Self::Welcome) -> u16;
    fn welcome(welcome: Self::Welcome) -> Self::ToMember;
    fn refused(code: Code, reason: String) -> Self::ToMember;
    fn removed(code: Code, reason: String) -> Self::ToMember;
    fn text(told: &Self::ToMember) -> String;
    /// The reason of a removal or refusal, if `told` is one.
    fn code(told: &Self::ToMember) -> Option<Code>;
}

/// Why a member's first message is not a valid join.
pub(crate) enum NotAJoin {
    /// The message is not a join.
    Other,
    /// The message does not answer the challenge.
    Refused(Refusal),
}

/// The parameters of a new room.
pub(crate) struct Opening<'a, K: Kind> {
    /// A number that no other room has.
    pub(crate) id: RoomId,
    /// The name of the room.
    #[cfg_attr(
        not(feature = "cascade"),
        expect(dead_code, reason = "only rooms of several servers are found by name elsewhere")
    )]
    pub(crate) name: &'a RoomName,
    /// A sender of events to the room, while clients can find the room.
    #[cfg_attr(not(feature = "cascade"), expect(dead_code, reason = "as above"))]
    pub(crate) inbox: mpsc::WeakSender<Happening<K>>,
}

/// The part of a [`Kind`] that names message types, which have the same names in both protocols:
/// `Join`, `ClientMessage`, `ServerMessage`, `Welcome`.
macro_rules! words {
    () => {
        type FromMember = ClientMessage;
        type ToMember = ServerMessage;
        type Welcome = Welcome;

        fn parse(text: &str) -> Result<ClientMessage, MessageError> {
            ClientMessage::parse(text)
        }

        fn member(welcome: &Welcome) -> u16 {
            welcome.member
        }

        fn welcome(welcome: Welcome) -> ServerMessage {
            ServerMessage::Welcome(welcome)
        }

        fn refused(code: Code, reason: String) -> ServerMessage {
            ServerMessage::Refused { code, reason }
        }

        fn removed(code: Code, reason: String) -> ServerMessage {
            ServerMessage::Removed { code, reason }
        }

        fn text(told: &ServerMessage) -> String {
            told.to_text()
        }

        fn code(told: &ServerMessage) -> Option<Code> {
            match told {
                ServerMessage::Refused { code, .. } | ServerMessage::Removed { code, .. } => Some(*code),
                _ => None,
            }
        }
    };
}

pub(crate) use words;

/// Decodes a member's binary messages for a room.
pub(crate) trait Intake: Send + 'static {
    /// A decoded message.
    type Binary: Send + 'static;

    /// Checks and decodes. Expensive work waits for a core.
    fn take(&mut self, bytes: Bytes, cpu: &Cpu) -> impl Future<Output = Result<Self::Binary, Fault>> + Send;
}

/// A decoded binary message from a member of such a room.
pub(crate) type Binary<K> = <<K as Kind>::Intake as Intake>::Binary;

/// An event from a session to its room.
pub(crate) enum Happening<K: Kind> {
    /// A client asks to join.
    Join { join: K::Join, reply: oneshot::Sender<Result<Seat<K>, Refusal>> },
    /// A decoded packet, or another binary message.
    Binary { member: u16, binary: Binary<K> },
    /// A control message.
    Message { member: u16, message: K::FromMember },
    /// The member broke a rule that the session enforces.
    Fault { member: u16, fault: Fault },
    /// The connection is gone.
    Left { member: u16 },
    /// A message from another server.
    #[cfg(feature = "cascade")]
    Heard(K::FromBus),
}

/// A member's place in a room, from the session's side.
pub(crate) struct Seat<K: Kind> {
    pub(crate) welcome: K::Welcome,
    pub(crate) intake: K::Intake,
    pub(crate) queue: mpsc::Receiver<Message>,
    /// The last message, after the queue is empty; none if the member should rejoin. An error if
    /// the room's task panicked.
    pub(crate) farewell: oneshot::Receiver<Option<K::ToMember>>,
}

/// A member's place in a room, from the room's side.
struct Link<K: Kind> {
    queue: mpsc::Sender<Message>,
    farewell: oneshot::Sender<Option<K::ToMember>>,
}

/// The members of a room by number, and their queues.
pub(crate) struct Links<K: Kind>(HashMap<u16, Link<K>>);

impl<K: Kind> Links<K> {
    pub(crate) fn new() -> Self {
        Self(HashMap::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a member's place, with a queue for `queue` messages.
    pub(crate) fn seat(&mut self, welcome: K::Welcome, intake: K::Intake, queue: usize) -> Seat<K> {
        let (link, queue) = mpsc::channel(queue);
        let (goodbye, farewell) = oneshot::channel();
        self.0.insert(K::member(&welcome), Link { queue: link, farewell: goodbye });
        Seat { welcome, intake, queue, farewell }
    }

    /// Whether there was such a member.
    pub(crate) fn forget(&mut self, member: u16) -> bool {
        self.0.remove(&member).is_some()
    }

    /// Puts a message into a member's queue unless fewer than `spare` places would be left; false
    /// if there was no place.
    pub(crate) fn send(&self, member: u16, message: Message, spare: usize) -> bool {
        let Some(link) = self.0.get(&member) else { return true };
        // the session reports a member that has left
        link.queue.is_closed()
            || link.queue.capacity() > spare && !matches!(link.queue.try_send(message), Err(TrySendError::Full(_)))
    }

    /// Ends a member's connection after the messages in its queue; false if there was none.
    pub(crate) fn dismiss(&mut self, member: u16, last: K::ToMember) -> bool {
        // If the session has ended, nothing receives this.
        self.0.remove(&member).map(|link| link.farewell.send(Some(last))).is_some()
    }

    /// Ends all connections without a last message.
    #[cfg(feature = "cascade")]
    pub(crate) fn hang_up(&mut self) {
        for (_, link) in self.0.drain() {
            // If the session has ended, nothing receives this.
            let _ = link.farewell.send(None);
        }
    }
}

/// The owner of a room. It works on the blocking pool, unless the hand-over costs more than the
/// work. In between it waits for events.
pub(crate) trait Task<K: Kind>: Sized + Send + 'static {
    /// The room's number, for the log.
    fn id(&self) -> String;
    /// When the task must run without an event.
    fn deadline(&self) -> Option<Instant>;
    /// Is the work done sooner than another thread would have started?
    fn is_light(&self) -> bool {
        false
    }
    /// Does the expensive work. `close` says once that the server is closing, or that no client can
    /// join any more.
    fn work(&mut self, batch: Vec<Happening<K>>, close: bool);
    /// Is the room empty?
    fn is_left(&self) -> bool;
    /// The tick that is open.
    fn ticks(&self) -> u32;
}

/// Runs a room until it is empty.
pub(crate) async fn run<K: Kind>(mut room: K::Task, mut inbox: mpsc::Receiver<Happening<K>>, mut stopped: Stop) {
    let (id, mut happenings, mut closing) = (room.id(), Vec::new(), false);
    loop {
        let deadline = room.deadline();
        let mut close = false;
        tokio::select! {
            count = inbox.recv_many(&mut happenings, K::BATCH) => close = count == 0,
            () = until(deadline) => {}
            () = stopped.wait(), if !closing => close = true,
        }
        closing |= close;
        let batch = std::mem::take(&mut happenings);
        let is_light = room.is_light();
        let work = move || {
            room.work(batch, close);
            room
        };
        // a room that panicked is dropped in either case
        let worked = match is_light {
            true => catch_unwind(AssertUnwindSafe(work)).ok(),
            false => task::spawn_blocking(work).await.ok(),
        };
        match worked {
            Some(task) if !task.is_left() => room = task,
            Some(task) => return tracing::info!(room = id, ticks = task.ticks(), "{} closed", K::NAME),
            None => return tracing::error!(room = id, "{} closed by an internal error", K::NAME),
        }
    }
}

/// Waits until the deadline, or for ever without one.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}
