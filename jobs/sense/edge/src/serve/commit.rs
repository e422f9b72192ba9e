//! One thread for each fleet stores frames, and waiting batches share a transaction.
//!
//! A batch of checked frames waits in a queue. The thread takes all waiting batches and decides for
//! each frame, in one order, whether it is a duplicate. It appends the new frames and the new
//! windows of their devices in **one transaction that is on the disk before anybody gets an
//! answer**. Then it answers all. While it writes, the next batches gather: a higher load means
//! more frames for each flush.
//!
//! **Times.** In version 2 a frame has its own time, and its record has that time: a frame that a
//! wrong clock made is refused ([`Verdict::Untimely`]), and one whose window was fetched is counted
//! as late. In version 1, frames get the time of the wall clock. Frames that waited for the
//! registration of their fleet get the time of their arrival. A clock that shows a time before
//! [`RELEASED_MS`] is certainly wrong; frames then get the time of the newest frame.
//!
//! If storage fails, nothing is acknowledged. The thread then forgets its history of devices,
//! because the history may contain frames that were not stored. It reads the history from storage
//! before it judges the next frame, and rejects every batch until that succeeds.

use super::clock::clocks;
use super::windows::Windows;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};
use tobari_device::{DeviceNumber, ReplayWindow, Stamp};
use tobari_host::storage::Trouble;
use tobari_sense::ProfileName;
use tobari_sense::ingest::{Checked, FrameHistory, IngestCounts, Verdict};
use tobari_sense_files::{Arrived, CLOCK_STEP_MS, DeviceState, FrameStore, StoreError};
use tokio::sync::{mpsc, oneshot};

/// The largest number of waiting batches.
const QUEUE: usize = 256;
/// Bytes of a transaction, after which it takes no further batch.
const GROUP_BYTES: usize = 16 << 20;
/// Bytes of the newest frames that a start reads, to recognise them as duplicates.
const RECALLED_BYTES: u64 = 128 << 20;
/// 2026-01-01T00:00:00Z in milliseconds since 1970. This release was made after it, so a clock that
/// shows an earlier time was not set: a machine without a battery for its clock starts in 1970.
pub(super) const RELEASED_MS: u64 = 1_767_225_600_000;
/// Milliseconds of a year.
const YEAR_MS: u64 = 31_556_952_000;

/// A batch of checked frames.
pub(super) struct Batch {
    /// The frames, one after another.
    pub(super) frames: Vec<u8>,
    /// The head and tag of each frame.
    pub(super) checked: Vec<Checked>,
    /// The time of arrival in milliseconds since 1970, if the frames waited elsewhere; `None` if
    /// they arrive now.
    pub(super) came_ms: Option<u64>,
    /// The channel for the answer.
    pub(super) answer: oneshot::Sender<Outcome>,
}

/// The result of a batch: an error has the trouble with the storage, or `None` for another error.
pub(super) type Outcome = Result<Stored, Option<Trouble>>;

/// The result of a stored batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The numbers of accepted and rejected frames.
    pub(super) counts: IngestCounts,
    /// The time under which accepted frames are stored, in milliseconds since 1970. `None` if no
    /// frame was accepted, or if the frames waited elsewhere.
    pub(super) time_ms: Option<u64>,
}

/// The counts of a fleet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Frames by verdict.
    pub(super) frames: IngestCounts,
    /// Frames in storage.
    pub(super) stored: u64,
    /// Frames that were stored after the results of a window of theirs were fetched.
    pub(super) after_window: u64,
    /// Frames that were removed for their age before a window of theirs was fetched.
    pub(super) lost: u64,
    /// Transactions.
    pub(super) groups: u64,
    /// The number of jumps of the clock forward, and back.
    pub(super) clock: [u64; 2],
}

/// Counts that all threads of a fleet share.
#[derive(Default)]
pub(super) struct Counts(Mutex<Counted>);

