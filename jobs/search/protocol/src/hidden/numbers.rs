//! The numbers of questions to a table: patterns of so many sites anywhere, or keys.
//!
//! A window of `L` sites that begins at site `s` has the number `s 2^L + pattern`, below `S 2^L`
//! for `S` sites. Every window and pattern has a different number. If the numbers take more than
//! 128 bits, the number is the first 128 bits of `SHA-256("tobari search window" || table || s || L
//! || pattern)`: then an absent pattern has the number of one of `n` entries with probability at
//! most `n 2^-128`. The table's rule gives the number of a key ([`crate::table::KeyRule`]). Windows
//! never cross from one chromosome to the next.
//!
//! **With labels** ([`crate::oprf`]) the number of an entry is 128 bits of its label, and the count
//! has a pad. Then a number means something only to a client that had the entry evaluated.
//!
//! A table that is arranged for one kind of question has its own name: a hash of the table's name,
//! the kind and the layout. A query contains this name. So the server finds no table for a query
//! that was made for an earlier arrangement.

use super::cells::Cell;
use super::messages::encode_layout;
use super::program::Layout;
use crate::messages::TABLE_BYTES;
use crate::oprf::Revision;
use crate::oprf::labels::{Labeller, key_input, window_input};
use crate::panel::{MAX_LENGTH, Panel, Pattern};
use crate::program::EntryError;
use crate::question::QuestionError;
use crate::table::{Alleles, Catalogue, CatalogueContent, Content, KeyRule, KeyTable, Question, Table};
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use tobari_lattice::ring::Modulus;

/// The kind of questions to a table that is arranged with the place hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Patterns of so many sites, anywhere.
    Windows(usize),
    /// Keys.
    Keys,
}

/// The text names no kind of question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of sites from 1 to 128, or the word keys, found {0:?}")]
pub struct KindError(String);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Windows(length) => write!(f, "{length}"),
            Self::Keys => f.write_str("keys"),
        }
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        if text == "keys" {
            return Ok(Self::Keys);
        }
        let length = text.parse().ok().filter(|length| (1..=MAX_LENGTH).contains(length));
        length.map(Self::Windows).ok_or_else(|| KindError(text.chars().take(20).collect()))
    }
}

impl Kind {
    /// The kind of a question.
    pub fn of(question: &Question<'_>) -> Self {
        match question {
            Question::Window { length, .. } => Self::Windows(*length),
            Question::Key(_) => Self::Keys,
        }
    }
}

/// The part of a table that one arrangement has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The whole table. The server learns nothing of the place.
    Whole,
    /// The windows that begin in a cell. The server learns the cell.
    Cell(Cell),
}

/// The numbers of one kind of questions to a table, or to a part of it.
#[derive(Clone, Debug)]
pub struct Numbers {
    table: [u8; TABLE_BYTES],
    revision: u32,
    kind: Kind,
    part: Part,
    /// The rule of keys, for a table of keys.
    rule: Option<KeyRule>,
    /// The sites of each chromosome.
    chromosomes: Vec<Range<usize>>,
    /// The sites at which windows of the part begin.
    starts: Range<usize>,
    last: u128,
    exact: bool,
    /// The name of the key of labels.
    labels: Option<Revision>,
}

/// A bound on the counts of a table: its haplotypes or alleles; of keys, the greatest count.
pub(crate) fn greatest_count(table: &Table) -> u64 {
    match &table.content {
        Content::Panel { panel, .. } => panel.haplotypes() as u64,
        Content::Variants { alleles, .. } => u64::from(alleles.most()),
        Content::Keys(keys) => keys.entries().map(|(_, count)| u64::from(count)).max().unwrap_or(1),
    }
}

/// An entry of a table before it has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// The first site of a window; 0 for a key.
    place: usize,
    /// The pattern of a window, or the number of a key.
    value: u128,
    count: u64,
}

