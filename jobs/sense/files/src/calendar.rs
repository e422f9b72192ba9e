//! Windows that the calendar makes: months, and days and weeks of a zone with summer time.
//!
//! The key holder computes the bounds between them once, and the server's order lists them. So both
//! use the same bounds, whatever either knows of time zones later. A zone whose rules change needs
//! the question registered again.

use chrono::{Datelike, Days, FixedOffset, LocalResult, Months, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use tobari_sense::question::Window;

/// The first year of windows. Frames of before 2001 are refused.
const FROM: i32 = 2001;

/// The first year in which no window begins.
pub const UNTIL: i32 = 2045;

/// The steps of windows.
enum Step {
    Days(u64),
    Months(u32),
}

/// The bounds of a window's windows, in milliseconds since 1970; none for windows of one length.
///
/// # Errors
/// A text with the remedy.
pub fn bounds(window: &Window) -> Result<Vec<u64>, String> {
    if !window.is_by_calendar() {
        return Ok(Vec::new());
    }
    if window.every.is_some() {
        return Err("months, and windows of a named zone, do not slide: leave out `every`".to_owned());
    }
    let step = match window.length.as_str() {
        "1d" => Step::Days(1),
        "1w" => Step::Days(7),
        "1mo" => Step::Months(1),
        other => {
            let shown: String = other.chars().take(20).collect();
            return Err(format!("expected windows of 1d, 1w or 1mo in a named zone or by months, found {shown:?}"));
        }
    };
    match window.zone.as_deref().unwrap_or("UTC") {
        "Z" | "UTC" => Ok(between(&step, &Utc)),
        zone if zone.contains(':') => {
            let offset: FixedOffset =
                zone.parse().map_err(|_| format!("expected a time zone such as +09:00, found {:?}", short(zone)))?;
            Ok(between(&step, &offset))
        }
        zone => {
            let named: Tz = zone.parse().map_err(|_| {
                format!("expected a time zone such as Europe/Berlin or +09:00, found {:?}", short(zone))
            })?;
            Ok(between(&step, &named))
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The midnights of a zone at which a step begins. A day that a zone left out has no window: Samoa
/// had no 30th of December 2011.
fn between(step: &Step, zone: &impl TimeZone) -> Vec<u64> {
    let mut bounds = Vec::new();
    // the first day of 2001 was a Monday
    let mut day = NaiveDate::from_ymd_opt(FROM, 1, 1);
    while let Some(date) = day {
        bounds.extend(midnight(date, zone));
        // the last bound is the end of the last window
        day = match step {
            _ if date.year() >= UNTIL => None,
            Step::Days(days) => date.checked_add_days(Days::new(*days)),
            Step::Months(months) => date.checked_add_months(Months::new(*months)),
        };
    }
    bounds
}

/// The first moment of a day. Where summer time begins at midnight, the day begins later.
fn midnight(date: NaiveDate, zone: &impl TimeZone) -> Option<u64> {
    let begin = NaiveDateTime::from(date);
    let moments = (0..=12).filter_map(|quarter| begin.checked_add_signed(TimeDelta::minutes(15 * quarter)));
    let mut moments = moments.filter_map(|moment| match zone.from_local_datetime(&moment) {
        LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => Some(time.timestamp_millis()),
        LocalResult::None => None,
    });
    moments.next().and_then(|ms| u64::try_from(ms).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(window: &str) -> Result<Vec<u64>, String> {
        bounds(&toml::from_str(window).unwrap())
    }

    /// The hours of the window that begins at this time, in seconds since 1970.
    fn hours(bounds: &[u64], start: u64) -> Option<u64> {
        let place = bounds.binary_search(&(1000 * start)).ok()?;
        Some((bounds[place + 1] - bounds[place]) / 3_600_000)
    }

    #[test]
    fn days_have_23_and_25_hours_where_summer_time_begins_and_ends() {
        let berlin = of("length = \"1d\"\nzone = \"Europe/Berlin\"").unwrap();
        // 2026-03-28, 2026-03-29 and 2026-10-25, midnight in Berlin
        let starts = [1_774_652_400, 1_774_738_800, 1_792_879_200];
        assert_eq!(starts.map(|start| hours(&berlin, start)), [Some(24), Some(23), Some(25)]);
        // where midnight itself is left out: the 4th of November 2018 began at one o'clock
        let brazil = of("length = \"1d\"\nzone = \"America/Sao_Paulo\"").unwrap();
        assert_eq!(hours(&brazil, 1_541_300_400), Some(23));
        assert_eq!(of("length = \"1d\"\nzone = \"Asia/Tokyo\"").unwrap().len(), 16_072, "days of 44 years");
        assert!(berlin.len() <= tobari_sense::order::MAX_BOUNDS);
        // Samoa went from the 29th to the 31st of December 2011: the 29th has 24 hours, and no
        // window is empty
        let samoa = of("length = \"1d\"\nzone = \"Pacific/Apia\"").unwrap();
        assert_eq!((samoa.len(), hours(&samoa, 1_325_152_800)), (16_071, Some(24)));
        assert!(samoa.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_their_first_day() {
        let weeks = of("length = \"1w\"\nzone = \"Europe/Berlin\"").unwrap();
        assert_eq!(hours(&weeks, 1_774_220_400), Some(167), "from Monday, 2026-03-23");
        let months = of("length = \"1mo\"").unwrap();
        assert_eq!(months.len(), 529);
        // December of 2044, and the week over the end of the year
        assert_eq!(
            [hours(&months, 2_364_163_200), months.last().copied().map(|ms| ms / 1000)],
            [Some(744), Some(2_366_841_600)]
        );
        assert_eq!(weeks.last(), Some(&2_366_924_400_000), "Monday, 2045-01-02");
        // February of 2024, of 2026, and July
        assert_eq!(
            [1_706_745_600, 1_769_904_000, 1_782_864_000].map(|start| hours(&months, start)),
            [696, 672, 744].map(Some)
        );
        let tokyo = of("length = \"1mo\"\nzone = \"+09:00\"").unwrap();
        assert_eq!(hours(&tokyo, 1_769_904_000 - 9 * 3600), Some(672));
        assert_eq!(of("length = \"1d\"\nzone = \"+09:00\"").unwrap(), [0; 0], "windows of one length");
    }

    #[test]
    fn what_is_no_calendar_is_refused_with_the_remedy() {
        for (window, expected) in [
            ("length = \"2mo\"", "expected windows of 1d, 1w or 1mo"),
            ("length = \"1h\"\nzone = \"Europe/Berlin\"", "expected windows of 1d, 1w or 1mo"),
            ("length = \"1mo\"\nevery = \"1d\"", "leave out `every`"),
            ("length = \"1d\"\nzone = \"Berlin\"", "expected a time zone such as Europe/Berlin or +09:00"),
            ("length = \"1mo\"\nzone = \"9:00\"", "expected a time zone such as +09:00"),
        ] {
            let said = of(window).unwrap_err();
            assert!(said.contains(expected), "{window}: {said}");
        }
    }
}
