//! A phased panel, and how often a haplotype occurs in it: the positional Burrows-Wheeler transform
//! (Durbin, Bioinformatics 2014).
//!
//! At each site, haplotypes are sorted by their reversed prefixes. Haplotypes that agree on the
//! sites before are therefore neighbours, and a step to the next site is a stable sort by one
//! allele. A set of haplotypes that agree from some site on is a range of this order. If they must
//! also have an allele at the next site, the new range follows from two counts: `O(1)` with a
//! directory of ranks. A range may begin at any site, with all haplotypes.
//!
//! The panel is an index of plain data, and stays with its owner.

use std::ops::Range;

/// The most sites of a pattern.
pub const MAX_LENGTH: usize = 128;
/// The most haplotypes of a panel.
pub const MAX_HAPLOTYPES: usize = 1 << 24;
/// The most places for which [`Panel::most_patterns_at`] has a bound.
pub const MAX_FULLEST: usize = 100;
/// Words between two entries of the directory.
const STRIDE: usize = 8;

/// Alleles from a first site on: bit `i` is the allele at site `first + i`.
pub type Pattern = u128;

/// Why a panel is not valid, or a window is not in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PanelError {
    /// No haplotypes, or too many.
    #[error("expected 1 to {MAX_HAPLOTYPES} haplotypes, found {found}")]
    Haplotypes {
        /// The number of haplotypes.
        found: usize,
    },
    /// A site with more or fewer alleles than haplotypes.
    #[error("expected {expected} alleles at site {site}, found {found}")]
    Alleles {
        /// The site's number.
        site: usize,
        /// Haplotypes of the panel.
        expected: usize,
        /// Alleles given.
        found: usize,
    },
    /// Parts that do not form a panel.
    #[error("malformed panel: {0}")]
    Parts(&'static str),
    /// The window is not inside the panel.
    #[error("expected 1 to {MAX_LENGTH} sites from one of the {sites} on, found {length} from site {start} on")]
    Window {
        /// Sites of the panel.
        sites: usize,
        /// The first site.
        start: usize,
        /// The number of sites.
        length: usize,
    },
}

/// A panel, site by site.
#[derive(Clone, Debug)]
pub struct Panel {
    haplotypes: usize,
    /// Words of a site.
    words: usize,
    /// Alleles in the order of reversed prefixes, site after site.
    bits: Vec<u64>,
    /// Ones before every [`STRIDE`]-th word, site after site.
    ranks: Vec<u32>,
    /// Haplotypes with allele 0, by site.
    zeros: Vec<u32>,
    /// The order of haplotypes after the last site.
    order: Vec<u32>,
    /// In this order, the first site from which each haplotype agrees with the one before, up to
    /// the last site; one past the last site if it does not agree there.
    since: Vec<u32>,
    /// By the number of sites less one, the numbers of distinct patterns of the fullest windows: at
    /// most [`MAX_FULLEST`] windows, descending.
    fullest: Vec<Vec<u32>>,
}

/// The parts of a panel that a file stores; everything else follows from them. The parts include
/// the order after the last site, so that sites can be added to a panel that was read. New
/// haplotypes need a new panel.
pub(super) struct Parts<'a> {
    /// As in [`Panel`].
    pub(super) bits: &'a [u64],
    /// As in [`Panel`].
    pub(super) order: &'a [u32],
    /// As in [`Panel`].
    pub(super) since: &'a [u32],
    /// As in [`Panel`].
    pub(super) fullest: &'a [Vec<u32>],
}

/// The number of windows in the list of the fullest, for windows of `length` sites.
pub(super) fn listed(sites: usize, length: usize) -> usize {
    (sites + 1).saturating_sub(length).min(MAX_FULLEST)
}

impl Panel {
    /// A panel of `haplotypes` haplotypes, without a site.
    ///
    /// # Errors
    /// [`PanelError::Haplotypes`].
    pub fn new(haplotypes: usize) -> Result<Self, PanelError> {
        if !(1..=MAX_HAPLOTYPES).contains(&haplotypes) {
            return Err(PanelError::Haplotypes { found: haplotypes });
        }
        let (bits, ranks, zeros) = (Vec::new(), Vec::new(), Vec::new());
        let (order, since) = ((0..haplotypes as u32).collect(), vec![0; haplotypes]);
        let fullest = vec![Vec::new(); MAX_LENGTH];
        Ok(Self { haplotypes, words: haplotypes.div_ceil(64), bits, ranks, zeros, order, since, fullest })
    }

