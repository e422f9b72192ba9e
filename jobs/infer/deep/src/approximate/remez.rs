//! Minimax polynomials by Remez's algorithm.
//!
//! **Problem.** Among all sums `p = Σ c_k T_k` over given `k`, find the one with the smallest
//! `max |f - p|` on an interval. Let the `n` functions `T_k` be a Haar system: only the sum 0 has
//! `n` zeros. Chebyshev's theorem says: `p` is best if and only if `f - p` takes its largest
//! absolute value at `n + 1` points with alternating signs.
//!
//! **Algorithm** (Remez, C. R. Acad. Sci. Paris 198, 1934; Powell, Approximation Theory and
//! Methods, 1981, chapters 8 and 9).
//!
//! ```text
//! 1. choose n + 1 points x_i
//! 2. solve  Σ c_k T_k(x_i) + (-1)^i E = f(x_i)   for the c_k and E
//! 3. find the largest |f - p| in each run of one sign; choose n + 1 of them with alternating signs
//! 4. stop if all are as large as |E|; else go to 2 with these points
//! ```
//!
//! **Certificate.** No polynomial of this form is nearer than `|E|` (de la Vallée Poussin, 1910).
//! So the result is best up to the gap between `|E|` and the largest error, and [`Minimax`] has
//! both. The largest error is the maximum over a grid of 64 points between neighbours among the
//! points and ends, with each maximum refined by the golden section. The bound is the smallest of
//! the alternating errors.
//!
//! **Odd and even polynomials.** On `[a, b]` with `a ≥ 0`, the even `T_k` alone are a Haar system.
//! The odd ones are, too, if `a > 0`; for `a = 0` they serve functions that are 0 at 0. An odd
//! polynomial that is near 1 on `[a, b]` is near the sign on `[-b, -a]` and `[a, b]`.

use super::ApproximationError;

/// The highest degree.
pub const MAX_DEGREE: usize = 255;
/// Most exchanges. A few are enough for smooth functions, and 20 for most others.
const ROUNDS: usize = 100;
/// Grid points from one point of the reference to the next: in exchanges, and for the result.
const COARSE: usize = 16;
const STEPS: usize = 64;
/// Errors below this part of the function's values count as rounding errors.
const FLOOR: f64 = 1.0 / (1u64 << 36) as f64;
/// Skews of the first reference, one after another until there is a result.
const SKEWS: [f64; 3] = [0.0, 0.1, 0.25];
/// Golden sections of a maximum.
const SECTIONS: usize = 32;

/// The `T_k` of a polynomial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// All up to the degree.
    All,
    /// Those of odd `k`.
    Odd,
    /// Those of even `k`.
    Even,
}

impl Terms {
    /// The `k` up to a degree.
    pub(super) fn indices(self, degree: usize) -> Vec<usize> {
        let uses = |k: &usize| match self {
            Self::All => true,
            Self::Odd => k % 2 == 1,
            Self::Even => k.is_multiple_of(2),
        };
        (0..=degree).filter(uses).collect()
    }

    /// `Σ c_j T_k(t)`, `k` the `j`-th of the terms: by Clenshaw's recurrence for all terms, and by
    /// `T_(k+2) = 2 T_2 T_k - T_(k-2)` for odd or even ones.
    fn value(self, coefficients: &[f64], t: f64) -> f64 {
        let z = if self == Self::All { t } else { 2.0 * t * t - 1.0 };
        let step = |(b1, b2): (f64, f64), c: &f64| (c + 2.0 * z * b1 - b2, b1);
        let (b0, b1) = coefficients.iter().rev().fold((0.0, 0.0), step);
        // b_0 T_first - b_1 T_(first - step)
        if self == Self::Odd { t * (b0 - b1) } else { b0 - z * b1 }
    }
}

/// A minimax polynomial.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimax {
    /// The coefficients of `T_0`, `T_1` …, up to the degree.
    pub series: Vec<f64>,
    /// The largest error found on the interval.
    pub error: f64,
    /// No polynomial of this form has a smaller error.
    pub least: f64,
    /// The points where the error alternates, in ascending order: one more than there are terms.
    /// Fewer if the error is as small as rounding errors.
    pub points: Vec<f64>,
}

