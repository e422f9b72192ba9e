//! Several polynomials of one ciphertext, with many coefficients, over as few primes as possible.
//!
//! With `n` coefficients at most, `k = ⌈log2 n⌉` primes are used, one for each doubling of the
//! degree, and not one more. Let `B = 2^b` and `Y = x^B`:
//!
//! ```text
//! p(x) = Σ_g P_g(x) Y^g,      P_g of degree below B,
//! N_0(g) = P_g,      N_j(g) = P_g + Σ_(i<j) N_i(g + 2^i) Y^(2^i),
//! ```
//!
//! so that `p = N_(k-b)(0)`. The powers below `B` and all `P_g` are over `b` primes less than `x`,
//! and `N_j` is over `j` primes less than those.
//!
//! **Sharing.** All polynomials share the powers, and the sums `P_g` are one matrix of numbers
//! times one vector of ciphertexts (`ring::weighted`). A sum `N_j` is relinearised once, so there
//! are `n/(2B)` relinearisations besides those of the powers. **If no polynomial has an even
//! power**, the only even powers computed are those whose exponents are powers of two.
//!
//! **Factors.** Powers that were computed in different ways have different factors `κ`, and a sum
//! needs one. No ciphertext is multiplied for that: the required factors are computed from the top
//! down, and the weights, which are numbers modulo `t` anyway, absorb them.
//!
//! **Levels.** A ciphertext with no more noise than a division leaves need not be divided: over a
//! prime less it is the same ciphertext without a row (in Brakerski, Gentry, Vaikuntanathan, ITCS
//! 2012, the division serves the noise only). So powers lose rows, and so do most of the `N_i` and
//! all `P_g` that are added to products, which have more noise than they. Bounds give the number of
//! remaining divisions in advance ([`Descent`]), because factors depend on it.
//!
//! **Noise.** A weight has `log2 t - 1` bits and multiplies a power's noise by as much, so the
//! primes by which sums are divided first should have a few bits more.

use super::ciphertext::Ciphertext;
use super::evaluate::{EvaluateError, Evaluator};
use super::keys::EvaluationKeys;
use crate::ring::{Eval, Modulus, Poly, WeightMatrix};
use crate::rlwe::{self, norms};

/// A ciphertext whose noise exceeds that of a division by at most this many bits is not divided.
const SLACK: f64 = 1.0;

/// Powers of `x`, and the split of polynomials.
struct Powers {
    /// `B`.
    baby: usize,
    /// Exponents and powers below `B`, all of one level.
    powers: Vec<(usize, Ciphertext)>,
    /// `Y^(2^i)` over one prime less each, followed by the same powers over fewer and fewer primes.
    giants: Vec<Vec<Ciphertext>>,
    descent: Descent,
}

/// Numbers of primes by which values are divided before their use.
#[derive(Default)]
struct Descent {
    /// `N_i` for a product in `N_j`, by `j` and `i`.
    nodes: Vec<Vec<usize>>,
    /// `P_g` for the sum in `N_j`, by `j`.
    own: Vec<usize>,
}

impl Powers {
    /// Data primes of sums of powers.
    fn level(&self) -> usize {
        self.giants[0][0].level()
    }

    /// `Y^(2^i)` over `level` primes.
    fn giant(&self, i: usize, level: usize) -> &Ciphertext {
        &self.giants[i][self.level() - i - level]
    }
}

/// The numbers of one `P_g` with a given factor: its constant, and the weights of the powers.
struct Leaf {
    constant: i64,
    weights: Vec<i64>,
    factor: u64,
    /// Logarithm of a bound.
    norm: f64,
}

/// The place of a `P_g`: the polynomial's number, and `g`.
type Place = (usize, usize);

