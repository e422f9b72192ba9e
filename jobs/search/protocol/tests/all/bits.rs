//! The paper's algorithm on refreshed bits: its counts for any length.

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use tobari_lattice::ckks::{Decryptor, Encoder, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::rlwe::SecretKey;
use tobari_search::pbwt::bits::client::{self, ClientError};
use tobari_search::pbwt::bits::server::{FLOOD_MARGIN, Keys, Server, ServerError};
use tobari_search::pbwt::bits::{Layout, SET};
use tobari_search::pbwt::{PbwtError, Size};

/// The primes of the set, at a degree without security.
fn toy(log_degree: u32) -> LatticeParameters {
    let set = NamedSet::from_name(SET).unwrap();
    let kind = Plaintext::Approximate;
    LatticeParameters::insecure_of_sizes(1 << log_degree, set.data, set.special, set.digits, kind).unwrap()
}

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// A client, a server, and what it holds.
struct Search {
    layout: Layout,
    server: Server,
    keys: Keys,
    secret: SecretKey,
    windows: Vec<Vec<Vec<bool>>>,
    rng: ChaCha20Rng,
}

impl Search {
    fn new(log_degree: u32, size: Size, seed: u64) -> Self {
        let (parameters, mut rng) = (toy(log_degree), rng(seed));
        let layout = Layout::new(&parameters, size).unwrap();
        // few founders, with copies that change
        let founders: Vec<Vec<bool>> =
            (0..3).map(|_| (0..size.length).map(|_| rng.next_u32() % 2 == 1).collect()).collect();
        let ancestors: Vec<usize> = (0..size.haplotypes).map(|_| rng.next_u32() as usize % 3).collect();
        let mut window = || -> Vec<Vec<bool>> {
            let mut allele = |ancestor: usize, site: usize| founders[ancestor][site] ^ (rng.next_u32() % 40 == 0);
            (0..size.length).map(|site| ancestors.iter().map(|ancestor| allele(*ancestor, site)).collect()).collect()
        };
        let windows: Vec<_> = (0..size.places).map(|_| window()).collect();
        let secret = SecretKey::generate(&parameters, &mut rng);
        let server = Server::new(&parameters, &layout, &windows).unwrap();
        let keys = client::keys(&layout, server.refresh(), &secret, &mut rng).unwrap();
        // but for the tables of rotations
        let foretold = server.refresh().keys_memory() + layout.keys_memory(&parameters);
        assert!((foretold..foretold + foretold / 500).contains(&keys.memory()), "{} {foretold}", keys.memory());
        Self { layout, server, keys, secret, windows, rng }
    }

    fn symbols(&mut self, place: usize, pattern: &[bool]) -> Vec<SeededCiphertext> {
        let symbol = |(site, allele): (usize, &bool)| {
            client::symbol(&self.layout, &self.secret, place, site, *allele, &mut self.rng).unwrap()
        };
        pattern.iter().enumerate().map(symbol).collect()
    }

    /// Asks, and checks the count at every place.
    fn check(&mut self, place: usize, pattern: &[bool]) -> u64 {
        let symbols = self.symbols(place, pattern);
        let answer = self.server.answer(&symbols, &self.keys, &mut self.rng, |_| ()).unwrap();
        assert!(answer.margin >= FLOOD_MARGIN && answer.worst[0] < 2f64.powi(-8), "{:?}", answer.worst);
        assert_eq!(answer.count.level(), 2);
        let window = &self.windows[place];
        let has = |haplotype: &usize| window.iter().zip(pattern).all(|(site, allele)| site[*haplotype] == *allele);
        let expected = (0..self.layout.size().haplotypes).filter(has).count() as u64;
        for other in 0..self.layout.size().places {
            let found = client::count(&self.layout, &self.secret, other, &answer.count).unwrap();
            assert_eq!(found, if other == place { expected } else { 0 }, "place {other} of a question at {place}");
        }
        expected
    }

    /// The pattern of a haplotype.
    fn pattern(&self, place: usize, haplotype: usize) -> Vec<bool> {
        self.windows[place].iter().map(|site| site[haplotype]).collect()
    }
}

#[test]
fn every_length_and_panel_is_counted_right() {
    for (length, haplotypes, places) in [(1, 20, 1), (2, 9, 2), (3, 30, 1), (5, 17, 3), (7, 1, 2), (4, 49, 1)] {
        let mut search = Search::new(9, Size { haplotypes, places, length }, length as u64);
        for haplotype in [0, haplotypes - 1] {
            let place = haplotype % places;
            let mut pattern = search.pattern(place, haplotype);
            assert!(search.check(place, &pattern) >= 1);
            pattern[length - 1] ^= true;
            search.check(place, &pattern);
        }
    }
}

/// Four times as many sites as before, and the bound stays where it is after two.
#[test]
fn forty_sites_are_as_exact_as_two() {
    let size = Size { haplotypes: 30, places: 1, length: 40 };
    let mut search = Search::new(9, size, 7);
    let pattern = search.pattern(0, 5);
    assert!(search.check(0, &pattern) >= 1);
    let symbols = search.symbols(0, &pattern);
    let mut seen = Vec::new();
    let answer = search.server.answer(&symbols, &search.keys, &mut search.rng, |site| seen.push(site)).unwrap();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
    assert!(answer.worst[0] < 2f64.powi(-9) && answer.worst[1] < 2f64.powi(-17), "{:?}", answer.worst);
}

/// A client with the key asks one question again and again, of two panels with the same count. It
/// sees the flood, new in each answer, and not the error, which is below 2^-40.
#[test]
fn the_same_question_again_shows_new_floods_and_no_error() {
    let size = Size { haplotypes: 17, places: 2, length: 1 };
    let mut seen = Vec::new();
    for seed in [21, 22] {
        let mut search = Search::new(9, size, seed);
        let pattern = search.pattern(1, 3);
        let symbols = search.symbols(1, &pattern);
        let encoder = Encoder::new(search.secret.parameters()).unwrap();
        let mut sum = 0.0;
        for _ in 0..40 {
            let answer = search.server.answer(&symbols, &search.keys, &mut search.rng, |_| ()).unwrap().count;
            let slots = Decryptor::new(&search.secret, &encoder).unwrap().decrypt(&answer).unwrap();
            let own = slots.iter().skip(1).step_by(2);
            let average = own.sum::<f64>() / (slots.len() / 2) as f64;
            let flood = average - average.round();
            assert!(flood.abs() <= 0.125 + 1e-6, "{flood}");
            sum += flood;
            seen.push(flood);
        }
        // four coefficients of the flood, each up to 1/32 and of a deviation of 1/91, add up to
        // deviations of 1/45
        assert!((sum / 40.0).abs() < 5.0 / 45.0 / 40f64.sqrt(), "{sum}");
    }
    assert!(seen.iter().filter(|flood| flood.abs() > 1.0 / 128.0).count() > 45, "{seen:?}");
    seen.sort_by(f64::total_cmp);
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] > 1e-9), "no flood comes twice");
}

