//! Opening of a set into a folder.

use super::FileProblem;
use super::below::{Below, Need, Onto, is_temporary, split};
use super::flow::Flow;
use super::input::Input;
use super::landing::{Landed, Output, Sink, describe};
use super::naming::{Folder, Link, Unnamed, clean, make_link, temporary};
use super::read::{Opened, send};
use super::salvage::{Beside, pieces};
use crate::dispatch::Pool;
use rand_core::CryptoRng;
use rustix::fs::Mode;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tobari_seal::{Identity, Kind, Meta};

/// Permissions that the owner of a folder needs to write into it.
const OWNERS: u32 = 0o700;

/// The first names of a set's paths: the names in the target folder itself.
#[derive(Default)]
pub(super) struct Names(HashSet<Vec<u8>>);

impl Names {
    pub(super) fn add(&mut self, path: &[u8]) {
        let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        if !self.0.contains(first) {
            self.0.insert(first.to_vec());
        }
    }

    /// Whether the set has this name, or a recovered part of one of its files may have it.
    fn has(&self, name: &[u8]) -> bool {
        self.0.contains(name) || name.strip_suffix(super::DAMAGED.as_bytes()).is_some_and(|name| self.0.contains(name))
    }
}

/// The target folder of a set.
struct Out {
    place: PathBuf,
    /// The folder. `None` until the first write if the folder does not exist yet.
    below: Option<Arc<Below>>,
    need: Need,
    onto: Onto,
}

impl Out {
    /// A target folder. Without `replace` it must be new, or hold only names of the set.
    fn new(
        place: &Path,
        replace: bool,
        names: impl FnOnce() -> Result<Names, FileProblem>,
    ) -> Result<Self, FileProblem> {
        let (need, onto) = if replace { (Need::Replaced, Onto::Anything) } else { (Need::Made, Onto::Same) };
        let below = match Below::open(place) {
            Ok(below) => Some(Arc::new(below)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileProblem::system(place)(error)),
        };
        if let Some(below) = &below {
            lock(below)?;
            let found = below.names(b"").map_err(FileProblem::system(place))?;
            let mut found = found.into_iter().filter(|(name, _)| !is_temporary(name)).peekable();
            if !replace && found.peek().is_some() {
                let names = names()?;
                if found.any(|(name, _)| !names.has(name.as_bytes())) {
                    return Err(FileProblem::Exists { name: place.display().to_string() });
                }
            }
        }
        Ok(Self { place: place.to_owned(), below, need, onto })
    }

    /// The folder, made if it does not exist.
    fn below(&mut self) -> Result<Arc<Below>, FileProblem> {
        if let Some(below) = &self.below {
            return Ok(below.clone());
        }
        let below = Arc::new(Below::made(&self.place).map_err(FileProblem::system(&self.place))?);
        lock(&below)?;
        self.below = Some(below.clone());
        Ok(below)
    }
}

fn lock(below: &Below) -> Result<(), FileProblem> {
    let name = || below.place(b"").display().to_string();
    if below.lock() { Ok(()) } else { Err(FileProblem::Busy { name: name() }) }
}

/// A set during its opening: the target, and the results so far.
pub(super) struct Run<'a> {
    /// `None` if files are only verified.
    out: Option<Out>,
    pub(super) flow: Flow<'a, Output<'static>>,
    folders: Vec<Meta>,
    links: Vec<Link>,
    unnamed: Unnamed,
    pub(super) opened: Opened,
}

impl<'a> Run<'a> {
    /// Opens into a folder, or only verifies. Calls `names` only if the folder is not empty.
    pub(super) fn new(
        pool: &'a Pool,
        target: Option<&Path>,
        replace: bool,
        names: impl FnOnce() -> Result<Names, FileProblem>,
    ) -> Result<Self, FileProblem> {
        let out = target.map(|target| Out::new(target, replace, names)).transpose()?;
        let (folders, links, unnamed, opened) = Default::default();
        Ok(Self { out, flow: Flow::new(pool), folders, links, unnamed, opened })
    }

