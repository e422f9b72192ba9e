//! Bytes of a file or of standard input, decompressed if they are gzip.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The empty block at the end of every complete BGZF file (SAM specification, 4.1.2).
const LAST_BLOCK: [u8; 28] = *b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0\0";
const BUFFER_BYTES: usize = 1 << 17;
/// A line or a record may have so many bytes, plus [`EXPANSION`] for every compressed byte.
const FREE_BYTES: u64 = 1 << 24;
/// Deflate expands one byte to as many as a thousand. Real lines do not need more than this.
const EXPANSION: u64 = 10;
/// Bytes of a line or a record that are read before the next check.
const STEP_BYTES: usize = 1 << 20;

/// A source of bytes, which may have been compressed.
pub(crate) trait Input: BufRead {
    /// Compressed bytes that were used so far; none if the source is not compressed.
    fn compressed(&self) -> Option<u64>;
}

impl Input for BufReader<Box<dyn Read>> {
    fn compressed(&self) -> Option<u64> {
        None
    }
}

impl<R: BufRead> Input for BufReader<Inflated<R>> {
    fn compressed(&self) -> Option<u64> {
        Some(self.get_ref().inner.get_ref().used)
    }
}

impl Input for &[u8] {
    fn compressed(&self) -> Option<u64> {
        None
    }
}

/// Opens the file, or standard input for `-`, and decompresses gzip and BGZF. A BGZF file without
/// its last block is an error: it was truncated between two blocks.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Input>> {
    let raw: Box<dyn Read> = if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    from_reader(raw)
}

pub(crate) fn from_reader(raw: impl Read + 'static) -> io::Result<Box<dyn Input>> {
    let raw: Box<dyn Read> = Box::new(raw);
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, raw);
    let head = raw.fill_buf()?;
    if !head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(raw));
    }
    let blocks = head.len() >= 16 && head[3] & 4 != 0 && &head[12..14] == b"BC";
    let tail = Tail { inner: raw, last: Vec::new(), used: 0 };
    let inflated = Inflated { inner: MultiGzDecoder::new(tail), blocks };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, inflated)))
}

/// Passes bytes on, counts them and keeps the last of them.
struct Tail<R> {
    inner: R,
    last: Vec<u8>,
    used: u64,
}

impl<R: BufRead> Read for Tail<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut there = self.fill_buf()?;
        let read = there.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Tail<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Ok(there) = self.inner.fill_buf() {
            let used = &there[..amount.min(there.len())];
            self.last.extend_from_slice(&used[used.len().saturating_sub(LAST_BLOCK.len())..]);
            self.last.drain(..self.last.len().saturating_sub(LAST_BLOCK.len()));
        }
        self.used += amount as u64;
        self.inner.consume(amount);
    }
}

struct Inflated<R: BufRead> {
    inner: MultiGzDecoder<Tail<R>>,
    blocks: bool,
}

impl<R: BufRead> Read for Inflated<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        if read == 0 && !out.is_empty() && self.blocks && self.inner.get_ref().last != LAST_BLOCK {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends without its last block"));
        }
        Ok(read)
    }
}

/// Reads a line without its end, of at most so many bytes; false at the end of the file. A line in
/// memory is limited by the compressed bytes of the file ([`check_expansion`]).
pub(crate) fn line(reader: &mut dyn Input, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    out.clear();
    loop {
        let step = STEP_BYTES.min(most + 1 - out.len());
        let read = Read::take(&mut *reader, step as u64).read_until(b'\n', out)?;
        if out.len() > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("expected lines of at most {most} bytes")));
        }
        check_expansion(reader, out.len())?;
        if read < step || out.last() == Some(&b'\n') {
            break;
        }
    }
    let found = !out.is_empty();
    if out.last() == Some(&b'\n') {
        out.pop();
        if out.last() == Some(&b'\r') {
            out.pop();
        }
    }
    Ok(found)
}

/// The mark that some programs put before the text of a file (U+FEFF in UTF-8).
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Removes the mark from a file's first line.
pub(crate) fn without_mark(line: &mut Vec<u8>) {
    if line.starts_with(MARK) {
        line.drain(..MARK.len());
    }
}

