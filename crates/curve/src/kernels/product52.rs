//! Products in the fields of [`super::field52`]: columns of halves, folded or cleared, with one
//! carry ripple at the end.
//!
//! A single product waits for its own carries, so two products are computed in step if their
//! columns fit the registers.

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::field::{Form, Prime};
use super::field52::{Field52, LIMB, MASK, Number, each_limb, vectors};
use tobari_simd::{Simd, Task};

/// The most limbs with which two products are computed in step.
pub(super) const PAIRED: usize = 5;
/// At least as many columns as any product has.
const COLUMNS: usize = 17;

/// The columns of `G` products.
type Columns<S, const G: usize> = [[<S as Simd>::V; COLUMNS]; G];

/// `G` independent products for a separate function: inlining at hundreds of places would fill the
/// instruction cache. Squares of `a` if `SQUARE`; `more` is added to the products if `PLUS`.
struct Products<'a, S: Simd, P, const L: usize, const N: usize, const G: usize, const SQUARE: bool, const PLUS: bool> {
    field: Field52<S, P, L, N>,
    a: [&'a Number<S, N>; G],
    b: [&'a Number<S, N>; G],
    more: [&'a Number<S, N>; G],
    out: [&'a mut Number<S, N>; G],
}

impl<S: Simd, P: Prime<L>, const L: usize, const N: usize, const G: usize, const SQUARE: bool, const PLUS: bool> Task
    for Products<'_, S, P, L, N, G, SQUARE, PLUS>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let more = if PLUS { Some(self.more) } else { None };
        let products = self.field.multiply::<G, SQUARE>(self.a, self.b, more);
        for (out, product) in self.out.into_iter().zip(products) {
            *out = product;
        }
    }
}

/// Two products in the place of their first factors.
struct ProductsAssign<'a, S: Simd, P, const L: usize, const N: usize> {
    field: Field52<S, P, L, N>,
    a: &'a mut [Number<S, N>; 2],
    b: [&'a Number<S, N>; 2],
}

impl<S: Simd, P: Prime<L>, const L: usize, const N: usize> Task for ProductsAssign<'_, S, P, L, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if N <= PAIRED {
            *self.a = self.field.multiply::<2, false>([&self.a[0], &self.a[1]], self.b, None);
        } else {
            for g in 0..2 {
                let [product] = self.field.multiply::<1, false>([&self.a[g]], [self.b[g]], None);
                self.a[g] = product;
            }
        }
    }
}

impl<S: Simd, P: Prime<L>, const L: usize, const N: usize> Field52<S, P, L, N> {
    #[inline(always)]
    fn products<const G: usize, const SQUARE: bool, const PLUS: bool>(
        &self,
        a: [&Number<S, N>; G],
        b: [&Number<S, N>; G],
        more: [&Number<S, N>; G],
    ) -> [Number<S, N>; G] {
        let mut products = [[self.simd.splat(0); N]; G];
        let out = products.each_mut();
        self.simd.outline(Products::<S, P, L, N, G, SQUARE, PLUS> { field: *self, a, b, more, out });
        products
    }

    /// Two at once if their columns fit the registers, because one alone waits for its own carries.
    /// Inlined if `hot`, else in a separate function.
    #[inline(always)]
    fn pair<const SQUARE: bool, const PLUS: bool>(
        &self,
        hot: bool,
        a: [&Number<S, N>; 2],
        b: [&Number<S, N>; 2],
        more: [&Number<S, N>; 2],
        out: &mut [Number<S, N>; 2],
    ) {
        let field = *self;
        if N <= PAIRED {
            let out = out.each_mut();
            let task = Products::<S, P, L, N, 2, SQUARE, PLUS> { field, a, b, more, out };
            if hot { self.simd.inline(task) } else { self.simd.outline(task) }
        } else {
            for g in 0..2 {
                let (a, b, more, out) = ([a[g]], [b[g]], [more[g]], [&mut out[g]]);
                let task = Products::<S, P, L, N, 1, SQUARE, PLUS> { field, a, b, more, out };
                if hot { self.simd.inline(task) } else { self.simd.outline(task) }
            }
        }
    }

