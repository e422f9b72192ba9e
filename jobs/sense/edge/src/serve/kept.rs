//! Messages of a broker for fleets that are not registered yet.
//!
//! ```text
//!   FOLDER/unregistered/{fleet}-{number}-{time}   a message as it arrived (mode 0600)
//! ```
//!
//! The broker deletes an acknowledged message. A message without an acknowledgement takes a place
//! there, and brokers have few: twenty such messages would stop all fleets. So the server
//! acknowledges a message for an unregistered fleet once it is on the disk here, and stores its
//! frames when the fleet is registered. **Its frames get the message's time of arrival**, in
//! milliseconds since 1970: a day of messages does not fall into the window of the registration.
//! **All messages together take at most [`BYTES`]**, of which the name of one fleet has a share,
//! and stay for [`LIFE`]. A message without room is acknowledged, dropped and counted; otherwise
//! the broker would resend it forever. Every client that may publish at the broker can fill that
//! room.
//!
//! A file that cannot be read is set aside, so that it blocks no other message: the log names it,
//! and the next start tries it again.

use super::{FleetName, private_folder};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tobari_host::files::{FileError, read_bounded, write_secret};
use tobari_node::share::Share;
use tobari_octets::{hex, unhex_lower};

/// The largest size of all messages in bytes; each counts in whole blocks of the disk.
pub(super) const BYTES: u64 = 16 << 20;
/// Bytes of a disk block.
const BLOCK: u64 = 4096;
/// The number of times that an unreadable file is read, a second or more apart, before it is set
/// aside.
const TRIES: u8 = 10;
/// The prefix of files that were being written when the server ended.
const TEMPORARY: &str = ".tmp";
/// How long a message waits: as long as the broker would keep it for a server that is away. The
/// time starts again when the server starts.
pub(super) const LIFE: Duration = Duration::from_secs(super::mqtt::SESSION as u64);

/// The fleet of a message, and the message's number.
type Key = (FleetName, u64);

/// A waiting message.
#[derive(Clone, Copy)]
struct Waiting {
    bytes: u64,
    /// The time of arrival, by the wall clock.
    came_ms: u64,
    since: Instant,
    /// Whether the message is on the disk. Windows wait for it even before that.
    written: bool,
    /// How many times its file could not be read.
    failed: u8,
}

impl Waiting {
    fn new(bytes: u64, came_ms: u64, written: bool) -> Self {
        Self { bytes, came_ms, since: Instant::now(), written, failed: 0 }
    }
}

/// A message as it arrived.
pub(super) struct Message {
    /// The number of the message.
    pub(super) number: u64,
    /// The time of arrival, in milliseconds since 1970.
    pub(super) came_ms: u64,
    /// Its frames.
    pub(super) bytes: Vec<u8>,
}

/// The numbers of messages for unregistered fleets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptCounts {
    /// Written to the disk.
    pub(super) kept: u64,
    /// Stored after the registration of their fleet.
    pub(super) taken: u64,
    /// Dropped: without room, too old, unreadable, or under a topic that names no fleet.
    pub(super) dropped: u64,
    /// Waiting on the disk.
    pub(super) waiting: u64,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<Key, Waiting>,
    bytes: u64,
    next: u64,
    counts: KeptCounts,
    /// Whether the log already says that messages are dropped.
    told: bool,
}

