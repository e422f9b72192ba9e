//! Searches with labels against the same searches on plaintext, and the budgets and rejections of a
//! desk.

use crate::world::{Customer, TABLE, labeller, layout, mosaic, panel, pattern, rng, set};
use std::collections::BTreeSet;
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::{Modulus, Seed};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_search::client::{Asker, MatchResult};
use tobari_search::desk::{Limits, Refusal, SearchService};
use tobari_search::messages::{self, MessageError, Query};
use tobari_search::oprf::function::{Blinding, Secret};
use tobari_search::oprf::labels::{self, Label, Labeller};
use tobari_search::oprf::messages::{self as oprf_messages, Evaluated, Evaluation, MAX_ELEMENTS};
use tobari_search::oprf::{LIMBS, Mode};
use tobari_search::program::{Entry, EntryError, Key, Layout, Shape};
use tobari_search::server::{Granularity, Matcher};

#[test]
fn answers_with_labels_are_those_of_the_clear_and_only_evaluations_are_paid() {
    let haplotypes = mosaic(120, 150, 21);
    let panel = panel(&haplotypes);
    let mut desk = SearchService::new(Limits::default());
    desk.serve_labelled(panel.clone(), 1, labeller(1));
    let customer = Customer::new(3);
    customer.register(&mut desk);
    let mut paid = 0;
    for (shape, starts, start) in [
        (Shape::Pattern { places: 4, length: 10 }, &[5u32, 40, 40, 90][..], 40),
        (Shape::Pattern { places: 1, length: 100 }, &[30], 30),
        (Shape::Longest { places: 3, length: 9 }, &[10, 50, 50], 50),
        (Shape::Longest { places: 1, length: 30 }, &[70], 70),
    ] {
        let length = shape.length();
        let there = pattern(&haplotypes[17], start as usize, length);
        for wanted in [there, there ^ 1, there ^ 1 << (length - 1)] {
            let sites = panel.longest(start as usize, length, wanted).unwrap();
            let counted = |sites: usize| {
                let pattern = if sites == 128 { wanted } else { wanted & ((1 << sites) - 1) };
                u64::from(panel.count(start as usize, sites, pattern).unwrap())
            };
            for granularity in [Granularity::Count, Granularity::Boolean] {
                let told = |sites| (granularity == Granularity::Count).then(|| counted(sites));
                let expected = match shape {
                    _ if sites == 0 => MatchResult::Absent,
                    Shape::Longest { .. } => MatchResult::Longest(sites, told(sites)),
                    _ if sites < length => MatchResult::Absent,
                    _ => MatchResult::Present(told(length)),
                };
                let found = customer.ask(&mut desk, &panel, (shape, starts), (start, wanted), granularity).unwrap();
                assert_eq!(found, expected, "{shape:?}");
                paid += shape.tests() as u64;
                assert_eq!(desk.tests_left(&customer.name), Some(10_000 - paid));
            }
        }
    }
}

#[test]
fn a_table_is_asked_in_its_own_mode_and_under_its_present_key() {
    let haplotypes = mosaic(60, 60, 22);
    let panel = panel(&haplotypes);
    let mut desk = SearchService::new(Limits { tests: 20, ..Limits::default() });
    let customer = Customer::new(3);
    customer.register(&mut desk);
    let (shape, starts) = (Shape::Pattern { places: 1, length: 8 }, [20u32]);
    let inputs = || labels::inputs(&TABLE, shape, 20, pattern(&haplotypes[3], 20, 8));
    assert_eq!(desk.mode(&TABLE), None);
    assert!(matches!(customer.evaluate(&mut desk, inputs()), Err(Refusal::Table)));
    desk.serve(TABLE, panel.clone(), 1);
    assert_eq!(desk.mode(&TABLE), Some(Mode::Plain));
    assert!(matches!(customer.evaluate(&mut desk, inputs()), Err(Refusal::Mode("without labels"))));

    desk.serve_labelled(panel.clone(), 1, labeller(1));
    let (revision, labels) = customer.evaluate(&mut desk, inputs()).unwrap();
    assert_eq!(desk.mode(&TABLE), Some(Mode::Labelled(revision)));
    let layout = layout(&panel, shape, &starts, customer.secret.parameters().degree());
    let of = (&layout, Granularity::Count);
    let with = |mode| customer.query((shape, &starts), mode, &[labels[0].key(&customer.t)], of);
    let plain = with(Mode::Plain);
    assert!(matches!(desk.answer(&plain, &mut rng(1)), Err(Refusal::Mode("with labels"))));
    let query = with(Mode::Labelled(revision));
    assert!(desk.answer(&query, &mut rng(1)).is_ok());

    // the table is served anew, under another key: old labels are useless, and clients get an error
    desk.serve_labelled(panel.clone(), 1, labeller(2));
    assert!(matches!(desk.answer(&query, &mut rng(1)), Err(Refusal::Revision)));
    let again = customer.ask(&mut desk, &panel, (shape, &starts), (20, pattern(&haplotypes[3], 20, 8)), of.1);
    assert!(matches!(again, Ok(MatchResult::Present(Some(_)))));
    desk.serve(TABLE, panel, 1);
    assert!(matches!(desk.answer(&query, &mut rng(1)), Err(Refusal::Mode("without labels"))));
    assert_eq!(desk.tests_left(&customer.name), Some(18), "what is refused costs nothing");
}