impl Evaluator {
    /// `Σ_i c_i x^i` in every slot, for each list of coefficients `c`, over `⌈log2 n⌉` primes less
    /// than `x`, where `n` is the length of the longest list.
    ///
    /// ```
    /// use rand_core::SeedableRng;
    /// use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
    /// use tobari_lattice::params::{LatticeParameters, Plaintext};
    /// use tobari_lattice::ring::Modulus;
    /// use tobari_lattice::rlwe::SecretKey;
    /// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
    /// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
    /// let parameters = LatticeParameters::of_sizes(1 << 13, &[40, 40, 40], &[40], 3, t)?;
    /// let secret = SecretKey::generate(&parameters, &mut rng);
    /// let keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, 3, &mut rng)?;
    /// let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    /// let x = encoder.encode(&[3, 4])?.encrypt_seeded(&secret, 3, &mut rng)?.expand();
    /// let both = Evaluator::new(&parameters)?.polynomials(&x, &[vec![1, 2, 3, 4], vec![0, 5]], &keys)?;
    /// assert_eq!(encoder.decode(&holder.decrypt(&both[0])?)?[..2], [142, 313]);
    /// assert_eq!(encoder.decode(&holder.decrypt(&both[1])?)?[..2], [15, 20]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Evaluator::mul`], or [`EvaluateError::Level`] unless there are more than `⌈log2 n⌉`
    /// primes, or [`EvaluateError::Empty`] if no list has two coefficients.
    pub fn polynomials(
        &self,
        x: &Ciphertext,
        polynomials: &[Vec<i64>],
        keys: &EvaluationKeys,
    ) -> Result<Vec<Ciphertext>, EvaluateError> {
        self.check(x)?;
        let length = polynomials.iter().map(Vec::len).max().unwrap_or(0);
        if length < 2 {
            return Err(EvaluateError::Empty { expected: "a polynomial of degree one at least" });
        }
        let depth = length.next_power_of_two().trailing_zeros() as usize;
        if x.level() <= depth {
            return Err(EvaluateError::Level { present: x.level(), wanted: depth + 1 });
        }
        if x.needs_relinearization() {
            return Err(EvaluateError::NotRelinearized);
        }
        let odd = polynomials.iter().all(|c| c.iter().step_by(2).all(|c| *c == 0));
        let mut powers = self.shared_powers(x, baby_steps(length, polynomials.len(), odd), depth, odd, keys)?;
        let groups = length.div_ceil(powers.baby);
        let top = groups.next_power_of_two().trailing_zeros() as usize;
        powers.descent = self.descent(&powers, top);
        let mut factors = vec![1; groups];
        self.factors(&powers, (0, top), 1, &mut factors);
        let mut leaves = self.leaves(&powers, polynomials, &factors)?;
        let node = |which: usize| {
            let node = self.node(&powers, &mut leaves[which], (0, top), keys)?;
            node.map_or_else(|| self.zero(x.level() - depth), Ok)
        };
        (0..polynomials.len()).map(node).collect()
    }

    /// Computes powers stage by stage: from those below `2^j`, and `x^(2^j)`, those below
    /// `2^(j+1)`, all brought to one lower level.
    fn shared_powers(
        &self,
        x: &Ciphertext,
        baby: usize,
        depth: usize,
        odd: bool,
        keys: &EvaluationKeys,
    ) -> Result<Powers, EvaluateError> {
        let mut powers = vec![(1, x.clone())];
        let mut highest = x.clone(); // x^(2^j)
        for stage in 0..baby.trailing_zeros() {
            let (exponent, level) = (1 << stage, highest.level() - 1);
            let mut next = Vec::with_capacity(2 * powers.len());
            for (below, power) in powers.iter().filter(|(below, _)| *below < exponent) {
                next.push((below + exponent, self.mul_mod_switch(power, &highest, keys)?));
            }
            highest = self.mul_mod_switch(&highest, &highest, keys)?;
            powers = powers.into_iter().map(|(exponent, power)| (exponent, self.settled(power, level))).collect();
            powers.extend(next);
            if !odd && 2 * exponent < baby {
                powers.push((2 * exponent, highest.clone()));
            }
        }
        let mut giants = vec![highest];
        for _ in baby.trailing_zeros() as usize + 1..depth {
            let last = &giants[giants.len() - 1];
            giants.push(self.mul_mod_switch(last, last, keys)?);
        }
        let last = giants.last().map_or(0, Ciphertext::level);
        let lowered = |giant: Ciphertext| {
            let mut all = vec![giant];
            while all[all.len() - 1].level() > last {
                all.push(self.settled(all[all.len() - 1].clone(), all[all.len() - 1].level() - 1));
            }
            all
        };
        let giants = giants.into_iter().map(lowered).collect();
        Ok(Powers { baby, powers, giants, descent: Descent::default() })
    }

