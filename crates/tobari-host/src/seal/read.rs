//! Opening, verifying and listing.

use super::ending::Ending;
use super::flow::{Flow, Job};
use super::listing::{added, sealed_files};
use super::salvage::pieces;
use super::source::Places;
use super::write::{Content, persist, read_full, sync, temporary};
use super::{FileProblem, Keys, MANIFEST};
use crate::dispatch::{Pool, RingGcm};
use rand_core::CryptoRng;
use std::collections::HashSet;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;
use tobari_apps::seal::{
    Chunk, Entry, FIXED_BYTES, Head, Identity, Kind, MAX_ENTRY_BYTES, Meta, Next, Opening, SealError, SetKey, Stanzas,
    Time, head_bytes, process,
};

/// What was opened, or verified.
#[derive(Debug, Default)]
pub struct Opened {
    /// Files, folders and links that are right.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// What is not right, or could not be written.
    pub problems: Vec<FileProblem>,
}

/// One thing in a set, as [`Reader::list`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: Kind,
    /// Its path.
    pub path: Vec<u8>,
    /// Its sealed file, below the set's folder.
    pub name: String,
    /// Bytes of its content.
    pub bytes: u64,
}

/// Where one file's content goes.
pub enum Target<'a> {
    /// To a file: whole, or not at all; permissions and time too.
    File(&'a Path, bool),
    /// To a writer, as soon as each chunk is verified: if an error comes, what was written is a verified beginning.
    Stream(&'a mut dyn Write),
    /// Nowhere: it is only verified.
    Nowhere,
}

/// A sealed file that is being read, from its first chunk on.
pub(super) struct Input {
    file: Box<dyn Read>,
    opening: Opening,
    /// Bytes that were read and not handed out.
    ahead: Vec<u8>,
    ended: bool,
}

impl Input {
    fn open(
        mut file: Box<dyn Read>,
        place: &Path,
        unwrap: impl FnOnce(&Head) -> Result<Option<SetKey>, FileProblem>,
    ) -> Result<(Self, Stanzas, SetKey), FileProblem> {
        let (system, seal) = (|error| FileProblem::system(place)(error), |error| FileProblem::seal(place)(error));
        let mut start = read_full(&mut file, FIXED_BYTES).map_err(system)?;
        let fixed = start.first_chunk().ok_or(SealError::Truncated).map_err(seal)?;
        let length = head_bytes(fixed).map_err(seal)?;
        start.extend(read_full(&mut file, length - FIXED_BYTES).map_err(system)?);
        let head = Head::decode(&start).map_err(seal)?;
        let key = unwrap(&head)?.ok_or_else(|| FileProblem::NoKey { name: place.display().to_string() })?;
        let opening = Opening::with_key(&head, &key).map_err(seal)?;
        Ok((Self { file, opening, ahead: Vec::new(), ended: false }, head.stanzas().clone(), key))
    }

    /// What was said of the source.
    pub(super) fn meta(&self) -> &Meta {
        self.opening.meta()
    }

    /// Bytes of content in every chunk but the last.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.opening.layout().chunk_bytes()
    }

    /// The next chunk, or `None` where only the end is left.
    pub(super) fn next(&mut self, place: &Path) -> Result<Option<(Chunk, bool)>, FileProblem> {
        loop {
            match self.opening.next(self.ahead.len(), self.ended).map_err(FileProblem::seal(place))? {
                Next::Need(bytes) => {
                    let missing = bytes - self.ahead.len();
                    let more = read_full(&mut self.file, missing).map_err(FileProblem::system(place))?;
                    self.ended = more.len() < missing;
                    self.ahead.extend(more);
                }
                Next::Chunk { bytes, last } => {
                    let rest = self.ahead.split_off(bytes);
                    let sealed = std::mem::replace(&mut self.ahead, rest);
                    let chunk = self.opening.chunk(sealed, last).map_err(FileProblem::seal(place))?;
                    return Ok(Some((chunk, last)));
                }
                Next::End => return Ok(None),
            }
        }
    }

    /// Opens all on this thread: small files, and the list.
    fn each(
        mut self,
        place: &Path,
        mut take: impl FnMut(Vec<u8>) -> Result<(), FileProblem>,
    ) -> Result<Identity, FileProblem> {
        let mut content = 0;
        while let Some((chunk, _)) = self.next(place)? {
            for text in process(&[&chunk], &RingGcm) {
                let text = text.map_err(FileProblem::seal(place))?;
                content += text.len() as u64;
                take(text)?;
            }
        }
        self.opening.finish(&self.ahead, content).map_err(FileProblem::seal(place))
    }
}

