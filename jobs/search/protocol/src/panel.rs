//! A phased panel, and how often a haplotype occurs in it: the positional Burrows-Wheeler transform
//! (Durbin, Bioinformatics 2014).
//!
//! At each site, haplotypes are sorted by their reversed prefixes. Haplotypes that agree on the
//! sites before are therefore neighbours, and a step to the next site is a stable sort by one
//! allele. A set of haplotypes that agree from some site on is a range of this order. If they must
//! also have an allele at the next site, the new range follows from two counts: `O(1)` with a
//! directory of ranks. A range may begin at any site, with all haplotypes.
//!
//! **Stretches.** Where the number of a sample's alleles changes, as at the borders of the
//! pseudoautosomal regions of chromosome X, the haplotypes before and after are others. A new
//! stretch begins there ([`Panel::begin`]), in which all haplotypes are again in their own order,
//! and no window has sites of two stretches.
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
        /// Haplotypes of the panel there.
        expected: usize,
        /// Alleles given.
        found: usize,
    },
    /// Parts that do not form a panel.
    #[error("malformed panel: {0}")]
    Parts(&'static str),
    /// The window has sites of two stretches.
    #[error("expected sites with one number of haplotypes, found another number from site {change} on")]
    Stretch {
        /// The first site of the next stretch.
        change: usize,
    },
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

/// Sites with the same haplotypes.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The first site.
    first: usize,
    haplotypes: usize,
    /// Words of a site.
    words: usize,
    /// The first site's words, and its entries of the directory.
    bits: usize,
    ranks: usize,
}

/// The transform of a panel that grows: everything that depends on the sites so far but the alleles
/// themselves. A panel too large for memory is written with it, site by site.
#[derive(Clone, Debug)]
pub struct Transform {
    /// The first site and the number of haplotypes of each stretch.
    stretches: Vec<(usize, usize)>,
    sites: usize,
    /// The order of haplotypes after the last site.
    order: Vec<u32>,
    /// In this order, the first site from which each haplotype agrees with the one before, up to
    /// the last site; one past the last site if it does not agree there.
    since: Vec<u32>,
    /// By the number of sites less one, the numbers of distinct patterns of the fullest windows: at
    /// most [`MAX_FULLEST`] windows, descending.
    fullest: Vec<Vec<u32>>,
    /// The last site's alleles in the order before it.
    words: Vec<u64>,
}

/// A panel, site by site.
#[derive(Clone, Debug)]
pub struct Panel {
    transform: Transform,
    stretches: Vec<Stretch>,
    /// Alleles in the order of reversed prefixes, site after site.
    bits: Vec<u64>,
    /// Ones before every [`STRIDE`]-th word, site after site.
    ranks: Vec<u32>,
    /// Haplotypes with allele 0, by site.
    zeros: Vec<u32>,
}

/// The parts of a panel that a file stores; everything else follows from them. The parts include
/// the order after the last site, so that sites can be added to a panel that was read. New
/// haplotypes need a new panel.
pub(super) struct Parts<'a> {
    /// The first site and the number of haplotypes of each stretch.
    pub(super) stretches: &'a [(usize, usize)],
    /// As in [`Transform`].
    pub(super) order: &'a [u32],
    /// As in [`Transform`].
    pub(super) since: &'a [u32],
    /// As in [`Transform`].
    pub(super) fullest: &'a [Vec<u32>],
}

/// The number of windows in the list of the fullest, for windows of `length` sites in stretches
/// that begin at these sites.
pub(super) fn listed(stretches: &[(usize, usize)], sites: usize, length: usize) -> usize {
    let ends = stretches.iter().skip(1).map(|(first, _)| *first).chain([sites]);
    let of = |((first, _), end): (&(usize, usize), usize)| (end + 1).saturating_sub(first + length);
    stretches.iter().zip(ends).map(of).sum::<usize>().min(MAX_FULLEST)
}

/// Checks the number of haplotypes of a stretch.
pub(super) fn check_haplotypes(found: usize) -> Result<(), PanelError> {
    if (1..=MAX_HAPLOTYPES).contains(&found) { Ok(()) } else { Err(PanelError::Haplotypes { found }) }
}

/// The words of a site.
pub(super) fn words_of(haplotypes: usize) -> usize {
    haplotypes.div_ceil(64)
}

impl Transform {
    /// The transform of `haplotypes` haplotypes without a site.
    ///
    /// # Errors
    /// [`PanelError::Haplotypes`].
    pub fn new(haplotypes: usize) -> Result<Self, PanelError> {
        let fullest = vec![Vec::new(); MAX_LENGTH];
        let (order, since, stretches, words) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut transform = Self { stretches, sites: 0, order, since, fullest, words };
        transform.begin(haplotypes)?;
        Ok(transform)
    }

