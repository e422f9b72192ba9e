//! Storage that fails under the store and works again later: every kind of failure, at every write
//! of a history.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::super::reopening::{PAUSE, Reopening};
use super::*;
use redb::StorageBackend;
use redb::backends::FileBackend;
use std::fs::OpenOptions;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering::SeqCst};
use std::thread::sleep;

const FRAME: usize = 840;

/// The behaviour of the storage: this many writes succeed, and then all fail with this error until
/// it is changed.
#[derive(Debug, Default)]
struct Mood {
    good: AtomicI64,
    error: AtomicI32,
}

impl Mood {
    /// Fails with this error after this many writes.
    fn fail(&self, error: i32, after: i64) {
        self.good.store(after, SeqCst);
        self.error.store(error, SeqCst);
    }

    fn write(&self) -> Result<(), Error> {
        match self.error.load(SeqCst) {
            0 => Ok(()),
            _ if self.good.fetch_sub(1, SeqCst) > 0 => Ok(()),
            error => Err(Error::from_raw_os_error(error)),
        }
    }
}

/// A file whose writes, growth and flushes fail by its mood. Data written before a failure stays.
#[derive(Debug)]
struct Moody {
    file: FileBackend,
    mood: Arc<Mood>,
}

impl StorageBackend for Moody {
    fn len(&self) -> Result<u64, Error> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.mood.write()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> Result<(), Error> {
        self.mood.write()?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.mood.write()?;
        self.file.write(offset, data)
    }
    fn close(&self) -> Result<(), Error> {
        self.file.close()
    }
}

/// A store on such a file.
fn store(path: &Path, mood: &Arc<Mood>) -> FrameStore {
    let (path, mood) = (path.to_owned(), Arc::clone(mood));
    let open = move |_| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let backend = Moody { file: FileBackend::new(file)?, mood: Arc::clone(&mood) };
        Opened::of(Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend)?)
    };
    FrameStore { database: Reopening::new(false, open).unwrap() }
}

fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![7; FRAME];
    frame[..4].copy_from_slice(&number.to_be_bytes());
    frame
}

fn numbers(store: &FrameStore) -> Vec<u32> {
    let mut all = Vec::new();
    store
        .window(0, u64::MAX, |bytes| {
            all.extend(bytes.chunks(FRAME).map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap())));
        })
        .unwrap();
    all
}

/// Checks that the group of four frames at the failure is stored as a whole or not at all.
fn expected(acknowledged: &[u32], found: &[u32], group: &[u32]) {
    let with = [acknowledged, group].concat();
    assert!(found == acknowledged || found == with, "{acknowledged:?} were acknowledged, found {found:?}");
}

#[test]
fn fault_25_a_store_whose_disk_fails_anywhere_opens_again_with_all_that_was_acknowledged_and_nothing_twice() {
    let errors = [(28, Trouble::Full), (122, Trouble::Full), (30, Trouble::ReadOnly), (5, Trouble::Failing)];
    let histories: Vec<_> =
        errors.into_iter().flat_map(|error| [0, 1, 2, 3, 5, 8].map(|after| (error, after))).collect();
    // in parallel, as each history waits for the pause twice
    std::thread::scope(|scope| {
        for ((error, trouble), after) in histories {
            scope.spawn(move || history(error, trouble, after));
        }
    });
}

fn history(error: i32, trouble: Trouble, after: i64) {
    let folder = tempfile::tempdir().unwrap();
    let (path, mood) = (folder.path().join("frames.redb"), Arc::new(Mood::default()));
    let store_now = store(&path, &mood);
    let append = |store: &FrameStore, group: &[u32]| {
        let frames: Vec<u8> = group.iter().flat_map(|number| frame(*number)).collect();
        store.append(1000, FRAME, &frames, &[(1, [group[0] as u8; STATE_BYTES])])
    };
    append(&store_now, &[1, 2, 3, 4]).unwrap();
    mood.fail(error, after);
    // the disk fails while groups arrive: sooner or later one is rejected, with the disk's own
    // reason
    let (mut acknowledged, mut next) = (vec![1, 2, 3, 4], 5);
    let failed = loop {
        let group = [next, next + 1, next + 2, next + 3];
        next += 4;
        match append(&store_now, &group) {
            Ok(_) => acknowledged.extend(group),
            Err(found) => break (found, group),
        }
        assert!(next < 1000, "the disk fails, and everything is acknowledged");
    };
    assert_eq!(failed.0.trouble(), Some(trouble), "{error} after {after}: {}", failed.0);
    // from now on every call fails, and at once
    let began = std::time::Instant::now();
    assert_eq!(store_now.trouble(), Some(trouble));
    for _ in 0..100 {
        assert_eq!(append(&store_now, &[900]).unwrap_err().trouble(), Some(trouble));
        assert!(store_now.frames().is_err() && store_now.note_done("q", 1).is_err());
    }
    assert!(began.elapsed() < PAUSE, "refusals wait for nothing");
    // the next attempt fails again
    sleep(PAUSE);
    assert!(!store_now.recover() && append(&store_now, &[901]).is_err());
    // the disk works, and so does the store, without a restart
    mood.fail(0, 0);
    let began = std::time::Instant::now();
    while !store_now.recover() {
        assert!(began.elapsed() < 20 * PAUSE, "the disk works and the store does not: {:?}", store_now.trouble());
        sleep(PAUSE / 10);
    }
    assert_eq!(store_now.trouble(), None);
    let found = numbers(&store_now);
    expected(&acknowledged, &found, &failed.1);
    if found.len() == acknowledged.len() {
        append(&store_now, &failed.1).unwrap();
    }
    append(&store_now, &[2000]).unwrap();
    let all = [&acknowledged[..], &failed.1, &[2000]].concat();
    assert_eq!((numbers(&store_now), store_now.frames().unwrap()), (all.clone(), all.len() as u64));
    // a restart finds the same
    drop(store_now);
    assert_eq!(numbers(&store(&path, &mood)), all, "{error} after {after}");
}

#[test]
fn fault_25_a_disk_that_is_full_while_a_store_is_made_leaves_nothing_that_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    // the leftover of an interrupted attempt, and an empty file, as a system leaves if no byte was
    // written
    std::fs::write(path.with_extension("new"), [0; 5000]).unwrap();
    std::fs::write(&path, b"").unwrap();
    let store = FrameStore::open(&path).unwrap();
    store.append(1, FRAME, &frame(1), &[]).unwrap();
    drop(store);
    assert_eq!(numbers(&FrameStore::open(&path).unwrap()), [1]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // another file under its name is not a store, and is left alone
    std::fs::write(&path, b"something else, of somebody else's").unwrap();
    for opened in [FrameStore::open(&path), FrameStore::open_when_it_can(&path, CACHE_BYTES)] {
        assert_eq!(opened.err().and_then(|error| error.trouble()), Some(Trouble::Damaged));
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"something else, of somebody else's");
}

#[test]
fn fault_25_a_server_that_starts_on_a_disk_that_fails_has_a_store_that_opens_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not there yet").join("frames.redb");
    assert!(FrameStore::open(&path).is_err());
    let store = FrameStore::open_when_it_can(&path, CACHE_BYTES).unwrap();
    assert!(store.trouble().is_some() && store.append(1, FRAME, &frame(1), &[]).is_err() && !store.recover());
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    sleep(PAUSE);
    assert!(store.recover() && store.append(1, FRAME, &frame(1), &[]).is_ok());
    assert_eq!((store.trouble(), numbers(&store)), (None, vec![1]));
}
