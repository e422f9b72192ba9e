//! The server, who has the table and no key: compares all entries with an encrypted query.
//!
//! With several limbs, `q` and `K` are vectors and `M` is a matrix, uniform among the invertible
//! ones. A sum of one product for each limb would show that a single limb is equal. `M (q - K)` is
//! zero only if all limbs are equal, and otherwise uniform among the nonzero vectors.
//!
//! **Cost** of a block of `N` slots, for `l` limbs and `l + 1` outputs: each output takes `l + 1`
//! encodings of one transform modulo `t` each, `l` products with plaintexts, an encryption of zero,
//! a flood and a change of modulus. The work does not depend on the query. Of the entries it
//! depends only on their number.

use super::arithmetic::Arithmetic;
use super::program::{Entry, Layout};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::{CryptoRng, Rng};
use tobari_lattice::bgv::{Ciphertext, EncodeError, EvaluateError, SeededCiphertext};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::{Domain, Modulus, Seed};
use tobari_lattice::rlwe::{PublicKey, flood_distance};
use zeroize::Zeroizing;

/// What an answer tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Whether the pattern or key occurs.
    Boolean,
    /// How often it occurs.
    Count,
}

/// The answer of one block of slots.
pub struct Block {
    /// `R`, one for each limb: all zero in the slot of a match.
    pub equal: Vec<Ciphertext>,
    /// `V`: the count in that slot.
    pub count: Option<Ciphertext>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// A group has more entries than slots.
    #[error("expected at most {most} entries, found {found}")]
    Entries {
        /// Slots of the group.
        most: usize,
        /// Entries.
        found: usize,
    },
    /// The number of ciphertexts does not fit the limbs (and blocks, if each block has its own), or
    /// the number of groups of entries does not fit the layout.
    #[error("expected {expected} ciphertexts of a query or groups of entries, found {found}")]
    Query {
        /// The number needed.
        expected: usize,
        /// The number given.
        found: usize,
    },
    /// The query or the key has other parameters.
    #[error("expected a query and a public key of the table's parameters, found others")]
    Parameters,
    /// Encoding failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Evaluation failed.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

/// Compares entries with queries.
pub struct Matcher {
    arithmetic: Arithmetic,
}

impl Matcher {
    /// Takes the parameters.
    ///
    /// # Errors
    /// [`AnswerError`] for parameters of another scheme, or a plaintext modulus without slots.
    pub fn new(parameters: &LatticeParameters) -> Result<Self, AnswerError> {
        let arithmetic = Arithmetic::new(parameters)?.ok_or(AnswerError::Parameters)?;
        Ok(Self { arithmetic })
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.arithmetic.parameters
    }

    /// Slots of a block.
    pub fn slots(&self) -> usize {
        self.arithmetic.encoder.slots()
    }

    /// The plaintext modulus.
    pub fn modulus(&self) -> &Modulus {
        &self.arithmetic.t
    }

    /// Bits of the flood that hides the rest of a query's noise.
    pub fn flood_bits(&self) -> u32 {
        self.arithmetic.flood_bits()
    }

    /// `log2` of a bound on the statistical distance between the noise of an answer to an honest
    /// query and noise that does not depend on the query, over all coefficients of a block's
    /// outputs.
    ///
    /// The old error of an output is `Σ r_i d_i / t`, with a mask `r_i` and the phase `d_i` of a
    /// query for each limb. Its Euclidean norm is at most `Σ ‖r_i‖ |d_i| / t`, where `|d_i|` is the
    /// canonical norm, which [`Ciphertext::noise_bound`] bounds. Each coefficient of a mask is
    /// uniform modulo `t`, or zero in a block without entries, so `‖r_i‖` is `t √(N/12)` on average
    /// at most. An average is enough ([`flood_distance`]). Masks that must not vanish are uniform
    /// masks under a condition that holds with probability 0.93 or more: a tenth of a bit.
    pub fn distance(&self, query: &SeededCiphertext, limbs: usize) -> f64 {
        let log2 = |value: u64| (value as f64).log2();
        let mask = (log2(self.arithmetic.parameters.degree() as u64) - 12f64.log2()) / 2.0;
        let output = query.expand().noise_bound() + mask + log2(limbs as u64);
        flood_distance(output + log2(limbs as u64 + 1) / 2.0 + 0.1, self.flood_bits())
    }

    /// Answers a query: its ciphertexts by limb, and by block where the layout has several groups.
    /// The layout alone decides how many blocks are compared, not the number of entries. Slots
    /// without an entry look like slots without a match.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn answer(
        &self,
        public: &PublicKey,
        query: &[SeededCiphertext],
        entries: &[Vec<Entry>],
        (layout, limbs): (&Layout, usize),
        granularity: Granularity,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<Block>, AnswerError> {
        let expected = limbs * if layout.by_block() { layout.blocks() } else { 1 };
        for (expected, found) in [(expected, query.len()), (layout.groups(), entries.len())] {
            if expected != found {
                return Err(AnswerError::Query { expected, found });
            }
        }
        let query: Vec<Ciphertext> = query.iter().map(SeededCiphertext::expand).collect();
        let fits = |query: &Ciphertext| *query.parameters() == self.arithmetic.parameters;
        if layout.slots() != self.slots()
            || !query.iter().all(fits)
            || *public.parameters() != self.arithmetic.parameters
        {
            return Err(AnswerError::Parameters);
        }
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        let mut rng = ChaCha20Rng::from_seed(*seed);
        let places = shuffled(layout, entries, &mut rng)?;
        let block = |(block, entries): (usize, &[Option<Entry>])| {
            let first = if layout.by_block() { block * limbs } else { 0 };
            let query = &query[first..first + limbs];
            let mut masks = self.masks(limbs, &mut rng);
            let equal = masks.iter().map(|masks| self.masked(public, query, entries, masks, false, &mut rng));
            let equal = equal.collect::<Result<_, _>>()?;
            let count = match granularity {
                Granularity::Boolean => None,
                Granularity::Count => {
                    masks.truncate(1);
                    masks[0].iter_mut().for_each(|mask| *mask = self.uniform(&mut rng));
                    Some(self.masked(public, query, entries, &masks[0], true, &mut rng)?)
                }
            };
            Ok(Block { equal, count })
        };
        places.chunks(self.slots()).enumerate().map(block).collect()
    }

