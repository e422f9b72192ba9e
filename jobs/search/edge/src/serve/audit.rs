//! The audit log: one JSON object a line for each query, each evaluation and each registration,
//! appended.
//!
//! A line has the time, the client, the table, the kind of question, the numbers of sites and
//! places or of an evaluation's inputs, the granularity, and the outcome. It never has the places,
//! nor anything of a query's content. A line is passed to the system before the answer leaves, and
//! reaches the device when the system writes it. A crash of the machine may lose the last lines; a
//! crash of the server does not. If a line cannot be written, there is no answer, and questions are
//! rejected until a line can be written: the first one says `resumed`. No line is left half
//! written.

use super::SearchError;
use serde_json::{Value, json};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};
use tobari_node::{disk::Disk, reply::Reply};
use tobari_search::messages::TABLE_BYTES;
use tobari_search::program::Shape;
use tobari_search::server::Granularity;

pub(super) struct Audit {
    log: Arc<Mutex<Log>>,
    disk: Disk,
}

/// The file.
struct Log {
    file: File,
    /// Whether the file ends in a part of a line.
    torn: bool,
}

impl Log {
    /// Appends a line, or nothing. If the disk takes only a part of the line, the part is removed.
    /// If that fails too, the next line begins on a new one.
    fn append(&mut self, line: &str) -> io::Result<()> {
        let begin = if self.torn { "\n" } else { "" };
        let before = self.file.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
        let written = self.file.write_all(format!("{begin}{line}\n").as_bytes());
        let is_taken_back = written.is_err() && before.is_some_and(|before| self.file.set_len(before).is_ok());
        self.torn = written.is_err() && (self.torn || !is_taken_back);
        written
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of the log, without the time.
pub(super) struct Line<'a> {
    pub(super) client: &'a str,
    pub(super) what: &'static str,
    pub(super) table: Option<[u8; TABLE_BYTES]>,
    pub(super) shape: Option<Shape>,
    pub(super) granularity: Option<Granularity>,
    /// The number of inputs of an evaluation.
    pub(super) elements: Option<usize>,
    pub(super) outcome: &'a str,
}

impl Audit {
    pub(super) fn open(path: &Path) -> Result<Self, SearchError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| SearchError::file(path, error))?;
        let log = Arc::new(Mutex::new(Log { file, torn: false }));
        let tried = Arc::clone(&log);
        // write a line, and no other file: a server may be allowed to append here but not to create
        // files
        let trial = move || lock(&tried).append(&stamped(SystemTime::now(), json!({ "what": "resumed" })).to_string());
        Ok(Self { log, disk: Disk::new("the audit log", trial) })
    }

    /// The disk of the log.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Writes a line. If that fails, the result is the refusal of the request.
    pub(super) fn write(&self, line: &Line<'_>) -> Result<(), Reply> {
        let written = lock(&self.log).append(&text(line, SystemTime::now()).to_string());
        written.map_err(|error| self.disk.failed_writing(&error))
    }
}

/// A line with the time.
fn stamped(now: SystemTime, mut value: Value) -> Value {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    value["time"] = utc(seconds).into();
    value
}

fn text(line: &Line<'_>, now: SystemTime) -> Value {
    let mut value = stamped(now, json!({ "client": line.client, "what": line.what }));
    if let Some(table) = line.table {
        value["table"] = tobari_octets::hex(&table).into();
    }
    if let Some(shape) = line.shape {
        let (kind, unit) = match shape {
            Shape::Pattern { .. } => ("pattern", "sites"),
            Shape::Longest { .. } => ("longest", "sites"),
            Shape::Word { .. } => ("key", "bits"),
        };
        value["shape"] = kind.into();
        value[unit] = shape.length().into();
        value["places"] = shape.places().into();
    }
    if let Some(granularity) = line.granularity {
        value["granularity"] = if granularity == Granularity::Boolean { "boolean" } else { "count" }.into();
    }
    if let Some(elements) = line.elements {
        value["elements"] = elements.into();
    }
    value["outcome"] = line.outcome.into();
    value
}

/// Seconds since 1970 in the format of RFC 3339. Days are of the Gregorian calendar, counted from 1
/// March of year 0 in eras of 400 years.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let [hour, minute, second] = [rest / 3_600, rest / 60 % 60, rest % 60];
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn fault_25_no_line_of_the_audit_log_joins_half_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut log = Log { file, torn: false };
        log.append("one").unwrap();
        // half a line that could not be removed
        log.file.write_all(b"tw").unwrap();
        log.torn = true;
        log.append("three").unwrap();
        log.append("four").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntw\nthree\nfour\n");
        #[cfg(target_os = "linux")]
        {
            // a device that is always full
            let mut full = Log { file: OpenOptions::new().append(true).open("/dev/full").unwrap(), torn: false };
            assert_eq!(full.append("line").unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert!(full.torn);
        }
    }
}
