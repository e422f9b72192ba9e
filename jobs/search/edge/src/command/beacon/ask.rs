//! The encrypted questions of a Beacon's request.
//!
//! **What the servers see.** Every candidate takes a question, and questions without meaning fill
//! the number up to a power of two, at least to one. With cells, every cell of the range gets the
//! same number, in rounds. So a server sees the cells of the range and the power of two. The number
//! depends on the range and on the public list of variants, and never on an answer. All questions
//! are sent before an answer is read.
//!
//! The set of cells follows from the range alone, with one exception: a variant that begins in an
//! earlier cell and reaches into the range adds its own cell.

use super::candidates::{Candidates, candidates};
use super::{Asking, UNREADABLE};
use crate::beacon::{BeaconFailure, BeaconFound, BeaconQuery, BeaconRegion};
use crate::command::place::{self, Shown, Sizes};
use crate::command::remote::{HiddenQuestion, Remote, TableInfo, Unread};
use futures_util::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tobari_command::output::Failure;
use tobari_search::client::MatchResult;
use tobari_search::hidden::cells::{Cell, Coordinate, common_places};
use tobari_search::hidden::numbers::Kind;
use tobari_search::question::Wish;
use tobari_search::server::Granularity;
use tobari_search::table::{MAX_POSITION, Question, Sites, canonical_allele};

/// Questions that are under way to a server at once.
const PARALLEL: usize = 4;

/// A question to a server: the cell that it sees, and the variant; none without meaning.
type Turn = (Option<Coordinate>, Option<usize>);

/// The questions to a server.
struct Plan<'a> {
    remote: &'a Remote,
    told: Arc<TableInfo>,
    shown: Shown,
    turns: Vec<Turn>,
}

/// A variant for all tables: its position and alleles.
type Variant = (u64, String, String);

/// The variants of a question that occur at all servers together.
pub(super) async fn found(asking: &Asking, query: &BeaconQuery) -> Result<BeaconFound, BeaconFailure> {
    let plans = tokio::task::block_in_place(|| plans(asking, query))?;
    let granularity = if query.count { Granularity::Count } else { Granularity::Boolean };
    let mut fetched = Vec::new();
    for plan in &plans {
        fetched.push(fetch(plan, granularity).await.map_err(|failure| BeaconFailure::Server(failure.to_string()))?);
    }
    // no server may see whether its answer was read: first ask all, then read
    tokio::task::block_in_place(|| {
        let read = |of: &Vec<(usize, Unread)>| -> Vec<(usize, Result<MatchResult, Failure>)> {
            of.iter().map(|(site, unread)| (*site, unread.read())).collect()
        };
        let all: Vec<_> = fetched.iter().map(read).collect();
        let mut counts: BTreeMap<Variant, u64> = BTreeMap::new();
        for (plan, answers) in plans.iter().zip(all) {
            for (site, answer) in answers {
                let count = match answer {
                    Ok(MatchResult::Present(count)) => count.unwrap_or(1),
                    Ok(_) => 0,
                    // one text for all reasons: a server may be the client of this Beacon
                    Err(_) => return Err(BeaconFailure::Server(UNREADABLE.to_owned())),
                };
                let Some(variant) = plan.told.catalogue.sites().and_then(|sites| variant(sites, site)) else {
                    continue;
                };
                let sum = counts.entry(variant).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let variants = counts.values().filter(|count| **count > 0).count() as u64;
        let alleles = counts.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let least = plans.iter().map(|plan| plan.told.catalogue.least).max().unwrap_or(1);
        Ok(BeaconFound { variants, alleles, listed: counts.len() as u64, least })
    })
}

fn variant(sites: &Sites, site: usize) -> Option<Variant> {
    let site = sites.get(site)?;
    let [reference, alternate] = [site.reference, site.alternate].map(|allele| canonical_allele(allele).into_owned());
    Some((site.position, reference, alternate))
}

/// The questions to every server whose table has the chromosome.
fn plans<'a>(asking: &'a Asking, query: &BeaconQuery) -> Result<Vec<Plan<'a>>, BeaconFailure> {
    let question = |failure: String| BeaconFailure::Question(failure);
    let mut having = Vec::new();
    for remote in &asking.remotes {
        let told = remote.told();
        let of = told.catalogue.sites().map_or(Ok(None), |sites| candidates(sites, query, asking.most_questions));
        let shown = place::shown(&asking.place, &told, Kind::Windows(1));
        let shown = shown.map_err(|failure| BeaconFailure::Server(failure.to_string()))?;
        if let Some(of) = of.map_err(question)? {
            having.push((remote, told, shown, of));
        }
    }
    if having.is_empty() {
        return Err(question(format!("expected a chromosome of the tables, found {:?}", query.chromosome)));
    }
    let mut plans = Vec::with_capacity(having.len());
    for (remote, told, shown, of) in having {
        let turns = turns(&told, shown, &of, query.region, asking.most_questions).map_err(question)?;
        plans.push(Plan { remote, told, shown, turns });
    }
    check_cells(&plans, asking.place.least_places).map_err(question)?;
    Ok(plans)
}

