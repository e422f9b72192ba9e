//! A panel, and a client of a table with labels that asks with bytes.

#![allow(dead_code, reason = "each test takes what it needs")]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::{Modulus, Seed};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_search::client::{Asker, MatchResult};
use tobari_search::desk::{Refusal, SearchService};
use tobari_search::messages::{self, Query};
use tobari_search::oprf::function::{Blinding, Secret};
use tobari_search::oprf::labels::{self, Label, Labeller};
use tobari_search::oprf::messages::{self as oprf_messages, Evaluation};
use tobari_search::oprf::{LIMBS, Mode, Revision};
use tobari_search::panel::{Panel, Pattern};
use tobari_search::program::{Key, Layout, Shape};
use tobari_search::server::Granularity;

/// The name of the table.
pub(crate) const TABLE: [u8; 32] = [1; 32];

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(bytes)
}

/// Haplotypes that are mosaics of a few founders, with rare mutations (Li and Stephens's model).
pub(crate) fn mosaic(haplotypes: usize, sites: usize, seed: u64) -> Vec<Vec<bool>> {
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

pub(crate) fn panel(haplotypes: &[Vec<bool>]) -> Panel {
    let mut panel = Panel::new(haplotypes.len()).unwrap();
    for site in 0..haplotypes[0].len() {
        panel.push(&haplotypes.iter().map(|haplotype| haplotype[site]).collect::<Vec<_>>()).unwrap();
    }
    panel
}

pub(crate) fn pattern(haplotype: &[bool], start: usize, length: usize) -> Pattern {
    (0..length).fold(0, |pattern, i| pattern | Pattern::from(haplotype[start + i]) << i)
}

/// A labeller with a key from a seed, and room for 16 MiB of labels.
pub(crate) fn labeller(seed: u64) -> Labeller {
    Labeller::new(&TABLE, Secret::random(&mut rng(seed)), 1 << 24).unwrap()
}

/// The set of parameters of every question with labels.
pub(crate) fn set() -> NamedSet {
    Mode::Labelled([0; 16]).set(Shape::Word { bits: 1 }, 1).unwrap()
}

/// The layout of a question at a desk.
pub(crate) fn layout(panel: &Panel, shape: Shape, starts: &[u32], slots: usize) -> Layout {
    let mut different = starts.to_vec();
    different.dedup();
    Layout::new(shape, slots, |sites| different.len() * panel.most_patterns(sites).unwrap() as usize)
}

/// A client.
pub(crate) struct Customer {
    pub(crate) name: [u8; 16],
    pub(crate) secret: SecretKey,
    pub(crate) t: Modulus,
}

impl Customer {
    pub(crate) fn new(name: u8) -> Self {
        let secret = SecretKey::from_seed(&set().parameters().unwrap(), Seed::random(&mut rng(name.into())));
        Self { name: [name; 16], secret, t: Modulus::new(set().plaintext_modulus.unwrap()).unwrap() }
    }

    pub(crate) fn register(&self, desk: &mut SearchService) {
        let public = PublicKey::generate(&self.secret, &mut rng(50));
        desk.register(self.name, set().name, &messages::encode_registration(&public)).unwrap();
    }

    /// Has inputs evaluated.
    pub(crate) fn evaluate(
        &self,
        desk: &mut SearchService,
        inputs: Vec<Vec<u8>>,
    ) -> Result<(Revision, Vec<Label>), Refusal> {
        let blinding = Blinding::new(inputs, &mut rng(60)).unwrap();
        let elements = blinding.elements().to_vec();
        let request = Evaluation { table: TABLE, client: self.name, elements };
        let bytes = oprf_messages::encode_evaluation(&request);
        assert_eq!(oprf_messages::decode_evaluation(&bytes).unwrap(), request);
        let (answer, asked) = desk.evaluate(&bytes)?;
        assert_eq!((asked.client, asked.table, asked.elements), (self.name, TABLE, request.elements.len()));
        let evaluated = oprf_messages::decode_evaluated(&answer).unwrap();
        let outputs = blinding.finish(&evaluated.elements).unwrap();
        Ok((evaluated.revision, outputs.into_iter().map(Label::new).collect()))
    }

    /// A query for these labels.
    pub(crate) fn query(
        &self,
        (shape, starts): (Shape, &[u32]),
        mode: Mode,
        numbers: &[Key],
        (layout, granularity): (&Layout, Granularity),
    ) -> Vec<u8> {
        let asker = Asker::new(&self.secret).unwrap();
        let ciphertexts = asker.query(numbers, (layout, LIMBS), &mut rng(61)).unwrap();
        let (client, starts) = (self.name, starts.to_vec());
        messages::encode_query(&Query { table: TABLE, client, granularity, shape, mode, starts, ciphertexts })
    }

    /// Asks a complete question: has its labels evaluated, asks, and reads.
    pub(crate) fn ask(
        &self,
        desk: &mut SearchService,
        panel: &Panel,
        (shape, starts): (Shape, &[u32]),
        (start, pattern): (u32, Pattern),
        granularity: Granularity,
    ) -> Result<MatchResult, Refusal> {
        let (revision, labels) = self.evaluate(desk, labels::inputs(&TABLE, shape, start, pattern))?;
        let layout = layout(panel, shape, starts, self.secret.parameters().degree());
        let numbers: Vec<Key> = labels.iter().map(|label| label.key(&self.t)).collect();
        let query = self.query((shape, starts), Mode::Labelled(revision), &numbers, (&layout, granularity));
        let (answer, _) = desk.answer(&query, &mut rng(62))?;
        let blocks = messages::decode_answer(&answer, self.secret.parameters()).unwrap();
        let found = Asker::new(&self.secret).unwrap().read(&blocks, (&layout, LIMBS)).unwrap();
        Ok(labels::uncover(found, &labels, &self.t))
    }
}