/// The minimax polynomial of a function on an interval within [-1, 1]. The function may have kinks;
/// the result is more precise if `kinks` names them. For odd and even terms the interval starts at
/// 0 or above. For all terms it should be [-1, 1] or little less: outside the interval the
/// polynomial is large, so its coefficients are, and rounding errors with them.
///
/// # Errors
/// [`ApproximationError::Interval`] for another interval or a degree above [`MAX_DEGREE`],
/// [`ApproximationError::NotFinite`] if the function is infinite or undefined somewhere, and
/// [`ApproximationError::NotConverged`] if the error and its lower bound differ by more than 0.1 %
/// after 100 exchanges.
pub fn minimax(
    function: impl Fn(f64) -> f64,
    terms: Terms,
    degree: usize,
    interval: [f64; 2],
    kinks: &[f64],
) -> Result<Minimax, ApproximationError> {
    let found = minimax_within(function, terms, degree, interval, kinks, f64::INFINITY)?;
    found.ok_or(ApproximationError::NotConverged { degree })
}

/// The same; none as soon as a lower bound shows that the error is above the tolerance.
pub(super) fn minimax_within(
    function: impl Fn(f64) -> f64,
    terms: Terms,
    degree: usize,
    interval: [f64; 2],
    kinks: &[f64],
    tolerance: f64,
) -> Result<Option<Minimax>, ApproximationError> {
    let [a, b] = interval;
    let lowest = if terms == Terms::All { -1.0 } else { 0.0 };
    let indices = terms.indices(degree.min(MAX_DEGREE));
    if !(lowest <= a && a < b && b <= 1.0) || degree > MAX_DEGREE || indices.is_empty() {
        return Err(ApproximationError::Interval { degree });
    }
    let search = Search { function: &function, terms, indices: &indices, interval, kinks, tolerance };
    let mut found = Err(ApproximationError::NotConverged { degree });
    for skew in SKEWS {
        found = search.exchange(start(terms, indices.len(), interval, skew));
        if !matches!(found, Err(ApproximationError::NotConverged { .. })) {
            break;
        }
    }
    found
}

/// One problem.
struct Search<'a, F> {
    function: &'a F,
    terms: Terms,
    indices: &'a [usize],
    interval: [f64; 2],
    kinks: &'a [f64],
    tolerance: f64,
}

impl<F: Fn(f64) -> f64> Search<'_, F> {
    /// Exchanges from a reference on.
    fn exchange(&self, mut reference: Vec<f64>) -> Result<Option<Minimax>, ApproximationError> {
        let degree = self.indices.last().copied().unwrap_or(0);
        let (mut best, mut small): (Option<Round>, f64) = (None, 0.0);
        for _ in 0..ROUNDS {
            let values: Vec<f64> = reference.iter().map(|x| (self.function)(*x)).collect();
            let size = values.iter().fold(0.0, |size: f64, y| size.max(y.abs()));
            if !size.is_finite() || values.iter().any(|y| y.is_nan()) {
                return Err(ApproximationError::NotFinite);
            }
            small = size * FLOOR;
            let Some((terms, level)) = solve(self.indices, &reference, &values) else { break };
            if level > self.tolerance * (1.0 + 1e-6) {
                return Ok(None);
            }
            let extrema = self.extrema(&terms, &reference, COARSE);
            let largest = peak(&extrema);
            if !largest.is_finite() {
                return Err(ApproximationError::NotFinite);
            }
            let complete = extrema.len() == reference.len();
            let better = best.as_ref().is_none_or(|best| largest < best.error);
            if better {
                best = Some(Round { terms, reference: reference.clone(), error: largest });
            }
            let points: Vec<f64> = extrema.iter().map(|(x, _)| *x).collect();
            let done = largest <= small || largest - level <= 1e-8 * largest;
            if done || !complete || (!better && points == reference) {
                break;
            }
            reference = points;
        }
        let Round { terms, reference, .. } = best.ok_or(ApproximationError::NotConverged { degree })?;
        let found = self.certify(&terms, &reference);
        let accepted = found.error - found.least <= (1e-3 * found.error).max(small);
        accepted.then_some(Some(found)).ok_or(ApproximationError::NotConverged { degree })
    }

    /// The largest errors with alternating signs: as many as the reference has points, or fewer.
    fn extrema(&self, terms: &[f64], reference: &[f64], steps: usize) -> Vec<(f64, f64)> {
        let error = |x: f64| (self.function)(x) - self.terms.value(terms, x);
        let mut extrema = alternation(&error, &grid(self.interval, reference, self.kinks, steps));
        reduce(&mut extrema, reference.len());
        extrema
    }

    /// The result, with the error over the fine grid. The bound is the least error of its extrema.
    fn certify(&self, terms: &[f64], reference: &[f64]) -> Minimax {
        let extrema = self.extrema(terms, reference, STEPS);
        let least = extrema.iter().fold(f64::INFINITY, |least: f64, (_, e)| least.min(e.abs()));
        let least = if extrema.len() == reference.len() { least } else { 0.0 };
        let mut series = vec![0.0; self.indices.last().map_or(1, |top| top + 1)];
        self.indices.iter().zip(terms).for_each(|(k, c)| series[*k] = *c);
        Minimax { series, error: peak(&extrema), least, points: extrema.iter().map(|(x, _)| *x).collect() }
    }
}