impl Counts {
    pub(super) fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread; it ends when the last sender is dropped.
pub(super) fn start(
    profile: ProfileName,
    store: Arc<FrameStore>,
    counts: Arc<Counts>,
    windows: Arc<Windows>,
) -> Result<mpsc::Sender<Batch>, StoreError> {
    let (sender, queue) = mpsc::channel(QUEUE);
    let seen = match seen(profile, &store) {
        Ok(seen) => Some(seen),
        // the first batch will show whether the storage works again
        Err(error) if error.trouble().is_some() => None,
        Err(error) => return Err(error),
    };
    let writer = Writer { profile, store, counts, windows, seen, clock: Clock::default() };
    let thread = thread::Builder::new().name("frames".to_owned());
    thread.spawn(move || writer.run(queue)).map_err(redb_io)?;
    Ok(sender)
}

fn redb_io(error: std::io::Error) -> StoreError {
    StoreError::from(error)
}

/// Reads the history of devices from storage.
fn seen(profile: ProfileName, store: &FrameStore) -> Result<FrameHistory, StoreError> {
    let mut seen = FrameHistory::default();
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
    windows: Arc<Windows>,
    /// `None` after a storage error, until the history is read again.
    seen: Option<FrameHistory>,
    clock: Clock,
}

/// The wall clock, compared with a clock that nobody can set.
#[derive(Default)]
struct Clock {
    last: Option<(Instant, u64)>,
    /// Whether the clock showed a time before [`RELEASED_MS`] at the last check.
    is_unset: bool,
}

impl Clock {
    /// The milliseconds by which the wall clock jumped ahead since the last check, beyond the
    /// elapsed time, if more than [`CLOCK_STEP_MS`].
    fn ahead(&mut self, now: Instant, wall_ms: u64) -> Option<u64> {
        let (then, wall_then) = self.last.replace((now, wall_ms))?;
        let passed = now.duration_since(then).as_millis() as u64;
        wall_ms.checked_sub(wall_then.saturating_add(passed)).filter(|ahead| *ahead > CLOCK_STEP_MS)
    }

