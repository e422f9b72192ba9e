//! Questions as people write them, and what is registered of them.
//!
//! A question names channels, devices and tenants; a server gets an [`Order`] without any name. Registering resolves names, finds the bytes that sums are taken of, and **refuses what may overflow** with every device at full scale:
//!
//! | statistic | U25, straight from frames | P1, through functions of a byte |
//! |---|---|---|
//! | count | the column that says whether there is a sample | the same |
//! | sum, mean, weighted sum | the reading | the same |
//! | variance | the two bytes of the square, which the schema must have | the server squares |
//! | covariance | the two bytes of the product, which the schema must have | the same |
//! | histogram | the schema's bins | any edges |
//! | above, alarm | the schema's thresholds | any threshold |
//!
//! Devices of a question are those that are active when it is registered. **A minimum of devices in a group is policy against a server that follows the protocol, and no protection against one that does not**: see the head of [`super`].

use super::order::{MAX_DEVICES, MAX_GROUPS, Order, OrderError, Taken, at_most};
use super::registry::{Registry, State};
use super::schema::{ProfileName, Schema, is_name};
use super::setting::Setting;
use hmac::{KeyInit, Mac};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::Sha256;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// Devices of a group at least, where a question does not say.
pub const LEAST_DEVICES: u32 = 5;
/// Statistics of a question at most.
pub const MAX_STATISTICS: usize = 64;
/// Edges of a histogram at most: each is at a byte of its own other than 0.
pub const MAX_EDGES: usize = 255;
/// Bytes of a registered question at most.
pub const MAX_REGISTERED: u64 = 1 << 27;

/// What is to be known of a fleet, again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Question {
    /// What releases are called.
    pub name: String,
    /// Which times are summed together.
    pub window: Window,
    /// Whose results stand apart.
    #[serde(default)]
    pub group_by: GroupBy,
    /// Devices of a group at least, and of each weight in it that is not 0.
    #[serde(default = "least_devices")]
    pub least_devices: u32,
    /// Frames of a device in a window at most; further ones are left out, and counted.
    #[serde(default = "one")]
    pub frames: u32,
    /// Most frames of a sum: more make parts, which the key holder sees one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Only these devices; all active ones without.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MAX_DEVICES>")]
    pub devices: Vec<String>,
    /// Only devices of these tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MAX_DEVICES>")]
    pub tenants: Vec<String>,
    /// Weights by device; those that are not named have 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, i64>,
    /// What is to be told.
    #[serde(rename = "statistic", deserialize_with = "at_most::<_, _, MAX_STATISTICS>")]
    pub statistics: Vec<Statistic>,
}

fn least_devices() -> u32 {
    LEAST_DEVICES
}

fn one() -> u32 {
    1
}

/// A stretch of time, by when the server took frames in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// How long: a number and `s`, `m`, `h` or `d`.
    pub length: String,
    /// How often one begins: as often as one ends without it, and with less windows slide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
}

/// Whose results stand apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupBy {
    /// Nobody's.
    #[default]
    None,
    /// Those of each tenant.
    Tenant,
    /// Those of each device.
    Device,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", try_from = "Written", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Statistic {
    /// How many samples there are.
    Count,
    /// Their sum.
    Sum {
        /// Of what.
        channel: String,
    },
    /// Their mean.
    Mean {
        /// Of what.
        channel: String,
    },
    /// The sum of steps of bytes, each times the weight of its device.
    WeightedSum {
        /// Of what.
        channel: String,
    },
    /// The variance, of the whole and not of a sample.
    Variance {
        /// Of what.
        channel: String,
    },
    /// The covariance of two channels.
    Covariance {
        /// Of which.
        channels: [String; 2],
    },
    /// How many readings are in each bin.
    Histogram {
        /// Of what.
        channel: String,
        /// Where bins meet; the schema's without.
        edges: Vec<f64>,
    },
    /// How many readings are above a threshold.
    Above {
        /// Of what.
        channel: String,
        /// The threshold.
        threshold: f64,
    },
    /// Whether at least so many readings are above a threshold.
    Alarm {
        /// Of what.
        channel: String,
        /// The threshold.
        threshold: f64,
        /// How many; 1 where a question does not say.
        at_least: u64,
    },
}

