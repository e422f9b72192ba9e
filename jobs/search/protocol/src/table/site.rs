//! The columns of a table: variants, in the order of their chromosomes and positions.
//!
//! A variant is a chromosome, a position, a reference and an alternate allele. Several variants may
//! share a position and stay different; a name of such a position must also have the alleles. Bases
//! in lower case equal bases in upper case. The allele of a structural variant says how far the
//! variant reaches, as in `<DEL>@5000`: variants of different reach are different.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Range;
use std::sync::Arc;

/// The most sites of a table.
pub const MAX_SITES: usize = 1 << 28;
/// The last position of a chromosome: the largest integer of VCF.
pub const MAX_POSITION: u64 = i32::MAX as u64;
/// The most bytes of a chromosome's name.
pub(super) const MAX_CHROMOSOME_BYTES: usize = 255;
/// The most bytes of a variant's name.
pub(super) const MAX_ID_BYTES: usize = 1 << 10;
/// The most bytes of an allele.
pub(super) const MAX_ALLELE_BYTES: usize = 1 << 16;
/// The most choices in a message.
const LISTED: usize = 8;
/// Up to this many variants of one position are compared one by one; more are compared by hashes.
const FEW: usize = 16;

/// A variant of two alleles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The name in the file: `20` and `chr20` are different.
    pub chromosome: Arc<str>,
    /// The position, from 1.
    pub position: u64,
    /// The variant's name, such as `rs6078030`.
    pub id: Option<Box<str>>,
    /// Allele 0.
    pub reference: Box<str>,
    /// Allele 1.
    pub alternate: Box<str>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.view(), f)
    }
}

impl Site {
    fn view(&self) -> SiteView<'_> {
        let Self { chromosome, position, id, reference, alternate } = self;
        SiteView { chromosome, position: *position, id: id.as_deref(), reference, alternate }
    }
}

/// A variant of two alleles that borrows its texts from [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteView<'a> {
    /// The name in the file: `20` and `chr20` are different.
    pub chromosome: &'a Arc<str>,
    /// The position, from 1.
    pub position: u64,
    /// The variant's name, such as `rs6078030`.
    pub id: Option<&'a str>,
    /// Allele 0.
    pub reference: &'a str,
    /// Allele 1.
    pub alternate: &'a str,
}

impl SiteView<'_> {
    /// The same variant with texts of its own.
    pub fn to_site(self) -> Site {
        Site {
            chromosome: Arc::clone(self.chromosome),
            position: self.position,
            id: self.id.map(Into::into),
            reference: self.reference.into(),
            alternate: self.alternate.into(),
        }
    }
}

impl fmt::Display for SiteView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.chromosome, self.position, self.reference, self.alternate)
    }
}

