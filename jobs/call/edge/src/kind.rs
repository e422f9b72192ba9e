//! Kinds of rooms: what is said in them differs, and how members come, are heard and go does not.
//!
//! Rooms of [`crate::room_task`] mix recordings and calls by points alone; those of [`crate::live`]
//! are live. The doors ([`crate::rooms`]) and the members' connections ([`crate::session`]) are the
//! same for both: a [`Kind`] says what a join is, what comes in, and which [`Task`] owns a room.

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

/// What differs between kinds of rooms.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    /// What it is called in the log.
    const NAME: &str;
    /// How many happenings may wait for a room, and how many are handled in one go.
    const QUEUE: usize;
    const BATCH: usize;
    /// The longest message from a member.
    const MAX_MESSAGE_BYTES: usize;
    /// The first message of a member, checked.
    type Join: Clone + Send + Sync + 'static;
    /// What the server asks a member before that.
    type Asked: Send + Sync + 'static;
    /// What members say, what the server says, and with what it lets somebody in.
    type FromMember: Send + 'static;
    type ToMember: Send + Sync + 'static;
    type Welcome: Copy + Send + Sync + 'static;
    /// The way in for a member's binary messages.
    type Intake: Intake;
    /// What owns a room.
    type Task: Task<Self>;
    /// What other servers say that hold a room together with this one.
    #[cfg(feature = "cascade")]
    type FromBus: Send + 'static;

    /// Opens a room as its first member asks for it.
    fn open(&self, opening: &Opening<'_, Self>, join: &Self::Join, limits: &RoomLimits) -> Result<Self::Task, Refusal>;
    /// Takes note of whether somebody was let in.
    fn entered(&self, _let_in: bool) {}

    fn parse(text: &str) -> Result<Self::FromMember, MessageError>;
    /// What is asked of whoever wants into this room and named this host, and how that is said, if
    /// anything is; none if there is no randomness.
    fn ask(&self, room: &RoomName, host: Option<&str>) -> Option<(Self::Asked, Option<Self::ToMember>)>;
    /// The join, if it is one and answers what was asked.
    fn join(said: Self::FromMember, asked: &Self::Asked) -> Result<Self::Join, NotAJoin>;
    /// The number of who was let in.
    fn member(welcome: &Self::Welcome) -> u16;
    fn welcome(welcome: Self::Welcome) -> Self::ToMember;
    fn refused(code: Code, reason: String) -> Self::ToMember;
    fn removed(code: Code, reason: String) -> Self::ToMember;
    fn text(told: &Self::ToMember) -> String;
    /// Why the member has to go, where `told` is a last word and says so.
    fn code(told: &Self::ToMember) -> Option<Code>;
}

/// Why what a member says first does not let it in.
pub(crate) enum NotAJoin {
    /// It is something else.
    Other,
    /// It does not answer what was asked.
    Refused(Refusal),
}

/// What a room has before it is open.
pub(crate) struct Opening<'a, K: Kind> {
    /// A number that no other room has.
    pub(crate) id: RoomId,
    /// Under which name it is found.
    #[cfg_attr(
        not(feature = "cascade"),
        expect(dead_code, reason = "only rooms of several servers are found by name elsewhere")
    )]
    pub(crate) name: &'a RoomName,
    /// The way to tell it something, while anybody can find it.
    #[cfg_attr(not(feature = "cascade"), expect(dead_code, reason = "as above"))]
    pub(crate) inbox: mpsc::WeakSender<Happening<K>>,
}

/// What a [`Kind`] says of its words, which are called the same in both protocols: `Join`,
/// `ClientMessage`, `ServerMessage`, `Welcome`.
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

/// Makes of a member's binary messages what a room can take.
pub(crate) trait Intake: Send + 'static {
    /// What that is.
    type Binary: Send + 'static;

    /// Checks and decodes; what costs more than a glance waits for a core.
    fn take(&mut self, bytes: Bytes, cpu: &Cpu) -> impl Future<Output = Result<Self::Binary, Fault>> + Send;
}

/// What comes in from a member of such a room, decoded.
pub(crate) type Binary<K> = <<K as Kind>::Intake as Intake>::Binary;

/// What a session tells its room.
pub(crate) enum Happening<K: Kind> {
    /// Somebody wants in.
    Join { join: K::Join, reply: oneshot::Sender<Result<Seat<K>, Refusal>> },
    /// A packet, or what else is not a message, decoded.
    Binary { member: u16, binary: Binary<K> },
    /// A control message.
    Message { member: u16, message: K::FromMember },
    /// Something that the session does not put up with.
    Fault { member: u16, fault: Fault },
    /// The connection is gone.
    Left { member: u16 },
    /// Another server says something.
    #[cfg(feature = "cascade")]
    Heard(K::FromBus),
}

/// A member's place in a room, from the session's side.
pub(crate) struct Seat<K: Kind> {
    pub(crate) welcome: K::Welcome,
    pub(crate) intake: K::Intake,
    pub(crate) queue: mpsc::Receiver<Message>,
    /// The last message, after the queue has run dry; none where the member is to come again. An
    /// error if the room's task died.
    pub(crate) farewell: oneshot::Receiver<Option<K::ToMember>>,
}

/// A member's place in a room, from the room's side.
struct Link<K: Kind> {
    queue: mpsc::Sender<Message>,
    farewell: oneshot::Sender<Option<K::ToMember>>,
}

/// The members of a room by number, and how they are reached.
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

    /// A member's place, with a queue for so many messages.
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
    /// if it found no place.
    pub(crate) fn send(&self, member: u16, message: Message, spare: usize) -> bool {
        let Some(link) = self.0.get(&member) else { return true };
        // whoever is gone is told of by its session
        link.queue.is_closed()
            || link.queue.capacity() > spare && !matches!(link.queue.try_send(message), Err(TrySendError::Full(_)))
    }

    /// Ends a member's connection after what is in its queue; false if there was none.
    pub(crate) fn dismiss(&mut self, member: u16, last: K::ToMember) -> bool {
        // If the session is gone there is nobody to tell.
        self.0.remove(&member).map(|link| link.farewell.send(Some(last))).is_some()
    }

    /// Ends all connections without a word.
    #[cfg(feature = "cascade")]
    pub(crate) fn hang_up(&mut self) {
        for (_, link) in self.0.drain() {
            // If the session is gone there is nobody to part from.
            let _ = link.farewell.send(None);
        }
    }
}

/// What owns a room. It works on the blocking pool, unless that costs more than the work; in
/// between it waits for what happens.
pub(crate) trait Task<K: Kind>: Sized + Send + 'static {
    /// The room's number, for the log.
    fn id(&self) -> String;
    /// When something follows without anything happening.
    fn deadline(&self) -> Option<Instant>;
    /// Is its work over sooner than another thread would have begun with it?
    fn is_light(&self) -> bool {
        false
    }
    /// Everything that costs time. With `close` the server is closing, or nobody can come any more;
    /// that is said once.
    fn work(&mut self, batch: Vec<Happening<K>>, close: bool);
    /// Is nobody left?
    fn is_left(&self) -> bool;
    /// The tick that is open.
    fn ticks(&self) -> u32;
}

/// Runs a room until nobody is left in it.
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
        // a room that panicked is not seen again in either case
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

/// Until then; for ever if there is no such time.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}
