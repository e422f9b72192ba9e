//! An adversary reads the places of questions: one list hides the true place, two lists show it.
//!
//! Each attack uses the bytes that a server receives. The attacked client forgets its questions
//! between them, as two runs of a command do. A client that remembers rejects the second question.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::collections::BTreeSet;
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_search::client::Asker;
use tobari_search::fullness::Fullness;
use tobari_search::identity::Identity;
use tobari_search::messages;
use tobari_search::question::decoys::Decoys;
use tobari_search::question::labelled::PreparedLabelled;
use tobari_search::question::{Prepared, QuestionError, Wish};
use tobari_search::server::Granularity;
use tobari_search::table::{Content, Question, Site, Table};

/// The usual number of sites in three million bases of a human chromosome.
const SITES: usize = 25_000;
const LENGTH: usize = 10;
const PLACES: u32 = 100;
const WISH: Wish = Wish { granularity: Granularity::Boolean, longest: false, places: PLACES };

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn push(content: &mut Content, site: usize) {
    let (reference, alternate) = ("A".into(), "C".into());
    let position = 100 + site as u64;
    let named = Site { chromosome: "20".into(), position, id: None, reference, alternate };
    content.push_site(named, &[site.is_multiple_of(2), site.is_multiple_of(3), site.is_multiple_of(5), false]).unwrap();
}

/// A panel with its own name, as from a run of `tobari search index`.
fn table(name: u8) -> Table {
    let mut content = Content::panel(4).unwrap();
    (0..SITES).for_each(|site| push(&mut content, site));
    Table::new(content, 1, "", &mut rng(name))
}

fn appended(table: &Table, more: usize) -> Table {
    let mut table = table.clone();
    let there = table.content.sites().unwrap().len();
    (there..there + more).for_each(|site| push(&mut table.content, site));
    table.revision += 1;
    table
}

fn decoys(secret: u8) -> Decoys {
    Decoys::new(Seed::from_bytes([secret; 32]))
}

fn window(start: usize, length: usize) -> Question<'static> {
    Question::Window { start, length, pattern: 0 }
}

/// A question as its client prepares it.
fn prepared(table: &Table, question: &Question<'_>, wish: Wish, decoys: &Decoys) -> Result<Prepared, QuestionError> {
    Prepared::new((&table.catalogue(), &Fullness::of(table)), question, wish, decoys)
}

/// The places that a server reads in a question's bytes.
fn seen(table: &Table, start: usize, decoys: &Decoys) -> Vec<u32> {
    let prepared = prepared(table, &window(start, LENGTH), WISH, decoys).unwrap();
    let secret = SecretKey::from_seed(&prepared.set().parameters().unwrap(), Seed::random(&mut rng(1)));
    let query = prepared.query(&Asker::new(&secret).unwrap(), [4; 16], &mut rng(2)).unwrap();
    messages::decode_query(&query, secret.parameters()).unwrap().starts
}

fn common(lists: &[Vec<u32>]) -> BTreeSet<u32> {
    let sets = lists.iter().map(|list| list.iter().copied().collect::<BTreeSet<_>>());
    sets.reduce(|all, list| &all & &list).unwrap()
}

/// The attack works: two adjacent windows leave one candidate, the true place.
#[test]
fn fault_17_adjacent_windows_show_the_true_place() {
    let (table, mut alone) = (table(1), 0);
    for secret in 0..20 {
        let start = 50 + 1_200 * usize::from(secret);
        let [first, second] = [start, start + LENGTH].map(|start| seen(&table, start, &decoys(secret)));
        assert_eq!(first.len(), PLACES as usize, "one list has as many candidates as places");
        let next = |place: &u32| second.contains(&(place + LENGTH as u32));
        let candidates: BTreeSet<u32> = first.into_iter().filter(next).collect();
        assert!(candidates.contains(&(start as u32)));
        alone += usize::from(candidates.len() == 1);
    }
    assert!(alone >= 10, "after two questions the server knows the place in {alone} of 20 scans");
}

