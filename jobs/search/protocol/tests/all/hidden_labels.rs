//! Labels with the place hidden: answers as in the clear, budgets, and keys that change.

use crate::cells::{CLIENT, ROOM, World, clear, panel, rng, secret, table, window};
use std::sync::Arc;
use tobari_lattice::params::Plaintext;
use tobari_lattice::ring::Modulus;
use tobari_search::client::MatchResult;
use tobari_search::desk::{LabelledTable, Limits, Refusal};
use tobari_search::hidden::arrangement::{ArrangeError, Arrangement};
use tobari_search::hidden::cells::{Cell, Coordinate};
use tobari_search::hidden::client::Asker;
use tobari_search::hidden::numbers::Kind;
use tobari_search::hidden::question::{HiddenLabel, HiddenPrepared};
use tobari_search::oprf::function::Secret;
use tobari_search::oprf::labels::Labeller;
use tobari_search::server::Granularity;
use tobari_search::table::{Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Question, Site, Sites, Table};

fn t() -> Modulus {
    let Plaintext::Integers(t) = secret().parameters().plaintext() else { panic!("exact integers") };
    t
}

fn labeller(table: &Table, seed: u64) -> Labeller {
    Labeller::new(&table.name, Secret::random(&mut rng(seed)), 1 << 20).unwrap()
}

/// Serves a table with labels under the key of a seed, and these kinds of questions over all of it.
fn serve(world: &mut World, table: &Table, seed: u64, kinds: &[Kind]) {
    let labeller = labeller(table, seed);
    let matcher = world.desk.hidden_matcher().unwrap();
    let arrange = |kind: &Kind| {
        Arc::new(Arrangement::labelled((&matcher, &labeller), table, *kind, ROOM, None, &mut rng(seed)).unwrap())
    };
    let arranged = kinds.iter().map(arrange).collect();
    world.desk.serve_table_labelled(LabelledTable::of(table.clone(), labeller).unwrap());
    world.desk.serve_hidden(&table.name, arranged);
}

/// A question, ready for evaluation: over the whole table, or in its cell.
fn prepared(table: &Table, question: &Question<'_>, whole: bool) -> HiddenPrepared {
    let catalogue = table.catalogue();
    let start = if let Question::Window { start, .. } = question { *start } else { 0 };
    let cell = catalogue.sites().filter(|_| !whole).and_then(|sites| Coordinate::of(sites, start));
    HiddenPrepared::new(&catalogue, Kind::of(question), cell.as_ref(), Some(question)).unwrap()
}

fn label(
    world: &mut World,
    prepared: &HiddenPrepared,
    question: Option<&Question<'_>>,
) -> Result<HiddenLabel, Refusal> {
    let evaluation = prepared.evaluation(CLIENT, question, &mut rng(77)).unwrap();
    let (reply, asked) = world.desk.evaluate(evaluation.request())?;
    assert_eq!(asked.elements, 1);
    Ok(evaluation.finish(&reply).unwrap())
}

/// Asks with a label.
fn ask(
    world: &mut World,
    table: &Table,
    prepared: &HiddenPrepared,
    label: &HiddenLabel,
) -> Result<MatchResult, Refusal> {
    ask_either(world, table, prepared, Some(label))
}

/// Asks with a label; a table without labels, without one.
fn ask_either(
    world: &mut World,
    table: &Table,
    prepared: &HiddenPrepared,
    label: Option<&HiddenLabel>,
) -> Result<MatchResult, Refusal> {
    let (asker, mut prepared) = (Asker::new(secret()).unwrap(), prepared.clone());
    if let Some(label) = label {
        prepared = prepared.with_label(label, asker.modulus());
    }
    let layout = match prepared.shown() {
        (Kind::Windows(length), tobari_search::hidden::numbers::Part::Cell(cell), _) => {
            world.cell(table, length, cell).told().to_vec()
        }
        (kind, _, _) => {
            let mut all = world.desk.arrangements(&table.name);
            all.find(|one| one.kind() == kind).unwrap().told().to_vec()
        }
    };
    let target = prepared.target(&layout, secret().parameters()).unwrap();
    let query = prepared.query(&asker, &target, (CLIENT, Granularity::Count), &mut rng(78)).unwrap();
    let (admitted, _) = world.desk.admit_hidden(&query, &world.hash)?;
    let answer = admitted.answer(&mut rng(79)).unwrap();
    Ok(prepared.uncover(target.read(&asker, &answer).unwrap(), &target, &t()))
}

