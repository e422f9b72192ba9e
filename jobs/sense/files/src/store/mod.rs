//! Frames on the disk (redb), as they arrived.
//!
//! | table | key | value |
//! |---|---|---|
//! | `records` | number of a record | frames, one after another: [`RECORD_BYTES`] at most |
//! | `times` | time, in milliseconds since 1970; number | number of frames |
//! | `arrivals` | time of storage; number | time of a record whose frames have their own |
//! | `devices` | device number | counters received so far |
//! | `done` | name of a question, and beginning of a window | whether its result was fetched |
//! | `removed` | first time of an interval | last time: in between, old frames were removed |
//!
//! **The time of a record** is the time in its frames in profiles whose frames have one
//! ([`FrameStore::append_stamped`]), and the time of storage in others ([`FrameStore::append`]).
//! All frames of a record have one time, and one sheet.
//!
//! **Frames are stored small and unchanged**: 553 to 943 bytes, while a ciphertext of the
//! homomorphic scheme takes half a megabyte and more. They are converted when a question needs
//! them. One transaction has all frames of a group and the new windows of their devices, and is on
//! the disk before [`FrameStore::append`] returns. So a crash at any moment loses no acknowledged
//! frame, and stores none twice. Times go back by more than [`CLOCK_STEP_MS`] or not at all: a time
//! window that has ended gets no more frames, unless the clock was set back. Frames that waited
//! elsewhere ([`Arrived`]) have the time of their arrival, or of the newest frame of the store if
//! that is later.

mod removals;

use self::removals::REMOVED;
use super::error::StoreError;
use super::reopening::Reopening;
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableError, WriteTransaction,
};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tobari_host::files::{directory_of, sync_directory};
use tobari_host::storage::Trouble;

/// Largest size of a record in bytes.
pub const RECORD_BYTES: usize = 63 << 10;
/// If a clock goes back by no more than this many milliseconds, times stay where they were, so
/// windows that have ended do not change. Leap seconds and corrections over the network are
/// smaller. A clock that goes back further is believed, and frames get its time from then on. It
/// was wrong before or is wrong now, and the store cannot tell which.
pub const CLOCK_STEP_MS: u64 = 5_000;
/// The default memory of a store for pages of its file, in bytes.
pub const CACHE_BYTES: usize = 64 << 20;
/// Records removed in one transaction.
const REMOVED_AT_ONCE: usize = 4096;
/// Records searched at a time for frames to remove.
const CHANGED_AT_ONCE: usize = 1024;

const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
const TIMES: TableDefinition<'_, (u64, u64), u32> = TableDefinition::new("times");
const ARRIVALS: TableDefinition<'_, (u64, u64), u64> = TableDefinition::new("arrivals");
const DEVICES: TableDefinition<'_, u32, [u8; STATE_BYTES]> = TableDefinition::new("devices");
/// The same table in an older version, which had 64 counters.
const NARROW: TableDefinition<'_, u32, [u8; NARROW_BYTES]> = TableDefinition::new("devices");
const STATE_BYTES: usize = 40;
const NARROW_BYTES: usize = 16;
const DONE: TableDefinition<'_, (&str, u64), ()> = TableDefinition::new("done");

/// A device's number, and its counters received so far.
pub type DeviceState = (u32, [u8; STATE_BYTES]);

/// The state after the newest record.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    time_ms: u64,
    record: u64,
}

/// Frames of one arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The time of arrival, in milliseconds since 1970, if it was earlier; `None` for frames that
    /// arrive now.
    pub came_ms: Option<u64>,
    /// The frames, one after another.
    pub frames: &'a [u8],
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The time of the last arrival, as it is stored.
    pub time_ms: u64,
    /// The number of records written.
    pub records: u64,
    /// The milliseconds by which the clock went back since the earlier frames, if more than
    /// [`CLOCK_STEP_MS`]: the earlier frames are dated ahead of the clock.
    pub back_ms: Option<u64>,
}

