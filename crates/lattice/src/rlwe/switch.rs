//! Key switching: from a multiple of another secret to one of `s`.
//!
//! The hybrid method (Gentry, Halevi, Smart, CRYPTO 2012; Han, Ki, CT-RSA 2020). The data primes
//! form groups of [`LatticeParameters::digit_size`]. Let `Q_d` be the product of group `d`, and `P`
//! that of the special primes. A key for `s'` has one pair for each group,
//!
//! ```text
//! (b_d, a_d) over Q P,     b_d = -a_d s + f e_d + P g_d s',
//! g_d = 1 modulo Q_d, 0 modulo the other groups,
//! ```
//!
//! and `P g_d` is `P` in the rows of the group and 0 in all others. An element `c` modulo `Q` is
//! cut into **digits**, the centred `[c]_(Q_d)`, lifted to `Q P` exactly ([`Conversion`]): then
//! `Σ [c]_(Q_d) g_d ≡ c`, so
//!
//! ```text
//! (u_0, u_1) = Σ [c]_(Q_d) (b_d, a_d)   has the phase   P c s' + f Σ [c]_(Q_d) e_d   modulo Q P,
//! ```
//!
//! and division by `P` with rounding ([`Division`]) leaves `c s'` and an error of about
//! `f √(N/12 Σ Q_d²) σ / P`, which is below the rounding error if `P` is at least every `Q_d` times
//! about `√N`.
//!
//! At a lower level the last groups lose primes, and empty groups are dropped. A key serves the
//! level that it was made for, and all lower ones.
//!
//! **Automorphisms come last.** A key for `X -> X^g` switches from `s` to `s(X^(1/g))`; then the
//! automorphism turns that back into `s`. It permutes two elements over `Q`, not the digits over
//! `Q P`. So the digits are the same for all automorphisms: an element is cut once
//! ([`KeySwitcher::digits`]) and rotated many times (hoisting: Halevi, Shoup, CRYPTO 2018).
//!
//! **A few rows at a time.** The digits of an element that is used once are computed a few rows
//! at a time, so that their input is read once for all these rows. They are multiplied by those
//! rows of the key and discarded. A key is stored in this reading order.
//!
//! Cost at `l` rows, `d` digits, `k` special primes: `l` transforms back, `d (l + k) - l` forward,
//! `2 d (l + k) N` products, then `2 k` transforms back and `2 l` forward.

use super::evaluation_keys::GaloisKey;
use super::keys::{mask, uniform, uniform_row};
use crate::kernels::RingKernels;
use crate::params::{LatticeParameters, Plaintext};
use crate::ring::{Basis, Conversion, Division, Eval, GROUP, Modulus, Poly, Ring, Rounding, Seed, combine_blocks};
use rand_core::CryptoRng;
use std::ops::Range;
use std::sync::OnceLock;
use tobari_simd::{Buffer, LANES};
use zeroize::Zeroizing;

/// With this key, anybody can switch multiples of some `s'` to multiples of `s`, at one level and
/// below.
#[derive(Clone)]
pub struct EvaluationKey {
    parameters: LatticeParameters,
    level: usize,
    seed: Seed,
    /// Row after row, in reading order: within a row, eight values each of `b_0, a_0, b_1, a_1, …`,
    /// then the next eight of each.
    values: Buffer,
}

