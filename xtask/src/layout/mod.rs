//! The invariants of the project, as checks on the text of the tree.
//!
//! Each check is a function from files to findings, so that a test can pass a tree that breaks the
//! rule and expect a finding. A check without anything to examine is a finding too: a moved folder
//! must not turn the check off.

pub(crate) mod circles;
mod crates;
mod decisions;
mod fuzzing;
mod kinds;
mod links;
pub(crate) mod manifest;
mod modules;
mod order;
pub(crate) mod packages;
mod paths;
mod prose;
mod purity;
pub(crate) mod rooms;
mod safety;
mod shape;
mod source;
pub(crate) mod tree;

use std::fmt;
use std::path::Path;

/// A text file of the repository.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Its path from the root of the repository, with `/` between the parts.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl SourceFile {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// A place where the tree breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

type Check = fn(&[SourceFile]) -> Vec<Finding>;

/// Every check, with its claim.
const CHECKS: &[(&str, Check)] = &[
    ("the pure rooms touch no file, socket, clock, thread or environment", purity::no_machine),
    ("every package of the workspace has its line in the table of rooms, at its place", crates::on_the_map),
    ("crates depend only downwards, and the leaves not on one another", crates::edges),
    ("crates use no job, a job uses no other job, and neither uses the programs", order::from_the_bottom_up),
    ("the pure rooms depend on the short list only", crates::pure_dependencies),
    ("no circle between folders", circles::between_folders),
    ("every crate takes the workspace's lints", crates::lints),
    ("`unsafe` is written only in its rooms", safety::only_in_its_rooms),
    ("every crate root forbids `unsafe`", safety::roots_forbid),
    ("each `unsafe` block has its own SAFETY comment", safety::blocks_are_argued),
    ("no source file is longer than the limit", shape::length),
    ("a module with files below it has its head in their folder, as mod.rs", shape::module_heads),
    ("no file names a path of somebody's machine", shape::machine_paths),
    ("every dependency has its line in an ADR and in the list", decisions::dependencies_are_recorded),
    ("every fuzz target has its line in the list", fuzzing::targets_are_listed),
    ("the book's kinds of messages are those of the modules' heads", kinds::on_the_page),
    ("no line of a comment is longer than 100 columns", shape::comment_width),
    ("front page, book, help and changelog are in plain English", prose::documents_are_plain),
    ("links of documents lead somewhere", links::lead_somewhere),
    ("every threat is prevented, detected or possible, by tests that exist", links::threats_have_tests),
];

/// Runs every check on the tree under `root` and prints the findings.
///
/// # Errors
/// The number of findings, or the reason why the tree could not be read.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let files = tree::read(root).map_err(|error| format!("cannot read the tree: {error}"))?;
    println!("  {} text files", files.len());
    let mut total = 0;
    for (claim, check) in CHECKS {
        let findings = check(&files);
        total += findings.len();
        println!("  {} {claim}", if findings.is_empty() { "ok  " } else { "FAIL" });
        findings.iter().for_each(|finding| println!("       {finding}"));
    }
    shape::long_files(&files).iter().for_each(|finding| println!("  warning: {finding}"));
    if total == 0 { Ok(()) } else { Err(format!("findings: {total}")) }
}

#[cfg(test)]
fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_check_passes_on_an_empty_tree_unless_it_only_forbids() {
        let only_forbid = [
            "no source file is longer than the limit",
            "a module with files below it has its head in their folder, as mod.rs",
            "no file names a path of somebody's machine",
            "no line of a comment is longer than 100 columns",
        ];
        for (claim, check) in CHECKS {
            let silent = check(&[]).is_empty();
            assert_eq!(silent, only_forbid.contains(claim), "{claim}");
        }
    }
}