#[test]
fn a_longest_match_costs_an_evaluation_for_each_site_and_the_budget_ends() {
    let haplotypes = mosaic(60, 60, 23);
    let panel = panel(&haplotypes);
    let mut desk = SearchService::new(Limits { tests: 30, uses: 3, region_tests: 0, ..Limits::default() });
    desk.serve_labelled(panel.clone(), 1, labeller(1));
    let (customer, shape, starts) = (Customer::new(3), Shape::Longest { places: 1, length: 12 }, [20u32]);
    let inputs = || labels::inputs(&TABLE, shape, 20, pattern(&haplotypes[3], 20, 12));
    let unknown = customer.evaluate(&mut desk, inputs());
    assert!(matches!(unknown, Err(Refusal::Key { set: "search-40" })));
    customer.register(&mut desk);
    let (revision, labels) = customer.evaluate(&mut desk, inputs()).unwrap();
    assert_eq!(desk.tests_left(&customer.name), Some(18));
    // unrelated prefixes in the groups of one question need as many evaluations
    let unrelated = (0..12).map(|i| labels::window_input(&TABLE, 20, i + 1, pattern(&haplotypes[i], 20, 12)));
    customer.evaluate(&mut desk, unrelated.collect()).unwrap();
    assert_eq!(desk.tests_left(&customer.name), Some(6));
    assert!(matches!(customer.evaluate(&mut desk, inputs()), Err(Refusal::Budget { tests: 30 })));
    assert_eq!(desk.tests_left(&customer.name), Some(6));
    // labels may be asked for as often as the key may be used
    let layout = layout(&panel, shape, &starts, customer.secret.parameters().degree());
    let numbers: Vec<Key> = labels.iter().map(|label| label.key(&customer.t)).collect();
    let of = (&layout, Granularity::Count);
    let query = customer.query((shape, &starts), Mode::Labelled(revision), &numbers, of);
    assert_eq!(layout.blocks(), 1);
    for seed in 0..3 {
        assert!(desk.answer(&query, &mut rng(seed)).is_ok());
    }
    assert!(matches!(desk.answer(&query, &mut rng(9)), Err(Refusal::Uses { uses: 3 })));
    assert_eq!(desk.tests_left(&customer.name), Some(6));
}

