//! Polynomials of ciphertexts, in the least depth.
//!
//! A polynomial is a sum of powers, or of Chebyshev polynomials,
//!
//! ```text
//! T_0 = 1,   T_1 = x,   T_(a+b) = 2 T_a T_b - T_(a-b),
//! ```
//!
//! which stay within ±1 where `x` does, and whose coefficients are no larger than the function. A
//! series of degree 30 in powers has coefficients that no scale holds, and one in Chebyshev
//! polynomials has small ones.
//!
//! **Depth.** With `h` the largest power of two not above the degree, `p = p_1 x^h + p_0`, and so
//! on for both halves: degree `d` takes `⌈log2(d + 1)⌉` levels, as few as possible (Paterson,
//! Stockmeyer, SIAM J. Comput. 1973, with giant steps by powers of two). In Chebyshev polynomials
//! `c_k T_k = 2 c_k T_(k-h) T_h - c_k T_(2h-k)` splits the same way. A part of small degree that
//! has a level to spare is a sum of powers times constants, without further products of
//! ciphertexts. Which degree is small is chosen for the fewest key switches.
//!
//! **Few key switches.** The low half is added to the product before that is relinearised and
//! rescaled, and it is a sum of products itself. So a key switch is due only where a sum becomes a
//! factor: 10 for degree 31, where products that are switched one by one take 13.
//!
//! **Scales are exact.** Every part is computed for a given level and scale; the whole has the
//! scale of `x`. Let `q` be the prime of the last rescaling. For a sum of powers at scale `Δ'`, the
//! constant of `x^k` is encoded at `q Δ'` over the scale of `x^k`. For `p_1 x^h + p_0`, `p_1` is
//! computed at `q Δ'` over the scale of `x^h`, and `p_0` at `Δ'`. So all terms have the scale
//! `q Δ'` exactly. The constants absorb the differences between primes, at no cost.

use super::OperationError;
use super::ciphertext::Ciphertext;
use super::embedding::Complex;
use super::evaluator::Evaluator;
use super::keys::EvaluationKeys;
use super::roots::half_circle;
use super::scale::Scale;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The most coefficients.
const MOST: usize = 1 << 10;

impl Evaluator {
    /// `c_0 + c_1 x + c_2 x² …` in every slot, at the scale of `x` and `⌈log2(d + 1)⌉` levels below
    /// it, `d` the degree. The primes should be about as large as the scale, and the values of
    /// powers of `x` not much larger than 1.
    ///
    /// # Errors
    /// [`OperationError`] if there are no coefficients or more than 1,024, too few levels, no key,
    /// or parameters differ.
    pub fn polynomial(
        &self,
        x: &Ciphertext,
        coefficients: &[f64],
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        self.series(Basis::Powers, x, &real(coefficients), x.scale(), keys)
    }

    /// `c_0 + c_1 T_1(x) + c_2 T_2(x) …` in every slot, for numbers of at most 1 in absolute value.
    /// Levels and scale are those of [`Self::polynomial`]. [`chebyshev_series`] computes
    /// coefficients of a function.
    ///
    /// ```
    /// use rand_core::SeedableRng;
    /// use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, Scale, chebyshev_series};
    /// use tobari_lattice::params::{LatticeParameters, Plaintext};
    /// use tobari_lattice::rlwe::SecretKey;
    /// // a program takes its randomness from the system
    /// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]);
    /// let (kind, data) = (Plaintext::Approximate, [50, 40, 40, 40, 40]);
    /// let parameters = LatticeParameters::insecure_of_sizes(1 << 10, &data, &[50], 5, kind)?;
    /// let secret = SecretKey::generate(&parameters, &mut rng);
    /// let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, 5, &mut rng)?;
    /// let (encoder, evaluator) = (Encoder::new(&parameters)?, Evaluator::new(&parameters)?);
    /// let x = encoder.encode(&[0.5, -1.0], &Scale::power_of_two(40), 5)?.encrypt_seeded(&secret, &mut rng)?;
    /// let exponential = evaluator.chebyshev(&x.expand(), &chebyshev_series(f64::exp, 15), &keys)?;
    /// let slots = Decryptor::new(&secret, &encoder)?.decrypt(&exponential)?;
    /// assert!((slots[0] - 0.5f64.exp()).abs() < 1e-6 && (slots[1] - (-1f64).exp()).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::polynomial`], and [`OperationError::Domain`] for numbers that may be larger.
    pub fn chebyshev(
        &self,
        x: &Ciphertext,
        coefficients: &[f64],
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        let magnitude = self.bounds(x)?.magnitude();
        if magnitude > 1.0 {
            return Err(OperationError::Domain { magnitude });
        }
        self.series(Basis::Chebyshev, x, &real(coefficients), x.scale(), keys)
    }

