//! Known attacks on the search: some work, as `book/src/explanation/threats/search.md` says, and
//! some do not.
//!
//! If a client might see through the masks of an answer, these tests let it see through all of
//! them. A server with repeated randomness answers three questions with the same masks, and the
//! differences give the masks ([`opened`]). If an attack fails even then, no malformed ciphertext
//! makes it work.

use crate::world::{Customer, TABLE, labeller, layout, mosaic, panel, pattern, rng};
use std::collections::{BTreeMap, BTreeSet};
use tobari_lattice::bgv::{Ciphertext, Decryptor, Encoder, Evaluator, Plaintext, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::ring::{Domain, Modulus, Ntt, Seed};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::wire::{self, LatticeWireError};
use tobari_search::client::{Asker, MatchResult};
use tobari_search::desk::{Limits, SearchService};
use tobari_search::messages::{self, MessageError, Query};
use tobari_search::oprf::function::Secret;
use tobari_search::oprf::labels::{self, Label};
use tobari_search::oprf::{LIMBS, Mode};
use tobari_search::program::{Entry, Key, Keys, Layout, Shape};
use tobari_search::server::{Granularity, Matcher};

struct Bench {
    parameters: LatticeParameters,
    secret: SecretKey,
    public: PublicKey,
    matcher: Matcher,
    t: Modulus,
}

impl Bench {
    fn new(set: &str) -> Self {
        let parameters = NamedSet::from_name(set).unwrap().parameters().unwrap();
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(1)));
        let public = PublicKey::generate(&secret, &mut rng(2));
        let matcher = Matcher::new(&parameters).unwrap();
        let t = *matcher.modulus();
        Self { parameters, secret, public, matcher, t }
    }

    fn encoder(&self) -> Encoder {
        Encoder::new(&self.parameters).unwrap()
    }

    fn primes(&self, level: usize) -> &[Ntt] {
        &self.parameters.ring().data_primes()[..level]
    }

    /// The same number in every slot.
    fn query(&self, number: Key, (layout, limbs): (&Layout, usize), seed: u64) -> Vec<SeededCiphertext> {
        let numbers = vec![number; layout.groups()];
        Asker::new(&self.secret).unwrap().query(&numbers, (layout, limbs), &mut rng(seed)).unwrap()
    }

    /// The answer of a server with this seed's randomness, over one block: by limb, and then the
    /// counts.
    fn answer(
        &self,
        query: &[SeededCiphertext],
        entries: &[Vec<Entry>],
        of: (&Layout, usize),
        seed: u64,
    ) -> Vec<Ciphertext> {
        let counts = Granularity::Count;
        let block = self.matcher.answer(&self.public, query, entries, of, counts, &mut rng(seed)).unwrap().remove(0);
        block.equal.into_iter().chain(block.count).collect()
    }

    /// The plaintext, by slot.
    fn open(&self, part: &Ciphertext) -> Vec<u64> {
        let plain = Decryptor::new(&self.secret).unwrap().decrypt_measured(part).unwrap();
        self.encoder().decode(&plain).unwrap().into_iter().map(|value| self.t.reduce_signed(value)).collect()
    }

    /// `c_0 + c_1 s` of a ciphertext over one prime, centred.
    fn phase(&self, part: &Ciphertext) -> Vec<i64> {
        let prime = &self.primes(1)[0];
        let q = prime.modulus();
        let mut key = vec![0; self.parameters.degree()];
        self.secret.to_seed().stream(Domain::Secret, 0).ternary(&mut key);
        let mut key: Vec<u64> = key.into_iter().map(|value| q.reduce_signed(value)).collect();
        prime.forward(&mut key);
        let [first, second] = [0, 1].map(|index| self.values(part, index));
        let sum = first.iter().zip(second.iter().zip(&key)).map(|(c0, (c1, key))| q.add(*c0, q.mul(*c1, *key)));
        let mut sum: Vec<u64> = sum.collect();
        prime.inverse(&mut sum);
        sum.into_iter().map(|value| q.centred(value)).collect()
    }

    /// The values of one part of a ciphertext over one prime, at all roots.
    fn values(&self, ciphertext: &Ciphertext, index: usize) -> Vec<u64> {
        let bytes = wire::encode_ciphertext(ciphertext).unwrap();
        assert_eq!(ciphertext.level(), 1);
        let part = self.element_bytes(1);
        unpack(&bytes[bytes.len() - (2 - index) * part..], self.primes(1)[0].modulus(), self.parameters.degree())
    }

    fn element_bytes(&self, level: usize) -> usize {
        self.primes(level).iter().map(|prime| self.parameters.degree() * prime.modulus().bits() as usize / 8).sum()
    }

    /// The bytes of the element with these residues.
    fn element(&self, level: usize, residues: impl Fn(&Ntt) -> Vec<u64>) -> Vec<u8> {
        self.primes(level).iter().flat_map(|prime| pack(&residues(prime), prime.modulus())).collect()
    }

    /// A ciphertext with another second part. A client can compute it, but cannot send it.
    fn with_second(&self, ciphertext: &Ciphertext, residues: impl Fn(&Ntt) -> Vec<u64>) -> Ciphertext {
        let mut bytes = wire::encode_ciphertext(ciphertext).unwrap();
        let second = self.element(ciphertext.level(), residues);
        let start = bytes.len() - second.len();
        bytes[start..].copy_from_slice(&second);
        wire::decode_ciphertext(&bytes, &self.parameters).unwrap()
    }

    /// A query whose phase is larger by the constant `(Q - Q mod 2^k) / 2^k`: well-formed bytes
    /// that are not an encryption.
    fn with_phase(&self, query: &SeededCiphertext, k: u32) -> SeededCiphertext {
        let mut bytes = wire::encode_seeded_ciphertext(query);
        let (primes, degree) = (self.primes(self.parameters.data_primes()), self.parameters.degree());
        let mut at = bytes.len() - self.element_bytes(primes.len());
        let low = primes.iter().fold(1u64, |low, prime| low.wrapping_mul(prime.modulus().value())) % (1 << k);
        for q in primes.iter().map(Ntt::modulus) {
            let more = q.neg(q.mul(low, q.inverse(1 << k).unwrap()));
            let changed: Vec<u64> = unpack(&bytes[at..], q, degree).iter().map(|value| q.add(*value, more)).collect();
            let changed = pack(&changed, q);
            bytes[at..at + changed.len()].copy_from_slice(&changed);
            at += changed.len();
        }
        wire::decode_seeded_ciphertext(&bytes, &self.parameters).unwrap()
    }
}

