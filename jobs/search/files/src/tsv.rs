//! Keys and counts from a text table: `KEY`, or `KEY<tab>COUNT`, one a line. A missing count is 1.
//!
//! Keys are any bytes except tabs and ends of lines. A carriage return before an end of line is
//! part of the end. The file may be gzip or BGZF, and `-` is standard input.

use crate::variants::input;
use std::path::Path;

/// The most bytes of a line.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TsvError {
    /// The system cannot read the table, or the table is damaged.
    #[error("{name}: cannot read: {source}")]
    Read {
        /// The file, as the caller named it.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The line is not a key and a count.
    #[error("{name}, line {line}: {what}")]
    Line {
        /// The file, as the caller named it.
        name: String,
        /// The number of the line, from 1.
        line: u64,
        /// The text that was expected, and found.
        what: String,
    },
}

/// Passes every key and its count to `take`, which may reject them with a reason.
///
/// # Errors
/// [`TsvError`], which names the line.
pub fn read_keys(
    path: &Path,
    header: bool,
    mut take: impl FnMut(&[u8], u64) -> Result<(), String>,
) -> Result<(), TsvError> {
    let mut first = header;
    read_lines(path, |line| match std::mem::take(&mut first) {
        true => Ok(()),
        false => entry(line).and_then(|(key, count)| take(key, count)),
    })
}

/// Passes every line, without its end, to `take`, which may reject it with a reason.
///
/// # Errors
/// [`TsvError`], which names the line.
pub fn read_lines(path: &Path, mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), TsvError> {
    let name = || tobari_host::files::name_of(path);
    let refused = |source| TsvError::Read { name: name(), source };
    let mut reader = input::open(path).map_err(refused)?;
    let (mut text, mut line) = (Vec::new(), 0);
    while input::line(&mut *reader, &mut text, MAX_LINE_BYTES).map_err(refused)? {
        line += 1;
        take(&text).map_err(|what| TsvError::Line { name: name(), line, what })?;
    }
    Ok(())
}

fn entry(line: &[u8]) -> Result<(&[u8], u64), String> {
    let mut columns = line.split(|byte| *byte == b'\t');
    let (key, count, more) = (columns.next().unwrap_or_default(), columns.next(), columns.next());
    if key.is_empty() || more.is_some() {
        return Err("expected a key, and a tab and a count or nothing".to_owned());
    }
    let Some(count) = count else { return Ok((key, 1)) };
    let number = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok());
    let wrong = || format!("expected a count, found {:?}", String::from_utf8_lossy(count));
    Ok((key, number.ok_or_else(wrong)?))
}

/// For any bytes, each line is rejected, or is a key and a count that stay the same when they are
/// written and read again.
#[doc(hidden)]
pub fn fuzz_keys(data: &[u8]) {
    let Ok(mut reader) = input::from_reader(std::io::Cursor::new(data.to_vec())) else { return };
    let mut text = Vec::new();
    while input::line(&mut *reader, &mut text, MAX_LINE_BYTES).is_ok_and(|more| more) {
        let Ok((key, count)) = entry(&text) else { continue };
        assert!(!key.is_empty() && !key.contains(&b'\t'));
        let again = [key, b"\t", count.to_string().as_bytes()].concat();
        assert_eq!(entry(&again), Ok((key, count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8], header: bool) -> Result<Vec<(Vec<u8>, u64)>, TsvError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut all = Vec::new();
        read_keys(file.path(), header, |key, count| {
            all.push((key.to_vec(), count));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn keys_are_any_bytes_and_a_count_may_be_absent() {
        let all = read(b"a\t3\r\n\xff\xfe b\nlast\t4", false).unwrap();
        assert_eq!(all, [(b"a".to_vec(), 3), (b"\xff\xfe b".to_vec(), 1), (b"last".to_vec(), 4)]);
        assert_eq!(read(b"key\tcount\na\t3\n", true).unwrap(), [(b"a".to_vec(), 3)]);
        assert!(read(b"", false).unwrap().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_lines_of_keys_or_refused(text in "([ab]{0,2}\t?[0-9+-]{0,3}\r?\n?){0,9}", more: Vec<u8>) {
            fuzz_keys(text.as_bytes());
            fuzz_keys(&[text.as_bytes(), &more].concat());
        }
    }

    #[test]
    fn a_line_that_is_no_key_and_count_is_named() {
        for (bytes, says) in [
            (&b"a\t1\n\n"[..], "line 2: expected a key"),
            (b"a\tx\n", "line 1: expected a count, found \"x\""),
            (b"a\t1\t2\n", "line 1: expected a key, and a tab"),
            (b"a\t-1\n", "line 1"),
            (b"a\t99999999999999999999999\n", "line 1"),
        ] {
            let message = read(bytes, false).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
        let message = read(&vec![b'a'; MAX_LINE_BYTES + 1], false).unwrap_err().to_string();
        assert!(message.contains("at most"), "{message}");
    }
}
