//! Every read returns the written bytes, in any order of operations.

use crate::setup::{Random, drain, filled, open, read, with_each_engine, write_all};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tobari_host::store::testing::{Faults, FaultyStore};
use tobari_host::store::{Blocks, Choice, DiskStore, Kind, Options, Store, StoreError};

/// Random writes, reads and discards, compared with a map from objects to the seeds and lengths of
/// their bytes.
fn random_interleaving(store: &mut dyn Store, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let blocks = Blocks::new(96 << 20);
    let reference = Blocks::new(20 << 20);
    let (mut oracle, mut writing): (HashMap<u64, usize>, HashSet<u64>) = Default::default();
    let mut next = 0;
    let settle = |store: &mut dyn Store, wait, oracle: &HashMap<u64, usize>, writing: &mut HashSet<u64>| {
        for completion in store.completed(wait).unwrap() {
            completion.outcome.unwrap();
            if completion.kind == Kind::Write {
                assert!(writing.remove(&completion.object));
            } else if let Some(&len) = oracle.get(&completion.object) {
                let expected = filled(&reference, len, completion.object);
                assert!(*completion.block == *expected, "object {} came back otherwise", completion.object);
            }
        }
    };
    for _ in 0..steps {
        let ready: Vec<u64> = oracle.keys().filter(|object| !writing.contains(object)).copied().collect();
        match random.below(8) {
            0..3 => {
                // Few large objects: each power of two is equally likely as a bound of the length.
                let order = random.below(25);
                let len = 1 + random.below(1 << order).min(20_000_000);
                if blocks.used_bytes() + len + 4096 <= blocks.limit_bytes() {
                    store.write(next, filled(&blocks, len, next)).unwrap();
                    oracle.insert(next, len);
                    writing.insert(next);
                    next += 1;
                }
            }
            3..6 if !ready.is_empty() => {
                let object = ready[random.below(ready.len())];
                if let Ok(block) = blocks.take(oracle[&object]) {
                    store.read(object, block).unwrap();
                }
            }
            6 if !oracle.is_empty() => {
                let objects: Vec<u64> = oracle.keys().copied().collect();
                let object = objects[random.below(objects.len())];
                store.discard(object);
                oracle.remove(&object);
            }
            _ => {
                let wait = random.below(2) == 0;
                settle(store, wait, &oracle, &mut writing);
            }
        }
    }
    while blocks.used_bytes() > 0 {
        settle(store, true, &oracle, &mut writing);
    }
    for (&object, &len) in &oracle {
        let block = read(store, object, blocks.take(len).unwrap()).unwrap();
        assert!(*block == *filled(&reference, len, object), "object {object} came back otherwise");
    }
}

#[test]
fn objects_of_all_lengths_come_back_whatever_is_done_between() {
    with_each_engine("objects_of_all_lengths_come_back_whatever_is_done_between", |engine| {
        let folder = tempfile::tempdir().unwrap();
        for seed in 0..3 {
            random_interleaving(&mut open(folder.path(), engine), seed, 120);
        }
    });
}

#[test]
fn completions_out_of_order_and_late_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..3 {
        let faults = Faults { reorder: Some(seed), ..Faults::default() };
        let inner = open(folder.path(), Choice::Auto);
        random_interleaving(&mut FaultyStore::new(inner, faults), seed, 80);
    }
}

#[test]
fn an_object_at_every_edge_of_pages_and_requests_comes_back() {
    with_each_engine("an_object_at_every_edge_of_pages_and_requests_comes_back", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, blocks) = (open(folder.path(), engine), Blocks::new(64 << 20));
        let lens = [0, 1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (6 << 20) + 4096];
        write_all(&mut store, (0..).zip(lens).map(|(object, len)| (object, filled(&blocks, len, object))));
        for (object, len) in (0..).zip(lens) {
            let block = read(&mut store, object, blocks.take(len).unwrap()).unwrap();
            assert!(*block == *filled(&blocks, len, object), "{len} bytes");
        }
    });
}