    /// Two independent products.
    #[inline(always)]
    pub(super) fn mul_to(&self, hot: bool, a: [&Number<S, N>; 2], b: [&Number<S, N>; 2], out: &mut [Number<S, N>; 2]) {
        self.pair::<false, false>(hot, a, b, a, out);
    }

    /// Two independent products, in place.
    #[inline(always)]
    pub(super) fn mul_assign(&self, hot: bool, a: &mut [Number<S, N>; 2], b: [&Number<S, N>; 2]) {
        let task = ProductsAssign { field: *self, a, b };
        if hot { self.simd.inline(task) } else { self.simd.outline(task) }
    }

    /// Two of [`Field52::mul_plus`].
    #[inline(always)]
    pub(super) fn mul_plus_to(
        &self,
        hot: bool,
        a: [&Number<S, N>; 2],
        b: [&Number<S, N>; 2],
        more: [&Number<S, N>; 2],
        out: &mut [Number<S, N>; 2],
    ) {
        self.pair::<false, true>(hot, a, b, more, out);
    }

    /// Two of [`Field52::square_plus`].
    #[inline(always)]
    pub(super) fn square_plus_to(
        &self,
        hot: bool,
        a: [&Number<S, N>; 2],
        more: [&Number<S, N>; 2],
        out: &mut [Number<S, N>; 2],
    ) {
        self.pair::<true, true>(hot, a, a, more, out);
    }

    /// `a b` (Montgomery: `a b / R'`), below `2p` under the bounds of the module head; normalised.
    #[inline(always)]
    pub(super) fn mul(&self, a: &Number<S, N>, b: &Number<S, N>) -> Number<S, N> {
        let [product] = self.products::<1, false, false>([a], [b], [a]);
        product
    }

    /// `a²` under the bounds of [`Field52::mul`], with a third fewer multiplications.
    #[inline(always)]
    pub(super) fn square(&self, a: &Number<S, N>) -> Number<S, N> {
        let [square] = self.products::<1, true, false>([a], [a], [a]);
        square
    }

    /// `a b + more` as a coordinate, with one carry ripple for both; `more` comes from
    /// [`Field52::below`], and its value is positive and at most `13p`.
    #[inline(always)]
    pub(super) fn mul_plus(&self, a: &Number<S, N>, b: &Number<S, N>, more: &Number<S, N>) -> Number<S, N> {
        let [sum] = self.products::<1, false, true>([a], [b], [more]);
        sum
    }

    /// `a² + more`, as [`Field52::mul_plus`].
    #[inline(always)]
    pub(super) fn square_plus(&self, a: &Number<S, N>, more: &Number<S, N>) -> Number<S, N> {
        let [sum] = self.products::<1, true, true>([a], [a], [more]);
        sum
    }

    /// [`Field52::mul_to`] in a separate function.
    #[inline(always)]
    pub(super) fn mul_pair(&self, a: [&Number<S, N>; 2], b: [&Number<S, N>; 2], out: &mut [Number<S, N>; 2]) {
        self.pair::<false, false>(false, a, b, a, out);
    }

    /// Two independent squares.
    #[inline(always)]
    pub(super) fn square_pair(&self, a: [&Number<S, N>; 2], out: &mut [Number<S, N>; 2]) {
        self.pair::<true, false>(false, a, a, a, out);
    }

    /// [`Field52::mul_plus_to`] in a separate function.
    #[inline(always)]
    pub(super) fn mul_plus_pair(
        &self,
        a: [&Number<S, N>; 2],
        b: [&Number<S, N>; 2],
        more: [&Number<S, N>; 2],
        out: &mut [Number<S, N>; 2],
    ) {
        self.pair::<false, true>(false, a, b, more, out);
    }

    /// [`Field52::square_plus_to`] in a separate function.
    #[inline(always)]
    pub(super) fn square_plus_pair(
        &self,
        a: [&Number<S, N>; 2],
        more: [&Number<S, N>; 2],
        out: &mut [Number<S, N>; 2],
    ) {
        self.pair::<true, true>(false, a, a, more, out);
    }

