//! Sealing a folder, a file, a stream.

use super::ending::Ending;
use super::flow::{Flow, Job};
use super::read::{key_to_continue, sealed_content_is};
use super::source::{self, Places, Source, Walk};
use super::{FileProblem, Keys, MANIFEST, PART, SET};
use crate::dispatch::Pool;
use crate::files;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};
use tobari_apps::seal::{Entry, Identity, Kind, Layout, Meta, PortableGcm, Sealing, SetKey, Stanzas, process};

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
        persist(file, &self.target, self.replace)
    }
}

impl Job for Output {
    type Output = Entry;

    fn path(&self) -> PathBuf {
        self.source.clone()
    }

    fn take(&mut self, bytes: Vec<u8>) -> Result<(), FileProblem> {
        self.sealing.sealed(&bytes).map_err(FileProblem::seal(&self.source))?;
        self.file.write(&bytes)
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

/// Gives a temporary file its name.
pub(super) fn persist(file: NamedTempFile, target: &Path, replace: bool) -> Result<(), FileProblem> {
    files::persist(file, target, replace).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => FileProblem::Exists { name: target.display().to_string() },
        _ => FileProblem::system(target)(error),
    })
}

/// Waits until everything on the file system of `path` is on its disk.
pub(super) fn sync(path: &Path) -> Result<File, FileProblem> {
    let file = File::open(path).map_err(FileProblem::system(path))?;
    rustix::fs::syncfs(&file).map_err(|errno| FileProblem::system(path)(errno.into()))?;
    Ok(file)
}

/// A temporary file in the folder of `target`, which is made if it is not there.
pub(super) fn temporary(target: &Path) -> Result<NamedTempFile, FileProblem> {
    let create = || files::temporary(Builder::new().prefix(PART), target);
    let created = create().or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => fs::create_dir_all(files::directory_of(target)).and_then(|()| create()),
        _ => Err(error),
    });
    created.map_err(FileProblem::system(target))
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

    /// Seals what a reader gives, to its end: a stream, or one file.
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
        if !replace && fs::symlink_metadata(target).is_ok() {
            return Err(FileProblem::Exists { name: target.display().to_string() });
        }
        let output = self.begin(meta, target, target.to_owned(), replace)?;
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
                sync(target)?;
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
        let mut state = Folder {
            sealed: Sealed { continued: resumes, ..Sealed::default() },
            names: HashSet::new(),
            manifest: None,
            waiting: BTreeMap::new(),
            next: 0,
            progress,
        };
        state.manifest = Some(Manifest::begin(self, target)?);
        let mut flow = Flow::new(self.pool);
        let without = fs::metadata(target).ok().as_ref().map(source::identity);
        // What was sealed is not sealed again.
        let walk = if is_inside(root, target) { None } else { Some(Walk::new(root, without)) };
        for source in walk.into_iter().flatten() {
            match source {
                Ok(source) => self.source(&source, target, resumes, &mut flow, &mut state),
                Err(problem) => state.sealed.problems.push(problem),
            }
            self.collect(&mut flow, &mut state)?;
            (state.progress)(&state.sealed);
        }
        flow.drain(self.rng);
        self.collect(&mut flow, &mut state)?;
        (state.progress)(&state.sealed);
        // Whatever the list names is on the disk before the list is.
        let folder = sync(target)?;
        if let Some(manifest) = state.manifest.take() {
            manifest.finish(self)?;
        }
        folder.sync_all().map_err(FileProblem::system(target))?;
        state.sealed.removed = remove_others(target, &state.names)?;
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
        self.small(&Meta::new(Kind::Set, b"", 0), &mark, false)?;
        Ok(false)
    }

    /// Seals something without content, here and now.
    fn small(&mut self, meta: &Meta, target: &Path, replace: bool) -> Result<Identity, FileProblem> {
        let mut output = self.begin(meta, target, target.to_owned(), replace)?;
        let chunk = output.sealing.chunk(Vec::new(), true, self.rng).map_err(FileProblem::seal(target))?;
        for sealed in process(&[&chunk], &PortableGcm) {
            output.take(sealed.map_err(FileProblem::seal(target))?)?;
        }
        Ok(output.end(self.rng)?.now()?.identity)
    }

    /// One thing of a folder.
    fn source(
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
        for attempt in 1..=TRIES {
            match self.attempt(source, &name, &place, resumes, flow, state) {
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
        name: &str,
        place: &Path,
        resumes: bool,
        flow: &mut Flow<'_, Output>,
        state: &mut Folder<'_>,
    ) -> Result<bool, FileProblem> {
        let (content, meta) = Content::of(source)?;
        if resumes && let Some(identity) = sealed_content_is(place, &self.set, &meta, &content) {
            let bytes = meta.content_bytes().unwrap_or(0);
            state.sealed.kept += 1;
            state.sealed.read += bytes;
            flow.skip(Ok(Entry {
                kind: source.kind,
                path: source.path.clone(),
                name: name.to_owned(),
                identity,
                bytes,
            }));
            return Ok(true);
        }
        let mut output = self.begin(&meta, &source.place, place.to_owned(), resumes)?;
        name.clone_into(&mut output.name);
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

/// A folder on its way.
struct Folder<'a> {
    sealed: Sealed,
    names: HashSet<String>,
    manifest: Option<Manifest>,
    waiting: BTreeMap<u32, Result<Entry, FileProblem>>,
    next: u32,
    progress: &'a mut dyn FnMut(&Sealed),
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
            self.output.take(sealed.map_err(FileProblem::seal(&place))?)?;
        }
        Ok(())
    }

    fn finish(mut self, writer: &mut Writer<'_>) -> Result<(), FileProblem> {
        let text = std::mem::take(&mut self.text);
        self.seal(text, true, writer)?;
        self.output.end(writer.rng)?.now().map(|_| ())
    }
}