#[test]
fn every_window_has_as_many_entries_as_the_fullest_and_the_same_ones_whether_they_were_kept_or_not() {
    let haplotypes = mosaic(200, 120, 24);
    let panel = panel(&haplotypes);
    let (kept, not) = (labeller(1), Labeller::new(&TABLE, Secret::random(&mut rng(1)), 0).unwrap());
    assert_eq!(kept.mode(), not.mode());
    let shape = Shape::Pattern { places: 1, length: 12 };
    let most = panel.most_patterns(12).unwrap() as usize;
    let of =
        |labeller: &Labeller, shape, starts: &[u32], least| labeller.of_panel(&panel, shape, starts, least).unwrap();
    let numbers = |entries: &[Entry]| entries.iter().map(|entry| (entry.key, entry.count)).collect::<BTreeSet<_>>();
    let mut sizes = BTreeSet::new();
    for start in (0..100).step_by(7) {
        let first = of(&kept, shape, &[start], 1).remove(0);
        assert_eq!(numbers(&first).len(), most, "all different");
        assert_eq!(of(&kept, shape, &[start], 1)[0], first);
        assert_eq!(of(&not, shape, &[start], 1)[0], first);
        sizes.insert(panel.patterns(start as usize, 12).unwrap().len());
        // the same entries in a longest match, and beside other places
        let longest = of(&kept, Shape::Longest { places: 1, length: 13 }, &[start], 1);
        assert_eq!(longest.len(), 13);
        assert_eq!(longest[11], first);
        let several = of(&kept, Shape::Pattern { places: 4, length: 12 }, &[2, start.max(2), 101, 101], 1).remove(0);
        assert!(numbers(&of(&kept, shape, &[start.max(2)], 1)[0]).is_subset(&numbers(&several)));
    }
    assert!(sizes.len() > 5, "windows differ, and it does not show: {sizes:?}");
    assert!(kept.kept_bytes() > 0 && not.kept_bytes() == 0);
    // rare patterns are left out, and do not show either
    let common = Labeller::new(&TABLE, Secret::random(&mut rng(1)), 0).unwrap();
    let (all, some) = (of(&kept, shape, &[3], 1).remove(0), of(&common, shape, &[3], 10).remove(0));
    let there = panel.patterns(3, 12).unwrap().iter().filter(|(_, count)| *count >= 10).count();
    assert_eq!(some.len(), most);
    assert!(numbers(&all).intersection(&numbers(&some)).count() >= there);
    assert!(matches!(kept.of_panel(&panel, shape, &[109], 1), Err(EntryError::Panel(_)),));
}

#[test]
fn words_of_a_table_are_found_under_their_labels() {
    let parameters = set().parameters().unwrap();
    let (matcher, labeller) = (Matcher::new(&parameters).unwrap(), labeller(1));
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(1)));
    let public = PublicKey::generate(&secret, &mut rng(2));
    let long = vec![b'a'; 100_000];
    let words: [(&[u8], u64); 4] = [(b"rs123", 7), (b"rs12", 1), (b"", 1_000_000_000), (&long, 3)];
    let entries = labeller.of_words(words.into_iter(), 1_000).unwrap();
    assert_eq!(entries.len(), 1_000);
    let most = matcher.modulus().value();
    let too_many = [(&b"x"[..], most)];
    let refused = labeller.of_words(too_many.into_iter(), 1);
    assert_eq!(refused, Err(EntryError::Count { most, found: most }));
    let layout = Layout::new(Shape::Word { bits: 1 }, matcher.slots(), |_| 1_000);
    let (asker, of) = (Asker::new(&secret).unwrap(), (&layout, LIMBS));
    // computed with the labeller's own key
    let key = Secret::random(&mut rng(1));
    let find = |word: &[u8]| {
        let blinding = Blinding::new(vec![labels::word_input(&TABLE, word)], &mut rng(3)).unwrap();
        let evaluated: Vec<_> = blinding.elements().iter().map(|element| key.evaluate(element)).collect();
        let label = [Label::new(blinding.finish(&evaluated).unwrap().remove(0))];
        let query = asker.query(&[label[0].key(matcher.modulus())], of, &mut rng(4)).unwrap();
        let entries = std::slice::from_ref(&entries);
        let blocks = matcher.answer(&public, &query, entries, of, Granularity::Count, &mut rng(5)).unwrap();
        labels::uncover(asker.read(&blocks, of).unwrap(), &label, matcher.modulus())
    };
    for (word, count) in words {
        assert_eq!(find(word), MatchResult::Present(Some(count)));
    }
    assert_eq!([find(b"rs1"), find(b"rs1234")], [MatchResult::Absent; 2]);
}

