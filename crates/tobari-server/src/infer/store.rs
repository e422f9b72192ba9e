//! Clients' evaluation keys on the disk, so that a new start knows them.
//!
//! ```text
//!   FOLDER/infer/lock                    held while a server runs
//!   FOLDER/infer/{digest}/{hash}.keys    keys for the model of this digest, as they were sent; the hash is their SHA-256
//! ```
//!
//! Files are written whole and flushed before their sender hears that the keys are there. A file that is not what its name says is an error; those of models that are not served now are left alone.

use super::{InferError, Name, Shared};
use crate::search::{hex, sha256, unhex};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};
use tobari_host::files::{FileError, read_bounded, write_atomically};

pub(super) struct Store {
    folder: PathBuf,
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
                "expected a folder that no other server uses, found one that is used",
            ));
        }
        Ok(Self { folder, _lock: lock })
    }

    /// Keeps keys.
    pub(super) fn write(&self, model: &Name, hash: &Name, bytes: &[u8]) -> Result<(), FileError> {
        let folder = self.folder.join(hex(model));
        let fault = |source| FileError::Write { name: folder.display().to_string(), source };
        fs::create_dir_all(&folder).map_err(fault)?;
        write_atomically(&folder.join(hex(hash)).with_extension("keys"), bytes)
    }

    /// The keys of all models that are served.
    pub(super) fn take_up(&self, shared: &Shared) -> Result<(), InferError> {
        for (model, served) in &shared.models {
            let folder = self.folder.join(hex(model));
            if !folder.exists() {
                continue;
            }
            let fault = |error| InferError::file(&folder, error);
            for entry in fs::read_dir(&folder).map_err(fault)? {
                let path = entry.map_err(fault)?.path();
                let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(unhex::<32>);
                let Some(hash) = stem.filter(|_| path.extension().is_some_and(|extension| extension == "keys")) else {
                    continue;
                };
                let bytes =
                    read_bounded(&path, served.keys.0 as u64).map_err(|error| InferError::file(&path, error))?;
                if sha256(&bytes) != hash {
                    return Err(InferError::file(
                        &path,
                        "damaged keys: expected their SHA-256 in the name, found another",
                    ));
                }
                shared.take(model, served, hash, &bytes, false).map_err(|reply| InferError::file(&path, reply.text))?;
            }
        }
        Ok(())
    }
}
