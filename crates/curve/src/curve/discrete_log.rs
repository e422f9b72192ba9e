//! Discrete logarithms of small absolute value: from `mG` back to `m`.
//!
//! Baby steps and giant steps (Shanks), halved by symmetry: a table of fingerprints of `x(mG)` for
//! `1 ≤ m ≤ T` answers `|m| ≤ T` at once, because `-mG` has the same `x`. For larger `|m|`,
//! `Q ± j(2T + 1)G` is looked up for `j = 1, 2, …`, with one inversion for eight `j`, and only the
//! `x` of a sum is computed: 3.5 products a look-up. With `T = 2^18 - 1` a sum of seven full-scale
//! speakers needs no giant step, one of 1,024 (`|m| ≤ 2^25`, 27 bits signed) at most 64 pairs, one
//! of 4,096 at most 256. The paper's table of `2^16` entries (Ueno et al., section 5.1) covers one
//! speaker at full scale, so it cannot decode a sum.
//!
//! A fingerprint is 32 bits of `x`; every hit is confirmed by computing `mG` (one addition from two
//! tables of 512 points) and comparing both coordinates, so an answer is never wrong. Memory: 4 MB
//! for the fingerprints, 64 KB for the points. Built in about 11 ms on secp256k1 and 15 on
//! secp384r1 (1 and 2 ms for one speaker), on one core with vectors, once for all decryptors of a
//! process ([`DiscreteLog::cached`]).
//!
//! # Leakage
//! Variable time: memory accesses and the number of giant steps depend on the logarithm, hence the
//! prefix `vartime_`. `book/src/explanation/threats/call-recordings.md` says which attackers can
//! observe that.

use super::Points;
use super::points::{entry_lines, group_lines};
use crate::curve::BuiltCurve;
use crate::kernels::Scratch;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tobari_simd::{LANES, Line};
use zeroize::Zeroizing;

/// Multiples in each of the two tables that confirm a hit.
const LOW: usize = 512;
/// Most rows of `LOW` multiples in the fingerprint table: `T = 2^18 - 1`.
const MAX_HIGH: usize = 512;

/// Giant steps that share an inversion.
const STEPS_AT_ONCE: usize = 8;

/// The table for logarithms up to a bound. Holds no secret.
///
/// ```
/// use tobari_curve::{BuiltCurve, DiscreteLog, Points, Scalar};
/// let curve = BuiltCurve::Secp256k1;
/// let table = DiscreteLog::new(curve, 1000);
/// let point = Points::generator(curve).multiply(0, &Scalar::from_u64(curve, 777));
/// assert_eq!(*table.vartime_solve(&point).unwrap(), vec![777]);
/// ```
pub struct DiscreteLog {
    curve: BuiltCurve,
    bound: u32,
    /// `T`: the bound of an immediate answer from the fingerprints.
    half_width: i64,
    /// `iG` for `i < LOW`, as table entries.
    low: Vec<Line>,
    /// `LOW·h·G` for `h ≤` the number of rows, as table entries.
    high: Vec<Line>,
    /// Open addressing: `fingerprint << 32 | m`, zero where free (`m ≥ 1`).
    slots: Vec<u64>,
    /// `j(2T + 1)G` for `j = 1, 2, …` up to the bound, as table entries.
    steps: Vec<Line>,
}

/// A point whose logarithm is not within the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no discrete logarithm within the bound for point {index}")]
pub struct NotInRange {
    /// Position in the batch.
    pub index: usize,
}

/// Points whose logarithm is not found yet, with their positions in the caller's batch.
struct Open {
    positions: Vec<usize>,
    points: Points,
}

/// A match with a fingerprint of the table: by `Q - jS` for point `i`, where `jS` is `j` giant
/// steps, possibly backwards.
struct Hit {
    i: usize,
    step: i64,
    m: usize,
}

impl DiscreteLog {
    /// The largest bound: 4,096 speakers at `±32768`.
    pub const MAX_BOUND: u32 = 1 << 27;

