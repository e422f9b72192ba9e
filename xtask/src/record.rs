//! The circumstances in the record of a long run: the day, the revision, the processor. A record
//! has no host name and no path.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Today in UTC, as `2026-03-09`.
pub(crate) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    date(seconds / 86_400)
}

/// The processor's model name, if the system gives it.
pub(crate) fn cpu_model() -> String {
    model(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// The short revision of the tree, and whether the tree has uncommitted changes.
pub(crate) fn revision(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    let clean = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| changes.is_empty());
    if clean { revision } else { format!("{revision} with changes") }
}

/// Adds a run to the record `name`, under `title` if it is the first run of the file. The second
/// run of a day does not replace the first.
pub(crate) fn append(root: &Path, name: &str, title: &str, body: &str) -> io::Result<()> {
    let folder = root.join("bench/record");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    let first = !path.exists();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    if first {
        writeln!(file, "# {title}")?;
    }
    write!(file, "\n{body}")
}

/// The Gregorian date of a day counted from 1 January 1970.
fn date(days_since_epoch: u64) -> String {
    let (mut year, mut day) = (1970, days_since_epoch);
    while day >= days_in_year(year) {
        day -= days_in_year(year);
        year += 1;
    }
    let february = days_in_year(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

fn days_in_year(year: u64) -> u64 {
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    if leap { 366 } else { 365 }
}

fn model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
    value.filter(|value| !value.is_empty()).unwrap_or("unknown processor").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates_across_leap_years_and_centuries() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (790, "1972-03-01"),
            (10_956, "1999-12-31"),
            (11_016, "2000-02-29"),
            (20_453, "2025-12-31"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), expected, "day {days}");
        }
    }

    #[test]
    fn the_model_is_read_where_it_is_told() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: B\n"), "A CPU @ 2 GHz");
        assert_eq!(model("model\t: 3\n"), "unknown processor");
    }

    #[test]
    fn a_second_run_is_added_and_the_title_is_not_repeated() {
        let root = std::env::temp_dir().join(format!("xtask-record-{}", std::process::id()));
        for body in ["one\n", "two\n"] {
            append(&root, "fuzz-day.md", "Fuzzing", body).unwrap();
        }
        let text = std::fs::read_to_string(root.join("bench/record/fuzz-day.md")).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(text, "# Fuzzing\n\none\n\ntwo\n");
    }
}
