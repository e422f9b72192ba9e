//! Sums over devices and times as terms and outputs of plans, for tests of those alone: what a
//! server is told is an `Order`.

use std::collections::BTreeMap;
use std::ops::Range;
use tobari_sense::exact::{self, Measure};
use tobari_sense::linear::{Output, Term};

/// Devices and their places: device `d` is in block `d mod B` of cohort `⌊d/B⌋`; its frame of time
/// `s` is in batch `s C + ⌊d/B⌋`, there being `C` cohorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fleet {
    /// How many devices.
    pub(crate) devices: usize,
    /// Blocks of a ciphertext, one at least.
    pub(crate) blocks: usize,
}

impl Fleet {
    /// How many cohorts.
    pub(crate) fn cohorts(&self) -> usize {
        self.devices.div_ceil(self.blocks)
    }

    /// A device's cohort and block.
    pub(crate) fn place(&self, device: usize) -> (usize, usize) {
        (device / self.blocks, device % self.blocks)
    }

    /// The cohort of each batch, of so many times.
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
    /// Devices that are summed together, each once in a group.
    pub(crate) groups: Vec<Vec<usize>>,
    /// Times that are summed together.
    pub(crate) windows: Vec<Range<usize>>,
    /// By device; all 1 if there are none.
    pub(crate) weights: Option<Vec<i64>>,
    /// Most frames of a released sum; more make parts, each a result that the key holder sees. None
    /// for one sum whatever its size.
    pub(crate) part: Option<usize>,
}

/// Where the sums of a group and a window are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Which group.
    pub(crate) group: usize,
    /// Which window.
    pub(crate) window: usize,
    /// Which outputs: their sum is the answer.
    pub(crate) outputs: Range<usize>,
    /// How many frames are in it.
    pub(crate) count: u64,
}

/// A question as a plan takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Terms.
    pub(crate) terms: Vec<Term>,
    /// Outputs.
    pub(crate) outputs: Vec<Output>,
    /// What they answer: window by window, group by group. A group that has no frame in a window
    /// has no answer there.
    pub(crate) answers: Vec<Answer>,
}

impl Asked {
    /// The same sums of a measure, for the exact path: in the order of the outputs.
    pub(crate) fn measured(&self, measure: Measure) -> impl Iterator<Item = exact::Output> {
        let term = |term: &usize| (self.terms[*term].batch, self.terms[*term].weights.clone());
        self.outputs.iter().map(move |output| {
            let terms = output.terms.iter().map(term).collect();
            exact::Output { measure, terms, by_block: output.by_block }
        })
    }
}

/// Windows of a length that begin every `by` times; those that would be cut short at the end begin
/// no other than the first.
pub(crate) fn sliding(times: usize, length: usize, by: usize) -> Vec<Range<usize>> {
    let (length, by) = (length.max(1), by.max(1));
    let starts = (0..times).step_by(by).filter(|start| *start == 0 || start + length <= times || by == length);
    starts.map(|start| start..(start + length).min(times)).collect()
}

impl Question {
    /// Of the whole fleet, over all of these times.
    pub(crate) fn total(fleet: &Fleet, times: usize) -> Self {
        Self {
            groups: vec![(0..fleet.devices).collect()],
            windows: std::iter::once(0..times).collect(),
            weights: None,
            part: None,
        }
    }

    /// As terms and outputs; `present` says which device has a frame at which time. Batches that
    /// several outputs use with the same weights are one term.
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
