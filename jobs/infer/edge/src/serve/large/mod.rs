//! Keys of models with refreshes: gigabytes for each client. They are on the disk, and in memory
//! only while a question is answered.
//!
//! A client sends them one by one, in the order of the model's card. Each is checked when it
//! arrives. After a break the client asks for the number of keys that the server has, and goes on
//! from there. Their name is the SHA-256 of all of them, so the last key shows whether all are
//! right; if not, all are removed.
//!
//! ```text
//!   FOLDER/infer/{digest}/{hash}.part    keys of which some are still missing; removed at a start
//!   FOLDER/infer/{digest}/{hash}.keys    all keys of a client, with their origin as in `store`
//! ```
//!
//! **One question at a time** is answered under such keys, because one client's keys take most of
//! the memory of a machine. The others wait; clients take turns. The keys of the last question stay
//! in memory for the next one. They are read, checked against their name, and decoded in some
//! seconds, while a run takes minutes.
//!
//! **Limits.** Files take at most [`super::InferOptions::key_file_bytes`], of which one client has
//! a share. Keys that were not used for an hour are removed when others need the room.

use super::store::Store;
use super::{InferError, Name, Shared, models::Served};
use crate::network::Ring;
use axum::http::StatusCode;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tobari_host::files::{directory_of, sync_directory};
use tobari_infer::messages::{self, KEYS_HEAD, KeysName};
use tobari_node::places::{Keeper, PlaceLimits, Places, Tag};
use tobari_node::reply::Reply;
use tobari_node::share::Share;
use tobari_node::turns::Turns;

/// A model, and keys for it.
type Place = (Name, Name);

/// The keys of all clients of models with refreshes.
pub(super) struct LargeKeys {
    state: Mutex<State>,
    /// The keys of the last question.
    loaded: Mutex<Option<(Place, Ring)>>,
    /// One run at a time.
    pub(super) runs: Turns,
}

struct State {
    places: Places<Place>,
    /// Keys that are complete.
    complete: HashSet<Place>,
    uploads: HashMap<Place, Arc<Upload>>,
}

/// Keys of which some are still missing.
struct Upload {
    tag: Tag,
    /// The number of keys that are here.
    next: AtomicUsize,
    writing: Mutex<Writing>,
}

struct Writing {
    file: File,
    bytes: u64,
    name: KeysName,
}

/// What a server has of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All keys.
    All,
    /// The first keys of the card.
    First(usize),
}

