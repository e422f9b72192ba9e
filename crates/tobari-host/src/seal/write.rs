//! Sealing a folder, a file, a stream.

use super::ending::Ending;
use super::flow::{Flow, Job};
use super::input::{key_to_continue, sealed_content_is};
use super::listing::{clean_set, others};
use super::naming::{persist, sync, sync_name, temporary};
use super::source::{self, Content, Source, Walk, read_full};
use super::{FileProblem, Keys, MANIFEST, SET};
use crate::dispatch::Pool;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use tobari_apps::seal::{Entry, Kind, Layout, Meta, PortableGcm, Sealing, SetKey, Stanzas, process};

/// Tries at a file that changes while it is read.
const TRIES: u32 = 3;

/// What was sealed.
#[derive(Debug, Default)]
pub struct Sealed {
    /// Files, folders and links of the set.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Bytes of sources that were read so far: more than [`Sealed::bytes`] until the end.
    pub read: u64,
    /// Whether the set was there, and goes on under its key, for those it was begun for.
    pub continued: bool,
    /// Those of them that were there already, with the same content.
    pub kept: u64,
    /// Sealed files whose source is gone, which were removed.
    pub removed: u64,
    /// What was left out, and why.
    pub problems: Vec<FileProblem>,
}

/// Seals for somebody.
pub struct Writer<'a> {
    pool: &'a Pool,
    layout: Layout,
    set: SetKey,
    stanzas: Stanzas,
    rng: &'a mut dyn CryptoRng,
}

/// So many bytes of a sealed file are kept before they are written: most files are shorter, and one call writes them.
const KEPT: usize = 32 << 10;

/// A sealed file that is being written.
struct Output {
    sealing: Sealing,
    file: Outgoing,
    source: PathBuf,
    kind: Kind,
    path: Vec<u8>,
    name: String,
    bytes: u64,
}

/// A file under a temporary name, which there is when there is something to write.
struct Outgoing {
    file: Option<NamedTempFile>,
    kept: Vec<u8>,
    target: PathBuf,
    replace: bool,
    /// Whether its bytes have to be on the disk before it has its name.
    durable: bool,
}

impl Outgoing {
    fn write(&mut self, bytes: &[u8]) -> Result<(), FileProblem> {
        if self.kept.len() + bytes.len() <= KEPT {
            self.kept.extend_from_slice(bytes);
            return Ok(());
        }
        let kept = std::mem::take(&mut self.kept);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(temporary(&self.target)?),
        };
        let mut write = || file.write_all(&kept).and_then(|()| file.write_all(bytes));
        write().map_err(FileProblem::system(&self.target))
    }

    /// Writes what is left, and gives the file its name.
    fn finish(self) -> Result<(), FileProblem> {
        let mut file = self.file.map_or_else(|| temporary(&self.target), Ok)?;
        file.write_all(&self.kept).map_err(FileProblem::system(&self.target))?;
        if self.durable {
            file.as_file().sync_all().map_err(FileProblem::system(&self.target))?;
        }
        persist(file.into_temp_path(), &self.target, self.replace)
    }
}

impl Job for Output {
    type Output = Entry;

    fn path(&self) -> PathBuf {
        self.source.clone()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), FileProblem> {
        self.sealing.sealed(bytes).map_err(FileProblem::seal(&self.source))?;
        self.file.write(bytes)
    }

    fn end(self, rng: &mut dyn CryptoRng) -> Result<Ending<Entry>, FileProblem> {
        let (end, identity) = self.sealing.finish(rng).map_err(FileProblem::seal(&self.source))?;
        let (mut file, bytes) = (self.file, self.bytes);
        let entry = Entry { kind: self.kind, path: self.path, name: self.name, identity, bytes };
        Ok(Ending::Later(Box::new(move || {
            file.write(&end)?;
            file.finish()?;
            Ok(entry)
        })))
    }
}

