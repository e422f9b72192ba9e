//! The update of a set: its new list, and the sealed files of earlier runs.
//!
//! A source may be unreadable in one run, after a disk error or a change of permissions. Its sealed
//! file stays valid. The new list then names the sealed file as *stale*, so that the set is whole
//! after each run and shows its old entries. A sealed file is removed only if its source is known
//! to be gone.
//!
//! The storage may have put an older sealed file back meanwhile. So a stale file must be the one
//! that the last list named. If an interrupted run left no list, this cannot be checked, and the
//! entry only says that the file is old.

use super::below::Below;
use super::flow::Flow;
use super::input::{Input, sealed_path, stale_entry};
use super::listing::{others, sealed_files};
use super::read::read_list;
use super::write::{Manifest, Output, Sealed};
use super::{FileProblem, MANIFEST};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use tobari_seal::{Entry, Identity, SetKey};

/// A source that could not be read.
enum Unlisted {
    /// The source of this sealed file.
    Source(String),
    /// The source of this path, and everything that may lie below it.
    Path(Vec<u8>),
}

/// The state of a run that seals a folder into a set.
pub(super) struct Update<'a> {
    pub(super) sealed: Sealed,
    /// Sealed files that the list names.
    pub(super) names: HashSet<String>,
    pub(super) manifest: Option<Manifest>,
    /// The set to continue, and its key.
    pub(super) before: Option<(Arc<Below>, SetKey)>,
    /// Whether the finished set still has its old list.
    has_list: bool,
    /// The old list, open: its file is removed before any sealed file is replaced.
    list: Option<File>,
    /// The entries of the old list, once read; empty if the list does not decrypt as a whole.
    listed: Option<HashMap<String, Identity>>,
    pub(super) waiting: BTreeMap<u32, Result<Entry, FileProblem>>,
    next: u32,
    open: HashMap<u32, Unlisted>,
    /// All sealed files of earlier runs: the path of the source, name by name, and the name of the
    /// sealed file. Made when a folder cannot be read.
    earlier: Option<BTreeMap<Vec<Vec<u8>>, String>>,
    /// Whether a path could not be read.
    has_unread: bool,
    pub(super) progress: &'a mut dyn FnMut(&Sealed),
}

impl<'a> Update<'a> {
    pub(super) fn new(before: Option<(Arc<Below>, SetKey)>, progress: &'a mut dyn FnMut(&Sealed)) -> Self {
        let (names, waiting, open) = Default::default();
        let sealed = Sealed { continued: before.is_some(), ..Sealed::default() };
        let (manifest, earlier, has_list, has_unread, next) = (None, None, false, false, 0);
        let (list, listed) = (None, None);
        Self {
            sealed,
            names,
            manifest,
            before,
            has_list,
            list,
            listed,
            waiting,
            next,
            open,
            earlier,
            has_unread,
            progress,
        }
    }

    /// Opens the list of the set to continue, if it has one.
    ///
    /// # Errors
    /// [`FileProblem::System`] if the list exists and cannot be opened.
    pub(super) fn take_list(&mut self) -> Result<(), FileProblem> {
        let Some((set, _)) = &self.before else { return Ok(()) };
        match set.file(MANIFEST.as_bytes()) {
            Ok(list) => (self.has_list, self.list) = (true, Some(list)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileProblem::system(&set.place(MANIFEST.as_bytes()))(error)),
        }
        Ok(())
    }

    /// Whether the old list named this sealed file. Without an old list always true.
    fn was_listed(&mut self, set: &Below, key: &SetKey, entry: &Entry) -> bool {
        if let Some(list) = self.list.take() {
            let (place, mut names) = (set.place(MANIFEST.as_bytes()), HashMap::new());
            let input = Input::open(Box::new(list), &place, |_| Ok(Some(key.clone())));
            let read = input.and_then(|(input, ..)| {
                read_list(input, &place, |entry| {
                    names.insert(entry.name, entry.identity);
                    Ok(())
                })
            });
            self.listed = Some(if read.is_ok() { names } else { HashMap::new() });
        }
        self.listed.as_ref().is_none_or(|names| names.get(&entry.name) == Some(&entry.identity))
    }

