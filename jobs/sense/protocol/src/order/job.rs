//! Jobs: the plan of a window's computation.

use super::{MAX_OUTPUTS, Order, OrderError};
use crate::exact::{self, ExactPlan};
use crate::linear::{self, LinearPlan, PlanError, Term};
use crate::setting::Setting;
use std::collections::{BTreeMap, BTreeSet};

/// The sums of a group. For each measure (once for sums straight from frames), it lists the outputs
/// that add up to the sum, each with the block if blocks stay apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of the group; with results by device, the device's first number in the order.
    pub group: usize,
    /// The number of devices with a weight other than 0.
    pub devices: u32,
    /// The number of their frames.
    pub frames: u64,
    /// The sum of the weights of those frames.
    pub weight: i64,
    /// The outputs by measure.
    pub outputs: Vec<Vec<(usize, Option<usize>)>>,
}

/// The plan of a job.
pub enum JobPlan {
    /// Sums straight from frames.
    Linear(LinearPlan),
    /// Sums of functions of bytes.
    Exact(ExactPlan),
}

/// The computation for a window.
pub struct Job {
    /// The plan of the sums.
    pub plan: JobPlan,
    /// The fleet's cohorts, by their numbers in the plan.
    pub cohorts: Vec<usize>,
    /// The cohort of the fleet and the rank of the frame among its device's frames, by batch number
    /// in the plan.
    pub batches: Vec<(usize, u32)>,
    /// The answers of the job.
    pub answers: Vec<Answer>,
    /// Groups with too few devices.
    pub too_few: Vec<usize>,
}

impl Job {
    /// The number of results.
    pub fn outputs(&self) -> usize {
        match &self.plan {
            JobPlan::Linear(plan) => plan.outputs().len(),
            JobPlan::Exact(plan) => plan.outputs().len(),
        }
    }
}

/// A frame of a group: the device's place, the frame's rank among its device's frames, and the
/// weight.
pub(super) type Frame = (usize, u32, i64);

/// A plan under construction.
pub(super) struct Builder<'a> {
    order: &'a Order,
    blocks: usize,
    /// The device of each place.
    devices: BTreeMap<usize, u32>,
    cohorts: Vec<usize>,
    batches: Vec<(usize, u32)>,
    terms: Vec<Term>,
    known: BTreeMap<Term, usize>,
    linear: Vec<linear::Output>,
    exact: Vec<exact::Output>,
}

impl<'a> Builder<'a> {
    /// Numbers the cohorts and batches in use.
    pub(super) fn new(order: &'a Order, blocks: usize, devices: BTreeMap<usize, u32>, places: &[Vec<Frame>]) -> Self {
        let of = |(place, frames, _): &Frame| (place / blocks, *frames);
        let mut most: BTreeMap<usize, u32> = BTreeMap::new();
        for (cohort, frames) in places.iter().flatten().map(of) {
            let entry = most.entry(cohort).or_default();
            *entry = frames.max(*entry);
        }
        let cohorts = most.keys().copied().collect();
        let mut batches: Vec<(usize, u32)> =
            most.iter().flat_map(|(cohort, frames)| (0..*frames).map(move |time| (*cohort, time))).collect();
        batches.sort_unstable_by_key(|(cohort, time)| (*time, *cohort));
        let (terms, known, linear, exact) = Default::default();
        Self { order, blocks, devices, cohorts, batches, terms, known, linear, exact }
    }

    pub(super) fn answers(&mut self, places: &[Vec<Frame>]) -> Vec<Answer> {
        if self.order.by_device {
            return self.by_device(&places[0]);
        }
        let mut answers = Vec::new();
        for (group, devices) in places.iter().enumerate().filter(|(_, devices)| !devices.is_empty()) {
            let last = devices.iter().map(|device| device.1).max().unwrap_or(0);
            let mut frames: Vec<Frame> = Vec::new();
            for time in 0..last {
                let there = devices.iter().filter(|device| time < device.1);
                frames.extend(there.map(|(place, _, weight)| (*place, time, *weight)));
            }
            let part = self.order.part.map_or(usize::MAX, |part| part as usize);
            let mut outputs = vec![Vec::new(); self.order.measures.len().max(1)];
            for chunk in frames.chunks(part) {
                let weights = self.weights(chunk);
                for (measure, output) in self.outputs(&weights, false).into_iter().enumerate() {
                    outputs[measure].push((output, None));
                }
            }
            let weight = frames.iter().map(|frame| frame.2).fold(0, i64::saturating_add);
            let count = devices.iter().map(|device| self.devices[&device.0]).collect::<BTreeSet<u32>>().len();
            answers.push(Answer { group, devices: count as u32, frames: frames.len() as u64, weight, outputs });
        }
        answers
    }

