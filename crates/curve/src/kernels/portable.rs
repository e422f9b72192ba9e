//! The portable backend: one point after another, on coordinates of either kind ([`Coordinate`]).
//! On 64-bit words it defines the results of all other backends.

use super::coordinate::{Coordinate, SquareRoots};
use super::field::less_than;
use super::{Coefficient, CurveConstants, CurveKernels, Scratch, WINDOW, fingerprint, opaque, split_window};
use std::marker::PhantomData;
use tobari_simd::{LANES, Line, Lines};

/// Are tables read by shuffles? Then wider windows pay off.
const SHUFFLES: bool = cfg!(target_feature = "simd128");

/// The portable loops for curve `C`, on coordinates `F`.
pub(crate) struct Portable<C, F, const L: usize>(PhantomData<(C, F)>);

impl<C: CurveConstants<L>, F: Coordinate<L>, const L: usize> Portable<C, F, L> {
    /// The same with the shuffles of WebAssembly, emulated.
    #[cfg(test)]
    pub(crate) const SHUFFLING: CurveKernels = CurveKernels {
        backend: "emulated shuffles",
        window: 9,
        select: super::shuffle::select::<F, L>,
        arrange: super::shuffle::arrange::<L>,
        ..Self::KERNELS
    };

    pub(crate) const KERNELS: CurveKernels = CurveKernels {
        backend: F::BACKEND,
        limbs: F::LIMBS,
        window: if SHUFFLES { 9 } else { 6 },
        packet_window: 7,
        add_assign: add_assign::<C, F, L>,
        double_assign: double_assign::<C, F, L>,
        negate_masked: negate_masked::<F, L>,
        canonicalise: canonicalise::<F, L>,
        pack: pack::<F, L>,
        #[cfg(target_feature = "simd128")]
        select: super::shuffle::select::<F, L>,
        #[cfg(target_feature = "simd128")]
        arrange: super::shuffle::arrange::<L>,
        #[cfg(not(target_feature = "simd128"))]
        select: select::<F, L>,
        #[cfg(not(target_feature = "simd128"))]
        arrange: |_| {},
        vartime_select: vartime_select::<F, L>,
        multiply: multiply::<C, F, L>,
        fingerprints: fingerprints::<F, L>,
        vartime_pair_x: vartime_pair_x::<F, L>,
        import: import::<C, F, L>,
        export: export::<F, L>,
        decompress: |integers, points| {
            find_y::<C, F, L>(integers)?;
            import::<C, F, L>(integers, points)
        },
    };
}

/// An affine point in the kernels: two field elements, both zero for the identity.
#[derive(Clone, Copy)]
pub(super) struct Affine<F, const L: usize> {
    pub(super) x: F,
    pub(super) y: F,
}

impl<F: Coordinate<L>, const L: usize> Affine<F, L> {
    const IDENTITY: Self = Self { x: F::ZERO, y: F::ZERO };

    #[inline(always)]
    fn read(lines: &[Line], i: usize) -> Self {
        let (x, y) = lines[i / LANES * 2 * F::LIMBS..][..2 * F::LIMBS].split_at(F::LIMBS);
        Self { x: F::load(x, i % LANES), y: F::load(y, i % LANES) }
    }

    #[inline(always)]
    pub(super) fn write(self, lines: &mut [Line], i: usize) {
        let (x, y) = lines[i / LANES * 2 * F::LIMBS..][..2 * F::LIMBS].split_at_mut(F::LIMBS);
        self.x.store(x, i % LANES);
        self.y.store(y, i % LANES);
    }

    /// On a curve of odd order only the identity, in this representation, has `y = 0`.
    #[inline(always)]
    fn is_identity(&self) -> bool {
        self.y.is_blank()
    }

    /// The sum of two distinct points, given the slope of their line; the double, given that of the
    /// tangent.
    #[inline(always)]
    fn chord(self, other_x: F, slope: F) -> Self {
        let x = slope.square_less(self.x + other_x);
        Self { x, y: slope.product_less(self.x - x, self.y) }
    }
}