impl EvaluationKey {
    /// A key from `source` to `target`, secrets over all primes, for ciphertexts of `level` data
    /// primes and fewer.
    ///
    /// # Panics
    /// If there are fewer, or no special prime.
    pub(crate) fn generate(
        parameters: &LatticeParameters,
        [source, target]: [&Poly<Eval>; 2],
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let ring = parameters.ring();
        assert!(!ring.special_primes().is_empty(), "keys need a special prime");
        let basis = ring.key_basis(level);
        let (seed, errors) = (Seed::random(rng), Seed::random(rng));
        let special = |q: &Modulus| {
            ring.special_primes().iter().fold(1, |product, p| q.mul(product, q.reduce(p.modulus().value())))
        };
        let pair = |digit: usize| {
            let a = uniform(ring, basis, &seed, digit as u64);
            let mut b = mask(parameters, target, &a, &errors, digit as u64);
            let group = group(parameters, digit, level);
            let mut scaled = Zeroizing::new(source.restrict(basis));
            scaled.keep_rows(&group, special);
            b.add_assign(&scaled);
            [b, a]
        };
        let pairs: Vec<_> = (0..groups(parameters, level)).flat_map(pair).collect();
        let key = Self::from_rows(parameters, level, seed.clone(), |row, _, out| {
            interleave(&pairs.iter().map(|element| element.row(row)).collect::<Vec<_>>(), out);
            true
        });
        key.unwrap_or_else(|| unreachable!("no row was refused"))
    }

    /// Reads a key from its form in memory, row after row ([`Self::values`]). `fill` gets the
    /// number of a row and its prime, and returns whether the row is valid.
    pub(crate) fn from_rows(
        parameters: &LatticeParameters,
        level: usize,
        seed: Seed,
        mut fill: impl FnMut(usize, &Modulus, &mut [u64]) -> bool,
    ) -> Option<Self> {
        let (ring, count) = (parameters.ring(), groups(parameters, level));
        let basis = ring.key_basis(level);
        let mut values = ring.scratch(basis.rows() * 2 * count);
        let mut rows = values.chunks_exact_mut(2 * count * ring.degree()).zip(ring.tables(basis)).enumerate();
        let good = rows.all(|(row, (values, table))| fill(row, table.modulus(), values));
        good.then(|| Self { parameters: parameters.clone(), level, seed, values })
    }

    /// Reads a key from its seed and the rows of the `b_d`. `fill` gets the prime of the next row,
    /// and returns whether the row is valid.
    pub(crate) fn from_bodies(
        parameters: &LatticeParameters,
        level: usize,
        seed: Seed,
        mut fill: impl FnMut(&Modulus, &mut dyn Iterator<Item = &mut [u64]>) -> bool,
    ) -> Option<Self> {
        let (ring, count) = (parameters.ring(), groups(parameters, level));
        let basis = ring.key_basis(level);
        // one row of all halves fits a cache, and whole rows are written in order: twice as fast as
        // digit after digit
        let mut halves = ring.scratch(2 * count);
        let streams = seed.clone();
        Self::from_rows(parameters, level, seed, |row, q, out| {
            let good = fill(q, &mut halves.chunks_exact_mut(ring.degree()).step_by(2));
            for (digit, a) in halves.chunks_exact_mut(ring.degree()).skip(1).step_by(2).enumerate() {
                uniform_row(ring, basis, &streams, digit as u64, row, a);
            }
            interleave(&halves.chunks_exact(ring.degree()).collect::<Vec<_>>(), out);
            good
        })
    }

    /// The part of this key that serves `level` and below. It equals the key made for that level
    /// from the same randomness.
    ///
    /// # Panics
    /// If the key does not serve this level.
    pub(crate) fn cut(&self, level: usize) -> Self {
        assert!((1..=self.level).contains(&level), "a key for level {} cut to {level}", self.level);
        let count = groups(&self.parameters, level);
        let key = Self::from_rows(&self.parameters, level, self.seed.clone(), |row, _, out| {
            let (values, stored) = self.row(level, row);
            let places = values.as_chunks::<LANES>().0.chunks_exact(2 * stored);
            let cut = out.as_chunks_mut::<LANES>().0.chunks_exact_mut(2 * count);
            cut.zip(places).for_each(|(cut, place)| cut.copy_from_slice(&place[..2 * count]));
            true
        });
        key.unwrap_or_else(|| unreachable!("no row was refused"))
    }

    /// Words of a key for `level` data primes.
    pub(crate) fn words_at(parameters: &LatticeParameters, level: usize) -> usize {
        let ring = parameters.ring();
        ring.key_basis(level).rows() * 2 * groups(parameters, level) * ring.degree()
    }

