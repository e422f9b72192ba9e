//! The size of an error, measured with the key.

use super::{Ciphertext, SecretKey};
use crate::ring::{Coeff, Poly, Reconstruction};

/// The largest coefficient of a phase, in absolute value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Noise {
    log2: f64,
}

impl Noise {
    /// Its logarithm; minus infinity for zero.
    pub(crate) fn log2(self) -> f64 {
        self.log2
    }
}

impl SecretKey {
    /// The largest coefficient of the phase: of an encryption of zero, that of its error.
    ///
    /// # Panics
    /// If the ciphertext is of other parameters.
    pub(crate) fn noise(&self, ciphertext: &Ciphertext) -> Noise {
        Noise { log2: log2_norm(&self.phase(ciphertext)) }
    }
}

/// `log2` of the largest centred coefficient.
pub(crate) fn log2_norm(element: &Poly<Coeff>) -> f64 {
    let mut largest = f64::NEG_INFINITY;
    Reconstruction::new(element.ring(), element.basis()).for_each(element, |_, coefficient| {
        largest = largest.max(log2(coefficient.words));
    });
    largest
}

/// `log2` of a number in words, least significant first.
fn log2(words: &[u64]) -> f64 {
    let top = words.iter().rposition(|word| *word != 0).unwrap_or(0);
    let below = if top > 0 { words[top - 1] as f64 } else { 0.0 };
    (words[top] as f64 + below / 2f64.powi(64)).log2() + 64.0 * top as f64
}