/// The result of one exchange.
struct Round {
    terms: Vec<f64>,
    reference: Vec<f64>,
    error: f64,
}

/// The largest absolute value.
fn peak(extrema: &[(f64, f64)]) -> f64 {
    extrema.iter().fold(0.0, |largest: f64, (_, e)| largest.max(e.abs()))
}

/// The extrema of a Chebyshev polynomial, `count + 1` of them, moved to the interval. A skew breaks
/// their symmetry: between symmetric points, `E` may be 0.
fn start(terms: Terms, count: usize, [a, b]: [f64; 2], skew: f64) -> Vec<f64> {
    let angle = |parts: f64, j: usize| (std::f64::consts::PI * j as f64 / parts).cos();
    let place = |j: usize| match terms {
        Terms::All => (1.0 + angle(count as f64, j)) / 2.0,
        // 0 is no point where all terms vanish
        Terms::Odd if a == 0.0 => angle((2 * count + 1) as f64, j),
        Terms::Odd | Terms::Even => angle((2 * count) as f64, j),
    };
    let skewed = |y: f64| y + skew * y * (1.0 - y);
    (0..=count).rev().map(|j| (a + (b - a) * skewed(place(j))).clamp(a, b)).collect()
}

/// The coefficients of these `T_k` and the level `|E|`, by Gaussian elimination with pivots.
fn solve(indices: &[usize], reference: &[f64], values: &[f64]) -> Option<(Vec<f64>, f64)> {
    let size = reference.len();
    let top = indices.last()?;
    let mut rows: Vec<Vec<f64>> = reference
        .iter()
        .zip(values)
        .enumerate()
        .map(|(i, (x, y))| {
            let mut all = vec![1.0, *x];
            (2..=*top).for_each(|k| all.push(2.0 * x * all[k - 1] - all[k - 2]));
            let mut row: Vec<f64> = indices.iter().map(|k| all[*k]).collect();
            row.extend([if i % 2 == 0 { 1.0 } else { -1.0 }, *y]);
            row
        })
        .collect();
    for column in 0..size {
        let pivot = (column..size).max_by(|i, j| rows[*i][column].abs().total_cmp(&rows[*j][column].abs()))?;
        rows.swap(column, pivot);
        let (upper, lower) = rows.split_at_mut(column + 1);
        let pivot = &upper[column];
        for row in lower {
            let factor = row[column] / pivot[column];
            row[column..].iter_mut().zip(&pivot[column..]).for_each(|(x, y)| *x -= factor * y);
        }
    }
    let mut solution = vec![0.0; size];
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|j| rows[i][j] * solution[j]).sum();
        solution[i] = (rows[i][size] - known) / rows[i][i];
    }
    let level = solution.pop()?.abs();
    solution.iter().all(|x| x.is_finite()).then_some((solution, level))
}