#[test]
fn the_statistics_count_what_was_moved_and_the_depth_is_kept() {
    with_each_engine("the_statistics_count_what_was_moved_and_the_depth_is_kept", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, blocks) = (open(folder.path(), engine), Blocks::new(64 << 20));
        write_all(&mut store, [(0, filled(&blocks, (24 << 20) - 5, 0))]);
        read(&mut store, 0, blocks.take((24 << 20) - 5).unwrap()).unwrap();
        let statistics = store.statistics();
        assert_eq!((statistics.read_bytes, statistics.written_bytes), (24 << 20, 24 << 20));
        assert!(statistics.read_requests >= 12 && statistics.write_requests >= 12);
        assert!((1..=8).contains(&statistics.most_in_flight), "{}", statistics.most_in_flight);
        assert!(statistics.waited_seconds > 0.0);
        let expected = if engine == Choice::Threads { "threads" } else { "io_uring" };
        assert_eq!(store.name().trim_end_matches(", buffered"), expected);
        assert_eq!(store.direct(), !store.name().ends_with("buffered"));
    });
}

#[test]
fn transfers_go_on_while_nobody_calls() {
    with_each_engine("transfers_go_on_while_nobody_calls", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { engine, depth: 1, ..Options::in_folder(folder.path()) };
        let (mut store, blocks) = (DiskStore::open(&options).unwrap(), Blocks::new(64 << 20));
        // 24 requests, one in flight: a store without its own threads would need a call for each.
        store.write(0, filled(&blocks, 48 << 20, 0)).unwrap();
        let ended = (1..8).any(|call| {
            std::thread::sleep(Duration::from_millis(50 << call));
            !store.completed(false).unwrap().is_empty()
        });
        assert!(ended, "48 MiB took more calls than 7");
    });
}

#[test]
fn an_object_is_written_once_until_it_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, blocks) = (open(folder.path(), Choice::Auto), Blocks::new(1 << 20));
    store.write(5, filled(&blocks, 100, 1)).unwrap();
    let refused = store.write(5, filled(&blocks, 100, 2)).unwrap_err();
    assert!(matches!(refused.error, StoreError::Exists { object: 5 }));
    assert!(*refused.block == *filled(&blocks, 100, 2), "a refused block comes back as it was");
    drain(&mut store);
    assert!(matches!(store.write(5, refused.block).unwrap_err().error, StoreError::Exists { object: 5 }));
    store.discard(5);
    write_all(&mut store, [(5, filled(&blocks, 100, 2))]);
    assert!(*read(&mut store, 5, blocks.take(100).unwrap()).unwrap() == *filled(&blocks, 100, 2));
}

#[test]
fn a_read_of_what_is_not_there_or_not_that_long_or_not_yet_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, blocks) = (open(folder.path(), Choice::Auto), Blocks::new(1 << 20));
    let error = |store: &mut dyn Store, object, len| store.read(object, blocks.take(len).unwrap()).unwrap_err().error;
    assert!(matches!(error(&mut store, 1, 10), StoreError::Unknown { object: 1 }));
    store.write(1, filled(&blocks, 10, 0)).unwrap();
    assert!(matches!(error(&mut store, 1, 10), StoreError::Unfinished { object: 1 }));
    drain(&mut store);
    assert!(matches!(error(&mut store, 1, 11), StoreError::Length { object: 1, expected: 10, found: 11 }));
    store.discard(1);
    assert!(matches!(error(&mut store, 1, 10), StoreError::Unknown { object: 1 }));
}

#[test]
fn an_object_discarded_under_way_still_completes_and_its_number_is_free_at_once() {
    with_each_engine("an_object_discarded_under_way_still_completes_and_its_number_is_free_at_once", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, blocks) = (open(folder.path(), engine), Blocks::new(64 << 20));
        for version in 0..4 {
            store.write(9, filled(&blocks, 5 << 20, version)).unwrap();
            if version < 3 {
                store.discard(9);
            }
        }
        let ended = drain(&mut store);
        assert!(ended.len() == 4 && ended.iter().all(|completion| completion.outcome.is_ok()));
        drop(ended);
        store.read(9, blocks.take(5 << 20).unwrap()).unwrap();
        store.discard(9);
        // No write may use a place that is still being read.
        store.write(10, filled(&blocks, 5 << 20, 10)).unwrap();
        for completion in drain(&mut store) {
            let seed = if completion.kind == Kind::Read { 3 } else { 10 };
            completion.outcome.unwrap();
            assert!(*completion.block == *filled(&blocks, 5 << 20, seed));
        }
    });
}