    /// An invertible matrix for each slot, with as many rows as limbs. It is uniform, and so makes
    /// of each nonzero difference a uniform nonzero one. Indexed by row and column; each element
    /// has all slots.
    fn masks(&self, limbs: usize, rng: &mut impl CryptoRng) -> Vec<Vec<Zeroizing<Vec<u64>>>> {
        let mut masks: Vec<Vec<_>> = (0..limbs).map(|_| (0..limbs).map(|_| self.uniform(rng)).collect()).collect();
        let t = &self.arithmetic.t;
        for slot in 0..self.slots() {
            // one draw in about `t` is repeated: the number of draws tells nothing of the matrix
            // that is kept
            while t.reduce(determinant(t, &masks, slot)) == 0 {
                for mask in masks.iter_mut().flatten() {
                    let mut drawn = [0];
                    Seed::random(rng).stream(Domain::Uniform, 0).uniform(t, &mut drawn);
                    mask[slot] = drawn[0];
                }
            }
        }
        masks
    }

    /// `Σ f_i (q_i - K_i)`, plus the count if `counts`. In a slot without an entry: the first
    /// factor, and nothing of the query. With fresh randomness, flooded, over one prime.
    fn masked(
        &self,
        public: &PublicKey,
        query: &[Ciphertext],
        entries: &[Option<Entry>],
        masks: &[Zeroizing<Vec<u64>>],
        counts: bool,
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, AnswerError> {
        let t = &self.arithmetic.t;
        let constant = |(slot, entry): (usize, &Option<Entry>)| match entry {
            None => masks[0][slot],
            Some(entry) => {
                let count = if counts { entry.count } else { 0 };
                masks.iter().zip(entry.key).fold(count, |sum, (mask, key)| t.sub(sum, t.mul(mask[slot], key)))
            }
        };
        let encode = |values: Zeroizing<Vec<i64>>| self.arithmetic.encoder.encode(&values);
        let plus = encode(Zeroizing::new(entries.iter().enumerate().map(|slot| constant(slot) as i64).collect()))?;
        let mut sum: Option<Ciphertext> = None;
        for (query, mask) in query.iter().zip(masks) {
            let factor = |(mask, entry): (&u64, &Option<Entry>)| if entry.is_some() { *mask as i64 } else { 0 };
            let times = encode(Zeroizing::new(mask.iter().zip(entries).map(factor).collect()))?;
            let product = self.arithmetic.evaluator.mul_plain(query, &times)?;
            sum = Some(match sum {
                None => product,
                Some(sum) => self.arithmetic.evaluator.add(&sum, &product)?,
            });
        }
        let Some(sum) = sum else { return Err(AnswerError::Query { expected: masks.len(), found: 0 }) };
        let masked = self.arithmetic.evaluator.add_plain(&sum, &plus)?;
        let flooded = self.arithmetic.evaluator.flood(&masked, public, self.flood_bits(), rng)?;
        Ok(self.arithmetic.evaluator.to_level(&flooded, 1)?)
    }

    /// A uniform number for each slot.
    fn uniform(&self, rng: &mut impl CryptoRng) -> Zeroizing<Vec<u64>> {
        let mut values = Zeroizing::new(vec![0; self.slots()]);
        Seed::random(rng).stream(Domain::Uniform, 0).uniform(&self.arithmetic.t, &mut values);
        values
    }
}

/// The determinant of a slot's matrix of one or two rows.
fn determinant(t: &Modulus, masks: &[Vec<Zeroizing<Vec<u64>>>], slot: usize) -> u64 {
    let at = |row: usize, column: usize| masks[row][column][slot];
    if masks.len() == 1 { at(0, 0) } else { t.sub(t.mul(at(0, 0), at(1, 1)), t.mul(at(0, 1), at(1, 0))) }
}

/// Puts entries into the slots of their groups, in a secret random order (Fisher and Yates). A
/// choice among `n` is within `n 2^-64` of uniform.
fn shuffled(layout: &Layout, entries: &[Vec<Entry>], rng: &mut impl Rng) -> Result<Vec<Option<Entry>>, AnswerError> {
    let mut all = vec![None; layout.blocks() * layout.slots()];
    for (group, entries) in entries.iter().enumerate() {
        let room = &mut all[layout.group(group)];
        if entries.len() > room.len() {
            return Err(AnswerError::Entries { most: room.len(), found: entries.len() });
        }
        room.iter_mut().zip(entries).for_each(|(slot, entry)| *slot = Some(*entry));
        for last in (1..room.len()).rev() {
            let chosen = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
            room.swap(last, chosen as usize);
        }
    }
    Ok(all)
}