    /// The table for `|m| ≤ bound`; at most `2^18` point additions.
    ///
    /// # Panics
    /// If `bound` exceeds [`DiscreteLog::MAX_BOUND`].
    pub fn new(curve: BuiltCurve, bound: u32) -> Self {
        assert!(bound <= Self::MAX_BOUND, "discrete logarithms are found up to {}", Self::MAX_BOUND);
        let mut scratch = Scratch::default();
        let rows = (bound as usize + 1).div_ceil(LOW).clamp(1, MAX_HIGH);
        let low = multiples(&Points::generator(curve), LOW + 1, &mut scratch);
        let high = multiples(&low.repeat(LOW, 1), rows + 1, &mut scratch);
        let low = low.pick(0..LOW);
        // (2T + 1)G = 2 LOW rows G - G
        let mut step = high.repeat(rows, 1);
        step.double(&mut scratch);
        let mut back = low.repeat(1, 1);
        back.negate_assign();
        step.add(&back, &mut scratch);
        let half_width = (rows * LOW - 1) as i64;
        let (low_table, high_table) = (low.pack(), high.pack());
        let step_width = 2 * half_width + 1;
        let giant_steps = (i64::from(bound) - half_width + step_width - 1).max(0) / step_width;
        let steps = multiples(&step, giant_steps as usize + 1, &mut scratch).pack()[entry_lines(curve)..].to_vec();
        let slots = vec![0; (2 * rows * LOW).next_power_of_two()];
        let mut table = Self { curve, bound, half_width, low: low_table, high: high_table, slots, steps };
        for row in 0..rows {
            let mut points = high.repeat(row, LOW);
            points.add(&low, &mut scratch);
            for (i, x) in fingerprints(&points).into_iter().enumerate() {
                if row + i > 0 {
                    table.insert(x, (row * LOW + i) as u64);
                }
            }
        }
        table
    }

