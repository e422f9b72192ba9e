//! Encrypted searches against the same searches on plaintext, and these against counts haplotype by
//! haplotype.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tobari_lattice::bgv::{Decryptor, Encoder, Evaluator, Plaintext, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::ring::{Modulus, Ntt, Seed};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::wire;
use tobari_search::client::{Asker, ClientError, MatchResult};
use tobari_search::desk::{Limits, Refusal, SearchService};
use tobari_search::messages::{self, MessageError, Query};
use tobari_search::oprf::Mode;
use tobari_search::panel::{MAX_LENGTH, Panel, PanelError, Pattern};
use tobari_search::program::{self, Entry, EntryError, Key, Keys, Layout, Shape};
use tobari_search::server::{AnswerError, Block, Granularity, Matcher};

fn rng(seed: u64) -> ChaCha20Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(bytes)
}

/// Haplotypes that are mosaics of a few founders, with rare mutations: common and unique patterns,
/// as in people (Li and Stephens's model).
fn mosaic(haplotypes: usize, sites: usize, seed: u64) -> Vec<Vec<bool>> {
    let mut rng = rng(seed);
    let founders: Vec<Vec<bool>> =
        (0..8).map(|_| (0..sites).map(|site| rng.next_u32() % 8 < 1 + site as u32 % 5).collect()).collect();
    let one = |_| {
        let mut from = rng.next_u32() as usize % founders.len();
        let site = |site: usize| {
            if rng.next_u32().is_multiple_of(20) {
                from = rng.next_u32() as usize % founders.len();
            }
            founders[from][site] ^ rng.next_u32().is_multiple_of(100)
        };
        (0..sites).map(site).collect()
    };
    (0..haplotypes).map(one).collect()
}

fn panel(haplotypes: &[Vec<bool>]) -> Panel {
    let mut panel = Panel::new(haplotypes.len()).unwrap();
    for site in 0..haplotypes[0].len() {
        panel.push(&haplotypes.iter().map(|haplotype| haplotype[site]).collect::<Vec<_>>()).unwrap();
    }
    panel
}

fn pattern(haplotype: &[bool], start: usize, length: usize) -> Pattern {
    (0..length).fold(0, |pattern, i| pattern | Pattern::from(haplotype[start + i]) << i)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn a_panel_counts_as_one_who_reads_every_haplotype(
        count in prop_oneof![Just(1usize), 60usize..70, 500usize..600], sites in 1usize..60, seed: u64,
        start in 0usize..60, length in 1usize..60, wanted: u128,
    ) {
        let (start, haplotypes) = (start % sites, mosaic(count, sites, seed));
        let (length, panel) = (1 + length % (sites - start), panel(&haplotypes));
        let mut expected = BTreeMap::new();
        haplotypes.iter().for_each(|haplotype| *expected.entry(pattern(haplotype, start, length)).or_default() += 1);
        let found: BTreeMap<Pattern, u32> = panel.patterns(start, length).unwrap().into_iter().collect();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(panel.patterns(start, length).unwrap().len(), expected.len());
        let windows = 0..=sites - length;
        let most = windows.map(|start| panel.patterns(start, length).unwrap().len() as u32).max();
        prop_assert_eq!(panel.most_patterns(length), most);
        let some = pattern(&haplotypes[seed as usize % count], start, length);
        for wanted in [wanted & ((1 << length) - 1), some, some ^ 1, some ^ 1 << (length - 1)] {
            let count = expected.get(&wanted).copied().unwrap_or(0);
            prop_assert_eq!(panel.count(start, length, wanted).unwrap(), count);
            let shared = |haplotype: &Vec<bool>| {
                let differ = pattern(haplotype, start, length) ^ wanted;
                (differ.trailing_zeros() as usize).min(length)
            };
            let longest = haplotypes.iter().map(shared).max().unwrap();
            prop_assert_eq!(panel.longest(start, length, wanted).unwrap(), longest);
        }
    }
}

struct Bench {
    parameters: LatticeParameters,
    secret: SecretKey,
    public: PublicKey,
    matcher: Matcher,
}

fn bench() -> Bench {
    bench_of("search")
}

fn bench_of(set: &str) -> Bench {
    let parameters = NamedSet::from_name(set).unwrap().parameters().unwrap();
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(1)));
    let public = PublicKey::generate(&secret, &mut rng(2));
    let matcher = Matcher::new(&parameters).unwrap();
    Bench { parameters, secret, public, matcher }
}

fn one_group(slots: usize, blocks: usize) -> Layout {
    Layout::new(Shape::Word { bits: 1 }, slots, |_| slots * blocks)
}

impl Bench {
    fn keys(&self, shape: Shape) -> Keys {
        Keys::new(self.matcher.modulus(), shape, &[1; 32])
    }

    /// A constant query for one limb.
    fn query(&self, number: u64, seed: u64) -> SeededCiphertext {
        let layout = one_group(self.matcher.slots(), 1);
        Asker::new(&self.secret).unwrap().query(&[[number, 0]], (&layout, 1), &mut rng(seed)).unwrap().remove(0)
    }

