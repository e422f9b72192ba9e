//! What there is to seal.

use super::FileProblem;
use super::below::{Below, Need, is_temporary, link_target, look, split};
use rustix::fs::{FileType, SeekFrom, seek};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tobari_seal::{Kind, MAX_RANGES, Meta, Range, Time};

/// One thing in a folder.
pub(super) struct Source {
    /// Where it is, for messages.
    pub(super) place: PathBuf,
    /// Its path below the folder; empty for the folder itself.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    /// Of a folder or a link; a file's is asked for when it is open.
    pub(super) metadata: Option<Metadata>,
    /// The folder that it is found in; none for a file that the caller named, where a link is
    /// followed.
    below: Option<Arc<Below>>,
}

impl Source {
    /// One file that the caller named, under its last name. None where the length does not say how
    /// much there is to read: pipes, devices, files that the system makes up when they are read.
    pub(super) fn alone(place: &Path) -> Result<Option<Self>, FileProblem> {
        let metadata = fs::metadata(place).map_err(FileProblem::system(place))?;
        let Some(name) = place.file_name().filter(|_| metadata.is_file()) else { return Ok(None) };
        if metadata.len() == 0 {
            let read = File::open(place).and_then(|mut file| file.read(&mut [0]));
            if read.map_err(FileProblem::system(place))? > 0 {
                return Ok(None);
            }
        }
        let path = name.as_bytes().to_vec();
        Ok(Some(Self { place: place.to_owned(), path, kind: Kind::File, metadata: None, below: None }))
    }

    /// Of a folder or a link.
    pub(super) fn metadata(&self) -> Result<&Metadata, FileProblem> {
        self.metadata.as_ref().ok_or_else(|| FileProblem::Kind { name: self.place.display().to_string() })
    }

    /// Where a link leads.
    fn link(&self) -> Result<Vec<u8>, FileProblem> {
        let below = self.below.as_ref().ok_or_else(|| FileProblem::Kind { name: self.place.display().to_string() })?;
        let (folder, name) = split(&self.path);
        let link = below.folder(folder, Need::Found).and_then(|folder| link_target(&folder, name));
        link.map_err(FileProblem::system(&self.place))
    }
}

/// Something that a walk could not look at: it, and what may lie below it, is left out.
pub(super) struct Unread {
    pub(super) path: Vec<u8>,
    pub(super) problem: FileProblem,
}

/// A walk: each folder before what is in it, names by their bytes. A folder whose names cannot be
/// read is followed by its problem.
///
/// Temporary files of this program are passed over: they are what a killed run left.
pub(super) struct Walk {
    below: Arc<Below>,
    /// Of each folder that we are in: its path, and the names that are left with their kinds, the
    /// next one last.
    stack: Vec<(Vec<u8>, Names)>,
    first: bool,
    /// A folder that is left out: its device and number.
    without: Option<(u64, u64)>,
    unread: Option<Unread>,
}

/// What a folder lists.
type Names = Vec<(OsString, FileType)>;

/// Which folder it is, whatever it is called.
pub(super) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Walk {
    /// Of all that is in a folder, but for what is in the folder `without`.
    pub(super) fn new(below: Arc<Below>, without: Option<(u64, u64)>) -> Self {
        Self { below, stack: Vec::new(), first: true, without, unread: None }
    }

    fn enter(&mut self, path: &[u8]) -> std::io::Result<()> {
        let mut names = self.below.names(path)?;
        names.retain(|(name, _)| !is_temporary(name));
        names.sort_unstable_by(|a, b| b.0.as_bytes().cmp(a.0.as_bytes()));
        self.stack.push((path.to_vec(), names));
        Ok(())
    }

    fn look(&self, path: Vec<u8>, listed: Option<FileType>) -> Result<Source, FileProblem> {
        let place = self.below.place(&path);
        let kind = match listed {
            Some(FileType::RegularFile) => Kind::File,
            Some(FileType::Symlink) => Kind::Symlink,
            Some(FileType::Directory) | None => Kind::Directory,
            Some(_) => return Err(FileProblem::Kind { name: place.display().to_string() }),
        };
        let (folder, name) = split(&path);
        let found = match kind {
            Kind::File => Ok(None),
            _ if path.is_empty() => {
                self.below.root().try_clone().and_then(|root| File::from(root).metadata()).map(Some)
            }
            _ => self.below.folder(folder, Need::Found).and_then(|folder| look(&folder, name)?.metadata()).map(Some),
        };
        let metadata = found.map_err(FileProblem::system(&place))?;
        Ok(Source { place, path, kind, metadata, below: Some(self.below.clone()) })
    }
}

