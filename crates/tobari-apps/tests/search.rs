//! Searches under encryption against the same searches in the clear, and those against counting haplotype by haplotype.

#![allow(clippy::unwrap_used, reason = "a test")]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tobari_apps::search::client::{Asker, ClientError, Found, places};
use tobari_apps::search::desk::{Desk, Limits, Refusal};
use tobari_apps::search::messages::{self, MessageError, Query};
use tobari_apps::search::panel::{MAX_LENGTH, Panel, PanelError, Pattern};
use tobari_apps::search::program::{self, Entry, KeyError, Keys};
use tobari_apps::search::server::{AnswerError, Granularity, Matcher};
use tobari_core::bgv::{Decryptor, Encoder, Evaluator, Plaintext, SeededCiphertext};
use tobari_core::params::{LatticeParameters, NamedSet};
use tobari_core::ring::{Modulus, Ntt, Seed};
use tobari_core::rlwe::{PublicKey, SecretKey};
use tobari_core::wire;

fn rng(seed: u64) -> ChaCha20Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(bytes)
}

/// Haplotypes that are mosaics of a few founders, with rare mutations: common and unique patterns, as in people (Li and Stephens's model).
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

    #[test]
    fn places_are_a_function_of_the_true_one_and_contain_it(
        secret: [u8; 32], name: [u8; 32], all in 1u32..2_000, at: u32, count in 1u32..100,
    ) {
        let (secret, at, count) = (Seed::from_bytes(secret), at % all, count.min(all));
        let (list, index) = places(&secret, &name, (at, all), count).unwrap();
        prop_assert_eq!((list.len(), list[index]), (count as usize, at));
        prop_assert!(list.is_sorted() && list.iter().all(|place| *place < all));
        // a server that sees a hundred repetitions has still all of them to choose from
        for _ in 0..100 {
            prop_assert_eq!(&places(&secret, &name, (at, all), count).unwrap().0, &list);
        }
        if count > 20 && all > 1_000 {
            let (others, _) = places(&secret, &name, ((at + 1) % all, all), count).unwrap();
            let common = others.iter().filter(|place| list.contains(place)).count();
            prop_assert!(common < count as usize / 2, "{} of {}", common, count);
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
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    let public = PublicKey::generate(&secret, &mut rng(2));
    let matcher = Matcher::new(&parameters).unwrap();
    Bench { parameters, secret, public, matcher }
}

impl Bench {
    /// Asks, answers and reads.
    fn ask(&self, entries: &[Entry], query: u64, granularity: Granularity, blocks: usize) -> Found {
        let asker = Asker::new(&self.secret).unwrap();
        let sent = asker.query(query, &mut rng(query)).unwrap();
        let sent =
            Query { table: [1; 32], client: [2; 16], granularity, length: 10, starts: vec![3, 3, 9], ciphertext: sent };
        let sent = messages::decode_query(&messages::encode_query(&sent), &self.parameters).unwrap();
        assert_eq!((sent.table, sent.client, sent.length, &sent.starts[..]), ([1; 32], [2; 16], 10, &[3, 3, 9][..]));
        let registration = messages::encode_registration(&self.public);
        let public = messages::decode_registration(&registration, &self.parameters);
        let (public, sent, granularity) = (public.unwrap(), sent.ciphertext, sent.granularity);
        let rng = &mut rng(query ^ 1 << 40);
        let answer = self.matcher.answer(&public, &sent, entries, blocks, granularity, rng).unwrap();
        let answer = messages::decode_answer(&messages::encode_answer(&answer), &self.parameters).unwrap();
        asker.read(&answer).unwrap()
    }
}

#[test]
fn answers_are_those_of_the_clear_for_patterns_that_occur_once_often_and_never() {
    let (bench, length, starts) = (bench(), 10, [3u32, 40, 40, 90]);
    let mut haplotypes = mosaic(200, 100, 7);
    // one pattern that all have, at the end
    haplotypes.iter_mut().for_each(|haplotype| haplotype[90..].fill(true));
    let panel = panel(&haplotypes);
    let t = *bench.matcher.modulus();
    let keys = Keys::new(&t, starts.len(), length).unwrap();
    let entries = keys.entries(&t, &panel, &starts, 1).unwrap();
    let rare = entries.iter().find(|entry| entry.count == 1).unwrap().key;
    let mut queries = vec![rare, rare ^ 1, keys.of(3, (1 << 10) - 1), keys.of(3, (1 << 10) - 2), keys.of(0, 0)];
    for (i, haplotype) in haplotypes.iter().enumerate().step_by(29) {
        let place = i % starts.len();
        let pattern = pattern(haplotype, starts[place] as usize, length);
        queries.extend([keys.of(place, pattern), keys.of(place, pattern ^ 1 << (i % length))]);
    }
    // a place that is there twice is found under both of its numbers
    let twice = pattern(&haplotypes[0], 40, length);
    queries.extend([keys.of(1, twice), keys.of(2, twice)]);
    let mut present = 0;
    for query in queries {
        let expected = program::answer(&entries, query);
        let place = (query >> length) as usize;
        let counted = panel.count(starts[place] as usize, length, Pattern::from(query) & ((1 << length) - 1)).unwrap();
        assert_eq!(u64::from(counted), expected);
        present += usize::from(expected > 0);
        let [boolean, count] = match expected {
            0 => [Found::Absent; 2],
            expected => [Found::Present(None), Found::Present(Some(expected))],
        };
        assert_eq!(bench.ask(&entries, query, Granularity::Boolean, 1), boolean);
        assert_eq!(bench.ask(&entries, query, Granularity::Count, 1), count);
    }
    assert!(present > 8, "{present}");
}

#[test]
fn the_flood_is_as_wide_as_there_is_room_and_hides_what_it_says() {
    for (set, bits) in [("search", 87), ("search-17", 87), ("search-23", 99), ("search-40", 120)] {
        let bench = bench_of(set);
        let query = Asker::new(&bench.secret).unwrap().query(5, &mut rng(30)).unwrap();
        assert_eq!(bench.matcher.flood_bits(), bits, "{set}");
        let distance = bench.matcher.distance(&query);
        assert!(distance < -32.0, "{set}: 2^{distance}");
    }
}

#[test]
fn every_size_of_question_has_a_set_and_is_answered_as_in_the_clear() {
    let haplotypes = mosaic(300, 400, 9);
    let panel = panel(&haplotypes);
    for (length, count, name) in [
        (16, 1, "search"),
        (10, 64, "search"),
        (10, 100, "search-17"),
        (16, 100, "search-23"),
        (17, 1, "search-23"),
        (40, 1, "search-40"),
        (33, 100, "search-40"),
    ] {
        let set = program::set(count, length).unwrap();
        assert_eq!(set.name, name, "{count} places, {length} sites");
        let (bench, secret) = (bench_of(name), Seed::from_bytes([5; 32]));
        let windows = (panel.sites() - length + 1) as u32;
        let (starts, index) = places(&secret, &[1; 32], (77, windows), count as u32).unwrap();
        let keys = Keys::new(bench.matcher.modulus(), count, length).unwrap();
        let entries = keys.entries(bench.matcher.modulus(), &panel, &starts, 1).unwrap();
        let blocks = (count * panel.most_patterns(length).unwrap() as usize).div_ceil(bench.matcher.slots());
        let there = pattern(&haplotypes[100], 77, length);
        for pattern in [there, there ^ 1 << (length - 1), there ^ 1] {
            let found = bench.ask(&entries, keys.of(index, pattern), Granularity::Count, blocks);
            let counted = panel.count(77, length, pattern).unwrap();
            let expected = if counted == 0 { Found::Absent } else { Found::Present(Some(counted.into())) };
            assert_eq!(found, expected, "{count} places, {length} sites");
        }
    }
    assert_eq!(program::set(2, 40).map(|set| set.name), None);
}

/// Of a query and its answer; a registration comes once more.
#[test]
fn questions_and_answers_of_one_block_have_the_bytes_that_they_are_to_have() {
    for (set, most, registration) in
        [("search", 130_000, 54_500), ("search-17", 130_000, 54_500), ("search-23", 302_000, 128_500)]
    {
        let bench = bench_of(set);
        let ciphertext = Asker::new(&bench.secret).unwrap().query(5, &mut rng(30)).unwrap();
        let answer =
            bench.matcher.answer(&bench.public, &ciphertext, &[], 1, Granularity::Count, &mut rng(31)).unwrap();
        let (starts, granularity) = (vec![0; 100], Granularity::Count);
        let query = Query { table: [1; 32], client: [2; 16], granularity, length: 10, starts, ciphertext };
        let bytes = messages::encode_query(&query).len() + messages::encode_answer(&answer).len();
        assert!(bytes < most, "{set}: {bytes}");
        assert!(messages::encode_registration(&bench.public).len() < registration, "{set}");
    }
}

/// It works as `docs/threats.md` says: what a scan finds is what chance puts in the slot of its own number.
#[test]
fn a_query_with_another_number_in_every_slot_meets_one_entry_on_average() {
    let bench = bench();
    let (encoder, holder) = (Encoder::new(&bench.parameters).unwrap(), Decryptor::new(&bench.secret).unwrap());
    let entries: Vec<Entry> = (0..4_096).map(|key| Entry { key, count: 1 }).collect();
    let scan = encoder.encode(&(0..4_096).collect::<Vec<i64>>()).unwrap();
    let rounds = 30;
    let hits: usize = (0..rounds)
        .map(|round| {
            let query = holder.encrypt(&scan, 3, &mut rng(round));
            let rng = &mut rng(round + 100);
            let answer = bench.matcher.answer(&bench.public, &query, &entries, 1, Granularity::Boolean, rng).unwrap();
            encoder.decode(&holder.decrypt(&answer[0].equal)).iter().filter(|value| **value == 0).count()
        })
        .sum();
    // a Poisson variable of mean 30: outside once in a hundred thousand draws, and this is one draw
    assert!((10..=56).contains(&hits), "{hits} in {rounds}");
}

#[test]
fn entries_of_several_blocks_are_found_in_any_of_them_and_too_many_are_refused() {
    let bench = bench();
    let slots = bench.matcher.slots();
    let entries: Vec<Entry> = (0..slots as u64 + 100).map(|i| Entry { key: 3 * i, count: i + 1 }).collect();
    for i in [0u64, 1, 4_095, 4_096, 4_195] {
        assert_eq!(bench.ask(&entries, 3 * i, Granularity::Count, 2), Found::Present(Some(i + 1)));
        assert_eq!(bench.ask(&entries, 3 * i + 1, Granularity::Count, 2), Found::Absent);
    }
    let query = Asker::new(&bench.secret).unwrap().query(1, &mut rng(3)).unwrap();
    let answer = bench.matcher.answer(&bench.public, &query, &entries, 1, Granularity::Count, &mut rng(4));
    assert!(matches!(answer, Err(AnswerError::Entries { most: 4_096, found: 4_196 })));
}

/// Pearson's statistic of numbers below `t` in 16 classes; its 99.99th percentile with 15 degrees of freedom is 44.3.
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
    let asker = Asker::new(&bench.secret).unwrap();
    for (many, seed) in [(0u64, 10), (1, 11), (4_000, 12)] {
        // neighbours of the query, with small counts: whatever is not hidden would show
        let entries: Vec<Entry> = (0..many).map(|i| Entry { key: 30_001 + i, count: 1 }).collect();
        let query = asker.query(30_000, &mut rng(seed)).unwrap();
        let answer =
            bench.matcher.answer(&bench.public, &query, &entries, 1, Granularity::Count, &mut rng(seed)).unwrap();
        let decoded = |part| encoder.decode(&holder.decrypt(part)).into_iter().map(|value| t.reduce_signed(value));
        let equal: Vec<u64> = decoded(&answer[0].equal).collect();
        assert!(equal.iter().all(|value| *value != 0));
        assert!(spread(equal.into_iter(), t.value()) < 44.3, "{many} entries");
        assert!(spread(decoded(answer[0].count.as_ref().unwrap()), t.value()) < 44.3, "{many} entries");
    }
}