    /// The answer to a query of one limb over so many blocks.
    fn answer(
        &self,
        query: &SeededCiphertext,
        entries: &[Entry],
        blocks: usize,
        counts: bool,
        seed: u64,
    ) -> Vec<Block> {
        let layout = one_group(self.matcher.slots(), blocks);
        let granularity = if counts { Granularity::Count } else { Granularity::Boolean };
        let (query, entries, of) = (std::slice::from_ref(query), &[entries.to_vec()], (&layout, 1));
        self.matcher.answer(&self.public, query, entries, of, granularity, &mut rng(seed)).unwrap()
    }

    /// Asks, answers and reads, as bytes.
    fn ask(
        &self,
        entries: &[Vec<Entry>],
        numbers: &[Key],
        (layout, limbs): (&Layout, usize),
        counts: bool,
    ) -> MatchResult {
        let (asker, of) = (Asker::new(&self.secret).unwrap(), (layout, limbs));
        let ciphertexts = asker.query(numbers, of, &mut rng(numbers[0][0])).unwrap();
        let granularity = if counts { Granularity::Count } else { Granularity::Boolean };
        let (shape, starts) = (Shape::Pattern { places: 3, length: 10 }, vec![3, 3, 9]);
        let sent =
            Query { table: [1; 32], client: [2; 16], granularity, shape, mode: Mode::Plain, starts, ciphertexts };
        let bytes = messages::encode_query(&sent);
        let sent = messages::decode_query(&bytes, &self.parameters).unwrap();
        assert_eq!((sent.table, sent.client, sent.shape, &sent.starts[..]), ([1; 32], [2; 16], shape, &[3, 3, 9][..]));
        assert_eq!(messages::query_head(&bytes), Ok(([1; 32], shape)));
        let registration = messages::encode_registration(&self.public);
        let public = messages::decode_registration(&registration, &self.parameters).unwrap();
        let rng = &mut rng(numbers[0][0] ^ 1 << 40);
        let answer = self.matcher.answer(&public, &sent.ciphertexts, entries, of, sent.granularity, rng).unwrap();
        let answer = messages::decode_answer(&messages::encode_answer(&answer).unwrap(), &self.parameters).unwrap();
        asker.read(&answer, of).unwrap()
    }

    /// Asks, answers and reads, for one limb and one group.
    fn ask_one(&self, entries: &[Entry], number: u64, blocks: usize, counts: bool) -> MatchResult {
        let layout = one_group(self.matcher.slots(), blocks);
        self.ask(&[entries.to_vec()], &[[number, 0]], (&layout, 1), counts)
    }
}

#[test]
fn answers_are_those_of_the_clear_for_patterns_that_occur_once_often_and_never() {
    let (bench, length, starts) = (bench(), 10, [3u32, 40, 40, 90]);
    let mut haplotypes = mosaic(200, 100, 7);
    // one pattern that all haplotypes have, at the end
    haplotypes.iter_mut().for_each(|haplotype| haplotype[90..].fill(true));
    let panel = panel(&haplotypes);
    let keys = bench.keys(Shape::Pattern { places: starts.len(), length });
    let entries = keys.of_panel(&panel, &starts, 1).unwrap().remove(0);
    let of = |place, pattern| keys.of_pattern(place, pattern, length)[0];
    let rare = entries.iter().find(|entry| entry.count == 1).unwrap().key[0];
    let mut queries = vec![rare, rare ^ 1, of(3, (1 << 10) - 1), of(3, (1 << 10) - 2), of(0, 0)];
    for (i, haplotype) in haplotypes.iter().enumerate().step_by(29) {
        let place = [0, 1, 3][i % 3];
        let pattern = pattern(haplotype, starts[place] as usize, length);
        queries.extend([of(place, pattern), of(place, pattern ^ 1 << (i % length))]);
    }
    let mut present = 0;
    for query in queries {
        let expected = program::answer(&entries, [query, 0]);
        let place = (query >> length) as usize;
        let counted = panel.count(starts[place] as usize, length, Pattern::from(query) & ((1 << length) - 1)).unwrap();
        assert_eq!(u64::from(counted), expected);
        present += usize::from(expected > 0);
        let [boolean, count] = match expected {
            0 => [MatchResult::Absent; 2],
            expected => [MatchResult::Present(None), MatchResult::Present(Some(expected))],
        };
        assert_eq!(bench.ask_one(&entries, query, 1, false), boolean);
        assert_eq!(bench.ask_one(&entries, query, 1, true), count);
    }
    assert!(present > 8, "{present}");
    // a repeated place is found under the first of its numbers, the one that clients use
    let twice = pattern(&haplotypes[0], 40, length);
    assert_ne!(program::answer(&entries, [of(1, twice), 0]), 0);
    assert_eq!(program::answer(&entries, [of(2, twice), 0]), 0);
}

#[test]
fn the_flood_is_as_wide_as_there_is_room_and_hides_what_it_says() {
    for (set, bits, limbs) in [("search", 81, 1), ("search-17", 80, 1), ("search-23", 99, 1), ("search-40", 119, 2)] {
        let bench = bench_of(set);
        let query = bench.query(5, 30);
        assert_eq!(bench.matcher.flood_bits(), bits, "{set}");
        let distance = bench.matcher.distance(&query, limbs);
        assert!(distance < -46.0, "{set}: 2^{distance}");
    }
}

