//! The portable backend: one lane of 64-bit words. It defines what every other backend must return.

use super::field::{Element, Prime, SquareRoots, less_than};
use super::{Coefficient, CurveConstants, CurveKernels, WINDOW, opaque, split_window};
use std::marker::PhantomData;
use subtle::ConditionallySelectable;
use zeroize::Zeroizing;

/// The portable loops for curve `C`.
pub(crate) struct Portable<C, const L: usize>(PhantomData<C>);

impl<C: CurveConstants<L>, const L: usize> Portable<C, L> {
    pub(crate) const KERNELS: CurveKernels = CurveKernels {
        backend: "portable",
        add_assign: add_assign::<C, L>,
        double_assign: double_assign::<C, L>,
        negate_masked: negate_masked::<C, L>,
        select: select::<C, L>,
        multiply: multiply::<C, L>,
        import: import::<C, L>,
        export: export::<C, L>,
        decompress: decompress::<C, L>,
    };
}

/// An affine point as the kernels see it: two field elements, both zero for the identity.
#[derive(Clone, Copy)]
struct Affine<C, const L: usize> {
    x: Element<C, L>,
    y: Element<C, L>,
}

impl<C: Prime<L>, const L: usize> Affine<C, L> {
    const IDENTITY: Self = Self { x: Element::ZERO, y: Element::ZERO };

    #[inline(always)]
    fn read(words: &[[u64; L]], i: usize) -> Self {
        Self { x: Element::from_words(&words[2 * i]), y: Element::from_words(&words[2 * i + 1]) }
    }

    #[inline(always)]
    fn write(self, words: &mut [[u64; L]], i: usize) {
        words[2 * i] = self.x.0;
        words[2 * i + 1] = self.y.0;
    }

    #[inline(always)]
    fn is_identity(&self) -> bool {
        self.x.is_zero() && self.y.is_zero()
    }

    /// The sum of two distinct points, given `1/(x2 - x1)`; the double, given the slope's numerator and `1/2y`.
    #[inline(always)]
    fn chord(self, other_x: Element<C, L>, slope: Element<C, L>) -> Self {
        let x = slope.square() - self.x - other_x;
        Self { x, y: slope * (self.x - x) - self.y }
    }
}

/// How an addition is carried out.
enum Addition<C, const L: usize> {
    /// A line with this numerator and denominator; the denominator is not zero.
    Line { numerator: Element<C, L>, denominator: Element<C, L> },
    /// The sum is known without arithmetic.
    Known(Affine<C, L>),
}

impl<C: CurveConstants<L>, const L: usize> Addition<C, L> {
    #[inline(always)]
    fn of(p: &Affine<C, L>, q: &Affine<C, L>) -> Self {
        let denominator = q.x - p.x;
        if denominator.is_zero() || p.is_identity() || q.is_identity() {
            Self::exceptional(p, q)
        } else {
            Self::Line { numerator: q.y - p.y, denominator }
        }
    }

    #[cold]
    fn exceptional(p: &Affine<C, L>, q: &Affine<C, L>) -> Self {
        if p.is_identity() {
            Self::Known(*q)
        } else if q.is_identity() {
            Self::Known(*p)
        } else if p.y == q.y {
            Self::tangent(p)
        } else {
            Self::Known(Affine::IDENTITY) // equal x on the curve leaves only y2 = -y1
        }
    }

    /// `(3x² + a) / 2y`; `y ≠ 0`, since a point with `y = 0` has order two and the group's order is odd.
    #[inline(always)]
    fn tangent(p: &Affine<C, L>) -> Self {
        let square = p.x.square();
        Self::Line { numerator: square.double() + square + coefficient_a::<C, L>(), denominator: p.y.double() }
    }
}

fn coefficient_a<C: CurveConstants<L>, const L: usize>() -> Element<C, L> {
    match C::A {
        Coefficient::Zero => Element::ZERO,
        Coefficient::MinusThree => -(Element::ONE.double() + Element::ONE),
        Coefficient::Small(a) => Element::from_small(a),
    }
}

fn add_assign<C: CurveConstants<L>, const L: usize>(a: &mut [u64], b: &[u64], scratch: &mut Vec<u64>) {
    let b = b.as_chunks::<L>().0;
    batch::<C, L>(a, scratch, |p, i| {
        let q = Affine::read(b, i);
        (Addition::of(p, &q), q.x)
    });
}

fn double_assign<C: CurveConstants<L>, const L: usize>(a: &mut [u64], scratch: &mut Vec<u64>) {
    batch::<C, L>(a, scratch, |p, _| {
        let addition = if p.is_identity() { Addition::Known(*p) } else { Addition::tangent(p) };
        (addition, p.x)
    });
}

/// Replaces every point by its sum with the partner that `addition` names, with one inversion for all (Montgomery's
/// simultaneous inversion: `scratch` holds the running products, and a denominator never is zero).
#[inline(always)]
fn batch<C: CurveConstants<L>, const L: usize>(
    points: &mut [u64],
    scratch: &mut Vec<u64>,
    addition: impl Fn(&Affine<C, L>, usize) -> (Addition<C, L>, Element<C, L>),
) {
    let points = points.as_chunks_mut::<L>().0;
    let count = points.len() / 2;
    scratch.clear();
    scratch.resize(count * L, 0);
    let prefixes = scratch.as_chunks_mut::<L>().0;
    let mut product = Element::<C, L>::ONE;
    for (i, prefix) in prefixes.iter_mut().enumerate() {
        *prefix = product.0;
        if let (Addition::Line { denominator, .. }, _) = addition(&Affine::read(points, i), i) {
            product = product * denominator;
        }
    }
    let mut inverse = product.invert();
    for i in (0..count).rev() {
        let p = Affine::read(points, i);
        let sum = match addition(&p, i) {
            (Addition::Line { numerator, denominator }, other_x) => {
                let slope = numerator * (inverse * Element::from_words(&prefixes[i]));
                inverse = inverse * denominator;
                p.chord(other_x, slope)
            }
            (Addition::Known(sum), _) => sum,
        };
        sum.write(points, i);
    }
}

