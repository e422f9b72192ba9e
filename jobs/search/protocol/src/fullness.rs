//! How full a table is: the numbers that a client needs, besides the catalogue, for the same
//! [`Layout`] as the server.
//!
//! An answer has room for the entries of the fullest windows, for every question
//! ([`Panel::most_patterns_at`]). So the size of an answer shows only the number of different
//! places, which is public. The numbers of patterns of the fullest windows are therefore told to
//! every client, and nothing else of the alleles.
//!
//! | field | bytes |
//! |---|---|
//! | `TSF`, version | 4 |
//! | kind: 0 panel, 1 variants without phase, 2 keys | 1 |
//! | of kind 0, for each number of sites from 1 to 128: number of listed windows | 1 |
//! | … followed by the number of patterns of each of these windows, descending | 4 each |
//! | of kind 2: keys | 8 |

use super::messages::{MAX_BLOCKS, MAX_PLACES};
use super::panel::{MAX_LENGTH, Panel};
use super::program::{Layout, Shape};
use super::table::{Content, MAX_KEYS, Table};

const MAGIC: [u8; 4] = *b"TSF\x01";

/// The fullness of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fullness {
    /// For a panel: by the number of sites less one, the numbers of patterns of the fullest
    /// windows, descending.
    Windows(Vec<Vec<u32>>),
    /// For variants without phase: two alleles at a place.
    Variants,
    /// For a table of keys: the number of keys.
    Keys(u64),
}

/// The bytes are not a fullness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed fullness of a table: expected {0}")]
pub struct FullnessError(&'static str);

impl Fullness {
    /// The fullness of a panel.
    pub fn of_panel(panel: &Panel) -> Self {
        Self::Windows(panel.parts().1.fullest.to_vec())
    }

    /// The fullness of a table.
    pub fn of(table: &Table) -> Self {
        match &table.content {
            Content::Panel { panel, .. } => Self::of_panel(panel),
            Content::Variants { .. } => Self::Variants,
            Content::Keys(keys) => Self::Keys(keys.len() as u64),
        }
    }

    /// The fullness of the same table with labels. Its windows are padded: each listed window has
    /// as many entries as the fullest window of its length.
    #[must_use]
    pub fn levelled(self) -> Self {
        match self {
            Self::Windows(mut lists) => {
                for list in &mut lists {
                    let most = list.first().copied().unwrap_or(0);
                    list.fill(most);
                }
                Self::Windows(lists)
            }
            other => other,
        }
    }

    /// For a table with labels: the most entries of an answer about `different` places that need
    /// fresh labels. Zero for keys, because their labels are made beforehand.
    pub fn labels(&self, shape: Shape, different: usize) -> usize {
        let windows = |sites| self.room(sites, different).unwrap_or(0);
        match (self, shape) {
            (Self::Windows(_), Shape::Pattern { length, .. }) => windows(length),
            (Self::Windows(_), Shape::Longest { length, .. }) => (1..=length).map(windows).sum(),
            (Self::Variants, _) => 2 * different,
            _ => 0,
        }
    }

    /// The layout of an answer about `different` places, in blocks of `slots` slots. None for
    /// another kind of question, or for windows that the table does not have.
    pub fn layout(&self, shape: Shape, different: usize, slots: usize) -> Option<Layout> {
        match (self, shape) {
            (Self::Windows(_), Shape::Pattern { length, .. } | Shape::Longest { length, .. }) => {
                self.room(length, different)?;
                Some(Layout::new(shape, slots, |sites| self.room(sites, different).unwrap_or(0)))
            }
            (Self::Variants, Shape::Pattern { length: 1, .. }) => Some(Layout::new(shape, slots, |_| 2 * different)),
            (Self::Keys(keys), Shape::Word { .. }) => Some(Layout::new(shape, slots, |_| *keys as usize)),
            _ => None,
        }
    }

    /// The most patterns of this length at `different` places.
    fn room(&self, sites: usize, different: usize) -> Option<usize> {
        let Self::Windows(lists) = self else { return None };
        let list = lists.get(sites.checked_sub(1)?).filter(|list| !list.is_empty())?;
        Some(list.iter().take(different).map(|patterns| *patterns as usize).sum())
    }

    /// Encodes the fullness.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        match self {
            Self::Windows(lists) => {
                out.push(0);
                for list in lists {
                    out.push(list.len() as u8);
                    list.iter().for_each(|patterns| out.extend_from_slice(&patterns.to_be_bytes()));
                }
            }
            Self::Variants => out.push(1),
            Self::Keys(keys) => {
                out.push(2);
                out.extend_from_slice(&keys.to_be_bytes());
            }
        }
        out
    }

    /// Decodes a fullness.
    ///
    /// # Errors
    /// [`FullnessError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, FullnessError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(FullnessError("its first bytes"))?;
        match rest.split_first() {
            Some((0, lists)) => windows(lists).map(Self::Windows),
            Some((1, [])) => Ok(Self::Variants),
            Some((2, keys)) => {
                let keys = keys.try_into().map(u64::from_be_bytes).map_err(|_| FullnessError("a number of keys"))?;
                let fits = (1..=MAX_KEYS as u64).contains(&keys);
                if fits { Ok(Self::Keys(keys)) } else { Err(FullnessError("a number of keys")) }
            }
            _ => Err(FullnessError("a kind of table")),
        }
    }
}

