//! The half that has the table and no key: compares all entries with an encrypted query.
//!
//! With limbs, `q` and `K` are vectors and `r` an invertible matrix, uniform among those: a sum of
//! each limb's own product would tell that one limb is equal. `M (q - K)` is zero only if all limbs
//! are equal, and otherwise uniform among what is not zero.
//!
//! **Cost** of a block of `N` slots, for `l` limbs and `l + 1` outputs: `l + 1` encodings an
//! output, of which each is one transform modulo `t`, `l` products with plaintexts, an encryption
//! of zero, a flood and a change of modulus. What is done does not depend on the query, nor on the
//! entries but for their number.

use super::arithmetic::Arithmetic;
use super::program::{Entry, Layout};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::{CryptoRng, Rng};
use tobari_lattice::bgv::{Ciphertext, EncodeError, EvaluateError, SeededCiphertext};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::{Domain, Modulus, Seed};
use tobari_lattice::rlwe::PublicKey;
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
    /// `R`, one for each limb: all zero in the slot of a match.
    pub equal: Vec<Ciphertext>,
    /// `V`: the count in that slot.
    pub count: Option<Ciphertext>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// More entries of a group than there is room for.
    #[error("expected at most {most} entries, found {found}")]
    Entries {
        /// Slots of the group.
        most: usize,
        /// Entries.
        found: usize,
    },
    /// More or fewer ciphertexts than limbs, and blocks where each has its own, or groups of
    /// entries than the layout has.
    #[error("expected {expected} ciphertexts of a query or groups of entries, found {found}")]
    Query {
        /// How many there must be.
        expected: usize,
        /// How many there are.
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
    arithmetic: Arithmetic,
}

impl Matcher {
    /// For these parameters.
    ///
    /// # Errors
    /// [`AnswerError`] for those of another scheme, or a plaintext modulus without slots.
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

    /// Bits of the uniform noise that hides what is left of a query's.
    pub fn flood_bits(&self) -> u32 {
        self.arithmetic.flood_bits
    }

    /// `log2` of a bound on the statistical distance between the noise of two answers to a query
    /// that was honestly made, over all coefficients of a block's outputs
    /// ([`Evaluator::flood`](tobari_lattice::bgv::Evaluator::flood)): the flood over what products
    /// with any plaintexts make of the query's noise, one product a limb.
    pub fn distance(&self, query: &SeededCiphertext, limbs: usize) -> f64 {
        let log2 = |value: u64| (value as f64).log2();
        let (degree, t) = (log2(self.arithmetic.parameters.degree() as u64), log2(self.arithmetic.t.value()));
        let worst = query.expand().noise_bound() + degree + t - 1.0 + log2(limbs as u64);
        worst - t - f64::from(self.arithmetic.flood_bits) - 1.0 + degree + log2(limbs as u64 + 1)
    }

    /// Answers a query, whose ciphertexts are those of its limbs, block by block where the layout
    /// has several groups. As many blocks as the layout has are compared, whatever the number of
    /// entries: slots that have none look as those without a match.
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

    /// For each slot an invertible matrix of as many rows as limbs: uniform, so that what it makes
    /// of a difference that is not zero is uniform among what is not zero. By row and column, all
    /// slots.
    fn masks(&self, limbs: usize, rng: &mut impl CryptoRng) -> Vec<Vec<Zeroizing<Vec<u64>>>> {
        let mut masks: Vec<Vec<_>> = (0..limbs).map(|_| (0..limbs).map(|_| self.uniform(rng)).collect()).collect();
        let t = &self.arithmetic.t;
        for slot in 0..self.slots() {
            // a draw in `t` is another: how often says nothing of what is kept
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

    /// `sum f_i (q_i - K_i)`, and the count beside it if that is told; where there is no entry the
    /// first factor, and the sum of the query's limbs is left out. With fresh randomness, flooded,
    /// over one prime.
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
        let flooded = self.arithmetic.evaluator.flood(&masked, public, self.arithmetic.flood_bits, rng)?;
        Ok(self.arithmetic.evaluator.mod_switch_to(&flooded, 1)?)
    }

    /// As many uniform numbers as slots.
    fn uniform(&self, rng: &mut impl CryptoRng) -> Zeroizing<Vec<u64>> {
        let mut values = Zeroizing::new(vec![0; self.slots()]);
        Seed::random(rng).stream(Domain::Uniform, 0).uniform(&self.arithmetic.t, &mut values);
        values
    }
}

/// Of a slot's matrix, of one row or two.
fn determinant(t: &Modulus, masks: &[Vec<Zeroizing<Vec<u64>>>], slot: usize) -> u64 {
    let at = |row: usize, column: usize| masks[row][column][slot];
    if masks.len() == 1 { at(0, 0) } else { t.sub(t.mul(at(0, 0), at(1, 1)), t.mul(at(0, 1), at(1, 0))) }
}

/// Entries in slots of their groups, in an order that nobody knows: Fisher and Yates's. A choice
/// among `n` is within `n 2^-64` of uniform.
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
