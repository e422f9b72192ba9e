//! Cells of the genome: the parts of a table that are asked with the place hidden.
//!
//! A cell is a chromosome and a range of [`CELL_BASES`] positions. A window belongs to the cell of
//! its first site, however far the window reaches. So the cell is a function of a coordinate alone.
//! It depends neither on the table, its revision and its server, nor on the question.
//!
//! **Claim.** A semi-honest server sees the cell and the number of sites of every question, and
//! nothing else of the place. Take a history of questions that all begin in one cell: many
//! questions, tables, revisions and servers, in any order. Every place of the cell from which the
//! same history stays in the cell shows the servers the same. A scan over the border of two cells
//! shows the border, and so its place.
//!
//! Lists of decoys did not hide a place in a history. Each list was a function of the true place,
//! so two lists for one place had little else in common.
//!
//! **Size.** The places of a cell are the first sites that have room for the window in *every*
//! table that is asked ([`common_places`]). A client refuses a cell with too few of them. It never
//! merges cells, because a merged cell would depend on the table.
//!
//! **What stays visible:** the set of cells that a client asks, how often it asks each, and whether
//! it asks more after an answer. A list of questions is therefore padded
//! ([`padded`]).

use crate::table::{Sites, canonical_allele, canonical_chromosome};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

/// Bases of a cell.
pub const CELL_BASES: u64 = 1_000_000;

/// A cell of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The chromosome's number in the table, from 0.
    pub chromosome: u32,
    /// Cells of the chromosome before this one.
    pub number: u32,
}

impl Cell {
    /// The cell's number of a position.
    pub fn number_of(position: u64) -> u32 {
        u32::try_from(position.saturating_sub(1) / CELL_BASES).unwrap_or(u32::MAX)
    }

    /// The first and the last position of a cell with this number; the first base is 1. Position 0,
    /// which some files have for the end of a chromosome, belongs to the first cell.
    pub fn ends(number: u32) -> (u64, u64) {
        let first = u64::from(number) * CELL_BASES + 1;
        (first, first + CELL_BASES - 1)
    }

    /// The cell of a site of a table; none for a site that the table does not have.
    pub fn of(sites: &Sites, site: usize) -> Option<Self> {
        let chromosome = sites.chromosomes().position(|(_, range)| range.contains(&site))? as u32;
        Some(Self { chromosome, number: Self::number_of(sites.get(site)?.position) })
    }

    /// The sites of the table in this cell.
    pub fn sites(self, sites: &Sites) -> Range<usize> {
        let (first, last) = Self::ends(self.number);
        let range = sites.chromosomes().nth(self.chromosome as usize).map(|(_, range)| range);
        range.map_or(0..0, |range| sites.between(range, if first == 1 { 0 } else { first }, last))
    }
}

/// A cell by its coordinate, the same for every table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinate {
    /// The chromosome without `chr`.
    pub chromosome: String,
    /// Cells of the chromosome before this one.
    pub number: u32,
}

impl Coordinate {
    /// The cell of a position.
    pub fn new(chromosome: &str, position: u64) -> Self {
        Self { chromosome: canonical_chromosome(chromosome).to_owned(), number: Cell::number_of(position) }
    }

    /// The cell of a site of a table; none for a site that the table does not have.
    pub fn of(sites: &Sites, site: usize) -> Option<Self> {
        sites.get(site).map(|site| Self::new(site.chromosome, site.position))
    }

    /// This cell in a table; none for a table without the chromosome.
    pub fn within(&self, sites: &Sites) -> Option<Cell> {
        let same = |name: &str| canonical_chromosome(name) == self.chromosome;
        let chromosome = sites.chromosomes().position(|(name, _)| same(name))? as u32;
        Some(Cell { chromosome, number: self.number })
    }
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = Cell::ends(self.number);
        write!(f, "{}:{first}-{last}", self.chromosome)
    }
}

/// The order in which a list of questions is sent, given the group (a cell and a number of sites)
/// of each. Every group gets as many questions as the fullest one, in rounds: one of each group, in
/// the order of groups. None stands for a question without meaning, whose answer is not used. The
/// order depends on the groups only, so a server sees no more than the set of groups, and the
/// greatest number of questions in one.
pub fn padded<G: Ord + Clone>(groups: &[G]) -> Vec<(G, Option<usize>)> {
    let mut all: BTreeMap<&G, Vec<usize>> = BTreeMap::new();
    groups.iter().enumerate().for_each(|(index, group)| all.entry(group).or_default().push(index));
    let rounds = all.values().map(Vec::len).max().unwrap_or(0);
    let round = |round: usize| all.iter().map(move |(group, of)| ((*group).clone(), of.get(round).copied()));
    (0..rounds).flat_map(round).collect()
}