/// Frames of one fleet. A store whose storage fails closes, and opens again when the storage works:
/// see [`FrameStore::recover`].
pub struct FrameStore {
    database: Reopening<Opened>,
}

/// The file while it is open.
struct Opened {
    database: Database,
    last: Mutex<Last>,
}

impl Opened {
    /// Opens a database, and makes missing tables.
    fn of(database: Database) -> Result<Self, StoreError> {
        let writing = database.begin_write()?;
        widen(&writing)?;
        let last = {
            let (records, _done) = (writing.open_table(RECORDS)?, writing.open_table(DONE)?);
            let (_arrivals, _removed) = (writing.open_table(ARRIVALS)?, writing.open_table(REMOVED)?);
            let times = writing.open_table(TIMES)?;
            let newest = records.last()?.map(|(number, _)| number.value());
            let mut last = newest.map_or_else(Last::default, |newest| Last { time_ms: 0, record: newest + 1 });
            // if the clock was set back, the newest record does not have the latest time
            for entry in times.iter()?.rev() {
                let (time_ms, record) = entry?.0.value();
                if Some(record) == newest {
                    last.time_ms = time_ms;
                    break;
                }
            }
            last
        };
        writing.commit()?;
        Ok(Self { database, last: Mutex::new(last) })
    }

    /// Removes one transaction's worth of records from before a time. Returns the number of frames
    /// in each.
    fn remove_some_before(&self, before_ms: u64) -> Result<Vec<(u64, u64)>, StoreError> {
        let writing = self.database.begin_write()?;
        let mut gone = Vec::new();
        {
            let (mut records, mut times) = (writing.open_table(RECORDS)?, writing.open_table(TIMES)?);
            let (mut arrivals, mut removed) = (writing.open_table(ARRIVALS)?, writing.open_table(REMOVED)?);
            let (old, mut keys) = ((0, 0)..(before_ms, 0), Vec::new());
            // the records of a store have times of storage, or all have times of their own
            if arrivals.is_empty()? {
                for entry in times.range(old)?.take(REMOVED_AT_ONCE) {
                    keys.push(entry?.0.value());
                }
            } else {
                let mut came = Vec::new();
                for entry in arrivals.range(old)?.take(REMOVED_AT_ONCE) {
                    let (arrival, time) = entry?;
                    came.push(arrival.value());
                    keys.push((time.value(), arrival.value().1));
                }
                for arrival in came {
                    arrivals.remove(arrival)?;
                }
            }
            for key in keys {
                // frames of a device that was removed may have been all of a record
                let frames = times.remove(key)?.map_or(0, |frames| u64::from(frames.value()));
                gone.push((key.0, frames));
                removals::note(&mut removed, key.0)?;
                records.remove(key.1)?;
            }
        }
        writing.commit()?;
        Ok(gone)
    }

    /// Opens a file. A missing file is first completed under another name, so that a disk that
    /// fills up meanwhile leaves no incomplete database, which nothing could open.
    fn file(path: &Path, again: bool, pages: usize) -> Result<Self, StoreError> {
        let builder = || {
            let mut builder = Database::builder();
            builder.set_cache_size(pages);
            builder
        };
        if std::fs::metadata(path).map_or(true, |found| found.len() == 0) {
            let new = path.with_extension("new");
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            drop(Self::of(builder().create(&new)?)?);
            std::fs::rename(&new, path)?;
            sync_directory(directory_of(path))?;
        }
        if again {
            forget_cached(path)?;
        }
        Self::of(builder().open(path)?)
    }
}

/// The newest time of a table that is at most this one; 0 if there is none.
fn newest_until(times: &impl ReadableTable<(u64, u64), u32>, until_ms: u64) -> Result<u64, StoreError> {
    let newest = times.range((0u64, 0u64)..(until_ms.saturating_add(1), 0u64))?.next_back().transpose()?;
    Ok(newest.map_or(0, |(key, _)| key.value().0))
}