    /// Begins a stretch of `haplotypes` haplotypes with the next site.
    ///
    /// # Errors
    /// [`PanelError::Haplotypes`].
    pub fn begin(&mut self, haplotypes: usize) -> Result<(), PanelError> {
        check_haplotypes(haplotypes)?;
        // a stretch without a site is none
        self.stretches.pop_if(|(first, _)| *first == self.sites);
        self.stretches.push((self.sites, haplotypes));
        self.order = (0..haplotypes as u32).collect();
        self.since = vec![self.sites as u32; haplotypes];
        Ok(())
    }

    /// The number of haplotypes of the last stretch.
    pub fn haplotypes(&self) -> usize {
        self.order.len()
    }

    /// The greatest number of haplotypes of a stretch.
    pub fn most_haplotypes(&self) -> usize {
        self.stretches.iter().map(|(_, haplotypes)| *haplotypes).max().unwrap_or(0)
    }

    /// The first site and the number of haplotypes of each stretch.
    pub fn stretches(&self) -> &[(usize, usize)] {
        &self.stretches
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The parts for [`Panel::from_parts`], but for the alleles.
    pub(super) fn parts(&self) -> Parts<'_> {
        let Self { stretches, order, since, fullest, .. } = self;
        Parts { stretches, order, since, fullest }
    }

    /// Adds a site after the last one, and returns its alleles in words of 64, in the order before
    /// the site. `alleles` tells for each haplotype whether it has allele 1.
    ///
    /// # Errors
    /// [`PanelError::Alleles`].
    pub fn push(&mut self, alleles: &[bool]) -> Result<&[u64], PanelError> {
        let (site, expected, found) = (self.sites, self.haplotypes(), alleles.len());
        if expected != found {
            return Err(PanelError::Alleles { site, expected, found });
        }
        self.words.clear();
        self.words.resize(words_of(expected), 0);
        let (mut ones, mut ones_since) = (Vec::new(), Vec::new());
        // by allele: since when the next haplotype with it agrees with the last one
        let mut latest = [site as u32 + 1; 2];
        let mut zeros = 0;
        for place in 0..self.order.len() {
            let haplotype = self.order[place];
            let allele = alleles[haplotype as usize];
            self.words[place / 64] |= u64::from(allele) << (place % 64);
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
        self.sites += 1;
        self.count_patterns();
        Ok(&self.words)
    }

    /// Counts the patterns of each window that ends with the last site: one more wherever two
    /// neighbours agree over fewer sites.
    fn count_patterns(&mut self) {
        let end = self.sites as u32;
        let stretch = self.sites - self.stretches.last().map_or(0, |(first, _)| *first);
        let mut agreeing = [0u32; MAX_LENGTH + 1];
        for since in &self.since {
            agreeing[((end - since) as usize).min(MAX_LENGTH)] += 1;
        }
        let mut patterns = 0;
        for length in 1..=MAX_LENGTH.min(stretch) {
            patterns += agreeing[length - 1];
            let list = &mut self.fullest[length - 1];
            if list.len() == MAX_FULLEST && list.last().is_some_and(|least| *least >= patterns) {
                continue;
            }
            list.truncate(MAX_FULLEST - 1);
            list.insert(list.partition_point(|more| *more >= patterns), patterns);
        }
    }

    /// Checks parts that were read.
    fn check(&self, sites: usize) -> Result<(), PanelError> {
        let wrong = PanelError::Parts;
        let (order, since) = (&self.order, &self.since);
        let haplotypes = self.stretches.last().map_or(0, |(_, haplotypes)| *haplotypes);
        let mut seen = vec![false; haplotypes];
        let new =
            |haplotype: &u32| seen.get_mut(*haplotype as usize).is_some_and(|seen| !std::mem::replace(seen, true));
        if order.len() != haplotypes || !order.iter().all(new) {
            return Err(wrong("order of haplotypes"));
        }
        let first = self.stretches.last().map_or(0, |(first, _)| *first);
        if since.len() != haplotypes || since.iter().any(|since| !(first..=sites).contains(&(*since as usize))) {
            return Err(wrong("agreement of haplotypes"));
        }
        let most = self.most_haplotypes();
        let fits = |(length, list): (usize, &Vec<u32>)| {
            let in_order = list.is_sorted_by(|a, b| a >= b) && list.iter().all(|n| (1..=most).contains(&(*n as usize)));
            list.len() == listed(&self.stretches, sites, length + 1) && in_order
        };
        let all = self.fullest.len() == MAX_LENGTH && self.fullest.iter().enumerate().all(fits);
        if all { Ok(()) } else { Err(wrong("fullest windows")) }
    }
}

impl Panel {
    /// A panel of `haplotypes` haplotypes, without a site.
    ///
    /// # Errors
    /// [`PanelError::Haplotypes`].
    pub fn new(haplotypes: usize) -> Result<Self, PanelError> {
        let transform = Transform::new(haplotypes)?;
        let (bits, ranks, zeros) = (Vec::new(), Vec::new(), Vec::new());
        let mut panel = Self { transform, stretches: Vec::new(), bits, ranks, zeros };
        panel.note_stretch(0, haplotypes);
        Ok(panel)
    }