/// Why a site cannot be added or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// Too many sites.
    #[error("expected at most {MAX_SITES} sites, found more")]
    Many,
    /// A text is empty, too long, or has characters that are not printable.
    #[error("expected {what} of 1 to {most} printable characters, found {found}")]
    Text {
        /// The kind of the text.
        what: &'static str,
        /// The most bytes.
        most: usize,
        /// The bytes, or the wrong character.
        found: String,
    },
    /// The text is not the name of a site.
    #[error("expected a site as chr20:1000000 or chr20:1000000:A:G, found {found:?}")]
    Name {
        /// The text.
        found: String,
    },
    /// The position is not possible.
    #[error("expected a position from 1 to {MAX_POSITION}, found {found}")]
    Position {
        /// The position.
        found: u64,
    },
    /// The site belongs before the last one.
    #[error("expected sites in the order of their positions, chromosome by chromosome, found {found} after {last}")]
    Order {
        /// The last site.
        last: String,
        /// The site to add.
        found: String,
    },
    /// The variant is there already.
    #[error("expected every variant once, found {found} again")]
    Again {
        /// The variant.
        found: String,
    },
    /// The table does not have the chromosome.
    #[error("expected a chromosome among {there}, found {found}")]
    Chromosome {
        /// The chromosomes of the table.
        there: String,
        /// The chromosome of the question.
        found: String,
    },
    /// No site has this position.
    #[error("expected the position of a site ({near}), found {found}")]
    None {
        /// The sites nearby.
        near: String,
        /// The site of the question.
        found: String,
    },
    /// Several sites have this position.
    #[error("expected the alleles as well, because {found} has several variants: {choices}")]
    Ambiguous {
        /// The position.
        found: String,
        /// The variants there.
        choices: String,
    },
    /// The variants at this position have other alleles.
    #[error("expected the alleles of {choices}, found {found}")]
    Alleles {
        /// The variants there.
        choices: String,
        /// The site of the question.
        found: String,
    },
    /// A sample has another number of alleles within the window, as on the two sides of the border
    /// of a pseudoautosomal region.
    #[error(
        "expected {length} sites from {from} on with one number of alleles of each sample, found {found}: the number \
         changes at {at}, so ask on one side of it"
    )]
    Ploidy {
        /// The number of sites wanted.
        length: usize,
        /// The first site.
        from: String,
        /// The number of sites before the change.
        found: usize,
        /// The site at which the number changes.
        at: String,
    },
    /// The window has sites of two chromosomes, or ends after the last site.
    #[error("expected {length} sites of one chromosome from {from} on, found {found}")]
    Window {
        /// The number of sites wanted.
        length: usize,
        /// The first site.
        from: String,
        /// The number of sites there.
        found: usize,
    },
}

/// An allele in the form that is compared: with bases in upper case. Names in `<>` and the places
/// of breakends, in `[[` or `]]`, stay unchanged.
pub fn canonical_allele(allele: &str) -> Cow<'_, str> {
    if allele.starts_with('<') || !allele.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(allele);
    }
    let mut place = false;
    let upper = |c: char| {
        place ^= matches!(c, '[' | ']');
        if place { c } else { c.to_ascii_uppercase() }
    };
    Cow::Owned(allele.chars().map(upper).collect())
}

/// A chromosome's name without the spelling of its file: `chr20` and `20` are one chromosome, and
/// so are `chrM` and `MT`.
pub fn canonical_chromosome(name: &str) -> &str {
    let bare = name.get(..3).filter(|start| start.eq_ignore_ascii_case("chr")).map_or(name, |_| &name[3..]);
    if bare.eq_ignore_ascii_case("mt") { "M" } else { bare }
}

/// A reference and an alternate allele.
type Alleles<'a> = (&'a str, &'a str);

/// Whether two variants of one position are the same.
fn same_alleles(one: Alleles<'_>, other: Alleles<'_>) -> bool {
    // no copy is made of alleles that differ by more than case
    let same = |a: &str, b: &str| a == b || a.eq_ignore_ascii_case(b) && canonical_allele(a) == canonical_allele(b);
    same(one.0, other.0) && same(one.1, other.1)
}

/// A site without its texts: name, reference and alternate allele. The texts of all sites stand one
/// after another. A small site has six bytes in a catalogue, so every byte here counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    position: u32,
    /// The start of the texts: the low bits.
    start: u32,
    /// The high bits of the start.
    start_above: u16,
    /// Bytes of the name; 0 without a name.
    id: u16,
    /// Bytes of the alleles, less one.
    reference: u16,
    alternate: u16,
}

/// The sites of a table, in order.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    list: Vec<Entry>,
    /// The texts, one site after another.
    texts: String,
    /// Each chromosome with its first site.
    chromosomes: Vec<(Arc<str>, usize)>,
    /// Ascending: the sites at which some sample has another number of alleles than before. The
    /// haplotypes before and after are others.
    breaks: Vec<usize>,
    /// Hashes of the chromosomes' names under a key of this set. The names would be another copy.
    names: HashSet<u64>,
    /// The number of sites at the last position.
    here: usize,
    /// Hashes of the alleles at the last position, if there are more than [`FEW`] sites.
    crowd: HashSet<u64>,
}

