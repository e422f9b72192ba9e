//! Metrics as text for Prometheus (exposition format 0.0.4), for every endpoint of the program.
//!
//! A *family* is a name with a kind and a help text; its samples differ by labels. The text has
//! each family once, all samples of a family together, and each sample once. So jobs may add in
//! any order, and the checks of `promtool check metrics` pass by construction:
//!
//! | rule | what holds it |
//! |---|---|
//! | names of lower case, `_` and digits; a help text; a kind | an assertion in builds for tests |
//! | a counter ends in `_total`, nothing else does | the same |
//! | no ending that belongs to a histogram: `_bucket`, `_count`, `_sum` | the same |
//! | no kind and no multiple of a unit in a name | the same |
//! | help texts and label values are escaped | [`Metrics::text`] |

use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The content type of the text.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family's numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

struct Samples {
    kind: Kind,
    help: &'static str,
    /// Values by the text of their labels.
    values: BTreeMap<String, String>,
}

/// Families of metrics.
///
/// ```
/// use tobari_node::metrics::Metrics;
/// let mut metrics = Metrics::default();
/// let mut frames = metrics.counter("tobari_toy_frames_total", "Frames by verdict.");
/// frames.add(&[("verdict", "taken")], 7_u32);
/// let lines = [
///     "# HELP tobari_toy_frames_total Frames by verdict.",
///     "# TYPE tobari_toy_frames_total counter",
///     "tobari_toy_frames_total{verdict=\"taken\"} 7",
/// ];
/// assert!(metrics.text().lines().eq(lines));
/// ```
#[derive(Default)]
pub struct Metrics(BTreeMap<String, Samples>);

/// A family that takes samples.
pub struct Family<'a>(&'a mut Samples);

/// A number of a sample.
pub trait Value {
    /// The number in the format's words.
    fn text(self) -> String;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Value for $integer {
            fn text(self) -> String {
                self.to_string()
            }
        }
    )*};
}

integers!(u32 u64 i64 usize);

impl Value for f64 {
    fn text(self) -> String {
        match self {
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            // NaN is its own word
            finite => finite.to_string(),
        }
    }
}

impl Value for bool {
    fn text(self) -> String {
        u8::from(self).to_string()
    }
}

impl Metrics {
    /// The counter with this name, which ends in `_total`. It only grows while a process runs.
    pub fn counter(&mut self, name: &str, help: &'static str) -> Family<'_> {
        self.family(name, Kind::Counter, help)
    }

    /// The gauge with this name: a number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &'static str) -> Family<'_> {
        self.family(name, Kind::Gauge, help)
    }

    fn family(&mut self, name: &str, kind: Kind, help: &'static str) -> Family<'_> {
        debug_assert_eq!(fault(name, kind, help), None, "{name}");
        let family = self.0.entry(name.to_owned());
        let family = family.or_insert_with(|| Samples { kind, help, values: BTreeMap::new() });
        debug_assert!((family.kind, family.help) == (kind, help), "{name} has one kind and one help text");
        Family(family)
    }

    /// All families.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, Samples { kind, help, values }) in &self.0 {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            // writing to a string cannot fail
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }
}

impl IntoResponse for Metrics {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], self.text()).into_response()
    }
}

impl Family<'_> {
    /// The only sample of a family, without labels.
    pub fn set(self, value: impl Value) {
        self.0.values.insert(String::new(), value.text());
    }

    /// A sample with these labels. Another sample with the same labels is replaced.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Value) {
        let mut text = String::from("{");
        for (place, (name, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{}{name}=\"{value}\"", if place > 0 { "," } else { "" });
        }
        text.push('}');
        self.0.values.insert(text, value.text());
    }
}

/// The rule that a family breaks.
fn fault(name: &str, kind: Kind, help: &str) -> Option<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let words: Vec<&str> = name.split('_').collect();
    let has = |all: &[&str]| words.iter().any(|word| all.contains(word));
    let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
    let rules = [
        (name.starts_with("tobari_") && name.bytes().all(is_plain), "a name of lower case under tobari_"),
        (!help.is_empty(), "a help text"),
        ((kind == Kind::Counter) == name.ends_with("_total"), "_total at the end of counters, and of nothing else"),
        (!ends(&["_bucket", "_count", "_sum"]), "no ending that is a histogram's"),
        (!has(&["counter", "gauge", "histogram", "summary"]), "no kind in the name"),
        (
            !has(&["milliseconds", "minutes", "hours", "days", "kilobytes", "megabytes", "bits", "ms", "s", "sec"]),
            "seconds and bytes, without multiples",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_together_and_samples_once_in_whatever_order_they_come() {
        let mut metrics = Metrics::default();
        metrics.gauge("tobari_b", "Second.").add(&[("q", "x")], 1_u32);
        metrics.counter("tobari_a_total", "First,\nof \\ two lines.").set(2_u64);
        metrics.gauge("tobari_b", "Second.").add(&[("q", "a\"b\\c\nd"), ("r", "")], f64::INFINITY);
        metrics.gauge("tobari_b", "Second.").add(&[("q", "x")], f64::NAN);
        metrics.gauge("tobari_c", "Third.").set(true);
        metrics.gauge("tobari_d", "No sample.");
        let expected = r#"# HELP tobari_a_total First,\nof \\ two lines.
# TYPE tobari_a_total counter
tobari_a_total 2
# HELP tobari_b Second.
# TYPE tobari_b gauge
tobari_b{q="a\"b\\c\nd",r=""} +Inf
tobari_b{q="x"} NaN
# HELP tobari_c Third.
# TYPE tobari_c gauge
tobari_c 1
# HELP tobari_d No sample.
# TYPE tobari_d gauge
"#;
        assert_eq!(metrics.text(), expected);
        assert_eq!([-1.5, 0.1, f64::NEG_INFINITY].map(Value::text), ["-1.5", "0.1", "-Inf"]);
    }

    #[test]
    fn names_that_promtool_rejects_are_rejected() {
        for (name, kind, help, good) in [
            ("tobari_call_joins_total", Kind::Counter, "x", true),
            ("tobari_call_tick_delay_seconds_total", Kind::Counter, "x", true),
            ("tobari_sense_mean", Kind::Gauge, "x", true),
            ("tobari_call_tick_delay_milliseconds_total", Kind::Counter, "x", false),
            ("tobari_call_joins", Kind::Counter, "x", false),
            ("tobari_call_joins_total", Kind::Gauge, "x", false),
            ("tobari_sense_count", Kind::Gauge, "x", false),
            ("tobari_sense_weighted_sum", Kind::Gauge, "x", false),
            ("tobari_sense_histogram_below", Kind::Gauge, "x", false),
            ("tobari_sense_mean", Kind::Gauge, "", false),
            ("sense_mean", Kind::Gauge, "x", false),
            ("tobari_Mean", Kind::Gauge, "x", false),
        ] {
            assert_eq!(fault(name, kind, help).is_none(), good, "{name}");
        }
    }
}
