//! An analyst's results: figures of groups, as JSON and as numbers of time series.
//!
//! Everything is computed from exact sums of bytes. A figure in physical units is a double. Beside
//! it is the exact figure in steps of bytes, an integer or a fraction. With `m = Σ m/n` of bytes,
//! least value `l` and step `s`: sum `n l + s Σ m`, mean `l + s m`, variance `s² var`, covariance
//! `s s' cov`.
//!
//! The last frame may have fewer samples; the bytes of missing samples are zero. They are in no
//! column of U25. In P1 the server's function of zero is subtracted once for each missing sample.

use super::analytics::{Fraction, Moments, covariance};
use super::order::Taken;
use super::question::{Registered, Resolved, bin};
use super::schema::{Column, ProfileName, Schema};
use serde::{Deserialize, Serialize};
use tobari_device::READINGS;

/// The sums of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSums {
    /// The name of the group.
    pub group: String,
    /// The number of devices.
    pub devices: u32,
    /// The number of frames.
    pub frames: u64,
    /// The sums by measure of the order (once for sums straight from frames), by place in a frame.
    pub sums: Vec<[i64; READINGS]>,
}

/// The results of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// The name of the question.
    pub question: String,
    /// Its name between key holder and server.
    pub id: String,
    /// The beginning of the window, in milliseconds since 1970.
    pub start_ms: u64,
    /// The end of the window, in milliseconds since 1970.
    pub end_ms: u64,
    /// The figures by group.
    pub groups: Vec<GroupFigures>,
    /// Groups with fewer devices than the question's minimum.
    pub too_few: Vec<String>,
    /// The number of frames beyond the question's limit for a device.
    pub left_out: u64,
}

/// The figures of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupFigures {
    /// The name of the group.
    pub group: String,
    /// The number of devices.
    pub devices: u32,
    /// The number of frames.
    pub frames: u64,
    /// The figures in the order of the question.
    pub figures: Vec<Figure>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Figure {
    /// The number of samples.
    Count {
        /// The number.
        value: u64,
    },
    /// A sum, mean, weighted sum, variance or covariance.
    Number {
        /// The name of the statistic.
        statistic: String,
        /// The channel; for a covariance, two channels with `*` between.
        channel: String,
        /// The figure in physical units; `None` without samples. A weighted sum is in steps of
        /// bytes.
        value: Option<f64>,
        /// The figure in steps of bytes: an integer or a fraction.
        exact: String,
    },
    /// The number of readings in each bin.
    Histogram {
        /// The channel.
        channel: String,
        /// The edges between bins.
        edges: Vec<f64>,
        /// The counts by bin: below the first edge, between edges, from the last edge on.
        counts: Vec<i64>,
    },
    /// The number of readings above a threshold, and whether that is an alarm.
    Above {
        /// The channel.
        channel: String,
        /// The threshold.
        threshold: f64,
        /// The number of readings.
        count: i64,
        /// For an alarm, whether it is raised.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alarm: Option<bool>,
    },
}

/// Sums of a group by column.
struct Totals<'a> {
    schema: &'a Schema,
    columns: Vec<Column>,
    measures: &'a [Taken],
    sums: &'a [[i64; READINGS]],
    /// The number of samples if all frames were full.
    room: i64,
}

impl Totals<'_> {
    /// The sum of a measure of a column over all samples.
    fn of(&self, measure: usize, column: Column) -> i64 {
        let Some(place) = self.columns.iter().position(|known| *known == column) else { return 0 };
        let rows = (0..self.schema.samples).map(|sample| sample * self.columns.len() + place);
        self.sums.get(measure).map_or(0, |sums| rows.map(|row| sums[row]).sum())
    }

    /// The sum of a column's readings.
    fn plain(&self, column: Column) -> i64 {
        self.of(self.measures.iter().position(|taken| *taken == Taken::Reading).unwrap_or(0), column)
    }

    /// The sum of a function of a channel's bytes, without missing samples.
    fn function(&self, taken: Taken, channel: usize) -> i64 {
        let measure = self.measures.iter().position(|known| *known == taken).unwrap_or(usize::MAX);
        let missing = self.room - self.plain(Column::Present);
        self.of(measure, Column::Value(channel)) - missing * taken.measure().table()[0]
    }

    fn linear(&self) -> bool {
        self.schema.profile == ProfileName::U25
    }

    fn squares(&self, i: usize) -> [i64; 2] {
        if self.linear() {
            return [self.plain(Column::SquareHigh(i)), self.plain(Column::SquareLow(i))];
        }
        [self.function(Taken::SquareHigh, i), self.function(Taken::SquareLow, i)]
    }

    fn figure(&self, statistic: &Resolved) -> Figure {
        let channel = |i: usize| &self.schema.channels[i];
        let count = self.plain(Column::Present);
        let whole = count.max(0) as u64;
        let sum = |i: usize| self.plain(Column::Value(i));
        let number = |statistic: &str, channel: String, value: Option<f64>, exact: String| Figure::Number {
            statistic: statistic.to_owned(),
            channel,
            value,
            exact,
        };
        let name = |i: usize| channel(i).name.clone();
        match statistic {
            Resolved::Count => Figure::Count { value: whole },
            Resolved::Sum(i) => {
                let value = count as f64 * channel(*i).least + channel(*i).step * sum(*i) as f64;
                number("sum", name(*i), Some(value), sum(*i).to_string())
            }
            Resolved::WeightedSum(i) => number("weighted-sum", name(*i), Some(sum(*i) as f64), sum(*i).to_string()),
            Resolved::Mean(i) => {
                let mean = Moments { count: count.into(), sum: sum(*i).into(), squares: 0 }.mean();
                let value = mean.map(|mean| channel(*i).least + channel(*i).step * mean.value());
                number("mean", name(*i), value, shown(mean))
            }
            Resolved::Variance(i) => {
                let variance = Moments::of(whole, sum(*i), self.squares(*i)).variance();
                let value = variance.map(|variance| channel(*i).step * channel(*i).step * variance.value());
                number("variance", name(*i), value, shown(variance))
            }
            Resolved::Covariance(i, j, pair) => {
                let products = [Column::ProductHigh(*pair), Column::ProductLow(*pair)].map(|column| self.plain(column));
                let both = covariance(whole, [sum(*i), sum(*j)], products);
                let value = both.map(|both| channel(*i).step * channel(*j).step * both.value());
                number("covariance", format!("{}*{}", name(*i), name(*j)), value, shown(both))
            }
            Resolved::Histogram(i, starts, edges) => {
                let count = |which: usize| {
                    let (least, most) = bin(starts, which);
                    if self.linear() {
                        self.plain(Column::Bin(*i, which))
                    } else {
                        self.function(Taken::Within(least, most), *i)
                    }
                };
                let counts = (0..=starts.len()).map(count).collect();
                Figure::Histogram { channel: name(*i), edges: edges.clone(), counts }
            }
            Resolved::Above(i, byte, threshold, alarm) => {
                let own = channel(*i).above.iter().position(|value| channel(*i).threshold(*value) == Some(*byte));
                let count = match own {
                    Some(which) if self.linear() => self.plain(Column::Above(*i, which)),
                    _ => self.function(Taken::Above(*byte), *i),
                };
                let alarm = alarm.map(|least| count >= 0 && count as u64 >= least);
                Figure::Above { channel: name(*i), threshold: *threshold, count, alarm }
            }
        }
    }
}

