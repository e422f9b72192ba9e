//! The paper's algorithm: its counts on plaintext and under encryption, and its costs.

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use std::sync::Arc;
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::{Modulus, Seed};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::engine::Direct;
use tobari_plan::program::Op;
use tobari_search::panel::{Panel, Pattern};
use tobari_search::pbwt::client::{self, ClientError};
use tobari_search::pbwt::maps::Maps;
use tobari_search::pbwt::program::{self, Input, Inputs};
use tobari_search::pbwt::{Layout, PbwtError, SET, Size};

/// 32 slots in a row, and counts up to 256.
fn toy() -> LatticeParameters {
    let t = Plaintext::Integers(Modulus::new(257).unwrap());
    LatticeParameters::insecure_of_sizes(64, &[50; 15], &[50, 50], 8, t).unwrap()
}

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Alleles by site and haplotype. Neighbours are often alike, so that patterns occur more than
/// once.
fn alleles(haplotypes: usize, sites: usize, rng: &mut ChaCha20Rng) -> Vec<Vec<bool>> {
    let founders: Vec<Vec<bool>> = (0..3).map(|_| (0..sites).map(|_| rng.next_u32() % 2 == 1).collect()).collect();
    let ancestors: Vec<usize> = (0..haplotypes).map(|_| rng.next_u32() as usize % founders.len()).collect();
    let mut allele = |ancestor: &usize, site: usize| founders[*ancestor][site] ^ rng.next_u32().is_multiple_of(8);
    (0..sites).map(|site| ancestors.iter().map(|ancestor| allele(ancestor, site)).collect()).collect()
}

/// A search of windows, the window of the question, and the plain transform's count there.
struct Search {
    layout: Layout,
    maps: Maps,
    place: usize,
    pattern: Vec<bool>,
    expected: u64,
}

impl Search {
    fn new(parameters: &LatticeParameters, size: Size, rng: &mut ChaCha20Rng) -> Self {
        let layout = Layout::new(parameters, size).unwrap();
        let panel = alleles(size.haplotypes, size.length + 3 * size.places, rng);
        let windows: Vec<Vec<Vec<bool>>> =
            (0..size.places).map(|place| panel[3 * place..][..size.length].to_vec()).collect();
        let place = rng.next_u32() as usize % size.places;
        // the pattern of a haplotype, or that pattern with its last allele changed
        let one = rng.next_u32() as usize % size.haplotypes;
        let strange = rng.next_u32().is_multiple_of(4);
        let mut pattern: Vec<bool> = windows[place].iter().map(|site| site[one]).collect();
        pattern[size.length - 1] ^= strange;
        let mut plain = Panel::new(size.haplotypes).unwrap();
        panel.iter().for_each(|site| plain.push(site).unwrap());
        let bits = pattern.iter().enumerate().fold(0, |all, (i, allele)| all | Pattern::from(*allele) << i);
        let expected = u64::from(plain.count(3 * place, size.length, bits).unwrap());
        Self { maps: Maps::new(&layout, &windows).unwrap(), layout, place, pattern, expected }
    }

    /// The slots at the end of the program, computed on plaintext.
    fn clear(&self, t: u64) -> Vec<i64> {
        let engine = ClearEngine { arithmetic: Arithmetic::Modulo(t), rows: 2, columns: self.layout.columns() };
        let value = |input| {
            let slots = match input {
                Input::Symbol(site) => Some(client::slots(&self.layout, self.place, self.pattern[site]).unwrap()),
                other => self.maps.slots(other),
            };
            let value = slots.map_or(ClearValue::Key, |slots| engine.integers(&slots).unwrap());
            Ok::<_, PbwtError>(Arc::new(value))
        };
        let inputs = Inputs::new(&self.layout, value).unwrap();
        match &*program::program(&mut Direct::new(&engine), &self.layout, &inputs).unwrap() {
            ClearValue::Integers(slots) => slots.clone(),
            _ => Vec::new(),
        }
    }

    /// The answer's ciphertext, and the key that reads it.
    fn encrypted(&self, parameters: &LatticeParameters, rng: &mut ChaCha20Rng) -> (SecretKey, Arc<BgvValue>) {
        let secret = SecretKey::from_seed(parameters, Seed::random(rng));
        let public = PublicKey::generate(&secret, rng);
        let engine = BgvEngine::new(parameters, Some(public), rng).unwrap();
        let value = |input| {
            if let Input::Symbol(site) = input {
                let allele = self.pattern[site];
                let symbol = client::symbol(&self.layout, &secret, self.place, site, allele, rng).unwrap();
                return engine.ciphertext(symbol.expand()).map(Arc::new);
            }
            if let Some(key) = client::key(&self.layout, &secret, input, rng) {
                return engine.key(key).map(Arc::new);
            }
            let level = match input {
                Input::Map { site, .. } => self.layout.level(site),
                Input::Last => self.layout.level(self.pattern.len() - 1),
                _ => self.layout.level(0),
            };
            engine.compact(&self.maps.slots(input).unwrap(), level).map(Arc::new)
        };
        let inputs = Inputs::new(&self.layout, value).unwrap();
        let answer = program::program(&mut Direct::new(&engine), &self.layout, &inputs).unwrap();
        (secret, answer)
    }
}

