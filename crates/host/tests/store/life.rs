//! The start and the end of a store.

use crate::setup::{filled, open, with_each_engine, write_all};
use std::time::Duration;
use tobari_host::store::testing::measure_with;
use tobari_host::store::{Blocks, Folder, Store, measure};

#[test]
fn dropped_with_transfers_in_flight_every_block_returns_and_nothing_writes_to_it_later() {
    let name = "dropped_with_transfers_in_flight_every_block_returns_and_nothing_writes_to_it_later";
    with_each_engine(name, |engine| {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..4 {
            let blocks = Blocks::new(64 << 20);
            let mut store = open(folder.path(), engine);
            write_all(&mut store, (0..3).map(|object| (object, filled(&blocks, 20 << 20, object))));
            for object in 0..3 {
                store.read(object, blocks.take(20 << 20).unwrap()).unwrap();
            }
            std::thread::sleep(Duration::from_millis(round));
            drop(store);
            assert_eq!(blocks.used_bytes(), 0, "a block was leaked");
            let mut again: Vec<_> = (0..3).map(|_| blocks.take(20 << 20).unwrap()).collect();
            again.iter_mut().for_each(|block| block.fill(0xEE));
            std::thread::sleep(Duration::from_millis(20));
            assert!(again.iter().all(|block| block.iter().all(|&byte| byte == 0xEE)), "written to after its end");
        }
    });
}

#[test]
fn a_store_dropped_while_writing_returns_its_blocks() {
    with_each_engine("a_store_dropped_while_writing_returns_its_blocks", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let blocks = Blocks::new(64 << 20);
        let mut store = open(folder.path(), engine);
        for object in 0..3 {
            store.write(object, filled(&blocks, 20 << 20, object)).unwrap();
        }
        drop(store);
        assert_eq!(blocks.used_bytes(), 0);
    });
}

#[test]
fn no_name_is_in_the_folder_while_a_store_runs_or_after() {
    with_each_engine("no_name_is_in_the_folder_while_a_store_runs_or_after", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut store = open(folder.path(), engine);
        let blocks = Blocks::new(8 << 20);
        write_all(&mut store, [(0, filled(&blocks, 1 << 20, 0))]);
        assert!(cfg!(not(unix)) || names() == 0);
        drop(store);
        assert_eq!(names(), 0);
    });
}

#[test]
fn a_wait_with_nothing_under_way_returns_at_once() {
    with_each_engine("a_wait_with_nothing_under_way_returns_at_once", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), engine);
        assert!(store.completed(true).unwrap().is_empty() && store.completed(false).unwrap().is_empty());
    });
}

#[test]
fn measuring_ends_in_its_time_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Folder { path: folder.path().into(), quota_bytes: None };
    let start = std::time::Instant::now();
    let speed = measure(&whole, 0.3).unwrap();
    assert!(speed.read_bytes_per_s > 0.0 && speed.write_bytes_per_s > 0.0);
    assert!(speed.latency_s > 0.0 && speed.latency_s < 3.0);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    with_each_engine("measuring_ends_in_its_time_and_leaves_nothing", |engine| {
        let speed = measure_with(&whole, 0.1, engine).unwrap();
        assert!(speed.read_bytes_per_s > 0.0 && !speed.engine.is_empty());
        // Also within a quota.
        let small = Folder { quota_bytes: Some(4 << 20), ..whole.clone() };
        assert!(measure_with(&small, 0.1, engine).unwrap().write_bytes_per_s > 0.0);
    });
}