/// The distances of the blocks of an answer add up: below 2^-40 for every question that is asked.
#[test]
fn the_floods_of_the_longest_answers_stay_below_two_to_the_minus_40_a_question() {
    let benches: BTreeMap<&str, (usize, [f64; 2])> = ["search", "search-17", "search-23", "search-40"]
        .into_iter()
        .map(|set| {
            let bench = bench_of(set);
            let query = bench.query(5, 30);
            (set, (bench.matcher.slots(), [1, 2].map(|limbs| bench.matcher.distance(&query, limbs))))
        })
        .collect();
    let mut worst = BTreeMap::<&str, (f64, usize)>::new();
    let shapes = [1, 2, 10, 100, 1_000, 60_000].into_iter().flat_map(|places| {
        let of = move |length| [Shape::Pattern { places, length }, Shape::Longest { places, length }];
        (1..=24).flat_map(of)
    });
    // a full table, in which every pattern occurs at every place, and one of 5,008 haplotypes
    for (shape, haplotypes) in shapes.flat_map(|shape| [(shape, usize::MAX), (shape, 5_008)]) {
        for counted in [5_008, 1_000_000] {
            let set = shape.set(counted).unwrap();
            let (slots, distances) = benches[set.name];
            let room = |sites: usize| shape.places() * haplotypes.min(1 << sites);
            let blocks = Layout::new(shape, slots, room).blocks();
            let t = Modulus::new(set.plaintext_modulus.unwrap()).unwrap();
            let limbs = Keys::new(&t, shape, &[1; 32]).limbs();
            if blocks > messages::MAX_BLOCKS {
                continue;
            }
            let distance = distances[limbs - 1] + (blocks as f64).log2();
            assert!(distance < -40.0, "{shape:?} with {}: {blocks} blocks, 2^{distance}", set.name);
            let before = worst.entry(set.name).or_insert((distance, blocks));
            *before = if distance > before.0 { (distance, blocks) } else { *before };
        }
    }
    assert_eq!(worst.len(), 4, "each set is asked with: {worst:?}");
    assert!(worst["search"].1 > 8 && worst["search-40"].1 > 50, "long answers are among them: {worst:?}");
}

/// A question over a panel, through the bytes, with its answer computed on plaintext.
fn answered(panel: &Panel, shape: Shape, starts: &[u32], (index, pattern): (usize, Pattern)) -> MatchResult {
    let bench = bench_of(shape.set(panel.haplotypes() as u64).unwrap().name);
    let keys = bench.keys(shape);
    let entries = keys.of_panel(panel, starts, 1).unwrap();
    let room = |sites| starts.len() * panel.most_patterns(sites).unwrap() as usize;
    let layout = Layout::new(shape, bench.matcher.slots(), room);
    let groups = if let Shape::Longest { length, .. } = shape { 1..=length } else { shape.length()..=shape.length() };
    let numbers: Vec<Key> = groups.map(|sites| keys.of_pattern(index, pattern, sites)).collect();
    bench.ask(&entries, &numbers, (&layout, keys.limbs()), true)
}

#[test]
fn every_size_of_question_has_a_set_and_is_answered_as_in_the_clear() {
    let haplotypes = mosaic(300, 400, 9);
    let panel = panel(&haplotypes);
    for (length, count, name, limbs, hashed) in [
        (16, 1, "search", 1, false),
        (10, 64, "search", 1, false),
        (10, 100, "search-17", 1, false),
        (16, 100, "search-23", 1, false),
        (17, 1, "search-23", 1, false),
        (40, 1, "search-40", 1, false),
        (33, 100, "search-40", 1, false),
        (34, 100, "search-40", 2, false),
        (80, 1, "search-40", 2, false),
        (81, 1, "search-40", 2, true),
        (128, 100, "search-40", 2, true),
    ] {
        let shape = Shape::Pattern { places: count, length };
        assert_eq!(shape.set(300).unwrap().name, name, "{count} places, {length} sites");
        let keys = bench_of(name).keys(shape);
        assert_eq!((keys.limbs(), keys.false_matches(1 << 14).is_some()), (limbs, hashed), "{count}, {length}");
        assert!(keys.false_matches(1 << 14).is_none_or(|rate| rate < -64.0));
        let windows = (panel.sites() - length + 1) as u32;
        let mut starts: Vec<u32> = (0..count as u32).map(|place| (77 + 3 * place) % windows).collect();
        starts.sort_unstable();
        let index = starts.partition_point(|place| *place < 77);
        let there = pattern(&haplotypes[100], 77, length);
        for pattern in [there, there ^ 1 << (length - 1), there ^ 1] {
            let counted = panel.count(77, length, pattern).unwrap();
            let expected = if counted == 0 { MatchResult::Absent } else { MatchResult::Present(Some(counted.into())) };
            assert_eq!(answered(&panel, shape, &starts, (index, pattern)), expected, "{count} places, {length} sites");
        }
    }
    // large counts take a larger set of parameters; counts beyond the largest set have none
    let shape = Shape::Pattern { places: 1, length: 4 };
    let named = |most| shape.set(most).map(|set| set.name);
    assert_eq!([named(65_536), named(65_537), named(1 << 22)], ["search", "search-17", "search-23"].map(Some));
    assert_eq!([named(1 << 40), named(1 << 41)], [Some("search-40"), None]);
    for shape in [Shape::Pattern { places: 0, length: 4 }, Shape::Longest { places: 1, length: 129 }] {
        assert_eq!(shape.set(1).map(|set| set.name), None);
    }
    assert_eq!(Shape::Word { bits: 79 }.set(1).map(|set| set.name), None);
}

