//! The packages of the workspace, by its root manifest.
//!
//! The manifest says `crates/*`, so a new package below `crates` is included without a change here.

use super::SourceFile;
use super::manifest::{members, package_name};

/// One package: a folder with a manifest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package<'a> {
    /// Its folder, from the root of the repository.
    pub(crate) path: &'a str,
    pub(crate) manifest: &'a SourceFile,
}

impl<'a> Package<'a> {
    /// The name in the manifest, or the folder if the manifest has no name.
    pub(crate) fn name(&self) -> String {
        package_name(&self.manifest.text).unwrap_or_else(|| self.path.to_owned())
    }

    /// Every Rust file below `src`.
    pub(crate) fn sources(&self, files: &'a [SourceFile]) -> impl Iterator<Item = &'a SourceFile> {
        let folder = format!("{}/src/", self.path);
        files.iter().filter(move |file| file.is_rust() && file.path.starts_with(&folder))
    }
}

/// Every package of the workspace, in the order of its folders; none without a root manifest.
pub(crate) fn packages(files: &[SourceFile]) -> Vec<Package<'_>> {
    let root = files.iter().find(|file| file.path == "Cargo.toml");
    let patterns = root.map(|root| members(&root.text)).unwrap_or_default();
    let package = files.iter().filter_map(|manifest| Some((manifest.path.strip_suffix("/Cargo.toml")?, manifest)));
    let listed = package.filter(|(path, _)| patterns.iter().any(|pattern| matches(pattern, path)));
    listed.map(|(path, manifest)| Package { path, manifest }).collect()
}

/// True if every part of the path equals the pattern's part, or the pattern has `*` there.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(part), Some(word)) if part == "*" || part == word => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn the_packages_are_those_that_the_root_manifest_names() {
        let files = [
            file("Cargo.toml", "[workspace]\nmembers = [\"crates/*\", \"xtask\"]\n"),
            file("crates/one/Cargo.toml", "[package]\nname = \"house-one\"\n"),
            file("crates/one/deep/Cargo.toml", "[package]\nname = \"deep\"\n"),
            file("crates/one/src/lib.rs", ""),
            file("fuzz/Cargo.toml", "[package]\nname = \"fuzz\"\n"),
            file("xtask/Cargo.toml", "[package]\nname = \"xtask\"\n"),
        ];
        let found = packages(&files);
        let names: Vec<_> = found.iter().map(|package| (package.name(), package.path)).collect();
        assert_eq!(names, [("house-one".to_owned(), "crates/one"), ("xtask".to_owned(), "xtask")]);
        assert_eq!(found[0].sources(&files).count(), 1);
        assert!(packages(&files[1..]).is_empty());
    }
}