/// Makes the table of devices, or converts a narrow one. The narrow table does not have the older
/// counters, so they count as seen.
fn widen(writing: &WriteTransaction) -> Result<(), StoreError> {
    match writing.open_table(DEVICES) {
        Ok(_) => return Ok(()),
        Err(TableError::TableTypeMismatch { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let mut states: Vec<DeviceState> = Vec::new();
    for entry in writing.open_table(NARROW)?.iter()? {
        let (number, narrow) = entry?;
        let mut state = [0xFF; STATE_BYTES];
        state[..NARROW_BYTES].copy_from_slice(&narrow.value());
        states.push((number.value(), state));
    }
    writing.delete_table(NARROW)?;
    let mut devices = writing.open_table(DEVICES)?;
    for (number, state) in states {
        devices.insert(number, state)?;
    }
    Ok(())
}

/// After a failed flush the system may return cached pages that never reached the device. This call
/// makes the next reads come from the device.
#[cfg(target_os = "linux")]
fn forget_cached(path: &Path) -> std::io::Result<()> {
    Ok(rustix::fs::fadvise(std::fs::File::open(path)?, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn forget_cached(_: &Path) -> std::io::Result<()> {
    Ok(())
}

impl FrameStore {
    /// Opens a file, or makes it. No other process may use it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::of_file(path, false, CACHE_BYTES)
    }

    /// As [`Self::open`], with this many bytes of memory for pages of the file.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_within(path: &Path, pages: usize) -> Result<Self, StoreError> {
        Self::of_file(path, false, pages)
    }

    /// As [`Self::open_within`], for a server that also starts if the storage fails: the store is
    /// then closed, and opens as soon as possible.
    ///
    /// # Errors
    /// [`StoreError`] for any other problem.
    pub fn open_when_it_can(path: &Path, pages: usize) -> Result<Self, StoreError> {
        Self::of_file(path, true, pages)
    }

    fn of_file(path: &Path, lenient: bool, pages: usize) -> Result<Self, StoreError> {
        let path = path.to_owned();
        Ok(Self { database: Reopening::new(lenient, move |again| Opened::file(&path, again, pages))? })
    }

    /// The trouble with the storage while the store is closed.
    pub fn trouble(&self) -> Option<Trouble> {
        self.database.trouble()
    }

    /// Opens a closed store, if the pause is over, as any other call does. Returns whether it is
    /// open.
    pub fn recover(&self) -> bool {
        self.database.open().is_ok()
    }

    /// Stores frames, each of `frame_bytes` bytes and one after another, and the states of their
    /// devices. It returns once all of them are on the disk. After an error either all or none are
    /// stored: the store tells which, once it is open again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn append(
        &self,
        now_ms: u64,
        frame_bytes: usize,
        frames: &[u8],
        states: &[DeviceState],
    ) -> Result<Appended, StoreError> {
        self.append_arrived(now_ms, frame_bytes, &[Arrived { came_ms: None, frames }], states)
    }

    /// As [`Self::append`], for frames of several arrivals, in this order and in one transaction.
    /// Frames that arrived earlier get their time of arrival, but no time before a stored frame or
    /// after now. They never set the store's clock back.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn append_arrived(
        &self,
        now_ms: u64,
        frame_bytes: usize,
        arrived: &[Arrived<'_>],
        states: &[DeviceState],
    ) -> Result<Appended, StoreError> {
        self.database.with(|open| {
            let mut last = open.last.lock().unwrap_or_else(PoisonError::into_inner);
            let back_ms = last.time_ms.checked_sub(now_ms).filter(|back| *back > CLOCK_STEP_MS);
            let each = (RECORD_BYTES / frame_bytes.max(1)).max(1) * frame_bytes.max(1);
            let writing = open.database.begin_write()?;
            let Last { mut time_ms, mut record } = *last;
            {
                let (mut records, mut times) = (writing.open_table(RECORDS)?, writing.open_table(TIMES)?);
                if back_ms.is_some() {
                    time_ms = newest_until(&times, now_ms)?;
                }
                for Arrived { came_ms, frames } in arrived {
                    time_ms = came_ms.map_or(now_ms, |came_ms| came_ms.min(now_ms)).max(time_ms);
                    for bytes in frames.chunks(each) {
                        records.insert(record, bytes)?;
                        times.insert((time_ms, record), (bytes.len() / frame_bytes.max(1)) as u32)?;
                        record += 1;
                    }
                }
                let mut devices = writing.open_table(DEVICES)?;
                for (number, state) in states {
                    devices.insert(number, state)?;
                }
            }
            writing.commit()?;
            let records = record - last.record;
            *last = Last { time_ms, record };
            Ok(Appended { time_ms, records, back_ms })
        })
    }

    /// Stores frames that have a time of their own, as [`Self::append`] does: each list has frames
    /// of one time, in milliseconds since 1970, and one sheet. `now_ms` is the time of storage, by
    /// which [`Self::remove_before`] removes them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn append_stamped(
        &self,
        frame_bytes: usize,
        stamped: &[(u64, &[u8])],
        states: &[DeviceState],
        now_ms: u64,
    ) -> Result<(), StoreError> {
        self.database.with(|open| {
            let mut last = open.last.lock().unwrap_or_else(PoisonError::into_inner);
            let each = (RECORD_BYTES / frame_bytes.max(1)).max(1) * frame_bytes.max(1);
            let writing = open.database.begin_write()?;
            let mut record = last.record;
            {
                let (mut records, mut times) = (writing.open_table(RECORDS)?, writing.open_table(TIMES)?);
                let mut arrivals = writing.open_table(ARRIVALS)?;
                for (time_ms, frames) in stamped {
                    for bytes in frames.chunks(each) {
                        records.insert(record, bytes)?;
                        times.insert((*time_ms, record), (bytes.len() / frame_bytes.max(1)) as u32)?;
                        arrivals.insert((now_ms, record), *time_ms)?;
                        record += 1;
                    }
                }
                let mut devices = writing.open_table(DEVICES)?;
                for (number, state) in states {
                    devices.insert(number, state)?;
                }
            }
            writing.commit()?;
            last.record = record;
            Ok(())
        })
    }

    /// The time of the newest record, in milliseconds since 1970; 0 if the store never had one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn newest_ms(&self) -> Result<u64, StoreError> {
        self.database.with(|open| Ok(open.last.lock().unwrap_or_else(PoisonError::into_inner).time_ms))
    }

    /// The counters received so far, by device.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn devices(&self) -> Result<Vec<DeviceState>, StoreError> {
        self.database.with(|open| {
            let devices = open.database.begin_read()?.open_table(DEVICES)?;
            let mut all = Vec::new();
            for entry in devices.iter()? {
                let (number, state) = entry?;
                all.push((number.value(), state.value()));
            }
            Ok(all)
        })
    }

    /// Passes every record of a time range to `take`, in the order of arrival.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn window(&self, from_ms: u64, to_ms: u64, mut take: impl FnMut(&[u8])) -> Result<(), StoreError> {
        self.window_with_times(from_ms, to_ms, |_, bytes| {
            take(bytes);
            Ok(())
        })
    }

    /// As [`Self::window`], with each record's time in milliseconds since 1970. An error of `take`
    /// ends it.
    ///
    /// # Errors
    /// [`StoreError`], and errors of `take`.
    pub fn window_with_times<E: From<StoreError>>(
        &self,
        from_ms: u64,
        to_ms: u64,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.database.with(|open| {
            let reading = open.database.begin_read()?;
            let (times, records) = (reading.open_table(TIMES)?, reading.open_table(RECORDS)?);
            for entry in times.range((from_ms, 0)..(to_ms, 0))? {
                let (time_ms, record) = entry?.0.value();
                if let Some(bytes) = records.get(record)?
                    && let Err(error) = take(time_ms, bytes.value())
                {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })?
    }

    /// Passes every record of a time range to `take`, with its number, which never changes
    /// ([`Self::numbered`]).
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn window_with_numbers(
        &self,
        from_ms: u64,
        to_ms: u64,
        mut take: impl FnMut(u64, &[u8]),
    ) -> Result<(), StoreError> {
        self.database.with(|open| {
            let reading = open.database.begin_read()?;
            let (times, records) = (reading.open_table(TIMES)?, reading.open_table(RECORDS)?);
            for entry in times.range((from_ms, 0)..(to_ms, 0))? {
                let (_, record) = entry?.0.value();
                if let Some(bytes) = records.get(record)? {
                    take(record, bytes.value());
                }
            }
            Ok(())
        })
    }

    /// Passes records to `take` by their numbers, in this order. Returns whether all of them exist.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn numbered(
        &self,
        numbers: impl IntoIterator<Item = u64>,
        mut take: impl FnMut(u64, &[u8]),
    ) -> Result<bool, StoreError> {
        self.database.with(|open| {
            let records = open.database.begin_read()?.open_table(RECORDS)?;
            for number in numbers {
                let Some(bytes) = records.get(number)? else { return Ok(false) };
                take(number, bytes.value());
            }
            Ok(true)
        })
    }

    /// Passes the newest records to `take`, the newest first, until this many bytes are reached.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn newest(&self, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<(), StoreError> {
        self.database.with(|open| {
            let records = open.database.begin_read()?.open_table(RECORDS)?;
            let mut read = 0;
            for entry in records.iter()?.rev() {
                let record = entry?.1;
                take(record.value());
                read += record.value().len() as u64;
                if read >= bytes {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The times of records of a time range, ascending, each time once; at most `most` of them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn times(&self, from_ms: u64, to_ms: u64, most: usize) -> Result<Vec<u64>, StoreError> {
        self.database.with(|open| {
            let times = open.database.begin_read()?.open_table(TIMES)?;
            let mut all: Vec<u64> = Vec::new();
            for entry in times.range((from_ms, 0)..(to_ms, 0))? {
                let (time, _) = entry?.0.value();
                if all.last() != Some(&time) {
                    if all.len() >= most {
                        break;
                    }
                    all.push(time);
                }
            }
            Ok(all)
        })
    }

    /// The time of the first record at or after this time.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn first_from(&self, from_ms: u64) -> Result<Option<u64>, StoreError> {
        Ok(self.times(from_ms, u64::MAX, 1)?.first().copied())
    }

    /// The number of frames.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn frames(&self) -> Result<u64, StoreError> {
        self.frames_from(0)
    }

    /// The number of frames stored at or after this time, in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn frames_from(&self, from_ms: u64) -> Result<u64, StoreError> {
        self.database.with(|open| {
            let times = open.database.begin_read()?.open_table(TIMES)?;
            let mut frames = 0;
            for entry in times.range((from_ms, 0)..)? {
                frames += u64::from(entry?.1.value());
            }
            Ok(frames)
        })
    }

    /// The number of records.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn records(&self) -> Result<u64, StoreError> {
        self.database.with(|open| Ok(open.database.begin_read()?.open_table(RECORDS)?.len()?))
    }

    /// Removes frames that were stored before a time; their counters stay known. Passes the time of
    /// each removed record and its number of frames to `told`. Returns the number of frames.
    ///
    /// # Errors
    /// [`StoreError`]: frames removed before the error stay removed.
    pub fn remove_before(&self, before_ms: u64, mut told: impl FnMut(u64, u64)) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let gone = self.database.with(|open| open.remove_some_before(before_ms))?;
            for (time_ms, frames) in &gone {
                removed += frames;
                told(*time_ms, *frames);
            }
            if gone.len() < REMOVED_AT_ONCE {
                return Ok(removed);
            }
        }
    }

    /// Whether frames of a time from `from_ms` to before `until_ms` were removed for their age. A
    /// result of such a window would be one of the rest.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn has_lost(&self, from_ms: u64, until_ms: u64) -> Result<bool, StoreError> {
        self.database.with(|open| {
            let removed = open.database.begin_read()?.open_table(REMOVED)?;
            Ok(removals::touches(&removed, from_ms, until_ms)?)
        })
    }

    /// Removes the frames, each of `frame_bytes` bytes, for which `gone` returns true. Their
    /// devices' counters stay known. Returns the number of frames.
    ///
    /// # Errors
    /// [`StoreError`]: then no frame is removed.
    pub fn remove_frames(&self, frame_bytes: usize, mut gone: impl FnMut(&[u8]) -> bool) -> Result<u64, StoreError> {
        self.database.with(|open| {
            let writing = open.database.begin_write()?;
            let mut removed = 0;
            {
                let (mut records, mut times) = (writing.open_table(RECORDS)?, writing.open_table(TIMES)?);
                let mut from = (0, 0);
                loop {
                    // in parts: all frames of a device may not fit in memory
                    let some = times.range(from..)?.take(CHANGED_AT_ONCE).map(|entry| Ok(entry?.0.value()));
                    let some = some.collect::<Result<Vec<_>, redb::StorageError>>()?;
                    for key in &some {
                        let Some(bytes) = records.get(key.1)?.map(|bytes| bytes.value().to_vec()) else { continue };
                        let frames = bytes.chunks(frame_bytes.max(1));
                        let kept: Vec<u8> = frames.filter(|frame| !gone(frame)).flatten().copied().collect();
                        if kept.len() == bytes.len() {
                            continue;
                        }
                        removed += ((bytes.len() - kept.len()) / frame_bytes.max(1)) as u64;
                        if kept.is_empty() {
                            times.remove(key)?;
                            records.remove(key.1)?;
                        } else {
                            times.insert(key, (kept.len() / frame_bytes.max(1)) as u32)?;
                            records.insert(key.1, &kept[..])?;
                        }
                    }
                    let Some((time, record)) = some.last().filter(|_| some.len() == CHANGED_AT_ONCE) else { break };
                    from = (*time, record + 1);
                }
            }
            writing.commit()?;
            Ok(removed)
        })
    }

    /// Records that a result was fetched.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn note_done(&self, question: &str, start_ms: u64) -> Result<(), StoreError> {
        self.database.with(|open| {
            let writing = open.database.begin_write()?;
            writing.open_table(DONE)?.insert((question, start_ms), ())?;
            writing.commit()?;
            Ok(())
        })
    }

    /// The beginnings of a question's windows whose results were fetched, from this time on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn done_from(&self, question: &str, from_ms: u64) -> Result<Vec<u64>, StoreError> {
        self.database.with(|open| {
            let done = open.database.begin_read()?.open_table(DONE)?;
            let mut all = Vec::new();
            for entry in done.range((question, from_ms)..=(question, u64::MAX))? {
                all.push(entry?.0.value().1);
            }
            Ok(all)
        })
    }

    /// Whether a window's results were fetched.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn is_done(&self, question: &str, start_ms: u64) -> Result<bool, StoreError> {
        self.database.with(|open| {
            let done = open.database.begin_read()?.open_table(DONE)?;
            Ok(done.get((question, start_ms))?.is_some())
        })
    }

    /// Forgets which of a question's windows that begin before a time were fetched: the store has
    /// no frames of them any more.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_done(&self, question: &str, before_ms: u64) -> Result<(), StoreError> {
        self.database.with(|open| {
            let writing = open.database.begin_write()?;
            writing.open_table(DONE)?.retain_in((question, 0)..(question, before_ms), |_, ()| false)?;
            writing.commit()?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
