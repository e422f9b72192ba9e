//! The server's half, with the table and without a key. It selects a block without knowing the
//! block, and compares it with a number that it does not know.
//!
//! **Computation.** The leaves of the query ([`Expansion`]) are the limbs `q_j`, then the selector
//! `s_b`. For every page the server sums `K_j = Σ_b s_b K_(b,j)` and `C = Σ_b s_b C_b` over the
//! blocks, takes `d_j = q_j - K_j`, and answers
//!
//! ```text
//!   R_i = Σ_j r_ij d_j,        V = C + Σ_j r'_j d_j,
//! ```
//!
//! where `r` and `r'` are uniform in every slot; with only one limb, `r` is uniform and not zero.
//! So the `R_i` of a slot whose `d` is not zero are jointly uniform, and a limb that agrees by
//! chance does not show. All `R_i` of such a slot are zero with probability `t^-limbs`; with one
//! limb this is impossible. `V` is uniform wherever some `d_j` is not zero. Slots without an entry
//! hold limbs that no query has, so they look like other slots without a match.
//!
//! **Noise.** By [`Expansion::noise`], and because no polynomial of a block has a Euclidean norm
//! above `√N t/2`, the norm of a `d_j`'s phase is at most `D = 2^noise √N t/2`. The coefficients of
//! a mask are uniform modulo `t` and independent, so their variance is `t²/12`. Each coefficient of
//! `Σ_j r_j d_j` is a sum of them times numbers of that norm, and its mean square is `L D² t²/12`
//! for `L` limbs. So the error, which is that sum over `t`, has a norm of `D √(N L/12)` on average
//! at most ([`Matcher::noise`]). The flood hides it ([`Matcher::distance`],
//! [`flood_distance`]). Masks without a zero are uniform masks under a condition that holds with
//! probability above 0.99 if `N < t/100`, and the bound grows by less than 1 %. Correct decryption
//! follows from the bounds of [`Ciphertext::noise_bound`].
//!
//! **Cost** of `B` blocks of `p` pages, `L` limbs, `l` primes: `B + L` key switches; `2 l N (L + 1)
//! p B` products with numbers that are read once, `8 l N` bytes a polynomial. Packed polynomials
//! take a tenth of these bytes, but `l` transforms more each. Each page also takes `L (L + 1)`
//! products with masks, and `L + 1` encryptions of zero, floods and changes of modulus. The
//! computation depends on the layout and on the granularity only.

use super::index::{Block, Blocks};
use super::program::Layout;
use crate::arithmetic::Arithmetic;
use crate::server::Granularity;
use rand_core::CryptoRng;
use std::ops::Range;
use tobari_lattice::bgv::{
    Ciphertext, EncodeError, EvaluateError, EvaluationKeys, Expansion, Plaintext, PreparedPlaintext, SeededCiphertext,
};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::{Domain, Modulus, Seed};
use tobari_lattice::rlwe::{PublicKey, flood_distance};
use tobari_lattice::wire::{self, LatticeWireError};
use zeroize::Zeroizing;

/// Leaves that are multiplied at a time: so many products are summed before a reduction.
const BATCH: usize = 15;

/// A client's registration: its public key, and keys to expand its queries.
pub struct Registration {
    /// The public key.
    pub public: PublicKey,
    /// Keys for the steps of an expansion, with at least as many leaves as the client's queries
    /// have.
    pub keys: EvaluationKeys,
}

