//! Recipients and identities of [age](https://age-encryption.org): the set's key in a small age
//! file, decrypted by any one of the identities.
//!
//! The `age` crate implements native keys (X25519, and tagged keys of hardware, also post-quantum).
//! A plugin implements every other kind: a program `age-plugin-NAME` in the search path, which may
//! ask the user at the terminal ([`Ask`]). All recipients of a set share one age file if it is
//! short enough. So age's own rule holds: post-quantum recipients are not mixed with others.
//!
//! **A recipient is public**: anybody can wrap a key for it. So an identity proves the right to
//! read, but says nothing about the writer. For this reason no set is *continued* with a key that
//! only an identity unwrapped (`Keys::unwrap_own`): the storage provider of an unfinished set could
//! have replaced the key by its own.

use super::FileProblem;
use age::armor::ArmoredReader;
use age::encrypted::EncryptedIdentity;
use age::secrecy::{ExposeSecret, SecretString};
use age::{DecryptError, Decryptor, Encryptor, IdentityFile};
use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use tobari_seal::{MAX_WRAPPED_BYTES, SetKey, Stanza};
use zeroize::Zeroizing;

/// The most recipients of a set.
pub const MAX_RECIPIENTS: usize = 256;
/// The most memory for the passphrase of an identity file, as a power of two: 2^20 blocks of 1 KiB.
const MAX_WORK_FACTOR: u8 = 20;

/// Questions to the user, from plugins and for identity files with a passphrase.
pub trait Ask: Send + Sync {
    /// Shows a message, such as "touch the key".
    fn tell(&self, message: &str);
    /// Asks for a line; `None` without a user.
    fn line(&self, question: &str) -> Option<String>;
    /// Asks for a line that is not shown; `None` without a user.
    fn secret(&self, question: &str) -> Option<Zeroizing<String>>;
}

/// No user: every question fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Ask for Nobody {
    fn tell(&self, _: &str) {}

    fn line(&self, _: &str) -> Option<String> {
        None
    }

    fn secret(&self, _: &str) -> Option<Zeroizing<String>> {
        None
    }
}

#[derive(Clone)]
struct Callbacks(Arc<dyn Ask>);

impl age::Callbacks for Callbacks {
    fn display_message(&self, message: &str) {
        self.0.tell(message);
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let answer = self.0.line(&format!("{message} ({yes}/{}) ", no.unwrap_or("no")))?;
        Some(answer.trim().eq_ignore_ascii_case(yes))
    }

    fn request_public_string(&self, description: &str) -> Option<String> {
        self.0.line(description)
    }

    fn request_passphrase(&self, description: &str) -> Option<SecretString> {
        self.0.secret(description).map(|secret| SecretString::from(secret.as_str().to_owned()))
    }
}

fn problem(name: &str, found: impl std::fmt::Display) -> FileProblem {
    FileProblem::Age { name: name.to_owned(), found: found.to_string() }
}

/// The recipients of a set.
pub struct Recipients {
    all: Vec<Box<dyn age::Recipient + Send>>,
}

impl Recipients {
    /// Parses recipients from their texts, such as `age1…`; at least one.
    ///
    /// # Errors
    /// [`FileProblem::Age`] for an invalid recipient, a missing plugin, no recipient, or more than
    /// [`MAX_RECIPIENTS`].
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>, ask: &Arc<dyn Ask>) -> Result<Self, FileProblem> {
        let (mut all, mut plugins) = (Vec::new(), BTreeMap::<String, Vec<age::plugin::Recipient>>::new());
        let mut count = 0;
        for text in texts {
            count += 1;
            match native(text) {
                Some(recipient) => all.push(recipient),
                None => {
                    let recipient: age::plugin::Recipient = text.parse().map_err(|_| no_recipient(text))?;
                    plugins.entry(recipient.plugin().to_owned()).or_default().push(recipient);
                }
            }
        }
        if !(1..=MAX_RECIPIENTS).contains(&count) {
            let found = format!("expected 1 to {MAX_RECIPIENTS} recipients, found {count}");
            return Err(problem("recipients", found));
        }
        for (name, recipients) in plugins {
            let plugin = age::plugin::RecipientPluginV1::new(&name, &recipients, &[], Callbacks(ask.clone()));
            all.push(Box::new(plugin.map_err(|error| problem("recipients", error))?));
        }
        Ok(Self { all })
    }

    /// Wraps the set's key for all recipients: in one age file, or in several if one is too long.
    pub(super) fn wrap(&self, set: &SetKey) -> Result<Vec<Stanza>, FileProblem> {
        let all: Vec<&dyn age::Recipient> =
            self.all.iter().map(|recipient| &**recipient as &dyn age::Recipient).collect();
        let mut stanzas = Vec::new();
        wrap(&all, set, &mut stanzas)?;
        Ok(stanzas)
    }
}