/// The key of a set, and how it is wrapped, from its mark, which is verified: to seal more under it, so that only a key of one's own will do.
pub(super) fn key_to_continue(mark: &Path, keys: &Keys) -> Result<(SetKey, Stanzas), FileProblem> {
    let file = File::open(mark).map_err(FileProblem::system(mark))?;
    let ours = |head: &Head| match keys.unwrap_own(head.stanzas())? {
        Some(key) => Ok(Some(key)),
        None => Err(FileProblem::NotOurs { name: mark.display().to_string() }),
    };
    let (input, stanzas, key) = Input::open(Box::new(file), mark, ours)?;
    if input.opening.meta().kind != Kind::Set {
        return Err(FileProblem::List {
            name: mark.display().to_string(),
            expected: "the mark of a set, found another file",
        });
    }
    input.each(mark, |_| Ok(()))?;
    Ok((key, stanzas))
}

/// Whether a sealed file is whole, is about the same source and has the same content: then who it is.
pub(super) fn sealed_content_is(place: &Path, set: &SetKey, meta: &Meta, content: &Content) -> Option<Identity> {
    let file = File::open(place).ok()?;
    let (input, ..) = Input::open(Box::new(file), place, |_| Ok(Some(set.clone()))).ok()?;
    if input.opening.meta() != meta {
        return None;
    }
    let (mut reader, mut same) = (content.reader(meta), true);
    let identity = input.each(place, |text| {
        same &= reader.read(text.len()).is_ok_and(|source| source == text);
        if same { Ok(()) } else { Err(FileProblem::Changed { name: String::new() }) }
    });
    // Nothing may be left in the source either.
    identity.ok().filter(|_| same && reader.read(1).is_ok_and(|rest| rest.is_empty()))
}

/// The content of one sealed file on its way.
struct Output<'a> {
    place: PathBuf,
    meta: Meta,
    expected: Option<Identity>,
    sink: Sink<'a>,
    places: Places,
    content: u64,
    end: Option<(Opening, Vec<u8>)>,
}

enum Sink<'a> {
    File(NamedTempFile, PathBuf, bool),
    Stream(&'a mut dyn Write),
    /// The target of a link, which is made at the end.
    Link(Vec<u8>, PathBuf),
    Nowhere,
}

/// A link that is made when all files are there, so that none is written through it.
struct Link {
    target: Vec<u8>,
    place: PathBuf,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.sink {
            Sink::Stream(out) => out.write_all(bytes),
            Sink::Link(target, _) => {
                target.extend_from_slice(bytes);
                Ok(())
            }
            Sink::File(file, ..) if matches!(self.meta.kind, Kind::File) => {
                let mut rest = bytes;
                while let (false, Some((at, count))) = (rest.is_empty(), self.places.next(rest.len())) {
                    let (now, after) = rest.split_at(count);
                    file.as_file().write_all_at(now, at)?;
                    rest = after;
                }
                // More content than ranges is refused at the end.
                Ok(())
            }
            Sink::File(file, ..) => file.write_all(bytes),
            Sink::Nowhere => Ok(()),
        }
    }
}

impl Job for Output<'_> {
    type Output = (u64, Option<Link>);

    fn path(&self) -> PathBuf {
        self.place.clone()
    }

    fn take(&mut self, bytes: Vec<u8>) -> Result<(), FileProblem> {
        self.content += bytes.len() as u64;
        let place = match &self.sink {
            Sink::File(_, target, _) => target.clone(),
            _ => self.place.clone(),
        };
        self.write(&bytes).map_err(FileProblem::system(&place))
    }

    fn end(self, _: &mut dyn CryptoRng) -> Result<Ending<Self::Output>, FileProblem> {
        let Some((opening, end)) = self.end else { return Err(FileProblem::seal(&self.place)(SealError::Truncated)) };
        let identity = opening.finish(&end, self.content).map_err(FileProblem::seal(&self.place))?;
        if self.expected.is_some_and(|expected| expected != identity) {
            let expected = "the file that the list names, found another or an older one";
            return Err(FileProblem::List { name: self.place.display().to_string(), expected });
        }
        let content = self.content;
        match self.sink {
            Sink::File(file, target, replace) => Ok(Ending::Later(Box::new(move || {
                let finish = || -> std::io::Result<()> {
                    if self.meta.kind == Kind::File {
                        file.as_file().set_len(self.meta.bytes)?;
                        describe(file.as_file(), &self.meta)?;
                    }
                    Ok(())
                };
                finish().map_err(FileProblem::system(&target))?;
                persist(file, &target, replace)?;
                Ok((content, None))
            }))),
            Sink::Stream(out) => {
                out.flush().map_err(FileProblem::system(&self.place))?;
                Ok(Ending::Now((content, None)))
            }
            Sink::Link(target, place) => Ok(Ending::Now((content, Some(Link { target, place })))),
            Sink::Nowhere => Ok(Ending::Now((content, None))),
        }
    }
}

