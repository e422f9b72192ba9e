//! Rooms of one kind by name, and joining them.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tobari_call::messages::{Code, RoomName};
use tobari_call::server::Refusal;
use tobari_curve::wire::RoomId;
use tobari_node::{clients::Guest, cpu::Cpu, stop::Stop};
use tokio::sync::{mpsc, oneshot};

use crate::{
    kind::{self, Happening, Kind, Opening, Seat},
    limits::RoomLimits,
    openers::Openers,
};

/// Attempts to join if the room ends during each attempt.
const ENTRY_ATTEMPTS: usize = 8;

/// All rooms of a kind, and what every session needs.
#[derive(Clone)]
pub(crate) struct Rooms<K: Kind> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Kind> {
    kind: K,
    by_name: Mutex<HashMap<RoomName, Handle<K>>>,
    limits: RoomLimits,
    openers: Openers,
    cpu: Cpu,
    stopped: Stop,
}

/// A handle of an open or ended room.
#[derive(Clone)]
struct Handle<K: Kind> {
    id: RoomId,
    happenings: mpsc::Sender<Happening<K>>,
}

/// A seat, and the sender of events to its room.
pub(crate) type Entered<K> = (Seat<K>, mpsc::Sender<Happening<K>>);

impl<K: Kind> Rooms<K> {
    pub(crate) fn new(kind: K, limits: RoomLimits, openers: Openers, stopped: Stop) -> Self {
        let (by_name, cpu) = (Mutex::default(), Cpu::default());
        Self { shared: Arc::new(Shared { kind, by_name, limits, openers, cpu, stopped }) }
    }

    pub(crate) fn limits(&self) -> &RoomLimits {
        &self.shared.limits
    }

    /// The challenge to a client that wants to join.
    pub(crate) fn ask(&self, room: &RoomName, host: Option<&str>) -> Option<(K::Asked, Option<K::ToMember>)> {
        self.shared.kind.ask(room, host)
    }

    pub(crate) fn cpu(&self) -> &Cpu {
        &self.shared.cpu
    }

    /// Is the server closing?
    pub(crate) fn stopped(&self) -> Stop {
        self.shared.stopped.clone()
    }

    /// Seats a member in the room of that name, which its first member opens.
    pub(crate) async fn enter(&self, name: &RoomName, join: &K::Join, guest: &Guest) -> Result<Entered<K>, EnterError> {
        let entered = self.try_enter(name, join, guest).await;
        self.shared.kind.entered(entered.is_ok());
        entered
    }

    async fn try_enter(&self, name: &RoomName, join: &K::Join, guest: &Guest) -> Result<Entered<K>, EnterError> {
        for _ in 0..ENTRY_ATTEMPTS {
            let handle = self.find_or_open(name, join, guest)?;
            let (reply, answer) = oneshot::channel();
            let happening = Happening::Join { join: join.clone(), reply };
            if handle.happenings.send(happening).await.is_ok() {
                match answer.await {
                    Ok(Ok(seat)) => return Ok((seat, handle.happenings)),
                    Ok(Err(Refusal::Over)) | Err(_) => {}
                    Ok(Err(refusal)) => return Err(refusal.into()),
                }
            }
            // The room ended in the meantime; its name is free.
            self.forget(name, handle.id);
        }
        Err(EnterError::Internal)
    }

    fn find_or_open(&self, name: &RoomName, join: &K::Join, guest: &Guest) -> Result<Handle<K>, EnterError> {
        let limit = self.shared.limits.call.rooms;
        let mut rooms = self.lock();
        let count = rooms.len();
        match rooms.entry(name.clone()) {
            Entry::Occupied(found) => Ok(found.get().clone()),
            Entry::Vacant(_) if self.shared.stopped.is_given() => Err(EnterError::Shutdown),
            Entry::Vacant(_) if count >= limit => Err(EnterError::Rooms { limit }),
            Entry::Vacant(place) => Ok(place.insert(self.open(name, join, guest)?).clone()),
        }
    }

    fn open(&self, name: &RoomName, join: &K::Join, guest: &Guest) -> Result<Handle<K>, EnterError> {
        let openers = &self.shared.openers;
        let opened = openers.open(guest).ok_or(EnterError::ClientRooms { limit: openers.most() })?;
        let mut id = RoomId([0; 8]);
        getrandom::fill(&mut id.0).map_err(|_| EnterError::Internal)?;
        let (happenings, inbox) = mpsc::channel(K::QUEUE);
        let opening = Opening { id, name, inbox: happenings.downgrade() };
        let task = self.shared.kind.open(&opening, join, &self.shared.limits)?;
        let (rooms, name) = (self.clone(), name.clone());
        tokio::spawn(async move {
            kind::run(task, inbox, rooms.stopped()).await;
            rooms.forget(&name, id);
            drop(opened);
        });
        Ok(Handle { id, happenings })
    }

    /// Frees a name, unless another room has it by now.
    fn forget(&self, name: &RoomName, id: RoomId) {
        let mut rooms = self.lock();
        if rooms.get(name).is_some_and(|handle| handle.id == id) {
            rooms.remove(name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RoomName, Handle<K>>> {
        // Nothing that can panic happens under the lock: a map of handles is never half changed.
        self.shared.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a client cannot join.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnterError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the server has {limit} rooms, and opens no more")]
    Rooms { limit: usize },
    #[error("one client has {limit} rooms open, and may open no more")]
    ClientRooms { limit: usize },
    #[error("the server is closing")]
    Shutdown,
    #[error("internal error")]
    Internal,
}

impl EnterError {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Rooms { .. } | Self::ClientRooms { .. } => Code::Full,
            Self::Shutdown => Code::Shutdown,
            Self::Internal => Code::Internal,
        }
    }
}
