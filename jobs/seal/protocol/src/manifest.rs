//! The list of a set's files: the content of the sealed file that is written last.
//!
//! The entries stand in the order of a walk through the folder. Each is kind (1), length of the
//! path (2), path, length of the name (2), name, salt (32), MAC (32), bytes of content (8). The
//! list itself is sealed: its sealed file proves that the list is whole and unaltered.
//!
//! **Order.** A walk visits each folder before its content, and sorts names by their bytes. So the
//! paths of a list increase, compared name by name, and everything below a path follows the path
//! directly. [`ListOrder`] compares each entry only with the entry before. It rejects every
//! repeated path and every entry below a file or a link. A reader that followed such a link would
//! write outside its folder.

use super::record::{Fields, Kind, MAX_PATH_BYTES, is_path};
use super::{Identity, SealError};

/// The most bytes of an entry.
pub const MAX_ENTRY_BYTES: usize = 1 + 2 + MAX_PATH_BYTES + 2 + 255 + 64 + 8;
/// A flag in the kind of an entry: its source could not be read when the list was made.
const STALE: u8 = 0x80;
/// The most bytes of the name of a sealed file.
const MAX_NAME_BYTES: usize = 255;

/// One sealed file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kind of its source: a file, a folder or a symbolic link.
    pub kind: Kind,
    /// The path of its source.
    pub path: Vec<u8>,
    /// The path of the sealed file below the set's folder.
    pub name: String,
    /// The identity of the sealed file.
    pub identity: Identity,
    /// Bytes of its content.
    pub bytes: u64,
    /// Whether its source could not be read at the last update of the set. The sealed file then is
    /// from an earlier run.
    pub stale: bool,
}

/// Checks the entries of a list: in the order of a walk, each path once, and none below a file or a
/// link.
///
/// ```
/// use tobari_seal::{Kind, ListOrder};
/// let mut order = ListOrder::default();
/// assert!(order.next(Kind::Directory, b"").is_ok() && order.next(Kind::Symlink, b"a").is_ok());
/// assert!(order.next(Kind::File, b"a/.bashrc").is_err());
/// ```
#[derive(Debug, Default)]
pub struct ListOrder {
    last: Option<(Kind, Vec<u8>)>,
}

impl ListOrder {
    /// Checks the next entry.
    ///
    /// # Errors
    /// [`SealError::Malformed`]; a caller must then reject the whole list.
    pub fn next(&mut self, kind: Kind, path: &[u8]) -> Result<(), SealError> {
        if let Some((before, last)) = &self.last {
            let below = last.is_empty() || path.strip_prefix(&last[..]).is_some_and(|rest| rest.first() == Some(&b'/'));
            if below && *before != Kind::Directory {
                return Err(SealError::Malformed("entries of a list below folders only, none below a file or a link"));
            }
            if !is_before(last, path) {
                return Err(SealError::Malformed("entries of a list in the order of a walk, each path once"));
            }
        }
        self.last = Some((kind, path.to_vec()));
        Ok(())
    }
}

/// Compares paths name by name; the folder itself, whose path is empty, comes first.
fn is_before(one: &[u8], other: &[u8]) -> bool {
    if one.is_empty() || other.is_empty() {
        return one.is_empty() && !other.is_empty();
    }
    one.split(|byte| *byte == b'/').lt(other.split(|byte| *byte == b'/'))
}

impl Entry {
    /// Adds the entry's bytes.
    ///
    /// # Errors
    /// [`SealError::Malformed`] for values that no entry can have.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), SealError> {
        self.check()?;
        out.push(self.kind as u8 | if self.stale { STALE } else { 0 });
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

    /// The first entry of `bytes`, and its length. `None` if more bytes are needed;
    /// [`MAX_ENTRY_BYTES`] are always enough.
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
        let [kind] = array(fields)?;
        let stale = kind & STALE != 0;
        let kind = match kind & !STALE {
            1 => Kind::File,
            2 => Kind::Directory,
            3 => Kind::Symlink,
            _ => return Err(SealError::Malformed("a file, folder or link in the list")),
        };
        let path = string(fields)?.to_vec();
        let malformed = |_| SealError::Malformed("a name in ASCII");
        let name = String::from_utf8(string(fields)?.to_vec()).map_err(malformed)?;
        let identity = Identity { salt: array(fields)?, mac: array(fields)? };
        Ok(Self { kind, path, name, identity, bytes: u64::from_be_bytes(array(fields)?), stale })
    }
}

fn array<const N: usize>(fields: &mut Fields<'_>) -> Result<[u8; N], SealError> {
    fields.array().map_err(|_| SealError::Truncated)
}

fn string<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], SealError> {
    fields.short_string().map_err(|_| SealError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(entries: &[(Kind, &str)]) -> Result<(), SealError> {
        let mut order = ListOrder::default();
        entries.iter().try_for_each(|(kind, path)| order.next(*kind, path.as_bytes()))
    }

    #[test]
    fn fault_1_nothing_lies_below_a_file_or_a_link_whatever_the_order() {
        use Kind::{Directory, File, Symlink};
        let walk = [
            (Directory, ""),
            (Directory, "a"),
            (File, "a/b"),
            (Directory, "a/b c"),
            (File, "a/b c/d"),
            (File, "a-"),
            (Symlink, "b"),
        ];
        assert_eq!(order(&walk), Ok(()));
        // A folder that could not be sealed has no entry, but its files may have one.
        assert_eq!(order(&[(Directory, ""), (File, "a/b"), (File, "a/c/d")]), Ok(()));
        for leaf in [File, Symlink] {
            assert!(order(&[(leaf, "a"), (File, "a/b")]).is_err());
            assert!(order(&[(leaf, "a"), (File, "a/b/c")]).is_err());
            assert!(order(&[(leaf, "a"), (Directory, "a")]).is_err());
            assert!(order(&[(leaf, "a"), (File, "a-"), (File, "a/b")]).is_err());
            assert!(order(&[(File, "a/b"), (leaf, "a")]).is_err());
            assert!(order(&[(leaf, ""), (File, "a")]).is_err());
        }
        assert!(order(&[(File, "b"), (File, "a")]).is_err());
        assert!(order(&[(File, "a"), (File, "a")]).is_err());
        assert!(order(&[(Directory, ""), (Directory, "")]).is_err());
    }

    #[test]
    fn fault_5_a_stale_entry_survives_the_list() {
        let identity = Identity { salt: [1; 32], mac: [2; 32] };
        for (kind, byte) in [(Kind::File, 0x81), (Kind::Directory, 0x82), (Kind::Symlink, 0x83)] {
            let (path, name) = (b"a/b".to_vec(), "00/1.seal".to_owned());
            let entry = Entry { kind, path, name, identity, bytes: 3, stale: true };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes).unwrap();
            assert_eq!(bytes[0], byte);
            assert_eq!(Entry::decode(&bytes), Ok(Some((entry, bytes.len()))));
        }
    }
}
