//! Many ciphertexts from one: each coefficient of a message becomes a message of its own, by key
//! switches (Angel, Chen, Laine, Setty, IEEE S&P 2018, "oblivious expansion"; Chen, Dai, Kim, Song,
//! ACNS 2021).
//!
//! **A step.** `X -> X^(N/2^i + 1)` keeps `X^j` for the multiples `j` of `2^(i+1)`, and negates
//! it for those of `2^i` that are no multiples of `2^(i+1)`. So for a message in `X^(2^i)`
//!
//! ```text
//!   c + σ_i(c)              has twice the even coefficients,
//!   X^(-2^i) (c - σ_i(c))   has twice the odd coefficients, in the places of the even ones,
//! ```
//!
//! both in `X^(2^(i+1))`, for one key switch. After `d` steps coefficient `j < 2^d` stands alone as
//! `2^d m_j`; encryption divides by `2^d` beforehand.
//!
//! **Order.** Coefficients `0 … L-1` are the leaves of a tree whose node `(i, ρ)` has those that
//! are `ρ` modulo `2^i`; a node with one of them is a leaf, so that `L` leaves take `L - 1` key
//! switches, at depth `k = ⌈log2 L⌉` or `k - 1`. Leaves are numbered in the order of the walk
//! through the tree, even before odd. A range of consecutive leaves takes one key switch for each
//! leaf and at most `k` more, and no more than `k + 1` ciphertexts exist at a time.
//!
//! **Noise.** Let `n = Σ_b m_b l_b` be a sum over leaves with plaintexts of Euclidean norms (of
//! their coefficients) at most `M`, and `V` the variance of a coefficient of a key switch's error,
//! assumed independent. The error of a switch at step `i` is doubled `d-1-i` times. A leaf keeps
//! one coefficient in `2^(d-1-i)` of it, and each coefficient reaches two leaves. So the switch
//! adds at most `4^(d-1-i) N V · 4 M²` to `E ‖n‖²`, the `2^i` of them `4^d 2^-i N V M²`, and all
//! steps `2 · 4^d N V M²`. A fresh error, of variance `t² σ²`, adds `4^d N t² σ² M²`; the message
//! at most `2^d L t/2 · M` to the norm. With `6 √(N V)` and `6 t √(N) σ` the bounds of the two
//! errors' canonical norms,
//!
//! ```text
//!   ‖n‖ ≤ M 2^k (√2 · switch + fresh + L t/2),
//! ```
//!
//! six times the root of the mean square. [`Ciphertext::noise_bound`] of a leaf ignores the
//! differences between leaves, and is far higher.

use super::ciphertext::Ciphertext;
use super::encode::{EncodeError, Plaintext, modulus};
use super::evaluate::{EvaluateError, Evaluator};
use super::keys::{EvaluationKeys, KeyError};
use crate::kernels::RingKernels;
use crate::params::LatticeParameters;
use crate::ring::{Coeff, Eval, Poly};
use crate::rlwe::{SecretKey, norms};
use rand_core::CryptoRng;
use std::ops::Range;

/// Values of a row in one block, so that values that are read again are in the nearest cache.
const BLOCK: usize = 512;

/// `g` of the automorphism of step `i`.
fn element(degree: usize, step: usize) -> usize {
    (degree >> step) + 1
}

/// The expansion of one ciphertext into this many leaves.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{Decryptor, EvaluateError, EvaluationKeys, Evaluator, Expansion};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::{ring::Modulus, rlwe::SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program asks the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let (expansion, evaluator) = (Expansion::new(&parameters, 5)?, Evaluator::new(&parameters)?);
/// let mut keys = EvaluationKeys::new(&parameters);
/// keys.add_expansion(&secret, expansion.depth(), &mut rng)?;
/// let holder = Decryptor::new(&secret)?;
/// let packed = expansion.pack(&[3, 1, 4, 1, 5])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
/// let mut found = Vec::new();
/// evaluator.expand(&packed, &expansion, &keys, 1..4, |_, leaf| {
///     found.push(leaf);
///     Ok::<(), EvaluateError>(())
/// })?;
/// for (leaf, expected) in found.iter().zip([1, 4, 1]) {
///     assert_eq!(holder.decrypt(leaf)?.coefficients()[0], expected);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Expansion {
    parameters: LatticeParameters,
    leaves: usize,
    /// `X^(-2^i)`, by step.
    shifts: Vec<Poly<Eval>>,
}