/// The sites of a table, as far as numbers depend on them.
pub(crate) struct Windows {
    pub(crate) table: [u8; TABLE_BYTES],
    pub(crate) revision: u32,
    /// Whether haplotypes are known.
    pub(crate) phased: bool,
    /// The sites of each chromosome, or of each stretch of one
    /// ([`crate::table::Sites::stretches`]).
    pub(crate) chromosomes: Vec<Range<usize>>,
    /// The sites at which windows of the part begin.
    pub(crate) starts: Range<usize>,
}

impl Numbers {
    /// The numbers of a whole table with this catalogue.
    ///
    /// # Errors
    /// [`QuestionError::Kind`] if the table does not answer questions of this kind.
    pub fn new(catalogue: &Catalogue, kind: Kind) -> Result<Self, QuestionError> {
        Self::of_part(catalogue, kind, Part::Whole)
    }

    /// The numbers of a part of the table with this catalogue.
    ///
    /// # Errors
    /// [`QuestionError::Kind`] if the part does not answer questions of this kind.
    pub fn of_part(catalogue: &Catalogue, kind: Kind, part: Part) -> Result<Self, QuestionError> {
        let (table, revision) = (catalogue.name, catalogue.revision);
        match (kind, part, &catalogue.content) {
            (Kind::Keys, Part::Whole, CatalogueContent::Keys { rule, .. }) => {
                let (last, chromosomes, starts) = ((1 << rule.bits()) - 1, Vec::new(), 0..0);
                let rule = Some(*rule);
                Ok(Self { table, revision, kind, part, rule, chromosomes, starts, last, exact: true, labels: None })
            }
            (Kind::Keys, _, _) => Err(QuestionError::Kind("about alleles at sites")),
            (Kind::Windows(_), _, CatalogueContent::Keys { .. }) => Err(QuestionError::Kind("for a key")),
            (
                Kind::Windows(length),
                _,
                CatalogueContent::Panel { sites, .. } | CatalogueContent::Variants { sites, .. },
            ) => {
                let starts = match part {
                    Part::Whole => 0..sites.len(),
                    Part::Cell(cell) => cell.sites(sites),
                };
                let chromosomes = sites.stretches();
                let phased = matches!(catalogue.content, CatalogueContent::Panel { .. });
                Self::of_windows(Windows { table, revision, phased, chromosomes, starts }, length, part)
            }
        }
    }

    /// The numbers of windows of so many sites.
    pub(crate) fn of_windows(windows: Windows, length: usize, part: Part) -> Result<Self, QuestionError> {
        let Windows { table, revision, phased, chromosomes, starts } = windows;
        if !phased && length != 1 {
            let why = "of one site: its variants have no phase, so that haplotypes are not known";
            return Err(QuestionError::Kind(why));
        }
        let mut numbers = Self {
            table,
            revision,
            kind: Kind::Windows(length),
            part,
            rule: None,
            chromosomes,
            starts,
            last: 0,
            exact: false,
            labels: None,
        };
        // some chromosome must have room for a window of the part
        if !(1..=MAX_LENGTH).contains(&length) || numbers.places() == 0 {
            return Err(QuestionError::Kind("of fewer sites"));
        }
        let place = numbers.starts.len() as u128 - 1;
        numbers.exact = (u128::BITS - place.leading_zeros()) as usize + length <= u128::BITS as usize;
        let patterns = u128::MAX >> (u128::BITS as usize - length);
        numbers.last = if numbers.exact { shifted(place, length) | patterns } else { u128::MAX };
        Ok(numbers)
    }

    /// The same questions, with labels under the key of this name.
    #[must_use]
    pub fn with_labels(self, revision: Revision) -> Self {
        Self { last: u128::MAX, exact: false, labels: Some(revision), ..self }
    }

    /// The name of the key of labels; none without labels.
    pub fn labels(&self) -> Option<&Revision> {
        self.labels.as_ref()
    }

    /// The kind of the questions.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The part of the table.
    pub fn part(&self) -> Part {
        self.part
    }

