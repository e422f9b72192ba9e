//! The keys that a server holds, whatever the scheme.

use super::identity::{KeyId, OtherKey};
use super::keys::SecretKey;
use super::switch::EvaluationKey;
use crate::ring::Automorphism;
use rand_core::CryptoRng;
use std::collections::BTreeMap;

/// A key for products and keys for automorphisms, each made for a level: it serves that level and
/// all lower ones.
#[derive(Clone, Default)]
pub(crate) struct EvaluationKeys {
    /// The secret key that they are of.
    id: Option<KeyId>,
    products: Option<EvaluationKey>,
    /// By `g`.
    automorphisms: BTreeMap<usize, GaloisKey>,
}

/// A key from `s` to `s(X^(1/g))`, and `X -> X^g`, which turns that back into `s`.
#[derive(Clone)]
pub(crate) struct GaloisKey {
    pub(crate) automorphism: Automorphism,
    pub(crate) key: EvaluationKey,
}

impl EvaluationKeys {
    /// No keys, for those of this secret key.
    pub(crate) fn of(id: Option<KeyId>) -> Self {
        Self { id, ..Self::default() }
    }

    /// The identity of the secret key that they are of, if it is known.
    pub(crate) fn id(&self) -> Option<KeyId> {
        self.id
    }

    /// Rejects a secret key that is not that of the keys here.
    pub(crate) fn check(&self, secret: &SecretKey) -> Result<(), OtherKey> {
        KeyId::joined([self.id, secret.id()]).map(|_| ())
    }

    pub(crate) fn generate_for_products(&mut self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) {
        self.id = self.id.or(secret.id());
        let source = secret.square();
        self.products = Some(EvaluationKey::generate(secret.parameters(), [&source, secret.values()], level, rng));
    }

    /// For `X -> X^element`.
    pub(crate) fn generate_for_automorphism(
        &mut self,
        secret: &SecretKey,
        element: usize,
        level: usize,
        rng: &mut impl CryptoRng,
    ) {
        self.id = self.id.or(secret.id());
        let (parameters, degree) = (secret.parameters(), secret.parameters().degree());
        let automorphism = Automorphism::new(degree, element);
        let target = secret.rotated(&Automorphism::new(degree, inverse(degree, element)));
        let key = EvaluationKey::generate(parameters, [secret.values(), &target], level, rng);
        self.automorphisms.insert(element, GaloisKey { automorphism, key });
    }

    /// The highest level of any key; 0 if there is none.
    pub(crate) fn level(&self) -> usize {
        let keys = self.products.iter().chain(self.automorphisms.values().map(|galois| &galois.key));
        keys.map(EvaluationKey::level).max().unwrap_or(0)
    }

    /// Sets the key from `s²`.
    pub(crate) fn set_for_products(&mut self, key: EvaluationKey) {
        self.products = Some(key);
    }

    /// Sets the key from `s` to `s(X^(1/element))`.
    pub(crate) fn set_for_automorphism(&mut self, element: usize, key: EvaluationKey) {
        let automorphism = Automorphism::new(key.parameters().degree(), element);
        self.automorphisms.insert(element, GaloisKey { automorphism, key });
    }

    /// Takes the keys of another set. Its identity counts if there is none here.
    pub(crate) fn join(&mut self, other: Self) {
        self.id = self.id.or(other.id);
        self.products = other.products.or(self.products.take());
        self.automorphisms.extend(other.automorphisms);
    }

    /// Moves the key for products out.
    pub(crate) fn take_for_products(&mut self) -> Option<Self> {
        Some(Self { products: Some(self.products.take()?), ..Self::of(self.id) })
    }

    /// Moves the key for an automorphism out.
    pub(crate) fn take_for_automorphism(&mut self, element: usize) -> Option<Self> {
        let automorphisms = BTreeMap::from([self.automorphisms.remove_entry(&element)?]);
        Some(Self { automorphisms, ..Self::of(self.id) })
    }

    /// The part of these keys that serves `level` and below.
    ///
    /// # Panics
    /// If the level does not exist.
    pub(crate) fn cut(&self, level: usize) -> Self {
        let cut = |key: &EvaluationKey| key.cut(level.min(key.level()));
        let galois = |(element, galois): (&usize, &GaloisKey)| {
            (*element, GaloisKey { automorphism: galois.automorphism.clone(), key: cut(&galois.key) })
        };
        Self {
            id: self.id,
            products: self.products.as_ref().map(cut),
            automorphisms: self.automorphisms.iter().map(galois).collect(),
        }
    }

