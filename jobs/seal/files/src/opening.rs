//! A set on its way into a folder.

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

/// Permissions without which nothing can be written into a folder of one's own.
const OWNERS: u32 = 0o700;

/// The first names of paths: what a set has in the folder itself.
#[derive(Default)]
pub(super) struct Names(HashSet<Vec<u8>>);

impl Names {
    pub(super) fn add(&mut self, path: &[u8]) {
        let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        if !self.0.contains(first) {
            self.0.insert(first.to_vec());
        }
    }

    /// Whether a set has this name, or a damaged file of it may have.
    fn has(&self, name: &[u8]) -> bool {
        self.0.contains(name) || name.strip_suffix(super::DAMAGED.as_bytes()).is_some_and(|name| self.0.contains(name))
    }
}

/// The folder that a set is opened into.
struct Out {
    place: PathBuf,
    /// None until something is written, as long as the folder is not there.
    below: Option<Arc<Below>>,
    need: Need,
    onto: Onto,
}

impl Out {
    /// Into a folder that is new, or has nothing but what the set has, or may be written over.
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

    /// The folder, which is made if it is not there.
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

/// A set that is being opened: where it goes, and what came of it so far.
pub(super) struct Run<'a> {
    /// None where files are only verified.
    out: Option<Out>,
    pub(super) flow: Flow<'a, Output<'static>>,
    folders: Vec<Meta>,
    links: Vec<Link>,
    unnamed: Unnamed,
    pub(super) opened: Opened,
}

impl<'a> Run<'a> {
    /// Into a folder, or nowhere. `names` are asked for where the folder has something in it.
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

    /// Has a file opened to where it belongs by its own path.
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
        // what a killed run left in a source is verified and nothing else: it would be removed
        // again
        let Some(out) = self.out.as_mut().filter(|_| !is_temporary(split(&meta.path).1)) else {
            return Ok(Sink::Nowhere);
        };
        let (need, onto, below) = (out.need, out.onto, out.below()?);
        let place = below.place(&meta.path);
        Ok(match meta.kind {
            Kind::Directory => {
                open_up(&below, &meta.path, need).map_err(FileProblem::system(&place))?;
                // a list has each folder before what is in it, so that no temporary file there is
                // ours
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

    /// Takes what has ended.
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

    /// Gives what is whole its names.
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

    /// Waits for the rest, and makes links.
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

    /// Writes what is right of a damaged file beside its place.
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

    /// Waits for the rest; then folders are described, the innermost first: a folder's time changes
    /// when something is made in it.
    pub(super) fn finish(mut self, rng: &mut dyn CryptoRng) -> Result<Opened, FileProblem> {
        self.settle(rng)?;
        let Some(below) = self.out.as_ref().and_then(|out| out.below.clone()) else { return Ok(self.opened) };
        let depth = |meta: &Meta| if meta.path.is_empty() { 0 } else { meta.path.split(|byte| *byte == b'/').count() };
        self.folders.sort_by_key(depth);
        below.forget();
        for meta in self.folders.iter().rev() {
            // without a list, folders come in any order: only now is no temporary file ours
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

/// A folder to write into. One that an earlier run has described already may be closed to its
/// owner, as its source was: it is opened up until it is described again.
fn open_up(below: &Below, path: &[u8], need: Need) -> std::io::Result<()> {
    let folder = below.folder(path, need)?;
    let mode = File::from(folder.try_clone()?).metadata()?.mode() & 0o7777;
    if mode & OWNERS != OWNERS {
        // of somebody else's folder the owner decides
        let _ = rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode | OWNERS));
    }
    Ok(())
}
