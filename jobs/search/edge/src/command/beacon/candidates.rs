//! The variants of a table that a Beacon's question is about.
//!
//! The list of a table's variants is public, so the client finds the candidates itself. Each of
//! them takes an encrypted question.

use crate::beacon::{BeaconQuery, BeaconRegion};
use std::ops::Range;
use std::sync::Arc;
use tobari_search::table::{Accession, MAX_POSITION, SiteView, Sites, canonical_chromosome};

/// The candidates of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidates {
    /// The table's name of the chromosome.
    pub(super) chromosome: Arc<str>,
    /// The numbers of the variants, at most one more than the limit.
    pub(super) sites: Vec<usize>,
    /// The number of all candidates.
    pub(super) count: usize,
}

/// A chromosome under its common name: `20` for `chr20` and for `NC_000020.11`.
pub(super) fn common_name(name: &str) -> String {
    let bare = name.get(..7).filter(|start| start.eq_ignore_ascii_case("refseq:")).map_or(name, |_| &name[7..]);
    Accession::read(bare).map_or(canonical_chromosome(bare), |accession| accession.chromosome).to_ascii_uppercase()
}

/// The candidates of a table, with a list of the first `most`. A table without the chromosome has
/// none.
///
/// # Errors
/// Text that says what is wrong with the question.
pub(super) fn candidates(sites: &Sites, query: &BeaconQuery, most: usize) -> Result<Option<Candidates>, String> {
    let Some((chromosome, range)) = chromosome(sites, &query.chromosome)? else { return Ok(None) };
    let mut found = Candidates { chromosome: Arc::clone(chromosome), sites: Vec::new(), count: 0 };
    for index in within(sites, range.clone(), query.region) {
        let Some(site) = sites.get(index) else { continue };
        if covers(&site, query.region) && has_bases(&site, query) {
            found.count += 1;
            if found.sites.len() <= most {
                found.sites.push(index);
            }
        }
    }
    if found.count == 0 {
        check_reference(sites, range, query)?;
    }
    Ok(Some(found))
}

type Named<'a> = (&'a Arc<str>, Range<usize>);

/// The table's chromosome of this name. `chr20`, `20` and `NC_000020.11` are one chromosome.
fn chromosome<'a>(sites: &'a Sites, asked: &str) -> Result<Option<Named<'a>>, String> {
    let wanted = common_name(asked);
    let mut fitting: Vec<Named<'_>> = sites.chromosomes().filter(|(name, _)| common_name(name) == wanted).collect();
    if fitting.len() < 2 {
        return Ok(fitting.pop());
    }
    let exact = fitting.iter().position(|(name, _)| &***name == asked);
    let exact = exact.ok_or_else(|| format!("expected the name of one chromosome of the table, found {asked:?}"))?;
    Ok(Some(fitting.swap_remove(exact)))
}

/// The variants of a chromosome that can be candidates by their position. A variant of a range may
/// begin long before.
fn within(sites: &Sites, range: Range<usize>, region: BeaconRegion) -> Range<usize> {
    let (first, last) = match region {
        BeaconRegion::At(position) => (position, position),
        BeaconRegion::Range { end, .. } => (0, end),
        BeaconRegion::Bracket { start: (first, last), .. } => (first.saturating_add(1), last),
    };
    sites.between(range, first, last.min(MAX_POSITION))
}

fn covers(site: &SiteView<'_>, region: BeaconRegion) -> bool {
    let (first, end) = (site.position.saturating_sub(1), end_of(site));
    match region {
        BeaconRegion::At(position) => site.position == position,
        BeaconRegion::Range { start, end: last } => first < last && end > start,
        BeaconRegion::Bracket { start, end: ends } => {
            (start.0..start.1).contains(&first) && (ends.0..ends.1).contains(&end)
        }
    }
}

