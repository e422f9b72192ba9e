//! The computation on plaintexts: the numbers that stand for patterns and keys, and the answers.
//!
//! **Numbers.** A place and a pattern have the number `place 2^length + pattern`; a key of a table
//! has a number of its own. A number is written as one or two digits, *limbs*, in base `t`. As long
//! as the limbs suffice, all numbers differ and **there are no false matches**: up to `t` numbers
//! with one limb, up to `t^2`, about `2^80`, with two. For longer patterns the limbs are two
//! independent sums `a_0 + Σ a_i x_i mod t` of the pattern's 32-bit words and the place, with
//! coefficients that follow from the table's name (Carter and Wegman, 1979). Two different patterns
//! have the same limbs with probability `t^-2` over the name, so a query falsely matches one of `n`
//! entries with probability at most `n t^-2` ([`Keys::false_matches`]).

use super::panel::{MAX_LENGTH, Panel, PanelError, Pattern};
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::{Domain, Modulus, Seed};

/// The most limbs of a number.
pub const LIMBS: usize = 2;
/// The most bits of a table's key.
pub const WORD_BITS: usize = 78;

/// A number in limbs below `t`, the lowest first. Unused limbs are zero.
pub type Key = [u64; LIMBS];

/// An entry of a table: the number that a query may equal, and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number; all entries of a group have different ones.
    pub key: Key,
    /// How often it occurs: more than zero, below the plaintext modulus.
    pub count: u64,
}

/// Why entries are not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A count does not fit the plaintext modulus.
    #[error("expected counts below {most}, found {found}")]
    Count {
        /// The plaintext modulus.
        most: u64,
        /// The count.
        found: u64,
    },
    /// No set of parameters for labels: an error in this program.
    #[error("expected a set of parameters for labels, found none")]
    Set,
    /// The window is not in the panel.
    #[error(transparent)]
    Panel(#[from] PanelError),
}

/// The kind of a question, as far as the server may know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// Does a pattern of this length occur at one of the places?
    Pattern {
        /// The number of places. One of them is the true one.
        places: usize,
        /// Sites.
        length: usize,
    },
    /// How many sites of a pattern, from the first on, does some haplotype have at one of the
    /// places?
    Longest {
        /// The number of places. One of them is the true one.
        places: usize,
        /// Sites.
        length: usize,
    },
    /// Is a key of this many bits in a table?
    Word {
        /// Bits.
        bits: usize,
    },
}

impl Shape {
    /// The number of places; one for a table of keys.
    pub fn places(self) -> usize {
        match self {
            Self::Pattern { places, .. } | Self::Longest { places, .. } => places,
            Self::Word { .. } => 1,
        }
    }

    /// Sites of a pattern, or bits of a key.
    pub fn length(self) -> usize {
        match self {
            Self::Pattern { length, .. } | Self::Longest { length, .. } => length,
            Self::Word { bits } => bits,
        }
    }

    /// Membership tests of an answer. A longest match is a test for each number of sites.
    pub fn tests(self) -> usize {
        match self {
            Self::Longest { length, .. } => length,
            Self::Pattern { .. } | Self::Word { .. } => 1,
        }
    }

    /// The cheapest set of parameters for questions of this kind and counts up to `counted`. None
    /// if the question is not possible (no place, no site, or too many), or if no set holds the
    /// counts.
    pub fn set(self, counted: u64) -> Option<NamedSet> {
        let most = if let Self::Word { .. } = self { WORD_BITS } else { MAX_LENGTH };
        if self.places() == 0 || !(1..=most).contains(&self.length()) {
            return None;
        }
        let all = self.numbers();
        let counts = |set: &NamedSet| set.plaintext_modulus.is_some_and(|t| counted < t);
        let fits = |set: &NamedSet| set.plaintext_modulus.is_some_and(|t| all.is_some_and(|all| all <= t.into()));
        sets().filter(counts).find(fits).or_else(|| sets().filter(counts).last())
    }

    /// The number of possible questions; none if more than `2^127`.
    fn numbers(self) -> Option<u128> {
        let all = (self.places() as u128).checked_mul(1u128.checked_shl(self.length() as u32)?)?;
        (self.length() < 120 && all < 1 << 127).then_some(all)
    }
}

/// The names of the sets of parameters for searches, by rising plaintext modulus.
const SETS: [&str; 4] = ["search", "search-17", "search-23", "search-40"];

/// All sets of parameters for searches.
pub fn sets() -> impl Iterator<Item = NamedSet> {
    SETS.iter().filter_map(|name| NamedSet::from_name(name))
}

/// The numbers of one kind of question, for one table.
#[derive(Clone, Debug)]
pub struct Keys {
    t: Modulus,
    shape: Shape,
    limbs: usize,
    /// The coefficients, by limb: constant, place, words of the pattern. None if all numbers are
    /// different.
    hash: Option<[[u64; 6]; LIMBS]>,
}