    /// Opens a file to its own path below the target.
    pub(super) fn place(
        &mut self,
        input: Input,
        place: &Path,
        expected: Option<Identity>,
        rng: &mut dyn CryptoRng,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<(), FileProblem> {
        let sink = self.sink(input.meta(), expected.is_some())?;
        let Self { flow, opened, .. } = self;
        let mut taken = |bytes| {
            opened.read += bytes;
            progress(opened);
        };
        send(input, place, expected, sink, flow, rng, &mut taken);
        Ok(())
    }

    fn sink(&mut self, meta: &Meta, in_order: bool) -> Result<Sink<'static>, FileProblem> {
        // A temporary file that a killed run left in the source is only verified: a written one
        // would be removed again.
        let Some(out) = self.out.as_mut().filter(|_| !is_temporary(split(&meta.path).1)) else {
            return Ok(Sink::Nowhere);
        };
        let (need, onto, below) = (out.need, out.onto, out.below()?);
        let place = below.place(&meta.path);
        Ok(match meta.kind {
            Kind::Directory => {
                open_up(&below, &meta.path, need).map_err(FileProblem::system(&place))?;
                // A list has each folder before its content, so no temporary file there is ours.
                if in_order {
                    clean(&below, &meta.path)?;
                }
                self.folders.push(meta.clone());
                Sink::Nowhere
            }
            Kind::Symlink => Sink::Link(Vec::new(), meta.path.clone()),
            _ => {
                let made = temporary(&below, &meta.path, need, Folder::Ours).map_err(FileProblem::system(&place))?;
                Sink::File { made, place, path: meta.path.clone(), onto, durable: false }
            }
        })
    }

    /// Takes the files that have ended.
    pub(super) fn collect(&mut self) -> Result<(), FileProblem> {
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

    /// Gives all whole files their names.
    pub(super) fn name_all(&mut self) -> Result<(), FileProblem> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let Some(below) = &out.below else { return Ok(()) };
        for (bytes, problem) in self.unnamed.name_all(below)? {
            self.opened.entries -= 1;
            self.opened.bytes -= bytes;
            self.opened.problems.push(problem);
        }
        Ok(())
    }

    /// Waits for the remaining files, and makes links.
    pub(super) fn settle(&mut self, rng: &mut dyn CryptoRng) -> Result<(), FileProblem> {
        self.flow.drain(rng);
        self.collect()?;
        self.name_all()?;
        let Some(out) = &self.out else { return Ok(()) };
        let Some(below) = &out.below else { return Ok(()) };
        for link in std::mem::take(&mut self.links) {
            if let Err(problem) = make_link(below, &link, out.need, out.onto) {
                self.opened.entries -= 1;
                self.opened.problems.push(problem);
            }
        }
        Ok(())
    }

    /// Writes the intact chunks of a damaged file beside its place.
    pub(super) fn pieces(
        &mut self,
        input: Input,
        place: &Path,
        progress: &mut dyn FnMut(&Opened),
    ) -> Result<Option<FileProblem>, FileProblem> {
        let Some(out) = &mut self.out else { return Ok(None) };
        let (below, path, opened) = (out.below()?, input.meta().path.clone(), &mut self.opened);
        let to = Beside { below: &below, path: &path, need: out.need, whose: Folder::Ours, onto: out.onto };
        pieces(input, place, &to, &mut |bytes| {
            opened.read += bytes;
            progress(opened);
        })
    }

    /// Waits for the remaining files, and then sets permissions and times of folders. The innermost
    /// folders come first, as a folder's time changes with its content.
    pub(super) fn finish(mut self, rng: &mut dyn CryptoRng) -> Result<Opened, FileProblem> {
        self.settle(rng)?;
        let Some(below) = self.out.as_ref().and_then(|out| out.below.clone()) else { return Ok(self.opened) };
        let depth = |meta: &Meta| if meta.path.is_empty() { 0 } else { meta.path.split(|byte| *byte == b'/').count() };
        self.folders.sort_by_key(depth);
        below.forget();
        for meta in self.folders.iter().rev() {
            // Without a list, folders have any order: only now is no temporary file ours.
            let cleaned = clean(&below, &meta.path);
            let described = below
                .folder(&meta.path, Need::Found)
                .and_then(|folder| folder.try_clone())
                .and_then(|folder| describe(&File::from(folder), meta));
            self.opened.problems.extend(cleaned.err());
            self.opened.problems.extend(described.err().map(FileProblem::system(&below.place(&meta.path))));
        }
        below.sync().map_err(FileProblem::system(&below.place(b"")))?;
        Ok(self.opened)
    }
}

/// Makes a folder writable. After an earlier run it may have its source's permissions, without
/// write access for the owner. It gets them again at the end.
fn open_up(below: &Below, path: &[u8], need: Need) -> std::io::Result<()> {
    let folder = below.folder(path, need)?;
    let mode = File::from(folder.try_clone()?).metadata()?.mode() & 0o7777;
    if mode & OWNERS != OWNERS {
        // This fails for a folder of another user, and may.
        let _ = rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode | OWNERS));
    }
    Ok(())
}
