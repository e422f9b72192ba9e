//! One minimax polynomial for a function on a range.
//!
//! **Frames.** A frame is a center and a radius: `x = center + radius t`, for `t` in [-1, 1]. The
//! range itself is one frame. A function can be symmetric around a center, up to a line. Then the
//! smallest symmetric range is another frame: even and odd polynomials take fewer products for the
//! same degree. For example, `max(x, 0)` is `x/2` plus an even function, and the sigmoid is `1/2`
//! plus an odd one. The cheaper frame is chosen.
//!
//! **Degrees.** All degrees from `2^(l-1)` to `2^l - 1` take `l` levels. For the fewest levels, the
//! highest degree of each `l` is tried. Among the degrees with this `l`, the fewest products are
//! chosen, and then the highest degree.

use super::remez::{self, Terms};
use super::{Approximation, ApproximationError, Cost, Limits, series};
use crate::graph::Activation;
use std::collections::BTreeMap;

/// Levels of the highest degree.
const MOST_LEVELS: usize = series::levels(remez::MAX_DEGREE);

/// A function on a range.
pub(super) struct Problem<'a> {
    pub(super) activation: Activation,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Kinks in the range.
    pub(super) kinks: &'a [f64],
}

/// A range with the form of the polynomial.
struct Frame {
    center: f64,
    radius: f64,
    terms: Terms,
    /// `a + b t`, which the terms lack.
    line: [f64; 2],
}

/// The search's result: the cheapest polynomial within the tolerance, or the most precise one.
pub(super) struct Found {
    pub(super) cheapest: Option<Approximation>,
    pub(super) best: Option<Approximation>,
}

impl Found {
    /// Compares one more, and says whether its error is within the tolerance.
    pub(super) fn offer(&mut self, found: Approximation, tolerance: f64) -> bool {
        let within = found.error <= tolerance;
        if self.best.as_ref().is_none_or(|best| found.error < best.error) {
            self.best = Some(found.clone());
        }
        if within && self.cheapest.as_ref().is_none_or(|cheapest| found.cost() < cheapest.cost()) {
            self.cheapest = Some(found);
        }
        within
    }
}