    /// Notes where the alleles of the stretch that begins now are.
    fn note_stretch(&mut self, first: usize, haplotypes: usize) {
        self.stretches.pop_if(|stretch| stretch.first == first);
        let (words, bits, ranks) = (words_of(haplotypes), self.bits.len(), self.ranks.len());
        self.stretches.push(Stretch { first, haplotypes, words, bits, ranks });
    }

    /// Begins a stretch of `haplotypes` haplotypes with the next site.
    ///
    /// # Errors
    /// [`PanelError::Haplotypes`].
    pub fn begin(&mut self, haplotypes: usize) -> Result<(), PanelError> {
        self.transform.begin(haplotypes)?;
        self.note_stretch(self.sites(), haplotypes);
        Ok(())
    }

    /// A panel from its parts; counts and the directory are computed again. `stretches` are the
    /// first site and the number of haplotypes of each.
    ///
    /// # Errors
    /// [`PanelError`] for parts that do not fit together. This function does not check that the
    /// order follows from the alleles, nor that the listed windows are the fullest.
    pub(super) fn from_parts(
        stretches: Vec<(usize, usize)>,
        sites: usize,
        (bits, order, since, fullest): (Vec<u64>, Vec<u32>, Vec<u32>, Vec<Vec<u32>>),
    ) -> Result<Self, PanelError> {
        let wrong = PanelError::Parts;
        let begins = stretches.first().is_some_and(|(first, _)| *first == 0);
        let later = stretches.iter().skip(1).all(|(first, _)| *first < sites);
        if !begins || !later || !stretches.is_sorted_by(|a, b| a.0 < b.0) || sites >= u32::MAX as usize {
            return Err(wrong("stretches of sites"));
        }
        stretches.iter().try_for_each(|(_, haplotypes)| check_haplotypes(*haplotypes))?;
        let ends: Vec<usize> = stretches.iter().skip(1).map(|(first, _)| *first).chain([sites]).collect();
        let transform = Transform { stretches, sites, order, since, fullest, words: Vec::new() };
        transform.check(sites)?;
        let mut panel =
            Self { transform, stretches: Vec::new(), bits: Vec::new(), ranks: Vec::new(), zeros: Vec::new() };
        let mut rest = &bits[..];
        for (index, end) in ends.into_iter().enumerate() {
            let (first, haplotypes) = panel.transform.stretches[index];
            let words = words_of(haplotypes);
            let ranks = panel.ranks.len();
            panel.stretches.push(Stretch { first, haplotypes, words, bits: bits.len() - rest.len(), ranks });
            let length = (end - first).checked_mul(words).ok_or(wrong("number of alleles"))?;
            let (own, after) = rest.split_at_checked(length).ok_or(wrong("number of alleles"))?;
            own.chunks_exact(words).try_for_each(|site| panel.take_site(site, haplotypes))?;
            rest = after;
        }
        if !rest.is_empty() {
            return Err(wrong("number of alleles"));
        }
        Ok(Self { bits, ..panel })
    }

    /// Counts a site that was read.
    fn take_site(&mut self, words: &[u64], haplotypes: usize) -> Result<(), PanelError> {
        let unused = match words.last() {
            Some(last) if !haplotypes.is_multiple_of(64) => last >> (haplotypes % 64),
            _ => 0,
        };
        if unused != 0 {
            return Err(PanelError::Parts("allele of no haplotype"));
        }
        let ones = self.push_ranks(words);
        self.zeros.push(haplotypes as u32 - ones);
        Ok(())
    }

    /// The parts for [`Panel::from_parts`]: the alleles, and the others.
    pub(super) fn parts(&self) -> (&[u64], Parts<'_>) {
        (&self.bits, self.transform.parts())
    }

    /// The greatest number of haplotypes of a stretch.
    pub fn haplotypes(&self) -> usize {
        self.transform.most_haplotypes()
    }

    /// The number of haplotypes of the last stretch.
    pub fn last_haplotypes(&self) -> usize {
        self.transform.haplotypes()
    }

    /// The number of haplotypes at a site; none after the last site.
    pub fn haplotypes_at(&self, site: usize) -> Option<usize> {
        (site < self.sites()).then(|| self.stretch(site).haplotypes)
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        self.zeros.len()
    }

    /// The stretch of a site.
    fn stretch(&self, site: usize) -> &Stretch {
        let after = self.stretches.partition_point(|stretch| stretch.first <= site);
        &self.stretches[after.saturating_sub(1)]
    }

