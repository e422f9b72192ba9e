//! Opening, verifying and listing.

use super::below::{Below, Need, Onto};
use super::flow::Flow;
use super::input::Input;
use super::landing::{Landed, Output, Sink, Target};
use super::listing::{added, sealed_files};
use super::naming::{Folder, clean_alone, folder_of, make_link, temporary};
use super::opening::{Names, Run};
use super::salvage::{Beside, pieces};
use super::{FileProblem, Keys, MANIFEST};
use crate::dispatch::Pool;
use rand_core::CryptoRng;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tobari_seal::{Entry, Identity, Kind, ListOrder, MAX_ENTRY_BYTES, Meta, SealError, SetKey, Stanzas};

/// The result of opening or verifying.
#[derive(Debug, Default)]
pub struct Opened {
    /// Intact files, folders and links.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Bytes of sealed content read so far.
    pub read: u64,
    /// Damaged files, and files that could not be written.
    pub problems: Vec<FileProblem>,
    /// Paths of stale entries: their source could not be read at the last update of the set, so
    /// their sealed file is from an earlier run.
    pub stale: Vec<Vec<u8>>,
}

/// One entry of a set, from [`Reader::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetEntry {
    /// The kind of its source.
    pub kind: Kind,
    /// The path of its source.
    pub path: Vec<u8>,
    /// Its sealed file, below the set's folder.
    pub name: String,
    /// Bytes of its content.
    pub bytes: u64,
    /// The identity of the sealed file.
    pub identity: Identity,
    /// Whether it is older than the set: its source could not be read at the last update.
    pub stale: bool,
}

/// Opens, verifies and lists sealed files and sets.
pub struct Reader<'a> {
    pool: &'a Pool,
    keys: &'a Keys,
}

impl<'a> Reader<'a> {
    /// A reader with these keys.
    pub fn new(pool: &'a Pool, keys: &'a Keys) -> Self {
        Self { pool, keys }
    }

    fn input(&self, file: Box<dyn Read>, place: &Path) -> Result<(Input, Stanzas, SetKey), FileProblem> {
        Input::open(file, place, |head| self.keys.unwrap(head.stanzas()))
    }

    /// A sealed file of a set. A link in its place is not followed.
    fn file(&self, set: &Below, name: &[u8]) -> Result<Input, FileProblem> {
        let place = &set.place(name);
        let file = set.file(name).map_err(FileProblem::system(place))?;
        self.input(Box::new(file), place).map(|(input, ..)| input)
    }

    /// The record about the source of one sealed file. Reads and verifies only the file's head.
    ///
    /// # Errors
    /// [`FileProblem`].
    pub fn look(&self, file: Box<dyn Read>, place: &Path) -> Result<Meta, FileProblem> {
        self.input(file, place).map(|(input, ..)| input.meta().clone())
    }

    /// Opens one sealed file of any kind except a folder.
    ///
    /// # Errors
    /// [`FileProblem`]. A stream may have received a verified beginning.
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

