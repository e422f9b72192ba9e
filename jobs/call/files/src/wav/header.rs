//! Parsing of WAV headers. Each claim of a header is compared with the file before it is used.
//!
//! This is a separate, strict pass, because the decoder behind it is lenient. The decoder trusts
//! chunk lengths, ignores the RIFF length and everything after the samples, and does not know that
//! a chunk of odd length is padded to an even one.

use super::{MAX_RATE_HZ, MAX_SECONDS, MIN_RATE_HZ, WavError};
use std::fmt::Display;
use std::io::{self, Read, Seek, SeekFrom};

/// More chunks than any real recording has. The limit bounds the work that a hostile file can
/// cause.
const MAX_CHUNKS: usize = 1024;
/// The bytes of a `WAVE_FORMAT_EXTENSIBLE` format chunk. Bytes beyond it are not needed.
const FORMAT_BYTES: usize = 40;
/// A subformat is a format tag followed by these bytes.
const SUBFORMAT_TAIL: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];
const TAG_PCM: u16 = 1;
const TAG_FLOAT: u16 = 3;
const TAG_EXTENSIBLE: u16 = 0xfffe;

/// How one sample is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// 8 bits unsigned, or 16, 24 or 32 bits signed, little-endian.
    Integer { bits: u16 },
    /// 32-bit IEEE float.
    Float,
}

impl Encoding {
    fn bytes(self) -> u16 {
        match self {
            Self::Integer { bits } => bits / 8,
            Self::Float => 4,
        }
    }
}

/// A checked header: the samples are `data_bytes` bytes from `data_start`, all within the file, in
/// whole frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// 1 or 2.
    pub(super) channels: u16,
    /// Within [`MIN_RATE_HZ`] to [`MAX_RATE_HZ`].
    pub(super) rate_hz: u32,
    pub(super) encoding: Encoding,
    pub(super) data_start: u64,
    /// At least one frame, and no more than [`MAX_SECONDS`] of them.
    pub(super) data_bytes: u64,
}

impl Layout {
    /// Reads and checks everything except the samples themselves.
    pub(super) fn read(file: &mut (impl Read + Seek), name: &str) -> Result<Self, WavError> {
        let mut pass = Pass { file, name };
        let end = pass.riff_end()?;
        let (format, data) = pass.chunks(end)?;
        let (data_start, data_bytes) = data;
        let layout = Self { data_start, data_bytes, ..pass.format(&format)? };
        pass.check_samples(&layout)?;
        Ok(layout)
    }

    pub(super) fn frames(&self) -> u64 {
        self.data_bytes / self.frame_bytes()
    }

    fn frame_bytes(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.encoding.bytes())
    }

    /// The simplest header with the same meaning: 44 bytes, directly before the samples.
    pub(super) fn canonical_header(&self) -> Vec<u8> {
        let (tag, bits) = match self.encoding {
            Encoding::Integer { bits } => (TAG_PCM, bits),
            Encoding::Float => (TAG_FLOAT, 32),
        };
        let frame_bytes = self.channels * (bits / 8);
        let data_bytes = u32::try_from(self.data_bytes).unwrap_or(u32::MAX);
        let mut header = Vec::with_capacity(44);
        header.extend_from_slice(b"RIFF");
        header.extend_from_slice(&data_bytes.saturating_add(36).to_le_bytes());
        header.extend_from_slice(b"WAVEfmt ");
        header.extend_from_slice(&16_u32.to_le_bytes());
        header.extend_from_slice(&tag.to_le_bytes());
        header.extend_from_slice(&self.channels.to_le_bytes());
        header.extend_from_slice(&self.rate_hz.to_le_bytes());
        header.extend_from_slice(&(self.rate_hz * u32::from(frame_bytes)).to_le_bytes());
        header.extend_from_slice(&frame_bytes.to_le_bytes());
        header.extend_from_slice(&bits.to_le_bytes());
        header.extend_from_slice(b"data");
        header.extend_from_slice(&data_bytes.to_le_bytes());
        header
    }
}

/// The pass over one file.
struct Pass<'a, F> {
    file: &'a mut F,
    name: &'a str,
}

/// The bytes of the format chunk, zero beyond its end, and its length.
struct Format {
    bytes: [u8; FORMAT_BYTES],
    len: u32,
}

/// The start of a chunk's body, and its length in bytes.
type Body = (u64, u64);

