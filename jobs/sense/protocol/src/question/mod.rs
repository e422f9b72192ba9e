//! Questions in people's words, and their registration.
//!
//! A question names channels, devices and tenants; a server gets an [`Order`] without any name.
//! Registration resolves names, finds the bytes to sum, and **rejects a question that could
//! overflow** with every device at full scale:
//!
//! | statistic | U25 and U28, straight from frames | bytes in P1 and P17, through functions |
//! |---|---|---|
//! | count | what the device says about its samples | the same |
//! | sum, mean, weighted sum | the reading | the same |
//! | variance | the bytes of the square, which the schema must have | the server squares |
//! | covariance | the bytes of the product, which the schema must have | the same |
//! | histogram | the schema's bins | any edges |
//! | above, alarm | the schema's thresholds | any threshold |
//!
//! Readings of more than a byte are in P1 and P17 what they are in U25 and U28. A question about
//! columns of several sheets has an order for each sheet, and so as many registrations.
//!
//! A question covers the devices that are active at its registration. **A minimum of devices in a
//! group is policy against a server that follows the protocol, and no protection against one that
//! does not**: see the head of [`super`].

mod registered;
mod statistic;

use super::lists::at_most;
use super::order::{MAX_DEVICES, Order, OrderError, Taken};
use super::schema::{Column, Schema, Sheet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use registered::{MAX_REGISTERED, QuestionNames, Registered};
pub use statistic::{MAX_EDGES, Statistic};

/// The default minimum of devices of a group.
pub const LEAST_DEVICES: u32 = 5;
/// The largest number of statistics of a question.
pub const MAX_STATISTICS: usize = 64;

/// A question about a fleet, answered for every window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Question {
    /// The name of its releases.
    pub name: String,
    /// The time window whose frames are summed together.
    pub window: Window,
    /// The grouping of results.
    #[serde(default)]
    pub group_by: GroupBy,
    /// The minimum of devices of a group, and of each weight in it that is not 0.
    #[serde(default = "least_devices")]
    pub least_devices: u32,
    /// The largest number of frames of a device in a window; further ones are left out, and
    /// counted.
    #[serde(default = "one")]
    pub frames: u32,
    /// The largest number of frames of a sum. More frames make parts, and the key holder sees each
    /// part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Only these devices; all active ones if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MAX_DEVICES>")]
    pub devices: Vec<String>,
    /// Only devices of these tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, MAX_DEVICES>")]
    pub tenants: Vec<String>,
    /// Weights by device; other devices have weight 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, i64>,
    /// The statistics to release.
    #[serde(rename = "statistic", deserialize_with = "at_most::<_, _, MAX_STATISTICS>")]
    pub statistics: Vec<Statistic>,
}

fn least_devices() -> u32 {
    LEAST_DEVICES
}

fn one() -> u32 {
    1
}

/// A time window. In profiles P17 and U28 the time in a frame decides to which window the frame
/// belongs; in P1 and U25, the server's time of receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The length: a number and `s`, `m`, `h`, `d` or `w`, or `1mo` for a month.
    pub length: String,
    /// The interval between beginnings of windows, by default the length. With a shorter interval,
    /// windows slide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The time zone of days, weeks and months, such as `+09:00` or `Europe/Berlin`; UTC by
    /// default. Days begin at midnight and weeks on Monday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// In P17 and U28, how long after its end a window still waits for frames; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<String>,
}

/// The grouping of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupBy {
    /// One group of all devices.
    #[default]
    None,
    /// A group for each tenant.
    Tenant,
    /// A group for each device.
    Device,
}

/// Why a question is not registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// An invalid or unknown name.
    #[error("expected {what}, found {found:?}")]
    Name {
        /// The expected thing.
        what: &'static str,
        /// The text found.
        found: String,
    },
    /// Statistics that do not fit together.
    #[error("expected {0}")]
    Statistics(&'static str),
    /// The schema lacks something that a statistic needs.
    #[error("channel {channel}: expected {expected}")]
    Feature {
        /// The channel.
        channel: String,
        /// The missing feature.
        expected: &'static str,
    },
    /// Too few devices.
    #[error("expected at least {least} active devices that the question is about, found {found}")]
    Devices {
        /// The minimum.
        least: u32,
        /// The number found.
        found: usize,
    },
    /// A weight that too few devices share: the sum would reveal their readings.
    #[error(
        "weight {weight} in group {group:?} belongs to {found} of its devices, and at least {least} must share each \
         weight: the sum would tell the reading of a device with a weight of its own. Give more devices this weight"
    )]
    Weight {
        /// The group.
        group: String,
        /// The weight.
        weight: i64,
        /// The number of devices that have the weight.
        found: usize,
        /// The minimum of devices.
        least: u32,
    },
    /// A group whose devices all have weight 0.
    #[error(
        "all devices of group {group:?} have weight 0, so they are in no sum: give at least {least} of them another \
         weight, or leave the group out"
    )]
    Weightless {
        /// The group.
        group: String,
        /// The minimum of devices with a weight.
        least: u32,
    },
    /// Windows that the calendar makes, without their bounds.
    #[error(
        "expected windows of one length, found months or a named zone: register the question with `tobari sense query`"
    )]
    Calendar,
    /// Windows that cut through stretches of time.
    #[error(
        "expected windows of whole slices of {0} s: the fleet's schema says that all readings of a frame are of one \
         slice. Change the length, the interval or the zone of the window"
    )]
    Slice(u64),
    /// The order is invalid, or its result could overflow.
    #[error(transparent)]
    Order(#[from] OrderError),
}