#[test]
fn the_longest_match_is_that_of_the_clear_at_one_place_and_among_several() {
    let haplotypes = mosaic(60, 200, 13);
    let panel = panel(&haplotypes);
    for (length, starts, index) in [(12, &[50u32][..], 0), (9, &[10, 50, 50, 80], 1), (100, &[50], 0)] {
        let there = pattern(&haplotypes[17], 50, length);
        let mut tried = 0;
        for flipped in [None, Some(0), Some(1), Some(5), Some(length - 1)] {
            let wanted = flipped.map_or(there, |site| there ^ 1 << site);
            let sites = panel.longest(50, length, wanted).unwrap();
            let expected = match sites {
                0 => MatchResult::Absent,
                sites => MatchResult::Longest(
                    sites,
                    Some(panel.count(50, sites, wanted & ((1 << sites) - 1)).unwrap().into()),
                ),
            };
            tried += usize::from(sites < length);
            let shape = Shape::Longest { places: starts.len(), length };
            assert_eq!(answered(&panel, shape, starts, (index, wanted)), expected, "{length} sites, {flipped:?}");
        }
        assert!(tried > 0 || length < 20);
    }
}

#[test]
fn keys_of_a_table_are_found_by_both_of_their_limbs_and_nothing_shows_of_one() {
    let (bench, shape) = (bench_of("search-40"), Shape::Word { bits: 78 });
    assert_eq!(shape.set(5).unwrap().name, "search-40");
    let keys = bench.keys(shape);
    let t = bench.matcher.modulus();
    let number = |low: u64, high: u64| u128::from(high) * u128::from(t.value()) + u128::from(low);
    let numbers = [number(5, 7), number(5, 8), number(6, 7), number(0, 0)];
    let entries = numbers.iter().zip(1..).map(|(number, count)| Entry { key: keys.of_number(*number), count });
    let entries = [entries.collect::<Vec<_>>()];
    let layout = one_group(bench.matcher.slots(), 1);
    let ask = |number| bench.ask(&entries, &[keys.of_number(number)], (&layout, 2), true);
    for (number, count) in numbers.into_iter().zip(1..) {
        assert_eq!(ask(number), MatchResult::Present(Some(count)));
    }
    assert_eq!([ask(number(6, 8)), ask(number(5, 9))], [MatchResult::Absent; 2]);
    // three entries share a limb with the query, but no output has a zero for them
    let asker = Asker::new(&bench.secret).unwrap();
    let query = asker.query(&[[5, 9]], (&layout, 2), &mut rng(1)).unwrap();
    let of = (&layout, 2);
    let answer = bench.matcher.answer(&bench.public, &query, &entries, of, Granularity::Boolean, &mut rng(2)).unwrap();
    let (encoder, holder) = (Encoder::new(&bench.parameters).unwrap(), Decryptor::new(&bench.secret).unwrap());
    let zeros = |part| {
        encoder.decode(&holder.decrypt_measured(part).unwrap()).unwrap().iter().filter(|value| **value == 0).count()
    };
    assert_eq!(answer[0].equal.iter().map(zeros).collect::<Vec<_>>(), [0, 0]);
}

/// The bytes of a query with its answer, and of a registration.
#[test]
fn questions_and_answers_of_one_block_have_the_bytes_that_they_are_to_have() {
    for (set, most, registration) in
        [("search", 100_000, 54_500), ("search-17", 130_000, 54_500), ("search-23", 302_000, 128_500)]
    {
        let bench = bench_of(set);
        let ciphertext = bench.query(5, 30);
        let answer = bench.answer(&ciphertext, &[], 1, true, 31);
        let (starts, granularity) = (vec![0; 100], Granularity::Count);
        let (shape, ciphertexts) = (Shape::Pattern { places: 100, length: 10 }, vec![ciphertext]);
        let query =
            Query { table: [1; 32], client: [2; 16], granularity, shape, mode: Mode::Plain, starts, ciphertexts };
        let bytes = messages::encode_query(&query).len() + messages::encode_answer(&answer).unwrap().len();
        assert!(bytes < most, "{set}: {bytes}");
        assert!(messages::encode_registration(&bench.public).len() < registration, "{set}");
    }
}