    /// The only key.
    pub(crate) fn only(&self) -> Option<&EvaluationKey> {
        let mut keys = self.products.iter().chain(self.automorphisms.values().map(|galois| &galois.key));
        keys.next().filter(|_| keys.next().is_none())
    }

    /// Bytes of all keys in memory.
    pub(crate) fn memory(&self) -> usize {
        let galois = |galois: &GaloisKey| galois.key.memory() + galois.automorphism.memory();
        self.products.iter().map(EvaluationKey::memory).chain(self.automorphisms.values().map(galois)).sum()
    }

    pub(crate) fn for_products(&self) -> Option<&EvaluationKey> {
        self.products.as_ref()
    }

    pub(crate) fn for_automorphism(&self, element: usize) -> Option<&GaloisKey> {
        self.automorphisms.get(&element)
    }

    /// By the `g` of `X -> X^g`, ascending.
    pub(crate) fn automorphisms(&self) -> impl ExactSizeIterator<Item = (usize, &EvaluationKey)> {
        self.automorphisms.iter().map(|(element, galois)| (*element, &galois.key))
    }
}

/// `5^steps mod 2N`: the automorphism that moves slot `j + steps` to slot `j`.
pub(crate) fn rotation(degree: usize, steps: i64) -> usize {
    // N/2 and 2N are powers of two, so a mask gives the remainder, also of negative and wrapped
    // numbers
    let steps = steps as u32 & (degree as u32 / 2 - 1);
    5usize.wrapping_pow(steps) & (2 * degree - 1)
}

/// What `X -> X^element` does to slots, for messages: every odd number modulo `2N` is a power of
/// five or the negative of one.
pub(crate) fn purpose(degree: usize, element: usize) -> String {
    let steps = |element: usize| (0..degree as i64 / 2).find(|steps| rotation(degree, *steps) == element);
    match (steps(element), steps(2 * degree - element)) {
        (Some(steps), _) => format!("rotation by {steps}"),
        (None, Some(0)) => "a swap of the rows".to_owned(),
        (None, Some(steps)) => format!("rotation by {steps} with a swap of the rows"),
        // an even number, which no key is for
        (None, None) => format!("X -> X^{element}"),
    }
}

/// What was found instead of a key, in words: nothing, or a key for a lower level.
pub(crate) fn found_key(level: Option<usize>) -> String {
    level.map_or_else(|| "none".to_owned(), |level| format!("one for level {level}"))
}

/// `1/element mod 2N`, by Newton's iteration: right modulo 8, and twice as many bits each time.
fn inverse(degree: usize, element: usize) -> usize {
    let inverse = (0..5).fold(element, |x, _| x.wrapping_mul(2usize.wrapping_sub(element.wrapping_mul(x))));
    inverse & (2 * degree - 1)
}

/// `2N - 1`: the automorphism `X -> 1/X`.
pub(crate) fn conjugation(degree: usize) -> usize {
    2 * degree - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_of_odd_numbers_are_odd_numbers() {
        for (degree, element) in [(8, 5), (64, 127), (1 << 17, 5), (1 << 17, (1 << 18) - 3)] {
            assert_eq!(inverse(degree, element) * element % (2 * degree), 1);
        }
    }

    #[test]
    fn every_automorphism_is_named_by_its_effect() {
        for degree in [8, 64] {
            for steps in 0..degree as i64 / 2 {
                let element = rotation(degree, steps);
                assert_eq!(purpose(degree, element), format!("rotation by {steps}"));
                let swapped = purpose(degree, 2 * degree - element);
                assert!(swapped.contains("swap") && swapped.contains(&steps.to_string()) == (steps > 0), "{swapped}");
            }
        }
        assert_eq!(purpose(64, 127), "a swap of the rows");
    }

    #[test]
    fn rotations_are_powers_of_five() {
        for degree in [8, 64, 1 << 17] {
            let mut power = 1;
            for steps in 0..degree as i64 / 2 {
                for same in [steps, steps - degree as i64 / 2, steps + 7 * degree as i64, steps + i64::MIN] {
                    assert_eq!(rotation(degree, same), power, "{degree}: {same}");
                }
                power = power * 5 % (2 * degree);
            }
            assert_eq!(power, 1);
        }
    }
}
