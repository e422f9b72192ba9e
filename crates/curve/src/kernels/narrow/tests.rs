//! Limbs of 29 bits against plain integers.

use super::*;
use crate::curve::BuiltCurve;
use crate::kernels::coordinate::SquareRoots;
use num_bigint::BigInt;
use proptest::prelude::*;

fn integer(words: &[u64]) -> BigInt {
    words.iter().rev().fold(BigInt::from(0), |all, word| (all << 64) + word)
}

/// Limbs in every form that a factor may have, at the bounds of their weights, some of them chosen
/// by `bits`.
fn extremes<P: Prime<L>, const L: usize, const N: usize>(bits: u64) -> Vec<Narrow<P, L, N>> {
    let most = (1 << 28) + (1 << 22);
    let top = 1i64 << (Narrow::<P, L, N>::TOP - 1);
    let bound = |i: usize| if i + 1 < N { most } else { top };
    let made = |limb: &dyn Fn(usize) -> i64| Narrow(std::array::from_fn(limb), PhantomData);
    vec![
        Narrow::ZERO,
        Narrow::ONE,
        made(&|i| i64::from(i == 0)),
        Narrow::from_residue(&std::array::from_fn(|i| P::MODULUS[i] - u64::from(i == 0))),
        Narrow(Narrow::<P, L, N>::P1, PhantomData),
        -Narrow(Narrow::<P, L, N>::P1, PhantomData),
        made(&bound),
        made(&|i| -bound(i)),
        made(&|i| if i % 2 == 0 { bound(i) } else { -bound(i) }),
        made(&|i| if bits >> i & 1 == 0 { bound(i) } else { -bound(i) }),
        made(&|i| bits.rotate_left(11 * i as u32) as i64 % bound(i)),
        made(&|i| if i + 1 < N { MASK } else { top }),
    ]
}

/// The integer that limbs represent, in `[0, p)`.
fn value<P: Prime<L>, const L: usize, const N: usize>(x: Narrow<P, L, N>) -> BigInt {
    let p = integer(&P::MODULUS);
    let sum = x.0.iter().rev().fold(BigInt::from(0), |all, limb| (all << LIMB) + limb);
    let radix = (BigInt::from(1) << Narrow::<P, L, N>::LOG_R) % &p;
    let exponent = &p - 2u8;
    ((sum % &p + &p) * radix.modpow(&exponent, &p)) % &p
}

/// As [`value`], for an element of this weight.
fn weighs<P: Prime<L>, const L: usize, const N: usize>(weight: i64, x: Narrow<P, L, N>) -> BigInt {
    let top = 1 << Narrow::<P, L, N>::TOP;
    assert!(x.0[..N - 1].iter().all(|limb| limb.abs() <= weight * ((1 << 28) + (1 << 22))), "{:?}", x.0);
    assert!(x.0[N - 1].abs() <= top, "{:?}", x.0);
    value(x)
}

fn agrees<P: Prime<L>, const L: usize, const N: usize>(x: Narrow<P, L, N>, y: Narrow<P, L, N>) {
    let p = integer(&P::MODULUS);
    let (a, b) = (value(x), value(y));
    assert_eq!(value(x + y), (&a + &b) % &p);
    assert_eq!(value(x - y), (&a + &p - &b) % &p);
    let product = |x: Narrow<P, L, N>| weighs(2, x);
    assert_eq!(product(x * y), &a * &b % &p);
    assert_eq!(product(x.square()), &a * &a % &p);
    assert_eq!(product(x.product_less(y, x + y)), (&a * &b + &p * 2 - &a - &b) % &p);
    assert_eq!(product(x.square_less(y + y)), (&a * &a + &p * 2 - &b * 2) % &p);
    // factors of weights 4 and 2, 7 and 1
    let (x, y) = (x.settle(), y.settle());
    let difference = (&a + &p - &b) * 2;
    assert_eq!(product((x - y + x - y) * (x - y)), (&difference * &difference / 2u8) % &p);
    let seven = x + x + x + x - y - y - y;
    assert_eq!(product(seven * x), ((&a * 4 + (&p - &b) * 3) * &a) % &p);
    assert_eq!(weighs(1, seven.settle()), (&a * 4 + (&p - &b) * 3) % &p);
    for mask in [0, u64::MAX] {
        let expected = if mask == 0 { a.clone() } else { (&p - &a) % &p };
        assert_eq!(value(x.negate_masked(mask)), expected);
    }
    assert_eq!(integer(&x.to_integer()), a);
    assert!(integer(&x.residue()) < p);
    assert_eq!(value::<P, L, N>(Narrow::from_residue(&x.residue())), a);
    assert_eq!(value::<P, L, N>(Narrow::from_integer(&x.to_integer())), a);
    let (canonical, same): (_, Narrow<P, L, N>) = (x.canonical(), Narrow::from_residue(&x.residue()));
    assert!(canonical.0 == same.0);
    assert_eq!(x.is_zero(), a == BigInt::from(0));
    assert_eq!((seven - x).is_zero(), (&a * 3 + (&p - &b) * 3) % &p == BigInt::from(0));
    assert_eq!(x == y, a == b);
    assert_eq!(x.is_blank(), x.0 == [0; N]);
}

