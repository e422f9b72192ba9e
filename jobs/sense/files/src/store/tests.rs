//! Stored frames are read in order, by time, across restarts and wrong clocks.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;

const FRAME: usize = 840;

fn frames(first: u8, count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| [first.wrapping_add(i as u8); FRAME]).collect()
}

fn stored(store: &FrameStore, from: u64, to: u64) -> Vec<u8> {
    let mut all = Vec::new();
    store.window(from, to, |bytes| all.extend_from_slice(bytes)).unwrap();
    all
}

#[test]
fn frames_come_back_in_their_order_by_the_time_at_which_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    let store = FrameStore::open(&path).unwrap();
    let many = frames(0, 200);
    let first = store.append(1000, FRAME, &many, &[(7, [1; STATE_BYTES]), (9, [2; STATE_BYTES])]).unwrap();
    assert_eq!(
        first,
        Appended { time_ms: 1000, records: 200u64.div_ceil((RECORD_BYTES / FRAME) as u64), back_ms: None }
    );
    store.append(2000, FRAME, &frames(50, 3), &[(7, [3; STATE_BYTES])]).unwrap();
    // a clock that goes back a little does not change times
    assert_eq!(store.append(1500, FRAME, &frames(60, 1), &[]).unwrap().time_ms, 2000);
    assert!(stored(&store, 0, 2000) == many);
    assert!(stored(&store, 2000, 2001) == [frames(50, 3), frames(60, 1)].concat());
    assert_eq!((store.times(0, 9000, 9).unwrap(), store.first_from(1001).unwrap()), (vec![1000, 2000], Some(2000)));
    drop(store);
    let store = FrameStore::open(&path).unwrap();
    assert_eq!(
        (store.frames().unwrap(), store.devices().unwrap()),
        (204, vec![(7, [3; STATE_BYTES]), (9, [2; STATE_BYTES])])
    );
    assert_eq!(store.append(10, FRAME, &frames(1, 1), &[]).unwrap().time_ms, 2000, "after a start, too");
    assert_eq!(store.frames_from(2000).unwrap(), 5);
    let mut newest = Vec::new();
    store.newest(1, |bytes| newest.extend_from_slice(bytes)).unwrap();
    assert_eq!(newest, frames(1, 1));
}

/// A store of a release with windows of 64 counters is converted once; that release then rejects
/// it.
#[test]
fn fault_14_a_store_with_narrow_windows_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    let narrow = [vec![3, 0, 0, 0, 0, 0, 0, 0], vec![5, 0, 0, 0, 0, 0, 0, 0]].concat();
    let database = Database::create(&path).unwrap();
    let writing = database.begin_write().unwrap();
    for number in [7, 9] {
        writing.open_table(NARROW).unwrap().insert(number, <[u8; 16]>::try_from(&narrow[..]).unwrap()).unwrap();
    }
    writing.commit().unwrap();
    drop(database);
    let wide: [u8; STATE_BYTES] = [narrow, vec![0xFF; 24]].concat().try_into().unwrap();
    for newer in [wide, [1; STATE_BYTES]] {
        let store = FrameStore::open(&path).unwrap();
        assert_eq!(store.devices().unwrap(), [(7, newer), (9, wide)]);
        store.append(1000, FRAME, &[], &[(7, [1; STATE_BYTES])]).unwrap();
    }
    let database = Database::open(&path).unwrap();
    let writing = database.begin_write().unwrap();
    assert!(matches!(writing.open_table(NARROW), Err(TableError::TableTypeMismatch { .. })));
}

#[test]
fn what_is_removed_is_gone_and_counters_stay_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = FrameStore::open(&folder.path().join("frames.redb")).unwrap();
    for time in 1..=5 {
        store.append(time * 10, FRAME, &frames(time as u8, 2), &[(time as u32, [time as u8; STATE_BYTES])]).unwrap();
    }
    assert_eq!(store.remove_before(30, |_, _| {}).unwrap(), 4);
    assert!(stored(&store, 0, 1000) == [frames(3, 2), frames(4, 2), frames(5, 2)].concat());
    assert_eq!(store.remove_frames(FRAME, |frame| frame[0] == 4 || frame[0] == 6).unwrap(), 3);
    assert!(stored(&store, 0, 1000) == [frames(3, 1), frames(5, 1), frames(5, 1)].concat());
    assert_eq!((store.frames().unwrap(), store.devices().unwrap().len()), (3, 5));
}