#[test]
fn what_does_not_fit_is_refused() {
    let size = Size { haplotypes: 9, places: 2, length: 3 };
    let mut search = Search::new(9, size, 9);
    let pattern = search.pattern(0, 0);
    let symbols = search.symbols(0, &pattern);
    let refused = search.server.answer(&symbols[..2], &search.keys, &mut search.rng, |_| ()).map(drop);
    assert_eq!(refused, Err(ServerError::Symbols { expected: 3, found: 2 }));
    // symbols in another order are at other levels
    let mut swapped = symbols.clone();
    swapped.swap(0, 1);
    let refused = search.server.answer(&swapped, &search.keys, &mut search.rng, |_| ()).map(drop).unwrap_err();
    assert!(matches!(refused, ServerError::Operation(_) | ServerError::Refresh(_)), "{refused}");
    // another client's keys
    let parameters = search.secret.parameters().clone();
    let stranger = SecretKey::generate(&parameters, &mut search.rng);
    let keys = client::keys(&search.layout, search.server.refresh(), &stranger, &mut search.rng).unwrap();
    let refused = search.server.answer(&symbols, &keys, &mut search.rng, |_| ()).map(drop).unwrap_err();
    assert!(matches!(refused, ServerError::Operation(_)), "{refused}");
    let place = client::symbol(&search.layout, &search.secret, 2, 0, true, &mut search.rng).map(drop);
    assert_eq!(place, Err(ClientError::Size(PbwtError::Places { most: 1, found: 2 })));
    let site = client::symbol(&search.layout, &search.secret, 0, 3, true, &mut search.rng).map(drop);
    assert_eq!(site, Err(ClientError::Size(PbwtError::Length { most: 3, found: 4 })));
    // no count: another key's answer, and a ciphertext that is none
    let answer = search.server.answer(&symbols, &search.keys, &mut search.rng, |_| ()).unwrap().count;
    let wrong = client::count(&search.layout, &stranger, 0, &answer).unwrap_err();
    assert!(matches!(wrong, ClientError::Decrypt(_)), "{wrong}");
    let wrong = client::count(&search.layout, &search.secret, 0, &symbols[0].expand()).unwrap_err();
    assert!(matches!(wrong, ClientError::Count { most: 9, .. }), "{wrong}");
    let integers = NamedSet::from_name("pbwt").unwrap().parameters().unwrap();
    assert_eq!(Layout::new(&integers, size), Err(PbwtError::Approximate));
    let short = Server::new(&parameters, &search.layout, &search.windows[..1]).map(drop);
    assert!(matches!(short, Err(ServerError::Size(PbwtError::Window { what: "places", .. }))));
}