fn unpack(bytes: &[u8], q: &Modulus, degree: usize) -> Vec<u64> {
    let bits = q.bits() as usize;
    let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
    (0..degree).map(|i| (0..bits).fold(0, |value, b| value | bit(i * bits + b) << b)).collect()
}

fn pack(values: &[u64], q: &Modulus) -> Vec<u8> {
    let bits = q.bits() as usize;
    let mut bytes = vec![0; values.len() * bits / 8];
    for (i, value) in values.iter().enumerate() {
        (0..bits).for_each(|b| bytes[(i * bits + b) / 8] |= ((value >> b & 1) as u8) << ((i * bits + b) % 8));
    }
    bytes
}

/// The knowledge of a client that sees through all masks of a block.
struct Opened {
    /// The mask of the first limb in the first output, by slot.
    masks: Vec<u64>,
    /// The entries, in an order without meaning.
    entries: Vec<Entry>,
}

/// Uses repeated masks: the answer to `e_j` minus the answer to zero is a column of them, and the
/// answer to zero is then `-M K`.
fn opened(bench: &Bench, entries: &[Vec<Entry>], (layout, limbs): (&Layout, usize), seed: u64) -> Opened {
    let t = &bench.t;
    let asked = |number| {
        let query = bench.query(number, (layout, limbs), seed + 1_000);
        let answer = bench.answer(&query, entries, (layout, limbs), seed);
        answer.iter().map(|part| bench.open(part)).collect::<Vec<_>>()
    };
    let zero = asked([0, 0]);
    let columns: Vec<_> = [[1, 0], [0, 1]][..limbs].iter().map(|unit| asked(*unit)).collect();
    let mask = |row: usize, column: usize, slot: usize| t.sub(columns[column][row][slot], zero[row][slot]);
    let entry = |slot: usize| {
        let inverse = |value| t.inverse(value).unwrap();
        let key: Key = match limbs {
            _ if (0..limbs).all(|column| mask(0, column, slot) == 0) => return None,
            1 => [t.neg(t.mul(zero[0][slot], inverse(mask(0, 0, slot)))), 0],
            _ => {
                let [a, b, c, d] = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(row, column)| mask(row, column, slot));
                let scale = t.neg(inverse(t.sub(t.mul(a, d), t.mul(b, c))));
                let [x, y] = [zero[0][slot], zero[1][slot]];
                [t.sub(t.mul(d, x), t.mul(b, y)), t.sub(t.mul(a, y), t.mul(c, x))].map(|value| t.mul(scale, value))
            }
        };
        let count =
            (0..limbs).fold(zero[limbs][slot], |sum, limb| t.add(sum, t.mul(mask(limbs, limb, slot), key[limb])));
        Some(Entry { key, count })
    };
    let entries = (0..layout.slots()).filter_map(entry).collect();
    Opened { masks: (0..layout.slots()).map(|slot| mask(0, 0, slot)).collect(), entries }
}

