//! Results of Lattigo, read from `vectors/lattice`; `vectors/README.md` says how they were made.
//!
//! Elements are written by coefficients, so that neither side's transform matters. Automorphisms
//! come last in Lattigo, as here, and its digits are the data primes.

use super::evaluation_keys::{EvaluationKeys, rotation};
use super::known_answers::{Answers, residues};
use super::switch::{EvaluationKey, interleave};
use super::{Ciphertext, SecretKey};
use crate::ring::{Basis, Coeff, Eval, Poly, Seed};

impl Answers {
    /// A secret by its coefficients.
    pub(crate) fn ternary_secret(&self) -> SecretKey {
        let coefficients: Vec<i64> =
            self.all("secret").next().unwrap()[0].split(',').map(|text| text.parse().unwrap()).collect();
        assert!(coefficients.iter().all(|s| (-1..=1).contains(s)));
        SecretKey::from_ternary(&self.parameters, &coefficients)
    }

    /// An element by its coefficients.
    pub(crate) fn by_coefficients(&self, text: &str, basis: Basis) -> Poly<Eval> {
        Poly::<Coeff>::from_values(self.parameters.ring(), basis, &residues(text)).forward()
    }

    /// A ciphertext by coefficients, and its factor.
    pub(crate) fn ciphertext(&self, name: &str) -> (Ciphertext, u64) {
        let [level, factor, parts @ ..] = self.one("ciphertext", name) else { panic!("{name} is too short") };
        let basis = self.parameters.ring().basis(level.parse().unwrap());
        let parts = parts.iter().map(|part| self.by_coefficients(part, basis)).collect();
        (Ciphertext::new(&self.parameters, None, parts), factor.parse().unwrap())
    }

    /// Keys for products and for these rotations, with both halves as Lattigo made them, times a
    /// factor.
    pub(crate) fn lattigos_keys(&self, steps: &[i64], factor: i64) -> EvaluationKeys {
        let ring = self.parameters.ring();
        let level = self.parameters.data_primes();
        let key = |name: &str| {
            let halves = self.one("key", name);
            let mut halves: Vec<Poly<Eval>> =
                halves.iter().map(|half| self.by_coefficients(half, ring.key_basis(level))).collect();
            halves.iter_mut().for_each(|half| half.scale_assign(factor));
            // the seed belongs to another uniform half, and is not used
            let seed = Seed::from_bytes([0; 32]);
            let key = EvaluationKey::from_rows(&self.parameters, level, seed, |row, _, out| {
                interleave(&halves.iter().map(|half| half.row(row)).collect::<Vec<_>>(), out);
                true
            });
            key.unwrap()
        };
        let mut keys = EvaluationKeys::default();
        keys.set_for_products(key("relinearisation"));
        for steps in steps {
            let element = rotation(self.parameters.degree(), *steps);
            keys.set_for_automorphism(element, key(&format!("rotation{steps}")));
        }
        keys
    }
}