/// Which figure.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Count,
    Sum,
    Mean,
    WeightedSum,
    Variance,
    Covariance,
    Histogram,
    Above,
    Alarm,
}

/// A statistic as it is written, with all fields that any has.
///
/// An enum that is told by a tag within keeps every field until it has the tag, at 32 bytes for a
/// zero and a comma, and looks at their limits afterwards.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    kind: Kind,
    #[serde(default, deserialize_with = "there")]
    channel: Option<String>,
    #[serde(default, deserialize_with = "there")]
    channels: Option<[String; 2]>,
    #[serde(default, deserialize_with = "edges")]
    edges: Option<Vec<f64>>,
    #[serde(default, deserialize_with = "there")]
    threshold: Option<f64>,
    #[serde(default, deserialize_with = "there")]
    at_least: Option<u64>,
}

/// A field that is there, and so is not null.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn edges<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<f64>>, D::Error> {
    at_most::<_, _, MAX_EDGES>(deserializer).map(Some)
}

impl TryFrom<Written> for Statistic {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { kind, channel, channels, edges, threshold, at_least } = written;
        Ok(match (kind, channel, channels, edges, threshold, at_least) {
            (Kind::Count, None, None, None, None, None) => Self::Count,
            (Kind::Sum, Some(channel), None, None, None, None) => Self::Sum { channel },
            (Kind::Mean, Some(channel), None, None, None, None) => Self::Mean { channel },
            (Kind::WeightedSum, Some(channel), None, None, None, None) => Self::WeightedSum { channel },
            (Kind::Variance, Some(channel), None, None, None, None) => Self::Variance { channel },
            (Kind::Covariance, None, Some(channels), None, None, None) => Self::Covariance { channels },
            (Kind::Histogram, Some(channel), None, edges, None, None) => {
                Self::Histogram { channel, edges: edges.unwrap_or_default() }
            }
            (Kind::Above, Some(channel), None, None, Some(threshold), None) => Self::Above { channel, threshold },
            (Kind::Alarm, Some(channel), None, None, Some(threshold), at_least) => {
                Self::Alarm { channel, threshold, at_least: at_least.unwrap_or(1) }
            }
            (kind, ..) => {
                let fields = match kind {
                    Kind::Count => "`kind` alone for a count",
                    Kind::Sum | Kind::Mean | Kind::WeightedSum | Kind::Variance => {
                        "`kind` and `channel` for a sum, mean, weighted sum or variance"
                    }
                    Kind::Covariance => "`kind` and `channels` for a covariance",
                    Kind::Histogram => "`kind`, `channel` and maybe `edges` for a histogram",
                    Kind::Above => "`kind`, `channel` and `threshold` for how many are above it",
                    Kind::Alarm => "`kind`, `channel`, `threshold` and maybe `at-least` for an alarm",
                };
                return Err(format!("expected {fields}, found other fields: add what is missing, and remove the rest"));
            }
        })
    }
}

/// Why a question is not registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// A name that is none.
    #[error("expected {what}, found {found:?}")]
    Name {
        /// What there should be.
        what: &'static str,
        /// What there is.
        found: String,
    },
    /// Statistics that do not go together.
    #[error("expected {0}")]
    Statistics(&'static str),
    /// What a schema does not have.
    #[error("channel {channel}: expected {expected}")]
    Feature {
        /// Which channel.
        channel: String,
        /// What it should have.
        expected: &'static str,
    },
    /// No device.
    #[error("expected at least {least} active devices that the question is about, found {found}")]
    Devices {
        /// How many.
        least: u32,
        /// How many there are.
        found: usize,
    },
    /// A weight that too few devices share: what it is the weight of could be told from the sum.
    #[error(
        "weight {weight} in group {group:?} belongs to {found} of its devices, and at least {least} must share each \
         weight: the sum would tell the reading of a device with a weight of its own. Give more devices this weight"
    )]
    Weight {
        /// In which group.
        group: String,
        /// Which weight.
        weight: i64,
        /// How many devices have it.
        found: usize,
        /// How many should.
        least: u32,
    },
    /// A group whose devices all have weight 0.
    #[error(
        "all devices of group {group:?} have weight 0, so they are in no sum: give at least {least} of them another \
         weight, or leave the group out"
    )]
    Weightless {
        /// Which group.
        group: String,
        /// How many devices with a weight there must be.
        least: u32,
    },
    /// What the order says: what might overflow, too.
    #[error(transparent)]
    Order(#[from] OrderError),
}