/// Points between neighbours among the ends, the reference and the kinks.
fn grid([a, b]: [f64; 2], reference: &[f64], kinks: &[f64], steps: usize) -> Vec<f64> {
    let mut marks: Vec<f64> = reference.iter().chain(kinks).copied().filter(|x| a < *x && *x < b).collect();
    marks.extend([a, b]);
    subdivide(marks, steps)
}

/// The marks in ascending order, and points that divide the ways between them into `steps` parts.
pub(super) fn subdivide(mut marks: Vec<f64>, steps: usize) -> Vec<f64> {
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    let part = |pair: &[f64]| {
        let (from, to) = (pair[0], pair[1]);
        (0..steps).map(move |j| from + (to - from) * j as f64 / steps as f64)
    };
    let mut points: Vec<f64> = marks.windows(2).flat_map(part).collect();
    points.extend(marks.last());
    points
}

/// In each run of points with errors of one sign: the largest error, and its place.
fn alternation(error: &impl Fn(f64) -> f64, points: &[f64]) -> Vec<(f64, f64)> {
    let errors: Vec<f64> = points.iter().map(|x| error(*x)).collect();
    let mut peaks: Vec<usize> = Vec::new();
    for (i, e) in errors.iter().enumerate().filter(|(_, e)| **e != 0.0) {
        match peaks.last_mut() {
            Some(peak) if (*e > 0.0) == (errors[*peak] > 0.0) => {
                if e.abs() > errors[*peak].abs() {
                    *peak = i;
                }
            }
            _ => peaks.push(i),
        }
    }
    let refine = |i: usize| {
        let sign = errors[i].signum();
        let bracket = [points[i.saturating_sub(1)], points[(i + 1).min(points.len() - 1)]];
        let (x, e) = golden(&|x| sign * error(x), bracket);
        if e > errors[i].abs() { (x, sign * e) } else { (points[i], errors[i]) }
    };
    peaks.into_iter().map(refine).collect()
}

/// A maximum by the golden section: the place and the value.
fn golden(function: &impl Fn(f64) -> f64, [mut a, mut b]: [f64; 2]) -> (f64, f64) {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let [mut x, mut y] = [b - ratio * (b - a), a + ratio * (b - a)];
    let [mut at_x, mut at_y] = [function(x), function(y)];
    for _ in 0..SECTIONS {
        if at_x > at_y {
            (b, y, at_y) = (y, x, at_x);
            x = b - ratio * (b - a);
            at_x = function(x);
        } else {
            (a, x, at_x) = (x, y, at_y);
            y = a + ratio * (b - a);
            at_y = function(y);
        }
    }
    if at_x > at_y { (x, at_x) } else { (y, at_y) }
}

/// The largest value of a function. Each point above both neighbours is refined.
/// NaN if the function is undefined at a point.
pub(super) fn largest(function: &impl Fn(f64) -> f64, points: &[f64]) -> f64 {
    let values: Vec<f64> = points.iter().map(|x| function(*x)).collect();
    let mut most = values.first().copied().unwrap_or(0.0);
    for (i, value) in values.iter().enumerate() {
        if value.is_nan() {
            return f64::NAN;
        }
        let [left, right] = [i.saturating_sub(1), (i + 1).min(values.len() - 1)];
        most = most.max(*value);
        if *value >= values[left] && *value >= values[right] && *value > 0.9 * most {
            most = most.max(golden(function, [points[left], points[right]]).1);
        }
    }
    most
}

/// Leaves `count` errors with alternating signs, the largest among them.
fn reduce(extrema: &mut Vec<(f64, f64)>, count: usize) {
    while extrema.len() > count {
        let (last, excess) = (extrema.len() - 1, extrema.len() - count);
        let size = |i: usize| extrema[i].1.abs();
        let smallest = (0..=last).min_by(|i, j| size(*i).total_cmp(&size(*j))).unwrap_or(0);
        if excess == 1 {
            extrema.remove(if size(0) < size(last) { 0 } else { last });
        } else if smallest == 0 || smallest == last {
            extrema.remove(smallest);
        } else {
            // its smaller neighbour goes too, so that signs still alternate
            let first = if size(smallest - 1) < size(smallest + 1) { smallest - 1 } else { smallest };
            extrema.drain(first..first + 2);
        }
    }
}
