//! What lies in the folder of a set, beside what its list says.

use super::naming::{clean, is_temporary};
use super::{FileProblem, MANIFEST, SET};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// What looks like a sealed file in the folders of a set.
pub(super) fn sealed_files(set: &Path) -> Result<Vec<PathBuf>, FileProblem> {
    let mut files = Vec::new();
    for outer in fs::read_dir(set).map_err(FileProblem::system(set))? {
        let outer = outer.map_err(FileProblem::system(set))?.path();
        if !outer.is_dir() {
            continue;
        }
        for inner in fs::read_dir(&outer).map_err(FileProblem::system(&outer))? {
            let inner = inner.map_err(FileProblem::system(&outer))?.path();
            if inner.extension().is_some_and(|extension| extension == "seal") {
                files.push(inner);
            }
        }
    }
    Ok(files)
}

/// Files in the set's folder that the list does not name.
pub(super) fn added(set: &Path, names: &HashSet<String>, problems: &mut Vec<FileProblem>) -> Result<(), FileProblem> {
    for outer in fs::read_dir(set).map_err(FileProblem::system(set))? {
        let outer = outer.map_err(FileProblem::system(set))?;
        let folder = outer.file_name().to_string_lossy().into_owned();
        if !outer.path().is_dir() {
            if ![MANIFEST, SET].contains(&folder.as_str()) && !is_temporary(&outer.file_name()) {
                problems.push(unlisted(&outer.path()));
            }
            continue;
        }
        for inner in fs::read_dir(outer.path()).map_err(FileProblem::system(&outer.path()))? {
            let inner = inner.map_err(FileProblem::system(&outer.path()))?;
            let name = format!("{folder}/{}", inner.file_name().to_string_lossy());
            if !names.contains(&name) && !is_temporary(&inner.file_name()) {
                problems.push(unlisted(&inner.path()));
            }
        }
    }
    Ok(())
}

fn unlisted(path: &Path) -> FileProblem {
    FileProblem::List { name: path.display().to_string(), expected: "only files that the list names, found this one" }
}

/// Removes what a killed run left in a set.
pub(super) fn clean_set(set: &Path) -> Result<(), FileProblem> {
    clean(set)?;
    folders(set)?.iter().try_for_each(|folder| clean(folder))
}

/// Sealed files that the list will not name.
pub(super) fn others(set: &Path, names: &HashSet<String>) -> Result<Vec<PathBuf>, FileProblem> {
    let mut others = Vec::new();
    for folder in folders(set)? {
        for file in fs::read_dir(&folder).map_err(FileProblem::system(&folder))? {
            let file = file.map_err(FileProblem::system(&folder))?.path();
            let (outer, inner) = (name_of(&folder), name_of(&file));
            if inner.len() == 35 && inner.ends_with(".seal") && !names.contains(&format!("{outer}/{inner}")) {
                others.push(file);
            }
        }
    }
    Ok(others)
}

/// The folders of a set.
fn folders(set: &Path) -> Result<Vec<PathBuf>, FileProblem> {
    let mut folders = Vec::new();
    for folder in fs::read_dir(set).map_err(FileProblem::system(set))? {
        let folder = folder.map_err(FileProblem::system(set))?.path();
        if name_of(&folder).len() == 2 && folder.is_dir() {
            folders.push(folder);
        }
    }
    Ok(folders)
}

fn name_of(path: &Path) -> String {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned()
}
