//! The outer shape of files: their length, the place of a module's head, the width of comments, and
//! no absolute paths of the machine on which a file was written.

use super::{Finding, SourceFile};
use std::collections::BTreeSet;

/// A source file with more lines than this fails; one with more than `LONG` lines gets a warning.
const LIMIT: usize = 1_500;
const LONG: usize = 600;

/// The endings of source files.
const SOURCE: &[&str] = &[".rs", ".py", ".js", ".css", ".html", ".c", ".h", ".sh"];

/// The first folders of absolute paths on a single machine. They are written in two pieces, so that
/// this file passes its own check.
const MACHINE_PATHS: &[&str] = &[concat!("/work", "/"), concat!("/farm", "/"), concat!("/root", "/")];

/// Finds every source file over the hard limit.
pub(crate) fn length(files: &[SourceFile]) -> Vec<Finding> {
    longer_than(LIMIT, files)
}

/// Finds every source file that should be split, but is not refused.
pub(crate) fn long_files(files: &[SourceFile]) -> Vec<Finding> {
    longer_than(LONG, files)
}

/// Finds every absolute path under one of `MACHINE_PATHS`, in any text file.
pub(crate) fn machine_paths(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            for word in MACHINE_PATHS.iter().filter(|word| has_absolute(line, word)) {
                let message = format!("{word} is a place on one machine: say where from the repository's root");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Finds lines of Rust comments over 100 columns. Tables, code in documentation, and long words
/// such as addresses are exempt, because they cannot be broken.
pub(crate) fn comment_width(files: &[SourceFile]) -> Vec<Finding> {
    files.iter().filter(|file| file.path.ends_with(".rs")).flat_map(wide_comments).collect()
}

/// The most columns of a comment.
const COMMENT: usize = 100;

fn wide_comments(file: &SourceFile) -> Vec<Finding> {
    let mut fenced = false;
    let mut findings = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        let text = line.trim_start();
        let Some(said) = text.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim()) else {
            fenced = false;
            continue;
        };
        fenced ^= said.starts_with("```");
        let columns = line.chars().count();
        let can_break = line.chars().take(COMMENT).skip(line.len() - text.len() + 4).any(|letter| letter == ' ');
        if columns > COMMENT && !fenced && !said.starts_with('|') && can_break {
            findings.push(Finding::new(
                &file.path,
                number,
                format!("a comment of {columns} columns, at most {COMMENT}"),
            ));
        }
    }
    findings
}

/// Finds every module with a folder whose head is beside the folder: it must be the folder's
/// `mod.rs`.
pub(crate) fn module_heads(files: &[SourceFile]) -> Vec<Finding> {
    let folders: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .filter_map(|file| file.path.rsplit_once('/'))
        .map(|(folder, _)| folder)
        .collect();
    let heads = files.iter().filter(|file| file.path.strip_suffix(".rs").is_some_and(|stem| folders.contains(stem)));
    heads
        .map(|file| {
            let stem = file.path.trim_end_matches(".rs");
            Finding::new(&file.path, 1, format!("{stem}/ has files of this module: this one is {stem}/mod.rs"))
        })
        .collect()
}

fn longer_than(limit: usize, files: &[SourceFile]) -> Vec<Finding> {
    let sources = files.iter().filter(|file| SOURCE.iter().any(|end| file.path.ends_with(end)));
    sources
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > limit)
        .map(|(file, lines)| Finding::new(&file.path, lines, format!("{lines} lines, over {limit}")))
        .collect()
}

/// True if `path` starts an absolute path in the line, and is not a part of a relative one.
fn has_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|character| character.is_alphanumeric() || "._-~)}*>".contains(character))
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_comment_that_can_be_broken_is_not_wider_than_the_limit() {
        let long = "word ".repeat(21);
        for passes in [
            format!("/// {}", "x".repeat(120)),
            format!("/// | {long} |"),
            format!("/// ```\n/// {long}\n/// ```"),
            format!("let text = \"{long}\";"),
            format!("// {}", "word ".repeat(19)),
        ] {
            assert_eq!(comment_width(&[file("a.rs", &passes)]), [], "{passes}");
        }
        for fails in [format!("//! {long}"), format!("    // {long}"), format!("fn a() {{}}\n/// {long}\nfn b() {{}}")]
        {
            assert_eq!(comment_width(&[file("a.rs", &fails)]).len(), 1, "{fails}");
        }
        assert_eq!(comment_width(&[file("a.md", &format!("// {long}"))]), []);
    }

    #[test]
    fn a_file_at_the_limit_passes_and_one_line_more_does_not() {
        let at = |lines: usize| [file("crates/a/src/lib.rs", &"x\n".repeat(lines))];
        assert!(length(&at(LIMIT)).is_empty() && !length(&at(LIMIT + 1)).is_empty());
        assert!(long_files(&at(LONG)).is_empty() && !long_files(&at(LONG + 1)).is_empty());
    }

    #[test]
    fn a_module_with_files_below_it_has_its_head_among_them() {
        let tree = |paths: &[&str]| paths.iter().map(|path| file(path, "")).collect::<Vec<_>>();
        let good = ["a/src/lib.rs", "a/src/door.rs", "a/src/wall/mod.rs", "a/src/wall/brick.rs", "a/tests/all/main.rs"];
        assert!(module_heads(&tree(&good)).is_empty());
        let found = module_heads(&tree(&["a/src/wall.rs", "a/src/wall/brick.rs", "a/src/wall.txt", "a/src/door.rs"]));
        assert_eq!(found.iter().map(|finding| &*finding.path).collect::<Vec<_>>(), ["a/src/wall.rs"]);
    }

    #[test]
    fn tables_and_text_may_be_long() {
        assert!(length(&[file("vectors/points.json", &"x\n".repeat(LIMIT + 1))]).is_empty());
    }

    #[test]
    fn a_machine_path_is_found_wherever_it_stands() {
        for place in MACHINE_PATHS {
            for line in
                [format!("see {place}main"), format!("\"{place}x\""), format!("file://{place}x"), (*place).into()]
            {
                assert_eq!(machine_paths(&[file("README.md", &format!("ok\n{line}\n"))]).len(), 1, "{line}");
            }
        }
    }

    #[test]
    fn a_relative_path_with_the_same_folder_passes() {
        for place in MACHINE_PATHS {
            for line in
                [format!("src{place}mod.rs"), format!("..{place}x"), format!("${{HOME}}{place}x"), "work/".into()]
            {
                assert!(machine_paths(&[file("README.md", &line)]).is_empty(), "{line}");
            }
        }
    }
}
