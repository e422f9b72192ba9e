//! Messages of a broker for fleets that are not registered yet.
//!
//! ```text
//!   FOLDER/unregistered/{fleet}-{number}   a message as it came (mode 0600)
//! ```
//!
//! A message that is acknowledged is gone from the broker, and one that is not holds a place there,
//! of which brokers have few: twenty such messages would stop all fleets. So a message for a fleet
//! that is not registered is acknowledged when it is on the disk here, and taken when the fleet is
//! registered. **All of them take [`BYTES`] at most**, of which one fleet's name has a share, and stay
//! for [`LIFE`]. What finds no room is acknowledged and dropped, and counted: the broker sends it again
//! to nobody. Anybody who may publish at the broker may fill that room.

use super::{FleetName, private_folder};
use crate::share::Share;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tobari_apps::sense::enrol::{hex, unhex};
use tobari_host::files::{FileError, read_bounded, write_secret};

/// Bytes of all messages at most, each in whole blocks of the disk.
pub(super) const BYTES: u64 = 16 << 20;
/// Bytes of a block.
const BLOCK: u64 = 4096;
/// How long a message waits: as long as the broker would keep it for a server that is away. A start
/// of the server begins it anew.
pub(super) const LIFE: Duration = Duration::from_secs(super::mqtt::SESSION as u64);

/// A message that waits.
#[derive(Clone, Copy)]
struct Waiting {
    bytes: u64,
    since: Instant,
}

/// What became of messages for fleets that were not registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptCounts {
    /// Written to the disk.
    pub(super) kept: u64,
    /// Taken after their fleet was registered.
    pub(super) taken: u64,
    /// Without room, too old, or under a topic that names no fleet.
    pub(super) dropped: u64,
    /// On the disk.
    pub(super) waiting: u64,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<(FleetName, u64), Waiting>,
    bytes: u64,
    next: u64,
    counts: KeptCounts,
    /// Whether the log says that messages are dropped.
    told: bool,
}

impl State {
    fn drop_one(&mut self, why: &str) {
        self.counts.dropped += 1;
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!("a message of the broker is dropped: {why}. The next ones are counted alone");
        }
    }
}

/// All messages that wait.
pub(super) struct Kept {
    folder: PathBuf,
    share: Share,
    state: Mutex<State>,
}

impl Kept {
    /// In a folder of its own, with what an earlier run left.
    pub(super) fn open(folder: &Path, share: Share) -> io::Result<Self> {
        private_folder(folder)?;
        let mut state = State::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Some(key) = entry.file_name().to_str().and_then(key) else {
                // half of a message, which was not acknowledged
                fs::remove_file(entry.path())?;
                continue;
            };
            let bytes = blocks(entry.metadata()?.len());
            state.bytes += bytes;
            state.next = state.next.max(key.1 + 1);
            state.waiting.insert(key, Waiting { bytes, since: Instant::now() });
        }
        Ok(Self { folder: folder.to_owned(), share, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, (fleet, number): (FleetName, u64)) -> PathBuf {
        self.folder.join(format!("{}-{number:016x}", hex(&fleet)))
    }

    /// Keeps a message: it is on the disk then, or dropped and counted where there is no room.
    ///
    /// # Errors
    /// [`FileError`]: it is not kept, and not to be acknowledged.
    pub(super) fn keep(&self, fleet: &FleetName, message: &[u8]) -> Result<(), FileError> {
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
            ((*fleet, state.next), held)
        };
        write_secret(&self.path(key), message)?;
        let mut state = self.state();
        (state.next, state.bytes) = (key.1 + 1, state.bytes + bytes);
        state.waiting.insert(key, Waiting { bytes, since: Instant::now() });
        if held == 0 {
            tracing::info!("a message for a fleet that is not registered is kept until it is");
        }
        state.counts.kept += 1;
        Ok(())
    }

    /// Counts a message under a topic that no fleet can have.
    pub(super) fn nobodys(&self) {
        self.state().drop_one("its topic names no fleet");
    }

    /// Fleets with messages that wait.
    pub(super) fn fleets(&self) -> BTreeSet<FleetName> {
        self.state().waiting.keys().map(|key| key.0).collect()
    }

