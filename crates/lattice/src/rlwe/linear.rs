//! Linear maps of the slots, with few key switches.
//!
//! Let `ρ_d` rotate the slots by `d` steps, `ρ_d(x)_j = x_(j+d)`. A matrix `M` is given by its
//! generalised diagonals, `m_d[j] = M[j][j+d]`:
//!
//! ```text
//! M x = Σ_d m_d ρ_d(x) = Σ_g ρ_g( Σ_b ρ_(-g)(m_(g+b)) ρ_b(x) ),
//! d = g + b,      0 ≤ b < n,      n a divisor of g,
//! ```
//!
//! so that `D` diagonals take about `2√D` rotations (baby steps, giant steps: Halevi, Shoup, CRYPTO
//! 2014).
//!
//! # Hoisted twice
//! All baby steps share one decomposition into digits. And **division by `P` happens as late as
//! possible** (Bossuat, Mouchet, Troncoso-Pastoriza, Hubaux, EUROCRYPT 2021, section 4). Products
//! with a key stay modulo `Q P`, the ciphertext's own parts are multiplied by `P`, and plaintexts
//! are given modulo `Q P`. Only the second part of each giant step's sum is divided, because it is
//! cut into digits. The first part, and the sum over the giant steps, are divided once, at the end.
//!
//! # Cost
//! `B` baby steps, `G` giant steps, at `l` primes and `k` special ones: one decomposition; `B`
//! products with a key; `2 D (l + k) N` products; for each giant step a division, a decomposition
//! and a product with a key; two divisions. No intermediate ciphertext is stored: the baby steps
//! are computed row by row, and discarded with the row.
//!
//! # Error
//! That of a key switch for each baby step, times the plaintexts; that of a key switch for each
//! giant step; a rounding.

use super::evaluation_keys::GaloisKey;
use super::switch::KeySwitcher;
use crate::kernels::RingKernels;
use crate::ring::{Eval, Modulus, Poly};
use std::collections::{BTreeMap, BTreeSet};

/// The rotations of a linear map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// `n`.
    stride: usize,
    babies: BTreeSet<usize>,
    giants: BTreeSet<usize>,
}

impl Schedule {
    /// Chooses the `n` with the least work for these diagonals, given as steps below `slots`, a
    /// power of two. A giant step counts for three baby steps, because it also has a division and a
    /// decomposition.
    pub(crate) fn new(diagonals: &BTreeSet<usize>, slots: usize) -> Self {
        let of = |stride: usize| {
            let babies = diagonals.iter().map(|step| step % stride).collect();
            let giants = diagonals.iter().map(|step| step - step % stride).collect();
            Self { stride, babies, giants }
        };
        let work = |schedule: &Self| {
            let turns = |steps: &BTreeSet<usize>| steps.iter().filter(|step| **step != 0).count();
            turns(&schedule.babies) + 3 * turns(&schedule.giants)
        };
        let all = (0..=slots.trailing_zeros()).map(|log| of(1 << log));
        all.min_by_key(work).unwrap_or_else(|| unreachable!("at least one"))
    }

    /// `(g, b)` with `d = g + b`.
    pub(crate) fn split(&self, step: usize) -> (usize, usize) {
        (step - step % self.stride, step % self.stride)
    }

    /// Whether there are baby steps that rotate.
    pub(crate) fn has_babies(&self) -> bool {
        self.babies.iter().any(|step| *step != 0)
    }

    /// The number of giant steps, 0 among them.
    pub(crate) fn giants(&self) -> usize {
        self.giants.len()
    }

    /// The steps that need keys.
    pub(crate) fn steps(&self) -> impl Iterator<Item = usize> {
        let all: BTreeSet<usize> = self.babies.union(&self.giants).copied().filter(|step| *step != 0).collect();
        all.into_iter()
    }
}

/// A linear map, prepared.
#[derive(Clone)]
pub(crate) struct LinearMap {
    schedule: Schedule,
    /// By giant step and baby step: `ρ_(-g)(m_(g+b))`, over the data primes of a level and the
    /// special ones.
    plaintexts: BTreeMap<usize, BTreeMap<usize, Poly<Eval>>>,
}

impl LinearMap {
    /// Prepares the diagonals, given by steps. `encode` gets a giant step, a baby step, and a
    /// diagonal, which it must rotate back by the giant step.
    pub(crate) fn new<D, E>(
        diagonals: &BTreeMap<usize, D>,
        slots: usize,
        mut encode: impl FnMut(usize, usize, &D) -> Result<Poly<Eval>, E>,
    ) -> Result<Self, E> {
        let schedule = Schedule::new(&diagonals.keys().copied().collect(), slots);
        let mut plaintexts: BTreeMap<usize, BTreeMap<usize, Poly<Eval>>> = BTreeMap::new();
        for (step, diagonal) in diagonals {
            let (giant, baby) = schedule.split(*step);
            plaintexts.entry(giant).or_default().insert(baby, encode(giant, baby, diagonal)?);
        }
        Ok(Self { schedule, plaintexts })
    }

