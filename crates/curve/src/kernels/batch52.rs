//! Batched affine addition, doubling and table lookup on eight lanes.
//!
//! Eight points are eight lanes: a batch is groups of `2N` lines, `x` then `y`, of coordinates
//! below `3.25p`. A batch keeps four running products, so that four independent multiplications are
//! always in flight, and processes four groups in step. One scalar inversion serves all products
//! and lanes. An addition costs 5M + 1S, with one carry ripple each: subtractions from a product
//! are done in its columns.
//!
//! **Exceptional lanes.** The identity has `y = 0`; its lane gets a denominator of one. Equal `x`
//! makes the product of all denominators zero, which one check at the end detects. Only then are
//! the lanes searched.
//!
//! **Bounds** in multiples of `p`: coordinates 3.25, differences 7.25, products 2 (the factors'
//! bounds multiply to at most 16), terms added to a product at most 8.

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::coordinate::Coordinate;
use super::field::{Element, Form, power_of_two};
use super::field52::{Field52, Number, vectors};
use super::{Coefficient, CurveConstants, Scratch};
use std::marker::PhantomData;
use tobari_simd::{LANES, Line, Lines};
use tobari_simd::{Simd, Task};

/// Independent running products, and groups that are processed in step.
pub(super) const CHAINS: usize = 4;
/// At least as many words as any point has, in whole vectors.
pub(super) const MAX_WORDS: usize = 16;

/// A number for each of the groups processed in step.
pub(super) type Step<S, const N: usize> = [Number<S, N>; CHAINS];

/// The words of eight points: vector `i` holds word `i` of each.
pub(super) type Words<S> = [<S as Simd>::V; MAX_WORDS];

/// Curve `C` on the lanes of `S`.
#[derive(Clone, Copy)]
pub(super) struct Batch52<S, C, const L: usize, const N: usize> {
    pub(super) field: Field52<S, C, L, N>,
}

/// An operation on each point of a batch.
trait Operation<S: Simd, const N: usize> {
    /// Is it frequent enough to inline its products?
    const HOT: bool;
    /// The slope's denominator, below `7.25p`.
    fn denominator(&self, points: &[Line], group: usize) -> Number<S, N>;
    /// The lanes without a slope, because the point or its partner is the identity.
    fn skipped(&self, points: &[Line], group: usize) -> u8;
    /// The slope's numerator, below `8p`.
    fn numerator(&self, points: &[Line], group: usize) -> Number<S, N>;
    /// `8p` less both points' `x`.
    fn less_x(&self, points: &[Line], group: usize) -> Number<S, N>;
    /// Puts the results of skipped lanes into `sum`.
    fn known(&self, points: &[Line], group: usize, sum: &mut [Number<S, N>; 2]);
}

struct Addition<'a, S, C, const L: usize, const N: usize> {
    curve: Batch52<S, C, L, N>,
    other: &'a [Line],
}

struct Doubling<S, C, const L: usize, const N: usize> {
    curve: Batch52<S, C, L, N>,
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Operation<S, N> for Addition<'_, S, C, L, N> {
    const HOT: bool = true;

    #[inline(always)]
    fn denominator(&self, points: &[Line], group: usize) -> Number<S, N> {
        let curve = self.curve;
        curve.field.difference(&curve.x(self.other, group), &curve.x(points, group))
    }

    #[inline(always)]
    fn skipped(&self, points: &[Line], group: usize) -> u8 {
        let curve = self.curve;
        curve.zero_number(&curve.y(points, group)) | curve.zero_number(&curve.y(self.other, group))
    }

    #[inline(always)]
    fn numerator(&self, points: &[Line], group: usize) -> Number<S, N> {
        let curve = self.curve;
        curve.field.difference(&curve.y(self.other, group), &curve.y(points, group))
    }

    #[inline(always)]
    fn less_x(&self, points: &[Line], group: usize) -> Number<S, N> {
        let (curve, s) = (self.curve, self.curve.field.simd);
        let (own, other) = (curve.x(points, group), curve.x(self.other, group));
        let both = vectors!(s, N, i => s.add(own[i], other[i]));
        curve.field.below(&Field52::<S, C, L, N>::SPREAD8, &both)
    }