    /// The table's name.
    pub(crate) fn table(&self) -> &[u8; TABLE_BYTES] {
        &self.table
    }

    /// The last number.
    pub fn last(&self) -> u128 {
        self.last
    }

    /// The number of places among which the true place is hidden: sites of the part from which on
    /// the chromosome has a window of this length. One for a table of keys.
    pub fn places(&self) -> usize {
        let Kind::Windows(length) = self.kind else { return 1 };
        let of = |range: &Range<usize>| {
            let end = (range.end + 1).saturating_sub(length).min(self.starts.end);
            end.saturating_sub(range.start.max(self.starts.start))
        };
        self.chromosomes.iter().map(of).sum()
    }

    /// Whether a window that begins here belongs to the part, and ends on its chromosome.
    fn has(&self, start: usize) -> bool {
        let Kind::Windows(length) = self.kind else { return false };
        let after = self.chromosomes.partition_point(|range| range.end <= start);
        let inside = |range: &Range<usize>| range.contains(&start) && length <= range.end - start;
        self.starts.contains(&start) && self.chromosomes.get(after).is_some_and(inside)
    }

    /// The number of a question, without labels.
    ///
    /// # Errors
    /// [`QuestionError`] for a question of another kind, or sites that the part does not have.
    pub fn of(&self, question: &Question<'_>) -> Result<u128, QuestionError> {
        Ok(self.number(&self.item(question)?))
    }

    /// The input of the function that makes the labels, for a question.
    ///
    /// # Errors
    /// [`Self::of`].
    pub fn input(&self, question: &Question<'_>) -> Result<Vec<u8>, QuestionError> {
        Ok(self.input_of(&self.item(question)?))
    }

    /// Some input that a question without meaning has evaluated: the server does not see which.
    pub(crate) fn some_input(&self) -> Vec<u8> {
        self.input_of(&Item { place: self.starts.start, value: 0, count: 0 })
    }

    fn item(&self, question: &Question<'_>) -> Result<Item, QuestionError> {
        match (question, self.kind, &self.rule) {
            (Question::Key(key), Kind::Keys, Some(rule)) => {
                Ok(Item { place: 0, value: rule.key_number(key), count: 0 })
            }
            (Question::Window { start, length, pattern }, Kind::Windows(own), _) if *length == own => {
                let there = self.has(*start).then_some(Item { place: *start, value: *pattern, count: 0 });
                there.ok_or(QuestionError::Kind("at sites of one chromosome, in the part of the table that is asked"))
            }
            _ => Err(QuestionError::Kind("of the kind and length that it is arranged for")),
        }
    }

    fn number(&self, item: &Item) -> u128 {
        match self.kind {
            Kind::Keys => item.value,
            Kind::Windows(_) => self.of_window(item.place, item.value),
        }
    }

    fn input_of(&self, item: &Item) -> Vec<u8> {
        match self.kind {
            Kind::Keys => key_input(&self.table, item.value),
            Kind::Windows(length) => window_input(&self.table, item.place as u32, length, item.value),
        }
    }

