//! Opening, verifying and listing.

use super::flow::Flow;
use super::input::Input;
use super::landing::{Landed, Output, Sink, Target, describe};
use super::listing::{added, sealed_files};
use super::naming::{Link, Unnamed, clean, make_link, persist, sync_name, sync_names_below, temporary};
use super::salvage::pieces;
use super::{FileProblem, Keys, MANIFEST};
use crate::dispatch::Pool;
use rand_core::CryptoRng;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tobari_apps::seal::{Entry, Identity, Kind, MAX_ENTRY_BYTES, Meta, SealError, SetKey, Stanzas};

/// What was opened, or verified.
#[derive(Debug, Default)]
pub struct Opened {
    /// Files, folders and links that are right.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Bytes of sealed content that were read so far.
    pub read: u64,
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
    /// By what the sealed file is known.
    pub identity: Identity,
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

    /// What is said of the source of one sealed file. Only its beginning is read, and verified.
    ///
    /// # Errors
    /// [`FileProblem`].
    pub fn look(&self, file: Box<dyn Read>, place: &Path) -> Result<Meta, FileProblem> {
        self.input(file, place).map(|(input, ..)| input.meta().clone())
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
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let (input, ..) = self.input(file, place)?;
        self.alone(input, place, None, target, rng, progress)
    }

    /// Opens one file or link of a set, which [`Reader::list`] told of: nothing else will do in its place.
    ///
    /// # Errors
    /// As [`Reader::one`].
    pub fn listed(
        &self,
        set: &Path,
        found: &Found,
        target: Target<'_>,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let place = set.join(&found.name);
        let input = self.entry_input(&place, found.kind, &found.path)?;
        self.alone(input, &place, Some(found.identity), target, rng, progress)
    }

