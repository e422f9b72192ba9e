//! The sources: a walk through a folder, and the content of files.

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

/// One file, folder or link to seal.
pub(super) struct Source {
    /// Its full path, for messages.
    pub(super) place: PathBuf,
    /// Its path below the folder; empty for the folder itself.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    /// The metadata of a folder or a link; a file's is read when it is open.
    pub(super) metadata: Option<Metadata>,
    /// The root of the walk. `None` for a file that the caller named; there a link is followed.
    below: Option<Arc<Below>>,
}

impl Source {
    /// One file that the caller named, under its last name. `None` if its length is unknown before
    /// it is read: pipes, devices, and files that the system generates.
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

    /// The metadata of a folder or a link.
    pub(super) fn metadata(&self) -> Result<&Metadata, FileProblem> {
        self.metadata.as_ref().ok_or_else(|| FileProblem::Kind { name: self.place.display().to_string() })
    }

    /// The target of a link.
    fn link(&self) -> Result<Vec<u8>, FileProblem> {
        let below = self.below.as_ref().ok_or_else(|| FileProblem::Kind { name: self.place.display().to_string() })?;
        let (folder, name) = split(&self.path);
        let link = below.folder(folder, Need::Found).and_then(|folder| link_target(&folder, name));
        link.map_err(FileProblem::system(&self.place))
    }
}

/// A path that a walk could not read. The walk omits it and everything below it.
pub(super) struct Unread {
    pub(super) path: Vec<u8>,
    pub(super) problem: FileProblem,
}

/// A walk: each folder before its content, names in the order of their bytes. If the names of a
/// folder cannot be read, the problem follows the folder.
///
/// The walk skips temporary files of this program: killed runs left them.
pub(super) struct Walk {
    below: Arc<Below>,
    /// Each open folder: its path, and its remaining names with their kinds, the next one last.
    stack: Vec<(Vec<u8>, Names)>,
    first: bool,
    /// Device and inode number of a folder to omit.
    without: Option<(u64, u64)>,
    unread: Option<Unread>,
}

/// The names in a folder, and their kinds.
type Names = Vec<(OsString, FileType)>;

/// Device and inode number: the identity of a folder, independent of its path.
pub(super) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Walk {
    /// A walk through a folder, without the folder `without`.
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

/// Opens a file for reading. Rejects a pipe or a link in its place.
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

/// The record about a source, with permissions and time.
fn describe(kind: Kind, path: &[u8], metadata: &Metadata, bytes: u64) -> Meta {
    let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    let modified = Time { seconds: metadata.mtime(), nanoseconds };
    Meta { mode: metadata.mode() & 0o7777, modified, ..Meta::new(kind, path, bytes) }
}

/// Length and times of a file, which stay the same unless somebody writes to it.
fn stamp(metadata: &Metadata) -> (u64, i64, i64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec())
}

/// The ranges that hold data. A file with more than [`MAX_RANGES`], or on a file system that does
/// not report holes, counts as without holes.
fn ranges(file: &File, metadata: &Metadata) -> Vec<Range> {
    let bytes = metadata.len();
    // The disk holds as many bytes as the file: there is no hole.
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
    // The ranges are complete if they end at the file's end, or `Data` finds nothing after them.
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

    /// The place and the number of the next bytes, at most `most`; `None` at the end.
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

/// The content of a source.
pub(super) enum Content {
    /// A file, and its stamp before it was read.
    File(File, (u64, i64, i64, i64, i64)),
    /// The target of a link; empty for a folder.
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

    /// The change of the source while it was read.
    pub(super) fn since(&self) -> Since {
        match self {
            Self::Bytes(_) => Since::Same,
            Self::File(file, before) => match file.metadata() {
                Ok(now) if stamp(&now) == *before => Since::Same,
                // Bytes added at the end do not change the bytes already read.
                Ok(now) if now.len() > before.0 => Since::Grown,
                _ => Since::Changed,
            },
        }
    }
}

/// The change of a source while it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// Nothing.
    Same,
    /// It is longer: a log, a recording. Bytes before its old end may have changed, too; this is
    /// not known.
    Grown,
    /// It was altered, or cut.
    Changed,
}

/// Reads content from its start, without holes.
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

/// Reads `count` bytes, or all to the end.
pub(super) fn read_full(input: &mut dyn Read, count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    input.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