impl Iterator for Walk {
    type Item = Result<Source, Unread>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(unread) = self.unread.take() {
            return Some(Err(unread));
        }
        loop {
            let (path, listed) = if std::mem::take(&mut self.first) {
                (Vec::new(), None)
            } else {
                let (folder, names) = self.stack.last_mut()?;
                let Some((name, listed)) = names.pop() else {
                    self.stack.pop();
                    continue;
                };
                let mut path = folder.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.as_bytes());
                (path, Some(listed))
            };
            let source = match self.look(path.clone(), listed) {
                Ok(source) => source,
                Err(problem) => return Some(Err(Unread { path, problem })),
            };
            if self.without.is_some() && source.metadata.as_ref().map(identity) == self.without {
                continue;
            }
            if source.kind == Kind::Directory
                && let Err(error) = self.enter(&path)
            {
                self.unread = Some(Unread { path, problem: FileProblem::system(&source.place)(error) });
            }
            return Some(Ok(source));
        }
    }
}

/// Opens a file for reading, if it is one: not a pipe that somebody put in its place, nor a link.
fn open(source: &Source) -> Result<(File, Metadata), FileProblem> {
    let place = source.place.as_path();
    let opened = match &source.below {
        Some(below) => below.file(&source.path),
        None => {
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            fs::OpenOptions::new().read(true).custom_flags(flags).open(place)
        }
    };
    let file = opened.map_err(FileProblem::system(place))?;
    let metadata = file.metadata().map_err(FileProblem::system(place))?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(FileProblem::Kind { name: place.display().to_string() }) }
}

/// Permissions and time.
fn describe(kind: Kind, path: &[u8], metadata: &Metadata, bytes: u64) -> Meta {
    let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    let modified = Time { seconds: metadata.mtime(), nanoseconds };
    Meta { mode: metadata.mode() & 0o7777, modified, ..Meta::new(kind, path, bytes) }
}

/// Everything about a file that stays the same unless somebody writes to it.
fn stamp(metadata: &Metadata) -> (u64, i64, i64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec())
}

/// What is not a hole. A file system that does not tell has no holes, nor has a file with too many.
fn ranges(file: &File, metadata: &Metadata) -> Vec<Range> {
    let bytes = metadata.len();
    // As much on the disk as the file is long: there is no hole to look for.
    if bytes > 0 && metadata.blocks().saturating_mul(512) >= bytes {
        return vec![Range { offset: 0, bytes }];
    }
    let mut ranges: Vec<Range> = Vec::new();
    let mut at = 0;
    while at < bytes {
        let Ok(start) = seek(file, SeekFrom::Data(at)) else { break };
        let Ok(end) = seek(file, SeekFrom::Hole(start)) else { break };
        let end = end.min(bytes);
        if end <= start {
            break;
        }
        match ranges.last_mut() {
            Some(last) if last.offset + last.bytes >= start => last.bytes = end - last.offset,
            _ => ranges.push(Range { offset: start, bytes: end - start }),
        }
        at = end;
        if ranges.len() > MAX_RANGES {
            return vec![Range { offset: 0, bytes }];
        }
    }
    // Data after the last hole that was found ends at the end; beyond it `Data` finds none.
    let told = at >= bytes || matches!(seek(file, SeekFrom::Data(at)), Err(rustix::io::Errno::NXIO));
    if told || bytes == 0 { ranges } else { vec![Range { offset: 0, bytes }] }
}