    fn alone(
        &self,
        input: Input,
        place: &Path,
        expected: Option<Identity>,
        target: Target<'_>,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let (sink, replace, last) = match target {
            Target::Nowhere => (Sink::Nowhere, false, None),
            Target::Stream(out) => (Sink::Stream(out), false, None),
            Target::File(path, replace) => (sink_of(input.meta(), place, path, replace)?, replace, Some(path)),
        };
        let (mut flow, mut opened) = (Flow::new(self.pool), Opened { entries: 1, ..Opened::default() });
        let mut taken = |bytes| {
            opened.read += bytes;
            progress(&opened);
        };
        send(input, place, expected, sink, &mut flow, rng, &mut taken);
        flow.drain(rng);
        let ended = flow.take_ended().pop().map(|(_, ended)| ended);
        let (bytes, landed) = ended.unwrap_or_else(|| Err(FileProblem::seal(place)(SealError::Truncated)))?;
        match landed {
            Landed::Done => {}
            Landed::Whole(whole) => persist(whole.made, &whole.target, whole.replace)?,
            Landed::Link(link) => make_link(&link, replace)?,
        }
        last.map_or(Ok(()), sync_name)?;
        Ok(Opened { bytes, ..opened })
    }

    /// Goes through the list of a set: `take` gets each entry once it is verified; the whole list is judged at the end.
    fn entries(&self, set: &Path, mut take: impl FnMut(Entry) -> Result<(), FileProblem>) -> Result<(), FileProblem> {
        let place = set.join(MANIFEST);
        let (input, ..) = self.file(&place)?;
        if input.meta().kind != Kind::Manifest {
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
        self.entries(set, |Entry { kind, path, name, bytes, identity }| {
            take(Found { kind, path, name, bytes, identity });
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
        let walked = self.entries(set, |entry| {
            names.insert(entry.name.clone());
            if let Err(problem) = self.entry(set, &entry, &mut run, rng, progress) {
                run.flow.skip(Err(problem));
            }
            run.collect()?;
            progress(&run.opened);
            Ok(())
        });
        if let Err(problem) = walked {
            // What is whole gets its name, whatever ended the rest; and that is what has to be told.
            let _ = run.name_all();
            return Err(problem);
        }
        let mut opened = run.finish(rng)?;
        added(set, &names, &mut opened.problems)?;
        target.map_or(Ok(()), sync_names_below)?;
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
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let mut run = Run::new(self.pool, Some(target), replace)?;
        for place in sealed_files(set)? {
            let sent = self.file(&place).and_then(|(input, ..)| run.place(input, &place, None, rng, progress));
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
            let mut taken = |bytes| {
                opened.read += bytes;
                progress(&opened);
            };
            match pieces(input, &place, &out, replace, &mut taken) {
                Ok(damaged) => opened.problems.extend(damaged),
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => opened.problems.push(problem),
            }
        }
        sync_names_below(target)?;
        Ok(opened)
    }

    /// Opens what can be opened of one sealed file that does not open as a whole, to a file of `target`'s name with [`DAMAGED`](super::DAMAGED) added: what is missing in it. None if no
    /// chunk is right, or it is no file's.
    ///
    /// # Errors
    /// [`FileProblem`] if its beginning does not open, or nothing can be written.
    pub fn pieces(
        &self,
        place: &Path,
        target: &Path,
        replace: bool,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Option<FileProblem>, FileProblem> {
        let (input, ..) = self.file(place)?;
        let mut opened = Opened::default();
        let mut taken = |bytes| {
            opened.read += bytes;
            progress(&opened);
        };
        pieces(input, place, target, replace, &mut taken)
    }

    /// One entry of a list.
    fn entry(
        &self,
        set: &Path,
        entry: &Entry,
        run: &mut Run<'_>,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<(), FileProblem> {
        let place = set.join(&entry.name);
        let input = self.entry_input(&place, entry.kind, &entry.path)?;
        run.place(input, &place, Some(entry.identity), rng, progress)
    }

    /// The sealed file of an entry: of this kind and path, or none.
    fn entry_input(&self, place: &Path, kind: Kind, path: &[u8]) -> Result<Input, FileProblem> {
        let (input, ..) = self.file(place)?;
        if input.meta().path != path || input.meta().kind != kind {
            let expected = "the path that the list has, found another";
            return Err(FileProblem::List { name: place.display().to_string(), expected });
        }
        Ok(input)
    }
}

/// Where the content of one file goes that is opened alone.
fn sink_of<'o>(meta: &Meta, place: &Path, target: &Path, replace: bool) -> Result<Sink<'o>, FileProblem> {
    if meta.kind == Kind::Directory {
        let expected = "a sealed file or link, found a sealed folder";
        return Err(FileProblem::List { name: place.display().to_string(), expected });
    }
    if !replace && fs::symlink_metadata(target).is_ok() {
        return Err(FileProblem::Exists { name: target.display().to_string() });
    }
    Ok(match meta.kind {
        Kind::Symlink => Sink::Link(Vec::new(), target.to_owned()),
        _ => Sink::File { file: temporary(target)?, target: target.to_owned(), replace, durable: true },
    })
}

/// Hands all chunks of a file to the engines; `taken` is told the bytes of each.
fn send<'o>(
    mut input: Input,
    place: &Path,
    expected: Option<Identity>,
    sink: Sink<'o>,
    flow: &mut Flow<'_, Output<'o>>,
    rng: &mut dyn CryptoRng,
    taken: &mut dyn FnMut(u64),
) {
    let output = Output::new(place, input.meta().clone(), expected, sink);
    let (file, mut count) = (flow.begin(output, rng), 0);
    loop {
        match input.next(place) {
            Ok(Some((chunk, _))) => {
                taken(chunk.bytes() as u64);
                flow.submit(file, chunk, rng);
                count += 1;
                if !flow.is_running(file) {
                    return; // it failed, and that is written down
                }
            }
            Ok(None) => break,
            Err(problem) => {
                // What was sent comes out first: a stream gets its verified beginning.
                flow.drain(rng);
                flow.fail(file, problem);
                return;
            }
        }
    }
    if let Some(job) = flow.job(file) {
        job.read_to(input.into_end());
    }
    flow.all(file, count, rng);
}

/// A set that is being opened: where it goes, and what came of it so far.
struct Run<'a> {
    /// None where files are only verified.
    target: Option<&'a Path>,
    replace: bool,
    flow: Flow<'a, Output<'static>>,
    folders: Vec<(PathBuf, Meta)>,
    links: Vec<Link>,
    unnamed: Unnamed,
    opened: Opened,
}

impl<'a> Run<'a> {
    /// Into a folder that is empty, or may be written over.
    fn new(pool: &'a Pool, target: Option<&'a Path>, replace: bool) -> Result<Self, FileProblem> {
        let empty = |target| fs::read_dir(target).map_or(true, |mut entries| entries.next().is_none());
        if let Some(target) = target.filter(|target| !replace && !empty(*target)) {
            return Err(FileProblem::Exists { name: target.display().to_string() });
        }
        let (folders, links, unnamed, opened) = Default::default();
        Ok(Self { target, replace, flow: Flow::new(pool), folders, links, unnamed, opened })
    }

    /// Has a file opened to where it belongs by its own path.
    fn place(
        &mut self,
        input: Input,
        place: &Path,
        expected: Option<Identity>,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<(), FileProblem> {
        let (meta, replace) = (input.meta().clone(), self.replace);
        let sink = match self.target.map(|target| target.join(std::ffi::OsStr::from_bytes(&meta.path))) {
            None => Sink::Nowhere,
            Some(out) if meta.kind == Kind::Directory => {
                fs::create_dir_all(&out).map_err(FileProblem::system(&out))?;
                // A list has each folder before what is in it, so that no temporary file there is ours.
                if replace && expected.is_some() {
                    clean(&out)?;
                }
                self.folders.push((out, meta));
                Sink::Nowhere
            }
            Some(out) if meta.kind == Kind::Symlink => Sink::Link(Vec::new(), out),
            Some(target) => Sink::File { file: temporary(&target)?, target, replace, durable: false },
        };
        let Self { flow, opened, .. } = self;
        let mut taken = |bytes| {
            opened.read += bytes;
            progress(opened);
        };
        send(input, place, expected, sink, flow, rng, &mut taken);
        Ok(())
    }

    /// Takes what has ended.
    fn collect(&mut self) -> Result<(), FileProblem> {
        for (_, ended) in self.flow.take_ended() {
            match ended {
                Ok((bytes, landed)) => {
                    self.opened.entries += 1;
                    self.opened.bytes += bytes;
                    match landed {
                        Landed::Done => {}
                        Landed::Whole(whole) => self.unnamed.push(whole),
                        Landed::Link(link) => self.links.push(link),
                    }
                }
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => self.opened.problems.push(problem),
            }
        }
        if self.unnamed.is_full() { self.name_all() } else { Ok(()) }
    }

    /// Gives what is whole its names.
    fn name_all(&mut self) -> Result<(), FileProblem> {
        let Some(target) = self.target else { return Ok(()) };
        for (bytes, problem) in self.unnamed.name_all(target)? {
            self.opened.entries -= 1;
            self.opened.bytes -= bytes;
            self.opened.problems.push(problem);
        }
        Ok(())
    }

    /// Waits for the rest; then links are made, and folders described, the innermost first: a folder's time changes when something is made in it.
    fn finish(mut self, rng: &mut dyn CryptoRng) -> Result<Opened, FileProblem> {
        self.flow.drain(rng);
        self.collect()?;
        self.name_all()?;
        for link in &self.links {
            if let Err(problem) = make_link(link, self.replace) {
                self.opened.entries -= 1;
                self.opened.problems.push(problem);
            }
        }
        self.folders.sort_by_key(|(place, _)| place.components().count());
        for (place, meta) in self.folders.iter().rev() {
            // Without a list, folders come in any order: only now is no temporary file ours.
            let cleaned = if self.replace { clean(place) } else { Ok(()) };
            let described = File::open(place).and_then(|folder| describe(&folder, meta));
            self.opened.problems.extend(cleaned.err());
            self.opened.problems.extend(described.err().map(FileProblem::system(place)));
        }
        Ok(self.opened)
    }
}
