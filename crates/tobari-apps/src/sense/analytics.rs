//! Questions about a fleet as terms and outputs of plans, and answers from the sums that come out.
//!
//! | question | what is summed |
//! |---|---|
//! | count, sum, mean, weighted sum | readings |
//! | variance | readings, and squares by their two bytes: a device sends those beside the reading ([`product_bytes`]), or the exact path takes them ([`Measure`]) |
//! | covariance | the same of a product of two readings |
//! | histogram, count above a threshold, alarm | the exact path's measures; or a device sends ones and zeros |
//! | by device, by tenant | groups |
//! | tumbling and sliding windows | ranges of time |
//!
//! Everything is an exact integer, or a fraction of two. **A group too large for one sum is refused**, unless the question declares parts: then each part is a result of its own, which the key holder sees, and the answer is their sum.

use super::exact::{self, Measure};
use super::linear::{Output, Term};
use std::collections::BTreeMap;
use std::ops::Range;

/// Devices and their places: device `d` is in block `d mod B` of cohort `⌊d/B⌋`; its frame of time `s` is in batch `s C + ⌊d/B⌋`, there being `C` cohorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// How many devices.
    pub devices: usize,
    /// Blocks of a ciphertext, one at least.
    pub blocks: usize,
}

impl Fleet {
    /// How many cohorts.
    pub fn cohorts(&self) -> usize {
        self.devices.div_ceil(self.blocks)
    }

    /// A device's cohort and block.
    pub fn place(&self, device: usize) -> (usize, usize) {
        (device / self.blocks, device % self.blocks)
    }

    /// The cohort of each batch, of so many times.
    pub fn batches(&self, times: usize) -> Vec<usize> {
        (0..times).flat_map(|_| 0..self.cohorts()).collect()
    }

    /// The batch of a cohort's frames at a time.
    pub fn batch(&self, cohort: usize, time: usize) -> usize {
        time * self.cohorts() + cohort
    }
}

/// Sums of readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Devices that are summed together, each once in a group.
    pub groups: Vec<Vec<usize>>,
    /// Times that are summed together.
    pub windows: Vec<Range<usize>>,
    /// By device; all 1 if there are none.
    pub weights: Option<Vec<i64>>,
    /// Most frames of a released sum; more make parts, each a result that the key holder sees. None for one sum whatever its size.
    pub part: Option<usize>,
}

/// Where the sums of a group and a window are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which group.
    pub group: usize,
    /// Which window.
    pub window: usize,
    /// Which outputs: their sum is the answer.
    pub outputs: Range<usize>,
    /// How many frames are in it.
    pub count: u64,
}

/// A question as a plan takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Terms.
    pub terms: Vec<Term>,
    /// Outputs.
    pub outputs: Vec<Output>,
    /// What they answer: window by window, group by group. A group that has no frame in a window has no answer there.
    pub answers: Vec<Answer>,
}

impl Asked {
    /// The same sums of a measure, for the exact path: in the order of the outputs.
    pub fn measured(&self, measure: Measure) -> impl Iterator<Item = exact::Output> {
        let term = |term: &usize| (self.terms[*term].batch, self.terms[*term].weights.clone());
        self.outputs.iter().map(move |output| {
            let terms = output.terms.iter().map(term).collect();
            exact::Output { measure, terms, by_block: output.by_block }
        })
    }
}

/// Windows of a length, one after another; the last one may be cut short.
pub fn tumbling(times: usize, length: usize) -> Vec<Range<usize>> {
    sliding(times, length, length)
}

/// Windows of a length that begin every `by` times; those that would be cut short at the end begin no other than the first.
pub fn sliding(times: usize, length: usize, by: usize) -> Vec<Range<usize>> {
    let (length, by) = (length.max(1), by.max(1));
    let starts = (0..times).step_by(by).filter(|start| *start == 0 || start + length <= times || by == length);
    starts.map(|start| start..(start + length).min(times)).collect()
}

impl Question {
    /// Of the whole fleet, over all of these times.
    pub fn total(fleet: &Fleet, times: usize) -> Self {
        Self { groups: vec![(0..fleet.devices).collect()], windows: tumbling(times, times), weights: None, part: None }
    }

    /// As terms and outputs; `present` says which device has a frame at which time. Batches that several outputs use with the same weights are one term.
    pub fn ask(&self, fleet: &Fleet, present: impl Fn(usize, usize) -> bool) -> Asked {
        let (mut asked, mut known) = (Asked::default(), BTreeMap::new());
        for (window, times) in self.windows.iter().enumerate() {
            for (group, devices) in self.groups.iter().enumerate() {
                let frames: Vec<(usize, usize)> = times
                    .clone()
                    .flat_map(|time| devices.iter().map(move |device| (*device, time)))
                    .filter(|(device, time)| *device < fleet.devices && present(*device, *time))
                    .collect();
                let first = asked.outputs.len();
                for part in frames.chunks(self.part.unwrap_or(usize::MAX).max(1)) {
                    let terms = self.terms(fleet, part, &mut asked.terms, &mut known);
                    asked.outputs.push(Output { terms, by_block: false });
                }
                let (outputs, count) = (first..asked.outputs.len(), frames.len() as u64);
                if count > 0 {
                    asked.answers.push(Answer { group, window, outputs, count });
                }
            }
        }
        asked
    }