/// Number of points in lines, those beyond the end included.
fn count<F: Coordinate<L>, const L: usize>(lines: &[Line]) -> usize {
    lines.len() / (2 * F::LIMBS) * LANES
}

/// The steps of an addition.
enum Addition<F, const L: usize> {
    /// A line with this numerator and denominator; the denominator is not zero.
    Line { numerator: F, denominator: F },
    /// The sum is known without arithmetic.
    Known(Affine<F, L>),
}

impl<F: Coordinate<L>, const L: usize> Addition<F, L> {
    #[inline(always)]
    fn of<C: CurveConstants<L>>(p: &Affine<F, L>, q: &Affine<F, L>) -> Self {
        let denominator = q.x - p.x;
        if denominator.is_zero() || p.is_identity() || q.is_identity() {
            Self::exceptional::<C>(p, q)
        } else {
            Self::Line { numerator: q.y - p.y, denominator }
        }
    }

    #[cold]
    fn exceptional<C: CurveConstants<L>>(p: &Affine<F, L>, q: &Affine<F, L>) -> Self {
        if p.is_identity() {
            Self::Known(*q)
        } else if q.is_identity() {
            Self::Known(*p)
        } else if p.y == q.y {
            Self::tangent::<C>(p)
        } else {
            Self::Known(Affine::IDENTITY) // equal x on the curve leaves only y2 = -y1
        }
    }

    /// `(3x² + a) / 2y`; `y ≠ 0`, because a point with `y = 0` has order two and the group's order
    /// is odd.
    #[inline(always)]
    fn tangent<C: CurveConstants<L>>(p: &Affine<F, L>) -> Self {
        let square = p.x.square();
        let numerator = (square.double() + square + coefficient_a::<C, F, L>()).settle();
        Self::Line { numerator, denominator: p.y.double() }
    }
}

fn coefficient_a<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>() -> F {
    match C::A {
        Coefficient::Zero => F::ZERO,
        Coefficient::MinusThree => -(F::ONE.double() + F::ONE).settle(),
        Coefficient::Small(a) => F::from_small(a),
    }
}

fn add_assign<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(
    a: &mut [Line],
    b: &[Line],
    scratch: &mut Scratch,
) {
    batch::<C, F, L>(a, Some(b), scratch);
}

fn double_assign<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(a: &mut [Line], scratch: &mut Scratch) {
    batch::<C, F, L>(a, None, scratch);
}

/// The addition of point `i` of `others` to `p`, or the doubling of `p` if there are none, and the
/// `x` of the addend.
#[inline(always)]
fn addition<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(
    p: &Affine<F, L>,
    others: Option<&[Line]>,
    i: usize,
) -> (Addition<F, L>, F) {
    match others {
        Some(others) => {
            let q = Affine::read(others, i);
            (Addition::of::<C>(p, &q), q.x)
        }
        None if p.is_identity() => (Addition::Known(*p), p.x),
        None => (Addition::tangent::<C>(p), p.x),
    }
}

/// Adds `others` to the points, or doubles them, with one inversion for all (Montgomery's
/// simultaneous inversion: `scratch` holds the running products, and no denominator is zero).
#[inline(always)]
fn batch<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(
    points: &mut [Line],
    others: Option<&[Line]>,
    scratch: &mut Scratch,
) {
    let count = count::<F, L>(points);
    let public = scratch.is_public();
    let prefixes = scratch.lines(count / LANES * F::LIMBS);
    let mut product = F::ONE;
    for i in 0..count {
        product.store(&mut prefixes[i / LANES * F::LIMBS..], i % LANES);
        if let (Addition::Line { denominator, .. }, _) = addition::<C, F, L>(&Affine::read(points, i), others, i) {
            product = product * denominator;
        }
    }
    let mut inverse = if public { product.vartime_invert() } else { product.invert() };
    for i in (0..count).rev() {
        let p = Affine::read(points, i);
        let sum = match addition::<C, F, L>(&p, others, i) {
            (Addition::Line { numerator, denominator }, other_x) => {
                let prefix = F::load(&prefixes[i / LANES * F::LIMBS..], i % LANES);
                let slope = numerator * (inverse * prefix);
                inverse = inverse * denominator;
                p.chord(other_x, slope)
            }
            (Addition::Known(sum), _) => sum,
        };
        sum.write(points, i);
    }
}

