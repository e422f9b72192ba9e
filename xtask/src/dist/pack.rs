//! Archives with the same bytes from every builder.
//!
//! Entries are sorted, belong to root (or to the number that an entry states), and have one time.
//! Nothing of the builder's file system is read: an archive is made from a list in memory.

use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Write};
use tar::{Builder, EntryType, Header};

/// A file or a folder of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    mode: u32,
    /// User and group.
    owner: u64,
    /// None for a folder.
    bytes: Option<Vec<u8>>,
}

/// The content of an archive: entries by their paths, without a slash at either end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// Adds a file that everybody can read.
    pub(super) fn file(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.put(path, 0o644, Some(bytes.into()));
    }

    /// Adds a program.
    pub(super) fn program(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.put(path, 0o755, Some(bytes.into()));
    }

    /// Adds a folder with its mode and owner.
    pub(super) fn folder(&mut self, path: impl Into<String>, mode: u32, owner: u64) {
        self.0.insert(path.into(), Entry { mode, owner, bytes: None });
    }

    fn put(&mut self, path: impl Into<String>, mode: u32, bytes: Option<Vec<u8>>) {
        let path = path.into();
        for (at, _) in path.match_indices('/') {
            let above = Entry { mode: 0o755, owner: 0, bytes: None };
            self.0.entry(path[..at].to_owned()).or_insert(above);
        }
        self.0.insert(path, Entry { mode, owner: 0, bytes });
    }

    /// Adds another tree below a folder; an empty path is the top.
    pub(super) fn graft(&mut self, below: &str, other: &Tree) {
        for (path, entry) in &other.0 {
            let path = if below.is_empty() { path.clone() } else { format!("{below}/{path}") };
            match &entry.bytes {
                Some(bytes) => self.put(path, entry.mode, Some(bytes.clone())),
                None => self.folder(path, entry.mode, entry.owner),
            }
        }
    }

    /// The paths and the contents of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| Some((path.as_str(), entry.bytes.as_deref()?)))
    }

    /// The bytes of all files together.
    pub(super) fn size(&self) -> u64 {
        self.files().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// A tar archive. `first` is put before each path. `time` is in seconds since
    /// 1970.
    pub(super) fn tar(&self, first: &str, time: u64) -> io::Result<Vec<u8>> {
        let mut archive = Builder::new(Vec::new());
        for (path, entry) in &self.0 {
            let mut header = Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_uid(entry.owner);
            header.set_gid(entry.owner);
            header.set_mtime(time);
            let bytes = entry.bytes.as_deref().unwrap_or_default();
            header.set_size(bytes.len() as u64);
            header.set_entry_type(if entry.bytes.is_some() { EntryType::Regular } else { EntryType::Directory });
            let end = if entry.bytes.is_some() { "" } else { "/" };
            archive.append_data(&mut header, format!("{first}{path}{end}"), bytes)?;
        }
        archive.into_inner()
    }

    /// The same, compressed.
    pub(super) fn tar_gz(&self, first: &str, time: u64) -> io::Result<Vec<u8>> {
        gzip(&self.tar(first, time)?)
    }
}

/// Compresses without a name or a time.
pub(super) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder: GzEncoder<Vec<u8>> = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Compresses in the format of zlib.
pub(super) fn zlib(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An archive of `ar`, as Debian packages are. `time` is in seconds since 1970.
pub(super) fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        archive.extend(format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100_644, bytes.len()).bytes());
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.program("bin/tobari", b"a program".as_slice());
        tree.file(format!("share/{}", "long/".repeat(30) + "name"), "text");
        tree.folder("data", 0o700, 65_532);
        tree
    }

    #[test]
    fn one_content_has_one_sequence_of_bytes_in_whatever_order_it_was_added() {
        let mut other = Tree::default();
        other.folder("data", 0o700, 65_532);
        other.file(format!("share/{}", "long/".repeat(30) + "name"), "text");
        other.program("bin/tobari", b"a program".as_slice());
        assert_eq!(tree().tar_gz("x/", 7).unwrap(), other.tar_gz("x/", 7).unwrap());
        // a change in any property shows
        assert_ne!(tree().tar("x/", 7).unwrap(), tree().tar("x/", 8).unwrap());
        other.file("bin/tobari", b"a program".as_slice());
        assert_ne!(tree().tar("x/", 7).unwrap(), other.tar("x/", 7).unwrap());
    }

    #[test]
    fn an_archive_has_each_entry_with_its_mode_owner_and_time() {
        let bytes = tree().tar_gz("x/", 1_000_000_000).unwrap();
        assert_eq!(&bytes[4..10], [0, 0, 0, 0, 2, 255], "no time, the best compression, no system");
        let mut plain = Vec::new();
        GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
        let mut archive = tar::Archive::new(&plain[..]);
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let path = entry.path().unwrap().display().to_string();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 1_000_000_000);
            found.push((path, header.mode().unwrap(), header.uid().unwrap(), text));
        }
        let of = |path: &str| found.iter().find(|(name, ..)| name == path).unwrap();
        assert_eq!(of("x/bin/tobari"), &("x/bin/tobari".to_owned(), 0o755, 0, "a program".to_owned()));
        assert_eq!(of("x/data/"), &("x/data/".to_owned(), 0o700, 65_532, String::new()));
        let long = format!("x/share/{}name", "long/".repeat(30));
        assert_eq!(of(&long).3, "text");
        let names: Vec<&String> = found.iter().map(|(name, ..)| name).collect();
        assert!(names.is_sorted() && names.contains(&&"x/share/".to_owned()), "{names:?}");
    }

    #[test]
    fn members_of_ar_begin_at_even_places() {
        let archive = ar(&[("debian-binary", b"2.0\n"), ("odd", b"123"), ("last", b"4")], 9);
        let header = b"!<arch>\ndebian-binary   9           0     0     100644  4         `\n2.0\n";
        assert!(archive.starts_with(header));
        assert_eq!(archive[8 + 64 + 60..][..4], *b"123\n");
        assert_eq!(archive.len(), 8 + 64 + 64 + 62);
    }

    #[test]
    fn a_digest_is_the_published_one() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