    /// The products, or the squares of `a`.
    #[inline(always)]
    fn multiply<const G: usize, const SQUARE: bool>(
        &self,
        a: [&Number<S, N>; G],
        b: [&Number<S, N>; G],
        more: Option<[&Number<S, N>; G]>,
    ) -> [Number<S, N>; G] {
        match P::FORM {
            Form::Montgomery { .. } => {
                let upper =
                    if SQUARE { self.reduce_columns(self.square_columns(a)) } else { self.montgomery_products(a, b) };
                self.finish(upper, more)
            }
            Form::PseudoMersenne { fold } => {
                let columns = if SQUARE { self.square_columns(a) } else { self.product_columns(a, b) };
                self.fold_columns(columns, fold, more)
            }
        }
    }

    #[inline(always)]
    fn product_columns<const G: usize>(&self, a: [&Number<S, N>; G], b: [&Number<S, N>; G]) -> Columns<S, G> {
        let s = self.simd;
        let mut columns = [[s.splat(0); COLUMNS]; G];
        for i in 0..N {
            for j in 0..N {
                for g in 0..G {
                    columns[g][i + j] = s.multiply_add_low(columns[g][i + j], a[g][j], b[g][i]);
                    columns[g][i + j + 1] = s.multiply_add_high(columns[g][i + j + 1], a[g][j], b[g][i]);
                }
            }
        }
        columns
    }

    /// The products of different limbs once, doubled, and the squares.
    #[inline(always)]
    fn square_columns<const G: usize>(&self, a: [&Number<S, N>; G]) -> Columns<S, G> {
        let s = self.simd;
        let mut columns = [[s.splat(0); COLUMNS]; G];
        each_limb!(i < N => {
            for j in i + 1..N {
                for g in 0..G {
                    columns[g][i + j] = s.multiply_add_low(columns[g][i + j], a[g][j], a[g][i]);
                    columns[g][i + j + 1] = s.multiply_add_high(columns[g][i + j + 1], a[g][j], a[g][i]);
                }
            }
        });
        for k in 1..2 * N {
            for g in 0..G {
                columns[g][k] = s.add(columns[g][k], columns[g][k]);
            }
        }
        for i in 0..N {
            for g in 0..G {
                columns[g][2 * i] = s.multiply_add_low(columns[g][2 * i], a[g][i], a[g][i]);
                columns[g][2 * i + 1] = s.multiply_add_high(columns[g][2 * i + 1], a[g][i], a[g][i]);
            }
        }
        columns
    }

    #[inline(always)]
    fn fold_columns<const G: usize>(
        &self,
        mut columns: Columns<S, G>,
        fold: u64,
        more: Option<[&Number<S, N>; G]>,
    ) -> [Number<S, N>; G] {
        let s = self.simd;
        let mask = s.splat(MASK);
        for k in N..2 * N - 1 {
            for g in 0..G {
                columns[g][k + 1] = s.add(columns[g][k + 1], s.shr(columns[g][k], LIMB));
                columns[g][k] = s.and(columns[g][k], mask);
            }
        }
        let mut low = [[s.splat(0); COLUMNS]; G];
        for g in 0..G {
            low[g][..N].copy_from_slice(&columns[g][..N]);
        }
        for k in 0..N {
            for j in 0..N {
                if Self::R[j] != 0 {
                    let factor = s.splat(Self::R[j]);
                    for g in 0..G {
                        low[g][k + j] = s.multiply_add_low(low[g][k + j], columns[g][N + k], factor);
                        low[g][k + j + 1] = s.multiply_add_high(low[g][k + j + 1], columns[g][N + k], factor);
                    }
                }
            }
        }
        let mut numbers = [[s.splat(0); N]; G];
        for g in 0..G {
            numbers[g] = vectors!(s, N, i => match more {
                Some(more) => s.add(low[g][i], more[g][i]),
                None => low[g][i],
            });
            numbers[g] = self.lift_carry(numbers[g]);
            // the part above 2^B
            let above = s.shr(numbers[g][N - 1], Self::TOP_BITS);
            let above = s.add(above, s.shl(low[g][N], LIMB - Self::TOP_BITS));
            numbers[g][N - 1] = s.and(numbers[g][N - 1], s.splat((1 << Self::TOP_BITS) - 1));
            numbers[g][0] = s.multiply_add_low(numbers[g][0], above, s.splat(fold));
            numbers[g][1] = s.multiply_add_high(numbers[g][1], above, s.splat(fold));
        }
        self.ripple_all(numbers)
    }