/// The answer for one page.
pub struct Page {
    /// `R`, one for each limb: all zero in the slot of a match.
    pub equal: Vec<Ciphertext>,
    /// `V`, one for each digit of a count: the digit in that slot. Empty without counts.
    pub counts: Vec<Ciphertext>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The query or the keys have other parameters.
    #[error("expected a query and keys of the table's parameters, found others")]
    Parameters,
    /// The block is missing, or has another layout.
    #[error("expected block {block} of {blocks} in the table's layout, found none")]
    Block {
        /// The block's number.
        block: usize,
        /// The number of blocks of the layout.
        blocks: usize,
    },
    /// The sums have another layout, or another granularity.
    #[error("expected partial sums of one layout, found others")]
    Partial,
    /// The bytes are not a block.
    #[error(transparent)]
    Object(#[from] LatticeWireError),
    /// The encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The evaluator failed.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

/// A layout, with the tree that expands a query for the layout.
pub struct Form {
    layout: Layout,
    expansion: Expansion,
}

impl Form {
    /// The form of a layout.
    ///
    /// # Errors
    /// [`EncodeError`] for more blocks and limbs than a query has coefficients, or parameters of
    /// another scheme.
    pub fn new(parameters: &LatticeParameters, layout: &Layout) -> Result<Self, EncodeError> {
        let leaves = layout.limbs() + layout.blocks();
        Ok(Self { layout: layout.clone(), expansion: Expansion::new(parameters, leaves)? })
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tree.
    pub fn expansion(&self) -> &Expansion {
        &self.expansion
    }
}

/// Sums over some blocks. The sums of a table are the sums of all its shards' sums.
pub struct Partial {
    /// Page after page, limbs before counts.
    sums: Vec<Ciphertext>,
    granularity: Granularity,
}

impl Partial {
    pub(super) fn new(sums: Vec<Ciphertext>, granularity: Granularity) -> Self {
        Self { sums, granularity }
    }

    pub(super) fn sums(&self) -> &[Ciphertext] {
        &self.sums
    }

    pub(super) fn granularity(&self) -> Granularity {
        self.granularity
    }
}

/// Compares tables with queries.
pub struct Matcher {
    arithmetic: Arithmetic,
}

impl Matcher {
    /// A matcher for these parameters.
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

    /// Slots of a page.
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

    /// `log2` of a bound on the average Euclidean norm of an output's error, for a query and keys
    /// that were made honestly (see the module's head).
    pub fn noise(&self, form: &Form) -> f64 {
        let (degree, t) = (log2(self.arithmetic.parameters.degree() as u64), log2(self.arithmetic.t.value()));
        let difference = form.expansion.noise() + degree / 2.0 + t - 1.0;
        difference + (degree - 12f64.log2() + log2(form.layout.limbs() as u64)) / 2.0
    }

    /// `log2` of a bound on the statistical distance between the noise of an answer to an honest
    /// query and noise that does not depend on the query, over all coefficients of all outputs
    /// ([`flood_distance`]).
    pub fn distance(&self, form: &Form, granularity: Granularity) -> f64 {
        let outputs = form.layout.pages() * outputs(&form.layout, granularity);
        flood_distance(self.noise(form) + log2(outputs as u64) / 2.0, self.flood_bits())
    }

    /// The sums over a range of blocks. Each range takes its own share of the key switches, of the
    /// products, and of the table.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn partial(
        &self,
        form: &Form,
        keys: &EvaluationKeys,
        query: &SeededCiphertext,
        granularity: Granularity,
        table: &impl Blocks,
        range: Range<usize>,
    ) -> Result<Partial, AnswerError> {
        let (layout, level) = (&form.layout, self.arithmetic.parameters.data_primes());
        let query = self.opened(query)?;
        let count = layout.pages() * outputs(layout, granularity);
        let sums = (0..count).map(|_| self.arithmetic.evaluator.zero(level)).collect::<Result<_, _>>()?;
        let mut partial = Partial { sums, granularity };
        let mut leaves: Vec<(usize, Ciphertext)> = Vec::with_capacity(BATCH);
        let limbs = layout.limbs();
        let range = range.start.min(layout.blocks())..range.end.min(layout.blocks());
        self.arithmetic.evaluator.expand(
            &query,
            &form.expansion,
            keys,
            range.start + limbs..range.end + limbs,
            |leaf, ciphertext| {
                leaves.push((leaf - limbs, ciphertext));
                if leaves.len() == BATCH {
                    self.accumulate(layout, &leaves, table, &mut partial)?;
                    leaves.clear();
                }
                Ok::<(), AnswerError>(())
            },
        )?;
        self.accumulate(layout, &leaves, table, &mut partial)?;
        Ok(partial)
    }

    /// Adds the products of some leaves with their blocks.
    fn accumulate(
        &self,
        layout: &Layout,
        leaves: &[(usize, Ciphertext)],
        table: &impl Blocks,
        partial: &mut Partial,
    ) -> Result<(), AnswerError> {
        let per_page = outputs(layout, partial.granularity);
        let missing = |block| AnswerError::Block { block, blocks: layout.blocks() };
        let blocks: Vec<(usize, Block<'_>)> = leaves
            .iter()
            .map(|(block, _)| Ok((*block, table.block(*block).ok_or(missing(*block))?)))
            .collect::<Result<_, AnswerError>>()?;
        for (place, sum) in partial.sums.iter_mut().enumerate() {
            let (page, polynomial) = (place / per_page, place % per_page);
            let polynomial = page * layout.page_polynomials() + polynomial;
            let mut unpacked = Vec::new();
            for (block, content) in &blocks {
                if let Block::Packed(bytes) = content {
                    let length = bytes.len() / layout.polynomials();
                    let range = polynomial * length..(polynomial + 1) * length;
                    unpacked.push(self.prepare(bytes.get(range).ok_or(missing(*block))?)?);
                }
            }
            let mut unpacked = unpacked.iter();
            let mut pairs = Vec::with_capacity(leaves.len());
            for ((block, content), (_, leaf)) in blocks.iter().zip(leaves) {
                let plaintext = match content {
                    Block::Packed(_) => unpacked.next(),
                    Block::Prepared(polynomials) => polynomials.get(polynomial),
                };
                pairs.push((leaf, plaintext.ok_or(missing(*block))?));
            }
            self.arithmetic.evaluator.add_products(sum, &pairs)?;
        }
        Ok(())
    }

    fn prepare(&self, bytes: &[u8]) -> Result<PreparedPlaintext, AnswerError> {
        let plaintext = wire::unpack_plaintext(bytes, &self.arithmetic.parameters)?;
        Ok(PreparedPlaintext::new(&self.arithmetic.parameters, &plaintext, self.arithmetic.parameters.data_primes())?)
    }

    /// A query, expanded from its seed. Queries that lack a data prime are rejected.
    fn opened(&self, query: &SeededCiphertext) -> Result<Ciphertext, AnswerError> {
        let query = query.expand();
        let good = *query.parameters() == self.arithmetic.parameters
            && query.level() == self.arithmetic.parameters.data_primes();
        good.then_some(query).ok_or(AnswerError::Parameters)
    }

    /// Adds the sums over other blocks.
    ///
    /// # Errors
    /// [`AnswerError::Partial`] for sums of another layout or granularity.
    pub fn merge(&self, sum: &mut Partial, other: &Partial) -> Result<(), AnswerError> {
        if sum.sums.len() != other.sums.len() || sum.granularity != other.granularity {
            return Err(AnswerError::Partial);
        }
        for (sum, other) in sum.sums.iter_mut().zip(&other.sums) {
            self.arithmetic.evaluator.add_assign(sum, other)?;
        }
        Ok(())
    }

    /// Answers a query, given the sums over all blocks.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn finish(
        &self,
        form: &Form,
        registration: &Registration,
        query: &SeededCiphertext,
        partial: &Partial,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<Page>, AnswerError> {
        let (layout, granularity) = (&form.layout, partial.granularity);
        let per_page = outputs(layout, granularity);
        if partial.sums.len() != layout.pages() * per_page {
            return Err(AnswerError::Partial);
        }
        if *registration.public.parameters() != self.arithmetic.parameters {
            return Err(AnswerError::Parameters);
        }
        let mut wanted = Vec::with_capacity(layout.limbs());
        let query = self.opened(query)?;
        self.arithmetic.evaluator.expand(
            &query,
            &form.expansion,
            &registration.keys,
            0..layout.limbs(),
            |_, limb| {
                wanted.push(limb);
                Ok::<(), AnswerError>(())
            },
        )?;
        let page = |sums: &[Ciphertext]| {
            let differences = wanted
                .iter()
                .zip(sums)
                .map(|(wanted, sum)| self.arithmetic.evaluator.sub(wanted, sum))
                .collect::<Result<Vec<_>, _>>()?;
            let of = (&registration.public, self.flood_bits());
            let equal = |_| self.masked(of, None, &differences, rng);
            let equal = (0..layout.limbs()).map(equal).collect::<Result<_, _>>()?;
            let counts = sums.iter().skip(layout.limbs());
            let counts =
                counts.map(|count| self.masked(of, Some(count), &differences, rng)).collect::<Result<_, _>>()?;
            Ok(Page { equal, counts })
        };
        partial.sums.chunks(per_page).map(page).collect()
    }

    /// Answers a query: computes the sums over all blocks, and masks them.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn answer(
        &self,
        form: &Form,
        registration: &Registration,
        query: &SeededCiphertext,
        granularity: Granularity,
        table: &impl Blocks,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<Page>, AnswerError> {
        let all = 0..form.layout.blocks();
        let partial = self.partial(form, &registration.keys, query, granularity, table, all)?;
        self.finish(form, registration, query, &partial, rng)
    }

    /// `Σ_j r_j d_j`, or that and a count; with fresh randomness, flooded, over one prime.
    fn masked(
        &self,
        (public, flood_bits): (&PublicKey, u32),
        count: Option<&Ciphertext>,
        differences: &[Ciphertext],
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, AnswerError> {
        let mut sum = count.cloned();
        for difference in differences {
            let mask = if differences.len() == 1 && count.is_none() { self.nonzero(rng) } else { self.uniform(rng) };
            let product = self.arithmetic.evaluator.mul_plain(difference, &mask?)?;
            match &mut sum {
                Some(sum) => self.arithmetic.evaluator.add_assign(sum, &product)?,
                None => sum = Some(product),
            }
        }
        let sum = sum.ok_or(AnswerError::Partial)?;
        let flooded = self.arithmetic.evaluator.flood(&sum, public, flood_bits, rng)?;
        Ok(self.arithmetic.evaluator.to_level(&flooded, 1)?)
    }

    /// A plaintext that is uniform in every slot. Uniform coefficients give this, because the map
    /// to slots is a bijection.
    fn uniform(&self, rng: &mut impl CryptoRng) -> Result<Plaintext, EncodeError> {
        Plaintext::from_coefficients(&self.arithmetic.parameters, &self.drawn(&self.arithmetic.t, 0, rng))
    }

    /// A plaintext that is uniform and not zero in every slot.
    fn nonzero(&self, rng: &mut impl CryptoRng) -> Result<Plaintext, EncodeError> {
        let below = Modulus::new(self.arithmetic.t.value() - 1).unwrap_or(self.arithmetic.t);
        self.arithmetic.encoder.encode(&self.drawn(&below, 1, rng))
    }

    /// Uniform numbers below a modulus, plus an offset: one for each slot.
    fn drawn(&self, modulus: &Modulus, offset: i64, rng: &mut impl CryptoRng) -> Zeroizing<Vec<i64>> {
        let mut values = Zeroizing::new(vec![0; self.slots()]);
        Seed::random(rng).stream(Domain::Uniform, 0).uniform(modulus, &mut values);
        Zeroizing::new(values.iter().map(|value| *value as i64 + offset).collect())
    }
}

/// The number of outputs of a page.
fn outputs(layout: &Layout, granularity: Granularity) -> usize {
    layout.limbs() + if granularity == Granularity::Count { layout.digits() } else { 0 }
}

fn log2(value: u64) -> f64 {
    (value as f64).log2()
}