/// Reads so many bytes, or fails. Memory grows with the bytes read, within the limit of a line.
pub(crate) fn record(reader: &mut dyn Input, out: &mut Vec<u8>, length: usize) -> io::Result<()> {
    out.clear();
    while out.len() < length {
        let step = STEP_BYTES.min(length - out.len());
        if Read::take(&mut *reader, step as u64).read_to_end(out)? < step {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends within a record"));
        }
        check_expansion(reader, out.len())?;
    }
    Ok(())
}

/// Checks the length of a line or a record against the compressed bytes read so far.
fn check_expansion(reader: &dyn Input, found: usize) -> io::Result<()> {
    let Some(compressed) = reader.compressed() else { return Ok(()) };
    let most = compressed.saturating_mul(EXPANSION).saturating_add(FREE_BYTES);
    if found as u64 <= most {
        return Ok(());
    }
    let text = format!(
        "expected lines and records of at most {FREE_BYTES} bytes and {EXPANSION} times the compressed bytes before \
         their end, {most} here, found {found} or more: if the file comes from somebody you trust, decompress it first"
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(plain: &[u8]) -> Box<dyn Input> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).unwrap();
        from_reader(io::Cursor::new(encoder.finish().unwrap())).unwrap()
    }

    /// Text that hardly compresses.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 7u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b'!' + (state >> 33) as u8 % 94
        };
        (0..bytes).map(next).collect()
    }

    #[test]
    fn fault_32_a_line_that_a_few_compressed_bytes_become_is_refused_before_it_is_held() {
        let (free, most) = (FREE_BYTES as usize, 1 << 28);
        let mut long = vec![b'a'; 2 * free];
        long.push(b'\n');
        let mut out = Vec::new();
        let refused = line(&mut *gzip(&long), &mut out, most).unwrap_err().to_string();
        assert!(refused.contains("decompress it first"), "{refused}");
        assert!(out.len() < free + (free >> 2), "{} bytes were held", out.len());
        let refused = record(&mut *gzip(&long), &mut out, 2 * free).unwrap_err().to_string();
        assert!(refused.contains("decompress it first") && out.len() < free + (free >> 2), "{refused}");
        // plain text, text after enough other bytes, and text of several lines are within the limit
        assert!(line(&mut &long[..], &mut out, most).unwrap());
        assert_eq!(out.len(), 2 * free);
        let mut other = noise(free / 4);
        other.push(b'\n');
        let mut reader = gzip(&[&other[..], &long].concat());
        for expected in [other.len() - 1, 2 * free] {
            assert!(line(&mut *reader, &mut out, most).unwrap());
            assert_eq!(out.len(), expected);
        }
        assert!(!line(&mut *reader, &mut out, most).unwrap());
        long[free - 9] = b'\n';
        let mut reader = gzip(&long[..2 * free - 17]);
        for _ in 0..2 {
            assert!(line(&mut *reader, &mut out, most).unwrap());
            assert_eq!(out.len(), free - 9);
        }
        assert!(!line(&mut *reader, &mut out, most).unwrap());
        let mut reader = gzip(&long);
        record(&mut *reader, &mut out, free).unwrap();
        assert_eq!(out.len(), free);
    }

    #[test]
    fn fault_32_lines_end_where_they_did_around_a_step() {
        for length in [STEP_BYTES - 2, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 2 * STEP_BYTES - 1] {
            let text = [&vec![b'x'; length][..], b"\r\n\nlast"].concat();
            let (mut reader, mut out) = (&text[..], Vec::new());
            for expected in [length, 0, 4] {
                assert!(line(&mut reader, &mut out, 1 << 28).unwrap());
                assert_eq!(out.len(), expected, "{length}");
            }
            assert!(!line(&mut reader, &mut out, 1 << 28).unwrap());
            // the ends count as well
            let all = length + 2;
            assert!(line(&mut &text[..], &mut out, all).unwrap());
            let refused = line(&mut &text[..], &mut out, all - 1).unwrap_err().to_string();
            assert!(refused.contains("at most"), "{refused}");
        }
    }
}
