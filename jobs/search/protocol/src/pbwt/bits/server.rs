//! The server's half: maps in plaintext, and the computation on ciphertexts.

use super::super::maps::{Site, windows_of};
use super::network::Diagonals;
use super::{ANSWER, FIRST, Layout, PbwtError, REFRESHED};
use rand_core::CryptoRng;
use tobari_lattice::ckks::{
    Ciphertext, EncodeError, Encoder, Estimate, EvaluationKeys, Evaluator, LinearTransform, OperationError, Scale,
    SeededCiphertext,
};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::refresh::{Refresh, RefreshError, RefreshKeys};
use tobari_lattice::rlwe::{PublicKey, flood_distance};

/// Why a search was not prepared, or not done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Sizes that do not fit.
    #[error(transparent)]
    Size(#[from] PbwtError),
    /// An operation was rejected: keys of others, symbols at other levels.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// A refresh was rejected.
    #[error(transparent)]
    Refresh(#[from] RefreshError),
    /// A map that the encoder rejects.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The number of symbols is not the length of the pattern.
    #[error("expected {expected} symbols, found {found}")]
    Symbols {
        /// The length of the pattern.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// The answer has no room for a flood that hides how it was computed.
    #[error("expected room for a flood of 2^{least} and more, found room for 2^{found}")]
    Flood {
        /// Bits of the old error, and of the distance.
        least: u32,
        /// Bits of the flood that fits.
        found: u32,
    },
}

/// An answer is within the statistical distance `2^-36` of one that depends on the count alone,
/// over all coefficients together, at least.
pub const FLOOD_MARGIN: u32 = 36;

/// The keys that a client makes for a server.
pub struct Keys {
    pub(super) refresh: RefreshKeys,
    pub(super) maps: EvaluationKeys,
    pub(super) public: PublicKey,
}

impl Keys {
    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        self.refresh.memory() + self.maps.memory()
    }
}

/// An answer, and what is known about it.
pub struct Answer {
    /// The count, in every slot of its place.
    pub count: Ciphertext,
    /// The largest bound on an error of a bit, before any refresh and after it.
    pub worst: [f64; 2],
    /// The answer is within `2^-margin` of one that depends on the count alone, in statistical
    /// distance over all coefficients together.
    pub margin: u32,
}

/// A panel, prepared.
pub struct Server {
    layout: Layout,
    refresh: Refresh,
    evaluator: Evaluator,
    encoder: Encoder,
    /// Sites, by window.
    windows: Vec<Vec<Site>>,
}

impl Server {
    /// Prepares the windows: by place a list of sites, each with its alleles by haplotype.
    ///
    /// # Errors
    /// [`ServerError`] for windows of other sizes, or parameters that do not fit.
    pub fn new(
        parameters: &LatticeParameters,
        layout: &Layout,
        windows: &[Vec<Vec<bool>>],
    ) -> Result<Self, ServerError> {
        Ok(Self {
            layout: *layout,
            refresh: layout.refresh(parameters)?,
            evaluator: Evaluator::new(parameters)?,
            encoder: Encoder::new(parameters)?,
            windows: windows_of(layout.size(), layout.period(), windows)?,
        })
    }

    /// The refresh, of which a client makes keys.
    pub fn refresh(&self) -> &Refresh {
        &self.refresh
    }

    /// Bytes of the refresh in memory.
    pub fn memory(&self) -> usize {
        self.refresh.memory()
    }

    /// Counts the haplotypes that have the alleles of the symbols. It calls `done` after each site.
    ///
    /// # Errors
    /// [`ServerError`] for symbols or keys that do not fit. Encrypted numbers have no part in it.
    /// Bounds depend on the panel by the rows of its maps alone, of which none exceeds 1.
    pub fn answer(
        &self,
        symbols: &[SeededCiphertext],
        keys: &Keys,
        rng: &mut impl CryptoRng,
        mut done: impl FnMut(usize),
    ) -> Result<Answer, ServerError> {
        let (length, evaluator) = (self.layout.size().length, &self.evaluator);
        if symbols.len() != length {
            return Err(ServerError::Symbols { expected: length, found: symbols.len() });
        }
        let mut worst = [0f64; 2];
        let mut note = |x: &Ciphertext, after: usize| {
            worst[after] = worst[after].max(x.estimate().map_or(f64::INFINITY, Estimate::error));
        };
        let mut interval = match length {
            1 => self.masked(&expanded(&symbols[0]))?,
            _ => self.map(&expanded(&symbols[0]), &self.layout.first(&self.sites(0)), keys)?,
        };
        note(&interval, 0);
        done(0);
        for (site, symbol) in symbols.iter().enumerate().skip(1) {
            let bits = self.refresh.refresh(&interval, &keys.refresh)?;
            note(&bits, 1);
            let selected = evaluator.mul_rescale(&bits, &expanded(symbol), keys.refresh.evaluation())?;
            interval = if site + 1 < length {
                let mut moved = selected;
                for layer in self.layout.network(&self.sites(site)) {
                    moved = self.map(&moved, &layer, keys)?;
                }
                moved
            } else {
                self.masked(&selected)?
            };
            note(&interval, 0);
            done(site);
        }
        let (count, margin) = self.count(&interval, keys, rng)?;
        Ok(Answer { count, worst, margin })
    }

    /// One site of all windows.
    fn sites(&self, site: usize) -> Vec<&Site> {
        self.windows.iter().map(|window| &window[site]).collect()
    }

    /// A map of bits to bits, one level below.
    fn map(&self, a: &Ciphertext, diagonals: &Diagonals, keys: &Keys) -> Result<Ciphertext, ServerError> {
        let repeats = self.encoder.slots() / self.layout.own_slots();
        let all = diagonals.iter().map(|(step, diagonal)| (*step, diagonal.repeat(repeats))).collect();
        let transform = LinearTransform::new(&self.encoder, &all, &Scale::prime(a.level() - 1), a.level())?;
        let mut mapped = self.evaluator.rescale(&self.evaluator.transform(a, &transform, &keys.maps)?)?;
        mapped.declare_magnitude(1.0)?;
        Ok(mapped)
    }

    /// The places at the last site with the right allele.
    fn masked(&self, a: &Ciphertext) -> Result<Ciphertext, ServerError> {
        let repeats = self.encoder.slots() / self.layout.own_slots();
        let slots = self.layout.last(&self.sites(self.layout.size().length - 1)).repeat(repeats);
        let mask = self.encoder.encode(&slots, &Scale::prime(a.level() - 1), a.level())?;
        let mut masked = self.evaluator.rescale(&self.evaluator.mul_plain(a, &mask)?)?;
        masked.declare_magnitude(1.0)?;
        Ok(masked)
    }

    /// The number of bits that are 1, flooded, and the distance.
    fn count(
        &self,
        bits: &Ciphertext,
        keys: &Keys,
        rng: &mut impl CryptoRng,
    ) -> Result<(Ciphertext, u32), ServerError> {
        let evaluator = &self.evaluator;
        let refreshed = self.refresh.refresh(bits, &keys.refresh)?;
        let mut sum = evaluator.clean_bits(&refreshed, keys.refresh.evaluation())?;
        for log in 0..(2 * self.layout.period()).ilog2() {
            let step = (self.layout.stride() << log) as i64;
            sum = evaluator.add(&sum, &evaluator.rotate(&sum, step, &keys.maps)?)?;
        }
        let estimate = *sum.estimate().ok_or(OperationError::NoEstimate)?;
        // the noise: `clean_bits` counts all errors as noise but those of a later decoding
        let flood = self.layout.flood_bits(estimate.scale());
        let distance = flood_distance(estimate.noise_bits().into(), flood);
        let margin = (-distance).max(0.0) as u32;
        if margin < FLOOD_MARGIN {
            return Err(ServerError::Flood { least: estimate.noise_bits() + FLOOD_MARGIN + 1, found: flood });
        }
        let mut answer = evaluator.flood(&sum, &keys.public, flood, rng)?;
        while answer.level() > ANSWER {
            answer = evaluator.rescale(&answer)?;
        }
        Ok((answer, margin))
    }
}

/// A symbol of a client. What it encrypts are bits, or its own count is wrong.
fn expanded(symbol: &SeededCiphertext) -> Ciphertext {
    let mut expanded = symbol.expand();
    expanded.declare(1.0);
    expanded
}

const _: () = assert!(FIRST < REFRESHED, "the first symbol has one map before it");
