//! Faulty disks: the read fails with its object's number, and the store keeps working.

use crate::setup::{drain, filled, open, open_limited, read, with_each_engine, write_all};
use tobari_host::store::testing::{Faults, FaultyStore, flip_bit, swap, truncate};
use tobari_host::store::{Blocks, Choice, DiskStore, Kind, Options, Store, StoreError};

const LEN: usize = (3 << 20) + 777;

#[test]
fn a_flipped_bit_fails_the_read_by_its_object() {
    with_each_engine("a_flipped_bit_fails_the_read_by_its_object", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, blocks) = (open(folder.path(), engine), Blocks::new(32 << 20));
        write_all(&mut store, (0..3).map(|object| (object, filled(&blocks, LEN, object))));
        for bit in [0, 8 * 4096 + 3, 8 * (2 << 20), 8 * LEN - 1] {
            flip_bit(&store, 1, bit).unwrap();
            let error = read(&mut store, 1, blocks.take(LEN).unwrap()).unwrap_err();
            assert!(matches!(&error, StoreError::Corrupted { object: 1, path } if path == folder.path()), "{error}");
            for object in [0, 2] {
                read(&mut store, object, blocks.take(LEN).unwrap()).unwrap();
            }
            flip_bit(&store, 1, bit).unwrap();
            read(&mut store, 1, blocks.take(LEN).unwrap()).unwrap();
        }
    });
}

#[test]
fn objects_that_changed_places_fail_both_reads() {
    with_each_engine("objects_that_changed_places_fail_both_reads", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, blocks) = (open(folder.path(), engine), Blocks::new(32 << 20));
        write_all(&mut store, (0..2).map(|object| (object, filled(&blocks, LEN, object))));
        swap(&store, 0, 1).unwrap();
        for object in 0..2 {
            let error = read(&mut store, object, blocks.take(LEN).unwrap()).unwrap_err();
            assert!(matches!(error, StoreError::Corrupted { .. }) && error.object() == Some(object), "{error}");
        }
    });
}

#[test]
fn a_backing_file_cut_short_fails_the_reads_of_what_it_lost() {
    with_each_engine("a_backing_file_cut_short_fails_the_reads_of_what_it_lost", |engine| {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, blocks) = (open(folder.path(), engine), Blocks::new(32 << 20));
        write_all(&mut store, (0..3).map(|object| (object, filled(&blocks, LEN, object))));
        truncate(&store, 1).unwrap();
        assert!(read(&mut store, 0, blocks.take(LEN).unwrap()).is_ok(), "what lies before the cut is whole");
        for object in 1..3 {
            let error = read(&mut store, object, blocks.take(LEN).unwrap()).unwrap_err();
            assert!(matches!(error, StoreError::Short { kind: Kind::Read, .. }), "{error}");
            assert_eq!(error.object(), Some(object));
        }
    });
}

#[test]
fn a_lost_write_is_not_taken_for_the_object_that_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = Blocks::new(1 << 20);
    let mut store = open_limited(&[(folder.path(), 4 * 4096)], Choice::Auto);
    write_all(&mut store, [(0, filled(&blocks, 8192, 0)), (1, filled(&blocks, 8192, 1))]);
    // The state after a disk acknowledged a write and lost it: the new object's place holds the old
    // bytes.
    swap(&store, 0, 1).unwrap();
    store.discard(0);
    assert!(matches!(read(&mut store, 1, blocks.take(8192).unwrap()), Err(StoreError::Corrupted { object: 1, .. })));
}

#[test]
fn injected_faults_strike_the_operation_they_are_meant_for_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = Blocks::new(1 << 20);
    let faults = Faults { fail_read: Some(2), fail_write: Some(3), flip_read: Some(3), reorder: Some(1) };
    let mut store = FaultyStore::new(open(folder.path(), Choice::Auto), faults);
    for object in 0..4 {
        store.write(object, filled(&blocks, 5000, object)).unwrap();
    }
    let ended = drain(&mut store);
    assert_eq!(ended.len(), 4);
    for completion in ended {
        assert_eq!(completion.outcome.is_ok(), completion.object != 2);
        assert!(*completion.block == *filled(&blocks, 5000, completion.object), "a failed write gives its block back");
    }
    assert!(matches!(read(&mut store, 2, blocks.take(5000).unwrap()), Err(StoreError::Unknown { object: 2 })));
    assert!(read(&mut store, 0, blocks.take(5000).unwrap()).is_ok());
    let error = read(&mut store, 1, blocks.take(5000).unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::Io { object: 1, kind: Kind::Read, .. }), "{error}");
    let flipped = read(&mut store, 3, blocks.take(5000).unwrap()).unwrap();
    let expected = filled(&blocks, 5000, 3);
    let differing: u32 = flipped.iter().zip(expected.iter()).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(differing, 1);
    assert!(flip_bit(store.inner_mut(), 3, 0).is_ok());
}

#[test]
fn options_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = Options::in_folder(folder.path());
    for options in [
        Options { folders: Vec::new(), ..good.clone() },
        Options { request_bytes: 0, ..good.clone() },
        Options { request_bytes: 5000, ..good.clone() },
        Options { request_bytes: 8 << 20, ..good.clone() },
        Options { depth: 0, ..good.clone() },
        Options { depth: 257, ..good.clone() },
    ] {
        assert!(matches!(DiskStore::open(&options), Err(StoreError::Options { .. })), "{options:?}");
    }
    let nowhere = Options::in_folder(folder.path().join("nowhere"));
    let error = DiskStore::open(&nowhere).err().expect("no such folder");
    assert!(matches!(&error, StoreError::Open { path, .. } if path.ends_with("nowhere")), "{error}");
}