fn numbers(entries: &[Entry]) -> BTreeSet<(Key, u64)> {
    entries.iter().map(|entry| (entry.key, entry.count)).collect()
}

/// The attack works, as `book/src/explanation/threats/search.md` says: it shows two or three bits
/// of every coefficient of a mask, because the flood fills the modulus except for two to three
/// bits. Two bits are almost always read right, and the fourth is not.
#[test]
fn a_constant_phase_shows_two_or_three_bits_of_every_mask_and_not_four() {
    for (set, limbs) in [("search", 1), ("search-17", 1), ("search-23", 1), ("search-40", 2)] {
        let bench = Bench::new(set);
        let layout = Layout::new(Shape::Word { bits: 1 }, bench.matcher.slots(), |_| 1);
        let entry = |i| Entry { key: [5 * i % 60_000 + 1, 7 * (limbs as u64 - 1)], count: 1 };
        let entries = [(0..bench.matcher.slots() as u64).map(entry).collect::<Vec<_>>()];
        let opened = opened(&bench, &entries, (&layout, limbs), 10);
        let masks: Vec<i64> = opened.masks.iter().map(|mask| bench.t.centred(*mask)).collect();
        let masks = bench.encoder().encode(&masks).unwrap();
        let right = |k: u32| {
            let mut query = bench.query([0, 0], (&layout, limbs), 20);
            query[0] = bench.with_phase(&query[0], k);
            let answer = bench.answer(&query, &entries, (&layout, limbs), 10);
            let q = i128::from(bench.primes(1)[0].modulus().value());
            let read = |phase: &i64| ((i128::from(*phase) << k) + q / 2).div_euclid(q).rem_euclid(1 << k) as i64;
            let found = bench.phase(&answer[0]);
            let same = found.iter().zip(masks.coefficients()).filter(|(phase, r)| read(phase) == r.rem_euclid(1 << k));
            same.count() as f64 / bench.parameters.degree() as f64
        };
        let [one, two, three, four] = [1, 2, 3, 4].map(right);
        assert!(one > 0.99 && two > 0.95 && three > 0.7 && four < 0.7, "{set}: {one}, {two}, {three}, {four}");
    }
}

/// Pearson's statistic of numbers below `t` in 16 classes; its 99.99th percentile with 15 degrees
/// of freedom is 44.3.
fn spread(values: impl Iterator<Item = u64>, t: u64) -> f64 {
    let mut classes = [0f64; 16];
    values.for_each(|value| classes[(u128::from(value) * 16 / u128::from(t)) as usize] += 1.0);
    let expected = classes.iter().sum::<f64>() / 16.0;
    classes.iter().map(|found| (found - expected).powi(2) / expected).sum()
}

fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    let [a, b] = [pairs.iter().map(|pair| pair.0).sum::<f64>() / n, pairs.iter().map(|pair| pair.1).sum::<f64>() / n];
    let sum = |of: fn(f64, f64) -> f64| pairs.iter().map(|pair| of(pair.0 - a, pair.1 - b)).sum::<f64>();
    sum(|x, y| x * y) / (sum(|x, _| x * x) * sum(|_, y| y * y)).sqrt()
}

