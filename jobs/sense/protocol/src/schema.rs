//! The meaning of a frame's readings: channels, samples, and the bytes that a device adds to them.
//!
//! A frame has 256 bytes. A **sample** is one row of readings, a byte for each channel. A frame
//! holds `samples` rows, and each row is a fixed list of [`Column`]s:
//!
//! ```text
//! reading at (sample s, column c) = byte  s · columns + c,      samples · columns ≤ 256,
//! ```
//!
//! Bytes beyond the rows are zero in every frame, so their sums are zero in every honest result. A
//! channel's physical value is `least + step · byte`, which the device rounds to the nearest byte.
//!
//! **The first column tells whether there is a sample**: 1, or 0 for a row that is missing in the
//! last frame of a file; the other columns of such a row are zero, too. The column's sum is the
//! exact count. U25 allows only sums, so a device sends every byte to be summed: two bytes of each
//! square and product, a one for the bin of a reading, and a one for each threshold below a
//! reading. In P1 the server computes functions of a byte itself ([`super::exact::Measure`]), and
//! the device adds only products.

use serde::{Deserialize, Serialize};
use std::fmt;
use tobari_device::READINGS;

/// The largest number of channels.
pub const MAX_CHANNELS: usize = 64;
/// Largest length of a name in bytes.
pub const MAX_NAME: usize = 64;

/// The profile of a fleet's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// The server computes functions of bytes.
    P1,
    /// The server computes sums straight from frames.
    U25,
}

impl ProfileName {
    /// The profile's code in frames.
    pub fn code(self) -> u8 {
        match self {
            Self::P1 => <tobari_device::P1 as tobari_device::Profile>::CODE,
            Self::U25 => <tobari_device::U25 as tobari_device::Profile>::CODE,
        }
    }

    /// The profile with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::P1, Self::U25].into_iter().find(|profile| profile.code() == code)
    }

    /// Bytes of a frame.
    pub fn frame_bytes(self) -> usize {
        match self {
            Self::P1 => <tobari_device::P1 as tobari_device::Profile>::FRAME,
            Self::U25 => <tobari_device::U25 as tobari_device::Profile>::FRAME,
        }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P1 => "p1",
            Self::U25 => "u25",
        })
    }
}

/// One kind of reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Channel {
    /// The name of the channel.
    pub name: String,
    /// The value of byte 0.
    #[serde(default)]
    pub least: f64,
    /// The value of one step of a byte.
    #[serde(default = "one")]
    pub step: f64,
    /// Whether the device sends the two bytes of its square: for variances in U25.
    #[serde(default, skip_serializing_if = "is_false")]
    pub square: bool,
    /// The edges between a histogram's bins, ascending; there is one more bin than edges. For
    /// histograms in U25.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<f64>,
    /// Thresholds, for counts above them and alarms in U25.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<f64>,
}

fn one() -> f64 {
    1.0
}

fn one_sample() -> usize {
    1
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
/// assert_eq!(schema.columns(), [Column::Present, Column::Value(0), Column::Above(0, 0)]);
/// assert_eq!(schema.frame(&[vec![100]]).unwrap()[..4], [1, 100, 1, 0]);
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
    /// The channels.
    #[serde(rename = "channel")]
    pub channels: Vec<Channel>,
    /// Pairs of channels whose products the device sends: for covariances.
    #[serde(default, rename = "products", skip_serializing_if = "Vec::is_empty")]
    pub products: Vec<[String; 2]>,
}

/// One byte of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// 1 if there is a sample.
    Present,
    /// The reading of a channel.
    Value(usize),
    /// `⌊m²/256⌋` of a channel.
    SquareHigh(usize),
    /// `m² mod 256` of a channel.
    SquareLow(usize),
    /// 1 if the reading of a channel is in a bin.
    Bin(usize, usize),
    /// 1 if the reading of a channel is above a threshold.
    Above(usize, usize),
    /// The high byte of a pair's product.
    ProductHigh(usize),
    /// The low byte of a pair's product.
    ProductLow(usize),
}

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
    #[error("expected samples times columns of at most {READINGS}, found {samples} times {columns}")]
    Room {
        /// The number of rows.
        samples: usize,
        /// The number of columns.
        columns: usize,
    },
    /// A reading outside the range of its channel's bytes.
    #[error("channel {channel}: expected a number within the range of its bytes, found another")]
    Reading {
        /// The channel.
        channel: String,
    },
}

