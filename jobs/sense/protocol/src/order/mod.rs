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

mod groups;
mod job;
mod windows;

use super::bounds::Overflow;
use super::exact::Measure;
use super::linear::PlanError;
use super::lists::at_most;
use super::schema::ProfileName;
use super::setting::Setting;
use groups::groups;
use job::Builder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub use job::{Answer, Job, JobPlan};
pub use windows::Windows;

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

/// The largest number of bounds of an order: days of 44 years.
pub const MAX_BOUNDS: usize = 1 << 14;

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
    /// The interval between the beginnings of windows, at its multiples since 1970, or since
    /// [`Self::offset_ms`].
    pub every_ms: u64,
    /// The beginning of a window, in milliseconds since 1970, below the interval: midnights of a
    /// time zone, and Mondays, are not multiples.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset_ms: u64,
    /// The bounds between windows that have no common length, ascending, in milliseconds since
    /// 1970. Then length and interval are those of the longest window.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MAX_BOUNDS>")]
    pub bounds: Vec<u64>,
    /// How long after its end a window still waits for frames, by the server's clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lateness_ms: u64,
    /// The sheet whose frames are summed; 0 in version 1.
    #[serde(default, skip_serializing_if = "is_sheet_0")]
    pub sheet: u16,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_sheet_0(sheet: &u16) -> bool {
    *sheet == 0
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
        let measures = match self.profile.is_linear() {
            true => self.measures.is_empty(),
            false => (1..=MAX_MEASURES).contains(&self.measures.len()),
        };
        let rules = [
            (groups && devices <= MAX_DEVICES, "groups of ascending device numbers"),
            (by_device, "one group, of least size 1 and without parts, where every device is a result"),
            (weights, "weights by ascending device numbers"),
            (renewed, "new keys by ascending numbers, each in the group of its device's first number"),
            (measures, "functions of bytes in profiles p1 and p17, and none in u25 and u28"),
            ((1..=MAX_FRAMES).contains(&self.frames), "1 to 65536 frames of a device"),
            (self.part != Some(0) && self.least_devices > 0, "a positive part and least number of devices"),
            (
                [self.length_ms, self.every_ms].iter().all(|ms| (1..1 << 45).contains(ms)),
                "windows of a length below a thousand years",
            ),
            (
                self.offset_ms < self.every_ms && self.lateness_ms < 1 << 45,
                "an offset below the interval, and a lateness below a thousand years",
            ),
            (
                self.bounds.is_empty() || (self.bounds.len() > 1 && self.bounds.is_sorted_by(|a, b| a < b)),
                "two or more bounds that ascend, or none",
            ),
            (
                self.profile.is_stamped() || (self.lateness_ms == 0 && self.sheet == 0),
                "no lateness and sheet 0, where frames have no time",
            ),
            (self.sheet < 1 << 12, "a sheet below 4096"),
        ];
        rules.iter().find(|rule| !rule.0).map_or(Ok(()), |rule| Err(OrderError::Order(rule.1)))
    }

    /// Its windows of time.
    pub fn windows(&self) -> Windows {
        let windows = match self.bounds.is_empty() {
            true => Windows::even(self.length_ms, self.every_ms, self.offset_ms),
            false => Windows::between(&self.bounds),
        };
        windows.waiting(self.lateness_ms)
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

/// The overflow, if the order was rejected because a result might not be exact.
pub fn is_overflow(error: &OrderError) -> Option<&Overflow> {
    match error {
        OrderError::Plan(PlanError::Overflow(overflow)) => Some(overflow),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