/// The values of a ciphertext's second part modulo the first prime, as its bytes have them: what a client sees.
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
    let query: SeededCiphertext = Asker::new(&bench.secret).unwrap().query(5, &mut rng(20)).unwrap();
    let sent = query.expand();
    let c1 = second_part(&wire::encode_ciphertext(&sent), parameters, 3, false);
    // a server that forgets the encryption of zero
    let (encoder, evaluator) = (Encoder::new(parameters).unwrap(), Evaluator::new(parameters).unwrap());
    let masks: Vec<i64> = (0..4_096).map(|i| i * 7 % 65_536 + 1).collect();
    let masks: Plaintext = encoder.encode(&masks).unwrap();
    let weak = evaluator.mul_plain(&sent, &masks).unwrap();
    let weak = second_part(&wire::encode_ciphertext(&weak), parameters, 3, false);
    assert_eq!(quotient(&weak, &c1, parameters), masks.coefficients());
    // what ships, over one prime: the quotient by what the query's second part is there has no small coefficients
    let entries = [Entry { key: 9, count: 1 }];
    let answer = bench.matcher.answer(&bench.public, &query, &entries, 1, Granularity::Boolean, &mut rng(21)).unwrap();
    let low = evaluator.mod_switch_to(&sent, 1).unwrap();
    let low = second_part(&wire::encode_ciphertext(&low), parameters, 1, false);
    let found = second_part(&wire::encode_ciphertext(&answer[0].equal), parameters, 1, false);
    let small = quotient(&found, &low, parameters).iter().filter(|value| value.abs() <= 1 << 17).count();
    assert!(small < 20, "{small} of 4096 are as small as masks");
}

