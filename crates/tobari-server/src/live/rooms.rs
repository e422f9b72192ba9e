//! The live rooms by name.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

use tobari_apps::call::{
    live::messages::Join,
    messages::{Code, RoomName},
    server::Refusal,
};
use tobari_core::wire::RoomId;
use tokio::sync::{mpsc, oneshot};

use super::{
    metrics::Metrics,
    task::{Happening, LiveTask, Seat},
};
use crate::{ServerLimits, cpu::Cpu, stop::Stop};

/// How many happenings may wait for a room: packets of a full room for one tick.
const ROOM_QUEUE: usize = 4096;
/// How often to look for a room again that ended while somebody was on the way in.
const ENTRY_ATTEMPTS: usize = 8;

/// All live rooms, and what every session needs.
#[derive(Clone)]
pub(super) struct LiveRooms {
    shared: Arc<Shared>,
}

struct Shared {
    by_name: Mutex<HashMap<RoomName, Handle>>,
    limits: ServerLimits,
    cpu: Cpu,
    stopped: Stop,
    metrics: Arc<Metrics>,
}

#[derive(Clone)]
struct Handle {
    id: RoomId,
    happenings: mpsc::Sender<Happening>,
}

impl LiveRooms {
    pub(super) fn new(limits: ServerLimits, stopped: Stop, metrics: Arc<Metrics>) -> Self {
        let (by_name, cpu) = (Mutex::default(), Cpu::new());
        Self { shared: Arc::new(Shared { by_name, limits, cpu, stopped, metrics }) }
    }

    pub(super) fn limits(&self) -> &ServerLimits {
        &self.shared.limits
    }

    pub(super) fn cpu(&self) -> &Cpu {
        &self.shared.cpu
    }

    pub(super) fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// Is the server closing?
    pub(super) fn stopped(&self) -> Stop {
        self.shared.stopped.clone()
    }

    /// Gives a member its seat in the room of that name, which its first member opens, and the way to tell the room.
    pub(super) async fn enter(
        &self,
        name: &RoomName,
        join: &Join,
    ) -> Result<(Seat, mpsc::Sender<Happening>), EnterError> {
        let entered = self.try_enter(name, join).await;
        let counter = if entered.is_ok() { &self.shared.metrics.joins } else { &self.shared.metrics.refused };
        counter.fetch_add(1, Relaxed);
        entered
    }

    async fn try_enter(&self, name: &RoomName, join: &Join) -> Result<(Seat, mpsc::Sender<Happening>), EnterError> {
        for _ in 0..ENTRY_ATTEMPTS {
            let handle = self.find_or_open(name, join)?;
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

    fn find_or_open(&self, name: &RoomName, join: &Join) -> Result<Handle, EnterError> {
        let limit = self.shared.limits.rooms;
        let mut rooms = self.lock();
        let count = rooms.len();
        match rooms.entry(name.clone()) {
            Entry::Occupied(found) => Ok(found.get().clone()),
            Entry::Vacant(_) if self.shared.stopped.is_given() => Err(EnterError::Shutdown),
            Entry::Vacant(_) if count >= limit => Err(EnterError::Rooms { limit }),
            Entry::Vacant(place) => Ok(place.insert(self.open(name, join)?).clone()),
        }
    }

    fn open(&self, name: &RoomName, join: &Join) -> Result<Handle, EnterError> {
        let mut id = RoomId([0; 8]);
        getrandom::fill(&mut id.0).map_err(|_| EnterError::Internal)?;
        let task = LiveTask::open(id, join, &self.shared.limits, Arc::clone(&self.shared.metrics))?;
        let (happenings, inbox) = mpsc::channel(ROOM_QUEUE);
        let (rooms, name) = (self.clone(), name.clone());
        tokio::spawn(async move {
            task.run(inbox, rooms.stopped()).await;
            rooms.forget(&name, id);
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

    fn lock(&self) -> MutexGuard<'_, HashMap<RoomName, Handle>> {
        // Nothing that can panic happens under the lock: a map of handles is never half changed.
        self.shared.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why somebody cannot enter.
#[derive(Debug, thiserror::Error)]
pub(super) enum EnterError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the server has {limit} rooms, and opens no more")]
    Rooms { limit: usize },
    #[error("the server is closing")]
    Shutdown,
    #[error("internal error")]
    Internal,
}

impl EnterError {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Rooms { .. } => Code::Full,
            Self::Shutdown => Code::Shutdown,
            Self::Internal => Code::Internal,
        }
    }
}
