//! The meaning of a frame's readings: channels, samples, and the bytes that a device adds to them.
//!
//! A frame has 256 bytes. A **sample** is one row of readings: a number for each channel, or as
//! many numbers as a vector has. A reading of 8, 16 or 32 bits takes one, two or four bytes, the
//! highest first: bytes add up without a carry, and `256 Σ high + Σ low` is the sum of the
//! readings. Each row is a fixed list of [`Column`]s:
//!
//! ```text
//! reading at (sample s, column c) = byte  first + s · columns + c
//! ```
//!
//! Bytes beyond the rows are zero in every frame, so their sums are zero in every honest result. A
//! channel's physical value is `least + step · n`, which the device rounds to the nearest number
//! `n`.
//!
//! **How samples are counted** ([`Counting`]). The last frame of a device may have fewer rows; the
//! columns of the missing ones are zero. With a byte in each row (1, or 0 for a missing row) or one
//! byte in each frame (the number of its rows), the sum of these bytes is the exact count. A fleet
//! whose frames are always full needs neither byte.
//!
//! **Sheets**. A row that is too long for a frame is divided: each frame of a row group has a part
//! of the columns, and the number of this part, its sheet, in its head. All columns of a reading
//! are in one sheet. Frames of version 1 have no number, so they have one sheet.
//!
//! U25 and U28 allow only sums, so a device sends every byte to be summed: the bytes of each square
//! and product, a one for the bin of a reading, and a one for each threshold below a reading. In P1
//! and P17 the server computes functions of a byte itself ([`super::exact::Measure`]), and the
//! device adds only products, and what belongs to readings of more than a byte.

mod sheets;

use super::lists::at_most;
use serde::{Deserialize, Serialize};
use std::fmt;
use tobari_device::{Head, Profile, READINGS, Refused};

/// The largest number of channels.
pub const MAX_CHANNELS: usize = 4096;
/// The largest number of readings of a row: one for each channel, or all of a vector.
pub const MAX_READINGS: usize = 1 << 16;
/// The largest number of pairs of channels whose products are sent.
pub const MAX_PRODUCTS: usize = 64;
/// Largest length of a name in bytes.
pub const MAX_NAME: usize = 64;

/// The profile of a fleet's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// The server computes functions of bytes. Frames have no time.
    P1,
    /// The server computes sums straight from frames. Frames have no time.
    U25,
    /// As P1, and frames have a time.
    P17,
    /// The server computes sums straight from frames, of four times as many devices as in U25, and
    /// frames have a time.
    U28,
}

/// Runs code with the type of a profile.
///
/// ```
/// use tobari_sense::{ProfileName, with_profile};
/// let bytes = with_profile!(ProfileName::U28, P => <P as tobari_device::Profile>::FRAME);
/// assert_eq!(bytes, 943);
/// ```
#[macro_export]
macro_rules! with_profile {
    ($name:expr, $profile:ident => $code:expr) => {
        match $name {
            $crate::ProfileName::P1 => {
                type $profile = $crate::devices::P1;
                $code
            }
            $crate::ProfileName::U25 => {
                type $profile = $crate::devices::U25;
                $code
            }
            $crate::ProfileName::P17 => {
                type $profile = $crate::devices::P17;
                $code
            }
            $crate::ProfileName::U28 => {
                type $profile = $crate::devices::U28;
                $code
            }
        }
    };
}

impl ProfileName {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::P1, Self::U25, Self::P17, Self::U28];

    /// The profile's code in frames.
    pub fn code(self) -> u8 {
        with_profile!(self, P => P::CODE)
    }

    /// The profile with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.code() == code)
    }

    /// Bytes of a frame.
    pub fn frame_bytes(self) -> usize {
        with_profile!(self, P => P::FRAME)
    }

    /// Whether the server computes sums straight from frames, and no functions of bytes.
    pub fn is_linear(self) -> bool {
        matches!(self, Self::U25 | Self::U28)
    }

    /// Whether frames have a time and a sheet: version 2.
    pub fn is_stamped(self) -> bool {
        with_profile!(self, P => P::VERSION == 2)
    }

    /// The head of a frame, before any check of its MAC.
    ///
    /// # Errors
    /// [`Refused`] for another length, version or profile.
    pub fn peek(self, frame: &[u8]) -> Result<Head, Refused> {
        with_profile!(self, P => tobari_device::peek::<P>(frame))
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P1 => "p1",
            Self::U25 => "u25",
            Self::P17 => "p17",
            Self::U28 => "u28",
        })
    }
}

/// How a device tells the number of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counting {
    /// A byte in each row: 1, or 0 for a missing row.
    Row,
    /// One byte in each frame: the number of its rows, at most 255.
    Frame,
    /// No byte: all frames are full.
    Full,
}