    /// All of it, in the order of memory.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The `b_d`.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = Poly<Eval>> {
        let (ring, count) = (self.parameters.ring(), groups(&self.parameters, self.level));
        (0..count).map(move |digit| {
            let mut body = Poly::any(ring, ring.key_basis(self.level));
            let places = self.values.as_chunks::<LANES>().0.iter().skip(2 * digit).step_by(2 * count);
            places.zip(body.values_mut().as_chunks_mut().0).for_each(|(place, eight)| *eight = *place);
            body
        })
    }

    /// Number of pairs in a key for this level.
    pub(crate) fn digits_at(parameters: &LatticeParameters, level: usize) -> usize {
        groups(parameters, level)
    }

    /// The seed of the `a_d`, which is public.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The highest level that it serves.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Bytes of its values in memory.
    pub fn memory(&self) -> usize {
        size_of_val(&self.values[..])
    }

    /// Bytes in memory of a key for this level, before it exists.
    pub(crate) fn memory_at(parameters: &LatticeParameters, level: usize) -> usize {
        let rows = level + parameters.ring().special_primes().len();
        16 * groups(parameters, level) * rows * parameters.degree()
    }

    /// Row `row` of the basis of keys at `level`: values in the order of reading, and how many
    /// digits there are.
    fn row(&self, level: usize, row: usize) -> (&[u64], usize) {
        let row = if row < level { row } else { row - level + self.level };
        let count = groups(&self.parameters, self.level);
        let length = 2 * count * self.parameters.degree();
        (&self.values[row * length..(row + 1) * length], count)
    }
}

/// Eight values of each row, then the next eight of each.
pub(super) fn interleave(rows: &[&[u64]], out: &mut [u64]) {
    for (block, out) in out.as_chunks_mut::<LANES>().0.chunks_exact_mut(rows.len()).enumerate() {
        for (place, row) in out.iter_mut().zip(rows) {
            *place = row.as_chunks().0[block];
        }
    }
}

/// The data primes of a digit at a level.
fn group(parameters: &LatticeParameters, digit: usize, level: usize) -> Range<usize> {
    let size = parameters.digit_size();
    digit * size..((digit + 1) * size).min(level)
}

/// Number of digits of an element of a level.
fn groups(parameters: &LatticeParameters, level: usize) -> usize {
    level.div_ceil(parameters.digit_size())
}

/// Switches keys; holds the tables of every level used so far.
///
/// It holds no secret; the server has one.
pub(crate) struct KeySwitcher {
    parameters: LatticeParameters,
    levels: Vec<OnceLock<Level>>,
}

/// Tables of one level.
struct Level {
    /// For each digit, from its own rows to all others of the key basis.
    lifts: Vec<Conversion>,
    /// By the special primes.
    division: Division,
    /// By the special primes and the last data prime.
    both: OnceLock<Division>,
}

/// An element cut into digits, each over the data primes of its level and the special ones.
pub(crate) struct Digits(Vec<Poly<Eval>>);

impl Digits {
    /// Bytes of them in memory.
    pub(crate) fn memory(&self) -> usize {
        self.0.iter().map(Poly::memory).sum()
    }

    pub(super) fn basis(&self) -> Basis {
        self.0[0].basis()
    }

    /// One row of each.
    pub(super) fn row(&self, row: usize) -> Vec<&[u64]> {
        self.0.iter().map(|digit| digit.row(row)).collect()
    }
}

impl KeySwitcher {
    /// A key switcher for these parameters. Without a special prime there are no keys.
    pub(crate) fn new(parameters: &LatticeParameters) -> Self {
        let levels = (0..=parameters.data_primes()).map(|_| OnceLock::new()).collect();
        Self { parameters: parameters.clone(), levels }
    }

