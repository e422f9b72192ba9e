//! A phased panel, and how often a haplotype occurs in it: the positional Burrows-Wheeler transform (Durbin, Bioinformatics 2014).
//!
//! At each site the haplotypes stand in the order of their reversed prefixes, so that all that agree on the sites before it stand side by side, and a step
//! to the next site is a stable sort by one allele. A set of them that agree from some site on is a range of that order, and the range of those
//! that also have an allele at the next site follows from two counts: `O(1)` with a directory of ranks. A range may begin at any site, with all haplotypes.
//!
//! This is an index of plain data, held by whoever owns it.

use std::ops::Range;

/// Sites that a pattern has at most.
pub const MAX_LENGTH: usize = 128;
/// Haplotypes that a panel has at most.
pub const MAX_HAPLOTYPES: usize = 1 << 24;
/// Words between two entries of the directory.
const STRIDE: usize = 8;

/// Alleles from a first site on: bit `i` is the one at site `first + i`.
pub type Pattern = u128;

/// Why a panel is none, or a window is not in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PanelError {
    /// No haplotype, or too many.
    #[error("expected 1 to {MAX_HAPLOTYPES} haplotypes, found {found}")]
    Haplotypes {
        /// How many.
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
    /// A window that is not inside.
    #[error("expected 1 to {MAX_LENGTH} sites from one of the {sites} on, found {length} from site {start} on")]
    Window {
        /// Sites of the panel.
        sites: usize,
        /// The first site.
        start: usize,
        /// How many.
        length: usize,
    },
}

/// A panel, site by site.
#[derive(Clone, Debug)]
pub struct Panel {
    haplotypes: usize,
    /// Words of a site.
    words: usize,
    /// Site after site, alleles in the order of reversed prefixes.
    bits: Vec<u64>,
    /// Site after site, how many ones stand before every [`STRIDE`]-th word.
    ranks: Vec<u32>,
    /// By site, how many haplotypes have allele 0.
    zeros: Vec<u32>,
    /// Haplotypes in their order after the last site.
    order: Vec<u32>,
    /// In that order, the first site from which each agrees with the one before it up to the last; one past the last if it does not.
    since: Vec<u32>,
    /// By the number of sites, the most distinct patterns of a window of so many.
    most: Vec<u32>,
}

impl Panel {
    /// A panel of so many haplotypes, without a site.
    ///
    /// # Errors
    /// [`PanelError::Haplotypes`].
    pub fn new(haplotypes: usize) -> Result<Self, PanelError> {
        if !(1..=MAX_HAPLOTYPES).contains(&haplotypes) {
            return Err(PanelError::Haplotypes { found: haplotypes });
        }
        let (bits, ranks, zeros) = (Vec::new(), Vec::new(), Vec::new());
        let (order, since, most) = ((0..haplotypes as u32).collect(), vec![0; haplotypes], vec![0; MAX_LENGTH + 1]);
        Ok(Self { haplotypes, words: haplotypes.div_ceil(64), bits, ranks, zeros, order, since, most })
    }

    /// Haplotypes.
    pub fn haplotypes(&self) -> usize {
        self.haplotypes
    }

    /// Sites.
    pub fn sites(&self) -> usize {
        self.zeros.len()
    }

    /// Adds a site after the last: whether each haplotype has allele 1 there.
    ///
    /// # Errors
    /// [`PanelError::Alleles`].
    pub fn push(&mut self, alleles: &[bool]) -> Result<(), PanelError> {
        let (site, expected, found) = (self.sites(), self.haplotypes, alleles.len());
        if expected != found {
            return Err(PanelError::Alleles { site, expected, found });
        }
        let (mut words, mut ones, mut ones_since) = (vec![0u64; self.words], Vec::new(), Vec::new());
        // of those with either allele: since when the next of them agrees with the last of them
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
        let mut before = 0;
        for block in words.chunks(STRIDE) {
            self.ranks.push(before);
            before += block.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        self.bits.extend(words);
        self.zeros.push(zeros as u32);
        self.count_patterns();
        Ok(())
    }

    /// Of the windows that end with the last site, how many patterns each has: one more wherever two neighbours agree over fewer sites.
    fn count_patterns(&mut self) {
        let end = self.sites() as u32;
        let mut agreeing = [0u32; MAX_LENGTH + 1];
        for since in &self.since {
            agreeing[((end - since) as usize).min(MAX_LENGTH)] += 1;
        }
        let mut patterns = 0;
        for length in 1..=MAX_LENGTH.min(end as usize) {
            patterns += agreeing[length - 1];
            self.most[length] = self.most[length].max(patterns);
        }
    }

    /// The most distinct patterns that a window of so many sites has, anywhere in the panel; none for a length that no window has. What an
    /// answer has room for follows from it, whatever is in the windows asked for.
    pub fn most_patterns(&self, length: usize) -> Option<u32> {
        self.most.get(length).copied().filter(|most| *most > 0)
    }

    /// Ones at a site before a place in its order.
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

    /// Of haplotypes that stand side by side before a site those with an allele there.
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

    /// How many haplotypes have these alleles from a site on.
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

    /// How many alleles, from the first on, some haplotype shares with a pattern: the longest match at this position.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn longest(&self, start: usize, length: usize, pattern: Pattern) -> Result<usize, PanelError> {
        self.check(start, length)?;
        let mut range = self.all();
        for i in 0..length {
            range = self.step(start + i, &range, pattern >> i & 1 == 1);
            if range.is_empty() {
                return Ok(i);
            }
        }
        Ok(length)
    }

    /// Shows every pattern of a window and of its prefixes that some haplotype has, each once: how many sites, which alleles, and how many
    /// haplotypes.
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

    /// Every pattern of a window that some haplotype has, and how many have it.
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