    /// The same table, built once for all concurrent users. It holds no secret.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn cached(curve: BuiltCurve, bound: u32) -> Arc<Self> {
        static IN_USE: Mutex<Vec<Weak<DiscreteLog>>> = Mutex::new(Vec::new());
        assert!(bound <= Self::MAX_BOUND, "discrete logarithms are found up to {}", Self::MAX_BOUND);
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.retain(|table| table.strong_count() > 0);
        let mut found = in_use.iter().filter_map(Weak::upgrade);
        if let Some(table) = found.find(|table| (table.curve, table.bound) == (curve, bound)) {
            return table;
        }
        let table = Arc::new(Self::new(curve, bound)); // other callers wait for it
        in_use.push(Arc::downgrade(&table));
        table
    }

    /// The bound that the table was built for.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    fn insert(&mut self, x: u64, m: u64) {
        let mask = self.slots.len() - 1;
        let mut place = x as usize & mask;
        while self.slots[place] != 0 {
            place = (place + 1) & mask;
        }
        self.slots[place] = (x >> 32) << 32 | m;
    }

    /// The logarithm of every point.
    ///
    /// # Errors
    /// [`NotInRange`] for the first point without a logarithm of absolute value up to the bound.
    ///
    /// # Panics
    /// If the points are of another curve.
    pub fn vartime_solve(&self, points: &Points) -> Result<Zeroizing<Vec<i32>>, NotInRange> {
        assert_eq!(points.curve(), self.curve);
        let mut found = Zeroizing::new(vec![None; points.len()]);
        let mut scratch = Scratch::public();
        let mut open = Open { positions: (0..points.len()).collect(), points: points.clone() };
        self.look_up(&open, &mut found, &mut scratch);
        let (mut done, all) = (0, self.steps.len() / entry_lines(self.curve));
        while done < all {
            open.keep_open(&found);
            if open.positions.is_empty() {
                break;
            }
            // few at first: most sums are small
            let count = done.clamp(1, STEPS_AT_ONCE).min(all - done);
            self.step_and_look_up(&open, done, count, &mut found, &mut scratch);
            done += count;
        }
        let within = |m: i64| m.unsigned_abs() <= u64::from(self.bound);
        let mut answers = Zeroizing::new(Vec::with_capacity(found.len())); // never grows, so no copy is left behind
        for (index, answer) in found.iter().enumerate() {
            match answer {
                Some(m) if within(*m) => answers.push(*m as i32),
                _ => return Err(NotInRange { index }),
            }
        }
        Ok(answers)
    }

    /// Looks every open point up and confirms the hits.
    fn look_up(&self, open: &Open, found: &mut [Option<i64>], scratch: &mut Scratch) {
        let mut hits: Zeroizing<Vec<(usize, usize)>> = Zeroizing::new(Vec::with_capacity(2 * open.points.len()));
        for (i, x) in fingerprints(&open.points).into_iter().enumerate() {
            if open.points.is_identity(i) {
                found[open.positions[i]] = Some(0);
            } else {
                hits.extend(self.candidates(x).map(|m| (i, m)));
            }
        }
        let sizes: Zeroizing<Vec<usize>> = Zeroizing::new(hits.iter().map(|(_, m)| *m).collect());
        let multiples = self.small_multiples(&sizes, scratch);
        let wanted = open.points.pick(hits.iter().map(|(i, _)| *i));
        let signs = same_up_to_sign(&wanted, &multiples);
        for (&(i, m), sign) in hits.iter().zip(signs) {
            if let Some(sign) = sign {
                found[open.positions[i]] = Some(sign * m as i64);
            }
        }
    }

    /// Looks `Q - jS` and `Q + jS` up for every open point and `count` giant steps after the first
    /// `done`.
    fn step_and_look_up(
        &self,
        open: &Open,
        done: usize,
        count: usize,
        found: &mut [Option<i64>],
        scratch: &mut Scratch,
    ) {
        let (kernels, entry) = (self.curve.kernels(), entry_lines(self.curve));
        let groups = open.points.len().div_ceil(LANES);
        let mut prints = vec![Line::ZERO; 2 * count * groups];
        let steps = &self.steps[done * entry..(done + count) * entry];
        let mut hits = Vec::new();
        if (kernels.vartime_pair_x)(open.points.lines(), steps, &mut prints, scratch) {
            for (place, line) in prints.iter().enumerate() {
                let (step, group, back) = (place / (2 * groups) + done + 1, place / 2 % groups, place % 2 == 1);
                let step = if back { -(step as i64) } else { step as i64 };
                let lanes = line.0.iter().take(open.points.len() - group * LANES).enumerate();
                hits.extend(
                    lanes.flat_map(|(lane, x)| {
                        self.candidates(*x).map(move |m| Hit { i: group * LANES + lane, step, m })
                    }),
                );
            }
        } else {
            self.step_slowly(open, done, count, &mut hits, scratch);
        }
        self.confirm(open, &hits, found, scratch);
    }

    /// The same by complete additions, if some point equals a giant step up to its sign.
    #[cold]
    fn step_slowly(&self, open: &Open, done: usize, count: usize, hits: &mut Vec<Hit>, scratch: &mut Scratch) {
        for step in done + 1..=done + count {
            for signed in [step as i64, -(step as i64)] {
                let mut moved = open.points.clone();
                moved.add(&self.giant_steps(&vec![-signed; moved.len()]), scratch);
                for (i, x) in fingerprints(&moved).into_iter().enumerate() {
                    if moved.is_identity(i) {
                        hits.push(Hit { i, step: signed, m: 0 });
                    } else {
                        hits.extend(self.candidates(x).map(|m| Hit { i, step: signed, m }));
                    }
                }
            }
        }
    }

    /// `jS` for these numbers of giant steps, which are not zero.
    fn giant_steps(&self, steps: &[i64]) -> Points {
        let index: Zeroizing<Vec<u64>> = Zeroizing::new(steps.iter().map(|j| j.unsigned_abs() - 1).collect());
        let negate: Zeroizing<Vec<u64>> = Zeroizing::new(steps.iter().map(|j| (j >> 63) as u64).collect());
        Points::selected(self.curve, self.curve.kernels().vartime_select, &self.steps, &index, &negate)
    }

    /// Compares `jS + mG` and `jS - mG` with the point of each hit.
    fn confirm(&self, open: &Open, hits: &[Hit], found: &mut [Option<i64>], scratch: &mut Scratch) {
        if hits.is_empty() {
            return;
        }
        let steps: Vec<i64> = hits.iter().map(|hit| hit.step).collect();
        let sizes: Zeroizing<Vec<usize>> = Zeroizing::new(hits.iter().map(|hit| hit.m).collect());
        let mut multiples = self.small_multiples(&sizes, scratch);
        let wanted = open.points.pick(hits.iter().map(|hit| hit.i));
        for sign in [1, -1] {
            let mut sums = self.giant_steps(&steps);
            sums.add(&multiples, scratch);
            for (hit, same) in hits.iter().zip(same_up_to_sign(&wanted, &sums)) {
                if same == Some(1) {
                    let answer = hit.step * (2 * self.half_width + 1) + sign * hit.m as i64;
                    found[open.positions[hit.i]] = Some(answer);
                }
            }
            multiples.negate_assign();
        }
    }

    /// `mG` for each `m ≤ T`.
    fn small_multiples(&self, all: &[usize], scratch: &mut Scratch) -> Points {
        let select = self.curve.kernels().vartime_select;
        let positive = vec![0; all.len()];
        let part = |table: &[Line], part: fn(usize) -> usize| {
            let index: Zeroizing<Vec<u64>> = Zeroizing::new(all.iter().map(|m| part(*m) as u64).collect());
            Points::selected(self.curve, select, table, &index, &positive)
        };
        let mut multiples = part(&self.low, |m| m % LOW);
        multiples.add(&part(&self.high, |m| m / LOW), scratch);
        multiples
    }

    /// Every `m` whose fingerprint agrees with `x`.
    fn candidates(&self, x: u64) -> impl Iterator<Item = usize> + '_ {
        let mask = self.slots.len() - 1;
        let chain = (0..self.slots.len()).map(move |i| self.slots[(x as usize + i) & mask]);
        let chain = chain.take_while(|slot| *slot != 0);
        chain.filter(move |slot| slot >> 32 == x >> 32).map(|slot| (slot & 0xffff_ffff) as usize)
    }
}

