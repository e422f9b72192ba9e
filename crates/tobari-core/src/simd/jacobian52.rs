//! One secret scalar times many points on eight lanes, in Jacobian coordinates.
//!
//! `(X, Y, Z)` stands for `(X/Z², Y/Z³)`. Doublings and mixed additions need no inversion, so a group of eight points stays
//! in registers and first-level cache from the first window to the last; the batch meets in one inversion at the end.
//! A doubling is 7 products (8 where `a = -3`), an addition 11.
//!
//! **Exceptional lanes.** The formulas are wrong where an addition meets the same or the opposite point: there `H`, and with
//! it `Z`, becomes zero. A lane of the identity starts as `(0, 0)`, whose first doubling makes `Z` zero. And `Z` stays
//! zero: whatever the lane does afterwards multiplies `Z`. So one look at the
//! end finds every such lane, and the portable backend does it again. For one scalar and prime order it is all lanes or only
//! those whose point is the identity, both public or of negligible chance (see [`Points::multiply_all`]).
//!
//! **Bounds**, in multiples of `p`, kept by every step: `X, Y < 8` and `Z < 2` for pseudo-Mersenne primes, whose products are
//! below 2 for any factors below 16; `X, Y < 4` and `Z < 2` for the others, whose products of factors below `α` and `β` are
//! below `αβ/16 + 1`. Comments behind the lines give the bound reached.
//!
//! [`Points::multiply_all`]: crate::curve::Points::multiply_all

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::batch52::{Batch52, CHAINS, MAX_WORDS, aligned, note_skipped, times_small};
use super::codec52::Factors;
use super::field::Form;
use super::field52::{Field52, Number, vectors};
use super::lanes::{Simd, Task};
use super::portable::Portable;
use super::{Coefficient, CurveConstants, WINDOW, WINDOW_ENTRIES, split_window};

/// Groups of eight lanes that are worked on together, so that products do not wait for one another.
const GROUPS: usize = 2;

/// A coordinate of all groups.
type Wide<S, const N: usize> = [Number<S, N>; GROUPS];

/// Points of all groups in Jacobian coordinates.
#[derive(Clone, Copy)]
struct Jacobian<S: Simd, const N: usize> {
    x: Wide<S, N>,
    y: Wide<S, N>,
    z: Wide<S, N>,
}

/// Affine points of all groups.
type AffineWide<S, const N: usize> = [Wide<S, N>; 2];

/// A product on its way into a function of its own.
struct Product<'a, S: Simd, C, const L: usize, const N: usize> {
    field: Field52<S, C, L, N>,
    a: &'a Wide<S, N>,
    b: &'a Wide<S, N>,
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Task for Product<'_, S, C, L, N> {
    type Output = Wide<S, N>;

    #[inline(always)]
    fn run(self) -> Wide<S, N> {
        let mut out = [[self.field.simd.splat(0); N]; GROUPS];
        for g in 0..GROUPS {
            out[g] = self.field.mul(&self.a[g], &self.b[g]);
        }
        out
    }
}

/// A square on its way into a function of its own.
struct Square<'a, S: Simd, C, const L: usize, const N: usize> {
    field: Field52<S, C, L, N>,
    a: &'a Wide<S, N>,
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Task for Square<'_, S, C, L, N> {
    type Output = Wide<S, N>;

    #[inline(always)]
    fn run(self) -> Wide<S, N> {
        let mut out = [[self.field.simd.splat(0); N]; GROUPS];
        for g in 0..GROUPS {
            out[g] = self.field.square(&self.a[g]);
        }
        out
    }
}

