//! Key switching: from a multiple of another secret to one of `s`.
//!
//! The hybrid method (Gentry, Halevi, Smart, CRYPTO 2012; Han, Ki, CT-RSA 2020). The data primes stand in groups of
//! [`LatticeParameters::digit_size`]; let `Q_d` be the product of group `d`, and `P` that of the special primes. A key for `s'` is
//! one pair a group,
//!
//! ```text
//! (b_d, a_d) over Q P,     b_d = -a_d s + f e_d + P g_d s',     g_d = 1 modulo Q_d, 0 modulo the other groups,
//! ```
//!
//! and `P g_d` is `P` in the rows of the group and 0 in all others. An element `c` modulo `Q` is cut into **digits**, the
//! centred `[c]_(Q_d)`, lifted to `Q P` exactly ([`Conversion`]): then `Σ [c]_(Q_d) g_d ≡ c`, so
//!
//! ```text
//! (u_0, u_1) = Σ [c]_(Q_d) (b_d, a_d)   has the phase   P c s' + f Σ [c]_(Q_d) e_d   modulo Q P,
//! ```
//!
//! and division by `P` with rounding ([`Division`]) leaves `c s'` and an error of about `f √(N/12 Σ Q_d²) σ / P`, below the
//! rounding's own while `P` is no smaller than every `Q_d` times some `√N`.
//!
//! At a lower level the groups lose their last primes, and those that have none left go. A key serves the level that it was
//! made for, and all lower ones.
//!
//! **Hoisting** (Halevi, Shoup, CRYPTO 2018): digits of a rotated element are the rotated digits, so that one element is cut
//! ([`KeySwitcher::digits`]) and rotated many times ([`KeySwitcher::switch_digits`]).
//!
//! Cost at `l` rows, `d` digits, `k` special primes: `l` transforms back, `d (l + k) - l` forward, `2 d (l + k) N` products, then
//! `2 k` transforms back and `2 l` forward.

use super::keys::{SecretKey, uniform};
use crate::params::{LatticeParameters, Plaintext};
use crate::ring::{Automorphism, Conversion, Division, Eval, Modulus, Poly, Rounding, Seed};
use rand_core::CryptoRng;
use std::sync::{Arc, OnceLock};
use zeroize::Zeroizing;

/// Lets anybody switch multiples of some `s'` to multiples of `s`, at one level and below.
#[derive(Clone)]
pub struct EvaluationKey {
    parameters: LatticeParameters,
    level: usize,
    seed: Seed,
    /// `(b_d, a_d)`.
    digits: Vec<(Poly<Eval>, Poly<Eval>)>,
}

impl EvaluationKey {
    /// From `source`, which is over all primes, to `secret`, for ciphertexts of `level` data primes and fewer.
    ///
    /// # Panics
    /// If there are not so many, or no special prime.
    pub(crate) fn generate(secret: &SecretKey, source: &Poly<Eval>, level: usize, rng: &mut impl CryptoRng) -> Self {
        let parameters = secret.parameters();
        let ring = parameters.ring();
        assert!(!ring.special_primes().is_empty(), "keys need a special prime");
        let basis = ring.key_basis(level);
        let (seed, errors) = (Seed::random(rng), Seed::random(rng));
        let special = |q: &Modulus| {
            ring.special_primes().iter().fold(1, |product, p| q.mul(product, q.reduce(p.modulus().value())))
        };
        let body = |digit: usize| {
            let a = uniform(ring, basis, &seed, digit as u64);
            let mut b = secret.mask(&a, &errors, digit as u64);
            let group = group(parameters, digit, level);
            let mut scaled = Zeroizing::new(source.restrict(basis));
            scaled.keep_rows(&group, special);
            b.add_assign(&scaled);
            b
        };
        let bodies: Vec<_> = (0..groups(parameters, level)).map(body).collect();
        Self::from_parts(parameters, level, bodies, seed)
    }