/// The order of the questions to a server.
fn turns(
    told: &TableInfo,
    shown: Shown,
    of: &Candidates,
    region: BeaconRegion,
    most: usize,
) -> Result<Vec<Turn>, String> {
    let many = |cells: usize, questions: usize| {
        let count = of.count;
        let at = if cells > 1 { format!(" in {cells} cells") } else { String::new() };
        Err(format!(
            "expected a range that takes at most {most} questions, found {count} listed variants{at}, which take \
             {questions}: ask for a shorter range, or raise --max-questions of this Beacon"
        ))
    };
    let rounds = |count: usize| count.max(1).next_power_of_two();
    match shown {
        Shown::Place if of.count > most => many(1, of.count),
        Shown::Place => Ok(of.sites.iter().map(|site| (None, Some(*site))).collect()),
        Shown::Nothing if rounds(of.count) > most => many(1, rounds(of.count)),
        Shown::Nothing => Ok((0..rounds(of.count)).map(|turn| (None, of.sites.get(turn).copied())).collect()),
        Shown::Cell => {
            let covered = cells_of(region);
            let wide = (covered.end() - covered.start()) as usize + 1;
            if wide > most || of.count > most {
                return many(wide, wide.saturating_mul(rounds(of.count.div_ceil(wide))));
            }
            let at = |number| Coordinate { number, ..Coordinate::new(&of.chromosome, 1) };
            let mut groups: BTreeMap<Coordinate, Vec<usize>> = covered.map(|number| (at(number), Vec::new())).collect();
            for site in &of.sites {
                let cell = told.catalogue.sites().and_then(|sites| Coordinate::of(sites, *site));
                groups.entry(cell.unwrap_or_else(|| at(0))).or_default().push(*site);
            }
            let rounds = rounds(groups.values().map(Vec::len).max().unwrap_or(0));
            if rounds.saturating_mul(groups.len()) > most {
                return many(groups.len(), rounds.saturating_mul(groups.len()));
            }
            let round =
                |round: usize| groups.iter().map(move |(cell, sites)| (Some(cell.clone()), sites.get(round).copied()));
            Ok((0..rounds).flat_map(round).collect())
        }
    }
}

/// The cells in which variants of a question may begin, by their numbers.
fn cells_of(region: BeaconRegion) -> std::ops::RangeInclusive<u32> {
    let (first, last) = match region {
        BeaconRegion::At(position) => (position, position),
        // without its last number, and counted from 0: the last base has the end's number, from 1
        BeaconRegion::Range { start, end } | BeaconRegion::Bracket { start: (start, end), .. } => {
            (start.saturating_add(1), end)
        }
    };
    Cell::number_of(first)..=Cell::number_of(last.min(MAX_POSITION).max(first))
}