impl Open {
    /// Drops the points that have been found.
    fn keep_open(&mut self, found: &[Option<i64>]) {
        if self.positions.iter().all(|position| found[*position].is_none()) {
            return;
        }
        let still_open = |i: &usize| found[self.positions[*i]].is_none();
        let kept: Vec<usize> = (0..self.positions.len()).filter(still_open).collect();
        self.points = self.points.pick(kept.iter().copied());
        self.positions = kept.iter().map(|i| self.positions[*i]).collect();
    }
}

/// 64 bits of each `x`.
fn fingerprints(points: &Points) -> Vec<u64> {
    let mut lines = vec![Line::ZERO; points.len().div_ceil(LANES)];
    (points.curve().kernels().fingerprints)(points.lines(), &mut lines);
    lines.iter().flat_map(|line| line.0).take(points.len()).collect()
}

/// 1 for two equal points, -1 for opposite points.
fn same_up_to_sign(a: &Points, b: &Points) -> Vec<Option<i64>> {
    let lines = group_lines(a.curve());
    let (a_lines, b_lines) = (a.canonical(), b.canonical());
    let same = |i: usize, coordinate: usize| {
        let start = i / LANES * lines + coordinate * lines / 2;
        (start..start + lines / 2).all(|line| a_lines[line].0[i % LANES] == b_lines[line].0[i % LANES])
    };
    (0..a.len()).map(|i| same(i, 0).then(|| if same(i, 1) { 1 } else { -1 })).collect()
}