    /// Whether the clock shows a certainly wrong time. The log has a line when this begins and one
    /// when it ends.
    fn is_unset(&mut self, wall_ms: u64) -> bool {
        let is_unset = wall_ms < RELEASED_MS;
        if is_unset != std::mem::replace(&mut self.is_unset, is_unset) {
            // the wrong time is no reference for the next check
            self.last = None;
            let year = 1970 + wall_ms / YEAR_MS;
            match is_unset {
                true => tracing::error!(
                    "the server's clock shows the year {year}, before this release was made: set it. Until then new \
                     frames get the time of the newest frame that is stored"
                ),
                false => tracing::info!("the server's clock is set"),
            }
        }
        is_unset
    }
}

/// Judged batches, for one transaction.
struct Judged {
    seen: FrameHistory,
    /// New frames of version 1, with their time of arrival if they waited elsewhere.
    fresh: Vec<(Option<u64>, Vec<u8>)>,
    /// New frames of version 2, by their time and sheet.
    stamped: BTreeMap<Stamp, Vec<u8>>,
    states: Vec<DeviceState>,
    /// The channels for answers, with the counts of frames and whether they arrived now.
    answers: Vec<(oneshot::Sender<Outcome>, IngestCounts, bool)>,
}

/// The frames with this time at the end of the list.
fn frames_of(fresh: &mut Vec<(Option<u64>, Vec<u8>)>, came_ms: Option<u64>) -> &mut Vec<u8> {
    if fresh.last().is_none_or(|(last, _)| *last != came_ms) {
        fresh.push((came_ms, Vec::new()));
    }
    let last = fresh.len() - 1;
    &mut fresh[last].1
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

    /// Forgets the uncertain history, and rejects all batches.
    fn refuse(&mut self, error: &StoreError, answers: impl Iterator<Item = oneshot::Sender<Outcome>>) {
        let trouble = error.trouble();
        if self.seen.take().is_some() {
            tracing::error!(%error, "frames cannot be stored: they are refused until the storage works again");
        }
        // a client that disconnected gets no acknowledgement either
        for answer in answers {
            let _ = answer.send(Err(trouble));
        }
    }

    /// The history of devices; reads it from storage if it is not certain.
    fn know(&mut self) -> Result<FrameHistory, StoreError> {
        if let Some(seen) = self.seen.take() {
            return Ok(seen);
        }
        let (seen, stored) = (seen(self.profile, &self.store)?, self.store.frames()?);
        self.counts.lock().stored = stored;
        tracing::info!(stored, "frames are stored again");
        Ok(seen)
    }

    fn commit(&mut self, group: Vec<Batch>) {
        match self.know() {
            Ok(seen) => {
                let (now, wall_ms) = clocks();
                let judged = self.judge(seen, group, wall_ms);
                self.store(judged, now, wall_ms);
            }
            Err(error) => self.refuse(&error, group.into_iter().map(|batch| batch.answer)),
        }
    }

    /// Decides for each frame whether it is new.
    fn judge(&self, mut seen: FrameHistory, group: Vec<Batch>, wall_ms: u64) -> Judged {
        let (mut fresh, mut devices, mut answers) = (Vec::new(), BTreeSet::new(), Vec::with_capacity(group.len()));
        let mut stamped: BTreeMap<Stamp, Vec<u8>> = BTreeMap::new();
        // a clock that was not set is no measure: no frame is ahead of it
        let now = if wall_ms < RELEASED_MS { u64::MAX } else { wall_ms / 1000 };
        for Batch { frames, checked, came_ms, answer } in group {
            // the time of a clock that was not set is replaced
            let came_ms = came_ms.map(|came_ms| came_ms.max(RELEASED_MS));
            let mut counts = IngestCounts::default();
            for (frame, checked) in frames.chunks_exact(self.profile.frame_bytes()).zip(&checked) {
                let verdict = if checked.is_timely(now) { seen.admit(checked) } else { Verdict::Untimely };
                counts.count(verdict);
                if verdict == Verdict::Taken {
                    let frames = match checked.head.stamp {
                        Some(stamp) => stamped.entry(stamp).or_default(),
                        None => frames_of(&mut fresh, came_ms),
                    };
                    frames.extend_from_slice(frame);
                    devices.insert(checked.head.device);
                }
            }
            answers.push((answer, counts, came_ms.is_none()));
        }
        let state = |number: &DeviceNumber| Some((number.value(), seen.window(*number)?.to_bytes()));
        let states: Vec<DeviceState> = devices.iter().filter_map(state).collect();
        Judged { seen, fresh, stamped, states, answers }
    }

    /// The time for frames that arrive now.
    fn time_ms(&mut self, now: Instant, wall_ms: u64) -> Result<u64, StoreError> {
        if self.clock.is_unset(wall_ms) {
            return Ok(self.store.newest_ms()?.max(RELEASED_MS));
        }
        if let Some(ms) = self.clock.ahead(now, wall_ms) {
            self.counts.lock().clock[0] += 1;
            let seconds = ms / 1000;
            tracing::warn!(
                seconds,
                "the server's clock went ahead: it was wrong before, it is wrong now, or the machine slept. If it is \
                 wrong now, frames are in windows of the future; check how its time is kept"
            );
        }
        Ok(wall_ms)
    }

    /// Appends the new frames, and answers all batches.
    fn store(&mut self, judged: Judged, now: Instant, wall_ms: u64) {
        let Judged { seen, fresh, stamped, states, answers } = judged;
        let frame_bytes = self.profile.frame_bytes();
        let stored = self.time_ms(now, wall_ms).and_then(|now_ms| {
            let frames = fresh.iter().map(|(came_ms, frames)| (*came_ms, frames.as_slice()));
            let arrived: Vec<Arrived<'_>> = frames.map(|(came_ms, frames)| Arrived { came_ms, frames }).collect();
            if !stamped.is_empty() {
                let frames = stamped.iter().map(|(stamp, frames)| (1000 * stamp.seconds(), frames.as_slice()));
                self.store.append_stamped(frame_bytes, &frames.collect::<Vec<_>>(), &states, now_ms)?;
            }
            match arrived.is_empty() {
                true => Ok(None),
                false => self.store.append_arrived(now_ms, frame_bytes, &arrived, &states).map(Some),
            }
        });
        self.seen = Some(seen);
        let appended = match stored {
            Ok(appended) => appended,
            Err(error) => return self.refuse(&error, answers.into_iter().map(|(answer, ..)| answer)),
        };
        let late = self.windows.note_frames(&self.store, frame_bytes, &stamped, wall_ms);
        if let Some(ms) = appended.and_then(|appended| appended.back_ms) {
            self.windows.begin_again();
            self.counts.lock().clock[1] += 1;
            let seconds = ms / 1000;
            tracing::warn!(
                seconds,
                "the server's clock went back: it was wrong before, or it is wrong now. Frames that are stored keep \
                 their times, which are ahead of it; new frames get the time that it shows. Check how its time is kept"
            );
        }
        {
            let mut counted = self.counts.lock();
            counted.groups += 1;
            let frames = fresh.iter().map(|(_, frames)| frames).chain(stamped.values());
            counted.stored += frames.map(|frames| (frames.len() / frame_bytes) as u64).sum::<u64>();
            counted.after_window += late;
            answers.iter().for_each(|(_, counts, _)| counted.frames.add(counts));
        }
        // a client that disconnected does not know the outcome, and may send the frames again
        for (answer, counts, is_now) in answers {
            let time_ms = appended.filter(|_| is_now && counts.taken > 0).map(|appended| appended.time_ms);
            let _ = answer.send(Ok(Stored { counts, time_ms }));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::time::Duration;
    use tobari_device::{Device, InsecureVolatileCounter, Profile, READINGS, Root, U25, U28};

    const HOUR: u64 = 3_600_000;

    /// A store and its writer, in a folder.
    struct Place {
        _folder: tempfile::TempDir,
        writer: Writer,
        device: Device<U25, InsecureVolatileCounter>,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(FrameStore::open(&folder.path().join("frames.redb")).unwrap());
            let (profile, clock) = (ProfileName::U25, Clock::default());
            let (counts, windows, seen) = (Arc::default(), Arc::default(), Some(FrameHistory::default()));
            let writer = Writer { profile, store, counts, windows, seen, clock };
            let number = DeviceNumber::new(7).unwrap();
            let device = Device::open(&Root::from_bytes([1; 32]), number, InsecureVolatileCounter(0)).unwrap();
            Self { _folder: folder, writer, device }
        }

        /// Stores batches of one new frame each, and returns the times in their answers.
        fn store(&mut self, came: &[Option<u64>], wall_ms: u64) -> Vec<Option<u64>> {
            let (mut group, mut waiting) = (Vec::new(), Vec::new());
            for came_ms in came {
                let mut frame = U25::EMPTY;
                self.device.seal(&[1; READINGS], &mut frame).unwrap();
                let checked = vec![Checked::of_stored(ProfileName::U25, &frame).unwrap()];
                let (answer, stored) = oneshot::channel();
                group.push(Batch { frames: frame.to_vec(), checked, came_ms: *came_ms, answer });
                waiting.push(stored);
            }
            let seen = self.writer.know().unwrap();
            let judged = self.writer.judge(seen, group, wall_ms);
            self.writer.store(judged, Instant::now(), wall_ms);
            let told = |mut stored: oneshot::Receiver<Outcome>| {
                let stored = stored.try_recv().unwrap().unwrap();
                assert_eq!(stored.counts.taken, 1);
                stored.time_ms
            };
            waiting.into_iter().map(told).collect()
        }

        fn times(&self) -> Vec<u64> {
            self.writer.store.times(0, u64::MAX, usize::MAX).unwrap()
        }
    }

    #[test]
    fn fault_12_messages_that_waited_are_stored_under_the_time_of_their_arrival() {
        let (mut place, now) = (Place::new(), RELEASED_MS + 1000 * HOUR);
        // a day's messages for a fleet, and one that arrives after its registration
        let came: Vec<Option<u64>> = (1..=23).map(|hours| Some(now - (24 - hours) * HOUR)).collect();
        let told = place.store(&[&came[..], &[None]].concat(), now);
        assert_eq!((told[..23].to_vec(), told[23]), (vec![None; 23], Some(now)));
        let expected: Vec<u64> = came.iter().flatten().copied().chain([now]).collect();
        assert_eq!(place.times(), expected, "one window for each hour");
        assert_eq!((place.writer.store.frames().unwrap(), place.writer.counts.lock().stored), (24, 24));
        // an hour later; the reference clock did not run
        place.writer.clock = Clock::default();
        // newer frames overtook this frame: that is not a clock that goes back
        assert_eq!(place.store(&[Some(now - 9 * HOUR)], now + HOUR), [None::<u64>]);
        assert_eq!(place.store(&[None], now + HOUR), [Some(now + HOUR)]);
        assert_eq!(place.times(), [&expected[..], &[now + HOUR]].concat());
        // the clock was not set when it arrived
        assert_eq!((place.store(&[Some(5)], now + HOUR), place.times().len()), (vec![None], 25));
        assert_eq!(place.writer.counts.lock().clock, [0, 0]);
    }

    #[test]
    fn fault_13_a_clock_before_the_release_leaves_times_where_they_were() {
        let (mut place, now) = (Place::new(), RELEASED_MS + 1000 * HOUR);
        assert_eq!(place.store(&[None, Some(7)], 1_000), [Some(RELEASED_MS), None], "an empty store");
        assert_eq!(place.store(&[None], RELEASED_MS - 1), [Some(RELEASED_MS)]);
        assert_eq!(place.store(&[None], now), [Some(now)], "it was set");
        // the next start is in 1970 again
        place.writer.clock = Clock::default();
        assert_eq!(place.store(&[None], 20_000), [Some(now)]);
        assert_eq!(place.store(&[None], 21_000), [Some(now)]);
        assert_eq!(place.store(&[None], now + HOUR), [Some(now + HOUR)]);
        assert_eq!(place.writer.store.remove_before(RELEASED_MS, |_, _| {}).unwrap(), 0, "none is of 1970");
        // a step back to a plausible time is believed
        assert_eq!(place.writer.counts.lock().clock, [0, 0]);
        assert_eq!(place.store(&[None], now), [Some(now)]);
        assert_eq!(place.writer.counts.lock().clock, [0, 1]);
    }

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

    /// Frames have the time of their readings, whenever they arrive; a time that only a wrong clock
    /// gives is refused.
    #[test]
    fn frames_of_version_2_are_stored_under_their_own_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(FrameStore::open(&folder.path().join("frames.redb")).unwrap());
        let (counts, windows, seen) = (Arc::default(), Arc::default(), Some(FrameHistory::default()));
        let (profile, clock) = (ProfileName::U28, Clock::default());
        let mut writer = Writer { profile, store: Arc::clone(&store), counts, windows, seen, clock };
        let number = DeviceNumber::new(7).unwrap();
        let mut device =
            Device::<U28, _>::open(&Root::from_bytes([1; 32]), number, InsecureVolatileCounter(0)).unwrap();
        let now = RELEASED_MS / 1000 + 90_000_000;
        let mut send = |seconds: u64, sheet: u16, wall_ms: u64| {
            let mut frame = U28::EMPTY;
            device.seal_at(Stamp::new(seconds, sheet).unwrap(), &[1; READINGS], &mut frame).unwrap();
            let checked = vec![Checked::of_stored(profile, &frame).unwrap()];
            let (answer, mut stored) = oneshot::channel();
            let seen = writer.know().unwrap();
            let batch = Batch { frames: frame.to_vec(), checked, came_ms: None, answer };
            let judged = writer.judge(seen, vec![batch], wall_ms);
            writer.store(judged, Instant::now(), wall_ms);
            let counts = stored.try_recv().unwrap().unwrap().counts;
            (counts.taken, counts.untimely)
        };
        let wall = 1000 * now;
        assert_eq!([send(now, 0, wall), send(now - 3600, 0, wall), send(now - 3600, 1, wall)], [(1, 0); 3]);
        assert_eq!(send(now + 3 * 86_400, 0, wall), (1, 0), "three days ahead");
        assert_eq!(send(now + 8 * 86_400, 0, wall), (0, 1), "more than a week ahead");
        assert_eq!(send(0, 0, wall), (0, 1), "a clock that was not set");
        assert_eq!(send(1_000_000_000, 0, wall), (1, 0), "readings of 2001, from a file");
        // the server's own clock is in 1970: it is no measure
        assert_eq!(send(RELEASED_MS / 1000, 0, 5_000), (1, 0));
        assert_eq!([send(now + 7200, 0, 5_000), send(now + 9 * 86_400, 0, 5_000)], [(1, 0); 2], "readings of today");
        assert_eq!(send(0, 0, 5_000), (0, 1));
        let hour = |from: u64| store.times(1000 * from, 1000 * (from + 1), 9).unwrap().len();
        assert_eq!([hour(now), hour(now - 3600), hour(now + 3 * 86_400), hour(1_000_000_000)], [1; 4]);
        let mut records = Vec::new();
        store.window(1000 * (now - 3600), 1000 * now, |bytes| records.push(bytes.len())).unwrap();
        assert_eq!(records, [943, 943], "a record for each sheet");
    }
}