/// One kind of reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Channel {
    /// The name of the channel.
    pub name: String,
    /// The value of number 0.
    #[serde(default)]
    pub least: f64,
    /// The value of one step.
    #[serde(default = "one")]
    pub step: f64,
    /// Bits of a reading: 8, 16 or 32.
    #[serde(default = "eight", skip_serializing_if = "is_eight")]
    pub bits: u8,
    /// For a vector, the number of its readings; in a file its columns are `name[0]`, `name[1]`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// Whether the device sends the bytes of its square: for variances, except of bytes in P1 and
    /// P17.
    #[serde(default, skip_serializing_if = "is_false")]
    pub square: bool,
    /// The edges between a histogram's bins, ascending; there is one more bin than edges. For
    /// histograms, except of bytes in P1 and P17.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, READINGS>")]
    pub edges: Vec<f64>,
    /// Thresholds, for counts above them and alarms, except of bytes in P1 and P17.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<_, _, READINGS>")]
    pub above: Vec<f64>,
}

fn one() -> f64 {
    1.0
}

fn eight() -> u8 {
    8
}

fn one_sample() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_eight(bits: &u8) -> bool {
    *bits == 8
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The meaning of frames.
///
/// ```
/// use tobari_sense::schema::{Column, Schema};
/// let text = r#"{"profile":"u25","channel":[{"name":"level","above":[99]}]}"#;
/// let schema: Schema = serde_json::from_str(text).unwrap();
/// schema.check()?;
/// let value = Column::Value { channel: 0, element: 0, limb: 0 };
/// assert_eq!(schema.sheets()[0].columns(), [Column::Present, value, Column::Above(0, 0)]);
/// assert_eq!(schema.frames(&[vec![100]])?[0][..4], [1, 100, 1, 0]);
/// # Ok::<(), tobari_sense::schema::SchemaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Schema {
    /// The profile of the frames.
    pub profile: ProfileName,
    /// The number of rows of a frame.
    #[serde(default = "one_sample")]
    pub samples: usize,
    /// How samples are counted; `row` by default in P1 and U25, `frame` in P17 and U28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<Counting>,
    /// In P17 and U28, the length of the shortest stretch of time, `1m` by default: all readings of
    /// a frame are of one stretch, and its head has the beginning of that stretch. Windows of
    /// questions consist of whole stretches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// The channels.
    #[serde(rename = "channel", deserialize_with = "at_most::<_, _, MAX_CHANNELS>")]
    pub channels: Vec<Channel>,
    /// Pairs of channels whose products the device sends: for covariances.
    #[serde(
        default,
        rename = "products",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_most::<_, _, MAX_PRODUCTS>"
    )]
    pub products: Vec<[String; 2]>,
}

/// One byte of a sample. A limb is a byte of a number, 0 for the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// 1 if there is a sample.
    Present,
    /// A byte of a reading.
    Value {
        /// The channel.
        channel: usize,
        /// The place in a vector, else 0.
        element: usize,
        /// The byte.
        limb: usize,
    },
    /// A byte of a reading's square, which has twice as many.
    Square {
        /// The channel.
        channel: usize,
        /// The place in a vector, else 0.
        element: usize,
        /// The byte.
        limb: usize,
    },
    /// 1 if the reading of a channel is in a bin.
    Bin(usize, usize),
    /// 1 if the reading of a channel is above a threshold.
    Above(usize, usize),
    /// A byte of a pair's product.
    Product {
        /// The number of the pair.
        pair: usize,
        /// The byte.
        limb: usize,
    },
}

pub use sheets::Sheet;

/// Why there is no schema, or no frame of it. The error never contains a reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A wrong number of things.
    #[error("expected {expected}, found {found}")]
    Count {
        /// The expected thing.
        expected: &'static str,
        /// The number found.
        found: usize,
    },
    /// An invalid name, or the same name twice.
    #[error("expected names of 1 to 64 letters, digits, '-', '_' and '.', each once, found {0:?}")]
    Name(String),
    /// A channel whose numbers do not fit together.
    #[error("channel {channel}: expected {expected}")]
    Channel {
        /// The channel.
        channel: String,
        /// The expected thing.
        expected: &'static str,
    },
    /// A frame has too little room.
    #[error(
        "expected rows that fill at most {READINGS} bytes, found {samples} samples of {columns} columns: use fewer \
         samples, or in frames of version 2 (p17, u28) `count = \"frame\"`"
    )]
    Room {
        /// The number of rows.
        samples: usize,
        /// The number of columns.
        columns: usize,
    },
    /// A reading outside the range of its channel's bytes.
    #[error("channel {channel}: expected a number within the range of its bits, found another")]
    Reading {
        /// The channel.
        channel: String,
    },
    /// Rows that do not fill a frame of a fleet whose frames are full.
    #[error("expected frames of {samples} samples, found {found}: `count = \"full\"` has no place for fewer")]
    Partial {
        /// Samples of a frame.
        samples: usize,
        /// The number found.
        found: usize,
    },
    /// A length of time that is none.
    #[error("expected a slice such as 1s, 30s, 1m or 1h that divides a day, found {0:?}")]
    Slice(String),
}

