//! Bounds on canonical norms, as logarithms to base 2.
//!
//! The canonical norm of an element is the largest absolute value that it takes at the complex
//! roots of `X^N + 1`. The norm of a sum or product is at most the sum or product of the norms. For
//! independent coefficients of variance `V` it is at most `6 √(N V)`, except with a chance of
//! `N/2 e^-36` (Gentry, Halevi, Smart, CRYPTO 2012, appendix A.5).

use crate::params::LatticeParameters;
use crate::ring::Modulus;

/// `log2(Σ 2^x)`. A bound of which nothing is known is infinite, and so is what comes of it.
pub(crate) fn sum<const T: usize>(terms: [f64; T]) -> f64 {
    if terms.iter().any(|term| term.is_nan()) {
        return f64::INFINITY;
    }
    let largest = terms.into_iter().fold(f64::NEG_INFINITY, f64::max);
    if largest.is_infinite() {
        return largest;
    }
    largest + terms.into_iter().map(|term| (term - largest).exp2()).sum::<f64>().log2()
}

/// The norm of a product; that of 0 and of anything is 0.
pub(crate) fn product(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY || b == f64::NEG_INFINITY { f64::NEG_INFINITY } else { a + b }
}

/// Norm of random coefficients, given the logarithm of their variance.
fn random(parameters: &LatticeParameters, log_variance: f64) -> f64 {
    6f64.log2() + ((parameters.degree() as f64).log2() + log_variance) / 2.0
}

/// Norm of a ternary `s` or `u`.
pub(crate) fn ternary(parameters: &LatticeParameters) -> f64 {
    random(parameters, (2.0f64 / 3.0).log2())
}

/// Norm of `f e`.
pub(crate) fn secret_error(parameters: &LatticeParameters) -> f64 {
    random(parameters, (3.2f64 * 3.2 + 1.0 / 12.0).log2()) + (parameters.error_factor() as f64).log2()
}

/// Norm of `f (e u + e_0 + e_1 s)`.
pub(crate) fn public_error(parameters: &LatticeParameters) -> f64 {
    let (error, ternary) = (secret_error(parameters), ternary(parameters));
    sum([error + ternary, error, error + ternary])
}

/// Norm of any polynomial with coefficients from `-f/2` to `f/2`, even chosen by an attacker.
pub(crate) fn message(parameters: &LatticeParameters) -> f64 {
    (parameters.degree() as f64).log2() + (parameters.error_factor() as f64).log2() - 1.0
}

/// Norm of the rounding error after a division of a ciphertext of `parts` parts: `τ_0 + τ_1 s + …`
/// with `|τ_i| ≤ (1 + f)/2`.
pub(crate) fn rounding(parameters: &LatticeParameters, parts: usize) -> f64 {
    let factor = parameters.error_factor() as f64;
    let width = if factor > 1.0 { factor * factor + 1.0 } else { 1.0 };
    let (one, secret) = (random(parameters, (width / 12.0).log2()), ternary(parameters));
    (1..parts).fold(one, |total, power| sum([total, one + power as f64 * secret]))
}

/// Norm of the error of a key switch at a level: that of its digits, and a rounding.
pub(crate) fn switch(parameters: &LatticeParameters, level: usize) -> f64 {
    sum([rounding(parameters, 2), digits(parameters, level)])
}

/// Norm of `Σ f e_d [c]_(Q_d) / P` at a level.
pub(crate) fn digits(parameters: &LatticeParameters, level: usize) -> f64 {
    let ring = parameters.ring();
    let log2 = |q: &Modulus| (q.value() as f64).log2();
    let special: f64 = ring.special_primes().iter().map(|prime| log2(prime.modulus())).sum();
    let groups = ring.data_primes()[..level].chunks(parameters.digit_size());
    let digits = groups.map(|group| {
        let bits: f64 = group.iter().map(|prime| log2(prime.modulus())).sum();
        random(parameters, 2.0 * bits - 12f64.log2()) + secret_error(parameters) - special
    });
    digits.fold(f64::NEG_INFINITY, |total, digit| sum([total, digit]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_bound_stays_unknown_and_nothing_times_it_is_nothing() {
        let (unknown, nothing) = (f64::INFINITY, f64::NEG_INFINITY);
        assert_eq!(sum([3.0, 3.0]), 4.0);
        assert_eq!((sum([unknown, 3.0]), sum([3.0, unknown]), sum([nothing, unknown])), (unknown, unknown, unknown));
        assert_eq!((sum([f64::NAN, 3.0]), sum([nothing, f64::NAN])), (unknown, unknown));
        assert_eq!((sum([nothing, 3.0]), sum([nothing, nothing])), (3.0, nothing));
        assert_eq!((product(2.0, 3.0), product(unknown, 3.0), product(-1.0, unknown)), (5.0, unknown, unknown));
        assert_eq!(
            (product(unknown, nothing), product(nothing, unknown), product(nothing, 3.0)),
            (nothing, nothing, nothing)
        );
    }
}