/// A statistic in terms of columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// The number of samples.
    Count,
    /// The sum of a channel.
    Sum(usize),
    /// The mean of a channel.
    Mean(usize),
    /// The weighted sum of a channel.
    WeightedSum(usize),
    /// The variance of a channel.
    Variance(usize),
    /// The covariance of two channels, with the number of the pair.
    Covariance(usize, usize, usize),
    /// The histogram of a channel: the first numbers of bins, from the second bin on, and the edges
    /// of the bins.
    Histogram(usize, Vec<u32>, Vec<f64>),
    /// The count of a channel's readings above a threshold: the number, the value, and for an alarm
    /// its number of readings.
    Above(usize, u32, f64, Option<u64>),
}

impl Resolved {
    /// Whether a sheet has the statistic's columns, or a part of a vector's. Every sheet has the
    /// count.
    pub fn is_on(&self, sheet: &Sheet) -> bool {
        let of = |i: usize| {
            sheet.columns().iter().any(|column| matches!(column, Column::Value { channel, .. } if *channel == i))
        };
        match self {
            Self::Count => true,
            Self::Sum(i)
            | Self::Mean(i)
            | Self::WeightedSum(i)
            | Self::Variance(i)
            | Self::Histogram(i, ..)
            | Self::Above(i, ..) => of(*i),
            Self::Covariance(_, _, pair) => sheet.columns().contains(&Column::Product { pair: *pair, limb: 0 }),
        }
    }
}

/// The sheets that a question is about, by number.
fn sheets(schema: &Schema, statistics: &[Resolved]) -> Vec<u16> {
    let about = |sheet: &Sheet| statistics.iter().any(|one| *one != Resolved::Count && one.is_on(sheet));
    let all: Vec<u16> = (0..).zip(&schema.sheets()).filter(|(_, sheet)| about(sheet)).map(|(i, _)| i).collect();
    if all.is_empty() { vec![0] } else { all }
}

/// The milliseconds of a length of time.
fn milliseconds(text: &str) -> Result<u64, QuestionError> {
    crate::schema::milliseconds(text).ok_or_else(|| QuestionError::Name {
        what: "a time such as 30s, 5m, 1h, 7d or 1w",
        found: text.chars().take(20).collect(),
    })
}

/// A day.
const DAY_MS: u64 = 86_400_000;

impl Window {
    /// Whether its windows have no common length: months, and days and weeks of a named zone, which
    /// may have summer time.
    pub fn is_by_calendar(&self) -> bool {
        self.length.ends_with("mo") || self.zone.as_deref().is_some_and(|zone| !zone.contains(':') && !is_utc(zone))
    }

    /// The length, the interval, the offset of the first window and the lateness, in milliseconds.
    /// Of windows between bounds, length and interval are those of the longest.
    ///
    /// # Errors
    /// [`QuestionError::Name`].
    fn times(&self, bounds: &[u64]) -> Result<[u64; 4], QuestionError> {
        let lateness = self.lateness.as_deref().map_or(Ok(0), milliseconds)?;
        if let Some(longest) = bounds.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max() {
            return Ok([longest, longest, 0, lateness]);
        }
        let length = milliseconds(&self.length)?;
        let every = self.every.as_deref().map_or(Ok(length), milliseconds)?;
        let east_ms = self.zone.as_deref().map_or(Ok(0), zone)?;
        // 1970 began on a Thursday, so the first Monday was the fifth day
        let weeks = self.every.as_deref().unwrap_or(&self.length).ends_with('w');
        let monday = if weeks { 4 * DAY_MS } else { 0 };
        let offset = (monday as i64 - east_ms).rem_euclid(every as i64) as u64;
        Ok([length, every, offset, lateness])
    }
}

fn is_utc(zone: &str) -> bool {
    zone == "Z" || zone == "UTC"
}

/// The milliseconds by which a zone's clocks are ahead of UTC.
fn zone(text: &str) -> Result<i64, QuestionError> {
    let wrong = || QuestionError::Name {
        what: "a time zone such as +09:00, -03:30 or Z",
        found: text.chars().take(20).collect(),
    };
    if is_utc(text) {
        return Ok(0);
    }
    let (sign, rest) = text.split_at_checked(1).ok_or_else(wrong)?;
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str, most: i64| {
        let good = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| good && *number <= most).ok_or_else(wrong)
    };
    let ms = (60 * number(hours, 14)? + number(minutes, 59)?) * 60_000;
    match sign {
        "+" => Ok(ms),
        "-" => Ok(-ms),
        _ => Err(wrong()),
    }
}