fn negate_masked<F: Coordinate<L>, const L: usize>(a: &mut [Line], mask: &[Line]) {
    for i in 0..count::<F, L>(a) {
        let point = Affine::<F, L>::read(a, i);
        Affine { y: point.y.negate_masked(mask[i / LANES].0[i % LANES]), ..point }.write(a, i);
    }
}

fn canonicalise<F: Coordinate<L>, const L: usize>(a: &mut [Line]) {
    for i in 0..count::<F, L>(a) {
        let Affine::<F, L> { x, y } = Affine::read(a, i);
        Affine { x: x.canonical(), y: y.canonical() }.write(a, i);
    }
}

/// Lines of a table entry.
pub(super) const fn entry_lines<const L: usize>() -> usize {
    (2 * L).div_ceil(LANES)
}

fn pack<F: Coordinate<L>, const L: usize>(a: &[Line], out: &mut [Line]) {
    for (i, entry) in out.chunks_exact_mut(entry_lines::<L>()).enumerate() {
        let Affine::<F, L> { x, y } = Affine::read(a, i);
        for (place, word) in x.residue().into_iter().chain(y.residue()).enumerate() {
            entry[place / LANES].0[place % LANES] = word;
        }
    }
}

/// The point of an entry's words.
fn unpack<F: Coordinate<L>, const L: usize>(word: impl Fn(usize) -> u64) -> Affine<F, L> {
    let coordinate = |start: usize| F::from_residue(&std::array::from_fn(|j| word(start + j)));
    Affine { x: coordinate(0), y: coordinate(L) }
}

pub(super) fn select<F: Coordinate<L>, const L: usize>(
    table: &[Line],
    index: &[Line],
    negate: &[Line],
    out: &mut [Line],
) {
    for i in 0..count::<F, L>(out) {
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
        unpack::<F, L>(|place| found[place / LANES].0[place % LANES]).write(out, i);
    }
    negate_masked::<F, L>(out, negate);
}

fn vartime_select<F: Coordinate<L>, const L: usize>(table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line]) {
    for i in 0..count::<F, L>(out) {
        let start = index[i / LANES].0[i % LANES] as usize * entry_lines::<L>();
        unpack::<F, L>(|place| table[start + place / LANES].0[place % LANES]).write(out, i);
    }
    negate_masked::<F, L>(out, negate);
}

/// Multiplies by affine batches: a window takes four doublings and one or two additions of the
/// whole batch.
fn multiply<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(
    multiples: &[Line],
    windows: &[u8],
    terms: usize,
    out: &mut [Line],
    scratch: &mut Scratch,
) {
    if out.is_empty() {
        return;
    }
    let beta = F::from_integer(&C::BETA);
    let mut addend = Lines::zero(out.len());
    let mut mask = Lines::zero(out.len() / (2 * F::LIMBS));
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
            for i in 0..count::<F, L>(&addend) {
                let point = Affine::<F, L>::read(&addend, i);
                Affine { x: point.x * beta, ..point }.write(&mut addend, i);
            }
        }
        mask.fill(Line([opaque(negative); LANES]));
        negate_masked::<F, L>(&mut addend, &mask);
        if position == 0 {
            out.copy_from_slice(&addend);
            continue;
        }
        if position % terms == 0 {
            for _ in 0..WINDOW {
                double_assign::<C, F, L>(out, scratch);
            }
        }
        add_assign::<C, F, L>(out, &addend, scratch);
    }
}

/// [`fingerprint`] of a coordinate.
#[inline(always)]
fn fingerprint_of<F: Coordinate<L>, const L: usize>(x: F) -> u64 {
    let residue = x.residue();
    fingerprint(residue[0], residue[1])
}

