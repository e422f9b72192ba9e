//! The places of a window's frames, without the frames.
//!
//! A device may send more frames in a window than fit in memory. A first pass over the window
//! counts them, and records the places of the frames that a question uses: the first of each device
//! by their counters. The frames of a batch are read again when the batch is filled.

use std::{
    collections::{BTreeMap, BinaryHeap},
    ops::Range,
};
use tobari_device::{DeviceNumber, MacKey, Profile, peek};
use tobari_sense::cloud::Wanted;
use tobari_sense::server::Batch;
use tobari_sense_files::{FrameStore, StoreError};

/// The place of a frame: its counter, its record, and its position in the record.
type At = (u32, u64, u16);

/// The frames of one device.
#[derive(Default)]
struct OfDevice {
    /// The number of frames.
    all: u64,
    /// The frames that the question uses; sorted at the end.
    taken: BinaryHeap<At>,
    sorted: Vec<At>,
}

/// The frames of a window.
pub(super) struct WindowFrames {
    devices: BTreeMap<DeviceNumber, OfDevice>,
    /// Bytes of memory for the places.
    bytes: u64,
}

/// Bytes of memory for a device's frames, of which a question uses at most `most`: here, and in a
/// batch's list.
fn memory(frames: u64, most: u64) -> u64 {
    // a full heap takes twice its room, and briefly has one frame too many
    let room = |frames: u64| if frames == 0 { 0 } else { frames.next_power_of_two().max(4) };
    room(frames.min(most.saturating_add(1))) * size_of::<At>() as u64 + frames.min(most) * size_of::<Wanted>() as u64
}

impl WindowFrames {
    /// Counts the frames of devices with a key, of one sheet, and finds the first `most` of each.
    /// Beyond `limit` bytes of memory they are only counted: see [`Self::bytes`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) fn of<P: Profile>(
        store: &FrameStore,
        keys: &BTreeMap<DeviceNumber, MacKey<P>>,
        (window, sheet): (Range<u64>, u16),
        most: u32,
        limit: u64,
    ) -> Result<Self, StoreError> {
        let (mut devices, mut bytes): (BTreeMap<DeviceNumber, OfDevice>, u64) = Default::default();
        let is_of_sheet =
            |frame: &[u8]| peek::<P>(frame).is_ok_and(|head| head.stamp.is_none_or(|stamp| stamp.sheet() == sheet));
        store.window_with_numbers(window.start, window.end, |record, frames| {
            // all frames of a record have one sheet
            if !frames.get(..P::FRAME).is_some_and(is_of_sheet) {
                return;
            }
            for (place, frame) in (0..).zip(frames.chunks(P::FRAME)) {
                let Ok(head) = peek::<P>(frame) else { continue };
                // its MAC was right on arrival: a wrong frame was changed on the disk
                if keys.get(&head.device).is_none_or(|key| key.open(frame).is_err()) {
                    continue;
                }
                let of = devices.entry(head.device).or_default();
                bytes += memory(of.all + 1, most.into()) - memory(of.all, most.into());
                of.all += 1;
                if bytes > limit {
                    of.taken = BinaryHeap::new();
                    continue;
                }
                of.taken.push((head.counter, record, place));
                if of.taken.len() > most as usize {
                    of.taken.pop();
                }
            }
        })?;
        for of in devices.values_mut() {
            of.sorted = std::mem::take(&mut of.taken).into_sorted_vec();
        }
        Ok(Self { devices, bytes })
    }

    /// The number of frames of each device, by ascending numbers.
    pub(super) fn counts(&self) -> impl Iterator<Item = (DeviceNumber, u64)> {
        self.devices.iter().map(|(number, of)| (*number, of.all))
    }

    /// Bytes of memory for these places, and for the frames' entries in batches.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts frames into a batch; returns whether all of them still existed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) fn fill<P: Profile>(
        &self,
        store: &FrameStore,
        keys: &BTreeMap<DeviceNumber, MacKey<P>>,
        batch: &mut Batch,
        wanted: &[Wanted],
    ) -> Result<bool, StoreError> {
        let mut by_record: BTreeMap<u64, Vec<(DeviceNumber, At, usize)>> = BTreeMap::new();
        for Wanted { block, number, time } in wanted {
            let Some(at) = self.devices.get(number).and_then(|of| of.sorted.get(*time as usize)) else {
                return Ok(false);
            };
            by_record.entry(at.1).or_default().push((*number, *at, *block));
        }
        let mut all = true;
        let read = store.numbered(by_record.keys().copied(), |record, bytes| {
            for (number, (counter, _, place), block) in by_record.get(&record).into_iter().flatten() {
                // frames of another device may have been removed before it: the head identifies the
                // frame
                let is = |frame: &&[u8]| {
                    peek::<P>(frame).is_ok_and(|head| (head.device, head.counter) == (*number, *counter))
                };
                let frame = bytes.chunks(P::FRAME).nth(usize::from(*place)).filter(is);
                let frame = frame.or_else(|| bytes.chunks(P::FRAME).find(is));
                let envelope = frame.and_then(|frame| keys.get(number)?.open(frame).ok());
                all &= envelope.is_some_and(|envelope| batch.put(*block, &envelope));
            }
        })?;
        Ok(read && all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_15_the_room_that_a_heap_has_to_spare_is_counted() {
        assert_eq!((size_of::<At>(), size_of::<Wanted>()), (16, 16));
        for most in [1, 2, 3, 4, 5, 100, 1000] {
            let (mut heap, mut sum) = (BinaryHeap::<At>::new(), 0);
            for frame in 0..3000 {
                sum += memory(frame + 1, most) - memory(frame, most);
                heap.push((frame as u32, 0, 0));
                let room = (heap.capacity() * size_of::<At>()) as u64;
                if heap.len() as u64 > most {
                    heap.pop();
                }
                assert!(sum >= room + heap.len() as u64 * size_of::<Wanted>() as u64, "{most}: {frame}");
                assert!(sum <= 2 * room + 16 * heap.len() as u64, "{most}: {frame}");
            }
        }
    }
}
