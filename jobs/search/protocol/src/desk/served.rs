//! A table as a desk serves it, for every kind of content.
//!
//! A panel answers patterns and longest matches. Variants without phase answer patterns of one
//! site, because nobody knows which alleles are on one haplotype. Tables of keys answer keys; they
//! compare all their keys, so all must fit one answer.

use super::Refusal;
use super::regions::{self, Coordinates, Region};
use crate::fullness::{self, Fullness};
use crate::hidden::cells::Cell;
use crate::hidden::numbers::{Item, Numbers, Part, Windows};
use crate::messages::TABLE_BYTES;
use crate::oprf::labels::Labeller;
use crate::panel::Panel;
use crate::program::{Entry, EntryError, Keys, Layout, Shape, WORD_BITS, sets};
use crate::question::QuestionError;
use crate::table::{Alleles, Content, KeyTable, Table};
use std::collections::BTreeSet;

/// The content that queries are compared with.
enum Held {
    Panel(Panel),
    Variants { counts: Vec<u32>, alleles: Alleles },
    Keys(KeyTable),
}

/// A served table.
pub(super) struct Served {
    held: Held,
    fullness: Fullness,
    least: u32,
    /// The labelled entries of a table of keys that is served with labels.
    labels: Vec<Entry>,
    /// The coordinates of the table's sites, if they are known.
    coordinates: Option<Coordinates>,
    /// The table's revision.
    revision: u32,
}

impl Served {
    pub(super) fn of_panel(panel: Panel, least: u32) -> Self {
        let (fullness, held) = (Fullness::of_panel(&panel), Held::Panel(panel));
        Self { fullness, held, least, labels: Vec::new(), coordinates: None, revision: 1 }
    }

    /// The regions that questions at these places touch; none for keys.
    pub(super) fn regions(
        &self,
        name: &[u8; TABLE_BYTES],
        starts: &[u32],
        length: usize,
        bases: u32,
    ) -> BTreeSet<Region> {
        regions::touched((self.coordinates.as_ref(), name), starts, length, bases)
    }

    /// The regions that a cell overlaps, and the regions that its windows of `length` sites reach.
    /// A table without coordinates has none.
    pub(super) fn regions_of_cell(&self, cell: Cell, length: usize, bases: u32) -> Vec<Region> {
        self.coordinates.as_ref().map_or_else(Vec::new, |coordinates| coordinates.of_cell(cell, length, bases))
    }

    /// Whether the table has cells: sites with coordinates.
    pub(super) fn has_cells(&self) -> bool {
        self.coordinates.is_some()
    }

    /// The numbers and items of a cell, for windows of so many sites.
    ///
    /// # Errors
    /// [`QuestionError::Kind`] if the cell has no such window.
    pub(super) fn of_cell(
        &self,
        table: [u8; TABLE_BYTES],
        length: usize,
        cell: Cell,
    ) -> Result<(Numbers, Vec<Item>), QuestionError> {
        let coordinates = self.coordinates.as_ref().ok_or(QuestionError::Kind("for a key"))?;
        let (chromosomes, starts) = (coordinates.stretches(), coordinates.cell(cell));
        let phased = matches!(self.held, Held::Panel(_));
        let windows = Windows { table, revision: self.revision, phased, chromosomes, starts };
        let numbers = Numbers::of_windows(windows, length, Part::Cell(cell))?;
        let items = match &self.held {
            Held::Panel(panel) => numbers.of_panel(panel, self.least)?,
            Held::Variants { counts, alleles } => numbers.of_counts(counts, alleles, self.least)?,
            Held::Keys(_) => return Err(QuestionError::Kind("for a key")),
        };
        Ok((numbers, items))
    }

    /// Any table, ready to be served.
    ///
    /// # Errors
    /// [`Refusal::Question`] for keys of more bits than a question has.
    pub(super) fn of_table(table: Table) -> Result<Self, Refusal> {
        let (fullness, least, revision) = (Fullness::of(&table), table.least, table.revision);
        let coordinates = table.content.sites().map(Coordinates::of);
        let held = match table.content {
            Content::Panel { panel, .. } => Held::Panel(panel),
            Content::Variants { counts, alleles, .. } => Held::Variants { counts, alleles },
            Content::Keys(keys) if keys.rule().bits() as usize > WORD_BITS => {
                return Err(Refusal::Question("of keys of fewer bits"));
            }
            Content::Keys(keys) => Held::Keys(keys),
        };
        Ok(Self { held, fullness, least, labels: Vec::new(), coordinates, revision })
    }

