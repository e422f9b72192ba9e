//! The items that are somewhere in the dispatcher, each in a slot that is used again.

use super::Handle;

/// An item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) bytes: u32,
    pub(super) generation: u32,
    /// Workers that have it now, one bit each.
    pub(super) holders: u64,
    pub(super) waiting: bool,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// Nobody has published a result.
    Open,
    /// Somebody has; others may still be at it.
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

    /// The item, unless its slot has another by now.
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

    /// The worker has it no more. Frees the slot if there is a result and nobody else has it
    /// either.
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

    /// The worker brings a result, and has the item no more. It waits no more either.
    pub(super) fn finish(&mut self, handle: Handle, worker: usize) -> Option<Finished> {
        let slot = self.get_mut(handle)?;
        let finished = Finished { bytes: slot.bytes, first: slot.state == State::Open, waited: slot.waiting };
        (slot.state, slot.waiting) = (State::Done, false);
        self.open -= usize::from(finished.first);
        self.release(handle, worker);
        Some(finished)
    }
}

/// What came of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub(super) bytes: u32,
    /// Whether nobody had brought a result before.
    pub(super) first: bool,
    /// Whether it waited for somebody else to do it, too.
    pub(super) waited: bool,
}
