//! Ciphertexts, and sums of them.

use super::identity::KeyId;
use super::keys::uniform;
use crate::kernels::RingKernels;
use crate::params::LatticeParameters;
use crate::ring::{Eval, Poly, Seed};
use std::sync::Arc;

/// Two elements, or three after a product, over the first data primes; the phase is
/// `c_0 + c_1 s + c_2 s²`.
#[derive(Clone)]
pub(crate) struct Ciphertext {
    parameters: LatticeParameters,
    key: Option<KeyId>,
    parts: Vec<Poly<Eval>>,
}

impl Ciphertext {
    /// The ciphertext of these parts, all over one basis.
    pub(crate) fn new(parameters: &LatticeParameters, key: Option<KeyId>, parts: Vec<Poly<Eval>>) -> Self {
        assert!((2..=3).contains(&parts.len()), "two or three parts");
        assert!(parts.iter().all(|part| part.basis() == parts[0].basis() && part.basis().special() == 0));
        Self { parameters: parameters.clone(), key, parts }
    }

    /// The identity of the secret key, if it is known.
    pub(crate) fn key(&self) -> Option<KeyId> {
        self.key
    }

    /// Takes the key of another ciphertext of a sum if the own one is unknown.
    pub(crate) fn join(&mut self, other: &Self) {
        self.key = self.key.or(other.key);
    }

    /// The parameters.
    pub(crate) fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    pub(crate) fn parts(&self) -> &[Poly<Eval>] {
        &self.parts
    }

    pub(crate) fn parts_mut(&mut self) -> &mut [Poly<Eval>] {
        &mut self.parts
    }

    /// Data primes left.
    pub(crate) fn level(&self) -> usize {
        self.parts[0].basis().data()
    }

    /// Is this a product whose third part has not been switched?
    pub(crate) fn needs_relinearization(&self) -> bool {
        self.parts.len() > 2
    }

    /// Bytes of its parts in memory.
    pub(crate) fn memory(&self) -> usize {
        self.parts.iter().map(Poly::memory).sum()
    }

    /// `self + other`. The schemes' evaluators check that both are of one key.
    ///
    /// # Panics
    /// If their levels or parameters differ.
    #[must_use]
    pub(crate) fn sum(&self, other: &Self) -> Self {
        let both = self.parts.iter().zip(&other.parts).map(|(a, b)| a.sum(b));
        let longer = if self.parts.len() < other.parts.len() { other } else { self };
        let rest = longer.parts.iter().skip(self.parts.len().min(other.parts.len())).cloned();
        Self::new(&self.parameters, self.key.or(other.key), both.chain(rest).collect())
    }

    /// `self += other`. The schemes' evaluators check that both are of one key.
    ///
    /// # Panics
    /// If their levels or parameters differ.
    pub(crate) fn add_assign(&mut self, other: &Self) {
        self.join(other);
        for (part, other) in self.parts.iter_mut().zip(&other.parts) {
            part.add_assign(other);
        }
        self.parts.extend(other.parts.iter().skip(self.parts.len()).cloned());
    }

    /// `self -= other`. The schemes' evaluators check that both are of one key.
    ///
    /// # Panics
    /// If their levels or parameters differ.
    pub(crate) fn sub_assign(&mut self, other: &Self) {
        self.join(other);
        for (part, other) in self.parts.iter_mut().zip(&other.parts) {
            part.sub_assign(other);
        }
        for part in other.parts.iter().skip(self.parts.len()) {
            let mut negative = part.clone();
            negative.neg_assign();
            self.parts.push(negative);
        }
    }

    /// `self = -self`.
    pub(crate) fn neg_assign(&mut self) {
        self.parts.iter_mut().for_each(Poly::neg_assign);
    }

    /// Multiplies the phase by an integer.
    pub(crate) fn scale_assign(&mut self, scalar: i64) {
        self.parts.iter_mut().for_each(|part| part.scale_assign(scalar));
    }

    /// Adds an element to the phase.
    ///
    /// # Panics
    /// If it is over another basis.
    pub(crate) fn add_phase(&mut self, element: &Poly<Eval>) {
        self.parts[0].add_assign(element);
    }

    /// The phase multiplied by an element of this basis or a larger one.
    pub(crate) fn times(&self, element: &Poly<Eval>) -> Self {
        let parts = self.parts.iter().map(|part| part.times(element)).collect();
        Self { parameters: self.parameters.clone(), key: self.key, parts }
    }

    /// The same in place.
    pub(crate) fn times_assign(&mut self, element: &Poly<Eval>) {
        Poly::all_times_assign(&mut self.parts, element);
    }

