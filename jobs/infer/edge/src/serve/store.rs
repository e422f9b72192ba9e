//! Clients' evaluation keys on the disk, so that a restarted server has them.
//!
//! ```text
//!   FOLDER/infer/lock                    locked while a server runs
//!   FOLDER/infer/{digest}/{hash}.keys    keys for the model with this digest, as the client sent
//!                                        them; the hash is their SHA-256
//! ```
//!
//! A file `{hash}.origin` beside the keys has a salted hash of the client whose room the keys take
//! (tobari_node::places); keys of earlier releases have none. The time of the file of keys is that
//! of the last use.
//!
//! Files are written completely and flushed before the sender gets a reply. A file that does not
//! match its name is an error; files for models that are not served now are left alone.

use super::{InferError, Name, Shared};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};
use tobari_host::files::{FileError, read_bounded, write_atomically};
use tobari_node::{
    disk::Disk,
    places::{self, Keeper, Tag},
};
use tobari_octets::{hex, sha256, unhex};

/// A model, and keys for it.
type Place = (Name, Name);

/// The extension of the file with the hash of the keys' client.
const ORIGIN: &str = "origin";
/// The extension of a file of keys.
const KEYS: &str = "keys";
/// The extension of a file of keys of which some are still missing.
const PART: &str = "part";

pub(super) struct Store {
    folder: PathBuf,
    disk: Disk,
    /// Locked while it is open.
    _lock: File,
}

impl Store {
    /// Opens a folder.
    pub(super) fn open(folder: &Path) -> Result<Self, InferError> {
        let folder = folder.join("infer");
        let fault = |error| InferError::file(&folder, error);
        fs::create_dir_all(&folder).map_err(fault)?;
        let lock = File::create(folder.join("lock")).map_err(fault)?;
        if lock.try_lock().is_err() {
            return Err(InferError::file(
                folder,
                "another server or backup uses this folder: stop it, or choose another folder",
            ));
        }
        let disk = Disk::folder("the folder of clients' keys", &folder);
        Ok(Self { folder, disk, _lock: lock })
    }

    /// The state of the disk.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The keeper of the clients of keys.
    pub(super) fn keeper(&self) -> Result<Keeper, InferError> {
        Keeper::open(&self.folder).map_err(|error| InferError::file(&self.folder, error))
    }

    /// The file of complete keys.
    pub(super) fn path(&self, (model, hash): &Place) -> PathBuf {
        self.folder.join(hex(model)).join(hex(hash)).with_extension(KEYS)
    }

    /// The file of keys of which some are still missing.
    pub(super) fn part(&self, place: &Place) -> PathBuf {
        self.path(place).with_extension(PART)
    }

    /// The file with the hash of the keys' client.
    pub(super) fn origin(&self, place: &Place) -> PathBuf {
        self.path(place).with_extension(ORIGIN)
    }

    /// Removes keys of which some are still missing.
    pub(super) fn remove_part(&self, place: &Place) {
        let _ = fs::remove_file(self.part(place));
    }

    /// The same of all keys of a model.
    ///
    /// # Errors
    /// [`InferError`] for a folder that cannot be read.
    pub(super) fn remove_parts(&self, model: &Name) -> Result<(), InferError> {
        for (_, place) in self.of_kind(model, PART)? {
            self.remove_part(&place);
        }
        Ok(())
    }

    /// Stores keys.
    pub(super) fn write(&self, place: &Place, tag: &Tag, bytes: &[u8]) -> Result<(), FileError> {
        let (path, folder) = (self.path(place), self.folder.join(hex(&place.0)));
        let fault = |source| FileError::Write { name: folder.display().to_string(), source };
        fs::create_dir_all(&folder).map_err(fault)?;
        Keeper::write(&path.with_extension(ORIGIN), tag)?;
        write_atomically(&path, bytes)
    }

    /// Records a use of keys at this time.
    pub(super) fn tell(&self, place: &Place, now: SystemTime) {
        places::tell(&self.path(place), now);
    }

    /// Removes keys whose room another client took.
    pub(super) fn remove(&self, place: &Place) {
        let path = self.path(place);
        let removed = [path.with_extension(ORIGIN), path].map(fs::remove_file);
        for error in removed.into_iter().filter_map(Result::err).filter(|error| error.kind() != io::ErrorKind::NotFound)
        {
            tracing::error!(%error, "keys that were not used for long cannot be removed");
        }
    }

    /// Loads the keys of all served models, the most recently used first, and removes keys without
    /// room.
    pub(super) fn take_up(&self, shared: &Shared) -> Result<(), InferError> {
        let mut kept = Vec::new();
        for (model, served) in &shared.models {
            match served.direct().ok().filter(|direct| direct.is_large) {
                Some(direct) => shared.large.take_up(self, model, direct.keys.0 as u64)?,
                None => kept.extend(self.of_model(model)?),
            }
        }
        kept.sort_unstable_by(|one, other| other.cmp(one));
        let (mut bytes, mut given) = (0u64, 0);
        for (used, place) in kept {
            let Some(served) = shared.models.get(&place.0) else { continue };
            let Ok(direct) = served.direct() else { continue };
            bytes = bytes.saturating_add(direct.keys.1);
            if bytes > shared.options.key_bytes {
                (bytes, given) = (bytes - direct.keys.1, given + 1);
                self.remove(&place);
                continue;
            }
            let path = self.path(&place);
            let whole = read_bounded(&path, direct.keys.0 as u64).map_err(|error| InferError::file(&path, error))?;
            if sha256(&whole) != place.1 {
                let text = "damaged keys: expected their SHA-256 in the name, found another";
                return Err(InferError::file(&path, text));
            }
            let ring = shared.make_ready(served, &whole).map_err(|reply| InferError::file(&path, reply.text))?;
            let mut keys = shared.keys();
            keys.rings.insert(place, ring);
            keys.places.restore(place, Keeper::read(&path.with_extension(ORIGIN)), direct.keys.1, used);
        }
        if given > 0 {
            tracing::warn!(
                keys = given,
                "there is less room than keys that were kept: those that were not used for longest are removed"
            );
        }
        Ok(())
    }

    /// The names of a model's keys, and their times of last use.
    pub(super) fn of_model(&self, model: &Name) -> Result<Vec<(SystemTime, Place)>, InferError> {
        self.of_kind(model, KEYS)
    }

    /// The names of a model's files with this extension, and their times.
    fn of_kind(&self, model: &Name, kind: &str) -> Result<Vec<(SystemTime, Place)>, InferError> {
        let folder = self.folder.join(hex(model));
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let fault = |error| InferError::file(&folder, error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(unhex::<32>);
            let hash = stem.filter(|_| path.extension().is_some_and(|extension| extension == kind));
            found.extend(hash.map(|hash| (places::used([&path].into_iter()), (*model, hash))));
        }
        Ok(found)
    }
}