    /// The parameters.
    pub(crate) fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    fn level(&self, level: usize) -> &Level {
        self.levels[level].get_or_init(|| {
            let ring = self.parameters.ring();
            let moduli: Vec<Modulus> = ring.tables(ring.key_basis(level)).map(|table| *table.modulus()).collect();
            let lift = |digit| {
                let group = group(&self.parameters, digit, level);
                let others = [&moduli[..group.start], &moduli[group.end..]].concat();
                Conversion::new(&moduli[group], &others)
            };
            Level {
                lifts: (0..groups(&self.parameters, level)).map(lift).collect(),
                division: Division::by_special(ring, level, rounding(&self.parameters)),
                both: OnceLock::new(),
            }
        })
    }

    /// Cuts an element over the first data primes into digits.
    ///
    /// # Panics
    /// If it is of other parameters, or has special primes.
    pub(crate) fn digits(&self, element: &Poly<Eval>) -> Digits {
        let cut = Cut::new(self, element);
        let (ring, rows) = (self.parameters.ring(), cut.basis.rows());
        let mut digits: Vec<_> = cut.level.lifts.iter().map(|_| Poly::any(ring, cut.basis)).collect();
        for (digit, lifted) in digits.iter_mut().enumerate() {
            for first in (0..rows).step_by(GROUP) {
                let group = first..rows.min(first + GROUP);
                let values = &mut lifted.values_mut()[first * ring.degree()..group.end * ring.degree()];
                cut.lift(digit, group, values);
            }
            for row in 0..rows {
                cut.own(digit, row).into_iter().for_each(|own| lifted.row_mut(row).copy_from_slice(own));
            }
        }
        Digits(digits)
    }

    /// `P (u_0, u_1)` modulo `Q P`, before the division.
    pub(crate) fn product(&self, digits: &Digits, key: &EvaluationKey) -> [Poly<Eval>; 2] {
        let basis = digits.basis();
        let mut out = [(); 2].map(|()| Poly::any(self.parameters.ring(), basis));
        for row in 0..basis.rows() {
            self.product_row(row, &digits.row(row), basis, key, out.each_mut().map(|part| part.row_mut(row)));
        }
        out
    }

    /// The same for an element that is used once: digits are computed row by row, and used while
    /// they are in the cache.
    pub(crate) fn product_once(&self, element: &Poly<Eval>, key: &EvaluationKey) -> [Poly<Eval>; 2] {
        let (ring, cut) = (self.parameters.ring(), Cut::new(self, element));
        let mut out = [(); 2].map(|()| Poly::any(ring, cut.basis));
        let (rows, degree, count) = (cut.basis.rows(), ring.degree(), cut.level.lifts.len());
        let mut scratch = ring.scratch(count * GROUP);
        for first in (0..rows).step_by(GROUP) {
            let group = first..rows.min(first + GROUP);
            for (digit, lifted) in scratch.chunks_exact_mut(GROUP * degree).enumerate() {
                cut.lift(digit, group.clone(), &mut lifted[..group.len() * degree]);
            }
            for (place, row) in group.enumerate() {
                let lifted = |digit: usize| &scratch[(digit * GROUP + place) * degree..][..degree];
                let digits: Vec<&[u64]> =
                    (0..count).map(|digit| cut.own(digit, row).unwrap_or_else(|| lifted(digit))).collect();
                self.product_row(row, &digits, cut.basis, key, out.each_mut().map(|part| part.row_mut(row)));
            }
        }
        out
    }

    /// One row of such a product.
    ///
    /// # Panics
    /// If the key is of other parameters, or of a lower level.
    pub(super) fn product_row(
        &self,
        row: usize,
        digits: &[&[u64]],
        basis: Basis,
        key: &EvaluationKey,
        out: [&mut [u64]; 2],
    ) {
        assert!(key.parameters == self.parameters, "a key of other parameters");
        assert!(basis.data() <= key.level, "a key for level {} at level {}", key.level, basis.data());
        let (values, count) = key.row(basis.data(), row);
        let q = self.parameters.ring().table(basis, row).modulus();
        (RingKernels::best().key_product)(q, out, digits, values, count);
    }