/// Of the tree of leaves.
#[derive(Clone, Copy)]
struct Node {
    step: usize,
    residue: usize,
    /// The number of its first leaf.
    first: usize,
}

impl Expansion {
    /// An expansion to `leaves` leaves, from 1 to `N`.
    ///
    /// # Errors
    /// [`EncodeError`] for more leaves than coefficients, or none, an even plaintext modulus, or
    /// parameters of another scheme.
    pub fn new(parameters: &LatticeParameters, leaves: usize) -> Result<Self, EncodeError> {
        // messages are divided by two at each step
        let t = modulus(parameters)?.value();
        if t.is_multiple_of(2) {
            return Err(EncodeError::Even { t });
        }
        let (ring, degree) = (parameters.ring(), parameters.degree());
        if !(1..=degree).contains(&leaves) {
            return Err(EncodeError::Length { most: degree, found: leaves });
        }
        let basis = ring.basis(parameters.data_primes());
        let shift = |step: u32| {
            let mut coefficients = vec![0; degree];
            coefficients[degree - (1 << step)] = -1; // X^-j = -X^(N-j)
            Poly::<Coeff>::from_signed(ring, basis, &coefficients).forward()
        };
        let depth = leaves.next_power_of_two().trailing_zeros();
        Ok(Self { parameters: parameters.clone(), leaves, shifts: (0..depth).map(shift).collect() })
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// The most steps to a leaf, and the number of automorphisms that need a key.
    pub fn depth(&self) -> usize {
        self.shifts.len()
    }

    /// Leaves of a node.
    fn count(&self, node: Node) -> usize {
        self.leaves.saturating_sub(node.residue).div_ceil(1 << node.step)
    }

    fn children(&self, Node { step, residue, first }: Node) -> [Node; 2] {
        let even = Node { step: step + 1, residue, first };
        [even, Node { step: step + 1, residue: residue + (1 << step), first: first + self.count(even) }]
    }

    /// The coefficient of a leaf, and the steps to it.
    fn place(&self, leaf: usize) -> Node {
        let mut node = Node { step: 0, residue: 0, first: 0 };
        while self.count(node) > 1 {
            let [even, odd] = self.children(node);
            node = if leaf < odd.first { even } else { odd };
        }
        node
    }

    /// The message that expands to these numbers, leaf after leaf. Missing ones are zero.
    ///
    /// # Errors
    /// [`EncodeError::Length`] for more numbers than leaves.
    pub fn pack(&self, values: &[i64]) -> Result<Plaintext, EncodeError> {
        if values.len() > self.leaves {
            return Err(EncodeError::Length { most: self.leaves, found: values.len() });
        }
        let t = modulus(&self.parameters)?;
        let half = t.value().div_ceil(2);
        let mut coefficients = vec![0; self.parameters.degree()];
        for (leaf, value) in values.iter().enumerate() {
            let place = self.place(leaf);
            let scaled = t.mul(t.reduce_signed(*value), t.pow(half, place.step as u64));
            coefficients[place.residue] = t.centred(scaled);
        }
        Ok(Plaintext::from_centred(&t, coefficients))
    }

    /// `log2` of a bound on the Euclidean norm of the phase of `Σ_b m_b l_b`, over the largest
    /// Euclidean norm of an `m_b`: see above.
    pub fn noise(&self) -> f64 {
        let (parameters, steps) = (&self.parameters, self.depth() as f64);
        let message = (self.leaves as f64).log2() + (parameters.error_factor() as f64).log2() - 1.0;
        let switch = norms::switch(parameters, parameters.data_primes()) + 0.5;
        steps + norms::sum([switch, norms::secret_error(parameters), message])
    }
}

impl EvaluationKeys {
    /// Adds the keys for `depth` steps of an [`Expansion`], for all data primes.
    ///
    /// # Errors
    /// [`KeyError`] for more steps than there are, or as
    /// [`add_relinearization`](Self::add_relinearization); then nothing is added.
    pub fn add_expansion(
        &mut self,
        secret: &SecretKey,
        depth: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), KeyError> {
        let (degree, level) = (self.parameters().degree(), self.parameters().data_primes());
        let most = degree.trailing_zeros() as usize;
        if depth > most {
            return Err(KeyError::Depth { most, found: depth });
        }
        (0..depth).try_for_each(|step| self.add_automorphism(secret, element(degree, step), level, rng))
    }