    /// Whether there are messages for a fleet.
    pub(super) fn holds(&self, fleet: &FleetName) -> bool {
        self.state().waiting.range((*fleet, 0)..=(*fleet, u64::MAX)).next().is_some()
    }

    /// The oldest messages of a fleet, as they came, so many at most.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn oldest(&self, fleet: &FleetName, most: usize) -> Result<Vec<(u64, Vec<u8>)>, FileError> {
        let all = (*fleet, 0)..=(*fleet, u64::MAX);
        let keys: Vec<_> = self.state().waiting.range(all).take(most).map(|(key, _)| *key).collect();
        keys.into_iter().map(|key| Ok((key.1, read_bounded(&self.path(key), BYTES)?))).collect()
    }

    /// Forgets a message whose frames are stored.
    pub(super) fn taken(&self, fleet: &FleetName, number: u64) {
        let mut state = self.state();
        if self.forget(&mut state, (*fleet, number)) {
            state.counts.taken += 1;
        }
    }

    /// A file that cannot be removed is read again at the next start: its frames are duplicates then.
    fn forget(&self, state: &mut State, key: (FleetName, u64)) -> bool {
        let Some(waiting) = state.waiting.remove(&key) else { return false };
        state.bytes = state.bytes.saturating_sub(waiting.bytes);
        let _ = fs::remove_file(self.path(key));
        true
    }

    /// Drops messages that waited for too long.
    pub(super) fn expire(&self, now: Instant) {
        let mut state = self.state();
        let old = |waiting: &Waiting| now.saturating_duration_since(waiting.since) >= LIFE;
        let old: Vec<_> = state.waiting.iter().filter(|(_, waiting)| old(waiting)).map(|(key, _)| *key).collect();
        for key in old {
            self.forget(&mut state, key);
            state.drop_one("its fleet was not registered within a day");
        }
    }

    /// What was counted.
    pub(super) fn counts(&self) -> KeptCounts {
        let state = self.state();
        KeptCounts { waiting: state.waiting.len() as u64, ..state.counts }
    }
}

fn blocks(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(BLOCK)
}

fn key(name: &str) -> Option<(FleetName, u64)> {
    let (fleet, number) = name.split_once('-')?;
    Some((unhex(fleet)?, u64::from_be_bytes(unhex(number)?)))
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
        let kept = Kept::open(&path, Share::new(50)).unwrap();
        let message = |i: u64| vec![i as u8; 5_000];
        for i in 0..BYTES / 8192 {
            kept.keep(&one, &message(i)).unwrap();
        }
        let half = BYTES / 8192 / 2;
        let counts = KeptCounts { kept: half, dropped: half, waiting: half, taken: 0 };
        assert_eq!(kept.counts(), counts, "one name takes half, the rest is counted");
        kept.keep(&other, &message(7)).unwrap();
        assert_eq!(kept.counts(), KeptCounts { kept: half + 1, waiting: half + 1, ..counts }, "others have room");
        drop(kept);
        // half of a message that was written when the server was killed
        fs::write(path.join(".tmp1"), b"half").unwrap();
        let kept = Kept::open(&path, Share::new(50)).unwrap();
        assert_eq!((kept.counts().waiting, kept.fleets().len()), (half + 1, 2));
        let two = kept.oldest(&one, 2).unwrap();
        assert!(two == [(0, message(0)), (1, message(1))]);
        kept.taken(&one, 0);
        kept.taken(&one, 0);
        assert_eq!(kept.oldest(&one, 1).unwrap()[0].0, 1);
        assert_eq!((kept.counts().taken, kept.counts().waiting), (1, half));
        kept.keep(&one, &message(9)).unwrap();
        let all = kept.oldest(&one, usize::MAX).unwrap();
        assert!(all.is_sorted_by_key(|(number, _)| *number) && all.last().unwrap().1 == message(9));
        kept.expire(Instant::now() + LIFE - Duration::from_secs(1));
        assert!(kept.holds(&one) && kept.holds(&other));
        kept.expire(Instant::now() + LIFE);
        assert_eq!((kept.counts().waiting, fs::read_dir(&path).unwrap().count()), (0, 0));
        kept.keep(&one, &message(1)).unwrap();
        assert!(kept.holds(&one), "there is room again");
    }
}
