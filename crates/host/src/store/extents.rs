//! The free ranges of a backing file.

use std::collections::BTreeMap;

/// A range of a file, the place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) length: u64,
}

/// The free ranges of `0..end`, by their start: disjoint, not empty, and no two of them touch.
///
/// First fit: the objects of a job have few lengths, so the gap of one object mostly fits the next.
/// The cost is linear in the number of gaps.
#[derive(Debug, Default)]
pub(super) struct Extents {
    free: BTreeMap<u64, u64>,
    end: u64,
}

impl Extents {
    /// The length of the file.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }

    /// The free bytes right before the end.
    pub(super) fn free_at_end(&self) -> u64 {
        self.free.last_key_value().map_or(0, |(&start, &length)| if start + length == self.end { length } else { 0 })
    }

    /// Makes the file longer; the new bytes are free.
    pub(super) fn grow(&mut self, bytes: u64) {
        let start = self.end;
        self.end += bytes;
        self.release(Extent { start, length: bytes });
    }

    /// Takes `length` bytes from the first gap that is long enough.
    pub(super) fn allocate(&mut self, length: u64) -> Option<Extent> {
        let (&start, &gap) = self.free.iter().find(|&(_, &gap)| gap >= length)?;
        self.free.remove(&start);
        if gap > length {
            self.free.insert(start + length, gap - length);
        }
        Some(Extent { start, length })
    }

    /// Frees an extent from [`allocate`](Self::allocate), and joins it to adjacent gaps.
    pub(super) fn release(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.start, extent.start + extent.length);
        if start == end {
            return;
        }
        debug_assert!(end <= self.end && self.free.range(start..end).next().is_none(), "released twice");
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same with one flag for each byte.
    fn first_fit(used: &[bool], length: usize) -> Option<u64> {
        let start = used.windows(length).position(|window| window.iter().all(|&byte| !byte))?;
        Some(start as u64)
    }

    proptest! {
        #[test]
        fn extents_are_the_first_that_fit_and_are_all_free_again_at_the_end(
            steps in prop::collection::vec((any::<prop::sample::Index>(), 1_usize..9, 0_u8..5), 1..120),
        ) {
            let mut extents = Extents::default();
            let (mut used, mut taken): (Vec<bool>, Vec<Extent>) = (Vec::new(), Vec::new());
            let mark = |used: &mut Vec<bool>, extent: Extent, value| {
                for flag in &mut used[extent.start as usize..][..extent.length as usize] {
                    assert_ne!(*flag, value, "an extent overlaps another");
                    *flag = value;
                }
            };
            for (which, length, action) in steps {
                match action {
                    0 => {
                        extents.grow(length as u64);
                        used.resize(used.len() + length, false);
                    }
                    1 | 2 if !taken.is_empty() => {
                        let extent = taken.swap_remove(which.index(taken.len()));
                        extents.release(extent);
                        mark(&mut used, extent, false);
                    }
                    _ => {
                        let extent = extents.allocate(length as u64);
                        prop_assert_eq!(extent.map(|extent| extent.start), first_fit(&used, length));
                        if let Some(extent) = extent {
                            prop_assert_eq!(extent.length, length as u64);
                            mark(&mut used, extent, true);
                            taken.push(extent);
                        }
                    }
                }
                prop_assert_eq!(extents.free_bytes(), used.iter().filter(|&&byte| !byte).count() as u64);
                prop_assert_eq!(extents.free_at_end(), used.iter().rev().take_while(|&&byte| !byte).count() as u64);
            }
            for extent in taken {
                extents.release(extent);
            }
            prop_assert_eq!((extents.free_at_end(), extents.end()), (used.len() as u64, used.len() as u64));
            prop_assert!(extents.free.len() <= 1, "gaps that touch are one");
        }
    }
}