    /// The number of diagonals.
    pub(crate) fn count(&self) -> usize {
        self.plaintexts.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}

/// A ciphertext and its diagonals over the data primes of its level and the special ones, by giant
/// step and then by baby step.
pub(crate) struct Diagonals<'a> {
    pub(crate) parts: [&'a Poly<Eval>; 2],
    pub(crate) plaintexts: Vec<&'a Poly<Eval>>,
}

impl KeySwitcher {
    /// The sum of maps of several ciphertexts with diagonals in a grid: `babies` are the keys of
    /// all baby steps except 0, and `giant` is the key of one giant step, which is repeated
    /// (Horner's rule). A row of a key is read once for all ciphertexts.
    ///
    /// # Panics
    /// If there is no ciphertext, their numbers of diagonals differ or are not a multiple of the
    /// baby steps, there are several giant steps without a key, or a key or a plaintext is of other
    /// parameters or a lower level.
    pub(crate) fn transform_sum(
        &self,
        inputs: &[Diagonals<'_>],
        babies: &[&GaloisKey],
        giant: Option<&GaloisKey>,
    ) -> [Poly<Eval>; 2] {
        let count = babies.len() + 1;
        let mut sums = self.grid_sums(inputs, babies, inputs[0].plaintexts.len() / count).into_iter().rev();
        let Some(mut total) = sums.next() else { panic!("a giant step at least") };
        for sum in sums {
            let Some(galois) = giant else { panic!("a key for giant steps") };
            let [w0, w1] = &total;
            let [mut x0, x1] = self.product_once(&self.divide(w1), &galois.key);
            x0.add_assign(w0);
            total = [x0, x1].map(|x| x.automorphism(&galois.automorphism));
            total.iter_mut().zip(&sum).for_each(|(total, sum)| total.add_assign(sum));
        }
        total.map(|part| self.divide(&part))
    }

    /// For each giant step `P Σ_(i,b) w ρ_b(c_i)`, modulo `Q P`.
    fn grid_sums(&self, inputs: &[Diagonals<'_>], babies: &[&GaloisKey], giants: usize) -> Vec<[Poly<Eval>; 2]> {
        let ring = inputs[0].parts[0].ring();
        let digits: Vec<_> = inputs.iter().map(|input| self.digits(input.parts[1])).collect();
        let (basis, degree, kernels, count) = (digits[0].basis(), ring.degree(), RingKernels::best(), babies.len() + 1);
        let mut sums: Vec<[Poly<Eval>; 2]> = (0..giants).map(|_| [(); 2].map(|()| Poly::any(ring, basis))).collect();
        let mut scratch = ring.scratch(2 * count * inputs.len() + 2);
        let (turned, product) = scratch.split_at_mut(2 * count * inputs.len() * degree);
        let product = product.split_at_mut(degree);
        for row in 0..basis.rows() {
            let q = ring.table(basis, row).modulus();
            let special = q.factor(self.special(q));
            let mut places = turned.chunks_exact_mut(2 * degree);
            for baby in std::iter::once(None).chain(babies.iter().map(Some)) {
                for (input, digits) in inputs.iter().zip(&digits) {
                    let Some(out) = places.next() else { unreachable!("a place for each") };
                    let own = (row < basis.data()).then(|| input.parts.map(|part| part.row(row)));
                    let (out0, out1) = out.split_at_mut(degree);
                    if let Some(galois) = baby {
                        self.product_row(row, &digits.row(row), basis, &galois.key, [&mut *product.0, &mut *product.1]);
                        if let Some([c0, _]) = own {
                            (kernels.scale_add_assign)(q, product.0, c0, special);
                        }
                        galois.automorphism.permute(product.0, out0);
                        galois.automorphism.permute(product.1, out1);
                    } else {
                        out0.fill(0);
                        out1.fill(0);
                        if let Some([c0, c1]) = own {
                            (kernels.scale_add_assign)(q, out0, c0, special);
                            (kernels.scale_add_assign)(q, out1, c1, special);
                        }
                    }
                }
            }
            for (giant, sum) in sums.iter_mut().enumerate() {
                for (half, sum) in sum.iter_mut().enumerate() {
                    let pair = |place: usize| {
                        let (baby, input) = (place / inputs.len(), place % inputs.len());
                        let plaintext = inputs[input].plaintexts[giant * count + baby];
                        (&turned[(2 * place + half) * degree..][..degree], plaintext.row_of(basis, row))
                    };
                    let pairs: Vec<_> = (0..count * inputs.len()).map(pair).collect();
                    (kernels.inner_product)(q, sum.row_mut(row), &pairs);
                }
            }
        }
        sums
    }

    /// The map of a ciphertext; `key` gives a key of its level for every step of the schedule.
    ///
    /// # Panics
    /// If a key or the map is of other parameters or a lower level.
    pub(crate) fn transform<'k>(
        &self,
        [c0, c1]: [&Poly<Eval>; 2],
        map: &LinearMap,
        key: impl Fn(usize) -> &'k GaloisKey,
    ) -> [Poly<Eval>; 2] {
        let mut total: Option<[Poly<Eval>; 2]> = None;
        let mut turned = Vec::new();
        for (giant, sum) in map.plaintexts.keys().zip(self.giant_sums([c0, c1], map, &key)) {
            if *giant == 0 {
                total = Some(sum);
            } else {
                turned.push((key(*giant), sum));
            }
        }
        for (galois, [w0, w1]) in turned {
            let [mut x0, x1] = self.product_once(&self.divide(&w1), &galois.key);
            x0.add_assign(&w0);
            let moved = [x0, x1].map(|x| x.automorphism(&galois.automorphism));
            match &mut total {
                Some(total) => total.iter_mut().zip(&moved).for_each(|(total, moved)| total.add_assign(moved)),
                None => total = Some(moved),
            }
        }
        let zero = || [(); 2].map(|()| Poly::zero(c0.ring(), c0.ring().key_basis(c0.basis().data())));
        total.unwrap_or_else(zero).map(|part| self.divide(&part))
    }

    /// For each giant step `P Σ_b ρ_(-g)(m_(g+b)) ρ_b(c)`, modulo `Q P`.
    fn giant_sums<'k>(
        &self,
        [c0, c1]: [&Poly<Eval>; 2],
        map: &LinearMap,
        key: &impl Fn(usize) -> &'k GaloisKey,
    ) -> Vec<[Poly<Eval>; 2]> {
        let (ring, digits) = (c0.ring(), self.digits(c1));
        let (basis, degree, kernels) = (digits.basis(), ring.degree(), RingKernels::best());
        let babies: Vec<(usize, Option<&GaloisKey>)> =
            map.schedule.babies.iter().map(|step| (*step, (*step != 0).then(|| key(*step)))).collect();
        let mut sums: Vec<[Poly<Eval>; 2]> =
            map.plaintexts.iter().map(|_| [(); 2].map(|()| Poly::any(ring, basis))).collect();
        let mut scratch = ring.scratch(2 * babies.len() + 2);
        let (turned, product) = scratch.split_at_mut(2 * babies.len() * degree);
        for row in 0..basis.rows() {
            let q = ring.table(basis, row).modulus();
            let own = (row < basis.data()).then(|| [c0.row(row), c1.row(row)]);
            for ((_, galois), out) in babies.iter().zip(turned.chunks_exact_mut(2 * degree)) {
                let out = out.split_at_mut(degree);
                match galois {
                    Some(galois) => {
                        let product = product.split_at_mut(degree);
                        self.product_row(row, &digits.row(row), basis, &galois.key, [&mut *product.0, &mut *product.1]);
                        if let Some([c0, _]) = own {
                            (kernels.scale_add_assign)(q, product.0, c0, q.factor(self.special(q)));
                        }
                        galois.automorphism.permute(product.0, out.0);
                        galois.automorphism.permute(product.1, out.1);
                    }
                    None => {
                        out.0.fill(0);
                        out.1.fill(0);
                        if let Some([c0, c1]) = own {
                            (kernels.scale_add_assign)(q, out.0, c0, q.factor(self.special(q)));
                            (kernels.scale_add_assign)(q, out.1, c1, q.factor(self.special(q)));
                        }
                    }
                }
            }
            let place = |step: &usize| map.schedule.babies.range(..step).count();
            for (terms, sum) in map.plaintexts.values().zip(&mut sums) {
                for (half, sum) in sum.iter_mut().enumerate() {
                    let turned = |step: &usize| &turned[(2 * place(step) + half) * degree..][..degree];
                    let pairs: Vec<_> =
                        terms.iter().map(|(step, plaintext)| (turned(step), plaintext.row_of(basis, row))).collect();
                    (kernels.inner_product)(q, sum.row_mut(row), &pairs);
                }
            }
        }
        sums
    }

    /// `P` modulo a data prime.
    pub(super) fn special(&self, q: &Modulus) -> u64 {
        let special = self.parameters().ring().special_primes();
        special.iter().fold(1, |product, p| q.mul(product, q.reduce(p.modulus().value())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_take_few_steps_and_reach_every_diagonal() {
        for (diagonals, most) in [
            ((0..64).collect::<BTreeSet<_>>(), 19),
            ((0..5).collect(), 4),
            ([0, 8, 16, 24].into(), 3),
            ([5].into(), 1),
            ([0].into(), 0),
            (BTreeSet::new(), 0),
        ] {
            let schedule = Schedule::new(&diagonals, 128);
            assert!(schedule.steps().count() <= most, "{schedule:?}");
            for step in diagonals {
                let (giant, baby) = schedule.split(step);
                assert!(giant + baby == step && schedule.giants.contains(&giant) && schedule.babies.contains(&baby));
            }
        }
    }
}
