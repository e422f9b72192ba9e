//! Which files belong together: the content of the sealed file that is written last.
//!
//! Entry after entry, in the order of a walk through the folder; each is kind (1), length of the path (2), path, length of the name (2), name, salt (32), MAC (32), bytes of
//! content (8). That the list is whole and unaltered is the affair of the file that it is the content of.

use super::record::{Fields, Kind, is_path};
use super::{Identity, SealError};

/// An entry is never longer, in bytes.
pub const MAX_ENTRY_BYTES: usize = 1 + 2 + 4096 + 2 + 255 + 64 + 8;
/// Bytes of the name of a sealed file at most.
const MAX_NAME_BYTES: usize = 255;

/// One sealed file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What its source is: a file, a folder or a symbolic link.
    pub kind: Kind,
    /// The path of its source.
    pub path: Vec<u8>,
    /// Where the sealed file is, below the set's folder.
    pub name: String,
    /// By what it is known.
    pub identity: Identity,
    /// Bytes of its content.
    pub bytes: u64,
}

impl Entry {
    /// Adds the entry's bytes.
    ///
    /// # Errors
    /// [`SealError::Malformed`] for what no entry can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), SealError> {
        self.check()?;
        out.push(self.kind as u8);
        for string in [&self.path[..], self.name.as_bytes()] {
            out.extend_from_slice(&(string.len() as u16).to_be_bytes());
            out.extend_from_slice(string);
        }
        out.extend_from_slice(&self.identity.salt);
        out.extend_from_slice(&self.identity.mac);
        out.extend_from_slice(&self.bytes.to_be_bytes());
        Ok(())
    }

    fn check(&self) -> Result<(), SealError> {
        let path = match self.kind {
            Kind::File | Kind::Symlink => is_path(&self.path),
            Kind::Directory => self.path.is_empty() || is_path(&self.path),
            _ => false,
        };
        let name = self.name.len() <= MAX_NAME_BYTES && self.name.is_ascii() && is_path(self.name.as_bytes());
        if path && name { Ok(()) } else { Err(SealError::Malformed("a path and a name in an entry of the list")) }
    }

    /// The first entry of `bytes`, and how many bytes it has; `None` if more bytes are needed, which is never so from [`MAX_ENTRY_BYTES`] on.
    ///
    /// # Errors
    /// [`SealError::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, SealError> {
        let mut fields = Fields(bytes);
        match Self::read(&mut fields) {
            Ok(entry) => {
                entry.check()?;
                Ok(Some((entry, bytes.len() - fields.0.len())))
            }
            Err(SealError::Truncated) if bytes.len() < MAX_ENTRY_BYTES => Ok(None),
            Err(SealError::Truncated) => Err(SealError::Malformed("an entry of the list")),
            Err(other) => Err(other),
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, SealError> {
        let kind = match array(fields)? {
            [1] => Kind::File,
            [2] => Kind::Directory,
            [3] => Kind::Symlink,
            _ => return Err(SealError::Malformed("a file, folder or link in the list")),
        };
        let path = string(fields)?.to_vec();
        let malformed = |_| SealError::Malformed("a name in ASCII");
        let name = String::from_utf8(string(fields)?.to_vec()).map_err(malformed)?;
        let identity = Identity { salt: array(fields)?, mac: array(fields)? };
        Ok(Self { kind, path, name, identity, bytes: u64::from_be_bytes(array(fields)?) })
    }
}

fn array<const N: usize>(fields: &mut Fields<'_>) -> Result<[u8; N], SealError> {
    fields.array().map_err(|_| SealError::Truncated)
}

fn string<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], SealError> {
    fields.short_string().map_err(|_| SealError::Truncated)
}