    /// Divides by `P`.
    pub(super) fn divide(&self, product: &Poly<Eval>) -> Poly<Eval> {
        self.level(product.basis().data()).division.divide(product)
    }

    /// The same, and applies `finish` to each row while it is in the cache.
    pub(super) fn divide_and(&self, product: &Poly<Eval>, finish: impl Fn(usize, &Modulus, &mut [u64])) -> Poly<Eval> {
        self.level(product.basis().data()).division.divide_and(product, None, finish)
    }

    /// `(u_0, u_1)` with the phase of the element times the key's source.
    ///
    /// # Panics
    /// If the key is of other parameters, or of a lower level.
    pub(crate) fn switch(&self, element: &Poly<Eval>, key: &EvaluationKey) -> [Poly<Eval>; 2] {
        self.product_once(element, key).map(|part| self.divide(&part))
    }

    /// Switches a product of three parts to two parts.
    ///
    /// # Panics
    /// As [`Self::switch`].
    pub(crate) fn relinearize(&self, parts: [&Poly<Eval>; 3], key: &EvaluationKey) -> [Poly<Eval>; 2] {
        let [c0, c1, c2] = parts;
        let division = &self.level(c2.basis().data()).division;
        let [u0, u1] = self.product_once(c2, key);
        [(u0, c0), (u1, c1)].map(|(u, c)| division.divide_and(&u, None, |row, q, values| add(q, values, c.row(row))))
    }

    /// Switches a product of three parts to two and divides by the last data prime, with one
    /// rounding for both: with `d = c + u/P`, `d/q = (P c + u)/(P q)`.
    ///
    /// # Panics
    /// As [`Self::switch`], or if there is one prime only.
    pub(crate) fn relinearize_and_divide(&self, parts: [&Poly<Eval>; 3], key: &EvaluationKey) -> [Poly<Eval>; 2] {
        let ([c0, c1, c2], ring) = (parts, self.parameters.ring());
        let (kernels, data) = (RingKernels::best(), c2.basis().data());
        let level = self.level(data);
        let both = level.both.get_or_init(|| Division::by_special_and_last(ring, data, rounding(&self.parameters)));
        let last = ring.data_primes()[data - 1].modulus();
        let special = last.factor(self.special(last));
        let inverse = |q: &Modulus| match q.inverse(q.reduce(last.value())) {
            Some(inverse) => q.factor(inverse),
            None => unreachable!("distinct primes"),
        };
        let [u0, u1] = self.product_once(c2, key);
        [(u0, c0), (u1, c1)].map(|(mut u, c)| {
            (kernels.scale_add_assign)(last, u.row_mut(data - 1), c.row(data - 1), special);
            both.divide_and(&u, None, |row, q, values| (kernels.scale_add_assign)(q, values, c.row(row), inverse(q)))
        })
    }

    /// A ciphertext under an automorphism.
    ///
    /// # Panics
    /// As [`Self::switch`].
    pub(crate) fn rotate(&self, [c0, c1]: [&Poly<Eval>; 2], galois: &GaloisKey) -> [Poly<Eval>; 2] {
        self.rotate_product(c0, &self.product_once(c1, &galois.key), galois)
    }

    /// The same, given the digits of the second part.
    ///
    /// # Panics
    /// As [`Self::switch`].
    pub(crate) fn rotate_digits(&self, c0: &Poly<Eval>, digits: &Digits, galois: &GaloisKey) -> [Poly<Eval>; 2] {
        self.rotate_product(c0, &self.product(digits, &galois.key), galois)
    }

    fn rotate_product(&self, c0: &Poly<Eval>, [u0, u1]: &[Poly<Eval>; 2], galois: &GaloisKey) -> [Poly<Eval>; 2] {
        let division = &self.level(c0.basis().data()).division;
        let automorphism = Some(&galois.automorphism);
        [
            division.divide_and(u0, automorphism, |row, q, values| add(q, values, c0.row(row))),
            division.divide_and(u1, automorphism, |_, _, _| {}),
        ]
    }
}