    /// Checks that the table answers such a question at such places.
    pub(super) fn admits(&self, shape: Shape, starts: &[u32], slots: usize) -> Result<(), Refusal> {
        match (&self.held, shape) {
            (Held::Panel(panel), Shape::Pattern { length, .. } | Shape::Longest { length, .. }) => {
                let check = |start: &u32| panel.check(*start as usize, length);
                Ok(starts.iter().try_for_each(check).map_err(EntryError::from)?)
            }
            (Held::Variants { counts, .. }, Shape::Pattern { length: 1, .. }) => {
                let inside = starts.iter().all(|start| (*start as usize) < counts.len());
                if inside { Ok(()) } else { Err(Refusal::Question("at a site that it has")) }
            }
            (Held::Variants { .. }, Shape::Pattern { .. } | Shape::Longest { .. }) => {
                Err(Refusal::Question("of one site: its variants have no phase, so that haplotypes are not known"))
            }
            (Held::Keys(keys), Shape::Word { bits }) if bits == keys.rule().bits() as usize => {
                let fits = keys.len() as u64 <= fullness::most_keys(slots);
                if fits {
                    Ok(())
                } else {
                    Err(Refusal::Question(
                        "with few enough keys to compare all: one of so many is asked with the place hidden",
                    ))
                }
            }
            (Held::Keys(_), Shape::Word { .. }) => Err(Refusal::Question("for a key of as many bits as its keys have")),
            (Held::Keys(_), _) => Err(Refusal::Question("for a key")),
            (_, Shape::Word { .. }) => Err(Refusal::Question("a pattern of a panel")),
        }
    }

    /// The layout of an answer. It has as many slots as the fullest windows would need, so the
    /// number of patterns in the question's windows does not show. The number of different places
    /// shows; it is public.
    pub(super) fn layout(&self, shape: Shape, starts: &[u32], slots: usize) -> Option<Layout> {
        self.fullness.layout(shape, different(starts), slots)
    }

    /// The highest count that an answer may tell.
    pub(super) fn most(&self) -> u64 {
        match &self.held {
            Held::Panel(panel) => panel.haplotypes() as u64,
            Held::Variants { alleles, .. } => u64::from(alleles.most()),
            Held::Keys(_) => crate::table::MAX_COUNT,
        }
    }

    /// The entries that a query is compared with, group by group.
    ///
    /// # Errors
    /// [`EntryError`].
    pub(super) fn entries(&self, keys: &Keys, starts: &[u32]) -> Result<Vec<Vec<Entry>>, EntryError> {
        let enough = |count: &u32| *count >= self.least.max(1);
        match &self.held {
            Held::Panel(panel) => keys.of_panel(panel, starts, self.least),
            Held::Variants { counts, alleles } => {
                let mut all = Vec::with_capacity(2 * starts.len());
                for (place, start) in starts.iter().enumerate() {
                    // a repeated place has its entries already
                    let Some(ones) = counts.get(*start as usize).filter(|_| place == 0 || starts[place - 1] != *start)
                    else {
                        continue;
                    };
                    let others = alleles.at(*start as usize).saturating_sub(*ones);
                    for (allele, count) in [(0, others), (1, *ones)] {
                        let key = keys.of_pattern(place, allele, 1);
                        all.extend(Some(count).filter(enough).map(|count| Entry { key, count: count.into() }));
                    }
                }
                Ok(vec![all])
            }
            Held::Keys(table) => {
                let entries = table.entries().filter(|(_, count)| enough(count));
                Ok(vec![
                    entries.map(|(number, count)| Entry { key: keys.of_number(number), count: count.into() }).collect(),
                ])
            }
        }
    }
}

impl Served {
    /// The table for questions with labels: windows are padded, and keys get their labels now,
    /// which takes about 40 us for each. More keys than one answer compares get none here: they are
    /// asked as a hidden table.
    ///
    /// # Errors
    /// [`Refusal::Entries`] for counts without room.
    pub(super) fn with_labels(self, labeller: &Labeller) -> Result<Self, Refusal> {
        let mut labels = Vec::new();
        if let Held::Keys(keys) = &self.held {
            let slots = sets().last().map_or(0, |set| set.degree);
            if keys.len() as u64 <= fullness::most_keys(slots) {
                let entries = keys.entries().filter(|(_, count)| *count >= self.least.max(1));
                labels = labeller.of_keys(entries.map(|(number, count)| (number, count.into())), keys.len())?;
            }
        }
        Ok(Self { labels, ..self.levelled() })
    }

    /// The table with padded windows.
    pub(super) fn levelled(self) -> Self {
        Self { fullness: self.fullness.levelled(), ..self }
    }

    /// The most labels that an answer may have to compute.
    pub(super) fn fresh_labels(&self, shape: Shape, starts: &[u32]) -> usize {
        self.fullness.labels(shape, different(starts))
    }

    /// The labelled entries that a query is compared with, group by group.
    ///
    /// # Errors
    /// [`EntryError`].
    pub(super) fn labelled(
        &self,
        labeller: &Labeller,
        shape: Shape,
        starts: &[u32],
    ) -> Result<Vec<Vec<Entry>>, EntryError> {
        match &self.held {
            Held::Panel(panel) => labeller.of_panel(panel, shape, starts, self.least),
            Held::Variants { counts, alleles } => {
                let mut all = Vec::with_capacity(2 * starts.len());
                for (place, start) in starts.iter().enumerate() {
                    let Some(ones) = counts.get(*start as usize).filter(|_| place == 0 || starts[place - 1] != *start)
                    else {
                        continue;
                    };
                    let others = alleles.at(*start as usize).saturating_sub(*ones);
                    all.extend(labeller.of_alleles(*start, [others, *ones], self.least)?);
                }
                Ok(vec![all])
            }
            Held::Keys(_) => Ok(vec![self.labels.clone()]),
        }
    }
}

/// The number of different places.
pub(super) fn different(starts: &[u32]) -> usize {
    1 + starts.windows(2).filter(|pair| pair[0] != pair[1]).count()
}