fn windows(mut bytes: &[u8]) -> Result<Vec<Vec<u32>>, FullnessError> {
    let wrong = FullnessError("a list of windows for each number of sites, descending");
    let mut lists = Vec::with_capacity(MAX_LENGTH);
    for _ in 0..MAX_LENGTH {
        let (count, rest) = bytes.split_first().ok_or(wrong.clone())?;
        let (list, rest) = rest.split_at_checked(4 * usize::from(*count)).ok_or(wrong.clone())?;
        let list: Vec<u32> = list.as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect();
        if list.len() > MAX_PLACES || list.contains(&0) || !list.is_sorted_by(|a, b| a >= b) {
            return Err(wrong);
        }
        lists.push(list);
        bytes = rest;
    }
    if bytes.is_empty() { Ok(lists) } else { Err(wrong) }
}

/// The most keys that one answer compares with a query, in blocks of `slots` slots.
pub fn most_keys(slots: usize) -> u64 {
    (MAX_BLOCKS * slots) as u64
}

/// Every decoded fullness encodes to the same bytes.
pub(crate) fn fuzz_fullness(data: &[u8]) {
    if let Ok(fullness) = Fullness::decode(data) {
        assert_eq!(fullness.encode(), data);
        let _ = fullness.layout(Shape::Longest { places: 3, length: 9 }, 3, 4096);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn fullness_has_one_byte_string_and_nothing_else_is_one() {
        let mut lists = vec![Vec::new(); MAX_LENGTH];
        lists[0] = vec![2, 2, 1];
        lists[1] = vec![4, 3];
        for fullness in [Fullness::Windows(lists), Fullness::Variants, Fullness::Keys(70_000)] {
            let bytes = fullness.encode();
            assert_eq!(Fullness::decode(&bytes), Ok(fullness.clone()));
            assert!(Fullness::decode(&[&bytes[..], &[0]].concat()).is_err());
            (0..bytes.len()).for_each(|length| assert!(Fullness::decode(&bytes[..length]).is_err()));
            fuzz_fullness(&bytes);
        }
    }

    #[test]
    fn with_labels_every_window_has_the_room_of_the_fullest_and_a_longest_match_needs_those_of_all_lengths() {
        let mut lists = vec![Vec::new(); MAX_LENGTH];
        (lists[0], lists[1]) = (vec![2, 2, 1], vec![4, 3]);
        let plain = Fullness::Windows(lists);
        let levelled = plain.clone().levelled();
        let (pattern, longest) = (Shape::Pattern { places: 9, length: 2 }, Shape::Longest { places: 9, length: 2 });
        assert_eq!([1, 2].map(|places| plain.labels(pattern, places)), [4, 7]);
        assert_eq!([1, 2].map(|places| levelled.labels(pattern, places)), [4, 8]);
        assert_eq!([1, 2].map(|places| levelled.labels(longest, places)), [6, 12]);
        assert_eq!(Fullness::Variants.levelled().labels(Shape::Pattern { places: 5, length: 1 }, 3), 6);
        assert_eq!(Fullness::Keys(70_000).levelled().labels(Shape::Word { bits: 39 }, 1), 0);
    }

    #[test]
    fn rooms_are_the_fullest_windows_added_up() {
        let mut panel = Panel::new(3).unwrap();
        for site in [[true, false, false], [true, true, false], [false, false, false]] {
            panel.push(&site).unwrap();
        }
        let fullness = Fullness::of_panel(&panel);
        for (length, places) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)] {
            let most = panel.most_patterns_at(length, places).unwrap() as usize;
            assert_eq!(fullness.room(length, places), Some(most), "{length} sites, {places} places");
        }
        assert_eq!(fullness.layout(Shape::Pattern { places: 1, length: 4 }, 1, 8), None);
        assert_eq!(fullness.layout(Shape::Word { bits: 8 }, 1, 8), None);
        assert_eq!(Fullness::Variants.layout(Shape::Longest { places: 1, length: 1 }, 1, 8), None);
        assert_eq!(Fullness::Keys(9).layout(Shape::Word { bits: 8 }, 1, 8).unwrap().blocks(), 2);
    }
}
