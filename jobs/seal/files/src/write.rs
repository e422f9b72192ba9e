//! Sealing a folder, a file, a stream.

use super::below::{Below, Need, Onto, is_temporary};
use super::ending::Ending;
use super::flow::{Flow, Job};
use super::input::{key_to_continue, sealed_content_is};
use super::listing::clean_set;
use super::naming::{Folder, PartFile, clean_alone, folder_of, temporary};
use super::source::{self, Content, Since, Source, Unread, Walk, read_full};
use super::update::Update;
use super::{FileProblem, Keys, MANIFEST, SET};
use crate::dispatch::Pool;
use rand_core::CryptoRng;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tobari_seal::{Entry, Kind, Layout, ListOrder, Meta, PortableGcm, Sealing, SetKey, Stanzas, process};

/// Attempts at a file that changes while it is read.
const TRIES: u32 = 3;

/// The result of sealing.
#[derive(Debug, Default)]
pub struct Sealed {
    /// Files, folders and links of the set.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Bytes of sources read so far: more than [`Sealed::bytes`] until the end.
    pub read: u64,
    /// Whether an existing set was continued, under its key and for its first recipients.
    pub continued: bool,
    /// Entries whose sealed file existed already, with the same content.
    pub kept: u64,
    /// Sealed files removed because their source is gone.
    pub removed: u64,
    /// Stale entries, as paths below the folder: their source cannot be read now, so their sealed
    /// file is from an earlier run.
    pub stale: Vec<Vec<u8>>,
    /// Files that grew while they were read, and the number of bytes sealed: their length when they
    /// were opened.
    pub grown: Vec<(PathBuf, u64)>,
    /// Sources left out, and why.
    pub problems: Vec<FileProblem>,
}

/// Seals files, streams and folders under one set's key.
pub struct Writer<'a> {
    pool: &'a Pool,
    layout: Layout,
    set: SetKey,
    stanzas: Stanzas,
    rng: &'a mut dyn CryptoRng,
}

/// Bytes of a sealed file that are buffered before the first write. Most files are shorter, so one
/// call writes them.
const KEPT: usize = 32 << 10;

/// The destination of a sealed file that belongs to no set.
pub enum Destination<'a> {
    /// A file, written whole or not at all. The second field says whether an existing file is
    /// replaced.
    File(&'a Path, bool),
    /// A writer, which gets each chunk as it is sealed. After an error the bytes written do not
    /// decrypt as a whole file.
    Stream(&'a mut dyn Write),
}

/// A sealed file that is being written.
pub(super) struct Output<'o> {
    sealing: Sealing,
    out: Outgoing<'o>,
    source: PathBuf,
    kind: Kind,
    path: Vec<u8>,
    name: String,
    bytes: u64,
}

enum Outgoing<'o> {
    File(OutFile),
    Stream(&'o mut dyn Write),
}

/// A file under a temporary name, made at the first write.
struct OutFile {
    made: Option<PartFile>,
    kept: Vec<u8>,
    to: Goal,
}

/// The destination of a sealed file on the disk.
#[derive(Clone)]
pub(super) struct Goal {
    below: Arc<Below>,
    path: Vec<u8>,
    onto: Onto,
    whose: Folder,
    /// Whether its bytes must be on the disk before it gets its name.
    durable: bool,
}

impl Goal {
    fn place(&self) -> PathBuf {
        self.below.place(&self.path)
    }

    /// A file of a set.
    fn in_set(set: &Arc<Below>, name: &str, onto: Onto, durable: bool) -> Self {
        Self { below: set.clone(), path: name.as_bytes().to_vec(), onto, whose: Folder::Ours, durable }
    }

    /// A file that belongs to no set. Removes temporary files of killed runs from its folder.
    fn alone(target: &Path, replace: bool) -> Result<Self, FileProblem> {
        if !replace && fs::symlink_metadata(target).is_ok() {
            return Err(FileProblem::Exists { name: target.display().to_string() });
        }
        let (below, path) = folder_of(target)?;
        clean_alone(&below);
        let onto = if replace { Onto::Anything } else { Onto::Nothing };
        Ok(Self { below, path, onto, whose: Folder::Shared, durable: true })
    }

    fn temporary(&self) -> Result<PartFile, FileProblem> {
        temporary(&self.below, &self.path, Need::Made, self.whose).map_err(FileProblem::system(&self.place()))
    }
}