impl PartialEq for Sites {
    fn eq(&self, other: &Self) -> bool {
        let same = self.list == other.list && self.texts == other.texts;
        same && self.chromosomes == other.chromosomes && self.breaks == other.breaks
    }
}

impl Eq for Sites {}

impl Sites {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of sites.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no site.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The site with this number.
    pub fn get(&self, index: usize) -> Option<SiteView<'_>> {
        let entry = self.list.get(index)?;
        let after = self.chromosomes.partition_point(|(_, first)| *first <= index);
        let (chromosome, _) = self.chromosomes.get(after.checked_sub(1)?)?;
        Some(self.view(chromosome, entry))
    }

    /// All sites.
    pub fn iter(&self) -> impl Iterator<Item = SiteView<'_>> {
        self.chromosomes().flat_map(move |(name, range)| {
            let sites = &self.list[range];
            sites.iter().map(move |entry| self.view(name, entry))
        })
    }

    /// Each chromosome with the numbers of its sites.
    pub fn chromosomes(&self) -> impl Iterator<Item = (&Arc<str>, Range<usize>)> {
        let ends = self.chromosomes.iter().skip(1).map(|(_, first)| *first).chain([self.list.len()]);
        self.chromosomes.iter().zip(ends).map(|((name, first), end)| (name, *first..end))
    }

    /// The stretches of sites in which every window has the same haplotypes: chromosomes, divided
    /// where the number of a sample's alleles changes.
    pub fn stretches(&self) -> Vec<Range<usize>> {
        let mut starts: Vec<usize> = self.chromosomes.iter().map(|(_, first)| *first).collect();
        starts.extend(&self.breaks);
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([self.len()]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
    }

    /// The sites at which the number of a sample's alleles changes, ascending.
    pub fn breaks(&self) -> &[usize] {
        &self.breaks
    }

    /// Marks the last site: from this site on, some sample has another number of alleles. The first
    /// site of a table begins a stretch in any case, and has no mark.
    pub fn mark_break(&mut self) {
        let last = self.len().saturating_sub(1);
        if last > self.breaks.last().copied().unwrap_or(0) {
            self.breaks.push(last);
        }
    }

    /// Takes marks that were read; false if they are not ascending sites after the first.
    pub(super) fn take_breaks(&mut self, breaks: Vec<usize>) -> bool {
        let inside = breaks.iter().all(|site| (1..self.len()).contains(site));
        let valid = inside && breaks.is_sorted_by(|a, b| a < b);
        self.breaks = if valid { breaks } else { Vec::new() };
        valid
    }

    /// Of these sites of one chromosome, the ones at positions from `first` to `last`.
    pub fn between(&self, range: Range<usize>, first: u64, last: u64) -> Range<usize> {
        let of = &self.list[range.clone()];
        let before = |position: u64| of.partition_point(|site| u64::from(site.position) < position);
        range.start + before(first)..range.start + before(last.saturating_add(1))
    }

    /// The first site of the last chromosome.
    pub(super) fn last_start(&self) -> Option<usize> {
        self.chromosomes.last().map(|(_, first)| *first)
    }

    /// Reserves memory for more chromosomes and sites, once.
    pub(super) fn reserve(&mut self, chromosomes: usize, sites: usize) {
        self.chromosomes.reserve_exact(chromosomes);
        self.list.reserve_exact(sites);
    }

    /// Gives unused memory back.
    pub(super) fn shrink(&mut self) {
        self.list.shrink_to_fit();
        self.texts.shrink_to_fit();
    }

    fn view<'a>(&'a self, chromosome: &'a Arc<str>, entry: &Entry) -> SiteView<'a> {
        let [id, reference, alternate] = self.texts(entry);
        let id = Some(id).filter(|id| !id.is_empty());
        SiteView { chromosome, position: u64::from(entry.position), id, reference, alternate }
    }

    /// The name or an empty text, and both alleles.
    fn texts(&self, entry: &Entry) -> [&str; 3] {
        let start = u64::from(entry.start_above) << 32 | u64::from(entry.start);
        let mut rest = &self.texts[start as usize..];
        let alleles = [entry.reference, entry.alternate].map(|less_one| usize::from(less_one) + 1);
        [usize::from(entry.id), alleles[0], alleles[1]].map(|bytes| {
            let (text, after) = rest.split_at(bytes);
            rest = after;
            text
        })
    }

    fn alleles(&self, entry: &Entry) -> Alleles<'_> {
        let [_, reference, alternate] = self.texts(entry);
        (reference, alternate)
    }

    /// A hash under a key of this table, so that an attacker cannot choose collisions.
    fn hash(&self, value: impl Hash) -> u64 {
        self.names.hasher().hash_one(value)
    }

    fn hash_of_alleles(&self, (reference, alternate): Alleles<'_>) -> u64 {
        self.hash((canonical_allele(reference), canonical_allele(alternate)))
    }

    /// Adds a site after the last one.
    ///
    /// # Errors
    /// [`SiteError`] for a site that belongs before the last one or is there already, or for
    /// invalid text.
    pub fn push(&mut self, site: Site) -> Result<(), SiteError> {
        let Site { chromosome, position, id, reference, alternate } = site;
        let (id, reference, alternate) = (id.as_deref(), &*reference, &*alternate);
        self.add(SiteView { chromosome: &chromosome, position, id, reference, alternate })
    }

    /// [`Sites::push`] for borrowed texts.
    pub(super) fn add(&mut self, site: SiteView<'_>) -> Result<(), SiteError> {
        check_text("a chromosome", site.chromosome, MAX_CHROMOSOME_BYTES)?;
        site.id.map_or(Ok(()), |id| check_text("a name", id, MAX_ID_BYTES))?;
        check_text("an allele", site.reference, MAX_ALLELE_BYTES)?;
        check_text("an allele", site.alternate, MAX_ALLELE_BYTES)?;
        if !(1..=MAX_POSITION).contains(&site.position) {
            return Err(SiteError::Position { found: site.position });
        }
        if self.len() >= MAX_SITES {
            return Err(SiteError::Many);
        }
        let last = self.list.len().checked_sub(1).and_then(|last| self.get(last));
        let together = match last {
            Some(last) if last.chromosome == site.chromosome => {
                if site.position < last.position {
                    return Err(SiteError::Order { last: last.to_string(), found: site.to_string() });
                }
                let together = site.position == last.position;
                if together && self.is_at_end((site.reference, site.alternate)) {
                    return Err(SiteError::Again { found: site.to_string() });
                }
                together
            }
            _ => {
                let name = self.hash(site.chromosome);
                // a collision of hashes is as good as impossible, and is recognized here
                if self.names.contains(&name) && self.chromosomes.iter().any(|(other, _)| other == site.chromosome) {
                    let last = last.map(|last| last.to_string()).unwrap_or_default();
                    return Err(SiteError::Order { last, found: site.to_string() });
                }
                self.names.insert(name);
                self.chromosomes.push((Arc::clone(site.chromosome), self.list.len()));
                false
            }
        };
        let start = self.texts.len() as u64;
        for text in [site.id.unwrap_or_default(), site.reference, site.alternate] {
            self.texts.push_str(text);
        }
        self.list.push(Entry {
            position: site.position as u32,
            start: start as u32,
            start_above: (start >> 32) as u16,
            id: site.id.map_or(0, str::len) as u16,
            reference: (site.reference.len() - 1) as u16,
            alternate: (site.alternate.len() - 1) as u16,
        });
        self.count_here(together);
        Ok(())
    }

    /// Counts the last site among the sites of its position. `together`: it is not the first of
    /// them.
    fn count_here(&mut self, together: bool) {
        if !together {
            self.here = 0;
            // a new set: emptying a large one would take as long as it is large, at each later
            // position
            if !self.crowd.is_empty() {
                self.crowd = HashSet::new();
            }
        }
        self.here += 1;
        let new = match self.here {
            ..=FEW => 0,
            here if here == FEW + 1 => here,
            _ => 1,
        };
        for index in self.list.len() - new..self.list.len() {
            let hash = self.hash_of_alleles(self.alleles(&self.list[index]));
            self.crowd.insert(hash);
        }
    }

    /// Whether a variant with these alleles is at the last position.
    fn is_at_end(&self, alleles: Alleles<'_>) -> bool {
        if self.here > FEW && !self.crowd.contains(&self.hash_of_alleles(alleles)) {
            return false;
        }
        let there = &self.list[self.list.len() - self.here..];
        there.iter().any(|other| same_alleles(self.alleles(other), alleles))
    }

    /// The number of the site at a position. Alleles are necessary where there are several
    /// variants.
    ///
    /// # Errors
    /// [`SiteError`], with the sites that are there.
    pub fn site_at(&self, chromosome: &str, position: u64, alleles: Option<(&str, &str)>) -> Result<usize, SiteError> {
        let Some((_, range)) = self.chromosomes().find(|(name, _)| &***name == chromosome) else {
            let there = listed(self.chromosomes.iter().map(|(name, _)| name.to_string()));
            return Err(SiteError::Chromosome { there, found: chromosome.to_owned() });
        };
        let of = &self.list[range.clone()];
        let first = range.start + of.partition_point(|site| u64::from(site.position) < position);
        let end = range.start + of.partition_point(|site| u64::from(site.position) <= position);
        let found = format!("{chromosome}:{position}");
        let choices = || listed((first..end).filter_map(|index| self.get(index)).map(|site| site.to_string()));
        if first == end {
            let near =
                [first.checked_sub(1).filter(|before| *before >= range.start), Some(end).filter(|n| *n < range.end)];
            let near = near.into_iter().flatten().filter_map(|near| self.get(near));
            let near = near.map(|site| site.to_string()).collect::<Vec<_>>();
            return Err(SiteError::None { near: format!("near are {}", near.join(", ")), found });
        }
        match alleles {
            None if end - first == 1 => Ok(first),
            None => Err(SiteError::Ambiguous { found, choices: choices() }),
            Some((reference, alternate)) => {
                let same = |site: &Entry| same_alleles(self.alleles(site), (reference, alternate));
                let place = self.list[first..end].iter().position(same);
                let found = format!("{found}:{reference}:{alternate}");
                place.map(|place| first + place).ok_or_else(|| SiteError::Alleles { choices: choices(), found })
            }
        }
    }

    /// The number of the site with this name: `chr20:1000000`, or `chr20:1000000:A:G` where there
    /// are several variants. The name of a structural variant may leave out its reach if only one
    /// of its kind is there.
    ///
    /// # Errors
    /// [`SiteError`] if no site or several sites have this name.
    pub fn named(&self, text: &str) -> Result<usize, SiteError> {
        let (chromosome, position, alleles) = parts(text).ok_or_else(|| SiteError::Name { found: text.to_owned() })?;
        let found = self.site_at(chromosome, position, alleles);
        let (Err(SiteError::Alleles { .. }), Some((reference, alternate))) = (&found, alleles) else { return found };
        if !(alternate.starts_with('<') && alternate.ends_with('>')) {
            return found;
        }
        let Some((_, range)) = self.chromosomes().find(|(name, _)| &***name == chromosome) else { return found };
        let first = range.start + self.list[range.clone()].partition_point(|site| u64::from(site.position) < position);
        let reaches = |site: &Entry| {
            let [_, own, other] = self.texts(site);
            let rest = other.strip_prefix(alternate).unwrap_or_default();
            rest.starts_with(['@', '+']) && canonical_allele(own) == canonical_allele(reference)
        };
        let here = (first..range.end).take_while(|index| u64::from(self.list[*index].position) == position);
        let of_kind: Vec<usize> = here.filter(|index| reaches(&self.list[*index])).collect();
        match of_kind[..] {
            [] => found,
            [one] => Ok(one),
            _ => {
                let all = of_kind.iter().filter_map(|index| self.get(*index));
                let choices = listed(all.map(|site| site.to_string()));
                Err(SiteError::Ambiguous { found: text.to_owned(), choices })
            }
        }
    }

    /// The chromosome and the position that a site's name has, whether a table lists the site or
    /// not. None for text that is no name.
    pub fn position_of(text: &str) -> Option<(&str, u64)> {
        parts(text).map(|(chromosome, position, _)| (chromosome, position))
    }

    /// Checks that `length` sites from `start` on are on one chromosome, and that every sample has
    /// one number of alleles there.
    ///
    /// # Errors
    /// [`SiteError::Window`] or [`SiteError::Ploidy`].
    pub fn check_window(&self, start: usize, length: usize) -> Result<(), SiteError> {
        // callers check every start, and a walk over all chromosomes at each would take too long
        let after = self.chromosomes.partition_point(|(_, first)| *first <= start);
        let end = self.chromosomes.get(after).map_or(self.list.len(), |(_, first)| *first);
        let change = self.breaks.partition_point(|site| *site <= start);
        let change = self.breaks.get(change).copied().filter(|site| *site < end);
        let found = end.saturating_sub(start);
        if (1..=change.unwrap_or(end).saturating_sub(start)).contains(&length) {
            return Ok(());
        }
        let from = self.get(start).map_or_else(|| format!("site {start}"), |site| site.to_string());
        if let Some(site) = change.filter(|_| (1..=found).contains(&length)) {
            let (found, at) = (site - start, self.get(site).map(|site| site.to_string()).unwrap_or_default());
            return Err(SiteError::Ploidy { length, from, found, at });
        }
        Err(SiteError::Window { length, from, found })
    }
}