impl<'a> Writer<'a> {
    /// Under a new key of a set, wrapped for `keys`.
    ///
    /// # Errors
    /// [`FileProblem::Seal`] if there is no key.
    pub fn new(pool: &'a Pool, keys: &Keys, layout: Layout, rng: &'a mut dyn CryptoRng) -> Result<Self, FileProblem> {
        let set = SetKey::random(rng);
        let stanzas = keys.wrap(&set, rng)?;
        Ok(Self { pool, layout, set, stanzas, rng })
    }

    fn begin(&mut self, meta: &Meta, source: &Path, target: PathBuf, replace: bool) -> Result<Output, FileProblem> {
        let name = String::new();
        let (sealing, head) =
            Sealing::begin(&self.set, &self.stanzas, self.layout, meta, self.rng).map_err(FileProblem::seal(source))?;
        let (source, path, kind) = (source.to_owned(), meta.path.clone(), meta.kind);
        let file = Outgoing { file: None, kept: head, target, replace, durable: false };
        Ok(Output { sealing, file, source, kind, path, name, bytes: 0 })
    }

    /// Seals one file, with its last name, its time, permissions and holes; as a stream what has no length before it is read, as a pipe.
    ///
    /// # Errors
    /// [`FileProblem`]; nothing has the target's name then that had not before.
    pub fn file(
        &mut self,
        place: &Path,
        target: &Path,
        replace: bool,
        progress: &mut dyn FnMut(&Sealed),
    ) -> Result<Sealed, FileProblem> {
        let Some(source) = Source::alone(place)? else {
            let mut input = File::open(place).map_err(FileProblem::system(place))?;
            return self.stream(&mut input, &Meta::new(Kind::Stream, b"", 0), target, replace, progress);
        };
        refuse_to_replace(target, replace)?;
        let (mut state, mut flow) = (Folder::new(progress), Flow::new(self.pool));
        let goal = Goal { place: target, name: "", keeps: false, replace, durable: true };
        self.source(&source, &goal, &mut flow, &mut state);
        flow.drain(self.rng);
        self.collect(&mut flow, &mut state)?;
        match state.sealed.problems.pop() {
            Some(problem) => Err(problem),
            None => sync_name(target).map(|()| state.sealed),
        }
    }

    /// Seals what a reader gives, to its end.
    ///
    /// # Errors
    /// [`FileProblem`]; nothing has the target's name then that had not before.
    pub fn stream(
        &mut self,
        input: &mut dyn Read,
        meta: &Meta,
        target: &Path,
        replace: bool,
        progress: &mut dyn FnMut(&Sealed),
    ) -> Result<Sealed, FileProblem> {
        refuse_to_replace(target, replace)?;
        let mut output = self.begin(meta, target, target.to_owned(), replace)?;
        output.file.durable = true;
        let mut flow = Flow::new(self.pool);
        let file = flow.begin(output, self.rng);
        let full = self.layout.chunk_bytes();
        let mut next = read_full(input, full).map_err(FileProblem::system(target))?;
        let (mut count, mut sealed) = (0, Sealed { entries: 1, ..Sealed::default() });
        loop {
            // The last chunk is known as such only when nothing comes after it.
            let after = if next.len() < full {
                Vec::new()
            } else {
                read_full(input, full).map_err(FileProblem::system(target))?
            };
            let last = after.is_empty();
            let Some(job) = flow.job(file) else { break };
            job.bytes += next.len() as u64;
            sealed.read += next.len() as u64;
            progress(&sealed);
            let chunk = job.sealing.chunk(next, last, self.rng).map_err(FileProblem::seal(target))?;
            flow.submit(file, chunk, self.rng);
            count += 1;
            if last {
                break;
            }
            next = after;
        }
        flow.all(file, count, self.rng);
        flow.drain(self.rng);
        match flow.take_ended().pop() {
            Some((_, entry)) => {
                sealed.bytes = entry?.bytes;
                sync_name(target)?;
                Ok(sealed)
            }
            None => Err(FileProblem::List { name: target.display().to_string(), expected: "a result, found none" }),
        }
    }