    fn of_window(&self, start: usize, pattern: Pattern) -> u128 {
        let Kind::Windows(length) = self.kind else { return self.last };
        let pattern = pattern & u128::MAX >> (u128::BITS as usize - length);
        if self.exact {
            return shifted((start - self.starts.start) as u128, length) | pattern;
        }
        let hash = Sha256::new_with_prefix(b"tobari search window")
            .chain_update(self.table)
            .chain_update((start as u64).to_be_bytes())
            .chain_update([length as u8])
            .chain_update(pattern.to_be_bytes());
        hash.finalize().iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    /// All entries of this catalogue's table, with their counts, without labels. Entries with a
    /// count below the table's least count are left out.
    ///
    /// # Errors
    /// [`QuestionError`] for a table of another kind.
    pub fn entries(&self, table: &Table) -> Result<Vec<(u128, u64)>, QuestionError> {
        Ok(self.items(table)?.iter().map(|item| (self.number(item), item.count)).collect())
    }

    /// Items with their numbers and counts; with a labeller, with labels in some 40 us each.
    ///
    /// # Errors
    /// [`EntryError::Count`] for a count that has no room in a table with labels.
    pub(crate) fn numbered(
        &self,
        items: &[Item],
        labels: Option<(&Labeller, &Modulus)>,
    ) -> Result<Vec<(u128, u64)>, EntryError> {
        match labels {
            None => Ok(items.iter().map(|item| (self.number(item), item.count)).collect()),
            Some((labeller, t)) => labeller.of_hidden(t, items.iter().map(|item| (self.input_of(item), item.count))),
        }
    }

    /// All items of this catalogue's table, as [`Self::entries`].
    pub(crate) fn items(&self, table: &Table) -> Result<Vec<Item>, QuestionError> {
        match &table.content {
            Content::Keys(keys) => self.of_keys(keys, table.least),
            Content::Panel { panel, .. } => self.of_panel(panel, table.least),
            Content::Variants { counts, alleles, .. } => self.of_counts(counts, alleles, table.least),
        }
    }

    fn of_keys(&self, keys: &KeyTable, least: u32) -> Result<Vec<Item>, QuestionError> {
        if self.kind != Kind::Keys {
            return Err(QuestionError::Kind("of its own kind"));
        }
        let told = keys.entries().filter(|(_, count)| *count >= least.max(1));
        Ok(told.map(|(value, count)| Item { place: 0, value, count: count.into() }).collect())
    }

    /// The items of a panel, as [`Self::items`].
    pub(crate) fn of_panel(&self, panel: &Panel, least: u32) -> Result<Vec<Item>, QuestionError> {
        let Kind::Windows(length) = self.kind else { return Err(QuestionError::Kind("of its own kind")) };
        let mut all = Vec::new();
        for place in self.starts.clone().filter(|start| self.has(*start)) {
            let found = panel.patterns(place, length).map_err(|_| QuestionError::Kind("of fewer sites"))?;
            let told = found.into_iter().filter(|(_, count)| *count >= least.max(1));
            all.extend(told.map(|(value, count)| Item { place, value, count: count.into() }));
        }
        Ok(all)
    }

    /// The items of variants without phase, as [`Self::items`].
    pub(crate) fn of_counts(&self, counts: &[u32], alleles: &Alleles, least: u32) -> Result<Vec<Item>, QuestionError> {
        if self.kind != Kind::Windows(1) {
            return Err(QuestionError::Kind("of its own kind"));
        }
        let mut all = Vec::new();
        for place in self.starts.clone() {
            let ones = *counts.get(place).ok_or(QuestionError::Kind("of fewer sites"))?;
            let others = alleles.at(place).saturating_sub(ones);
            let told = [(0, others), (1, ones)].into_iter().filter(|(_, count)| *count >= least.max(1));
            all.extend(told.map(|(value, count)| Item { place, value, count: count.into() }));
        }
        Ok(all)
    }

    /// `log2` of a bound on the probability that an absent key or pattern has the number of one of
    /// so many entries; none if all numbers are different. The layout adds its own probability
    /// ([`Layout::false_positives`]).
    pub fn false_positives(&self, entries: u64) -> Option<f64> {
        let rule = self.rule.and_then(|rule| rule.false_positive_log2(entries));
        let hash = (!self.exact).then(|| (entries.max(1) as f64).log2() - f64::from(u128::BITS));
        let sum: f64 = [rule, hash].into_iter().flatten().map(f64::exp2).sum();
        (sum > 0.0).then(|| sum.log2())
    }

    /// The name of an arrangement. For a cell it depends on the revision too, because a cell counts
    /// places from its own first site; with labels it depends on their key.
    pub fn name(&self, layout: &Layout) -> [u8; TABLE_BYTES] {
        let kind = if let Kind::Windows(length) = self.kind { length as u8 } else { 0 };
        let mut hash = Sha256::new_with_prefix(b"tobari search hidden").chain_update(self.table).chain_update([kind]);
        if let Part::Cell(cell) = self.part {
            let numbers = [self.revision, cell.chromosome, cell.number].map(u32::to_be_bytes);
            hash = hash.chain_update(b"cell").chain_update(numbers.as_flattened());
        }
        if let Some(labels) = &self.labels {
            hash = hash.chain_update(b"labels").chain_update(labels);
        }
        hash.chain_update(encode_layout(layout)).finalize().into()
    }
}

/// Moves a place above the bits of the pattern. If the pattern takes all bits, there is only
/// place 0.
fn shifted(place: u128, length: usize) -> u128 {
    place.checked_shl(length as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use crate::table::Site;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    /// Two chromosomes of so many sites each.
    fn table(sites: usize) -> Table {
        let mut content = Content::panel(4).unwrap();
        for i in 0..2 * sites {
            let (chromosome, position) = ([b'1', b'2'][i / sites], 100 + i as u64);
            let site = Site {
                id: None,
                chromosome: char::from(chromosome).to_string().into(),
                position,
                reference: "A".into(),
                alternate: "C".into(),
            };
            content.push_site(site, &[i % 2 == 0, i % 3 == 0, true, false]).unwrap();
        }
        Table::new(content, 1, "", &mut ChaCha20Rng::from_seed([1; 32]))
    }

    #[test]
    fn every_window_and_pattern_has_a_number_of_its_own_and_none_crosses_a_chromosome() {
        let table = table(70);
        let catalogue = table.catalogue();
        for length in [1, 3, 64, 70] {
            let numbers = Numbers::new(&catalogue, Kind::Windows(length)).unwrap();
            let entries = numbers.entries(&table).unwrap();
            let mut all: Vec<u128> = entries.iter().map(|entry| entry.0).collect();
            assert!(all.iter().all(|number| *number <= numbers.last()));
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), entries.len(), "{length}");
            assert_eq!(entries.iter().map(|entry| entry.1).sum::<u64>(), 4 * 2 * (71 - length as u64));
            assert_eq!(numbers.false_positives(9), None);
            let crossing = Question::Window { start: 70 - length + 1, length, pattern: 0 };
            assert_eq!(numbers.of(&crossing).is_ok(), length == 1, "a window of one site crosses nothing");
        }
        for kind in [Kind::Windows(0), Kind::Windows(129), Kind::Keys] {
            assert!(Numbers::new(&catalogue, kind).is_err(), "{kind}");
        }
    }

