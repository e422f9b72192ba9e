//! The abscissas of `Q - S` and `Q + S` on eight lanes, for giant steps, which need only a
//! fingerprint of a point.
//!
//! Both have the denominator `x_S - x_Q`, so a pair costs 3 products for its share of the
//! inversion, 2 slopes and 2 squares.

use super::batch52::{Batch52, CHAINS, MAX_WORDS};
use super::field52::{Field52, Number, vectors};
use super::{CurveConstants, Scratch};
use tobari_simd::Simd;
use tobari_simd::{LANES, Line};

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    /// See [`CurveKernels::vartime_pair_x`](super::CurveKernels).
    #[inline(always)]
    pub(super) fn vartime_pair_x(
        self,
        points: &[Line],
        steps: &[Line],
        out: &mut [Line],
        scratch: &mut Scratch,
    ) -> bool {
        let field = self.field;
        let entry = Self::STRIDE.div_ceil(LANES);
        let (groups, count) = (points.len() / Self::GROUP, steps.len() / entry);
        let memory = scratch.lines(2 * count * groups * N);
        let mut products = [[field.one(); 2]; CHAINS / 2];
        for step in 0..count {
            let [step_x, _] = self.broadcast(&steps[step * entry..]);
            for group in 0..groups {
                let pair = step * groups + group;
                let place = &mut memory[2 * pair * N..];
                let own = &mut products[pair % CHAINS / 2][pair % 2];
                self.put(own, place);
                self.put(&field.difference(&step_x, &self.x(points, group)), &mut place[N..]);
                *own = field.mul(own, self.number(&memory[(2 * pair + 1) * N..]));
            }
        }
        let Some(mut inverses) = self.invert_chains(products.as_flattened(), true) else { return false };
        for step in (0..count).rev() {
            let [step_x, step_y] = self.broadcast(&steps[step * entry..]);
            for group in (0..groups).rev() {
                let pair = step * groups + group;
                let place = &memory[2 * pair * N..];
                let own = &mut inverses[pair % CHAINS];
                let inverse = field.mul(own, self.number(place));
                *own = field.mul(own, self.number(&place[N..]));
                let sides = self.both_sides([&step_x, &step_y], points, group, &inverse);
                for side in 0..2 {
                    self.field.simd.store(sides[side], &mut out[2 * pair + side]);
                }
            }
        }
        true
    }

    /// The fingerprints of `x(Q - S)` and `x(Q + S)`, given `1/(x_S - x_Q)`.
    #[inline(always)]
    fn both_sides(
        self,
        [step_x, step_y]: [&Number<S, N>; 2],
        points: &[Line],
        group: usize,
        inverse: &Number<S, N>,
    ) -> [S::V; 2] {
        let (field, s) = (self.field, self.field.simd);
        let (x, y) = (self.x(points, group), self.y(points, group));
        let ys = vectors!(s, N, i => s.add(step_y[i], y[i]));
        // -y_S - y_Q below 8p, and y_S - y_Q
        let numerators =
            [field.ripple(field.below(&Field52::<S, C, L, N>::SPREAD8, &ys)), field.difference(step_y, &y)];
        let mut slopes = [[s.splat(0); N]; 2];
        field.mul_pair([&numerators[0], &numerators[1]], [inverse, inverse], &mut slopes);
        let less = field.below(&Field52::<S, C, L, N>::SPREAD8, &vectors!(s, N, i => s.add(x[i], step_x[i])));
        let mut sums = [[s.splat(0); N]; 2];
        field.square_plus_pair([&slopes[0], &slopes[1]], [&less, &less], &mut sums);
        [self.fingerprint(&sums[0]), self.fingerprint(&sums[1])]
    }

    /// The fingerprints of all `x`.
    #[inline(always)]
    pub(super) fn fingerprints(self, points: &[Line], out: &mut [Line]) {
        for (group, out) in out.iter_mut().enumerate() {
            self.field.simd.store(self.fingerprint(&self.x(points, group)), out);
        }
    }

    /// `super::fingerprint`, lane by lane.
    #[inline(always)]
    fn fingerprint(self, x: &Number<S, N>) -> S::V {
        let s = self.field.simd;
        let canonical = self.field.canonical(x);
        let high = s.shl(canonical[1], 52);
        s.sub(s.or(canonical[0], high), s.and(canonical[0], high))
    }

    /// A table entry in all lanes.
    #[inline(always)]
    fn broadcast(self, entry: &[Line]) -> [Number<S, N>; 2] {
        let s = self.field.simd;
        let mut words = [s.splat(0); MAX_WORDS];
        for i in 0..Self::STRIDE {
            words[i] = s.splat(entry[i / LANES].0[i % LANES]);
        }
        [self.field.read(&words[..L]), self.field.read(&words[L..2 * L])]
    }
}
