//! One secret scalar times many points on eight lanes, in Jacobian coordinates.
//!
//! `(X, Y, Z)` represents `(X/Z², Y/Z³)`. Doublings and mixed additions need no inversion, so a
//! group of eight points stays in registers and first-level cache from the first window to the
//! last. The batch has one inversion at the end. A doubling takes 7 products (8 if `a = -3`), an
//! addition 11.
//!
//! **Endomorphism.** If `a = 0`, `(x, y) → (βx, y)` multiplies a point by `λ`. A scalar in two
//! halves `k + λk'` needs half the doublings (Gallant, Lambert, Vanstone, CRYPTO 2001); the second
//! table is the first with other `x`.
//!
//! **Exceptional lanes.** The formulas are wrong if an addition has equal or opposite points: then
//! `H`, and with it `Z`, becomes zero. A lane of the identity starts as `(0, 0)`, and its first
//! doubling makes `Z` zero. `Z` stays zero, because every later operation multiplies `Z`. So one
//! check at the end finds all such lanes. The identity's multiples are the identity; if there are
//! other such lanes, everything is computed again by affine batches. For one scalar and prime order
//! this concerns all lanes or only those of the identity; both cases are public or have a
//! negligible chance (see [`Points::multiply_all`]).
//!
//! **Bounds**, in multiples of `p`, kept by every step: `X, Y < 3.25`, `Z < 2`. Products of factors
//! below `α` and `β` are below `αβ/16 + 1`. Comments behind the lines give the bound reached.
//!
//! [`Points::multiply_all`]: crate::curve::Points::multiply_all

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::batch52::{Batch52, CHAINS};
use super::field::Form;
use super::field52::{Field52, Number, limbs, vectors};
use super::{Coefficient, CurveConstants, Scratch, WINDOW, WINDOW_ENTRIES, split_window};
use tobari_simd::{LANES, Line, Lines};
use tobari_simd::{Simd, Task};

/// A coordinate of `G` groups of eight lanes, processed together so that products do not wait for
/// one another. `G` is even.
type Wide<S, const N: usize, const G: usize> = [Number<S, N>; G];

/// Points of all groups in Jacobian coordinates.
#[derive(Clone, Copy)]
struct Jacobian<S: Simd, const N: usize, const G: usize> {
    x: Wide<S, N, G>,
    y: Wide<S, N, G>,
    z: Wide<S, N, G>,
}

/// Affine points of all groups.
type AffineWide<S, const N: usize, const G: usize> = [Wide<S, N, G>; 2];

/// The odd multiples of all groups.
type Table<S, const N: usize, const G: usize> = [AffineWide<S, N, G>; WINDOW_ENTRIES];

/// A prime's field with operations on all groups at once. Results are written to the caller's
/// memory, because copies of numbers would cost as much as some products.
#[derive(Clone, Copy)]
struct WideField<S, C, const L: usize, const N: usize, const G: usize>(Field52<S, C, L, N>);