/// The milliseconds of a text with a number and a unit: `s`, `m`, `h`, `d` or `w`.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()? {
        b's' => 1_000,
        b'm' => 60_000,
        b'h' => 3_600_000,
        b'd' => 86_400_000,
        b'w' => 7 * 86_400_000,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    (1..=100_000).contains(&number).then(|| number * unit)
}

/// Whether the text may name a channel, a device or a group. Names are printed unescaped.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

impl Channel {
    /// The largest number of a reading.
    pub fn most(&self) -> u32 {
        u32::MAX >> (32 - u32::from(self.bits).clamp(1, 32))
    }

    /// Bytes of a reading.
    pub fn limbs(&self) -> usize {
        usize::from(self.bits) / 8
    }

    /// The number of readings in a row.
    pub fn readings(&self) -> usize {
        self.length.unwrap_or(1)
    }

    /// Whether the server computes functions of its readings. If not, devices send what is summed.
    pub fn is_of_bytes(&self, profile: ProfileName) -> bool {
        !profile.is_linear() && self.bits == 8
    }

    /// The position of a value in steps, rounded only to remove representation errors.
    fn place(&self, value: f64) -> f64 {
        let place = (value - self.least) / self.step;
        // a double has 53 bits
        let error = 1e-6_f64.max(place.abs() * 1e-12);
        if (place - place.round()).abs() < error { place.round() } else { place }
    }

    /// The number of a reading; `None` if it is out of range.
    pub fn number(&self, value: f64) -> Option<u32> {
        let place = self.place(value).round();
        (0.0..=f64::from(self.most())).contains(&place).then_some(place as u32)
    }

    /// The number of a threshold: a reading is above the value exactly if its number is above this.
    /// `None` if all numbers or no numbers are above.
    pub fn threshold(&self, value: f64) -> Option<u32> {
        let place = self.place(value).floor();
        (0.0..f64::from(self.most())).contains(&place).then_some(place as u32)
    }

    /// The first numbers of bins, from the second bin on; `None` unless they ascend and no bin is
    /// empty.
    pub fn bins(&self, edges: &[f64]) -> Option<Vec<u32>> {
        let starts: Option<Vec<u32>> = edges.iter().map(|edge| self.start(*edge)).collect();
        starts.filter(|starts| !starts.is_empty() && starts.is_sorted_by(|a, b| a < b))
    }

    fn start(&self, edge: f64) -> Option<u32> {
        let place = self.place(edge).ceil();
        (1.0..=f64::from(self.most())).contains(&place).then_some(place as u32)
    }

    fn check(&self, profile: ProfileName) -> Result<(), SchemaError> {
        let wrong = |expected| Err(SchemaError::Channel { channel: self.name.clone(), expected });
        if !is_name(&self.name) {
            return Err(SchemaError::Name(self.name.chars().take(MAX_NAME).collect()));
        }
        if !(self.least.is_finite() && self.step.is_finite() && self.step > 0.0) {
            return wrong("a finite least value and a positive step");
        }
        if ![8, 16, 32].contains(&self.bits) {
            return wrong("`bits` of 8, 16 or 32");
        }
        let features = self.square || !self.edges.is_empty() || !self.above.is_empty();
        if self.is_of_bytes(profile) && features {
            return wrong(
                "no squares, edges or thresholds for bytes in profiles p1 and p17, whose server computes them",
            );
        }
        if self.length.is_some_and(|length| !(1..=MAX_READINGS).contains(&length)) {
            return wrong("a `length` of 1 to 65536");
        }
        if self.length.is_some() && features {
            return wrong("no squares, edges or thresholds for a vector, which has sums and means");
        }
        if !self.edges.is_empty() && self.bins(&self.edges).is_none() {
            return wrong("edges that ascend by a step at least, within the range of its bits");
        }
        let mut thresholds: Vec<Option<u32>> = self.above.iter().map(|value| self.threshold(*value)).collect();
        thresholds.sort_unstable();
        let count = thresholds.len();
        thresholds.dedup();
        if thresholds.len() != count || thresholds.contains(&None) {
            return wrong("thresholds within the range of its bits, each once");
        }
        Ok(())
    }
}

