//! One thread a fleet that stores frames: whoever waits shares a transaction.
//!
//! A batch whose frames were checked waits in a queue. The thread takes all that wait, says of each frame whether it came before, in one order, appends what is new and what its devices' windows are then in **one transaction that is on the disk before anybody hears of it**, and answers everybody. While it writes,
//! the next ones gather: the more there is to do, the more frames share a flush.
//!
//! Where storage fails nothing was taken: what is known of devices is read from storage again, and senders are told to come again.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};
use tobari_apps::sense::ProfileName;
use tobari_apps::sense::ingest::{Checked, IngestCounts, Seen, Verdict};
use tobari_device::{DeviceNumber, ReplayWindow};
use tobari_host::sense::{DeviceState, FrameStore, StoreError};
use tokio::sync::{mpsc, oneshot};

/// Batches that wait at most.
const QUEUE: usize = 256;
/// Bytes of a transaction, after which no further batch is taken into it.
const GROUP_BYTES: usize = 16 << 20;
/// How much of the newest frames is read at a start, to know them again.
const RECALLED_BYTES: u64 = 128 << 20;

/// A batch of frames that were checked.
pub(super) struct Batch {
    /// Frames, one after another.
    pub(super) frames: Vec<u8>,
    /// What is known of each.
    pub(super) checked: Vec<Checked>,
    /// Who waits.
    pub(super) answer: oneshot::Sender<Option<Stored>>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// How many of its frames were taken, and why others were not.
    pub(super) counts: IngestCounts,
    /// When those that were taken are said to have come, in milliseconds since 1970; none if none was.
    pub(super) time_ms: Option<u64>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Frames.
    pub(super) frames: IngestCounts,
    /// In storage.
    pub(super) stored: u64,
    /// Transactions.
    pub(super) groups: u64,
}

/// Counts that all threads of a fleet add to.
#[derive(Default)]
pub(super) struct Counts(Mutex<Counted>);

impl Counts {
    pub(super) fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread; it ends when nobody can send to it any more.
pub(super) fn start(
    profile: ProfileName,
    store: Arc<FrameStore>,
    counts: Arc<Counts>,
) -> Result<mpsc::Sender<Batch>, StoreError> {
    let (sender, queue) = mpsc::channel(QUEUE);
    let seen = seen(profile, &store)?;
    let writer = Writer { profile, store, counts, seen };
    let thread = thread::Builder::new().name("frames".to_owned());
    thread.spawn(move || writer.run(queue)).map_err(redb_io)?;
    Ok(sender)
}

fn redb_io(error: std::io::Error) -> StoreError {
    StoreError::from(error)
}

/// What storage knows of devices.
fn seen(profile: ProfileName, store: &FrameStore) -> Result<Seen, StoreError> {
    let mut seen = Seen::default();
    for (number, state) in store.devices()? {
        if let (Some(number), Some(window)) = (DeviceNumber::new(number), ReplayWindow::from_bytes(state)) {
            seen.restore(number, window);
        }
    }
    store.newest(RECALLED_BYTES, |bytes| {
        let frames = bytes.chunks_exact(profile.frame_bytes());
        frames.filter_map(|frame| Checked::of_stored(profile, frame)).for_each(|checked| seen.recall(&checked));
    })?;
    Ok(seen)
}

struct Writer {
    profile: ProfileName,
    store: Arc<FrameStore>,
    counts: Arc<Counts>,
    seen: Seen,
}

impl Writer {
    fn run(mut self, mut queue: mpsc::Receiver<Batch>) {
        while let Some(first) = queue.blocking_recv() {
            let (mut bytes, mut group) = (first.frames.len(), vec![first]);
            while bytes < GROUP_BYTES {
                let Ok(next) = queue.try_recv() else { break };
                bytes += next.frames.len();
                group.push(next);
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, group: Vec<Batch>) {
        let (mut fresh, mut devices, mut answers) = (Vec::new(), BTreeSet::new(), Vec::with_capacity(group.len()));
        for Batch { frames, checked, answer } in group {
            let mut counts = IngestCounts::default();
            for (frame, checked) in frames.chunks_exact(self.profile.frame_bytes()).zip(&checked) {
                let verdict = self.seen.admit(checked);
                counts.count(verdict);
                if verdict == Verdict::Taken {
                    fresh.extend_from_slice(frame);
                    devices.insert(checked.head.device);
                }
            }
            answers.push((answer, counts));
        }
        let state = |number: &DeviceNumber| Some((number.value(), self.seen.window(*number)?.to_bytes()));
        let states: Vec<DeviceState> = devices.iter().filter_map(state).collect();
        let stored = match fresh.is_empty() {
            true => Ok(None),
            false => self.store.append(super::now_ms(), self.profile.frame_bytes(), &fresh, &states).map(Some),
        };
        let time_ms = match stored {
            Ok(appended) => appended.map(|appended| appended.time_ms),
            Err(error) => {
                tracing::error!(%error, "frames cannot be stored");
                match seen(self.profile, &self.store) {
                    Ok(seen) => self.seen = seen,
                    Err(error) => tracing::error!(%error, "what came before cannot be read"),
                }
                for (answer, _) in answers {
                    let _ = answer.send(None);
                }
                return;
            }
        };
        {
            let mut counted = self.counts.lock();
            counted.groups += 1;
            counted.stored += (fresh.len() / self.profile.frame_bytes()) as u64;
            answers.iter().for_each(|(_, counts)| counted.frames.add(counts));
        }
        // whoever went away knows of nothing, and may send again
        for (answer, counts) in answers {
            let _ = answer.send(Some(Stored { counts, time_ms: time_ms.filter(|_| counts.taken > 0) }));
        }
    }
}
