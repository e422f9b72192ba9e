//! Regions of the genome, for budgets of regions.
//!
//! A region is a chromosome and a range of positions, independent of tables. So spent budgets stay
//! when a panel is indexed anew, grows, or gets another name, and count for all panels together.
//! `chr20` and `20` are one chromosome. A server may have had regions of another length before.
//! Tests there count in every region that they overlap, because nobody knows where in the old
//! region they were.

use crate::hidden::cells::Cell;
use crate::messages::TABLE_BYTES;
use crate::table::{Sites, canonical_chromosome};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use tobari_octets::hex;

/// A range of positions of a chromosome.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    /// The chromosome without `chr`. For a panel without positions this is the panel's name, and
    /// positions are the numbers of its sites, from 1.
    pub chromosome: Arc<str>,
    /// The length of the region; at least 1.
    pub bases: u32,
    /// The number of regions before it on the chromosome.
    pub index: u32,
}

impl Region {
    /// The first and the last position; the first base is 1.
    fn ends(&self) -> (u64, u64) {
        let first = u64::from(self.index) * u64::from(self.bases) + 1;
        (first, first + u64::from(self.bases) - 1)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.ends();
        write!(f, "{}:{first}-{last}", self.chromosome)
    }
}

/// Tests that a client made, by region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made(pub(super) BTreeMap<Region, u64>);

impl Made {
    /// Regions in which a test was made.
    pub fn regions(&self) -> usize {
        self.0.len()
    }

    /// Tests that may have been made in a region: in the region itself, and in regions of other
    /// lengths that overlap it.
    pub fn tests(&self, region: &Region) -> u64 {
        let (first, last) = region.ends();
        let (mut tests, mut bases) = (0u64, 0);
        let at = |bases, index| Region { chromosome: Arc::clone(&region.chromosome), bases, index };
        // one step for each length in use
        while let Some((found, _)) = self.0.range(at(bases, 0)..).next() {
            if found.chromosome != region.chromosome {
                break;
            }
            let length = found.bases;
            let index = |position: u64| u32::try_from((position - 1) / u64::from(length)).unwrap_or(u32::MAX);
            let overlapping = self.0.range(at(length, index(first))..=at(length, index(last)));
            tests = overlapping.fold(tests, |tests, (_, made)| tests.saturating_add(*made));
            let Some(next) = length.checked_add(1) else { break };
            bases = next;
        }
        tests
    }

    pub(super) fn add(&mut self, region: Region, tests: u64) {
        let made = self.0.entry(region).or_default();
        *made = made.saturating_add(tests);
    }
}

/// The positions of a table's sites.
pub(super) struct Coordinates {
    /// Each chromosome, without `chr`, with its first site.
    chromosomes: Vec<(Arc<str>, u32)>,
    positions: Vec<u32>,
    /// The sites in which windows stay ([`Sites::stretches`]).
    stretches: Vec<Range<usize>>,
}

impl Coordinates {
    pub(super) fn of(sites: &Sites) -> Self {
        let named = |(name, range): (&Arc<str>, Range<usize>)| (canonical_chromosome(name).into(), range.start as u32);
        let chromosomes = sites.chromosomes().map(named).collect();
        let positions = sites.iter().map(|site| site.position as u32).collect();
        Self { chromosomes, positions, stretches: sites.stretches() }
    }

    /// The sites in which windows stay.
    pub(super) fn stretches(&self) -> Vec<Range<usize>> {
        self.stretches.clone()
    }

    /// The sites of each chromosome.
    fn chromosomes(&self) -> Vec<Range<usize>> {
        let ends = self.chromosomes.iter().skip(1).map(|(_, first)| *first as usize).chain([self.positions.len()]);
        self.chromosomes.iter().zip(ends).map(|((_, first), end)| *first as usize..end).collect()
    }

    /// The sites of a cell.
    pub(super) fn cell(&self, cell: Cell) -> Range<usize> {
        let all = self.chromosomes();
        let Some(range) = all.get(cell.chromosome as usize) else { return 0..0 };
        let of = &self.positions[range.clone()];
        let number = |position: &u32| Cell::number_of(u64::from(*position));
        let first = of.partition_point(|position| number(position) < cell.number);
        let end = of.partition_point(|position| number(position) <= cell.number);
        range.start + first..range.start + end
    }

    /// The regions that a cell overlaps, and the regions that its windows of `length` sites reach.
    pub(super) fn of_cell(&self, cell: Cell, length: usize, bases: u32) -> Vec<Region> {
        let Some((chromosome, _)) = self.chromosomes.get(cell.chromosome as usize) else { return Vec::new() };
        let (first, last) = Cell::ends(cell.number);
        let end = self.chromosomes().get(cell.chromosome as usize).map_or(0, |range| range.end);
        let reached = (self.cell(cell).end + length).saturating_sub(2).min(end.saturating_sub(1));
        let last = self.positions.get(reached).map_or(last, |position| last.max(u64::from(*position)));
        let index = |position: u64| u32::try_from((position - 1) / u64::from(bases.max(1))).unwrap_or(u32::MAX);
        let region = |index| Region { chromosome: Arc::clone(chromosome), bases: bases.max(1), index };
        (index(first)..=index(last)).map(region).collect()
    }

    fn region(&self, site: u32, bases: u32) -> Option<Region> {
        let at = self.chromosomes.partition_point(|(_, first)| *first <= site).checked_sub(1)?;
        let index = self.positions.get(site as usize)?.saturating_sub(1) / bases;
        Some(Region { chromosome: Arc::clone(&self.chromosomes[at].0), bases, index })
    }
}

/// The regions in which windows at these sites have sites, each once. For a panel without positions
/// they are regions of its site numbers.
pub(super) fn touched(
    (coordinates, table): (Option<&Coordinates>, &[u8; TABLE_BYTES]),
    starts: &[u32],
    length: usize,
    bases: u32,
) -> BTreeSet<Region> {
    let bases = bases.max(1);
    let name: Arc<str> = match coordinates {
        Some(_) => "".into(),
        None => hex(table).into(),
    };
    let region = |site: u32| match coordinates {
        Some(coordinates) => coordinates.region(site, bases),
        None => Some(Region { chromosome: Arc::clone(&name), bases, index: site / bases }),
    };
    let sites = starts.iter().flat_map(|start| *start..start.saturating_add(length as u32));
    sites.filter_map(region).collect()
}