#[test]
fn messages_with_labels_are_refused_when_anything_is_missing_or_more_or_another() {
    let blinding = Blinding::new(vec![vec![1], vec![2], vec![3]], &mut rng(1)).unwrap();
    let elements = blinding.elements().to_vec();
    let request = Evaluation { table: TABLE, client: [2; 16], elements: elements.clone() };
    let request = oprf_messages::encode_evaluation(&request);
    let answer = oprf_messages::encode_evaluated(&Evaluated { revision: [9; 16], elements });
    assert_eq!((request.len(), answer.len()), (2 + 32 + 16 + 2 + 96, 2 + 16 + 2 + 96));
    let reads = |bytes: &[u8]| {
        [oprf_messages::decode_evaluation(bytes).is_ok(), oprf_messages::decode_evaluated(bytes).is_ok()]
    };
    for (i, bytes) in [&request, &answer].into_iter().enumerate() {
        assert_eq!(reads(bytes), [0, 1].map(|kind| kind == i));
        for length in 0..bytes.len() {
            assert_eq!(reads(&bytes[..length]), [false; 2], "{length} bytes");
        }
        assert_eq!(reads(&[&bytes[..], &[0]].concat()), [false; 2]);
        let mut others = 0;
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            messages::fuzz_messages(&changed);
            others += usize::from(reads(&changed) != [false; 2]);
        }
        // names may be any bytes, and about one string in sixteen is an element
        assert!(others < 8 * 48 + 8 * 96 / 4, "{others}");
    }
    let malformed = |what| Some(MessageError::Malformed(what));
    let with = |place: usize, bytes: &[u8]| {
        let mut changed = request.clone();
        changed[place..place + bytes.len()].copy_from_slice(bytes);
        oprf_messages::decode_evaluation(&changed).err()
    };
    assert_eq!(with(52, &[0; 32]), malformed("element"), "the identity");
    assert_eq!(with(84, &[255; 32]), malformed("element"), "not below the field's prime");
    assert_eq!(with(50, &[0, 0]), malformed("number of elements"));
    assert_eq!(with(50, &(MAX_ELEMENTS as u16 + 1).to_be_bytes()), malformed("number of elements"));
    assert_eq!(with(50, &[0, 2]), malformed("length"));

    // a query names the key of its labels, or that it has none
    let plaintext = Plaintext::Integers(Modulus::new(257).unwrap());
    let toy = LatticeParameters::insecure_of_sizes(8, &[33, 30, 31], &[], 3, plaintext).unwrap();
    let secret = SecretKey::from_seed(&toy, Seed::random(&mut rng(1)));
    let layout = Layout::new(Shape::Word { bits: 1 }, 8, |_| 8);
    let query = |mode| {
        let ciphertexts = Asker::new(&secret).unwrap().query(&[[3, 5]], (&layout, 2), &mut rng(3)).unwrap();
        let (shape, starts) = (Shape::Pattern { places: 2, length: 6 }, vec![1, 2]);
        let granularity = Granularity::Count;
        messages::encode_query(&Query { table: TABLE, client: [8; 16], granularity, shape, mode, starts, ciphertexts })
    };
    let (plain, labelled) = (query(Mode::Plain), query(Mode::Labelled([7; 16])));
    assert_eq!([plain[50], labelled[50]], [0, 4]);
    assert_eq!(labelled.len(), plain.len() + 16);
    assert_eq!(messages::query_mode(&plain), Ok(Mode::Plain));
    assert_eq!(messages::query_mode(&labelled), Ok(Mode::Labelled([7; 16])));
    assert_eq!(messages::query_head(&plain), messages::query_head(&labelled));
    assert_eq!(messages::decode_query(&labelled, &toy).unwrap().mode, Mode::Labelled([7; 16]));
    for kind in [3, 7, 8, 12, 255] {
        let changed = [&labelled[..50], &[kind], &labelled[51..]].concat();
        let refused = messages::decode_query(&changed, &toy).err();
        assert_eq!(refused, malformed("kind of question"), "{kind}");
    }
    for (bytes, kind) in [(&plain, 4), (&labelled, 0)] {
        let changed = [&bytes[..50], &[kind], &bytes[51..]].concat();
        assert!(messages::decode_query(&changed, &toy).is_err());
    }
    for length in 0..labelled.len() {
        assert!(messages::decode_query(&labelled[..length], &toy).is_err());
    }
}