    /// Seals a folder into another, which is new, or unfinished, or to be brought up to date with `replace`.
    ///
    /// # Errors
    /// [`FileProblem`] if it cannot be done at all. What single sources were left out for is in [`Sealed::problems`].
    pub fn folder(
        &mut self,
        root: &Path,
        target: &Path,
        keys: &Keys,
        replace: bool,
        progress: &mut dyn FnMut(&Sealed),
    ) -> Result<Sealed, FileProblem> {
        let resumes = self.open_set(target, keys, replace)?;
        let mut state = Folder::new(progress);
        state.sealed.continued = resumes;
        if resumes {
            clean_set(target)?;
            state.old_list = Some(target.join(MANIFEST)).filter(|list| fs::symlink_metadata(list).is_ok());
        }
        state.manifest = Some(Manifest::begin(self, target)?);
        let mut flow = Flow::new(self.pool);
        let without = fs::metadata(target).ok().as_ref().map(source::identity);
        // What was sealed is not sealed again.
        let walk = if is_inside(root, target) { None } else { Some(Walk::new(root, without)) };
        for source in walk.into_iter().flatten() {
            match source {
                Ok(source) => self.listed_source(&source, target, resumes, &mut flow, &mut state),
                Err(problem) => state.sealed.problems.push(problem),
            }
            self.collect(&mut flow, &mut state)?;
            (state.progress)(&state.sealed);
        }
        flow.drain(self.rng);
        self.collect(&mut flow, &mut state)?;
        (state.progress)(&state.sealed);
        state.remove_others(target)?;
        // Whatever the list names is on the disk before the list is.
        let folder = sync(target)?;
        if let Some(manifest) = state.manifest.take() {
            manifest.finish(self)?;
        }
        folder.sync_all().map_err(FileProblem::system(target))?;
        Ok(state.sealed)
    }

    /// The set's mark: read if it is there, written if not. Answers whether something may be there already.
    fn open_set(&mut self, target: &Path, keys: &Keys, replace: bool) -> Result<bool, FileProblem> {
        let (mark, list) = (target.join(SET), target.join(MANIFEST));
        if fs::symlink_metadata(&mark).is_ok() {
            if !replace && fs::symlink_metadata(&list).is_ok() {
                return Err(FileProblem::Exists { name: list.display().to_string() });
            }
            (self.set, self.stanzas) = key_to_continue(&mark, keys)?;
            return Ok(true);
        }
        let empty = fs::read_dir(target).map_or(true, |mut entries| entries.next().is_none());
        if !empty {
            return Err(FileProblem::Exists { name: target.display().to_string() });
        }
        self.mark(&mark)?;
        Ok(false)
    }

    /// Writes the mark of a new set, to the disk: without it nobody could continue.
    fn mark(&mut self, target: &Path) -> Result<(), FileProblem> {
        let mut output = self.begin(&Meta::new(Kind::Set, b"", 0), target, target.to_owned(), false)?;
        output.file.durable = true;
        let chunk = output.sealing.chunk(Vec::new(), true, self.rng).map_err(FileProblem::seal(target))?;
        for sealed in process(&[&chunk], &PortableGcm) {
            output.take(&sealed.map_err(FileProblem::seal(target))?)?;
        }
        output.end(self.rng)?.now()?;
        sync_name(target)
    }

    /// One thing of a folder.
    fn listed_source(
        &mut self,
        source: &Source,
        target: &Path,
        resumes: bool,
        flow: &mut Flow<'_, Output>,
        state: &mut Folder<'_>,
    ) {
        let name = match self.set.output_name(&source.path).map_err(FileProblem::seal(&source.place)) {
            Ok(name) => name,
            Err(problem) => return flow.skip(Err(problem)),
        };
        state.names.insert(name.clone());
        let place = target.join(&name);
        let goal = Goal { place: &place, name: &name, keeps: resumes, replace: resumes, durable: false };
        self.source(source, &goal, flow, state);
    }

