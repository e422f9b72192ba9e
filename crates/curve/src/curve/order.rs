//! Arithmetic of scalars modulo the order of a curve.
//!
//! # Leakage
//! Constant time.

use super::built::with_curve;
use super::scalar::Scalar;
use crate::kernels::{Coordinate, CurveConstants, Element, Form, Prime};
use std::marker::PhantomData;

/// The order of `C` as a prime: its residues are the scalars.
#[derive(Clone, Copy)]
struct Order<C>(PhantomData<C>);

impl<C: CurveConstants<L>, const L: usize> Prime<L> for Order<C> {
    const MODULUS: [u64; L] = C::ORDER;
    const BITS: u32 = bits(&C::ORDER);
    const FORM: Form = Form::Montgomery { top: &[] };
}

/// Bits of a number.
const fn bits<const L: usize>(words: &[u64; L]) -> u32 {
    let mut i = L;
    while i > 0 {
        i -= 1;
        if words[i] != 0 {
            return 64 * i as u32 + 64 - words[i].leading_zeros();
        }
    }
    0
}

/// `addends[i] + factors[i] · factor`, for addends of small absolute value.
///
/// # Panics
/// If the scalars are not all of one curve, or the lengths differ.
pub(crate) fn multiply_add(factor: &Scalar, factors: &[Scalar], addends: &[i32]) -> Vec<Scalar> {
    fn run<C: CurveConstants<L>, const L: usize>(factor: &Scalar, factors: &[Scalar], addends: &[i32]) -> Vec<Scalar> {
        let element = |words: &[u64]| Element::<Order<C>, L>::from_words(&std::array::from_fn(|i| words[i]));
        let factor = Element::from_integer(&element(factor.words()).0); // times R: products come out plain
        let sum = |(other, addend): (&Scalar, &i32)| {
            let mut magnitude = [0; L];
            magnitude[0] = u64::from(addend.unsigned_abs());
            let magnitude = element(&magnitude);
            let negative = subtle::Choice::from((*addend as u32 >> 31) as u8);
            let addend = subtle::ConditionallySelectable::conditional_select(&magnitude, &-magnitude, negative);
            Scalar::from_residue(other.curve(), &(element(other.words()) * factor + addend).0)
        };
        factors.iter().zip(addends).map(sum).collect()
    }
    assert!(factors.len() == addends.len() && factors.iter().all(|other| other.curve() == factor.curve()));
    with_curve!(factor.curve(), C => run::<C, { C::WORDS }>(factor, factors, addends))
}

#[cfg(test)]
mod tests {
    use super::super::BuiltCurve;
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use num_bigint::BigInt;

    fn integer(words: &[u64]) -> BigInt {
        words.iter().rev().fold(BigInt::from(0), |all, word| (all << 64) + word)
    }

    #[test]
    fn products_and_signed_sums_agree_with_plain_integers() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in BuiltCurve::ALL {
            let order = integer(curve.shape().order);
            let addends = [0, 1, -1, 32_768, -32_768, i32::MAX, i32::MIN, 77];
            for factor in [Scalar::random(curve, &mut rng), Scalar::from_u64(curve, 0), Scalar::from_u64(curve, 1)] {
                let mut factors: Vec<Scalar> = (0..6).map(|_| Scalar::random(curve, &mut rng)).collect();
                factors.extend([Scalar::from_u64(curve, 0), Scalar::from_u64(curve, 2)]);
                for ((sum, other), addend) in
                    multiply_add(&factor, &factors, &addends).iter().zip(&factors).zip(addends)
                {
                    let expected = (integer(factor.words()) * integer(other.words()) + addend) % &order;
                    assert_eq!(integer(sum.words()), (expected + &order) % &order, "{curve}");
                }
            }
        }
    }
}
