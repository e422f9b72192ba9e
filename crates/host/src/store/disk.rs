//! The store on disk: the places of objects, and the running transfers.

use super::backing::{Backing, is_full};
use super::block::{Block, Piece};
use super::engine::{Done, Engine, Job};
use super::extents::Extent;
use super::mapping::PAGE;
use super::{Completion, Kind, Options, Refused, Statistics, Store, StoreError};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use twox_hash::XxHash3_64;

/// How often a request is repeated after a temporary refusal of the system.
const RETRIES: u32 = 1000;

/// A [`Store`] in unnamed files, one in each folder.
///
/// Dropping it drops transfers that have not started, and waits for running ones.
pub struct DiskStore {
    engine: Engine,
    files: Arc<[File]>,
    folders: Vec<Backing>,
    objects: HashMap<u64, Entry>,
    operations: HashMap<u64, Operation>,
    ended: Vec<Completion>,
    request_bytes: usize,
    next_tag: u64,
    statistics: Statistics,
}

/// An object's entry in the index.
struct Entry {
    object: Arc<Object>,
    /// Whether its write has completed.
    written: bool,
}

/// An object's place. The index and every running operation hold it; dropping the last reference
/// frees the place.
struct Object {
    folder: usize,
    extent: Extent,
    len: usize,
    checksum: u64,
}

/// A running transfer, in pieces.
struct Operation {
    id: u64,
    kind: Kind,
    object: Arc<Object>,
    /// The first failure of a piece.
    failure: Option<StoreError>,
    /// Whether the failure was a full disk of the folder.
    full: bool,
}

impl DiskStore {
    /// Makes the backing files and starts the engine.
    ///
    /// # Errors
    ///
    /// [`StoreError::Options`], [`StoreError::Open`] for a folder, [`StoreError::Engine`].
    pub fn open(options: &Options) -> Result<Self, StoreError> {
        Self::open_with(options, |files| Engine::start(options.engine, options.depth, files))
    }

    pub(super) fn open_with(
        options: &Options,
        start: impl FnOnce(&Arc<[File]>) -> Result<Engine, StoreError>,
    ) -> Result<Self, StoreError> {
        check(options)?;
        let opened: Result<Vec<_>, _> = options.folders.iter().map(Backing::open).collect();
        let (folders, files): (Vec<Backing>, Vec<File>) = opened?.into_iter().unzip();
        let files: Arc<[File]> = files.into();
        Ok(Self {
            engine: start(&files)?,
            files,
            folders,
            objects: HashMap::new(),
            operations: HashMap::new(),
            ended: Vec::new(),
            request_bytes: options.request_bytes,
            next_tag: 0,
            statistics: Statistics::default(),
        })
    }

    /// Whether the transfers of every folder bypass the page cache.
    pub fn direct(&self) -> bool {
        self.folders.iter().all(|folder| folder.direct)
    }

    /// For each folder, in order: its path, and the bytes of its objects in whole pages.
    pub fn used(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.folders.iter().map(|folder| (folder.path.as_path(), folder.used_bytes()))
    }

    /// An object's place: the file, the offset, and the length.
    pub(super) fn place_of(&self, object: u64) -> Option<(&File, u64, usize)> {
        let object = &self.objects.get(&object)?.object;
        Some((&self.files[object.folder], object.extent.start, object.len))
    }

    /// A place in the first folder with space, from folder `first` on.
    fn place(&mut self, object: u64, bytes: u64, first: usize) -> Result<(usize, Extent), StoreError> {
        for (index, (folder, file)) in self.folders.iter_mut().zip(self.files.iter()).enumerate().skip(first) {
            let extent = folder.allocate(file, bytes).map_err(|source| StoreError::Io {
                object,
                path: folder.path.clone(),
                kind: Kind::Write,
                source,
            })?;
            if let Some(extent) = extent {
                return Ok((index, extent));
            }
        }
        let free = self.folders.iter().zip(self.files.iter()).map(|(folder, file)| folder.free_bytes(file)).sum();
        Err(StoreError::Full { needed: bytes, free })
    }

    fn refuses_write(&self, object: u64) -> Result<(), StoreError> {
        self.engine.check()?;
        if self.objects.contains_key(&object) { Err(StoreError::Exists { object }) } else { Ok(()) }
    }

    fn find(&self, object: u64, len: usize) -> Result<Arc<Object>, StoreError> {
        self.engine.check()?;
        let entry = self.objects.get(&object).ok_or(StoreError::Unknown { object })?;
        if !entry.written {
            return Err(StoreError::Unfinished { object });
        }
        if entry.object.len != len {
            return Err(StoreError::Length { object, expected: entry.object.len, found: len });
        }
        Ok(Arc::clone(&entry.object))
    }