    fn source(&mut self, source: &Source, goal: &Goal<'_>, flow: &mut Flow<'_, Output>, state: &mut Folder<'_>) {
        for attempt in 1..=TRIES {
            match self.attempt(source, goal, flow, state) {
                Ok(true) => return,
                Ok(false) if attempt == TRIES => {
                    return flow.skip(Err(FileProblem::Changed { name: source.place.display().to_string() }));
                }
                Ok(false) => {} // again, under a new salt
                Err(problem) => return flow.skip(Err(problem)),
            }
        }
    }

    /// One try; false if the source changed meanwhile.
    fn attempt(
        &mut self,
        source: &Source,
        goal: &Goal<'_>,
        flow: &mut Flow<'_, Output>,
        state: &mut Folder<'_>,
    ) -> Result<bool, FileProblem> {
        let (content, meta) = Content::of(source)?;
        if goal.keeps
            && let Some(identity) = sealed_content_is(goal.place, &self.set, &meta, &content)
        {
            let bytes = meta.content_bytes().unwrap_or(0);
            state.sealed.kept += 1;
            state.sealed.read += bytes;
            flow.skip(Ok(Entry {
                kind: source.kind,
                path: source.path.clone(),
                name: goal.name.to_owned(),
                identity,
                bytes,
            }));
            return Ok(true);
        }
        state.retire_list()?;
        let mut output = self.begin(&meta, &source.place, goal.place.to_owned(), goal.replace)?;
        (output.name, output.file.durable) = (goal.name.to_owned(), goal.durable);
        let (all, full) = (meta.content_bytes().unwrap_or(0), self.layout.chunk_bytes() as u64);
        output.bytes = all;
        let file = flow.begin(output, self.rng);
        let mut reader = content.reader(&meta);
        let count = all.div_ceil(full).max(1);
        for number in 0..count {
            let bytes = full.min(all - (number * full).min(all)) as usize;
            let text = match reader.read(bytes) {
                Ok(text) if text.len() == bytes => text,
                Ok(_) => {
                    flow.give_up(file);
                    return Ok(false);
                }
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    flow.give_up(file);
                    return Ok(false);
                }
                Err(error) => {
                    flow.give_up(file);
                    return Err(FileProblem::system(&source.place)(error));
                }
            };
            state.sealed.read += bytes as u64;
            (state.progress)(&state.sealed);
            let Some(job) = flow.job(file) else { return Ok(true) }; // it failed, and that is written down
            match job.sealing.chunk(text, number + 1 == count, self.rng) {
                Ok(chunk) => flow.submit(file, chunk, self.rng),
                Err(error) => {
                    flow.give_up(file);
                    return Err(FileProblem::seal(&source.place)(error));
                }
            }
        }
        if !content.is_still_the_same() {
            flow.give_up(file);
            return Ok(false);
        }
        flow.all(file, count as u32, self.rng);
        Ok(true)
    }

    /// Takes what has ended into the list, in the order of the walk.
    fn collect(&mut self, flow: &mut Flow<'_, Output>, state: &mut Folder<'_>) -> Result<(), FileProblem> {
        for (number, ended) in flow.take_ended() {
            state.waiting.insert(number, ended);
        }
        loop {
            // A number that was given up is followed by another for the same source.
            while state.next < flow.numbers()
                && !state.waiting.contains_key(&state.next)
                && !flow.is_running(state.next)
            {
                state.next += 1;
            }
            let Some(ended) = state.waiting.remove(&state.next) else { return Ok(()) };
            state.next += 1;
            match ended {
                Ok(entry) => {
                    state.sealed.entries += 1;
                    state.sealed.bytes += entry.bytes;
                    if let Some(manifest) = &mut state.manifest {
                        manifest.add(&entry, self)?;
                    }
                }
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => state.sealed.problems.push(problem),
            }
        }
    }
}

/// Where a source goes.
struct Goal<'a> {
    place: &'a Path,
    /// What the list calls it.
    name: &'a str,
    /// Whether what is there stays if it is right.
    keeps: bool,
    replace: bool,
    durable: bool,
}

