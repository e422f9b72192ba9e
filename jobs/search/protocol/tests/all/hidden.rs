//! Searches with the place hidden, under encryption against the same searches on plaintext.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tobari_lattice::bgv::{
    Ciphertext, Decryptor, Encoder, EvaluateError, EvaluationKeys, Evaluator, Plaintext, PreparedPlaintext,
    SeededCiphertext,
};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::ring::{Modulus, Ntt, Seed};
use tobari_lattice::rlwe::{KeyId, SecretKey};
use tobari_lattice::wire::{self, LatticeWireError};
use tobari_search::client::MatchResult;
use tobari_search::hidden::arrangement::LEAVES;
use tobari_search::hidden::client::{Asker, ClientError};
use tobari_search::hidden::index::{Arranged, Block, Blocks, IndexError, Table};
use tobari_search::hidden::messages::{self, Query};
use tobari_search::hidden::permutation::{KEY_BYTES, Permutation};
use tobari_search::hidden::program::{self, Layout, LayoutError};
use tobari_search::hidden::server::{AnswerError, Form, Matcher, Page, Registration};
use tobari_search::messages::MessageError;
use tobari_search::server::Granularity;

fn rng(seed: u64) -> ChaCha20Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(bytes)
}

/// 256 slots of numbers modulo 7,681: no security, every other property.
fn toy() -> LatticeParameters {
    let plaintext = tobari_lattice::params::Plaintext::Integers(Modulus::new(7_681).unwrap());
    LatticeParameters::insecure_of_sizes(256, &[45, 45, 45], &[50], 3, plaintext).unwrap()
}

struct Bench {
    parameters: LatticeParameters,
    secret: SecretKey,
    matcher: Matcher,
    registration: Registration,
}

impl Bench {
    fn new(parameters: &LatticeParameters, depth: usize) -> Self {
        let secret = SecretKey::from_seed(parameters, Seed::random(&mut rng(1)));
        let sent = Asker::new(&secret).unwrap().registration(depth, &mut rng(2)).unwrap();
        let registration = messages::encode_registration(&sent);
        let registration = messages::decode_registration(&registration, parameters).unwrap();
        assert_eq!(registration.keys.expansion_depth(), Some(depth));
        Self { parameters: parameters.clone(), matcher: Matcher::new(parameters).unwrap(), secret, registration }
    }

    fn toy() -> Self {
        Self::new(&toy(), 8)
    }

    fn table(&self, entries: &[(u128, u64)], last: u128, pages: usize, seed: u64) -> Table {
        let arranged = Arranged::new(
            &self.parameters,
            (entries, false),
            (last, self.matcher.modulus().value() - 1),
            pages,
            &mut rng(seed),
        )
        .unwrap();
        arranged.table(&mut rng(seed + 1)).unwrap()
    }

    /// The form of a layout, from its bytes, as a client gets it.
    fn form(&self, layout: &Layout) -> Form {
        let sent = messages::decode_layout(&messages::encode_layout(layout), &self.parameters).unwrap();
        assert_eq!(sent, *layout);
        Form::new(&self.parameters, &sent).unwrap()
    }

    fn query(&self, form: &Form, key: u128, granularity: Granularity) -> Query {
        let ciphertext = Asker::new(&self.secret).unwrap().query(form, key, &mut rng(key as u64)).unwrap();
        let sent = messages::encode_query(&Query { table: [1; 32], client: [2; 16], granularity, ciphertext });
        messages::decode_query(&sent, &self.parameters).unwrap()
    }

    fn answer(&self, form: &Form, query: &Query, table: &impl Blocks, seed: u64) -> Vec<Page> {
        let (matcher, registration, rng) = (&self.matcher, &self.registration, &mut rng(seed));
        let answer = matcher.answer(form, registration, &query.ciphertext, query.granularity, table, rng).unwrap();
        messages::decode_answer(&messages::encode_answer(&answer).unwrap(), &self.parameters).unwrap()
    }