    #[inline(always)]
    fn known(&self, points: &[Line], group: usize, sum: &mut [Number<S, N>; 2]) {
        let (curve, s) = (self.curve, self.curve.field.simd);
        let p = [curve.x(points, group), curve.y(points, group)];
        let q = [curve.x(self.other, group), curve.y(self.other, group)];
        let (p_zero, q_zero) = (curve.zero_number(&p[1]), curve.zero_number(&q[1]));
        for coordinate in 0..2 {
            for i in 0..N {
                let found = s.select(q_zero, sum[coordinate][i], p[coordinate][i]);
                sum[coordinate][i] = s.select(p_zero, found, q[coordinate][i]);
            }
        }
    }
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Operation<S, N> for Doubling<S, C, L, N> {
    const HOT: bool = false;

    #[inline(always)]
    fn denominator(&self, points: &[Line], group: usize) -> Number<S, N> {
        self.curve.field.times(&self.curve.y(points, group), 2)
    }

    #[inline(always)]
    fn skipped(&self, points: &[Line], group: usize) -> u8 {
        self.curve.zero_number(&self.curve.y(points, group))
    }

    #[inline(always)]
    fn numerator(&self, points: &[Line], group: usize) -> Number<S, N> {
        let (curve, field, s) = (self.curve, self.curve.field, self.curve.field.simd);
        let square = field.square(&curve.x(points, group));
        let triple = field.multiple(&square, 3); // 6
        let numerator = match C::A {
            Coefficient::Zero => triple,
            Coefficient::MinusThree => {
                let three = field.below(&Field52::<S, C, L, N>::SPREAD4, &field.multiple(&field.one(), 3));
                return field.settle(vectors!(s, N, i => s.add(triple[i], three[i])));
            }
            Coefficient::Small(a) => {
                let a = field.multiple(&field.one(), a);
                return field.settle(vectors!(s, N, i => s.add(triple[i], a[i])));
            }
        };
        field.ripple(numerator)
    }

    #[inline(always)]
    fn less_x(&self, points: &[Line], group: usize) -> Number<S, N> {
        let field = self.curve.field;
        field.below(&Field52::<S, C, L, N>::SPREAD8, &field.multiple(&self.curve.x(points, group), 2))
    }

    #[inline(always)]
    fn known(&self, points: &[Line], group: usize, sum: &mut [Number<S, N>; 2]) {
        let (s, skipped) = (self.curve.field.simd, self.skipped(points, group));
        for coordinate in 0..2 {
            sum[coordinate] = vectors!(s, N, i => s.select(skipped, sum[coordinate][i], s.splat(0)));
        }
    }
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    /// Lines of eight points.
    pub(super) const GROUP: usize = 2 * N;
    /// Words of an exported point.
    pub(super) const STRIDE: usize = 2 * L;
    /// Lines of a table entry.
    pub(super) const ENTRY: usize = Self::STRIDE.div_ceil(LANES);

    pub(super) fn new(simd: S) -> Self {
        Self { field: Field52::new(simd) }
    }

    #[inline(always)]
    pub(super) fn add_assign(self, a: &mut [Line], b: &[Line], scratch: &mut Scratch) {
        let mut exceptional = None;
        while !self.run(&Addition { curve: self, other: b }, a, scratch) {
            // once: after this no x is equal
            exceptional = Some(self.field.simd.outline(TakeExceptional { curve: self, a, b, scratch }));
        }
        if let Some(exceptional) = exceptional {
            self.field.simd.outline(PutExceptional { curve: self, a, exceptional });
        }
    }

    #[inline(always)]
    pub(super) fn double_assign(self, a: &mut [Line], scratch: &mut Scratch) {
        // 2y is not zero: the order of every group is odd
        self.run(&Doubling { curve: self }, a, scratch);
    }

    /// Applies `operation` to every point. If a denominator is zero, it returns false and changes
    /// nothing.
    #[inline(always)]
    fn run<O: Operation<S, N>>(self, operation: &O, points: &mut [Line], scratch: &mut Scratch) -> bool {
        let (field, s) = (self.field, self.field.simd);
        let groups = points.len() / Self::GROUP;
        let public = scratch.is_public();
        let memory = scratch.lines(2 * groups * N);
        let mut any_skipped = 0;
        let mut products = [[field.one(); 2]; CHAINS / 2];
        for group in 0..groups {
            let mut denominator = operation.denominator(points, group);
            let skipped = operation.skipped(points, group);
            if skipped != 0 {
                any_skipped |= skipped;
                let one = field.one();
                denominator = vectors!(s, N, i => s.select(skipped, denominator[i], one[i]));
            }
            self.put(&denominator, &mut memory[Self::denominator(group)..]);
            let [prefix, number] = [Self::prefix(group), Self::denominator(group)];
            let product = &mut products[group % CHAINS / 2];
            if group % 2 == 0 && group + 1 < groups {
                self.put(&product[0], &mut memory[prefix..]);
                continue; // together with the next one
            }
            if group % 2 == 0 {
                self.put(&product[0], &mut memory[prefix..]);
                product[0] = field.mul(&product[0], self.number(&memory[number..]));
                continue;
            }
            self.put(&product[1], &mut memory[prefix..]);
            let before = Self::denominator(group - 1);
            field.mul_assign(O::HOT, product, [self.number(&memory[before..]), self.number(&memory[number..])]);
        }
        let Some(inverses) = self.invert_chains(products.as_flattened(), public) else { return false };
        let mut inverses = [[inverses[0], inverses[1]], [inverses[2], inverses[3]]];
        let whole = groups / CHAINS * CHAINS;
        for group in (whole..groups).rev() {
            let own = &mut inverses[group % CHAINS / 2][group % 2];
            self.finish_alone(operation, own, memory, points, group, any_skipped);
        }
        let zero = [[[s.splat(0); N]; 2]; CHAINS / 2];
        let (mut slopes, mut x, mut y) = (zero, zero, zero);
        for first in (0..whole).step_by(CHAINS).rev() {
            for half in 0..CHAINS / 2 {
                let [i, j] = [first + 2 * half, first + 2 * half + 1];
                let [own, other] = &inverses[half];
                let prefixes = [self.number(&memory[Self::prefix(i)..]), self.number(&memory[Self::prefix(j)..])];
                field.mul_to(O::HOT, [own, other], prefixes, &mut slopes[half]);
            }
            for half in 0..CHAINS / 2 {
                let [i, j] = [Self::denominator(first + 2 * half), Self::denominator(first + 2 * half + 1)];
                let denominators = [self.number(&memory[i..]), self.number(&memory[j..])];
                field.mul_assign(O::HOT, &mut inverses[half], denominators);
            }
            for half in 0..CHAINS / 2 {
                let [i, j] = [first + 2 * half, first + 2 * half + 1];
                let numerators = [operation.numerator(points, i), operation.numerator(points, j)];
                field.mul_assign(O::HOT, &mut slopes[half], [&numerators[0], &numerators[1]]);
            }
            for half in 0..CHAINS / 2 {
                let [i, j] = [first + 2 * half, first + 2 * half + 1];
                let less = [operation.less_x(points, i), operation.less_x(points, j)];
                let [own, other] = &slopes[half];
                field.square_plus_to(O::HOT, [own, other], [&less[0], &less[1]], &mut x[half]);
            }
            for half in 0..CHAINS / 2 {
                let [i, j] = [first + 2 * half, first + 2 * half + 1];
                let [own, other] = &slopes[half];
                let less = [self.less_y(points, i), self.less_y(points, j)];
                let runs = [
                    field.difference(self.number(&points[i * Self::GROUP..]), &x[half][0]),
                    field.difference(self.number(&points[j * Self::GROUP..]), &x[half][1]),
                ];
                field.mul_plus_to(O::HOT, [own, other], [&runs[0], &runs[1]], [&less[0], &less[1]], &mut y[half]);
                for place in 0..2 {
                    self.put_sum(operation, [&x[half][place], &y[half][place]], points, i + place, any_skipped);
                }
            }
        }
        true
    }

    /// The backward pass for one of the last groups, which do not fill a step.
    #[inline(always)]
    fn finish_alone<O: Operation<S, N>>(
        self,
        operation: &O,
        inverse_of_all: &mut Number<S, N>,
        memory: &[Line],
        points: &mut [Line],
        group: usize,
        any_skipped: u8,
    ) {
        let field = self.field;
        let inverse = field.mul(inverse_of_all, self.number(&memory[Self::prefix(group)..]));
        *inverse_of_all = field.mul(inverse_of_all, self.number(&memory[Self::denominator(group)..]));
        let slope = field.mul(&operation.numerator(points, group), &inverse);
        let x = field.square_plus(&slope, &operation.less_x(points, group));
        let run = field.difference(&self.x(points, group), &x);
        let y = field.mul_plus(&slope, &run, &self.less_y(points, group));
        self.put_sum(operation, [&x, &y], points, group, any_skipped);
    }

    /// The place of the product of all earlier denominators in a group's chain.
    #[inline(always)]
    const fn prefix(group: usize) -> usize {
        2 * group * N
    }

    /// The place of a group's denominator.
    #[inline(always)]
    const fn denominator(group: usize) -> usize {
        (2 * group + 1) * N
    }

    /// `4p - y`.
    #[inline(always)]
    fn less_y(self, points: &[Line], group: usize) -> Number<S, N> {
        self.field.below(&Field52::<S, C, L, N>::SPREAD4, self.number(&points[group * Self::GROUP + N..]))
    }

    /// Writes a sum; skipped lanes get their known results.
    #[inline(always)]
    fn put_sum<O: Operation<S, N>>(
        self,
        operation: &O,
        [x, y]: [&Number<S, N>; 2],
        points: &mut [Line],
        group: usize,
        any_skipped: u8,
    ) {
        let place = group * Self::GROUP;
        if any_skipped != 0 {
            let mut sum = [*x, *y];
            operation.known(points, group, &mut sum);
            self.put(&sum[0], &mut points[place..]);
            self.put(&sum[1], &mut points[place + N..]);
        } else {
            self.put(x, &mut points[place..]);
            self.put(y, &mut points[place + N..]);
        }
    }

    /// A number in memory.
    #[inline(always)]
    pub(super) fn number(self, lines: &[Line]) -> &Number<S, N> {
        match self.field.simd.view(&lines[..N]).first_chunk() {
            Some(number) => number,
            None => unreachable!("N lines are a number"),
        }
    }

    /// The inverses at which the chains start their backward pass; none if a product is zero in
    /// some lane. In constant time unless the products are `public`.
    #[inline(always)]
    pub(super) fn invert_chains(self, products: &[Number<S, N>], public: bool) -> Option<Step<S, N>> {
        let field = self.field;
        let (left, right) = (field.mul(&products[0], &products[1]), field.mul(&products[2], &products[3]));
        let all = self.invert_lanes(&field.mul(&left, &right), public)?;
        let (left, right) = (field.mul(&all, &right), field.mul(&all, &left));
        Some([
            field.mul(&left, &products[1]),
            field.mul(&left, &products[0]),
            field.mul(&right, &products[3]),
            field.mul(&right, &products[2]),
        ])
    }

    /// `1 / number`, lane by lane, with one inversion; none if a lane is zero.
    #[inline(always)]
    fn invert_lanes(self, number: &Number<S, N>, public: bool) -> Option<Number<S, N>> {
        let (field, s) = (self.field, self.field.simd);
        let canonical = field.canonical(number);
        if self.zero_number(&canonical) != 0 {
            return None;
        }
        let words = field.words(&canonical);
        let mut lanes = [Line::ZERO; L];
        for i in 0..L {
            s.store(words[i], &mut lanes[i]);
        }
        invert_all::<C, L, N>(&mut lanes, public);
        Some(field.read(&vectors!(s, L, i => s.load(&lanes[i]))))
    }

    /// `y ← -y` if `mask` is all ones.
    #[inline(always)]
    pub(super) fn negate_masked(self, a: &mut [Line], mask: &[Line]) {
        let (field, s) = (self.field, self.field.simd);
        for (group, mask) in a.chunks_exact_mut(Self::GROUP).zip(mask) {
            let y = self.get(&group[N..]);
            let bits = s.equal(s.load(mask), s.splat(u64::MAX)) & !self.zero_number(&y);
            let opposite = field.settle(field.below(&Field52::<S, C, L, N>::SPREAD4, &y));
            self.put(&vectors!(s, N, i => s.select(bits, y[i], opposite[i])), &mut group[N..]);
        }
    }

    /// Replaces every coordinate by its canonical residue.
    #[inline(always)]
    pub(super) fn canonicalise(self, a: &mut [Line]) {
        for number in a.chunks_exact_mut(N) {
            self.put(&self.field.canonical(&self.get(number)), number);
        }
    }

    #[inline(always)]
    pub(super) fn put(self, number: &Number<S, N>, memory: &mut [Line]) {
        let memory = &mut memory[..N];
        for i in 0..N {
            self.field.simd.store(number[i], &mut memory[i]);
        }
    }

    #[inline(always)]
    pub(super) fn get(self, memory: &[Line]) -> Number<S, N> {
        let memory = &memory[..N];
        vectors!(self.field.simd, N, i => self.field.simd.load(&memory[i]))
    }

    #[inline(always)]
    pub(super) fn x(self, points: &[Line], group: usize) -> Number<S, N> {
        self.get(&points[group * Self::GROUP..])
    }

    #[inline(always)]
    pub(super) fn y(self, points: &[Line], group: usize) -> Number<S, N> {
        self.get(&points[group * Self::GROUP + N..])
    }

    /// The lanes in which two coordinates are the same residue.
    #[inline(always)]
    pub(super) fn equal_numbers(self, a: &Number<S, N>, b: &Number<S, N>) -> u8 {
        let (field, s) = (self.field, self.field.simd);
        let less = field.below(&Field52::<S, C, L, N>::SPREAD4, b);
        self.zero_number(&field.canonical(&field.settle(vectors!(s, N, i => s.add(a[i], less[i])))))
    }

    /// The lanes in which all limbs are zero.
    #[inline(always)]
    pub(super) fn zero_number(self, number: &Number<S, N>) -> u8 {
        let s = self.field.simd;
        let mut any = number[0];
        for i in 1..N {
            any = s.or(any, number[i]);
        }
        s.equal(any, s.splat(0))
    }
}

/// The additions of a batch without a chord.
struct Exceptional {
    /// For each group the lanes with equal `x`, and of these those with equal `y`.
    lanes: Vec<[u8; 2]>,
    /// The doubles of all points.
    doubles: Lines,
}

/// Replaces the points with equal `x` in `a`.
struct TakeExceptional<'a, S, C, const L: usize, const N: usize> {
    curve: Batch52<S, C, L, N>,
    a: &'a mut [Line],
    b: &'a [Line],
    scratch: &'a mut Scratch,
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Task for TakeExceptional<'_, S, C, L, N> {
    type Output = Exceptional;