fn toy() -> LatticeParameters {
    let plaintext = tobari_core::params::Plaintext::Integers(Modulus::new(257).unwrap());
    LatticeParameters::insecure_of_sizes(8, &[33, 30, 31], &[], 3, plaintext).unwrap()
}

#[test]
fn messages_are_refused_when_anything_is_missing_or_more_or_another() {
    let parameters = toy();
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    let public = PublicKey::generate(&secret, &mut rng(2));
    let (asker, matcher) = (Asker::new(&secret).unwrap(), Matcher::new(&parameters).unwrap());
    let ciphertext = asker.query(3, &mut rng(3)).unwrap();
    let entries = [Entry { key: 3, count: 2 }];
    let answer = matcher.answer(&public, &ciphertext, &entries, 2, Granularity::Count, &mut rng(4)).unwrap();
    let starts = vec![1, 2, 2];
    let query =
        Query { table: [7; 32], client: [8; 16], granularity: Granularity::Count, length: 6, starts, ciphertext };
    let [registration, query, answer] =
        [messages::encode_registration(&public), messages::encode_query(&query), messages::encode_answer(&answer)];
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
    assert_eq!(with(50, 2), malformed("granularity"));
    assert_eq!([with(51, 0), with(51, 129)], [malformed("number of sites"), malformed("number of sites")]);
    assert_eq!([with(52, 0), with(52, 101)], [malformed("number of places"), malformed("number of places")]);
    assert_eq!(with(56, 9), malformed("order of places"));
    // a ciphertext with both parts, as a client that chooses them would like to send
    let whole = wire::encode_ciphertext(&asker.query(3, &mut rng(3)).unwrap().expand());
    assert!(messages::decode_query(&[&query[..65], &whole].concat(), &parameters).is_err());
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let t = Modulus::new(65_537).unwrap();
    assert!(Keys::new(&t, 1, 16).is_ok() && Keys::new(&t, 64, 10).is_ok());
    for (places, length) in [(1, 17), (65, 10), (2, 16), (0, 5), (1, 64), (usize::MAX, 63), (1, usize::MAX)] {
        assert_eq!(Keys::new(&t, places, length), Err(KeyError::TooMany { most: 65_537, places, length }));
    }
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
    for key in [65_537, u64::MAX] {
        let refused = Asker::new(&bench.secret).unwrap().query(key, &mut rng(1)).err();
        assert!(matches!(refused, Some(ClientError::Key { most: 65_537, found }) if found == key));
    }
    assert_eq!(Panel::new(0).unwrap_err(), PanelError::Haplotypes { found: 0 });
    let keys = Keys::new(&Modulus::new(257).unwrap(), 1, 1).unwrap();
    let mut large = Panel::new(300).unwrap();
    large.push(&[true; 300]).unwrap();
    let counted = keys.entries(&Modulus::new(257).unwrap(), &large, &[0], 1);
    assert_eq!(counted, Err(KeyError::Count { most: 257, found: 300 }));
}

