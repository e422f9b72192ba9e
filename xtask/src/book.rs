//! The book. mdBook builds it from `book/src`, and is installed once into the target folder.

use crate::child::{cargo, pass, target_folder};
use crate::summary::{Outcome, outcome};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The release of mdBook for the book.
const VERSION: &str = "0.5.4";

/// The folder of the built pages.
fn built(root: &Path) -> PathBuf {
    target_folder(root).join("book")
}

/// Installs mdBook if it is missing: without its server and its watcher, with the search.
///
/// # Errors
/// cargo's failure to install it.
fn provide(root: &Path) -> Result<PathBuf, String> {
    let folder = target_folder(root).join("mdbook");
    let program = folder.join("bin/mdbook");
    let version = Command::new(&program).arg("--version").stderr(Stdio::null()).output();
    let is_here =
        version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"));
    if !is_here {
        let mut install = cargo(root);
        install.args(["install", "mdbook", "--locked", "--force", "--version", VERSION]);
        install.args(["--no-default-features", "--features", "search", "--root"]).arg(&folder);
        // the program runs for a second: its compilation is the larger cost
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16").env("CARGO_TARGET_DIR", folder.join("build"));
        pass(&mut install)?;
    }
    Ok(program)
}

/// `cargo xtask book`: builds the book, and returns its first page.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let folder = built(root);
    pass(Command::new(provide(root)?).arg("build").arg(root.join("book")).arg("--dest-dir").arg(&folder))?;
    Ok(folder.join("index.html"))
}

/// The step `book`: builds the book, and checks that it has a page for each document, and a search.
pub(crate) fn step(root: &Path) -> Outcome {
    outcome(build(root).and_then(|first| check(root, &first)))
}

fn check(root: &Path, first: &Path) -> Result<(), String> {
    let folder = first.parent().unwrap_or(root);
    let source = root.join("book/src");
    let mut pages = Vec::new();
    documents(&source, &source, &mut pages).map_err(|error| format!("{}: {error}", source.display()))?;
    let lacks = |page: &PathBuf| !folder.join(page).with_extension("html").is_file();
    let missing: Vec<String> = pages
        .iter()
        .filter(|page| page.as_os_str() != "SUMMARY.md")
        .filter(|page| {
            lacks(page) && !(page.ends_with("README.md") && folder.join(page).with_file_name("index.html").is_file())
        })
        .map(|page| page.display().to_string())
        .collect();
    if !missing.is_empty() {
        return Err(format!("documents that book/src/SUMMARY.md does not list: {}", missing.join(", ")));
    }
    let names = std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten();
    if !names.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("searchindex")) {
        return Err("the book has no index to search".to_owned());
    }
    println!("  {} documents, {}", pages.len() - 1, first.display());
    Ok(())
}

/// Collects the documents below a folder, by their paths in `source`.
fn documents(source: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            documents(source, &path, found)?;
        } else if path.extension().is_some_and(|end| end == "md") {
            found.extend(path.strip_prefix(source).map(Path::to_owned));
        }
    }
    Ok(())
}
