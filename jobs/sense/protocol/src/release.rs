//! An analyst's results: figures of groups, as JSON and as numbers of time series.
//!
//! Everything is computed from exact sums of bytes. A figure in physical units is a double. Beside
//! it is the exact figure in steps of bytes, an integer or a fraction. With `m = Σ m/n` of bytes,
//! least value `l` and step `s`: sum `n l + s Σ m`, mean `l + s m`, variance `s² var`, covariance
//! `s s' cov`.
//!
//! The last frame may have fewer samples; the bytes of missing samples are zero. They are in no
//! column that a device sends. In P1 and P17 the server's function of zero is subtracted once for
//! each missing sample.

use super::analytics::{Fraction, Moments, covariance, of_bytes};
use super::order::Taken;
use super::question::{Registered, Resolved, bin};
use super::schema::{Column, Schema, Sheet};
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
    /// The sheet of these figures: a question about several sheets has a release for each.
    #[serde(default, skip_serializing_if = "is_sheet_0")]
    pub sheet: u16,
    /// Groups with fewer devices than the question's minimum.
    pub too_few: Vec<String>,
    /// The number of frames beyond the question's limit for a device.
    pub left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_sheet_0(sheet: &u16) -> bool {
    *sheet == 0
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
    /// Sums, means or weighted sums of a vector, or of a part of it.
    Vector {
        /// The name of the statistic.
        statistic: String,
        /// The channel.
        channel: String,
        /// The place of the first figure in the vector.
        first: usize,
        /// The figures in physical units; `None` without samples.
        values: Vec<Option<f64>>,
        /// The figures in steps: integers or fractions.
        exact: Vec<String>,
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
    sheet: &'a Sheet,
    measures: &'a [Taken],
    sums: &'a [[i64; READINGS]],
    /// The number of frames.
    frames: i64,
}

impl Totals<'_> {
    /// The sum of a measure of a column over all samples.
    fn of(&self, measure: usize, column: Column) -> i64 {
        let (Some(sums), Some(places)) = (self.sums.get(measure), self.sheet.places(column)) else { return 0 };
        places.map(|place| sums[place]).sum()
    }

    /// The number of the measure that is the readings themselves.
    fn readings(&self) -> usize {
        self.measures.iter().position(|taken| *taken == Taken::Reading).unwrap_or(0)
    }

    /// The sum of a column's readings.
    fn plain(&self, column: Column) -> i64 {
        self.of(self.readings(), column)
    }

    /// The number of samples.
    fn count(&self) -> i64 {
        self.sums.get(self.readings()).map_or(0, |sums| self.sheet.count(sums, self.frames))
    }

    /// The sum of a channel's readings at a place of a vector.
    fn sum(&self, channel: usize, element: usize) -> i128 {
        let limbs = 0..self.schema.channels[channel].limbs();
        of_bytes(limbs.map(|limb| self.plain(Column::Value { channel, element, limb })))
    }

    /// The sum of a function of a channel's bytes, without missing samples.
    fn function(&self, taken: Taken, channel: usize) -> i64 {
        let measure = self.measures.iter().position(|known| *known == taken).unwrap_or(usize::MAX);
        let missing = self.frames.saturating_mul(self.sheet.samples() as i64) - self.count();
        self.of(measure, Column::Value { channel, element: 0, limb: 0 }) - missing * taken.measure().table()[0]
    }

    /// Whether the server computed functions of this channel.
    fn computed(&self, channel: usize) -> bool {
        self.schema.channels[channel].is_of_bytes(self.schema.profile)
    }

    fn squares(&self, channel: usize) -> i128 {
        if self.computed(channel) {
            return of_bytes([Taken::SquareHigh, Taken::SquareLow].map(|taken| self.function(taken, channel)));
        }
        let limbs = 0..2 * self.schema.channels[channel].limbs();
        of_bytes(limbs.map(|limb| self.plain(Column::Square { channel, element: 0, limb })))
    }

    fn products(&self, pair: usize, channels: [usize; 2]) -> i128 {
        let limbs = channels.iter().map(|i| self.schema.channels[*i].limbs()).sum();
        of_bytes((0..limbs).map(|limb| self.plain(Column::Product { pair, limb })))
    }

    /// A sum, mean or weighted sum at a place of a channel: the figure, and its exact form.
    fn first_moment(&self, statistic: &Resolved, channel: usize, element: usize) -> (Option<f64>, String) {
        let (own, count, sum) = (&self.schema.channels[channel], self.count(), self.sum(channel, element));
        match statistic {
            Resolved::Mean(_) => {
                let mean = Moments { count: count.into(), sum, squares: 0 }.mean();
                (mean.map(|mean| own.least + own.step * mean.value()), shown(mean))
            }
            Resolved::WeightedSum(_) => (Some(sum as f64), sum.to_string()),
            _ => (Some(count as f64 * own.least + own.step * sum as f64), sum.to_string()),
        }
    }

    /// The figure of a sum, mean or weighted sum: a number, or those of a vector on this sheet.
    fn of_first_moments(&self, name: &str, statistic: &Resolved, channel: usize) -> Figure {
        let (own, statistic_name) = (self.schema.channels[channel].name.clone(), name.to_owned());
        if self.schema.channels[channel].length.is_none() {
            let (value, exact) = self.first_moment(statistic, channel, 0);
            return Figure::Number { statistic: statistic_name, channel: own, value, exact };
        }
        let here = self.sheet.columns().iter().filter_map(|column| match column {
            Column::Value { channel: of, element, limb: 0 } if *of == channel => Some(*element),
            _ => None,
        });
        let elements: Vec<usize> = here.collect();
        let (values, exact) = elements.iter().map(|element| self.first_moment(statistic, channel, *element)).unzip();
        let first = elements.first().copied().unwrap_or(0);
        Figure::Vector { statistic: statistic_name, channel: own, first, values, exact }
    }

    fn figure(&self, statistic: &Resolved) -> Figure {
        let channel = |i: usize| &self.schema.channels[i];
        let whole = self.count().max(0) as u64;
        let number = |statistic: &str, channel: String, value: Option<f64>, exact: String| Figure::Number {
            statistic: statistic.to_owned(),
            channel,
            value,
            exact,
        };
        let name = |i: usize| channel(i).name.clone();
        match statistic {
            Resolved::Count => Figure::Count { value: whole },
            Resolved::Sum(i) => self.of_first_moments("sum", statistic, *i),
            Resolved::WeightedSum(i) => self.of_first_moments("weighted-sum", statistic, *i),
            Resolved::Mean(i) => self.of_first_moments("mean", statistic, *i),
            Resolved::Variance(i) => {
                let variance = Moments::of(whole, self.sum(*i, 0), self.squares(*i)).variance();
                let value = variance.map(|variance| channel(*i).step * channel(*i).step * variance.value());
                number("variance", name(*i), value, shown(variance))
            }
            Resolved::Covariance(i, j, pair) => {
                let both = [self.sum(*i, 0), self.sum(*j, 0)];
                let both = covariance(whole.into(), both, self.products(*pair, [*i, *j]));
                let value = both.map(|both| channel(*i).step * channel(*j).step * both.value());
                number("covariance", format!("{}*{}", name(*i), name(*j)), value, shown(both))
            }
            Resolved::Histogram(i, starts, edges) => {
                let count = |which: usize| {
                    if self.computed(*i) {
                        let (least, most) = bin(starts, which);
                        self.function(Taken::Within(least, most), *i)
                    } else {
                        self.plain(Column::Bin(*i, which))
                    }
                };
                let counts = (0..=starts.len()).map(count).collect();
                Figure::Histogram { channel: name(*i), edges: edges.clone(), counts }
            }
            Resolved::Above(i, most, threshold, alarm) => {
                let own = channel(*i).above.iter().position(|value| channel(*i).threshold(*value) == Some(*most));
                let count = match own {
                    Some(which) if !self.computed(*i) => self.plain(Column::Above(*i, which)),
                    _ => self.function(Taken::Above(u8::try_from(*most).unwrap_or(u8::MAX)), *i),
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

/// The figures of a group, on the sheet of the question's order.
pub fn figures(registered: &Registered, statistics: &[Resolved], schema: &Schema, sums: &GroupSums) -> GroupFigures {
    let (frames, sheets) = (i64::try_from(sums.frames).unwrap_or(i64::MAX), schema.sheets());
    // a question with another sheet is not registered
    let figures = sheets.get(usize::from(registered.order.sheet)).map(|sheet| {
        let totals = Totals { schema, sheet, measures: &registered.order.measures, sums: &sums.sums, frames };
        statistics.iter().map(|statistic| totals.figure(statistic)).collect()
    });
    let figures = figures.unwrap_or_default();
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
    /// The release as numbers of time series. Call it with the newest window of a question. Figures
    /// of vectors are in the release alone: a series for each of thousands of places is none that a
    /// monitor should keep.
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
                    Figure::Vector { .. } => {}
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
