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
    /// Paths of entries that are as they were sealed earlier: their source could not be read when
    /// the set was brought up to date last.
    pub stale: Vec<Vec<u8>>,
}

/// One thing in a set, as [`Reader::list`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetEntry {
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
    /// Whether it is older than the set: its source could not be read when the set was brought up
    /// to date last.
    pub stale: bool,
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

    /// A sealed file of a set; never what a link in its place leads to.
    fn file(&self, set: &Below, name: &[u8]) -> Result<Input, FileProblem> {
        let place = &set.place(name);
        let file = set.file(name).map_err(FileProblem::system(place))?;
        self.input(Box::new(file), place).map(|(input, ..)| input)
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

    /// Opens one file or link of a set, which [`Reader::list`] told of: nothing else will do in its
    /// place.
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

    /// Goes through the list of a set: `take` gets each entry once it is verified; the whole list
    /// is judged at the end.
    fn entries(&self, set: &Below, take: impl FnMut(Entry) -> Result<(), FileProblem>) -> Result<(), FileProblem> {
        read_list(self.file(set, MANIFEST.as_bytes())?, &set.place(MANIFEST.as_bytes()), take)
    }

    /// Reads a list to its end, so that nothing is done for one that does not hold: the first names
    /// of its paths.
    fn check_list(&self, set: &Below) -> Result<Names, FileProblem> {
        let mut names = Names::default();
        self.entries(set, |entry| {
            names.add(&entry.path);
            Ok(())
        })?;
        Ok(names)
    }

    /// What is in a set, by its list.
    ///
    /// # Errors
    /// [`FileProblem`] if the list does not open or does not hold; nothing was told then.
    pub fn list(&self, set: &Path, mut take: impl FnMut(SetEntry)) -> Result<(), FileProblem> {
        let set = folder(set)?;
        self.check_list(&set)?;
        self.entries(&set, |Entry { kind, path, name, bytes, identity, stale }| {
            take(SetEntry { kind, path, name, bytes, identity, stale });
            Ok(())
        })
    }

    /// Opens a whole set into a folder, or only verifies it where there is none.
    ///
    /// Nothing outside that folder is read, written or described, whatever the set holds and
    /// whatever lies in the folder: no link in it is followed. A file that is missing, altered, or
    /// not the one that the list names is a problem of its own; all others are written. Without
    /// `replace` the folder may hold what an earlier run made of this set, which stays.
    ///
    /// # Errors
    /// [`FileProblem`] if the list does not open or does not hold, or without `replace` the folder
    /// has something in it that the set does not; nothing was written then.
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
            // What is whole gets its name, whatever ended the rest; and that is what has to be
            // told.
            let _ = run.name_all();
            return Err(problem);
        }
        let mut opened = run.finish(rng)?;
        added(&set, &names, &mut opened.problems)?;
        progress(&opened);
        Ok(opened)
    }

    /// Opens whatever opens in a set's folder, without its list: what a killed run left, or a set
    /// whose list is lost. What is missing, was added, or is older is not seen. Of a file that is
    /// damaged the chunks that are right are written, and what is missing is listed
    /// ([`FileProblem::Damaged`]).
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
            // one whose beginning is not right tells nothing, and was named
            let Ok(input) = self.file(&set, name) else { continue };
            match run.pieces(input, &set.place(name), progress) {
                Ok(damaged) => run.opened.problems.extend(damaged),
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => run.opened.problems.push(problem),
            }
        }
        run.finish(rng)
    }

    /// Opens what can be opened of one sealed file that does not open as a whole, to a file of
    /// `target`'s name with [`DAMAGED`](super::DAMAGED) added: what is missing in it. None if no
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

    /// One entry of a list.
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

    /// The sealed file of an entry: of this kind and path, or none.
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

/// Where the content of one file goes that is opened alone, and the folder that it goes to.
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

/// Hands all chunks of a file to the engines; `taken` is told the bytes of each.
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