impl Keys {
    /// The numbers modulo `t`, for the table with this name.
    pub fn new(t: &Modulus, shape: Shape, table: &[u8; 32]) -> Self {
        let (t, one) = (*t, u128::from(t.value()));
        let (limbs, hash) = match shape.numbers() {
            Some(all) if all <= one => (1, None),
            Some(all) if one.checked_mul(one).is_none_or(|two| all <= two) => (2, None),
            _ => (2, Some(())),
        };
        let coefficients = |()| {
            [0, 1].map(|limb| {
                let mut values = [0; 6];
                Seed::from_bytes(*table).stream(Domain::Uniform, limb).uniform(&t, &mut values);
                values
            })
        };
        Self { t, shape, limbs, hash: hash.map(coefficients) }
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Limbs of a number.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// `log2` of a bound on the probability of a false match with any of `entries` entries; none if
    /// all numbers are different.
    pub fn false_matches(&self, entries: usize) -> Option<f64> {
        let log2 = |value: f64| value.log2();
        self.hash.as_ref().map(|_| log2(entries.max(1) as f64) - 2.0 * log2(self.t.value() as f64))
    }

    /// The number of the first `sites` sites of a pattern at a place.
    pub fn of_pattern(&self, place: usize, pattern: Pattern, sites: usize) -> Key {
        let pattern = if sites < MAX_LENGTH { pattern & ((1 << sites) - 1) } else { pattern };
        match &self.hash {
            None => self.of_number((place as u128) << self.shape.length() | pattern),
            Some(hash) => hash.map(|[constant, of_place, words @ ..]| {
                let t = &self.t;
                let sum = t.add(constant, t.mul(of_place, t.reduce(place as u64)));
                let words = words.into_iter().enumerate();
                words.fold(sum, |sum, (i, factor)| {
                    let word = u64::from((pattern >> (32 * i)) as u32);
                    t.add(sum, t.mul(factor, t.reduce(word)))
                })
            }),
        }
    }

    /// The entries of a panel at ascending places, by group. Patterns of fewer than `least`
    /// haplotypes are left out, and so are repeated places.
    ///
    /// # Errors
    /// [`EntryError`].
    pub fn of_panel(&self, panel: &Panel, starts: &[u32], least: u32) -> Result<Vec<Vec<Entry>>, EntryError> {
        let (length, mut most) = (self.shape.length(), 0);
        let by_length = matches!(self.shape, Shape::Longest { .. });
        let mut groups = vec![Vec::new(); if by_length { length } else { 1 }];
        for (place, start) in starts.iter().enumerate() {
            if place > 0 && starts[place - 1] == *start {
                continue;
            }
            panel.prefixes(*start as usize, length, |sites, pattern, count| {
                if count >= least && (by_length || sites == length) {
                    most = most.max(count);
                    let entry = Entry { key: self.of_pattern(place, pattern, sites), count: count.into() };
                    groups[if by_length { sites - 1 } else { 0 }].push(entry);
                }
            })?;
        }
        let (found, most) = (u64::from(most), self.t.value());
        if found < most { Ok(groups) } else { Err(EntryError::Count { most, found }) }
    }

    /// The number of a table's key.
    pub fn of_number(&self, number: u128) -> Key {
        let t = u128::from(self.t.value());
        [(number % t) as u64, (number / t % t) as u64]
    }
}

/// Which slots hold which entries: one group after another, over blocks of `slots` slots. The
/// layout follows from public values, so client and server have the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// By group, one past its last slot.
    ends: Vec<usize>,
    slots: usize,
}

impl Layout {
    /// A longest match has a group for each number of sites; other questions have one group. `room`
    /// gives the most entries of a group by its number of sites. The last group also has the rest
    /// of the last block.
    pub fn new(shape: Shape, slots: usize, room: impl Fn(usize) -> usize) -> Self {
        let groups =
            if let Shape::Longest { length, .. } = shape { 1..=length } else { shape.length()..=shape.length() };
        let grow = |end: &mut usize, sites| {
            *end += room(sites);
            Some(*end)
        };
        let mut ends: Vec<usize> = groups.scan(0, grow).collect();
        if let Some(last) = ends.last_mut() {
            *last = (*last).max(1).next_multiple_of(slots);
        }
        Self { ends, slots }
    }

    /// Blocks.
    pub fn blocks(&self) -> usize {
        self.ends.last().copied().unwrap_or(0) / self.slots
    }

    /// Slots of a block.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The number of groups: one, or one for each number of sites.
    pub fn groups(&self) -> usize {
        self.ends.len()
    }

    /// The slots of a group, counted over all blocks.
    pub fn group(&self, group: usize) -> std::ops::Range<usize> {
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        start..self.ends[group]
    }

    /// The group of a slot, counted over all blocks.
    pub fn group_of(&self, slot: usize) -> usize {
        self.ends.partition_point(|end| *end <= slot)
    }

    /// Whether a query has ciphertexts for each block, and not one for all.
    pub fn by_block(&self) -> bool {
        self.groups() > 1
    }
}

/// The answer to a query, computed on plaintexts: how often the key occurs, or zero.
pub fn answer(entries: &[Entry], query: Key) -> u64 {
    entries.iter().find(|entry| entry.key == query).map_or(0, |entry| entry.count)
}