    /// One output for each cohort, which keeps its places apart. A device with several places adds
    /// them up.
    fn by_device(&mut self, devices: &[Frame]) -> Vec<Answer> {
        let mut cohorts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for cohort in self.cohorts.clone() {
            let of = devices.iter().filter(|device| device.0 / self.blocks == cohort);
            let frames: Vec<Frame> =
                of.flat_map(|(place, frames, weight)| (0..*frames).map(move |time| (*place, time, *weight))).collect();
            let weights = self.weights(&frames);
            let outputs = self.outputs(&weights, true);
            cohorts.insert(cohort, outputs);
        }
        let mut answers: BTreeMap<u32, Answer> = BTreeMap::new();
        for (place, frames, weight) in devices {
            let number = self.devices[place];
            let measures = vec![Vec::new(); self.order.measures.len().max(1)];
            let none = Answer { group: number as usize, devices: 1, frames: 0, weight: 0, outputs: measures };
            let answer = answers.entry(number).or_insert(none);
            answer.frames += u64::from(*frames);
            answer.weight = answer.weight.saturating_add(weight.saturating_mul(i64::from(*frames)));
            for (measure, output) in cohorts.get(&(place / self.blocks)).into_iter().flatten().enumerate() {
                answer.outputs[measure].push((*output, Some(place % self.blocks)));
            }
        }
        answers.into_values().collect()
    }

    /// The weights by block, for each batch with any of these frames.
    fn weights(&self, frames: &[Frame]) -> BTreeMap<usize, Vec<i64>> {
        let mut batches: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for (place, time, weight) in frames {
            let key = (*time, place / self.blocks);
            // batches are sorted by this key, and every frame is in one
            let Ok(batch) = self.batches.binary_search_by_key(&key, |(cohort, time)| (*time, *cohort)) else {
                continue;
            };
            batches.entry(batch).or_insert_with(|| vec![0; self.blocks])[place % self.blocks] = *weight;
        }
        batches
    }

    /// Adds the outputs of a sum, one for each measure, and returns their numbers.
    fn outputs(&mut self, batches: &BTreeMap<usize, Vec<i64>>, by_block: bool) -> Vec<usize> {
        if self.order.measures.is_empty() {
            let terms = batches.iter().map(|(batch, weights)| self.term(*batch, weights)).collect();
            self.linear.push(linear::Output { terms, by_block });
            return vec![self.linear.len() - 1];
        }
        let terms: Vec<(usize, Vec<i64>)> = batches.iter().map(|(batch, weights)| (*batch, weights.clone())).collect();
        let first = self.exact.len();
        for taken in &self.order.measures {
            self.exact.push(exact::Output { measure: taken.measure(), terms: terms.clone(), by_block });
        }
        (first..self.exact.len()).collect()
    }

    fn term(&mut self, batch: usize, weights: &[i64]) -> usize {
        let cohort = self.cohorts.binary_search(&self.batches[batch].0).unwrap_or(0);
        let term = Term { cohort, batch, weights: weights.to_vec() };
        *self.known.entry(term).or_insert_with_key(|term| {
            self.terms.push(term.clone());
            self.terms.len() - 1
        })
    }

    pub(super) fn job(self, setting: &Setting, answers: Vec<Answer>, too_few: Vec<usize>) -> Result<Job, OrderError> {
        let found = self.linear.len() + self.exact.len();
        if found > MAX_OUTPUTS {
            return Err(PlanError::Shape { expected: "at most 16384 results of a question", found }.into());
        }
        let Self { cohorts, batches, terms, linear, exact, .. } = self;
        let plan = if setting.profile.is_linear() {
            JobPlan::Linear(LinearPlan::new(setting.scheme, setting.layout, terms, linear, u8::MAX)?)
        } else {
            let of = batches.iter().map(|(cohort, _)| cohorts.binary_search(cohort).unwrap_or(0)).collect();
            JobPlan::Exact(ExactPlan::new(setting.scheme, setting.layout, of, exact)?)
        };
        Ok(Job { plan, cohorts, batches, answers, too_few })
    }
}