    /// A sum of these multiples of the elements of a basis, at any scale.
    pub(crate) fn series(
        &self,
        basis: Basis,
        x: &Ciphertext,
        coefficients: &[Complex],
        scale: &Scale,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        if !(1..=MOST).contains(&coefficients.len()) {
            return Err(OperationError::Coefficients { most: MOST, found: coefficients.len() });
        }
        let depth = log2_up(degree(coefficients) + 1);
        self.check_level(x, depth + 1)?;
        let baby = basis.baby(coefficients);
        let mut powers =
            Powers { evaluator: self, keys, basis, baby, known: BTreeMap::from([(1, Rc::new(x.clone()))]) };
        powers.evaluate(coefficients, x.level() - depth, scale)
    }

    /// `x^exponent` in every slot by [`Self::mul_reduced`], with `⌈log2 exponent⌉` products that
    /// follow each other.
    ///
    /// # Errors
    /// [`OperationError`] for an exponent of 0, too few levels, no key, or other parameters.
    pub fn power(&self, x: &Ciphertext, exponent: u32, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        if exponent == 0 {
            return Err(OperationError::Exponent);
        }
        self.check_level(x, log2_up(exponent as usize) + 1)?;
        self.power_of(exponent, &mut BTreeMap::from([(1, x.clone())]), keys)
    }

    /// Computes `x^exponent` from powers that were computed before, which `known` has.
    fn power_of(
        &self,
        exponent: u32,
        known: &mut BTreeMap<u32, Ciphertext>,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        if let Some(power) = known.get(&exponent) {
            return Ok(power.clone());
        }
        // the largest power of two below, so that no branch is deeper
        let left = exponent.div_ceil(2).next_power_of_two();
        let [a, b] = [self.power_of(left, known, keys)?, self.power_of(exponent - left, known, keys)?];
        let product = self.mul_reduced(&a, &b, keys)?;
        known.insert(exponent, product.clone());
        Ok(product)
    }
}

/// The coefficients of the Chebyshev polynomials of degree 0 to `degree`, whose sum is near
/// `function` on [-1, 1]: it equals the function at the roots of a `T_n`, `n` the power of two
/// above twice the degree. The error is about the sum of the coefficients that follow.
///
/// ```
/// use tobari_lattice::ckks::chebyshev_series;
/// // x² = (T_0 + T_2)/2
/// let square = chebyshev_series(|x| x * x, 2);
/// assert!(square.iter().zip([0.5, 0.0, 0.5]).all(|(found, c)| (found - c).abs() < 1e-15));
/// ```
pub fn chebyshev_series(function: impl Fn(f64) -> f64, degree: usize) -> Vec<f64> {
    let nodes = (2 * degree + 2).next_power_of_two();
    // cos(πk/2n)
    let roots = half_circle(2 * nodes);
    let cosine = |k: usize| match k % (4 * nodes) {
        k if k < 2 * nodes => roots[k].re,
        k => -roots[k - 2 * nodes].re,
    };
    let values: Vec<f64> = (0..nodes).map(|j| function(cosine(2 * j + 1))).collect();
    let coefficient = |k: usize| {
        let sum: f64 = values.iter().enumerate().map(|(j, value)| value * cosine(k * (2 * j + 1))).sum();
        sum * if k == 0 { 1.0 } else { 2.0 } / nodes as f64
    };
    (0..=degree).map(coefficient).collect()
}