/// Whether the text may name a channel, a device or a group. Names are printed unescaped.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

impl Channel {
    /// The byte position of a value, rounded only to remove representation errors.
    fn place(&self, value: f64) -> f64 {
        let place = (value - self.least) / self.step;
        if (place - place.round()).abs() < 1e-6 { place.round() } else { place }
    }

    /// The byte of a reading; `None` if it is out of range.
    pub fn byte(&self, value: f64) -> Option<u8> {
        let place = self.place(value).round();
        (0.0..=255.0).contains(&place).then_some(place as u8)
    }

    /// The byte of a threshold: a reading is above the value exactly if its byte is above this
    /// byte. `None` if all bytes or no bytes are above.
    pub fn threshold(&self, value: f64) -> Option<u8> {
        let place = self.place(value).floor();
        (0.0..=254.0).contains(&place).then_some(place as u8)
    }

    /// The first bytes of bins, from the second bin on; `None` unless they ascend and no bin is
    /// empty.
    pub fn bins(&self, edges: &[f64]) -> Option<Vec<u8>> {
        let starts: Option<Vec<u8>> = edges.iter().map(|edge| self.start(*edge)).collect();
        starts.filter(|starts| !starts.is_empty() && starts.is_sorted_by(|a, b| a < b))
    }

    fn start(&self, edge: f64) -> Option<u8> {
        let place = self.place(edge).ceil();
        (1.0..=255.0).contains(&place).then_some(place as u8)
    }

    fn check(&self, profile: ProfileName) -> Result<(), SchemaError> {
        let wrong = |expected| Err(SchemaError::Channel { channel: self.name.clone(), expected });
        if !is_name(&self.name) {
            return Err(SchemaError::Name(self.name.chars().take(MAX_NAME).collect()));
        }
        if !(self.least.is_finite() && self.step.is_finite() && self.step > 0.0) {
            return wrong("a finite least value and a positive step");
        }
        if profile == ProfileName::P1 && (self.square || !self.edges.is_empty() || !self.above.is_empty()) {
            return wrong("no squares, edges or thresholds in profile p1, whose server computes them");
        }
        if !self.edges.is_empty() && self.bins(&self.edges).is_none() {
            return wrong("edges that ascend by a step at least, within the range of bytes");
        }
        let mut thresholds: Vec<Option<u8>> = self.above.iter().map(|value| self.threshold(*value)).collect();
        thresholds.sort_unstable();
        let count = thresholds.len();
        thresholds.dedup();
        if thresholds.len() != count || thresholds.contains(&None) {
            return wrong("thresholds within the range of bytes, each once");
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
            return Err(SchemaError::Count { expected: "1 to 64 channels", found: self.channels.len() });
        }
        if self.samples == 0 || self.products.len() > MAX_CHANNELS {
            return Err(SchemaError::Count {
                expected: "a sample at least, and at most 64 products",
                found: self.samples,
            });
        }
        for (i, channel) in self.channels.iter().enumerate() {
            channel.check(self.profile)?;
            if self.channels[..i].iter().any(|other| other.name == channel.name) {
                return Err(SchemaError::Name(channel.name.clone()));
            }
        }
        for pair in &self.products {
            if let Some(unknown) = pair.iter().find(|name| self.channel(name).is_none()) {
                return Err(SchemaError::Name(unknown.chars().take(MAX_NAME).collect()));
            }
        }
        let (samples, columns) = (self.samples, self.columns().len());
        let fits = samples.checked_mul(columns).is_some_and(|readings| readings <= READINGS);
        if fits { Ok(()) } else { Err(SchemaError::Room { samples, columns }) }
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

    /// The columns of a sample, in order.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::Present];
        for (i, channel) in self.channels.iter().enumerate() {
            columns.push(Column::Value(i));
            if channel.square {
                columns.extend([Column::SquareHigh(i), Column::SquareLow(i)]);
            }
            let bins = if channel.edges.is_empty() { 0 } else { channel.edges.len() + 1 };
            columns.extend((0..bins).map(|bin| Column::Bin(i, bin)));
            columns.extend((0..channel.above.len()).map(|which| Column::Above(i, which)));
        }
        columns.extend((0..self.products.len()).flat_map(|pair| [Column::ProductHigh(pair), Column::ProductLow(pair)]));
        columns
    }