    /// Hands a block's pieces to the engine.
    fn start(&mut self, id: u64, kind: Kind, object: Arc<Object>, block: Block) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let (file, mut offset) = (object.folder, object.extent.start);
        self.operations.insert(tag, Operation { id, kind, object, failure: None, full: false });
        self.engine.push(Piece::split(block, self.request_bytes).map(|piece| {
            let job = Job { tag, kind, file, offset, piece, retries: 0 };
            offset += job.piece.len() as u64;
            job
        }));
    }

    /// Handles the end of one request: its piece is done, or its remaining bytes are requested
    /// again. The latter is so rare that it may wait for the caller's next call.
    fn settle(&mut self, done: Done) {
        let Done { mut job, outcome } = done;
        let Some(operation) = self.operations.get_mut(&job.tag) else { return };
        let folder = &self.folders[job.file];
        let again = match outcome {
            Ok(moved) => {
                // A direct transfer continues only at a whole page.
                let moved = if moved < job.piece.len() && folder.direct { moved / PAGE * PAGE } else { moved };
                count(&mut self.statistics, job.kind, moved);
                job.piece.skip(moved);
                job.offset += moved as u64;
                if moved == 0 {
                    let (object, path, missing) = (operation.id, folder.path.clone(), job.piece.len());
                    operation.failure.get_or_insert(StoreError::Short { object, path, kind: job.kind, missing });
                }
                moved > 0 && job.piece.len() > 0
            }
            Err(error) if is_passing(&error) && job.retries < RETRIES => {
                job.retries += 1;
                true
            }
            Err(source) => {
                operation.full |= job.kind == Kind::Write && is_full(&source);
                let (object, path) = (operation.id, folder.path.clone());
                operation.failure.get_or_insert(StoreError::Io { object, path, kind: job.kind, source });
                false
            }
        };
        if again && operation.failure.is_none() {
            self.engine.push(std::iter::once(job));
            return;
        }
        let tag = job.tag;
        if let Some(block) = job.piece.finish()
            && let Some(operation) = self.operations.remove(&tag)
        {
            match operation.kind {
                Kind::Read => self.end_read(operation, block),
                Kind::Write => self.end_write(operation, block),
            }
        }
    }

    fn end_read(&mut self, operation: Operation, block: Block) {
        let Operation { id, object, failure, .. } = operation;
        let outcome = match failure {
            Some(error) => Err(error),
            None if XxHash3_64::oneshot(&block) == object.checksum => Ok(()),
            None => Err(StoreError::Corrupted { object: id, path: self.folders[object.folder].path.clone() }),
        };
        self.let_go(object);
        self.ended.push(Completion { object: id, kind: Kind::Read, block, outcome });
    }

    fn end_write(&mut self, operation: Operation, block: Block) {
        let Operation { id, object, failure, full, .. } = operation;
        // The object may have been discarded since, and even written anew.
        let current = self.objects.get(&id).is_some_and(|entry| Arc::ptr_eq(&entry.object, &object));
        let outcome = match failure {
            Some(_) if full && current => match self.place(id, object.extent.length, object.folder + 1) {
                Ok((folder, extent)) => return self.move_on(id, object, (folder, extent), block),
                Err(error) => Err(error),
            },
            Some(error) => Err(error),
            None => Ok(()),
        };
        if current {
            if outcome.is_ok() {
                self.objects.entry(id).and_modify(|entry| entry.written = true);
            } else {
                self.discard(id);
            }
        }
        self.let_go(object);
        self.ended.push(Completion { object: id, kind: Kind::Write, block, outcome });
    }

    /// Writes an object again at a place with space, after the disk of its first place was full.
    fn move_on(&mut self, id: u64, before: Arc<Object>, place: (usize, Extent), block: Block) {
        let (folder, extent) = place;
        let object = Arc::new(Object { folder, extent, len: before.len, checksum: before.checksum });
        self.objects.insert(id, Entry { object: Arc::clone(&object), written: false });
        self.let_go(before);
        self.start(id, Kind::Write, object, block);
    }

    fn let_go(&mut self, object: Arc<Object>) {
        if let Some(last) = Arc::into_inner(object) {
            self.folders[last.folder].release(last.extent);
        }
    }
}

