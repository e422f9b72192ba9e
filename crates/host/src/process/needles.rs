//! A search for many byte strings in one pass.
//!
//! The anchor of a needle is its most varied window of eight bytes. So long runs of equal bytes
//! (most of any memory) match no anchor. Each position costs one multiplication and one look-up in
//! a bit map of 8 KiB. Only if the bit is set is the anchor looked up exactly, and only after a
//! match is the needle compared.

use std::collections::HashMap;

const ANCHOR_BYTES: usize = 8;
const FILTER_BITS: u32 = 16;

/// The needles, and the ones found so far.
pub(super) struct Needles {
    needles: Vec<Needle>,
    by_anchor: HashMap<u64, Vec<usize>>,
    filter: Vec<u64>,
}

struct Needle {
    bytes: Vec<u8>,
    /// The offset of its anchor.
    anchor: usize,
    found: bool,
}

impl Needles {
    /// Each needle must have at least [`super::MIN_NEEDLE_BYTES`]; a shorter one is never found.
    pub(super) fn new(needles: &[&[u8]]) -> Self {
        let needles = needles.iter().map(|bytes| Needle::new(bytes)).collect::<Vec<_>>();
        let mut by_anchor: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut filter = vec![0; 1 << (FILTER_BITS - 6)];
        for (index, needle) in needles.iter().enumerate() {
            if let Some(window) = needle.bytes[needle.anchor..].first_chunk() {
                let word = u64::from_le_bytes(*window);
                by_anchor.entry(word).or_default().push(index);
                filter[hash(word) >> 6] |= 1 << (hash(word) & 63);
            }
        }
        Self { needles, by_anchor, filter }
    }

    /// The length of the longest needle, in bytes; 0 if there is none.
    pub(super) fn longest(&self) -> usize {
        self.needles.iter().map(|needle| needle.bytes.len()).max().unwrap_or(0)
    }

    /// Notes every needle that lies wholly within `window`.
    pub(super) fn search(&mut self, window: &[u8]) {
        for (position, anchor) in window.windows(ANCHOR_BYTES).enumerate() {
            let Some(anchor) = anchor.first_chunk() else { continue };
            let word = u64::from_le_bytes(*anchor);
            if self.filter[hash(word) >> 6] >> (hash(word) & 63) & 1 == 1 {
                self.compare(window, position, word);
            }
        }
    }

    /// The indices of the needles found so far, ascending.
    pub(super) fn found(&self) -> Vec<usize> {
        (0..self.needles.len()).filter(|index| self.needles[*index].found).collect()
    }

    /// Compares the needles that have this anchor at this position.
    #[cold]
    fn compare(&mut self, window: &[u8], position: usize, word: u64) {
        let Some(candidates) = self.by_anchor.get(&word) else { return };
        for index in candidates {
            let needle = &mut self.needles[*index];
            if needle.found {
                continue;
            }
            let before = position.checked_sub(needle.anchor);
            needle.found = before.is_some_and(|start| window[start..].starts_with(&needle.bytes));
        }
    }
}

impl Needle {
    fn new(bytes: &[u8]) -> Self {
        let distinct =
            |window: &[u8]| (0..window.len()).filter(|place| !window[..*place].contains(&window[*place])).count();
        let windows = bytes.windows(ANCHOR_BYTES).map(distinct).enumerate();
        let anchor = windows.max_by_key(|(_, count)| *count).map_or(0, |(place, _)| place);
        Self { bytes: bytes.to_vec(), anchor, found: false }
    }
}

/// A number below 2^[`FILTER_BITS`] that depends on every byte of the word.
fn hash(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut step = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..len).map(|_| step()).collect()
    }

    fn found_in(window: &[u8], needles: &[&[u8]]) -> Vec<usize> {
        let mut search = Needles::new(needles);
        search.search(window);
        search.found()
    }

    #[test]
    fn the_search_agrees_with_comparing_at_every_position() {
        // Only two letters, so that anchors collide and needles overlap as often as possible.
        let letters = |seed, len| noise(seed, len).into_iter().map(|byte| b'a' + byte % 2).collect::<Vec<u8>>();
        let haystack = letters(1, 3000);
        let needles: Vec<Vec<u8>> = (0..400).map(|seed| letters(seed + 2, 8 + seed as usize % 7)).collect();
        let needles: Vec<&[u8]> = needles.iter().map(Vec::as_slice).collect();
        let stands = |needle: &[u8]| haystack.windows(needle.len()).any(|window| window == needle);
        let expected: Vec<usize> = (0..needles.len()).filter(|index| stands(needles[*index])).collect();
        assert!(!expected.is_empty() && expected.len() < needles.len());
        assert_eq!(found_in(&haystack, &needles), expected);
    }

    #[test]
    fn a_needle_is_found_at_both_ends_and_not_when_a_byte_is_cut_or_changed() {
        let haystack = noise(7, 1000);
        assert_eq!(found_in(&haystack, &[&haystack[..640], &haystack[360..]]), [0, 1]);
        assert_eq!(found_in(&haystack[1..], &[&haystack[..640], &haystack[360..]]), [1]);
        assert_eq!(found_in(&haystack[..999], &[&haystack[..640], &haystack[360..]]), [0]);
        for place in [0, 300, 639] {
            let mut changed = haystack[..640].to_vec();
            changed[place] ^= 1;
            assert_eq!(found_in(&haystack, &[&changed]), [] as [usize; 0], "byte {place}");
        }
    }

    #[test]
    fn equal_needles_and_needles_of_one_byte_value_are_found() {
        let zeros = [0; 16];
        let haystack = [&noise(3, 100)[..], &zeros, &noise(4, 100)].concat();
        assert_eq!(found_in(&haystack, &[&zeros, &zeros, &[0; 17]]), [0, 1]);
    }

    #[test]
    fn nothing_is_found_where_nothing_is_looked_for() {
        assert_eq!(found_in(&noise(5, 100), &[]), [] as [usize; 0]);
        assert_eq!(found_in(&[], &[&[1; 8]]), [] as [usize; 0]);
    }
}
