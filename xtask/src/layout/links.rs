//! Links between documents have existing targets, and rows of the threat model name existing tests.

use super::{Finding, SourceFile};
use std::collections::BTreeSet;

/// The threat model, with a page for each job.
const THREATS: &str = "book/src/explanation/threats/";
/// The head of its tables of attacks.
const HEAD: &str = "| attack | result | how | test |";
const RESULTS: [&str; 3] = ["prevented", "detected", "possible"];

/// Finds links of documents to files or headings that do not exist.
pub(crate) fn lead_somewhere(files: &[SourceFile]) -> Vec<Finding> {
    let documents: Vec<&SourceFile> = files.iter().filter(|file| file.path.ends_with(".md")).collect();
    if documents.is_empty() {
        return vec![Finding::new("README.md", 0, "no documents: nothing was checked")];
    }
    // pictures are not text, so they are not among the files, but their folders are
    let known: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    documents.iter().flat_map(|document| of_document(document, &known, &documents)).collect()
}

fn of_document(document: &SourceFile, known: &BTreeSet<&str>, documents: &[&SourceFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, number) in without_code(&document.text) {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            if target.contains("://") || target.starts_with("mailto:") || is_picture(target) {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let at = if path.is_empty() { document.path.clone() } else { joined(&document.path, path) };
            let folder = format!("{}/", at.trim_end_matches('/'));
            if !known.contains(at.as_str()) && !known.iter().any(|known| known.starts_with(&folder)) {
                found.push(Finding::new(&document.path, number, format!("a link to {target}: there is no {at}")));
            } else if !heading.is_empty()
                && let Some(page) = documents.iter().find(|page| page.path == at)
                && !headings(&page.text).contains(heading)
            {
                found.push(Finding::new(&document.path, number, format!("a link to {target}: no such heading")));
            }
        }
    }
    found
}

fn is_picture(target: &str) -> bool {
    [".png", ".svg"].iter().any(|end| target.ends_with(end))
}

/// The lines without fenced blocks and `code`, with their numbers.
fn without_code(text: &str) -> impl Iterator<Item = (String, usize)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then(|| (line.split('`').step_by(2).collect::<Vec<_>>().join("`"), number))
    })
}

/// The target of a relative link of a document.
fn joined(document: &str, path: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of the headings, by the rules of GitHub and mdBook.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(title) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        let name: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        // the second heading with the same name gets a number
        let same = (1..).map(|count| format!("{name}-{count}"));
        let free = std::iter::once(name.clone()).chain(same).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// Finds rows of the threat model without a result, and names of tests that do not exist.
pub(crate) fn threats_have_tests(files: &[SourceFile]) -> Vec<Finding> {
    let functions: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs") || file.path.ends_with(".mjs") || file.path.ends_with(".py"))
        .flat_map(|file| file.text.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .chain(files.iter().map(|file| file.path.as_str()))
        .collect();
    let pages: Vec<&SourceFile> = files.iter().filter(|file| file.path.starts_with(THREATS)).collect();
    let mut rows = 0;
    let mut found = Vec::new();
    for page in &pages {
        let mut inside = false;
        for (line, number) in page.text.lines().zip(1..) {
            inside = line == HEAD || inside && line.starts_with('|');
            if !inside || line == HEAD || line.starts_with("|---") || line.starts_with("| ---") {
                continue;
            }
            rows += 1;
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let &[_, result, _, tests] = &cells[..] else {
                let message = format!("a row of {} cells, expected attack, result, how and test", cells.len());
                found.push(Finding::new(&page.path, number, message));
                continue;
            };
            if !RESULTS.contains(&result.trim_matches('*')) {
                let message = format!("the result {result}: expected prevented, detected or possible");
                found.push(Finding::new(&page.path, number, message));
            }
            let names = tests.split('`').skip(1).step_by(2).filter(|name| !name.contains(' '));
            for name in names.filter(|name| !functions.contains(name)) {
                found.push(Finding::new(&page.path, number, format!("the test {name} does not exist")));
            }
        }
    }
    if rows == 0 {
        found.push(Finding::new(THREATS, 0, "no table of attacks: nothing was checked"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn links_to_files_folders_and_headings_that_exist_pass_and_others_do_not() {
        let page = "# One\n\n[a](b.md#two-words) [b](../README.md) [c](../src) [d](https://x.example/y) [e](#one)\n`[f](no.md)`\n";
        let other = "## Two words\n";
        let tree = |page: &str| {
            let paths = [("docs/a.md", page), ("docs/b.md", other), ("README.md", ""), ("src/lib.rs", "")];
            paths.map(|(path, text)| file(path, text))
        };
        assert_eq!(lead_somewhere(&tree(page)), []);
        for (link, said) in
            [("[x](c.md)", "docs/c.md"), ("[x](b.md#three)", "no such heading"), ("[x](#two)", "heading")]
        {
            let found = lead_somewhere(&tree(link));
            assert!(found.len() == 1 && found[0].message.contains(said), "{link}: {found:?}");
        }
    }

    #[test]
    fn a_threat_has_one_of_three_results_and_tests_that_exist() {
        let tree = |row: &str| {
            let page = format!("{HEAD}\n|---|---|---|---|\n{row}\n");
            [file(&format!("{THREATS}call.md"), &page), file("a.rs", "fn it_holds() {}")]
        };
        assert_eq!(threats_have_tests(&tree("| guess | **prevented** | a tag | `it_holds`, `demo --attack` |")), []);
        for (row, said) in [
            ("| guess | mostly | a tag | `it_holds` |", "expected prevented"),
            ("| guess | prevented | a tag | `it_is_gone` |", "it_is_gone"),
            ("| guess | prevented | a tag |", "3 cells"),
        ] {
            let found = threats_have_tests(&tree(row));
            assert!(found.len() == 1 && found[0].message.contains(said), "{row}: {found:?}");
        }
        assert_eq!(threats_have_tests(&[]).len(), 1);
    }
}