impl Schema {
    /// Checks that the schema is valid.
    ///
    /// # Errors
    /// [`SchemaError`].
    pub fn check(&self) -> Result<(), SchemaError> {
        if !(1..=MAX_CHANNELS).contains(&self.channels.len()) {
            return Err(SchemaError::Count { expected: "1 to 4096 channels", found: self.channels.len() });
        }
        if self.samples == 0 || self.samples > READINGS {
            return Err(SchemaError::Count { expected: "1 to 256 samples", found: self.samples });
        }
        if self.counting() == Counting::Frame && self.samples > 255 {
            return Err(SchemaError::Count {
                expected: "at most 255 samples with `count = \"frame\"`, whose byte says how many there are (256 with \"full\")",
                found: self.samples,
            });
        }
        if self.products.len() > MAX_PRODUCTS {
            return Err(SchemaError::Count { expected: "at most 64 products", found: self.products.len() });
        }
        let mut names = std::collections::BTreeSet::new();
        for channel in &self.channels {
            channel.check(self.profile)?;
            if !names.insert(&channel.name) {
                return Err(SchemaError::Name(channel.name.clone()));
            }
        }
        let readings = self.row_length();
        if readings > MAX_READINGS {
            return Err(SchemaError::Count { expected: "at most 65536 readings in a row", found: readings });
        }
        if !self.profile.is_stamped() && (self.slice.is_some() || self.count.is_some()) {
            let first = self.channels[0].name.clone();
            let expected = "`slice` and `count` only in profiles p17 and u28, whose frames are of version 2";
            return Err(SchemaError::Channel { channel: first, expected });
        }
        self.slice_seconds()?;
        self.check_products()?;
        self.check_sheets()
    }

    fn check_products(&self) -> Result<(), SchemaError> {
        for pair in &self.products {
            for name in pair {
                let Some(channel) = self.channel(name) else {
                    return Err(SchemaError::Name(name.chars().take(MAX_NAME).collect()));
                };
                if self.channels[channel].length.is_some() {
                    let expected = "no vector in a product";
                    return Err(SchemaError::Channel { channel: name.clone(), expected });
                }
            }
        }
        Ok(())
    }

    /// How samples are counted.
    pub fn counting(&self) -> Counting {
        self.count.unwrap_or(if self.profile.is_stamped() { Counting::Frame } else { Counting::Row })
    }

    /// The length of a stretch of time, in seconds; a day is a multiple of it. 0 in version 1,
    /// whose frames have no time.
    ///
    /// # Errors
    /// [`SchemaError::Slice`].
    pub fn slice_seconds(&self) -> Result<u64, SchemaError> {
        if !self.profile.is_stamped() {
            return Ok(0);
        }
        let text = self.slice.as_deref().unwrap_or("1m");
        let seconds = milliseconds(text).unwrap_or(0) / 1000;
        let fits = seconds > 0 && 86_400 % seconds == 0;
        if fits { Ok(seconds) } else { Err(SchemaError::Slice(text.chars().take(20).collect())) }
    }

    /// The number of readings of a row.
    pub fn row_length(&self) -> usize {
        self.channels.iter().map(Channel::readings).fold(0, usize::saturating_add)
    }

    /// The number of the channel with this name.
    pub fn channel(&self, name: &str) -> Option<usize> {
        self.channels.iter().position(|channel| channel.name == name)
    }

    /// The number of the product of these channels, in either order.
    pub fn product(&self, a: usize, b: usize) -> Option<usize> {
        let of = |pair: &[String; 2]| [self.channel(&pair[0]), self.channel(&pair[1])];
        self.products.iter().position(|pair| [[Some(a), Some(b)], [Some(b), Some(a)]].contains(&of(pair)))
    }

    /// The channel of each reading of a row.
    pub fn row_channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.iter().flat_map(|channel| std::iter::repeat_n(channel, channel.readings()))
    }

    /// The numbers of a row's readings, which are given in physical units.
    ///
    /// # Errors
    /// [`SchemaError::Count`] for a wrong number of readings, [`SchemaError::Reading`] for a
    /// reading out of range.
    pub fn numbers(&self, readings: &[f64]) -> Result<Vec<u32>, SchemaError> {
        if readings.len() != self.row_length() {
            return Err(SchemaError::Count { expected: "a reading for each channel", found: readings.len() });
        }
        let number = |(channel, reading): (&Channel, &f64)| {
            channel.number(*reading).ok_or_else(|| SchemaError::Reading { channel: channel.name.clone() })
        };
        self.row_channels().zip(readings).map(number).collect()
    }
}

#[cfg(test)]
mod tests;
