//! The key holder's folder.
//!
//! ```text
//!   FOLDER/holder.key             the seed of all keys (0600, never replaced)
//!   FOLDER/devices                the registry: devices' secrets, names and tenants (0600)
//!   FOLDER/fleet.json             the card: public
//!   FOLDER/questions/{id}.json    what is registered (0600)
//!   FOLDER/releases/{id}/{start}.json   what became of each window, once (0600)
//!   FOLDER/releases/{id}/{start}.fetched   the server's results of a window, until there is the former (0600)
//!   FOLDER/server/…               what the server is given, kept to be sent again
//!   FOLDER/lock                   held while the registry changes
//! ```
//!
//! Files are replaced whole or not at all, so that a crash leaves the old one or the new one.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use tobari_command::output::Failure;
use tobari_host::files::{check_bounded, read_bounded, write_atomically, write_secret};
use tobari_sense::enrol::{Card, MAX_CARD};
use tobari_sense::holder::{HOLDER, Holder};
use tobari_sense::question::{MAX_REGISTERED, Registered};
use tobari_sense::registry::{MAX_REGISTRY, Registry, Token};
use tobari_sense::schema::Schema;
use tobari_sense_files::CounterFile;
use zeroize::Zeroizing;

/// Bytes of a file that people write at most.
const MAX_TEXT: u64 = 1 << 20;
/// Bytes of a release at most.
pub(super) const MAX_RELEASE: u64 = 1 << 27;
/// Bytes of a token at most, its line's end included.
const MAX_TOKEN: u64 = 256;

/// A key holder's folder, and what never changes in it.
pub struct KeyFolder {
    path: PathBuf,
    /// The seed of all keys.
    pub holder: Holder,
    /// What the fleet is called, and how it is set up.
    pub card: Card,
}

/// What is wrong with a file.
pub(crate) fn wrong(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::Work(format!("{}: {what}", path.display()))
}

/// TOML as what is expected.
pub(crate) fn toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let bytes = read_bounded(path, MAX_TEXT)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong(path, "expected text, found other bytes"))?;
    toml::from_str(text).map_err(|error| wrong(path, error))
}

/// A fleet's card.
pub(crate) fn card(path: &Path) -> Result<Card, Failure> {
    let card: Card = serde_json::from_slice(&read_bounded(path, MAX_CARD)?).map_err(|error| wrong(path, error))?;
    card.check().map_err(|error| wrong(path, error))?;
    Ok(card)
}

/// Makes a folder that its owner alone may look into.
pub(crate) fn private(path: &Path) -> Result<(), Failure> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| wrong(path, error))
}

/// Where a device's counter is.
pub(crate) fn counter_of(device: &Path) -> PathBuf {
    let mut name = device.as_os_str().to_owned();
    name.push(".counter");
    name.into()
}

/// Writes the file of a device, and its counter.
pub(crate) fn write_device(path: &Path, token: &Token) -> Result<(), Failure> {
    // the counter first: a key without one is not used
    CounterFile::create(&counter_of(path))?;
    let mut line = token.encode();
    line.push('\n');
    Ok(write_secret(path, line.as_bytes())?)
}

/// Reads the file of a device.
pub(crate) fn read_device(path: &Path) -> Result<Token, Failure> {
    token_of(path, &Zeroizing::new(read_bounded(path, MAX_TOKEN)?))
}

/// Reads a token, where `-` is standard input.
pub(crate) fn read_token(path: &Path) -> Result<Token, Failure> {
    if path != Path::new("-") {
        return read_device(path);
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_TOKEN as usize));
    std::io::stdin().lock().take(MAX_TOKEN).read_to_end(&mut bytes)?;
    token_of(path, &bytes)
}

fn token_of(path: &Path, bytes: &[u8]) -> Result<Token, Failure> {
    let line = std::str::from_utf8(bytes).unwrap_or_default();
    Token::decode(line.trim_end_matches(['\r', '\n'])).map_err(|error| wrong(path, error))
}

