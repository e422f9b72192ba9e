//! Keys and counts from a text table: `KEY`, or `KEY<tab>COUNT`, one a line, or with another
//! separator than a tab. A missing count is 1.
//!
//! Keys are any bytes except separators and ends of lines. A carriage return before an end of line
//! is part of the end, and a mark of UTF-8 before the first line is no part of it. The file may be
//! gzip or BGZF, and `-` is standard input.

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
    (header, separator): (bool, u8),
    mut take: impl FnMut(&[u8], u64) -> Result<(), String>,
) -> Result<(), TsvError> {
    let mut first = header;
    read_lines(path, |line| match std::mem::take(&mut first) {
        true => Ok(()),
        false => entry(line, separator).and_then(|(key, count)| take(key, count)),
    })
}

/// The separator of a count that a key ends with, if this separator is not a tab: `AB12:3` has a
/// colon. A table all of whose keys look so was probably meant with another separator.
pub fn ends_with_count(key: &[u8]) -> Option<u8> {
    let digits = key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, number) = key.split_at(key.len() - digits);
    let separator = *before.last().filter(|byte| matches!(byte, b':' | b',' | b';' | b' ' | b'|'))?;
    (!number.is_empty() && before.len() > 1).then_some(separator)
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
        if line == 1 {
            input::without_mark(&mut text);
        }
        take(&text).map_err(|what| TsvError::Line { name: name(), line, what })?;
    }
    Ok(())
}

fn entry(line: &[u8], separator: u8) -> Result<(&[u8], u64), String> {
    let mut columns = line.split(|byte| *byte == separator);
    let (key, count, more) = (columns.next().unwrap_or_default(), columns.next(), columns.next());
    if key.is_empty() || more.is_some() {
        let named = if separator == b'\t' { "a tab".to_owned() } else { format!("{:?}", char::from(separator)) };
        return Err(format!("expected a key, and {named} and a count or nothing"));
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
        let Ok((key, count)) = entry(&text, b'\t') else { continue };
        let _ = ends_with_count(key);
        assert!(!key.is_empty() && !key.contains(&b'\t'));
        let again = [key, b"\t", count.to_string().as_bytes()].concat();
        assert_eq!(entry(&again, b'\t'), Ok((key, count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8], header: bool) -> Result<Vec<(Vec<u8>, u64)>, TsvError> {
        separated(bytes, (header, b'\t'))
    }

    fn separated(bytes: &[u8], how: (bool, u8)) -> Result<Vec<(Vec<u8>, u64)>, TsvError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut all = Vec::new();
        read_keys(file.path(), how, |key, count| {
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

    #[test]
    fn a_mark_is_no_part_of_the_first_key_and_counts_may_follow_another_character() {
        let all = [(b"a".to_vec(), 3), (b"\xef\xbb\xbfb".to_vec(), 4)];
        assert_eq!(read(b"\xef\xbb\xbfa\t3\n\xef\xbb\xbfb\t4\n", false).unwrap(), all, "only before the first line");
        let hashes = [(b"AB12".to_vec(), 3), (b"CD34".to_vec(), 1)];
        assert_eq!(separated(b"AB12:3\nCD34\n", (false, b':')).unwrap(), hashes);
        let wrong = separated(b"AB:12:3\n", (false, b':')).unwrap_err().to_string();
        assert!(wrong.contains("expected a key, and ':' and a count"), "{wrong}");
        for (key, found) in [
            (&b"AB12:3"[..], Some(b':')),
            (b"x y 7", Some(b' ')),
            (b"chr1:5", Some(b':')),
            (b"AB12", None),
            (b":7", None),
        ] {
            assert_eq!(ends_with_count(key), found, "{key:?}");
        }
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