/// Intermediate numbers.
struct Registers<S: Simd, const N: usize, const G: usize>([Wide<S, N, G>; 7]);

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize, const G: usize> WideField<S, C, L, N, G> {
    #[inline(always)]
    fn mul(self, a: &Wide<S, N, G>, b: &Wide<S, N, G>, out: &mut Wide<S, N, G>) {
        for (i, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            self.0.mul_pair([&a[2 * i], &a[2 * i + 1]], [&b[2 * i], &b[2 * i + 1]], out);
        }
    }

    #[inline(always)]
    fn mul_assign(self, a: &mut Wide<S, N, G>, b: &Wide<S, N, G>) {
        for (i, a) in a.as_chunks_mut().0.iter_mut().enumerate() {
            self.0.mul_assign(false, a, [&b[2 * i], &b[2 * i + 1]]);
        }
    }

    #[inline(always)]
    fn mul_plus(self, a: &Wide<S, N, G>, b: &Wide<S, N, G>, more: &Wide<S, N, G>, out: &mut Wide<S, N, G>) {
        for (i, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            let [j, k] = [2 * i, 2 * i + 1];
            self.0.mul_plus_pair([&a[j], &a[k]], [&b[j], &b[k]], [&more[j], &more[k]], out);
        }
    }

    #[inline(always)]
    fn square(self, a: &Wide<S, N, G>, out: &mut Wide<S, N, G>) {
        for (i, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            self.0.square_pair([&a[2 * i], &a[2 * i + 1]], out);
        }
    }

    #[inline(always)]
    fn square_plus(self, a: &Wide<S, N, G>, more: &Wide<S, N, G>, out: &mut Wide<S, N, G>) {
        for (i, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            self.0.square_plus_pair([&a[2 * i], &a[2 * i + 1]], [&more[2 * i], &more[2 * i + 1]], out);
        }
    }

    #[inline(always)]
    fn times(self, a: &Wide<S, N, G>, factor: u64, out: &mut Wide<S, N, G>) {
        for g in 0..G {
            out[g] = self.0.times(&a[g], factor);
        }
    }

    #[inline(always)]
    fn times_assign(self, a: &mut Wide<S, N, G>, factor: u64) {
        for g in 0..G {
            a[g] = self.0.times(&a[g], factor);
        }
    }

    /// `8p - factor a` limb by limb.
    #[inline(always)]
    fn less(self, factor: u64, a: &Wide<S, N, G>, out: &mut Wide<S, N, G>) {
        for g in 0..G {
            out[g] = self.0.below(&Field52::<S, C, L, N>::SPREAD8, &self.0.multiple(&a[g], factor));
        }
    }

    /// `a - b + 4p`.
    #[inline(always)]
    fn difference(self, a: &Wide<S, N, G>, b: &Wide<S, N, G>, out: &mut Wide<S, N, G>) {
        for g in 0..G {
            out[g] = self.0.difference(&a[g], &b[g]);
        }
    }

    #[inline(always)]
    fn double(self, p: &mut Jacobian<S, N, G>, registers: &mut Registers<S, N, G>) {
        match C::A {
            Coefficient::MinusThree => self.double_minus_three(p, registers),
            Coefficient::Zero | Coefficient::Small(_) => self.double_any(p, registers),
        }
    }

    /// `E = 3X² + aZ⁴`, `D = 4XY²`: `X' = E² - 2D`, `Y' = E(D - X') - 8Y⁴`, `Z' = 2YZ`. For
    /// pseudo-Mersenne primes, and for p160_1, whose numbers have 47 spare bits: factors below
    /// `16p` and more give products below `2p`.
    #[inline(always)]
    fn double_any(self, p: &mut Jacobian<S, N, G>, Registers(registers): &mut Registers<S, N, G>) {
        let s = self.0.simd;
        let [slope, gamma, twice_x, d, half_rise, less, run] = registers;
        self.square(&p.x, slope);
        self.square(&p.y, gamma);
        self.times_assign(slope, 3); // 6
        self.times_assign(gamma, 2); // 4
        if let Coefficient::Small(a) = C::A {
            self.square(&p.z, less);
            self.square(less, run);
            for g in 0..G {
                let linear = self.0.multiple(&run[g], a);
                slope[g] = self.0.ripple(vectors!(s, N, i => s.add(slope[g][i], linear[i]))); // 26
            }
        }
        self.times(&p.x, 2, twice_x);
        self.mul(twice_x, gamma, d);
        self.square(gamma, half_rise); // 4Y⁴
        self.times_assign(&mut p.y, 2);
        self.less(2, d, less);
        self.mul_assign(&mut p.z, &p.y);
        self.square_plus(slope, less, &mut p.x);
        self.difference(d, &p.x, run);
        self.less(2, half_rise, less);
        self.mul_plus(slope, run, less, &mut p.y);
    }

    /// The same with `E = 3(X - Z²)(X + Z²)` for `a = -3`.
    #[inline(always)]
    fn double_minus_three(self, p: &mut Jacobian<S, N, G>, Registers(registers): &mut Registers<S, N, G>) {
        let s = self.0.simd;
        let [slope, gamma, delta, d, half_rise, less, run] = registers;
        self.square(&p.z, delta); // 1.25
        self.square(&p.y, gamma); // 1.7
        self.difference(&p.x, delta, run);
        for g in 0..G {
            less[g] = self.0.ripple(vectors!(s, N, i => s.add(p.x[g][i], delta[g][i])));
        }
        self.mul(run, less, slope); // 3.1
        self.times(gamma, 4, delta);
        self.times_assign(gamma, 2);
        self.times_assign(slope, 3); // 9.3
        self.mul(&p.x, delta, d); // 2.4
        self.square(gamma, half_rise); // 1.7
        self.times_assign(&mut p.y, 2);
        self.less(2, d, less);
        self.mul_assign(&mut p.z, &p.y); // 1.9
        self.square_plus(slope, less, &mut p.x); // 6.4 + 8 before it settles
        self.difference(d, &p.x, run);
        self.less(2, half_rise, less);
        self.mul_plus(slope, run, less, &mut p.y); // 4.8 + 8 before it settles
    }

    /// `H = x₂Z² - X`, `R = y₂Z³ - Y`: `X' = R² - H³ - 2XH²`, `Y' = R(XH² - X') - YH³`, `Z' = ZH`.
    #[inline(always)]
    fn add_affine(
        self,
        p: &mut Jacobian<S, N, G>,
        [q_x, q_y]: &AffineWide<S, N, G>,
        Registers(registers): &mut Registers<S, N, G>,
    ) {
        let s = self.0.simd;
        let [a, b, h, r, c, d, e] = registers;
        self.square(&p.z, a); // 1.25
        self.mul(&p.z, a, b); // 1.2
        self.mul(q_x, a, c);
        self.mul(q_y, b, d);
        self.difference(c, &p.x, h); // 5.3
        self.difference(d, &p.y, r); // 5.3
        self.square(h, a); // 2.8
        self.mul_assign(&mut p.z, h); // 1.7
        self.mul(h, a, b); // H³: 2
        self.mul(&p.x, a, c); // XH²: 1.6
        self.mul(&p.y, b, e);
        for g in 0..G {
            let both = vectors!(s, N, i => s.add(b[g][i], s.add(c[g][i], c[g][i]))); // 5.2
            d[g] = self.0.below(&Field52::<S, C, L, N>::SPREAD8, &both);
        }
        self.square_plus(r, d, &mut p.x); // 2.8 + 8 before it settles
        self.difference(c, &p.x, h);
        self.less(1, e, d);
        self.mul_plus(r, h, d, &mut p.y);
    }
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    /// See [`CurveKernels::multiply`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn multiply(
        self,
        multiples: &[Line],
        windows: &[u8],
        terms: usize,
        out: &mut [Line],
        scratch: &mut Scratch,
    ) {
        let size = out.len();
        let memory = scratch.lines(4 * size / Self::GROUP * N);
        // measured: the longer products of Montgomery primes are faster with fewer live numbers
        if matches!(C::FORM, Form::PseudoMersenne { .. }) {
            self.multiply_groups::<4>(multiples, windows, terms, size, memory);
        } else {
            self.multiply_groups::<2>(multiples, windows, terms, size, memory);
        }
        if !self.write_affine(memory, &multiples[..size], out) {
            self.field.simd.outline(MultiplyAgain { curve: self, multiples, windows, terms, out, scratch });
        }
    }

    /// `X, Y, Z` of every group, in four numbers each.
    #[inline(always)]
    fn multiply_groups<const G: usize>(
        self,
        multiples: &[Line],
        windows: &[u8],
        terms: usize,
        size: usize,
        memory: &mut [Line],
    ) {
        let groups = size / Self::GROUP;
        for first in (0..groups).step_by(G) {
            let table = self.load_multiples::<G>(multiples, size, first, groups);
            let product = self.run_windows(&table, windows, terms);
            for g in 0..G.min(groups - first) {
                let place = &mut memory[4 * (first + g) * N..];
                self.put(&product.x[g], &mut place[..N]);
                self.put(&product.y[g], &mut place[N..]);
                self.put(&product.z[g], &mut place[2 * N..]);
            }
        }
    }

    /// The odd multiples of `G` groups.
    #[inline(always)]
    fn load_multiples<const G: usize>(
        self,
        multiples: &[Line],
        size: usize,
        first: usize,
        groups: usize,
    ) -> Table<S, N, G> {
        let zero = [[self.field.simd.splat(0); N]; G];
        let mut table = [[zero; 2]; WINDOW_ENTRIES];
        for entry in 0..WINDOW_ENTRIES {
            for g in 0..G.min(groups - first) {
                let batch = &multiples[entry * size..(entry + 1) * size];
                table[entry][0][g] = self.x(batch, first + g);
                table[entry][1][g] = self.y(batch, first + g);
            }
        }
        table
    }

    #[inline(always)]
    fn run_windows<const G: usize>(self, table: &Table<S, N, G>, windows: &[u8], terms: usize) -> Jacobian<S, N, G> {
        let wide = WideField::<S, C, L, N, G>(self.field);
        let zero = [[self.field.simd.splat(0); N]; G];
        let (mut registers, mut chosen) = (Registers([zero; 7]), [zero; 2]);
        let beta = [self.number_of(&self.field.constant(&limbs(&C::BETA))); G];
        let mut images = [zero; WINDOW_ENTRIES];
        if terms == 2 {
            for entry in 0..WINDOW_ENTRIES {
                wide.mul(&table[entry][0], &beta, &mut images[entry]);
            }
        }
        let mut sum = Jacobian { x: zero, y: zero, z: [self.field.one(); G] };
        for (position, &window) in windows.iter().enumerate() {
            let x = if position % terms == 1 { Some(&images) } else { None };
            if position == 0 {
                self.select_multiple(table, x, window, &mut chosen);
                [sum.x, sum.y] = chosen;
                continue;
            }
            if position % terms == 0 {
                for _ in 0..WINDOW {
                    wide.double(&mut sum, &mut registers);
                }
            }
            self.select_multiple(table, x, window, &mut chosen);
            wide.add_affine(&mut sum, &chosen, &mut registers);
        }
        sum
    }

    /// The multiple for a window, below `4p`, with other `x` if they are given. Every entry is
    /// read, and no branch or address depends on the window.
    #[inline(always)]
    fn select_multiple<const G: usize>(
        self,
        table: &Table<S, N, G>,
        images: Option<&[Wide<S, N, G>; WINDOW_ENTRIES]>,
        window: u8,
        out: &mut AffineWide<S, N, G>,
    ) {
        let (field, s) = (self.field, self.field.simd);
        let (index, negative) = split_window(std::hint::black_box(window), WINDOW);
        let wanted = s.splat(u64::from(index));
        let negative = s.equal(s.splat(negative), s.splat(u64::MAX));
        for g in 0..G {
            let [mut x, mut y] = [[s.splat(0); N]; 2];
            for entry in 0..WINDOW_ENTRIES {
                let here = s.equal(wanted, s.splat(entry as u64));
                let candidate = match images {
                    Some(images) => &images[entry][g],
                    None => &table[entry][0][g],
                };
                for i in 0..N {
                    x[i] = s.select(here, x[i], candidate[i]);
                    y[i] = s.select(here, y[i], table[entry][1][g][i]);
                }
            }
            let opposite = field.ripple(field.below(&Field52::<S, C, L, N>::SPREAD4, &y));
            out[0][g] = x;
            out[1][g] = vectors!(s, N, i => s.select(negative, y[i], opposite[i]));
        }
    }

    /// Converts `X, Y, Z` of every group in `memory` to affine points; false if a `Z` is zero and
    /// the input point is not the identity.
    #[inline(always)]
    fn write_affine(self, memory: &mut [Line], points: &[Line], out: &mut [Line]) -> bool {
        let (field, s) = (self.field, self.field.simd);
        let groups = out.len() / Self::GROUP;
        let mut products = [field.one(); CHAINS];
        for group in 0..groups {
            let place = &mut memory[4 * group * N..4 * (group + 1) * N];
            let mut z = field.canonical(&self.get(&place[2 * N..]));
            let (zero, identity) = (self.zero_number(&z), self.zero_number(&self.y(points, group)));
            if zero & !identity != 0 {
                return false;
            }
            let one = field.one();
            z = vectors!(s, N, i => s.select(identity, z[i], one[i]));
            self.put(&z, &mut place[2 * N..]);
            self.put(&products[group % CHAINS], &mut place[3 * N..]);
            products[group % CHAINS] = field.mul(&products[group % CHAINS], &z);
        }
        let Some(mut inverses) = self.invert_chains(&products, false) else { return false };
        for group in (0..groups).rev() {
            let place = &memory[4 * group * N..4 * (group + 1) * N];
            let inverse = field.mul(&inverses[group % CHAINS], &self.get(&place[3 * N..]));
            inverses[group % CHAINS] = field.mul(&inverses[group % CHAINS], &self.get(&place[2 * N..]));
            let square = field.square(&inverse);
            let identity = self.zero_number(&self.y(points, group));
            let factors = [square, field.mul(&square, &inverse)];
            for coordinate in 0..2 {
                let affine = field.mul(&self.get(&place[coordinate * N..]), &factors[coordinate]);
                let kept = vectors!(s, N, i => s.select(identity, affine[i], s.splat(0)));
                self.put(&kept, &mut out[group * Self::GROUP + coordinate * N..]);
            }
        }
        true
    }
}