/// `iB` for `i < count`, by doubling the list: `B … kB`, then `+ kB`.
pub(crate) fn multiples(base: &Points, count: usize, scratch: &mut Scratch) -> Points {
    let mut list = base.clone();
    while list.len() + 1 < count {
        let mut next = list.clone();
        next.add(&list.repeat(list.len() - 1, list.len()), scratch);
        list.append(&next);
    }
    let mut all = Points::identity(base.curve(), 1);
    all.append(&list.pick(0..count - 1));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{FixedBase, Scalar};

    /// `mG`, computed independently of the table.
    fn lifted(curve: BuiltCurve, messages: &[i64]) -> Points {
        let table = FixedBase::new(&Points::generator(curve), 0);
        let mut points = Points::identity(curve, 0);
        for &m in messages {
            let mut point = table.multiply_all(&[Scalar::from_u64(curve, m.unsigned_abs())]);
            if m < 0 {
                point.negate_assign();
            }
            points.append(&point);
        }
        points
    }

    #[test]
    fn every_small_logarithm_is_found() {
        for curve in BuiltCurve::ALL {
            let table = DiscreteLog::new(curve, 1500);
            let messages: Vec<i64> = (-1500..=1500).step_by(7).chain([-1500, -1, 0, 1, 1500]).collect();
            let expected: Vec<i32> = messages.iter().map(|m| *m as i32).collect();
            assert_eq!(*table.vartime_solve(&lifted(curve, &messages)).unwrap(), expected, "{curve}");
        }
    }

    #[test]
    fn giant_steps_reach_the_sum_of_1024_full_scale_speakers_and_stop_there() {
        let curve = BuiltCurve::Secp256k1;
        let bound = 1 << 25;
        let table = DiscreteLog::new(curve, bound);
        let width = table.half_width;
        let mut messages = vec![0, 1, -1, width, -width, width + 1, -width - 1, i64::from(bound), -i64::from(bound)];
        for j in 1..64 {
            // the middle of a giant step, with the identity as residue, and both of its edges
            messages.extend([j * (2 * width + 1), -j * (2 * width + 1) + width, j * (2 * width + 1) - width]);
        }
        let expected: Vec<i32> = messages.iter().map(|m| *m as i32).collect();
        assert_eq!(*table.vartime_solve(&lifted(curve, &messages)).unwrap(), expected);
        for outside in [i64::from(bound) + 1, -i64::from(bound) - 1, 1 << 40] {
            assert_eq!(table.vartime_solve(&lifted(curve, &[5, outside])), Err(NotInRange { index: 1 }), "{outside}");
        }
    }

    #[test]
    fn a_bound_between_table_rows_is_exact() {
        let curve = BuiltCurve::NistP256;
        for bound in [0, 1, 511, 512, 513] {
            let table = DiscreteLog::new(curve, bound);
            let edge = i64::from(bound);
            assert_eq!(*table.vartime_solve(&lifted(curve, &[edge, -edge])).unwrap(), vec![edge as i32, -edge as i32]);
            assert!(table.vartime_solve(&lifted(curve, &[edge + 1])).is_err(), "{bound}");
        }
    }

    #[test]
    fn a_table_in_use_is_built_once_and_one_that_is_not_is_forgotten() {
        let table = DiscreteLog::cached(BuiltCurve::NistP224, 700);
        assert!(Arc::ptr_eq(&table, &DiscreteLog::cached(BuiltCurve::NistP224, 700)));
        for (curve, bound) in [(BuiltCurve::NistP224, 701), (BuiltCurve::Secp224k1, 700)] {
            let other = DiscreteLog::cached(curve, bound);
            assert_eq!((other.curve, other.bound), (curve, bound));
        }
        let forgotten = Arc::downgrade(&table);
        drop(table);
        assert!(forgotten.upgrade().is_none(), "nobody uses it");
    }
}