impl OutFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), FileProblem> {
        if self.kept.len() + bytes.len() <= KEPT {
            self.kept.extend_from_slice(bytes);
            return Ok(());
        }
        let kept = std::mem::take(&mut self.kept);
        let made = match &mut self.made {
            Some(made) => made,
            none => none.insert(self.to.temporary()?),
        };
        let mut write = || made.file.write_all(&kept).and_then(|()| made.file.write_all(bytes));
        write().map_err(FileProblem::system(&self.to.place()))
    }

    /// Writes the remaining bytes, and gives the file its name.
    fn finish(self) -> Result<(), FileProblem> {
        let mut made = self.made.map_or_else(|| self.to.temporary(), Ok)?;
        let failed = |error| FileProblem::system(&self.to.place())(error);
        made.file.write_all(&self.kept).map_err(failed)?;
        if self.to.durable {
            made.file.sync_all().map_err(failed)?;
        }
        made.part.name(&self.to.path, self.to.onto)
    }
}

impl Outgoing<'_> {
    fn write(&mut self, bytes: &[u8], source: &Path) -> Result<(), FileProblem> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stream(out) => out.write_all(bytes).map_err(FileProblem::system(source)),
        }
    }
}

impl Job for Output<'_> {
    type Output = Entry;

    fn path(&self) -> PathBuf {
        self.source.clone()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), FileProblem> {
        self.sealing.sealed(bytes).map_err(FileProblem::seal(&self.source))?;
        self.out.write(bytes, &self.source)
    }

    fn end(self, rng: &mut dyn CryptoRng) -> Result<Ending<Entry>, FileProblem> {
        let (end, identity) = self.sealing.finish(rng).map_err(FileProblem::seal(&self.source))?;
        let (kind, path, name, bytes) = (self.kind, self.path, self.name, self.bytes);
        let entry = Entry { kind, path, name, identity, bytes, stale: false };
        match self.out {
            Outgoing::File(mut file) => Ok(Ending::Later(Box::new(move || {
                file.write(&end)?;
                file.finish()?;
                Ok(entry)
            }))),
            Outgoing::Stream(out) => {
                let written = out.write_all(&end).and_then(|()| out.flush());
                written.map_err(FileProblem::system(&self.source))?;
                Ok(Ending::Now(entry))
            }
        }
    }
}

impl<'a> Writer<'a> {
    /// A writer with a new set's key, wrapped for `keys`.
    ///
    /// # Errors
    /// [`FileProblem::Seal`] if there is no key.
    pub fn new(pool: &'a Pool, keys: &Keys, layout: Layout, rng: &'a mut dyn CryptoRng) -> Result<Self, FileProblem> {
        let set = SetKey::random(rng);
        let stanzas = keys.wrap(&set, rng)?;
        Ok(Self { pool, layout, set, stanzas, rng })
    }