    /// Opens one file or link of a set, as listed by [`Reader::list`]. Another file in its place is
    /// rejected.
    ///
    /// # Errors
    /// As [`Reader::one`].
    pub fn listed(
        &self,
        set: &Path,
        found: &SetEntry,
        target: Target<'_>,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let set = folder(set)?;
        let place = set.place(found.name.as_bytes());
        let input = self.entry_input(&set, &found.name, found.kind, &found.path)?;
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
        let (sink, to) = match target {
            Target::Nowhere => (Sink::Nowhere, None),
            Target::Stream(out) => (Sink::Stream(out), None),
            Target::File(path, replace) => {
                let (sink, below) = sink_of(input.meta(), place, path, replace)?;
                (sink, Some((below, if replace { Onto::Anything } else { Onto::Nothing })))
            }
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
        match (landed, &to) {
            (Landed::Whole(whole), _) => whole.made.name(&whole.path, whole.onto)?,
            (Landed::Link(link), Some((below, onto))) => make_link(below, &link, Need::Found, *onto)?,
            _ => {}
        }
        if let Some((below, _)) = to {
            below.sync_names().map_err(FileProblem::system(&below.place(b"")))?;
        }
        Ok(Opened { bytes, ..opened })
    }

    /// Reads the list of a set. `take` gets each entry once its chunk is verified; the whole list
    /// is verified only at the end.
    fn entries(&self, set: &Below, take: impl FnMut(Entry) -> Result<(), FileProblem>) -> Result<(), FileProblem> {
        read_list(self.file(set, MANIFEST.as_bytes())?, &set.place(MANIFEST.as_bytes()), take)
    }

    /// Verifies a whole list, before anything is done for it. Returns the first names of its paths.
    fn check_list(&self, set: &Below) -> Result<Names, FileProblem> {
        let mut names = Names::default();
        self.entries(set, |entry| {
            names.add(&entry.path);
            Ok(())
        })?;
        Ok(names)
    }

    /// Calls `take` with each entry of a set's list.
    ///
    /// # Errors
    /// [`FileProblem`] if the list does not decrypt or is invalid; `take` was not called then.
    pub fn list(&self, set: &Path, mut take: impl FnMut(SetEntry)) -> Result<(), FileProblem> {
        let set = folder(set)?;
        self.check_list(&set)?;
        self.entries(&set, |Entry { kind, path, name, bytes, identity, stale }| {
            take(SetEntry { kind, path, name, bytes, identity, stale });
            Ok(())
        })
    }

    /// Opens a whole set into a folder, or only verifies it without a target.
    ///
    /// Nothing outside that folder is read or changed, whatever the set and the folder contain: no
    /// link in the folder is followed. A missing, altered or replaced file adds a problem; all
    /// other files are written. Without `replace` the folder may already hold files that an earlier
    /// run opened from this set; they stay.
    ///
    /// # Errors
    /// [`FileProblem`] if the list does not decrypt or is invalid, or if, without `replace`, the
    /// folder holds names that the set does not have. Nothing was written then.
    pub fn set(
        &self,
        set: &Path,
        target: Option<&Path>,
        replace: bool,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let set = folder(set)?;
        let listed = self.check_list(&set)?;
        let (mut run, mut names) = (Run::new(self.pool, target, replace, || Ok(listed))?, HashSet::new());
        let walked = self.entries(&set, |entry| {
            names.insert(entry.name.clone());
            if entry.stale {
                run.opened.stale.push(entry.path.clone());
            }
            if let Err(problem) = self.entry(&set, &entry, &mut run, rng, progress) {
                run.flow.skip(Err(problem));
            }
            run.collect()?;
            progress(&run.opened);
            Ok(())
        });
        if let Err(problem) = walked {
            // Whole files still get their names. The caller gets the first problem.
            let _ = run.name_all();
            return Err(problem);
        }
        let mut opened = run.finish(rng)?;
        added(&set, &names, &mut opened.problems)?;
        progress(&opened);
        Ok(opened)
    }

    /// Recovers every readable file of a set without its list: after a killed run, or a lost list.
    /// Missing, added and outdated files are not detected. Of a damaged file the intact chunks are
    /// written, and the missing ranges are listed ([`FileProblem::Damaged`]).
    ///
    /// # Errors
    /// As [`Reader::set`], without those of the list.
    pub fn salvage(
        &self,
        set: &Path,
        target: &Path,
        replace: bool,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Opened, FileProblem> {
        let set = folder(set)?;
        let files = sealed_files(&set)?;
        let sealed = || {
            let mut names = Names::default();
            for input in files.iter().filter_map(|name| self.file(&set, name).ok()) {
                names.add(&input.meta().path);
            }
            Ok(names)
        };
        let mut run = Run::new(self.pool, Some(target), replace, sealed)?;
        for name in &files {
            let place = set.place(name);
            let sent = self.file(&set, name).and_then(|input| run.place(input, &place, None, rng, progress));
            sent.unwrap_or_else(|problem| run.flow.skip(Err(problem)));
            run.collect()?;
        }
        run.settle(rng)?;
        let broken: Vec<PathBuf> = run.opened.problems.iter().filter_map(broken).collect();
        for name in files.iter().filter(|name| broken.contains(&set.place(name))) {
            // A file with a damaged head gives nothing; its problem is already in the list.
            let Ok(input) = self.file(&set, name) else { continue };
            match run.pieces(input, &set.place(name), progress) {
                Ok(damaged) => run.opened.problems.extend(damaged),
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => run.opened.problems.push(problem),
            }
        }
        run.finish(rng)
    }

    /// Writes the intact chunks of one damaged sealed file to a file named `target` plus
    /// [`DAMAGED`](super::DAMAGED), and returns the missing ranges. `None` if no chunk is intact,
    /// or the source was neither a file nor a stream.
    ///
    /// # Errors
    /// [`FileProblem`] if the head does not decrypt, or nothing can be written.
    pub fn pieces(
        &self,
        place: &Path,
        target: &Path,
        replace: bool,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Option<FileProblem>, FileProblem> {
        let (input, ..) = self.input(Box::new(File::open(place).map_err(FileProblem::system(place))?), place)?;
        let mut opened = Opened::default();
        let mut taken = |bytes| {
            opened.read += bytes;
            progress(&opened);
        };
        let (below, path) = folder_of(target)?;
        let onto = if replace { Onto::Anything } else { Onto::Nothing };
        let to = Beside { below: &below, path: &path, need: Need::Found, whose: Folder::Shared, onto };
        pieces(input, place, &to, &mut taken)
    }

    /// Opens one entry of a list.
    fn entry(
        &self,
        set: &Below,
        entry: &Entry,
        run: &mut Run<'_>,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<(), FileProblem> {
        let input = self.entry_input(set, &entry.name, entry.kind, &entry.path)?;
        run.place(input, &set.place(entry.name.as_bytes()), Some(entry.identity), rng, progress)
    }

    /// The sealed file of an entry, which must have this kind and path.
    fn entry_input(&self, set: &Below, name: &str, kind: Kind, path: &[u8]) -> Result<Input, FileProblem> {
        let input = self.file(set, name.as_bytes())?;
        if input.meta().path != path || input.meta().kind != kind {
            let expected = "the path that the list has, found another";
            return Err(FileProblem::List { name: set.place(name.as_bytes()).display().to_string(), expected });
        }
        Ok(input)
    }
}

/// Reads the entries of a list, in their order.
pub(super) fn read_list(
    input: Input,
    place: &Path,
    mut take: impl FnMut(Entry) -> Result<(), FileProblem>,
) -> Result<(), FileProblem> {
    if input.meta().kind != Kind::Manifest {
        let expected = "a list, found another file";
        return Err(FileProblem::List { name: place.display().to_string(), expected });
    }
    let (mut text, mut order) = (Vec::new(), ListOrder::default());
    input.each(place, |more| {
        text.extend(more);
        let mut at = 0;
        while let Some((entry, length)) = Entry::decode(&text[at..]).map_err(FileProblem::seal(place))? {
            at += length;
            order.next(entry.kind, &entry.path).map_err(FileProblem::seal(place))?;
            take(entry)?;
        }
        text.drain(..at);
        if text.len() > MAX_ENTRY_BYTES {
            return Err(FileProblem::seal(place)(SealError::Malformed("an entry of the list")));
        }
        Ok(())
    })?;
    let whole = text.is_empty();
    if whole {
        Ok(())
    } else {
        Err(FileProblem::seal(place)(SealError::Malformed("a whole entry at the end of the list")))
    }
}

/// The folder of a set.
fn folder(set: &Path) -> Result<Below, FileProblem> {
    Below::open(set).map_err(FileProblem::system(set))
}

/// The sealed file that a problem is about, if it is damaged.
fn broken(problem: &FileProblem) -> Option<PathBuf> {
    match problem {
        FileProblem::Seal { name, .. } => Some(PathBuf::from(name)),
        _ => None,
    }
}

/// The destination of a file that is opened alone, and its folder.
fn sink_of<'o>(meta: &Meta, place: &Path, target: &Path, replace: bool) -> Result<(Sink<'o>, Arc<Below>), FileProblem> {
    if meta.kind == Kind::Directory {
        let expected = "a sealed file or link, found a sealed folder";
        return Err(FileProblem::List { name: place.display().to_string(), expected });
    }
    if !replace && fs::symlink_metadata(target).is_ok() {
        return Err(FileProblem::Exists { name: target.display().to_string() });
    }
    let (below, path) = folder_of(target)?;
    clean_alone(&below);
    let sink = match meta.kind {
        Kind::Symlink => Sink::Link(Vec::new(), path),
        _ => {
            let made = temporary(&below, &path, Need::Found, Folder::Shared);
            let made = made.map_err(FileProblem::system(target))?;
            let onto = if replace { Onto::Anything } else { Onto::Nothing };
            Sink::File { made, place: target.to_owned(), path, onto, durable: true }
        }
    };
    Ok((sink, below))
}

/// Hands all chunks of a file to the engines, and calls `taken` with the length of each.
pub(super) fn send<'o>(
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
                    return; // it failed, and its problem is noted
                }
            }
            Ok(None) => break,
            Err(problem) => {
                // First finish the chunks already sent: a stream gets its verified beginning.
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