    /// The sum of phases multiplied by elements, over the bases of the ciphertexts.
    ///
    /// # Panics
    /// If there is none, levels or parts differ, or an element is over a smaller basis.
    pub(crate) fn inner_product(pairs: &[(&Self, &Poly<Eval>)]) -> Self {
        let (first, _) = pairs[0];
        let part = |i: usize| {
            let pairs: Vec<_> = pairs.iter().map(|(ciphertext, element)| (&ciphertext.parts[i], *element)).collect();
            Poly::inner_product(&pairs)
        };
        assert!(pairs.iter().all(|(ciphertext, _)| ciphertext.parts.len() == first.parts.len()), "as many parts");
        let key = pairs.iter().find_map(|(ciphertext, _)| ciphertext.key);
        Self { parameters: first.parameters.clone(), key, parts: (0..first.parts.len()).map(part).collect() }
    }

    /// Adds such a sum. Each element is read once for both parts, while it is in the cache.
    ///
    /// # Panics
    /// As [`Self::inner_product`], or for three parts.
    pub(crate) fn add_inner_product(&mut self, pairs: &[(&Self, &Poly<Eval>)]) {
        const BLOCK: usize = 512;
        let (ring, basis) = (Arc::clone(self.parameters.ring()), self.parts[0].basis());
        assert!(
            pairs.iter().all(|(other, _)| other.parts.len() == 2 && other.parts[0].basis() == basis),
            "as many rows"
        );
        pairs.iter().for_each(|(other, _)| self.join(other));
        let (kernels, mut scratch) = (RingKernels::best(), [0; BLOCK]);
        for (row, table) in ring.tables(basis).enumerate() {
            for start in (0..ring.degree()).step_by(BLOCK) {
                let block = start..(start + BLOCK).min(ring.degree());
                let scratch = &mut scratch[..block.len()];
                for (i, part) in self.parts.iter_mut().enumerate() {
                    let rows: Vec<_> = pairs
                        .iter()
                        .map(|(a, m)| (&a.parts[i].row(row)[block.clone()], &m.row_of(basis, row)[block.clone()]))
                        .collect();
                    (kernels.inner_product)(table.modulus(), scratch, &rows);
                    (kernels.add_assign)(table.modulus(), &mut part.row_mut(row)[block.clone()], scratch);
                }
            }
        }
    }

    /// The product: three parts.
    ///
    /// # Panics
    /// If either has three already, or their levels differ.
    pub(crate) fn tensor(&self, other: &Self) -> Self {
        let ([a0, a1], [b0, b1]) = (&self.parts[..], &other.parts[..]) else {
            panic!("a product of products that were not relinearised")
        };
        Self::new(&self.parameters, self.key.or(other.key), Poly::tensor([a0, a1], [b0, b1]).into())
    }

    /// Can everybody read it? No part is multiplied by the secret, as in `x - x` or `0 x`: the
    /// first part is the message, with its error.
    pub(crate) fn is_transparent(&self) -> bool {
        let zero = |part: &Poly<Eval>| (0..part.basis().rows()).all(|row| part.row(row).iter().all(|x| *x == 0));
        self.parts[1..].iter().all(zero)
    }

    /// The same phase modulo fewer primes: rows are dropped, nothing is divided.
    ///
    /// # Panics
    /// Unless `level` is from 1 to the present one.
    pub(crate) fn truncate(&mut self, level: usize) {
        let basis = self.parameters.ring().basis(level);
        self.parts.iter_mut().for_each(|part| part.truncate(basis));
    }
}

/// A ciphertext made with the secret: its first part, and the seed of its second.
#[derive(Clone)]
pub(crate) struct SeededCiphertext {
    parameters: LatticeParameters,
    key: Option<KeyId>,
    pub(crate) body: Poly<Eval>,
    pub(crate) seed: Seed,
}

impl SeededCiphertext {
    pub(crate) fn new(parameters: &LatticeParameters, key: Option<KeyId>, body: Poly<Eval>, seed: Seed) -> Self {
        Self { parameters: parameters.clone(), key, body, seed }
    }

    /// The identity of the secret key, if it is known.
    pub(crate) fn key(&self) -> Option<KeyId> {
        self.key
    }

    /// The parameters.
    pub(crate) fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// Data primes.
    pub(crate) fn level(&self) -> usize {
        self.body.basis().data()
    }

    /// Adds an element to the phase.
    ///
    /// # Panics
    /// If it is over another basis.
    pub(crate) fn add_phase(&mut self, element: &Poly<Eval>) {
        self.body.add_assign(element);
    }

    /// Draws the second half from the seed.
    pub(crate) fn expand(&self) -> Ciphertext {
        let a = uniform(self.parameters.ring(), self.body.basis(), &self.seed, 0);
        Ciphertext::new(&self.parameters, self.key, vec![self.body.clone(), a])
    }
}