/// The worst malformed query, for a table without labels and a table with labels.
#[test]
fn seeing_through_all_masks_gives_a_table_but_of_one_with_labels_only_what_was_evaluated() {
    let bench = Bench::new("search-40");
    let (t, haplotypes) = (&bench.t, mosaic(150, 300, 31));
    let panel = panel(&haplotypes);
    let starts: Vec<u32> = (0..20).map(|place| 13 * place).collect();
    let (shape, length) = (Shape::Pattern { places: 20, length: 40 }, 40);
    let layout = layout(&panel, shape, &starts, bench.matcher.slots());
    let keys = Keys::new(t, shape, &TABLE);
    assert_eq!((layout.blocks(), keys.limbs()), (1, 2));

    let table = keys.of_panel(&panel, &starts, 1).unwrap();
    let plain = opened(&bench, &table, (&layout, 2), 40);
    assert_eq!(numbers(&plain.entries), numbers(&table[0]), "all of the table");

    let entries = labeller(7).of_panel(&panel, shape, &starts, 1).unwrap();
    let labelled = opened(&bench, &entries, (&layout, 2), 41).entries;
    assert_eq!(numbers(&labelled), numbers(&entries[0]), "masks hide nothing from this client");
    // the number of patterns does not show
    let most = panel.most_patterns(length).unwrap() as usize;
    assert_eq!(labelled.len(), starts.len() * most);
    assert!(table[0].len() < labelled.len() - 100, "{} of {}", table[0].len(), labelled.len());
    // no public number of a pattern in the table has a limb among the extracted numbers
    let limbs: BTreeSet<u64> = labelled.iter().flat_map(|entry| entry.key).collect();
    assert!(table[0].iter().all(|entry| entry.key.iter().all(|limb| !limbs.contains(limb))));
    // numbers are uniform, and so are the extracted counts, although most counts are one
    for limb in 0..LIMBS {
        assert!(spread(labelled.iter().map(|entry| entry.key[limb]), t.value()) < 44.3);
    }
    assert!(spread(labelled.iter().map(|entry| entry.count), t.value()) < 44.3);
    assert!(spread(table[0].iter().map(|entry| entry.count), t.value()) > 10_000.0, "which tells them from others");
    // even with the pattern of each entry known, numbers and counts do not correlate with the
    // extracted ones
    let by_key: BTreeMap<Key, u64> = labelled.iter().map(|entry| (entry.key, entry.count)).collect();
    let secret = Secret::random(&mut rng(7));
    let (mut counts, mut firsts) = (Vec::new(), Vec::new());
    for (place, start) in starts.iter().enumerate() {
        for (pattern, count) in panel.patterns(*start as usize, length).unwrap() {
            let input = labels::window_input(&TABLE, *start, length, pattern);
            let label = Label::new(secret.outputs(&[input]).remove(0));
            let extracted = by_key[&label.key(t)];
            assert_eq!(t.sub(extracted, label.pad(t)), u64::from(count), "one evaluation opens one entry");
            counts.push((f64::from(count), extracted as f64));
            firsts.push((keys.of_pattern(place, pattern, length)[0] as f64, label.key(t)[0] as f64));
        }
    }
    let level = 4.0 / (counts.len() as f64).sqrt();
    assert!(correlation(&counts).abs() < level && correlation(&firsts).abs() < level);
    // the same table under another key has no number or count in common, so a changed count does
    // not show
    let later = labeller(8).of_panel(&panel, shape, &starts, 1).unwrap().remove(0);
    assert!(later.iter().all(|entry| entry.key.iter().all(|limb| !limbs.contains(limb))));
    assert!(later.iter().all(|entry| by_key.values().all(|count| *count != entry.count)));
}