/// The attack works as `book/src/explanation/threats/search.md` says: a scan finds only entries
/// that chance puts into the slot of their own number.
#[test]
fn a_query_with_another_number_in_every_slot_meets_one_entry_on_average() {
    let bench = bench();
    let (encoder, holder) = (Encoder::new(&bench.parameters).unwrap(), Decryptor::new(&bench.secret).unwrap());
    let entries: Vec<Entry> = (0..4_096).map(|key| Entry { key: [key, 0], count: 1 }).collect();
    let scan = encoder.encode(&(0..4_096).collect::<Vec<i64>>()).unwrap();
    let rounds = 30;
    let hits: usize = (0..rounds)
        .map(|round| {
            let query = scan.encrypt_seeded(holder.key(), 2, &mut rng(round)).unwrap();
            let answer = bench.answer(&query, &entries, 1, false, round + 100);
            encoder
                .decode(&holder.decrypt_measured(&answer[0].equal[0]).unwrap())
                .unwrap()
                .iter()
                .filter(|value| **value == 0)
                .count()
        })
        .sum();
    // a Poisson variable of mean 30 is outside once in 100,000 draws; this is one draw
    assert!((10..=56).contains(&hits), "{hits} in {rounds}");
}

#[test]
fn entries_of_several_blocks_are_found_in_any_of_them_and_too_many_are_refused() {
    let bench = bench();
    let slots = bench.matcher.slots();
    let entry = |i| Entry { key: [3 * i, 0], count: i + 1 };
    let entries: Vec<Entry> = (0..slots as u64 + 100).map(entry).collect();
    for i in [0u64, 1, 4_095, 4_096, 4_195] {
        assert_eq!(bench.ask_one(&entries, 3 * i, 2, true), MatchResult::Present(Some(i + 1)));
        assert_eq!(bench.ask_one(&entries, 3 * i + 1, 2, true), MatchResult::Absent);
    }
    let (query, layout) = ([bench.query(1, 3)], one_group(slots, 1));
    let answer = |query: &[_], entries: &[Vec<Entry>], limbs| {
        bench.matcher.answer(&bench.public, query, entries, (&layout, limbs), Granularity::Count, &mut rng(4)).err()
    };
    let refused = answer(&query, &[entries], 1);
    assert!(matches!(refused, Some(AnswerError::Entries { most: 4_096, found: 4_196 })));
    assert!(matches!(answer(&query, &[vec![]], 2), Some(AnswerError::Query { expected: 2, found: 1 })));
    assert!(matches!(answer(&query, &[], 1), Some(AnswerError::Query { expected: 1, found: 0 })));
}

/// Pearson's statistic of numbers below `t` in 16 classes; its 99.99th percentile with 15 degrees
/// of freedom is 44.3.
fn spread(values: impl Iterator<Item = u64>, t: u64) -> f64 {
    let mut classes = [0f64; 16];
    values.for_each(|value| classes[(value * 16 / t) as usize] += 1.0);
    let expected = classes.iter().sum::<f64>() / 16.0;
    classes.iter().map(|found| (found - expected).powi(2) / expected).sum()
}

#[test]
fn slots_without_a_match_are_uniform_whether_they_have_an_entry_or_not() {
    let bench = bench();
    let (encoder, holder) = (Encoder::new(&bench.parameters).unwrap(), Decryptor::new(&bench.secret).unwrap());
    let t = bench.matcher.modulus();
    for (many, seed) in [(0u64, 10), (1, 11), (4_000, 12)] {
        // neighbours of the query, with small counts: anything that is not hidden would show
        let entries: Vec<Entry> = (0..many).map(|i| Entry { key: [30_001 + i, 0], count: 1 }).collect();
        let answer = bench.answer(&bench.query(30_000, seed), &entries, 1, true, seed);
        let decoded = |part| {
            encoder
                .decode(&holder.decrypt_measured(part).unwrap())
                .unwrap()
                .into_iter()
                .map(|value| t.reduce_signed(value))
        };
        let equal: Vec<u64> = decoded(&answer[0].equal[0]).collect();
        assert!(equal.iter().all(|value| *value != 0));
        assert!(spread(equal.into_iter(), t.value()) < 44.3, "{many} entries");
        assert!(spread(decoded(answer[0].count.as_ref().unwrap()), t.value()) < 44.3, "{many} entries");
    }
}

/// The values of a ciphertext's second part modulo the first prime, from its bytes: the client sees
/// them.
fn second_part(bytes: &[u8], parameters: &LatticeParameters, level: usize, seeded: bool) -> Vec<u64> {
    assert!(!seeded);
    let ring = parameters.ring();
    let row = |prime: usize| parameters.degree() * ring.data_primes()[prime].modulus().bits() as usize / 8;
    let part: usize = (0..level).map(row).sum();
    let (start, bits) = (bytes.len() - part, ring.data_primes()[0].modulus().bits() as usize);
    let bit = |at: usize| u64::from(bytes[start + at / 8] >> (at % 8) & 1);
    (0..parameters.degree()).map(|i| (0..bits).fold(0, |value, b| value | bit(i * bits + b) << b)).collect()
}