/// Permissions and time. Set-user and set-group bits are left out: the file has another owner now.
pub(super) fn describe(file: &File, meta: &Meta) -> std::io::Result<()> {
    file.set_times(FileTimes::new().set_modified(system_time(meta.modified)))?;
    file.set_permissions(Permissions::from_mode(meta.mode & 0o1777))
}

fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 { UNIX_EPOCH.checked_sub(seconds) } else { UNIX_EPOCH.checked_add(seconds) };
    whole.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(time.nanoseconds.into())
}

/// Opens for whoever has a key.
pub struct Reader<'a> {
    pool: &'a Pool,
    keys: &'a Keys,
}

impl<'a> Reader<'a> {
    /// With these keys.
    pub fn new(pool: &'a Pool, keys: &'a Keys) -> Self {
        Self { pool, keys }
    }

    fn input(&self, file: Box<dyn Read>, place: &Path) -> Result<(Input, Stanzas, SetKey), FileProblem> {
        Input::open(file, place, |head| self.keys.unwrap(head.stanzas()))
    }

    fn file(&self, place: &Path) -> Result<(Input, Stanzas, SetKey), FileProblem> {
        self.input(Box::new(File::open(place).map_err(FileProblem::system(place))?), place)
    }

    /// Opens one sealed file, of whatever kind but a folder's.
    ///
    /// # Errors
    /// [`FileProblem`]; to a stream, a verified beginning may have been written.
    pub fn one(
        &self,
        file: Box<dyn Read>,
        place: &Path,
        target: Target<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Meta, FileProblem> {
        let (input, ..) = self.input(file, place)?;
        let meta = input.opening.meta().clone();
        let sink = match target {
            Target::Nowhere => Sink::Nowhere,
            Target::Stream(out) => Sink::Stream(out),
            Target::File(path, replace) => {
                if !replace && fs::symlink_metadata(path).is_ok() {
                    return Err(FileProblem::Exists { name: path.display().to_string() });
                }
                match meta.kind {
                    Kind::Symlink => Sink::Link(Vec::new(), path.to_owned()),
                    _ => Sink::File(temporary(path)?, path.to_owned(), replace),
                }
            }
        };
        let mut flow = Flow::new(self.pool);
        self.send(input, place, None, sink, &mut flow, rng)?;
        flow.drain(rng);
        let ended = flow.take_ended().pop().map(|(_, ended)| ended);
        let wrong = || FileProblem::seal(place)(SealError::Truncated);
        if let Some(link) = ended.unwrap_or_else(|| Err(wrong()))?.1 {
            make_link(&link)?;
        }
        Ok(meta)
    }

    /// Hands all chunks of a file to the engines.
    fn send<'o>(
        &self,
        mut input: Input,
        place: &Path,
        expected: Option<Identity>,
        sink: Sink<'o>,
        flow: &mut Flow<'_, Output<'o>>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), FileProblem> {
        let meta = input.opening.meta().clone();
        let places = Places::new(&meta.ranges);
        let output = Output { place: place.to_owned(), meta, expected, sink, places, content: 0, end: None };
        let (file, mut count) = (flow.begin(output, rng), 0);
        loop {
            match input.next(place) {
                Ok(Some((chunk, _))) => {
                    flow.submit(file, chunk, rng);
                    count += 1;
                    if !flow.is_running(file) {
                        return Ok(()); // it failed, and that is written down
                    }
                }
                Ok(None) => break,
                Err(problem) => {
                    // What was sent comes out first: a stream gets its verified beginning.
                    flow.drain(rng);
                    flow.fail(file, problem);
                    return Ok(());
                }
            }
        }
        if let Some(job) = flow.job(file) {
            job.end = Some((input.opening, input.ahead));
        }
        flow.all(file, count, rng);
        Ok(())
    }

