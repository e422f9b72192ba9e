//! Keys from the command line, and questions for passphrases at the terminal.

#[cfg(feature = "age")]
use super::arguments::IdentityArguments;
use super::arguments::{KeyArguments, LookArguments, SealArguments};
use chacha20::ChaCha20Rng;
use std::path::Path;
use tobari_command::output::Failure;
use tobari_host::files;
use tobari_seal::KeyFile;
use tobari_seal_files::Keys;
#[cfg(feature = "age")]
use tobari_seal_files::{Ask, Identities, Recipients, recipients_of_lines};
use zeroize::Zeroizing;

/// Bytes of a key file.
const KEY_BYTES: u64 = 32;
/// The most bytes of a file with a passphrase.
const MAX_PASSPHRASE_BYTES: u64 = 4096;
/// The most bytes of a file with recipients or identities.
#[cfg(feature = "age")]
const MAX_AGE_BYTES: u64 = 1 << 20;

/// Keys from the command line, not yet checked to be at least one.
struct Given {
    files: Vec<KeyFile>,
    passphrases: Vec<Zeroizing<Vec<u8>>>,
}

impl Given {
    fn of(arguments: &KeyArguments, twice: bool) -> Result<Self, Failure> {
        let (mut files, mut passphrases) = (Vec::new(), Vec::new());
        for path in &arguments.key_file {
            let wrong = |found: &str| {
                let name = path.display();
                Failure::Work(format!(
                    "{name} is no key file: a key file has exactly 32 bytes, and this file has {found}. \
                     `tobari seal --new-key` makes one"
                ))
            };
            let bytes = match files::read_bounded(path, KEY_BYTES) {
                Ok(bytes) => Zeroizing::new(bytes),
                Err(files::FileError::TooLarge { .. }) => return Err(wrong("more")),
                Err(error) => return Err(error.into()),
            };
            files.push(KeyFile::from_bytes(&bytes).map_err(|_| wrong(&bytes.len().to_string()))?);
        }
        for path in &arguments.passphrase_file {
            passphrases.push(first_line(path)?);
        }
        if arguments.passphrase {
            passphrases.push(asked(twice)?);
        }
        Ok(Self { files, passphrases })
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.passphrases.is_empty()
    }

    fn keys(self) -> Keys {
        Keys::new(self.files, self.passphrases)
    }
}

fn first_line(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let bytes = Zeroizing::new(files::read_bounded(path, MAX_PASSPHRASE_BYTES)?);
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        let expected = "the first line is empty: write the passphrase there";
        return Err(Failure::Work(format!("{}: {expected}", path.display())));
    }
    Ok(Zeroizing::new(line.to_vec()))
}

/// Reads a passphrase from the terminal, without showing it.
fn asked(twice: bool) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let ask = |prompt: &str| {
        let line = rpassword::prompt_password(prompt).map(|line| Zeroizing::new(line.into_bytes()));
        line.map_err(|error| {
            Failure::Work(format!("there is no terminal to ask for a passphrase ({error}): use --passphrase-file"))
        })
    };
    let line = ask("passphrase: ")?;
    if line.is_empty() {
        return Err(Failure::Work("the passphrase is empty: run the command again, and type one".to_owned()));
    }
    if twice && ask("the same again: ")? != line {
        return Err(Failure::Work("the two passphrases differ: run the command again".to_owned()));
    }
    Ok(line)
}

/// Keys to seal with. A new key file is written only after all other keys were read.
pub(super) fn to_seal(arguments: &SealArguments, rng: &mut ChaCha20Rng) -> Result<Keys, Failure> {
    let mut given = Given::of(&arguments.keys, true)?;
    #[cfg(feature = "age")]
    let recipients = recipients(arguments)?;
    if let Some(path) = &arguments.new_key {
        let key = KeyFile::random(rng);
        files::write_secret(path, key.expose_bytes())?;
        given.files.push(key);
    }
    #[cfg(feature = "age")]
    if let Some(recipients) = recipients {
        return Ok(given.keys().with_recipients(recipients));
    }
    if given.is_empty() {
        let recipient = if cfg!(feature = "age") { ", --recipient" } else { "" };
        return Err(Failure::Call(format!(
            "no key is given: add --new-key FILE to make one, or --key-file, --passphrase or --passphrase-file{recipient}"
        )));
    }
    Ok(given.keys())
}

#[cfg(feature = "age")]
fn recipients(arguments: &SealArguments) -> Result<Option<Recipients>, Failure> {
    let mut texts = arguments.recipients.recipient.clone();
    for path in &arguments.recipients.recipients_file {
        let bytes = files::read_bounded(path, MAX_AGE_BYTES)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            Failure::Work(format!("{} is no text: write recipients of age there, one a line", path.display()))
        })?;
        let before = texts.len();
        texts.extend(recipients_of_lines(&text).map(str::to_owned));
        if texts.len() == before {
            return Err(Failure::Work(format!(
                "{} has no recipient of age: write recipients there, one a line",
                path.display()
            )));
        }
    }
    if texts.is_empty() {
        return Ok(None);
    }
    Ok(Some(Recipients::parse(texts.iter().map(String::as_str), &terminal())?))
}

/// Keys to open with.
pub(super) fn to_open(
    arguments: &KeyArguments,
    #[cfg(feature = "age")] identities: &IdentityArguments,
) -> Result<Keys, Failure> {
    let given = Given::of(arguments, false)?;
    #[cfg(feature = "age")]
    if !identities.identity.is_empty() {
        let (mut all, ask) = (Identities::default(), terminal());
        for path in &identities.identity {
            let bytes = Zeroizing::new(files::read_bounded(path, MAX_AGE_BYTES)?);
            all.add(&path.display().to_string(), &bytes, &ask)?;
        }
        return Ok(given.keys().with_identities(all));
    }
    if given.is_empty() {
        let identity = if cfg!(feature = "age") { ", --identity" } else { "" };
        return Err(Failure::Call(format!(
            "no key is given: add --key-file, --passphrase{identity} or --passphrase-file"
        )));
    }
    Ok(given.keys())
}

/// Keys to look with.
pub(super) fn to_look(arguments: &LookArguments) -> Result<Keys, Failure> {
    to_open(
        &arguments.keys,
        #[cfg(feature = "age")]
        &arguments.identities,
    )
}

#[cfg(feature = "age")]
fn terminal() -> std::sync::Arc<dyn Ask> {
    std::sync::Arc::new(Terminal)
}

/// The terminal, where plugins of age ask their questions.
#[cfg(feature = "age")]
struct Terminal;

#[cfg(feature = "age")]
impl Ask for Terminal {
    fn tell(&self, message: &str) {
        tobari_command::output::say(message);
    }

    fn line(&self, question: &str) -> Option<String> {
        use std::io::{BufRead, Write};
        // Not standard input: it may be the source to seal.
        let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        write!(terminal, "{question}").ok()?;
        let mut line = String::new();
        std::io::BufReader::new(terminal).read_line(&mut line).ok()?;
        Some(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn secret(&self, question: &str) -> Option<Zeroizing<String>> {
        rpassword::prompt_password(format!("{question}: ")).ok().map(Zeroizing::new)
    }
}