impl<F: Read + Seek> Pass<'_, F> {
    /// Checks the outermost structure and returns its end.
    fn riff_end(&mut self) -> Result<u64, WavError> {
        let file_bytes = self.io(|file| file.seek(SeekFrom::End(0)))?;
        if file_bytes == 0 {
            return Err(WavError::Empty { name: self.name(), found: "a file of 0 bytes".into() });
        }
        if file_bytes < 12 {
            return Err(WavError::NotWav { name: self.name(), found: format!("a file of {file_bytes} bytes") });
        }
        let head: [u8; 12] = self.bytes_at(0)?;
        if &head[..4] != b"RIFF" || &head[8..] != b"WAVE" {
            let found = format!("\"{}…{}\"", head[..4].escape_ascii(), head[8..].escape_ascii());
            return Err(WavError::NotWav { name: self.name(), found });
        }
        let claimed = u32_at(&head, 4);
        let end = u64::from(claimed) + 8;
        // Some writers do not count the pad byte of an odd last chunk.
        let padded = claimed % 2 == 1 && file_bytes == end + 1;
        match file_bytes {
            _ if claimed >= 4 && (file_bytes == end || padded) => Ok(end),
            _ if claimed == 0 || is_placeholder(claimed) => Err(WavError::Unfinished { name: self.name() }),
            _ if file_bytes < end => Err(self.truncated(end, file_bytes)),
            _ => Err(self.inconsistent("length", &format!("{} (the file's less 8)", file_bytes - 8), &claimed)),
        }
    }

    /// Walks every chunk up to `end`: each must fit, and exactly one format must come before
    /// exactly one block of data.
    fn chunks(&mut self, end: u64) -> Result<(Format, Body), WavError> {
        let (mut format, mut data) = (None, None);
        let mut start = 12;
        for _ in 0..MAX_CHUNKS {
            if start == end {
                return match (format, data) {
                    (Some(format), Some(data)) => Ok((format, data)),
                    _ => Err(self.inconsistent("chunks", &"a format and a data chunk", &"the end of the file")),
                };
            }
            if end - start < 8 {
                let found = format!("{} bytes after the last chunk", end - start);
                return Err(self.inconsistent("chunks", &"the end of the file", &found));
            }
            let head: [u8; 8] = self.bytes_at(start)?;
            let body = self.body(start + 8, u32_at(&head, 4), end, &head[..4])?;
            match &head[..4] {
                b"fmt " if format.is_none() => format = Some(self.format_chunk(body)?),
                b"data" if data.is_none() && format.is_some() => data = Some(body),
                b"data" if data.is_none() => {
                    return Err(self.inconsistent("chunks", &"the format before the data", &"data before any format"));
                }
                kind @ (b"fmt " | b"data") => {
                    let found = format!("a second chunk \"{}\"", kind.escape_ascii());
                    return Err(self.inconsistent("chunks", &"one format and one data chunk", &found));
                }
                _ => {}
            }
            // A body of odd length is followed by a pad byte. Some writers omit it at the very end.
            start = (body.0 + body.1 + body.1 % 2).min(end);
        }
        Err(self.inconsistent("chunks", &format!("at most {MAX_CHUNKS}"), &"more"))
    }

    /// A chunk's body, which must end at or before `end`.
    fn body(&self, start: u64, len: u32, end: u64, kind: &[u8]) -> Result<Body, WavError> {
        let bytes = u64::from(len);
        if start + bytes <= end {
            return Ok((start, bytes));
        }
        match kind {
            b"data" if is_placeholder(len) => Err(WavError::Unfinished { name: self.name() }),
            b"data" => Err(self.truncated(start + bytes, end)),
            _ => {
                let expected = format!("at most {} bytes", end - start);
                Err(self.inconsistent("chunks", &expected, &format!("a chunk \"{}\" of {len}", kind.escape_ascii())))
            }
        }
    }

    fn format_chunk(&mut self, (start, bytes): Body) -> Result<Format, WavError> {
        let len = u32::try_from(bytes).unwrap_or(u32::MAX);
        if len < 16 {
            return Err(self.inconsistent("format chunk", &"at least 16 bytes", &len));
        }
        let mut format = Format { bytes: [0; FORMAT_BYTES], len };
        let present = FORMAT_BYTES.min(len as usize);
        self.io(|file| {
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(&mut format.bytes[..present])
        })?;
        Ok(format)
    }

    /// Interprets the format chunk. The position of the data stays zero.
    fn format(&self, format: &Format) -> Result<Layout, WavError> {
        let encoding = self.encoding(format)?;
        let (channels, rate_hz) = (u16_at(&format.bytes, 2), u32_at(&format.bytes, 4));
        if !(1..=2).contains(&channels) {
            return Err(self.unsupported("number of channels", "1 or 2", &channels));
        }
        if !(MIN_RATE_HZ..=MAX_RATE_HZ).contains(&rate_hz) {
            return Err(self.unsupported("sample rate", "4000 to 192000 Hz", &format!("{rate_hz} Hz")));
        }
        let layout = Layout { channels, rate_hz, encoding, data_start: 0, data_bytes: 0 };
        let (bytes_per_second, frame_bytes) = (u32_at(&format.bytes, 8), u16_at(&format.bytes, 12));
        if u64::from(frame_bytes) != layout.frame_bytes() {
            return Err(self.inconsistent("bytes in a frame", &layout.frame_bytes(), &frame_bytes));
        }
        let expected = layout.frame_bytes() * u64::from(rate_hz);
        if u64::from(bytes_per_second) != expected {
            return Err(self.inconsistent("bytes in a second", &expected, &bytes_per_second));
        }
        Ok(layout)
    }

    fn encoding(&self, format: &Format) -> Result<Encoding, WavError> {
        let bits = u16_at(&format.bytes, 14);
        match (self.tag(format)?, bits) {
            (TAG_PCM, 8 | 16 | 24 | 32) => Ok(Encoding::Integer { bits }),
            (TAG_FLOAT, 32) => Ok(Encoding::Float),
            (TAG_PCM, _) => {
                Err(self.unsupported("sample size", "8, 16, 24 or 32-bit integers", &format!("{bits} bits")))
            }
            (TAG_FLOAT, _) => Err(self.unsupported("sample size", "32-bit floats", &format!("{bits} bits"))),
            (tag, _) => Err(self.unsupported_tag(tag)),
        }
    }

    /// The format tag; for an extensible header, the tag in the subformat.
    fn tag(&self, format: &Format) -> Result<u16, WavError> {
        let tag = u16_at(&format.bytes, 0);
        if tag != TAG_EXTENSIBLE {
            return Ok(tag);
        }
        if format.len < 40 {
            return Err(self.inconsistent("extensible format chunk", &"at least 40 bytes", &format.len));
        }
        // With fewer valid bits than stored bits, writers disagree on the side of the padding.
        let (bits, valid_bits) = (u16_at(&format.bytes, 14), u16_at(&format.bytes, 18));
        if valid_bits != 0 && valid_bits != bits {
            let found = format!("{valid_bits} valid bits in {bits}");
            return Err(self.unsupported("sample size", "as many valid bits as stored ones", &found));
        }
        if format.bytes[26..] != SUBFORMAT_TAIL {
            let found = format!("the subformat {}", format.bytes[24..].escape_ascii());
            return Err(self.unsupported("format", EXPECTED_FORMAT, &found));
        }
        Ok(u16_at(&format.bytes, 24))
    }

    fn check_samples(&self, layout: &Layout) -> Result<(), WavError> {
        if layout.data_bytes == 0 {
            return Err(WavError::Empty { name: self.name(), found: "a data chunk of 0 bytes".into() });
        }
        if !layout.data_bytes.is_multiple_of(layout.frame_bytes()) {
            let expected = format!("a multiple of {} bytes", layout.frame_bytes());
            return Err(self.inconsistent("length of the data", &expected, &layout.data_bytes));
        }
        let rate = u64::from(layout.rate_hz);
        if layout.frames() > MAX_SECONDS * rate {
            return Err(WavError::TooLong { name: self.name(), seconds: layout.frames().div_ceil(rate) });
        }
        Ok(())
    }

    fn bytes_at<const N: usize>(&mut self, start: u64) -> Result<[u8; N], WavError> {
        let mut bytes = [0; N];
        self.io(|file| {
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(&mut bytes)
        })?;
        Ok(bytes)
    }

    fn io<T>(&mut self, operation: impl FnOnce(&mut F) -> io::Result<T>) -> Result<T, WavError> {
        operation(self.file).map_err(|source| WavError::Read { name: self.name(), source })
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn truncated(&self, expected_bytes: u64, found_bytes: u64) -> WavError {
        WavError::Truncated { name: self.name(), expected_bytes, found_bytes }
    }

    fn inconsistent(&self, field: &'static str, expected: &dyn Display, found: &dyn Display) -> WavError {
        WavError::Inconsistent { name: self.name(), field, expected: expected.to_string(), found: found.to_string() }
    }

    fn unsupported(&self, field: &'static str, expected: &'static str, found: &dyn Display) -> WavError {
        WavError::Unsupported { name: self.name(), field, expected, found: found.to_string() }
    }

    fn unsupported_tag(&self, tag: u16) -> WavError {
        let found = match tag {
            0x0002 => "Microsoft ADPCM".into(),
            0x0006 => "A-law".into(),
            0x0007 => "µ-law".into(),
            0x0011 => "IMA ADPCM".into(),
            0x0031 => "GSM 6.10".into(),
            0x0055 => "MP3".into(),
            _ => format!("format {tag:#06x}"),
        };
        self.unsupported("format", EXPECTED_FORMAT, &found)
    }
}

const EXPECTED_FORMAT: &str = "integer PCM or 32-bit float";

/// The placeholder of streaming writers that cannot know the length: the largest signed or unsigned
/// number, or that number less the header, rounded down.
fn is_placeholder(len: u32) -> bool {
    (0x7FFF_0000..=0x8000_00FF).contains(&len) || len >= 0xFFFF_0000
}

fn u16_at(bytes: &[u8], start: usize) -> u16 {
    u16::from_le_bytes([bytes[start], bytes[start + 1]])
}

fn u32_at(bytes: &[u8], start: usize) -> u32 {
    u32::from(u16_at(bytes, start)) | u32::from(u16_at(bytes, start + 2)) << 16
}