    /// The bytes of readings that are given in physical units.
    ///
    /// # Errors
    /// [`SchemaError::Count`] for a wrong number of readings, [`SchemaError::Reading`] for a
    /// reading out of range.
    pub fn bytes(&self, readings: &[f64]) -> Result<Vec<u8>, SchemaError> {
        if readings.len() != self.channels.len() {
            return Err(SchemaError::Count { expected: "a reading for each channel", found: readings.len() });
        }
        let byte = |(channel, reading): (&Channel, &f64)| {
            channel.byte(*reading).ok_or_else(|| SchemaError::Reading { channel: channel.name.clone() })
        };
        self.channels.iter().zip(readings).map(byte).collect()
    }

    /// The readings of a frame, for a device to encrypt: rows of bytes, one byte for each channel.
    /// Missing rows are marked as missing.
    ///
    /// # Errors
    /// [`SchemaError::Count`] for more rows than a frame has, or rows of a wrong length.
    pub fn frame(&self, rows: &[Vec<u8>]) -> Result<[u8; READINGS], SchemaError> {
        if rows.len() > self.samples {
            return Err(SchemaError::Count { expected: "no more rows than a frame has samples", found: rows.len() });
        }
        let (columns, mut readings) = (self.columns(), [0; READINGS]);
        for (row, place) in rows.iter().zip(readings.chunks_mut(columns.len())) {
            if row.len() != self.channels.len() {
                return Err(SchemaError::Count { expected: "a byte for each channel", found: row.len() });
            }
            place.iter_mut().zip(&columns).for_each(|(byte, column)| *byte = self.column(*column, row));
        }
        Ok(readings)
    }

