//! Which windows of a fleet's orders are open.
//!
//! A key holder asks every few seconds which windows can be fetched. **The answer does not begin at
//! the first window each time**: for each order there is a time before which every window was
//! fetched or has no frames. In version 1 it only grows, because frames have the time of their
//! arrival. In version 2 an old frame sets it back.
//!
//! A frame of version 2 is **late** if it is stored after the results of a window of its time were
//! computed. It is in no result of that window, and it is counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tobari_device::Stamp;
use tobari_sense::order::{Order, Windows as Times};
use tobari_sense_files::{FrameStore, StoreError};

/// The largest number of windows in one answer.
const MAX_WINDOWS: usize = 1000;

/// The windows of one order.
struct OfOrder {
    times: Times,
    sheet: u16,
    /// No window that begins before this is open.
    from: u64,
    /// Windows whose results were computed, and not yet recorded as fetched.
    computed: BTreeSet<u64>,
}

/// The windows of a fleet's orders.
#[derive(Default)]
pub(super) struct Windows(Mutex<BTreeMap<String, OfOrder>>);

impl Windows {
    fn orders(&self) -> MutexGuard<'_, BTreeMap<String, OfOrder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an order; a known one stays as it is.
    pub(super) fn add(&self, id: &str, order: &Order) {
        let of = || OfOrder { times: order.windows(), sheet: order.sheet, from: 0, computed: BTreeSet::new() };
        self.orders().entry(id.to_owned()).or_insert_with(of);
    }

    /// Removes an order.
    pub(super) fn remove(&self, id: &str) {
        self.orders().remove(id);
    }

    /// Records that results of a window are computed from now on.
    pub(super) fn note_computed(&self, id: &str, start_ms: u64) {
        if let Some(order) = self.orders().get_mut(id) {
            order.computed.insert(start_ms);
        }
    }

    /// Records that a window's results were fetched.
    pub(super) fn note_done(&self, id: &str, start_ms: u64) {
        if let Some(order) = self.orders().get_mut(id) {
            order.computed.remove(&start_ms);
        }
    }

    /// Searches from the beginning again: the clock was set back, and new frames have earlier
    /// times.
    pub(super) fn begin_again(&self) {
        self.orders().values_mut().for_each(|order| order.from = 0);
    }

    /// Notes new frames of version 2 by their stamps. Returns how many of them are late. If the
    /// storage fails, windows count as not fetched.
    pub(super) fn note_frames(
        &self,
        store: &FrameStore,
        frame_bytes: usize,
        stamped: &BTreeMap<Stamp, Vec<u8>>,
        now_ms: u64,
    ) -> u64 {
        let (mut orders, mut late) = (self.orders(), 0);
        for (stamp, frames) in stamped {
            let time_ms = 1000 * stamp.seconds();
            let mut is_late = false;
            for (id, order) in orders.iter_mut().filter(|(_, order)| order.sheet == stamp.sheet()) {
                order.from = order.from.min(order.times.first(time_ms));
                // a window that goes on was not fetched
                let closed = order.times.of(time_ms).filter(|start| order.times.closes(*start) <= now_ms);
                is_late |= closed
                    .into_iter()
                    .any(|start| order.computed.contains(&start) || store.is_done(id, start).unwrap_or(false));
            }
            if is_late {
                late += (frames.len() / frame_bytes.max(1)) as u64;
            }
        }
        late
    }

    /// The beginnings of an order's windows that are closed, have frames and were not fetched: at
    /// most a thousand.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) fn open(&self, store: &FrameStore, id: &str, now_ms: u64) -> Result<Vec<u64>, StoreError> {
        let Some((times, from)) = self.orders().get(id).map(|order| (order.times.clone(), order.from)) else {
            return Ok(Vec::new());
        };
        let done = store.done_from(id, from)?;
        let (mut windows, mut start) = (Vec::new(), from);
        while windows.len() < MAX_WINDOWS {
            let Some(time) = store.first_from(start)? else { break };
            start = start.max(times.first(time));
            // the last bound of an order has no window behind it
            if times.closes(start) > now_ms {
                break;
            }
            if time < start {
                continue; // in none: windows need not meet
            }
            if done.binary_search(&start).is_err() {
                windows.push(start);
            }
            start = times.next(start);
        }
        let settled = windows.first().copied().unwrap_or(start);
        if let Some(order) = self.orders().get_mut(id)
            // no older frame came meanwhile
            && order.from == from
        {
            order.from = settled;
        }
        Ok(windows)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_sense::ProfileName;