/// A statistic in terms of columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// Of samples.
    Count,
    /// Of a channel.
    Sum(usize),
    /// Of a channel.
    Mean(usize),
    /// Of a channel.
    WeightedSum(usize),
    /// Of a channel.
    Variance(usize),
    /// Of two channels, by the pair's number.
    Covariance(usize, usize, usize),
    /// Of a channel: the bytes at which bins begin, from the second on, and where they meet.
    Histogram(usize, Vec<u8>, Vec<f64>),
    /// Of a channel: above this byte, and value; the alarm's number of readings.
    Above(usize, u8, f64, Option<u64>),
}

/// A question that is registered: what was asked, what the server is told, and what its groups are called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// What was asked.
    pub question: Question,
    /// What the server is told.
    pub order: Order,
    /// Names of the order's groups; of devices, where every device is a result, by their numbers.
    #[serde(deserialize_with = "at_most::<_, _, MAX_GROUPS>")]
    pub groups: Vec<String>,
    /// Its name between key holder and server ([`QuestionNames`]); empty in what was registered when
    /// that was a hash without a key.
    #[serde(default)]
    id: String,
}

/// The key that names questions between key holder and server. It is not printed, and wiped on drop.
///
/// A name is the beginning of an HMAC-SHA256 of all that is registered, names of devices, tenants
/// and channels included, as 16 hexadecimal digits. One question has one name under one key, so that
/// a window is opened once whenever it is registered. **Without the key nobody can tell whether a
/// guess at those names is right**; a hash alone would let a server try a dictionary.
pub struct QuestionNames(Zeroizing<[u8; 32]>);

impl QuestionNames {
    /// With a key.
    pub fn from_bytes(key: Zeroizing<[u8; 32]>) -> Self {
        Self(key)
    }

    fn of(&self, question: &Question, order: &Order, groups: &[String]) -> String {
        // all serialise by their fields, and text has no other form
        let text = serde_json::to_vec(&(question, order, groups)).unwrap_or_default();
        let mac = hmac::Hmac::<Sha256>::new_from_slice(&self.0[..]);
        // every length is a key's
        let mac = mac.map(|mac| mac.chain_update(text).finalize().into_bytes()).unwrap_or_default();
        super::enrol::hex(&mac[..8])
    }
}

impl Registered {
    /// What its statistics are by this schema, if each weight is that of enough devices.
    ///
    /// # Errors
    /// [`QuestionError`]: it may have been registered before that was refused, or for another fleet.
    pub fn check(&self, schema: &Schema) -> Result<Vec<Resolved>, QuestionError> {
        let statistics = self.question.resolve(schema)?;
        self.check_weights()?;
        Ok(statistics)
    }

    /// Whether each weight other than 0 is that of enough devices, with frames of all of them.
    ///
    /// # Errors
    /// [`QuestionError::Weight`].
    pub fn check_weights(&self) -> Result<(), QuestionError> {
        let Some((place, weight, found)) = self.order.lone_weight() else { return Ok(()) };
        let (group, least) = (self.groups.get(place).cloned().unwrap_or_default(), self.order.least_devices);
        Err(if found == 0 {
            QuestionError::Weightless { group, least }
        } else {
            QuestionError::Weight { group, weight, found, least }
        })
    }

    /// Its name between key holder and server: 16 hexadecimal digits.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// Whether its name is the one that it has under this key: nothing of it was changed since, and
    /// no server can guess at it.
    pub fn is_named_by(&self, names: &QuestionNames) -> bool {
        self.id == names.of(&self.question, &self.order, &self.groups)
    }
}