    /// From the `b_d` and the seed of the `a_d`.
    pub(crate) fn from_parts(
        parameters: &LatticeParameters,
        level: usize,
        bodies: Vec<Poly<Eval>>,
        seed: Seed,
    ) -> Self {
        let a = |digit: usize, b: &Poly<Eval>| uniform(parameters.ring(), b.basis(), &seed, digit as u64);
        let digits = bodies.into_iter().enumerate().map(|(digit, b)| (a(digit, &b), b)).map(|(a, b)| (b, a)).collect();
        Self { parameters: parameters.clone(), level, seed, digits }
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The `b_d`.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Poly<Eval>> {
        self.digits.iter().map(|(b, _)| b)
    }

    /// How many pairs a key for this level has.
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
}

/// The data primes of a digit at a level.
fn group(parameters: &LatticeParameters, digit: usize, level: usize) -> std::ops::Range<usize> {
    let size = parameters.digit_size();
    digit * size..((digit + 1) * size).min(level)
}

/// How many digits an element of a level has.
fn groups(parameters: &LatticeParameters, level: usize) -> usize {
    level.div_ceil(parameters.digit_size())
}

/// Switches keys; holds the tables of every level that was used.
///
/// It knows no secret: the server has one.
pub struct KeySwitcher {
    parameters: LatticeParameters,
    levels: Vec<OnceLock<Level>>,
}

/// Tables of one level.
struct Level {
    /// By digit: from its own rows to all others of the key basis.
    lifts: Vec<Conversion>,
    division: Division,
}

/// An element cut into digits, each over the data primes of its level and the special ones.
#[derive(Clone)]
pub struct Digits(Vec<Poly<Eval>>);

impl Digits {
    /// The digits of the element under `X -> X^g`.
    pub fn automorphism(&self, automorphism: &Automorphism) -> Self {
        Self(self.0.iter().map(|digit| digit.automorphism(automorphism)).collect())
    }
}

impl KeySwitcher {
    /// For these parameters. Without a special prime there are no keys to switch with.
    pub fn new(parameters: &LatticeParameters) -> Self {
        let levels = (0..=parameters.data_primes()).map(|_| OnceLock::new()).collect();
        Self { parameters: parameters.clone(), levels }
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
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
            let rounding = match self.parameters.plaintext() {
                Plaintext::Approximate => Rounding::Nearest,
                Plaintext::Integers(t) => Rounding::Congruent(t),
            };
            Level {
                lifts: (0..groups(&self.parameters, level)).map(lift).collect(),
                division: Division::by_special(ring, level, rounding),
            }
        })
    }

    /// Cuts an element over the first data primes into digits.
    ///
    /// # Panics
    /// If it is of other parameters, or has special primes.
    pub fn digits(&self, element: &Poly<Eval>) -> Digits {
        assert!(Arc::ptr_eq(element.ring(), self.parameters.ring()), "an element of another ring");
        let (ring, level) = (self.parameters.ring(), element.basis().data());
        assert_eq!(element.basis(), ring.basis(level), "an element over data primes");
        let (degree, basis) = (ring.degree(), ring.key_basis(level));
        let coefficients = element.clone().inverse();
        let cut = |(digit, lift): (usize, &Conversion)| {
            let group = group(&self.parameters, digit, level);
            let mut values = vec![0; basis.rows() * degree];
            let rows: Vec<&[u64]> = group.clone().map(|row| coefficients.row(row)).collect();
            let mut others: Vec<&mut [u64]> = Vec::with_capacity(basis.rows() - rows.len());
            for (row, out) in values.chunks_exact_mut(degree).enumerate() {
                if group.contains(&row) {
                    out.copy_from_slice(element.row(row));
                } else {
                    others.push(out);
                }
            }
            lift.apply(&rows, &mut others);
            let tables = (0..basis.rows()).filter(|row| !group.contains(row)).map(|row| ring.table(basis, row));
            tables.zip(others).for_each(|(table, row)| table.forward(row));
            Poly::from_values(ring, basis, values)
        };
        Digits(self.level(level).lifts.iter().enumerate().map(cut).collect())
    }

    /// `(u_0, u_1)` with the phase of the element that was cut times the key's source.
    ///
    /// # Panics
    /// If the key is of other parameters, or of a lower level.
    pub fn switch_digits(&self, digits: &Digits, key: &EvaluationKey) -> [Poly<Eval>; 2] {
        assert!(key.parameters == self.parameters, "a key of other parameters");
        let basis = digits.0[0].basis();
        assert!(basis.data() <= key.level, "a key for level {} at level {}", key.level, basis.data());
        let bodies: Vec<(&Poly<Eval>, &Poly<Eval>)> = digits.0.iter().zip(key.digits.iter().map(|(b, _)| b)).collect();
        let seeded: Vec<(&Poly<Eval>, &Poly<Eval>)> = digits.0.iter().zip(key.digits.iter().map(|(_, a)| a)).collect();
        let division = &self.level(basis.data()).division;
        [bodies, seeded].map(|pairs| division.divide(Poly::inner_product(&pairs)))
    }

    /// The same for an element that is used once.
    ///
    /// # Panics
    /// As [`Self::digits`] and [`Self::switch_digits`].
    pub fn switch(&self, element: &Poly<Eval>, key: &EvaluationKey) -> [Poly<Eval>; 2] {
        self.switch_digits(&self.digits(element), key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rng, toy};
    use super::*;
    use crate::rlwe::Ciphertext;

    #[test]
    fn a_switched_element_has_its_phase_at_every_level() {
        for t in [None, Some(257)] {
            let parameters = toy(t);
            let mut rng = rng(5);
            let [old, new] = [(); 2].map(|()| SecretKey::generate(&parameters, &mut rng));
            let switcher = KeySwitcher::new(&parameters);
            for made in 1..=parameters.data_primes() {
                let key = EvaluationKey::generate(&new, old.values(), made, &mut rng);
                for level in 1..=made {
                    let ring = parameters.ring();
                    let c = uniform(ring, ring.basis(level), &Seed::from_bytes([8; 32]), level as u64);
                    let [u0, u1] = switcher.switch(&c, &key);
                    // u_0 + u_1 s - c s'
                    let mut wanted = c.clone();
                    wanted.mul_assign(&old.values().restrict(c.basis()));
                    let mut found = Ciphertext::new(&parameters, vec![u0, u1]);
                    found.parts_mut()[0].sub_assign(&wanted);
                    let noise = new.noise(&found).log2() - (parameters.error_factor() as f64).log2();
                    assert!(noise < 9.0, "t = {t:?}, key of level {made} at level {level}: 2^{noise:.1}");
                }
            }
        }
    }

    #[test]
    fn rotated_digits_are_the_digits_of_the_rotated_element() {
        let parameters = toy(None);
        let mut rng = rng(6);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let switcher = KeySwitcher::new(&parameters);
        let automorphism = Automorphism::new(parameters.degree(), 5);
        let key = EvaluationKey::generate(&secret, &secret.rotated(&automorphism), 4, &mut rng);
        let ring = parameters.ring();
        let c = uniform(ring, ring.basis(4), &Seed::from_bytes([9; 32]), 0);
        let hoisted = switcher.switch_digits(&switcher.digits(&c).automorphism(&automorphism), &key);
        assert!(hoisted == switcher.switch(&c.automorphism(&automorphism), &key));
    }

    #[test]
    #[should_panic(expected = "a key for level 2 at level 3")]
    fn a_key_serves_no_higher_level() {
        let parameters = toy(None);
        let secret = SecretKey::generate(&parameters, &mut rng(7));
        let key = EvaluationKey::generate(&secret, secret.values(), 2, &mut rng(8));
        let ring = parameters.ring();
        KeySwitcher::new(&parameters).switch(&Poly::zero(ring, ring.basis(3)), &key);
    }
}
