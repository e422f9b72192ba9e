//! A set on its way: what its list gets, and what becomes of what was sealed earlier.
//!
//! A sealed file stays right when its source cannot be read for once: a disk that fails,
//! permissions that changed. It is then listed again as *stale*, so that a set is whole after each
//! run, and says of what it knows that it is old. Only what is known to be gone is removed.
//!
//! The storage may have put an older file back meanwhile. So the sealed file has to be the one that
//! the list before named. Where an interrupted run left no list, nobody can tell, and the entry
//! says no more than that it is old.

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

/// What could not be read.
enum Unlisted {
    /// The source of this sealed file.
    Source(String),
    /// Something of this path, and all that may lie below it.
    Path(Vec<u8>),
}

/// A folder on its way into a set.
pub(super) struct Update<'a> {
    pub(super) sealed: Sealed,
    /// Sealed files that the list names.
    pub(super) names: HashSet<String>,
    pub(super) manifest: Option<Manifest>,
    /// The set that goes on, and its key.
    pub(super) before: Option<(Arc<Below>, SetKey)>,
    /// Whether the list of a finished set that is brought up to date is still there.
    has_list: bool,
    /// That list, open: it is removed before anything is replaced.
    list: Option<File>,
    /// What it names, once that was looked up; nothing if it does not open as a whole.
    listed: Option<HashMap<String, Identity>>,
    pub(super) waiting: BTreeMap<u32, Result<Entry, FileProblem>>,
    next: u32,
    open: HashMap<u32, Unlisted>,
    /// Of all sealed files that were there: their paths, name by name, and their names. Made when a
    /// folder cannot be read.
    earlier: Option<BTreeMap<Vec<Vec<u8>>, String>>,
    /// Whether something of a path could not be looked at.
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

    /// Takes up the list of the set that goes on, if it has one.
    ///
    /// # Errors
    /// [`FileProblem::System`] if it is there and cannot be read.
    pub(super) fn take_list(&mut self) -> Result<(), FileProblem> {
        let Some((set, _)) = &self.before else { return Ok(()) };
        match set.file(MANIFEST.as_bytes()) {
            Ok(list) => (self.has_list, self.list) = (true, Some(list)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileProblem::system(&set.place(MANIFEST.as_bytes()))(error)),
        }
        Ok(())
    }

    /// Whether the list before named this sealed file. Without a list nobody knows.
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

    /// This number is on its way to this sealed file.
    pub(super) fn begun(&mut self, number: u32, name: &[u8]) {
        if self.before.is_some() {
            self.open.insert(number, Unlisted::Source(String::from_utf8_lossy(name).into_owned()));
        }
    }

    /// This number stands for a path that could not be looked at.
    pub(super) fn unread(&mut self, number: u32, path: Vec<u8>) {
        self.has_unread = true;
        self.open.insert(number, Unlisted::Path(path));
    }

    /// What comes next in the order of the walk, once it has ended.
    pub(super) fn next(&mut self, flow: &Flow<'_, Output<'static>>) -> Option<(u32, Result<Entry, FileProblem>)> {
        // A number that was given up is followed by another for the same source.
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

    /// What was sealed earlier of something that cannot be read now, and opens as a whole: in the
    /// order of a walk.
    pub(super) fn earlier(&mut self, number: u32) -> Result<Vec<Entry>, FileProblem> {
        let Some((set, key)) = self.before.clone() else { return Ok(Vec::new()) };
        let names = match self.open.remove(&number) {
            None => return Ok(Vec::new()),
            Some(Unlisted::Source(name)) => vec![name],
            Some(Unlisted::Path(path)) => self.below(&set, &key, &path)?,
        };
        let opened: Vec<Entry> = names.iter().filter_map(|name| stale_entry(&set, name, &key)).collect();
        let entries = opened.into_iter().filter(|entry| self.was_listed(&set, &key, entry)).collect();
        // one that does not open, or is another than was listed, is not listed and stays: `verify`
        // names it, and something of it may be salvaged
        self.names.extend(names);
        Ok(entries)
    }

    /// Sealed files of a path and of all that lay below it, but for those that are listed already.
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

    /// The first change makes an unfinished set of a finished one: a list that stayed would call
    /// whatever is new wrong, if this run were killed.
    pub(super) fn retire_list(&mut self) -> Result<(), FileProblem> {
        if let Some((set, _)) = self.before.as_ref().filter(|_| std::mem::take(&mut self.has_list)) {
            let removed = set.remove(MANIFEST.as_bytes()).and_then(|()| set.sync_names());
            removed.map_err(FileProblem::system(&set.place(MANIFEST.as_bytes())))?;
        }
        Ok(())
    }

    /// Removes sealed files whose source is gone: all that the list does not name, as it names what
    /// could not be read, too.
    pub(super) fn remove_others(&mut self) -> Result<(), FileProblem> {
        let Some((set, key)) = self.before.clone() else { return Ok(()) };
        for file in others(&set, &self.names)? {
            // it may have been below a folder that cannot be read now
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