/// The degree; 0 for the zero polynomial.
pub(crate) fn degree(coefficients: &[Complex]) -> usize {
    coefficients.iter().rposition(|c| *c != ZERO).unwrap_or(0)
}

const ZERO: Complex = Complex { re: 0.0, im: 0.0 };

fn real(coefficients: &[f64]) -> Vec<Complex> {
    coefficients.iter().copied().map(Complex::from).collect()
}

/// `⌈log2⌉`.
pub(crate) fn log2_up(value: usize) -> usize {
    value.next_power_of_two().trailing_zeros() as usize
}

/// The polynomials that a series is a sum of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// `x^k`.
    Powers,
    /// `T_k`.
    Chebyshev,
}

impl Basis {
    /// `p = p_1 b_h + p_0`, `b_h` the element of degree `h`, for a degree from `h` to `2h - 1`.
    pub(crate) fn split(self, p: &[Complex], h: usize) -> [Vec<Complex>; 2] {
        let (low, high) = p.split_at(h);
        let [mut low, mut high] = [low.to_vec(), high.to_vec()];
        if self == Self::Chebyshev {
            for (k, c) in high.iter_mut().enumerate().skip(1) {
                low[h - k] = low[h - k] - *c;
                *c = *c + *c;
            }
        }
        [low, high]
    }

    /// The elements that one is computed from: two factors, and a term that is subtracted.
    pub(crate) fn parts(self, k: usize) -> ([usize; 2], Option<usize>) {
        // the left factor is the deeper one
        let left = k.next_power_of_two() / 2;
        let term = (self == Self::Chebyshev && 2 * left > k).then(|| 2 * left - k);
        ([left, k - left], term)
    }

    /// Sums of elements have a degree below this: the choice with the fewest key switches.
    pub(crate) fn baby(self, p: &[Complex]) -> usize {
        (1..=6).map(|log| 1 << log).min_by_key(|baby| self.switches(p, *baby)).unwrap_or_else(|| unreachable!("one"))
    }

    /// Key switches of a series.
    fn switches(self, p: &[Complex], baby: usize) -> usize {
        let mut known = BTreeSet::from([1]);
        let (inner, products) = self.terms(p, baby, log2_up(degree(p) + 1), &mut known);
        inner + usize::from(products) + known.len() - 1
    }

    /// Key switches of the terms of `p` with `depth` levels, besides those of elements, which are
    /// added to `known`; and whether products are left that are not switched.
    fn terms(self, p: &[Complex], baby: usize, depth: usize, known: &mut BTreeSet<usize>) -> (usize, bool) {
        let degree = degree(p);
        if is_sum(p, baby, depth) {
            p.iter().enumerate().skip(1).filter(|(_, c)| **c != ZERO).for_each(|(k, _)| self.learn(k, known));
            return (0, false);
        }
        let h = (degree + 1).next_power_of_two() / 2;
        self.learn(h, known);
        let [low, high] = self.split(&p[..=degree], h);
        let low = self.terms(&low, baby, depth, known);
        if high.len() == 1 {
            return low;
        }
        let high = self.terms(&high, baby, depth - 1, known);
        (low.0 + high.0 + usize::from(high.1), true)
    }

    fn learn(self, k: usize, known: &mut BTreeSet<usize>) {
        if k > 0 && known.insert(k) {
            let (factors, term) = self.parts(k);
            factors.into_iter().chain(term).for_each(|k| self.learn(k, known));
        }
    }
}

