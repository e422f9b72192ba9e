//! `tobari search beacon`: a Beacon on this machine. Every question becomes an encrypted query.
//!
//! A variant that a table does not list is asked too, by a question without meaning in its cell:
//! otherwise the servers would learn from silence that somebody asked about such a variant, or
//! whether a client's other questions were about listed ones. With public places, variants that no
//! table lists are answered here. A question about an assembly or chromosome without a table is
//! rejected.

use super::arguments::{BeaconArguments, PlaceArguments};
use super::place::{self, Shown, Sizes};
use super::remote::{self, HiddenQuestion, Remote, Unread};
use crate::beacon::{Beacon, BeaconFailure, BeaconQuery, BeaconSource};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use tobari_command::output::{self, Failure};
use tobari_command::stop::stop_signal;
use tobari_search::client::MatchResult;
use tobari_search::hidden::cells::{Coordinate, common_places};
use tobari_search::hidden::numbers::Kind;
use tobari_search::question::Wish;
use tobari_search::server::Granularity;
use tobari_search::table::{Question, Sites, canonical_chromosome};

/// Serves until it is stopped.
pub(crate) fn run(arguments: &BeaconArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let remotes: Vec<Remote> = remote::all(&arguments.remote).await?.into_iter().collect::<Result<_, _>>()?;
        if let Some(remote) = remotes.iter().find(|remote| remote.told().catalogue.sites().is_none()) {
            return Err(Failure::Work(format!(
                "{} has a table of keys, and a Beacon needs a table of sites: choose such a table with --table",
                remote.url
            )));
        }
        for remote in &remotes {
            let (told, kind) = (remote.told(), Kind::Windows(1));
            let whole = |shown| match shown {
                Shown::Nothing => place::check_whole(&told, kind, arguments.place.least_places),
                _ => Ok(()),
            };
            let shown = place::shown(&arguments.place, &told, kind).and_then(whole);
            shown.map_err(|failure| Failure::Work(format!("{}: {failure}", remote.url)))?;
        }
        let (remotes, how, own) = (Arc::new(remotes), arguments.place, arguments.assembly.clone());
        let source: BeaconSource = Arc::new(move |query| {
            let (remotes, own) = (Arc::clone(&remotes), own.clone());
            Box::pin(async move {
                let named = query.assembly.as_deref();
                check_assembly(own.as_deref(), named, &query.chromosome).map_err(BeaconFailure::Question)?;
                count(&remotes, &query, &how).await
            })
        });
        let beacon = Beacon::bind(arguments.listen, source).await?;
        let url = format!("http://{}", beacon.local_addr());
        if arguments.json {
            output::json(&json!({ "listening": url }))?;
        } else {
            output::result(format!("listening on {url}"));
        }
        beacon.run(stop_signal(false)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Checks that a request's assembly is that of the tables, on this chromosome.
fn check_assembly(own: Option<&str>, named: Option<&str>, chromosome: &str) -> Result<(), String> {
    let mitochondrial = canonical_chromosome(chromosome).eq_ignore_ascii_case("M");
    match (own, named) {
        (_, None) => Ok(()),
        (Some(own), Some(named)) if assembly(own, mitochondrial) == assembly(named, mitochondrial) => Ok(()),
        (Some(own), Some(named)) if assembly(own, false) == assembly(named, false) => Err(format!(
            "expected the assembly {own} of the tables, found {named:?}: the mitochondrial sequence of hg19 (16,571 \
             bases) is not that of GRCh37 (16,569), and positions differ"
        )),
        (Some(own), Some(named)) => Err(format!("expected the assembly {own} of the tables, found {named:?}")),
        (None, Some(named)) => Err(format!(
            "expected no assemblyId, as nobody said of which assembly the tables are, found {named:?}: start this \
             beacon with --assembly NAME"
        )),
    }
}

/// An assembly without its patch, under one of its names. hg19 and GRCh37 are the same, except for
/// the mitochondrial sequence.
fn assembly(name: &str, mitochondrial: bool) -> String {
    let lower = name.to_ascii_lowercase();
    let bare = lower.split_once(".p").map_or(&*lower, |(bare, _)| bare);
    match bare {
        "hg18" => "ncbi36",
        "hg19" if mitochondrial => "hg19",
        "hg19" | "b37" | "hs37d5" => "grch37",
        "hg38" => "grch38",
        bare => bare,
    }
    .to_owned()
}

/// The answer does not decrypt, or does not answer the question.
const UNREADABLE: &str = "expected an answer to the question, found one that cannot be read: ask again, and if it \
                          stays so, ask the server's operator";

/// The position of a variant in a table.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Site(usize),
    /// The table has the chromosome, but not the variant.
    NotListed,
    /// The table has other chromosomes only.
    NoChromosome,
}

/// The count of a variant at all servers together.
async fn count(remotes: &[Remote], query: &BeaconQuery, how: &PlaceArguments) -> Result<u64, BeaconFailure> {
    let of_server = |failure: Failure| BeaconFailure::Server(failure.to_string());
    let kind = Kind::Windows(1);
    let mut asked = Vec::new();
    for remote in remotes {
        let told = remote.told();
        let place = told.catalogue.sites().map_or(Ok(Place::NoChromosome), |sites| place(sites, query));
        let place = place.map_err(BeaconFailure::Question)?;
        let shown = place::shown(how, &told, kind).map_err(of_server)?;
        if place != Place::NoChromosome {
            asked.push((remote, told, place, shown));
        }
    }
    if asked.is_empty() {
        let text = format!("expected a chromosome of the tables, found {:?}", query.chromosome);
        return Err(BeaconFailure::Question(text));
    }
    let cell = Coordinate::new(&query.chromosome, query.position);
    if asked.iter().any(|(.., shown)| *shown == Shown::Cell) {
        let tables: Vec<&Sites> = asked.iter().filter_map(|(_, told, ..)| told.catalogue.sites()).collect();
        let sizes = Sizes::from([((cell.clone(), 1), common_places(&tables, &cell, 1))]);
        place::check(&sizes, how.least_places).map_err(|failure| BeaconFailure::Question(failure.to_string()))?;
    }
    let granularity = if query.count { Granularity::Count } else { Granularity::Boolean };
    let mut fetched = Vec::new();
    for (remote, _, place, shown) in asked {
        let question = match place {
            Place::Site(start) => Some(Question::Window { start, length: 1, pattern: 1 }),
            _ => None,
        };
        let connection = &mut remote.connection();
        let unread = match (shown, question) {
            (Shown::Place, None) => continue,
            (Shown::Place, Some(question)) => {
                remote.fetch(connection, &question, Wish { granularity, longest: false }).await
            }
            (_, question) => {
                let cell = (shown == Shown::Cell).then_some(&cell);
                remote.fetch_hidden(connection, &HiddenQuestion { kind, cell, question }, granularity).await
            }
        };
        fetched.push(unread.map_err(of_server)?);
    }
    // no server may see whether its answer was read: first ask all and close the connections, then
    // read
    tokio::task::block_in_place(|| {
        let found: Vec<Result<MatchResult, Failure>> = fetched.iter().map(Unread::read).collect();
        found.into_iter().try_fold(0, |count, found| match found {
            Ok(MatchResult::Present(found)) => Ok(count + found.unwrap_or(1)),
            Ok(_) => Ok(count),
            // one text for all reasons: a server may be the client of this Beacon
            Err(_) => Err(BeaconFailure::Server(UNREADABLE.to_owned())),
        })
    })
}

/// The position of a variant in a table. The chromosome may have `chr` before it or not.
fn place(sites: &Sites, query: &BeaconQuery) -> Result<Place, String> {
    let asked = &*query.chromosome;
    let same = |name: &str| canonical_chromosome(name) == canonical_chromosome(asked);
    let names: Vec<_> = sites.chromosomes().map(|(name, _)| name).filter(|name| same(name)).collect();
    let name = match names[..] {
        [] => return Ok(Place::NoChromosome),
        [one] => one,
        _ => match names.iter().find(|name| &****name == asked) {
            Some(exact) => exact,
            None => return Err(format!("expected the name of one chromosome of the table, found {asked:?}")),
        },
    };
    let BeaconQuery { position, reference, alternate, .. } = query;
    if let Ok(site) = sites.site_at(name, *position, Some((reference, alternate))) {
        return Ok(Place::Site(site));
    }
    // if the reference alleles disagree, one of them is of another assembly, or counts from 1
    let range = sites.chromosomes().find(|(other, _)| *other == name).map_or(0..0, |(_, range)| range);
    for site in range.filter_map(|index| sites.get(index)).filter(|site| site.position == *position) {
        let both = site.reference.bytes().zip(reference.bytes());
        let differ = |(a, b): (u8, u8)| a.to_ascii_uppercase() != b && !a.eq_ignore_ascii_case(&b'N');
        if both.into_iter().any(differ) {
            return Err(format!(
                "expected the reference {} at {name}:{position}, found {reference}: a start that counts from 1, \
                 or another assembly",
                site.reference
            ));
        }
    }
    Ok(Place::NotListed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_search::table::Site;

    #[test]
    fn fault_19_an_assembly_is_the_tables_or_refused() {
        for named in ["GRCh38", "hg38", "grch38.p14"] {
            assert_eq!(check_assembly(Some("GRCh38"), Some(named), "20"), Ok(()));
            assert_eq!(check_assembly(Some("GRCh38"), Some(named), "chrM"), Ok(()));
        }
        assert_eq!(check_assembly(None, None, "20"), Ok(()));
        assert_eq!(check_assembly(Some("hg19"), None, "20"), Ok(()));
        let refused = check_assembly(Some("hg19"), Some("GRCh38"), "20").unwrap_err();
        assert_eq!(refused, "expected the assembly hg19 of the tables, found \"GRCh38\"");
        assert!(check_assembly(None, Some("GRCh38"), "20").unwrap_err().contains("--assembly NAME"));
    }

    #[test]
    fn fault_19_the_mitochondrial_sequence_of_hg19_is_not_that_of_grch37() {
        for other in ["GRCh37", "grch37.p13", "b37", "hs37d5"] {
            for (own, named) in [("hg19", other), (other, "hg19"), (other, "HG19")] {
                for chromosome in ["chrM", "MT", "M", "chrMT", "chrm", "mt"] {
                    let refused = check_assembly(Some(own), Some(named), chromosome).unwrap_err();
                    assert!(refused.contains("16,571") && refused.contains(own), "{refused}");
                }
                assert_eq!(check_assembly(Some(own), Some(named), "chr20"), Ok(()), "{own} {named}");
            }
            assert_eq!(check_assembly(Some(other), Some("GRCh37"), "MT"), Ok(()), "{other}");
        }
        assert_eq!(check_assembly(Some("hg19"), Some("hg19.p13"), "chrM"), Ok(()));
        let refused = check_assembly(Some("hg19"), Some("hg38"), "chrM").unwrap_err();
        assert!(!refused.contains("16,571"), "{refused}");
    }

    #[test]
    fn fault_19_a_variant_is_a_site_or_not_listed_and_another_reference_or_chromosome_is_refused() {
        let mut sites = Sites::new();
        for (chromosome, position, reference, alternate) in
            [("20", 5, "A", "C"), ("20", 5, "AT", "A"), ("20", 9, "n", "C"), ("chrM", 7, "g", "t")]
        {
            let [reference, alternate] = [reference, alternate].map(Into::into);
            sites.push(Site { chromosome: chromosome.into(), position, id: None, reference, alternate }).unwrap();
        }
        let ask = |chromosome: &str, position, reference: &str, alternate: &str| {
            let [chromosome, reference, alternate] = [chromosome, reference, alternate].map(str::to_owned);
            place(&sites, &BeaconQuery { chromosome, position, reference, alternate, assembly: None, count: false })
        };
        assert_eq!(ask("20", 5, "A", "C"), Ok(Place::Site(0)));
        assert_eq!(ask("chr20", 5, "AT", "A"), Ok(Place::Site(1)));
        assert_eq!(ask("MT", 7, "G", "T"), Ok(Place::Site(3)));
        for (position, reference) in [(5, "A"), (5, "ATG"), (6, "G"), (9, "G")] {
            assert_eq!(ask("20", position, reference, "G"), Ok(Place::NotListed), "{position} {reference}");
        }
        assert_eq!(ask("19", 5, "A", "C"), Ok(Place::NoChromosome));
        for reference in ["G", "AC"] {
            let refused = ask("20", 5, reference, "C").unwrap_err();
            assert!(refused.contains("another assembly") && refused.contains("at 20:5"), "{refused}");
        }
    }
}