impl Question {
    /// The question's statistics in terms of this schema's columns.
    ///
    /// # Errors
    /// [`QuestionError`] for channels, bins or thresholds that frames do not have.
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
}

fn resolved(schema: &Schema, statistic: &Statistic) -> Result<Resolved, QuestionError> {
    let channel = |name: &String| {
        schema.channel(name).ok_or_else(|| QuestionError::Name { what: "a channel of the schema", found: name.clone() })
    };
    let feature =
        |channel: usize, expected| QuestionError::Feature { channel: schema.channels[channel].name.clone(), expected };
    // whether the device sends what is summed
    let sent = |i: usize| !schema.channels[i].is_of_bytes(schema.profile);
    let scalar = |i: usize| match schema.channels[i].length {
        Some(_) => Err(feature(i, "no `length`: a vector has sums, means and weighted sums")),
        None => Ok(i),
    };
    Ok(match statistic {
        Statistic::Count => Resolved::Count,
        Statistic::Sum { channel: name } => Resolved::Sum(channel(name)?),
        Statistic::Mean { channel: name } => Resolved::Mean(channel(name)?),
        Statistic::WeightedSum { channel: name } => Resolved::WeightedSum(channel(name)?),
        Statistic::Variance { channel: name } => {
            let i = scalar(channel(name)?)?;
            if sent(i) && !schema.channels[i].square {
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
            let i = scalar(channel(name)?)?;
            let own = &schema.channels[i];
            let edges = if edges.is_empty() { &own.edges } else { edges };
            let starts =
                own.bins(edges).ok_or_else(|| feature(i, "edges that ascend by a step at least, within its range"))?;
            if sent(i) && own.bins(&own.edges).as_ref() != Some(&starts) {
                return Err(feature(i, "the edges that the schema has: devices of this profile count by them"));
            }
            Resolved::Histogram(i, starts, edges.clone())
        }
        Statistic::Above { channel: name, threshold } => above(schema, scalar(channel(name)?)?, *threshold, None)?,
        Statistic::Alarm { channel: name, threshold, at_least } => {
            above(schema, scalar(channel(name)?)?, *threshold, Some(*at_least))?
        }
    })
}

fn above(schema: &Schema, i: usize, threshold: f64, alarm: Option<u64>) -> Result<Resolved, QuestionError> {
    let own = &schema.channels[i];
    let feature = |expected| QuestionError::Feature { channel: own.name.clone(), expected };
    let number = own.threshold(threshold).ok_or_else(|| feature("a threshold within its range"))?;
    let known = own.is_of_bytes(schema.profile) || own.above.iter().any(|value| own.threshold(*value) == Some(number));
    if !known {
        return Err(feature("one of the thresholds that the schema has: devices of this profile count by them"));
    }
    Ok(Resolved::Above(i, number, threshold, alarm))
}

/// The first and the last byte of a bin of bytes.
pub(super) fn bin(starts: &[u32], bin: usize) -> (u8, u8) {
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    let first = bin.checked_sub(1).map_or(0, |before| byte(starts[before]));
    (first, starts.get(bin).map_or(u8::MAX, |next| byte(next - 1)))
}

/// The functions of readings that the server computes, each once; empty for sums straight from
/// frames.
fn measures<'a>(schema: &Schema, statistics: impl Iterator<Item = &'a Resolved>) -> Vec<Taken> {
    if schema.profile.is_linear() {
        return Vec::new();
    }
    // the readings also tell whether there is a sample
    let mut all = vec![Taken::Reading];
    let computed = |i: &usize| schema.channels[*i].is_of_bytes(schema.profile);
    for statistic in statistics {
        match statistic {
            Resolved::Variance(i) if computed(i) => all.extend([Taken::SquareHigh, Taken::SquareLow]),
            Resolved::Histogram(i, starts, _) if computed(i) => all.extend((0..=starts.len()).map(|which| {
                let (least, most) = bin(starts, which);
                Taken::Within(least, most)
            })),
            Resolved::Above(i, number, ..) if computed(i) => {
                all.push(Taken::Above(u8::try_from(*number).unwrap_or(u8::MAX)));
            }
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

/// Checks any bytes that parse as a question, a registered question or an order, without a panic.
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
        let _ = (question.resolve(&schema), question.window.times(&[]));
    }
    if let Ok(schema) = serde_json::from_slice::<Schema>(data) {
        let _ = schema.check().map(|()| schema.frames(&[vec![7; schema.row_length()]]));
    }
}

const FUZZ_SCHEMA: &str = r#"{"profile":"u25","channel":[{"name":"x","square":true,"edges":[10,20],"above":[99]}]}"#;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::schema::ProfileName;

    pub(super) fn question(text: &str) -> Question {
        serde_json::from_str(text).unwrap()
    }

    pub(super) const PLAIN: &str =
        r#"{"name":"q","window":{"length":"1m"},"statistic":[{"kind":"mean","channel":"x"}]}"#;

    /// Every text ends inside a list that is already too long. A reader that checks limits only at
    /// the end would first find the end of the text.
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
        let found = measures(&p1, any.resolve(&p1).unwrap().iter());
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
