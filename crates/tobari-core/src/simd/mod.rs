//! The loops that decide the speed of everything above them, and the seam where faster ones are fitted.
//!
//! A backend is a table of functions over plain slices of 64-bit words ([`CurveKernels`]), chosen once. **The portable
//! backend defines the meaning**: every other one must return the same words at every kernel boundary. Points cross the
//! boundary in one form on every backend:
//!
//! * a point is `2L` words, `x` then `y`, least significant word first, `L` = words of the field (3, 4 or 6);
//! * a coordinate stands as a canonical residue in `[0, p)`: of itself where `p = 2^B - c` with a small `c`, else of its
//!   product with `2^(64L)` (Montgomery form);
//! * the identity is `x = y = 0`, which is on none of the curves since `b ≠ 0` on all of them.
//!
//! This is the only room of the crate that may hold `unsafe`; the portable backend needs none.
//!
//! # Leakage
//! The kernels branch on whether an addition is exceptional (equal `x`, or the identity), and on nothing else that
//! depends on the data. [`FixedBase`](crate::curve::FixedBase) says why secret scalars meet that case with negligible
//! probability only.

mod field;
mod portable;

pub(crate) use field::{Element, Form, Prime};
pub(crate) use portable::Portable;

/// Constants of one curve, known at compile time, so that each loop is specialised by prime.
pub(crate) trait CurveConstants<const L: usize>: Prime<L> {
    /// The coefficient `a`.
    const A: Coefficient;
    /// The coefficient `b`, canonical.
    const B: [u64; L];
    /// The generator, canonical `x` and `y`.
    const GENERATOR: [[u64; L]; 2];
    /// The prime order of the group.
    const ORDER: [u64; L];
}

/// The curve coefficient `a`: on all ten curves a small number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coefficient {
    Zero,
    MinusThree,
    Small(u64),
}

/// One backend's loops for one curve.
///
/// Slices of points have `2L` words a point; two slices given together have the same length (callers check it).
pub struct CurveKernels {
    /// The backend, as `tobari info` prints it.
    pub backend: &'static str,
    /// `a[i] += b[i]` in affine form with one inversion for the batch; complete: equal, opposite and identity operands
    /// give the right sum and do not touch their neighbours. 5M + 1S an addition, and one inversion.
    pub(crate) add_assign: fn(a: &mut [u64], b: &[u64], scratch: &mut Vec<u64>),
    /// `a[i] = 2 a[i]`. 5M + 2S a doubling, and one inversion.
    pub(crate) double_assign: fn(a: &mut [u64], scratch: &mut Vec<u64>),
    /// `a[i] = -a[i]` where `mask[i]` is all ones, unchanged where it is zero; constant time.
    pub(crate) negate_masked: fn(a: &mut [u64], mask: &[u64]),
    /// `out[i] = table[index[i]]`, reading the whole table for each `i`; constant time.
    pub(crate) select: fn(table: &[u64], index: &[u8], out: &mut [u64]),
    /// Canonical integers to the boundary form, in place; `Err(i)` for the first point with a coordinate not below `p` or
    /// off the curve. The identity passes.
    pub(crate) import: fn(points: &mut [u64]) -> Result<(), usize>,
    /// The boundary form to canonical integers, in place.
    pub(crate) export: fn(points: &mut [u64]),
    /// Canonical `x` and, in the lowest bit of `y`, the parity of `y`, to whole points in the boundary form; `Err(i)` for
    /// the first `x` not below `p` or without a point. The identity is not expressible.
    pub(crate) decompress: fn(points: &mut [u64]) -> Result<(), usize>,
}
