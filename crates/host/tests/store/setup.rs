//! Shared by the tests: both engines, random numbers, and waiting.

use std::path::Path;
use tobari_host::store::{Block, Blocks, Choice, Completion, DiskStore, Folder, Options, Store, StoreError};
use tobari_host::testing::not_run;

/// Runs a test with every engine that this system has.
pub(crate) fn with_each_engine(name: &str, test: impl Fn(Choice)) {
    let folder = tempfile::tempdir().unwrap();
    let ring = Options { engine: Choice::IoUring, ..Options::in_folder(folder.path()) };
    match DiskStore::open(&ring) {
        Ok(_) => test(Choice::IoUring),
        Err(error) => not_run(name, &format!("no ring: {error}")),
    }
    test(Choice::Threads);
}

pub(crate) fn open(folder: &Path, engine: Choice) -> DiskStore {
    DiskStore::open(&Options { engine, ..Options::in_folder(folder) }).unwrap()
}

/// One store over folders with quotas.
pub(crate) fn open_limited(folders: &[(&Path, u64)], engine: Choice) -> DiskStore {
    let folders =
        folders.iter().map(|&(path, quota)| Folder { path: path.to_path_buf(), quota_bytes: Some(quota) }).collect();
    DiskStore::open(&Options { folders, request_bytes: 4096, depth: 4, engine }).unwrap()
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Bytes that differ from one object to another and from one place to another.
pub(crate) fn filled(blocks: &Blocks, len: usize, seed: u64) -> Block {
    let mut block = blocks.take(len).unwrap();
    let mut random = Random(seed);
    for chunk in block.chunks_mut(8) {
        let word = random.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    block
}

/// Waits for all running transfers, and returns their completions.
pub(crate) fn drain(store: &mut dyn Store) -> Vec<Completion> {
    let mut all = Vec::new();
    loop {
        let some = store.completed(true).unwrap();
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

pub(crate) fn write_all(store: &mut dyn Store, objects: impl IntoIterator<Item = (u64, Block)>) {
    for (object, block) in objects {
        store.write(object, block).unwrap();
    }
    for completion in drain(store) {
        completion.outcome.unwrap();
    }
}

/// Reads one object, alone.
pub(crate) fn read(store: &mut dyn Store, object: u64, into: Block) -> Result<Block, StoreError> {
    store.read(object, into)?;
    let completion = drain(store).pop().expect("one read was under way");
    completion.outcome.map(|()| completion.block)
}