    /// Adds a site after the last one. `alleles` tells for each haplotype whether it has allele 1.
    ///
    /// # Errors
    /// [`PanelError::Alleles`].
    pub fn push(&mut self, alleles: &[bool]) -> Result<(), PanelError> {
        let words = self.transform.push(alleles)?.to_vec();
        let ones = self.push_ranks(&words);
        self.bits.extend(words);
        self.zeros.push(alleles.len() as u32 - ones);
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

    /// The most distinct patterns of any window of this length in the panel; none for an impossible
    /// length. The room of an answer follows from this number, not from the windows of a question.
    pub fn most_patterns(&self, length: usize) -> Option<u32> {
        self.most_patterns_at(length, 1)
    }

    /// The most entries, patterns at places, that any `places` different windows of one length
    /// have: the sum over the fullest windows. It depends on the panel only, not on a question.
    /// None for an impossible length, no place, or more than [`MAX_FULLEST`] places.
    pub fn most_patterns_at(&self, length: usize, places: usize) -> Option<u32> {
        let list = self.transform.fullest.get(length.checked_sub(1)?)?;
        let some = (1..=MAX_FULLEST).contains(&places) && !list.is_empty();
        some.then(|| list.iter().take(places).fold(0, |sum: u32, patterns| sum.saturating_add(*patterns)))
    }

    /// For each number of sites up to `length`, the most patterns among the prefixes of any window:
    /// the room for a longest match. None for an impossible length.
    pub fn most_prefixes(&self, length: usize) -> Option<Vec<u32>> {
        (1..=length).map(|length| self.most_patterns(length)).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
    }

    /// Ones at a site of a stretch before a place of its order.
    fn ones_before(&self, stretch: &Stretch, site: usize, place: u32) -> u32 {
        let (own, place) = (site - stretch.first, place as usize);
        let words = &self.bits[stretch.bits + own * stretch.words..][..stretch.words];
        let directory = stretch.words.div_ceil(STRIDE);
        // a place after the last word belongs to the last block
        let block = (place / (64 * STRIDE)).min(directory - 1);
        let whole = words[block * STRIDE..place / 64].iter().map(|word| word.count_ones()).sum::<u32>();
        let part = match place % 64 {
            0 => 0,
            bits => (words[place / 64] << (64 - bits)).count_ones(),
        };
        self.ranks[stretch.ranks + own * directory + block] + whole + part
    }

    /// The haplotypes of a range before a site of a stretch that have this allele at the site.
    fn step(&self, stretch: &Stretch, site: usize, range: &Range<u32>, allele: bool) -> Range<u32> {
        let [first, last] = [range.start, range.end].map(|place| self.ones_before(stretch, site, place));
        match allele {
            false => range.start - first..range.end - last,
            true => self.zeros[site] + first..self.zeros[site] + last,
        }
    }

    /// Whether a window is in the panel.
    ///
    /// # Errors
    /// [`PanelError::Window`] or [`PanelError::Stretch`].
    pub fn check(&self, start: usize, length: usize) -> Result<(), PanelError> {
        self.window(start, length).map(|_| ())
    }

    /// The stretch of a window, and all its haplotypes.
    fn window(&self, start: usize, length: usize) -> Result<(&Stretch, Range<u32>), PanelError> {
        let sites = self.sites();
        let end = start.checked_add(length).filter(|end| *end <= sites && (1..=MAX_LENGTH).contains(&length));
        let end = end.ok_or(PanelError::Window { sites, start, length })?;
        let after = self.stretches.partition_point(|stretch| stretch.first <= start);
        match self.stretches.get(after) {
            Some(next) if next.first < end => Err(PanelError::Stretch { change: next.first }),
            _ => {
                let stretch = self.stretch(start);
                Ok((stretch, 0..stretch.haplotypes as u32))
            }
        }
    }

    /// The number of haplotypes with these alleles from a site on.
    ///
    /// # Errors
    /// [`PanelError::Window`].
    pub fn count(&self, start: usize, length: usize, pattern: Pattern) -> Result<u32, PanelError> {
        let (stretch, mut range) = self.window(start, length)?;
        for i in 0..length {
            range = self.step(stretch, start + i, &range, pattern >> i & 1 == 1);
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
        let (stretch, mut range) = self.window(start, length)?;
        for i in 0..length {
            range = self.step(stretch, start + i, &range, pattern >> i & 1 == 1);
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
        let (stretch, all) = self.window(start, length)?;
        let mut level: Vec<(Pattern, Range<u32>)> = vec![(0, all)];
        for i in 0..length {
            let mut next = Vec::with_capacity(level.len() + 8);
            for (pattern, range) in &level {
                let without = self.step(stretch, start + i, range, false);
                if without.len() < range.len() {
                    next.push((pattern | 1 << i, self.step(stretch, start + i, range, true)));
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