impl State {
    fn drop_one(&mut self, why: &str) {
        self.counts.dropped += 1;
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!("a message of the broker is dropped: {why}. The next ones are counted alone");
        }
    }

    /// Restores a message of an earlier run from a file of this length, or reports another kind of
    /// entry.
    fn take_up(&mut self, path: &Path, name: &OsStr, length: Option<u64>) {
        let text = name.to_str().unwrap_or_default();
        match (length, parse(text)) {
            (Some(length), Some(_)) if length > BYTES => {
                let error = FileError::TooLarge { name: path.display().to_string(), limit_bytes: BYTES };
                self.unreadable(&error);
            }
            (Some(length), Some((key, came_ms))) => {
                let bytes = blocks(length);
                self.bytes += bytes;
                self.next = self.next.max(key.1.saturating_add(1));
                self.waiting.insert(key, Waiting::new(bytes, came_ms, true));
            }
            // an incomplete message, which was not acknowledged
            (Some(_), None) if text.starts_with(TEMPORARY) => {
                if let Err(error) = fs::remove_file(path) {
                    tracing::warn!(%error, ?name, "half of a message cannot be removed");
                }
            }
            _ => tracing::warn!(
                ?name,
                "something in the folder of messages for fleets that are not registered is no message: it is left alone"
            ),
        }
    }

    /// Removes a message from the list, because its file cannot be read.
    fn set_aside(&mut self, key: &Key, error: &FileError) {
        let Some(waiting) = self.waiting.remove(key) else { return };
        self.bytes = self.bytes.saturating_sub(waiting.bytes);
        match error {
            FileError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                tracing::warn!(%error, "a message for a fleet that was not registered was removed by hand");
            }
            _ => self.unreadable(error),
        }
    }

    /// Whether a later try may read the file: a disk that fails for a moment must lose nothing, and
    /// one bad file must not block all others.
    fn may_pass(&mut self, key: &Key, error: &FileError) -> bool {
        let FileError::Read { source, .. } = error else { return false };
        if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) {
            return false;
        }
        // ENFILE and EMFILE, which have no kind: the file is not at fault
        let files = |code: i32| cfg!(unix) && matches!(code, 23 | 24);
        if source.kind() == io::ErrorKind::OutOfMemory || source.raw_os_error().is_some_and(files) {
            return true;
        }
        let Some(waiting) = self.waiting.get_mut(key) else { return false };
        waiting.failed += 1;
        waiting.failed < TRIES
    }

    fn unreadable(&mut self, error: &FileError) {
        self.counts.dropped += 1;
        tracing::error!(
            %error,
            "a message for a fleet that was not registered cannot be read: it is dropped and counted. Its file stays \
             where it is, and the next start tries it again"
        );
    }
}

/// All waiting messages.
pub(super) struct WaitingMessages {
    folder: PathBuf,
    share: Share,
    state: Mutex<State>,
}

impl WaitingMessages {
    /// Opens the folder with the messages of an earlier run. Other files in the folder are not
    /// touched.
    pub(super) fn open(folder: &Path, share: Share) -> io::Result<Self> {
        private_folder(folder)?;
        let mut state = State::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let length = entry.metadata().ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len());
            state.take_up(&entry.path(), &entry.file_name(), length);
        }
        Ok(Self { folder: folder.to_owned(), share, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, (fleet, number): Key, came_ms: u64) -> PathBuf {
        self.folder.join(format!("{}-{number:016x}-{came_ms:016x}", hex(&fleet)))
    }

    /// Keeps a message that arrived at `came_ms`. Afterwards it is on the disk; without room it is
    /// dropped and counted.
    ///
    /// # Errors
    /// [`FileError`]: the message is not kept, and must not be acknowledged.
    pub(super) fn keep(&self, fleet: &FleetName, came_ms: u64, message: &[u8]) -> Result<(), FileError> {
        let bytes = blocks(message.len() as u64);
        let (key, held) = {
            let mut state = self.state();
            let all = (*fleet, 0)..=(*fleet, u64::MAX);
            let held: u64 = state.waiting.range(all).map(|(_, waiting)| waiting.bytes).sum();
            let free = BYTES.saturating_sub(state.bytes);
            if free < bytes || !self.share.admits(held, free) {
                state.drop_one("there is no room for more messages for fleets that are not registered");
                return Ok(());
            }
            let key = (*fleet, state.next);
            (state.next, state.bytes) = (key.1 + 1, state.bytes + bytes);
            // before the file is written: no window that ends meanwhile is complete without the
            // message
            state.waiting.insert(key, Waiting::new(bytes, came_ms, false));
            (key, held)
        };
        let written = write_secret(&self.path(key, came_ms), message);
        let mut state = self.state();
        if let Err(error) = written {
            state.waiting.remove(&key);
            state.bytes = state.bytes.saturating_sub(bytes);
            return Err(error);
        }
        if let Some(waiting) = state.waiting.get_mut(&key) {
            waiting.written = true;
        }
        if held == 0 {
            tracing::info!("a message for a fleet that is not registered is kept until it is");
        }
        state.counts.kept += 1;
        Ok(())
    }

    /// Counts a message under a topic that names no fleet.
    pub(super) fn nobodys(&self) {
        self.state().drop_one("its topic names no fleet");
    }

    /// Fleets with waiting messages.
    pub(super) fn fleets(&self) -> BTreeSet<FleetName> {
        self.state().waiting.keys().map(|key| key.0).collect()
    }

    /// Whether messages for a fleet wait on the disk.
    pub(super) fn holds(&self, fleet: &FleetName) -> bool {
        self.state().waiting.range((*fleet, 0)..=(*fleet, u64::MAX)).any(|(_, waiting)| waiting.written)
    }

    /// The arrival of a fleet's first waiting message, in milliseconds since 1970; `None` if no
    /// message waits.
    pub(super) fn first_ms(&self, fleet: &FleetName) -> Option<u64> {
        let all = (*fleet, 0)..=(*fleet, u64::MAX);
        self.state().waiting.range(all).map(|(_, waiting)| waiting.came_ms).min()
    }

    /// The oldest messages of a fleet, at most `most`, as they arrived. Unreadable messages are set
    /// aside, some only after [`TRIES`], so there may be more even if the answer is empty.
    ///
    /// # Errors
    /// [`FileError`] if a later try may succeed.
    pub(super) fn oldest(&self, fleet: &FleetName, most: usize) -> Result<Vec<Message>, FileError> {
        let all = (*fleet, 0)..=(*fleet, u64::MAX);
        let waiting: Vec<(Key, u64)> = {
            let state = self.state();
            let written = state.waiting.range(all).filter(|(_, waiting)| waiting.written).take(most);
            written.map(|(key, waiting)| (*key, waiting.came_ms)).collect()
        };
        let mut messages = Vec::with_capacity(waiting.len());
        for (key, came_ms) in waiting {
            match read_bounded(&self.path(key, came_ms), BYTES) {
                Ok(bytes) => messages.push(Message { number: key.1, came_ms, bytes }),
                Err(error) if self.state().may_pass(&key, &error) => return Err(error),
                Err(error) => self.state().set_aside(&key, &error),
            }
        }
        Ok(messages)
    }

    /// Removes a message whose frames are stored.
    pub(super) fn taken(&self, fleet: &FleetName, number: u64) {
        let mut state = self.state();
        if self.forget(&mut state, (*fleet, number)) {
            state.counts.taken += 1;
        }
    }

    /// Removes a message. If its file cannot be removed, the next start reads it again, and its
    /// frames are duplicates.
    fn forget(&self, state: &mut State, key: Key) -> bool {
        let Some(waiting) = state.waiting.remove(&key) else { return false };
        state.bytes = state.bytes.saturating_sub(waiting.bytes);
        let _ = fs::remove_file(self.path(key, waiting.came_ms));
        true
    }

    /// Drops messages that waited too long.
    pub(super) fn expire(&self, now: Instant) {
        let mut state = self.state();
        let old = |waiting: &Waiting| now.saturating_duration_since(waiting.since) >= LIFE;
        let old: Vec<_> = state.waiting.iter().filter(|(_, waiting)| old(waiting)).map(|(key, _)| *key).collect();
        for key in old {
            self.forget(&mut state, key);
            state.drop_one("its fleet was not registered within a day");
        }
    }

    /// The numbers of messages by outcome.
    pub(super) fn counts(&self) -> KeptCounts {
        let state = self.state();
        KeptCounts { waiting: state.waiting.len() as u64, ..state.counts }
    }
}