impl KeyFolder {
    /// Makes one.
    pub fn create(path: &Path, holder: Holder, schema: Schema) -> Result<Self, Failure> {
        let card = Card::new(&holder, schema);
        let described = serde_json::to_vec_pretty(&card)?;
        check_bounded(&path.join("fleet.json"), &described, MAX_CARD)?;
        private(path)?;
        write_secret(&path.join("holder.key"), &holder.encode())?;
        write_secret(&path.join("devices"), &Registry::default().encode())?;
        write_atomically(&path.join("fleet.json"), &described)?;
        let folder = Self { path: path.to_owned(), holder, card };
        for name in ["questions", "releases", "server"] {
            private(&folder.path.join(name))?;
        }
        Ok(folder)
    }

    /// Opens one.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.join("holder.key");
        let bytes = Zeroizing::new(read_bounded(&name, HOLDER as u64)?);
        let holder = Holder::decode(&bytes).map_err(|error| wrong(&name, error))?;
        let name = path.join("fleet.json");
        let card = card(&name)?;
        if card != Card::new(&holder, card.schema.clone()) {
            return Err(wrong(&name, "expected the card of this folder's key, found another's"));
        }
        Ok(Self { path: path.to_owned(), holder, card })
    }

    /// Where something of it is.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The devices.
    pub fn registry(&self) -> Result<Registry, Failure> {
        let name = self.join("devices");
        let bytes = Zeroizing::new(read_bounded(&name, MAX_REGISTRY)?);
        Registry::decode(&bytes).map_err(|error| wrong(&name, error))
    }

    /// Changes the registry, alone; what `change` refuses is not written.
    pub fn change<T>(&self, change: impl FnOnce(&mut Registry) -> Result<T, Failure>) -> Result<T, Failure> {
        let name = self.join("lock");
        let lock = File::create(&name).map_err(|error| wrong(&name, error))?;
        lock.lock().map_err(|error| wrong(&name, error))?;
        let mut registry = self.registry()?;
        let done = change(&mut registry)?;
        let encoded = registry.encode();
        check_bounded(&self.join("devices"), &encoded, MAX_REGISTRY)?;
        // the mode of the file that it replaces is kept
        write_atomically(&self.join("devices"), &encoded)?;
        Ok(done)
    }

    /// What is registered.
    pub(crate) fn questions(&self) -> Result<Vec<Registered>, Failure> {
        let (folder, names) = (self.join("questions"), self.holder.question_names());
        let mut all = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| wrong(&folder, error))? {
            let path = entry.map_err(|error| wrong(&folder, error))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let bytes = read_bounded(&path, MAX_REGISTERED)?;
            let registered: Registered = serde_json::from_slice(&bytes).map_err(|error| wrong(&path, error))?;
            if path.file_stem().is_none_or(|stem| *stem != *registered.id()) || !registered.is_named_by(&names) {
                return Err(wrong(
                    &path,
                    "expected a question under the name that this folder's key gives it, found one that was changed, \
                     or that an earlier version registered under a name that a server can guess. Remove this file, \
                     and register the question again",
                ));
            }
            all.push(registered);
        }
        all.sort_by(|a, b| a.question.name.cmp(&b.question.name));
        Ok(all)
    }

    /// Where a question is.
    pub(crate) fn question(&self, id: &str) -> PathBuf {
        self.join("questions").join(id).with_extension("json")
    }

    /// Where what became of a window is.
    pub(crate) fn release(&self, id: &str, start_ms: u64) -> PathBuf {
        self.join("releases").join(id).join(start_ms.to_string()).with_extension("json")
    }

    /// Where the results of a window are, from before they are opened until they are released or
    /// withheld.
    pub(crate) fn fetched(&self, id: &str, start_ms: u64) -> PathBuf {
        self.release(id, start_ms).with_extension("fetched")
    }
}