#[test]
fn a_public_key_without_its_uniform_half_gives_the_masks_and_has_no_bytes() {
    let bench = Bench::new("search");
    let (t, q) = (&bench.t, bench.primes(1)[0].modulus());
    let layout = Layout::new(Shape::Word { bits: 1 }, 4_096, |_| 1);
    let of = (&layout, 1);
    let evaluator = Evaluator::new(&bench.parameters).unwrap();
    let sent = bench.query([5, 0], of, 30);
    // a server that accepts polynomials: c_1 = 1, and encryptions of zero under a = 0, whose second
    // part is t e
    let one = bench.with_second(&sent[0].expand(), |_| vec![1; 4_096]);
    let zero = bench.with_second(&bench.query([0, 0], of, 31)[0].expand(), |prime| {
        let mut error = vec![0; 4_096];
        Seed::from_bytes([4; 32]).stream(Domain::Error, 0).gaussian(&mut error);
        let q = prime.modulus();
        let mut scaled: Vec<u64> = error.iter().map(|e| q.reduce_signed(e * t.value() as i64)).collect();
        prime.forward(&mut scaled);
        scaled
    });
    let masks: Plaintext = bench.encoder().encode(&(0..4_096).map(|i| i * 7 % 65_536 + 1).collect::<Vec<_>>()).unwrap();
    let weak = evaluator.add(&evaluator.mul_plain(&one, &masks).unwrap(), &zero).unwrap();
    let weak = evaluator.to_level(&weak, 1).unwrap();
    // the divisor of the change of modulus
    let gone = bench.primes(2)[1..].iter().fold(1, |gone, prime| t.mul(gone, t.reduce(prime.modulus().value())));
    let second = |part: &Ciphertext| {
        let mut values = bench.values(part, 1);
        bench.primes(1)[0].inverse(&mut values);
        values.into_iter().map(|value| t.mul(gone, t.reduce_signed(q.centred(value)))).collect::<Vec<u64>>()
    };
    let r = |masks: &Plaintext| masks.coefficients().iter().map(|r| t.reduce_signed(*r)).collect::<Vec<u64>>();
    assert_eq!(second(&weak), r(&masks));

    // the real protocol, with uniform halves from seeds
    let entries = [vec![Entry { key: [9, 0], count: 1 }; 4_096]];
    let opened = opened(&bench, &entries, of, 32);
    let masks: Vec<i64> = opened.masks.iter().map(|mask| t.centred(*mask)).collect();
    let answer = bench.answer(&sent, &entries, of, 32);
    let pairs = second(&answer[0]).into_iter().zip(r(&bench.encoder().encode(&masks).unwrap()));
    let same = pairs.filter(|(found, r)| found == r).count();
    assert!(same < 5, "{same} of 4096");

    // and a client can send a chosen half neither of a key nor of a query
    let registration = messages::encode_registration(&bench.public);
    let body = bench.element_bytes(2);
    let halves = bench.element(2, |_| vec![0; 4_096]);
    let head = registration.len() - body - 32;
    let refused = |bytes: &[u8]| messages::decode_registration(bytes, &bench.parameters).is_err();
    assert!(!refused(&registration));
    assert!(refused(&[&registration[..head], &registration[head + 32..], &halves].concat()), "b and a");
    assert!(refused(&[&registration[..head], &halves, &registration[head + 32..]].concat()), "a and b");
    assert!(refused(&[&registration[..], &halves].concat()), "a seed, b and a");
    let (shape, mode) = (Shape::Pattern { places: 1, length: 4 }, Mode::Plain);
    let (granularity, starts) = (Granularity::Count, vec![1]);
    let good = Query { table: TABLE, client: [1; 16], granularity, shape, mode, starts, ciphertexts: sent };
    let good = messages::encode_query(&good);
    assert!(messages::decode_query(&good, &bench.parameters).is_ok());
    let ciphertext = wire::encode_ciphertext(&one).unwrap();
    let start = 2 + 32 + 16 + 4 + 4 + 2;
    assert!(messages::decode_query(&[&good[..start], &ciphertext].concat(), &bench.parameters).is_err());
    assert!(messages::decode_query(&[&good[..], &halves].concat(), &bench.parameters).is_err());
    // nor objects with the identity of a key, which would meet those of others
    let identity = Some(MessageError::Object(LatticeWireError::Identity));
    let named = |bytes: &[u8], at: usize| [&bytes[..at], &[2], &bytes[at + 1..]].concat();
    assert_eq!(messages::decode_registration(&named(&registration, 2), &bench.parameters).err(), identity);
    assert_eq!(messages::decode_query(&named(&good, start), &bench.parameters).err(), identity);
}

