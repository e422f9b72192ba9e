//! A server's order, and the plan that both sides derive from it.
//!
//! The key holder registers a question. The server gets an [`Order`], with device numbers and no
//! names. For a window of time the server counts its frames of each device (a **tally**). From
//! order, seats and tally both sides derive the same [`Job`]: the server computes it, and the key
//! holder learns the range of each result. When the question is registered, **an order that could
//! overflow with the largest tally is rejected**, so no frame is converted in vain.
//!
//! A device's frames of a window are taken in the order of their counters, at most `frames` of
//! them; the tally counts the frames left out. A job omits groups with fewer devices than the
//! minimum.
//!
//! **Only devices with a frame and a weight other than 0 count, and each weight of a group must
//! belong to at least the minimum number of devices.** A sum can reveal the reading of a device
//! with a unique weight: 1, 1, 1, 1, 300 over bytes reveals the fifth reading, and 1, 2, 4, 8, 16
//! over yes and no reveals all. With shared weights a sum consists of sums over at least that many
//! devices, and singles out no fewer.

use super::bounds::Overflow;
use super::exact::{self, ExactPlan, Measure};
use super::linear::{self, LinearPlan, PlanError, Term};
use super::schema::ProfileName;
use super::setting::Setting;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

/// The largest number of devices of a fleet: an eighth of the device numbers.
pub const MAX_DEVICES: usize = 1 << 21;
/// The largest number of frames of a device in a window.
pub const MAX_FRAMES: u32 = 1 << 16;
/// The largest number of groups of an order.
pub const MAX_GROUPS: usize = 1 << 12;
/// The largest number of functions of a byte in an order.
pub const MAX_MEASURES: usize = 512;
/// The largest number of results of a job.
pub const MAX_OUTPUTS: usize = 1 << 14;

/// A device's place: the cohort and block of its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The number of its key.
    pub number: u32,
    /// Whether its new frames are accepted.
    pub takes: bool,
    /// Whether its frames count in results.
    pub counts: bool,
}

/// A function of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taken {
    /// The reading itself.
    Reading,
    /// Whether the reading is above this.
    Above(u8),
    /// Whether the reading is between the first and the second, inclusive.
    Within(u8, u8),
    /// The high byte of the reading's square.
    SquareHigh,
    /// The low byte of the reading's square.
    SquareLow,
}

impl Taken {
    /// The measure of the exact path.
    pub fn measure(self) -> Measure {
        match self {
            Self::Reading => Measure::Reading,
            Self::Above(most) => Measure::Above(most),
            Self::Within(least, most) => Measure::Within(least, most),
            Self::SquareHigh => Measure::SquareHigh,
            Self::SquareLow => Measure::SquareLow,
        }
    }
}

/// A list that stops reading at the first item too many, so that no text makes a list of many times
/// its own size: `[],` would already become an empty list of 24 bytes and more.
pub(super) struct AtMost<T> {
    most: usize,
    items: PhantomData<T>,
}

impl<T> AtMost<T> {
    /// A list of at most `most` items.
    pub(super) fn new(most: usize) -> Self {
        Self { most, items: PhantomData }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} items", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() == self.most {
                return Err(A::Error::invalid_length(self.most + 1, &self));
            }
            items.push(item);
        }
        Ok(items)
    }
}

/// A field that is a list of at most `MOST` items.
pub(super) fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    AtMost::<T>::new(MOST).deserialize(deserializer)
}

/// Groups. Reading stops at the first group too many, the first empty group, or the first device
/// too many over all groups together.
struct Groups;

impl<'de> Visitor<'de> for Groups {
    type Value = Vec<Vec<u32>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_GROUPS} groups, none of them empty, of at most {MAX_DEVICES} devices in all")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut groups, mut devices): (Vec<Vec<u32>>, usize) = (Vec::new(), 0);
        while let Some(group) = list.next_element_seed(AtMost::<u32>::new(MAX_DEVICES - devices))? {
            if group.is_empty() || groups.len() == MAX_GROUPS {
                return Err(A::Error::invalid_length(groups.len() + 1, &self));
            }
            devices += group.len();
            groups.push(group);
        }
        Ok(groups)
    }
}

fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u32>>, D::Error> {
    deserializer.deserialize_seq(Groups)
}

