//! The record about a source, and the trailer.

use super::SealError;

/// The most bytes of a path: its length has two bytes. No system call takes so long a path, so a
/// program opens such files folder by folder.
pub(super) const MAX_PATH_BYTES: usize = u16::MAX as usize;
/// The most bytes of a link's target.
const MAX_LINK_BYTES: u64 = 4096;
/// The most ranges of a sparse file. Of a file with more, some or all holes are sealed as data.
pub const MAX_RANGES: usize = 65_536;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File = 1,
    /// A folder; it has no content. The path of the source folder itself is empty.
    Directory = 2,
    /// A symbolic link; its content is the target.
    Symlink = 3,
    /// A stream, such as a pipe: its length is known only at its end.
    Stream = 4,
    /// The list of a set: [`Entry`](super::Entry) after entry.
    Manifest = 5,
    /// The mark of a set, written before the set is finished; it has no content.
    Set = 6,
}

/// A moment: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after that, below a billion.
    pub nanoseconds: u32,
}

/// Bytes of a file that are not a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub offset: u64,
    /// The length, at least one.
    pub bytes: u64,
}

/// The record about a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The kind of the source.
    pub kind: Kind,
    /// The path below the set's folder, with `/` between names; empty for a stream and for the
    /// folder itself.
    pub path: Vec<u8>,
    /// Permissions: the lower twelve bits.
    pub mode: u32,
    /// The time of the last modification.
    pub modified: Time,
    /// Its length in bytes, holes included; 0 for a stream.
    pub bytes: u64,
    /// The ranges that hold data, in order; two ranges never touch. A file without holes has one
    /// range over all its bytes.
    pub ranges: Vec<Range>,
}

impl Meta {
    /// The record about a source without holes.
    pub fn new(kind: Kind, path: &[u8], bytes: u64) -> Self {
        let ranges = if bytes == 0 { Vec::new() } else { vec![Range { offset: 0, bytes }] };
        Self { kind, path: path.to_vec(), mode: 0o600, modified: Time::default(), bytes, ranges }
    }

    /// Bytes of content, without holes; `None` if only the trailer says.
    pub fn content_bytes(&self) -> Option<u64> {
        match self.kind {
            Kind::Stream | Kind::Manifest => None,
            _ => Some(self.ranges.iter().map(|range| range.bytes).sum()),
        }
    }

    fn check(&self) -> Result<(), SealError> {
        let path = match self.kind {
            Kind::File | Kind::Symlink => is_path(&self.path),
            Kind::Directory => self.path.is_empty() || is_path(&self.path),
            Kind::Stream | Kind::Manifest | Kind::Set => self.path.is_empty(),
        };
        if !path {
            return Err(SealError::Malformed("a relative path without \"..\" for a source"));
        }
        if self.mode > 0o7777 || self.modified.nanoseconds >= 1_000_000_000 {
            return Err(SealError::Malformed("permissions of twelve bits, and nanoseconds below a billion"));
        }
        if self.ranges.len() > MAX_RANGES {
            let (most, found) = (MAX_RANGES as u64, self.ranges.len() as u64);
            return Err(SealError::TooMany { what: "ranges", most, found });
        }
        let mut end = None;
        for range in &self.ranges {
            let after = range.offset.checked_add(range.bytes).filter(|after| *after <= self.bytes);
            let apart = end.is_none_or(|end| range.offset > end);
            if range.bytes == 0 || !apart || after.is_none() {
                return Err(SealError::Malformed("ranges in order, apart, and within the file"));
            }
            end = after;
        }
        let whole = self.ranges == [Range { offset: 0, bytes: self.bytes }];
        let fits = match self.kind {
            Kind::File => true,
            Kind::Symlink => whole && self.bytes <= MAX_LINK_BYTES,
            Kind::Directory | Kind::Stream | Kind::Manifest | Kind::Set => self.bytes == 0,
        };
        if fits { Ok(()) } else { Err(SealError::Malformed("a length that its kind can have")) }
    }

    /// Kind (1), permissions (4), seconds (8), nanoseconds (4), bytes (8), length of the path (2),
    /// path, number of ranges (4); for each range its offset (8) and bytes (8).
    pub(super) fn encode(&self) -> Result<Vec<u8>, SealError> {
        self.check()?;
        let mut out = vec![self.kind as u8];
        out.extend_from_slice(&self.mode.to_be_bytes());
        out.extend_from_slice(&self.modified.seconds.to_be_bytes());
        out.extend_from_slice(&self.modified.nanoseconds.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&(self.path.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.path);
        out.extend_from_slice(&(self.ranges.len() as u32).to_be_bytes());
        for range in &self.ranges {
            out.extend_from_slice(&range.offset.to_be_bytes());
            out.extend_from_slice(&range.bytes.to_be_bytes());
        }
        Ok(out)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SealError> {
        let mut fields = Fields(bytes);
        let kind = match fields.array()? {
            [1] => Kind::File,
            [2] => Kind::Directory,
            [3] => Kind::Symlink,
            [4] => Kind::Stream,
            [5] => Kind::Manifest,
            [6] => Kind::Set,
            _ => return Err(SealError::Malformed("a kind of source")),
        };
        let mode = u32::from_be_bytes(fields.array()?);
        let (seconds, nanoseconds) = (i64::from_be_bytes(fields.array()?), u32::from_be_bytes(fields.array()?));
        let bytes = u64::from_be_bytes(fields.array()?);
        let path = fields.short_string()?.to_vec();
        let count = u32::from_be_bytes(fields.array()?) as usize;
        if fields.0.len() != count.saturating_mul(16) {
            return Err(SealError::Malformed("as many ranges as the record says"));
        }
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let (offset, bytes) = (u64::from_be_bytes(fields.array()?), u64::from_be_bytes(fields.array()?));
            ranges.push(Range { offset, bytes });
        }
        let meta = Self { kind, path, mode, modified: Time { seconds, nanoseconds }, bytes, ranges };
        meta.check()?;
        Ok(meta)
    }
}

/// Whether a path is relative and safe: names between slashes, none of them empty, `.` or `..`, and
/// no zero byte.
pub(super) fn is_path(path: &[u8]) -> bool {
    let name = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    path.len() <= MAX_PATH_BYTES && !path.contains(&0) && path.split(|byte| *byte == b'/').all(name)
}

/// The record at the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) chunks: u32,
    pub(super) content_bytes: u64,
}

impl Trailer {
    pub(super) const BYTES: usize = 12;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&self.chunks.to_be_bytes());
        out[4..].copy_from_slice(&self.content_bytes.to_be_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SealError> {
        let mut fields = Fields(bytes);
        let (chunks, content_bytes) = (u32::from_be_bytes(fields.array()?), u64::from_be_bytes(fields.array()?));
        let whole = fields.0.is_empty();
        if whole { Ok(Self { chunks, content_bytes }) } else { Err(SealError::Malformed("a trailer")) }
    }
}

/// A reader of fields from the front of some bytes.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], SealError> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(SealError::Malformed("a whole record"))?;
        self.0 = rest;
        Ok(*field)
    }

    /// A string, preceded by its length in two bytes.
    pub(super) fn short_string(&mut self) -> Result<&'a [u8], SealError> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        let (field, rest) = self.0.split_at_checked(length).ok_or(SealError::Malformed("a whole record"))?;
        self.0 = rest;
        Ok(field)
    }
}