/// A chromosome, a position, and the alleles if the name has them.
type Parts<'a> = (&'a str, u64, Option<(&'a str, &'a str)>);

/// The parts of a site's name. The name of a chromosome may contain a colon, and so may an allele.
/// The first number after a colon that is followed by bases is the position.
fn parts(text: &str) -> Option<Parts<'_>> {
    if let Some((chromosome, position)) = text.rsplit_once(':')
        && let Ok(position) = position.parse()
    {
        return Some((chromosome, position, None));
    }
    let bases = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    text.match_indices(':').find_map(|(at, _)| {
        let mut rest = text[at + 1..].splitn(3, ':');
        let position = rest.next()?.parse().ok()?;
        let alleles = (rest.next().filter(|text| bases(text))?, rest.next()?);
        Some((&text[..at], position, Some(alleles)))
    })
}

/// The first names, and the number of the others.
fn listed(mut all: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = all.by_ref().take(LISTED).collect();
    match all.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn check_text(what: &'static str, text: &str, most: usize) -> Result<(), SiteError> {
    let found = match text.bytes().find(|byte| !byte.is_ascii_graphic() && byte.is_ascii()) {
        Some(byte) => format!("the character {byte:#04x}"),
        None if (1..=most).contains(&text.len()) => return Ok(()),
        None => format!("{} bytes", text.len()),
    };
    Err(SiteError::Text { what, most, found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(chromosome: &str, position: u64, reference: &str, alternate: &str) -> Site {
        let [reference, alternate] = [reference, alternate].map(Into::into);
        Site { chromosome: chromosome.into(), position, id: None, reference, alternate }
    }

    fn some() -> Sites {
        let mut sites = Sites::new();
        for (chromosome, position, reference, alternate) in
            [("20", 5, "A", "C"), ("20", 9, "G", "T"), ("20", 9, "G", "GA"), ("20", 12, "T", "C"), ("X", 5, "A", "G")]
        {
            sites.push(site(chromosome, position, reference, alternate)).unwrap();
        }
        sites
    }

    #[test]
    fn a_position_of_one_variant_needs_no_alleles_and_one_of_several_does() {
        let sites = some();
        assert_eq!(sites.site_at("20", 5, None), Ok(0));
        assert_eq!(sites.site_at("20", 12, Some(("T", "C"))), Ok(3));
        assert_eq!(sites.site_at("X", 5, None), Ok(4));
        assert_eq!(sites.site_at("20", 9, Some(("G", "GA"))), Ok(2));
        let message = sites.site_at("20", 9, None).unwrap_err().to_string();
        assert!(message.contains("20:9:G:T, 20:9:G:GA"), "{message}");
        let message = sites.site_at("20", 9, Some(("G", "C"))).unwrap_err().to_string();
        assert!(message.contains("20:9:G:T, 20:9:G:GA") && message.contains("20:9:G:C"), "{message}");
        let message = sites.site_at("20", 10, None).unwrap_err().to_string();
        assert!(message.contains("20:9:G:GA, 20:12:T:C"), "{message}");
        let message = sites.site_at("chr20", 5, None).unwrap_err().to_string();
        assert!(message.contains("among 20, X"), "{message}");
    }

    #[test]
    fn fault_19_bases_are_the_same_in_lower_case_and_names_are_not() {
        for (allele, same) in [("acgt", "ACGT"), ("A", "A"), ("<Del>", "<Del>"), ("a]chr2:5]", "A]chr2:5]"), ("*", "*")]
        {
            assert_eq!(canonical_allele(allele), same);
        }
        let mut sites = some();
        for (alleles, site) in [(("a", "c"), 0), (("A", "c"), 0)] {
            assert_eq!(sites.site_at("20", 5, Some(alleles)), Ok(site));
        }
        assert_eq!(sites.named("20:9:g:ga"), Ok(2));
        assert!(sites.site_at("20", 9, Some(("g", "c"))).is_err());
        assert!(matches!(sites.push(site("X", 5, "a", "g")), Err(SiteError::Again { .. })));
        // tables of earlier releases have alleles as they were in the files
        let mut old = Sites::new();
        old.push(site("20", 5, "a", "c")).unwrap();
        assert_eq!(old.named("20:5:A:C"), Ok(0));
    }

    #[test]
    fn fault_19_structural_variants_that_reach_farther_are_others() {
        let mut sites = Sites::new();
        for (position, alternate) in [(5, "<DEL>@90"), (5, "<DEL>@900"), (5, "<DUP:TANDEM>@90"), (7, "A[chr5:9[")] {
            sites.push(site("20", position, "A", alternate)).unwrap();
        }
        assert_eq!(sites.named("20:5:A:<DEL>@900"), Ok(1));
        assert_eq!(sites.named("20:5:A:<DUP:TANDEM>@90"), Ok(2));
        assert_eq!(sites.named("20:5:a:<DUP:TANDEM>"), Ok(2), "the one of its kind");
        assert_eq!(sites.named("20:7:A:A[chr5:9["), Ok(3));
        let refused = |name: &str| sites.named(name).unwrap_err();
        let SiteError::Ambiguous { choices, .. } = refused("20:5:A:<DEL>") else { panic!() };
        assert_eq!(choices, "20:5:A:<DEL>@90, 20:5:A:<DEL>@900");
        assert!(matches!(refused("20:5:A:<DEL>@91"), SiteError::Alleles { .. }));
        assert!(matches!(refused("20:5:A:<DE>"), SiteError::Alleles { .. }));
        // the allele of a file is compared as a whole
        assert!(sites.site_at("20", 5, Some(("A", "<DUP:TANDEM>"))).is_err());
        assert_eq!(parts("HLA-A*01:01:5:A:G"), Some(("HLA-A*01:01", 5, Some(("A", "G")))));
        assert_eq!(parts("HLA-A*01:01:5"), Some(("HLA-A*01:01", 5, None)));
    }

    #[test]
    fn sites_out_of_order_and_variants_twice_are_refused_and_the_list_is_as_it_was() {
        let mut sites = some();
        let refused = [
            (site("X", 4, "A", "C"), "after X:5:A:G"),
            (site("20", 13, "A", "C"), "chromosome by chromosome"),
            (site("X", 5, "A", "G"), "again"),
            (site("X", 0, "A", "G"), "position"),
            (site("X", MAX_POSITION + 1, "A", "G"), "position"),
            (site("", 6, "A", "G"), "a chromosome"),
            (site("X", 6, "", "G"), "an allele"),
            (site("X", 6, "A G", "G"), "0x20"),
        ];
        for (site, says) in refused {
            let message = sites.push(site).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
        assert_eq!(sites, some());
        sites.push(site("X", 5, "A", "T")).unwrap();
        assert_eq!(sites.site_at("X", 5, Some(("A", "T"))), Ok(5));
    }

    #[test]
    fn fault_32_among_many_variants_of_one_position_those_alike_are_found_and_others_kept() {
        assert_eq!(size_of::<Entry>(), 16, "a small site has six bytes in a catalogue");
        let mut sites = Sites::new();
        // below and above the number from which hashes are compared
        let all = 3 * FEW as u64;
        for position in [5, 6, 9] {
            for number in 0..all {
                let alternate = format!("<DEL>@{}", 100 + number);
                sites.push(site("20", position, "a", &alternate)).unwrap();
                for reference in ["a", "A"] {
                    let again = sites.push(site("20", position, reference, &alternate));
                    assert!(matches!(again, Err(SiteError::Again { .. })), "{position} {number}");
                }
                let first = sites.push(site("20", position, "A", "<DEL>@100"));
                assert!(matches!(first, Err(SiteError::Again { .. })), "{position} {number}");
            }
            // names of structural variants are not bases: in lower case they are different
            sites.push(site("20", position, "A", "<del>@100")).unwrap();
        }
        assert_eq!(sites.len() as u64, 3 * (all + 1));
        assert_eq!(sites.site_at("20", 6, Some(("A", "<DEL>@110"))), Ok(all as usize + 11));
        // rejected variants leave the list unchanged; at another position, the variant is another
        // one
        let mut again = Sites::new();
        sites.iter().for_each(|site| again.push(site.to_site()).unwrap());
        assert_eq!(again, sites);
        sites.push(site("20", 10, "A", "<DEL>@100")).unwrap();
        sites.push(site("X", 10, "A", "<DEL>@100")).unwrap();
    }

    #[test]
    fn fault_32_a_site_comes_back_with_all_its_texts() {
        let long = "ACGT".repeat(MAX_ALLELE_BYTES / 4);
        let id = "n".repeat(MAX_ID_BYTES);
        let mut all = vec![
            Site { id: Some("rs1".into()), ..site("20", 1, "A", "C") },
            site("20", 1, &long, "é"),
            Site { id: Some(id.into()), ..site("20", MAX_POSITION, "A", &long) },
        ];
        all.extend((0..300).map(|number| site(&format!("c{number}"), 7, "G", "T")));
        let mut sites = Sites::new();
        all.iter().for_each(|site| sites.push(site.clone()).unwrap());
        let got: Vec<Site> = (0..=all.len()).filter_map(|index| sites.get(index)).map(SiteView::to_site).collect();
        assert_eq!(got, all);
        assert!(sites.iter().map(SiteView::to_site).eq(all.iter().cloned()));
        assert_eq!(sites.get(0).unwrap().to_string(), all[0].to_string());
        for (start, length) in [(0, 3), (3, 1), (302, 1)] {
            sites.check_window(start, length).unwrap();
            assert!(sites.check_window(start, length + 1).is_err(), "{start}");
        }
        let refused = sites.push(site("c7", 9, "G", "T")).unwrap_err().to_string();
        assert!(refused.contains("found c7:9:G:T after c299:7:G:T"), "{refused}");
    }

    #[test]
    fn a_window_stays_on_its_chromosome() {
        let sites = some();
        sites.check_window(0, 4).unwrap();
        sites.check_window(4, 1).unwrap();
        for (start, length) in [(0, 5), (3, 2), (4, 2), (5, 1), (0, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(matches!(sites.check_window(start, length), Err(SiteError::Window { .. })), "{start} {length}");
        }
    }
}