#[test]
fn tables_with_labels_answer_with_hidden_places_as_in_the_clear_and_only_evaluations_are_paid() {
    let mut world = World::new(Limits { region_tests: 0, ..Limits::default() });
    let spread = |i: u64| 1_990_000 + 500 * i;
    let panel = table(1, panel(), (0..40).map(spread));
    let content = Content::Variants { sites: Sites::new(), counts: Vec::new(), alleles: 12.into() };
    let variants = table(2, content, (0..40).map(spread));
    serve(&mut world, &panel, 5, &[Kind::Windows(5)]);
    serve(&mut world, &variants, 6, &[]);
    let (mut found, mut paid) = (0, 0);
    for (table, length) in [(&panel, 5), (&panel, 3), (&variants, 1)] {
        for start in [0, 19, 20, 40 - length] {
            for pattern in [0, 1, 0b10110] {
                let question = window(start, length, pattern & ((1 << length) - 1));
                let expected = clear(table, &question);
                for whole in [true, false].into_iter().filter(|whole| !whole || length == 5) {
                    let prepared = prepared(table, &question, whole);
                    let label = label(&mut world, &prepared, Some(&question)).unwrap();
                    paid += 1;
                    // the label is valid for any number of questions
                    for _ in 0..1 + start % 2 {
                        let answer = ask(&mut world, table, &prepared, &label).unwrap();
                        assert_eq!(answer, expected, "{start} {length} {pattern} {whole}");
                    }
                    assert_eq!(world.desk.tests_left(&CLIENT), Some(10_000 - paid), "regions pay nothing");
                }
                found += usize::from(expected != MatchResult::Absent);
            }
        }
    }
    assert!((10..34).contains(&found), "both happen: {found}");
    // a question without meaning costs and shows the same
    let meant = prepared(&panel, &window(3, 5, 0), false);
    let without = HiddenPrepared::new(&panel.catalogue(), Kind::Windows(5), None, None).unwrap();
    let sizes = [(&meant, Some(window(3, 5, 0))), (&without, None)]
        .map(|(one, question)| one.evaluation(CLIENT, question.as_ref(), &mut rng(1)).unwrap().request().len());
    assert_eq!(sizes[0], sizes[1]);
    label(&mut world, &without, None).unwrap();
    assert_eq!(world.desk.tests_left(&CLIENT), Some(10_000 - paid - 1));
}

#[test]
fn keys_with_labels_are_found_in_a_hidden_table() {
    let mut world = World::new(Limits::default());
    let mut builder = KeyTableBuilder::new();
    (0..500u32).for_each(|i| builder.push(&i.to_be_bytes(), u64::from(1 + i % 900)).unwrap());
    let keys = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng(7)).unwrap();
    let table = Table::new(Content::Keys(keys), 1, "keys", &mut rng(3));
    serve(&mut world, &table, 5, &[Kind::Keys]);
    for i in [0u32, 7, 499, 500, 70_000] {
        let (bytes, expected) = (i.to_be_bytes(), if i < 500 { Some(u64::from(1 + i % 900)) } else { None });
        let question = Question::Key(&bytes);
        let prepared = prepared(&table, &question, true);
        let label = label(&mut world, &prepared, Some(&question)).unwrap();
        let expected = expected.map_or(MatchResult::Absent, |count| MatchResult::Present(Some(count)));
        assert_eq!(ask(&mut world, &table, &prepared, &label).unwrap(), expected);
    }
}