    fn column(&self, column: Column, row: &[u8]) -> u8 {
        let square = |i: usize| (u16::from(row[i]) * u16::from(row[i])).to_be_bytes();
        let product = |pair: usize| {
            let of = |which: usize| self.channel(&self.products[pair][which]).map_or(0, |i| u16::from(row[i]));
            (of(0) * of(1)).to_be_bytes()
        };
        match column {
            Column::Present => 1,
            Column::Value(i) => row[i],
            Column::SquareHigh(i) => square(i)[0],
            Column::SquareLow(i) => square(i)[1],
            Column::Bin(i, bin) => {
                let starts = self.channels[i].bins(&self.channels[i].edges).unwrap_or_default();
                u8::from(starts.iter().filter(|start| **start <= row[i]).count() == bin)
            }
            Column::Above(i, which) => {
                u8::from(self.channels[i].threshold(self.channels[i].above[which]).is_some_and(|most| row[i] > most))
            }
            Column::ProductHigh(pair) => product(pair)[0],
            Column::ProductLow(pair) => product(pair)[1],
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn climate() -> Schema {
        let channel = |name: &str, least, step| Channel {
            name: name.to_owned(),
            least,
            step,
            square: true,
            edges: vec![least + 10.0 * step, least + 20.0 * step],
            above: vec![least + 30.0 * step],
        };
        Schema {
            profile: ProfileName::U25,
            samples: 8,
            channels: vec![channel("temperature", -40.0, 0.5), channel("humidity", 0.0, 0.1)],
            products: vec![["temperature".to_owned(), "humidity".to_owned()]],
        }
    }

    #[test]
    fn a_frame_has_what_its_columns_say_and_zeros_elsewhere() {
        let schema = climate();
        schema.check().unwrap();
        let columns = schema.columns();
        assert_eq!(columns.len(), 1 + 2 * 7 + 2);
        let rows = [vec![9, 10], vec![255, 31]];
        let frame = schema.frame(&rows).unwrap();
        let at = |row: usize, column| frame[row * columns.len() + columns.iter().position(|c| *c == column).unwrap()];
        assert_eq!([at(0, Column::Present), at(1, Column::Value(0)), at(1, Column::Value(1))], [1, 255, 31]);
        assert_eq!([at(1, Column::SquareHigh(0)), at(1, Column::SquareLow(0))], (255u16 * 255).to_be_bytes());
        assert_eq!([at(0, Column::ProductHigh(0)), at(0, Column::ProductLow(0))], [0, 90]);
        assert_eq!([0, 1, 2].map(|bin| at(0, Column::Bin(0, bin))), [1, 0, 0], "9 is below the first edge");
        assert_eq!([0, 1, 2].map(|bin| at(0, Column::Bin(1, bin))), [0, 1, 0], "10 is at it");
        assert_eq!([at(0, Column::Above(1, 0)), at(1, Column::Above(1, 0))], [0, 1]);
        assert!(frame[2 * columns.len()..].iter().all(|byte| *byte == 0), "no third row");
        assert!(schema.frame(&vec![vec![0, 0]; 9]).is_err() && schema.frame(&[vec![0]]).is_err());
    }

    #[test]
    fn values_round_to_bytes_and_thresholds_split_them_exactly() {
        let schema = climate();
        let tenth = &schema.channels[1];
        for byte in 0..=255u8 {
            assert_eq!(tenth.byte(0.1 * f64::from(byte)), Some(byte));
        }
        assert_eq!((tenth.threshold(3.0), tenth.threshold(3.05), tenth.threshold(-0.1)), (Some(30), Some(30), None));
        assert_eq!((tenth.threshold(25.5), tenth.threshold(25.4)), (None, Some(254)));
        assert_eq!(
            (tenth.bins(&[1.0, 1.05]), tenth.bins(&[1.0, 1.0]), tenth.bins(&[0.0])),
            (Some(vec![10, 11]), None, None)
        );
        assert_eq!(schema.bytes(&[-40.0, 25.5]).unwrap(), [0, 255]);
        let wrong = schema.bytes(&[-41.0, 0.0]).unwrap_err().to_string();
        assert!(wrong.contains("temperature") && !wrong.contains("41"), "a message tells no reading");
        assert!(schema.bytes(&[f64::NAN, 0.0]).is_err() && schema.bytes(&[0.0]).is_err());
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let change = |with: &dyn Fn(&mut Schema)| {
            let mut schema = climate();
            with(&mut schema);
            schema.check()
        };
        assert!(change(&|_| ()).is_ok());
        assert!(matches!(change(&|s| s.samples = 16), Err(SchemaError::Room { .. })));
        assert!(change(&|s| s.samples = 0).is_err() && change(&|s| s.channels.clear()).is_err());
        assert!(change(&|s| s.channels[0].name = "humidity".to_owned()).is_err());
        assert!(change(&|s| s.channels[0].name = "a b".to_owned()).is_err());
        assert!(change(&|s| s.channels[0].step = 0.0).is_err() && change(&|s| s.channels[0].least = f64::NAN).is_err());
        assert!(change(&|s| s.channels[0].edges = vec![5.0, 5.0]).is_err());
        assert!(change(&|s| s.channels[0].above = vec![1000.0]).is_err());
        assert!(change(&|s| s.channels[0].above = vec![1.0, 1.1]).is_err(), "both are one byte");
        assert!(change(&|s| s.products[0][1] = "pressure".to_owned()).is_err());
        assert!(change(&|s| s.profile = ProfileName::P1).is_err(), "the server computes them");
    }
}