fn add(q: &Modulus, values: &mut [u64], others: &[u64]) {
    (RingKernels::best().add_assign)(q, values, others);
}

/// The rounding of quotients.
fn rounding(parameters: &LatticeParameters) -> Rounding {
    match parameters.plaintext() {
        Plaintext::Approximate => Rounding::Nearest,
        Plaintext::Integers(t) => Rounding::Congruent(t),
    }
}

/// An element prepared for cutting: the terms of its digits, and their quotients.
struct Cut<'a> {
    ring: &'a Ring,
    basis: Basis,
    digit_size: usize,
    level: &'a Level,
    element: &'a Poly<Eval>,
    /// A row for each data prime, then one for each digit.
    terms: Buffer,
}

impl<'a> Cut<'a> {
    fn new(switcher: &'a KeySwitcher, element: &'a Poly<Eval>) -> Self {
        assert!(element.ring().is(switcher.parameters.ring()), "an element of another ring");
        let (ring, data) = (&**element.ring(), element.basis().data());
        assert_eq!(element.basis(), ring.basis(data), "an element over data primes");
        let (level, digit_size, degree) = (switcher.level(data), switcher.parameters.digit_size(), ring.degree());
        let mut terms = ring.scratch(data + level.lifts.len());
        let (rows, quotients) = terms.split_at_mut(data * degree);
        for (row, out) in rows.chunks_exact_mut(degree).enumerate() {
            out.copy_from_slice(element.row(row));
            ring.table(element.basis(), row).inverse(out);
        }
        let groups = rows.chunks_mut(digit_size * degree).zip(quotients.chunks_exact_mut(degree));
        for (lift, (rows, quotients)) in level.lifts.iter().zip(groups) {
            let mut rows: Vec<&mut [u64]> = rows.chunks_exact_mut(degree).collect();
            (RingKernels::best().terms_assign)(lift.terms(), &mut rows, quotients);
        }
        Self { ring, basis: ring.key_basis(data), digit_size, level, element, terms }
    }

    fn own(&self, digit: usize, row: usize) -> Option<&[u64]> {
        (row < self.basis.data() && row / self.digit_size == digit).then(|| self.element.row(row))
    }