/// Positions of content in a file with holes.
pub(super) struct Places {
    ranges: std::vec::IntoIter<Range>,
    now: Option<Range>,
}

impl Places {
    pub(super) fn new(ranges: &[Range]) -> Self {
        let mut ranges = Vec::from(ranges).into_iter();
        Self { now: ranges.next(), ranges }
    }

    /// Where the next bytes are, at most so many in one piece; `None` at the end.
    pub(super) fn next(&mut self, most: usize) -> Option<(u64, usize)> {
        let range = self.now.as_mut()?;
        let count = usize::try_from(range.bytes).unwrap_or(usize::MAX).min(most);
        let at = range.offset;
        (range.offset, range.bytes) = (at + count as u64, range.bytes - count as u64);
        if range.bytes == 0 {
            self.now = self.ranges.next();
        }
        Some((at, count))
    }
}

/// The next `count` bytes of content.
fn read(file: &File, places: &mut Places, count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut at = 0;
    while at < count {
        let Some((offset, length)) = places.next(count - at) else { break };
        file.read_exact_at(&mut bytes[at..at + length], offset)?;
        at += length;
    }
    bytes.truncate(at);
    Ok(bytes)
}

/// What is sealed of a source.
pub(super) enum Content {
    /// A file, and its stamp before it was read.
    File(File, (u64, i64, i64, i64, i64)),
    /// Where a link leads; nothing for a folder.
    Bytes(Vec<u8>),
}

impl Content {
    pub(super) fn of(source: &Source) -> Result<(Self, Meta), FileProblem> {
        match source.kind {
            Kind::File => {
                let (file, metadata) = open(source)?;
                let ranges = ranges(&file, &metadata);
                let meta = describe(Kind::File, &source.path, &metadata, metadata.len());
                let stamp = stamp(&metadata);
                Ok((Self::File(file, stamp), Meta { ranges, ..meta }))
            }
            Kind::Symlink => {
                let metadata = source.metadata()?;
                let bytes = source.link()?;
                let meta = describe(Kind::Symlink, &source.path, metadata, bytes.len() as u64);
                Ok((Self::Bytes(bytes), meta))
            }
            kind => Ok((Self::Bytes(Vec::new()), describe(kind, &source.path, source.metadata()?, 0))),
        }
    }

    pub(super) fn reader(&self, meta: &Meta) -> ContentReader<'_> {
        ContentReader { content: self, places: Places::new(&meta.ranges), at: 0 }
    }

    /// What became of a source while it was read.
    pub(super) fn since(&self) -> Since {
        match self {
            Self::Bytes(_) => Since::Same,
            Self::File(file, before) => match file.metadata() {
                Ok(now) if stamp(&now) == *before => Since::Same,
                // what was written to its end changes nothing of what was read
                Ok(now) if now.len() > before.0 => Since::Grown,
                _ => Since::Changed,
            },
        }
    }
}

/// What became of a source while it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// Nothing.
    Same,
    /// It is longer: a log, a recording. Whether anything before its old end was altered too is not
    /// known.
    Grown,
    /// It was altered, or cut.
    Changed,
}

/// Content from its start on, holes left out.
pub(super) struct ContentReader<'a> {
    content: &'a Content,
    places: Places,
    at: usize,
}

impl ContentReader<'_> {
    /// The next bytes: fewer at the end.
    pub(super) fn read_content(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        match self.content {
            Content::File(file, ..) => read(file, &mut self.places, count),
            Content::Bytes(bytes) => {
                let from = self.at.min(bytes.len());
                self.at = (from + count).min(bytes.len());
                Ok(bytes[from..self.at].to_vec())
            }
        }
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.read_content(out.len())?;
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// Reads so many bytes, or to the end.
pub(super) fn read_full(input: &mut dyn Read, count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    input.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