/// The attack works: the same question before and after sites were added leaves fewer places each
/// time.
#[test]
fn fault_17_a_table_that_grows_shows_the_true_place() {
    let (mut table, start, mut lists) = (table(1), 777, Vec::new());
    for more in [9_000, 20_000, 40_000, 0] {
        lists.push(seen(&table, start, &decoys(3)));
        table = appended(&table, more);
    }
    let (two, all) = (common(&lists[..2]), common(&lists));
    assert!(two.len() < 80, "{} places stay after one addition", two.len());
    assert!(all.contains(&(start as u32)) && all.len() < 40, "{all:?}");
}

/// The attack works: a panel that was indexed anew has another name, and so has another server's
/// panel.
#[test]
fn fault_17_two_tables_show_the_true_place() {
    let (first, second, mut alone) = (table(1), table(2), 0);
    for secret in 0..20 {
        let start = 50 + 1_200 * usize::from(secret);
        let both = common(&[&first, &second].map(|table| seen(table, start, &decoys(secret))));
        assert!(both.contains(&(start as u32)));
        alone += usize::from(both.len() == 1);
    }
    assert!(alone >= 10, "two servers know the place in {alone} of 20 questions");
}

/// The same question to the same table shows nothing new, also after a restart: each list is that
/// of a process that read the secret from its file. Another secret gives other places.
#[test]
fn fault_17_the_same_question_of_the_same_table_shows_the_same_places_after_a_restart() {
    let (table, start) = (table(1), 500);
    let file = Identity::generate(&mut rng(3)).encode();
    let list = |file: &[u8]| seen(&table, start, Identity::decode(file).unwrap().decoys());
    let first = list(&file);
    assert_eq!(first.len(), PLACES as usize);
    assert!(first.contains(&(start as u32)));
    for _ in 0..2 {
        assert_eq!(list(&file), first);
    }
    let other = list(&Identity::generate(&mut rng(4)).encode());
    assert_ne!(other, first);
    let both = common(&[first, other]);
    assert!(both.contains(&(start as u32)) && both.len() < 20, "{both:?}");
}

#[test]
fn fault_17_a_client_with_decoys_asks_about_one_place_of_one_table() {
    let (one, text) = (table(1), "decoys hide one place of one table");
    let fullness = Fullness::of(&one).levelled();
    let grown = appended(&one, 9_000);
    let public = Wish { places: 1, ..WISH };
    let wide = Wish { places: 50, ..WISH };
    let refused = |table: &Table, question: &Question<'_>, wish, decoys: &Decoys| {
        let error = prepared(table, question, wish, decoys).unwrap_err();
        assert!(matches!(error, QuestionError::Decoys), "{error}");
        let error = error.to_string();
        assert!(error.contains(text) && error.contains("--hidden"), "{error}");
    };
    let client = decoys(3);
    prepared(&one, &window(500, LENGTH), WISH, &client).unwrap();
    // adjacent, overlapping, inside, elsewhere; another table; the grown table; a public place
    for (start, length) in [(510, LENGTH), (505, LENGTH), (501, LENGTH - 1), (21_000, LENGTH)] {
        refused(&one, &window(start, length), WISH, &client);
    }
    refused(&table(2), &window(500, LENGTH), WISH, &client);
    refused(&grown, &window(500, LENGTH), WISH, &client);
    refused(&one, &window(500, LENGTH), wide, &client);
    refused(&one, &window(510, LENGTH), public, &client);
    // a question with labels meets the same memory of the client
    let told = (&one.catalogue(), &fullness);
    let labelled = |start| PreparedLabelled::new(told, &window(start, LENGTH), WISH, &client).err();
    assert!(labelled(500).is_none() && matches!(labelled(510), Some(QuestionError::Decoys)));
    // the first question stays allowed, with other alleles there, and as a longest match
    prepared(&one, &Question::Window { start: 500, length: LENGTH, pattern: 5 }, WISH, &client).unwrap();
    prepared(&one, &window(500, LENGTH), Wish { longest: true, ..WISH }, &client).unwrap();
    // a client that showed a place publicly may show other places publicly, and hides none of them
    let open = decoys(4);
    prepared(&one, &window(500, LENGTH), public, &open).unwrap();
    prepared(&one, &window(510, LENGTH), public, &open).unwrap();
    refused(&one, &window(520, LENGTH), WISH, &open);
}