    /// A panel from its parts; counts and the directory are computed again.
    ///
    /// # Errors
    /// [`PanelError`] for parts that do not fit together. This function does not check that the
    /// order follows from the alleles, nor that the listed windows are the fullest.
    pub(super) fn from_parts(
        haplotypes: usize,
        sites: usize,
        (bits, order, since, fullest): (Vec<u64>, Vec<u32>, Vec<u32>, Vec<Vec<u32>>),
    ) -> Result<Self, PanelError> {
        let mut panel = Self::new(haplotypes)?;
        let wrong = PanelError::Parts;
        if sites.checked_mul(panel.words) != Some(bits.len()) || sites >= u32::MAX as usize {
            return Err(wrong("number of alleles"));
        }
        let mut seen = vec![false; haplotypes];
        let new =
            |haplotype: &u32| seen.get_mut(*haplotype as usize).is_some_and(|seen| !std::mem::replace(seen, true));
        if order.len() != haplotypes || !order.iter().all(new) {
            return Err(wrong("order of haplotypes"));
        }
        if since.len() != haplotypes || since.iter().any(|since| *since as usize > sites) {
            return Err(wrong("agreement of haplotypes"));
        }
        let fits = |(length, list): (usize, &Vec<u32>)| {
            let in_order =
                list.is_sorted_by(|a, b| a >= b) && list.iter().all(|n| (1..=haplotypes).contains(&(*n as usize)));
            list.len() == listed(sites, length + 1) && in_order
        };
        if fullest.len() != MAX_LENGTH || !fullest.iter().enumerate().all(fits) {
            return Err(wrong("fullest windows"));
        }
        for words in bits.chunks_exact(panel.words) {
            let unused = words
                .last()
                .map_or(0, |last| if haplotypes.is_multiple_of(64) { 0 } else { last >> (haplotypes % 64) });
            if unused != 0 {
                return Err(wrong("allele of no haplotype"));
            }
            let ones = panel.push_ranks(words);
            panel.zeros.push(haplotypes as u32 - ones);
        }
        Ok(Self { bits, order, since, fullest, ..panel })
    }