    /// A bound on the noise after a division.
    fn floor(&self) -> f64 {
        norms::rounding(self.parameters(), 2)
    }

    /// Divisions between two levels until the noise is at most `most`, and the noise after them.
    fn divisions(&self, mut norm: f64, from: usize, to: usize, most: f64) -> (usize, f64) {
        let primes = self.parameters().ring().data_primes();
        let mut level = from;
        while level > to && norm > most {
            level -= 1;
            norm = norms::sum([norm - (primes[level].modulus().value() as f64).log2(), self.floor()]);
        }
        (from - level, norm)
    }

    /// The same message at a lower level, divided as long as division reduces the noise.
    fn settled(&self, ciphertext: Ciphertext, level: usize) -> Ciphertext {
        let (divisions, _) = self.divisions(ciphertext.norm, ciphertext.level(), level, self.floor() + SLACK);
        self.dropped(ciphertext, level, divisions)
    }

    fn descent(&self, powers: &Powers, top: usize) -> Descent {
        let (primes, floor) = (self.parameters().ring().data_primes(), self.floor());
        let width = (self.modulus().value() as f64).log2() - 1.0;
        let leaf =
            powers.powers.iter().fold(f64::NEG_INFINITY, |sum, (_, power)| norms::sum([sum, power.norm])) + width;
        let mut bounds = vec![leaf];
        let mut descent = Descent { nodes: vec![Vec::new()], own: vec![0] };
        for j in 1..=top {
            let at = powers.level() - j + 1;
            let moved = |i: usize| self.divisions(bounds[i], powers.level() - i, at, floor + SLACK);
            let nodes: Vec<(usize, f64)> = (0..j).map(moved).collect();
            let product = |(i, (_, norm)): (usize, &(usize, f64))| norms::product(*norm, powers.giant(i, at).norm);
            let products =
                nodes.iter().enumerate().map(product).fold(f64::NEG_INFINITY, |sum, norm| norms::sum([sum, norm]));
            let (own, norm) = self.divisions(leaf, powers.level(), at, products);
            let sum = norms::sum([products, norm, norms::switch(self.parameters(), at)]);
            bounds.push(norms::sum([sum - (primes[at - 1].modulus().value() as f64).log2(), floor]));
            descent.nodes.push(nodes.into_iter().map(|node| node.0).collect());
            descent.own.push(own);
        }
        descent
    }

    /// The factor that becomes this one by modulus switches.
    fn unswitched(&self, factor: u64, from: usize, to: usize) -> u64 {
        let (t, primes) = (self.modulus(), self.parameters().ring().data_primes());
        primes[to..from].iter().fold(factor, |factor, prime| t.mul(factor, t.reduce(prime.modulus().value())))
    }

    /// The factors that the `P` of a node need so that the node has this factor.
    fn factors(&self, powers: &Powers, (g, j): (usize, usize), factor: u64, out: &mut [u64]) {
        if g >= out.len() {
            return;
        }
        let (t, level) = (self.modulus(), powers.level());
        if j == 0 {
            out[g] = factor;
            return;
        }
        // of the sum, before it is switched to the level of the node
        let at = level - j + 1;
        let sum = self.unswitched(factor, at, at - 1);
        out[g] = self.unswitched(sum, level, level - powers.descent.own[j]);
        for i in 0..j {
            let node = t.mul(sum, unit(t, powers.giant(i, at).factor));
            let from = level - i;
            let node = self.unswitched(node, from, from - powers.descent.nodes[j][i]);
            self.factors(powers, (g + (1 << i), i), node, out);
        }
    }

    /// All `P_g`, by polynomial and `g`; `None` for each `P_g` with only zero coefficients.
    fn leaves(
        &self,
        powers: &Powers,
        polynomials: &[Vec<i64>],
        factors: &[u64],
    ) -> Result<Vec<Vec<Option<Ciphertext>>>, EvaluateError> {
        let mut leaves: Vec<Vec<Option<Ciphertext>>> =
            polynomials.iter().map(|_| factors.iter().map(|_| None).collect()).collect();
        let (mut places, mut numbers): (Vec<Place>, Vec<Leaf>) = (Vec::new(), Vec::new());
        for (which, coefficients) in polynomials.iter().enumerate() {
            for ((g, group), factor) in coefficients.chunks(powers.baby).enumerate().zip(factors) {
                if group.iter().any(|c| *c != 0) {
                    places.push((which, g));
                    numbers.push(self.leaf(powers, group, *factor));
                }
            }
        }
        for ((which, g), leaf) in places.into_iter().zip(self.weighted(powers, &numbers)?) {
            leaves[which][g] = Some(leaf);
        }
        Ok(leaves)
    }