    /// The terms of some frames: their numbers, those that are new added to the list.
    fn terms(
        &self,
        fleet: &Fleet,
        frames: &[(usize, usize)],
        terms: &mut Vec<Term>,
        known: &mut BTreeMap<Term, usize>,
    ) -> Vec<usize> {
        let mut batches: BTreeMap<usize, Term> = BTreeMap::new();
        for (device, time) in frames {
            let (cohort, block) = fleet.place(*device);
            let batch = fleet.batch(cohort, *time);
            let term = batches.entry(batch).or_insert_with(|| Term { cohort, batch, weights: vec![0; fleet.blocks] });
            let weight = self.weights.as_ref().map_or(1, |weights| weights.get(*device).copied().unwrap_or(0));
            term.weights[block] += weight;
        }
        let number = |term: Term| {
            *known.entry(term.clone()).or_insert_with(|| {
                terms.push(term);
                terms.len() - 1
            })
        };
        batches.into_values().map(number).collect()
    }
}

/// A sum, and of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// Readings.
    pub count: i128,
    /// Their sum.
    pub sum: i128,
    /// The sum of their squares.
    pub squares: i128,
}

/// An exact quotient of integers; whoever shows it rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    /// Above.
    pub numerator: i128,
    /// Below: positive.
    pub denominator: i128,
}

impl Fraction {
    /// As a double.
    pub fn value(&self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl Moments {
    /// From sums of readings and of the two bytes of their squares.
    pub fn of(count: u64, sum: i64, [high, low]: [i64; 2]) -> Self {
        Self { count: count.into(), sum: sum.into(), squares: 256 * i128::from(high) + i128::from(low) }
    }

    /// The mean; none of nothing.
    pub fn mean(&self) -> Option<Fraction> {
        (self.count > 0).then_some(Fraction { numerator: self.sum, denominator: self.count })
    }

    /// The variance, of the whole and not of a sample: `(n Σx² - (Σx)²)/n²`; none of nothing.
    pub fn variance(&self) -> Option<Fraction> {
        let numerator = self.count * self.squares - self.sum * self.sum;
        (self.count > 0).then_some(Fraction { numerator, denominator: self.count * self.count })
    }
}

/// The covariance `(n Σxy - Σx Σy)/n²`, from sums of the readings and of the two bytes of their products; none of nothing.
pub fn covariance(count: u64, [x, y]: [i64; 2], [high, low]: [i64; 2]) -> Option<Fraction> {
    let (count, products) = (i128::from(count), 256 * i128::from(high) + i128::from(low));
    let numerator = count * products - i128::from(x) * i128::from(y);
    (count > 0).then_some(Fraction { numerator, denominator: count * count })
}

/// The two bytes of a product, high and low: what a device sends for variances and covariances by sums alone.
pub fn product_bytes(x: u8, y: u8) -> [u8; 2] {
    (u16::from(x) * u16::from(y)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_tumble_and_slide() {
        assert_eq!(tumbling(7, 3), [0..3, 3..6, 6..7]);
        assert_eq!(sliding(7, 3, 2), [0..3, 2..5, 4..7]);
        assert_eq!(sliding(2, 5, 1), tumbling(2, 2));
        assert_eq!((tumbling(0, 3).len(), sliding(3, 0, 0).len()), (0, 3));
    }

    #[test]
    fn terms_are_shared_by_windows_and_parts_hold_no_more_than_was_declared() {
        let fleet = Fleet { devices: 10, blocks: 4 };
        let mut question = Question::total(&fleet, 4);
        question.windows = sliding(4, 2, 1);
        let asked = question.ask(&fleet, |_, _| true);
        assert_eq!((asked.terms.len(), asked.outputs.len()), (12, 3), "three cohorts at four times");
        assert!(asked.outputs.iter().all(|output| output.terms.len() == 6));
        assert!(asked.answers.iter().all(|answer| answer.count == 20));
        let parts = Question { part: Some(7), ..question }.ask(&fleet, |device, time| device + time != 3);
        assert_eq!(parts.answers.iter().map(|answer| answer.count).collect::<Vec<_>>(), [18, 18, 18]);
        for output in &parts.outputs {
            let frames: i64 = output.terms.iter().map(|term| parts.terms[*term].weights.iter().sum::<i64>()).sum();
            assert!((1..=7).contains(&frames));
        }
        let groups = Question { groups: vec![vec![0, 5], vec![], vec![99]], ..Question::total(&fleet, 1) };
        let asked = groups.ask(&fleet, |_, _| true);
        assert_eq!((asked.outputs.len(), asked.answers.len()), (1, 1), "nobody's sum is no result");
    }

    #[test]
    fn moments_are_those_of_the_definition() {
        let x = [3u8, 255, 0, 255, 17];
        let bytes = |index: usize| x.iter().map(|x| i64::from(product_bytes(*x, *x)[index])).sum::<i64>();
        let sum: i64 = x.iter().map(|x| i64::from(*x)).sum();
        let moments = Moments::of(5, sum, [bytes(0), bytes(1)]);
        let mean = sum as f64 / 5.0;
        let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / 5.0;
        assert!((moments.mean().map_or(0.0, |mean| mean.value()) - mean).abs() < 1e-12);
        assert!((moments.variance().map_or(0.0, |variance| variance.value()) - variance).abs() < 1e-9);
        assert_eq!(covariance(5, [sum, sum], [bytes(0), bytes(1)]), moments.variance());
        assert_eq!((Moments::default().mean(), covariance(0, [0, 0], [0, 0])), (None, None));
    }
}