/// The server's computation for every window of time.
///
/// Reading stops at the limit of each list: longer lists are rejected, and take no memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The profile of the frames.
    pub profile: ProfileName,
    /// The length of a window.
    pub length_ms: u64,
    /// The interval between the beginnings of windows, at its multiples since 1970.
    pub every_ms: u64,
    /// The device numbers of each group, ascending.
    #[serde(deserialize_with = "groups")]
    pub groups: Vec<Vec<u32>>,
    /// Whether every device is a separate result; then there is one group.
    #[serde(default)]
    pub by_device: bool,
    /// Weights by device number, ascending; 1 for other devices.
    #[serde(default, deserialize_with = "at_most::<_, _, MAX_DEVICES>")]
    pub weights: Vec<(u32, i64)>,
    /// New keys of devices: the number of a key, ascending, and the device's first number in the
    /// order. All numbers of a device are in one group and **count as one device**.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MAX_DEVICES>")]
    pub renewed: Vec<(u32, u32)>,
    /// The largest number of frames of a device in a window.
    pub frames: u32,
    /// The largest number of frames of a released sum. More frames make parts, and the key holder
    /// sees the result of each part.
    #[serde(default)]
    pub part: Option<u32>,
    /// The functions of readings on the exact path; empty for sums straight from frames.
    #[serde(default, deserialize_with = "at_most::<_, _, MAX_MEASURES>")]
    pub measures: Vec<Taken>,
    /// The least number of devices of a group, and of each weight in it that is not 0.
    pub least_devices: u32,
}

/// The number of frames of a device in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The device's number.
    pub number: u32,
    /// Frames in the results.
    pub frames: u32,
    /// Frames beyond the order's limit.
    pub left_out: u32,
}

/// Why there is no job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// An order with an invalid value.
    #[error("expected an order with {0}, found another")]
    Order(&'static str),
    /// A tally that no honest server makes.
    #[error("expected a tally of {0}, found another")]
    Tally(&'static str),
    /// No group has enough devices.
    #[error(
        "expected a group in which each weight other than 0 is that of {least} devices with frames, found {found} of \
         them at most"
    )]
    Empty {
        /// The least number of devices of a group.
        least: u32,
        /// The largest number of devices with frames in a group that share each weight.
        found: u32,
    },
    /// The plan failed, for example because a result could overflow.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

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

/// Of devices and their weights, the weight other than 0 that the fewest devices have, and their
/// number; `None` if all weights are 0.
fn rarest(weights: impl Iterator<Item = (u32, i64)>) -> Option<(i64, usize)> {
    let mut shared: BTreeMap<i64, BTreeSet<u32>> = BTreeMap::new();
    for (device, weight) in weights.filter(|(_, weight)| *weight != 0) {
        shared.entry(weight).or_default().insert(device);
    }
    shared.into_iter().map(|(weight, devices)| (weight, devices.len())).min_by_key(|(_, devices)| *devices)
}

/// The devices of numbers: a device with new keys has several.
pub struct Owners(BTreeMap<u32, u32>);

impl Owners {
    /// The first number of the device with this number.
    pub fn of(&self, number: u32) -> u32 {
        self.0.get(&number).copied().unwrap_or(number)
    }
}

/// A frame of a group: the device's place, the frame's rank among its device's frames, and the
/// weight.
type Frame = (usize, u32, i64);

/// A plan under construction.
struct Builder<'a> {
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

impl Order {
    /// Checks that the order is valid.
    ///
    /// # Errors
    /// [`OrderError::Order`].
    pub fn check(&self) -> Result<(), OrderError> {
        let ascending = |numbers: &[u32]| numbers.is_sorted_by(|a, b| a < b);
        let groups = (1..=MAX_GROUPS).contains(&self.groups.len())
            && self.groups.iter().all(|group| !group.is_empty() && group.len() <= MAX_DEVICES && ascending(group));
        let devices: usize = self.groups.iter().map(Vec::len).sum();
        let by_device = !self.by_device || (self.groups.len() == 1 && self.least_devices == 1 && self.part.is_none());
        let weights = self.weights.is_sorted_by(|a, b| a.0 < b.0) && self.weights.len() <= MAX_DEVICES;
        let renewed = self.renewed.is_sorted_by(|a, b| a.0 < b.0) && self.renewed_are_grouped();
        let measures = match self.profile {
            ProfileName::U25 => self.measures.is_empty(),
            ProfileName::P1 => (1..=MAX_MEASURES).contains(&self.measures.len()),
        };
        let rules = [
            (groups && devices <= MAX_DEVICES, "groups of ascending device numbers"),
            (by_device, "one group, of least size 1 and without parts, where every device is a result"),
            (weights, "weights by ascending device numbers"),
            (renewed, "new keys by ascending numbers, each in the group of its device's first number"),
            (measures, "functions of bytes in profile p1, and none in u25"),
            ((1..=MAX_FRAMES).contains(&self.frames), "1 to 65536 frames of a device"),
            (self.part != Some(0) && self.least_devices > 0, "a positive part and least number of devices"),
            (
                [self.length_ms, self.every_ms].iter().all(|ms| (1..1 << 45).contains(ms)),
                "windows of a length below a thousand years",
            ),
        ];
        rules.iter().find(|rule| !rule.0).map_or(Ok(()), |rule| Err(OrderError::Order(rule.1)))
    }