#[test]
fn fault_13_after_a_clock_that_was_ahead_frames_get_the_true_time_over_restarts_too() {
    const DAY: u64 = 86_400_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    let open = || FrameStore::open(&path).unwrap();
    let append = |store: &FrameStore, now: u64, first: u8| {
        let appended = store.append(now, FRAME, &frames(first, 1), &[]).unwrap();
        (appended.time_ms, appended.back_ms)
    };
    for restarted in [false, true] {
        let now = if restarted { 200 * DAY } else { 100 * DAY };
        let mut store = open();
        assert_eq!(append(&store, now, 1), (now, None));
        assert_eq!(append(&store, now + 3 * DAY, 2), (now + 3 * DAY, None));
        if restarted {
            drop(store);
            store = open();
        }
        assert_eq!(append(&store, now + 1_000, 3), (now + 1_000, Some(3 * DAY - 1_000)));
        assert_eq!(append(&store, now + 900, 4), (now + 1_000, None), "a little is held");
        drop(store);
        // the newest record is found, though its time is not the latest
        let store = open();
        assert_eq!(append(&store, now + 2_000, 5), (now + 2_000, None));
        assert!(stored(&store, now, now + DAY) == [1, 3, 4, 5].map(|first| frames(first, 1)).concat());
        assert!(stored(&store, now + DAY, now + 4 * DAY) == frames(2, 1), "nothing is written over");
        assert_eq!((store.frames_from(now + DAY).unwrap(), store.frames_from(now).unwrap()), (1, 5));
    }
    let edge = CLOCK_STEP_MS;
    let store = FrameStore::open(&folder.path().join("edge.redb")).unwrap();
    assert_eq!(append(&store, DAY, 1), (DAY, None));
    assert_eq!(append(&store, DAY - edge, 1), (DAY, None));
    assert_eq!(append(&store, DAY - edge - 1, 1), (DAY - edge - 1, Some(edge + 1)));
}

#[test]
fn fault_12_frames_that_waited_have_the_time_of_their_arrival_and_never_put_the_clock_back() {
    const HOUR: u64 = 3_600_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    let store = FrameStore::open(&path).unwrap();
    let now = 1000 * HOUR;
    let append = |store: &FrameStore, now_ms: u64, came: &[Option<u64>], first: u8| {
        let each: Vec<Vec<u8>> = (0..came.len()).map(|i| frames(first + i as u8, 1)).collect();
        let arrived = came.iter().zip(&each).map(|(came_ms, frames)| (*came_ms, frames.as_slice()));
        let arrived: Vec<Arrived<'_>> = arrived.map(|(came_ms, frames)| Arrived { came_ms, frames }).collect();
        let appended = store.append_arrived(now_ms, FRAME, &arrived, &[(7, [first; STATE_BYTES])]).unwrap();
        (appended.time_ms, appended.back_ms)
    };
    assert_eq!(store.newest_ms().unwrap(), 0);
    // a day's frames, each in its hour, and after them a frame of now
    let came = [Some(now - 20 * HOUR), Some(now - 10 * HOUR), Some(now - 11 * HOUR), None];
    assert_eq!(append(&store, now, &came, 1), (now, None));
    assert!(stored(&store, now - 20 * HOUR, now - 19 * HOUR) == frames(1, 1));
    assert!(stored(&store, now - 10 * HOUR, now - 9 * HOUR) == frames(2, 2), "in their order");
    assert!(stored(&store, now, now + 1) == frames(4, 1));
    // overtaken frames get the time of the newest frame, and the clock stays
    assert_eq!(append(&store, now + HOUR, &[Some(now - 5 * HOUR)], 5), (now, None));
    assert_eq!((store.newest_ms().unwrap(), append(&store, now + HOUR, &[None], 6)), (now, (now + HOUR, None)));
    drop(store);
    let store = FrameStore::open(&path).unwrap();
    assert_eq!(store.newest_ms().unwrap(), now + HOUR);
    // a time of arrival after now comes from a clock that was ahead
    assert_eq!(append(&store, now + 2 * HOUR, &[Some(now + 90 * HOUR)], 7), (now + 2 * HOUR, None));
    // a clock that was set back does not affect them: they follow the earlier frames
    assert_eq!(append(&store, now + 90 * HOUR, &[None], 8), (now + 90 * HOUR, None));
    let late = append(&store, now + 3 * HOUR, &[Some(now)], 9);
    assert_eq!(late, (now + 2 * HOUR, Some(87 * HOUR)));
    assert_eq!(append(&store, now + 3 * HOUR, &[None], 10), (now + 3 * HOUR, None));
    assert_eq!(store.frames().unwrap(), 10);
}