impl Store for DiskStore {
    fn write(&mut self, object: u64, data: Block) -> Result<(), Refused> {
        let bytes = data.transfer_bytes() as u64;
        let place = self.refuses_write(object).and_then(|()| self.place(object, bytes, 0));
        let (folder, extent) = match place {
            Ok(place) => place,
            Err(error) => return Err(Refused { error, block: data }),
        };
        let checksum = XxHash3_64::oneshot(&data);
        let placed = Arc::new(Object { folder, extent, len: data.len(), checksum });
        self.objects.insert(object, Entry { object: Arc::clone(&placed), written: false });
        self.start(object, Kind::Write, placed, data);
        Ok(())
    }

    fn read(&mut self, object: u64, into: Block) -> Result<(), Refused> {
        match self.find(object, into.len()) {
            Ok(found) => {
                self.start(object, Kind::Read, found, into);
                Ok(())
            }
            Err(error) => Err(Refused { error, block: into }),
        }
    }

    fn completed(&mut self, wait: bool) -> Result<Vec<Completion>, StoreError> {
        loop {
            let waits = wait && self.ended.is_empty() && !self.operations.is_empty();
            let before = Instant::now();
            let done = self.engine.done(waits);
            if waits {
                self.statistics.waited_seconds += before.elapsed().as_secs_f64();
            }
            match done {
                Ok(done) => done.into_iter().for_each(|done| self.settle(done)),
                // Report ended transfers first.
                Err(_) if !self.ended.is_empty() => {}
                Err(error) => return Err(error),
            }
            if !wait || !self.ended.is_empty() || self.operations.is_empty() {
                return Ok(std::mem::take(&mut self.ended));
            }
        }
    }

    fn discard(&mut self, object: u64) {
        if let Some(entry) = self.objects.remove(&object) {
            self.let_go(entry.object);
        }
    }

    fn statistics(&self) -> Statistics {
        Statistics { most_in_flight: self.engine.most_in_flight(), ..self.statistics }
    }

    fn name(&self) -> &'static str {
        match (self.engine.name(), self.direct()) {
            ("io_uring", false) => "io_uring, buffered",
            ("threads", false) => "threads, buffered",
            (name, _) => name,
        }
    }
}

fn check(options: &Options) -> Result<(), StoreError> {
    let wrong = |expected, found| Err(StoreError::Options { expected, found });
    let Options { folders, request_bytes, depth, .. } = options;
    if folders.is_empty() {
        return wrong("at least one folder", 0);
    }
    if !(PAGE..=4 << 20).contains(request_bytes) || !request_bytes.is_multiple_of(PAGE) {
        return wrong("requests of a multiple of 4096 bytes, 4 MiB at most", *request_bytes);
    }
    if !(1..=256).contains(depth) {
        return wrong("1 to 256 requests in flight", *depth);
    }
    Ok(())
}

fn count(statistics: &mut Statistics, kind: Kind, bytes: usize) {
    let (total, requests) = match kind {
        Kind::Read => (&mut statistics.read_bytes, &mut statistics.read_requests),
        Kind::Write => (&mut statistics.written_bytes, &mut statistics.write_requests),
    };
    *total += bytes as u64;
    *requests += 1;
}

