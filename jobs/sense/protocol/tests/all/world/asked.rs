//! Sums over devices and times as terms and outputs of plans, for tests of plans alone. A real
//! server gets an `Order`.

use std::collections::BTreeMap;
use std::ops::Range;
use tobari_sense::exact::{self, Measure};
use tobari_sense::linear::{Output, Term};

/// Devices and their places: device `d` is in block `d mod B` of cohort `⌊d/B⌋`. Its frame of time
/// `s` is in batch `s C + ⌊d/B⌋`, with `C` cohorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fleet {
    /// The number of devices.
    pub(crate) devices: usize,
    /// Blocks of a ciphertext, at least one.
    pub(crate) blocks: usize,
}

impl Fleet {
    /// The number of cohorts.
    pub(crate) fn cohorts(&self) -> usize {
        self.devices.div_ceil(self.blocks)
    }

    /// A device's cohort and block.
    pub(crate) fn place(&self, device: usize) -> (usize, usize) {
        (device / self.blocks, device % self.blocks)
    }

    /// The cohort of each batch, for this many times.
    pub(crate) fn batches(&self, times: usize) -> Vec<usize> {
        (0..times).flat_map(|_| 0..self.cohorts()).collect()
    }

    /// The batch of a cohort's frames at a time.
    pub(crate) fn batch(&self, cohort: usize, time: usize) -> usize {
        time * self.cohorts() + cohort
    }
}

/// Sums of readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Groups of devices that are summed together; each device is at most once in a group.
    pub(crate) groups: Vec<Vec<usize>>,
    /// Ranges of times that are summed together.
    pub(crate) windows: Vec<Range<usize>>,
    /// Weights by device; `None` means that all are 1.
    pub(crate) weights: Option<Vec<i64>>,
    /// The largest number of frames of a released sum. More frames make parts, and the key holder
    /// sees the result of each part. `None` means one sum of any size.
    pub(crate) part: Option<usize>,
}

/// The outputs with the sums of a group and a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The number of the group.
    pub(crate) group: usize,
    /// The number of the window.
    pub(crate) window: usize,
    /// The outputs, whose sum is the answer.
    pub(crate) outputs: Range<usize>,
    /// The number of frames in the answer.
    pub(crate) count: u64,
}

/// A question in terms of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Terms.
    pub(crate) terms: Vec<Term>,
    /// Outputs.
    pub(crate) outputs: Vec<Output>,
    /// The answers, window by window and group by group. A group without a frame in a window has no
    /// answer there.
    pub(crate) answers: Vec<Answer>,
}

impl Asked {
    /// The same sums of a measure for the exact path, in the order of the outputs.
    pub(crate) fn measured(&self, measure: Measure) -> impl Iterator<Item = exact::Output> {
        let term = |term: &usize| (self.terms[*term].batch, self.terms[*term].weights.clone());
        self.outputs.iter().map(move |output| {
            let terms = output.terms.iter().map(term).collect();
            exact::Output { measure, terms, by_block: output.by_block }
        })
    }
}

/// Windows of a length that begin every `by` times. Windows that would be cut short at the end are
/// left out, except the first one, and the last one of adjacent windows (`by == length`).
pub(crate) fn sliding(times: usize, length: usize, by: usize) -> Vec<Range<usize>> {
    let (length, by) = (length.max(1), by.max(1));
    let starts = (0..times).step_by(by).filter(|start| *start == 0 || start + length <= times || by == length);
    starts.map(|start| start..(start + length).min(times)).collect()
}

impl Question {
    /// A question about the whole fleet, over all of these times.
    pub(crate) fn total(fleet: &Fleet, times: usize) -> Self {
        Self {
            groups: vec![(0..fleet.devices).collect()],
            windows: std::iter::once(0..times).collect(),
            weights: None,
            part: None,
        }
    }

    /// The question's terms and outputs; `present` tells whether a device has a frame at a time.
    /// Batches that several outputs use with the same weights are one term.
    pub(crate) fn ask(&self, fleet: &Fleet, present: impl Fn(usize, usize) -> bool) -> Asked {
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

    /// The numbers of the terms for these frames; new terms are added to the list.
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