    #[inline(always)]
    fn ripple_all<const G: usize>(&self, mut numbers: [Number<S, N>; G]) -> [Number<S, N>; G] {
        let s = self.simd;
        let mask = s.splat(MASK);
        for i in 0..N - 1 {
            for g in 0..G {
                numbers[g][i + 1] = s.add(numbers[g][i + 1], s.sar(numbers[g][i], LIMB));
                numbers[g][i] = s.and(numbers[g][i], mask);
            }
        }
        numbers
    }

    /// Montgomery products from their upper columns.
    #[inline(always)]
    fn finish<const G: usize>(
        &self,
        mut upper: [Number<S, N>; G],
        more: Option<[&Number<S, N>; G]>,
    ) -> [Number<S, N>; G] {
        let s = self.simd;
        let Some(more) = more else { return self.ripple_all(upper) };
        for g in 0..G {
            upper[g] = self.fold_top(vectors!(s, N, i => s.add(upper[g][i], more[g][i])));
        }
        self.ripple_all(upper)
    }

    #[inline(always)]
    fn montgomery_products<const G: usize>(&self, a: [&Number<S, N>; G], b: [&Number<S, N>; G]) -> [Number<S, N>; G] {
        let s = self.simd;
        let mut columns = [[s.splat(0); COLUMNS]; G];
        each_limb!(i < N => {
            for j in 0..N {
                for g in 0..G {
                    columns[g][i + j] = s.multiply_add_low(columns[g][i + j], a[g][j], b[g][i]);
                    columns[g][i + j + 1] = s.multiply_add_high(columns[g][i + j + 1], a[g][j], b[g][i]);
                }
            }
            self.clear_column(&mut columns, i);
        });
        self.upper(&columns)
    }

    #[inline(always)]
    fn reduce_columns<const G: usize>(&self, mut columns: Columns<S, G>) -> [Number<S, N>; G] {
        each_limb!(i < N => {
            self.clear_column(&mut columns, i);
        });
        self.upper(&columns)
    }

    #[inline(always)]
    fn upper<const G: usize>(&self, columns: &Columns<S, G>) -> [Number<S, N>; G] {
        let mut upper = [[self.simd.splat(0); N]; G];
        for g in 0..G {
            upper[g].copy_from_slice(&columns[g][N..2 * N]);
        }
        upper
    }

    /// Adds the multiple of `p` that makes column `i` a multiple of `2^52`, and carries the column
    /// away.
    #[inline(always)]
    fn clear_column<const G: usize>(&self, columns: &mut Columns<S, G>, i: usize) {
        let s = self.simd;
        let mut m = [s.splat(0); G];
        for g in 0..G {
            m[g] = match Self::NEGATED_INVERSE {
                1 => s.and(columns[g][i], s.splat(MASK)),
                MASK => s.and(s.sub(s.splat(0), columns[g][i]), s.splat(MASK)),
                inverse => s.multiply_add_low(s.splat(0), columns[g][i], s.splat(inverse)),
            };
        }
        for j in 0..N {
            for g in 0..G {
                let columns = &mut columns[g];
                match Self::P1[j] {
                    0 => {}
                    // p = -1 or 1 mod 2^52: m p_0 clears the column without a multiplication
                    MASK if j == 0 => columns[i + 1] = s.add(columns[i + 1], m[g]),
                    1 if j == 0 => columns[i] = s.add(columns[i], m[g]),
                    p_j => {
                        columns[i + j] = s.multiply_add_low(columns[i + j], m[g], s.splat(p_j));
                        columns[i + j + 1] = s.multiply_add_high(columns[i + j + 1], m[g], s.splat(p_j));
                    }
                }
            }
        }
        for g in 0..G {
            columns[g][i + 1] = s.add(columns[g][i + 1], s.shr(columns[g][i], LIMB));
        }
    }
}
