//! The factors of messages: `κ` in a phase `κ m + t e`.

use crate::ring::Modulus;

/// Units `u, v` modulo `t` with `u κ_a = v κ_b`, for units `κ_a` and `κ_b`. They are about `√t` for
/// a prime `t`: Euclid's algorithm on `t` and `κ_b/κ_a` reaches them at its middle.
///
/// A `t` of several primes may have no units there. The algorithm then continues, at most to
/// `u = 1`. The factor must stay a unit, or the message is lost modulo its common divisor with `t`.
pub(super) fn equal(t: &Modulus, a: u64, b: u64) -> (i64, i64) {
    let inverse = t.inverse(a).unwrap_or_else(|| unreachable!("factors are units"));
    // remainder = v (κ_b/κ_a) modulo t throughout
    let (mut r, mut next_r) = (t.value() as i64, t.mul(b, inverse) as i64);
    let (mut v, mut next_v) = (0i64, 1i64);
    // numbers of 50 bits: their products are below t, except this square
    while next_r.unsigned_abs() > t.value().isqrt() || t.inverse(next_r.unsigned_abs()).is_none() {
        let quotient = r / next_r;
        (r, next_r) = (next_r, r - quotient * next_r);
        (v, next_v) = (next_v, v - quotient * next_v);
    }
    (next_r, next_v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fault_30_the_numbers_that_make_factors_equal_are_units_and_small_for_every_modulus(
            t in prop_oneof![2u64..300, 2u64..1 << 50, Just((1 << 50) - 1), Just((1 << 50) - 27), Just(1 << 49)],
            a: u64,
            b: u64,
        ) {
            let t = Modulus::new(t).unwrap();
            let (a, b) = (a % t.value(), b % t.value());
            prop_assume!(t.inverse(a).is_some() && t.inverse(b).is_some());
            let (u, v) = equal(&t, a, b);
            let [u, v] = [u, v].map(|scalar| {
                assert!(scalar.unsigned_abs() < t.value() || scalar == 1);
                (scalar, t.reduce_signed(scalar))
            });
            prop_assert_eq!(t.mul(u.1, a), t.mul(v.1, b));
            prop_assert!(t.inverse(u.1).is_some() && t.inverse(v.1).is_some());
            if crate::ring::is_prime(t.value()) {
                prop_assert!(u128::from(u.0.unsigned_abs()).pow(2) <= t.value().into());
                prop_assert!(u128::from(v.0.unsigned_abs()).pow(2) <= t.value().into());
            }
        }
    }
}