    /// Goes through the list of a set: `take` gets each entry once it is verified; the whole list is judged at the end.
    fn entries(&self, set: &Path, mut take: impl FnMut(Entry) -> Result<(), FileProblem>) -> Result<(), FileProblem> {
        let place = set.join(MANIFEST);
        let (input, ..) = self.file(&place)?;
        if input.opening.meta().kind != Kind::Manifest {
            return Err(FileProblem::List {
                name: place.display().to_string(),
                expected: "a list, found another file",
            });
        }
        let mut text = Vec::new();
        input.each(&place, |more| {
            text.extend(more);
            let mut at = 0;
            while let Some((entry, length)) = Entry::decode(&text[at..]).map_err(FileProblem::seal(&place))? {
                at += length;
                take(entry)?;
            }
            text.drain(..at);
            if text.len() > MAX_ENTRY_BYTES {
                return Err(FileProblem::seal(&place)(SealError::Malformed("an entry of the list")));
            }
            Ok(())
        })?;
        let whole = text.is_empty();
        if whole {
            Ok(())
        } else {
            Err(FileProblem::seal(&place)(SealError::Malformed("a whole entry at the end of the list")))
        }
    }

    /// What is in a set, by its list.
    ///
    /// # Errors
    /// [`FileProblem`] if the list does not open.
    pub fn list(&self, set: &Path, mut take: impl FnMut(Found)) -> Result<(), FileProblem> {
        self.entries(set, |Entry { kind, path, name, bytes, .. }| {
            take(Found { kind, path, name, bytes });
            Ok(())
        })
    }

    /// Opens a whole set into a folder, or only verifies it where there is none.
    ///
    /// A file that is missing, altered, or not the one that the list names is a problem of its own; all others are written.
    ///
    /// # Errors
    /// [`FileProblem`] if the list does not open, or the folder is there and not empty without `replace`.
    pub fn set(
        &self,
        set: &Path,
        target: Option<&Path>,
        replace: bool,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let (mut run, mut names) = (Run::new(self.pool, target, replace)?, HashSet::new());
        self.entries(set, |entry| {
            names.insert(entry.name.clone());
            if let Err(problem) = self.entry(set, &entry, &mut run, rng) {
                run.flow.skip(Err(problem));
            }
            run.collect()?;
            progress(&run.opened);
            Ok(())
        })?;
        let mut opened = run.finish(rng)?;
        added(set, &names, &mut opened.problems)?;
        if let Some(target) = target {
            sync(target)?;
        }
        progress(&opened);
        Ok(opened)
    }

    /// Opens whatever opens in a set's folder, without its list: what a killed run left, or a set whose list is lost. What is missing, was added, or
    /// is older is not seen. Of a file that is damaged the chunks that are right are written, and what is missing is listed ([`FileProblem::Damaged`]).
    ///
    /// # Errors
    /// As [`Reader::set`], but for the list.
    pub fn salvage(
        &self,
        set: &Path,
        target: &Path,
        replace: bool,
        rng: &mut dyn CryptoRng,
    ) -> Result<Opened, FileProblem> {
        let mut run = Run::new(self.pool, Some(target), replace)?;
        for place in sealed_files(set)? {
            let sent = self.file(&place).and_then(|(input, ..)| self.place(input, &place, None, &mut run, rng));
            sent.unwrap_or_else(|problem| run.flow.skip(Err(problem)));
            run.collect()?;
        }
        let mut opened = run.finish(rng)?;
        let broken = |problem: &FileProblem| match problem {
            FileProblem::Seal { name, .. } => Some(PathBuf::from(name)),
            _ => None,
        };
        let broken: Vec<PathBuf> = opened.problems.iter().filter_map(broken).collect();
        for place in broken {
            // one whose beginning is not right tells nothing, and was named
            let Ok((input, ..)) = self.file(&place) else { continue };
            let out = target.join(std::ffi::OsStr::from_bytes(&input.meta().path));
            match pieces(input, &place, &out, replace) {
                Ok(damaged) => opened.problems.extend(damaged),
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => opened.problems.push(problem),
            }
        }
        Ok(opened)
    }