    /// The parts for [`Panel::from_parts`].
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts { bits: &self.bits, order: &self.order, since: &self.since, fullest: &self.fullest }
    }

    /// The number of haplotypes.
    pub fn haplotypes(&self) -> usize {
        self.haplotypes
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        self.zeros.len()
    }

    /// Adds a site after the last one. `alleles` tells for each haplotype whether it has allele 1.
    ///
    /// # Errors
    /// [`PanelError::Alleles`].
    pub fn push(&mut self, alleles: &[bool]) -> Result<(), PanelError> {
        let (site, expected, found) = (self.sites(), self.haplotypes, alleles.len());
        if expected != found {
            return Err(PanelError::Alleles { site, expected, found });
        }
        let (mut words, mut ones, mut ones_since) = (vec![0u64; self.words], Vec::new(), Vec::new());
        // by allele: since when the next haplotype with it agrees with the last one
        let mut latest = [site as u32 + 1; 2];
        let mut zeros = 0;
        for place in 0..self.order.len() {
            let haplotype = self.order[place];
            let allele = alleles[haplotype as usize];
            words[place / 64] |= u64::from(allele) << (place % 64);
            latest.iter_mut().for_each(|latest| *latest = (*latest).max(self.since[place]));
            let since = std::mem::take(&mut latest[usize::from(allele)]);
            if allele {
                ones.push(haplotype);
                ones_since.push(since);
            } else {
                (self.order[zeros], self.since[zeros]) = (haplotype, since);
                zeros += 1;
            }
        }
        self.order[zeros..].copy_from_slice(&ones);
        self.since[zeros..].copy_from_slice(&ones_since);
        self.push_ranks(&words);
        self.bits.extend(words);
        self.zeros.push(zeros as u32);
        self.count_patterns();
        Ok(())
    }

    /// Adds a site's entries of the directory, and counts its ones.
    fn push_ranks(&mut self, words: &[u64]) -> u32 {
        let mut before = 0;
        for block in words.chunks(STRIDE) {
            self.ranks.push(before);
            before += block.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        before
    }

    /// Counts the patterns of each window that ends with the last site: one more wherever two
    /// neighbours agree over fewer sites.
    fn count_patterns(&mut self) {
        let end = self.sites() as u32;
        let mut agreeing = [0u32; MAX_LENGTH + 1];
        for since in &self.since {
            agreeing[((end - since) as usize).min(MAX_LENGTH)] += 1;
        }
        let mut patterns = 0;
        for length in 1..=MAX_LENGTH.min(end as usize) {
            patterns += agreeing[length - 1];
            let list = &mut self.fullest[length - 1];
            if list.len() == MAX_FULLEST && list.last().is_some_and(|least| *least >= patterns) {
                continue;
            }
            list.truncate(MAX_FULLEST - 1);
            list.insert(list.partition_point(|more| *more >= patterns), patterns);
        }
    }

    /// The most distinct patterns of any window of this length in the panel; none for an impossible
    /// length. The room of an answer follows from this number, not from the windows of a question.
    pub fn most_patterns(&self, length: usize) -> Option<u32> {
        self.most_patterns_at(length, 1)
    }

    /// The most entries, patterns at places, that any `places` different windows of one length
    /// have: the sum over the fullest windows. It depends on the panel only, not on a question.
    /// None for an impossible length, no place, or more than [`MAX_FULLEST`] places.
    pub fn most_patterns_at(&self, length: usize, places: usize) -> Option<u32> {
        let list = self.fullest.get(length.checked_sub(1)?)?;
        let some = (1..=MAX_FULLEST).contains(&places) && !list.is_empty();
        some.then(|| list.iter().take(places).fold(0, |sum: u32, patterns| sum.saturating_add(*patterns)))
    }

    /// For each number of sites up to `length`, the most patterns among the prefixes of any window:
    /// the room for a longest match. None for an impossible length.
    pub fn most_prefixes(&self, length: usize) -> Option<Vec<u32>> {
        (1..=length).map(|length| self.most_patterns(length)).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
    }

    /// Ones at a site before a place of its order.
    fn ones_before(&self, site: usize, place: u32) -> u32 {
        let (words, place) = (&self.bits[site * self.words..(site + 1) * self.words], place as usize);
        let directory = self.words.div_ceil(STRIDE);
        // a place after the last word belongs to the last block
        let block = (place / (64 * STRIDE)).min(directory - 1);
        let whole = words[block * STRIDE..place / 64].iter().map(|word| word.count_ones()).sum::<u32>();
        let part = match place % 64 {
            0 => 0,
            bits => (words[place / 64] << (64 - bits)).count_ones(),
        };
        self.ranks[site * directory + block] + whole + part
    }

    /// The haplotypes of a range before a site that have this allele at the site.
    fn step(&self, site: usize, range: &Range<u32>, allele: bool) -> Range<u32> {
        let [first, last] = [range.start, range.end].map(|place| self.ones_before(site, place));
        match allele {
            false => range.start - first..range.end - last,
            true => self.zeros[site] + first..self.zeros[site] + last,
        }
    }

    fn all(&self) -> Range<u32> {
        0..self.haplotypes as u32
    }

    /// Whether a window is in the panel.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn check(&self, start: usize, length: usize) -> Result<(), PanelError> {
        let sites = self.sites();
        let inside = (1..=MAX_LENGTH).contains(&length) && start.checked_add(length).is_some_and(|end| end <= sites);
        if inside { Ok(()) } else { Err(PanelError::Window { sites, start, length }) }
    }

    /// The number of haplotypes with these alleles from a site on.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn count(&self, start: usize, length: usize, pattern: Pattern) -> Result<u32, PanelError> {
        self.check(start, length)?;
        let mut range = self.all();
        for i in 0..length {
            range = self.step(start + i, &range, pattern >> i & 1 == 1);
        }
        Ok(range.end - range.start)
    }

    /// The number of alleles, from the first on, that some haplotype shares with a pattern: the
    /// longest match at this position.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn longest(&self, start: usize, length: usize, pattern: Pattern) -> Result<usize, PanelError> {
        self.longest_of(start, length, pattern, 1)
    }

    /// The longest match with at least `least` haplotypes.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn longest_of(&self, start: usize, length: usize, pattern: Pattern, least: u32) -> Result<usize, PanelError> {
        self.check(start, length)?;
        let mut range = self.all();
        for i in 0..length {
            range = self.step(start + i, &range, pattern >> i & 1 == 1);
            if range.len() < least.max(1) as usize {
                return Ok(i);
            }
        }
        Ok(length)
    }

    /// Visits every pattern of a window and of its prefixes that some haplotype has, once: the
    /// number of sites, the alleles, the number of haplotypes.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn prefixes(
        &self,
        start: usize,
        length: usize,
        mut visit: impl FnMut(usize, Pattern, u32),
    ) -> Result<(), PanelError> {
        self.check(start, length)?;
        let mut level: Vec<(Pattern, Range<u32>)> = vec![(0, self.all())];
        for i in 0..length {
            let mut next = Vec::with_capacity(level.len() + 8);
            for (pattern, range) in &level {
                let without = self.step(start + i, range, false);
                if without.len() < range.len() {
                    next.push((pattern | 1 << i, self.step(start + i, range, true)));
                }
                if !without.is_empty() {
                    next.push((*pattern, without));
                }
            }
            next.iter().for_each(|(pattern, range)| visit(i + 1, *pattern, range.len() as u32));
            level = next;
        }
        Ok(())
    }

    /// Every pattern of a window that some haplotype has, with the number of these haplotypes.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn patterns(&self, start: usize, length: usize) -> Result<Vec<(Pattern, u32)>, PanelError> {
        let mut found = Vec::new();
        self.prefixes(start, length, |sites, pattern, count| {
            if sites == length {
                found.push((pattern, count));
            }
        })?;
        Ok(found)
    }
}