    /// Values of a digit in some rows, one after another, except the digit's own rows.
    fn lift(&self, digit: usize, rows: Range<usize>, out: &mut [u64]) {
        let (data, degree) = (self.basis.data(), self.ring.degree());
        let first = digit * self.digit_size;
        let last = (first + self.digit_size).min(data);
        let terms = (first..last).chain([data + digit]);
        let terms: Vec<&[u64]> = terms.map(|row| &self.terms[row * degree..(row + 1) * degree]).collect();
        // a lift has no sums for the digit's own rows: handle the rows before them and after them
        let sums = self.level.lifts[digit].sums();
        let (before, after) = (rows.start..rows.end.min(first), rows.start.max(last)..rows.end);
        for (part, skipped) in [(before, 0), (after, last - first)] {
            if part.is_empty() {
                continue;
            }
            let out = &mut out[(part.start - rows.start) * degree..(part.end - rows.start) * degree];
            let sums = &sums[part.start - skipped..part.end - skipped];
            combine_blocks(sums, &terms, out.chunks_exact_mut(degree).collect());
            for (row, values) in part.zip(out.chunks_exact_mut(degree)) {
                self.ring.table(self.basis, row).forward(values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rng, toy};
    use super::*;
    use crate::ring::Automorphism;
    use crate::rlwe::{Ciphertext, EvaluationKeys, SecretKey};

    #[test]
    fn a_switched_element_has_its_phase_at_every_level() {
        for t in [None, Some(257)] {
            let parameters = toy(t);
            let mut rng = rng(5);
            let [old, new] = [(); 2].map(|()| SecretKey::generate(&parameters, &mut rng));
            let switcher = KeySwitcher::new(&parameters);
            for made in 1..=parameters.data_primes() {
                let key = EvaluationKey::generate(&parameters, [old.values(), new.values()], made, &mut rng);
                for level in 1..=made {
                    let ring = parameters.ring();
                    let c = uniform(ring, ring.basis(level), &Seed::from_bytes([8; 32]), level as u64);
                    let [u0, u1] = switcher.switch(&c, &key);
                    // u_0 + u_1 s - c s'
                    let mut wanted = c.clone();
                    wanted.mul_assign(&old.values().restrict(c.basis()));
                    let mut found = Ciphertext::new(&parameters, None, vec![u0, u1]);
                    found.parts_mut()[0].sub_assign(&wanted);
                    let noise = new.noise(&found).log2() - (parameters.error_factor() as f64).log2();
                    assert!(noise < 9.0, "t = {t:?}, key of level {made} at level {level}: 2^{noise:.1}");
                }
            }
        }
    }

    #[test]
    fn digits_that_are_kept_give_what_those_give_that_are_not() {
        let parameters = toy(None);
        let mut rng = rng(6);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let switcher = KeySwitcher::new(&parameters);
        let mut keys = EvaluationKeys::default();
        keys.generate_for_automorphism(&secret, 5, 4, &mut rng);
        let galois = keys.for_automorphism(5).unwrap();
        let ring = parameters.ring();
        let [c0, c1] = [0, 1].map(|index| uniform(ring, ring.basis(3), &Seed::from_bytes([9; 32]), index));
        let rotated = switcher.rotate([&c0, &c1], galois);
        assert!(rotated == switcher.rotate_digits(&c0, &switcher.digits(&c1), galois));
        // (c_0 + c_1 s)(X^5)
        let found = secret.phase(&Ciphertext::new(&parameters, None, rotated.into()));
        let expected =
            secret.phase(&Ciphertext::new(&parameters, None, vec![c0, c1])).automorphism(&Automorphism::new(64, 5));
        let mut difference = found.clone();
        difference.sub_assign(&expected);
        let q = ring.data_primes()[0].modulus();
        assert!(difference.row(0).iter().all(|x| q.centred(*x).unsigned_abs() < 1 << 9));
    }

    #[test]
    fn dividing_once_gives_what_dividing_twice_gives() {
        for t in [None, Some(257)] {
            let parameters = toy(t);
            let mut rng = rng(9);
            let secret = SecretKey::generate(&parameters, &mut rng);
            let mut keys = EvaluationKeys::default();
            keys.generate_for_products(&secret, 4, &mut rng);
            let (ring, key, switcher) =
                (parameters.ring(), keys.for_products().unwrap(), KeySwitcher::new(&parameters));
            for level in 2..=4 {
                let parts = [0, 1, 2].map(|i| uniform(ring, ring.basis(level), &Seed::from_bytes([8; 32]), i));
                let once = switcher.relinearize_and_divide(parts.each_ref(), key);
                let twice = switcher.relinearize(parts.each_ref(), key);
                let twice = twice.map(|part| Division::by_last(ring, level, rounding(&parameters)).divide(&part));
                for (once, twice) in once.into_iter().zip(&twice) {
                    let mut difference = once;
                    difference.sub_assign(twice);
                    let (difference, q) = (difference.inverse(), ring.data_primes()[0].modulus());
                    let most = t.unwrap_or(1);
                    for x in difference.row(0).iter().map(|x| q.centred(*x)) {
                        assert!(x.unsigned_abs() <= 2 * most && x % most as i64 == 0, "{x} at level {level}");
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a key for level 2 at level 3")]
    fn a_key_serves_no_higher_level() {
        let parameters = toy(None);
        let secret = SecretKey::generate(&parameters, &mut rng(7));
        let key = EvaluationKey::generate(&parameters, [secret.values(); 2], 2, &mut rng(8));
        let ring = parameters.ring();
        KeySwitcher::new(&parameters).switch(&Poly::zero(ring, ring.basis(3)), &key);
    }
}
