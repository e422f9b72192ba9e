//! A device's counter as a file.
//!
//! The file has the next unused counter, as a decimal number and a line's end. It is replaced as a
//! whole and flushed before a device uses any of the reserved counters ([`CounterStore`]). It is
//! made with the device's key and **never made again**: a key without its counter is not used,
//! because counters would repeat. While the file is open, a lock file beside it excludes other
//! processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use tobari_device::{CounterStore, FRAME_LIMIT};
use tobari_host::files::{FileError, read_bounded, write_atomically, write_secret};

const MOST_BYTES: u64 = 32;

/// Why there is no counter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CounterFileError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not a counter.
    #[error("{}: expected a counter up to {FRAME_LIMIT}, found something else: a device without its counter must be given a new key", .0.display())]
    Malformed(PathBuf),
    /// Another process uses the counter.
    #[error("{}: expected a device that no other process sends for, found one that is used", .0.display())]
    Used(PathBuf),
}

/// A counter in a file, open and locked.
pub struct CounterFile {
    path: PathBuf,
    /// Locked while the counter is open.
    _lock: File,
}

impl CounterFile {
    /// Makes the file of a new key.
    ///
    /// # Errors
    /// [`CounterFileError::File`], also if the file exists.
    pub fn create(path: &Path) -> Result<(), CounterFileError> {
        Ok(write_secret(path, b"0\n")?)
    }

    /// Opens and locks a counter.
    ///
    /// # Errors
    /// [`CounterFileError`].
    pub fn open(path: &Path) -> Result<Self, CounterFileError> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let file =
            File::create(&lock).map_err(|source| FileError::Write { name: lock.display().to_string(), source })?;
        file.try_lock().map_err(|_| CounterFileError::Used(path.to_owned()))?;
        let counter = Self { path: path.to_owned(), _lock: file };
        counter.read()?;
        Ok(counter)
    }

    fn read(&self) -> Result<u32, CounterFileError> {
        let bytes = read_bounded(&self.path, MOST_BYTES)?;
        let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
        let number = text.and_then(|text| text.parse::<u32>().ok().filter(|number| number.to_string() == text));
        number.filter(|number| *number <= FRAME_LIMIT).ok_or_else(|| CounterFileError::Malformed(self.path.clone()))
    }
}

impl CounterStore for CounterFile {
    type Error = CounterFileError;

    fn load(&mut self) -> Result<u32, CounterFileError> {
        self.read()
    }

    fn store(&mut self, next: u32) -> Result<(), CounterFileError> {
        Ok(write_atomically(&self.path, format!("{next}\n").as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_device::Counters;

    #[test]
    fn counters_go_on_after_every_start_and_never_from_a_file_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device.counter");
        assert!(CounterFile::open(&path).is_err(), "none was made");
        CounterFile::create(&path).unwrap();
        assert!(CounterFile::create(&path).is_err(), "never made again");
        let mut last = None;
        for _ in 0..5 {
            let mut counters = Counters::open(CounterFile::open(&path).unwrap()).unwrap();
            for _ in 0..70 {
                let counter = counters.take().unwrap();
                assert!(last < Some(counter));
                last = Some(counter);
            }
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"640\n");
        for wrong in [&b""[..], b"7", b"07\n", b"-1\n", b"1073741825\n", b"99999999999\n", b"\xff\n"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(CounterFile::open(&path), Err(CounterFileError::Malformed(_))), "{wrong:?}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
        #[test]
        fn a_file_is_a_counter_in_its_one_form_or_none(bytes in "[0-9+ -]{0,11}\n?", noise: Vec<u8>) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("device.counter");
            for bytes in [bytes.as_bytes(), &noise] {
                std::fs::write(&path, bytes).unwrap();
                if let Ok(mut counter) = CounterFile::open(&path) {
                    let form = format!("{}\n", counter.load().unwrap());
                    proptest::prop_assert_eq!(form.as_bytes(), bytes);
                }
            }
        }
    }

    #[test]
    fn two_processes_do_not_count_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device.counter");
        CounterFile::create(&path).unwrap();
        let first = CounterFile::open(&path).unwrap();
        assert!(matches!(CounterFile::open(&path), Err(CounterFileError::Used(_))));
        drop(first);
        assert!(CounterFile::open(&path).is_ok());
    }
}
