//! `tobari search beacon`: a Beacon on this machine. Every question becomes encrypted queries.
//!
//! A variant that a table does not list is asked too, by a question without meaning in its cell:
//! otherwise the servers would learn from silence that somebody asked about such a variant, or
//! whether a client's other questions were about listed ones. With public places, variants that no
//! table lists are answered here. A question about an assembly or chromosome without a table is
//! rejected.
//!
//! **Assemblies.** A table records its assembly, or the user declares one for all tables. A request
//! that names another assembly is rejected, and so is every request that names one if the tables'
//! assembly is unknown. The reference bases of a single variant show most mix-ups, so such a
//! question needs no assembly. A range has no bases, and needs one.

mod ask;
mod candidates;

use super::arguments::{BeaconArguments, PlaceArguments};
use super::assembly::{self, Assemblies};
use super::place::{self, Shown};
use super::remote::{self, Remote};
use crate::beacon::{Beacon, BeaconFailure, BeaconQuery, BeaconRegion, BeaconSource};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use tobari_command::output::{self, Failure};
use tobari_command::stop::stop_signal;
use tobari_search::hidden::numbers::Kind;
use tobari_search::table::{Accession, AssemblyMismatch, same_assembly};

/// The answer does not decrypt, or does not answer the question.
const UNREADABLE: &str = "expected an answer to the question, found one that cannot be read: ask again, and if it \
                          stays so, ask the server's operator";

/// The servers of a Beacon, and the rules for questions to them.
struct Asking {
    remotes: Vec<Remote>,
    place: PlaceArguments,
    /// The assembly of all tables, if it is known.
    assembly: Option<String>,
    most_questions: usize,
}