/// Tries one file for all first. So recipients that must not be mixed are rejected before any
/// split.
fn wrap(recipients: &[&dyn age::Recipient], set: &SetKey, stanzas: &mut Vec<Stanza>) -> Result<(), FileProblem> {
    let file = encrypted(recipients, set)?;
    if file.len() > MAX_WRAPPED_BYTES && recipients.len() > 1 {
        let (some, others) = recipients.split_at(recipients.len() / 2);
        wrap(some, set, stanzas)?;
        return wrap(others, set, stanzas);
    }
    stanzas.push(Stanza::for_age(file).map_err(|error| problem("recipients", error))?);
    Ok(())
}

fn encrypted(recipients: &[&dyn age::Recipient], set: &SetKey) -> Result<Vec<u8>, FileProblem> {
    let encryptor =
        Encryptor::with_recipients(recipients.iter().copied()).map_err(|error| problem("recipients", error))?;
    let mut file = Vec::new();
    let written = encryptor.wrap_output(&mut file).and_then(|mut out| {
        out.write_all(set.expose_bytes())?;
        out.finish().map(|_| ())
    });
    written.map_err(|error| problem("recipients", error))?;
    Ok(file)
}

fn native(text: &str) -> Option<Box<dyn age::Recipient + Send>> {
    if let Ok(recipient) = text.parse::<age::x25519::Recipient>() {
        return Some(Box::new(recipient));
    }
    if let Ok(recipient) = text.parse::<age::tagpq::Recipient>() {
        return Some(Box::new(recipient));
    }
    text.parse::<age::tag::Recipient>().ok().map(|recipient| Box::new(recipient) as _)
}

/// The problem of an invalid recipient. A message must not repeat a secret key given by mistake.
fn no_recipient(text: &str) -> FileProblem {
    if text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("age-")) {
        return problem("recipients", "expected a recipient (age1…), found an identity, which is secret");
    }
    let start: String = text.chars().take(100).collect();
    problem("recipients", format!("expected a recipient of age (age1…), found {}", start.escape_debug()))
}

/// The recipients of a file: one on each line. Empty lines and lines that begin with `#` are
/// skipped.
pub fn recipients_of_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Identities, which decrypt age files.
#[derive(Default)]
pub struct Identities {
    all: Vec<Box<dyn age::Identity + Send + Sync>>,
}

impl Identities {
    /// Adds the identities of an identity file, which may be encrypted with a passphrase; `name` is
    /// for messages.
    ///
    /// # Errors
    /// [`FileProblem::Age`] for another file, a file without identities, a missing or wrong
    /// passphrase, or a missing plugin.
    pub fn add(&mut self, name: &str, bytes: &[u8], ask: &Arc<dyn Ask>) -> Result<(), FileProblem> {
        let callbacks = Callbacks(ask.clone());
        let wrong = |error: DecryptError| problem(name, error);
        let encrypted = [&b"age-encryption.org/"[..], b"-----BEGIN AGE"].iter().any(|start| bytes.starts_with(start));
        let file = if encrypted {
            let decryptor = Decryptor::new_buffered(BufReader::new(ArmoredReader::new(bytes))).map_err(wrong)?;
            let found = "expected an identity file, found a file that no passphrase opens";
            let file = EncryptedIdentity::new(decryptor, callbacks, Some(MAX_WORK_FACTOR));
            file.ok_or_else(|| problem(name, found))?.decrypt(Some(name)).map_err(wrong)?
        } else {
            IdentityFile::from_buffer(bytes).map_err(|error| problem(name, error))?.with_callbacks(callbacks)
        };
        let identities = file.into_identities().map_err(wrong)?;
        if identities.is_empty() {
            return Err(problem(name, "expected an identity (AGE-SECRET-KEY-1…), found none"));
        }
        self.all.extend(identities);
        Ok(())
    }

    /// The set's key, if the stanza is an age file that one of the identities decrypts.
    pub(super) fn unwrap(&self, stanza: &Stanza) -> Result<Option<SetKey>, FileProblem> {
        // Other stanzas were not made for identities.
        let Some(decryptor) = stanza.age().and_then(|file| Decryptor::new_buffered(file).ok()) else { return Ok(None) };
        let mut key = Zeroizing::new(Vec::with_capacity(33));
        let opened = match decryptor.decrypt(self.all.iter().map(|identity| &**identity as &dyn age::Identity)) {
            Ok(reader) => reader.take(33).read_to_end(&mut key),
            // The user has to know that a plugin is missing, or why it failed.
            Err(
                error @ (DecryptError::Plugin(_) | DecryptError::PluginResolve(_) | DecryptError::KeyDecryptionFailed),
            ) => {
                return Err(problem("identity", error));
            }
            Err(_) => return Ok(None),
        };
        Ok(opened.ok().and_then(|_| SetKey::from_bytes(&key).ok()))
    }
}

/// A new identity in the form of an identity file, and its recipient. For tests and demonstrations;
/// users run `age-keygen`.
pub fn new_identity() -> (Zeroizing<String>, String) {
    let identity = age::x25519::Identity::generate();
    let secret = identity.to_string();
    (Zeroizing::new(format!("{}\n", secret.expose_secret())), identity.to_public().to_string())
}
