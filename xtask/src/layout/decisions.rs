//! Every dependency is a decision: its version is in the root manifest, its reason in `docs/adr`,
//! and its line in the list `docs/dependencies.md`.

use super::manifest::{Dependency, Kind, dependencies};
use super::rooms::{ROOMS, Room, find, members};
use super::{Finding, SourceFile};

const LIST: &str = "docs/dependencies.md";

/// Finds every package of `[workspace.dependencies]` that no ADR names in backticks or that the
/// list lacks, every line of the list without such a package or with an ADR that does not name the
/// package, and every dependency of a crate outside that table.
pub(crate) fn dependencies_are_recorded(files: &[SourceFile]) -> Vec<Finding> {
    recorded(ROOMS, files)
}

fn recorded(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let Some(root) = files.iter().find(|file| file.path == "Cargo.toml") else {
        return vec![Finding::new("Cargo.toml", 0, "no root manifest: nothing was checked")];
    };
    let of_others = |dependency: &Dependency| find(rooms, &dependency.name).is_none();
    let table: Vec<Dependency> = dependencies(&root.text)
        .into_iter()
        .filter(|dependency| dependency.kind == Kind::Workspace && of_others(dependency))
        .collect();
    let mut findings = unrecorded(root, &table, files);
    findings.extend(past_the_table(rooms, &table, files));
    findings.extend(listed(root, &table, files));
    findings
}

/// Checks that the list has a line for each package of the table and for nothing else, and that the
/// ADR of a line names the package.
fn listed(root: &SourceFile, table: &[Dependency], files: &[SourceFile]) -> Vec<Finding> {
    let text = files.iter().find(|file| file.path == LIST).map_or("", |file| &file.text);
    // the last section lists tools, which are in no manifest
    let packages = text.split("\n## Tools").next().unwrap_or_default();
    let lines: Vec<(usize, &str, &str)> = (1..)
        .zip(packages.lines())
        .filter_map(|(line, text)| text.strip_prefix("| `")?.split_once("` |").map(|(name, rest)| (line, name, rest)))
        .collect();
    let mut findings = Vec::new();
    for Dependency { name, line, .. } in table {
        if !lines.iter().any(|(_, listed, _)| listed == name) {
            findings.push(Finding::new(&root.path, *line, format!("{LIST} has no line for `{name}`")));
        }
    }
    for (line, name, rest) in lines {
        if !table.iter().any(|known| known.name == name) {
            findings.push(Finding::new(LIST, line, format!("`{name}` is not in the root's [workspace.dependencies]")));
        }
        let decision = rest.split_once("](adr/").and_then(|(_, link)| link.split_once(')')).map(|(path, _)| path);
        let says = |path: &str| {
            let path = format!("docs/adr/{path}");
            files.iter().any(|file| file.path == path && file.text.contains(&format!("`{name}`")))
        };
        if !decision.is_some_and(says) {
            findings.push(Finding::new(LIST, line, format!("names no decision that has `{name}`")));
        }
    }
    findings
}

fn unrecorded(root: &SourceFile, table: &[Dependency], files: &[SourceFile]) -> Vec<Finding> {
    let records: Vec<&SourceFile> =
        files.iter().filter(|file| file.path.starts_with("docs/adr/") && file.path.ends_with(".md")).collect();
    let says_why = |name: &str| records.iter().any(|record| record.text.contains(&format!("`{name}`")));
    table
        .iter()
        .filter(|dependency| !says_why(&dependency.name))
        .map(|Dependency { name, line, .. }| {
            Finding::new(&root.path, *line, format!("no file in docs/adr says why: it needs a line with `{name}`"))
        })
        .collect()
}

fn past_the_table(rooms: &[Room], table: &[Dependency], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, file) in members(rooms, files) {
        for Dependency { name, line, .. } in dependencies(&file.text) {
            if !table.iter().any(|known| known.key == name) && find(rooms, &name).is_none() {
                let message = format!("{name} is not in the root's [workspace.dependencies]");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::rooms::TOY;
    use super::*;

    fn tree(record: &str) -> Vec<SourceFile> {
        let root = "[workspace.dependencies]\nhouse-core = { path = \"crates/core\" }\nsubtle = \"2\"\n";
        let list = "| `subtle` | BSD | why | [0002](adr/0002-dependencies.md) |\n\n## Tools\n\n| `hammer` | - |\n";
        vec![file("Cargo.toml", root), file("docs/adr/0002-dependencies.md", record), file(LIST, list)]
    }

    #[test]
    fn the_list_has_every_package_and_no_other_and_names_its_decision() {
        let with = |list: &str| {
            let mut files = tree("`subtle`");
            files[2] = file(LIST, list);
            recorded(TOY, &files).len()
        };
        let line = "| `subtle` | BSD | why | [0002](adr/0002-dependencies.md) |\n";
        assert_eq!(with(line), 0);
        assert_eq!(with(""), 1);
        assert_eq!(with(&format!("{line}| `other` | BSD | why | [0002](adr/0002-dependencies.md) |\n")), 2);
        assert_eq!(with("| `subtle` | BSD | why | none |\n"), 1);
        assert_eq!(with("| `subtle` | BSD | why | [0003](adr/0003-other.md) |\n"), 1);
    }

    #[test]
    fn a_dependency_with_its_line_passes() {
        assert!(recorded(TOY, &tree("- `subtle`: constant-time comparison.")).is_empty());
    }

    #[test]
    fn a_dependency_without_its_line_is_refused() {
        for record in ["", "subtle without backticks", "`subtle-ng`: another"] {
            let findings = recorded(TOY, &tree(record));
            let at = findings.iter().map(|finding| (&*finding.path, finding.line)).collect::<Vec<_>>();
            assert_eq!(at, [("Cargo.toml", 3), (LIST, 1)], "{record}");
        }
    }

    #[test]
    fn only_the_records_count() {
        let mut files = tree("");
        files.push(file("README.md", "`subtle`"));
        assert_eq!(recorded(TOY, &files).len(), 2);
    }

    #[test]
    fn a_crate_takes_its_packages_from_the_table() {
        let mut files = tree("`subtle`");
        files.push(file("crates/core/Cargo.toml", "[dependencies]\nsubtle.workspace = true\n"));
        assert!(recorded(TOY, &files).is_empty());
        files.push(file("jobs/sing/protocol/Cargo.toml", "[dev-dependencies]\nlibc = \"0.2\"\n"));
        assert_eq!(recorded(TOY, &files).len(), 1);
    }
}