/// Is it a sum of elements of degree below `baby`, for which one level of `depth` is enough?
pub(crate) fn is_sum(p: &[Complex], baby: usize, depth: usize) -> bool {
    let reached = |(k, c): (usize, &Complex)| *c == ZERO || log2_up(k) < depth;
    degree(p) < baby && p.iter().enumerate().skip(1).all(reached)
}

/// Elements of a basis, computed when needed: that of degree `k` is `⌈log2 k⌉` levels below `x`.
struct Powers<'a> {
    evaluator: &'a Evaluator,
    keys: &'a EvaluationKeys,
    basis: Basis,
    baby: usize,
    known: BTreeMap<usize, Rc<Ciphertext>>,
}

impl Powers<'_> {
    /// The element of degree `k` at a level that it reaches.
    fn power(&mut self, k: usize, level: usize) -> Result<Rc<Ciphertext>, OperationError> {
        if !self.known.contains_key(&k) {
            let ([left, right], term) = self.basis.parts(k);
            let deepest = self.top() - log2_up(left);
            let [a, b] = [self.power(left, deepest)?, self.power(right, deepest)?];
            let mut product = self.evaluator.tensor(&a, &b)?;
            if self.basis == Basis::Chebyshev {
                product = self.evaluator.times_integer(product, 2)?;
                product = match term {
                    None => self.evaluator.plus_constant(product, -1.0)?,
                    Some(term) => {
                        let term = self.power(term, deepest)?;
                        let factor = quotient(product.scale(), term.scale(), deepest)?;
                        let term = self.evaluator.mul_constant_at(&term, -1.0, &factor)?;
                        self.evaluator.add_assign(&mut product, &term)?;
                        product
                    }
                };
            }
            let mut element = self.evaluator.relinearize_rescale(&product, self.keys)?;
            if self.basis == Basis::Chebyshev
                && let Some(estimate) = element.estimate()
            {
                element.set_estimate(Some(estimate.within(1.0)));
            }
            self.known.insert(k, Rc::new(element));
        }
        let element = &self.known[&k];
        if element.level() == level {
            Ok(element.clone())
        } else {
            self.evaluator.to_level(element, level).map(Rc::new)
        }
    }

    fn top(&self) -> usize {
        self.known[&1].level()
    }

    /// `p` at this level and scale.
    fn evaluate(&mut self, p: &[Complex], level: usize, scale: &Scale) -> Result<Ciphertext, OperationError> {
        if degree(p) == 0 {
            return self.constant(p[0], level, scale);
        }
        let scale = scale.product(&Scale::prime(level)).ok_or(OperationError::NoRoom { level })?;
        let sum = self.terms(p, level + 1, &scale)?;
        self.evaluator.relinearize_rescale(&sum, self.keys)
    }

    /// The same number in all slots.
    fn constant(&mut self, value: Complex, level: usize, scale: &Scale) -> Result<Ciphertext, OperationError> {
        let first = self.power(1, level)?;
        let zero = self.evaluator.mul_integer(&first, 0)?;
        let factor = scale.to_f64(self.evaluator.parameters()).unwrap_or(f64::NAN);
        let estimate = zero.estimate().map(|estimate| estimate.at(factor, level));
        let zero = Ciphertext::new(zero.into_inner(), scale.clone(), estimate);
        self.plus(zero, value)
    }

    /// `a` and the same number in all slots.
    fn plus(&self, a: Ciphertext, value: Complex) -> Result<Ciphertext, OperationError> {
        let sum = self.evaluator.plus_constant(a, value.re)?;
        if value.im == 0.0 {
            return Ok(sum);
        }
        // -i (i a + b) = a - i b
        let turned = self.evaluator.add_constant(&self.evaluator.times_i(&sum)?, -value.im)?;
        self.evaluator.neg(&self.evaluator.times_i(&turned)?)
    }

    /// `p` at this level and scale, from elements of this level; in three parts if there are
    /// products.
    fn terms(&mut self, p: &[Complex], level: usize, scale: &Scale) -> Result<Ciphertext, OperationError> {
        let degree = degree(p);
        if degree == 0 {
            return self.constant(p[0], level, scale);
        }
        if is_sum(p, self.baby, self.top() - level + 1) {
            return self.sum(&p[..=degree], level, scale);
        }
        let h = (degree + 1).next_power_of_two() / 2;
        let [low, high] = self.basis.split(&p[..=degree], h);
        let product = if high.len() == 1 {
            let mut single = vec![ZERO; h + 1];
            single[h] = high[0];
            self.sum(&single, level, scale)?
        } else {
            let power = self.power(h, level)?;
            let factor = quotient(scale, power.scale(), level)?;
            self.evaluator.tensor(&self.evaluate(&high, level, &factor)?, &power)?
        };
        if self::degree(&low) == 0 {
            return self.plus(product, low[0]);
        }
        let mut sum = product;
        self.evaluator.add_assign(&mut sum, &self.terms(&low, level, scale)?)?;
        Ok(sum)
    }

    /// `Σ c_k b_k`, `b_k` the elements.
    fn sum(&mut self, p: &[Complex], level: usize, scale: &Scale) -> Result<Ciphertext, OperationError> {
        let parts: [fn(&Complex) -> f64; 2] = [|c| c.re, |c| c.im];
        let [real, imaginary] = parts.map(|part| p.iter().map(part).collect::<Vec<f64>>());
        let sum = match (self.real_sum(&real, level, scale)?, self.real_sum(&imaginary, level, scale)?) {
            (Some(real), None) => real,
            (None, Some(imaginary)) => self.evaluator.times_i(&imaginary)?,
            (Some(real), Some(imaginary)) => self.evaluator.add(&real, &self.evaluator.times_i(&imaginary)?)?,
            (None, None) => return self.constant(p[0], level, scale),
        };
        self.plus(sum, p[0])
    }

    /// The same with real coefficients, without that of degree 0; none if all are 0.
    fn real_sum(&mut self, p: &[f64], level: usize, scale: &Scale) -> Result<Option<Ciphertext>, OperationError> {
        let mut sum: Option<Ciphertext> = None;
        for (k, c) in p.iter().enumerate().skip(1).filter(|(_, c)| **c != 0.0) {
            let power = self.power(k, level)?;
            let factor = quotient(scale, power.scale(), level)?;
            let term = self.evaluator.mul_constant_at(&power, *c, &factor)?;
            match &mut sum {
                Some(sum) => self.evaluator.add_assign(sum, &term)?,
                None => sum = Some(term),
            }
        }
        Ok(sum)
    }
}