/// A folder on its way.
struct Folder<'a> {
    sealed: Sealed,
    names: HashSet<String>,
    manifest: Option<Manifest>,
    /// The list of a finished set that is brought up to date, as long as it holds.
    old_list: Option<PathBuf>,
    waiting: BTreeMap<u32, Result<Entry, FileProblem>>,
    next: u32,
    progress: &'a mut dyn FnMut(&Sealed),
}

impl<'a> Folder<'a> {
    fn new(progress: &'a mut dyn FnMut(&Sealed)) -> Self {
        let (sealed, names, waiting) = Default::default();
        Self { sealed, names, manifest: None, old_list: None, waiting, next: 0, progress }
    }

    /// The first change makes an unfinished set of a finished one: a list that stayed would call whatever is new wrong, if this run were killed.
    fn retire_list(&mut self) -> Result<(), FileProblem> {
        if let Some(list) = &self.old_list {
            fs::remove_file(list).map_err(FileProblem::system(list))?;
            sync_name(list)?;
        }
        self.old_list = None;
        Ok(())
    }

    /// Removes sealed files whose source is gone. Where something could not be read nobody knows what is gone, and all stay.
    fn remove_others(&mut self, target: &Path) -> Result<(), FileProblem> {
        let is_known = |problem: &FileProblem| matches!(problem, FileProblem::Kind { .. });
        if !self.sealed.problems.iter().all(is_known) {
            return Ok(());
        }
        for file in others(target, &self.names)? {
            self.retire_list()?;
            fs::remove_file(&file).map_err(FileProblem::system(&file))?;
            self.sealed.removed += 1;
        }
        Ok(())
    }
}

/// The list on its way.
struct Manifest {
    output: Output,
    text: Vec<u8>,
}

impl Manifest {
    fn begin(writer: &mut Writer<'_>, target: &Path) -> Result<Self, FileProblem> {
        let place = target.join(MANIFEST);
        let mut output = writer.begin(&Meta::new(Kind::Manifest, b"", 0), &place.clone(), place, true)?;
        output.file.durable = true;
        Ok(Self { output, text: Vec::new() })
    }

    fn add(&mut self, entry: &Entry, writer: &mut Writer<'_>) -> Result<(), FileProblem> {
        entry.encode(&mut self.text).map_err(FileProblem::seal(&self.output.file.target))?;
        // One byte at least stays for the last chunk.
        while self.text.len() > writer.layout.chunk_bytes() {
            let rest = self.text.split_off(writer.layout.chunk_bytes());
            let text = std::mem::replace(&mut self.text, rest);
            self.seal(text, false, writer)?;
        }
        Ok(())
    }

    fn seal(&mut self, text: Vec<u8>, last: bool, writer: &mut Writer<'_>) -> Result<(), FileProblem> {
        let place = self.output.file.target.clone();
        let chunk = self.output.sealing.chunk(text, last, writer.rng).map_err(FileProblem::seal(&place))?;
        for sealed in process(&[&chunk], &PortableGcm) {
            self.output.take(&sealed.map_err(FileProblem::seal(&place))?)?;
        }
        Ok(())
    }

    fn finish(mut self, writer: &mut Writer<'_>) -> Result<(), FileProblem> {
        let text = std::mem::take(&mut self.text);
        self.seal(text, true, writer)?;
        self.output.end(writer.rng)?.now().map(|_| ())
    }
}

fn refuse_to_replace(target: &Path, replace: bool) -> Result<(), FileProblem> {
    let refused = !replace && fs::symlink_metadata(target).is_ok();
    if refused { Err(FileProblem::Exists { name: target.display().to_string() }) } else { Ok(()) }
}

/// Whether a folder is (in) the one that is written to.
fn is_inside(place: &Path, target: &Path) -> bool {
    let whole = |path: &Path| fs::canonicalize(path).ok();
    match (place.parent().and_then(whole), place.file_name(), whole(target)) {
        (Some(parent), Some(name), Some(target)) => parent.join(name).starts_with(target),
        _ => false,
    }
}
