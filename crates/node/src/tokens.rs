//! Token files: the names of clients, and the hashes of their tokens.
//!
//! Each line has a name, white space, and SHA-256 of the token as 64 hexadecimal digits. Empty
//! lines and lines that begin with `#` are skipped. A client may have several lines, for example
//! while its token changes. The file may change while the server runs: on a request the server
//! checks the file, at most every two seconds. If the file is no longer valid, the old tokens stay
//! in force. Tokens are long and random, so a hash without salt reveals nothing. Each token is
//! compared with all lines, in a time that does not depend on the matching line.

use axum::http::{HeaderMap, header};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tobari_octets::{hex, sha256, unhex};

const LIMIT_BYTES: u64 = 1 << 20;
const MAX_NAME_BYTES: usize = 64;

/// The least time between two checks of a file.
const LOOK: Duration = Duration::from_secs(2);

/// Clients and their tokens' hashes.
struct Lines {
    lines: Vec<([u8; 32], Arc<str>)>,
}

/// Detects that a file has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self { modified: metadata.modified().ok(), length: metadata.len(), inode })
    }
}

/// The last valid content of a file, and the time of the last check.
struct Held {
    lines: Arc<Lines>,
    /// The stamp of the file that `lines` are from.
    stamp: Option<Stamp>,
    looked: Instant,
    /// The stamp of the invalid file that was logged; the inner `None` stands for a missing file.
    told: Option<Option<Stamp>>,
}

/// A token file, with its current or last valid content.
pub struct Tokens {
    path: PathBuf,
    held: Mutex<Held>,
}

/// The token files of one server, each once, however many jobs use it.
#[derive(Clone, Default)]
pub struct TokenFiles(Arc<Mutex<Vec<Arc<Tokens>>>>);

impl TokenFiles {
    /// The file at this path, read now unless another job has opened it.
    ///
    /// # Errors
    /// As [`Tokens::read`].
    pub fn open(&self, path: &Path) -> Result<Arc<Tokens>, TokensError> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.iter().find(|tokens| tokens.path == path) {
            return Ok(Arc::clone(known));
        }
        let tokens = Arc::new(Tokens::read(path)?);
        files.push(Arc::clone(&tokens));
        Ok(tokens)
    }

    /// Reads all files again.
    pub(crate) fn reload(&self) {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        files.iter().for_each(|tokens| tokens.reload());
    }
}

/// The error of an invalid token file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct TokensError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub what: String,
}

