//! Every dependency is a decision: its version stands in the root manifest, its reason in `docs/adr`.

use super::manifest::{Dependency, Kind, dependencies};
use super::{Finding, SourceFile};

/// Finds every package of `[workspace.dependencies]` that no ADR names in backticks, and every package that a crate
/// takes past that table.
pub(crate) fn dependencies_are_recorded(files: &[SourceFile]) -> Vec<Finding> {
    let Some(root) = files.iter().find(|file| file.path == "Cargo.toml") else {
        return vec![Finding::new("Cargo.toml", 0, "no root manifest: nothing was checked")];
    };
    let table: Vec<Dependency> =
        dependencies(&root.text).into_iter().filter(|dependency| dependency.kind == Kind::Workspace).collect();
    let mut findings = unrecorded(root, &table, files);
    findings.extend(past_the_table(&table, files));
    findings
}

fn unrecorded(root: &SourceFile, table: &[Dependency], files: &[SourceFile]) -> Vec<Finding> {
    let records: Vec<&SourceFile> =
        files.iter().filter(|file| file.path.starts_with("docs/adr/") && file.path.ends_with(".md")).collect();
    let says_why = |name: &str| records.iter().any(|record| record.text.contains(&format!("`{name}`")));
    table
        .iter()
        .filter(|dependency| !dependency.name.starts_with("tobari") && !says_why(&dependency.name))
        .map(|Dependency { name, line, .. }| {
            Finding::new(&root.path, *line, format!("no file in docs/adr says why: it needs a line with `{name}`"))
        })
        .collect()
}

fn past_the_table(table: &[Dependency], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ours = |path: &str| path == "xtask/Cargo.toml" || path.starts_with("crates/");
    for file in files.iter().filter(|file| ours(&file.path) && file.path.ends_with("/Cargo.toml")) {
        for Dependency { name, line, .. } in dependencies(&file.text) {
            if !table.iter().any(|known| known.name == name) && !name.starts_with("tobari") {
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
    use super::*;

    fn tree(record: &str) -> Vec<SourceFile> {
        let root = "[workspace.dependencies]\ntobari-core = { path = \"crates/tobari-core\" }\nsubtle = \"2\"\n";
        vec![file("Cargo.toml", root), file("docs/adr/0002-dependencies.md", record)]
    }

    #[test]
    fn a_dependency_with_its_line_passes() {
        assert!(dependencies_are_recorded(&tree("- `subtle`: constant-time comparison.")).is_empty());
    }

    #[test]
    fn a_dependency_without_its_line_is_refused() {
        for record in ["", "subtle without backticks", "`subtle-ng`: another"] {
            let findings = dependencies_are_recorded(&tree(record));
            assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3], "{record}");
        }
    }

    #[test]
    fn only_the_records_count() {
        let mut files = tree("");
        files.push(file("README.md", "`subtle`"));
        assert_eq!(dependencies_are_recorded(&files).len(), 1);
    }

    #[test]
    fn a_crate_takes_its_packages_from_the_table() {
        let mut files = tree("`subtle`");
        files.push(file("crates/tobari-core/Cargo.toml", "[dependencies]\nsubtle.workspace = true\n"));
        assert!(dependencies_are_recorded(&files).is_empty());
        files.push(file("crates/tobari-apps/Cargo.toml", "[dev-dependencies]\nlibc = \"0.2\"\n"));
        assert_eq!(dependencies_are_recorded(&files).len(), 1);
    }
}
