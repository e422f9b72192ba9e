//! Functions with kinks by the approximate sign.
//!
//! With `S` of [`sign`](super::sign) in place of the sign, the form of [`pieces`](super::pieces)
//! has an error of at most
//!
//! ```text
//! Σ_i |w_i(t)| |S(t - t_i) - sign(t - t_i)|,     w_i = (q_i - q_(i-1))/2.
//! ```
//!
//! The second factor is at most `E` from the edge on, and is evaluated between the edges. So the
//! bound is proven up to rounding errors and the grid for its maximum.
//!
//! **Frame.** `x = center + radius t` such that all `|t|` and `|t - t_i|` are at most 1: stages
//! take `t - t_i`, a ciphertext and a constant, at no level. The center is the kink, or the middle
//! of the first and last kink.

use super::pieces::Pieces;
use super::sign::Sign;
use super::single::{Found, Problem};
use super::table::{Row, TABLE};
use super::{Approximation, ApproximationError, Cost, Gate, Limits, remez, series};
use crate::graph::Activation;

/// Steps of the search for an edge.
const STEPS: usize = 16;

/// The form without signs.
pub(super) struct Form {
    low: f64,
    high: f64,
    center: f64,
    radius: f64,
    /// A series in `t`.
    base: Vec<f64>,
    /// Its error.
    error: f64,
    /// Kinks in `t`, and the series `w_i`.
    kinks: Vec<(f64, Vec<f64>)>,
    /// The largest sum of all `|w_i|`.
    weight: f64,
}

impl Form {
    /// The form of a function with kinks; none without kinks. The exponential linear unit becomes a
    /// polynomial within this tolerance, or the most precise one.
    pub(super) fn new(
        pieces: &Pieces,
        [low, high]: [f64; 2],
        tolerance: f64,
        limits: &Limits,
    ) -> Result<Option<Self>, ApproximationError> {
        let [Some(first), Some(last)] = [pieces.kinks.first(), pieces.kinks.last()] else { return Ok(None) };
        let (center, radius) = ((first + last) / 2.0, (high - first).max(last - low));
        let in_t = |quadratic: [f64; 3]| series::of_quadratic(quadratic, center, radius);
        let half = |a: &[f64; 3], b: &[f64; 3], sign: f64| in_t([0, 1, 2].map(|k| (a[k] + sign * b[k]) / 2.0));
        let steps = pieces.quadratics.windows(2).map(|pair| half(&pair[1], &pair[0], -1.0));
        let kinks: Vec<(f64, Vec<f64>)> = pieces.kinks.iter().map(|kink| (kink - center) / radius).zip(steps).collect();
        let [q, .., r] = &pieces.quadratics[..] else { return Ok(None) };
        let mut form = Self { low, high, center, radius, base: half(q, r, 1.0), error: 0.0, kinks, weight: 0.0 };
        if pieces.unit != 0.0 {
            let unit = Activation::Elu { alpha: 1.0 };
            let problem = Problem { activation: unit, low: center - radius, high: center + radius, kinks: &[] };
            let mut found = problem.search(tolerance / pieces.unit.abs(), limits)?;
            if found.cheapest.is_none() {
                problem.most_precise(limits, &mut found)?;
            }
            let Some(found) = found.cheapest.or(found.best) else { return Ok(None) };
            let scaled: Vec<f64> = found.base.iter().map(|c| c * pieces.unit).collect();
            form.base = series::sum(&form.base, &scaled);
            form.error = found.error * pieces.unit.abs();
        }
        let sum = |t: f64| form.kinks.iter().map(|(_, weight)| series::value(weight, t).abs()).sum::<f64>();
        form.weight = remez::largest(&sum, &remez::subdivide(form.marks(&[0.0]), 64));
        Ok(Some(form))
    }

    /// The ends, and the places at these distances from each kink, within the range.
    fn marks(&self, distances: &[f64]) -> Vec<f64> {
        let [low, high] = self.ends();
        let around = |(kink, _): &(f64, Vec<f64>)| {
            let kink = *kink;
            distances.iter().flat_map(move |d| [kink - d, kink + d]).collect::<Vec<f64>>()
        };
        let inside = self.kinks.iter().flat_map(around).filter(|t| low < *t && *t < high);
        inside.chain([low, high]).collect()
    }