    fn begin<'o>(&mut self, meta: &Meta, source: &Path, to: To<'o>) -> Result<Output<'o>, FileProblem> {
        let (sealing, head) =
            Sealing::begin(&self.set, &self.stanzas, self.layout, meta, self.rng).map_err(FileProblem::seal(source))?;
        let (source, path, kind) = (source.to_owned(), meta.path.clone(), meta.kind);
        let mut out = match to {
            To::File(to) => Outgoing::File(OutFile { made: None, kept: Vec::new(), to }),
            To::Stream(out) => Outgoing::Stream(out),
        };
        out.write(&head, &source)?;
        Ok(Output { sealing, out, source, kind, path, name: String::new(), bytes: 0 })
    }

    /// Seals one file, with its last name, its time, permissions and holes. A source without a
    /// known length, such as a pipe, is sealed as a stream.
    ///
    /// # Errors
    /// [`FileProblem`]. A file target is unchanged then.
    pub fn file(
        &mut self,
        place: &Path,
        to: Destination<'_>,
        progress: &mut dyn FnMut(&Sealed),
    ) -> Result<Sealed, FileProblem> {
        let Some(source) = Source::alone(place)? else {
            let mut input = File::open(place).map_err(FileProblem::system(place))?;
            return self.stream(&mut input, &Meta::new(Kind::Stream, b"", 0), to, progress);
        };
        let (target, replace) = match to {
            Destination::File(target, replace) => (target, replace),
            // Bytes sent through a pipe cannot be taken back, so there is only one attempt.
            Destination::Stream(_) => {
                let (content, meta) = Content::of(&source)?;
                let mut sealed = self.stream(&mut content.reader(&meta), &meta, to, progress)?;
                match content.since() {
                    _ if Some(sealed.bytes) != meta.content_bytes() => return Err(changed(&source)),
                    Since::Changed => return Err(changed(&source)),
                    Since::Grown => sealed.grown.push((place.to_owned(), meta.bytes)),
                    Since::Same => {}
                }
                return Ok(sealed);
            }
        };
        let goal = Goal::alone(target, replace)?;
        let (mut update, mut flow) = (Update::new(None, progress), Flow::new(self.pool));
        self.source(&source, &goal, &mut flow, &mut update);
        flow.drain(self.rng);
        self.collect(&mut flow, &mut update)?;
        match update.sealed.problems.pop() {
            Some(problem) => Err(problem),
            None => {
                goal.below.sync_names().map_err(FileProblem::system(target))?;
                Ok(update.sealed)
            }
        }
    }

    /// Seals all bytes of a reader.
    ///
    /// # Errors
    /// [`FileProblem`]. A file target is unchanged then.
    pub fn stream(
        &mut self,
        input: &mut dyn Read,
        meta: &Meta,
        to: Destination<'_>,
        progress: &mut dyn FnMut(&Sealed),
    ) -> Result<Sealed, FileProblem> {
        let (to, target, named) = match to {
            Destination::Stream(out) => (To::Stream(out), PathBuf::from("standard output"), None),
            Destination::File(target, replace) => {
                let goal = Goal::alone(target, replace)?;
                (To::File(goal.clone()), target.to_owned(), Some(goal.below))
            }
        };
        let (target, output) = (&target, self.begin(meta, &target, to)?);
        let mut flow = Flow::new(self.pool);
        let file = flow.begin(output, self.rng);
        let full = self.layout.chunk_bytes();
        let mut next = read_full(input, full).map_err(FileProblem::system(target))?;
        let (mut count, mut sealed) = (0, Sealed { entries: 1, ..Sealed::default() });
        loop {
            // A chunk is the last one only if no byte follows it.
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
                if let Some(folder) = named {
                    folder.sync_names().map_err(FileProblem::system(target))?;
                }
                Ok(sealed)
            }
            None => Err(FileProblem::List { name: target.display().to_string(), expected: "a result, found none" }),
        }
    }

    /// Seals a folder into a new or unfinished set, or updates a finished set with `replace`. If
    /// `root` is a link to a folder, that folder is sealed.
    ///
    /// # Errors
    /// [`FileProblem`] if the whole run fails. Problems of single sources are in
    /// [`Sealed::problems`].
    pub fn folder(
        &mut self,
        root: &Path,
        target: &Path,
        keys: &Keys,
        replace: bool,
        progress: &mut dyn FnMut(&Sealed),
    ) -> Result<Sealed, FileProblem> {
        let source = Arc::new(Below::open(root).map_err(FileProblem::system(root))?);
        let set = Arc::new(Below::made(target).map_err(FileProblem::system(target))?);
        if !set.lock() {
            return Err(FileProblem::Busy { name: target.display().to_string() });
        }
        let resumes = self.open_set(&set, keys, replace)?;
        let mut update = Update::new(resumes.then(|| (set.clone(), self.set.clone())), progress);
        if resumes {
            clean_set(&set)?;
            update.take_list()?;
        }
        update.manifest = Some(Manifest::begin(self, &set)?);
        let mut flow = Flow::new(self.pool);
        let without = fs::metadata(target).ok().as_ref().map(source::identity);
        // Sealed files are never sealed again.
        let walk = if is_inside(root, target) { None } else { Some(Walk::new(source, without)) };
        for source in walk.into_iter().flatten() {
            match source {
                Ok(source) => self.listed_source(&source, &set, resumes, &mut flow, &mut update),
                Err(Unread { path, problem }) => {
                    // A pipe or a socket shows that the file is gone.
                    let is_known = matches!(problem, FileProblem::Kind { .. });
                    flow.skip(Err(problem));
                    if !is_known {
                        update.unread(flow.last_number(), path);
                    }
                }
            }
            self.collect(&mut flow, &mut update)?;
            (update.progress)(&update.sealed);
        }
        flow.drain(self.rng);
        self.collect(&mut flow, &mut update)?;
        (update.progress)(&update.sealed);
        update.remove_others()?;
        // All files of the list reach the disk before the list does.
        set.sync().map_err(FileProblem::system(target))?;
        if let Some(manifest) = update.manifest.take() {
            manifest.finish(self)?;
        }
        set.sync_names().map_err(FileProblem::system(target))?;
        Ok(update.sealed)
    }

    /// Reads the set's mark, or writes it if there is none. Returns whether the set may already
    /// hold sealed files.
    fn open_set(&mut self, set: &Arc<Below>, keys: &Keys, replace: bool) -> Result<bool, FileProblem> {
        let names = set.names(b"").map_err(FileProblem::system(&set.place(b"")))?;
        let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted);
        if has(SET) {
            if !replace && has(MANIFEST) {
                return Err(FileProblem::Finished { name: set.place(b"").display().to_string() });
            }
            (self.set, self.stanzas) = key_to_continue(set, keys)?;
            return Ok(true);
        }
        // A run killed before it wrote the mark leaves only temporary files.
        if !names.iter().all(|(name, _)| is_temporary(name)) {
            return Err(FileProblem::NotASet { name: set.place(b"").display().to_string() });
        }
        clean_set(set)?;
        self.mark(set)?;
        Ok(false)
    }

    /// Writes the mark of a new set to the disk: no run could continue the set without it.
    fn mark(&mut self, set: &Arc<Below>) -> Result<(), FileProblem> {
        let target = &set.place(SET.as_bytes());
        let goal = Goal::in_set(set, SET, Onto::Nothing, true);
        let mut output = self.begin(&Meta::new(Kind::Set, b"", 0), target, To::File(goal))?;
        let chunk = output.sealing.chunk(Vec::new(), true, self.rng).map_err(FileProblem::seal(target))?;
        for sealed in process(&[&chunk], &PortableGcm) {
            output.take(&sealed.map_err(FileProblem::seal(target))?)?;
        }
        output.end(self.rng)?.now()?;
        set.sync_names().map_err(FileProblem::system(target))
    }

    /// Seals one source of a folder.
    fn listed_source(
        &mut self,
        source: &Source,
        set: &Arc<Below>,
        resumes: bool,
        flow: &mut Flow<'_, Output<'static>>,
        update: &mut Update<'_>,
    ) {
        let name = match self.set.output_name(&source.path).map_err(FileProblem::seal(&source.place)) {
            Ok(name) => name,
            Err(problem) => return flow.skip(Err(problem)),
        };
        update.names.insert(name.clone());
        let goal = Goal::in_set(set, &name, if resumes { Onto::Anything } else { Onto::Nothing }, false);
        self.source(source, &goal, flow, update);
    }

    fn source(&mut self, source: &Source, goal: &Goal, flow: &mut Flow<'_, Output<'static>>, update: &mut Update<'_>) {
        for attempt in 1..=TRIES {
            match self.attempt(source, goal, flow, update) {
                Ok(true) => return,
                Ok(false) if attempt == TRIES => {
                    flow.skip(Err(changed(source)));
                    update.begun(flow.last_number(), &goal.path);
                }
                Ok(false) => {} // again, under a new salt
                Err(problem) => {
                    flow.skip(Err(problem));
                    return update.begun(flow.last_number(), &goal.path);
                }
            }
        }
    }

    /// One attempt; false if the source changed meanwhile.
    fn attempt(
        &mut self,
        source: &Source,
        goal: &Goal,
        flow: &mut Flow<'_, Output<'static>>,
        update: &mut Update<'_>,
    ) -> Result<bool, FileProblem> {
        let (content, meta) = Content::of(source)?;
        if let Some(entry) = self.kept(source, goal, update, &meta, &content) {
            update.sealed.kept += 1;
            update.sealed.read += entry.bytes;
            flow.skip(Ok(entry));
            return Ok(true);
        }
        update.retire_list()?;
        let mut output = self.begin(&meta, &source.place, To::File(goal.clone()))?;
        output.name = String::from_utf8_lossy(&goal.path).into_owned();
        let (all, full) = (meta.content_bytes().unwrap_or(0), self.layout.chunk_bytes() as u64);
        output.bytes = all;
        let file = flow.begin(output, self.rng);
        update.begun(file, &goal.path);
        let mut reader = content.reader(&meta);
        let count = all.div_ceil(full).max(1);
        for number in 0..count {
            let bytes = full.min(all - (number * full).min(all)) as usize;
            let text = match reader.read_content(bytes) {
                Ok(text) if text.len() == bytes => text,
                Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                    flow.give_up(file);
                    return Err(FileProblem::system(&source.place)(error));
                }
                _ => {
                    flow.give_up(file);
                    return Ok(false);
                }
            };
            update.sealed.read += bytes as u64;
            (update.progress)(&update.sealed);
            let Some(job) = flow.job(file) else { return Ok(true) }; // it failed, and its problem is noted
            match job.sealing.chunk(text, number + 1 == count, self.rng) {
                Ok(chunk) => flow.submit(file, chunk, self.rng),
                Err(error) => {
                    flow.give_up(file);
                    return Err(FileProblem::seal(&source.place)(error));
                }
            }
        }
        match content.since() {
            Since::Same => {}
            Since::Grown => update.sealed.grown.push((source.place.clone(), meta.bytes)),
            Since::Changed => {
                flow.give_up(file);
                return Ok(false);
            }
        }
        flow.all(file, count as u32, self.rng);
        Ok(true)
    }

    /// The entry of an existing sealed file with the same content.
    fn kept(&self, source: &Source, goal: &Goal, update: &Update<'_>, meta: &Meta, content: &Content) -> Option<Entry> {
        let (set, _) = update.before.as_ref()?;
        let name = str::from_utf8(&goal.path).ok()?;
        let identity = sealed_content_is(set, name, &self.set, meta, content)?;
        let (kind, path, bytes) = (source.kind, source.path.clone(), meta.content_bytes().unwrap_or(0));
        Some(Entry { kind, path, name: name.to_owned(), identity, bytes, stale: false })
    }

    /// Adds finished files to the list, in the order of the walk. For a source that cannot be read
    /// now, the list gets the sealed file of an earlier run, if there is one.
    fn collect(&mut self, flow: &mut Flow<'_, Output<'static>>, update: &mut Update<'_>) -> Result<(), FileProblem> {
        for (number, ended) in flow.take_ended() {
            update.waiting.insert(number, ended);
        }
        while let Some((number, ended)) = update.next(flow) {
            match ended {
                Ok(entry) => self.list(&entry, update)?,
                Err(problem) if problem.is_fatal() => return Err(problem),
                Err(problem) => {
                    update.sealed.problems.push(problem);
                    for entry in update.earlier(number)? {
                        update.sealed.stale.push(entry.path.clone());
                        self.list(&entry, update)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, entry: &Entry, update: &mut Update<'_>) -> Result<(), FileProblem> {
        update.sealed.entries += 1;
        update.sealed.bytes += entry.bytes;
        update.manifest.as_mut().map_or(Ok(()), |manifest| manifest.add(entry, self))
    }
}

/// The destination of a sealed file.
enum To<'o> {
    File(Goal),
    Stream(&'o mut dyn Write),
}

fn changed(source: &Source) -> FileProblem {
    FileProblem::Changed { name: source.place.display().to_string() }
}

/// The set's list while it is written.
pub(super) struct Manifest {
    output: Output<'static>,
    place: PathBuf,
    order: ListOrder,
    text: Vec<u8>,
}

impl Manifest {
    fn begin(writer: &mut Writer<'_>, set: &Arc<Below>) -> Result<Self, FileProblem> {
        let place = set.place(MANIFEST.as_bytes());
        let goal = Goal::in_set(set, MANIFEST, Onto::Anything, true);
        let output = writer.begin(&Meta::new(Kind::Manifest, b"", 0), &place, To::File(goal))?;
        Ok(Self { output, place, order: ListOrder::default(), text: Vec::new() })
    }

    fn add(&mut self, entry: &Entry, writer: &mut Writer<'_>) -> Result<(), FileProblem> {
        // Readers reject a list in another order.
        self.order.next(entry.kind, &entry.path).map_err(FileProblem::seal(&self.place))?;
        entry.encode(&mut self.text).map_err(FileProblem::seal(&self.place))?;
        // At least one byte stays for the last chunk.
        while self.text.len() > writer.layout.chunk_bytes() {
            let rest = self.text.split_off(writer.layout.chunk_bytes());
            let text = std::mem::replace(&mut self.text, rest);
            self.seal(text, false, writer)?;
        }
        Ok(())
    }

    fn seal(&mut self, text: Vec<u8>, last: bool, writer: &mut Writer<'_>) -> Result<(), FileProblem> {
        let chunk = self.output.sealing.chunk(text, last, writer.rng).map_err(FileProblem::seal(&self.place))?;
        for sealed in process(&[&chunk], &PortableGcm) {
            self.output.take(&sealed.map_err(FileProblem::seal(&self.place))?)?;
        }
        Ok(())
    }

    fn finish(mut self, writer: &mut Writer<'_>) -> Result<(), FileProblem> {
        let text = std::mem::take(&mut self.text);
        self.seal(text, true, writer)?;
        self.output.end(writer.rng)?.now().map(|_| ())
    }
}

/// Whether a folder is the target folder, or lies in it.
fn is_inside(place: &Path, target: &Path) -> bool {
    match (fs::canonicalize(place), fs::canonicalize(target)) {
        (Ok(place), Ok(target)) => place.starts_with(target),
        _ => false,
    }
}