#[test]
fn a_scan_of_a_table_with_labels_meets_no_more_entries_than_were_evaluated() {
    let bench = Bench::new("search-40");
    let haplotypes = mosaic(150, 100, 33);
    let panel = panel(&haplotypes);
    let (shape, starts, length) = (Shape::Pattern { places: 1, length: 16 }, [30u32], 16);
    let layout = layout(&panel, shape, &starts, bench.matcher.slots());
    let (labeller, secret) = (labeller(7), Secret::random(&mut rng(7)));
    let entries = labeller.of_panel(&panel, shape, &starts, 1).unwrap();
    let there = panel.patterns(30, length).unwrap();
    let (encoder, holder) = (bench.encoder(), Decryptor::new(&bench.secret).unwrap());
    let scan = |numbers: &[Key], round: u64| {
        let limb = |limb: usize| {
            let values: Vec<i64> = numbers.iter().cycle().take(layout.slots()).map(|key| key[limb] as i64).collect();
            encoder.encode(&values).unwrap().encrypt_seeded(holder.key(), 4, &mut rng(round + limb as u64)).unwrap()
        };
        let answer = bench.answer(&[limb(0), limb(1)], &entries, (&layout, 2), round);
        let [first, second] = [0, 1].map(|limb| bench.open(&answer[limb]));
        first.iter().zip(second).filter(|(first, second)| (**first, *second) == (0, 0)).count()
    };
    // every pattern in the table, as a client without evaluations can write it
    let numbers: Vec<Key> =
        there.iter().map(|(pattern, _)| Keys::new(&bench.t, shape, &TABLE).of_pattern(0, *pattern, length)).collect();
    assert!(numbers.len() > 10);
    assert_eq!((0..6).map(|round| scan(&numbers, 100 * round)).max(), Some(0));
    // three evaluated patterns
    let evaluated = there[..3].iter().map(|(pattern, _)| labels::window_input(&TABLE, 30, length, *pattern));
    let outputs = secret.outputs(&evaluated.collect::<Vec<_>>()).into_iter();
    let numbers: Vec<Key> = outputs.map(|output| Label::new(output).key(&bench.t)).collect();
    let hits: Vec<usize> = (0..12).map(|round| scan(&numbers, 7_000 + 100 * round)).collect();
    assert!(hits.iter().all(|hits| *hits <= 3) && hits.iter().sum::<usize>() > 0, "{hits:?}");
    // one number in every slot, as in an honest question
    assert_eq!(scan(&numbers[..1], 9_000), 1);
}

#[test]
fn a_repeated_decoy_does_not_change_the_answer() {
    let haplotypes = mosaic(80, 80, 34);
    let panel = panel(&haplotypes);
    let (mut desk, customer, length) = (SearchService::new(Limits::default()), Customer::new(3), 8);
    desk.serve_labelled(panel.clone(), 1, labeller(1));
    customer.register(&mut desk);
    let there = pattern(&haplotypes[3], 20, length);
    for wanted in [there, there ^ 1 << (length - 1), !there & 0xff] {
        let count = panel.count(20, length, wanted).unwrap();
        let expected = if count == 0 { MatchResult::Absent } else { MatchResult::Present(Some(count.into())) };
        for starts in [&[20u32, 35][..], &[20, 20, 20, 35, 35], &[7, 20, 35, 35], &[20]] {
            let shape = Shape::Pattern { places: starts.len(), length };
            let found = customer.ask(&mut desk, &panel, (shape, starts), (20, wanted), Granularity::Count).unwrap();
            assert_eq!(found, expected, "with labels, {starts:?}");
            // by the public rule, where the place's number is that of the place's first occurrence
            let bench = Bench::new("search");
            let keys = Keys::new(&bench.t, shape, &TABLE);
            let index = starts.iter().position(|start| *start == 20).unwrap();
            let (layout, entries) = (layout(&panel, shape, starts, 4_096), keys.of_panel(&panel, starts, 1).unwrap());
            let query = bench.query(keys.of_pattern(index, wanted, length), (&layout, 1), 5);
            let granularity = Granularity::Count;
            let of = (&layout, 1);
            let answer = bench.matcher.answer(&bench.public, &query, &entries, of, granularity, &mut rng(6)).unwrap();
            let found = Asker::new(&bench.secret).unwrap().read(&answer, of).unwrap();
            assert_eq!(found, expected, "{starts:?}");
        }
    }
}

/// The statistic of two samples, in 64 classes of equal size for both together. Its 99.99th
/// percentile with 63 degrees of freedom is 113.7.
fn two_samples(a: &[i64], b: &[i64]) -> f64 {
    let mut all: Vec<i64> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    let class = |value: &i64| all.partition_point(|other| other < value) * 64 / all.len();
    let mut classes = [[0f64; 2]; 64];
    a.iter().for_each(|value| classes[class(value)][0] += 1.0);
    b.iter().for_each(|value| classes[class(value)][1] += 1.0);
    let [first, second] = [a.len() as f64, b.len() as f64].map(|count| count / all.len() as f64);
    let part = |[a, b]: &[f64; 2]| match a + b {
        0.0 => 0.0,
        sum => (a - sum * first).powi(2) / (sum * first) + (b - sum * second).powi(2) / (sum * second),
    };
    classes.iter().map(part).sum()
}

