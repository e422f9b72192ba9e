//! The half that has the table and no key: compares all entries with an encrypted query.
//!
//! **Cost** of a block of `N` slots: four encodings, of which each is one transform modulo `t`, eight products and sums of ciphertexts with
//! plaintexts, two encryptions of zero, two floods and two changes of modulus. What is done does not depend on the query, nor on the
//! entries but for their number.

use super::program::Entry;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::{CryptoRng, Rng};
use tobari_core::bgv::{Ciphertext, EncodeError, Encoder, EvaluateError, Evaluator, Plaintext, SeededCiphertext};
use tobari_core::params::{self, LatticeParameters};
use tobari_core::ring::{Domain, Modulus, Seed};
use tobari_core::rlwe::PublicKey;
use zeroize::Zeroizing;

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Whether it occurs.
    Boolean,
    /// How often.
    Count,
}

/// The answer of one block of slots.
pub struct Block {
    /// `R`: zero in the slot of a match.
    pub equal: Ciphertext,
    /// `V`: the count in that slot.
    pub count: Option<Ciphertext>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// More entries than there is room for.
    #[error("expected at most {most} entries, found {found}")]
    Entries {
        /// Slots of all blocks.
        most: usize,
        /// Entries.
        found: usize,
    },
    /// Parameters that the query or the key is not of.
    #[error("expected a query and a public key of the table's parameters, found others")]
    Parameters,
    /// What the encoder says.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// What the evaluator says.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

/// Compares entries with queries.
pub struct Matcher {
    parameters: LatticeParameters,
    t: Modulus,
    encoder: Encoder,
    evaluator: Evaluator,
    flood_bits: u32,
}

impl Matcher {
    /// For these parameters.
    ///
    /// # Errors
    /// [`AnswerError`] for those of another scheme, or a plaintext modulus without slots.
    pub fn new(parameters: &LatticeParameters) -> Result<Self, AnswerError> {
        let params::Plaintext::Integers(t) = parameters.plaintext() else { return Err(AnswerError::Parameters) };
        let ring = parameters.ring();
        let log2 = |value: u64| (value as f64).log2();
        let modulus: f64 = ring.data_primes().iter().map(|prime| log2(prime.modulus().value())).sum();
        // it stays below a quarter of the modulus: half of what decryption can bear
        let flood_bits = (modulus - 2.0 - log2(t.value())).max(0.0) as u32;
        Ok(Self {
            parameters: parameters.clone(),
            t,
            encoder: Encoder::new(parameters)?,
            evaluator: Evaluator::new(parameters)?,
            flood_bits,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// Slots of a block.
    pub fn slots(&self) -> usize {
        self.encoder.slots()
    }

    /// The plaintext modulus.
    pub fn modulus(&self) -> &Modulus {
        &self.t
    }

    /// Bits of the uniform noise that hides what is left of a query's.
    pub fn flood_bits(&self) -> u32 {
        self.flood_bits
    }

    /// `log2` of a bound on the statistical distance between the noise of two answers to a query that was honestly made, over all coefficients of
    /// a block's two outputs ([`Evaluator::flood`]): the flood over what a product with any plaintext makes of the query's noise.
    pub fn distance(&self, query: &SeededCiphertext) -> f64 {
        let log2 = |value: u64| (value as f64).log2();
        let (degree, t) = (log2(self.parameters.degree() as u64), log2(self.t.value()));
        let worst = query.expand().noise_bound() + degree + t - 1.0;
        worst - t - f64::from(self.flood_bits) - 1.0 + degree + 1.0
    }

    /// Answers a query over so many blocks, at least one, whatever the number of entries: slots that have none look as those without a match.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn answer(
        &self,
        public: &PublicKey,
        query: &SeededCiphertext,
        entries: &[Entry],
        blocks: usize,
        granularity: Granularity,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<Block>, AnswerError> {
        let (slots, most) = (self.slots(), blocks.max(1) * self.slots());
        if entries.len() > most {
            return Err(AnswerError::Entries { most, found: entries.len() });
        }
        let query = query.expand();
        if *query.parameters() != self.parameters || *public.parameters() != self.parameters {
            return Err(AnswerError::Parameters);
        }
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        let mut rng = ChaCha20Rng::from_seed(*seed);
        let places = shuffled(most, entries, &mut rng);
        let block = |entries: &[Option<Entry>]| {
            let equal = self.equal(public, &query, entries, &mut rng)?;
            let count = match granularity {
                Granularity::Boolean => None,
                Granularity::Count => Some(self.count(public, &query, entries, &mut rng)?),
            };
            Ok(Block { equal, count })
        };
        places.chunks(slots).map(block).collect()
    }

    /// `r (q - K)`, and what is uniform and not zero where there is no entry.
    fn equal(
        &self,
        public: &PublicKey,
        query: &Ciphertext,
        entries: &[Option<Entry>],
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, AnswerError> {
        let mut factors = self.uniform(&nonzero(&self.t), rng);
        factors.iter_mut().for_each(|factor| *factor += 1);
        self.masked(
            public,
            query,
            entries,
            &factors,
            |factor, entry| match entry {
                Some(entry) => self.t.neg(self.t.mul(factor, entry.key)),
                None => factor,
            },
            rng,
        )
    }

    /// `c + r' (q - K)`, and what is uniform where there is no entry.
    fn count(
        &self,
        public: &PublicKey,
        query: &Ciphertext,
        entries: &[Option<Entry>],
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, AnswerError> {
        let factors = self.uniform(&self.t, rng);
        self.masked(
            public,
            query,
            entries,
            &factors,
            |factor, entry| match entry {
                Some(entry) => self.t.sub(entry.count, self.t.mul(factor, entry.key)),
                None => factor,
            },
            rng,
        )
    }

    /// `f q + a`, `f` being zero and `a` the factor where there is no entry; with fresh randomness, flooded, over one prime.
    fn masked(
        &self,
        public: &PublicKey,
        query: &Ciphertext,
        entries: &[Option<Entry>],
        factors: &[u64],
        constant: impl Fn(u64, Option<Entry>) -> u64,
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, AnswerError> {
        let both = || factors.iter().zip(entries);
        let times = both().map(|(factor, entry)| if entry.is_some() { *factor as i64 } else { 0 });
        let plus = both().map(|(factor, entry)| constant(*factor, *entry) as i64);
        let [times, plus] = [times.collect(), plus.collect()].map(Zeroizing::<Vec<i64>>::new);
        let [times, plus]: [Result<Plaintext, EncodeError>; 2] =
            [times, plus].map(|values| self.encoder.encode(&values));
        let masked = self.evaluator.add_plain(&self.evaluator.mul_plain(query, &times?)?, &plus?)?;
        let flooded = self.evaluator.flood(&masked, public, self.flood_bits, rng)?;
        Ok(self.evaluator.mod_switch_to(&flooded, 1)?)
    }

    /// As many uniform numbers as slots.
    fn uniform(&self, modulus: &Modulus, rng: &mut impl CryptoRng) -> Zeroizing<Vec<u64>> {
        let mut values = Zeroizing::new(vec![0; self.slots()]);
        Seed::random(rng).stream(Domain::Uniform, 0).uniform(modulus, &mut values);
        values
    }
}

/// The numbers below `t - 1`.
fn nonzero(t: &Modulus) -> Modulus {
    Modulus::new(t.value() - 1).unwrap_or(*t)
}

/// Entries in places of their own, in an order that nobody knows: Fisher and Yates's. A choice among `n` is within `n 2^-64` of uniform.
fn shuffled(places: usize, entries: &[Entry], rng: &mut impl Rng) -> Vec<Option<Entry>> {
    let mut all: Vec<Option<Entry>> = entries.iter().copied().map(Some).collect();
    all.resize(places, None);
    for last in (1..places).rev() {
        let chosen = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        all.swap(last, chosen as usize);
    }
    all
}
