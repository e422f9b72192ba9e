//! Bytes of a file or of standard input, inflated where they are gzip.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The empty block with which every whole BGZF file ends (SAM specification, 4.1.2).
const LAST_BLOCK: [u8; 28] = *b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0\0";
const BUFFER_BYTES: usize = 1 << 17;

/// The file, or standard input for `-`; inflated if it is gzip or BGZF. The end of a BGZF file without its last block is an error: such a file
/// was cut short between two blocks.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let raw: Box<dyn Read> = if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    from_reader(raw)
}

pub(crate) fn from_reader(raw: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, raw);
    let head = raw.fill_buf()?;
    if !head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(raw));
    }
    let blocks = head.len() >= 16 && head[3] & 4 != 0 && &head[12..14] == b"BC";
    let tail = Tail { inner: raw, last: Vec::new() };
    let inflated = Inflated { inner: MultiGzDecoder::new(tail), blocks };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, inflated)))
}

/// Passes bytes on and knows the last of them.
struct Tail<R> {
    inner: R,
    last: Vec<u8>,
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

/// A line without its end, of at most so many bytes; false at the end of the file.
pub(crate) fn line(reader: &mut dyn BufRead, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    out.clear();
    let read = reader.take(most as u64 + 1).read_until(b'\n', out)?;
    if read > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("expected lines of at most {most} bytes")));
    }
    if out.last() == Some(&b'\n') {
        out.pop();
        if out.last() == Some(&b'\r') {
            out.pop();
        }
    }
    Ok(read > 0)
}