    #[inline(always)]
    fn run(self) -> Exceptional {
        let Self { curve, a, b, scratch } = self;
        let s = curve.field.simd;
        let mut doubles = Lines::new(a.to_vec());
        let mut lanes = vec![[0; 2]; a.len() / Batch52::<S, C, L, N>::GROUP];
        for (group, lanes) in lanes.iter_mut().enumerate() {
            let (p_y, q_y) = (curve.y(a, group), curve.y(b, group));
            let identities = curve.zero_number(&p_y) | curve.zero_number(&q_y);
            let equal_x = curve.equal_numbers(&curve.x(a, group), &curve.x(b, group)) & !identities;
            *lanes = [equal_x, equal_x & curve.equal_numbers(&p_y, &q_y)];
            let place = group * Batch52::<S, C, L, N>::GROUP;
            for line in &mut a[place..place + 2 * N] {
                s.store(s.select(equal_x, s.load(line), s.splat(0)), line);
            }
        }
        curve.double_assign(&mut doubles, scratch);
        Exceptional { lanes, doubles }
    }
}

/// Writes their sums: doubles or the identity.
struct PutExceptional<'a, S, C, const L: usize, const N: usize> {
    curve: Batch52<S, C, L, N>,
    a: &'a mut [Line],
    exceptional: Exceptional,
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Task for PutExceptional<'_, S, C, L, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (s, Exceptional { lanes, doubles }) = (self.curve.field.simd, self.exceptional);
        for (group, [equal, double]) in lanes.into_iter().enumerate() {
            for i in group * 2 * N..(group + 1) * 2 * N {
                let sum = s.select(equal, s.load(&self.a[i]), s.splat(0));
                s.store(s.select(double, sum, s.load(&doubles[i])), &mut self.a[i]);
            }
        }
    }
}