/// Milliseconds of a number and a unit.
fn milliseconds(text: &str) -> Result<u64, QuestionError> {
    let wrong =
        || QuestionError::Name { what: "a time such as 30s, 5m, 1h or 7d", found: text.chars().take(20).collect() };
    let unit = match text.bytes().last() {
        Some(b's') => 1_000,
        Some(b'm') => 60_000,
        Some(b'h') => 3_600_000,
        Some(b'd') => 86_400_000,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    if (1..=100_000).contains(&number) { Ok(number * unit) } else { Err(wrong()) }
}

impl Question {
    /// What its statistics are, by this schema.
    ///
    /// # Errors
    /// [`QuestionError`] for channels, bins or thresholds that frames have not.
    pub fn resolve(&self, schema: &Schema) -> Result<Vec<Resolved>, QuestionError> {
        if !(1..=MAX_STATISTICS).contains(&self.statistics.len()) {
            return Err(QuestionError::Statistics("1 to 64 statistics"));
        }
        let weighted = |statistic: &Statistic| matches!(statistic, Statistic::WeightedSum { .. });
        if self.statistics.iter().any(|statistic| weighted(statistic) == self.weights.is_empty()) {
            return Err(QuestionError::Statistics(
                "weighted sums alone in a question that has weights, and none in others",
            ));
        }
        self.statistics.iter().map(|statistic| resolved(schema, statistic)).collect()
    }

    /// Registers it: with the devices that are active now, and refused if it may overflow with all of them at full scale.
    ///
    /// # Errors
    /// [`QuestionError`].
    pub fn register(
        &self,
        schema: &Schema,
        setting: &Setting,
        registry: &Registry,
        question_names: &QuestionNames,
    ) -> Result<Registered, QuestionError> {
        if !is_name(&self.name) {
            let found = self.name.chars().take(64).collect();
            return Err(QuestionError::Name { what: "a name of letters, digits, '-', '_' and '.'", found });
        }
        let statistics = self.resolve(schema)?;
        let length_ms = milliseconds(&self.window.length)?;
        let every_ms = self.window.every.as_deref().map_or(Ok(length_ms), milliseconds)?;
        let (groups, names) = self.groups(registry)?;
        let order = Order {
            profile: schema.profile,
            length_ms,
            every_ms,
            groups,
            by_device: self.group_by == GroupBy::Device,
            weights: self.weighted(registry)?,
            frames: self.frames,
            part: self.part,
            measures: measures(schema.profile, &statistics),
            least_devices: self.least_devices,
        };
        let id = question_names.of(self, &order, &names);
        let registered = Registered { question: self.clone(), order, groups: names, id };
        registered.check_weights()?;
        let (order, seats) = (&registered.order, registry.seats());
        order.job(setting, &seats, &order.fullest(&seats))?;
        Ok(registered)
    }

    /// Device numbers by group, and the groups' names.
    fn groups(&self, registry: &Registry) -> Result<(Vec<Vec<u32>>, Vec<String>), QuestionError> {
        let unknown = |what, found: &String| Err(QuestionError::Name { what, found: found.clone() });
        if let Some(name) = self.devices.iter().find(|name| registry.active(name).is_none()) {
            return unknown("an active device", name);
        }
        let active = || registry.entries().iter().filter(|entry| entry.state == State::Active);
        if let Some(tenant) = self.tenants.iter().find(|tenant| !active().any(|entry| entry.tenant == **tenant)) {
            return unknown("a tenant with an active device", tenant);
        }
        let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for entry in active() {
            let named = self.devices.is_empty() || self.devices.contains(&entry.name);
            if named && (self.tenants.is_empty() || self.tenants.contains(&entry.tenant)) {
                let group = if self.group_by == GroupBy::Tenant { entry.tenant.as_str() } else { "all" };
                groups.entry(group).or_default().push(entry.number.value());
            }
        }
        groups.values_mut().for_each(|group| group.sort_unstable());
        let found = groups.values().map(Vec::len).max().unwrap_or(0);
        if found == 0 || found < self.least_devices as usize {
            return Err(QuestionError::Devices { least: self.least_devices, found });
        }
        let names = groups.keys().map(|name| if name.is_empty() { "none" } else { name }.to_owned()).collect();
        Ok((groups.into_values().collect(), names))
    }

    fn weighted(&self, registry: &Registry) -> Result<Vec<(u32, i64)>, QuestionError> {
        let of = |(name, weight): (&String, &i64)| {
            let entry = registry.active(name);
            let entry = entry.ok_or_else(|| QuestionError::Name { what: "an active device", found: name.clone() })?;
            Ok((entry.number.value(), *weight))
        };
        let mut weights: Vec<(u32, i64)> = self.weights.iter().map(of).collect::<Result<_, QuestionError>>()?;
        weights.sort_unstable();
        Ok(weights)
    }
}

fn resolved(schema: &Schema, statistic: &Statistic) -> Result<Resolved, QuestionError> {
    let channel = |name: &String| {
        schema.channel(name).ok_or_else(|| QuestionError::Name { what: "a channel of the schema", found: name.clone() })
    };
    let feature =
        |channel: usize, expected| QuestionError::Feature { channel: schema.channels[channel].name.clone(), expected };
    let plain = schema.profile == ProfileName::U25;
    Ok(match statistic {
        Statistic::Count => Resolved::Count,
        Statistic::Sum { channel: name } => Resolved::Sum(channel(name)?),
        Statistic::Mean { channel: name } => Resolved::Mean(channel(name)?),
        Statistic::WeightedSum { channel: name } => Resolved::WeightedSum(channel(name)?),
        Statistic::Variance { channel: name } => {
            let i = channel(name)?;
            if plain && !schema.channels[i].square {
                return Err(feature(i, "`square = true` in the schema, so that devices send squares"));
            }
            Resolved::Variance(i)
        }
        Statistic::Covariance { channels: [a, b] } => {
            let (i, j) = (channel(a)?, channel(b)?);
            let pair =
                schema.product(i, j).ok_or_else(|| feature(i, "a pair with the other among the schema's products"))?;
            Resolved::Covariance(i, j, pair)
        }
        Statistic::Histogram { channel: name, edges } => {
            let i = channel(name)?;
            let own = &schema.channels[i];
            let edges = if edges.is_empty() { &own.edges } else { edges };
            let starts =
                own.bins(edges).ok_or_else(|| feature(i, "edges that ascend by a step at least, within its range"))?;
            if plain && own.bins(&own.edges).as_ref() != Some(&starts) {
                return Err(feature(i, "the edges that the schema has, in profile u25"));
            }
            Resolved::Histogram(i, starts, edges.clone())
        }
        Statistic::Above { channel: name, threshold } => above(schema, channel(name)?, *threshold, None)?,
        Statistic::Alarm { channel: name, threshold, at_least } => {
            above(schema, channel(name)?, *threshold, Some(*at_least))?
        }
    })
}

fn above(schema: &Schema, i: usize, threshold: f64, alarm: Option<u64>) -> Result<Resolved, QuestionError> {
    let own = &schema.channels[i];
    let feature = |expected| QuestionError::Feature { channel: own.name.clone(), expected };
    let byte = own.threshold(threshold).ok_or_else(|| feature("a threshold within its range"))?;
    let known = schema.profile == ProfileName::P1 || own.above.iter().any(|value| own.threshold(*value) == Some(byte));
    if !known {
        return Err(feature("one of the thresholds that the schema has, in profile u25"));
    }
    Ok(Resolved::Above(i, byte, threshold, alarm))
}

/// The bytes from and to which a bin goes.
pub(super) fn bin(starts: &[u8], bin: usize) -> (u8, u8) {
    let first = bin.checked_sub(1).map_or(0, |before| starts[before]);
    (first, starts.get(bin).map_or(u8::MAX, |next| next - 1))
}

/// What the server takes of readings, each once; none for sums straight from frames.
fn measures(profile: ProfileName, statistics: &[Resolved]) -> Vec<Taken> {
    if profile == ProfileName::U25 {
        return Vec::new();
    }
    // whether there is a sample is read off the readings
    let mut all = vec![Taken::Reading];
    for statistic in statistics {
        match statistic {
            Resolved::Variance(_) => all.extend([Taken::SquareHigh, Taken::SquareLow]),
            Resolved::Histogram(_, starts, _) => all.extend((0..=starts.len()).map(|which| {
                let (least, most) = bin(starts, which);
                Taken::Within(least, most)
            })),
            Resolved::Above(_, byte, ..) => all.push(Taken::Above(*byte)),
            _ => {}
        }
    }
    let mut measures: Vec<Taken> = Vec::with_capacity(all.len());
    all.into_iter().for_each(|taken| {
        if !measures.contains(&taken) {
            measures.push(taken);
        }
    });
    measures
}

/// Whatever reads as a question, a registered question or an order is checked without a panic.
#[doc(hidden)]
pub fn fuzz_questions(data: &[u8]) {
    if let Ok(registered) = serde_json::from_slice::<Registered>(data) {
        let _ = (registered.is_named_by(&QuestionNames::from_bytes([7; 32].into())), registered.order.check());
        let _ = registered.check_weights();
    }
    if let Ok(order) = serde_json::from_slice::<Order>(data) {
        let _ = order.check();
    }
    if let (Ok(question), Ok(schema)) =
        (serde_json::from_slice::<Question>(data), serde_json::from_str::<Schema>(FUZZ_SCHEMA))
    {
        let _ = (question.resolve(&schema), milliseconds(&question.window.length));
    }
    if let Ok(schema) = serde_json::from_slice::<Schema>(data) {
        let _ = schema.check().map(|()| schema.frame(&[vec![7; schema.channels.len()]]));
    }
}

const FUZZ_SCHEMA: &str = r#"{"profile":"u25","channel":[{"name":"x","square":true,"edges":[10,20],"above":[99]}]}"#;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::sense::order::is_overflow;
    use crate::sense::registry::Secret;
    use sha2::Digest;

    fn registry(devices: usize) -> Registry {
        let mut registry = Registry::default();
        for device in 0..devices {
            let tenant = ["north", "south"][device % 2];
            registry.add(&format!("d{device}"), tenant, None, Secret::from_bytes([device as u8; 32])).unwrap();
        }
        registry
    }

    fn names(key: u8) -> QuestionNames {
        QuestionNames::from_bytes([key; 32].into())
    }

    /// A server that guesses: it knows the schema, the order, the form of what is hashed and every
    /// name but one, and has a dictionary in which that one is.
    #[test]
    fn fault_16_a_server_with_a_dictionary_cannot_tell_from_a_questions_name_what_it_is_called() {
        let (setting, registry) = (Setting::of(ProfileName::U25).unwrap(), registry(6));
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let named = |name: &str, key: u8| {
            let asked = Question { name: name.to_owned(), ..question(PLAIN) };
            asked.register(&schema, &setting, &registry, &names(key)).unwrap()
        };
        let told = named("hiv-ward", 1);
        let dictionary = ["climate", "cardiology", "hiv-ward", "oncology"];
        for guess in dictionary {
            // the order tells nothing, whatever the question is called
            let guessed = named(guess, 2);
            assert_eq!(guessed.order, told.order);
            // what the server can compute: hashes without a key, and names under keys that it makes up
            let (question, order, groups) = (&guessed.question, &guessed.order, &guessed.groups);
            let unnamed = Registered { id: String::new(), ..guessed.clone() };
            let before = serde_json::json!({ "question": question, "order": order, "groups": groups });
            for text in [
                serde_json::to_vec(&guessed).unwrap(),
                serde_json::to_vec(&unnamed).unwrap(),
                serde_json::to_vec(&(question, order, groups)).unwrap(),
                format!(
                    r#"{{"question":{},"order":{},"groups":{}}}"#,
                    serde_json::to_string(question).unwrap(),
                    serde_json::to_string(order).unwrap(),
                    serde_json::to_string(groups).unwrap()
                )
                .into_bytes(),
                before.to_string().into_bytes(),
            ] {
                assert_ne!(crate::sense::enrol::hex(&Sha256::digest(text)[..8]), told.id(), "{guess}");
            }
            (2..=u8::MAX).for_each(|key| assert_ne!(named(guess, key).id(), told.id(), "{guess}"));
        }
        // its own key holder has the same name for it after every start, and another for each question
        assert_eq!(named("hiv-ward", 1), told);
        assert!(told.is_named_by(&names(1)) && !told.is_named_by(&names(2)));
        let ids: std::collections::BTreeSet<String> = dictionary.iter().map(|name| named(name, 1).id()).collect();
        assert_eq!(ids.len(), dictionary.len());
        // a file that was changed, or has the name of a version without a key, is not taken for it
        let mut changed = told.clone();
        changed.question.least_devices = 1;
        assert!(!changed.is_named_by(&names(1)));
        let mut old = serde_json::to_value(&told).unwrap();
        old.as_object_mut().unwrap().remove("id").unwrap();
        let old: Registered = serde_json::from_value(old).unwrap();
        assert!(old.id().is_empty() && !old.is_named_by(&names(1)));
    }

    fn question(text: &str) -> Question {
        serde_json::from_str(text).unwrap()
    }

    const PLAIN: &str = r#"{"name":"q","window":{"length":"1m"},"statistic":[{"kind":"mean","channel":"x"}]}"#;

    #[test]
    fn a_question_with_a_device_too_many_is_refused_when_it_is_registered() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let register =
            |question: &Question, devices| question.register(&schema, &setting, &registry(devices), &names(1));
        let plain = question(PLAIN);
        let registered = register(&plain, 254).unwrap();
        assert_eq!((registered.order.groups[0].len(), registered.order.length_ms), (254, 60_000));
        let refused = register(&plain, 255).unwrap_err();
        assert!(matches!(&refused, QuestionError::Order(order) if is_overflow(order).is_some()), "{refused}");
        assert!(register(&Question { part: Some(254), ..plain.clone() }, 255).is_ok());
        assert!(register(&Question { group_by: GroupBy::Tenant, ..plain.clone() }, 255).is_ok(), "128 and 127");
        assert!(matches!(register(&plain, 4), Err(QuestionError::Devices { least: 5, found: 4 })));
        let apart = Question { group_by: GroupBy::Device, ..plain.clone() };
        assert!(register(&apart, 9).is_err(), "a device alone is no group of five");
        assert!(register(&Question { least_devices: 1, ..apart }, 9).unwrap().order.by_device);
    }

    /// Every text ends within a list that is too long by then: whoever looks at limits only once all
    /// is read meets the end of the text first.
    #[test]
    fn fault_32_a_question_is_read_no_further_than_its_limits() {
        let head = r#"{"name":"q","window":{"length":"1m"},"#;
        let histogram = r#"{"kind":"histogram","channel":"x","edges":["#;
        let first = r#"{"edges":["#;
        let numbers = "0,".repeat(MAX_EDGES + 1);
        for list in [
            format!("\"statistic\":[{histogram}{numbers}"),
            format!("\"statistic\":[{first}{numbers}"),
            format!("\"statistic\":[{}", "{\"kind\":\"count\"},".repeat(MAX_STATISTICS + 1)),
            format!("\"devices\":[{}", "\"\",".repeat(MAX_DEVICES + 1)),
            format!("\"tenants\":[{}", "\"\",".repeat(MAX_DEVICES + 1)),
        ] {
            let error = serde_json::from_str::<Question>(&format!("{head}{list}")).unwrap_err();
            assert!(error.is_data() && error.to_string().contains("at most"), "{error}");
        }
    }

    #[test]
    fn fault_32_the_largest_question_there_may_be_is_read_and_written_as_before() {
        let edges: Vec<f64> = (1..=MAX_EDGES).map(|edge| edge as f64).collect();
        let (channel, edges_of) = (|| "x".to_owned(), |edges| Statistic::Histogram { channel: "x".to_owned(), edges });
        let mut statistics = vec![edges_of(edges.clone()); MAX_STATISTICS - 9];
        statistics.extend([
            Statistic::Count,
            Statistic::Sum { channel: channel() },
            Statistic::Mean { channel: channel() },
            Statistic::WeightedSum { channel: channel() },
            Statistic::Variance { channel: channel() },
            Statistic::Covariance { channels: [channel(), "y".to_owned()] },
            edges_of(vec![]),
            Statistic::Above { channel: channel(), threshold: 1.5 },
            Statistic::Alarm { channel: channel(), threshold: 2.0, at_least: 3 },
        ]);
        let largest = Question { statistics, ..question(PLAIN) };
        assert_eq!(largest.statistics.len(), MAX_STATISTICS);
        assert_eq!(question(&serde_json::to_string(&largest).unwrap()), largest);
        let schema: Schema = serde_json::from_str(r#"{"profile":"p1","channel":[{"name":"x"}]}"#).unwrap();
        assert_eq!(schema.channels[0].bins(&edges).unwrap().len(), MAX_EDGES);
        let one = |text: &str| serde_json::from_str::<Statistic>(text);
        let alarm = one(r#"{"threshold":2,"channel":"x","kind":"alarm"}"#).unwrap();
        assert_eq!(alarm, Statistic::Alarm { channel: channel(), threshold: 2.0, at_least: 1 });
        let written = r#"{"kind":"alarm","channel":"x","threshold":2.0,"at-least":1}"#;
        assert_eq!(serde_json::to_string(&alarm).unwrap(), written);
        for wrong in [
            r#"{"channel":"x"}"#,
            r#"{"kind":"median","channel":"x"}"#,
            r#"{"kind":"sum"}"#,
            r#"{"kind":"sum","channel":"x","edges":[]}"#,
            r#"{"kind":"sum","channel":"x","who":"me"}"#,
            r#"{"kind":"count","channel":"x"}"#,
            r#"{"kind":"covariance","channels":["x"]}"#,
            r#"{"kind":"above","channel":"x","threshold":null}"#,
            r#"{"kind":"above","channel":"x","threshold":1,"at-least":3}"#,
            r#"{"kind":"histogram","channel":"x","edges":null}"#,
        ] {
            assert!(one(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_server_is_told_no_name() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let asked = Question {
            name: "secret-study".to_owned(),
            group_by: GroupBy::Tenant,
            least_devices: 1,
            tenants: vec!["south".to_owned()],
            weights: [("d1".to_owned(), -3), ("d3".to_owned(), 2)].into(),
            statistics: vec![Statistic::WeightedSum { channel: "x".to_owned() }],
            ..question(PLAIN)
        };
        let registered = asked.register(&schema, &setting, &registry(6), &names(1)).unwrap();
        let text = serde_json::to_string(&registered.order).unwrap();
        for name in ["secret", "south", "d1", "\"x\""] {
            assert!(!text.contains(name), "{name} in {text}");
        }
        assert_eq!((registered.order.groups, registered.groups), (vec![vec![2, 4, 6]], vec!["south".to_owned()]));
        assert_eq!(registered.order.weights, [(2, -3), (4, 2)]);
    }

    #[test]
    fn what_frames_do_not_have_is_refused() {
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let resolve = |statistic: &str| {
            let text = format!(r#"{{"name":"q","window":{{"length":"1m"}},"statistic":[{statistic}]}}"#);
            question(&text).resolve(&schema)
        };
        for good in [
            r#"{"kind":"variance","channel":"x"}"#,
            r#"{"kind":"histogram","channel":"x"}"#,
            r#"{"kind":"histogram","channel":"x","edges":[10,20]}"#,
            r#"{"kind":"alarm","channel":"x","threshold":99.5,"at-least":3}"#,
        ] {
            assert!(resolve(good).is_ok(), "{good}");
        }
        for bad in [
            r#"{"kind":"mean","channel":"y"}"#,
            r#"{"kind":"histogram","channel":"x","edges":[10]}"#,
            r#"{"kind":"above","channel":"x","threshold":98}"#,
            r#"{"kind":"covariance","channels":["x","x"]}"#,
            r#"{"kind":"weighted-sum","channel":"x"}"#,
        ] {
            assert!(resolve(bad).is_err(), "{bad}");
        }
        let p1 = Schema {
            profile: ProfileName::P1,
            ..serde_json::from_str(r#"{"profile":"p1","channel":[{"name":"x"}]}"#).unwrap()
        };
        let any = question(
            r#"{"name":"q","window":{"length":"1m"},"statistic":[{"kind":"histogram","channel":"x","edges":[1,200]},{"kind":"above","channel":"x","threshold":98},{"kind":"variance","channel":"x"}]}"#,
        );
        let found = measures(ProfileName::P1, &any.resolve(&p1).unwrap());
        let bins = [Taken::Within(0, 0), Taken::Within(1, 199), Taken::Within(200, 255)];
        assert_eq!(
            found,
            [&[Taken::Reading], &bins[..], &[Taken::Above(98), Taken::SquareHigh, Taken::SquareLow]].concat()
        );
        fuzz_questions(PLAIN.as_bytes());
        for wrong in ["", "5", "m", "0m", "1y", "99999999d", "-1s"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }
}