/// Serves until it is stopped.
pub(crate) fn run(arguments: &BeaconArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let remotes: Vec<Remote> = remote::all(&arguments.remote).await?.into_iter().collect::<Result<_, _>>()?;
        remotes.iter().try_for_each(|remote| check(remote, &arguments.place))?;
        let tables: Vec<_> = remotes.iter().map(|remote| (&*remote.url, remote.told())).collect();
        let remedy = |what| Failure::Work(format!("{what}: start one Beacon for each assembly"));
        let Assemblies { all, unknown } = assembly::of(&tables, arguments.assembly.as_deref(), "M").map_err(remedy)?;
        for url in &unknown {
            output::say(format!(
                "{url}: the table does not record its assembly, so requests that name one are rejected: declare it \
                 with --assembly NAME"
            ));
        }
        let assembly = all.filter(|_| unknown.is_empty());
        let (place, most_questions) = (arguments.place, usize::from(arguments.max_questions));
        let asking = Arc::new(Asking { remotes, place, assembly: assembly.clone(), most_questions });
        let source: BeaconSource = Arc::new(move |query| {
            let asking = Arc::clone(&asking);
            Box::pin(async move {
                check_assembly(asking.assembly.as_deref(), &query).map_err(BeaconFailure::Question)?;
                ask::found(&asking, &query).await
            })
        });
        let beacon = Beacon::bind(arguments.listen, source, assembly, most_questions).await?;
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

/// Checks that a server's table has sites, and that it hides places as wanted.
fn check(remote: &Remote, how: &PlaceArguments) -> Result<(), Failure> {
    let (told, kind) = (remote.told(), Kind::Windows(1));
    if told.catalogue.sites().is_none() {
        return Err(Failure::Work(format!(
            "{} has a table of keys, and a Beacon needs a table of sites: choose such a table with --table",
            remote.url
        )));
    }
    let whole = |shown| match shown {
        Shown::Nothing => place::check_whole(&told, kind, how.least_places),
        _ => Ok(()),
    };
    let shown = place::shown(how, &told, kind).and_then(whole);
    shown.map_err(|failure| Failure::Work(format!("{}: {failure}", remote.url)))
}

/// Checks that a request's assembly is that of the tables, on this chromosome. A RefSeq accession
/// names an assembly, too.
fn check_assembly(own: Option<&str>, query: &BeaconQuery) -> Result<(), String> {
    let BeaconQuery { chromosome, assembly: named, .. } = query;
    let accession = Accession::read(chromosome);
    let fits = |name: &str| {
        let of = accession.iter().flat_map(|accession| accession.assemblies);
        accession.is_none() || of.into_iter().any(|one| same_assembly(name, one, chromosome).is_ok())
    };
    let of_sequence = || accession.map_or(String::new(), |accession| accession.assemblies.join(" and "));
    if let Some(named) = named.as_deref().filter(|named| !fits(named)) {
        let text = format!("expected one assembly, found {chromosome} of {} with assemblyId {named:?}", of_sequence());
        return Err(text);
    }
    let Some(own) = own else {
        let found = named.clone().or_else(|| accession.map(|_| chromosome.clone()));
        return match found {
            Some(found) => Err(format!(
                "expected no assembly, as the tables do not record theirs, found {found:?}: start this Beacon with \
                 --assembly NAME, or index the tables again with this option"
            )),
            None => needs_none(query, None),
        };
    };
    if !fits(own) {
        let of = of_sequence();
        return Err(format!("expected the assembly {own} of the tables, found {chromosome:?}, a sequence of {of}"));
    }
    match named.as_deref().map_or(Ok(()), |named| same_assembly(own, named, chromosome)) {
        Ok(()) if named.is_none() && accession.is_none() => needs_none(query, Some(own)),
        Ok(()) => Ok(()),
        Err(AssemblyMismatch::Mitochondrial) => Err(format!(
            "expected the assembly {own} of the tables, found {named:?}: the mitochondrial sequence of hg19 (16,571 \
             bases) is not that of GRCh37 (16,569), and positions differ",
            named = named.as_deref().unwrap_or_default()
        )),
        Err(AssemblyMismatch::Other) => Err(format!(
            "expected the assembly {own} of the tables, found {named:?}",
            named = named.as_deref().unwrap_or_default()
        )),
    }
}

/// Checks that a question needs no assembly: its reference bases are compared with the table.
fn needs_none(query: &BeaconQuery, own: Option<&str>) -> Result<(), String> {
    let known = query.reference.as_ref().is_some_and(|bases| !bases.contains('N'));
    if known && matches!(query.region, BeaconRegion::At(_)) {
        return Ok(());
    }
    let remedy = own.map_or("start this Beacon with --assembly NAME, and name it in the request".to_owned(), |own| {
        format!("the tables are of {own}")
    });
    Err(format!(
        "expected assemblyId, because nothing else would show that positions are of another assembly: {remedy}"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn query(chromosome: &str, named: Option<&str>) -> BeaconQuery {
        let [reference, alternate] = ["A", "C"].map(|base| Some(base.to_owned()));
        let (chromosome, assembly) = (chromosome.to_owned(), named.map(str::to_owned));
        BeaconQuery { chromosome, region: BeaconRegion::At(5), reference, alternate, assembly, count: false }
    }

    fn checked(own: Option<&str>, named: Option<&str>, chromosome: &str) -> Result<(), String> {
        check_assembly(own, &query(chromosome, named))
    }

    #[test]
    fn fault_19_an_assembly_is_the_tables_or_refused() {
        for named in ["GRCh38", "hg38", "grch38.p14", "GCF_000001405.40"] {
            assert_eq!(checked(Some("GRCh38"), Some(named), "20"), Ok(()));
            assert_eq!(checked(Some("GRCh38"), Some(named), "chrM"), Ok(()));
        }
        assert_eq!(checked(None, None, "20"), Ok(()));
        assert_eq!(checked(Some("hg19"), None, "20"), Ok(()));
        let refused = checked(Some("hg19"), Some("GRCh38"), "20").unwrap_err();
        assert_eq!(refused, "expected the assembly hg19 of the tables, found \"GRCh38\"");
        assert!(checked(None, Some("GRCh38"), "20").unwrap_err().contains("--assembly NAME"));
    }

    #[test]
    fn fault_19_the_mitochondrial_sequence_of_hg19_is_not_that_of_grch37() {
        for other in ["GRCh37", "grch37.p13", "b37", "hs37d5"] {
            for (own, named) in [("hg19", other), (other, "hg19"), (other, "HG19")] {
                for chromosome in ["chrM", "MT", "M", "chrMT", "chrm", "mt"] {
                    let refused = checked(Some(own), Some(named), chromosome).unwrap_err();
                    assert!(refused.contains("16,571") && refused.contains(own), "{refused}");
                }
                assert_eq!(checked(Some(own), Some(named), "chr20"), Ok(()), "{own} {named}");
            }
            assert_eq!(checked(Some(other), Some("GRCh37"), "MT"), Ok(()), "{other}");
        }
        assert_eq!(checked(Some("hg19"), Some("hg19.p13"), "chrM"), Ok(()));
        let refused = checked(Some("hg19"), Some("hg38"), "chrM").unwrap_err();
        assert!(!refused.contains("16,571"), "{refused}");
    }

    #[test]
    fn an_accession_names_an_assembly() {
        for (own, named) in [("GRCh38", None), ("hg38", Some("GRCh38.p14"))] {
            assert_eq!(checked(Some(own), named, "NC_000020.11"), Ok(()));
            assert_eq!(checked(Some(own), named, "refseq:NC_012920.1"), Ok(()));
        }
        for (own, named, chromosome, says) in [
            (Some("GRCh37"), None, "NC_000020.11", "a sequence of GRCh38"),
            (Some("GRCh38"), Some("GRCh37"), "NC_000020.11", "NC_000020.11 of GRCh38 with assemblyId \"GRCh37\""),
            (Some("hg19"), None, "NC_012920.1", "a sequence of GRCh37 and GRCh38"),
            (Some("T2T-CHM13v2.0"), None, "NC_012920.1", "a sequence of GRCh37 and GRCh38"),
            (None, None, "NC_000020.11", "--assembly NAME"),
        ] {
            let refused = checked(own, named, chromosome).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn a_question_without_reference_bases_needs_an_assembly() {
        let range = BeaconRegion::Range { start: 5, end: 9 };
        let bare = |own: Option<&str>, changed: fn(BeaconQuery) -> BeaconQuery| {
            check_assembly(own, &changed(query("20", None)))
        };
        let ranged = |query| BeaconQuery { region: BeaconRegion::Range { start: 5, end: 9 }, ..query };
        for refused in [
            bare(Some("GRCh38"), ranged),
            bare(Some("GRCh38"), |query| BeaconQuery { reference: None, ..query }),
            bare(Some("GRCh38"), |query| BeaconQuery { reference: Some("AN".to_owned()), ..query }),
        ] {
            let refused = refused.unwrap_err();
            assert!(refused.contains("expected assemblyId") && refused.contains("of GRCh38"), "{refused}");
        }
        assert!(bare(None, ranged).unwrap_err().contains("--assembly NAME"));
        for (chromosome, named) in [("20", Some("hg38")), ("NC_000020.11", None)] {
            let asked = BeaconQuery { region: range, ..query(chromosome, named) };
            assert_eq!(check_assembly(Some("GRCh38"), &asked), Ok(()));
        }
    }
}
