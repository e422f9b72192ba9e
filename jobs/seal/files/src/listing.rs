//! The files in a set's folder, compared with its list.
//!
//! Only folders and files in the set itself count. A link in the set is never followed, neither to
//! read nor to remove its target.

use super::below::{Below, is_temporary};
use super::naming::clean;
use super::{FileProblem, MANIFEST, SET};
use rustix::fs::FileType;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;

/// Names in a folder of a set.
fn names(set: &Below, folder: &[u8]) -> Result<Vec<(Vec<u8>, FileType)>, FileProblem> {
    let names = set.names(folder).map_err(FileProblem::system(&set.place(folder)))?;
    let mut names: Vec<_> = names.into_iter().map(|(name, kind)| (name.as_bytes().to_vec(), kind)).collect();
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// Folders of a set's sealed files.
fn folders(set: &Below) -> Result<Vec<Vec<u8>>, FileProblem> {
    let is_ours = |(name, kind): &(Vec<u8>, FileType)| name.len() == 2 && *kind == FileType::Directory;
    Ok(names(set, b"")?.into_iter().filter(is_ours).map(|(name, _)| name).collect())
}

/// All names like those of sealed files in the folders of a set, as paths below it.
pub(super) fn sealed_files(set: &Below) -> Result<Vec<Vec<u8>>, FileProblem> {
    let mut files = Vec::new();
    for (folder, kind) in names(set, b"")? {
        if kind == FileType::Directory {
            let inner = names(set, &folder)?.into_iter().filter(|(name, _)| name.ends_with(b".seal"));
            files.extend(inner.map(|(name, _)| [&folder[..], b"/", &name].concat()));
        }
    }
    Ok(files)
}

/// Files in the set's folder that the list does not name.
pub(super) fn added(set: &Below, known: &HashSet<String>, problems: &mut Vec<FileProblem>) -> Result<(), FileProblem> {
    let is_temporary = |name: &[u8]| is_temporary(std::ffi::OsStr::from_bytes(name));
    for (outer, kind) in names(set, b"")? {
        if kind != FileType::Directory {
            if ![MANIFEST.as_bytes(), SET.as_bytes()].contains(&&outer[..]) && !is_temporary(&outer) {
                problems.push(unlisted(set, &outer));
            }
            continue;
        }
        for (inner, _) in names(set, &outer)? {
            let path = [&outer[..], b"/", &inner].concat();
            let listed = str::from_utf8(&path).is_ok_and(|name| known.contains(name));
            if !listed && !is_temporary(&inner) {
                problems.push(unlisted(set, &path));
            }
        }
    }
    Ok(())
}

fn unlisted(set: &Below, path: &[u8]) -> FileProblem {
    let name = set.place(path).display().to_string();
    FileProblem::List { name, expected: "only files that the list names, found this one" }
}

/// Removes temporary files of killed runs from a set.
pub(super) fn clean_set(set: &Below) -> Result<(), FileProblem> {
    clean(set, b"")?;
    folders(set)?.iter().try_for_each(|folder| clean(set, folder))
}

/// Sealed files that the new list does not name, as paths below the set.
pub(super) fn others(set: &Below, known: &HashSet<String>) -> Result<Vec<String>, FileProblem> {
    let mut others = Vec::new();
    for folder in folders(set)? {
        for (file, _) in names(set, &folder)? {
            let path = String::from_utf8([&folder[..], b"/", &file].concat()).unwrap_or_default();
            if file.len() == 35 && file.ends_with(b".seal") && !path.is_empty() && !known.contains(&path) {
                others.push(path);
            }
        }
    }
    Ok(others)
}