    /// As [`Self::add_expansion`], of a set that is passed on.
    ///
    /// # Errors
    /// As [`Self::add_expansion`].
    pub fn with_expansion(
        mut self,
        secret: &SecretKey,
        depth: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, KeyError> {
        self.add_expansion(secret, depth, rng)?;
        Ok(self)
    }

    /// The number of steps of an [`Expansion`] that these keys serve; none if they serve another
    /// purpose too, or not all data primes.
    pub fn expansion_depth(&self) -> Option<usize> {
        let parameters = self.parameters();
        let (degree, all) = (parameters.degree(), self.inner().automorphisms());
        let depth = all.len();
        let good = depth <= degree.trailing_zeros() as usize
            && self.inner().for_products().is_none()
            && all
                .zip((0..depth).rev())
                .all(|((found, key), step)| found == element(degree, step) && key.level() == parameters.data_primes());
        good.then_some(depth)
    }
}

impl Evaluator {
    /// Passes the leaves of a range to `each`, with their numbers, in order. It takes `range.len()`
    /// key switches and at most [`Expansion::depth`] more.
    ///
    /// # Errors
    /// [`EvaluateError`] for a missing key, a ciphertext of three parts or not over all data
    /// primes, or other parameters; and the errors of `each`.
    pub fn expand<E: From<EvaluateError>>(
        &self,
        packed: &Ciphertext,
        expansion: &Expansion,
        keys: &EvaluationKeys,
        range: Range<usize>,
        mut each: impl FnMut(usize, Ciphertext) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check(packed)?;
        let (all, level) = (self.parameters().data_primes(), packed.level());
        if expansion.parameters != *self.parameters() {
            return Err(EvaluateError::Parameters.into());
        }
        if level != all {
            return Err(EvaluateError::Level { present: level, wanted: all }.into());
        }
        let wanted = |node: Node| node.first < range.end && node.first + expansion.count(node) > range.start;
        let root = Node { step: 0, residue: 0, first: 0 };
        // the walk keeps pending nodes on a stack: at most one for each step
        let mut left = Vec::new();
        if wanted(root) {
            left.push((root, packed.clone()));
        }
        while let Some((node, ciphertext)) = left.pop() {
            let count = expansion.count(node);
            if count == 1 {
                each(node.first, ciphertext)?;
                continue;
            }
            let halves = self.halves(ciphertext, &expansion.shifts[node.step], node.step, keys)?;
            for (child, half) in expansion.children(node).into_iter().zip(halves).rev() {
                if wanted(child) {
                    left.push((child, half));
                }
            }
        }
        Ok(())
    }

    /// `c + σ(c)`, and `X^(-2^i) (c - σ(c))`.
    fn halves(
        &self,
        mut a: Ciphertext,
        shift: &Poly<Eval>,
        step: usize,
        keys: &EvaluationKeys,
    ) -> Result<[Ciphertext; 2], EvaluateError> {
        let element = element(self.parameters().degree(), step);
        let galois = self.galois(element, &a, keys)?;
        let [c0, c1] = a.inner.parts() else { return Err(EvaluateError::NotRelinearized) };
        let mut even = self.switched(self.switcher().rotate([c0, c1], galois), &a);
        let norm = norms::sum([a.norm, even.norm]);
        let (ring, kernels) = (self.parameters().ring(), RingKernels::best());
        let mut turned = [0; BLOCK];
        for (a, even) in a.inner.parts_mut().iter_mut().zip(even.inner.parts_mut()) {
            for (row, table) in ring.tables(even.basis()).enumerate() {
                let (q, shift) = (table.modulus(), shift.row(row).chunks(BLOCK));
                let blocks = a.row_mut(row).chunks_mut(BLOCK).zip(even.row_mut(row).chunks_mut(BLOCK)).zip(shift);
                for ((a, even), shift) in blocks {
                    let turned = &mut turned[..even.len()];
                    turned.copy_from_slice(even);
                    (kernels.add_assign)(q, even, a);
                    (kernels.sub_assign)(q, a, turned);
                    (kernels.mul_assign)(q, a, shift);
                }
            }
        }
        a.set_norm(norm);
        even.set_norm(norm);
        Ok([even, a])
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, PreparedPlaintext};
    use super::*;
    use crate::rlwe::tests::{cases, rng, toy};
    use proptest::prelude::*;