/// Whether a repetition of the request may succeed.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::super::engine::{Transfer, transfer};
    use super::super::{Blocks, Folder};
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tempfile::TempDir;

    const LEN: usize = 5 * PAGE - 100;

    /// A store over two folders whose transfers the test provides.
    fn store_on(transfer: impl Transfer) -> (DiskStore, [TempDir; 2], Blocks) {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let as_option = |folder: &TempDir| Folder { path: folder.path().into(), quota_bytes: None };
        let options = Options {
            folders: folders.iter().map(as_option).collect(),
            request_bytes: 2 * PAGE,
            ..Options::in_folder("")
        };
        let store = DiskStore::open_with(&options, |files| Engine::threads_with(3, files, transfer)).unwrap();
        (store, folders, Blocks::new(1 << 20))
    }

    fn numbered(blocks: &Blocks, object: u64) -> Block {
        let mut block = blocks.take(LEN).unwrap();
        (0_u64..).zip(block.iter_mut()).for_each(|(at, byte)| *byte = (at / 7 + at * object) as u8);
        block
    }

    fn one(store: &mut DiskStore) -> Completion {
        let mut all = store.completed(true).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn short_transfers_and_interruptions_are_continued_to_the_end() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let (mut store, _folders, blocks) =
            store_on(move |file: &File, job: &mut Job| match counted.fetch_add(1, Ordering::Relaxed) % 3 {
                0 => Err(io::ErrorKind::Interrupted.into()),
                1 => Err(io::ErrorKind::WouldBlock.into()),
                _ => transfer(file, job).map(|moved| moved.min(PAGE)),
            });
        store.write(1, numbered(&blocks, 1)).unwrap();
        one(&mut store).outcome.unwrap();
        store.read(1, blocks.take(LEN).unwrap()).unwrap();
        let read = one(&mut store);
        read.outcome.unwrap();
        assert!(*read.block == *numbered(&blocks, 1));
        let statistics = store.statistics();
        assert_eq!((statistics.read_requests, statistics.written_bytes), (5, 5 * PAGE as u64));
        assert!(calls.load(Ordering::Relaxed) >= 30);
    }

    #[test]
    fn a_disk_that_moves_nothing_or_never_has_time_is_an_error_and_no_hang() {
        let (mut store, _folders, blocks) = store_on(|_: &File, _: &mut Job| Ok(0));
        store.write(1, numbered(&blocks, 1)).unwrap();
        let error = one(&mut store).outcome.unwrap_err();
        assert!(matches!(error, StoreError::Short { object: 1, kind: Kind::Write, .. }), "{error}");
        let (mut store, _folders, blocks) = store_on(|_: &File, _: &mut Job| Err(io::ErrorKind::WouldBlock.into()));
        store.write(2, numbered(&blocks, 2)).unwrap();
        let error = one(&mut store).outcome.unwrap_err();
        assert!(matches!(error, StoreError::Io { object: 2, .. }), "{error}");
    }

    #[test]
    fn a_disk_that_vanishes_fails_what_is_under_way_by_its_objects_and_gives_the_blocks_back() {
        let calls = Arc::new(AtomicU32::new(0));
        let (mut store, folders, blocks) = store_on(move |file: &File, job: &mut Job| {
            if calls.fetch_add(1, Ordering::Relaxed) < 4 {
                return transfer(file, job);
            }
            Err(io::Error::other("input/output error"))
        });
        store.write(1, numbered(&blocks, 1)).unwrap();
        one(&mut store).outcome.unwrap();
        store.write(2, numbered(&blocks, 2)).unwrap();
        let write = one(&mut store);
        assert!(*write.block == *numbered(&blocks, 2), "the data is not lost");
        let message = write.outcome.unwrap_err().to_string();
        assert!(message.starts_with("object 2: cannot write") && message.contains(folders[0].path().to_str().unwrap()));
        store.read(1, write.block).unwrap();
        let error = one(&mut store).outcome.unwrap_err();
        assert!(matches!(error, StoreError::Io { object: 1, kind: Kind::Read, .. }), "{error}");
        assert!(matches!(store.read(2, blocks.take(LEN).unwrap()).unwrap_err().error, StoreError::Unknown { .. }));
        assert_eq!(blocks.used_bytes(), 0);
    }

    #[test]
    fn a_disk_found_full_while_writing_hands_the_whole_object_on() {
        let (mut store, folders, blocks) = store_on(|file: &File, job: &mut Job| {
            // The first pages of an object still fit on the first disk.
            let full = job.kind == Kind::Write && job.file == 0 && !job.offset.is_multiple_of(6 * PAGE as u64);
            if full { Err(io::ErrorKind::StorageFull.into()) } else { transfer(file, job) }
        });
        for object in 1..4 {
            store.write(object, numbered(&blocks, object)).unwrap();
            one(&mut store).outcome.unwrap();
            store.read(object, blocks.take(LEN).unwrap()).unwrap();
            let read = one(&mut store);
            read.outcome.unwrap();
            assert!(*read.block == *numbered(&blocks, object));
            assert_eq!(store.objects[&object].object.folder, 1);
        }
        assert_eq!(store.folders[0].path, folders[0].path());
        let (mut store, _folders, blocks) = store_on(|_: &File, _: &mut Job| Err(io::ErrorKind::StorageFull.into()));
        store.write(1, numbered(&blocks, 1)).unwrap();
        let write = one(&mut store);
        assert!(matches!(write.outcome, Err(StoreError::Full { needed, .. }) if needed == 5 * PAGE as u64));
        assert!(*write.block == *numbered(&blocks, 1), "the data is not lost");
        assert!(store.objects.is_empty() && store.operations.is_empty());
    }

    #[test]
    fn an_engine_that_stops_is_an_error_for_everything_after() {
        let (mut store, _folders, blocks) =
            store_on(|_: &File, _: &mut Job| -> io::Result<usize> { panic!("on purpose") });
        store.write(1, numbered(&blocks, 1)).unwrap();
        assert!(matches!(store.completed(true), Err(StoreError::Engine { .. })));
        assert!(matches!(store.completed(true), Err(StoreError::Engine { .. })));
        let refused = store.write(2, numbered(&blocks, 2)).unwrap_err();
        assert!(matches!(refused.error, StoreError::Engine { name: "threads", .. }), "{refused}");
    }
}