/// What is sealed of a source.
pub(super) enum Content {
    /// A file, and its stamp before it was read.
    File(File, (u64, i64, i64, i64, i64)),
    /// Where a link leads; nothing for a folder.
    Bytes(Vec<u8>),
}

impl Content {
    fn of(source: &Source) -> Result<(Self, Meta), FileProblem> {
        match source.kind {
            Kind::File => {
                let (file, metadata) = source::open(&source.place)?;
                let ranges = source::ranges(&file, &metadata);
                let meta = source::describe(Kind::File, &source.path, &metadata, metadata.len());
                let stamp = source::stamp(&metadata);
                Ok((Self::File(file, stamp), Meta { ranges, ..meta }))
            }
            Kind::Symlink => {
                let metadata = source.metadata()?;
                let link = fs::read_link(&source.place).map_err(FileProblem::system(&source.place))?;
                let bytes = link.as_os_str().as_bytes().to_vec();
                let meta = source::describe(Kind::Symlink, &source.path, metadata, bytes.len() as u64);
                Ok((Self::Bytes(bytes), meta))
            }
            kind => Ok((Self::Bytes(Vec::new()), source::describe(kind, &source.path, source.metadata()?, 0))),
        }
    }

    pub(super) fn reader(&self, meta: &Meta) -> ContentReader<'_> {
        ContentReader { content: self, places: Places::new(&meta.ranges), at: 0 }
    }

    fn is_still_the_same(&self) -> bool {
        match self {
            Self::File(file, before) => file.metadata().is_ok_and(|now| source::stamp(&now) == *before),
            Self::Bytes(_) => true,
        }
    }
}

/// Content from its start on, holes left out.
pub(super) struct ContentReader<'a> {
    content: &'a Content,
    places: Places,
    at: usize,
}

impl ContentReader<'_> {
    /// The next bytes: fewer at the end.
    pub(super) fn read(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        match self.content {
            Content::File(file, ..) => source::read(file, &mut self.places, count),
            Content::Bytes(bytes) => {
                let from = self.at.min(bytes.len());
                self.at = (from + count).min(bytes.len());
                Ok(bytes[from..self.at].to_vec())
            }
        }
    }
}

/// Reads so many bytes, or to the end.
pub(super) fn read_full(input: &mut dyn Read, count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    input.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a folder is (in) the one that is written to.
fn is_inside(place: &Path, target: &Path) -> bool {
    let whole = |path: &Path| fs::canonicalize(path).ok();
    match (place.parent().and_then(whole), place.file_name(), whole(target)) {
        (Some(parent), Some(name), Some(target)) => parent.join(name).starts_with(target),
        _ => false,
    }
}

/// Removes sealed files that the list does not name, and what a killed run left. Only after the list is written.
fn remove_others(target: &Path, names: &HashSet<String>) -> Result<u64, FileProblem> {
    let mut removed = 0;
    for folder in fs::read_dir(target).map_err(FileProblem::system(target))? {
        let folder = folder.map_err(FileProblem::system(target))?.path();
        let name = |path: &Path| path.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        let outer = name(&folder);
        if outer.starts_with(PART) {
            fs::remove_file(&folder).map_err(FileProblem::system(&folder))?;
        }
        if outer.len() != 2 || !folder.is_dir() {
            continue;
        }
        for file in fs::read_dir(&folder).map_err(FileProblem::system(&folder))? {
            let file = file.map_err(FileProblem::system(&folder))?.path();
            let inner = name(&file);
            let ours = inner.len() == 35 && inner.ends_with(".seal") && !names.contains(&format!("{outer}/{inner}"));
            if ours || inner.starts_with(PART) {
                fs::remove_file(&file).map_err(FileProblem::system(&file))?;
                removed += u64::from(ours);
            }
        }
    }
    Ok(removed)
}