    struct Bench {
        parameters: LatticeParameters,
        secret: SecretKey,
        evaluator: Evaluator,
        keys: EvaluationKeys,
    }

    fn bench() -> Bench {
        let parameters = toy(Some(257));
        let secret = SecretKey::generate(&parameters, &mut rng(1));
        let keys = EvaluationKeys::new(secret.parameters()).with_expansion(&secret, 6, &mut rng(2)).unwrap();
        Bench { evaluator: Evaluator::new(&parameters).unwrap(), parameters, secret, keys }
    }

    impl Bench {
        fn leaves(&self, values: &[i64], range: Range<usize>) -> Vec<(usize, Ciphertext)> {
            let expansion = Expansion::new(&self.parameters, values.len()).unwrap();
            let holder = Decryptor::new(&self.secret).unwrap();
            let packed = expansion.pack(values).unwrap().encrypt_seeded(holder.key(), 4, &mut rng(3)).unwrap().expand();
            let mut found = Vec::new();
            let each = |leaf, ciphertext| {
                found.push((leaf, ciphertext));
                Ok::<(), EvaluateError>(())
            };
            self.evaluator.expand(&packed, &expansion, &self.keys, range, each).unwrap();
            found
        }
    }

    proptest! {
        #![proptest_config(cases(30))]

        #[test]
        fn leaves_are_the_numbers_that_were_packed_and_a_range_is_its_part(
            values in prop::collection::vec(-128i64..=128, 1..=64), from in 0usize..64, to in 0usize..70,
        ) {
            let bench = bench();
            let holder = Decryptor::new(&bench.secret).unwrap();
            for range in [0..values.len(), from..to] {
                let found = bench.leaves(&values, range.clone());
                let expected: Vec<usize> = (0..values.len()).filter(|leaf| range.contains(leaf)).collect();
                prop_assert_eq!(found.iter().map(|leaf| leaf.0).collect::<Vec<_>>(), expected);
                for (leaf, ciphertext) in found {
                    let mut message = holder.decrypt(&ciphertext).unwrap().coefficients().to_vec();
                    prop_assert_eq!(message[0], values[leaf]);
                    message[0] = 0;
                    prop_assert!(message.iter().all(|coefficient| *coefficient == 0));
                    prop_assert!(bench.secret.noise(ciphertext.inner()).log2() <= ciphertext.noise_bound());
                }
            }
        }

        #[test]
        fn sums_of_leaves_have_the_noise_that_is_stated(
            seed in 0i64..10_000, leaves in prop_oneof![Just(1usize), Just(5), Just(33), Just(64)],
        ) {
            let bench = bench();
            let expansion = Expansion::new(&bench.parameters, leaves).unwrap();
            let mut values = vec![0; leaves];
            values[seed as usize % leaves] = 1;
            let found = bench.leaves(&values, 0..leaves);
            let polynomial = |leaf: usize| {
                let coefficient = |i: i64| ((i + 1) * (leaf as i64 * 911 + seed * 97 + 5)).pow(2) % 257 - 128;
                Plaintext::from_centred(bench.evaluator.modulus(), (0..64).map(coefficient).collect())
            };
            let all: Vec<_> = (0..leaves).map(polynomial).collect();
            let prepared: Vec<_> =
                all.iter().map(|m| PreparedPlaintext::new(&bench.parameters, m, 4).unwrap()).collect();
            let pairs: Vec<_> = found.iter().map(|leaf| &leaf.1).zip(&prepared).collect();
            let mut sum = bench.evaluator.zero(4).unwrap();
            bench.evaluator.add_products(&mut sum, &pairs).unwrap();
            // one of a lower level takes the sum there
            let mut low = bench.evaluator.zero(4).unwrap();
            let switched = bench.evaluator.to_level(&found[0].1, 3).unwrap();
            bench.evaluator.add_products(&mut low, &[(&switched, &prepared[0])]).unwrap();
            prop_assert_eq!(low.level(), 3);
            // the same sum in another way, and the selected values
            let dot = bench.evaluator.dot_prepared(&pairs).unwrap();
            prop_assert!(sum.inner.parts() == dot.inner.parts());
            let decrypted = Decryptor::new(&bench.secret).unwrap().decrypt(&sum).unwrap();
            prop_assert_eq!(decrypted.coefficients(), all[seed as usize % leaves].coefficients());
            let square = |m: &Plaintext| m.coefficients().iter().map(|x| (x * x) as f64).sum::<f64>();
            let largest = all.iter().map(square).fold(1.0, f64::max).log2() / 2.0;
            // no coefficient is much below the norm over √N
            let (measured, bound) = (bench.secret.noise(&sum.inner).log2() + 3.0, expansion.noise() + largest);
            prop_assert!(measured <= bound && bound <= measured + 8.0, "{} and {}", measured, bound);
            prop_assert!(bound < sum.noise_bound() + 3.0);
        }
    }

