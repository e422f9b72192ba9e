//! One thread a fleet that stores frames: whoever waits shares a transaction.
//!
//! A batch whose frames were checked waits in a queue. The thread takes all that wait, says of each frame whether it came before, in one order, appends what is new and what its devices' windows are then in **one transaction that is on the disk before anybody hears of it**, and answers everybody. While it writes,
//! the next ones gather: the more there is to do, the more frames share a flush.
//!
//! Where storage fails nothing is acknowledged. What is known of devices is forgotten then, because
//! it has frames that may not be there. It is read from storage again before the next frame is
//! judged, and until that succeeds every batch is refused.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};
use tobari_apps::sense::ProfileName;
use tobari_apps::sense::ingest::{Checked, IngestCounts, Seen, Verdict};
use tobari_device::{DeviceNumber, ReplayWindow};
use tobari_host::sense::{CLOCK_STEP_MS, DeviceState, FrameStore, StoreError};
use tobari_host::storage::Trouble;
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
    pub(super) answer: oneshot::Sender<Outcome>,
}

/// What became of a batch, or what is wrong with the storage; none where something else is wrong.
pub(super) type Outcome = Result<Stored, Option<Trouble>>;

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
    /// How often the clock went ahead, and back.
    pub(super) clock: [u64; 2],
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
    let seen = match seen(profile, &store) {
        Ok(seen) => Some(seen),
        // the first batch finds out whether the storage works by then
        Err(error) if error.trouble().is_some() => None,
        Err(error) => return Err(error),
    };
    let writer = Writer { profile, store, counts, seen, clock: Clock::default() };
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
    /// None after an error of the storage, until it is read again.
    seen: Option<Seen>,
    clock: Clock,
}

/// The wall's clock beside one that nobody sets.
#[derive(Default)]
struct Clock(Option<(Instant, u64)>);

impl Clock {
    /// By how many milliseconds the wall's clock went ahead since the last look, beyond the time that
    /// has passed, if that is more than [`CLOCK_STEP_MS`].
    fn ahead(&mut self, now: Instant, wall_ms: u64) -> Option<u64> {
        let (then, wall_then) = self.0.replace((now, wall_ms))?;
        let passed = now.duration_since(then).as_millis() as u64;
        wall_ms.checked_sub(wall_then.saturating_add(passed)).filter(|ahead| *ahead > CLOCK_STEP_MS)
    }
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

    /// Forgets what is not certain any more, and refuses everybody.
    fn refuse(&mut self, error: &StoreError, answers: impl Iterator<Item = oneshot::Sender<Outcome>>) {
        let trouble = error.trouble();
        if self.seen.take().is_some() {
            tracing::error!(%error, "frames cannot be stored: they are refused until the storage works again");
        }
        // whoever went away has no acknowledgement either
        for answer in answers {
            let _ = answer.send(Err(trouble));
        }
    }

    /// Reads what storage knows, if that is not certain.
    fn know(&mut self) -> Result<Seen, StoreError> {
        if let Some(seen) = self.seen.take() {
            return Ok(seen);
        }
        let (seen, stored) = (seen(self.profile, &self.store)?, self.store.frames()?);
        self.counts.lock().stored = stored;
        tracing::info!(stored, "frames are stored again");
        Ok(seen)
    }

    fn commit(&mut self, group: Vec<Batch>) {
        let mut seen = match self.know() {
            Ok(seen) => seen,
            Err(error) => return self.refuse(&error, group.into_iter().map(|batch| batch.answer)),
        };
        let (mut fresh, mut devices, mut answers) = (Vec::new(), BTreeSet::new(), Vec::with_capacity(group.len()));
        for Batch { frames, checked, answer } in group {
            let mut counts = IngestCounts::default();
            for (frame, checked) in frames.chunks_exact(self.profile.frame_bytes()).zip(&checked) {
                let verdict = seen.admit(checked);
                counts.count(verdict);
                if verdict == Verdict::Taken {
                    fresh.extend_from_slice(frame);
                    devices.insert(checked.head.device);
                }
            }
            answers.push((answer, counts));
        }
        let state = |number: &DeviceNumber| Some((number.value(), seen.window(*number)?.to_bytes()));
        let states: Vec<DeviceState> = devices.iter().filter_map(state).collect();
        let now_ms = super::now_ms();
        if let Some(ms) = self.clock.ahead(Instant::now(), now_ms) {
            self.counts.lock().clock[0] += 1;
            let seconds = ms / 1000;
            tracing::warn!(
                seconds,
                "the server's clock went ahead: where it is wrong now, frames are in windows of the future; check how its time is kept"
            );
        }
        let stored = match fresh.is_empty() {
            true => Ok(None),
            false => self.store.append(now_ms, self.profile.frame_bytes(), &fresh, &states).map(Some),
        };
        self.seen = Some(seen);
        let time_ms = match stored {
            Ok(appended) => {
                if let Some(ms) = appended.and_then(|appended| appended.back_ms) {
                    self.counts.lock().clock[1] += 1;
                    let seconds = ms / 1000;
                    tracing::warn!(
                        seconds,
                        "the server's clock went back: frames from before are dated ahead and stay in windows of the future, new frames have the time of now; check how its time is kept"
                    );
                }
                appended.map(|appended| appended.time_ms)
            }
            Err(error) => return self.refuse(&error, answers.into_iter().map(|(answer, _)| answer)),
        };
        {
            let mut counted = self.counts.lock();
            counted.groups += 1;
            counted.stored += (fresh.len() / self.profile.frame_bytes()) as u64;
            answers.iter().for_each(|(_, counts)| counted.frames.add(counts));
        }
        // whoever went away knows of nothing, and may send again
        for (answer, counts) in answers {
            let _ = answer.send(Ok(Stored { counts, time_ms: time_ms.filter(|_| counts.taken > 0) }));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::time::Duration;

    #[test]
    fn fault_13_a_clock_that_goes_ahead_is_seen_while_the_server_runs() {
        let (start, mut clock) = (Instant::now(), Clock::default());
        let mut look = |ms: u64, wall_ms: u64| clock.ahead(start + Duration::from_millis(ms), wall_ms);
        assert_eq!(look(0, 1_000_000), None, "nothing to compare with");
        assert_eq!(look(60_000, 1_060_000 + CLOCK_STEP_MS), None, "a correction");
        assert_eq!(look(61_000, 1_061_000 + CLOCK_STEP_MS), None);
        assert_eq!(look(62_000, 1_062_000 + CLOCK_STEP_MS + 259_200_000), Some(259_200_000));
        assert_eq!(look(63_000, 1_063_000), None, "back is what the store sees");
        assert_eq!(look(64_000, 1_064_001 + CLOCK_STEP_MS), Some(CLOCK_STEP_MS + 1));
    }
}
