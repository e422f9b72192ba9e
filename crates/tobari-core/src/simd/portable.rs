//! The portable backend: one lane of 64-bit words. It defines what every other backend must return.

use super::field::{Element, Prime, SquareRoots, less_than};
use super::{
    Coefficient, CurveConstants, CurveKernels, LANES, Line, Lines, Scratch, WINDOW, fingerprint, opaque, split_window,
};
use std::marker::PhantomData;
use subtle::ConditionallySelectable;

/// The portable loops for curve `C`.
pub(crate) struct Portable<C, const L: usize>(PhantomData<C>);

impl<C: CurveConstants<L>, const L: usize> Portable<C, L> {
    pub(crate) const KERNELS: CurveKernels = CurveKernels {
        backend: "portable",
        limbs: L,
        add_assign: add_assign::<C, L>,
        double_assign: double_assign::<C, L>,
        negate_masked: negate_masked::<C, L>,
        canonicalise: |_| {}, // they always are
        pack: pack::<C, L>,
        select: select::<C, L>,
        vartime_select: vartime_select::<C, L>,
        multiply: multiply::<C, L>,
        vartime_pair_x: vartime_pair_x::<C, L>,
        import: import::<C, L>,
        export: export::<C, L>,
        decompress: |integers, points| {
            find_y::<C, L>(integers)?;
            import::<C, L>(integers, points)
        },
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
    fn read(lines: &[Line], i: usize) -> Self {
        let group = &lines[i / LANES * 2 * L..][..2 * L];
        let coordinate = |start: usize| Element::from_words(&std::array::from_fn(|j| group[start + j].0[i % LANES]));
        Self { x: coordinate(0), y: coordinate(L) }
    }

    #[inline(always)]
    fn write(self, lines: &mut [Line], i: usize) {
        let group = &mut lines[i / LANES * 2 * L..][..2 * L];
        for j in 0..L {
            group[j].0[i % LANES] = self.x.0[j];
            group[L + j].0[i % LANES] = self.y.0[j];
        }
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

/// Number of points in lines, those beyond the end included.
fn count<const L: usize>(lines: &[Line]) -> usize {
    lines.len() / (2 * L) * LANES
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

fn add_assign<C: CurveConstants<L>, const L: usize>(a: &mut [Line], b: &[Line], scratch: &mut Scratch) {
    batch::<C, L>(a, scratch, |p, i| {
        let q = Affine::read(b, i);
        (Addition::of(p, &q), q.x)
    });
}

fn double_assign<C: CurveConstants<L>, const L: usize>(a: &mut [Line], scratch: &mut Scratch) {
    batch::<C, L>(a, scratch, |p, _| {
        let addition = if p.is_identity() { Addition::Known(*p) } else { Addition::tangent(p) };
        (addition, p.x)
    });
}

/// Replaces every point by its sum with the partner that `addition` names, with one inversion for all (Montgomery's
/// simultaneous inversion: `scratch` holds the running products, and a denominator never is zero).
#[inline(always)]
fn batch<C: CurveConstants<L>, const L: usize>(
    points: &mut [Line],
    scratch: &mut Scratch,
    addition: impl Fn(&Affine<C, L>, usize) -> (Addition<C, L>, Element<C, L>),
) {
    let count = count::<L>(points);
    let public = scratch.is_public();
    let prefixes = scratch.lines(count); // one of at most eight words each
    let mut product = Element::<C, L>::ONE;
    for (i, prefix) in prefixes.iter_mut().enumerate() {
        prefix.0[..L].copy_from_slice(&product.0);
        if let (Addition::Line { denominator, .. }, _) = addition(&Affine::read(points, i), i) {
            product = product * denominator;
        }
    }
    let mut inverse = if public { product.vartime_invert() } else { product.invert() };
    for i in (0..count).rev() {
        let p = Affine::read(points, i);
        let sum = match addition(&p, i) {
            (Addition::Line { numerator, denominator }, other_x) => {
                let prefix = Element::from_words(&std::array::from_fn(|j| prefixes[i].0[j]));
                let slope = numerator * (inverse * prefix);
                inverse = inverse * denominator;
                p.chord(other_x, slope)
            }
            (Addition::Known(sum), _) => sum,
        };
        sum.write(points, i);
    }
}

fn negate_masked<C: CurveConstants<L>, const L: usize>(a: &mut [Line], mask: &[Line]) {
    for i in 0..count::<L>(a) {
        let mut point = Affine::<C, L>::read(a, i);
        let choice = ((mask[i / LANES].0[i % LANES] & 1) as u8).into();
        point.y = Element::conditional_select(&point.y, &-point.y, choice);
        point.write(a, i);
    }
}

/// Lines of a table entry.
const fn entry_lines<const L: usize>() -> usize {
    (2 * L).div_ceil(LANES)
}

fn pack<C: CurveConstants<L>, const L: usize>(a: &[Line], out: &mut [Line]) {
    for (i, entry) in out.chunks_exact_mut(entry_lines::<L>()).enumerate() {
        let Affine::<C, L> { x, y } = Affine::read(a, i);
        for (place, word) in x.0.into_iter().chain(y.0).enumerate() {
            entry[place / LANES].0[place % LANES] = word;
        }
    }
}

/// The point of an entry's words.
fn unpack<C: Prime<L>, const L: usize>(word: impl Fn(usize) -> u64) -> Affine<C, L> {
    let coordinate = |start: usize| Element::from_words(&std::array::from_fn(|j| word(start + j)));
    Affine { x: coordinate(0), y: coordinate(L) }
}

fn select<C: CurveConstants<L>, const L: usize>(table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line]) {
    for i in 0..count::<L>(out) {
        // the barrier keeps the compiler from turning the scan back into an indexed read
        let wanted = std::hint::black_box(index[i / LANES].0[i % LANES]);
        let mut found = [Line::ZERO; 2];
        for (position, entry) in table.chunks_exact(entry_lines::<L>()).enumerate() {
            let difference = position as u64 ^ wanted;
            let mask = opaque((difference.wrapping_sub(1) >> 63).wrapping_neg()); // all ones iff there is none
            for (found, line) in found.iter_mut().zip(entry) {
                for (word, entry_word) in found.0.iter_mut().zip(line.0) {
                    *word |= entry_word & mask;
                }
            }
        }
        unpack::<C, L>(|place| found[place / LANES].0[place % LANES]).write(out, i);
    }
    negate_masked::<C, L>(out, negate);
}

fn vartime_select<C: CurveConstants<L>, const L: usize>(
    table: &[Line],
    index: &[Line],
    negate: &[Line],
    out: &mut [Line],
) {
    for i in 0..count::<L>(out) {
        let start = index[i / LANES].0[i % LANES] as usize * entry_lines::<L>();
        unpack::<C, L>(|place| table[start + place / LANES].0[place % LANES]).write(out, i);
    }
    negate_masked::<C, L>(out, negate);
}

/// By affine batches: a window is four doublings and an addition, or two, of the whole batch.
fn multiply<C: CurveConstants<L>, const L: usize>(
    multiples: &[Line],
    windows: &[u8],
    terms: usize,
    out: &mut [Line],
    scratch: &mut Scratch,
) {
    if out.is_empty() {
        return;
    }
    let beta = Element::<C, L>::from_integer(&C::BETA);
    let mut addend = Lines::zero(out.len());
    let mut mask = Lines::zero(out.len() / (2 * L));
    for (position, &window) in windows.iter().enumerate() {
        let (index, negative) = split_window(std::hint::black_box(window), WINDOW);
        addend.fill(Line::ZERO);
        for (entry, multiple) in multiples.chunks_exact(out.len()).enumerate() {
            let difference = entry as u64 ^ u64::from(index);
            let here = opaque((difference.wrapping_sub(1) >> 63).wrapping_neg()); // all ones iff there is none
            for (line, candidate) in addend.iter_mut().zip(multiple) {
                for (word, candidate) in line.0.iter_mut().zip(candidate.0) {
                    *word |= candidate & here;
                }
            }
        }
        if position % terms == 1 {
            for i in 0..count::<L>(&addend) {
                let point = Affine::<C, L>::read(&addend, i);
                Affine { x: point.x * beta, ..point }.write(&mut addend, i);
            }
        }
        mask.fill(Line([opaque(negative); LANES]));
        negate_masked::<C, L>(&mut addend, &mask);
        if position == 0 {
            out.copy_from_slice(&addend);
            continue;
        }
        if position % terms == 0 {
            for _ in 0..WINDOW {
                double_assign::<C, L>(out, scratch);
            }
        }
        add_assign::<C, L>(out, &addend, scratch);
    }
}

/// See [`CurveKernels::vartime_pair_x`].
fn vartime_pair_x<C: CurveConstants<L>, const L: usize>(
    points: &[Line],
    steps: &[Line],
    out: &mut [Line],
    scratch: &mut Scratch,
) -> bool {
    let (count, groups) = (count::<L>(points), points.len() / (2 * L));
    let steps = steps.chunks_exact(entry_lines::<L>());
    let steps: Vec<_> = steps.map(|entry| unpack::<C, L>(|place| entry[place / LANES].0[place % LANES])).collect();
    let prefixes = scratch.lines(count * steps.len());
    let mut product = Element::<C, L>::ONE;
    for (i, prefix) in prefixes.iter_mut().enumerate() {
        prefix.0[..L].copy_from_slice(&product.0);
        product = product * (steps[i / count].x - Affine::read(points, i % count).x);
    }
    if product.is_zero() {
        return false;
    }
    let mut inverse = product.vartime_invert();
    for (i, prefix) in prefixes.iter().enumerate().rev() {
        let (p, step) = (Affine::<C, L>::read(points, i % count), &steps[i / count]);
        let inverted = inverse * Element::from_words(&std::array::from_fn(|j| prefix.0[j]));
        inverse = inverse * (step.x - p.x);
        let place = (i / count * groups + i % count / LANES) * 2;
        for (side, y) in [-step.y, step.y].into_iter().enumerate() {
            let x = ((y - p.y) * inverted).square() - p.x - step.x;
            out[place + side].0[i % LANES] = fingerprint(x.0[0], x.0[1]);
        }
    }
    true
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

fn import<C: CurveConstants<L>, const L: usize>(integers: &[u64], points: &mut [Line]) -> Result<(), usize> {
    let b = Element::<C, L>::from_integer(&C::B);
    points.fill(Line::ZERO);
    for (i, [x, y]) in integers.as_chunks::<L>().0.as_chunks::<2>().0.iter().enumerate() {
        if !is_canonical::<C, L>(x) || !is_canonical::<C, L>(y) {
            return Err(i);
        }
        let point = Affine::<C, L> { x: Element::from_integer(x), y: Element::from_integer(y) };
        if !point.is_identity() && point.y.square() != curve_polynomial(point.x, b) {
            return Err(i);
        }
        point.write(points, i);
    }
    Ok(())
}

fn export<C: CurveConstants<L>, const L: usize>(points: &[Line], integers: &mut [u64]) {
    for (i, [x, y]) in integers.as_chunks_mut::<L>().0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let point = Affine::<C, L>::read(points, i);
        (*x, *y) = (point.x.to_integer(), point.y.to_integer());
    }
}

/// Puts the `y` of each `x` in its place; see [`CurveKernels::decompress`].
pub(super) fn find_y<C: CurveConstants<L>, const L: usize>(integers: &mut [u64]) -> Result<(), usize> {
    let b = Element::<C, L>::from_integer(&C::B);
    let roots = SquareRoots::<C, L>::new();
    for (i, [x, y]) in integers.as_chunks_mut::<L>().0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        if !is_canonical::<C, L>(x) {
            return Err(i);
        }
        let root = roots.vartime_root(curve_polynomial(Element::from_integer(x), b)).ok_or(i)?;
        let parity = y[0] & 1;
        *y = if root.to_integer()[0] & 1 == parity { root.to_integer() } else { (-root).to_integer() };
    }
    Ok(())
}