/// The type for a curve's field.
macro_rules! with_field {
    ($curve:expr, $check:ident($($argument:expr),*)) => {
        match $curve {
            #[cfg(feature = "paper")]
            BuiltCurve::Secp160k1 => $check::<crate::curve::catalogue::Secp160k1, 3, 6>($($argument),*),
            #[cfg(feature = "paper")]
            BuiltCurve::P160_1 => $check::<crate::curve::catalogue::P160_1, 3, 6>($($argument),*),
            #[cfg(feature = "paper")]
            BuiltCurve::Secp192k1 => $check::<crate::curve::catalogue::Secp192k1, 3, 7>($($argument),*),
            BuiltCurve::Secp224k1 => $check::<crate::curve::catalogue::Secp224k1, 4, 8>($($argument),*),
            BuiltCurve::Secp256k1 => $check::<crate::curve::catalogue::Secp256k1, 4, 9>($($argument),*),
            BuiltCurve::Secp384r1 => $check::<crate::curve::catalogue::Secp384r1, 6, 14>($($argument),*),
            #[cfg(feature = "paper")]
            BuiltCurve::NistP192 => $check::<crate::curve::catalogue::NistP192, 3, 7>($($argument),*),
            BuiltCurve::NistP224 => $check::<crate::curve::catalogue::NistP224, 4, 8>($($argument),*),
            BuiltCurve::NistP256 => $check::<crate::curve::catalogue::NistP256, 4, 9>($($argument),*),
        }
    };
}

#[test]
fn constants_are_the_prime() {
    fn holds<P: Prime<L>, const L: usize, const N: usize>() {
        let value = |limbs: &[i64]| limbs.iter().rev().fold(BigInt::from(0), |all, limb| (all << LIMB) + limb);
        let p = integer(&P::MODULUS);
        assert_eq!(value(&Narrow::<P, L, N>::P1), p);
        assert_eq!(((BigInt::from(1) << P::BITS) - value(&Narrow::<P, L, N>::FOLD)) % &p, BigInt::from(0));
        match Narrow::<P, L, N>::WRAP {
            Some(wrap) => assert_eq!(((BigInt::from(1) << (29 * N)) - value(&wrap)) % &p, BigInt::from(0)),
            None => assert_eq!(value(&Narrow::<P, L, N>::CLEARING).magnitude(), p.magnitude()),
        }
    }
    for curve in BuiltCurve::ALL {
        with_field!(curve, holds());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn random_and_extreme_values_agree_with_plain_integers(bits: [u64; 2]) {
        fn holds<P: Prime<L>, const L: usize, const N: usize>(bits: [u64; 2]) {
            for x in extremes::<P, L, N>(bits[0]) {
                for y in extremes::<P, L, N>(bits[1]) {
                    agrees(x, y);
                }
            }
        }
        for curve in BuiltCurve::ALL {
            with_field!(curve, holds(bits));
        }
    }

    #[test]
    fn inverses_and_roots_undo_products_and_squares(bits: u64) {
        fn holds<P: Prime<L>, const L: usize, const N: usize>(bits: u64) {
            let roots = SquareRoots::<Narrow<P, L, N>, L>::new();
            for x in extremes::<P, L, N>(bits) {
                if x.is_zero() {
                    assert!(x.invert().is_zero());
                } else {
                    assert!(roots.vartime_root(x.square()).is_some_and(|root| root == x || root == -x));
                    assert!(x * x.invert() == Narrow::ONE);
                    assert!(roots.vartime_root(x.square() * SquareRoots::non_residue()).is_none());
                }
            }
        }
        for curve in BuiltCurve::ALL {
            with_field!(curve, holds(bits));
        }
    }
}