impl Problem<'_> {
    /// Searches all frames and degrees for the cheapest polynomial.
    pub(super) fn search(&self, tolerance: f64, limits: &Limits) -> Result<Found, ApproximationError> {
        let mut found = Found { cheapest: None, best: None };
        for frame in self.frames() {
            self.search_frame(&frame, tolerance, limits, &mut found)?;
        }
        Ok(found)
    }

    /// Offers the polynomials of the highest degree within the limits.
    pub(super) fn most_precise(&self, limits: &Limits, found: &mut Found) -> Result<(), ApproximationError> {
        for frame in self.frames() {
            for levels in (0..=MOST_LEVELS.min(limits.depth)).rev() {
                let top = frame.degrees(levels, limits).into_values().max();
                if let Some(top) = top
                    && let Some(polynomial) = self.attempt(&frame, top, f64::INFINITY)?
                {
                    found.offer(polynomial, 0.0);
                    break;
                }
            }
        }
        Ok(())
    }

    /// A quadratic is its own polynomial. Its error is that of doubles.
    pub(super) fn exact(&self, quadratic: [f64; 3], tolerance: f64) -> Found {
        let (center, radius) = ((self.low + self.high) / 2.0, (self.high - self.low) / 2.0);
        let base = series::of_quadratic(quadratic, center, radius);
        let mut polynomial = Approximation::new(center, radius, base, vec![]);
        polynomial.error = self.error(&polynomial, vec![]);
        let mut found = Found { cheapest: None, best: None };
        found.offer(polynomial, tolerance);
        found
    }

    fn search_frame(
        &self,
        frame: &Frame,
        tolerance: f64,
        limits: &Limits,
        found: &mut Found,
    ) -> Result<(), ApproximationError> {
        for levels in 0..=MOST_LEVELS.min(limits.depth) {
            let degrees = frame.degrees(levels, limits);
            let least = found.cheapest.as_ref().map(Approximation::cost);
            let Some(top) = degrees.values().max() else { continue };
            if least.is_some_and(|least| least.depth < levels) {
                break;
            }
            let Some(precise) = self.attempt(frame, *top, tolerance)? else { continue };
            if !found.offer(precise, tolerance) {
                continue;
            }
            for (products, degree) in degrees {
                let worse = found.cheapest.as_ref().is_some_and(|best| best.cost() <= Cost { depth: levels, products });
                if worse {
                    break;
                }
                if let Some(cheaper) = self.attempt(frame, degree, tolerance)?
                    && found.offer(cheaper, tolerance)
                {
                    break;
                }
            }
            break;
        }
        Ok(())
    }

    /// The polynomial of one degree; none if it isn't found, or can't have so small an error.
    fn attempt(
        &self,
        frame: &Frame,
        degree: usize,
        tolerance: f64,
    ) -> Result<Option<Approximation>, ApproximationError> {
        let (terms, [a, b]) = if degree == 0 { (Terms::All, [0.0; 2]) } else { (frame.terms, frame.line) };
        let lowest = if terms == Terms::All { -1.0 } else { 0.0 };
        let function = |t: f64| self.activation.value(frame.center + frame.radius * t) - a - b * t;
        let kinks: Vec<f64> = self.kinks.iter().map(|kink| (kink - frame.center) / frame.radius).collect();
        // the range has all of one half of a symmetric frame, so the largest error is on the range
        let found = match remez::minimax_within(function, terms, degree, [lowest, 1.0], &kinks, tolerance) {
            Ok(Some(found)) => found,
            Ok(None) | Err(ApproximationError::NotConverged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let points = found.points.iter().chain(&kinks).flat_map(|t| [*t, -*t]);
        let marks: Vec<f64> = points.map(|t| frame.center + frame.radius * t).collect();
        let base = series::sum(&found.series, &[a, b]);
        let mut polynomial = Approximation::new(frame.center, frame.radius, base, vec![]);
        polynomial.error = self.error(&polynomial, marks);
        Ok(Some(polynomial))
    }

    /// The largest error, with a grid between the marks.
    pub(super) fn error(&self, found: &Approximation, mut marks: Vec<f64>) -> f64 {
        marks.extend([self.low, self.high]);
        marks.retain(|x| (self.low..=self.high).contains(x));
        let points = remez::subdivide(marks, 64);
        let size = points.iter().fold(0.0, |size: f64, x| size.max(self.activation.value(*x).abs()));
        let rounding = (size + found.base.iter().map(|c| c.abs()).sum::<f64>()) * 2f64.powi(-46);
        let error = |x: f64| (self.activation.value(x) - found.value(x)).abs();
        remez::largest(&error, &points) * (1.0 + 1e-6) + rounding
    }

    fn frames(&self) -> Vec<Frame> {
        let (center, radius) = ((self.low + self.high) / 2.0, (self.high - self.low) / 2.0);
        let plain = Frame { center, radius, terms: Terms::All, line: [0.0; 2] };
        let middle = match self.kinks {
            [] => 0.0,
            [first, .., last] => (first + last) / 2.0,
            [kink] => *kink,
        };
        if !(self.low < middle && middle < self.high) {
            return vec![plain];
        }
        let centered = (middle - center).abs() <= 1e-12 * radius;
        match self.symmetric(middle, (self.high - middle).max(middle - self.low)) {
            Some(frame) if centered => vec![frame],
            Some(frame) => vec![frame, plain],
            None => vec![plain],
        }
    }

    /// A frame with odd or even terms, where the function has this symmetry.
    fn symmetric(&self, center: f64, radius: f64) -> Option<Frame> {
        let value = |t: f64| self.activation.value(center + radius * t);
        let halves = |t: f64| ((value(t) - value(-t)) / 2.0, (value(t) + value(-t)) / 2.0);
        let (slope, constant) = ((value(1.0) - value(-1.0)) / 2.0, value(0.0));
        let samples: Vec<f64> = (1..=64).map(|j| f64::from(j) / 64.0).collect();
        let size = samples.iter().fold(0.0, |size: f64, t| size.max(value(*t).abs()).max(value(-*t).abs()));
        let small = |x: f64| x.abs() <= 1e-13 * size;
        if samples.iter().all(|t| small(halves(*t).0 - slope * t)) {
            return Some(Frame { center, radius, terms: Terms::Even, line: [0.0, slope] });
        }
        let odd = samples.iter().all(|t| small(halves(*t).1 - constant));
        odd.then_some(Frame { center, radius, terms: Terms::Odd, line: [constant, 0.0] })
    }
}

impl Frame {
    /// The degrees with this number of levels: the highest for each number of products.
    fn degrees(&self, levels: usize, limits: &Limits) -> BTreeMap<usize, usize> {
        let mut degrees = BTreeMap::new();
        let top = (1usize << levels) - 1;
        for degree in top.div_ceil(2)..=top.min(limits.degree) {
            let indices = self.terms.indices(degree);
            if degree == 0 || indices.last() == Some(&degree) {
                let mut used = vec![false; degree + 1];
                indices.iter().for_each(|k| used[*k] = true);
                if self.terms == Terms::Even && degree > 0 {
                    used[1] = true;
                }
                let products = series::products_of(&used);
                if products <= limits.products {
                    degrees.insert(products, degree);
                }
            }
        }
        degrees
    }
}
