//! What lies in the folder of a set, beside what its list says.

use super::{FileProblem, MANIFEST, PART, SET};
use std::collections::HashSet;
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
            if ![MANIFEST, SET].contains(&folder.as_str()) && !folder.starts_with(PART) {
                problems.push(unlisted(&outer.path()));
            }
            continue;
        }
        for inner in fs::read_dir(outer.path()).map_err(FileProblem::system(&outer.path()))? {
            let inner = inner.map_err(FileProblem::system(&outer.path()))?;
            let name = format!("{folder}/{}", inner.file_name().to_string_lossy());
            if !names.contains(&name) && !name.contains(PART) {
                problems.push(unlisted(&inner.path()));
            }
        }
    }
    Ok(())
}

fn unlisted(path: &Path) -> FileProblem {
    FileProblem::List { name: path.display().to_string(), expected: "only files that the list names, found this one" }
}