    /// Whether each new key is in the group of its device's first number, with the same weight.
    fn renewed_are_grouped(&self) -> bool {
        if self.renewed.is_empty() {
            return true;
        }
        let all =
            self.groups.iter().enumerate().flat_map(|(group, all)| all.iter().map(move |number| (*number, group)));
        let (groups, owners): (BTreeMap<u32, usize>, Owners) = (all.collect(), self.owners());
        let weights: BTreeMap<u32, i64> = self.weights.iter().copied().collect();
        let fits = |(new, first): &(u32, u32)| {
            let group = groups.get(new);
            new != first
                && owners.of(*first) == *first
                && group.is_some()
                && group == groups.get(first)
                && weights.get(new) == weights.get(first)
        };
        self.renewed.iter().all(fits)
    }

    /// The devices of its numbers.
    pub fn owners(&self) -> Owners {
        Owners(self.renewed.iter().copied().collect())
    }

    /// The number of devices of the order.
    pub fn device_count(&self) -> usize {
        self.devices().len() - self.renewed.len()
    }

    /// The first group that is large enough but has a weight that too few devices share: the
    /// group's number, the weight, and the number of devices with it. Weight 0 with no device means
    /// that the group has no other weight.
    pub fn lone_weight(&self) -> Option<(usize, i64, usize)> {
        let (least, weights) = (self.least_devices as usize, self.weights.iter().copied().collect::<BTreeMap<_, _>>());
        let owners = self.owners();
        let of = |number: &u32| (owners.of(*number), weights.get(number).copied().unwrap_or(1));
        let count = |group: &[u32]| group.iter().map(|number| owners.of(*number)).collect::<BTreeSet<u32>>().len();
        let large = self.groups.iter().enumerate().filter(|(_, group)| count(group) >= least);
        let mut rare = large.map(|(place, group)| {
            let (weight, shared) = rarest(group.iter().map(of)).unwrap_or((0, 0));
            (place, weight, shared)
        });
        rare.find(|(_, _, shared)| *shared < least)
    }

    /// The numbers of all devices of the order.
    pub fn devices(&self) -> BTreeSet<u32> {
        self.groups.iter().flatten().copied().collect()
    }

    /// The largest tally: all frames of all devices, each under one of its numbers.
    pub fn fullest(&self, seats: &[Seat]) -> Vec<Tally> {
        let counted: BTreeSet<u32> = seats.iter().filter(|seat| seat.counts).map(|seat| seat.number).collect();
        let full = |number: u32| Tally { number, frames: self.frames, left_out: 0 };
        let owners = self.owners();
        let numbers = self.devices().intersection(&counted).map(|number| (owners.of(*number), *number)).collect();
        let numbers: BTreeMap<u32, u32> = numbers;
        let numbers: BTreeSet<u32> = numbers.into_values().collect();
        numbers.into_iter().map(full).collect()
    }