    /// Offers the cheapest approximation within the tolerance and the limits, or else the most
    /// precise one within the limits. Says whether nothing is left to find.
    pub(super) fn search(&self, tolerance: f64, limits: &Limits, found: &mut Found) -> bool {
        let allowed = |row: &&Row| {
            row.degrees.iter().all(|degree| *degree <= limits.degree) && {
                let cost = self.cost(row);
                cost.depth <= limits.depth && cost.products <= limits.products
            }
        };
        let rows: Vec<&Row> = TABLE.iter().filter(allowed).collect();
        let hopeful = |row: &&&Row| row.error <= self.hardest(tolerance - self.error);
        for row in rows.iter().filter(hopeful) {
            if found.cheapest.as_ref().is_some_and(|cheapest| cheapest.cost() <= self.cost(row)) {
                return true;
            }
            if self.with(row.degrees).is_some_and(|candidate| found.offer(candidate, tolerance)) {
                return true;
            }
        }
        if found.cheapest.is_none()
            && let Some(row) = rows.iter().min_by(|a, b| a.error.total_cmp(&b.error))
            && let Some(candidate) = self.with(row.degrees)
        {
            return found.offer(candidate, tolerance);
        }
        found.cheapest.is_some()
    }

    fn cost(&self, row: &Row) -> Cost {
        let degree = series::degree(&self.base);
        let square = degree < 2 && self.kinks.iter().any(|(_, weight)| series::degree(weight) > 1);
        let base = series::products(&self.base) + usize::from(square);
        Cost {
            depth: (row.depth() + 1).max(series::levels(degree)),
            products: self.kinks.len() * (row.products() + 1) + base,
        }
    }

    /// No composition whose error for `max(u, 0)` on [-1, 1] is larger reaches the tolerance. If a
    /// factor is at least `2c` times `u/2` near its kink and at the end of the range, the error is
    /// at least `2c` times as large.
    fn hardest(&self, tolerance: f64) -> f64 {
        let [low, high] = self.ends();
        let strength = |(kink, weight): &(f64, Vec<f64>)| {
            let far = if high - kink > kink - low { high } else { low };
            let slope = series::value(weight, kink + 1e-6).abs() / 1e-6;
            (slope * (far - kink).abs()).min(series::value(weight, far).abs())
        };
        let strongest = self.kinks.iter().map(strength).fold(0.0, f64::max);
        // the table's errors are rounded
        1.05 * tolerance / (2.0 * strongest)
    }

    /// The range in `t`.
    fn ends(&self) -> [f64; 2] {
        [self.low, self.high].map(|x| (x - self.center) / self.radius)
    }

    /// The approximation by a composition of these degrees, with the best edge. None if no edge is
    /// found.
    pub(super) fn with(&self, degrees: &[usize]) -> Option<Approximation> {
        // ln(near/far): where positive, a smaller edge is better
        let balance = |sign: &Sign| (self.near(sign) / (self.weight * sign.error())).ln();
        let [mut small, mut large] = [-22.0, -0.25];
        let mut best: Option<(Sign, f64)> = None;
        for _ in 0..STEPS {
            let middle: f64 = (small + large) / 2.0;
            let sign = Sign::new(degrees, middle.exp2()).ok();
            // no sign: its error is as small as rounding errors
            let Some(sign) = sign else {
                large = middle;
                continue;
            };
            let balance = balance(&sign);
            if balance > 0.0 {
                large = middle;
            } else {
                small = middle;
            }
            if best.as_ref().is_none_or(|(_, found)| balance.abs() < found.abs()) {
                best = Some((sign, balance));
            }
            if balance.abs() < 0.002 {
                break;
            }
        }
        best.map(|(sign, _)| self.assemble(&sign))
    }

    /// The largest error within the edges of one kink.
    fn near(&self, sign: &Sign) -> f64 {
        let gap = |(kink, weight): &(f64, Vec<f64>)| {
            let error = |u: f64| {
                let size = |t: f64| series::value(weight, t).abs();
                size(kink + u).max(size(kink - u)) * (1.0 - sign.value(u))
            };
            remez::largest(&error, &remez::subdivide(vec![0.0, sign.edge()], 32))
        };
        self.kinks.iter().map(gap).fold(0.0, f64::max)
    }

    fn assemble(&self, sign: &Sign) -> Approximation {
        let gate =
            |(shift, factor): &(f64, Vec<f64>)| Gate { factor: factor.clone(), shift: *shift, sign: sign.clone() };
        let gates = self.kinks.iter().map(gate).collect();
        let mut found = Approximation::new(self.center, self.radius, self.base.clone(), gates);
        let off = |u: f64| if u < sign.edge() { (1.0 - sign.value(u)).abs() } else { sign.error() };
        let bound = |t: f64| {
            self.kinks.iter().map(|(kink, weight)| series::value(weight, t).abs() * off((t - kink).abs())).sum::<f64>()
        };
        let points = remez::subdivide(self.marks(&[0.0, sign.edge()]), 256);
        let rounding = (self.weight + self.base.iter().map(|c| c.abs()).sum::<f64>()) * 2f64.powi(-44);
        found.error = remez::largest(&bound, &points) * (1.0 + 1e-6) + self.error + rounding;
        found
    }
}
