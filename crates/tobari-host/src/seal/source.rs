//! What there is to seal.

use super::FileProblem;
use rustix::fs::{SeekFrom, seek};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tobari_apps::seal::{Kind, MAX_RANGES, Meta, Range, Time};

/// One thing in a folder.
pub(super) struct Source {
    /// Where it is.
    pub(super) place: PathBuf,
    /// Its path below the folder; empty for the folder itself.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) metadata: Metadata,
}

/// A walk: each folder before what is in it, names by their bytes.
pub(super) struct Walk {
    root: PathBuf,
    /// Of each folder that we are in: its path, and the names that are left, the next one last.
    stack: Vec<(Vec<u8>, Vec<OsString>)>,
    first: bool,
}

impl Walk {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), stack: Vec::new(), first: true }
    }

    fn enter(&mut self, place: &Path, path: Vec<u8>) -> Result<(), FileProblem> {
        let mut names = Vec::new();
        for entry in fs::read_dir(place).map_err(FileProblem::system(place))? {
            names.push(entry.map_err(FileProblem::system(place))?.file_name());
        }
        names.sort_unstable_by(|a, b| b.as_bytes().cmp(a.as_bytes()));
        self.stack.push((path, names));
        Ok(())
    }

    fn look(&mut self, place: PathBuf, path: Vec<u8>) -> Result<Source, FileProblem> {
        let metadata = fs::symlink_metadata(&place).map_err(FileProblem::system(&place))?;
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Symlink,
            kind if kind.is_file() => Kind::File,
            _ => return Err(FileProblem::Kind { name: place.display().to_string() }),
        };
        Ok(Source { place, path, kind, metadata })
    }
}

impl Iterator for Walk {
    type Item = Result<Source, FileProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        let (place, path) = if std::mem::take(&mut self.first) {
            (self.root.clone(), Vec::new())
        } else {
            loop {
                let (folder, names) = self.stack.last_mut()?;
                let Some(name) = names.pop() else {
                    self.stack.pop();
                    continue;
                };
                let mut path = folder.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.as_bytes());
                break (self.root.join(PathBuf::from(OsString::from_vec(path.clone()))), path);
            }
        };
        let source = self.look(place, path);
        // A folder that cannot be listed is left out: then what is in it is not sealed, and that is said.
        Some(source.and_then(|source| {
            if source.kind == Kind::Directory {
                self.enter(&source.place, source.path.clone())?;
            }
            Ok(source)
        }))
    }
}

/// Opens a file for reading, if it is one: not a link, and not a pipe that somebody put in its place.
pub(super) fn open(place: &Path) -> Result<(File, Metadata), FileProblem> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags.cast_signed()).open(place).map_err(FileProblem::system(place))?;
    let metadata = file.metadata().map_err(FileProblem::system(place))?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(FileProblem::Kind { name: place.display().to_string() }) }
}

/// Permissions and time.
pub(super) fn describe(kind: Kind, path: &[u8], metadata: &Metadata, bytes: u64) -> Meta {
    let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    let modified = Time { seconds: metadata.mtime(), nanoseconds };
    Meta { mode: metadata.mode() & 0o7777, modified, ..Meta::new(kind, path, bytes) }
}

/// Everything about a file that stays the same unless somebody writes to it.
pub(super) fn stamp(metadata: &Metadata) -> (u64, i64, i64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec())
}

/// What is not a hole. A file system that does not tell has no holes, nor has a file with too many.
pub(super) fn ranges(file: &File, bytes: u64) -> Vec<Range> {
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
pub(super) fn read(file: &File, places: &mut Places, count: usize) -> std::io::Result<Vec<u8>> {
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