/// Checks that every cell hides its places, in all tables that show one.
fn check_cells(plans: &[Plan<'_>], least: usize) -> Result<(), String> {
    let seen: Vec<&Plan<'_>> = plans.iter().filter(|plan| plan.shown == Shown::Cell).collect();
    let tables: Vec<&Sites> = seen.iter().filter_map(|plan| plan.told.catalogue.sites()).collect();
    let cells: BTreeSet<&Coordinate> =
        seen.iter().flat_map(|plan| plan.turns.iter().filter_map(|(cell, _)| cell.as_ref())).collect();
    let names: BTreeSet<&str> = cells.iter().map(|cell| &*cell.chromosome).collect();
    if names.len() > 1 {
        let names: Vec<&str> = names.into_iter().collect();
        return Err(format!(
            "expected tables with one name of the chromosome, found {}: ask these servers with one Beacon each",
            names.join(" and ")
        ));
    }
    let sizes: Sizes = cells.into_iter().map(|cell| ((cell.clone(), 1), common_places(&tables, cell, 1))).collect();
    place::check(&sizes, least).map_err(|failure| failure.to_string())
}

/// Sends the questions to a server, several at once, and returns the answers that have a meaning.
async fn fetch(plan: &Plan<'_>, granularity: Granularity) -> Result<Vec<(usize, Unread)>, Failure> {
    let next = AtomicUsize::new(0);
    let worker = async || {
        let (mut connection, mut fetched) = (plan.remote.connection(), Vec::new());
        while let Some((cell, site)) = plan.turns.get(next.fetch_add(1, Ordering::Relaxed)) {
            let question = site.map(|start| Question::Window { start, length: 1, pattern: 1 });
            let unread = match (plan.shown, question) {
                (Shown::Place, None) => continue,
                (Shown::Place, Some(question)) => {
                    plan.remote.fetch(&mut connection, &question, Wish { granularity, longest: false }).await?
                }
                (_, question) => {
                    let asked = HiddenQuestion { kind: Kind::Windows(1), cell: cell.as_ref(), question };
                    plan.remote.fetch_hidden(&mut connection, &asked, granularity).await?
                }
            };
            fetched.extend(site.map(|site| (site, unread)));
        }
        Ok::<_, Failure>(fetched)
    };
    let workers = (0..PARALLEL.min(plan.turns.len())).map(|_| worker());
    Ok(try_join_all(workers).await?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::command::remote::TableInfo;
    use tobari_search::table::Site;

    /// A table with variants at these positions of chromosome 20.
    fn told(positions: &[u64]) -> TableInfo {
        let mut sites = Sites::new();
        for position in positions {
            let (chromosome, reference, alternate) = ("chr20".into(), "A".into(), "C".into());
            sites.push(Site { chromosome, position: *position, id: None, reference, alternate }).unwrap();
        }
        TableInfo::of_sites(sites)
    }

    /// The cells of the questions and whether each has a meaning; or the reason of the refusal.
    fn asked(
        told: &TableInfo,
        shown: Shown,
        (start, end): (u64, u64),
        most: usize,
    ) -> Result<Vec<(String, bool)>, String> {
        let region = BeaconRegion::Range { start, end };
        let chromosome = "20".to_owned();
        let query = BeaconQuery { chromosome, region, reference: None, alternate: None, assembly: None, count: false };
        let of = candidates(told.catalogue.sites().unwrap(), &query, most).unwrap().unwrap();
        let name = |cell: Option<Coordinate>| cell.map_or(String::new(), |cell| cell.to_string());
        let turns = turns(told, shown, &of, region, most)?;
        Ok(turns.into_iter().map(|(cell, site)| (name(cell), site.is_some())).collect())
    }

    #[test]
    fn a_range_takes_a_power_of_two_of_questions_in_every_cell() {
        let table = told(&[5, 6, 7, 900_000, 1_000_001, 1_000_005, 3_000_000]);
        let (one, two) = ("20:1-1000000", "20:1000001-2000000");
        let cells = |range| {
            let asked = asked(&table, Shown::Cell, range, 64).unwrap();
            let count = |cell: &str, meant| asked.iter().filter(|turn| turn.0 == cell && turn.1 == meant).count();
            [count(one, true), count(one, false), count(two, true), count(two, false)]
        };
        // an empty range is asked as well, and looks like a range of one variant
        assert_eq!((cells((10, 20)), cells((4, 5))), ([0, 1, 0, 0], [1, 0, 0, 0]));
        assert_eq!((cells((4, 6)), cells((4, 7))), ([2, 0, 0, 0], [3, 1, 0, 0]));
        assert_eq!((cells((6, 1_000_000)), cells((6, 1_000_001))), ([2, 0, 0, 0], [2, 0, 1, 1]));
        // which of the cells has the second variant does not show
        let seen =
            |range| asked(&table, Shown::Cell, range, 64).unwrap().into_iter().map(|turn| turn.0).collect::<Vec<_>>();
        assert_eq!(seen((6, 1_000_001)), seen((899_000, 1_000_100)));
        assert_eq!(seen((6, 1_000_001)), [one, two, one, two]);
        // the whole table: the power of two alone; public places: the variants alone
        let meant =
            |shown, range| asked(&table, shown, range, 64).unwrap().into_iter().map(|turn| turn.1).collect::<Vec<_>>();
        assert_eq!(meant(Shown::Nothing, (4, 7)), [true, true, true, false]);
        assert_eq!(meant(Shown::Nothing, (10, 20)), [false]);
        assert_eq!((meant(Shown::Place, (4, 7)), meant(Shown::Place, (10, 20))), (vec![true; 3], vec![]));
    }

    #[test]
    fn a_range_of_too_many_questions_is_refused_with_the_limit() {
        let table = told(&[5, 6, 7, 8, 9, 1_000_001]);
        for (shown, range, most, says) in [
            (Shown::Cell, (0, 9), 7, "at most 7 questions, found 5 listed variants, which take 8"),
            (
                Shown::Cell,
                (0, 1_000_001),
                15,
                "at most 15 questions, found 6 listed variants in 2 cells, which take 16",
            ),
            (Shown::Cell, (0, 9_000_000), 8, "at most 8 questions, found 6 listed variants in 9 cells, which take 9"),
            (Shown::Cell, (0, u64::MAX), 64, "found 6 listed variants in 2148 cells"),
            (Shown::Nothing, (0, 9), 7, "at most 7 questions, found 5 listed variants, which take 8"),
            (Shown::Place, (0, 9), 4, "at most 4 questions, found 5 listed variants, which take 5"),
        ] {
            let refused = asked(&table, shown, range, most).unwrap_err();
            assert!(refused.contains(says) && refused.contains("--max-questions"), "{refused}");
        }
        assert_eq!(asked(&table, Shown::Place, (0, 9), 5).unwrap().len(), 5);
        assert_eq!(asked(&table, Shown::Cell, (0, 9), 8).unwrap().len(), 8);
    }
}
