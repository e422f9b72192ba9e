//! Keys and accounts of clients on the disk, so that a restart forgets no budget.
//!
//! ```text
//!   FOLDER/lock                          locked while a server runs
//!   FOLDER/{client}/{set}.key            a registration
//!   FOLDER/{client}/search-hidden.key    a registration for questions with the place hidden; read
//!                                        only when needed
//!   FOLDER/{client}/account              the client's spent tests and uses
//!                                        (tobari_search::desk::ledger)
//!   FOLDER/{client}/origin               the origin of the client that has this place, hashed with
//!                                        FOLDER/salt (tobari_node::places); folders of earlier
//!                                        releases do not have this file
//! ```
//!
//! The last use of a place is the time of its newest file. A place that was given away has no keys,
//! and no folder, unless its account stays.
//!
//! Files are replaced whole and flushed. An account is written before the answer that it pays
//! leaves. A server that crashes in between has charged without an answer, but never answers
//! without a charge. Charges of one client that arrive while its account is being written share the
//! next write. A key is written before the account that says it is unused. A file that is there and
//! cannot be read is an error, not an empty account.

use super::{SearchError, State, lock};
use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tobari_host::files::{FileError, read_bounded, write_atomically};
use tobari_node::disk::Disk;
use tobari_node::places::{self, Keeper, Tag};
use tobari_octets::{hex, sha256, unhex};
use tobari_search::desk::ledger::Account;
use tobari_search::messages::CLIENT_BYTES;
use tobari_search::program;

const MAX_KEY_BYTES: u64 = 1 << 22;
pub(super) const MAX_HIDDEN_KEY_BYTES: u64 = 1 << 24;
const MAX_ACCOUNT_BYTES: u64 = 1 << 28;

/// The set of parameters of questions with the place hidden.
pub(super) const HIDDEN: &str = "search-hidden";

/// The file with the owner of a place.
const ORIGIN: &str = "origin";

/// The number of charges that a client's written account includes.
type Written = Arc<Mutex<u64>>;

pub(super) struct Store {
    folder: PathBuf,
    disk: Disk,
    written: Mutex<HashMap<[u8; CLIENT_BYTES], Written>>,
    /// Locked while the store is open.
    _lock: File,
}

impl Store {
    /// Opens a folder, and loads its content.
    pub(super) fn open(folder: &Path, state: &mut State) -> Result<Self, SearchError> {
        let fault = |error| SearchError::file(folder, error);
        fs::create_dir_all(folder).map_err(fault)?;
        let lock = File::create(folder.join("lock")).map_err(fault)?;
        if lock.try_lock().is_err() {
            return Err(SearchError::file(
                folder,
                "another server or backup uses this folder: stop it, or choose another folder",
            ));
        }
        for entry in fs::read_dir(folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            if let Some(client) = entry.file_name().to_str().and_then(unhex) {
                take_up(&entry.path(), client, state)?;
            }
        }
        let disk = Disk::folder("the folder of keys and accounts", folder);
        Ok(Self { folder: folder.to_owned(), disk, written: Mutex::default(), _lock: lock })
    }

    /// The disk of the store.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether a key with this hash is stored. A key that arrived while the disk failed is in
    /// memory only.
    pub(super) fn has_key(&self, client: &[u8; CLIENT_BYTES], set: &str, hash: &[u8; 32]) -> bool {
        let path = self.folder.join(hex(client)).join(set).with_extension("key");
        read_bounded(&path, MAX_HIDDEN_KEY_BYTES).is_ok_and(|bytes| sha256(&bytes) == *hash)
    }

    /// Writes a key; its account is written after it.
    pub(super) fn write_key(&self, client: &[u8; CLIENT_BYTES], set: &str, bytes: &[u8]) -> Result<(), FileError> {
        let folder = self.folder.join(hex(client));
        let fault = |source| FileError::Write { name: folder.display().to_string(), source };
        fs::create_dir_all(&folder).map_err(fault)?;
        write_atomically(&folder.join(set).with_extension("key"), bytes)
    }

    /// Writes the owner of a place, with the present time. The file is beside the keys.
    pub(super) fn write_origin(&self, client: &[u8; CLIENT_BYTES], tag: &Tag) -> Result<(), FileError> {
        let folder = self.folder.join(hex(client));
        let fault = |source| FileError::Write { name: folder.display().to_string(), source };
        fs::create_dir_all(&folder).map_err(fault)?;
        Keeper::write(&folder.join(ORIGIN), tag)
    }

