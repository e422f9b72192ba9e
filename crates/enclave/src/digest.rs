//! SHA-256 of files and of tuples of byte strings.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// 32 bytes of SHA-256. A digest is public: it may be compared and printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits, found something else")]
pub struct NotADigest;

impl Digest {
    /// The digest of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// SHA-256 of the unchanged bytes, the output of `sha256sum` for a file.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// SHA-256 of a purpose and parts, each after its length in eight bytes (big-endian): no two
    /// tuples have the same input.
    pub fn of(purpose: &str, parts: &[&[u8]]) -> Self {
        let mut state = Sha256::new();
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            state.update((part.len() as u64).to_be_bytes());
            state.update(part);
        }
        Self(state.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Digest {
    type Err = NotADigest;

    /// Reads the text of [`Display`](fmt::Display): 64 hexadecimal digits, lower case.
    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(NotADigest);
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(NotADigest),
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

/// SHA-256 of a long file, piece by piece.
#[derive(Debug, Default)]
pub struct Digester(Sha256);

impl Digester {
    /// A digester that has read nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces, one after another.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}