/// The same by affine batches, which are complete.
struct MultiplyAgain<'a, S, C, const L: usize, const N: usize> {
    curve: Batch52<S, C, L, N>,
    multiples: &'a [Line],
    windows: &'a [u8],
    terms: usize,
    out: &'a mut [Line],
    scratch: &'a mut Scratch,
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Task for MultiplyAgain<'_, S, C, L, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { curve, multiples, windows, terms, out, scratch } = self;
        let field = curve.field;
        let beta = curve.number_of(&field.constant(&limbs(&C::BETA)));
        out.fill(Line::ZERO);
        for (position, &window) in windows.iter().enumerate() {
            if position % terms == 0 {
                for _ in 0..WINDOW {
                    curve.double_assign(out, scratch);
                }
            }
            let (index, negative) = split_window(window, WINDOW);
            let mut addend = Lines::new(multiples[usize::from(index) * out.len()..][..out.len()].to_vec());
            if position % terms == 1 {
                for group in addend.chunks_exact_mut(2 * N) {
                    let x = field.mul(&curve.get(group), &beta);
                    curve.put(&x, group);
                }
            }
            curve.negate_masked(&mut addend, &vec![Line([negative; LANES]); out.len() / (2 * N)]);
            curve.add_assign(out, &addend, scratch);
        }
    }
}
