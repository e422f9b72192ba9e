//! Statistics in their text form.
//!
//! Each statistic has exactly the fields of its kind. Reading stops at the limit of a list.

use crate::lists::at_most;
use serde::{Deserialize, Deserializer, Serialize};

/// The largest number of edges of a histogram: each is at a different byte other than 0.
pub const MAX_EDGES: usize = 255;

/// One statistic of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", try_from = "Written", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Statistic {
    /// The number of samples.
    Count,
    /// The sum of readings.
    Sum {
        /// The channel.
        channel: String,
    },
    /// The mean of readings.
    Mean {
        /// The channel.
        channel: String,
    },
    /// The sum of readings in steps of bytes, each multiplied by its device's weight.
    WeightedSum {
        /// The channel.
        channel: String,
    },
    /// The population variance, not the sample variance.
    Variance {
        /// The channel.
        channel: String,
    },
    /// The covariance of two channels.
    Covariance {
        /// The two channels.
        channels: [String; 2],
    },
    /// The number of readings in each bin.
    Histogram {
        /// The channel.
        channel: String,
        /// The edges between bins; the schema's if empty.
        edges: Vec<f64>,
    },
    /// The number of readings above a threshold.
    Above {
        /// The channel.
        channel: String,
        /// The threshold.
        threshold: f64,
    },
    /// Whether at least this many readings are above a threshold.
    Alarm {
        /// The channel.
        channel: String,
        /// The threshold.
        threshold: f64,
        /// The number of readings; 1 by default.
        at_least: u64,
    },
}

/// The kind of a statistic.
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

/// A statistic in its text form, with the fields of all kinds.
///
/// For an internally tagged enum, serde keeps every field until it finds the tag, at 32 bytes for a
/// zero and a comma, and checks limits only afterwards.
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

/// A field that is present, and so is not null.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::tests::{PLAIN, question};
    use super::super::{MAX_STATISTICS, Question};
    use super::*;
    use crate::schema::Schema;

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
}