fn shown(fraction: Option<Fraction>) -> String {
    fraction
        .map_or_else(|| "none".to_owned(), |Fraction { numerator, denominator }| format!("{numerator}/{denominator}"))
}

/// The figures of a group.
pub fn figures(registered: &Registered, statistics: &[Resolved], schema: &Schema, sums: &GroupSums) -> GroupFigures {
    let room = i64::try_from(sums.frames).unwrap_or(i64::MAX).saturating_mul(schema.samples as i64);
    let totals =
        Totals { schema, columns: schema.columns(), measures: &registered.order.measures, sums: &sums.sums, room };
    let figures = statistics.iter().map(|statistic| totals.figure(statistic)).collect();
    GroupFigures { group: sums.group.clone(), devices: sums.devices, frames: sums.frames, figures }
}

/// A number of a release for a time series.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The name of the series, after `tobari_sense_`.
    pub name: &'static str,
    /// What the number is.
    pub help: &'static str,
    /// Labels: names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The number; NaN without samples.
    pub value: f64,
}

/// The name and meaning of a statistic's series.
fn series(statistic: &str) -> (&'static str, &'static str) {
    match statistic {
        "sum" => ("reading_total_value", "Sum of readings."),
        "weighted-sum" => ("weighted_total_value", "Sum of bytes, times the device's weight."),
        "mean" => ("mean", "Mean of readings."),
        "variance" => ("variance", "Variance of readings."),
        _ => ("covariance", "Covariance of two channels."),
    }
}

impl Release {
    /// The release as numbers of time series. Call it with the newest window of a question.
    pub fn samples(&self) -> Vec<Sample> {
        let mut out = Vec::new();
        for group in &self.groups {
            let mut add = |name, help, more: Vec<(&'static str, String)>, value: f64| {
                let own = [("question", self.question.clone()), ("group", group.group.clone())];
                out.push(Sample { name, help, labels: own.into_iter().chain(more).collect(), value });
            };
            add("devices", "Devices with frames in the newest window.", vec![], f64::from(group.devices));
            add("frames", "Frames in the newest window.", vec![], group.frames as f64);
            add("window_end_seconds", "End of the newest window, since 1970.", vec![], self.end_ms as f64 / 1e3);
            for figure in &group.figures {
                match figure {
                    Figure::Count { value } => add("samples", "Number of samples.", vec![], *value as f64),
                    Figure::Number { statistic, channel, value, .. } => {
                        let (name, help) = series(statistic);
                        add(name, help, vec![("channel", channel.clone())], value.unwrap_or(f64::NAN));
                    }
                    Figure::Histogram { channel, edges, counts } => {
                        let mut sum = 0;
                        for (bin, count) in counts.iter().enumerate() {
                            sum += count;
                            let edge = edges.get(bin).map_or("+Inf".to_owned(), f64::to_string);
                            let labels = vec![("channel", channel.clone()), ("edge", edge)];
                            add("below", "Readings below an edge.", labels, sum as f64);
                        }
                    }
                    Figure::Above { channel, threshold, count, alarm } => {
                        let labels = vec![("channel", channel.clone()), ("threshold", threshold.to_string())];
                        add("above", "Readings above a threshold.", labels.clone(), *count as f64);
                        if let Some(alarm) = alarm {
                            add("alarm", "1 for an alarm, 0 for none.", labels, f64::from(u8::from(*alarm)));
                        }
                    }
                }
            }
        }
        out
    }
}