/// Coefficients, centred, of the quotient of two elements modulo the first prime.
fn quotient(a: &[u64], b: &[u64], parameters: &LatticeParameters) -> Vec<i64> {
    let q = parameters.ring().data_primes()[0].modulus();
    let ntt = Ntt::new(*q, parameters.degree()).unwrap();
    let mut values: Vec<u64> = a.iter().zip(b).map(|(a, b)| q.mul(*a, q.inverse(*b).unwrap())).collect();
    ntt.inverse(&mut values);
    values.into_iter().map(|value| q.centred(value)).collect()
}

#[test]
fn dividing_by_the_querys_second_part_gives_the_masks_without_fresh_randomness_and_nothing_with_it() {
    let bench = bench();
    let parameters = &bench.parameters;
    let query: SeededCiphertext = bench.query(5, 20);
    let sent = query.expand();
    let c1 = second_part(&wire::encode_ciphertext(&sent).unwrap(), parameters, 2, false);
    // a server that omits the encryption of zero
    let (encoder, evaluator) = (Encoder::new(parameters).unwrap(), Evaluator::new(parameters).unwrap());
    let masks: Vec<i64> = (0..4_096).map(|i| i * 7 % 65_536 + 1).collect();
    let masks: Plaintext = encoder.encode(&masks).unwrap();
    let weak = evaluator.mul_plain(&sent, &masks).unwrap();
    let weak = second_part(&wire::encode_ciphertext(&weak).unwrap(), parameters, 2, false);
    assert_eq!(quotient(&weak, &c1, parameters), masks.coefficients());
    // the real protocol, over one prime: the quotient by the query's second part there has no small
    // coefficients
    let answer = bench.answer(&query, &[Entry { key: [9, 0], count: 1 }], 1, false, 21);
    let low = evaluator.to_level(&sent, 1).unwrap();
    let low = second_part(&wire::encode_ciphertext(&low).unwrap(), parameters, 1, false);
    let found = second_part(&wire::encode_ciphertext(&answer[0].equal[0]).unwrap(), parameters, 1, false);
    let small = quotient(&found, &low, parameters).iter().filter(|value| value.abs() <= 1 << 17).count();
    assert!(small < 20, "{small} of 4096 are as small as masks");
}

fn toy() -> LatticeParameters {
    let plaintext = tobari_lattice::params::Plaintext::Integers(Modulus::new(257).unwrap());
    LatticeParameters::insecure_of_sizes(8, &[33, 30, 31], &[], 3, plaintext).unwrap()
}

#[test]
fn messages_are_refused_when_anything_is_missing_or_more_or_another() {
    let parameters = toy();
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(1)));
    let public = PublicKey::generate(&secret, &mut rng(2));
    let (asker, matcher) = (Asker::new(&secret).unwrap(), Matcher::new(&parameters).unwrap());
    let layout = one_group(8, 2);
    let (of, granularity) = ((&layout, 1), Granularity::Count);
    let ciphertexts = asker.query(&[[3, 0]], of, &mut rng(3)).unwrap();
    let entries = [vec![Entry { key: [3, 0], count: 2 }]];
    let answer = matcher.answer(&public, &ciphertexts, &entries, of, granularity, &mut rng(4)).unwrap();
    let (shape, starts) = (Shape::Pattern { places: 3, length: 6 }, vec![1, 2, 2]);
    let query = Query { table: [7; 32], client: [8; 16], granularity, shape, mode: Mode::Plain, starts, ciphertexts };
    let [registration, query, answer] = [
        messages::encode_registration(&public),
        messages::encode_query(&query),
        messages::encode_answer(&answer).unwrap(),
    ];
    let reads = |bytes: &[u8]| {
        [
            messages::decode_registration(bytes, &parameters).is_ok(),
            messages::decode_query(bytes, &parameters).is_ok(),
            messages::decode_answer(bytes, &parameters).is_ok(),
        ]
    };
    for (i, bytes) in [&registration, &query, &answer].into_iter().enumerate() {
        assert_eq!(reads(bytes), [0, 1, 2].map(|kind| kind == i));
        for length in 0..bytes.len() {
            assert_eq!(reads(&bytes[..length]), [false; 3], "message {i}, {length} bytes");
        }
        assert_eq!(reads(&[&bytes[..], &[0]].concat()), [false; 3]);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            messages::fuzz_messages(&changed);
        }
    }
    let with = |place: usize, byte: u8| {
        let mut changed = query.clone();
        changed[place] = byte;
        messages::decode_query(&changed, &parameters).err()
    };
    let malformed = |what| Some(MessageError::Malformed(what));
    assert_eq!([with(50, 3), with(51, 2)], [malformed("kind of question"), malformed("granularity")]);
    for (place, byte, what) in [
        (52, 0, "number of sites or bits"),
        (52, 129, "number of sites or bits"),
        (53, 0, "number of places"),
        (53, 101, "number of places"),
        (50, 2, "number of places"),
    ] {
        assert_eq!(with(place, byte), malformed(what));
    }
    assert_eq!(with(57, 9), malformed("order of places"));
    assert_eq!([with(67, 0), with(66, 9)], [(); 2].map(|()| malformed("number of ciphertexts")));
    // a ciphertext with both parts, as a client would send to choose them
    let whole = wire::encode_ciphertext(&asker.query(&[[3, 0]], of, &mut rng(3)).unwrap()[0].expand()).unwrap();
    assert!(messages::decode_query(&[&query[..68], &whole].concat(), &parameters).is_err());
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let mut panel = panel(&mosaic(3, 5, 1));
    assert_eq!([0, 6, MAX_LENGTH, MAX_LENGTH + 1].map(|length| panel.most_patterns(length)), [None; 4]);
    assert_eq!(
        panel.push(&[true; 4]),
        Err(PanelError::Alleles { site: 5, expected: 3, found: 4 }),
        "and it stays as it was"
    );
    assert_eq!(panel.sites(), 5);
    for (start, length) in [(0, 0), (5, 1), (0, 6), (usize::MAX, 2), (0, MAX_LENGTH + 1)] {
        assert_eq!(panel.count(start, length, 0), Err(PanelError::Window { sites: 5, start, length }));
    }
    let bench = bench();
    let (asker, layout) = (Asker::new(&bench.secret).unwrap(), one_group(bench.matcher.slots(), 1));
    for key in [65_537, u64::MAX] {
        let refused = asker.query(&[[key, 0]], (&layout, 1), &mut rng(1)).err();
        assert!(matches!(refused, Some(ClientError::Key { most: 65_537, found }) if found == key));
    }
    let refused = asker.query(&[], (&layout, 1), &mut rng(1)).err();
    assert!(matches!(refused, Some(ClientError::Groups { expected: 1, found: 0 })));
    assert_eq!(Panel::new(0).unwrap_err(), PanelError::Haplotypes { found: 0 });
    let keys = Keys::new(&Modulus::new(257).unwrap(), Shape::Pattern { places: 1, length: 1 }, &[0; 32]);
    let mut large = Panel::new(300).unwrap();
    large.push(&[true; 300]).unwrap();
    assert_eq!(keys.of_panel(&large, &[0], 1), Err(EntryError::Count { most: 257, found: 300 }));
}