#[test]
fn what_few_have_is_left_out_when_the_owner_says_so() {
    let (t, panel) = (Modulus::new(65_537).unwrap(), panel(&mosaic(100, 30, 5)));
    let keys = Keys::new(&t, 1, 10).unwrap();
    let all = keys.entries(&t, &panel, &[4], 1).unwrap();
    let some = keys.entries(&t, &panel, &[4], 5).unwrap();
    assert!(all.len() > some.len() && !some.is_empty());
    assert_eq!(some, all.into_iter().filter(|entry| entry.count >= 5).collect::<Vec<_>>());
}

/// A client that asks a desk, as bytes.
struct Customer {
    name: [u8; 16],
    secret: SecretKey,
    set: NamedSet,
}

impl Customer {
    fn new(name: u8, places: usize, length: usize) -> Self {
        let set = program::set(places, length).unwrap();
        let secret = SecretKey::generate(&set.parameters().unwrap(), &mut rng(name.into()));
        Self { name: [name; 16], secret, set }
    }

    fn registration(&self) -> Vec<u8> {
        messages::encode_registration(&PublicKey::generate(&self.secret, &mut rng(50)))
    }

    fn query(&self, table: u8, starts: &[u32], index: usize, length: usize, pattern: Pattern) -> Vec<u8> {
        let t = Modulus::new(self.set.plaintext_modulus.unwrap()).unwrap();
        let key = Keys::new(&t, starts.len(), length).unwrap().of(index, pattern);
        let ciphertext = Asker::new(&self.secret).unwrap().query(key, &mut rng(key)).unwrap();
        let (table, granularity, starts) = ([table; 32], Granularity::Count, starts.to_vec());
        messages::encode_query(&Query { table, client: self.name, granularity, length, starts, ciphertext })
    }