fn blocks(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(BLOCK)
}

/// The fleet, number and time of arrival in the name of a message's file.
fn parse(name: &str) -> Option<(Key, u64)> {
    let (fleet, rest) = name.split_once('-')?;
    let (number, came_ms) = rest.split_once('-')?;
    let [number, came_ms] = [unhex_lower::<8>(number)?, unhex_lower::<8>(came_ms)?].map(u64::from_be_bytes);
    Some(((unhex_lower(fleet)?, number), came_ms))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn fault_12_messages_that_wait_are_bounded_shared_and_in_their_order_after_a_restart_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unregistered");
        let (one, other) = ([1; 8], [2; 8]);
        let kept = WaitingMessages::open(&path, Share::new(50)).unwrap();
        let message = |i: u64| vec![i as u8; 5_000];
        for i in 0..BYTES / 8192 {
            kept.keep(&one, 1000 + i, &message(i)).unwrap();
        }
        let half = BYTES / 8192 / 2;
        let counts = KeptCounts { kept: half, dropped: half, waiting: half, taken: 0 };
        assert_eq!(kept.counts(), counts, "one name takes half, the rest is counted");
        kept.keep(&other, 9000, &message(7)).unwrap();
        assert_eq!(kept.counts(), KeptCounts { kept: half + 1, waiting: half + 1, ..counts }, "others have room");
        drop(kept);
        // an incomplete message: the server was killed while it wrote
        fs::write(path.join(".tmp1"), b"half").unwrap();
        let kept = WaitingMessages::open(&path, Share::new(50)).unwrap();
        assert_eq!((kept.counts().waiting, kept.fleets().len()), (half + 1, 2));
        let two = kept.oldest(&one, 2).unwrap();
        let two: Vec<_> = two.into_iter().map(|found| (found.number, found.came_ms, found.bytes)).collect();
        assert!(two == [(0, 1000, message(0)), (1, 1001, message(1))]);
        assert_eq!((kept.first_ms(&one), kept.first_ms(&[3; 8])), (Some(1000), None));
        kept.taken(&one, 0);
        kept.taken(&one, 0);
        assert_eq!((kept.oldest(&one, 1).unwrap()[0].number, kept.first_ms(&one)), (1, Some(1001)));
        assert_eq!((kept.counts().taken, kept.counts().waiting), (1, half));
        kept.keep(&one, 9001, &message(9)).unwrap();
        let all = kept.oldest(&one, usize::MAX).unwrap();
        assert!(all.is_sorted_by_key(|found| found.number) && all.last().unwrap().bytes == message(9));
        kept.expire(Instant::now() + LIFE - Duration::from_secs(1));
        assert!(kept.holds(&one) && kept.holds(&other));
        kept.expire(Instant::now() + LIFE);
        assert_eq!((kept.counts().waiting, fs::read_dir(&path).unwrap().count()), (0, 0));
        kept.keep(&one, 9002, &message(1)).unwrap();
        assert!(kept.holds(&one), "there is room again");
    }

    #[test]
    fn fault_12_a_message_that_cannot_be_read_stops_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unregistered");
        let (one, other) = ([1; 8], [2; 8]);
        let kept = WaitingMessages::open(&path, Share::new(100)).unwrap();
        for i in 0..6 {
            kept.keep(&one, 100 + i, &[i as u8]).unwrap();
        }
        kept.keep(&other, 200, b"other").unwrap();
        let file = |number: u64| path.join(format!("{}-{number:016x}-{:016x}", hex(&one), 100 + number));
        // one file was removed by hand, one is now a folder, and one is longer than any message
        fs::remove_file(file(0)).unwrap();
        fs::remove_file(file(1)).unwrap();
        fs::create_dir(file(1)).unwrap();
        fs::File::options().write(true).open(file(2)).unwrap().set_len(BYTES + 1).unwrap();
        let found = |most| -> Vec<u8> {
            kept.oldest(&one, most).unwrap().into_iter().flat_map(|message| message.bytes).collect()
        };
        assert_eq!((found(2), kept.holds(&one)), (vec![], true), "there are more");
        assert_eq!(found(3), [3, 4]);
        assert_eq!(found(9), [3, 4, 5]);
        assert_eq!(kept.counts(), KeptCounts { kept: 7, taken: 0, dropped: 2, waiting: 4 });
        assert_eq!(kept.state().bytes, 4 * BLOCK);
        assert_eq!(kept.oldest(&other, 9).unwrap().len(), 1);
        // a system error that is not a file's fault is no reason to drop a message
        let failed = |source| FileError::Read { name: String::new(), source };
        let pass = |source: io::Error| kept.state().may_pass(&(one, 5), &failed(source));
        for _ in 0..2 * TRIES {
            assert!(pass(io::ErrorKind::OutOfMemory.into()));
            assert!(!cfg!(unix) || pass(io::Error::from_raw_os_error(24)));
            assert!(!pass(io::ErrorKind::NotFound.into()));
        }
        // a disk that fails briefly loses nothing, and one that fails permanently blocks nothing
        let tries: Vec<bool> = (0..TRIES).map(|_| pass(io::Error::other("?"))).collect();
        assert_eq!(tries.iter().filter(|pass| **pass).count(), usize::from(TRIES) - 1);
        assert!(!tries[usize::from(TRIES) - 1]);
        // the next start finds the readable messages, and reports the others again
        drop(kept);
        let kept = WaitingMessages::open(&path, Share::new(100)).unwrap();
        assert_eq!(kept.counts(), KeptCounts { kept: 0, taken: 0, dropped: 1, waiting: 4 });
        assert_eq!((kept.oldest(&one, 9).unwrap().len(), kept.first_ms(&one)), (3, Some(103)));
    }

    #[test]
    fn fault_12_what_is_no_message_in_the_folder_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unregistered");
        let name = format!("{}-{:016x}-{:016x}", hex(&[1; 8]), 0, 5);
        let other = name.replace('-', "_");
        let (folders, files) = ([".tmp-folder", "folder", name.as_str()], ["notes", other.as_str()]);
        for below in folders {
            fs::create_dir_all(path.join(below).join("below")).unwrap();
        }
        for file in files.into_iter().chain([".tmp1"]) {
            fs::write(path.join(file), b"text").unwrap();
        }
        let kept = WaitingMessages::open(&path, Share::new(100)).unwrap();
        assert_eq!(kept.counts(), KeptCounts::default());
        let mut left: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected = [&folders[..], &files[..]].concat();
        expected.sort_unstable();
        assert_eq!(left, expected, "half of a message alone is gone");
    }
}