    fn leaf(&self, powers: &Powers, group: &[i64], factor: u64) -> Leaf {
        let t = self.modulus();
        let mut norm = f64::NEG_INFINITY;
        let weights = powers.powers.iter().map(|(exponent, power)| {
            let coefficient = t.reduce_signed(group.get(*exponent).copied().unwrap_or(0));
            let weight = t.centred(t.mul(coefficient, t.mul(factor, unit(t, power.factor))));
            norm = norms::sum([norm, norms::product(power.norm, (weight.unsigned_abs() as f64).log2())]);
            weight
        });
        let weights = weights.collect();
        Leaf { constant: group[0], weights, factor, norm: norm.max(0.0) }
    }

    /// The sums of leaves; one pass over the powers if weights have sixteen bits.
    fn weighted(&self, powers: &Powers, leaves: &[Leaf]) -> Result<Vec<Ciphertext>, EvaluateError> {
        if leaves.is_empty() {
            return Ok(Vec::new());
        }
        let narrow: Result<Vec<i32>, _> =
            leaves.iter().flat_map(|leaf| &leaf.weights).map(|weight| i32::try_from(*weight)).collect();
        let matrix = narrow.ok().and_then(|weights| WeightMatrix::new(powers.powers.len(), &weights));
        let mut parts = (0..2).map(|part| {
            let inputs: Vec<&Poly<Eval>> = powers.powers.iter().map(|(_, power)| &power.inner.parts()[part]).collect();
            match &matrix {
                Some(matrix) => Poly::weighted_sums(matrix, &inputs),
                None => leaves.iter().map(|leaf| self.wide(&inputs, leaf)).collect(),
            }
            .into_iter()
        });
        let (Some(c0), Some(c1)) = (parts.next(), parts.next()) else { unreachable!("two parts") };
        let sums = leaves.iter().zip(c0.zip(c1)).map(|(leaf, (c0, c1))| {
            let key = powers.powers[0].1.key();
            let inner = rlwe::Ciphertext::new(self.parameters(), key, vec![c0, c1]);
            let sum = Ciphertext::new(inner, leaf.factor, leaf.norm);
            if leaf.constant == 0 { Ok(sum) } else { self.add_constant(&sum, leaf.constant) }
        });
        sums.collect()
    }

    /// A sum with weights of any width.
    fn wide(&self, inputs: &[&Poly<Eval>], leaf: &Leaf) -> Poly<Eval> {
        let tables = inputs[0].ring().tables(inputs[0].basis());
        let factors: Vec<Vec<u64>> =
            tables.map(|table| leaf.weights.iter().map(|w| table.modulus().reduce_signed(*w)).collect()).collect();
        Poly::combination(&factors, inputs)
    }

    /// `N_j(g)`; none if it is zero.
    fn node(
        &self,
        powers: &Powers,
        leaves: &mut [Option<Ciphertext>],
        (g, j): (usize, usize),
        keys: &EvaluationKeys,
    ) -> Result<Option<Ciphertext>, EvaluateError> {
        if g >= leaves.len() {
            return Ok(None);
        }
        let own = leaves[g].take();
        if j == 0 {
            return Ok(own);
        }
        let at = powers.level() - j + 1;
        let mut sum: Option<Ciphertext> = None;
        for i in 0..j {
            let Some(node) = self.node(powers, leaves, (g + (1 << i), i), keys)? else { continue };
            let node = self.dropped(node, at, powers.descent.nodes[j][i]);
            let product = self.tensor(&node, powers.giant(i, at))?;
            match &mut sum {
                Some(sum) => self.add_assign(sum, &product)?,
                None => sum = Some(product),
            }
        }
        if let Some(own) = own {
            let own = self.dropped(own, at, powers.descent.own[j]);
            match &mut sum {
                Some(sum) => self.add_assign(sum, &own)?,
                None => return Ok(Some(self.to_level(&own, at - 1)?)),
            }
        }
        sum.map(|sum| self.relinearize_mod_switch(&sum, keys)).transpose()
    }
}

