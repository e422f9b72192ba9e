//! Who may ask: names, and hashes of their tokens.
//!
//! One line a client: a name, white space, SHA-256 of the token as 64 hexadecimal digits; lines that are empty or begin with `#` are left out. A client may have several lines,
//! as while its token changes. Tokens are long and random, so that a hash without salt gives nothing away; they are compared with all lines in a time that does not depend on
//! which one is right.

use super::{Client, SearchError, sha256, unhex};
use std::path::Path;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tobari_apps::search::messages::CLIENT_BYTES;

const LIMIT_BYTES: u64 = 1 << 20;
const MAX_NAME_BYTES: usize = 64;

/// Clients and their tokens' hashes.
pub(crate) struct Tokens {
    lines: Vec<([u8; 32], Client)>,
}

/// SHA-256 of a token, as the file has it.
pub fn token_hash(token: &str) -> String {
    super::hex(&sha256(token.as_bytes()))
}

/// A client's 16 bytes follow from its name.
fn id(name: &str) -> [u8; CLIENT_BYTES] {
    let mut id = [0; CLIENT_BYTES];
    id.copy_from_slice(&sha256(&[b"tobari search client ", name.as_bytes()].concat())[..CLIENT_BYTES]);
    id
}

impl Tokens {
    pub(crate) fn read(path: &Path) -> Result<Self, SearchError> {
        let bytes =
            tobari_host::files::read_bounded(path, LIMIT_BYTES).map_err(|error| SearchError::file(path, error))?;
        let text = String::from_utf8(bytes).map_err(|_| SearchError::file(path, "expected text"))?;
        Self::parse(&text).map_err(|line| {
            SearchError::file(
                path,
                format!("line {line}: expected a name and SHA-256 of a token as 64 hexadecimal digits"),
            )
        })
    }

    /// Of a file's text; otherwise the number of the line that is none.
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
            lines.push((hash, Client { id: id(name), name: name.into() }));
        }
        Ok(Self { lines })
    }

    /// Whose token it is.
    pub(crate) fn client(&self, token: &str) -> Option<Client> {
        let hash = sha256(token.as_bytes());
        let mut found = u32::MAX;
        for (line, index) in self.lines.iter().zip(0u32..) {
            let same: Choice = line.0.ct_eq(&hash);
            found.conditional_assign(&index, same);
        }
        self.lines.get(found as usize).map(|(_, client)| client.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_and_gives_the_names_own_client() {
        let text =
            format!("# who\nalice {}\n\nbob\t{}\nalice {}\n", token_hash("a"), token_hash("b"), token_hash("new"));
        let tokens = Tokens::parse(&text).unwrap();
        let [old, new, bob] = ["a", "new", "b"].map(|token| tokens.client(token).unwrap());
        assert_eq!((&*old.name, old.id), ("alice", new.id));
        assert_ne!(old.id, bob.id);
        for unknown in ["", "c", "alice", &token_hash("a")] {
            assert!(tokens.client(unknown).is_none(), "{unknown}");
        }
        for wrong in ["alice", "alice abc", &format!("a {} c", token_hash("a")), &format!("a {}0", token_hash("a"))] {
            assert_eq!(Tokens::parse(&format!("#\n{wrong}")).err(), Some(2), "{wrong}");
        }
    }
}