/// The end of a variant, counted from 0: the base after its reference bases, or after its extent
/// (`<DEL>@5000`). An extent on another chromosome (`<TRA>@chr5@5000`) does not count.
fn end_of(site: &SiteView<'_>) -> u64 {
    let written = site.position.saturating_sub(1).saturating_add(site.reference.len() as u64);
    let told = site.alternate.strip_prefix('<').and_then(|rest| rest.split_once(">@"));
    told.and_then(|(_, end)| end.parse().ok()).map_or(written, |end: u64| end.max(written))
}

fn has_bases(site: &SiteView<'_>, query: &BeaconQuery) -> bool {
    let fits = |wanted: &Option<String>, allele: &str| {
        wanted.as_ref().is_none_or(|wanted| {
            let mut both = wanted.bytes().zip(allele.bytes());
            wanted.len() == allele.len() && both.all(|(base, of)| base == b'N' || of.eq_ignore_ascii_case(&base))
        })
    };
    fits(&query.reference, site.reference) && fits(&query.alternate, site.alternate)
}

/// Checks the reference bases of a question about one position: if they disagree with the table,
/// the position is of another assembly, or counts from 1.
fn check_reference(sites: &Sites, range: Range<usize>, query: &BeaconQuery) -> Result<(), String> {
    let (BeaconRegion::At(position), Some(reference)) = (query.region, &query.reference) else { return Ok(()) };
    for site in sites.between(range, position, position).filter_map(|index| sites.get(index)) {
        let known = |base: u8| !base.eq_ignore_ascii_case(&b'N');
        let differ = |(a, b): (u8, u8)| known(a) && known(b) && !a.eq_ignore_ascii_case(&b);
        if site.reference.bytes().zip(reference.bytes()).any(differ) {
            return Err(format!(
                "expected the reference {} at {}:{position}, found {reference}: a start that counts from 1, or another \
                 assembly",
                site.reference, site.chromosome
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_search::table::Site;

    fn sites(all: &[(&str, u64, &str, &str)]) -> Sites {
        let mut sites = Sites::new();
        for (chromosome, position, reference, alternate) in all {
            let [reference, alternate] = [*reference, *alternate].map(Into::into);
            let chromosome = (*chromosome).into();
            sites.push(Site { chromosome, position: *position, id: None, reference, alternate }).unwrap();
        }
        sites
    }

    fn query(chromosome: &str, region: BeaconRegion, reference: &str, alternate: &str) -> BeaconQuery {
        let [reference, alternate] = [reference, alternate].map(|text| Some(text.to_owned()).filter(|t| !t.is_empty()));
        BeaconQuery { chromosome: chromosome.to_owned(), region, reference, alternate, assembly: None, count: false }
    }

    #[test]
    fn fault_19_a_variant_is_a_site_or_not_listed_and_another_reference_or_chromosome_is_refused() {
        let sites = sites(&[("20", 5, "A", "C"), ("20", 5, "AT", "A"), ("20", 9, "n", "C"), ("chrM", 7, "g", "t")]);
        let ask = |chromosome: &str, position, reference: &str, alternate: &str| {
            let found = candidates(&sites, &query(chromosome, BeaconRegion::At(position), reference, alternate), 9);
            found.map(|found| found.map(|found| found.sites))
        };
        assert_eq!(ask("20", 5, "A", "C"), Ok(Some(vec![0])));
        assert_eq!(ask("chr20", 5, "AT", "A"), Ok(Some(vec![1])));
        assert_eq!(ask("refseq:NC_000020.11", 5, "AT", "A"), Ok(Some(vec![1])));
        assert_eq!(ask("MT", 7, "G", "T"), Ok(Some(vec![3])));
        assert_eq!(ask("NC_012920.1", 7, "G", "T"), Ok(Some(vec![3])));
        // any base, and any reference
        assert_eq!(ask("20", 5, "N", "N"), Ok(Some(vec![0])));
        assert_eq!(ask("20", 5, "AN", "A"), Ok(Some(vec![1])));
        assert_eq!(ask("20", 5, "", "C"), Ok(Some(vec![0])));
        for (position, reference) in [(5, "A"), (5, "ATG"), (6, "G"), (9, "G")] {
            assert_eq!(ask("20", position, reference, "G"), Ok(Some(vec![])), "{position} {reference}");
        }
        assert_eq!(ask("19", 5, "A", "C"), Ok(None));
        for reference in ["G", "AC"] {
            let refused = ask("20", 5, reference, "C").unwrap_err();
            assert!(refused.contains("another assembly") && refused.contains("at 20:5"), "{refused}");
        }
    }

    #[test]
    fn ranges_and_brackets_find_the_variants_by_their_first_and_last_bases() {
        let sites = sites(&[
            ("20", 10, "A", "<DEL>@5000"),
            ("20", 11, "A", "<TRA>@chr5@5000"),
            ("20", 98, "ATG", "A"),
            ("20", 100, "A", "G"),
            ("20", 101, "A", "G"),
            ("20", 103, "A", "AG"),
        ]);
        let range = |start, end| {
            candidates(&sites, &query("20", BeaconRegion::Range { start, end }, "", ""), 9).unwrap().unwrap().sites
        };
        // positions count from 0, and the end is not part of the range: 100 alone is [99, 100)
        assert_eq!(range(99, 100), [0, 2, 3]);
        assert_eq!(range(100, 101), [0, 4]);
        assert_eq!(range(101, 102), [0]);
        assert_eq!(range(4_999, 5_000), [0]);
        assert!(range(5_000, 6_000).is_empty());
        assert_eq!(range(0, 9), [0_usize; 0]);
        assert_eq!(range(0, u64::MAX), [0, 1, 2, 3, 4, 5]);
        let bases = query("20", BeaconRegion::Range { start: 90, end: 110 }, "A", "G");
        assert_eq!(candidates(&sites, &bases, 9).unwrap().unwrap().sites, [3, 4]);
        let bracket = |start, end| {
            candidates(&sites, &query("20", BeaconRegion::Bracket { start, end }, "", ""), 9).unwrap().unwrap().sites
        };
        assert_eq!(bracket((0, 100), (100, 6_000)), [0, 2, 3]);
        assert_eq!(bracket((9, 10), (5_000, 5_001)), [0]);
        assert!(bracket((9, 10), (4_999, 5_000)).is_empty() && bracket((8, 9), (5_000, 5_001)).is_empty());
        assert_eq!(bracket((97, 98), (100, 101)), [2]);
    }

    #[test]
    fn candidates_beyond_the_limit_are_counted_and_not_kept() {
        let sites = sites(&[("20", 1, "A", "G"), ("20", 2, "A", "G"), ("20", 3, "A", "G"), ("20", 4, "A", "G")]);
        let found = candidates(&sites, &query("20", BeaconRegion::Range { start: 0, end: 9 }, "", ""), 2).unwrap();
        let found = found.unwrap();
        assert_eq!((found.count, &found.sites[..]), (4, &[0, 1, 2][..]));
    }

    #[test]
    fn a_table_with_two_names_of_a_chromosome_is_asked_by_the_exact_one() {
        let sites = sites(&[("20", 5, "A", "C"), ("chr20", 5, "A", "C"), ("NC_000021.9", 5, "A", "C")]);
        let ask = |name: &str| candidates(&sites, &query(name, BeaconRegion::At(5), "A", "C"), 9);
        assert_eq!(ask("chr20").unwrap().unwrap().sites, [1]);
        assert_eq!(ask("20").unwrap().unwrap().sites, [0]);
        assert!(ask("Chr20").unwrap_err().contains("the name of one chromosome"));
        let found = ask("chr21").unwrap().unwrap();
        assert_eq!((&*found.chromosome, &found.sites[..]), ("NC_000021.9", &[2][..]));
    }
}
