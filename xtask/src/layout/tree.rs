//! The text files of the repository, for the checks.

use super::SourceFile;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Folders without source, for a tree without git.
const BUILT: &[&str] = &[".git", "target", "artifacts", "coverage"];

/// Every text file that git tracks or would track; in a tree without git, every text file outside
/// build folders.
///
/// A file whose bytes are not UTF-8 (a recording, a table) is not text and is left out.
pub(crate) fn read(root: &Path) -> io::Result<Vec<SourceFile>> {
    let mut paths = match listed_by_git(root) {
        Some(paths) => paths,
        None => walked(root, "")?,
    };
    paths.sort();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        // A file deleted from the working tree is still in git's list; a link to a folder is not a
        // file.
        let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile { path, text });
        }
    }
    Ok(files)
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(arguments).current_dir(root).stderr(Stdio::null()).output().ok()?;
    let listing = output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
    let paths: Vec<String> = listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (!paths.is_empty()).then_some(paths)
}

fn walked(root: &Path, folder: &str) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !BUILT.contains(&name.as_str()) {
            paths.extend(walked(root, &path)?);
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_without_git_is_walked_past_its_build_folders() {
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        for folder in ["src/deep", "target"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (path, bytes) in [("src/deep/a.rs", &b"fn a() {}"[..]), ("target/b.rs", b"x"), ("sound.wav", &[0xFF, 0xFE])]
        {
            std::fs::write(root.join(path), bytes).unwrap();
        }
        let paths = walked(&root, "").unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert!(paths.contains(&"src/deep/a.rs".to_owned()) && paths.contains(&"sound.wav".to_owned()));
        assert_eq!(paths.len(), 2);
    }

    #[test]
    fn bytes_that_are_not_text_are_left_out() {
        let root = std::env::temp_dir().join(format!("xtask-text-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("a.rs"), "fn a() {}").unwrap();
        std::fs::write(root.join("b.wav"), [0xFF, 0xFE]).unwrap();
        let files = read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a.rs"]);
    }
}