/// The measurable part, with 24,576 samples. [`Matcher::distance`] is the bound itself.
#[test]
fn the_noise_of_answers_with_and_without_a_match_is_the_same_and_a_key_is_used_no_more_than_is_stated() {
    let bench = Bench::new("search");
    let layout = Layout::new(Shape::Word { bits: 1 }, 4_096, |_| 1);
    let t = bench.t.value() as i64;
    let error = |part: &Ciphertext| {
        let whole = |phase: i64| (phase - bench.t.centred(bench.t.reduce_signed(phase))) / t;
        bench.phase(part).into_iter().map(whole).collect::<Vec<i64>>()
    };
    let sample = |entries: Vec<Entry>, part: usize, seed: u64| {
        let entries = [entries];
        let one = |round| {
            let query = bench.query([30_000, 0], (&layout, 1), seed + round);
            error(&bench.answer(&query, &entries, (&layout, 1), seed + 50 + round)[part])
        };
        (0..6).flat_map(one).collect::<Vec<i64>>()
    };
    let entries = |first: u64| (0..4_000).map(|i| Entry { key: [first + i, 0], count: 1 }).collect::<Vec<_>>();
    for part in 0..2 {
        let matching = sample(entries(30_000), part, 1_000);
        for (other, seed) in [(entries(30_001), 2_000), (Vec::new(), 3_000)] {
            let found = two_samples(&matching, &sample(other, part, seed));
            assert!(found < 113.7, "{found}");
        }
    }
    // the test detects a flood with one bit less
    let (evaluator, bits) = (Evaluator::new(&bench.parameters).unwrap(), bench.matcher.flood_bits() - 1);
    let query = bench.query([1, 0], (&layout, 1), 1)[0].expand();
    let narrow = (0..6).flat_map(|seed| {
        let flooded = evaluator.flood(&query, &bench.public, bits, &mut rng(seed)).unwrap();
        error(&evaluator.to_level(&flooded, 1).unwrap())
    });
    let found = two_samples(&narrow.collect::<Vec<_>>(), &sample(Vec::new(), 0, 4_000));
    assert!(found > 1_000.0, "{found}");
    // all uses of a key together
    let uses = f64::from(Limits::default().uses).log2();
    for (set, limbs) in [("search", 1), ("search-17", 1), ("search-23", 1), ("search-40", 2)] {
        let bench = Bench::new(set);
        let query = bench.query([1, 0], (&Layout::new(Shape::Word { bits: 1 }, 1, |_| 1), 1), 1);
        let total = bench.matcher.distance(&query[0], limbs) + uses;
        assert!(total < -36.0, "{set}: 2^{total}");
    }
}

/// The attack works, as `book/src/explanation/threats/search.md` says, with labels too.
#[test]
fn a_server_that_says_that_something_is_there_is_believed() {
    let bench = Bench::new("search-40");
    let layout = Layout::new(Shape::Word { bits: 1 }, bench.matcher.slots(), |_| 1);
    let of = (&layout, 2);
    let secret = Secret::random(&mut rng(7));
    let input = labels::window_input(&TABLE, 20, 8, 0b1011);
    let label = Label::new(secret.outputs(&[input]).remove(0));
    let plain = Entry { key: Keys::new(&bench.t, Shape::Word { bits: 70 }, &TABLE).of_number(1 << 69), count: 77 };
    for (entry, labels) in [(plain, vec![]), (label.entry(77, &bench.t), vec![label])] {
        let query = bench.query(entry.key, of, 3);
        let answered = |entries: Vec<Entry>| {
            let granularity = Granularity::Count;
            let answer = bench.matcher.answer(&bench.public, &query, &[entries], of, granularity, &mut rng(4)).unwrap();
            let found = Asker::new(&bench.secret).unwrap().read(&answer, of).unwrap();
            if labels.is_empty() { found } else { labels::uncover(found, &labels, &bench.t) }
        };
        assert_eq!(answered(vec![]), MatchResult::Absent);
        assert_eq!(answered(vec![entry]), MatchResult::Present(Some(77)));
    }
}