    /// Removes the files of a client that lost its place, except the account if it is to stay.
    pub(super) fn remove(&self, client: &[u8; CLIENT_BYTES], keep_account: bool) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(client);
        let folder = self.folder.join(hex(client));
        let removed = match keep_account {
            false => fs::remove_dir_all(&folder),
            true => keys().map(|set| folder.join(set).with_extension("key")).chain([folder.join(ORIGIN)]).try_for_each(
                |path| match fs::remove_file(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    other => other,
                },
            ),
        };
        if let Err(error) = removed.or_else(|error| if folder.exists() { Err(error) } else { Ok(()) }) {
            tracing::error!(%error, "the stored data of a client that was away for long cannot be removed");
        }
    }

    /// Writes a key for questions with the place hidden; its account is written after it.
    pub(super) fn write_hidden_key(&self, client: &[u8; CLIENT_BYTES], bytes: &[u8]) -> Result<(), FileError> {
        self.write_key(client, HIDDEN, bytes)
    }

    /// Reads this key again.
    pub(super) fn read_hidden_key(&self, client: &[u8; CLIENT_BYTES]) -> Result<Vec<u8>, FileError> {
        read_bounded(&self.folder.join(hex(client)).join(HIDDEN).with_extension("key"), MAX_HIDDEN_KEY_BYTES)
    }

    /// Writes a client's account, unless the written account includes this charge.
    pub(super) fn write_account(
        &self,
        client: &[u8; CLIENT_BYTES],
        charge: u64,
        state: &Mutex<State>,
    ) -> Result<(), FileError> {
        let written =
            Arc::clone(self.written.lock().unwrap_or_else(PoisonError::into_inner).entry(*client).or_default());
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written >= charge {
            return Ok(());
        }
        let (account, charges) = {
            let state = lock(state);
            (state.desk.account(client), state.charges)
        };
        if let Some(account) = account {
            write_atomically(&self.folder.join(hex(client)).join("account"), &account.encode())?;
        }
        *written = charges;
        Ok(())
    }
}

/// All sets of parameters for clients' keys.
fn keys() -> impl Iterator<Item = &'static str> {
    program::sets().map(|set| set.name).chain([HIDDEN])
}

/// Loads a client's keys, its place, and then its account.
fn take_up(folder: &Path, client: [u8; CLIENT_BYTES], state: &mut State) -> Result<(), SearchError> {
    for set in program::sets() {
        let path = folder.join(set.name).with_extension("key");
        if path.exists() {
            let bytes = read_bounded(&path, MAX_KEY_BYTES).map_err(|error| SearchError::file(&path, error))?;
            let registered = state.desk.register(client, set.name, &bytes);
            registered.map_err(|error| SearchError::file(&path, error))?;
            state.keys.entry(client).or_default().insert(set.name, sha256(&bytes));
            state.sizes.entry(client).or_default().insert(set.name, bytes.len() as u64);
        }
    }
    let path = folder.join(HIDDEN).with_extension("key");
    if path.exists() {
        let bytes = read_bounded(&path, MAX_HIDDEN_KEY_BYTES).map_err(|error| SearchError::file(&path, error))?;
        state.desk.register_hidden(client, sha256(&bytes), None)?;
        state.sizes.entry(client).or_default().insert(HIDDEN, bytes.len() as u64);
    }
    if let Some(sizes) = state.sizes.get(&client) {
        let files = keys().map(|set| format!("{set}.key")).chain([ORIGIN.to_owned(), "account".to_owned()]);
        let used = places::used(files.map(|name| folder.join(name)));
        state.places.restore(client, Keeper::read(&folder.join(ORIGIN)), sizes.values().sum(), used);
    }
    let path = folder.join("account");
    if !path.exists() {
        return Ok(());
    }
    let bytes = read_bounded(&path, MAX_ACCOUNT_BYTES).map_err(|error| SearchError::file(&path, error))?;
    let account = Account::decode(&bytes).map_err(|error| SearchError::file(&path, error))?;
    if account.client != client {
        return Err(SearchError::file(&path, "expected the account of the client that the folder is named after"));
    }
    state.desk.restore(&account);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::time::Duration;
    use tobari_node::{places::PlaceLimits, share::Share};
    use tobari_search::desk::Limits;

    fn state() -> State {
        let places = PlaceLimits { count: 9, bytes: 9, idle: Duration::from_secs(9), share: Share::new(50) };
        State::new(Limits::default(), places)
    }

    /// A file in the place of a client's key or account is an error with the file's name, not an
    /// empty account.
    #[test]
    fn whatever_lies_in_a_clients_folder_is_refused_by_its_name() {
        let names: Vec<String> =
            program::sets().map(|set| format!("{}.key", set.name)).chain(["account".to_owned()]).collect();
        for name in &names {
            for length in [0, 1, 7, 64, 1_000, 300_000] {
                let folder = tempfile::tempdir().unwrap();
                let client = folder.path().join(hex(&[7; CLIENT_BYTES]));
                fs::create_dir(&client).unwrap();
                let noise: Vec<u8> = sha256(name.as_bytes()).into_iter().cycle().take(length).collect();
                fs::write(client.join(name), noise).unwrap();
                let mut state = state();
                let error = Store::open(folder.path(), &mut state).err().unwrap().to_string();
                assert!(error.contains(name.as_str()), "{name}, {length} bytes: {error}");
                assert!(state.desk.account(&[7; CLIENT_BYTES]).is_none(), "{name}, {length} bytes");
            }
        }
    }
}