/// A prime's field with operations on all groups at once.
#[derive(Clone, Copy)]
struct WideField<S, C, const L: usize, const N: usize>(Field52<S, C, L, N>);

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> WideField<S, C, L, N> {
    #[inline(always)]
    fn mul(self, a: &Wide<S, N>, b: &Wide<S, N>) -> Wide<S, N> {
        match C::FORM {
            Form::Montgomery => {
                let mut out = [[self.0.simd.splat(0); N]; GROUPS];
                for g in 0..GROUPS {
                    out[g] = self.0.mul(&a[g], &b[g]);
                }
                out
            }
            Form::PseudoMersenne { .. } => self.0.simd.outline(Product { field: self.0, a, b }),
        }
    }

    #[inline(always)]
    fn square(self, a: &Wide<S, N>) -> Wide<S, N> {
        match C::FORM {
            Form::Montgomery => {
                let mut out = [[self.0.simd.splat(0); N]; GROUPS];
                for g in 0..GROUPS {
                    out[g] = self.0.square(&a[g]);
                }
                out
            }
            Form::PseudoMersenne { .. } => self.0.simd.outline(Square { field: self.0, a }),
        }
    }

    /// `factor a`, normalised, for a small factor.
    #[inline(always)]
    fn times(self, a: &Wide<S, N>, factor: u32) -> Wide<S, N> {
        let s = self.0.simd;
        let mut out = [[s.splat(0); N]; GROUPS];
        for g in 0..GROUPS {
            let multiple = vectors!(s, N, i => match factor {
                2 => s.shl(a[g][i], 1),
                4 => s.shl(a[g][i], 2),
                _ => s.add(s.shl(a[g][i], 1), a[g][i]),
            });
            out[g] = self.0.ripple(multiple);
        }
        out
    }

    #[inline(always)]
    fn add(self, a: &Wide<S, N>, b: &Wide<S, N>) -> Wide<S, N> {
        let s = self.0.simd;
        let mut out = [[s.splat(0); N]; GROUPS];
        for g in 0..GROUPS {
            out[g] = self.0.ripple(vectors!(s, N, i => s.add(a[g][i], b[g][i])));
        }
        out
    }

    /// `a - b + multiple`, where `multiple` of `p` is not below `b`.
    #[inline(always)]
    fn sub(self, a: &Wide<S, N>, b: &Wide<S, N>, multiple: &[u64; N]) -> Wide<S, N> {
        let mut out = [[self.0.simd.splat(0); N]; GROUPS];
        for g in 0..GROUPS {
            out[g] = self.0.sub(&a[g], &b[g], multiple);
        }
        out
    }

    /// `a - multiple` where that is not negative, for Montgomery primes; the others have no need of it.
    #[inline(always)]
    fn reduce(self, a: &Wide<S, N>, multiple: &[u64; N]) -> Wide<S, N> {
        let mut out = *a;
        if matches!(C::FORM, Form::Montgomery) {
            for g in 0..GROUPS {
                out[g] = self.0.reduce_once(&a[g], multiple);
            }
        }
        out
    }

    /// Not below `X` or `Y`.
    const ABOVE: [u64; N] = match C::FORM {
        Form::Montgomery => Field52::<S, C, L, N>::P4,
        Form::PseudoMersenne { .. } => Field52::<S, C, L, N>::P8,
    };

    #[inline(always)]
    fn double(self, p: &Jacobian<S, N>) -> Jacobian<S, N> {
        match C::A {
            Coefficient::MinusThree => self.double_minus_three(p),
            Coefficient::Zero | Coefficient::Small(_) => self.double_any(p),
        }
    }

    /// `E = 3X² + aZ⁴`, `D = 4XY²`: `X' = E² - 2D`, `Y' = E(D - X') - 8Y⁴`, `Z' = 2YZ`.
    #[inline(always)]
    fn double_any(self, p: &Jacobian<S, N>) -> Jacobian<S, N> {
        let mut slope = self.times(&self.square(&p.x), 3); // 6
        if let Coefficient::Small(a) = C::A {
            // p160_1 only, whose numbers have 47 spare bits
            let s = self.0.simd;
            let square = self.square(&p.z);
            let fourth = self.square(&square);
            for g in 0..GROUPS {
                let linear = vectors!(s, N, i => times_small(s, fourth[g][i], a));
                slope[g] = self.0.ripple(vectors!(s, N, i => s.add(slope[g][i], linear[i])));
            }
        }
        let twice_square = self.times(&self.square(&p.y), 2); // 4
        let d = self.mul(&self.times(&p.x, 2), &twice_square);
        let half_rise = self.square(&twice_square); // 4Y⁴
        let x = self.sub(&self.square(&slope), &self.times(&d, 2), &Field52::<S, C, L, N>::P4); // 6
        let rise = self.mul(&slope, &self.sub(&d, &x, &Field52::<S, C, L, N>::P8));
        let y = self.sub(&rise, &self.times(&half_rise, 2), &Field52::<S, C, L, N>::P4); // 6
        let (x, y) = match C::A {
            // a Montgomery prime: back below 4
            Coefficient::Small(_) => {
                (self.reduce(&x, &Field52::<S, C, L, N>::P4), self.reduce(&y, &Field52::<S, C, L, N>::P4))
            }
            _ => (x, y),
        };
        Jacobian { x, y, z: self.mul(&self.times(&p.y, 2), &p.z) }
    }

    /// The same with `E = 3(X - Z²)(X + Z²)` for `a = -3`.
    #[inline(always)]
    fn double_minus_three(self, p: &Jacobian<S, N>) -> Jacobian<S, N> {
        let (delta, gamma) = (self.square(&p.z), self.square(&p.y)); // 1.25, 2
        let d = self.mul(&p.x, &self.times(&gamma, 4)); // 3
        let product = self.mul(&self.sub(&p.x, &delta, &Field52::<S, C, L, N>::P2), &self.add(&p.x, &delta)); // 3
        let slope = self.times(&self.reduce(&product, &Field52::<S, C, L, N>::P2), 3); // 6
        let x = self.sub(&self.square(&slope), &self.times(&d, 2), &Field52::<S, C, L, N>::P6); // 9.25
        let x = self.reduce(&self.reduce(&x, &Field52::<S, C, L, N>::P4), &Field52::<S, C, L, N>::P4); // 4
        let twice_gamma = self.times(&gamma, 2);
        let half_rise = self.square(&twice_gamma); // 2
        let rise = self.mul(&slope, &self.sub(&d, &x, &Field52::<S, C, L, N>::P4)); // 3.7
        let y = self.sub(&rise, &self.times(&half_rise, 2), &Field52::<S, C, L, N>::P4); // 7.7
        let y = self.reduce(&y, &Field52::<S, C, L, N>::P4); // 4
        Jacobian { x, y, z: self.mul(&self.times(&p.y, 2), &p.z) } // Z: 2
    }

    /// `H = x₂Z² - X`, `R = y₂Z³ - Y`: `X' = R² - H³ - 2XH²`, `Y' = R(XH² - X') - YH³`, `Z' = ZH`.
    #[inline(always)]
    fn add_affine(self, p: &Jacobian<S, N>, q: &AffineWide<S, N>) -> Jacobian<S, N> {
        let square = self.square(&p.z);
        let cube = self.mul(&p.z, &square);
        let h = self.sub(&self.mul(&q[0], &square), &p.x, &Self::ABOVE); // 6 or 10
        let r = self.sub(&self.mul(&q[1], &cube), &p.y, &Self::ABOVE); // 6 or 10
        let h_square = self.square(&h); // 3.25
        let h_cube = self.mul(&h, &h_square); // 2.25
        let v = self.mul(&p.x, &h_square); // 1.9
        let less = self.add(&h_cube, &self.times(&v, 2)); // 6
        let x = self.sub(&self.square(&r), &less, &Field52::<S, C, L, N>::P6); // 9.25 or 8
        let x = self.reduce(&self.reduce(&x, &Field52::<S, C, L, N>::P4), &Field52::<S, C, L, N>::P4);
        let rise = self.mul(&r, &self.sub(&v, &x, &Self::ABOVE)); // 3.25
        let y = self.sub(&rise, &self.mul(&p.y, &h_cube), &Field52::<S, C, L, N>::P2); // 5.25 or 4
        Jacobian { x, y: self.reduce(&y, &Field52::<S, C, L, N>::P4), z: self.mul(&p.z, &h) }
    }
}

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    /// See [`CurveKernels::multiply`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn multiply(self, multiples: &[u64], windows: &[u8], out: &mut [u64], scratch: &mut Vec<u64>) {
        let batch = out.len();
        let groups = batch.div_ceil(Self::GROUP);
        let memory = aligned(scratch, 4 * groups * Self::NUMBER);
        for first in (0..groups).step_by(GROUPS) {
            let table = self.load_multiples(multiples, batch, first, groups);
            let product = self.run_windows(&table, windows);
            for g in 0..GROUPS.min(groups - first) {
                let place = &mut memory[4 * (first + g) * Self::NUMBER..];
                self.put(&product.x[g], &mut place[..Self::NUMBER]);
                self.put(&product.y[g], &mut place[Self::NUMBER..2 * Self::NUMBER]);
                self.put(&product.z[g], &mut place[2 * Self::NUMBER..3 * Self::NUMBER]);
            }
        }
        let redo = self.to_affine(memory, out);
        if !redo.is_empty() {
            Self::multiply_again(&redo, multiples, windows, out, scratch);
        }
    }

    /// The odd multiples of two groups as numbers.
    #[inline(always)]
    fn load_multiples(
        self,
        multiples: &[u64],
        batch: usize,
        first: usize,
        groups: usize,
    ) -> [AffineWide<S, N>; WINDOW_ENTRIES] {
        let field = self.field;
        let into = field.constant(&Factors::<C, L, N>::FROM_BOUNDARY);
        let zero = [[field.simd.splat(0); N]; GROUPS];
        let mut table = [[zero; 2]; WINDOW_ENTRIES];
        for entry in 0..WINDOW_ENTRIES {
            for g in 0..GROUPS.min(groups - first) {
                let words = self.read(&multiples[entry * batch..(entry + 1) * batch], first + g);
                for coordinate in 0..2 {
                    let number = field.read(&words[coordinate * L..(coordinate + 1) * L]);
                    table[entry][coordinate][g] = match C::FORM {
                        Form::Montgomery => field.mul(&number, &into),
                        Form::PseudoMersenne { .. } => number,
                    };
                }
            }
        }
        table
    }

    #[inline(always)]
    fn run_windows(self, table: &[AffineWide<S, N>; WINDOW_ENTRIES], windows: &[u8]) -> Jacobian<S, N> {
        let wide = WideField(self.field);
        let [x, y] = self.select_multiple(table, windows[0]);
        let mut sum = Jacobian { x, y, z: [self.field.one(); GROUPS] };
        for &window in &windows[1..] {
            for _ in 0..WINDOW {
                sum = wide.double(&sum);
            }
            sum = wide.add_affine(&sum, &self.select_multiple(table, window));
        }
        sum
    }

    /// The multiple that a window asks for, below `2p`: every entry is read, and neither a branch nor an address depends on
    /// the window.
    #[inline(always)]
    fn select_multiple(self, table: &[AffineWide<S, N>; WINDOW_ENTRIES], window: u8) -> AffineWide<S, N> {
        let (field, s) = (self.field, self.field.simd);
        let (index, negative) = split_window(std::hint::black_box(window), WINDOW);
        let wanted = s.splat(u64::from(index));
        let mut found = table[0];
        for entry in 1..WINDOW_ENTRIES {
            let here = s.equal(wanted, s.splat(entry as u64));
            for coordinate in 0..2 {
                for g in 0..GROUPS {
                    for i in 0..N {
                        let candidate = table[entry][coordinate][g][i];
                        found[coordinate][g][i] = s.select(here, found[coordinate][g][i], candidate);
                    }
                }
            }
        }
        let negative = s.equal(s.splat(negative), s.splat(u64::MAX));
        for g in 0..GROUPS {
            let opposite = field.sub(&[s.splat(0); N], &found[1][g], &Field52::<S, C, L, N>::P2);
            found[1][g] = vectors!(s, N, i => s.select(negative, found[1][g][i], opposite[i]));
        }
        found
    }

    /// Brings `X, Y, Z` of every group in `memory` to affine points; the places of those with `Z = 0`.
    #[inline(always)]
    fn to_affine(self, memory: &mut [u64], out: &mut [u64]) -> Vec<usize> {
        let (field, s) = (self.field, self.field.simd);
        let (count, groups) = (out.len() / Self::STRIDE, out.len().div_ceil(Self::GROUP));
        let mut redo = Vec::new();
        let mut products = [field.one(); CHAINS];
        for group in 0..groups {
            let place = &mut memory[4 * group * Self::NUMBER..4 * (group + 1) * Self::NUMBER];
            let mut z = field.canonical(&self.get(&place[2 * Self::NUMBER..3 * Self::NUMBER]));
            let zero = self.zero_number(&z);
            if zero != 0 {
                note_skipped(&mut redo, group, zero, count);
                let one = field.one();
                z = vectors!(s, N, i => s.select(zero, z[i], one[i]));
            }
            self.put(&z, &mut place[2 * Self::NUMBER..3 * Self::NUMBER]);
            self.put(&products[group % CHAINS], &mut place[3 * Self::NUMBER..]);
            products[group % CHAINS] = field.mul(&products[group % CHAINS], &z);
        }
        let mut inverses = self.invert_chains(&products, 0);
        let boundary = field.constant(&Factors::<C, L, N>::BOUNDARY);
        for group in (0..groups).rev() {
            let place = &memory[4 * group * Self::NUMBER..4 * (group + 1) * Self::NUMBER];
            let inverse = field.mul(&inverses[group % CHAINS], &self.get(&place[3 * Self::NUMBER..]));
            let z = self.get(&place[2 * Self::NUMBER..3 * Self::NUMBER]);
            inverses[group % CHAINS] = field.mul(&inverses[group % CHAINS], &z);
            let square = field.square(&inverse);
            let mut words = [s.splat(0); MAX_WORDS];
            for (coordinate, factor) in [square, field.mul(&square, &inverse)].iter().enumerate() {
                let number = self.get(&place[coordinate * Self::NUMBER..(coordinate + 1) * Self::NUMBER]);
                let mut affine = field.mul(&number, factor);
                if matches!(C::FORM, Form::Montgomery) {
                    affine = field.mul(&affine, &boundary);
                }
                let start = coordinate * L;
                words[start..start + L].copy_from_slice(&field.words(&field.canonical(&affine)));
            }
            self.write(&words, out, group);
        }
        redo
    }

    /// The portable backend's answer for the lanes that the formulas got wrong.
    #[cold]
    fn multiply_again(redo: &[usize], multiples: &[u64], windows: &[u8], out: &mut [u64], scratch: &mut Vec<u64>) {
        let pick = |entry: usize| {
            let batch = &multiples[entry * out.len()..(entry + 1) * out.len()];
            redo.iter().flat_map(move |&i| &batch[i * Self::STRIDE..(i + 1) * Self::STRIDE]).copied()
        };
        let picked: Vec<u64> = (0..WINDOW_ENTRIES).flat_map(pick).collect();
        let mut again = vec![0; redo.len() * Self::STRIDE];
        (Portable::<C, L>::KERNELS.multiply)(&picked, windows, &mut again, scratch);
        for (&i, point) in redo.iter().zip(again.chunks_exact(Self::STRIDE)) {
            out[i * Self::STRIDE..(i + 1) * Self::STRIDE].copy_from_slice(point);
        }
    }
}