/// A number `t` represents `t/R'` on the lanes and `t/R` as an element: `R'²/t` is needed, and
/// inversion gives `R²/t`.
struct InverseFactor<C, const L: usize, const N: usize>(PhantomData<C>);

impl<C: CurveConstants<L>, const L: usize, const N: usize> InverseFactor<C, L, N> {
    const WORDS: [u64; L] = match C::FORM {
        Form::Montgomery { .. } => power_of_two(104 * N as u32 - C::LOG_R, &C::MODULUS),
        Form::PseudoMersenne { .. } => C::ONE,
    };
}

/// See [`Batch52::invert_lanes`]: one line for each word, in place.
fn invert_all<C: CurveConstants<L>, const L: usize, const N: usize>(lanes: &mut [Line; L], public: bool) {
    let elements: [Element<C, L>; LANES] =
        std::array::from_fn(|lane| Element::from_words(&std::array::from_fn(|word| lanes[word].0[lane])));
    let mut prefixes = [Element::<C, L>::ONE; LANES];
    let mut product = Element::ONE;
    for (prefix, element) in prefixes.iter_mut().zip(&elements) {
        *prefix = product;
        product = product * *element;
    }
    let inverse = if public { product.vartime_invert() } else { product.invert() };
    let mut inverse = inverse * Element::from_words(&InverseFactor::<C, L, N>::WORDS);
    for lane in (0..LANES).rev() {
        let words = (inverse * prefixes[lane]).0;
        inverse = inverse * elements[lane];
        for (word, line) in words.iter().zip(lanes.iter_mut()) {
            line.0[lane] = *word;
        }
    }
}