    fn read(&self, answer: &[u8]) -> Found {
        let blocks = messages::decode_answer(answer, self.secret.parameters()).unwrap();
        Asker::new(&self.secret).unwrap().read(&blocks).unwrap()
    }
}

#[test]
fn a_desk_answers_whoever_is_registered_until_the_budget_is_used_up() {
    let haplotypes = mosaic(200, 60, 11);
    let mut desk = Desk::new(Limits { clients: 1, tests: 3, uses: 2 });
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
    assert_eq!(customer.read(&answer), Found::Present(Some(count)));
    assert_eq!((asked.client, asked.table, asked.length, asked.places), ([3; 16], [1; 32], 8, 2));
    // what is refused costs nothing
    let elsewhere = customer.query(2, &[5, 20], 1, 8, there);
    assert!(matches!(desk.answer(&elsewhere, &mut rng(1)), Err(Refusal::Table)));
    let outside = customer.query(1, &[5, 53], 1, 8, there);
    assert!(matches!(desk.answer(&outside, &mut rng(1)), Err(Refusal::Keys(KeyError::Panel(_)))));
    assert!(matches!(desk.answer(&query[..query.len() - 1], &mut rng(1)), Err(Refusal::Message(_))));
    assert_eq!(desk.tests_left(&customer.name), Some(2));
    desk.answer(&query, &mut rng(2)).unwrap();
    assert!(matches!(desk.answer(&query, &mut rng(3)), Err(Refusal::Uses { uses: 2 })));
    // a new key is a new key, and no new budget; and a table may come new without anybody starting over
    desk.register(customer.name, "search", &customer.registration()).unwrap();
    desk.serve([1; 32], panel(&mosaic(5, 60, 12)), 6);
    let (answer, _) = desk.answer(&query, &mut rng(4)).unwrap();
    assert_eq!(customer.read(&answer), Found::Absent, "fewer than six have it");
    assert!(matches!(desk.answer(&query, &mut rng(5)), Err(Refusal::Budget { tests: 3 })));
}
