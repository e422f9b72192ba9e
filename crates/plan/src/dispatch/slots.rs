//! The items inside the dispatcher, each in a slot that is reused.

use super::Handle;

/// An item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) bytes: u32,
    pub(super) generation: u32,
    /// Workers that have the item now, one bit each.
    pub(super) holders: u64,
    pub(super) waiting: bool,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// There is no published result.
    Open,
    /// There is a result; other workers may still compute the item.
    Done,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Bytes of all slots that are not free.
    pub(super) bytes: u64,
    /// Items without a result.
    pub(super) open: usize,
}

impl Slots {
    pub(super) fn insert(&mut self, bytes: u32) -> Handle {
        self.bytes += u64::from(bytes);
        self.open += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = Slot { bytes: 0, generation: 0, holders: 0, waiting: false, state: State::Free };
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        });
        let item = &mut self.slots[slot as usize];
        *item = Slot { bytes, generation: item.generation, holders: 0, waiting: true, state: State::Open };
        Handle { slot, generation: item.generation }
    }

    /// The item, unless its slot holds another one by now.
    pub(super) fn get(&self, handle: Handle) -> Option<&Slot> {
        let slot = self.slots.get(handle.slot as usize)?;
        (slot.generation == handle.generation && slot.state != State::Free).then_some(slot)
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(handle.slot as usize)?;
        (slot.generation == handle.generation && slot.state != State::Free).then_some(slot)
    }

    pub(super) fn set_waiting(&mut self, handle: Handle, waiting: bool) {
        if let Some(slot) = self.get_mut(handle) {
            slot.waiting = waiting;
        }
    }

    pub(super) fn hold(&mut self, handle: Handle, worker: usize) {
        if let Some(slot) = self.get_mut(handle) {
            slot.holders |= 1 << worker;
        }
    }

    /// Ends the worker's hold on the item. Frees the slot if there is a result and no other worker
    /// holds it.
    pub(super) fn release(&mut self, handle: Handle, worker: usize) {
        let Some(slot) = self.get_mut(handle) else { return };
        slot.holders &= !(1 << worker);
        if slot.state == State::Done && slot.holders == 0 {
            slot.state = State::Free;
            slot.generation = slot.generation.wrapping_add(1);
            let bytes = slot.bytes;
            self.free.push(handle.slot);
            self.bytes -= u64::from(bytes);
        }
    }

    /// The worker delivers a result and releases the item, which also stops waiting.
    pub(super) fn finish(&mut self, handle: Handle, worker: usize) -> Option<Finished> {
        let slot = self.get_mut(handle)?;
        let finished = Finished { bytes: slot.bytes, first: slot.state == State::Open, waited: slot.waiting };
        (slot.state, slot.waiting) = (State::Done, false);
        self.open -= usize::from(finished.first);
        self.release(handle, worker);
        Some(finished)
    }
}

/// The outcome of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub(super) bytes: u32,
    /// Whether this is the first result.
    pub(super) first: bool,
    /// Whether the item also waited for another worker.
    pub(super) waited: bool,
}