/// Counts around the modulus of hidden tables, and the largest of all: in a cell and of keys, with
/// and without labels.
#[test]
fn counts_of_two_digits_are_exact_with_the_place_hidden() {
    let (t, most) = (t().value() as u32, u32::MAX);
    let counts = vec![1, t - 1, t, t + 1, 2 * t + 5, most - 1, most];
    let site = |i: usize| Site {
        chromosome: "20".into(),
        position: 100 + i as u64,
        id: None,
        reference: "A".into(),
        alternate: "C".into(),
    };
    let mut sites = Sites::new();
    (0..counts.len()).for_each(|i| sites.push(site(i)).unwrap());
    let content = Content::Variants { sites, counts: counts.clone(), alleles: most.into() };
    let variants = Table::new(content, 1, "", &mut rng(4));
    let mut builder = KeyTableBuilder::new();
    counts.iter().enumerate().for_each(|(i, count)| builder.push(&[i as u8; 20], u64::from(*count)).unwrap());
    let keys = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng(7)).unwrap();
    let keys = Table::new(Content::Keys(keys), 1, "", &mut rng(5));
    let mut world = World::new(Limits::default());
    for labels in [false, true] {
        if labels {
            serve(&mut world, &variants, 8, &[]);
            serve(&mut world, &keys, 9, &[Kind::Keys]);
        } else {
            world.desk.serve_table(variants.clone()).unwrap();
            world.desk.serve_table(keys.clone()).unwrap();
            let matcher = world.desk.hidden_matcher().unwrap();
            let arranged = Arrangement::new(&matcher, &keys, Kind::Keys, ROOM, None, &mut rng(6)).unwrap();
            assert_eq!(arranged.layout().digits(), 2);
            world.desk.serve_hidden(&keys.name, vec![Arc::new(arranged)]);
        }
        for (i, count) in counts.iter().enumerate() {
            let key = [i as u8; 20];
            let of_site = (&variants, window(i, 1, 1), *count);
            let others = (&variants, window(i, 1, 0), most - count);
            for (table, question, count) in [of_site, others, (&keys, Question::Key(&key), *count)] {
                let prepared = prepared(table, &question, false);
                let label = labels.then(|| label(&mut world, &prepared, Some(&question)).unwrap());
                let expected = if count == 0 { MatchResult::Absent } else { MatchResult::Present(Some(count.into())) };
                let found = ask_either(&mut world, table, &prepared, label.as_ref()).unwrap();
                assert_eq!(found, expected, "{labels} {question:?}");
            }
        }
    }
}

/// What a dishonest client can still do: it asks without an evaluation, with labels of an earlier
/// key, after its budget is used up, or for a cell of more labels than the server makes.
#[test]
fn no_answer_comes_without_an_evaluation_under_the_present_key() {
    let mut world = World::new(Limits { tests: 3, cell_labels: 127, ..Limits::default() });
    let table = table(1, panel(), (0..30).map(|i| 2_000_100 + i));
    let (question, cell) = (window(4, 3, 0), Cell { chromosome: 0, number: 2 });
    // without labels, cell and whole table are arranged
    world.desk.serve_table(table.clone()).unwrap();
    let matcher = world.desk.hidden_matcher().unwrap();
    let plain = Arrangement::new(&matcher, &table, Kind::Windows(3), ROOM, None, &mut rng(1)).unwrap();
    world.desk.serve_hidden(&table.name, vec![Arc::new(plain)]);
    let asker = Asker::new(secret()).unwrap();
    let arranged = [world.cell(&table, 3, cell), Arc::clone(world.desk.arrangements(&table.name).next().unwrap())];
    let plain: Vec<Vec<u8>> = [false, true]
        .iter()
        .zip(&arranged)
        .map(|(whole, arranged)| {
            let prepared = prepared(&table, &question, *whole);
            let target = prepared.target(arranged.told(), secret().parameters()).unwrap();
            prepared.query(&asker, &target, (CLIENT, Granularity::Count), &mut rng(2)).unwrap()
        })
        .collect();
    plain.iter().for_each(|query| drop(world.desk.admit_hidden(query, &world.hash).unwrap()));
    assert_eq!(world.desk.tests_left(&CLIENT), Some(1));
    serve(&mut world, &table, 5, &[]);
    for query in &plain {
        let refused = world.desk.admit_hidden(query, &world.hash).err();
        assert!(matches!(refused, Some(Refusal::Table)), "{refused:?}");
    }
    // the last test is an evaluation; its label asks on, and the next evaluation is refused
    let prepared = prepared(&table, &question, false);
    let label = label(&mut world, &prepared, Some(&question)).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&mut world, &table, &prepared, &label).unwrap(), clear(&table, &question));
    }
    let another = prepared.evaluation(CLIENT, Some(&question), &mut rng(9)).unwrap();
    assert!(matches!(world.desk.evaluate(another.request()), Err(Refusal::Budget { tests: 3 })));
    // another key of the same table: the cell has another name
    serve(&mut world, &table, 6, &[]);
    let refused = ask(&mut world, &table, &prepared, &label);
    assert!(matches!(refused, Err(Refusal::Table)), "{refused:?}");
    let source = world.desk.cell_source(&table.name).unwrap();
    let many = source.arrange(8, cell, ROOM, &mut rng(3)).err();
    assert!(matches!(many, Some(ArrangeError::Labels { most: 127, found: 128.. })), "{many:?}");
}