impl LargeKeys {
    pub(super) fn new(limits: PlaceLimits, share: Share) -> Self {
        let state = State { places: Places::new(limits), complete: HashSet::new(), uploads: HashMap::new() };
        Self { state: Mutex::new(state), loaded: Mutex::default(), runs: Turns::new(1, share) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the complete keys of a folder, and removes others.
    ///
    /// # Errors
    /// [`InferError`] for a folder that cannot be read.
    pub(super) fn take_up(&self, store: &Store, model: &Name, bytes: u64) -> Result<(), InferError> {
        store.remove_parts(model)?;
        for (used, place) in store.of_model(model)? {
            let tag = Keeper::read(&store.origin(&place));
            let mut state = self.state();
            state.complete.insert(place);
            state.places.restore(place, tag, bytes, used);
        }
        Ok(())
    }

    /// What the server has of these keys.
    pub(super) fn found(&self, place: &Place, tag: &Tag) -> Found {
        let state = self.state();
        if state.complete.contains(place) {
            return Found::All;
        }
        let upload = state.uploads.get(place).filter(|upload| upload.tag == *tag);
        Found::First(upload.map_or(0, |upload| upload.next.load(Ordering::Acquire)))
    }

    /// The upload of these keys: a new one for the first key.
    fn upload(&self, place: &Place, tag: Tag, bytes: u64, store: &Store) -> Result<Arc<Upload>, Reply> {
        let mut state = self.state();
        if let Some(upload) = state.uploads.get(place) {
            let text = "another client is sending keys of this name";
            let same = Some(upload).filter(|upload| upload.tag == tag).map(Arc::clone);
            return same.ok_or_else(|| Reply::new(StatusCode::CONFLICT, "order", text));
        }
        let given = state.places.take(place, tag, bytes, SystemTime::now()).map_err(|full| {
            let reply = Reply::full(&full, "quota", ("key files", "--infer-key-files"));
            Reply { status: StatusCode::INSUFFICIENT_STORAGE, ..reply }
        })?;
        for other in &given {
            state.complete.remove(other);
            state.uploads.remove(other);
            store.remove(other);
            store.remove_part(other);
        }
        let open = || {
            fs::create_dir_all(directory_of(&store.part(place)))?;
            let file = File::create(store.part(place))?;
            file.write_all_at(&KEYS_HEAD, 0)?;
            Ok(file)
        };
        let file = open().map_err(|error: io::Error| store.disk().failed_writing(&error))?;
        let writing = Mutex::new(Writing { file, bytes: KEYS_HEAD.len() as u64, name: KeysName::default() });
        let upload = Arc::new(Upload { tag, next: AtomicUsize::new(0), writing });
        state.uploads.insert(*place, Arc::clone(&upload));
        Ok(upload)
    }

    /// Takes one key, which is on the disk when all are. Returns what the server has then.
    ///
    /// # Errors
    /// A reply: `message` for bytes that are no such key, `order` for a key whose predecessors are
    /// missing, `quota` and `storage` where there is no room, `name` for keys of another name.
    pub(super) fn take(
        &self,
        (store, served): (&Store, &Served),
        place: &Place,
        tag: Tag,
        index: usize,
        key: &[u8],
    ) -> Result<Found, Reply> {
        let direct = served.direct()?;
        let malformed = |text: String| Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", text);
        let of_card = &direct.known.keys;
        let input = of_card.get(index).copied().ok_or_else(|| malformed(format!("expected {} keys", of_card.len())))?;
        if self.found(place, &tag) == Found::All {
            return Ok(Found::All);
        }
        messages::decode_key(key, &direct.known, input).map_err(|error| malformed(error.to_string()))?;
        let upload = self.upload(place, tag, direct.keys.0 as u64, store)?;
        let mut writing = upload.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = upload.next.load(Ordering::Acquire);
        if index < next {
            // sent again, because the reply was lost
            return Ok(Found::First(next));
        }
        if index > next {
            let text = format!("expected key {next} of these keys first, found key {index}");
            return Err(Reply::new(StatusCode::CONFLICT, "order", text));
        }
        let failed = |error: io::Error| store.disk().failed_writing(&error);
        // a part of a key, after an error, is overwritten
        let at = writing.bytes;
        writing.file.write_all_at(key, at).map_err(failed)?;
        writing.bytes += key.len() as u64;
        writing.name.add(key);
        upload.next.store(next + 1, Ordering::Release);
        if next + 1 < of_card.len() {
            return Ok(Found::First(next + 1));
        }
        let right = writing.name.clone().finish() == place.1;
        let kept = if right { self.complete(store, place, &tag, &writing.file) } else { Ok(()) };
        let mut state = self.state();
        state.uploads.remove(place);
        if right && kept.is_ok() {
            state.complete.insert(*place);
        } else {
            store.remove_part(place);
        }
        drop(state);
        kept.map_err(failed)?;
        let text = "the keys have another SHA-256 than their name: all are removed, send them again";
        right.then_some(Found::All).ok_or_else(|| Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "name", text))
    }

    fn complete(&self, store: &Store, place: &Place, tag: &Tag, file: &File) -> io::Result<()> {
        file.sync_all()?;
        Keeper::write(&store.origin(place), tag).map_err(io::Error::other)?;
        fs::rename(store.part(place), store.path(place))?;
        sync_directory(directory_of(&store.path(place)))
    }

    /// Notes a use of keys.
    pub(super) fn note_use(&self, store: &Store, place: &Place) {
        let now = SystemTime::now();
        if self.state().places.touch(place, now) {
            store.tell(place, now);
        }
    }

    /// The keys in memory, for the only run. Keys that are damaged are removed: their client sends
    /// them again.
    ///
    /// # Errors
    /// A reply.
    pub(super) fn load(&self, shared: &Shared, served: &Served, place: &Place) -> Result<Ring, Reply> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, ring)) = loaded.as_ref().filter(|(of, _)| of == place) {
            return Ok(ring.clone());
        }
        // two clients' keys are not in memory at once
        *loaded = None;
        let (Some(store), direct) = (&shared.store, served.direct()?) else { return Err(super::handle::no_keys()) };
        let damaged = |why: &dyn std::fmt::Display| {
            tracing::error!(%why, "a file of keys is damaged and removed: its client sends the keys again");
            self.state().complete.remove(place);
            store.remove(place);
            super::handle::no_keys()
        };
        let mut file = File::open(store.path(place)).map_err(|error| damaged(&error))?;
        let mut next = |length: usize| {
            let mut bytes = vec![0; length];
            file.read_exact(&mut bytes).map(|()| bytes)
        };
        let (mut name, mut keys) = (KeysName::default(), Vec::with_capacity(direct.known.keys.len()));
        next(KEYS_HEAD.len()).map_err(|error| damaged(&error))?;
        for (input, length) in direct.known.keys.iter().zip(messages::key_lengths(&direct.known)) {
            let bytes = next(length).map_err(|error| damaged(&error))?;
            name.add(&bytes);
            let key = messages::decode_key(&bytes, &direct.known, *input).map_err(|error| damaged(&error))?;
            keys.push((*input, key));
        }
        if name.finish() != place.1 {
            return Err(damaged(&"expected the SHA-256 in its name, found another"));
        }
        let ring = direct.engine.keyring(keys).map_err(|error| super::handle::refused(&error))?;
        *loaded = Some((*place, ring.clone()));
        Ok(ring)
    }
}

#[cfg(test)]
mod tests;