/// The number of places of a cell that exist in every one of these tables: variants from which on
/// each table has `length` sites. Zero without a table.
pub fn common_places(tables: &[&Sites], cell: &Coordinate, length: usize) -> usize {
    let mut seen: HashMap<(u64, String, String), usize> = HashMap::new();
    for (index, sites) in tables.iter().enumerate() {
        let range = cell.within(sites).map_or(0..0, |cell| cell.sites(sites));
        for site in range.filter(|start| sites.check_window(*start, length).is_ok()) {
            let Some(site) = sites.get(site) else { continue };
            let [reference, alternate] =
                [site.reference, site.alternate].map(|allele| canonical_allele(allele).into_owned());
            let count = seen.entry((site.position, reference, alternate)).or_default();
            // a variant counts once a table, and only if all tables before had it
            *count += usize::from(*count == index);
        }
    }
    seen.values().filter(|count| **count == tables.len()).count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use crate::table::Site;

    fn sites(all: &[(&str, u64, &str)]) -> Sites {
        let mut sites = Sites::new();
        for (chromosome, position, alternate) in all {
            let (chromosome, alternate) = ((*chromosome).into(), (*alternate).into());
            sites.push(Site { chromosome, position: *position, id: None, reference: "A".into(), alternate }).unwrap();
        }
        sites
    }

    #[test]
    fn a_cell_is_a_function_of_the_position_of_the_first_site() {
        let one = sites(&[("1", 5, "C"), ("chr2", 1, "C"), ("chr2", 1_000_000, "C"), ("chr2", 1_000_001, "C")]);
        let of: Vec<String> = (0..4).map(|site| Coordinate::of(&one, site).unwrap().to_string()).collect();
        assert_eq!(of, ["1:1-1000000", "2:1-1000000", "2:1-1000000", "2:1000001-2000000"]);
        let cells: Vec<Cell> = (0..4).map(|site| Cell::of(&one, site).unwrap()).collect();
        assert_eq!(cells.iter().map(|cell| cell.sites(&one)).collect::<Vec<_>>(), [0..1, 1..3, 1..3, 3..4]);
        assert_eq!(Coordinate::new("2", 7).within(&one), Some(cells[1]));
        assert_eq!((Coordinate::new("3", 7).within(&one), Cell::of(&one, 4)), (None, None));
        assert_eq!(Cell { chromosome: 1, number: 9 }.sites(&one), 4..4);
        assert!(Cell { chromosome: 9, number: 0 }.sites(&one).is_empty());
    }

    #[test]
    fn every_group_of_a_list_gets_as_many_questions_in_an_order_of_its_own() {
        let of = padded(&["b", "a", "b", "b", "c"]);
        let expected = [("a", Some(1)), ("b", Some(0)), ("c", Some(4))];
        assert_eq!(of[..3], expected);
        assert_eq!(of[3..], [("a", None), ("b", Some(2)), ("c", None), ("a", None), ("b", Some(3)), ("c", None)]);
        assert!(padded::<u8>(&[]).is_empty());
        // what a server sees does not depend on which group has the many questions
        let seen = |groups: &[&'static str]| padded(groups).into_iter().map(|(group, _)| group).collect::<Vec<_>>();
        assert_eq!(seen(&["a", "a", "a", "b"]), seen(&["b", "a", "b", "b"]));
    }

    #[test]
    fn places_count_that_every_table_has_with_room_for_the_window() {
        let one = sites(&[("20", 5, "C"), ("20", 6, "C"), ("20", 6, "G"), ("20", 9, "C"), ("20", 2_000_000, "C")]);
        let two = sites(&[("chr20", 5, "C"), ("chr20", 6, "g"), ("chr20", 8, "C"), ("chr20", 9, "C")]);
        let cell = Coordinate::new("20", 5);
        let count = |tables: &[&Sites], length| common_places(tables, &cell, length);
        assert_eq!([1, 2, 3, 4, 5].map(|length| count(&[&one], length)), [4, 4, 3, 2, 1]);
        assert_eq!([1, 2, 4].map(|length| count(&[&two], length)), [4, 3, 1]);
        // 5 A>C, 6 A>G and 9 A>C; the last has no room for two sites in the second table
        assert_eq!([1, 2, 4, 5].map(|length| count(&[&one, &two], length)), [3, 2, 1, 0]);
        assert_eq!(count(&[&two, &one], 2), 2);
        assert_eq!((count(&[], 1), count(&[&one, &sites(&[("1", 5, "C")])], 1)), (0, 0));
    }
}