#[test]
fn what_few_have_is_left_out_when_the_owner_says_so() {
    let (t, panel) = (Modulus::new(65_537).unwrap(), panel(&mosaic(100, 30, 5)));
    let keys = Keys::new(&t, Shape::Pattern { places: 1, length: 10 }, &[1; 32]);
    let all = keys.of_panel(&panel, &[4], 1).unwrap().remove(0);
    let some = keys.of_panel(&panel, &[4], 5).unwrap().remove(0);
    assert!(all.len() > some.len() && !some.is_empty());
    assert_eq!(some, all.into_iter().filter(|entry| entry.count >= 5).collect::<Vec<_>>());
}

/// A client that asks a desk, as bytes.
struct Customer {
    name: [u8; 16],
    secret: SecretKey,
    set: NamedSet,
    layout: Layout,
}

impl Customer {
    fn new(name: u8, places: usize, length: usize) -> Self {
        let set = Shape::Pattern { places, length }.set(200).unwrap();
        let secret = SecretKey::from_seed(&set.parameters().unwrap(), Seed::random(&mut rng(name.into())));
        let layout = one_group(secret.parameters().degree(), 1);
        Self { name: [name; 16], secret, set, layout }
    }

    fn registration(&self) -> Vec<u8> {
        messages::encode_registration(&PublicKey::generate(&self.secret, &mut rng(50)))
    }

    fn query(&self, table: u8, starts: &[u32], index: usize, length: usize, pattern: Pattern) -> Vec<u8> {
        let (table, granularity, starts) = ([table; 32], Granularity::Count, starts.to_vec());
        let shape = Shape::Pattern { places: starts.len(), length };
        let t = Modulus::new(self.set.plaintext_modulus.unwrap()).unwrap();
        let key = Keys::new(&t, shape, &table).of_pattern(index, pattern, length);
        let ciphertexts = Asker::new(&self.secret).unwrap().query(&[key], self.of(), &mut rng(key[0])).unwrap();
        messages::encode_query(&Query {
            table,
            client: self.name,
            granularity,
            shape,
            mode: Mode::Plain,
            starts,
            ciphertexts,
        })
    }

    fn of(&self) -> (&Layout, usize) {
        (&self.layout, 1)
    }

    fn read(&self, answer: &[u8]) -> MatchResult {
        let blocks = messages::decode_answer(answer, self.secret.parameters()).unwrap();
        Asker::new(&self.secret).unwrap().read(&blocks, self.of()).unwrap()
    }
}