fn unit(t: &Modulus, factor: u64) -> u64 {
    t.inverse(factor).unwrap_or_else(|| unreachable!("factors and primes are units"))
}

/// The `B` with the fewest products: powers, and one for each group of each polynomial.
fn baby_steps(length: usize, polynomials: usize, odd: bool) -> usize {
    let work = |baby: &usize| {
        let powers = if odd { baby / 2 + baby.trailing_zeros() as usize } else { *baby };
        powers + polynomials * length.div_ceil(*baby)
    };
    let most = length.next_power_of_two().trailing_zeros();
    (1..=most).map(|log| 1 << log).min_by_key(work).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, Encoder};
    use super::*;
    use crate::params::{LatticeParameters, Plaintext};
    use crate::rlwe::SecretKey;
    use crate::rlwe::tests::rng;

    fn horner(coefficients: &[i64], x: i64, t: i64) -> i64 {
        coefficients.iter().rev().fold(0, |sum, c| (sum * x + c).rem_euclid(t))
    }

    #[test]
    fn polynomials_are_their_values_in_every_slot_over_as_few_primes_as_can_be() {
        // the wider modulus takes the sums without a matrix
        for (t, bits) in [(257, 40), (786_433, 50)] {
            let modulus = Plaintext::Integers(Modulus::new(t).unwrap());
            let parameters = LatticeParameters::insecure_of_sizes(64, &[bits; 9], &[bits, bits], 5, modulus).unwrap();
            let secret = SecretKey::generate(&parameters, &mut rng(1));
            let keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, 9, &mut rng(2)).unwrap();
            let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
            let holder = Decryptor::new(&secret).unwrap();
            let (t, slots) = (t as i64, (0..64).map(|i| i * i * 31 - 500).collect::<Vec<i64>>());
            let x = encoder.encode(&slots).unwrap().encrypt_seeded(holder.key(), 9, &mut rng(3)).unwrap().expand();
            let random = |length: i64, seed: i64| (0..length).map(|i| (i * i * 7 + seed * i + 3) % t - 9).collect();
            let odd = |length: i64| (0..length).map(|i| if i % 2 == 1 { i * 11 % t } else { 0 }).collect();
            let sparse = |length: usize| {
                let mut all = vec![0; length];
                (all[0], all[length - 1]) = (5, -1);
                all
            };
            let lists: [Vec<Vec<i64>>; 7] = [
                vec![vec![3, 4]],
                vec![random(9, 1)],
                vec![odd(128)],
                vec![random(200, 2), random(33, 3), vec![7]],
                vec![odd(224), odd(10)],
                vec![sparse(256), vec![0, 1], vec![]],
                vec![random(256, 5)],
            ];
            for list in lists {
                let found = evaluator.polynomials(&x, &list, &keys).unwrap();
                let depth = list.iter().map(Vec::len).max().unwrap().next_power_of_two().trailing_zeros() as usize;
                for (found, coefficients) in found.iter().zip(&list) {
                    assert_eq!((found.level(), found.needs_relinearization()), (9 - depth, false));
                    assert!(found.noise_budget() > 0.0 && holder.noise(found).unwrap() <= found.noise_bound());
                    let values = encoder.decode(&holder.decrypt(found).unwrap()).unwrap();
                    let expected = slots.iter().map(|x| horner(coefficients, x.rem_euclid(t), t));
                    assert!(
                        values.iter().map(|value| value.rem_euclid(t)).eq(expected),
                        "{} of {t}",
                        coefficients.len()
                    );
                }
            }
            let low = evaluator.to_level(&x, 3).unwrap();
            let refused = evaluator.polynomials(&low, &[vec![1; 5]], &keys).map(|_| ()).unwrap_err();
            assert_eq!(refused, EvaluateError::Level { present: 3, wanted: 4 });
            let missing =
                evaluator.polynomials(&x, &[vec![1; 5]], &EvaluationKeys::new(&parameters)).map(|_| ()).unwrap_err();
            assert!(matches!(missing, EvaluateError::MissingKey { .. }));
        }
    }
}