    /// Asks, answers and reads.
    fn ask(&self, form: &Form, table: &impl Blocks, key: u128, granularity: Granularity) -> MatchResult {
        let answer = self.answer(form, &self.query(form, key, granularity), table, key as u64 ^ 1 << 40);
        Asker::new(&self.secret).unwrap().read(form.layout(), &answer).unwrap()
    }

    /// The numbers in the slots of an output.
    fn slots(&self, part: &Ciphertext) -> Vec<u64> {
        let values = Encoder::new(&self.parameters)
            .unwrap()
            .decode(&Decryptor::new(&self.secret).unwrap().decrypt_measured(part).unwrap())
            .unwrap();
        values.into_iter().map(|value| self.matcher.modulus().reduce_signed(value)).collect()
    }
}

/// So many different keys up to `last`, with counts below 1,000.
fn entries(count: usize, last: u128, seed: u64) -> Vec<(u128, u64)> {
    let mut rng = rng(seed);
    let mut all = BTreeMap::new();
    while all.len() < count {
        let key = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        let key = last.checked_add(1).map_or(key, |keys| key % keys);
        all.insert(key, u64::from(rng.next_u32() % 999 + 1));
    }
    all.into_iter().collect()
}

fn expected(entries: &[(u128, u64)], key: u128, granularity: Granularity) -> MatchResult {
    match (program::answer(entries, key), granularity) {
        (0, _) => MatchResult::Absent,
        (_, Granularity::Boolean) => MatchResult::Present(None),
        (count, Granularity::Count) => MatchResult::Present(Some(count)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn answers_are_those_of_the_clear_for_tables_of_any_size_and_keys_of_any_length(
        count in prop_oneof![0usize..3, 3usize..2_000], spread in 1u128..9, wide in 0u32..4, pages in 1usize..4, seed: u64,
    ) {
        let bench = Bench::toy();
        // from tables that have every key to tables of 128-bit keys
        let last = match wide {
            0 => (count.max(1) as u128) * spread - 1,
            1 => (1 << 40) + spread,
            2 => u128::from(u64::MAX) * spread,
            _ => u128::MAX,
        };
        let entries = entries(count, last, seed);
        let table = bench.table(&entries, last, pages, seed);
        let form = bench.form(table.layout());
        let mut keys = vec![0, last, last / 2];
        if !entries.is_empty() {
            let some = entries[seed as usize % count].0;
            keys.extend([some, some, some ^ 1, some.saturating_add(1), entries[0].0, entries[count - 1].0]);
        }
        for (i, key) in keys.into_iter().filter(|key| *key <= last).enumerate() {
            let granularity = if i % 2 == 0 { Granularity::Count } else { Granularity::Boolean };
            prop_assert_eq!(bench.ask(&form, &table, key, granularity), expected(&entries, key, granularity));
        }
    }

    #[test]
    fn shards_add_up_to_the_table_and_both_forms_of_it_are_the_same(
        seed: u64, cuts in prop::collection::vec(0usize..12, 0..4), counts: bool,
    ) {
        let bench = Bench::toy();
        let entries = entries(2_000, u128::MAX, seed);
        let table = bench.table(&entries, u128::MAX, 1, seed);
        let (form, prepared) = (&bench.form(table.layout()), &table.prepared().unwrap());
        prop_assert!(table.bytes().is_some() && prepared.bytes().is_none() && prepared.memory() > 8 * table.memory());
        let granularity = if counts { Granularity::Count } else { Granularity::Boolean };
        let query = &bench.query(form, entries[7].0, granularity).ciphertext;
        let (matcher, keys) = (&bench.matcher, &bench.registration.keys);
        let whole = matcher.answer(form, &bench.registration, query, granularity, &table, &mut rng(3)).unwrap();
        // any division into shards, with sums in any order …
        let mut cuts = cuts;
        cuts.extend([0, table.layout().blocks()]);
        cuts.sort_unstable();
        let shards = cuts.windows(2).map(|cut| cut[0]..cut[1]).rev();
        // … and each shard in its own thread
        let sums = |range| matcher.partial(form, keys, query, granularity, prepared, range).unwrap();
        let mut parts: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = shards.map(|range| scope.spawn(move || sums(range))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let mut sum = parts.remove(0);
        // shards send their sums as bytes
        for part in &parts {
            let bytes = messages::encode_partial(part);
            matcher.merge(&mut sum, &messages::decode_partial(&bytes, &bench.parameters).unwrap()).unwrap();
        }
        let merged = matcher.finish(form, &bench.registration, query, &sum, &mut rng(3)).unwrap();
        let parts = |pages: &[Page]| -> Vec<Vec<u8>> {
            // the bound on noise is rounded, and is not part of the computation
            let all = pages.iter().flat_map(|page| page.equal.iter().chain(&page.counts));
            all.map(wire::store_ciphertext).map(|bytes| bytes[bytes.len() - 2_880..].to_vec()).collect()
        };
        prop_assert!(parts(&whole) == parts(&merged));
        let found = Asker::new(&bench.secret).unwrap().read(form.layout(), &merged).unwrap();
        prop_assert_eq!(found, expected(&entries, entries[7].0, granularity));
    }
}

fn real() -> LatticeParameters {
    NamedSet::from_name("search-hidden").unwrap().parameters().unwrap()
}

/// Windows of ten sites at 100,000 places of a panel of 5,008 haplotypes: 20 patterns at each
/// place, and the numbers are exact.
#[test]
fn ten_sites_at_any_of_a_hundred_thousand_places_are_found_and_what_is_not_there_is_not() {
    let (bench, last) = (Bench::new(&real(), 9), 100_000 * 1_024 - 1);
    let mut source = rng(5);
    let pattern = |place: u128, i: u128| (place << 10) + (i * 41 + place * 7) % 1_024;
    let entries: Vec<(u128, u64)> = (0..100_000)
        .flat_map(|place| (0..20).map(move |i| pattern(place, i)))
        .map(|key| (key, u64::from(source.next_u32() % 5_008 + 1)))
        .collect();
    let table = bench.table(&entries, last, 1, 6);
    let layout = table.layout();
    assert_eq!((layout.blocks(), layout.limbs()), (272, 1));
    assert_eq!(layout.false_positives(8_192, bench.matcher.modulus()), None);
    assert_eq!(table.memory(), 272 * 2 * 20_480);
    let form = bench.form(layout);
    let registered = messages::encode_registration(&bench.registration).len();
    assert!(registered < 6_000_000, "{registered}");
    for (i, entry) in [0usize, 1_234_567, 1_999_999].into_iter().enumerate() {
        let key = entries[entry].0;
        let granularity = if i == 1 { Granularity::Boolean } else { Granularity::Count };
        assert_eq!(bench.ask(&form, &table, key, granularity), expected(&entries, key, granularity));
        // one allele changed
        let near = &entries[entry.saturating_sub(20)..(entry + 20).min(entries.len())];
        let absent = (0..10).map(|bit| key ^ 1 << bit).find(|key| program::answer(near, *key) == 0);
        assert_eq!(bench.ask(&form, &table, absent.unwrap(), granularity), MatchResult::Absent);
    }
    let query = bench.query(&form, 5, Granularity::Count);
    let answer = messages::encode_answer(&bench.answer(&form, &query, &table, 9)).unwrap();
    let (up, down) = (messages::encode_query(&query).len(), answer.len());
    assert!(up < 154_000 && down < 113_000, "{up} and {down}");
}

#[test]
fn floods_hide_the_noise_of_every_size_of_table() {
    let matcher = Matcher::new(&real()).unwrap();
    assert_eq!(matcher.flood_bits(), 127);
    for (last, entries, pages) in [
        (8_000 * 64 - 1, 46_000, 1),
        (100_000 * 1_024 - 1, 2_000_000, 1),
        (u128::MAX, 3_500_000, 1),
        (100_000 * 1_024 - 1, 2_000_000, 4),
        (u128::MAX, 10_000_000, 4),
        ((1 << 117) - 1, 30_000_000, 8),
        ((1 << 117) - 1, 50_000_000, 16),
    ] {
        let layout = Layout::choose([1; KEY_BYTES], last, entries, (8_192, matcher.modulus()), pages).unwrap();
        assert!(layout.blocks() + layout.limbs() <= LEAVES, "a layout that is served");
        let form = Form::new(&real(), &layout).unwrap();
        let distance = matcher.distance(&form, Granularity::Count);
        assert!(distance < -40.0, "{} blocks of {pages}: 2^{distance}", layout.blocks());
        assert!(matcher.distance(&form, Granularity::Boolean) < distance);
    }
}

/// A polynomial of a block, as the table's owner has it. The client must not see it.
fn polynomial(table: &Table, parameters: &LatticeParameters, block: usize, polynomial: usize) -> Plaintext {
    let Some(Block::Packed(bytes)) = table.block(block) else { panic!("a packed table") };
    let length = bytes.len() / table.layout().polynomials();
    wire::unpack_plaintext(&bytes[polynomial * length..][..length], parameters).unwrap()
}

/// `q - K`, as the server computes it.
fn difference(bench: &Bench, form: &Form, table: &Table, query: &SeededCiphertext) -> Ciphertext {
    let evaluator = Evaluator::new(&bench.parameters).unwrap();
    let mut leaves = Vec::new();
    let each = |_, leaf| {
        leaves.push(leaf);
        Ok::<(), EvaluateError>(())
    };
    let all = 0..form.expansion().leaves();
    evaluator.expand(&query.expand(), form.expansion(), &bench.registration.keys, all, each).unwrap();
    let level = bench.parameters.data_primes();
    let prepared: Vec<PreparedPlaintext> = (0..table.layout().blocks())
        .map(|block| polynomial(table, &bench.parameters, block, 0))
        .map(|plaintext| PreparedPlaintext::new(&bench.parameters, &plaintext, level).unwrap())
        .collect();
    let pairs: Vec<_> = leaves[1..].iter().zip(&prepared).collect();
    evaluator.sub(&leaves[0], &evaluator.dot_prepared(&pairs).unwrap()).unwrap()
}

/// At the real size: 40 blocks.
#[test]
fn what_is_flooded_over_is_below_what_is_stated() {
    let bench = Bench::new(&real(), 6);
    let last = 40 * 400_000;
    let entries = entries(290_000, last, 8);
    let table = bench.table(&entries, last, 1, 9);
    let form = bench.form(table.layout());
    assert_eq!(table.layout().limbs(), 1);
    let query = bench.query(&form, entries[5].0, Granularity::Boolean).ciphertext;
    let difference = difference(&bench, &form, &table, &query);
    let evaluator = Evaluator::new(&bench.parameters).unwrap();
    let mut source = rng(10);
    let mask: Vec<i64> = (0..8_192).map(|_| i64::from(source.next_u32() % 1_032_192 + 1)).collect();
    let mask = Encoder::new(&bench.parameters).unwrap().encode(&mask).unwrap();
    let masked = evaluator.mul_plain(&difference, &mask).unwrap();
    // the largest of 2^13 coefficients is some four deviations, and the norm is 2^6.5 deviations
    let measured = Decryptor::new(&bench.secret).unwrap().noise(&masked).unwrap();
    let norm = measured - 20.0 - 2.0 + 6.5;
    let stated = bench.matcher.noise(&form);
    assert!(norm < stated && stated < norm + 12.0, "2^{norm} and 2^{stated}");
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
    let bench = Bench::toy();
    let t = bench.matcher.modulus().value();
    for (count, last, limbs) in [(0usize, 7_000u128, 1), (220, 7_000, 1), (1, u128::MAX, 4), (220, u128::MAX, 4)] {
        // small counts: anything that is not hidden would show
        let entries: Vec<(u128, u64)> = entries(count, last, 11).into_iter().map(|entry| (entry.0, 1)).collect();
        let table = bench.table(&entries, last, 1, 12);
        let form = bench.form(table.layout());
        assert_eq!((form.layout().blocks(), form.layout().limbs()), (1, limbs));
        let absent = (0..).find(|key| program::answer(&entries, *key) == 0).unwrap();
        let query = bench.query(&form, absent, Granularity::Count);
        let answers: Vec<Vec<Page>> = (0..20).map(|seed| bench.answer(&form, &query, &table, seed)).collect();
        for limb in 0..limbs {
            let all = answers.iter().flat_map(|answer| bench.slots(&answer[0].equal[limb]));
            let zeros = all.clone().filter(|value| *value == 0).count();
            assert!(if limbs == 1 { zeros == 0 } else { zeros < 6 }, "{zeros} zeros of {count} entries");
            assert!(spread(all, t) < 44.3, "{count} entries, limb {limb}");
        }
        let counts = answers.iter().flat_map(|answer| bench.slots(&answer[0].counts[0]));
        assert!(spread(counts, t) < 44.3, "{count} entries");
    }
}

/// A mask for each limb alone would give a zero in the same slot every time.
#[test]
fn an_entry_that_agrees_in_some_limbs_does_not_show() {
    let (bench, entries) = (Bench::toy(), entries(220, u128::MAX, 13));
    let table = bench.table(&entries, u128::MAX, 1, 14);
    let (form, t) = (bench.form(table.layout()), bench.matcher.modulus());
    let limb = |key| {
        let (_, rest) = form.layout().divide(t, key).unwrap();
        form.layout().limbs_of(t, rest).next().unwrap()
    };
    let there: Vec<u64> = entries.iter().map(|entry| limb(entry.0)).collect();
    let near = (0..).find(|key| there.contains(&limb(*key))).unwrap();
    assert_eq!(program::answer(&entries, near), 0);
    let query = bench.query(&form, near, Granularity::Boolean);
    let mut zeros = vec![0; 256];
    for seed in 0..12 {
        for part in &bench.answer(&form, &query, &table, seed)[0].equal {
            bench.slots(part).iter().zip(&mut zeros).for_each(|(value, zeros)| *zeros += usize::from(*value == 0));
        }
    }
    // 48 draws for each of 256 slots, each zero once in 7,681
    assert!(*zeros.iter().max().unwrap() <= 3, "{zeros:?}");
}

/// The values of a ciphertext's second part modulo the first prime, from its bytes: the client sees
/// them.
fn second_part(part: &Ciphertext, parameters: &LatticeParameters) -> Vec<u64> {
    let (bytes, ring) = (wire::encode_ciphertext(part).unwrap(), parameters.ring());
    let row = |prime: usize| parameters.degree() * ring.data_primes()[prime].modulus().bits() as usize / 8;
    let length: usize = (0..part.level()).map(row).sum();
    let (start, bits) = (bytes.len() - length, ring.data_primes()[0].modulus().bits() as usize);
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

/// For an empty table, everybody knows `K`, and so the second part of `q - K`.
#[test]
fn dividing_by_what_a_client_can_compute_gives_the_masks_without_fresh_randomness_and_nothing_with_it() {
    let bench = Bench::toy();
    let table = bench.table(&[], 7_000, 1, 15);
    let form = bench.form(table.layout());
    let query = bench.query(&form, 5, Granularity::Boolean);
    let evaluator = Evaluator::new(&bench.parameters).unwrap();
    let known = difference(&bench, &form, &table, &query.ciphertext);
    // a server that omits the encryption of zero
    let masks = Encoder::new(&bench.parameters).unwrap().encode(&(1..257).collect::<Vec<i64>>()).unwrap();
    let weak = evaluator.mul_plain(&known, &masks).unwrap();
    let [weak, divisor] = [&weak, &known].map(|part| second_part(part, &bench.parameters));
    assert_eq!(quotient(&weak, &divisor, &bench.parameters), masks.coefficients());
    // the real protocol, over one prime
    let low = evaluator.to_level(&known, 1).unwrap();
    for seed in 0..5 {
        let answer = bench.answer(&form, &query, &table, seed);
        let [found, divisor] = [&answer[0].equal[0], &low].map(|part| second_part(part, &bench.parameters));
        let quotient = quotient(&found, &divisor, &bench.parameters);
        let small = quotient.iter().filter(|value| value.abs() <= 7_681).count();
        assert!(small < 3, "{small} of 256 are as small as masks");
    }
}

/// A table that records the blocks that are read.
struct Watched<'a>(&'a Table, RefCell<Vec<usize>>);

impl Blocks for Watched<'_> {
    fn block(&self, block: usize) -> Option<Block<'_>> {
        self.1.borrow_mut().push(block);
        self.0.block(block)
    }
}

#[test]
fn the_server_reads_all_blocks_in_one_order_whatever_is_asked() {
    let (bench, entries) = (Bench::toy(), entries(2_000, u128::MAX, 16));
    let table = bench.table(&entries, u128::MAX, 1, 17);
    let form = bench.form(table.layout());
    for key in [0, entries[0].0, entries[1_999].0, u128::MAX] {
        let watched = Watched(&table, RefCell::default());
        bench.ask(&form, &watched, key, Granularity::Count);
        assert!(watched.1.borrow().iter().copied().eq(0..table.layout().blocks()));
    }
}

/// The attack works, as `book/src/explanation/threats/search.md` says: the claim is for clients
/// that select one block, once.
#[test]
fn a_selector_of_two_compares_with_twice_the_block() {
    let (bench, entries) = (Bench::toy(), entries(300, 14_000, 18));
    let table = bench.table(&entries, 14_000, 1, 19);
    let (form, t) = (bench.form(table.layout()), bench.matcher.modulus());
    assert_eq!((form.layout().blocks(), form.layout().limbs()), (2, 1));
    let (key, count) = entries[17];
    let (block, rest) = form.layout().divide(t, key).unwrap();
    let mut message = vec![2 * rest as i64, 0, 0];
    message[1 + block] = 2;
    let message = form.expansion().pack(&message).unwrap();
    let mut query = bench.query(&form, key, Granularity::Count);
    query.ciphertext = message.encrypt_seeded(&bench.secret, 3, &mut rng(20)).unwrap();
    let answer = bench.answer(&form, &query, &table, 21);
    let found = Asker::new(&bench.secret).unwrap().read(form.layout(), &answer).unwrap();
    assert_eq!(found, MatchResult::Present(Some(2 * count)));
}

/// The threat model also says this: an entry keeps its slot for every query, and other entries have
/// other slots.
#[test]
fn a_match_stands_in_the_slot_that_was_drawn_when_the_table_was_packed() {
    let (bench, entries) = (Bench::toy(), entries(200, 7_000, 22));
    let arranged = Arranged::new(&bench.parameters, (&entries, false), (7_000, 7_680), 1, &mut rng(23)).unwrap();
    let tables = [24, 25].map(|seed| arranged.table(&mut rng(seed)).unwrap());
    let form = bench.form(arranged.layout());
    let slot = |table: &Table, key| {
        let answer = bench.answer(&form, &bench.query(&form, key, Granularity::Boolean), table, key as u64);
        bench.slots(&answer[0].equal[0]).iter().position(|value| *value == 0).unwrap()
    };
    let [mut one, again, other] = [&tables[0], &tables[0], &tables[1]]
        .map(|table| entries.iter().step_by(10).map(|entry| slot(table, entry.0)).collect::<Vec<_>>());
    assert_eq!(one, again);
    let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
    assert!(same < 4, "{same} of 20 where they were");
    one.sort_unstable();
    one.dedup();
    assert_eq!(one.len(), 20);
}

#[test]
fn tables_and_shards_that_do_not_fit_are_refused() {
    let bench = Bench::toy();
    let arranged = |entries: &[(u128, u64)], last| {
        Arranged::new(&bench.parameters, (entries, false), (last, 7_680), 1, &mut rng(1))
    };
    for found in [0, 7_681] {
        let refused = arranged(&[(1, 1), (2, found)], 9).map(|_| ()).unwrap_err();
        assert_eq!(refused, IndexError::Count { most: 7_680, found });
    }
    assert_eq!(arranged(&[(1, 1), (2, 1), (1, 5)], 9).map(|_| ()).unwrap_err(), IndexError::Repeated);
    let outside = IndexError::Layout(LayoutError::Key { bits: 4 });
    assert_eq!(arranged(&[(10, 1)], 9).map(|_| ()).unwrap_err(), outside);
    let table = bench.table(&entries(300, 14_000, 18), 14_000, 1, 19);
    let (layout, bytes) = (table.layout().clone(), table.bytes().unwrap().to_vec());
    let (expected, found) = (bytes.len(), bytes.len() - 1);
    let cut = Table::packed(&bench.parameters, layout.clone(), bytes[1..].to_vec());
    assert_eq!(cut.map(|_| ()).unwrap_err(), IndexError::Bytes { expected, found });
    let full = Table::packed(&bench.parameters, layout.clone(), vec![0xff; expected]).unwrap();
    assert!(matches!(full.prepared().map(|_| ()), Err(IndexError::Object(_))));

    let (form, matcher, keys) = (bench.form(&layout), &bench.matcher, &bench.registration.keys);
    let query = bench.query(&form, 3, Granularity::Count).ciphertext;
    let short = bench.table(&[], 7_000, 1, 20);
    let missing = matcher.partial(&form, keys, &query, Granularity::Count, &short, 0..2);
    assert!(matches!(missing, Err(AnswerError::Block { block: 1, blocks: 2 })));
    let partial = |granularity| matcher.partial(&form, keys, &query, granularity, &table, 0..1).unwrap();
    let (mut counts, boolean) = (partial(Granularity::Count), partial(Granularity::Boolean));
    assert!(matches!(matcher.merge(&mut counts, &boolean), Err(AnswerError::Partial)));
    let none =
        matcher.partial(&form, &EvaluationKeys::new(&bench.parameters), &query, Granularity::Count, &table, 0..2);
    assert!(matches!(none, Err(AnswerError::Evaluate(EvaluateError::MissingKey { .. }))));
    let asker = Asker::new(&bench.secret).unwrap();
    assert!(matches!(asker.query(&form, 14_001, &mut rng(1)), Err(ClientError::Key(LayoutError::Key { bits: 14 }))));
    assert!(matches!(asker.read(&layout, &[]), Err(ClientError::Layout)));
}

/// Objects of several senders meet in one computation: nobody's identity may stop the others.
#[test]
fn messages_with_the_identity_of_a_key_are_refused() {
    let bench = Bench::toy();
    let parameters = bench.parameters.clone();
    let table = bench.table(&[(3, 2)], 200, 1, 1);
    let form = bench.form(table.layout());
    let query = bench.query(&form, 3, Granularity::Count);
    let answer = bench.answer(&form, &query, &table, 4);
    let (keys, blocks) = (&bench.registration.keys, 0..table.layout().blocks());
    let partial = bench.matcher.partial(&form, keys, &query.ciphertext, Granularity::Count, &table, blocks).unwrap();
    let named = SecretKey::from_seed(&parameters, bench.secret.to_seed().clone()).with_id(KeyId::random(&mut rng(11)));
    let asker = Asker::new(&named).unwrap();
    let identity = Some(MessageError::Object(LatticeWireError::Identity));
    let registration = messages::encode_registration(&asker.registration(2, &mut rng(10)).unwrap());
    assert_eq!(messages::decode_registration(&registration, &parameters).err(), identity);
    let mut keys_alone = messages::encode_registration(&bench.registration);
    let keys_at = 6 + wire::encode_ring_public_key(&bench.registration.public).len();
    keys_alone[keys_at] = 2;
    assert_eq!(messages::decode_registration(&keys_alone, &parameters).err(), identity);
    let named = asker.query(&form, 3, &mut rng(12)).unwrap();
    let named = messages::encode_query(&Query { ciphertext: named, ..query });
    assert_eq!(messages::decode_query(&named, &parameters).err(), identity);
    for (i, mut changed) in
        [messages::encode_answer(&answer).unwrap(), messages::encode_partial(&partial)].into_iter().enumerate()
    {
        changed[5] = 2;
        let read = [
            messages::decode_answer(&changed, &parameters).err(),
            messages::decode_partial(&changed, &parameters).err(),
        ];
        assert_eq!(read[i], identity, "message {i}");
    }
}

#[test]
fn messages_are_refused_when_anything_is_missing_or_more_or_another() {
    let plaintext = tobari_lattice::params::Plaintext::Integers(Modulus::new(257).unwrap());
    let parameters = LatticeParameters::insecure_of_sizes(8, &[33, 30], &[34], 2, plaintext).unwrap();
    let bench = Bench::new(&parameters, 2);
    let table = bench.table(&[(3, 2)], 200, 1, 1);
    let form = bench.form(table.layout());
    let query = bench.query(&form, 3, Granularity::Count);
    let answer = bench.answer(&form, &query, &table, 4);
    let blocks = 0..table.layout().blocks();
    let (keys, asked) = (&bench.registration.keys, &query.ciphertext);
    let partial = bench.matcher.partial(&form, keys, asked, Granularity::Count, &table, blocks).unwrap();
    let all = [
        messages::encode_registration(&bench.registration),
        messages::encode_query(&query),
        messages::encode_answer(&answer).unwrap(),
        messages::encode_layout(table.layout()),
        messages::encode_partial(&partial),
    ];
    let reads = |bytes: &[u8]| {
        [
            messages::decode_registration(bytes, &parameters).is_ok(),
            messages::decode_query(bytes, &parameters).is_ok(),
            messages::decode_answer(bytes, &parameters).is_ok(),
            messages::decode_layout(bytes, &parameters).is_ok(),
            messages::decode_partial(bytes, &parameters).is_ok(),
        ]
    };
    for (i, bytes) in all.iter().enumerate() {
        assert_eq!(bytes[1], 0x23 + i as u8);
        assert_eq!(reads(bytes), [0, 1, 2, 3, 4].map(|kind| kind == i));
        for length in 0..bytes.len() {
            assert_eq!(reads(&bytes[..length]), [false; 5], "message {i}, {length} bytes");
        }
        assert_eq!(reads(&[&bytes[..], &[0]].concat()), [false; 5]);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            messages::fuzz_hidden_messages(&changed);
        }
    }
    let malformed = |what| Some(MessageError::Malformed(what));
    let with = |place: usize, byte: u8| {
        let mut changed = all[1].clone();
        changed[place] = byte;
        messages::decode_query(&changed, &parameters).err()
    };
    assert_eq!(with(50, 2), malformed("granularity"));
    // ciphertexts and keys with both halves, as a client would send to choose them
    let whole = wire::encode_ciphertext(&query.ciphertext.expand()).unwrap();
    assert!(messages::decode_query(&[&all[1][..51], &whole].concat(), &parameters).is_err());
    // keys for another purpose
    let keys = EvaluationKeys::new(bench.secret.parameters()).with_rotation(&bench.secret, 1, 2, &mut rng(9)).unwrap();
    let public = Asker::new(&bench.secret).unwrap().registration(0, &mut rng(10)).unwrap().public;
    let other = messages::encode_registration(&Registration { public, keys });
    assert_eq!(messages::decode_registration(&other, &parameters).err(), malformed("keys of an expansion"));
    let layout = |place: usize, byte: u8| {
        let mut changed = all[3].clone();
        changed[place] = byte;
        messages::decode_layout(&changed, &parameters).err()
    };
    for (place, byte) in [(34, 1), (37, 0), (37, 8), (38, 0), (38, 65), (39, 0), (39, 9)] {
        assert_eq!(layout(place, byte), malformed("layout"), "{place}");
    }
    let wide = Layout::new(Permutation::new([0; KEY_BYTES], u128::MAX), 8, 7, 64, 1).unwrap();
    assert_eq!(messages::decode_layout(&messages::encode_layout(&wide), &parameters).unwrap(), wide);
}