#[test]
fn every_length_counts_what_the_plain_transform_counts() {
    let mut rng = rng(1);
    for length in 1..=10 {
        for haplotypes in [1, 2, 3, 5, 8, 13, 16, 30, 32] {
            let places = 32 / usize::next_power_of_two(haplotypes).max(2);
            for places in [1, places] {
                let search = Search::new(&toy(), Size { haplotypes, places, length }, &mut rng);
                let slots = search.clear(257);
                let stride = search.layout.stride();
                for (slot, found) in slots.iter().enumerate() {
                    let place = slot % search.layout.columns() % stride;
                    let expected = if place == search.place { search.expected } else { 0 };
                    assert_eq!(*found as u64, expected, "{length} sites of {haplotypes}, slot {slot}");
                }
            }
        }
    }
}

#[test]
fn large_panels_count_right_in_the_clear() {
    let parameters = NamedSet::from_name(SET).unwrap().parameters().unwrap();
    let size = Size { haplotypes: 300, places: 7, length: 6 };
    let searches: Vec<Search> = (2..5).map(|seed| Search::new(&parameters, size, &mut rng(seed))).collect();
    for search in &searches {
        assert_eq!(search.clear(65_537)[search.place] as u64, search.expected);
    }
    assert!(searches.iter().any(|search| search.expected > 1));
}

#[test]
fn what_is_encrypted_counts_what_is_clear() {
    let (parameters, mut rng) = (toy(), rng(3));
    for length in 1..=10 {
        for haplotypes in [1, 6, 16, 31] {
            let search = Search::new(&parameters, Size { haplotypes, places: 1, length }, &mut rng);
            let (secret, answer) = search.encrypted(&parameters, &mut rng);
            let answer = answer.as_ciphertext().unwrap();
            let found = client::count(&search.layout, &secret, search.place, answer).unwrap();
            assert_eq!(found, search.expected, "{length} sites of {haplotypes}");
            assert_eq!(found, search.clear(257)[search.place] as u64);
            assert!(answer.noise_budget() > 0.0 && answer.level() == 2);
        }
    }
}

#[test]
fn ten_symbols_under_the_real_parameters_leave_room_for_the_flood() {
    let (parameters, mut rng) = (NamedSet::from_name(SET).unwrap().parameters().unwrap(), rng(4));
    let search = Search::new(&parameters, Size { haplotypes: 7, places: 3, length: 10 }, &mut rng);
    let (secret, answer) = search.encrypted(&parameters, &mut rng);
    let answer = answer.as_ciphertext().unwrap();
    assert_eq!(client::count(&search.layout, &secret, search.place, answer).unwrap(), search.expected);
    assert!(answer.noise_budget() > 0.0);
}

#[test]
fn what_runs_depends_on_sizes_alone() {
    let (parameters, mut rng) = (toy(), rng(5));
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let public = PublicKey::generate(&secret, &mut rng);
    let engine = BgvEngine::new(&parameters, Some(public), &mut rng).unwrap();
    let layout = Layout::new(&parameters, Size { haplotypes: 16, places: 2, length: 5 }).unwrap();
    let (program, inputs) = program::record(&engine, &layout).unwrap();
    assert_eq!(inputs.len(), program.inputs().len());
    let count = |wanted: fn(&Op) -> bool| program.steps().iter().filter(|step| wanted(&step.op)).count();
    let giants = 17usize.div_ceil(layout.babies());
    assert_eq!(count(|op| *op == Op::Dot), 3 * giants);
    assert_eq!(count(|op| *op == Op::Mul), 4 + 2, "a product a symbol after the first, and two masks");
    assert_eq!(count(|op| matches!(op, Op::RotateHoisted(_))), 3 * (layout.babies() - 1));
    assert_eq!(inputs.iter().filter(|input| matches!(input, Input::Map { .. })).count(), 3 * 17);
    assert!(matches!(program.steps().last().unwrap().op, Op::Flood(_)));
}

#[test]
fn windows_and_questions_of_other_sizes_are_refused() {
    let layout = Layout::new(&toy(), Size { haplotypes: 4, places: 2, length: 3 }).unwrap();
    let window = |sites: usize, haplotypes: usize| vec![vec![false; haplotypes]; sites];
    let refused = |windows: &[Vec<Vec<bool>>]| Maps::new(&layout, windows).map(|_| ()).unwrap_err();
    assert!(matches!(refused(&[window(3, 4)]), PbwtError::Window { what: "places", .. }));
    assert!(matches!(refused(&[window(3, 4), window(2, 4)]), PbwtError::Window { what: "sites", .. }));
    assert!(matches!(refused(&[window(3, 4), window(3, 5)]), PbwtError::Window { what: "haplotypes", .. }));
    assert!(matches!(client::slots(&layout, 2, true), Err(PbwtError::Places { .. })));
    let secret = SecretKey::from_seed(&toy(), Seed::random(&mut rng(6)));
    let late = client::symbol(&layout, &secret, 0, 3, true, &mut rng(7)).map(|_| ()).unwrap_err();
    assert!(matches!(late, ClientError::Size(PbwtError::Length { most: 3, found: 4 })));
}