    #[test]
    fn so_many_leaves_take_one_key_switch_less_and_what_cannot_be_expanded_is_refused() {
        let bench = bench();
        for leaves in [1usize, 2, 3, 7, 8, 9, 64] {
            let expansion = Expansion::new(&bench.parameters, leaves).unwrap();
            assert_eq!(expansion.depth(), (leaves as f64).log2().ceil() as usize);
            let steps = |leaf| expansion.place(leaf).step;
            assert!(
                (0..leaves).all(|leaf| [expansion.depth(), expansion.depth().saturating_sub(1)].contains(&steps(leaf)))
            );
            // inner nodes of a tree whose nodes have two children or none
            assert_eq!((0..leaves).map(|leaf| 0.5f64.powi(steps(leaf) as i32)).sum::<f64>(), 1.0);
        }
        for leaves in [0, 65] {
            assert!(Expansion::new(&bench.parameters, leaves).is_err());
        }
        let expansion = Expansion::new(&bench.parameters, 5).unwrap();
        assert!(expansion.pack(&[0; 6]).is_err());
        let holder = Decryptor::new(&bench.secret).unwrap();
        let refused = |level, keys: &EvaluationKeys| {
            let packed =
                expansion.pack(&[1]).unwrap().encrypt_seeded(holder.key(), level, &mut rng(3)).unwrap().expand();
            bench.evaluator.expand(&packed, &expansion, keys, 0..5, |_, _| Ok::<(), EvaluateError>(())).unwrap_err()
        };
        assert_eq!(refused(3, &bench.keys), EvaluateError::Level { present: 3, wanted: 4 });
        let few = EvaluationKeys::new(bench.secret.parameters()).with_expansion(&bench.secret, 2, &mut rng(4)).unwrap();
        assert!(matches!(refused(4, &few), EvaluateError::MissingKey { .. }));
    }

    #[test]
    fn keys_of_an_expansion_are_told_from_others() {
        let bench = bench();
        let depth = |keys: &EvaluationKeys| keys.expansion_depth();
        assert_eq!((depth(&bench.keys), depth(&EvaluationKeys::new(&bench.parameters))), (Some(6), Some(0)));
        let keys = |depth| {
            EvaluationKeys::new(bench.secret.parameters()).with_expansion(&bench.secret, depth, &mut rng(5)).unwrap()
        };
        assert_eq!(depth(&keys(3)), Some(3));
        assert_eq!(depth(&keys(3).with_rotation(&bench.secret, 1, 4, &mut rng(6)).unwrap()), None);
        assert_eq!(depth(&keys(3).with_relinearization(&bench.secret, 4, &mut rng(6)).unwrap()), None);
        // one for a lower level
        let mut low = keys(2);
        low.add_automorphism(&bench.secret, element(64, 2), 3, &mut rng(7)).unwrap();
        assert_eq!(depth(&low), None);
    }
}
