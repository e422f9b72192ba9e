//! Complete projective addition: one formula for every pair of points, including equal points,
//! opposite points and the identity.
//!
//! Renes, Costello, Batina, "Complete addition formulas for prime order elliptic curves" (EUROCRYPT
//! 2016), algorithm 1. It takes about twice the work of a batched affine addition. It serves for
//! the product of a single secret scalar and a single point, and in the tests as an independent
//! check of the batched formulas.

use super::BuiltCurve;
use super::built::with_curve;
use crate::kernels::{Coefficient, Coordinate, CurveConstants, Element};
use subtle::{Choice, ConditionallySelectable};

/// `(X : Y : Z)`; the identity is `(0 : 1 : 0)`.
#[derive(Clone, Copy)]
struct Projective<C, const L: usize> {
    x: Element<C, L>,
    y: Element<C, L>,
    z: Element<C, L>,
}

impl<C: CurveConstants<L>, const L: usize> Projective<C, L> {
    const IDENTITY: Self = Self { x: Element::ZERO, y: Element::ONE, z: Element::ZERO };

    /// From the integers of an affine point.
    fn from_affine(integers: &[u64]) -> Self {
        let [x, y] = [0, 1].map(|i| Element::from_integer(&std::array::from_fn(|j| integers[i * L + j])));
        let finite = Self { x, y, z: Element::ONE };
        Self::conditional_select(&finite, &Self::IDENTITY, Choice::from(u8::from(x.is_zero() && y.is_zero())))
    }

    /// To affine integers; the identity's `Z = 0` has inverse zero, which gives its form `(0, 0)`.
    fn write_affine(self, integers: &mut [u64]) {
        let inverse = self.z.invert();
        integers[..L].copy_from_slice(&(self.x * inverse).to_integer());
        integers[L..].copy_from_slice(&(self.y * inverse).to_integer());
    }

    fn add(&self, other: &Self) -> Self {
        let (xx, yy, zz) = (self.x * other.x, self.y * other.y, self.z * other.z);
        let xy = (self.x + self.y) * (other.x + other.y) - xx - yy; // x1 y2 + x2 y1
        let xz = (self.x + self.z) * (other.x + other.z) - xx - zz;
        let yz = (self.y + self.z) * (other.y + other.z) - yy - zz;
        let a = multiply_by_a::<C, L>;
        let b = Element::from_integer(&C::B);
        let b3 = b.double() + b;
        let s = a(xz) + b3 * zz;
        let (minus, plus) = (yy - s, yy + s);
        let a_zz = a(zz);
        let u = xx.double() + xx + a_zz;
        let v = b3 * xz + a(xx - a_zz);
        Self { x: xy * minus - yz * v, y: plus * minus + u * v, z: yz * plus + xy * u }
    }

    fn conditional_select(a: &Self, b: &Self, choice: Choice) -> Self {
        Self {
            x: Element::conditional_select(&a.x, &b.x, choice),
            y: Element::conditional_select(&a.y, &b.y, choice),
            z: Element::conditional_select(&a.z, &b.z, choice),
        }
    }
}

#[inline(always)]
fn multiply_by_a<C: CurveConstants<L>, const L: usize>(v: Element<C, L>) -> Element<C, L> {
    match C::A {
        Coefficient::Zero => Element::ZERO,
        Coefficient::MinusThree => -(v.double() + v),
        Coefficient::Small(a) => Element::from_small(a) * v,
    }
}

/// `scalar · point` for one affine point and the words of a scalar below the order; constant time
/// (double and always add). Points are integers here and below.
pub(crate) fn multiply(curve: BuiltCurve, point: &[u64], scalar: &[u64]) -> Vec<u64> {
    fn run<C: CurveConstants<L>, const L: usize>(point: &[u64], scalar: &[u64], bits: u32, out: &mut [u64]) {
        let point = Projective::<C, L>::from_affine(point);
        let mut result = Projective::IDENTITY;
        for bit in (0..bits as usize).rev() {
            let doubled = result.add(&result);
            let choice = Choice::from((scalar[bit / 64] >> (bit % 64)) as u8 & 1);
            result = Projective::conditional_select(&doubled, &doubled.add(&point), choice);
        }
        result.write_affine(out);
    }
    let shape = curve.shape();
    let mut out = vec![0; 2 * shape.words];
    with_curve!(curve, C => run::<C, { C::WORDS }>(point, scalar, shape.order_bits, &mut out));
    out
}

/// The sum of two affine points, to check the batched formulas.
#[cfg(test)]
pub(crate) fn add(curve: BuiltCurve, p: &[u64], q: &[u64]) -> Vec<u64> {
    fn run<C: CurveConstants<L>, const L: usize>(p: &[u64], q: &[u64], out: &mut [u64]) {
        Projective::<C, L>::from_affine(p).add(&Projective::from_affine(q)).write_affine(out);
    }
    let mut out = vec![0; p.len()];
    with_curve!(curve, C => run::<C, { C::WORDS }>(p, q, &mut out));
    out
}