    /// The job for a tally.
    ///
    /// # Errors
    /// [`OrderError`]; it contains [`PlanError::Overflow`] for results that might not be exact.
    pub fn job(&self, setting: &Setting, seats: &[Seat], tally: &[Tally]) -> Result<Job, OrderError> {
        self.check()?;
        if setting.profile != self.profile {
            return Err(OrderError::Order("the fleet's profile"));
        }
        let counts = self.counts(seats, tally)?;
        let weights: BTreeMap<u32, i64> = self.weights.iter().copied().collect();
        let mut places: Vec<Vec<(usize, u32, i64)>> = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let of = |number: &u32| {
                let (place, frames) = counts.get(number).copied()?;
                let weight = weights.get(number).copied().unwrap_or(1);
                // a device of weight 0 is in no sum, so it does not count
                (weight != 0).then_some((place, frames, weight))
            };
            places.push(group.iter().filter_map(of).collect());
        }
        let least = self.least_devices as usize;
        let owners = self.owners();
        let devices = places.iter().flatten().map(|device| (device.0, owners.of(seats[device.0].number))).collect();
        let devices: BTreeMap<usize, u32> = devices;
        let shared: Vec<usize> = places
            .iter()
            .map(|group| {
                rarest(group.iter().map(|device| (devices[&device.0], device.2))).map_or(0, |(_, shared)| shared)
            })
            .collect();
        let too_few = (0..places.len()).filter(|group| shared[*group] < least).collect::<Vec<usize>>();
        too_few.iter().for_each(|group| places[*group].clear());
        let mut builder = Builder::new(self, setting.layout.blocks(), devices, &places);
        let answers = builder.answers(&places);
        if answers.is_empty() {
            let found = shared.into_iter().max().unwrap_or(0) as u32;
            return Err(OrderError::Empty { least: self.least_devices, found });
        }
        builder.job(setting, answers, too_few)
    }

    /// Places and numbers of frames by device, if the order allows the tally.
    fn counts(&self, seats: &[Seat], tally: &[Tally]) -> Result<BTreeMap<u32, (usize, u32)>, OrderError> {
        let wanted = self.devices();
        let known: BTreeMap<u32, usize> =
            (0..).zip(seats).filter(|(_, seat)| seat.counts).map(|(place, seat)| (seat.number, place)).collect();
        if !tally.is_sorted_by(|a, b| a.number < b.number) {
            return Err(OrderError::Tally("ascending device numbers"));
        }
        let (owners, mut counts, mut of_devices) = (self.owners(), BTreeMap::new(), BTreeMap::<u32, u32>::new());
        for Tally { number, frames, .. } in tally {
            let place = known.get(number).filter(|_| wanted.contains(number));
            let place = place.ok_or(OrderError::Tally("devices that the order is about"))?;
            let of_device = of_devices.entry(owners.of(*number)).or_default();
            *of_device = of_device.saturating_add(*frames);
            if *frames == 0 || *of_device > self.frames {
                return Err(OrderError::Tally("as many frames as the order takes"));
            }
            counts.insert(*number, (*place, *frames));
        }
        Ok(counts)
    }
}