    #[test]
    fn long_patterns_have_fingerprints_and_say_how_often_these_err() {
        let table = table(128);
        let catalogue = table.catalogue();
        let short = Numbers::new(&catalogue, Kind::Windows(120)).unwrap();
        assert_eq!((short.last(), short.false_positives(1)), (u128::MAX, None), "256 places of 2^120");
        let long = Numbers::new(&catalogue, Kind::Windows(121)).unwrap();
        assert_eq!(long.false_positives(1 << 20), Some(-108.0));
        let of = |start, pattern| long.of(&Question::Window { start, length: 121, pattern }).unwrap();
        let all = [of(0, 5), of(1, 5), of(0, 4), of(128, 5)];
        assert!((0..4).all(|i| !all[..i].contains(&all[i])));
        assert_eq!(of(0, 5), of(0, 5 | 1 << 121), "what is beyond the window is not asked for");
        assert!(long.entries(&table).unwrap().iter().any(|entry| entry.1 >= 1));
    }

    #[test]
    fn kinds_are_words() {
        for kind in [Kind::Windows(1), Kind::Windows(128), Kind::Keys] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for wrong in ["", "0", "129", "key", "-1", "ten"] {
            assert!(wrong.parse::<Kind>().is_err(), "{wrong}");
        }
    }
}