#[test]
fn a_desk_answers_whoever_is_registered_until_the_budget_is_used_up() {
    let haplotypes = mosaic(200, 60, 11);
    let mut desk = SearchService::new(Limits { clients: 1, tests: 3, uses: 2, ..Limits::default() });
    desk.serve([1; 32], panel(&haplotypes), 1);
    let (customer, other) = (Customer::new(3, 2, 8), Customer::new(4, 2, 8));
    let there = pattern(&haplotypes[7], 20, 8);
    let query = customer.query(1, &[5, 20], 1, 8, there);
    assert!(matches!(desk.answer(&query, &mut rng(1)), Err(Refusal::Key { set: "search" })));
    assert!(matches!(desk.register(customer.name, "bgv-c", &customer.registration()), Err(Refusal::Set)));
    desk.register(customer.name, "search", &customer.registration()).unwrap();
    let full = desk.register(other.name, "search", &other.registration());
    assert!(matches!(full, Err(Refusal::Clients { most: 1 })));
    let (answer, asked) = desk.answer(&query, &mut rng(1)).unwrap();
    let count = haplotypes.iter().filter(|haplotype| pattern(haplotype, 20, 8) == there).count() as u64;
    assert_eq!(customer.read(&answer), MatchResult::Present(Some(count)));
    assert_eq!((asked.client, asked.table, asked.shape), ([3; 16], [1; 32], Shape::Pattern { places: 2, length: 8 }));
    // rejected questions cost nothing
    let elsewhere = customer.query(2, &[5, 20], 1, 8, there);
    assert!(matches!(desk.answer(&elsewhere, &mut rng(1)), Err(Refusal::Table)));
    let outside = customer.query(1, &[5, 53], 1, 8, there);
    assert!(matches!(desk.answer(&outside, &mut rng(1)), Err(Refusal::Entries(EntryError::Panel(_)))));
    assert!(matches!(desk.answer(&query[..query.len() - 1], &mut rng(1)), Err(Refusal::Message(_))));
    assert_eq!(desk.tests_left(&customer.name), Some(2));
    desk.answer(&query, &mut rng(2)).unwrap();
    assert!(matches!(desk.answer(&query, &mut rng(3)), Err(Refusal::Uses { uses: 2 })));
    // a new key is not a new budget; and a new table does not make clients start over
    desk.register(customer.name, "search", &customer.registration()).unwrap();
    desk.serve([1; 32], panel(&mosaic(5, 60, 12)), 6);
    let (answer, _) = desk.answer(&query, &mut rng(4)).unwrap();
    assert_eq!(customer.read(&answer), MatchResult::Absent, "fewer than six have it");
    assert!(matches!(desk.answer(&query, &mut rng(5)), Err(Refusal::Budget { tests: 3 })));
}

#[test]
fn a_longest_match_costs_its_sites_and_every_region_that_it_may_be_about() {
    let haplotypes = mosaic(50, 300, 14);
    let limits = Limits { tests: 100, region: 100, region_tests: 20, ..Limits::default() };
    let mut desk = SearchService::new(limits);
    desk.serve([1; 32], panel(&haplotypes), 1);
    let customer = Customer::new(3, 2, 8);
    desk.register(customer.name, "search", &customer.registration()).unwrap();
    let shape = Shape::Longest { places: 2, length: 8 };
    let panel = panel(&haplotypes);
    let layout = Layout::new(shape, 4_096, |sites| 2 * panel.most_patterns(sites).unwrap() as usize);
    assert_eq!(layout.blocks(), 1);
    let keys = Keys::new(&Modulus::new(65_537).unwrap(), shape, &[1; 32]);
    let wanted = pattern(&haplotypes[7], 150, 8);
    let numbers: Vec<Key> = (1..=8).map(|sites| keys.of_pattern(1, wanted, sites)).collect();
    let asker = Asker::new(&customer.secret).unwrap();
    let ask = |starts: Vec<u32>| {
        let (client, granularity) = (customer.name, Granularity::Boolean);
        let ciphertexts = asker.query(&numbers, (&layout, 1), &mut rng(9)).unwrap();
        messages::encode_query(&Query {
            table: [1; 32],
            client,
            granularity,
            shape,
            mode: Mode::Plain,
            starts,
            ciphertexts,
        })
    };
    let (answer, _) = desk.answer(&ask(vec![20, 150]), &mut rng(1)).unwrap();
    let blocks = messages::decode_answer(&answer, customer.secret.parameters()).unwrap();
    assert_eq!(asker.read(&blocks, (&layout, 1)).unwrap(), MatchResult::Longest(8, None));
    assert_eq!(desk.tests_left(&customer.name), Some(92));
    // the second window ends in the next region
    desk.answer(&ask(vec![20, 193]), &mut rng(2)).unwrap();
    let refused = desk.answer(&ask(vec![250, 199]), &mut rng(3));
    assert!(matches!(refused, Err(Refusal::Message(_))), "not ascending");
    let refused = desk.answer(&ask(vec![90, 250]), &mut rng(3));
    // the region of a panel without positions has its name and its sites' numbers
    let in_region = |refused, sites: &str| match refused {
        Err(Refusal::Region { tests: 20, region }) => assert_eq!(region, format!("{}:{sites}", "01".repeat(32))),
        _ => panic!("not refused by region"),
    };
    in_region(refused, "1-100");
    let refused = desk.answer(&ask(vec![195, 200]), &mut rng(3));
    in_region(refused, "101-200");
    assert_eq!(desk.tests_left(&customer.name), Some(84), "what is refused costs nothing");
    desk.answer(&ask(vec![210, 250]), &mut rng(3)).unwrap();
    assert_eq!(desk.tests_left(&customer.name), Some(76));
}