    /// Opens what can be opened of one sealed file that does not open as a whole, to a file of `target`'s name with [`DAMAGED`](super::DAMAGED) added: what is missing in it. None if no
    /// chunk is right, or it is no file's.
    ///
    /// # Errors
    /// [`FileProblem`] if its beginning does not open, or nothing can be written.
    pub fn pieces(&self, place: &Path, target: &Path, replace: bool) -> Result<Option<FileProblem>, FileProblem> {
        let (input, ..) = self.file(place)?;
        pieces(input, place, target, replace)
    }

    /// One entry of a list.
    fn entry(&self, set: &Path, entry: &Entry, run: &mut Run<'_>, rng: &mut dyn CryptoRng) -> Result<(), FileProblem> {
        let place = set.join(&entry.name);
        let (input, ..) = self.file(&place)?;
        let meta = input.opening.meta();
        if meta.path != entry.path || meta.kind != entry.kind {
            let expected = "the path that the list has, found another";
            return Err(FileProblem::List { name: place.display().to_string(), expected });
        }
        self.place(input, &place, Some(entry.identity), run, rng)
    }

    /// Where a file goes by its own path.
    fn place(
        &self,
        input: Input,
        place: &Path,
        expected: Option<Identity>,
        run: &mut Run<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), FileProblem> {
        let meta = input.opening.meta().clone();
        let sink = match run.target.map(|target| target.join(std::ffi::OsStr::from_bytes(&meta.path))) {
            None => Sink::Nowhere,
            Some(out) if meta.kind == Kind::Directory => {
                fs::create_dir_all(&out).map_err(FileProblem::system(&out))?;
                run.folders.push((out, meta));
                Sink::Nowhere
            }
            Some(out) if meta.kind == Kind::Symlink => Sink::Link(Vec::new(), out),
            Some(out) => Sink::File(temporary(&out)?, out, run.replace),
        };
        self.send(input, place, expected, sink, &mut run.flow, rng)
    }
}

/// A set that is being opened: where it goes, and what came of it so far.
struct Run<'a> {
    /// None where files are only verified.
    target: Option<&'a Path>,
    replace: bool,
    flow: Flow<'a, Output<'static>>,
    folders: Vec<(PathBuf, Meta)>,
    links: Vec<Link>,
    opened: Opened,
}

impl<'a> Run<'a> {
    /// Into a folder that is empty, or may be written over.
    fn new(pool: &'a Pool, target: Option<&'a Path>, replace: bool) -> Result<Self, FileProblem> {
        let empty = |target| fs::read_dir(target).map_or(true, |mut entries| entries.next().is_none());
        if let Some(target) = target.filter(|target| !replace && !empty(*target)) {
            return Err(FileProblem::Exists { name: target.display().to_string() });
        }
        let (folders, links, opened) = Default::default();
        Ok(Self { target, replace, flow: Flow::new(pool), folders, links, opened })
    }

    /// Takes what has ended.
    fn collect(&mut self) -> Result<(), FileProblem> {
        for (_, ended) in self.flow.take_ended() {
            match ended {
                Ok((bytes, link)) => {
                    self.opened.entries += 1;
                    self.opened.bytes += bytes;
                    self.links.extend(link);
                }
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => self.opened.problems.push(problem),
            }
        }
        Ok(())
    }

    /// Waits for the rest; then links are made, and folders described, the innermost first: a folder's time changes when something is made in it.
    fn finish(mut self, rng: &mut dyn CryptoRng) -> Result<Opened, FileProblem> {
        self.flow.drain(rng);
        self.collect()?;
        self.opened.problems.extend(self.links.iter().filter_map(|link| make_link(link).err()));
        self.folders.sort_by_key(|(place, _)| place.components().count());
        for (place, meta) in self.folders.iter().rev() {
            let described = File::open(place).and_then(|folder| describe(&folder, meta));
            self.opened.problems.extend(described.err().map(FileProblem::system(place)));
        }
        Ok(self.opened)
    }
}

fn make_link(link: &Link) -> Result<(), FileProblem> {
    std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(&link.target), &link.place)
        .map_err(FileProblem::system(&link.place))
}