    fn order(profile: ProfileName, length_ms: u64, every_ms: u64) -> Order {
        Order {
            profile,
            length_ms,
            every_ms,
            offset_ms: 0,
            bounds: vec![],
            lateness_ms: 0,
            sheet: 0,
            groups: vec![vec![1]],
            by_device: false,
            weights: vec![],
            renewed: vec![],
            frames: 1,
            part: None,
            measures: vec![],
            least_devices: 1,
        }
    }

    fn store(folder: &tempfile::TempDir) -> FrameStore {
        FrameStore::open(&folder.path().join("frames.redb")).unwrap()
    }

    #[test]
    fn windows_that_have_ended_and_have_frames_are_told_until_they_are_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let times = [1_005, 1_995, 5_500, 9_999, 10_000];
        for time in times {
            store.append(time, 840, &[0; 840], &[]).unwrap();
        }
        let told = |length, every, now| {
            let windows = Windows::default();
            windows.add("q", &order(ProfileName::U25, length, every));
            windows.open(&store, "q", now).unwrap()
        };
        assert_eq!(told(1000, 1000, 20_000), [1000, 5000, 9000, 10_000]);
        assert_eq!(told(1000, 1000, 10_999), [1000, 5000, 9000], "the last one goes on");
        assert_eq!(told(2000, 1000, 7_500), [0, 1000, 4000, 5000], "windows slide");
        assert_eq!(told(1000, 5000, 20_000), [5000, 10_000], "times between windows are in none");
        // by the definition of windows
        let by_hand =
            (0..20).map(|k| k * 1000).filter(|start| times.iter().any(|t| (*start..start + 1000).contains(t)));
        assert_eq!(told(1000, 1000, 20_000), by_hand.collect::<Vec<u64>>());
        store.note_done("q", 5000).unwrap();
        store.note_done("other", 1000).unwrap();
        assert_eq!(told(1000, 1000, 20_000), [1000, 9000, 10_000]);
    }

    /// A thousand polls over a growing history, fetched in part and out of order, against a search
    /// from the beginning.
    #[test]
    fn polls_that_go_on_where_the_last_one_ended_miss_no_window() {
        let folder = tempfile::tempdir().unwrap();
        let (store, windows, all) = (store(&folder), Windows::default(), order(ProfileName::U25, 2000, 1000));
        windows.add("q", &all);
        let (mut state, mut now) = (1u32, 0);
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for poll in 0..300 {
            now += u64::from(random(1500));
            if random(3) > 0 {
                store.append(now, 840, &[0; 840], &[]).unwrap();
            }
            let again = Windows::default();
            again.add("q", &all);
            let found = windows.open(&store, "q", now).unwrap();
            assert_eq!(found, again.open(&store, "q", now).unwrap(), "poll {poll}");
            for start in found.into_iter().filter(|_| random(2) == 0) {
                store.note_done("q", start).unwrap();
            }
        }
        let from = windows.orders()["q"].from;
        assert!(from > now / 2, "the search does not begin at {from} of {now} by accident");
    }

    #[test]
    fn an_old_frame_of_version_2_opens_its_window_and_a_late_one_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (store, windows) = (store(&folder), Windows::default());
        let minutes = Order { lateness_ms: 120_000, ..order(ProfileName::U28, 60_000, 60_000) };
        windows.add("q", &minutes);
        windows.add("other-sheet", &Order { sheet: 1, ..minutes });
        let send = |seconds: u64, now_ms: u64| {
            let stamped = BTreeMap::from([(Stamp::new(seconds, 0).unwrap(), vec![0; 2 * 943])]);
            store.append_stamped(943, &[(1000 * seconds, &[0; 2 * 943])], &[], now_ms).unwrap();
            windows.note_frames(&store, 943, &stamped, now_ms)
        };
        assert_eq!(send(600, 601_000), 0);
        assert_eq!(windows.open(&store, "q", 779_999).unwrap(), [0; 0], "it waits two minutes");
        assert_eq!(windows.open(&store, "q", 780_000).unwrap(), [600_000]);
        // within the lateness: in time
        assert_eq!(send(601, 779_000), 0);
        windows.note_computed("q", 600_000);
        assert_eq!(send(602, 781_000), 2, "the results were computed before");
        store.note_done("q", 600_000).unwrap();
        windows.note_done("q", 600_000);
        assert_eq!(send(603, 782_000), 2, "they were fetched before");
        assert_eq!(windows.open(&store, "q", 800_000).unwrap(), [0; 0]);
        // readings of an hour before, from a device that was away
        assert_eq!(send(0, 800_000), 0);
        assert_eq!(windows.open(&store, "q", 800_000).unwrap(), [0]);
        assert_eq!(windows.open(&store, "other-sheet", 800_000).unwrap(), [0, 600_000], "by time alone");
    }
}
