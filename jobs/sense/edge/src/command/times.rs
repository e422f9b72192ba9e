//! The times of readings.

use super::arguments::FormArguments;
use chrono::{DateTime, FixedOffset, NaiveDateTime};

/// Where the times of readings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimeOfReadings {
    /// The readings are of now.
    Now,
    /// In the column, or the value of an object, with this name.
    Column(String),
}

/// Reads the option `--time`.
pub(super) fn parse_time(text: &str) -> Result<TimeOfReadings, String> {
    match text.trim() {
        "" => Err("expected the name of a column, or now".to_owned()),
        "now" => Ok(TimeOfReadings::Now),
        name => Ok(TimeOfReadings::Column(name.to_owned())),
    }
}

/// Reads the option `--zone`.
pub(super) fn parse_zone(text: &str) -> Result<FixedOffset, String> {
    let zone = if ["Z", "UTC"].contains(&text) { "+00:00" } else { text };
    zone.parse().map_err(|_| "expected a time zone such as +09:00, -03:30 or Z".to_owned())
}

/// Local times, from the most to the least exact.
const LOCAL: [&str; 4] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];

/// The seconds since 1970 of a word: a date and time by RFC 3339, or seconds or milliseconds since
/// 1970. Seconds have at most eleven digits, up to the year 5138, and milliseconds at least twelve,
/// from 1973 on.
pub(super) fn moment(word: &str, form: &FormArguments) -> Result<u64, String> {
    let word = word.trim();
    let seconds = if let Ok(number) = word.parse::<f64>() {
        let seconds = if number.abs() < 1e11 { number } else { number / 1000.0 };
        Some(seconds.floor()).filter(|seconds| seconds.is_finite()).map(|seconds| seconds as i64)
    } else if let Ok(time) = DateTime::parse_from_rfc3339(&word.replacen(' ', "T", 1)) {
        Some(time.timestamp())
    } else if let Some(time) = LOCAL.iter().find_map(|format| NaiveDateTime::parse_from_str(word, format).ok()) {
        let zone = form.zone.ok_or("a time without a zone: add --zone +00:00 for UTC, or the zone's difference")?;
        time.and_local_timezone(zone).single().map(|time| time.timestamp())
    } else {
        return Err(
            "expected a time such as 2027-01-01T09:00:00+09:00, or seconds or milliseconds since 1970".to_owned()
        );
    };
    let fits = |seconds: &u64| *seconds < 1 << 40;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(fits);
    seconds.ok_or_else(|| "expected a time from 1970 to 36811".to_owned())
}