impl<'a> Builder<'a> {
    /// Numbers the cohorts and batches in use.
    fn new(order: &'a Order, blocks: usize, devices: BTreeMap<usize, u32>, places: &[Vec<Frame>]) -> Self {
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

    fn answers(&mut self, places: &[Vec<Frame>]) -> Vec<Answer> {
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

    fn job(self, setting: &Setting, answers: Vec<Answer>, too_few: Vec<usize>) -> Result<Job, OrderError> {
        let found = self.linear.len() + self.exact.len();
        if found > MAX_OUTPUTS {
            return Err(PlanError::Shape { expected: "at most 16384 results of a question", found }.into());
        }
        let Self { cohorts, batches, terms, linear, exact, .. } = self;
        let plan = match setting.profile {
            ProfileName::U25 => {
                JobPlan::Linear(LinearPlan::new(setting.scheme, setting.layout, terms, linear, u8::MAX)?)
            }
            ProfileName::P1 => {
                let of = batches.iter().map(|(cohort, _)| cohorts.binary_search(cohort).unwrap_or(0)).collect();
                JobPlan::Exact(ExactPlan::new(setting.scheme, setting.layout, of, exact)?)
            }
        };
        Ok(Job { plan, cohorts, batches, answers, too_few })
    }
}

/// The overflow, if the order was rejected because a result might not be exact.
pub fn is_overflow(error: &OrderError) -> Option<&Overflow> {
    match error {
        OrderError::Plan(PlanError::Overflow(overflow)) => Some(overflow),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn seats(devices: u32) -> Vec<Seat> {
        (0..devices).map(|place| Seat { number: place + 100, takes: true, counts: true }).collect()
    }

    fn order(groups: Vec<Vec<u32>>) -> Order {
        Order {
            profile: ProfileName::U25,
            length_ms: 1000,
            every_ms: 1000,
            groups,
            by_device: false,
            weights: vec![],
            renewed: vec![],
            frames: 1,
            part: None,
            measures: vec![],
            least_devices: 1,
        }
    }

    fn all(devices: u32) -> Vec<Vec<u32>> {
        vec![(100..100 + devices).collect()]
    }

    /// Every text ends inside a list that is already too long. A reader that checks limits only at
    /// the end would first find the end of the text.
    #[test]
    fn fault_32_an_order_is_read_no_further_than_its_limits() {
        let whole = serde_json::to_string(&order(all(5))).unwrap();
        for (field, list) in [
            ("groups", "[],".to_owned()),
            ("groups", "[1],".repeat(MAX_GROUPS + 1)),
            ("groups", format!("[{}", "1,".repeat(MAX_DEVICES + 1))),
            ("groups", format!("[1],[{}", "1,".repeat(MAX_DEVICES))),
            ("weights", "[1,2],".repeat(MAX_DEVICES + 1)),
            ("measures", "\"reading\",".repeat(MAX_MEASURES + 1)),
        ] {
            let (before, _) = whole.split_once(&format!("\"{field}\":[")).unwrap();
            let text = format!("{before}\"{field}\":[{list}");
            let error = serde_json::from_str::<Order>(&text).unwrap_err();
            assert!(error.is_data(), "{field}: {error}");
            assert!(error.to_string().contains("at most"), "{field}: {error}");
        }
    }

    #[test]
    fn fault_32_the_largest_order_there_may_be_is_read() {
        let each = (MAX_DEVICES / MAX_GROUPS) as u32;
        let group = |group: u32| (group * each..(group + 1) * each).collect::<Vec<u32>>();
        let groups = (0..MAX_GROUPS as u32).map(group).collect();
        let largest = Order {
            profile: ProfileName::P1,
            weights: (0..MAX_DEVICES as u32).map(|number| (number, 1)).collect(),
            measures: vec![Taken::Within(100, 200); MAX_MEASURES],
            ..order(groups)
        };
        let text = serde_json::to_vec(&largest).unwrap();
        assert!(text.len() < 1 << 26, "what a server takes");
        let read: Order = serde_json::from_slice(&text).unwrap();
        assert!(read == largest && read.check().is_ok());
    }

    #[test]
    fn what_may_overflow_is_refused_when_a_question_is_registered() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        for (devices, frames, part, fits) in [
            (1, 1, None, true),
            (2, 127, None, true),
            (254, 1, None, true),
            (255, 1, None, false),
            (2, 128, None, false),
            (10_000, 1, None, false),
            (10_000, 1, Some(254), true),
            (10_000, 1, Some(255), false),
        ] {
            let order = Order { frames, part, ..order(all(devices)) };
            let seats = seats(devices);
            let job = order.job(&setting, &seats, &order.fullest(&seats));
            match job {
                Ok(job) => {
                    assert!(fits, "{devices} devices, {frames} frames, parts of {part:?}");
                    assert_eq!(job.outputs(), (devices * frames).div_ceil(part.unwrap_or(u32::MAX)) as usize);
                    assert_eq!(job.answers[0].frames, u64::from(devices * frames));
                }
                Err(error) => assert!(!fits && is_overflow(&error).is_some(), "{devices} devices: {error}"),
            }
        }
        let heavy = Order { weights: vec![(100, 300), (101, -300)], ..order(all(2)) };
        assert!(is_overflow(&heavy.job(&setting, &seats(2), &heavy.fullest(&seats(2))).err().unwrap()).is_some());
    }

    #[test]
    fn only_cohorts_and_batches_in_use_are_planned() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let tally = |number, frames| Tally { number, frames, left_out: 0 };
        let order = Order { frames: 3, ..order(vec![vec![100, 101, 180], vec![140]]) };
        let job = order.job(&setting, &seats(90), &[tally(100, 2), tally(180, 1)]).unwrap();
        // 100 is in cohort 0, 180 in cohort 2 of 32 blocks each
        assert_eq!((job.cohorts, job.batches), (vec![0, 2], vec![(0, 0), (2, 0), (0, 1)]));
        assert_eq!((job.too_few, job.answers.len()), (vec![1], 1));
        assert_eq!((job.answers[0].devices, job.answers[0].frames), (2, 3));
        let apart = Order { groups: vec![vec![100, 101, 180]], by_device: true, ..order.clone() };
        let job = apart.job(&setting, &seats(90), &[tally(100, 2), tally(180, 3)]).unwrap();
        assert_eq!(job.outputs(), 2, "one for each cohort");
        assert_eq!(job.answers.iter().map(|answer| answer.frames).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((job.answers[1].group, &job.answers[1].outputs[..]), (180, &[vec![(1, Some(80 % 32))]][..]));
    }

    /// Devices 100 and 101 have new keys 180 and 181: two devices, however many keys.
    #[test]
    fn a_device_with_a_new_key_is_one_device() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let tally = |number, frames| Tally { number, frames, left_out: 0 };
        let renewed = vec![(180, 100), (181, 101)];
        let order = Order { frames: 2, renewed, least_devices: 2, ..order(vec![vec![100, 101, 102, 180, 181]]) };
        let seats = seats(90);
        let both = [tally(100, 1), tally(101, 1), tally(180, 1)];
        let job = order.job(&setting, &seats, &both).unwrap();
        assert_eq!((job.answers[0].devices, job.answers[0].frames, order.device_count()), (2, 3, 3));
        let alone = order.job(&setting, &seats, &[tally(100, 1), tally(180, 1)]).err().unwrap();
        assert!(matches!(alone, OrderError::Empty { least: 2, found: 1 }), "{alone}");
        let many = order.job(&setting, &seats, &[tally(100, 2), tally(101, 1), tally(180, 1)]).err().unwrap();
        assert!(matches!(many, OrderError::Tally(_)), "the frames of both keys count together: {many}");
        // the bound on a sum does not grow with new keys
        let full: Vec<(u32, u32)> = order.fullest(&seats).iter().map(|tally| (tally.number, tally.frames)).collect();
        assert_eq!(full, [(102, 2), (180, 2), (181, 2)]);
        let apart = Order { by_device: true, least_devices: 1, ..order.clone() };
        let job = apart.job(&setting, &seats, &both).unwrap();
        let found: Vec<_> = job.answers.iter().map(|answer| (answer.group, answer.frames, answer.weight)).collect();
        assert_eq!(found, [(100, 2, 2), (101, 1, 1)]);
        assert_eq!(job.answers[0].outputs[0].iter().map(|output| output.1).collect::<Vec<_>>(), [Some(0), Some(16)]);
        // a weight that two keys of one device share is that of one device
        let weights = vec![(100, 3), (180, 3)];
        let lone = Order { weights, ..order.clone() };
        assert_eq!(lone.lone_weight(), Some((0, 3, 1)));
        let text = serde_json::to_string(&Order { renewed: vec![], ..order.clone() }).unwrap();
        assert!(!text.contains("renewed"), "older servers read orders without new keys");
        assert_eq!(serde_json::from_str::<Order>(&serde_json::to_string(&order).unwrap()).unwrap(), order);
    }

    #[test]
    fn a_tally_that_no_honest_server_makes_is_refused() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let tally = |number, frames| Tally { number, frames, left_out: 0 };
        let (order, mut seats) = (Order { frames: 2, ..order(all(5)) }, seats(6));
        seats[4].counts = false;
        for wrong in [
            vec![tally(101, 1), tally(100, 1)],
            vec![tally(100, 1), tally(100, 1)],
            vec![tally(100, 3)],
            vec![tally(100, 0)],
            vec![tally(105, 1)],
            vec![tally(104, 1)],
            vec![tally(7, 1)],
        ] {
            assert!(matches!(order.job(&setting, &seats, &wrong), Err(OrderError::Tally(_))), "{wrong:?}");
        }
        let few = Order { least_devices: 3, ..order };
        assert!(matches!(
            few.job(&setting, &seats, &[tally(100, 1), tally(101, 1)]),
            Err(OrderError::Empty { least: 3, found: 2 })
        ));
        for wrong in [
            Order { groups: vec![], ..few.clone() },
            Order { groups: vec![vec![3, 2]], ..few.clone() },
            Order { by_device: true, ..few.clone() },
            Order { frames: 0, ..few.clone() },
            Order { part: Some(0), ..few.clone() },
            Order { length_ms: 0, ..few.clone() },
            Order { measures: vec![Taken::Reading], ..few.clone() },
            Order { weights: vec![(2, 1), (1, 1)], ..few.clone() },
            Order { renewed: vec![(104, 100), (103, 100)], ..few.clone() },
            Order { renewed: vec![(103, 103)], ..few.clone() },
            Order { renewed: vec![(103, 102), (104, 103)], ..few.clone() },
            Order { renewed: vec![(777, 100)], ..few.clone() },
            Order { renewed: vec![(103, 777)], ..few.clone() },
            Order { renewed: vec![(103, 100)], weights: vec![(103, 2)], ..few.clone() },
            Order { renewed: vec![(103, 100)], groups: vec![vec![100], vec![103]], ..few.clone() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