/// SHA-256 of a token, in the format of the file.
pub fn token_hash(token: &str) -> String {
    hex(&sha256(token.as_bytes()))
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TokensError`] for a file that cannot be read, or has an invalid line.
    pub fn read(path: &Path) -> Result<Self, TokensError> {
        // before the file is read: the next check sees a change that happens meanwhile
        let stamp = Stamp::of(path).ok();
        let held = Held { lines: Arc::new(Lines::read(path)?), stamp, looked: Instant::now(), told: None };
        Ok(Self { path: path.to_owned(), held: Mutex::new(held) })
    }

    /// The client whose token is in the headers of a request (`Authorization: Bearer`).
    pub fn bearer(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        self.lines().bearer(headers)
    }

    /// Reads the file again, and logs the result.
    fn reload(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.told = None;
        self.take_up(&mut held, Stamp::of(&self.path).ok());
    }

    /// The lines in force; checks the file if the last check was a while ago.
    fn lines(&self) -> Arc<Lines> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.looked.elapsed() >= LOOK {
            let stamp = Stamp::of(&self.path).ok();
            if stamp.is_none() || stamp != held.stamp {
                self.take_up(&mut held, stamp);
            }
            held.looked = Instant::now();
        }
        Arc::clone(&held.lines)
    }

    /// Replaces the old lines by the file's. An invalid file leaves the old lines in force, and is
    /// logged once.
    fn take_up(&self, held: &mut Held, stamp: Option<Stamp>) {
        match Lines::read(&self.path) {
            Ok(lines) => {
                tracing::info!(lines = lines.lines.len(), "the file of tokens was read again");
                (held.lines, held.stamp, held.told) = (Arc::new(lines), stamp, None);
            }
            Err(error) if held.told != Some(stamp) => {
                tracing::error!(%error, "the file of tokens cannot be used: the old tokens stay in force; mend the file");
                // so that the old file, if it returns, is read again as well
                (held.stamp, held.told) = (None, Some(stamp));
            }
            Err(_) => {}
        }
    }
}

impl Lines {
    fn read(path: &Path) -> Result<Self, TokensError> {
        let fault = |what: String| TokensError { path: path.to_owned(), what };
        let bytes = tobari_host::files::read_bounded(path, LIMIT_BYTES).map_err(|error| fault(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| fault("expected text".to_owned()))?;
        let wrong = |line| format!("line {line}: expected a name and SHA-256 of a token as 64 hexadecimal digits");
        Self::parse(&text).map_err(|line| fault(wrong(line)))
    }

    /// Parses a file's text; the error is the number of the invalid line.
    fn parse(text: &str) -> Result<Self, usize> {
        let mut lines = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (name, hash) = (words.next().ok_or(number)?, words.next().and_then(unhex).ok_or(number)?);
            if words.next().is_some() || name.len() > MAX_NAME_BYTES {
                return Err(number);
            }
            lines.push((hash, name.into()));
        }
        Ok(Self { lines })
    }

    /// The client whose token is in the headers.
    fn bearer(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = value.and_then(|value| value.split_once(' '));
        let token = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        token.and_then(|token| self.client(token))
    }

    /// The client with this token.
    fn client(&self, token: &str) -> Option<Arc<str>> {
        let hash = sha256(token.as_bytes());
        let mut found = u32::MAX;
        for (line, index) in self.lines.iter().zip(0u32..) {
            let same: Choice = line.0.ct_eq(&hash);
            found.conditional_assign(&index, same);
        }
        self.lines.get(found as usize).map(|(_, name)| Arc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_and_gives_the_name_of_its_line() {
        let text =
            format!("# who\nalice {}\n\nbob\t{}\nalice {}\n", token_hash("a"), token_hash("b"), token_hash("new"));
        let tokens = Lines::parse(&text).unwrap();
        let names = ["a", "new", "b"].map(|token| tokens.client(token).unwrap());
        assert_eq!(names.each_ref().map(|name| &**name), ["alice", "alice", "bob"]);
        let with =
            |value: &str| tokens.bearer(&[(header::AUTHORIZATION, value.parse().unwrap())].into_iter().collect());
        assert_eq!(with("bearer  b").as_deref(), Some("bob"));
        assert!([with("Basic b"), with("b"), tokens.bearer(&HeaderMap::new())].iter().all(Option::is_none));
        for unknown in ["", "c", "alice", &token_hash("a")] {
            assert!(tokens.client(unknown).is_none(), "{unknown}");
        }
        for wrong in ["alice", "alice abc", &format!("a {} c", token_hash("a")), &format!("a {}0", token_hash("a"))] {
            assert_eq!(Lines::parse(&format!("#\n{wrong}")).err(), Some(2), "{wrong}");
        }
    }

    #[test]
    fn any_text_is_tokens_of_names_within_the_limit_or_a_line_of_it_that_is_none() {
        let good = format!("# who\nalice {}\n\nbob\t{}\n", token_hash("a"), token_hash("b"));
        let judge = |text: &str| {
            let lines = text.lines().count();
            match Lines::parse(text) {
                Ok(Lines { lines: found }) => {
                    let is_name =
                        |name: &str| (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(['\n', ' ']);
                    assert!(found.len() <= lines && found.iter().all(|(_, name)| is_name(name)), "{text:?}");
                }
                Err(line) => assert!((1..=lines).contains(&line), "{text:?}"),
            }
        };
        for place in 0..good.len() {
            judge(&good[..place]);
            for letter in ["", "\n", " ", "#", "0", "x", "\0", "é", "\u{2003}"] {
                judge(&[&good[..place], letter, &good[place + 1..]].concat());
            }
        }
        judge(&format!("{} {}", "a".repeat(65), token_hash("a")));
    }
}
