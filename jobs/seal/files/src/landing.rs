//! Destinations of opened content.

use super::FileProblem;
use super::below::Onto;
use super::ending::Ending;
use super::flow::Job;
use super::naming::{Link, PartFile, Whole};
use super::source::Places;
use rand_core::CryptoRng;
use std::fs::{File, FileTimes, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tobari_seal::{Identity, Kind, Meta, Opening, SealError, Time};

/// The destination of one file's content.
pub enum Target<'a> {
    /// A file, written whole or not at all, with permissions and time. The second field says
    /// whether an existing file is replaced.
    File(&'a Path, bool),
    /// A writer, which gets each chunk once it is verified, and zeros for holes. After an error it
    /// has received a verified beginning.
    Stream(&'a mut dyn Write),
    /// None: the content is only verified.
    Nowhere,
}

pub(super) enum Sink<'a> {
    File {
        made: PartFile,
        /// Its path, for messages.
        place: PathBuf,
        /// Its path below the target folder.
        path: Vec<u8>,
        onto: Onto,
        /// Whether its bytes must be on the disk before it counts as whole.
        durable: bool,
    },
    Stream(&'a mut dyn Write),
    /// The target of a link, and the path at which the link is made at the end.
    Link(Vec<u8>, Vec<u8>),
    Nowhere,
}

/// The result of opening one file.
pub(super) enum Landed {
    /// Nothing remains to do.
    Done,
    Whole(Whole),
    Link(Link),
}

/// One sealed file during its opening.
pub(super) struct Output<'a> {
    place: PathBuf,
    meta: Meta,
    expected: Option<Identity>,
    sink: Sink<'a>,
    places: Places,
    content: u64,
    /// Bytes written to a stream, holes included.
    at: u64,
    end: Option<(Opening, Vec<u8>)>,
}

impl<'a> Output<'a> {
    pub(super) fn new(place: &Path, meta: Meta, expected: Option<Identity>, sink: Sink<'a>) -> Self {
        let places = Places::new(&meta.ranges);
        Self { place: place.to_owned(), meta, expected, sink, places, content: 0, at: 0, end: None }
    }

    /// Notes that all chunks were read, and takes the end of the file.
    pub(super) fn read_to(&mut self, end: (Opening, Vec<u8>)) {
        self.end = Some(end);
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let has_holes = self.meta.kind == Kind::File;
        match &mut self.sink {
            Sink::Link(target, _) => target.extend_from_slice(bytes),
            Sink::Nowhere => {}
            Sink::Stream(out) if !has_holes => out.write_all(bytes)?,
            Sink::File { made, .. } if !has_holes => made.file.write_all(bytes)?,
            Sink::Stream(out) => {
                let mut rest = bytes;
                while let (false, Some((at, count))) = (rest.is_empty(), self.places.next(rest.len())) {
                    let (now, after) = rest.split_at(count);
                    write_zeros(out, at.saturating_sub(self.at))?;
                    out.write_all(now)?;
                    (self.at, rest) = (at + count as u64, after);
                }
            }
            // Content beyond the ranges is rejected at the end.
            Sink::File { made, .. } => write_at_places(&made.file, &mut self.places, bytes)?,
        }
        Ok(())
    }
}

/// Writes the next bytes of content to their places in a file.
pub(super) fn write_at_places(file: &File, places: &mut Places, bytes: &[u8]) -> std::io::Result<()> {
    let mut rest = bytes;
    while let (false, Some((at, count))) = (rest.is_empty(), places.next(rest.len())) {
        let (now, after) = rest.split_at(count);
        file.write_all_at(now, at)?;
        rest = after;
    }
    Ok(())
}

fn write_zeros(out: &mut dyn Write, mut count: u64) -> std::io::Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    while count > 0 {
        let now = ZEROS.len().min(usize::try_from(count).unwrap_or(usize::MAX));
        out.write_all(&ZEROS[..now])?;
        count -= now as u64;
    }
    Ok(())
}

impl Job for Output<'_> {
    type Output = (u64, Landed);

    fn path(&self) -> PathBuf {
        self.place.clone()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), FileProblem> {
        self.content += bytes.len() as u64;
        let place = match &self.sink {
            Sink::File { place, .. } => place.clone(),
            _ => self.place.clone(),
        };
        self.write(bytes).map_err(FileProblem::system(&place))
    }

    fn end(self, _: &mut dyn CryptoRng) -> Result<Ending<Self::Output>, FileProblem> {
        let Some((opening, end)) = self.end else { return Err(FileProblem::seal(&self.place)(SealError::Truncated)) };
        let identity = opening.finish(&end, self.content).map_err(FileProblem::seal(&self.place))?;
        if self.expected.is_some_and(|expected| expected != identity) {
            let expected = "the file that the list names, found another or an older one";
            return Err(FileProblem::List { name: self.place.display().to_string(), expected });
        }
        let (content, meta) = (self.content, self.meta);
        match self.sink {
            Sink::File { made, place, path, onto, durable } => Ok(Ending::Later(Box::new(move || {
                complete(&made.file, &meta, durable).map_err(FileProblem::system(&place))?;
                Ok((content, Landed::Whole(Whole { made: made.part, path, onto, bytes: content })))
            }))),
            Sink::Stream(out) => {
                let hole = if meta.kind == Kind::File { meta.bytes.saturating_sub(self.at) } else { 0 };
                let written = write_zeros(out, hole).and_then(|()| out.flush());
                written.map_err(FileProblem::system(&self.place))?;
                Ok(Ending::Now((content, Landed::Done)))
            }
            Sink::Link(target, path) => {
                Ok(Ending::Now((content, Landed::Link(Link { target, path, modified: meta.modified }))))
            }
            Sink::Nowhere => Ok(Ending::Now((content, Landed::Done))),
        }
    }
}

fn complete(file: &File, meta: &Meta, durable: bool) -> std::io::Result<()> {
    if meta.kind == Kind::File {
        file.set_len(meta.bytes)?;
        describe(file, meta)?;
    }
    if durable { file.sync_all() } else { Ok(()) }
}

/// Sets permissions and time, without set-user and set-group bits: the file has another owner now.
pub(super) fn describe(file: &File, meta: &Meta) -> std::io::Result<()> {
    file.set_times(FileTimes::new().set_modified(system_time(meta.modified)))?;
    file.set_permissions(Permissions::from_mode(meta.mode & 0o1777))
}

fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 { UNIX_EPOCH.checked_sub(seconds) } else { UNIX_EPOCH.checked_add(seconds) };
    whole.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(time.nanoseconds.into())
}
