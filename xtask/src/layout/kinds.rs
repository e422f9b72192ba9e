//! The book's table of kinds is that of the code.
//!
//! The head of a module of messages has a table, whose rows begin with a kind of two hexadecimal
//! digits. The page of wire formats has one row for each of them, with the same name. The name of
//! the crate is in the third cell, and a comma and more words may follow it.

use super::{Finding, SourceFile};

const PAGE: &str = "book/src/reference/wire-formats.md";

/// A kind: its crate or job, its digits, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    owner: String,
    digits: String,
    name: String,
}

/// Finds every kind of a module's head without its row on the page, and every row without its kind.
pub(crate) fn on_the_page(files: &[SourceFile]) -> Vec<Finding> {
    let page = files.iter().find(|file| file.path == PAGE);
    let rows: Vec<(Kind, usize)> = page.map(rows_of).unwrap_or_default();
    let heads: Vec<(Kind, &SourceFile, usize)> =
        files.iter().flat_map(|file| kinds_of(file).into_iter().map(move |(kind, line)| (kind, file, line))).collect();
    if rows.is_empty() || heads.is_empty() {
        return vec![Finding::new(PAGE, 0, "no kinds, or no page of them: nothing was checked")];
    }
    let times = |kind: &Kind| rows.iter().filter(|(row, _)| row == kind).count();
    let wanted = |kind: &Kind| heads.iter().filter(|(head, ..)| head == kind).count();
    let missing = heads.iter().filter(|(kind, ..)| times(kind) != wanted(kind)).map(|(kind, file, line)| {
        let Kind { owner, digits, name } = kind;
        Finding::new(&file.path, *line, format!("{PAGE} has no row `{digits}`, {name}, of {owner}, or too many"))
    });
    let idle = rows.iter().filter(|(row, _)| wanted(row) == 0).map(|(row, line)| {
        let Kind { owner, digits, name } = row;
        Finding::new(PAGE, *line, format!("no module of {owner} has a kind `{digits}`, {name}, in its head"))
    });
    missing.chain(idle).collect()
}

/// The rows of the page: its kind in code style, its name, its crate.
fn rows_of(page: &SourceFile) -> Vec<(Kind, usize)> {
    let row = |line: &str| {
        let [kind, name, owner] = cells(line)?;
        let digits = kind.strip_prefix('`')?.strip_suffix('`').filter(|digits| is_kind(digits))?;
        let owner = owner.split(',').next()?;
        Some(Kind { owner: owner.to_owned(), digits: digits.to_owned(), name: name.to_owned() })
    };
    page.text.lines().zip(1..).filter_map(|(line, number)| Some((row(line)?, number))).collect()
}

/// The kinds in a source file's head: rows of a table whose first column is `kind`.
fn kinds_of(file: &SourceFile) -> Vec<(Kind, usize)> {
    let mut words = file.path.split('/');
    let (Some("crates" | "jobs"), Some(owner), true) = (words.next(), words.next(), file.path.ends_with(".rs")) else {
        return Vec::new();
    };
    let mut is_inside = false;
    let mut found = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        let Some(row) = line.strip_prefix("//! ").filter(|row| row.starts_with('|')) else {
            is_inside = false;
            continue;
        };
        let Some([kind, name, _]) = cells(row) else { continue };
        is_inside |= kind == "kind" || kind == "kind (hex)";
        if is_inside && is_kind(kind) {
            found.push((Kind { owner: owner.to_owned(), digits: kind.to_owned(), name: name.to_owned() }, number));
        }
    }
    found
}

/// The first three cells of a row.
fn cells(line: &str) -> Option<[&str; 3]> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    Some([cells.next()?, cells.next()?, cells.next()?])
}

fn is_kind(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const HEAD: &str = "//! Messages.\n//!\n//! | kind | object | content |\n//! |---|---|---|\n\
        //! | 0a | packet | words |\n//! | 0b | sum | words |\n//!\n//! | 16 | bytes | no kind |\n";
    const ROWS: &str = "| kind | name | crate | way |\n|---|---|---|---|\n\
        | `0a` | packet | toy | up |\n| `0b` | sum | toy, deep | down |\n\n| 0c | no row | toy | x |\n";

    fn found(head: &str, rows: &str) -> Vec<Finding> {
        on_the_page(&[file("jobs/toy/protocol/src/messages.rs", head), file(PAGE, rows)])
    }

    #[test]
    fn heads_and_page_are_compared_in_both_directions() {
        assert!(found(HEAD, ROWS).is_empty());
        let without = ROWS.replace("| `0b` | sum | toy, deep | down |\n", "");
        assert_eq!(found(HEAD, &without)[0].path, "jobs/toy/protocol/src/messages.rs");
        let other = ROWS.replace("sum", "total");
        let both = found(HEAD, &other);
        assert_eq!(both.iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>().len(), 2);
        assert_eq!(found(&HEAD.replace("//! | 0b | sum | words |\n", ""), ROWS)[0].path, PAGE);
        let twice = ROWS
            .replace("| `0a` | packet | toy | up |\n", "| `0a` | packet | toy | up |\n| `0a` | packet | toy | up |\n");
        assert_eq!(found(HEAD, &twice).len(), 1);
    }

    #[test]
    fn nothing_to_compare_is_a_finding() {
        assert_eq!(found("", ROWS).len(), 1);
        assert_eq!(found(HEAD, "").len(), 1);
    }
}
