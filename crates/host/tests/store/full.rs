//! Full disks: the store uses the next folder, and reports a clear error if none is left.

use crate::setup::{drain, filled, open_limited, read, with_each_engine, write_all};
use tobari_host::store::{Blocks, Choice, Store, StoreError};

const PAGE: u64 = 4096;

#[test]
fn a_folder_over_its_quota_hands_on_to_the_next_and_all_full_is_an_error() {
    with_each_engine("a_folder_over_its_quota_hands_on_to_the_next_and_all_full_is_an_error", |engine| {
        let (fast, slow) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let blocks = Blocks::new(1 << 20);
        let mut store = open_limited(&[(fast.path(), 4 * PAGE), (slow.path(), 3 * PAGE)], engine);
        write_all(&mut store, (0..3).map(|object| (object, filled(&blocks, 8192, object))));
        let refused = store.write(3, filled(&blocks, 8192, 3)).unwrap_err();
        assert!(matches!(refused.error, StoreError::Full { needed: 8192, free: 4096 }), "{refused}");
        assert!(*refused.block == *filled(&blocks, 8192, 3), "the data is not lost");
        for object in 0..3 {
            let block = read(&mut store, object, blocks.take(8192).unwrap()).unwrap();
            assert!(*block == *filled(&blocks, 8192, object));
        }
        store.discard(0);
        write_all(&mut store, [(3, refused.block)]);
        assert!(*read(&mut store, 3, blocks.take(8192).unwrap()).unwrap() == *filled(&blocks, 8192, 3));
    });
}

#[test]
fn discarded_space_is_used_again_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = Blocks::new(1 << 20);
    let mut store = open_limited(&[(folder.path(), 24 * PAGE)], Choice::Auto);
    for round in 0..200 {
        let len = 1 + (round as usize * 7919) % 32_768;
        write_all(&mut store, [(round, filled(&blocks, len, round))]);
        if round > 0 {
            store.discard(round - 1);
        }
    }
    store.discard(199);
    write_all(&mut store, [(200, filled(&blocks, 24 * 4096, 200))]);
}

/// A real full file system. Runs only with permission to mount.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_hands_on_to_the_next_folder() {
    use std::process::Command;
    let (small, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(small.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return tobari_host::testing::not_run("a_full_file_system_hands_on_to_the_next_folder", "may not mount");
    }
    let outcome = std::panic::catch_unwind(|| {
        let blocks = Blocks::new(8 << 20);
        let huge = u64::MAX;
        let mut store = open_limited(&[(small.path(), huge), (other.path(), 1 << 20)], Choice::Auto);
        for object in 0..6 {
            store.write(object, filled(&blocks, 300 << 10, object)).unwrap();
        }
        let refused = store.write(6, filled(&blocks, 300 << 10, 6)).unwrap_err();
        assert!(matches!(refused.error, StoreError::Full { needed: 307_200, free } if free < 2 * 307_200), "{refused}");
        assert!(drain(&mut store).iter().all(|completion| completion.outcome.is_ok()));
        for object in 0..6 {
            let block = read(&mut store, object, blocks.take(300 << 10).unwrap()).unwrap();
            assert!(*block == *filled(&blocks, 300 << 10, object));
        }
    });
    let unmounted = Command::new("umount").arg(small.path()).status().unwrap();
    assert!(unmounted.success());
    outcome.unwrap();
}