    /// Notes that this number will become this sealed file.
    pub(super) fn begun(&mut self, number: u32, name: &[u8]) {
        if self.before.is_some() {
            self.open.insert(number, Unlisted::Source(String::from_utf8_lossy(name).into_owned()));
        }
    }

    /// Notes that this number stands for a path that could not be read.
    pub(super) fn unread(&mut self, number: u32, path: Vec<u8>) {
        self.has_unread = true;
        self.open.insert(number, Unlisted::Path(path));
    }

    /// The next result in the order of the walk, once it has ended.
    pub(super) fn next(&mut self, flow: &Flow<'_, Output<'static>>) -> Option<(u32, Result<Entry, FileProblem>)> {
        // After a number that was given up, another one follows for the same source.
        while self.next < flow.numbers() && !self.waiting.contains_key(&self.next) && !flow.is_running(self.next) {
            self.open.remove(&self.next);
            self.next += 1;
        }
        let ended = self.waiting.remove(&self.next)?;
        let number = self.next;
        self.next += 1;
        if ended.is_ok() {
            self.open.remove(&number);
        }
        Some((number, ended))
    }

    /// The sealed files of earlier runs for a source that cannot be read now, in the order of a
    /// walk. Only files that decrypt as a whole count.
    pub(super) fn earlier(&mut self, number: u32) -> Result<Vec<Entry>, FileProblem> {
        let Some((set, key)) = self.before.clone() else { return Ok(Vec::new()) };
        let names = match self.open.remove(&number) {
            None => return Ok(Vec::new()),
            Some(Unlisted::Source(name)) => vec![name],
            Some(Unlisted::Path(path)) => self.below(&set, &key, &path)?,
        };
        let opened: Vec<Entry> = names.iter().filter_map(|name| stale_entry(&set, name, &key)).collect();
        let entries = opened.into_iter().filter(|entry| self.was_listed(&set, &key, entry)).collect();
        // A file that does not decrypt, or that the old list did not name, is not listed, but
        // stays: `verify` reports it, and a part of it may be recovered.
        self.names.extend(names);
        Ok(entries)
    }

    /// Sealed files of a path and of everything below it, without those listed already.
    fn below(&mut self, set: &Below, key: &SetKey, path: &[u8]) -> Result<Vec<String>, FileProblem> {
        let parts = |path: &[u8]| -> Vec<Vec<u8>> {
            let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            names.map(<[u8]>::to_vec).collect()
        };
        if self.earlier.is_none() {
            let mut all = BTreeMap::new();
            for name in sealed_files(set)?.into_iter().filter_map(|name| String::from_utf8(name).ok()) {
                if let Some(path) = sealed_path(set, &name, key) {
                    all.insert(parts(&path), name);
                }
            }
            self.earlier = Some(all);
        }
        let first = parts(path);
        let found = self.earlier.iter().flat_map(|all| all.range(first.clone()..));
        let found = found.take_while(|(path, _)| path.starts_with(&first)).map(|(_, name)| name.clone());
        Ok(found.filter(|name| !self.names.contains(name)).collect())
    }

    /// Removes the old list before the first change: the set is unfinished from then on. If the
    /// list stayed and this run were killed, the list would report every new file as wrong.
    pub(super) fn retire_list(&mut self) -> Result<(), FileProblem> {
        if let Some((set, _)) = self.before.as_ref().filter(|_| std::mem::take(&mut self.has_list)) {
            let removed = set.remove(MANIFEST.as_bytes()).and_then(|()| set.sync_names());
            removed.map_err(FileProblem::system(&set.place(MANIFEST.as_bytes())))?;
        }
        Ok(())
    }

    /// Removes sealed files whose source is gone: all files that the list does not name. It names
    /// files with an unreadable source, too.
    pub(super) fn remove_others(&mut self) -> Result<(), FileProblem> {
        let Some((set, key)) = self.before.clone() else { return Ok(()) };
        for file in others(&set, &self.names)? {
            // Its source may be below a folder that cannot be read now.
            if self.has_unread && sealed_path(&set, &file, &key).is_none() {
                continue;
            }
            self.retire_list()?;
            set.remove(file.as_bytes()).map_err(FileProblem::system(&set.place(file.as_bytes())))?;
            self.sealed.removed += 1;
        }
        Ok(())
    }
}