/// See [`CurveKernels::fingerprints`].
fn fingerprints<F: Coordinate<L>, const L: usize>(points: &[Line], out: &mut [Line]) {
    for i in 0..count::<F, L>(points) {
        out[i / LANES].0[i % LANES] = fingerprint_of(Affine::<F, L>::read(points, i).x);
    }
}

/// See [`CurveKernels::vartime_pair_x`].
fn vartime_pair_x<F: Coordinate<L>, const L: usize>(
    points: &[Line],
    steps: &[Line],
    out: &mut [Line],
    scratch: &mut Scratch,
) -> bool {
    let count = count::<F, L>(points);
    let groups = count / LANES;
    let steps = steps.chunks_exact(entry_lines::<L>());
    let steps: Vec<_> = steps.map(|entry| unpack::<F, L>(|place| entry[place / LANES].0[place % LANES])).collect();
    let pairs = count * steps.len();
    let prefixes = scratch.lines(pairs / LANES * F::LIMBS);
    let mut product = F::ONE;
    for i in 0..pairs {
        product.store(&mut prefixes[i / LANES * F::LIMBS..], i % LANES);
        product = product * (steps[i / count].x - Affine::read(points, i % count).x);
    }
    if product.is_zero() {
        return false;
    }
    let mut inverse = product.vartime_invert();
    for i in (0..pairs).rev() {
        let (p, step) = (Affine::<F, L>::read(points, i % count), &steps[i / count]);
        let inverted = inverse * F::load(&prefixes[i / LANES * F::LIMBS..], i % LANES);
        inverse = inverse * (step.x - p.x);
        let place = (i / count * groups + i % count / LANES) * 2;
        for (side, y) in [-step.y, step.y].into_iter().enumerate() {
            let x = ((y - p.y) * inverted).square() - p.x - step.x;
            out[place + side].0[i % LANES] = fingerprint_of(x);
        }
    }
    true
}

/// `x³ + ax + b`.
fn curve_polynomial<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(x: F, b: F) -> F {
    let linear = match C::A {
        Coefficient::Zero => F::ZERO,
        Coefficient::MinusThree | Coefficient::Small(_) => coefficient_a::<C, F, L>() * x,
    };
    (x.square() * x + linear + b).settle()
}

fn is_canonical<F: Coordinate<L>, const L: usize>(integer: &[u64; L]) -> bool {
    less_than(integer, &F::MODULUS).into()
}

fn import<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(
    integers: &[u64],
    points: &mut [Line],
) -> Result<(), usize> {
    let b = F::from_integer(&C::B);
    points.fill(Line::ZERO);
    for (i, [x, y]) in integers.as_chunks::<L>().0.as_chunks::<2>().0.iter().enumerate() {
        if !is_canonical::<F, L>(x) || !is_canonical::<F, L>(y) {
            return Err(i);
        }
        if x.iter().chain(y).all(|word| *word == 0) {
            continue;
        }
        let point = Affine { x: F::from_integer(x), y: F::from_integer(y) };
        if point.y.square() != curve_polynomial::<C, F, L>(point.x, b) {
            return Err(i);
        }
        point.write(points, i);
    }
    Ok(())
}

fn export<F: Coordinate<L>, const L: usize>(points: &[Line], integers: &mut [u64]) {
    for (i, [x, y]) in integers.as_chunks_mut::<L>().0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let point = Affine::<F, L>::read(points, i);
        (*x, *y) = (point.x.to_integer(), point.y.to_integer());
    }
}

/// Computes the `y` of each `x`; see [`CurveKernels::decompress`].
pub(super) fn find_y<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(
    integers: &mut [u64],
) -> Result<(), usize> {
    let b = F::from_integer(&C::B);
    let roots = SquareRoots::<F, L>::new();
    for (i, [x, y]) in integers.as_chunks_mut::<L>().0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        if !is_canonical::<F, L>(x) {
            return Err(i);
        }
        let root = roots.vartime_root(curve_polynomial::<C, F, L>(F::from_integer(x), b)).ok_or(i)?;
        let parity = y[0] & 1;
        *y = if root.to_integer()[0] & 1 == parity { root.to_integer() } else { (-root).to_integer() };
    }
    Ok(())
}
