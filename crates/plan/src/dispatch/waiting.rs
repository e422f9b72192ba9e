//! Waiting items: by length, in order of arrival, or dealt out to workers.

use super::Handle;
use super::cost::{CLASSES, LastClass, class};
use super::slots::{Slot, Slots};
use std::collections::VecDeque;

/// The queue of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Among all items of its class.
    ByLength,
    /// In the one common queue.
    InOrder,
    /// In the queue of one worker.
    Dealt(usize),
}

/// The end of the queue to take from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Small,
    Large,
}

/// The most to take at once: this many items, and this many bytes unless one item is larger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) items: usize,
    pub(super) bytes: u64,
}

/// Entries are removed lazily: an entry whose item no longer waits is skipped. The counts are
/// exact.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    by_length: Vec<VecDeque<Handle>>,
    in_order: VecDeque<Handle>,
    dealt: Vec<VecDeque<Handle>>,
    counts: [u32; CLASSES],
    pushed: LastClass,
    /// One bit for each class with items.
    taken: u128,
    count: usize,
}

impl Waiting {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            by_length: vec![VecDeque::new(); CLASSES],
            in_order: VecDeque::new(),
            dealt: vec![VecDeque::new(); workers],
            counts: [0; CLASSES],
            pushed: LastClass::new(),
            taken: 0,
            count: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// For each class with items: a typical length, and the number of items.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut left = self.taken;
        let next = move || {
            let class = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some((length_of(class), self.counts[class]))
        };
        std::iter::from_fn(next)
    }

    /// A typical length of the highest class with items.
    pub(super) fn longest(&self) -> Option<u32> {
        (self.taken != 0).then(|| length_of(self.taken.ilog2() as usize))
    }

    /// Adds an item already marked as waiting.
    pub(super) fn push(&mut self, place: Place, handle: Handle, bytes: u32) {
        let class = self.pushed.of(bytes);
        let queue = match place {
            Place::ByLength => &mut self.by_length[class],
            Place::InOrder => &mut self.in_order,
            Place::Dealt(worker) => &mut self.dealt[worker],
        };
        queue.push_back(handle);
        self.counts[class] += 1;
        if self.counts[class] == 1 {
            self.taken |= 1 << class;
        }
        self.count += 1;
    }

    /// Removes a waiting item from the counts; its entry is skipped later.
    pub(super) fn forget(&mut self, bytes: u32) {
        let class = class(bytes);
        self.counts[class] -= 1;
        if self.counts[class] == 0 {
            self.taken &= !(1 << class);
        }
        self.count -= 1;
    }

    /// The length of the next item that still waits at this end of the classes.
    pub(super) fn peek(&mut self, end: End, slots: &Slots) -> Option<u32> {
        let queue = self.queue(Place::ByLength, end)?;
        while let Some(handle) = queue.front() {
            match slots.get(*handle).filter(|slot| slot.waiting) {
                Some(slot) => return Some(slot.bytes),
                None => drop(queue.pop_front()),
            }
        }
        None
    }

    /// The queue of the next item, if there is one: at this end of the classes, or one queue.
    fn queue(&mut self, place: Place, end: End) -> Option<&mut VecDeque<Handle>> {
        Some(match place {
            Place::InOrder => &mut self.in_order,
            Place::Dealt(worker) => &mut self.dealt[worker],
            Place::ByLength if self.taken == 0 => return None,
            Place::ByLength => {
                let class = if end == End::Small { self.taken.trailing_zeros() } else { self.taken.ilog2() };
                &mut self.by_length[class as usize]
            }
        })
    }

    /// Moves up to `most` waiting items to `items`, and calls `begin` for each.
    pub(super) fn take(
        &mut self,
        place: Place,
        end: End,
        most: Most,
        slots: &mut Slots,
        mut begin: impl FnMut(&mut Slot),
        items: &mut Vec<Handle>,
    ) {
        let (mut left, mut bytes, mut taken, mut last) = (most.items, 0, [0; CLASSES], LastClass::new());
        while let Some(queue) = self.queue(place, end) {
            let before = left;
            while let Some(handle) = queue.front().copied().filter(|_| left > 0) {
                if let Some(slot) = slots.get_mut(handle).filter(|slot| slot.waiting) {
                    bytes += u64::from(slot.bytes);
                    if bytes > most.bytes && left < most.items {
                        left = 0;
                        break;
                    }
                    slot.waiting = false;
                    begin(slot);
                    taken[last.of(slot.bytes)] += 1;
                    left -= 1;
                    items.push(handle);
                }
                queue.pop_front();
            }
            if left == 0 || left == before || place != Place::ByLength {
                break;
            }
            self.count_off(&mut taken);
        }
        self.count_off(&mut taken);
    }

    /// Subtracts this many items of each class from the counts.
    fn count_off(&mut self, taken: &mut [u32; CLASSES]) {
        for (class, taken) in taken.iter_mut().enumerate().filter(|(_, taken)| **taken > 0) {
            self.counts[class] -= *taken;
            if self.counts[class] == 0 {
                self.taken &= !(1 << class);
            }
            self.count -= std::mem::take(taken) as usize;
        }
    }

    /// All items that were dealt to a worker.
    pub(super) fn take_dealt(&mut self, worker: usize, slots: &mut Slots) -> Vec<(Handle, u32)> {
        let mut all = Vec::new();
        let (most, mut dealt) = (Most { items: usize::MAX, bytes: u64::MAX }, Vec::new());
        self.take(Place::Dealt(worker), End::Small, most, slots, |slot| all.push(slot.bytes), &mut dealt);
        dealt.into_iter().zip(all).collect()
    }
}

/// A length in the middle of this class.
fn length_of(class: usize) -> u32 {
    let (exponent, quarter) = ((class / 4) as u32, (class % 4) as u32);
    if exponent < 3 { 4 + quarter } else { (2 * (4 + quarter) + 1) << (exponent - 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_class_is_in_it() {
        for bytes in (0..100_000).chain([1 << 20, 1 << 26, u32::MAX / 2]) {
            assert_eq!(class(length_of(class(bytes))), class(bytes), "{bytes}");
        }
    }
}
