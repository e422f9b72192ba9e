//! `cargo xtask graph`: the crates of the workspace, their sizes, their dependencies on each other,
//! and circles of modules.
//!
//! The crates are read from their manifests, the circles from the source. A circle with a folder is
//! a finding of the step `layout`, unless it is a known circle. A circle of files alone is allowed,
//! and only shown here.

use crate::json::{array, string};
use crate::layout::SourceFile;
use crate::layout::circles::{self, Circle};
use crate::layout::manifest::{Kind, dependencies};
use crate::layout::packages::{Package, packages};
use crate::layout::tree;
use std::collections::BTreeSet;
use std::path::Path;

/// The content of `graph`.
#[derive(Debug)]
struct Graph {
    crates: Vec<Crate>,
    jobs: Vec<String>,
    folders: Vec<Circle>,
    files: Vec<Circle>,
}

#[derive(Debug)]
struct Crate {
    name: String,
    path: String,
    lines: usize,
    /// The crates of the workspace that its product code depends on.
    uses: Vec<String>,
}

/// Prints the graph of the tree under `root`.
///
/// # Errors
/// The reason why the tree could not be read.
pub(crate) fn run(root: &Path, json: bool) -> Result<(), String> {
    let files = tree::read(root).map_err(|error| format!("cannot read the tree: {error}"))?;
    let graph = Graph::of(&files);
    if graph.crates.is_empty() {
        return Err("expected packages of a workspace, found none".to_owned());
    }
    println!("{}", if json { graph.json() } else { graph.text() });
    Ok(())
}

impl Graph {
    fn of(files: &[SourceFile]) -> Self {
        let (folders, alone) = circles::all(files).into_iter().partition(|circle| circle.has_folder);
        Self { crates: crates(files), jobs: jobs(files), folders, files: alone }
    }

    fn lines(&self) -> usize {
        self.crates.iter().map(|found| found.lines).sum()
    }

    fn text(&self) -> String {
        let width = self.crates.iter().map(|found| found.name.len()).max().unwrap_or(0);
        let mut text = format!("{:width$}  {:>7}  uses\n", "crate", "lines");
        for Crate { name, lines, uses, .. } in &self.crates {
            let uses = if uses.is_empty() { "none".to_owned() } else { uses.join(", ") };
            text.push_str(&format!("{name:width$}  {lines:>7}  {uses}\n"));
        }
        text.push_str(&format!("{:width$}  {:>7}\n", "total", self.lines()));
        if !self.jobs.is_empty() {
            text.push_str(&format!("\njobs: {}\n", self.jobs.join(", ")));
        }
        for (what, circles) in [("with a folder", &self.folders), ("of files alone", &self.files)] {
            text.push_str(&format!("\ncircles {what}: {}\n", circles.len()));
            for circle in circles {
                text.push_str(&format!("  {}\n", circle.modules.join(", ")));
                text.push_str(&format!("    {}\n", circle.way()));
            }
        }
        text.trim_end().to_owned()
    }

    fn json(&self) -> String {
        let strings = |words: &[String]| array(words.iter().map(|word| string(word)));
        let crates = self.crates.iter().map(|Crate { name, path, lines, uses }| {
            let (name, path) = (string(name), string(path));
            format!("{{\"name\":{name},\"path\":{path},\"lines\":{lines},\"uses\":{}}}", strings(uses))
        });
        let circles = |circles: &[Circle]| array(circles.iter().map(|circle| strings(&circle.modules)));
        format!(
            "{{\"crates\":{},\"jobs\":{},\"circles\":{},\"file_circles\":{},\"lines\":{}}}",
            array(crates),
            strings(&self.jobs),
            circles(&self.folders),
            circles(&self.files),
            self.lines()
        )
    }
}

fn crates(files: &[SourceFile]) -> Vec<Crate> {
    let packages = packages(files);
    let names: BTreeSet<String> = packages.iter().map(Package::name).collect();
    let read = packages.iter().map(|package| {
        let used = dependencies(&package.manifest.text).into_iter();
        let used = used.filter(|used| used.kind != Kind::Dev && names.contains(&used.name));
        let uses: BTreeSet<String> = used.map(|used| used.name).collect();
        Crate {
            name: package.name(),
            path: package.path.to_owned(),
            lines: package.sources(files).map(|file| file.text.lines().count()).sum(),
            uses: uses.into_iter().collect(),
        }
    });
    read.collect()
}

/// The folders below `jobs/`.
fn jobs(files: &[SourceFile]) -> Vec<String> {
    let inside = files.iter().filter_map(|file| file.path.strip_prefix("jobs/")?.split_once('/'));
    inside.map(|(job, _)| job.to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Vec<SourceFile> {
        let file = |(path, text): (&str, &str)| SourceFile { path: path.to_owned(), text: text.to_owned() };
        [
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\", \"jobs/*\"]\n"),
            ("crates/core/Cargo.toml", "[package]\nname = \"core-of-it\"\n[dependencies]\nserde = \"1\"\n"),
            ("crates/core/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/core/src/a.rs", "use crate::b::B;\n"),
            ("crates/core/src/b.rs", "use crate::a::A;\n"),
            (
                "jobs/sing/Cargo.toml",
                "[package]\nname = \"sing\"\n[dependencies]\ncore-of-it.workspace = true\n[dev-dependencies]\nsing = \"1\"\n",
            ),
            ("jobs/sing/src/lib.rs", "mod x;\nmod y;\n"),
            ("jobs/sing/src/x/mod.rs", "mod deep;\nuse crate::y::Y;\n"),
            ("jobs/sing/src/x/deep.rs", "\n"),
            ("jobs/sing/src/y.rs", "use crate::x::X;\n"),
            ("jobs/README.md", ""),
        ]
        .map(file)
        .to_vec()
    }

    #[test]
    fn the_graph_as_json_is_one_object_of_crates_jobs_circles_and_lines() {
        let expected = concat!(
            r#"{"crates":[{"name":"core-of-it","path":"crates/core","lines":4,"uses":[]},"#,
            r#"{"name":"sing","path":"jobs/sing","lines":6,"uses":["core-of-it"]}],"jobs":["sing"],"#,
            r#""circles":[["sing::x","sing::y"]],"file_circles":[["core_of_it::a","core_of_it::b"]],"lines":10}"#
        );
        assert_eq!(Graph::of(&tree()).json(), expected);
    }

    #[test]
    fn the_graph_as_text_names_the_lines_that_make_a_circle() {
        let expected = "\
crate         lines  uses
core-of-it        4  none
sing              6  core-of-it
total            10

jobs: sing

circles with a folder: 1
  sing::x, sing::y
    x to y at jobs/sing/src/x/mod.rs:2 (crate::y::Y), y to x at jobs/sing/src/y.rs:1 (crate::x::X)

circles of files alone: 1
  core_of_it::a, core_of_it::b
    a to b at crates/core/src/a.rs:1 (crate::b::B), b to a at crates/core/src/b.rs:1 (crate::a::A)";
        assert_eq!(Graph::of(&tree()).text(), expected);
    }
}
