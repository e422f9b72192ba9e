//! The computation in the clear: which numbers stand for what, and what is told of them.

use super::panel::{Panel, PanelError, Pattern};
use tobari_core::params::NamedSet;
use tobari_core::ring::Modulus;

/// An entry of a table: what a query may be equal to, and how often it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below the plaintext modulus; no two entries have the same.
    pub key: u64,
    /// Below the plaintext modulus, not zero.
    pub count: u64,
}

/// Why there are no such keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// More places and patterns than numbers.
    #[error("expected at most {most} patterns at all places together, found {places} places of 2^{length}")]
    TooMany {
        /// The plaintext modulus.
        most: u64,
        /// Places.
        places: usize,
        /// Sites of a pattern.
        length: usize,
    },
    /// A count that no number holds.
    #[error("expected counts below {most}, found {found}")]
    Count {
        /// The plaintext modulus.
        most: u64,
        /// The count.
        found: u64,
    },
    /// A window that is not in the panel.
    #[error(transparent)]
    Panel(#[from] PanelError),
}

/// The numbers that stand for every pattern of so many sites at so many places: `place 2^length + pattern`. They are all different, so that
/// there are no false matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    places: usize,
    length: usize,
}

impl Keys {
    /// For so many places, and patterns of so many sites.
    ///
    /// # Errors
    /// [`KeyError::TooMany`] unless `places 2^length` is at most `t`.
    pub fn new(t: &Modulus, places: usize, length: usize) -> Result<Self, KeyError> {
        let all = u32::try_from(length).ok().and_then(|length| 1u64.checked_shl(length));
        let all = all.and_then(|patterns| patterns.checked_mul(places as u64));
        let fits = all.is_some_and(|all| (1..=t.value()).contains(&all));
        fits.then_some(Self { places, length }).ok_or(KeyError::TooMany { most: t.value(), places, length })
    }

    /// Sites of a pattern.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Places.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The number of a pattern at a place, which is below the number of places.
    pub fn of(&self, place: usize, pattern: Pattern) -> u64 {
        (place as u64) << self.length | pattern as u64 & ((1 << self.length) - 1)
    }

    /// What a panel has at places: patterns that fewer than `least` haplotypes have are left out.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn entries(&self, t: &Modulus, panel: &Panel, starts: &[u32], least: u32) -> Result<Vec<Entry>, KeyError> {
        let mut entries = Vec::new();
        for (place, start) in starts.iter().enumerate() {
            for (pattern, count) in panel.patterns(*start as usize, self.length)? {
                let count = u64::from(count);
                if count >= t.value() {
                    return Err(KeyError::Count { most: t.value(), found: count });
                }
                if count >= u64::from(least) {
                    entries.push(Entry { key: self.of(place, pattern), count });
                }
            }
        }
        Ok(entries)
    }
}

/// The sets of parameters for searches, by rising plaintext modulus.
const SETS: [&str; 4] = ["search", "search-17", "search-23", "search-40"];

/// All of them.
pub fn sets() -> impl Iterator<Item = NamedSet> {
    SETS.iter().filter_map(|name| NamedSet::from_name(name))
}

/// The cheapest set with a number for every pattern of so many sites at so many places; none where there are too many.
pub fn set(places: usize, length: usize) -> Option<NamedSet> {
    let fits = |set: &NamedSet| {
        let t = set.plaintext_modulus.and_then(Modulus::new);
        t.is_some_and(|t| Keys::new(&t, places, length).is_ok())
    };
    sets().find(fits)
}

/// What is told of a query in the clear: how often it occurs, zero if it does not.
pub fn answer(entries: &[Entry], query: u64) -> u64 {
    entries.iter().find(|entry| entry.key == query).map_or(0, |entry| entry.count)
}