/// The scale of the other factor of a product of this scale.
fn quotient(scale: &Scale, factor: &Scale, level: usize) -> Result<Scale, OperationError> {
    scale.quotient(factor).ok_or(OperationError::NoRoom { level })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Bench;
    use super::*;

    fn plain(coefficients: &[f64], x: f64) -> f64 {
        coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
    }

    #[test]
    fn polynomials_of_every_degree_take_their_depth_and_keep_the_scale() {
        let mut bench = Bench::new(&[50, 40, 40, 40, 40, 40]);
        let x: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) / 16.0).collect();
        let ciphertext = bench.encrypt(&x, 40, 6);
        for degree in 0..32usize {
            let coefficients: Vec<f64> = (0..=degree).map(|k| ((k * 7 + 3) % 11) as f64 / 5.0 - 1.0).collect();
            let found = bench.evaluator.polynomial(&ciphertext, &coefficients, &bench.keys).unwrap();
            assert_eq!(found.level(), 6 - log2_up(super::degree(&real(&coefficients)) + 1), "degree {degree}");
            assert_eq!(found.scale(), ciphertext.scale());
            let expected: Vec<f64> = x.iter().map(|x| plain(&coefficients, *x)).collect();
            let error = bench.error(&found, &expected);
            assert!(error < 2f64.powi(-18), "degree {degree}: {error:e}");
        }
    }

    #[test]
    fn powers_take_their_depth() {
        let mut bench = Bench::new(&[50, 40, 40, 40, 40, 40]);
        let x: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) / 16.0).collect();
        let ciphertext = bench.encrypt(&x, 40, 6);
        for exponent in [1u32, 2, 3, 4, 5, 6, 7, 8, 13, 16, 31, 32] {
            let found = bench.evaluator.power(&ciphertext, exponent, &bench.keys).unwrap();
            assert_eq!(found.level(), 6 - log2_up(exponent as usize), "{exponent}");
            let expected: Vec<f64> = x.iter().map(|x| x.powi(exponent as i32)).collect();
            let error = bench.error(&found, &expected);
            assert!(error < 2f64.powi(-18), "{exponent}: {error:e}");
        }
        // a scale of two primes falls back after every product
        let wide = bench.encrypt(&x, 60, 6);
        let cube = bench.evaluator.power(&wide, 3, &bench.keys).unwrap();
        assert_eq!(
            (cube.level(), cube.scale().to_f64(bench.evaluator.parameters()).unwrap().log2().round()),
            (3, 60.0)
        );
        let cubes: Vec<f64> = x.iter().map(|x| x.powi(3)).collect();
        assert!(bench.error(&cube, &cubes) < 2f64.powi(-40));
        let refused = |exponent| bench.evaluator.power(&ciphertext, exponent, &bench.keys).map(|_| ()).unwrap_err();
        assert_eq!(refused(0), OperationError::Exponent);
        assert_eq!(refused(33), OperationError::Exhausted { least: 7, found: 6 });
        assert_eq!(refused(u32::MAX), OperationError::Exhausted { least: 33, found: 6 });
    }

    #[test]
    fn sparse_polynomials_and_other_scales() {
        let mut bench = Bench::new(&[50, 35, 35, 35, 35]);
        let x: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) / 16.0).collect();
        let fresh = bench.encrypt(&x, 35, 5);
        // a scale that is no power of two
        let once = bench.evaluator.rescale(&bench.evaluator.mul(&fresh, &fresh, &bench.keys).unwrap()).unwrap();
        let squares: Vec<f64> = x.iter().map(|x| x * x).collect();
        for coefficients in [
            vec![0.0, 0.0, 1.0],
            vec![0.5, 0.0, 0.0, 0.0, -2.0],
            vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            vec![0.0, 1.0, 0.0, 0.0, 0.25, 0.0],
            vec![3.0, 0.0, 0.0],
            vec![0.0],
        ] {
            for (ciphertext, x) in [(&fresh, &x), (&once, &squares)] {
                let found = bench.evaluator.polynomial(ciphertext, &coefficients, &bench.keys).unwrap();
                let expected: Vec<f64> = x.iter().map(|x| plain(&coefficients, *x)).collect();
                assert_eq!(found.scale(), ciphertext.scale());
                let error = bench.error(&found, &expected);
                assert!(error < 2f64.powi(-14), "{coefficients:?}: {error:e}");
            }
        }
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused() {
        let mut bench = Bench::new(&[50, 40, 40]);
        let x = bench.encrypt(&[0.5], 40, 3);
        let error = |coefficients: &[f64], keys: &EvaluationKeys| {
            bench.evaluator.polynomial(&x, coefficients, keys).map(|_| ()).unwrap_err()
        };
        for found in [0, MOST + 1] {
            assert_eq!(error(&vec![1.0; found], &bench.keys), OperationError::Coefficients { most: MOST, found });
        }
        assert_eq!(error(&[1.0; 5], &bench.keys), OperationError::Exhausted { least: 4, found: 3 });
        let none = EvaluationKeys::new(bench.evaluator.parameters());
        assert!(matches!(error(&[1.0; 4], &none), OperationError::MissingKey { .. }));
        assert!(matches!(error(&[f64::NAN, 1.0], &bench.keys), OperationError::Encode(_)));
        assert!(matches!(error(&[0.0, f64::NAN], &bench.keys), OperationError::Encode(_)));
    }

    /// `Σ c_k T_k(x)` by cosines.
    fn plain_chebyshev(coefficients: &[f64], x: f64) -> f64 {
        coefficients.iter().enumerate().map(|(k, c)| c * (k as f64 * x.acos()).cos()).sum()
    }

    #[test]
    fn chebyshev_series_of_every_degree_take_their_depth_and_keep_their_bounds() {
        let mut bench = Bench::new(&[50, 40, 40, 40, 40, 40, 40, 40]);
        let x: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) / 15.5).collect();
        let ciphertext = bench.encrypt(&x, 40, 8);
        for degree in (0..34usize).chain([47, 62, 63, 64, 100, 127]) {
            let coefficients: Vec<f64> =
                (0..=degree).map(|k| (((k * 7 + 3) % 11) as f64 / 5.0 - 1.0) / (1.0 + k as f64)).collect();
            let found = bench.evaluator.chebyshev(&ciphertext, &coefficients, &bench.keys).unwrap();
            assert_eq!(found.level(), 8 - log2_up(super::degree(&real(&coefficients)) + 1), "degree {degree}");
            assert_eq!(found.scale(), ciphertext.scale());
            let expected: Vec<f64> = x.iter().map(|x| plain_chebyshev(&coefficients, *x)).collect();
            let (error, bounds) = (bench.error(&found, &expected), found.estimate().unwrap());
            assert!(error < 2f64.powi(-18) && error <= bounds.error(), "degree {degree}: {error:e} {bounds:?}");
            assert!(expected.iter().all(|y| y.abs() <= bounds.magnitude() + 1e-9), "degree {degree}");
            assert!(bounds.error() < 2f64.powi(-8), "degree {degree}: {:e}", bounds.error());
        }
    }

    #[test]
    fn numbers_outside_the_interval_are_refused() {
        let mut bench = Bench::new(&[50, 40, 40]);
        let x = bench.encrypt(&[0.5], 40, 3);
        let double = bench.evaluator.mul_integer(&x, 2).unwrap();
        let refused = bench.evaluator.chebyshev(&double, &[0.0, 1.0], &bench.keys).map(drop);
        assert!(matches!(refused, Err(OperationError::Domain { magnitude }) if magnitude > 1.9), "{refused:?}");
        assert!(bench.evaluator.chebyshev(&x, &[0.0, 1.0], &bench.keys).is_ok());
    }

    #[test]
    fn key_switches_are_few() {
        for (degree, expected) in [(1i32, 0), (3, 2), (7, 4), (15, 7), (23, 8), (31, 10), (63, 15)] {
            for basis in [Basis::Chebyshev, Basis::Powers] {
                let p: Vec<Complex> = (0..=degree).map(|k| Complex::from(1.0 / (1.0 + f64::from(k)))).collect();
                assert_eq!(basis.switches(&p, basis.baby(&p)), expected, "degree {degree}, {basis:?}");
            }
        }
    }

    #[test]
    fn series_are_near_their_functions() {
        let function = |x: f64| (3.0 * x).sin() + 0.25;
        let series = chebyshev_series(function, 20);
        for j in 0..=50 {
            let x = f64::from(j) / 25.0 - 1.0;
            assert!((plain_chebyshev(&series, x) - function(x)).abs() < 1e-12, "{x}");
        }
        // a truncated one is as near as its next coefficient
        let (short, next) = (chebyshev_series(function, 8), series[9].abs() + series[11].abs());
        let worst =
            (0..=50).map(|j| f64::from(j) / 25.0 - 1.0).map(|x| (plain_chebyshev(&short, x) - function(x)).abs());
        assert!(worst.fold(0.0, f64::max) < 1.5 * next);
    }
}
