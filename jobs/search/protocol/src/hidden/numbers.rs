//! The numbers of questions to a table: patterns of so many sites anywhere, or keys.
//!
//! A window of `L` sites that begins at site `s` has the number `s 2^L + pattern`, below `S 2^L`
//! for `S` sites. Every window and pattern has a different number. If the numbers take more than
//! 128 bits, the number is the first 128 bits of `SHA-256("tobari search window" || table || s || L
//! || pattern)`: then an absent pattern has the number of one of `n` entries with probability at
//! most `n 2^-128`. The table's rule gives the number of a key ([`crate::table::KeyRule`]). Windows
//! never cross from one chromosome to the next.
//!
//! A table that is arranged for one kind of question has its own name: a hash of the table's name,
//! the kind and the layout. A query contains this name. So the server finds no table for a query
//! that was made for an earlier arrangement.

use super::messages::encode_layout;
use super::program::Layout;
use crate::messages::TABLE_BYTES;
use crate::panel::Pattern;
use crate::question::QuestionError;
use crate::table::{Catalogue, CatalogueContent, Content, Question, Table};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

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
        let length = text.parse().ok().filter(|length| (1..=crate::panel::MAX_LENGTH).contains(length));
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

/// The numbers of one kind of questions to a table.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    catalogue: &'a Catalogue,
    kind: Kind,
    last: u128,
    exact: bool,
}

impl<'a> Numbers<'a> {
    /// The numbers for the table of this catalogue.
    ///
    /// # Errors
    /// [`QuestionError::Kind`] if the table does not answer questions of this kind.
    pub fn new(catalogue: &'a Catalogue, kind: Kind) -> Result<Self, QuestionError> {
        let (last, exact) = match (kind, &catalogue.content) {
            (Kind::Keys, CatalogueContent::Keys { rule, .. }) => ((1 << rule.bits()) - 1, true),
            (Kind::Keys, _) => return Err(QuestionError::Kind("about alleles at sites")),
            (Kind::Windows(_), CatalogueContent::Keys { .. }) => return Err(QuestionError::Kind("for a key")),
            (Kind::Windows(length), CatalogueContent::Variants { .. }) if length != 1 => {
                let why = "of one site: its variants have no phase, so that haplotypes are not known";
                return Err(QuestionError::Kind(why));
            }
            (
                Kind::Windows(length),
                CatalogueContent::Panel { sites, .. } | CatalogueContent::Variants { sites, .. },
            ) => {
                // a chromosome must have room for a window
                let room = sites.chromosomes().any(|(_, range)| range.len() >= length);
                if !room || !(1..=catalogue.longest_pattern()).contains(&length) {
                    return Err(QuestionError::Kind("of fewer sites"));
                }
                let place = sites.len() as u128 - 1;
                let exact = (u128::BITS - place.leading_zeros()) as usize + length <= u128::BITS as usize;
                let patterns = u128::MAX >> (u128::BITS as usize - length);
                if exact { (shifted(place, length) | patterns, true) } else { (u128::MAX, false) }
            }
        };
        Ok(Self { catalogue, kind, last, exact })
    }

    /// The kind of the questions.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The last number.
    pub fn last(&self) -> u128 {
        self.last
    }

    /// The number of places among which the true place is hidden: all sites, or one for a table of
    /// keys.
    pub fn places(&self) -> usize {
        self.catalogue.sites().map_or(1, crate::table::Sites::len)
    }

    /// The number of a question.
    ///
    /// # Errors
    /// [`QuestionError`] for a question of another kind, or sites that the table does not have.
    pub fn of(&self, question: &Question<'_>) -> Result<u128, QuestionError> {
        match (question, self.kind, &self.catalogue.content) {
            (Question::Key(key), Kind::Keys, CatalogueContent::Keys { rule, .. }) => Ok(rule.key_number(key)),
            (Question::Window { start, length, pattern }, Kind::Windows(own), _) if *length == own => {
                let sites = self.catalogue.sites().ok_or(QuestionError::Kind("for a key"))?;
                sites.check_window(*start, *length)?;
                Ok(self.of_window(*start, *pattern))
            }
            _ => Err(QuestionError::Kind("of the kind and length that it is arranged for")),
        }
    }

    fn of_window(&self, start: usize, pattern: Pattern) -> u128 {
        let Kind::Windows(length) = self.kind else { return self.last };
        let pattern = pattern & u128::MAX >> (u128::BITS as usize - length);
        if self.exact {
            return shifted(start as u128, length) | pattern;
        }
        let hash = Sha256::new_with_prefix(b"tobari search window")
            .chain_update(self.catalogue.name)
            .chain_update((start as u64).to_be_bytes())
            .chain_update([length as u8])
            .chain_update(pattern.to_be_bytes());
        hash.finalize().iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    /// All entries of this catalogue's table, with their counts. Entries with a count below the
    /// table's least count are left out.
    ///
    /// # Errors
    /// [`QuestionError`] for a table of another kind.
    pub fn entries(&self, table: &Table) -> Result<Vec<(u128, u64)>, QuestionError> {
        let enough = |count: &u32| *count >= table.least.max(1);
        let mut all = Vec::new();
        match (&table.content, self.kind) {
            (Content::Keys(keys), Kind::Keys) => {
                let told = keys.entries().filter(|(_, count)| enough(count));
                all.extend(told.map(|(number, count)| (number, u64::from(count))));
            }
            (Content::Panel { sites, panel }, Kind::Windows(length)) => {
                for start in (0..sites.len()).filter(|start| sites.check_window(*start, length).is_ok()) {
                    let found = panel.patterns(start, length).map_err(|_| QuestionError::Kind("of fewer sites"))?;
                    let told = found.into_iter().filter(|(_, count)| enough(count));
                    all.extend(told.map(|(pattern, count)| (self.of_window(start, pattern), u64::from(count))));
                }
            }
            (Content::Variants { counts, alleles, .. }, Kind::Windows(1)) => {
                for (start, ones) in counts.iter().enumerate() {
                    let told = [(0, alleles - ones), (1, *ones)].into_iter().filter(|(_, count)| enough(count));
                    all.extend(told.map(|(allele, count)| (self.of_window(start, allele), u64::from(count))));
                }
            }
            _ => return Err(QuestionError::Kind("of its own kind")),
        }
        Ok(all)
    }

    /// `log2` of a bound on the probability that an absent key or pattern has the number of one of
    /// so many entries; none if all numbers are different. The layout adds its own probability
    /// ([`Layout::false_positives`]).
    pub fn false_positives(&self, entries: u64) -> Option<f64> {
        match &self.catalogue.content {
            CatalogueContent::Keys { rule, .. } => rule.false_positive_log2(entries),
            _ => (!self.exact).then(|| (entries.max(1) as f64).log2() - f64::from(u128::BITS)),
        }
    }

    /// The name of an arrangement.
    pub fn name(&self, layout: &Layout) -> [u8; TABLE_BYTES] {
        let kind = if let Kind::Windows(length) = self.kind { length as u8 } else { 0 };
        let hash = Sha256::new_with_prefix(b"tobari search hidden")
            .chain_update(self.catalogue.name)
            .chain_update([kind])
            .chain_update(encode_layout(layout));
        hash.finalize().into()
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