fn negate_masked<C: CurveConstants<L>, const L: usize>(a: &mut [u64], mask: &[u64]) {
    let points = a.as_chunks_mut::<L>().0;
    for (i, mask) in mask.iter().enumerate() {
        let y = Element::<C, L>::from_words(&points[2 * i + 1]);
        let choice = ((mask & 1) as u8).into();
        points[2 * i + 1] = Element::conditional_select(&y, &-y, choice).0;
    }
}

fn select<C: CurveConstants<L>, const L: usize>(table: &[u64], index: &[u8], negate: &[u64], out: &mut [u64]) {
    let entries = table.chunks_exact(2 * L);
    for (wanted, out) in index.iter().zip(out.chunks_exact_mut(2 * L)) {
        // the barrier keeps the compiler from turning the scan back into an indexed read
        let wanted = u64::from(std::hint::black_box(*wanted));
        let mut found = [[0u64; L]; 2];
        let found_words = found.as_flattened_mut();
        for (position, entry) in entries.clone().enumerate() {
            let difference = position as u64 ^ wanted;
            let mask = opaque((difference.wrapping_sub(1) >> 63).wrapping_neg()); // all ones iff there is none
            for (word, entry_word) in found_words.iter_mut().zip(entry) {
                *word |= entry_word & mask;
            }
        }
        out.copy_from_slice(found_words);
    }
    negate_masked::<C, L>(out, negate);
}

/// By affine batches: a window is four doublings and an addition of the whole batch.
fn multiply<C: CurveConstants<L>, const L: usize>(
    multiples: &[u64],
    windows: &[u8],
    out: &mut [u64],
    scratch: &mut Vec<u64>,
) {
    if out.is_empty() {
        return;
    }
    let mut addend = Zeroizing::new(vec![0; out.len()]);
    let mut mask = Zeroizing::new(vec![0; out.len() / (2 * L)]);
    for (position, &window) in windows.iter().enumerate() {
        let (index, negative) = split_window(std::hint::black_box(window), WINDOW);
        addend.fill(0);
        for (entry, multiple) in multiples.chunks_exact(out.len()).enumerate() {
            let difference = entry as u64 ^ u64::from(index);
            let here = opaque((difference.wrapping_sub(1) >> 63).wrapping_neg()); // all ones iff there is none
            for (word, candidate) in addend.iter_mut().zip(multiple) {
                *word |= candidate & here;
            }
        }
        mask.fill(opaque(negative));
        negate_masked::<C, L>(&mut addend, &mask);
        if position == 0 {
            out.copy_from_slice(&addend);
            continue;
        }
        for _ in 0..WINDOW {
            double_assign::<C, L>(out, scratch);
        }
        add_assign::<C, L>(out, &addend, scratch);
    }
}

/// `x³ + ax + b`.
fn curve_polynomial<C: CurveConstants<L>, const L: usize>(x: Element<C, L>, b: Element<C, L>) -> Element<C, L> {
    let linear = match C::A {
        Coefficient::Zero => Element::ZERO,
        Coefficient::MinusThree | Coefficient::Small(_) => coefficient_a::<C, L>() * x,
    };
    x.square() * x + linear + b
}

fn is_canonical<C: Prime<L>, const L: usize>(integer: &[u64; L]) -> bool {
    less_than(integer, &C::MODULUS).into()
}

fn import<C: CurveConstants<L>, const L: usize>(points: &mut [u64]) -> Result<(), usize> {
    let points = points.as_chunks_mut::<L>().0;
    let b = Element::<C, L>::from_integer(&C::B);
    for i in 0..points.len() / 2 {
        if !is_canonical::<C, L>(&points[2 * i]) || !is_canonical::<C, L>(&points[2 * i + 1]) {
            return Err(i);
        }
        let point =
            Affine::<C, L> { x: Element::from_integer(&points[2 * i]), y: Element::from_integer(&points[2 * i + 1]) };
        if !point.is_identity() && point.y.square() != curve_polynomial(point.x, b) {
            return Err(i);
        }
        point.write(points, i);
    }
    Ok(())
}

fn export<C: CurveConstants<L>, const L: usize>(points: &mut [u64]) {
    for coordinate in points.as_chunks_mut::<L>().0 {
        *coordinate = Element::<C, L>::from_words(coordinate).to_integer();
    }
}

fn decompress<C: CurveConstants<L>, const L: usize>(points: &mut [u64]) -> Result<(), usize> {
    let points = points.as_chunks_mut::<L>().0;
    let b = Element::<C, L>::from_integer(&C::B);
    let roots = SquareRoots::<C, L>::new();
    for i in 0..points.len() / 2 {
        if !is_canonical::<C, L>(&points[2 * i]) {
            return Err(i);
        }
        let x = Element::<C, L>::from_integer(&points[2 * i]);
        let root = roots.vartime_root(curve_polynomial(x, b)).ok_or(i)?;
        let parity = points[2 * i + 1][0] & 1;
        let y = if root.to_integer()[0] & 1 == parity { root } else { -root };
        Affine { x, y }.write(points, i);
    }
    Ok(())
}