/// Only windows of this question from before the time are forgotten, and they stay so.
#[test]
fn windows_without_frames_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    let store = FrameStore::open(&path).unwrap();
    for (question, start) in [("a", 5), ("b", 1), ("a", 2), ("a", 7), ("aa", 3)] {
        store.note_done(question, start).unwrap();
    }
    store.forget_done("a", 7).unwrap();
    drop(store);
    let store = FrameStore::open(&path).unwrap();
    let left = ["a", "aa", "b"].map(|question| store.done_from(question, 0).unwrap());
    assert_eq!(left, [vec![7], vec![3], vec![1]]);
    assert_eq!((store.is_done("a", 5).unwrap(), store.is_done("a", 7).unwrap()), (false, true));
    assert_eq!(store.done_from("a", 8).unwrap(), [0; 0]);
}

#[test]
fn fetched_results_stay_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    let store = FrameStore::open(&path).unwrap();
    for (question, start) in [("a", 5), ("b", 1), ("a", 2), ("a", 5), ("aa", 3)] {
        store.note_done(question, start).unwrap();
    }
    drop(store);
    let store = FrameStore::open(&path).unwrap();
    assert_eq!((store.done_from("a", 0).unwrap(), store.done_from("c", 0).unwrap()), (vec![2, 5], vec![]));
    assert!(FrameStore::open(&path).is_err(), "one process at a time");
}

/// Old readings that arrive today stay as long as other frames of today.
#[test]
fn frames_with_a_time_of_their_own_are_removed_by_the_time_of_their_storage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.redb");
    let store = FrameStore::open(&path).unwrap();
    let many = vec![7; 943 * 100];
    store.append_stamped(943, &[(5_000, &many), (9_000, &[1; 943])], &[(3, [1; 40])], 1_000_000).unwrap();
    store.append_stamped(943, &[(5_000, &[2; 943])], &[(3, [2; 40])], 2_000_000).unwrap();
    drop(store);
    let store = FrameStore::open(&path).unwrap();
    assert_eq!((store.frames().unwrap(), store.records().unwrap()), (102, 4), "68 frames fill a record");
    assert_eq!(store.devices().unwrap(), [(3, [2; 40])]);
    let of = |from, to| {
        let mut frames = 0;
        store.window(from, to, |bytes| frames += bytes.len() / 943).unwrap();
        frames
    };
    assert_eq!((of(5_000, 5_001), of(5_001, 10_000)), (101, 1));
    assert_eq!(store.remove_before(1_000_000, |_, _| {}).unwrap(), 0);
    // frames of a removed device leave no trace in the counts
    assert_eq!(store.remove_frames(943, |frame| frame[0] == 1).unwrap(), 1);
    assert_eq!(store.remove_before(1_000_001, |_, _| {}).unwrap(), 100);
    assert_eq!((of(0, u64::MAX), store.frames().unwrap()), (1, 1));
    assert_eq!(store.remove_before(u64::MAX, |_, _| {}).unwrap(), 1);
}
