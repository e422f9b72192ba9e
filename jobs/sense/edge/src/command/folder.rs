//! The key holder's folder.
//!
//! ```text
//!   FOLDER/holder.key             the seed of all keys (0600, never replaced)
//!   FOLDER/devices                the registry: devices' secrets, names and tenants (0600)
//!   FOLDER/fleet.json             the card: public
//!   FOLDER/questions/{id}.json    a registered question (0600)
//!   FOLDER/releases/{id}/{start}.json   the outcome of a window (0600)
//!   FOLDER/releases/{id}/{start}.empty   the note of a window in which too few devices had frames
//!   FOLDER/releases/{id}/{start}.removed the note of a window whose frames the server had removed
//!   FOLDER/releases/{id}/{start}.fetched   the server's results of a window, until it has an
//!                                 outcome (0600)
//!   FOLDER/server/…               objects for the server, to send them again
//!   FOLDER/lock                   locked while the registry changes
//! ```
//!
//! Files are replaced as a whole, so a crash leaves either the old file or the new one.

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

/// Largest size of a file that people write, in bytes.
const MAX_TEXT: u64 = 1 << 20;
/// Largest size of a release in bytes.
pub(super) const MAX_RELEASE: u64 = 1 << 27;
/// Largest size of a token in bytes, with the end of its line.
const MAX_TOKEN: u64 = 256;

/// A key holder's folder, and its fixed contents.
pub struct KeyFolder {
    path: PathBuf,
    /// The seed of all keys.
    pub holder: Holder,
    /// The fleet's card: its name, schema and public key.
    pub card: Card,
}

/// The failure for a problem with a file.
pub(crate) fn wrong(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::Work(format!("{}: {what}", path.display()))
}

/// Parses a TOML file.
pub(crate) fn toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let bytes = read_bounded(path, MAX_TEXT)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong(path, "expected text, found other bytes"))?;
    toml::from_str(text).map_err(|error| wrong(path, error))
}

/// Reads and checks a fleet's card.
pub(crate) fn card(path: &Path) -> Result<Card, Failure> {
    let card: Card = serde_json::from_slice(&read_bounded(path, MAX_CARD)?).map_err(|error| wrong(path, error))?;
    card.check().map_err(|error| wrong(path, error))?;
    Ok(card)
}

/// Makes a folder that only its owner can read.
pub(crate) fn private(path: &Path) -> Result<(), Failure> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| wrong(path, error))
}

/// The path of a device's counter.
pub(crate) fn counter_of(device: &Path) -> PathBuf {
    let mut name = device.as_os_str().to_owned();
    name.push(".counter");
    name.into()
}

/// Writes a device's file and its counter.
pub(crate) fn write_device(path: &Path, token: &Token) -> Result<(), Failure> {
    // the counter first: a key without a counter is not used
    CounterFile::create(&counter_of(path))?;
    let mut line = token.encode();
    line.push('\n');
    write_secret(path, line.as_bytes()).map_err(|error| {
        let _ = fs::remove_file(counter_of(path));
        error.into()
    })
}

/// Reads a device's file.
pub(crate) fn read_device(path: &Path) -> Result<Token, Failure> {
    token_of(path, &Zeroizing::new(read_bounded(path, MAX_TOKEN)?))
}

/// Reads a token; `-` is standard input.
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
    /// Makes a key holder's folder.
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

    /// Opens a key holder's folder.
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

    /// The path of a file in the folder.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads the registry of devices.
    pub fn registry(&self) -> Result<Registry, Failure> {
        let name = self.join("devices");
        let bytes = Zeroizing::new(read_bounded(&name, MAX_REGISTRY)?);
        Registry::decode(&bytes).map_err(|error| wrong(&name, error))
    }

    /// Changes the registry under a lock; if `change` fails, nothing is written.
    pub fn change<T>(&self, change: impl FnOnce(&mut Registry) -> Result<T, Failure>) -> Result<T, Failure> {
        let name = self.join("lock");
        let lock = File::create(&name).map_err(|error| wrong(&name, error))?;
        lock.lock().map_err(|error| wrong(&name, error))?;
        let mut registry = self.registry()?;
        let done = change(&mut registry)?;
        let encoded = registry.encode();
        check_bounded(&self.join("devices"), &encoded, MAX_REGISTRY)?;
        // the new file keeps the mode of the old one
        write_atomically(&self.join("devices"), &encoded)?;
        Ok(done)
    }

    /// Reads the registered questions.
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

    /// The path of a question.
    pub(crate) fn question(&self, id: &str) -> PathBuf {
        self.join("questions").join(id).with_extension("json")
    }

    /// The path of a window's release, or of the note that it was withheld.
    pub(crate) fn release(&self, id: &str, start_ms: u64) -> PathBuf {
        self.join("releases").join(id).join(start_ms.to_string()).with_extension("json")
    }

    /// The path of the note that too few devices had frames in a window.
    pub(crate) fn empty(&self, id: &str, start_ms: u64) -> PathBuf {
        self.release(id, start_ms).with_extension("empty")
    }

    /// The path of the note that the server had removed frames of a window.
    pub(crate) fn removed(&self, id: &str, start_ms: u64) -> PathBuf {
        self.release(id, start_ms).with_extension("removed")
    }

    /// The numbers of a question's windows with a result, of those with too few devices, and of
    /// those whose frames the server had removed.
    pub(crate) fn windows(&self, id: &str) -> Result<(u64, u64, u64), Failure> {
        let folder = self.join("releases").join(id);
        let (mut results, mut empty, mut removed) = (0, 0, 0);
        if !folder.exists() {
            return Ok((0, 0, 0));
        }
        for entry in fs::read_dir(&folder).map_err(|error| wrong(&folder, error))? {
            let path = entry.map_err(|error| wrong(&folder, error))?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => results += 1,
                Some("empty") => empty += 1,
                Some("removed") => removed += 1,
                _ => {}
            }
        }
        Ok((results, empty, removed))
    }

    /// The path of a window's fetched results. The file exists from before decryption until the
    /// results are released or withheld.
    pub(crate) fn fetched(&self, id: &str, start_ms: u64) -> PathBuf {
        self.release(id, start_ms).with_extension("fetched")
    }
}
